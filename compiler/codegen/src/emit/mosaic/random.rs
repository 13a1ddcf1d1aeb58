//! Random bits: a hash of the seed, of how often bits were drawn since, and of the element's number.
//!
//! The chip has no generator of its own. Pallas promises no particular bits, only that the same seed gives the same.

use super::value::{Expr, Form, Fun, Tensor, Val};
use super::{Lower, Made, Refused};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, S};
use std::rc::Rc;
use systole_hlo::graph::{Binary, Unary};
use systole_isa::{DType, Op};
use systole_mosaic::{Block, Operation};

/// Odd numbers without structure: the golden ratio's bits, and multipliers of a published hash of 32 bits with little bias
/// (Wellons, "Prospecting for hash functions").
const GOLDEN: i32 = 0x9e37_79b1_u32 as i32;
const ROUNDS: [(i32, i32); 2] = [(16, 0x7feb_352d), (15, 0x846c_a68b_u32 as i32)];

fn draws(b: &Block) -> bool {
    let one = |o: &Operation| o.name.starts_with("tpu.prng") || o.regions.iter().any(draws);
    b.operations.iter().any(one)
}

impl Lower<'_> {
    /// Before the kernel's code: variables, if it draws random bits.
    pub(super) fn prepare_random(&mut self, b: &mut KernelBuilder) {
        if draws(&self.kernel.function.body) {
            self.random = Some((b.s_var(0), b.s_var(0)));
        }
    }

    fn generator(&self, o: &Operation) -> Result<(S, S), Refused> {
        self.random.ok_or_else(|| Refused::at(o, "outside of the kernel's body"))
    }

    pub(super) fn seed(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<(), Refused> {
        let (seed, drawn) = self.generator(o)?;
        let zero = b.s_imm(0);
        b.copy_s(drawn, zero);
        b.copy_s(seed, zero);
        for i in 0..o.operands.len() {
            let n = self.int(o, i)?;
            let n = super::scalar::reg(b, n);
            let sum = b.s(Op::SAdd, &[seed, n]);
            let sum = b.s_addi(sum, 1);
            let golden = b.s_imm(GOLDEN);
            b.set_s(seed, Op::SMul, &[sum.into(), golden.into()]);
        }
        Ok(())
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "bits are s32; every other type is a view of them")]
    pub(super) fn random_bits(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let (seed, drawn) = self.generator(o)?;
        let (dims, to) = (self.dims(o)?, self.element(o, o.results[0])?);
        if to.bits() != 32 {
            return Err(Refused::at(o, format!("of type {to}")));
        }
        b.s_inc(drawn, 1);
        let golden = b.s_imm(GOLDEN);
        let key = b.s(Op::SMul, &[drawn, golden]);
        let key = b.s(Op::SXor, &[key, seed]);
        let key = b.splat(key);
        let splat = |v| Tensor::new(&dims, Form::Lanes, DType::S32, Expr::Splat(Value::word(DType::S32, v)));
        let axes = (0..dims.len() as i64).collect();
        let Val::Vector(mut x) = self.iota_of(b, &dims, DType::S32, axes)? else {
            return Err(Refused::at(o, "of no elements"));
        };
        let apply = |l: &mut Self, b: &mut KernelBuilder, f: Fun, x: Rc<Tensor>, by: Rc<Tensor>| {
            l.combined(b, f, vec![x, by], &dims, DType::S32)
        };
        let (xor, mul) = (Fun::Binary(Binary::Xor), Fun::Binary(Binary::Mul));
        let constant = |b: &mut KernelBuilder, n: i32| {
            let v = b.v_imm(n);
            splat(v)
        };
        let by = constant(b, GOLDEN);
        x = apply(self, b, mul, x, by)?;
        x = apply(self, b, Fun::Binary(Binary::Add), x, splat(key))?;
        for (shift, factor) in ROUNDS.into_iter().chain([(16, 1)]) {
            let by = constant(b, shift);
            let down = apply(self, b, Fun::Unsigned(Binary::Shr), Rc::clone(&x), by)?;
            x = apply(self, b, xor, x, down)?;
            let by = constant(b, factor);
            x = apply(self, b, mul, x, by)?;
            // Bits are used twice from here on.
            self.force(b, &x)?;
        }
        Ok(Val::Vector(match to {
            DType::S32 => x,
            to => Tensor::new(&dims, Form::Lanes, to, Expr::Element(Fun::Bitcast, vec![x])),
        }))
    }

    /// Floats rounded up or down: the nearer one of the two is the likelier.
    pub(super) fn rounded_at_random(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let (x, bits) = (self.vector(o, 0)?, self.vector(o, 1)?);
        let (dims, to) = (self.dims(o)?, self.element(o, o.results[0])?);
        // Bits of the fraction, and the exponent below which steps stay as they are.
        let (fraction, least) = rounding(to).ok_or_else(|| Refused::at(o, format!("to {to}")))?;
        let mut c = Chain { l: self, b, dims: &dims };
        let bits = if bits.dtype == DType::S32 { bits } else { c.bitcast(&bits, DType::S32)? };
        let (exact, low) = (c.bitcast(&x, DType::S32)?, c.int(0xffff));
        let noise = c.two(Binary::And, &bits, &low, DType::S32)?;
        let rounded = if to == DType::BF16 {
            let (sum, high) = (c.two(Binary::Add, &exact, &noise, DType::S32)?, c.int(!0xffff));
            let cut = c.two(Binary::And, &sum, &high, DType::S32)?;
            c.bitcast(&cut, DType::F32)?
        } else {
            // In steps of the result's type: a random part of one is added, and what is left of a step is dropped.
            let positive = c.int(i32::MAX);
            let size = c.two(Binary::And, &exact, &positive, DType::S32)?;
            let (by, first, last) = (c.int(23), c.int(least + 127), c.int(254 + fraction - 23));
            let exponent = c.two(Binary::Shr, &size, &by, DType::S32)?;
            let exponent = c.two(Binary::Max, &exponent, &first, DType::S32)?;
            let exponent = c.two(Binary::Min, &exponent, &last, DType::S32)?;
            let (less, whole) = (c.int(fraction), c.int(254));
            let step = c.two(Binary::Sub, &exponent, &less, DType::S32)?;
            let inverse = c.two(Binary::Sub, &whole, &step, DType::S32)?;
            let power = |c: &mut Chain<'_, '_>, n: &Rc<Tensor>| {
                let bits = c.two(Binary::Shl, n, &by, DType::S32)?;
                c.bitcast(&bits, DType::F32)
            };
            let (step, inverse) = (power(&mut c, &step)?, power(&mut c, &inverse)?);
            let size = c.bitcast(&size, DType::F32)?;
            let steps = c.two(Binary::Mul, &size, &inverse, DType::F32)?;
            let part = c.l.combined(c.b, Fun::Convert, vec![noise], c.dims, DType::F32)?;
            let scale = c.float(1.0 / 65536.0);
            let part = c.two(Binary::Mul, &part, &scale, DType::F32)?;
            let sum = c.two(Binary::Add, &steps, &part, DType::F32)?;
            let floor = c.l.combined(c.b, Fun::Unary(Unary::Floor), vec![sum], c.dims, DType::F32)?;
            let size = c.two(Binary::Mul, &floor, &step, DType::F32)?;
            let (size, sign) = (c.bitcast(&size, DType::S32)?, c.int(i32::MIN));
            let sign = c.two(Binary::And, &exact, &sign, DType::S32)?;
            let all = c.two(Binary::Or, &size, &sign, DType::S32)?;
            c.bitcast(&all, DType::F32)?
        };
        let special = c.l.combined(c.b, Fun::NotFinite, vec![Rc::clone(&x)], c.dims, DType::Pred)?;
        let chosen = c.l.combined(c.b, Fun::Select, vec![special, x, rounded], c.dims, DType::F32)?;
        c.l.combined(c.b, Fun::Convert, vec![chosen], c.dims, to).map(Val::Vector)
    }
}

/// Of a type that floats are rounded to at random: bits of its fraction, its smallest exponent.
#[allow(clippy::wildcard_enum_match_arm, reason = "Pallas rounds to these types only")]
fn rounding(to: DType) -> Option<(i32, i32)> {
    Some(match to {
        DType::BF16 => (7, -126),
        DType::F8E5M2 => (2, -14),
        DType::F8E4M3FN => (3, -6),
        DType::F8E4M3B11FNUZ => (3, -10),
        _ => return None,
    })
}

/// Operations on vectors of the same sizes, one after the other.
struct Chain<'c, 'a> {
    l: &'c mut Lower<'a>,
    b: &'c mut KernelBuilder,
    dims: &'c [u64],
}

impl Chain<'_, '_> {
    fn int(&mut self, n: i32) -> Rc<Tensor> {
        let v = Value::word(DType::S32, self.b.v_imm(n));
        Tensor::new(self.dims, Form::Lanes, DType::S32, Expr::Splat(v))
    }

    fn float(&mut self, n: f32) -> Rc<Tensor> {
        let v = Value::word(DType::F32, self.b.v_f32(n));
        Tensor::new(self.dims, Form::Lanes, DType::F32, Expr::Splat(v))
    }

    fn two(&mut self, f: Binary, x: &Rc<Tensor>, y: &Rc<Tensor>, to: DType) -> Made {
        self.l.combined(self.b, Fun::Binary(f), vec![Rc::clone(x), Rc::clone(y)], self.dims, to)
    }

    fn bitcast(&mut self, x: &Rc<Tensor>, to: DType) -> Made {
        self.l.combined(self.b, Fun::Bitcast, vec![Rc::clone(x)], self.dims, to)
    }
}
