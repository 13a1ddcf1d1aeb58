//! How often the operations of a program were executed: what flops, and everything that they are compared with, are
//! multiplied by.

use systole_isa::Program;
use systole_simulator::{OpProfile, RunResult};

/// Where the code of every operation begins.
pub struct Executions(Vec<Option<u32>>);

impl Executions {
    pub fn new(program: &Program) -> Executions {
        Executions(program.first_bundles())
    }

    /// How often an operation of a device's run was executed: how often the first bundle of its code issued. A run that
    /// goes on knows only how often control entered its code.
    pub fn of(&self, r: &RunResult, o: &OpProfile) -> u64 {
        // Every core of a device executes the main program.
        let counted = r.cores.first().map_or(&r.executions, |c| &c.executions);
        let first = o.op.and_then(|i| self.0.get(i as usize).copied().flatten());
        first.and_then(|b| counted.get(b as usize)).copied().unwrap_or(o.entries)
    }
}
