//! Elementwise operations.

use super::{Built, XlaBuilder, XlaComputation, XlaOp, dims, refuse};
use systole_hlo::graph::{Binary, Direction, Op, Order, Shape, Unary};
use systole_isa::DType;

/// Binary operations: the builder's name, the operation, its documentation.
macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        impl XlaBuilder {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Operands that do not combine.
                pub fn $name(&mut self, lhs: XlaOp, rhs: XlaOp, broadcast_dimensions: &[i64]) -> Built {
                    let (l, r) = self.broadcast_pair(stringify!($name), lhs, rhs, broadcast_dimensions)?;
                    self.op(stringify!($name), Op::Binary(Binary::$op), &[l, r])
                }
            )*
        }
    };
}

binary! {
    /// The sum.
    ///
    /// Operands of different rank need `broadcast_dimensions`, which name, for each dimension of the lower rank, the
    /// dimension of the higher that it matches; a scalar needs none. Then dimensions of size 1 are repeated.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// let mut b = XlaBuilder::new("m");
    /// let matrix = b.constant_r2(&[&[1, 2, 3], &[4, 5, 6]]).unwrap();
    /// let row = b.constant_r1(&[7, 8, 9]);
    /// // |1 2 3|   |7 8 9|   |8 10 12|
    /// // |4 5 6| + |7 8 9| = |11 13 15|
    /// let sum = b.add(matrix, row, &[1]).unwrap();
    /// assert_eq!(b.get_shape(sum).to_string(), "s32[2,3]");
    /// assert!(b.add(matrix, row, &[0]).unwrap_err().message.contains("does not match"));
    /// assert!(b.add(matrix, row, &[]).unwrap_err().message.contains("need broadcast_dimensions"));
    /// let column = b.constant_r2(&[&[1], &[2]]).unwrap();
    /// let outer = b.constant_r2(&[&[1, 2, 3]]).unwrap();
    /// let outer = b.add(column, outer, &[]).unwrap();
    /// assert_eq!(b.get_shape(outer).to_string(), "s32[2,3]");
    /// ```
    add = Add;
    /// The difference.
    sub = Sub;
    /// The product.
    mul = Mul;
    /// The quotient; of integers, towards zero.
    div = Div;
    /// The remainder, with the dividend's sign.
    rem = Rem;
    /// The larger; NaN if one is.
    max = Max;
    /// The smaller; NaN if one is.
    min = Min;
    /// The power.
    pow = Pow;
    /// The angle of the point (`rhs`, `lhs`).
    atan2 = Atan2;
    /// A complex number of its parts.
    complex = Complex;
    /// And, of truth values or bits.
    and = And;
    /// Or, of truth values or bits.
    or = Or;
    /// Exclusive or, of truth values or bits.
    xor = Xor;
    /// The older name of [`XlaBuilder::and`].
    logical_and = And;
    /// The older name of [`XlaBuilder::or`].
    logical_or = Or;
    /// Bits moved up.
    shift_left = Shl;
    /// Bits moved down, the sign repeated.
    shift_right_arithmetic = Sar;
    /// Bits moved down, zeros after them.
    shift_right_logical = Shr;
}

macro_rules! comparisons {
    ($($name:ident $total:ident = $direction:ident $what:literal;)*) => {
        impl XlaBuilder {
            $(
                #[doc = concat!("Whether `lhs` ", $what, " `rhs`.")]
                ///
                /// # Errors
                /// Operands that do not combine.
                pub fn $name(&mut self, lhs: XlaOp, rhs: XlaOp, broadcast_dimensions: &[i64]) -> Built {
                    let (l, r) = self.broadcast_pair(stringify!($name), lhs, rhs, broadcast_dimensions)?;
                    let op = Op::Compare { direction: Direction::$direction, order: Order::Partial };
                    self.op(stringify!($name), op, &[l, r])
                }

                #[doc = concat!("Whether `lhs` ", $what, " `rhs` in the total order of floating-point numbers.")]
                ///
                /// # Errors
                /// Operands that do not combine.
                pub fn $total(&mut self, lhs: XlaOp, rhs: XlaOp, broadcast_dimensions: &[i64]) -> Built {
                    let (l, r) = self.broadcast_pair(stringify!($total), lhs, rhs, broadcast_dimensions)?;
                    let op = Op::Compare { direction: Direction::$direction, order: Order::Total };
                    self.op(stringify!($total), op, &[l, r])
                }
            )*
        }
    };
}

comparisons! {
    eq eq_total_order = Eq "is equal to";
    ne ne_total_order = Ne "differs from";
    ge ge_total_order = Ge "is at least";
    gt gt_total_order = Gt "is above";
    le le_total_order = Le "is at most";
    lt lt_total_order = Lt "is below";
}

macro_rules! unary {
    ($($name:ident = $op:ident $what:literal;)*) => {
        impl XlaBuilder {
            $(
                #[doc = $what]
                ///
                /// # Errors
                /// An element type without the operation.
                pub fn $name(&mut self, operand: XlaOp) -> Built {
                    self.op(stringify!($name), Op::Unary(Unary::$op), &[operand])
                }
            )*
        }
    };
}

unary! {
    abs = Abs "The magnitude; of complex numbers a real one.";
    acos = Acos "The arc cosine.";
    acosh = Acosh "The inverse hyperbolic cosine.";
    asin = Asin "The arc sine.";
    asinh = Asinh "The inverse hyperbolic sine.";
    atan = Atan "The arc tangent.";
    atanh = Atanh "The inverse hyperbolic tangent.";
    cbrt = Cbrt "The cube root.";
    ceil = Ceil "The next integer upwards.";
    clz = Clz "The number of leading zero bits.";
    cos = Cos "The cosine.";
    cosh = Cosh "The hyperbolic cosine.";
    erf = Erf "The error function.";
    erf_inv = ErfInv "The inverse of the error function.";
    exp = Exp "The exponential.";
    expm1 = Expm1 "The exponential less 1, accurate near 0.";
    floor = Floor "The next integer downwards.";
    imag = Imag "The imaginary part.";
    is_finite = IsFinite "Whether a number is neither infinite nor NaN.";
    log = Log "The natural logarithm.";
    log1p = Log1p "The logarithm of 1 more, accurate near 0.";
    logistic = Logistic "The logistic function 1 / (1 + exp(-x)).";
    neg = Neg "The negative.";
    not = Not "Not, of truth values or bits.";
    logical_not = Not "The older name of [`XlaBuilder::not`].";
    population_count = Popcnt "The number of one bits.";
    real = Real "The real part.";
    round = RoundAfz "The nearest integer, halves away from zero.";
    round_nearest_even = RoundEven "The nearest integer, halves to even.";
    rsqrt = Rsqrt "The reciprocal of the square root.";
    sign = Sign "The sign: -1, 0 or 1.";
    sin = Sin "The sine.";
    sinh = Sinh "The hyperbolic sine.";
    sqrt = Sqrt "The square root.";
    tan = Tan "The tangent.";
    tanh = Tanh "The hyperbolic tangent.";
}

impl XlaBuilder {
    /// `min(max(min, operand), max)`; the bounds may be scalars.
    ///
    /// ```
    /// # use systole_front::builder::XlaBuilder;
    /// let mut b = XlaBuilder::new("m");
    /// let operand = b.constant_r1(&[-1, 5, 9]);
    /// let (min, max) = (b.constant_r0(0), b.constant_r0(6));
    /// let clamped = b.clamp(min, operand, max).unwrap(); // {0, 5, 6}
    /// assert_eq!(b.get_shape(clamped).to_string(), "s32[3]");
    /// ```
    ///
    /// # Errors
    /// Shapes that do not agree.
    pub fn clamp(&mut self, min: XlaOp, operand: XlaOp, max: XlaOp) -> Built {
        self.op("clamp", Op::Clamp, &[min, operand, max])
    }

    /// Elements of `on_true` where `pred` holds, else of `on_false`; a scalar `pred` selects whole values.
    ///
    /// # Errors
    /// Shapes that do not agree.
    pub fn select(&mut self, pred: XlaOp, on_true: XlaOp, on_false: XlaOp) -> Built {
        self.op("select", Op::Select, &[pred, on_true, on_false])
    }

    /// The same numbers in another element type.
    ///
    /// # Errors
    /// If there is no such conversion.
    pub fn convert_element_type(&mut self, operand: XlaOp, new_element_type: DType) -> Built {
        let a = self.array("convert_element_type", operand)?;
        if a.dtype == new_element_type {
            return Ok(operand);
        }
        self.shaped("convert_element_type", Op::Convert, &[operand], Shape::array(new_element_type, &a.dims))
    }

    /// The same bits in another element type; with another width a last dimension of the ratio comes or goes.
    ///
    /// # Errors
    /// If the last dimension is not the ratio of the widths.
    pub fn bitcast_convert_type(&mut self, operand: XlaOp, new_element_type: DType) -> Built {
        const NAME: &str = "bitcast_convert_type";
        let a = self.array(NAME, operand)?;
        let (from, to) = (u64::from(a.dtype.bits()), u64::from(new_element_type.bits()));
        let mut dims = a.dims.clone();
        if from > to {
            dims.push(from / to);
        } else if from < to && dims.pop() != Some(to / from) {
            let message = format!("the last dimension of {} must be {}", Shape::Array(a), to / from);
            return refuse(NAME, message);
        }
        self.shaped(NAME, Op::BitcastConvert, &[operand], Shape::array(new_element_type, &dims))
    }

    /// Numbers rounded to a format of fewer bits, in the same type.
    ///
    /// # Errors
    /// If there is no such format.
    pub fn reduce_precision(&mut self, operand: XlaOp, exponent_bits: u32, mantissa_bits: u32) -> Built {
        let op = Op::ReducePrecision { exponent: exponent_bits, mantissa: mantissa_bits };
        self.op("reduce_precision", op, &[operand])
    }

    /// A scalar computation on the elements of arrays of one shape; `dimensions` are all of them in order.
    ///
    /// # Errors
    /// Shapes or a computation that do not agree.
    pub fn map(&mut self, operands: &[XlaOp], computation: &XlaComputation, dimensions: &[i64]) -> Built {
        let dims = dims("map", "dimensions", dimensions)?;
        let body = self.import(computation);
        self.op("map", Op::Map { body, dims }, operands)
    }
}
