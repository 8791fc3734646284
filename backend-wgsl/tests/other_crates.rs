//! Arrays of `ndarray` and matrices of `faer`, without a copy on the way in or out.

mod common;

use faer::{Mat, MatMut, MatRef};
use lapidary_core::{ElementType, Error, Gemm, MatrixMut, MatrixRef, Operands, Problem};
use lapidary_wgsl::Wgsl;
use ndarray::{Array2, Array3, s};

fn array(rows: usize, cols: usize, salt: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, cols), |(r, c)| ((r * 5 + c * 3 + salt) % 11) as f32 - 5.0)
}

fn operands<'a>(
    a: impl TryInto<MatrixRef<'a, f32>, Error = Error>,
    b: impl TryInto<MatrixRef<'a, f32>, Error = Error>,
) -> (Operands<'a>, Problem) {
    let operands = Operands::new(a.try_into().expect("no gaps"), b.try_into().expect("no gaps"));
    let problem = operands.problem(ElementType::F32).expect("agrees");
    (operands, problem)
}

#[test]
fn ndarray_views_in_every_direction() {
    let Some(device) = common::device() else { return };
    let (a, b) = (array(35, 21, 1), array(21, 18, 2));
    let (at, bt) = (array(21, 35, 3), array(18, 21, 4));
    let reversed = (a.slice(s![..;-1, ..]), bt.slice(s![.., ..;-1]));
    for (a, b) in [
        (a.view(), b.view()),
        (at.t(), bt.t()),
        (reversed.0, b.slice(s![..;-1, ..;-1])),
        (a.view(), reversed.1.reversed_axes()),
    ] {
        let (operands, problem) = operands(a, b);
        let output = Gemm::<Wgsl>::run(device, &problem, &operands).expect("runs");
        let expected: Vec<f32> = a.dot(&b).iter().copied().collect();
        assert_eq!(output.matrix.to_vec::<f32>().expect("f32"), expected);
    }
}

#[test]
fn ndarray_outputs_and_batches() {
    let Some(device) = common::device() else { return };
    let (a, b) = (array(9, 21, 1), array(21, 12, 2));
    let (inputs, problem) = operands(&a, &b);
    let mut c = array(12, 9, 5);
    let expected = a.dot(&b) * 2.0 + c.t();
    let problem = problem.alpha(2.0).beta(1.0);
    let view = MatrixMut::try_from(c.view_mut().reversed_axes()).expect("no gaps");
    Gemm::<Wgsl>::run_into(device, &problem, &inputs, view).expect("runs");
    assert_eq!(c.t(), expected);

    let a = Array3::from_shape_fn((3, 4, 5), |(b, r, c)| (b * 7 + r * 2 + c) as f32 - 8.0);
    let b = Array3::from_shape_fn((3, 5, 6), |(b, r, c)| (b + r * 3 + c * 2) as f32 - 6.0);
    let (inputs, problem) = operands(&a, &b);
    assert_eq!(problem.batch, 3);
    let output = Gemm::<Wgsl>::run(device, &problem, &inputs).expect("runs");
    let expected: Vec<f32> = a
        .outer_iter()
        .zip(b.outer_iter())
        .flat_map(|(a, b)| a.dot(&b).into_iter().collect::<Vec<_>>())
        .collect();
    assert_eq!(output.matrix.to_vec::<f32>().expect("f32"), expected);
}

#[test]
fn faer_matrices() {
    let Some(device) = common::device() else { return };
    let value = |r: usize, c: usize| ((r * 3 + c * 7) % 9) as f32 - 4.0;
    let (a, b) = (Mat::from_fn(16, 12, value), Mat::from_fn(12, 16, value));
    // A view of plain storage: the columns of a `Mat` may be padded.
    let plain = |matrix: &Mat<f32>| -> Vec<f32> {
        (0..matrix.ncols()).flat_map(|c| (0..matrix.nrows()).map(move |r| matrix[(r, c)])).collect()
    };
    let (a_data, b_data) = (plain(&a), plain(&b));
    let a_view = MatRef::from_column_major_slice(&a_data, 16, 12);
    let b_view = MatRef::from_column_major_slice(&b_data, 12, 16);
    for (left, right) in [
        (a_view, b_view),
        (b_view.transpose(), a_view.transpose()),
        (a_view.reverse_rows(), b_view.reverse_cols()),
    ] {
        let (inputs, problem) = operands(left, right);
        let mut c_data = vec![f32::NAN; 16 * 16];
        let c = MatMut::from_column_major_slice_mut(&mut c_data, 16, 16);
        let view = MatrixMut::try_from(c).expect("no gaps");
        Gemm::<Wgsl>::run_into(device, &problem, &inputs, view).expect("runs");
        let expected =
            Mat::from_fn(16, 16, |r, c| (0..12).map(|k| left[(r, k)] * right[(k, c)]).sum::<f32>());
        assert_eq!(MatRef::from_column_major_slice(&c_data, 16, 16), expected);
    }
}
