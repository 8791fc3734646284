//! What is chosen for a problem, and what the compiler makes of it.
//!
//! ```text
//! cargo run -p lapidary-hip --example hip_preshuffle -- gfx942 5120 5120 8320
//! ```

use lapidary_core::ElementType;
use lapidary_hip::compile::Compiler;
use lapidary_hip::inspect::{HotLoop, Resources};
use lapidary_hip::preshuffle::{Args, EpilogueTraits, ProblemClass, choose};
use lapidary_hip::{HipError, Target};

const USAGE: &str = "usage: hip_preshuffle [gfx942|gfx950 [M N K]]";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((target, sizes)) = parse(&arguments) else {
        eprintln!("{USAGE}");
        std::process::exit(2);
    };
    if let Err(error) = show(target, sizes) {
        eprintln!("{error}");
        std::process::exit(2);
    }
}

fn parse(arguments: &[String]) -> Option<(Target, [usize; 3])> {
    let mut sizes = [5120, 5120, 8320];
    let target = match arguments {
        [] => Target::Gfx942,
        [target] => Target::from_name(target)?,
        [target, m, n, k] => {
            for (size, text) in sizes.iter_mut().zip([m, n, k]) {
                *size = text.parse().ok().filter(|&size| size > 0)?;
            }
            Target::from_name(target)?
        }
        _ => return None,
    };
    Some((target, sizes))
}

fn show(target: Target, [m, n, k]: [usize; 3]) -> Result<(), HipError> {
    let element = match target {
        Target::Gfx950 => ElementType::F8E4M3,
        _ => ElementType::F8E4M3Fnuz,
    };
    let class = ProblemClass {
        m,
        n,
        k,
        batch: 1,
        a: element,
        b: element,
        output: ElementType::BF16,
        block_scaled: false,
        epilogue: EpilogueTraits {
            row_scale: true,
            col_scale: true,
            bias: true,
            ..EpilogueTraits::default()
        },
        a_aligned: k.is_multiple_of(16),
        c_alignment: if n == 0 { 1 } else { 1 << n.trailing_zeros().min(3) },
        compute_units: if target == Target::Gfx950 { 256 } else { 304 },
    };
    let choice = choose(target, &class)?;
    let config = choice.config;
    println!("{m} x {n} x {k} on {target}: {config}");
    for reason in &choice.reasons {
        println!("  {reason}");
    }
    let k_padded = k.next_multiple_of(config.tile[2]);
    if let Some(args) = Args::sizes(&config, [m, n, k], k_padded, choice.splits) {
        let [tiles, _, splits] = args.launch(1).map_or([0; 3], |launch| launch.grid);
        println!("workgroups: {tiles} tiles x {splits} range(s) of K, 256 threads each");
        println!(
            "MFMA a tile and wave: {} strips x {} = {}",
            args.tiles_k,
            config.mfma_per_strip(),
            args.tiles_k as usize * config.mfma_per_strip()
        );
    }

    let compiler = Compiler::find_clang()?;
    let request = config.request()?;
    let assembly = compiler.assembly(&request)?;
    let resources = Resources::of(&assembly)?;
    let hot = HotLoop::of(&assembly)?;
    println!("compiled by {}", compiler.version());
    println!(
        "registers: {} vector ({} accumulation), {} scalar; {} bytes of scratch, {} of LDS; {} wave(s) a SIMD",
        resources.vgprs,
        resources.agprs,
        resources.sgprs,
        resources.scratch,
        resources.lds,
        resources.waves_per_simd()
    );
    println!("hot loop: {:?}", hot.mix);
    println!("  {} instructions, {:.1} % MFMA", hot.mix.total(), 100.0 * hot.mix.mfma_share());
    match hot.mca_cycles(&format!("llvm-mca-{}", compiler.major()), target) {
        Ok(cycles) => println!(
            "  static MFMA utilisation {:.1} % ({:.1} of {cycles:.1} model cycles; a scheduling figure, not a speed)",
            100.0 * hot.mfma_cycles() / cycles,
            hot.mfma_cycles()
        ),
        Err(error) => println!("  no static MFMA utilisation: {error}"),
    }
    println!("command: {}", compiler.command_line(&request));
    Ok(())
}
