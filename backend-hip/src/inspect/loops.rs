//! The loops of a kernel in clang's assembly: natural loops of its control flow.
//!
//! Blocks of a loop need not lie between its first and last line, and a branch backwards need not close
//! a loop, so positions are not enough. A branch to a block that dominates it closes a loop; the loop is
//! what reaches the branch without passing that block (Aho, Lam, Sethi and Ullman, *Compilers*, 2nd
//! ed., §9.6).

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A straight piece of code, and where it continues.
#[derive(Debug, Default)]
struct Block {
    instructions: Vec<String>,
    next: Vec<usize>,
}

/// A loop.
#[derive(Debug)]
pub(super) struct Loop {
    /// The instructions that belong to no loop inside this one, in the order of the text.
    pub(super) own: Vec<String>,
    /// Whether it has no loop inside.
    pub(super) innermost: bool,
}

/// Every loop of `assembly`.
pub(super) fn loops(assembly: &str) -> Vec<Loop> {
    let blocks = blocks(assembly);
    let bodies = bodies(&blocks);
    bodies
        .iter()
        .map(|(header, body)| {
            let inside: Vec<&BTreeSet<usize>> = bodies
                .iter()
                .filter(|(other, _)| *other != header && body.contains(other))
                .map(|(_, body)| body)
                .collect();
            let own = body.iter().filter(|block| !inside.iter().any(|body| body.contains(block)));
            Loop {
                own: own.flat_map(|&block| blocks[block].instructions.iter().cloned()).collect(),
                innermost: inside.is_empty(),
            }
        })
        .collect()
}

/// Cuts the text into blocks: at labels, and after branches and ends.
fn blocks(assembly: &str) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    let mut labels = HashMap::new();
    // Branches, by block: the label, and whether the next block follows too.
    let mut exits: HashMap<usize, (Option<&str>, bool)> = HashMap::new();
    for line in assembly.lines() {
        let line = line.split(';').next().unwrap_or_default().trim();
        if let Some(label) = line.strip_suffix(':') {
            blocks.push(Block::default());
            labels.insert(label, blocks.len() - 1);
            continue;
        }
        if line.is_empty() || line.starts_with('.') {
            continue;
        }
        let current = blocks.len() - 1;
        blocks[current].instructions.push(line.to_owned());
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let target = words.next();
        let exit = if name == "s_branch" {
            Some((target, false))
        } else if name.starts_with("s_cbranch") {
            Some((target, true))
        } else if name == "s_endpgm" || name == "s_setpc_b64" {
            Some((None, false))
        } else {
            None
        };
        if let Some(exit) = exit {
            exits.insert(current, exit);
            blocks.push(Block::default());
        }
    }
    for at in 0..blocks.len() {
        let (label, falls_through) = exits.get(&at).copied().unwrap_or((None, true));
        let mut next: Vec<usize> = label.and_then(|l| labels.get(l)).copied().into_iter().collect();
        if falls_through && at + 1 < blocks.len() {
            next.push(at + 1);
        }
        blocks[at].next = next;
    }
    blocks
}

/// Bodies of the loops by their first block; loops with the same first block are one.
fn bodies(blocks: &[Block]) -> BTreeMap<usize, BTreeSet<usize>> {
    let mut before = vec![Vec::new(); blocks.len()];
    for (at, block) in blocks.iter().enumerate() {
        for &next in &block.next {
            before[next].push(at);
        }
    }
    let mut bodies: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (at, block) in blocks.iter().enumerate() {
        for &header in &block.next {
            if !dominates(blocks, header, at) {
                continue;
            }
            let body = bodies.entry(header).or_default();
            body.insert(header);
            let mut open = vec![at];
            while let Some(block) = open.pop() {
                if body.insert(block) {
                    open.extend(&before[block]);
                }
            }
        }
    }
    bodies
}

/// Whether every way from the first block to `to`, if there is one, passes `by`.
fn dominates(blocks: &[Block], by: usize, to: usize) -> bool {
    let reaches = |avoiding: Option<usize>| {
        let mut seen = vec![false; blocks.len()];
        let mut open = vec![0];
        while let Some(block) = open.pop() {
            if Some(block) == avoiding || std::mem::replace(&mut seen[block], true) {
                continue;
            }
            open.extend(&blocks[block].next);
        }
        seen[to]
    };
    reaches(None) && !reaches(Some(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop whose first block lies behind its last, with a loop inside and a piece out of line.
    const ROTATED: &str = "
kernel:
	s_mov_b32 s0, 0
	s_branch .L3
.L2:                                    ; end of the outer loop
	v_fma_f32 v0, v1, v2, v0
	s_cbranch_scc1 .L9
.L3:
	s_cbranch_execz .L8
.L4:
	ds_write_b32 v0, v1
	s_cbranch_scc0 .L4
	s_branch .L2
.L8:                                    ; a branch backwards that closes nothing
	v_mov_b32 v1, 0
	s_branch .L4
.L9:
	s_endpgm
";

    #[test]
    fn loops_are_found_wherever_their_blocks_lie() {
        let mut found = loops(ROTATED);
        found.sort_by_key(|found| found.innermost);
        let names = |own: &[String]| -> Vec<String> {
            own.iter().map(|text| text.split(' ').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(found.len(), 2);
        assert_eq!(
            names(&found[0].own),
            ["v_fma_f32", "s_cbranch_scc1", "s_cbranch_execz", "s_branch", "v_mov_b32", "s_branch"]
        );
        assert!(found[1].innermost);
        assert_eq!(names(&found[1].own), ["ds_write_b32", "s_cbranch_scc0"]);
    }

    #[test]
    fn straight_code_has_no_loop() {
        assert!(loops("a:\n s_cbranch_scc0 .L1\n s_nop 0\n.L1:\n s_endpgm").is_empty());
        assert!(loops("").is_empty());
    }
}
