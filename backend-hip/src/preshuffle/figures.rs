//! What a configuration amounts to for a problem, in numbers: work, memory instructions, registers.

use super::config::{ACopy, PreshuffleConfig, THREADS};
use crate::target::Target;

/// Lanes of a wave, and waves of a workgroup.
const WAVE: usize = 64;
const WAVES: usize = THREADS / WAVE;
/// Bytes a lane moves with the widest access.
const CHUNK: usize = 16;

/// Figures of a problem with a configuration. Counts of instructions are those of one wave for one strip
/// of K, without block scales; registers are those of a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// Tiles along M and along N.
    pub grid: [usize; 2],
    /// Strips of K, the last one filled up.
    pub strips: usize,
    /// Matrix instructions.
    pub mfma: usize,
    /// Reads of A's fragments from LDS, 16 bytes a lane.
    pub lds_reads: usize,
    /// Writes of A to LDS, 16 bytes a lane; none where loads go to LDS themselves.
    pub lds_writes: usize,
    /// Loads of A, to registers or to LDS.
    pub loads_a: usize,
    /// Loads of B to registers, 16 bytes a lane.
    pub loads_b: usize,
    /// Bytes of one strip of A in LDS.
    pub strip_bytes: usize,
    /// Bytes of the strips of A in LDS, all stages.
    pub strips_bytes: usize,
    /// Registers that hold sums.
    pub accumulators: usize,
    /// Registers that hold one strip of B; another is on its way.
    pub b_registers: usize,
    /// Registers that A passes through on its way to LDS.
    pub staged: usize,
    /// Operations of the product: 2·M·N·K a matrix.
    pub operations: f64,
    /// Bytes of A, B, C, row scales and column scales (f32), each once.
    pub bytes: f64,
}

impl Figures {
    /// The figures for M×N×K.
    #[must_use]
    pub fn of(config: &PreshuffleConfig, [m, n, k]: [usize; 3]) -> Self {
        let [tile_m, tile_n, tile_k] = config.tile;
        let strip_bytes = tile_m * config.row_bytes();
        let a_load_bytes = match (config.copy, config.target) {
            (ACopy::Direct, Target::Gfx950) | (ACopy::Synchronous, _) => CHUNK,
            (ACopy::Direct, _) => 4,
            (ACopy::Guarded, _) => (config.a.bits() / 8).max(1),
        };
        let through_registers = if config.copy == ACopy::Direct { 0 } else { strip_bytes };
        let columns = tile_n / WAVES;
        let scales = |wanted: bool, count: usize| if wanted { 4.0 * count as f64 } else { 0.0 };
        let matrix = |rows: usize, columns: usize, bits: usize| {
            rows as f64 * columns as f64 * bits as f64 / 8.0
        };
        Self {
            grid: [m.div_ceil(tile_m), n.div_ceil(tile_n)],
            strips: k.div_ceil(tile_k),
            mfma: config.mfma_per_strip(),
            lds_reads: strip_bytes / (WAVE * CHUNK),
            lds_writes: through_registers / (THREADS * CHUNK),
            loads_a: strip_bytes / (THREADS * a_load_bytes),
            loads_b: columns * config.column_bytes() / (WAVE * CHUNK),
            strip_bytes,
            strips_bytes: config.lds_stage * strip_bytes,
            accumulators: tile_m * columns / WAVE,
            b_registers: columns * config.column_bytes() / WAVE / 4,
            staged: through_registers / THREADS / 4,
            operations: 2.0 * m as f64 * n as f64 * k as f64,
            bytes: matrix(m, k, config.a.bits())
                + matrix(n, k, config.b.bits())
                + matrix(m, n, config.output.bits())
                + scales(config.epilogue.row_scale, m)
                + scales(config.epilogue.col_scale, n),
        }
    }

    /// Tiles, each a workgroup's.
    #[must_use]
    pub const fn tiles(&self) -> usize {
        self.grid[0] * self.grid[1]
    }

    /// Matrix instructions a wave executes for its tile. A workgroup has four waves.
    #[must_use]
    pub const fn mfma_a_wave(&self) -> usize {
        self.strips * self.mfma
    }

    /// Operations a byte, with every byte moved once.
    #[must_use]
    pub fn intensity(&self) -> f64 {
        self.operations / self.bytes
    }

    /// Seconds the product takes at so many operations a second.
    #[must_use]
    pub fn seconds_at(&self, operations_a_second: f64) -> f64 {
        self.operations / operations_a_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapidary_core::ElementType;

    #[test]
    fn nothing_is_counted_twice() {
        let config = PreshuffleConfig::new(Target::Gfx942, ElementType::F16, [32, 128, 64]);
        let figures = Figures::of(&config, [33, 130, 65]);
        assert_eq!((figures.grid, figures.tiles(), figures.strips), ([2, 2], 4, 2));
        // 32 rows of 128 bytes: 4 KiB for four waves to write once, and for each to read whole.
        assert_eq!((figures.strip_bytes, figures.strips_bytes), (4096, 8192));
        assert_eq!((figures.lds_reads, figures.lds_writes, figures.loads_a), (4, 1, 1));
        // 32 columns of 128 bytes a wave.
        assert_eq!((figures.loads_b, figures.b_registers), (4, 16));
        assert_eq!((figures.accumulators, figures.staged), (16, 4));
        assert_eq!(figures.mfma_a_wave(), 2 * config.mfma_per_strip());
        assert_eq!(figures.bytes, (2 * 33 * 65 + 2 * 130 * 65 + 4 * 33 * 130) as f64);
        let direct = PreshuffleConfig { copy: ACopy::Direct, ..config };
        let figures = Figures::of(&direct, [33, 130, 65]);
        assert_eq!((figures.lds_writes, figures.loads_a, figures.staged), (0, 4, 0));
    }
}
