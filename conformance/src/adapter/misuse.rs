//! Making the calls that the contract forbids on anything that implements it.

use lapidary_core::backend::BOperand;
use lapidary_core::testing::{Case, Stored, Values, block_on};
use lapidary_core::{
    AnyMatrixMut, AnyMatrixRef, AnyVectorRef, Args, Backend, ElementType, Error, Gemm, GemmPlan,
    Operand, Placement, PlanOptions, Problem, TensorSlice,
};

use crate::check::{Attempt, Fault, Misuse, SHAPE};
use crate::tier::Tier;

/// The type of every operand.
const F32: ElementType = ElementType::F32;

/// Makes a forbidden call on a device, through the backend's public interface: it must be refused with
/// the error that [`Misuse::accepts`], C must keep every bit, and the plan of that call must then compute
/// a right product. `another` is a second device of the backend, where there is one.
///
/// # Errors
/// A [`Fault`] of [`Tier::Acceptance`] that says which of it does not hold.
pub fn misuse_on<B: Backend>(
    device: &B,
    another: Option<&B>,
    misuse: Misuse,
) -> Result<Attempt<()>, Fault> {
    if !device.info().elements.contains(&F32) {
        return Ok(Attempt::LeftOut("the backend lacks f32".into()));
    }
    if matches!(misuse, Misuse::OtherDevice(_)) && another.is_none() {
        return Ok(Attempt::LeftOut("the backend has no second device".into()));
    }
    let broken = |error: Error| fault(format!("a right call fails: {error}"));
    let case = case(misuse.has_scales());
    let bench = Bench::new(device, &case).map_err(broken)?;
    bench.misuse(another, misuse)?;
    bench.works()?;
    Ok(Attempt::Done(()))
}

fn fault(message: impl Into<String>) -> Fault {
    Fault::new(Tier::Acceptance, message)
}

/// A product of everything that can be misused, of which every bit is known.
fn case(scaled: bool) -> Case {
    let [m, n, k] = SHAPE;
    let problem = Problem::new(m, n, k).beta(1.0).bias(true).row_scale(scaled);
    Case::new(problem, Values::SmallIntegers(4), 1)
}

/// What the backend said of a forbidden call, against what it has to say.
fn verdict<T>(misuse: Misuse, result: Result<T, Error>) -> Result<(), Fault> {
    let expected = misuse.expected().join(" or ");
    match result {
        Err(error) if misuse.accepts(&error) => Ok(()),
        Err(error) => Err(fault(format!(
            "{}: refused for another reason than {expected}: {error}",
            misuse.name()
        ))),
        Ok(_) => Err(fault(format!("{}: accepted, expected {expected}", misuse.name()))),
    }
}

/// The operands of a product on a device, and its plan.
struct Bench<'d, B: Backend> {
    device: &'d B,
    case: &'d Case,
    plan: GemmPlan<'d, B>,
    a: B::Tensor,
    b: B::Tensor,
    c: B::Tensor,
    bias: B::Tensor,
    row_scale: Option<B::Tensor>,
}

impl<'d, B: Backend> Bench<'d, B> {
    fn new(device: &'d B, case: &'d Case) -> Result<Self, Error> {
        Ok(Self {
            device,
            case,
            plan: Gemm::<B>::plan(device, &case.problem, &PlanOptions::default())?,
            a: tensor(device, F32, case.a.bytes())?,
            b: tensor(device, F32, case.b.bytes())?,
            c: tensor(device, F32, case.c.bytes())?,
            bias: tensor(device, F32, &case.bias)?,
            row_scale: match case.problem.row_scale {
                true => Some(tensor(device, F32, &case.row_scale)?),
                false => None,
            },
        })
    }

    /// The arguments of the right call.
    fn args(&self) -> Args<'_, B> {
        let case = self.case;
        let at = |tensor, stored: &Stored| TensorSlice::new(tensor, stored.placement().offset);
        let args = Args::new(at(&self.a, &case.a), at(&self.b, &case.b), at(&self.c, &case.c))
            .bias(&self.bias);
        match &self.row_scale {
            Some(scale) => args.row_scale(scale),
            None => args,
        }
    }

    /// What an operand consists of, and its first element in that.
    fn content(&self, operand: Operand) -> (&'d [u8], usize) {
        let case = self.case;
        match operand {
            Operand::A => (case.a.bytes(), case.a.placement().offset),
            Operand::B => (case.b.bytes(), case.b.placement().offset),
            Operand::C => (case.c.bytes(), case.c.placement().offset),
            Operand::Bias => (&case.bias, 0),
            _ => (&case.row_scale, 0),
        }
    }

    /// What an operand's elements are, without anything before or behind them.
    fn elements(&self, operand: Operand) -> &'d [u8] {
        let [m, n, k] = SHAPE;
        let count = match operand {
            Operand::A => m * k,
            Operand::B => k * n,
            Operand::C => m * n,
            Operand::Bias => n,
            _ => m,
        };
        let (bytes, offset) = self.content(operand);
        let size = F32.size();
        bytes.get(offset * size..(offset + count) * size).unwrap_or_default()
    }

    fn misuse(&self, another: Option<&B>, misuse: Misuse) -> Result<(), Fault> {
        let device = self.device;
        let before = self.c_bytes()?;
        match misuse {
            Misuse::Alias(operand) => self.alias(operand, misuse)?,
            Misuse::Short(operand) => {
                let all = self.elements(operand);
                let short =
                    made(tensor(device, F32, &all[..all.len().saturating_sub(F32.size())]))?;
                self.refused(misuse, device, operand, TensorSlice::new(&short, 0))?;
            }
            Misuse::PastEnd(operand) | Misuse::FarPastEnd(operand) => {
                let all = self.elements(operand);
                let whole = made(tensor(device, F32, all))?;
                let offset = match misuse {
                    Misuse::PastEnd(_) => all.len() / F32.size() + 1,
                    _ => usize::MAX,
                };
                self.refused(misuse, device, operand, TensorSlice::new(&whole, offset))?;
            }
            Misuse::OtherElement(operand) => {
                let other = made(tensor(device, ElementType::I32, self.elements(operand)))?;
                self.refused(misuse, device, operand, TensorSlice::new(&other, 0))?;
            }
            Misuse::OtherDevice(operand) => {
                let Some(another) = another else { return Ok(()) };
                let elsewhere = made(tensor(another, F32, self.elements(operand)))?;
                self.refused(misuse, another, operand, TensorSlice::new(&elsewhere, 0))?;
            }
            Misuse::Missing(operand) => {
                let mut args = self.args();
                match operand {
                    Operand::Bias => args.bias = None,
                    _ => args.row_scale = None,
                }
                verdict(misuse, self.plan.execute(&args))?;
            }
            Misuse::Unexpected(_) => {
                verdict(misuse, self.plan.execute(&self.args().row_scale(&self.a)))?;
            }
            Misuse::PackedForOtherK | Misuse::PackedForOtherN => self.packed(misuse)?,
            Misuse::PackShort | Misuse::PackOtherElement => {
                let all = self.elements(Operand::B);
                let b = made(match misuse {
                    Misuse::PackShort => tensor(device, F32, &all[..all.len() - F32.size()]),
                    _ => tensor(device, ElementType::I32, all),
                })?;
                verdict(misuse, self.plan.pack_b(&b))?;
            }
            Misuse::UploadPartial => verdict(misuse, device.upload(&self.c, 0, &[0xff; 5]))?,
            Misuse::UploadPastEnd => {
                let bytes = vec![0xff; before.len()];
                verdict(misuse, device.upload(&self.c, 1, &bytes))?;
            }
            Misuse::AllocTooMany => verdict(misuse, device.alloc(F32, usize::MAX))?,
            Misuse::Plan(rule) => {
                let plan = device.plan(&rule.problem(), &PlanOptions::default());
                verdict(misuse, plan)?;
            }
            Misuse::HostShape(_)
            | Misuse::HostOtherElement(_)
            | Misuse::HostShort(_)
            | Misuse::HostMissing(_) => self.on_host(misuse)?,
        }
        unchanged(misuse, &before, &self.c_bytes()?)
    }

    /// The call with `slice`, a tensor of `owner`, for one operand; the whole tensor keeps its bits.
    fn refused(
        &self,
        misuse: Misuse,
        owner: &B,
        operand: Operand,
        slice: TensorSlice<'_, B::Tensor>,
    ) -> Result<(), Fault> {
        let before = made(block_on(owner.download(slice.tensor)))?;
        let mut args = self.args();
        put(&mut args, operand, slice);
        verdict(misuse, self.plan.execute(&args))?;
        made(block_on(self.device.sync()))?;
        unchanged(misuse, &before, &made(block_on(owner.download(slice.tensor)))?)
    }

    /// An input and C in one tensor, first with one element in common, then side by side, which is no
    /// misuse.
    fn alias(&self, operand: Operand, misuse: Misuse) -> Result<(), Fault> {
        let (input, c) = (self.elements(operand), self.elements(Operand::C));
        let count = input.len() / F32.size();
        let whole = [input, c].concat();
        let shared = made(tensor(self.device, F32, &whole))?;
        let mut args = self.args();
        put(&mut args, operand, TensorSlice::new(&shared, 0));
        args.c = TensorSlice::new(&shared, count - 1);
        verdict(misuse, self.plan.execute(&args))?;
        unchanged(misuse, &whole, &made(block_on(self.device.download(&shared)))?)?;
        args.c = TensorSlice::new(&shared, count);
        made(self.plan.execute(&args))?;
        let after = made(block_on(self.device.download(&shared)))?;
        unchanged(misuse, input, after.get(..input.len()).unwrap_or_default())?;
        self.is_right(after.get(input.len()..).unwrap_or_default())
    }

    /// A B that was packed by the plan of another product.
    fn packed(&self, misuse: Misuse) -> Result<(), Fault> {
        let [m, n, k] = SHAPE;
        let [n, k] = if misuse == Misuse::PackedForOtherK { [n, k + 40] } else { [n + 40, k] };
        let other = Case::new(Problem::new(m, n, k), Values::SmallIntegers(4), 2);
        let plan = made(Gemm::<B>::plan(self.device, &other.problem, &PlanOptions::default()))?;
        let b = made(tensor(self.device, F32, other.b.bytes()))?;
        let packed = made(plan.pack_b(TensorSlice::new(&b, other.b.placement().offset)))?;
        let args = self.args();
        let wrong = Args::with_packed_b(args.a, &packed, args.c).bias(&self.bias);
        verdict(misuse, self.plan.execute(&wrong))
    }

    /// A one-shot product of host matrices into C's storage.
    fn on_host(&self, misuse: Misuse) -> Result<(), Fault> {
        let case = self.case;
        let mut operands = case.operands();
        operands.c = None;
        let mut other = case.a.placement();
        other.shape.rows -= 1;
        let view = AnyMatrixRef::new(case.a.bytes(), F32, other);
        let retyped = AnyMatrixRef::new(case.b.bytes(), ElementType::I32, case.b.placement());
        match misuse {
            Misuse::HostShape(_) => operands.a = made(view)?,
            Misuse::HostOtherElement(_) => operands.b = made(retyped)?,
            Misuse::HostMissing(_) => operands.bias = None,
            _ => {
                let short = &case.bias[..case.bias.len() - F32.size()];
                operands.bias = Some(AnyVectorRef::new(short, F32));
            }
        }
        let mut c = case.c.clone();
        let place = c.placement();
        let into = made(AnyMatrixMut::from_bytes(c.bytes_mut(), F32, place))?;
        verdict(misuse, Gemm::<B>::run_into(self.device, &case.problem, &operands, into))?;
        unchanged(misuse, case.c.bytes(), c.bytes())
    }

    fn c_bytes(&self) -> Result<Vec<u8>, Fault> {
        made(block_on(self.device.download(&self.c)))
    }

    /// Runs the right call, whose result must be right.
    fn works(&self) -> Result<(), Fault> {
        made(self.plan.execute(&self.args()))?;
        let after = self.c_bytes()?;
        let broken = self.case.c.broken_canaries(&after);
        if !broken.is_empty() {
            return Err(fault("a right call after it writes outside C"));
        }
        let start = self.case.c.placement().offset * F32.size();
        self.is_right(after.get(start..).unwrap_or_default())
    }

    /// Compares C, from its first element on, with the oracle's.
    fn is_right(&self, c: &[u8]) -> Result<(), Fault> {
        let problem = &self.case.problem;
        let reference = lapidary_core::oracle::reference(problem, &self.case.operands())
            .map_err(|error| fault(format!("the oracle refuses it: {error}")))?;
        let place = Placement { offset: 0, shape: problem.c_shape(), layout: problem.c_layout };
        let found = made(AnyMatrixRef::new(c, F32, place))?;
        let comparison = reference.compare_exact(&found);
        match comparison.passed() {
            true => Ok(()),
            false => Err(fault(format!("a right call after it is wrong: {comparison}"))),
        }
    }
}

/// What a right call gives.
fn made<T>(result: Result<T, Error>) -> Result<T, Fault> {
    result.map_err(|error| fault(format!("a right call fails: {error}")))
}

fn unchanged(misuse: Misuse, before: &[u8], after: &[u8]) -> Result<(), Fault> {
    match before == after {
        true => Ok(()),
        false => Err(fault(format!("{}: refused, but something was written", misuse.name()))),
    }
}

fn tensor<B: Backend>(device: &B, element: ElementType, bytes: &[u8]) -> Result<B::Tensor, Error> {
    let tensor = device.alloc(element, element.capacity(bytes.len()))?;
    device.upload(&tensor, 0, bytes)?;
    Ok(tensor)
}

/// Puts a slice in an operand's place.
fn put<'a, B: Backend>(
    args: &mut Args<'a, B>,
    operand: Operand,
    slice: TensorSlice<'a, B::Tensor>,
) {
    match operand {
        Operand::A => args.a = slice,
        Operand::B => args.b = BOperand::Plain(slice),
        Operand::C => args.c = slice,
        Operand::Bias => args.bias = Some(slice),
        _ => args.row_scale = Some(slice),
    }
}
