//! Hiding exchanges behind other work: where the plan begins and ends them.
//!
//! Steps are put in an order in which a large exchange begins as soon as what it sends is there, is followed by steps that
//! do not need it, and ends where nothing else is left to do (or where it should be over by estimate). One exchange is under
//! way at a time, or several on links of their own that begin and end together; exchanges keep their order, as calls of the
//! host do, so that all devices make them in one order. Within
//! these bounds the program's order is kept.

use super::collective::{Direct, Exchange, How, Phase, Ring, phase_cycles};
use super::step::{Arg, Draft, ScalarOp, Step, Use};
use super::view::BufId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use systole_isa::ChipConfig;

/// An exchange is worth hiding if it takes so many times as long as a message to a neighbour.
const WORTH: f64 = 8.0;
/// How much longer exchanges take beside other work.
const SHARED: f64 = 1.2;
/// An exchange behind which none waits is ended later by so many times its cycles.
const LATE: f64 = 1.0;
/// An exchange has time for larger pieces if other work takes so many times as long.
const LEISURE: f64 = 1.2;
/// How much longer an exchange may take that runs beside another.
const LONGER: f64 = 1.25;
/// Cycles of a step that no estimate knows.
const SMALL: f64 = 200.0;
/// Rounds of a loop whose number is not known.
const ROUNDS: f64 = 10.0;

/// What steps read and write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Item {
    Buffer(BufId),
    Word(u32),
    /// Orders exchanges, and calls of the host.
    Exchanges,
    Host,
}

/// Orders the steps of a plan.
pub fn hide(plan: &mut Draft, chip: &ChipConfig) {
    let steps = std::mem::take(&mut plan.steps);
    plan.steps = Hider { plan, chip }.region(steps);
}

/// Exchanges with nothing beside them are cut into pieces for that.
pub fn leave_alone(steps: Vec<Step>) -> Vec<Step> {
    let alone = |s: Step| {
        let mut s = s.map_regions(leave_alone);
        if let Step::Exchange(x) = &mut s {
            x.goes_alone();
        }
        s
    };
    steps.into_iter().map(alone).collect()
}

/// Whether a plan has hidden exchanges.
pub fn hides(steps: &[Step]) -> bool {
    steps.iter().any(|s| matches!(s, Step::Begin(_)) || s.regions().any(hides))
}

struct Hider<'a> {
    plan: &'a mut Draft,
    chip: &'a ChipConfig,
}

/// A step's place among the others.
struct Node {
    step: Option<Step>,
    cycles: f64,
    /// A large exchange.
    large: bool,
    after: Vec<usize>,
    open: usize,
    /// The first large exchange that needs this step.
    wanted: usize,
}

impl Hider<'_> {
    fn region(&mut self, steps: Vec<Step>) -> Vec<Step> {
        let steps: Vec<Step> = steps.into_iter().map(|s| s.map_regions(|r| self.region(r))).collect();
        if !steps.iter().any(|s| self.is_large(s)) {
            return steps;
        }
        self.order(self.nodes(steps))
    }

    fn is_large(&self, s: &Step) -> bool {
        let hop = self.chip.cycles(self.chip.ici.hop_latency_s) as f64;
        matches!(s, Step::Exchange(_)) && self.cycles(s) >= WORTH * hop
    }

    /// Estimated cycles of a step.
    fn cycles(&self, s: &Step) -> f64 {
        match s {
            Step::Call { kernel, op, .. } => call_cycles(self.plan, self.chip, *kernel, *op),
            Step::Exchange(x) => exchange_cycles(x, self.chip),
            Step::While { head, body, .. } => ROUNDS * head.iter().chain(body).map(|s| self.cycles(s)).sum::<f64>(),
            Step::Switch { branches, .. } => {
                branches.iter().map(|b| b.iter().map(|s| self.cycles(s)).sum::<f64>()).fold(0.0, f64::max)
            }
            Step::Copy { .. }
            | Step::Scalar { .. }
            | Step::ReadScalar { .. }
            | Step::Host { .. }
            | Step::Begin(_)
            | Step::End(_) => SMALL,
        }
    }

    fn nodes(&self, steps: Vec<Step>) -> Vec<Node> {
        let mut written: FxHashMap<Item, usize> = FxHashMap::default();
        let mut readers: FxHashMap<Item, Vec<usize>> = FxHashMap::default();
        let mut nodes: Vec<Node> = Vec::with_capacity(steps.len());
        for (i, step) in steps.into_iter().enumerate() {
            let mut before: BTreeSet<usize> = BTreeSet::new();
            let mut touched = Vec::new();
            touches(&step, &mut |item, writes| touched.push((item, writes)));
            for &(item, writes) in &touched {
                before.extend(written.get(&item));
                if writes {
                    before.extend(readers.remove(&item).into_iter().flatten());
                }
            }
            for (item, writes) in touched {
                if writes {
                    written.insert(item, i);
                } else {
                    readers.entry(item).or_default().push(i);
                }
            }
            before.remove(&i);
            for &b in &before {
                nodes[b].after.push(i);
            }
            let (cycles, large) = (self.cycles(&step), self.is_large(&step));
            let wanted = usize::MAX;
            nodes.push(Node { step: Some(step), cycles, large, after: Vec::new(), open: before.len(), wanted });
        }
        for i in (0..nodes.len()).rev() {
            let of = |j: &usize| if nodes[*j].large { *j } else { nodes[*j].wanted };
            nodes[i].wanted = nodes[i].after.iter().map(of).min().unwrap_or(usize::MAX);
        }
        nodes
    }

    /// Puts the exchange that comes next beside one that begins, if it waits for nothing but its turn. One that takes
    /// longer would keep others waiting, which matters unless the links decide.
    fn put_beside(&mut self, x: &mut Exchange, nodes: &mut [Node], last: usize, left: &Left) -> Option<usize> {
        let first = exchange_cycles(x, self.chip);
        let j = waiting(nodes, last)?;
        if nodes[j].cycles > LONGER * first && !left.links_decide() {
            return None;
        }
        let mut own = BTreeSet::new();
        x.arrays(&mut |b, _| {
            own.insert(b);
        });
        let Some(Step::Exchange(next)) = &nodes[j].step else { return None };
        let mut apart = true;
        next.arrays(&mut |b, _| apart &= !own.contains(&b));
        if !apart {
            return None;
        }
        let Some(Step::Exchange(next)) = nodes[j].step.take() else { return None };
        match self.plan.pod.put_beside(x, *next, self.chip) {
            None => Some(j),
            Some(back) => {
                nodes[j].step = Some(Step::Exchange(Box::new(back)));
                None
            }
        }
    }

    /// Takes steps as a device would that has one link and one core.
    fn order(&mut self, mut nodes: Vec<Node>) -> Vec<Step> {
        let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&i| nodes[i].open == 0).collect();
        let mut out: Vec<Step> = Vec::with_capacity(nodes.len());
        let mut now = 0.0;
        let mut left = Left::default();
        nodes.iter().for_each(|n| left.add(n, 1.0));
        let mut flight: Option<Flight> = None;
        while !ready.is_empty() || flight.is_some() {
            let idle = ready.iter().all(|&i| nodes[i].large);
            // Exchanges keep their order, so the next one needs the present one's end, if nothing else.
            let waits = flight.as_ref().is_some_and(|f| f.nodes.last().is_some_and(|&i| waiting(&nodes, i).is_some()));
            if let Some(f) = flight.take_if(|f| idle || f.is_over(now, waits, &left)) {
                end_hiding(&mut out, &f, now - f.begin, self.chip);
                now = f64::max(now, f.begin + f.cycles * SHARED);
                f.nodes.iter().for_each(|&i| release(&mut nodes, i, &mut ready));
                f.nodes.iter().for_each(|i| {
                    ready.remove(i);
                });
                continue;
            }
            let next = match flight {
                // What the next exchange waits for comes first, so that links have work again soon.
                Some(_) => ready.iter().copied().filter(|&i| !nodes[i].large).min_by_key(|&i| (nodes[i].wanted, i)),
                None => ready.iter().copied().min_by_key(|&i| (!nodes[i].large, nodes[i].wanted, i)),
            };
            let Some(i) = next else { break };
            ready.remove(&i);
            let hurried = left.links_decide();
            left.add(&nodes[i], -1.0);
            let Some(step) = nodes[i].step.take() else { continue };
            if nodes[i].large
                && let Step::Exchange(mut x) = step
            {
                let mut flying = vec![i];
                while let Some(j) = self.put_beside(&mut x, &mut nodes, flying[flying.len() - 1], &left) {
                    left.add(&nodes[j], -1.0);
                    flying.push(j);
                }
                let cycles = flying.iter().map(|&j| nodes[j].cycles).fold(0.0, f64::max);
                flight = Some(Flight { nodes: flying, begin: now, cycles, at: out.len(), hurried });
                out.push(Step::Begin(x));
            } else {
                out.push(step);
                now += nodes[i].cycles;
                release(&mut nodes, i, &mut ready);
            }
        }
        out
    }
}

/// Estimated cycles of what is still to be done.
#[derive(Default)]
struct Left {
    exchanges: f64,
    others: f64,
}

impl Left {
    fn add(&mut self, n: &Node, times: f64) {
        *(if n.large { &mut self.exchanges } else { &mut self.others }) += times * n.cycles;
    }

    /// Whether exchanges take longer than all else.
    fn links_decide(&self) -> bool {
        self.exchanges * SHARED > self.others
    }
}

/// The exchange under way.
struct Flight {
    /// It, and those beside it.
    nodes: Vec<usize>,
    begin: f64,
    cycles: f64,
    /// Its step in the result.
    at: usize,
    /// It began when links decided about the time.
    hurried: bool,
}

impl Flight {
    /// Whether it should end at a time; `waits`: another exchange does. Ended too early, it stops everything, which is no
    /// loss where the links decide; a late end costs nothing where no exchange waits.
    fn is_over(&self, now: f64, waits: bool, left: &Left) -> bool {
        let times = match (waits, left.links_decide()) {
            (true, true) => 1.0,
            (true, false) => SHARED,
            (false, _) => SHARED + LATE,
        };
        self.begin + self.cycles * times <= now
    }
}

/// Ends an exchange; other work took `beside` cycles since it began.
fn end_hiding(out: &mut Vec<Step>, f: &Flight, beside: f64, chip: &ChipConfig) {
    let alone = out.len() == f.at + 1;
    let Step::Begin(exchange) = &mut out[f.at] else { return };
    if alone {
        out[f.at] = Step::Exchange(exchange.clone());
        return;
    }
    for r in exchange.all_rings_mut() {
        if let Some(a) = r.alone.take()
            && f.hurried
        {
            r.phases = a;
        }
        if let Some(calm) = r.calm.take()
            && !f.hurried
            && ring_cycles(r, &calm, chip) * LEISURE < beside
        {
            r.phases = calm;
        }
    }
    let end = Step::End(exchange.clone());
    out.push(end);
}

/// The exchange that waits for nothing but the end of another.
fn waiting(nodes: &[Node], under_way: usize) -> Option<usize> {
    nodes[under_way].after.iter().copied().find(|&j| nodes[j].large && nodes[j].open == 1)
}

fn release(nodes: &mut [Node], i: usize, ready: &mut BTreeSet<usize>) {
    for j in std::mem::take(&mut nodes[i].after) {
        nodes[j].open -= 1;
        if nodes[j].open == 0 {
            ready.insert(j);
        }
    }
}

/// Estimated cycles of a kernel's call: where nothing better is known, the time of the operation's bytes in HBM.
pub fn call_cycles(plan: &Draft, chip: &ChipConfig, kernel: usize, op: u32) -> f64 {
    let entry = &plan.kernels[kernel];
    let moved = || plan.ops.get(op as usize).map_or(0.0, |o| o.bytes / chip.hbm_bytes_per_cycle().max(1.0));
    let known = entry.cycles.or_else(|| entry.spec.estimate(chip));
    known.unwrap_or_else(moved).max(SMALL)
}

/// Estimated cycles of a ring's phases.
fn ring_cycles(r: &Ring, phases: &[Phase], chip: &ChipConfig) -> f64 {
    phases.iter().map(|p| phase_cycles(r, p, chip)).sum()
}

/// Estimated cycles of an exchange, and of those beside it.
pub fn exchange_cycles(x: &Exchange, chip: &ChipConfig) -> f64 {
    x.all().map(|x| one_exchange_cycles(x, chip)).fold(0.0, f64::max)
}

fn one_exchange_cycles(x: &Exchange, chip: &ChipConfig) -> f64 {
    let rate = chip.link_bytes_per_cycle().max(1e-9) / chip.row_bytes() as f64;
    let hop = chip.cycles(chip.ici.hop_latency_s) as f64;
    match &x.how {
        How::Rings(all) => all.iter().map(|r| ring_cycles(r, &r.phases, chip)).fold(0.0, f64::max),
        How::Transfer(_) => 0.0,
        How::Direct(all) => {
            let one = |d: &Direct| {
                let others = f64::from(d.devices.saturating_sub(1)).max(1.0);
                // Messages to far devices share the links of a ring.
                let far = (f64::from(d.devices) / 8.0).max(1.0);
                d.parts.total() as f64 * others * far / (2.0 * rate) + 2.0 * hop
            };
            all.iter().map(one).sum()
        }
    }
}

/// Everything that a step reads or writes.
pub(super) fn touches(s: &Step, f: &mut dyn FnMut(Item, bool)) {
    match s {
        Step::Call { args, .. } => {
            for a in args {
                match a {
                    Arg::Array { buf, usage, dynamic, .. } => {
                        f(Item::Buffer(*buf), *usage != Use::Read);
                        dynamic.iter().for_each(|(w, _)| f(Item::Word(w.0), false));
                    }
                    Arg::Scalar(w) | Arg::Linear { word: w, .. } => f(Item::Word(w.0), false),
                    Arg::Sum(terms) => terms.iter().for_each(|(w, _)| f(Item::Word(w.0), false)),
                    Arg::Const(_) | Arg::Scratch => {}
                }
            }
        }
        Step::Copy { src, dst, .. } => {
            f(Item::Buffer(*src), false);
            f(Item::Buffer(*dst), true);
        }
        Step::Scalar { dst, value, .. } => {
            scalar_reads(value, &mut |w| f(Item::Word(w), false));
            f(Item::Word(dst.0), true);
        }
        Step::ReadScalar { buf, dst, .. } => {
            f(Item::Buffer(*buf), false);
            f(Item::Word(dst.0), true);
        }
        Step::Host { operands, results, .. } => {
            operands.iter().for_each(|b| f(Item::Buffer(b.0), false));
            results.iter().for_each(|b| f(Item::Buffer(b.0), true));
            f(Item::Host, true);
        }
        Step::Exchange(x) | Step::Begin(x) | Step::End(x) => {
            x.arrays(&mut |b, writes| f(Item::Buffer(b), writes));
            f(Item::Exchanges, true);
        }
        Step::While { head, cond, body, .. } => {
            head.iter().chain(body).for_each(|s| touches(s, f));
            f(Item::Word(cond.0), false);
        }
        Step::Switch { index, branches, .. } => {
            f(Item::Word(index.0), false);
            branches.iter().flatten().for_each(|s| touches(s, f));
        }
    }
}

fn scalar_reads(value: &ScalarOp, f: &mut dyn FnMut(u32)) {
    match value {
        ScalarOp::Const(_) | ScalarOp::Device | ScalarOp::Core => {}
        ScalarOp::Copy(w) | ScalarOp::Unary(_, w) | ScalarOp::Convert(w) => f(w.0),
        ScalarOp::ClampIndex { word, .. } => f(word.0),
        ScalarOp::Binary(_, a, b) | ScalarOp::Compare(_, a, b) => [a, b].into_iter().for_each(|w| f(w.0)),
        ScalarOp::Select(c, a, b) => [c, a, b].into_iter().for_each(|w| f(w.0)),
    }
}
