//! Integers of the scalar unit. Floats are vectors of one number.

use super::value::{Fun, Num, Val};
use super::{Lower, Refused};
use crate::emit::Value as Elements;
use crate::kernel::{KernelBuilder, S};
use systole_isa::{DType, Op};
use systole_mosaic::{Attr, Element, Operation, Type};

pub(super) fn reg(b: &mut KernelBuilder, n: Num) -> S {
    match n {
        Num::Const(c) => b.s_imm(c),
        Num::Reg(s) => s,
    }
}

pub(super) fn add(b: &mut KernelBuilder, x: Num, y: Num) -> Num {
    match (x, y) {
        (Num::Const(x), Num::Const(y)) => Num::Const(x.wrapping_add(y)),
        (n, Num::Const(0)) | (Num::Const(0), n) => n,
        (Num::Reg(s), Num::Const(c)) | (Num::Const(c), Num::Reg(s)) => Num::Reg(b.s_addi(s, c)),
        (Num::Reg(x), Num::Reg(y)) => Num::Reg(b.s(Op::SAdd, &[x, y])),
    }
}

pub(super) fn mul(b: &mut KernelBuilder, x: Num, y: Num) -> Num {
    match (x, y) {
        (Num::Const(x), Num::Const(y)) => Num::Const(x.wrapping_mul(y)),
        (_, Num::Const(0)) | (Num::Const(0), _) => Num::Const(0),
        (n, Num::Const(1)) | (Num::Const(1), n) => n,
        (Num::Reg(s), Num::Const(c)) | (Num::Const(c), Num::Reg(s)) if c > 0 && c.count_ones() == 1 => {
            Num::Reg(b.def_s(Op::SShlI, &[s.into(), (c.trailing_zeros() as i32).into()]))
        }
        (Num::Reg(s), Num::Const(c)) | (Num::Const(c), Num::Reg(s)) => Num::Reg(b.s_muli(s, c)),
        (Num::Reg(x), Num::Reg(y)) => Num::Reg(b.s(Op::SMul, &[x, y])),
    }
}

/// A binary operation of the scalar unit.
pub(super) fn two(b: &mut KernelBuilder, op: Op, x: Num, y: Num) -> Num {
    if let (Num::Const(x), Num::Const(y)) = (x, y)
        && let Some(r) = known(op, x, y)
    {
        return Num::Const(r);
    }
    let (x, y) = (reg(b, x), reg(b, y));
    Num::Reg(b.s(op, &[x, y]))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed is not folded")]
fn known(op: Op, x: i32, y: i32) -> Option<i32> {
    Some(match op {
        Op::SSub => x.wrapping_sub(y),
        Op::SDiv if y != 0 => x.wrapping_div(y),
        Op::SRem if y != 0 => x.wrapping_rem(y),
        Op::SDivU if y != 0 => (x as u32 / y as u32) as i32,
        Op::SRemU if y != 0 => (x as u32 % y as u32) as i32,
        Op::SAnd => x & y,
        Op::SOr => x | y,
        Op::SXor => x ^ y,
        Op::SMin => x.min(y),
        Op::SMax => x.max(y),
        Op::SEq => i32::from(x == y),
        Op::SLt => i32::from(x < y),
        Op::SLtU => i32::from((x as u32) < y as u32),
        Op::SShl if (0..32).contains(&y) => x << y,
        Op::SShr if (0..32).contains(&y) => (x as u32 >> y) as i32,
        Op::SSar if (0..32).contains(&y) => x >> y,
        _ => return None,
    })
}

pub(super) fn not(b: &mut KernelBuilder, x: Num) -> Num {
    match x {
        Num::Const(c) => Num::Const(i32::from(c == 0)),
        Num::Reg(s) => Num::Reg(b.def_s(Op::SEqI, &[s.into(), 0.into()])),
    }
}

/// x < y.
pub(super) fn less(b: &mut KernelBuilder, x: Num, y: Num) -> Num {
    match (x, y) {
        (Num::Reg(s), Num::Const(c)) => Num::Reg(b.def_s(Op::SLtI, &[s.into(), c.into()])),
        _ => two(b, Op::SLt, x, y),
    }
}

/// A comparison by MLIR's number of the predicate.
pub(super) fn compare(b: &mut KernelBuilder, predicate: i64, x: Num, y: Num) -> Option<Num> {
    let eq = |b: &mut KernelBuilder| match (x, y) {
        (Num::Reg(s), Num::Const(c)) | (Num::Const(c), Num::Reg(s)) => {
            Num::Reg(b.def_s(Op::SEqI, &[s.into(), c.into()]))
        }
        _ => two(b, Op::SEq, x, y),
    };
    let order =
        |b: &mut KernelBuilder, unsigned: bool, x, y| if unsigned { two(b, Op::SLtU, x, y) } else { less(b, x, y) };
    Some(match predicate {
        0 => eq(b),
        1 => {
            let e = eq(b);
            not(b, e)
        }
        2 | 6 => order(b, predicate == 6, x, y),
        4 | 8 => order(b, predicate == 8, y, x),
        3 | 7 => {
            let g = order(b, predicate == 7, y, x);
            not(b, g)
        }
        5 | 9 => {
            let g = order(b, predicate == 9, x, y);
            not(b, g)
        }
        _ => return None,
    })
}

/// Keeps what a narrow signed integer has.
fn narrow(b: &mut KernelBuilder, t: DType, n: Num) -> Num {
    let spare = 32 - t.bits().min(32) as i32;
    match (t, n) {
        (DType::Pred, _) => two(b, Op::SAnd, n, Num::Const(1)),
        _ if spare == 0 => n,
        _ => {
            let up = two(b, Op::SShl, n, Num::Const(spare));
            two(b, Op::SSar, up, Num::Const(spare))
        }
    }
}

fn zero_extended(b: &mut KernelBuilder, from: DType, n: Num) -> Num {
    match from.bits() {
        _ if from == DType::Pred => n,
        bits @ 1..=31 => two(b, Op::SAnd, n, Num::Const((1 << bits) - 1)),
        _ => n,
    }
}

impl Lower<'_> {
    /// The element type of an operand or result.
    pub(super) fn element(&self, o: &Operation, v: systole_mosaic::Value) -> Result<DType, Refused> {
        let t = self.type_of(v).element().map(Element::dtype).ok_or_else(|| Refused::at(o, "of no numbers"))?;
        match t.bits() {
            64 => Err(Refused::at(o, format!("numbers of type {t} have no lowering in kernels"))),
            _ => Ok(t),
        }
    }

    /// A constant.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "anything else is refused; truth values are masks, integers words, all others floats; vectors are spread, everything else is a number"
    )]
    pub(super) fn constant(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let ty = self.type_of(o.results[0]).clone();
        let dtype = self.element(o, o.results[0])?;
        let one = match o.attributes.get("value") {
            Some(Attr::Int(i)) if dtype.is_float() => return Err(Refused::at(o, format!("{i} as a {dtype}"))),
            Some(Attr::Int(i)) => {
                let n = Num::Const(if dtype == DType::Pred { i32::from(*i != 0) } else { *i as i32 });
                return match ty {
                    Type::Scalar(_) => Ok(Val::Int(n)),
                    _ => Err(Refused::at(o, "a number where a vector is due")),
                };
            }
            Some(Attr::Float(f)) => *f,
            Some(Attr::Dense(_, v)) => match (&v[..], dtype.is_float()) {
                ([bits], true) => systole_mosaic::decode::float(dtype, *bits)
                    .ok_or_else(|| Refused::at(o, format!("a constant of type {dtype}")))?,
                ([n], false) => *n as i64 as f64,
                _ => return Err(Refused::at(o, "a constant of several numbers; pass it as an operand")),
            },
            _ => return Err(Refused::at(o, "a constant of another kind")),
        };
        let v = match dtype {
            DType::Pred => {
                let (x, zero) = (b.v_imm(i32::from(one != 0.0)), b.v_imm(0));
                Elements::mask(b.cmp(Op::VNeI, x, zero))
            }
            t if t.is_integer() => Elements::word(t, b.v_imm(one as i64 as i32)),
            t => Elements::word(t, b.v_f32(one as f32)),
        };
        Ok(match ty {
            Type::Vector(dims, _) => Val::Vector(super::value::Tensor::new(
                &dims,
                super::value::Form::Lanes,
                dtype,
                super::value::Expr::Splat(v),
            )),
            _ => Val::Float(v),
        })
    }

    /// An operation on elements whose operands are numbers, not vectors.
    pub(super) fn numbers(&mut self, b: &mut KernelBuilder, o: &Operation, fun: Fun) -> Result<Val, Refused> {
        let to = self.element(o, o.results[0])?;
        let from = self.element(o, o.operands[0])?;
        let args = o.operands.iter().map(|v| self.get(o, *v)).collect::<Result<Vec<Val>, Refused>>()?;
        if let Some(ints) =
            args.iter().map(|a| if let Val::Int(n) = a { Some(*n) } else { None }).collect::<Option<Vec<Num>>>()
            && let Some(n) = integers(b, fun, &ints, from, to)
        {
            return Ok(Val::Int(narrow(b, to, n)));
        }
        // On the vector unit, in every lane alike.
        let mut values = Vec::new();
        for (v, a) in o.operands.iter().zip(&args) {
            let t = self.type_of(*v).clone();
            values.push(self.splat(b, o, a, &t)?);
        }
        let r = super::element::apply(b, fun, &values, to);
        Ok(match to {
            t if t.is_float() => Val::Float(r),
            t => Val::Int(Num::Reg(extract(b, t, &r))),
        })
    }
}

/// The number that every lane has.
#[allow(clippy::wildcard_enum_match_arm, reason = "all other types are words")]
pub(super) fn extract(b: &mut KernelBuilder, t: DType, v: &Elements) -> S {
    match t {
        DType::Pred => {
            let bits = b.sel(v.m(), 1, 0);
            b.extract(bits)
        }
        _ => b.extract(v.v()),
    }
}

/// An operation on integers of the scalar unit, if it has it.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed goes through the vector unit")]
fn integers(b: &mut KernelBuilder, fun: Fun, x: &[Num], from: DType, to: DType) -> Option<Num> {
    use systole_hlo::graph::elementwise::{Arithmetic, BinaryKind, Integer};
    use systole_hlo::graph::{Binary, Direction};
    if to.is_float() || from.is_float() {
        return None;
    }
    let predicate = |d: Direction, unsigned: i64| match d {
        Direction::Eq => 0,
        Direction::Ne => 1,
        Direction::Lt => 2 + unsigned,
        Direction::Le => 3 + unsigned,
        Direction::Gt => 4 + unsigned,
        Direction::Ge => 5 + unsigned,
    };
    Some(match fun {
        Fun::Binary(op) => match op.kind() {
            BinaryKind::Arithmetic(Arithmetic::Add) if from == DType::Pred => two(b, Op::SXor, x[0], x[1]),
            BinaryKind::Arithmetic(Arithmetic::Add) => add(b, x[0], x[1]),
            BinaryKind::Arithmetic(Arithmetic::Sub) => match (x[0], x[1]) {
                (n, Num::Const(c)) => add(b, n, Num::Const(c.wrapping_neg())),
                (m, n) => two(b, Op::SSub, m, n),
            },
            BinaryKind::Arithmetic(Arithmetic::Mul) => mul(b, x[0], x[1]),
            BinaryKind::Arithmetic(Arithmetic::Div) => two(b, Op::SDiv, x[0], x[1]),
            BinaryKind::Arithmetic(Arithmetic::Rem) => two(b, Op::SRem, x[0], x[1]),
            BinaryKind::Arithmetic(Arithmetic::Max) => two(b, Op::SMax, x[0], x[1]),
            BinaryKind::Arithmetic(Arithmetic::Min) => two(b, Op::SMin, x[0], x[1]),
            BinaryKind::Integer(Integer::And) => two(b, Op::SAnd, x[0], x[1]),
            BinaryKind::Integer(Integer::Or) => two(b, Op::SOr, x[0], x[1]),
            BinaryKind::Integer(Integer::Xor) => two(b, Op::SXor, x[0], x[1]),
            BinaryKind::Integer(Integer::Shl) => two(b, Op::SShl, x[0], x[1]),
            BinaryKind::Integer(Integer::Sar) => two(b, Op::SSar, x[0], x[1]),
            BinaryKind::Integer(Integer::Shr) | BinaryKind::BinaryFunction(_) | BinaryKind::Join(_) => return None,
        },
        Fun::Unsigned(op) => {
            let (p, q) = (zero_extended(b, from, x[0]), zero_extended(b, from, x[1]));
            match op {
                Binary::Div => two(b, Op::SDivU, p, q),
                Binary::Rem => two(b, Op::SRemU, p, q),
                Binary::Shr => two(b, Op::SShr, p, q),
                Binary::Max | Binary::Min => {
                    let less = two(b, Op::SLtU, p, q);
                    let (l, p, q) = (reg(b, less), reg(b, p), reg(b, q));
                    Num::Reg(if op == Binary::Max { b.s(Op::SSel, &[l, q, p]) } else { b.s(Op::SSel, &[l, p, q]) })
                }
                _ => return None,
            }
        }
        Fun::Compare(d) => compare(b, predicate(d, 0), x[0], x[1])?,
        Fun::CompareUnsigned(d) => {
            let (p, q) = (zero_extended(b, from, x[0]), zero_extended(b, from, x[1]));
            let unsigned = if matches!(d, Direction::Eq | Direction::Ne) { 0 } else { 4 };
            compare(b, predicate(d, unsigned), p, q)?
        }
        Fun::Select => match x[0] {
            Num::Const(c) => x[if c != 0 { 1 } else { 2 }],
            Num::Reg(c) => {
                let (p, q) = (reg(b, x[1]), reg(b, x[2]));
                Num::Reg(b.s(Op::SSel, &[c, p, q]))
            }
        },
        Fun::Convert if from == DType::Pred => two(b, Op::SSub, Num::Const(0), x[0]),
        Fun::Convert | Fun::Bitcast => x[0],
        Fun::FromUnsigned | Fun::ToUnsigned => zero_extended(b, from, x[0]),
        _ => return None,
    })
}
