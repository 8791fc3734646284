//! One adapter opened several times: as it is, and in ways that results must not depend on.

use lapidary_core::Error;
use lapidary_wgsl::{ShaderRewrite, Wgsl, WgslOptions};

use super::reverse::reverse;
use crate::adapter::{Executed, Job, Order, execute_on};
use crate::spec::Route;

/// Bytes of a storage binding where products are cut into pieces: the sums of a block of 128x128.
const BINDING: u64 = 1 << 16;

/// Workgroups along an axis there.
const WORKGROUPS: u32 = 8;

/// Bytes of device memory that a streamed product may hold: two pieces with blocks of 64x64x64, their
/// sums, and copies of all.
pub(super) const BUDGET: u64 = 224 << 10;

/// The devices.
#[derive(Clone, Debug)]
pub(super) struct Devices {
    pub(super) plain: Wgsl,
    /// With the workgroups of every dispatch in reverse order.
    pub(super) reversed: Option<Wgsl>,
    pub(super) cutting: Option<Cutting>,
    pub(super) specialised: Option<Specialised>,
}

/// Devices whose kernels have sizes and strides in their text, whatever the size.
#[derive(Clone, Debug)]
pub(super) struct Specialised {
    natural: Wgsl,
    reversed: Wgsl,
}

impl Specialised {
    /// Opens both like `device`, which `options` have opened, but for that.
    fn open(device: &Wgsl, options: &WgslOptions) -> Result<Self, Error> {
        let mut tuning = device.limits().tuning;
        tuning.specialise_flops = 0.0;
        let options = options.clone().tuning(tuning);
        Ok(Self {
            natural: Wgsl::with_options(&options)?,
            reversed: Wgsl::with_options(&options.rewrite(ShaderRewrite::new(reverse)))?,
        })
    }
}

/// Devices that cut products into pieces.
#[derive(Clone, Debug)]
pub(super) struct Cutting {
    pub(super) pieces: Wgsl,
    pub(super) streamed: Wgsl,
}

impl Cutting {
    /// Opens both like `device`, which `options` have opened, but for what cuts products.
    fn open(device: &Wgsl, options: &WgslOptions) -> Result<Self, Error> {
        let raw = device.device();
        let limits = lapidary_wgsl::wgpu::Limits {
            max_storage_buffer_binding_size: BINDING,
            max_compute_workgroups_per_dimension: WORKGROUPS,
            ..raw.limits()
        };
        Ok(Self {
            pieces: Wgsl::with_options(&options.clone().restrict(limits, raw.features()))?,
            streamed: Wgsl::with_options(&options.clone().memory_budget(BUDGET))?,
        })
    }
}

impl Devices {
    /// All of them.
    pub(super) fn open(options: &WgslOptions) -> Result<Self, Error> {
        let plain = Wgsl::with_options(options)?;
        let reversed = Wgsl::with_options(&options.clone().rewrite(ShaderRewrite::new(reverse)))?;
        let cutting = Some(Cutting::open(&plain, options)?);
        let specialised = Some(Specialised::open(&plain, options)?);
        Ok(Self { plain, reversed: Some(reversed), cutting, specialised })
    }

    /// The device as it is and no other.
    pub(super) fn alone(options: &WgslOptions) -> Result<Self, Error> {
        Ok(Self {
            plain: Wgsl::with_options(options)?,
            reversed: None,
            cutting: None,
            specialised: None,
        })
    }

    /// The routes that there are devices for.
    pub(super) fn routes(&self) -> &[Route] {
        match self.cutting {
            Some(_) => &[
                Route::Device,
                Route::Packed,
                Route::Host,
                Route::Pieces,
                Route::Streamed,
                Route::Specialised,
            ],
            None => &[Route::Device, Route::Packed, Route::Host],
        }
    }

    /// The device of a route.
    pub(super) fn of(&self, route: Route) -> &Wgsl {
        match (route, &self.cutting, &self.specialised) {
            (Route::Pieces, Some(cutting), _) => &cutting.pieces,
            (Route::Streamed, Some(cutting), _) => &cutting.streamed,
            (Route::Specialised, _, Some(specialised)) => &specialised.natural,
            _ => &self.plain,
        }
    }

    pub(super) fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        let device = match (job.order, job.route, &self.specialised) {
            (Order::Reversed, Route::Specialised, Some(specialised)) => Some(&specialised.reversed),
            (Order::Reversed, ..) => self.reversed.as_ref(),
            _ => None,
        };
        execute_on(device.unwrap_or_else(|| self.of(job.route)), job)
    }
}
