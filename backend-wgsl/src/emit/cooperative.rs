//! The cooperative-matrix kernel: f16 tiles in workgroup memory, f32 or f16 sums in the matrix units.
//!
//! ```text
//! tile_a[line · PITCH_A + k/4]   BM lines of KT steps       tile_b[k · PITCH_B + col/4]   KT lines of BN columns
//! ```
//!
//! Tiles are vectors of four f16, each line padded by two vectors so that lines start in different
//! banks. Global memory is read 16 bytes at a time, as four words of two f16: drivers turn the
//! unpacking to f32 and back into nothing. Where a line of A's tile is 64 bytes, neighbouring threads
//! take lines 0, 4, 1, 5, … of eight, so that eight threads' stores hit every bank once.
//!
//! Unlike the vector kernel's, the last prefetch repeats a strip where that is possible, because here
//! a branch costs a tenth of the speed.
//!
//! B may be i8 or i4 weights, whose values f16 holds exactly: eight of them are one load of 8 or 4
//! bytes, and become f16 on their way to the tile. Scales of columns are the epilogue's.
//!
//! A subgroup owns a tile of C in matrices of 16×16, or of 8×8 where the device has no larger ones, and
//! multiplies a strip by fragments of as many steps. How its sums get to memory is in [`matrix_store`].

use core::fmt::{self, Write as _};

use lapidary_core::ElementType;
use lapidary_core::policy::{Strip, TileAction};

use super::place::{self, Slice, Strides};
use super::{access, matrix_store};
use crate::decide::{Kernel, MatrixUnits, Traits};

/// Elements a load fetches.
const CHUNK: u32 = 8;

/// The kernel's body; empty for a kernel without policies.
pub(super) fn body(kernel: &Kernel, traits: &Traits, fused: bool) -> String {
    let Some(config) = kernel.config else {
        return String::new();
    };
    let sides = sides(kernel, traits.b);
    let tile = &config.tile;
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = opening(&mut text, kernel, &sides).and_then(|()| {
        hook(&mut text, kernel, &sides, tile.prologue, "    ")?;
        writeln!(text, "    for (var t = 0u; t < strips; t += 1u) {{")?;
        hook(&mut text, kernel, &sides, tile.prefetch, "        ")?;
        hook(&mut text, kernel, &sides, tile.acquire, "        ")?;
        strip(&mut text, kernel)?;
        hook(&mut text, kernel, &sides, tile.release, "        ")?;
        writeln!(text, "    }}")?;
        matrix_store::store(&mut text, kernel, traits, fused)?;
        writeln!(text, "}}")
    });
    text
}

/// One operand's side of the kernel.
struct Side {
    /// `a` or `b`.
    name: char,
    element: ElementType,
    /// Lines of the tile: rows of A, or steps along K of B.
    lines: u32,
    /// Elements of a line.
    length: u32,
    threads: u32,
    strides: Strides,
    whole: bool,
}

impl Side {
    const fn is_a(&self) -> bool {
        self.name == 'a'
    }

    /// Loads of a thread for a strip.
    const fn slots(&self) -> u32 {
        self.lines * self.length / CHUNK / self.threads
    }

    /// Vectors of four from one line of the tile to the next.
    const fn pitch(&self) -> u32 {
        (self.length + CHUNK) / 4
    }
}

fn sides(kernel: &Kernel, weights: ElementType) -> [Side; 2] {
    let [strides_a, strides_b] = Strides::of(kernel);
    let whole = kernel.sizes.map_or([false; 2], |s| [s.whole_m, s.whole_n]);
    let threads = kernel.threads();
    let [bm, bn] = kernel.block;
    let kt = kernel.k_tile;
    [
        Side {
            name: 'a',
            element: ElementType::F16,
            lines: bm,
            length: kt,
            threads,
            strides: strides_a,
            whole: whole[0],
        },
        Side {
            name: 'b',
            element: weights,
            lines: kt,
            length: bn,
            threads,
            strides: strides_b,
            whole: whole[1],
        },
    ]
}

/// Tiles, helpers, and the kernel up to its loop.
fn opening(text: &mut String, kernel: &Kernel, sides: &[Side; 2]) -> fmt::Result {
    let MatrixUnits { side, lanes, .. } = kernel.matrix_units();
    for side in sides {
        let Side { name, lines, .. } = side;
        let mut vectors = lines * side.pitch();
        if side.is_a() && kernel.sums_in_f16() {
            vectors = vectors.max(kernel.stage_f16() / 4);
        }
        writeln!(text, "var<workgroup> tile_{name}: array<vec4<f16>, {vectors}>;")?;
    }
    if !kernel.stores_directly() && !kernel.sums_in_f16() {
        let vectors = kernel.subgroups() * side * side / 4;
        writeln!(text, "var<workgroup> stage: array<vec4<f32>, {vectors}>;")?;
    }
    text.push_str(HELPERS);
    text.push_str(match sides[1].element {
        ElementType::I8 => I8_HELPERS,
        ElementType::I4 => I4_HELPERS,
        _ => "",
    });
    writeln!(
        text,
        "@compute @workgroup_size(THREADS)\n\
         fn main(\n    @builtin(workgroup_id) wg: vec3<u32>,\n    \
         @builtin(local_invocation_index) tid: u32,\n) {{\n    \
         let sub_row = tid / {lanes}u / (BN / (TN * {lanes}u)) * TM;\n    \
         let sub_col = tid / {lanes}u % (BN / (TN * {lanes}u)) * (TN * {lanes}u);"
    )?;
    text.push_str(&Slice::of(kernel).opening());
    for side in sides {
        places(text, side)?;
    }
    let [rows, cols] = kernel.fragments();
    let sums = if kernel.sums_in_f16() { "f16" } else { "f32" };
    for i in 0..rows {
        for j in 0..cols {
            writeln!(text, "    var c_{i}_{j} = coop_mat{side}x{side}<{sums}, C>();")?;
        }
    }
    Ok(())
}

const HELPERS: &str = "
// Elements 0 to 3, or 4 to 7, of eight f16 in four words.
fn low(words: vec4<u32>) -> vec4<f16> {
    return vec4<f16>(vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y)));
}

fn high(words: vec4<u32>) -> vec4<f16> {
    return vec4<f16>(vec4<f32>(unpack2x16float(words.z), unpack2x16float(words.w)));
}

// Eight f16 of which the first `count` are kept.
fn keep(words: vec4<u32>, count: u32) -> vec4<u32> {
    let kept = vec4<u32>(count) - min(vec4<u32>(count), vec4<u32>(0u, 2u, 4u, 6u));
    let masks = select(vec4<u32>(0xffffffffu), vec4<u32>(0xffffu), kept < vec4<u32>(2u));
    return select(words & masks, vec4<u32>(), kept == vec4<u32>(0u));
}

";

const I8_HELPERS: &str = "\
// Elements 0 to 3, or 4 to 7, of eight i8 in two words.
fn low_i8(words: vec2<u32>) -> vec4<f16> {
    return vec4<f16>(unpack4xI8(words.x));
}

fn high_i8(words: vec2<u32>) -> vec4<f16> {
    return vec4<f16>(unpack4xI8(words.y));
}

";

const I4_HELPERS: &str = "\
// Elements 0 to 3, or 4 to 7, of a word of eight i4, sign-extended.
fn low_i4(word: u32) -> vec4<f16> {
    let top = vec4<u32>(word) << vec4<u32>(28u, 24u, 20u, 16u);
    return vec4<f16>(bitcast<vec4<i32>>(top) >> vec4<u32>(28u));
}

fn high_i4(word: u32) -> vec4<f16> {
    return low_i4(word >> 16u);
}

";

/// Where a thread's slots lie in the tile and in memory, and the registers they are fetched to.
fn places(text: &mut String, side: &Side) -> fmt::Result {
    let Side { name, strides, .. } = side;
    let chunks = side.length / CHUNK;
    let per_round = side.threads / chunks;
    // With lines of 64 bytes eight threads store two lines, which must be four apart.
    let line = if side.is_a() && chunks == 4 && per_round.is_multiple_of(8) {
        format!(
            "(tid / {chunks}u / 8u * 8u + tid / {chunks}u % 8u / 2u + tid / {chunks}u % 2u * 4u)"
        )
    } else {
        format!("tid / {chunks}u")
    };
    writeln!(
        text,
        "    let {name}_line = {line};\n    let {name}_near = tid % {chunks}u * {CHUNK}u;"
    )?;
    for s in 0..side.slots() {
        let line = format!("{name}_line + {}u", s * per_round);
        let (position, k_part) = if side.is_a() {
            let row = format!("at.row0 + {line}");
            let row = if side.whole { row } else { format!("min({row}, p.m - 1u)") };
            (format!("({row}) * {}", strides.line), format!("{name}_near"))
        } else {
            let col = format!("at.col0 + {name}_near");
            // The chunk that holds the last column.
            let col = if side.whole {
                col
            } else {
                format!("min({col}, (p.n - 1u) / {CHUNK}u * {CHUNK}u)")
            };
            (col, format!("({line}) * {}", strides.k))
        };
        writeln!(
            text,
            "    let {name}_at_{s} = (p.{name}_base + at.batch * {} + {position} + {k_part}) / {CHUNK}u;\n    \
             var {name}_{s} = {}();",
            strides.batch,
            access::storage_of_eight(side.element)
        )?;
    }
    Ok(())
}

/// A hook's actions, in place.
fn hook(
    text: &mut String,
    kernel: &Kernel,
    sides: &[Side; 2],
    actions: &[TileAction],
    indent: &str,
) -> fmt::Result {
    let slice = Slice::of(kernel);
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
        let guarded = strip == Strip::Next && !slice.can_repeat();
        if guarded {
            writeln!(text, "{indent}if (t + 1u < strips) {{")?;
        }
        if fetches {
            fetch_strip(text, &slice, sides, strip, indent)?;
        }
        if commits {
            sides.iter().try_for_each(|side| commit(text, side, indent))?;
        }
        if guarded {
            writeln!(text, "{indent}}}")?;
        }
    }
    Ok(())
}

/// A strip of both operands to registers.
fn fetch_strip(
    text: &mut String,
    slice: &Slice,
    sides: &[Side; 2],
    strip: Strip,
    indent: &str,
) -> fmt::Result {
    let (first, k0) = match strip {
        Strip::Next if slice.can_repeat() => (false, slice.next_or_repeated().to_owned()),
        Strip::Next => (false, slice.next().to_owned()),
        Strip::First if slice.whole_strips => (false, "k_begin".to_owned()),
        Strip::First => (true, "cut_k".to_owned()),
        _ if slice.whole_strips => (false, "k_begin + t * KT".to_owned()),
        // Only the first strip is cut, and every strip is inside K.
        _ => (true, "select(k_begin + (t - 1u) * KT, cut_k, t == 0u)".to_owned()),
    };
    writeln!(text, "{indent}{{\n{indent}    let k0 = {k0};")?;
    if first {
        let left = if strip == Strip::First { "cut_left" } else { "select(KT, cut_left, t == 0u)" };
        writeln!(text, "{indent}    let left = {left};")?;
    }
    for side in sides {
        let name = side.name;
        for s in 0..side.slots() {
            // Steps along K are neighbours in A and lines in B.
            let advance = if side.is_a() {
                format!("k0 / {CHUNK}u")
            } else {
                format!("k0 * {}", place::in_vectors(&side.strides.k, CHUNK))
            };
            let load = format!("{name}_data[{name}_at_{s} + {advance}]");
            if !first {
                writeln!(text, "{indent}    {name}_{s} = {load};")?;
                continue;
            }
            let (inside, kept) = if side.is_a() {
                (format!("{name}_near < left"), format!("keep({load}, left - {name}_near)"))
            } else {
                let per_round = side.threads / (side.length / CHUNK);
                (format!("{name}_line + {}u < left", s * per_round), load)
            };
            writeln!(
                text,
                "{indent}    {name}_{s} = {}();\n\
                 {indent}    if ({inside}) {{\n{indent}        {name}_{s} = {kept};\n{indent}    }}",
                access::storage_of_eight(side.element)
            )?;
        }
    }
    writeln!(text, "{indent}}}")
}

/// Registers to the tile.
fn commit(text: &mut String, side: &Side, indent: &str) -> fmt::Result {
    let name = side.name;
    let pitch = side.pitch();
    let unpacked = match side.element {
        ElementType::I8 => "_i8",
        ElementType::I4 => "_i4",
        _ => "",
    };
    let per_round = side.threads / (side.length / CHUNK);
    for s in 0..side.slots() {
        let at = format!("({name}_line + {}u) * {pitch}u + {name}_near / 4u", s * per_round);
        writeln!(
            text,
            "{indent}tile_{name}[{at}] = low{unpacked}({name}_{s});\n\
             {indent}tile_{name}[{at} + 1u] = high{unpacked}({name}_{s});"
        )?;
    }
    Ok(())
}

/// The strip's products: a matrix's steps at a time.
fn strip(text: &mut String, kernel: &Kernel) -> fmt::Result {
    let ([rows, cols], side) = (kernel.fragments(), kernel.matrix_units().side);
    let pitch_a = (kernel.k_tile + CHUNK) / 4;
    let pitch_b = (kernel.block[1] + CHUNK) / 4;
    for k in (0..kernel.k_tile).step_by(side as usize) {
        writeln!(text, "        {{")?;
        for i in 0..rows {
            writeln!(
                text,
                "            let a_{i} = coopLoadT<coop_mat{side}x{side}<f16, A>>(\
                 &tile_a[(sub_row + {}u) * {pitch_a}u + {}u], {pitch_a}u);",
                i * side,
                k / 4
            )?;
        }
        for j in 0..cols {
            writeln!(
                text,
                "            let b_{j} = coopLoadT<coop_mat{side}x{side}<f16, B>>(\
                 &tile_b[{}u + (sub_col + {}u) / 4u], {pitch_b}u);",
                k * pitch_b,
                j * side
            )?;
            for i in 0..rows {
                writeln!(
                    text,
                    "            c_{i}_{j} = coopMultiplyAdd(a_{i}, b_{j}, c_{i}_{j});"
                )?;
            }
        }
        writeln!(text, "        }}")?;
    }
    Ok(())
}
