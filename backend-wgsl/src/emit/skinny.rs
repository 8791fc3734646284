//! The skinny kernel: a C of few rows or few columns.
//!
//! The operand with many lines is read once and from global memory straight to registers, so memory
//! bandwidth is the limit; nothing of it is shared between threads. Which way its lines lie decides
//! how threads share the work:
//!
//! ```text
//! across   lines are neighbours in memory:   some threads side by side own 4 or 8 lines each; groups
//!          of them take every GROUPS-th quad of steps along K and add up in their subgroups, then
//!          through workgroup memory
//! along    steps are neighbours in memory:   a team of threads owns LINES lines, each thread every
//!          TEAM-th quad of steps, and the team adds up by a subgroup reduction, or without
//!          subgroups through workgroup memory
//! ```
//!
//! A quad is four steps along K. Several quads are fetched before the first is used, because a
//! thread that waits for one load at a time leaves the memory idle.

use core::fmt::{self, Write as _};

use lapidary_core::ElementType;

use super::access;
use super::direct::{Side, loads, quad_loops};
use super::place::{Slice, in_vectors, times};
use crate::decide::{Kernel, Skinny, Team};

/// The kernel's body; empty for a kernel of another kind.
pub(super) fn body(kernel: &Kernel, operand: ElementType) -> String {
    let Some(skinny) = kernel.skinny else {
        return String::new();
    };
    let mut text = access::unpack(operand).to_owned();
    let [a, b] = Side::both(kernel);
    let (few, many) = if skinny.few_rows { (a, b) } else { (b, a) };
    // Writing to a String cannot fail.
    let _ = loads(&mut text, operand, &few)
        .and_then(|()| loads(&mut text, operand, &many))
        .and_then(|()| match skinny.team {
            Team::Across { lanes, wide, groups, together } => {
                let team = Across { lanes, wide, groups, together };
                across(&mut text, kernel, &skinny, operand, [&few, &many], &team)
                    .and_then(|()| writeln!(text, "}}"))
            }
            Team::Along { threads, lines, subgroup } => {
                let team = Along { threads, lines, subgroup };
                along(&mut text, kernel, &skinny, &few, &many, &team)
            }
        });
    text
}

/// Four steps along K of the few side's line `r`, from step `k` on.
fn few_quad(few: &Side, r: u32, k: &str) -> String {
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

/// The kernel's sizes where lines are neighbours in memory.
struct Across {
    lanes: u32,
    wide: u32,
    groups: u32,
    together: u32,
}

impl Across {
    /// Vectors of four lines a thread sums.
    const fn vectors(&self) -> u32 {
        self.wide / 4
    }

    /// Sums of a line that meet in workgroup memory.
    const fn parts(&self) -> u32 {
        self.groups / self.together
    }
}

/// How a thread loads its lines of the other operand.
struct LineLoads<'s> {
    many: &'s Side,
    operand: ElementType,
    /// Elements a load fetches across K: 1, 4 or 8.
    width: u32,
    wide: u32,
}

impl<'s> LineLoads<'s> {
    fn new(many: &'s Side, operand: ElementType, wide: u32) -> Self {
        // A packed B has its vectors along K, whatever the plan's B had: its elements are taken singly.
        let width = if many.fetch.along_k { 1 } else { many.fetch.width };
        Self { many, operand, width, wide }
    }

    /// Where the loads begin. Lines outside the matrix read the last vector inside; single loads are
    /// clamped one by one.
    fn places(&self, text: &mut String) -> fmt::Result {
        let Side { size, strides, .. } = self.many;
        let base = self.many.base();
        let width = self.width;
        for (load, line) in (0..self.wide).step_by(width as usize).enumerate() {
            let (last, whole) = if width == 1 {
                (format!("p.{size} - 1u"), String::new())
            } else {
                (format!("(p.{size} - 1u) / {width}u * {width}u"), format!(" / {width}u"))
            };
            writeln!(
                text,
                "    let many_{load} = ({base} + min(line + {line}u, {last}) * {}){whole};",
                strides.line
            )?;
        }
        Ok(())
    }

    /// The loads of step `k` into names that begin with `name`.
    fn fetch(&self, text: &mut String, indent: &str, name: &str, k: &str) -> fmt::Result {
        let Side { name: side, strides, .. } = self.many;
        let stride = if self.width == 1 {
            strides.k.clone()
        } else {
            in_vectors(&strides.k, self.width)
        };
        let at = |load: u32| format!("many_{load} + ({k}) * {stride}");
        match self.width {
            8 => writeln!(text, "{indent}let {name} = {side}_data[{}];", at(0)),
            4 => (0..self.wide / 4).try_for_each(|v| {
                writeln!(text, "{indent}let {name}_{v} = {side}_four({});", at(v))
            }),
            _ => (0..self.wide / 4).try_for_each(|v| {
                let lines: Vec<_> =
                    (4 * v..4 * v + 4).map(|line| format!("{side}_at({})", at(line))).collect();
                writeln!(text, "{indent}let {name}_{v} = vec4<Elem>({});", lines.join(", "))
            }),
        }
    }

    /// Four lines of what was loaded.
    fn four(&self, name: &str, v: u32) -> String {
        match self.width {
            8 => access::half_of(self.operand, name, v),
            _ => format!("{name}_{v}"),
        }
    }
}

fn across(
    text: &mut String,
    kernel: &Kernel,
    skinny: &Skinny,
    operand: ElementType,
    [few, many]: [&Side; 2],
    team: &Across,
) -> fmt::Result {
    let rows = skinny.few;
    let Across { lanes, wide, groups, .. } = *team;
    let vectors = team.vectors();
    writeln!(
        text,
        "var<workgroup> part: array<vec4<Acc>, {}>;\n",
        team.parts() * lanes * vectors
    )?;
    opening(text, kernel, few)?;
    writeln!(
        text,
        "    let lane = tid % {lanes}u;\n    let group = tid / {lanes}u;\n    \
         let line = {} + lane * {wide}u;",
        many.origin
    )?;
    let loads = LineLoads::new(many, operand, wide);
    loads.places(text)?;
    for r in 0..rows {
        for v in 0..vectors {
            writeln!(text, "    var c_{r}_{v} = vec4<Acc>();")?;
        }
    }
    let stride = 4 * groups;
    quad_loops(text, stride, skinny.flight, "group", |text, indent, quads| {
        for q in 0..quads {
            for e in 0..4 {
                let k = format!("k + {}u", q * stride + e);
                loads.fetch(text, indent, &format!("w_{q}_{e}"), &k)?;
            }
        }
        for q in 0..quads {
            for r in 0..rows {
                let x = few_quad(few, r, &format!("k + {}u", q * stride));
                writeln!(text, "{indent}let x_{q}_{r} = {x};")?;
            }
            for (e, lane) in ["x", "y", "z", "w"].into_iter().enumerate() {
                for v in 0..vectors {
                    let w = loads.four(&format!("w_{q}_{e}"), v);
                    writeln!(text, "{indent}let w_{q}_{e}_of_{v} = {w};")?;
                    for r in 0..rows {
                        writeln!(
                            text,
                            "{indent}c_{r}_{v} += x_{q}_{r}.{lane} * w_{q}_{e}_of_{v};"
                        )?;
                    }
                }
            }
        }
        Ok(())
    })?;
    writeln!(text, "    if (group < k_end - rest) {{\n        let k = rest + group;")?;
    loads.fetch(text, "        ", "w", "k")?;
    for v in 0..vectors {
        writeln!(text, "        let w_of_{v} = {};", loads.four("w", v))?;
    }
    for r in 0..rows {
        writeln!(
            text,
            "        let x_{r} = {}_at(few + {} + k * {});",
            few.name,
            times(&few.strides.line, r),
            few.strides.k
        )?;
        for v in 0..vectors {
            writeln!(text, "        c_{r}_{v} += x_{r} * w_of_{v};")?;
        }
    }
    writeln!(text, "    }}")?;
    (0..rows).try_for_each(|r| add_up(text, skinny, many, team, r))
}

/// Adds up a row's sums of all groups and stores them.
fn add_up(
    text: &mut String,
    skinny: &Skinny,
    many: &Side,
    team: &Across,
    r: u32,
) -> fmt::Result {
    let Across { lanes, together, .. } = *team;
    let (vectors, parts) = (team.vectors(), team.parts());
    for v in 0..vectors {
        for step in (0..together.ilog2()).map(|power| lanes << power) {
            writeln!(text, "    c_{r}_{v} += subgroupShuffleXor(c_{r}_{v}, {step}u);")?;
        }
    }
    if r > 0 {
        writeln!(text, "    workgroupBarrier();")?;
    }
    let row = lanes * vectors;
    writeln!(
        text,
        "    if (group % {together}u == 0u) {{\n        let slot = group / {together}u * {row}u + lane;"
    )?;
    for v in 0..vectors {
        writeln!(text, "        part[slot + {}u] = c_{r}_{v};", v * lanes)?;
    }
    writeln!(
        text,
        "    }}\n    for (var half = {}u; half > 0u; half /= 2u) {{\n        workgroupBarrier();\n        \
         if (tid < half * {row}u) {{\n            part[tid] += part[tid + half * {row}u];\n        \
         }}\n    }}",
        parts / 2
    )?;
    if parts == 1 {
        writeln!(text, "    workgroupBarrier();")?;
    }
    writeln!(text, "    if (tid < {row}u) {{\n        let first = {} + tid % {lanes}u * {}u + tid / {lanes}u * 4u;", many.origin, team.wide)?;
    for (e, lane) in ["x", "y", "z", "w"].into_iter().enumerate() {
        let (few_line, line) = (format!("{r}u"), format!("first + {e}u"));
        let (row, col) = place(skinny, &few_line, &line);
        writeln!(
            text,
            "        if ({line} < p.{}) {{\n            \
             store_c(wg.z, {row}, {col}, part[tid].{lane});\n        }}",
            many.size
        )?;
    }
    writeln!(text, "    }}")
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
    let flight = skinny.flight;
    let stride = 4 * threads;
    quad_loops(text, stride, flight, "lane", |text, indent, quads| {
        for q in 0..quads {
            for l in 0..lines {
                let k = q * stride;
                let at = if many.fetch.width == 4 && many.fetch.along_k {
                    format!("many_{l} / 4u + (k + {k}u) / 4u")
                } else {
                    format!("many_{l} + (k + {k}u) * {}", strides.k)
                };
                writeln!(text, "{indent}let w_{q}_{l} = {name}_four({at});")?;
            }
        }
        for q in 0..quads {
            for r in 0..rows {
                let x = few_quad(few, r, &format!("k + {}u", q * stride));
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
        writeln!(text, "        let w_{l} = {name}_at(many_{l} + k * {});", strides.k)?;
        for r in 0..rows {
            writeln!(
                text,
                "        c_{l}_{r} += {}_at(few + {} + k * {}) * w_{l};",
                few.name,
                times(&few.strides.line, r),
                few.strides.k
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
