//! Execution of decoded kernels: waves, workgroups and memory.
//!
//! A [`Machine`] owns global memory. [`Prepared`] is a kernel decoded once; [`Machine::launch`] runs it over a grid and
//! returns a [`Report`] with counters and the findings of the checks.
//!
//! What is modelled is what a program can observe: registers, EXEC, memory with its bounds, LDS, scratch, barriers and
//! the counters behind `s_waitcnt`. Loads deliver at once and the checks say where a program relied on that. Time, caches and
//! the order of memory operations of different workgroups are not modelled; workgroups run one after another or in parallel
//! on host threads, each to its end, so a workgroup that waits for a later one runs into its instruction budget.

mod atomic;
mod checked;
mod counters;
mod ds;
mod group;
mod launch;
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
