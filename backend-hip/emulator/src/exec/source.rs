//! Counters by source line.

use std::collections::BTreeMap;

use super::counters::{Access, Counters};
use crate::loader::{LineTable, SourceLine};

/// What the instructions of one source line did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCount {
    /// Different instructions of the line that ran.
    pub instructions: u64,
    /// Their executions by waves.
    pub executed: u64,
    /// Their memory behaviour.
    pub access: Access,
}

impl Counters {
    /// Sums the instructions of every source line; those that debug information does not place are left out.
    pub fn by_source_line(&self, table: &LineTable) -> BTreeMap<SourceLine, LineCount> {
        let mut lines: BTreeMap<SourceLine, LineCount> = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line.executed > 0) {
            let Some(source) = table.lookup(line.pc) else { continue };
            let count = lines.entry(source.clone()).or_default();
            count.instructions += 1;
            count.executed += line.executed;
            count.access.conflict_cycles += line.access.conflict_cycles;
            count.access.cache_lines += line.access.cache_lines;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Line;

    #[test]
    fn without_debug_information_no_line_is_counted() {
        let line = Line { pc: 0x1900, text: String::new(), executed: 3, access: Access::default() };
        let counters = Counters { lines: vec![line], ..Counters::default() };
        assert!(counters.by_source_line(&LineTable::default()).is_empty());
    }
}
