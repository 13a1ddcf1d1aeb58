//! All code of a plan, before scheduling.

use super::kernel::emit_kernel;
use super::main_program;
use crate::plan::Plan;
use systole_codegen::kernel::Unit;
use systole_hlo::error::{CompileError, Resource, limit};
use systole_isa::program::HostCall;
use systole_isa::{ChipConfig, DmaDesc};

/// A program's kernels (the main program first) and what their instructions refer to by number.
pub struct ProgramCode {
    pub unit: Unit,
    pub descs: Vec<DmaDesc>,
    pub host_calls: Vec<HostCall>,
}

/// The code of a plan. Nothing is decided here.
///
/// # Errors
/// More descriptors than instructions can name, or a plan that does not go together (an internal error).
pub fn emit(plan: &Plan, chip: &ChipConfig) -> Result<ProgramCode, CompileError> {
    let mut kernels = Vec::with_capacity(plan.kernels.len());
    let mut descs = Vec::new();
    // What looks after exchanges is the first kernel behind the plan's.
    let looks = plan.kernels.len() as u32 + 1;
    for k in &plan.kernels {
        let code = emit_kernel(&k.spec, &k.name, looks, chip)?;
        limit(Resource::Descriptors, code.descs.len() as u64, 1 << 16)?;
        if code.needs != k.needs {
            let why = format!("kernel `{}` was planned with {:?} and has {:?}", k.name, k.needs, code.needs);
            return Err(CompileError::internal("emit", why));
        }
        let mut kernel = code.kernel;
        kernel.renumber(descs.len() as u32);
        descs.extend(code.descs);
        kernels.push(kernel);
    }
    let main = main_program::emit(plan, chip, descs);
    let mut unit = Unit { kernels: vec![main.kernel] };
    unit.kernels.extend(kernels);
    unit.kernels.extend(main.subroutines);
    Ok(ProgramCode { unit, descs: main.descs, host_calls: main.host_calls })
}
