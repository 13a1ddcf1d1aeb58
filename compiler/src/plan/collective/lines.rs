//! Ways round a group: the rings that its devices can form on the topology.
//!
//! A group that is a box of the topology is gone round axis by axis, or several axes are joined to one ring that goes through
//! all their places. Any other group is one ring, in an order with short ways. What a way costs follows from the
//! routes of its messages: how many share a link.

use super::combinations::partitions;
use super::cycle::{round, short, through_box};
use super::disjoint::disjoint_cycles;
use super::shares::Split;
use super::{Request, RingKind};
use crate::plan::lower::Lower;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use systole_isa::ChipConfig;
use systole_isa::topology::{Hop, Topology};

/// Most devices of a ring that goes through several axes: every device has a table of them.
const MOST_JOINED: u64 = 256;

/// A ring along an axis of the groups, or along several.
pub struct Line {
    pub n: u32,
    /// Parts from one number to the next.
    pub mult: u64,
    /// Going round in both directions at once is worth while: not between two neighbours with one link.
    pub both_ways: bool,
    /// Messages of one step that share a link and its direction, of all ways that are gone.
    pub shared: u32,
    /// The rings: (device, its number along the line).
    pub rings: Vec<Vec<(u32, u32)>>,
    /// Every device's ring, and its place there.
    pub of: Vec<(u32, u32)>,
    /// See [`super::Ring::links`].
    pub links: u32,
}

impl Line {
    /// The device so many places ahead on the ring of a device, and its number.
    pub fn ahead(&self, device: usize, places: usize) -> (u32, u32) {
        let (ring, at) = self.of[device];
        let ring = &self.rings[ring as usize];
        ring[(at as usize + places) % ring.len()]
    }

    /// Bytes that a device can send along the line in a cycle, all ways together.
    pub fn bytes_per_cycle(&self, chip: &ChipConfig) -> f64 {
        let ways = if self.both_ways { 2.0 } else { 1.0 };
        ways / f64::from(self.shared) * chip.link_bytes_per_cycle().max(1e-9)
    }

    /// Cycles that a byte of a share takes when the ring gathers (or reduces) it, but for latencies.
    pub fn cycles_per_byte(&self, chip: &ChipConfig) -> f64 {
        let n = f64::from(self.n);
        (n - 1.0) / n / self.bytes_per_cycle(chip)
    }
}

/// Lines that lead from every device of a group to every other: one after the other, or each by itself.
pub struct Way {
    pub lines: Vec<Line>,
    /// Every line goes through the whole group.
    pub side_by_side: bool,
    /// See [`Way::splits`].
    pub splits: OnceCell<Vec<Split>>,
}

impl Way {
    pub fn new(lines: Vec<Line>) -> Way {
        Way { lines, side_by_side: false, splits: OnceCell::new() }
    }

    /// Lines one after the other, in all orders that are of use, or each by itself: how many there are in an order.
    pub fn positions(&self) -> usize {
        if self.side_by_side { 1 } else { self.lines.len() }
    }
}

/// Ways round some groups.
pub(super) type Ways = Rc<Vec<Rc<Way>>>;

/// Groups that are boxes of the topology.
struct Boxes {
    /// Devices along every axis, and parts from one coordinate to the next; axes of length 1 left out.
    sizes: Vec<u32>,
    mults: Vec<u64>,
    /// The axis is the topology's, whole, and wraps around.
    wraps: Vec<bool>,
    /// By group: its devices in row-major order of their coordinates, with their places in the group.
    groups: Vec<Vec<(u32, u32)>>,
    /// The groups' order follows the axes (or may be any).
    follows: bool,
}

impl Boxes {
    /// Whether all axes are of one length and wrap around or not.
    fn alike(&self) -> bool {
        self.sizes.windows(2).all(|w| w[0] == w[1]) && self.wraps.windows(2).all(|w| w[0] == w[1])
    }
}

impl Lower<'_> {
    /// Ways round the groups of a collective; the first one has a line for every axis if that is possible.
    pub(super) fn ways(&mut self, q: &Request<'_>) -> Ways {
        let free = q.kind == RingKind::AllReduce;
        let key = (q.groups.clone(), free);
        if let Some(known) = self.plan.pod.ways.get(&key) {
            return Rc::clone(known);
        }
        let mut ways = Vec::new();
        if let Some(b) = self.boxes(&q.groups, free) {
            // Along axes that are alike, lines are as fast as one ring through all, take fewer steps and keep devices alike.
            let lines_do = b.follows && b.sizes.len() > 1 && b.alike();
            let several = partitions(b.sizes.len()).into_iter();
            let several = several.filter(|p| if p.len() == 1 { !lines_do } else { b.follows });
            ways.extend(several.filter_map(|p| self.along(&b, &p, free)).map(Rc::new));
            ways.extend(self.side_by_side(&b, free).map(Rc::new));
        }
        if ways.is_empty() {
            ways.push(Rc::new(Way::new(vec![self.one_ring(&q.groups)])));
        }
        let ways = Rc::new(ways);
        self.plan.pod.ways.insert(key, Rc::clone(&ways));
        ways
    }

    fn topology(&self) -> Option<&Topology> {
        self.plan.pod.shape.topology.as_ref().filter(|t| !t.full)
    }

    /// One ring through each group, with short ways.
    pub(super) fn one_ring(&self, groups: &[Vec<u32>]) -> Line {
        let topology = self.topology();
        let ring = |g: &Vec<u32>| -> Vec<(u32, u32)> {
            // Neighbours by number are often neighbours in the pod; blocks go by the group's order.
            let mut ring: Vec<(u32, u32)> = g.iter().enumerate().map(|(rank, &d)| (d, rank as u32)).collect();
            ring.sort_unstable();
            let Some(t) = topology else { return ring };
            let hops = |a: usize, b: usize| t.route(ring[a].0, ring[b].0, true).len() as u32;
            short(ring.len(), hops).into_iter().map(|i| ring[i]).collect()
        };
        let n = groups.first().map_or(1, Vec::len) as u32;
        self.line(n, 1, groups.iter().map(ring).collect())
    }

    /// The groups as boxes of equal sizes.
    fn boxes(&self, groups: &[Vec<u32>], free: bool) -> Option<Boxes> {
        let t = self.topology()?;
        let axes = t.dims.len() + 1;
        let mut found: Option<Boxes> = None;
        let mut long: Vec<usize> = Vec::new();
        for g in groups {
            let place = |&d: &u32| -> Vec<u32> {
                let mut c = t.coordinates(t.chip_of(d));
                c.push(t.core_of(d));
                c
            };
            let places: Vec<Vec<u32>> = g.iter().map(place).collect();
            let values: Vec<Vec<u32>> = (0..axes)
                .map(|a| places.iter().map(|p| p[a]).collect::<BTreeSet<u32>>().into_iter().collect())
                .collect();
            let own: Vec<usize> = (0..axes).filter(|&a| values[a].len() > 1).collect();
            let sizes: Vec<u32> = own.iter().map(|&a| values[a].len() as u32).collect();
            if sizes.iter().map(|&n| n as usize).product::<usize>() != g.len() {
                return None;
            }
            let wrap = |&a: &usize| a < t.dims.len() && values[a].len() as u32 == t.dims[a] && t.wrap[a];
            let b = found.get_or_insert_with(|| {
                long.clone_from(&own);
                let (mults, wraps) = (Vec::new(), own.iter().map(wrap).collect());
                Boxes { sizes: sizes.clone(), mults, wraps, groups: Vec::new(), follows: true }
            });
            if b.sizes != sizes || long != own {
                return None;
            }
            let mut order = vec![(0, 0); g.len()];
            for (rank, (&d, p)) in g.iter().zip(&places).enumerate() {
                let at = long
                    .iter()
                    .fold(0, |n, &a| n * values[a].len() + values[a].iter().position(|x| *x == p[a]).unwrap_or(0));
                order[at] = (d, rank as u32);
            }
            let mults = if free { row_major(&sizes) } else { ranks_by_axis(&sizes, &order) };
            if b.mults.is_empty() {
                b.mults.clone_from(&mults);
            }
            b.follows &= free || b.mults == mults && affine(&sizes, &mults, &order);
            b.groups.push(order);
        }
        found.filter(|b| !b.sizes.is_empty())
    }

    /// Lines along the axes of every set of a partition.
    fn along(&self, b: &Boxes, partition: &[Vec<usize>], free: bool) -> Option<Way> {
        let lines = partition.iter().map(|set| self.join(b, set, partition.len() == 1, free));
        Some(Way::new(lines.collect::<Option<_>>()?))
    }

    /// Lines through a whole torus that share no link: where its axes are alike, lines along them do as well with fewer steps.
    fn side_by_side(&self, b: &Boxes, free: bool) -> Option<Way> {
        let n: u64 = b.sizes.iter().map(|&n| u64::from(n)).product();
        if b.alike() || n > MOST_JOINED || !b.wraps.iter().all(|w| *w) {
            return None;
        }
        let set: Vec<usize> = (0..b.sizes.len()).collect();
        let cycles = disjoint_cycles(&b.sizes)?;
        let mut lines: Vec<Line> =
            cycles.iter().map(|c| self.round(b, &set, c, (true, free))).collect::<Option<_>>()?;
        let all: Vec<_> = lines.iter().flat_map(|l| l.rings.iter().cloned()).collect();
        let load = shared(self.topology()?, &all, true);
        lines.iter_mut().for_each(|l| l.shared = load);
        Some(Way { side_by_side: true, ..Way::new(lines) })
    }

    /// The line along a set of axes; `all`: these are all.
    fn join(&self, b: &Boxes, set: &[usize], all: bool, free: bool) -> Option<Line> {
        let sizes: Vec<u32> = set.iter().map(|&a| b.sizes[a]).collect();
        let cycle: Vec<Vec<u32>> = match sizes[..] {
            [n] => round(n, b.wraps[set[0]]).into_iter().map(|c| vec![c]).collect(),
            _ if sizes.iter().map(|&n| u64::from(n)).product::<u64>() > MOST_JOINED => return None,
            _ => through_box(&sizes)?,
        };
        self.round(b, set, &cycle, (all, free))
    }

    /// The line that goes along a set of axes by a cycle of their coordinates; `all`: these are all.
    fn round(&self, b: &Boxes, set: &[usize], cycle: &[Vec<u32>], (all, free): (bool, bool)) -> Option<Line> {
        let sizes: Vec<u32> = set.iter().map(|&a| b.sizes[a]).collect();
        let n: u64 = sizes.iter().map(|&n| u64::from(n)).product();
        // Numbers along the line, in parts of one size.
        let mults: Vec<u64> = if free { row_major(&sizes) } else { set.iter().map(|&a| b.mults[a]).collect() };
        let by_rank = all && !free;
        if !free && !all && !even(&sizes, &mults) {
            return None;
        }
        let places = row_major(&b.sizes);
        let offset = |c: &[u32]| set.iter().zip(c).map(|(&a, &c)| places[a] * u64::from(c)).sum::<u64>();
        let number = |c: &[u32]| mults.iter().zip(c).map(|(m, &c)| m * u64::from(c)).sum::<u64>();
        let least = mults.iter().copied().min().unwrap_or(1);
        let on = |g: &[(u32, u32)], first: usize| -> Vec<(u32, u32)> {
            let each = cycle.iter().map(|c| {
                let (device, rank) = g[first + offset(c) as usize];
                (device, if by_rank { rank } else { (number(c) / least) as u32 })
            });
            each.collect()
        };
        let mut rings = Vec::new();
        for g in &b.groups {
            // A ring for every place whose coordinates along the set are all 0.
            let at_start =
                |at: &usize| set.iter().all(|&a| (*at as u64 / places[a]).is_multiple_of(u64::from(b.sizes[a])));
            rings.extend((0..g.len()).filter(at_start).map(|first| on(g, first)));
        }
        Some(self.line(n as u32, if all { 1 } else { least }, rings))
    }

    fn line(&self, n: u32, mult: u64, rings: Vec<Vec<(u32, u32)>>) -> Line {
        let devices = self.plan.pod.shape.devices() as usize;
        let mut of = vec![(0, 0); devices];
        for (r, ring) in rings.iter().enumerate() {
            for (at, &(d, _)) in ring.iter().enumerate() {
                of[d as usize] = (r as u32, at as u32);
            }
        }
        let mut line = Line { n, mult, both_ways: true, shared: 1, rings, of, links: OTHER_LINKS };
        if let Some(t) = self.topology() {
            let (one, both) = (shared(t, &line.rings, false), shared(t, &line.rings, true));
            // Of two devices with one link, both ways are the same.
            line.both_ways = n > 2 || both < 2 * one;
            line.shared = if line.both_ways { both } else { one };
            line.links = links(t, &line.rings);
        }
        line
    }
}

/// Links that belong to no axis.
const OTHER_LINKS: u32 = 1 << 31;

/// The axes along which messages between neighbours of rings go, either way.
fn links(t: &Topology, rings: &[Vec<(u32, u32)>]) -> u32 {
    let pairs = rings.iter().flat_map(|r| (0..r.len()).map(move |i| (r[i].0, r[(i + 1) % r.len()].0)));
    let hops = pairs.flat_map(|(a, b)| t.route(a, b, true).into_iter().chain(t.route(b, a, false)));
    hops.fold(0, |all, hop| all | if hop.port / 2 < t.dims.len() as u32 { 1 << (hop.port / 2) } else { OTHER_LINKS })
}

/// Most messages that share a direction of a link when everybody sends to the next one on its ring, and to the one before.
fn shared(t: &Topology, rings: &[Vec<(u32, u32)>], both: bool) -> u32 {
    let mut loads: FxHashMap<Hop, u32> = FxHashMap::default();
    for ring in rings {
        for (i, &(a, _)) in ring.iter().enumerate() {
            let b = ring[(i + 1) % ring.len()].0;
            // The streams of the two ways take different ways of equal length.
            let back = if both { t.route(b, a, false) } else { Vec::new() };
            t.route(a, b, true).into_iter().chain(back).for_each(|hop| *loads.entry(hop).or_default() += 1);
        }
    }
    loads.into_values().max().unwrap_or(1)
}

/// Places from one coordinate to the next.
fn row_major(sizes: &[u32]) -> Vec<u64> {
    (0..sizes.len()).map(|a| sizes[a + 1..].iter().map(|&n| u64::from(n)).product()).collect()
}

/// The rank of the device one step along each axis.
fn ranks_by_axis(sizes: &[u32], order: &[(u32, u32)]) -> Vec<u64> {
    row_major(sizes).into_iter().map(|at| u64::from(order[at as usize].1)).collect()
}

/// Whether ranks are sums over the axes.
fn affine(sizes: &[u32], mults: &[u64], order: &[(u32, u32)]) -> bool {
    let places = row_major(sizes);
    order.iter().enumerate().all(|(at, &(_, rank))| {
        let each = places.iter().zip(sizes).zip(mults).map(|((p, &n), m)| at as u64 / p % u64::from(n) * m);
        each.sum::<u64>() == u64::from(rank)
    })
}

/// Whether numbers along several axes are evenly far apart.
fn even(sizes: &[u32], mults: &[u64]) -> bool {
    let mut by: Vec<(u64, u32)> = mults.iter().copied().zip(sizes.iter().copied()).collect();
    by.sort_unstable();
    by.windows(2).all(|w| w[0].0 * u64::from(w[0].1) == w[1].0)
}
