//! Iterative modulo scheduling: issue times for one iteration of a loop such that a new iteration may start every
//! `ii` cycles (the initiation interval).
//!
//! A node's time is when its instance of iteration 0 issues. The result keeps every edge, with distance times `ii` as
//! slack, and no slot is taken by more instructions in one cycle modulo `ii` than the chip has. After a schedule is
//! found, instructions move later where that shortens register lifetimes.

use super::body::Node;
use super::deps::DepGraph;
use super::list::{resource, width};
use crate::kernel::regs::Reg;
use petgraph::Direction;
use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BinaryHeap;
use systole_isa::{ChipConfig, Slot};

/// A modulo schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modulo {
    pub ii: u32,
    /// Issue time of each node in iteration 0.
    pub time: Vec<u32>,
}

impl Modulo {
    /// Stages: how many iterations are under way at once.
    pub fn stages(&self) -> u32 {
        self.time.iter().copied().max().unwrap_or(0) / self.ii + 1
    }
}

/// Cycles per iteration that the slots need, as (cycles, instructions side by side) of the tightest slot.
pub fn resource_bound(nodes: &[Node], chip: &ChipConfig) -> (u32, u32) {
    let mut taken = [0u32; 10];
    for n in nodes {
        let (slot, interval) = resource(chip, n);
        taken[slot as usize] += interval;
    }
    let mut best = (1, 1);
    for slot in Slot::ALL {
        let (t, w) = (taken[slot as usize], width(chip, slot).max(1));
        if t * best.1 > best.0 * w {
            best = (t, w);
        }
    }
    best
}

/// Longest-path priorities for an interval; `None` if a dependence cycle does not fit it.
fn heights(graph: &DepGraph, ii: i32) -> Option<Vec<i32>> {
    let n = graph.node_count();
    let mut h = vec![0i32; n];
    // A sweep carries values over all edges within an iteration and at least one between iterations.
    let between = graph.edge_references().filter(|e| e.weight().distance > 0).count();
    for _ in 0..n.min(between) + 2 {
        let mut changed = false;
        for i in (0..n).rev() {
            for e in graph.edges(NodeIndex::new(i)) {
                let v = h[e.target().index()] + e.weight().latency - ii * e.weight().distance as i32;
                if v > h[i] {
                    h[i] = v;
                    changed = true;
                }
            }
        }
        if !changed {
            return Some(h);
        }
    }
    None
}

/// The interval that dependence cycles with a single edge between iterations need.
fn simple_recurrences(graph: &DepGraph) -> u32 {
    let mut targets: Vec<usize> =
        graph.edge_references().filter(|e| e.weight().distance > 0).map(|e| e.target().index()).collect();
    targets.sort_unstable();
    targets.dedup();
    let mut bound = 1;
    let mut longest = vec![-1i32; graph.node_count()];
    for to in targets {
        // Longest paths from `to` on within an iteration; its edges go forward in number.
        longest.fill(-1);
        longest[to] = 0;
        for i in to..longest.len() {
            if longest[i] < 0 {
                continue;
            }
            for e in graph.edges(NodeIndex::new(i)) {
                let (t, w) = (e.target().index(), e.weight());
                if w.distance == 0 {
                    longest[t] = longest[t].max(longest[i] + w.latency);
                } else if t == to {
                    bound = bound.max(((longest[i] + w.latency).max(0) as u32).div_ceil(w.distance));
                }
            }
        }
    }
    bound
}

/// The least interval from `from` to `limit` that no dependence cycle exceeds.
pub fn recurrence_bound(graph: &DepGraph, from: u32, limit: u32) -> Option<u32> {
    let mut low = from.max(simple_recurrences(graph));
    if low > limit {
        return None;
    }
    if heights(graph, low as i32).is_some() {
        return Some(low);
    }
    let mut high = limit;
    heights(graph, limit as i32)?;
    while low < high {
        let mid = (low + high) / 2;
        if heights(graph, mid as i32).is_some() { high = mid } else { low = mid + 1 }
    }
    Some(low)
}

/// Slots taken per cycle modulo the interval.
struct Table {
    ii: u32,
    used: Vec<[u8; 10]>,
    width: [u32; 10],
}

impl Table {
    fn new(ii: u32, chip: &ChipConfig) -> Table {
        let width = std::array::from_fn(|s| width(chip, Slot::ALL[s]));
        Table { ii, used: vec![[0; 10]; ii as usize], width }
    }

    /// Most that an instruction of this interval takes of any one cycle, and whether it fits at `t`.
    fn fits(&self, t: u32, (slot, interval): (Slot, u32)) -> bool {
        let s = slot as usize;
        (0..interval.min(self.ii)).all(|k| {
            let more = (interval - k).div_ceil(self.ii);
            self.used[((t + k) % self.ii) as usize][s] as u32 + more <= self.width[s].max(more)
        })
    }

    fn add(&mut self, t: u32, (slot, interval): (Slot, u32), sign: i8) {
        for k in 0..interval {
            let cell = &mut self.used[((t + k) % self.ii) as usize][slot as usize];
            *cell = cell.wrapping_add_signed(sign);
        }
    }
}

/// Schedules at one interval, or gives up after `budget` placements a node.
pub fn schedule(nodes: &[Node], graph: &DepGraph, chip: &ChipConfig, ii: u32, budget: usize) -> Option<Modulo> {
    let n = nodes.len();
    let height = heights(graph, ii as i32)?;
    let res: Vec<(Slot, u32)> = nodes.iter().map(|x| resource(chip, x)).collect();
    let mut table = Table::new(ii, chip);
    let mut time: Vec<Option<u32>> = vec![None; n];
    let mut last: Vec<Option<u32>> = vec![None; n];
    let mut queue: BinaryHeap<(i32, std::cmp::Reverse<usize>)> =
        (0..n).map(|i| (height[i], std::cmp::Reverse(i))).collect();
    let mut left = budget * n;
    while let Some((_, std::cmp::Reverse(i))) = queue.pop() {
        if time[i].is_some() {
            continue;
        }
        if left == 0 {
            return None;
        }
        left -= 1;
        let early = graph
            .edges_directed(NodeIndex::new(i), Direction::Incoming)
            .filter_map(|e| {
                let t = time[e.source().index()]? as i32;
                Some(t + e.weight().latency - (ii * e.weight().distance) as i32)
            })
            .max()
            .unwrap_or(0)
            .max(0) as u32;
        let free = (early..early + ii).find(|&t| table.fits(t, res[i]));
        let at = free.unwrap_or_else(|| last[i].map_or(early, |l| early.max(l + 1)));
        if free.is_none() {
            evict_slot(&mut table, &mut time, &res, i, at, &mut |v| queue.push((height[v], std::cmp::Reverse(v))));
        }
        table.add(at, res[i], 1);
        time[i] = Some(at);
        last[i] = Some(at);
        for e in graph.edges(NodeIndex::new(i)) {
            let s = e.target().index();
            let need = at as i32 + e.weight().latency - (ii * e.weight().distance) as i32;
            if s != i && time[s].is_some_and(|t| (t as i32) < need) {
                table.add(time[s].expect("checked above"), res[s], -1);
                time[s] = None;
                queue.push((height[s], std::cmp::Reverse(s)));
            }
        }
    }
    let mut time: Vec<u32> = time.into_iter().map(|t| t.expect("every node was placed")).collect();
    sink(nodes, graph, &mut table, &res, &mut time, ii);
    let first = time.iter().copied().min().unwrap_or(0) / ii * ii;
    time.iter_mut().for_each(|t| *t -= first);
    Some(Modulo { ii, time })
}

/// Takes away instructions of the same slot until node `i` fits at `at`.
fn evict_slot(
    table: &mut Table,
    time: &mut [Option<u32>],
    res: &[(Slot, u32)],
    i: usize,
    at: u32,
    requeue: &mut dyn FnMut(usize),
) {
    let ii = table.ii;
    let covers = |t: u32, interval: u32, cycle: u32| (cycle + ii - t % ii) % ii < interval;
    for v in 0..time.len() {
        if table.fits(at, res[i]) {
            return;
        }
        let Some(t) = time[v] else { continue };
        let overlap = (0..res[i].1.min(ii)).any(|k| covers(t, res[v].1.min(ii), (at + k) % ii));
        if v != i && res[v].0 == res[i].0 && overlap {
            table.add(t, res[v], -1);
            time[v] = None;
            requeue(v);
        }
    }
}

/// Moves instructions later where that does not lengthen more lifetimes than it shortens.
fn sink(nodes: &[Node], graph: &DepGraph, table: &mut Table, res: &[(Slot, u32)], time: &mut [u32], ii: u32) {
    sink_where(nodes, graph, (table, res), time, ii, &mut |i, _| {
        let regs: smallvec::SmallVec<[_; 6]> = nodes[i].registers().collect();
        let defs = regs.iter().filter(|r| r.is_def).count();
        defs > 0 && regs.len() - defs <= defs
    });
}

/// Moves instructions of a schedule later where lifetimes become shorter by what registers of their files are worth (`worth` of a
/// register): what nothing else in the loop needs any longer is needed longer then, what many need or no iteration makes is not.
pub fn settle(nodes: &[Node], graph: &DepGraph, chip: &ChipConfig, m: &mut Modulo, worth: &dyn Fn(Reg) -> u32) {
    let res: Vec<(Slot, u32)> = nodes.iter().map(|x| resource(chip, x)).collect();
    let mut table = Table::new(m.ii, chip);
    m.time.iter().zip(&res).for_each(|(&t, &r)| table.add(t, r, 1));
    let mut users: FxHashMap<Reg, Vec<usize>> = FxHashMap::default();
    let mut made: FxHashSet<Reg> = FxHashSet::default();
    for (i, n) in nodes.iter().enumerate() {
        for r in n.registers() {
            if r.is_def {
                made.insert(r.reg);
            } else {
                users.entry(r.reg).or_default().push(i);
            }
        }
    }
    sink_where(nodes, graph, (&mut table, &res), &mut m.time, m.ii, &mut |i, time| {
        let (mut shorter, mut longer) = (0, 0);
        for r in nodes[i].registers() {
            let last = || users[&r.reg].iter().all(|&u| u == i || time[u] <= time[i]);
            if r.is_def {
                shorter += worth(r.reg);
            } else if made.contains(&r.reg) && last() {
                longer += worth(r.reg);
            }
        }
        shorter > longer
    });
}

/// Moves the instructions that `wanted` names, of those and their times, as late as what needs them allows.
fn sink_where(
    nodes: &[Node],
    graph: &DepGraph,
    (table, res): (&mut Table, &[(Slot, u32)]),
    time: &mut [u32],
    ii: u32,
    wanted: &mut dyn FnMut(usize, &[u32]) -> bool,
) {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(time[i]), i));
    let end = time.iter().copied().max().unwrap_or(0);
    for i in order {
        if !wanted(i, time) {
            continue;
        }
        let late = graph
            .edges(NodeIndex::new(i))
            .filter(|e| e.target().index() != i)
            .map(|e| time[e.target().index()] as i32 - e.weight().latency + (ii * e.weight().distance) as i32)
            .min()
            .unwrap_or(end as i32)
            .min(end as i32);
        table.add(time[i], res[i], -1);
        let low = time[i].max((late.max(0) as u32).saturating_sub(ii - 1));
        if let Some(t) = (low..=late.max(time[i] as i32) as u32).rev().find(|&t| t > time[i] && table.fits(t, res[i])) {
            time[i] = t;
        }
        table.add(time[i], res[i], 1);
    }
}
