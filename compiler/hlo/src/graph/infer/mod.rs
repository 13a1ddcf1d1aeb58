//! Shape rules: the result's shape of each operation from its operands and attributes.
//!
//! One function per family of operations; each constraint has a label (`dot_contracting_sizes`) that tests name. The
//! verifier, the text parser (for results whose shape is not written) and the graph builder use the same rules.
//!
//! Some results are not determined by operands and attributes (`convert`'s type, `reshape`'s sizes, a dot's preferred
//! type). Their rules take the declared shape into account and give it back when it is allowed; without one they fail
//! with the label [`FREE`] or choose the usual result.

mod calls;
mod collective;
mod contraction;
mod control;
mod data;
mod elementwise;
mod gather;
mod linear;
mod window;

#[cfg(test)]
mod tests;

use super::{ArrayShape, CompId, Computation, Module, Op, Shape};
use systole_isa::DType;

/// A constraint of a shape rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError {
    /// The constraint.
    pub label: &'static str,
    /// What is wrong, naming the shapes.
    pub message: String,
}

/// The label of errors that say that a result's shape must be written.
pub const FREE: &str = "not_inferable";

impl std::fmt::Display for ShapeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ShapeError {}

/// What a rule gives.
type Rule<T = Shape> = Result<T, ShapeError>;

/// The result's shape of `op` on operands of these shapes, without a layout.
///
/// # Errors
/// The first constraint of the operation's rule that does not hold; [`FREE`] if the result is not determined.
pub fn infer_shape(op: &Op, operands: &[&Shape], module: &Module) -> Result<Shape, ShapeError> {
    rule(&Site { op, operands, module, declared: None })
}

/// Whether `op` on operands of these shapes may give `declared` (layouts and dynamic bounds left aside).
///
/// # Errors
/// The first constraint that does not hold.
pub fn check_shape(op: &Op, operands: &[&Shape], declared: &Shape, module: &Module) -> Result<(), ShapeError> {
    let shape = rule(&Site { op, operands, module, declared: Some(declared) })?;
    if shape.same(declared) {
        return Ok(());
    }
    fail("result_shape", format!("{} gives {}, not {declared}", op.name(), shape))
}

fn fail<T>(label: &'static str, message: impl Into<String>) -> Rule<T> {
    Err(ShapeError { label, message: message.into() })
}

/// Fails with a label unless the condition holds.
fn ensure(condition: bool, label: &'static str, message: impl FnOnce() -> String) -> Rule<()> {
    if condition { Ok(()) } else { fail(label, message()) }
}

/// An operation with its operands' shapes.
#[derive(Clone, Copy)]
struct Site<'a> {
    op: &'a Op,
    operands: &'a [&'a Shape],
    module: &'a Module,
    declared: Option<&'a Shape>,
}

impl<'a> Site<'a> {
    fn name(&self) -> &'static str {
        self.op.name()
    }

    /// Exactly `n` operands.
    fn count(&self, n: usize) -> Rule<()> {
        let have = self.operands.len();
        ensure(have == n, "operand_count", || format!("{} takes {n} operand{}, not {have}", self.name(), plural(n)))
    }

    fn at_least(&self, n: usize) -> Rule<()> {
        let have = self.operands.len();
        ensure(have >= n, "operand_count", || {
            format!("{} takes at least {n} operand{}, not {have}", self.name(), plural(n))
        })
    }

    /// Operand `i` as an array.
    fn array(&self, i: usize) -> Rule<&'a ArrayShape> {
        match self.operands.get(i) {
            Some(Shape::Array(a)) => Ok(a),
            Some(s) => fail("operand_array", format!("operand {i} of {} must be an array, not {s}", self.name())),
            None => fail("operand_count", format!("{} lacks operand {i}", self.name())),
        }
    }

    fn arrays(&self) -> Rule<Vec<&'a ArrayShape>> {
        (0..self.operands.len()).map(|i| self.array(i)).collect()
    }

    fn token(&self, i: usize) -> Rule<()> {
        let s = self.operands.get(i);
        ensure(s == Some(&&Shape::Token), "operand_token", || format!("operand {i} of {} must be a token", self.name()))
    }

    fn scalar(&self, i: usize) -> Rule<&'a ArrayShape> {
        let a = self.array(i)?;
        ensure(a.rank() == 0, "operand_scalar", || {
            format!("operand {i} of {} must be a scalar, not {a}", self.name())
        })?;
        Ok(a)
    }

    /// The declared shape, for results that operands do not determine.
    fn declared(&self) -> Rule<&'a Shape> {
        match self.declared {
            Some(s) => Ok(s),
            None => fail(FREE, format!("the result's shape of {} must be written", self.name())),
        }
    }

    fn declared_array(&self) -> Rule<&'a ArrayShape> {
        match self.declared()? {
            Shape::Array(a) => Ok(a),
            s @ (Shape::Tuple(_) | Shape::Token) => {
                fail("result_array", format!("{} gives an array, not {s}", self.name()))
            }
        }
    }

    fn computation(&self, id: CompId) -> Rule<&'a Computation> {
        match self.module.computations.get(id.index()) {
            Some(c) => Ok(c),
            None => fail("computation_exists", format!("{} calls a computation that does not exist", self.name())),
        }
    }

    /// That a dimension number is below a rank.
    fn dim(&self, d: usize, rank: usize, what: &str) -> Rule<()> {
        ensure(d < rank, "dimension_range", || {
            format!("{} names dimension {d} of {what}, which has {rank} dimension{}", self.name(), plural(rank))
        })
    }

    /// That dimension numbers are below a rank and differ.
    fn dims(&self, list: &[usize], rank: usize, what: &str) -> Rule<()> {
        for (i, &d) in list.iter().enumerate() {
            self.dim(d, rank, what)?;
            ensure(!list[..i].contains(&d), "dimension_repeats", || {
                format!("{} names dimension {d} of {what} twice", self.name())
            })?;
        }
        Ok(())
    }

    fn sorted(&self, list: &[usize], what: &str) -> Rule<()> {
        ensure(list.is_sorted(), "dimension_order", || format!("{what} of {} must ascend", self.name()))
    }

    /// That a computation takes these parameters; its result.
    fn signature(&self, id: CompId, params: &[Shape]) -> Rule<&'a Shape> {
        let c = self.computation(id)?;
        let have: Vec<&Shape> = c.params.iter().filter_map(|p| c.nodes.get(p.index())).map(|n| &n.shape).collect();
        let fits = have.len() == params.len() && have.iter().zip(params).all(|(a, b)| a.same(b));
        ensure(fits, "computation_parameters", || {
            format!(
                "computation `{}` takes ({}) where {} gives it ({})",
                c.name,
                list(&have),
                self.name(),
                list(&refs(params))
            )
        })?;
        match c.nodes.get(c.root.index()) {
            Some(n) => Ok(&n.shape),
            None => fail("computation_root", format!("computation `{}` has no root", c.name)),
        }
    }

    /// That a computation combines two values of each scalar type; used by reductions.
    fn combiner(&self, id: CompId, types: &[DType]) -> Rule<()> {
        let scalars: Vec<Shape> = types.iter().map(|t| Shape::array(*t, &[])).collect();
        let twice: Vec<Shape> = scalars.iter().chain(&scalars).cloned().collect();
        let result = self.signature(id, &twice)?;
        let expected = one_or_tuple(scalars);
        ensure(result.same(&expected), "computation_result", || {
            format!("the computation of {} must return {expected}, not {result}", self.name())
        })
    }
}

/// One shape as itself, several as a tuple.
fn one_or_tuple(mut shapes: Vec<Shape>) -> Shape {
    if shapes.len() == 1 { shapes.swap_remove(0) } else { Shape::Tuple(shapes) }
}

fn refs(shapes: &[Shape]) -> Vec<&Shape> {
    shapes.iter().collect()
}

fn list(shapes: &[&Shape]) -> String {
    shapes.iter().map(|s| s.to_string()).collect::<Vec<_>>().join(", ")
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// An array shape of computed sizes; fails where a size would not fit.
fn sized(dtype: DType, dims: &[i128]) -> Rule {
    let mut out = Vec::with_capacity(dims.len());
    for &d in dims {
        match u64::try_from(d) {
            Ok(v) if v <= 1 << 48 => out.push(v),
            Ok(_) => return fail("result_size", format!("the result would have a dimension of size {d}")),
            Err(_) => return fail("result_negative", format!("the result would have a dimension of size {d}")),
        }
    }
    let bytes = out.iter().try_fold(dtype.host_bytes() as u64, |n, &d| n.checked_mul(d.max(1)));
    ensure(bytes.is_some_and(|n| n <= 1 << 48), "result_size", || "the result is too large".to_string())?;
    Ok(Shape::array(dtype, &out))
}

/// The same array with another element type.
fn with_type(a: &ArrayShape, dtype: DType) -> Shape {
    Shape::Array(ArrayShape { dtype, dims: a.dims.clone(), dynamic: a.dynamic.clone(), minor_to_major: None })
}

fn rule(s: &Site<'_>) -> Rule {
    match s.op {
        Op::Unary(u) => elementwise::unary(s, *u),
        Op::Binary(b) => elementwise::binary(s, *b),
        Op::Compare { direction, .. } => elementwise::compare(s, *direction),
        Op::Select => elementwise::select(s),
        Op::Clamp => elementwise::clamp(s),
        Op::Convert | Op::BitcastConvert | Op::StochasticConvert => elementwise::convert(s),
        Op::ReducePrecision { exponent, mantissa } => elementwise::reduce_precision(s, *exponent, *mantissa),
        Op::Map { body, dims } => elementwise::map(s, *body, dims),
        Op::Parameter { .. } => data::parameter(s),
        Op::Constant(l) => data::constant(s, l),
        Op::Iota { dim } => data::iota(s, *dim),
        Op::Broadcast { dims } => data::broadcast(s, dims),
        Op::Reshape => data::reshape(s),
        Op::DynamicReshape => data::dynamic_reshape(s),
        Op::Bitcast => data::bitcast(s),
        Op::Transpose { permutation } => data::transpose(s, permutation),
        Op::Reverse { dims } => data::reverse(s, dims),
        Op::Slice { dims } => data::slice(s, dims),
        Op::Concatenate { dim } => data::concatenate(s, *dim),
        Op::Pad { dims } => data::pad(s, dims),
        Op::DynamicSlice { sizes } => data::dynamic_slice(s, sizes),
        Op::DynamicUpdateSlice => data::dynamic_update_slice(s),
        Op::GetDimensionSize { dim } => data::get_dimension_size(s, *dim),
        Op::SetDimensionSize { dim } => data::set_dimension_size(s, *dim),
        Op::Gather(g) => gather::gather(s, g),
        Op::Scatter(d) => gather::scatter(s, d),
        Op::Dot { dims, .. } => contraction::dot(s, dims),
        Op::RaggedDot { dims, lhs_ragged, rhs_group, .. } => contraction::ragged_dot(s, dims, *lhs_ragged, rhs_group),
        Op::ScaledDot { dims, .. } => contraction::scaled_dot(s, dims),
        Op::Convolution(c) => contraction::convolution(s, c),
        Op::Reduce { dims, body } => window::reduce(s, dims, *body),
        Op::ReduceWindow { window, body } => window::reduce_window(s, window, *body),
        Op::SelectAndScatter { window, select, scatter } => window::select_and_scatter(s, window, *select, *scatter),
        Op::Scan { dim, carries, body, .. } => window::scan(s, *dim, *carries, *body),
        Op::BatchNormTraining { feature, .. }
        | Op::BatchNormInference { feature, .. }
        | Op::BatchNormGrad { feature, .. } => linear::batch_norm(s, *feature),
        Op::Sort { dim, body, .. } => linear::sort(s, *dim, *body),
        Op::TopK { k, .. } => linear::top_k(s, *k),
        Op::Cholesky { .. } => linear::cholesky(s),
        Op::TriangularSolve { left, .. } => linear::triangular_solve(s, *left),
        Op::Fft { kind, lengths } => linear::fft(s, *kind, lengths),
        Op::Rng { .. } | Op::RngBitGenerator { .. } | Op::RngGetAndUpdateState { .. } => linear::random(s),
        Op::Copy | Op::OptBarrier | Op::Domain | Op::AsyncUpdate => control::same(s),
        Op::Tuple => control::tuple(s),
        Op::GetTupleElement { index } => control::get_tuple_element(s, *index),
        Op::AfterAll => control::after_all(s),
        Op::AddDependency => control::add_dependency(s),
        Op::Call { body } | Op::Fusion { body, .. } => control::call(s, *body),
        Op::While { condition, body } => control::while_rule(s, *condition, *body),
        Op::Conditional { branches } => control::conditional(s, branches),
        Op::CustomCall { target, config, calls, .. } => calls::rule(s, target, config, calls),
        Op::AsyncStart { body } => control::async_start(s, *body),
        Op::AsyncDone => control::done(s, 1),
        Op::CopyStart => control::copy_start(s),
        Op::CopyDone => control::done(s, 0),
        Op::Collective { kind, devices } => collective::rule(s, kind, devices),
        Op::ReplicaId | Op::PartitionId => collective::id(s),
        Op::Send { .. } => collective::send(s),
        Op::SendDone { .. } => collective::send_done(s),
        Op::Recv { .. } => collective::recv(s),
        Op::RecvDone { .. } => collective::recv_done(s),
        Op::Infeed { .. } => collective::infeed(s),
        Op::Outfeed { shape, .. } => collective::outfeed(s, shape),
    }
}
