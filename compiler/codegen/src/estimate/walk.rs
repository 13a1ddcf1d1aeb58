//! The walk over bundles; see the parent module.

use super::units::{Array, Copies, push_cycles};
use crate::schedule::list::width;
use rustc_hash::FxHashMap;
use systole_isa::effects::Reg;
use systole_isa::opcodes::{DmaFn, Function, MatrixFn, ScalarFn};
use systole_isa::{Bundle, ChipConfig, Class, DmaDesc, Inst, Op, Slot};

/// Bundles that are walked at most.
const MOST: u64 = 400_000;
/// Rounds of a loop after which the mean time of the last ones is taken, same or not; of a loop with branches in it, which
/// may go another way only after many rounds.
const ROUNDS: usize = 17;
const BRANCHED: usize = 513;
/// Scalar registers that an encoding can name.
const REGISTERS: usize = 64;
/// Registers, and the first words of scalar memory: what did not stay in registers is there.
const SCALARS: usize = REGISTERS + 64;

/// What scalar registers and words hold, where it is known.
type Scalars = [Option<i32>; SCALARS];

/// What is known of a loop that is being walked: when its rounds ended, and the scalars then.
#[derive(Default)]
struct Rounds {
    ends: Vec<f64>,
    scalars: Vec<Scalars>,
    /// Ways that branches in the rounds went; of the first it is not known.
    ways: Vec<u64>,
    /// Copies that had begun at the end of the last round, and the ways that branches had gone.
    copies: u64,
    way: u64,
}

impl Rounds {
    /// Whether a scalar, where it is known, has moved by the same in the last `period` rounds as in as many before.
    fn moves(&self, i: usize, period: usize) -> bool {
        let n = self.scalars.len();
        match [0, period, 2 * period].map(|k| self.scalars[n - 1 - k][i]) {
            [Some(c), Some(b), Some(a)] => c.wrapping_sub(b) == b.wrapping_sub(a),
            _ => true,
        }
    }

    /// After how many rounds, at least two, all scalars have moved by the same as in as many rounds before, and branches have gone
    /// the same ways: windows take turns. What is the same in every round is so in every two.
    fn period(&self) -> Option<usize> {
        let n = self.scalars.len();
        // A way that comes every few rounds has been met in the last two thirds of them, what was special of the first is over.
        let alike = |p: usize| (1..=p.max(n * 2 / 3).min(n - 1 - p)).all(|k| self.ways[n - k] == self.ways[n - k - p]);
        let repeats = |p: usize| (1..SCALARS).all(|i| self.moves(i, p)) && alike(p);
        if repeats(1) { Some(2) } else { (2..=(n - 1) / 2).find(|&p| repeats(p)) }
    }

    /// Whether all rounds went the same ways through branches, so that others may come.
    fn is_undecided(&self) -> bool {
        self.ways.len() < BRANCHED
            && self.ways.get(1).is_some_and(|&w| w != 0 && self.ways[1..].iter().all(|&o| o == w))
    }

    /// Whether the last rounds take the same time; where copies begin in them, as long as those before.
    fn is_steady(&self, period: usize, copied: bool) -> bool {
        let n = self.ends.len();
        let alike = |a: f64, b: f64| (a - b).abs() <= 0.002 * a.max(b);
        let took = |from: usize, to: usize| self.ends[n - from] - self.ends[n - to];
        if copied || period > 2 {
            return n > 2 * period && alike(took(1, 1 + period), took(1 + period, 1 + 2 * period));
        }
        alike(took(1, 2), took(2, 3))
    }

    /// What a scalar is so many rounds later, a multiple of the period.
    fn later(&self, i: usize, period: usize, rounds: i32) -> Option<i32> {
        let n = self.scalars.len();
        let each = if period == 2 && self.moves(i, 1) { 1 } else { period };
        let (now, before) = (self.scalars[n - 1][i]?, self.scalars[n - 1 - each][i]?);
        self.moves(i, each).then(|| now.wrapping_add(now.wrapping_sub(before).wrapping_mul(rounds / each as i32)))
    }
}

pub(super) struct Walk<'a> {
    chip: &'a ChipConfig,
    bundles: &'a [Bundle],
    /// The next issue, at the earliest.
    next: f64,
    ready: [f64; Reg::COUNT],
    /// By slot and place in it: when it is free.
    slots: Vec<Vec<f64>>,
    scalars: Scalars,
    copies: Copies<'a>,
    started: u64,
    /// Ways that branches have gone: a number for each, added up.
    way: u64,
    arrays: Vec<Array>,
    /// When what the cross-lane units transpose can be popped.
    transposed: Vec<f64>,
    loops: FxHashMap<usize, Rounds>,
}

impl<'a> Walk<'a> {
    pub fn new(chip: &'a ChipConfig, bundles: &'a [Bundle], descs: &'a [DmaDesc]) -> Walk<'a> {
        let mut scalars = [None; SCALARS];
        scalars[0] = Some(0);
        Walk {
            chip,
            bundles,
            next: 0.0,
            ready: [0.0; Reg::COUNT],
            slots: Slot::ALL.map(|s| vec![0.0; width(chip, s).max(1) as usize]).to_vec(),
            scalars,
            copies: Copies::new(chip, descs),
            started: 0,
            way: 0,
            arrays: vec![Array::new(chip); chip.mxu.count as usize],
            transposed: vec![0.0; chip.core.xlu_slots.max(1) as usize],
            loops: FxHashMap::default(),
        }
    }

    /// Cycles from a bundle to the return.
    pub fn run(mut self, start: usize) -> f64 {
        let mut at = start;
        let bubble = f64::from(self.chip.timing.get(Class::Branch).latency.max(1));
        for _ in 0..MOST {
            let Some(bundle) = self.bundles.get(at) else { break };
            let now = self.issue(bundle);
            self.next = now + 1.0;
            let before = self.scalars;
            for i in &bundle.insts {
                self.begin(i, now, &before);
                self.scalar(i, &before);
            }
            let branch = bundle.insts.iter().find(|i| i.op.info().slot == Slot::Branch);
            let Some(branch) = branch else {
                at += 1;
                continue;
            };
            if matches!(branch.op, Op::BRet | Op::BHalt) {
                break;
            }
            let target = self.branch(branch, &before);
            if matches!(branch.op, Op::BZ | Op::BNz) {
                let way = (at as u64) << 1 | u64::from(target.is_some());
                self.way = self.way.wrapping_add((way + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            }
            match target {
                Some(target) => {
                    self.next = self.next.max(now + bubble);
                    if target <= at && branch.op == Op::BLoop {
                        self.round(at, target, branch.operands[0] as usize);
                    }
                    at = target;
                }
                None => {
                    self.loops.remove(&at);
                    at += 1;
                }
            }
        }
        self.next
    }

    /// When a bundle issues.
    fn issue(&mut self, bundle: &Bundle) -> f64 {
        let mut t = self.next;
        for i in &bundle.insts {
            let registers = i.uses().into_iter().chain(i.defs());
            t = registers.fold(t, |t, r| t.max(self.ready[r.index()])).max(self.gate(i));
        }
        for (s, places) in Slot::ALL.into_iter().zip(&mut self.slots) {
            let used = bundle.insts.iter().filter(|i| i.op.info().slot == s).count();
            if used > 0 {
                places.sort_by(f64::total_cmp);
                t = t.max(places[used.min(places.len()) - 1]);
            }
        }
        for (s, places) in Slot::ALL.into_iter().zip(&mut self.slots) {
            let mine = bundle.insts.iter().filter(|i| i.op.info().slot == s);
            for (i, place) in mine.zip(places) {
                *place = t + f64::from(self.chip.timing.get(i.op.info().class).interval.max(1));
            }
        }
        for i in &bundle.insts {
            let latency = f64::from(self.chip.timing.get(i.op.info().class).latency.max(1));
            i.defs().into_iter().for_each(|r| self.ready[r.index()] = t + latency);
        }
        t
    }

    /// When the units let an instruction issue.
    fn gate(&self, i: &Inst) -> f64 {
        let o = &i.operands;
        let array = |n: i32| usize::try_from(n).ok().and_then(|n| self.arrays.get(n));
        if let Function::Matrix(f) = i.op.function() {
            return match f {
                MatrixFn::MStage | MatrixFn::MStageT => array(o[0]).map_or(0.0, |a| a.room(false)),
                MatrixFn::MPush | MatrixFn::MPushSet | MatrixFn::MPushAdd => array(o[0]).map_or(0.0, |a| a.room(true)),
                MatrixFn::MPop => array(o[1]).map_or(0.0, Array::popped),
                MatrixFn::MDrain => array(o[1]).map_or(0.0, |a| a.drained(self.value(o[3]))),
                MatrixFn::MLatch => 0.0,
            };
        }
        if let Function::Dma(f) = i.op.function() {
            return self.awaited(f, i).map_or(0.0, |(sem, bytes)| self.copies.ready(sem, bytes));
        }
        let unit = (i.op == Op::XTpop).then(|| usize::try_from(o[1]).ok()).flatten();
        unit.and_then(|u| self.transposed.get(u)).copied().unwrap_or(0.0)
    }

    /// The semaphore that an instruction waits on, and for how much.
    fn awaited(&self, f: DmaFn, i: &Inst) -> Option<(i32, u64)> {
        let o = &i.operands;
        match f {
            DmaFn::DmaWait => Some((o[0], o[1] as u32 as u64)),
            DmaFn::DmaWaitS => {
                let known = self.value(o[1]).map(|b| b as u32 as u64);
                Some((o[0], known.unwrap_or_else(|| self.copies.all(o[0]))))
            }
            DmaFn::DmaStart | DmaFn::DmaRemote | DmaFn::SyncSignal | DmaFn::SyncCores => None,
        }
    }

    /// What an instruction starts in the units.
    fn begin(&mut self, i: &Inst, now: f64, before: &Scalars) {
        let o = &i.operands;
        if let Function::Matrix(f) = i.op.function() {
            self.matrix(f, i, now, before);
        } else if i.op == Op::DmaStart {
            self.copies.start(o[0], o[5], now);
            self.started += 1;
        } else if let Function::Dma(f) = i.op.function() {
            if let Some((sem, bytes)) = self.awaited(f, i) {
                self.copies.take(sem, bytes, now);
            }
        } else if i.op == Op::XTpush {
            let ready = now + f64::from(self.chip.timing.get(i.op.info().class).latency.max(1));
            if let Some(t) = usize::try_from(o[0]).ok().and_then(|u| self.transposed.get_mut(u)) {
                *t = ready;
            }
        }
    }

    fn matrix(&mut self, f: MatrixFn, i: &Inst, now: f64, before: &Scalars) {
        let (o, chip) = (&i.operands, self.chip);
        let last = |size: u32| o[2] + 1 == (size / chip.core.lanes.max(1)) as i32;
        let unit = match f {
            MatrixFn::MPop | MatrixFn::MDrain => o[1],
            MatrixFn::MStage | MatrixFn::MStageT | MatrixFn::MLatch => o[0],
            MatrixFn::MPush | MatrixFn::MPushSet | MatrixFn::MPushAdd => o[0],
        };
        let Some(a) = usize::try_from(unit).ok().and_then(|n| self.arrays.get_mut(n)) else { return };
        match f {
            MatrixFn::MStage | MatrixFn::MStageT => a.stage(now, chip.mxu_stage_cycles()),
            MatrixFn::MLatch => a.latch(now, f64::from(chip.timing.get(Class::MxuLatch).latency.max(1))),
            // Only the last chunk moves the array.
            MatrixFn::MPush | MatrixFn::MPushSet | MatrixFn::MPushAdd if !last(chip.mxu.rows) => {}
            MatrixFn::MPush => a.push(now, push_cycles(chip, o[3]), None),
            MatrixFn::MPushSet | MatrixFn::MPushAdd => {
                let row = before.get(o[4] as usize).copied().flatten();
                a.push(now, push_cycles(chip, o[3]), Some(row));
            }
            MatrixFn::MPop if last(chip.mxu.cols) => a.pop(),
            MatrixFn::MPop | MatrixFn::MDrain => {}
        }
    }

    fn value(&self, register: i32) -> Option<i32> {
        usize::try_from(register).ok().and_then(|r| self.scalars.get(r)).copied().flatten()
    }

    /// What an instruction leaves in scalar registers.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "the results of others are not known on paper, which is never wrong"
    )]
    fn scalar(&mut self, i: &Inst, before: &Scalars) {
        let o = &i.operands;
        let word = |base: i32, offset: i32| {
            usize::try_from(offset).ok().map(|w| w + REGISTERS).filter(|&w| base == 0 && w < SCALARS)
        };
        let Function::Scalar(f) = i.op.function() else {
            for r in i.defs() {
                if r.index() < REGISTERS && i.op != Op::BLoop {
                    self.scalars[r.index()] = None;
                }
            }
            if i.op == Op::SLd && o[0] != 0 {
                self.scalars[o[0] as usize & (REGISTERS - 1)] = word(o[1], o[2]).and_then(|w| before[w]);
            } else if i.op == Op::SSt
                && let Some(w) = word(o[1], o[2])
            {
                self.scalars[w] = before[o[0] as usize & (REGISTERS - 1)];
            }
            return;
        };
        let get = |n: usize| before.get(o[n] as usize).copied().flatten();
        let two = |f: fn(i32, i32) -> i32| Some(f(get(1)?, get(2)?));
        let one = |f: fn(i32, i32) -> i32| Some(f(get(1)?, o[2]));
        let value = match f {
            ScalarFn::SLi => Some(o[1]),
            ScalarFn::SAdd => two(i32::wrapping_add),
            ScalarFn::SSub => two(i32::wrapping_sub),
            ScalarFn::SMul => two(i32::wrapping_mul),
            ScalarFn::SAnd => two(|a, b| a & b),
            ScalarFn::SOr => two(|a, b| a | b),
            ScalarFn::SXor => two(|a, b| a ^ b),
            ScalarFn::SMin => two(i32::min),
            ScalarFn::SMax => two(i32::max),
            ScalarFn::SEq => two(|a, b| i32::from(a == b)),
            ScalarFn::SLt => two(|a, b| i32::from(a < b)),
            ScalarFn::SAddI => one(i32::wrapping_add),
            ScalarFn::SMulI => one(i32::wrapping_mul),
            ScalarFn::SAndI => one(|a, b| a & b),
            ScalarFn::SShlI => one(|a, b| a << (b & 31)),
            ScalarFn::SShrI => one(|a, b| (a as u32 >> (b & 31)) as i32),
            ScalarFn::SSarI => one(|a, b| a >> (b & 31)),
            ScalarFn::SEqI => one(|a, b| i32::from(a == b)),
            ScalarFn::SLtI => one(|a, b| i32::from(a < b)),
            ScalarFn::SSel => get(1).and_then(|c| if c != 0 { get(2) } else { get(3) }),
            _ => None,
        };
        if o[0] != 0 {
            self.scalars[o[0] as usize & (REGISTERS - 1)] = value;
        }
    }

    /// Where a branch goes; `None`: on.
    fn branch(&mut self, b: &Inst, before: &Scalars) -> Option<usize> {
        let o = &b.operands;
        let known = before.get(o[0] as usize).copied().flatten();
        if b.op == Op::BJmp {
            return Some(o[0] as usize);
        }
        let taken = if b.op == Op::BLoop {
            self.scalars[o[0] as usize & (REGISTERS - 1)] = known.map(|v| v.wrapping_sub(1));
            known.is_some_and(|v| v != 1)
        } else {
            b.op == Op::BNz && known.is_some_and(|v| v != 0) || b.op == Op::BZ && known == Some(0)
        };
        taken.then_some(o[1] as usize)
    }

    /// A round of a loop has ended: where its rounds take the same time, the others are added up but for the last ones.
    fn round(&mut self, at: usize, top: usize, counter: usize) {
        // Loops inside begin anew.
        self.loops.retain(|&l, _| !(top..at).contains(&l));
        let started = self.started;
        let r = self.loops.entry(at).or_default();
        let copied = started != r.copies;
        r.copies = started;
        r.ways.push(self.way.wrapping_sub(r.way));
        r.way = self.way;
        r.ends.push(self.next);
        r.scalars.push(self.scalars);
        if r.ends.len() < 3 || r.is_undecided() {
            return;
        }
        let (period, regular) = match r.period() {
            Some(period) => (period, r.is_steady(period, copied)),
            None => (2, false),
        };
        let left = self.scalars.get(counter).copied().flatten().unwrap_or(1);
        let skipped = (left - 1) / period as i32 * period as i32;
        let most = if r.ways.last() == Some(&0) { ROUNDS } else { BRANCHED };
        if !regular && r.ends.len() < most || skipped < 2 {
            return;
        }
        let n = r.ends.len();
        let took = (r.ends[n - 1] - r.ends[n - 1 - period]) / period as f64;
        for i in 1..SCALARS {
            self.scalars[i] = r.later(i, period, skipped);
        }
        self.scalars[counter & (REGISTERS - 1)] = Some(left - skipped);
        let way = r.ways[n - period..].iter().fold(0u64, |all, w| all.wrapping_add(*w));
        self.way = self.way.wrapping_add(way.wrapping_mul(u64::from(skipped.unsigned_abs()) / period as u64));
        r.way = self.way;
        r.ends.clear();
        r.ways.clear();
        r.scalars.clear();
        self.shift(took * f64::from(skipped), copied);
    }

    /// Moves all times of the core; those of copies only where these are part of what was added up: others go on meanwhile.
    /// Ends of rounds of the loops around stay, so that theirs take what was added up.
    fn shift(&mut self, cycles: f64, copied: bool) {
        self.next += cycles;
        self.ready.iter_mut().chain(&mut self.transposed).for_each(|t| *t += cycles);
        self.slots.iter_mut().flatten().for_each(|t| *t += cycles);
        self.arrays.iter_mut().for_each(|a| a.shift(cycles));
        if copied {
            self.copies.shift(cycles);
        }
    }
}
