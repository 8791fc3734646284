//! Loads and stores for each element type.

use lapidary_core::ElementType;

/// What the storage binding of an operand is an array of, when loads fetch `width` elements.
pub(super) fn storage(element: ElementType, width: u32) -> &'static str {
    match (element, width) {
        (ElementType::F16, 4) => "vec4<f16>",
        (ElementType::F16, 2) => "vec2<f16>",
        (ElementType::F16, _) => "f16",
        // Two bf16 to a word: four are a pair of words.
        (ElementType::BF16, 4) => "vec2<u32>",
        (ElementType::BF16 | ElementType::I8, _) => "u32",
        (_, 4) => "vec4<f32>",
        (_, 2) => "vec2<f32>",
        _ => "f32",
    }
}

/// `load_a`, `load_b`, their zero-filling twins, and `load_a_vector` where `width` > 1 or the
/// body asks for vectors of one.
pub(super) fn loads(element: ElementType, width: u32) -> String {
    let mut text = String::new();
    text.push_str(unpack(element));
    text.push_str(&format!(
        "\
fn index_a(batch: u32, row: u32, k: u32) -> u32 {{
    return p.a_base + batch * p.a_batch + row * p.a_row + k * p.a_col;
}}

fn load_a(batch: u32, row: u32, k: u32) -> Elem {{
    let i = index_a(batch, row, k);
    return {};
}}

fn load_b(batch: u32, k: u32, col: u32) -> Elem {{
    let i = p.b_base + batch * p.b_batch + k * p.b_row + col * p.b_col;
    return {};
}}

fn load_a_or_zero(batch: u32, row: u32, k: u32) -> Elem {{
    if (row < p.m && k < p.k) {{
        return load_a(batch, row, k);
    }}
    return Elem(0);
}}

fn load_b_or_zero(batch: u32, k: u32, col: u32) -> Elem {{
    if (k < p.k && col < p.n) {{
        return load_b(batch, k, col);
    }}
    return Elem(0);
}}

{}
",
        element_at(element, "a_data", width),
        element_at(element, "b_data", 1),
        vector(element, width),
    ));
    text
}

/// Helpers that take a packed word apart.
const fn unpack(element: ElementType) -> &'static str {
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
        _ => "",
    }
}

/// One element of the binding `data`, whose index in elements is `i`.
fn element_at(element: ElementType, data: &str, width: u32) -> String {
    match (element, width) {
        (ElementType::BF16, 4) => format!("bf16_of({data}[i / 4u][(i / 2u) % 2u], i % 2u)"),
        (ElementType::BF16, _) => format!("bf16_of({data}[i / 2u], i % 2u)"),
        (ElementType::I8, _) => format!("i8_of({data}[i / 4u], i % 4u)"),
        (_, 1) => format!("Elem({data}[i])"),
        (_, w) => format!("Elem({data}[i / {w}u][i % {w}u])"),
    }
}

/// `load_a_vector`: `width` elements of A that start at a multiple of `width`.
fn vector(element: ElementType, width: u32) -> String {
    let (alias, value) = match (element, width) {
        (_, 1) => ("Elem", "load_a(batch, row, k)".to_owned()),
        (ElementType::BF16, 2) => {
            ("vec2<Elem>", "LoadA(bf16_of(a_data[i / 2u], 0u), bf16_of(a_data[i / 2u], 1u))".into())
        }
        (ElementType::BF16, _) => (
            "vec4<Elem>",
            "LoadA(\n        bf16_of(a_data[i / 4u].x, 0u), bf16_of(a_data[i / 4u].x, 1u),\n        \
             bf16_of(a_data[i / 4u].y, 0u), bf16_of(a_data[i / 4u].y, 1u))"
                .into(),
        ),
        (ElementType::I8, 2) => (
            "vec2<Elem>",
            "LoadA(i8_of(a_data[i / 4u], i % 4u), i8_of(a_data[i / 4u], i % 4u + 1u))".into(),
        ),
        (ElementType::I8, _) => ("vec4<Elem>", "unpack4xI8(a_data[i / 4u])".into()),
        (_, 2) => ("vec2<Elem>", "LoadA(a_data[i / 2u])".into()),
        _ => ("vec4<Elem>", "LoadA(a_data[i / 4u])".into()),
    };
    let lane = if width == 1 { "values" } else { "values[e]" };
    format!(
        "\
alias LoadA = {alias};

// Element e of what one load fetched.
fn lane(values: LoadA, e: u32) -> Elem {{
    return {lane};
}}

fn load_a_vector(batch: u32, row: u32, k: u32) -> LoadA {{
    let i = index_a(batch, row, k);
    return {value};
}}
"
    )
}

/// Stores a finished 32-bit element; C is read only when beta asks for it.
pub(super) const STORE_FUSED: &str = "\
fn store_c(batch: u32, row: u32, col: u32, acc: Acc) {
    let i = p.c_base + batch * p.c_batch + row * p.c_row + col * p.c_col;
    var old = Scalar(0);
    if (HAS_BETA) {
        old = c_data[i];
    }
    c_data[i] = finish(acc, old, col);
}

";

/// Stores a raw sum, row-major without gaps, for the packing pass.
pub(super) const STORE_SUM: &str = "\
fn store_c(batch: u32, row: u32, col: u32, acc: Acc) {
    sums[(batch * p.m + row) * p.n + col] = acc;
}

";
