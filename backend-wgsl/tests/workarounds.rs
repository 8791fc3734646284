//! The defects that the backend goes round are still there; when one of these tests fails, its detour
//! can go.

mod common;

use std::panic::catch_unwind;

use lapidary_core::Backend;
use lapidary_core::testing::block_on;
use lapidary_wgsl::workarounds::{SOFTWARE_LOOP_ITERATIONS, WORKAROUNDS};
use lapidary_wgsl::{Wgsl, WgslOptions, wgpu};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

/// Every entry has a test here, and the file that it names is there.
#[test]
fn every_workaround_has_a_test_and_a_place() {
    let here = include_str!("workarounds.rs");
    for workaround in WORKAROUNDS {
        let test = format!("#[test]\nfn {}()", workaround.name);
        assert!(here.contains(&test), "{}", workaround.name);
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(workaround.file);
        assert!(file.is_file(), "{}", workaround.file);
    }
}

fn parse(source: &str) -> Result<naga::Module, String> {
    naga::front::wgsl::parse_str(source).map_err(|error| error.emit_to_string(source))
}

fn validate(module: &naga::Module) -> ModuleInfo {
    Validator::new(ValidationFlags::all(), Capabilities::all())
        .subgroup_stages(naga::valid::ShaderStages::COMPUTE)
        .subgroup_operations(naga::valid::SubgroupOperationSet::all())
        .validate(module)
        .expect("valid")
}

/// A kernel that stores two cooperative matrices, with these arguments of the second store.
fn coop_store(declarations: &str, index: &str, pitch: &str) -> String {
    format!(
        "enable f16;\nenable wgpu_cooperative_matrix;\n\
         @group(0) @binding(0) var<storage, read_write> data: array<f32>;\n{declarations}\n\
         @compute @workgroup_size(32)\n\
         fn main(@builtin(workgroup_id) wg: vec3<u32>) {{\n    \
         let first = wg.x * 256u;\n    let second = first + 4096u;\n    let sixteen = 16u;\n    \
         var sum = coop_mat16x16<f32, C>();\n    \
         coopStoreT(sum, &data[first], sixteen);\n    \
         coopStoreT(sum, &data[{index}], {pitch});\n}}\n"
    )
}

fn to_spirv(source: &str) -> bool {
    let module = parse(source).expect("parses");
    let info = validate(&module);
    let options = naga::back::spv::Options { lang_version: (1, 4), ..Default::default() };
    let written = catch_unwind(|| naga::back::spv::write_vec(&module, &info, &options, None));
    matches!(written, Ok(Ok(_)))
}

#[test]
fn coop_store_panics_on_an_inline_argument() {
    assert!(to_spirv(&coop_store("", "second", "sixteen")), "the way round it");
    assert!(!to_spirv(&coop_store("", "first + 4096u", "sixteen")), "naga writes it now");
}

#[test]
fn globals_shadow_the_roles_of_cooperative_matrices() {
    assert!(parse(&coop_store("const D = 1u;", "second", "sixteen")).is_ok());
    let shadowed = coop_store("const C = 1u;", "second", "sixteen");
    assert!(parse(&shadowed).is_err(), "naga tells them apart now");
}

#[test]
fn enabling_subgroups_is_refused() {
    let source = "\
@group(0) @binding(0) var<storage, read_write> data: array<f32>;
@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) i: u32) {
    data[i] = subgroupAdd(data[i]);
}
";
    validate(&parse(source).expect("works without"));
    assert!(parse(&format!("enable subgroups;\n{source}")).is_err(), "naga knows it now");
}

#[test]
fn words_cannot_be_bitcast_to_f16() {
    let source = |value: &str| {
        format!(
            "enable f16;\n@group(0) @binding(0) var<storage, read_write> data: array<vec2<f16>>;\n\
             @compute @workgroup_size(32)\n\
             fn main(@builtin(local_invocation_index) i: u32) {{\n    data[i] = {value};\n}}\n"
        )
    };
    assert!(parse(&source("vec2<f16>(unpack2x16float(i))")).is_ok(), "the way round it");
    assert!(parse(&source("bitcast<vec2<f16>>(i)")).is_err(), "naga casts it now");
}

#[test]
fn hlsl_has_no_cooperative_matrices() {
    let module = parse(&coop_store("", "second", "sixteen")).expect("parses");
    let info = validate(&module);
    let mut text = String::new();
    let options = naga::back::hlsl::Options {
        shader_model: naga::back::hlsl::ShaderModel::V6_4,
        fake_missing_bindings: true,
        ..Default::default()
    };
    let written = naga::back::hlsl::Writer::new(&mut text, &options, &Default::default())
        .write(&module, &info, None);
    assert!(written.is_err(), "naga writes them now");
}

/// Compiles and runs a kernel of one thread that writes one word.
fn run_one_word(device: &Wgsl, source: &str) -> u32 {
    let gpu = device.device();
    let module = gpu.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(source.into()),
    });
    let pipeline = gpu.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let tensor = device.alloc(lapidary_core::ElementType::I32, 1).expect("allocates");
    let bindings = gpu.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry {
            binding: 0,
            resource: tensor.buffer().as_entire_binding(),
        }],
    });
    let mut encoder = gpu.create_command_encoder(&Default::default());
    {
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &bindings, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
    device.queue().submit([encoder.finish()]);
    let bytes = block_on(device.download(&tensor)).expect("downloads");
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[test]
fn workgroup_memory_is_not_checked() {
    let limits = wgpu::Limits::downlevel_defaults();
    let most = limits.max_compute_workgroup_storage_size;
    let options = WgslOptions::default().restrict(limits, wgpu::Features::empty());
    let Some(device) = common::own(&options) else { return };
    // Twice what the device was opened with, and no more than the least that adapters have.
    let source = format!(
        "@group(0) @binding(0) var<storage, read_write> data: array<u32>;\n\
         var<workgroup> tile: array<u32, {}>;\n\
         @compute @workgroup_size(1)\n\
         fn main() {{\n    tile[{}] = 7u;\n    workgroupBarrier();\n    data[0] = tile[{}];\n}}\n",
        most / 2,
        most / 2 - 1,
        most / 2 - 1
    );
    let scope = device.device().push_error_scope(wgpu::ErrorFilter::Validation);
    let word = run_one_word(&device, &source);
    let error = block_on(scope.pop());
    assert!(error.is_none(), "wgpu checks it now: {error:?}");
    assert_eq!(word, 7);
}

#[test]
fn llvmpipe_ends_long_loops() {
    let Some(device) = common::device() else { return };
    if !device.limits().software {
        println!("skipped: the device is no program on the CPU");
        return;
    }
    let count = |iterations: usize| {
        run_one_word(
            device,
            // The sum depends on memory, so that no compiler replaces the loop by its result.
            &format!(
                "@group(0) @binding(0) var<storage, read_write> data: array<u32>;\n\
                 @compute @workgroup_size(1)\n\
                 fn main() {{\n    var sum = 0u;\n    \
                 for (var i = 0u; i < {iterations}u; i += 1u) {{\n        \
                 sum += 1u + data[i % 2u & 0u];\n    }}\n    data[0] = sum;\n}}\n"
            ),
        )
    };
    assert_eq!(count(SOFTWARE_LOOP_ITERATIONS), SOFTWARE_LOOP_ITERATIONS as u32);
    assert!(count(70_000) < 70_000, "it runs them all now");
}

#[test]
fn nvidia_makes_a_max_of_a_select() {
    let Some(device) = common::device() else { return };
    let relu = |negative: &str| {
        run_one_word(
            device,
            // Memory is zero, which no compiler knows.
            &format!(
                "@group(0) @binding(0) var<storage, read_write> data: array<u32>;\n\
                 @compute @workgroup_size(1)\n\
                 fn main() {{\n    let x = bitcast<f32>(data[0] + 0x7fc00000u);\n    \
                 data[0] = bitcast<u32>(select(x, 0.0, {negative}));\n}}\n"
            ),
        )
    };
    let way_round = "bitcast<u32>(x) - 0x80000001u <= 0x7f7fffffu";
    assert!(include_str!("../shaders/activation/relu.wgsl").contains(way_round));
    assert_eq!(relu(way_round), 0x7fc0_0000);
    if device.adapter_info().vendor != 0x10de {
        println!("skipped: the device is not NVIDIA's");
        return;
    }
    assert_eq!(relu("x < 0.0"), 0, "a compare of floats keeps NaN now");
}
