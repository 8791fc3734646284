//! The kernel that was asked for is the one that runs, and its result is exact.

use lapidary_core::policy::{KernelConfig, ScalarFma, SingleBuffer};
use lapidary_core::testing::{Arrangement, Case, Values, block_on};
use lapidary_core::{
    Activation, Backend, ElementType, Error, Gemm, KernelChoice, MatrixKernel, Movement, Operand,
    PlanOptions, Problem, TensorSlice,
};
use lapidary_hip::steps::{Arithmetic, Step, StepConfig, TileMovement};
use lapidary_hip::{Hip, Target};

use super::support::{OnDevice, TARGETS, check_exact, compare, device};

fn launched(device: &Hip) -> Vec<(String, String)> {
    let launches = device.emulator().expect("an emulator").launches();
    launches.into_iter().map(|launch| (launch.kernel, launch.key)).collect()
}

#[test]
fn steps_run_with_any_output_and_scales() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        let kernels = KernelChoice::all_steps(ElementType::F32);
        for (i, kernel) in kernels.into_iter().enumerate() {
            let mut problem = Problem::new(33, 50, 36)
                .batch(1 + i % 2)
                .alpha(2.0)
                .beta(-1.0)
                .bias(true)
                .activation(Activation::Relu);
            problem.c = [ElementType::F32, ElementType::F16, ElementType::BF16][i % 3];
            problem.row_scale = i % 4 == 0;
            problem.col_scale = i % 4 == 1;
            let b = [Arrangement::ColMajor, Arrangement::ReversedRows][i % 2];
            let case = Case::new(problem, Values::SmallIntegers(3), i as u64).arranged(
                Arrangement::Dense,
                b,
                Arrangement::Spread,
            );
            let outcome = check_exact(&device, &case, &PlanOptions::kernel(kernel));
            let number = kernel.step_number().expect("a step").to_string();
            assert!(outcome.kernel.starts_with(&number), "{} {}", outcome.kernel, kernel.name());
        }
    }
}

#[test]
fn matrix_cores_multiply_in_the_policy_kernel() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        let arithmetic = |element| match element {
            ElementType::F16 => Arithmetic::MfmaF16,
            _ => Arithmetic::MfmaF32,
        };
        for element in [ElementType::F16, ElementType::F32] {
            let step = Step::Generic(TileMovement::SoftwareDoubleBuffer, arithmetic(element));
            let problem = Problem::new(40, 70, 50).elements(element, ElementType::BF16).bias(true);
            let case = Case::new(problem, Values::SmallIntegers(3), 1);
            let plan = device.plan_step(&case.problem, StepConfig::new(target, step)).expect("it");
            let on_device = OnDevice::new(&device, &case);
            device.execute(&plan, &on_device.args()).expect("it runs");
            let after = block_on(device.download(&on_device.c.tensor)).expect("C");
            assert!(compare(&case, &after, true).passed(), "{target} {element}");
        }
    }
}

#[test]
fn a_tile_that_was_asked_for_runs_as_planned() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        for (i, kernel) in [
            MatrixKernel::tile([32, 128, 64]),
            MatrixKernel { buffers: Some(1), ..MatrixKernel::tile([64, 64, 128]) },
            MatrixKernel { movement: Some(Movement::Direct), ..MatrixKernel::tile([64, 128, 64]) },
            MatrixKernel { movement: Some(Movement::Guarded), ..MatrixKernel::default() },
            MatrixKernel {
                scheduled: Some(false),
                splits: Some(3),
                ..MatrixKernel::tile([32, 64, 128])
            },
            MatrixKernel {
                c_through_workgroup_memory: Some(true),
                waves_per_simd: Some(2),
                ..MatrixKernel::tile([32, 64, 64])
            },
        ]
        .into_iter()
        .enumerate()
        {
            let problem = Problem::new(50, 72, 400)
                .elements(ElementType::F16, [ElementType::F16, ElementType::F32][i % 2]);
            let case = Case::new(problem, Values::SmallIntegers(2), i as u64);
            let options = PlanOptions::kernel(KernelChoice::Matrix(kernel));
            let plan = Gemm::<Hip>::plan(&device, &case.problem, &options).expect("a plan");
            let planned = device.plan(&case.problem, &options).expect("a plan");
            let on_device = OnDevice::new(&device, &case);
            device.emulator().expect("an emulator").forget_launches();
            plan.execute(&on_device.args()).expect("it runs");
            let after = block_on(device.download(&on_device.c.tensor)).expect("C");
            assert!(compare(&case, &after, true).passed(), "{target} {kernel:?}");
            let expected: Vec<_> =
                planned.kernels().into_iter().map(|k| (k.name.to_owned(), k.key)).collect();
            assert_eq!(launched(&device), expected, "{kernel:?}");
            if let Some([m, n, _]) = kernel.tile {
                assert_eq!(plan.summary().block_tile, [m, n]);
            }
        }
    }
}

#[test]
fn an_operand_elsewhere_than_planned_takes_another_variant() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        // Rows of 64 bytes and a C of 8 columns: fast copies and wide stores, but for the margin of
        // five elements in front of each storage.
        let problem = Problem::new(20, 8, 32).elements(ElementType::F16, ElementType::F16);
        let case = Case::new(problem, Values::SmallIntegers(3), 1).arranged(
            Arrangement::RowMajor,
            Arrangement::RowMajor,
            Arrangement::RowMajor,
        );
        check_exact(&device, &case, &PlanOptions::default());
        let insist =
            MatrixKernel { movement: Some(Movement::Registers), ..MatrixKernel::default() };
        let insist = PlanOptions::kernel(KernelChoice::Matrix(insist));
        let plan = Gemm::<Hip>::plan(&device, &case.problem, &insist).expect("a plan");
        let error = plan.execute(&OnDevice::new(&device, &case).args()).expect_err("misaligned");
        assert!(
            matches!(error, Error::Misaligned { operand: Operand::A, width: 8, value: 5, .. }),
            "{error}"
        );
    }
}

#[test]
fn foreign_pointers_and_parts_of_one_tensor_are_operands() {
    use lapidary_hip::HipTensor;
    let Some(device) = device(Target::Gfx942) else { return };
    // A, B and C side by side in one matrix of 12 columns.
    let mut all = vec![0.0f32; 4 * 12];
    for (i, value) in all.iter_mut().enumerate() {
        *value = if i % 12 < 8 { (i % 5) as f32 } else { f32::NAN };
    }
    let owned = device.alloc(ElementType::F32, all.len()).expect("memory");
    device.upload(&owned, 0, bytemuck::cast_slice(&all)).expect("an upload");
    let mut problem = Problem::new(4, 4, 4);
    for layout in [&mut problem.a_layout, &mut problem.b_layout, &mut problem.c_layout] {
        layout.row_stride = 12;
    }
    // SAFETY: the addresses are those of the tensor above, which outlives them.
    let [b, c] = [4u64, 8].map(|column| unsafe {
        HipTensor::from_raw(&device, owned.address() + 4 * column, ElementType::F32, 40)
    });
    let plan = Gemm::<Hip>::plan(&device, &problem, &PlanOptions::default()).expect("a plan");
    let args = lapidary_core::Args::new(&owned, &b, &c);
    plan.execute(&args).expect("blocks that do not overlap");
    let after = block_on(device.download(&owned)).expect("C");
    let after: &[f32] = bytemuck::cast_slice(&after);
    for (row, col) in (0..4).flat_map(|row| (0..4).map(move |col| (row, col))) {
        let expected: f32 = (0..4).map(|k| all[row * 12 + k] * all[k * 12 + 4 + col]).sum();
        assert_eq!(after[row * 12 + 8 + col], expected);
    }
    let overlapping = lapidary_core::Args::new(&owned, &b, TensorSlice::new(&owned, 7));
    assert!(matches!(plan.execute(&overlapping), Err(Error::Aliasing { operand: Operand::B, .. })));
}

#[test]
fn policies_select_the_instantiation() {
    let Some(device) = device(Target::Gfx950) else { return };
    let config = KernelConfig::of::<SingleBuffer<64, 64, 8>, ScalarFma<4, 4>>();
    let case = Case::new(Problem::new(65, 30, 9), Values::SmallIntegers(3), 1);
    let outcome = check_exact(&device, &case, &PlanOptions::kernel(KernelChoice::Policy(config)));
    assert!(outcome.kernel.contains("SingleBuffer") && outcome.kernel.contains("64x64x8"));
}
