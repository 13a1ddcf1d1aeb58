//! Collectives: how each is done on the pod's topology, and the tables that tell a device its part.
//!
//! One program serves all devices. What differs between them (place in the group, neighbours, peers) is in a table with a
//! row for each device; the program copies its row to scalar memory when it starts, and its code reads peers and
//! block numbers from there.
//!
//! Semaphores: those for collectives are a block of their own. Data semaphores are shared by all collectives: a device
//! sends only after its target has said that it is there (a *handshake*), and a target says so after all its earlier
//! waits. Handshake semaphores are shared only by collectives among the same groups, where nobody can finish one
//! collective before everybody has begun it. Devices may take different branches, or leave a loop at different times:
//! collectives there have a handshake semaphore of the branch or loop (a *place*), so that devices that are in different
//! ones wait for each other for ever (a deadlock, with who waits where) and never take each other's data.

mod alike;
mod beside;
mod choose;
pub mod combinations;
pub mod cycle;
mod direct;
pub mod disjoint;
pub mod lines;
mod ring;
pub mod shares;
mod state;
mod transfer;

pub use choose::{Algorithm, Choice};
pub use direct::{Direct, DirectKind};
pub use ring::{Axis, Phase, Ring, RingKind, SLOTS, Stream, Work};
use serde::{Deserialize, Serialize};
pub use state::{MOST_RINGS, STATE_WORDS, State};
pub use transfer::{Stage, Transfer};

use super::fuse::scalar_body;
use super::lower::{Lower, Region, Val};
use super::spec::KernelSpec;
use super::step::{BufferKind, Draft, Step};
use super::view::{BufId, Form, View};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::loops::spec::{Access, Expr, ExprOp, Input, LaneMap, LoopSpec, Output};
use systole_codegen::kernel::Needs;
use systole_hlo::analysis::parts::{Parts, parts};
use systole_hlo::error::{CompileError, Resource};
use systole_hlo::graph::{CollectiveKind, CompId, NodeId, Op};
use systole_isa::program::PodShape;
use systole_isa::{ChipConfig, DType, Layout};

/// First of the words that a table has for every device, counted from the start of a device's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Table(pub u32);

/// Devices by group.
type Groups = Vec<Vec<u32>>;

/// What the plan knows of the pod.
#[derive(Default)]
pub struct PodPlan {
    pub shape: PodShape,
    /// Words of every device's row.
    rows: Vec<Vec<i32>>,
    known: FxHashMap<Vec<Vec<i32>>, Table>,
    /// First word of scalar memory that holds the device's row, and the constant with all rows.
    pub base: u32,
    /// First of the words that say where the ring under way is.
    pub state: u32,
    pub constant: Option<BufId>,
    /// Ways round the groups of collectives (whose blocks may be in any order).
    ways: FxHashMap<(Groups, bool), lines::Ways>,
    /// Semaphores of collectives: first, and how many have been given out.
    first_semaphore: u32,
    semaphores: u32,
    given: u32,
    names: BTreeMap<String, u32>,
    /// Branches and loops with handshakes of their own: how many there are, the one that is being lowered, and the
    /// semaphores that they took.
    places: u32,
    place: Option<u32>,
    taken: u32,
    /// What was chosen for each collective, and why.
    pub choices: Vec<Choice>,
    /// Pairs of devices of every transfer, by the operation's name.
    transfers: BTreeMap<String, Vec<Vec<u32>>>,
    /// Along each axis of the topology, every how many chips devices behave alike.
    pub alike: Vec<u32>,
    /// Groups by which devices have been told apart, and for what.
    told_apart: FxHashSet<(&'static str, Groups)>,
    /// Which algorithm the user asked for.
    pub pinned: Option<Algorithm>,
}

/// Words of a row are padded to a granule of HBM.
const ROW_WORDS: usize = 128;

/// Handshakes of branches and loops take at most one semaphore of so many.
const OF_PLACES: u32 = 3;

/// Streams whose receiving semaphores lie in a row, where there are enough.
const STREAMS: u32 = 6;

impl PodPlan {
    /// `transfers`: the program has some, if only from a device to itself.
    pub fn new(shape: PodShape, chip: &ChipConfig, pinned: Option<Algorithm>, transfers: bool) -> PodPlan {
        let several = shape.devices() > 1;
        let semaphores = if several || transfers { reserved_semaphores(chip) } else { 0 };
        // Receiving semaphores come first, in a row: their parity decides between ways of equal length.
        let streams = if semaphores >= 4 * STREAMS { STREAMS } else { semaphores.min(2) };
        let first_semaphore = chip.core.semaphores - semaphores;
        PodPlan {
            given: streams,
            names: (0..streams).map(|s| (format!("recv {s}"), first_semaphore + s)).collect(),
            rows: vec![Vec::new(); if several { shape.devices() as usize } else { 0 }],
            alike: alike::all(&shape),
            shape,
            first_semaphore,
            semaphores,
            pinned,
            ..PodPlan::default()
        }
    }

    /// The pod as the program states it.
    pub fn described(&self) -> PodShape {
        if self.shape.replicas * self.shape.partitions <= 1 {
            return PodShape::default();
        }
        let algorithms = self.choices.iter().map(|c| (c.name.clone(), c.algorithm.name().to_string())).collect();
        let chosen = self.choices.iter().map(|c| (c.name.clone(), c.partners.clone()));
        let partners = chosen.chain(self.transfers.iter().map(|(n, p)| (n.clone(), p.clone()))).collect();
        PodShape { alike: self.alike.clone(), algorithms, partners, ..self.shape.clone() }
    }

    /// Semaphores that nothing else may use: the last of the chip's.
    pub fn reserved(&self) -> u32 {
        self.semaphores
    }

    /// A table with a row of equal length for each device.
    fn table(&mut self, rows: Vec<Vec<i32>>) -> Table {
        if let Some(t) = self.known.get(&rows) {
            return *t;
        }
        let at = Table(self.rows.first().map_or(0, Vec::len) as u32);
        for (all, new) in self.rows.iter_mut().zip(&rows) {
            all.extend(new);
        }
        self.known.insert(rows, at);
        at
    }

    /// Whether so many more semaphores are there for names that have none yet.
    fn has_semaphores(&self, names: &[String]) -> bool {
        let new = names.iter().filter(|n| !self.names.contains_key(*n)).collect::<BTreeSet<_>>().len() as u32;
        self.given + new <= self.semaphores
    }

    /// The semaphore of a purpose.
    fn semaphore(&mut self, purpose: &str) -> Result<u32, CompileError> {
        if let Some(&s) = self.names.get(purpose) {
            return Ok(s);
        }
        if self.given == self.semaphores {
            return Err(CompileError::Limit {
                resource: Resource::CollectiveSemaphores,
                need: u64::from(self.given) + 1,
                have: u64::from(self.semaphores),
                detail: " (every distinct set of groups or pairs takes some)".into(),
            });
        }
        self.given += 1;
        let s = self.first_semaphore + self.given - 1;
        self.names.insert(purpose.to_string(), s);
        Ok(s)
    }

    /// Goes into a branch or loop that devices may not all go through alike; gives back where the plan was.
    pub fn enter(&mut self) -> Option<u32> {
        self.places += 1;
        self.place.replace(self.places)
    }

    /// Goes back to where the plan was.
    pub fn leave(&mut self, before: Option<u32>) {
        self.place = before;
    }

    /// The semaphore of a handshake: one of the branch or loop that the plan is in, while those take few of all.
    fn handshake(&mut self, purpose: &str) -> Result<u32, CompileError> {
        let everywhere = self.semaphore(purpose)?;
        let Some(place) = self.place else { return Ok(everywhere) };
        let name = format!("{purpose} at {place}");
        if !self.names.contains_key(&name) {
            if self.taken >= self.semaphores / OF_PLACES || self.given == self.semaphores {
                return Ok(everywhere);
            }
            self.taken += 1;
        }
        self.semaphore(&name)
    }

    /// Words of a device's row.
    pub fn words(&self) -> u32 {
        self.rows.first().map_or(0, |r| r.len().next_multiple_of(ROW_WORDS)) as u32
    }

    /// The bytes of all rows.
    fn bytes(&self) -> Vec<u8> {
        let words = self.words() as usize;
        let padded = |r: &Vec<i32>| {
            r.iter().copied().chain(std::iter::repeat(0)).take(words).flat_map(i32::to_le_bytes).collect::<Vec<u8>>()
        };
        self.rows.iter().flat_map(padded).collect()
    }
}

/// Semaphores kept for collectives, of those that kernels leave.
fn reserved_semaphores(chip: &ChipConfig) -> u32 {
    const MOST: u32 = 64;
    let free = chip.core.semaphores.saturating_sub(super::memory::kernel_semaphores(chip));
    MOST.min(free * 3 / 4)
}

/// Gives the tables their place once all collectives are planned.
pub fn finish(plan: &mut Draft, chip: &ChipConfig) {
    alike::numbers(plan);
    let words = plan.pod.words();
    if words == 0 {
        return;
    }
    plan.pod.base = plan.words;
    plan.words += words;
    plan.pod.state = plan.words;
    plan.words += state::STATE_WORDS * state::MOST_RINGS;
    let bytes = plan.pod.bytes();
    let (s, l) = (chip.core.sublanes, chip.core.lanes);
    let layout = Layout::row_major(DType::S32, &[bytes.len() as u64 / 4], s, l);
    plan.pod.constant = Some(plan.buffer("pod tables", layout, BufferKind::Constant(bytes)));
}

/// A collective as a step: arrays in HBM, and what is done with them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exchange {
    pub src: BufId,
    pub dst: BufId,
    /// Partial results of a reduction over several axes: of rings one array, else one for each axis but the last.
    pub temps: Vec<BufId>,
    pub how: How,
    pub op: u32,
    /// Others that run at the same time, all by rings and on links of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<Exchange>,
}

impl Exchange {
    /// One whose arrays are known, by itself.
    pub fn alone(src: BufId, dst: BufId, temps: Vec<BufId>, how: How, op: u32) -> Exchange {
        Exchange { src, dst, temps, how, op, beside: Vec::new() }
    }

    /// It and those beside it.
    pub fn all(&self) -> impl Iterator<Item = &Exchange> {
        std::iter::once(self).chain(&self.beside)
    }

    /// Takes the pieces of an exchange with nothing beside it.
    pub fn goes_alone(&mut self) {
        if self.beside.is_empty() {
            for r in self.how.rings_mut() {
                if let Some(alone) = r.alone.take() {
                    r.phases = alone;
                }
                r.calm = None;
            }
        }
    }

    /// Every array that is read or written (`true`).
    pub fn arrays(&self, f: &mut dyn FnMut(BufId, bool)) {
        for x in self.all() {
            f(x.src, false);
            x.temps.iter().for_each(|&t| f(t, true));
            f(x.dst, true);
        }
    }

    /// The rings of all.
    pub fn all_rings(&self) -> impl Iterator<Item = &Ring> {
        self.all().flat_map(|x| x.how.rings())
    }

    /// [`Exchange::all_rings`] to be changed.
    pub fn all_rings_mut(&mut self) -> impl Iterator<Item = &mut Ring> {
        self.how.rings_mut().iter_mut().chain(self.beside.iter_mut().flat_map(|x| x.how.rings_mut()))
    }

    /// The numbers of the kernels that combine contributions.
    pub fn kernels_mut(&mut self) -> Vec<&mut usize> {
        let beside = self.beside.iter_mut().flat_map(|x| x.how.kernels_mut());
        self.how.kernels_mut().into_iter().chain(beside).collect()
    }
}

/// Estimated cycles of a piece of a ring's phase on a link.
pub fn piece_cycles(r: &Ring, p: &Phase, chip: &ChipConfig) -> f64 {
    let rate = chip.link_bytes_per_cycle().max(1e-9) / chip.row_bytes() as f64;
    let shared = r.axes[r.streams[0].legs[p.position].axis].shared;
    f64::from(shared) * r.rows_of_move(p) as f64 / rate
}

/// Estimated cycles of a move of a ring's phase: the time of its bytes on a link, or its share of a message's.
pub fn move_cycles(r: &Ring, p: &Phase, chip: &ChipConfig) -> f64 {
    let (piece, message) = (piece_cycles(r, p, chip), message_cycles(chip));
    // A piece by itself waits for its message; others are under way meanwhile.
    if p.batch == 1 { piece + message } else { piece.max(message / p.batch as f64) }
}

/// Estimated cycles of a ring's phase.
pub fn phase_cycles(r: &Ring, p: &Phase, chip: &ChipConfig) -> f64 {
    let hop = chip.cycles(chip.ici.hop_latency_s) as f64;
    (r.moves(p) - 3) as f64 * move_cycles(r, p, chip) + 2.0 * hop
}

/// Estimated cycles of a small message to a neighbour.
pub fn message_cycles(chip: &ChipConfig) -> f64 {
    (chip.cycles(chip.ici.hop_latency_s) + 2 * chip.hbm_latency_cycles()) as f64
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum How {
    /// Side by side, each with a share of the array.
    Rings(Vec<Ring>),
    /// One after the other, each from the result of the one before.
    Direct(Vec<Direct>),
    Transfer(Transfer),
}

impl How {
    /// Its rings, if it goes by rings.
    pub fn rings(&self) -> &[Ring] {
        match self {
            How::Rings(all) => all,
            How::Direct(_) | How::Transfer(_) => &[],
        }
    }

    /// [`How::rings`] to be changed.
    pub fn rings_mut(&mut self) -> &mut [Ring] {
        match self {
            How::Rings(all) => all,
            How::Direct(_) | How::Transfer(_) => &mut [],
        }
    }

    /// The numbers of the kernels that combine contributions.
    pub fn kernels_mut(&mut self) -> Vec<&mut usize> {
        match self {
            How::Rings(all) => {
                all.iter_mut().flat_map(Ring::all_phases_mut).filter_map(|p| p.kernel.as_mut()).collect()
            }
            How::Direct(all) => all.iter_mut().filter_map(|d| d.kernel.as_mut()).collect(),
            How::Transfer(_) => Vec::new(),
        }
    }

    /// The semaphore that counts what comes last in a move.
    pub fn recv(&self) -> u32 {
        match self {
            // Streams are sent in order, and some share a link.
            How::Rings(all) => all.first().and_then(|r| r.streams.last()).map_or(0, |s| s.recv),
            How::Direct(all) => all.first().map_or(0, |d| d.recv),
            How::Transfer(t) => t.recv,
        }
    }
}

/// A collective to be planned.
#[derive(Clone)]
struct Request<'a> {
    name: &'a str,
    groups: Vec<Vec<u32>>,
    dtype: DType,
    /// Parts of the whole array; of all-reduce, the whole array as one part.
    parts: Parts,
    kind: RingKind,
    /// Bytes of the whole array.
    bytes: u64,
}

impl<'a> Lower<'a> {
    /// Lowers a collective in canonical form.
    pub fn collective(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let Op::Collective { kind, devices } = &node.op else { return Err(self.no_lowering(r.comp, id)) };
        let src = self.lanes(r, node.operands[0]);
        let shape = node.shape.as_array().expect("a canonical collective gives an array").clone();
        let out = self.array(&node.name, shape.dtype, &shape.dims, Form::Lanes);
        let op = self.debug_op(r, id, 0.0);
        let groups: Vec<Vec<u32>> = devices.groups.iter().map(|g| g.iter().map(|&d| d as u32).collect()).collect();
        let name = node.name.clone();
        let whole = || {
            let l = &src.layout;
            let component = l.component_word_rows();
            Parts::rows(l.dtype, component, component)
        };
        let request = |parts: Parts, kind: RingKind, whole: &Layout| Request {
            name: &name,
            groups: groups.clone(),
            dtype: shape.dtype,
            parts,
            kind,
            bytes: whole.bytes(),
        };
        let n = groups.first().map_or(1, Vec::len) as u64;
        let tile = (self.chip.core.sublanes, self.chip.core.lanes);
        let cut = |v: &View, dim: usize| {
            parts(v.dtype(), &v.dims, dim, n, tile)
                .ok_or_else(|| CompileError::internal("collective", format!("parts of `{name}` are no rows")))
        };
        let (how, temps) = match kind {
            CollectiveKind::AllReduce { body } => {
                let q = request(whole(), RingKind::AllReduce, &src.layout);
                self.reduction(&q, *body, (&src, &out))?
            }
            CollectiveKind::ReduceScatter { dim, body } => {
                let q = request(cut(&src, *dim)?, RingKind::ReduceScatter, &src.layout);
                self.reduction(&q, *body, (&src, &out))?
            }
            CollectiveKind::AllGather { dim } => {
                let q = request(cut(&out, *dim)?, RingKind::AllGather, &out.layout);
                (self.gathering(&q)?, Vec::new())
            }
            CollectiveKind::AllToAll { dim: Some(dim) } => {
                let q = request(cut(&src, *dim)?, RingKind::AllGather, &src.layout);
                (self.direct(&q, DirectKind::AllToAll)?, Vec::new())
            }
            CollectiveKind::Broadcast => {
                let q = request(whole(), RingKind::AllGather, &src.layout);
                (self.direct(&q, DirectKind::Broadcast)?, Vec::new())
            }
            CollectiveKind::Permute { pairs } => {
                let pairs: Vec<(u32, u32)> = pairs.iter().map(|&(s, t)| (s as u32, t as u32)).collect();
                let q = request(whole(), RingKind::AllGather, &src.layout);
                (self.permute(&q, &pairs)?, Vec::new())
            }
            CollectiveKind::AllToAll { .. } | CollectiveKind::RaggedAllToAll | CollectiveKind::Reduce { .. } => {
                return Err(self.no_lowering(r.comp, id));
            }
        };
        self.steps.push(Step::Exchange(Box::new(Exchange::alone(src.buf, out.buf, temps, how, op))));
        Ok(Val::Array(out))
    }

    /// A reduction, and memory for partial results: by rings, or everybody's contribution to everybody at once.
    fn reduction(
        &mut self,
        q: &Request<'_>,
        body: CompId,
        (src, out): (&View, &View),
    ) -> Result<(How, Vec<BufId>), CompileError> {
        let algorithm = self.choose(q, self.slots_fit(q))?;
        if algorithm == Algorithm::Axes {
            return self.by_axis(q, body, out);
        }
        if algorithm == Algorithm::Direct {
            let mut d = self.direct_plan(q, DirectKind::Reduce)?;
            let rows = q.parts.total() / q.parts.components;
            d.kernel = Some(self.combine(q, body, rows)?);
            return Ok((How::Direct(vec![d]), Vec::new()));
        }
        let mut rings = self.rings(q)?;
        let (mut temps, ring) = (Vec::new(), &rings[0]);
        if q.kind == RingKind::AllReduce {
            // The array is cut into parts that may reach beyond its end.
            let slack = match ring.parts.components {
                1 => ring.parts.step * ring.devices() - q.parts.step,
                _ => 0,
            };
            for b in [src.buf, out.buf] {
                let s = &mut self.plan.buffers[b.index()].slack_rows;
                *s = (*s).max(slack);
            }
        } else if ring.positions() > 1 {
            let v = self.array(&format!("{}.partial", q.name), src.dtype(), &src.dims, Form::Lanes);
            temps.push(v.buf);
        }
        for ring in &mut rings {
            let shape = ring.clone();
            for p in ring.all_phases_mut().filter(|p| p.work == Work::Reduce) {
                let rows = shape.slot_component(p, self.chip.core.sublanes) * shape.streams.len() as u64;
                p.kernel = Some(self.combine(q, body, rows)?);
            }
        }
        Ok((How::Rings(rings), temps))
    }

    /// A small all-reduce: along one axis after the other, everybody's contribution to everybody.
    fn by_axis(&mut self, q: &Request<'_>, body: CompId, out: &View) -> Result<(How, Vec<BufId>), CompileError> {
        let ways = self.ways(q);
        let lines = &ways[0].lines;
        let rows = q.parts.total() / q.parts.components;
        let (mut stages, mut temps) = (Vec::new(), Vec::new());
        for (i, l) in lines.iter().enumerate() {
            let group = |ring: &Vec<(u32, u32)>| {
                let mut group: Vec<u32> = ring.iter().map(|r| r.0).collect();
                group.sort_unstable();
                group
            };
            let mut groups: Vec<Vec<u32>> = l.rings.iter().map(group).collect();
            groups.sort_unstable();
            let along = Request { groups, ..q.clone() };
            let mut d = self.direct_plan(&along, DirectKind::Reduce)?;
            d.kernel = Some(self.combine(q, body, rows)?);
            stages.push(d);
            if i + 1 < lines.len() {
                temps.push(self.array(&format!("{}.axis{i}", q.name), out.dtype(), &out.dims, Form::Lanes).buf);
            }
        }
        Ok((How::Direct(stages), temps))
    }

    fn gathering(&mut self, q: &Request<'_>) -> Result<How, CompileError> {
        match self.choose(q, true)? {
            Algorithm::Direct => self.direct(q, DirectKind::AllGather),
            Algorithm::Ring | Algorithm::Axes => Ok(How::Rings(self.rings(q)?)),
        }
    }

    fn direct(&mut self, q: &Request<'_>, kind: DirectKind) -> Result<How, CompileError> {
        Ok(How::Direct(vec![self.direct_plan(q, kind)?]))
    }

    /// The kernel `a = body(a, b)` on so many word rows of each component.
    fn combine(&mut self, q: &Request<'_>, body: CompId, word_rows: u64) -> Result<usize, CompileError> {
        let module = self.module;
        let unsupported =
            || CompileError::internal("collective", format!("the reduction of `{}` is not elementwise", q.name));
        let mut body = scalar_body(module.computation(body)).ok_or_else(unsupported)?;
        for n in &mut body.nodes {
            if let ExprOp::Param(i) = n.op {
                n.op = ExprOp::Input(i);
            }
        }
        let root = *body.roots.first().ok_or_else(unsupported)?;
        let packing = q.dtype.packing() as u64;
        let rows = word_rows * packing;
        let component = word_rows.next_multiple_of(4 * u64::from(self.chip.core.sublanes)) * packing;
        let access = Access {
            dtype: q.dtype,
            component_rows: component as i64,
            outer: Default::default(),
            row: 1,
            offset: 0,
            lane: LaneMap::Tile { tile_rows: component as i64 },
        };
        let spec = LoopSpec {
            outer: Vec::new(),
            rows: rows as u32,
            columns: self.chip.core.lanes,
            inputs: vec![Input::Array(access.clone()), Input::Array(access.clone())],
            expr: Expr { nodes: body.nodes, reductions: Vec::new() },
            outputs: vec![Output { node: root, access }],
        };
        Ok(self.plan.simple_kernel(KernelSpec::Body(Body::Loop(spec)), "combine", Needs::default()))
    }
}
