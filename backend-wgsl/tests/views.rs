//! Strided views, executed inside larger tensors whose every other element must keep its bits.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{
    Args, Backend, ElementType, Error, Gemm, KernelChoice, Layout, Placement, PlanOptions, Problem,
    Shape, TensorSlice, oracle,
};
use lapidary_wgsl::{Wgsl, WgslTensor, wgpu};

/// Runs `kernel` on the case as it is arranged; `None` where A's strides do not allow its vectors.
fn run(device: &Wgsl, case: &Case, kernel: KernelChoice) -> Option<Vec<u8>> {
    match Uploaded::new(device, case).run(device, kernel) {
        Ok(after) => Some(after),
        Err(Error::Misaligned { .. } | Error::KernelUnsuitable { .. })
            if matches!(kernel, KernelChoice::Vectorized { width: 2 | 4 }) =>
        {
            None
        }
        Err(error) => panic!("{}: {error}", kernel.name()),
    }
}

/// Transposed, column-major, reversed, spread, sub-matrix and repeated-row inputs give what their
/// copies give, by every kernel.
#[test]
fn input_views_equal_their_copies() {
    let Some(device) = common::device() else { return };
    let (mut compared, mut refused) = (0, 0);
    for operand in [ElementType::F32, ElementType::BF16, ElementType::I8] {
        let output = operand.accumulator();
        for (index, arrangement) in Arrangement::INPUTS.into_iter().enumerate() {
            // Each arrangement as A and, further on in the list, as B.
            let other = Arrangement::INPUTS[(index + 4) % Arrangement::INPUTS.len()];
            let problem = Problem::new(67, 35, 19).elements(operand, output).batch(2);
            let mut case = Case::new(problem, Values::SmallIntegers(5), index as u64).arranged(
                arrangement,
                other,
                Arrangement::Padded,
            );
            let expected = common::expect(&mut case);
            for kernel in common::kernels(operand) {
                let Some(after) = run(device, &case, kernel) else {
                    refused += 1;
                    continue;
                };
                let name = || format!("{} A {arrangement:?} B {other:?}", kernel.name());
                common::assert_canaries(&case.c, &after, name);
                let comparison = expected.compare_exact(&common::found(&case.c, &after));
                assert!(comparison.passed(), "{}: {comparison}", name());
                compared += 1;
            }
        }
    }
    println!("{compared} compared, {refused} refused for vector loads");
    assert!(compared > 300);
}

/// Every arrangement of C by every kernel, C read (beta ≠ 0) and not read.
#[test]
fn output_views_are_written_and_nothing_else_is() {
    let Some(device) = common::device() else { return };
    for arrangement in Arrangement::OUTPUTS {
        for (index, shape) in [[19, 70, 5], [130, 1, 3], [1, 33, 2]].into_iter().enumerate() {
            let [m, n, k] = shape;
            let problem = common::epilogue(Problem::new(m, n, k).batch(2), index);
            let mut case = Case::new(problem, Values::SmallIntegers(5), index as u64).arranged(
                Arrangement::Dense,
                Arrangement::ColMajor,
                arrangement,
            );
            let expected = common::expect(&mut case);
            let uploaded = Uploaded::aligned(device, &case);
            for kernel in common::kernels(ElementType::F32) {
                uploaded.check(device, kernel, &expected);
            }
        }
    }
}

/// A matrix inside a buffer of the program's own: the bytes around the tensor keep their bits, those
/// in the words that hold its first and last elements included.
struct Surrounded {
    whole: WgslTensor,
    tensor: WgslTensor,
    before: Vec<u8>,
}

impl Surrounded {
    /// `len` elements from byte `byte_offset` of a buffer of pattern bytes.
    fn new(device: &Wgsl, byte_offset: usize, element: ElementType, len: usize) -> Self {
        let bytes = (byte_offset + len * element.size()).next_multiple_of(4) + 64;
        let buffer = device.device().create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes as u64,
            usage: wgpu::BufferUsages::STORAGE
                | wgpu::BufferUsages::COPY_SRC
                | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let before: Vec<u8> = (0..bytes).map(|i| (i * 37 + 11) as u8).collect();
        device.queue().write_buffer(&buffer, 0, &before);
        let whole = WgslTensor::from_buffer(buffer.clone(), 0, ElementType::I8, bytes);
        let tensor = WgslTensor::from_buffer(buffer, byte_offset as u64, element, len);
        Self { whole: whole.expect("fits"), tensor: tensor.expect("fits"), before }
    }

    /// Indices of the bytes that changed since the start.
    fn changed(&self, device: &Wgsl) -> Vec<usize> {
        let after = common::download(device, &self.whole);
        (0..after.len()).filter(|&i| after[i] != self.before[i]).collect()
    }
}

/// Outputs of 16 and 8 bits share words with their neighbours: odd counts, odd offsets, column-major
/// and reversed views, rows of less than a word.
#[test]
fn small_elements_leave_their_neighbours_in_a_word_alone() {
    let Some(device) = common::device() else { return };
    let layouts = |m: usize, n: usize| {
        let reversed = Layout { row_stride: -(n as isize), ..Layout::row_major(m, n) };
        let wide = Layout { row_stride: n as isize + 1, col_stride: 1, batch_stride: 0 };
        [
            (Layout::row_major(m, n), 0),
            (Layout::col_major(m, n), 0),
            (reversed, (m - 1) * n),
            (wide, 0),
        ]
    };
    let mut runs = 0;
    for (operand, output) in [
        (ElementType::F32, ElementType::F16),
        (ElementType::F32, ElementType::BF16),
        (ElementType::I8, ElementType::I8),
    ] {
        for [m, n] in [[1, 1], [3, 1], [1, 3], [5, 7], [9, 2], [2, 33]] {
            for (layout, first) in layouts(m, n) {
                for (offset, beta) in [(0, 0.0), (1, 0.0), (2, 1.0), (3, -1.0)] {
                    let problem = Problem::new(m, n, 3).elements(operand, output).beta(beta);
                    let mut case = Case::new(problem, Values::SmallIntegers(3), 5);
                    let reference = common::expect(&mut case);
                    let problem = case.problem.clone().c_layout(layout);
                    let place =
                        Placement { offset: offset + first, shape: Shape::new(m, n), layout };
                    let len = place.span().expect("not empty").end + 3;
                    let around = Surrounded::new(device, 260, output, len);
                    // What beta scales, element by element, so that neighbours keep the pattern.
                    let index = |r, c| (place.offset as i128 + layout.index(0, r, c)) as usize;
                    for (r, c) in (0..m).flat_map(|r| (0..n).map(move |c| (r, c))) {
                        let mut bytes = vec![0; output.size()];
                        let value = case.c.view().get(0, r, c);
                        lapidary_core::element::write_f64(output, &mut bytes, 0, value);
                        device.upload(&around.tensor, index(r, c), &bytes).expect("uploads");
                    }
                    let plan = Gemm::<Wgsl>::plan(device, &problem, &PlanOptions::default());
                    let (a, b) = (common::upload(device, &case.a), common::upload(device, &case.b));
                    let c = TensorSlice::new(&around.tensor, place.offset);
                    plan.expect("plans").execute(&Args::new(&a, &b, c)).expect("executes");

                    let name = format!("{output} {m}x{n} {layout:?} at {offset}");
                    let after = common::download(device, &around.tensor);
                    let view = lapidary_core::AnyMatrixRef::new(&after, output, place);
                    let comparison = reference.compare_exact(&view.expect("fits"));
                    assert!(comparison.passed(), "{name}: {comparison}");
                    let size = output.size();
                    let mut inside = vec![false; around.before.len()];
                    for (r, c) in (0..m).flat_map(|r| (0..n).map(move |c| (r, c))) {
                        let byte = 260 + index(r, c) * size;
                        inside[byte..byte + size].fill(true);
                    }
                    let strays: Vec<_> =
                        around.changed(device).into_iter().filter(|&i| !inside[i]).collect();
                    assert!(strays.is_empty(), "{name}: bytes outside the view: {strays:?}");
                    runs += 1;
                }
            }
        }
    }
    assert_eq!(runs, 3 * 6 * 4 * 4);
}

/// Uploads of parts of words keep what else is in the words, behind the tensor's end as well.
#[test]
fn uploads_keep_neighbours_in_a_word() {
    let Some(device) = common::device() else { return };
    for (len, offset, count) in [(7, 0, 7), (7, 1, 3), (7, 5, 2), (5, 2, 3), (8, 3, 4), (1, 0, 1)] {
        let around = Surrounded::new(device, 12, ElementType::I8, len);
        let bytes: Vec<u8> = (0..count).map(|i| !around.before[12 + offset + i]).collect();
        device.upload(&around.tensor, offset, &bytes).expect("uploads");
        let expected: Vec<usize> = (12 + offset..12 + offset + count).collect();
        assert_eq!(around.changed(device), expected, "{count} of {len} bytes at {offset}");
    }
}

/// The canary test can fail: a C one row larger than the view overwrites a canary.
#[test]
fn a_stray_write_is_found() {
    let Some(device) = common::device() else { return };
    let case = Case::new(Problem::new(4, 4, 4), Values::SmallIntegers(3), 1).arranged(
        Arrangement::Dense,
        Arrangement::Dense,
        Arrangement::Padded,
    );
    let uploaded = Uploaded::new(device, &case);
    let wide = Layout { row_stride: 1, ..case.problem.c_layout };
    let problem = case.problem.clone().c_layout(Layout { col_stride: 4, ..wide });
    let c = common::upload(device, &case.c);
    let plan = Gemm::<Wgsl>::plan(device, &problem, &PlanOptions::default()).expect("plans");
    plan.execute(&uploaded.args(&c)).expect("executes");
    let after = common::download(device, &c);
    assert!(!case.c.broken_canaries(&after).is_empty());
    let reference = oracle::reference(&case.problem, &case.operands()).expect("valid");
    assert!(!reference.compare_exact(&common::found(&case.c, &after)).passed());
}
