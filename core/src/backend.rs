//! The contract between the library and what executes it.

use core::future::Future;

pub use crate::args::{Args, BOperand};
use crate::element::ElementType;
use crate::error::Error;
use crate::kernel::KernelChoice;
use crate::operands::Operands;
use crate::problem::Problem;
use crate::view::AnyMatrixMut;

/// What a plan may choose from.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PlanOptions {
    /// The kernel. The default is that the backend picks.
    pub kernel: KernelChoice,
    /// Pieces that K is cut into, summed by a pass of their own in a fixed order, where the backend
    /// and the kernel can. The default is that the backend picks.
    pub k_slices: Option<usize>,
    /// Whether A and B are first copied, each execution anew, into the order that the kernel reads
    /// fastest, where the backend and the kernel can. The default is that the backend picks.
    pub copies: Option<[bool; 2]>,
    /// Whether products of f16 may be summed in f16, where the backend has a faster kernel for that. The
    /// default is that they are summed in f32.
    pub f16_sums: bool,
}

impl PlanOptions {
    /// Asks for a kernel.
    #[must_use]
    pub fn kernel(kernel: KernelChoice) -> Self {
        Self { kernel, ..Self::default() }
    }

    /// Asks for K to be cut into so many pieces.
    #[must_use]
    pub fn k_slices(mut self, slices: usize) -> Self {
        self.k_slices = Some(slices);
        self
    }

    /// Asks for copies of A and B, or for none.
    #[must_use]
    pub fn copies(mut self, copies: [bool; 2]) -> Self {
        self.copies = Some(copies);
        self
    }

    /// Allows sums in f16, as matrix units may have them at a higher rate than those in f32.
    ///
    /// The error of a sum is then up to `γ_K(2⁻¹¹) · Σ|a||b|`, 2¹³ times the bound of f32, and sums past
    /// 65,504 become infinite; alpha, beta, the bias and the sum of slices of K are f32 all the same. It is
    /// a permission: a backend without such a kernel, or with one that is no faster, sums in f32. The
    /// kernel's name in the plan says which it is.
    #[must_use]
    pub fn f16_sums(mut self, allowed: bool) -> Self {
        self.f16_sums = allowed;
        self
    }
}

/// What a plan decided, as plain data.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlanSummary {
    /// The kernel's name.
    pub kernel: String,
    /// Why this kernel.
    pub reason: String,
    /// What the kernel had to give up or add (a smaller K strip, a second pass, several dispatches).
    pub notes: Vec<String>,
    /// Passes that run besides the kernel, by name, in their order: copies of operands before it, what
    /// adds up or stores its sums after it.
    pub passes: Vec<&'static str>,
    /// Workgroups of each dispatch, x, y, z.
    pub dispatches: Vec<[u32; 3]>,
    /// Threads of a workgroup.
    pub workgroup_threads: usize,
    /// Rows and columns of C one workgroup computes.
    pub block_tile: [usize; 2],
    /// Rows and columns of C one thread computes.
    pub thread_tile: [usize; 2],
    /// Length of a strip along K, 0 where there are no strips.
    pub k_tile_size: usize,
    /// Elements of A a load fetches.
    pub load_width: usize,
    /// Whether products of f16 are summed in f16, which [`PlanOptions::f16_sums`] allows and a kernel that
    /// was asked for by its policies may do; of a product in pieces, whether those of any piece are.
    pub f16_sums: bool,
    /// Bytes of workgroup memory a workgroup uses.
    pub workgroup_bytes: usize,
    /// Bytes of device memory the plan holds besides the operands.
    pub scratch_bytes: u64,
}

impl PlanSummary {
    /// Takes over what is true of a whole product as soon as it is of one piece: sums in f16.
    pub fn add_piece(&mut self, piece: &Self) {
        self.f16_sums |= piece.f16_sums;
    }

    /// A summary with a kernel's name and the reason for it, everything else empty.
    #[must_use]
    pub fn new(kernel: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            kernel: kernel.into(),
            reason: reason.into(),
            notes: Vec::new(),
            passes: Vec::new(),
            dispatches: Vec::new(),
            workgroup_threads: 0,
            block_tile: [0; 2],
            thread_tile: [0; 2],
            k_tile_size: 0,
            load_width: 1,
            f16_sums: false,
            workgroup_bytes: 0,
            scratch_bytes: 0,
        }
    }
}

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The backend's name: `cpu`, `wgsl`.
    pub backend: &'static str,
    /// The device's own name.
    pub name: String,
    /// Driver and version, or the library that does the work.
    pub driver: String,
    /// Element types operands may have here.
    pub elements: Vec<ElementType>,
    /// Limits and capabilities worth knowing, name and value.
    pub properties: Vec<(String, String)>,
}

impl DeviceInfo {
    /// A description without element types or properties.
    #[must_use]
    pub fn new(backend: &'static str, name: impl Into<String>, driver: impl Into<String>) -> Self {
        Self {
            backend,
            name: name.into(),
            driver: driver.into(),
            elements: Vec::new(),
            properties: Vec::new(),
        }
    }
}

/// A one-dimensional array of elements on a device.
pub trait Tensor {
    /// Element type.
    fn element(&self) -> ElementType;
    /// Number of elements.
    fn len(&self) -> usize;
    /// Whether there is no element.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether two tensors live in one allocation, and so may overlap.
    fn same_allocation(&self, other: &Self) -> bool;
    /// Bytes from the start of the allocation to element 0.
    fn byte_offset(&self) -> usize {
        0
    }
}

/// Where a matrix starts in a tensor; its shape and strides are the plan's.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "a tensor and an offset, nothing else")]
pub struct TensorSlice<'a, T> {
    /// The tensor.
    pub tensor: &'a T,
    /// Index of element (0, 0) of matrix 0.
    pub offset: usize,
}

impl<T> Clone for TensorSlice<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TensorSlice<'_, T> {}

impl<'a, T> TensorSlice<'a, T> {
    /// A matrix that starts at element `offset` of `tensor`.
    #[must_use]
    pub fn new(tensor: &'a T, offset: usize) -> Self {
        Self { tensor, offset }
    }
}

impl<'a, T> From<&'a T> for TensorSlice<'a, T> {
    fn from(tensor: &'a T) -> Self {
        Self { tensor, offset: 0 }
    }
}

/// How far a long piece of work has come: parts done, and parts in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a count and its total")]
pub struct Progress {
    /// Parts finished.
    pub done: u64,
    /// Parts in all.
    pub total: u64,
}

/// Something that computes `C = activation(alpha · A · B + beta · C + bias)`, with A and B scaled
/// where the problem says so.
///
/// # The numerical contract
/// Every implementation keeps it, for every kernel it has:
///
/// - **beta = 0 never reads C.** C may hold NaN, or be uninitialised; the result does not depend on
///   it. At beta ≠ 0 C is read once.
/// - **alpha = 0 or K = 0 never reads A or B**, nor need they be valid. The result is
///   `activation(beta · C + bias)`.
/// - **M, N or batch 0 does nothing** and succeeds.
/// - **Only C's own elements are written.** Gaps between rows, neighbours in a shared word, and
///   everything outside the view keep their bits.
/// - **Scales belong to A and B**: they are read where those are, and multiply the product before
///   anything is added (see [`Problem`]).
/// - **C may not share an element with A, B, their scales or the bias**: that is an error, found before anything
///   is written. Blocks of one matrix that do not overlap are fine.
/// - **Accumulation** is in the problem's accumulator type, in any order and with or without fused
///   multiply-add. The error of each element is at most `γ_K · |alpha| · Σ|a||b|` plus the rounding
///   of the epilogue and of the output type (see [`crate::oracle`]); sums that are exact in the
///   accumulator's precision are exact.
/// - **NaN and infinity propagate** on the CPU: a product is never skipped because a factor is zero.
///   WGSL promises nothing about non-finite values: there a non-finite operand makes its own row
///   (of A) or column (of B) of C unspecified, and nothing else.
/// - **Output conversion** rounds to nearest, ties to even, once; overflow gives infinity in float
///   types, and saturates in i8.
/// - **Same plan, same operands, same device: same bits.**
pub trait Backend: Sized {
    /// An array on the device.
    type Tensor: Tensor + core::fmt::Debug;
    /// A prepared computation.
    type Plan: core::fmt::Debug;
    /// B in a kernel's own layout.
    type PackedB: core::fmt::Debug;

    /// What the device is and can do.
    fn info(&self) -> DeviceInfo;

    /// Allocates `len` elements; their values are unspecified.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::LimitExceeded`] past the device's largest buffer.
    fn alloc(&self, element: ElementType, len: usize) -> Result<Self::Tensor, Error>;

    /// Copies `bytes` to the elements from `offset` on; `bytes` is a whole number of elements.
    ///
    /// The copy is ordered before every later execution and download.
    ///
    /// # Errors
    /// [`Error::PartialElement`], [`Error::ViewOutOfBounds`] if the tensor ends before, or a device
    /// error.
    fn upload(&self, tensor: &Self::Tensor, offset: usize, bytes: &[u8]) -> Result<(), Error>;

    /// Copies all elements back, after everything submitted before.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::OutOfMemory`] or [`Error::Timeout`].
    fn download(&self, tensor: &Self::Tensor) -> impl Future<Output = Result<Vec<u8>, Error>>;

    /// Decides how `problem` is computed and prepares it, without touching any operand.
    ///
    /// # Errors
    /// Whatever [`Problem::validate`] finds; [`Error::ElementTypeUnavailable`],
    /// [`Error::KernelUnsuitable`], [`Error::Misaligned`] or [`Error::LimitExceeded`] when this
    /// device or the kernel asked for cannot do it.
    fn plan(&self, problem: &Problem, options: &PlanOptions) -> Result<Self::Plan, Error>;

    /// What a plan decided.
    fn summary<'p>(&self, plan: &'p Self::Plan) -> &'p PlanSummary;

    /// Enqueues a planned computation; the host does not wait for it.
    ///
    /// The numerical contract above holds for the operands in `args`.
    ///
    /// # Errors
    /// Whatever [`Args::check`] finds, [`Error::PackedMismatch`], [`Error::Misaligned`], or a device
    /// error. Nothing has been written to C then.
    fn execute(&self, plan: &Self::Plan, args: &Args<'_, Self>) -> Result<(), Error>;

    /// Rearranges B for repeated use with `plan`.
    ///
    /// # Errors
    /// As [`Backend::execute`] for B alone, and [`Error::OutOfMemory`].
    fn pack_b(
        &self,
        plan: &Self::Plan,
        b: TensorSlice<'_, Self::Tensor>,
    ) -> Result<Self::PackedB, Error>;

    /// Waits until everything submitted before has finished.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] or [`Error::Timeout`].
    fn sync(&self) -> impl Future<Output = Result<(), Error>>;

    /// Computes on host memory: `c` is read first when the problem reads C, then overwritten.
    ///
    /// `problem` has the layouts of `operands` and `c`; [`crate::Gemm`] sees to that. A backend may
    /// compute in pieces, each a part of the progress.
    ///
    /// # Errors
    /// As [`Backend::plan`], [`Backend::execute`] and [`Backend::download`]. What a device reports while it
    /// computes in pieces may leave some of C written.
    fn run_host(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        operands: &Operands<'_>,
        c: AnyMatrixMut<'_>,
        progress: &dyn Fn(Progress),
    ) -> impl Future<Output = Result<PlanSummary, Error>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_with_f16_sums_makes_a_product_with_f16_sums() {
        for pieces in [[false, false], [false, true], [true, false], [true, true]] {
            let [first, second] = pieces.map(|f16_sums| {
                let mut summary = PlanSummary::new("kernel", "reason");
                summary.f16_sums = f16_sums;
                summary
            });
            let mut whole = first;
            whole.add_piece(&second);
            assert_eq!(whole.f16_sums, pieces.contains(&true));
        }
    }
}
