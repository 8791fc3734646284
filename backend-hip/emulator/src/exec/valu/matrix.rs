//! Matrix instructions: operands from the unified register file to the arithmetic in [`crate::mfma`].

use crate::exec::wave::{Lanes, Wave};
use crate::isa::{Instruction, Operand};
use crate::mfma::{self, MfmaError, MfmaShape, Scales};

/// The registers of an operand; a constant stands in every one of `count` registers.
fn registers(w: &Wave, operand: Operand, count: usize) -> Registers<'_> {
    match w.vector(operand) {
        Some(first) => Registers::File(&w.v[first..first + count]),
        None => Registers::Constant(vec![[w.scalar(operand); 64]; count]),
    }
}

enum Registers<'a> {
    File(&'a [Lanes]),
    Constant(Vec<Lanes>),
}

impl Registers<'_> {
    fn get(&self) -> &[Lanes] {
        match self {
            Registers::File(lanes) => lanes,
            Registers::Constant(lanes) => lanes,
        }
    }
}

/// Executes a matrix instruction of a resolved shape.
///
/// # Errors
/// What [`mfma::execute`] reports.
pub(crate) fn execute(w: &mut Wave, i: &Instruction, shape: &MfmaShape) -> Result<(), MfmaError> {
    let mut result = [[0u32; 64]; 16];
    let count = shape.acc_registers();
    {
        let a = registers(w, i.src[0], shape.a_registers());
        let b = registers(w, i.src[1], shape.b_registers());
        let c = registers(w, i.src[2], count);
        let scales = (registers(w, i.src[3], 1), registers(w, i.src[4], 1));
        let byte = |n: u8| i.mods.op_sel >> n & 1 | (i.mods.op_sel_hi >> n & 1) << 1;
        let scales = shape.scaled.then(|| Scales {
            a: &scales.0.get()[0],
            a_byte: byte(0),
            b: &scales.1.get()[0],
            b_byte: byte(1),
        });
        mfma::execute(shape, a.get(), b.get(), c.get(), scales.as_ref(), &mut result[..count])?;
    }
    if let Some(first) = w.vector(i.dst) {
        w.v[first..first + count].copy_from_slice(&result[..count]);
        w.written = !0;
    }
    Ok(())
}
