//! Vector compares: a lane mask in VCC or a scalar pair, and in EXEC for the `v_cmpx` forms.

use std::cmp::Ordering;

use crate::exec::ops::{Compare, CompareType, Relation};
use crate::exec::round;
use crate::exec::wave::{Wave, number};
use crate::isa::Instruction;

/// Whether the relation holds for an ordering; `None` is unordered.
fn holds(relation: Relation, ordering: Option<Ordering>) -> bool {
    use Ordering::{Equal, Greater, Less};
    match relation {
        Relation::False | Relation::Class => false,
        Relation::Less => ordering == Some(Less),
        Relation::Equal => ordering == Some(Equal),
        Relation::LessEqual => matches!(ordering, Some(Less | Equal)),
        Relation::Greater => ordering == Some(Greater),
        Relation::NotEqual => matches!(ordering, Some(Less | Greater)),
        Relation::GreaterEqual => matches!(ordering, Some(Greater | Equal)),
        Relation::Ordered => ordering.is_some(),
        Relation::Unordered => ordering.is_none(),
        Relation::NotGreaterEqual => !matches!(ordering, Some(Greater | Equal)),
        Relation::NotLessGreater => !matches!(ordering, Some(Less | Greater)),
        Relation::NotGreater => ordering != Some(Greater),
        Relation::NotLessEqual => !matches!(ordering, Some(Less | Equal)),
        Relation::NotEqualOrUnordered => ordering != Some(Equal),
        Relation::NotLess => ordering != Some(Less),
        Relation::True => true,
    }
}

/// Packs one truth value a lane.
#[inline]
fn mask(f: impl Fn(usize) -> bool) -> u64 {
    let mut bits = 0u64;
    for lane in 0..64 {
        bits |= u64::from(f(lane)) << lane;
    }
    bits
}

/// The class of a float, as one bit of the class mask: signalling NaN, quiet NaN, -infinity, -normal, -subnormal, -0, +0,
/// +subnormal, +normal, +infinity.
fn class(x: f64, quiet: bool, subnormal: bool) -> u32 {
    let negative = x.is_sign_negative();
    let bit = if x.is_nan() {
        if quiet { 1 } else { 0 }
    } else if x.is_infinite() {
        if negative { 2 } else { 9 }
    } else if x == 0.0 {
        if negative { 5 } else { 6 }
    } else if subnormal {
        if negative { 4 } else { 7 }
    } else if negative {
        3
    } else {
        8
    };
    1 << bit
}

fn classes(w: &mut Wave, i: &Instruction, ty: CompareType) -> u64 {
    match ty {
        CompareType::F64 => {
            let (a, b) = (w.double(i, 0), w.int(i, 1));
            mask(|lane| {
                let x = f64::from_bits(a[lane]);
                class(x, a[lane] >> 51 & 1 == 1, x.is_subnormal()) & b[lane] != 0
            })
        }
        CompareType::F16 => {
            let (a, b) = (w.half(i, 0), w.int(i, 1));
            mask(|lane| {
                let x = f64::from(round::from_f16(a[lane]));
                class(x, a[lane] >> 9 & 1 == 1, a[lane] & 0x7c00 == 0) & b[lane] != 0
            })
        }
        _ => {
            let (a, b) = (w.single(i, 0), w.int(i, 1));
            mask(|lane| {
                let x = f32::from_bits(a[lane]);
                class(f64::from(x), a[lane] >> 22 & 1 == 1, x.is_subnormal()) & b[lane] != 0
            })
        }
    }
}

/// Executes a compare.
pub(crate) fn execute(w: &mut Wave, i: &Instruction, compare: Compare) {
    let relation = compare.relation;
    let bits = if relation == Relation::Class {
        classes(w, i, compare.ty)
    } else {
        match compare.ty {
            CompareType::F16 => {
                let (a, b) = (w.half(i, 0), w.half(i, 1));
                mask(|lane| {
                    let (a, b) = (round::from_f16(a[lane]), round::from_f16(b[lane]));
                    holds(relation, a.partial_cmp(&b))
                })
            }
            CompareType::F32 => {
                let (a, b) = (w.single(i, 0), w.single(i, 1));
                mask(|lane| {
                    let (a, b) = (f32::from_bits(a[lane]), f32::from_bits(b[lane]));
                    holds(relation, a.partial_cmp(&b))
                })
            }
            CompareType::F64 => {
                let (a, b) = (w.double(i, 0), w.double(i, 1));
                mask(|lane| {
                    let (a, b) = (f64::from_bits(a[lane]), f64::from_bits(b[lane]));
                    holds(relation, a.partial_cmp(&b))
                })
            }
            CompareType::I16 => {
                let (a, b) = (w.int16(i, 0), w.int16(i, 1));
                mask(|lane| {
                    holds(relation, Some((a[lane] as u16 as i16).cmp(&(b[lane] as u16 as i16))))
                })
            }
            CompareType::U16 => {
                let (a, b) = (w.int16(i, 0), w.int16(i, 1));
                mask(|lane| holds(relation, Some(a[lane].cmp(&b[lane]))))
            }
            CompareType::I32 => {
                let (a, b) = (w.int(i, 0), w.int(i, 1));
                mask(|lane| holds(relation, Some((a[lane] as i32).cmp(&(b[lane] as i32)))))
            }
            CompareType::U32 => {
                let (a, b) = (w.int(i, 0), w.int(i, 1));
                mask(|lane| holds(relation, Some(a[lane].cmp(&b[lane]))))
            }
            CompareType::I64 => {
                let (a, b) = (w.wide(i, 0, false), w.wide(i, 1, false));
                mask(|lane| holds(relation, Some((a[lane] as i64).cmp(&(b[lane] as i64)))))
            }
            CompareType::U64 => {
                let (a, b) = (w.wide(i, 0, false), w.wide(i, 1, false));
                mask(|lane| holds(relation, Some(a[lane].cmp(&b[lane]))))
            }
        }
    };
    let bits = bits & w.exec();
    w.put_mask(i.dst, bits);
    if compare.exec {
        w.set_pair(number::EXEC, bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negated_relations_hold_for_nan() {
        for (relation, unordered) in [
            (Relation::Less, false),
            (Relation::NotEqual, false),
            (Relation::NotLess, true),
            (Relation::NotEqualOrUnordered, true),
            (Relation::NotLessGreater, true),
            (Relation::Ordered, false),
            (Relation::Unordered, true),
        ] {
            assert_eq!(holds(relation, None), unordered, "{relation:?}");
        }
        assert!(holds(Relation::NotLessGreater, Some(Ordering::Equal)));
        assert!(!holds(Relation::NotLessGreater, Some(Ordering::Less)));
    }

    #[test]
    fn classes_are_numbered_as_documented() {
        assert_eq!(class(f64::NEG_INFINITY, false, false), 1 << 2);
        assert_eq!(class(-0.0, false, false), 1 << 5);
        assert_eq!(class(1.0, false, false), 1 << 8);
        assert_eq!(class(f64::NAN, true, false), 1 << 1);
    }
}
