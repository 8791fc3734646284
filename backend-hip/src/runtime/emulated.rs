//! The emulator as a runtime: code objects of gfx942 and gfx950 run on the CPU, checked as they run.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lapidary_cdna::Error as EmulatorError;
use lapidary_cdna::check::Checks;
use lapidary_cdna::exec::{Launch, Machine, Order, Prepared, Report, Workgroups};
use lapidary_cdna::loader::{ArgValue, CodeObject as Image, ValueKind};
use lapidary_cdna::{Arch, exec::MAX_BYTES};

use super::{Description, Event, Function, KernelLaunch, Runtime, RuntimeError, Stream};
use crate::compile::CodeObject;
use crate::target::Target;

/// Launches that are remembered; the oldest makes room.
const REMEMBERED: usize = 64;
/// Allocations may be read up to a multiple of this.
const PADDING: u64 = 16;
/// What padding holds; a kernel that changes it wrote past its operand.
const PADDING_BYTE: u8 = 0xff;

/// How kernels run on the emulator.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
pub struct EmulatorSettings {
    /// Whether missing waits, races, hazards, uninitialised and misaligned reads and divergent barriers
    /// are looked for. Accesses out of bounds always are. The default is yes.
    pub checks: bool,
    /// Whether LDS bank conflicts and cache lines are counted. The default is yes.
    pub count_memory: bool,
    /// The order of waves and workgroups. The default is in turn, by rising number.
    pub order: Order,
    /// The workgroups that run. The default is all.
    pub workgroups: Workgroups,
}

impl Default for EmulatorSettings {
    fn default() -> Self {
        Self {
            checks: true,
            count_memory: true,
            order: Order::RoundRobin,
            workgroups: Workgroups::All,
        }
    }
}

/// A launch that the emulator has run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Launched {
    /// The kernel's name.
    pub kernel: String,
    /// The [`key`](CodeObject::key) of the code object it is from.
    pub key: String,
    /// Workgroups of the grid, also where only some of them ran.
    pub grid: [u32; 3],
    /// Threads of a workgroup.
    pub threads: [u32; 3],
    /// Findings and counters.
    pub report: Report,
}

/// An emulated device.
///
/// Everything a launch enqueues is done when the call returns. A finding of the checks is an error of
/// the launch.
#[derive(Debug)]
pub struct Emulated {
    description: Description,
    arch: Arch,
    /// Its own threads: a caller that computes on rayon's pool may wait for this device with the whole
    /// pool.
    pool: rayon::ThreadPool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    machine: Machine,
    settings: EmulatorSettings,
    /// Bytes asked for, by address.
    sizes: BTreeMap<u64, u64>,
    functions: Vec<Arc<Loaded>>,
    launched: VecDeque<Launched>,
}

#[derive(Debug)]
struct Loaded {
    key: String,
    name: String,
    prepared: Prepared,
}

impl Emulated {
    /// A device of the given target with empty memory.
    ///
    /// # Errors
    /// [`RuntimeError::Unavailable`] for targets other than gfx942 and gfx950.
    pub fn new(target: Target) -> Result<Self, RuntimeError> {
        let (arch, compute_units) = match target {
            Target::Gfx942 => (Arch::Gfx942, 304),
            Target::Gfx950 => (Arch::Gfx950, 256),
            Target::Gfx90a | Target::Gfx1100 | Target::Gfx1201 => {
                return Err(RuntimeError::Unavailable {
                    reason: format!("{target} is not emulated: gfx942 and gfx950 are"),
                });
            }
        };
        let pool = rayon::ThreadPoolBuilder::new().build().map_err(|error| {
            RuntimeError::Failed { operation: "starting threads", message: error.to_string() }
        })?;
        let mut description = Description::new(
            format!("{target}, emulated on the CPU"),
            concat!("lapidary-cdna ", env!("CARGO_PKG_VERSION")),
            target,
        );
        description.emulated = true;
        description.compute_units = compute_units;
        description.memory_bytes = MAX_BYTES;
        description.properties =
            vec![("speed".into(), "functional only: no figure of time means anything".into())];
        Ok(Self { description, arch, pool, state: Mutex::new(State::new()) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held left at worst an incomplete launch behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How kernels run.
    #[must_use]
    pub fn settings(&self) -> EmulatorSettings {
        self.state().settings.clone()
    }

    /// Changes how the kernels launched from now on run.
    pub fn configure(&self, change: impl FnOnce(&mut EmulatorSettings)) {
        change(&mut self.state().settings);
    }

    /// The last launches, oldest first.
    #[must_use]
    pub fn launches(&self) -> Vec<Launched> {
        self.state().launched.iter().cloned().collect()
    }

    /// Forgets the launches so far.
    pub fn forget_launches(&self) {
        self.state().launched.clear();
    }
}

impl State {
    fn new() -> Self {
        Self { machine: Machine::new(), ..Self::default() }
    }

    /// Whether every allocation's padding is as it was made; the address of the first that is not.
    fn broken_padding(&self) -> Option<u64> {
        self.sizes.iter().find_map(|(&address, &bytes)| {
            let padding = bytes.next_multiple_of(PADDING) - bytes;
            let found = self.machine.memory.read(address + bytes, padding as usize).ok()?;
            found.iter().any(|&byte| byte != PADDING_BYTE).then_some(address)
        })
    }
}

/// A failed call as a runtime error.
fn failed(operation: &'static str) -> impl Fn(EmulatorError) -> RuntimeError {
    move |error| match error {
        EmulatorError::OutOfMemory { requested, .. } => RuntimeError::OutOfMemory { requested },
        other => RuntimeError::Failed { operation, message: other.to_string() },
    }
}

fn check_stream(stream: Stream) -> Result<(), RuntimeError> {
    if stream == Stream::DEFAULT {
        return Ok(());
    }
    Err(RuntimeError::Failed {
        operation: "using a stream",
        message: format!("{:#x} is no stream: the emulator has the default one only", stream.0),
    })
}

impl Runtime for Emulated {
    fn description(&self) -> &Description {
        &self.description
    }

    fn alloc(&self, bytes: u64) -> Result<u64, RuntimeError> {
        let state = &mut *self.state();
        let bytes = bytes.max(1);
        let padded = bytes
            .checked_next_multiple_of(PADDING)
            .ok_or(RuntimeError::OutOfMemory { requested: bytes })?;
        let name = format!("allocation {}", state.sizes.len());
        let memory = &mut state.machine.memory;
        let address = memory.alloc(&name, padded).map_err(failed("allocating"))?;
        let padding = vec![PADDING_BYTE; (padded - bytes) as usize];
        memory.write(address + bytes, &padding).map_err(failed("allocating"))?;
        state.sizes.insert(address, bytes);
        Ok(address)
    }

    fn free(&self, address: u64) -> Result<(), RuntimeError> {
        let state = &mut *self.state();
        state.machine.memory.free(address).map_err(failed("freeing"))?;
        state.sizes.remove(&address);
        Ok(())
    }

    fn write(&self, address: u64, bytes: &[u8], stream: Stream) -> Result<(), RuntimeError> {
        check_stream(stream)?;
        self.state().machine.memory.write(address, bytes).map_err(failed("copying to the device"))
    }

    fn read(&self, address: u64, into: &mut [u8], stream: Stream) -> Result<(), RuntimeError> {
        check_stream(stream)?;
        let memory = &self.state().machine.memory;
        let found = memory.read(address, into.len()).map_err(failed("copying to the host"))?;
        into.copy_from_slice(&found);
        Ok(())
    }

    fn fill(
        &self,
        address: u64,
        value: u8,
        count: u64,
        stream: Stream,
    ) -> Result<(), RuntimeError> {
        check_stream(stream)?;
        let bytes = vec![value; count as usize];
        self.state().machine.memory.write(address, &bytes).map_err(failed("filling"))
    }

    fn load(&self, object: &CodeObject, kernel: &str) -> Result<Function, RuntimeError> {
        let state = &mut *self.state();
        let known = |f: &Arc<Loaded>| f.key == object.key && f.name == kernel;
        if let Some(index) = state.functions.iter().position(known) {
            return Ok(Function(index as u64));
        }
        let operation = "loading a code object";
        let image = Arc::new(Image::parse(&object.bytes).map_err(failed(operation))?);
        let prepared = Prepared::new(&image, kernel).map_err(failed(operation))?;
        if prepared.arch() != self.arch {
            return Err(RuntimeError::Failed {
                operation,
                message: format!("it is for {}, the device is {}", prepared.arch(), self.arch),
            });
        }
        let loaded = Loaded { key: object.key.clone(), name: kernel.to_owned(), prepared };
        state.functions.push(Arc::new(loaded));
        Ok(Function(state.functions.len() as u64 - 1))
    }

    fn launch(
        &self,
        function: Function,
        launch: &KernelLaunch<'_>,
        stream: Stream,
    ) -> Result<(), RuntimeError> {
        check_stream(stream)?;
        let operation = "launching a kernel";
        let state = &mut *self.state();
        let unknown = || RuntimeError::Failed {
            operation,
            message: format!("{} is no function of this device", function.0),
        };
        let index = usize::try_from(function.0).map_err(|_| unknown())?;
        let loaded = Arc::clone(state.functions.get(index).ok_or_else(unknown)?);
        let settings = &state.settings;
        // On a worker of some pool, waiting for other workers would run the caller's other tasks
        // meanwhile, and those may want this device: the calling thread does all the work there.
        let worker = rayon::current_thread_index().is_some();
        let request = Launch {
            grid: launch.grid,
            workgroup: launch.threads,
            args: arguments(&loaded.prepared, launch.args)?,
            dynamic_lds: launch.dynamic_lds,
            order: settings.order,
            checks: if settings.checks { Checks::ALL } else { Checks::NONE },
            count_memory: settings.count_memory,
            workgroups: settings.workgroups.clone(),
            threads: worker.then_some(1),
            ..Launch::default()
        };
        let machine = &mut state.machine;
        let mut run = || machine.launch(&loaded.prepared, &request).map_err(failed(operation));
        let report = if worker { run()? } else { self.pool.install(run)? };
        let first = report.findings.first().map(ToString::to_string);
        let count = report.findings.len();
        if state.launched.len() == REMEMBERED {
            state.launched.pop_front();
        }
        state.launched.push_back(Launched {
            kernel: loaded.name.clone(),
            key: loaded.key.clone(),
            grid: launch.grid,
            threads: launch.threads,
            report,
        });
        let finding = |count, finding| {
            Err(RuntimeError::Finding { kernel: loaded.name.clone(), count, finding })
        };
        match (first, state.broken_padding()) {
            (Some(first), _) => finding(count, first),
            (None, Some(address)) => {
                finding(1, format!("it wrote past the end of the allocation at {address:#x}"))
            }
            (None, None) => Ok(()),
        }
    }

    fn synchronize(&self, stream: Stream) -> Result<(), RuntimeError> {
        check_stream(stream)
    }

    fn record(&self, stream: Stream) -> Result<Option<Event>, RuntimeError> {
        check_stream(stream)?;
        Ok(None)
    }

    fn elapsed(&self, _from: Event, _to: Event) -> Result<f64, RuntimeError> {
        Err(RuntimeError::Failed {
            operation: "timing",
            message: "the emulator has no device clock".into(),
        })
    }

    fn release(&self, _event: Event) {}
}

/// Argument bytes cut into the kernel's explicit arguments.
fn arguments(prepared: &Prepared, bytes: &[u8]) -> Result<Vec<ArgValue>, RuntimeError> {
    let explicit = prepared
        .kernel()
        .meta
        .args
        .iter()
        .filter(|argument| !matches!(argument.kind, ValueKind::Hidden(_)));
    explicit
        .map(|argument| {
            let start = argument.offset as usize;
            bytes
                .get(start..start + argument.size as usize)
                .map(|bytes| ArgValue::Bytes(bytes.to_vec()))
                .ok_or_else(|| RuntimeError::Failed {
                    operation: "launching a kernel",
                    message: format!(
                        "{} bytes of arguments, one of {} bytes lies at {start}",
                        bytes.len(),
                        argument.size
                    ),
                })
        })
        .collect()
}
