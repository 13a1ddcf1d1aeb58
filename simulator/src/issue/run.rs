//! The loop that walks bundles.
//!
//! For each bundle: find when it issues (the latest ready time of what it reads and defines, and of what its special
//! operations wait for), take waits, compute values, start what it starts, compute scalars, then make all results
//! visible and branch. Nothing is ticked: time moves from issue to issue.

use super::code::*;
use super::cores::Mates;
use super::fetch::Fetch;
use super::memo::{self, Pool, Recorder};
use super::remote::Remote;
use super::skip::Skipper;
use super::values::Values;
use crate::fault::{Fault, FaultKind, Issued, Origin};
use crate::load::Loaded;
use crate::mem::{Hbm, Smem};
use crate::options::{Details, Mode, Observer, RunOptions, Sample};
use crate::stats::{Cause, Collector, Parts, RunResult, SLOTS, Totals, UnitSample};
use crate::unit::dma::{Blame, DmaTiming, Due, RaceChecker, Semaphores};
use crate::unit::mxu::MxuTiming;
use crate::unit::scalar;
use rustc_hash::FxHashMap;
use systole_isa::opcodes::StateFn;
use systole_isa::program::DebugRange;
use systole_isa::{Class, Inst, MxuFormat, Space};

/// Bundles between looks at limits and calls of the observer.
pub(super) const PROGRESS_INTERVAL: u64 = 1 << 22;
/// Intervals that a sample may be late for rounds that come again as they were.
const LATEST_SAMPLE: u64 = 15;

/// Scalar registers, in an array that indices cannot leave.
pub(crate) const SCALARS: usize = 64;

/// A transfer whose effect on memory is still to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    pub desc: u32,
    pub src: i64,
    pub dst: i64,
    pub end: u64,
    /// Both addresses are known.
    pub known: bool,
}

/// One run of one core.
pub(crate) struct Core<'a> {
    pub(super) l: &'a Loaded,
    pub(super) options: &'a RunOptions,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) events: bool,
    /// Bundles and waits are wanted.
    pub(super) watched: bool,
    pub(super) hbm: &'a mut Hbm,
    pub(super) values: Option<&'a mut Values>,
    /// What the values are computed by; nothing in runs without.
    insts: &'a [Inst],
    pub(super) smem: &'a mut Smem,
    pub(super) scalars: [i32; SCALARS],
    /// One bit for each scalar register whose value is known.
    pub(super) known: u64,
    /// Where calls return to, and the ops that they were made in.
    pub(super) calls: Vec<(u32, u32)>,
    /// First bundle and start of the subroutine that the main program called last.
    pub(super) called: (u32, u64),
    /// Ready times of registers and queues.
    pub(super) ready: Box<[Packed; RESOURCES]>,
    /// Units of each slot group; when the last unit of all that are shared is free.
    pub(super) group_units: [usize; GROUPS],
    pub(super) shared_until: u64,
    /// First cycle in which the next bundle could issue, with the cause if that is later than the next cycle.
    pub(super) floor: Packed,
    /// The cycle after the last bundle's issue.
    pub(super) next: u64,
    pub(super) mxus: Vec<MxuTiming>,
    pub(super) dma: DmaTiming,
    pub(super) fetch: Fetch,
    pub(super) semaphores: Semaphores,
    /// What the cycle of the last bundle depends on, and when what the next one waits for is there.
    pub(super) blame: Blame,
    pub(super) due: Due,
    pub(super) effects: Vec<Effect>,
    pub(super) race: Option<RaceChecker>,
    pub(super) stats: Collector,
    /// Times that each branch with an assumed trip count stayed in its loop.
    pub(super) assumed: FxHashMap<u32, u64>,
    pub(super) bubble: u64,
    pub(super) skipper: Option<Skipper>,
    sample_interval: u64,
    pub(super) next_sample: u64,
    /// Counters of the last sample.
    sampled: Vec<UnitSample>,
    pub(super) pc: u32,
    pub(super) now: u64,
    /// What passes between this device and others; none where it runs alone.
    pub(super) remote: Option<Box<Remote>>,
    /// The device's other cores; none where it runs alone.
    pub(super) mates: Option<Box<Mates>>,
    /// Tables of known transitions, for runs that remember, and whose of them is this core's; the number of the present state in one of them, whose it is
    /// between two walks, and whether the ready times and units are that state too.
    pub(super) pool: &'a Pool,
    pub lane: usize,
    pub(super) body: u32,
    pub(super) numbers: Option<memo::Numbers>,
    pub(super) fresh: bool,
    /// The words of the state in which the core left the table, if they are not that.
    pub(super) left: Vec<u32>,
    /// What was replayed that the counters do not know yet, by table.
    pub(super) logs: Vec<memo::Log>,
    /// Stalls while a transition is found.
    pub(super) recorder: Option<Box<Recorder>>,
}

/// What a machine gives to a run.
pub(crate) struct State<'a> {
    pub hbm: &'a mut Hbm,
    pub values: Option<&'a mut Values>,
    pub smem: &'a mut Smem,
    /// What cores of the run know of the program's timing.
    pub pool: &'a Pool,
}

pub(super) type Step<T> = Result<T, FaultKind>;

/// When the bundle behind one may issue by itself, if that is the cycle behind it.
#[inline(always)]
pub(super) fn behind(head: &Head, next: u64) -> Packed {
    (next << 4) + u64::from(head.extra)
}

impl<'a> Core<'a> {
    pub fn new(l: &'a Loaded, options: &'a RunOptions, observer: &'a mut dyn Observer, state: State<'a>) -> Core<'a> {
        let chip = &l.chip;
        let latch = chip.timing.get(Class::MxuLatch).latency as u64;
        let rate = chip.mxu_type(MxuFormat::Bf16).or(chip.mxu.types.first()).map_or(1.0, |t| t.rows_per_cycle);
        let block16 = (chip.core.sublanes as f64 * 16.0 / rate).round() as u32;
        let mxus: Vec<MxuTiming> = (0..chip.mxu.count).map(|_| MxuTiming::new(chip, latch, block16)).collect();
        let mut ready = Box::new([0; RESOURCES]);
        for (u, m) in mxus.iter().enumerate() {
            ready[l.code.resources.mxu(u, MXU_POP)] = m.gate().pop;
        }
        let semaphores = chip.core.semaphores as usize;
        let checks = options.race_check && options.mode != Mode::TimingOnly;
        let launch = if options.mode == Mode::NumericOnly { 0 } else { chip.core.launch_cycles as u64 };
        let interval = observer.sample_interval().map_or(u64::MAX, |n| n.max(1));
        let mut core = Core {
            l,
            options,
            events: observer.wants_events(),
            watched: observer.wants_bundles(),
            observer,
            hbm: state.hbm,
            insts: if state.values.is_some() { l.values() } else { &[] },
            values: state.values,
            smem: state.smem,
            scalars: [0; SCALARS],
            known: !0,
            calls: Vec::new(),
            called: (0, 0),
            ready,
            group_units: systole_isa::Slot::ALL.map(|s| chip.slots(s).max(1) as usize),
            shared_until: 0,
            floor: launch << 4,
            next: launch,
            mxus,
            dma: DmaTiming::new(chip, options.chaos),
            fetch: Fetch::new(&l.code.blocks, chip),
            semaphores: Semaphores::new(semaphores),
            blame: Blame::default(),
            due: Due::default(),
            effects: Vec::new(),
            race: checks.then(|| RaceChecker::new(semaphores)),
            stats: Collector::new(l.code.heads.len(), l.program.debug.ops.len(), chip.mxu.count as usize),
            assumed: FxHashMap::default(),
            bubble: (chip.timing.get(Class::Branch).latency as u64).max(1),
            skipper: None,
            sample_interval: interval,
            next_sample: interval,
            sampled: Vec::new(),
            pc: 0,
            now: launch,
            remote: None,
            mates: None,
            pool: state.pool,
            lane: 0,
            body: memo::NONE,
            numbers: None,
            fresh: true,
            left: Vec::new(),
            logs: Vec::new(),
            recorder: None,
        };
        if core.sample_interval != u64::MAX {
            let slots = SLOTS.map(|s| chip.slots(s));
            let parts = Parts { code: &l.code, dma: &core.dma, mxus: &core.mxus, slots };
            core.stats.watch(&parts);
        }
        core.skipper =
            core.may_skip().then(|| Skipper::new(l.code.heads.len(), memo::used(&l.code, &core.group_units)));
        core
    }

    /// Moves the issue stage by `cycles`.
    pub(super) fn shift_issue(&mut self, cycles: u64) {
        self.now += cycles;
        self.next += cycles;
        self.floor += cycles << 4;
    }

    /// Runs to `b.halt`.
    pub fn run(mut self) -> Result<RunResult, Fault> {
        self.advance()?;
        let end = self.now + 1;
        Ok(self.finish_at(end, &mut Totals::default()))
    }

    /// Runs to `b.halt` (`true`), or to a wait that only other devices or cores can end (`false`).
    pub fn advance(&mut self) -> Result<bool, Fault> {
        let end = match self.options.mode {
            Mode::Full if self.watched => self.walk::<true, true, true>(),
            Mode::Full => self.walk::<true, true, false>(),
            Mode::TimingOnly if self.watched => self.walk::<true, false, true>(),
            Mode::TimingOnly if self.options.memo => self.walk_pieces(),
            Mode::TimingOnly => self.walk::<true, false, false>(),
            Mode::NumericOnly => self.walk::<false, true, false>(),
        };
        match end {
            Ok(()) => Ok(true),
            Err(_) if self.remote.as_ref().is_some_and(|r| r.blocked.is_some()) => Ok(false),
            Err(_) if self.at_barrier().is_some() => Ok(false),
            Err(kind) => Err(self.fault(kind)),
        }
    }

    /// The counters at a cycle behind the end; `totals` as [`Collector::finish`] takes them.
    pub fn finish_at(mut self, cycles: u64, totals: &mut Totals) -> RunResult {
        let timed = self.options.mode != Mode::NumericOnly;
        self.add_up_once(totals);
        if self.events {
            self.close_op(cycles);
        }
        let slots = SLOTS.map(|s| self.l.chip.slots(s));
        let skipped = self.skipper.as_ref().map_or(0, |s| s.skipped);
        let parts = Parts { code: &self.l.code, dma: &self.dma, mxus: &self.mxus, slots };
        self.stats.finish((self.pc, cycles), timed, skipped, parts, totals)
    }

    /// That the run goes on: nobody interrupts it, of which the observer is asked from `budget` bundles on, and it is below its limit.
    #[inline(always)]
    pub(super) fn within_limits(&mut self, budget: &mut u64) -> Step<()> {
        let ran = self.stats.bundles;
        if ran >= *budget {
            *budget = ran + PROGRESS_INTERVAL;
            if !self.observer.progress(self.now, ran) {
                return Err(FaultKind::Interrupted);
            }
        }
        if self.now >= self.options.max_cycles {
            return Err(FaultKind::MaxCycles { limit: self.options.max_cycles });
        }
        Ok(())
    }

    /// Before when rounds that come again as they were have to end: a sample may be late for them, for counters go on in them as they went.
    pub(super) fn rounds_end(&self) -> u64 {
        let late = self.sample_interval.saturating_mul(LATEST_SAMPLE);
        self.next_sample.saturating_add(late).min(self.options.max_cycles)
    }

    /// Gives the observer the counters after the last issue, with details if all that was replayed is counted.
    pub(super) fn sample(&mut self, details: bool) -> Step<()> {
        let cycle = self.now + 1;
        // A row of bundles that goes on counts too.
        self.stats.begin(self.pc);
        let slots = SLOTS.map(|s| self.l.chip.slots(s));
        let parts = Parts { code: &self.l.code, dma: &self.dma, mxus: &self.mxus, slots };
        self.stats.sample(cycle, &parts, &mut self.sampled);
        let s = &self.stats;
        let mut causes = Vec::new();
        let details = details.then(|| {
            s.sample_causes(cycle, &parts, &mut causes);
            Details { units: &causes, ops: s.ops() }
        });
        let (units, bundles) = (&self.sampled[..], s.bundles);
        self.observer.sample(&Sample { cycle, bundles, op: s.op(), units, details, traffic: s.moved });
        self.sample_interval = self.observer.sample_interval().map_or(u64::MAX, |n| n.max(1));
        self.next_sample = self.now.saturating_add(self.sample_interval);
        if self.observer.progress(cycle, bundles) { Ok(()) } else { Err(FaultKind::Interrupted) }
    }

    fn close_op(&mut self, cycles: u64) {
        let (op, since) = self.stats.current();
        self.observer.op(op, since, cycles);
    }

    fn walk<const TIMING: bool, const VALUES: bool, const WATCH: bool>(&mut self) -> Step<()> {
        let code = &self.l.code;
        let mut budget = PROGRESS_INTERVAL;
        loop {
            let Some(head) = code.heads.get(self.pc as usize) else {
                self.pc -= 1;
                return Err(FaultKind::EndOfCode);
            };
            if head.flags & FLAG_OP != 0 {
                self.enter_op(if TIMING { self.next } else { self.now });
            }
            if TIMING {
                if head.flags & FLAG_BLOCK != 0 {
                    self.enter_block();
                }
                self.issue(head, code)?;
                if WATCH {
                    self.observer.bundle(self.pc, self.now);
                }
            } else {
                self.now += 1;
                if head.flags & FLAG_GATE != 0 {
                    self.gate(head, 0)?;
                }
            }
            if head.flags & FLAG_WAIT != 0 {
                self.take_waits(head);
            }
            if VALUES {
                self.compute(head)?;
            }
            if head.nspecials > 0 {
                self.start_specials::<TIMING>(head)?;
            }
            if TIMING && !VALUES {
                self.trace_bundle(head);
            }
            if head.flags & FLAG_BRANCH == 0 {
                self.scalar_ops::<VALUES>(head)?;
                if VALUES {
                    self.commit();
                }
                self.pc += 1;
                continue;
            }
            let taken = self.decide()?;
            self.scalar_ops::<VALUES>(head)?;
            if VALUES {
                self.commit();
            }
            let from = self.pc;
            if !self.branch(taken)? {
                return self.halt();
            }
            if TIMING && !VALUES && self.pc <= from {
                self.back_edge(from, None);
            }
            if TIMING && self.now >= self.next_sample {
                self.sample(self.observer.wants_details())?;
            }
            self.within_limits(&mut budget)?;
        }
    }

    #[inline(always)]
    pub(super) fn trace_bundle(&mut self, head: &Head) {
        if let Some(s) = &mut self.skipper
            && let Some(t) = &mut s.trace
        {
            t.bundle(self.pc, head, &self.l.code, &self.l.geometry, &self.scalars, self.known);
        }
    }

    /// Finds the bundle's issue time and what it makes ready when.
    #[inline(always)]
    pub(super) fn issue(&mut self, head: &Head, code: &Code) -> Step<()> {
        let mut t = self.ready_from(head, code, self.floor);
        if head.flags & FLAG_GATE != 0 {
            t = self.gate(head, t)?;
        }
        let now = t >> 4;
        if now > self.next {
            self.stalled(head, t)?;
        }
        self.define(head, code, now);
        self.now = now;
        self.next = now + 1;
        if head.flags & FLAG_SHARED != 0 && now < self.shared_until {
            self.share_units(head);
        }
        self.floor = behind(head, self.next);
        Ok(())
    }

    /// When all that a bundle waits for of registers, queues and units is ready, from a time on.
    #[inline(always)]
    pub(super) fn ready_from(&self, head: &Head, code: &Code, mut t: Packed) -> Packed {
        for r in &code.reads[head.reads as usize..head.reads as usize + head.nreads as usize] {
            let at = |i: usize| self.ready[r[i] as usize & (RESOURCES - 1)];
            t = t.max(at(0).max(at(1)).max(at(2).max(at(3))));
        }
        t
    }

    /// Says when what a bundle defines that issues now is ready.
    #[inline(always)]
    pub(super) fn define(&mut self, head: &Head, code: &Code, now: u64) {
        let base = now << 4;
        for w in &code.writes[head.writes as usize..head.writes as usize + head.nwrites as usize] {
            w.iter().for_each(|w| self.ready[w.resource as usize & (RESOURCES - 1)] = base + w.delta as u64);
        }
    }

    /// Waits for the current bundle's block of code.
    pub(super) fn enter_block(&mut self) {
        let blocks = &self.l.code.blocks;
        let ready = self.fetch.enter(blocks, blocks.of[self.pc as usize], self.floor >> 4);
        self.floor = self.floor.max(ready << 4 | Cause::Fetch as u64);
    }

    /// Cycles from `now` on belong to the op of the current bundle.
    pub(super) fn enter_op(&mut self, now: u64) {
        self.enter(self.l.code.ops[self.pc as usize], self.pc, now);
    }

    /// Cycles from `now` on, and bundles from `next` on, belong to an op.
    pub(super) fn enter(&mut self, op: u32, next: u32, now: u64) {
        if let Some((before, since)) = self.stats.enter(op, next, now)
            && self.events
        {
            self.observer.op(before, since, now);
        }
    }

    fn compute(&mut self, head: &Head) -> Step<()> {
        let Some(values) = self.values.as_deref_mut() else { return Ok(()) };
        let race = self.race.as_ref().map(|r| (r, self.l));
        for i in &self.insts[head.values as usize..][..head.nvalues as usize] {
            values.execute(i, &self.scalars, race)?;
        }
        Ok(())
    }

    fn commit(&mut self) {
        if let Some(v) = self.values.as_deref_mut() {
            v.commit();
        }
    }

    /// Computes the bundle's scalars from the old values, then writes them.
    #[inline(always)]
    pub(super) fn scalar_ops<const VALUES: bool>(&mut self, head: &Head) -> Step<()> {
        match if VALUES { head.nscalars } else { head.ntimed } {
            0 => Ok(()),
            1 => {
                let s = &self.l.code.scalars[head.scalars as usize];
                let (value, known) = self.scalar::<VALUES>(s)?;
                self.write_scalar(s.d, value, known);
                Ok(())
            }
            n => {
                let ops = &self.l.code.scalars[head.scalars as usize..head.scalars as usize + n as usize];
                if !VALUES && head.flags & FLAG_ORDERED != 0 {
                    for s in ops {
                        let (value, known) = self.scalar::<VALUES>(s)?;
                        self.write_scalar(s.d, value, known);
                    }
                    return Ok(());
                }
                let mut results = [(0i32, true); 16];
                if ops.len() > results.len() {
                    let all = ops.iter().map(|s| self.scalar::<VALUES>(s)).collect::<Step<Vec<_>>>()?;
                    ops.iter().zip(all).for_each(|(s, r)| self.write_scalar(s.d, r.0, r.1));
                    return Ok(());
                }
                for (r, s) in results.iter_mut().zip(ops) {
                    *r = self.scalar::<VALUES>(s)?;
                }
                for (s, r) in ops.iter().zip(results) {
                    self.write_scalar(s.d, r.0, r.1);
                }
                Ok(())
            }
        }
    }

    #[inline(always)]
    pub(super) fn write_scalar(&mut self, d: u8, value: i32, known: bool) {
        let d = d as usize & (SCALARS - 1);
        if d != 0 {
            self.scalars[d] = value;
            self.known = self.known & !(1 << d) | (known as u64) << d;
        }
    }

    #[inline(always)]
    pub(super) fn scalar<const VALUES: bool>(&mut self, s: &ScalarOp) -> Step<(i32, bool)> {
        let get = |r: u8| self.scalars[r as usize & (SCALARS - 1)];
        let (a, b, c) = (get(s.a), get(s.b), get(s.c));
        let known = VALUES || s.sources() & !self.known == 0;
        let function = match s.kind {
            // What is not known is taken for zero where it comes from: an address that follows from it lies in the array that its
            // base points into, so in the same memory.
            ScalarKind::Pure(f) => return Ok((scalar::execute(f, a, b, c, s.imm), known)),
            ScalarKind::State(function) => function,
        };
        match function {
            StateFn::SDev => Ok((self.options.device as i32, true)),
            StateFn::SCore => Ok((self.mates.as_ref().map_or(0, |m| m.core) as i32, true)),
            StateFn::SyncTest => Ok(((known && self.holds(s.imm as u8, a as u32)) as i32, true)),
            StateFn::SLd => {
                let at = a as i64 + s.imm as i64;
                // Mostly nothing else is to be asked.
                match self.smem.load(at) {
                    Some(word) if known && self.race.is_none() => Ok(word),
                    Some(_) | None => self.smem_load(at, known),
                }
            }
            StateFn::SSt => {
                // Operand order is value, address.
                let value_known = VALUES || self.known >> (s.a & 63) & 1 == 1;
                let address_known = VALUES || self.known >> (s.b & 63) & 1 == 1;
                let at = b as i64 + s.imm as i64;
                let plain = address_known && self.race.is_none();
                if !(plain && self.smem.store(at, a, value_known).is_some()) {
                    self.smem_store(a, value_known, at, address_known)?;
                }
                Ok((0, true))
            }
            StateFn::XExtract => Ok(match self.values.as_deref() {
                Some(v) => (v.first_lane(s.imm as usize), true),
                None => (0, false),
            }),
        }
    }

    #[inline(never)]
    fn smem_load(&mut self, at: i64, known: bool) -> Step<(i32, bool)> {
        if !known {
            return Ok((0, false));
        }
        self.check_smem(at, false)?;
        self.smem.load(at).ok_or_else(|| self.smem_range(at))
    }

    #[inline(never)]
    fn smem_store(&mut self, value: i32, known: bool, at: i64, address_known: bool) -> Step<()> {
        if !address_known {
            self.smem.forget_all();
            return Ok(());
        }
        self.check_smem(at, true)?;
        self.smem.store(at, value, known).ok_or_else(|| self.smem_range(at))
    }

    fn smem_range(&self, at: i64) -> FaultKind {
        FaultKind::OutOfRange { memory: "SMEM", unit: "word", first: at, last: at, size: self.smem.len() as u64 }
    }

    fn check_smem(&self, at: i64, write: bool) -> Step<()> {
        let Some(race) = self.race.as_ref().filter(|r| !r.is_empty()) else { return Ok(()) };
        let access = crate::unit::dma::Access { space: Space::Smem, start: at * 4, end: at * 4 + 4, write };
        match race.check(&self.l.geometry, access) {
            None => Ok(()),
            Some(c) => Err(c.fault(self.l, if write { "store to" } else { "load from" }, Space::Smem)),
        }
    }

    pub(super) fn fault(&self, kind: FaultKind) -> Fault {
        let bundle = self.pc.min(self.l.code.heads.len() as u32 - 1);
        let op = match self.l.code.ops[bundle as usize] {
            DebugRange::CALLER => self.stats.op(),
            op => op,
        };
        let op = self.l.program.debug.ops.get(op as usize).map_or_else(Box::default, |o| o.name.as_str().into());
        let timed = self.options.mode != Mode::NumericOnly;
        Fault {
            on: self.options.on,
            at: Issued { bundle, inst: self.culprit(bundle, &kind).into() },
            cycle: if timed { self.now } else { 0 },
            origin: Box::new(Origin { op, place: self.l.program.debug.place(bundle).cloned() }),
            kind,
        }
    }

    /// The instruction of the bundle that a fault is about, as far as its kind tells; else the whole bundle.
    fn culprit(&self, bundle: u32, kind: &FaultKind) -> String {
        let insts = &self.l.bundles()[bundle as usize];
        match insts.iter().find(|i| super::special::concerns(i, kind)) {
            Some(i) => crate::text::inst(i),
            None => insts.iter().map(crate::text::inst).collect::<Vec<_>>().join("; "),
        }
    }
}
