//! `cargo xtask demo`: the main job on real input.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::Options;
use crate::runner::{self, Outcome, Runner, cargo};
use crate::vulkan::{self, Wanted};

/// A transformer layer: activations, weights, and results computed in float64.
const LAYER: &str = "cli/tests/data/minilm_layer0.safetensors";

const VULKAN: &str = "Vulkan device";
const BUILD: &str = "Build the `lapidary` command";
const DEVICES: &str = "Devices";
const ON_WGSL: &str = "Product on the WGSL device";
const ON_CPU: &str = "Product on the CPU";

/// Runs the demo; true if it succeeded.
pub(crate) fn run(options: Options) -> bool {
    println!(
        "The feed-forward layer of a transformer (all-MiniLM-L6-v2) on the opening sentence of A \
         Tale of Two Cities:\nactivations of 105 tokens (105×384) times weights (384×1536), plus \
         bias, through GELU, every element\nchecked against a float64 product.\n"
    );
    let mut runner = Runner::new(&[VULKAN, BUILD, DEVICES, ON_WGSL, ON_CPU]);
    let device = runner.step(VULKAN, || vulkan::ensure(Wanted::Any, !options.no_install));
    let built = runner.step(BUILD, || runner::run(&mut cargo(&["build", "-p", "lapidary"])));
    if built == Outcome::Passed {
        runner.step(DEVICES, || {
            if let (Some(reason), Outcome::Passed) = (no_wgsl_device(), &device) {
                println!("the driver found drives no device: {reason}");
                vulkan::ensure(Wanted::Software, !options.no_install);
            }
            runner::run(lapidary().arg("devices"))
        });
        runner.step(ON_WGSL, || match no_wgsl_device() {
            None => product("wgsl"),
            Some(reason) => Outcome::Skipped(match &device {
                Outcome::Skipped(why) => why.clone(),
                _ => reason,
            }),
        });
        runner.step(ON_CPU, || product("cpu"));
    }
    runner.finish(&[])
}

fn product(backend: &str) -> Outcome {
    let operand = |name: &str| format!("{LAYER}:{name}");
    runner::run(
        lapidary()
            .args(["run", &operand("activations"), &operand("ffn.weight"), "--trans-b"])
            .args(["--bias", &operand("ffn.bias"), "--activation", "gelu-erf"])
            .args(["--backend", backend, "--check"]),
    )
}

/// Why the WGSL backend has no device, if it has none.
fn no_wgsl_device() -> Option<String> {
    let listed = lapidary().args(["devices", "--json"]).stderr(Stdio::null()).output();
    let json = match listed {
        Ok(output) => serde_json::from_slice::<serde_json::Value>(&output.stdout),
        Err(error) => return Some(error.to_string()),
    };
    match json {
        Ok(devices) => devices["wgsl_reason"].as_str().map(str::to_owned),
        Err(error) => Some(format!("`lapidary devices --json` printed no list: {error}")),
    }
}

/// The command as it was built, next to this program.
fn lapidary() -> Command {
    let name = format!("lapidary{}", std::env::consts::EXE_SUFFIX);
    let program = std::env::current_exe()
        .ok()
        .and_then(|this| Some(this.parent()?.join(&name)))
        .unwrap_or_else(|| PathBuf::from(&name));
    let mut command = Command::new(program);
    command.current_dir(crate::root());
    command
}
