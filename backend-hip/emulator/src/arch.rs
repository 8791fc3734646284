//! The two architectures and the facts about them that change what a program observes.

/// A CDNA target whose code objects the emulator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// CDNA3 (MI300): FNUZ fp8, 64 KiB of LDS, xf32 matrix instructions.
    Gfx942,
    /// CDNA4 (MI350): OCP fp8, fp6 and fp4, 160 KiB of LDS, scaled matrix instructions.
    Gfx950,
}

/// Which 8-bit floating point encodings an architecture's instructions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fp8Flavour {
    /// Finite, no negative zero: bias 8 (e4m3) or 16 (e5m2), 0x80 is NaN.
    Fnuz,
    /// The OCP 8-bit formats: bias 7 (e4m3fn) or 15 (e5m2).
    Ocp,
}

impl Arch {
    /// Both architectures.
    pub const ALL: [Arch; 2] = [Arch::Gfx942, Arch::Gfx950];

    /// Lanes in a wave.
    pub const WAVE: usize = 64;

    /// Registers of the unified file that one wave can address: 256 VGPRs and 256 AGPRs.
    pub const VECTOR_REGISTERS: usize = 512;

    /// The general scalar registers, `s0` to `s101`.
    pub const SCALAR_REGISTERS: usize = 102;

    /// The target name as clang's `--offload-arch` and LLVM's `-mcpu` spell it.
    pub fn name(self) -> &'static str {
        match self {
            Arch::Gfx942 => "gfx942",
            Arch::Gfx950 => "gfx950",
        }
    }

    /// The architecture of an ELF header's `e_flags` (its low byte is `EF_AMDGPU_MACH`), if it is one of the two.
    pub fn from_e_flags(e_flags: u32) -> Option<Arch> {
        match e_flags & 0xff {
            0x4c => Some(Arch::Gfx942),
            0x4f => Some(Arch::Gfx950),
            _ => None,
        }
    }

    /// Bytes of LDS that one workgroup can use.
    pub fn lds_bytes(self) -> u32 {
        match self {
            Arch::Gfx942 => 64 * 1024,
            Arch::Gfx950 => 160 * 1024,
        }
    }

    /// Bytes in which LDS is allocated to a workgroup (LLVM: 128 dwords, on gfx950 320).
    pub fn lds_granule(self) -> u32 {
        match self {
            Arch::Gfx942 => 512,
            Arch::Gfx950 => 1280,
        }
    }

    /// LDS banks, each four bytes wide.
    pub fn lds_banks(self) -> u32 {
        match self {
            Arch::Gfx942 => 32,
            Arch::Gfx950 => 64,
        }
    }

    /// The fp8 encodings that conversions and matrix instructions use.
    pub fn fp8(self) -> Fp8Flavour {
        match self {
            Arch::Gfx942 => Fp8Flavour::Fnuz,
            Arch::Gfx950 => Fp8Flavour::Ocp,
        }
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Arch {
    type Err = crate::Error;

    fn from_str(name: &str) -> crate::Result<Arch> {
        Arch::ALL
            .into_iter()
            .find(|arch| arch.name() == name)
            .ok_or_else(|| crate::Error::UnknownArch { name: name.to_owned() })
    }
}
