//! The dependence graph of a straight-line block or of a loop body.
//!
//! Nodes are the block's instructions in program order. An edge `a -> b` with latency `l` and distance `d` says that `b`
//! of iteration `i + d` issues at least `l` cycles after `a` of iteration `i`. Edges of distance 0 go forward in program
//! order. Latencies of true dependences are the chip's; the machine interlocks, so they only steer the order. The
//! latencies of all other edges are 0 (same bundle allowed) or 1 (a later bundle) and are what correctness needs.
//!
//! Orders kept, besides registers:
//! - conflicting accesses to one buffer ([`super::memory`]);
//! - matrix units: inputs (stage, latch, push) among themselves, outputs (pop, drain) among themselves, an output after
//!   the inputs before it; an output may fall behind at most [`pop_delay_window`] pushes that follow it;
//! - transpose buffers: everything of one unit;
//! - semaphores: everything on one semaphore; a wait stays behind all that precedes it;
//! - a wait for the other cores has all that precedes it in earlier bundles.

use super::body::Node;
use super::memory;
use crate::kernel::regs::{Reg, operand_of};
use crate::kernel::{BufferRef, pop_delay_window};
use petgraph::graph::{DiGraph, NodeIndex};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use systole_isa::{ChipConfig, Effect, Kind};

/// An edge; see the module docs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dep {
    pub latency: i32,
    pub distance: u32,
}

/// A block's graph; node `i` is instruction `i`.
pub type DepGraph = DiGraph<(), Dep>;

/// What the builder must know of a loop.
pub struct Cyclic<'a> {
    /// Whether a register defined in the body gets new names per iteration, so that no anti-dependence counts.
    pub is_temporary: &'a dyn Fn(Reg) -> bool,
    /// Buffers that iterations do not share.
    pub independent: &'a [BufferRef],
    /// Advance of each induction variable from one iteration of the block to the next.
    pub steps: &'a [i32],
}

pub(super) struct Builder<'a> {
    pub graph: DepGraph,
    pub chip: &'a ChipConfig,
}

impl Builder<'_> {
    pub fn edge(&mut self, from: usize, to: usize, latency: i32, distance: u32) {
        if from == to && distance == 0 {
            return;
        }
        self.graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), Dep { latency, distance });
    }
}

/// Builds the graph of a block; with `cyclic`, of a loop body.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other effect has a latency besides its registers")]
pub fn build(nodes: &[Node], chip: &ChipConfig, cyclic: Option<&Cyclic<'_>>) -> DepGraph {
    let mut b = Builder { graph: DepGraph::with_capacity(nodes.len(), nodes.len() * 4), chip };
    for _ in nodes {
        b.graph.add_node(());
    }
    register_edges(&mut b, nodes, cyclic);
    memory::edges(&mut b, nodes, cyclic);
    chain_edges(&mut b, nodes, cyclic.is_some());
    matrix_edges(&mut b, nodes, cyclic.is_some());
    for (i, n) in nodes.iter().enumerate() {
        let latency = match n.inst.op.info().effect {
            Effect::DmaWait => 0,
            Effect::Cores => 1,
            _ => continue,
        };
        (0..i).for_each(|before| b.edge(before, i, latency, 0));
        // What others may wait for is on its way before an iteration waits, also where the one before starts it last.
        let outward =
            |n: &Node| matches!(n.inst.op.info().effect, Effect::DmaStart | Effect::DmaRemote | Effect::Signal);
        let behind = (i + 1..nodes.len()).filter(|&j| cyclic.is_some() && outward(&nodes[j]));
        behind.for_each(|behind| b.edge(behind, i, 1, 1));
    }
    b.graph
}

fn latency(chip: &ChipConfig, n: &Node) -> i32 {
    chip.timing.get(n.inst.op.info().class).latency.max(1) as i32
}

fn interval(chip: &ChipConfig, n: &Node) -> i32 {
    chip.timing.get(n.inst.op.info().class).interval.max(1) as i32
}

#[derive(Default)]
struct Seen {
    def: Option<usize>,
    /// Uses since the last definition.
    uses: SmallVec<[usize; 4]>,
    /// Uses before the first definition, and the first definition.
    upward: SmallVec<[usize; 4]>,
    first_def: Option<usize>,
}

fn register_edges(b: &mut Builder<'_>, nodes: &[Node], cyclic: Option<&Cyclic<'_>>) {
    let mut seen: FxHashMap<Reg, Seen> = FxHashMap::default();
    let mut order: Vec<Reg> = Vec::new();
    for (i, n) in nodes.iter().enumerate() {
        for r in n.registers().filter(|r| r.is_use) {
            let s = seen.entry(r.reg).or_insert_with(|| {
                order.push(r.reg);
                Seen::default()
            });
            match s.def {
                Some(d) => {
                    let l = latency(b.chip, &nodes[d]);
                    b.edge(d, i, l, 0);
                }
                None => s.upward.push(i),
            }
            s.uses.push(i);
        }
        for r in n.registers().filter(|r| r.is_def) {
            let s = seen.entry(r.reg).or_insert_with(|| {
                order.push(r.reg);
                Seen::default()
            });
            for u in std::mem::take(&mut s.uses) {
                b.edge(u, i, 0, 0);
            }
            if let Some(d) = s.def {
                b.edge(d, i, 1, 0);
            }
            s.first_def.get_or_insert(i);
            s.def = Some(i);
        }
    }
    let Some(c) = cyclic else { return };
    for reg in order {
        let s = &seen[&reg];
        let (Some(first), Some(last)) = (s.first_def, s.def) else { continue };
        for &u in &s.upward {
            let l = latency(b.chip, &nodes[last]);
            b.edge(last, u, l, 1);
        }
        if !(c.is_temporary)(reg) {
            for &u in &s.uses {
                b.edge(u, first, 0, 1);
            }
            b.edge(last, first, 1, 1);
        }
    }
}

/// Serial units: transpose buffers and semaphores.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other effect is chained")]
fn chain_edges(b: &mut Builder<'_>, nodes: &[Node], cyclic: bool) {
    let mut chains: FxHashMap<(bool, i32), (usize, usize)> = FxHashMap::default();
    let mut order = Vec::new();
    for (i, n) in nodes.iter().enumerate() {
        let key = match n.inst.op.info().effect {
            Effect::XluPush | Effect::XluPop => (false, operand_of(&n.inst, Kind::Xlu).unwrap_or(0)),
            Effect::DmaStart | Effect::DmaWait | Effect::DmaRemote | Effect::SyncTest => {
                (true, operand_of(&n.inst, Kind::Sem).unwrap_or(0))
            }
            _ => continue,
        };
        match chains.get_mut(&key) {
            Some((_, last)) => {
                let l = serial_latency(b.chip, &nodes[*last], n);
                b.edge(*last, i, l, 0);
                *last = i;
            }
            None => {
                chains.insert(key, (i, i));
                order.push(key);
            }
        }
    }
    if cyclic {
        for key in order {
            let (first, last) = chains[&key];
            let l = serial_latency(b.chip, &nodes[last], &nodes[first]);
            b.edge(last, first, l, 1);
        }
    }
}

fn serial_latency(chip: &ChipConfig, a: &Node, b: &Node) -> i32 {
    match (a.inst.op.info().effect, b.inst.op.info().effect) {
        (Effect::XluPush, Effect::XluPop) => latency(chip, a),
        (Effect::XluPush, _) | (Effect::XluPop, _) => interval(chip, a),
        _ => 1,
    }
}

#[derive(Default)]
struct Unit {
    inputs: Vec<usize>,
    /// Result-producing inputs, and outputs with the number of pushes before them.
    pushes: Vec<usize>,
    outputs: Vec<(usize, usize)>,
}

#[allow(clippy::wildcard_enum_match_arm, reason = "no other effect is the matrix units'")]
fn matrix_edges(b: &mut Builder<'_>, nodes: &[Node], cyclic: bool) {
    let mut units: std::collections::BTreeMap<i32, Unit> = Default::default();
    for (i, n) in nodes.iter().enumerate() {
        let effect = n.inst.op.info().effect;
        let unit = operand_of(&n.inst, Kind::Mxu).unwrap_or(0);
        match effect {
            Effect::MxuStage | Effect::MxuLatch => units.entry(unit).or_default().inputs.push(i),
            Effect::MxuPush | Effect::MxuAccumulate => {
                let u = units.entry(unit).or_default();
                u.inputs.push(i);
                u.pushes.push(i);
            }
            Effect::MxuPop | Effect::MxuDrain => {
                let u = units.entry(unit).or_default();
                u.outputs.push((i, u.pushes.len()));
            }
            _ => {}
        }
    }
    let window = pop_delay_window(b.chip) as usize;
    for u in units.values() {
        for w in u.inputs.windows(2) {
            let l = interval(b.chip, &nodes[w[0]]);
            b.edge(w[0], w[1], l, 0);
        }
        for w in u.outputs.windows(2) {
            let l = interval(b.chip, &nodes[w[0].0]);
            b.edge(w[0].0, w[1].0, l, 0);
        }
        for &(o, before) in &u.outputs {
            if before > 0 {
                b.edge(u.pushes[before - 1], o, 1, 0);
            }
            delay_limit(b, u, o, before, window, cyclic);
        }
        if !cyclic {
            continue;
        }
        if let (Some(&first), Some(&last)) = (u.inputs.first(), u.inputs.last()) {
            let l = interval(b.chip, &nodes[last]);
            b.edge(last, first, l, 1);
        }
        if let (Some(first), Some(last)) = (u.outputs.first(), u.outputs.last()) {
            let l = interval(b.chip, &nodes[last.0]);
            b.edge(last.0, first.0, l, 1);
            if let Some(&push) = u.pushes.last() {
                b.edge(push, first.0, 1, 1);
            }
        }
    }
}

/// An output stays ahead of the push that follows it by `window` others.
fn delay_limit(b: &mut Builder<'_>, u: &Unit, output: usize, before: usize, window: usize, cyclic: bool) {
    let n = u.pushes.len();
    if n == 0 {
        return;
    }
    let at = before + window;
    if at < n {
        b.edge(output, u.pushes[at], 1, 0);
    } else if cyclic {
        b.edge(output, u.pushes[at % n], 1, (at / n) as u32);
    }
}
