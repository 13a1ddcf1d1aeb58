//! Operations whose sizes are operands, where they come to static ones: the result's type is static, and sizes, padding
//! and strides that it does not tell are constants.

use super::ast::Operation;
use super::data::{Lowered, broadcast};
use super::lower::{Body, Lower};
use crate::front::hlo_text::PResult;
use crate::graph::{NodeId, Op, PadDim, Shape, SliceDim};

pub(super) fn lower<'a>(
    l: &mut Lower<'a, '_>,
    body: &mut Body<'a>,
    o: &Operation<'a>,
    name: &str,
    args: &[NodeId],
) -> Lowered {
    let Shape::Array(to) = l.result(o)?.clone() else { return Err(o.error("the result must be a tensor")) };
    if to.dynamic.contains(&true) {
        return Err(o.error(format!("`{}` with sizes known at run time only is not supported", o.name)));
    }
    match (name, args) {
        ("dynamic_iota", [_]) => {
            let dim = l.dim(o, &["iota_dimension", "dim"])?;
            l.one(body, o, Op::Iota { dim }, &[])
        }
        ("dynamic_reshape", [x, _]) => l.one(body, o, Op::Reshape, &[*x]),
        ("dynamic_broadcast_in_dim", [x, _]) => broadcast(l, body, o, "broadcast_in_dim", &[*x]),
        ("dynamic_pad", [x, value, low, high, interior]) => {
            let (low, high) = (constants(body, o, *low)?, constants(body, o, *high)?);
            let interior = constants(body, o, *interior)?;
            let all = low.iter().zip(&high).zip(&interior);
            let dims: Option<Vec<PadDim>> = all
                .map(|((&low, &high), &interior)| Some(PadDim { low, high, interior: u64::try_from(interior).ok()? }))
                .collect();
            let fits = |d: &PadDim| [d.low, d.high, d.interior as i64].iter().all(|v| v.unsigned_abs() < 1 << 46);
            match dims {
                Some(dims) if dims.iter().all(fits) => l.one(body, o, Op::Pad { dims }, &[*x, *value]),
                _ => Err(o.error("interior padding must not be negative, and no padding huge")),
            }
        }
        ("real_dynamic_slice", [x, starts, limits, strides]) => {
            let strides = constants(body, o, *strides)?;
            if strides.iter().all(|s| *s == 1) && constants(body, o, *starts).is_err() {
                return l.one(body, o, Op::DynamicSlice { sizes: to.dims }, &[*x, *starts]);
            }
            let (starts, limits) = (constants(body, o, *starts)?, constants(body, o, *limits)?);
            let number = |v: &i64| u64::try_from(*v).ok();
            let all = starts.iter().zip(&limits).zip(&strides);
            let dims: Option<Vec<SliceDim>> = all
                .map(|((s, e), t)| Some(SliceDim { start: number(s)?, limit: number(e)?, stride: number(t)? }))
                .collect();
            match dims {
                Some(dims) => l.one(body, o, Op::Slice { dims }, &[*x]),
                None => Err(o.error("starts, limits and strides must not be negative")),
            }
        }
        _ => Err(o.error(format!("`{}` does not take {} operands", o.name, args.len()))),
    }
}

/// The integers of a constant.
fn constants(body: &Body<'_>, o: &Operation<'_>, id: NodeId) -> PResult<Vec<i64>> {
    let Op::Constant(c) = &body.b.node(id).op else {
        return Err(o.error(format!("`{}` with sizes known at run time only is not supported", o.name)));
    };
    let all: Option<Vec<i64>> = (0..c.elements()).map(|i| c.integer(i)).collect();
    all.ok_or_else(|| o.error("sizes must be integers"))
}
