//! Execution of decoded kernels: waves, workgroups and memory.
