//! A report's parts in order, written as text or as Markdown: both say the same.

use std::fmt;

/// A table: a head and rows of as many cells.
#[derive(Debug)]
pub(super) struct Table {
    head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// A part of a report.
#[derive(Debug)]
pub(super) enum Block {
    /// What the following parts are about.
    Title(String),
    /// What the next parts are about, within a title.
    Heading(&'static str),
    /// One statement a line.
    Lines(Vec<String>),
    /// A table.
    Table(Table),
    /// A table too wide for a terminal: a page has it. Lines before it give what is remarkable in it.
    Wide(Table),
    /// Something that went wrong.
    Failure {
        /// What, in one line.
        what: String,
        /// Labels and what they stand for: a command, a case.
        details: Vec<(&'static str, String)>,
    },
    /// The last line: a word, and what it rests on.
    Verdict(&'static str, String),
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|&cell| cell.to_owned()).collect(), rows: Vec::new() }
    }

    /// Columns padded to their widest cell.
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            std::iter::once(&self.head)
                .chain(&self.rows)
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        for row in std::iter::once(&self.head).chain(&self.rows) {
            let mut line = String::from("  ");
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn markdown(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A bar in a cell would end it.
        let line = |cells: &[String]| {
            let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', r"\|")).collect();
            format!("| {} |", cells.join(" | "))
        };
        writeln!(f, "{}", line(&self.head))?;
        writeln!(f, "|{}", "-|".repeat(self.head.len()))?;
        for row in &self.rows {
            writeln!(f, "{}", line(row))?;
        }
        Ok(())
    }
}

impl Block {
    pub(super) fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Title(title) => writeln!(f, "{title}"),
            Self::Heading(heading) => writeln!(f, "  {heading}:"),
            Self::Lines(lines) => lines.iter().try_for_each(|line| writeln!(f, "  {line}")),
            Self::Table(table) => table.text(f),
            Self::Wide(_) => Ok(()),
            Self::Failure { what, details } => {
                writeln!(f, "  FAILED {what}")?;
                details.iter().try_for_each(|(label, detail)| writeln!(f, "    {label}: {detail}"))
            }
            Self::Verdict(word, why) => writeln!(f, "{word}: {why}"),
        }
    }

    pub(super) fn markdown(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Title(title) => writeln!(f, "## {title}"),
            Self::Heading(heading) => writeln!(f, "### {}", capitalised(heading)),
            Self::Lines(lines) => lines.iter().try_for_each(|line| writeln!(f, "- {line}")),
            Self::Table(table) | Self::Wide(table) => table.markdown(f),
            Self::Failure { what, details } => {
                writeln!(f, "**FAILED** {what}")?;
                if !details.is_empty() {
                    writeln!(f)?;
                }
                let mut details = details.iter();
                details.try_for_each(|(label, detail)| writeln!(f, "- {label}: {}", code(detail)))
            }
            Self::Verdict(word, why) => writeln!(f, "**{word}**: {why}"),
        }
    }
}

/// `text` between as many backticks as it needs to be shown as it is.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // Spaces next to the fence belong to it where the text has a backtick there.
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + rest.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_keeps_its_backticks() {
        assert_eq!(code("a b"), "`a b`");
        assert_eq!(code("a `b` c"), "``a `b` c``");
        assert_eq!(code("``a"), "``` ``a ```");
    }
}
