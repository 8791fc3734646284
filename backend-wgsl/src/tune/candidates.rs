//! What the tuner tries, as plain data.

use lapidary_core::policy::{KernelConfig, RegisterPrefetch, TilePolicy, VectorFma, VectorMac};
use lapidary_core::{ElementType, KernelChoice, PlanOptions, Problem};

/// A way to compute a problem.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Candidate {
    /// A name that does not change between versions with the same candidates; it is what is
    /// remembered.
    pub name: String,
    /// What a plan is asked for.
    pub options: PlanOptions,
}

impl Candidate {
    fn new(kernel: KernelChoice) -> Self {
        Self { name: kernel.name(), options: PlanOptions::kernel(kernel) }
    }
}

/// Every candidate for a problem, the backend's own choice first.
///
/// Which of them the device can run is for a plan to say.
#[must_use]
pub fn candidates(problem: &Problem) -> Vec<Candidate> {
    let mut kernels = vec![KernelChoice::Auto];
    kernels.extend(KernelChoice::all_steps(problem.a));
    kernels.extend(match problem.accumulator() {
        ElementType::I32 => integers(),
        _ => floats(),
    });
    let mut all: Vec<Candidate> = Vec::with_capacity(kernels.len());
    for kernel in kernels {
        let candidate = Candidate::new(kernel);
        if all.iter().all(|known| known.name != candidate.name) {
            all.push(candidate);
        }
    }
    all
}

/// Register-tiled kernels: large blocks reuse more of what they load, small ones fill the device
/// with small matrices.
fn floats() -> Vec<KernelChoice> {
    fn of<T: TilePolicy, const TM: usize, const TN: usize>() -> KernelChoice {
        KernelChoice::Policy(KernelConfig::of::<T, VectorFma<TM, TN>>())
    }
    vec![
        of::<RegisterPrefetch<128, 128, 16>, 8, 16>(),
        of::<RegisterPrefetch<128, 128, 8>, 8, 16>(),
        of::<RegisterPrefetch<128, 128, 16>, 8, 8>(),
        of::<RegisterPrefetch<128, 64, 16>, 8, 8>(),
        of::<RegisterPrefetch<64, 128, 16>, 8, 8>(),
        of::<RegisterPrefetch<64, 64, 16>, 8, 8>(),
        of::<RegisterPrefetch<64, 64, 16>, 4, 8>(),
        of::<RegisterPrefetch<32, 64, 16>, 4, 8>(),
        of::<RegisterPrefetch<32, 32, 32>, 4, 4>(),
    ]
}

/// The same for integers.
fn integers() -> Vec<KernelChoice> {
    fn of<T: TilePolicy, const TM: usize, const TN: usize>() -> KernelChoice {
        KernelChoice::Policy(KernelConfig::of::<T, VectorMac<TM, TN>>())
    }
    vec![
        of::<RegisterPrefetch<128, 128, 16>, 8, 16>(),
        of::<RegisterPrefetch<128, 64, 16>, 8, 8>(),
        of::<RegisterPrefetch<64, 64, 16>, 8, 8>(),
        of::<RegisterPrefetch<32, 64, 16>, 4, 8>(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_the_default_is_first() {
        for element in [ElementType::F32, ElementType::F16, ElementType::I8] {
            let problem = Problem::new(64, 64, 64).elements(element, element.accumulator());
            let all = candidates(&problem);
            assert_eq!(all[0].name, "auto");
            assert!(all.len() > 15, "{element}: {}", all.len());
            for (index, candidate) in all.iter().enumerate() {
                assert!(all[..index].iter().all(|known| known.name != candidate.name));
            }
        }
    }
}
