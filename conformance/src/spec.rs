//! A case as data: one product to check, why, and what kind of case it is.

use core::fmt;

use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{Activation, ElementType, Error, Problem};
use serde::{Deserialize, Serialize};

use crate::adapter::Types;
use crate::names;
use crate::shapes::ShapeClass;

/// What a case is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Tag {
    /// A size beside a tile's edge.
    Tail,
    /// One side much longer than the other, or a single row or column.
    Skinny,
    /// Strides other than dense row-major.
    Stride,
    /// Several matrices.
    Batch,
    /// Non-finite, subnormal or extreme operands.
    SpecialValue,
    /// Indices past 16 or 32 bits.
    LargeIndex,
    /// Alpha, beta, bias, activation or scales.
    Epilogue,
    /// Element types.
    Dtype,
    /// A limit of a device or the library.
    Limit,
    /// Nothing to compute.
    Empty,
    /// Found by an earlier failure.
    Regression,
}

/// Which way into the library a case takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Route {
    /// A plan on device tensors.
    #[default]
    Device,
    /// A plan with B packed first.
    Packed,
    /// The one-shot function on host memory.
    Host,
    /// A plan on device tensors, on a device whose limits cut the product into pieces.
    Pieces,
    /// The one-shot function, on a device whose memory budget makes it stream the product.
    Streamed,
    /// A plan on device tensors, on a device that writes sizes and strides into the text of kernels as
    /// others do for large products only.
    Specialised,
}

impl Route {
    /// The name in case files and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Packed => "packed",
            Self::Host => "host",
            Self::Pieces => "pieces",
            Self::Streamed => "streamed",
            Self::Specialised => "specialised",
        }
    }

    /// Whether the product is one of tensors on the device, by a plan of the caller's.
    #[must_use]
    pub const fn is_planned(self) -> bool {
        matches!(self, Self::Device | Self::Packed | Self::Pieces | Self::Specialised)
    }

    /// Whether a device of its own makes pieces of the product.
    #[must_use]
    pub const fn is_cut(self) -> bool {
        matches!(self, Self::Pieces | Self::Streamed)
    }
}

/// Bytes that the operands of a case may take. A dozen times as much is needed in all, for the oracle's
/// sums and a backend's copies, and that by every job.
const OPERAND_BYTES: u128 = 1 << 28;

fn one() -> usize {
    1
}

fn unit() -> f64 {
    1.0
}

fn f32_types() -> [ElementType; 3] {
    [ElementType::F32; 3]
}

fn dense() -> [Arrangement; 3] {
    [Arrangement::Dense; 3]
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// One product to check.
///
/// Case files are lists of these under `[[case]]`; everything but name, reason and shape has a
/// default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Spec {
    /// Unique in its file.
    #[serde(default)]
    pub name: String,
    /// Why the case exists, in one line.
    #[serde(default)]
    pub reason: String,
    /// What kind of case it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// M, N and K.
    #[serde(deserialize_with = "names::sizes")]
    pub shape: [usize; 3],
    /// Matrices. The default is 1.
    #[serde(default = "one")]
    pub batch: usize,
    /// Element types of A, B and C. The default is f32.
    #[serde(default = "f32_types", with = "names::elements")]
    pub types: [ElementType; 3],
    /// How A, B and C lie in memory. The default is dense.
    #[serde(default = "dense", with = "names::layouts")]
    pub layouts: [Arrangement; 3],
    /// Factor of the product. The default is 1.
    #[serde(default = "unit")]
    pub alpha: f64,
    /// Factor of C. The default is 0.
    #[serde(default)]
    pub beta: f64,
    /// Whether a bias is added.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bias: bool,
    /// What is applied last.
    #[serde(default, with = "names::activation", skip_serializing_if = "is_default")]
    pub activation: Activation,
    /// Whether rows of A have scales.
    #[serde(default, skip_serializing_if = "is_default")]
    pub row_scale: bool,
    /// Whether columns of B have scales.
    #[serde(default, skip_serializing_if = "is_default")]
    pub col_scale: bool,
    /// Whether blocks along K have scales.
    #[serde(default, skip_serializing_if = "is_default")]
    pub block_scales: bool,
    /// Elements along K of a column of B that share a scale.
    #[serde(default, skip_serializing_if = "is_default")]
    pub b_group: Option<usize>,
    /// Which way into the library it takes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub route: Route,
    /// Pieces that K is cut into, where the backend and the kernel can; the backend's choice if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k_slices: Option<usize>,
    /// Whether A and B are copied first, where the backend and the kernel can; the backend's choice if
    /// absent.
    #[serde(default, deserialize_with = "names::copies", skip_serializing_if = "Option::is_none")]
    pub copies: Option<[bool; 2]>,
    /// Only these backends, by name; all of them if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<String>,
    /// Only the kernel of this name; every kernel of the backend if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

impl Spec {
    /// An f32 product of these sizes, dense, alpha 1, beta 0.
    pub fn new(name: impl Into<String>, reason: impl Into<String>, shape: [usize; 3]) -> Self {
        Self {
            name: name.into(),
            reason: reason.into(),
            tags: Vec::new(),
            shape,
            batch: 1,
            types: f32_types(),
            layouts: dense(),
            alpha: 1.0,
            beta: 0.0,
            bias: false,
            activation: Activation::None,
            row_scale: false,
            col_scale: false,
            block_scales: false,
            b_group: None,
            route: Route::Device,
            k_slices: None,
            copies: None,
            backends: Vec::new(),
            kernel: None,
        }
    }

    /// Takes on a combination of types; groups are of 32.
    pub fn set_types(&mut self, types: Types) {
        self.types = types.elements;
        self.block_scales = types.block_scales;
        self.b_group = types.groups.then_some(32);
    }

    /// The problem; its layouts are those of dense operands.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let [m, n, k] = self.shape;
        let [a, b, c] = self.types;
        Problem::new(m, n, k)
            .elements(a, c)
            .factors(a, b)
            .batch(self.batch)
            .alpha(self.alpha)
            .beta(self.beta)
            .bias(self.bias)
            .activation(self.activation)
            .row_scale(self.row_scale)
            .col_scale(self.col_scale)
            .block_scales(self.block_scales)
            .b_group(self.b_group)
    }

    /// The problem with operands of these values in this spec's layouts.
    #[must_use]
    pub fn case(&self, values: Values, seed: u64) -> Case {
        Case::build(self.problem(), values, seed, self.layouts)
    }

    /// The problem in this spec's layouts, and the bytes that [`case`](Self::case) would take; no
    /// operand is made.
    ///
    /// # Errors
    /// What [`Case::layouts`] finds: the rule that the problem breaks, or the limit that it is past.
    pub fn laid_out(&self) -> Result<(Problem, u128), Error> {
        Case::layouts(self.problem(), self.layouts)
    }

    /// Why the case cannot be run on any backend, if it cannot: it is no valid problem, or its operands
    /// take more memory than a host is asked for.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        match self.laid_out() {
            Ok((_, bytes)) if bytes <= OPERAND_BYTES => None,
            Ok(_) => Some(format!("operands of more than {} MiB", OPERAND_BYTES >> 20)),
            Err(error) => Some(error.to_string()),
        }
    }

    /// What makes two cases the same for counting: shape class, layouts, types and epilogue, and the
    /// route. Sizes within a class and data do not.
    #[must_use]
    pub fn class(&self) -> String {
        format!(
            "{}{} {} {} {} {}{}",
            ShapeClass::of(self.shape).name(),
            if self.batch > 1 { " batched" } else { "" },
            self.type_name(),
            self.layout_name(),
            self.epilogue_name(),
            self.route.name(),
            self.way_name(),
        )
    }

    /// What is asked of the plan besides the kernel, in one word with a point before it; empty if
    /// nothing is.
    #[must_use]
    pub fn way_name(&self) -> String {
        let mut name = String::new();
        if let Some(slices) = self.k_slices {
            name.push_str(&format!(".slices{slices}"));
        }
        if let Some(copies) = self.copies {
            name.push_str(match copies {
                [false, false] => ".in-place",
                [true, false] => ".copied-a",
                [false, true] => ".copied-b",
                [true, true] => ".copied",
            });
        }
        name
    }

    /// The element types in one word.
    #[must_use]
    pub fn type_name(&self) -> String {
        let [a, b, c] = self.types;
        let scaled = match (self.block_scales, self.b_group) {
            (true, _) => "+mx".to_owned(),
            (false, Some(length)) => format!("+g{length}"),
            (false, None) => String::new(),
        };
        if a == b { format!("{a}{scaled}-{c}") } else { format!("{a}.{b}{scaled}-{c}") }
    }

    /// The layouts in one word.
    #[must_use]
    pub fn layout_name(&self) -> String {
        let [a, b, c] = self.layouts.map(names::arrangement_name);
        if a == b && b == c { a.to_owned() } else { format!("{a}/{b}/{c}") }
    }

    /// The epilogue in one word.
    #[must_use]
    pub fn epilogue_name(&self) -> String {
        let mut parts = Vec::new();
        match self.alpha {
            1.0 => {}
            0.0 => parts.push("alpha0"),
            _ => parts.push("alpha"),
        }
        match self.beta {
            0.0 => {}
            1.0 => parts.push("beta1"),
            _ => parts.push("beta"),
        }
        for (given, name) in
            [(self.row_scale, "rows"), (self.col_scale, "cols"), (self.bias, "bias")]
        {
            if given {
                parts.push(name);
            }
        }
        if self.activation != Activation::None {
            parts.push(self.activation.name());
        }
        if parts.is_empty() { "plain".to_owned() } else { parts.join("+") }
    }

    /// Whether the case is meant for the backend of this name.
    #[must_use]
    pub fn is_for_backend(&self, name: &str) -> bool {
        self.backends.is_empty() || self.backends.iter().any(|backend| backend == name)
    }

    /// Whether the case is meant for the kernel of this name.
    #[must_use]
    pub fn is_for_kernel(&self, name: &str) -> bool {
        self.kernel.as_ref().is_none_or(|kernel| kernel == name)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.shape;
        write!(f, "{}: {m}x{n}x{k}", self.name)?;
        if self.batch != 1 {
            write!(f, " batch {}", self.batch)?;
        }
        write!(f, " {} {} {}", self.type_name(), self.layout_name(), self.epilogue_name())
    }
}
