//! From an ELF code object to kernels ready to launch.
