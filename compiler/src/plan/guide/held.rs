//! Whether what was planned is what the schedule says: the last word on every pin, from the draft alone.

use super::order::{name_of, places};
use super::{Schedule, impossible};
use crate::plan::spec::KernelSpec;
use crate::plan::step::{Arg, Draft, Step, Unit};
use std::collections::BTreeSet;
use systole_hlo::error::CompileError;

/// Fails at a pin that something in the draft contradicts, or that nothing there obeys.
///
/// # Errors
/// [`CompileError::Schedule`].
pub fn check(draft: &Draft, schedule: &Schedule) -> Result<(), CompileError> {
    let mut seen = Seen { draft, schedule, held: BTreeSet::new() };
    seen.members()?;
    seen.exchanges()?;
    seen.steps(&draft.steps)?;
    schedule.idle(&seen.held)
}

struct Seen<'a> {
    draft: &'a Draft,
    schedule: &'a Schedule,
    /// Lines of pins that something obeys.
    held: BTreeSet<usize>,
}

impl Seen<'_> {
    /// Nothing that has a kernel of its own is computed in another one.
    fn members(&self) -> Result<(), CompileError> {
        for (op, members) in &self.draft.members {
            for m in members {
                if let Some(line) = self.schedule.alone(m) {
                    let of = &self.draft.ops[*op as usize].name;
                    return Err(impossible(line, format!("`{m}` is computed in the kernel of `{of}`")));
                }
            }
        }
        Ok(())
    }

    fn exchanges(&mut self) -> Result<(), CompileError> {
        for c in &self.draft.pod.choices {
            if let Some((algorithm, line)) = self.schedule.exchange(&c.name) {
                self.holds(c.algorithm == algorithm, line, || {
                    format!("`{}` is exchanged another way: {}", c.name, c.reason)
                })?;
            }
        }
        Ok(())
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), CompileError> {
        for (first, second, line) in self.schedule.orders() {
            let of = |pattern: &str| places(steps, self.draft, pattern);
            if let (Some(last), Some(next)) = (of(first).last(), of(second).first()) {
                self.holds(last < next, line, || format!("`{first}` does not come before all of `{second}`"))?;
            }
        }
        for step in steps {
            if let Some(line) = name_of(step, self.draft).and_then(|name| self.schedule.alone(name)) {
                self.held.insert(line);
            }
            if let Step::Call { kernel, args, .. } = step {
                self.call(name_of(step, self.draft).unwrap_or_default(), *kernel, args)?;
            }
            step.regions().try_for_each(|region| self.steps(region))?;
        }
        Ok(())
    }

    fn call(&mut self, op: &str, kernel: usize, args: &[Arg]) -> Result<(), CompileError> {
        let parts = self.draft.splits.get(&kernel);
        let parts: Vec<usize> = parts.map_or_else(|| vec![kernel], |p| p.iter().map(|p| p.kernel).collect());
        for k in parts {
            match &self.draft.kernels[k].spec {
                KernelSpec::Product { tile, .. } => {
                    if let Some((pin, line)) = self.schedule.tile(op) {
                        self.holds(pin.allows(tile), line, || format!("`{op}` has another tile: {tile}"))?;
                    }
                }
                KernelSpec::Blocks { cut, .. } => {
                    if let Some((pin, line)) = self.schedule.cut(op) {
                        self.holds(pin.allows(cut), line, || format!("`{op}` is cut another way: {cut}"))?;
                    }
                }
                KernelSpec::Body(_)
                | KernelSpec::Gather { .. }
                | KernelSpec::Scatter(_)
                | KernelSpec::Fetch(_)
                | KernelSpec::Sort { .. }
                | KernelSpec::Cholesky(_)
                | KernelSpec::Solve(_)
                | KernelSpec::Recurrence(_)
                | KernelSpec::Mosaic(_) => {}
            }
        }
        for (buf, _, unit) in args.iter().filter_map(Arg::array) {
            let array = &self.draft.buffers[buf.index()].name;
            if let Some((streams, line)) = self.schedule.streams(array) {
                let place = if streams { "vector memory" } else { "HBM" };
                self.holds((unit == Unit::Granules) == streams, line, || {
                    format!("`{op}` reaches `{array}` in {place}")
                })?;
            }
        }
        Ok(())
    }

    /// Notes that a pin holds somewhere, or fails.
    fn holds(&mut self, holds: bool, line: usize, why: impl FnOnce() -> String) -> Result<(), CompileError> {
        if !holds {
            return Err(impossible(line, why()));
        }
        self.held.insert(line);
        Ok(())
    }
}
