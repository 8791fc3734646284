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

use core::fmt::{self, Write as _};

use lapidary_core::policy::{Strip, TileAction};

use crate::decide::{Fetch, Kernel};

/// The kernel's body; empty for a kernel without policies.
pub(super) fn body(kernel: &Kernel) -> String {
    let Some(config) = kernel.config else {
        return String::new();
    };
    let a = Side::new('a', 'm', kernel.block[0], kernel.thread[0], kernel.a, kernel);
    let b = Side::new('b', 'n', kernel.block[1], kernel.thread[1], kernel.b, kernel);
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut text, kernel, &a, &b, config.tile.pad as u32, |text| {
        let tile = &config.tile;
        hook(text, &a, &b, tile.prologue, "    ")?;
        writeln!(text, "    for (var t = 0u; t < strips; t += 1u) {{")?;
        hook(text, &a, &b, tile.prefetch, "        ")?;
        hook(text, &a, &b, tile.acquire, "        ")?;
        strip(text, kernel, &a, &b)?;
        hook(text, &a, &b, tile.release, "        ")?;
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
    fetch: Fetch,
    k_tile: u32,
    threads: u32,
}

impl Side {
    fn new(name: char, size: char, block: u32, thread: u32, fetch: Fetch, kernel: &Kernel) -> Self {
        Self {
            name,
            size,
            block,
            groups: thread / 4,
            fetch,
            k_tile: kernel.k_tile,
            threads: kernel.threads(),
        }
    }

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

    /// Arguments of a load of line `line` at `k`.
    fn position(&self, line: &str, k: &str) -> String {
        if self.name == 'a' { format!("{line}, {k}") } else { format!("{k}, {line}") }
    }
}

fn write(
    text: &mut String,
    kernel: &Kernel,
    a: &Side,
    b: &Side,
    pad: u32,
    main: impl FnOnce(&mut String) -> fmt::Result,
) -> fmt::Result {
    let (pitch_a, pitch_b) = ((a.block + pad) / 4, (b.block + pad) / 4);
    writeln!(text, "const PITCH_A = {pitch_a}u;\nconst PITCH_B = {pitch_b}u;\n")?;
    let buffers = kernel.num_buffers;
    let k = kernel.k_tile;
    writeln!(text, "var<workgroup> tile_a: array<vec4<Elem>, {}>;", buffers * k * pitch_a)?;
    writeln!(text, "var<workgroup> tile_b: array<vec4<Elem>, {}>;\n", buffers * k * pitch_b)?;
    quad(text, a)?;
    quad(text, b)?;
    store_quad(text)?;
    writeln!(
        text,
        "@compute @workgroup_size(THREADS)\n\
         fn main(\n    @builtin(workgroup_id) wg: vec3<u32>,\n    \
         @builtin(local_invocation_index) tid: u32,\n) {{\n    \
         let at = Place(wg.z, wg.y * BM, wg.x * BN, tid);\n    \
         let ty = tid / (BN / TN);\n    let tx = tid % (BN / TN);\n    \
         let strips = (p.k + KT - 1u) / KT;"
    )?;
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
    writeln!(text, "}}")
}

/// `a_quad` or `b_quad`: four neighbouring elements, along k or across it, by single loads; with
/// zeros for what lies outside the matrix, or known to be inside.
fn quad(text: &mut String, side: &Side) -> fmt::Result {
    if side.fetch.width == 4 {
        return Ok(());
    }
    let name = side.name;
    for suffix in ["", "_or_zero"] {
        let elements: Vec<_> = (0..4)
            .map(|e| {
                let (line, k) = if side.fetch.along_k {
                    ("line".to_owned(), format!("k + {e}u"))
                } else {
                    (format!("line + {e}u"), "k".to_owned())
                };
                format!("load_{name}{suffix}(batch, {})", side.position(&line, &k))
            })
            .collect();
        writeln!(
            text,
            "fn {name}_quad{suffix}(batch: u32, line: u32, k: u32) -> vec4<Elem> {{\n    \
             return vec4<Elem>(\n        {});\n}}\n",
            elements.join(",\n        ")
        )?;
    }
    Ok(())
}

fn store_quad(text: &mut String) -> fmt::Result {
    writeln!(
        text,
        "fn store_quad(batch: u32, row: u32, col: u32, inside: bool, acc: vec4<Acc>) {{\n    \
         if (inside || (row < p.m && col < p.n)) {{\n        store_c(batch, row, col, acc.x);\n    }}"
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

/// Where a thread's slots lie in the tile, and the registers they are fetched to.
fn places(text: &mut String, side: &Side) -> fmt::Result {
    let name = side.name;
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
            writeln!(text, "    var {name}_{s}_{v} = vec4<Elem>();")?;
        }
    }
    Ok(())
}

/// A hook's actions, in place.
fn hook(
    text: &mut String,
    a: &Side,
    b: &Side,
    actions: &[TileAction],
    indent: &str,
) -> fmt::Result {
    for action in actions {
        match action {
            TileAction::Barrier => writeln!(text, "{indent}workgroupBarrier();")?,
            TileAction::Fetch(strip) | TileAction::Commit(strip) | TileAction::Load(strip) => {
                let t = match strip {
                    Strip::First => "0u",
                    Strip::Next => "(t + 1u)",
                    _ => "t",
                };
                let guarded = *strip == Strip::Next;
                let inner = if guarded { format!("{indent}    ") } else { indent.to_owned() };
                if guarded {
                    writeln!(text, "{indent}if (t + 1u < strips) {{")?;
                }
                for side in [a, b] {
                    if !matches!(action, TileAction::Commit(_)) {
                        fetch(text, side, t, &inner)?;
                    }
                    if !matches!(action, TileAction::Fetch(_)) {
                        commit(text, side, &inner)?;
                    }
                }
                if guarded {
                    writeln!(text, "{indent}}}")?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Global memory to registers. Inside the matrix nothing is guarded, and one branch decides for all
/// loads, so that they are all in flight together.
fn fetch(text: &mut String, side: &Side, t: &str, indent: &str) -> fmt::Result {
    let Side { name, size, .. } = side;
    let (origin, block) = (side.origin(), side.block_name());
    writeln!(text, "{indent}if ({origin} + {block} <= p.{size} && {t} * KT + KT <= p.k) {{")?;
    for (branch, suffix) in ["", "_or_zero"].into_iter().enumerate() {
        if branch == 1 {
            writeln!(text, "{indent}}} else {{")?;
        }
        for s in 0..side.slots_per_thread() {
            let mut indent = format!("{indent}    ");
            if side.is_partial(s) {
                writeln!(text, "{indent}if ({}) {{", side.has_slot(s))?;
                indent.push_str("    ");
            }
            for v in 0..side.vectors() {
                let line = format!("{origin} + {name}_line_{s} + {v}u");
                let k = format!("{t} * KT + {name}_k_{s}");
                let load = if side.fetch.width == 4 {
                    format!("load_{name}_vector{suffix}(at.batch, {})", side.position(&line, &k))
                } else {
                    format!("{name}_quad{suffix}(at.batch, {line}, {k})")
                };
                writeln!(text, "{indent}{name}_{s}_{v} = {load};")?;
            }
            if side.is_partial(s) {
                writeln!(text, "{}}}", &indent[4..])?;
            }
        }
    }
    writeln!(text, "{indent}}}")
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
                    writeln!(text, "            c_{i}_{j} += a{g}.{lane} * b{j};")?;
                }
            }
        }
        writeln!(text, "        }}")?;
    }
    Ok(())
}

fn stores(text: &mut String, kernel: &Kernel, a: &Side, b: &Side) -> fmt::Result {
    let (group_m, group_n) = (a.block / a.groups, b.block / b.groups);
    writeln!(
        text,
        "    let inside = at.row0 + BM <= p.m && at.col0 + BN <= p.n;\n    \
         let row = at.row0 + ty * 4u;\n    let col = at.col0 + tx * 4u;"
    )?;
    for i in 0..kernel.thread[0] {
        for j in 0..b.groups {
            writeln!(
                text,
                "    store_quad(at.batch, row + {}u, col + {}u, inside, c_{i}_{j});",
                i / 4 * group_m + i % 4,
                j * group_n
            )?;
        }
    }
    Ok(())
}
