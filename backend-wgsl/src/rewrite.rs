//! Changes to the text of shaders, for tests that plant bugs in them or reorder their workgroups.

use core::fmt;
use std::sync::Arc;

/// What a test changes in the text of each module before it is compiled.
///
/// A device with one compiles every shader with run-time checks, so that a changed shader cannot
/// reach outside its bindings.
#[derive(Clone)]
pub struct ShaderRewrite(Arc<dyn Fn(&str) -> String + Send + Sync>);

impl ShaderRewrite {
    /// `change` is given a whole module and returns what is compiled in its place.
    pub fn new(change: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(change))
    }

    pub(crate) fn apply(&self, source: &str) -> String {
        (self.0)(source)
    }
}

impl fmt::Debug for ShaderRewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShaderRewrite")
    }
}

macro_rules! shaders {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../shaders/", $path)))),*]
    };
}

/// Every shader file: its path in `shaders/`, and its text, which modules contain as it stands.
pub const SHADERS: &[(&str, &str)] = shaders![
    "1_naive.wgsl",
    "2_workgroup_tile.wgsl",
    "3_register_tile.wgsl",
    "4_buffered.wgsl",
    "5_vectorized.wgsl",
    "6_occupancy.wgsl",
    "7_generic.wgsl",
    "activation/gelu_erf.wgsl",
    "activation/gelu_tanh.wgsl",
    "activation/none.wgsl",
    "activation/relu.wgsl",
    "activation/relu_i32.wgsl",
    "activation/silu.wgsl",
    "compute/scalar.wgsl",
    "copy.wgsl",
    "copy_straight.wgsl",
    "element/bf16.wgsl",
    "element/f16.wgsl",
    "element/f32.wgsl",
    "element/i32.wgsl",
    "element/i8.wgsl",
    "epilogue.wgsl",
    "pack_output.wgsl",
    "pack_rows.wgsl",
    "reduce.wgsl",
    "tile/direct.wgsl",
    "tile/double_buffer.wgsl",
    "tile/single_buffer.wgsl",
    "tile/workgroup.wgsl",
];
