//! Placement: where every array is at every time, and the copies between memories that this takes. Steps become actions.
//!
//! Invariants: an array that a kernel reads or writes in vector memory stays where it is during the call; what is written
//! in one memory is not read from the other before it is copied; what is resident at the beginning of a loop or branch is
//! at the same place in every iteration and branch.

mod behind;
mod control;
mod copy;
mod cores;
mod exchange;
mod handed;
pub(super) mod reach;

use super::action::{Action, Operand, Spot};
use super::memory::lifetime::Lifetimes;
use super::memory::residence::Residences;
use super::memory::{Memory, common, guard_rows};
use super::spec::KernelSpec;
use super::step::{Arg, BufferKind, Draft, HostStep, KernelEntry, SplitPart, Step, Unit, Use};
use super::view::BufId;
use exchange::Hidden;
pub(super) use handed::hand_over;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use systole_hlo::error::CompileError;
use systole_hlo::graph::Span;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::program::{DebugBuffer, DebugRange, HostArray, HostCall};
use systole_isa::{ChipConfig, Layout};

/// What placement decides.
pub struct Placement {
    pub actions: Vec<Action>,
    /// Kernels that look after exchanges, behind the draft's, and what each core does of those that are shared out.
    pub kernels: Vec<KernelEntry>,
    pub splits: BTreeMap<usize, Vec<SplitPart>>,
    /// HBM granule of every array that has a place there.
    pub granules: Vec<Option<u64>>,
    pub hbm_bytes: u64,
    pub vmem_rows: u64,
    /// Bytes of whole arrays that are copied between memories.
    pub copied: u64,
    /// Where arrays are, and when.
    pub residences: Vec<DebugBuffer>,
    /// Large arrays that loops bring in whole, every time round, for a part at a place that changes.
    pub reloaded: Vec<BufId>,
    /// Operations of loops that write memory which the cores have in common, so that these cannot share their iterations.
    pub together: Vec<u32>,
    /// Buffers that took places in HBM or common memory with their granules, and when buffers are read and written.
    placed: Vec<(BufId, u64)>,
    life: Lifetimes,
}

/// What was in the way of steps.
#[derive(Default)]
pub struct Crowding {
    /// [`Guide::few_aside`](crate::plan::guide::Guide::few_aside): what is asked for.
    pub few: bool,
    /// Of each step for which there was no room.
    pub arrays: Vec<BufId>,
    /// Whether it is a choice how many of them are put aside.
    pub choice: bool,
}

/// Places the arrays of a draft in `vmem_rows` rows of vector memory and the chip's HBM. Where that fails for want of vector
/// memory, `crowding` gets what stood in the way.
///
/// # Errors
/// What does not fit.
pub fn place(
    draft: &Draft,
    chip: &ChipConfig,
    vmem_rows: u64,
    crowding: &mut Crowding,
) -> Result<Placement, CompileError> {
    let far = placed(draft, chip, vmem_rows, (crowding, Vec::new(), &[]))?;
    let capacity = chip.device_cmem_bytes() / HBM_GRANULE;
    if capacity == 0 {
        return Ok(far);
    }
    let eligible = common::eligible(draft);
    let candidates: Vec<(BufId, u64)> = far.placed.iter().copied().filter(|(b, _)| eligible[b.index()]).collect();
    let near = common::choose(&far.life, &candidates, capacity);
    if near.is_empty() { Ok(far) } else { placed(draft, chip, vmem_rows, (crowding, eligible, &near)) }
}

/// A placement in which the buffers `near` lie in common memory.
fn placed(
    draft: &Draft,
    chip: &ChipConfig,
    vmem_rows: u64,
    (crowding, eligible, near): (&mut Crowding, Vec<bool>, &[BufId]),
) -> Result<Placement, CompileError> {
    let given = |b: BufId| matches!(draft.buffers[b.index()].kind, BufferKind::Param(_) | BufferKind::Constant(_));
    let life = Lifetimes::new(&draft.steps, draft.buffers.len(), &given, &draft.results);
    let mut memory = Memory::new(chip, &draft.buffers, &super::memory::beyond::rows(draft, chip), life, vmem_rows);
    memory.reserve_semaphores(draft.pod.reserved() + draft.ahead);
    memory.keep(draft);
    memory.few = crowding.few;
    if !eligible.is_empty() {
        memory.near(eligible, near);
    }
    for (&p, &span) in draft.params.iter().zip(&draft.param_spans) {
        memory.granule(p).map_err(|e| e.at(span))?;
    }
    for (i, b) in draft.buffers.iter().enumerate() {
        if matches!(b.kind, BufferKind::Constant(_)) {
            memory.granule(BufId(i as u32))?;
        }
    }
    let mut p = Placer {
        plan: draft,
        memory,
        actions: Vec::new(),
        hidden: None,
        kernels: Vec::new(),
        made: FxHashMap::default(),
        splits: BTreeMap::new(),
        now: 0,
        free_at: FxHashMap::default(),
        op: DebugRange::NONE,
        stays: Residences::new(draft.buffers.len()),
        inside: 0,
        written_before: Vec::new(),
        crowding: Vec::new(),
        reloaded: Vec::new(),
        failed: None,
        apart: false,
        together: Vec::new(),
    };
    p.index_frees();
    p.count_written();
    let placed = p.steps(&draft.steps).and_then(|()| p.results());
    crowding.arrays = std::mem::take(&mut p.crowding);
    crowding.choice |= p.memory.choice;
    // The first step that did not fit is what is wrong.
    p.failed.take().map_or(placed, Err)?;
    p.stays.finish(&p.memory);
    let taken = (0..draft.buffers.len() as u32).map(BufId).filter(|b| p.memory.placed[b.index()]);
    Ok(Placement {
        placed: taken.map(|b| (b, p.memory.granules_of(b))).collect(),
        actions: p.actions,
        kernels: p.kernels,
        splits: p.splits,
        granules: p.memory.places.iter().map(|p| p.granule).collect(),
        hbm_bytes: p.memory.hbm.peak * HBM_GRANULE,
        vmem_rows: p.memory.vmem.peak,
        copied: p.memory.copied,
        residences: p.stays.done,
        reloaded: p.reloaded,
        together: p.together,
        life: p.memory.life,
    })
}

struct Placer<'a> {
    plan: &'a Draft,
    memory: Memory<'a>,
    actions: Vec<Action>,
    /// The exchange that is under way.
    hidden: Option<Hidden>,
    /// Kernels that look after exchanges, where that of each spec is (of one that is shared out: of each first part), and the
    /// parts of those that are shared out.
    kernels: Vec<KernelEntry>,
    made: FxHashMap<(KernelSpec, Option<usize>), usize>,
    splits: BTreeMap<usize, Vec<SplitPart>>,
    now: u32,
    /// Buffers whose contents end with a step.
    free_at: FxHashMap<u32, Vec<BufId>>,
    /// Op of the step that is placed.
    op: u32,
    stays: Residences,
    /// Loops and branches around the step.
    inside: u32,
    /// Word rows that the steps before each one write.
    written_before: Vec<u64>,
    /// What stood in the way of steps, and why there was no room for the first: the others are placed to find it all.
    crowding: Vec<BufId>,
    reloaded: Vec<BufId>,
    failed: Option<CompileError>,
    /// Whether the steps are of a loop whose iterations cores share, and the operations of such loops that they cannot share.
    apart: bool,
    together: Vec<u32>,
}

impl<'a> Placer<'a> {
    fn index_frees(&mut self) {
        for (i, &last) in self.memory.life.last.iter().enumerate() {
            self.free_at.entry(last).or_default().push(BufId(i as u32));
        }
    }

    /// A kernel of the draft, or one that was made for an exchange.
    fn kernel(&self, number: usize) -> &KernelEntry {
        let made = number.checked_sub(self.plan.kernels.len());
        made.map_or_else(|| &self.plan.kernels[number], |i| &self.kernels[i])
    }

    /// Word rows of scratch memory of a call: the most of any core's part.
    fn scratch_rows(&self, kernel: usize) -> u32 {
        let parts = self.parts(kernel).into_iter().flatten();
        let own = self.kernel(kernel).needs.scratch_rows;
        parts.map(|p| self.kernel(p.kernel).needs.scratch_rows).fold(own, u32::max)
    }

    /// What each core does of a kernel that is shared out.
    fn parts(&self, kernel: usize) -> Option<&Vec<SplitPart>> {
        self.plan.splits.get(&kernel).or_else(|| self.splits.get(&kernel))
    }

    fn copies(&mut self, copies: Vec<super::action::Copy>) {
        self.actions.extend(copies.into_iter().map(Action::Copy));
    }

    /// Where the operation is in the source whose step is emitted.
    fn span(&self) -> Span {
        self.plan.op_spans.get(self.op as usize).copied().unwrap_or_default()
    }

    fn steps(&mut self, steps: &'a [Step]) -> Result<(), CompileError> {
        for (i, s) in steps.iter().enumerate() {
            let Err(e) = self.step(s, &steps[i + 1..]).map_err(|e| e.at(self.span())) else { continue };
            let crowding = std::mem::take(&mut self.memory.crowding);
            let known = e.is_vmem() && !crowding.is_empty();
            self.crowding.extend(crowding.into_iter().filter(|_| known));
            if !known || !matches!(s, Step::Call { .. } | Step::Copy { .. }) {
                return Err(e);
            }
            self.failed.get_or_insert(e);
            self.finish_step();
        }
        Ok(())
    }

    /// What steps become.
    fn inner(&mut self, steps: &'a [Step]) -> Result<Vec<Action>, CompileError> {
        let outer = std::mem::take(&mut self.actions);
        let done = self.steps(steps);
        let inner = std::mem::replace(&mut self.actions, outer);
        done.map(|()| inner)
    }

    /// Ends a step: what is not needed any more gives its room back.
    fn finish_step(&mut self) {
        let mut out = Vec::new();
        for b in self.free_at.get(&self.now).cloned().unwrap_or_default() {
            if self.memory.places[b.index()].pinned == 0 {
                self.memory.release(b, &mut out);
                self.memory.give_granules(b, &mut out);
            }
        }
        self.copies(out);
        self.stays.step(&mut self.memory, self.now, self.op);
        self.now += 1;
    }

    fn step(&mut self, s: &'a Step, rest: &'a [Step]) -> Result<(), CompileError> {
        if let Step::Call { op, .. } | Step::Copy { op, .. } | Step::ReadScalar { op, .. } = s {
            self.op = *op;
        }
        match s {
            Step::Call { kernel, args, op } => {
                self.mark(*op);
                self.call(*kernel, args, rest)?;
            }
            Step::Copy { src, dst, op } => {
                self.mark(*op);
                self.copy(*src, *dst, rest)?;
            }
            Step::Scalar { dst, value, dtype } => {
                self.actions.push(Action::Scalar { dst: *dst, value: *value, dtype: *dtype });
            }
            Step::ReadScalar { buf, dst, dtype, op } => {
                self.mark(*op);
                let mut out = Vec::new();
                self.memory.settle(*buf, &mut out);
                self.copies(out);
                let from = self.spot(*buf)?;
                self.actions.push(Action::ReadScalar { from, dst: *dst, dtype: *dtype });
            }
            Step::Host { call, operands, results, op } => {
                self.mark(*op);
                self.host(call, operands, results)?;
            }
            Step::Exchange(x) => {
                self.mark(x.op);
                self.exchange(x)?;
            }
            Step::Begin(x) => {
                self.mark(x.op);
                self.begin_hidden(x)?;
            }
            Step::End(x) => self.end_hidden(x),
            Step::While { head, cond, body, turns, shared, op } => {
                self.mark(*op);
                // What is under way goes on behind the loop.
                let hidden = self.hidden.take();
                self.while_((head, *cond, body), (*turns, *shared, *op))?;
                self.hidden = hidden;
                return Ok(());
            }
            Step::Switch { index, branches, op } => {
                self.mark(*op);
                let hidden = self.hidden.take();
                self.switch(*index, branches)?;
                self.hidden = hidden;
            }
        }
        self.finish_step();
        Ok(())
    }

    fn mark(&mut self, op: u32) {
        self.actions.push(Action::Mark(op));
    }

    // ---- arrays ----

    /// The array's first word row in vector memory.
    fn row(&self, buf: BufId) -> Result<u64, CompileError> {
        let nowhere = || CompileError::internal("placement", format!("`{}` is not resident", self.memory.name_of(buf)));
        self.memory.places[buf.index()].row.ok_or_else(nowhere)
    }

    /// Where the array is: in vector memory if it is there.
    fn spot(&mut self, buf: BufId) -> Result<Spot, CompileError> {
        Ok(match self.memory.places[buf.index()].row {
            Some(r) => Spot::Vmem(r),
            None => Spot::Hbm(self.memory.granule(buf)?),
        })
    }

    /// Brings a buffer into vector memory with its contents (or only room for it).
    fn resident(
        &mut self,
        buf: BufId,
        contents: bool,
        locked: &[BufId],
        out: &mut Vec<super::action::Copy>,
    ) -> Result<u64, CompileError> {
        if let Some(row) = self.memory.places[buf.index()].row {
            return Ok(row);
        }
        let name = format!("`{}`", self.memory.name_of(buf));
        let row = self.memory.room(self.memory.rows_of(buf), self.now, locked, &name, out)?;
        if contents && self.memory.places[buf.index()].in_hbm {
            self.memory.load(buf, row, out)?;
        } else {
            self.memory.places[buf.index()].row = Some(row);
        }
        Ok(row)
    }

    /// Marks a buffer as written in vector memory.
    fn written(&mut self, buf: BufId, out: &mut Vec<super::action::Copy>) {
        self.memory.settle_out(buf, out);
        self.memory.places[buf.index()].in_hbm = false;
    }

    fn call(&mut self, kernel: usize, args: &'a [Arg], rest: &'a [Step]) -> Result<(), CompileError> {
        let number = self.hooked(kernel).unwrap_or(kernel);
        let (name, rows) = (self.kernel(number).name.clone(), self.scratch_rows(number));
        let near = args.iter().filter_map(Arg::array).filter(|a| a.2 != Unit::Granules);
        let locked: Vec<BufId> = near.clone().map(|a| a.0).collect();
        let mut out = Vec::new();
        self.note_reloads(args);
        // What the kernel reads from HBM gets there before room is made for the rest: this step may be its last reader, and
        // what nobody reads later is not kept.
        for a in args {
            if let Arg::Array { buf, usage, unit: Unit::Granules, .. } = a {
                self.in_hbm(*buf, *usage, &mut out)?;
            }
        }
        let scratch_rows = if rows > 0 { u64::from(rows) + guard_rows(self.memory.chip) } else { 0 };
        let scratch = match scratch_rows {
            0 => None,
            n => Some(self.memory.room(n, self.now, &locked, &format!("scratch of {name}"), &mut out)?),
        };
        // Loads first, so that they run side by side.
        let loaded = near
            .clone()
            .try_for_each(|(buf, usage, _)| self.resident(buf, usage != Use::Write, &locked, &mut out).map(|_| ()));
        if let (Err(_), Some(at)) = (&loaded, scratch) {
            self.memory.vmem.give(at, scratch_rows);
        }
        loaded?;
        for a in args {
            if let Arg::Array { buf, usage, unit, .. } = a {
                let read = *usage == Use::Read && *unit != Unit::Granules;
                // What is only read may be on its way out.
                if read {
                    self.memory.settle_in(*buf, &mut out)
                } else {
                    self.memory.settle(*buf, &mut out)
                }
                if *usage != Use::Read && *unit != Unit::Granules {
                    self.written(*buf, &mut out);
                }
            }
        }
        self.copies(out);
        self.prefetch(args, rest)?;
        let args_of_code = args.iter().chain(self.hook_args(kernel, number));
        let operands =
            args_of_code.map(|a| self.operand(a, scratch)).collect::<Result<Vec<Operand>, CompileError>>()?;
        self.actions.push(Action::Call { kernel: number, args: operands });
        self.publish(number, args)?;
        self.store_early(args)?;
        self.look();
        if let Some(at) = scratch {
            let own = u64::from(self.kernel(number).needs.scratch_rows);
            let parts = self.kernel(number).parts.clone();
            self.stays.scratch(self.memory.chip, (&name, own, &parts), at, self.op);
            self.memory.vmem.give(at, scratch_rows);
        }
        Ok(())
    }

    /// Makes HBM the place of a buffer that a kernel reaches by itself.
    fn in_hbm(&mut self, buf: BufId, usage: Use, out: &mut Vec<super::action::Copy>) -> Result<(), CompileError> {
        self.memory.granule(buf)?;
        // What was never written is nowhere.
        let p = &self.memory.places[buf.index()];
        if usage != Use::Write && !p.in_hbm && p.row.is_some() {
            self.memory.store(buf, out)?;
        }
        self.memory.settle(buf, out);
        if usage != Use::Read {
            self.memory.release(buf, out);
            self.memory.places[buf.index()].in_hbm = true;
        }
        Ok(())
    }

    fn operand(&mut self, a: &Arg, scratch: Option<u64>) -> Result<Operand, CompileError> {
        Ok(match a {
            Arg::Array { buf, usage, unit, offset, dynamic } => {
                let packing = self.plan.buffers[buf.index()].layout.dtype.packing() as i64;
                let base = match unit {
                    Unit::ElementRows => self.row(*buf)? as i64 * packing,
                    Unit::WordRows => self.row(*buf)? as i64,
                    Unit::Granules => self.memory.granule(*buf)? as i64,
                };
                let terms = dynamic.clone();
                Operand::Array { array: *buf, usage: *usage, unit: *unit, at: base + offset, terms }
            }
            Arg::Scalar(w) => Operand::Scalar(*w),
            Arg::Sum(terms) => Operand::Sum(terms.clone()),
            Arg::Linear { word, scale, offset } => Operand::Linear { word: *word, scale: *scale, offset: *offset },
            Arg::Const(value) => Operand::Const(*value),
            Arg::Scratch => Operand::Scratch(scratch.unwrap_or(0)),
        })
    }

    /// Calls the host once its arrays are in HBM.
    fn host(
        &mut self,
        call: &HostStep,
        operands: &[(BufId, Layout)],
        results: &[(BufId, Layout)],
    ) -> Result<(), CompileError> {
        let mut out = Vec::new();
        for (list, usage) in [(operands, Use::Read), (results, Use::Write)] {
            for (b, _) in list {
                self.in_hbm(*b, usage, &mut out)?;
            }
        }
        self.copies(out);
        let mut place = |list: &[(BufId, Layout)]| {
            let one = |(b, layout): &(BufId, Layout)| {
                let name = self.plan.buffers[b.index()].name.clone();
                let address = self.memory.granule(*b)? * HBM_GRANULE;
                Ok(HostArray { address, layout: layout.clone(), host_dims: None, name })
            };
            list.iter().map(one).collect::<Result<Vec<HostArray>, CompileError>>()
        };
        let (operands, results) = (place(operands)?, place(results)?);
        let (kind, target, config) = (call.kind, call.target.clone(), call.config.clone());
        self.actions.push(Action::Host(HostCall { kind, target, config, operands, results }));
        Ok(())
    }

    /// Puts the results where the host reads them.
    fn results(&mut self) -> Result<(), CompileError> {
        let mut out = Vec::new();
        for &r in &self.plan.results {
            self.memory.granule(r)?;
            if !self.memory.places[r.index()].in_hbm && self.memory.places[r.index()].row.is_some() {
                self.memory.store(r, &mut out)?;
            }
        }
        for b in self.memory.places.ids() {
            self.memory.settle(b, &mut out);
        }
        self.copies(out);
        Ok(())
    }
}
