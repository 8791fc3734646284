//! Arithmetic: which outputs a thread owns and how they are accumulated.

use half::f16;

use super::tile::TileOrder;
use crate::element::{Element, ElementType};

/// The multiply-accumulate a compute policy is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Multiply {
    /// `acc = a · b + acc` on f32, one scalar at a time.
    ScalarFma,
    /// `acc = a · b + acc` on i32, one scalar at a time, modulo 2³².
    ScalarMac,
    /// `acc = a · b + acc` on vectors of four columns, f32 or (modulo 2³²) i32; the loop over a strip
    /// is written out.
    Vector,
    /// `acc = a₀·b₀ + a₁·b₁ + a₂·b₂ + a₃·b₃ + acc` on four i8 packed into a 32-bit word, on vectors of
    /// four columns, modulo 2³².
    VectorDot4,
    /// `acc = a · b + acc` on matrices that a subgroup holds together, f16 factors and sums of the
    /// accumulator's type, f32 or f16.
    CooperativeMatrix,
    /// Matrix cores of CDNA3 and CDNA4 on f32, exactly: `v_mfma_f32_16x16x4_f32`.
    MfmaF32,
    /// Matrix cores of CDNA3 on f32 cut to 10 bits of fraction, at four times the rate of
    /// [`MfmaF32`](Self::MfmaF32): `v_mfma_f32_16x16x8_xf32`.
    MfmaXf32,
    /// Matrix cores on f16, accumulating in f32: one `v_mfma_f32_16x16x32_f16` on CDNA4, two
    /// `v_mfma_f32_16x16x16_f16` on CDNA3.
    MfmaF16,
}

impl Multiply {
    /// Whether it reads tiles as vectors of four rows or columns, one step along K after the other.
    #[must_use]
    pub const fn is_vector(self) -> bool {
        matches!(self, Self::Vector | Self::VectorDot4)
    }

    /// Whether it is an instruction of a matrix core, which whole waves of 64 lanes execute together.
    #[must_use]
    pub const fn is_matrix(self) -> bool {
        matches!(self, Self::MfmaF32 | Self::MfmaXf32 | Self::MfmaF16)
    }
}

/// Arithmetic of a tiled kernel. Sizes are in elements.
pub trait ComputePolicy: 'static {
    /// The name used in plans.
    const NAME: &'static str;
    /// Rows of C one thread accumulates.
    const THREAD_TILE_M: usize;
    /// Columns of C one thread accumulates.
    const THREAD_TILE_N: usize;
    /// Lanes of a wave that own different outputs.
    const EFFECTIVE_LANES: usize = 64;
    /// Steps along K that one multiply-accumulate consumes.
    const K_STEP: usize = 1;
    /// The instruction it is made of.
    const MULTIPLY: Multiply;
    /// The order of tiles it reads.
    const ORDER: TileOrder = TileOrder::KInner;
    /// Element type of a fragment of A in registers.
    type ElemA: Element;
    /// Element type of a fragment of B in registers.
    type ElemB: Element;
    /// Element type of the accumulator.
    type Accumulator: Element;

    /// First row and column, within the block tile, of the outputs that thread `tid` owns.
    ///
    /// Threads run along N first: with `BLOCK_TILE_N / THREAD_TILE_N` threads to a row of tiles,
    /// row = ⌊tid / threads⌋ · THREAD_TILE_M and column = (tid mod threads) · THREAD_TILE_N.
    #[must_use]
    fn thread_tile_offset(tid: usize, block_tile_n: usize) -> (usize, usize) {
        let threads_n = block_tile_n / Self::THREAD_TILE_N;
        (tid / threads_n * Self::THREAD_TILE_M, tid % threads_n * Self::THREAD_TILE_N)
    }
}

/// A TM×TN outer product of f32 scalars a thread.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct ScalarFma<const TM: usize, const TN: usize>;

impl<const TM: usize, const TN: usize> ComputePolicy for ScalarFma<TM, TN> {
    const NAME: &'static str = "scalar-fma";
    const THREAD_TILE_M: usize = TM;
    const THREAD_TILE_N: usize = TN;
    const MULTIPLY: Multiply = Multiply::ScalarFma;
    type ElemA = f32;
    type ElemB = f32;
    type Accumulator = f32;
}

/// A TM×TN outer product of i32 scalars a thread, for i8 operands.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct ScalarMac<const TM: usize, const TN: usize>;

impl<const TM: usize, const TN: usize> ComputePolicy for ScalarMac<TM, TN> {
    const NAME: &'static str = "scalar-mac";
    const THREAD_TILE_M: usize = TM;
    const THREAD_TILE_N: usize = TN;
    const MULTIPLY: Multiply = Multiply::ScalarMac;
    type ElemA = i32;
    type ElemB = i32;
    type Accumulator = i32;
}

/// A TM×TN outer product a thread in vectors of four, for f32 accumulators. A thread's rows and
/// columns are groups of four spread over the block, so that neighbouring threads read neighbouring
/// vectors.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct VectorFma<const TM: usize, const TN: usize>;

impl<const TM: usize, const TN: usize> ComputePolicy for VectorFma<TM, TN> {
    const NAME: &'static str = "vector-fma";
    const THREAD_TILE_M: usize = TM;
    const THREAD_TILE_N: usize = TN;
    const MULTIPLY: Multiply = Multiply::Vector;
    const ORDER: TileOrder = TileOrder::KOuter;
    type ElemA = f32;
    type ElemB = f32;
    type Accumulator = f32;
}

/// [`VectorFma`] for i32 accumulators, modulo 2³².
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct VectorMac<const TM: usize, const TN: usize>;

impl<const TM: usize, const TN: usize> ComputePolicy for VectorMac<TM, TN> {
    const NAME: &'static str = "vector-mac";
    const THREAD_TILE_M: usize = TM;
    const THREAD_TILE_N: usize = TN;
    const MULTIPLY: Multiply = Multiply::Vector;
    const ORDER: TileOrder = TileOrder::KOuter;
    type ElemA = i32;
    type ElemB = i32;
    type Accumulator = i32;
}

/// [`VectorMac`] on i8 operands whose steps along K are packed by fours: one instruction multiplies
/// and adds four of them. Tiles hold words of four.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct VectorDot4<const TM: usize, const TN: usize>;

impl<const TM: usize, const TN: usize> ComputePolicy for VectorDot4<TM, TN> {
    const NAME: &'static str = "vector-dot4";
    const THREAD_TILE_M: usize = TM;
    const THREAD_TILE_N: usize = TN;
    const K_STEP: usize = 4;
    const MULTIPLY: Multiply = Multiply::VectorDot4;
    const ORDER: TileOrder = TileOrder::KOuter;
    type ElemA = i32;
    type ElemB = i32;
    type Accumulator = i32;
}

/// Matrix units: a subgroup accumulates an SM×SN tile of C in matrices, f16 factors and f32 sums. The
/// policy counts 32 lanes and matrices of 16×16, so that a lane's share is SM rows of SN / 32 columns;
/// a backend may cut the same tile for a device whose subgroups have fewer lanes, or whose matrices
/// are 8×8. Which elements a lane holds is the device's own affair.
///
/// Tiles hold f16: A's a row after the other, B's a step along K after the other, which is how the
/// units read them without a transposition.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct CooperativeMatrix<const SM: usize, const SN: usize>;

impl<const SM: usize, const SN: usize> ComputePolicy for CooperativeMatrix<SM, SN> {
    const NAME: &'static str = "cooperative-matrix";
    const THREAD_TILE_M: usize = SM;
    const THREAD_TILE_N: usize = SN / 32;
    const EFFECTIVE_LANES: usize = 32;
    const K_STEP: usize = 16;
    const MULTIPLY: Multiply = Multiply::CooperativeMatrix;
    const ORDER: TileOrder = TileOrder::KOuter;
    type ElemA = f16;
    type ElemB = f16;
    type Accumulator = f32;
}

/// The same with f16 sums: half the registers, and about twice the rate on some devices.
///
/// Sums past 65,504 become infinite, and each of the K additions may be off by 2⁻¹¹ of the sum so far
/// instead of 2⁻²⁴. So no backend takes it unless it is asked for, by this policy or by
/// [`PlanOptions::f16_sums`](crate::PlanOptions::f16_sums). What follows a sum (alpha, beta, bias, the
/// sum of slices of K) is f32.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct CooperativeMatrixF16<const SM: usize, const SN: usize>;

impl<const SM: usize, const SN: usize> ComputePolicy for CooperativeMatrixF16<SM, SN> {
    const NAME: &'static str = "cooperative-matrix-f16-sums";
    const THREAD_TILE_M: usize = SM;
    const THREAD_TILE_N: usize = SN / 32;
    const EFFECTIVE_LANES: usize = 32;
    const K_STEP: usize = 16;
    const MULTIPLY: Multiply = Multiply::CooperativeMatrix;
    const ORDER: TileOrder = TileOrder::KOuter;
    type ElemA = f16;
    type ElemB = f16;
    type Accumulator = f16;
}

/// Rows and columns of C one instruction of the matrix core computes.
pub(super) const MATRIX_TILE: usize = 16;
/// Lanes of a wave that has a matrix core.
const MATRIX_WAVE: usize = 64;
/// Rows of a 16×16 block that one lane of 64 holds; they are all in one column.
const MATRIX_ROWS_A_LANE: usize = 4;

/// First row and column that lane `tid % 64` of wave `tid / 64` owns when waves of WM×WN outputs run
/// along N first: lane l holds rows 4·⌊l / 16⌋ to + 3 and column l mod 16 of each 16×16 block of its
/// wave.
fn matrix_offset(tid: usize, block_tile_n: usize, [wm, wn]: [usize; 2]) -> (usize, usize) {
    let (wave, lane) = (tid / MATRIX_WAVE, tid % MATRIX_WAVE);
    let waves_n = block_tile_n / wn;
    (
        wave / waves_n * wm + lane / MATRIX_TILE * MATRIX_ROWS_A_LANE,
        wave % waves_n * wn + lane % MATRIX_TILE,
    )
}

macro_rules! matrix_policy {
    ($(#[$doc:meta])* $name:ident, $text:literal, $element:ty, $k_step:literal) => {
        $(#[$doc])*
        ///
        /// WM and WN are the rows and columns of C that a wave of 64 lanes computes, multiples of 16;
        /// a lane holds 4 rows of one column of each 16×16 block, so its share counts as a thread tile
        /// of WM/4 × WN/16.
        #[derive(Clone, Copy, Debug, Default)]
        #[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
        pub struct $name<const WM: usize, const WN: usize>;

        impl<const WM: usize, const WN: usize> ComputePolicy for $name<WM, WN> {
            const NAME: &'static str = $text;
            const THREAD_TILE_M: usize = {
                assert!(
                    WM > 0 && WM.is_multiple_of(MATRIX_TILE),
                    "WM must be a positive multiple of 16: a wave computes whole 16×16 blocks"
                );
                WM / (MATRIX_TILE / MATRIX_ROWS_A_LANE)
            };
            const THREAD_TILE_N: usize = {
                assert!(
                    WN > 0 && WN.is_multiple_of(MATRIX_TILE),
                    "WN must be a positive multiple of 16: a wave computes whole 16×16 blocks"
                );
                WN / MATRIX_TILE
            };
            const EFFECTIVE_LANES: usize = MATRIX_WAVE;
            const K_STEP: usize = $k_step;
            const MULTIPLY: Multiply = Multiply::$name;
            type ElemA = $element;
            type ElemB = $element;
            type Accumulator = f32;

            fn thread_tile_offset(tid: usize, block_tile_n: usize) -> (usize, usize) {
                matrix_offset(tid, block_tile_n, [WM, WN])
            }
        }
    };
}

matrix_policy!(
    /// f32 on the matrix cores of CDNA3 and CDNA4, with the precision of fused multiply-adds.
    MfmaF32, "mfma-f32", f32, 4
);
matrix_policy!(
    /// f32 cut to 10 bits of fraction on the matrix cores of CDNA3, which CDNA4 no longer has.
    MfmaXf32, "mfma-xf32", f32, 8
);
matrix_policy!(
    /// f16 operands on the matrix cores of CDNA3 and CDNA4, accumulated in f32.
    MfmaF16, "mfma-f16", f16, 32
);

/// The element type a policy's fragments have.
#[must_use]
pub(super) const fn element<C: ComputePolicy>() -> ElementType {
    <C::ElemA as Element>::TYPE
}

/// The element type a policy accumulates in.
#[must_use]
pub(super) const fn accumulator<C: ComputePolicy>() -> ElementType {
    <C::Accumulator as Element>::TYPE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{KernelConfig, SingleBuffer};

    /// Every output of a 128×96 block belongs to one lane: 4 rows of one column of each 16×16 block.
    #[test]
    fn matrix_lanes_share_out_the_block() {
        type Policy = MfmaF16<64, 48>;
        let config = KernelConfig::of::<SingleBuffer<128, 96, 32>, Policy>();
        assert_eq!(config.workgroup_threads(), 256);
        let mut owners = vec![0; 128 * 96];
        for tid in 0..256 {
            let (row, col) = Policy::thread_tile_offset(tid, 96);
            for (block_row, block_col) in (0..4).flat_map(|i| (0..3).map(move |j| (i, j))) {
                for i in 0..4 {
                    owners[(row + 16 * block_row + i) * 96 + col + 16 * block_col] += 1;
                }
            }
        }
        assert!(owners.iter().all(|&count| count == 1));
    }

    #[test]
    fn scalar_threads_share_out_the_block() {
        let mut owners = vec![0; 32 * 64];
        for tid in 0..(32 / 4) * (64 / 8) {
            let (row, col) = ScalarFma::<4, 8>::thread_tile_offset(tid, 64);
            for (i, j) in (0..4).flat_map(|i| (0..8).map(move |j| (i, j))) {
                owners[(row + i) * 64 + col + j] += 1;
            }
        }
        assert!(owners.iter().all(|&count| count == 1));
    }
}
