//! GEMM on any GPU: Lapidary's WGSL backend through wgpu.
//!
//! ```no_run
//! use lapidary_wgsl::prelude::*;
//! # fn main() -> Result<(), Error> {
//! let device = Wgsl::new()?;
//! let a = vec![1.0f32; 64 * 32];
//! let b = vec![2.0f32; 32 * 48];
//! let operands =
//!     Operands::new(MatrixRef::row_major(&a, 64, 32)?, MatrixRef::row_major(&b, 32, 48)?);
//! let problem = operands.problem(ElementType::F32)?;
//! let output = Gemm::<Wgsl>::run(&device, &problem, &operands)?;
//! assert_eq!(output.matrix.to_vec::<f32>()?[0], 64.0);
//! # Ok(())
//! # }
//! ```
//!
//! Three layers, each readable alone: [`decide`] chooses a kernel, its tile and its dispatches from
//! plain data; [`emit`] writes the WGSL; the rest opens devices, binds buffers and runs.
//!
//! Programs that use wgpu themselves share their device ([`Wgsl::from_device`]), their buffers
//! ([`WgslTensor::from_buffer`]) and their command encoder ([`Wgsl::encode`]).

pub mod adapter;
mod batch;
mod bind;
pub mod decide;
mod deep;
mod device;
pub mod emit;
mod errors;
mod execute;
mod host;
mod limits;
mod pack;
mod params;
mod pipelines;
mod plan;
#[cfg(feature = "testing")]
mod rewrite;
pub mod stream;
mod tensor;
#[cfg(feature = "tune")]
pub mod tune;
pub mod workarounds;

pub use adapter::{AdapterChoice, AdapterReport};
pub use batch::Batch;
pub use device::{Wgsl, WgslOptions};
pub use execute::Timing;
pub use limits::DeviceLimits;
pub use pack::WgslPackedB;
#[cfg(feature = "tune")]
pub use pipelines::{PipelineCache, PipelineCacheState};
pub use plan::WgslPlan;
#[cfg(feature = "testing")]
pub use rewrite::{SHADERS, ShaderRewrite};
pub use tensor::WgslTensor;

pub use lapidary_core as core;
pub use wgpu;

/// The names most programs need, those of [`lapidary_core`] included.
pub mod prelude {
    pub use crate::{AdapterChoice, Wgsl, WgslOptions, WgslTensor};
    pub use lapidary_core::prelude::*;
}

/// The README's example is compiled as a test.
#[cfg(all(doctest, feature = "cpu"))]
#[doc = include_str!("../../README.md")]
struct ReadmeExamples;
