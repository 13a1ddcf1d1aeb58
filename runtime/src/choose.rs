//! Choices by the simulator's timing of whole programs: what is faster is kept.
//!
//! Chains over large arrays may be done strip by strip; that saves traffic with HBM, and costs a loop and copies of strips.
//!
//! Devices of a pod may be put at any places ([`CompileOptions::any_order`]): orders that fit the program's groups to the mesh
//! are tried ([`crate::order`]).
//!
//! Loops may do what exchanges of the next and of the last iteration need beside an iteration's work; that hides them, and
//! costs arrays in the state.
//!
//! Sharing work among cores pays where kernels are large: results then go through HBM, and cores wait for each other. Small
//! programs, and those that live in one core's vector memory, are faster on one core; in pods, so are those that wait for
//! exchanges, which are the first core's.
//!
//! Of a chip that is larger than those that are known, a program may use a part ([`ChipConfig::parts`]): a plan for the smaller chip
//! is one for the larger, and what the planner makes of more room, registers or units is not always faster.
//!
//! [`ChipConfig::parts`]: systole_isa::ChipConfig::parts

use crate::RuntimeError;
use crate::client::{Client, CompileOptions, Executable, RunOptions, Ways};
use crate::host::Queues;
use crate::order::orders;
use crate::pod::{Attached, PodOptions};
use crate::transfer::Inputs;
use systole_compiler::compile::Compiled;
use systole_compiler::graph::Module;
use systole_compiler::plan::guide::Guide;
use systole_isa::Program;
use systole_isa::chip::Part;
use systole_isa::program::PodShape;
use systole_simulator::Mode;

/// Cycles below which one core is enough: the barriers of the smallest program take a part of that.
const SMALL: u64 = 10_000;
/// Part of vector memory up to which arrays stay there in the plan that shares out most.
const RESIDENT: u64 = 64;
/// Share of the cycles without strips, or with, from which those with, or without, are hardly fewer.
const NEAR: f64 = 0.95;
/// Per cent of vector memory for a strip's arrays that are tried where the usual part makes strips.
const SHARES: [u32; 3] = [50, 30, 0];
/// Operations of a module from which on fewer are tried: every try plans all of it.
const MANY: usize = 6_000;

/// Compiles a module.
type Compile<'c> = &'c dyn Fn(&Module, &CompileOptions) -> Result<Compiled, RuntimeError>;

/// Options, and their program if it was compiled on the way.
type Chosen = (CompileOptions, Option<Program>);
/// What is chosen, or why nothing can be.
type Choice = Result<Chosen, RuntimeError>;

impl Client {
    /// The part of the chip with which a module is fastest, and the cores, strips and the largest array kept in vector memory, of those
    /// that `options` leave open.
    ///
    /// # Errors
    /// If it compiles for no part, as for the whole chip on one core.
    pub(crate) fn choose(&self, module: &Module, options: &CompileOptions, compile: Compile<'_>) -> Choice {
        let mut chosen = self.choose_on_part(module, options, compile);
        let sizes = if options.ways.part.is_some() { &[] } else { self.parts() };
        if sizes.is_empty() {
            return chosen;
        }
        let mut best = None;
        if let Ok((options, program)) = &mut chosen {
            let program = match program {
                Some(program) => program,
                None => program.insert(compile(module, options)?.program),
            };
            let Some(time) = self.timed(program, u64::MAX) else { return chosen };
            best = Some((time, program.code.clone()));
        }
        let mut part = Part::default();
        for size in sizes {
            let from = part;
            for smaller in size {
                // Places of devices are those of the whole chip: they are for the links.
                let pod = chosen.as_ref().map_or(&options.asked.pod, |c| &c.0.asked.pod).clone();
                let tried = smaller.with(&from);
                let ways = Ways { part: Some(tried), ..options.ways };
                let other = CompileOptions { any_order: false, ..options.clone() }.on(pod).by(ways);
                // What does not fit a part is none.
                let Ok((other, program)) = self.choose_on_part(module, &other, compile) else { continue };
                let Some(program) = program.or_else(|| Some(compile(module, &other).ok()?.program)) else { continue };
                if best.as_ref().is_some_and(|b| b.1 == program.code) {
                    continue;
                }
                let limit = best.as_ref().map_or(u64::MAX, |b| b.0);
                let time = self.timed(&program, limit);
                if best.is_none() || time.is_some_and(|t| t < limit) {
                    best = Some((time.unwrap_or(u64::MAX), program.code.clone()));
                    part = tried;
                    chosen = Ok((other, Some(program)));
                }
            }
        }
        chosen
    }

    /// The cores, the strips and the largest array kept in vector memory with which a module is fastest, of those that
    /// `options` leave open.
    ///
    /// # Errors
    /// As for compiling on one core.
    fn choose_on_part(&self, module: &Module, options: &CompileOptions, compile: Compile<'_>) -> Choice {
        let (options, ordered) = match options.any_order {
            true => self.choose_order(module, options, compile)?,
            false => (options.clone(), None),
        };
        let cores = self.chip().cores_per_device.max(1);
        let several = options.asked.pod.devices() > 1;
        let given = if cores == 1 { Some(1) } else { options.ways.cores.map(|n| n.clamp(1, cores)) };
        let ways = Ways { cores: Some(given.unwrap_or(1)), ..options.ways };
        let first = options.by(ways);
        let strips = ways.strips;
        let (first, program) = match several || strips.is_some() {
            true => (first, ordered.filter(|_| given.unwrap_or(1) == 1)),
            false => self.choose_strips(module, first, compile)?,
        };
        let (first, program) = match several && ways.ahead.is_none() {
            true => self.choose_ahead(module, first, compile)?,
            false => (first, program),
        };
        if given.is_some() {
            return Ok((first, program));
        }
        let program = match program {
            Some(program) => program,
            None => compile(module, &first)?.program,
        };
        self.choose_cores(module, (first, program), strips, compile)
    }

    /// The places of devices with which a module is fastest on one core of each, with its program there; of equally fast ones
    /// the first.
    fn choose_order(&self, module: &Module, options: &CompileOptions, compile: Compile<'_>) -> Choice {
        let fixed = CompileOptions { any_order: false, ..options.clone() };
        let Some(topology) = options.asked.pod.topology.as_ref().filter(|_| options.asked.pod.devices() > 1) else {
            return Ok((fixed, None));
        };
        let placed = |order: Vec<u32>| -> Option<CompileOptions> {
            let pod = PodShape { topology: Some(topology.clone().ordered(order).ok()?), ..options.asked.pod.clone() };
            Some(fixed.clone().on(pod).by(Ways { cores: Some(1), ..fixed.ways }))
        };
        let Some(mut best) = placed((0..topology.devices()).collect()) else { return Ok((fixed, None)) };
        let mut program = compile(module, &best)?.program;
        let groups: Vec<Vec<u32>> = program.pod.partners.iter().flat_map(|p| p.1.iter().cloned()).collect();
        let Some(mut time) = self.timed(&program, u64::MAX) else {
            let why = "the program's time depends on its data, so no order of devices can be chosen";
            return Err(RuntimeError::Request(format!("--device-order auto: {why}; name one")));
        };
        for other in orders(topology, &groups).into_iter().skip(1).filter_map(placed) {
            // An order with which something does not fit is none.
            let Ok(done) = compile(module, &other) else { continue };
            if let Some(t) = self.timed(&done.program, time).filter(|&t| t < time) {
                (best, time, program) = (other, t, done.program);
            }
        }
        Ok((best.by(options.ways), Some(program)))
    }

    /// Whether loops do parts of other iterations beside one's work.
    fn choose_ahead(&self, module: &Module, options: CompileOptions, compile: Compile<'_>) -> Choice {
        let with = |ahead| options.clone().by(Ways { ahead: Some(ahead), ..options.ways });
        let ahead = match compile(module, &with(true)) {
            Ok(done) if !done.found.ahead => return Ok((with(false), Some(done.program))),
            // What does not fit is none.
            done => done.ok().and_then(|d| Some((self.timed(&d.program, u64::MAX)?, d.program))),
        };
        let plain = compile(module, &with(false))?.program;
        Ok(match ahead {
            Some((time, program)) if self.timed(&plain, time).is_none_or(|t| t > time) => (with(true), Some(program)),
            _ => (with(false), Some(plain)),
        })
    }

    /// Strips, or none, and how many of the arrays that stand in the way of others are streamed.
    fn choose_strips(&self, module: &Module, options: CompileOptions, compile: Compile<'_>) -> Choice {
        let first = compile(module, &options)?;
        let mut chosen = (options.clone(), Some(first.program));
        let found = first.found;
        if found.strips == 0 && !found.crowded {
            return Ok(chosen);
        }
        let Some(mut best) = chosen.1.as_ref().and_then(|p| self.timed(p, u64::MAX)) else { return Ok(chosen) };
        // A plan that does not fit is none.
        let mut attempt = |chosen: &mut Chosen, other: CompileOptions| {
            let done = compile(module, &other).ok()?;
            if let Some(t) = self.timed(&done.program, best).filter(|&t| t < best) {
                best = t;
                *chosen = (other, Some(done.program));
            }
            Some(done.found.crowded)
        };
        let few = |options: &CompileOptions| {
            let guide = Guide { few_aside: true, ..options.guide.clone() };
            CompileOptions { guide, ..options.clone() }
        };
        if found.crowded {
            attempt(&mut chosen, few(&options));
        }
        let many = module.computations.iter().map(|c| c.nodes.len()).sum::<usize>() >= MANY;
        for share in SHARES.into_iter().filter(|&s| found.strips > 0 && (s != SHARES[1] || !many)) {
            let other = options.clone().by(Ways { strips: Some(share), ..options.ways });
            let crowded = attempt(&mut chosen, other.clone()).is_some_and(|crowded| crowded);
            if crowded && share == SHARES[0] {
                attempt(&mut chosen, few(&other));
            }
        }
        Ok(chosen)
    }

    /// All cores, or the one that a program was compiled for. `strips`: those that are asked for; of others, what one core gains by
    /// them several may lose, and the other way round.
    fn choose_cores(
        &self,
        module: &Module,
        (alone, first): (CompileOptions, Program),
        strips: Option<u32>,
        compile: Compile<'_>,
    ) -> Choice {
        let cores = self.chip().cores_per_device;
        let Some(mut best) = self.timed(&first, u64::MAX).filter(|&t| t >= SMALL) else {
            return Ok((alone, Some(first)));
        };
        let mut chosen = (alone.clone(), Some(first));
        // How many strips a plan has, if it fits, and the cycles of the fastest so far.
        let mut attempt = |chosen: &mut Chosen, max_resident, strips| -> Option<(usize, u64)> {
            let guide = Guide { max_resident, ..alone.guide.clone() };
            let ways = Ways { cores: Some(cores), strips, ..alone.ways };
            let shared = CompileOptions { guide, ways, ..alone.clone() };
            let done = compile(module, &shared).ok()?;
            if let Some(t) = self.timed(&done.program, best).filter(|&t| t < best) {
                best = t;
                *chosen = (shared, Some(done.program));
            }
            Some((done.found.strips, best))
        };
        let resident = alone.guide.max_resident;
        let made = attempt(&mut chosen, resident, alone.ways.strips);
        let open = strips.is_none() && alone.asked.pod.devices() <= 1;
        let mut near = false;
        if open && (alone.ways.strips.is_some() || made.is_some_and(|m| m.0 > 0)) {
            let other = if alone.ways.strips == Some(0) { None } else { Some(0) };
            let both = made.zip(attempt(&mut chosen, resident, other));
            near = both.is_some_and(|(one, other)| other.1 < one.1 && other.1 as f64 > NEAR * one.1 as f64);
        }
        if open && alone.ways.strips.is_some_and(|n| n > 0) {
            attempt(&mut chosen, resident, None);
        }
        if resident.is_none() {
            let strips = chosen.0.ways.strips;
            let vmem = self.chip().part(&alone.ways.part.unwrap_or_default()).vmem.bytes;
            attempt(&mut chosen, Some(vmem / RESIDENT), strips);
            // What is hardly faster with all that vector memory keeps may be slower with less.
            if near {
                attempt(&mut chosen, Some(vmem / RESIDENT), alone.ways.strips);
            }
        }
        Ok(chosen)
    }

    /// Cycles of a program, if they do not depend on data and are not more than `limit`.
    fn timed(&self, program: &Program, limit: u64) -> Option<u64> {
        let exe: Executable = self.load(program.clone()).ok()?;
        let options = RunOptions { max_cycles: limit, ..RunOptions::new(Mode::TimingOnly) };
        let (pod, mut queues) = (PodOptions::default(), vec![Queues::default()]);
        let drawn = |_| Inputs::Drawn(0);
        let done = self
            .finish_pod(&exe, &drawn, &options, &pod, Attached { queues: &mut queues, ..Attached::default() })
            .ok()?;
        Some(done.run.cycles())
    }
}
