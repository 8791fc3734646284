//! `cargo xtask demo`: the main job on real input.

use std::path::PathBuf;
use std::process::Command;

use crate::Options;
use crate::runner::{self, Outcome, Runner, cargo};
use crate::vulkan;

/// A transformer layer: activations, weights, and results computed in float64.
const LAYER: &str = "cli/tests/data/minilm_layer0.safetensors";

const VULKAN: &str = "Vulkan device";
const BUILD: &str = "Build the `lapidary` command";
const DEVICES: &str = "Devices";
const PRODUCT: &str = "Feed-forward layer: 105×384 · 384×1536, bias, GELU";

/// Runs the demo; true if it succeeded.
pub(crate) fn run(options: Options) -> bool {
    println!(
        "The first layer of all-MiniLM-L6-v2 on the opening sentence of A Tale of Two Cities: \
         activations of 105 tokens times the feed-forward weights, plus bias, through GELU, \
         checked element by element against a float64 product.\n"
    );
    let mut runner = Runner::new(&[VULKAN, BUILD, DEVICES, PRODUCT]);
    let device = runner.step(VULKAN, || vulkan::ensure(!options.no_install));
    let built = runner.step(BUILD, || runner::run(&mut cargo(&["build", "-p", "lapidary"])));
    if built == Outcome::Passed {
        runner.step(DEVICES, || runner::run(lapidary().arg("devices")));
        let operand = |name: &str| format!("{LAYER}:{name}");
        runner.step(PRODUCT, || {
            runner::run(
                lapidary()
                    .args(["run", &operand("activations"), &operand("ffn.weight"), "--trans-b"])
                    .args(["--bias", &operand("ffn.bias"), "--activation", "gelu-erf"])
                    .args(["--check"]),
            )
        });
    }
    let mut notes = Vec::new();
    if let Outcome::Skipped(why) = device {
        notes.push(format!("ran on the CPU backend: {why}"));
    }
    runner.finish(&notes)
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
