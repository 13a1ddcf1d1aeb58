//! Elementwise operations: the scalar function of an operation on its element types, and its use over arrays.

use super::super::error::{Fault, malformed};
use super::super::scalar::{self, Scalar, binary, complex, convert, float, integer};
use super::super::value::Tensor;
use systole_hlo::graph::{Binary, Direction, Op, Order, Unary};
use systole_isa::{DType, dtype::DTypeClass};

/// What an elementwise operation does to one element of each operand.
#[derive(Clone, Copy)]
pub(in super::super) enum Kernel {
    Move,
    Float1 { f: float::FloatUnary, ty: DType, keep: bool },
    Float2 { f: float::FloatBinary, ty: DType },
    Int1 { f: integer::IntUnary, ty: DType },
    Int2 { f: integer::IntBinary, ty: DType },
    Complex1 { f: complex::ComplexUnary, ty: DType },
    Complex2 { f: complex::ComplexBinary, ty: DType },
    ComplexAbs { ty: DType },
    Real,
    Imag,
    MakeComplex,
    IsFinite,
    Compare { direction: Direction, order: Order, ty: DType },
    Select,
    Clamp { ty: DType },
    Convert { from: DType, to: DType },
    StochasticConvert { from: DType, to: DType, random: DType },
    ReducePrecision { ty: DType, exponent: u32, mantissa: u32 },
}

impl Kernel {
    /// The kernel of an operation on operands of these types with a result of that type; `None` if the operation is
    /// not elementwise or has no meaning for them.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the caller asks the other families next")]
    pub(in super::super) fn new(op: &Op, operands: &[DType], result: DType) -> Option<Kernel> {
        let ty = operands.first().copied()?;
        Some(match op {
            Op::Unary(u) => unary(*u, ty)?,
            Op::Binary(Binary::Complex) => Kernel::MakeComplex,
            Op::Binary(b) => match ty.class() {
                DTypeClass::Float => Kernel::Float2 { f: binary::float(*b)?, ty },
                DTypeClass::Complex => Kernel::Complex2 { f: binary::complex(*b)?, ty },
                DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned => {
                    Kernel::Int2 { f: binary::integer(*b)?, ty }
                }
            },
            Op::Compare { direction, order } => Kernel::Compare { direction: *direction, order: *order, ty },
            Op::Select => Kernel::Select,
            Op::Clamp => Kernel::Clamp { ty },
            Op::Convert => Kernel::Convert { from: ty, to: result },
            Op::StochasticConvert => Kernel::StochasticConvert { from: ty, to: result, random: *operands.get(1)? },
            Op::ReducePrecision { exponent, mantissa } => {
                Kernel::ReducePrecision { ty, exponent: *exponent, mantissa: *mantissa }
            }
            Op::Copy | Op::OptBarrier => Kernel::Move,
            _ => return None,
        })
    }

    /// The result for these elements; further operands than the kernel has are not looked at.
    pub(in super::super) fn apply(&self, a: Scalar, b: Scalar, c: Scalar) -> Scalar {
        match *self {
            Kernel::Move => a,
            Kernel::Float1 { f, keep: true, .. } => Scalar::F(f(a.float())),
            Kernel::Float1 { f, ty, keep: false } => Scalar::F(float1(f, ty, a.float())),
            Kernel::Float2 { f, ty } => Scalar::F(float2(f, ty, a.float(), b.float())),
            Kernel::Int1 { f, ty } => Scalar::I(integer::wrap(ty, f(ty, a.int()))),
            Kernel::Int2 { f, ty } => Scalar::I(integer::wrap(ty, f(ty, a.int(), b.int()))),
            Kernel::Complex1 { f, ty } => {
                let (re, im) = f(scalar::flush_scalar(ty, a).complex());
                scalar::finish_scalar(ty, Scalar::C(re, im))
            }
            Kernel::Complex2 { f, ty } => {
                let (re, im) = f(scalar::flush_scalar(ty, a).complex(), scalar::flush_scalar(ty, b).complex());
                scalar::finish_scalar(ty, Scalar::C(re, im))
            }
            Kernel::ComplexAbs { ty } => Scalar::F(scalar::finish(ty.real(), complex::abs(a.complex()))),
            Kernel::Real => Scalar::F(a.complex().0),
            Kernel::Imag => Scalar::F(a.complex().1),
            Kernel::MakeComplex => Scalar::C(a.float(), b.float()),
            Kernel::IsFinite => Scalar::I(a.float().is_finite() as i64),
            Kernel::Compare { direction, order, ty } => Scalar::I(compare(direction, order, ty, a, b) as i64),
            Kernel::Select => {
                if a.int() != 0 {
                    b
                } else {
                    c
                }
            }
            Kernel::Clamp { ty } => clamp(ty, a, b, c),
            Kernel::Convert { from, to } => convert::convert(from, to, a),
            Kernel::StochasticConvert { from, to, random } => stochastic(from, to, random, a, b),
            Kernel::ReducePrecision { ty, exponent, mantissa } => {
                Scalar::F(convert::reduce_precision(ty, exponent, mantissa, a.float()))
            }
        }
    }
}

fn unary(op: Unary, ty: DType) -> Option<Kernel> {
    Some(match (op, ty.class()) {
        (Unary::IsFinite, DTypeClass::Float) => Kernel::IsFinite,
        (_, DTypeClass::Float) => {
            Kernel::Float1 { f: scalar::unary::float(op)?, ty, keep: float::keeps_subnormals(op) }
        }
        (Unary::Abs, DTypeClass::Complex) => Kernel::ComplexAbs { ty },
        (Unary::Real, DTypeClass::Complex) => Kernel::Real,
        (Unary::Imag, DTypeClass::Complex) => Kernel::Imag,
        (_, DTypeClass::Complex) => Kernel::Complex1 { f: scalar::unary::complex(op)?, ty },
        (_, DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned) => {
            Kernel::Int1 { f: scalar::unary::integer(op)?, ty }
        }
    })
}

#[inline]
fn float1(f: float::FloatUnary, ty: DType, a: f64) -> f64 {
    scalar::finish(ty, f(scalar::flush(ty, a)))
}

#[inline]
fn float2(f: float::FloatBinary, ty: DType, a: f64, b: f64) -> f64 {
    scalar::finish(ty, f(scalar::flush(ty, a), scalar::flush(ty, b)))
}

fn compare(direction: Direction, order: Order, ty: DType, a: Scalar, b: Scalar) -> bool {
    match ty.class() {
        DTypeClass::Float => float::compare(ty, direction, order, a.float(), b.float()),
        DTypeClass::Complex => {
            let (a, b) = (scalar::flush_scalar(ty, a).complex(), scalar::flush_scalar(ty, b).complex());
            let equal = a.0 == b.0 && a.1 == b.1;
            if direction == Direction::Ne { !equal } else { equal }
        }
        DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned => {
            integer::compare(ty, direction, a.int(), b.int())
        }
    }
}

/// `min(max(low, x), high)`.
fn clamp(ty: DType, low: Scalar, x: Scalar, high: Scalar) -> Scalar {
    let apply = |op, a, b| match ty.is_float() {
        true => binary::float(op).map(|f| Scalar::F(float2(f, ty, Scalar::float(a), Scalar::float(b)))),
        false => binary::integer(op).map(|f| Scalar::I(f(ty, Scalar::int(a), Scalar::int(b)))),
    };
    let max = apply(Binary::Max, x, low).unwrap_or(x);
    apply(Binary::Min, max, high).unwrap_or(max)
}

/// Rounds away from zero with the probability of the fraction that truncation would lose.
fn stochastic(from: DType, to: DType, random: DType, x: Scalar, bits: Scalar) -> Scalar {
    if !to.is_integer() {
        return convert::convert(from, to, x);
    }
    let x = x.float();
    let whole = x.trunc();
    let share = (bits.int() as u64 as f64) / 2f64.powi(random.bits() as i32);
    let away = (x - whole).abs() > share;
    convert::convert(DType::F64, to, Scalar::F(if away { whole + x.signum() } else { whole }))
}

/// A kernel over arrays of the same sizes, or single elements that stand for all.
pub(in super::super) fn over_arrays(kernel: Kernel, args: &[&Tensor], result: DType) -> Result<Tensor, Fault> {
    let dims = common_dims(args)?;
    let args: Vec<Tensor> = args.iter().map(|t| crop(t, &dims)).collect();
    let n: usize = dims.iter().product();
    let bytes = match (kernel, &args[..]) {
        (Kernel::Move, [a]) => return Ok(a.clone()),
        (Kernel::Float1 { f, ty, keep: false }, [a]) => {
            scalar::float_bytes(ty, scalar::floats(ty, a.bytes()).into_iter().map(|x| float1(f, ty, x)))
        }
        (Kernel::Float2 { f, ty }, [a, b]) if a.elements() == b.elements() => {
            let (a, b) = (scalar::floats(ty, a.bytes()), scalar::floats(ty, b.bytes()));
            scalar::float_bytes(ty, a.into_iter().zip(b).map(|(x, y)| float2(f, ty, x, y)))
        }
        (Kernel::Select, [p, a, b]) if a.elements() == n && b.elements() == n => select(p, a, b, n),
        (_, [a]) => stream(n, result, |i| kernel.apply(at(a, i), Scalar::I(0), Scalar::I(0))),
        (_, [a, b]) => stream(n, result, |i| kernel.apply(at(a, i), at(b, i), Scalar::I(0))),
        (_, [a, b, c]) => stream(n, result, |i| kernel.apply(at(a, i), at(b, i), at(c, i))),
        _ => return Err(malformed("wrong number of operands")),
    };
    Ok(Tensor::new(result, &dims, bytes))
}

/// Element `i`, or the only one.
fn at(t: &Tensor, i: usize) -> Scalar {
    t.get(if t.elements() == 1 { 0 } else { i })
}

fn stream(n: usize, result: DType, f: impl Fn(usize) -> Scalar) -> Vec<u8> {
    scalar::scalar_bytes(result, (0..n).map(f))
}

fn select(p: &Tensor, a: &Tensor, b: &Tensor, n: usize) -> Vec<u8> {
    let size = a.dtype.host_bytes();
    if p.elements() == 1 {
        return if p.bytes()[0] != 0 { a.bytes().to_vec() } else { b.bytes().to_vec() };
    }
    let mut out = b.bytes().to_vec();
    for i in (0..n).filter(|&i| p.bytes()[i] != 0) {
        out[i * size..(i + 1) * size].copy_from_slice(&a.bytes()[i * size..(i + 1) * size]);
    }
    out
}

/// The sizes that all operands share: scalars fit everything, and where dynamic sizes differ the smaller counts.
fn common_dims(args: &[&Tensor]) -> Result<Vec<usize>, Fault> {
    let mut dims: Vec<usize> = Vec::new();
    for t in args.iter().filter(|t| t.rank() > 0) {
        if dims.is_empty() {
            dims.clone_from(&t.dims);
        } else if dims.len() == t.rank() {
            dims.iter_mut().zip(&t.dims).for_each(|(d, &s)| *d = (*d).min(s));
        } else {
            return Err(malformed(format!("operands of rank {} and {}", dims.len(), t.rank())));
        }
    }
    Ok(dims)
}

/// The leading part of an array.
pub(in super::super) fn crop(t: &Tensor, dims: &[usize]) -> Tensor {
    if t.rank() == 0 || t.dims == dims {
        return t.clone();
    }
    let steps = super::super::tensor::signed(&super::super::tensor::strides(&t.dims));
    super::super::tensor::gather_strided(t, dims, 0, &steps)
}
