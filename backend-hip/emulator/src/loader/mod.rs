//! From an ELF code object to kernels ready to launch.
//!
//! [`CodeObject::parse`] reads the ELF ([`elf`]), the msgpack metadata note ([`metadata`]) and every kernel's 64-byte
//! descriptor ([`descriptor`]). [`args`] lays kernel arguments out at the offsets the metadata states, hidden ones
//! included. [`lines`] maps instructions to source lines where there is debug information.

pub mod args;
pub mod descriptor;
pub mod elf;
pub mod lines;
pub mod metadata;

pub use args::{ArgValue, Geometry, HiddenValues};
pub use descriptor::Descriptor;
pub use elf::{CodeObject, Function, Kernel, LOAD_BASE, MAX_IMAGE_BYTES, Segment};
pub use lines::{LineTable, SourceLine};
pub use metadata::{Arg, HiddenArg, KernelMetadata, MAX_KERNARG_BYTES, ValueKind};
