//! Arithmetic: which outputs a thread owns and how they are accumulated.

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
    /// `acc = a · b + acc` on 16×16×16 matrices that a subgroup holds together, f16 factors and f32
    /// sums.
    CooperativeMatrix,
}

impl Multiply {
    /// Whether it reads tiles as vectors of four rows or columns, one step along K after the other.
    #[must_use]
    pub const fn is_vector(self) -> bool {
        matches!(self, Self::Vector | Self::VectorDot4)
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

/// Matrix units: a subgroup of 32 lanes accumulates an SM×SN tile of C in 16×16 matrices, f16 factors
/// and f32 sums. A lane's share is counted as SM rows of SN / 32 columns; which elements it holds is
/// the device's own affair.
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
    type ElemA = half::f16;
    type ElemB = half::f16;
    type Accumulator = f32;
}

/// The element type a policy accumulates in.
#[must_use]
pub(super) const fn accumulator<C: ComputePolicy>() -> ElementType {
    <C::Accumulator as Element>::TYPE
}
