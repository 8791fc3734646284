//! The GPU architectures kernels are compiled for.

use core::fmt;

/// A GPU architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Target {
    /// CDNA2: MI200.
    Gfx90a,
    /// CDNA3: MI300.
    Gfx942,
    /// CDNA4: MI350.
    Gfx950,
    /// RDNA3.
    Gfx1100,
    /// RDNA4.
    Gfx1201,
}

impl Target {
    /// Every target, in the order of the enum.
    pub const ALL: [Self; 5] =
        [Self::Gfx90a, Self::Gfx942, Self::Gfx950, Self::Gfx1100, Self::Gfx1201];

    /// The name compilers and drivers use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gfx90a => "gfx90a",
            Self::Gfx942 => "gfx942",
            Self::Gfx950 => "gfx950",
            Self::Gfx1100 => "gfx1100",
            Self::Gfx1201 => "gfx1201",
        }
    }

    /// The target of that name, feature suffixes (`:sramecc+:xnack-`) ignored.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let base = name.split(':').next()?;
        Self::ALL.into_iter().find(|target| target.name() == base)
    }

    /// Whether the preshuffle kernel's matrix instructions exist: CDNA3 and CDNA4.
    #[must_use]
    pub const fn has_preshuffle(self) -> bool {
        matches!(self, Self::Gfx942 | Self::Gfx950)
    }

    /// The oldest LLVM that compiles the kernels for this target.
    ///
    /// 19 brought the buffer builtins, 20 gfx950.
    #[must_use]
    pub const fn oldest_llvm(self) -> u32 {
        match self {
            Self::Gfx950 => 20,
            Self::Gfx90a | Self::Gfx942 | Self::Gfx1100 | Self::Gfx1201 => 19,
        }
    }

    /// Bytes of LDS one workgroup may use (LLVM's `getAddressableLocalMemorySize`).
    #[must_use]
    pub const fn lds_bytes(self) -> u32 {
        match self {
            Self::Gfx950 => 160 * 1024,
            Self::Gfx90a | Self::Gfx942 | Self::Gfx1100 | Self::Gfx1201 => 64 * 1024,
        }
    }

    /// Lanes of a wave.
    #[must_use]
    pub const fn wave(self) -> u32 {
        match self {
            Self::Gfx90a | Self::Gfx942 | Self::Gfx950 => 64,
            Self::Gfx1100 | Self::Gfx1201 => 32,
        }
    }
}

#[cfg(feature = "emulator")]
impl From<lapidary_cdna::Arch> for Target {
    fn from(arch: lapidary_cdna::Arch) -> Self {
        match arch {
            lapidary_cdna::Arch::Gfx942 => Self::Gfx942,
            lapidary_cdna::Arch::Gfx950 => Self::Gfx950,
        }
    }
}

/// A name that is no target's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown architecture {name:?}: kernels are compiled for {}",
    Target::ALL.map(Target::name).join(", ")
)]
#[non_exhaustive]
pub struct UnknownTarget {
    /// The name.
    pub name: String,
}

impl core::str::FromStr for Target {
    type Err = UnknownTarget;

    /// As [`from_name`](Self::from_name), with an error that lists the names there are.
    fn from_str(name: &str) -> Result<Self, UnknownTarget> {
        Self::from_name(name).ok_or_else(|| UnknownTarget { name: name.to_owned() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_features_are_ignored() {
        for target in Target::ALL {
            assert_eq!(Target::from_name(target.name()), Some(target));
        }
        assert_eq!(Target::from_name("gfx942:sramecc+:xnack-"), Some(Target::Gfx942));
        assert_eq!(Target::from_name("gfx9420"), None);
        assert_eq!("gfx950".parse(), Ok(Target::Gfx950));
        let error = "gfx1250".parse::<Target>().expect_err("no target of ours").to_string();
        assert!(error.contains("\"gfx1250\"") && error.contains("gfx942, gfx950"), "{error}");
    }
}
