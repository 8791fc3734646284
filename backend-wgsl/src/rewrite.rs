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
