//! Matrices of codes, and their placing in registers.

use lapidary_cdna::mfma::layout::{AccPlace, FactorLayout};
use lapidary_cdna::mfma::{MfmaShape, Register, Scales, execute};

/// A matrix of element codes.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) columns: usize,
    pub(crate) codes: Vec<u32>,
}

impl Matrix {
    pub(crate) fn new(
        rows: usize,
        columns: usize,
        mut code: impl FnMut(usize, usize) -> u32,
    ) -> Matrix {
        let codes = (0..rows * columns).map(|at| code(at / columns, at % columns)).collect();
        Matrix { columns, codes }
    }

    pub(crate) fn at(&self, row: usize, column: usize) -> u32 {
        self.codes[row * self.columns + column]
    }
}

/// The operands of one instruction.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    pub(crate) c: Matrix,
    /// Scale codes, rows by blocks and blocks by columns.
    pub(crate) scales: Option<(Matrix, Matrix)>,
}

/// Packs a factor; `code(outer, k)` gives the element.
pub(crate) fn pack(
    layout: FactorLayout,
    bits: u32,
    registers: usize,
    code: impl Fn(usize, usize) -> u32,
) -> Vec<Register> {
    let mut packed = vec![[0u32; 64]; registers];
    for outer in 0..layout.outer() {
        for k in 0..layout.k() {
            let place = layout.place(outer, k);
            for bit in 0..bits as usize {
                let at = place.element * bits as usize + bit;
                packed[at / 32][place.lane] |= (code(outer, k) >> bit & 1) << (at % 32);
            }
        }
    }
    packed
}

/// Runs the instruction and returns D by rows. Scales travel in byte `byte` of their registers, among other bytes.
pub(crate) fn run(shape: &MfmaShape, operands: &Operands, byte: u8) -> Matrix {
    let Operands { a, b, c, scales } = operands;
    let a_registers =
        pack(shape.a_layout(), shape.a().bits(), shape.a_registers(), |i, k| a.at(i, k));
    let b_registers =
        pack(shape.b_layout(), shape.b().bits(), shape.b_registers(), |j, k| b.at(k, j));
    let mut accumulator = vec![[0u32; 64]; shape.acc_registers()];
    for row in 0..shape.m() {
        for column in 0..shape.n() {
            let AccPlace { lane, register } = shape.acc_place(row, column);
            accumulator[register][lane] = c.at(row, column);
        }
    }
    let mut scale_registers = [[0x5a5a_5a5a_u32; 64]; 2];
    if let Some((of_a, of_b)) = scales {
        for block in 0..shape.k() / 32 {
            for outer in 0..shape.m() {
                let lane = block * shape.m() + outer;
                let codes = [of_a.at(outer, block), of_b.at(block, outer)];
                for (register, code) in scale_registers.iter_mut().zip(codes) {
                    register[lane] &= !(0xff << (8 * byte));
                    register[lane] |= code << (8 * byte);
                }
            }
        }
    }
    let [scale_a, scale_b] = &scale_registers;
    let scales = Scales { a: scale_a, a_byte: byte, b: scale_b, b_byte: byte };
    let mut d = vec![[0xdead_beef; 64]; shape.acc_registers()];
    execute(shape, &a_registers, &b_registers, &accumulator, Some(&scales), &mut d).unwrap();
    Matrix::new(shape.m(), shape.n(), |row, column| {
        let AccPlace { lane, register } = shape.acc_place(row, column);
        d[register][lane]
    })
}
