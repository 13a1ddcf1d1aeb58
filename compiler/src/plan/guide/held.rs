//! Whether what was planned is what the schedule says: the last word on every pin, from the draft alone.

use super::order::{name_of, places};
use super::schedule::FILE;
use super::{Schedule, listed};
use crate::plan::spec::Way;
use crate::plan::step::{Arg, Draft, KernelEntry, Step, Unit};
use std::collections::{BTreeMap, BTreeSet};
use systole_hlo::error::CompileError;

/// Fails at the first pin that something in the draft contradicts, or that nothing there obeys; the error has the lines of all others.
///
/// # Errors
/// [`CompileError::Schedule`].
pub fn check(draft: &Draft, schedule: &Schedule) -> Result<(), CompileError> {
    let mut seen = Seen { draft, schedule, held: BTreeSet::new(), broken: BTreeMap::new() };
    seen.members();
    seen.exchanges();
    seen.steps(&draft.steps);
    let known = seen.held.iter().chain(seen.broken.keys()).copied().collect();
    let Seen { mut broken, .. } = seen;
    broken.extend(schedule.idle(&known));
    let mut broken = broken.into_iter();
    let Some((line, message)) = broken.next() else { return Ok(()) };
    Err(CompileError::Schedule { file: FILE.to_string(), line, message, others: broken.map(|b| b.0).collect() })
}

/// Why a kernel is not made as a pin says, and how it could be made.
fn none_like_that(what: &str, op: &str, kernel: &KernelEntry) -> String {
    let ways = kernel.spec.way().into_iter().chain(kernel.considered.iter().map(|c| c.way));
    format!("no {what} of `{op}` that fits is like that; {}", listed("the best are", ways.map(|way| way.to_string())))
}

struct Seen<'a> {
    draft: &'a Draft,
    schedule: &'a Schedule,
    /// Lines of pins that something obeys.
    held: BTreeSet<usize>,
    /// Those that something contradicts, and why.
    broken: BTreeMap<usize, String>,
}

impl Seen<'_> {
    /// Nothing that has a kernel of its own is computed in another one.
    fn members(&mut self) {
        for (op, members) in &self.draft.members {
            for m in members {
                if let Some(line) = self.schedule.alone(m) {
                    let of = &self.draft.ops[*op as usize].name;
                    self.broken.entry(line).or_insert(format!("`{m}` is computed in the kernel of `{of}`"));
                }
            }
        }
    }

    fn exchanges(&mut self) {
        for c in &self.draft.pod.choices {
            if let Some((algorithm, line)) = self.schedule.exchange(&c.name) {
                self.holds(c.algorithm == algorithm, line, || {
                    format!("`{}` is exchanged another way: {}", c.name, c.reason)
                });
            }
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        for (first, second, line) in self.schedule.orders() {
            let of = |pattern: &str| places(steps, self.draft, pattern);
            if let (Some(last), Some(next)) = (of(first).last(), of(second).first()) {
                self.holds(last < next, line, || format!("`{first}` does not come before all of `{second}`"));
            }
        }
        for step in steps {
            if let Some(line) = name_of(step, self.draft).and_then(|name| self.schedule.alone(name)) {
                self.held.insert(line);
            }
            if let Step::Call { kernel, args, .. } = step {
                self.call(name_of(step, self.draft).unwrap_or_default(), *kernel, args);
            }
            step.regions().for_each(|region| self.steps(region));
        }
    }

    fn call(&mut self, op: &str, kernel: usize, args: &[Arg]) {
        let parts = self.draft.splits.get(&kernel);
        let parts: Vec<usize> = parts.map_or_else(|| vec![kernel], |p| p.iter().map(|p| p.kernel).collect());
        for k in parts {
            let draft = self.draft;
            let entry = &draft.kernels[k];
            match entry.spec.way() {
                Some(Way::Tile(tile)) => {
                    if let Some((pin, line)) = self.schedule.tile(op) {
                        self.holds(pin.allows(&tile), line, || none_like_that("tile", op, entry));
                    }
                }
                Some(Way::Cut(cut)) => {
                    if let Some((pin, line)) = self.schedule.cut(op) {
                        self.holds(pin.allows(&cut), line, || none_like_that("cut", op, entry));
                    }
                }
                Some(Way::Table { block }) => {
                    if let Some((pin, line)) = self.schedule.table(op) {
                        self.holds(pin.allows(block), line, || none_like_that("table", op, entry));
                    }
                }
                None => {}
            }
        }
        for (buf, _, unit) in args.iter().filter_map(Arg::array) {
            let array = &self.draft.buffers[buf.index()].name;
            if let Some((streams, line)) = self.schedule.streams(array) {
                let place = if streams { "vector memory" } else { "HBM" };
                self.holds((unit == Unit::Granules) == streams, line, || {
                    format!("`{op}` reaches `{array}` in {place}")
                });
            }
        }
    }

    /// Notes that a pin holds somewhere, or is broken.
    fn holds(&mut self, holds: bool, line: usize, why: impl FnOnce() -> String) {
        if holds {
            self.held.insert(line);
        } else {
            self.broken.entry(line).or_insert_with(why);
        }
    }
}
