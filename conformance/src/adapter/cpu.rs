//! The CPU backend's adapter.

use std::sync::LazyLock;

use lapidary_core::{
    Backend, Cpu, CpuKernel, DeviceInfo, ElementType, Error, KernelChoice, Problem,
};

use super::{
    Adapter, Executed, Expectation, Job, Outline, Promises, Refusal, Types, execute_on, misuse_on,
};
use crate::check::{Attempt, Fault, Misuse};
use crate::spec::Route;

/// The CPU of the host: all types, one kernel in several block sizes.
#[derive(Clone, Debug, Default)]
pub struct CpuAdapter {
    device: Cpu,
}

impl CpuAdapter {
    /// All cores.
    #[must_use]
    pub fn new() -> Self {
        Self { device: Cpu::new() }
    }
}

/// Every combination of types that [`Problem::validate`] accepts, found out once.
pub(crate) fn all_types() -> &'static [Types] {
    static ALL: LazyLock<Vec<Types>> = LazyLock::new(valid_types);
    &ALL
}

fn valid_types() -> Vec<Types> {
    let mut all = Vec::new();
    for a in ElementType::ALL {
        for b in ElementType::ALL {
            for c in ElementType::ALL {
                for (block_scales, groups) in [(false, false), (true, false), (false, true)] {
                    let problem = Problem::new(1, 1, 32)
                        .elements(a, c)
                        .factors(a, b)
                        .block_scales(block_scales)
                        .b_group(groups.then_some(32));
                    // The layouts of packed types are another matter: a row of one element.
                    let lines =
                        lapidary_core::Layout { row_stride: 32, col_stride: 1, batch_stride: 32 };
                    let problem = problem.a_layout(lines).b_layout(lines.transposed());
                    if problem.validate().is_ok() {
                        all.push(Types { elements: [a, b, c], block_scales, groups });
                    }
                }
            }
        }
    }
    all
}

impl Adapter for CpuAdapter {
    fn name(&self) -> &str {
        "cpu"
    }

    fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    fn promises(&self) -> Promises {
        Promises::all()
    }

    fn types(&self) -> Vec<Types> {
        all_types().to_vec()
    }

    fn kernels(&self, _: Types) -> Vec<KernelChoice> {
        vec![KernelChoice::Auto]
    }

    fn kernel_names(&self) -> Vec<String> {
        CpuKernel::ALL.iter().map(|kernel| kernel.name().to_owned()).collect()
    }

    fn expect(&self, kernel: &KernelChoice, _: &Outline, _: Route) -> Expectation {
        match kernel {
            KernelChoice::Auto => Expectation::Runs,
            _ => Expectation::Refused(Refusal::KernelUnsuitable),
        }
    }

    fn large_side(&self) -> usize {
        1_200
    }

    fn reach(&self) -> f64 {
        1e8
    }

    fn misuse(&self, misuse: Misuse) -> Result<Attempt<()>, Fault> {
        // All share the memory of the host: there is no other device.
        misuse_on(&self.device, None, misuse)
    }

    fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        execute_on(&self.device, job)
    }
}
