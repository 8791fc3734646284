//! The MFMA preshuffle kernel of CDNA3 and CDNA4: `kernels/preshuffle.hip`.
//!
//! [`PreshuffleConfig`] is one instance of the template as plain data; [`choose`](choose()) picks one
//! for a problem; [`PackedB`] is B in the kernel's layout; [`Args`] is what a launch passes.

mod args;
mod choose;
mod config;
mod counts;
mod device_pack;
mod figures;
mod lds;
mod operand;
mod order;
mod pack;
mod rules;
mod scales;

pub use args::{Args, Launch};
pub use choose::{Choice, ProblemClass, choose};
pub(crate) use config::activation_code;
pub use config::{ACopy, EpilogueTraits, MAX_SIDE, PreshuffleConfig, THREADS};
pub use counts::TooMany;
pub(crate) use counts::{MAX_WORKGROUPS, count, workgroups};
pub use device_pack::{PackArgs, pack_request};
pub use figures::Figures;
pub use lds::{Access, Phases, conflict_cycles, swizzled_chunk};
pub(crate) use operand::type_code;
pub use operand::{OPERANDS, OUTPUTS, only_on};
pub use order::tile_of;
pub use pack::{PackError, PackedB, PackedLayout, SourceB};
pub use rules::ConfigError;
pub use scales::PackedScales;
