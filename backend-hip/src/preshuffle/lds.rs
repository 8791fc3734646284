//! LDS bank conflicts: the published phases of each instruction, and the swizzle of A's strip.
//!
//! The 64 lanes of a 128-bit LDS access are served in phases. Within a phase, two lanes that need
//! different words of one bank cost an extra cycle; across phases nothing conflicts.

use crate::target::Target;

/// A 128-bit LDS instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// `ds_read_b128`.
    Read128,
    /// `ds_write_b128`.
    Write128,
}

/// The banks an access sees, and the lanes served together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Phases {
    /// Banks of one 32-bit word.
    pub banks: usize,
    /// The lanes of each phase.
    pub lanes: Vec<Vec<usize>>,
}

impl Phases {
    /// The published phases of an access, or `None` for targets without published ones.
    ///
    /// - gfx942 reads: AMD's Composable Kernel documentation (`lds_bank_conflicts`); 32 banks, eight
    ///   phases of eight lanes {0-3, 20-23}, {4-7, 16-19}, {8-11, 28-31}, {12-15, 24-27} and the same
    ///   of the upper half-wave.
    /// - gfx950 reads: measured by HipKittens' phase solver; 64 banks, four phases of sixteen lanes
    ///   {0-3, 12-15, 20-27}, {4-11, 16-19, 28-31} and the same of the upper half-wave.
    /// - Writes: eight consecutive lanes on 32 banks (Composable Kernel, for gfx942). For 128-bit
    ///   writes of gfx950 nothing is published; the same is assumed.
    #[must_use]
    pub fn published(target: Target, access: Access) -> Option<Self> {
        match (target, access) {
            (Target::Gfx942, Access::Read128) => Some(Self::halves(
                32,
                &[&[0..4, 20..24], &[4..8, 16..20], &[8..12, 28..32], &[12..16, 24..28]],
            )),
            (Target::Gfx950, Access::Read128) => {
                Some(Self::halves(64, &[&[0..4, 12..16, 20..28], &[4..12, 16..20, 28..32]]))
            }
            (Target::Gfx942 | Target::Gfx950, Access::Write128) => Some(Self::consecutive(32, 8)),
            (Target::Gfx90a | Target::Gfx1100 | Target::Gfx1201, _) => None,
        }
    }

    /// Phases of `width` consecutive lanes.
    #[must_use]
    pub fn consecutive(banks: usize, width: usize) -> Self {
        Self {
            banks,
            lanes: (0..64 / width).map(|i| (i * width..(i + 1) * width).collect()).collect(),
        }
    }

    fn halves(banks: usize, phases: &[&[core::ops::Range<usize>]]) -> Self {
        let lanes = [0, 32]
            .iter()
            .flat_map(|half| {
                phases.iter().map(move |ranges| {
                    ranges.iter().cloned().flatten().map(|lane| lane + half).collect()
                })
            })
            .collect();
        Self { banks, lanes }
    }
}

/// Cycles that bank conflicts add to one access of 16 bytes a lane at `address(lane)`.
#[must_use]
pub fn conflict_cycles(phases: &Phases, address: impl Fn(usize) -> usize) -> usize {
    phases
        .lanes
        .iter()
        .map(|lanes| {
            let mut words = vec![Vec::new(); phases.banks];
            for &lane in lanes {
                for dword in 0..4 {
                    let word = address(lane) / 4 + dword;
                    let bank = &mut words[word % phases.banks];
                    if !bank.contains(&word) {
                        bank.push(word);
                    }
                }
            }
            words.iter().map(Vec::len).max().unwrap_or(0).saturating_sub(1)
        })
        .sum()
}

/// Where chunk `chunk` of row `row` lies in a row of `chunks` 16-byte chunks; `chunks` is a power of
/// two. `chunk_address` of `preshuffle/a_strip.h` in Rust.
///
/// A new place every row, or, where several rows fit one sweep of 32 banks, every `8 / chunks` rows.
#[must_use]
pub const fn swizzled_chunk(row: usize, chunk: usize, chunks: usize) -> usize {
    let shared = if chunks >= 8 { 1 } else { 8 / chunks };
    chunk ^ ((row / shared) % chunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of 64 bytes to 1 KiB: every strip the kernel accepts within LDS.
    const CHUNKS: [usize; 5] = [4, 8, 16, 32, 64];

    fn all_phases(access: Access) -> Vec<Phases> {
        let mut all: Vec<_> = [Target::Gfx942, Target::Gfx950]
            .iter()
            .filter_map(|&target| Phases::published(target, access))
            .collect();
        // Where the literature models contiguous lanes instead.
        all.push(Phases::consecutive(32, 8));
        if access == Access::Write128 {
            all.push(Phases::consecutive(64, 16));
        }
        all
    }

    /// Cycles lost by all reads of a wave from a strip of 64 rows.
    fn reads(phases: &Phases, chunks: usize, place: impl Fn(usize, usize) -> usize) -> usize {
        let mut cycles = 0;
        for block in 0..chunks / 4 {
            for first_row in (0..64).step_by(16) {
                cycles += conflict_cycles(phases, |lane| {
                    let row = first_row + lane % 16;
                    (row * chunks + place(row, block * 4 + lane / 16)) * 16
                });
            }
        }
        cycles
    }

    /// Cycles lost by all writes of four waves that copy 512 chunks, lanes along a row first.
    fn writes(phases: &Phases, chunks: usize, place: impl Fn(usize, usize) -> usize) -> usize {
        (0..8)
            .map(|wave| {
                conflict_cycles(phases, |lane| {
                    let id = wave * 64 + lane;
                    let (row, chunk) = (id / chunks, id % chunks);
                    (row * chunks + place(row, chunk)) * 16
                })
            })
            .sum()
    }

    #[test]
    fn the_swizzle_has_no_conflict_at_any_strip() {
        for chunks in CHUNKS {
            let place = |row, chunk| swizzled_chunk(row, chunk, chunks);
            for phases in all_phases(Access::Read128) {
                assert_eq!(reads(&phases, chunks, place), 0, "read {chunks} {}", phases.banks);
            }
            for phases in all_phases(Access::Write128) {
                assert_eq!(writes(&phases, chunks, place), 0, "write {chunks} {}", phases.banks);
            }
        }
    }

    #[test]
    fn stepping_every_row_conflicts_at_64_bytes_on_gfx950() {
        let phases = Phases::published(Target::Gfx950, Access::Read128).expect("published");
        assert!(reads(&phases, 4, |row, chunk| chunk ^ (row % 4)) > 0);
    }

    #[test]
    fn no_swizzle_and_a_fixed_one_conflict() {
        let phases = Phases::published(Target::Gfx942, Access::Read128).expect("published");
        assert!(reads(&phases, 8, |_, chunk| chunk) > 0);
        let contiguous = Phases::consecutive(32, 8);
        // Steps in units of two chunks, as a fixed element swizzle does on longer rows.
        assert!(reads(&contiguous, 16, |row, chunk| chunk ^ (row % 8 * 2 % 16)) > 0);
    }

    #[test]
    fn a_strip_is_permuted_within_its_rows() {
        for chunks in CHUNKS {
            for row in 0..128 {
                let mut places: Vec<_> =
                    (0..chunks).map(|chunk| swizzled_chunk(row, chunk, chunks)).collect();
                places.sort_unstable();
                assert_eq!(places, (0..chunks).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn phases_serve_every_lane_once() {
        for access in [Access::Read128, Access::Write128] {
            for phases in all_phases(access) {
                let mut lanes: Vec<_> = phases.lanes.concat();
                lanes.sort_unstable();
                assert_eq!(lanes, (0..64).collect::<Vec<_>>());
            }
        }
    }
}
