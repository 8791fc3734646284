//! The combinatorial families: kernel × element types × epilogue × shape class × layout.
//!
//! A kernel is compiled for its types and epilogue, so those three are combined pairwise into *builds*,
//! and each build is run on several of the shape × layout combinations, which cost no compilation. The
//! combinations are walked with a stride that shares no factor with their number, so that every one is
//! met, by another build each time.

use std::collections::HashSet;

use lapidary_core::random::Random;
use lapidary_core::testing::Arrangement;
use lapidary_core::{Activation, ElementType, KernelChoice};

use crate::adapter::{Adapter, Expectation, Outline, Types};
use crate::shapes::{self, ShapeClass};
use crate::spec::{Route, Spec, Tag};

/// A spec and the kernel to run it with.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "a spec and a kernel")]
pub struct Item {
    /// What to compute.
    pub spec: Spec,
    /// The kernel asked for.
    pub kernel: KernelChoice,
}

impl Item {
    /// What makes it distinct from others of its backend.
    #[must_use]
    pub fn class(&self) -> String {
        format!("{} {}", self.kernel.name(), self.spec.class())
    }
}

/// Layouts of A, B and C that are met together.
const LAYOUTS: [[Arrangement; 3]; 17] = {
    use Arrangement as A;
    [
        [A::Dense, A::Dense, A::Dense],
        [A::Aligned, A::Aligned, A::Aligned],
        [A::ColMajor, A::RowMajor, A::Padded],
        [A::RowMajor, A::ColMajor, A::RowMajor],
        [A::ColMajor, A::ColMajor, A::ColMajor],
        [A::Padded, A::PaddedColMajor, A::PaddedColMajor],
        [A::Spread, A::Padded, A::Spread],
        [A::ReversedRows, A::ReversedCols, A::ReversedRows],
        [A::ReversedCols, A::ReversedRows, A::ReversedCols],
        [A::RepeatedRow, A::Dense, A::Aligned],
        [A::Aligned, A::RepeatedRow, A::Padded],
        [A::PaddedColMajor, A::Spread, A::Aligned],
        [A::Aligned, A::ColMajor, A::ColMajor],
        [A::SharedBatch, A::Dense, A::InterleavedBatch],
        [A::UnalignedBatch, A::SharedBatch, A::UnalignedBatch],
        [A::ReversedBatch, A::InterleavedBatch, A::ReversedBatch],
        [A::InterleavedBatch, A::ReversedBatch, A::Aligned],
    ]
};

/// Pieces of K and copies of A and B that are asked for in turn where a kernel has them.
const WAYS: [(Option<usize>, Option<[bool; 2]>); 6] = [
    (None, None),
    (Some(2), None),
    (None, Some([true, false])),
    (Some(3), Some([true, true])),
    (None, Some([false, true])),
    (Some(4), Some([false, false])),
];

/// Epilogues: alpha, beta, bias, scales of rows and columns, activation.
const EPILOGUES: [(f64, f64, bool, bool, Activation); 11] = {
    use Activation as A;
    [
        (1.0, 0.0, false, false, A::None),
        (0.5, -1.5, true, false, A::Relu),
        (-2.0, 1.0, false, false, A::None),
        (1.5, 0.0, false, false, A::None),
        (0.0, 0.5, true, false, A::Relu),
        (1.0, 0.0, true, false, A::Silu),
        (1.0, 0.0, true, false, A::GeluTanh),
        (0.5, 1.0, false, false, A::GeluErf),
        (1.0, 0.0, false, true, A::None),
        (0.5, 2.0, true, true, A::Relu),
        (0.0, 0.0, false, false, A::None),
    ]
};

/// Sets epilogue number `index`; false if these types have no such thing.
fn set_epilogue(spec: &mut Spec, index: usize, has_scales: bool) -> bool {
    let (alpha, beta, bias, scales, activation) = EPILOGUES[index];
    let integer = spec.types[2] == ElementType::I32;
    let smooth = !matches!(activation, Activation::None | Activation::Relu);
    let scalar_f32 = spec.problem().bias_element() == ElementType::F32;
    if (integer && smooth) || (scales && !(has_scales && scalar_f32)) {
        return false;
    }
    // Integers where the output is i32.
    let whole = |x: f64| if integer && x.fract() != 0.0 { 2.0 * x } else { x };
    (spec.alpha, spec.beta, spec.bias) = (whole(alpha), whole(beta), bias);
    (spec.row_scale, spec.col_scale, spec.activation) = (scales, scales, activation);
    true
}

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Build {
    types: Types,
    kernel: KernelChoice,
    epilogue: usize,
}

/// Builds such that every kernel meets every combination of types that it has and every epilogue, and
/// every combination of types meets every epilogue, then more of them at random up to `at_least`.
///
/// Greedy: of some random candidates that cover an uncovered pair, one with the most that was not met
/// at all, then one whose program is compiled already, then the one that covers most.
fn builds(adapter: &dyn Adapter, at_least: usize, random: &mut Random) -> Vec<Build> {
    let mut all = Vec::new();
    for types in adapter.types() {
        for kernel in adapter.kernels(types) {
            for epilogue in 0..EPILOGUES.len() {
                let mut spec = Spec::new("build", "build", [1, 1, 32]);
                spec.set_types(types);
                let has_epilogue = set_epilogue(&mut spec, epilogue, adapter.has_scales());
                // Without a product every kernel is the same one.
                if has_epilogue && (spec.alpha != 0.0 || kernel == KernelChoice::Auto) {
                    all.push(Build { types, kernel, epilogue });
                }
            }
        }
    }
    let pairs = |build: &Build| {
        let (types, kernel) = (format!("{:?}", build.types), build.kernel.name());
        let epilogue = build.epilogue.to_string();
        [
            format!("{types}|{kernel}"),
            format!("{types}||{epilogue}"),
            format!("{kernel}|||{epilogue}"),
        ]
    };
    let program = |build: &Build| {
        let mut spec = Spec::new("build", "build", [1, 1, 32]);
        spec.set_types(build.types);
        set_epilogue(&mut spec, build.epilogue, adapter.has_scales());
        adapter.program(&build.kernel, &spec)
    };
    let singles = |build: &Build| {
        [format!("{:?}", build.types), build.kernel.name(), build.epilogue.to_string()]
    };
    let mut programs = HashSet::new();
    let mut unseen: HashSet<String> = all.iter().flat_map(singles).collect();
    let mut uncovered: HashSet<String> = all.iter().flat_map(pairs).collect();
    let mut chosen = Vec::new();
    while !all.is_empty() && (!uncovered.is_empty() || chosen.len() < at_least) {
        let candidates: Vec<usize> =
            (0..24.min(all.len())).map(|_| random.below(all.len())).collect();
        let news = |index: &usize| {
            pairs(&all[*index]).iter().filter(|pair| uncovered.contains(*pair)).count()
        };
        let score = |index: &usize| {
            let news = news(index);
            let unseen = singles(&all[*index]).iter().filter(|x| unseen.contains(*x)).count();
            (news.min(1), unseen, programs.contains(&program(&all[*index])), news)
        };
        let Some(best) = candidates.into_iter().max_by_key(score) else { break };
        let best = match (news(&best), uncovered.is_empty()) {
            // Nothing new among them: take the first build that has an uncovered pair.
            (0, false) => (0..all.len()).find(|index| news(index) > 0).unwrap_or(best),
            _ => best,
        };
        let build = all.swap_remove(best);
        programs.insert(program(&build));
        for single in singles(&build) {
            unseen.remove(&single);
        }
        for pair in pairs(&build) {
            uncovered.remove(&pair);
        }
        chosen.push(build);
    }
    chosen
}

/// `count` distinct items for an adapter, `per_build` for each build; fewer only if there are no more.
///
/// The same list for the same seed. Items whose product is larger than the adapter's reach are left
/// out.
#[must_use]
pub fn generate(adapter: &dyn Adapter, count: usize, per_build: usize, seed: u64) -> Vec<Item> {
    let mut random = Random::new(seed);
    let builds = builds(adapter, count.div_ceil(per_build.max(1)), &mut random);
    let total = ShapeClass::ALL.len() * LAYOUTS.len();
    let mut items: Vec<Item> = Vec::with_capacity(count);
    let mut seen = HashSet::new();
    let mut turn = 0;
    // A round gives every build `per_build` items; the first covers all builds.
    while items.len() < count && turn < 64 * builds.len().max(1) {
        let build = builds[turn % builds.len()];
        let way = match adapter.has_ways(&build.kernel) {
            true => WAYS[turn % WAYS.len()],
            false => WAYS[0],
        };
        // Where a layout is compiled for, a build has one of them and all shapes.
        let layout = turn * 5 % LAYOUTS.len();
        let places = |index: usize| match adapter.compiles_for_layouts() {
            true => layout * ShapeClass::ALL.len() + index * 5 % ShapeClass::ALL.len(),
            false => index * 89 % total,
        };
        for _ in 0..per_build {
            let place = places(items.len());
            // A combination that cannot be had makes room for the next one.
            let item = (0..total).find_map(|skip| {
                let place = match adapter.compiles_for_layouts() {
                    true => {
                        place / ShapeClass::ALL.len() * ShapeClass::ALL.len()
                            + (place + skip) % ShapeClass::ALL.len()
                    }
                    false => (place + skip) % total,
                };
                let item = compose(adapter, build, way, place, items.len())?;
                seen.insert(item.class()).then_some(item)
            });
            items.extend(item);
            if items.len() == count {
                return items;
            }
        }
        turn += 1;
    }
    items
}

/// Build `build` at shape and layout number `place`; `None` if it cannot be had.
fn compose(
    adapter: &dyn Adapter,
    build: Build,
    way: (Option<usize>, Option<[bool; 2]>),
    place: usize,
    index: usize,
) -> Option<Item> {
    let class = ShapeClass::ALL[place % ShapeClass::ALL.len()];
    let layouts = LAYOUTS[place / ShapeClass::ALL.len()];
    let nothing = matches!(class, ShapeClass::Empty | ShapeClass::NoProduct);
    if nothing && build.kernel != KernelChoice::Auto {
        return None;
    }
    let written_out = adapter.has_ways(&build.kernel) || build.kernel == KernelChoice::Auto;
    let route = match index % 10 {
        1 | 6 if written_out && !nothing => Route::Specialised,
        3 => Route::Packed,
        5 => Route::Pieces,
        7 if build.kernel == KernelChoice::Auto => Route::Host,
        9 => Route::Streamed,
        _ => Route::Device,
    };
    let route = if adapter.routes().contains(&route) { route } else { Route::Device };
    if route.is_cut() && nothing {
        return None;
    }
    let of_class = class.shapes(build.types.in_blocks());
    let reach = adapter.reach();
    let fits =
        |shape: &[usize; 3]| shape.iter().map(|&x| x.max(1) as f64).product::<f64>() <= reach;
    let of_class: Vec<_> = of_class.into_iter().filter(fits).collect();
    let shape = *of_class.get(index % of_class.len().max(1))?;
    let mut spec = Spec::new(String::new(), "pairwise", shape);
    spec.set_types(build.types);
    spec.layouts = layouts;
    spec.route = route;
    if route.is_cut() {
        let cut = match route {
            Route::Pieces => shapes::in_pieces().to_vec(),
            _ => shapes::streamed(spec.types[0].size()).to_vec(),
        };
        // The next shape with each of its turns, and where one cannot be had.
        (spec.batch, spec.shape) = cut[(index / 10 + place) % cut.len()];
        if build.types.in_blocks() {
            spec.shape[2] = spec.shape[2].next_multiple_of(32);
        }
    } else {
        (spec.k_slices, spec.copies) = way;
    }
    if !set_epilogue(&mut spec, build.epilogue, adapter.has_scales()) {
        return None;
    }
    let size = shape.iter().map(|&x| x.max(1) as f64).product::<f64>();
    let of_batches = layouts.into_iter().any(Arrangement::is_of_batches);
    if (of_batches || index % 4 == 1) && size * 3.0 <= reach.min(1e6) && !route.is_cut() {
        spec.batch = 2 + index / 4 % 2;
    }
    // Of the layouts a kernel refuses one in eight is kept, to see the refusal; for the others A moves
    // to where any kernel can read it.
    let refused = |spec: &Spec| {
        Outline::of_spec(spec).is_ok_and(|outline| {
            !matches!(adapter.expect(&build.kernel, &outline, spec.route), Expectation::Runs)
        })
    };
    if refused(&spec) && build.kernel == KernelChoice::Skinny && !index.is_multiple_of(8) {
        return None;
    }
    if refused(&spec) && !index.is_multiple_of(8) {
        spec.layouts[0] = Arrangement::Aligned;
        if refused(&spec) {
            return None;
        }
    }
    if spec.laid_out().is_err() {
        return None;
    }
    spec.tags = tags(&spec, class);
    let batch = if spec.batch > 1 { format!("b{}.", spec.batch) } else { String::new() };
    let [m, n, k] = spec.shape;
    let class = if route.is_cut() { ShapeClass::of(spec.shape) } else { class };
    spec.name = format!(
        "{}.{}.{batch}{m}x{n}x{k}.{}.{}{}{}",
        spec.type_name(),
        class.name(),
        spec.layout_name(),
        spec.epilogue_name(),
        if spec.route == Route::Device { String::new() } else { format!(".{}", spec.route.name()) },
        spec.way_name(),
    );
    Some(Item { spec, kernel: build.kernel })
}

fn tags(spec: &Spec, class: ShapeClass) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut add = |wanted: bool, tag| {
        if wanted {
            tags.push(tag);
        }
    };
    use ShapeClass as C;
    add(matches!(class, C::Empty | C::NoProduct), Tag::Empty);
    add(matches!(class, C::Row | C::Column | C::Skinny | C::Single | C::Outer), Tag::Skinny);
    add(
        matches!(class, C::Under | C::Over | C::KTail | C::OuterTail | C::Odd | C::Large),
        Tag::Tail,
    );
    add(spec.layouts != [Arrangement::Dense; 3], Tag::Stride);
    add(spec.batch > 1, Tag::Batch);
    add(spec.epilogue_name() != "plain", Tag::Epilogue);
    add(spec.types != [ElementType::F32; 3], Tag::Dtype);
    tags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::CpuAdapter;

    #[test]
    fn items_are_distinct_valid_and_the_same_again() {
        let adapter = CpuAdapter::new();
        let items = generate(&adapter, 400, 4, 7);
        assert_eq!(items.len(), 400);
        assert_eq!(items, generate(&adapter, 400, 4, 7));
        let classes: HashSet<_> = items.iter().map(Item::class).collect();
        assert_eq!(classes.len(), 400);
        let names: HashSet<_> = items.iter().map(|i| &i.spec.name).collect();
        assert_eq!(names.len(), 400, "names are how a failure is run again");
        for item in &items {
            assert!(item.spec.laid_out().is_ok(), "{}", item.spec);
        }
        let shapes: HashSet<_> = items.iter().map(|i| ShapeClass::of(i.spec.shape)).collect();
        assert_eq!(shapes.len(), ShapeClass::ALL.len());
        let layouts: HashSet<_> = items.iter().map(|i| i.spec.layouts).collect();
        assert!(layouts.len() >= LAYOUTS.len());
    }
}
