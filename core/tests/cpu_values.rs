//! The CPU backend on real-valued data, special values, activations, blocks of shared tensors, and
//! in its use of plans.

use lapidary_core::oracle::{freivalds, reference, reference_at, sample_positions};
use lapidary_core::policy::{KernelConfig, MfmaF32, SingleBuffer};
use lapidary_core::testing::{Arrangement, Case, Random, Values, block_on};
use lapidary_core::{
    Activation, AnyMatrixRef, Args, Backend, Cpu, CpuTensor, ElementType, Gemm, KernelChoice,
    Layout, MatrixMut, MatrixRef, Operands, PlanOptions, Problem, Progress, TensorSlice, bf16, f16,
};
use std::cell::RefCell;

fn element_types() -> impl Iterator<Item = (ElementType, ElementType)> {
    let all = ElementType::ALL;
    all.into_iter()
        .flat_map(move |ab| all.into_iter().map(move |c| (ab, c)))
        .filter(|&(ab, c)| Problem::new(1, 1, 1).elements(ab, c).validate().is_ok())
}

fn tensor<T: lapidary_core::Element>(device: &Cpu, values: &[T]) -> CpuTensor {
    let tensor = device.alloc(T::TYPE, values.len()).expect("a small tensor");
    device.upload(&tensor, 0, bytemuck::cast_slice(values)).expect("it fits");
    tensor
}

fn floats(device: &Cpu, tensor: &CpuTensor) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(&block_on(device.download(tensor)).expect("in memory"))
}

#[test]
fn random_data_stays_within_the_bound_without_any_allowance_for_subnormals() {
    let device = Cpu::new();
    for (ab, c) in element_types() {
        for activation in Activation::ALL {
            let problem = Problem::new(40, 30, 600)
                .elements(ab, c)
                .alpha(if c == ElementType::I32 { 3.0 } else { 0.37 })
                .beta(if c == ElementType::I32 { -2.0 } else { -0.61 })
                .bias(true)
                .activation(activation);
            if problem.validate().is_err() {
                continue;
            }
            for values in [Values::Uniform, Values::Positive, Values::Exponents(8)] {
                if !ab.is_float() && values == Values::Exponents(8) {
                    continue;
                }
                let case = Case::new(problem.clone(), values, 77).arranged(
                    Arrangement::Spread,
                    Arrangement::PaddedColMajor,
                    Arrangement::Dense,
                );
                let operands = case.operands();
                let output = Gemm::<Cpu>::run(&device, &case.problem, &operands).unwrap();
                let strict = reference(&case.problem, &operands).unwrap().keeping_subnormals();
                let comparison = strict.compare(&output.matrix.as_ref());
                let what = format!("{ab} -> {c} {activation} {values:?}");
                assert!(comparison.passed(), "{what}: {comparison}");
                assert_eq!(comparison.unjudged, 0, "{what}");
                // The statistical tier: signs mix, and the oracle itself (in f64) rounds finer.
                let measured = activation == Activation::None
                    && ab != ElementType::F64
                    && values == Values::Uniform;
                assert!(!measured || comparison.max_units < 8.0, "{what}: {comparison}");
            }
        }
    }
}

#[test]
fn nan_and_infinity_reach_their_row_and_column_and_nothing_else() {
    // Zeros everywhere else: a kernel that skips a zero factor would lose the NaN.
    let device = Cpu::new();
    for (ab, c) in element_types().filter(|(ab, _)| ab.is_float()) {
        for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for activation in Activation::ALL {
                let problem = Problem::new(70, 66, 130).elements(ab, c).activation(activation);
                let mut case = Case::new(problem, Values::SmallIntegers(0), 1);
                for (stored, index) in [(&mut case.a, 37 * 130 + 64), (&mut case.b, 99 * 66 + 65)] {
                    let element = stored.element();
                    let bytes = stored.bytes_mut();
                    lapidary_core::element::write_f64(element, bytes, index, special);
                }
                let operands = case.operands();
                let output = Gemm::<Cpu>::run(&device, &case.problem, &operands).unwrap();
                let found = output.matrix.as_ref();
                let comparison = reference(&case.problem, &operands).unwrap().compare(&found);
                assert!(comparison.passed(), "{ab} -> {c} {special} {activation}: {comparison}");
                for r in 0..70 {
                    for col in 0..66 {
                        // 0 times either is NaN.
                        let expected = r == 37 || col == 65;
                        assert_eq!(found.get(0, r, col).is_nan(), expected, "({r}, {col})");
                    }
                }
            }
        }
    }
}

#[test]
fn activations_at_the_edges_are_those_of_the_definition() {
    let device = Cpu::new();
    let inputs = [f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, f32::NAN, 1e30, -1e30, -100.0];
    for activation in Activation::ALL {
        // K = 0: the bias alone reaches the activation.
        let problem = Problem::new(1, inputs.len(), 0).bias(true).activation(activation);
        let operands = Operands::new(
            MatrixRef::<f32>::row_major(&[], 1, 0).unwrap(),
            MatrixRef::<f32>::row_major(&[], 0, inputs.len()).unwrap(),
        )
        .bias(&inputs);
        let found = Gemm::<Cpu>::run(&device, &problem, &operands).unwrap().matrix;
        for (x, y) in inputs.iter().zip(found.to_vec::<f32>().unwrap()) {
            let expected = activation.apply(f64::from(*x)) as f32;
            let same = y == expected || (y.is_nan() && expected.is_nan());
            assert!(same || (y.abs() < 1e-35 && expected.abs() < 1e-35), "{activation}({x}) = {y}");
        }
    }
}

#[test]
fn output_conversion_rounds_once_to_nearest_even() {
    // Every tie between two neighbours, and the f32 on either side, through the epilogue.
    let device = Cpu::new();
    let mut values = Vec::new();
    for code in (0..0x7bffu16).step_by(7).chain([0x7bff]) {
        let low = f16::from_bits(code).to_f32();
        let step = if code >= 0x7800 { 32.0 } else { f16::from_bits(code + 1).to_f32() - low };
        let tie = low + step / 2.0;
        values.extend([tie, tie.next_up(), tie.next_down(), -tie]);
    }
    for code in (0x3000..0x7f00u16).step_by(5) {
        let tie = f32::from_bits((u32::from(code) << 16) | 0x8000);
        values.extend([tie, tie.next_up(), tie.next_down(), -tie]);
    }
    let one = [1.0f32];
    for c in [ElementType::F16, ElementType::BF16, ElementType::I8] {
        let operands = Operands::new(
            MatrixRef::row_major(&one, 1, 1).unwrap(),
            MatrixRef::row_major(&values, 1, values.len()).unwrap(),
        );
        if c == ElementType::I8 {
            let halves: Vec<f32> = (-300..300).map(|i| i as f32 / 2.0).collect();
            let problem = Problem::new(1, halves.len(), 0).elements(c, c).bias(true);
            let operands = Operands::new(
                MatrixRef::<i8>::row_major(&[], 1, 0).unwrap(),
                MatrixRef::<i8>::row_major(&[], 0, halves.len()).unwrap(),
            )
            .bias(&halves);
            let found = Gemm::<Cpu>::run(&device, &problem, &operands).unwrap().matrix;
            let expected: Vec<i8> =
                halves.iter().map(|&x| lapidary_core::round::f64_to_i8(f64::from(x))).collect();
            assert_eq!(found.to_vec::<i8>().unwrap(), expected);
            continue;
        }
        let problem = operands.problem(c).unwrap();
        let found = Gemm::<Cpu>::run(&device, &problem, &operands).unwrap().matrix;
        let wide = values.iter().map(|&x| f64::from(x));
        if c == ElementType::F16 {
            let expected: Vec<f16> = wide.map(lapidary_core::round::f64_to_f16).collect();
            assert_eq!(found.to_vec::<f16>().unwrap(), expected);
        } else {
            let expected: Vec<bf16> = wide.map(lapidary_core::round::f64_to_bf16).collect();
            assert_eq!(found.to_vec::<bf16>().unwrap(), expected);
        }
    }
}

#[test]
fn blocks_of_one_tensor_may_be_factors_and_output() {
    // A, B and C are 4×4 blocks of one 4×12 tensor: apart, so allowed, and A and B keep their bits.
    let device = Cpu::new();
    let mut random = Random::new(4);
    let values: Vec<f32> = (0..48).map(|_| random.integer(-4, 4) as f32).collect();
    let all = tensor(&device, &values);
    let layout = Layout { row_stride: 12, col_stride: 1, batch_stride: 0 };
    let problem = Problem::new(4, 4, 4).a_layout(layout).b_layout(layout).c_layout(layout);
    let plan = Gemm::<Cpu>::plan(&device, &problem, &PlanOptions::default()).unwrap();
    let at = |offset| TensorSlice::new(&all, offset);
    plan.execute(&Args::new(at(0), at(4), at(8))).unwrap();
    let after = floats(&device, &all);
    for r in 0..4 {
        for c in 0..4 {
            let sum: f32 = (0..4).map(|k| values[r * 12 + k] * values[k * 12 + 4 + c]).sum();
            assert_eq!(after[r * 12 + 8 + c], sum);
            assert_eq!(after[r * 12 + c], values[r * 12 + c]);
            assert_eq!(after[r * 12 + 4 + c], values[r * 12 + 4 + c]);
        }
    }
}

#[test]
fn tensors_may_be_used_crosswise_from_two_threads() {
    // x·x → y and y·y → x at once: a lock order by role would deadlock.
    let device = Cpu::new();
    let x = tensor(&device, &[1.0f32; 64 * 64]);
    let y = tensor(&device, &[0.0f32; 64 * 64]);
    let plan =
        Gemm::<Cpu>::plan(&device, &Problem::new(64, 64, 64), &PlanOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for (from, to) in [(&x, &y), (&y, &x)] {
            let plan = &plan;
            scope.spawn(move || {
                for _ in 0..200 {
                    plan.execute(&Args::new(from, from, to)).unwrap();
                }
            });
        }
    });
    assert_eq!(floats(&device, &x).len(), 64 * 64);
}

#[test]
fn a_plan_is_reused_with_other_operands_and_offsets() {
    let device = Cpu::new();
    let problem = Problem::new(2, 2, 2);
    let plan = Gemm::<Cpu>::plan(&device, &problem, &PlanOptions::default()).unwrap();
    assert_eq!(plan.summary().kernel, "cpu_in_place_f32");
    assert!(plan.summary().reason.contains("summed in f32"));
    let a = tensor(&device, &[9.0f32, 1.0, 2.0, 3.0, 4.0]);
    let identity = tensor(&device, &[1.0f32, 0.0, 0.0, 1.0]);
    let c = tensor(&device, &[f32::NAN; 5]);
    plan.execute(&Args::new(TensorSlice::new(&a, 1), &identity, TensorSlice::new(&c, 1))).unwrap();
    let after = floats(&device, &c);
    assert!(after[0].is_nan());
    assert_eq!(after[1..], [1.0, 2.0, 3.0, 4.0]);
    plan.execute(&Args::new(&identity, TensorSlice::new(&a, 0), TensorSlice::new(&c, 0))).unwrap();
    assert_eq!(floats(&device, &c)[..4], [9.0, 1.0, 2.0, 3.0]);
}

#[test]
fn run_into_writes_a_view_of_a_larger_slice_and_reads_it_at_beta() {
    let device = Cpu::new();
    let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], [1.0f32, 0.0, 0.0, 1.0]);
    let operands = Operands::new(
        MatrixRef::row_major(&a, 2, 2).unwrap(),
        MatrixRef::col_major(&b, 2, 2).unwrap(),
    );
    let problem = operands.problem(ElementType::F32).unwrap().beta(10.0);
    let mut storage = [1.0f32; 12];
    let view = MatrixMut::row_major(&mut storage, 3, 4).unwrap().submatrix(1..3, 1..3).unwrap();
    Gemm::<Cpu>::run_into(&device, &problem, &operands, view).unwrap();
    assert_eq!(storage, [1.0, 1.0, 1.0, 1.0, 1.0, 11.0, 12.0, 1.0, 1.0, 13.0, 14.0, 1.0]);
}

#[test]
fn unaligned_bytes_are_fine() {
    let device = Cpu::new();
    let case = Case::new(Problem::new(5, 6, 7), Values::SmallIntegers(4), 1);
    let shifted = |bytes: &[u8]| {
        let mut copy = vec![0u8];
        copy.extend_from_slice(bytes);
        copy
    };
    let (a, b) = (shifted(case.a.bytes()), shifted(case.b.bytes()));
    let view = |bytes| AnyMatrixRef::new(bytes, ElementType::F32, case.a.placement());
    let view_b = |bytes| AnyMatrixRef::new(bytes, ElementType::F32, case.b.placement());
    let operands = Operands::new(view(&a[1..]).unwrap(), view_b(&b[1..]).unwrap());
    let output = Gemm::<Cpu>::run(&device, &case.problem, &operands).unwrap();
    let comparison =
        reference(&case.problem, &case.operands()).unwrap().compare_exact(&output.matrix.as_ref());
    assert!(comparison.passed(), "{comparison}");
}

#[test]
fn long_work_reports_progress_in_order_to_the_end() {
    let device = Cpu::new();
    let case = Case::new(Problem::new(300, 40, 50).batch(3), Values::Uniform, 1);
    let reports = RefCell::new(Vec::new());
    let progress = |report: Progress| reports.borrow_mut().push(report);
    let (operands, options) = (case.operands(), PlanOptions::default());
    let run = Gemm::<Cpu>::run_with(&device, &case.problem, &operands, &options, &progress);
    block_on(run).unwrap();
    let reports = reports.into_inner();
    let last = reports.last().unwrap();
    assert_eq!(last.done, last.total);
    assert!(reports.windows(2).all(|w| w[0].done < w[1].done && w[0].total == w[1].total));
}

#[test]
fn the_steps_are_not_cpu_kernels() {
    let device = Cpu::new();
    for kernel in KernelChoice::all_steps(ElementType::F32) {
        let error =
            Gemm::<Cpu>::plan(&device, &Problem::new(2, 2, 2), &PlanOptions::kernel(kernel))
                .unwrap_err();
        assert!(error.to_string().contains("GPU"), "{error}");
    }
    let matrix = KernelConfig::of::<SingleBuffer<64, 64, 16>, MfmaF32<32, 32>>();
    let options = PlanOptions::kernel(KernelChoice::Policy(matrix));
    let error = Gemm::<Cpu>::plan(&device, &Problem::new(2, 2, 2), &options).unwrap_err();
    assert!(error.to_string().contains("matrix cores, the CPU has none"), "{error}");
}

#[test]
fn large_products_are_right_everywhere_by_samples_and_freivalds() {
    let device = Cpu::new();
    let problem = Problem::new(513, 640, 1025);
    let case = Case::new(problem, Values::Uniform, 3);
    let output = Gemm::<Cpu>::run(&device, &case.problem, &case.operands()).unwrap();
    let sample = sample_positions(&case.problem, output.summary.block_tile, 4096, 1);
    let comparison = reference_at(&case.problem, &case.operands(), &sample)
        .unwrap()
        .compare(&output.matrix.as_ref());
    assert!(comparison.passed() && comparison.checked >= 4096, "{comparison}");
    let case = Case::new(case.problem, Values::SmallIntegers(8), 3);
    let output = Gemm::<Cpu>::run(&device, &case.problem, &case.operands()).unwrap();
    let report = freivalds(&case.problem, &case.operands(), &output.matrix.as_ref(), 2, 1).unwrap();
    assert!(report.passed() && report.rows == 513, "{report}");
}
