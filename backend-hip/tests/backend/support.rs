//! Devices, and running a case on one.

use lapidary_core::oracle::{self, Comparison};
use lapidary_core::testing::{Case, Stored, block_on};
use lapidary_core::{
    AnyMatrixRef, Args, Backend, ElementType, Error, Gemm, PlanOptions, TensorSlice,
};
use lapidary_hip::{Hip, HipTensor, Target};

/// The targets that are emulated.
pub(crate) const TARGETS: [Target; 2] = [Target::Gfx942, Target::Gfx950];

/// An emulated device, or a line that says why there is none.
pub(crate) fn device(target: Target) -> Option<Hip> {
    match Hip::emulated(target) {
        Ok(device) => Some(device),
        Err(Error::NoDevice { reason }) if reason.contains("no HIP compiler found") => {
            eprintln!("skipped: {reason}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A host array as a tensor, and where its matrix starts.
pub(crate) struct Uploaded {
    pub(crate) tensor: HipTensor,
    offset: usize,
}

impl Uploaded {
    pub(crate) fn matrix(device: &Hip, stored: &Stored) -> Self {
        let tensor = device.alloc(stored.element(), stored.len()).expect("memory");
        device.upload(&tensor, 0, stored.bytes()).expect("an upload");
        Self { tensor, offset: stored.placement().offset }
    }

    pub(crate) fn vector(device: &Hip, bytes: &[u8], element: ElementType) -> Self {
        let tensor = device.alloc(element, element.capacity(bytes.len())).expect("memory");
        device.upload(&tensor, 0, bytes).expect("an upload");
        Self { tensor, offset: 0 }
    }

    pub(crate) fn nothing(device: &Hip, element: ElementType) -> Self {
        Self { tensor: device.alloc(element, 0).expect("memory"), offset: 0 }
    }

    pub(crate) fn slice(&self) -> TensorSlice<'_, HipTensor> {
        TensorSlice::new(&self.tensor, self.offset)
    }
}

/// A case's operands on a device.
pub(crate) struct OnDevice {
    pub(crate) a: Uploaded,
    pub(crate) b: Uploaded,
    pub(crate) c: Uploaded,
    bias: Option<Uploaded>,
    row_scale: Option<Uploaded>,
    col_scale: Option<Uploaded>,
    a_block_scales: Option<Uploaded>,
    b_block_scales: Option<Uploaded>,
}

impl OnDevice {
    pub(crate) fn new(device: &Hip, case: &Case) -> Self {
        let problem = &case.problem;
        let vector = |wanted: bool, bytes: &[u8], element: ElementType| {
            wanted.then(|| Uploaded::vector(device, bytes, element))
        };
        Self {
            a: Uploaded::matrix(device, &case.a),
            b: Uploaded::matrix(device, &case.b),
            c: Uploaded::matrix(device, &case.c),
            bias: vector(problem.bias, &case.bias, problem.bias_element()),
            row_scale: vector(problem.row_scale, &case.row_scale, ElementType::F32),
            col_scale: vector(problem.col_scale, &case.col_scale, ElementType::F32),
            a_block_scales: vector(problem.block_scales, &case.a_block_scales, ElementType::E8M0),
            b_block_scales: vector(problem.block_scales, &case.b_block_scales, ElementType::E8M0),
        }
    }

    pub(crate) fn args(&self) -> Args<'_, Hip> {
        let mut args = Args::new(self.a.slice(), self.b.slice(), self.c.slice());
        self.add_vectors(&mut args);
        args
    }

    pub(crate) fn add_vectors<'a>(&'a self, args: &mut Args<'a, Hip>) {
        args.bias = self.bias.as_ref().map(Uploaded::slice);
        args.row_scale = self.row_scale.as_ref().map(Uploaded::slice);
        args.col_scale = self.col_scale.as_ref().map(Uploaded::slice);
        args.a_block_scales = self.a_block_scales.as_ref().map(Uploaded::slice);
        args.b_block_scales = self.b_block_scales.as_ref().map(Uploaded::slice);
    }
}

/// What a case left behind.
pub(crate) struct Outcome {
    pub(crate) kernel: String,
    pub(crate) notes: Vec<String>,
    /// C's storage.
    pub(crate) after: Vec<u8>,
}

/// Plans and executes a case on device tensors; complains about canaries and changed inputs.
pub(crate) fn execute(device: &Hip, case: &Case, options: &PlanOptions) -> Outcome {
    let name = format!("{} {:?}", device.target(), case.problem);
    let plan = Gemm::<Hip>::plan(device, &case.problem, options);
    let plan = plan.unwrap_or_else(|error| panic!("{name}: {error}"));
    let on_device = OnDevice::new(device, case);
    plan.execute(&on_device.args()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let after = block_on(device.download(&on_device.c.tensor)).expect("C comes back");
    let summary = plan.summary();
    let (kernel, notes) = (summary.kernel.clone(), summary.notes.clone());
    let broken = case.c.broken_canaries(&after);
    assert!(broken.is_empty(), "{name} {kernel} {notes:?}: {broken:?}");
    for (stored, uploaded) in [(&case.a, &on_device.a), (&case.b, &on_device.b)] {
        let left = block_on(device.download(&uploaded.tensor)).expect("an input comes back");
        assert!(left == stored.bytes(), "{name}: an input has changed");
    }
    Outcome { kernel, notes, after }
}

/// Compares C's storage with the oracle, bit for bit where `exact`.
pub(crate) fn compare(case: &Case, after: &[u8], exact: bool) -> Comparison {
    let found = AnyMatrixRef::new(after, case.c.element(), case.c.placement()).expect("a view");
    let reference = oracle::reference(&case.problem, &case.operands()).expect("a reference");
    if exact { reference.compare_exact(&found) } else { reference.compare(&found) }
}

/// Runs a case and demands the exact result.
pub(crate) fn check_exact(device: &Hip, case: &Case, options: &PlanOptions) -> Outcome {
    let outcome = execute(device, case, options);
    let comparison = compare(case, &outcome.after, true);
    assert!(
        comparison.passed(),
        "{} {:?} by {} {:?}: {comparison}",
        device.target(),
        case.problem,
        outcome.kernel,
        outcome.notes
    );
    outcome
}
