//! The kernels, compiled and run: gates on machine code, and results on the emulator.

mod bounds;
mod configs;
mod conformance;
mod counts;
mod covering;
mod elements;
mod emulate;
mod far;
mod gates;
mod loops;
mod picks;
mod steps;
mod worked_example;
