//! Kernels measured by themselves on the simulated chip, and better tiles and cuts found by trying.
//!
//! Candidates are those that planning remembers for each kernel. A kernel is simulated alone, timing only; equal ones once. What is
//! better alone is kept where the whole program is shorter with it.

use crate::RuntimeError;
use crate::client::{Client, CompileOptions, Executable, RunOptions};
use crate::pod::{Attached, PodOptions};
use crate::source::Source;
use crate::transfer::Inputs;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use systole_compiler::plan::Plan;
use systole_compiler::plan::action::Operand;
use systole_compiler::plan::alone::{alone, called};
use systole_compiler::plan::guide::{Guide, Schedule, TunedKernel, words};
use systole_compiler::plan::spec::{KernelSpec, Way};
use systole_compiler::plan::step::KernelEntry;
use systole_simulator::{Machine, Mode, NoObserver};

/// Part of the budget that goes to kernels; the rest is for whole programs.
const SEARCH: f64 = 0.6;

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
    /// The schedule file: pins with which the whole program is shorter.
    pub schedule: String,
    /// Cycles of the whole program as planned, and with the schedule.
    pub program: (u64, u64),
    /// Pins in the schedule, and those that were found.
    pub pins: (usize, usize),
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

    /// Tries for every kernel the ways that planning remembers, those of the longest kernels first, and keeps of the better ones
    /// those with which the whole program takes less time. What is kept is a schedule that holds.
    ///
    /// # Errors
    /// If the program cannot be compiled, or its run fails; a program that is planned already.
    pub fn tune(
        &self,
        source: &Source,
        name: &str,
        options: &CompileOptions,
        budget: Duration,
    ) -> Result<TuneReport, RuntimeError> {
        if let Source::Plan(_) | Source::Program(_) = source {
            return Err(RuntimeError::Request(format!("{name}: only a module has decisions left to be made")));
        }
        let begin = Instant::now();
        let plan = self.plan_source(source.clone(), name, options)?;
        let (mut report, pins) = self.search(&plan, begin + budget.mul_f64(SEARCH));
        let program = Whole { client: self, source, name, options, until: begin + budget };
        let planned = program.cycles(&[])?;
        let mut kept = Kept { pins: Vec::new(), cycles: planned, cut_short: false };
        program.keep(&pins, &mut kept)?;
        report.cut_short |= kept.cut_short;
        report.pins = (kept.pins.len(), pins.len());
        report.program = (planned, kept.cycles);
        report.schedule = schedule(&kept.pins);
        Ok(report)
    }

    /// Ways of kernels that take less time alone, as pins of their operations, those that gain most first.
    fn search(&self, plan: &Plan, until: Instant) -> (TuneReport, Vec<Pin>) {
        let chip = self.chip().part(&plan.head.part);
        let mut all = called(plan);
        all.retain(|c| !plan.kernels[c.kernel].considered.is_empty());
        let weight = |k: usize, calls: u32| plan.kernels[k].cycles.unwrap_or(0.0) * f64::from(calls);
        all.sort_by(|a, b| weight(b.kernel, b.calls).total_cmp(&weight(a.kernel, a.calls)));
        let mut report = TuneReport { kernels: all.len(), ..TuneReport::default() };
        let mut pins: BTreeMap<String, (u64, Way)> = BTreeMap::new();
        for c in all {
            if Instant::now() > until {
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
            report.better.push((entry.name.clone(), planned, best, words(way).1));
            report.database += &entry_of(&entry.spec, way, chip.fingerprint());
            let names = c.ops.iter().filter_map(|&o| plan.ops.get(o as usize));
            pins.extend(names.map(|o| (o.name.clone(), (planned - best, way))));
        }
        let mut pins: Vec<Pin> = pins.into_iter().map(|(op, (gain, way))| Pin { op, way, gain }).collect();
        pins.sort_by_key(|p| std::cmp::Reverse(p.gain));
        (report, pins)
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

/// A way that was found for an operation's kernel, and the cycles by which a call is shorter.
#[derive(Clone)]
struct Pin {
    op: String,
    way: Way,
    gain: u64,
}

/// A line for each pin.
fn schedule(pins: &[Pin]) -> String {
    let line = |p: &Pin| {
        let (keyword, numbers) = words(p.way);
        format!("{keyword} {} {numbers}\n", p.op)
    };
    pins.iter().map(line).collect()
}

/// A program that is compiled again and again with different pins.
struct Whole<'a> {
    client: &'a Client,
    source: &'a Source,
    name: &'a str,
    options: &'a CompileOptions,
    until: Instant,
}

/// The pins with which the whole program is shortest, and its cycles with them.
struct Kept {
    pins: Vec<Pin>,
    cycles: u64,
    cut_short: bool,
}

impl Whole<'_> {
    /// Cycles of the program with these pins.
    fn cycles(&self, pins: &[Pin]) -> Result<u64, RuntimeError> {
        let options = self.client.with_schedule(self.options, &schedule(pins))?;
        let options = CompileOptions { timing_only: true, ..options };
        let exe = self.client.load(self.client.compile_source(self.source.clone(), self.name, &options, None)?)?;
        let run = RunOptions::new(Mode::TimingOnly);
        let drawn = |_| Inputs::Drawn(0);
        let done = self.client.finish_pod(&exe, &drawn, &run, &PodOptions::default(), Attached::default())?;
        Ok(done.run.cycles())
    }

    /// Adds those of the pins that make the program shorter: all of them, else what is good of either half. A kernel that is
    /// better alone may leave others less room, or less time to hide copies behind.
    fn keep(&self, pins: &[Pin], kept: &mut Kept) -> Result<(), RuntimeError> {
        if pins.is_empty() {
            return Ok(());
        }
        if Instant::now() > self.until {
            kept.cut_short = true;
            return Ok(());
        }
        let all: Vec<Pin> = kept.pins.iter().chain(pins).cloned().collect();
        match self.cycles(&all) {
            Ok(cycles) if cycles < kept.cycles => {
                (kept.pins, kept.cycles) = (all, cycles);
                Ok(())
            }
            // Where one that was kept is in the way of new ones these are halved too.
            Err(RuntimeError::Schedule(_, lines)) if lines.iter().all(|&l| l > kept.pins.len()) => {
                let holds = |i: usize| !lines.contains(&(kept.pins.len() + i + 1));
                let rest: Vec<Pin> =
                    pins.iter().enumerate().filter(|(i, _)| holds(*i)).map(|(_, p)| p.clone()).collect();
                self.keep(&rest, kept)
            }
            Ok(_) | Err(RuntimeError::Schedule(..)) => {
                if pins.len() == 1 {
                    return Ok(());
                }
                let (first, second) = pins.split_at(pins.len() / 2);
                self.keep(first, kept)?;
                self.keep(second, kept)
            }
            Err(e) => Err(e),
        }
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
