//! What tests of every backend share: seeded data, shapes, and storage with canaries.
//!
//! Behind the feature `testing`. A [`Case`] is a problem with its operands in storages that are
//! larger than the views in them; every element outside a view is a canary (a NaN where the type
//! has one). [`Stored::broken_canaries`] finds those that an execution overwrote.
//!
//! ```
//! # #[cfg(not(feature = "cpu"))]
//! # fn main() {}
//! # #[cfg(feature = "cpu")]
//! # fn main() -> Result<(), lapidary_core::Error> {
//! use lapidary_core::testing::{Arrangement, Case, Values, block_on};
//! use lapidary_core::{AnyMatrixRef, Args, Backend, Cpu, Gemm, PlanOptions, Problem, TensorSlice};
//! use lapidary_core::oracle;
//!
//! let case = Case::new(Problem::new(17, 3, 15), Values::SmallIntegers(4), 7)
//!     .arranged(Arrangement::ColMajor, Arrangement::Padded, Arrangement::Padded);
//! let device = Cpu::new();
//! let [a, b, c] = [&case.a, &case.b, &case.c].map(|stored| {
//!     let tensor = device.alloc(stored.element(), stored.len())?;
//!     device.upload(&tensor, 0, stored.bytes())?;
//!     Ok::<_, lapidary_core::Error>((tensor, stored.placement().offset))
//! });
//! let (a, b, c) = (a?, b?, c?);
//! let slice = TensorSlice::new;
//! let args = Args::new(slice(&a.0, a.1), slice(&b.0, b.1), slice(&c.0, c.1));
//! Gemm::<Cpu>::plan(&device, &case.problem, &PlanOptions::default())?.execute(&args)?;
//! let after = block_on(device.download(&c.0))?;
//! assert_eq!(case.c.broken_canaries(&after), []);
//! let found = AnyMatrixRef::new(&after, case.c.element(), case.c.placement())?;
//! let comparison = oracle::reference(&case.problem, &case.operands())?.compare_exact(&found);
//! assert!(comparison.passed(), "{comparison}");
//! # Ok(())
//! # }
//! ```

mod case;
mod stored;

pub use crate::random::Random;
pub use case::{Case, Values};
pub use pollster::block_on;
pub use stored::{Arrangement, Stored};

/// Sizes at which kernels go wrong: nothing, one, and both sides of every tile edge in use.
pub const SIZES: [usize; 14] = [0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200];

/// M, N and K from [`SIZES`] such that every pair of two of them occurs: 14² triples.
///
/// Every (M, N) occurs once, and K is their sum modulo 14 (a Latin square), so every (M, K) and
/// every (N, K) occurs once too.
#[must_use]
pub fn pairwise_shapes() -> Vec<[usize; 3]> {
    let count = SIZES.len();
    (0..count * count)
        .map(|i| (i / count, i % count))
        .map(|(m, n)| [SIZES[m], SIZES[n], SIZES[(m + n) % count]])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_pair_of_sizes_occurs() {
        let shapes = pairwise_shapes();
        for (x, y) in [(0, 1), (0, 2), (1, 2)] {
            let pairs: HashSet<_> = shapes.iter().map(|s| (s[x], s[y])).collect();
            assert_eq!(pairs.len(), SIZES.len() * SIZES.len());
        }
    }
}
