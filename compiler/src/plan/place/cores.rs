//! What several cores of a device have to know of each other's work.

use super::Placer;
use crate::plan::action::{Action, CopyKind, Operand, Spot};
use crate::plan::step::{Arg, BufferKind, Unit, Use};
use crate::plan::view::BufId;
use systole_hlo::error::CompileError;

impl Placer<'_> {
    /// Notes a loop whose iterations cores cannot share, as it is placed: in it something else is written to memory that they
    /// have in common than the parts of `written` arrays that stay there. What each core would need there for itself has one place.
    pub(super) fn note_shared_loop(&mut self, (head, body): (&[Action], &[Action]), written: &[BufId], op: u32) {
        let far = |b: &&BufId| self.plan.buffers[b.index()].kind == BufferKind::FarState;
        let made: Vec<u64> = written.iter().filter(far).filter_map(|b| self.memory.places[b.index()].granule).collect();
        if writes_elsewhere(head, &made) || writes_elsewhere(body, &made) {
            self.together.push(op);
        }
    }

    /// What the first core alone made in vector memory, in a call that writes HBM and is not shared out, goes to the others
    /// through HBM.
    pub(super) fn publish(&mut self, kernel: usize, args: &[Arg]) -> Result<(), CompileError> {
        if self.plan.cores < 2 || self.apart || self.parts(kernel).is_some() {
            return Ok(());
        }
        let written = |far: bool| -> Vec<BufId> {
            let one = |(buf, usage, unit)| (usage != Use::Read && (unit == Unit::Granules) == far).then_some(buf);
            args.iter().filter_map(Arg::array).filter_map(one).collect()
        };
        if written(true).is_empty() {
            return Ok(());
        }
        for buf in written(false) {
            let mut out = Vec::new();
            self.memory.store(buf, &mut out)?;
            self.memory.settle(buf, &mut out);
            let row = self.row(buf)?;
            self.memory.load(buf, row, &mut out)?;
            self.memory.settle(buf, &mut out);
            self.copies(out);
        }
        Ok(())
    }
}

/// Whether actions write HBM or common memory elsewhere than in arrays that begin at these granules.
fn writes_elsewhere(actions: &[Action], made: &[u64]) -> bool {
    actions.iter().any(|a| match a {
        Action::Copy(c) => matches!(c.kind, CopyKind::Store { .. }),
        Action::Move { to, .. } => matches!(to, Spot::Hbm(_)),
        Action::Call { args, .. } => args.iter().any(|a| match a {
            Operand::Array { usage, unit: Unit::Granules, at, .. } => {
                *usage != Use::Read && !u64::try_from(*at).is_ok_and(|at| made.contains(&at))
            }
            Operand::Array { unit: Unit::ElementRows | Unit::WordRows, .. }
            | Operand::Scalar(_)
            | Operand::Sum(_)
            | Operand::Linear { .. }
            | Operand::Const(_)
            | Operand::Scratch(_) => false,
        }),
        Action::While { .. } | Action::Switch { .. } => a.regions().any(|region| writes_elsewhere(region, made)),
        Action::Host(_) | Action::Exchange(..) | Action::Begin(..) | Action::End(_) => true,
        Action::Mark(_) | Action::Scalar { .. } | Action::ReadScalar { .. } | Action::Look(_) => false,
    })
}
