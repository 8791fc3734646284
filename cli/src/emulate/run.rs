//! From files to a launch and back to files.

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use lapidary_cdna::check::Checks;
use lapidary_cdna::exec::{Launch, MAX_BYTES, Machine, Prepared, Workgroups};
use lapidary_cdna::loader::{Arg, ArgValue, CodeObject, Kernel, LineTable, ValueKind};

use super::arguments::Arguments;
use super::error::EmulateError;
use super::report::Report;
use super::value::{Argument, Value};
use crate::failure::Failure;
use crate::io::raw::{self, RawDestination};
use crate::print;

/// Bytes of an address in the argument segment.
const ADDRESS_BYTES: usize = 8;

/// A buffer of the launch.
pub(super) struct Buffer {
    /// How the emulator's reports call it.
    pub(super) name: String,
    pub(super) file: String,
    pub(super) bytes: u64,
    address: u64,
    /// Where its contents go afterwards.
    output: Option<RawDestination>,
}

/// Loads, launches, writes the outputs and reports, in that order.
///
/// # Errors
/// [`Failure`], before anything runs where the code object, the files or the arguments are at fault.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let emulator = |error| EmulateError::Emulator { file: arguments.file.clone(), error };
    let file = raw::read(&arguments.file, MAX_BYTES)?;
    let object = Arc::new(CodeObject::parse(&file).map_err(emulator)?);
    let name = kernel_name(arguments, &object)?;
    let prepared = Prepared::new(&object, name).map_err(emulator)?;
    check_arguments(prepared.kernel(), &arguments.args)?;

    let mut machine = Machine::new();
    let (args, buffers) = load(&mut machine, prepared.kernel(), arguments)?;
    let launch = Launch {
        grid: arguments.grid.0,
        workgroup: arguments.block.0,
        args,
        dynamic_lds: arguments.lds,
        order: arguments.order,
        checks: if arguments.unchecked { Checks::NONE } else { Checks::ALL },
        instruction_budget: arguments.budget,
        threads: arguments.threads.map(usize::from),
        workgroups: arguments
            .workgroups
            .as_ref()
            .map_or(Workgroups::All, |sample| Workgroups::Only(sample.0.clone())),
        ..Launch::default()
    };
    let start = Instant::now();
    let ran = machine.launch(&prepared, &launch).map_err(emulator)?;
    let elapsed = start.elapsed();

    for buffer in &buffers {
        if let Some(output) = &buffer.output {
            // The size was one of an allocation, so it fits the address space.
            let bytes = usize::try_from(buffer.bytes).unwrap_or(usize::MAX);
            output.write(&machine.memory.read(buffer.address, bytes).map_err(emulator)?)?;
        }
    }
    let report = Report::new(&prepared, &launch, &buffers, &ran, &LineTable::parse(&file), elapsed);
    print::report(&report, arguments.json)?;
    Ok(if ran.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The kernel asked for, or the only one.
fn kernel_name<'a>(
    arguments: &'a Arguments,
    object: &'a CodeObject,
) -> Result<&'a str, EmulateError> {
    let available = || object.kernels.iter().map(|kernel| kernel.meta.name.clone()).collect();
    let file = || arguments.file.clone();
    match (&arguments.kernel, &object.kernels[..]) {
        (Some(name), kernels) if kernels.iter().any(|kernel| &kernel.meta.name == name) => Ok(name),
        (Some(name), _) => Err(EmulateError::NoSuchKernel {
            file: file(),
            name: name.clone(),
            available: available(),
        }),
        (None, [only]) => Ok(&only.meta.name),
        (None, _) => Err(EmulateError::KernelNeeded { file: file(), available: available() }),
    }
}

/// The arguments that a caller passes; the launcher fills in the hidden ones.
fn explicit(kernel: &Kernel) -> impl Iterator<Item = &Arg> {
    kernel.meta.args.iter().filter(|arg| !matches!(arg.kind, ValueKind::Hidden(_)))
}

/// What the kernel takes in one place, for messages.
fn describe(arg: &Arg) -> String {
    match arg.kind {
        ValueKind::GlobalBuffer => format!("buffer ({}-byte address)", arg.size),
        ValueKind::DynamicSharedPointer => format!("LDS offset of {} bytes", arg.size),
        ValueKind::ByValue | ValueKind::Hidden(_) => format!("value of {} bytes", arg.size),
    }
}

/// The argument's place, with its name where the compiler kept it.
fn place(index: usize, arg: &Arg) -> String {
    match &arg.name {
        // clang marks pointers whose address space it inferred.
        Some(name) => format!("{index} ({})", name.strip_suffix(".coerce").unwrap_or(name)),
        None => index.to_string(),
    }
}

/// Checks number and kinds of the arguments, before a file is opened.
fn check_arguments(kernel: &Kernel, given: &[Argument]) -> Result<(), EmulateError> {
    let name = || kernel.meta.name.clone();
    let expected = explicit(kernel).count();
    if expected != given.len() {
        return Err(EmulateError::ArgumentCount {
            kernel: name(),
            expected: explicit(kernel)
                .enumerate()
                .map(|(index, arg)| format!("{}: {}", place(index, arg), describe(arg)))
                .collect(),
            given: given.len(),
        });
    }
    for (index, (arg, argument)) in explicit(kernel).zip(given).enumerate() {
        let found = match &argument.value {
            Value::Number { bytes, .. } => bytes.len(),
            Value::In { .. } | Value::InOut { .. } | Value::Out { .. } => ADDRESS_BYTES,
            // Its file says, see `load`.
            Value::Bytes { .. } => continue,
        };
        check_size(kernel, index, arg, argument, found)?;
        let is_number = matches!(&argument.value, Value::Number { kind, .. } if *kind != "u64");
        if arg.kind == ValueKind::GlobalBuffer && is_number {
            return Err(EmulateError::BufferExpected {
                place: place(index, arg),
                argument: argument.to_string(),
                kernel: name(),
            });
        }
    }
    Ok(())
}

fn check_size(
    kernel: &Kernel,
    index: usize,
    arg: &Arg,
    argument: &Argument,
    found: usize,
) -> Result<(), EmulateError> {
    if u64::try_from(found) == Ok(u64::from(arg.size)) {
        return Ok(());
    }
    Err(EmulateError::ArgumentSize {
        place: place(index, arg),
        argument: argument.to_string(),
        found,
        kernel: kernel.meta.name.clone(),
        expected: describe(arg),
    })
}

/// Fills the device's memory; returns the argument values and the buffers they point to.
fn load(
    machine: &mut Machine,
    kernel: &Kernel,
    arguments: &Arguments,
) -> Result<(Vec<ArgValue>, Vec<Buffer>), Failure> {
    let emulator = |error| EmulateError::Emulator { file: arguments.file.clone(), error };
    let mut values = Vec::with_capacity(arguments.args.len());
    let mut buffers = Vec::new();
    let mut outputs = HashSet::new();
    for (index, (arg, argument)) in explicit(kernel).zip(&arguments.args).enumerate() {
        let name = format!("argument {}", place(index, arg));
        let memory = &mut machine.memory;
        let (address, bytes, file) = match &argument.value {
            Value::Number { bytes, .. } => {
                values.push(ArgValue::Bytes(bytes.clone()));
                continue;
            }
            Value::Bytes { file } => {
                let bytes = raw::read(file, MAX_BYTES)?;
                check_size(kernel, index, arg, argument, bytes.len())?;
                values.push(ArgValue::Bytes(bytes));
                continue;
            }
            Value::In { file } => {
                let data = raw::read(file, MAX_BYTES)?;
                let address = memory.alloc_read_only(&name, &data).map_err(emulator)?;
                (address, data.len() as u64, file)
            }
            Value::InOut { file } => {
                let data = raw::read(file, MAX_BYTES)?;
                (memory.alloc_from(&name, &data).map_err(emulator)?, data.len() as u64, file)
            }
            Value::Out { file, bytes } => {
                (memory.alloc(&name, *bytes).map_err(emulator)?, *bytes, file)
            }
        };
        let output = match &argument.value {
            Value::InOut { .. } | Value::Out { .. } => {
                let output = RawDestination::new(file)?;
                if !outputs.insert(output.resolved()) {
                    return Err(EmulateError::SameOutput { file: file.clone() }.into());
                }
                Some(output)
            }
            Value::Number { .. } | Value::Bytes { .. } | Value::In { .. } => None,
        };
        values.push(ArgValue::U64(address));
        buffers.push(Buffer { name, file: file.clone(), bytes, address, output });
    }
    Ok((values, buffers))
}
