//! From matrix units to memory.
//!
//! f32 sums go straight from the matrices to memory where nothing happens to them on the way and no block is
//! cut by an edge. Elsewhere each subgroup passes one 16×16 matrix after the other through workgroup
//! memory of its own to `store_c`.
//!
//! f16 sums always have to become f32, which cooperative matrices cannot in WGSL. They pass through the
//! tile of A, which nobody reads any more, in rows of as many matrices as it holds:
//!
//! ```text
//! tile_a[own + line · PITCH + col/4]     16 lines of 16·count columns, two vectors of padding
//! ```

use core::fmt::{self, Write as _};

use crate::decide::Kernel;

/// The sums of every subgroup to C, or to where raw sums go.
pub(super) fn store(text: &mut String, kernel: &Kernel, fused: bool) -> fmt::Result {
    if kernel.stores_directly() {
        directly(text, kernel, fused)
    } else if kernel.sums_in_f16() {
        through_tile(text, kernel)
    } else {
        one_by_one(text, kernel)
    }
}

/// Matrices straight to memory, row-major: raw sums, or C where nothing happens to them.
fn directly(text: &mut String, kernel: &Kernel, fused: bool) -> fmt::Result {
    let [rows, cols] = kernel.fragments();
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
                i * 16,
                j * 16
            )?;
        }
    }
    Ok(())
}

/// f32 matrices to `store_c` through workgroup memory, one of each subgroup at a time.
fn one_by_one(text: &mut String, kernel: &Kernel) -> fmt::Result {
    let [rows, cols] = kernel.fragments();
    writeln!(
        text,
        "    let lane = tid % 32u;\n    let own = tid / 32u * 256u;\n    let sixteen = 16u;"
    )?;
    for i in 0..rows {
        for j in 0..cols {
            writeln!(
                text,
                "    workgroupBarrier();\n    \
                 coopStoreT(c_{i}_{j}, &stage[own], sixteen);\n    \
                 workgroupBarrier();\n    \
                 for (var e = lane; e < 256u; e += 32u) {{\n        \
                 let row = at.row0 + sub_row + {}u + e / 16u;\n        \
                 let col = at.col0 + sub_col + {}u + e % 16u;\n        \
                 if (row < p.m && col < p.n) {{\n            \
                 store_c(wg.z, row, col, stage[own + e]);\n        }}\n    }}",
                i * 16,
                j * 16
            )?;
        }
    }
    Ok(())
}

/// f16 matrices to `store_c` through the tile of A, a row of them of each subgroup at a time.
fn through_tile(text: &mut String, kernel: &Kernel) -> fmt::Result {
    let [rows, cols] = kernel.fragments();
    let count = kernel.staged_matrices();
    // In vectors of four.
    let pitch = count * 4 + 2;
    writeln!(
        text,
        "    let lane = tid % 32u;\n    let own = tid / 32u * {}u;\n    let pitch = {pitch}u;",
        16 * pitch
    )?;
    for j in 0..count {
        writeln!(text, "    let to_{j} = own + {}u;", j * 4)?;
    }
    for i in 0..rows {
        for first in (0..cols).step_by(count as usize) {
            writeln!(text, "    workgroupBarrier();")?;
            for j in 0..count {
                writeln!(text, "    coopStoreT(c_{i}_{}, &tile_a[to_{j}], pitch);", first + j)?;
            }
            // Vectors of a line.
            let vectors = count * 4;
            writeln!(
                text,
                "    workgroupBarrier();\n    \
                 for (var e = lane; e < {}u; e += 32u) {{\n        \
                 let row = at.row0 + sub_row + {}u + e / {vectors}u;\n        \
                 let col = at.col0 + sub_col + {}u + e % {vectors}u * 4u;\n        \
                 let four = vec4<f32>(tile_a[own + e / {vectors}u * pitch + e % {vectors}u]);",
                16 * vectors,
                i * 16,
                first * 16
            )?;
            if kernel.store_width == 4 {
                writeln!(
                    text,
                    "        if (row < p.m && col < p.n) {{\n            \
                     store_c(wg.z, row, col, four);\n        }}"
                )?;
            } else {
                for lane in 0..4 {
                    writeln!(
                        text,
                        "        if (row < p.m && col + {lane}u < p.n) {{\n            \
                         store_c(wg.z, row, col + {lane}u, four[{lane}]);\n        }}"
                    )?;
                }
            }
            writeln!(text, "    }}")?;
        }
    }
    Ok(())
}
