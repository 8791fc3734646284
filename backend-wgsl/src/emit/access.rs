//! Loads and stores for each element type.

use lapidary_core::ElementType;

use crate::decide::{Fetch, Sizes, Traits};

/// What the storage binding of an operand is an array of, when loads fetch `width` elements.
pub(super) fn storage(element: ElementType, width: u32) -> &'static str {
    match (element, width) {
        (ElementType::F16, 4) => "vec4<f16>",
        (ElementType::F16, 2) => "vec2<f16>",
        (ElementType::F16, _) => "f16",
        // Two bf16 to a word: four are a pair of words.
        (ElementType::BF16, 4) => "vec2<u32>",
        (ElementType::BF16 | ElementType::I8 | ElementType::I4, _) => "u32",
        (_, 4) => "vec4<f32>",
        (_, 2) => "vec2<f32>",
        _ => "f32",
    }
}

/// The same for words of four i8 that are neighbours along K.
pub(super) const fn storage_of_words(width: u32) -> &'static str {
    if width == 4 { "vec4<u32>" } else { "u32" }
}

/// What the binding of an operand of the cooperative kernel is an array of: eight elements.
pub(super) const fn storage_of_eight(element: ElementType) -> &'static str {
    match element {
        ElementType::I4 => "u32",
        ElementType::I8 => "vec2<u32>",
        _ => "vec4<u32>",
    }
}

/// Loads of both operands: one element, one element or 0 outside the matrix, and a vector of as many
/// elements as the binding's own vectors hold.
pub(super) fn loads(traits: &Traits, a: Fetch, b: Fetch) -> String {
    let mut text = unpack(traits);
    for (side, element) in [(Side::a(a), traits.a), (Side::b(b), traits.b)] {
        let Side { name, parameters, row, col, bounds, .. } = side;
        let width = side.fetch.width;
        text.push_str(&format!(
            "\
fn index_{name}(batch: u32, {parameters}) -> u32 {{
    return p.{name}_base + batch * p.{name}_batch + {row} * p.{name}_row + {col} * p.{name}_col;
}}

fn load_{name}(batch: u32, {parameters}) -> Elem {{
    let i = index_{name}(batch, {row}, {col});
    return {element_at}{scale};
}}

fn load_{name}_or_zero(batch: u32, {parameters}) -> Elem {{
    if ({bounds}) {{
        return load_{name}(batch, {row}, {col});
    }}
    return Elem(0);
}}

",
            element_at = element_at(element, &format!("{name}_data"), width),
            scale = match (name, traits.group) {
                ("b", Some(_)) => " * b_scale(batch, k, col)",
                _ => "",
            },
        ));
        text.push_str(&vector(element, side));
    }
    text
}

/// What differs between the accessors of A and of B.
#[derive(Clone, Copy)]
struct Side {
    name: &'static str,
    parameters: &'static str,
    row: &'static str,
    col: &'static str,
    bounds: &'static str,
    fetch: Fetch,
}

impl Side {
    const fn a(fetch: Fetch) -> Self {
        Self {
            name: "a",
            parameters: "row: u32, k: u32",
            row: "row",
            col: "k",
            bounds: "row < p.m && k < p.k",
            fetch,
        }
    }

    const fn b(fetch: Fetch) -> Self {
        Self {
            name: "b",
            parameters: "k: u32, col: u32",
            row: "k",
            col: "col",
            bounds: "k < p.k && col < p.n",
            fetch,
        }
    }
}

/// Helpers that take both operands' packed words apart.
pub(super) fn unpack(traits: &Traits) -> String {
    let b = if traits.a == traits.b { "" } else { unpack_one(traits.b) };
    unpack_one(traits.a).to_owned() + b
}

const fn unpack_one(element: ElementType) -> &'static str {
    match element {
        ElementType::BF16 => {
            "\
// Element `lane` (0 or 1) of a word of two bf16: the upper half of an f32.
fn bf16_of(word: u32, lane: u32) -> f32 {
    return bitcast<f32>(select(word << 16u, word & 0xffff0000u, lane == 1u));
}

"
        }
        ElementType::I8 => {
            "\
// Element `lane` (0 to 3) of a word of four i8, sign-extended.
fn i8_of(word: u32, lane: u32) -> i32 {
    return extractBits(bitcast<i32>(word), lane * 8u, 8u);
}

"
        }
        ElementType::I4 => {
            "\
// Element `lane` (0 to 7) of a word of eight i4, sign-extended.
fn i4_of(word: u32, lane: u32) -> i32 {
    return extractBits(bitcast<i32>(word), lane * 4u, 4u);
}

// The four i4 of the lower half of a word, sign-extended.
fn i4_four(half: u32) -> vec4<i32> {
    return bitcast<vec4<i32>>(vec4<u32>(half) << vec4<u32>(28u, 24u, 20u, 16u)) >> vec4<u32>(28u);
}

"
        }
        _ => "",
    }
}

/// One element of the binding `data`, whose index in elements is `i`.
pub(super) fn element_at(element: ElementType, data: &str, width: u32) -> String {
    match (element, width) {
        (ElementType::BF16, 4) => format!("bf16_of({data}[i / 4u][(i / 2u) % 2u], i % 2u)"),
        (ElementType::BF16, _) => format!("bf16_of({data}[i / 2u], i % 2u)"),
        (ElementType::I8, _) => format!("Elem(i8_of({data}[i / 4u], i % 4u))"),
        (ElementType::I4, _) => format!("Elem(i4_of({data}[i / 8u], i % 8u))"),
        (_, 1) => format!("Elem({data}[i])"),
        (_, w) => format!("Elem({data}[i / {w}u][i % {w}u])"),
    }
}

/// Vector number `i` of four elements of the binding `data`.
pub(super) fn four_at(element: ElementType, data: &str) -> String {
    match element {
        ElementType::BF16 => format!(
            "vec4<Elem>(\n        bf16_of({data}[i].x, 0u), bf16_of({data}[i].x, 1u),\n        \
             bf16_of({data}[i].y, 0u), bf16_of({data}[i].y, 1u))"
        ),
        ElementType::I8 => format!("vec4<Elem>(unpack4xI8({data}[i]))"),
        ElementType::I4 => format!("vec4<Elem>(i4_four({data}[i / 2u] >> (i % 2u * 16u)))"),
        _ => format!("vec4<Elem>({data}[i])"),
    }
}

/// `load_a_vector` or `load_b_vector`: `width` neighbouring elements that start at a multiple of
/// `width`, and `lane`, which takes one of A's.
fn vector(element: ElementType, side: Side) -> String {
    let Side { name, parameters, row, col, bounds, .. } = side;
    let width = side.fetch.width;
    let load = format!("Load{}", name.to_uppercase());
    let data = format!("{name}_data");
    let (alias, value) = match (element, width) {
        (_, 1) => ("Elem", format!("load_{name}(batch, {row}, {col})")),
        (ElementType::BF16, 2) => (
            "vec2<Elem>",
            format!("{load}(bf16_of({data}[i / 2u], 0u), bf16_of({data}[i / 2u], 1u))"),
        ),
        (ElementType::BF16, _) => (
            "vec4<Elem>",
            format!(
                "{load}(\n        bf16_of({data}[i / 4u].x, 0u), bf16_of({data}[i / 4u].x, 1u),\n        \
                 bf16_of({data}[i / 4u].y, 0u), bf16_of({data}[i / 4u].y, 1u))"
            ),
        ),
        (ElementType::I8, 2) => (
            "vec2<Elem>",
            format!("{load}(i8_of({data}[i / 4u], i % 4u), i8_of({data}[i / 4u], i % 4u + 1u))"),
        ),
        (ElementType::I8, _) => ("vec4<Elem>", format!("unpack4xI8({data}[i / 4u])")),
        (_, 2) => ("vec2<Elem>", format!("{load}({data}[i / 2u])")),
        _ => ("vec4<Elem>", format!("{load}({data}[i / 4u])")),
    };
    let index = if width == 1 {
        String::new()
    } else {
        format!("    let i = index_{name}(batch, {row}, {col});\n")
    };
    let lane = match (name, width) {
        ("a", 1) => "\nfn lane(values: LoadA, e: u32) -> Elem {\n    return values;\n}\n",
        ("a", _) => "\nfn lane(values: LoadA, e: u32) -> Elem {\n    return values[e];\n}\n",
        _ => "",
    };
    // The axis the vector runs along, and where it ends.
    let (near, end) = match (name, side.fetch.along_k) {
        (_, true) => ("k", "p.k"),
        ("a", false) => ("row", "p.m"),
        (_, false) => ("col", "p.n"),
    };
    let load_call = format!("load_{name}_vector(batch, {row}, {col})");
    let masked = match width {
        1 => format!("return {load_call};"),
        2 => format!(
            "let values = {load_call};\n        \
             return {load}(values.x, select(Elem(0), values.y, {near} + 1u < {end}));"
        ),
        _ => format!(
            "let values = {load_call};\n        \
             let at = vec4<u32>({near}) + vec4<u32>(0u, 1u, 2u, 3u);\n        \
             return select({load}(), values, at < vec4<u32>({end}));"
        ),
    };
    format!(
        "\
alias {load} = {alias};

fn load_{name}_vector(batch: u32, {parameters}) -> {load} {{
{index}    return {value};
}}

// The same with 0 for what lies outside the matrix. A vector that starts inside ends in storage of
// its own line, so reading it whole is safe and what it holds past the end is masked.
fn load_{name}_vector_or_zero(batch: u32, {parameters}) -> {load} {{
    if ({bounds}) {{
        {masked}
    }}
    return {load}();
}}
{lane}
"
    )
}

/// A store's text with numbers in the place of those strides and sizes that are known.
pub(super) fn with_sizes(store: &str, sizes: Option<Sizes>) -> String {
    let Some(sizes) = sizes else {
        return store.to_owned();
    };
    let [row, col, batch] = sizes.c.map(|stride| format!("{stride}u"));
    let store =
        store.replace("p.c_row", &row).replace("p.c_col", &col).replace("p.c_batch", &batch);
    match sizes.n {
        Some(n) => store.replace("p.n", &format!("{n}u")),
        None => store,
    }
}

/// Stores a finished 32-bit element; C is read only when beta asks for it.
pub(super) const STORE_FUSED: &str = "\
fn store_c(batch: u32, row: u32, col: u32, acc: Acc) {
    let i = p.c_base + batch * p.c_batch + row * p.c_row + col * p.c_col;
    var old = Scalar(0);
    if (HAS_BETA) {
        old = c_data[i];
    }
    c_data[i] = finish(acc, old, batch, row, col);
}

";

/// The same for four neighbours of a row, the first at a multiple of four.
pub(super) const STORE_FUSED_VECTOR: &str = "\
fn store_c(batch: u32, row: u32, col: u32, acc: vec4<Acc>) {
    let i = (p.c_base + batch * p.c_batch + row * p.c_row + col) / 4u;
    var old = vec4<Scalar>();
    if (HAS_BETA) {
        old = c_data[i];
    }
    c_data[i] = vec4<Scalar>(
        finish(acc.x, old.x, batch, row, col), finish(acc.y, old.y, batch, row, col + 1u),
        finish(acc.z, old.z, batch, row, col + 2u), finish(acc.w, old.w, batch, row, col + 3u));
}

";

/// The same for elements that share words: four of 16 bits are a pair of words, four of 8 bits a word.
pub(super) fn store_narrow(output: ElementType) -> String {
    let (decoded, encoded) = if output.size() == 2 {
        (
            "decode(words.x & 0xffffu), decode(words.x >> 16u),\n            \
             decode(words.y & 0xffffu), decode(words.y >> 16u)",
            "vec2<u32>(x | (y << 16u), z | (w << 16u))",
        )
    } else {
        (
            "decode(words & 0xffu), decode((words >> 8u) & 0xffu),\n            \
             decode((words >> 16u) & 0xffu), decode(words >> 24u)",
            "(x & 0xffu) | ((y & 0xffu) << 8u) | ((z & 0xffu) << 16u) | (w << 24u)",
        )
    };
    format!(
        "
fn store_c(batch: u32, row: u32, col: u32, acc: vec4<Acc>) {{
    let i = (p.c_base + batch * p.c_batch + row * p.c_row + col) / 4u;
    var old = vec4<Scalar>();
    if (HAS_BETA) {{
        let words = c_data[i];
        old = vec4<Scalar>(
            {decoded});
    }}
    let x = encode(finish(acc.x, old.x, batch, row, col));
    let y = encode(finish(acc.y, old.y, batch, row, col + 1u));
    let z = encode(finish(acc.z, old.z, batch, row, col + 2u));
    let w = encode(finish(acc.w, old.w, batch, row, col + 3u));
    c_data[i] = {encoded};
}}

"
    )
}

/// What C's binding is an array of, where stores write `width` elements.
pub(super) fn storage_of_c(output: ElementType, width: u32) -> &'static str {
    match (output.size(), width) {
        (1, _) => "u32",
        (2, _) => "vec2<u32>",
        (_, 4) => "vec4<Scalar>",
        _ => "Scalar",
    }
}

/// Stores a raw sum, row-major without gaps, for another pass.
pub(super) const STORE_SUM: &str = "\
fn store_c(batch: u32, row: u32, col: u32, acc: Acc) {
    sums[(batch * p.m + row) * p.n + col] = acc;
}

";

/// The same for four neighbours of a row, the first at a multiple of four.
pub(super) const STORE_SUM_VECTOR: &str = "\
fn store_c(batch: u32, row: u32, col: u32, acc: vec4<Acc>) {
    sums[((batch * p.m + row) * p.n + col) / 4u] = acc;
}

";
