//! How a vector instruction reads its sources and writes its result: constants, SDWA selection, DPP movement, negation and
//! absolute value, output modifier, clamp, denormal mode.

use crate::exec::round::{self, Round};
use crate::exec::wave::{Lanes, Wave, Wide, blend};
use crate::isa::{Dpp, DppCtrl, Instruction, Opcode, Operand, SdwaSel, SdwaUnused};

/// How the constant of an operand is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Constant {
    /// Inline floats are singles.
    Bits32,
    /// Inline floats are halves.
    Bits16,
}

/// The lane that each lane reads under a DPP control, or `None` outside.
pub(crate) fn dpp_source(ctrl: DppCtrl, lane: usize) -> Option<usize> {
    let (row, at) = (lane & !15, lane & 15);
    match ctrl {
        DppCtrl::QuadPerm(perm) => Some((lane & !3) + usize::from(perm[lane & 3] & 3)),
        DppCtrl::RowShl(n) => (at + usize::from(n) < 16).then(|| lane + usize::from(n)),
        DppCtrl::RowShr(n) => at.checked_sub(usize::from(n)).map(|at| row + at),
        DppCtrl::RowRor(n) => Some(row + (at + 16 - usize::from(n & 15)) % 16),
        DppCtrl::WaveShl => (lane < 63).then(|| lane + 1),
        DppCtrl::WaveRol => Some((lane + 1) % 64),
        DppCtrl::WaveShr => lane.checked_sub(1),
        DppCtrl::WaveRor => Some((lane + 63) % 64),
        DppCtrl::RowMirror => Some(row + 15 - at),
        DppCtrl::RowHalfMirror => Some((lane & !7) + 7 - (lane & 7)),
        DppCtrl::RowBcast15 => row.checked_sub(1),
        DppCtrl::RowBcast31 => (lane >= 32).then_some(31),
        DppCtrl::RowNewbcast(n) => Some(row + usize::from(n & 15)),
    }
}

/// The lanes that a DPP instruction may write, and what it reads in each.
fn move_lanes(dpp: &Dpp, values: &Lanes, exec: u64) -> (Lanes, u64) {
    let (mut moved, mut mask) = ([0u32; 64], 0u64);
    for lane in 0..64 {
        let enabled =
            dpp.row_mask >> (lane / 16) & 1 == 1 && dpp.bank_mask >> (lane % 16 / 4) & 1 == 1;
        let source = dpp_source(dpp.ctrl, lane).filter(|&from| exec >> from & 1 == 1);
        if let Some(from) = source {
            moved[lane] = values[from];
        }
        if enabled && (source.is_some() || dpp.bound_ctrl) {
            mask |= 1 << lane;
        }
    }
    (moved, mask)
}

fn select(values: &mut Lanes, sel: SdwaSel, signed: bool) {
    let (shift, bits) = match sel {
        SdwaSel::Dword => return,
        SdwaSel::Byte0 => (0, 8),
        SdwaSel::Byte1 => (8, 8),
        SdwaSel::Byte2 => (16, 8),
        SdwaSel::Byte3 => (24, 8),
        SdwaSel::Word0 => (0, 16),
        SdwaSel::Word1 => (16, 16),
    };
    let up = 32 - bits - shift;
    for value in values {
        let top = *value << up;
        *value = if signed { ((top as i32) >> (32 - bits)) as u32 } else { top >> (32 - bits) };
    }
}

impl Wave {
    /// Source `n` as 32 raw bits a lane, after DPP and SDWA.
    #[inline]
    pub(super) fn raw(&mut self, inst: &Instruction, n: usize, constant: Constant) -> Lanes {
        let operand = inst.src[n];
        let mut values = match self.vector(operand) {
            Some(register) => self.v[register],
            None => [self.constant(operand, constant); 64],
        };
        if n == 0
            && let Some(dpp) = &inst.mods.dpp
        {
            let (moved, mask) = move_lanes(dpp, &values, self.exec());
            values = moved;
            self.write_mask = mask;
        }
        if n < 2
            && let Some(sdwa) = &inst.mods.sdwa
        {
            select(&mut values, sdwa.src_sel[n], sdwa.sext[n]);
        }
        values
    }

    fn constant(&self, operand: Operand, constant: Constant) -> u32 {
        match operand {
            Operand::Float(float) if constant == Constant::Bits16 => u32::from(float.bits16()),
            other => self.scalar(other),
        }
    }

    /// Source `n` as 32-bit integers.
    #[inline]
    pub(super) fn int(&mut self, inst: &Instruction, n: usize) -> Lanes {
        self.raw(inst, n, Constant::Bits32)
    }

    /// Source `n` as 16-bit integers in the low half: the half that `op_sel` picks, the rest zero.
    pub(super) fn int16(&mut self, inst: &Instruction, n: usize) -> Lanes {
        let mut values = self.raw(inst, n, Constant::Bits16);
        let shift = if inst.mods.op_sel >> n & 1 == 1 && self.vector_or_scalar(inst.src[n]) {
            16
        } else {
            0
        };
        for value in &mut values {
            *value = *value >> shift & 0xffff;
        }
        values
    }

    /// Whether an operand is a register, whose high half `op_sel` may pick.
    fn vector_or_scalar(&self, operand: Operand) -> bool {
        !matches!(operand, Operand::Int(_) | Operand::Float(_) | Operand::Literal(_))
    }

    /// Source `n` as singles, with modifiers and input flush.
    #[inline]
    pub(super) fn single(&mut self, inst: &Instruction, n: usize) -> Lanes {
        let mut values = self.raw(inst, n, Constant::Bits32);
        self.modify32(inst, n, &mut values);
        values
    }

    /// Source `n` as 32 bits, with the float modifiers but no flush: what `v_cndmask` moves.
    pub(super) fn single_bits(&mut self, inst: &Instruction, n: usize) -> Lanes {
        let mut values = self.raw(inst, n, Constant::Bits32);
        signs32(inst, n, &mut values);
        values
    }

    #[inline]
    fn modify32(&self, inst: &Instruction, n: usize, values: &mut Lanes) {
        signs32(inst, n, values);
        if self.mode.flush_in32() {
            flush32(values);
        }
    }

    /// Source `n` as halves in the low 16 bits, with `op_sel`, modifiers and input flush.
    pub(super) fn half(&mut self, inst: &Instruction, n: usize) -> Lanes {
        let mut values = self.int16(inst, n);
        let (abs, neg) = (inst.mods.abs >> n & 1 == 1, inst.mods.neg >> n & 1 == 1);
        if abs || neg {
            let (keep, flip) = (if abs { 0x7fff } else { 0xffff }, if neg { 0x8000 } else { 0 });
            for value in &mut values {
                *value = *value & keep ^ flip;
            }
        }
        if self.mode.flush_in16() {
            flush16(&mut values);
        }
        values
    }

    /// Source `n` as 64 raw bits a lane; an inline float is a double, a literal the high half of one if `double`.
    pub(super) fn wide(&mut self, inst: &Instruction, n: usize, double: bool) -> Wide {
        let operand = inst.src[n];
        let Some(register) = self.vector(operand) else {
            let value = match operand {
                Operand::Literal(bits) if double => u64::from(bits) << 32,
                other => self.scalar64(other, true),
            };
            return [value; 64];
        };
        let (mut low, mut high) = (self.v[register], self.v[register + 1]);
        if n == 0
            && let Some(dpp) = &inst.mods.dpp
        {
            let exec = self.exec();
            let (moved, mask) = move_lanes(dpp, &low, exec);
            low = moved;
            high = move_lanes(dpp, &high, exec).0;
            self.write_mask = mask;
        }
        join(&low, &high)
    }

    /// Source `n` as doubles, with modifiers and input flush.
    pub(super) fn double(&mut self, inst: &Instruction, n: usize) -> Wide {
        let mut values = self.wide(inst, n, true);
        let (abs, neg) = (inst.mods.abs >> n & 1 == 1, inst.mods.neg >> n & 1 == 1);
        let flush = self.mode.flush_in16();
        for value in &mut values {
            if abs {
                *value &= !(1 << 63);
            }
            if neg {
                *value ^= 1 << 63;
            }
            if flush && *value & 0x7ff0_0000_0000_0000 == 0 {
                *value &= 1 << 63;
            }
        }
        values
    }

    /// Source `n` as a lane mask.
    pub(super) fn lane_mask(&self, inst: &Instruction, n: usize) -> u64 {
        self.scalar64(inst.src[n], false)
    }

    /// Writes 32 raw bits a lane to the destination, through SDWA.
    #[inline]
    pub(crate) fn put(&mut self, inst: &Instruction, mut values: Lanes) {
        let Some(register) = self.vector(inst.dst) else { return };
        if let Some(sdwa) = &inst.mods.sdwa {
            merge(&self.v[register], &mut values, sdwa.dst_sel, sdwa.dst_unused);
        }
        self.store(register, &values);
    }

    /// Writes 16 bits a lane to the half that bit 3 of `op_sel` picks. The other half is kept if the high half is picked or
    /// the opcode exists in the wide encoding only; otherwise GFX9 clears it.
    pub(super) fn put16(&mut self, inst: &Instruction, mut values: Lanes) {
        let high = inst.mods.op_sel >> 3 & 1 == 1;
        let old = self.vector(inst.dst).map_or([0; 64], |register| self.v[register]);
        let kept = if high {
            0xffff
        } else if keeps_high_half(inst.opcode) {
            0xffff_0000
        } else {
            0
        };
        for (value, old) in values.iter_mut().zip(&old) {
            *value = (*value & 0xffff) << if high { 16 } else { 0 } | old & kept;
        }
        self.put(inst, values);
    }

    /// Writes 64 bits a lane to the destination pair.
    pub(super) fn put_wide(&mut self, inst: &Instruction, values: &Wide) {
        if let Some(register) = self.vector(inst.dst) {
            self.store_wide(register, values);
        }
    }

    /// Writes singles: output modifier, clamp, output flush.
    #[inline]
    pub(super) fn put_single(&mut self, inst: &Instruction, mut values: Lanes) {
        if self.mode.flush_out32() {
            flush32(&mut values);
        }
        if inst.mods.omod != 0 {
            let factor = omod(inst.mods.omod) as f32;
            for value in &mut values {
                *value = (f32::from_bits(*value) * factor).to_bits();
            }
        }
        if inst.mods.clamp {
            let dx10 = self.mode.dx10_clamp();
            for value in &mut values {
                let x = f32::from_bits(*value);
                *value = if x.is_nan() {
                    if dx10 { 0 } else { *value }
                } else {
                    (x.clamp(0.0, 1.0) + 0.0).to_bits()
                };
            }
        }
        self.put(inst, values);
    }

    /// Writes halves: output modifier, clamp, output flush.
    pub(super) fn put_half(&mut self, inst: &Instruction, mut values: Lanes) {
        if self.mode.flush_out16() {
            flush16(&mut values);
        }
        if inst.mods.omod != 0 || inst.mods.clamp {
            for value in &mut values {
                *value = self.finish_half(*value, inst.mods.omod, inst.mods.clamp);
            }
        }
        self.put16(inst, values);
    }

    /// Output modifier and clamp of one half.
    pub(super) fn finish_half(&self, bits: u32, output: u8, clamp: bool) -> u32 {
        let mut x = f64::from(round::from_f16(bits));
        if output != 0 {
            x *= omod(output);
        }
        if clamp {
            x = if x.is_nan() && self.mode.dx10_clamp() { 0.0 } else { x.clamp(0.0, 1.0) };
        }
        round::to_f16(x, Round::Nearest)
    }

    /// Writes doubles: output modifier, clamp, output flush.
    pub(super) fn put_double(&mut self, inst: &Instruction, mut values: Wide) {
        let (flush, dx10) = (self.mode.flush_out16(), self.mode.dx10_clamp());
        for value in &mut values {
            if flush && *value & 0x7ff0_0000_0000_0000 == 0 {
                *value &= 1 << 63;
            }
            if inst.mods.omod != 0 {
                *value = (f64::from_bits(*value) * omod(inst.mods.omod)).to_bits();
            }
            if inst.mods.clamp {
                let x = f64::from_bits(*value);
                *value = if x.is_nan() && dx10 { 0 } else { (x.clamp(0.0, 1.0) + 0.0).to_bits() };
            }
        }
        self.put_wide(inst, &values);
    }

    /// Writes a lane mask to a scalar destination; bits of inactive lanes are zero.
    pub(super) fn put_mask(&mut self, operand: Operand, mask: u64) {
        let mask = mask & self.exec();
        self.set_scalar64(operand, mask);
    }
}

fn keeps_high_half(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::VMadF16
            | O::VMadU16
            | O::VMadI16
            | O::VFmaF16
            | O::VDivFixupF16
            | O::VMin3F16
            | O::VMin3I16
            | O::VMin3U16
            | O::VMax3F16
            | O::VMax3I16
            | O::VMax3U16
            | O::VMed3F16
            | O::VMed3I16
            | O::VMed3U16
            | O::VBitop3B16
    )
}

#[inline]
fn signs32(inst: &Instruction, n: usize, values: &mut Lanes) {
    if inst.mods.abs >> n & 1 == 1 {
        for value in values.iter_mut() {
            *value &= 0x7fff_ffff;
        }
    }
    if inst.mods.neg >> n & 1 == 1 {
        for value in values.iter_mut() {
            *value ^= 0x8000_0000;
        }
    }
}

fn omod(code: u8) -> f64 {
    match code {
        1 => 2.0,
        2 => 4.0,
        3 => 0.5,
        _ => 1.0,
    }
}

pub(super) fn flush32(values: &mut Lanes) {
    for value in values {
        let subnormal = *value & 0x7f80_0000 == 0;
        *value &= if subnormal { 0x8000_0000 } else { !0 };
    }
}

pub(super) fn flush16(values: &mut Lanes) {
    for value in values {
        let subnormal = *value & 0x7c00 == 0;
        *value &= if subnormal { 0x8000 } else { !0 };
    }
}

pub(super) fn join(low: &Lanes, high: &Lanes) -> Wide {
    let mut values = [0u64; 64];
    for lane in 0..64 {
        values[lane] = u64::from(low[lane]) | u64::from(high[lane]) << 32;
    }
    values
}

/// Places an SDWA result into the selected part of the destination.
fn merge(old: &Lanes, values: &mut Lanes, sel: SdwaSel, unused: SdwaUnused) {
    let (shift, mask) = match sel {
        SdwaSel::Dword => return,
        SdwaSel::Byte0 => (0, 0xffu32),
        SdwaSel::Byte1 => (8, 0xff),
        SdwaSel::Byte2 => (16, 0xff),
        SdwaSel::Byte3 => (24, 0xff),
        SdwaSel::Word0 => (0, 0xffff),
        SdwaSel::Word1 => (16, 0xffff),
    };
    for (value, old) in values.iter_mut().zip(old) {
        let part = (*value & mask) << shift;
        *value = match unused {
            SdwaUnused::Pad => part,
            SdwaUnused::Preserve => old & !(mask << shift) | part,
            SdwaUnused::Sext => {
                let negative = *value & (mask + 1) >> 1 != 0;
                let above = if negative { !(mask << shift | ((1u32 << shift) - 1)) } else { 0 };
                part | above
            }
        };
    }
}

/// Copies the active lanes of one register to another, whatever EXEC says of the rest.
pub(super) fn copy(wave: &mut Wave, to: usize, values: &Lanes, mask: u64) {
    blend(&mut wave.v[to], values, mask);
    wave.written = mask;
}
