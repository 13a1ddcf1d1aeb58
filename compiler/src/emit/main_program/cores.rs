//! Programs for all cores of a device.
//!
//! Every core runs the whole main program: its scalar code, and everything in vector memory, which each has for itself with
//! the same contents. What is in HBM they have in common. Steps that write there are between two barriers, and are either
//! shared out ([`Plan::splits`]: each core makes a part of the result) or done by the first core alone. So between barriers
//! HBM is only read, or each byte belongs to one core.
//!
//! Of loops whose iterations have nothing to do with each other each core does some, by itself: there is a barrier before and
//! behind them, and none inside.
//!
//! Exchanges with other devices are the first core's from beginning to end: it begins one when all cores are done with what
//! it reads and writes, and all go on together once it has ended. While it is under way, the kernels that all run look after
//! it on the first core; the others find none in their scalar memory.

use super::{Emitter, MOST_BYTES};
use crate::plan::action::{Action, Operand};
use crate::plan::step::{Unit, Use, Word};
use crate::plan::{Plan, kernel_semaphores};
use systole_codegen::kernel::build_units::DmaArgs;
use systole_codegen::kernel::{KernelBuilder, S};
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{DmaDesc, Op, Space};

/// Runs `f(i)` on core `i`.
fn each_core(b: &mut KernelBuilder, core: S, at: u32, cores: u32, f: &dyn Fn(&mut KernelBuilder, u32)) {
    if at + 1 == cores {
        return f(b, at);
    }
    let own = b.def_s(Op::SEqI, &[core.into(), (at as i32).into()]);
    b.if_else(own, |b| f(b, at), |b| each_core(b, core, at + 1, cores, f));
}

impl Emitter<'_> {
    /// Whether several cores run the code that is emitted, all of them the same.
    pub(super) fn several(&self) -> bool {
        self.plan.head.cores > 1 && !self.apart
    }

    /// A loop of which each core does iterations of its own, without waiting for others in between.
    pub(super) fn share(&mut self, head: &[Action], cond: Word, body: &[Action]) {
        self.barrier(self.plan.head.cores);
        let apart = std::mem::replace(&mut self.apart, true);
        self.while_(head, cond, body);
        self.apart = apart;
        self.barrier(self.plan.head.cores);
    }

    /// Waits for the other cores; from there on so many of them use HBM.
    pub(super) fn barrier(&mut self, users: u32) {
        if self.several() {
            let all = [self.all];
            self.b.sync_cores(users, &all);
        }
    }

    /// Code of the first core alone.
    pub(super) fn first_core(&mut self, f: impl FnOnce(&mut KernelBuilder)) {
        if !self.several() {
            return f(&mut self.b);
        }
        let core = self.b.def_s(Op::SCore, &[]);
        let first = self.b.def_s(Op::SEqI, &[core.into(), 0.into()]);
        self.b.if_(first, f);
    }

    /// Code of the first core alone that the emitter makes, between no barriers.
    pub(in crate::emit) fn on_first_core(&mut self, f: impl FnOnce(&mut Self)) {
        if !self.several() {
            return f(self);
        }
        let core = self.b.def_s(Op::SCore, &[]);
        let first = self.b.def_s(Op::SEqI, &[core.into(), 0.into()]);
        let mut builder = std::mem::replace(&mut self.b, KernelBuilder::new("", self.chip));
        builder.if_(first, |b| self.lend(b, f));
        self.b = builder;
    }

    /// A barrier, code of the first core alone (which has all of HBM meanwhile), and another barrier.
    pub(super) fn alone(&mut self, f: impl FnOnce(&mut KernelBuilder)) {
        self.barrier(1);
        self.first_core(f);
        self.barrier(self.plan.head.cores);
    }

    /// A copy that `writes` HBM is the first core's.
    pub(super) fn start_copy(&mut self, args: DmaArgs, writes: bool) {
        let all = [self.all];
        if writes && self.several() {
            self.barrier(self.plan.head.cores);
            self.first_core(|b| b.dma_start(args, &all, &all));
        } else {
            self.b.dma_start(args, &all, &all);
        }
    }

    /// Waits for a copy of [`Emitter::start_copy`].
    pub(super) fn wait_copy(&mut self, semaphore: u32, bytes: i32, writes: bool) {
        let all = [self.all];
        if writes && self.several() {
            self.first_core(|b| b.dma_wait(semaphore, bytes, &all, &all));
            self.barrier(self.plan.head.cores);
        } else {
            self.b.dma_wait(semaphore, bytes, &all, &all);
        }
    }

    /// Calls a kernel on all cores, in parts, or on the first one alone, by what it writes.
    pub(super) fn call_cores(&mut self, kernel: usize, args: &[Operand]) {
        let far = |a: &Operand| matches!(a, Operand::Array { usage, unit: Unit::Granules, .. } if *usage != Use::Read);
        if !self.several() || !args.iter().any(far) {
            let regs: Vec<S> = args.iter().map(|a| self.operand(a, 0)).collect();
            self.b.call(kernel as u32 + 1, &regs);
            return;
        }
        let plan: &Plan = self.plan;
        match plan.splits.get(&kernel) {
            Some(parts) => {
                let cores = plan.head.cores;
                self.barrier(cores);
                let mut calls: Vec<(u32, Vec<S>)> = Vec::new();
                for p in parts {
                    let by = |i: usize| p.offsets.get(i).copied().unwrap_or(0);
                    let regs = args.iter().enumerate().map(|(i, a)| self.operand(a, by(i))).collect();
                    calls.push((p.kernel as u32 + 1, regs));
                }
                let core = self.b.def_s(Op::SCore, &[]);
                each_core(&mut self.b, core, 0, cores, &|b, i| {
                    let (kernel, regs) = &calls[i as usize];
                    b.call(*kernel, regs);
                });
                self.barrier(cores);
            }
            None => {
                let regs: Vec<S> = args.iter().map(|a| self.operand(a, 0)).collect();
                self.alone(|b| b.call(kernel as u32 + 1, &regs));
            }
        }
    }

    /// Copies within HBM, each core a share.
    pub(super) fn copy_shares(&mut self, from: u64, to: u64, bytes: u64) {
        let (cores, sem) = (self.plan.head.cores, kernel_semaphores(self.chip) - 1);
        let share = bytes.div_ceil(u64::from(cores)).next_multiple_of(HBM_GRANULE);
        let mut copies: Vec<Vec<(u32, u64, i32)>> = Vec::new();
        for core in 0..u64::from(cores) {
            let (mut at, end) = ((core * share).min(bytes), ((core + 1) * share).min(bytes));
            let mut own = Vec::new();
            while at < end {
                let n = (end - at).min(MOST_BYTES);
                own.push((
                    self.desc(DmaDesc::contiguous(Space::Hbm, Space::Hbm, n as u32)),
                    at / HBM_GRANULE,
                    n as i32,
                ));
                at += n;
            }
            copies.push(own);
        }
        self.barrier(cores);
        let all = [self.all];
        let core = self.b.def_s(Op::SCore, &[]);
        each_core(&mut self.b, core, 0, cores, &|b, i| {
            for &(desc, at, n) in &copies[i as usize] {
                let (src, dst) = (b.s_imm((from + at) as i32), b.s_imm((to + at) as i32));
                b.dma_start(DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem }, &all, &all);
                b.dma_wait(sem, n, &all, &all);
            }
        });
        self.barrier(cores);
    }
}
