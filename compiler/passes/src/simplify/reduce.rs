//! Rules for reductions.

use super::fold::number;
use crate::edit::Emit;
use systole_hlo::graph::elementwise::Neutral;
use systole_hlo::graph::{Binary, CompId, Literal, NodeId, Op, Shape};
use systole_isa::DType;

/// The operation of a computation that combines its two parameters by one binary operation.
pub fn combiner(b: &Emit, body: CompId) -> Option<Binary> {
    let c = &b.draft.computations[body.index()];
    let root = c.node(c.root);
    let Op::Binary(op) = root.op else { return None };
    let both = c.params.len() == 2 && root.operands.len() == 2 && root.operands.iter().all(|o| c.params.contains(o));
    (both && root.operands[0] != root.operands[1]).then_some(op)
}

/// Whether a value changes nothing when combined by an operation.
pub fn is_identity(op: Binary, l: &Literal) -> bool {
    let Some(v) = number(l) else { return false };
    match op.neutral() {
        Some(Neutral::Zero) => v == 0.0,
        Some(Neutral::One) => v == 1.0,
        Some(Neutral::Least) => l.dtype.is_float() && v == f64::NEG_INFINITY,
        Some(Neutral::Greatest) => l.dtype.is_float() && v == f64::INFINITY,
        Some(Neutral::Ones) => l.dtype == DType::Pred && v == 1.0,
        None => false,
    }
}

pub fn reduce(b: &mut Emit, operands: &[NodeId], dims: &[usize], body: CompId, shape: &Shape) -> Option<NodeId> {
    if operands.iter().any(|&x| b.shape(x).as_array().is_some_and(|a| a.dynamic.contains(&true))) {
        return None;
    }
    let (xs, inits) = operands.split_at(operands.len() / 2);
    if b.elements(xs[0]) == 0 {
        return b.draft.fire("reduce-empty").then(|| {
            let results = inits.iter().zip(shape.leaves());
            let results: Vec<NodeId> = results.map(|(&init, to)| b.broadcast(init, &[], &to.dims)).collect();
            b.joined(&results)
        });
    }
    let (&[x, init], Shape::Array(to)) = (operands, shape) else { return None };
    if let Op::Transpose { permutation } = b.op(x).clone() {
        let kept: Vec<usize> = (0..permutation.len()).filter(|d| !dims.contains(d)).map(|d| permutation[d]).collect();
        let y = b.operand(x, 0);
        if kept.windows(2).all(|w| w[0] < w[1]) && !splits_rows(b, y) && b.draft.fire("reduce-transpose") {
            let mut moved: Vec<usize> = dims.iter().map(|&d| permutation[d]).collect();
            moved.sort_unstable();
            return Some(b.reduce_by(&[y], &[init], &moved, body));
        }
    }
    if dims.iter().any(|&d| b.dims(x)[d] != 1) {
        let fewer: Vec<usize> = dims.iter().copied().filter(|&d| b.dims(x)[d] != 1).collect();
        if fewer.len() == dims.len() {
            return None;
        }
        return b.draft.fire("reduce-squeeze").then(|| {
            let sizes: Vec<u64> =
                (0..b.rank(x)).filter(|d| !dims.contains(d) || fewer.contains(d)).map(|d| b.dims(x)[d]).collect();
            let moved: Vec<usize> =
                fewer.iter().map(|&f| f - dims.iter().filter(|&&d| d < f && !fewer.contains(&d)).count()).collect();
            let small = b.reshape(x, &sizes);
            b.reduce_by(&[small], &[init], &moved, body)
        });
    }
    // Nothing is combined, and the initial value is left out, as XLA does.
    b.draft.fire("reduce-one").then(|| b.reshape(x, &to.dims))
}

/// Whether an array is made of rows that are split into narrow ones, which only what is turned at the same time makes without padding.
fn splits_rows(b: &Emit, y: NodeId) -> bool {
    let last = b.dims(y).last().copied().unwrap_or(1);
    *b.op(y) == Op::Reshape
        && last < NARROW
        && b.dims(b.operand(y, 0)).last().is_some_and(|&n| n > last && n % last == 0)
}

/// Elements of a row below which most of a register is padding.
const NARROW: u64 = 64;

/// The value that changes nothing when combined by an operation.
pub fn identity(op: Binary, dtype: DType) -> Option<f64> {
    use systole_isa::dtype::DTypeClass as C;
    let (low, high) = match dtype.class() {
        C::Pred => (0.0, 1.0),
        C::Float if dtype.is_byte_float() => return None,
        C::Float => (f64::NEG_INFINITY, f64::INFINITY),
        C::Signed | C::Unsigned if dtype.bits() <= 32 => {
            let (low, high) = systole_hlo::graph::number::integer_range(dtype)?;
            (low as f64, high as f64)
        }
        C::Signed | C::Unsigned | C::Complex if matches!(op, Binary::Add | Binary::Mul) => (0.0, 0.0),
        C::Signed | C::Unsigned | C::Complex => return None,
    };
    match op.neutral()? {
        Neutral::Zero => Some(0.0),
        Neutral::One => Some(1.0),
        Neutral::Least => Some(low),
        Neutral::Greatest => Some(high),
        Neutral::Ones => (dtype == DType::Pred).then_some(1.0),
    }
}
