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

use crate::decide::{Kernel, MatrixUnits};

/// The sums of every subgroup to C, or to where raw sums go.
pub(super) fn store(text: &mut String, kernel: &Kernel, fused: bool) -> fmt::Result {
    if kernel.stores_directly() { directly(text, kernel, fused) } else { staged(text, kernel) }
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

/// Matrices to `store_c` through workgroup memory, a row of some of them of each subgroup at a time.
fn staged(text: &mut String, kernel: &Kernel) -> fmt::Result {
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
            writeln!(text, "    workgroupBarrier();")?;
            // Threads side by side store neighbours: four each, or where C does not allow that one.
            let each = kernel.store_width;
            let line = count * side / each;
            let (from, value) = if each == 4 {
                (format!("e % {line}u"), String::from("four"))
            } else {
                (format!("e % {line}u / 4u"), format!("four[e % {line}u % 4u]"))
            };
            writeln!(
                text,
                "    for (var e = lane; e < {}u; e += {lanes}u) {{\n        \
                 let row = at.row0 + sub_row + {}u + e / {line}u;\n        \
                 let col = at.col0 + sub_col + {}u + e % {line}u * {each}u;\n        \
                 let four = vec4<f32>({stage}[own + e / {line}u * pitch + {from}]);\n        \
                 if (row < p.m && col < p.n) {{\n            \
                 store_c(wg.z, row, col, {value});\n        }}\n    }}",
                side * line,
                i * side,
                first * side
            )?;
        }
    }
    Ok(())
}
