//! Cutting C into dispatches: every element once, every piece within the limits, and the same bits.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{ElementType, Error, KernelChoice, Layout, Problem, Shape};
use lapidary_wgsl::decide::{Chunk, Decision, Store, decide};
use lapidary_wgsl::{DeviceLimits, WgslOptions, wgpu};
use proptest::prelude::*;

/// The limits of a small device with these three smaller still.
fn limits(binding_bytes: u64, workgroups_per_axis: u32, software: bool) -> DeviceLimits {
    let mut limits = DeviceLimits::from_limits(
        &wgpu::Limits::downlevel_defaults(),
        wgpu::Features::empty(),
        software,
    );
    limits.binding_bytes = binding_bytes;
    limits.workgroups_per_axis = workgroups_per_axis;
    limits
}

/// Bytes from the first to the last element of an operand's part, where the binding may have to
/// start up to an alignment earlier and end at a whole vector.
fn bytes(layout: Layout, shape: Shape, element: ElementType, limits: &DeviceLimits) -> u128 {
    let span = layout.extent(shape).map_or(0, |e| (e.max - e.min + 1) as u128);
    span * element.size() as u128 + u128::from(limits.binding_alignment) - 1
}

/// Asserts that the chunks cover C once, and that each stays within the limits.
fn check(problem: &Problem, limits: &DeviceLimits, decision: &Decision) {
    let mut seen = vec![0u8; problem.c_shape().len().expect("small")];
    for chunk in &decision.chunks {
        let &Chunk { batch0, row0, col0, batch, rows, cols, .. } = chunk;
        assert!(batch > 0 && rows > 0 && cols > 0, "{chunk:?}");
        for b in batch0..batch0 + batch {
            for r in row0..row0 + rows {
                for c in col0..col0 + cols {
                    seen[(b * problem.m + r) * problem.n + c] += 1;
                }
            }
        }
        let binding = u128::from(limits.binding_bytes);
        let c = bytes(problem.c_layout, chunk.shape(), problem.c, limits);
        assert!(c <= binding, "{chunk:?}: C {c}");
        let Some(kernel) = &decision.kernel else { continue };
        let a = Shape { batch, rows, cols: problem.k };
        let b = Shape { batch, rows: problem.k, cols };
        let a = bytes(problem.a_layout, a, problem.a, limits);
        let b = bytes(problem.b_layout, b, problem.b, limits);
        assert!(a <= binding && b <= binding, "{chunk:?}: A {a}, B {b}");
        let workgroups = chunk.workgroups(kernel);
        assert!(workgroups.iter().all(|&w| w <= limits.workgroups_per_axis), "{workgroups:?}");
        if decision.store == Store::Packed {
            assert!(u128::from(chunk.sum_bytes()) <= binding, "{chunk:?}");
            assert!(chunk.sum_bytes() <= decision.sum_bytes, "{chunk:?}");
        }
    }
    assert!(seen.iter().all(|&count| count == 1), "{:?}", decision.chunks);
    assert_eq!(decision.summary.dispatches.len(), decision.chunks.len());
}

/// Row-major, column-major, padded or reversed.
fn layout(kind: u8, rows: usize, cols: usize) -> Layout {
    let (r, c) = (rows as isize, cols as isize);
    match kind {
        0 => Layout::row_major(rows, cols),
        1 => Layout::col_major(rows, cols),
        2 => Layout { row_stride: c + 3, col_stride: 1, batch_stride: r * (c + 3) },
        3 => Layout { row_stride: -c, ..Layout::row_major(rows, cols) },
        _ => Layout { row_stride: 2 * c, col_stride: 2, batch_stride: 2 * r * c + 1 },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn plans_stay_within_the_limits_or_are_refused(
        (m, n, k, batch) in (0usize..300, 0usize..300, 0usize..200, 0usize..5),
        kinds in (0u8..5, 0u8..5, 0u8..5),
        types in 0..common::COMBINATIONS.len(),
        kernel in 0usize..17,
        factors in prop::sample::select(&[(1.0, 0.0), (1.0, 1.0), (0.0, 2.0)][..]),
        (binding, axis, software) in (300u64..400_000, 1u32..8, any::<bool>()),
    ) {
        let (operand, output) = common::COMBINATIONS[types];
        let problem = Problem::new(m, n, k)
            .elements(operand, output)
            .batch(batch)
            .alpha(factors.0)
            .beta(factors.1)
            .a_layout(layout(kinds.0, m, k))
            .b_layout(layout(kinds.1, k, n))
            .c_layout(layout(kinds.2, m, n));
        let mut limits = limits(binding, axis, software);
        limits.f16 = true;
        let kernels = common::kernels(operand);
        let choice = kernels.get(kernel).copied().unwrap_or(KernelChoice::Auto);
        match decide(&problem, &limits, choice, "synthetic") {
            Ok(decision) => check(&problem, &limits, &decision),
            Err(Error::LimitExceeded { requested, limit, .. }) => prop_assert!(requested > limit),
            Err(Error::Misaligned { value, width, .. }) => {
                prop_assert!(value % width as i128 != 0);
            }
            Err(Error::KernelUnsuitable { .. }) => {
                let vectors = matches!(choice, KernelChoice::Vectorized { .. });
                prop_assert!(vectors, "{}", choice.name());
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    /// Nothing that can be written down makes a plan panic.
    #[test]
    fn any_problem_is_planned_or_refused(
        sizes in prop::array::uniform4(prop_oneof![0usize..5, Just(usize::MAX), any::<usize>()]),
        strides in prop::array::uniform9(prop_oneof![-3isize..9, Just(isize::MIN), any::<isize>()]),
        types in 0..common::COMBINATIONS.len(),
        kernel in 0usize..17,
        (alpha, beta) in (any::<f64>(), any::<f64>()),
        (binding, axis) in (any::<u64>(), any::<u32>()),
    ) {
        let [m, n, k, batch] = sizes;
        let stride = |i: usize| Layout {
            row_stride: strides[i],
            col_stride: strides[i + 1],
            batch_stride: strides[i + 2],
        };
        let (operand, output) = common::COMBINATIONS[types];
        let problem = Problem::new(m, n, k)
            .elements(operand, output)
            .batch(batch)
            .alpha(alpha)
            .beta(beta)
            .a_layout(stride(0))
            .b_layout(stride(3))
            .c_layout(stride(6));
        let kernels = common::kernels(operand);
        let choice = kernels.get(kernel).copied().unwrap_or(KernelChoice::Auto);
        // The result may be either; that there is one is the test.
        let _ = decide(&problem, &limits(binding.min(1 << 32), axis.max(1), false), choice, "any");
    }
}

#[test]
fn a_large_product_is_cut_along_the_batch_then_rows_then_columns() {
    let tiny = limits(64 * 1024, 65535, false);
    let problem = Problem::new(300, 300, 20).batch(3);
    let decision = decide(&problem, &tiny, KernelChoice::Naive, "tiny").expect("fits in pieces");
    check(&problem, &tiny, &decision);
    assert!(decision.chunks.len() > 3, "{:?}", decision.chunks);
    assert!(decision.summary.notes.iter().any(|n| n.starts_with("split into ")));
    // One row of A is 80 bytes, one column of B spans 20 rows of 300: 22,804 bytes, which no
    // smaller piece of C would make smaller.
    let smaller = limits(20_000, 65535, false);
    match decide(&problem, &smaller, KernelChoice::Naive, "tiny") {
        Err(Error::LimitExceeded { what, requested, limit: 20_000 }) => {
            assert_eq!(what, "bytes of B in one binding");
            assert!(requested > 20_000);
        }
        other => panic!("{other:?}"),
    }
}

/// On a device whose bindings end at 1 MiB, operands of several MiB: the same bits as on one whose
/// bindings hold them whole.
#[test]
fn a_split_product_has_the_bits_of_the_whole() {
    let Some(whole) = common::device() else { return };
    let options = WgslOptions::default().restrict(
        wgpu::Limits {
            max_storage_buffer_binding_size: 1 << 20,
            ..wgpu::Limits::downlevel_defaults()
        },
        wgpu::Features::empty(),
    );
    let Some(narrow) = common::own(&options) else { return };
    assert_eq!(narrow.limits().binding_bytes, 1 << 20);
    for (operand, output, shape, arrangement) in [
        (ElementType::F32, ElementType::F32, [700, 650, 9], Arrangement::Padded),
        (ElementType::F32, ElementType::F32, [3000, 70, 130], Arrangement::ReversedRows),
        (ElementType::BF16, ElementType::BF16, [900, 800, 7], Arrangement::ColMajor),
        (ElementType::I8, ElementType::I8, [1201, 1003, 5], Arrangement::Padded),
    ] {
        let [m, n, k] = shape;
        let problem =
            Problem::new(m, n, k).elements(operand, output).alpha(0.3).beta(0.7).bias(true);
        let case = Case::new(problem, Values::Uniform, 11).arranged(
            Arrangement::Dense,
            Arrangement::ColMajor,
            arrangement,
        );
        let (here, there) = (Uploaded::aligned(whole, &case), Uploaded::aligned(&narrow, &case));
        // Kernels whose strip is the same on both devices, so that sums have the same order.
        for kernel in
            [KernelChoice::Naive, KernelChoice::WorkgroupTile, common::kernels(operand)[10]]
        {
            let pieces = narrow.decide(&there.problem, kernel).expect("fits in pieces");
            assert!(pieces.chunks.len() > 1, "{}: {:?}", kernel.name(), pieces.chunks);
            assert_eq!(whole.decide(&here.problem, kernel).expect("fits").chunks.len(), 1);
            let bits = here.run(whole, kernel).expect("runs");
            common::assert_canaries(&case.c, &bits, || kernel.name());
            assert!(
                bits == there.run(&narrow, kernel).expect("runs"),
                "{} {operand} in {} pieces",
                kernel.name(),
                pieces.chunks.len()
            );
        }
    }
}
