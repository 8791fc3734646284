//! Instructions as data: the opcode tables, the decoder and the printer.

pub mod inst;
pub mod opcode;

pub use inst::{
    Dpp, DppCtrl, Encoding, InlineFloat, Instruction, Modifiers, Operand, Sdwa, SdwaSel,
    SdwaUnused, Span, Special,
};
pub use opcode::Opcode;
