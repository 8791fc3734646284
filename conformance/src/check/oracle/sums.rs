//! Sums in a narrower type than the accumulator, judged by the same oracle.

use lapidary_core::oracle::Reference;
use lapidary_core::testing::{Case, Values};
use lapidary_core::{ElementType, Problem};

use super::{Fault, Promises, ensure, reference, right, set};
use crate::tier::Tier;

/// The units, the overflow and the type of such sums.
pub(super) fn sums() -> Result<(), Fault> {
    kinds()?;
    units()?;
    overflow()
}

/// Only a narrower type of floats is taken over.
fn kinds() -> Result<(), Fault> {
    use ElementType as E;
    for ([operand, output, sums], expected) in [
        ([E::F16, E::F32, E::F16], E::F16),
        ([E::F64, E::F64, E::F32], E::F32),
        ([E::F32, E::F32, E::F32], E::F32),
        ([E::F32, E::F32, E::F64], E::F32),
        ([E::F32, E::F32, E::I8], E::F32),
        ([E::I8, E::F32, E::F16], E::F32),
    ] {
        let case = Case::new(Problem::new(2, 2, 3).elements(operand, output), Values::Uniform, 1);
        let found = reference(&case)?.summing_in(sums).sum_type();
        ensure(found == expected, || format!("sums of {operand} in {sums} are taken as {found}"))?;
    }
    Ok(())
}

/// How many mismatches, and elements not judged, there are with `value` at `index` of a right result.
fn with(reference: &Reference, case: &Case, index: usize, value: f64) -> Result<[usize; 2], Fault> {
    let mut changed = right(reference, &case.problem)?;
    set(&mut changed, index, value);
    let comparison = reference.compare(&changed.as_ref());
    Ok([comparison.mismatches, comparison.unjudged])
}

/// Of random sums in f16 the promises let 4 of f16's units pass, and not 10, which K alone would not
/// bound at all; and those are units of the product, not of a large C.
fn units() -> Result<(), Fault> {
    for beta in [0.0, 3.0] {
        let problem = Problem::new(6, 5, 3000).elements(ElementType::F16, ElementType::F32);
        let case = Case::new(problem.beta(beta), Values::Uniform, 11);
        let mut promises = Promises::all();
        let sums = Some(ElementType::F16);
        let random = super::super::reference(Tier::Statistical, &case, promises, sums)?;
        promises.truncates = true;
        let truncating = super::super::reference(Tier::Statistical, &case, promises, sums)?;
        let worst = super::super::reference(Tier::WorstCase, &case, promises, sums)?;
        let u = ElementType::F16.unit_roundoff();
        let products: Vec<f64> = random.product_gauges().collect();
        for (index, &value) in random.values().iter().enumerate() {
            for (units, twice) in [(4.0, false), (-4.0, false), (10.0, true), (-10.0, true)] {
                let off = value + units * u * products[index];
                for (reference, wrong) in [(&random, twice), (&truncating, false)] {
                    let found = with(reference, &case, index, off)?;
                    ensure(found == [usize::from(wrong), 0], || {
                        format!("{units} units of f16 at {index} make {found:?} mismatches")
                    })?;
                }
            }
            let unbounded = worst.bound(index) == f64::INFINITY;
            ensure(unbounded, || "there is a bound for 3000 products summed in f16".into())?;
        }
    }
    Ok(())
}

/// Past 65,504 a sum in f16 may become infinite, as the order of its terms has it, before alpha makes it
/// small again; a sum in f32 may not, nor C added to it in f32.
fn overflow() -> Result<(), Fault> {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let problem = |alpha: f64| {
        let k3 = Problem::new(1, 1, 3).elements(ElementType::F16, ElementType::F32);
        k3.alpha(alpha).beta(2.0)
    };
    // Products of A's row with ones; C, results that are right, not judged, and wrong.
    for (alpha, row, c, passes, unjudged, wrong) in [
        (1.0, [6e4, 6e4, -6e4], 0.0, [6e4; 2], &[inf][..], &[-inf, nan, 1e4][..]),
        (-0.5, [6e4, 6e4, 0.0], 0.0, [-6e4; 2], &[-inf], &[inf, nan, -5e4]),
        (1.0, [4e4, 4e4, -8.0], -4e4, [0.0, -8.0], &[inf], &[-inf, nan, 4e4]),
        (1.0, [3e4, 3e4, 0.0], 6e4, [1.8e5; 2], &[], &[inf, -inf, nan]),
        (1.0, [inf, -6e4, 0.0], 0.0, [inf; 2], &[], &[-inf, nan, 0.0]),
        (1.0, [inf, -6e4, -6e4], 0.0, [inf; 2], &[nan], &[-inf, 0.0]),
        (1.0, [inf, -6e4, 0.0], -6e4, [inf; 2], &[], &[-inf, nan, 0.0]),
    ] {
        let mut case = Case::new(problem(alpha), Values::Positive, 2);
        case.a.map(|_, _, k, _| row[k]);
        case.b.fill(1.0);
        case.c.fill(c);
        let wide = reference(&case)?;
        let narrow = wide.clone().summing_in(ElementType::F16);
        for value in passes {
            let found = with(&narrow, &case, 0, value)?;
            ensure(found == [0, 0], || format!("{row:?}: {value} for sums in f16: {found:?}"))?;
        }
        for &value in unjudged {
            let found = [with(&narrow, &case, 0, value)?, with(&wide, &case, 0, value)?];
            ensure(found == [[0, 1], [1, 0]], || {
                format!("{row:?}: {value} for sums in f16, and in f32: {found:?}")
            })?;
        }
        for &value in wrong {
            let found = with(&narrow, &case, 0, value)?;
            ensure(found == [1, 0], || format!("{row:?}: {value} for sums in f16 passes"))?;
        }
    }
    Ok(())
}
