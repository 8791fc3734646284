//! Many products recorded once and submitted together.

use std::sync::Arc;

use lapidary_core::{Args, Error};

use crate::device::Wgsl;
use crate::plan::{Dispatch, Prepared, WgslPlan};

/// Products that are submitted together, in the order they were added, as often as wanted.
///
/// What each costs beside its dispatches, an encoder, a pass and a submission, a batch pays once. All
/// of it goes into one compute pass of one submission, unless the work in it is more than a watchdog
/// would let pass: then into as many as needed.
///
/// One product may read what an earlier one wrote. wgpu puts a barrier between two dispatches of a pass
/// where one of them writes a buffer that the other uses, even other parts of it; products on different
/// buffers may run at the same time. Products of one plan share the plan's own memory, where
/// [`PlanSummary::scratch_bytes`](lapidary_core::PlanSummary::scratch_bytes) is not 0 (for a C that starts
/// inside of a word, that of [`WgslPlan::apart_summary`]), and then run one after another.
///
/// A batch keeps what it needs alive: plans and tensors may be dropped before it is submitted.
///
/// # Examples
/// ```no_run
/// # use lapidary_wgsl::prelude::*;
/// # fn layers(device: &Wgsl, layers: &[(lapidary_wgsl::WgslPlan, [WgslTensor; 3])]) -> Result<(), Error> {
/// let mut batch = device.batch();
/// for (plan, [x, weights, y]) in layers {
///     batch.add(plan, &Args::new(x, weights, y))?;
/// }
/// for _token in 0..100 {
///     batch.submit()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Batch<'d> {
    device: &'d Wgsl,
    parts: Vec<Part>,
}

/// A chunk of one product.
#[derive(Debug)]
struct Part {
    prepared: Arc<Prepared>,
    chunk: usize,
    operations: f64,
}

impl Part {
    fn dispatches(&self) -> impl Iterator<Item = &Dispatch> {
        self.prepared.chunks.get(self.chunk).into_iter().flatten()
    }
}

impl Wgsl {
    /// A batch without products.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        Batch { device: self, parts: Vec::new() }
    }
}

impl Batch<'_> {
    /// Adds a planned product; nothing runs yet.
    ///
    /// # Errors
    /// As [`Backend::execute`](lapidary_core::Backend::execute). The batch is what it was before then.
    pub fn add(&mut self, plan: &WgslPlan, args: &Args<'_, Wgsl>) -> Result<&mut Self, Error> {
        let prepared = self.device.prepare(plan, args)?;
        let parts = prepared.operations.iter().enumerate();
        self.parts.extend(parts.map(|(chunk, &operations)| Part {
            prepared: Arc::clone(&prepared),
            chunk,
            operations,
        }));
        Ok(self)
    }

    /// Whether there is nothing to run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Command buffers that [`Batch::submit`] submits.
    #[must_use]
    pub fn submissions(&self) -> usize {
        self.runs().count()
    }

    /// Parts that go into one command buffer each: no more work than one dispatch may have, or a single
    /// part.
    fn runs(&self) -> impl Iterator<Item = &[Part]> {
        let limit = self.device.limits().dispatch_operations();
        let mut rest = self.parts.as_slice();
        std::iter::from_fn(move || {
            let mut sum = rest.first()?.operations;
            let more = rest[1..].iter().take_while(|part| {
                sum += part.operations;
                sum <= limit
            });
            let (run, others) = rest.split_at(1 + more.count());
            rest = others;
            Some(run)
        })
    }

    /// Enqueues all products; the host does not wait for them.
    ///
    /// # Errors
    /// What the device reports, as [`Backend::execute`](lapidary_core::Backend::execute).
    pub fn submit(&self) -> Result<(), Error> {
        self.runs().try_for_each(|run| {
            self.device.submit(run.iter().flat_map(Part::dispatches)).map(|_submitted| ())
        })
    }

    /// Encodes all products into a compute pass of the caller's own; nothing is submitted.
    ///
    /// The pass changes its pipeline and its bind group 0.
    ///
    /// # Errors
    /// What the device reports.
    pub fn encode(&self, pass: &mut wgpu::ComputePass<'_>) -> Result<(), Error> {
        self.device.inner.scoped("encoding", 0, || {
            self.parts.iter().flat_map(Part::dispatches).for_each(|d| d.encode(pass));
        })
    }
}
