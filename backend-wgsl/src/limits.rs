//! What a device allows, as plain data that decisions are made from.

/// The limits and features a plan depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DeviceLimits {
    /// Bytes of workgroup memory a workgroup may use.
    pub workgroup_bytes: usize,
    /// Threads a workgroup may have.
    pub workgroup_threads: usize,
    /// Workgroups a dispatch may have along each axis.
    pub workgroups_per_axis: u32,
    /// Bytes one storage binding may span.
    pub binding_bytes: u64,
    /// Bytes one buffer may have.
    pub buffer_bytes: u64,
    /// The multiple that a storage binding's offset must be of.
    pub binding_alignment: u64,
    /// Whether shaders may load f16 (`SHADER_F16`).
    pub f16: bool,
    /// Whether the device is a program on the CPU.
    pub software: bool,
}

impl DeviceLimits {
    /// The limits of an open device.
    #[must_use]
    pub fn of(device: &wgpu::Device) -> Self {
        let software = device.adapter_info().device_type == wgpu::DeviceType::Cpu;
        Self::from_limits(&device.limits(), device.features(), software)
    }

    /// The limits of a device that would be opened with these.
    #[must_use]
    pub fn from_limits(limits: &wgpu::Limits, features: wgpu::Features, software: bool) -> Self {
        Self {
            workgroup_bytes: limits.max_compute_workgroup_storage_size as usize,
            workgroup_threads: limits.max_compute_invocations_per_workgroup as usize,
            workgroups_per_axis: limits.max_compute_workgroups_per_dimension,
            // Indices inside a binding are 32-bit.
            binding_bytes: u64::from(u32::MAX).min(limits.max_storage_buffer_binding_size),
            buffer_bytes: limits.max_buffer_size,
            binding_alignment: u64::from(limits.min_storage_buffer_offset_alignment).max(16),
            f16: features.contains(wgpu::Features::SHADER_F16),
            software,
        }
    }
}
