//! The kernels, compiled and run: gates on machine code, and results on the emulator.

mod configs;
mod conformance;
mod emulate;
mod gates;
mod picks;
mod steps;
mod worked_example;
