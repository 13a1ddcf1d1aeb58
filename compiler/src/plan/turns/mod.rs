//! Parts of arrays in HBM that every turn of a loop brings, begun turns before they are wanted.
//!
//! A turn that begins with the copy of its part waits for HBM's answer and for the bytes, and nothing else goes on meanwhile. Where the part
//! is at follows from scalars that the loop computes anyway (a counter, mostly), so that those of later turns are known: the turn's
//! place in a ring of parts in vector memory is filled by turns before it. The first parts are begun before the loop, and none that no turn
//! wants. Sound where nothing in the loop writes the array, and where only kernels read the part, in vector memory.

mod words;

use super::memory::{beyond, guard_rows, kernel_semaphores};
use super::place::reach::visit;
use super::spec::KernelSpec;
use super::step::{Arg, BufferKind, Draft, ScalarOp, Step, Unit, Use, Word};
use super::view::{BufId, Form, layout_of};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use systole_codegen::emit::fetch::{Ahead, FetchSpec};
use systole_codegen::kernel::Needs;
use systole_hlo::graph::Binary;
use systole_isa::{ChipConfig, DType};
use words::{Later, Turn};

/// Turns of a loop from which on its parts are begun ahead.
const LEAST_TURNS: u64 = 3;
/// The share of HBM's bandwidth that the parts on their way are enough for.
const ENOUGH: f64 = 0.9;
/// Parts of a ring at most, and the share of vector memory that it may take.
const MOST_SLOTS: u32 = 4;
const SHARE: u64 = 8;
/// The share of the semaphores for copies that rings may take.
const SEMAPHORES: u32 = 4;

/// Begins parts ahead in all loops of a draft.
pub(super) fn ahead(plan: &mut Draft, chip: &ChipConfig) {
    let fetches = plan.kernels.iter().any(|k| matches!(&k.spec, KernelSpec::Fetch(s) if s.ahead.is_none()));
    if !fetches {
        return;
    }
    let mut uses = vec![0u32; plan.buffers.len()];
    visit(&plan.steps, &mut |b, _| uses[b.index()] += 1);
    let mut known = FxHashSet::default();
    Step::each(&plan.steps, &mut |s| {
        if let Step::Scalar { dst, .. } | Step::ReadScalar { dst, .. } = s {
            known.insert(*dst);
        }
    });
    let behind = beyond::rows(plan, chip).vmem;
    let copies = chip.core.semaphores.saturating_sub(kernel_semaphores(chip) + plan.pod.reserved());
    let steps = std::mem::take(&mut plan.steps);
    let mut loops = Loops { plan, chip, uses, known, behind, most: copies / SEMAPHORES };
    let (steps, used) = loops.region(steps);
    plan.steps = steps;
    plan.ahead = used;
}

struct Loops<'a> {
    plan: &'a mut Draft,
    chip: &'a ChipConfig,
    /// Uses of each buffer in the whole draft, words that it computes, and rows that kernels read behind each buffer.
    uses: Vec<u32>,
    known: FxHashSet<Word>,
    behind: Vec<u64>,
    /// Semaphores for all.
    most: u32,
}

/// A loop that is looked at.
struct Loop {
    before: Vec<Step>,
    head: Vec<Step>,
    cond: Word,
    body: Vec<Step>,
    turns: Option<u64>,
    /// Semaphores in use in it.
    used: u32,
}

/// A part that can be begun ahead: the step that brings it, the arrays that hold it, and the slots of its ring.
struct Part {
    at: usize,
    spec: FetchSpec,
    args: Vec<Arg>,
    op: u32,
    slots: u32,
}

impl Loops<'_> {
    /// Steps with parts begun ahead, and the semaphores in use at a time.
    fn region(&mut self, steps: Vec<Step>) -> (Vec<Step>, u32) {
        let mut all = Vec::new();
        let mut most = 0;
        for step in steps {
            let mut used = 0;
            let mut step = step.map_regions(|inner| {
                let (inner, n) = self.region(inner);
                used = used.max(n);
                inner
            });
            if let Step::While { head, cond, body, turns, shared: false, .. } = &mut step {
                let (whole, own) = (std::mem::take(head), std::mem::take(body));
                let mut l = Loop { before: Vec::new(), head: whole, cond: *cond, body: own, turns: *turns, used };
                self.turns(&mut l);
                (*head, *body, used) = (l.head, l.body, l.used);
                all.extend(l.before);
            }
            most = most.max(used);
            all.push(step);
        }
        (all, most)
    }

    /// Begins the parts of one loop ahead, as many as can be.
    fn turns(&mut self, l: &mut Loop) {
        if l.turns.is_some_and(|n| n < LEAST_TURNS) {
            return;
        }
        let mut from = 0;
        while let Some(part) = self.part(l, from) {
            from = part.at + 1;
            if let Some(added) = self.begin(l, part) {
                from += added;
            }
        }
    }

    /// The next part from a step on that can be begun ahead.
    fn part(&self, l: &Loop, from: usize) -> Option<Part> {
        (from..l.body.len()).find_map(|at| {
            let Step::Call { kernel, args, op } = &l.body[at] else { return None };
            let KernelSpec::Fetch(spec) = &self.plan.kernels[*kernel].spec else { return None };
            let slots = self.slots(spec, l).filter(|_| spec.ahead.is_none())?;
            let alone = args.iter().all(|a| self.is_free(l, at, a));
            alone.then(|| Part { at, spec: spec.clone(), args: args.clone(), op: *op, slots })
        })
    }

    /// Places of a ring: as many parts as are on their way while HBM answers, and the one that is worked on.
    fn slots(&self, spec: &FetchSpec, l: &Loop) -> Option<u32> {
        let bytes = spec.bytes(self.chip).max(1);
        let flying = spec.cycles(self.chip) / (bytes as f64 / self.chip.hbm_bytes_per_cycle());
        let wanted = ((flying * ENOUGH).ceil() as u64 + 1).next_power_of_two().clamp(2, u64::from(MOST_SLOTS));
        let room = self.chip.vmem.bytes / SHARE / bytes;
        let mut slots = wanted as u32;
        let turns = l.turns.unwrap_or(u64::MAX);
        while slots > 2 && (u64::from(slots) > room || u64::from(slots) > turns) {
            slots /= 2;
        }
        (u64::from(slots) <= room && l.used + slots <= self.most).then_some(slots)
    }

    /// Whether an argument of a fetch is an array that the loop does not write, or a part that kernels alone read behind it, in vector memory.
    fn is_free(&self, l: &Loop, at: usize, arg: &Arg) -> bool {
        let Arg::Array { buf, usage, dynamic, offset, .. } = arg else { return false };
        if *usage == Use::Read {
            let mut written = false;
            let mut look = |b: BufId, w: bool| written |= w && b == *buf;
            visit(&l.head, &mut look);
            visit(&l.body, &mut look);
            return !written;
        }
        let buffer = &self.plan.buffers[buf.index()];
        let own = buffer.kind == BufferKind::Temp
            && *usage == Use::Write
            && dynamic.is_empty()
            && *offset == 0
            && !self.plan.results.contains(buf)
            && !self.plan.residency.kept.contains(buf);
        let mut reads = 0;
        Step::each(&l.body[at + 1..], &mut |s| {
            let Step::Call { args, .. } = s else { return };
            let near = |a: &&Arg| {
                let array = a.array();
                array.is_some_and(|(b, usage, unit)| b == *buf && usage == Use::Read && unit != Unit::Granules)
            };
            reads += args.iter().filter(near).count() as u32;
        });
        own && reads + 1 == self.uses[buf.index()]
    }

    /// Begins a part ahead; how many steps stand before it more than did, or `None` if where it is at is not known before.
    fn begin(&mut self, l: &mut Loop, part: Part) -> Option<usize> {
        let Schedule { before, first, own, next, counts, words } = self.schedule(l, &part)?;
        let Part { at, spec, args, op, slots } = part;
        let Counts { one, mask, slot, last, going } = counts;
        let sum = Word(words);
        self.plan.words = words + 1;
        let made = |s: &Step| if let Step::Scalar { dst, .. } = s { Some(*dst) } else { None };
        self.known.extend(before.iter().chain(&own).filter_map(made).chain([sum]));
        let rings = self.rings(&args, slots);
        let kernel = self.kernel(&spec, l.used, slots);
        l.used += slots;
        l.before.extend(before);
        for (k, (args, any)) in (0..).zip(first) {
            let usage = if k == 0 { Use::Write } else { Use::Update };
            let mut args = rings.args(args, Place::Fixed(k), usage);
            args.extend([Arg::Const(k as i32), Arg::Scalar(any), Arg::Const(0), Arg::Const(0)]);
            l.before.push(Step::Call { kernel, args, op });
        }
        let mut args = rings.args(next, Place::At(last), Use::Update);
        let bytes = spec.bytes(self.chip) as i32;
        args.extend([Arg::Scalar(last), Arg::Scalar(going), Arg::Scalar(slot), Arg::Const(bytes)]);
        let added = own.len();
        l.body[at + 1..].iter_mut().for_each(|s| rings.read(s, slot));
        l.body.splice(at..=at, own.into_iter().chain([Step::Call { kernel, args, op }]));
        let number = |dst, value| Step::Scalar { dst, value, dtype: DType::S32 };
        l.body.extend([
            number(last, ScalarOp::Copy(slot)),
            number(sum, ScalarOp::Binary(Binary::Add, slot, one)),
            number(slot, ScalarOp::Binary(Binary::And, sum, mask)),
        ]);
        Some(added)
    }

    /// Where the parts of later turns are at.
    fn schedule(&self, l: &Loop, part: &Part) -> Option<Schedule> {
        let (here, turn) = (l.head.len() + part.at, Turn::new(&l.head, &l.body));
        let mut words = self.plan.words;
        let mut early = Later::new(&turn, 0, &self.known, &mut words);
        let (mut first, mut any) = (Vec::new(), None);
        for k in 0..part.slots - 1 {
            let own = early.value(l.cond, l.head.len(), k)?;
            // A turn comes if those before it do.
            let comes =
                any.map_or(own, |before| early.compute(ScalarOp::Binary(Binary::And, before, own), DType::Pred));
            any = Some(comes);
            first.push((part.later(&mut early, here, k)?, comes));
        }
        let mut number = |value| early.compute(value, DType::S32);
        let (one, mask) = (number(ScalarOp::Const(1)), number(ScalarOp::Const(part.slots as i32 - 1)));
        let (slot, last) = (number(ScalarOp::Const(0)), number(ScalarOp::Copy(mask)));
        let going = early.compute(ScalarOp::Copy(any?), DType::Pred);
        let before = early.steps;
        let mut late = Later::new(&turn, here, &self.known, &mut words);
        let comes = late.value(l.cond, l.head.len(), part.slots - 1)?;
        let next = part.later(&mut late, here, part.slots - 1)?;
        let mut own = late.steps;
        own.push(Step::Scalar { dst: going, value: ScalarOp::Binary(Binary::And, going, comes), dtype: DType::Pred });
        Some(Schedule { before, first, own, next, counts: Counts { one, mask, slot, last, going }, words })
    }

    /// A ring for each array that a fetch writes.
    fn rings(&mut self, args: &[Arg], slots: u32) -> Rings {
        let written = args.iter().filter_map(Arg::array).filter(|a| a.1 != Use::Read);
        let arrays: Vec<BufId> = written.map(|a| a.0).collect();
        let mut rings = BTreeMap::new();
        for buf in arrays {
            let buffer = &self.plan.buffers[buf.index()];
            let (name, dtype) = (buffer.name.clone(), buffer.layout.dtype);
            let packing = dtype.packing() as u64;
            let own = buffer.layout.bytes().div_ceil(self.chip.row_bytes());
            let far = guard_rows(self.chip).max(self.behind[buf.index()]);
            let rows = (own + far).next_multiple_of(u64::from(self.chip.core.sublanes));
            // Rows of words, whatever the type's elements are made of.
            let dtype = if packing == 1 { DType::F32 } else { dtype };
            let dims = [rows * u64::from(slots) * packing, u64::from(self.chip.core.lanes)];
            let layout = layout_of(dtype, &dims, Form::Lanes, self.chip);
            let ring = self.plan.buffer(name, layout, BufferKind::State);
            self.uses.push(0);
            self.behind.push(far);
            rings.insert(buf, Ring { buf: ring, rows: rows as i64, packing: packing as i64 });
        }
        Rings(rings)
    }

    fn kernel(&mut self, spec: &FetchSpec, used: u32, slots: u32) -> usize {
        let end = self.chip.core.semaphores - self.plan.pod.reserved();
        let ahead = Some(Ahead { semaphore: end - used - slots, slots });
        let spec = KernelSpec::Fetch(FetchSpec { ahead, ..spec.clone() });
        self.plan.simple_kernel(spec, "fetch", Needs::default())
    }
}

impl Part {
    /// The arguments so many turns later.
    fn later(&self, words: &mut Later<'_>, here: usize, turns: u32) -> Option<Vec<Arg>> {
        let mut args = self.args.clone();
        for arg in &mut args {
            let Arg::Array { dynamic, .. } = arg else { continue };
            for term in dynamic {
                term.0 = words.value(term.0, here, turns)?;
            }
        }
        Some(args)
    }
}

/// Where the parts of a loop's turns are at, turns before.
struct Schedule {
    /// Before the loop: scalars, and for each of its first parts the arguments and whether its turn comes.
    before: Vec<Step>,
    first: Vec<(Vec<Arg>, Word)>,
    /// In every turn: scalars, and the arguments of the last part that is under way.
    own: Vec<Step>,
    next: Vec<Arg>,
    counts: Counts,
    /// Words of the draft with these.
    words: u32,
}

/// What a loop counts: the turn's place of the ring, the one before it, whether the turn of the last part that is under way comes; and
/// two numbers for that.
struct Counts {
    one: Word,
    mask: Word,
    slot: Word,
    last: Word,
    going: Word,
}

/// Which of a ring's places is meant.
#[derive(Clone, Copy)]
enum Place {
    Fixed(u32),
    At(Word),
}

/// Places for parts, one behind the other, so many rows of words each.
struct Ring {
    buf: BufId,
    rows: i64,
    packing: i64,
}

/// By the arrays that hold one part.
struct Rings(BTreeMap<BufId, Ring>);

impl Rings {
    /// Arguments with rings instead of the arrays that hold one part, which are used so.
    fn args(&self, mut args: Vec<Arg>, place: Place, now: Use) -> Vec<Arg> {
        for arg in &mut args {
            self.put(arg, place);
            if let Arg::Array { usage, .. } = arg
                && *usage == Use::Write
            {
                *usage = now;
            }
        }
        args
    }

    fn put(&self, arg: &mut Arg, place: Place) {
        let Arg::Array { buf, unit, offset, dynamic, .. } = arg else { return };
        let Some(ring) = self.0.get(buf) else { return };
        *buf = ring.buf;
        let step = if *unit == Unit::ElementRows { ring.rows * ring.packing } else { ring.rows };
        match place {
            Place::Fixed(k) => *offset += step * i64::from(k),
            Place::At(word) => dynamic.push((word, step)),
        }
    }

    /// What reads parts reads those of one place.
    fn read(&self, step: &mut Step, slot: Word) {
        match step {
            Step::Call { args, .. } => args.iter_mut().for_each(|a| self.put(a, Place::At(slot))),
            Step::While { head, body, .. } => head.iter_mut().chain(body).for_each(|s| self.read(s, slot)),
            Step::Switch { branches, .. } => branches.iter_mut().flatten().for_each(|s| self.read(s, slot)),
            Step::Copy { .. }
            | Step::Scalar { .. }
            | Step::ReadScalar { .. }
            | Step::Host { .. }
            | Step::Exchange(_)
            | Step::Begin(_)
            | Step::End(_) => {}
        }
    }
}
