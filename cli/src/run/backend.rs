//! Chooses what computes a product, and says why.

use lapidary_core::{
    Backend, Cpu, DeviceInfo, Devices, ElementType, Error, Gemm, KernelChoice, Operands, Output,
    PlanOptions, Problem,
};
use lapidary_hip::Hip;
use lapidary_wgsl::{AdapterChoice, Wgsl};

use super::arguments::{Arguments, BackendChoice, Shared};
use crate::failure::Failure;
use crate::hip;
use crate::progress::Parts;
use crate::tune;

/// A device, and why it was taken.
pub(super) struct Chosen {
    device: Device,
    reason: String,
}

enum Device {
    Cpu(Cpu),
    Wgsl(Wgsl),
    Shared(Devices<Wgsl>),
    Hip(Hip),
}

/// Opens the HIP device that the options ask for, if they do.
///
/// # Errors
/// [`Failure::EmulateOption`] if options contradict each other;
/// [`Error::NoDevice`] with what to install.
pub(super) fn hip(arguments: &Arguments) -> Result<Option<Hip>, Failure> {
    match (arguments.backend, arguments.emulate) {
        (BackendChoice::Hip, _) | (BackendChoice::Auto, Some(_)) => {}
        (_, None) => return Ok(None),
        (_, Some(_)) => return Err(Failure::EmulateOption),
    }
    for (option, given) in
        [("--devices", arguments.devices.is_some()), ("--memory", arguments.memory.is_some())]
    {
        if given {
            return Err(Failure::WgslOption { option });
        }
    }
    let index = match &arguments.device {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| Failure::HipDevice { device: text.clone() })?),
    };
    if index.is_some() && arguments.emulate.is_some() {
        return Err(Failure::EmulatedDevice);
    }
    Ok(Some(hip::open(arguments.emulate, index)?))
}

impl Chosen {
    /// The device that the options and the element types lead to; `hip` is the HIP device, if one was
    /// asked for.
    ///
    /// # Errors
    /// [`Failure::GpuOption`] if an option contradicts `--backend cpu`; [`Error::NoDevice`] if a
    /// device was asked for that is not there.
    pub(super) fn new(
        arguments: &Arguments,
        problem: &Problem,
        hip: Option<Hip>,
    ) -> Result<Self, Failure> {
        if let Some(device) = hip {
            let reason = match arguments.emulate {
                Some(_) => "asked for by --emulate; emulated, so its time says nothing",
                None => "asked for by --backend",
            };
            return Ok(Self { device: Device::Hip(device), reason: reason.to_owned() });
        }
        let needs_gpu = [
            ("--step", arguments.step.is_some()),
            ("--device", arguments.device.is_some()),
            ("--devices", arguments.devices.is_some()),
            ("--memory", arguments.memory.is_some()),
        ]
        .into_iter()
        .find_map(|(option, given)| given.then_some(option));
        match (arguments.backend, needs_gpu) {
            (BackendChoice::Cpu, Some(option)) => Err(Failure::GpuOption { option }),
            (BackendChoice::Cpu, None) => Ok(Self::cpu("asked for by --backend")),
            (BackendChoice::Auto, None) => Ok(Self::best(problem)),
            (BackendChoice::Auto, Some(option)) => {
                Self::wgsl(arguments, &format!("asked for by {option}"))
            }
            (BackendChoice::Wgsl | BackendChoice::Hip, _) => {
                Self::wgsl(arguments, "asked for by --backend")
            }
        }
    }

    fn cpu(reason: impl Into<String>) -> Self {
        Self { device: Device::Cpu(Cpu::new()), reason: reason.into() }
    }

    fn wgsl(arguments: &Arguments, reason: &str) -> Result<Self, Failure> {
        let mut options = tune::options();
        options.memory_budget = arguments.memory;
        if let Some(devices) = &arguments.devices {
            let adapters = match devices {
                Shared::All => None,
                Shared::Some(indices) => Some(&indices[..]),
            };
            let device = Device::Shared(Wgsl::share(&options, adapters)?);
            return Ok(Self { device, reason: reason.to_owned() });
        }
        if let Some(device) = &arguments.device {
            options = options.adapter(AdapterChoice::parse(device));
        }
        Ok(Self { device: Device::Wgsl(Wgsl::with_options(&options)?), reason: reason.to_owned() })
    }

    /// A GPU if there is one that multiplies the element type, else the CPU.
    fn best(problem: &Problem) -> Self {
        if problem.a == ElementType::F64 {
            return Self::cpu("GPUs do not compute f64 through WGSL; --dtype f32 converts");
        }
        let options = tune::options();
        let device = match Wgsl::with_options(&options) {
            Ok(device) => device,
            Err(error) => return Self::cpu(error.to_string()),
        };
        let name = &device.adapter_info().name;
        if device.limits().software && options.adapter == AdapterChoice::Best {
            return Self::cpu(format!("the only WGSL device, {name}, is a program on the CPU too"));
        }
        let known = device.info().elements;
        if let Some(element) =
            [problem.a, problem.b].iter().find(|element| !known.contains(element))
        {
            return Self::cpu(format!("{name} does not multiply {element}"));
        }
        if problem.block_scales {
            return Self::cpu("the WGSL backend has no scales of blocks");
        }
        Self { device: Device::Wgsl(device), reason: "the best GPU".to_owned() }
    }

    /// Multiplies, with a progress bar if it takes long.
    ///
    /// # Errors
    /// As [`Gemm::run_with`].
    pub(super) fn multiply(
        &self,
        arguments: &Arguments,
        problem: &Problem,
        operands: &Operands<'_>,
    ) -> Result<Output, Error> {
        let kernel = arguments.step.and_then(|step| KernelChoice::step(step, problem.a));
        let options = PlanOptions::kernel(kernel.unwrap_or_default()).f16_sums(arguments.f16_sums);
        match &self.device {
            Device::Cpu(device) => multiply_on(device, problem, operands, &options),
            Device::Wgsl(device) => multiply_on(device, problem, operands, &options),
            Device::Shared(devices) => {
                let bar = Parts::new("product");
                devices.run(problem, operands, &options, &|progress| {
                    bar.update(progress.done, progress.total);
                })
            }
            Device::Hip(device) => multiply_on(device, problem, operands, &options),
        }
    }

    /// The device's name, driver and properties.
    pub(super) fn info(&self) -> DeviceInfo {
        match &self.device {
            Device::Cpu(device) => device.info(),
            Device::Wgsl(device) => device.info(),
            Device::Shared(devices) => {
                let all: Vec<_> = devices.iter().map(Backend::info).collect();
                let join = |of: fn(&DeviceInfo) -> &str| {
                    all.iter().map(of).collect::<Vec<_>>().join(" + ")
                };
                DeviceInfo::new("wgsl", join(|info| &info.name), join(|info| &info.driver))
            }
            Device::Hip(device) => device.info(),
        }
    }

    /// Why this device was taken.
    pub(super) fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether results that a NaN or infinity reaches are specified.
    pub(super) fn specifies_non_finite(&self) -> bool {
        !matches!(self.device, Device::Wgsl(_) | Device::Shared(_))
    }
}

fn multiply_on<B: Backend>(
    device: &B,
    problem: &Problem,
    operands: &Operands<'_>,
    options: &PlanOptions,
) -> Result<Output, Error> {
    let bar = Parts::new("product");
    pollster::block_on(Gemm::<B>::run_with(device, problem, operands, options, &|progress| {
        bar.update(progress.done, progress.total);
    }))
}
