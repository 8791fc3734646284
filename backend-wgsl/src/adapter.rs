//! Which adapters there are, and which one to use.

use std::fmt;
use std::sync::OnceLock;

use lapidary_core::Error;

/// How to pick an adapter.
///
/// Without a choice the environment variable `LAPIDARY_ADAPTER` is asked, in the form
/// [`AdapterChoice::parse`] takes, and without that the best adapter is taken.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AdapterChoice {
    /// Discrete, then integrated, then virtual GPUs, then whatever is left; a software device only
    /// when there is nothing else. The default.
    #[default]
    Best,
    /// The adapter at this place of [`list`].
    Index(usize),
    /// The first whose name contains this text, whatever the case.
    Name(String),
    /// The adapter at this PCI bus address, as `0000:65:00.0`.
    Pci(String),
}

impl AdapterChoice {
    /// Reads a number as an index, `pci:…` as a PCI address, and anything else as part of a name;
    /// nothing as the best.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if text.is_empty() {
            return Self::Best;
        }
        if let Ok(index) = text.parse() {
            return Self::Index(index);
        }
        match text.strip_prefix("pci:") {
            Some(address) => Self::Pci(address.to_owned()),
            None => Self::Name(text.to_owned()),
        }
    }

    /// What the environment variable `LAPIDARY_ADAPTER` asks for.
    #[must_use]
    pub fn from_environment() -> Self {
        std::env::var("LAPIDARY_ADAPTER").map_or(Self::Best, |text| Self::parse(&text))
    }
}

impl fmt::Display for AdapterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => f.write_str("the best adapter"),
            Self::Index(index) => write!(f, "adapter number {index}"),
            Self::Name(name) => write!(f, "the name {name:?}"),
            Self::Pci(address) => write!(f, "the PCI address {address:?}"),
        }
    }
}

/// What is known of an adapter without opening it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AdapterReport {
    /// Place in the list, for [`AdapterChoice::Index`].
    pub index: usize,
    /// The adapter's name, driver, type and API.
    pub info: wgpu::AdapterInfo,
    /// The most it allows.
    pub limits: wgpu::Limits,
    /// What it can do.
    pub features: wgpu::Features,
    /// Shapes and types of cooperative matrices it offers, in the API's words.
    pub cooperative_matrices: Vec<String>,
}

impl AdapterReport {
    /// Whether the adapter is a program on the CPU.
    #[must_use]
    pub fn is_software(&self) -> bool {
        self.info.device_type == wgpu::DeviceType::Cpu
    }
}

/// The APIs that can run compute shaders natively.
const BACKENDS: wgpu::Backends =
    wgpu::Backends::VULKAN.union(wgpu::Backends::METAL).union(wgpu::Backends::DX12);

/// The one connection to the system's graphics APIs, kept until the process ends.
///
/// Drivers register handlers for the end of the process. If the last instance were dropped before
/// that, the loader would unload the drivers and leave those handlers pointing at nothing.
pub(crate) fn instance() -> &'static wgpu::Instance {
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = BACKENDS;
        wgpu::Instance::new(descriptor)
    })
}

async fn adapters(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    instance.enumerate_adapters(BACKENDS).await
}

/// Every adapter of this machine, in the order the API lists them.
///
/// The list is empty where there is no Vulkan loader, Metal or DirectX 12.
pub async fn list() -> Vec<AdapterReport> {
    adapters(instance())
        .await
        .iter()
        .enumerate()
        .map(|(index, adapter)| AdapterReport {
            index,
            info: adapter.get_info(),
            limits: adapter.limits(),
            features: adapter.features(),
            cooperative_matrices: adapter
                .cooperative_matrix_properties()
                .iter()
                .map(|p| format!("{p:?}"))
                .collect(),
        })
        .collect()
}

/// The adapters of a list that share a product with profit, by their index: no software device beside
/// a GPU, and no GPU a second time through another API.
#[must_use]
pub fn sharing(adapters: &[AdapterReport]) -> Vec<usize> {
    let adapters =
        adapters.iter().map(|a| (a.index, a.is_software(), a.info.device_pci_bus_id.as_str()));
    sharing_of(&adapters.collect::<Vec<_>>())
}

/// The same of index, whether the adapter is a program, and PCI address.
fn sharing_of(adapters: &[(usize, bool, &str)]) -> Vec<usize> {
    let gpu = adapters.iter().any(|(_, software, _)| !software);
    let mut seen = Vec::new();
    let mut shared = Vec::new();
    for &(index, software, address) in adapters {
        let again = !address.is_empty() && seen.contains(&address);
        let slower = gpu && software;
        if !(again || slower) {
            seen.push(address);
            shared.push(index);
        }
    }
    shared
}

/// Finds the adapter that `choice` names.
///
/// # Errors
/// [`Error::NoDevice`] with what was looked for and what there is.
pub(crate) async fn find(
    instance: &wgpu::Instance,
    choice: &AdapterChoice,
) -> Result<wgpu::Adapter, Error> {
    let mut all = adapters(instance).await;
    let names: Vec<String> = all.iter().map(|a| a.get_info().name).collect();
    let position = match choice {
        AdapterChoice::Best => (0..all.len()).min_by_key(|&i| rank(all[i].get_info().device_type)),
        AdapterChoice::Index(index) => (*index < all.len()).then_some(*index),
        AdapterChoice::Name(part) => {
            let part = part.to_lowercase();
            names.iter().position(|name| name.to_lowercase().contains(&part))
        }
        AdapterChoice::Pci(address) => {
            all.iter().position(|a| a.get_info().device_pci_bus_id.eq_ignore_ascii_case(address))
        }
    };
    match position {
        Some(position) => Ok(all.swap_remove(position)),
        None if names.is_empty() => Err(Error::NoDevice {
            reason: "no Vulkan, Metal or DirectX 12 adapter was found; on Debian or Ubuntu, \
                `apt-get install libvulkan1 mesa-vulkan-drivers` brings a software one"
                .into(),
        }),
        None => Err(Error::NoDevice {
            reason: format!("{choice} matches none of the adapters {}", names.join(", ")),
        }),
    }
}

/// Preference among kinds of adapters; the software device comes last.
const fn rank(kind: wgpu::DeviceType) -> u8 {
    match kind {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_parse() {
        assert_eq!(AdapterChoice::parse(" "), AdapterChoice::Best);
        assert_eq!(AdapterChoice::parse("2"), AdapterChoice::Index(2));
        assert_eq!(AdapterChoice::parse("llvm"), AdapterChoice::Name("llvm".into()));
        assert_eq!(AdapterChoice::parse("pci:0:1"), AdapterChoice::Pci("0:1".into()));
    }

    #[test]
    fn every_gpu_shares_once_and_software_only_by_itself() {
        let software = (0, true, "");
        let [first, second] = [(1, false, "0000:01:00.0"), (2, false, "0000:02:00.0")];
        let again = (3, false, "0000:01:00.0");
        // On systems without PCI every address is empty.
        let [third, fourth] = [(4, false, ""), (5, false, "")];
        assert!(sharing_of(&[]).is_empty());
        assert_eq!(sharing_of(&[software]), [0]);
        assert_eq!(sharing_of(&[software, first, second, again]), [1, 2]);
        assert_eq!(sharing_of(&[third, software, fourth]), [4, 5]);
    }

    #[test]
    fn a_software_device_is_the_last_resort() {
        use wgpu::DeviceType::{Cpu, DiscreteGpu, IntegratedGpu, Other, VirtualGpu};
        let mut kinds = [Cpu, Other, VirtualGpu, IntegratedGpu, DiscreteGpu];
        kinds.sort_by_key(|&kind| rank(kind));
        assert_eq!(kinds, [DiscreteGpu, IntegratedGpu, VirtualGpu, Other, Cpu]);
    }
}
