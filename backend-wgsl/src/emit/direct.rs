//! Operands that go straight from global memory to registers: text that the skinny and the split
//! kernel share.

use core::fmt::{self, Write as _};

use lapidary_core::ElementType;

use super::access;
use super::place::{Strides, times};
use crate::decide::{Fetch, Kernel, Traits};

/// One operand.
pub(super) struct Side {
    pub(super) name: char,
    pub(super) size: char,
    pub(super) origin: &'static str,
    pub(super) element: ElementType,
    pub(super) fetch: Fetch,
    /// Elements along K that share a scale, where they do.
    pub(super) group: Option<u32>,
    pub(super) strides: Strides,
}

impl Side {
    /// A's and B's side.
    pub(super) fn both(kernel: &Kernel, traits: &Traits) -> [Self; 2] {
        let [strides_a, strides_b] = Strides::of(kernel);
        [
            Self {
                name: 'a',
                size: 'm',
                origin: "at.row0",
                element: traits.a,
                fetch: kernel.a,
                group: None,
                strides: strides_a,
            },
            Self {
                name: 'b',
                size: 'n',
                origin: "at.col0",
                element: traits.b,
                fetch: kernel.b,
                group: traits.group,
                strides: strides_b,
            },
        ]
    }

    /// Index of element (0, 0) of the matrix.
    pub(super) fn base(&self) -> String {
        format!("p.{}_base + at.batch * {}", self.name, self.strides.batch)
    }

    /// The scale of the weights of a line at step `k`, as a factor; lines outside the matrix take the
    /// last one's.
    pub(super) fn scale(&self, k: &str, line: &str) -> String {
        if self.group.is_none() {
            return String::new();
        }
        format!(" * b_scale(at.batch, {k}, min({line}, p.{} - 1u))", self.size)
    }

    /// The same for four lines from `line` on.
    pub(super) fn scales(&self, k: &str, line: &str) -> String {
        if self.group.is_none() {
            return String::new();
        }
        format!(" * {}", four_scales(self.size, k, line))
    }
}

/// The scales at step `k` of four lines from `line` on; lines outside the matrix take the last one's.
pub(super) fn four_scales(size: char, k: &str, line: &str) -> String {
    let each: Vec<_> = (0..4)
        .map(|e| format!("b_scale(at.batch, {k}, min({line} + {e}u, p.{size} - 1u))"))
        .collect();
    format!("vec4<f32>({})", each.join(", "))
}

/// `a_at`, one element, and `a_four`, four neighbours along the axis that is fetched along: vector
/// number `i`, or from element `i` on where loads are single.
pub(super) fn loads(text: &mut String, side: &Side) -> fmt::Result {
    let Side { name, element: operand, .. } = *side;
    let data = format!("{name}_data");
    let element = access::element_at(operand, &data, side.fetch.width);
    writeln!(text, "fn {name}_at(i: u32) -> Elem {{\n    return {element};\n}}\n")?;
    let near = if side.fetch.along_k { &side.strides.k } else { &side.strides.line };
    let four = if side.fetch.width == 4 {
        access::four_at(operand, &data)
    } else {
        let elements: Vec<_> =
            (0..4).map(|e| format!("{name}_at(i + {})", times(near, e))).collect();
        format!("vec4<Elem>({})", elements.join(", "))
    };
    writeln!(text, "fn {name}_four(i: u32) -> vec4<Elem> {{\n    return {four};\n}}\n")
}

/// Which quads of four steps along K a group of threads takes.
#[derive(Clone, Copy)]
pub(super) struct Quads {
    /// Groups of threads that take turns.
    pub(super) groups: u32,
    /// Quads that a group has in flight.
    pub(super) flight: u32,
    /// Whether those are neighbours, or every GROUPS-th.
    pub(super) neighbours: bool,
}

impl Quads {
    /// Steps from the first quad in flight to quad `q`.
    pub(super) const fn step(self, q: u32) -> u32 {
        if self.neighbours { 4 * q } else { 4 * self.groups * q }
    }
}

/// The loops over quads: as many as are in flight at a time, then one at a time; `rest` is the first
/// step that belongs to no quad, `first` the group.
pub(super) fn quad_loops(
    text: &mut String,
    quads: Quads,
    first: &str,
    mut body: impl FnMut(&mut String, &str, u32) -> fmt::Result,
) -> fmt::Result {
    let Quads { groups, flight, neighbours } = quads;
    let (stride, round) = (4 * groups, 4 * groups * flight);
    let own = if neighbours { 4 * flight } else { 4 };
    writeln!(
        text,
        "    let whole = k_begin + k_length / {round}u * {round}u;\n    \
         let rest = k_begin + k_length / 4u * 4u;\n    \
         for (var k = k_begin + {first} * {own}u; k < whole; k += {round}u) {{"
    )?;
    body(text, "        ", flight)?;
    writeln!(text, "    }}\n    for (var k = whole + {first} * 4u; k < rest; k += {stride}u) {{")?;
    body(text, "        ", 1)?;
    writeln!(text, "    }}")
}
