//! Every module the emitter can write: valid with the least capabilities, translatable to the
//! languages of devices that are not at hand, and within the workgroup memory it claims.

use lapidary_core::policy::{DirectSplit, KernelConfig, Multiply, VectorFma};
use lapidary_core::{Activation, ElementType, KernelChoice, Layout, PlanOptions, Problem};
use lapidary_wgsl::decide::{
    BlockRow, CopyOrder, CopyWay, Decision, Store, Tuning, cooperative_blocks,
    cooperative_f16_blocks, decide_with, dot4_blocks, float_blocks,
};
use lapidary_wgsl::emit::{self, Access};
use lapidary_wgsl::{DeviceLimits, wgpu};
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// The limits of WebGPU's smallest devices, and those of an ordinary GPU.
fn device_classes() -> [DeviceLimits; 2] {
    let downlevel =
        DeviceLimits::from_limits(&wgpu_limits_downlevel(), wgpu_features(false), false);
    let desktop = DeviceLimits::from_limits(&wgpu_limits_desktop(), wgpu_features(true), false);
    [downlevel, desktop]
}

fn wgpu_limits_downlevel() -> lapidary_wgsl::wgpu::Limits {
    lapidary_wgsl::wgpu::Limits::downlevel_defaults()
}

fn wgpu_limits_desktop() -> lapidary_wgsl::wgpu::Limits {
    lapidary_wgsl::wgpu::Limits {
        max_compute_workgroup_storage_size: 32768,
        max_compute_invocations_per_workgroup: 1024,
        ..lapidary_wgsl::wgpu::Limits::default()
    }
}

fn wgpu_features(f16: bool) -> lapidary_wgsl::wgpu::Features {
    if f16 {
        lapidary_wgsl::wgpu::Features::SHADER_F16
    } else {
        lapidary_wgsl::wgpu::Features::empty()
    }
}

/// Every module of every kernel × element types × epilogue × binding mode, with the workgroup memory
/// its plan reports and the limit it was planned within.
fn every_module(mut visit: impl FnMut(&str, &str, usize, &DeviceLimits)) {
    use ElementType as E;
    let weights = [(E::F32, E::I4, Some(32)), (E::BF16, E::I8, None), (E::I8, E::I4, None)];
    for limits in &device_classes() {
        for (a, b, group) in weights {
            let output = if a == E::I8 { E::I32 } else { E::F32 };
            let mut problem = Problem::new(64, 64, 64).elements(a, output).factors(a, b);
            problem = problem.b_group(group).col_scale(group.is_some());
            let own = [KernelChoice::Auto, KernelChoice::Skinny];
            for choice in KernelChoice::all_steps(a).into_iter().chain(own) {
                let few = if choice == KernelChoice::Skinny { 3 } else { 64 };
                problem.m = few;
                visit_plan(&problem, limits, choice, &mut visit);
            }
        }
    }
    let combinations = [
        (E::F32, E::F32),
        (E::F32, E::F16),
        (E::F16, E::F32),
        (E::F16, E::F16),
        (E::BF16, E::F32),
        (E::BF16, E::BF16),
        (E::I8, E::I32),
        (E::I8, E::F32),
        (E::I8, E::I8),
    ];
    let epilogues = [
        (0.0, false, Activation::None),
        (0.5, true, Activation::Relu),
        (0.5, false, Activation::Silu),
        (0.0, true, Activation::GeluTanh),
        (2.0, true, Activation::GeluErf),
    ];
    for limits in &device_classes() {
        for (operand, output) in combinations {
            if operand == E::F16 && !limits.f16 {
                continue;
            }
            for (beta, bias, activation) in epilogues {
                let integer = output == E::I32;
                let problem = Problem::new(64, 64, 64)
                    .elements(operand, output)
                    .beta(if integer { beta * 2.0 } else { beta })
                    .bias(bias)
                    .activation(match activation {
                        Activation::Relu => activation,
                        _ if integer => Activation::None,
                        _ => activation,
                    });
                for choice in KernelChoice::all_steps(operand) {
                    visit_plan(&problem, limits, choice, &mut visit);
                }
                visit_plan(&problem.clone().alpha(0.0), limits, KernelChoice::Auto, &mut visit);
                // The backend's own choice depends on sizes and strides: both blocks, and operands
                // along and across k, aligned and not.
                for size in [64, 2048] {
                    for pitch in [size as isize, size as isize + 1] {
                        let row = Layout { row_stride: pitch, col_stride: 1, batch_stride: 0 };
                        for (a, b) in [(row, row), (row.transposed(), row.transposed())] {
                            let mut problem = problem.clone().a_layout(a).b_layout(b);
                            (problem.m, problem.n, problem.k) = (size, size, size);
                            problem.c_layout = Layout::row_major(size, size);
                            visit_plan(&problem, limits, KernelChoice::Auto, &mut visit);
                        }
                    }
                }
            }
        }
    }
}

fn visit_plan(
    problem: &Problem,
    limits: &DeviceLimits,
    choice: KernelChoice,
    visit: &mut impl FnMut(&str, &str, usize, &DeviceLimits),
) {
    visit_options(problem, limits, &PlanOptions::kernel(choice), visit);
}

fn visit_options(
    problem: &Problem,
    limits: &DeviceLimits,
    options: &PlanOptions,
    visit: &mut impl FnMut(&str, &str, usize, &DeviceLimits),
) {
    let name = format!("{} {}x{}->{}", options.kernel.name(), problem.a, problem.b, problem.c);
    let decision = decide_with(problem, limits, options, "test").expect(&name);
    let Decision { kernel, scalar_kernel, store, traits, operands, .. } = &decision;
    for (reads, element) in [(operands.a, problem.a), (operands.b, problem.b)] {
        let Some(copy) = reads.copy else { continue };
        let tiles = [false, true].map(|lines_are_near| CopyWay::Tiles { lines_are_near });
        let straight = copy.order != CopyOrder::Quads && element != ElementType::I4;
        for way in tiles.into_iter().chain(straight.then_some(CopyWay::Straight)) {
            let source = emit::copy(element, copy.order, way, Access::ReadOnlyInputs);
            let tile = if way == CopyWay::Straight { 0 } else { 32 * 33 * 4 };
            visit("copy", &source, tile, limits);
        }
    }
    if decision.slices() > 1 && *store == Store::Fused {
        for vectors in [false, decision.finishes_rows()] {
            let groups = decision.reduce_groups(vectors);
            let parts = decision.parts();
            let source = emit::reduce(traits, parts, groups, vectors, Access::ReadOnlyInputs);
            visit("reduce", &source, if vectors { 256 * 16 } else { 256 * 4 }, limits);
        }
    }
    for access in [Access::ReadOnlyInputs, Access::AllReadWrite] {
        if *store == Store::Packed && decision.finishes_rows() {
            visit("pack_rows", &emit::pack_rows(traits, decision.parts(), access), 0, limits);
        }
        for kernel in kernel.iter().chain(scalar_kernel) {
            let source = emit::multiply(kernel, traits, *store, access);
            visit(&name, &source, kernel.workgroup_bytes(), limits);
        }
        visit(&name, &emit::pack_output(traits, decision.parts(), *store, access), 0, limits);
    }
}

fn parse(name: &str, source: &str) -> naga::Module {
    naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|error| panic!("{name}: {}\n{source}", error.emit_to_string(source)))
}

/// Bytes of workgroup memory that a module declares.
fn workgroup_bytes(module: &naga::Module) -> usize {
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).expect("layout");
    let sizes = module
        .global_variables
        .iter()
        .filter(|(_, variable)| variable.space == naga::AddressSpace::WorkGroup)
        .map(|(_, variable)| layouter[variable.ty].size as usize);
    sizes.sum()
}

/// Only f16 loads, cooperative matrices and subgroup reductions need a capability at all.
fn validate(name: &str, source: &str, module: &naga::Module) -> naga::valid::ModuleInfo {
    let mut capabilities = Capabilities::empty();
    if source.contains("enable f16;") {
        capabilities |= Capabilities::SHADER_FLOAT16;
    }
    if source.contains("enable wgpu_cooperative_matrix;") {
        capabilities |= Capabilities::COOPERATIVE_MATRIX | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    }
    if source.contains("subgroup") {
        capabilities |= Capabilities::SUBGROUP;
    }
    Validator::new(ValidationFlags::all(), capabilities)
        .subgroup_stages(naga::valid::ShaderStages::COMPUTE)
        .subgroup_operations(naga::valid::SubgroupOperationSet::all())
        .validate(module)
        .unwrap_or_else(|error| panic!("{name}: {}\n{source}", error.emit_to_string(source)))
}

#[test]
fn every_module_validates_and_stays_within_workgroup_memory() {
    let mut seen = std::collections::HashSet::new();
    every_module(|name, source, reported, limits| {
        if !seen.insert((source.to_owned(), limits.workgroup_bytes)) {
            return;
        }
        let module = parse(name, source);
        validate(name, source, &module);
        let used = workgroup_bytes(&module);
        assert_eq!(used, reported, "{name}: bytes the plan reports");
        assert!(used <= limits.workgroup_bytes, "{name}: {used} bytes");
    });
    println!("{} distinct modules", seen.len());
    assert!(seen.len() > 1000);
}

#[test]
fn every_module_translates_to_spirv_msl_and_hlsl() {
    let mut seen = std::collections::HashSet::new();
    every_module(|name, source, _, _| {
        if !seen.insert(source.to_owned()) {
            return;
        }
        let module = parse(name, source);
        let info = validate(name, source, &module);
        let spirv = naga::back::spv::write_vec(&module, &info, &Default::default(), None)
            .unwrap_or_else(|error| panic!("{name} to SPIR-V: {error}"));
        assert!(spirv.len() > 100);
        let msl_options = naga::back::msl::Options {
            lang_version: (2, 3),
            fake_missing_bindings: true,
            ..Default::default()
        };
        let (msl, _) =
            naga::back::msl::write_string(&module, &info, &msl_options, &Default::default())
                .unwrap_or_else(|error| panic!("{name} to MSL: {error}"));
        assert!(msl.contains("kernel void"));
        let mut hlsl = String::new();
        let hlsl_options = naga::back::hlsl::Options {
            shader_model: naga::back::hlsl::ShaderModel::V6_2,
            fake_missing_bindings: true,
            ..Default::default()
        };
        naga::back::hlsl::Writer::new(&mut hlsl, &hlsl_options, &Default::default())
            .write(&module, &info, None)
            .unwrap_or_else(|error| panic!("{name} to HLSL: {error}"));
        assert!(hlsl.contains("numthreads"));
    });
    println!("{} distinct modules", seen.len());
}

/// A large GPU that lists a cooperative configuration, which few software devices do.
fn with_matrix_units() -> DeviceLimits {
    let limits =
        wgpu::Limits { max_compute_workgroup_storage_size: 49152, ..wgpu::Limits::defaults() };
    let mut limits = DeviceLimits::from_limits(&limits, wgpu::Features::SHADER_F16, false);
    limits.matrix_side = 16;
    limits.cooperative = true;
    limits.cooperative_f16 = true;
    limits.subgroup_lanes = 32;
    limits.tuning = Tuning::HOPPER;
    limits
}

/// Kernels that matrix units, subgroups and large problems bring: every block, known and unknown
/// sizes, whole and cut, all of K and slices, plain and with an epilogue.
fn every_tuned_module(mut visit: impl FnMut(&str, &str, usize, &DeviceLimits)) {
    let mut limits = with_matrix_units();
    let mut choices: Vec<([ElementType; 2], KernelChoice)> = Vec::new();
    let rows = |rows: &[BlockRow]| rows.iter().map(|row| row.config).collect::<Vec<_>>();
    for config in [rows(&cooperative_blocks()), rows(&cooperative_f16_blocks())].concat() {
        choices.push(([ElementType::F16; 2], KernelChoice::Policy(config)));
    }
    for config in rows(&dot4_blocks()) {
        choices.push(([ElementType::I8; 2], KernelChoice::Policy(config)));
    }
    choices.push(([ElementType::F32; 2], KernelChoice::Policy(float_blocks()[4].config)));
    let split = KernelConfig::of::<DirectSplit<32, 32, 8>, VectorFma<4, 8>>();
    choices.push(([ElementType::F32; 2], KernelChoice::Policy(split)));
    choices.push(([ElementType::BF16; 2], KernelChoice::Policy(split)));
    choices.push(([ElementType::F16; 2], KernelChoice::Skinny));
    let stream = KernelChoice::StreamK { config: float_blocks()[4].config, workgroups: 7 };
    choices.push(([ElementType::F32; 2], stream));
    for weights in [ElementType::I8, ElementType::I4] {
        let pair = [ElementType::F16, weights];
        choices.push((pair, KernelChoice::Policy(cooperative_blocks()[3].config)));
        choices.push((pair, KernelChoice::Policy(cooperative_f16_blocks()[4].config)));
        choices.push((pair, KernelChoice::Policy(float_blocks()[4].config)));
        choices.push((pair, KernelChoice::Policy(split)));
        choices.push((pair, KernelChoice::Skinny));
    }
    // Blocks on matrix units a second time, for the smallest matrices and subgroups there are.
    let on_units = |choice: &KernelChoice| {
        matches!(choice, KernelChoice::Policy(config)
            if config.compute.multiply == Multiply::CooperativeMatrix)
    };
    let small =
        choices.iter().filter(|(_, choice)| on_units(choice)).map(|choice| ([8, 8], *choice));
    let small = small.collect::<Vec<_>>();
    let all = choices.into_iter().map(|choice| ([16, 32], choice)).chain(small);
    for ([side, lanes], ([operand, weights], choice)) in all {
        (limits.matrix_side, limits.subgroup_lanes) = (side, lanes);
        let whole_bytes = weights != ElementType::I4;
        for [m, n, k] in [[256, 256, 256], [130, 260, if whole_bytes { 67 } else { 72 }]] {
            let (m, n) = if choice == KernelChoice::Skinny { (3, n) } else { (m, n) };
            for (specialise_flops, slices) in [(0.0, 1), (f64::INFINITY, 1), (0.0, 2)] {
                limits.tuning.specialise_flops = specialise_flops;
                for (output, beta) in [
                    (operand.accumulator(), 0.0),
                    (operand.accumulator(), 1.0),
                    (ElementType::BF16, 0.0),
                ] {
                    for b in [Layout::row_major(k, n), Layout::col_major(k, n)] {
                        let matrix_units = matches!(choice, KernelChoice::Policy(config)
                            if config.compute.multiply == Multiply::CooperativeMatrix);
                        let narrow = operand != weights;
                        let problem = Problem::new(m, n, k)
                            .elements(operand, output)
                            .factors(operand, weights)
                            .beta(beta)
                            .b_layout(b)
                            .col_scale(narrow)
                            .row_scale(narrow && beta != 0.0)
                            .b_group((narrow && !matrix_units && k.is_multiple_of(8)).then_some(8));
                        let options = PlanOptions::kernel(choice).k_slices(slices);
                        visit_options(&problem, &limits, &options, &mut visit);
                    }
                }
            }
        }
    }
}

#[test]
fn tuned_modules_validate_and_translate() {
    let mut seen = std::collections::HashSet::new();
    let mut cooperative = 0;
    every_tuned_module(|name, source, reported, limits| {
        if !seen.insert(source.to_owned()) {
            return;
        }
        let module = parse(name, source);
        let info = validate(name, source, &module);
        assert_eq!(workgroup_bytes(&module), reported, "{name}: bytes the plan reports");
        assert!(reported <= limits.workgroup_bytes, "{name}: {reported} bytes");
        // Cooperative matrices are in SPIR-V from version 1.3 on, and wgpu asks for 1.4.
        let options = naga::back::spv::Options { lang_version: (1, 4), ..Default::default() };
        naga::back::spv::write_vec(&module, &info, &options, None)
            .unwrap_or_else(|error| panic!("{name} to SPIR-V: {error}"));
        let options = naga::back::msl::Options {
            lang_version: (2, 4),
            fake_missing_bindings: true,
            ..Default::default()
        };
        naga::back::msl::write_string(&module, &info, &options, &Default::default())
            .unwrap_or_else(|error| panic!("{name} to MSL: {error}"));
        let mut hlsl = String::new();
        let options = naga::back::hlsl::Options {
            shader_model: naga::back::hlsl::ShaderModel::V6_4,
            fake_missing_bindings: true,
            ..Default::default()
        };
        let translated = naga::back::hlsl::Writer::new(&mut hlsl, &options, &Default::default())
            .write(&module, &info, None);
        if source.contains("coop_mat") {
            // See `hlsl_has_no_cooperative_matrices` in the workarounds.
            cooperative += 1;
            assert!(translated.is_err(), "{name}: HLSL has cooperative matrices now");
        } else {
            translated.unwrap_or_else(|error| panic!("{name} to HLSL: {error}"));
        }
    });
    println!("{} distinct modules, {cooperative} cooperative", seen.len());
    assert!(seen.len() > 60 && cooperative > 20);
}
