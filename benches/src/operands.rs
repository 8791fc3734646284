//! Operands to multiply.

use lapidary_core::random::Random;
use lapidary_core::{ElementType, Error, Matrix, Shape, element};

/// A random matrix, uniform from −1 to 1 (i8: from −127 to 127, i4: from −7 to 7); elements past a million repeat
/// the first ones.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn matrix(element: ElementType, shape: Shape, random: &mut Random) -> Result<Matrix, Error> {
    /// A prime, so that no row length divides it.
    const DISTINCT: usize = 1_048_573;
    let mut matrix = Matrix::zeros(element, shape)?;
    let distinct = shape.len().unwrap_or(0).min(DISTINCT);
    let mut view = matrix.as_mut();
    let bytes = view.bytes_mut();
    for index in 0..distinct {
        let value = match element {
            ElementType::I8 => f64::from(random.integer(-127, 127)),
            ElementType::I4 => f64::from(random.integer(-7, 7)),
            _ => random.unit(),
        };
        element::write_f64(element, bytes, index, value);
    }
    let (first, rest) = bytes.split_at_mut(element.bytes_for(distinct));
    for piece in rest.chunks_mut(first.len().max(1)) {
        piece.copy_from_slice(&first[..piece.len()]);
    }
    Ok(matrix)
}
