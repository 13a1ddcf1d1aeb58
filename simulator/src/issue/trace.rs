//! Follows scalars through a few iterations of a loop, to prove that further iterations do the same.
//!
//! A register *steps* by the difference of its value from one period of iterations to the next. If moving values
//! (with a step other than zero) go only through linear operations, and decide no branch, no wait and no accumulator
//! row, then steps that were equal twice in a row stay the same for ever (modulo 2^32). A value that came out of another
//! operation is *wild*: it must be computed anew in every iteration before it is used, and decide nothing. Scalars that time
//! does not depend on ([`super::timed`]) are not looked at.

use super::code::*;
use super::run::SCALARS;
use crate::unit::dma::Geometry;
use systole_isa::Space;
use systole_isa::opcodes::{ScalarFn, StateFn};

/// Copies within HBM up to this size carry known values (see `unit::dma`).
const CARRIES_VALUES: u64 = 1 << 16;

/// What a traced iteration did outside the core, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub at: u64,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// `known`: both addresses are.
    Transfer {
        desc: u32,
        sem: u8,
        src: i64,
        dst: i64,
        known: bool,
    },
    Wait {
        sem: u8,
        bytes: u64,
    },
}

/// What a trace has seen.
#[derive(Debug)]
pub(super) struct Trace {
    /// Bundle of the loop's branch.
    pub back_edge: u32,
    /// Bundles that had issued when it began.
    pub started: u64,
    step: [i32; SCALARS],
    wild: u64,
    /// Registers read before they were written, and registers written, since the last mark.
    live_in: u64,
    written: u64,
    /// Something was seen that other iterations might do differently.
    pub broken: bool,
    /// Transfers and waits, and where each iteration ended in them.
    pub events: Vec<Event>,
    pub marks: Vec<usize>,
}

impl Trace {
    pub fn new(back_edge: u32, step: [i32; SCALARS], started: u64) -> Trace {
        Trace {
            back_edge,
            started,
            step,
            wild: 0,
            live_in: 0,
            written: 0,
            broken: false,
            events: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// An iteration has ended.
    pub fn mark(&mut self) {
        // A wild value that an iteration takes from the one before does not step.
        self.broken |= self.wild & self.live_in != 0;
        self.marks.push(self.events.len());
    }

    /// A bundle is about to change the scalars `values`, of which `known` are known.
    pub fn bundle(&mut self, pc: u32, head: &Head, code: &Code, g: &[Geometry], values: &[i32; SCALARS], known: u64) {
        for s in &code.specials[head.specials as usize..head.specials as usize + head.nspecials as usize] {
            self.special(s, code, g);
        }
        if head.flags & FLAG_BRANCH != 0 {
            self.branch(pc, &code.branches[pc as usize], known);
        }
        self.scalars(code.timed(head), values);
    }

    /// Scalars of a bundle, or of a part of it that reads nothing that another part writes, are about to change the values.
    pub fn scalars(&mut self, ops: &[ScalarOp], values: &[i32; SCALARS]) {
        ops.iter().for_each(|s| self.read(s.sources()));
        let results: Vec<(u8, i32, bool)> = ops.iter().map(|s| self.result(s, values)).collect();
        for (d, step, wild) in results.into_iter().filter(|r| r.0 != 0) {
            let bit = 1u64 << d;
            self.step[d as usize] = step;
            self.wild = self.wild & !bit | if wild { bit } else { 0 };
            self.written |= bit;
        }
    }

    /// What the first and the second half of the iterations did, where both did the same but for times and addresses.
    pub fn halves(&self, period: usize) -> Option<(&[Event], &[Event])> {
        let (a, b) = self.events.split_at(self.marks[period - 1]);
        let alike = |(a, b): (&Event, &Event)| match (a.what, b.what) {
            (What::Transfer { desc, sem, .. }, What::Transfer { desc: d, sem: s, .. }) => (desc, sem) == (d, s),
            (What::Wait { sem, bytes }, What::Wait { sem: s, bytes: n }) => (sem, bytes) == (s, n),
            (What::Transfer { .. }, What::Wait { .. }) | (What::Wait { .. }, What::Transfer { .. }) => false,
        };
        (a.len() == b.len() && a.iter().zip(b).all(alike)).then_some((a, b))
    }

    fn read(&mut self, registers: u64) {
        self.live_in |= registers & !self.written & !1;
    }

    fn is_wild(&self, reg: u8) -> bool {
        self.wild >> (reg & 63) & 1 == 1
    }

    fn moves(&self, reg: u8) -> bool {
        self.is_wild(reg) || self.step[reg as usize & (SCALARS - 1)] != 0
    }

    /// Destination, step and wildness of an operation's result.
    fn result(&mut self, s: &ScalarOp, values: &[i32; SCALARS]) -> (u8, i32, bool) {
        let still = (s.d, 0, false);
        let step = |r: u8| self.step[r as usize & (SCALARS - 1)];
        let value = |r: u8| values[r as usize & (SCALARS - 1)];
        let function = match s.kind {
            // A value that goes to memory could come back.
            ScalarKind::State(StateFn::SSt) => {
                self.broken = true;
                return (0, 0, false);
            }
            ScalarKind::State(StateFn::XExtract) => return still,
            ScalarKind::State(StateFn::SLd | StateFn::SDev | StateFn::SCore | StateFn::SyncTest) => None,
            ScalarKind::Pure(function) => Some(function),
        };
        let sources = [s.a, s.b, s.c];
        let is_source = |r: &u8| s.sources() >> (r & 63) & 1 == 1;
        if !sources.iter().filter(|r| is_source(r)).any(|&r| self.moves(r)) {
            return still;
        }
        if sources.iter().filter(|r| is_source(r)).any(|&r| self.is_wild(r)) {
            return (s.d, 0, true);
        }
        let (a, b) = (step(s.a), step(s.b));
        // Low bits do not change where the step has none.
        let masked = |step: i32, mask: i32| mask >= 0 && (mask as u32 + 1).is_power_of_two() && step & mask == 0;
        let Some(function) = function else { return (s.d, 0, true) };
        let linear = match function {
            ScalarFn::SAdd => a.wrapping_add(b),
            ScalarFn::SSub => a.wrapping_sub(b),
            ScalarFn::SAddI => a,
            ScalarFn::SMulI => a.wrapping_mul(s.imm),
            ScalarFn::SShlI => a << (s.imm & 31),
            ScalarFn::SMul if b == 0 => a.wrapping_mul(value(s.b)),
            ScalarFn::SMul if a == 0 => b.wrapping_mul(value(s.a)),
            ScalarFn::SSel if a == 0 && value(s.a) != 0 => b,
            ScalarFn::SSel if a == 0 => step(s.c),
            ScalarFn::SAndI if masked(a, s.imm) => 0,
            ScalarFn::SAnd if b == 0 && masked(a, value(s.b)) => 0,
            ScalarFn::SAnd if a == 0 && masked(b, value(s.a)) => 0,
            ScalarFn::SLi | ScalarFn::SMul | ScalarFn::SDiv | ScalarFn::SRem | ScalarFn::SDivU | ScalarFn::SRemU => {
                return (s.d, 0, true);
            }
            ScalarFn::SAnd | ScalarFn::SOr | ScalarFn::SXor | ScalarFn::SShl | ScalarFn::SShr | ScalarFn::SSar => {
                return (s.d, 0, true);
            }
            ScalarFn::SMin | ScalarFn::SMax | ScalarFn::SEq | ScalarFn::SLt | ScalarFn::SLtU | ScalarFn::SAndI => {
                return (s.d, 0, true);
            }
            ScalarFn::SShrI | ScalarFn::SSarI | ScalarFn::SEqI | ScalarFn::SLtI | ScalarFn::SSel => {
                return (s.d, 0, true);
            }
        };
        (s.d, linear, false)
    }

    /// Registers name accumulator rows.
    pub fn rows(&mut self, registers: &[u8]) {
        self.broken |= registers.iter().any(|&r| self.moves(r));
    }

    pub fn branch(&mut self, pc: u32, b: &Branch, known: u64) {
        match *b {
            Branch::NotZero { reg, .. } | Branch::Zero { reg, .. } | Branch::Loop { reg, .. } => {
                self.read(1 << (reg & 63));
                let own = pc == self.back_edge;
                self.broken |= known >> (reg & 63) & 1 == 0 || !own && self.moves(reg);
            }
            Branch::Jump { .. } | Branch::Call { .. } | Branch::Return => {}
            Branch::Halt | Branch::Trap { .. } | Branch::Host { .. } => self.broken = true,
        }
    }

    pub fn special(&mut self, s: &Special, code: &Code, geometry: &[Geometry]) {
        match *s {
            Special::PushAcc { row, .. } | Special::Drain { row, .. } => self.broken |= self.moves(row),
            Special::WaitS { reg, .. } => {
                self.read(1 << (reg & 63));
                self.broken |= self.moves(reg);
            }
            Special::DmaStart { start } => {
                let s = code.starts[start as usize];
                let g = &geometry[s.desc as usize];
                let registers = [s.src, s.src_offset, s.dst, s.dst_offset];
                registers.iter().for_each(|r| self.read(1 << (r & 63)));
                let values = g.dst == Space::Smem
                    || g.dst == Space::Hbm
                        && (g.src == Space::Smem || g.src == Space::Hbm && g.bytes <= CARRIES_VALUES);
                self.broken |= values || registers.iter().any(|&r| self.is_wild(r));
            }
            Special::Stage { .. } | Special::Latch { .. } | Special::Push { .. } | Special::Pop { .. } => {}
            Special::TransposePush { .. } | Special::Group { .. } | Special::Wait { .. } => {}
            // What other devices and cores do is not in the trace.
            Special::DmaRemote { .. } | Special::Signal { .. } | Special::Cores { .. } | Special::Test => {
                self.broken = true;
            }
        }
    }
}
