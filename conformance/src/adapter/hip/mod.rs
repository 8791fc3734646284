//! The HIP backend's adapter, on ROCm and on the emulator.

mod kernels;
mod refuse;

use std::sync::{Arc, Mutex, PoisonError};

use lapidary_core::policy::Multiply;
use lapidary_core::testing::{Case, Values};
use lapidary_core::{Backend, DeviceInfo, Error, KernelChoice};
use lapidary_hip::compile::Compiler;
use lapidary_hip::decide::Product;
use lapidary_hip::passes::PASSES;
use lapidary_hip::runtime::{Emulated, Order as EmulatorOrder, Runtime, RuntimeError};
use lapidary_hip::{Hip, HipError, Target};

use super::cpu::all_types;
use super::{Adapter, Executed, Expectation, Job, Order, Promises, Types, execute_on};
use crate::spec::{Route, Spec};

/// A HIP device: `rocm`, or the emulator of an architecture, `gfx942` or `gfx950`.
#[derive(Debug)]
pub struct HipAdapter {
    device: Hip,
    name: String,
    /// The same emulator with its waves and workgroups in other orders, one at a time.
    reordered: Option<(Hip, Mutex<Arc<Emulated>>)>,
}

impl HipAdapter {
    /// The first ROCm device.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn rocm() -> Result<Self, Error> {
        Ok(Self { device: Hip::new()?, name: "rocm".into(), reordered: None })
    }

    /// An emulated device, every check on.
    ///
    /// # Errors
    /// [`Error::NoDevice`] without a compiler.
    pub fn emulated(target: Target) -> Result<Self, Error> {
        let emulator = Arc::new(Emulated::new(target).map_err(no_device)?);
        let reordered = (Hip::with_emulator(Arc::clone(&emulator))?, Mutex::new(emulator));
        let device = Hip::emulated(target)?;
        Ok(Self { device, name: target.to_string(), reordered: Some(reordered) })
    }

    /// An emulated device whose kernels this compiler compiles.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if the target is not emulated.
    pub fn with_compiler(target: Target, compiler: Compiler) -> Result<Self, Error> {
        let runtime: Arc<dyn Runtime> = Arc::new(Emulated::new(target).map_err(no_device)?);
        let device = Hip::with_compiler(runtime, compiler);
        Ok(Self { device, name: target.to_string(), reordered: None })
    }
}

impl HipAdapter {
    /// The name of the kernel that runs a job: the plan's, and of the matrix-core kernel its variant.
    fn kernel(&self, job: &Job<'_>) -> Result<String, Error> {
        let decision = self.device.decide(&job.case.problem, &job.options())?;
        Ok(match &decision.product {
            Product::Preshuffle(product) => kernels::variant(&product.config),
            _ => decision.summary.kernel,
        })
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
        let known = self.info().elements;
        let block_scales = self.device.target() == Target::Gfx950;
        all_types()
            .into_iter()
            .filter(|types| types.elements[..2].iter().all(|element| known.contains(element)))
            .filter(|types| !types.block_scales || block_scales)
            .filter(|types| types.elements[0].is_float() == types.elements[1].is_float())
            .collect()
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
        // Blocks have scales on CDNA4 alone.
        let scales = self.device.target() == Target::Gfx950;
        PASSES.into_iter().filter(|pass| scales || *pass != "pack_scales").collect()
    }

    fn fraction_bits(&self, kernel: &KernelChoice) -> Option<u32> {
        match kernel {
            KernelChoice::Policy(config) if config.compute.multiply == Multiply::MfmaXf32 => {
                Some(10)
            }
            _ => None,
        }
    }

    fn expect(&self, kernel: &KernelChoice, case: &Case, route: Route) -> Expectation {
        refuse::expect(kernel, case, route, &self.types())
    }

    fn compiles_for_layouts(&self) -> bool {
        true
    }

    fn orders(&self) -> Vec<Order> {
        match self.reordered {
            Some(_) => vec![Order::Reversed, Order::Shuffled(7)],
            None => Vec::new(),
        }
    }

    fn planned(&self, kernel: &KernelChoice, spec: &Spec) -> Option<String> {
        let case = spec.case(Values::SmallIntegers(1), 0);
        self.kernel(&Job::of_spec(spec, &case, *kernel)).ok()
    }

    fn large_side(&self) -> usize {
        if self.reordered.is_some() { 320 } else { 2_000 }
    }

    fn reach(&self) -> f64 {
        2e6
    }

    fn is_finding(&self, error: &Error) -> bool {
        matches!(error, Error::Backend { source, .. } if matches!(
            source.downcast_ref::<HipError>(),
            Some(HipError::Runtime(RuntimeError::Finding { .. }))
        ))
    }

    fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        let mut executed = match (&self.reordered, job.order) {
            (None, _) | (_, Order::Natural) => execute_on(&self.device, job)?,
            (Some((device, emulator)), order) => {
                let emulator = emulator.lock().unwrap_or_else(PoisonError::into_inner);
                emulator.configure(|settings| {
                    settings.order = match order {
                        Order::Shuffled(seed) => EmulatorOrder::Random(seed),
                        _ => EmulatorOrder::Reverse,
                    };
                });
                execute_on(device, job)?
            }
        };
        executed.kernel = self.kernel(job)?;
        Ok(executed)
    }
}
