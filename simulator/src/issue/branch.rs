//! Branches: where they go, what is assumed of unknown conditions, calls and returns.

use super::code::*;
use super::run::{Core, SCALARS};
use crate::fault::FaultKind;
use crate::stats::Cause;
use systole_isa::program::DebugRange;

type Step<T> = Result<T, FaultKind>;

impl Core<'_> {
    /// Where the bundle's branch goes, from the scalars before the bundle: `None` for the next bundle.
    #[inline(always)]
    pub(super) fn decide(&mut self) -> Step<Option<u32>> {
        let known = |core: &Self, reg: u8| core.known >> (reg & 63) & 1 == 1;
        let get = |core: &Self, reg: u8| core.scalars[reg as usize & (SCALARS - 1)];
        Ok(match self.l.code.branches[self.pc as usize] {
            Branch::Jump { target } | Branch::Call { target } => Some(target),
            Branch::NotZero { reg, target } if known(self, reg) => (get(self, reg) != 0).then_some(target),
            Branch::Zero { reg, target } if known(self, reg) => (get(self, reg) == 0).then_some(target),
            Branch::Loop { reg, target } if known(self, reg) => (get(self, reg) != 1).then_some(target),
            Branch::Loop { target, .. } | Branch::NotZero { target, .. } => {
                self.assume(target, true)?.then_some(target)
            }
            Branch::Zero { target, .. } => self.assume(target, false)?.then_some(target),
            Branch::Return | Branch::Halt | Branch::Host { .. } => None,
            Branch::Trap { code } => {
                let message = self.l.program.traps.get(code as usize).cloned().unwrap_or(format!("trap {code}"));
                return Err(FaultKind::Trap { message });
            }
        })
    }

    /// Whether a branch on an unknown value is taken, from the options. `if_not_zero`: the branch's sense.
    fn assume(&mut self, target: u32, if_not_zero: bool) -> Step<bool> {
        let pc = self.pc;
        let op = match self.l.code.ops[pc as usize] {
            DebugRange::CALLER => self.stats.op(),
            op => op,
        };
        let debug = self.l.program.debug.ops.get(op as usize);
        let name = debug.map_or(String::new(), |o| o.name.trim_start_matches('%').to_string());
        let about = self.options.assume.iter().filter(|a| a.is_about(&name));
        let assume = about.max_by_key(|a| a.name.trim_start_matches('%').len());
        let Some(assume) = assume else {
            return Err(FaultKind::UnknownBranch { loop_name: name });
        };
        let stays = |core: &mut Self, ran: u64| {
            let n = core.assumed.entry(pc).or_insert(ran);
            *n += 1;
            let stays = *n <= assume.trips;
            if !stays {
                core.assumed.remove(&pc);
            }
            stays
        };
        if target <= pc {
            // At the end of a body: the body has run once already.
            return Ok(stays(self, 1));
        }
        let closes = |b: u32| match self.l.code.branches[b as usize] {
            Branch::Jump { target } | Branch::NotZero { target, .. } | Branch::Zero { target, .. } => target <= pc,
            Branch::Loop { target, .. } => target <= pc,
            Branch::Call { .. } | Branch::Return | Branch::Halt | Branch::Trap { .. } => false,
            Branch::Host { .. } => false,
        };
        let has_branch = |b: &u32| self.l.code.heads[*b as usize].flags & FLAG_BRANCH != 0;
        if (pc + 1..target).filter(has_branch).any(closes) {
            // The test at a loop's head leaves forward.
            return Ok(!stays(self, 0));
        }
        Ok((assume.trips != 0) == if_not_zero)
    }

    /// Moves on to the next bundle after a branch; `false` at the end of the program.
    #[inline(always)]
    pub(super) fn branch(&mut self, taken: Option<u32>) -> Step<bool> {
        let branch = self.l.code.branches[self.pc as usize];
        if let Branch::Loop { reg, .. } = branch {
            let known = self.known >> (reg & 63) & 1 == 1;
            self.write_scalar(reg, self.scalars[reg as usize & (SCALARS - 1)].wrapping_sub(1), known);
        }
        let next = match (branch, taken) {
            (Branch::Halt, _) => return Ok(false),
            (Branch::Host { call }, _) => {
                self.host_call(call)?;
                self.pc += 1;
                return Ok(true);
            }
            (Branch::Call { .. }, Some(target)) => {
                if self.calls.len() >= self.l.chip.core.call_depth as usize {
                    return Err(FaultKind::CallDepth { depth: self.l.chip.core.call_depth });
                }
                if self.calls.is_empty() {
                    self.called = (target, self.now + 1);
                }
                self.calls.push((self.pc + 1, self.stats.op()));
                target
            }
            (Branch::Return, _) => {
                let (back, op) = self.calls.pop().ok_or(FaultKind::ReturnWithoutCall)?;
                // What the caller is part of goes on.
                self.enter(op, self.pc + 1, self.now + 1);
                if self.events && self.calls.is_empty() {
                    self.observer.kernel(self.called.0, self.called.1, self.now + 1);
                }
                back
            }
            (_, Some(target)) => target,
            (_, None) => {
                self.pc += 1;
                return Ok(true);
            }
        };
        self.stats.jump(self.pc, next);
        self.floor = self.floor.max((self.now + self.bubble) << 4 | Cause::Fetch as u64);
        self.pc = next;
        if (next as usize) < self.l.code.ops.len() {
            self.enter_op(self.now + 1);
        }
        if self.l.code.blocks.of.get(next as usize).is_some_and(|b| *b != self.fetch.current) {
            self.enter_block();
        }
        Ok(true)
    }
}
