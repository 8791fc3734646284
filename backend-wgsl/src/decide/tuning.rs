//! What each class of devices likes, as plain data.
//!
//! The figures of [`Tuning::HOPPER`] were measured (`docs/speed.md`); the other classes scale them
//! by what is known of the class and are estimates.

/// What decisions assume of a device beyond its limits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Tuning {
    /// The class's name, which plans report.
    pub class: &'static str,
    /// Where the figures were measured; `None` where they are estimates.
    pub measured_on: Option<&'static str>,
    /// Processors, each with its own workgroup memory.
    pub processors: usize,
    /// f32 operations a second of the best register-tiled kernel on large matrices; other kernels
    /// are rated relative to it.
    pub flops: f64,
    /// Bytes a second from device memory.
    pub bytes: f64,
    /// Seconds a further dispatch of an execution adds.
    pub dispatch: f64,
    /// Operations from which K and the strides are written into a kernel's text, which costs a
    /// compilation for each of them; infinite for never.
    pub specialise_flops: f64,
    /// Uses of an element from which an operand that needs a transposition is copied first.
    pub copy_reuse: usize,
    /// The same for an operand whose strides only allow single loads.
    pub copy_reuse_unaligned: usize,
    /// Whether K may be cut into slices, and blocks be shared evenly.
    pub slices: bool,
    /// Whether groups of a workgroup's threads may share out K.
    pub groups: bool,
    /// Rows or columns up to which the skinny kernel is taken; 0 for never.
    pub skinny_lines: usize,
    /// Threads of the skinny kernel's workgroups where lines are neighbours in memory.
    pub skinny_threads: usize,
    /// Whether i8 products use the packed dot product.
    pub dot4: bool,
}

impl Tuning {
    /// NVIDIA's Hopper class. Measured on an H200.
    pub const HOPPER: Self = Self {
        class: "Hopper GPU",
        measured_on: Some("NVIDIA H200, driver 580.159.04"),
        processors: 132,
        flops: 47e12,
        bytes: 4.0e12,
        dispatch: 3.5e-6,
        specialise_flops: 3e7,
        copy_reuse: 3072,
        copy_reuse_unaligned: 512,
        slices: true,
        groups: true,
        skinny_lines: 16,
        skinny_threads: 1024,
        dot4: true,
    };

    /// Any other discrete GPU.
    pub const DISCRETE: Self = Self {
        class: "discrete GPU",
        measured_on: None,
        processors: 64,
        flops: 15e12,
        bytes: 0.6e12,
        dispatch: 5e-6,
        copy_reuse: 4096,
        skinny_threads: 256,
        ..Self::HOPPER
    };

    /// GPUs that share the processor's memory.
    pub const INTEGRATED: Self = Self {
        class: "integrated GPU",
        processors: 16,
        flops: 2e12,
        bytes: 0.1e12,
        dispatch: 1e-5,
        copy_reuse: usize::MAX,
        copy_reuse_unaligned: usize::MAX,
        ..Self::DISCRETE
    };

    /// Devices that are programs on the CPU: compilation takes seconds and tiles save nothing, so
    /// everything beyond the plain kernels is off.
    pub const SOFTWARE: Self = Self {
        class: "software device",
        measured_on: None,
        processors: 1,
        flops: 20e9,
        bytes: 10e9,
        dispatch: 1e-4,
        specialise_flops: f64::INFINITY,
        copy_reuse: usize::MAX,
        copy_reuse_unaligned: usize::MAX,
        slices: false,
        groups: false,
        skinny_lines: 0,
        skinny_threads: 256,
        dot4: false,
    };

    /// Every class, as the crate ships them.
    pub const SHIPPED: [Self; 4] = [Self::HOPPER, Self::DISCRETE, Self::INTEGRATED, Self::SOFTWARE];

    /// The class of an adapter.
    #[must_use]
    pub fn of(info: &wgpu::AdapterInfo) -> Self {
        match info.device_type {
            wgpu::DeviceType::Cpu => Self::SOFTWARE,
            wgpu::DeviceType::DiscreteGpu | wgpu::DeviceType::VirtualGpu => {
                let hopper = ["H100", "H200", "H800", "GH200"];
                if hopper.iter().any(|part| info.name.contains(part)) {
                    Self::HOPPER
                } else {
                    Self::DISCRETE
                }
            }
            _ => Self::INTEGRATED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_names_of_their_own_and_say_where_they_were_measured() {
        for (index, class) in Tuning::SHIPPED.iter().enumerate() {
            assert!(Tuning::SHIPPED[..index].iter().all(|other| other.class != class.class));
            assert_eq!(class.measured_on.is_some(), class.class == "Hopper GPU", "{}", class.class);
            assert!(class.processors > 0 && class.flops > 0.0 && class.bytes > 0.0);
        }
    }
}
