//! The generated head of a module: sizes, types, parameters, bindings.

use lapidary_core::ElementType;

use super::{Access, access};
use crate::decide::{
    Body, CopyOrder, CopyWay, Kernel, Parts, REDUCE_THREADS, Stage, Stream, Traits, Vector,
    bindings, register_type,
};

/// The uniform block; [`crate::params::Params`] is the same in Rust.
const PARAMS: &str = "\
struct Params {
    m: u32, n: u32, k: u32, batch: u32,
    a_base: u32, a_row: u32, a_col: u32, a_batch: u32,
    b_base: u32, b_row: u32, b_col: u32, b_batch: u32,
    c_base: u32, c_row: u32, c_col: u32, c_batch: u32,
    alpha: Scalar, beta: Scalar, bias_base: u32, words: u32,
    row_scale_base: u32, row_scale_batch: u32, col_scale_base: u32, col_scale_batch: u32,
    group_base: u32, group_batch: u32, group_col: u32, unused: u32,
    axes: array<AXES, 3>,
}
@group(0) @binding(4) var<uniform> p: Params;
";

/// The uniform block where the axes are not looked at.
fn params(axes: &str) -> String {
    PARAMS.replace("AXES", axes)
}

fn scalar(element: ElementType) -> &'static str {
    match element {
        ElementType::I32 => "i32",
        _ => "f32",
    }
}

/// Text that stays in one comment: policies name themselves, and a line break would end it.
fn comment(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.replace(breaks, " ")
}

fn constant(name: &str, value: u32) -> String {
    format!("const {name} = {value}u;\n")
}

fn flag(name: &str, value: bool) -> String {
    format!("const {name} = {value};\n")
}

fn epilogue_flags(traits: &Traits) -> String {
    flag("HAS_BETA", traits.beta) + &flag("HAS_BIAS", traits.bias)
}

/// The bindings of a stage's scales, and `scaled` or `b_scale`, which apply them.
fn scales(traits: &Traits, stage: Stage, access: Access) -> String {
    let mut text = String::new();
    let mut factors = String::new();
    let input = access.input();
    for (vector, binding) in bindings(traits, stage) {
        let name = vector.name();
        text.push_str(&format!(
            "@group(0) @binding({binding}) var<storage, {input}> {name}: array<f32>;\n"
        ));
        match vector {
            Vector::RowScale => factors.push_str(
                " * Scalar(row_scale[p.row_scale_base + batch * p.row_scale_batch + row])",
            ),
            Vector::ColScale => factors.push_str(
                " * Scalar(col_scale[p.col_scale_base + batch * p.col_scale_batch + col])",
            ),
            Vector::GroupScales => text.push_str(&format!(
                "\n// The scale of weight (k, col), of groups of {} along K.\n\
                 fn b_scale(batch: u32, k: u32, col: u32) -> f32 {{\n    \
                 return group_scales[p.group_base + batch * p.group_batch + col * p.group_col + k / {}u];\n}}\n\n",
                traits.group.unwrap_or(1),
                traits.group.unwrap_or(1)
            )),
        }
    }
    if stage != (Stage::Multiply { fused: false }) {
        text.push_str(&format!(
            "\n// A sum with the scales of its row and column.\n\
             fn scaled(acc: Acc, batch: u32, row: u32, col: u32) -> Scalar {{\n    \
             return Scalar(acc){factors};\n}}\n\n"
        ));
    }
    text
}

pub(super) fn multiply(kernel: &Kernel, traits: &Traits, fused: bool, access: Access) -> String {
    let cooperative = kernel.body == Body::Cooperative;
    let mut text = String::new();
    if traits.a == ElementType::F16 || traits.b == ElementType::F16 {
        text.push_str("enable f16;\n");
    }
    if cooperative {
        text.push_str("enable wgpu_cooperative_matrix;\n");
    }
    // A kernel that stores raw sums is the same text, and so one pipeline, for every output type.
    let stored = if fused { traits.output } else { traits.accumulator() };
    let name = comment(&kernel.name);
    let operands = if traits.a == traits.b {
        traits.a.to_string()
    } else {
        format!("{} x {}", traits.a, traits.b)
    };
    text.push_str(&format!("// {name}: {operands} -> {stored}\n"));
    text.push_str(&constant("BM", kernel.block[0]));
    text.push_str(&constant("BN", kernel.block[1]));
    text.push_str(&constant("TM", kernel.thread[0]));
    text.push_str(&constant("TN", kernel.thread[1]));
    if kernel.k_tile > 0 {
        text.push_str(&constant("KT", kernel.k_tile));
        text.push_str(&constant("W", kernel.a.width));
    }
    if kernel.num_buffers > 0 {
        text.push_str(&constant("NUM_BUFFERS", kernel.num_buffers));
    }
    if let Some(config) = kernel.config {
        text.push_str(&constant("K_STEP", config.compute.k_step as u32));
    }
    text.push_str(&constant("THREADS", kernel.threads()));
    if let Some(slices) = kernel.slices {
        match slices.stream {
            Some(stream) => {
                text.push_str(&constant("STRIPS", stream.strips));
                text.push_str(&constant("RUN", stream.run));
            }
            None => text.push_str(&constant("SLICE_K", slices.k)),
        }
    }
    if fused {
        text.push_str(&epilogue_flags(traits));
    }
    let register = register_type(traits.accumulator());
    let element = if kernel.packs_quads() { "u32" } else { register };
    let scalar = scalar(traits.scalar);
    text.push_str(&format!(
        "alias Elem = {element};\nalias Acc = {register};\nalias Scalar = {scalar};\n\n"
    ));
    text.push_str(&params("vec4<u32>"));
    let input = access.input();
    let [a, b] = [(kernel.a, traits.a), (kernel.b, traits.b)].map(|(fetch, operand)| {
        if cooperative {
            access::storage_of_eight(operand)
        } else if kernel.packs_quads() {
            access::storage_of_words(fetch.width)
        } else {
            access::storage(operand, fetch.width)
        }
    });
    text.push_str(&format!("@group(0) @binding(0) var<storage, {input}> a_data: array<{a}>;\n"));
    text.push_str(&format!("@group(0) @binding(1) var<storage, {input}> b_data: array<{b}>;\n"));
    if fused {
        text.push_str(&format!(
            "@group(0) @binding(2) var<storage, read_write> c_data: array<{}>;\n\
             @group(0) @binding(3) var<storage, {input}> bias: array<Scalar>;\n",
            access::storage_of_c(traits.output, kernel.store_width)
        ));
    } else {
        text.push_str(&format!(
            "@group(0) @binding(2) var<storage, read_write> sums: array<{}>;\n",
            if kernel.store_width == 4 { "vec4<Acc>" } else { "Acc" }
        ));
    }
    text.push_str(&scales(traits, Stage::Multiply { fused }, access));
    text.push_str(
        "\n// Where a thread works: its matrix, its workgroup's corner of C, its index.\n\
         struct Place { batch: u32, row0: u32, col0: u32, tid: u32 }\n\n",
    );
    text
}

/// Sizes of the lanes of a word.
fn lanes(element: ElementType) -> String {
    let bits = element.bits() as u32;
    let mask = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
    format!(
        "const PER_WORD = {}u;\nconst LANE_BITS = {bits}u;\nconst LANE_MASK = {mask:#x}u;\n",
        32 / bits
    )
}

pub(super) fn pack_output(
    name: &str,
    traits: &Traits,
    parts: Parts,
    has_sum: bool,
    access: Access,
) -> String {
    let mut text = format!("// {name}: {}\n", traits.output);
    text.push_str(&lanes(traits.output));
    text.push_str(&flag("HAS_SUM", has_sum));
    text.push_str(&epilogue_flags(traits));
    let axes = if name == "pack_rows" { "vec4<u32>" } else { "Axis" };
    text.push_str(&sums_to_output(traits, ["Acc", "u32"], axes, access));
    text.push_str(&slices_at(parts));
    text
}

pub(super) fn reduce(
    traits: &Traits,
    parts: Parts,
    groups: u32,
    vectors: bool,
    access: Access,
) -> String {
    let mut text = format!("// reduce: {} -> {}\n", traits.accumulator(), traits.output);
    text.push_str(&constant("GROUPS", groups));
    text.push_str(&constant("OUTPUTS", REDUCE_THREADS / groups));
    text.push_str(&epilogue_flags(traits));
    let [sum, stored] = if vectors { ["vec4<Acc>", "vec4<Scalar>"] } else { ["Acc", "Scalar"] };
    text.push_str(&constant("WIDE", if vectors { 4 } else { 1 }));
    text.push_str(&sums_to_output(traits, [sum, stored], "vec4<u32>", access));
    text.push_str(&slices_at(parts));
    text
}

/// How many sums an output has: the slices of K, or the parts of its block.
fn slices_at(parts: Parts) -> String {
    let Parts { most, stream } = parts;
    let Some((stream, [rows, cols])) = stream else {
        return format!(
            "// Sums of an output.\nfn slices_at(batch: u32, row: u32, col: u32) -> u32 {{\n    return {most}u;\n}}\n\n"
        );
    };
    let Stream { strips, run, .. } = stream;
    format!(
        "// Sums of an output: the workgroups that its block is shared by.\n\
         fn slices_at(batch: u32, row: u32, col: u32) -> u32 {{\n    \
         let blocks_m = (p.m + {rows}u - 1u) / {rows}u;\n    \
         let blocks_n = (p.n + {cols}u - 1u) / {cols}u;\n    \
         let block = (batch * blocks_m + row / {rows}u) * blocks_n + col / {cols}u;\n    \
         return ((block + 1u) * {strips}u - 1u) / {run}u - block * {strips}u / {run}u + 1u;\n}}\n\n"
    )
}

/// Types, parameters and bindings of a pass from raw sums to C.
fn sums_to_output(traits: &Traits, [sum, stored]: [&str; 2], axes: &str, access: Access) -> String {
    let input = access.input();
    format!(
        "alias Acc = {};\nalias Scalar = {};\nalias Sum = {sum};\n\n{}\
         @group(0) @binding(0) var<storage, {input}> sums: array<Sum>;\n\
         @group(0) @binding(2) var<storage, read_write> c_data: array<{stored}>;\n\
         @group(0) @binding(3) var<storage, {input}> bias: array<Scalar>;\n{}",
        register_type(traits.accumulator()),
        scalar(traits.scalar),
        params(axes),
        scales(traits, Stage::Finish, access),
    )
}

pub(super) fn copy(operand: ElementType, order: CopyOrder, way: CopyWay, access: Access) -> String {
    let mut text = format!("// copy: {operand}\n");
    text.push_str(&lanes(operand));
    text.push_str("const ALONG_K = 0u;\nconst ACROSS_K = 1u;\nconst QUADS = 2u;\n");
    let order = match order {
        CopyOrder::AlongK => "ALONG_K",
        CopyOrder::AcrossK => "ACROSS_K",
        CopyOrder::Quads => "QUADS",
    };
    text.push_str(&format!("const ORDER = {order};\n"));
    let stored = match way {
        CopyWay::Straight => "vec4<u32>",
        CopyWay::Tiles { lines_are_near } => {
            text.push_str(&flag("LINES_ARE_NEAR", lines_are_near));
            "u32"
        }
    };
    text.push_str("alias Scalar = u32;\n\n");
    text.push_str(&params("vec4<u32>"));
    let input = access.input();
    text.push_str(&format!(
        "@group(0) @binding(0) var<storage, {input}> a_data: array<u32>;\n\
         @group(0) @binding(2) var<storage, read_write> c_data: array<{stored}>;\n\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_cannot_end_its_comment() {
        let name = super::comment("mine\n}\u{2028}\u{85}fn main() {");
        assert_eq!(name, "mine }  fn main() {");
    }
}
