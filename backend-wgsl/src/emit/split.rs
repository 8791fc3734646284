//! The split kernel: a block of C small enough that its workgroup shares out K instead.
//!
//! Every group of threads computes the whole block, each thread TM×TN outputs of it, from every
//! GROUPS-th quad of steps along K. Operands go straight from global memory to registers: the threads
//! of a group that need the same vector ask for it at once, and get it by one access of the cache. No
//! thread waits for another before the end, when the groups add up through workgroup memory, in order.
//!
//! ```text
//! group 0   k = 0 … 3,  4·GROUPS …      ┐
//! group 1   k = 4 … 7,  4·GROUPS + 4 …  ├ sums of the same BM×BN outputs → part → C
//! …                                     ┘
//! ```

use core::fmt::{self, Write as _};

use super::direct::{Quads, Side, loads, quad_loops};
use super::place::{Slice, in_vectors};
use super::{access, vector};
use crate::decide::{Kernel, Traits};

/// Quads fetched before the first is used.
const QUADS: u32 = 2;

const LANES: [char; 4] = ['x', 'y', 'z', 'w'];

/// The kernel's body; empty for a kernel without policies.
pub(super) fn body(kernel: &Kernel, traits: &Traits) -> String {
    let Some(config) = kernel.config else {
        return String::new();
    };
    let mut text = access::unpack(traits);
    // Writing to a String cannot fail.
    let _ = write(&mut text, kernel, traits, config.tile.k_groups as u32);
    text
}

/// A thread's lines of one operand: rows of A or columns of B.
struct Lines {
    side: Side,
    count: u32,
    /// The first of them.
    first: String,
}

impl Lines {
    /// Whether a fetch is four neighbouring lines of one step, not four steps of a line.
    const fn by_steps(&self) -> bool {
        self.side.fetch.width == 4 && !self.side.fetch.along_k
    }

    /// Where the lines, or groups of four of them, begin.
    fn places(&self, text: &mut String) -> fmt::Result {
        let Side { name, size, strides, fetch, .. } = &self.side;
        let (step, last) = if self.by_steps() {
            (4, format!("(p.{size} - 1u) / 4u * 4u"))
        } else {
            (1, format!("p.{size} - 1u"))
        };
        for (index, line) in (0..self.count).step_by(step).enumerate() {
            // Lines outside the matrix read the last one inside, and nobody stores their products.
            let line = format!("min({} + {line}u, {last})", self.first);
            let at = format!("{} + {line} * {}", self.side.base(), strides.line);
            let at = if fetch.width == 4 { format!("({at}) / 4u") } else { at };
            writeln!(text, "    let {name}_{index} = {at};")?;
        }
        Ok(())
    }

    /// Loads of the quad `q` from step `k` on.
    fn fetch(&self, text: &mut String, indent: &str, q: u32, k: &str) -> fmt::Result {
        let Side { name, strides, fetch, .. } = &self.side;
        if self.by_steps() {
            let stride = in_vectors(&strides.k, 4);
            for group in 0..self.count / 4 {
                let scale = self.side.scales(k, &format!("{} + {}u", self.first, 4 * group));
                for e in 0..4 {
                    writeln!(
                        text,
                        "{indent}let {name}_{q}_{group}_{e} = \
                         {name}_four({name}_{group} + ({k} + {e}u) * {stride}){scale};"
                    )?;
                }
            }
            return Ok(());
        }
        for line in 0..self.count {
            let load = if fetch.width == 4 {
                format!("{name}_four({name}_{line} + ({k}) / 4u)")
            } else {
                let elements: Vec<_> = (0..4)
                    .map(|e| format!("{name}_at({name}_{line} + ({k} + {e}u) * {})", strides.k))
                    .collect();
                format!("vec4<Elem>({})", elements.join(", "))
            };
            let scale = self.side.scale(k, &format!("{} + {line}u", self.first));
            writeln!(text, "{indent}let {name}_{q}_{line} = {load}{scale};")?;
        }
        Ok(())
    }

    /// Line `line` at step `e` of the quad `q`.
    fn element(&self, q: u32, line: u32, e: usize) -> String {
        let name = self.side.name;
        if self.by_steps() {
            format!("{name}_{q}_{}_{e}.{}", line / 4, LANES[line as usize % 4])
        } else {
            format!("{name}_{q}_{line}.{}", LANES[e])
        }
    }

    /// The four lines from `4 * group` on at step `e` of the quad `q`.
    fn four(&self, q: u32, group: u32, e: usize) -> String {
        if self.by_steps() {
            return format!("{}_{q}_{group}_{e}", self.side.name);
        }
        let elements: Vec<_> = (0..4).map(|line| self.element(q, 4 * group + line, e)).collect();
        format!("vec4<Elem>({})", elements.join(", "))
    }

    /// Line `line` at step `k` alone.
    fn single(&self, line: u32, k: &str) -> String {
        let Side { name, size, strides, .. } = &self.side;
        let scale = self.side.scale(k, &format!("{} + {line}u", self.first));
        let line = format!("min({} + {line}u, p.{size} - 1u)", self.first);
        let base = self.side.base();
        format!("{name}_at({base} + {line} * {} + {k} * {}){scale}", strides.line, strides.k)
    }
}

fn write(text: &mut String, kernel: &Kernel, traits: &Traits, groups: u32) -> fmt::Result {
    let [tm, tn] = kernel.thread;
    let own = kernel.threads() / groups;
    let [a, b] = Side::both(kernel, traits);
    loads(text, &a)?;
    loads(text, &b)?;
    vector::store_quad(text, kernel)?;
    let (vectors, half) = (tm * tn / 4, groups / 2);
    writeln!(text, "const GROUPS = {groups}u;\nconst HALF = {half}u;\nconst OWN = {own}u;\n")?;
    if groups > 1 {
        writeln!(
            text,
            "var<workgroup> part: array<array<array<vec4<Acc>, OWN>, HALF>, {vectors}>;\n"
        )?;
    }
    writeln!(
        text,
        "@compute @workgroup_size(THREADS)\n\
         fn main(\n    @builtin(workgroup_id) wg: vec3<u32>,\n    \
         @builtin(local_invocation_index) tid: u32,\n) {{\n    \
         let group = tid / OWN;\n    let own = tid % OWN;"
    )?;
    text.push_str(&Slice::of(kernel).part());
    writeln!(
        text,
        "    let k_end = k_begin + k_length;\n    \
         let row = at.row0 + own / (BN / TN) * TM;\n    let col = at.col0 + own % (BN / TN) * TN;"
    )?;
    let a = Lines { side: a, count: tm, first: "row".to_owned() };
    let b = Lines { side: b, count: tn, first: "col".to_owned() };
    a.places(text)?;
    b.places(text)?;
    for i in 0..tm {
        for j in 0..tn / 4 {
            writeln!(text, "    var c_{i}_{j} = vec4<Acc>();")?;
        }
    }
    let order = Quads { groups, flight: QUADS, neighbours: false };
    quad_loops(text, order, "group", |text, indent, quads| {
        for q in 0..quads {
            let k = format!("k + {}u", order.step(q));
            a.fetch(text, indent, q, &k)?;
            b.fetch(text, indent, q, &k)?;
        }
        for q in 0..quads {
            for e in 0..4 {
                for j in 0..tn / 4 {
                    writeln!(text, "{indent}let w_{q}_{e}_{j} = {};", b.four(q, j, e))?;
                    for i in 0..tm {
                        let x = a.element(q, i, e);
                        writeln!(text, "{indent}c_{i}_{j} += {x} * w_{q}_{e}_{j};")?;
                    }
                }
            }
        }
        Ok(())
    })?;
    writeln!(text, "    for (var k = rest + group; k < k_end; k += GROUPS) {{")?;
    for j in 0..tn / 4 {
        let elements: Vec<_> = (0..4).map(|e| b.single(4 * j + e, "k")).collect();
        writeln!(text, "        let w_{j} = vec4<Elem>({});", elements.join(", "))?;
    }
    for i in 0..tm {
        writeln!(text, "        let x_{i} = {};", a.single(i, "k"))?;
        for j in 0..tn / 4 {
            writeln!(text, "        c_{i}_{j} += x_{i} * w_{j};")?;
        }
    }
    writeln!(text, "    }}")?;
    writeln!(text, "    let inside = at.row0 + BM <= p.m && at.col0 + BN <= p.n;")?;
    if groups == 1 {
        for v in 0..vectors {
            store(text, "    ", tn, &format!("{v}u"), &sum_name(tn, v))?;
        }
        return writeln!(text, "}}");
    }
    // The upper half of the groups hands its sums to the lower, so that half the memory does.
    writeln!(text, "    if (group >= HALF) {{")?;
    for v in 0..vectors {
        writeln!(text, "        part[{v}][group - HALF][own] = {};", sum_name(tn, v))?;
    }
    writeln!(text, "    }}\n    workgroupBarrier();\n    if (group < HALF) {{")?;
    for v in 0..vectors {
        writeln!(text, "        part[{v}][group][own] += {};", sum_name(tn, v))?;
    }
    writeln!(
        text,
        "    }}\n    workgroupBarrier();\n    \
         for (var v = group; v < {vectors}u; v += GROUPS) {{\n        \
         var sum = part[v][0][own];\n        \
         for (var other = 1u; other < HALF; other += 1u) {{\n            \
         sum += part[v][other][own];\n        }}"
    )?;
    store(text, "        ", tn, "v", "sum")?;
    writeln!(text, "    }}\n}}")
}

/// The sums of vector `v` of a thread's.
fn sum_name(tn: u32, v: u32) -> String {
    format!("c_{}_{}", v / (tn / 4), v % (tn / 4))
}

/// Stores vector number `v`, four neighbours of a row.
fn store(text: &mut String, indent: &str, tn: u32, v: &str, sum: &str) -> fmt::Result {
    let across = tn / 4;
    writeln!(
        text,
        "{indent}store_quad(wg.z, row + {v} / {across}u, col + {v} % {across}u * 4u, inside, {sum});"
    )
}
