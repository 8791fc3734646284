//! Non-finite, zero, subnormal and extreme numbers in every operand.

use lapidary_core::element::read_f64;
use lapidary_core::testing::{Case, Values};
use lapidary_core::{Activation, ElementType, KernelChoice};
use serde::{Deserialize, Serialize};

use super::metrics::round;
use super::{Attempt, Fault, Findings, poison, reference, shorten, unsuitable, view};
use crate::adapter::{Adapter, Job, Types};
use crate::spec::{Route, Spec};
use crate::tier::Tier;

/// Where a special number is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Place {
    /// One element of A: its row of C may show it.
    A,
    /// One element of B: its column may.
    B,
    /// One element of C, with beta = 1.
    C,
    /// One element of the bias: its column may.
    Bias,
    /// The scale of one row of A.
    RowScale,
    /// The scale of one column of B.
    ColScale,
    /// The scale of the first block of a row of A.
    BlockScaleA,
    /// The scale of the first block of a column of B.
    BlockScaleB,
    /// The scale of the first group of a column of B.
    GroupScale,
}

impl Place {
    const ALL: [Self; 9] = [
        Self::A,
        Self::B,
        Self::C,
        Self::Bias,
        Self::RowScale,
        Self::ColScale,
        Self::BlockScaleA,
        Self::BlockScaleB,
        Self::GroupScale,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::Bias => "bias",
            Self::RowScale => "row scale",
            Self::ColScale => "column scale",
            Self::BlockScaleA => "block scale of A",
            Self::BlockScaleB => "block scale of B",
            Self::GroupScale => "group scale",
        }
    }
}

/// One cell of the matrix of special values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Observation {
    /// The kernel asked for.
    pub kernel: String,
    /// The element types.
    pub types: String,
    /// Where the number was.
    pub place: Place,
    /// Its name.
    pub value: String,
    /// What the elements it reaches became.
    pub found: String,
    /// Whether that is what IEEE arithmetic gives.
    pub as_ieee: bool,
    /// Whether the backend promises it.
    pub required: bool,
}

const SHAPE: [usize; 3] = [6, 10, 35];
const ROW: usize = 2;
const COL: usize = 4;
const INNER: usize = 3;

/// Special numbers of a type, as codes.
fn codes(element: ElementType) -> Vec<(&'static str, u64)> {
    match (element, element.format()) {
        (ElementType::F32, _) => vec![
            ("NaN", u64::from(f32::NAN.to_bits())),
            ("+inf", u64::from(f32::INFINITY.to_bits())),
            ("-inf", u64::from(f32::NEG_INFINITY.to_bits())),
            ("-0", 1 << 31),
            ("smallest subnormal", 1),
            ("largest subnormal", 0x7f_ffff),
            ("largest", u64::from(f32::MAX.to_bits())),
        ],
        (ElementType::F64, _) => vec![
            ("NaN", f64::NAN.to_bits()),
            ("+inf", f64::INFINITY.to_bits()),
            ("-inf", f64::NEG_INFINITY.to_bits()),
            ("-0", 1 << 63),
            ("smallest subnormal", 1),
            ("largest subnormal", (1 << 52) - 1),
            ("largest", f64::MAX.to_bits()),
        ],
        (ElementType::E8M0, _) => {
            vec![("NaN", 0xff), ("smallest, subnormal in f32", 0), ("largest", 0xfe)]
        }
        (ElementType::I8, _) => vec![("smallest", 0x80), ("largest", 0x7f)],
        (ElementType::I4, _) => vec![("smallest", 0x8), ("largest", 0x7)],
        (ElementType::I32, _) => vec![("smallest", 1 << 31), ("largest", (1 << 31) - 1)],
        (_, Some(format)) => {
            let sign = 1 << (format.bits() - 1);
            let mut all = Vec::new();
            if let Some(nan) = format.nan() {
                all.push(("NaN", u64::from(nan)));
            }
            if let Some(infinity) = format.infinity() {
                all.push(("+inf", u64::from(infinity)));
                all.push(("-inf", u64::from(sign | infinity)));
            }
            if !element.is_fnuz() {
                all.push(("-0", u64::from(sign)));
            }
            all.push(("smallest subnormal", 1));
            all.push(("largest subnormal", (1 << format.fraction_bits) - 1));
            all.push(("largest", u64::from(format.max_code())));
            all
        }
        _ => Vec::new(),
    }
}

/// Puts every special number of these types in every place, one at a time, and applies `activation`.
///
/// Elements that the number cannot reach must keep the bits they have without it. Those that it
/// reaches must be what the oracle says: always for finite numbers, and for others where the backend
/// promises it.
///
/// The sign of a zero is shown and never required: it depends on whether absent terms of the epilogue are
/// added as zeros, of which BLAS says nothing.
pub fn special_values(
    adapter: &dyn Adapter,
    kernel: KernelChoice,
    types: Types,
    activation: Activation,
) -> Findings<Observation> {
    let mut findings = Findings::default();
    for place in Place::ALL {
        let Some(mut problem) = problem(types, place, adapter.has_scales()) else {
            findings.left_out.push(format!("no {} with these types", place.name()));
            continue;
        };
        problem.activation = activation;
        for (name, code) in codes(element(&problem, place)) {
            let cell = Cell { adapter, kernel, spec: &problem, place, name };
            findings.add(|| format!("{name} in {} {problem}", place.name()), cell.run(code));
        }
    }
    findings
}

/// The type of what is at a place.
fn element(spec: &Spec, place: Place) -> ElementType {
    match place {
        Place::A => spec.types[0],
        Place::B => spec.types[1],
        Place::C => spec.types[2],
        Place::Bias => spec.problem().bias_element(),
        Place::RowScale | Place::ColScale | Place::GroupScale => ElementType::F32,
        Place::BlockScaleA | Place::BlockScaleB => ElementType::E8M0,
    }
}

/// The problem for a place, if these types have that place.
fn problem(types: Types, place: Place, has_scales: bool) -> Option<Spec> {
    let [m, n, k] = SHAPE;
    let k = if types.in_blocks() { 64 } else { k };
    let mut spec = Spec::new("special", "special values", [m, n, k]);
    spec.set_types(types);
    match place {
        Place::A | Place::B => {}
        Place::C => spec.beta = 1.0,
        Place::Bias => spec.bias = true,
        Place::RowScale => spec.row_scale = true,
        Place::ColScale => spec.col_scale = true,
        Place::BlockScaleA | Place::BlockScaleB if types.block_scales => {}
        Place::GroupScale if types.groups => {}
        Place::BlockScaleA | Place::BlockScaleB | Place::GroupScale => return None,
    }
    let scales = spec.row_scale || spec.col_scale;
    if scales && !has_scales {
        return None;
    }
    spec.laid_out().is_ok().then_some(spec)
}

struct Cell<'s> {
    adapter: &'s dyn Adapter,
    kernel: KernelChoice,
    spec: &'s Spec,
    place: Place,
    name: &'static str,
}

impl Cell<'_> {
    fn run(&self, code: u64) -> Result<Attempt<Observation>, Fault> {
        let mut case = self.base();
        if let Some(reason) = unsuitable(self.adapter, &self.kernel, &case) {
            return Ok(Attempt::LeftOut(reason));
        }
        let clean = self.execute(&mut case.clone())?;
        self.put(&mut case, code);
        shorten(self.adapter, &self.kernel, &mut case);
        let promises = self.adapter.promises();
        let sums = self.adapter.sum_type(&self.kernel);
        let strict = reference(Tier::Exact, &case, crate::adapter::Promises::all(), sums)?;
        let lenient = reference(Tier::Exact, &case, promises, sums)?;
        let after = self.execute(&mut case)?;
        let (found, before) = (view(&case, &after)?, view(&case, &clean)?);

        let broken = case.c.broken_canaries(&after);
        if !broken.is_empty() {
            return Err(Fault::new(Tier::Canaries, format!("{} elements outside C", broken.len())));
        }
        let mut reached = Vec::new();
        for &at in strict.positions() {
            let value = found.get(at.batch, at.row, at.col);
            if self.reaches(at.row, at.col) {
                reached.push((value, strict.values()[reached_index(&at, case.problem.n)]));
            } else if value.to_bits() != before.get(at.batch, at.row, at.col).to_bits() {
                return Err(Fault::new(
                    Tier::SpecialValues,
                    format!("reached element {at}, which it has nothing to do with"),
                ));
            }
        }
        let comparison = lenient.compare(&found);
        if !comparison.passed() {
            return Err(Fault::new(Tier::SpecialValues, comparison.to_string()));
        }
        let (as_ieee, required) = if self.name == "-0" || self.name.contains("subnormal") {
            // The bound covers these; what is of interest is whether the very number comes out.
            // A narrower type of sums may not hold it.
            let narrow = sums.filter(|_| self.is_summed());
            let same = |(value, expected): &(f64, f64)| {
                let is = |number| *value == round(case.problem.c, number);
                is(*expected) || narrow.is_some_and(|sums| is(round(sums, *expected)))
            };
            (reached.iter().all(same), self.name == "-0" || promises.subnormals)
        } else {
            let required = promises.non_finite || self.element_is_finite(code);
            (strict.compare(&found).passed(), required)
        };
        let seen = describe(&reached);
        if required && !as_ieee {
            return Err(Fault::new(Tier::SpecialValues, format!("became {seen}")));
        }
        Ok(Attempt::Done(Observation {
            kernel: self.kernel.name(),
            types: match self.spec.activation {
                Activation::None => self.spec.type_name(),
                activation => format!("{} {activation}", self.spec.type_name()),
            },
            place: self.place,
            value: self.name.to_owned(),
            found: seen,
            as_ieee,
            required,
        }))
    }

    /// Ones in A and B, but zeros beside the special number: what it is multiplied with is 1, once 0.
    fn base(&self) -> Case {
        let mut case = self.spec.case(Values::SmallIntegers(1), 11);
        let place = self.place;
        case.a.map(|_, r, c, _| match place {
            Place::A => f64::from(u8::from(r != ROW)),
            Place::B => f64::from(u8::from(!(c == INNER && r == 1))),
            // The product is 0 where C, bias and scales are looked at.
            Place::C => f64::from(u8::from(r != ROW)),
            Place::Bias => 0.0,
            _ => f64::from(u8::from(c == INNER)),
        });
        case.b.map(|_, _, c, _| match place {
            Place::B => f64::from(u8::from(c != COL)),
            _ => 1.0,
        });
        case.fill_block_scales();
        case
    }

    fn put(&self, case: &mut Case, code: u64) {
        let put = |bytes: &mut Vec<u8>, index: usize, size: usize| {
            bytes[index * size..][..size].copy_from_slice(&code.to_le_bytes()[..size]);
        };
        // Of every row and column, blocks and groups being as long.
        let blocks = case.problem.k / 32;
        match self.place {
            Place::A => case.a.set_code([0, ROW, INNER], code),
            Place::B => case.b.set_code([0, INNER, COL], code),
            Place::C => case.c.set_code([0, ROW, COL], code),
            Place::Bias => {
                let size = case.problem.bias_element().size();
                put(&mut case.bias, COL, size);
            }
            Place::RowScale => put(&mut case.row_scale, ROW, 4),
            Place::ColScale => put(&mut case.col_scale, COL, 4),
            Place::BlockScaleA => put(&mut case.a_block_scales, ROW * blocks, 1),
            Place::BlockScaleB => put(&mut case.b_block_scales, COL * blocks, 1),
            Place::GroupScale => put(&mut case.b_group_scales, COL * blocks, 4),
        }
    }

    fn reaches(&self, row: usize, col: usize) -> bool {
        match self.place {
            Place::A | Place::RowScale | Place::BlockScaleA => row == ROW,
            Place::B | Place::Bias | Place::ColScale | Place::BlockScaleB | Place::GroupScale => {
                col == COL
            }
            Place::C => row == ROW && col == COL,
        }
    }

    /// Whether the number is a factor of the products that are summed.
    fn is_summed(&self) -> bool {
        match self.place {
            Place::A | Place::B => true,
            Place::BlockScaleA | Place::BlockScaleB | Place::GroupScale => true,
            Place::C | Place::Bias | Place::RowScale | Place::ColScale => false,
        }
    }

    fn element_is_finite(&self, code: u64) -> bool {
        read_f64(element(self.spec, self.place), &code.to_le_bytes(), 0).is_finite()
    }

    fn execute(&self, case: &mut Case) -> Result<Vec<u8>, Fault> {
        poison(case);
        let job = Job::new(case, self.kernel, Route::Device).without_inputs();
        match self.adapter.execute(&job) {
            Ok(executed) => Ok(executed.c),
            Err(error) => Err(Fault::of(self.adapter, &error)),
        }
    }
}

fn reached_index(at: &lapidary_core::oracle::Position, n: usize) -> usize {
    at.row * n + at.col
}

/// The values that the reached elements have, in words.
fn describe(reached: &[(f64, f64)]) -> String {
    let class = |x: f64| -> String {
        if x.is_nan() {
            "NaN".into()
        } else if x.is_infinite() {
            if x > 0.0 { "+inf".into() } else { "-inf".into() }
        } else if x == 0.0 {
            if x.is_sign_negative() { "-0".into() } else { "0".into() }
        } else {
            format!("{x:e}")
        }
    };
    let mut classes: Vec<String> = Vec::new();
    for (value, _) in reached {
        let class = class(*value);
        if !classes.contains(&class) {
            classes.push(class);
        }
    }
    classes.join(", ")
}
