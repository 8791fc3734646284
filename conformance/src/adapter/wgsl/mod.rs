//! The WGSL backend's adapter.

mod kernels;
mod refuse;
mod reverse;

use lapidary_core::policy::Multiply;
use lapidary_core::{Backend, DeviceInfo, Error, KernelChoice};
use lapidary_wgsl::decide::{CopyOrder, Pass};
use lapidary_wgsl::{ShaderRewrite, Wgsl, WgslOptions};

use super::cpu::all_types;
use super::{
    Adapter, Executed, Expectation, Job, Order, Outline, Promises, Types, execute_on, misuse_on,
};
use crate::check::{Attempt, Fault, Misuse};
use crate::spec::{Route, Spec};
use reverse::reverse;

pub(crate) use kernels::kernels_for;

/// A device for WGSL, and the same adapter with the workgroups of every dispatch reversed.
#[derive(Clone, Debug)]
pub struct WgslAdapter {
    device: Wgsl,
    reversed: Option<Wgsl>,
}

impl WgslAdapter {
    /// Opens the device that `options` choose, twice: once as it is, once with reversed workgroups.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn open(options: &WgslOptions) -> Result<Self, Error> {
        let device = Wgsl::with_options(options)?;
        let reversed = Wgsl::with_options(&options.clone().rewrite(ShaderRewrite::new(reverse)))?;
        Ok(Self { device, reversed: Some(reversed) })
    }

    /// A device whose shaders `rewrite` changes.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn with_rewrite(options: &WgslOptions, rewrite: ShaderRewrite) -> Result<Self, Error> {
        let device = Wgsl::with_options(&options.clone().rewrite(rewrite))?;
        Ok(Self { device, reversed: None })
    }

    /// Whether the device is a program on the CPU.
    #[must_use]
    pub fn is_software(&self) -> bool {
        self.device.limits().software
    }
}

/// Whether K may be cut into pieces, and operands copied first, as a caller asks.
fn has_ways(kernel: &KernelChoice) -> bool {
    match kernel {
        KernelChoice::Skinny => true,
        KernelChoice::Policy(config) => {
            let multiply = config.compute.multiply;
            multiply.is_vector() || multiply == Multiply::CooperativeMatrix
        }
        _ => false,
    }
}

impl Adapter for WgslAdapter {
    fn name(&self) -> &str {
        "wgsl"
    }

    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn promises(&self) -> Promises {
        // WGSL promises nothing about NaN and infinity, and lets f16 conversions flush subnormals.
        Promises { non_finite: false, subnormals: false, f16: false, ..Promises::all() }
    }

    fn types(&self) -> Vec<Types> {
        let known = self.info().elements;
        let has = |types: &Types| types.elements[..2].iter().all(|element| known.contains(element));
        // f64 and the narrow floats, and with them block scales, are not among the elements.
        all_types().iter().copied().filter(has).collect()
    }

    fn kernels(&self, types: Types) -> Vec<KernelChoice> {
        kernels_for(types, self.device.limits())
    }

    fn kernel_names(&self) -> Vec<String> {
        kernels::names(&self.info().elements, self.device.limits())
    }

    fn pass_names(&self) -> Vec<&'static str> {
        let cooperative = self.device.limits().cooperative;
        let exists = |pass: &Pass| cooperative || *pass != Pass::Copy(CopyOrder::AlongK);
        Pass::ALL.into_iter().filter(exists).map(Pass::name).collect()
    }

    fn has_ways(&self, kernel: &KernelChoice) -> bool {
        has_ways(kernel)
    }

    fn expect(&self, kernel: &KernelChoice, case: &Outline, _: Route) -> Expectation {
        refuse::expect(kernel, case, &self.types(), self.device.limits())
    }

    fn program(&self, kernel: &KernelChoice, spec: &Spec) -> String {
        // Types that share words are stored by a second pass, which the epilogue is part of.
        let fused = spec.types[2].size() == 4;
        let epilogue =
            if fused { spec.epilogue_name().replace("alpha+", "") } else { String::new() };
        let [a, b, _] = spec.types;
        let way = spec.way_name();
        format!("{} {a} {b} {:?} {epilogue}{way}", kernel.name(), spec.b_group)
    }

    fn orders(&self) -> Vec<Order> {
        self.reversed.iter().map(|_| Order::Reversed).collect()
    }

    fn planned(&self, kernel: &KernelChoice, spec: &Spec) -> Option<String> {
        let problem = spec.laid_out().ok()?.0;
        Some(self.device.decide(&problem, *kernel).ok()?.summary.kernel)
    }

    fn large_side(&self) -> usize {
        if self.is_software() { 500 } else { 2_000 }
    }

    fn reach(&self) -> f64 {
        if self.is_software() { 3e7 } else { 1e9 }
    }

    fn misuse(&self, misuse: Misuse) -> Result<Attempt<()>, Fault> {
        misuse_on(&self.device, self.reversed.as_ref(), misuse)
    }

    fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        match (&self.reversed, job.order) {
            (Some(reversed), Order::Reversed) => execute_on(reversed, job),
            _ => execute_on(&self.device, job),
        }
    }
}
