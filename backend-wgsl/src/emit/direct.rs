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
    /// Whether groups along K have scales.
    pub(super) grouped: bool,
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
                grouped: false,
                strides: strides_a,
            },
            Self {
                name: 'b',
                size: 'n',
                origin: "at.col0",
                element: traits.b,
                fetch: kernel.b,
                grouped: traits.group.is_some(),
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
        if !self.grouped {
            return String::new();
        }
        format!(" * b_scale(at.batch, {k}, min({line}, p.{} - 1u))", self.size)
    }

    /// The same for four lines from `line` on.
    pub(super) fn scales(&self, k: &str, line: &str) -> String {
        if !self.grouped {
            return String::new();
        }
        let each: Vec<_> = (0..4)
            .map(|e| format!("b_scale(at.batch, {k}, min({line} + {e}u, p.{} - 1u))", self.size))
            .collect();
        format!(" * vec4<f32>({})", each.join(", "))
    }
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

/// The loops over quads: `flight` of them at a time, then one at a time; `rest` is the first step
/// that belongs to no quad.
pub(super) fn quad_loops(
    text: &mut String,
    stride: u32,
    flight: u32,
    first: &str,
    mut body: impl FnMut(&mut String, &str, u32) -> fmt::Result,
) -> fmt::Result {
    let round = stride * flight;
    writeln!(
        text,
        "    let whole = k_begin + k_length / {round}u * {round}u;\n    \
         let rest = k_begin + k_length / 4u * 4u;\n    \
         for (var k = k_begin + {first} * 4u; k < whole; k += {round}u) {{"
    )?;
    body(text, "        ", flight)?;
    writeln!(text, "    }}\n    for (var k = whole + {first} * 4u; k < rest; k += {stride}u) {{")?;
    body(text, "        ", 1)?;
    writeln!(text, "    }}")
}
