//! Kernels measured by themselves on the simulated chip, and better tiles and cuts found by trying.
//!
//! Candidates are those that planning remembers for each kernel. A kernel is simulated alone, timing only; equal ones once.

use crate::RuntimeError;
use crate::client::{Client, CompileOptions, Executable, RunOptions};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};
use systole_compiler::plan::Plan;
use systole_compiler::plan::action::Operand;
use systole_compiler::plan::alone::{alone, called};
use systole_compiler::plan::guide::{Guide, Schedule, TunedKernel};
use systole_compiler::plan::spec::{KernelSpec, Way};
use systole_compiler::plan::step::KernelEntry;
use systole_simulator::{Machine, Mode, NoObserver};

/// A kernel's time alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Number in the plan.
    pub kernel: usize,
    pub name: String,
    /// The family, for tables.
    pub family: &'static str,
    /// Cycles by the plan's estimate, and simulated.
    pub estimate: f64,
    pub cycles: u64,
}

/// What tuning found.
#[derive(Clone, Debug, Default)]
pub struct TuneReport {
    /// The schedule file.
    pub schedule: String,
    /// Lines for a database of tuned kernels.
    pub database: String,
    /// Kernels: name, cycles as planned and as tuned, and the way that was better.
    pub better: Vec<(String, u64, u64, String)>,
    /// Kernels that were looked at, and simulations.
    pub kernels: usize,
    pub tried: usize,
    /// Whether the budget was over before everything was tried.
    pub cut_short: bool,
}

impl Client {
    /// Cycles of a kernel by itself, its code in the instruction memory; none if it does not run without data.
    pub fn kernel_cycles(&self, plan: &Plan, kernel: &KernelEntry, args: &[Operand]) -> Option<u64> {
        let run = |times: usize| {
            let small = alone(plan, kernel.clone(), args, times, &self.chip().part(&plan.head.part));
            let program = self.compile_plan(&small, &CompileOptions::default()).ok()?;
            let exe: Executable = self.load(program).ok()?;
            let mut machine = Machine::new(exe.loaded());
            machine.run(&RunOptions::new(Mode::TimingOnly), &mut NoObserver).ok().map(|r| r.cycles)
        };
        // What the second call adds: the first one waits for its code.
        Some(run(2)?.saturating_sub(run(1)?))
    }

    /// Every kernel that a plan calls, measured alone. Kernels that need data or an exchange are left out.
    pub fn measure(&self, plan: &Plan) -> Vec<Measured> {
        let all = called(plan);
        let one = |c: &systole_compiler::plan::alone::Called<'_>| {
            let k = &plan.kernels[c.kernel];
            let cycles = self.kernel_cycles(plan, k, c.args)?;
            let (name, family) = (k.name.clone(), k.spec.family());
            Some(Measured { kernel: c.kernel, name, family, estimate: k.cycles.unwrap_or(0.0), cycles })
        };
        all.par_iter().filter_map(one).collect()
    }

    /// Tries for every kernel the ways that planning remembers, those of the longest kernels first, until the budget is over.
    ///
    /// # Errors
    /// If a found schedule does not hold.
    pub fn tune(&self, plan: &Plan, budget: Duration) -> Result<TuneReport, RuntimeError> {
        let begin = Instant::now();
        let chip = self.chip().part(&plan.head.part);
        let mut all = called(plan);
        all.retain(|c| !plan.kernels[c.kernel].considered.is_empty());
        let weight = |k: usize, calls: u32| plan.kernels[k].cycles.unwrap_or(0.0) * f64::from(calls);
        all.sort_by(|a, b| weight(b.kernel, b.calls).total_cmp(&weight(a.kernel, a.calls)));
        let mut report = TuneReport { kernels: all.len(), ..TuneReport::default() };
        let mut pins: BTreeMap<String, Way> = BTreeMap::new();
        for c in all {
            if begin.elapsed() > budget {
                report.cut_short = true;
                break;
            }
            let entry = &plan.kernels[c.kernel];
            let mut tries = vec![None];
            tries.extend(entry.considered.iter().map(|x| Some(x.way)));
            let times: Vec<(Option<Way>, u64)> = tries
                .par_iter()
                .filter_map(|way| {
                    let spec = way.map_or(Some(entry.spec.clone()), |w| entry.spec.made(w))?;
                    let needs = spec.needs(&chip)?;
                    let kernel = KernelEntry { spec, needs, ..entry.clone() };
                    Some((*way, self.kernel_cycles(plan, &kernel, c.args)?))
                })
                .collect();
            report.tried += times.len();
            let Some(&(None, planned)) = times.first() else { continue };
            let Some(&(Some(way), best)) = times.iter().min_by_key(|t| t.1) else { continue };
            if best >= planned {
                continue;
            }
            report.better.push((entry.name.clone(), planned, best, text(way)));
            report.database += &entry_of(&entry.spec, way, chip.fingerprint());
            let names = c.ops.iter().filter_map(|&o| plan.ops.get(o as usize));
            pins.extend(names.map(|o| (o.name.clone(), way)));
        }
        for (name, way) in pins {
            let _ = writeln!(report.schedule, "{} {name} {}", keyword(way), text(way));
        }
        Schedule::parse(&report.schedule).map_err(|e| RuntimeError::Compile(e.to_string()))?;
        Ok(report)
    }

    /// Options with a schedule.
    ///
    /// # Errors
    /// If the text is no schedule.
    pub fn with_schedule(&self, options: &CompileOptions, text: &str) -> Result<CompileOptions, RuntimeError> {
        let schedule = Schedule::parse(text).map_err(|e| RuntimeError::Request(e.to_string()))?;
        Ok(CompileOptions { guide: Guide { schedule, ..options.guide.clone() }, ..options.clone() })
    }
}

fn keyword(way: Way) -> &'static str {
    match way {
        Way::Tile(_) => "tile",
        Way::Cut(_) => "cut",
        Way::Table { .. } => "table",
    }
}

/// A way as a schedule says it.
fn text(way: Way) -> String {
    match way {
        Way::Tile(t) => format!(
            "(variant: {}, units: {}, outer: {}, rows: {}, splits: {}, groups: {}, windows: ({}, {}, {}))",
            t.variant, t.units, t.outer, t.rows, t.splits, t.groups, t.windows[0], t.windows[1], t.windows[2]
        ),
        Way::Table { block } => format!("(block: {block})"),
        Way::Cut(c) => format!("(outer: {}, dimension: {}, size: {})", c.outer, c.dimension, c.size),
    }
}

/// A line of a database.
fn entry_of(spec: &KernelSpec, way: Way, fingerprint: u64) -> String {
    match (spec, way) {
        (KernelSpec::Product { contraction, .. }, Way::Tile(t)) => {
            TunedKernel::Tile(fingerprint, contraction.clone(), t).to_line()
        }
        (KernelSpec::Blocks { spec, .. }, Way::Cut(c)) => TunedKernel::Cut(fingerprint, spec.clone(), c).to_line(),
        _ => String::new(),
    }
}
