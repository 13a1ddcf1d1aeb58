//! Short forms of instructions that take constants as operands, on [`KernelBuilder`].
//!
//! An operand is a register or a number; a number becomes a pooled constant register of the kernel.

use crate::kernel::{KernelBuilder, M, P, Register, V};
use systole_isa::Op;

/// What an operation is of: a register, or a constant that becomes one.
pub trait Operand: From<Self::Register> {
    type Register: Register;

    fn register(self, b: &mut KernelBuilder) -> Self::Register;
}

/// An enum of a register and a constant, made of both and of what else is such a constant.
macro_rules! operand {
    ($what:literal $name:ident: $register:ident, $constant:ty, $pooled:ident; $($from:ty => $convert:expr),*) => {
        #[doc = $what]
        #[derive(Clone, Copy, Debug)]
        pub enum $name {
            Reg($register),
            Const($constant),
        }

        impl Operand for $name {
            type Register = $register;

            fn register(self, b: &mut KernelBuilder) -> $register {
                match self {
                    $name::Reg(r) => r,
                    $name::Const(c) => b.$pooled(c),
                }
            }
        }

        impl From<$register> for $name {
            fn from(r: $register) -> $name {
                $name::Reg(r)
            }
        }

        $(impl From<$from> for $name {
            fn from(v: $from) -> $name {
                let convert: fn($from) -> $constant = $convert;
                $name::Const(convert(v))
            }
        })*
    };
}

operand! {
    "A vector operand: a register, an f32 constant or a 32-bit integer constant."
    Vec32: V, i32, v_imm; f32 => |v| v.to_bits() as i32, i32 => |v| v, u32 => |v| v as i32
}
operand! { "A pair operand: a register pair or an f64 constant." Vec64: P, f64, p_f64; f64 => |v| v }

/// An operation of operands of one kind.
fn operation<O: Operand, const N: usize>(b: &mut KernelBuilder, op: Op, operands: [O; N]) -> O::Register {
    let registers = operands.map(|o| o.register(b));
    b.of_own(op, &registers)
}

/// c0 + c1 x + c2 x^2 + .. by Horner's rule, with a multiply-add.
fn horner<O: Operand + From<C>, C: Copy>(b: &mut KernelBuilder, fma: Op, x: O::Register, c: &[C]) -> O::Register {
    let (last, rest) = c.split_last().expect("a polynomial has coefficients");
    let mut r = O::from(*last).register(b);
    for &k in rest.iter().rev() {
        r = operation(b, fma, [O::from(r), O::from(x), O::from(k)]);
    }
    r
}

/// Methods that are one instruction each, by their operands.
macro_rules! short_forms {
    ($($form:ident $operands:tt of $kind:ident -> $register:ident: $($name:ident $op:ident),+;)+) => {
        impl KernelBuilder {
            $($(short_forms!(@ $form $operands $kind $register $name $op);)+)+
        }
    };
    (@ $form:ident ($($operand:ident),+) $kind:ident $register:ident $name:ident $op:ident) => {
        #[doc = concat!("[`Op::", stringify!($op), "`].")]
        pub fn $name(&mut self, $($operand: impl Into<$kind>),+) -> $register {
            self.$form(Op::$op, $($operand),+)
        }
    };
}

short_forms! {
    v2(a, b) of Vec32 -> V: add VAddF, sub VSubF, mul VMulF, div VDivF, addi VAddI, subi VSubI, muli VMulI;
    v2(a, b) of Vec32 -> V: and VAnd, or VOr, xor VXor, shl VShl, shr VShr, sar VSar;
    v3(a, b, c) of Vec32 -> V: fma VFmaF;
    p2(a, b) of Vec64 -> P: addd PAddD, subd PSubD, muld PMulD, divd PDivD;
    p3(a, b, c) of Vec64 -> P: fmad PFmaD;
}

/// Operations of one, two or three operands of a kind, comparisons, polynomials.
#[rustfmt::skip]
macro_rules! forms {
    ($kind:ident -> $register:ident: $reg:ident $one:ident $two:ident $three:ident $poly:ident $fma:ident $number:ident) => {
        impl KernelBuilder {
            /// The register of an operand.
            pub fn $reg(&mut self, a: impl Into<$kind>) -> $register {
                a.into().register(self)
            }

            /// An operation of one operand.
            pub fn $one(&mut self, op: Op, a: impl Into<$kind>) -> $register {
                operation(self, op, [a.into()])
            }

            /// An operation of two operands.
            pub fn $two(&mut self, op: Op, a: impl Into<$kind>, b: impl Into<$kind>) -> $register {
                operation(self, op, [a.into(), b.into()])
            }

            /// An operation of three operands.
            pub fn $three(&mut self, op: Op, a: impl Into<$kind>, b: impl Into<$kind>, c: impl Into<$kind>) -> $register {
                operation(self, op, [a.into(), b.into(), c.into()])
            }

            /// c0 + c1 x + c2 x^2 + .. by Horner's rule.
            pub fn $poly(&mut self, x: $register, c: &[$number]) -> $register {
                horner::<$kind, $number>(self, Op::$fma, x, c)
            }
        }
    };
}

forms! { Vec32 -> V: reg v1 v2 v3 poly VFmaF f32 }
forms! { Vec64 -> P: preg p1 p2 p3 polyd PFmaD f64 }

impl KernelBuilder {
    /// A comparison of two vectors.
    pub fn test(&mut self, op: Op, a: impl Into<Vec32>, b: impl Into<Vec32>) -> M {
        let (a, b) = (self.reg(a), self.reg(b));
        self.cmp(op, a, b)
    }

    /// A comparison of two pairs.
    pub fn ptest(&mut self, op: Op, a: impl Into<Vec64>, b: impl Into<Vec64>) -> M {
        let (a, b) = (self.preg(a), self.preg(b));
        self.def_m(op, &[a.into(), b.into()])
    }

    /// a where the mask is set, else b.
    pub fn sel(&mut self, m: M, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V {
        let (a, b) = (self.reg(a), self.reg(b));
        self.select(m, a, b)
    }

    /// a where the mask is set, else b, of pairs.
    pub fn psel(&mut self, m: M, a: impl Into<Vec64>, b: impl Into<Vec64>) -> P {
        let mut words = |x: Vec64| match x {
            Vec64::Reg(p) => self.unpair(p),
            Vec64::Const(c) => (self.v_imm(c.to_bits() as i32), self.v_imm((c.to_bits() >> 32) as i32)),
        };
        let ((al, ah), (bl, bh)) = (words(a.into()), words(b.into()));
        let lo = self.select(m, al, bl);
        let hi = self.select(m, ah, bh);
        self.pair(lo, hi)
    }
}
