//! A functional emulator of AMD CDNA3 (gfx942) and CDNA4 (gfx950) code objects.
//!
//! It loads an ELF code object as clang writes it, decodes its machine code, and runs workgroups of 64-lane waves on the
//! CPU. It models what a program can observe (registers, memory, waits and barriers), not time.
//!
//! * [`loader`]: ELF, kernel metadata and kernel descriptors.
//! * [`isa`]: instructions as data, the decoder and the `llvm-objdump` compatible printer.
//! * [`exec`]: waves, workgroups, memory.
//! * [`mfma`]: matrix instructions: element formats, lane layouts, accumulation.
//! * [`check`]: what hardware would not tell: missing waits, races, hazards, uninitialised and out-of-bounds reads.

pub mod arch;
pub mod check;
pub mod error;
pub mod exec;
pub mod isa;
pub mod loader;
pub mod mfma;

pub use arch::Arch;
pub use error::{Error, Result};

/// The code of the crate's README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
