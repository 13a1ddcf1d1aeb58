//! Random bits: a hash of the seed, of how often bits were drawn since, and of the element's number.
//!
//! The chip has no generator of its own. Pallas promises no particular bits, only that the same seed gives the same.

use super::value::{Expr, Form, Fun, Tensor, Val};
use super::{Lower, Refused};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, S};
use std::rc::Rc;
use systole_hlo::graph::Binary;
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
}
