//! A toy backend, whole, in one file: it gets the whole suite, and the suite sees what is wrong with it.

use std::sync::Mutex;

use lapidary_conformance::adapter::{
    Adapter, Executed, Expectation, Job, Outline, Promises, Refusal, Types, execute_on, misuse_on,
};
use lapidary_conformance::check::{Attempt, Depth, Fault, Misuse, Verdict, check};
use lapidary_conformance::report::BackendReport;
use lapidary_conformance::spec::{Route, Spec};
use lapidary_conformance::suite::{self, Mode, Options, Share};
use lapidary_conformance::tier::Tier;
use lapidary_core::{
    Activation, AnyMatrixMut, AnyMatrixRef, Args, BOperand, Backend, DeviceInfo, ElementType,
    Error, KernelChoice, Operand, Operands, Placement, PlanOptions, PlanSummary, Problem, Progress,
    Tensor, TensorSlice, bf16, element, f16,
};

/// Sums in f32, one element after the other.
#[derive(Debug)]
struct Toy {
    /// A defect to compute with.
    defect: Defect,
    /// What each sum is rounded to after every product.
    sums: ElementType,
}

impl Default for Toy {
    fn default() -> Self {
        Self { defect: Defect::None, sums: ElementType::F32 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Defect {
    #[default]
    None,
    /// The last product of an odd K is left out.
    TailDropped,
    /// C is read although beta is 0.
    CRead,
    /// The first element of the storage is overwritten.
    Stray,
    /// Every second execution is off by one unit in the last place.
    Unsteady,
    /// Operands are taken as they come.
    Unchecked,
    /// A plan keeps the bias of its first execution.
    Remembers,
    /// An outer product panics.
    Panics,
}

#[derive(Debug)]
struct ToyTensor {
    element: ElementType,
    bytes: Mutex<Vec<u8>>,
}

impl ToyTensor {
    fn get(&self) -> Vec<u8> {
        self.bytes.lock().expect("no test panics with it").clone()
    }
}

impl Tensor for ToyTensor {
    fn element(&self) -> ElementType {
        self.element
    }
    fn len(&self) -> usize {
        self.element.capacity(self.get().len())
    }
    fn same_allocation(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// A vector's storage, and where in it the vector starts.
type Vector = (Vec<u8>, usize);

#[derive(Debug)]
struct ToyPlan {
    problem: Problem,
    summary: PlanSummary,
    /// The bias of the first execution, if there was one.
    bias: Mutex<Option<Option<Vector>>>,
}

/// A copy of B, in no particular order, and its K and N.
#[derive(Debug)]
struct ToyPacked(Vec<u8>, usize, [usize; 2]);

static RUNS: Mutex<u32> = Mutex::new(0);

impl Toy {
    fn compute(
        &self,
        problem: &Problem,
        [a, b]: [AnyMatrixRef<'_>; 2],
        bias: Option<&[f32]>,
        mut c: AnyMatrixMut<'_>,
    ) -> Result<(), Error> {
        let Problem { m, n, k, batch, .. } = *problem;
        let k = if problem.reads_factors() { k } else { 0 };
        let k = if self.defect == Defect::TailDropped { k / 2 * 2 } else { k };
        let (alpha, beta) = (problem.alpha as f32, problem.beta as f32);
        let place = c.placement();
        for (batch, row, col) in
            (0..batch).flat_map(|b| (0..m).flat_map(move |r| (0..n).map(move |c| (b, r, c))))
        {
            let mut sum = 0.0f32;
            for k in 0..k {
                sum += a.get(batch, row, k) as f32 * b.get(batch, k, col) as f32;
                sum = match self.sums {
                    ElementType::F16 => f16::from_f32(sum).to_f32(),
                    ElementType::BF16 => bf16::from_f32(sum).to_f32(),
                    _ => sum,
                };
            }
            let mut x = alpha * sum;
            if problem.reads_c() || self.defect == Defect::CRead {
                x += beta * c.as_ref().get(batch, row, col) as f32;
            }
            if let Some(bias) = bias {
                x += bias[col];
            }
            let mut y = problem.activation.apply(f64::from(x)) as f32;
            if self.defect == Defect::Unsteady {
                let mut runs = RUNS.lock().expect("no test panics with it");
                *runs += 1;
                y = f32::from_bits(y.to_bits() ^ u32::from(runs.is_multiple_of(5)));
            }
            let index = place.offset as i128 + place.layout.index(batch, row, col);
            element::write_f64(problem.c, c.bytes_mut(), index as usize, f64::from(y));
        }
        if self.defect == Defect::Stray && !problem.is_empty() {
            c.bytes_mut()[0] ^= 1;
        }
        Ok(())
    }
}

impl Backend for Toy {
    type Tensor = ToyTensor;
    type Plan = ToyPlan;
    type PackedB = ToyPacked;

    fn info(&self) -> DeviceInfo {
        let mut info = DeviceInfo::new("toy", "a toy", "none");
        info.elements = vec![ElementType::F32, ElementType::F16];
        info
    }

    fn alloc(&self, element: ElementType, len: usize) -> Result<ToyTensor, Error> {
        let size = element.bytes_for(len);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| Error::OutOfMemory {
            requested: size as u64,
            what: "a tensor".into(),
            device: "toy".into(),
        })?;
        bytes.resize(size, 0);
        Ok(ToyTensor { element, bytes: Mutex::new(bytes) })
    }

    fn upload(&self, tensor: &ToyTensor, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        tensor.element.written(bytes.len(), offset, tensor.len())?;
        let start = offset * tensor.element.size();
        let mut to = tensor.bytes.lock().expect("no test panics with it");
        to[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    async fn download(&self, tensor: &ToyTensor) -> Result<Vec<u8>, Error> {
        Ok(tensor.get())
    }

    fn plan(&self, problem: &Problem, options: &PlanOptions) -> Result<ToyPlan, Error> {
        problem.validate()?;
        let [element, b, c] = [problem.a, problem.b, problem.c];
        if !TYPES.contains(&Types::of(element, b, c)) {
            let (backend, needs) = ("toy".into(), "f32 or f16");
            return Err(Error::ElementTypeUnavailable { backend, element, needs });
        }
        if problem.has_scales() {
            return Err(Error::ScalesUnavailable {
                what: "toy".into(),
                scales: problem.scale_names(),
                needs: "another backend",
            });
        }
        if options.kernel != KernelChoice::Auto {
            let reason = "there is one kernel".into();
            return Err(Error::KernelUnsuitable { kernel: options.kernel.name(), reason });
        }
        Ok(ToyPlan {
            problem: problem.clone(),
            summary: PlanSummary::new("toy_loop", "the only one"),
            bias: Mutex::default(),
        })
    }

    fn summary<'p>(&self, plan: &'p ToyPlan) -> &'p PlanSummary {
        &plan.summary
    }

    fn execute(&self, plan: &ToyPlan, args: &Args<'_, Self>) -> Result<(), Error> {
        let problem = &plan.problem;
        if self.defect != Defect::Unchecked {
            args.check(problem)?;
        }
        if problem.is_empty() {
            return Ok(());
        }
        assert!(self.defect != Defect::Panics || problem.k != 1, "an outer product");
        let (a, mut bias) =
            (args.a.tensor.get(), args.bias.map(|bias| (bias.tensor.get(), bias.offset)));
        if self.defect == Defect::Remembers {
            let mut first = plan.bias.lock().expect("no test panics with it");
            bias = first.get_or_insert(bias).clone();
        }
        let (b, b_offset) = match &args.b {
            BOperand::Plain(b) => (b.tensor.get(), b.offset),
            BOperand::Packed(packed) if packed.2 == [problem.k, problem.n] => {
                (packed.0.clone(), packed.1)
            }
            BOperand::Packed(packed) => {
                return Err(Error::PackedMismatch {
                    found: format!("{:?}", packed.2),
                    expected: format!("{:?}", [problem.k, problem.n]),
                });
            }
            _ => unreachable!("there are two forms of B"),
        };
        let place = |offset, shape, layout| Placement { offset, shape, layout };
        // A and B are not looked at where they are not read: an empty view stands for them.
        let nothing = lapidary_core::Shape::new(0, 0);
        let reads = problem.reads_factors();
        let a_shape = if reads { problem.a_shape() } else { nothing };
        let b_shape = if reads { problem.b_shape() } else { nothing };
        let a = AnyMatrixRef::new(&a, problem.a, place(args.a.offset, a_shape, problem.a_layout))?;
        let b = AnyMatrixRef::new(&b, problem.b, place(b_offset, b_shape, problem.b_layout))?;
        let bias: Option<Vec<f32>> = bias.map(|(bytes, offset)| {
            (0..problem.n)
                .map(|i| element::read_f64(ElementType::F32, &bytes, offset + i) as f32)
                .collect()
        });
        let mut c = args.c.tensor.bytes.lock().expect("no test panics with it");
        let c_place = place(args.c.offset, problem.c_shape(), problem.c_layout);
        let c = AnyMatrixMut::from_bytes(&mut c, problem.c, c_place)?;
        self.compute(problem, [a, b], bias.as_deref(), c)
    }

    fn pack_b(&self, plan: &ToyPlan, b: TensorSlice<'_, ToyTensor>) -> Result<ToyPacked, Error> {
        let problem = &plan.problem;
        let (found, expected) = (b.tensor.element, problem.b);
        if found != expected {
            return Err(Error::ElementTypeMismatch { operand: Operand::B, found, expected });
        }
        let (shape, layout) = (problem.b_shape(), problem.b_layout);
        Placement { offset: b.offset, shape, layout }.check_bounds(b.tensor.len())?;
        Ok(ToyPacked(b.tensor.get(), b.offset, [problem.k, problem.n]))
    }

    async fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn run_host(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        operands: &Operands<'_>,
        c: AnyMatrixMut<'_>,
        _: &dyn Fn(Progress),
    ) -> Result<PlanSummary, Error> {
        let plan = self.plan(problem, options)?;
        let bias: Option<Vec<f32>> =
            operands.bias.map(|bias| (0..bias.len()).map(|i| bias.get(i) as f32).collect());
        self.compute(problem, [operands.a, operands.b], bias.as_deref(), c)?;
        Ok(plan.summary)
    }
}

/// The adapter: this is all that a backend needs for the suite.
struct ToyAdapter(Toy, Option<ElementType>);

const TYPES: [Types; 3] = {
    use ElementType as E;
    [
        Types::of(E::F32, E::F32, E::F32),
        Types::of(E::F16, E::F16, E::F32),
        Types::of(E::F16, E::F16, E::F16),
    ]
};

impl Adapter for ToyAdapter {
    fn name(&self) -> &str {
        "toy"
    }
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn promises(&self) -> Promises {
        Promises::all()
    }
    fn types(&self) -> Vec<Types> {
        TYPES.to_vec()
    }
    fn kernels(&self, types: Types) -> Vec<KernelChoice> {
        if self.types().contains(&types) { vec![KernelChoice::Auto] } else { Vec::new() }
    }
    fn kernel_names(&self) -> Vec<String> {
        vec!["toy_loop".into()]
    }
    fn expect(&self, _: &KernelChoice, case: &Outline, _: Route) -> Expectation {
        let problem = &case.problem;
        if !TYPES.contains(&Types::of(problem.a, problem.b, problem.c)) {
            return Expectation::Refused(Refusal::ElementType);
        }
        if problem.has_scales() {
            return Expectation::Refused(Refusal::Scales);
        }
        Expectation::Runs
    }
    fn sum_type(&self, _: &KernelChoice) -> Option<ElementType> {
        self.1
    }
    fn has_scales(&self) -> bool {
        false
    }
    fn large_side(&self) -> usize {
        200
    }

    fn reach(&self) -> f64 {
        1e5
    }
    fn misuse(&self, misuse: Misuse) -> Result<Attempt<()>, Fault> {
        misuse_on(&self.0, None, misuse)
    }
    fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        execute_on(&self.0, job)
    }
}

fn run(defect: Defect) -> BackendReport {
    run_toy(&ToyAdapter(Toy { defect, ..Toy::default() }, None))
}

fn run_toy(adapter: &ToyAdapter) -> BackendReport {
    let share = Share { cases: 120, per_build: 12 };
    suite::run(adapter, &Options::new(Mode::Quick), share, &|_, _| {}).expect("the cases are valid")
}

#[test]
fn a_right_backend_passes_everything() {
    let report = run(Defect::None);
    assert!(report.failures.is_empty(), "{:#?}", report.failures);
    assert!(report.cases >= 120 && report.distinct >= 120, "{} {}", report.cases, report.distinct);
    assert!(report.passed(), "not run {:?}, not listed {:?}", report.missing, report.unlisted);
    let total = report.total();
    assert!(total.refused.values().sum::<usize>() > 0, "types and scales it lacks are refused");
    assert!(report.special.len() > 20 && report.special.iter().all(|seen| seen.as_ieee));
    let lacks = Misuse::ALL
        .iter()
        .filter(|misuse| misuse.has_scales() || matches!(misuse, Misuse::OtherDevice(_)));
    assert_eq!(report.misuses, Misuse::ALL.len() - lacks.count(), "scales, a second device");
    assert!(report.large > 0 && report.relations.len() == 4, "{:?}", report.relations);
}

/// What nobody checks is computed with: the forbidden calls show it, and right calls never do.
#[test]
fn operands_that_are_not_checked_are_noticed() {
    let adapter = ToyAdapter(Toy { defect: Defect::Unchecked, ..Toy::default() }, None);
    let alias = adapter.misuse(Misuse::Alias(Operand::Bias));
    let fault = alias.expect_err("C in the bias's tensor was taken");
    assert_eq!(fault.tier, Tier::Acceptance);
    assert!(fault.message.contains("accepted, expected Aliasing"), "{}", fault.message);
    let missing = adapter.misuse(Misuse::Missing(Operand::Bias));
    assert!(missing.is_err(), "a product without its bias");
    assert_eq!(adapter.misuse(Misuse::UploadPastEnd), Ok(Attempt::Done(())));
}

/// A tier of which a backend has nothing is left out by name; checks at run time are an emulator's.
#[test]
fn a_tier_that_a_backend_has_not_is_left_out() {
    let adapter = ToyAdapter(Toy::default(), None);
    let mut options = Options::new(Mode::Quick);
    options.tiers = vec![Tier::Checks];
    let share = Share { cases: 120, per_build: 12 };
    let report = suite::run(&adapter, &options, share, &|_, _| {}).expect("the cases are valid");
    assert_eq!((report.checks, report.cases), (0, 0));
    let left_out: Vec<_> = report.left_out.keys().collect();
    assert!(left_out.len() == 1 && left_out[0].starts_with("checks: "), "{left_out:?}");
}

#[test]
fn each_defect_is_noticed_by_its_tier() {
    for (defect, tier) in [
        (Defect::TailDropped, Tier::Exact),
        (Defect::CRead, Tier::Exact),
        (Defect::Stray, Tier::Canaries),
        (Defect::Unsteady, Tier::Exact),
        (Defect::Remembers, Tier::Determinism),
        (Defect::Panics, Tier::Acceptance),
    ] {
        let report = run(defect);
        let noticed = report.failures.iter().any(|failure| failure.tier == tier);
        assert!(noticed, "{defect:?}: {:#?}", report.failures.first());
        let shrunk = report.failures.iter().filter_map(|failure| failure.shrunk.as_ref());
        let replay = report.failures.iter().all(|f| f.replay.contains("--seed 1"));
        assert!(shrunk.count() > 0 && replay, "{defect:?}");
    }
}

/// Sums in f16 fail where nobody says so, and pass where somebody does; what is worse than that, or wrong
/// besides, fails all the same.
#[test]
fn sums_in_a_narrower_type_are_judged_as_what_they_are() {
    let run = |sums, defect, said| run_toy(&ToyAdapter(Toy { defect, sums }, said));
    let (half, brain) = (ElementType::F16, ElementType::BF16);
    for (sums, defect, said, tiers) in [
        (half, Defect::None, None, &[Tier::Statistical][..]),
        (half, Defect::TailDropped, Some(half), &[Tier::Exact]),
        (brain, Defect::None, Some(half), &[Tier::Exact, Tier::Statistical]),
    ] {
        let report = run(sums, defect, said);
        for tier in tiers {
            let noticed = report.failures.iter().any(|failure| failure.tier == *tier);
            assert!(noticed, "{sums}, {defect:?}, {said:?}: not by {tier:?}");
        }
    }
    let right = run(half, Defect::None, Some(half));
    assert!(right.passed() && right.failures.is_empty(), "{:#?}", right.failures);
    assert!(right.total().metrics.units.value < 8.0 && right.large > 0);
    // A kernel that sums better than it was asked to is right as well.
    let better = run(ElementType::F32, Defect::None, Some(half));
    assert!(better.failures.is_empty(), "{:#?}", better.failures);
    // Past 2048 ones there is no exact sum, and no bound: fewer products, and a tier less.
    let mut long = Spec::new("long", "K is past what f16 counts to", [12, 13, 3001]);
    for (sums, defect, passes) in [
        (half, Defect::None, true),
        (half, Defect::TailDropped, false),
        (brain, Defect::None, false),
    ] {
        let adapter = ToyAdapter(Toy { defect, sums }, Some(half));
        for activation in [Activation::None, Activation::Silu] {
            long.activation = activation;
            let outcome = check(&adapter, KernelChoice::Auto, &long, 1, &Depth::full());
            let passed = outcome.verdict == Verdict::Passed;
            assert_eq!(passed, passes, "{sums}, {defect:?}, {activation}: {:?}", outcome.verdict);
            assert!(!passes || outcome.left_out.len() == 2, "{:?}", outcome.left_out);
        }
    }
}
