//! Rings along the axes of the topology.
//!
//! A group that is a box of the topology is reduced and gathered axis by axis; with axes of equal length the array is cut
//! into a share for each axis, and share `k` begins with axis `k`, so that all links work all the time. Every share is cut
//! into two *streams* that go round in opposite directions. Any other group is one ring in the order of its members.
//!
//! A ring of `n` devices gathers in `n - 1` steps: at each, a device passes on the block that it got last. It reduces
//! in as many: the block of the device behind it goes round, and everybody adds its own.

use super::{Request, Table};
use crate::analysis::parts::Parts;
use crate::error::CompileError;
use crate::plan::lower::Lower;
use std::collections::BTreeSet;

/// What a ring does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    AllReduce,
    ReduceScatter,
    AllGather,
}

/// An axis of the group.
#[derive(Clone, Debug)]
pub struct Axis {
    pub n: u32,
    /// Parts from one coordinate to the next.
    pub mult: u64,
    /// Words: next device, previous device, then the coordinates of the devices 0, 1, .. n steps behind (the last is the
    /// device itself again).
    pub table: Table,
}

/// One of the streams that run side by side.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Axes in order of reduction; gathering goes the other way.
    pub order: Vec<usize>,
    pub forward: bool,
    /// First row of the stream in each run of a part, and rows of each of its pieces.
    pub first: u64,
    pub piece: u64,
    pub send: u32,
    pub recv: u32,
    /// Handshake of every phase.
    pub ready: Vec<u32>,
    pub kernel: Option<usize>,
}

/// A collective by rings.
#[derive(Clone, Debug)]
pub struct Ring {
    pub kind: RingKind,
    pub axes: Vec<Axis>,
    pub streams: Vec<Stream>,
    /// Pieces of a stream in a run of a part.
    pub pieces: u64,
    pub parts: Parts,
    pub local: u32,
    pub packing: u64,
}

/// Slots for own contributions that are being sent, for the one that is kept, and for incoming ones, of each stream.
pub const OWN_SLOTS: u64 = 3;
pub const KEEP_SLOTS: u64 = 1;
pub const IN_SLOTS: u64 = 4;
/// All of them.
pub const SLOTS: u64 = OWN_SLOTS + KEEP_SLOTS + IN_SLOTS;
/// Pieces that go round together: two such batches fit in the slots for incoming ones.
pub const BATCH: u64 = IN_SLOTS / 2;

impl Ring {
    pub fn devices(&self) -> u64 {
        self.axes.iter().map(|a| u64::from(a.n)).product()
    }

    /// Rows of a piece in vector memory, all components.
    pub fn slot_rows(&self, sublanes: u32) -> u64 {
        let most = self.streams.iter().map(|s| s.piece).max().unwrap_or(0);
        self.parts.components * self.parts.slot_component(most, sublanes)
    }

    /// Pieces that go round together.
    pub fn batch(&self) -> u64 {
        if self.pieces % BATCH == 0 { BATCH } else { 1 }
    }
}

/// An axis that groups extend along: the order of the devices in the ring, per group and line.
pub(super) struct Line {
    pub n: u32,
    pub mult: u64,
    /// Every device's ring of (device, coordinate).
    rings: Vec<Vec<(u32, u32)>>,
}

impl Lower<'_> {
    /// The axes of the groups: several where all groups are boxes, else one.
    pub(super) fn axes(&self, q: &Request<'_>) -> Vec<Line> {
        self.boxes(q).unwrap_or_else(|| vec![self.one_ring(q)])
    }

    fn one_ring(&self, q: &Request<'_>) -> Line {
        let devices = self.plan.pod.shape.devices() as usize;
        let mut rings = vec![Vec::new(); devices];
        for g in &q.groups {
            // Neighbours by number are neighbours in the pod; blocks go by the group's order.
            let mut ring: Vec<(u32, u32)> = g.iter().enumerate().map(|(rank, &d)| (d, rank as u32)).collect();
            ring.sort_unstable();
            for &d in g {
                rings[d as usize] = ring.clone();
            }
        }
        Line { n: q.groups.first().map_or(1, Vec::len) as u32, mult: 1, rings }
    }

    /// Lines along the axes if every group is a box of the same sizes whose members are in an order that follows the axes.
    fn boxes(&self, q: &Request<'_>) -> Option<Vec<Line>> {
        let shape = &self.plan.pod.shape;
        let t = shape.topology.as_ref().filter(|t| !t.full)?;
        let place = |d: u32| -> Vec<u32> {
            let mut c = t.coordinates(t.chip_of(d));
            c.push(d % t.devices_per_chip);
            c
        };
        let axes = t.dims.len() + 1;
        let mut sizes: Option<Vec<u32>> = None;
        let mut mults: Vec<u64> = vec![0; axes];
        let mut rings: Vec<Vec<Vec<(u32, u32)>>> = vec![vec![Vec::new(); shape.devices() as usize]; axes];
        for g in &q.groups {
            let places: Vec<Vec<u32>> = g.iter().map(|&d| place(d)).collect();
            let values: Vec<Vec<u32>> = (0..axes)
                .map(|a| places.iter().map(|p| p[a]).collect::<BTreeSet<u32>>().into_iter().collect())
                .collect();
            let n: Vec<u32> = values.iter().map(|v| v.len() as u32).collect();
            if n.iter().map(|&x| x as usize).product::<usize>() != g.len() || *sizes.get_or_insert(n.clone()) != n {
                return None;
            }
            let index = |p: &[u32]| -> Vec<u32> {
                p.iter().zip(&values).map(|(c, v)| v.iter().position(|x| x == c).unwrap_or(0) as u32).collect()
            };
            let indices: Vec<Vec<u32>> = places.iter().map(|p| index(p)).collect();
            let long: Vec<usize> = (0..axes).filter(|&a| n[a] > 1).collect();
            // Any order does for an all-reduce and for a single axis.
            let free = q.kind == RingKind::AllReduce || long.len() == 1;
            let mut m = vec![0; axes];
            let mut row_major = 1;
            for &a in long.iter().rev() {
                let unit = |i: &Vec<u32>| (0..axes).all(|b| i[b] == u32::from(b == a));
                m[a] = if free { row_major } else { indices.iter().position(unit)? as u64 };
                row_major *= u64::from(n[a]);
            }
            if mults.iter().all(|&x| x == 0) {
                mults.clone_from(&m);
            }
            let follows = |(rank, i): (usize, &Vec<u32>)| {
                rank as u64 == i.iter().zip(&m).map(|(&c, &k)| u64::from(c) * k).sum::<u64>()
            };
            if mults != m || !free && !indices.iter().enumerate().all(follows) {
                return None;
            }
            for &a in &long {
                let whole = a < t.dims.len() && n[a] == t.dims[a] && t.wrap[a];
                for (d, i) in g.iter().zip(&indices) {
                    let line: Vec<(u32, u32)> = round(n[a], whole)
                        .into_iter()
                        .filter_map(|c| {
                            let on = indices
                                .iter()
                                .position(|o| (0..axes).all(|b| o[b] == if b == a { c } else { i[b] }))?;
                            let block = if long.len() == 1 && q.kind != RingKind::AllReduce { on as u32 } else { c };
                            Some((g[on], block))
                        })
                        .collect();
                    rings[a][*d as usize] = line;
                }
            }
        }
        let sizes = sizes?;
        let single = sizes.iter().filter(|&&n| n > 1).count() == 1;
        let line = |a: usize| Line { n: sizes[a], mult: if single { 1 } else { mults[a] }, rings: rings[a].clone() };
        Some((0..axes).filter(|&a| sizes[a] > 1).map(line).collect())
    }

    /// Plans a collective by rings.
    pub(super) fn ring(&mut self, q: &Request<'_>) -> Result<Ring, CompileError> {
        let mut lines = self.axes(q);
        if lines.is_empty() {
            lines.push(self.one_ring(q));
        }
        self.plan.pod.symmetric &= q.groups.len() == 1;
        let equal = lines.windows(2).all(|w| w[0].n == w[1].n);
        let mut shares = if equal { lines.len() } else { 1 };
        let phases = lines.len() * if q.kind == RingKind::AllReduce { 2 } else { 1 };
        let names = |shares: usize| -> Vec<String> {
            let mut all = vec!["local".to_string(), "send 0".into(), "recv 0".into()];
            for s in 0..2 * shares {
                all.extend([format!("send {s}"), format!("recv {s}")]);
                all.extend((0..phases).map(|p| format!("ready {:?} {s} {p}", q.groups)));
            }
            all.sort();
            all.dedup();
            all
        };
        while shares > 1 && !self.plan.pod.has_semaphores(&names(shares)) {
            shares -= 1;
        }
        if shares < lines.len() {
            shares = 1;
        }
        if shares == 1 && lines.len() > 1 && !self.plan.pod.has_semaphores(&names(1)) {
            // One ring through all takes the least.
            let all_reduce = q.kind == RingKind::AllReduce;
            lines = vec![self.one_ring(q)];
            debug_assert!(all_reduce || lines[0].mult == 1);
        }
        let phases = lines.len() * if q.kind == RingKind::AllReduce { 2 } else { 1 };
        let (parts, pieces, cuts) = self.cut(q, &lines, 2 * shares as u64)?;
        let axes = lines.iter().map(|l| Axis { n: l.n, mult: l.mult, table: self.axis_table(l) }).collect::<Vec<_>>();
        let mut streams = Vec::new();
        for (s, (first, piece)) in cuts.into_iter().enumerate() {
            let (share, forward) = (s / 2, s % 2 == 0);
            let mut ready = Vec::new();
            for p in 0..phases {
                ready.push(self.plan.pod.semaphore(&format!("ready {:?} {s} {p}", q.groups))?);
            }
            streams.push(Stream {
                order: (0..axes.len()).map(|i| (i + share) % axes.len()).collect(),
                forward,
                first,
                piece,
                send: self.plan.pod.semaphore(&format!("send {s}"))?,
                recv: self.plan.pod.semaphore(&format!("recv {s}"))?,
                ready,
                kernel: None,
            });
        }
        let local = self.plan.pod.semaphore("local")?;
        let packing = q.dtype.packing() as u64;
        Ok(Ring { kind: q.kind, axes, streams, pieces, parts, local, packing })
    }

    fn axis_table(&mut self, l: &Line) -> Table {
        let rows = l.rings.iter().enumerate().map(|(d, ring)| {
            let n = ring.len();
            let at = ring.iter().position(|r| r.0 as usize == d).unwrap_or(0);
            let behind = (0..=n).map(|k| ring[(at + n - k % n) % n].1 as i32);
            let ends = [ring[(at + 1) % n].0 as i32, ring[(at + n - 1) % n].0 as i32];
            ends.into_iter().chain(behind).collect::<Vec<i32>>()
        });
        let rows = rows.collect();
        self.plan.pod.table(rows)
    }

    /// Cuts parts into streams and pieces: the parts (of an all-reduce, made for it), pieces, and the first row and rows of
    /// a piece of each stream.
    #[allow(clippy::type_complexity, reason = "three numbers of one decision")]
    fn cut(
        &self,
        q: &Request<'_>,
        lines: &[Line],
        streams: u64,
    ) -> Result<(Parts, u64, Vec<(u64, u64)>), CompileError> {
        let chip = self.chip;
        let row_bytes = chip.row_bytes();
        let unit = systole_isa::dma::HBM_GRANULE.div_ceil(row_bytes).max(1);
        let n: u64 = lines.iter().map(|l| u64::from(l.n)).product();
        let around = q.parts.components * q.parts.planes * q.parts.before;
        let reduces = q.kind != RingKind::AllGather;
        // Rows of a run in a piece: what slots allow, or what keeps a link busy for a while.
        let budget = if reduces { chip.vmem_rows() / 3 / (streams * SLOTS) } else { (1 << 20) / row_bytes };
        let most = (budget / around.max(1)).max(1);
        if reduces && budget < around * unit {
            return Err(CompileError::Limit {
                resource: format!("VMEM rows for pieces of `{}`", q.name),
                need: around * unit,
                have: budget,
                detail: " (scatter along another dimension)".into(),
            });
        }
        if q.kind == RingKind::AllReduce && q.parts.components == 1 {
            let align = unit.max(u64::from(chip.core.sublanes));
            let per_stream = q.parts.step.div_ceil(n * streams);
            let pieces = per_stream.div_ceil(most / align * align.max(1)).max(2);
            let piece = per_stream.div_ceil(pieces).next_multiple_of(align);
            let pieces = per_stream.div_ceil(piece).max(1);
            let pieces = if pieces > 1 { pieces.next_multiple_of(BATCH) } else { pieces };
            let step = streams * pieces * piece;
            let parts = Parts::rows(q.dtype, q.parts.whole[0], step);
            return Ok((parts, pieces, (0..streams).map(|s| (s * pieces * piece, piece)).collect()));
        }
        let mut parts = q.parts.clone();
        if q.kind == RingKind::AllReduce {
            parts = Parts::rows(q.dtype, q.parts.whole[0], q.parts.step / n);
            if parts.step * n != q.parts.step || !parts.step.is_multiple_of(unit) {
                return Err(CompileError::internal("collective", "an array of several components is not padded"));
            }
        }
        let units = parts.run / unit;
        let streams = streams.min(units.max(1));
        let wanted =
            units.div_ceil(streams).div_ceil((most / unit).max(1)).max(if units >= 4 * streams { 2 } else { 1 });
        let fits = |even: bool| (wanted..=units).find(|p| units % p == 0 && (!even || p % BATCH == 0));
        let pieces = fits(true).filter(|&p| p <= 4 * wanted).or_else(|| fits(false)).unwrap_or(1);
        let each = units / pieces;
        let mut first = 0;
        let mut cuts = Vec::new();
        for s in 0..streams.min(each) {
            let piece = (each * (s + 1) / streams.min(each) - each * s / streams.min(each)) * unit;
            cuts.push((first, piece));
            first += piece * pieces;
        }
        // Rows that fill no unit belong to the last stream.
        if let (Some(last), true) = (cuts.last_mut(), parts.run % unit != 0 || cuts_missing(first, parts.run)) {
            if pieces == 1 {
                last.1 += parts.run - first;
            } else {
                return self.cut_plainly(&parts);
            }
        }
        Ok((parts, pieces, cuts))
    }

    /// One stream of one piece.
    #[allow(clippy::type_complexity, reason = "as the caller's")]
    fn cut_plainly(&self, parts: &Parts) -> Result<(Parts, u64, Vec<(u64, u64)>), CompileError> {
        Ok((parts.clone(), 1, vec![(0, parts.run)]))
    }
}

fn cuts_missing(cut: u64, run: u64) -> bool {
    cut != run
}

/// Coordinates in ring order: the axis itself where it wraps, else out on the even ones and back on the odd ones.
fn round(n: u32, wraps: bool) -> Vec<u32> {
    if wraps || n <= 2 {
        return (0..n).collect();
    }
    (0..n).filter(|c| c % 2 == 0).chain((0..n).rev().filter(|c| c % 2 == 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::round;

    #[test]
    fn rings_on_a_line_never_go_further_than_two() {
        for n in 2..17u32 {
            let r = round(n, false);
            assert_eq!(r.len(), n as usize);
            for i in 0..r.len() {
                let (a, b) = (r[i], r[(i + 1) % r.len()]);
                assert!(a.abs_diff(b) <= 2, "{r:?}");
            }
        }
        assert_eq!(round(5, true), [0, 1, 2, 3, 4]);
    }
}
