//! The one error type of the library.

use crate::element::ElementType;

/// Which operand an error speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operand {
    /// The left factor, M×K.
    A,
    /// The right factor, K×N.
    B,
    /// The matrix that beta scales and the result replaces, M×N.
    C,
    /// The vector added to every row of the result, one value a column.
    Bias,
    /// The scale of each row of A.
    RowScale,
    /// The scale of each column of B.
    ColScale,
    /// The scales of A's blocks along K.
    BlockScalesA,
    /// The scales of B's blocks along K.
    BlockScalesB,
    /// The scales of groups along K of B's columns.
    GroupScalesB,
}

impl core::fmt::Display for Operand {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::Bias => "bias",
            Self::RowScale => "the row scale of A",
            Self::ColScale => "the column scale of B",
            Self::BlockScalesA => "the block scales of A",
            Self::BlockScalesB => "the block scales of B",
            Self::GroupScalesB => "the group scales of B",
        })
    }
}

/// Everything that can go wrong, each variant with the numbers that tell why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operand's shape does not fit the problem.
    #[error("{operand} is {}x{}x{} (batch x rows x columns), the problem needs {}x{}x{}",
        .found[0], .found[1], .found[2], .expected[0], .expected[1], .expected[2])]
    ShapeMismatch {
        /// The operand.
        operand: Operand,
        /// Batch, rows and columns of the view that was given.
        found: [usize; 3],
        /// Batch, rows and columns that the problem asks for.
        expected: [usize; 3],
    },

    /// The inner dimensions of A and B differ.
    #[error("A has {a_cols} columns but B has {b_rows} rows: the inner dimension K must agree")]
    InnerDimensionMismatch {
        /// Columns of A.
        a_cols: usize,
        /// Rows of B.
        b_rows: usize,
    },

    /// A view reaches outside the storage it is made of.
    #[error(
        "the view of {rows}x{cols} (batch {batch}) at offset {offset} with strides \
        {row_stride}, {col_stride} (batch {batch_stride}) reaches element {reached}, \
        the storage holds elements 0 to {len} (exclusive)"
    )]
    ViewOutOfBounds {
        /// Rows of the view.
        rows: usize,
        /// Columns of the view.
        cols: usize,
        /// Matrices in the batch.
        batch: usize,
        /// Index of element (0, 0) of matrix 0.
        offset: usize,
        /// Elements from one row to the next.
        row_stride: isize,
        /// Elements from one column to the next.
        col_stride: isize,
        /// Elements from one matrix to the next.
        batch_stride: isize,
        /// The first index outside the storage that the view would touch.
        reached: i128,
        /// Elements in the storage.
        len: usize,
    },

    /// Bytes that are not a whole number of elements.
    #[error("{bytes} bytes are not a whole number of {element} elements, which have {} each", .element.size())]
    PartialElement {
        /// Bytes given.
        bytes: usize,
        /// The element type they should hold.
        element: ElementType,
    },

    /// A view of a type that shares bytes would start a line inside a byte.
    #[error("a view of {element}, two elements a byte, needs {rule}, it is {value}")]
    PackedView {
        /// The element type.
        element: ElementType,
        /// What is needed.
        rule: &'static str,
        /// The offset or stride found, in elements.
        value: i128,
    },

    /// A vector of scales does not have the length that the problem needs.
    #[error("{operand} has {found} values, the problem needs {expected}")]
    ScaleLength {
        /// Which scales.
        operand: Operand,
        /// Values given.
        found: usize,
        /// Values needed.
        expected: usize,
    },

    /// K is not a whole number of blocks that share a scale.
    #[error(
        "K = {k} is not a multiple of {block}: every {block} elements along K share a scale; \
        fill up A and B with zeros to K = {}",
        (*.k as u128).next_multiple_of((*.block).max(1) as u128)
    )]
    PartialScaleBlock {
        /// The inner dimension.
        k: usize,
        /// Elements of a block.
        block: usize,
    },

    /// Scales that have no meaning for the element types of the problem.
    #[error("{scales} are not supported for {a} x {b} -> {c}: {rule}")]
    ScalesUnsupported {
        /// Which scales.
        scales: &'static str,
        /// Element type of A.
        a: ElementType,
        /// Element type of B.
        b: ElementType,
        /// Element type of C.
        c: ElementType,
        /// The rule that is broken.
        rule: &'static str,
    },

    /// This backend, or this check, has no scales.
    #[error("{scales} are not available with {what}: {needs}")]
    ScalesUnavailable {
        /// The backend and device, or the check.
        what: String,
        /// Which scales.
        scales: &'static str,
        /// What would be needed.
        needs: &'static str,
    },

    /// Two elements of an output share one place in memory.
    #[error(
        "output view of {rows}x{cols} (batch {batch}) with strides {row_stride}, {col_stride} \
        (batch {batch_stride}) writes some elements twice; an output's strides must keep its elements apart"
    )]
    OutputOverlapsItself {
        /// Rows of the view.
        rows: usize,
        /// Columns of the view.
        cols: usize,
        /// Matrices in the batch.
        batch: usize,
        /// Elements from one row to the next.
        row_stride: isize,
        /// Elements from one column to the next.
        col_stride: isize,
        /// Elements from one matrix to the next.
        batch_stride: isize,
    },

    /// The output overlaps an input.
    #[error(
        "C overlaps {operand}: bytes {c_first}..{c_end} and {first}..{end} of one allocation; \
        an output may not alias an input"
    )]
    Aliasing {
        /// The input that overlaps.
        operand: Operand,
        /// First byte of C.
        c_first: usize,
        /// One past the last byte of C.
        c_end: usize,
        /// First byte of the input.
        first: usize,
        /// One past the last byte of the input.
        end: usize,
    },

    /// An operand's element type is not the one the problem states.
    #[error("{operand} holds {found}, the problem states {expected}")]
    ElementTypeMismatch {
        /// The operand.
        operand: Operand,
        /// What the view holds.
        found: ElementType,
        /// What the problem says.
        expected: ElementType,
    },

    /// No kernel multiplies this combination of element types.
    #[error("{a} x {b} -> {c} is not a supported combination: {rule}")]
    ElementTypesUnsupported {
        /// Element type of A.
        a: ElementType,
        /// Element type of B.
        b: ElementType,
        /// Element type of C.
        c: ElementType,
        /// The rule that the combination breaks.
        rule: &'static str,
    },

    /// The backend or device lacks an element type that another one has.
    #[error("{backend} cannot compute with {element}: {needs}")]
    ElementTypeUnavailable {
        /// The backend and device.
        backend: String,
        /// The element type asked for.
        element: ElementType,
        /// What would be needed.
        needs: &'static str,
    },

    /// A required operand is missing.
    #[error("{operand} is missing: {why}")]
    MissingOperand {
        /// The operand.
        operand: Operand,
        /// Why the problem needs it.
        why: &'static str,
    },

    /// An operand was given that the problem does not use.
    #[error("{operand} was given, but {why}")]
    UnexpectedOperand {
        /// The operand.
        operand: Operand,
        /// Why it is not used.
        why: &'static str,
    },

    /// The bias does not have one value for each column.
    #[error("bias has {found} values, the result has {expected} columns")]
    BiasLength {
        /// Values given.
        found: usize,
        /// Columns of C.
        expected: usize,
    },

    /// An integer problem was given a factor that is no 32-bit integer.
    #[error(
        "{name} = {value} must be an integer from -2147483648 to 2147483647 when the output is i32"
    )]
    FactorNotInteger {
        /// `alpha` or `beta`.
        name: &'static str,
        /// The factor.
        value: f64,
    },

    /// A check that is exact on integers was given a value that is none.
    #[error("{what} is {value}: this check needs integers of at most 2^53")]
    NotInteger {
        /// Where the value was found.
        what: &'static str,
        /// The value.
        value: f64,
    },

    /// A value that no scale takes into the range of a narrow type.
    #[error(
        "the element in row {row}, column {col} is {value}: only finite values can be quantised"
    )]
    NotFinite {
        /// Its row.
        row: usize,
        /// Its column.
        col: usize,
        /// The value.
        value: f64,
    },

    /// The sum of K integer products may leave the range of the `i32` accumulator.
    #[error(
        "K = {k} exceeds {limit}: a sum of more such products can leave the i32 accumulator; \
        ask for wrapping arithmetic if that is meant"
    )]
    AccumulatorOverflow {
        /// The inner dimension.
        k: usize,
        /// The largest K that cannot overflow.
        limit: usize,
    },

    /// An activation that does not exist for the output type.
    #[error("activation {activation} has no meaning for {element} output")]
    ActivationUnsupported {
        /// The activation's name.
        activation: &'static str,
        /// The output type.
        element: ElementType,
    },

    /// A size is too large for what the library or the device can address.
    #[error("{what} is {requested}, the limit is {limit}")]
    LimitExceeded {
        /// What is limited.
        what: &'static str,
        /// The value asked for.
        requested: u128,
        /// The largest value allowed.
        limit: u128,
    },

    /// Operands were laid out differently when the plan was made.
    #[error("{operand} has strides {}, {} (batch {}), the plan was made for {}, {} (batch {})",
        .found[0], .found[1], .found[2], .planned[0], .planned[1], .planned[2])]
    LayoutDiffersFromPlan {
        /// The operand.
        operand: Operand,
        /// Row, column and batch stride given.
        found: [isize; 3],
        /// Row, column and batch stride planned for.
        planned: [isize; 3],
    },

    /// A kernel was asked for that cannot run this problem.
    #[error("kernel {kernel} cannot run this problem: {reason}")]
    KernelUnsuitable {
        /// The kernel asked for.
        kernel: String,
        /// The rule it breaks, with numbers.
        reason: String,
    },

    /// A packed B of another layout, problem or device.
    #[error("packed B was made as {found}, this plan needs {expected}")]
    PackedMismatch {
        /// What the packed operand is.
        found: String,
        /// What the plan needs.
        expected: String,
    },

    /// A load is not aligned as the chosen load width requires.
    #[error(
        "{operand}: load width {width} needs {what} to be a multiple of {width}, it is {value}"
    )]
    Misaligned {
        /// The operand.
        operand: Operand,
        /// The load width in elements.
        width: usize,
        /// What is misaligned: an offset or a stride, in elements.
        what: &'static str,
        /// Its value.
        value: i128,
    },

    /// A view cannot be described by this library.
    #[error("cannot view this array: {reason}")]
    UnsupportedView {
        /// Why.
        reason: String,
    },

    /// No device of the kind asked for was found.
    #[error("no device: {reason}")]
    NoDevice {
        /// What was looked for and what was found.
        reason: String,
    },

    /// Memory ran out on the host or the device.
    #[error("out of memory: {requested} bytes for {what} on {device}")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// What they were for.
        what: String,
        /// Where.
        device: String,
    },

    /// The device was lost and has to be opened again.
    #[error("device {device} was lost: {reason}")]
    DeviceLost {
        /// The device.
        device: String,
        /// What the driver said.
        reason: String,
    },

    /// The device gave no answer within the time allowed.
    #[error("device {device} did not answer within {seconds} s")]
    Timeout {
        /// The device.
        device: String,
        /// Seconds waited.
        seconds: u64,
    },

    /// One of several devices that share a product failed.
    #[error("device {number}, {device}, on columns {first} to {end} (exclusive) of C: {source}")]
    OnDevice {
        /// The device's name.
        device: String,
        /// Its place among the devices, from 0.
        number: usize,
        /// First column of its share.
        first: usize,
        /// One past the last column.
        end: usize,
        /// What happened there.
        source: Box<Error>,
    },

    /// A backend's own error.
    #[error("{device}: {source}")]
    Backend {
        /// The device.
        device: String,
        /// What the backend says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The driver or the API below refused an operation.
    #[error("{device}: {operation} failed: {message}")]
    Device {
        /// The device.
        device: String,
        /// What was attempted.
        operation: &'static str,
        /// What came back.
        message: String,
    },
}
