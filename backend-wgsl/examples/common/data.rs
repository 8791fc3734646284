//! Operands: seeded, in host memory, f32.

use lapidary_core::testing::Random;
use lapidary_core::{Element, Error, Matrix, Shape};

/// A matrix whose elements are `value(row, column)`.
pub(crate) fn matrix(
    rows: usize,
    cols: usize,
    mut value: impl FnMut(usize, usize) -> f32,
) -> Result<Matrix, Error> {
    let mut matrix = Matrix::zeros(f32::TYPE, Shape::new(rows, cols))?;
    let mut view = matrix.as_mut();
    for (i, bytes) in view.bytes_mut().chunks_exact_mut(4).enumerate() {
        bytes.copy_from_slice(&value(i / cols, i % cols).to_ne_bytes());
    }
    Ok(matrix)
}

/// Uniform from −1 to 1.
pub(crate) fn uniform(rows: usize, cols: usize, seed: u64) -> Result<Matrix, Error> {
    let mut random = Random::new(seed);
    matrix(rows, cols, |_, _| random.unit() as f32)
}

/// Integers from −max to max.
pub(crate) fn integers(rows: usize, cols: usize, max: i32, seed: u64) -> Result<Matrix, Error> {
    let mut random = Random::new(seed);
    matrix(rows, cols, |_, _| random.integer(-max, max) as f32)
}

/// Ones on the diagonal, zeros elsewhere.
pub(crate) fn identity(rows: usize, cols: usize) -> Result<Matrix, Error> {
    matrix(rows, cols, |row, col| if row == col { 1.0 } else { 0.0 })
}

/// The elements of a row-major f32 matrix, in order.
pub(crate) fn elements(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
}
