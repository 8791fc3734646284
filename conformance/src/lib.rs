//! Every kernel of every backend against the oracle, and proof that the suite would notice.

pub mod adapter;
pub mod check;
pub mod file;
pub mod generate;
pub mod names;
pub mod planted;
pub mod report;
pub mod shapes;
pub mod shrink;
pub mod spec;
pub mod suite;
pub mod tier;
