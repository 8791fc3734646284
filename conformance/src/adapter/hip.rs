//! The HIP backend's adapter, on ROCm and on the emulator.

use lapidary_core::policy::{
    DirectLoad, KernelConfig, MfmaF16, MfmaF32, MfmaXf32, Multiply, ScalarFma, SingleBuffer,
    SoftwareDoubleBuffer,
};
use lapidary_core::testing::Case;
use lapidary_core::{
    Backend, DeviceInfo, ElementType, Error, KernelChoice, MatrixKernel, Movement,
};
use lapidary_hip::compile::Compiler;
use lapidary_hip::decide::Product;
use lapidary_hip::passes::PASSES;
use lapidary_hip::preshuffle::PreshuffleConfig;
use lapidary_hip::runtime::{Emulated, Order as EmulatorOrder, Runtime, RuntimeError};
use lapidary_hip::steps::{Arithmetic, Step, StepConfig, TileMovement};
use lapidary_hip::{Hip, HipError, Target};
use std::sync::{Arc, Mutex, PoisonError};

use super::cpu::all_types;
use super::{Adapter, Executed, Expectation, Job, Order, Promises, Refusal, Types};
use super::{execute_on, has_rows, has_vectors};
use crate::spec::Route;

/// A HIP device: `rocm`, or the emulator of an architecture, `gfx942` or `gfx950`.
#[derive(Debug)]
pub struct HipAdapter {
    device: Hip,
    name: String,
    /// The same emulator with its waves and workgroups in other orders, one at a time.
    reordered: Option<(Hip, Mutex<Arc<Emulated>>)>,
}

impl HipAdapter {
    /// The first ROCm device.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn rocm() -> Result<Self, Error> {
        Ok(Self { device: Hip::new()?, name: "rocm".into(), reordered: None })
    }

    /// An emulated device, every check on.
    ///
    /// # Errors
    /// [`Error::NoDevice`] without a compiler.
    pub fn emulated(target: Target) -> Result<Self, Error> {
        let emulator = Arc::new(Emulated::new(target).map_err(no_device)?);
        let reordered = (Hip::with_emulator(Arc::clone(&emulator))?, Mutex::new(emulator));
        let device = Hip::emulated(target)?;
        Ok(Self { device, name: target.to_string(), reordered: Some(reordered) })
    }

    /// An emulated device whose kernels this compiler compiles.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if the target is not emulated.
    pub fn with_compiler(target: Target, compiler: Compiler) -> Result<Self, Error> {
        let runtime: Arc<dyn Runtime> = Arc::new(Emulated::new(target).map_err(no_device)?);
        let device = Hip::with_compiler(runtime, compiler);
        Ok(Self { device, name: target.to_string(), reordered: None })
    }
}

fn no_device(error: impl ToString) -> Error {
    Error::NoDevice { reason: error.to_string() }
}

/// The variant of the matrix-core kernel: what is code of its own, whatever the tile.
fn variant(config: &PreshuffleConfig) -> String {
    let store = match (config.split_k, config.c_shuffle) {
        (true, _) => "split-K",
        (false, true) => "C through LDS",
        (false, false) => "direct store",
    };
    format!("preshuffle, {}, {} stage(s), {store}", config.copy.name(), config.lds_stage)
}

/// Step 7 with pairs of policies that multiply operands of `element` on matrix cores, and with loads of
/// several elements.
fn policies(element: ElementType, target: Target) -> Vec<KernelChoice> {
    type Single<const KT: usize> = SingleBuffer<64, 64, KT>;
    type Double<const KT: usize> = SoftwareDoubleBuffer<64, 64, KT>;
    type Direct = DirectLoad<64, 64, 16>;
    let mut all = match element {
        ElementType::F32 => vec![
            KernelConfig::of::<Single<16>, MfmaF32<32, 32>>(),
            KernelConfig::of::<Double<16>, MfmaF32<32, 32>>(),
            KernelConfig::of::<Direct, MfmaF32<32, 32>>(),
            KernelConfig::of::<SingleBuffer<64, 64, 16, 4>, ScalarFma<4, 4>>(),
            KernelConfig::of::<SoftwareDoubleBuffer<64, 64, 16, 2>, ScalarFma<4, 4>>(),
        ],
        ElementType::F16 => vec![
            KernelConfig::of::<Single<32>, MfmaF16<32, 32>>(),
            KernelConfig::of::<Double<32>, MfmaF16<32, 32>>(),
        ],
        _ => Vec::new(),
    };
    if (element, target) == (ElementType::F32, Target::Gfx942) {
        all.extend([
            KernelConfig::of::<Single<16>, MfmaXf32<32, 32>>(),
            KernelConfig::of::<Double<16>, MfmaXf32<32, 32>>(),
            KernelConfig::of::<Direct, MfmaXf32<32, 32>>(),
        ]);
    }
    all.into_iter().map(KernelChoice::Policy).collect()
}

/// Every variant of the matrix-core kernel, in turn with different tiles.
fn matrix_kernels(element: ElementType) -> impl Iterator<Item = KernelChoice> {
    // Rows of A's strip are 128 bytes, or 512 where there are 16 of them.
    let strip = |bytes: usize| bytes * 8 / element.bits();
    let tiles = [[32, 64, strip(128)], [16, 64, strip(512)], [64, 128, strip(128)]];
    let movements = [Movement::Registers, Movement::Direct, Movement::Guarded];
    (0..18).map(move |index| {
        let (movement, stages, store) = (movements[index % 3], 1 + index / 3 % 2, index / 6);
        KernelChoice::Matrix(MatrixKernel {
            movement: Some(movement),
            buffers: Some(stages),
            splits: Some(if store == 1 { 2 } else { 1 }),
            c_through_workgroup_memory: Some(store == 2),
            scheduled: Some(index % 4 != 3),
            ..MatrixKernel::tile(tiles[(index + index / 6) % 3])
        })
    })
}

impl Adapter for HipAdapter {
    fn name(&self) -> &str {
        &self.name
    }

    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn promises(&self) -> Promises {
        // The matrix cores flush subnormal numbers of some types, and add by truncating aligned terms.
        Promises { subnormals: false, truncates: true, ..Promises::all() }
    }

    fn types(&self) -> Vec<Types> {
        let known = self.info().elements;
        let block_scales = self.device.target() == Target::Gfx950;
        all_types()
            .into_iter()
            .filter(|types| types.elements[..2].iter().all(|element| known.contains(element)))
            .filter(|types| !types.block_scales || block_scales)
            .filter(|types| types.elements[0].is_float() == types.elements[1].is_float())
            .collect()
    }

    fn kernels(&self, types: Types) -> Vec<KernelChoice> {
        let mut all = vec![KernelChoice::Auto];
        if !self.types().contains(&types) {
            return Vec::new();
        }
        if self.device.target().has_preshuffle() {
            all.extend(matrix_kernels(types.elements[0]));
            if types.elements[0] == types.elements[1] {
                all.extend(policies(types.elements[0], self.device.target()));
            }
        }
        if types.elements[..2] == [ElementType::F32; 2] {
            all.extend(KernelChoice::all_steps(ElementType::F32));
        }
        all
    }

    fn kernel_names(&self) -> Vec<String> {
        let mut names = vec!["nothing".to_owned(), "epilogue".to_owned()];
        for copy in ["synchronous copy", "direct-to-LDS copy", "guarded copy"] {
            for stages in [1, 2] {
                for store in ["direct store", "split-K", "C through LDS"] {
                    names.push(format!("preshuffle, {copy}, {stages} stage(s), {store}"));
                }
            }
        }
        names.extend(["1_naive*", "2_workgroup_tile*", "3_register_tile*"].map(str::to_owned));
        names.extend([1, 2].map(|buffers| format!("4_buffered with {buffers}*")));
        names.extend([1, 2, 4].map(|width| format!("5_vectorized by {width}*")));
        names.extend(["None", "LaunchBounds", "WavesPerSimd"].map(|h| format!("6_occupancy {h}*")));
        let target = self.device.target();
        for movement in TileMovement::ALL {
            for arithmetic in Arithmetic::ALL {
                let step = StepConfig::new(target, Step::Generic(movement, arithmetic));
                // Pairs that the kernel does not have for this target are refused.
                if step.request().is_ok() {
                    names.push(format!("7_generic {movement:?}/{arithmetic:?} *"));
                }
            }
        }
        names.extend(
            ["SingleBuffer/ScalarFma vec4", "SoftwareDoubleBuffer/ScalarFma vec2"]
                .map(|wide| format!("7_generic {wide} *")),
        );
        names
    }

    fn pass_names(&self) -> Vec<&'static str> {
        // Blocks have scales on CDNA4 alone.
        let scales = self.device.target() == Target::Gfx950;
        PASSES.into_iter().filter(|pass| scales || *pass != "pack_scales").collect()
    }

    fn fraction_bits(&self, kernel: &KernelChoice) -> Option<u32> {
        match kernel {
            KernelChoice::Policy(config) if config.compute.multiply == Multiply::MfmaXf32 => {
                Some(10)
            }
            _ => None,
        }
    }

    fn expect(&self, kernel: &KernelChoice, case: &Case, route: Route) -> Expectation {
        let problem = &case.problem;
        let types = Types {
            elements: [problem.a, problem.b, problem.c],
            block_scales: problem.block_scales,
            groups: problem.b_group.is_some(),
        };
        if !self.types().contains(&types) {
            return Expectation::Refused(Refusal::ElementType);
        }
        if problem.is_empty() || !problem.reads_factors() {
            return Expectation::Runs;
        }
        match *kernel {
            // Single elements are loaded whatever the strides.
            KernelChoice::Vectorized { width } if width > 1 && !has_vectors(case, width) => {
                Expectation::Refused(Refusal::Loads)
            }
            KernelChoice::Policy(config)
                if config.tile.load_width > 1 && !has_vectors(case, config.tile.load_width) =>
            {
                Expectation::Refused(Refusal::Loads)
            }
            KernelChoice::Occupancy(_) if !has_vectors(case, 4) => {
                Expectation::Refused(Refusal::Loads)
            }
            KernelChoice::Matrix(MatrixKernel { tile: Some(tile), splits, movement, .. }) => {
                // Rows whole vectors apart are read in place: then the first must start at one too.
                let width = 128 / problem.a.bits();
                let offset_alone = has_rows(case, width) && !has_vectors(case, width);
                if splits.is_some_and(|splits| splits > problem.k.div_ceil(tile[2])) {
                    Expectation::Refused(Refusal::KernelUnsuitable)
                } else if movement != Some(Movement::Guarded)
                    && offset_alone
                    && route != Route::Host
                {
                    Expectation::Refused(Refusal::Loads)
                } else {
                    Expectation::Runs
                }
            }
            _ => Expectation::Runs,
        }
    }

    fn compiles_for_layouts(&self) -> bool {
        true
    }

    fn orders(&self) -> Vec<Order> {
        match self.reordered {
            Some(_) => vec![Order::Reversed, Order::Shuffled(7)],
            None => Vec::new(),
        }
    }

    fn reach(&self) -> f64 {
        2e6
    }

    fn is_finding(&self, error: &Error) -> bool {
        matches!(error, Error::Backend { source, .. } if matches!(
            source.downcast_ref::<HipError>(),
            Some(HipError::Runtime(RuntimeError::Finding { .. }))
        ))
    }

    fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        let mut executed = match (&self.reordered, job.order) {
            (None, _) | (_, Order::Natural) => execute_on(&self.device, job)?,
            (Some((device, emulator)), order) => {
                let emulator = emulator.lock().unwrap_or_else(PoisonError::into_inner);
                emulator.configure(|settings| {
                    settings.order = match order {
                        Order::Shuffled(seed) => EmulatorOrder::Random(seed),
                        _ => EmulatorOrder::Reverse,
                    };
                });
                execute_on(device, job)?
            }
        };
        let decision = self.device.decide(&job.case.problem, &job.options())?;
        if let Product::Preshuffle(product) = decision.product {
            executed.kernel = variant(&product.config);
        }
        Ok(executed)
    }
}
