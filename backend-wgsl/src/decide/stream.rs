//! All blocks of C shared evenly by a fixed number of workgroups.
//!
//! Slices of K make as many workgroups as there are blocks times slices, which may fill a device's last
//! round badly. Here the strips of all blocks are one sequence, block after block, and each workgroup
//! takes a run of equal length from it:
//!
//! ```text
//! block      0               1               2
//! strips     0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7
//! workgroup  └─── 0 ───┘└─── 1 ───┘└─── 2 ───┘└─── 3 ───┘└── …
//! ```
//!
//! A run may begin and end inside a block. What a workgroup sums of a block is one part of it, numbered
//! from the block's first workgroup on; another pass adds a block's parts up in that order. Which
//! workgroup computes what, and so every rounding, follows from the sizes alone.

/// A sequence of strips and how it is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stream {
    /// Strips along K of a block.
    pub strips: u32,
    /// Strips of a workgroup's run.
    pub run: u32,
}

/// What the pass that adds up sums needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Parts {
    /// The most sums that an output has.
    pub most: u32,
    /// How many it has where that depends on its block, and the block's rows and columns.
    pub stream: Option<(Stream, [u32; 2])>,
}

impl From<u32> for Parts {
    /// The same number for every output.
    fn from(most: u32) -> Self {
        Self { most, stream: None }
    }
}

impl Stream {
    /// Shares `blocks` blocks of `strips` strips among at most `workgroups` workgroups. `None` where
    /// every block would be of one part, or the strips cannot be counted in 32 bits.
    pub(super) fn of(blocks: usize, strips: usize, workgroups: usize) -> Option<Self> {
        let all = blocks.checked_mul(strips).filter(|all| *all <= u32::MAX as usize / 2)?;
        let run = all.div_ceil(workgroups.max(1));
        let stream = Self { strips: strips as u32, run: run as u32 };
        (strips > 1 && run > 0 && !run.is_multiple_of(strips)).then_some(stream)
    }

    /// Workgroups that share `blocks` blocks.
    pub(super) fn workgroups(self, blocks: u64) -> u64 {
        (blocks * u64::from(self.strips)).div_ceil(u64::from(self.run))
    }

    /// The most parts that a block has, wherever it begins.
    pub(super) const fn most_parts(self) -> u32 {
        (self.strips + self.run - 2) / self.run + 1
    }

    /// Parts of a block.
    #[cfg(test)]
    const fn parts(self, block: u32) -> u32 {
        let (first, last) = (block * self.strips, (block + 1) * self.strips - 1);
        last / self.run - first / self.run + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows every workgroup through its run, as the kernel does.
    #[test]
    fn every_strip_is_taken_once_and_every_part_has_its_number() {
        let mut streams = 0;
        for blocks in 1..12usize {
            for strips in 1..14usize {
                for workgroups in 1..30 {
                    let Some(stream) = Stream::of(blocks, strips, workgroups) else { continue };
                    streams += 1;
                    let all = blocks as u32 * stream.strips;
                    let count = stream.workgroups(blocks as u64) as u32;
                    assert!(count as usize <= workgroups, "{stream:?}");
                    let mut taken = vec![0; all as usize];
                    let mut parts = vec![Vec::new(); blocks];
                    for workgroup in 0..count {
                        let mut unit = workgroup * stream.run;
                        let end = (unit + stream.run).min(all);
                        assert!(unit < end, "nobody is idle");
                        while unit < end {
                            let block = unit / stream.strips;
                            let next = ((block + 1) * stream.strips).min(end);
                            parts[block as usize]
                                .push(workgroup - block * stream.strips / stream.run);
                            taken[unit as usize..next as usize].iter_mut().for_each(|t| *t += 1);
                            unit = next;
                        }
                    }
                    assert!(taken.iter().all(|&times| times == 1), "{stream:?}");
                    for (block, parts) in parts.into_iter().enumerate() {
                        let expected = stream.parts(block as u32);
                        assert_eq!(parts, (0..expected).collect::<Vec<_>>(), "{stream:?} {block}");
                        assert!(expected <= stream.most_parts());
                    }
                }
            }
        }
        assert!(streams > 1000);
    }

    #[test]
    fn whole_blocks_are_no_stream() {
        assert_eq!(Stream::of(8, 16, 8), None);
        assert_eq!(Stream::of(8, 16, 4), None);
        assert_eq!(Stream::of(8, 1, 3), None);
        assert_eq!(Stream::of(usize::MAX, 2, 3), None);
        assert_eq!(Stream::of(8, 16, 5), Some(Stream { strips: 16, run: 26 }));
    }
}
