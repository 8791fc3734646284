//! The WGSL backend's adapter.

mod devices;
mod kernels;
mod refuse;
mod reverse;

use lapidary_core::{Backend, DeviceInfo, ElementType, Error, KernelChoice};
use lapidary_wgsl::decide::{CopyOrder, Pass};
use lapidary_wgsl::{DeviceLimits, ShaderRewrite, WgslOptions};

use super::cpu::all_types;
use super::{Adapter, Executed, Expectation, Job, Order, Outline, Promises, Types, misuse_on};
use crate::check::{Attempt, Fault, Misuse};
use crate::spec::{Route, Spec};
use devices::Devices;

pub(crate) use kernels::kernels_for;

/// A device for WGSL, and more of the same adapter: one with the workgroups of every dispatch reversed,
/// one whose limits cut products into pieces, and one whose memory budget streams them.
#[derive(Clone, Debug)]
pub struct WgslAdapter {
    devices: Devices,
}

impl WgslAdapter {
    /// Opens the device that `options` choose: as it is, with reversed workgroups, and with what cuts
    /// products into pieces.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn open(options: &WgslOptions) -> Result<Self, Error> {
        Ok(Self { devices: Devices::open(options)? })
    }

    /// A device whose shaders `rewrite` changes.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn with_rewrite(options: &WgslOptions, rewrite: ShaderRewrite) -> Result<Self, Error> {
        Ok(Self { devices: Devices::alone(&options.clone().rewrite(rewrite))? })
    }

    fn limits(&self) -> &DeviceLimits {
        self.devices.plain.limits()
    }

    /// Whether the device is a program on the CPU.
    #[must_use]
    pub fn is_software(&self) -> bool {
        self.limits().software
    }
}

impl Adapter for WgslAdapter {
    fn name(&self) -> &str {
        "wgsl"
    }

    fn info(&self) -> DeviceInfo {
        self.devices.plain.info()
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
        kernels_for(types, self.limits())
    }

    fn kernel_names(&self) -> Vec<String> {
        kernels::names(&self.info().elements, self.limits())
    }

    fn pass_names(&self) -> Vec<&'static str> {
        let cooperative = self.limits().cooperative;
        let exists = |pass: &Pass| cooperative || *pass != Pass::Copy(CopyOrder::AlongK);
        Pass::ALL.into_iter().filter(exists).map(Pass::name).collect()
    }

    fn has_ways(&self, kernel: &KernelChoice) -> bool {
        kernels::has_ways(kernel)
    }

    fn sum_type(&self, kernel: &KernelChoice) -> Option<ElementType> {
        kernels::sum_type(kernel)
    }

    fn routes(&self) -> &[Route] {
        self.devices.routes()
    }

    fn expect(&self, kernel: &KernelChoice, case: &Outline, route: Route) -> Expectation {
        refuse::expect(kernel, case, route, &self.types(), self.devices.of(route).limits())
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
        self.devices.reversed.iter().map(|_| Order::Reversed).collect()
    }

    fn planned(&self, kernel: &KernelChoice, spec: &Spec) -> Option<String> {
        let problem = spec.laid_out().ok()?.0;
        Some(self.devices.of(spec.route).decide(&problem, *kernel).ok()?.summary.kernel)
    }

    fn large_side(&self) -> usize {
        if self.is_software() { 500 } else { 2_000 }
    }

    fn reach(&self) -> f64 {
        if self.is_software() { 3e7 } else { 1e9 }
    }

    fn misuse(&self, misuse: Misuse) -> Result<Attempt<()>, Fault> {
        misuse_on(&self.devices.plain, self.devices.reversed.as_ref(), misuse)
    }

    fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        self.devices.execute(job)
    }
}

#[cfg(test)]
mod tests;
