//! The HIP backend's adapter, on ROCm and on the emulator.

mod kernels;
mod refuse;
mod reorder;

use std::sync::Arc;

use lapidary_core::{Backend, DeviceInfo, Error, KernelChoice};
use lapidary_hip::compile::Compiler;
use lapidary_hip::runtime::{Emulated, Runtime};
use lapidary_hip::{Hip, Target};

use super::{
    Adapter, Executed, Expectation, Job, Order, Outline, Promises, Types, execute_on, misuse_on,
    options,
};
use crate::check::{Attempt, Fault, Misuse};
use crate::spec::{Route, Spec};
use reorder::{ORDERS, Reordered};

/// A HIP device: `rocm`, or the emulator of an architecture, `gfx942` or `gfx950`.
#[derive(Debug)]
pub struct HipAdapter {
    device: Hip,
    name: String,
    emulated: bool,
    reordered: Option<Reordered>,
}

impl HipAdapter {
    /// The first ROCm device.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn rocm() -> Result<Self, Error> {
        Ok(Self { device: Hip::new()?, name: "rocm".into(), emulated: false, reordered: None })
    }

    /// An emulated device, every check on.
    ///
    /// # Errors
    /// [`Error::NoDevice`] without a compiler.
    pub fn emulated(target: Target) -> Result<Self, Error> {
        let reordered = Some(Reordered::new(target)?);
        let device = Hip::emulated(target)?;
        Ok(Self { device, name: target.to_string(), emulated: true, reordered })
    }

    /// An emulated device whose kernels this compiler compiles.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if the target is not emulated.
    pub fn with_compiler(target: Target, compiler: Compiler) -> Result<Self, Error> {
        let runtime: Arc<dyn Runtime> = Arc::new(Emulated::new(target).map_err(no_device)?);
        let device = Hip::with_compiler(runtime, compiler);
        Ok(Self { device, name: target.to_string(), emulated: true, reordered: None })
    }
}

fn no_device(error: impl ToString) -> Error {
    Error::NoDevice { reason: error.to_string() }
}

impl Adapter for HipAdapter {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn promises(&self) -> Promises {
        // The matrix cores flush subnormal numbers of some types, and add by truncating aligned terms.
        Promises { subnormals: false, truncates: true, ..Promises::all() }
    }

    fn types(&self) -> Vec<Types> {
        kernels::types(&self.info().elements, self.device.target())
    }

    fn kernels(&self, types: Types) -> Vec<KernelChoice> {
        match self.types().contains(&types) {
            true => kernels::kernels_for(types, self.device.target()),
            false => Vec::new(),
        }
    }

    fn kernel_names(&self) -> Vec<String> {
        kernels::names(self.device.target())
    }

    fn pass_names(&self) -> Vec<&'static str> {
        kernels::passes(self.device.target())
    }

    fn fraction_bits(&self, kernel: &KernelChoice) -> Option<u32> {
        kernels::fraction_bits(kernel)
    }

    fn expect(&self, kernel: &KernelChoice, case: &Outline, route: Route) -> Expectation {
        refuse::expect(kernel, case, route, &self.types())
    }

    fn compiles_for_layouts(&self) -> bool {
        true
    }

    fn orders(&self) -> Vec<Order> {
        if self.reordered.is_some() { ORDERS.to_vec() } else { Vec::new() }
    }

    fn planned(&self, kernel: &KernelChoice, spec: &Spec) -> Option<String> {
        let problem = spec.laid_out().ok()?.0;
        kernels::planned(&self.device, &problem, &options(*kernel, spec.k_slices, spec.copies)).ok()
    }

    fn large_side(&self) -> usize {
        if self.reordered.is_some() { 320 } else { 2_000 }
    }

    fn reach(&self) -> f64 {
        2e6
    }

    fn has_checks(&self) -> bool {
        self.emulated
    }

    fn is_finding(&self, error: &Error) -> bool {
        refuse::is_finding(error)
    }

    fn misuse(&self, misuse: Misuse) -> Result<Attempt<()>, Fault> {
        misuse_on(&self.device, self.reordered.as_ref().map(Reordered::device), misuse)
    }

    fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        let mut executed = match &self.reordered {
            Some(reordered) if job.order != Order::Natural => reordered.execute(job)?,
            _ => execute_on(&self.device, job)?,
        };
        executed.kernel = kernels::planned(&self.device, &job.case.problem, &job.options())?;
        Ok(executed)
    }
}
