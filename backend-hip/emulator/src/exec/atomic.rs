//! Read-modify-write operations, shared by LDS, buffer, flat and global atomics.

use super::round::{self, Round};

/// What an atomic does to the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Sub,
    ReverseSub,
    /// Counts up to the operand, then to zero.
    Inc,
    /// Counts down to zero, then to the operand.
    Dec,
    MinSigned,
    MaxSigned,
    MinUnsigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
    /// Replaces the bits that the first operand marks by the second's.
    MaskOr,
    Swap,
    /// Stores the value if the old one equals the comparand.
    CompareSwap,
    /// The same, comparing as floats.
    CompareSwapFloat,
    /// Subtracts if that does not go below zero, else adds the second operand.
    Wrap,
    AddFloat,
    MinFloat,
    MaxFloat,
    AddHalves,
    AddBfloats,
}

impl AtomicOp {
    /// How many data operands the operation takes.
    pub(crate) fn operands(self) -> usize {
        match self {
            AtomicOp::MaskOr
            | AtomicOp::CompareSwap
            | AtomicOp::CompareSwapFloat
            | AtomicOp::Wrap => 2,
            _ => 1,
        }
    }
}

/// The new value. Operands of LDS operations come in the order of the instruction (comparand or mask first, then the new
/// value); those of vector memory are swapped by the caller.
pub(crate) fn apply(op: AtomicOp, bytes: u32, old: u64, first: u64, second: u64) -> u64 {
    if bytes == 4 {
        u64::from(apply32(op, old as u32, first as u32, second as u32))
    } else {
        apply64(op, old, first, second)
    }
}

fn apply32(op: AtomicOp, old: u32, first: u32, second: u32) -> u32 {
    let float = f32::from_bits;
    match op {
        AtomicOp::Add => old.wrapping_add(first),
        AtomicOp::Sub => old.wrapping_sub(first),
        AtomicOp::ReverseSub => first.wrapping_sub(old),
        AtomicOp::Inc => {
            if old >= first {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > first {
                first
            } else {
                old - 1
            }
        }
        AtomicOp::MinSigned => (old as i32).min(first as i32) as u32,
        AtomicOp::MaxSigned => (old as i32).max(first as i32) as u32,
        AtomicOp::MinUnsigned => old.min(first),
        AtomicOp::MaxUnsigned => old.max(first),
        AtomicOp::And => old & first,
        AtomicOp::Or => old | first,
        AtomicOp::Xor => old ^ first,
        AtomicOp::MaskOr => old & !first | second,
        AtomicOp::Swap => first,
        AtomicOp::CompareSwap => {
            if old == first {
                second
            } else {
                old
            }
        }
        AtomicOp::CompareSwapFloat => {
            if float(old) == float(first) {
                second
            } else {
                old
            }
        }
        AtomicOp::Wrap => {
            if old >= first {
                old - first
            } else {
                old.wrapping_add(second)
            }
        }
        AtomicOp::AddFloat => (float(old) + float(first)).to_bits(),
        AtomicOp::MinFloat => float(old).min(float(first)).to_bits(),
        AtomicOp::MaxFloat => float(old).max(float(first)).to_bits(),
        AtomicOp::AddHalves => pairwise(old, first, |a, b| {
            round::to_f16(
                f64::from(round::from_f16(a)) + f64::from(round::from_f16(b)),
                Round::Nearest,
            )
        }),
        AtomicOp::AddBfloats => pairwise(old, first, |a, b| {
            let (sum, error) =
                round::two_sum(f64::from(round::from_bf16(a)), f64::from(round::from_bf16(b)));
            round::to_bf16(round::to_odd(sum, error))
        }),
    }
}

fn pairwise(a: u32, b: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    f(a & 0xffff, b & 0xffff) | f(a >> 16, b >> 16) << 16
}

fn apply64(op: AtomicOp, old: u64, first: u64, second: u64) -> u64 {
    let float = f64::from_bits;
    match op {
        AtomicOp::Add => old.wrapping_add(first),
        AtomicOp::Sub => old.wrapping_sub(first),
        AtomicOp::ReverseSub => first.wrapping_sub(old),
        AtomicOp::Inc => {
            if old >= first {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > first {
                first
            } else {
                old - 1
            }
        }
        AtomicOp::MinSigned => (old as i64).min(first as i64) as u64,
        AtomicOp::MaxSigned => (old as i64).max(first as i64) as u64,
        AtomicOp::MinUnsigned => old.min(first),
        AtomicOp::MaxUnsigned => old.max(first),
        AtomicOp::And => old & first,
        AtomicOp::Or => old | first,
        AtomicOp::Xor => old ^ first,
        AtomicOp::MaskOr => old & !first | second,
        AtomicOp::Swap => first,
        AtomicOp::CompareSwap => {
            if old == first {
                second
            } else {
                old
            }
        }
        AtomicOp::CompareSwapFloat => {
            if float(old) == float(first) {
                second
            } else {
                old
            }
        }
        AtomicOp::Wrap => {
            if old >= first {
                old - first
            } else {
                old.wrapping_add(second)
            }
        }
        AtomicOp::AddFloat => (float(old) + float(first)).to_bits(),
        AtomicOp::MinFloat => float(old).min(float(first)).to_bits(),
        AtomicOp::MaxFloat => float(old).max(float(first)).to_bits(),
        // Packed forms exist for 32 bits only; a pair of them is what the bits would mean.
        AtomicOp::AddHalves | AtomicOp::AddBfloats => {
            let low = apply32(op, old as u32, first as u32, 0);
            let high = apply32(op, (old >> 32) as u32, (first >> 32) as u32, 0);
            u64::from(low) | u64::from(high) << 32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_at_the_operand() {
        assert_eq!(apply(AtomicOp::Inc, 4, 6, 7, 0), 7);
        assert_eq!(apply(AtomicOp::Inc, 4, 7, 7, 0), 0);
        assert_eq!(apply(AtomicOp::Dec, 4, 0, 7, 0), 7);
        assert_eq!(apply(AtomicOp::Dec, 4, 9, 7, 0), 7);
        assert_eq!(apply(AtomicOp::Dec, 8, 5, 7, 0), 4);
    }

    #[test]
    fn packed_sums_round_each_half() {
        assert_eq!(apply(AtomicOp::AddHalves, 4, 0x3c00_3c00, 0x4000_3c00, 0), 0x4200_4000);
        assert_eq!(apply(AtomicOp::AddBfloats, 4, 0x3f80_3f80, 0x3f80_3b80, 0), 0x4000_3f80);
    }

    #[test]
    fn signed_and_unsigned_order_differ() {
        assert_eq!(apply(AtomicOp::MinSigned, 4, 0xffff_ffff, 1, 0), 0xffff_ffff);
        assert_eq!(apply(AtomicOp::MinUnsigned, 4, 0xffff_ffff, 1, 0), 1);
        assert_eq!(apply(AtomicOp::CompareSwap, 8, 5, 5, 9), 9);
    }
}
