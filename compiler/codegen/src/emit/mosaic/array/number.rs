//! Single numbers in arrays, of scalar memory most of all.

use super::super::scalar::{add, mul, reg, two};
use super::super::value::{Expr, Num, Ref, Tensor, Val};
use super::super::{Lower, Refused};
use crate::emit::Value as Elements;
use crate::kernel::{KernelBuilder, S};
use systole_isa::{DType, Op};
use systole_mosaic::{Operation, Space};

impl Lower<'_> {
    /// The word of scalar memory that an array's element is in, and the number of its first bit.
    fn word(&mut self, b: &mut KernelBuilder, r: &Ref) -> Result<(S, i32, Num), Refused> {
        let packing = r.dtype.packing() as i32;
        let lanes = self.shape().1 as i32;
        let mut rows = r.offset;
        let mut lane = r.lane;
        // Where each register of lanes is a word row of its own behind the one before, words follow each other.
        if r.plane != 1 || packing != 1 {
            let q = two(b, Op::SShr, lane, Num::Const(lanes.trailing_zeros() as i32));
            let q = mul(b, q, Num::Const(r.plane as i32));
            rows = add(b, rows, q);
            lane = two(b, Op::SAnd, lane, Num::Const(lanes - 1));
        }
        // Rows that share words lie in them from the lowest bit on.
        let within = two(b, Op::SAnd, rows, Num::Const(packing - 1));
        let bit = mul(b, within, Num::Const(32 / packing));
        let rows = two(b, Op::SShr, rows, Num::Const(packing.trailing_zeros() as i32));
        let words = mul(b, rows, Num::Const(lanes));
        Ok(match add(b, words, lane) {
            Num::Const(c) => (r.base, c, bit),
            Num::Reg(s) => (b.s(Op::SAdd, &[r.base, s]), 0, bit),
        })
    }

    /// A number of a narrow type out of its word, or out of the low bits of one.
    #[allow(clippy::wildcard_enum_match_arm, reason = "what is left is refused by name")]
    fn narrow_number(&mut self, b: &mut KernelBuilder, t: DType, word: S, bit: Num) -> Result<Val, Refused> {
        let bits = 32 / t.packing() as i32;
        let up = two(b, Op::SSub, Num::Const(32 - bits), bit);
        let high = two(b, Op::SShl, Num::Reg(word), up);
        match t {
            // Registers hold it as the upper half of a float.
            DType::BF16 => {
                let s = reg(b, high);
                Ok(Val::Float(Elements::word(t, b.splat(s))))
            }
            DType::F16 => {
                let low = two(b, Op::SShr, high, Num::Const(16));
                let s = reg(b, low);
                let v = b.splat(s);
                Ok(Val::Float(Elements::word(t, b.v1(Op::VUnpackF16, v))))
            }
            // Types narrower than their place have its low bits.
            t if t.is_integer() => {
                let spare = 32 - t.bits() as i32;
                let up = two(b, Op::SSub, Num::Const(spare), bit);
                let high = two(b, Op::SShl, Num::Reg(word), up);
                Ok(Val::Int(two(b, Op::SSar, high, Num::Const(spare))))
            }
            t if t.is_byte_float() => {
                let low = two(b, Op::SShr, high, Num::Const(24));
                let s = reg(b, low);
                let bits = Elements::word(DType::U8, b.splat(s));
                Ok(Val::Float(crate::emit::elementwise::bitcast_same_width(b, &bits, t)))
            }
            t => Err(Refused::new(format!("{t} numbers in scalar memory"))),
        }
    }

    /// A word with other bits from number `bit` on.
    fn within(&mut self, b: &mut KernelBuilder, (word, bit): (S, Num), n: Num, bits: u32) -> S {
        let mask = ((1u64 << bits) - 1) as i32;
        let n = two(b, Op::SAnd, n, Num::Const(mask));
        let n = two(b, Op::SShl, n, bit);
        let holes = two(b, Op::SShl, Num::Const(mask), bit);
        let kept = two(b, Op::SXor, holes, Num::Const(-1));
        let kept = two(b, Op::SAnd, Num::Reg(word), kept);
        let sum = two(b, Op::SOr, kept, n);
        reg(b, sum)
    }

    pub(in super::super) fn load_number(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let r = self.loaded(b, o)?;
        if r.space == Space::Smem {
            let (base, offset, bit) = self.word(b, &r)?;
            let s = b.smem_load(base, offset);
            if r.dtype.packing() > 1 {
                return self.narrow_number(b, r.dtype, s, bit);
            }
            return Ok(match r.dtype.is_float() {
                true => Val::Float(Elements::word(r.dtype, b.splat(s))),
                false => Val::Int(Num::Reg(s)),
            });
        }
        let one = vec![1; r.dims.len().max(1)];
        let (region, form) = self.region_at(b, &r, &one)?;
        let t = Tensor::new(&one, form, r.dtype, Expr::Memory(region));
        let v = self.single(b, &t)?;
        Ok(match r.dtype.is_float() {
            true => Val::Float(v),
            false => Val::Int(Num::Reg(super::super::scalar::extract(b, r.dtype, &v))),
        })
    }

    pub(in super::super) fn store_number(
        &mut self,
        b: &mut KernelBuilder,
        o: &Operation,
        i: usize,
    ) -> Result<(), Refused> {
        let r = self.array(o, o.operands[1])?;
        let indices = self.indices(o, &o.operands[2..])?;
        let r = self.moved_by(b, &r, &indices);
        let v = self.get(o, o.operands[0])?;
        if r.space == Space::Smem {
            let mut s = match (v, r.dtype) {
                (Val::Int(n), _) => reg(b, n),
                (Val::Float(v), DType::F16) => {
                    let packed = b.v1(Op::VPackF16, v.v());
                    b.extract(packed)
                }
                (Val::Float(v), t) if t.is_byte_float() => {
                    let bits = crate::emit::elementwise::bitcast_same_width(b, &v, DType::U8);
                    b.extract(bits.v())
                }
                (Val::Float(v), _) => b.extract(v.v()),
                _ => return Err(Refused::at(o, "stores no number")),
            };
            let (base, offset, bit) = self.word(b, &r)?;
            if r.dtype.packing() > 1 {
                // Registers hold bf16 as the upper half of a float.
                let n =
                    if r.dtype == DType::BF16 { two(b, Op::SShr, Num::Reg(s), Num::Const(16)) } else { Num::Reg(s) };
                let word = b.smem_load(base, offset);
                s = self.within(b, (word, bit), n, 32 / r.dtype.packing() as u32);
            }
            b.smem_store(s, base, offset);
            return Ok(());
        }
        let ty = self.type_of(o.operands[0]).clone();
        let v = self.splat(b, o, &v, &ty)?;
        let one = vec![1; r.dims.len().max(1)];
        let (region, form) = self.region_at(b, &r, &one)?;
        let t = Tensor::new(&one, form, r.dtype, Expr::Splat(v));
        self.write(b, &t, &region, i)
    }
}
