//! Cooperative matrices, exactly, where the device lists a configuration: whole and cut blocks, tails
//! of K, slices, every arrangement, every epilogue.
//!
//! Small integers are exact in f16 and their sums in f32, whatever the order and rounding inside the
//! matrix units.

mod common;

use common::Uploaded;
use lapidary_core::policy::{CooperativeMatrixF16, KernelConfig, RegisterPrefetch};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{ElementType, Error, KernelChoice, PlanOptions, Problem};
use lapidary_wgsl::decide::{
    Body, Tuning, cooperative_blocks, cooperative_f16_blocks, decide, decide_with, matrix_blocks,
};
use lapidary_wgsl::emit::{self, Access};
use lapidary_wgsl::{DeviceLimits, Wgsl, wgpu};

#[test]
fn every_block_is_exact_or_refused_for_want_of_matrix_units() {
    exact_or_refused(ElementType::F32);
}

/// The same with sums in f16, which hold integers up to 2048: of the small ones here, whose signs differ,
/// no sum on the way is near that.
#[test]
fn every_block_with_f16_sums_is_exact_or_refused_for_want_of_matrix_units() {
    exact_or_refused(ElementType::F16);
}

fn exact_or_refused(sums: ElementType) {
    let Some(device) = common::tuned() else { return };
    let blocks = matrix_blocks(device.limits(), sums == ElementType::F16);
    if !blocks.is_empty() {
        return exact_with(device, &blocks);
    }
    let block = match sums {
        ElementType::F16 => cooperative_f16_blocks()[0],
        _ => cooperative_blocks()[0],
    };
    let problem = Problem::new(128, 128, 32).elements(ElementType::F16, ElementType::F32);
    match decide(&problem, device.limits(), KernelChoice::Policy(block.config), "a device") {
        Err(Error::KernelUnsuitable { reason, .. }) => {
            assert!(reason.starts_with("the device lists no cooperative matrix"), "{reason}");
            assert!(reason.contains(&format!("with f16 factors and {sums} sums")), "{reason}");
        }
        Err(Error::ElementTypeUnavailable { .. }) => {}
        other => panic!("{other:?}"),
    }
    common::lacks_matrix_units(&format!("with {sums} sums"));
}

/// A software device takes minutes to compile the blocks of a GPU: it is told so instead.
#[test]
fn blocks_that_a_software_device_cannot_compile_are_refused() {
    let mut limits = with_matrices(8, 8);
    let problem = Problem::new(128, 128, 32).elements(ElementType::F16, ElementType::F32);
    let refused = |limits: &DeviceLimits, config| match decide(
        &problem,
        limits,
        KernelChoice::Policy(config),
        "a device",
    ) {
        Err(Error::KernelUnsuitable { reason, .. }) => Some(reason),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    };
    let large = cooperative_blocks()[0].config;
    assert_eq!(refused(&limits, large), None);
    limits.software = true;
    let reason = refused(&limits, large).expect("too many products");
    assert!(reason.contains("256 products of matrices"), "{reason}");
    for f16_sums in [false, true] {
        for config in matrix_blocks(&limits, f16_sums) {
            assert_eq!(refused(&limits, config), None);
        }
    }
    // Nor is a block for matrix units the backend's own choice there.
    let problem = Problem::new(512, 512, 512).elements(ElementType::F16, ElementType::F32);
    let decision = decide(&problem, &limits, KernelChoice::Auto, "a device").expect("plans");
    assert_ne!(decision.kernel.expect("a product").body, Body::Cooperative);
}

/// One policy is cut for whatever matrices and subgroups a device lists: always the same tile of a
/// subgroup.
#[test]
fn a_policy_is_cut_for_the_matrices_of_the_device() {
    let problem = Problem::new(128, 128, 64).elements(ElementType::F16, ElementType::F32);
    let block = KernelChoice::Policy(cooperative_blocks()[0].config);
    for [side, lanes] in [[16, 32], [16, 16], [8, 32], [8, 16], [8, 8]] {
        let limits = with_matrices(side, lanes);
        let decision = decide(&problem, &limits, block, "a device").expect("plans");
        let kernel = decision.kernel.expect("a product");
        // Four subgroups of 64x64.
        assert_eq!(kernel.threads(), 4 * lanes);
        assert_eq!(kernel.thread, [64, 64 / lanes]);
        let units = kernel.units.expect("matrix units");
        assert_eq!([units.side, units.lanes], [side, lanes]);
    }
}

/// Where the lanes do not share a line of matrices evenly, the last turn stores no more than there is.
#[test]
fn no_lane_stores_behind_the_matrices() {
    let config = KernelConfig::of::<RegisterPrefetch<80, 160, 16>, CooperativeMatrixF16<16, 160>>();
    let problem = Problem::new(96, 160, 64).elements(ElementType::F16, ElementType::F32);
    for (lanes, guard) in [(32, Some("e + 64u < 80u")), (16, None)] {
        let mut limits = with_matrices(8, lanes);
        limits.tuning.specialise_flops = 0.0;
        let policy = KernelChoice::Policy(config);
        let decision = decide(&problem, &limits, policy, "a device").expect("plans");
        let kernel = decision.kernel.as_ref().expect("a product");
        let text = emit::multiply(kernel, &decision.traits, decision.store, Access::ReadOnlyInputs);
        match guard {
            Some(guard) => assert!(text.contains(guard), "{text}"),
            None => assert!(!text.contains("< 80u"), "{text}"),
        }
    }
}

/// A GPU that lists matrices of this size, in subgroups of so many lanes.
fn with_matrices(side: u32, lanes: u32) -> DeviceLimits {
    let limits =
        wgpu::Limits { max_compute_workgroup_storage_size: 49152, ..wgpu::Limits::defaults() };
    let mut limits = DeviceLimits::from_limits(&limits, wgpu::Features::SHADER_F16, false);
    (limits.matrix_side, limits.subgroup_lanes) = (side, lanes);
    (limits.cooperative, limits.cooperative_f16) = (true, true);
    limits.tuning = Tuning::HOPPER;
    limits
}

/// Runs every block on every kind of problem, and compares every bit.
fn exact_with(device: &Wgsl, blocks: &[KernelConfig]) {
    use Arrangement::{ColMajor, Dense, Padded, RowMajor};
    let mut runs = 0;
    let shapes = [
        [128, 256, 64],
        [127, 257, 67],
        [130, 66, 35],
        [33, 40, 3],
        [1, 1, 1],
        [256, 256, 128],
        [255, 129, 131],
        [64, 64, 40],
        [129, 513, 1027],
    ];
    // A software device takes longest to compile; sizes are in the text.
    let count = if device.limits().software { 5 } else { shapes.len() };
    for &config in blocks {
        let kernel = KernelChoice::Policy(config);
        for (index, [m, n, k]) in shapes.into_iter().take(count).enumerate() {
            for (output, epilogue) in
                [(ElementType::F32, 0), (ElementType::F32, 1), (ElementType::F16, index % 3)]
            {
                let problem =
                    Problem::new(m, n, k).elements(ElementType::F16, output).batch(1 + index % 2);
                let problem = common::epilogue(problem, epilogue);
                let [a, b, c] = [
                    [RowMajor, RowMajor, RowMajor],
                    [Dense, Padded, Padded],
                    [ColMajor, ColMajor, ColMajor],
                    [Padded, Dense, Dense],
                ][(index + epilogue) % 4];
                let seed = index as u64;
                let mut case = Case::new(problem, Values::SmallIntegers(2), seed).arranged(a, b, c);
                let expected = common::expect(&mut case);
                let uploaded = Uploaded::new(device, &case);
                // Operands that do not start at a multiple of 16 bytes are copied or, where they
                // need not be, left to plain arithmetic.
                for (slices, copies) in [(1, [false; 2]), (1, [true; 2]), (3, [true; 2])] {
                    let options = PlanOptions::kernel(kernel).k_slices(slices).copies(copies);
                    let decision = uploaded.check_with(device, &options, &expected);
                    let kernel = decision.kernel.expect("a product");
                    assert_eq!(kernel.body, Body::Cooperative);
                    runs += 1;
                }
            }
        }
    }
    println!("{runs} runs, all bits equal");
}

/// i8 and i4 weights become f16 on their way to the tiles, which is exact; scales of columns follow.
#[test]
fn weights_are_exact_on_matrix_units() {
    let Some(device) = common::tuned() else { return };
    let blocks = [false, true].map(|f16_sums| matrix_blocks(device.limits(), f16_sums)).concat();
    if blocks.is_empty() {
        return common::lacks_matrix_units("of f16");
    }
    use Arrangement::{ColMajor, Dense, Padded, RowMajor};
    for weights in [ElementType::I8, ElementType::I4] {
        for &config in &blocks {
            let kernel = KernelChoice::Policy(config);
            for (index, [m, n, k]) in [[128, 256, 64], [127, 257, 67], [33, 40, 3], [255, 129, 131]]
                .into_iter()
                .enumerate()
            {
                let problem = Problem::new(m, n, k)
                    .factors(ElementType::F16, weights)
                    .col_scale(index % 2 == 0)
                    .bias(index == 3);
                let b = [RowMajor, Padded, ColMajor, Dense][index];
                let mut case =
                    Case::new(problem, Values::SmallIntegers(3), 5).arranged(Dense, b, Padded);
                let expected = common::expect(&mut case);
                let uploaded = Uploaded::new(device, &case);
                for slices in [1, 2] {
                    let options =
                        PlanOptions::kernel(kernel).k_slices(slices).copies([true, index % 2 == 1]);
                    uploaded.check_with(device, &options, &expected);
                }
            }
        }
    }
}

/// On a device that has both, sums are f32 unless the caller allows f16 and the model expects them to be
/// faster; where the device has none in f16, allowing them changes nothing, and where it has nothing else,
/// they are taken for every size.
#[test]
fn sums_are_f16_only_where_they_are_asked_for() {
    let mut limits = with_matrices(16, 32);
    let sums = |limits: &DeviceLimits, [m, n, k]: [usize; 3], output, allowed| {
        let problem = Problem::new(m, n, k).elements(ElementType::F16, output);
        let options = PlanOptions::default().f16_sums(allowed);
        let decision = decide_with(&problem, limits, &options, "a device").expect("plans");
        let kernel = decision.kernel.expect("a product");
        let sums = kernel.config.expect("policies").compute.accumulator;
        assert_eq!(kernel.name.contains("f16-sums"), sums == ElementType::F16);
        (kernel.body, sums)
    };
    use ElementType::{F16, F32};
    let units = |sums| (Body::Cooperative, sums);
    for output in [F32, F16] {
        for shape in [[4096; 3], [2048; 3], [64, 4096, 4096], [64, 64, 262_144]] {
            let large = shape == [4096; 3];
            (limits.cooperative, limits.cooperative_f16) = (true, true);
            assert_eq!(sums(&limits, shape, output, false), units(F32), "{shape:?}");
            let faster = if large { F16 } else { F32 };
            assert_eq!(sums(&limits, shape, output, true), units(faster), "{shape:?}");
            limits.cooperative_f16 = false;
            assert_eq!(sums(&limits, shape, output, true), units(F32), "{shape:?}");
            (limits.cooperative, limits.cooperative_f16) = (false, true);
            assert_eq!(sums(&limits, shape, output, true), units(F16), "{shape:?}");
            assert_ne!(sums(&limits, shape, output, false).0, Body::Cooperative, "{shape:?}");
        }
    }
    limits.cooperative = true;
    // Other types have no such sums.
    for element in [ElementType::F32, ElementType::BF16, ElementType::I8] {
        let problem = Problem::new(512, 512, 512).elements(element, element.accumulator());
        let [without, with] = [false, true].map(|allowed| {
            let options = PlanOptions::default().f16_sums(allowed);
            decide_with(&problem, &limits, &options, "a device").expect("plans").kernel
        });
        assert_eq!(without, with, "{element}");
    }
}
