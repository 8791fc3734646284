//! Instructions as data: the opcode tables, the decoder and the printer.

pub mod claims;
mod class;
pub mod decode;
pub mod inst;
pub mod opcode;
mod print;
pub mod program;
mod tables;
pub mod types;

pub use decode::decode;
pub use inst::{
    Dpp, DppCtrl, Encoding, InlineFloat, Instruction, Modifiers, Operand, Sdwa, SdwaSel,
    SdwaUnused, Span, Special, WaitCounts,
};
pub use opcode::Opcode;
pub use program::Program;
pub use types::{ConstClass, OperandType, Signature};
