//! One register's worth of an operation on elements; vectors of several narrow elements in one wide one.

use super::value::{Expr, Fun, Tensor, Val};
use super::{Lower, Refused};
use crate::emit::elementwise::{self, bitcast_same_width, compare, convert, select};
use crate::emit::{Value, operand::Ops};
use crate::kernel::KernelBuilder;
use std::rc::Rc;
use systole_hlo::graph::{Binary, Direction, Order, Unary};
use systole_isa::{DType, Op};
use systole_mosaic::{Attr, Operation, Type};

/// The unsigned type of a signed type's width.
#[allow(clippy::wildcard_enum_match_arm, reason = "all other types have no sign")]
pub(super) fn unsigned(t: DType) -> DType {
    match t {
        DType::S2 => DType::U2,
        DType::S4 => DType::U4,
        DType::S8 => DType::U8,
        DType::S16 => DType::U16,
        DType::S32 => DType::U32,
        DType::S64 => DType::U64,
        t => t,
    }
}

/// The result, of element type `to`.
pub(super) fn apply(b: &mut KernelBuilder, fun: Fun, x: &[Value], to: DType) -> Value {
    let as_unsigned = |b: &mut KernelBuilder, v: &Value| bitcast_same_width(b, v, unsigned(v.dtype));
    match fun {
        Fun::Unary(u) => elementwise::unary(b, u, &x[0], to),
        Fun::Binary(f) => elementwise::binary(b, f, &x[0], &x[1]),
        Fun::Unsigned(f) => {
            let (p, q) = (as_unsigned(b, &x[0]), as_unsigned(b, &x[1]));
            let r = elementwise::binary(b, f, &p, &q);
            bitcast_same_width(b, &r, to)
        }
        Fun::Compare(d) => compare(b, d, Order::Partial, &x[0], &x[1]),
        Fun::CompareUnsigned(d) => {
            let (p, q) = (as_unsigned(b, &x[0]), as_unsigned(b, &x[1]));
            compare(b, d, Order::Partial, &p, &q)
        }
        Fun::CompareOrNan(d) => {
            let holds = compare(b, d, Order::Partial, &x[0], &x[1]).m();
            let ordered = ordered(b, &x[0], &x[1]).m();
            let not = b.m_not(ordered);
            Value::mask(b.m_or(holds, not))
        }
        Fun::Ordered => ordered(b, &x[0], &x[1]),
        Fun::Unordered => {
            let m = ordered(b, &x[0], &x[1]).m();
            Value::mask(b.m_not(m))
        }
        Fun::Select => select(b, &x[0], &x[1], &x[2]),
        Fun::Convert => match (x[0].dtype, to) {
            // All ones for true: a sign that is repeated.
            (DType::Pred, t) if t.is_integer() => {
                let v = b.sel(x[0].m(), -1, 0);
                Value::word(t, v)
            }
            // The lowest bit.
            (t, DType::Pred) if t.is_integer() => {
                let bit = b.and(x[0].v(), 1);
                Value::mask(b.test(Op::VNeI, bit, 0))
            }
            _ => convert(b, &x[0], to),
        },
        Fun::FromUnsigned => {
            let v = as_unsigned(b, &x[0]);
            match to.is_float() {
                true => convert(b, &v, to),
                false => {
                    let wide = convert(b, &v, unsigned(to));
                    bitcast_same_width(b, &wide, to)
                }
            }
        }
        Fun::ToUnsigned => {
            let v = convert(b, &x[0], unsigned(to));
            bitcast_same_width(b, &v, to)
        }
        Fun::Bitcast => bitcast_same_width(b, &x[0], to),
        Fun::NotFinite => {
            let finite = elementwise::unary(b, Unary::IsFinite, &x[0], DType::Pred).m();
            Value::mask(b.m_not(finite))
        }
        Fun::Fma => {
            let product = elementwise::binary(b, Binary::Mul, &x[0], &x[1]);
            elementwise::binary(b, Binary::Add, &product, &x[2])
        }
        Fun::Exp2 => {
            let scale = elementwise::constant_f64(b, std::f64::consts::LN_2, x[0].dtype);
            let y = elementwise::binary(b, Binary::Mul, &x[0], &scale);
            elementwise::unary(b, Unary::Exp, &y, to)
        }
        Fun::Number(f) => {
            let r = elementwise::binary(b, f, &x[0], &x[1]);
            let first = compare(b, Direction::Eq, Order::Partial, &x[0], &x[0]);
            let second = compare(b, Direction::Eq, Order::Partial, &x[1], &x[1]);
            let r = select(b, &second, &r, &x[0]);
            select(b, &first, &r, &x[1])
        }
    }
}

fn ordered(b: &mut KernelBuilder, x: &Value, y: &Value) -> Value {
    let p = compare(b, Direction::Eq, Order::Partial, x, x).m();
    let q = compare(b, Direction::Eq, Order::Partial, y, y).m();
    Value::mask(b.m_and(p, q))
}

/// The narrow type that an attribute names.
fn narrow(o: &Operation, name: &str) -> Result<DType, Refused> {
    match o.attributes.get(name) {
        Some(Attr::Type(Type::Scalar(e))) => Ok(e.dtype()),
        _ => Err(Refused::at(o, format!("`{name}` is no type of elements"))),
    }
}

/// The integer type of as many bits.
fn integer(o: &Operation, bits: i32) -> Result<DType, Refused> {
    match bits {
        8 => Ok(DType::S8),
        16 => Ok(DType::S16),
        _ => Err(Refused::at(o, format!("floats of {bits} bits"))),
    }
}

impl Lower<'_> {
    /// `of` and the same number everywhere.
    fn with_number(&mut self, b: &mut KernelBuilder, fun: Fun, of: Rc<Tensor>, n: i32) -> Result<Rc<Tensor>, Refused> {
        let (dims, dtype, form) = (of.dims.clone(), of.dtype, of.form);
        let n = crate::emit::Value::word(dtype, b.v_imm(n));
        let n = Tensor::new(&dims, form, dtype, Expr::Splat(n));
        self.combined(b, fun, vec![of, n], &dims, dtype)
    }

    /// `tpu.pack_elementwise`: the first operand in the lowest bits.
    pub(super) fn packed(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let (dims, word) = (self.dims(o)?, self.element(o, o.results[0])?);
        let to = narrow(o, "target_type")?;
        let bits = to.bits() as i32;
        let mut all: Option<Rc<Tensor>> = None;
        for i in 0..o.operands.len() {
            let t = self.vector(o, i)?;
            let low = if to.is_float() {
                let t = self.combined(b, Fun::Convert, vec![t], &dims, to)?;
                let same = integer(o, bits)?;
                let t = self.combined(b, Fun::Bitcast, vec![t], &dims, same)?;
                self.combined(b, Fun::FromUnsigned, vec![t], &dims, word)?
            } else {
                self.with_number(b, Fun::Binary(Binary::And), t, ((1i64 << bits) - 1) as i32)?
            };
            let at = match i {
                0 => low,
                i => self.with_number(b, Fun::Binary(Binary::Shl), low, bits * i as i32)?,
            };
            all = Some(match all {
                None => at,
                Some(before) => self.combined(b, Fun::Binary(Binary::Or), vec![before, at], &dims, word)?,
            });
        }
        all.map(Val::Vector).ok_or_else(|| Refused::at(o, "of nothing"))
    }

    /// `tpu.unpack_elementwise`: integers keep their sign.
    pub(super) fn unpacked(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let (dims, to) = (self.dims(o)?, self.element(o, o.results[0])?);
        let t = self.vector(o, 0)?;
        let from = narrow(o, "source_type")?;
        let (bits, width) = (from.bits() as i32, t.dtype.bits() as i32);
        let index = o.int("index").and_then(|i| i32::try_from(i).ok()).filter(|i| *i >= 0 && (i + 1) * bits <= width);
        let index = index.ok_or_else(|| Refused::at(o, "of an element beyond the word"))?;
        // First into the highest bits: what lies above is gone.
        let high = match width - (index + 1) * bits {
            0 => t,
            n => self.with_number(b, Fun::Binary(Binary::Shl), t, n)?,
        };
        let out = if from.is_float() {
            let same = integer(o, bits)?;
            let low = self.with_number(b, Fun::Unsigned(Binary::Shr), high, width - bits)?;
            let low = self.combined(b, Fun::Convert, vec![low], &dims, same)?;
            let low = self.combined(b, Fun::Bitcast, vec![low], &dims, from)?;
            self.combined(b, Fun::Convert, vec![low], &dims, to)?
        } else {
            let low = self.with_number(b, Fun::Binary(Binary::Sar), high, width - bits)?;
            self.combined(b, Fun::Convert, vec![low], &dims, to)?
        };
        Ok(Val::Vector(out))
    }
}
