//! Where kernels run: a ROCm device, or the emulator.

use std::sync::Arc;

use lapidary_cdna::exec::Counters;
use lapidary_core::oracle::{Reference, reference_at, sample_positions};
use lapidary_core::testing::{Case, Values};
use lapidary_core::{AnyMatrixRef, ElementType, Problem};
use lapidary_hip::Target;
use lapidary_hip::compile::{CodeObject, Compiler};
use lapidary_hip::runtime::rocm::Rocm;
use lapidary_hip::runtime::{Emulated, KernelLaunch, Runtime, Stream};
use lapidary_hip::steps::{Params, StepConfig};

use super::Result;
use super::options::Options;

/// Elements of a large product that are compared with the oracle.
const SAMPLE: usize = 4096;
/// Runs before the timed ones.
const WARM_UP: usize = 3;

/// Compilers, and a device to run what they make.
pub(crate) struct Lab {
    pub(crate) compiler: Compiler,
    /// What also gives assembly; ROCm's hiprtc does not.
    pub(crate) clang: Option<Compiler>,
    pub(crate) runtime: Arc<dyn Runtime>,
    emulated: Option<Arc<Emulated>>,
    /// Why there is no ROCm device, where one was looked for in vain.
    pub(crate) no_rocm: Option<String>,
}

/// How a result compares with the oracle.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) passed: bool,
    pub(crate) detail: String,
}

impl Lab {
    /// The ROCm device unless an architecture is to be emulated; else the emulator.
    pub(crate) fn open(options: &Options) -> Result<Self> {
        let mut no_rocm = None;
        if options.arch.is_none() {
            match Rocm::open(None) {
                Ok(device) => return Self::with(Arc::new(device), None, None),
                Err(error) => no_rocm = Some(error.to_string()),
            }
        }
        let emulated = Arc::new(Emulated::new(options.arch.unwrap_or(Target::Gfx942))?);
        Self::with(emulated.clone(), Some(emulated), no_rocm)
    }

    fn with(
        runtime: Arc<dyn Runtime>,
        emulated: Option<Arc<Emulated>>,
        no_rocm: Option<String>,
    ) -> Result<Self> {
        let target = runtime.description().target;
        let compiler = Compiler::find_for(target)?;
        let knows = |clang: &Compiler| clang.major() >= target.oldest_llvm();
        let clang = Compiler::find_clang().ok().filter(knows);
        Ok(Self { compiler, clang, runtime, emulated, no_rocm })
    }

    pub(crate) fn target(&self) -> Target {
        self.runtime.description().target
    }

    /// Small integers, compared bit for bit, and random numbers, compared within the bound.
    pub(crate) fn check(
        &self,
        config: &StepConfig,
        object: &CodeObject,
        sizes: [usize; 3],
    ) -> Result<(Vec<Check>, Option<Counters>)> {
        let mut checks = Vec::new();
        for (name, values) in [("integers", Values::SmallIntegers(3)), ("random", Values::Uniform)]
        {
            let case = case(config, sizes, values);
            let device = Operands::upload(&*self.runtime, &case)?;
            device.launch(config, object)?;
            let after = device.download()?;
            let found = AnyMatrixRef::new(&after, ElementType::F32, case.c.placement())?;
            let expected = expected(&case, config)?;
            checks.push(match values {
                Values::SmallIntegers(_) => {
                    let comparison = expected.compare_exact(&found);
                    let detail = format!("{} elements, bit for bit", comparison.checked);
                    Check { name, passed: comparison.passed(), detail }
                }
                _ => within_bound(name, config, &expected, &found),
            });
        }
        let launches = self.emulated.as_ref().map(|device| device.launches());
        let last = launches.and_then(|mut launches| launches.pop());
        Ok((checks, last.map(|launched| launched.report.counters)))
    }

    /// Seconds of each of `runs` runs by the device's own clock, and a check of the last result;
    /// `None` on the emulator, whose time means nothing.
    pub(crate) fn time(
        &self,
        config: &StepConfig,
        object: &CodeObject,
        size: usize,
        runs: usize,
    ) -> Result<Option<(Vec<f64>, Check)>> {
        if self.emulated.is_some() {
            return Ok(None);
        }
        let case = case(config, [size; 3], Values::Uniform);
        let device = Operands::upload(&*self.runtime, &case)?;
        for _ in 0..WARM_UP {
            device.launch(config, object)?;
            self.runtime.synchronize(Stream::DEFAULT)?;
        }
        let mut seconds = Vec::with_capacity(runs);
        for _ in 0..runs {
            let from = self.runtime.record(Stream::DEFAULT)?;
            device.launch(config, object)?;
            let to = self.runtime.record(Stream::DEFAULT)?;
            if let (Some(from), Some(to)) = (from, to) {
                seconds.push(self.runtime.elapsed(from, to)?);
                self.runtime.release(from);
                self.runtime.release(to);
            }
        }
        let after = device.download()?;
        let found = AnyMatrixRef::new(&after, ElementType::F32, case.c.placement())?;
        let check = within_bound("timed", config, &expected(&case, config)?, &found);
        Ok(Some((seconds, check)))
    }
}

fn case(config: &StepConfig, [m, n, k]: [usize; 3], values: Values) -> Case {
    let operand = if config.element_bytes() == 2 { ElementType::F16 } else { ElementType::F32 };
    Case::new(Problem::new(m, n, k).elements(operand, ElementType::F32), values, 1)
}

/// The oracle's answer, for all of a small product and for a sample of a large one.
fn expected(case: &Case, config: &StepConfig) -> Result<Reference> {
    let small = case.problem.m * case.problem.n <= 512 * 512;
    let count = if small { usize::MAX } else { SAMPLE };
    let positions = sample_positions(&case.problem, config.block, count, 1);
    Ok(reference_at(&case.problem, &case.operands(), &positions)?)
}

fn within_bound(
    name: &'static str,
    config: &StepConfig,
    expected: &Reference,
    found: &AnyMatrixRef<'_>,
) -> Check {
    let accuracy = config.arithmetic().accuracy();
    let mut worst: f64 = 0.0;
    for (index, at) in expected.positions().iter().enumerate() {
        let error = (found.get(at.batch, at.row, at.col) - expected.values()[index]).abs();
        let bound = accuracy.roundings * expected.bound(index)
            + accuracy.operands * expected.gauges()[index];
        // A NaN compares as greater than everything.
        let ratio = if error == 0.0 { 0.0 } else { error / bound };
        worst = if ratio.is_nan() { f64::INFINITY } else { worst.max(ratio) };
    }
    let detail = format!(
        "{} elements, the largest error is {worst:.3} of its bound",
        expected.positions().len()
    );
    Check { name, passed: worst <= 1.0, detail }
}

/// Device memory that is freed when dropped.
struct Buffer<'r> {
    runtime: &'r dyn Runtime,
    address: u64,
}

impl<'r> Buffer<'r> {
    fn upload(runtime: &'r dyn Runtime, bytes: &[u8]) -> Result<Self> {
        let address = runtime.alloc(bytes.len() as u64)?;
        let buffer = Self { runtime, address };
        runtime.write(address, bytes, Stream::DEFAULT)?;
        Ok(buffer)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.runtime.free(self.address) {
            eprintln!("warning: {error}");
        }
    }
}

/// A, B and C on the device.
struct Operands<'r> {
    case: &'r Case,
    buffers: [Buffer<'r>; 3],
}

impl<'r> Operands<'r> {
    fn upload(runtime: &'r dyn Runtime, case: &'r Case) -> Result<Self> {
        let upload = |bytes| Buffer::upload(runtime, bytes);
        let buffers = [upload(case.a.bytes())?, upload(case.b.bytes())?, upload(case.c.bytes())?];
        Ok(Self { case, buffers })
    }

    fn launch(&self, config: &StepConfig, object: &CodeObject) -> Result<()> {
        let problem = &self.case.problem;
        let [a, b, c] = &self.buffers;
        let params = Params {
            a: a.address,
            b: b.address,
            c: c.address,
            a_row: problem.a_layout.row_stride as i64,
            a_col: 1,
            b_row: problem.b_layout.row_stride as i64,
            b_col: 1,
            c_row: problem.c_layout.row_stride as i64,
            c_col: 1,
            m: u32::try_from(problem.m)?,
            n: u32::try_from(problem.n)?,
            k: u32::try_from(problem.k)?,
            batch: 1,
            alpha: 1.0,
            ..Params::default()
        };
        let launch = params.launch(config)?;
        let function = a.runtime.load(object, "gemm")?;
        let launch = KernelLaunch {
            grid: launch.grid,
            threads: [launch.threads[0], launch.threads[1], 1],
            dynamic_lds: 0,
            args: bytemuck::bytes_of(&params),
        };
        Ok(a.runtime.launch(function, &launch, Stream::DEFAULT)?)
    }

    fn download(&self) -> Result<Vec<u8>> {
        let c = &self.buffers[2];
        let mut bytes = vec![0; self.case.c.bytes().len()];
        c.runtime.read(c.address, &mut bytes, Stream::DEFAULT)?;
        Ok(bytes)
    }
}
