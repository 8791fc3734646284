//! The ELF container: segments, symbols, relocations and the kernels they make up.

use std::ops::Range;

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, Sym};

use super::descriptor::{DESCRIPTOR_BYTES, Descriptor};
use super::metadata::{self, KernelMetadata};
use crate::{Arch, Error, Result};

/// Where the image lies in the emulated address space: an ELF address `a` is at `LOAD_BASE + a`. Relocated pointers in
/// [`Segment::bytes`] already contain it.
pub const LOAD_BASE: u64 = 0x0000_6000_0000_0000;

/// The largest image a code object may ask for, from its lowest to its highest address.
pub const MAX_IMAGE_BYTES: u64 = 256 << 20;

/// How clang's offload bundles begin, plain and compressed.
const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED_BUNDLE: &[u8] = b"CCOB";
/// The machine number of AMDGPU.
const EM_AMDGPU: u16 = 224;
/// The note that holds the metadata.
const NT_AMDGPU_METADATA: u32 = 32;
/// A dynamic relocation: the load base plus the addend, 64 bits.
const R_AMDGPU_RELATIVE64: u32 = 13;

type Header = elf::FileHeader64<LE>;

/// A loaded part of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address in the ELF's own address space.
    pub address: u64,
    /// Contents, zero-filled to the memory size, relocated for [`LOAD_BASE`].
    pub bytes: Vec<u8>,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it holds code.
    pub executable: bool,
}

/// A function symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// Its bytes, as ELF addresses.
    pub range: Range<u64>,
}

/// A kernel: its metadata, its descriptor, and where its code is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What the metadata note says.
    pub meta: KernelMetadata,
    /// What the descriptor says.
    pub descriptor: Descriptor,
    /// The first instruction, an ELF address.
    pub entry: u64,
    /// The bytes of its function, as ELF addresses.
    pub code: Range<u64>,
}

/// A parsed code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeObject {
    /// The target it was compiled for.
    pub arch: Arch,
    /// The image.
    pub segments: Vec<Segment>,
    /// Kernels in the order of the metadata.
    pub kernels: Vec<Kernel>,
    /// Functions that are not kernels.
    pub functions: Vec<Function>,
}

fn bad(reason: impl std::fmt::Display) -> Error {
    Error::BadElf { reason: reason.to_string() }
}

impl CodeObject {
    /// Reads a code object.
    ///
    /// # Errors
    /// [`Error::BadElf`] for anything but a linked little-endian 64-bit AMDGPU ELF, [`Error::UnsupportedMachine`] for
    /// other targets, and the errors of the metadata and the descriptors.
    pub fn parse(data: &[u8]) -> Result<CodeObject> {
        if data.starts_with(BUNDLE) || data.starts_with(COMPRESSED_BUNDLE) {
            return Err(bad(
                "it is an offload bundle: compile with --no-gpu-bundle-output, or unbundle it",
            ));
        }
        let header = Header::parse(data).map_err(bad)?;
        let endian = header.endian().map_err(bad)?;
        if header.e_machine(endian) != EM_AMDGPU {
            return Err(bad(format!(
                "machine {} instead of {EM_AMDGPU}",
                header.e_machine(endian)
            )));
        }
        let e_flags = header.e_flags(endian);
        let arch = Arch::from_e_flags(e_flags)
            .ok_or(Error::UnsupportedMachine { e_flags, mach: e_flags as u8 })?;
        if header.e_type(endian) != elf::ET_DYN {
            return Err(bad("it is not linked (type is not ET_DYN)"));
        }
        let mut segments = load_segments(header, endian, data)?;
        let metas = read_metadata(header, endian, data)?;
        let symbols = read_symbols(header, endian, data)?;
        relocate(header, endian, data, &mut segments)?;

        let mut kernels = Vec::with_capacity(metas.len());
        for meta in metas {
            kernels.push(kernel(meta, &segments, &symbols)?);
        }
        let functions = symbols
            .iter()
            .filter(|symbol| symbol.function && symbol.size > 0)
            .filter_map(|symbol| {
                let end = symbol.address.checked_add(symbol.size)?;
                Some(Function { name: symbol.name.clone(), range: symbol.address..end })
            })
            .filter(|f| kernels.iter().all(|kernel| kernel.entry != f.range.start))
            .collect();
        Ok(CodeObject { arch, segments, kernels, functions })
    }

    /// The kernel of that name.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`] with the names there are.
    pub fn kernel(&self, name: &str) -> Result<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.meta.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.kernels.iter().map(|k| k.meta.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::UnknownKernel { name: name.to_owned(), known }
        })
    }

    /// The bytes of an ELF address range, if one segment holds all of it.
    pub fn bytes(&self, range: Range<u64>) -> Option<&[u8]> {
        slice(&self.segments, range)
    }
}

fn slice(segments: &[Segment], range: Range<u64>) -> Option<&[u8]> {
    segments.iter().find_map(|segment| {
        let start = usize::try_from(range.start.checked_sub(segment.address)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(segment.address)?).ok()?;
        segment.bytes.get(start..end)
    })
}

fn load_segments(header: &Header, endian: LE, data: &[u8]) -> Result<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    let (mut low, mut high) = (u64::MAX, 0u64);
    for program in header.program_headers(endian, data).map_err(bad)? {
        if program.p_type(endian) != elf::PT_LOAD {
            continue;
        }
        let file =
            program.data(endian, data).map_err(|()| bad("a segment lies outside the file"))?;
        let (address, size) = (program.p_vaddr(endian), program.p_memsz(endian));
        let end = address
            .checked_add(size)
            .filter(|end| end >> 40 == 0 && file.len() as u64 <= size)
            .ok_or_else(|| bad(format!("segment at {address:#x} with {size} bytes of memory")))?;
        (low, high) = (low.min(address), high.max(end));
        if high - low > MAX_IMAGE_BYTES {
            let span = high - low;
            return Err(bad(format!(
                "its image spans {span} bytes, the limit is {MAX_IMAGE_BYTES}"
            )));
        }
        if segments.iter().any(|s| address < s.address + s.bytes.len() as u64 && s.address < end) {
            return Err(bad(format!("the segment at {address:#x} overlaps another")));
        }
        let mut bytes = file.to_vec();
        bytes.resize(size as usize, 0);
        let flags = program.p_flags(endian);
        segments.push(Segment {
            address,
            bytes,
            writable: flags & elf::PF_W != 0,
            executable: flags & elf::PF_X != 0,
        });
    }
    Ok(segments)
}

fn read_metadata(header: &Header, endian: LE, data: &[u8]) -> Result<Vec<KernelMetadata>> {
    for program in header.program_headers(endian, data).map_err(bad)? {
        let Some(mut notes) = program.notes(endian, data).map_err(bad)? else { continue };
        while let Some(note) = notes.next().map_err(bad)? {
            if note.name() == b"AMDGPU" && note.n_type(endian) == NT_AMDGPU_METADATA {
                return metadata::parse(note.desc());
            }
        }
    }
    Err(Error::BadMetadata { reason: "there is no AMDGPU metadata note".to_owned() })
}

struct Symbol {
    name: String,
    address: u64,
    size: u64,
    function: bool,
}

/// The full symbol table, or the dynamic one of a stripped file.
fn read_symbols(header: &Header, endian: LE, data: &[u8]) -> Result<Vec<Symbol>> {
    let sections = header.sections(endian, data).map_err(bad)?;
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let table = sections.symbols(endian, data, kind).map_err(bad)?;
        if table.is_empty() {
            continue;
        }
        let mut symbols = Vec::new();
        for symbol in table.iter() {
            if symbol.is_undefined(endian) {
                continue;
            }
            let name = symbol.name(endian, table.strings()).map_err(bad)?;
            symbols.push(Symbol {
                name: String::from_utf8_lossy(name).into_owned(),
                address: symbol.st_value(endian),
                size: symbol.st_size(endian),
                function: symbol.st_type() == elf::STT_FUNC,
            });
        }
        return Ok(symbols);
    }
    Err(bad("it has no symbol table"))
}

/// Applies the dynamic relocations; only the base-relative kind appears in a code object without imports.
fn relocate(header: &Header, endian: LE, data: &[u8], segments: &mut [Segment]) -> Result<()> {
    let sections = header.sections(endian, data).map_err(bad)?;
    for section in sections.iter() {
        let Some((relocations, _)) = section.rela(endian, data).map_err(bad)? else { continue };
        for relocation in relocations {
            let kind = relocation.r_type(endian, false);
            let address = relocation.r_offset(endian);
            if kind != R_AMDGPU_RELATIVE64 {
                let reason = format!(
                    "relocation type {kind} at {address:#x}: only R_AMDGPU_RELATIVE64 ({R_AMDGPU_RELATIVE64}) is \
                     applied (an undefined symbol was imported)"
                );
                return Err(bad(reason));
            }
            let value = LOAD_BASE.wrapping_add_signed(relocation.r_addend(endian));
            let place = segments.iter_mut().find_map(|segment| {
                let start = usize::try_from(address.checked_sub(segment.address)?).ok()?;
                segment.bytes.get_mut(start..start.checked_add(8)?)
            });
            match place {
                Some(place) => place.copy_from_slice(&value.to_le_bytes()),
                None => {
                    return Err(bad(format!(
                        "a relocation at {address:#x} lies outside the image"
                    )));
                }
            }
        }
    }
    Ok(())
}

fn kernel(meta: KernelMetadata, segments: &[Segment], symbols: &[Symbol]) -> Result<Kernel> {
    let descriptor_error =
        |reason: String| Error::BadDescriptor { kernel: meta.name.clone(), reason };
    let at = symbols
        .iter()
        .find(|symbol| symbol.name == meta.symbol)
        .ok_or_else(|| descriptor_error(format!("no symbol `{}`", meta.symbol)))?
        .address;
    let bytes = at
        .checked_add(DESCRIPTOR_BYTES as u64)
        .and_then(|end| slice(segments, at..end))
        .ok_or_else(|| descriptor_error(format!("address {at:#x} is not in the image")))?;
    let descriptor = Descriptor::parse(&meta.name, bytes)?;
    let entry = at.wrapping_add_signed(descriptor.entry_offset);
    let segment = segments
        .iter()
        .find(|s| s.executable && entry >= s.address && entry - s.address < s.bytes.len() as u64)
        .ok_or_else(|| descriptor_error(format!("entry {entry:#x} is not in a code segment")))?;
    if entry % 4 != 0 {
        return Err(descriptor_error(format!("entry {entry:#x} is not 4-byte aligned")));
    }
    // Hand-written code may lack a sized symbol: it then runs to the end of its segment.
    let limit = segment.address + segment.bytes.len() as u64;
    let end = symbols
        .iter()
        .find(|symbol| symbol.function && symbol.address == entry && symbol.size > 0)
        .and_then(|symbol| entry.checked_add(symbol.size))
        .map_or(limit, |end| end.min(limit));
    Ok(Kernel { meta, descriptor, entry, code: entry..end })
}
