//! Exchanges under way while other steps run: their moves are made between those steps, and inside large products, which
//! call them every few steps of their own.

use super::Flight;
use super::ring::{MOST_STAGES, State};
use crate::compile::renumber;
use crate::emit::mxu::Hook;
use crate::error::CompileError;
use crate::kernel::S;
use crate::plan::collective::{Exchange, How, message_cycles, move_cycles};
use crate::plan::contraction::product_entry;
use crate::plan::main_program::Emitter;
use crate::plan::step::KernelEntry;

/// Work that an exchange is spread over, as a share: moves are made a little early, so that the last ones are over too.
const SPREAD: f64 = 0.9;

/// An exchange that is under way.
pub(in crate::plan) struct Hidden {
    flight: Flight,
    /// Estimated cycles of each stage's moves, and moves of each stage.
    stages: Vec<(f64, usize)>,
    /// Estimated cycles of the work that hides it, and of what is done of that.
    work: f64,
    done: f64,
}

/// A product that calls moves.
pub(in crate::plan) struct Hooked {
    pub entry: KernelEntry,
    /// The kernel's number for calls.
    pub number: u32,
    /// Steps between moves, by stage.
    spacing: Vec<i32>,
}

impl Hidden {
    /// Cycles between moves, over those of the moves themselves.
    fn stretch(&self) -> f64 {
        let total: f64 = self.stages.iter().map(|p| p.0 * p.1 as f64).sum();
        (self.work * SPREAD / total.max(1.0)).max(1.0)
    }

    /// Moves that should be made after so much work.
    fn due(&self, done: f64) -> usize {
        let mut left = done / self.stretch();
        let mut moves = 1;
        for &(cycles, count) in &self.stages {
            let fit = (left / cycles.max(1.0)) as usize;
            if fit < count {
                return moves + fit;
            }
            moves += count;
            left -= cycles * count as f64;
        }
        moves
    }
}

impl Emitter<'_> {
    /// Begins an exchange that `work` cycles of other steps follow.
    pub(in crate::plan) fn begin_hidden(&mut self, x: &Exchange, work: f64) -> Result<(), CompileError> {
        let flight = self.begin_exchange(x, true)?;
        let chip = self.memory.chip;
        let stages = match &x.how {
            How::Ring(r) => {
                let stages = |p| [(message_cycles(chip), 2), (move_cycles(r, p, chip), r.moves(p) as usize - 2)];
                r.phases.iter().flat_map(stages).collect()
            }
            How::Direct(_) | How::Transfer(_) => Vec::new(),
        };
        self.hidden = Some(Hidden { flight, stages, work, done: 0.0 });
        Ok(())
    }

    pub(in crate::plan) fn end_hidden(&mut self, x: &Exchange) {
        if let Some(mut h) = self.hidden.take() {
            self.end_exchange(x, &mut h.flight);
        }
    }

    /// So many cycles of work are done: makes the moves that are due. `made`: the work has made its own.
    pub(in crate::plan) fn worked(&mut self, cycles: f64, made: bool) {
        let Some(mut h) = self.hidden.take() else { return };
        h.done += cycles;
        let due = h.due(h.done);
        if made {
            h.flight.made = h.flight.made.max(due);
        } else {
            self.make_moves(&mut h.flight, due);
        }
        self.b.mark(self.op);
        self.hidden = Some(h);
    }

    /// The product's kernel that makes moves of the exchange under way.
    pub(in crate::plan) fn hooked(&mut self, kernel: usize) -> Option<Hooked> {
        let product = self.plan.products.get(&kernel)?;
        let h = self.hidden.as_ref().filter(|h| !h.stages.is_empty())?;
        if h.due(h.done + product.cycles) <= h.due(h.done) {
            return None;
        }
        let (chip, state) = (self.memory.chip, self.plan.pod.state);
        let hook = Hook {
            kernel: h.flight.subroutine as u32,
            word: state + State::Stage as u32,
            spacing: state + State::Spacing as u32,
            end: h.stages.len() as u32,
        };
        let stretch = h.stretch();
        let (entry, _, steps) = product_entry(&product.contraction, chip, Some(hook)).ok()?;
        let step = product.cycles / f64::from(steps.max(1));
        let every = |&(cycles, _): &(f64, usize)| (cycles * stretch / step.max(1.0)).floor().clamp(1.0, 1e9) as i32;
        // Behind the last stage there is nothing to do.
        let spacing: Vec<i32> = h.stages.iter().map(every).chain([i32::MAX]).take(MOST_STAGES + 1).collect();
        let number = self.subroutine(format!("{:?} {hook:?}", product.contraction), |e| {
            let base = e.descs.len() as u32;
            e.descs.extend(entry.descs.iter().cloned());
            let mut kernel = entry.kernel.clone();
            renumber(&mut kernel.body, base);
            kernel
        });
        Some(Hooked { entry, number: number as u32, spacing })
    }

    /// Calls a product that makes moves.
    pub(in crate::plan) fn call_hooked(&mut self, h: &Hooked, regs: &[S]) {
        let first = self.plan.pod.state + State::Spacing as u32;
        for (i, &steps) in h.spacing.iter().enumerate() {
            let v = self.b.s_imm(steps);
            self.b.smem_store(v, S::ZERO, (first + i as u32) as i32);
        }
        self.b.call(h.number, regs);
    }
}
