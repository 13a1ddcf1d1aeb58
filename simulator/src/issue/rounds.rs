//! The transfers of skipped iterations: what they start and wait for, done one by one.
//!
//! Where the core repeats exactly and no wait holds it up, an iteration's transfers begin at the same cycles as those of the one
//! before, and its waits are taken at the same cycles. When the transfers end is computed as ever. As long as every wait finds
//! its bytes before its cycle, the core's time is what it was.

use super::run::{Core, Effect};
use super::trace::{Trace, What};
use crate::unit::dma::By;
use systole_isa::Space;

/// What a round of iterations does outside the core.
pub(super) struct Rounds {
    steps: Vec<Step>,
    period: u64,
}

/// A transfer or a wait of the last traced round, with how its addresses move from round to round.
struct Step {
    at: u64,
    what: What,
    moves: [i64; 2],
}

impl Rounds {
    /// The rounds that a trace of two shows; `starts`: when they began. None if the rounds differ in time, or
    /// addresses are not known.
    pub fn of(trace: &Trace, iterations: usize, starts: [u64; 2], period: u64) -> Option<Rounds> {
        let (first, last) = trace.halves(iterations)?;
        let step = |(a, b): (&super::trace::Event, &super::trace::Event)| {
            let moves = match (a.what, b.what) {
                (What::Transfer { known: false, .. }, _) | (_, What::Transfer { known: false, .. }) => return None,
                (What::Transfer { src, dst, .. }, What::Transfer { src: s, dst: d, .. }) => [s - src, d - dst],
                (What::Wait { .. }, _) | (_, What::Wait { .. }) => [0; 2],
            };
            (a.at - starts[0] == b.at - starts[1]).then_some(Step { at: b.at, what: b.what, moves })
        };
        let steps = first.iter().zip(last).map(step).collect::<Option<_>>()?;
        Some(Rounds { steps, period })
    }
}

impl Core<'_> {
    /// Does the transfers and waits of at most so many further rounds, up to the first in which a wait would hold up its bundle:
    /// how many.
    pub(super) fn rounds(&mut self, rounds: &Rounds, times: u64) -> u64 {
        let mut before = (self.dma.clone(), self.semaphores.clone(), self.effects.clone());
        for round in 1..=times {
            if !self.round(rounds, round) {
                (self.dma, self.semaphores, self.effects) = before;
                return round - 1;
            }
            before.0.clone_from(&self.dma);
            before.1.clone_from(&self.semaphores);
            before.2.clone_from(&self.effects);
        }
        times
    }

    /// One round; `false` if a wait would hold up its bundle.
    fn round(&mut self, rounds: &Rounds, round: u64) -> bool {
        for step in &rounds.steps {
            let now = step.at + round * rounds.period;
            match step.what {
                What::Wait { sem, bytes } => {
                    match self.semaphores.ready(sem as usize, bytes) {
                        Ok((at, _)) if at < now => {}
                        Ok(_) | Err(_) => return false,
                    }
                    self.semaphores.take(sem as usize, bytes, now);
                    self.apply_effects(now);
                }
                What::Transfer { desc, sem, src, dst, known } => {
                    let g = &self.l.geometry[desc as usize];
                    let [src, dst] = [(src, step.moves[0]), (dst, step.moves[1])].map(|(at, m)| at + m * round as i64);
                    let slot = self.dma.start(g, src, dst, (now, self.blame));
                    self.semaphores.add(sem as usize, slot.end, g.bytes, By::Copy(slot.blame));
                    if g.dst != Space::Vmem && g.bytes > 0 {
                        self.effects.push(Effect { desc, src, dst, end: slot.end, known });
                    }
                }
            }
        }
        true
    }
}
