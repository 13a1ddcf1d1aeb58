//! How many cores of a device a program runs on: whatever is faster, by the simulator's timing of both.
//!
//! Sharing work among cores pays where kernels are large: results then go through HBM, and cores wait for each other. Small
//! programs, and those that live in one core's vector memory, are faster on one core.

use crate::RuntimeError;
use crate::client::{Client, CompileOptions, Executable, RunOptions};
use crate::transfer::{self, Inputs};
use systole_compiler::graph::Module;
use systole_isa::Program;
use systole_simulator::{Machine, Mode, NoObserver};

/// Cycles below which one core is enough: the barriers of the smallest program take a part of that.
const SMALL: u64 = 10_000;
/// Part of vector memory up to which arrays stay there in the plan that shares out most.
const RESIDENT: u64 = 64;

impl Client {
    /// The cores and the largest array kept in vector memory with which a module is fastest, of those that `options` leave
    /// open, and its program, if it was compiled on the way.
    ///
    /// # Errors
    /// As for compiling on one core.
    pub(crate) fn choose_cores(
        &self,
        module: &Module,
        options: &CompileOptions,
        compile: &dyn Fn(Module, &CompileOptions) -> Result<Program, RuntimeError>,
    ) -> Result<(CompileOptions, Option<Program>), RuntimeError> {
        let cores = self.chip().cores_per_device.max(1);
        let on = |n: u32, max_resident| CompileOptions { cores: Some(n), max_resident, ..options.clone() };
        if cores == 1 || options.pod.devices() > 1 {
            return Ok((on(1, options.max_resident), None));
        }
        if let Some(n) = options.cores {
            return Ok((on(n.clamp(1, cores), options.max_resident), None));
        }
        let alone = on(1, options.max_resident);
        let first = compile(module.clone(), &alone)?;
        let Some(mut best) = self.timed(&first, u64::MAX).filter(|&t| t >= SMALL) else {
            return Ok((alone, Some(first)));
        };
        let mut chosen = (alone, Some(first));
        let mut limits = vec![options.max_resident];
        if options.max_resident.is_none() {
            limits.push(Some(self.chip().vmem.bytes / RESIDENT));
        }
        for limit in limits {
            let shared = on(cores, limit);
            // A plan that does not fit is none.
            let Ok(program) = compile(module.clone(), &shared) else { continue };
            if let Some(t) = self.timed(&program, best).filter(|&t| t < best) {
                best = t;
                chosen = (shared, Some(program));
            }
        }
        Ok(chosen)
    }

    /// Cycles of a program, if they do not depend on data and are not more than `limit`.
    fn timed(&self, program: &Program, limit: u64) -> Option<u64> {
        let exe: Executable = self.load(program.clone()).ok()?;
        let mut machine = Machine::new(exe.loaded());
        transfer::place(program, &Inputs::Drawn(0), Mode::TimingOnly, &mut |at, bytes| machine.write_hbm(at, bytes))
            .ok()?;
        let options = RunOptions { max_cycles: limit, ..RunOptions::new(Mode::TimingOnly) };
        machine.run(&options, &mut NoObserver).ok().map(|r| r.cycles)
    }
}
