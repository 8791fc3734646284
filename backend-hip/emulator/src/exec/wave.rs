//! The state of one wave: vector and scalar registers, EXEC, VCC, SCC, M0, MODE, scratch, and how operands read them.

use super::round::Round;
use crate::check::hazards::HazardTracker;
use crate::check::uninit::Initialised;
use crate::check::waits::Waits;
use crate::isa::{Operand, Special};

/// One 32-bit value a lane.
pub(crate) type Lanes = [u32; 64];
/// One 64-bit value a lane.
pub(crate) type Wide = [u64; 64];

/// Hardware numbers of the named scalar registers.
pub(crate) mod number {
    pub(crate) const FLAT_SCRATCH: usize = 102;
    pub(crate) const XNACK_MASK: usize = 104;
    pub(crate) const VCC: usize = 106;
    pub(crate) const TTMP: usize = 108;
    pub(crate) const M0: usize = 124;
    pub(crate) const EXEC: usize = 126;
}

/// High half of the LDS aperture's base address.
pub(crate) const SHARED_BASE_HI: u32 = 0x0001_0000;
/// High half of the scratch aperture's base address.
pub(crate) const PRIVATE_BASE_HI: u32 = 0x0002_0000;

/// Where a wave stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    AtBarrier,
    /// Stopped by `s_sethalt`.
    Halted,
    Ended,
}

/// The MODE register's fields that change results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    /// All 32 bits, as `s_getreg` reads them.
    pub(crate) bits: u32,
}

impl Mode {
    pub(crate) fn round32(self) -> Round {
        Round::from_bits(self.bits)
    }
    pub(crate) fn round16(self) -> Round {
        Round::from_bits(self.bits >> 2)
    }
    /// Whether subnormal single inputs read as zero.
    pub(crate) fn flush_in32(self) -> bool {
        self.bits >> 4 & 1 == 0
    }
    /// Whether subnormal single results become zero.
    pub(crate) fn flush_out32(self) -> bool {
        self.bits >> 5 & 1 == 0
    }
    /// Whether subnormal half and double inputs read as zero.
    pub(crate) fn flush_in16(self) -> bool {
        self.bits >> 6 & 1 == 0
    }
    /// Whether subnormal half and double results become zero.
    pub(crate) fn flush_out16(self) -> bool {
        self.bits >> 7 & 1 == 0
    }
    /// Whether a clamped NaN becomes zero.
    pub(crate) fn dx10_clamp(self) -> bool {
        self.bits >> 8 & 1 == 1
    }
    /// Whether minimum and maximum quiet signalling NaN.
    pub(crate) fn ieee(self) -> bool {
        self.bits >> 9 & 1 == 1
    }
    /// Whether f16 and fp8 overflow saturates.
    pub(crate) fn overflow_clamps(self) -> bool {
        self.bits >> 23 & 1 == 1
    }
}

/// What checked runs remember of a wave.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) initialised: Initialised,
    pub(crate) waits: Waits,
    pub(crate) hazards: HazardTracker,
    /// Barriers passed or waited at.
    pub(crate) barriers: u64,
}

/// A wave.
#[derive(Debug)]
pub(crate) struct Wave {
    /// Its number in the workgroup.
    pub(crate) id: u32,
    /// Scalar registers by hardware number: SGPRs, VCC, TTMP, M0, EXEC.
    pub(crate) s: Vec<u32>,
    pub(crate) scc: bool,
    pub(crate) mode: Mode,
    /// The unified vector register file.
    pub(crate) v: Vec<Lanes>,
    /// Index of `a0` in the unified file.
    pub(crate) accum: usize,
    /// Index of the next instruction in the program.
    pub(crate) pc: usize,
    /// The lanes that exist.
    pub(crate) lanes: u64,
    pub(crate) state: State,
    /// Lanes that DPP lets the current instruction write.
    pub(crate) write_mask: u64,
    /// Lanes that the current instruction wrote.
    pub(crate) written: u64,
    /// Whether vector registers are addressed relative to M0 (`s_set_gpr_idx_on`).
    pub(crate) relative: bool,
    /// Lanes of each loaded register whose bytes in scratch hold nothing.
    pub(crate) hollow: [u64; 4],
    /// Scratch, one run of dwords a lane.
    pub(crate) scratch: Vec<u32>,
    /// Which bytes of each scratch dword were written.
    pub(crate) scratch_initialised: Vec<u8>,
    /// Scratch bytes of a lane.
    pub(crate) scratch_bytes: u32,
    /// Instructions executed.
    pub(crate) executed: u64,
    pub(crate) track: Option<Box<Track>>,
}

impl Wave {
    #[inline]
    pub(crate) fn pair(&self, n: usize) -> u64 {
        u64::from(self.s[n]) | u64::from(self.s[n + 1]) << 32
    }

    #[inline]
    pub(crate) fn set_pair(&mut self, n: usize, value: u64) {
        self.s[n] = value as u32;
        self.s[n + 1] = (value >> 32) as u32;
    }

    #[inline]
    pub(crate) fn exec(&self) -> u64 {
        self.pair(number::EXEC)
    }

    #[inline]
    pub(crate) fn vcc(&self) -> u64 {
        self.pair(number::VCC)
    }

    /// The unified index of a vector operand's first register.
    #[inline]
    pub(crate) fn vector(&self, operand: Operand) -> Option<usize> {
        match operand {
            Operand::Vgpr(span) => Some(usize::from(span.first)),
            Operand::Agpr(span) => Some(self.accum + usize::from(span.first)),
            _ => None,
        }
    }

    /// A scalar or constant operand's 32 bits; inline floats are singles. Vector operands read as lane 0.
    #[inline]
    pub(crate) fn scalar(&self, operand: Operand) -> u32 {
        match operand {
            Operand::None => 0,
            Operand::Sgpr(_) | Operand::Ttmp(_) => scalar_number(operand).map_or(0, |n| self.s[n]),
            Operand::Special(special) => self.special(special) as u32,
            Operand::Int(value) => i32::from(value) as u32,
            Operand::Float(float) => float.bits32(),
            Operand::Literal(bits) => bits,
            Operand::Vgpr(_) | Operand::Agpr(_) => self.vector(operand).map_or(0, |r| self.v[r][0]),
        }
    }

    /// A scalar or constant operand's 64 bits; inline floats are doubles, literals are sign-extended if `signed`.
    pub(crate) fn scalar64(&self, operand: Operand, signed: bool) -> u64 {
        match operand {
            Operand::Sgpr(_) | Operand::Ttmp(_) => {
                scalar_number(operand).map_or(0, |n| self.pair(n))
            }
            Operand::Special(special) => self.special(special),
            Operand::Int(value) => i64::from(value) as u64,
            Operand::Float(float) => float.bits64(),
            Operand::Literal(bits) if signed => i64::from(bits as i32) as u64,
            Operand::Literal(bits) => u64::from(bits),
            Operand::None | Operand::Vgpr(_) | Operand::Agpr(_) => 0,
        }
    }

    fn special(&self, special: Special) -> u64 {
        match special {
            Special::SrcVccz => u64::from(self.vcc() == 0),
            Special::SrcExecz => u64::from(self.exec() == 0),
            Special::SrcScc => u64::from(self.scc),
            // Apertures are 64-bit values; a 32-bit read of one gives its low half.
            Special::SharedBase => u64::from(SHARED_BASE_HI) << 32,
            Special::SharedLimit => u64::from(SHARED_BASE_HI) << 32 | 0xffff_ffff,
            Special::PrivateBase => u64::from(PRIVATE_BASE_HI) << 32,
            Special::PrivateLimit => u64::from(PRIVATE_BASE_HI) << 32 | 0xffff_ffff,
            Special::PopsExitingWaveId | Special::LdsDirect | Special::Null => 0,
            other => match special_number(other) {
                Some((n, 1)) => u64::from(self.s[n]),
                Some((n, _)) => self.pair(n),
                None => 0,
            },
        }
    }

    /// Writes 32 bits to a scalar destination.
    #[inline]
    pub(crate) fn set_scalar(&mut self, operand: Operand, value: u32) {
        if let Some(n) = scalar_number(operand) {
            self.s[n] = value;
        }
    }

    /// Writes 64 bits to a scalar destination.
    #[inline]
    pub(crate) fn set_scalar64(&mut self, operand: Operand, value: u64) {
        if let Some(n) = scalar_number(operand) {
            self.set_pair(n, value);
        }
    }

    /// Writes the lanes that are active to a vector register.
    #[inline]
    pub(crate) fn store(&mut self, register: usize, values: &Lanes) {
        let mask = self.exec() & self.write_mask;
        self.written = mask;
        blend(&mut self.v[register], values, mask);
    }

    /// As [`Wave::store`], to a pair of registers.
    #[inline]
    pub(crate) fn store_wide(&mut self, register: usize, values: &Wide) {
        let (mut low, mut high) = ([0u32; 64], [0u32; 64]);
        for lane in 0..64 {
            low[lane] = values[lane] as u32;
            high[lane] = (values[lane] >> 32) as u32;
        }
        self.store(register, &low);
        self.store(register + 1, &high);
    }
}

/// Copies the lanes that `mask` marks.
#[inline]
pub(crate) fn blend(to: &mut Lanes, from: &Lanes, mask: u64) {
    if mask == !0 {
        *to = *from;
        return;
    }
    let halves = [mask as u32, (mask >> 32) as u32];
    for half in 0..2 {
        for lane in 0..32 {
            let keep = ((halves[half] >> lane) & 1).wrapping_neg();
            let place = &mut to[half * 32 + lane];
            *place = *place & !keep | from[half * 32 + lane] & keep;
        }
    }
}

/// The hardware number of a scalar register operand's first register.
#[inline]
pub(crate) fn scalar_number(operand: Operand) -> Option<usize> {
    match operand {
        Operand::Sgpr(span) => Some(usize::from(span.first)),
        Operand::Ttmp(span) => Some(number::TTMP + usize::from(span.first)),
        Operand::Special(special) => special_number(special).map(|(n, _)| n),
        Operand::None
        | Operand::Vgpr(_)
        | Operand::Agpr(_)
        | Operand::Int(_)
        | Operand::Float(_)
        | Operand::Literal(_) => None,
    }
}

/// The hardware number and width in dwords of a named scalar register; `None` for read-only values.
pub(crate) fn special_number(special: Special) -> Option<(usize, usize)> {
    Some(match special {
        Special::FlatScratchLo => (number::FLAT_SCRATCH, 1),
        Special::FlatScratchHi => (number::FLAT_SCRATCH + 1, 1),
        Special::FlatScratch => (number::FLAT_SCRATCH, 2),
        Special::XnackMaskLo => (number::XNACK_MASK, 1),
        Special::XnackMaskHi => (number::XNACK_MASK + 1, 1),
        Special::XnackMask => (number::XNACK_MASK, 2),
        Special::VccLo => (number::VCC, 1),
        Special::VccHi => (number::VCC + 1, 1),
        Special::Vcc => (number::VCC, 2),
        Special::M0 => (number::M0, 1),
        Special::ExecLo => (number::EXEC, 1),
        Special::ExecHi => (number::EXEC + 1, 1),
        Special::Exec => (number::EXEC, 2),
        Special::SrcVccz
        | Special::SrcExecz
        | Special::SrcScc
        | Special::SharedBase
        | Special::SharedLimit
        | Special::PrivateBase
        | Special::PrivateLimit
        | Special::PopsExitingWaveId
        | Special::LdsDirect
        | Special::Null => return None,
    })
}
