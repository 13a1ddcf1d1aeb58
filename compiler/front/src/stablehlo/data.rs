//! Elementwise operations, sources of data, data movement.

use super::ast::{Attr, Operation};
use super::attr::integers;
use super::dense;
use super::lower::{Lower, Site};
use crate::hlo_text::PResult;
use crate::hlo_text::lex::Cursor;
use systole_hlo::graph::names::DIRECTIONS;
use systole_hlo::graph::{Binary, Gather, IndexMap, Literal, NodeId, Op, Order, PadDim, Shape, SliceDim, Unary};

pub(super) type Lowered = PResult<Option<Vec<NodeId>>>;

impl<'a> Lower<'a, '_> {
    /// Integers of an attribute by any of these names.
    pub fn ints(&self, o: &Operation<'a>, names: &[&str]) -> PResult<Option<Vec<i64>>> {
        match o.get(names) {
            Some(a) => {
                integers(self.text, a).map(Some).map_err(|_| o.error(format!("`{}` must be integers", names[0])))
            }
            None => Ok(None),
        }
    }

    /// Dimension numbers; empty when not given.
    pub fn dims(&self, o: &Operation<'a>, names: &[&str]) -> PResult<Vec<usize>> {
        to_dims(o, self.ints(o, names)?.unwrap_or_default())
    }

    /// One integer that must be there.
    pub fn int(&self, o: &Operation<'a>, names: &[&str]) -> PResult<i64> {
        match self.ints(o, names)?.as_deref() {
            Some([v]) => Ok(*v),
            _ => Err(o.error(format!("the operation needs the attribute `{}`", names[0]))),
        }
    }

    pub fn dim(&self, o: &Operation<'a>, names: &[&str]) -> PResult<usize> {
        let v = self.int(o, names)?;
        usize::try_from(v).map_err(|_| o.error(format!("`{}` must not be negative", names[0])))
    }

    pub fn sizes(&self, o: &Operation<'a>, names: &[&str]) -> PResult<Vec<u64>> {
        let Some(v) = self.ints(o, names)? else {
            return Err(o.error(format!("the operation needs the attribute `{}`", names[0])));
        };
        let positive = v.into_iter().map(|v| u64::try_from(v).ok().filter(|v| *v < 1 << 48));
        positive.collect::<Option<_>>().ok_or_else(|| o.error(format!("`{}` must not be negative or huge", names[0])))
    }

    pub fn flag(&self, o: &Operation<'a>, names: &[&str]) -> bool {
        matches!(o.get(names), Some(Attr::Bool(true) | Attr::Unit))
    }

    /// A keyword: `THREE_FRY`, `#stablehlo<rng_algorithm THREE_FRY>` or `"THREE_FRY"`.
    pub fn keyword(&self, a: &Attr<'a>) -> Option<&'a str> {
        if let Attr::Word(w) | Attr::Str(w) = a {
            return Some(w);
        }
        let Attr::Dialect(_, inside) = a else { return None };
        Cursor::over(self.text, *inside).rest().split_whitespace().last()
    }

    /// A keyword out of a table.
    pub fn choice<T: Copy>(&self, o: &Operation<'a>, names: &[&str], table: &[(&str, T)]) -> PResult<Option<T>> {
        let Some(a) = o.get(names) else { return Ok(None) };
        let word = self.keyword(a).unwrap_or("?");
        match table.iter().find(|t| t.0 == word) {
            Some(t) => Ok(Some(t.1)),
            None => {
                let known: Vec<&str> = table.iter().map(|t| t.0).collect();
                Err(o.error(format!("`{}` is one of {}, not {word}", names[0], known.join(", "))))
            }
        }
    }

    /// The fields of a `#stablehlo.gather<..>` attribute as an operation to ask for them.
    pub fn fields_of(&self, o: &Operation<'a>, names: &[&str]) -> PResult<Operation<'a>> {
        let mut inner = Operation { attributes: Vec::new(), regions: Vec::new(), ..o.clone() };
        match o.get(names) {
            Some(Attr::Dialect(_, inside)) => {
                let fields = Cursor::fields(self.text, *inside)?;
                inner.attributes = fields.into_iter().map(|(k, v)| (k, v, o.span)).collect();
            }
            Some(Attr::Dict(d)) => inner.attributes = d.iter().map(|(k, v)| (*k, v.clone(), o.span)).collect(),
            _ => return Err(o.error(format!("the operation needs the attribute `{}`", names[0]))),
        }
        Ok(inner)
    }

    /// The value of a `dense<..>` or `dense_resource<..>` attribute.
    pub fn literal(&mut self, o: &Operation<'a>, value: &Attr<'a>) -> PResult<Literal> {
        match value {
            Attr::Dense(inside, shape) => dense::parse(&mut Cursor::over(self.text, *inside), shape),
            Attr::Resource(name, place, shape) => match self.raw.resources.iter().find(|r| r.0 == *name) {
                Some((_, text)) => dense::resource(text, *place, shape),
                None => {
                    self.module.elided.push(*place);
                    Ok(Literal::splat(shape.dtype, &shape.dims, &vec![0; shape.dtype.host_bytes()]))
                }
            },
            Attr::Unit
            | Attr::Bool(_)
            | Attr::Int(_)
            | Attr::Float(_)
            | Attr::Str(_)
            | Attr::Symbol(_)
            | Attr::List(_)
            | Attr::Dict(_)
            | Attr::Dialect(..)
            | Attr::Word(_)
            | Attr::Function(..) => Err(o.error("expected `dense<..> : type`")),
        }
    }
}

pub(super) fn to_dims(o: &Operation<'_>, v: Vec<i64>) -> PResult<Vec<usize>> {
    let dims = v.into_iter().map(|v| usize::try_from(v).ok()).collect::<Option<_>>();
    dims.ok_or_else(|| o.error("dimension numbers must not be negative"))
}

pub(super) fn lower(s: &mut Site<'_, '_, '_>, name: &str) -> Lowered {
    let o = s.o;
    let args = s.body.operands(o)?;
    let dashed = name.replace('_', "-");
    if let Some(u) = Unary::from_name(&dashed) {
        return s.one(Op::Unary(u), &args);
    }
    if let Some(b) = Binary::from_name(&dashed) {
        return s.one(Op::Binary(b), &args);
    }
    let op = match name {
        "constant" | "arith.constant" => match o.get(&["value"]) {
            Some(value) => Op::Constant(s.l.literal(o, value)?),
            None => return Err(o.error("a constant needs `value`")),
        },
        "square" => return super::chlo::lower(s, name),
        "iota" => Op::Iota { dim: s.l.dim(o, &["iota_dimension", "dim"])? },
        "convert" => Op::Convert,
        "bitcast_convert" => Op::BitcastConvert,
        "reshape" => Op::Reshape,
        "select" => Op::Select,
        "clamp" => Op::Clamp,
        "compare" => return compare(s, &args),
        "broadcast_in_dim" | "broadcast" => return broadcast(s, name, &args),
        "transpose" => Op::Transpose { permutation: s.l.dims(o, &["permutation", "dims"])? },
        "reverse" => Op::Reverse { dims: s.l.dims(o, &["dimensions", "dims"])? },
        "concatenate" => Op::Concatenate { dim: s.l.dim(o, &["dimension", "dim"])? },
        "slice" => Op::Slice { dims: slice(s.l, o)? },
        "pad" => Op::Pad { dims: pad(s.l, o)? },
        "dynamic_slice" => Op::DynamicSlice { sizes: s.l.sizes(o, &["slice_sizes", "sizes"])? },
        "dynamic_update_slice" => Op::DynamicUpdateSlice,
        "reduce_precision" => reduce_precision(s.l, o)?,
        "gather" => Op::Gather(gather(s.l, o, s.l.sizes(o, &["slice_sizes"])?)?),
        "get_dimension_size" => Op::GetDimensionSize { dim: s.l.dim(o, &["dimension", "dim"])? },
        "set_dimension_size" => Op::SetDimensionSize { dim: s.l.dim(o, &["dimension", "dim"])? },
        "dynamic_reshape"
        | "dynamic_broadcast_in_dim"
        | "dynamic_iota"
        | "dynamic_gather"
        | "dynamic_conv"
        | "real_dynamic_slice"
        | "dynamic_pad" => {
            return super::dynamic::lower(s, name, &args);
        }
        "optimization_barrier" => return barrier(s, &args),
        "tuple" => Op::Tuple,
        "get_tuple_element" => Op::GetTupleElement { index: s.l.dim(o, &["index", "ranges"])? },
        "after_all" | "create_token" => Op::AfterAll,
        _ => return Ok(None),
    };
    s.one(op, &args)
}

/// The dimension numbers of `gather` and `scatter`.
pub(super) fn index_map(l: &Lower<'_, '_>, d: &Operation<'_>, names: [&str; 5]) -> PResult<IndexMap> {
    let vector = l.dims(d, &[IndexMap::VECTOR])?.first().copied().unwrap_or(0);
    IndexMap::read(names, vector, |name| l.dims(d, &[name]))
}

/// The attributes of `gather`.
pub(super) fn gather(l: &Lower<'_, '_>, o: &Operation<'_>, slice_sizes: Vec<u64>) -> PResult<Gather> {
    let d = l.fields_of(o, &["dimension_numbers"])?;
    Ok(Gather {
        map: index_map(l, &d, IndexMap::GATHER)?,
        slice_sizes,
        indices_are_sorted: l.flag(o, &["indices_are_sorted"]),
    })
}

pub(super) fn compare(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let mut words: Vec<&str> =
        o.attributes.iter().filter(|a| a.0 == "keyword").filter_map(|a| s.l.keyword(&a.1)).collect();
    for name in ["comparison_direction", "compare_type"] {
        words.extend(o.get(&[name]).and_then(|a| s.l.keyword(a)));
    }
    let Some(direction) = words.iter().find_map(|w| DIRECTIONS.iter().find(|d| d.0 == *w)) else {
        return Err(o.error("compare needs a direction: EQ, NE, GE, GT, LE or LT"));
    };
    if words.contains(&"WEAKORDER") {
        return super::chlo::weak_compare(s, direction.1, args);
    }
    let order = if words.contains(&"TOTALORDER") { Order::Total } else { Order::Partial };
    s.one(Op::Compare { direction: direction.1, order }, args)
}

/// Dimensions of size 1 that grow are dropped first: HLO's broadcast does not expand them.
pub(super) fn broadcast(s: &mut Site<'_, '_, '_>, name: &str, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let [x] = args else { return Err(o.error("the operation takes one operand")) };
    let a = s.array(*x)?;
    let Shape::Array(to) = s.l.result(o)?.clone() else { return Err(o.error("the result must be a tensor")) };
    let dims = match name {
        "broadcast" => (to.rank().saturating_sub(a.rank())..to.rank()).collect(),
        _ => s.l.dims(o, &["broadcast_dimensions", "dims"])?,
    };
    if dims.len() != a.rank() || dims.iter().any(|d| *d >= to.rank()) {
        return Err(o.error(format!("the dimensions {dims:?} do not place {a} in {to}")));
    }
    let kept: Vec<usize> = (0..a.rank()).filter(|i| !(a.dims[*i] == 1 && to.dims[dims[*i]] != 1)).collect();
    let mut x = *x;
    if kept.len() != a.rank() {
        let sizes: Vec<u64> = kept.iter().map(|i| a.dims[*i]).collect();
        x = s.add(Op::Reshape, &[x], Shape::array(a.dtype, &sizes))?;
    }
    let dims = kept.iter().map(|i| dims[*i]).collect();
    s.one(Op::Broadcast { dims }, &[x])
}

fn slice(l: &Lower<'_, '_>, o: &Operation<'_>) -> PResult<Vec<SliceDim>> {
    let wrong = || o.error("slice needs starts and limits that are not negative");
    let number = |v: i64| u64::try_from(v).map_err(|_| wrong());
    if let Some(Attr::List(ranges)) = o.get(&["ranges"]) {
        return (ranges.iter())
            .map(|r| match integers(l.text, r)?[..] {
                [start, limit] => Ok(SliceDim { start: number(start)?, limit: number(limit)?, stride: 1 }),
                [start, limit, stride] => {
                    Ok(SliceDim { start: number(start)?, limit: number(limit)?, stride: number(stride)? })
                }
                _ => Err(wrong()),
            })
            .collect();
    }
    // An operand of no dimensions has no ranges.
    if o.get(&["start_indices"]).is_none() && o.get(&["limit_indices"]).is_none() {
        return Ok(Vec::new());
    }
    let (starts, limits) = (l.sizes(o, &["start_indices"])?, l.sizes(o, &["limit_indices"])?);
    let strides = match o.get(&["strides"]) {
        Some(_) => l.sizes(o, &["strides"])?,
        None => vec![1; starts.len()],
    };
    if limits.len() != starts.len() || strides.len() != starts.len() {
        return Err(wrong());
    }
    Ok((0..starts.len()).map(|i| SliceDim { start: starts[i], limit: limits[i], stride: strides[i] }).collect())
}

fn pad(l: &Lower<'_, '_>, o: &Operation<'_>) -> PResult<Vec<PadDim>> {
    let get = |names: &[&str]| -> PResult<Vec<i64>> { Ok(l.ints(o, names)?.unwrap_or_default()) };
    let low = get(&["edge_padding_low", "low"])?;
    let high = get(&["edge_padding_high", "high"])?;
    let interior = get(&["interior_padding", "interior"])?;
    if low.len() != high.len() || low.len() != interior.len() {
        return Err(o.error("low, high and interior padding must be lists of one length"));
    }
    let fits = |v: i64| v.unsigned_abs() < 1 << 46;
    (0..low.len())
        .map(|i| match u64::try_from(interior[i]) {
            Ok(inner) if fits(low[i]) && fits(high[i]) && inner < 1 << 46 => {
                Ok(PadDim { low: low[i], high: high[i], interior: inner })
            }
            _ => Err(o.error("interior padding must not be negative, and no padding huge")),
        })
        .collect()
}

fn reduce_precision(l: &Lower<'_, '_>, o: &Operation<'_>) -> PResult<Op> {
    let bits = |v: i64| u32::try_from(v).map_or(64, |v| v.min(64));
    if let Some(Attr::Word(format)) = o.get(&["format"]) {
        let parts = format.strip_prefix('e').and_then(|f| f.split_once('m'));
        if let Some((Ok(e), Ok(m))) = parts.map(|(e, m)| (e.parse::<u32>(), m.parse::<u32>())) {
            return Ok(Op::ReducePrecision { exponent: e.min(64), mantissa: m.min(64) });
        }
        return Err(o.error("`format` is written like e5m10"));
    }
    Ok(Op::ReducePrecision {
        exponent: bits(l.int(o, &["exponent_bits"])?),
        mantissa: bits(l.int(o, &["mantissa_bits"])?),
    })
}

fn barrier(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    if let [one] = args {
        let shape = s.body.b.shape(*one).clone();
        return Ok(Some(vec![s.add(Op::OptBarrier, &[*one], shape)?]));
    }
    let tuple = s.tuple(args)?;
    let held = s.infer(Op::OptBarrier, &[tuple])?;
    Ok(Some(s.parts(held)?))
}
