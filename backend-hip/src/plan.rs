//! A prepared problem: decisions, kernels, and scratch memory.

use std::sync::{Arc, OnceLock};

use lapidary_core::{Error, PlanOptions, PlanSummary, Problem};

use crate::decide::{self, AWay, Asked, Decision, Product, StoreWay};
use crate::device::{Hip, Inner, Kernel};
use crate::passes::{PackScalesArgs, pack_scales_request};
use crate::preshuffle::{PreshuffleConfig, pack_request};
use crate::runtime::Stream;
use crate::steps::StepConfig;
use crate::tensor::Memory;

/// A problem prepared for one device and stream.
///
/// Scratch memory belongs to the plan: executions follow each other on its stream.
#[derive(Debug)]
pub struct HipPlan {
    pub(crate) problem: Problem,
    pub(crate) decision: Decision,
    owner: Arc<Inner>,
    stream: Stream,
    pub(crate) kernels: Kernels,
    pub(crate) scratch: Scratch,
}

/// The kernels of a plan, each where the decision needs it.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    pub(crate) pack_a: Option<Kernel>,
    pub(crate) pack_b: Option<Kernel>,
    pub(crate) pack_scales: Option<Kernel>,
    pub(crate) product: Option<Kernel>,
    pub(crate) reduce: Option<Kernel>,
    pub(crate) store: Option<Kernel>,
}

/// Memory between the launches of a plan.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) a: Option<Arc<Memory>>,
    pub(crate) scales: Option<Arc<Memory>>,
    pub(crate) sums: Option<Arc<Memory>>,
    /// Only a B that does not come packed needs it.
    pub(crate) b: OnceLock<Arc<Memory>>,
}

/// A kernel that a plan launches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedKernel {
    /// The kernel's name in its code object.
    pub name: &'static str,
    /// The code object's [`key`](crate::compile::CodeObject::key).
    pub key: String,
}

impl HipPlan {
    /// What was decided, as plain data.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The problem that was planned.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The kernel that multiplies, unless A and B have no part in C.
    #[must_use]
    pub fn product(&self) -> Option<PlannedKernel> {
        self.kernels.product.as_ref().map(planned)
    }

    /// Every kernel, in the order of their launches.
    #[must_use]
    pub fn kernels(&self) -> Vec<PlannedKernel> {
        let k = &self.kernels;
        [&k.pack_a, &k.pack_b, &k.pack_scales, &k.product, &k.reduce, &k.store]
            .into_iter()
            .flatten()
            .map(planned)
            .collect()
    }

    /// Refuses a device that did not make the plan.
    pub(crate) fn check_owner(&self, hip: &Hip) -> Result<(), Error> {
        if Arc::ptr_eq(&self.owner, &hip.inner) && self.stream == hip.stream {
            return Ok(());
        }
        Err(Error::KernelUnsuitable {
            kernel: self.decision.summary.kernel.clone(),
            reason: "the plan was made on another device or stream".into(),
        })
    }
}

fn planned(kernel: &Kernel) -> PlannedKernel {
    PlannedKernel { name: kernel.name, key: kernel.key.to_string() }
}

impl Hip {
    /// Decides without compiling anything.
    ///
    /// # Errors
    /// As [`Backend::plan`](lapidary_core::Backend::plan), but for what compiling and allocating meet.
    pub fn decide(&self, problem: &Problem, options: &PlanOptions) -> Result<Decision, Error> {
        decide::decide(problem, &self.facts(), Asked::of_options(options, self.target()))
    }

    /// A plan with a kernel of the course in any form that HIP has, matrix cores included; the
    /// problem's epilogue takes the place of the configuration's.
    ///
    /// # Errors
    /// As [`Backend::plan`](lapidary_core::Backend::plan).
    pub fn plan_step(&self, problem: &Problem, step: StepConfig) -> Result<HipPlan, Error> {
        self.prepare(problem, Asked::Step(step))
    }

    pub(crate) fn prepare(&self, problem: &Problem, asked: Asked) -> Result<HipPlan, Error> {
        let _span = tracing::info_span!(
            "plan",
            m = problem.m,
            n = problem.n,
            k = problem.k,
            batch = problem.batch,
            device = self.inner.name,
        )
        .entered();
        let decision = decide::decide(problem, &self.facts(), asked)?;
        tracing::debug!(kernel = decision.summary.kernel, notes = ?decision.summary.notes);
        let kernels = self.kernels(&decision)?;
        let scratch = self.scratch(problem, &decision)?;
        Ok(HipPlan {
            problem: problem.clone(),
            decision,
            owner: Arc::clone(&self.inner),
            stream: self.stream,
            kernels,
            scratch,
        })
    }

    /// Compiles now: a kernel that the compiler refuses is an error of the plan, not of its use.
    fn kernels(&self, decision: &Decision) -> Result<Kernels, Error> {
        let inner = &self.inner;
        let mut kernels = Kernels::default();
        if let AWay::Packed(config) = &decision.a {
            kernels.pack_a = Some(inner.kernel(&config.request(), "pack_a")?);
        }
        match &decision.product {
            Product::None => {}
            Product::Step(config) => {
                let request = config.request().map_err(|error| inner.error(error))?;
                kernels.product = Some(inner.kernel(&request, "gemm")?);
            }
            Product::Preshuffle(product) => {
                let config = &product.config;
                let request = pack_request(config.target, config.b);
                kernels.pack_b = Some(inner.kernel(&request, "pack_b")?);
                if config.block_scaled {
                    let request = pack_scales_request(config.target);
                    kernels.pack_scales = Some(inner.kernel(&request, "pack_scales")?);
                }
                kernels.product = Some(self.preshuffle_kernel(config)?);
                if decision.store == StoreWay::Reduce {
                    kernels.reduce = Some(self.reduce_kernel(config)?);
                }
            }
        }
        if let StoreWay::Pass(config) = &decision.store {
            let request = config.request().ok_or_else(|| Error::ElementTypeUnavailable {
                backend: inner.name.clone(),
                element: config.output,
                needs: "an output of f32, f16, bf16, i8 or i32",
            })?;
            kernels.store = Some(inner.kernel(&request, "store")?);
        }
        Ok(kernels)
    }

    pub(crate) fn preshuffle_kernel(&self, config: &PreshuffleConfig) -> Result<Kernel, Error> {
        let request = config.request().map_err(|error| self.inner.error(error))?;
        self.inner.kernel(&request, "preshuffle")
    }

    pub(crate) fn reduce_kernel(&self, config: &PreshuffleConfig) -> Result<Kernel, Error> {
        let request = config.reduce_request().map_err(|error| self.inner.error(error))?;
        self.inner.kernel(&request, "reduce")
    }

    fn scratch(&self, problem: &Problem, decision: &Decision) -> Result<Scratch, Error> {
        let mut scratch = Scratch::default();
        if let AWay::Packed(config) = &decision.a {
            let bytes =
                config.row_bytes(problem.k) as u64 * problem.m as u64 * problem.batch as u64;
            scratch.a = Some(Memory::allocate(self, bytes, "packed A")?);
        }
        if let (true, Some(layout)) = (problem.block_scales, &decision.b) {
            let bytes =
                PackScalesArgs::sizes(layout, problem.batch).map_or(0, |a| a.packed_bytes());
            scratch.scales = Some(Memory::allocate(self, bytes, "packed block scales")?);
        }
        if decision.sums_bytes > 0 {
            let what = "sums between the product and C";
            scratch.sums = Some(Memory::allocate(self, decision.sums_bytes, what)?);
        }
        Ok(scratch)
    }
}

impl HipPlan {
    /// What the plan decided.
    pub(crate) fn summary(&self) -> &PlanSummary {
        &self.decision.summary
    }
}
