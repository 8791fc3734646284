//! What the tuner tries, as plain data.

use lapidary_core::policy::Staging;
use lapidary_core::{ElementType, KernelChoice, PlanOptions, Problem};

use crate::decide::{
    BlockRow, cooperative_blocks, cooperative_f16_blocks, dot4_blocks, float_blocks, integer_blocks,
};

/// Blocks of C from which a device is full without slices of K.
const FULL: usize = 512;

/// Steps along K that a slice has at least.
const LEAST_SLICE: usize = 128;

/// Rows or columns of C up to which the skinny kernel is tried.
const SKINNY: usize = 16;

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
    /// A choice with the name that follows from it.
    #[must_use]
    pub fn new(options: PlanOptions) -> Self {
        let mut name = options.kernel.name();
        if let Some(slices) = options.k_slices {
            name.push_str(&format!(", {slices} slices of K"));
        }
        match options.copies {
            Some([false, false]) => name.push_str(", in place"),
            Some([true, false]) => name.push_str(", A copied"),
            Some([false, true]) => name.push_str(", B copied"),
            Some([true, true]) => name.push_str(", A and B copied"),
            None => {}
        }
        Self { name, options }
    }
}

/// Every candidate for a problem, the backend's own choice first; `f16_sums` says whether products of f16
/// may be summed in f16.
///
/// Which of them the device can run is for a plan to say.
#[must_use]
pub fn candidates(problem: &Problem, f16_sums: bool) -> Vec<Candidate> {
    let mut all = vec![PlanOptions::default().f16_sums(f16_sums)];
    if problem.m.min(problem.n) <= SKINNY {
        let skinny = PlanOptions::kernel(KernelChoice::Skinny);
        all.extend(slice_counts(problem.k, 1).map(|slices| skinny.clone().k_slices(slices)));
    }
    for row in blocks(problem, f16_sums) {
        let tile = &row.config.tile;
        let (rows, cols) =
            (problem.m.div_ceil(tile.block_tile_m), problem.n.div_ceil(tile.block_tile_n));
        let count = rows.saturating_mul(cols).saturating_mul(problem.batch);
        let block = PlanOptions::kernel(KernelChoice::Policy(row.config));
        for slices in slice_counts(problem.k, count) {
            all.push(block.clone().k_slices(slices).copies([false, false]));
        }
        // As many workgroups as fill a device of 64 or 128 processors once.
        let tiled = tile.staging == Staging::Workgroup && row.config.compute.multiply.is_vector();
        if tiled && count > 1 && problem.k >= 2 * LEAST_SLICE {
            for workgroups in [64, 132].map(|processors| processors * row.resident) {
                let config = row.config;
                all.push(PlanOptions::kernel(KernelChoice::StreamK { config, workgroups }));
            }
        }
        // A copy pays where its elements are used often.
        if problem.m.min(problem.n) > 512 {
            for copies in [[true, false], [false, true], [true, true]] {
                all.push(block.clone().k_slices(1).copies(copies));
            }
        }
    }
    all.extend(KernelChoice::all_steps(problem.a).into_iter().map(PlanOptions::kernel));
    let mut distinct: Vec<Candidate> = Vec::with_capacity(all.len());
    for candidate in all.into_iter().map(Candidate::new) {
        if distinct.iter().all(|known| known.name != candidate.name) {
            distinct.push(candidate);
        }
    }
    distinct
}

/// The blocks for a problem's element types.
fn blocks(problem: &Problem, f16_sums: bool) -> Vec<BlockRow> {
    if problem.b == ElementType::I4 && problem.accumulator() == ElementType::I32 {
        return integer_blocks().to_vec();
    }
    if problem.accumulator() == ElementType::I32 {
        return dot4_blocks().into_iter().chain(integer_blocks()).collect();
    }
    let mut rows = float_blocks().to_vec();
    if problem.a == ElementType::F16 && problem.b_group.is_none() {
        rows.extend(cooperative_blocks());
        if f16_sums {
            rows.extend(cooperative_f16_blocks());
        }
    }
    rows
}

/// One, and powers of two until the device is full or slices get too short.
fn slice_counts(k: usize, blocks: usize) -> impl Iterator<Item = usize> {
    let most = (k / LEAST_SLICE).min(FULL / blocks.max(1));
    (0..usize::BITS - 1).map(|power| 1 << power).take_while(move |&n| n == 1 || n <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_the_default_is_first() {
        for element in [ElementType::F32, ElementType::F16, ElementType::I8] {
            let problem = Problem::new(64, 64, 64).elements(element, element.accumulator());
            let all = candidates(&problem, false);
            assert_eq!(all[0].name, "auto");
            assert!(all.len() > 15, "{element}: {}", all.len());
            assert!(all.iter().any(|candidate| candidate.options.k_slices == Some(1)));
            for (index, candidate) in all.iter().enumerate() {
                assert!(all[..index].iter().all(|known| known.name != candidate.name));
            }
        }
    }

    #[test]
    fn f16_sums_are_candidates_where_they_are_allowed() {
        let half = Problem::new(512, 512, 512).elements(ElementType::F16, ElementType::F32);
        let wide = Problem::new(512, 512, 512);
        let count = |problem: &Problem, allowed| {
            let all = candidates(problem, allowed);
            all.iter().filter(|candidate| candidate.name.contains("f16-sums")).count()
        };
        assert!(count(&half, true) >= cooperative_f16_blocks().len());
        assert_eq!([count(&half, false), count(&wide, true), count(&wide, false)], [0; 3]);
    }

    #[test]
    fn slices_stop_where_they_no_longer_pay() {
        let counts = |k, blocks| slice_counts(k, blocks).collect::<Vec<_>>();
        assert_eq!(counts(64, 1), [1]);
        assert_eq!(counts(1024, 1), [1, 2, 4, 8]);
        assert_eq!(counts(1 << 20, 128), [1, 2, 4]);
        assert_eq!(counts(1 << 20, 4096), [1]);
    }

    #[test]
    fn few_rows_have_a_kernel_of_their_own_and_many_may_be_copied() {
        let named = |problem: &Problem, part: &str| {
            candidates(problem, false).iter().any(|candidate| candidate.name.contains(part))
        };
        let skinny = Problem::new(1, 4096, 4096);
        assert!(named(&skinny, "skinny, 4 slices of K") && !named(&skinny, "copied"));
        let large = Problem::new(4096, 4096, 4096);
        assert!(named(&large, "A and B copied") && !named(&large, "skinny"));
    }
}
