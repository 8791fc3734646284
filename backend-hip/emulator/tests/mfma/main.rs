//! Matrix instructions through the public interface: one-hot inputs over all elements, and the arithmetic against a slow
//! reference in big integers.

#![allow(clippy::unwrap_used, reason = "tests report by panicking")]

mod arithmetic;
mod by_hand;
mod one_hot;
mod operands;
mod reference;
mod unsupported;
