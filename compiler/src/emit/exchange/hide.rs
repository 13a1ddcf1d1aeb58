//! Exchanges under way while other kernels run.
//!
//! Kernels call one subroutine, which takes the exchange further that is under way at the time (if there is one).

use super::super::main_program::Emitter;
use super::Subroutine;
use super::progress::{load, select, store};
use crate::plan::action::Flight;
use crate::plan::collective::{Exchange, State};
use systole_codegen::kernel::{Kernel, KernelBuilder, S};
use systole_isa::Op;

impl Emitter<'_> {
    /// Begins an exchange that other actions follow.
    pub(in crate::emit) fn begin_hidden(&mut self, x: &Exchange, flight: &Flight) {
        let subroutine = self.progress(x, flight, true);
        if !self.concealed.contains(&subroutine) {
            self.concealed.push(subroutine);
        }
        self.set_state(x, flight);
        let number = self.concealed.iter().position(|&s| s == subroutine).unwrap_or(0) as i32 + 1;
        let number = self.b.s_imm(number);
        store(&mut self.b, self.plan.pod.state, State::Current, number);
        self.hidden = Some(subroutine);
    }

    pub(in crate::emit) fn end_hidden(&mut self, x: &Exchange) {
        if let Some(subroutine) = self.hidden.take() {
            self.b.mark(x.op);
            self.run_to_the_end(subroutine);
            store(&mut self.b, self.plan.pod.state, State::Current, S::ZERO);
        }
    }

    /// Takes the exchange under way as far as it goes without waiting, for an operation.
    pub(in crate::emit) fn look(&mut self, op: u32) {
        if let Some(subroutine) = self.hidden {
            self.b.call(subroutine as u32, &[]);
            self.b.mark(op);
        }
    }

    /// Cores other than the first have no exchange to look after.
    pub(in crate::emit) fn look_on_first_core(&mut self) {
        if self.plan.head.cores < 2 {
            return;
        }
        let state = self.plan.pod.state;
        let core = self.b.def_s(Op::SCore, &[]);
        self.b.if_(core, |b| {
            let never = b.s_imm(i32::MAX);
            store(b, state, State::Wanted, never);
        });
    }

    /// The subroutine that kernels call; its code is made when all exchanges are known.
    pub(in crate::emit) fn dispatcher(&mut self) -> usize {
        let chip = self.chip;
        self.subroutine(Subroutine::Looks, |_| KernelBuilder::new("looks", chip).finish())
    }

    /// Makes the code of [`Emitter::dispatcher`].
    pub(in crate::emit) fn finish_looks(&mut self) {
        let concealed = std::mem::take(&mut self.concealed);
        if concealed.is_empty() {
            return;
        }
        let number = self.dispatcher();
        let mut b = KernelBuilder::new("looks", self.chip);
        let current = load(&mut b, self.plan.pod.state, State::Current);
        let which = b.s_addi(current, -1);
        b.if_(current, |b| select(b, which, concealed.len(), &mut |b, i| b.call(concealed[i] as u32, &[])));
        let kernel: Kernel = b.finish();
        self.replace(number, kernel);
    }
}
