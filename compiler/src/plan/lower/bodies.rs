//! Calls of loop, reduction and move kernels: on arrays in vector memory, or block by block on arrays in HBM.

mod fetch;
mod readers;

use super::moving::in_words;
use super::{Lower, Region};
use crate::plan::guide::{CutPin, impossible};
use crate::plan::memory::{guard_rows, vmem_map};
use crate::plan::spec::{Considered, KernelKey, KernelSpec, Way};
use crate::plan::step::{Arg, BufferKind, KernelEntry, Step, Unit, Use, Word};
use crate::plan::view::BufId;
use systole_codegen::emit::blocks::{BlockCut, BlockSpec, Body, ChosenCut, Operand, Share, choose_cut, parted, tiled};
use systole_hlo::graph::{NodeId, Op};

/// Bytes from which an array that is in HBM anyway (a parameter, a constant, a result) is streamed by the kernel rather
/// than copied whole before or after it.
pub const STREAMED_BYTES: u64 = 256 << 10;
/// The part of vector memory that arrays may take which are kept because loops take parts of them.
const KEPT: u64 = 4;
/// How many times longer the waits for their parts have to be than the parts' copies, and than that of the whole.
const KEPT_WORTH: f64 = 4.0;
/// And how often the loop has to turn: those of few turns have long bodies, to which the room is worth more.
const KEPT_TURNS: u64 = 64;
/// Rounds of a loop from which on what it reads whole from HBM every time is kept.
const WHOLE_TURNS: u64 = 8;
/// The part of vector memory that a kernel's windows may take, where nobody says more.
const WINDOWS: u64 = 3;
/// The part that they may take where no smaller ones would do.
const ALL: (u64, u64) = (3, 4);

/// How a body is done block by block: which of its arrays are streamed, in so many bytes of windows; its name and operation.
#[derive(Clone, Copy)]
pub(super) struct Streamed<'h> {
    pub hbm: &'h [bool],
    pub budget: u64,
    pub name: &'h str,
    pub op: u32,
}

impl<'a> Lower<'a> {
    /// Whether a node's array is needed in HBM and by nothing else: a result of the program, or what a collective sends.
    pub fn is_result(&self, r: &Region<'a>, id: NodeId) -> bool {
        let users = &r.groups.users[id.index()];
        if let [user] = users[..]
            && matches!(r.comp.node(user).op, Op::Collective { .. })
        {
            return true;
        }
        let entry = self.module.entry();
        let root = entry.node(entry.root);
        std::ptr::eq(entry, r.comp)
            && (entry.root == id || matches!(root.op, Op::Tuple) && root.operands.contains(&id))
            && users.len() <= 1
    }

    /// Whether a kernel streams an array of the plan; `result`: see [`Lower::is_result`].
    pub fn streams(&self, buf: BufId, result: bool) -> bool {
        let b = &self.plan.buffers[buf.index()];
        if let Some((streams, _)) = self.pinned_place(buf) {
            return streams;
        }
        let given = result || matches!(b.kind, BufferKind::Param(_) | BufferKind::Constant(_));
        let bytes = b.layout.bytes();
        self.plan.is_streamed(buf)
            || given
                && bytes > STREAMED_BYTES.min(self.plan.residency.largest)
                && !self.plan.residency.kept.contains(&buf)
    }

    /// Keeps an array in vector memory of which a loop takes a part each time round, where waiting for HBM so often takes longer
    /// than bringing all of it once, and it leaves room for others.
    pub fn keep_for_parts(&mut self, buf: BufId, part: u64) {
        let whole = self.plan.buffers[buf.index()].layout.bytes();
        let rate = self.chip.hbm_bytes_per_cycle();
        let (wait, copied) = (self.chip.hbm_latency_cycles() as f64, part as f64 / rate);
        let often = copied * KEPT_WORTH < wait && self.turns >= KEPT_TURNS;
        let pays = often && self.turns as f64 * wait > KEPT_WORTH * whole as f64 / rate;
        if pays && self.plan.can_keep(buf, self.chip.vmem.bytes / KEPT) {
            self.plan.residency.kept.push(buf);
        }
    }

    /// Keeps a given array in vector memory of which a loop takes all each time round, as long as that leaves room for others.
    pub fn keep_for_rounds(&mut self, buf: BufId) {
        let b = &self.plan.buffers[buf.index()];
        let room = (self.chip.vmem.bytes / KEPT).min(self.plan.residency.largest);
        let given = matches!(b.kind, BufferKind::Param(_) | BufferKind::Constant(_));
        let often = self.turns >= WHOLE_TURNS && b.layout.bytes() > STREAMED_BYTES;
        if given && often && self.plan.can_keep(buf, room) {
            self.plan.residency.kept.push(buf);
        }
    }

    /// Whether a schedule says that an array is streamed or kept in vector memory, and the line that does.
    pub fn pinned_place(&self, buf: BufId) -> Option<(bool, usize)> {
        self.guide.schedule.streams(&self.plan.buffers[buf.index()].name)
    }

    /// Bytes of vector memory that a kernel's windows may take.
    pub fn window_bytes(&self) -> u64 {
        self.guide.scoped_vmem.unwrap_or(self.chip.vmem.bytes / WINDOWS).min(self.array_bytes())
    }

    /// Bytes of vector memory that one array, or one kernel's windows, can take at most.
    pub fn array_bytes(&self) -> u64 {
        vmem_map(self.chip).arrays.saturating_sub(guard_rows(self.chip)) * self.chip.row_bytes()
    }

    /// Appends the call of a body. `args` are its arrays by element rows and its scalars, in parameter order; `results`: for its
    /// outputs, see [`Lower::is_result`].
    pub fn push_body(&mut self, body: Body, args: Vec<Arg>, name: &str, op: u32, results: &[bool]) {
        let bytes = |l: &Lower<'_>, b: BufId| l.plan.buffers[b.index()].layout.bytes();
        let arrays = body.walks(self.chip.core.lanes).len();
        let mut hbm = vec![false; arrays];
        let mut large = vec![false; arrays];
        // Arrays in vector memory, each with the operands that it is (slices of it are several).
        let mut resident: Vec<(u64, BufId, Vec<usize>)> = Vec::new();
        let of: Vec<Option<(BufId, Use)>> = args.iter().take(arrays).map(array_of).collect();
        let inputs = arrays.saturating_sub(results.len());
        for (i, &(buf, usage)) in of.iter().enumerate().filter_map(|(i, a)| a.as_ref().map(|a| (i, a))) {
            let result = i.checked_sub(inputs).and_then(|i| results.get(i)).is_some_and(|r| *r);
            let pinned = self.pinned_place(buf);
            let beyond = self.plan.is_streamed(buf);
            // Windows of several slices would each bring the array in.
            let several = usage == Use::Read && of.iter().flatten().filter(|a| **a == (buf, usage)).count() > 1;
            hbm[i] = self.streams(buf, result && usage != Use::Read) && (beyond || pinned.is_some() || !several);
            large[i] = pinned.map_or(beyond, |p| p.0);
            if !hbm[i] && pinned.is_none() {
                match resident.iter_mut().find(|r| r.1 == buf) {
                    Some(r) => r.2.push(i),
                    None => resident.push((bytes(self, buf), buf, vec![i])),
                }
            }
        }
        if self.cores_pay(&body, &args, (&hbm, inputs), (name, op)) {
            (inputs..arrays).for_each(|i| hbm[i] = true);
        }
        // What else would not fit together is streamed, the largest first.
        resident.sort_unstable();
        while resident.iter().map(|r| r.0).sum::<u64>()
            > self.plan.residency.largest.saturating_mul(3).min(self.chip.vmem.bytes / 8 * 5)
        {
            let Some((_, _, operands)) = resident.pop() else { break };
            for i in operands {
                (hbm[i], large[i]) = (true, true);
            }
        }
        let budget = self.window_bytes();
        let streamed = |hbm, budget| Streamed { hbm, budget, name, op };
        if self.push_fetch(&body, &args, &hbm, op) {
            return;
        }
        if self.push_partial(&body, &args, &hbm, (name, op), results) {
            return;
        }
        // Those that need not be streamed may stand in the way.
        for (i, ways) in [&hbm, &large].into_iter().enumerate() {
            let new = i == 0 || large != hbm;
            if new && ways.contains(&true) && self.push_blocks(&body, &args, streamed(ways, budget)) {
                return;
            }
        }
        // Blocks of two dimensions are smaller than blocks of one.
        let smaller = if large.contains(&true) { parted(&body, self.chip) } else { Vec::new() };
        if smaller.iter().any(|b| self.push_blocks(b, &args, streamed(&large, budget))) {
            return;
        }
        // Reduced dimensions are cut where results stay in vector memory.
        let near = |(i, a): (usize, &Arg)| matches!(a, Arg::Array { usage, .. } if large[i] && *usage == Use::Read);
        let read: Vec<bool> = args.iter().take(arrays).enumerate().map(near).collect();
        let stay: u64 =
            of.iter().zip(&read).filter(|(_, far)| !**far).flat_map(|(a, _)| a).map(|a| bytes(self, a.0)).sum();
        let room = stay <= self.array_bytes();
        if read.contains(&true) && room {
            let whole = (read != large).then(|| body.clone());
            let mut ways = whole.into_iter().chain(tiled(&body, self.chip));
            if ways.any(|b| self.push_blocks(&b, &args, streamed(&read, budget))) {
                return;
            }
        }
        // Where the least windows are larger than that, all of vector memory is better than no way.
        let all = self.chip.vmem.bytes / ALL.1 * ALL.0;
        let array = |a: &Arg| if let Arg::Array { buf, .. } = a { bytes(self, *buf) } else { 0 };
        let whole: u64 = args.iter().take(arrays).map(array).sum();
        let more = self.guide.scoped_vmem.is_none() && large.contains(&true) && whole > all;
        let mut bodies = std::iter::once(body.clone()).chain(smaller);
        let done = more && bodies.any(|b| self.push_blocks(&b, &args, streamed(&large, all)));
        if done {
            return;
        }
        // Blocks that cannot leave anything around what they write keep what is there.
        let first = |a: &Arg| matches!(a, Arg::Array { usage: Use::First | Use::Tiles, .. });
        if large.contains(&true) && args.iter().any(first) {
            return self.push_body(body, args.into_iter().map(keeping).collect(), name, op, results);
        }
        if let Body::Move(spec) = &body
            && large.contains(&true)
            && whole > self.array_bytes()
            && self.push_in_steps(spec, &args, (name, op), results)
        {
            return;
        }
        if large.contains(&true)
            && whole > self.array_bytes()
            && self.push_in_parts(&body, &args, streamed(&large, all))
        {
            return;
        }
        self.push_resident(body, args, name, op);
    }

    fn push_resident(&mut self, body: Body, args: Vec<Arg>, name: &str, op: u32) {
        let pinned = |a: &Arg| match a {
            Arg::Array { buf, .. } => self.pinned_place(*buf).filter(|p| p.0).map(|p| (p.1, *buf)),
            Arg::Scalar(_) | Arg::Sum(_) | Arg::Linear { .. } | Arg::Const(_) | Arg::Scratch => None,
        };
        if let Some((line, buf)) = args.iter().find_map(pinned) {
            let array = &self.plan.buffers[buf.index()].name;
            let why = format!("`{}` cannot be done in blocks with `{array}` in HBM", self.op_name(op));
            self.failed.get_or_insert(impossible(line, why));
        }
        let (body, mut args) = by_words(body, args);
        let spec = KernelSpec::Body(body);
        let needs = spec.needs(self.chip).unwrap_or_default();
        if needs.scratch_rows > 0 {
            args.push(Arg::Scratch);
        }
        let kernel = self.plan.simple_kernel(spec, name, needs);
        self.steps.push(Step::Call { kernel, args, op });
    }

    /// Dynamic element rows of an array in HBM as granules, if each step is rows by which copies begin, and whole granules.
    pub fn granule_terms(&self, buf: BufId, rows: &[(Word, i64)]) -> Option<Vec<(Word, i64)>> {
        rows.iter().map(|&(word, rows)| Some((word, self.granules(buf, rows)?))).collect()
    }

    /// Element rows of an array in HBM as granules, if copies begin by so many and they are whole granules.
    fn granules(&self, buf: BufId, rows: i64) -> Option<i64> {
        let packing = self.plan.buffers[buf.index()].layout.dtype.packing() as i64;
        let row_bytes = self.chip.row_bytes() as i64;
        let whole = i64::from(self.chip.core.sublanes.max(4));
        let granule = systole_isa::dma::HBM_GRANULE as i64;
        let bytes = rows / packing * row_bytes;
        (rows % whole == 0 && bytes % granule == 0).then_some(bytes / granule)
    }

    /// Appends the call block by block. False if there is no way to.
    pub(super) fn push_blocks(&mut self, body: &Body, args: &[Arg], how: Streamed<'_>) -> bool {
        let Streamed { hbm, budget, name, op } = how;
        let spec = self.block_spec(body, args, hbm);
        let (chip, guide, memo) = (self.chip, self.guide, self.memo);
        let pin = guide.schedule.cut(self.op_name(op));
        let split = self.split_blocks(&spec, args, (name, op));
        let mut own = |pin: Option<(CutPin, usize)>| {
            self.plan.kernel(KernelKey::Blocks(spec.clone(), None, pin.map(|p| p.1)), |_| {
                let weigh = |c: &BlockCut, cost: u64| guide.weigh_cut(pin.map(|p| p.0), &spec, c, cost);
                let key = (spec.clone(), budget, pin.map(|p| p.1));
                let chosen = memo.cuts.get(key, |_| choose_cut(&spec, chip, budget, &weigh)).ok_or(())?;
                Ok::<_, ()>(block_entry(&spec, chosen, None, format!("{name} in blocks")))
            })
        };
        // Where a pin does not hold the usual cut is taken: the finished plan is held against it.
        let made = split.map_or_else(|| own(pin).or_else(|()| if pin.is_some() { own(None) } else { Err(()) }), Ok);
        let Ok(kernel) = made else { return false };
        let call = self.block_args(args, hbm);
        self.steps.push(Step::Call { kernel, args: call, op });
        true
    }

    /// A body with its arrays where they are.
    pub(super) fn block_spec(&self, body: &Body, args: &[Arg], hbm: &[bool]) -> BlockSpec {
        let read = |a: &Arg| matches!(a, Arg::Array { usage: Use::Read, .. });
        let operands = args
            .iter()
            .zip(hbm)
            .enumerate()
            .map(|(i, (a, &far))| match a {
                Arg::Array { buf, usage, dynamic, .. } if far => {
                    let floating = self.granule_terms(*buf, dynamic).is_none();
                    let same = (0..i).find(|&j| hbm[j] && read(a) && args[j] == *a).map(|j| j as u32);
                    Operand { hbm: true, kept: *usage == Use::Update, floating, first: *usage == Use::First, same }
                }
                Arg::Array { .. }
                | Arg::Scalar(_)
                | Arg::Sum(_)
                | Arg::Linear { .. }
                | Arg::Const(_)
                | Arg::Scratch => Operand::default(),
            })
            .collect();
        BlockSpec { body: body.clone(), operands }
    }

    /// The arguments of a call in blocks.
    pub(super) fn block_args(&self, args: &[Arg], hbm: &[bool]) -> Vec<Arg> {
        let mut call = Vec::new();
        let mut starts = Vec::new();
        for (i, a) in args.iter().enumerate() {
            match a {
                Arg::Array { buf, usage, dynamic, .. } if hbm.get(i) == Some(&true) => {
                    let terms = self.granule_terms(*buf, dynamic);
                    if terms.is_none() {
                        starts.push(Arg::Sum(dynamic.clone()));
                    }
                    let dynamic = terms.unwrap_or_default();
                    call.push(Arg::Array { buf: *buf, usage: *usage, unit: Unit::Granules, offset: 0, dynamic });
                }
                a @ (Arg::Array { .. }
                | Arg::Scalar(_)
                | Arg::Sum(_)
                | Arg::Linear { .. }
                | Arg::Const(_)
                | Arg::Scratch) => call.push(a.clone()),
            }
        }
        call.extend(starts);
        call.push(Arg::Scratch);
        call
    }
}

/// An argument around which something else may be left as one that is updated.
fn keeping(arg: Arg) -> Arg {
    match arg {
        Arg::Array { buf, usage: Use::First | Use::Tiles, unit, offset, dynamic } => {
            Arg::Array { buf, usage: Use::Update, unit, offset, dynamic }
        }
        Arg::Array { .. } | Arg::Scalar(_) | Arg::Sum(_) | Arg::Linear { .. } | Arg::Const(_) | Arg::Scratch => arg,
    }
}

/// The array that an argument is, and what for.
pub(super) fn array_of(arg: &Arg) -> Option<(BufId, Use)> {
    match arg {
        Arg::Array { buf, usage, .. } => Some((*buf, *usage)),
        Arg::Scalar(_) | Arg::Sum(_) | Arg::Linear { .. } | Arg::Const(_) | Arg::Scratch => None,
    }
}

/// A kernel in blocks.
pub(super) fn block_entry(
    spec: &BlockSpec,
    (chosen, others): (ChosenCut, Vec<(BlockCut, u64)>),
    share: Option<Share>,
    name: String,
) -> KernelEntry {
    let considered = others.into_iter().map(|(c, cost)| Considered { way: Way::Cut(c), cycles: cost as f64 });
    KernelEntry {
        name,
        spec: KernelSpec::Blocks { spec: spec.clone(), cut: chosen.cut, share, looks: None },
        needs: chosen.needs,
        parts: Vec::new(),
        cycles: None,
        considered: considered.collect(),
    }
}

/// A move between arrays in vector memory by words, if it may go so.
fn by_words(body: Body, args: Vec<Arg>) -> (Body, Vec<Arg>) {
    let Body::Move(spec) = &body else { return (body, args) };
    let packing = spec.dtype.packing() as i64;
    let whole = matches!(args.get(1), Some(Arg::Array { usage: Use::Write, .. }));
    let words = |a: &Arg| match a {
        Arg::Array { buf, usage, unit: Unit::ElementRows, offset, dynamic } => {
            let even = offset % packing == 0 && dynamic.iter().all(|(_, rows)| rows % packing == 0);
            let dynamic = dynamic.iter().map(|&(w, rows)| (w, rows / packing)).collect();
            let unit = Unit::WordRows;
            even.then_some(Arg::Array { buf: *buf, usage: *usage, unit, offset: offset / packing, dynamic })
        }
        Arg::Array { unit: Unit::WordRows | Unit::Granules, .. } => None,
        Arg::Scalar(_) | Arg::Sum(_) | Arg::Linear { .. } | Arg::Const(_) | Arg::Scratch => Some(a.clone()),
    };
    match (in_words(spec, whole), args.iter().map(words).collect::<Option<Vec<Arg>>>()) {
        (Some(spec), Some(args)) => (Body::Move(spec), args),
        _ => (body, args),
    }
}
