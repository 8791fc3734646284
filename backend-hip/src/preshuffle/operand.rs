//! Which element types the kernel reads and writes, and where.

use lapidary_core::ElementType;

use crate::target::Target;

/// Every element type that A or B may have on some target.
pub const OPERANDS: [ElementType; 10] = [
    ElementType::F32,
    ElementType::F16,
    ElementType::BF16,
    ElementType::I8,
    ElementType::I4,
    ElementType::F8E4M3Fnuz,
    ElementType::F8E5M2Fnuz,
    ElementType::F8E4M3,
    ElementType::F8E5M2,
    ElementType::F4E2M1,
];

/// Every element type that the kernel writes C in.
pub const OUTPUTS: [ElementType; 4] =
    [ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::I32];

/// The only target whose matrix instructions read this operand type, or `None` where both do.
#[must_use]
pub const fn only_on(element: ElementType) -> Option<Target> {
    match element {
        ElementType::F8E4M3Fnuz | ElementType::F8E5M2Fnuz => Some(Target::Gfx942),
        ElementType::F8E4M3 | ElementType::F8E5M2 | ElementType::F4E2M1 => Some(Target::Gfx950),
        _ => None,
    }
}

/// The number `common/gpu.h` gives a type of an operand or of C, `None` where it has none. Flavours
/// of fp8 share one: each target has its own.
pub(crate) const fn type_code(element: ElementType) -> Option<u32> {
    Some(match element {
        ElementType::F32 => 0,
        ElementType::F16 => 1,
        ElementType::BF16 => 2,
        ElementType::I8 => 3,
        ElementType::F8E4M3 | ElementType::F8E4M3Fnuz => 4,
        ElementType::F8E5M2 | ElementType::F8E5M2Fnuz => 5,
        ElementType::I4 => 6,
        ElementType::F4E2M1 => 7,
        ElementType::I32 => 8,
        _ => return None,
    })
}
