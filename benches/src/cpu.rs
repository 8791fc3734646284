//! Contenders on host memory: the CPU backend and the crates beside it.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use lapidary_core::oracle;
use lapidary_core::random::Random;
use lapidary_core::{Cpu, Element, ElementType, Error, F8E4M3, Gemm, Matrix, Operands, Problem};
use rayon::prelude::*;

use crate::operands::matrix;
use crate::shape::Shape;

/// Bytes that the operands of all sets exceed together, so that none is found in a cache.
pub const CACHE: f64 = 64e6;

/// Most sets of operands that are kept.
pub const MOST_SETS: usize = 64;

/// Elements of C that are compared with the oracle.
const SAMPLE: usize = 64;

/// Why a contender has no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContestError {
    /// The library refused or failed.
    #[error(transparent)]
    Library(#[from] Error),
    /// Operands whose bytes are not whole elements of the type.
    #[error("operands of {element} cannot be read as such")]
    Cast {
        /// The type.
        element: ElementType,
    },
    /// A result that is off by more than its bound.
    #[error("{wrong} of {checked} sampled elements of C are wrong")]
    Wrong {
        /// Elements out of bounds.
        wrong: usize,
        /// Elements compared.
        checked: usize,
    },
}

/// Who multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// This library's CPU backend, on host slices, planning included.
    Lapidary,
    /// `faer`.
    Faer,
    /// `matrixmultiply`.
    MatrixMultiply,
    /// `gemm`.
    Gemm,
    /// Both operands converted to f32 as a whole, then `faer`.
    ConvertFaer,
}

impl Peer {
    /// Those that multiply elements of this type.
    #[must_use]
    pub const fn all(input: ElementType) -> &'static [Self] {
        match input {
            ElementType::F32 | ElementType::F64 => {
                &[Self::Lapidary, Self::Faer, Self::MatrixMultiply, Self::Gemm]
            }
            _ => &[Self::Lapidary, Self::ConvertFaer],
        }
    }

    /// The name rows carry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lapidary => "lapidary-cpu",
            Self::Faer => "faer",
            Self::MatrixMultiply => "matrixmultiply",
            Self::Gemm => "gemm",
            Self::ConvertFaer => "convert+faer",
        }
    }
}

/// Operands of one product, several sets of them, and what the contenders need.
#[derive(Debug)]
pub struct Arena {
    shape: Shape,
    problem: Problem,
    sets: Vec<[Matrix; 3]>,
    next: usize,
    threads: usize,
    device: Cpu,
    converted: [Vec<f32>; 3],
}

impl Arena {
    /// Random operands, uniform from −1 to 1 (integers: from −127 to 127), for `threads` threads.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Device`] if the threads cannot be started.
    pub fn new(shape: Shape, threads: usize) -> Result<Self, Error> {
        let problem = Problem::new(shape.m, shape.n, shape.k)
            .batch(shape.batch)
            .elements(shape.input, shape.output);
        let mut random = Random::new(7);
        let a = matrix(shape.input, problem.a_shape(), &mut random)?;
        let b = matrix(shape.input, problem.b_shape(), &mut random)?;
        let c = Matrix::zeros(shape.output, problem.c_shape())?;
        let mut sets = vec![[a, b, c]];
        for _ in 1..shape.sets(CACHE, MOST_SETS) {
            sets.push(sets[0].clone());
        }
        let device = if threads == 0 { Cpu::new() } else { Cpu::with_threads(threads)? };
        let threads = device.threads();
        Ok(Self { shape, problem, sets, next: 0, threads, device, converted: Default::default() })
    }

    /// Threads each contender may use.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// One product by `peer`, on the next set of operands.
    ///
    /// # Errors
    /// [`ContestError`] where the library refuses.
    pub fn run(&mut self, peer: Peer) -> Result<(), ContestError> {
        self.next = (self.next + 1) % self.sets.len();
        let [a, b, c] = &mut self.sets[self.next];
        match (peer, self.shape.input) {
            (Peer::Lapidary, _) => {
                let operands = Operands::new(a.as_ref(), b.as_ref());
                Gemm::<Cpu>::run_into(&self.device, &self.problem, &operands, c.as_mut())?;
                Ok(())
            }
            (Peer::ConvertFaer, _) => {
                convert_and_multiply(&self.shape, [&*a, &*b], c, &mut self.converted, self.threads)
            }
            (_, ElementType::F64) => plain::<f64>(peer, &self.shape, [&*a, &*b], c, self.threads),
            _ => plain::<f32>(peer, &self.shape, [&*a, &*b], c, self.threads),
        }
    }

    /// Runs `peer` once and compares a sample of C with the oracle.
    ///
    /// # Errors
    /// [`ContestError::Wrong`], or what [`Arena::run`] gives.
    pub fn check(&mut self, peer: Peer) -> Result<(), ContestError> {
        self.run(peer)?;
        let [a, b, c] = &self.sets[self.next];
        let operands = Operands::new(a.as_ref(), b.as_ref());
        let positions = oracle::sample_positions(&self.problem, [64, 64], SAMPLE, 1);
        let reference = oracle::reference_at(&self.problem, &operands, &positions)?;
        let comparison = reference.compare(&c.as_ref());
        if comparison.passed() {
            return Ok(());
        }
        Err(ContestError::Wrong { wrong: comparison.mismatches, checked: comparison.checked })
    }
}

/// A float type that every peer multiplies.
trait Float: Element + faer::traits::ComplexField + bytemuck::Pod {
    const ZERO: Self;
    const ONE: Self;

    /// `c = a · b` by `matrixmultiply`; all row-major and dense, `[m, n, k]` apart.
    fn matrixmultiply(size: [usize; 3], a: &[Self], b: &[Self], c: &mut [Self]);
}

macro_rules! float {
    ($type:ty, $function:path) => {
        impl Float for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;

            fn matrixmultiply([m, n, k]: [usize; 3], a: &[Self], b: &[Self], c: &mut [Self]) {
                assert!(a.len() >= m * k && b.len() >= k * n && c.len() >= m * n);
                let [k_, n_] = [k as isize, n as isize];
                // SAFETY: the three matrices lie inside their slices, which the line above says, and
                // C is borrowed for writing alone.
                unsafe {
                    $function(
                        m,
                        k,
                        n,
                        1.0,
                        a.as_ptr(),
                        k_,
                        1,
                        b.as_ptr(),
                        n_,
                        1,
                        0.0,
                        c.as_mut_ptr(),
                        n_,
                        1,
                    );
                }
            }
        }
    };
}

float!(f32, matrixmultiply::sgemm);
float!(f64, matrixmultiply::dgemm);

fn cast<T: bytemuck::Pod + Element>(bytes: &[u8]) -> Result<&[T], ContestError> {
    bytemuck::try_cast_slice(bytes).map_err(|_| ContestError::Cast { element: T::TYPE })
}

fn plain<S: Float>(
    peer: Peer,
    shape: &Shape,
    [a, b]: [&Matrix; 2],
    c: &mut Matrix,
    threads: usize,
) -> Result<(), ContestError> {
    let (a, b) = (cast::<S>(a.bytes())?, cast::<S>(b.bytes())?);
    let mut c = c.as_mut();
    let c: &mut [S] = bytemuck::try_cast_slice_mut(c.bytes_mut())
        .map_err(|_| ContestError::Cast { element: S::TYPE })?;
    let size = [shape.m, shape.n, shape.k];
    match peer {
        Peer::MatrixMultiply => S::matrixmultiply(size, a, b, c),
        Peer::Gemm => multiply_gemm(size, a, b, c, threads),
        Peer::Lapidary | Peer::Faer | Peer::ConvertFaer => multiply_faer(size, a, b, c, threads),
    }
    Ok(())
}

fn multiply_faer<S: Float>([m, n, k]: [usize; 3], a: &[S], b: &[S], c: &mut [S], threads: usize) {
    let par = if threads == 1 { Par::Seq } else { Par::rayon(threads) };
    let c = MatMut::from_row_major_slice_mut(c, m, n);
    let a = MatRef::from_row_major_slice(a, m, k);
    let b = MatRef::from_row_major_slice(b, k, n);
    matmul(c, Accum::Replace, a, b, S::ONE, par);
}

fn multiply_gemm<S: Float>([m, n, k]: [usize; 3], a: &[S], b: &[S], c: &mut [S], threads: usize) {
    assert!(a.len() >= m * k && b.len() >= k * n && c.len() >= m * n);
    let parallelism = match threads {
        1 => gemm::Parallelism::None,
        threads => gemm::Parallelism::Rayon(threads),
    };
    // SAFETY: the three matrices lie inside their slices, which the first line says, and C is borrowed
    // for writing alone. The type is f32 or f64, both of which the crate knows.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.as_ptr(),
            1,
            k as isize,
            b.as_ptr(),
            1,
            n as isize,
            S::ZERO,
            S::ONE,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// The obvious way to multiply narrow elements: convert both operands as a whole, multiply in f32.
fn convert_and_multiply(
    shape: &Shape,
    [a, b]: [&Matrix; 2],
    c: &mut Matrix,
    [wide_a, wide_b, wide_c]: &mut [Vec<f32>; 3],
    threads: usize,
) -> Result<(), ContestError> {
    let size = [shape.m, shape.n, shape.k];
    wide_a.resize(shape.m * shape.k, 0.0);
    wide_b.resize(shape.k * shape.n, 0.0);
    widen(shape.input, a.bytes(), wide_a, threads)?;
    widen(shape.input, b.bytes(), wide_b, threads)?;
    let mut c = c.as_mut();
    if let Ok(c) = bytemuck::try_cast_slice_mut::<u8, f32>(c.bytes_mut())
        && shape.output == ElementType::F32
    {
        multiply_faer(size, wide_a, wide_b, c, threads);
        return Ok(());
    }
    let c: &mut [i32] = bytemuck::try_cast_slice_mut(c.bytes_mut())
        .map_err(|_| ContestError::Cast { element: shape.output })?;
    wide_c.resize(c.len(), 0.0);
    multiply_faer(size, wide_a, wide_b, wide_c, threads);
    for (c, wide) in c.iter_mut().zip(wide_c) {
        *c = *wide as i32;
    }
    Ok(())
}

/// Elements of a piece that one thread converts at a time.
const PIECE: usize = 1 << 16;

fn widen(
    element: ElementType,
    bytes: &[u8],
    wide: &mut [f32],
    threads: usize,
) -> Result<(), ContestError> {
    match element {
        ElementType::F16 => pieces(cast::<f16>(bytes)?, wide, threads, |from, to| {
            from.convert_to_f32_slice(to);
        }),
        ElementType::BF16 => pieces(cast::<bf16>(bytes)?, wide, threads, |from, to| {
            from.convert_to_f32_slice(to);
        }),
        ElementType::I8 => pieces(cast::<i8>(bytes)?, wide, threads, |from, to| {
            for (to, from) in to.iter_mut().zip(from) {
                *to = f32::from(*from);
            }
        }),
        _ => {
            let mut table = [0f32; 256];
            for (value, code) in table.iter_mut().zip(0..=u8::MAX) {
                *value = F8E4M3::from_bits(code).to_f64() as f32;
            }
            pieces(bytes, wide, threads, |from, to| {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = table[usize::from(*from)];
                }
            });
        }
    }
    Ok(())
}

fn pieces<T: Sync>(
    from: &[T],
    to: &mut [f32],
    threads: usize,
    convert: impl Fn(&[T], &mut [f32]) + Sync,
) {
    if threads == 1 {
        convert(from, to);
    } else {
        let pieces = to.par_chunks_mut(PIECE).zip(from.par_chunks(PIECE));
        pieces.for_each(|(to, from)| convert(from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_is_right() -> Result<(), ContestError> {
        for shape in crate::shape::host_shapes(crate::shape::Extent::Smoke) {
            for threads in [1, 2] {
                let mut arena = Arena::new(shape, threads)?;
                for &peer in Peer::all(shape.input) {
                    arena.check(peer)?;
                }
            }
        }
        Ok(())
    }

    #[test]
    fn a_wrong_result_is_found() -> Result<(), ContestError> {
        let shape = Shape::cube(9, ElementType::F32);
        let mut arena = Arena::new(shape, 1)?;
        arena.problem.alpha = 2.0;
        assert!(matches!(arena.check(Peer::Faer), Err(ContestError::Wrong { wrong: 1.., .. })));
        Ok(())
    }
}
