//! From matrix units to memory.
//!
//! f32 sums go straight from the matrices to memory where nothing happens to them on the way and no block is
//! cut by an edge. Elsewhere each subgroup passes its sums through a part of workgroup memory of its own to
//! `store_c`, in rows of as many matrices as there is room for:
//!
//! ```text
//! stage[own + line · PITCH + col/4]     SIDE lines of SIDE·count columns, in vectors of four
//! ```
//!
//! f32 sums have room for one matrix. f16 sums always have to become f32, which cooperative matrices
//! cannot in WGSL; theirs is the tile of A, which nobody reads any more, with two vectors of padding.

use core::fmt::{self, Write as _};

use lapidary_core::Activation;

use crate::decide::{Kernel, MatrixUnits, Traits};

/// The sums of every subgroup to C, or to where raw sums go.
pub(super) fn store(
    text: &mut String,
    kernel: &Kernel,
    traits: &Traits,
    fused: bool,
) -> fmt::Result {
    if kernel.stores_directly() {
        return directly(text, kernel, fused);
    }
    let long = fused && !matches!(traits.activation, Activation::None | Activation::Relu);
    staged(text, kernel, if long { 1 } else { WRITTEN_OUT })
}

/// Matrices straight to memory, row-major: raw sums, or C where nothing happens to them.
fn directly(text: &mut String, kernel: &Kernel, fused: bool) -> fmt::Result {
    let ([rows, cols], side) = (kernel.fragments(), kernel.matrix_units().side);
    // A pitch that the compiler does not know takes a tenth of the whole kernel's time.
    let sizes = kernel.sizes;
    let known = |value: Option<u32>, parameter: &str| {
        value.map_or_else(|| parameter.to_owned(), |value| format!("{value}u"))
    };
    let (data, origin, pitch) = if fused {
        let pitch = known(sizes.map(|sizes| sizes.c[0]), "p.c_row");
        let batch = known(sizes.map(|sizes| sizes.c[2]), "p.c_batch");
        let origin = format!("p.c_base + wg.z * {batch} + (at.row0 + sub_row) * pitch");
        ("c_data", origin, pitch)
    } else {
        let pitch = known(sizes.and_then(|sizes| sizes.n), "p.n");
        ("sums", "(wg.z * p.m + at.row0 + sub_row) * pitch".to_owned(), pitch)
    };
    // See `coop_store_panics_on_an_inline_argument` in the workarounds.
    writeln!(text, "    let pitch = {pitch};\n    let corner = {origin} + at.col0 + sub_col;")?;
    for i in 0..rows {
        for j in 0..cols {
            writeln!(
                text,
                "    let to_{i}_{j} = corner + {}u * pitch + {}u;\n    \
                 coopStoreT(c_{i}_{j}, &{data}[to_{i}_{j}], pitch);",
                i * side,
                j * side
            )?;
        }
    }
    Ok(())
}

/// Stores of a thread that are written out one after the other, so that their loads from workgroup memory
/// are on their way at once. Before a function of many instructions a store is written out once.
const WRITTEN_OUT: u32 = 8;

/// Matrices to `store_c` through workgroup memory, a row of some of them of each subgroup at a time.
fn staged(text: &mut String, kernel: &Kernel, written_out: u32) -> fmt::Result {
    let [rows, cols] = kernel.fragments();
    let MatrixUnits { side, lanes, .. } = kernel.matrix_units();
    let count = kernel.staged_matrices();
    // A line's vectors of four, and from one line to the next.
    let vectors = count * side / 4;
    let (stage, pitch) =
        if kernel.sums_in_f16() { ("tile_a", vectors + 2) } else { ("stage", vectors) };
    writeln!(
        text,
        "    let lane = tid % {lanes}u;\n    let own = tid / {lanes}u * {}u;\n    let pitch = {pitch}u;",
        side * pitch
    )?;
    for j in 0..count {
        writeln!(text, "    let to_{j} = own + {}u;", j * side / 4)?;
    }
    for i in 0..rows {
        for first in (0..cols).step_by(count as usize) {
            writeln!(text, "    workgroupBarrier();")?;
            for j in 0..count {
                writeln!(text, "    coopStoreT(c_{i}_{}, &{stage}[to_{j}], pitch);", first + j)?;
            }
            writeln!(
                text,
                "    workgroupBarrier();\n    \
                 let row_{i}_{first} = at.row0 + sub_row + {}u;\n    \
                 let col_{i}_{first} = at.col0 + sub_col + {}u;",
                i * side,
                first * side
            )?;
            stores(text, kernel, stage, [i, first], written_out)?;
        }
    }
    Ok(())
}

/// A thread's part of the matrices in `stage` to `store_c`: threads side by side store neighbours, four
/// each, or where C does not allow that one.
fn stores(
    text: &mut String,
    kernel: &Kernel,
    stage: &str,
    [i, first]: [u32; 2],
    written_out: u32,
) -> fmt::Result {
    let MatrixUnits { side, lanes, .. } = kernel.matrix_units();
    let each = kernel.store_width;
    let line = kernel.staged_matrices() * side / each;
    // Stores of a subgroup, of a thread, and of a thread in a turn.
    let all = side * line;
    let (own, even) = (all.div_ceil(lanes), all.is_multiple_of(lanes));
    let turn = (1..=own.min(written_out)).rev().find(|turn| own.is_multiple_of(*turn)).unwrap_or(1);
    if own == turn {
        text.push_str("    {\n        let e = lane;\n");
    } else {
        writeln!(text, "    for (var e = lane; e < {}u; e += {}u) {{", lanes * own, lanes * turn)?;
    }
    for s in 0..turn {
        let at = format!("{stage}[own + line_{s} * pitch + near_{s}");
        let value = if each == 4 {
            format!("vec4<f32>({at}])")
        } else {
            format!("f32({at} / 4u][near_{s} % 4u])")
        };
        // The last store of some lanes may lie behind the matrices.
        let e = format!("e + {}u", s * lanes);
        let e = if even { e } else { format!("min({e}, {}u)", all - 1) };
        writeln!(
            text,
            "        let line_{s} = ({e}) / {line}u;\n        \
             let near_{s} = ({e}) % {line}u;\n        \
             let sum_{s} = {value};"
        )?;
    }
    let whole = kernel.sizes.map_or([false; 2], |sizes| [sizes.whole_m, sizes.whole_n]);
    for s in 0..turn {
        let row = format!("row_{i}_{first} + line_{s}");
        let col = format!("col_{i}_{first} + near_{s} * {each}u");
        let inside = [
            (!whole[0]).then(|| format!("{row} < p.m")),
            (!whole[1]).then(|| format!("{col} < p.n")),
            (!even).then(|| format!("e + {}u < {all}u", s * lanes)),
        ];
        let inside = inside.into_iter().flatten().collect::<Vec<_>>().join(" && ");
        let store = format!("store_c(wg.z, {row}, {col}, sum_{s});");
        if inside.is_empty() {
            writeln!(text, "        {store}")?;
        } else {
            writeln!(text, "        if ({inside}) {{\n            {store}\n        }}")?;
        }
    }
    writeln!(text, "    }}")
}
