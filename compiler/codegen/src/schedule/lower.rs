//! From a kernel's tree to linear code: blocks are list-scheduled, innermost counted loops pipelined, control becomes
//! branches.
//!
//! Pieces that are scheduled as one (regions) are numbered in tree order, the same in every attempt, so that a retry can
//! ask for less in the region whose registers ran out.

use super::body::{Names, Node, fold_sums, rename_inner};
use super::chaos::Chaos;
use super::code::{Code, RegionKind};
use super::list::{self, Order};
use super::pipeline::{self, Request};
use super::{ScheduleError, ScheduleOptions, deps};
use crate::kernel::regs::{File, Reg, defs, registers, uses};
use crate::kernel::{Item, Kernel, Loop, Trips, VInst};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_isa::{ChipConfig, Effect, Inst, Op, Slot};

/// Instructions of a block that are scheduled together at most.
const WINDOW: usize = 320;

/// How hard a region's schedule may press on the registers: 0 not at all careful, [`LAST_LEVEL`] program order.
pub type Levels = FxHashMap<u32, u32>;

/// The most careful level.
pub const LAST_LEVEL: u32 = 4;
/// The first level without software pipelining.
const PLAIN_LEVEL: u32 = 3;

/// Occurrences of each register in a tree.
pub fn count_occurrences(items: &[Item], out: &mut FxHashMap<Reg, u32>) {
    let mut add = |r: Reg| *out.entry(r).or_default() += 1;
    let scalar = |s: crate::kernel::S| Reg::new(File::Scalar, s.0);
    let mut inner: Vec<&[Item]> = Vec::new();
    for item in items {
        match item {
            Item::Inst(v) => registers(&v.inst).for_each(|r| add(r.reg)),
            Item::Loop(l) => {
                if let Trips::Dynamic(s) = l.trips {
                    add(scalar(s));
                }
                inner.push(&l.body);
            }
            Item::If { cond, then, otherwise } => {
                add(scalar(*cond));
                inner.extend([&then[..], &otherwise[..]]);
            }
            Item::While { head, cond, body } => {
                add(scalar(*cond));
                inner.extend([&head[..], &body[..]]);
            }
            Item::Call { args, .. } => args.iter().for_each(|&a| add(scalar(a))),
            Item::Mark { .. } => {}
        }
    }
    for i in inner {
        count_occurrences(i, out);
    }
}

/// The instructions of a body without control flow or faults; `None` if it has any.
pub fn straight_line(body: &[Item]) -> Option<Vec<&VInst>> {
    body.iter()
        .map(|i| match i {
            Item::Inst(v) if !matches!(v.inst.op.info().effect, Effect::Control | Effect::Trap) => Some(v),
            Item::Inst(_)
            | Item::Loop(_)
            | Item::If { .. }
            | Item::While { .. }
            | Item::Call { .. }
            | Item::Mark { .. } => None,
        })
        .collect()
}

/// Instructions of an inlined loop at most, all trips together.
const INLINE: usize = 96;

/// Writes out innermost loops of few instructions in all when they are inside another loop, which can then be
/// pipelined itself.
pub fn inline_small_loops(items: &mut Vec<Item>) {
    inline(items, false);
}

fn inline(items: &mut Vec<Item>, in_loop: bool) {
    for item in items.iter_mut() {
        let repeats = matches!(item, Item::Loop(_) | Item::While { .. });
        item.regions_mut().for_each(|region| inline(region, in_loop || repeats));
    }
    // Only when every loop here goes does the loop around become innermost.
    let small = |i: &Item| match i {
        Item::Loop(Loop { trips: Trips::Static(n), body, .. }) => {
            straight_line(body).map(|b| b.len() * *n as usize).filter(|&n| n <= INLINE)
        }
        Item::Inst(_) => Some(1),
        Item::Loop(_) | Item::If { .. } | Item::While { .. } | Item::Call { .. } | Item::Mark { .. } => None,
    };
    let total: Option<usize> = items.iter().map(small).sum();
    if !in_loop || total.is_none_or(|n| n > INLINE) {
        return;
    }
    for item in std::mem::take(items) {
        match item {
            Item::Loop(Loop { trips: Trips::Static(n), body, .. }) => {
                for _ in 0..n {
                    items.extend(body.iter().cloned());
                }
            }
            Item::Inst(_)
            | Item::Loop(_)
            | Item::If { .. }
            | Item::While { .. }
            | Item::Call { .. }
            | Item::Mark { .. } => items.push(item),
        }
    }
}

struct Lower<'a> {
    chip: &'a ChipConfig,
    options: &'a ScheduleOptions,
    levels: &'a Levels,
    code: Code,
    /// Occurrences of each register in the kernel.
    total: FxHashMap<Reg, u32>,
    run: Vec<Node>,
    next_region: u32,
    chaos: Chaos,
}

/// Lowers a kernel. The last bundle returns, or halts for the main program.
pub fn lower(
    kernel: &Kernel,
    is_main: bool,
    chip: &ChipConfig,
    options: &ScheduleOptions,
    levels: &Levels,
) -> Result<Code, ScheduleError> {
    check_slots(&kernel.body, chip, &kernel.name)?;
    let mut total = FxHashMap::default();
    count_occurrences(&kernel.body, &mut total);
    let mut code = Code::new(Names::new(kernel));
    for (i, p) in kernel.params.iter().enumerate() {
        code.fixed.push((Reg::new(File::Scalar, p.0), i as u32 + 1));
    }
    let chaos = Chaos::new(options.chaos.map(|s| s.wrapping_add(levels.len() as u64)));
    let mut l = Lower { chip, options, levels, code, total, run: Vec::new(), next_region: 0, chaos };
    l.items(&kernel.body, 0);
    let end = if is_main { Op::BHalt } else { Op::BRet };
    l.flush(0, Some(Inst::new(end, &[])));
    Ok(l.code)
}

/// Every instruction has a slot on this chip.
fn check_slots(items: &[Item], chip: &ChipConfig, kernel: &str) -> Result<(), ScheduleError> {
    for item in items {
        if let Item::Inst(v) = item {
            let info = v.inst.op.info();
            if list::width(chip, info.slot) == 0 {
                return Err(ScheduleError::NoSlot { kernel: kernel.into(), mnemonic: info.mnemonic, slot: info.slot });
            }
        }
        item.regions().try_for_each(|region| check_slots(region, chip, kernel))?;
    }
    Ok(())
}

fn scalar(s: crate::kernel::S) -> i32 {
    s.0 as i32
}

impl Lower<'_> {
    fn items(&mut self, items: &[Item], depth: u32) {
        for item in items {
            match item {
                Item::Inst(v) if matches!(v.inst.op.info().effect, Effect::Control | Effect::Trap) => {
                    self.flush(depth, Some(v.inst));
                }
                Item::Inst(v) => self.run.push(Node::new(v)),
                Item::Loop(l) => self.counted(l, depth),
                Item::If { cond, then, otherwise } => self.branch(scalar(*cond), then, otherwise, depth),
                Item::While { head, cond, body } => {
                    self.flush(depth, None);
                    let (top, end) = (self.code.label(), self.code.label());
                    self.code.place(top);
                    self.items(head, depth + 1);
                    self.flush(depth + 1, Some(Inst::new(Op::BZ, &[scalar(*cond), end as i32])));
                    self.items(body, depth + 1);
                    self.flush(depth + 1, Some(Inst::new(Op::BJmp, &[top as i32])));
                    self.code.place(end);
                }
                Item::Call { kernel, args } => self.call(*kernel, args, depth),
                Item::Mark { debug_op } => {
                    self.flush(depth, None);
                    self.code.debug = Some(*debug_op);
                }
            }
        }
    }

    fn branch(&mut self, cond: i32, then: &[Item], otherwise: &[Item], depth: u32) {
        let (other, end) = (self.code.label(), self.code.label());
        self.flush(depth, Some(Inst::new(Op::BZ, &[cond, other as i32])));
        self.code.conditions += 1;
        self.items(then, depth);
        if otherwise.is_empty() {
            self.flush(depth, None);
            self.code.place(other);
        } else {
            self.flush(depth, Some(Inst::new(Op::BJmp, &[end as i32])));
            self.code.place(other);
            self.items(otherwise, depth);
            self.flush(depth, None);
        }
        self.code.conditions -= 1;
        self.code.place(end);
    }

    fn call(&mut self, kernel: u32, args: &[crate::kernel::S], depth: u32) {
        let mut passed = Vec::new();
        for (i, &a) in args.iter().enumerate() {
            let r = self.code.names.global(File::Scalar);
            self.code.fixed.push((r, i as u32 + 1));
            let number = r.number() as i32;
            // A constant goes straight to its place; the register that it was made in is then often unused.
            let source = self.run.iter().rev().find(|n| defs(&n.inst).any(|d| d == Reg::new(File::Scalar, a.0)));
            let inst = match source.map(|n| n.inst) {
                Some(i) if i.op == Op::SLi => Inst::new(Op::SLi, &[number, i.operands[1]]),
                _ => Inst::new(Op::SAddI, &[number, scalar(a), 0]),
            };
            self.push_inst(inst);
            passed.push(r);
        }
        self.flush(depth, Some(Inst::new(Op::BCall, &[kernel as i32])));
        let last = self.code.bundles.last_mut().expect("the call was just appended");
        last.after.extend(passed);
    }

    fn push_inst(&mut self, inst: Inst) {
        self.run.push(Node::new(&VInst::from(inst)));
    }

    fn counted(&mut self, l: &Loop, depth: u32) {
        match l.trips {
            Trips::Static(0) => {}
            Trips::Static(1) => self.items(&l.body, depth),
            Trips::Static(n) => {
                if !self.pipelined(l, n, depth) {
                    let counter = self.code.names.global(File::Scalar);
                    self.push_inst(Inst::new(Op::SLi, &[counter.number() as i32, n as i32]));
                    self.flush(depth, None);
                    self.plain(l, counter, depth);
                }
            }
            Trips::Dynamic(s) => {
                let counter = self.code.names.global(File::Scalar);
                let end = self.code.label();
                self.push_inst(Inst::new(Op::SAddI, &[counter.number() as i32, scalar(s), 0]));
                // The copy decides: the sum that it was made of may be folded into it.
                self.flush(depth, Some(Inst::new(Op::BZ, &[counter.number() as i32, end as i32])));
                self.plain(l, counter, depth);
                self.code.place(end);
            }
        }
    }

    fn plain(&mut self, l: &Loop, counter: Reg, depth: u32) {
        let top = self.code.label();
        self.code.place(top);
        self.items(&l.body, depth + 1);
        self.flush(depth + 1, Some(Inst::new(Op::BLoop, &[counter.number() as i32, top as i32])));
    }

    /// Emits the loop pipelined, if that works out; takes two region numbers as the plain form does.
    fn pipelined(&mut self, l: &Loop, trips: u32, depth: u32) -> bool {
        let Some(body) = straight_line(&l.body) else { return false };
        let level = self.levels.get(&(self.next_region + 1)).copied().unwrap_or(0);
        if !self.options.pipeline || level >= PLAIN_LEVEL {
            return false;
        }
        let mut inside: FxHashMap<Reg, u32> = FxHashMap::default();
        for r in body.iter().flat_map(|v| registers(&v.inst)) {
            *inside.entry(r.reg).or_default() += 1;
        }
        let total = &self.total;
        let is_local = |r: Reg| total.get(&r) == inside.get(&r);
        let q = Request {
            chip: self.chip,
            body: &body,
            trips,
            hints: &l.hints,
            is_local: &is_local,
            register_share: [8, 6, 4][level as usize],
        };
        let Some(plan) = pipeline::plan(&q, &mut self.code.names, &mut self.chaos) else { return false };
        let counter = (plan.rounds() > 0).then(|| self.code.names.global(File::Scalar));
        if let Some(c) = counter {
            self.push_inst(Inst::new(Op::SLi, &[c.number() as i32, plan.rounds() as i32]));
        }
        self.flush(depth, None);
        let id = self.take_region();
        pipeline::emit(&plan, &mut self.code, self.chip, depth + 1, id, counter);
        for _ in 0..plan.remainder {
            self.run.extend(body.iter().map(|v| Node::new(v)));
        }
        true
    }

    fn take_region(&mut self) -> u32 {
        self.next_region += 1;
        self.next_region - 1
    }

    /// Schedules the instructions gathered so far and ends them with a branch.
    fn flush(&mut self, depth: u32, end: Option<Inst>) {
        let id = self.take_region();
        let run = std::mem::take(&mut self.run);
        if run.is_empty() && end.is_none() {
            return;
        }
        let region = self.code.region(RegionKind::Block, depth, id);
        let level = self.levels.get(&id).copied().unwrap_or(0);
        let order = match level {
            0 => Order::CriticalPath,
            1 => Order::Careful,
            2 => Order::Least,
            3 => Order::Near,
            _ => Order::Source,
        };
        let start = self.code.bundles.len();
        for window in run.chunks(WINDOW) {
            self.window(window.to_vec(), run.len() <= WINDOW, order, region);
        }
        let Some(end) = end else { return };
        let needs: FxHashSet<Reg> = uses(&end).collect();
        let emitted = self.code.bundles.len() > start;
        match self.code.bundles.last_mut() {
            Some(b)
                if emitted
                    && !matches!(end.op, Op::BHalt | Op::BTrap | Op::BHost)
                    && !b.insts.iter().any(|i| i.op.info().slot == Slot::Branch)
                    && !b.insts.iter().flat_map(defs).any(|d| needs.contains(&d)) =>
            {
                b.insts.push(end);
            }
            _ => self.code.push(region, [end], []),
        }
    }

    fn window(&mut self, mut nodes: Vec<Node>, whole: bool, order: Order, region: u32) {
        rename_inner(&mut nodes, &mut self.code.names);
        let mut inside: FxHashMap<Reg, u32> = FxHashMap::default();
        for r in nodes.iter().flat_map(Node::registers) {
            *inside.entry(r.reg).or_default() += 1;
        }
        let (total, names) = (&self.total, &self.code.names);
        let is_local = |r: Reg| whole && total.get(&r).is_some_and(|t| Some(t) == inside.get(&r));
        fold_sums(&mut nodes, names, &is_local);
        let graph = deps::build(&nodes, self.chip, None);
        let own = |r: Reg| names.is_new(r) || is_local(r);
        let bundles = list::schedule(&nodes, &graph, self.chip, order, &own, &mut self.chaos);
        for b in bundles {
            let places = b.iter().map(|&i| nodes[i].place);
            self.code.push(region, b.iter().map(|&i| nodes[i].inst), places);
        }
    }
}
