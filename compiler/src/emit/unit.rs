//! All code of a plan, before scheduling.

use super::kernel::emit_kernel;
use super::main_program;
use crate::plan::Plan;
use crate::plan::action::Action;
use systole_codegen::kernel::{Kernel, Unit};
use systole_hlo::error::{CompileError, Resource, limit};
use systole_isa::program::HostCall;
use systole_isa::{ChipConfig, DmaDesc};

/// A program's kernels (the main program first) and what their instructions refer to by number.
pub struct ProgramCode {
    pub unit: Unit,
    pub descs: Vec<DmaDesc>,
    /// The number of the first descriptor of each kernel of the plan; none where code names other numbers of the program too,
    /// those of host calls.
    pub first_descs: Vec<Option<u32>>,
    pub host_calls: Vec<HostCall>,
    /// Words of scalar memory through which arguments go.
    pub argument_words: u32,
}

/// The code of a plan. Nothing is decided here.
///
/// # Errors
/// More descriptors than instructions can name, or a plan that does not go together (an internal error).
pub fn emit(plan: &Plan, chip: &ChipConfig) -> Result<ProgramCode, CompileError> {
    let mut kernels = Vec::with_capacity(plan.kernels.len());
    let mut descs = Vec::new();
    let mut first_descs = Vec::with_capacity(plan.kernels.len());
    let mut callees = Vec::new();
    let mut hosts = Vec::new();
    // What looks after exchanges is the first kernel behind the plan's.
    let looks = plan.kernels.len() as u32 + 1;
    for k in &plan.kernels {
        let code = emit_kernel(&k.spec, &k.name, looks, chip)?;
        limit(Resource::Descriptors, code.descs.len() as u64, 1 << 16)?;
        if code.needs != k.needs {
            let why = format!("kernel `{}` was planned with {:?} and has {:?}", k.name, k.needs, code.needs);
            return Err(CompileError::internal("emit", why));
        }
        if !code.callees.is_empty() {
            callees.push((kernels.len() + 1, code.callees));
        }
        first_descs.push(code.host_calls.is_empty().then_some(descs.len() as u32));
        if !code.host_calls.is_empty() {
            hosts.push((kernels.len() + 1, code.host_calls));
        }
        let mut kernel = code.kernel;
        kernel.renumber(descs.len() as u32);
        descs.extend(code.descs);
        kernels.push(kernel);
    }
    check_calls(&plan.actions, &kernels)?;
    let main = main_program::emit(plan, chip, descs);
    let mut unit = Unit { kernels: vec![main.kernel] };
    unit.kernels.extend(kernels);
    unit.kernels.extend(main.subroutines);
    for (caller, own) in callees {
        let first = unit.kernels.len() as u32;
        unit.kernels[caller].renumber_calls(first);
        unit.kernels.extend(own);
    }
    let mut host_calls = main.host_calls;
    for (caller, own) in hosts {
        unit.kernels[caller].renumber_host(host_calls.len() as u32);
        host_calls.extend(own);
    }
    let argument_words = unit.pass_in_memory(chip);
    Ok(ProgramCode { unit, descs: main.descs, first_descs, host_calls, argument_words })
}

/// Fails where a call has other arguments than its kernel has parameters.
fn check_calls(actions: &[Action], kernels: &[Kernel]) -> Result<(), CompileError> {
    actions.iter().try_for_each(|a| {
        if let Action::Call { kernel, args } = a {
            let params = kernels.get(*kernel).map_or(0, |k| k.params.len());
            if args.len() != params {
                let what = format!("a call of kernel {kernel} has {} arguments, not {params}", args.len());
                return Err(CompileError::Plan(what));
            }
        }
        a.regions().try_for_each(|region| check_calls(region, kernels))
    })
}
