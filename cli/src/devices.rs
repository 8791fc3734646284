//! `lapidary devices`: what can compute here, what it can and cannot do, and why.

use std::fmt;
use std::process::ExitCode;

use clap::Args;
use lapidary_core::{Backend, Cpu, DeviceInfo, ElementType, Error};
use lapidary_hip::Hip;
use lapidary_hip::runtime::rocm::Rocm;
use lapidary_wgsl::{AdapterChoice, AdapterReport, Wgsl, WgslOptions, adapter};
use serde::Serialize;

use crate::failure::Failure;
use crate::hip::{self, Emulate};
use crate::print;

/// List every backend and device, what each can do, and what it cannot and why.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

/// Everything there is; its JSON form has these names.
#[derive(Serialize)]
struct Devices {
    devices: Vec<Entry>,
    /// Why the WGSL backend has no usable device, if it has none.
    wgsl_reason: Option<String>,
    /// Why the HIP backend sees no ROCm device, if it sees none.
    hip_reason: Option<String>,
}

/// One device.
#[derive(Serialize)]
struct Entry {
    backend: &'static str,
    /// What `--device` takes, where there is a choice.
    index: Option<usize>,
    pci: Option<String>,
    name: String,
    driver: String,
    usable: bool,
    /// Element types it multiplies.
    elements: Vec<&'static str>,
    /// What it cannot do, and why.
    lacks: Vec<String>,
    properties: Vec<(String, String)>,
}

/// Prints the list.
///
/// # Errors
/// [`Failure::Print`] only: a backend without a device is part of the list.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut devices = vec![cpu()];
    devices.extend(pollster::block_on(adapter::list()).iter().map(wgsl));
    let none = !devices.iter().any(|device| device.backend == WGSL && device.usable);
    let wgsl_reason = none.then(|| match Wgsl::new() {
        Ok(_) => "no adapter of the list could be opened".to_owned(),
        Err(error) => error.to_string(),
    });
    let (rocm, hip_reason) = rocm();
    devices.extend(rocm);
    devices.extend(Emulate::ALL.map(emulated));
    print::report(&Devices { devices, wgsl_reason, hip_reason }, arguments.json)?;
    Ok(ExitCode::SUCCESS)
}

/// The name the WGSL backend gives itself.
const WGSL: &str = "wgsl";

fn cpu() -> Entry {
    entry(Cpu::new().info(), Vec::new())
}

fn wgsl(report: &AdapterReport) -> Entry {
    let choice = AdapterChoice::Index(report.index);
    let entry = match Wgsl::with_options(&WgslOptions::default().adapter(choice)) {
        Ok(device) => {
            let info = device.info();
            let mut lacks = vec!["f64: WGSL has none; --dtype f32 converts the inputs".to_owned()];
            if !info.elements.contains(&ElementType::F16) {
                lacks.push("f16: the adapter lacks the feature SHADER_F16".to_owned());
            }
            if report.cooperative_matrices.is_empty() {
                lacks.push("cooperative matrices: the adapter lists no configuration".to_owned());
            }
            entry(info, lacks)
        }
        Err(error) => Entry {
            backend: WGSL,
            index: None,
            pci: None,
            name: report.info.name.clone(),
            driver: report.info.driver.clone(),
            usable: false,
            elements: Vec::new(),
            lacks: vec![error.to_string()],
            properties: Vec::new(),
        },
    };
    let pci = &report.info.device_pci_bus_id;
    Entry { index: Some(report.index), pci: (!pci.is_empty()).then(|| pci.clone()), ..entry }
}

/// The name the HIP backend gives itself.
const HIP: &str = "hip";

/// The ROCm devices, or why there are none.
fn rocm() -> (Vec<Entry>, Option<String>) {
    let devices = match Rocm::devices() {
        Ok(devices) => devices,
        Err(error) => return (Vec::new(), Some(error.to_string())),
    };
    if devices.is_empty() {
        let reason = match Hip::new() {
            Ok(_) => "HIP lists no device".to_owned(),
            Err(error) => error.to_string(),
        };
        return (Vec::new(), Some(reason));
    }
    let entries = devices.iter().map(|device| {
        let opened = hip::open(None, Some(device.index));
        let named = format!("{} ({})", device.name, device.arch);
        Entry {
            index: Some(device.index),
            pci: Some(device.pci.clone()),
            ..hip_entry(opened, named)
        }
    });
    (entries.collect(), None)
}

fn emulated(emulate: Emulate) -> Entry {
    let name = format!("{}, emulated on the CPU", emulate.target());
    let mut entry = hip_entry(hip::open(Some(emulate), None), name);
    entry.properties.push(("use".into(), format!("--emulate {}", emulate.target())));
    entry
}

fn hip_entry(device: Result<Hip, Error>, name: String) -> Entry {
    match device {
        Ok(device) => {
            let mut lacks = vec!["f64: no kernel; --dtype f32 converts the inputs".to_owned()];
            if !device.target().has_preshuffle() {
                lacks.push("matrix cores: there are kernels for those of gfx942 and gfx950".into());
            }
            entry(device.info(), lacks)
        }
        Err(error) => Entry {
            backend: HIP,
            index: None,
            pci: None,
            name,
            driver: String::new(),
            usable: false,
            elements: Vec::new(),
            lacks: vec![error.to_string()],
            properties: Vec::new(),
        },
    }
}

fn entry(info: DeviceInfo, lacks: Vec<String>) -> Entry {
    Entry {
        backend: info.backend,
        index: None,
        pci: None,
        name: info.name,
        driver: info.driver,
        usable: true,
        elements: info.elements.iter().map(|element| element.name()).collect(),
        lacks,
        properties: info.properties,
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for device in &self.devices {
            write!(f, "{}", device.backend)?;
            if let Some(index) = device.index {
                write!(f, " {index}")?;
            }
            write!(f, ": {}", device.name)?;
            if !device.driver.is_empty() {
                write!(f, " ({})", device.driver)?;
            }
            writeln!(f)?;
            if device.usable {
                writeln!(f, "  multiplies: {}", device.elements.join(", "))?;
            }
            for lack in &device.lacks {
                writeln!(f, "  cannot: {lack}")?;
            }
            if let Some(pci) = &device.pci {
                match device.backend {
                    WGSL => writeln!(f, "  PCI address: {pci} (--device pci:{pci})")?,
                    _ => writeln!(f, "  PCI address: {pci}")?,
                }
            }
            for (name, value) in &device.properties {
                writeln!(f, "  {name}: {value}")?;
            }
        }
        if let Some(reason) = &self.wgsl_reason {
            writeln!(f, "wgsl: {reason}")?;
        }
        if let Some(reason) = &self.hip_reason {
            writeln!(f, "hip: {reason}")?;
        }
        Ok(())
    }
}
