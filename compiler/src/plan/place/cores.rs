//! What several cores of a device have to know of each other's work.

use super::Placer;
use crate::plan::step::{Arg, Unit, Use};
use crate::plan::view::BufId;
use systole_hlo::error::CompileError;

impl Placer<'_> {
    /// What the first core alone made in vector memory, in a call that writes HBM and is not shared out, goes to the others
    /// through HBM.
    pub(super) fn publish(&mut self, kernel: usize, args: &[Arg]) -> Result<(), CompileError> {
        if self.plan.cores < 2 || self.parts(kernel).is_some() {
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
