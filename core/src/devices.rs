//! Several devices that share a product.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::mpsc;

use crate::backend::{Backend, PlanOptions, PlanSummary, Progress};
use crate::error::Error;
use crate::gemm::{Gemm, Output};
use crate::layout::{Layout, Placement};
use crate::operands::Operands;
use crate::problem::{MX_BLOCK, Problem};
use crate::view::{AnyMatrixMut, AnyMatrixRef, AnyVectorRef, Matrix};

/// Columns that devices get whole multiples of: no kernel's block is cut where the device's share
/// starts, and no byte of a 4-bit type.
const COLUMNS: usize = 64;

/// Devices of one backend that compute the columns of C between them, each on a thread of its own.
///
/// Products are one-shot, on host memory: each device gets all of A, and its columns of B and of
/// everything that belongs to columns. Where a device computes with the kernel that one device alone
/// would use, its columns have the same bits.
///
/// # Examples
/// ```
/// # #[cfg(not(feature = "cpu"))]
/// # fn main() {}
/// # #[cfg(feature = "cpu")]
/// # fn main() -> Result<(), lapidary_core::Error> {
/// use lapidary_core::{Cpu, Devices, ElementType, MatrixRef, Operands, PlanOptions};
///
/// let (a, b) = ([2.0f32; 3 * 5], [0.5f32; 5 * 200]);
/// let operands =
///     Operands::new(MatrixRef::row_major(&a, 3, 5)?, MatrixRef::row_major(&b, 5, 200)?);
/// let problem = operands.problem(ElementType::F32)?;
/// // The second is three times as fast.
/// let devices = Devices::weighted([(Cpu::new(), 1.0), (Cpu::new(), 3.0)])?;
/// assert_eq!(devices.columns(200), [0..64, 64..200]);
/// let output = devices.run(&problem, &operands, &PlanOptions::default(), &|_| {})?;
/// assert_eq!(output.matrix.to_vec::<f32>()?, [5.0; 600]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Devices<B> {
    members: Vec<(B, f64)>,
}

impl<B: Backend + Sync> Devices<B> {
    /// Devices that are equally fast.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none.
    pub fn new(devices: impl IntoIterator<Item = B>) -> Result<Self, Error> {
        Self::weighted(devices.into_iter().map(|device| (device, 1.0)))
    }

    /// Devices with how fast each is beside the others, in any unit: shares are in proportion.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none, or if a weight is not a positive number.
    pub fn weighted(devices: impl IntoIterator<Item = (B, f64)>) -> Result<Self, Error> {
        let members: Vec<_> = devices.into_iter().collect();
        if members.is_empty() {
            return Err(Error::NoDevice { reason: "there is none to share a product".into() });
        }
        match members.iter().find(|(_, weight)| !(weight.is_finite() && *weight > 0.0)) {
            None => Ok(Self { members }),
            Some((device, weight)) => Err(Error::NoDevice {
                reason: format!("{} cannot have a share of weight {weight}", device.info().name),
            }),
        }
    }

    /// The devices, in the order of their shares.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &B> {
        self.members.iter().map(|(device, _)| device)
    }

    /// The columns of C that each device computes, of `n`: whole multiples of 64, but for the last
    /// share. Where `n` is small some shares are empty.
    #[must_use]
    pub fn columns(&self, n: usize) -> Vec<Range<usize>> {
        let total: f64 = self.members.iter().map(|(_, weight)| weight).sum();
        let (mut sum, mut start) = (0.0, 0);
        let mut shares = Vec::with_capacity(self.members.len());
        for (index, (_, weight)) in self.members.iter().enumerate() {
            sum += weight;
            let blocks = (n as f64 * sum / total / COLUMNS as f64).round() as usize;
            let last = index + 1 == self.members.len();
            let end = if last { n } else { blocks.saturating_mul(COLUMNS).clamp(start, n) };
            shares.push(start..end);
            start = end;
        }
        shares
    }

    /// Multiplies host matrices, each device its columns, and returns C.
    ///
    /// The strides of `problem` are replaced by those of the operands; everything else must agree.
    /// `progress` is called on this thread and counts columns. The summary is that of the first device
    /// that computed any, with a note about each device's part.
    ///
    /// # Errors
    /// As [`Gemm::run_with`] before anything runs, and [`Error::OnDevice`] where a device fails: that of
    /// the lowest columns if several do.
    pub fn run(
        &self,
        problem: &Problem,
        operands: &Operands<'_>,
        options: &PlanOptions,
        progress: &dyn Fn(Progress),
    ) -> Result<Output, Error> {
        operands.check(problem)?;
        problem.validate()?;
        let mut matrix = Matrix::zeros(problem.c, problem.c_shape())?;
        let shares = self.columns(problem.n);
        // An empty product still gets a plan, of the first device.
        let active: Vec<(usize, Range<usize>)> = if problem.n == 0 {
            vec![(0, 0..0)]
        } else {
            shares.into_iter().enumerate().filter(|(_, columns)| !columns.is_empty()).collect()
        };
        let mut parts = Vec::with_capacity(active.len());
        for (index, columns) in active {
            parts.push((index, Part::new(problem, operands, columns)?));
        }
        let (sender, reports) = mpsc::channel::<(usize, Progress)>();
        let results: Vec<Result<Output, Error>> = std::thread::scope(|scope| {
            let threads: Vec<_> = parts
                .iter()
                .enumerate()
                .map(|(slot, (index, part))| {
                    let (device, sender) = (&self.members[*index].0, sender.clone());
                    scope.spawn(move || {
                        let report = |progress| {
                            // Whoever started the work may have stopped listening.
                            sender.send((slot, progress)).ok();
                        };
                        let operands = part.operands();
                        let run =
                            Gemm::<B>::run_with(device, &part.problem, &operands, options, &report);
                        pollster::block_on(run)
                    })
                })
                .collect();
            drop(sender);
            let mut done = vec![0; parts.len()];
            // Ends when the last thread has dropped its sender.
            for (slot, Progress { done: parts_done, total }) in reports {
                let columns = parts[slot].1.columns.len() as u64;
                done[slot] = columns * parts_done.min(total) / total.max(1);
                progress(Progress { done: done.iter().sum(), total: problem.n as u64 });
            }
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            threads.into_iter().map(join).collect()
        });
        let mut summary: Option<PlanSummary> = None;
        let mut notes = Vec::new();
        for ((index, part), result) in parts.iter().zip(results) {
            let Range { start, end } = part.columns;
            let name = self.members[*index].0.info().name;
            let output = result.map_err(|source| Error::OnDevice {
                device: name.clone(),
                number: *index,
                first: start,
                end,
                source: Box::new(source),
            })?;
            let whole = Placement {
                offset: 0,
                shape: problem.c_shape(),
                layout: Layout::row_major(problem.m, problem.n),
            };
            let place = whole.submatrix(0..problem.m, start..end)?;
            AnyMatrixMut::from_bytes(matrix.as_mut().bytes_mut(), problem.c, place)?
                .copy_from(output.matrix.as_ref());
            notes.push(format!(
                "columns {start} to {end} (exclusive) on device {index}, {name}: {}",
                output.summary.kernel
            ));
            match &mut summary {
                Some(summary) => summary.add_piece(&output.summary),
                None => summary = Some(output.summary),
            }
        }
        let mut summary = summary.unwrap_or_else(|| PlanSummary::new("none", "no columns"));
        summary.notes.extend(notes);
        Ok(Output { matrix, summary })
    }
}

/// Some columns of a product.
struct Part<'a> {
    problem: Problem,
    columns: Range<usize>,
    a: AnyMatrixRef<'a>,
    b: AnyMatrixRef<'a>,
    c: Option<AnyMatrixRef<'a>>,
    row_scale: Option<AnyVectorRef<'a>>,
    a_block_scales: Option<AnyVectorRef<'a>>,
    bias: Option<Gathered<'a>>,
    col_scale: Option<Gathered<'a>>,
    b_block_scales: Option<Gathered<'a>>,
    b_group_scales: Option<Gathered<'a>>,
}

/// The values of a vector that belong to some columns.
struct Gathered<'a> {
    bytes: Cow<'a, [u8]>,
    element: crate::element::ElementType,
}

impl Gathered<'_> {
    fn view(&self) -> AnyVectorRef<'_> {
        AnyVectorRef::new(&self.bytes, self.element)
    }
}

impl<'a> Part<'a> {
    /// The part of checked operands.
    fn new(
        problem: &Problem,
        operands: &Operands<'a>,
        columns: Range<usize>,
    ) -> Result<Self, Error> {
        let view = |matrix: AnyMatrixRef<'a>, rows| -> Result<AnyMatrixRef<'a>, Error> {
            let place = matrix.placement().submatrix(0..rows, columns.clone())?;
            AnyMatrixRef::new(matrix.bytes(), matrix.element(), place)
        };
        let &Operands { a, b, c, bias, row_scale, col_scale, .. } = operands;
        let Operands { a_block_scales, b_block_scales, b_group_scales, .. } = *operands;
        let groups = problem.b_group.and_then(|length| problem.k.checked_div(length)).unwrap_or(0);
        // Values of a column lie together, those of a matrix's columns one after the other.
        let gather = |vector: AnyVectorRef<'a>, each: usize, batch: usize| {
            let size = vector.element().size();
            let of = |matrix: usize| {
                let first = (matrix * problem.n + columns.start) * each * size;
                &vector.bytes()[first..first + columns.len() * each * size]
            };
            let bytes = match batch {
                1 => Cow::Borrowed(of(0)),
                _ => Cow::Owned((0..batch).flat_map(of).copied().collect()),
            };
            Gathered { bytes, element: vector.element() }
        };
        let mut part = problem.clone();
        part.n = columns.len();
        Ok(Self {
            a,
            b: view(b, problem.k)?,
            c: c.filter(|_| problem.reads_c()).map(|c| view(c, problem.m)).transpose()?,
            row_scale,
            a_block_scales,
            bias: bias.map(|bias| gather(bias, 1, 1)),
            col_scale: col_scale.map(|scale| gather(scale, 1, problem.batch)),
            b_block_scales: b_block_scales
                .map(|scale| gather(scale, problem.k / MX_BLOCK, problem.batch)),
            b_group_scales: b_group_scales.map(|scale| gather(scale, groups, problem.batch)),
            problem: part,
            columns,
        })
    }

    fn operands(&self) -> Operands<'_> {
        Operands {
            a: self.a,
            b: self.b,
            c: self.c,
            bias: self.bias.as_ref().map(Gathered::view),
            row_scale: self.row_scale,
            col_scale: self.col_scale.as_ref().map(Gathered::view),
            a_block_scales: self.a_block_scales,
            b_block_scales: self.b_block_scales.as_ref().map(Gathered::view),
            b_group_scales: self.b_group_scales.as_ref().map(Gathered::view),
        }
    }
}
