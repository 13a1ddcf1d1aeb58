//! One register's worth of an operation on elements; vectors of several narrow elements in one wide one.

use super::value::{Expr, Form, Fun, Num, Region, Tensor, Val};
use super::{Lower, Made, Refused};
use crate::emit::Value;
use crate::emit::elementwise::{self, bitcast_same_width, compare, convert, select};
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
    pub(super) fn with_number(&mut self, b: &mut KernelBuilder, fun: Fun, of: Rc<Tensor>, n: i32) -> Made {
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

    /// The bits of elements of another width: rows are split, or put together, the lowest bits first.
    pub(super) fn bitcast(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let t = self.vector(o, 0)?;
        let (dims, to) = (self.dims(o)?, self.element(o, o.results[0])?);
        self.bits_as(b, &t, &dims, to).map(Val::Vector).map_err(|e| Refused::at(o, e.what))
    }

    /// The bits of a vector as elements of another type, in sizes that have as many bits along rows.
    pub(super) fn bits_as(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, dims: &[u64], to: DType) -> Made {
        if t.dtype.bits() == to.bits() {
            return Ok(Tensor::new(dims, t.form, to, Expr::Element(Fun::Bitcast, vec![Rc::clone(t)])));
        }
        let n = t.dims.len();
        let fits = n >= 2 && dims.len() == n && dims[..n - 2] == t.dims[..n - 2] && dims[n - 1] == t.dims[n - 1];
        if !fits || t.dims[n - 2] * t.dtype.bits() as u64 != dims[n - 2] * to.bits() as u64 {
            return Err(Refused::new(format!("sizes {:?} of {} as {dims:?} of {to}", t.dims, t.dtype)));
        }
        let t = self.in_form(b, t, Form::Lanes)?;
        let t = if t.dtype.bits() < 8 { self.bytes_of(b, &t)? } else { t };
        // Types narrower than a byte have one each: they come last.
        let width = to.bits().max(8);
        let through = if to.bits() == width { to } else { DType::S8 };
        let mut sizes = t.dims.clone();
        sizes[n - 2] = sizes[n - 2] * t.dtype.bits() as u64 / width as u64;
        let t = self.other_width(b, &t, &sizes, through)?;
        if to.bits() < 8 { self.parts_of_bytes(b, &t, to) } else { Ok(t) }
    }

    /// The bits under another type of whole bytes: the same memory.
    fn other_width(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, dims: &[u64], to: DType) -> Made {
        if t.dtype.bits() == to.bits() {
            return Ok(Tensor::new(dims, t.form, to, Expr::Element(Fun::Bitcast, vec![Rc::clone(t)])));
        }
        let (from, into) = (t.dtype.packing() as i64, to.packing() as i64);
        let scaled = |r: &Region| {
            let scale = |x: i64| Some(x * into / from).filter(|s| s * from == x * into);
            let mut r = r.clone();
            if r.row() != 1 || r.lane.first != Num::Const(0) {
                return None;
            }
            r.offset = scale(i64::from(r.offset))? as i32;
            r.plane = scale(r.plane)?;
            let outer = r.outer().iter().map(|s| scale(*s));
            r.steps = outer.chain([Some(1)]).collect::<Option<_>>()?;
            r.dtype = to;
            Some(r)
        };
        let mut r = self.force_memory(b, t)?;
        let even = |l: &Self, r: &Region| from <= into || l.begins_words(r.base);
        let mut seen = scaled(&r).filter(|_| even(self, &r));
        if seen.is_none() {
            // Rows apart from each other, or within a word, are first put together. Dimensions of several rows begin words.
            let mut whole = t.dims.clone();
            let n = whole.len();
            whole[n - 2] = whole[n - 2].next_multiple_of(from.max(into) as u64);
            r = self.temp(b, &whole, Form::Lanes, t.dtype);
            self.store_all(b, t, &r)?;
            seen = scaled(&r);
        }
        let mut seen = seen.ok_or_else(|| Refused::new("of rows that do not lie together"))?;
        seen.base = self.rescaled(b, r.base, from, into);
        Ok(Tensor::new(dims, Form::Lanes, to, Expr::Memory(seen)))
    }

    /// Part `k` of `parts` of a region's rows: every so many.
    fn every(r: &Region, k: u64, parts: u64) -> Region {
        let mut part = r.clone();
        part.offset += (k as i64 * r.row()) as i32;
        if let Some(row) = part.steps.last_mut() {
            *row *= parts as i64;
        }
        part.own = false;
        part
    }

    /// Elements narrower than a byte, which have one each in memory, put together to bytes.
    fn bytes_of(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Made {
        let (bits, n) = (t.dtype.bits() as i32, t.dims.len());
        let parts = 8 / bits as u64;
        let r = self.force_memory(b, t)?;
        let mut dims = t.dims.clone();
        dims[n - 2] /= parts;
        let splat = |b: &mut KernelBuilder, c: i32| {
            Tensor::new(&dims, Form::Lanes, DType::S32, Expr::Splat(Value::word(DType::S32, b.v_imm(c))))
        };
        let mut all: Option<Rc<Tensor>> = None;
        for k in 0..parts {
            let part = Tensor::new(&dims, Form::Lanes, t.dtype, Expr::Memory(Self::every(&r, k, parts)));
            let wide = self.combined(b, Fun::Convert, vec![part], &dims, DType::S32)?;
            let (mask, by) = (splat(b, (1 << bits) - 1), splat(b, k as i32 * bits));
            let low = self.combined(b, Fun::Binary(Binary::And), vec![wide, mask], &dims, DType::S32)?;
            let up = self.combined(b, Fun::Binary(Binary::Shl), vec![low, by], &dims, DType::S32)?;
            all = Some(match all {
                None => up,
                Some(all) => self.combined(b, Fun::Binary(Binary::Or), vec![all, up], &dims, DType::S32)?,
            });
        }
        let all = all.ok_or_else(|| Refused::new("of no bits"))?;
        self.combined(b, Fun::Convert, vec![all], &dims, DType::S8)
    }

    /// Bytes taken apart.
    fn parts_of_bytes(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, to: DType) -> Made {
        let (bits, n) = (to.bits() as i32, t.dims.len());
        let parts = 8 / bits as u64;
        let mut dims = t.dims.clone();
        dims[n - 2] *= parts;
        let region = self.temp(b, &dims, Form::Lanes, to);
        self.force(b, t)?;
        let splat = |b: &mut KernelBuilder, c: i32| {
            Tensor::new(&t.dims, Form::Lanes, DType::S32, Expr::Splat(Value::word(DType::S32, b.v_imm(c))))
        };
        for k in 0..parts {
            let wide = self.combined(b, Fun::Convert, vec![Rc::clone(t)], &t.dims, DType::S32)?;
            // The sign is the part's own.
            let (up, down) = (splat(b, 32 - (k as i32 + 1) * bits), splat(b, 32 - bits));
            let high = self.combined(b, Fun::Binary(Binary::Shl), vec![wide, up], &t.dims, DType::S32)?;
            let part = self.combined(b, Fun::Binary(Binary::Sar), vec![high, down], &t.dims, DType::S32)?;
            let part = self.combined(b, Fun::Convert, vec![part], &t.dims, to)?;
            self.store_all(b, &part, &Self::every(&region, k, parts))?;
        }
        Ok(Tensor::new(&dims, Form::Lanes, to, Expr::Memory(region)))
    }
}
