//! Which pairs of policies the kernels' text can say.

use lapidary_core::policy::{KernelConfig, Multiply, Staging, Strip, TileAction};
use lapidary_core::{ElementType, Error};

/// Refuses arithmetic that WGSL has no words for: CDNA's matrix instructions, and tiles of anything but
/// the accumulator's type, which is what they hold here but for cooperative matrices.
pub(super) fn check_arithmetic(config: &KernelConfig, name: &str) -> Result<(), Error> {
    let compute = &config.compute;
    let reason = if compute.multiply.is_matrix() {
        format!(
            "its compute policy {} multiplies on the matrix cores of CDNA, which WGSL cannot reach",
            compute.name
        )
    } else if compute.element != compute.accumulator
        && compute.multiply != Multiply::CooperativeMatrix
    {
        format!(
            "its compute policy reads tiles of {}, the ones here hold its accumulator's type, {}",
            compute.element, compute.accumulator
        )
    } else {
        return Ok(());
    };
    Err(Error::KernelUnsuitable { kernel: name.to_owned(), reason })
}

/// Refuses what the text of the generic kernel cannot say: it copies strips whole, knows t in
/// `prefetch` alone, has no tiles to load where they are left out, and no padding in those it has.
pub(super) fn check_scalar(config: &KernelConfig, name: &str) -> Result<(), Error> {
    let tile = &config.tile;
    let unsuitable = |reason| Error::KernelUnsuitable { kernel: name.to_owned(), reason };
    if let Some(reason) = groups_along_k(config) {
        return Err(unsuitable(reason));
    }
    if config.compute.k_step != 1 {
        return Err(unsuitable(format!(
            "its compute policy multiplies one step along K at a time, K_STEP is {}",
            config.compute.k_step
        )));
    }
    if tile.pad != 0 {
        return Err(unsuitable(format!(
            "its compute policy reads tiles without padding, PAD is {}",
            tile.pad
        )));
    }
    let tiles = tile.staging == Staging::Workgroup;
    for (hook, actions) in [
        ("prologue", tile.prologue),
        ("prefetch", tile.prefetch),
        ("acquire", tile.acquire),
        ("release", tile.release),
    ] {
        let sayable = |action: &&TileAction| match action {
            TileAction::Barrier => true,
            TileAction::Load(Strip::First) => tiles && matches!(hook, "prologue" | "prefetch"),
            TileAction::Load(_) => tiles && hook == "prefetch",
            _ => false,
        };
        if let Some(action) = actions.iter().find(|action| !sayable(action)) {
            return Err(unsuitable(format!(
                "its compute policy takes barriers anywhere, and whole strips loaded to workgroup \
                 memory in prefetch or, the first, in prologue; not {action:?} in {hook}"
            )));
        }
    }
    Ok(())
}

/// Refuses what the text of the vector kernel cannot say: it has one pair of tiles in workgroup
/// memory, and multiplies a strip at a time.
pub(super) fn check_vector(config: &KernelConfig, name: &str) -> Result<(), Error> {
    let tile = &config.tile;
    let reason = if let Some(reason) = groups_along_k(config) {
        reason
    } else if tile.num_buffers != 1 {
        format!("its compute policy reads one pair of tiles, NUM_BUFFERS is {}", tile.num_buffers)
    } else if tile.staging != Staging::Workgroup {
        "its compute policy reads tiles, and the tile policy has none".to_owned()
    } else if config.compute.k_step != own_step(config) {
        format!(
            "its compute policy multiplies {} steps along K at a time, K_STEP is {}",
            own_step(config),
            config.compute.k_step
        )
    } else if !tile.k_tile_size.is_multiple_of(4 * own_step(config)) {
        format!(
            "it fetches four steps of {} along K at once, K_TILE_SIZE is {}",
            own_step(config),
            tile.k_tile_size
        )
    } else {
        return check_vector_hooks(config, name);
    };
    Err(Error::KernelUnsuitable { kernel: name.to_owned(), reason })
}

/// Why the text of a kernel whose threads all sum all of K cannot say a tile policy.
fn groups_along_k(config: &KernelConfig) -> Option<String> {
    let groups = config.tile.k_groups;
    (groups != 1).then(|| format!("all its threads sum all of K, K_GROUPS is {groups}"))
}

/// Refuses what the text of the split kernel cannot say: it has no tiles and so no hooks.
pub(super) fn check_split(config: &KernelConfig, name: &str) -> Result<(), Error> {
    let tile = &config.tile;
    let hooks = [tile.prologue, tile.prefetch, tile.acquire, tile.release];
    let reason = if hooks.iter().any(|actions| !actions.is_empty()) {
        "it has no tiles, and the tile policy's hooks fill some".to_owned()
    } else if tile.pad != 0 {
        format!("it has no tiles to pad, PAD is {}", tile.pad)
    } else if tile.k_tile_size != 4 * tile.k_groups {
        format!(
            "each group takes four steps along K in turn, K_TILE_SIZE is {} with {} groups",
            tile.k_tile_size, tile.k_groups
        )
    } else {
        return Ok(());
    };
    Err(Error::KernelUnsuitable { kernel: name.to_owned(), reason })
}

/// Steps along K that the vector kernel's instruction multiplies.
const fn own_step(config: &KernelConfig) -> usize {
    if let Multiply::VectorDot4 = config.compute.multiply { 4 } else { 1 }
}

/// Refuses what the text of the cooperative kernel cannot say in subgroups of `lanes`: the same, with
/// tiles of matrices, and rows that start at whole vectors of eight f16.
pub(super) fn check_cooperative(
    config: &KernelConfig,
    lanes: usize,
    name: &str,
) -> Result<(), Error> {
    let tile = &config.tile;
    let threads = config.workgroup_threads() / config.compute.effective_lanes.max(1) * lanes;
    let lines = [tile.k_tile_size / 8, tile.block_tile_n / 8];
    let chunks = [tile.block_tile_m * lines[0], tile.k_tile_size * lines[1]];
    let reason = if let Some(reason) = groups_along_k(config) {
        reason
    } else if tile.num_buffers != 1 || tile.staging != Staging::Workgroup {
        "its compute policy reads one pair of tiles in workgroup memory".to_owned()
    } else if config.compute.k_step != 16 || config.compute.effective_lanes != 32 {
        format!(
            "its compute policy multiplies 16 steps in 32 lanes, K_STEP is {}, EFFECTIVE_LANES {}",
            config.compute.k_step, config.compute.effective_lanes
        )
    } else if ![ElementType::F32, ElementType::F16].contains(&config.compute.accumulator) {
        format!("matrix units sum in f32 or f16, not in {}", config.compute.accumulator)
    } else if tile.pad != 4 {
        format!("its tiles are padded by 16 bytes a line, PAD is {} elements of 4", tile.pad)
    } else if let Some(chunks) = chunks.into_iter().find(|c| !c.is_multiple_of(threads)) {
        format!("{threads} threads do not share a tile of {chunks} vectors evenly")
    } else if let Some(line) = lines.into_iter().find(|line| !threads.is_multiple_of(*line)) {
        format!("{threads} threads do not load whole lines of {line} vectors")
    } else {
        return check_vector_hooks(config, name);
    };
    Err(Error::KernelUnsuitable { kernel: name.to_owned(), reason })
}

/// In `prologue` there is no strip t yet.
fn check_vector_hooks(config: &KernelConfig, name: &str) -> Result<(), Error> {
    let early = |action: &&TileAction| {
        matches!(
            action,
            TileAction::Load(Strip::Current | Strip::Next)
                | TileAction::Fetch(Strip::Current | Strip::Next)
                | TileAction::Commit(Strip::Current | Strip::Next)
        )
    };
    match config.tile.prologue.iter().find(early) {
        None => Ok(()),
        Some(action) => Err(Error::KernelUnsuitable {
            kernel: name.to_owned(),
            reason: format!(
                "before the loop there is only the first strip; not {action:?} in prologue"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapidary_core::policy::{
        CooperativeMatrix, DirectSplit, RegisterPrefetch, ScalarFma, SoftwareDoubleBuffer,
        TileOrder, TilePolicy, VectorFma,
    };

    /// A policy with one action in one hook.
    struct Prefetching<const ACTION: usize>;

    const ACTIONS: [&[TileAction]; 3] = [
        &[TileAction::Load(Strip::Current)],
        &[TileAction::Fetch(Strip::Current)],
        &[TileAction::Commit(Strip::Next)],
    ];

    impl<const ACTION: usize> TilePolicy for Prefetching<ACTION> {
        const NAME: &'static str = "prefetching";
        const NUM_BUFFERS: usize = 1;
        const BLOCK_TILE_M: usize = 16;
        const BLOCK_TILE_N: usize = 16;
        const K_TILE_SIZE: usize = 4;

        fn prologue() -> &'static [TileAction] {
            &[]
        }
        fn prefetch() -> &'static [TileAction] {
            ACTIONS[ACTION]
        }
        fn acquire() -> &'static [TileAction] {
            &[TileAction::Barrier]
        }
        fn release() -> &'static [TileAction] {
            &[TileAction::Barrier]
        }
    }

    #[test]
    fn actions_without_a_text_are_refused() {
        let check = |config: KernelConfig| check_scalar(&config, "test");
        assert!(check(KernelConfig::of::<Prefetching<0>, ScalarFma<4, 4>>()).is_ok());
        for (config, text) in [
            (KernelConfig::of::<Prefetching<1>, ScalarFma<4, 4>>(), "Fetch(Current) in prefetch"),
            (KernelConfig::of::<Prefetching<2>, ScalarFma<4, 4>>(), "Commit(Next) in prefetch"),
        ] {
            let error = check(config).expect_err("there is no text for it").to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    /// Two pairs of k-major tiles, which the vector kernel does not have.
    struct TwoPairs;

    impl TilePolicy for TwoPairs {
        const NAME: &'static str = "two pairs";
        const NUM_BUFFERS: usize = 2;
        const BLOCK_TILE_M: usize = 64;
        const BLOCK_TILE_N: usize = 64;
        const K_TILE_SIZE: usize = 16;
        const ORDER: TileOrder = TileOrder::KOuter;

        fn prologue() -> &'static [TileAction] {
            SoftwareDoubleBuffer::<64, 64, 16>::prologue()
        }
        fn prefetch() -> &'static [TileAction] {
            SoftwareDoubleBuffer::<64, 64, 16>::prefetch()
        }
        fn acquire() -> &'static [TileAction] {
            &[]
        }
        fn release() -> &'static [TileAction] {
            &[TileAction::Barrier]
        }
    }

    #[test]
    fn the_vector_kernel_has_one_pair_of_tiles() {
        let own = KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorFma<8, 8>>();
        assert!(check_vector(&own, "test").is_ok());
        let error = check_vector(&KernelConfig::of::<TwoPairs, VectorFma<8, 8>>(), "test")
            .expect_err("there is one pair")
            .to_string();
        assert!(error.contains("NUM_BUFFERS is 2"), "{error}");
    }

    /// Each thread of a cooperative kernel loads the same part of several lines.
    #[test]
    fn threads_load_whole_lines_of_the_tiles() {
        let tall = KernelConfig::of::<RegisterPrefetch<64, 64, 32>, CooperativeMatrix<32, 32>>();
        for lanes in [8, 16, 32] {
            assert!(check_cooperative(&tall, lanes, "test").is_ok(), "{lanes}");
        }
        let long = KernelConfig::of::<RegisterPrefetch<16, 512, 64>, CooperativeMatrix<16, 512>>();
        let error = check_cooperative(&long, 32, "test").expect_err("a line has 64").to_string();
        assert!(error.contains("32 threads do not load whole lines of 64"), "{error}");
    }

    /// Groups along K for a kernel that has tiles.
    struct Grouped;

    impl TilePolicy for Grouped {
        const NAME: &'static str = "grouped";
        const NUM_BUFFERS: usize = 1;
        const BLOCK_TILE_M: usize = 64;
        const BLOCK_TILE_N: usize = 64;
        const K_TILE_SIZE: usize = 16;
        const ORDER: TileOrder = TileOrder::KOuter;
        const K_GROUPS: usize = 2;

        fn prologue() -> &'static [TileAction] {
            RegisterPrefetch::<64, 64, 16>::prologue()
        }
        fn prefetch() -> &'static [TileAction] {
            RegisterPrefetch::<64, 64, 16>::prefetch()
        }
        fn acquire() -> &'static [TileAction] {
            &[]
        }
        fn release() -> &'static [TileAction] {
            RegisterPrefetch::<64, 64, 16>::release()
        }
    }

    #[test]
    fn groups_and_tiles_exclude_each_other() {
        let grouped = KernelConfig::of::<Grouped, VectorFma<8, 8>>();
        let error = check_vector(&grouped, "test").expect_err("it has one group").to_string();
        assert!(error.contains("K_GROUPS is 2"), "{error}");
        let error = check_split(&grouped, "test").expect_err("it has no tiles").to_string();
        assert!(error.contains("hooks fill some"), "{error}");
        let own = KernelConfig::of::<DirectSplit<32, 32, 8>, VectorFma<4, 4>>();
        assert!(check_split(&own, "test").is_ok());
        let mut other = own;
        other.tile.k_tile_size = 16;
        let error = check_split(&other, "test").expect_err("not a turn of all").to_string();
        assert!(error.contains("K_TILE_SIZE is 16 with 8 groups"), "{error}");
    }
}
