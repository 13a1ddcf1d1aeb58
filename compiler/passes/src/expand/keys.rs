//! Sort keys: what a comparator makes of one element at a time is computed once, before the sort.
//!
//! A comparator that compares `f(x)` with `f(y)` for an element `x` and its counterpart `y` is the comparison of keys `f(x)`.
//! The keys become operands of their own, and those that are only compared in total order become integers of the
//! same order. An element that is compared as it is in total order is its own key: it is sorted as such an integer and
//! turned back.

use super::codes;
use crate::edit::Emit;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, CompId, Computation, Direction, Node, NodeId, Op, Order, Shape};
use systole_isa::{DType, float::F8};

/// A sort by keys.
pub struct Keyed {
    /// The keys, then the operands as they are sorted.
    pub operands: Vec<NodeId>,
    /// How many keys.
    pub keys: usize,
    pub body: CompId,
    forms: Vec<Form>,
}

/// How an operand is sorted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As it is.
    Same,
    /// As the integer of its place in total order.
    Turned,
    /// As a [code](codes).
    Coded,
}

/// What a value of the comparator depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Constant,
    /// One element: the parameter.
    One(usize),
    Both,
}

fn sides(c: &Computation) -> Vec<Side> {
    let mut out: Vec<Side> = Vec::with_capacity(c.nodes.len());
    for n in &c.nodes {
        let mut side = if let Op::Parameter { index } = n.op { Side::One(index) } else { Side::Constant };
        for o in &n.operands {
            side = match (side, out[o.index()]) {
                (x, Side::Constant) | (Side::Constant, x) => x,
                (Side::One(p), Side::One(q)) if p == q => side,
                _ => Side::Both,
            };
        }
        out.push(side);
    }
    out
}

/// Whether `y` is what `x` is, of the counterpart.
fn mirrored(c: &Computation, x: NodeId, y: NodeId) -> bool {
    let (m, n): (&Node, &Node) = (c.node(x), c.node(y));
    if let (Op::Parameter { index: p }, Op::Parameter { index: q }) = (&m.op, &n.op) {
        return *p ^ 1 == *q;
    }
    x == y && m.operands.is_empty()
        || m.op == n.op
            && m.shape == n.shape
            && m.operands.len() == n.operands.len()
            && m.operands.iter().zip(&n.operands).all(|(&x, &y)| mirrored(c, x, y))
}

/// Whether two values of the same element are the same.
fn same(c: &Computation, x: NodeId, y: NodeId) -> bool {
    x == y || {
        let (m, n) = (c.node(x), c.node(y));
        m.op == n.op
            && m.shape == n.shape
            && !m.operands.is_empty()
            && m.operands.len() == n.operands.len()
            && m.operands.iter().zip(&n.operands).all(|(&x, &y)| same(c, x, y))
    }
}

/// A value of one element that is compared with its counterpart.
struct Key {
    operand: usize,
    /// The value of the first element.
    value: NodeId,
    /// Whether it is only compared in total order.
    total: bool,
}

/// Comparators larger than this are left alone: looking at them is quadratic.
const MAX_NODES: usize = 256;

/// The comparisons of a comparator, each with its key and whether the first element is on the left.
fn keys(c: &Computation) -> Option<(Vec<Key>, Vec<Option<(usize, bool)>>)> {
    if c.nodes.len() > MAX_NODES || c.nodes.iter().any(|n| !n.shape.as_array().is_some_and(|a| a.dims.is_empty())) {
        return None;
    }
    let sides = sides(c);
    let mut keys: Vec<Key> = Vec::new();
    let mut found = vec![None; c.nodes.len()];
    for id in c.ids().filter(|id| sides[id.index()] == Side::Both) {
        let n = c.node(id);
        if n.operands.iter().all(|o| !matches!(sides[o.index()], Side::One(_))) {
            continue;
        }
        let (Op::Compare { order, .. }, &[x, y]) = (&n.op, &n.operands[..]) else { return None };
        let (Side::One(p), Side::One(q)) = (sides[x.index()], sides[y.index()]) else { return None };
        if p ^ 1 != q || !mirrored(c, x, y) {
            return None;
        }
        let first = if p % 2 == 0 { x } else { y };
        let total = *order == Order::Total && c.node(first).shape.as_array().is_some_and(|a| turns(a.dtype));
        let at = match keys.iter().position(|k| same(c, k.value, first)) {
            Some(at) => at,
            None => {
                keys.push(Key { operand: p / 2, value: first, total });
                keys.len() - 1
            }
        };
        keys[at].total &= total;
        found[id.index()] = Some((at, p % 2 == 0));
    }
    (sides[c.root.index()] == Side::Both && !keys.is_empty()).then_some((keys, found))
}

/// Whether elements are floats whose total order [`turn`] knows.
fn turns(t: DType) -> bool {
    t.is_float() && F8::from_dtype(t).is_none_or(F8::in_order)
}

/// The integer whose order is the total order of a float (and the other way round).
pub fn turn(b: &mut Emit, x: NodeId, float: DType, back: bool) -> NodeId {
    let (bits, int) = (float.bits(), integer(float));
    let x = if back { x } else { b.bitcast(x, int) };
    let sign = b.with(Binary::Sar, x, f64::from(bits - 1));
    let max = b.bits(int, (1u64 << (bits - 1)) - 1);
    let dims = b.dims(x).to_vec();
    let max = b.broadcast(max, &[], &dims);
    let flip = b.and(sign, max);
    let turned = b.binary(Binary::Xor, x, flip);
    if back { b.bitcast(turned, float) } else { turned }
}

/// The integer type of a key.
fn integer(t: DType) -> DType {
    match t.bits() {
        4 => DType::S4,
        8 => DType::S8,
        16 => DType::S16,
        32 => DType::S32,
        _ => DType::S64,
    }
}

impl Keyed {
    /// The sort by keys that a sort is, if its comparator has the form and something is gained.
    pub fn of(b: &mut Emit, body: CompId, operands: &[NodeId]) -> Result<Option<Keyed>, CompileError> {
        let c = b.draft.computations[body.index()].clone();
        let Some((keys, compared)) = keys(&c) else { return Ok(None) };
        match Keyed::coded(b, &c, (&keys, &compared), operands)? {
            Some(k) => Ok(Some(k)),
            None => Keyed::uncoded(b, body, operands),
        }
    }

    /// [`Keyed::of`] without codes, for sorts along any dimension: codes say where along the last one an element is.
    ///
    /// # Errors
    /// As there.
    pub fn uncoded(b: &mut Emit, body: CompId, operands: &[NodeId]) -> Result<Option<Keyed>, CompileError> {
        let c = b.draft.computations[body.index()].clone();
        let Some((keys, compared)) = keys(&c) else { return Ok(None) };
        let plain = |k: &Key| matches!(c.node(k.value).op, Op::Parameter { .. });
        let mut turned = vec![false; operands.len()];
        for k in keys.iter().filter(|k| plain(k) && k.total) {
            turned[k.operand] = true;
        }
        // A total order on an element that another key compares otherwise does not turn it.
        for k in keys.iter().filter(|k| plain(k) && !k.total) {
            turned[k.operand] = false;
        }
        if keys.iter().all(plain) && !turned.contains(&true) {
            return Ok(None);
        }
        let mut sorted: Vec<NodeId> = Vec::new();
        let mut place = vec![0; keys.len()];
        for (i, k) in keys.iter().enumerate().filter(|(_, k)| !plain(k)) {
            place[i] = sorted.len();
            let made = value_of(b, &c, k, operands[k.operand])?;
            let dtype = b.dtype(made);
            sorted.push(if k.total { turn(b, made, dtype, false) } else { made });
        }
        let count = sorted.len();
        for (i, k) in keys.iter().enumerate().filter(|(_, k)| plain(k)) {
            place[i] = count + k.operand;
        }
        for (&x, &turned) in operands.iter().zip(&turned) {
            let dtype = b.dtype(x);
            sorted.push(if turned { turn(b, x, dtype, false) } else { x });
        }
        let types: Vec<DType> = sorted.iter().map(|&x| b.dtype(x)).collect();
        let total: Vec<bool> = keys.iter().map(|k| k.total && (!plain(k) || turned[k.operand])).collect();
        let body = b.computation("by_key", |b| comparator(b, &c, &types, &compared, (&place, &total)))?;
        let forms = turned.iter().map(|&t| if t { Form::Turned } else { Form::Same }).collect();
        Ok(Some(Keyed { operands: sorted, keys: count, body, forms }))
    }

    /// The sort by codes that a sort is whose only key is a float with its zeros and NaNs made equal.
    fn coded(
        b: &mut Emit,
        c: &Computation,
        (keys, compared): (&[Key], &[Option<(usize, bool)>]),
        operands: &[NodeId],
    ) -> Result<Option<Keyed>, CompileError> {
        let ([key], Some((_, ahead))) = (keys, compared[c.root.index()]) else { return Ok(None) };
        let Op::Compare { direction, .. } = &c.node(c.root).op else { return Ok(None) };
        let ascending = match direction {
            Direction::Lt => ahead,
            Direction::Gt => !ahead,
            Direction::Eq | Direction::Ne | Direction::Le | Direction::Ge => return Ok(None),
        };
        let x = operands[key.operand];
        if !key.total || !codes::fits(b, x) || !codes::unifies(c, key.value) {
            return Ok(None);
        }
        let mut sorted = operands.to_vec();
        sorted[key.operand] = codes::encoded(b, x, ascending);
        let types: Vec<DType> = sorted.iter().map(|&x| b.dtype(x)).collect();
        let body = b.computation("by_code", |b| {
            let mut params = Vec::new();
            for &t in &types {
                params.push((b.parameter(Shape::array(t, &[])), b.parameter(Shape::array(t, &[]))));
            }
            let (x, y) = params[key.operand];
            Ok(b.compare(if ascending { Direction::Lt } else { Direction::Gt }, x, y))
        })?;
        let mut forms = vec![Form::Same; operands.len()];
        forms[key.operand] = Form::Coded;
        Ok(Some(Keyed { operands: sorted, keys: 0, body, forms }))
    }

    /// An operand's sorted elements as they were.
    pub fn back(&self, b: &mut Emit, operand: usize, sorted: NodeId, dtype: DType) -> NodeId {
        match self.forms[operand] {
            Form::Same => sorted,
            Form::Turned => {
                debug_assert_eq!(b.dtype(sorted), integer(dtype));
                turn(b, sorted, dtype, true)
            }
            Form::Coded => codes::decoded(b, sorted, dtype),
        }
    }
}

/// The key of all elements of an operand.
fn value_of(b: &mut Emit, c: &Computation, k: &Key, x: NodeId) -> Result<NodeId, CompileError> {
    let made = b.computation("key", |b| {
        let scalar = Shape::array(element_type(c, k), &[]);
        let p = b.parameter(scalar);
        let mut map: Vec<Option<NodeId>> = vec![None; c.nodes.len()];
        emit_value(b, c, k.value, p, &mut map)
    })?;
    let dims = b.dims(x).to_vec();
    Ok(b.apply(made, &[x], &dims)?[0])
}

/// Element type of the operand behind a key.
fn element_type(c: &Computation, k: &Key) -> DType {
    c.node(c.params[2 * k.operand]).shape.as_array().map_or(DType::Pred, |a| a.dtype)
}

fn emit_value(
    b: &mut Emit,
    c: &Computation,
    id: NodeId,
    p: NodeId,
    map: &mut [Option<NodeId>],
) -> Result<NodeId, CompileError> {
    for at in 0..=id.index() {
        let n = &c.nodes[at];
        let operands: Option<Vec<NodeId>> = n.operands.iter().map(|o| map[o.index()]).collect();
        map[at] = match (&n.op, operands) {
            (Op::Parameter { .. }, _) => Some(p),
            (_, Some(o)) => Some(b.raw(n.op.clone(), &o, n.shape.clone())),
            (_, None) => None,
        };
    }
    map[id.index()].ok_or_else(|| CompileError::internal("sort", "a key depends on something else"))
}

/// The comparator over keys and operands.
fn comparator(
    b: &mut Emit,
    c: &Computation,
    types: &[DType],
    compared: &[Option<(usize, bool)>],
    (place, total): (&[usize], &[bool]),
) -> Result<NodeId, CompileError> {
    let mut params = Vec::new();
    for &t in types {
        params.push((b.parameter(Shape::array(t, &[])), b.parameter(Shape::array(t, &[]))));
    }
    let mut map: Vec<Option<NodeId>> = vec![None; c.nodes.len()];
    for id in c.ids() {
        let n = c.node(id);
        map[id.index()] = if let (Some((key, ahead)), Op::Compare { direction, order }) = (compared[id.index()], &n.op)
        {
            let (x, y) = params[place[key]];
            let (x, y) = if ahead { (x, y) } else { (y, x) };
            let order = if total[key] { Order::Partial } else { *order };
            Some(b.raw(Op::Compare { direction: *direction, order }, &[x, y], n.shape.clone()))
        } else {
            let operands: Option<Vec<NodeId>> = n.operands.iter().map(|o| map[o.index()]).collect();
            match (&n.op, operands) {
                (Op::Parameter { .. }, _) | (_, None) => None,
                (_, Some(o)) => Some(b.raw(n.op.clone(), &o, n.shape.clone())),
            }
        };
    }
    map[c.root.index()].ok_or_else(|| CompileError::internal("sort", "a comparator depends on more than keys"))
}
