//! A device with operands on it, where kernels are checked and timed.

use lapidary_core::testing::block_on;
use lapidary_core::{
    Args, Backend, Element, Error, KernelChoice, Matrix, PlanOptions, Problem, Tensor,
};
use lapidary_wgsl::{Wgsl, WgslPlan, WgslTensor};

use super::args::Options;
use super::random::{self, Answers};
use super::record::{Check, Device, Geometry, Kernel, Previous, Record, Refused};
use super::{Result, data, identity, timing};

/// A kernel to look at, and the one it is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    /// The step it belongs to.
    pub(crate) step: u8,
    /// Checked and timed.
    pub(crate) kernel: KernelChoice,
    /// Timed in the same run.
    pub(crate) previous: Option<KernelChoice>,
}

/// A device, a problem, and room for its operands.
pub(crate) struct Lab {
    device: Wgsl,
    problem: Problem,
    runs: usize,
    a: WgslTensor,
    b: WgslTensor,
    c: WgslTensor,
}

impl Lab {
    /// Opens the device and allocates the operands.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        let device = options.open()?;
        let software = device.limits().software;
        let [m, n, k] = options.sizes(software);
        let problem = Problem::new(m, n, k);
        let room = |[rows, cols]: [usize; 2]| {
            // The product of two sizes of 31 bits fits 62.
            device.alloc(f32::TYPE, rows * cols)
        };
        let (a, b, c) = (room([m, k])?, room([k, n])?, room([m, n])?);
        Ok(Self { runs: options.runs(software), device, problem, a, b, c })
    }

    /// M, N and K.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        [self.problem.m, self.problem.n, self.problem.k]
    }

    /// The device, in words.
    pub(crate) fn device(&self) -> Device {
        let info = self.device.info();
        Device {
            name: info.name,
            driver: info.driver,
            software: self.device.limits().software,
            properties: info.properties,
        }
    }

    /// Checks every subject's kernel, then times all kernels side by side.
    ///
    /// Kernels that do not suit the problem or the device are left out, with the reason.
    pub(crate) fn measure(&self, subjects: &[Subject], command: String) -> Result<Record> {
        let (mut choices, mut plans, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for choice in distinct(subjects) {
            match self.device.plan(&self.problem, &PlanOptions::kernel(choice)) {
                Ok(plan) => {
                    choices.push(choice);
                    plans.push(plan);
                }
                Err(
                    error @ (Error::KernelUnsuitable { .. }
                    | Error::Misaligned { .. }
                    | Error::LimitExceeded { .. }),
                ) => refused.push(Refused { name: choice.name(), reason: error.to_string() }),
                Err(error) => return Err(error.into()),
            }
        }
        let position = |choice: KernelChoice| choices.iter().position(|&c| c == choice);
        let planned: Vec<(Subject, usize)> =
            subjects.iter().filter_map(|&s| Some((s, position(s.kernel)?))).collect();
        let to_check: Vec<&WgslPlan> = planned.iter().map(|&(_, index)| &plans[index]).collect();
        let checks = self.check(&to_check)?;
        let times = timing::time(&self.device, &plans, &self.args(), self.runs)?;

        let kernels = planned
            .iter()
            .zip(checks)
            .map(|(&(subject, index), checks)| {
                let summary = self.device.summary(&plans[index]);
                let time = times[index].clone();
                let previous = subject.previous.and_then(|choice| {
                    let median = times[position(choice)?].median;
                    Some(Previous { name: choice.name(), median, speedup: time.rate(median) })
                });
                Kernel {
                    step: subject.step,
                    name: summary.kernel.clone(),
                    geometry: Geometry::of(&self.problem, summary),
                    checks,
                    time,
                    previous,
                    notes: summary.notes.clone(),
                }
            })
            .collect();
        let date = time::OffsetDateTime::now_utc().date().to_string();
        Ok(Record { device: self.device(), sizes: self.sizes(), command, date, kernels, refused })
    }

    fn args(&self) -> Args<'_, Wgsl> {
        Args::new(&self.a, &self.b, &self.c)
    }

    /// Every check on every plan. Uniform data is on the device afterwards.
    fn check(&self, plans: &[&WgslPlan]) -> Result<Vec<Vec<Check>>> {
        let [m, n, k] = self.sizes();
        let mut checks = vec![Vec::new(); plans.len()];
        let a = data::uniform(m, k, 42)?;
        self.upload(&a, &data::identity(k, n)?)?;
        for (plan, checks) in plans.iter().zip(&mut checks) {
            checks.push(identity::check(a.bytes(), &self.run(plan)?, self.sizes()));
        }
        if !random::is_full(&self.problem) {
            let max = random::largest_integer(k);
            let (a, b) = (data::integers(m, k, max, 43)?, data::integers(k, n, max, 44)?);
            self.upload(&a, &b)?;
            let answers = Answers::new(&self.problem, &a, &b);
            for (plan, checks) in plans.iter().zip(&mut checks) {
                checks.push(answers.check_exactly(&self.run(plan)?)?);
            }
        }
        let b = data::uniform(k, n, 45)?;
        self.upload(&a, &b)?;
        let mut answers = Answers::new(&self.problem, &a, &b);
        for (plan, checks) in plans.iter().zip(&mut checks) {
            let tile = self.device.summary(plan).block_tile;
            checks.push(answers.check(&self.run(plan)?, tile)?);
        }
        Ok(checks)
    }

    fn upload(&self, a: &Matrix, b: &Matrix) -> std::result::Result<(), Error> {
        self.device.upload(&self.a, 0, a.bytes())?;
        self.device.upload(&self.b, 0, b.bytes())
    }

    /// Runs a plan once into a C full of NaN, so that an element nobody writes is found.
    fn run(&self, plan: &WgslPlan) -> std::result::Result<Vec<u8>, Error> {
        let poison = f32::NAN.to_ne_bytes().repeat(self.c.len());
        self.device.upload(&self.c, 0, &poison)?;
        self.device.execute(plan, &self.args())?;
        block_on(self.device.download(&self.c))
    }
}

/// Every kernel that occurs, once, in order.
fn distinct(subjects: &[Subject]) -> Vec<KernelChoice> {
    let mut choices = Vec::new();
    for choice in subjects.iter().flat_map(|s| s.previous.into_iter().chain([s.kernel])) {
        if !choices.contains(&choice) {
            choices.push(choice);
        }
    }
    choices
}
