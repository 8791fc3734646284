//! Data movement: tile shape, buffering and load width.

/// Which strip of K a load fetches, relative to loop iteration t.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strip {
    /// Strip 0.
    First,
    /// Strip t.
    Current,
    /// Strip t + 1; nothing past the last strip.
    Next,
}

/// One thing a hook of a [`TilePolicy`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TileAction {
    /// The workgroup's threads together copy a strip of A and of B into buffer
    /// `strip % NUM_BUFFERS`; elements outside the matrices become 0.
    Load(Strip),
    /// The same copy in two halves, so that arithmetic can run between them. First half: from global
    /// memory to registers.
    Fetch(Strip),
    /// Second half: from registers to buffer `strip % NUM_BUFFERS`.
    Commit(Strip),
    /// Every thread of the workgroup waits for the others, and their workgroup-memory writes.
    Barrier,
}

/// Which index runs fastest in a tile in workgroup memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TileOrder {
    /// A row of A, or column of B, after the other; k runs fastest.
    KInner,
    /// A step along K after the other; the row of A, or column of B, runs fastest. A vector read
    /// gives one thread several of its outputs' factors.
    KOuter,
}

/// Where the fragments of A and B come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Staging {
    /// Through tiles in workgroup memory.
    Workgroup,
    /// By the shortest way a backend has: straight from global memory to registers (WGSL), or from
    /// global memory to tiles past the registers (HIP on CDNA).
    Direct,
}

/// Data movement of a tiled kernel. Sizes are in elements.
pub trait TilePolicy: 'static {
    /// The name used in plans.
    const NAME: &'static str;
    /// Pairs of tiles in workgroup memory: 1, or 2 to load one strip while another is multiplied.
    const NUM_BUFFERS: usize;
    /// Rows of C one workgroup computes.
    const BLOCK_TILE_M: usize;
    /// Columns of C one workgroup computes.
    const BLOCK_TILE_N: usize;
    /// Length of a strip along K.
    const K_TILE_SIZE: usize;
    /// Elements of A, adjacent along K, that one load instruction fetches: 1, 2 or 4.
    const LOAD_WIDTH: usize = 1;
    /// Where fragments come from.
    const STAGING: Staging = Staging::Workgroup;
    /// The order of a tile's elements.
    const ORDER: TileOrder = TileOrder::KInner;
    /// Elements between one line of a tile and the next that hold nothing, so that lines start in
    /// different banks.
    const PAD: usize = 0;
    /// Groups of threads that each compute the whole block from their own steps along K, and add up at
    /// the end.
    const K_GROUPS: usize = 1;

    /// Before the loop over strips.
    fn prologue() -> &'static [TileAction];
    /// At the top of iteration t.
    fn prefetch() -> &'static [TileAction];
    /// Before strip t is read.
    fn acquire() -> &'static [TileAction];
    /// After strip t was read.
    fn release() -> &'static [TileAction];
    /// The buffer that strip `t` lives in.
    #[must_use]
    fn buf_idx(t: usize) -> usize {
        t % Self::NUM_BUFFERS
    }
}

/// One pair of tiles: load, barrier, multiply, barrier.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct SingleBuffer<const BM: usize, const BN: usize, const KT: usize, const W: usize = 1>;

impl<const BM: usize, const BN: usize, const KT: usize, const W: usize> TilePolicy
    for SingleBuffer<BM, BN, KT, W>
{
    const NAME: &'static str = "single-buffer";
    const NUM_BUFFERS: usize = 1;
    const BLOCK_TILE_M: usize = BM;
    const BLOCK_TILE_N: usize = BN;
    const K_TILE_SIZE: usize = KT;
    const LOAD_WIDTH: usize = W;

    fn prologue() -> &'static [TileAction] {
        &[]
    }
    fn prefetch() -> &'static [TileAction] {
        &[TileAction::Load(Strip::Current)]
    }
    fn acquire() -> &'static [TileAction] {
        &[TileAction::Barrier]
    }
    fn release() -> &'static [TileAction] {
        &[TileAction::Barrier]
    }
}

/// Two pairs of tiles: strip t + 1 is loaded while strip t is multiplied, one barrier a strip.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct SoftwareDoubleBuffer<
    const BM: usize,
    const BN: usize,
    const KT: usize,
    const W: usize = 1,
>;

impl<const BM: usize, const BN: usize, const KT: usize, const W: usize> TilePolicy
    for SoftwareDoubleBuffer<BM, BN, KT, W>
{
    const NAME: &'static str = "double-buffer";
    const NUM_BUFFERS: usize = 2;
    const BLOCK_TILE_M: usize = BM;
    const BLOCK_TILE_N: usize = BN;
    const K_TILE_SIZE: usize = KT;
    const LOAD_WIDTH: usize = W;

    fn prologue() -> &'static [TileAction] {
        &[TileAction::Load(Strip::First), TileAction::Barrier]
    }
    fn prefetch() -> &'static [TileAction] {
        &[TileAction::Load(Strip::Next)]
    }
    fn acquire() -> &'static [TileAction] {
        &[]
    }
    fn release() -> &'static [TileAction] {
        &[TileAction::Barrier]
    }
}

/// The shortest way to the fragments. In WGSL there are no tiles: every thread reads its fragments from
/// global memory, the caches do the sharing, and the hooks have nothing to do. On CDNA the loads fill
/// one pair of tiles in workgroup memory without passing through registers, between the barriers of
/// [`SingleBuffer`].
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct DirectLoad<const BM: usize, const BN: usize, const KT: usize>;

impl<const BM: usize, const BN: usize, const KT: usize> TilePolicy for DirectLoad<BM, BN, KT> {
    const NAME: &'static str = "direct-load";
    const NUM_BUFFERS: usize = 1;
    const BLOCK_TILE_M: usize = BM;
    const BLOCK_TILE_N: usize = BN;
    const K_TILE_SIZE: usize = KT;
    const STAGING: Staging = Staging::Direct;

    fn prologue() -> &'static [TileAction] {
        &[]
    }
    fn prefetch() -> &'static [TileAction] {
        &[]
    }
    fn acquire() -> &'static [TileAction] {
        &[]
    }
    fn release() -> &'static [TileAction] {
        &[]
    }
}

/// One pair of tiles, and the next strip already on its way into registers: its loads run under the
/// arithmetic of the current one. Lines of a tile are a step along K, padded by one vector.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct RegisterPrefetch<const BM: usize, const BN: usize, const KT: usize>;

impl<const BM: usize, const BN: usize, const KT: usize> TilePolicy
    for RegisterPrefetch<BM, BN, KT>
{
    const NAME: &'static str = "register-prefetch";
    const NUM_BUFFERS: usize = 1;
    const BLOCK_TILE_M: usize = BM;
    const BLOCK_TILE_N: usize = BN;
    const K_TILE_SIZE: usize = KT;
    const LOAD_WIDTH: usize = 4;
    const ORDER: TileOrder = TileOrder::KOuter;
    const PAD: usize = 4;

    fn prologue() -> &'static [TileAction] {
        &[TileAction::Fetch(Strip::First), TileAction::Commit(Strip::First), TileAction::Barrier]
    }
    fn prefetch() -> &'static [TileAction] {
        &[TileAction::Fetch(Strip::Next)]
    }
    fn acquire() -> &'static [TileAction] {
        &[]
    }
    fn release() -> &'static [TileAction] {
        &[TileAction::Barrier, TileAction::Commit(Strip::Next), TileAction::Barrier]
    }
}

/// No tiles, and K shared out: `GROUPS` groups of threads each take every `GROUPS`-th quad of steps
/// along K straight from global memory, and add up through workgroup memory. Nobody waits for anybody
/// before the end, which is what small matrices want.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "a zero-sized policy tag")]
pub struct DirectSplit<const BM: usize, const BN: usize, const GROUPS: usize>;

impl<const BM: usize, const BN: usize, const GROUPS: usize> TilePolicy
    for DirectSplit<BM, BN, GROUPS>
{
    const NAME: &'static str = "direct-split";
    const NUM_BUFFERS: usize = 1;
    const BLOCK_TILE_M: usize = BM;
    const BLOCK_TILE_N: usize = BN;
    const K_TILE_SIZE: usize = 4 * GROUPS;
    const LOAD_WIDTH: usize = 4;
    const STAGING: Staging = Staging::Direct;
    const ORDER: TileOrder = TileOrder::KOuter;
    const K_GROUPS: usize = GROUPS;

    fn prologue() -> &'static [TileAction] {
        &[]
    }
    fn prefetch() -> &'static [TileAction] {
        &[]
    }
    fn acquire() -> &'static [TileAction] {
        &[]
    }
    fn release() -> &'static [TileAction] {
        &[]
    }
}
