//! `state-shapes`: loops carry arrays without dimensions of size 1.
//!
//! What a scan keeps of each iteration often ends in such a dimension (statistics of rows that keep their dimensions): along lanes
//! it would fill one of them, and what the body takes out or puts in would be laid out anew in every iteration. The state has the
//! array without it; the body, the condition and the loop's users reshape it, and these reshapes meet those of `squeeze`. Loops
//! that share a body are left alone.

use super::for_own_loops;
use super::forms::{Form, change, elements};
use crate::edit::Draft;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Module, Shape};

/// Runs the pass.
///
/// # Errors
/// None.
pub fn run(mut module: Module, draft: &mut Draft) -> Result<Module, CompileError> {
    for_own_loops(&mut module, |module, index, id, called| {
        let Some(parts) = elements(module, index, id, called) else { return };
        let forms: Vec<Form> = parts.iter().map(|p| squeezed(p).map_or(Form::Own, Form::Shape)).collect();
        if forms.iter().any(|f| *f != Form::Own) && draft.fire("state-shape") {
            change(module, index, id, called, &forms);
        }
    });
    Ok(module)
}

/// An array's shape without dimensions of size 1, where it has some and others too.
fn squeezed(s: &Shape) -> Option<Shape> {
    let a = s.as_array()?;
    let dims: Vec<u64> = a.dims.iter().copied().filter(|&d| d != 1).collect();
    let fits = !a.dynamic.contains(&true) && dims.len() < a.dims.len() && !dims.is_empty() && a.elements() > 0;
    fits.then(|| Shape::array(a.dtype, &dims))
}
