//! Every code of every operand type read, and every rounding tie of every output type written.
//!
//! C = I · B is B, element by element, through a kernel's own loads and stores: a factor that holds
//! each code once shows how each is decoded, and one that holds the numbers halfway between two
//! neighbours of the output type, and the f32 on either side of them, shows how each is rounded.

use lapidary_core::testing::{Case, Values};
use lapidary_core::{ElementType, KernelChoice, element};
use serde::{Deserialize, Serialize};

use super::{Attempt, Fault, Findings, metrics, poison, reference, unsuitable, view};
use crate::adapter::{Adapter, Job, Promises, Types};
use crate::spec::{Route, Spec};
use crate::tier::Tier;

/// What a pass over codes found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CodeReport {
    /// The kernel asked for.
    pub kernel: String,
    /// The element types.
    pub types: String,
    /// What was converted: `decode A`, `decode B`, `scales A`, `scales B`, `decode C`, `encode C`, and
    /// which part of it where there are several.
    pub what: String,
    /// Codes or ties.
    pub count: usize,
    /// How many came out as they should.
    pub right: usize,
    /// Whether all must.
    pub required: bool,
}

/// Side of the identity.
fn side(types: Types) -> usize {
    let wide = types.elements[..2].iter().any(|t| t.bits() > 8);
    if wide { 64 } else { 32 }
}

/// Reads and writes every code that these types have.
pub fn codes(adapter: &dyn Adapter, kernel: KernelChoice, types: Types) -> Findings<CodeReport> {
    let mut findings = Findings::default();
    let pass = Pass { adapter, kernel, types };
    let [a, b, c] = types.elements;
    let mut note = |what: &str, result: Result<Attempt<CodeReport>, Fault>| {
        let wrong = match &result {
            Ok(Attempt::Done(report)) if report.required && report.right != report.count => {
                Some(format!("{} of {} codes are right", report.right, report.count))
            }
            _ => None,
        };
        let name = format!("{what} {}", pass.spec([1, 1, 32]).type_name());
        if let Some(message) = wrong {
            findings.faults.push((name.clone(), Fault::new(Tier::Codes, message)));
        }
        findings.add(|| name, result);
    };
    // Outputs that hold every value of the operand.
    if matches!(c, ElementType::F32 | ElementType::F64 | ElementType::I32) {
        for (left, element) in [(true, a), (false, b)] {
            if element.bits() <= 16 {
                let what = if left { "decode A" } else { "decode B" };
                note(what, pass.decode(left, false));
                // Of these types a device may count subnormal numbers as zero.
                if element.is_float() && element.bits() == 16 {
                    note(what, pass.decode(left, true));
                }
            }
        }
        if types.block_scales {
            note("scales A", pass.scales(true));
            note("scales B", pass.scales(false));
        }
    }
    if a == ElementType::F32 && c.bits() == 16 {
        note("encode C", pass.ties());
        note("encode C, past the largest", pass.past_the_largest());
    }
    // The sum reads C as it lies; types of its factors matter little.
    if c.bits() <= 16 && a == b && (a == ElementType::F32 || a == c) {
        note("decode C", pass.decode_c(false));
        if c.is_float() {
            note("decode C, subnormal", pass.decode_c(true));
        }
    }
    if a == ElementType::I8 && b == ElementType::I8 && c == ElementType::I8 {
        note("encode C", pass.integer_ties());
    }
    findings
}

/// The finite codes of a type that are subnormal or not as `wanted` says.
fn finite_codes(element: ElementType, wanted: impl Fn(bool) -> bool) -> Vec<u64> {
    let keeps = |code: &u64| {
        let value = element::read_f64(element, &code.to_le_bytes(), 0);
        let is_subnormal = value != 0.0 && value.abs() < element.min_normal();
        value.is_finite() && wanted(element.is_float() && is_subnormal)
    };
    (0..1u64 << element.bits()).filter(keeps).collect()
}

/// Half a step past the largest finite number of a 16-bit type: from there on numbers become infinity.
fn tie_past_the_largest(output: ElementType) -> f32 {
    let half_a_step = output.max_finite() * output.unit_roundoff() / 2.0;
    // The largest number is a step of u short of the next power of two.
    (output.max_finite() + half_a_step / (1.0 - output.unit_roundoff())) as f32
}

struct Pass<'p> {
    adapter: &'p dyn Adapter,
    kernel: KernelChoice,
    types: Types,
}

impl Pass<'_> {
    fn spec(&self, shape: [usize; 3]) -> Spec {
        let mut spec = Spec::new("codes", "every code", shape);
        spec.set_types(self.types);
        spec
    }

    /// A case of this shape, all zeros and with scales of 1.
    fn zeros(&self, shape: [usize; 3]) -> Case {
        let mut case = self.spec(shape).case(Values::SmallIntegers(1), 1);
        case.a.fill(0.0);
        case.b.fill(0.0);
        case.fill_block_scales();
        case
    }

    /// All finite codes of A (or B) against the identity; of a 16-bit float, only the subnormal ones, or
    /// only the others.
    fn decode(&self, left: bool, subnormal: bool) -> Result<Attempt<CodeReport>, Fault> {
        let [a, b, _] = self.types.elements;
        let element = if left { a } else { b };
        let may_flush = element.is_float() && element.bits() == 16;
        let all = finite_codes(element, |is_subnormal| !may_flush || is_subnormal == subnormal);
        let values = all.iter().map(|code| element::read_f64(element, &code.to_le_bytes(), 0));
        if let Some(reason) = self.loses(values) {
            return Ok(Attempt::LeftOut(reason));
        }
        let k = side(self.types);
        let lines = all.len().div_ceil(k).max(8);
        let mut case = self.zeros(if left { [lines, k, k] } else { [k, lines, k] });
        let (factor, identity) =
            if left { (&mut case.a, &mut case.b) } else { (&mut case.b, &mut case.a) };
        identity.map(|_, r, c, _| f64::from(u8::from(r == c)));
        for (index, &code) in all.iter().enumerate() {
            let (line, inner) = (index / k, index % k);
            factor.set_code(if left { [0, line, inner] } else { [0, inner, line] }, code);
        }
        let promises = self.adapter.promises();
        let kept = if element == ElementType::F16 { promises.f16 } else { promises.subnormals };
        let what = match (left, subnormal) {
            (true, false) => "decode A",
            (true, true) => "decode A, subnormal",
            (false, false) => "decode B",
            (false, true) => "decode B, subnormal",
        };
        self.run(case, what, all.len(), !subnormal || kept)
    }

    /// All finite codes of C added to nothing; the subnormal ones, or the others.
    fn decode_c(&self, subnormal: bool) -> Result<Attempt<CodeReport>, Fault> {
        let element = self.types.elements[2];
        let all = finite_codes(element, |is_subnormal| is_subnormal == subnormal);
        let n = 128;
        let mut spec = self.spec([all.len().div_ceil(n), n, 32]);
        spec.beta = 1.0;
        let mut case = spec.case(Values::SmallIntegers(1), 1);
        for operand in [&mut case.a, &mut case.b, &mut case.c] {
            operand.fill(0.0);
        }
        case.fill_block_scales();
        for (index, &code) in all.iter().enumerate() {
            case.c.set_code([0, index / n, index % n], code);
        }
        let promises = self.adapter.promises();
        let kept = if element == ElementType::F16 { promises.f16 } else { promises.subnormals };
        let what = if subnormal { "decode C, subnormal" } else { "decode C" };
        self.run(case, what, all.len(), !subnormal || kept)
    }

    /// Numbers of f32 past the tie after the largest one of a 16-bit output, which become infinity.
    fn past_the_largest(&self) -> Result<Attempt<CodeReport>, Fault> {
        let output = self.types.elements[2];
        let tie = tie_past_the_largest(output);
        let mut values = Vec::new();
        for value in [tie, tie.next_up(), 1.5 * tie, f32::MAX] {
            values.extend([f64::from(value), -f64::from(value)]);
        }
        values.retain(|value| value.is_finite());
        self.encode(values, "encode C, past the largest", self.adapter.promises().non_finite)
    }

    /// Why the kernel cannot show these numbers, if its sums are in a type that does not hold them all.
    fn loses(&self, mut values: impl Iterator<Item = f64>) -> Option<String> {
        let sums = self.adapter.sum_type(&self.kernel)?;
        let lost = values.any(|value| metrics::round(sums, value) != value);
        lost.then(|| format!("the kernel sums in {sums}, which does not hold every code"))
    }

    fn subnormals_kept(&self) -> bool {
        self.adapter.promises().subnormals
    }

    /// Every finite scale of a block, applied to a 1.
    fn scales(&self, left: bool) -> Result<Attempt<CodeReport>, Fault> {
        let lines = 255;
        let values = (0..255).map(|code| element::read_f64(ElementType::E8M0, &[code], 0));
        if let Some(reason) = self.loses(values) {
            return Ok(Attempt::LeftOut(reason));
        }
        let mut case = self.zeros(if left { [lines, 8, 32] } else { [8, lines, 32] });
        case.a.map(|_, _, k, _| f64::from(u8::from(k == 0)));
        case.b.map(|_, k, _, _| f64::from(u8::from(k == 0)));
        let scales = if left { &mut case.a_block_scales } else { &mut case.b_block_scales };
        for (code, scale) in scales.iter_mut().enumerate() {
            *scale = code as u8;
        }
        // 2^-127 is subnormal in f32.
        self.run(case, if left { "scales A" } else { "scales B" }, 255, self.subnormals_kept())
    }

    /// Every tie of a 16-bit output, and the f32 numbers on either side of it.
    fn ties(&self) -> Result<Attempt<CodeReport>, Fault> {
        let output = self.types.elements[2];
        let Some(format) = output.format() else {
            return Ok(Attempt::LeftOut("an output without a format".into()));
        };
        let mut values = Vec::new();
        for code in 0..format.max_code() {
            let (low, high) = (format.decode(code), format.decode(code + 1));
            let tie = (low + (high - low) / 2.0) as f32;
            for value in [tie.next_down(), tie, tie.next_up()] {
                values.extend([f64::from(value), -f64::from(value)]);
            }
        }
        // Past the largest number, what does not reach the tie is rounded back to it.
        let below = f64::from(tie_past_the_largest(output).next_down());
        for value in [0.5 * below + 0.5 * format.max_finite(), below] {
            values.extend([value, -value]);
        }
        if !self.subnormals_kept() {
            values.retain(|value| value.abs() >= f64::from(f32::MIN_POSITIVE));
        }
        self.encode(values, "encode C", true)
    }

    /// I · B for a B of these values.
    fn encode(
        &self,
        values: Vec<f64>,
        what: &str,
        required: bool,
    ) -> Result<Attempt<CodeReport>, Fault> {
        if self.adapter.fraction_bits(&self.kernel).is_some() {
            let reason = "the kernel reads too few bits of f32 to tell a tie from its neighbours";
            return Ok(Attempt::LeftOut(reason.into()));
        }
        if let Some(reason) = self.loses(values.iter().copied()) {
            return Ok(Attempt::LeftOut(reason));
        }
        let k = side(self.types);
        let lines = values.len().div_ceil(k);
        let mut case = self.zeros([k, lines, k]);
        case.a.map(|_, r, c, _| f64::from(u8::from(r == c)));
        case.b.map(|_, k_, n, _| values.get(n * k + k_).copied().unwrap_or(0.0));
        self.run(case, what, values.len(), required)
    }

    /// Halves of every i8, which tie between neighbours, and beyond the range at both ends.
    fn integer_ties(&self) -> Result<Attempt<CodeReport>, Fault> {
        let mut count = 0;
        let mut right = 0;
        for alpha in [0.5, 1.5] {
            let k = 32;
            let mut spec = self.spec([k, 8, k]);
            spec.alpha = alpha;
            let mut case = spec.case(Values::SmallIntegers(1), 1);
            case.a.map(|_, r, c, _| f64::from(u8::from(r == c)));
            case.b.map(|_, k_, n, _| (n * k + k_) as f64 - 128.0);
            let report = match self.run(case, "encode C", 256, true)? {
                Attempt::Done(report) => report,
                left_out @ Attempt::LeftOut(_) => return Ok(left_out),
            };
            count += report.count;
            right += report.right;
        }
        Ok(Attempt::Done(CodeReport {
            kernel: self.kernel.name(),
            types: self.spec([1, 1, 32]).type_name(),
            what: "encode C".into(),
            count,
            right,
            required: true,
        }))
    }

    fn run(
        &self,
        mut case: Case,
        what: &str,
        count: usize,
        required: bool,
    ) -> Result<Attempt<CodeReport>, Fault> {
        if let Some(reason) = unsuitable(self.adapter, &self.kernel, &case) {
            return Ok(Attempt::LeftOut(reason));
        }
        // Of the oracle only its values count.
        let reference = reference(Tier::Codes, &case, Promises::all(), None)?;
        poison(&mut case);
        let executed = self
            .adapter
            .execute(&Job::new(&case, self.kernel, Route::Device).without_inputs())
            .map_err(|error| Fault::of(self.adapter, &error))?;
        let found = view(&case, &executed.c)?;
        let wrong = reference
            .positions()
            .iter()
            .zip(reference.values())
            .filter(|(at, value)| {
                found.get(at.batch, at.row, at.col) != metrics::round(case.problem.c, **value)
            })
            .count();
        Ok(Attempt::Done(CodeReport {
            kernel: self.kernel.name(),
            types: self.spec([1, 1, 32]).type_name(),
            what: what.to_owned(),
            count,
            right: count.saturating_sub(wrong),
            required,
        }))
    }
}
