//! Scalar code of the main program: words in scalar memory, and the operations on them.

use super::{Emitter, split};
use crate::plan::action::Spot;
use crate::plan::kernel_semaphores;
use crate::plan::step::{ScalarOp, Word};
use systole_codegen::kernel::{BufferRef, KernelBuilder, S};
use systole_hlo::graph::elementwise::{Arithmetic, BinaryKind, Integer, Logic, Signs, UnaryKind};
use systole_hlo::graph::{Binary, Direction, Unary};
use systole_isa::dtype::DTypeClass;
use systole_isa::{DType, DmaDesc, Op, Space};

impl Emitter<'_> {
    pub(super) fn load_word(&mut self, w: Word) -> S {
        self.b.smem_load(S::ZERO, w.0 as i32)
    }

    pub(super) fn store_word(&mut self, w: Word, v: S) {
        self.b.smem_store(v, S::ZERO, w.0 as i32);
    }

    pub(super) fn read_scalar(&mut self, from: Spot, dst: Word, dtype: DType) {
        let (space, from) = split(from);
        let bytes = dtype.storage_bits() / 8;
        let desc = self.desc(DmaDesc::contiguous(space, Space::Smem, bytes));
        let sem = kernel_semaphores(self.chip) - 1;
        let args = self.copy_args(desc, from, dst.0 as u64, sem);
        let all = [self.all, BufferRef::SCALAR_MEMORY];
        self.b.dma_start(args, &all, &all);
        self.b.dma_wait(sem, bytes as i32, &all, &all);
        if bytes < 4 {
            let w = self.load_word(dst);
            let w = self.narrow(w, dtype);
            self.store_word(dst, w);
        }
    }

    /// Wraps a word to the range of a narrow type.
    pub(super) fn narrow(&mut self, w: S, dtype: DType) -> S {
        let bits = dtype.storage_bits() as i32;
        if bits >= 32 {
            return w;
        }
        if dtype.class() == DTypeClass::Signed {
            let up = self.b.def_s(Op::SShlI, &[w.into(), (32 - bits).into()]);
            return self.b.def_s(Op::SSarI, &[up.into(), (32 - bits).into()]);
        }
        self.b.def_s(Op::SAndI, &[w.into(), ((1 << bits) - 1).into()])
    }

    pub(super) fn scalar(&mut self, dst: Word, value: ScalarOp, dtype: DType) {
        let unsigned = matches!(dtype.class(), DTypeClass::Unsigned | DTypeClass::Pred);
        let v = match value {
            ScalarOp::Const(c) => self.b.s_imm(c),
            ScalarOp::Device => self.b.def_s(Op::SDev, &[]),
            ScalarOp::Core => self.b.def_s(Op::SCore, &[]),
            ScalarOp::Copy(w) => self.load_word(w),
            ScalarOp::Convert(w) => {
                let v = self.load_word(w);
                self.narrow(v, dtype)
            }
            ScalarOp::Unary(op, w) => {
                let v = self.load_word(w);
                let v = self.scalar_unary(op, v, dtype);
                self.narrow(v, dtype)
            }
            ScalarOp::Binary(op, a, b) => {
                let (a, b) = (self.load_word(a), self.load_word(b));
                let v = self.scalar_binary(op, a, b, dtype, unsigned);
                self.narrow(v, dtype)
            }
            ScalarOp::Compare(d, a, b) => {
                let (a, b) = (self.load_word(a), self.load_word(b));
                self.scalar_compare(d, a, b, unsigned)
            }
            ScalarOp::Select(c, a, b) => {
                let args = [self.load_word(c), self.load_word(a), self.load_word(b)];
                self.b.s(Op::SSel, &args)
            }
            ScalarOp::ClampIndex { word, limit, unsigned } => {
                let v = self.load_word(word);
                let limit = self.b.s_imm(limit);
                let low = if unsigned {
                    // Above the signed range is above every limit.
                    let big = self.b.s(Op::SLt, &[v, S::ZERO]);
                    self.b.s(Op::SSel, &[big, limit, v])
                } else {
                    self.b.s(Op::SMax, &[v, S::ZERO])
                };
                self.b.s(Op::SMin, &[low, limit])
            }
        };
        self.store_word(dst, v);
    }

    pub(super) fn scalar_unary(&mut self, op: Unary, v: S, dtype: DType) -> S {
        let b = &mut self.b;
        match op.kind() {
            UnaryKind::Signs(Signs::Neg) => b.s(Op::SSub, &[S::ZERO, v]),
            UnaryKind::Logic(Logic::Not) if dtype == DType::Pred => b.def_s(Op::SEqI, &[v.into(), 0.into()]),
            UnaryKind::Logic(Logic::Not) => {
                let ones = b.s_imm(-1);
                b.s(Op::SXor, &[v, ones])
            }
            UnaryKind::Signs(Signs::Abs) if dtype.class() == DTypeClass::Signed => {
                let n = b.s(Op::SSub, &[S::ZERO, v]);
                let negative = b.s(Op::SLt, &[v, S::ZERO]);
                b.s(Op::SSel, &[negative, n, v])
            }
            UnaryKind::Signs(Signs::Sign) if dtype.class() == DTypeClass::Signed => {
                let positive = b.s(Op::SLt, &[S::ZERO, v]);
                let negative = b.s(Op::SLt, &[v, S::ZERO]);
                b.s(Op::SSub, &[positive, negative])
            }
            UnaryKind::Signs(Signs::Sign) => b.s(Op::SLtU, &[S::ZERO, v]),
            // The magnitude of what has no sign; the others are none of the scalar unit's (`plan::scalar`).
            UnaryKind::Signs(Signs::Abs)
            | UnaryKind::Function(_)
            | UnaryKind::RealFunction(_)
            | UnaryKind::Rounding(_)
            | UnaryKind::Part(_)
            | UnaryKind::Test(_)
            | UnaryKind::Count(_) => v,
        }
    }

    pub(super) fn scalar_binary(&mut self, op: Binary, x: S, y: S, dtype: DType, unsigned: bool) -> S {
        let (pred, bits) = (dtype == DType::Pred, dtype.storage_bits() as i32);
        let min_max = |b: &mut KernelBuilder, max: bool| {
            if !unsigned {
                return b.s(if max { Op::SMax } else { Op::SMin }, &[x, y]);
            }
            let less = b.s(Op::SLtU, &[x, y]);
            b.s(Op::SSel, &if max { [less, y, x] } else { [less, x, y] })
        };
        let b = &mut self.b;
        match op.kind() {
            BinaryKind::Arithmetic(Arithmetic::Add) if pred => b.s(Op::SOr, &[x, y]),
            BinaryKind::Arithmetic(Arithmetic::Mul) if pred => b.s(Op::SAnd, &[x, y]),
            BinaryKind::Arithmetic(Arithmetic::Add) => b.s(Op::SAdd, &[x, y]),
            BinaryKind::Arithmetic(Arithmetic::Sub) => b.s(Op::SSub, &[x, y]),
            BinaryKind::Arithmetic(Arithmetic::Mul) => b.s(Op::SMul, &[x, y]),
            BinaryKind::Arithmetic(Arithmetic::Div) => b.s(if unsigned { Op::SDivU } else { Op::SDiv }, &[x, y]),
            BinaryKind::Arithmetic(Arithmetic::Rem) => b.s(if unsigned { Op::SRemU } else { Op::SRem }, &[x, y]),
            BinaryKind::Integer(Integer::And) => b.s(Op::SAnd, &[x, y]),
            BinaryKind::Integer(Integer::Or) => b.s(Op::SOr, &[x, y]),
            BinaryKind::Integer(Integer::Xor) => b.s(Op::SXor, &[x, y]),
            BinaryKind::Arithmetic(Arithmetic::Max) => min_max(b, true),
            BinaryKind::Arithmetic(Arithmetic::Min) => min_max(b, false),
            BinaryKind::Integer(Integer::Shl) => {
                let y = amount(b, y, bits);
                b.s(Op::SShl, &[x, y])
            }
            BinaryKind::Integer(Integer::Shr) => {
                let y = amount(b, y, bits);
                let x = if bits < 32 { b.def_s(Op::SAndI, &[x.into(), ((1 << bits) - 1).into()]) } else { x };
                b.s(Op::SShr, &[x, y])
            }
            BinaryKind::Integer(Integer::Sar) => {
                let (y, mut x) = (amount(b, y, bits), x);
                if unsigned && bits < 32 {
                    x = b.def_s(Op::SShlI, &[x.into(), (32 - bits).into()]);
                    x = b.def_s(Op::SSarI, &[x.into(), (32 - bits).into()]);
                }
                b.s(Op::SSar, &[x, y])
            }
            BinaryKind::BinaryFunction(_) | BinaryKind::Join(_) => unreachable!("never scalar code"),
        }
    }

    pub(super) fn scalar_compare(&mut self, d: Direction, x: S, y: S, unsigned: bool) -> S {
        let less = if unsigned { Op::SLtU } else { Op::SLt };
        let b = &mut self.b;
        let not = |b: &mut KernelBuilder, v: S| b.def_s(Op::SEqI, &[v.into(), 0.into()]);
        match d {
            Direction::Eq => b.s(Op::SEq, &[x, y]),
            Direction::Ne => {
                let v = b.s(Op::SEq, &[x, y]);
                not(b, v)
            }
            Direction::Lt => b.s(less, &[x, y]),
            Direction::Gt => b.s(less, &[y, x]),
            Direction::Ge => {
                let v = b.s(less, &[x, y]);
                not(b, v)
            }
            Direction::Le => {
                let v = b.s(less, &[y, x]);
                not(b, v)
            }
        }
    }
}

/// The amount of a shift of a number of so many bits: beyond its width it acts as 32.
fn amount(b: &mut KernelBuilder, y: S, bits: i32) -> S {
    if bits == 32 {
        return y;
    }
    let limit = b.s_imm(bits);
    let fits = b.s(Op::SLtU, &[y, limit]);
    let far = b.s_imm(32);
    b.s(Op::SSel, &[fits, y, far])
}
