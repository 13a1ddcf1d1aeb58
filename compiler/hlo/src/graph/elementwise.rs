//! The tables of elementwise operations: a row for each, from which enums, names, shape rules, the builder's methods, the
//! samples of the page of operations and the coverage of the fuzzer follow.
//!
//! Unary operations stand in kinds: those of one kind take the same element types and give results of the same rule, so
//! that a stage that has no use for a kind says so once. [`Unary`] is the flat enum, [`Unary::kind`] the same value by kind.

use serde::{Deserialize, Serialize};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// Arguments on which random programs use an operation: where it is smooth, and its results are bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// All that the element type has.
    Any,
    /// Magnitudes up to this.
    Within(f64),
    /// This and more.
    From(f64),
    /// Only values that are exact: it jumps.
    Exact,
}

/// Hands the table of unary operations to the macro `$then`.
///
/// A kind: its name, the classes of element types it takes, a line of documentation, rows. A row: variant, name in HLO text (in
/// StableHLO with `_`), name of the builder's method, domain, a line of documentation.
#[macro_export]
macro_rules! unary_table {
    ($then:ident) => {
        $then! {
            Function [Float Complex] "Functions of real and complex numbers." {
                Acos "acos" acos (Domain::Within(0.9)) "The arc cosine.",
                Acosh "acosh" acosh (Domain::From(2.0)) "The inverse hyperbolic cosine.",
                Asin "asin" asin (Domain::Within(0.9)) "The arc sine.",
                Asinh "asinh" asinh (Domain::Within(16.0)) "The inverse hyperbolic sine.",
                Atan "atan" atan (Domain::Within(16.0)) "The arc tangent.",
                Atanh "atanh" atanh (Domain::Within(0.9)) "The inverse hyperbolic tangent.",
                Cbrt "cbrt" cbrt (Domain::From(1.0)) "The cube root.",
                Cos "cosine" cos (Domain::Within(16.0)) "The cosine.",
                Cosh "cosh" cosh (Domain::Within(2.0)) "The hyperbolic cosine.",
                Exp "exponential" exp (Domain::Within(2.0)) "The exponential.",
                Expm1 "exponential-minus-one" expm1 (Domain::Within(2.0)) "The exponential less 1, accurate near 0.",
                Log "log" log (Domain::From(1.0)) "The natural logarithm.",
                Log1p "log-plus-one" log1p (Domain::From(0.0)) "The logarithm of 1 more, accurate near 0.",
                Logistic "logistic" logistic (Domain::Within(16.0)) "The logistic function 1 / (1 + exp(-x)).",
                Rsqrt "rsqrt" rsqrt (Domain::From(1.0)) "The reciprocal of the square root.",
                Sin "sine" sin (Domain::Within(16.0)) "The sine.",
                Sinh "sinh" sinh (Domain::Within(2.0)) "The hyperbolic sine.",
                Sqrt "sqrt" sqrt (Domain::From(1.0)) "The square root.",
                Tan "tan" tan (Domain::Within(1.0)) "The tangent.",
                Tanh "tanh" tanh (Domain::Within(16.0)) "The hyperbolic tangent.",
            }
            RealFunction [Float] "Functions of real numbers only." {
                Erf "erf" erf (Domain::Within(16.0)) "The error function.",
                ErfInv "erf-inv" erf_inv (Domain::Within(0.9)) "The inverse of the error function.",
            }
            Rounding [Float] "To whole numbers." {
                Ceil "ceil" ceil (Domain::Exact) "The next integer upwards.",
                Floor "floor" floor (Domain::Exact) "The next integer downwards.",
                RoundAfz "round-nearest-afz" round (Domain::Exact) "The nearest integer, halves away from zero.",
                RoundEven "round-nearest-even" round_nearest_even (Domain::Exact) "The nearest integer, halves to even.",
            }
            Signs [Signed Unsigned Float Complex] "What touches a number's sign only." {
                Abs "abs" abs (Domain::Any) "The magnitude; of complex numbers a real one.",
                Neg "negate" neg (Domain::Any) "The negative.",
                Sign "sign" sign (Domain::Exact) "The sign: -1, 0 or 1.",
            }
            Part [Float Complex] "Parts of complex numbers." {
                Imag "imag" imag (Domain::Any) "The imaginary part.",
                Real "real" real (Domain::Any) "The real part.",
            }
            Test [Float] "Questions, answered by a truth value." {
                IsFinite "is-finite" is_finite (Domain::Any) "Whether a number is neither infinite nor NaN.",
            }
            Count [Signed Unsigned] "Numbers of bits." {
                Clz "count-leading-zeros" clz (Domain::Any) "The number of leading zero bits.",
                Popcnt "popcnt" population_count (Domain::Any) "The number of one bits.",
            }
            Logic [Pred Signed Unsigned] "Of truth values, or bit by bit." {
                Not "not" not (Domain::Any) "Not, of truth values or bits.",
            }
        }
    };
}

/// The flat enum of a table's operations, the enum of their kinds, an enum for each kind, and the ways between them.
macro_rules! by_kind {
    ($about:literal $all:ident, $about_kinds:literal $by:ident {
        $($kind:ident $what:literal { $($name:ident $text:literal $doc:literal,)* })*
    }) => {
        #[doc = $about]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $all {
            $($(#[doc = $doc] $name,)*)*
        }

        #[doc = $about_kinds]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $by {
            $(#[doc = $what] $kind($kind),)*
        }

        $(
            #[doc = $what]
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum $kind {
                $(#[doc = $doc] $name,)*
            }

            impl From<$kind> for $all {
                fn from(op: $kind) -> $all {
                    match op { $($kind::$name => $all::$name,)* }
                }
            }
        )*

        impl $all {
            /// All of them, by kind.
            pub const ALL: &[$all] = &[$($($all::$name,)*)*];

            /// The name in HLO text. `erf-inv` is not HLO: it is written as a custom call by others.
            pub fn name(self) -> &'static str {
                match self { $($($all::$name => $text,)*)* }
            }

            /// The operation of a name in HLO text.
            pub fn from_name(name: &str) -> Option<$all> {
                $all::ALL.iter().copied().find(|o| o.name() == name)
            }

            /// The operation by its kind.
            pub fn kind(self) -> $by {
                match self { $($($all::$name => $by::$kind($kind::$name),)*)* }
            }
        }
    };
}

macro_rules! unary_enums {
    ($($kind:ident [$($class:ident)*] $what:literal {
        $($name:ident $text:literal $method:ident ($domain:expr) $doc:literal,)*
    })*) => {
        by_kind! {
            "Elementwise operations of one operand." Unary, "A unary operation by its kind." UnaryKind {
                $($kind $what { $($name $text $doc,)* })*
            }
        }

        impl Unary {
            /// Where random programs use it.
            pub fn domain(self) -> Domain {
                match self { $($(Unary::$name => $domain,)*)* }
            }

            /// Whether it is defined on elements of a class of types.
            pub fn takes(self, class: DTypeClass) -> bool {
                match self.kind() { $(UnaryKind::$kind(_) => matches!(class, $(DTypeClass::$class)|*),)* }
            }
        }
    };
}

unary_table!(unary_enums);

impl Unary {
    /// The element type of its result.
    pub fn result(self, from: DType) -> DType {
        match self.kind() {
            UnaryKind::Part(_) | UnaryKind::Signs(Signs::Abs) => from.real(),
            UnaryKind::Test(_) => DType::Pred,
            UnaryKind::Function(_)
            | UnaryKind::RealFunction(_)
            | UnaryKind::Rounding(_)
            | UnaryKind::Signs(Signs::Neg | Signs::Sign)
            | UnaryKind::Count(_)
            | UnaryKind::Logic(_) => from,
        }
    }
}

/// Hands the table of binary operations to the macro `$then`: by kind, variant, name in HLO text, name of the builder's method,
/// classes of element types, a line of documentation.
#[macro_export]
macro_rules! binary_table {
    ($then:ident) => {
        $then! {
            Arithmetic "Of numbers, which the scalar unit has of integers too." {
                Add "add" add [Pred Signed Unsigned Float Complex] "The sum; of truth values, or.",
                Sub "subtract" sub [Signed Unsigned Float Complex] "The difference.",
                Mul "multiply" mul [Pred Signed Unsigned Float Complex] "The product; of truth values, and.",
                Div "divide" div [Signed Unsigned Float Complex] "The quotient; of integers, towards zero.",
                Rem "remainder" rem [Signed Unsigned Float] "What division leaves, with the dividend's sign.",
                Max "maximum" max [Pred Signed Unsigned Float Complex] "The larger element; NaN wins; complex numbers by real, then imaginary part.",
                Min "minimum" min [Pred Signed Unsigned Float Complex] "The smaller element; NaN wins; complex numbers by real, then imaginary part.",
            }
            BinaryFunction "Functions of two numbers: no unit has an instruction for one." {
                Pow "power" pow [Signed Unsigned Float Complex] "The power.",
                Atan2 "atan2" atan2 [Float Complex] "The angle of the point (`rhs`, `lhs`).",
                MulHi "mulhi" mul_high [Signed Unsigned] "The upper half of the product of twice the width.",
            }
            Join "Of parts." {
                Complex "complex" complex [Float] "A complex number of its parts.",
            }
            Integer "Of integers and bits." {
                And "and" and [Pred Signed Unsigned] "And, of truth values or bits.",
                Or "or" or [Pred Signed Unsigned] "Or, of truth values or bits.",
                Xor "xor" xor [Pred Signed Unsigned] "Exclusive or, of truth values or bits.",
                Shl "shift-left" shift_left [Signed Unsigned] "Bits moved up.",
                Sar "shift-right-arithmetic" shift_right_arithmetic [Signed Unsigned] "Bits moved down, the sign repeated.",
                Shr "shift-right-logical" shift_right_logical [Signed Unsigned] "Bits moved down, zeros after them.",
            }
        }
    };
}

macro_rules! binary_enums {
    ($($kind:ident $what:literal {
        $($name:ident $text:literal $method:ident [$($class:ident)*] $doc:literal,)*
    })*) => {
        by_kind! {
            "Elementwise operations of two operands." Binary, "A binary operation by its kind." BinaryKind {
                $($kind $what { $($name $text $doc,)* })*
            }
        }

        impl Binary {
            /// Whether it is defined on elements of a class of types.
            pub fn takes(self, class: DTypeClass) -> bool {
                match self { $($(Binary::$name => matches!(class, $(DTypeClass::$class)|*),)*)* }
            }
        }
    };
}

binary_table!(binary_enums);

/// The element of a type that leaves every other alone under an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neutral {
    Zero,
    One,
    /// Above no other: of floats the negative infinity.
    Least,
    /// Below no other: of floats the infinity.
    Greatest,
    /// Every bit is set; of truth values the true one.
    Ones,
}

impl Binary {
    /// What leaves others alone under it, on both sides; `None` where nothing does.
    pub fn neutral(self) -> Option<Neutral> {
        match self.kind() {
            BinaryKind::Arithmetic(Arithmetic::Add) | BinaryKind::Integer(Integer::Or | Integer::Xor) => {
                Some(Neutral::Zero)
            }
            BinaryKind::Arithmetic(Arithmetic::Mul) => Some(Neutral::One),
            BinaryKind::Arithmetic(Arithmetic::Max) => Some(Neutral::Least),
            BinaryKind::Arithmetic(Arithmetic::Min) => Some(Neutral::Greatest),
            BinaryKind::Integer(Integer::And) => Some(Neutral::Ones),
            BinaryKind::Arithmetic(Arithmetic::Sub | Arithmetic::Div | Arithmetic::Rem)
            | BinaryKind::BinaryFunction(_)
            | BinaryKind::Integer(Integer::Shl | Integer::Sar | Integer::Shr)
            | BinaryKind::Join(_) => None,
        }
    }

    /// The result of integer arithmetic on known numbers; `None` where it is not defined, overflows, or depends on a type's bits.
    pub fn of_integers(self, x: i64, y: i64) -> Option<i64> {
        let BinaryKind::Arithmetic(op) = self.kind() else { return None };
        match op {
            Arithmetic::Add => x.checked_add(y),
            Arithmetic::Sub => x.checked_sub(y),
            Arithmetic::Mul => x.checked_mul(y),
            Arithmetic::Div => x.checked_div(y),
            Arithmetic::Rem => x.checked_rem(y),
            Arithmetic::Max => Some(x.max(y)),
            Arithmetic::Min => Some(x.min(y)),
        }
    }
}
