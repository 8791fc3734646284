//! Launching kernels: preparation, the state waves start in, and the report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rayon::prelude::*;

use super::counters::{Counters, Tally};
use super::entry::{DISPATCH_BASE, KERNARG_BASE, POISON, QUEUE_BASE, entry, packet, user_scalars};
use super::group::{Group, Lds};
use super::machine::{self, Order, Outcome, Random};
use super::memory::Memory;
use super::plan::Plan;
use super::wave::{Mode, PRIVATE_BASE_HI, SHARED_BASE_HI, State, Track, Wave, number};
use crate::check::hazards::HazardTracker;
use crate::check::uninit::Initialised;
use crate::check::waits::Waits;
use crate::check::{Checks, Finding, Sink};
use crate::loader::args::{self, ArgValue, Geometry, HiddenValues};
use crate::loader::{CodeObject, Kernel, LOAD_BASE};
use crate::{Arch, Error, Result};

/// Compilers load arguments in pieces of up to so many bytes, so the segment is padded to a multiple.
const KERNARG_PADDING: usize = 64;
/// The most scratch bytes of a lane: what the hardware's 13-bit count of KiB a wave can state.
const MAX_SCRATCH: u32 = 8191 * 1024 / 64;
/// The most bytes of kernel arguments.
const MAX_KERNARG: u32 = 64 * 1024;
/// The most workgroups of a grid that is run whole.
const MAX_GRID: u64 = 1 << 24;
/// The most work-items of a workgroup.
const MAX_WORKGROUP: u32 = 1024;
/// Registers beyond a wave's allocation that exist in the emulator, so that an operand that starts inside cannot end
/// outside the file.
const SPARE_REGISTERS: usize = 32;

/// Which workgroups of a grid run.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Workgroups {
    /// All.
    #[default]
    All,
    /// Those with the given ids; the rest of the grid does nothing.
    Only(Vec<[u32; 3]>),
}

/// One launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Workgroups in x, y and z. The default is 1, 1, 1.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y and z. The default is 64, 1, 1.
    pub workgroup: [u32; 3],
    /// The explicit arguments in order. The default is none.
    pub args: Vec<ArgValue>,
    /// Bytes of LDS beyond the kernel's static ones. The default is 0.
    pub dynamic_lds: u32,
    /// The order of waves and workgroups. The default is [`Order::RoundRobin`].
    pub order: Order,
    /// The checks that run. The default is [`Checks::ALL`].
    pub checks: Checks,
    /// Instructions that one wave may execute. The default is 100 million.
    pub instruction_budget: u64,
    /// Host threads: `None` uses rayon's pool, `Some(1)` the calling thread. The default is `None`.
    pub threads: Option<usize>,
    /// The workgroups that run. The default is all.
    pub workgroups: Workgroups,
    /// Whether bank conflicts and cache lines are counted. The default is true.
    pub count_memory: bool,
    /// Whether arguments are preloaded where the kernel asks for it; otherwise its fallback code loads them. The default is
    /// true.
    pub preload: bool,
}

impl Default for Launch {
    fn default() -> Launch {
        Launch {
            grid: [1; 3],
            workgroup: [64, 1, 1],
            args: Vec::new(),
            dynamic_lds: 0,
            order: Order::RoundRobin,
            checks: Checks::ALL,
            instruction_budget: 100_000_000,
            threads: None,
            workgroups: Workgroups::All,
            count_memory: true,
            preload: true,
        }
    }
}

/// What a launch did and what the checks found.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The findings, by the order of their workgroups.
    pub findings: Vec<Finding>,
    /// The counters.
    pub counters: Counters,
    /// Whether every workgroup ran to its end. Where not, a finding says why.
    pub complete: bool,
}

impl Report {
    /// Whether every workgroup ran to its end and no check found anything.
    pub fn is_clean(&self) -> bool {
        self.complete && self.findings.is_empty()
    }
}

/// A kernel decoded and prepared for launching, with its code object.
#[derive(Clone, Debug)]
pub struct Prepared {
    object: Arc<CodeObject>,
    kernel: Kernel,
    plan: Plan,
}

impl Prepared {
    /// Decodes the kernel of that name.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`], and what decoding reports.
    pub fn new(object: &Arc<CodeObject>, name: &str) -> Result<Prepared> {
        let kernel = object.kernel(name)?.clone();
        let plan = Plan::new(object, &kernel)?;
        Ok(Prepared { object: Arc::clone(object), kernel, plan })
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The kernel's metadata and descriptor.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The architecture it is compiled for.
    pub fn arch(&self) -> Arch {
        self.plan.arch
    }

    /// Decoded instructions, those of callable functions included.
    pub fn instructions(&self) -> usize {
        self.plan.steps.len()
    }
}

/// An emulated device: its memory, and the code object whose image is mapped.
#[derive(Debug, Default)]
pub struct Machine {
    /// Global memory.
    pub memory: Memory,
    image: Option<Arc<CodeObject>>,
}

/// What all workgroups of a launch share.
struct Dispatch<'a> {
    prepared: &'a Prepared,
    launch: &'a Launch,
    memory: &'a Memory,
    /// Scalar registers at the start, without the workgroup's own.
    scalars: Vec<u32>,
    scalars_set: u128,
    entry: usize,
    lds_bytes: u32,
    waves: u32,
    stop: AtomicBool,
}

/// What one host thread gathers.
struct Worker {
    tally: Tally,
    sink: Sink,
    waves: Vec<Wave>,
    complete: bool,
}

impl Machine {
    /// A device with empty memory.
    pub fn new() -> Machine {
        Machine { memory: Memory::new(), image: None }
    }

    /// Runs a kernel.
    ///
    /// Findings are in the report; what stops a workgroup early (an instruction budget, a trap) is one of them.
    ///
    /// # Errors
    /// [`Error::BadLaunch`] for a geometry or an LDS size that the kernel or the device does not allow,
    /// [`Error::BadArguments`], and [`Error::UnsupportedInstruction`] when a wave meets one.
    pub fn launch(&mut self, prepared: &Prepared, launch: &Launch) -> Result<Report> {
        let kernel = &prepared.kernel;
        let lds_bytes = validate(prepared, launch)?;
        self.map_image(prepared)?;
        let geometry = Geometry { grid: launch.grid, block: launch.workgroup };
        let hidden = HiddenValues {
            dynamic_lds_bytes: launch.dynamic_lds,
            private_base_hi: PRIVATE_BASE_HI,
            shared_base_hi: SHARED_BASE_HI,
        };
        let mut segment = args::segment(&kernel.meta, &launch.args, &geometry, &hidden)?;
        segment.resize(segment.len().max(1).next_multiple_of(KERNARG_PADDING), 0);
        self.memory.map("kernel arguments", KERNARG_BASE, &segment, false)?;
        self.memory.map("dispatch packet", DISPATCH_BASE, &packet(prepared, launch), false)?;
        self.memory.map("queue", QUEUE_BASE, &[0; 256], false)?;

        let (scalars, scalars_set) = user_scalars(&kernel.descriptor, &segment);
        let dispatch = Dispatch {
            prepared,
            launch,
            memory: &self.memory,
            scalars,
            scalars_set,
            entry: entry(prepared, launch)?,
            lds_bytes,
            waves: launch.workgroup.iter().product::<u32>().div_ceil(Arch::WAVE as u32),
            stop: AtomicBool::new(false),
        };
        let worker = dispatch.run()?;
        let findings = worker.sink.raw.into_iter().map(|raw| {
            let inst = prepared.plan.steps.get(raw.step as usize).map(|step| &step.inst);
            Finding {
                kind: raw.kind,
                kernel: kernel.meta.name.clone(),
                workgroup: raw.workgroup,
                wave: raw.wave,
                lane: raw.lane,
                pc: inst.map_or(0, |inst| inst.address),
                text: inst.map_or_else(String::new, ToString::to_string),
                address: raw.address,
                detail: raw.detail,
                count: raw.count,
            }
        });
        Ok(Report {
            findings: findings.collect(),
            counters: worker
                .tally
                .finish(&prepared.plan, self.memory.allocations().map(|(name, ..)| name)),
            complete: worker.complete,
        })
    }

    /// Maps the segments of a kernel's code object, unless they are.
    fn map_image(&mut self, prepared: &Prepared) -> Result<()> {
        if self.image.as_ref().is_some_and(|image| Arc::ptr_eq(image, &prepared.object)) {
            return Ok(());
        }
        if let Some(old) = self.image.take() {
            for segment in &old.segments {
                self.memory.free(LOAD_BASE + segment.address)?;
            }
        }
        for segment in &prepared.object.segments {
            let address = LOAD_BASE + segment.address;
            self.memory.map("code object", address, &segment.bytes, segment.writable)?;
        }
        self.image = Some(Arc::clone(&prepared.object));
        Ok(())
    }
}

/// Checks the geometry; returns the workgroup's LDS bytes.
fn validate(prepared: &Prepared, launch: &Launch) -> Result<u32> {
    let meta = &prepared.kernel.meta;
    let bad = |reason: String| Error::BadLaunch { kernel: meta.name.clone(), reason };
    let items =
        launch.workgroup.iter().try_fold(1u32, |n, &d| n.checked_mul(d)).unwrap_or(u32::MAX);
    let limit = meta.max_workgroup_size.min(MAX_WORKGROUP);
    if items == 0 || items > limit {
        let [x, y, z] = launch.workgroup;
        return Err(bad(format!(
            "a workgroup of {x}x{y}x{z} work-items: 1 to {limit} are allowed"
        )));
    }
    let lds =
        u64::from(prepared.kernel.descriptor.group_segment_bytes) + u64::from(launch.dynamic_lds);
    let lds_limit = prepared.plan.arch.lds_bytes();
    if lds > u64::from(lds_limit) {
        return Err(bad(format!(
            "{lds} bytes of LDS, {} of them dynamic: {} has {lds_limit}",
            launch.dynamic_lds, prepared.plan.arch
        )));
    }
    let scratch = prepared.kernel.descriptor.scratch_bytes();
    if scratch > MAX_SCRATCH {
        return Err(bad(format!("{scratch} bytes of scratch a lane: the limit is {MAX_SCRATCH}")));
    }
    if meta.kernarg_bytes > MAX_KERNARG {
        let bytes = meta.kernarg_bytes;
        return Err(bad(format!("{bytes} bytes of arguments: the limit is {MAX_KERNARG}")));
    }
    let total = launch.grid.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::from(d)));
    if launch.workgroups == Workgroups::All && total.is_none_or(|total| total > MAX_GRID) {
        let [x, y, z] = launch.grid;
        return Err(bad(format!(
            "a grid of {x}x{y}x{z} workgroups: the limit is {MAX_GRID} unless a sample is named"
        )));
    }
    if let Workgroups::Only(ids) = &launch.workgroups {
        let outside = ids.iter().find(|id| (0..3).any(|d| id[d] >= launch.grid[d]));
        if let Some([x, y, z]) = outside {
            let [gx, gy, gz] = launch.grid;
            return Err(bad(format!("workgroup {x},{y},{z} is not in a grid of {gx}x{gy}x{gz}")));
        }
    }
    Ok(lds as u32)
}

impl Dispatch<'_> {
    fn worker(&self) -> Worker {
        Worker {
            tally: Tally::new(self.prepared.plan.steps.len(), self.memory.count()),
            sink: Sink::default(),
            waves: Vec::new(),
            complete: true,
        }
    }

    fn run(&self) -> Result<Worker> {
        let [gx, gy, _] = self.launch.grid.map(u64::from);
        let mut ids: Vec<[u32; 3]> = match &self.launch.workgroups {
            Workgroups::Only(ids) => ids.clone(),
            Workgroups::All => (0..self.launch.grid.iter().map(|&d| u64::from(d)).product::<u64>())
                .map(|n| [(n % gx) as u32, (n / gx % gy) as u32, (n / gx / gy) as u32])
                .collect(),
        };
        match self.launch.order {
            Order::RoundRobin => {}
            Order::Reverse => ids.reverse(),
            Order::Random(seed) => {
                let mut random = Random::new(seed);
                for at in (1..ids.len()).rev() {
                    ids.swap(at, random.below(at as u64 + 1) as usize);
                }
            }
        }
        let serial = |ids: &[[u32; 3]]| {
            ids.iter().try_fold(self.worker(), |worker, &id| self.workgroup(worker, id))
        };
        let parallel = |ids: &[[u32; 3]]| {
            ids.par_iter()
                .try_fold(|| self.worker(), |worker, &id| self.workgroup(worker, id))
                .try_reduce(|| self.worker(), |a, b| Ok(a.merge(b)))
        };
        match self.launch.threads {
            Some(1) => serial(&ids),
            _ if ids.len() < 2 => serial(&ids),
            None => parallel(&ids),
            Some(threads) => rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .map_err(|error| Error::BadLaunch {
                    kernel: self.prepared.plan.kernel.clone(),
                    reason: format!("{threads} host threads: {error}"),
                })?
                .install(|| parallel(&ids)),
        }
    }

    fn workgroup(&self, mut worker: Worker, id: [u32; 3]) -> Result<Worker> {
        if self.stop.load(Relaxed) {
            worker.complete = false;
            return Ok(worker);
        }
        let checked = self.launch.checks.any();
        let mut waves = std::mem::take(&mut worker.waves);
        waves.truncate(self.waves as usize);
        for n in 0..self.waves {
            match waves.get_mut(n as usize) {
                Some(wave) => self.start(wave, n, id, checked),
                None => {
                    let mut wave = self.blank();
                    self.start(&mut wave, n, id, checked);
                    waves.push(wave);
                }
            }
        }
        let mut lds = Lds::new(self.lds_bytes, checked);
        lds.words.fill(POISON);
        let mut group = Group {
            plan: &self.prepared.plan,
            memory: self.memory,
            checks: self.launch.checks,
            count_memory: self.launch.count_memory,
            lds,
            sink: std::mem::take(&mut worker.sink),
            tally: std::mem::take(&mut worker.tally),
            hint: 0,
            done: Vec::new(),
        };
        group.sink.workgroup = id;
        let (order, budget) = (self.launch.order, self.launch.instruction_budget);
        let outcome = if checked {
            machine::run::<true>(&mut group, &mut waves, order, budget)?
        } else {
            machine::run::<false>(&mut group, &mut waves, order, budget)?
        };
        group.tally.waves += u64::from(self.waves);
        group.tally.workgroups += 1;
        let (sink, tally) = (group.sink, group.tally);
        if outcome == Outcome::Stopped {
            self.stop.store(true, Relaxed);
            worker.complete = false;
        }
        Ok(Worker { tally, sink, waves, complete: worker.complete })
    }

    fn blank(&self) -> Wave {
        let plan = &self.prepared.plan;
        Wave {
            id: 0,
            s: Vec::new(),
            scc: false,
            mode: Mode { bits: 0 },
            v: vec![[POISON; 64]; plan.registers + SPARE_REGISTERS],
            accum: plan.accum,
            pc: 0,
            lanes: 0,
            state: State::Running,
            write_mask: !0,
            written: 0,
            relative: false,
            hollow: [0; 4],
            scratch: Vec::new(),
            scratch_initialised: Vec::new(),
            scratch_bytes: 0,
            executed: 0,
            track: None,
        }
    }

    /// Puts a wave into the state in which the hardware starts it.
    fn start(&self, wave: &mut Wave, n: u32, id: [u32; 3], checked: bool) {
        let descriptor = &self.prepared.kernel.descriptor;
        let [bx, by, _] = self.launch.workgroup;
        let items: u32 = self.launch.workgroup.iter().product();
        let first = n * Arch::WAVE as u32;
        let present = (items - first).min(Arch::WAVE as u32);

        wave.id = n;
        wave.s.clone_from(&self.scalars);
        let mut set = self.scalars_set;
        let mut next = usize::from(descriptor.user_sgprs);
        let mut push = |value: u32| {
            wave.s[next] = value;
            set |= 1 << next;
            next += 1;
        };
        for (enabled, value) in descriptor.workgroup_id.into_iter().zip(id) {
            if enabled {
                push(value);
            }
        }
        if descriptor.workgroup_info {
            push(0);
        }
        wave.lanes = if present == 64 { !0 } else { (1 << present) - 1 };
        wave.set_pair(number::EXEC, wave.lanes);
        wave.scc = false;
        wave.mode = Mode {
            bits: u32::from(descriptor.float_mode)
                | u32::from(descriptor.dx10_clamp) << 8
                | u32::from(descriptor.ieee_mode) << 9
                | u32::from(descriptor.fp16_overflow) << 23,
        };
        for register in &mut wave.v {
            register.fill(POISON);
        }
        for lane in 0..present {
            let flat = first + lane;
            let item = [flat % bx, flat / bx % by, flat / bx / by];
            let packed = (0..usize::from(descriptor.workitem_id_dims))
                .fold(0, |packed, d| packed | item[d] << (10 * d));
            wave.v[0][lane as usize] = packed;
        }
        wave.pc = self.entry;
        wave.state = State::Running;
        wave.write_mask = !0;
        wave.written = 0;
        wave.relative = false;
        wave.executed = 0;
        wave.scratch_bytes = descriptor.scratch_bytes();
        let dwords = wave.scratch_bytes.div_ceil(4) as usize * Arch::WAVE;
        wave.scratch.clear();
        wave.scratch.resize(dwords, POISON);
        wave.scratch_initialised.clear();
        wave.track = checked.then(|| {
            wave.scratch_initialised.resize(dwords, 0);
            let mut initialised = Initialised::new(wave.v.len());
            initialised.vector[0] = wave.lanes;
            initialised.scalar = set;
            Box::new(Track {
                initialised,
                waits: Waits::default(),
                hazards: HazardTracker::new(),
                barriers: 0,
            })
        });
    }
}

impl Worker {
    fn merge(mut self, other: Worker) -> Worker {
        self.sink.merge(other.sink);
        self.tally = self.tally.merge(other.tally);
        self.complete &= other.complete;
        self
    }
}
