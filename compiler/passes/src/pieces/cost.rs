//! What computing a region in pieces gains: links and units at work at once, for copies and smaller products.
//!
//! Times are seconds by rates alone (products at the peak, arrays through HBM, collectives over the links that their groups
//! use): good enough to tell a collective that is the way from one that others hide.

use super::region::{Cut, Region, is_free, operand_cuts, wants_whole};
use crate::options::PassOptions;
use rustc_hash::FxHashSet;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use systole_hlo::analysis::devices;
use systole_hlo::graph::{Collective, CollectiveKind, Computation, NodeId, Op, Shape};

/// Share of an array's bytes that an operation moves whose neighbours are fused with it.
const FUSED: f64 = 0.5;
/// A gain is worth it from this share of the collectives' time on, and from so many messages.
const WORTH: (f64, f64) = (0.15, 16.0);
/// Messages that a piece of a collective takes to begin and to end.
const ENDS: f64 = 4.0;

/// Sets a node's bit; whether it was not set.
fn set(bits: &mut [u64], id: NodeId) -> bool {
    let (word, bit) = (&mut bits[id.index() / 64], 1 << (id.index() % 64));
    let new = *word & bit == 0;
    *word |= bit;
    new
}

/// Links of a device that a group uses, in one direction, if it extends along axes of a topology.
fn links(axes: Option<&[(u32, bool)]>) -> f64 {
    let along = |&(_, turns): &(u32, bool)| if turns { 2.0 } else { 1.0 };
    axes.map_or(2.0, |axes| axes.iter().map(along).sum::<f64>().max(1.0))
}

/// Costs of the nodes of a computation.
pub struct Costs<'a> {
    c: &'a Computation,
    users: &'a [Vec<NodeId>],
    o: &'a PassOptions,
    work: Vec<f64>,
    /// Of collectives, their seconds and their steps.
    collectives: Vec<(f64, f64)>,
    /// A bit for each node that needs a node or that it needs, of the nodes that were asked for.
    related: Vec<OnceCell<Box<[u64]>>>,
}

fn bytes(c: &Computation, id: NodeId) -> f64 {
    let all = |s: &Shape| s.leaves().iter().map(|a| a.elements() as f64 * f64::from(a.dtype.bits()) / 8.0).sum::<f64>();
    all(&c.node(id).shape)
}

impl<'a> Costs<'a> {
    pub fn new(c: &'a Computation, users: &'a [Vec<NodeId>], o: &'a PassOptions) -> Costs<'a> {
        let related = c.ids().map(|_| OnceCell::new()).collect();
        let mut costs = Costs { c, users, o, work: Vec::new(), collectives: Vec::new(), related };
        costs.work = c.ids().map(|id| costs.alone(id)).collect();
        costs.collectives = c.ids().map(|id| costs.exchange(id)).collect();
        costs
    }

    /// Multiply-adds times two of a product.
    fn flops(&self, id: NodeId) -> f64 {
        let n = self.c.node(id);
        let Op::Dot { dims, .. } = &n.op else { return 0.0 };
        let lhs = self.c.node(n.operands[0]).shape.as_array().map_or(&[][..], |a| &a.dims);
        let depth: u64 = dims.lhs_contracting.iter().map(|&d| lhs[d]).product();
        2.0 * depth as f64 * n.shape.as_array().map_or(0.0, |a| a.elements() as f64)
    }

    /// Seconds of a node that is no collective.
    #[allow(clippy::wildcard_enum_match_arm, reason = "every other operation shares a kernel with its neighbours")]
    fn alone(&self, id: NodeId) -> f64 {
        let (n, r) = (self.c.node(id), &self.o.chip.rates);
        match &n.op {
            Op::Collective { .. } | Op::Parameter { .. } | Op::Constant(_) | Op::Tuple | Op::GetTupleElement { .. } => {
                0.0
            }
            Op::Dot { .. } => {
                let moved: f64 = n.operands.iter().chain([&id]).map(|&x| bytes(self.c, x)).sum();
                f64::max(self.flops(id) / r.flops, moved / r.memory)
            }
            _ => FUSED * bytes(self.c, id) / r.memory,
        }
    }

    /// Seconds of a node that is no collective.
    pub fn work(&self, id: NodeId) -> f64 {
        self.work[id.index()]
    }

    /// Seconds of a collective; of others none.
    pub fn collective(&self, id: NodeId) -> f64 {
        self.collectives[id.index()].0
    }

    /// Seconds and steps of a collective.
    fn exchange(&self, id: NodeId) -> (f64, f64) {
        let n = self.c.node(id);
        let Op::Collective { kind, devices } = &n.op else { return (0.0, 0.0) };
        let Some(first) = self.groups(kind, devices) else { return (0.0, 0.0) };
        let axes = self.axes(&first);
        let share = (first.len() as f64 - 1.0) / first.len() as f64;
        let moved = match kind {
            CollectiveKind::AllReduce { .. } => 2.0 * bytes(self.c, id),
            CollectiveKind::ReduceScatter { .. } => n.operands.iter().map(|&o| bytes(self.c, o)).sum(),
            CollectiveKind::AllGather { .. }
            | CollectiveKind::AllToAll { .. }
            | CollectiveKind::Permute { .. }
            | CollectiveKind::Broadcast
            | CollectiveKind::RaggedAllToAll
            | CollectiveKind::Reduce { .. } => bytes(self.c, id),
        };
        let seconds = moved * share / (links(axes.as_deref()) * self.o.chip.rates.link).max(1.0);
        // One message each, that go round the axes or, where they do not wrap around, through all places.
        let axes = axes.filter(|axes| axes.iter().all(|a| a.1));
        let round = axes.map_or(first.len() as f64 - 1.0, |axes| axes.iter().map(|a| f64::from(a.0) - 1.0).sum());
        (seconds, round * if matches!(kind, CollectiveKind::AllReduce { .. }) { 2.0 } else { 1.0 })
    }

    /// The axes of the topology that a group extends along: devices, and whether the axis is whole and wraps around.
    fn axes(&self, group: &[u32]) -> Option<Vec<(u32, bool)>> {
        let t = self.o.asked.pod.topology.as_ref().filter(|t| !t.full)?;
        let mut values = vec![BTreeSet::new(); t.dims.len()];
        for &d in group {
            t.coordinates(t.chip_of(d)).into_iter().zip(&mut values).for_each(|(c, v)| {
                v.insert(c);
            });
        }
        let long = (0..values.len()).filter(|&a| values[a].len() > 1);
        Some(long.map(|a| (values[a].len() as u32, t.wrap[a] && values[a].len() as u32 == t.dims[a])).collect())
    }

    /// The first group of a collective, if it has several devices.
    fn groups(&self, kind: &CollectiveKind, devices: &Collective) -> Option<Vec<u32>> {
        let groups = devices::groups(kind, devices, &self.o.asked.pod).ok()?;
        groups.into_iter().next().filter(|g| g.len() > 1)
    }

    /// A bit for each node that a node needs, or that needs it.
    fn related(&self, id: NodeId) -> &[u64] {
        self.related[id.index()].get_or_init(|| {
            let mut all = vec![0; self.c.nodes.len().div_ceil(64)].into_boxed_slice();
            for down in [false, true] {
                let mut open = vec![id];
                let mut seen = vec![0; all.len()];
                while let Some(n) = open.pop() {
                    if set(&mut seen, n) {
                        open.extend(if down { &self.users[n.index()] } else { &self.c.node(n).operands });
                    }
                }
                all.iter_mut().zip(&seen).for_each(|(a, s)| *a |= s);
            }
            all
        })
    }

    /// Seconds that a region gains when it is computed in so many pieces; none if that is not worth it.
    pub fn gain(&self, region: &Region, pieces: u64) -> Option<f64> {
        let rates = &self.o.chip.rates;
        let mut members: Vec<(NodeId, Cut)> = region.iter().map(|(&n, &c)| (n, c)).collect();
        members.sort_unstable_by_key(|m| m.0);
        let exchanges: Vec<NodeId> = members.iter().map(|m| m.0).filter(|&n| self.collective(n) > 0.0).collect();
        let links: f64 = exchanges.iter().map(|&n| self.collective(n)).sum();
        // What hides the collectives as they are.
        let mut aside = vec![0u64; self.c.nodes.len().div_ceil(64)];
        for &x in &exchanges {
            aside.iter_mut().zip(self.related(x)).for_each(|(a, r)| *a |= !r);
        }
        let is_aside = |n: &NodeId| aside[n.index() / 64] >> (n.index() % 64) & 1 == 1;
        let beside: f64 = self.c.ids().filter(is_aside).map(|n| self.work[n.index()]).sum();
        let exposed = links - beside;
        let work: f64 = members.iter().map(|m| self.work[m.0.index()]).sum();
        let steps: f64 = exchanges.iter().map(|&n| self.collectives[n.index()].1).sum();
        // Pieces whose steps take longer than a message cost what begins and ends them; shorter ones wait at every step.
        let step = links / (steps * pieces as f64).max(1.0);
        let waits = ENDS * exchanges.len() as f64 * rates.message + steps * (rates.message - step).max(0.0);
        let mut more = (pieces - 1) as f64 * waits;
        let mut entered = FxHashSet::default();
        for &(id, cut) in &members {
            let n = self.c.node(id);
            let cuts = operand_cuts(self.c, id, cut)?;
            let free = is_free(&cuts);
            for (&o, own) in n.operands.iter().zip(cuts) {
                let product = matches!(n.op, Op::Dot { .. } | Op::Collective { .. });
                match own {
                    // Read again for every piece.
                    None if matches!(n.op, Op::Dot { .. }) => {
                        let again = (pieces as f64) * bytes(self.c, o) / rates.memory;
                        more += (again - self.flops(id) / rates.flops).max(0.0);
                    }
                    Some(own) if region.get(&o) != Some(&own) && entered.insert(o) => {
                        // Products read rows of an array where they are.
                        let rows = matches!(n.op, Op::Dot { .. }) && own.dim == 0 && own.outer == 1;
                        let share = if rows {
                            0.0
                        } else if product {
                            2.0
                        } else {
                            FUSED
                        };
                        more += share * bytes(self.c, o) / rates.memory;
                    }
                    _ => {}
                }
            }
            let whole = |&u: &NodeId| wants_whole(self.c, region, u, (id, cut));
            if !free && (self.c.root == id || self.users[id.index()].iter().any(whole)) {
                more += 2.0 * bytes(self.c, id) / rates.memory;
            }
        }
        let gain = f64::min(work, exposed) * (1.0 - 1.0 / pieces as f64) - more;
        (gain > WORTH.0 * exposed && gain > WORTH.1 * rates.message).then_some(gain)
    }
}
