//! The checker: proves emitted bundles again, from the bundles and the opcode table alone.
//!
//! It checks, and collects every breach of:
//! - slots: no more instructions of a slot in a bundle than the chip has;
//! - operands: register numbers exist, pairs are even-aligned, immediates fit, matrix and cross-lane units, lane chunks
//!   and semaphores exist, branch targets are inside the program;
//! - writes: no register twice in a bundle;
//! - reads: every register read was written on every path from the start; a call passes what its callers all wrote and
//!   leaves nothing behind (calls clobber every register);
//! - control: no path runs off the end;
//! - DMA: every semaphore that is waited for is started somewhere, and the other way round;
//! - matrix units: in a kernel of straight-line code and counted loops, no result is popped before it is pushed, and
//!   none is left at its end.
//!
//! Not here: memory contents (buffer lifetimes are the planner's and, at run time, the race checker's matter).

use crate::kernel::regs::fits;
use std::collections::{BTreeMap, BTreeSet};
use systole_isa::{Bundle, ChipConfig, Effect, Inst, Kind, Op, Slot};

/// A rule that the bundles break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bundle {bundle}: {message}")]
pub struct CheckError {
    pub bundle: usize,
    pub message: String,
}

/// Checks a program's bundles.
///
/// # Errors
/// Every breach found, by bundle.
pub fn check(bundles: &[Bundle], chip: &ChipConfig) -> Result<(), Vec<CheckError>> {
    let mut errors = Vec::new();
    for (at, b) in bundles.iter().enumerate() {
        slots(at, b, chip, &mut errors);
        b.insts.iter().for_each(|i| operands(at, i, bundles.len(), chip, &mut errors));
        double_writes(at, b, &mut errors);
    }
    semaphores(bundles, &mut errors);
    if errors.is_empty() {
        reads(bundles, &mut errors);
        results(bundles, chip, &mut errors);
    }
    errors.sort_by_key(|e| e.bundle);
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

type Errors = Vec<CheckError>;

fn slots(bundle: usize, b: &Bundle, chip: &ChipConfig, errors: &mut Errors) {
    for slot in Slot::ALL {
        let used = b.insts.iter().filter(|i| i.op.info().slot == slot).count();
        if used > chip.slots(slot) as usize {
            let message = format!("{used} instructions in the {slot:?} slot, the chip has {}", chip.slots(slot));
            errors.push(CheckError { bundle, message });
        }
    }
}

fn operands(bundle: usize, i: &Inst, bundles: usize, chip: &ChipConfig, errors: &mut Errors) {
    let c = &chip.core;
    for (kind, value) in i.iter() {
        let (what, count) = match kind {
            Kind::Sd | Kind::Su | Kind::Sm => ("scalar register", c.scalar_registers as i64),
            Kind::Vd | Kind::Vu => ("vector register", c.vector_registers as i64),
            Kind::Pd | Kind::Pu => ("pair", c.vector_registers as i64 - 1),
            Kind::Md | Kind::Mu => ("mask", c.mask_registers as i64),
            Kind::Target => ("bundle", bundles as i64),
            Kind::Sem => ("semaphore", c.semaphores as i64),
            Kind::Mxu => ("matrix unit", chip.mxu.count as i64),
            Kind::Xlu => ("cross-lane unit", c.xlu_slots as i64),
            Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Desc | Kind::Fmt | Kind::F8 => {
                ("immediate", i64::MAX)
            }
        };
        let value64 = value as i64;
        let mnemonic = i.op.info().mnemonic;
        if !fits(kind, value64) || (value64 >= count && count != i64::MAX) {
            errors.push(CheckError { bundle, message: format!("{mnemonic}: {what} {value} does not exist or fit") });
        }
        if matches!(kind, Kind::Pd | Kind::Pu) && value % 2 != 0 {
            errors.push(CheckError { bundle, message: format!("{mnemonic}: pair {value} is not even-aligned") });
        }
    }
}

fn double_writes(bundle: usize, b: &Bundle, errors: &mut Errors) {
    let mut written = BTreeSet::new();
    for r in b.insts.iter().flat_map(Inst::defs) {
        if !written.insert(r) {
            errors.push(CheckError { bundle, message: format!("{r} is written twice") });
        }
    }
}

fn semaphores(bundles: &[Bundle], errors: &mut Errors) {
    let mut used: BTreeMap<i32, [Option<usize>; 2]> = BTreeMap::new();
    for (at, b) in bundles.iter().enumerate() {
        for i in &b.insts {
            let named: Vec<i32> = i.iter().filter(|(k, _)| *k == Kind::Sem).map(|(_, v)| v).collect();
            let side = match i.op.info().effect {
                Effect::DmaStart | Effect::DmaRemote | Effect::Signal => 0,
                Effect::DmaWait => 1,
                _ => continue,
            };
            for sem in named {
                used.entry(sem).or_default()[side].get_or_insert(at);
            }
        }
    }
    for (sem, sides) in used {
        match sides {
            [Some(bundle), None] => {
                errors.push(CheckError { bundle, message: format!("semaphore {sem} is never waited for") });
            }
            [None, Some(bundle)] => {
                errors.push(CheckError { bundle, message: format!("no DMA adds to semaphore {sem}") });
            }
            [Some(_), Some(_)] | [None, None] => {}
        }
    }
}

/// Registers written on every path, a bit each.
type Written = [u64; 4];
const ALL: Written = [u64::MAX; 4];

fn control(b: &Bundle) -> Option<&Inst> {
    b.insts.iter().find(|i| i.op.info().slot == Slot::Branch)
}

/// Forward analysis of registers written on every path, to a fixed point; then the reads.
fn reads(bundles: &[Bundle], errors: &mut Errors) {
    if bundles.is_empty() {
        return;
    }
    let mut before = vec![ALL; bundles.len()];
    before[0] = [0; 4];
    let mut pending: BTreeSet<usize> = (0..1).collect();
    let mut off_end = BTreeSet::new();
    while let Some(at) = pending.pop_first() {
        let mut after = before[at];
        for r in bundles[at].insts.iter().flat_map(Inst::defs) {
            after[r.index() / 64] |= 1 << (r.index() % 64);
        }
        let mut flow = |to: usize, state: Written| {
            let Some(old) = before.get_mut(to) else {
                off_end.insert(at);
                return;
            };
            let met: Written = std::array::from_fn(|w| old[w] & state[w]);
            // A bundle is visited once even if all registers are written there.
            if met != *old || (*old == ALL && state == ALL) {
                *old = met;
                pending.insert(to);
            }
        };
        let branch = control(&bundles[at]);
        let target = branch.and_then(|b| b.operand(Kind::Target)).map(|t| t as usize);
        match branch.map(|b| b.op) {
            Some(Op::BRet | Op::BHalt | Op::BTrap) => {}
            Some(Op::BCall) => {
                flow(target.unwrap_or(usize::MAX), after);
                flow(at + 1, [0; 4]);
            }
            Some(Op::BHost) => flow(at + 1, after),
            Some(Op::BJmp) => flow(target.unwrap_or(usize::MAX), after),
            Some(_) => {
                flow(target.unwrap_or(usize::MAX), after);
                flow(at + 1, after);
            }
            None => flow(at + 1, after),
        }
    }
    for bundle in off_end {
        errors.push(CheckError { bundle, message: "control runs off the end".into() });
    }
    for (bundle, b) in bundles.iter().enumerate() {
        for i in &b.insts {
            for r in i.uses().iter().filter(|r| before[bundle][r.index() / 64] >> (r.index() % 64) & 1 == 0) {
                let message = format!("{} reads {r}, which may never have been written", i.op.info().mnemonic);
                errors.push(CheckError { bundle, message });
            }
        }
    }
}

/// Results in a unit's FIFO over a stretch of code: change from start to end, and the least on the way.
#[derive(Clone, Copy, Default)]
struct Balance {
    net: i64,
    least: i64,
}

impl Balance {
    fn then(self, next: Balance) -> Balance {
        Balance { net: self.net + next.net, least: self.least.min(self.net + next.least) }
    }

    fn times(self, n: i64) -> Balance {
        let last = self.net * (n - 1);
        Balance { net: self.net * n, least: self.least.min(last + self.least) }
    }
}

/// Kernels start at the first bundle and at call targets; each is counted if its control flow is counted loops.
fn results(bundles: &[Bundle], chip: &ChipConfig, errors: &mut Errors) {
    let mut starts: BTreeSet<usize> = [0, bundles.len()].into();
    for i in bundles.iter().flat_map(|b| &b.insts).filter(|i| i.op == Op::BCall) {
        starts.insert(i.operand(Kind::Target).unwrap_or(0) as usize);
    }
    let starts: Vec<usize> = starts.into_iter().collect();
    let mut loops: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, b) in bundles.iter().enumerate() {
        if let Some(i) = control(b).filter(|i| i.op == Op::BLoop) {
            loops.entry(i.operand(Kind::Target).unwrap_or(0) as usize).or_default().push(at);
        }
    }
    for w in starts.windows(2) {
        let units: BTreeSet<i32> = (bundles[w[0]..w[1]].iter().flat_map(|b| &b.insts))
            .filter(|i| matches!(i.op.info().effect, Effect::MxuPush | Effect::MxuPop))
            .filter_map(|i| i.operand(Kind::Mxu))
            .collect();
        for unit in units {
            let mut counted = Count { bundles, chip, loops: &loops, unit, at: w[0], end: w[1] };
            let Some(b) = counted.stretch(None) else { continue };
            if b.least < 0 {
                let message = format!("matrix unit {unit}: a result is popped before it is pushed");
                errors.push(CheckError { bundle: w[0], message });
            } else if b.net != 0 {
                let message = format!("matrix unit {unit}: {} results are left", b.net);
                errors.push(CheckError { bundle: w[0], message });
            }
        }
    }
}

struct Count<'a> {
    bundles: &'a [Bundle],
    chip: &'a ChipConfig,
    /// Ends of the counted loops that start at a bundle.
    loops: &'a BTreeMap<usize, Vec<usize>>,
    unit: i32,
    at: usize,
    end: usize,
}

impl Count<'_> {
    /// Counts from `at` to the end of the loop that closes at `close`, or of the kernel; `None` if the flow is not made
    /// of counted loops.
    fn stretch(&mut self, close: Option<usize>) -> Option<Balance> {
        let mut sum = Balance::default();
        while self.at < self.end {
            if let Some(last) = self.loop_from(self.at, close) {
                let trips = self.trips(self.at, last);
                let body = self.stretch(Some(last))?;
                let known = trips.or((body.net == 0).then_some(1))?;
                sum = sum.then(body.times(known));
                continue;
            }
            let here = self.at;
            self.at += 1;
            sum = sum.then(self.bundle(&self.bundles[here]));
            let branch = control(&self.bundles[here]).map(|b| b.op);
            match branch {
                None | Some(Op::BCall | Op::BHost) => {}
                Some(Op::BLoop) if close == Some(here) => return Some(sum),
                Some(Op::BRet | Op::BHalt) => return Some(sum),
                Some(_) => return None,
            }
        }
        None
    }

    /// The bundle that ends the outermost counted loop from `from` on, inside the one that closes at `close`.
    fn loop_from(&self, from: usize, close: Option<usize>) -> Option<usize> {
        let limit = close.unwrap_or(self.end);
        self.loops.get(&from)?.iter().copied().filter(|&b| b < limit).max()
    }

    /// The loop's trips if its counter was last set by a constant, in straight-line code before it.
    fn trips(&self, first: usize, last: usize) -> Option<i64> {
        let counter = control(&self.bundles[last])?.uses().first().copied()?;
        for b in self.bundles[..first].iter().rev() {
            if let Some(i) = b.insts.iter().find(|i| i.defs().contains(&counter)) {
                return (i.op == Op::SLi).then_some(i.operands[1] as i64);
            }
            if control(b).is_some_and(|i| i.op != Op::BLoop) {
                return None;
            }
        }
        None
    }

    fn bundle(&self, b: &Bundle) -> Balance {
        let lanes = self.chip.core.lanes.max(1);
        let mut sum = Balance::default();
        // A pop may share a bundle with the push of a later result.
        for sign in [1, -1] {
            for i in b.insts.iter().filter(|i| i.operand(Kind::Mxu) == Some(self.unit)) {
                let (size, change) = match i.op.info().effect {
                    Effect::MxuPush => (self.chip.mxu.rows, 1),
                    Effect::MxuPop => (self.chip.mxu.cols, -1),
                    _ => continue,
                };
                let last_chunk = (size.div_ceil(lanes).max(1) - 1) as i32;
                if change == sign && i.operand(Kind::U4) == Some(last_chunk) {
                    sum = sum.then(Balance { net: change, least: change.min(0) });
                }
            }
        }
        sum
    }
}
