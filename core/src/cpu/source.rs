//! Blocks of operands as the kernel reads them: in place, or converted into a buffer.

use core::ops::Range;

use faer::MatRef;
use half::{bf16, f16};

use super::convert::Format8;
use super::multiply::Scalar;
use crate::element::{self, Element, ElementType};
use crate::narrow::{E8M0, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};
use crate::view::{AnyMatrixRef, AnyVectorRef};

/// The block in place, if it holds `S` and one of its strides is 1.
pub(super) fn in_place<'a, S: Scalar>(
    view: &AnyMatrixRef<'a>,
    batch: usize,
    rows: Range<usize>,
    cols: Range<usize>,
) -> Option<MatRef<'a, S>> {
    if view.element() != S::TYPE {
        return None;
    }
    let data: &[S] = bytemuck::try_cast_slice(view.bytes()).ok()?;
    let layout = view.placement().layout;
    let first = view.placement().offset as i128 + layout.index(batch, rows.start, cols.start);
    let data = data.get(usize::try_from(first).ok()?..)?;
    let (nrows, ncols) = (rows.len(), cols.len());
    let stride = |stride: isize, count: usize| {
        // The stride of an axis of one element is never used.
        if count == 1 { Some(1) } else { usize::try_from(stride).ok() }
    };
    if layout.col_stride == 1 || ncols == 1 {
        let row_stride = stride(layout.row_stride, nrows)?;
        Some(MatRef::from_row_major_slice_with_stride(data, nrows, ncols, row_stride))
    } else if layout.row_stride == 1 || nrows == 1 {
        let col_stride = stride(layout.col_stride, ncols)?;
        Some(MatRef::from_column_major_slice_with_stride(data, nrows, ncols, col_stride))
    } else {
        None
    }
}

/// Whether a block of the view is converted column by column: along its unit stride, if it has one.
pub(super) fn by_columns(view: &AnyMatrixRef<'_>) -> bool {
    let layout = view.placement().layout;
    layout.row_stride == 1 && layout.col_stride != 1
}

/// The block converted to `S` and multiplied by its scales, dense, in the order that
/// [`by_columns`] says; `out` has its length.
pub(super) fn converted<'b, S: Scalar>(
    view: &AnyMatrixRef<'_>,
    batch: usize,
    [rows, cols]: [Range<usize>; 2],
    scales: Option<&BlockScales<'_>>,
    out: &'b mut [S],
) -> MatRef<'b, S> {
    let (nrows, ncols) = (rows.len(), cols.len());
    let layout = view.placement().layout;
    let first = view.placement().offset as i128 + layout.index(batch, rows.start, cols.start);
    let by_columns = by_columns(view);
    let lines = if by_columns {
        Lines { first, count: ncols, length: nrows, pitch: layout.col_stride, step: 1 }
    } else {
        Lines {
            first,
            count: nrows,
            length: ncols,
            pitch: layout.row_stride,
            step: layout.col_stride,
        }
    };
    lines.merged().fill(view, out);
    if let Some(scales) = scales {
        scales.apply(out, by_columns, batch, rows, cols);
    }
    dense(out, by_columns, nrows, ncols)
}

/// The block of a packed B, dense and with its scales: `panel` has `width` columns.
pub(super) fn scaled_panel<'b, S: Scalar>(
    panel: &[S],
    width: usize,
    scales: &BlockScales<'_>,
    batch: usize,
    [rows, cols]: [Range<usize>; 2],
    out: &'b mut [S],
) -> MatRef<'b, S> {
    let (nrows, ncols) = (rows.len(), cols.len());
    let lines = panel.chunks(width.max(1)).skip(rows.start);
    for (out, line) in out.chunks_exact_mut(ncols.max(1)).zip(lines) {
        out.copy_from_slice(&line[..ncols]);
    }
    scales.apply(out, false, batch, rows, cols);
    dense(out, false, nrows, ncols)
}

pub(super) fn dense<S: Scalar>(
    out: &[S],
    by_columns: bool,
    nrows: usize,
    ncols: usize,
) -> MatRef<'_, S> {
    if by_columns {
        MatRef::from_column_major_slice(out, nrows, ncols)
    } else {
        MatRef::from_row_major_slice(out, nrows, ncols)
    }
}

/// The scales of a factor's blocks or groups along K.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockScales<'a> {
    /// Line after line, matrix after matrix.
    pub(super) scales: AnyVectorRef<'a>,
    /// Elements along K that share one.
    pub(super) length: usize,
    /// Lines of a matrix: rows of A, columns of B.
    pub(super) lines: usize,
    /// Blocks of a line.
    pub(super) blocks: usize,
    /// Whether lines are the factor's rows, so that K runs along its columns.
    pub(super) by_rows: bool,
}

impl BlockScales<'_> {
    /// The same scales with rows and columns of the factor exchanged.
    pub(super) fn transposed(self) -> Self {
        Self { by_rows: !self.by_rows, ..self }
    }

    /// Multiplies a dense block by its scales.
    fn apply<S: Scalar>(
        &self,
        out: &mut [S],
        by_columns: bool,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
    ) {
        let (outer, inner) = if by_columns { (cols, rows) } else { (rows, cols) };
        let outer_is_line = self.by_rows != by_columns;
        for (values, outer) in out.chunks_exact_mut(inner.len().max(1)).zip(outer) {
            for (value, inner) in values.iter_mut().zip(inner.clone()) {
                let (line, k) = if outer_is_line { (outer, inner) } else { (inner, outer) };
                let index = (batch * self.lines + line) * self.blocks + k / self.length;
                *value *= S::from_f64(self.scales.get(index));
            }
        }
    }
}

/// Lines of equal length in a storage, all inside it.
struct Lines {
    /// Index of the first element.
    first: i128,
    count: usize,
    length: usize,
    /// Elements from one line to the next.
    pitch: isize,
    /// Elements from one element of a line to the next.
    step: isize,
}

impl Lines {
    /// The same elements in as few lines as possible: one, where no gaps lie between them.
    fn merged(self) -> Self {
        if self.step != 1 || usize::try_from(self.pitch) != Ok(self.length) {
            return self;
        }
        Self { count: 1, length: self.count * self.length, ..self }
    }

    /// Writes line after line of `view` to `out`.
    fn fill<S: Scalar>(&self, view: &AnyMatrixRef<'_>, out: &mut [S]) {
        match view.element() {
            ElementType::F64 => self.convert::<f64, S>(view.bytes(), out, each),
            ElementType::F32 => self.convert::<f32, S>(view.bytes(), out, each),
            ElementType::F16 => self.convert::<f16, S>(view.bytes(), out, S::from_f16),
            ElementType::BF16 => self.convert::<bf16, S>(view.bytes(), out, S::from_bf16),
            ElementType::I8 => self.convert::<i8, S>(view.bytes(), out, S::from_i8),
            ElementType::I32 => self.convert::<i32, S>(view.bytes(), out, each),
            ElementType::F8E4M3Fnuz => {
                self.decode::<F8E4M3Fnuz, S>(view.bytes(), out, Format8::E4M3_FNUZ);
            }
            ElementType::F8E5M2Fnuz => {
                self.decode::<F8E5M2Fnuz, S>(view.bytes(), out, Format8::E5M2_FNUZ);
            }
            ElementType::F8E4M3 => self.decode::<F8E4M3, S>(view.bytes(), out, Format8::E4M3),
            ElementType::F8E5M2 => self.decode::<F8E5M2, S>(view.bytes(), out, Format8::E5M2),
            ElementType::E8M0 => self.convert::<E8M0, S>(view.bytes(), out, each),
            ElementType::F4E2M1 | ElementType::I4 => self.unpack(view, out),
        }
    }

    /// Writes line after line to `out`.
    fn convert<T: Element, S: Scalar>(
        &self,
        bytes: &[u8],
        out: &mut [S],
        run: impl Fn(&[T], &mut [S]),
    ) {
        if self.length == 0 {
            return;
        }
        let typed = bytemuck::try_cast_slice::<u8, T>(bytes).ok();
        for (line, out) in out.chunks_exact_mut(self.length).take(self.count).enumerate() {
            let start = self.first + line as i128 * self.pitch as i128;
            match typed {
                Some(data) if self.step == 1 => {
                    let start = start as usize;
                    run(&data[start..start + self.length], out);
                }
                Some(data) => {
                    for (i, out) in out.iter_mut().enumerate() {
                        *out = S::from_element(data[self.index(start, i)]);
                    }
                }
                // Raw bytes that are not aligned for their element type.
                None => {
                    for (i, out) in out.iter_mut().enumerate() {
                        let value = element::read_f64(T::TYPE, bytes, self.index(start, i));
                        *out = S::from_f64(value);
                    }
                }
            }
        }
    }

    /// As [`convert`](Self::convert), for an 8-bit float type.
    fn decode<T: Element, S: Scalar>(&self, bytes: &[u8], out: &mut [S], format: Format8) {
        self.convert::<T, S>(bytes, out, |codes: &[T], out| {
            S::from_f8(format, bytemuck::cast_slice(codes), out);
        });
    }

    /// Writes line after line of a 4-bit type to `out`.
    fn unpack<S: Scalar>(&self, view: &AnyMatrixRef<'_>, out: &mut [S]) {
        if self.length == 0 {
            return;
        }
        let mut values = [S::ZERO; 16];
        for (code, value) in values.iter_mut().enumerate() {
            *value = S::from_f64(element::read_f64(view.element(), &[code as u8], 0));
        }
        let bytes = view.bytes();
        for (line, out) in out.chunks_exact_mut(self.length).take(self.count).enumerate() {
            let start = self.first + line as i128 * self.pitch as i128;
            for (i, out) in out.iter_mut().enumerate() {
                let index = self.index(start, i);
                *out = values[usize::from(bytes[index / 2] >> (index % 2 * 4) & 0xf)];
            }
        }
    }

    fn index(&self, start: i128, i: usize) -> usize {
        (start + i as i128 * self.step as i128) as usize
    }
}

fn each<T: Element, S: Scalar>(from: &[T], to: &mut [S]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = S::from_element(*from);
    }
}
