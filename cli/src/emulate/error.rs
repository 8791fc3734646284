//! Why a kernel cannot be run as asked.

use thiserror::Error;

use crate::io::{Names, printable};

/// What is wrong with the text of an option. The message is one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum SyntaxError {
    /// Not one to three numbers.
    #[error("{text:?} is not one to three numbers of 32 bits, as X, X,Y or X,Y,Z")]
    Triple {
        /// The part of the option.
        text: String,
    },

    /// A grid or a workgroup with nothing in it.
    #[error("every extent is 1 or more")]
    EmptyExtent,

    /// A workgroup that would run twice.
    #[error("workgroup {},{},{} is named twice", .id[0], .id[1], .id[2])]
    Repeated {
        /// Its id.
        id: [u32; 3],
    },

    /// An unknown order.
    #[error("{text:?} is none of round-robin, reverse and random:SEED (a number of 64 bits)")]
    Order {
        /// The option.
        text: String,
    },

    /// An argument of no known kind.
    #[error(
        "{kind:?} is no kind of argument; expected KIND:VALUE with one of i8, i16, i32, i64, u8, \
         u16, u32, u64, f16, bf16, f32, f64, bytes, in, inout, out"
    )]
    Kind {
        /// What stands before the first colon.
        kind: String,
    },

    /// A number that its type does not have.
    #[error("{text:?} is not a number that {kind} holds")]
    Number {
        /// The number as given.
        text: String,
        /// The type.
        kind: &'static str,
    },

    /// A buffer or a value without a file.
    #[error("no file is named: expected {expected}")]
    NoFile {
        /// The form of the argument.
        expected: &'static str,
    },

    /// An output without its size.
    #[error("{text:?} does not end in a number of bytes: expected out:FILE:BYTES")]
    NoSize {
        /// The argument.
        text: String,
    },
}

/// Why a kernel cannot be run as asked. The message is one line.
#[derive(Debug, Error)]
pub(crate) enum EmulateError {
    /// The code object cannot be loaded, decoded or launched.
    #[error("{}: {}", printable(.file), printable(&.error.to_string()))]
    Emulator {
        /// The code object's file.
        file: String,
        /// What the emulator says.
        error: lapidary_cdna::Error,
    },

    /// Several kernels, and none was asked for.
    #[error(
        "{}: it has {} kernels; pick one with --kernel: {}",
        printable(.file), .available.len(), Names(.available)
    )]
    KernelNeeded {
        /// The code object's file.
        file: String,
        /// The names there are.
        available: Vec<String>,
    },

    /// No kernel of that name.
    #[error(
        "{}: it has no kernel {name:?}; it has {}",
        printable(.file), Names(.available)
    )]
    NoSuchKernel {
        /// The code object's file.
        file: String,
        /// The name asked for.
        name: String,
        /// The names there are.
        available: Vec<String>,
    },

    /// Too few or too many `--arg`.
    #[error(
        "`{}` takes {} arguments, but --arg was given {given} times; it takes {}",
        printable(.kernel), .expected.len(), Names(.expected)
    )]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// Its arguments, each described.
        expected: Vec<String>,
        /// How many were given.
        given: usize,
    },

    /// A value of the wrong size, or a buffer for a value, or the reverse.
    #[error(
        "{argument} has {found} bytes, but argument {} of `{}` is a {expected}",
        printable(.place), printable(.kernel)
    )]
    ArgumentSize {
        /// Its index from 0, and its name if known.
        place: String,
        /// The argument as given.
        argument: String,
        /// Bytes it takes in the argument segment.
        found: usize,
        /// The kernel.
        kernel: String,
        /// What the kernel takes there.
        expected: String,
    },

    /// A number where the kernel takes the address of a buffer.
    #[error(
        "{argument} is no buffer, but argument {} of `{}` is one: expected in, inout, out, or u64 \
         for an address",
        printable(.place), printable(.kernel)
    )]
    BufferExpected {
        /// Its index from 0, and its name if known.
        place: String,
        /// The argument as given.
        argument: String,
        /// The kernel.
        kernel: String,
    },

    /// Two outputs to one file.
    #[error("{}: two arguments would be written to it", printable(.file))]
    SameOutput {
        /// The file, as the second argument names it.
        file: String,
    },
}
