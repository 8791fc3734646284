//! A kernel with every size fixed.

use lapidary_core::policy::{KernelConfig, Multiply, RegisterPrefetch, Staging, VectorFma};
use lapidary_core::{Activation, ElementType, KernelChoice, Layout, Problem};

use super::copies::Operands;
use super::fetch::{Fetch, Lines};
use super::stream::Stream;

/// Which shader file the kernel's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Body {
    /// `1_naive.wgsl`
    Naive,
    /// `2_workgroup_tile.wgsl`
    WorkgroupTile,
    /// `3_register_tile.wgsl`
    RegisterTile,
    /// `4_buffered.wgsl` with one of `tile/single_buffer.wgsl` and `tile/double_buffer.wgsl`
    Buffered,
    /// `5_vectorized.wgsl`
    Vectorized,
    /// `6_occupancy.wgsl`
    Occupancy,
    /// `7_generic.wgsl` with the text of a pair of policies
    Generic,
    /// The written-out vector kernel, for policies that compute in vectors
    Vector,
    /// The kernel of policies that compute in cooperative matrices
    Cooperative,
    /// The kernel for few rows or few columns
    Skinny,
    /// The kernel whose groups of threads share out K
    Split,
}

impl Body {
    /// Whether the text is written out in Rust, with loads and loops of its own.
    #[must_use]
    pub const fn is_written_out(self) -> bool {
        matches!(self, Self::Vector | Self::Cooperative | Self::Skinny | Self::Split)
    }
}

/// The skinny kernel's own sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Skinny {
    /// Whether C has few rows, not few columns.
    pub few_rows: bool,
    /// How many.
    pub few: u32,
    /// Threads of a workgroup.
    pub threads: u32,
    /// How threads share the other operand.
    pub team: Team,
}

impl Skinny {
    /// Whether a thread stores neighbours of a row.
    const fn stores_rows(&self) -> bool {
        self.few_rows && matches!(self.team, Team::Across { .. })
    }
}

/// How the skinny kernel's threads share the operand with many lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Team {
    /// Neighbouring lines are neighbours in memory.
    Across {
        /// Threads side by side, of four lines each.
        lanes: u32,
        /// Groups of them, which take turns along K.
        groups: u32,
        /// Groups that share a subgroup, which adds them up: 1 without subgroups.
        together: u32,
    },
    /// Neighbouring steps along K are neighbours in memory.
    Along {
        /// Threads of a team, which take turns along K.
        threads: u32,
        /// Lines of a team.
        lines: u32,
        /// Whether a team is a subgroup and adds up by its reduction.
        subgroup: bool,
    },
}

/// What matrix units a cooperative kernel is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MatrixUnits {
    /// Rows, columns and steps along K of a matrix: 16 or 8.
    pub side: u32,
    /// Lanes of a subgroup, which share one.
    pub lanes: u32,
}

impl MatrixUnits {
    /// Those of most GPUs, and of the policies' own count.
    const USUAL: Self = Self { side: 16, lanes: 32 };
}

impl Default for MatrixUnits {
    fn default() -> Self {
        Self::USUAL
    }
}

/// Sizes and strides that are written into a kernel's text instead of being read from its
/// parameters: the compiler folds them into the addresses, which saves the registers they take.
///
/// Strides are 32-bit two's complement, as in the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Sizes {
    /// Steps along K.
    pub k: u32,
    /// Whether whole blocks cover M.
    pub whole_m: bool,
    /// Whether whole blocks cover N.
    pub whole_n: bool,
    /// Row, column and batch stride of A.
    pub a: [u32; 3],
    /// Row, column and batch stride of B.
    pub b: [u32; 3],
    /// Row, column and batch stride of C.
    pub c: [u32; 3],
    /// Columns of C, where no dispatch has fewer.
    pub n: Option<u32>,
}

/// K cut into slices, each summed by workgroups of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Slices {
    /// How many.
    pub count: u32,
    /// Steps along K of each but the last, whole strips.
    pub k: u32,
    /// The sequence of strips that workgroups share, where blocks are not cut alike; `count` is then
    /// the most parts of a block, and `k` the longest.
    pub stream: Option<Stream>,
}

/// A kernel with every size fixed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Kernel {
    /// The name a plan reports.
    pub name: String,
    /// The shader file.
    pub body: Body,
    /// Rows and columns of C a workgroup computes.
    pub block: [u32; 2],
    /// Rows and columns of C a thread computes.
    pub thread: [u32; 2],
    /// Length of a strip along K, 0 where there are no strips.
    pub k_tile: u32,
    /// Pairs of tiles in workgroup memory, 0 where there are none.
    pub num_buffers: u32,
    /// How A is fetched.
    pub a: Fetch,
    /// How B is fetched.
    pub b: Fetch,
    /// Elements of C a store writes: 1, or 4 where they are neighbours in a row; 16 where
    /// cooperative matrices are stored whole.
    pub store_width: u32,
    /// The policies, for kernels that are made from them.
    pub config: Option<KernelConfig>,
    /// The matrix units of a [`Body::Cooperative`].
    pub units: Option<MatrixUnits>,
    /// What is written into the text.
    pub sizes: Option<Sizes>,
    /// How K is cut, if it is.
    pub slices: Option<Slices>,
    /// The sizes of a [`Body::Skinny`].
    pub skinny: Option<Skinny>,
}

impl Kernel {
    /// Threads of a workgroup.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        if let Some(skinny) = &self.skinny {
            return skinny.threads;
        }
        let groups = match &self.config {
            Some(config) => config.tile.k_groups as u32,
            None => 1,
        };
        (self.block[0] / self.thread[0]) * (self.block[1] / self.thread[1]) * groups
    }

    /// Bytes of workgroup memory.
    #[must_use]
    pub fn workgroup_bytes(&self) -> usize {
        if let Some(skinny) = &self.skinny {
            return match skinny.team {
                Team::Across { lanes, groups, together } => {
                    (lanes * groups / together * 16) as usize
                }
                Team::Along { subgroup: true, .. } => 0,
                Team::Along { .. } => (skinny.threads * 4) as usize,
            };
        }
        let tiles = match &self.config {
            Some(config) => config.workgroup_bytes(),
            // Tiles hold 32-bit elements whatever the operands are stored as.
            None => (self.num_buffers * (self.block[0] + self.block[1]) * self.k_tile * 4) as usize,
        };
        match self.body {
            // What its place in a tile does not hold.
            Body::Cooperative if self.sums_in_f16() => {
                let [tile, stage] = [self.line_a() * self.block[0], self.stage_f16()];
                tiles + 2 * (stage.saturating_sub(tile)) as usize
            }
            // Where a matrix of each subgroup's sums waits for the epilogue.
            Body::Cooperative if !self.stores_directly() => {
                let side = self.matrix_units().side;
                tiles + (self.subgroups() * side * side * 4) as usize
            }
            _ => tiles,
        }
    }

    /// Whether a cooperative kernel's sums are f16.
    #[must_use]
    pub const fn sums_in_f16(&self) -> bool {
        matches!(&self.config, Some(config)
            if matches!(config.compute.accumulator, ElementType::F16))
    }

    /// Elements from one line of a cooperative kernel's tile of A to the next.
    const fn line_a(&self) -> u32 {
        self.k_tile + 8
    }

    /// Matrices side by side that a subgroup passes through workgroup memory at once: of f16 sums, whose
    /// place is the tile of A, as many as that has room for; of f32 sums one.
    pub(crate) fn staged_matrices(&self) -> u32 {
        if !self.sums_in_f16() {
            return 1;
        }
        let cols = self.fragments()[1];
        let side = self.matrix_units().side;
        let line = self.line_a() * self.block[0] / self.subgroups() / side;
        let room = (line.saturating_sub(8) / side).clamp(1, cols);
        (1..=room).rev().find(|count| cols.is_multiple_of(*count)).unwrap_or(1)
    }

    /// Elements of the lines of so many matrices of f16, of every subgroup. Lines are padded as a tile's are.
    pub(crate) fn stage_f16(&self) -> u32 {
        let side = self.matrix_units().side;
        self.subgroups() * side * (self.staged_matrices() * side + 8)
    }

    /// Slices that K is cut into.
    #[must_use]
    pub const fn slice_count(&self) -> u32 {
        match self.slices {
            Some(slices) => slices.count,
            None => 1,
        }
    }

    /// Whether words of four i8 are what the kernel multiplies.
    #[must_use]
    pub fn packs_quads(&self) -> bool {
        self.config.is_some_and(|config| config.compute.multiply == Multiply::VectorDot4)
    }

    /// Whether a cooperative kernel's sums go straight from its matrices to memory.
    #[must_use]
    pub const fn stores_directly(&self) -> bool {
        self.store_width == 16
    }

    /// The matrix units a cooperative kernel is for.
    pub(crate) const fn matrix_units(&self) -> MatrixUnits {
        match self.units {
            Some(units) => units,
            None => MatrixUnits::USUAL,
        }
    }

    /// Subgroups of a cooperative kernel's workgroup.
    pub(crate) const fn subgroups(&self) -> u32 {
        self.threads() / self.matrix_units().lanes
    }

    /// Rows and columns of a subgroup's tile.
    pub(crate) const fn subgroup_tile(&self) -> [u32; 2] {
        [self.thread[0], self.thread[1] * self.matrix_units().lanes]
    }

    /// Matrices in a subgroup's tile, along M and N.
    pub(crate) const fn fragments(&self) -> [u32; 2] {
        let ([rows, cols], side) = (self.subgroup_tile(), self.matrix_units().side);
        [rows / side, cols / side]
    }

    /// Products of matrices that a subgroup's strip is written out to.
    pub(super) fn matrix_products(&self) -> usize {
        let ([rows, cols], side) = (self.fragments(), self.matrix_units().side);
        (rows * cols * (self.k_tile / side)) as usize
    }

    /// The kernel for operands whose first elements do not allow this one's loads: the same with scalar
    /// loads, where the caller left the width to the backend; on plain f32 arithmetic instead of
    /// cooperative matrices.
    #[must_use]
    pub(super) fn scalar_fallback(&self, choice: KernelChoice) -> Option<Self> {
        if self.body == Body::Cooperative {
            let config = KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorFma<8, 8>>();
            let plain = Self::tiled(KernelChoice::Policy(config).name(), Body::Vector, config);
            // A slice of whole strips of this kernel is one of whole strips of 16.
            return Some(Self { slices: self.slices, ..plain });
        }
        let insists = matches!(choice, KernelChoice::Vectorized { .. } | KernelChoice::Policy(_))
            && !self.body.is_written_out();
        (self.a.width > 1 && !insists)
            .then(|| Self { a: Fetch { width: 1, ..self.a }, ..self.clone() })
    }

    /// The same kernel for operands read by these strides, where the first elements and buffer ends
    /// of A, B and C allow vectors or do not.
    pub(crate) fn reading(self, operands: &Operands, batch: usize, aligned: [bool; 3]) -> Self {
        if self.body == Body::Cooperative && self.store_width == 4 && !aligned[2] {
            return Self { store_width: 1, ..self };
        }
        if !matches!(self.body, Body::Vector | Body::Skinny | Body::Split) {
            return self;
        }
        let sizes = self.sizes.map(|sizes| Sizes {
            a: strides(operands.a.layout, batch),
            b: strides(operands.b.layout, batch),
            ..sizes
        });
        Self {
            a: Fetch::of(Lines::of_a(operands.a.layout, batch), aligned[0]),
            b: Fetch::of(Lines::of_b(operands.b.layout, batch), aligned[1]),
            store_width: if aligned[2] { self.store_width } else { 1 },
            sizes,
            ..self
        }
    }

    /// The same kernel with what does not change between executions written into its text. `narrow` says
    /// whether it may store elements that share words, four at a time.
    pub(super) fn specialised(self, problem: &Problem, operands: &Operands, narrow: bool) -> Self {
        let sizes = Sizes {
            k: operands.k as u32,
            whole_m: problem.m.is_multiple_of(self.block[0] as usize),
            whole_n: problem.n.is_multiple_of(self.block[1] as usize),
            a: strides(operands.a.layout, problem.batch),
            b: strides(operands.b.layout, problem.batch),
            c: strides(problem.c_layout, problem.batch),
            n: None,
        };
        let wide = problem.c.size() == 4;
        let quads = has_quads(problem);
        // Sums are stored row-major without gaps.
        let sums = self.slices.is_some() || !(wide || (narrow && quads));
        let vectors = if sums { problem.n.is_multiple_of(4) } else { quads };
        let matrices = sums || (wide && is_plain(problem));
        let whole = sizes.whole_m && sizes.whole_n;
        let rows = self.skinny.is_some_and(|skinny| skinny.stores_rows());
        let store_width = match self.body {
            Body::Cooperative if whole && vectors && matrices && !self.sums_in_f16() => 16,
            Body::Vector | Body::Split | Body::Cooperative if vectors => 4,
            Body::Skinny if vectors && rows => 4,
            _ => 1,
        };
        Self { sizes: Some(sizes), store_width, ..self }.reading(operands, problem.batch, [true; 3])
    }

    /// The same kernel knowing that every dispatch has all of C's `n` columns.
    pub(super) fn full_width(self, n: usize) -> Self {
        Self { sizes: self.sizes.map(|sizes| Sizes { n: Some(n as u32), ..sizes }), ..self }
    }

    /// The same kernel with K cut into at most `wanted` slices of whole strips.
    pub(super) fn sliced(self, k: usize, wanted: usize) -> Self {
        let strip = self.k_tile as usize;
        let strips = k.div_ceil(strip);
        let each = strips.div_ceil(wanted.max(1)).max(1);
        let count = strips.div_ceil(each);
        let slices = (count > 1).then_some(Slices {
            count: count as u32,
            k: (each * strip) as u32,
            stream: None,
        });
        Self { slices, ..self }
    }

    /// The same kernel with all blocks of `problem` shared evenly by `workgroups` workgroups.
    pub(super) fn streamed(self, problem: &Problem, k: usize, workgroups: usize) -> Self {
        let [rows, cols] = self.block.map(|side| side as usize);
        let blocks = problem.m.div_ceil(rows).saturating_mul(problem.n.div_ceil(cols));
        let strip = self.k_tile as usize;
        let blocks = blocks.saturating_mul(problem.batch);
        let slices = Stream::of(blocks, k.div_ceil(strip), workgroups).map(|stream| Slices {
            count: stream.most_parts(),
            k: stream.run.min(stream.strips) * self.k_tile,
            stream: Some(stream),
        });
        Self { slices, ..self }
    }

    /// Iterations of all loops of a thread that sums over `k`, those of eight steps and fewer not
    /// counted: drivers write them out.
    pub(super) fn loop_iterations(&self, k: usize) -> usize {
        // The test that ends an inner loop counts as one.
        let copies = |lines: u32, width: u32| {
            1 + (lines * self.k_tile / width).div_ceil(self.threads()) as usize
        };
        let inner = match self.body {
            Body::Naive => 0,
            body if body.is_written_out() => 0,
            Body::WorkgroupTile => 1 + self.k_tile as usize,
            _ if self.num_buffers == 0 => 1 + self.k_tile as usize,
            _ => {
                1 + self.k_tile as usize
                    + copies(self.block[0], self.a.width)
                    + copies(self.block[1], self.b.width)
            }
        };
        let k = self.slices.map_or(k, |slices| slices.k as usize);
        k.div_ceil(self.k_tile.max(1) as usize).saturating_mul(1 + inner)
    }

    /// The cooperative kernel of a pair of policies, whose lanes share as many outputs as theirs do.
    pub(super) fn cooperative(name: String, config: KernelConfig, units: MatrixUnits) -> Self {
        let kernel = Self::tiled(name, Body::Cooperative, config);
        let [rows, cols] = kernel.thread;
        let lanes = config.compute.effective_lanes as u32;
        let thread = [rows, cols * lanes / units.lanes];
        Self { thread, units: Some(units), ..kernel }
    }

    /// A kernel of this body with a pair of policies' sizes.
    pub(super) fn tiled(name: String, body: Body, config: KernelConfig) -> Self {
        let (tile, compute) = (config.tile, config.compute);
        let direct = tile.staging == Staging::Direct;
        let cooperative = matches!(body, Body::Cooperative);
        let of_policies = matches!(body, Body::Generic) || body.is_written_out();
        Self {
            name,
            body,
            block: [tile.block_tile_m as u32, tile.block_tile_n as u32],
            thread: [compute.thread_tile_m as u32, compute.thread_tile_n as u32],
            // Words of four count as one step.
            k_tile: match compute.multiply {
                Multiply::VectorDot4 => tile.k_tile_size as u32 / 4,
                _ => tile.k_tile_size as u32,
            },
            num_buffers: if direct { 0 } else { tile.num_buffers as u32 },
            a: if cooperative {
                Fetch { along_k: true, width: 8 }
            } else {
                Fetch { along_k: true, width: tile.load_width as u32 }
            },
            b: if cooperative { Fetch { along_k: false, width: 8 } } else { Fetch::SCALAR },
            store_width: 1,
            config: of_policies.then_some(config),
            units: None,
            sizes: None,
            slices: None,
            skinny: None,
        }
    }
}

/// Whether every row of C is whole vectors of four elements, if its first element starts one.
pub(super) fn has_quads(problem: &Problem) -> bool {
    let lines = Lines::of_a(problem.c_layout, problem.batch);
    problem.n.is_multiple_of(4) && lines.allows(true, 4)
}

/// Whether C is the product and nothing else.
fn is_plain(problem: &Problem) -> bool {
    let scaled = problem.row_scale || problem.col_scale;
    let nothing_after = !problem.bias && !scaled && problem.activation == Activation::None;
    problem.alpha == 1.0 && !problem.reads_c() && nothing_after
}

/// Row, column and batch stride as the shaders count: modulo 2³², and none between matrices where
/// there is one.
const fn strides(layout: Layout, batch: usize) -> [u32; 3] {
    let between = if batch > 1 { layout.batch_stride as u32 } else { 0 };
    [layout.row_stride as u32, layout.col_stride as u32, between]
}

/// The type of tiles and registers where products are summed in `accumulator`.
#[must_use]
pub(crate) const fn register_type(accumulator: ElementType) -> &'static str {
    match accumulator {
        ElementType::I32 => "i32",
        _ => "f32",
    }
}
