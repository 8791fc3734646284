//! Views of `ndarray` and `faer` matrices: nothing is copied, any order and direction of axes.

use faer::{Mat, MatMut, MatRef};
use lapidary_core::{
    AnyMatrixRef, Cpu, ElementType, Error, Gemm, Matrix, MatrixMut, MatrixRef, Operands,
};
use ndarray::{Array2, Array3, Axis, s};

/// A·B through the CPU backend, row-major.
fn product<'a>(
    a: impl Into<AnyMatrixRef<'a>>,
    b: impl Into<AnyMatrixRef<'a>>,
) -> Result<Vec<f64>, Error> {
    let operands = Operands::new(a, b);
    let problem = operands.problem(ElementType::F64)?;
    Gemm::<Cpu>::run(&Cpu::new(), &problem, &operands)?.matrix.to_vec()
}

fn array(rows: usize, cols: usize) -> Array2<f64> {
    Array2::from_shape_fn((rows, cols), |(r, c)| (r * 10 + c) as f64 - 7.0)
}

#[test]
fn ndarray_views_of_every_direction() {
    let (x, y) = (array(4, 3), array(3, 5));
    let (xt, yt) = (array(3, 4), array(5, 3));
    let expected = |a: &Array2<f64>, b: &Array2<f64>| a.dot(b).iter().copied().collect::<Vec<_>>();
    let view = |a| MatrixRef::try_from(a).expect("no gaps");

    assert_eq!(product(view(x.view()), view(y.view())).unwrap(), expected(&x, &y));
    let (a, b) = (xt.t(), yt.t());
    assert_eq!(product(view(a), view(b)).unwrap(), expected(&a.to_owned(), &b.to_owned()));
    let (a, b) = (x.slice(s![..;-1, ..]), y.slice(s![.., ..;-1]));
    assert_eq!(product(view(a), view(b)).unwrap(), expected(&a.to_owned(), &b.to_owned()));
    let (a, b) = (xt.slice(s![..;-1, ..;-1]), y.slice(s![1..3, ..]));
    let a = a.reversed_axes();
    let b3 = MatrixRef::try_from(&y).unwrap().submatrix(1..3, 0..5).unwrap();
    let a2 = MatrixRef::try_from(a).unwrap().submatrix(0..4, 0..2).unwrap();
    assert_eq!(product(a2, b3).unwrap(), expected(&a.slice(s![.., ..2]).to_owned(), &b.to_owned()));
    assert_eq!(product(view(array(0, 3).view()), view(y.view())).unwrap(), []);
}

#[test]
fn ndarray_views_are_the_arrays_memory() {
    let x = array(4, 3);
    let view = MatrixRef::try_from(&x).unwrap().erase();
    assert_eq!(view.bytes().as_ptr(), x.as_ptr().cast());
    let mut c = Array2::<f64>::zeros((4, 4));
    let (a, b) = (array(4, 3), array(3, 4));
    let operands =
        Operands::new(MatrixRef::try_from(&a).unwrap(), MatrixRef::try_from(&b).unwrap());
    let problem = operands.problem(ElementType::F64).unwrap();
    let device = Cpu::new();
    Gemm::<Cpu>::run_into(&device, &problem, &operands, MatrixMut::try_from(&mut c).unwrap())
        .unwrap();
    assert_eq!(c, a.dot(&b));
    let reversed = c.slice_mut(s![..;-1, ..;-1]).reversed_axes();
    Gemm::<Cpu>::run_into(&device, &problem, &operands, MatrixMut::try_from(reversed).unwrap())
        .unwrap();
    assert_eq!(c.slice(s![..;-1, ..;-1]).reversed_axes(), a.dot(&b));
}

#[test]
fn ndarray_batches() {
    let x = Array3::from_shape_fn((2, 3, 4), |(b, r, c)| (b * 100 + r * 10 + c) as f64);
    let y = Array3::from_shape_fn((2, 5, 4), |(b, r, c)| (b + r) as f64 - c as f64);
    let yt = y.view().permuted_axes([0, 2, 1]);
    let found =
        product(MatrixRef::try_from(&x).unwrap(), MatrixRef::try_from(yt).unwrap()).unwrap();
    let mut expected = Vec::new();
    for b in 0..2 {
        let (x, y) = (x.index_axis(Axis(0), b), yt.index_axis(Axis(0), b));
        expected.extend(x.dot(&y));
    }
    assert_eq!(found, expected);
    let mut z = x;
    assert_eq!(MatrixMut::try_from(&mut z).unwrap().erase().shape().to_array(), [2, 3, 4]);
}

#[test]
fn gaps_are_refused_with_advice_and_copied_on_request() {
    let x = array(4, 6);
    let part = x.slice(s![.., 1..4]);
    let error = MatrixRef::try_from(part).unwrap_err();
    assert!(matches!(&error, Error::UnsupportedView { .. }));
    assert!(error.to_string().contains("MatrixRef::submatrix"), "{error}");
    let copy = Matrix::from(part);
    let direct = MatrixRef::try_from(&x).unwrap().submatrix(0..4, 1..4).unwrap().erase();
    for r in 0..4 {
        for c in 0..3 {
            assert_eq!(copy.as_ref().get(0, r, c), part[(r, c)]);
            assert_eq!(direct.get(0, r, c), part[(r, c)]);
        }
    }
    let broadcast = part.row(0).to_owned();
    let broadcast = broadcast.broadcast((4, 3)).unwrap();
    assert!(MatrixRef::try_from(broadcast).is_err());
    let whole = MatrixRef::try_from(&x).unwrap();
    assert!(matches!(whole.submatrix(0..5, 0..1), Err(Error::LimitExceeded { requested: 5, .. })));
    #[allow(clippy::reversed_empty_ranges, reason = "the refusal of one is what is tested")]
    let backwards = whole.submatrix(0..1, 3..2);
    assert!(matches!(backwards, Err(Error::LimitExceeded { requested: 3, limit: 2, .. })));
}

#[test]
fn faer_views_of_every_direction() {
    let x: Vec<f64> = (0..12).map(|i| f64::from(i) - 5.0).collect();
    let y: Vec<f64> = (0..15).map(|i| f64::from(i * i % 11)).collect();
    let a = MatRef::from_column_major_slice(&x, 4, 3);
    let b = MatRef::from_row_major_slice(&y, 3, 5);
    for (a, b) in [
        (a, b),
        (a.reverse_rows(), b.reverse_cols()),
        (a.reverse_rows_and_cols(), b.reverse_rows_and_cols()),
    ] {
        let expected = a * b;
        let view = |m| MatrixRef::try_from(m).expect("no gaps");
        let found = product(view(a), view(b)).unwrap();
        let transposed = product(view(b.transpose()), view(a.transpose())).unwrap();
        for r in 0..4 {
            for c in 0..5 {
                assert_eq!(found[r * 5 + c], expected[(r, c)]);
                assert_eq!(transposed[c * 4 + r], expected[(r, c)]);
            }
        }
    }
    let view = MatrixRef::try_from(a).unwrap().erase();
    assert_eq!(view.bytes().as_ptr(), x.as_ptr().cast());
    let empty = MatRef::from_column_major_slice(&x[..0], 4, 0);
    assert_eq!(MatrixRef::try_from(empty).unwrap().shape().to_array(), [1, 4, 0]);
}

#[test]
fn faer_outputs_are_written_in_place() {
    let x: Vec<f64> = (0..6).map(f64::from).collect();
    let a = MatRef::from_column_major_slice(&x, 2, 3);
    let operands =
        Operands::new(MatrixRef::try_from(a).unwrap(), MatrixRef::try_from(a.transpose()).unwrap());
    let problem = operands.problem(ElementType::F64).unwrap();
    let mut c = [f64::NAN; 4];
    let view = MatMut::from_column_major_slice_mut(&mut c, 2, 2);
    Gemm::<Cpu>::run_into(&Cpu::new(), &problem, &operands, MatrixMut::try_from(view).unwrap())
        .unwrap();
    let expected = a * a.transpose();
    assert_eq!(MatRef::from_column_major_slice(&c, 2, 2), expected);
    let empty = MatMut::from_column_major_slice_mut(&mut c[..0], 0, 2);
    assert!(MatrixMut::try_from(empty).is_ok());
}

#[test]
fn padded_faer_columns_are_refused_and_copied_on_request() {
    // faer aligns the columns of its own matrices; what lies between them is uninitialised.
    let matrix = Mat::from_fn(3, 4, |r, c| (10 * r + c) as f64);
    assert!(matrix.col_stride() > 3, "faer no longer pads: this test needs another example");
    assert!(matches!(MatrixRef::try_from(matrix.as_ref()), Err(Error::UnsupportedView { .. })));
    let copy = Matrix::from(matrix.as_ref());
    assert_eq!(copy.to_vec::<f64>().unwrap()[..5], [0.0, 1.0, 2.0, 3.0, 10.0]);
}
