//! How many waves of a kernel a SIMD of CDNA holds, and what keeps it from holding more.

use core::fmt;

use super::Resources;
use crate::target::Target;

/// Waves a SIMD can hold whatever they need (LLVM's `getMaxWavesPerEU` for gfx90a and later).
const MAX_WAVES: u32 = 8;
/// SIMDs of a compute unit.
const SIMDS: u32 = 4;
/// Vector registers of a SIMD's lanes, accumulation registers included, and the granule they are handed
/// out in (LLVM's `getTotalNumVGPRs` and `getVGPRAllocGranule`).
const VGPRS: u32 = 512;
const VGPR_GRANULE: u32 = 8;
/// Scalar registers of a SIMD, and their granule.
const SGPRS: u32 = 800;
const SGPR_GRANULE: u32 = 16;

/// A resource that limits occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// The hardware's own maximum of 8.
    Waves,
    /// Vector registers.
    Vgprs,
    /// Scalar registers.
    Sgprs,
    /// LDS.
    Lds,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Waves => "the hardware's maximum",
            Self::Vgprs => "vector registers",
            Self::Sgprs => "scalar registers",
            Self::Lds => "LDS",
        })
    }
}

/// Waves a SIMD can hold by each resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// By vector registers.
    pub vgprs: u32,
    /// By scalar registers.
    pub sgprs: u32,
    /// By LDS: a workgroup's waves are spread over the four SIMDs of its compute unit.
    pub lds: u32,
}

impl Occupancy {
    /// The occupancy of a kernel in workgroups of `threads`; `None` on targets other than CDNA, whose
    /// register files are others.
    #[must_use]
    pub const fn of(target: Target, resources: &Resources, threads: u32) -> Option<Self> {
        // LDS of a compute unit and its granule: 128 dwords, 320 on gfx950.
        let (lds, granule): (u32, u32) = match target {
            Target::Gfx90a | Target::Gfx942 => (64 * 1024, 512),
            Target::Gfx950 => (160 * 1024, 1280),
            Target::Gfx1100 | Target::Gfx1201 => return None,
        };
        let waves = threads.div_ceil(target.wave());
        let by_lds = match u32::checked_div(lds, resources.lds.next_multiple_of(granule)) {
            Some(workgroups) => at_least_one(workgroups.saturating_mul(waves) / SIMDS),
            None => MAX_WAVES,
        };
        Some(Self {
            vgprs: share(VGPRS, resources.vgprs, VGPR_GRANULE),
            sgprs: share(SGPRS, resources.sgprs, SGPR_GRANULE),
            lds: by_lds,
        })
    }

    /// Waves a SIMD holds.
    #[must_use]
    pub fn waves(&self) -> u32 {
        MAX_WAVES.min(self.vgprs).min(self.sgprs).min(self.lds)
    }

    /// What keeps it from holding more; of two that bind alike, vector registers before LDS.
    #[must_use]
    pub fn limit(&self) -> Limit {
        let waves = self.waves();
        [(MAX_WAVES, Limit::Waves), (self.vgprs, Limit::Vgprs), (self.lds, Limit::Lds)]
            .into_iter()
            .find(|(by, _)| *by == waves)
            .map_or(Limit::Sgprs, |(_, limit)| limit)
    }
}

const fn at_least_one(waves: u32) -> u32 {
    if waves == 0 {
        1
    } else if waves > MAX_WAVES {
        MAX_WAVES
    } else {
        waves
    }
}

/// Waves that get their registers out of `all`.
const fn share(all: u32, needed: u32, granule: u32) -> u32 {
    match all.checked_div(needed.next_multiple_of(granule)) {
        Some(waves) if waves < MAX_WAVES => waves,
        _ => MAX_WAVES,
    }
}

impl Resources {
    /// Waves that the registers let a SIMD of CDNA3 or CDNA4 hold: 512 registers, handed out in
    /// eights, at most eight waves.
    #[must_use]
    pub const fn waves_per_simd(&self) -> u32 {
        share(VGPRS, self.vgprs, VGPR_GRANULE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_come_in_eights() {
        let waves = |vgprs| Resources { vgprs, ..Resources::default() }.waves_per_simd();
        // 170 registers are granted as 176, of which 512 hold two.
        assert_eq!(
            [0, 64, 72, 96, 128, 168, 170, 256, 512].map(waves),
            [8, 8, 7, 5, 4, 3, 2, 2, 1]
        );
    }

    #[test]
    fn the_scarcest_resource_binds() {
        let of = |target, vgprs, lds, threads| {
            let resources = Resources { vgprs, lds, sgprs: 50, ..Resources::default() };
            let occupancy = Occupancy::of(target, &resources, threads).expect("CDNA");
            (occupancy.waves(), occupancy.limit())
        };
        assert_eq!(of(Target::Gfx942, 40, 0, 256), (8, Limit::Waves));
        assert_eq!(of(Target::Gfx942, 166, 16384, 256), (3, Limit::Vgprs));
        // Four workgroups of 16 KiB share 64 KiB, ten share 160 KiB.
        assert_eq!(of(Target::Gfx942, 40, 16384, 256), (4, Limit::Lds));
        assert_eq!(of(Target::Gfx950, 40, 16384, 256), (8, Limit::Waves));
        // 163,840 / 33,280: granules of 1280 bytes leave room for four.
        assert_eq!(of(Target::Gfx950, 40, 32768, 256), (4, Limit::Lds));
        assert_eq!(of(Target::Gfx942, 40, 65536, 64), (1, Limit::Lds));
        let scalar = Resources { sgprs: 112, ..Resources::default() };
        let scalar = Occupancy::of(Target::Gfx942, &scalar, 64).expect("CDNA");
        assert_eq!((scalar.waves(), scalar.limit()), (7, Limit::Sgprs));
        assert_eq!(Occupancy::of(Target::Gfx1100, &Resources::default(), 64), None);
    }
}
