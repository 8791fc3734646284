//! Memory that runs out and devices that go away are typed errors.

mod common;

use lapidary_core::testing::block_on;
use lapidary_core::{
    Args, Backend, ElementType, Error, Gemm, MatrixRef, Operands, PlanOptions, Problem,
};
use lapidary_wgsl::{Wgsl, WgslOptions};

/// Allocates until the device refuses, nothing of it touched, and checks that the device lives on.
fn run_out_of_memory(device: &Wgsl) {
    let bytes = device.limits().buffer_bytes.min(1 << 40) as usize / 16 * 16;
    let mut kept = Vec::new();
    let error = loop {
        match device.alloc(ElementType::I8, bytes) {
            Ok(tensor) => kept.push(tensor),
            Err(error) => break error,
        }
        assert!(kept.len() < 1 << 12, "no device has {} buffers of {bytes} bytes", kept.len());
    };
    match error {
        Error::OutOfMemory { requested, what, .. } => {
            assert_eq!(requested, bytes as u64);
            assert_eq!(what, "allocating a buffer");
        }
        other => panic!("{other:?}"),
    }
    println!("refused after {} buffers of {bytes} bytes", kept.len());
    drop(kept);
    block_on(device.sync()).expect("alive");
    let one = [2.0f32];
    let view = MatrixRef::row_major(&one, 1, 1).expect("fits");
    let output = Gemm::<Wgsl>::run(device, &Problem::new(1, 1, 1), &Operands::new(view, view));
    assert_eq!(output.expect("runs").matrix.to_vec::<f32>().expect("f32"), [4.0]);
}

/// A software device hands out as much address space as there is, so it gets a process with little:
/// this test again, with a limit.
#[test]
fn memory_runs_out_with_a_typed_error_and_the_device_lives_on() {
    const NAME: &str = "memory_runs_out_with_a_typed_error_and_the_device_lives_on";
    const INSIDE: &str = "LAPIDARY_TEST_LIMITED_MEMORY";
    let Some(device) = common::own(&WgslOptions::default()) else { return };
    if !device.limits().software || std::env::var_os(INSIDE).is_some() {
        return run_out_of_memory(&device);
    }
    if !cfg!(unix) {
        println!("skipped: limiting a process's memory needs a Unix shell");
        return;
    }
    // 12 GiB in units of 1 KiB; the device's largest buffer is 2 GiB.
    let script = format!("ulimit -v 12582912 && exec \"$0\" --exact {NAME} --nocapture");
    let program = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new("sh");
    let output = command.arg("-c").arg(script).arg(program).env(INSIDE, "1").output();
    let output = output.expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("refused after "), "{text}");
}

#[test]
fn a_destroyed_device_gives_typed_errors() {
    let Some(device) = common::own(&WgslOptions::default()) else { return };
    let problem = Problem::new(4, 4, 4);
    let plan = Gemm::<Wgsl>::plan(&device, &problem, &PlanOptions::default()).expect("plans");
    let tensor = || device.alloc(ElementType::F32, 16).expect("allocates");
    let (a, b, c) = (tensor(), tensor(), tensor());
    let args = Args::new(&a, &b, &c);
    plan.execute(&args).expect("executes");
    block_on(device.sync()).expect("alive");
    device.device().destroy();
    let lost = |what: &str, result: Result<(), Error>| match result {
        Err(Error::DeviceLost { reason, .. }) => assert!(!reason.is_empty(), "{what}"),
        other => panic!("{what}: {other:?}"),
    };
    lost("allocating", device.alloc(ElementType::F32, 16).map(|_| ()));
    lost("uploading", device.upload(&a, 0, &[0; 64]));
    lost("executing", plan.execute(&args));
    lost("downloading", block_on(device.download(&c)).map(|_| ()));
    lost("waiting", block_on(device.sync()));
    lost("packing", plan.pack_b(&b).map(|_| ()));
    let other = Problem::new(4, 4, 4).beta(1.0);
    lost("planning", Gemm::<Wgsl>::plan(&device, &other, &PlanOptions::default()).map(|_| ()));
}
