//! The main program: steps to scalar code, copies and kernel calls, with memory decided on the way.

mod control;
mod cores;
mod reach;
mod scalars;

use super::collective::Hidden;
use super::memory::lifetime::Lifetimes;
use super::memory::residence::Residences;
use super::memory::{Copy, KERNEL_SEMAPHORES, Memory, guard_rows};
use super::step::{Arg, BufferKind, HostStep, Plan, Step, Unit, Use};
use super::view::BufId;
use reach::{reads, returns};
use rustc_hash::FxHashMap;
use systole_codegen::kernel::build::KernelBuilder;
use systole_codegen::kernel::build_units::DmaArgs;
use systole_codegen::kernel::{BufferRef, Kernel, S};
use systole_hlo::error::CompileError;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::program::{DebugBuffer, DebugRange, HostArray, HostCall};
use systole_isa::{ChipConfig, DmaDesc, Layout, Op, Space};

/// What the main program needs besides its kernels.
pub struct MainProgram {
    pub kernel: Kernel,
    /// More kernels, behind the plan's; their descriptors are the program's.
    pub subroutines: Vec<Kernel>,
    pub descs: Vec<DmaDesc>,
    /// First descriptor of every kernel's own.
    pub desc_base: Vec<u32>,
    /// HBM granule of every buffer that has a place there.
    pub granules: Vec<Option<u64>>,
    pub hbm_bytes: u64,
    pub vmem_rows: u64,
    pub host_calls: Vec<HostCall>,
    /// Where arrays are, for profiles.
    pub residences: Vec<DebugBuffer>,
}

/// Emits the main program of a plan.
pub fn emit(plan: &Plan, chip: &ChipConfig, vmem_rows: u64) -> Result<MainProgram, CompileError> {
    let given = |b: BufId| matches!(plan.buffers[b.index()].kind, BufferKind::Param(_) | BufferKind::Constant(_));
    let life = Lifetimes::new(&plan.steps, plan.buffers.len(), &given, &plan.results);
    let mut memory = Memory::new(chip, &plan.buffers, &super::memory::beyond::rows(plan, chip), life, vmem_rows);
    memory.reserve_semaphores(plan.pod.reserved());
    memory.keep(plan);
    for &p in &plan.params {
        memory.granule(p)?;
    }
    for (i, b) in plan.buffers.iter().enumerate() {
        if matches!(b.kind, BufferKind::Constant(_)) {
            memory.granule(BufId(i as u32))?;
        }
    }
    let mut b = KernelBuilder::new("main", chip);
    let all = b.buffer();
    let mut descs = Vec::new();
    let mut desc_base = Vec::new();
    for k in &plan.kernels {
        desc_base.push(descs.len() as u32);
        descs.extend(k.descs.iter().cloned());
    }
    let mut e = Emitter {
        plan,
        b,
        all,
        memory,
        descs,
        known: FxHashMap::default(),
        host_calls: Vec::new(),
        hidden: None,
        subroutines: Vec::new(),
        concealed: Vec::new(),
        made: FxHashMap::default(),
        now: 0,
        free_at: FxHashMap::default(),
        op: DebugRange::NONE,
        stays: Residences::new(plan.buffers.len()),
    };
    e.index_frees();
    e.load_tables()?;
    e.steps(&plan.steps)?;
    e.results()?;
    e.finish_looks();
    e.stays.finish(&e.memory);
    Ok(MainProgram {
        kernel: e.b.finish(),
        subroutines: e.subroutines,
        descs: e.descs,
        desc_base,
        granules: e.memory.places.iter().map(|p| p.granule).collect(),
        hbm_bytes: e.memory.hbm.peak * HBM_GRANULE,
        vmem_rows: e.memory.vmem.peak,
        host_calls: e.host_calls,
        residences: e.stays.done,
    })
}

pub(super) struct Emitter<'a> {
    pub(super) plan: &'a Plan,
    pub(super) b: KernelBuilder,
    /// All copies of the main program are ordered by this buffer.
    pub(super) all: BufferRef,
    pub(super) memory: Memory<'a>,
    pub(super) descs: Vec<DmaDesc>,
    pub(super) known: FxHashMap<DmaDesc, u32>,
    /// The exchange that is under way.
    pub(super) hidden: Option<Hidden>,
    subroutines: Vec<Kernel>,
    /// Subroutines of exchanges that are hidden.
    pub(super) concealed: Vec<usize>,
    made: FxHashMap<String, usize>,
    pub(super) now: u32,
    pub(super) host_calls: Vec<HostCall>,
    /// Buffers whose contents end with a step.
    pub(super) free_at: FxHashMap<u32, Vec<BufId>>,
    /// Op of the step that is emitted.
    pub(super) op: u32,
    stays: Residences,
}

impl<'a> Emitter<'a> {
    fn index_frees(&mut self) {
        for (i, &last) in self.memory.life.last.iter().enumerate() {
            self.free_at.entry(last).or_default().push(BufId(i as u32));
        }
    }

    pub(super) fn desc(&mut self, d: DmaDesc) -> u32 {
        if let Some(&i) = self.known.get(&d) {
            return i;
        }
        self.descs.push(d.clone());
        let i = self.descs.len() as u32 - 1;
        self.known.insert(d, i);
        i
    }

    /// The number, for calls, of a kernel of the main program itself; it is made on first use.
    pub(super) fn subroutine(&mut self, key: String, make: impl FnOnce(&mut Self) -> Kernel) -> usize {
        if let Some(&k) = self.made.get(&key) {
            return k;
        }
        let kernel = make(self);
        self.subroutines.push(kernel);
        let number = self.plan.kernels.len() + self.subroutines.len();
        self.made.insert(key, number);
        number
    }

    /// Gives a subroutine that was made before another body.
    pub(super) fn replace(&mut self, number: usize, kernel: Kernel) {
        if let Some(k) = number.checked_sub(self.plan.kernels.len() + 1).and_then(|i| self.subroutines.get_mut(i)) {
            *k = kernel;
        }
    }

    pub(super) fn copies(&mut self, copies: Vec<Copy>) {
        for c in copies {
            match c {
                Copy::Load { granule, row, pending } => {
                    let desc = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, pending.bytes));
                    let args = self.copy_args(desc, granule, row, pending.semaphore);
                    self.start_copy(args, false);
                }
                Copy::Store { row, granule, pending } => {
                    let desc = self.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, pending.bytes));
                    let args = self.copy_args(desc, row, granule, pending.semaphore);
                    self.start_copy(args, true);
                }
                Copy::WaitIn { pending } => self.wait_copy(pending.semaphore, pending.bytes as i32, false),
                Copy::WaitOut { pending } => self.wait_copy(pending.semaphore, pending.bytes as i32, true),
            }
        }
    }

    fn copy_args(&mut self, desc: u32, src: u64, dst: u64, sem: u32) -> DmaArgs {
        let src = self.b.s_imm(src as i32);
        let dst = self.b.s_imm(dst as i32);
        DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem }
    }

    fn dma(&mut self, desc: u32, src: u64, dst: u64, sem: u32) {
        let args = self.copy_args(desc, src, dst, sem);
        let all = [self.all];
        self.b.dma_start(args, &all, &all);
    }

    fn steps(&mut self, steps: &'a [Step]) -> Result<(), CompileError> {
        for (i, s) in steps.iter().enumerate() {
            self.step(s, &steps[i + 1..])?;
        }
        Ok(())
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
        self.stays.step(&self.memory, self.now, self.op);
        self.now += 1;
    }

    fn step(&mut self, s: &'a Step, rest: &'a [Step]) -> Result<(), CompileError> {
        if let Step::Call { op, .. } | Step::Copy { op, .. } | Step::ReadScalar { op, .. } = s {
            self.op = *op;
        }
        match s {
            Step::Call { kernel, args, op } => {
                self.b.mark(*op);
                self.call(*kernel, args, rest)?;
            }
            Step::Copy { src, dst, op } => {
                self.b.mark(*op);
                self.copy(*src, *dst, rest)?;
            }
            Step::Scalar { dst, value, dtype } => self.scalar(*dst, *value, *dtype),
            Step::ReadScalar { buf, dst, dtype, op } => {
                self.b.mark(*op);
                self.read_scalar(*buf, *dst, *dtype)?;
            }
            Step::Host { call, operands, results, op } => {
                self.b.mark(*op);
                self.host(call, operands, results)?;
            }
            Step::Exchange(x) => {
                self.b.mark(x.op);
                self.exchange(x)?;
            }
            Step::Begin(x) => {
                self.b.mark(x.op);
                self.begin_hidden(x)?;
            }
            Step::End(x) => self.end_hidden(x),
            Step::While { head, cond, body, op } => {
                self.b.mark(*op);
                // What is under way goes on behind the loop.
                let hidden = self.hidden.take();
                self.while_(head, *cond, body)?;
                self.hidden = hidden;
                return Ok(());
            }
            Step::Switch { index, branches, op } => {
                self.b.mark(*op);
                let hidden = self.hidden.take();
                self.switch(*index, branches)?;
                self.hidden = hidden;
            }
        }
        self.finish_step();
        Ok(())
    }

    // ---- arrays ----

    /// Brings a buffer into vector memory with its contents (or only room for it).
    fn resident(
        &mut self,
        buf: BufId,
        contents: bool,
        locked: &[BufId],
        out: &mut Vec<Copy>,
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
    fn written(&mut self, buf: BufId, out: &mut Vec<Copy>) {
        self.memory.settle_out(buf, out);
        self.memory.places[buf.index()].in_hbm = false;
    }

    fn call(&mut self, kernel: usize, args: &'a [Arg], rest: &'a [Step]) -> Result<(), CompileError> {
        let hooked = self.hooked(kernel);
        let entry = hooked.as_ref().map_or(&self.plan.kernels[kernel], |h| &h.entry);
        let locked: Vec<BufId> = args
            .iter()
            .filter_map(|a| match a {
                Arg::Array { buf, unit, .. } if *unit != Unit::Granules => Some(*buf),
                _ => None,
            })
            .collect();
        let mut out = Vec::new();
        // What the kernel reads from HBM gets there before room is made for the rest: this step may be its last reader, and
        // what nobody reads later is not kept.
        for a in args {
            if let Arg::Array { buf, usage, unit: Unit::Granules, .. } = a {
                self.in_hbm(*buf, *usage, &mut out)?;
            }
        }
        let scratch_rows = cores::scratch_rows(self.plan, kernel, entry);
        let scratch = if scratch_rows > 0 {
            let rows = scratch_rows as u64 + guard_rows(self.memory.chip);
            Some(self.memory.room(rows, self.now, &locked, &format!("scratch of {}", entry.name), &mut out)?)
        } else {
            None
        };
        // Loads first, so that they run side by side.
        for a in args {
            if let Arg::Array { buf, usage, unit, .. } = a
                && *unit != Unit::Granules
            {
                self.resident(*buf, *usage != Use::Write, &locked, &mut out)?;
            }
        }
        for a in args {
            if let Arg::Array { buf, usage, unit, .. } = a {
                self.memory.settle(*buf, &mut out);
                if *usage != Use::Read && *unit != Unit::Granules {
                    self.written(*buf, &mut out);
                }
            }
        }
        self.copies(out);
        self.prefetch(args, rest)?;
        match &hooked {
            Some(h) => {
                let regs: Vec<S> = args.iter().map(|a| self.argument(a, scratch)).collect();
                self.b.call(h.number, &regs);
            }
            None => self.call_cores(kernel, args, scratch)?,
        }
        self.look();
        if let Some(at) = scratch {
            self.stays.scratch(self.memory.chip, entry, at, self.op);
            self.memory.vmem.give(at, scratch_rows as u64 + guard_rows(self.memory.chip));
        }
        Ok(())
    }

    /// Makes HBM the place of a buffer that a kernel reaches by itself.
    pub(super) fn in_hbm(&mut self, buf: BufId, usage: Use, out: &mut Vec<Copy>) -> Result<(), CompileError> {
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

    fn argument(&mut self, a: &Arg, scratch: Option<u64>) -> S {
        match a {
            Arg::Array { buf, unit, offset, dynamic, .. } => {
                let place = &self.memory.places[buf.index()];
                let packing = self.plan.buffers[buf.index()].layout.dtype.packing() as i64;
                let base = match unit {
                    Unit::ElementRows => place.row.unwrap_or(0) as i64 * packing,
                    Unit::WordRows => place.row.unwrap_or(0) as i64,
                    Unit::Granules => place.granule.unwrap_or(0) as i64,
                };
                let mut reg = self.b.s_imm((base + offset) as i32);
                for &(word, rows) in dynamic {
                    let w = self.load_word(word);
                    let w = if rows == 1 { w } else { self.b.s_muli(w, rows as i32) };
                    reg = self.b.s(Op::SAdd, &[reg, w]);
                }
                reg
            }
            Arg::Scalar(w) => self.load_word(*w),
            Arg::Sum(terms) => {
                let mut sum = S::ZERO;
                for &(word, rows) in terms {
                    let w = self.load_word(word);
                    let w = if rows == 1 { w } else { self.b.s_muli(w, rows as i32) };
                    sum = self.b.s(Op::SAdd, &[sum, w]);
                }
                sum
            }
            Arg::Linear { word, scale, offset } => {
                let w = self.load_word(*word);
                let w = self.b.s_muli(w, *scale);
                self.b.s_addi(w, *offset)
            }
            Arg::Const(value) => self.b.s_imm(*value),
            Arg::Scratch => self.b.s_imm(scratch.unwrap_or(0) as i32),
        }
    }

    /// Starts loads of what the next steps read, as far as there is free room.
    /// What the call in between (`args`) writes is not there yet.
    fn prefetch(&mut self, args: &'a [Arg], rest: &'a [Step]) -> Result<(), CompileError> {
        const AHEAD: usize = 6;
        /// Semaphores kept for loads that cannot wait.
        const SPARE: usize = 8;
        let mut out = Vec::new();
        let written: Vec<BufId> = args
            .iter()
            .filter_map(|a| match a {
                Arg::Array { buf, usage, .. } if *usage != Use::Read => Some(*buf),
                _ => None,
            })
            .collect();
        for s in rest.iter().take(AHEAD) {
            let Step::Call { args, .. } = s else {
                // What an exchange brings is there when it ends.
                if matches!(s, Step::While { .. } | Step::Switch { .. } | Step::Exchange(_) | Step::End(_)) {
                    break;
                }
                continue;
            };
            for a in args {
                let Arg::Array { buf, usage, unit, .. } = a else { continue };
                let p = &self.memory.places[buf.index()];
                let wanted = *unit != Unit::Granules && *usage == Use::Read && p.row.is_none() && p.in_hbm;
                let wanted = wanted && !written.contains(buf);
                if !wanted || self.memory.semaphores_free() <= SPARE {
                    continue;
                }
                let rows = self.memory.rows_of(*buf);
                // Room for results of the steps in between is left.
                let (_, free) = self.memory.vmem.room();
                if rows * 4 > free {
                    continue;
                }
                if let Some(row) = self.memory.vmem.take(rows) {
                    self.memory.load(*buf, row, &mut out)?;
                }
            }
        }
        self.copies(out);
        Ok(())
    }

    /// Whether `dst`, a copy of `src`, may take over its memory: `src` is not read again, or is a loop state that the copy
    /// becomes again at the loop's end.
    fn may_take_over(&self, src: BufId, dst: BufId, rest: &[Step]) -> bool {
        let kind = |b: BufId| &self.plan.buffers[b.index()].kind;
        if matches!(kind(dst), BufferKind::State) || self.memory.places[src.index()].row.is_none() {
            return false;
        }
        if self.memory.places[dst.index()].row.is_some() {
            return false;
        }
        if *kind(src) == BufferKind::Temp && self.memory.life.last[src.index()] == self.now {
            return true;
        }
        if *kind(src) != BufferKind::State
            || self.memory.life.next_read(src, self.now).is_some_and(|_| reads(rest, src))
        {
            return false;
        }
        returns(src, dst, rest)
    }

    /// Whether `dst`, a copy of a state in HBM, may be the same memory: it becomes the state again.
    fn may_share(&self, src: BufId, dst: BufId, rest: &[Step]) -> bool {
        let kind = |b: BufId| &self.plan.buffers[b.index()].kind;
        *kind(src) == BufferKind::FarState
            && *kind(dst) == BufferKind::Temp
            && self.memory.places[dst.index()].granule.is_none()
            && self.memory.places[dst.index()].row.is_none()
            && self.plan.buffers[dst.index()].slack_rows <= self.plan.buffers[src.index()].slack_rows
            && !reads(rest, src)
            && returns(src, dst, rest)
    }

    fn copy(&mut self, src: BufId, dst: BufId, rest: &[Step]) -> Result<(), CompileError> {
        let mut out = Vec::new();
        let (s, d) = (&self.memory.places[src.index()], &self.memory.places[dst.index()]);
        if s.row.is_some() && s.row == d.row {
            // Updated in place: the borrower gives the rows back.
            self.memory.settle(src, &mut out);
            self.memory.places[src.index()].row = None;
            self.memory.places[src.index()].borrowed = false;
            self.memory.places[dst.index()].borrowed = false;
            self.written(dst, &mut out);
            self.copies(out);
            return Ok(());
        }
        if self.may_take_over(src, dst, rest) {
            self.memory.settle(src, &mut out);
            let state = self.plan.buffers[src.index()].kind == BufferKind::State;
            let p = &mut self.memory.places[src.index()];
            let (row, borrowed) = (p.row, p.borrowed || state);
            if !state {
                p.row = None;
                p.borrowed = false;
            }
            let d = &mut self.memory.places[dst.index()];
            (d.row, d.borrowed, d.in_hbm) = (row, borrowed, false);
            self.copies(out);
            return Ok(());
        }
        if self.may_share(src, dst, rest) {
            self.in_hbm(src, Use::Read, &mut out)?;
            let granule = self.memory.granule(src)?;
            let p = &mut self.memory.places[dst.index()];
            (p.granule, p.granule_kept, p.in_hbm) = (Some(granule), true, true);
            self.copies(out);
            return Ok(());
        }
        let large = self.memory.bytes_of(dst) > self.plan.largest_resident;
        let places = &self.memory.places;
        let kind = &self.plan.buffers[dst.index()].kind;
        let far = *kind == BufferKind::FarState;
        if far || large && places[dst.index()].row.is_none() && *kind != BufferKind::State {
            self.in_hbm(src, Use::Read, &mut out)?;
            self.in_hbm(dst, Use::Write, &mut out)?;
            self.copies(out);
            return self.copy_in_hbm(src, dst);
        }
        self.resident(dst, false, &[src, dst], &mut out)?;
        let row = self.memory.places[dst.index()].row.unwrap_or(0);
        self.memory.settle(src, &mut out);
        self.memory.settle(dst, &mut out);
        self.written(dst, &mut out);
        self.copies(out);
        let bytes = self.memory.bytes_of(dst) as u32;
        let (space, from) = match self.memory.places[src.index()].row {
            Some(r) => (Space::Vmem, r),
            None => (Space::Hbm, self.memory.granule(src)?),
        };
        if bytes > 0 {
            let desc = self.desc(DmaDesc::contiguous(space, Space::Vmem, bytes));
            let sem = KERNEL_SEMAPHORES - 1;
            self.dma(desc, from, row, sem);
            let all = [self.all];
            self.b.dma_wait(sem, bytes as i32, &all, &all);
        }
        Ok(())
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
        let place = |(b, layout): &(BufId, Layout)| {
            let name = self.plan.buffers[b.index()].name.clone();
            let address = self.memory.places[b.index()].granule.unwrap_or(0) * HBM_GRANULE;
            HostArray { address, layout: layout.clone(), host_dims: None, name }
        };
        self.host_calls.push(HostCall {
            kind: call.kind,
            target: call.target.clone(),
            config: call.config.clone(),
            operands: operands.iter().map(place).collect(),
            results: results.iter().map(place).collect(),
        });
        let number = self.host_calls.len() as i32 - 1;
        self.alone(|b| b.host(number));
        Ok(())
    }

    /// Copies a buffer within HBM.
    fn copy_in_hbm(&mut self, src: BufId, dst: BufId) -> Result<(), CompileError> {
        /// Bytes of one transfer at most: counts of semaphores are 32-bit.
        const MOST: u64 = 1 << 30;
        let (from, to) = (self.memory.granule(src)?, self.memory.granule(dst)?);
        let bytes = if from == to { 0 } else { self.memory.bytes_of(dst) };
        if self.several() {
            return self.copy_shares(from, to, bytes);
        }
        let mut at = 0;
        while at < bytes {
            let n = (bytes - at).min(MOST);
            let desc = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Hbm, n as u32));
            let sem = KERNEL_SEMAPHORES - 1;
            self.dma(desc, from + at / HBM_GRANULE, to + at / HBM_GRANULE, sem);
            let all = [self.all];
            self.b.dma_wait(sem, n as i32, &all, &all);
            at += n;
        }
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
        for i in 0..self.memory.places.len() as u32 {
            self.memory.settle(BufId(i), &mut out);
        }
        self.copies(out);
        Ok(())
    }
}
