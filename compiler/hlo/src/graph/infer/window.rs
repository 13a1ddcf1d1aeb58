//! Rules of reductions and windows.

use super::{Rule, Site, ensure, fail, one_or_tuple, sized};
use crate::graph::{ArrayShape, CompId, Shape, WindowDim};
use systole_isa::DType;

/// Places of a window along a dimension. A window of size 0 is allowed for convolutions only.
pub(super) fn output_size(s: &Site<'_>, w: &WindowDim, size: u64, convolution: bool) -> Rule<i128> {
    let ok = (w.size > 0 || convolution) && w.stride > 0 && w.base_dilation > 0 && w.window_dilation > 0;
    ensure(ok, "window_positive", || {
        format!("size, stride and dilations of the window of {} must be positive", s.name())
    })?;
    let dilated = |n: u64, by: u64| if n == 0 { 0 } else { (n as i128 - 1) * by as i128 + 1 };
    let padded = dilated(size, w.base_dilation) + w.pad_low as i128 + w.pad_high as i128;
    let window = dilated(w.size, w.window_dilation);
    Ok(if padded <= 0 || window > padded { 0 } else { (padded - window) / w.stride as i128 + 1 })
}

/// Operands of one size, then as many initial scalars of their types.
fn inputs<'a>(s: &Site<'a>) -> Rule<(Vec<&'a ArrayShape>, Vec<DType>)> {
    let count = s.operands.len();
    ensure(count >= 2 && count.is_multiple_of(2), "operand_count", || {
        format!("{} takes as many initial values as operands, not {count} in all", s.name())
    })?;
    let arrays: Vec<&ArrayShape> = (0..count / 2).map(|i| s.array(i)).collect::<Rule<_>>()?;
    for (i, a) in arrays.iter().enumerate() {
        let init = s.scalar(count / 2 + i)?;
        ensure(a.dims == arrays[0].dims, "same_sizes", || {
            format!("the operands of {} must have the same sizes, not {} and {a}", s.name(), arrays[0])
        })?;
        ensure(init.dtype == a.dtype, "same_type", || {
            format!("the initial value {init} of {} differs in type from {a}", s.name())
        })?;
    }
    let types = arrays.iter().map(|a| a.dtype).collect();
    Ok((arrays, types))
}

pub(super) fn reduce(s: &Site<'_>, dims: &[usize], body: CompId) -> Rule {
    let (arrays, types) = inputs(s)?;
    s.dims(dims, arrays[0].rank(), "its operand")?;
    s.combiner(body, &types)?;
    let kept: Vec<usize> = (0..arrays[0].rank()).filter(|d| !dims.contains(d)).collect();
    Ok(one_or_tuple(
        (arrays.iter())
            .map(|a| {
                let sizes: Vec<u64> = kept.iter().map(|&d| a.dims[d]).collect();
                let mut out = ArrayShape::new(a.dtype, &sizes);
                if kept.iter().any(|&d| a.is_dynamic(d)) {
                    out.dynamic = kept.iter().map(|&d| a.is_dynamic(d)).collect();
                }
                Shape::Array(out)
            })
            .collect(),
    ))
}

fn windowed(s: &Site<'_>, window: &[WindowDim], dims: &[u64]) -> Rule<Vec<i128>> {
    ensure(window.len() == dims.len(), "window_rank", || {
        format!("the window of {} has {} dimensions, its operand {}", s.name(), window.len(), dims.len())
    })?;
    window.iter().zip(dims).map(|(w, &d)| output_size(s, w, d, false)).collect()
}

pub(super) fn reduce_window(s: &Site<'_>, window: &[WindowDim], body: CompId) -> Rule {
    let (arrays, types) = inputs(s)?;
    s.combiner(body, &types)?;
    let sizes = windowed(s, window, &arrays[0].dims)?;
    Ok(one_or_tuple(arrays.iter().map(|a| sized(a.dtype, &sizes)).collect::<Rule<_>>()?))
}

pub(super) fn select_and_scatter(s: &Site<'_>, window: &[WindowDim], select: CompId, scatter: CompId) -> Rule {
    s.count(3)?;
    let (a, source, init) = (s.array(0)?, s.array(1)?, s.scalar(2)?);
    ensure(source.dtype == a.dtype && init.dtype == a.dtype, "same_type", || {
        format!("select-and-scatter of {a} with source {source} and initial value {init}: the types differ")
    })?;
    let scalar = Shape::array(a.dtype, &[]);
    let chosen = s.signature(select, &[scalar.clone(), scalar])?;
    ensure(chosen.same(&Shape::array(DType::Pred, &[])), "computation_result", || {
        format!("the select computation must return pred[], not {chosen}")
    })?;
    s.combiner(scatter, &[a.dtype])?;
    let places = windowed(s, window, &a.dims)?;
    let fits = source.dims.iter().map(|&d| d as i128).eq(places.iter().copied());
    ensure(fits, "select_and_scatter_source", || {
        format!("the window has {places:?} places on {a}, the source is {source}")
    })?;
    Ok(Shape::array(a.dtype, &a.dims))
}

pub(super) fn scan(s: &Site<'_>, dim: usize, carries: usize, body: CompId) -> Rule {
    let count = s.operands.len();
    ensure(count >= carries, "operand_count", || format!("scan with {carries} carries has {count} operands"))?;
    let inputs = &s.operands[..count - carries];
    let arrays: Vec<&ArrayShape> = (0..inputs.len()).map(|i| s.array(i)).collect::<Rule<_>>()?;
    let mut params = Vec::new();
    for a in &arrays {
        s.dim(dim, a.rank(), "its input")?;
        ensure(a.dims[dim] == arrays[0].dims[dim], "same_sizes", || format!("scan goes over {} and {a}", arrays[0]))?;
        let mut dims = a.dims.clone();
        dims.remove(dim);
        params.push(Shape::array(a.dtype, &dims));
    }
    params.extend(s.operands[count - carries..].iter().map(|c| (*c).clone()));
    let result = s.signature(body, &params)?;
    let parts = match result {
        Shape::Tuple(t) if t.len() >= carries => t.clone(),
        r @ (Shape::Array(_) | Shape::Tuple(_) | Shape::Token) => {
            return fail(
                "computation_result",
                format!("the computation of scan must return outputs and {carries} carries, not {r}"),
            );
        }
    };
    let outputs = parts.len() - carries;
    let (Some(first), true) =
        (arrays.first(), parts[outputs..].iter().zip(&params[inputs.len()..]).all(|(a, b)| a.same(b)))
    else {
        return fail("computation_result", "the carries of scan must keep their shapes");
    };
    let mut out = Vec::new();
    for (i, p) in parts.iter().enumerate() {
        match p {
            Shape::Array(a) if i < outputs => {
                let mut dims: Vec<i128> = a.dims.iter().map(|&d| d as i128).collect();
                s.dim(dim, dims.len() + 1, "the output")?;
                dims.insert(dim, first.dims[dim] as i128);
                out.push(sized(a.dtype, &dims)?);
            }
            p @ (Shape::Array(_) | Shape::Tuple(_) | Shape::Token) => out.push(p.clone()),
        }
    }
    Ok(Shape::Tuple(out))
}
