//! What a device allows, as plain data that decisions are made from.

use crate::decide::{MatrixUnits, Tuning};

/// Floating-point operations one dispatch may have on a GPU: under a second on a slow one, so that
/// no watchdog ends it.
const DISPATCH_OPERATIONS: f64 = 4e11;

/// The same on a device that is a program on the CPU; keeps progress visible.
const SOFTWARE_DISPATCH_OPERATIONS: f64 = 2e10;

/// Rows, columns and steps of the matrices that WGSL can spell, larger ones first.
const MATRIX_SIDES: [u32; 2] = [16, 8];

/// Lanes of the subgroups that cooperative kernels can be cut for: a lane has a column of a subgroup's
/// tile at least, and tiles have 32.
const MATRIX_LANES: [u32; 3] = [8, 16, 32];

/// The limits and features a plan depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// Storage bindings a kernel may have.
    pub storage_bindings: u32,
    /// Whether shaders may load f16 (`SHADER_F16`).
    pub f16: bool,
    /// Whether the device is a program on the CPU.
    pub software: bool,
    /// Whether the host reads and writes the device's memory in place: an integrated GPU, or a program on
    /// the CPU, with the feature `MAPPABLE_PRIMARY_BUFFERS`.
    pub unified: bool,
    /// Lanes of a subgroup where shaders may use subgroups and all have one size, else 0.
    pub subgroup_lanes: u32,
    /// Rows, columns and steps along K of the cooperative matrices in use: 16, or 8 where the device
    /// lists no larger ones; 0 without any.
    pub matrix_side: u32,
    /// Whether cooperative matrices of this size with f16 factors and f32 sums can be used.
    pub cooperative: bool,
    /// The same of f16 factors and f16 sums.
    pub cooperative_f16: bool,
    /// What the device likes.
    pub tuning: Tuning,
}

/// Whether devices of this kind have no memory of their own.
pub(crate) fn shares_memory(kind: wgpu::DeviceType) -> bool {
    matches!(kind, wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::Cpu)
}

impl DeviceLimits {
    /// The limits of an open device.
    #[must_use]
    pub fn of(device: &wgpu::Device) -> Self {
        let info = device.adapter_info();
        let features = device.features();
        let software = info.device_type == wgpu::DeviceType::Cpu;
        let one_size = info.subgroup_min_size == info.subgroup_max_size;
        let subgroups = features.contains(wgpu::Features::SUBGROUP) && one_size;
        Self {
            unified: shares_memory(info.device_type)
                && features.contains(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS),
            subgroup_lanes: if subgroups { info.subgroup_min_size } else { 0 },
            tuning: Tuning::of(&info),
            ..Self::from_limits(&device.limits(), features, software)
        }
    }

    /// The matrix units that cooperative kernels are written for, if there are any for these.
    pub(crate) fn matrix_units(&self) -> Option<MatrixUnits> {
        let (side, lanes) = (self.matrix_side, self.subgroup_lanes);
        let known = MATRIX_SIDES.contains(&side) && MATRIX_LANES.contains(&lanes);
        known.then_some(MatrixUnits { side, lanes })
    }

    /// Takes the largest cooperative matrices of a list that the kernels have a use for: square, f16
    /// factors, f32 or f16 sums, in subgroups of a size that shares a kernel's tiles evenly.
    pub(crate) fn list_matrices(&mut self, listed: &[wgpu::CooperativeMatrixProperties]) {
        use wgpu::CooperativeScalarType::{F16, F32};
        if !MATRIX_LANES.contains(&self.subgroup_lanes) {
            return;
        }
        let has = |side, sums| {
            listed.iter().any(|matrix| {
                let sizes = [matrix.m_size, matrix.n_size, matrix.k_size];
                sizes == [side; 3] && matrix.ab_type == F16 && matrix.cr_type == sums
            })
        };
        // Sums in f32 are what products get unless they ask for others.
        let with = |sums| MATRIX_SIDES.into_iter().find(|&side| has(side, sums));
        if let Some(side) = with(F32).or_else(|| with(F16)) {
            self.matrix_side = side;
            (self.cooperative, self.cooperative_f16) = (has(side, F32), has(side, F16));
        }
    }

    /// Floating-point operations that one submission may have without a watchdog's ending it; on a
    /// program on the CPU, without a long silence.
    #[must_use]
    pub fn dispatch_operations(&self) -> f64 {
        if self.software { SOFTWARE_DISPATCH_OPERATIONS } else { DISPATCH_OPERATIONS }
    }

    /// The limits of a device that would be opened with these: without subgroups, cooperative
    /// matrices and memory shared with the host, which limits do not tell of, and with the tuning of an unknown GPU.
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
            storage_bindings: limits.max_storage_buffers_per_shader_stage,
            f16: features.contains(wgpu::Features::SHADER_F16),
            software,
            unified: false,
            subgroup_lanes: 0,
            matrix_side: 0,
            cooperative: false,
            cooperative_f16: false,
            tuning: if software { Tuning::SOFTWARE } else { Tuning::DISCRETE },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgpu::CooperativeScalarType::{self, F16, F32, I32};

    const fn matrix(
        [m_size, n_size, k_size]: [u32; 3],
        ab_type: CooperativeScalarType,
        cr_type: CooperativeScalarType,
    ) -> wgpu::CooperativeMatrixProperties {
        wgpu::CooperativeMatrixProperties {
            m_size,
            n_size,
            k_size,
            ab_type,
            cr_type,
            saturating_accumulation: false,
        }
    }

    /// The largest square matrices of f16 that the subgroups' size allows.
    #[test]
    fn matrices_of_a_list_are_taken_or_left() {
        let [large, small] = [[16; 3], [8; 3]];
        let wide = [16, 8, 16];
        for (lanes, listed, side, sums) in [
            (32, vec![matrix(small, F16, F32), matrix(large, F16, F32)], 16, [true, false]),
            (32, vec![matrix(large, F16, F16), matrix(small, F16, F32)], 8, [true, false]),
            (32, vec![matrix(large, F16, F16), matrix(small, F16, F16)], 16, [false, true]),
            (8, vec![matrix(small, F16, F32), matrix(small, F16, F16)], 8, [true, true]),
            (16, vec![matrix(wide, F16, F32), matrix(large, F16, F32)], 16, [true, false]),
            (32, vec![matrix(wide, F16, F32), matrix(large, F32, F32)], 0, [false, false]),
            (32, vec![matrix(large, F16, I32)], 0, [false, false]),
            (64, vec![matrix(large, F16, F32)], 0, [false, false]),
            (0, vec![matrix(large, F16, F32)], 0, [false, false]),
            (32, vec![], 0, [false, false]),
        ] {
            let features = wgpu::Features::SHADER_F16;
            let mut limits = DeviceLimits::from_limits(&wgpu::Limits::defaults(), features, false);
            limits.subgroup_lanes = lanes;
            limits.list_matrices(&listed);
            let found = [limits.cooperative, limits.cooperative_f16];
            assert_eq!((limits.matrix_side, found), (side, sums), "{lanes}: {listed:?}");
        }
    }
}
