//! Operations whose sizes are operands, where they come to static ones: the result's type is static, and sizes, padding
//! and strides that it does not tell are constants.

use super::ast::Operation;
use super::contraction::convolution;
use super::data::{Lowered, broadcast, gather};
use super::lower::{Body, Site};
use super::refine::integers;
use crate::hlo_text::PResult;
use systole_hlo::graph::{NodeId, Op, PadDim, Shape, SliceDim};

pub(super) fn lower(s: &mut Site<'_, '_, '_>, name: &str, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let with_sizes = |shape| Operation { result_types: vec![Shape::Array(shape)], ..o.clone() };
    match (name, args) {
        ("dynamic_iota", [sizes]) => {
            let sized = with_sizes(s.sized(*sizes)?);
            let dim = s.l.dim(o, &["iota_dimension", "dim"])?;
            s.of(&sized).one(Op::Iota { dim }, &[])
        }
        ("dynamic_reshape", [x, sizes]) => {
            let sized = with_sizes(s.sized(*sizes)?);
            s.of(&sized).one(Op::Reshape, &[*x])
        }
        ("dynamic_broadcast_in_dim", [x, sizes]) => {
            let sized = with_sizes(s.sized(*sizes)?);
            broadcast(&mut s.of(&sized), "broadcast_in_dim", &[*x])
        }
        ("dynamic_gather", [x, indices, sizes]) => {
            let sizes: Option<Vec<u64>> = constants(s.body, o, *sizes)?
                .into_iter()
                .map(|v| u64::try_from(v).ok().filter(|v| *v < 1 << 48))
                .collect();
            let Some(sizes) = sizes else { return Err(o.error("slice sizes must not be negative or huge")) };
            let gather = gather(s.l, o, sizes)?;
            s.one(Op::Gather(gather), &[*x, *indices])
        }
        ("dynamic_conv", [x, kernel, padding]) => {
            let padding = constants(s.body, o, *padding)?;
            let conv = convolution(s, &[*x, *kernel], Some(padding))?;
            s.one(Op::Convolution(Box::new(conv)), &[*x, *kernel])
        }
        ("dynamic_pad", [x, value, low, high, interior]) => {
            let (low, high) = (constants(s.body, o, *low)?, constants(s.body, o, *high)?);
            let interior = constants(s.body, o, *interior)?;
            let all = low.iter().zip(&high).zip(&interior);
            let dims: Option<Vec<PadDim>> = all
                .map(|((&low, &high), &interior)| Some(PadDim { low, high, interior: u64::try_from(interior).ok()? }))
                .collect();
            let fits = |d: &PadDim| [d.low, d.high, d.interior as i64].iter().all(|v| v.unsigned_abs() < 1 << 46);
            match dims {
                Some(dims) if dims.iter().all(fits) => s.one(Op::Pad { dims }, &[*x, *value]),
                _ => Err(o.error("interior padding must not be negative, and no padding huge")),
            }
        }
        ("real_dynamic_slice", [x, starts, limits, strides]) => {
            let strides = constants(s.body, o, *strides)?;
            if strides.iter().all(|s| *s == 1) && constants(s.body, o, *starts).is_err() {
                let to = s.l.result(o)?.as_array().ok_or_else(|| o.error("the result must be a tensor"))?;
                return s.one(Op::DynamicSlice { sizes: to.dims.clone() }, &[*x, *starts]);
            }
            let (starts, limits) = (constants(s.body, o, *starts)?, constants(s.body, o, *limits)?);
            let number = |v: &i64| u64::try_from(*v).ok();
            let all = starts.iter().zip(&limits).zip(&strides);
            let dims: Option<Vec<SliceDim>> = all
                .map(|((s, e), t)| Some(SliceDim { start: number(s)?, limit: number(e)?, stride: number(t)? }))
                .collect();
            match dims {
                Some(dims) => s.one(Op::Slice { dims }, &[*x]),
                None => Err(o.error("starts, limits and strides must not be negative")),
            }
        }
        _ => Err(o.error(format!("`{}` does not take {} operands", o.name, args.len()))),
    }
}

/// The integers of a value that follows from constants.
fn constants(body: &Body<'_>, o: &Operation<'_>, id: NodeId) -> PResult<Vec<i64>> {
    let found = integers(body, id, 16);
    found.ok_or_else(|| o.error(format!("`{}` with sizes known at run time only is not supported", o.name)))
}
