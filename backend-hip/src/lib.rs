//! GEMM on AMD GPUs: Lapidary's HIP backend.
//!
//! ```no_run
//! use lapidary_hip::prelude::*;
//! # fn main() -> Result<(), Error> {
//! let device = Hip::new().or_else(|_| Hip::emulated(Target::Gfx942))?;
//! let a = vec![bf16::ONE; 64 * 32];
//! let b = vec![bf16::ONE; 32 * 48];
//! let operands =
//!     Operands::new(MatrixRef::row_major(&a, 64, 32)?, MatrixRef::row_major(&b, 32, 48)?);
//! let problem = operands.problem(ElementType::F32)?;
//! let output = Gemm::<Hip>::run(&device, &problem, &operands)?;
//! assert_eq!(output.matrix.to_vec::<f32>()?[0], 32.0);
//! # Ok(())
//! # }
//! ```
//!
//! [`decide`] chooses kernels and passes from plain data; the rest compiles, binds and launches:
//!
//! - [`compile`]: HIP sources to code objects, with ROCm's hiprtc or any clang that knows the target.
//! - [`preshuffle`]: the matrix-core kernel, its configurations, and B in its layout.
//! - [`steps`]: the tutorial's seven steps and the generic policy kernel.
//! - [`passes`]: what runs before and after a product.
//! - [`runtime`]: what executes code objects, a ROCm device or the emulator.
//! - [`inspect`]: what a compiled kernel's hot loop consists of.
//!
//! Programs that use HIP themselves share their device pointers ([`HipTensor::from_raw`]) and their
//! stream ([`Hip::with_stream`]).
//!
//! # Features
//! - `emulator` (on by default): `Hip::emulated`.
//! - `hip-runtime-sys`: links the HIP runtime at build time instead of loading it.

mod bind;
pub mod compile;
pub mod decide;
mod device;
mod error;
mod execute;
pub mod inspect;
mod library;
mod pack;
pub mod passes;
mod plan;
pub mod preshuffle;
pub mod runtime;
pub mod sources;
pub mod steps;
mod target;
mod tensor;

pub use device::Hip;
pub use error::HipError;
pub use library::LibraryError;
pub use pack::HipPackedB;
pub use plan::{HipPlan, PlannedKernel};
pub use target::{Target, UnknownTarget};
pub use tensor::HipTensor;

pub use lapidary_core as core;

/// The names most programs need, those of [`lapidary_core`] included.
pub mod prelude {
    pub use crate::{Hip, HipTensor, Target};
    pub use lapidary_core::prelude::*;
}
