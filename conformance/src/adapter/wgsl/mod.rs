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

/// Bytes of a storage binding where products are cut into pieces: the sums of a block of 128x128.
const BINDING: u64 = 1 << 16;

/// Workgroups along an axis there.
const WORKGROUPS: u32 = 8;

/// Bytes of device memory that a streamed product may hold: two pieces with blocks of 64x64x64, their
/// sums, and copies of all.
const BUDGET: u64 = 224 << 10;

/// A device for WGSL, and more of the same adapter: one with the workgroups of every dispatch reversed,
/// one whose limits cut products into pieces, and one whose memory budget streams them.
#[derive(Clone, Debug)]
pub struct WgslAdapter {
    device: Wgsl,
    reversed: Option<Wgsl>,
    cutting: Option<Cutting>,
}

/// Devices that cut products into pieces.
#[derive(Clone, Debug)]
struct Cutting {
    pieces: Wgsl,
    streamed: Wgsl,
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

impl WgslAdapter {
    /// Opens the device that `options` choose: as it is, with reversed workgroups, and with what cuts
    /// products into pieces.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn open(options: &WgslOptions) -> Result<Self, Error> {
        let device = Wgsl::with_options(options)?;
        let reversed = Wgsl::with_options(&options.clone().rewrite(ShaderRewrite::new(reverse)))?;
        let cutting = Some(Cutting::open(&device, options)?);
        Ok(Self { device, reversed: Some(reversed), cutting })
    }

    /// A device whose shaders `rewrite` changes.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn with_rewrite(options: &WgslOptions, rewrite: ShaderRewrite) -> Result<Self, Error> {
        let device = Wgsl::with_options(&options.clone().rewrite(rewrite))?;
        Ok(Self { device, reversed: None, cutting: None })
    }

    /// The device of a route.
    fn device_of(&self, route: Route) -> &Wgsl {
        match (route, &self.cutting) {
            (Route::Pieces, Some(cutting)) => &cutting.pieces,
            (Route::Streamed, Some(cutting)) => &cutting.streamed,
            _ => &self.device,
        }
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

    fn routes(&self) -> &[Route] {
        match self.cutting {
            Some(_) => &[Route::Device, Route::Packed, Route::Host, Route::Pieces, Route::Streamed],
            None => &[Route::Device, Route::Packed, Route::Host],
        }
    }

    fn expect(&self, kernel: &KernelChoice, case: &Outline, route: Route) -> Expectation {
        let limits = self.device_of(route).limits();
        let whole = refuse::expect(kernel, case, &self.types(), limits);
        match (whole, route) {
            (Expectation::Runs, Route::Pieces) => refuse::in_pieces(kernel, &case.problem, limits),
            (Expectation::Runs, Route::Streamed) => refuse::streamed(&case.problem, BUDGET),
            (whole, _) => whole,
        }
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
        Some(self.device_of(spec.route).decide(&problem, *kernel).ok()?.summary.kernel)
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
            _ => execute_on(self.device_of(job.route), job),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lapidary_core::{Backend, PlanOptions};
    use lapidary_wgsl::stream;

    use super::*;
    use crate::generate::generate;

    /// Along which axes a spec's product is cut on the device of its route.
    fn cuts(cutting: &Cutting, spec: &Spec, kernel: KernelChoice) -> Vec<&'static str> {
        let problem = spec.laid_out().expect("a valid problem").0;
        let options = PlanOptions::kernel(kernel);
        let of = |along: [bool; 4]| {
            let names = ["batch", "M", "N", "K"].into_iter().zip(along);
            names.filter_map(|(name, cut)| cut.then_some(name)).collect()
        };
        let device = &cutting.pieces;
        match spec.route {
            Route::Streamed => {
                let limits = cutting.streamed.limits();
                stream::cut(&problem, limits, &options, "none", BUDGET).map_or_else(
                    |error| panic!("{spec}: {error}"),
                    |cut| {
                        let [batch, m, n] = cut.c.to_array();
                        let k = problem.reads_factors() && cut.k < problem.k;
                        of([batch < problem.batch, m < problem.m, n < problem.n, k])
                    },
                )
            }
            _ => match device.decide(&problem, kernel) {
                Ok(decision) => of([
                    decision.chunks.iter().any(|chunk| chunk.batch0 > 0),
                    decision.chunks.iter().any(|chunk| chunk.row0 > 0),
                    decision.chunks.iter().any(|chunk| chunk.col0 > 0),
                    false,
                ]),
                Err(Error::LimitExceeded { .. }) => {
                    let plan = device.plan(&problem, &options).expect("it runs in pieces");
                    let notes = &device.summary(&plan).notes;
                    assert!(notes.iter().any(|note| note.contains("whose sums a pass of its own")));
                    of([false, false, false, true])
                }
                Err(error) => panic!("{spec}: {error}"),
            },
        }
    }

    /// A list as long as that of `--quick` has products cut along every axis, with a bias and with scales
    /// where scales can be.
    #[test]
    fn generated_products_are_cut_along_every_axis() {
        let adapter = match WgslAdapter::open(&WgslOptions::default()) {
            Ok(adapter) => adapter,
            Err(error) => {
                assert!(std::env::var("LAPIDARY_REQUIRE_GPU").as_deref() != Ok("1"), "{error}");
                println!("skipped: {error}");
                return;
            }
        };
        let cutting = adapter.cutting.as_ref().expect("it was opened");
        let items = generate(&adapter, 1200, 4, 1);
        let mut count: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
        let (mut all, mut cut) = ([0; 2], [0; 2]);
        for item in items.iter().filter(|item| item.spec.route.is_cut()) {
            let (spec, route) = (&item.spec, item.spec.route);
            let outline = Outline::of_spec(spec).expect("a valid problem");
            if adapter.expect(&item.kernel, &outline, route) != Expectation::Runs {
                continue;
            }
            let along = cuts(cutting, spec, item.kernel);
            let streamed = usize::from(route == Route::Streamed);
            all[streamed] += 1;
            cut[streamed] += usize::from(!along.is_empty());
            for axis in along {
                for (with, given) in [("bias", spec.bias), ("scales", spec.row_scale)] {
                    *count.entry((route.name(), axis, with)).or_default() += usize::from(given);
                }
            }
        }
        println!("{cut:?} of {all:?} are cut: {count:?}");
        assert!(all.iter().zip(cut).all(|(&all, cut)| all >= 80 && cut * 2 > all));
        for axis in ["batch", "M", "N", "K"] {
            for (route, with) in [("pieces", "bias"), ("pieces", "scales"), ("streamed", "bias")] {
                // Scales keep K whole.
                let possible = (axis, with) != ("K", "scales");
                let some = count.get(&(route, axis, with)).is_some_and(|&count| count > 0);
                assert_eq!(some, possible, "{route} {axis} {with}");
            }
        }
    }
}
