//! Running a step on the emulator, every check on, against the oracle.

use std::sync::Arc;

use lapidary_cdna::exec::{Counters, Launch, Machine, Order, Prepared};
use lapidary_cdna::loader::{ArgValue, CodeObject};
use lapidary_core::oracle::{self, Reference};
use lapidary_core::testing::{Case, Stored};
use lapidary_core::{AnyMatrixRef, ElementType, Layout, Placement, Problem, element};
use lapidary_hip::compile::Compiler;
use lapidary_hip::preshuffle::EpilogueTraits;
use lapidary_hip::steps::{Params, StepConfig};

/// The epilogue a kernel must be compiled with for a problem.
pub(super) fn epilogue(problem: &Problem) -> EpilogueTraits {
    EpilogueTraits {
        beta: problem.reads_c(),
        bias: problem.bias,
        activation: problem.activation,
        ..EpilogueTraits::default()
    }
}

/// The element type of a step's operands.
pub(super) fn operand(config: &StepConfig) -> ElementType {
    if config.element_bytes() == 2 { ElementType::F16 } else { ElementType::F32 }
}

/// A copy of A whose rows and matrices start at multiples of four elements, as vector loads demand,
/// with canaries between them and eight in front.
fn aligned(view: AnyMatrixRef<'_>) -> (Vec<u8>, Placement) {
    let shape = view.shape();
    let pitch = (shape.cols + 1).next_multiple_of(4);
    let layout = Layout {
        row_stride: pitch as isize,
        col_stride: 1,
        batch_stride: (pitch * shape.rows + 4) as isize,
    };
    let placement = Placement { offset: 8, shape, layout };
    let len = 8 + shape.batch * (pitch * shape.rows + 4);
    let mut bytes = Vec::new();
    for _ in 0..len {
        bytes.extend(element::pack_f64(view.element(), &[f64::NAN]));
    }
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

/// Compiles the step for the case's epilogue and runs it; gives all of C's storage, canaries included.
pub(super) fn run(compiler: &Compiler, config: &StepConfig, case: &Case, order: Order) -> Vec<u8> {
    run_counting(compiler, config, case, order).0
}

/// As [`run`], and what the emulator counted.
pub(super) fn run_counting(
    compiler: &Compiler,
    config: &StepConfig,
    case: &Case,
    order: Order,
) -> (Vec<u8>, Counters) {
    let problem = &case.problem;
    let config = StepConfig { epilogue: epilogue(problem), ..*config };
    let object = compiler.compile(&config.request().expect("valid")).expect("it compiles");
    let object = Arc::new(CodeObject::parse(&object.bytes).expect("a code object"));
    let kernel = Prepared::new(&object, "gemm").expect("the kernel decodes");

    let (a, a_place) = if config.load_width > 1 {
        aligned(case.a.view())
    } else {
        (case.a.bytes().to_vec(), case.a.placement())
    };
    let mut machine = Machine::new();
    let memory = &mut machine.memory;
    // An empty operand still has an address.
    let filled = |bytes: &[u8]| if bytes.is_empty() { vec![0; 4] } else { bytes.to_vec() };
    let mut input = |name: &str, bytes: &[u8], offset: usize, size: usize| {
        memory.alloc_read_only(name, &filled(bytes)).expect("memory") + (offset * size) as u64
    };
    let size = case.a.element().size();
    let (b_place, c_place) = (case.b.placement(), case.c.placement());
    let a = input("A", &a, a_place.offset, size);
    let b = input("B", case.b.bytes(), b_place.offset, size);
    let bias = input("bias", &case.bias, 0, 4);
    let c_base = memory.alloc_from("C", &filled(case.c.bytes())).expect("memory");
    let strides = |layout: Layout| {
        [layout.row_stride, layout.col_stride, layout.batch_stride].map(|stride| stride as i64)
    };
    let [a_row, a_col, a_batch] = strides(a_place.layout);
    let [b_row, b_col, b_batch] = strides(b_place.layout);
    let [c_row, c_col, c_batch] = strides(c_place.layout);
    let params = Params {
        a,
        b,
        c: c_base + (c_place.offset * 4) as u64,
        bias,
        a_row,
        a_col,
        a_batch,
        b_row,
        b_col,
        b_batch,
        c_row,
        c_col,
        c_batch,
        m: problem.m as u32,
        n: problem.n as u32,
        // alpha = 0 reads neither factor.
        k: if problem.reads_factors() { problem.k as u32 } else { 0 },
        batch: problem.batch as u32,
        alpha: problem.alpha as f32,
        beta: problem.beta as f32,
    };
    let launch = params.launch(&config).expect("the grid fits");
    let report = machine
        .launch(
            &kernel,
            &Launch {
                grid: launch.grid,
                workgroup: [launch.threads[0], launch.threads[1], 1],
                args: vec![ArgValue::Bytes(bytemuck::bytes_of(&params).to_vec())],
                order,
                ..Launch::default()
            },
        )
        .unwrap_or_else(|e| panic!("{}: {e}", name(&config, case)));
    for finding in report.findings.iter().take(5) {
        eprintln!("{finding}");
    }
    assert!(report.is_clean(), "{}: {} findings", name(&config, case), report.findings.len());
    let after = machine.memory.read(c_base, case.c.bytes().len()).expect("C").to_vec();
    let broken = case.c.broken_canaries(&after);
    assert!(broken.is_empty(), "{}: elements {broken:?} beside C", name(&config, case));
    (after, report.counters)
}

/// A name for messages.
pub(super) fn name(config: &StepConfig, case: &Case) -> String {
    let p = &case.problem;
    format!(
        "{} {config} at {}x{}x{} batch {} alpha {} beta {} bias {} {}",
        config.target, p.m, p.n, p.k, p.batch, p.alpha, p.beta, p.bias, p.activation
    )
}

/// The matrix in what C's storage has become.
pub(super) fn found<'a>(stored: &Stored, after: &'a [u8]) -> AnyMatrixRef<'a> {
    AnyMatrixRef::new(after, stored.element(), stored.placement()).expect("as long as before")
}

/// The oracle's answer; C is filled with NaN afterwards where beta = 0 says that it is not read.
pub(super) fn expect(case: &mut Case) -> Reference {
    let reference = oracle::reference(&case.problem, &case.operands()).expect("a valid case");
    if !case.problem.reads_c() {
        case.c.fill(f64::NAN);
    }
    reference
}

/// Runs a case of small integers and compares every bit.
pub(super) fn check_exact(
    compiler: &Compiler,
    config: &StepConfig,
    case: &Case,
    expected: &Reference,
) {
    let after = run(compiler, config, case, Order::RoundRobin);
    let comparison = expected.compare_exact(&found(&case.c, &after));
    assert!(comparison.passed(), "{}: {comparison}", name(config, case));
}
