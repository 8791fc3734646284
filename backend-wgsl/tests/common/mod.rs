//! What the tests on a device share: devices opened once, and a run of a case that reads everything
//! back.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::sync::OnceLock;

use lapidary_core::policy::{KernelConfig, RegisterPrefetch, VectorFma, VectorMac};
use lapidary_core::testing::{Case, Stored};
use lapidary_core::{
    AnyMatrixRef, Args, Backend, ElementType, Error, KernelChoice, Layout, Placement, PlanOptions,
    Problem, Shape, TensorSlice, element, oracle,
};
use lapidary_wgsl::decide::{Decision, Tuning};
use lapidary_wgsl::{Wgsl, WgslOptions, WgslPackedB, WgslTensor, wgpu};

/// A device opened with `options`, or `None` and a line that says so where there is no adapter.
///
/// # Panics
/// If an adapter cannot be opened, or if there is none although `LAPIDARY_REQUIRE_GPU` is 1.
fn open(options: &WgslOptions) -> Option<Wgsl> {
    let required = std::env::var("LAPIDARY_REQUIRE_GPU").is_ok_and(|value| value == "1");
    if !required && lapidary_core::testing::block_on(lapidary_wgsl::adapter::list()).is_empty() {
        return None;
    }
    Some(Wgsl::with_options(options).expect("an adapter that was found opens"))
}

fn noted(device: &'static Option<Wgsl>) -> Option<&'static Wgsl> {
    if device.is_none() {
        println!("skipped: no Vulkan adapter");
    }
    device.as_ref()
}

/// Says that the device lists no cooperative matrices of this kind.
///
/// # Panics
/// If `LAPIDARY_REQUIRE_MATRIX_UNITS` is 1.
pub(crate) fn lacks_matrix_units(kind: &str) {
    let required = std::env::var("LAPIDARY_REQUIRE_MATRIX_UNITS").is_ok_and(|value| value == "1");
    assert!(!required, "the device lists no cooperative matrices {kind}");
    println!("skipped: the device lists no cooperative matrices {kind}");
}

/// The adapter with all it has.
pub(crate) fn device() -> Option<&'static Wgsl> {
    static DEVICE: OnceLock<Option<Wgsl>> = OnceLock::new();
    noted(DEVICE.get_or_init(|| open(&WgslOptions::default())))
}

/// The same adapter at `Limits::downlevel_defaults()` with no optional feature.
pub(crate) fn downlevel() -> Option<&'static Wgsl> {
    static DEVICE: OnceLock<Option<Wgsl>> = OnceLock::new();
    noted(DEVICE.get_or_init(|| {
        let limits = wgpu::Limits::downlevel_defaults();
        open(&WgslOptions::default().restrict(limits, wgpu::Features::empty()))
    }))
}

/// The same adapter with run-time checks in its shaders.
pub(crate) fn checked() -> Option<&'static Wgsl> {
    static DEVICE: OnceLock<Option<Wgsl>> = OnceLock::new();
    noted(DEVICE.get_or_init(|| open(&WgslOptions::default().checked(true))))
}

/// The same adapter, planned for as if it were a large GPU that compiles at no cost: sizes are written
/// into the text, operands copied, K cut into slices.
pub(crate) fn tuned() -> Option<&'static Wgsl> {
    static DEVICE: OnceLock<Option<Wgsl>> = OnceLock::new();
    noted(DEVICE.get_or_init(|| {
        let mut tuning = Tuning::HOPPER;
        tuning.specialise_flops = 0.0;
        tuning.copy_reuse = 64;
        tuning.copy_reuse_unaligned = 32;
        open(&WgslOptions::default().tuning(tuning))
    }))
}

/// A device of the test's own, with these options.
pub(crate) fn own(options: &WgslOptions) -> Option<Wgsl> {
    let device = open(options);
    if device.is_none() {
        println!("skipped: no Vulkan adapter");
    }
    device
}

/// Every combination of operand and output type that WGSL computes.
pub(crate) const COMBINATIONS: [(ElementType, ElementType); 14] = {
    use ElementType as E;
    [
        (E::F32, E::F32),
        (E::F32, E::F16),
        (E::F32, E::BF16),
        (E::F16, E::F32),
        (E::F16, E::F16),
        (E::F16, E::BF16),
        (E::BF16, E::F32),
        (E::BF16, E::F16),
        (E::BF16, E::BF16),
        (E::I8, E::I32),
        (E::I8, E::F32),
        (E::I8, E::F16),
        (E::I8, E::BF16),
        (E::I8, E::I8),
    ]
};

/// Every kernel of the seven steps, and those that the backend picks by itself.
///
/// Those two differ in sizes alone, and take a software device seconds to compile; one of them is
/// enough for the types that differ from f32 by their loads only.
pub(crate) fn kernels(operand: ElementType) -> Vec<KernelChoice> {
    let own = match operand {
        ElementType::I8 => {
            vec![KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorMac<8, 8>>()]
        }
        ElementType::F32 => vec![
            KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorFma<8, 8>>(),
            KernelConfig::of::<RegisterPrefetch<128, 128, 16>, VectorFma<8, 16>>(),
        ],
        _ => vec![KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorFma<8, 8>>()],
    };
    let mut all = KernelChoice::all_steps(operand);
    all.extend(own.into_iter().map(KernelChoice::Policy));
    all
}

/// Alpha, beta, bias and activation number `index` of a list that has all of them in exact
/// arithmetic; factors are integers where the output is i32.
///
/// The first three have a kernel each, the others share the first's or have no product.
pub(crate) fn epilogue(problem: Problem, index: usize) -> Problem {
    use lapidary_core::Activation::{None, Relu};
    let (factors, integers, bias, activation) = match index % 6 {
        0 => ([1.0, 0.0], [1.0, 0.0], false, None),
        1 => ([0.5, -1.5], [3.0, -2.0], true, Relu),
        2 => ([-2.0, 1.0], [-2.0, 1.0], false, None),
        3 => ([1.5, 0.0], [5.0, 0.0], false, None),
        4 => ([0.0, 0.5], [0.0, 3.0], true, Relu),
        _ => ([0.0, 0.0], [0.0, 0.0], true, None),
    };
    let [alpha, beta] = if problem.c == ElementType::I32 { integers } else { factors };
    problem.alpha(alpha).beta(beta).bias(bias).activation(activation)
}

/// A whole storage on the device, canaries included.
pub(crate) fn upload(device: &Wgsl, stored: &Stored) -> WgslTensor {
    let tensor = device.alloc(stored.element(), stored.len()).expect("allocates");
    device.upload(&tensor, 0, stored.bytes()).expect("uploads");
    tensor
}

/// Bytes as a tensor of their own.
pub(crate) fn upload_bytes(device: &Wgsl, element: ElementType, bytes: &[u8]) -> WgslTensor {
    let tensor = device.alloc(element, bytes.len() / element.size()).expect("allocates");
    device.upload(&tensor, 0, bytes).expect("uploads");
    tensor
}

/// The whole of a tensor.
pub(crate) fn download(device: &Wgsl, tensor: &WgslTensor) -> Vec<u8> {
    lapidary_core::testing::block_on(device.download(tensor)).expect("downloads")
}

/// A copy of `view` whose rows and matrices start at multiples of four elements, with canaries
/// between them and eight in front: what vector loads of any width can read.
pub(crate) fn aligned(view: AnyMatrixRef<'_>) -> (Vec<u8>, Placement) {
    let shape = view.shape();
    let pitch = (shape.cols + 1).next_multiple_of(4);
    let layout = Layout {
        row_stride: pitch as isize,
        col_stride: 1,
        batch_stride: (pitch * shape.rows + 4) as isize,
    };
    let placement = Placement { offset: 8, shape, layout };
    let len = 8 + shape.batch * (pitch * shape.rows + 4);
    let canaries = Stored::new(
        view.element(),
        Shape::new(1, 0),
        lapidary_core::testing::Arrangement::RowMajor,
        |_, _, _| 0.0,
    );
    let size = view.element().size();
    let mut bytes = canaries.bytes()[..size].repeat(len);
    for batch in 0..shape.batch {
        for row in 0..shape.rows {
            for col in 0..shape.cols {
                let index = 8 + layout.index(batch, row, col) as usize;
                let value = view.get(batch, row, col);
                element::write_f64(view.element(), &mut bytes, index, value);
            }
        }
    }
    (bytes, placement)
}

/// The operands of a case on a device, for any number of runs.
pub(crate) struct Uploaded<'c> {
    pub(crate) case: &'c Case,
    pub(crate) problem: Problem,
    a: (WgslTensor, usize),
    b: (WgslTensor, usize),
    bias: Option<WgslTensor>,
    row_scale: Option<WgslTensor>,
    col_scale: Option<WgslTensor>,
    group_scales: Option<WgslTensor>,
}

impl<'c> Uploaded<'c> {
    /// The operands as the case arranges them.
    pub(crate) fn new(device: &Wgsl, case: &'c Case) -> Self {
        let a = (upload(device, &case.a), case.a.placement().offset);
        Self::with_a(device, case, case.problem.clone(), a)
    }

    /// The same, with A in rows that vector loads can read.
    pub(crate) fn aligned(device: &Wgsl, case: &'c Case) -> Self {
        let (bytes, placement) = aligned(case.a.view());
        let problem = case.problem.clone().a_layout(placement.layout);
        let a = (upload_bytes(device, case.a.element(), &bytes), placement.offset);
        Self::with_a(device, case, problem, a)
    }

    fn with_a(device: &Wgsl, case: &'c Case, problem: Problem, a: (WgslTensor, usize)) -> Self {
        let b = (upload(device, &case.b), case.b.placement().offset);
        let bias = problem.bias.then(|| upload_bytes(device, problem.bias_element(), &case.bias));
        let scales =
            |wanted: bool, bytes| wanted.then(|| upload_bytes(device, ElementType::F32, bytes));
        let row_scale = scales(problem.row_scale, &case.row_scale);
        let col_scale = scales(problem.col_scale, &case.col_scale);
        let group_scales = scales(problem.b_group.is_some(), &case.b_group_scales);
        Self { case, problem, a, b, bias, row_scale, col_scale, group_scales }
    }

    /// The arguments with `c` as the output.
    pub(crate) fn args<'a>(&'a self, c: &'a WgslTensor) -> Args<'a, Wgsl> {
        let args = Args::new(
            TensorSlice::new(&self.a.0, self.a.1),
            TensorSlice::new(&self.b.0, self.b.1),
            TensorSlice::new(c, self.case.c.placement().offset),
        );
        self.with_vectors(args)
    }

    /// The same with B packed.
    pub(crate) fn args_packed<'a>(
        &'a self,
        packed: &'a WgslPackedB,
        c: &'a WgslTensor,
    ) -> Args<'a, Wgsl> {
        let a = TensorSlice::new(&self.a.0, self.a.1);
        let c = TensorSlice::new(c, self.case.c.placement().offset);
        self.with_vectors(Args::with_packed_b(a, packed, c))
    }

    /// B as it is.
    pub(crate) fn b(&self) -> TensorSlice<'_, WgslTensor> {
        TensorSlice::new(&self.b.0, self.b.1)
    }

    fn with_vectors<'a>(&'a self, mut args: Args<'a, Wgsl>) -> Args<'a, Wgsl> {
        args.bias = self.bias.as_ref().map(TensorSlice::from);
        args.row_scale = self.row_scale.as_ref().map(TensorSlice::from);
        args.col_scale = self.col_scale.as_ref().map(TensorSlice::from);
        args.b_group_scales = self.group_scales.as_ref().map(TensorSlice::from);
        args
    }

    /// Runs `kernel` on a fresh C and returns all of C's storage.
    pub(crate) fn run(&self, device: &Wgsl, kernel: KernelChoice) -> Result<Vec<u8>, Error> {
        self.run_with(device, &PlanOptions::kernel(kernel)).map(|(after, _)| after)
    }

    /// The same as `options` say, and the decision that was made.
    pub(crate) fn run_with(
        &self,
        device: &Wgsl,
        options: &PlanOptions,
    ) -> Result<(Vec<u8>, Decision), Error> {
        let plan = device.plan(&self.problem, options)?;
        let c = upload(device, &self.case.c);
        device.execute(&plan, &self.args(&c))?;
        Ok((download(device, &c), plan.decision().clone()))
    }

    /// Runs `kernel` and checks every bit: the view against `expected`, the rest against canaries.
    pub(crate) fn check(&self, device: &Wgsl, kernel: KernelChoice, expected: &oracle::Reference) {
        self.check_with(device, &PlanOptions::kernel(kernel), expected);
    }

    /// The same as `options` say; returns the decision that was made.
    pub(crate) fn check_with(
        &self,
        device: &Wgsl,
        options: &PlanOptions,
        expected: &oracle::Reference,
    ) -> Decision {
        let name = || {
            let p = &self.problem;
            format!(
                "{} on {}x{}x{} batch {} {}x{}->{} alpha {} beta {} bias {} {} scales {} slices {:?} copies {:?}",
                options.kernel.name(),
                p.m,
                p.n,
                p.k,
                p.batch,
                p.a,
                p.b,
                p.c,
                p.alpha,
                p.beta,
                p.bias,
                p.activation,
                p.scale_names(),
                options.k_slices,
                options.copies
            )
        };
        let (after, decision) =
            self.run_with(device, options).unwrap_or_else(|error| panic!("{}: {error}", name()));
        assert_canaries(&self.case.c, &after, name);
        let comparison = expected.compare_exact(&found(&self.case.c, &after));
        assert!(comparison.passed(), "{}: {comparison}", name());
        decision
    }
}

/// Every element outside the matrix has the bits it had.
pub(crate) fn assert_canaries(stored: &Stored, after: &[u8], name: impl Fn() -> String) {
    let broken = stored.broken_canaries(after);
    assert!(broken.is_empty(), "{}: elements {broken:?}, outside the view", name());
}

/// The matrix in what a storage has become.
pub(crate) fn found<'a>(stored: &Stored, after: &'a [u8]) -> AnyMatrixRef<'a> {
    AnyMatrixRef::new(after, stored.element(), stored.placement()).expect("as long as before")
}

/// The oracle's answer for a case; C is filled with NaN (a pattern, for integers) afterwards where
/// beta = 0 says that it is not read.
pub(crate) fn expect(case: &mut Case) -> oracle::Reference {
    let reference = oracle::reference(&case.problem, &case.operands()).expect("a valid case");
    if !case.problem.reads_c() {
        case.c.fill(if case.problem.c.is_float() { f64::NAN } else { 77.0 });
    }
    reference
}
