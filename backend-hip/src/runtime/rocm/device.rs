//! What HIP says of its devices, and which of them is taken.

use core::ffi::{c_char, c_int};

use super::api::{Api, MULTIPROCESSOR_COUNT, PROPERTIES_BYTES, PropertiesLayout};
use super::error::RocmError;
use crate::runtime::Description;
use crate::target::Target;

/// A device that HIP sees.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RocmDevice {
    /// HIP's number for it, from 0, after `HIP_VISIBLE_DEVICES`.
    pub index: usize,
    /// Its name, such as `AMD Instinct MI300X`.
    pub name: String,
    /// HIP's name for its architecture, such as `gfx942:sramecc+:xnack-`.
    pub arch: String,
    /// The architecture, if kernels are compiled for it.
    pub target: Option<Target>,
    /// Compute units.
    pub compute_units: usize,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// Its place on the PCI bus: `domain:bus:device.function` in hexadecimal.
    pub pci: String,
}

/// Every device, in HIP's order; empty if there is none.
pub(super) fn devices(api: &Api) -> Result<Vec<RocmDevice>, RocmError> {
    (0..api.device_count()?).map(|index| device(api, index)).collect()
}

fn device(api: &Api, index: c_int) -> Result<RocmDevice, RocmError> {
    let table = &api.table;
    let check = |call, what: &str, code| api.check(call, format!("{what} of device {index}"), code);

    // One byte more than HIP is told of, so that there is always a zero at the end.
    let mut buffer = [0u8; 257];
    // SAFETY: HIP writes at most the 256 bytes it is told of.
    check("hipDeviceGetName", "asking for the name", unsafe {
        (table.hipDeviceGetName)(buffer.as_mut_ptr().cast::<c_char>(), 256, index)
    })?;
    let name = until_zero(&buffer);

    buffer.fill(0);
    // SAFETY: as above.
    check("hipDeviceGetPCIBusId", "asking for the PCI place", unsafe {
        (table.hipDeviceGetPCIBusId)(buffer.as_mut_ptr().cast::<c_char>(), 256, index)
    })?;
    let pci = until_zero(&buffer);

    let mut compute_units = 0;
    // SAFETY: the pointer is to a live integer.
    check("hipDeviceGetAttribute", "asking for the compute units", unsafe {
        (table.hipDeviceGetAttribute)(&raw mut compute_units, MULTIPROCESSOR_COUNT, index)
    })?;

    let mut memory = 0;
    // SAFETY: the pointer is to a live integer.
    check("hipDeviceTotalMem", "asking for the memory", unsafe {
        (table.hipDeviceTotalMem)(&raw mut memory, index)
    })?;

    let (layout, get) = table.properties;
    let call = match layout {
        PropertiesLayout::R0000 => "hipGetDeviceProperties",
        PropertiesLayout::R0600 => "hipGetDevicePropertiesR0600",
    };
    // Words, since the structure has pointers in it and must be aligned like one.
    let mut properties = [0u64; PROPERTIES_BYTES / 8];
    // SAFETY: the buffer is larger than the structure, and aligned to 8.
    check(call, "asking for the architecture", unsafe {
        get(properties.as_mut_ptr().cast(), index)
    })?;
    let bytes: &[u8] = bytemuck::cast_slice(&properties);
    let arch = until_zero(&bytes[layout.arch_name_offset()..][..256]);

    Ok(RocmDevice {
        index: usize::try_from(index).unwrap_or_default(),
        target: Target::from_name(&arch),
        name,
        arch,
        compute_units: usize::try_from(compute_units).unwrap_or_default(),
        memory_bytes: memory as u64,
        pci,
    })
}

/// The text before the first zero byte.
fn until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The device asked for; otherwise the first that runs the matrix kernels, otherwise the first that
/// kernels are compiled for at all.
///
/// # Errors
/// [`RocmError::DeviceIndex`] and [`RocmError::UnknownArch`]; there must be a device.
pub(super) fn choose(
    devices: &[RocmDevice],
    wanted: Option<usize>,
) -> Result<(&RocmDevice, Target), RocmError> {
    let count = devices.len();
    let with_target = |device: &'_ RocmDevice| device.target;
    let device = match wanted {
        Some(index) => devices.get(index),
        None => devices
            .iter()
            .find(|device| with_target(device).is_some_and(Target::has_preshuffle))
            .or_else(|| devices.iter().find(|device| device.target.is_some()))
            .or(devices.first()),
    };
    let device = device.ok_or(RocmError::DeviceIndex { index: wanted.unwrap_or(0), count })?;
    let target = device.target.ok_or_else(|| RocmError::UnknownArch {
        index: device.index,
        name: device.name.clone(),
        arch: device.arch.clone(),
    })?;
    Ok((device, target))
}

/// A device as the trait describes it.
pub(super) fn describe(api: &Api, device: &RocmDevice, target: Target) -> Description {
    let driver = format!("HIP {} ({})", api.version_text(), api.library);
    let mut description = Description::new(&device.name, driver, target);
    description.compute_units = device.compute_units;
    description.memory_bytes = device.memory_bytes;
    description.properties = vec![
        ("device".into(), device.index.to_string()),
        ("arch".into(), device.arch.clone()),
        ("pci".into(), device.pci.clone()),
    ];
    description
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(index: usize, arch: &str) -> RocmDevice {
        RocmDevice {
            index,
            name: format!("card {index}"),
            arch: arch.into(),
            target: Target::from_name(arch),
            compute_units: 1,
            memory_bytes: 1,
            pci: String::new(),
        }
    }

    #[test]
    fn matrix_cores_come_first_and_an_index_is_obeyed() {
        let devices =
            [named(0, "gfx1036"), named(1, "gfx1100"), named(2, "gfx942:sramecc+:xnack-")];
        let chosen =
            |wanted| choose(&devices, wanted).map(|(device, target)| (device.index, target));
        assert_eq!(chosen(None), Ok((2, Target::Gfx942)));
        assert_eq!(chosen(Some(1)), Ok((1, Target::Gfx1100)));
        assert!(matches!(chosen(Some(0)), Err(RocmError::UnknownArch { index: 0, .. })));
        assert_eq!(chosen(Some(3)), Err(RocmError::DeviceIndex { index: 3, count: 3 }));
        assert_eq!(choose(&devices[..2], None).map(|(d, _)| d.index), Ok(1));
    }

    #[test]
    fn an_unknown_architecture_is_one_line_with_the_known_ones() {
        let error = choose(&[named(0, "gfx1036")], None).expect_err("unknown").to_string();
        assert!(error.contains("gfx1036") && error.contains("gfx942"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
}
