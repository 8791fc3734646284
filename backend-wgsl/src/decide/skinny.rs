//! The skinny kernel's sizes: how a C of few rows or few columns is shared out.

use lapidary_core::{ElementType, Error, Problem};

use super::fetch::{Fetch, Lines};
use super::kernel::{Body, Kernel, Skinny, Team};
use super::tuning::Tuning;
use crate::limits::DeviceLimits;

/// Rows or columns that a thread has registers for.
const MOST: usize = 16;

/// Steps along K below which a slice is not worth its sums.
const LEAST_SLICE: usize = 512;

/// Threads of a team's workgroup; few, so that several workgroups share a processor.
const ALONG_THREADS: u32 = 256;

/// Bytes of neighbouring lines that a workgroup takes across K: a cache line.
const ACROSS_BYTES: u32 = 128;

/// Threads side by side, of four lines each, that a workgroup has at least.
const LEAST_LANES: u32 = 8;

/// The kernel for a problem of at most [`MOST`] rows or columns.
pub(super) fn kernel(problem: &Problem, limits: &DeviceLimits) -> Result<Kernel, Error> {
    let few_rows = problem.m <= problem.n;
    let few = problem.m.min(problem.n);
    if few > MOST {
        return Err(Error::KernelUnsuitable {
            kernel: "skinny".into(),
            reason: format!(
                "it computes up to {MOST} rows or columns, C is {}x{}",
                problem.m, problem.n
            ),
        });
    }
    let few = few.max(1) as u32;
    let lines_a = Lines::of_a(problem.a_layout, problem.batch);
    let lines_b = Lines::of_b(problem.b_layout, problem.batch);
    let along_k = Fetch::of(if few_rows { lines_b } else { lines_a }, true).along_k;
    // Groups and teams add up by halves: a device may allow any number of threads.
    let most = power_of_two(limits.workgroup_threads.min(limits.tuning.skinny_threads));
    // A thread with many sums has no registers to share a processor with a thousand others.
    let wide = if few <= 4 { most } else { most.min(256) };
    let threads = if along_k { ALONG_THREADS.min(most) } else { wide };
    let team = if along_k {
        let size = limits.subgroup_lanes;
        let subgroup = size > 1 && threads.is_multiple_of(size);
        Team::Along {
            threads: if subgroup { size } else { threads.min(32) },
            lines: if few <= 4 { 2 } else { 4 },
            subgroup,
        }
    } else {
        let element = if few_rows { problem.b } else { problem.a };
        // At most half of the threads, so that there are groups; a power of two.
        let lanes = (ACROSS_BYTES * 8 / (4 * element.bits() as u32)).min(threads / 2).max(1);
        let lanes = filling(problem, &limits.tuning, element, lanes);
        let groups = threads / lanes;
        Team::Across { lanes, groups, together: (limits.subgroup_lanes / lanes).clamp(1, groups) }
    };
    let workgroup = threads;
    let (lines, k_tile) = match team {
        Team::Across { lanes, groups, .. } => (lanes * 4, groups * 4),
        Team::Along { threads, lines, .. } => (workgroup / threads * lines, threads * 4),
    };
    let way = if along_k { "along" } else { "across" };
    Ok(Kernel {
        name: format!("skinny {way} {few}x{lines}"),
        body: Body::Skinny,
        block: if few_rows { [few, lines] } else { [lines, few] },
        thread: [1, 1],
        k_tile,
        num_buffers: 0,
        a: Fetch::SCALAR,
        b: Fetch::SCALAR,
        store_width: 1,
        config: None,
        units: None,
        sizes: None,
        slices: None,
        skinny: Some(Skinny { few_rows, few, threads, team }),
    })
}

/// The largest power of two that is at most `count`, and 1 at least.
fn power_of_two(count: usize) -> u32 {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    1 << count.checked_ilog2().unwrap_or(0)
}

/// Fewer lanes where a workgroup of `lanes` would take so many lines that processors are left idle:
/// parts of a cache line are read by neighbours at about the same time.
///
/// Floats reach the memory's bandwidth from a third of the processors. Integers take the rest as well,
/// because each is converted, and scaled, by whoever reads it (measured, `docs/speed.md`).
fn filling(problem: &Problem, tuning: &Tuning, element: ElementType, mut lanes: u32) -> u32 {
    let many = problem.m.max(problem.n);
    let workgroups =
        |lanes: u32| many.div_ceil(4 * lanes as usize).saturating_mul(problem.batch.max(1));
    let integers = matches!(element, ElementType::I8 | ElementType::I4);
    let wanted = if integers { tuning.processors } else { tuning.processors / 3 };
    while lanes > LEAST_LANES && workgroups(lanes) < wanted {
        lanes /= 2;
    }
    lanes
}

/// Slices of K that fill the device where the lines alone do not.
pub(super) fn slices(problem: &Problem, tuning: &Tuning) -> usize {
    let workgroups = problem.m.max(problem.n).div_ceil(32).saturating_mul(problem.batch).max(1);
    if !tuning.slices || workgroups >= tuning.processors / 2 {
        return 1;
    }
    (4 * tuning.processors).div_ceil(workgroups).min(problem.k / LEAST_SLICE).max(1)
}

#[cfg(test)]
mod tests {
    use lapidary_core::{ElementType, Error, KernelChoice, Problem};

    use super::filling;
    use crate::decide::{Tuning, decide};
    use crate::limits::DeviceLimits;

    /// A cache line of i4 is 256 columns; 4096 columns would be 16 workgroups for 132 processors.
    #[test]
    fn no_processor_is_idle_for_the_sake_of_whole_cache_lines() {
        let lanes = |n, batch, element, lanes| {
            filling(&Problem::new(1, n, 4096).batch(batch), &Tuning::HOPPER, element, lanes)
        };
        use ElementType::{F16, F32, I4, I8};
        assert_eq!(lanes(4096, 1, F32, 8), 8);
        assert_eq!([lanes(4096, 1, F16, 16), lanes(1024, 1, F16, 16)], [16, 8]);
        assert_eq!([lanes(4096, 1, I8, 32), lanes(4096, 1, I4, 64)], [8, 8]);
        assert_eq!([lanes(16_384, 1, I8, 32), lanes(262_144, 1, I4, 64)], [16, 64]);
        assert_eq!(lanes(4096, 8, I8, 32), 32);
    }

    /// Whatever number of threads a device allows, sums are halved without a rest.
    #[test]
    fn any_number_of_threads_is_shared_out_by_halves() {
        use crate::decide::{Skinny, Team};
        let features = wgpu::Features::empty();
        let default = DeviceLimits::from_limits(&wgpu::Limits::defaults(), features, false);
        for threads in (1..=1100).step_by(7).chain([2, 4, 8, 192, 384, 1024]) {
            for element in [ElementType::F32, ElementType::F16, ElementType::I4] {
                for [m, n] in [[1, 700], [700, 1], [16, 700]] {
                    let limits = DeviceLimits {
                        workgroup_threads: threads,
                        tuning: Tuning::HOPPER,
                        ..default
                    };
                    let problem = Problem::new(m, n, 640).factors(ElementType::F32, element);
                    let kernel = super::kernel(&problem, &limits).expect("a kernel");
                    let Some(Skinny { threads: own, team, .. }) = kernel.skinny else {
                        panic!("{kernel:?}")
                    };
                    assert!(own as usize <= threads && own.is_power_of_two());
                    assert!(kernel.block.iter().all(|&side| side > 0), "{kernel:?}");
                    let parts = match team {
                        Team::Across { lanes, groups, together } => {
                            assert_eq!(lanes * groups, own);
                            [lanes, groups, together]
                        }
                        Team::Along { threads, .. } => [threads, own / threads, 1],
                    };
                    assert!(parts.iter().all(|part| part.is_power_of_two()), "{parts:?}");
                }
            }
        }
    }

    /// Its groups add up in workgroup memory: where there is too little, another kernel is chosen.
    #[test]
    fn little_workgroup_memory_is_respected() {
        let problem = Problem::new(1, 64, 256);
        let features = wgpu::Features::empty();
        let wide = DeviceLimits::from_limits(&wgpu::Limits::downlevel_defaults(), features, false);
        let needs = decide(&problem, &wide, KernelChoice::Skinny, "a device").expect("plans");
        let limits = DeviceLimits { workgroup_bytes: needs.summary.workgroup_bytes - 1, ..wide };
        match decide(&problem, &limits, KernelChoice::Skinny, "a device") {
            Err(Error::LimitExceeded { what, requested, limit }) => {
                assert_eq!((what, requested), ("bytes of workgroup memory", limit + 1));
            }
            other => panic!("{other:?}"),
        }
        let other = decide(&problem, &limits, KernelChoice::Auto, "a device").expect("plans");
        assert!(other.summary.workgroup_bytes <= limits.workgroup_bytes, "{:?}", other.summary);
    }
}
