//! The skinny kernel: a C of few rows or few columns.
//!
//! The operand with many lines is read once and from global memory straight to registers, so memory
//! bandwidth is the limit; nothing of it is shared between threads. Which way its lines lie decides
//! how threads share the work:
//!
//! ```text
//! across   lines are neighbours in memory:   8 threads side by side own 4 lines each; groups of 8
//!          take every GROUPS-th quad of steps along K and add up, by shuffles in a subgroup and
//!          through workgroup memory between subgroups
//! along    steps are neighbours in memory:   a team of threads owns LINES lines, each thread every
//!          TEAM-th quad of steps, and the team adds up by a subgroup reduction, or without
//!          subgroups through workgroup memory
//! ```
//!
//! A quad is four steps along K. Several quads are fetched before the first is used, because a
//! thread that waits for one load at a time leaves the memory idle. Where the lines are weights whose
//! groups along K have scales, the quads in flight are neighbours in one group, and fetch its scales
//! once: scales of neighbouring lines are far apart in memory, so they cost more loads than weights.

use core::fmt::{self, Write as _};

use super::access;
use super::direct::{Quads, Side, four_scales, loads, quad_loops};
use super::place::{Slice, in_vectors, times};
use crate::decide::{Kernel, Skinny, Team, Traits};

/// The kernel's body; empty for a kernel of another kind.
pub(super) fn body(kernel: &Kernel, traits: &Traits) -> String {
    let Some(skinny) = kernel.skinny else {
        return String::new();
    };
    let mut text = access::unpack(traits);
    let [a, b] = Side::both(kernel, traits);
    let (few, many) = if skinny.few_rows { (a, b) } else { (b, a) };
    // Writing to a String cannot fail.
    let _ =
        loads(&mut text, &few).and_then(|()| loads(&mut text, &many)).and_then(|()| {
            match skinny.team {
                Team::Across { lanes, groups, together } => {
                    across(&mut text, kernel, &skinny, &few, &many, [lanes, groups, together])
                }
                Team::Along { threads, lines, subgroup } => {
                    let team = Along { threads, lines, subgroup };
                    along(&mut text, kernel, &skinny, &few, &many, &team)
                }
            }
        });
    text
}

/// Four steps along K of the few side's line `r`, from step `k` on, scaled.
fn few_quad(few: &Side, r: u32, k: &str) -> String {
    few_elements(few, r, k) + &few.scale(k, &format!("{r}u"))
}

/// The same as it is stored.
fn few_elements(few: &Side, r: u32, k: &str) -> String {
    let name = few.name;
    if few.fetch.along_k && few.fetch.width == 4 {
        let line = times(&in_vectors(&few.strides.line, 4), r);
        return format!("{name}_four(few_vector + {line} + ({k}) / 4u)");
    }
    let at = format!("few + {} + ({k}) * {}", times(&few.strides.line, r), few.strides.k);
    if few.fetch.along_k {
        return format!("{name}_four({at})");
    }
    let steps: Vec<_> =
        (0..4).map(|e| format!("{name}_at({at} + {})", times(&few.strides.k, e))).collect();
    format!("vec4<Elem>({})", steps.join(", "))
}

fn opening(text: &mut String, kernel: &Kernel, few: &Side) -> fmt::Result {
    writeln!(
        text,
        "@compute @workgroup_size(THREADS)\n\
         fn main(\n    @builtin(workgroup_id) wg: vec3<u32>,\n    \
         @builtin(local_invocation_index) tid: u32,\n) {{"
    )?;
    text.push_str(&Slice::of(kernel).part());
    writeln!(
        text,
        "    let k_end = k_begin + k_length;\n    let few = {};\n    let few_vector = few / 4u;",
        few.base()
    )
}

/// Quads fetched before the first is used.
const fn quads_in_flight(few: u32) -> u32 {
    if few <= 4 { 4 } else { 2 }
}

/// The quads of a group of threads. Those in flight are neighbours where they share scales, which
/// slices of K that start in the middle of them would spoil.
const fn across_order(kernel: &Kernel, few: u32, groups: u32, group: Option<u32>) -> Quads {
    let flight = quads_in_flight(few);
    let Some(length) = group else {
        return Quads { groups, flight, neighbours: false };
    };
    // Groups are of eight steps or a multiple.
    let flight = if length.is_multiple_of(4 * flight) { flight } else { 2 };
    Quads { groups, flight, neighbours: kernel.k_tile.is_multiple_of(4 * flight) }
}

fn across(
    text: &mut String,
    kernel: &Kernel,
    skinny: &Skinny,
    few: &Side,
    many: &Side,
    [lanes, groups, together]: [u32; 3],
) -> fmt::Result {
    let rows = skinny.few;
    // Sums of a line that meet in workgroup memory.
    let parts = groups / together;
    writeln!(text, "var<workgroup> part: array<vec4<Acc>, {}>;\n", lanes * parts)?;
    opening(text, kernel, few)?;
    let Side { name, size, origin, strides, .. } = many;
    writeln!(
        text,
        "    let lane = tid % {lanes}u;\n    let group = tid / {lanes}u;\n    \
         let line = {origin} + lane * 4u;"
    )?;
    // Lines outside the matrix read the last vector inside; single loads are clamped one by one.
    let vectors = many.fetch.width == 4 && !many.fetch.along_k;
    if vectors {
        writeln!(
            text,
            "    let many = ({} + min(line, (p.{size} - 1u) / 4u * 4u) * {}) / 4u;",
            many.base(),
            strides.line
        )?;
    } else {
        for e in 0..4 {
            writeln!(
                text,
                "    let many_{e} = {} + min(line + {e}u, p.{size} - 1u) * {};",
                many.base(),
                strides.line
            )?;
        }
    }
    let step = |k: &str| {
        if vectors {
            format!("{name}_four(many + ({k}) * {})", in_vectors(&strides.k, 4))
        } else {
            let k = format!("({k}) * {}", strides.k);
            let elements: Vec<_> = (0..4).map(|e| format!("{name}_at(many_{e} + {k})")).collect();
            format!("vec4<Elem>({})", elements.join(", "))
        }
    };
    for r in 0..rows {
        writeln!(text, "    var c_{r} = vec4<Acc>();")?;
    }
    let order = across_order(kernel, rows, groups, many.group);
    quad_loops(text, order, "group", |text, indent, quads| {
        if many.group.is_some() && order.neighbours {
            writeln!(text, "{indent}let scales = {};", four_scales(*size, "k", "line"))?;
        }
        for q in 0..quads {
            let scale = match many.group {
                Some(_) if order.neighbours => " * scales".to_owned(),
                _ => many.scales(&format!("k + {}u", order.step(q)), "line"),
            };
            for e in 0..4 {
                let load = step(&format!("k + {}u", order.step(q) + e));
                writeln!(text, "{indent}let w_{q}_{e} = {load}{scale};")?;
            }
        }
        for q in 0..quads {
            for r in 0..rows {
                let x = few_quad(few, r, &format!("k + {}u", order.step(q)));
                writeln!(text, "{indent}let x_{q}_{r} = {x};")?;
                for (e, lane) in ["x", "y", "z", "w"].into_iter().enumerate() {
                    writeln!(text, "{indent}c_{r} += x_{q}_{r}.{lane} * w_{q}_{e};")?;
                }
            }
        }
        Ok(())
    })?;
    writeln!(text, "    if (group < k_end - rest) {{\n        let k = rest + group;")?;
    writeln!(text, "        let w = {}{};", step("k"), many.scales("k", "line"))?;
    for r in 0..rows {
        writeln!(
            text,
            "        c_{r} += {}_at(few + {} + k * {}){} * w;",
            few.name,
            times(&few.strides.line, r),
            few.strides.k,
            few.scale("k", &format!("{r}u"))
        )?;
    }
    writeln!(text, "    }}")?;
    for r in 0..rows {
        for step in (0..together.ilog2()).map(|power| lanes << power) {
            writeln!(text, "    c_{r} += subgroupShuffleXor(c_{r}, {step}u);")?;
        }
        // The first group of a subgroup has the sums of all of them.
        writeln!(
            text,
            "    workgroupBarrier();\n    \
             if (group % {together}u == 0u) {{\n        \
             part[group / {together}u * {lanes}u + lane] = c_{r};\n    }}\n    \
             workgroupBarrier();\n    \
             for (var half = {}u; half > 0u; half /= 2u) {{\n        \
             if (group < half) {{\n            part[tid] += part[tid + half * {lanes}u];\n        }}\n        \
             workgroupBarrier();\n    }}",
            parts / 2
        )?;
        writeln!(text, "    if (group == 0u) {{")?;
        let few_line = format!("{r}u");
        if kernel.store_width == 4 {
            writeln!(
                text,
                "        if (line < p.{size}) {{\n            \
                 store_c(wg.z, {few_line}, line, part[tid]);\n        }}"
            )?;
        } else {
            for (e, lane) in ["x", "y", "z", "w"].into_iter().enumerate() {
                let line = format!("line + {e}u");
                let (row, col) = place(skinny, &few_line, &line);
                writeln!(
                    text,
                    "        if ({line} < p.{size}) {{\n            \
                     store_c(wg.z, {row}, {col}, part[tid].{lane});\n        }}"
                )?;
            }
        }
        writeln!(text, "    }}")?;
    }
    writeln!(text, "}}")
}

/// Row and column of C for a line of the few and one of the many.
fn place<'t>(skinny: &Skinny, few: &'t str, many: &'t str) -> (&'t str, &'t str) {
    if skinny.few_rows { (few, many) } else { (many, few) }
}

/// How a team shares lines along K.
struct Along {
    threads: u32,
    lines: u32,
    subgroup: bool,
}

fn along(
    text: &mut String,
    kernel: &Kernel,
    skinny: &Skinny,
    few: &Side,
    many: &Side,
    team: &Along,
) -> fmt::Result {
    let Along { threads, lines, subgroup } = *team;
    let rows = skinny.few;
    if !subgroup {
        writeln!(text, "var<workgroup> part: array<Acc, {}>;\n", kernel.threads())?;
    }
    opening(text, kernel, few)?;
    let Side { name, size, origin, strides, .. } = many;
    writeln!(
        text,
        "    let lane = tid % {threads}u;\n    let line = {origin} + tid / {threads}u * {lines}u;"
    )?;
    for l in 0..lines {
        writeln!(
            text,
            "    let many_{l} = {} + min(line + {l}u, p.{size} - 1u) * {};",
            many.base(),
            strides.line
        )?;
        for r in 0..rows {
            writeln!(text, "    var c_{l}_{r} = Acc(0);")?;
        }
    }
    let order = Quads { groups: threads, flight: quads_in_flight(rows), neighbours: false };
    quad_loops(text, order, "lane", |text, indent, quads| {
        for q in 0..quads {
            for l in 0..lines {
                let k = order.step(q);
                let at = if many.fetch.width == 4 && many.fetch.along_k {
                    format!("many_{l} / 4u + (k + {k}u) / 4u")
                } else {
                    format!("many_{l} + (k + {k}u) * {}", strides.k)
                };
                let scale = many.scale(&format!("k + {k}u"), &format!("line + {l}u"));
                writeln!(text, "{indent}let w_{q}_{l} = {name}_four({at}){scale};")?;
            }
        }
        for q in 0..quads {
            for r in 0..rows {
                let x = few_quad(few, r, &format!("k + {}u", order.step(q)));
                writeln!(text, "{indent}let x_{q}_{r} = {x};")?;
                for l in 0..lines {
                    writeln!(text, "{indent}c_{l}_{r} += dot(w_{q}_{l}, x_{q}_{r});")?;
                }
            }
        }
        Ok(())
    })?;
    writeln!(text, "    if (lane < k_end - rest) {{\n        let k = rest + lane;")?;
    for l in 0..lines {
        let scale = many.scale("k", &format!("line + {l}u"));
        writeln!(text, "        let w_{l} = {name}_at(many_{l} + k * {}){scale};", strides.k)?;
        for r in 0..rows {
            writeln!(
                text,
                "        c_{l}_{r} += {}_at(few + {} + k * {}){} * w_{l};",
                few.name,
                times(&few.strides.line, r),
                few.strides.k,
                few.scale("k", &format!("{r}u"))
            )?;
        }
    }
    writeln!(text, "    }}")?;
    for l in 0..lines {
        for r in 0..rows {
            if subgroup {
                writeln!(text, "    let sum_{l}_{r} = subgroupAdd(c_{l}_{r});")?;
            } else {
                writeln!(
                    text,
                    "    workgroupBarrier();\n    part[tid] = c_{l}_{r};\n    \
                     for (var half = {}u; half > 0u; half /= 2u) {{\n        workgroupBarrier();\n        \
                     if (lane < half) {{\n            part[tid] += part[tid + half];\n        }}\n    }}\n    \
                     let sum_{l}_{r} = part[tid];",
                    threads / 2
                )?;
            }
            let few_line = format!("{r}u");
            let line = format!("line + {l}u");
            let (row, col) = place(skinny, &few_line, &line);
            writeln!(
                text,
                "    if (lane == 0u && {line} < p.{size}) {{\n        \
                 store_c(wg.z, {row}, {col}, sum_{l}_{r});\n    }}"
            )?;
        }
    }
    writeln!(text, "}}")
}
