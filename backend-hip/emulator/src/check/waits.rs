//! Which memory operations of a wave may still be in flight, by the rules of `s_waitcnt`.
//!
//! VM_CNT counts vector memory operations, LGKM_CNT LDS, scalar memory and message operations; FLAT counts in both.
//! Operations of one in-order kind (vector memory; LDS) complete in the order of issue. Scalar memory completes in any
//! order, and so does FLAT relative to the rest. A wait for a count of `n` therefore guarantees an operation complete only
//! if its being outstanding would mean that more than `n` are: for an in-order one, it and all later ones of its kind; for
//! an unordered one, itself alone.

use std::collections::VecDeque;

/// The largest count of VM_CNT: an issue waits while so many are outstanding.
pub(crate) const VM_MAX: usize = 63;
/// The largest count of LGKM_CNT.
pub(crate) const LGKM_MAX: usize = 15;

/// The LDS bytes that an operation touches.
#[derive(Clone, Debug)]
pub(crate) struct Touch {
    /// Byte address of each lane's first access.
    pub(crate) at: [u32; 64],
    /// Lanes that take part.
    pub(crate) lanes: u64,
    /// Dwords of each access.
    pub(crate) dwords: u32,
    /// Byte distance of a second access of the same width.
    pub(crate) second: Option<u32>,
    /// Whether LDS is written.
    pub(crate) write: bool,
}

impl Touch {
    /// The dwords touched, in lane order.
    pub(crate) fn for_each(&self, mut f: impl FnMut(usize)) {
        for lane in (0..64).filter(|lane| self.lanes >> lane & 1 == 1) {
            let first = self.at[lane];
            for base in
                [Some(first), self.second.map(|d| first.wrapping_add(d))].into_iter().flatten()
            {
                for dword in 0..self.dwords {
                    f((base / 4 + dword) as usize);
                }
            }
        }
    }
}

/// One operation in flight.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    /// The instruction.
    pub(crate) step: u32,
    /// Whether it completes in order with the others of its queue that are in order.
    pub(crate) in_order: bool,
    /// Unified vector registers that it will write.
    pub(crate) vector: (u16, u8),
    /// Scalar registers, by hardware number, that it will write.
    pub(crate) scalar: u128,
    /// LDS that it reads or writes.
    pub(crate) lds: Option<Box<Touch>>,
}

/// The operations in flight of one wave.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    vm: VecDeque<Op>,
    lgkm: VecDeque<Op>,
    /// Vector registers with a load in flight, one bit each.
    pub(crate) vector: [u64; 8],
    /// Scalar registers with a load in flight.
    pub(crate) scalar: u128,
}

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Vm,
    Lgkm,
}

impl Waits {
    /// Adds an operation; what the full counter implies to be complete goes to `done`.
    pub(crate) fn issue(&mut self, counter: Counter, op: Op, done: &mut Vec<Op>) {
        let limit = match counter {
            Counter::Vm => VM_MAX,
            Counter::Lgkm => LGKM_MAX,
        };
        if self.queue(counter).len() >= limit {
            self.wait(counter, limit - 1, done);
        }
        if self.queue(counter).len() > 2 * limit {
            // Unordered operations that nothing waits for: the oldest has certainly left the counter.
            done.extend(self.queue(counter).pop_front());
            self.rebuild();
        }
        for register in op.vector.0..op.vector.0 + u16::from(op.vector.1) {
            self.vector[usize::from(register / 64)] |= 1 << (register % 64);
        }
        self.scalar |= op.scalar;
        self.queue(counter).push_back(op);
    }

    fn queue(&mut self, counter: Counter) -> &mut VecDeque<Op> {
        match counter {
            Counter::Vm => &mut self.vm,
            Counter::Lgkm => &mut self.lgkm,
        }
    }

    /// A wait until the counter is at most `count`; the operations that are thereby complete go to `done`.
    pub(crate) fn wait(&mut self, counter: Counter, count: usize, done: &mut Vec<Op>) {
        let queue = self.queue(counter);
        // Every rule below asks for more outstanding operations than the count.
        if queue.len() <= count {
            return;
        }
        let before = done.len();
        let mut later = queue.iter().filter(|op| op.in_order).count();
        for _ in 0..queue.len() {
            let Some(op) = queue.pop_front() else { break };
            let outstanding = if op.in_order { later } else { 1 };
            if op.in_order {
                later -= 1;
            }
            if outstanding > count {
                done.push(op);
            } else {
                queue.push_back(op);
            }
        }
        if done.len() > before {
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        self.vector = [0; 8];
        self.scalar = 0;
        for op in self.vm.iter().chain(&self.lgkm) {
            for register in op.vector.0..op.vector.0 + u16::from(op.vector.1) {
                self.vector[usize::from(register / 64)] |= 1 << (register % 64);
            }
            self.scalar |= op.scalar;
        }
    }

    /// The operation that will write a vector register, with the counter that covers it.
    pub(crate) fn vector_writer(&self, register: u16) -> Option<(Counter, &Op)> {
        self.ops()
            .find(|(_, op)| (op.vector.0..op.vector.0 + u16::from(op.vector.1)).contains(&register))
    }

    /// The operation that will write one of the scalar registers in `mask`, with the counter that covers it.
    pub(crate) fn scalar_writer(&self, mask: u128) -> Option<(Counter, &Op)> {
        self.ops().find(|(_, op)| op.scalar & mask != 0)
    }

    fn ops(&self) -> impl Iterator<Item = (Counter, &Op)> {
        let vm = self.vm.iter().map(|op| (Counter::Vm, op));
        vm.chain(self.lgkm.iter().map(|op| (Counter::Lgkm, op)))
    }

    /// The LDS operations in flight.
    pub(crate) fn lds(&self) -> impl Iterator<Item = (u32, &Touch)> {
        self.lgkm.iter().filter_map(|op| op.lds.as_deref().map(|touch| (op.step, touch)))
    }
}

/// The counts of an `s_waitcnt` immediate: VM_CNT in bits 3:0 and 15:14, LGKM_CNT in bits 11:8.
pub(crate) fn counts(imm: u16) -> (usize, usize) {
    let vm = imm & 0xf | (imm >> 14) << 4;
    (usize::from(vm), usize::from(imm >> 8 & 0xf))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(step: u32, in_order: bool) -> Op {
        Op { step, in_order, vector: (step as u16, 1), scalar: 0, lds: None }
    }

    fn steps(done: &[Op]) -> Vec<u32> {
        done.iter().map(|op| op.step).collect()
    }

    #[test]
    fn immediates_split_into_counts() {
        assert_eq!(counts(0xc07f), (63, 0));
        assert_eq!(counts(0x0f70), (0, 15));
        assert_eq!(counts(0x0f74), (4, 15));
        assert_eq!(counts(0x8071), (33, 0));
    }

    #[test]
    fn loads_complete_in_order() {
        let (mut waits, mut done) = (Waits::default(), Vec::new());
        for step in 0..5 {
            waits.issue(Counter::Vm, op(step, true), &mut done);
        }
        waits.wait(Counter::Vm, 2, &mut done);
        assert_eq!(steps(&done), [0, 1, 2]);
        assert_eq!(waits.vector[0], 0b11000);
        assert_eq!(waits.vector_writer(4).map(|(c, op)| (c, op.step)), Some((Counter::Vm, 4)));
    }

    #[test]
    fn scalar_loads_need_a_wait_for_zero() {
        let (mut waits, mut done) = (Waits::default(), Vec::new());
        waits.issue(Counter::Lgkm, op(0, false), &mut done);
        waits.issue(Counter::Lgkm, op(1, true), &mut done);
        waits.issue(Counter::Lgkm, op(2, true), &mut done);
        waits.wait(Counter::Lgkm, 1, &mut done);
        assert_eq!(steps(&done), [1]);
        waits.wait(Counter::Lgkm, 0, &mut done);
        assert_eq!(steps(&done), [1, 0, 2]);
        assert_eq!(waits.vector, [0; 8]);
    }

    #[test]
    fn a_full_counter_holds_back_the_issue() {
        let (mut waits, mut done) = (Waits::default(), Vec::new());
        for step in 0..70 {
            waits.issue(Counter::Vm, op(step, true), &mut done);
        }
        assert_eq!(steps(&done), (0..7).collect::<Vec<_>>());
    }
}
