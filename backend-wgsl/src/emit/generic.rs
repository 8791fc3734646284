//! Step 7's text: a pair of policies, written out.

use core::fmt::Write as _;

use lapidary_core::policy::{Multiply, Staging, Strip, TileAction};

use crate::decide::Kernel;

/// The tiles, the hooks, the arithmetic and the orchestration of a kernel with policies.
pub(super) fn body(kernel: &Kernel) -> String {
    let Some(config) = kernel.config else {
        return String::new();
    };
    let mut text = String::new();
    text.push_str(match config.tile.staging {
        Staging::Direct => include_str!("../../shaders/tile/direct.wgsl"),
        _ => include_str!("../../shaders/tile/workgroup.wgsl"),
    });
    text.push('\n');
    let tile = &config.tile;
    hook(&mut text, "prologue", "at: Place", tile.prologue);
    hook(&mut text, "prefetch", "at: Place, t: u32, strips: u32", tile.prefetch);
    hook(&mut text, "acquire", "", tile.acquire);
    hook(&mut text, "release", "", tile.release);
    let _ =
        write!(text, "fn buf_idx(t: u32) -> u32 {{\n    return t % {}u;\n}}\n\n", tile.num_buffers);
    text.push_str(match config.compute.multiply {
        // Both are a product and a sum of the register type; which one is the header's alias.
        Multiply::ScalarFma | Multiply::ScalarMac => {
            include_str!("../../shaders/compute/scalar.wgsl")
        }
        _ => "",
    });
    text.push('\n');
    text.push_str(include_str!("../../shaders/7_generic.wgsl"));
    text
}

/// One hook as a function: its actions in order.
fn hook(text: &mut String, name: &str, parameters: &str, actions: &[TileAction]) {
    let _ = writeln!(text, "fn {name}({parameters}) {{");
    for action in actions {
        text.push_str(match action {
            TileAction::Barrier => "    workgroupBarrier();\n",
            TileAction::Load(Strip::First) => "    load_tile(at, 0u, buf_idx(0u));\n",
            TileAction::Load(Strip::Current) => "    load_tile(at, t, buf_idx(t));\n",
            TileAction::Load(Strip::Next) => {
                "    if (t + 1u < strips) {\n        load_tile(at, t + 1u, buf_idx(t + 1u));\n    }\n"
            }
            _ => "",
        });
    }
    text.push_str("}\n\n");
}
