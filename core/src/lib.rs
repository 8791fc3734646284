//! What every backend of Lapidary shares: the problem, the views, the policies, the contract, the
//! CPU backend and the oracle.
//!
//! Lapidary computes one thing, `C = activation(alpha · A · B + beta · C + bias)`:
//!
//! - [`Problem`] says what, as plain data that can be checked;
//! - [`MatrixRef`] and [`MatrixMut`] view host memory with any strides, bounds proven once;
//! - [`Gemm`] runs it on a [`Backend`], in one shot or through a plan;
//! - [`Backend`] states the numerical contract that every kernel keeps;
//! - [`policy`] describes tiled kernels in types, checked when they compile;
//! - [`Cpu`] needs nothing installed, and [`oracle`] says what the right answer is and how far
//!   off a result may be.

pub mod backend;
pub mod element;
mod epilogue;
mod error;
mod gemm;
mod kernel;
pub mod layout;
mod operands;
pub mod oracle;
pub mod policy;
mod problem;
pub mod random;
pub mod round;
#[cfg(feature = "testing")]
pub mod testing;
mod view;

#[cfg(feature = "cpu")]
mod cpu;
#[cfg(any(feature = "ndarray", feature = "faer"))]
mod interop;

pub use backend::{
    Args, BOperand, Backend, DeviceInfo, PlanOptions, PlanSummary, Progress, Tensor, TensorSlice,
};
#[cfg(feature = "cpu")]
pub use cpu::{Cpu, CpuPackedB, CpuPlan, CpuTensor};
pub use element::{Element, ElementType};
pub use epilogue::{Activation, SQRT_2_OVER_PI};
pub use error::{Error, Operand};
pub use gemm::{Gemm, GemmPlan, Output};
pub use half::{bf16, f16};
pub use kernel::{KernelChoice, Occupancy};
pub use layout::{Layout, Placement, Shape};
pub use operands::Operands;
pub use problem::{MAX_K_I8, Problem};
pub use view::{AnyMatrixMut, AnyMatrixRef, AnyVectorRef, Matrix, MatrixMut, MatrixRef};

/// The names most programs need, to import at once.
pub mod prelude {
    #[cfg(feature = "cpu")]
    pub use crate::Cpu;
    pub use crate::{
        Activation, Args, Backend, Element, ElementType, Error, Gemm, Layout, MatrixMut, MatrixRef,
        Operands, PlanOptions, Problem, Shape, bf16, f16,
    };
}
