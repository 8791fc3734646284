//! WGSL text from decisions. Nothing is decided in here.
//!
//! A module is a generated header (sizes, types, bindings), accessors for the operands' element
//! types, the epilogue, and one shader file:
//!
//! ```text
//! header     const BM = 128u; … alias Elem = f32; … @group(0) @binding(0) var<…> a_data: …;
//! access     load_a, load_b, load_a_vector, store_c
//! epilogue   finish(acc, old, batch, row, col) with HAS_BETA, HAS_BIAS and one activation
//! body       shaders/1_naive.wgsl … 7_generic.wgsl, pack_output.wgsl,
//!            pack_rows.wgsl, copy*.wgsl, reduce.wgsl; the others are written out in Rust
//! ```

mod access;
mod cooperative;
mod direct;
mod generic;
mod header;
mod matrix_store;
mod place;
mod skinny;
mod split;
mod vector;

use lapidary_core::{Activation, ElementType};

use crate::decide::{Body, CopyOrder, CopyWay, Kernel, Parts, Store, Traits};

/// Whether inputs are bound read-only, or all buffers read_write.
///
/// One buffer may not be bound read-only and writable at once, even with disjoint ranges; callers
/// whose operands share a buffer get every binding writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Access {
    /// Inputs are `read`, the output is `read_write`.
    ReadOnlyInputs,
    /// Every binding is `read_write`.
    AllReadWrite,
}

impl Access {
    const fn input(self) -> &'static str {
        match self {
            Self::ReadOnlyInputs => "read",
            Self::AllReadWrite => "read_write",
        }
    }
}

/// The module of the dispatch that multiplies.
#[must_use]
pub fn multiply(kernel: &Kernel, traits: &Traits, store: Store, access: Access) -> String {
    let fused = store == Store::Fused && kernel.slices.is_none();
    let mut text = header::multiply(kernel, traits, fused, access);
    if !kernel.body.is_written_out() {
        text.push_str(&access::loads(traits, kernel.a, kernel.b));
    }
    let vectors = kernel.store_width == 4;
    if !kernel.stores_directly() {
        let store = if fused && traits.output.size() < 4 {
            text.push_str(&epilogue(traits));
            text.push_str(codec(traits.output));
            access::store_narrow(traits.output)
        } else if fused {
            text.push_str(&epilogue(traits));
            if vectors { access::STORE_FUSED_VECTOR } else { access::STORE_FUSED }.to_owned()
        } else {
            if vectors { access::STORE_SUM_VECTOR } else { access::STORE_SUM }.to_owned()
        };
        text.push_str(&access::with_sizes(&store, kernel.sizes));
    }
    text.push_str(&match kernel.body {
        Body::Naive => include_str!("../../shaders/1_naive.wgsl").to_owned(),
        Body::WorkgroupTile => include_str!("../../shaders/2_workgroup_tile.wgsl").to_owned(),
        Body::RegisterTile => include_str!("../../shaders/3_register_tile.wgsl").to_owned(),
        Body::Buffered => {
            buffering(kernel.num_buffers).to_owned() + include_str!("../../shaders/4_buffered.wgsl")
        }
        Body::Vectorized => {
            buffering(kernel.num_buffers).to_owned()
                + include_str!("../../shaders/5_vectorized.wgsl")
        }
        Body::Occupancy => include_str!("../../shaders/6_occupancy.wgsl").to_owned(),
        Body::Generic => generic::body(kernel),
        Body::Vector => vector::body(kernel, traits),
        Body::Cooperative => cooperative::body(kernel, traits, fused),
        Body::Skinny => skinny::body(kernel, traits),
        Body::Split => split::body(kernel, traits),
    });
    text
}

/// The module of the pass that applies the epilogue and stores whole words, of sums in as many
/// parts.
#[must_use]
pub fn pack_output(traits: &Traits, parts: Parts, store: Store, access: Access) -> String {
    let mut text =
        header::pack_output("pack_output", traits, parts, store == Store::Packed, access);
    text.push_str(&epilogue(traits));
    text.push_str(codec(traits.output));
    text.push_str(include_str!("../../shaders/pack_output.wgsl"));
    text
}

/// The same where every row of C is whole words.
#[must_use]
pub fn pack_rows(traits: &Traits, parts: Parts, access: Access) -> String {
    let mut text = header::pack_output("pack_rows", traits, parts, true, access);
    text.push_str(&epilogue(traits));
    text.push_str(codec(traits.output));
    text.push_str(include_str!("../../shaders/pack_rows.wgsl"));
    text
}

/// The module of the pass that adds up parts of sums with `groups` threads an output, applies the
/// epilogue and stores 32-bit elements, one after the other or where `vectors` says so four at once.
#[must_use]
pub fn reduce(traits: &Traits, parts: Parts, groups: u32, vectors: bool, access: Access) -> String {
    let mut text = header::reduce(traits, parts, groups, vectors, access);
    text.push_str(&epilogue(traits));
    text.push_str(if vectors { access::STORE_FUSED_VECTOR } else { access::STORE_FUSED });
    text.push_str(include_str!("../../shaders/reduce.wgsl"));
    text
}

/// The module that copies an operand into `order` this way.
#[must_use]
pub fn copy(operand: ElementType, order: CopyOrder, way: CopyWay, access: Access) -> String {
    header::copy(operand, order, way, access)
        + match way {
            CopyWay::Straight => include_str!("../../shaders/copy_straight.wgsl"),
            CopyWay::Tiles { .. } => include_str!("../../shaders/copy.wgsl"),
        }
}

const fn buffering(num_buffers: u32) -> &'static str {
    if num_buffers == 1 {
        include_str!("../../shaders/tile/single_buffer.wgsl")
    } else {
        include_str!("../../shaders/tile/double_buffer.wgsl")
    }
}

fn epilogue(traits: &Traits) -> String {
    let activation = match traits.activation {
        Activation::Relu if traits.scalar == ElementType::I32 => {
            include_str!("../../shaders/activation/relu_i32.wgsl")
        }
        Activation::Relu => include_str!("../../shaders/activation/relu.wgsl"),
        Activation::Silu => include_str!("../../shaders/activation/silu.wgsl"),
        Activation::GeluTanh => include_str!("../../shaders/activation/gelu_tanh.wgsl"),
        Activation::GeluErf => include_str!("../../shaders/activation/gelu_erf.wgsl"),
        _ => include_str!("../../shaders/activation/none.wgsl"),
    };
    format!("{activation}\n{}\n", include_str!("../../shaders/epilogue.wgsl"))
}

const fn codec(output: ElementType) -> &'static str {
    match output {
        ElementType::F16 => include_str!("../../shaders/element/f16.wgsl"),
        ElementType::BF16 => include_str!("../../shaders/element/bf16.wgsl"),
        ElementType::I8 => include_str!("../../shaders/element/i8.wgsl"),
        ElementType::I32 => include_str!("../../shaders/element/i32.wgsl"),
        _ => include_str!("../../shaders/element/f32.wgsl"),
    }
}
