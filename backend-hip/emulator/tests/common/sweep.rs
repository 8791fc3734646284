//! Random operands for every opcode the decoder claims.
//!
//! Words are drawn field by field from the encoding's operand classes, not from the decoder: LLVM disassembles them, what
//! its assembler accepts back is the sweep, and the decoder has to agree on all of it.

use std::collections::HashSet;

use lapidary_cdna::Arch;
use lapidary_cdna::isa::claims::{Claim, Form};
use lapidary_cdna::isa::{Encoding, OperandType};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Draws `per_claim` word lists for each claim.
pub fn draw(arch: Arch, claims: &[Claim], per_claim: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut out = Vec::with_capacity(claims.len() * per_claim);
    for (i, claim) in claims.iter().enumerate() {
        let mut source = Source(SmallRng::seed_from_u64(seed ^ (i as u64) << 20));
        for _ in 0..per_claim {
            out.push(source.words(arch, claim));
        }
    }
    out
}

/// Drops what LLVM made of the tail of a refused word: instructions outside the claimed encodings.
pub fn claimed_only(claims: &[Claim], lines: Vec<String>) -> Vec<String> {
    let known: HashSet<&str> = claims.iter().map(|claim| claim.opcode.mnemonic()).collect();
    let base = |line: &str| {
        let name = line.split_whitespace().next().unwrap_or("").to_owned();
        ["_e32", "_e64", "_sdwa", "_dpp"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .map_or(name.clone(), str::to_owned)
    };
    lines.into_iter().filter(|line| known.contains(base(line).as_str())).collect()
}

struct Source(SmallRng);

impl Source {
    fn below(&mut self, n: u32) -> u32 {
        self.0.random_range(0..n)
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    /// `width` random bits, zero most of the time.
    fn rarely(&mut self, width: u32) -> u32 {
        if self.chance(25) { self.below(1 << width) } else { 0 }
    }

    fn pick(&mut self, options: &[u32]) -> u32 {
        options[self.below(options.len() as u32) as usize]
    }

    /// A literal: any bits, small numbers, numbers that inline constants also express, half floats.
    fn literal(&mut self) -> u32 {
        match self.below(6) {
            0 => self.below(80),
            1 => self.below(20).wrapping_neg(),
            2 => self.pick(&[0x3f00_0000, 0xbf80_0000, 0x4080_0000, 0x3e22_f983, 0x3ff0_0000]),
            3 => self.pick(&[0x3800, 0x3c00, 0xc400, 0x3118, 0xffff, 0x8000]),
            _ => self.0.random(),
        }
    }

    /// The first register of a vector tuple; mostly even, as tuples have to be.
    fn vgpr(&mut self, dwords: u8) -> u32 {
        let first = self.below(257 - u32::from(dwords.max(1)));
        if dwords > 1 && self.chance(95) { first & !1 } else { first }
    }

    fn sgpr(&mut self, dwords: u8) -> u32 {
        let align: u32 = match dwords {
            0 | 1 => 1,
            2 => 2,
            _ => 4,
        };
        let first = self.below(102 - u32::from(dwords.clamp(1, 16)) + 1);
        let first = first / align * align;
        match self.below(10) {
            0 => self.pick(&[106, 107]) & !(align.min(2) - 1),
            1 => self.pick(&[126, 127]) & !(align.min(2) - 1),
            2 if dwords == 1 => self.pick(&[124, 102, 103, 104, 105]),
            3 if dwords == 2 => self.pick(&[102, 104]),
            4 if dwords <= 4 => 108 + self.below(3) * 4,
            _ => first,
        }
    }

    fn scalar_source(&mut self, dwords: u8) -> u32 {
        match self.below(8) {
            0 | 1 => 128 + self.below(81),
            2 => 240 + self.below(9),
            3 => self.pick(&[235, 236, 237, 238, 251, 252, 253]),
            _ => self.sgpr(dwords),
        }
    }

    /// A 9-bit source.
    fn source9(&mut self, ty: OperandType) -> u32 {
        use OperandType::*;
        match ty {
            Mask => self.sgpr(2),
            Lane => match self.below(3) {
                0 => 128 + self.below(81),
                _ => self.sgpr(1),
            },
            Absent => 0,
            V32 | V64 | A32 => 256 + self.vgpr(ty.dwords()),
            _ if ty.dwords() > 2 => 256 + self.vgpr(ty.dwords()),
            _ if self.chance(55) => 256 + self.vgpr(ty.dwords()),
            _ => self.scalar_source(ty.dwords()),
        }
    }

    fn words(&mut self, arch: Arch, claim: &Claim) -> Vec<u32> {
        let code = claim.code;
        let signature = claim.opcode.signature();
        let src = |i: usize| signature.src.get(i).copied().unwrap_or(OperandType::Absent);
        let dst = signature.dst.first().map_or(0, |ty| ty.dwords());
        match claim.encoding {
            Encoding::Sop2 | Encoding::Sopc => {
                let mut literal = false;
                let mut source = |this: &mut Source, ty: OperandType| {
                    if ty == OperandType::Absent {
                        return this.below(16);
                    }
                    if this.chance(12) {
                        literal = true;
                        return 255;
                    }
                    this.scalar_source(ty.dwords())
                };
                let first = source(self, src(0));
                let second = source(self, src(1));
                let mut words = if claim.encoding == Encoding::Sop2 {
                    vec![2 << 30 | code << 23 | self.sgpr(dst) << 16 | second << 8 | first]
                } else {
                    vec![0xbf00_0000 | code << 16 | second << 8 | first]
                };
                if literal {
                    words.push(self.literal());
                }
                words
            }
            Encoding::Sop1 => {
                let literal = src(0) != OperandType::Absent && self.chance(15);
                let source = match src(0) {
                    OperandType::Absent => 0,
                    _ if literal => 255,
                    ty => self.scalar_source(ty.dwords()),
                };
                let sdst = if dst == 0 { 0 } else { self.sgpr(dst) };
                let mut words = vec![0xbe80_0000 | sdst << 16 | code << 8 | source];
                if literal {
                    words.push(self.literal());
                }
                words
            }
            Encoding::Sopk => {
                let dwords = dst.max(src(0).dwords());
                let imm = self.imm16();
                let name = claim.opcode.mnemonic();
                let register = if name == "s_setreg_imm32_b32" { 0 } else { self.sgpr(dwords) };
                let mut words = vec![0xb000_0000 | code << 23 | register << 16 | imm];
                if name == "s_setreg_imm32_b32" {
                    words.push(self.literal());
                }
                words
            }
            Encoding::Sopp => vec![0xbf80_0000 | code << 16 | self.sopp_imm(claim)],
            Encoding::Smem => self.smem(claim),
            Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc => self.narrow(claim),
            Encoding::Vop3 => self.vop3(claim),
            Encoding::Vop3p => self.vop3p(claim),
            Encoding::Ds => self.ds(claim),
            Encoding::Mubuf => self.mubuf(arch, claim),
            Encoding::Flat | Encoding::Global | Encoding::Scratch => self.flat(claim),
        }
    }

    fn imm16(&mut self) -> u32 {
        match self.below(4) {
            0 => self.below(70),
            1 => 0xffff - self.below(70),
            _ => self.below(1 << 16),
        }
    }

    fn sopp_imm(&mut self, claim: &Claim) -> u32 {
        let name = claim.opcode.mnemonic();
        if name.starts_with("s_sendmsg") {
            return self.below(16) | self.rarely(3) << 4 | self.rarely(2) << 8;
        }
        if name.starts_with("s_set_gpr_idx_mode") {
            return self.below(16);
        }
        let bare = [
            "s_wakeup",
            "s_barrier",
            "s_icache_inv",
            "s_ttracedata",
            "s_endpgm_saved",
            "s_set_gpr_idx_off",
            "s_endpgm_ordered_ps_done",
        ];
        if bare.contains(&name) { 0 } else { self.imm16() }
    }

    fn smem(&mut self, claim: &Claim) -> Vec<u32> {
        let signature = claim.opcode.signature();
        let word = 0xc000_0000 | claim.code << 18;
        let Some(base) = signature.src.first() else {
            let data = signature.dst.first().map_or(0, |ty| self.sgpr(ty.dwords()));
            return vec![word | data << 6, 0];
        };
        let name = claim.opcode.mnemonic();
        let sdata = if name.starts_with("s_atc") {
            self.below(128)
        } else if name.starts_with("s_dcache") {
            0
        } else {
            let ty = signature.src.get(1).or(signature.dst.first());
            ty.map_or(0, |ty| self.sgpr(ty.dwords()))
        };
        let glc = u32::from(self.chance(30));
        let sbase = self.sgpr(base.dwords()) / 2;
        let word = word | glc << 16 | sdata << 6 | sbase;
        match self.below(3) {
            0 => vec![word, self.sgpr(1)],
            1 => {
                let offset = self.below(1 << 21);
                vec![word | 1 << 17, if self.chance(70) { offset >> 6 } else { offset }]
            }
            _ => vec![word | 1 << 17 | 1 << 14, self.below(1 << 10) | self.sgpr(1) << 25],
        }
    }

    /// VOP1, VOP2 and VOPC with a plain, SDWA or DPP source.
    fn narrow(&mut self, claim: &Claim) -> Vec<u32> {
        let signature = claim.opcode.signature();
        let src = |i: usize| signature.src.get(i).copied().unwrap_or(OperandType::Absent);
        let name = claim.opcode.mnemonic();
        let constant_literal =
            ["v_fmamk_f32", "v_fmaak_f32", "v_madmk_f16", "v_madak_f16"].contains(&name);
        let dst = match signature.dst.first() {
            None => 0,
            Some(_) if name == "v_readfirstlane_b32" => self.sgpr(1),
            Some(ty) => self.vgpr(ty.dwords()),
        };
        let scalar_second = claim.form == Form::Sdwa && self.chance(30);
        let second = match src(1) {
            _ if claim.encoding == Encoding::Vop1 => 0,
            ty if scalar_second => self.scalar_source(ty.dwords()),
            ty => self.vgpr(ty.dwords().max(1)),
        };
        let (first, extra) = match claim.form {
            Form::Sdwa => (249, Some(self.sdwa(claim, scalar_second))),
            Form::Dpp => (250, Some(self.dpp(claim))),
            _ if src(0) == OperandType::Absent => (0, None),
            _ if constant_literal => {
                let first = if self.chance(10) { 255 } else { self.source9(src(0)) };
                (first, Some(self.literal()))
            }
            _ if self.chance(15) => (255, Some(self.literal())),
            _ => (self.source9(src(0)), None),
        };
        let word = match claim.encoding {
            Encoding::Vop1 => 0x7e00_0000 | dst << 17 | claim.code << 9 | first,
            Encoding::Vop2 => claim.code << 25 | dst << 17 | second << 9 | first,
            _ => 0x7c00_0000 | claim.code << 17 | second << 9 | first,
        };
        [Some(word), extra].into_iter().flatten().collect()
    }

    fn sdwa(&mut self, claim: &Claim, scalar_second: bool) -> u32 {
        let signature = claim.opcode.signature();
        let two = claim.encoding != Encoding::Vop1;
        let scalar_first = self.chance(20);
        let ty = signature.src.first().copied().unwrap_or(OperandType::B32);
        let first =
            if scalar_first { self.scalar_source(ty.dwords()) } else { self.vgpr(ty.dwords()) };
        let name = claim.opcode.mnemonic();
        let whole = name.ends_with("_fp8") || name.ends_with("_bf8");
        let middle = if claim.encoding == Encoding::Vopc {
            if self.chance(50) { self.sgpr(2) << 8 | 1 << 15 } else { 0 }
        } else if whole {
            6 << 8 | self.rarely(1) << 13 | self.rarely(2) << 14
        } else {
            self.below(7) << 8 | self.below(3) << 11 | self.rarely(1) << 13 | self.rarely(2) << 14
        };
        let mut word = first | middle | u32::from(scalar_first) << 23 | self.below(7) << 16;
        word |= self.sdwa_modifiers(claim, 0) << 19;
        if two {
            word |= u32::from(scalar_second) << 31 | self.below(7) << 24;
            word |= self.sdwa_modifiers(claim, 1) << 27;
        }
        word
    }

    /// Sign extension of an integer, negation and absolute value of a float.
    fn sdwa_modifiers(&mut self, claim: &Claim, source: usize) -> u32 {
        let float =
            claim.opcode.signature().src.get(source).is_some_and(|ty| ty.takes_float_modifiers());
        if float { self.rarely(2) << 1 } else { self.rarely(1) }
    }

    fn dpp(&mut self, claim: &Claim) -> u32 {
        let signature = claim.opcode.signature();
        let ty = signature.src.first().copied().unwrap_or(OperandType::B32);
        let double = ty.dwords() == 2 || signature.dst.first().is_some_and(|ty| ty.dwords() == 2);
        let ctrl = match self.below(if double { 1 } else { 8 }) {
            0 => 0x150 + self.below(16),
            1 => 0x101 + self.below(15),
            2 => 0x111 + self.below(15),
            3 => 0x121 + self.below(15),
            4 => self.pick(&[0x130, 0x134, 0x138, 0x13c]),
            5 => self.pick(&[0x140, 0x141, 0x142, 0x143]),
            _ => self.below(256),
        };
        let mut flags = self.rarely(1) << 19;
        for i in 0..2 {
            if signature.src.get(i).is_some_and(|ty| ty.takes_float_modifiers()) {
                flags |= self.rarely(2) << (20 + 2 * i);
            }
        }
        self.vgpr(ty.dwords()) | ctrl << 8 | flags | self.below(16) << 24 | self.below(16) << 28
    }

    fn vop3(&mut self, claim: &Claim) -> Vec<u32> {
        let signature = claim.opcode.signature();
        let src = |i: usize| signature.src.get(i).copied().unwrap_or(OperandType::Absent);
        let name = claim.opcode.mnemonic();
        let dst = match signature.dst.first() {
            None => 0,
            Some(_) if name == "v_readlane_b32" => self.sgpr(1),
            Some(OperandType::Mask) => self.sgpr(2),
            Some(ty) => self.vgpr(ty.dwords()),
        };
        let sources: Vec<u32> = (0..3).map(|i| self.source9(src(i))).collect();
        let floats = (0..3).filter(|i| src(*i).takes_float_modifiers()).fold(0, |m, i| m | 1 << i);
        let mut word = 0xd000_0000 | claim.code << 16 | dst;
        let mut second = sources[0] | sources[1] << 9 | sources[2] << 18;
        if name.starts_with("v_bitop3") {
            word |= self.below(8) << 8;
            second |= self.below(4) << 27 | self.below(8) << 29;
        } else {
            second |= (self.rarely(3) & floats) << 29 | self.rarely(2) << 27;
        }
        if signature.dst.len() > 1 {
            word |= self.sgpr(2) << 8;
        } else {
            if !name.starts_with("v_bitop3") {
                word |= (self.rarely(3) & floats) << 8;
            }
            word |= self.rarely(4) << 11;
        }
        word |= self.rarely(1) << 15;
        vec![word, second]
    }

    fn vop3p(&mut self, claim: &Claim) -> Vec<u32> {
        let signature = claim.opcode.signature();
        let src = |i: usize| signature.src.get(i).copied().unwrap_or(OperandType::Absent);
        let width = signature.dst.first().map_or(1, |ty| ty.dwords());
        let word = 0xd380_0000 | claim.code << 16;
        if claim.form == Form::Scaled || claim.opcode.is_matrix() {
            let sparse = !claim.opcode.is_dense_matrix();
            let acc = self.below(2);
            let formats = claim.opcode.is_f8f6f4();
            let [cbsz, blgp] = [0, 1].map(|_| if formats { self.below(5) } else { self.rarely(3) });
            let blgp = if sparse { 0 } else { blgp };
            let dwords = |format: u32, ty: OperandType| match (formats, format) {
                (false, _) => ty.dwords(),
                (true, 0 | 1) => 8,
                (true, 2 | 3) => 6,
                (true, _) => 4,
            };
            let dst = self.vgpr(width);
            let third = match self.below(4) {
                _ if sparse => 256 + self.vgpr(1),
                0 => 128 + self.below(81),
                1 => 240 + self.below(9),
                2 => 256 + dst,
                _ => 256 + self.vgpr(width),
            };
            let abid = if claim.form == Form::Scaled {
                1
            } else if formats {
                0
            } else {
                self.rarely(4)
            };
            let a = 256 + self.vgpr(dwords(cbsz, src(0)));
            let b = 256 + self.vgpr(dwords(blgp, src(1)));
            let main = [
                word | acc << 15 | abid << 11 | cbsz << 8 | dst,
                a | b << 9 | third << 18 | self.below(4) << 27 | blgp << 29,
            ];
            if claim.form != Form::Scaled {
                return main.to_vec();
            }
            let scales = [0, 1]
                .map(|_| if self.chance(60) { 256 + self.vgpr(1) } else { self.scalar_source(1) });
            let load = [
                0xd3ac_0000 | self.below(4) << 11,
                scales[0] | scales[1] << 9 | self.below(4) << 27,
            ];
            return [load, main].concat();
        }
        let sources: Vec<u32> = (0..3).map(|i| self.source9(src(i))).collect();
        let present = (1 << signature.src.len()) - 1;
        let dst = self.vgpr(width);
        let accvgpr = claim.opcode.mnemonic().starts_with("v_accvgpr");
        let selectable = !accvgpr
            && !claim.opcode.mnemonic().starts_with("v_dot4")
            && !claim.opcode.mnemonic().starts_with("v_dot8");
        let op_sel = if selectable { self.rarely(3) & present } else { 0 };
        let mix = src(0) == OperandType::Mix;
        // What assemblers write for sources that are absent or not selected.
        let default = if mix { 0 } else { 7 };
        let op_sel_hi = if selectable && self.chance(50) {
            default & !present | self.below(8) & present
        } else {
            default
        };
        let [neg, neg_hi, clamp] = if accvgpr {
            [0; 3]
        } else {
            [self.rarely(3) & present, self.rarely(3) & present, self.rarely(1)]
        };
        vec![
            word | clamp << 15 | op_sel_hi >> 2 << 14 | op_sel << 11 | neg_hi << 8 | dst,
            sources[0] | sources[1] << 9 | sources[2] << 18 | (op_sel_hi & 3) << 27 | neg << 29,
        ]
    }

    fn ds(&mut self, claim: &Claim) -> Vec<u32> {
        let signature = claim.opcode.signature();
        let src = |i: usize| signature.src.get(i).map_or(0, |ty| ty.dwords());
        let fields: Vec<u32> =
            (0..3).map(|i| if src(i) > 0 { self.vgpr(src(i)) } else { 0 }).collect();
        let dst = signature.dst.first().map_or(0, |ty| self.vgpr(ty.dwords()));
        let data = src(1) > 0 || !signature.dst.is_empty();
        let acc = if data { self.rarely(1) } else { 0 };
        let offset = if self.chance(80) { self.below(1 << 16) } else { 0 };
        let word = 0xd800_0000 | acc << 25 | claim.code << 17 | offset;
        vec![word, fields[0] | fields[1] << 8 | fields[2] << 16 | dst << 24]
    }

    fn mubuf(&mut self, arch: Arch, claim: &Claim) -> Vec<u32> {
        let signature = claim.opcode.signature();
        let scope = self.rarely(2) << 14;
        let word = 0xe000_0000 | claim.code << 18;
        let data = signature.src.first().or(signature.dst.first()).map_or(0, |ty| ty.dwords());
        if data == 0 {
            return vec![word | scope | self.rarely(1) << 17, 0];
        }
        let address = self.below(4);
        let vaddr = match address {
            0 => 0,
            3 => self.vgpr(2),
            _ => self.vgpr(1),
        };
        let wide = arch == Arch::Gfx950 && data > 2;
        let load = signature.src.is_empty();
        let lds = load && (data == 1 || wide) && self.chance(20);
        let (vdata, acc) = if lds { (0, 0) } else { (self.vgpr(data), self.rarely(1)) };
        let soffset = match self.below(3) {
            0 => 128 + self.below(81),
            _ => self.sgpr(1),
        };
        let srsrc = self.sgpr(4) / 4;
        let word = word | self.rarely(1) << 17 | u32::from(lds) << 16 | scope | address << 12;
        vec![
            word | if self.chance(70) { self.below(1 << 12) } else { 0 },
            soffset << 24 | acc << 23 | srsrc << 16 | vdata << 8 | vaddr,
        ]
    }

    fn flat(&mut self, claim: &Claim) -> Vec<u32> {
        let signature = claim.opcode.signature();
        let (segment, offset_bits) = match claim.encoding {
            Encoding::Flat => (0, 12),
            Encoding::Scratch => (1, 13),
            _ => (2, 13),
        };
        let data = signature.src.first().map_or(0, |ty| ty.dwords());
        let sc0 = self.rarely(1);
        let returns = !signature.dst.is_empty() && (data == 0 || sc0 == 1);
        let dst = if returns { self.vgpr(signature.dst[0].dwords()) } else { 0 };
        let vdata = if data > 0 { self.vgpr(data) } else { 0 };
        let (sve, addr, saddr) = match claim.encoding {
            Encoding::Flat => (0, self.vgpr(2), 0),
            Encoding::Scratch => {
                let sve = self.below(2);
                let addr = if sve == 1 { self.vgpr(1) } else { 0 };
                (sve, addr, if self.chance(50) { self.sgpr(1) } else { 0x7f })
            }
            _ if self.chance(50) => (0, self.vgpr(1), self.sgpr(2)),
            _ => (0, self.vgpr(2), 0x7f),
        };
        let acc = if data > 0 || !signature.dst.is_empty() { self.rarely(1) } else { 0 };
        let offset = if self.chance(70) { self.below(1 << offset_bits) } else { 0 };
        vec![
            0xdc00_0000
                | self.rarely(1) << 25
                | claim.code << 18
                | self.rarely(1) << 17
                | sc0 << 16
                | segment << 14
                | sve << 13
                | offset,
            dst << 24 | acc << 23 | saddr << 16 | vdata << 8 | addr,
        ]
    }
}
