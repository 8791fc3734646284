//! GEMM on AMD matrix cores: Lapidary's HIP backend.
//!
//! - [`compile`]: HIP sources to code objects, with any clang that knows the target, no ROCm needed.
//! - [`preshuffle`]: the production kernel, its configurations, and B in its layout.
//! - [`steps`]: the tutorial's seven steps and the generic policy kernel.
//! - [`runtime`]: what executes code objects.
//! - [`inspect`]: what a compiled kernel's hot loop consists of.
//!
//! ```no_run
//! use lapidary_hip::compile::Compiler;
//! use lapidary_core::ElementType;
//! use lapidary_hip::preshuffle::PreshuffleConfig;
//! use lapidary_hip::Target;
//! # fn main() -> Result<(), lapidary_hip::HipError> {
//! let config = PreshuffleConfig::new(Target::Gfx942, ElementType::F8E4M3Fnuz, [64, 256, 128]);
//! let object = Compiler::find()?.compile(&config.request()?)?;
//! println!("{} bytes, {}", object.bytes.len(), object.key);
//! # Ok(())
//! # }
//! ```

pub mod compile;
mod error;
pub mod inspect;
pub mod preshuffle;
pub mod runtime;
pub mod sources;
pub mod steps;
mod target;

pub use error::HipError;
pub use target::Target;
