//! List scheduling of straight-line blocks by critical path, with a brake on register pressure.

use super::body::Node;
use super::chaos::Chaos;
use super::deps::DepGraph;
use crate::kernel::regs::{File, Reg};
use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use systole_isa::{ChipConfig, Slot};

/// How to choose among ready instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Longest path to the end of the block first.
    CriticalPath,
    /// The same with half the registers.
    Careful,
    /// The same with just enough registers for a few chains side by side.
    Least,
    /// The same among the next [`NEAR`] instructions in program order: hardly more registers than the program asks for.
    Near,
    /// Program order, as many side by side as fit: the registers that the program asks for and no more.
    Source,
}

/// How far [`Order::Near`] looks ahead of the first instruction that has not issued.
const NEAR: usize = 40;

/// Issue resources of an instruction: its slot, and how long it keeps it.
pub fn resource(chip: &ChipConfig, n: &Node) -> (Slot, u32) {
    let info = n.inst.op.info();
    (info.slot, chip.timing.get(info.class).interval.max(1))
}

/// Instructions of a slot that may issue together: the slot's width, no more than memory ports allow.
pub fn width(chip: &ChipConfig, slot: Slot) -> u32 {
    let n = chip.slots(slot);
    match slot {
        Slot::Vload => n.min(chip.vmem.read_ports).max(1),
        Slot::Vstore => n.min(chip.vmem.write_ports).max(1),
        Slot::Scalar | Slot::Valu | Slot::Eup | Slot::Xlu | Slot::MxuPush | Slot::MxuPop | Slot::Dma | Slot::Branch => {
            n
        }
    }
}

/// Longest latency path from each node to the block's end, over edges of distance 0.
pub fn heights(graph: &DepGraph) -> Vec<i32> {
    let mut h = vec![0; graph.node_count()];
    for i in (0..h.len()).rev() {
        for e in graph.edges(NodeIndex::new(i)).filter(|e| e.weight().distance == 0) {
            h[i] = h[i].max(h[e.target().index()] + e.weight().latency);
        }
    }
    h
}

/// A register operand for pressure: file, registers it takes, index into `Pressure::left`, definition or use.
#[derive(Clone, Copy)]
struct Touch {
    file: usize,
    weight: i32,
    index: usize,
    is_def: bool,
}

/// Live registers of the block's own, counted while scheduling.
struct Pressure {
    /// Uses left per register.
    left: Vec<u32>,
    touches: Vec<SmallVec<[Touch; 4]>>,
    live: [i32; FILES],
    limit: [i32; FILES],
}

/// The files that pressure is counted in.
const FILES: usize = 3;

/// The vector file (pairs count twice), the scalar file and the masks.
fn weight(r: Reg) -> (usize, i32) {
    match r.file() {
        File::Vector => (0, 1),
        File::Pair => (0, 2),
        File::Scalar => (1, 1),
        File::Mask => (2, 1),
    }
}

impl Pressure {
    fn new(nodes: &[Node], chip: &ChipConfig, is_local: &dyn Fn(Reg) -> bool, order: Order) -> Pressure {
        let mut index: FxHashMap<Reg, Option<usize>> = FxHashMap::default();
        let mut left = Vec::new();
        let c = &chip.core;
        let files = [(c.vector_registers, 6), (c.scalar_registers, 5), (c.mask_registers, 2)];
        let mut limit = files.map(|(n, spare)| n as i32 - spare);
        let mut touches = Vec::with_capacity(nodes.len());
        for n in nodes {
            let mut t = SmallVec::new();
            for r in n.registers() {
                let (file, weight) = weight(r.reg);
                let at = *index.entry(r.reg).or_insert_with(|| {
                    if is_local(r.reg) {
                        left.push(0);
                        Some(left.len() - 1)
                    } else {
                        limit[file] -= weight;
                        None
                    }
                });
                if let Some(index) = at {
                    t.push(Touch { file, weight, index, is_def: r.is_def });
                    left[index] += !r.is_def as u32;
                }
            }
            touches.push(t);
        }
        // Registers that live through the block without a use in it are not seen here.
        limit = match order {
            Order::Careful => limit.map(|l| l / 2),
            Order::Least => [0; FILES],
            Order::Near => limit.map(|l| l / 4 * 3),
            Order::CriticalPath | Order::Source => limit,
        };
        Pressure { left, touches, live: [0; FILES], limit: [limit[0].max(6), limit[1].max(4), limit[2].max(4)] }
    }

    /// Change of live registers if the node issues.
    fn delta(&self, node: usize) -> [i32; FILES] {
        let mut d = [0; FILES];
        for t in &self.touches[node] {
            if t.is_def {
                d[t.file] += t.weight;
            } else if self.left[t.index] == 1 {
                d[t.file] -= t.weight;
            }
        }
        d
    }

    fn holds_back(&self, node: usize) -> bool {
        if (0..FILES).all(|f| self.live[f] + 2 <= self.limit[f]) {
            return false;
        }
        let d = self.delta(node);
        (0..FILES).any(|f| d[f] > 0 && self.live[f] + d[f] > self.limit[f])
    }

    fn issue(&mut self, node: usize) {
        let d = self.delta(node);
        for (f, d) in d.into_iter().enumerate() {
            self.live[f] += d;
        }
        for t in &self.touches[node] {
            if !t.is_def {
                self.left[t.index] = self.left[t.index].saturating_sub(1);
            }
        }
    }
}

/// Schedules a block: bundles of instruction indices, none empty. `is_local` says whether a register lives only in
/// this block.
pub fn schedule(
    nodes: &[Node],
    graph: &DepGraph,
    chip: &ChipConfig,
    order: Order,
    is_local: &dyn Fn(Reg) -> bool,
    chaos: &mut Chaos,
) -> Vec<Vec<usize>> {
    let n = nodes.len();
    let height = heights(graph);
    let mut priority: Vec<(i32, usize)> = (0..n)
        .map(|i| match order {
            Order::CriticalPath | Order::Careful | Order::Least | Order::Near => (-height[i], i),
            Order::Source => (0, i),
        })
        .collect();
    if order != Order::Source {
        chaos.perturb(&mut priority);
    }
    let mut waiting: Vec<u32> = vec![0; n];
    for e in graph.edge_references().filter(|e| e.weight().distance == 0) {
        waiting[e.target().index()] += 1;
    }
    let mut earliest = vec![0i32; n];
    let mut ready: Vec<usize> = (0..n).filter(|&i| waiting[i] == 0).collect();
    let mut busy: [Vec<i32>; 10] = std::array::from_fn(|s| vec![0; width(chip, Slot::ALL[s]) as usize]);
    let mut pressure = Pressure::new(nodes, chip, is_local, order);
    let (mut out, mut cycle, mut done) = (Vec::new(), 0, 0);
    // The first instruction that has not issued.
    let mut first = 0;
    let mut issued = vec![false; n];
    let in_turn = |i: usize, first: usize| match order {
        Order::CriticalPath | Order::Careful | Order::Least => true,
        Order::Near => i < first + NEAR,
        Order::Source => i == first,
    };
    while done < n {
        let mut bundle: Vec<usize> = Vec::new();
        loop {
            let free = |s: Slot| busy[s as usize].iter().any(|&b| b <= cycle);
            let able = |i: &usize| in_turn(*i, first) && earliest[*i] <= cycle && free(nodes[*i].inst.op.info().slot);
            let best = ready
                .iter()
                .copied()
                .filter(able)
                .filter(|&i| i == first && order == Order::Near || order == Order::Source || !pressure.holds_back(i))
                .min_by_key(|&i| priority[i])
                .or_else(|| {
                    let stuck = bundle.is_empty() && ready.iter().all(|&i| earliest[i] <= cycle);
                    ready.iter().copied().filter(|_| stuck).filter(able).min()
                });
            let Some(i) = best else { break };
            ready.retain(|&r| r != i);
            pressure.issue(i);
            let (slot, interval) = resource(chip, &nodes[i]);
            let unit = busy[slot as usize].iter_mut().find(|b| **b <= cycle).expect("checked to be free");
            *unit = cycle + interval as i32;
            for e in graph.edges(NodeIndex::new(i)).filter(|e| e.weight().distance == 0) {
                let t = e.target().index();
                earliest[t] = earliest[t].max(cycle + e.weight().latency);
                waiting[t] -= 1;
                if waiting[t] == 0 {
                    ready.push(t);
                }
            }
            bundle.push(i);
            done += 1;
            issued[i] = true;
            while issued.get(first) == Some(&true) {
                first += 1;
            }
        }
        cycle += 1;
        if bundle.is_empty() {
            cycle = cycle.max(next_event(&ready, &earliest, &busy, nodes, cycle));
        } else {
            out.push(bundle);
        }
    }
    out
}

/// The next cycle at which a ready instruction may issue.
fn next_event(ready: &[usize], earliest: &[i32], busy: &[Vec<i32>; 10], nodes: &[Node], cycle: i32) -> i32 {
    ready
        .iter()
        .map(|&i| {
            let slot = nodes[i].inst.op.info().slot as usize;
            earliest[i].max(busy[slot].iter().copied().min().unwrap_or(cycle))
        })
        .min()
        .unwrap_or(cycle)
}
