//! Elementwise operations.

use super::{Built, XlaBuilder, XlaComputation, XlaOp, dims, refuse};
use systole_hlo::graph::{Binary, Direction, Op, Order, Shape, Unary};
use systole_hlo::{binary_table, unary_table};
use systole_isa::DType;

/// A method for each row of the table of binary operations.
macro_rules! binary {
    ($($kind:ident $what:literal {
        $($op:ident $text:literal $name:ident [$($class:ident)*] $doc:literal,)*
    })*) => {
        /// Elementwise operations of two operands.
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
        impl XlaBuilder {
            $($(
                #[doc = $doc]
                ///
                /// # Errors
                /// Operands that do not combine.
                pub fn $name(&mut self, lhs: XlaOp, rhs: XlaOp, broadcast_dimensions: &[i64]) -> Built {
                    let (l, r) = self.broadcast_pair(stringify!($name), lhs, rhs, broadcast_dimensions)?;
                    self.op(stringify!($name), Op::Binary(Binary::$op), &[l, r])
                }
            )*)*

            /// The older name of [`XlaBuilder::and`].
            ///
            /// # Errors
            /// As there.
            pub fn logical_and(&mut self, lhs: XlaOp, rhs: XlaOp, broadcast_dimensions: &[i64]) -> Built {
                self.and(lhs, rhs, broadcast_dimensions)
            }

            /// The older name of [`XlaBuilder::or`].
            ///
            /// # Errors
            /// As there.
            pub fn logical_or(&mut self, lhs: XlaOp, rhs: XlaOp, broadcast_dimensions: &[i64]) -> Built {
                self.or(lhs, rhs, broadcast_dimensions)
            }
        }
    };
}

binary_table!(binary);

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

/// A method for each row of the table of unary operations.
macro_rules! unary {
    ($($kind:ident [$($class:ident)*] $what:literal {
        $($op:ident $text:literal $name:ident ($domain:expr) $doc:literal,)*
    })*) => {
        /// Elementwise operations of one operand.
        impl XlaBuilder {
            $($(
                #[doc = $doc]
                ///
                /// # Errors
                /// An element type without the operation.
                pub fn $name(&mut self, operand: XlaOp) -> Built {
                    self.op(stringify!($name), Op::Unary(Unary::$op), &[operand])
                }
            )*)*

            /// The older name of [`XlaBuilder::not`].
            ///
            /// # Errors
            /// As there.
            pub fn logical_not(&mut self, operand: XlaOp) -> Built {
                self.not(operand)
            }
        }
    };
}

unary_table!(unary);

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
