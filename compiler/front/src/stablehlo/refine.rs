//! Sizes that types leave open (`tensor<?xf32>`): taken from the operands, or from operands that are constants.
//!
//! Only what is static after all is read. The graph has no dimension without a size or a bound.

use super::ast::{Operation, Region};
use super::lower::{Body, Lower, Site};
use super::types::{UNKNOWN, is_known, spell};
use crate::hlo_text::PResult;
use systole_hlo::graph::infer::infer_shape;
use systole_hlo::graph::{ArrayShape, NodeId, Op, Shape};

/// Longest list of sizes that is followed back to constants.
const MAX_SIZES: u64 = 64;

impl Site<'_, '_, '_> {
    /// The shape of an operation's result, of which the text gives the type and perhaps not all sizes.
    pub fn refined(&self, op: &Op, args: &[NodeId]) -> PResult<Shape> {
        let declared = self.l.declared(self.o)?;
        if is_known(declared) {
            return Ok(declared.clone());
        }
        let shapes: Vec<&Shape> = args.iter().map(|x| self.body.b.shape(*x)).collect();
        if let Ok(found) = infer_shape(op, &shapes, &self.l.module) {
            return Ok(found);
        }
        // Conversions change the element type alone.
        match (op, &shapes[..], declared) {
            (Op::Convert | Op::BitcastConvert, [Shape::Array(x)], Shape::Array(to)) if x.rank() == to.rank() => {
                Ok(Shape::Array(ArrayShape { dtype: to.dtype, ..x.clone() }))
            }
            _ => Err(self.l.open(self.o, declared)),
        }
    }

    /// The result's shape with the sizes that operand `sizes` lists.
    pub fn sized(&self, sizes: NodeId) -> PResult<ArrayShape> {
        let o = self.o;
        let declared = self.l.declared(o)?;
        let Shape::Array(to) = declared else { return Err(o.error("the result must be a tensor")) };
        if is_known(declared) {
            return Ok(to.clone());
        }
        let Some(list) = integers(self.body, sizes, 16) else { return Err(self.l.open(o, declared)) };
        let dims: Option<Vec<u64>> = list.iter().map(|v| u64::try_from(*v).ok().filter(|v| *v < 1 << 48)).collect();
        match dims {
            Some(d) if d.len() == to.rank() && d.iter().zip(&to.dims).all(|(d, t)| d == t || *t == UNKNOWN) => {
                let shape = ArrayShape::new(to.dtype, &d);
                crate::hlo_text::shape::check_size(&shape).map_err(|why| o.error(why))?;
                Ok(shape)
            }
            _ => Err(o.error(format!("the sizes {list:?} do not fit {}", spell(declared)))),
        }
    }
}

impl<'a> Lower<'a, '_> {
    /// The error that a size is not known.
    pub fn open(&self, o: &Operation<'a>, shape: &Shape) -> Box<systole_hlo::diag::Diagnostic> {
        let d = o.error(format!("the sizes of {} are not known before the program runs", spell(shape)));
        Box::new(d.note("give sizes or bounds: tensor<?xf32, #stablehlo.bounds<8>>"))
    }
}

/// A region whose open arguments have the shapes of `values`.
pub(super) fn region<'a>(body: &Body<'a>, r: &Region<'a>, values: &[NodeId]) -> Region<'a> {
    let mut r = r.clone();
    for (arg, v) in r.args.iter_mut().zip(values) {
        if !is_known(&arg.1) {
            arg.1 = body.b.shape(*v).clone();
        }
    }
    r
}

/// The integers of a value that follows from constants and static sizes.
#[allow(clippy::wildcard_enum_match_arm, reason = "sizes that depend on anything else are not known here")]
pub(super) fn integers(body: &Body<'_>, id: NodeId, depth: usize) -> Option<Vec<i64>> {
    let n = body.b.node(id);
    let elements = n.shape.as_array()?.elements();
    if depth == 0 || elements > MAX_SIZES {
        return None;
    }
    let operand = |i: usize| integers(body, n.operands[i], depth - 1);
    match &n.op {
        Op::Constant(c) => (0..c.elements()).map(|i| c.integer(i)).collect(),
        Op::Convert | Op::Reshape => operand(0),
        Op::GetDimensionSize { dim } => {
            let a = body.b.shape(n.operands[0]).as_array()?;
            if a.dynamic.get(*dim).copied().unwrap_or(false) {
                return None;
            }
            Some(vec![i64::try_from(*a.dims.get(*dim)?).ok()?])
        }
        Op::Concatenate { dim: 0 } => {
            let parts: Option<Vec<Vec<i64>>> = (0..n.operands.len()).map(operand).collect();
            Some(parts?.concat())
        }
        Op::Slice { dims } => {
            let [d] = &dims[..] else { return None };
            let all = operand(0)?;
            let range = all.get(usize::try_from(d.start).ok()?..usize::try_from(d.limit).ok()?)?;
            Some(range.iter().step_by(usize::try_from(d.stride).ok()?.max(1)).copied().collect())
        }
        Op::Broadcast { dims } if dims.is_empty() => Some(vec![*operand(0)?.first()?; elements as usize]),
        Op::Binary(b) => operand(0)?.iter().zip(&operand(1)?).map(|(x, y)| b.of_integers(*x, *y)).collect(),
        _ => None,
    }
}
