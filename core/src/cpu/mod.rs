//! The CPU backend: needs nothing installed, computes every element type.
//!
//! C is cut into blocks, one task each. A task multiplies its rows of A with its columns of B (with
//! `faer`'s single-threaded kernel): into C itself where sums have C's type and C is not read, else
//! into a buffer of its own; the epilogue is applied where the sums are, and the block of C is written
//! once or, by long products and epilogues in place, over and over. Tasks share nothing that is
//! written, so the order they run in cannot change a bit; the size of the blocks follows from the
//! problem and the number of threads.
//!
//! Products with block scales are summed in f64: a scaled element may lie outside the range of f32
//! where its products do not.
//!
//! Operands that the kernel can read in place (f32 and f64 with a unit stride) are. Others are converted
//! first: once for all tasks that read them, up to 128 MiB of either operand at a time; past that
//! block by block. The device keeps the memory for it, so that products that are repeated allocate none.

mod activation;
mod convert;
mod epilogue;
mod factor;
mod kernel;
mod multiply;
mod plan;
mod run;
mod scratch;
mod source;
mod tasks;
mod tensor;

use std::sync::Arc;

use crate::backend::{
    Args, BOperand, Backend, DeviceInfo, PlanOptions, PlanSummary, Progress, TensorSlice,
};
use crate::element::ElementType;
use crate::error::{Error, Operand};
use crate::layout::{Placement, Shape};
use crate::operands::Operands;
use crate::problem::Problem;
use crate::view::{AnyMatrixMut, AnyMatrixRef, AnyVectorRef};

pub use kernel::{CpuKernel, CpuSums};
pub use plan::{CpuPackedB, CpuPlan};
pub use tensor::CpuTensor;

use run::{Factor, Inputs};
use scratch::Scratch;

/// The CPU of the host.
///
/// Computes every element type, f64 included, on any strides, in place on host slices. Keeps NaN,
/// infinity and subnormal numbers as IEEE 754 says.
///
/// # Examples
/// Repeated products on tensors that stay on the device:
/// ```
/// use lapidary_core::{Args, Backend, Cpu, ElementType, Gemm, PlanOptions, Problem};
/// # fn main() -> Result<(), lapidary_core::Error> {
/// let device = Cpu::new();
/// let problem = Problem::new(2, 2, 3);
/// let plan = Gemm::<Cpu>::plan(&device, &problem, &PlanOptions::default())?;
/// let a = device.alloc(ElementType::F32, 6)?;
/// let b = device.alloc(ElementType::F32, 6)?;
/// let c = device.alloc(ElementType::F32, 4)?;
/// device.upload(&a, 0, bytemuck::cast_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]))?;
/// device.upload(&b, 0, bytemuck::cast_slice(&[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0]))?;
/// plan.execute(&Args::new(&a, &b, &c))?;
/// # pollster::block_on(async {
/// let result = device.download(&c).await?;
/// assert_eq!(bytemuck::cast_slice::<u8, f32>(&result), [4.0, 5.0, 10.0, 11.0]);
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    pool: Option<Arc<rayon::ThreadPool>>,
    scratch: Arc<Scratch>,
}

impl Cpu {
    /// All cores: the thread pool that `rayon` shares within the process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A pool of its own with `threads` threads; 0 stands for one a core.
    ///
    /// # Errors
    /// [`Error::Device`] if the threads cannot be started.
    pub fn with_threads(threads: usize) -> Result<Self, Error> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        match pool {
            Ok(pool) => Ok(Self { pool: Some(Arc::new(pool)), ..Self::default() }),
            Err(error) => Err(Error::Device {
                device: DEVICE.into(),
                operation: "starting threads",
                message: error.to_string(),
            }),
        }
    }

    /// Threads that a product may use.
    #[must_use]
    pub fn threads(&self) -> usize {
        match &self.pool {
            Some(pool) => pool.current_num_threads(),
            None => rayon::current_num_threads(),
        }
    }

    fn compute(
        &self,
        plan: &CpuPlan,
        problem: &Problem,
        inputs: &Inputs<'_>,
        c: AnyMatrixMut<'_>,
        progress: &dyn Fn(Progress),
    ) -> Result<(), Error> {
        let _span = tracing::info_span!(
            "dispatch",
            m = problem.m,
            n = problem.n,
            k = problem.k,
            kernel = %plan.summary.kernel,
            device = DEVICE
        )
        .entered();
        run::run(self.pool.as_deref(), &self.scratch, plan, problem, inputs, c, progress)
    }
}

/// The device's name in messages and spans.
const DEVICE: &str = "cpu";

impl Backend for Cpu {
    type Tensor = CpuTensor;
    type Plan = CpuPlan;
    type PackedB = CpuPackedB;

    fn info(&self) -> DeviceInfo {
        let mut info =
            DeviceInfo::new("cpu", format!("host CPU ({})", std::env::consts::ARCH), "faer 0.24");
        // i32 is an output and bias type only, e8m0 one of scales.
        info.elements = ElementType::ALL
            .into_iter()
            .filter(|element| !matches!(element, ElementType::I32 | ElementType::E8M0))
            .collect();
        info.properties = vec![
            ("threads".into(), self.threads().to_string()),
            ("subnormals".into(), "kept".into()),
            ("NaN and infinity".into(), "propagate".into()),
        ];
        info
    }

    fn alloc(&self, element: ElementType, len: usize) -> Result<CpuTensor, Error> {
        CpuTensor::zeros(element, len)
    }

    fn upload(&self, tensor: &CpuTensor, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        tensor.write(offset, bytes)
    }

    async fn download(&self, tensor: &CpuTensor) -> Result<Vec<u8>, Error> {
        tensor.read()
    }

    fn plan(&self, problem: &Problem, options: &PlanOptions) -> Result<CpuPlan, Error> {
        let _span = tracing::info_span!(
            "plan",
            m = problem.m,
            n = problem.n,
            k = problem.k,
            kernel = %options.kernel.name(),
            device = DEVICE
        )
        .entered();
        CpuPlan::new(problem, options, self.threads())
    }

    fn summary<'p>(&self, plan: &'p CpuPlan) -> &'p PlanSummary {
        &plan.summary
    }

    fn execute(&self, plan: &CpuPlan, args: &Args<'_, Self>) -> Result<(), Error> {
        let problem = &plan.problem;
        args.check(problem)?;
        if let BOperand::Packed(packed) = &args.b {
            packed.check(plan)?;
        }
        if problem.is_empty() {
            return Ok(());
        }
        // Snapshots of the inputs are taken before C is locked, one after the other: no thread ever
        // waits for a tensor while it holds another.
        let a = args.a.tensor.snapshot();
        let b = match &args.b {
            BOperand::Plain(b) => Some(b.tensor.snapshot()),
            BOperand::Packed(_) => None,
        };
        let bias = args.bias.map(|bias| bias.tensor.snapshot());
        let scales = args.scales().map(|(operand, slice)| {
            slice.map(|slice| (operand, slice.offset, slice.tensor.snapshot()))
        });
        let place = |offset, shape, layout| Placement { offset, shape, layout };
        let mut inputs = Inputs::default();
        if problem.reads_factors() {
            let place_a = place(args.a.offset, problem.a_shape(), problem.a_layout);
            inputs.a = Some(AnyMatrixRef::new(a.bytes(), problem.a, place_a)?);
            inputs.b = Some(match (&args.b, &b) {
                (BOperand::Plain(slice), Some(b)) => {
                    let place_b = place(slice.offset, problem.b_shape(), problem.b_layout);
                    Factor::View(AnyMatrixRef::new(b.bytes(), problem.b, place_b)?)
                }
                (BOperand::Packed(packed), _) => Factor::Packed(packed),
                (BOperand::Plain(_), None) => return Ok(()),
            });
            let [row, col, a_blocks, b_blocks, b_groups] = scales.each_ref().map(|scales| {
                let (operand, offset, snapshot) = scales.as_ref()?;
                let element = snapshot.element();
                let end = offset + problem.scale_count(*operand);
                let bytes = &snapshot.bytes()[offset * element.size()..end * element.size()];
                Some(AnyVectorRef::new(bytes, element))
            });
            (inputs.row_scale, inputs.col_scale) = (row, col);
            (inputs.a_block_scales, inputs.b_block_scales) = (a_blocks, b_blocks);
            inputs.b_group_scales = b_groups;
        }
        if let (Some(slice), Some(bias)) = (args.bias, &bias) {
            let size = problem.bias_element().size();
            let range = slice.offset * size..(slice.offset + problem.n) * size;
            inputs.bias = Some(AnyVectorRef::new(&bias.bytes()[range], problem.bias_element()));
        }
        let place_c = place(args.c.offset, problem.c_shape(), problem.c_layout);
        args.c.tensor.with_matrix(place_c, |c| self.compute(plan, problem, &inputs, c, &|_| {}))
    }

    fn pack_b(&self, plan: &CpuPlan, b: TensorSlice<'_, CpuTensor>) -> Result<CpuPackedB, Error> {
        let problem = &plan.problem;
        if b.tensor.element_type() != problem.b {
            return Err(Error::ElementTypeMismatch {
                operand: Operand::B,
                found: b.tensor.element_type(),
                expected: problem.b,
            });
        }
        let snapshot = b.tensor.snapshot();
        let place =
            Placement { offset: b.offset, shape: problem.b_shape(), layout: problem.b_layout };
        CpuPackedB::new(plan, &AnyMatrixRef::new(snapshot.bytes(), problem.b, place)?)
    }

    async fn sync(&self) -> Result<(), Error> {
        // Executions have finished when they return.
        Ok(())
    }

    async fn run_host(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        operands: &Operands<'_>,
        c: AnyMatrixMut<'_>,
        progress: &dyn Fn(Progress),
    ) -> Result<PlanSummary, Error> {
        let plan = self.plan(problem, options)?;
        let mut inputs = Inputs { bias: operands.bias, ..Inputs::default() };
        if problem.reads_factors() {
            inputs.a = Some(operands.a);
            inputs.b = Some(Factor::View(operands.b));
            (inputs.row_scale, inputs.col_scale) = (operands.row_scale, operands.col_scale);
            inputs.a_block_scales = operands.a_block_scales;
            inputs.b_block_scales = operands.b_block_scales;
            inputs.b_group_scales = operands.b_group_scales;
        }
        check_host(problem, operands, c.shape())?;
        self.compute(&plan, problem, &inputs, c, progress)?;
        Ok(plan.summary)
    }
}

/// Refuses operands that do not fit the problem, for callers that come past [`crate::Gemm`].
fn check_host(problem: &Problem, operands: &Operands<'_>, c: Shape) -> Result<(), Error> {
    let mut without_c = problem.clone();
    // C is read through the output view here.
    without_c.beta = 0.0;
    Operands { c: None, ..*operands }.check(&without_c)?;
    if c == problem.c_shape() {
        return Ok(());
    }
    Err(Error::ShapeMismatch {
        operand: Operand::C,
        found: c.to_array(),
        expected: problem.c_shape().to_array(),
    })
}
