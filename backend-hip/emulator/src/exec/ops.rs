//! What memory and compare opcodes do, as data read off their mnemonics once for each instruction of a program.
//!
//! The names are systematic (`buffer_load_dwordx4`, `ds_max_rtn_i32`, `v_cmpx_nlt_f64`), so one reading of the name stands
//! for several hundred table rows.

use super::atomic::AtomicOp;
use crate::isa::{Encoding, Instruction, Opcode};

/// Which half of a register a 16-bit memory operand takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All 32 bits; small loads are extended.
    Whole,
    /// The low half, the high one kept.
    Low,
    /// The high half, the low one kept.
    High,
}

/// A load's or store's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width {
    /// 1, 2, 4, 8, 12 or 16.
    pub(crate) bytes: u32,
    /// Whether a small load is sign-extended.
    pub(crate) signed: bool,
    pub(crate) part: Part,
}

impl Width {
    fn plain(bytes: u32) -> Width {
        Width { bytes, signed: false, part: Part::Whole }
    }

    /// 32-bit registers that the data takes.
    pub(crate) fn registers(self) -> u32 {
        self.bytes.div_ceil(4)
    }
}

/// A vector memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryOp {
    Load(Width),
    /// A load whose data goes to LDS.
    LoadToLds(Width),
    Store(Width),
    Atomic {
        op: AtomicOp,
        bytes: u32,
    },
    /// Cache maintenance: nothing a functional model shows.
    Maintenance,
}

/// A scalar memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarMemoryOp {
    Load {
        dwords: u32,
        buffer: bool,
    },
    /// A clock.
    Time,
    Maintenance,
}

/// An LDS operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LdsOp {
    Read(Width),
    Write(Width),
    /// Two elements of `bytes`, offsets in units of `stride` bytes.
    Read2 {
        bytes: u32,
        stride: u32,
    },
    Write2 {
        bytes: u32,
        stride: u32,
    },
    Atomic {
        op: AtomicOp,
        bytes: u32,
        returns: bool,
    },
    Swizzle,
    Permute,
    Bpermute,
    /// A read that transposes elements of so many bits within groups of 16 lanes.
    Transpose {
        bits: u32,
    },
    ReadAddTid,
    WriteAddTid,
    Nop,
}

/// The relation of a compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    False,
    Less,
    Equal,
    LessEqual,
    Greater,
    NotEqual,
    GreaterEqual,
    Ordered,
    Unordered,
    NotGreaterEqual,
    NotLessGreater,
    NotGreater,
    NotLessEqual,
    NotEqualOrUnordered,
    NotLess,
    True,
    Class,
}

/// The type of a compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareType {
    F16,
    F32,
    F64,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
}

/// A vector compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compare {
    pub(crate) relation: Relation,
    pub(crate) ty: CompareType,
    /// Whether EXEC is written too.
    pub(crate) exec: bool,
}

/// Reads a `v_cmp` or `v_cmpx` opcode.
pub(crate) fn compare(opcode: Opcode) -> Option<Compare> {
    let name = opcode.mnemonic();
    let (rest, exec) = match name.strip_prefix("v_cmpx_") {
        Some(rest) => (rest, true),
        None => (name.strip_prefix("v_cmp_")?, false),
    };
    let (relation, ty) = rest.split_once('_')?;
    let ty = match ty {
        "f16" => CompareType::F16,
        "f32" => CompareType::F32,
        "f64" => CompareType::F64,
        "i16" => CompareType::I16,
        "u16" => CompareType::U16,
        "i32" => CompareType::I32,
        "u32" => CompareType::U32,
        "i64" => CompareType::I64,
        "u64" => CompareType::U64,
        _ => return None,
    };
    let relation = match relation {
        "f" => Relation::False,
        "lt" => Relation::Less,
        "eq" => Relation::Equal,
        "le" => Relation::LessEqual,
        "gt" => Relation::Greater,
        "lg" | "ne" => Relation::NotEqual,
        "ge" => Relation::GreaterEqual,
        "o" => Relation::Ordered,
        "u" => Relation::Unordered,
        "nge" => Relation::NotGreaterEqual,
        "nlg" => Relation::NotLessGreater,
        "ngt" => Relation::NotGreater,
        "nle" => Relation::NotLessEqual,
        "neq" => Relation::NotEqualOrUnordered,
        "nlt" => Relation::NotLess,
        "tru" | "t" => Relation::True,
        "class" => Relation::Class,
        _ => return None,
    };
    Some(Compare { relation, ty, exec })
}

fn dwords(name: &str) -> Option<u32> {
    Some(match name {
        "dword" => 1,
        "dwordx2" => 2,
        "dwordx3" => 3,
        "dwordx4" => 4,
        "dwordx8" => 8,
        "dwordx16" => 16,
        _ => return None,
    })
}

/// Reads a data width: `ubyte`, `sshort_d16_hi`, `dwordx2`, …
fn width(name: &str) -> Option<Width> {
    if let Some(n) = dwords(name) {
        return Some(Width::plain(4 * n));
    }
    let (base, part) = if let Some(base) = name.strip_suffix("_d16_hi") {
        (base, Part::High)
    } else if let Some(base) = name.strip_suffix("_d16") {
        (base, Part::Low)
    } else {
        (name, Part::Whole)
    };
    let (bytes, signed) = match base {
        "ubyte" | "byte" => (1, false),
        "sbyte" => (1, true),
        "ushort" | "short" => (2, false),
        "sshort" => (2, true),
        _ => return None,
    };
    Some(Width { bytes, signed, part })
}

/// Reads a MUBUF, FLAT, GLOBAL or SCRATCH opcode; `None` for one that is not executed (typed formats).
pub(crate) fn memory(inst: &Instruction) -> Option<MemoryOp> {
    let (_, rest) = inst.opcode.mnemonic().split_once('_')?;
    if matches!(rest, "wbl2" | "inv") {
        return Some(MemoryOp::Maintenance);
    }
    if let Some(name) = rest.strip_prefix("load_lds_") {
        return width(name).map(MemoryOp::LoadToLds);
    }
    if let Some(name) = rest.strip_prefix("load_") {
        let width = width(name)?;
        return Some(if inst.mods.lds {
            MemoryOp::LoadToLds(width)
        } else {
            MemoryOp::Load(width)
        });
    }
    if let Some(name) = rest.strip_prefix("store_") {
        return width(name).map(MemoryOp::Store);
    }
    let name = rest.strip_prefix("atomic_")?;
    let (name, wide) = match name.strip_suffix("_x2") {
        Some(name) => (name, true),
        None => (name, name.ends_with("f64")),
    };
    let op = match name {
        "swap" => AtomicOp::Swap,
        "cmpswap" => AtomicOp::CompareSwap,
        "add" => AtomicOp::Add,
        "sub" => AtomicOp::Sub,
        "smin" => AtomicOp::MinSigned,
        "umin" => AtomicOp::MinUnsigned,
        "smax" => AtomicOp::MaxSigned,
        "umax" => AtomicOp::MaxUnsigned,
        "and" => AtomicOp::And,
        "or" => AtomicOp::Or,
        "xor" => AtomicOp::Xor,
        "inc" => AtomicOp::Inc,
        "dec" => AtomicOp::Dec,
        "add_f32" | "add_f64" => AtomicOp::AddFloat,
        "min_f64" => AtomicOp::MinFloat,
        "max_f64" => AtomicOp::MaxFloat,
        "pk_add_f16" => AtomicOp::AddHalves,
        "pk_add_bf16" => AtomicOp::AddBfloats,
        _ => return None,
    };
    Some(MemoryOp::Atomic { op, bytes: if wide { 8 } else { 4 } })
}

/// Reads an SMEM opcode; `None` for one that is not executed.
pub(crate) fn scalar_memory(opcode: Opcode) -> Option<ScalarMemoryOp> {
    let name = opcode.mnemonic();
    if matches!(name, "s_memtime" | "s_memrealtime") {
        return Some(ScalarMemoryOp::Time);
    }
    if name.starts_with("s_dcache_") && !name.contains("discard") {
        return Some(ScalarMemoryOp::Maintenance);
    }
    let (rest, buffer) = match name.strip_prefix("s_buffer_load_") {
        Some(rest) => (rest, true),
        None => (name.strip_prefix("s_load_")?, false),
    };
    dwords(rest).map(|dwords| ScalarMemoryOp::Load { dwords, buffer })
}

/// Reads a DS opcode; `None` for one that is not executed.
pub(crate) fn lds(opcode: Opcode) -> Option<LdsOp> {
    let name = opcode.mnemonic().strip_prefix("ds_")?;
    Some(match name {
        "nop" => LdsOp::Nop,
        "swizzle_b32" => LdsOp::Swizzle,
        "permute_b32" => LdsOp::Permute,
        "bpermute_b32" => LdsOp::Bpermute,
        "read_addtid_b32" => LdsOp::ReadAddTid,
        "write_addtid_b32" => LdsOp::WriteAddTid,
        "read_b64_tr_b16" => LdsOp::Transpose { bits: 16 },
        "read_b64_tr_b8" => LdsOp::Transpose { bits: 8 },
        "read_b64_tr_b4" => LdsOp::Transpose { bits: 4 },
        "read_b96_tr_b6" => LdsOp::Transpose { bits: 6 },
        "read2_b32" => LdsOp::Read2 { bytes: 4, stride: 4 },
        "read2st64_b32" => LdsOp::Read2 { bytes: 4, stride: 256 },
        "read2_b64" => LdsOp::Read2 { bytes: 8, stride: 8 },
        "read2st64_b64" => LdsOp::Read2 { bytes: 8, stride: 512 },
        "write2_b32" => LdsOp::Write2 { bytes: 4, stride: 4 },
        "write2st64_b32" => LdsOp::Write2 { bytes: 4, stride: 256 },
        "write2_b64" => LdsOp::Write2 { bytes: 8, stride: 8 },
        "write2st64_b64" => LdsOp::Write2 { bytes: 8, stride: 512 },
        _ => {
            if let Some(rest) = name.strip_prefix("read_") {
                LdsOp::Read(lds_width(rest)?)
            } else if let Some(rest) = name.strip_prefix("write_") {
                LdsOp::Write(lds_width(rest)?)
            } else {
                lds_atomic(name)?
            }
        }
    })
}

fn lds_width(name: &str) -> Option<Width> {
    let (base, part) = if let Some(base) = name.strip_suffix("_d16_hi") {
        (base, Part::High)
    } else if let Some(base) = name.strip_suffix("_d16") {
        (base, Part::Low)
    } else {
        (name, Part::Whole)
    };
    let (bytes, signed) = match base {
        "b8" | "u8" => (1, false),
        "i8" => (1, true),
        "b16" | "u16" => (2, false),
        "i16" => (2, true),
        "b32" => (4, false),
        "b64" => (8, false),
        "b96" => (12, false),
        "b128" => (16, false),
        _ => return None,
    };
    Some(Width { bytes, signed, part })
}

fn lds_atomic(name: &str) -> Option<LdsOp> {
    let (head, ty) = name.rsplit_once('_')?;
    let (head, returns) = match head.strip_suffix("_rtn") {
        Some(head) => (head, true),
        None => (head, false),
    };
    let bytes = if ty.ends_with("64") { 8 } else { 4 };
    let float = ty.starts_with('f');
    let signed = ty.starts_with('i');
    let op = match head {
        "add" if float => AtomicOp::AddFloat,
        "add" => AtomicOp::Add,
        "sub" => AtomicOp::Sub,
        "rsub" => AtomicOp::ReverseSub,
        "inc" => AtomicOp::Inc,
        "dec" => AtomicOp::Dec,
        "min" if float => AtomicOp::MinFloat,
        "max" if float => AtomicOp::MaxFloat,
        "min" if signed => AtomicOp::MinSigned,
        "max" if signed => AtomicOp::MaxSigned,
        "min" => AtomicOp::MinUnsigned,
        "max" => AtomicOp::MaxUnsigned,
        "and" => AtomicOp::And,
        "or" => AtomicOp::Or,
        "xor" => AtomicOp::Xor,
        "mskor" => AtomicOp::MaskOr,
        "wrxchg" => AtomicOp::Swap,
        "cmpst" if float => AtomicOp::CompareSwapFloat,
        "cmpst" => AtomicOp::CompareSwap,
        "wrap" => AtomicOp::Wrap,
        "pk_add" if ty == "f16" => AtomicOp::AddHalves,
        "pk_add" => AtomicOp::AddBfloats,
        _ => return None,
    };
    Some(LdsOp::Atomic { op, bytes, returns })
}

/// Whether an encoding is vector memory.
pub(crate) fn is_vector_memory(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Mubuf | Encoding::Flat | Encoding::Global | Encoding::Scratch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_meant() {
        assert_eq!(
            compare(Opcode::VCmpxNltF64),
            Some(Compare { relation: Relation::NotLess, ty: CompareType::F64, exec: true })
        );
        assert_eq!(compare(Opcode::VMovB32), None);
        assert_eq!(lds(Opcode::DsReadB128), Some(LdsOp::Read(Width::plain(16))));
        assert_eq!(
            lds(Opcode::DsMaxRtnI64),
            Some(LdsOp::Atomic { op: AtomicOp::MaxSigned, bytes: 8, returns: true })
        );
        assert_eq!(
            lds(Opcode::DsPkAddRtnBf16),
            Some(LdsOp::Atomic { op: AtomicOp::AddBfloats, bytes: 4, returns: true })
        );
        assert_eq!(
            lds(Opcode::DsReadU8D16Hi),
            Some(LdsOp::Read(Width { bytes: 1, signed: false, part: Part::High }))
        );
        assert_eq!(
            scalar_memory(Opcode::SBufferLoadDwordx8),
            Some(ScalarMemoryOp::Load { dwords: 8, buffer: true })
        );
        assert_eq!(scalar_memory(Opcode::SStoreDword), None);
    }

    #[test]
    fn every_compare_is_read() {
        for &opcode in Opcode::ALL {
            let name = opcode.mnemonic();
            assert_eq!(compare(opcode).is_some(), name.starts_with("v_cmp"), "{name}");
        }
    }

    /// LDS opcodes without a meaning here: two exchanges at once, conditional exchange, and the GDS counters.
    #[test]
    fn few_lds_opcodes_are_left_out() {
        let left_out: Vec<&str> = Opcode::ALL
            .iter()
            .filter(|op| op.mnemonic().starts_with("ds_") && lds(**op).is_none())
            .map(|op| op.mnemonic())
            .collect();
        assert_eq!(
            left_out,
            [
                "ds_wrxchg2_rtn_b32",
                "ds_wrxchg2st64_rtn_b32",
                "ds_wrxchg2_rtn_b64",
                "ds_wrxchg2st64_rtn_b64",
                "ds_condxchg32_rtn_b64",
                "ds_consume",
                "ds_append",
            ]
        );
    }
}
