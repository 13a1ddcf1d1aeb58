//! From a kernel's spec to its code: the one place that knows every family.

use crate::plan::spec::{KernelSpec, Looks};
use blocks::Body;
use systole_codegen::emit::factor::{cholesky_kernel, solve_kernel};
use systole_codegen::emit::fetch::fetch_kernel;
use systole_codegen::emit::hook::Hook;
use systole_codegen::emit::loops::{loop_kernel, recurrence_kernel, reduce_kernel};
use systole_codegen::emit::mosaic::mosaic_kernel;
use systole_codegen::emit::moves::move_kernel;
use systole_codegen::emit::rows::{gather_kernel, near_kernel, pick_kernel, scatter_kernel, singles_kernel};
use systole_codegen::emit::sort::sort_kernel;
use systole_codegen::emit::{blocks, mxu};
use systole_codegen::kernel::{KernelCode, Needs};
use systole_hlo::error::CompileError;
use systole_isa::ChipConfig;

/// The code of a kernel; `looks_kernel` is the number of what looks after exchanges.
///
/// # Errors
/// A spec whose tile or cut does not go with it (an internal error: planning has looked at it).
pub fn emit_kernel(
    spec: &KernelSpec,
    name: &str,
    looks_kernel: u32,
    chip: &ChipConfig,
) -> Result<KernelCode, CompileError> {
    let hook = |Looks { wanted, semaphore }: Looks| Hook { kernel: looks_kernel, wanted, semaphore };
    let plain = |kernel| KernelCode::plain(kernel, Needs::default());
    let wrong = |why: String| CompileError::internal("emit", format!("kernel `{name}`: {why}"));
    Ok(match spec {
        KernelSpec::Body(body) => {
            let kernel = match body {
                Body::Loop(s) => loop_kernel(s, chip),
                Body::Reduce(s) => reduce_kernel(s, chip),
                Body::Move(s) => move_kernel(s, chip),
                Body::Pick(s) => pick_kernel(s, chip),
            };
            KernelCode::plain(kernel, spec.needs(chip).unwrap_or_default())
        }
        KernelSpec::Blocks { spec, cut, share, looks } => {
            let k = blocks::block_kernel(spec, (*cut, looks.map(hook)), *share, chip);
            k.ok_or_else(|| wrong(format!("no cut {cut:?}")))?
        }
        KernelSpec::Product { contraction, tile, looks } => {
            let hook = looks.map(hook);
            let mut convert = mxu::Convert(contraction.out.dtype);
            let mut finishing = contraction.finish.as_ref().map(mxu::Finishing);
            let epilogue: &mut dyn mxu::Epilogue = match &mut finishing {
                Some(f) => f,
                None => &mut convert,
            };
            let k = mxu::contraction_kernel(contraction, (tile, hook), name, chip, epilogue);
            k.map_err(|e| wrong(e.to_string()))?
        }
        KernelSpec::Gather { rows, far } if rows.single => singles_kernel(rows, *far, chip),
        KernelSpec::Gather { rows, far } if rows.near => near_kernel(rows, *far, chip),
        KernelSpec::Gather { rows, far } => gather_kernel(rows, *far, chip),
        KernelSpec::Scatter(s) => scatter_kernel(s, chip),
        KernelSpec::Fetch(s) => fetch_kernel(s, chip),
        KernelSpec::Sort { sort, pass } => plain(sort_kernel(sort, *pass, chip)),
        KernelSpec::Cholesky(s) => plain(cholesky_kernel(s, chip)),
        KernelSpec::Solve(s) => plain(solve_kernel(s, chip)),
        KernelSpec::Recurrence(s) => plain(recurrence_kernel(s, chip)),
        KernelSpec::Mosaic(s) => mosaic_kernel(s, name, chip).map_err(|e| wrong(e.to_string()))?.code,
    })
}
