//! Which problems count as one: everything that changes the winner, and nothing else.

use lapidary_core::{Layout, Problem, Shape};

/// The class of a problem.
///
/// Sizes are put into classes (see [`size_class`]); element types, the epilogue and, of each operand,
/// which stride is 1 and how the others are aligned are kept. Two problems of one class may differ
/// in the last few rows and columns only, or in a stride's length. Whether sums may be f16 makes two
/// classes.
#[must_use]
pub fn of(problem: &Problem, f16_sums: bool) -> String {
    let [m, n, k, batch] = [problem.m, problem.n, problem.k, problem.batch].map(size_class);
    let a = layout_class(problem.a_layout, problem.a_shape());
    let b = layout_class(problem.b_layout, problem.b_shape());
    let c = layout_class(problem.c_layout, problem.c_shape());
    let mut epilogue = String::new();
    for (present, name) in [
        (problem.alpha != 1.0, " alpha"),
        (problem.reads_c(), " beta"),
        (problem.bias, " bias"),
        (problem.row_scale, " row-scale"),
        (problem.col_scale, " col-scale"),
        (problem.block_scales, " block-scales"),
        (f16_sums, " f16-sums"),
    ] {
        if present {
            epilogue.push_str(name);
        }
    }
    if let Some(length) = problem.b_group {
        epilogue.push_str(&format!(" groups of {length}"));
    }
    format!(
        "{} {} {} | {batch} x {m} x {n} x {k} | A {a} | B {b} | C {c} |{epilogue} {}",
        problem.a, problem.b, problem.c, problem.activation
    )
}

/// The largest size of a size's class: itself up to 64, above that the next of eight steps an octave.
#[must_use]
pub fn size_class(size: usize) -> usize {
    if size <= 64 {
        return size;
    }
    // The largest power of two below the size: 65 to 128 step by 8, 129 to 256 by 16.
    let step = 1 << ((size - 1).ilog2() - 3);
    size.div_ceil(step).saturating_mul(step)
}

/// Which stride is 1, and the largest power of two up to 16 that divides the others.
fn layout_class(layout: Layout, shape: Shape) -> String {
    let Layout { row_stride, col_stride, batch_stride } = layout;
    let rows = if shape.rows > 1 { row_stride } else { 0 };
    let cols = if shape.cols > 1 { col_stride } else { 0 };
    let lines = match (rows, cols) {
        (rows, 0 | 1) => format!("rows/{}", alignment(rows)),
        (0 | 1, cols) => format!("cols/{}", alignment(cols)),
        (rows, cols) => format!("spread/{}/{}", alignment(rows), alignment(cols)),
    };
    match (shape.batch, batch_stride) {
        (0 | 1, _) => lines,
        (_, 0) => format!("{lines} shared"),
        (_, stride) => format!("{lines} apart/{}", alignment(stride)),
    }
}

fn alignment(stride: isize) -> String {
    let sign = if stride < 0 { "-" } else { "" };
    let largest = if stride == 0 { 16 } else { (1 << stride.trailing_zeros().min(4)) as u32 };
    format!("{sign}{largest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapidary_core::{Activation, ElementType};

    fn key(problem: &Problem) -> String {
        of(problem, false)
    }

    #[test]
    fn sizes_fall_into_eight_classes_an_octave() {
        assert_eq!([0, 1, 63, 64].map(size_class), [0, 1, 63, 64]);
        assert_eq!([65, 72, 73, 128, 129].map(size_class), [72, 72, 80, 128, 144]);
        assert_eq!([1000, 4095, 4096, 4097].map(size_class), [1024, 4096, 4096, 4608]);
        let classes: std::collections::BTreeSet<_> = (1025..=2048).map(size_class).collect();
        assert_eq!(classes.len(), 8);
        for size in 1..5000 {
            let class = size_class(size);
            assert!(class >= size && (class - size) * 8 < size && size_class(class) == class);
        }
    }

    #[test]
    fn what_changes_the_winner_changes_the_key() {
        let base = Problem::new(4096, 4096, 4096);
        let others = [
            base.clone().elements(ElementType::F16, ElementType::F32),
            base.clone().elements(ElementType::F16, ElementType::F16),
            base.clone().a_layout(Layout::col_major(4096, 4096)),
            base.clone().b_layout(Layout::col_major(4096, 4096)),
            base.clone().c_layout(Layout::col_major(4096, 4096)),
            base.clone().a_layout(Layout { row_stride: 4097, ..base.a_layout }),
            base.clone().a_layout(Layout { row_stride: 4100, ..base.a_layout }),
            base.clone().a_layout(Layout { row_stride: -4096, ..base.a_layout }),
            base.clone().a_layout(Layout { row_stride: 8192, col_stride: 2, ..base.a_layout }),
            base.clone().bias(true),
            base.clone().col_scale(true),
            base.clone().factors(ElementType::F32, ElementType::I8),
            base.clone().factors(ElementType::F32, ElementType::I4),
            base.clone().factors(ElementType::F32, ElementType::I4).b_group(Some(32)),
            base.clone().factors(ElementType::F32, ElementType::I4).b_group(Some(128)),
            base.clone().beta(1.0),
            base.clone().alpha(2.0),
            base.clone().activation(Activation::Silu),
            Problem::new(64, 4096, 4096),
            Problem::new(4096, 64, 4096),
            Problem::new(4096, 4096, 64),
            Problem::new(4096, 4096, 4096).batch(2),
        ];
        let mut keys: Vec<String> = others.iter().map(key).collect();
        keys.push(key(&base));
        keys.push(of(&base, true));
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len(), "{keys:#?}");
    }

    #[test]
    fn what_does_not_change_the_winner_keeps_the_key() {
        // Rows a few more or less; a row stride of the same alignment; other factors that are not 1.
        assert_eq!(key(&Problem::new(4090, 4096, 4096)), key(&Problem::new(4096, 4096, 4096)));
        let base = Problem::new(512, 512, 512);
        let longer = base.clone().a_layout(Layout { row_stride: 1024, ..base.a_layout });
        assert_eq!(key(&longer), key(&base));
        assert_eq!(key(&base.clone().alpha(2.0)), key(&base.alpha(3.0)));
        // The stride of an axis of one element is never used.
        let row = Problem::new(1, 512, 512);
        assert_eq!(key(&row.clone().a_layout(Layout { row_stride: 7, ..row.a_layout })), key(&row));
    }
}
