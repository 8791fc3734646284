//! The backend's kernels as plain data: what is code of its own, whatever the block.

use super::plan::sums_in;
use crate::element::ElementType;
use crate::problem::Problem;

/// Where a block's sums are kept until they are elements of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CpuSums {
    /// In C itself: it has their type and is not read. An epilogue is applied in place.
    InPlace,
    /// In a buffer of the thread's; the epilogue reads C from where it writes it.
    Buffered,
    /// Of i8 and i4 products: exact for 1024 of them in a float buffer, added up as integers.
    Integers,
}

/// One of the CPU's kernels: where sums are kept, and the type that the epilogue is computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CpuKernel {
    /// Where sums are kept.
    pub sums: CpuSums,
    /// The type of the epilogue's arithmetic: f32, f64, or i32 where C is integers modulo 2³².
    pub arithmetic: ElementType,
}

impl CpuKernel {
    /// Every kernel that a plan can choose.
    pub const ALL: [Self; 6] = [
        Self::new(CpuSums::InPlace, ElementType::F32),
        Self::new(CpuSums::InPlace, ElementType::F64),
        Self::new(CpuSums::Buffered, ElementType::F32),
        Self::new(CpuSums::Buffered, ElementType::F64),
        Self::new(CpuSums::Integers, ElementType::I32),
        Self::new(CpuSums::Integers, ElementType::F32),
    ];

    const fn new(sums: CpuSums, arithmetic: ElementType) -> Self {
        Self { sums, arithmetic }
    }

    /// The kernel that computes `problem`.
    #[must_use]
    pub fn of(problem: &Problem) -> Self {
        match sums_in(problem) {
            ElementType::I32 if problem.c == ElementType::I32 => {
                Self::new(CpuSums::Integers, ElementType::I32)
            }
            ElementType::I32 => Self::new(CpuSums::Integers, ElementType::F32),
            sums if problem.c == sums && !problem.reads_c() => Self::new(CpuSums::InPlace, sums),
            sums => Self::new(CpuSums::Buffered, sums),
        }
    }

    /// The name that plans report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match (self.sums, self.arithmetic) {
            (CpuSums::InPlace, ElementType::F64) => "cpu_in_place_f64",
            (CpuSums::InPlace, _) => "cpu_in_place_f32",
            (CpuSums::Buffered, ElementType::F64) => "cpu_buffered_f64",
            (CpuSums::Buffered, _) => "cpu_buffered_f32",
            (CpuSums::Integers, ElementType::I32) => "cpu_integers_i32",
            (CpuSums::Integers, _) => "cpu_integers_f32",
        }
    }

    /// Rows and columns of the largest block that C is cut into: 2048, 1024 or 512.
    ///
    /// Each block reads its rows of A and columns of B anew, so blocks are as large as what happens to
    /// their sums allows: those that are elements of C as they are (`plain`: no epilogue) need no other
    /// place and no second look; where operands are `converted` first, the buffers for that have a
    /// say; sums with an epilogue in C's own memory are looked at again, while a cache still holds
    /// them; others, and those of integers, have buffers of their own besides.
    #[must_use]
    pub const fn largest_block(self, plain: bool, converted: bool) -> usize {
        match (self.sums, plain, converted) {
            (CpuSums::InPlace, true, false) => 2048,
            (CpuSums::InPlace, true, true) => 1024,
            _ => 512,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_valid_problem_has_one_of_the_kernels_and_every_kernel_a_problem() {
        let mut chosen = BTreeSet::new();
        for a in ElementType::ALL {
            for b in ElementType::ALL {
                for c in ElementType::ALL {
                    for (beta, blocks) in [(0.0, false), (1.0, false), (0.0, true)] {
                        let problem = Problem::new(1, 1, 32)
                            .elements(a, c)
                            .factors(a, b)
                            .block_scales(blocks)
                            .beta(beta);
                        let problem = problem.b_layout(crate::Layout::col_major(32, 1));
                        if problem.validate().is_ok() {
                            let kernel = CpuKernel::of(&problem);
                            assert!(CpuKernel::ALL.contains(&kernel), "{kernel:?}");
                            chosen.insert(kernel.name());
                        }
                    }
                }
            }
        }
        assert_eq!(chosen, CpuKernel::ALL.map(CpuKernel::name).into());
    }
}
