//! Execution of decoded kernels: waves, workgroups and memory.
//!
//! A [`Machine`] owns global memory. [`Prepared`] is a kernel decoded once; [`Machine::launch`] runs it over a grid and
//! returns a [`Report`] with counters and the findings of the checks.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use lapidary_cdna::exec::{Launch, Machine, Prepared};
//! use lapidary_cdna::loader::{ArgValue, CodeObject};
//!
//! fn add(bytes: &[u8], a: &[u8], b: &[u8]) -> lapidary_cdna::Result<Vec<u8>> {
//!     let object = Arc::new(CodeObject::parse(bytes)?);
//!     let kernel = Prepared::new(&object, "vector_add")?;
//!     let mut machine = Machine::new();
//!     let (a_at, b_at) = (machine.memory.alloc_from("a", a)?, machine.memory.alloc_from("b", b)?);
//!     let c_at = machine.memory.alloc("c", a.len() as u64)?;
//!     let count = a.len() as i32 / 4;
//!     let mut args: Vec<ArgValue> = [a_at, b_at, c_at].map(ArgValue::U64).into();
//!     args.push(ArgValue::I32(count));
//!     let grid = [count.unsigned_abs().div_ceil(256), 1, 1];
//!     let launch = Launch { grid, workgroup: [256, 1, 1], args, ..Launch::default() };
//!     let report = machine.launch(&kernel, &launch)?;
//!     for finding in &report.findings {
//!         eprintln!("{finding}");
//!     }
//!     machine.memory.read(c_at, a.len())
//! }
//! ```
//!
//! What is modelled is what a program can observe: registers, EXEC, memory with its bounds, LDS, scratch, barriers and
//! the counters behind `s_waitcnt`. Loads deliver at once and the checks say where a program relied on that. Time, caches and
//! the order of memory operations of different workgroups are not modelled; workgroups run one after another or in parallel
//! on host threads, each to its end, so a workgroup that waits for a later one runs into its instruction budget.

mod address;
mod atomic;
mod checked;
mod counters;
mod ds;
mod entry;
mod group;
mod launch;
mod lds;
mod machine;
mod memory;
mod ops;
mod plan;
mod round;
mod salu;
mod smem;
mod source;
mod valu;
mod vmem;
mod wave;

pub use counters::{Access, CACHE_LINE, Class, Counters, Line, Traffic};
pub use launch::{Launch, Machine, Prepared, Report, Workgroups};
pub use machine::Order;
pub use memory::{ALIGNMENT, MAX_BYTES, Memory};
pub use source::LineCount;
