//! Matrix instructions: element formats, lane layouts and the accumulation each architecture documents.
//!
//! [`MfmaShape::resolve`] turns an opcode and its modifiers into a value that says everything about the instruction, and
//! [`execute`] runs it on register contents. Matrix instructions ignore EXEC, so all 64 lanes take part.
//!
//! # How sums are rounded
//!
//! | architecture, elements | model | basis |
//! |---|---|---|
//! | both, f32 | chain of fused multiply-adds | documented |
//! | both, i8 | exact 32-bit integers that wrap | assumed to wrap |
//! | gfx942, f16, bf16, xf32 | truncating adder, 8 (xf32: 4) products a step | documented, bit for bit |
//! | gfx942, fp8, bf8 | truncating adder, even and odd apart, 16 products a step | documented, bit for bit |
//! | gfx950, f16, bf16 | one f32 rounding of the exact sum for each 8 products and C | **assumption** |
//! | gfx950, fp8, bf8 16x16x32 and 32x32x16 | the same, 16 products | **assumption** |
//! | gfx950, f8f6f4 | the same, 32 products, scaled before C is added | **assumption** |
//!
//! CDNA4's adder is not published. What is known is that it rounds to nearest even, and that block scales apply to a
//! block's dot product before it is accumulated; the group sizes and the exactness within a group are this crate's choice.
//! The CDNA3 rules stand in [`Accumulation::Cdna3`]'s and [`Accumulation::Cdna3Fp8`]'s implementation.
//!
//! Several-block, sparse and f64 instructions are typed-unsupported ([`MfmaError::UnsupportedFamily`]), as are broadcast
//! modifiers; `32x32x4_xf32` is derived by the rule that gives the other layouts. fp6 is decoded by the OCP format and laid
//! out as fp4 is; no published source confirms its registers ([`Format::is_verified`]).

#![allow(
    clippy::needless_range_loop,
    reason = "lane loops index several arrays of the same fixed length; that is what vectorises"
)]

mod cdna3;
mod factor;
pub mod formats;
mod fused;
pub mod layout;
mod shapes;
mod wide;

use std::marker::PhantomData;

use cdna3::{Source, Step};
use factor::Codes;
pub use factor::Register;
pub use formats::Format;
use fused::ScaleExponents;
pub use shapes::{Accumulation, MfmaError, MfmaShape};

/// The scale registers of a scaled instruction and which of their bytes are used.
#[derive(Clone, Copy, Debug)]
pub struct Scales<'a> {
    /// The register with A's scales.
    pub a: &'a Register,
    /// The byte of `a`, 0 to 3; higher values take the low two bits.
    pub a_byte: u8,
    /// The register with B's scales.
    pub b: &'a Register,
    /// The byte of `b`, 0 to 3; higher values take the low two bits.
    pub b_byte: u8,
}

/// Runs `D = A·B + C`.
///
/// `a`, `b`, `c` and `d` hold the operands' consecutive registers, each 64 lanes; more registers than the instruction uses
/// are ignored. `scales` is used by scaled shapes only.
///
/// # Errors
/// [`MfmaError::TooFewRegisters`] if an operand is too short, [`MfmaError::MissingScales`] if a scaled shape comes without
/// scales. `d` is untouched then.
pub fn execute(
    shape: &MfmaShape,
    a: &[Register],
    b: &[Register],
    c: &[Register],
    scales: Option<&Scales<'_>>,
    d: &mut [Register],
) -> Result<(), MfmaError> {
    execute_on(pulp::Arch::new(), shape, [a, b, c], scales, d)
}

/// [`execute`] with the code for one instruction set of the host.
fn execute_on(
    host: pulp::Arch,
    shape: &MfmaShape,
    [a, b, c]: [&[Register]; 3],
    scales: Option<&Scales<'_>>,
    d: &mut [Register],
) -> Result<(), MfmaError> {
    let operands = [
        ("A", a.len(), shape.a_registers()),
        ("B", b.len(), shape.b_registers()),
        ("C", c.len(), shape.acc_registers()),
        ("D", d.len(), shape.acc_registers()),
    ];
    for (operand, actual, needed) in operands {
        if actual < needed {
            return Err(MfmaError::TooFewRegisters { operand, actual, needed });
        }
    }
    let scales = if shape.scaled { scales } else { None };
    if shape.scaled && scales.is_none() {
        return Err(MfmaError::MissingScales);
    }
    let run = Run { host, shape, a, b, c, scales, d };
    match shape.accumulation {
        Accumulation::FmaChain if shape.m == 16 => run.on_host::<FmaChain, 16, 4>(),
        Accumulation::FmaChain => run.on_host::<FmaChain, 32, 2>(),
        Accumulation::Integer => match (shape.m, shape.k) {
            (16, 32) => run.on_host::<Integer, 16, 32>(),
            (16, _) => run.on_host::<Integer, 16, 64>(),
            (_, 16) => run.on_host::<Integer, 32, 16>(),
            _ => run.on_host::<Integer, 32, 32>(),
        },
        Accumulation::Cdna3 { .. } => match (shape.m, shape.k) {
            (16, 8) => run.on_host::<Cdna3, 16, 8>(),
            (16, _) => run.on_host::<Cdna3, 16, 16>(),
            (_, 4) => run.on_host::<Cdna3, 32, 4>(),
            _ => run.on_host::<Cdna3, 32, 8>(),
        },
        Accumulation::Cdna3Fp8 if shape.m == 16 => run.on_host::<Cdna3Fp8, 16, 32>(),
        Accumulation::Cdna3Fp8 => run.on_host::<Cdna3Fp8, 32, 16>(),
        Accumulation::Fused { .. } => match (shape.m, shape.k) {
            (16, 16) => run.on_host::<Fused, 16, 16>(),
            (16, 32) => run.on_host::<Fused, 16, 32>(),
            (16, _) => run.on_host::<Fused, 16, 128>(),
            (_, 8) => run.on_host::<Fused, 32, 8>(),
            (_, 16) => run.on_host::<Fused, 32, 16>(),
            _ => run.on_host::<Fused, 32, 64>(),
        },
    }
    Ok(())
}

/// The inputs of one instruction, checked.
struct Run<'a> {
    host: pulp::Arch,
    shape: &'a MfmaShape,
    a: &'a [Register],
    b: &'a [Register],
    c: &'a [Register],
    scales: Option<&'a Scales<'a>>,
    d: &'a mut [Register],
}

/// An accumulation model on unpacked operands.
trait Model<const N: usize, const K: usize> {
    /// `rows += A·B`.
    fn accumulate(run: &Run<'_>, a: &Codes<N, K>, b: &Codes<N, K>, rows: &mut [[u32; N]; N]);
}

struct FmaChain;
struct Integer;
struct Cdna3;
struct Cdna3Fp8;
struct Fused;

impl<const N: usize, const K: usize> Model<N, K> for FmaChain {
    #[inline(always)]
    fn accumulate(_: &Run<'_>, a: &Codes<N, K>, b: &Codes<N, K>, rows: &mut [[u32; N]; N]) {
        fused::fma_chain(a, b, rows);
    }
}

impl<const N: usize, const K: usize> Model<N, K> for Integer {
    #[inline(always)]
    fn accumulate(_: &Run<'_>, a: &Codes<N, K>, b: &Codes<N, K>, rows: &mut [[u32; N]; N]) {
        fused::integer(a, b, rows);
    }
}

impl<const N: usize, const K: usize> Model<N, K> for Cdna3 {
    #[inline(always)]
    fn accumulate(run: &Run<'_>, a: &Codes<N, K>, b: &Codes<N, K>, rows: &mut [[u32; N]; N]) {
        let group = if run.shape.a == Format::Xf32 { 4 } else { 8 };
        cdna3::accumulate(&run.source(a, b), Step { group, split: false }, rows);
    }
}

impl<const N: usize, const K: usize> Model<N, K> for Cdna3Fp8 {
    #[inline(always)]
    fn accumulate(run: &Run<'_>, a: &Codes<N, K>, b: &Codes<N, K>, rows: &mut [[u32; N]; N]) {
        cdna3::accumulate(&run.source(a, b), Step { group: 16, split: true }, rows);
    }
}

impl<const N: usize, const K: usize> Model<N, K> for Fused {
    #[inline(always)]
    fn accumulate(run: &Run<'_>, a: &Codes<N, K>, b: &Codes<N, K>, rows: &mut [[u32; N]; N]) {
        let Accumulation::Fused { group } = run.shape.accumulation else { return };
        let scales: Option<[ScaleExponents<N>; 2]> = run
            .scales
            .map(|s| [scale_exponents(s.a, s.a_byte, K), scale_exponents(s.b, s.b_byte, K)]);
        let exact = span(run.shape.a) + span(run.shape.b) + group.ilog2() <= 53;
        fused::fused(&run.source(a, b), group, exact, scales.as_ref(), rows);
    }
}

impl<'a> Run<'a> {
    /// Runs the instruction as wide as the host's vectors are: the lane loops are plain Rust, compiled once for each
    /// instruction set.
    fn on_host<M: Model<N, K>, const N: usize, const K: usize>(self) {
        self.host.dispatch(Task::<M, N, K> { run: self, model: PhantomData });
    }

    fn source<'s, const N: usize, const K: usize>(
        &self,
        a: &'s Codes<N, K>,
        b: &'s Codes<N, K>,
    ) -> Source<'s, N, K> {
        Source { a, b, formats: [self.shape.a, self.shape.b] }
    }
}

/// One instruction with everything known that its code is specialised for.
struct Task<'a, M, const N: usize, const K: usize> {
    run: Run<'a>,
    model: PhantomData<M>,
}

impl<M: Model<N, K>, const N: usize, const K: usize> pulp::NullaryFnOnce for Task<'_, M, N, K> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let run = self.run;
        let a = factor::unpack::<N, K>(run.a, run.shape.a.bits(), run.shape.a_layout());
        let b = factor::unpack::<N, K>(run.b, run.shape.b.bits(), run.shape.b_layout());
        let mut rows = factor::load_rows::<N>(run.c);
        M::accumulate(&run, &a, &b, &mut rows);
        factor::store_rows(&rows, run.d);
    }
}

/// Bits from the lowest bit of the smallest subnormal to the highest of the largest number.
fn span(format: Format) -> u32 {
    let smallest = format.decode(1);
    let lowest = smallest.exponent - format.fraction_bits() as i32;
    let highest = format.largest().log2().floor() as i32;
    (highest - lowest + 1) as u32
}

/// Reads the chosen byte of every lane's scale register.
fn scale_exponents<const N: usize>(register: &Register, byte: u8, k: usize) -> ScaleExponents<N> {
    let mut exponents = [[Some(0); N]; 4];
    for (block, row) in exponents.iter_mut().enumerate().take(k / 32) {
        for (outer, exponent) in row.iter_mut().enumerate() {
            let lane = layout::scale_lane(N, outer, block);
            let code = (register[lane] >> (8 * (byte & 3))) as u8;
            *exponent = formats::decode_e8m0(code);
        }
    }
    exponents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;
    use crate::isa::Opcode;

    /// The instruction sets that this machine can run the lane loops on.
    fn hosts() -> Vec<pulp::Arch> {
        let mut hosts = vec![pulp::Arch::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            hosts.extend(pulp::x86::V3::try_new().map(pulp::Arch::V3));
            hosts.extend(pulp::x86::V4::try_new().map(pulp::Arch::V4));
        }
        hosts
    }

    #[test]
    fn every_host_instruction_set_gives_the_same_bits() {
        let mut state = 7u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state ^ state >> 13
        };
        let mut tried = 0;
        for arch in Arch::ALL {
            for opcode in Opcode::ALL {
                for format in [0, 1, 2, 4] {
                    let Ok(shape) = MfmaShape::resolve(arch, *opcode, format, 0, format) else {
                        continue;
                    };
                    let mut registers = |count: usize| -> Vec<Register> {
                        (0..count).map(|_| std::array::from_fn(|_| random())).collect()
                    };
                    let a = registers(shape.a_registers());
                    let b = registers(shape.b_registers());
                    let c = registers(shape.acc_registers());
                    let scale = registers(2);
                    let scales = Scales { a: &scale[0], a_byte: 1, b: &scale[1], b_byte: 2 };
                    let results: Vec<Vec<Register>> = hosts()
                        .into_iter()
                        .map(|host| {
                            let mut d = vec![[0; 64]; shape.acc_registers()];
                            execute_on(host, &shape, [&a, &b, &c], Some(&scales), &mut d).unwrap();
                            d
                        })
                        .collect();
                    for result in &results[1..] {
                        assert_eq!(*result, results[0], "{arch} {opcode:?} {format}");
                    }
                    tried += 1;
                }
            }
        }
        assert!(tried > 40, "{tried}");
    }
}
