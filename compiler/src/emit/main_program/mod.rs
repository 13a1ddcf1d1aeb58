//! The main program: actions of the plan as scalar code, copies and calls.

mod cores;
mod scalars;

use super::exchange::Subroutine;
use crate::plan::action::{Action, Copy, CopyKind, Operand, Spot};
use crate::plan::step::Word;
use crate::plan::{Plan, kernel_semaphores};
use rustc_hash::FxHashMap;
use systole_codegen::kernel::build_units::DmaArgs;
use systole_codegen::kernel::{BufferRef, Kernel, KernelBuilder, S};
use systole_isa::dma::HBM_GRANULE;
use systole_isa::program::HostCall;
use systole_isa::{ChipConfig, DmaDesc, Op, Space};

/// Bytes of one transfer at most: counts of semaphores are 32-bit.
const MOST_BYTES: u64 = 1 << 30;

/// The main program and what belongs to it.
pub struct MainCode {
    pub kernel: Kernel,
    /// Kernels behind the plan's.
    pub subroutines: Vec<Kernel>,
    /// All descriptors of the program: the kernels' come first.
    pub descs: Vec<DmaDesc>,
    pub host_calls: Vec<HostCall>,
}

/// Emits the main program. `descs` are the descriptors of the plan's kernels.
pub fn emit(plan: &Plan, chip: &ChipConfig, descs: Vec<DmaDesc>) -> MainCode {
    let mut b = KernelBuilder::new("main", chip);
    let all = b.buffer();
    let mut e = Emitter {
        plan,
        chip,
        b,
        all,
        apart: false,
        descs,
        known: FxHashMap::default(),
        host_calls: Vec::new(),
        hidden: None,
        subroutines: Vec::new(),
        concealed: Vec::new(),
        made: FxHashMap::default(),
    };
    // Cores have a part of HBM's bandwidth each from the beginning.
    e.barrier(plan.head.cores);
    let looks = plan.kernels.iter().any(|k| k.spec.looks().is_some());
    if looks {
        e.dispatcher();
    }
    e.load_tables();
    if looks {
        e.look_on_first_core();
    }
    e.actions(&plan.actions);
    e.finish_looks();
    MainCode { kernel: e.b.finish(), subroutines: e.subroutines, descs: e.descs, host_calls: e.host_calls }
}

/// A place's memory and address.
fn split(spot: Spot) -> (Space, u64) {
    match spot {
        Spot::Vmem(row) => (Space::Vmem, row),
        Spot::Hbm(granule) => (Space::Hbm, granule),
    }
}

pub(super) struct Emitter<'a> {
    pub(super) plan: &'a Plan,
    pub(super) chip: &'a ChipConfig,
    pub(super) b: KernelBuilder,
    /// All copies of the main program are ordered by this buffer.
    pub(super) all: BufferRef,
    /// Whether each core does iterations of its own of a loop, as if it were alone.
    pub(super) apart: bool,
    descs: Vec<DmaDesc>,
    known: FxHashMap<DmaDesc, u32>,
    /// The subroutine of the exchange that is under way.
    pub(super) hidden: Option<usize>,
    subroutines: Vec<Kernel>,
    /// Subroutines of exchanges that are hidden.
    pub(super) concealed: Vec<usize>,
    made: FxHashMap<Subroutine, usize>,
    host_calls: Vec<HostCall>,
}

impl Emitter<'_> {
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
    pub(super) fn subroutine(&mut self, key: Subroutine, make: impl FnOnce(&mut Self) -> Kernel) -> usize {
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

    fn actions(&mut self, actions: &[Action]) {
        actions.iter().for_each(|a| self.action(a));
    }

    fn action(&mut self, a: &Action) {
        match a {
            Action::Mark(op) => self.b.mark(*op),
            Action::Copy(c) => self.copy(c),
            Action::Move { from, to, bytes } => self.move_all(*from, *to, *bytes),
            Action::Scalar { dst, value, dtype } => self.scalar(*dst, *value, *dtype),
            Action::ReadScalar { from, dst, dtype } => self.read_scalar(*from, *dst, *dtype),
            Action::Call { kernel, args } => self.call_cores(*kernel, args),
            Action::Host(call) => {
                self.host_calls.push(call.clone());
                let number = self.host_calls.len() as i32 - 1;
                self.alone(|b| b.host(number));
            }
            Action::Exchange(x, f) => {
                self.barrier(1);
                self.on_first_core(|e| e.exchange(x, f));
                self.barrier(self.plan.head.cores);
            }
            Action::Begin(x, f) => {
                self.barrier(self.plan.head.cores);
                self.on_first_core(|e| e.begin_hidden(x, f));
            }
            Action::End(x) => {
                self.on_first_core(|e| e.end_hidden(x));
                self.barrier(self.plan.head.cores);
            }
            Action::Look(op) => self.on_first_core(|e| e.look(*op)),
            Action::While { head, cond, body, shared: true } => self.share(head, *cond, body),
            Action::While { head, cond, body, shared: false } => self.while_(head, *cond, body),
            Action::Switch { index, branches } => self.switch(*index, branches),
        }
    }

    fn copy(&mut self, c: &Copy) {
        let p = c.pending;
        match c.kind {
            CopyKind::Load { granule, row } => {
                let desc = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, p.bytes));
                let args = self.copy_args(desc, granule, row, p.semaphore);
                self.start_copy(args, false);
            }
            CopyKind::Store { row, granule } => {
                let desc = self.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, p.bytes));
                let args = self.copy_args(desc, row, granule, p.semaphore);
                self.start_copy(args, true);
            }
            CopyKind::WaitIn => self.wait_copy(p.semaphore, p.bytes as i32, false),
            CopyKind::WaitOut => self.wait_copy(p.semaphore, p.bytes as i32, true),
        }
    }

    fn copy_args(&mut self, desc: u32, src: u64, dst: u64, sem: u32) -> DmaArgs {
        let src = self.b.s_imm(src as i32);
        let dst = self.b.s_imm(dst as i32);
        DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem }
    }

    /// Copies and waits, in transfers of [`MOST_BYTES`] at most.
    fn move_all(&mut self, from: Spot, to: Spot, bytes: u64) {
        let ((src, from), (dst, to)) = (split(from), split(to));
        if self.several() && dst == Space::Hbm {
            return self.copy_shares(from, to, bytes);
        }
        let unit = |space: Space| if space == Space::Hbm { HBM_GRANULE } else { self.chip.row_bytes() };
        let (from_unit, to_unit) = (unit(src), unit(dst));
        let mut at = 0;
        while at < bytes {
            let n = (bytes - at).min(MOST_BYTES);
            let desc = self.desc(DmaDesc::contiguous(src, dst, n as u32));
            let sem = kernel_semaphores(self.chip) - 1;
            let args = self.copy_args(desc, from + at / from_unit, to + at / to_unit, sem);
            let all = [self.all];
            self.b.dma_start(args, &all, &all);
            self.b.dma_wait(sem, n as i32, &all, &all);
            at += n;
        }
    }

    /// An argument in a register; arrays begin `further` units behind.
    fn operand(&mut self, a: &Operand, further: i64) -> S {
        let sum = |e: &mut Self, mut reg: S, terms: &[(Word, i64)]| {
            for &(word, units) in terms {
                let w = e.load_word(word);
                let w = if units == 1 { w } else { e.b.s_muli(w, units as i32) };
                reg = e.b.s(Op::SAdd, &[reg, w]);
            }
            reg
        };
        match a {
            Operand::Array { at, terms, .. } => {
                let reg = self.b.s_imm((at + further) as i32);
                sum(self, reg, terms)
            }
            Operand::Scalar(w) => self.load_word(*w),
            Operand::Sum(terms) => sum(self, S::ZERO, terms),
            Operand::Linear { word, scale, offset } => {
                let w = self.load_word(*word);
                let w = self.b.s_muli(w, *scale);
                self.b.s_addi(w, *offset)
            }
            Operand::Const(value) => self.b.s_imm(*value),
            Operand::Scratch(row) => self.b.s_imm(*row as i32),
        }
    }

    /// Runs code that emits into another part of the main program, which it is lent.
    pub(super) fn lend(&mut self, b: &mut KernelBuilder, f: impl FnOnce(&mut Self)) {
        std::mem::swap(b, &mut self.b);
        f(self);
        std::mem::swap(b, &mut self.b);
    }

    pub(super) fn while_(&mut self, head: &[Action], cond: Word, body: &[Action]) {
        let mut builder = std::mem::replace(&mut self.b, KernelBuilder::new("", self.chip));
        {
            let this = std::cell::RefCell::new(&mut *self);
            builder.while_(
                |b| {
                    let mut c = S::ZERO;
                    this.borrow_mut().lend(b, |e| {
                        e.actions(head);
                        c = e.load_word(cond);
                    });
                    c
                },
                |b| this.borrow_mut().lend(b, |e| e.actions(body)),
            );
        }
        self.b = builder;
    }

    fn switch(&mut self, index: Word, branches: &[Vec<Action>]) {
        self.branch(index, branches, 0);
    }

    fn branch(&mut self, index: Word, branches: &[Vec<Action>], number: usize) {
        if number + 1 >= branches.len() {
            return branches.iter().skip(number).for_each(|b| self.actions(b));
        }
        let w = self.load_word(index);
        let cond = self.b.def_s(Op::SEqI, &[w.into(), (number as i32).into()]);
        let mut builder = std::mem::replace(&mut self.b, KernelBuilder::new("", self.chip));
        {
            let this = std::cell::RefCell::new(&mut *self);
            builder.if_else(
                cond,
                |b| this.borrow_mut().lend(b, |e| e.actions(&branches[number])),
                |b| this.borrow_mut().lend(b, |e| e.branch(index, branches, number + 1)),
            );
        }
        self.b = builder;
    }
}
