//! Source lines of instructions, from the DWARF line programs of a code object compiled with `-g`.

use std::collections::HashMap;
use std::sync::Arc;

use gimli::{EndianSlice, LittleEndian};
use object::elf;
use object::read::elf::{FileHeader, SectionHeader};

use crate::{Error, Result};

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Header = elf::FileHeader64<object::LittleEndian>;

/// The most rows read: units can share a line program, so the file's size does not bound them.
const MAX_ROWS: usize = 1 << 20;

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file as the compiler names it, with its directory where that is known.
    pub file: Arc<str>,
    /// The line, counted from 1; 0 for code that belongs to no line.
    pub line: u32,
}

/// Rows of the line programs, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineTable {
    /// Address of the first instruction of a row, and its line; `None` ends a sequence.
    rows: Vec<(u64, Option<SourceLine>)>,
}

impl LineTable {
    /// Reads the line programs of an ELF file; without debug information the table is empty.
    ///
    /// # Errors
    /// [`Error::BadElf`] if the sections or the line programs cannot be read.
    pub fn parse(data: &[u8]) -> Result<LineTable> {
        let header = Header::parse(data).map_err(bad)?;
        let endian = header.endian().map_err(bad)?;
        let sections = header.sections(endian, data).map_err(bad)?;
        let load = |id: gimli::SectionId| -> Result<Slice<'_>> {
            let bytes = match sections.section_by_name(endian, id.name().as_bytes()) {
                Some((_, section)) => section.data(endian, data).map_err(bad)?,
                None => &[],
            };
            Ok(EndianSlice::new(bytes, LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(load)?;
        let mut table = LineTable::default();
        let mut names: HashMap<String, Arc<str>> = HashMap::new();
        let mut units = dwarf.units();
        while let Some(unit) = units.next().map_err(bad)? {
            let unit = dwarf.unit(unit).map_err(bad)?;
            table.read_unit(&dwarf, &unit, &mut names).map_err(|error| match error {
                Failure::Dwarf(error) => bad(error),
                Failure::TooLong => {
                    bad(format!("its line programs have more than {MAX_ROWS} rows"))
                }
            })?;
        }
        // Sequences come in any order; at one address the end of a sequence yields to the start of the next.
        table.rows.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.is_some().cmp(&b.1.is_some())));
        Ok(table)
    }

    fn read_unit(
        &mut self,
        dwarf: &gimli::Dwarf<Slice<'_>>,
        unit: &gimli::Unit<Slice<'_>>,
        names: &mut HashMap<String, Arc<str>>,
    ) -> Result<(), Failure> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        let mut files: HashMap<u64, Arc<str>> = HashMap::new();
        let mut rows = program.rows();
        while let Some((header, row)) = rows.next_row()? {
            if self.rows.len() == MAX_ROWS {
                return Err(Failure::TooLong);
            }
            if row.end_sequence() {
                self.rows.push((row.address(), None));
                continue;
            }
            let file = match files.get(&row.file_index()) {
                Some(file) => file.clone(),
                None => {
                    let name = file_name(dwarf, unit, header, row.file(header))?;
                    let file =
                        names.entry(name).or_insert_with_key(|name| name.as_str().into()).clone();
                    files.insert(row.file_index(), file.clone());
                    file
                }
            };
            let line = row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(u32::MAX));
            self.rows.push((row.address(), Some(SourceLine { file, line })));
        }
        Ok(())
    }

    /// Whether there is no debug information.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The line that the instruction at an ELF address was compiled from.
    pub fn lookup(&self, address: u64) -> Option<&SourceLine> {
        let after = self.rows.partition_point(|(start, _)| *start <= address);
        self.rows.get(after.checked_sub(1)?)?.1.as_ref()
    }
}

enum Failure {
    Dwarf(gimli::Error),
    TooLong,
}

impl From<gimli::Error> for Failure {
    fn from(error: gimli::Error) -> Failure {
        Failure::Dwarf(error)
    }
}

fn bad(reason: impl std::fmt::Display) -> Error {
    Error::BadElf { reason: reason.to_string() }
}

/// Directory and name of a file of a line program.
fn file_name(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &gimli::Unit<Slice<'_>>,
    header: &gimli::LineProgramHeader<Slice<'_>>,
    file: Option<&gimli::FileEntry<Slice<'_>>>,
) -> Result<String, gimli::Error> {
    let Some(file) = file else { return Ok("?".to_owned()) };
    let name = dwarf.attr_string(unit, file.path_name())?.to_string_lossy().into_owned();
    let directory = match file.directory(header) {
        Some(directory) => dwarf.attr_string(unit, directory)?.to_string_lossy().into_owned(),
        None => String::new(),
    };
    if directory.is_empty() || name.starts_with('/') {
        Ok(name)
    } else {
        Ok(format!("{directory}/{name}"))
    }
}
