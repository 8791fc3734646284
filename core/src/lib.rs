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
//! - `Cpu` needs nothing installed, and [`oracle`] says what the right answer is and how far
//!   off a result may be.
//!
//! # Examples
//! A linear layer, `gelu(x · Wᵀ + b)`, with the weights stored one output a row as most frameworks
//! do: the transpose is a view.
//! ```
//! # #[cfg(not(feature = "cpu"))]
//! # fn main() {}
//! # #[cfg(feature = "cpu")]
//! # fn main() -> Result<(), lapidary_core::Error> {
//! use lapidary_core::prelude::*;
//!
//! let x = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2 tokens of 3 features
//! let w = [0.1f32, 0.2, 0.3, -0.1, -0.2, -0.3]; // 2 outputs of 3 features
//! let bias = [0.5f32, -0.5];
//! let operands = Operands::new(
//!     MatrixRef::row_major(&x, 2, 3)?,
//!     MatrixRef::row_major(&w, 2, 3)?.transposed(),
//! )
//! .bias(&bias);
//! let problem = operands.problem(ElementType::F32)?.activation(Activation::GeluErf);
//! let y = Gemm::<Cpu>::run(&Cpu::new(), &problem, &operands)?.matrix.to_vec::<f32>()?;
//! assert!((y[0] - 1.8454).abs() < 1e-4); // gelu(1.4 + 0.5)
//! # Ok(())
//! # }
//! ```
//! Into a part of a larger matrix, added to what is there, in half precision:
//! ```
//! # #[cfg(not(feature = "cpu"))]
//! # fn main() {}
//! # #[cfg(feature = "cpu")]
//! # fn main() -> Result<(), lapidary_core::Error> {
//! use lapidary_core::prelude::*;
//!
//! let a = [1.0, 2.0, 3.0, 4.0].map(f16::from_f32);
//! let operands = Operands::new(MatrixRef::row_major(&a, 2, 2)?, MatrixRef::row_major(&a, 2, 2)?);
//! let problem = operands.problem(ElementType::F16)?.beta(1.0);
//! let mut all = [f16::ONE; 9];
//! let corner = MatrixMut::row_major(&mut all, 3, 3)?.submatrix(1..3, 1..3)?;
//! Gemm::<Cpu>::run_into(&Cpu::new(), &problem, &operands, corner)?;
//! let expected = [1.0, 1.0, 1.0, 1.0, 8.0, 11.0, 1.0, 16.0, 23.0].map(f16::from_f32);
//! assert_eq!(all, expected);
//! # Ok(())
//! # }
//! ```
//! What is wrong with an input is said with its numbers:
//! ```
//! use lapidary_core::{MatrixRef, Operands, ElementType};
//! # fn main() -> Result<(), lapidary_core::Error> {
//! let values = [0.0f32; 12];
//! let a = MatrixRef::row_major(&values, 3, 4)?;
//! let error = Operands::new(a, a).problem(ElementType::F32).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "A has 4 columns but B has 3 rows: the inner dimension K must agree"
//! );
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//! - `cpu` (on by default): `Cpu`, and with it `faer`'s kernels and `rayon`;
//! - `ndarray`, `faer`: [`MatrixRef`] and [`MatrixMut`] of these crates' arrays, without a copy;
//! - `testing`: seeded data, shapes and canary storages for tests of backends.

mod args;
pub mod backend;
mod devices;
pub mod element;
mod epilogue;
mod error;
pub mod format;
mod gemm;
mod kernel;
pub mod layout;
mod narrow;
mod operands;
pub mod oracle;
pub mod policy;
mod problem;
pub mod quantize;
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
pub use cpu::{Cpu, CpuKernel, CpuPackedB, CpuPlan, CpuSums, CpuTensor};
pub use devices::Devices;
pub use element::{Element, ElementType};
pub use epilogue::{Activation, SQRT_2_OVER_PI};
pub use error::{Error, Operand};
pub use format::{FloatFormat, Overflow, Specials};
pub use gemm::{Gemm, GemmPlan, Output};
pub use half::{bf16, f16};
pub use kernel::{KernelChoice, MatrixKernel, Movement, Occupancy};
pub use layout::{Layout, Placement, Shape};
pub use narrow::{E8M0, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};
pub use operands::Operands;
pub use problem::{
    COMBINATIONS, Combination, GROUP_MULTIPLE, MAX_K_I8, MAX_K_I8_I4, MX_BLOCK, Problem,
};
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
