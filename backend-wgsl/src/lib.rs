//! wgsl
