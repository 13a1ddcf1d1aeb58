//! Rings along the lines of a way round the groups.
//!
//! Groups are reduced and gathered line by line; with lines of equal length the array is cut into a share for each line, and
//! share `k` begins with line `k`, so that all links work all the time. Every share is cut into two *streams* that go
//! round in opposite directions (one where two neighbours have one link).
//!
//! A ring of `n` devices gathers in `n - 1` steps: at each, a device passes on the block that it got last. It reduces
//! in as many: the block of the device behind it goes round, and everybody adds its own.

use super::lines::Line;
use super::shares::Split;
use super::{Request, Table, alike, message_cycles, piece_cycles};
use crate::plan::lower::Lower;
use serde::{Deserialize, Serialize};
use systole_hlo::analysis::parts::Parts;
use systole_hlo::error::{CompileError, Resource};
use systole_isa::dma::MAX_DMA_DIMS;

/// What a ring does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RingKind {
    AllReduce,
    ReduceScatter,
    AllGather,
}

/// What a phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Work {
    /// Adds own contributions to what goes round, in slots in vector memory.
    Reduce,
    /// Gathers from place to place in HBM: a step begins when what the one before has brought is stored.
    Gather,
    /// Gathers through slots in vector memory: what comes in is sent on from there, beside being stored.
    Relay,
}

impl Work {
    /// Whether what comes in comes into slots.
    pub fn has_slots(self) -> bool {
        match self {
            Work::Reduce | Work::Relay => true,
            Work::Gather => false,
        }
    }
}

/// An axis of the group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Axis {
    pub n: u32,
    /// Parts from one coordinate to the next.
    pub mult: u64,
    /// Messages between neighbours of the ring that share a link.
    pub shared: u32,
    /// Words: next device, previous device, then the coordinates of the devices 0, 1, .. n steps behind (the last is the
    /// device itself again).
    pub table: Table,
}

/// The way of a stream along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Leg {
    pub axis: usize,
    /// Rows from one coordinate to the next.
    pub scale: u64,
    /// Contiguous rows of a block.
    pub block: u64,
}

/// One of the streams that run side by side.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stream {
    /// In order of reduction; gathering goes the other way.
    pub legs: Vec<Leg>,
    pub forward: bool,
    /// First row of the stream in the array, or in each run of a part.
    pub first: u64,
    pub send: u32,
    pub recv: u32,
    /// Handshake of every phase.
    pub ready: Vec<u32>,
}

/// Pieces of a block: groups of its planes (or of the runs of its plane), times pieces of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pieces {
    pub groups: u64,
    pub of_rows: u64,
}

impl Pieces {
    const ONE: Pieces = Pieces { groups: 1, of_rows: 1 };

    pub fn count(self) -> u64 {
        self.groups * self.of_rows
    }
}

/// A phase: all streams go round the ring of one position in their orders of axes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Phase {
    pub work: Work,
    pub position: usize,
    /// Estimated cycles, of all rings of the exchange that are in this phase (0: there is one ring, by itself).
    pub span: u32,
    /// Positions behind this one over whose blocks code loops, and those that the descriptors go over.
    pub looped: Vec<usize>,
    pub folded: Vec<usize>,
    pub pieces: Pieces,
    /// Pieces that go round together.
    pub batch: u64,
    /// The kernel that adds a piece of all streams to another (reductions only).
    pub kernel: Option<usize>,
}

/// What is going on beside an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Work,
    /// So much that the exchange has time.
    Plenty,
}

/// A collective by rings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ring {
    pub kind: RingKind,
    pub axes: Vec<Axis>,
    pub streams: Vec<Stream>,
    pub phases: Vec<Phase>,
    /// The same with fewer pieces where there are many small ones: for an exchange behind other work, whose moves take
    /// the time of that work.
    pub calm: Option<Vec<Phase>>,
    /// The same in short pieces, and gathered through slots where that is faster: for an exchange with nothing beside it,
    /// whose moves take nobody's time and whose slots nobody's memory.
    pub alone: Option<Vec<Phase>>,
    pub parts: Parts,
    /// Semaphores of own copies: what comes in, and results that go out.
    pub local: u32,
    pub stored: u32,
    pub packing: u64,
    /// A bit for every axis of the topology along which messages go; the last one for all else.
    pub links: u32,
}

/// Slots of a stream, for each piece of a batch: two for own contributions and two for what comes in.
pub const SLOTS: u64 = 4;
/// Share of vector memory that slots may take.
pub(super) const SHARE: (u64, u64) = (5, 9);
/// The same of gathering, which could do without.
const RELAYED: (u64, u64) = (1, 4);
/// Pieces that go round together: two of large blocks (one is worked on while the other is under way), more of small ones,
/// whose time on a link is short beside that of a message.
const BATCH: (u64, u64) = (2, 4);
/// Pieces of a batch (unless blocks are larger than the largest piece), and bytes of the smallest piece, of an exchange
/// behind other work.
const CALM: (u64, u64) = (1, 64 << 10);
/// Longest time that a phase counts as: sums of all stay within a word.
pub(super) const MOST_SPAN: u32 = 1 << 27;
/// Parts of a run that unequal shares are counted in: fine enough where there are so many, and of each stream at least so many.
const FINE: u64 = 64;
const COARSE: u64 = 8;
/// Bytes from which a block is large.
const LARGE: u64 = 96 << 10;
/// Smallest and largest bytes of a piece.
const PIECE: (u64, u64) = (16 << 10, 1 << 20);
/// Longest piece of an exchange with nothing beside it, as a multiple of what a link carries while a message is under way:
/// enough to keep it busy, and what crosses a stream's link waits for no more than a piece.
const SHORT: f64 = 1.5;

impl Ring {
    /// The phases for all that can go on beside it, to be changed.
    pub fn all_phases_mut(&mut self) -> impl Iterator<Item = &mut Phase> {
        self.phases.iter_mut().chain(self.calm.iter_mut().flatten()).chain(self.alone.iter_mut().flatten())
    }

    pub fn devices(&self) -> u64 {
        (0..self.positions()).map(|p| self.count(p)).product()
    }

    /// Axes that a stream goes along.
    pub fn positions(&self) -> usize {
        self.streams[0].legs.len()
    }

    /// Devices along the axis at a position of the streams' orders.
    pub fn count(&self, position: usize) -> u64 {
        u64::from(self.axes[self.streams[0].legs[position].axis].n)
    }

    /// Devices in a ring of a phase.
    pub fn n(&self, p: &Phase) -> u32 {
        self.count(p.position) as u32
    }

    /// Contiguous rows of a stream's piece in a phase.
    pub fn piece(&self, p: &Phase, s: &Stream) -> u64 {
        s.legs[p.position].block / p.pieces.of_rows
    }

    /// Runs of contiguous rows that a piece has in each component.
    pub fn runs(&self, p: &Phase) -> u64 {
        let folds: u64 = p.folded.iter().map(|&i| self.count(i)).product();
        self.parts.planes * self.parts.before / p.pieces.groups * folds
    }

    /// Which of the parts' dimensions groups are of: planes, else runs of a plane.
    pub fn grouped(&self) -> usize {
        if self.parts.planes > 1 { 1 } else { 2 }
    }

    /// The parts as pieces of a phase see them: with the planes (or runs) of a group.
    pub fn parts_of(&self, p: &Phase) -> Parts {
        let mut parts = self.parts.clone();
        *(if self.grouped() == 1 { &mut parts.planes } else { &mut parts.before }) /= p.pieces.groups;
        parts
    }

    /// Rows of a piece in all its components.
    pub fn piece_rows(&self, p: &Phase, s: &Stream) -> u64 {
        self.parts.components * self.runs(p) * self.piece(p, s)
    }

    /// Rows of one component of a stream's piece in vector memory: whole tiles, since kernels store whole registers.
    pub fn slot_component(&self, p: &Phase, sublanes: u32) -> u64 {
        let rows = |s: &Stream| (self.runs(p) * self.piece(p, s)).next_multiple_of(4 * u64::from(sublanes));
        self.streams.iter().map(rows).max().unwrap_or(0)
    }

    /// Rows of a piece of all streams in vector memory.
    pub fn slot_rows(&self, p: &Phase, sublanes: u32) -> u64 {
        self.parts.components * self.slot_component(p, sublanes) * self.streams.len() as u64
    }

    /// Rows of all slots.
    pub fn slots(&self, sublanes: u32) -> u64 {
        let rows = |p: &Phase| if p.work.has_slots() { self.slot_rows(p, sublanes) * p.batch * SLOTS } else { 0 };
        self.phases.iter().map(rows).max().unwrap_or(0)
    }

    /// Pieces that a device sends in a step of a phase.
    pub fn rounds(&self, p: &Phase) -> u64 {
        p.looped.iter().map(|&i| self.count(i)).product::<u64>() * p.pieces.count()
    }

    /// Rows of its own part that a device has in the streams of the first phase of an all-gather.
    pub fn own_rows(&self, p: &Phase) -> u64 {
        self.rounds(p) * self.streams.iter().map(|s| self.piece_rows(p, s)).sum::<u64>()
    }

    /// Times that a phase is taken a bit further: twice to begin, once for each piece and step, and once to end.
    pub fn moves(&self, p: &Phase) -> u64 {
        3 + self.rounds(p) * u64::from(self.n(p) - 1)
    }

    /// Rows that a device sends over one link in each move of a phase.
    pub fn rows_of_move(&self, p: &Phase) -> u64 {
        self.streams.iter().map(|s| self.piece_rows(p, s)).max().unwrap_or(0)
    }

    /// Bytes that a device sends over all links.
    pub fn sent_rows(&self) -> u64 {
        let phase = |p: &Phase| {
            self.rounds(p) * u64::from(self.n(p) - 1) * self.streams.iter().map(|s| self.piece_rows(p, s)).sum::<u64>()
        };
        self.phases.iter().map(phase).sum()
    }
}

impl Lower<'_> {
    /// Plans a collective by rings.
    pub(super) fn rings(&mut self, q: &Request<'_>) -> Result<Vec<Ring>, CompileError> {
        let (way, split) = self.ring_way(q);
        let lines = &way.lines;
        // Of one set of groups, collectives of different sizes may go different ways.
        let first = |l: &Line| l.rings.first().map_or(Vec::new(), |r| r.iter().map(|p| p.0).collect::<Vec<u32>>());
        let known = lines.iter().map(first).chain(q.groups.iter().cloned()).collect();
        if self.plan.pod.told_apart.insert(("ring", known)) {
            self.plan.pod.distinguish(|t, d| {
                let ends = |l: &Line| [1, l.n as usize - 1].map(|k| alike::way(t, d, l.ahead(d as usize, k).0));
                lines.iter().map(ends).collect::<Vec<_>>()
            });
        }
        let axes = lines
            .iter()
            .map(|l| Axis { n: l.n, mult: l.mult, shared: l.shared, table: self.axis_table(l) })
            .collect::<Vec<_>>();
        let directions = way.directions();
        let weights: Vec<f64> = split.rings.iter().flat_map(|r| vec![r.share; r.orders.len() * directions]).collect();
        let (parts, cuts) = self.cut(q, &weights)?;
        let mut rings = Vec::new();
        let mut cuts = cuts.into_iter().enumerate();
        for (m, together) in split.rings.iter().enumerate() {
            let mut streams = Vec::new();
            let orders = together.orders.iter().flat_map(|o| (0..directions).map(move |d| (o, d == 0)));
            for ((order, forward), (s, c)) in orders.zip(cuts.by_ref()) {
                streams.push(self.stream(
                    q,
                    (&axes[..], &parts, order.clone(), forward),
                    (s, c),
                    way.phases(q.kind),
                )?);
            }
            if streams.is_empty() {
                break;
            }
            let local = self.plan.pod.semaphore(&format!("local {m}"))?;
            let stored = self.plan.pod.semaphore(&format!("stored {m}"))?;
            let packing = q.dtype.packing() as u64;
            let links = lines.iter().fold(0, |all, l| all | l.links);
            let (axes, parts) = (axes.clone(), parts.clone());
            rings.push(Ring {
                kind: q.kind,
                axes,
                streams,
                phases: Vec::new(),
                calm: None,
                alone: None,
                parts,
                local,
                stored,
                packing,
                links,
            });
        }
        self.all_phases(&mut rings, q, &split)?;
        Ok(rings)
    }

    fn all_phases(&self, rings: &mut [Ring], q: &Request<'_>, split: &Split) -> Result<(), CompileError> {
        let streams = rings.iter().map(|r| r.streams.len() as u64).sum();
        let several = rings.len() > 1;
        for r in rings {
            r.phases = self.phases(r, q, Beside::Work, streams)?;
            let calm = self.phases(r, q, Beside::Plenty, streams)?;
            let alone = self.phases(r, q, Beside::Nothing, streams)?;
            let moves = |phases: &[Phase]| phases.iter().map(|p| r.moves(p)).sum::<u64>();
            r.calm = (moves(&calm) < moves(&r.phases)).then_some(calm);
            r.alone = (alone != r.phases).then_some(alone);
            for p in r.all_phases_mut().filter(|_| several) {
                p.span = split.span(p.position, q, self.chip).min(f64::from(MOST_SPAN)) as u32;
            }
        }
        Ok(())
    }

    fn stream(
        &mut self,
        q: &Request<'_>,
        (axes, parts, order, forward): (&[Axis], &Parts, Vec<usize>, bool),
        (number, (first, rows)): (usize, (u64, u64)),
        phases: usize,
    ) -> Result<Stream, CompileError> {
        let mut ready = Vec::new();
        for p in 0..phases {
            let name = format!("ready {:?} {number} {p}", q.groups);
            // No device finishes unless the first stream has begun.
            let first = (number, p) == (0, 0);
            ready.push(if first { self.plan.pod.handshake(&name)? } else { self.plan.pod.semaphore(&name)? });
        }
        let leg = |(i, &axis): (usize, &usize)| {
            // An all-reduce may take any rows as a block; else blocks are where the parts are.
            let within: u64 = order[i + 1..].iter().map(|&a| u64::from(axes[a].n)).product();
            match q.kind {
                RingKind::AllReduce => Leg { axis, scale: rows * within, block: rows * within },
                RingKind::ReduceScatter | RingKind::AllGather => {
                    Leg { axis, scale: axes[axis].mult * parts.step, block: rows }
                }
            }
        };
        let legs = order.iter().enumerate().map(leg).collect();
        let send = self.plan.pod.semaphore(&format!("send {number}"))?;
        let recv = self.plan.pod.semaphore(&format!("recv {number}"))?;
        Ok(Stream { legs, forward, first, send, recv, ready })
    }

    fn phases(&self, r: &Ring, q: &Request<'_>, beside: Beside, streams: u64) -> Result<Vec<Phase>, CompileError> {
        let last = r.positions();
        let reductions = (0..last).filter(|_| q.kind != RingKind::AllGather).map(|i| (i, true));
        let gatherings = (0..last).rev().filter(|_| q.kind != RingKind::ReduceScatter).map(|i| (i, false));
        reductions.chain(gatherings).map(|(i, reduce)| self.phase(r, q, (i, reduce), (beside, streams))).collect()
    }

    fn phase(
        &self,
        r: &Ring,
        q: &Request<'_>,
        (position, reduce): (usize, bool),
        beside: (Beside, u64),
    ) -> Result<Phase, CompileError> {
        if reduce {
            return self.phase_of(r, q, (position, Work::Reduce), beside);
        }
        let gather = self.phase_of(r, q, (position, Work::Gather), beside)?;
        // Two devices have nothing to send on.
        if beside.0 != Beside::Nothing || r.n(&gather) == 2 {
            return Ok(gather);
        }
        let relay = self.phase_of(r, q, (position, Work::Relay), beside).ok();
        Ok(relay.filter(|p| self.relays(r, p, &gather)).unwrap_or(gather))
    }

    /// Whether gathering is faster through slots: a piece need not be stored before it is sent on, but fewer are under way.
    /// Messages that go several hops wait behind all that others have sent at once, which is less then.
    fn relays(&self, r: &Ring, relay: &Phase, gather: &Phase) -> bool {
        let hop = self.chip.cycles(self.chip.ici.hop_latency_s) as f64;
        let turn = |p: &Phase, pieces: u64, message: f64| {
            let piece = piece_cycles(r, p, self.chip);
            (r.rounds(p) / pieces) as f64 * f64::max(pieces as f64 * piece, message + piece)
        };
        let (slots, hbm) = (turn(relay, relay.batch, hop), turn(gather, r.rounds(gather), message_cycles(self.chip)));
        let crossing = r.axes[r.streams[0].legs[relay.position].axis].shared > 1;
        slots < hbm || crossing && slots <= hbm
    }

    /// The pieces of a phase: large enough to keep a link busy for a while, small enough for their slots, and some at a
    /// time so that one can be worked on while another is under way. `streams`: of all rings of the exchange.
    fn phase_of(
        &self,
        r: &Ring,
        q: &Request<'_>,
        (position, work): (usize, Work),
        (beside, streams): (Beside, u64),
    ) -> Result<Phase, CompileError> {
        let chip = self.chip;
        let mut p = Phase {
            work,
            position,
            span: 0,
            looped: Vec::new(),
            folded: Vec::new(),
            pieces: Pieces::ONE,
            batch: 1,
            kernel: None,
        };
        let share = if q.kind == RingKind::AllGather { RELAYED } else { SHARE };
        let budget = match p.work.has_slots() {
            true => chip.vmem_rows() * share.0 / share.1 / (streams * SLOTS),
            false => u64::MAX,
        };
        let most = |p: &Phase| r.streams.iter().map(|s| r.piece_rows(p, s)).max().unwrap_or(0);
        if q.kind != RingKind::AllReduce {
            let used = [r.parts.components, r.parts.planes, r.parts.before].iter().filter(|&&x| x > 1).count();
            let wanted = (PIECE.1 / chip.row_bytes()).min(budget / 2);
            for i in (position + 1..r.positions()).rev() {
                p.folded.insert(0, i);
                let fits = used + p.folded.len() <= MAX_DMA_DIMS && most(&p) <= wanted && r.parts.components == 1;
                if !fits || !p.looped.is_empty() {
                    p.folded.remove(0);
                    p.looped.insert(0, i);
                }
            }
        }
        let unit = self.cut_unit();
        let whole = most(&p);
        let outer = if r.grouped() == 1 { r.parts.planes } else { r.parts.before };
        let block = |s: &Stream| s.legs[position].block;
        let even = |n: u64| n == 1 || r.streams.iter().all(|s| block(s) % (n * unit) == 0);
        // So many pieces in all: as groups, and pieces of the rows of a group.
        let cut = |k: u64| {
            let groups = (1..=outer.min(k)).rev().filter(|g| outer % g == 0 && k.is_multiple_of(*g));
            groups.map(|groups| Pieces { groups, of_rows: k / groups }).find(|p| even(p.of_rows))
        };
        let bytes = whole * chip.row_bytes();
        let several = streams > r.streams.len() as u64;
        let short = (SHORT * message_cycles(chip) * chip.link_bytes_per_cycle()) as u64;
        let largest = if beside == Beside::Nothing { short.clamp(PIECE.0, PIECE.1) } else { PIECE.1 };
        let (wish, smallest) = match bytes >= LARGE {
            _ if beside == Beside::Plenty => (if bytes >= PIECE.1 { BATCH.0 } else { CALM.0 }, CALM.1),
            // A piece may have to wait until the core has waited for that of another ring.
            true if !several => (BATCH.0, PIECE.0),
            _ => (BATCH.1, PIECE.0),
        };
        let smallest = (smallest / chip.row_bytes()).max(1);
        // Of the possible numbers of pieces, the one with pieces nearest below what is wanted.
        let wanted = (largest / chip.row_bytes()).min(budget / wish).min((whole / wish).max(smallest)).max(1);
        let limit = outer * r.streams.iter().map(|s| block(s) / unit).max().unwrap_or(1).max(1);
        let start = whole.div_ceil(wanted).clamp(1, limit);
        let around = r.rounds(&p);
        let better = |k: &u64| (batch_of(around * k, whole.div_ceil(*k), budget, wish) < wish.min(around * *k), *k);
        let more = (start..=limit.min(start * 4)).filter(|&k| cut(k).is_some()).min_by_key(better);
        let mut k = more.unwrap_or_else(|| (1..=start).rev().find(|&k| cut(k).is_some()).unwrap_or(1));
        if whole.div_ceil(k) > budget {
            // Too few ways to cut: as many pieces as there can be.
            k = (start..=limit.min(1 << 16)).find(|&k| cut(k).is_some()).unwrap_or(k);
        }
        p.pieces = cut(k).unwrap_or(Pieces::ONE);
        let rows = whole.div_ceil(k);
        if rows > budget {
            return Err(CompileError::Limit {
                resource: Resource::Pieces { op: q.name.to_string() },
                need: rows,
                have: budget,
                detail: " (scatter along another dimension)".into(),
            });
        }
        p.batch = batch_of(r.rounds(&p), rows, budget, wish);
        Ok(p)
    }

    fn axis_table(&mut self, l: &Line) -> Table {
        let n = l.n as usize;
        let row = |d: usize| {
            let behind = (0..=n).map(|k| l.ahead(d, n - k % n).1 as i32);
            let ends = [l.ahead(d, 1).0 as i32, l.ahead(d, n - 1).0 as i32];
            ends.into_iter().chain(behind).collect::<Vec<i32>>()
        };
        let rows = (0..l.of.len()).map(row).collect();
        self.plan.pod.table(rows)
    }

    /// Rows that a piece is a multiple of.
    fn cut_unit(&self) -> u64 {
        systole_isa::dma::HBM_GRANULE.div_ceil(self.chip.row_bytes()).max(1)
    }

    /// Cuts an array into streams: its parts, then the first row and the rows of each stream in a part's run (of an
    /// all-reduce: its first row in the array, and the rows of its smallest block).
    #[allow(clippy::type_complexity, reason = "the numbers of one decision")]
    fn cut(&self, q: &Request<'_>, weights: &[f64]) -> Result<(Parts, Vec<(u64, u64)>), CompileError> {
        let unit = self.cut_unit();
        let n = q.groups.first().map_or(1, Vec::len) as u64;
        let (streams, all) = (weights.len() as u64, weights.iter().sum::<f64>());
        let even = weights.iter().all(|w| *w == weights[0]);
        let mut parts = q.parts.clone();
        if q.kind == RingKind::AllReduce && q.parts.components == 1 {
            // Rounded up a little, so that it can be cut into equal pieces of many sizes.
            // Small ones would be more padding than array: fewer streams of single rows.
            let sublanes = unit.max(u64::from(self.chip.core.sublanes));
            let small = q.parts.step < n * streams * sublanes;
            let align = if small { unit } else { sublanes };
            let streams = if small { (q.parts.step / (n * unit)).clamp(1, streams) } else { streams };
            let rows = |weight: f64| {
                let rows = (q.parts.step as f64 * weight / n as f64).ceil() as u64;
                let mut to = align;
                while to * 64 <= rows {
                    to *= 2;
                }
                rows.next_multiple_of(to)
            };
            let each: Vec<u64> = match small || even {
                true => vec![rows(1.0 / streams as f64); streams as usize],
                false => weights.iter().map(|w| rows(w / all)).collect(),
            };
            parts = Parts::rows(q.dtype, q.parts.whole[0], each.iter().sum());
            return Ok((parts, firsts(each, n)));
        }
        if q.kind == RingKind::AllReduce {
            parts = Parts::rows(q.dtype, q.parts.whole[0], q.parts.step / n);
            if parts.step * n != q.parts.step || !parts.step.is_multiple_of(unit) {
                return Err(CompileError::internal("collective", "an array of several components is not padded"));
            }
            let streams = if parts.step.is_multiple_of(streams * unit) { streams } else { 1 };
            let rows = parts.step / streams;
            return Ok((parts, firsts(vec![rows; streams as usize], n)));
        }
        let units = parts.run / unit;
        let streams = streams.min(units).max(1);
        if streams == 1 || !parts.run.is_multiple_of(unit) {
            return Ok((parts.clone(), vec![(0, parts.run)]));
        }
        // All streams can be cut into as many equal pieces, and are of nearly the rows that they should have.
        let most = (units / (32 * streams)).clamp(1, 256);
        let fine = if even { most } else { most.min(units / FINE).max(1) };
        let pieces = (1..=fine).rev().find(|g| units.is_multiple_of(*g)).unwrap_or(1);
        let enough = units / pieces >= COARSE * streams;
        let at = |s: u64| match even || !enough || streams < weights.len() as u64 {
            true => units / pieces * s / streams * pieces * unit,
            false => {
                let before = weights[..s as usize].iter().sum::<f64>() / all;
                ((units / pieces) as f64 * before).round() as u64 * pieces * unit
            }
        };
        Ok((parts, (0..streams).map(|s| (at(s), at(s + 1) - at(s))).collect()))
    }
}

/// Streams of so many rows in each of `n` blocks, one behind the other: their first rows, and these.
fn firsts(rows: Vec<u64>, n: u64) -> Vec<(u64, u64)> {
    let mut first = 0;
    let next = |rows: u64| {
        let at = first;
        first += rows * n;
        (at, rows)
    };
    rows.into_iter().map(next).collect()
}

/// Pieces of `rows` rows that go round together, of so many: at most `wish`.
fn batch_of(pieces: u64, rows: u64, budget: u64, wish: u64) -> u64 {
    let fits = |b: &u64| pieces.is_multiple_of(*b) && rows.saturating_mul(*b) <= budget;
    (2..=wish).rev().find(fits).unwrap_or(1)
}
