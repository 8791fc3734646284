//! CPU products taken in turn, A B C A B C …, so that a machine whose speed drifts favours nobody.
//!
//! Prints the median time of each contender and the median of the ratios of Lapidary's time to its.
//! `cargo bench -p lapidary-bench --bench cpu_pairs -- [--quick] [--threads N] [--rounds N] [FILTER]`,
//! where FILTER is a part of `f32 1024x1024x1024`.

use std::process::ExitCode;
use std::time::Instant;

use lapidary_bench::cpu::{Arena, ContestError, Peer};
use lapidary_bench::shape::{Extent, Shape, host_shapes};
use lapidary_bench::stats::{Summary, ratios};

/// Seconds that a round of one contender takes at least, as far as repeats can make it so.
const ROUND: f64 = 0.02;

struct Options {
    extent: Extent,
    threads: usize,
    rounds: usize,
    filter: String,
}

impl Options {
    fn from_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let given = |name: &str| arguments.iter().any(|argument| argument == name);
        let number = |name: &str| {
            let position = arguments.iter().position(|argument| argument == name)?;
            arguments.get(position + 1)?.parse().ok()
        };
        let extent = match (given("--bench"), given("--quick")) {
            (false, _) => Extent::Smoke,
            (true, true) => Extent::Quick,
            (true, false) => Extent::Full,
        };
        let smoke = extent == Extent::Smoke;
        // Options and their values aside, what is left is the filter.
        let filter = arguments
            .iter()
            .enumerate()
            .find(|(index, argument)| {
                let value = *index > 0
                    && arguments[index - 1].starts_with("--")
                    && ["--threads", "--rounds"].contains(&arguments[index - 1].as_str());
                !argument.starts_with("--") && !value
            })
            .map(|(_, argument)| argument.clone())
            .unwrap_or_default();
        Self {
            extent,
            threads: number("--threads").unwrap_or(0),
            rounds: number("--rounds").unwrap_or(if smoke { 1 } else { 25 }),
            filter: if smoke { String::new() } else { filter },
        }
    }
}

fn main() -> ExitCode {
    let options = Options::from_arguments();
    let mut failed = false;
    for shape in host_shapes(options.extent) {
        let name = format!("{} {}", shape.dtype(), shape.name());
        if !name.contains(&options.filter) {
            continue;
        }
        if let Err(error) = contest(&name, shape, &options) {
            eprintln!("{name}: {error}");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn contest(name: &str, shape: Shape, options: &Options) -> Result<(), ContestError> {
    let mut arena = Arena::new(shape, options.threads)?;
    let peers = Peer::all(shape.input);
    let mut repeats = Vec::new();
    for &peer in peers {
        arena.check(peer)?;
        let start = Instant::now();
        arena.run(peer)?;
        let once = start.elapsed().as_secs_f64();
        let smoke = options.extent == Extent::Smoke;
        repeats.push(if smoke { 1 } else { (ROUND / once).ceil().clamp(1.0, 1e4) as u32 });
    }
    let mut times = vec![Vec::with_capacity(options.rounds); peers.len()];
    for _ in 0..options.rounds {
        for ((&peer, &repeats), times) in peers.iter().zip(&repeats).zip(&mut times) {
            let start = Instant::now();
            for _ in 0..repeats {
                arena.run(peer)?;
            }
            times.push(start.elapsed().as_secs_f64() / f64::from(repeats));
        }
    }
    let (own, threads) = (times[0].clone(), arena.threads());
    for (peer, times) in peers.iter().zip(times) {
        let (Some(time), Some(ratio)) = (Summary::of(&times), Summary::of(&ratios(&own, &times)))
        else {
            continue;
        };
        println!(
            "{name} {threads} threads {:<14} {:>10.1} us {:>8.2} GFLOP/s  lapidary/it {:.3} (best {:.3})",
            peer.name(),
            time.median * 1e6,
            shape.flops() / time.median * 1e-9,
            ratio.median,
            own.iter().copied().fold(f64::INFINITY, f64::min) / time.min,
        );
    }
    Ok(())
}
