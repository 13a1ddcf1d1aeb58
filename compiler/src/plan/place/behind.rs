//! Copies of whole arrays that run behind other work: loads before they are needed, and stores of what will have to leave vector
//! memory before it does.

use super::Placer;
use crate::plan::memory::vmem_map;
use crate::plan::step::{Arg, Step, Unit, Use};
use crate::plan::view::BufId;
use systole_hlo::error::CompileError;

/// Semaphores kept for copies that cannot wait.
const SPARE: usize = 8;

impl<'a> Placer<'a> {
    /// Starts loads of what the next steps read, as far as there is free room.
    /// What the call in between (`args`) writes is not there yet.
    pub(super) fn prefetch(&mut self, args: &'a [Arg], rest: &'a [Step]) -> Result<(), CompileError> {
        const AHEAD: usize = 6;
        let mut out = Vec::new();
        let written: Vec<BufId> =
            args.iter().filter_map(Arg::array).filter(|a| a.1 != Use::Read).map(|a| a.0).collect();
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

    /// Counts what each step writes into vector memory.
    pub(super) fn count_written(&mut self) {
        let mut rows: Vec<u64> = Vec::new();
        for (i, writes) in self.memory.life.writes.iter().enumerate() {
            for &w in writes {
                rows.resize(rows.len().max(w as usize + 1), 0);
                rows[w as usize] += self.memory.rows_of(BufId(i as u32));
            }
        }
        let mut sum = 0;
        self.written_before = rows
            .iter()
            .map(|r| {
                sum += r;
                sum - r
            })
            .collect();
        self.written_before.push(sum);
    }

    /// Word rows that the steps between two write.
    fn written_between(&self, from: u32, to: u32) -> u64 {
        let before = |step: u32| {
            let last = self.written_before.len().saturating_sub(1);
            self.written_before.get((step as usize).min(last)).copied().unwrap_or(0)
        };
        before(to).saturating_sub(before(from + 1))
    }

    /// Starts to store what a call has written, where it will have to leave vector memory before it is read, or is a result: it then
    /// leaves without waiting. Not in loops, which find memory as they leave it, nor where several cores would wait for the copy.
    pub(super) fn store_early(&mut self, args: &[Arg]) -> Result<(), CompileError> {
        if self.inside > 0 || self.plan.cores > 1 {
            return Ok(());
        }
        let mut out = Vec::new();
        for a in args {
            let Arg::Array { buf, usage, unit, .. } = a else { continue };
            let p = &self.memory.places[buf.index()];
            let here = *usage != Use::Read && *unit != Unit::Granules && p.row.is_some() && !p.in_hbm;
            if here && self.leaves(*buf) && self.memory.semaphores_free() > SPARE && self.memory.granule(*buf).is_ok() {
                self.memory.store(*buf, &mut out)?;
            }
        }
        self.copies(out);
        Ok(())
    }

    /// Whether an array that this step writes is put out before it is read again, by what is written until then.
    fn leaves(&self, buf: BufId) -> bool {
        let life = &self.memory.life;
        let written = life.writes[buf.index()].iter().copied().find(|&w| w > self.now);
        match (life.next_read(buf, self.now), written) {
            (_, Some(w)) if life.next_read(buf, self.now).is_none_or(|r| w <= r) => false,
            (Some(read), _) => self.written_between(self.now, read) > vmem_map(self.memory.chip).arrays,
            (None, _) => life.last[buf.index()] == u32::MAX,
        }
    }
}
