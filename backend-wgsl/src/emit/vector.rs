//! The register-prefetching vector kernel: fetch, commit and a written-out strip.
//!
//! Tiles are k-major, in vectors of four rows of A or columns of B:
//!
//! ```text
//! tile_a[k · PITCH_A + row/4]          tile_b[k · PITCH_B + col/4]
//!
//!        ┌ r0 r1 r2 r3 ┐ ┌ r4 … ┐ … pad        k = 0
//!        ┌ r0 r1 r2 r3 ┐ ┌ r4 … ┐ … pad        k = 1
//! ```
//!
//! A thread's TM rows are TM/4 groups of four, BM/(TM/4) apart, and its columns likewise, so that
//! the threads of a wave read neighbouring vectors. An operand that is contiguous along k in memory
//! is fetched as 4×4 blocks and transposed in registers on the way to its tile; one that is
//! contiguous the other way is copied vector by vector. Loops over a strip are written out: drivers
//! do not unroll them, and a rolled loop costs a fifth of the speed.
//!
//! No load inside the loop is guarded. Rows and columns outside the matrix read the last one inside,
//! whose products nobody stores. The strip that K may cut short comes first, before the loop, with
//! zeros behind its end; whole strips follow.

use core::fmt::{self, Write as _};

use lapidary_core::ElementType;
use lapidary_core::policy::{Strip, TileAction};

use super::access;
use super::direct::four_scales;
use super::place::{self, Slice, Strides};
use crate::decide::{Fetch, Kernel, Traits};

/// The kernel's body; empty for a kernel without policies.
pub(super) fn body(kernel: &Kernel, traits: &Traits) -> String {
    let Some(config) = kernel.config else {
        return String::new();
    };
    let [a, b] = sides(kernel, traits);
    let mut text = String::new();
    if !kernel.packs_quads() {
        text.push_str(&access::unpack(traits));
    }
    // Writing to a String cannot fail.
    let _ = write(&mut text, kernel, [&a, &b], config.tile.pad as u32, |text| {
        let tile = &config.tile;
        hook(text, kernel, [&a, &b], tile.prologue, "    ")?;
        writeln!(text, "    for (var t = 0u; t < strips; t += 1u) {{")?;
        hook(text, kernel, [&a, &b], tile.prefetch, "        ")?;
        hook(text, kernel, [&a, &b], tile.acquire, "        ")?;
        strip(text, kernel, &a, &b)?;
        hook(text, kernel, [&a, &b], tile.release, "        ")?;
        writeln!(text, "    }}")
    });
    text
}

/// One operand's side of the kernel.
struct Side {
    /// `a` or `b`.
    name: char,
    /// The size its lines run over: `m` or `n`.
    size: char,
    /// Lines (rows of A, columns of B) in the block.
    block: u32,
    /// Groups of four lines a thread owns.
    groups: u32,
    element: ElementType,
    fetch: Fetch,
    /// Elements along K that share a scale, where they do.
    group: Option<u32>,
    k_tile: u32,
    threads: u32,
    strides: Strides,
    /// Whether every block is inside the matrix.
    whole: bool,
}

/// A's and B's side.
fn sides(kernel: &Kernel, traits: &Traits) -> [Side; 2] {
    let [strides_a, strides_b] = Strides::of(kernel);
    let whole = kernel.sizes.map_or([false; 2], |s| [s.whole_m, s.whole_n]);
    let side = |name, size, axis: usize, fetch, element, strides| Side {
        name,
        size,
        block: kernel.block[axis],
        groups: kernel.thread[axis] / 4,
        element,
        fetch,
        group: traits.group.filter(|_| name == 'b'),
        k_tile: kernel.k_tile,
        threads: kernel.threads(),
        strides,
        whole: whole[axis],
    };
    [
        side('a', 'm', 0, kernel.a, traits.a, strides_a),
        side('b', 'n', 1, kernel.b, traits.b, strides_b),
    ]
}

impl Side {
    /// Vectors one slot holds: a 4×4 block, or a single vector.
    const fn vectors(&self) -> u32 {
        if self.fetch.along_k { 4 } else { 1 }
    }

    /// Slots of a tile, spread over the workgroup's threads.
    const fn slots(&self) -> u32 {
        let vectors = self.block * self.k_tile / 4;
        vectors / self.vectors()
    }

    const fn slots_per_thread(&self) -> u32 {
        self.slots().div_ceil(self.threads)
    }

    /// Whether some threads have nothing to do in slot `s`.
    const fn is_partial(&self, s: u32) -> bool {
        (s + 1) * self.threads > self.slots()
    }

    /// The condition that a thread has something to do in slot `s`.
    fn has_slot(&self, s: u32) -> String {
        format!("tid + {}u < {}u", s * self.threads, self.slots())
    }

    /// `row0` or `col0`.
    const fn origin(&self) -> &'static str {
        if self.name == 'a' { "at.row0" } else { "at.col0" }
    }

    const fn block_name(&self) -> &'static str {
        if self.name == 'a' { "BM" } else { "BN" }
    }

    /// Whether a fetch needs to know how many lines follow its first: single loads of neighbouring
    /// lines, of which the last may be outside.
    const fn counts_room(&self) -> bool {
        !self.fetch.along_k && self.fetch.width == 1 && !self.whole
    }

    /// What `k` steps, whole vectors of them, add to the index of a fetch.
    fn advance(&self, k: &str) -> String {
        match (self.fetch.width, self.fetch.along_k) {
            (4, true) => format!("{k} / 4u"),
            (4, false) => format!("{k} * {}", place::in_vectors(&self.strides.k, 4)),
            _ => format!("{k} * {}", self.strides.k),
        }
    }

    /// Whether all slots of a thread are of the same columns, and their strip of one group: they have
    /// the same scales. Strips start at multiples of their length.
    const fn shares_scales(&self) -> bool {
        let across = self.block / 4;
        match self.group {
            Some(length) => {
                !self.fetch.along_k
                    && self.threads.is_multiple_of(across)
                    && length.is_multiple_of(self.k_tile)
            }
            None => false,
        }
    }

    /// The scales of the four weights of a fetch: one where they are neighbours along K, which are in
    /// one group, else one of each column. Steps behind K, which the strip that is cut short has, take
    /// the last one's.
    fn scale(&self, s: u32, v: u32, first: bool) -> String {
        let name = self.name;
        let k = format!("k0 + {name}_k_{s}");
        let k = if first { format!("min({k}, p.k - 1u)") } else { k };
        let col = format!("{name}_col_{s}_{v}");
        if self.fetch.along_k {
            format!("b_scale(at.batch, {k}, {col})")
        } else {
            four_scales(self.size, &k, &col)
        }
    }

    /// The stride between the elements of a fetch.
    fn near(&self) -> &str {
        if self.fetch.along_k { &self.strides.k } else { &self.strides.line }
    }
}

fn write(
    text: &mut String,
    kernel: &Kernel,
    [a, b]: [&Side; 2],
    pad: u32,
    main: impl FnOnce(&mut String) -> fmt::Result,
) -> fmt::Result {
    let (pitch_a, pitch_b) = ((a.block + pad) / 4, (b.block + pad) / 4);
    writeln!(text, "const PITCH_A = {pitch_a}u;\nconst PITCH_B = {pitch_b}u;\n")?;
    let buffers = kernel.num_buffers;
    let k = kernel.k_tile;
    writeln!(text, "var<workgroup> tile_a: array<vec4<Elem>, {}>;", buffers * k * pitch_a)?;
    writeln!(text, "var<workgroup> tile_b: array<vec4<Elem>, {}>;\n", buffers * k * pitch_b)?;
    for side in [a, b] {
        loads(text, kernel, side)?;
    }
    if kernel.packs_quads() {
        text.push_str(DOT4);
    }
    store_quad(text, kernel)?;
    writeln!(
        text,
        "@compute @workgroup_size(THREADS)\n\
         fn main(\n    @builtin(workgroup_id) wg: vec3<u32>,\n    \
         @builtin(local_invocation_index) tid: u32,\n) {{\n    \
         let ty = tid / (BN / TN);\n    let tx = tid % (BN / TN);"
    )?;
    text.push_str(&Slice::of(kernel).opening());
    for side in [a, b] {
        places(text, side)?;
    }
    for i in 0..4 * a.groups {
        for j in 0..b.groups {
            writeln!(text, "    var c_{i}_{j} = vec4<Acc>();")?;
        }
    }
    main(text)?;
    stores(text, kernel, a, b)?;
    text.push_str(Slice::of(kernel).closing());
    writeln!(text, "}}")
}

/// Four products of i8 added up, for four columns.
const DOT4: &str = "\
fn dot4(a: u32, b: vec4<u32>) -> vec4<i32> {
    return vec4<i32>(dot4I8Packed(a, b.x), dot4I8Packed(a, b.y), dot4I8Packed(a, b.z), dot4I8Packed(a, b.w));
}

";

/// `a_four` or `b_four`: four neighbouring elements along k or across it, vector number `i`, or from
/// element `i` on where loads are single, of lines and steps inside the matrix; and `a_first`, the same with zeros for steps behind `left`.
fn loads(text: &mut String, kernel: &Kernel, side: &Side) -> fmt::Result {
    let Side { name, element: operand, .. } = *side;
    let data = format!("{name}_data");
    let (near, room) = (side.near(), side.counts_room());
    let parameters = if room { "i: u32, room: u32" } else { "i: u32" };
    let arguments = if room { "i, room" } else { "i" };
    let value = if side.fetch.width == 4 {
        if kernel.packs_quads() { format!("{data}[i]") } else { access::four_at(operand, &data) }
    } else {
        let element = if kernel.packs_quads() {
            format!("{data}[i]")
        } else {
            access::element_at(operand, &data, 1)
        };
        writeln!(text, "fn {name}_at(i: u32) -> Elem {{\n    return {element};\n}}\n")?;
        let elements: Vec<_> = (0..4)
            .map(|e| match (e, room) {
                (0, _) => format!("{name}_at(i)"),
                (_, true) => format!("{name}_at(i + min({e}u, room) * {near})"),
                (_, false) => format!("{name}_at(i + {})", place::times(near, e)),
            })
            .collect();
        format!("vec4<Elem>(\n        {})", elements.join(",\n        "))
    };
    writeln!(text, "fn {name}_four({parameters}) -> vec4<Elem> {{\n    return {value};\n}}\n")?;

    writeln!(text, "fn {name}_first({parameters}, k: u32, left: u32) -> vec4<Elem> {{")?;
    if !side.fetch.along_k {
        writeln!(
            text,
            "    if (k < left) {{\n        return {name}_four({arguments});\n    }}\n    \
             return vec4<Elem>();"
        )?;
    } else if side.fetch.width == 4 {
        // A vector that starts inside ends in storage of its own line, so reading it whole is safe
        // and what it holds past the end is masked.
        writeln!(
            text,
            "    if (k >= left) {{\n        return vec4<Elem>();\n    }}\n    \
             let at = vec4<u32>(k) + vec4<u32>(0u, 1u, 2u, 3u);\n    \
             return select(vec4<Elem>(), {name}_four(i), at < vec4<u32>(left));"
        )?;
    } else {
        writeln!(text, "    var values = vec4<Elem>();")?;
        for (e, lane) in ["x", "y", "z", "w"].into_iter().enumerate() {
            let e = e as u32;
            writeln!(
                text,
                "    if (k + {e}u < left) {{\n        values.{lane} = {name}_at(i + {});\n    }}",
                place::times(near, e)
            )?;
        }
        writeln!(text, "    return values;")?;
    }
    writeln!(text, "}}\n")
}

/// `store_quad`: four neighbours of a row, those of them that are inside C.
pub(super) fn store_quad(text: &mut String, kernel: &Kernel) -> fmt::Result {
    writeln!(
        text,
        "fn store_quad(batch: u32, row: u32, col: u32, inside: bool, acc: vec4<Acc>) {{"
    )?;
    if kernel.store_width == 4 {
        writeln!(
            text,
            "    if (inside || (row < p.m && col < p.n)) {{\n        \
             store_c(batch, row, col, acc);\n    }}"
        )?;
        return writeln!(text, "}}\n");
    }
    writeln!(
        text,
        "    if (inside || (row < p.m && col < p.n)) {{\n        store_c(batch, row, col, acc.x);\n    }}"
    )?;
    for (e, lane) in ["y", "z", "w"].into_iter().enumerate() {
        let e = e + 1;
        writeln!(
            text,
            "    if (inside || (row < p.m && col + {e}u < p.n)) {{\n        \
             store_c(batch, row, col + {e}u, acc.{lane});\n    }}"
        )?;
    }
    writeln!(text, "}}\n")
}

/// Where a thread's slots lie in the tile and in memory, and the registers they are fetched to.
fn places(text: &mut String, side: &Side) -> fmt::Result {
    let Side { name, size, strides, .. } = side;
    let origin = side.origin();
    for s in 0..side.slots_per_thread() {
        let slot = format!("(tid + {}u)", s * side.threads);
        // Neighbouring threads fetch what is neighbouring in memory.
        let (line, k) = if side.fetch.along_k {
            (format!("{slot} / (KT / 4u) * 4u"), format!("{slot} % (KT / 4u) * 4u"))
        } else {
            let block = side.block_name();
            (format!("{slot} % ({block} / 4u) * 4u"), format!("{slot} / ({block} / 4u)"))
        };
        writeln!(text, "    let {name}_line_{s} = {line};\n    let {name}_k_{s} = {k};")?;
        for v in 0..side.vectors() {
            let line = format!("{origin} + {name}_line_{s} + {v}u");
            let line = if side.whole {
                line
            } else if side.fetch.along_k || side.fetch.width == 1 {
                format!("min({line}, p.{size} - 1u)")
            } else {
                // The vector that holds the last line.
                format!("min({line}, (p.{size} - 1u) / 4u * 4u)")
            };
            let index = format!(
                "p.{name}_base + at.batch * {} + ({line}) * {} + {name}_k_{s} * {}",
                strides.batch, strides.line, strides.k
            );
            let index = if side.fetch.width == 4 { format!("({index}) / 4u") } else { index };
            writeln!(text, "    let {name}_at_{s}_{v} = {index};")?;
            writeln!(text, "    var {name}_{s}_{v} = vec4<Elem>();")?;
            if side.group.is_some() {
                let line = format!("{origin} + {name}_line_{s} + {v}u");
                writeln!(text, "    let {name}_col_{s}_{v} = min({line}, p.{size} - 1u);")?;
            }
        }
        if side.counts_room() {
            writeln!(
                text,
                "    let {name}_room_{s} = p.{size} - 1u - min({origin} + {name}_line_{s}, p.{size} - 1u);"
            )?;
        }
    }
    Ok(())
}

/// A hook's actions, in place.
fn hook(
    text: &mut String,
    kernel: &Kernel,
    sides: [&Side; 2],
    actions: &[TileAction],
    indent: &str,
) -> fmt::Result {
    for action in actions {
        let (strip, fetches, commits) = match action {
            TileAction::Barrier => {
                writeln!(text, "{indent}workgroupBarrier();")?;
                continue;
            }
            TileAction::Fetch(strip) => (*strip, true, false),
            TileAction::Commit(strip) => (*strip, false, true),
            TileAction::Load(strip) => (*strip, true, true),
            _ => continue,
        };
        // What is committed after the last strip is what is there already.
        let guarded = strip == Strip::Next && fetches && !repeats(kernel);
        let inner = if guarded { format!("{indent}    ") } else { indent.to_owned() };
        if guarded {
            writeln!(text, "{indent}if (t + 1u < strips) {{")?;
        }
        if fetches {
            fetch_strip(text, kernel, sides, strip, &inner)?;
        }
        if commits {
            for side in sides {
                commit(text, side, &inner)?;
            }
        }
        if guarded {
            writeln!(text, "{indent}}}")?;
        }
    }
    Ok(())
}

/// Whether the last prefetch repeats a strip instead of being skipped.
///
/// The branch that skips it keeps the compiler from moving loads down to where their values are
/// stored. That is worth a twentieth of the speed where a thread has many sums, and costs a sixth
/// where it has few and the loads move anyway (`docs/speed.md`).
fn repeats(kernel: &Kernel) -> bool {
    kernel.thread[0] * kernel.thread[1] <= 32 && Slice::of(kernel).can_repeat()
}

/// A strip of both operands to registers.
fn fetch_strip(
    text: &mut String,
    kernel: &Kernel,
    sides: [&Side; 2],
    strip: Strip,
    indent: &str,
) -> fmt::Result {
    let slice = Slice::of(kernel);
    let whole = |text: &mut String, k0: &str, indent: &str| -> fmt::Result {
        writeln!(text, "{indent}{{\n{indent}    let k0 = {k0};")?;
        for side in sides {
            fetch(text, side, false, &format!("{indent}    "))?;
        }
        writeln!(text, "{indent}}}")
    };
    let cut = |text: &mut String, indent: &str| -> fmt::Result {
        writeln!(text, "{indent}{{\n{indent}    let k0 = cut_k;")?;
        for side in sides {
            fetch(text, side, true, &format!("{indent}    "))?;
        }
        writeln!(text, "{indent}}}")
    };
    match strip {
        Strip::Next if repeats(kernel) => whole(text, slice.next_or_repeated(), indent),
        Strip::Next => whole(text, slice.next(), indent),
        Strip::First if slice.whole_strips => whole(text, "k_begin", indent),
        _ if slice.whole_strips => whole(text, "k_begin + t * KT", indent),
        Strip::First => cut(text, indent),
        _ => {
            writeln!(text, "{indent}if (t == 0u) {{")?;
            cut(text, &format!("{indent}    "))?;
            writeln!(text, "{indent}}} else {{")?;
            whole(text, "k_begin + (t - 1u) * KT", &format!("{indent}    "))?;
            writeln!(text, "{indent}}}")
        }
    }
}

/// One operand's strip from step `k0` on, to registers; `first` is the one that K may cut short.
fn fetch(text: &mut String, side: &Side, first: bool, indent: &str) -> fmt::Result {
    let name = side.name;
    if side.shares_scales() {
        // Of the strip's first step, which is inside K whatever the thread's own are.
        let scales = four_scales(side.size, "k0", &format!("{name}_col_0_0"));
        writeln!(text, "{indent}let scales = {scales};")?;
    }
    for s in 0..side.slots_per_thread() {
        let mut indent = indent.to_owned();
        if side.is_partial(s) {
            writeln!(text, "{indent}if ({}) {{", side.has_slot(s))?;
            indent.push_str("    ");
        }
        for v in 0..side.vectors() {
            let at = format!("{name}_at_{s}_{v} + {}", side.advance("k0"));
            let room =
                if side.counts_room() { format!(", {name}_room_{s}") } else { String::new() };
            let load = if first {
                format!("{name}_first({at}{room}, {name}_k_{s}, cut_left)")
            } else {
                format!("{name}_four({at}{room})")
            };
            let scale = match side.group {
                None => String::new(),
                Some(_) if side.shares_scales() => " * scales".to_owned(),
                Some(_) => format!(" * {}", side.scale(s, v, first)),
            };
            writeln!(text, "{indent}{name}_{s}_{v} = {load}{scale};")?;
        }
        if side.is_partial(s) {
            writeln!(text, "{}}}", &indent[4..])?;
        }
    }
    Ok(())
}

/// Registers to the tile; a 4×4 block is transposed on the way.
fn commit(text: &mut String, side: &Side, indent: &str) -> fmt::Result {
    let name = side.name;
    let pitch = if name == 'a' { "PITCH_A" } else { "PITCH_B" };
    for s in 0..side.slots_per_thread() {
        let mut indent = indent.to_owned();
        if side.is_partial(s) {
            writeln!(text, "{indent}if ({}) {{", side.has_slot(s))?;
            indent.push_str("    ");
        }
        let vector = format!("{name}_line_{s} / 4u");
        if side.fetch.along_k {
            for (e, lane) in ["x", "y", "z", "w"].into_iter().enumerate() {
                let rows: Vec<_> = (0..4).map(|v| format!("{name}_{s}_{v}.{lane}")).collect();
                writeln!(
                    text,
                    "{indent}tile_{name}[({name}_k_{s} + {e}u) * {pitch} + {vector}] = vec4<Elem>({});",
                    rows.join(", ")
                )?;
            }
        } else {
            writeln!(
                text,
                "{indent}tile_{name}[{name}_k_{s} * {pitch} + {vector}] = {name}_{s}_0;"
            )?;
        }
        if side.is_partial(s) {
            writeln!(text, "{}}}", &indent[4..])?;
        }
    }
    Ok(())
}

/// The strip's multiply-adds, written out: TM·TN/4 vector operations for each k.
fn strip(text: &mut String, kernel: &Kernel, a: &Side, b: &Side) -> fmt::Result {
    let (group_m, group_n) = (a.block / a.groups / 4, b.block / b.groups / 4);
    for k in 0..kernel.k_tile {
        writeln!(text, "        {{")?;
        for g in 0..a.groups {
            writeln!(
                text,
                "            let a{g} = tile_a[{k}u * PITCH_A + {}u + ty];",
                g * group_m
            )?;
        }
        for g in 0..b.groups {
            writeln!(
                text,
                "            let b{g} = tile_b[{k}u * PITCH_B + {}u + tx];",
                g * group_n
            )?;
        }
        for g in 0..a.groups {
            for (e, lane) in ["x", "y", "z", "w"].into_iter().enumerate() {
                for j in 0..b.groups {
                    let i = g as usize * 4 + e;
                    if kernel.packs_quads() {
                        writeln!(text, "            c_{i}_{j} += dot4(a{g}.{lane}, b{j});")?;
                    } else {
                        writeln!(text, "            c_{i}_{j} += a{g}.{lane} * b{j};")?;
                    }
                }
            }
        }
        writeln!(text, "        }}")?;
    }
    Ok(())
}

fn stores(text: &mut String, kernel: &Kernel, a: &Side, b: &Side) -> fmt::Result {
    let (group_m, group_n) = (a.block / a.groups, b.block / b.groups);
    let inside =
        if a.whole && b.whole { "true" } else { "at.row0 + BM <= p.m && at.col0 + BN <= p.n" };
    writeln!(
        text,
        "    let inside = {inside};\n    \
         let row = at.row0 + ty * 4u;\n    let col = at.col0 + tx * 4u;"
    )?;
    let plane = Slice::of(kernel).plane();
    for i in 0..kernel.thread[0] {
        for j in 0..b.groups {
            writeln!(
                text,
                "    store_quad({plane}, row + {}u, col + {}u, inside, c_{i}_{j});",
                i / 4 * group_m + i % 4,
                j * group_n
            )?;
        }
    }
    Ok(())
}
