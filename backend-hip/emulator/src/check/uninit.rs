//! Which registers of a wave hold a value.
//!
//! Moves, spills and lane selections carry the mark of their source, because compilers copy registers of which nothing
//! ever uses the undefined part; any other use of an unwritten register is a finding.

/// The marks of one wave.
#[derive(Debug)]
pub(crate) struct Initialised {
    /// Lanes of each unified vector register that hold a value.
    pub(crate) vector: Vec<u64>,
    /// Scalar registers by hardware number, and [`SCC`].
    pub(crate) scalar: u128,
}

/// The bit that stands for SCC in a mask of scalar registers: number 125 is no register.
pub(crate) const SCC: u128 = 1 << 125;

impl Initialised {
    pub(crate) fn new(registers: usize) -> Initialised {
        Initialised { vector: vec![0; registers], scalar: 0 }
    }

    /// The first lane of `lanes` that has no value in a register.
    #[inline]
    pub(crate) fn missing(&self, register: usize, lanes: u64) -> Option<u32> {
        let missing = lanes & !self.vector[register];
        (missing != 0).then(|| missing.trailing_zeros())
    }
}
