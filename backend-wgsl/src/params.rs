//! The uniform block of every kernel, in Rust.

use lapidary_core::{ElementType, Layout, Problem, Shape};

/// One axis of C for the packing pass, which undoes strides.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Axis {
    /// Elements from one index to the next, positive.
    stride: u32,
    /// Indices along the axis.
    count: u32,
    /// 0 batch, 1 row, 2 column.
    which: u32,
    /// 1 where the axis runs backwards.
    flip: u32,
}

/// Sizes, strides and factors. Strides are 32-bit two's complement: shader indices are modulo 2³².
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Params {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) batch: u32,
    pub(crate) a: Strides,
    pub(crate) b: Strides,
    pub(crate) c: Strides,
    pub(crate) alpha: u32,
    pub(crate) beta: u32,
    pub(crate) bias_base: u32,
    pub(crate) words: u32,
    /// Index of the first row's scale in its binding, and scales from one matrix to the next.
    pub(crate) row_scale: [u32; 2],
    /// The same for columns.
    pub(crate) col_scale: [u32; 2],
    /// Index of the first group's scale, and scales from one matrix to the next and from one column to
    /// the next.
    pub(crate) group_scales: [u32; 4],
    pub(crate) axes: [Axis; 3],
}

/// Index of element (0, 0) of matrix 0 within the binding, and strides.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, bytemuck::Pod, bytemuck::Zeroable)]
pub(crate) struct Strides {
    pub(crate) base: u32,
    pub(crate) row: u32,
    pub(crate) col: u32,
    pub(crate) batch: u32,
}

impl Strides {
    pub(crate) const fn new(base: u32, layout: Layout) -> Self {
        Self {
            base,
            row: layout.row_stride as u32,
            col: layout.col_stride as u32,
            batch: layout.batch_stride as u32,
        }
    }
}

/// A factor's bits in the type the shader uses it in.
pub(crate) fn factor(value: f64, scalar: ElementType) -> u32 {
    match scalar {
        ElementType::I32 => (value as i32) as u32,
        _ => (value as f32).to_bits(),
    }
}

/// Axes of a chunk of C, largest stride first, and the offset of its lowest element from (0, 0, 0).
///
/// An axis of one index gets a stride that no index reaches, so that undoing it gives 0.
pub(crate) fn axes(layout: Layout, shape: Shape) -> ([Axis; 3], i128) {
    let mut lowest = 0;
    let mut axes = [
        (shape.batch, layout.batch_stride),
        (shape.rows, layout.row_stride),
        (shape.cols, layout.col_stride),
    ]
    .map(|(count, stride)| (count, stride, 0));
    for (which, axis) in axes.iter_mut().enumerate() {
        axis.2 = which as u32;
        if axis.0 > 1 && axis.1 < 0 {
            lowest += (axis.0 as i128 - 1) * axis.1 as i128;
        }
    }
    axes.sort_by_key(|&(count, stride, _)| {
        core::cmp::Reverse(if count > 1 { stride.unsigned_abs() } else { 0 })
    });
    let axes = axes.map(|(count, stride, which)| Axis {
        stride: if count > 1 { stride.unsigned_abs() as u32 } else { u32::MAX },
        count: count as u32,
        which,
        flip: u32::from(count > 1 && stride < 0),
    });
    (axes, lowest)
}

impl Params {
    /// The parameters of a problem's factors, with everything that depends on a chunk at zero.
    pub(crate) fn of(problem: &Problem) -> Self {
        let scalar = problem.bias_element();
        Self {
            k: problem.k as u32,
            alpha: factor(problem.alpha, scalar),
            beta: factor(problem.beta, scalar),
            ..bytemuck::Zeroable::zeroed()
        }
    }
}
