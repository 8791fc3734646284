//! Blocks of operands as the kernel reads them: in place, or converted into a buffer.

use core::ops::Range;

use faer::MatRef;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::multiply::Scalar;
use crate::element::{self, Element, ElementType};
use crate::narrow::{E8M0, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};
use crate::view::{AnyMatrixRef, AnyVectorRef};

/// Where a block is converted to; grows to the largest block and is used again.
#[derive(Debug)]
pub(super) struct BlockBuffer<S>(Vec<S>);

impl<S> Default for BlockBuffer<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Scalar> BlockBuffer<S> {
    fn get(&mut self, len: usize) -> &mut [S] {
        if self.0.len() < len {
            self.0.resize(len, S::ZERO);
        }
        &mut self.0[..len]
    }
}

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

/// The block converted to `S` and multiplied by its scales, dense, in the order that reads the source's unit stride along lines.
pub(super) fn converted<'b, S: Scalar>(
    view: &AnyMatrixRef<'_>,
    batch: usize,
    [rows, cols]: [Range<usize>; 2],
    scales: Option<&BlockScales<'_>>,
    buffer: &'b mut BlockBuffer<S>,
) -> MatRef<'b, S> {
    let (nrows, ncols) = (rows.len(), cols.len());
    let out = buffer.get(nrows * ncols);
    let layout = view.placement().layout;
    let first = view.placement().offset as i128 + layout.index(batch, rows.start, cols.start);
    let by_columns = layout.row_stride == 1 && layout.col_stride != 1;
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
    match view.element() {
        ElementType::F64 => lines.convert::<f64, S>(view.bytes(), out, each),
        ElementType::F32 => lines.convert::<f32, S>(view.bytes(), out, each),
        ElementType::F16 => lines.convert::<f16, S>(view.bytes(), out, S::from_f16),
        ElementType::BF16 => lines.convert::<bf16, S>(view.bytes(), out, S::from_bf16),
        ElementType::I8 => lines.convert::<i8, S>(view.bytes(), out, S::from_i8),
        ElementType::I32 => lines.convert::<i32, S>(view.bytes(), out, each),
        ElementType::F8E4M3Fnuz => {
            lines.decode::<F8E4M3Fnuz, S>(view.bytes(), out, F8E4M3Fnuz::from_bits)
        }
        ElementType::F8E5M2Fnuz => {
            lines.decode::<F8E5M2Fnuz, S>(view.bytes(), out, F8E5M2Fnuz::from_bits)
        }
        ElementType::F8E4M3 => lines.decode::<F8E4M3, S>(view.bytes(), out, F8E4M3::from_bits),
        ElementType::F8E5M2 => lines.decode::<F8E5M2, S>(view.bytes(), out, F8E5M2::from_bits),
        ElementType::E8M0 => lines.convert::<E8M0, S>(view.bytes(), out, each),
        ElementType::F4E2M1 | ElementType::I4 => lines.unpack(view, out),
    }
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
    buffer: &'b mut BlockBuffer<S>,
) -> MatRef<'b, S> {
    let (nrows, ncols) = (rows.len(), cols.len());
    let out = buffer.get(nrows * ncols);
    let lines = panel.chunks(width.max(1)).skip(rows.start);
    for (out, line) in out.chunks_exact_mut(ncols.max(1)).zip(lines) {
        out.copy_from_slice(&line[..ncols]);
    }
    scales.apply(out, false, batch, rows, cols);
    dense(out, false, nrows, ncols)
}

fn dense<S: Scalar>(out: &[S], by_columns: bool, nrows: usize, ncols: usize) -> MatRef<'_, S> {
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

    /// As [`convert`](Self::convert), for the 8-bit type with these codes.
    fn decode<T: Element, S: Scalar>(&self, bytes: &[u8], out: &mut [S], value: impl Fn(u8) -> T) {
        if self.step != 1 || self.count.saturating_mul(self.length) < 1024 {
            self.convert::<T, S>(bytes, out, each);
            return;
        }
        let mut table = [S::ZERO; 256];
        for (to, code) in table.iter_mut().zip(0..=u8::MAX) {
            *to = S::from_element(value(code));
        }
        self.convert::<T, S>(bytes, out, |codes: &[T], out| {
            for (to, code) in out.iter_mut().zip(bytemuck::cast_slice::<T, u8>(codes)) {
                *to = table[usize::from(*code)];
            }
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

/// `f16` to `f32`, with the processor's own instruction where it has one.
pub(super) fn f16_to_f32(from: &[f16], to: &mut [f32]) {
    from.convert_to_f32_slice(to);
}

/// `bf16` to `f32`: the upper half of its bits.
pub(super) fn bf16_to_f32(from: &[bf16], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = f32::from_bits(u32::from(from.to_bits()) << 16);
    }
}
