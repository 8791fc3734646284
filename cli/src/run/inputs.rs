//! The arrays of a product: loaded, converted and seen as operands.

use lapidary_core::layout::Placement;
use lapidary_core::quantize::quantize_rows;
use lapidary_core::{
    AnyMatrixRef, AnyVectorRef, ElementType, Layout, Matrix, Operand, Operands, Problem, Shape,
};

use super::arguments::Arguments;
use crate::failure::Failure;
use crate::io::{self, AlignedBytes, Array};
use crate::progress;

/// The arrays that were named, each with its file.
pub(super) struct Inputs {
    a: Input,
    b: Input,
    c: Option<Input>,
    bias: Option<Input>,
    trans_a: bool,
    trans_b: bool,
    scales: Option<[Vec<f32>; 2]>,
}

#[derive(Clone)]
struct Input {
    operand: Operand,
    file: String,
    array: Array,
}

impl Inputs {
    /// Reads every array and converts it where `--dtype` asks for it.
    pub(super) fn load(arguments: &Arguments) -> Result<Self, Failure> {
        match (&arguments.c_in, arguments.beta == 0.0) {
            (Some(_), true) => return Err(Failure::UnusedC),
            (None, false) => return Err(Failure::MissingC { beta: arguments.beta }),
            _ => {}
        }
        let named = [
            Some((Operand::A, &arguments.a)),
            Some((Operand::B, &arguments.b)),
            arguments.c_in.as_ref().map(|file| (Operand::C, file)),
            arguments.bias.as_ref().map(|file| (Operand::Bias, file)),
        ];
        let total = named.iter().flatten().map(|(_, file)| io::size_hint(file)).sum();
        let bar = progress::reading(total);
        let load = |operand, file: &String| -> Result<Input, Failure> {
            Ok(Input { operand, file: file.clone(), array: io::load(file, &bar)? })
        };
        let load_any = |named: Option<(Operand, &String)>| {
            named.map(|(operand, file)| load(operand, file)).transpose()
        };
        let mut inputs = Self {
            a: load(Operand::A, &arguments.a)?,
            b: load(Operand::B, &arguments.b)?,
            c: load_any(named[2])?,
            bias: load_any(named[3])?,
            trans_a: arguments.trans_a,
            trans_b: arguments.trans_b,
            scales: None,
        };
        bar.finish_and_clear();
        if let Some(element) = arguments.dtype {
            inputs.a.convert(element)?;
            inputs.b.convert(element)?;
        }
        Ok(inputs)
    }

    /// The same inputs with A rounded by rows and B by columns to `element`.
    pub(super) fn quantized(&self, element: ElementType) -> Result<Self, Failure> {
        let batch = self.a.batch().or(self.b.batch()).unwrap_or(1);
        let (a, b) = self.factors()?;
        let [a, b] = [quantize_rows(a, element)?, quantize_rows(b.transposed(), element)?];
        Ok(Self {
            a: self.a.rounded(&a.matrix, batch)?,
            b: self.b.rounded(&b.matrix, batch)?,
            c: self.c.clone(),
            bias: self.bias.clone(),
            trans_a: false,
            trans_b: true,
            scales: Some([a.scales, b.scales]),
        })
    }

    /// The problem these arrays state; what is about to be quantised has C in its own type.
    pub(super) fn problem(&self, arguments: &Arguments) -> Result<Problem, Failure> {
        let element = match self.a.array.element {
            _ if self.scales.is_some() => ElementType::F32,
            ElementType::I8 => ElementType::I32,
            other => other,
        };
        let exact = arguments.quantize.is_some() && self.scales.is_none();
        let output = arguments.out_dtype.filter(|_| !exact);
        let (a, b) = self.factors()?;
        let mut problem = self
            .scaled(Operands::new(a, b))
            .problem(output.unwrap_or(element))?
            .alpha(arguments.alpha)
            .beta(arguments.beta)
            .bias(self.bias.is_some())
            .activation(arguments.activation)
            .wrapping(arguments.wrapping);
        problem.c_layout = Layout::row_major(problem.m, problem.n);
        problem.validate()?;
        Ok(problem)
    }

    /// Converts bias and C to the types the problem wants them in: always where that loses nothing,
    /// otherwise only if the values `may_round`.
    pub(super) fn convert_for(
        &mut self,
        problem: &Problem,
        may_round: bool,
    ) -> Result<(), Failure> {
        if let Some(c) = &mut self.c {
            c.convert_for(problem.c, may_round)?;
        }
        if let Some(bias) = &mut self.bias {
            bias.convert_for(problem.bias_element(), may_round)?;
        }
        Ok(())
    }

    /// Views of all arrays.
    pub(super) fn operands(&self, batch: usize) -> Result<Operands<'_>, Failure> {
        let (a, b) = self.factors()?;
        let mut operands = self.scaled(Operands::new(a, b));
        if let Some(c) = &self.c {
            operands = operands.c(c.matrix(batch)?);
        }
        if let Some(bias) = &self.bias {
            operands = operands.bias(bias.vector()?);
        }
        Ok(operands)
    }

    /// Adds the scales of quantised inputs.
    fn scaled<'a>(&'a self, operands: Operands<'a>) -> Operands<'a> {
        match &self.scales {
            Some([rows, columns]) => operands.row_scale(rows).col_scale(columns),
            None => operands,
        }
    }

    /// Whether the result is a batch, be it of one.
    pub(super) fn is_batch(&self) -> bool {
        self.a.batch().or(self.b.batch()).is_some()
    }

    /// A and B as they enter the product.
    fn factors(&self) -> Result<(AnyMatrixRef<'_>, AnyMatrixRef<'_>), Failure> {
        let batch = self.a.batch().or(self.b.batch()).unwrap_or(1);
        let (a, b) = (self.a.matrix(batch)?, self.b.matrix(batch)?);
        Ok((
            if self.trans_a { a.transposed() } else { a },
            if self.trans_b { b.transposed() } else { b },
        ))
    }
}

impl Input {
    /// The array with other elements: a matrix, or `batch` of them where there is a batch.
    fn rounded(&self, matrix: &Matrix, batch: usize) -> Result<Self, Failure> {
        let Shape { rows, cols, .. } = matrix.shape();
        let mut bytes = AlignedBytes::zeroed(matrix.bytes().len())
            .map_err(|reason| reason.of(self.file.clone()))?;
        bytes.as_mut_slice().copy_from_slice(matrix.bytes());
        let (row, whole) = (cols as isize, (rows * cols) as isize);
        let (shape, strides) = if batch > 1 || self.batch().is_some() {
            (vec![batch, rows, cols], vec![whole, row, 1])
        } else {
            (vec![rows, cols], vec![row, 1])
        };
        let array = Array { element: matrix.element(), shape, strides, bytes };
        Ok(Self { operand: self.operand, file: self.file.clone(), array })
    }

    /// Number of matrices, if the array says so.
    fn batch(&self) -> Option<usize> {
        match self.array.shape[..] {
            [batch, _, _] => Some(batch),
            _ => None,
        }
    }

    /// The array as a matrix or a batch; a single matrix serves for all `batch` members.
    fn matrix(&self, batch: usize) -> Result<AnyMatrixRef<'_>, Failure> {
        let Array { shape, strides, element, bytes } = &self.array;
        let (shape, layout) = match (&shape[..], &strides[..]) {
            (&[rows, cols], &[row_stride, col_stride]) => {
                (Shape { batch, rows, cols }, Layout { row_stride, col_stride, batch_stride: 0 })
            }
            (&[batch, rows, cols], &[batch_stride, row_stride, col_stride]) => {
                (Shape { batch, rows, cols }, Layout { row_stride, col_stride, batch_stride })
            }
            _ => {
                return Err(self.dimensions("2 (a matrix) or 3 (a batch of matrices)"));
            }
        };
        let placement = Placement { offset: 0, shape, layout };
        Ok(AnyMatrixRef::new(bytes.as_slice(), *element, placement)?)
    }

    fn vector(&self) -> Result<AnyVectorRef<'_>, Failure> {
        match self.array.shape[..] {
            [_] => Ok(AnyVectorRef::new(self.array.bytes.as_slice(), self.array.element)),
            _ => Err(self.dimensions("1 (one value a column)")),
        }
    }

    fn dimensions(&self, expected: &'static str) -> Failure {
        Failure::Dimensions {
            operand: self.operand,
            file: self.file.clone(),
            found: self.array.shape.len(),
            expected,
        }
    }

    fn convert(&mut self, element: ElementType) -> Result<(), Failure> {
        self.array.convert(element).map_err(|reason| reason.of(self.file.clone()).into())
    }

    fn convert_for(&mut self, needed: ElementType, may_round: bool) -> Result<(), Failure> {
        let found = self.array.element;
        if found == needed || may_round || holds(needed, found) {
            return self.convert(needed);
        }
        Err(Failure::Lossy { operand: self.operand, file: self.file.clone(), found, needed })
    }
}

/// Whether every value of `narrow` is a value of `wide`.
fn holds(wide: ElementType, narrow: ElementType) -> bool {
    use ElementType as E;
    match wide {
        E::F64 => true,
        E::F32 => matches!(narrow, E::F32 | E::F16 | E::BF16 | E::I8),
        E::F16 => matches!(narrow, E::F16 | E::I8),
        E::BF16 => matches!(narrow, E::BF16 | E::I8),
        E::I32 => matches!(narrow, E::I32 | E::I8),
        _ => wide == narrow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the table against the conversion itself, on the values at the types' edges.
    #[test]
    fn a_type_is_held_only_if_its_edges_survive() {
        use lapidary_core::element::{read_f64, write_f64};
        let survives = |wide: ElementType, narrow: ElementType, value: f64| {
            let mut bytes = [0; 8];
            write_f64(narrow, &mut bytes, 0, value);
            let value = read_f64(narrow, &bytes, 0);
            write_f64(wide, &mut bytes, 0, value);
            read_f64(wide, &bytes, 0).to_bits() == value.to_bits()
        };
        let edges = [
            -128.0,
            127.0,
            2_147_483_647.0,
            0.5,
            1.0 + f64::EPSILON,
            1.0 + f64::from(f32::EPSILON),
            1.0 + 1.0 / 1024.0,
            65504.0,
            3e38,
            1e300,
            6e-8,
            1e-40,
        ];
        for wide in ElementType::GENERAL {
            for narrow in ElementType::GENERAL {
                let all = edges.iter().all(|&value| survives(wide, narrow, value));
                assert_eq!(holds(wide, narrow), all, "{wide} of {narrow}");
            }
        }
    }
}
