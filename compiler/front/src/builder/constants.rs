//! Constants, iota and random numbers.

use super::{Built, XlaBuilder, XlaOp, refuse};
use systole_hlo::graph::{Direction, Literal, Op, Order, RngAlgorithm, RngDistribution, Shape};
use systole_isa::DType;

/// Numbers of Rust with an element type.
pub trait NativeType: Copy {
    const DTYPE: DType;
    /// The element's host bytes.
    fn element(self) -> Vec<u8>;
}

macro_rules! native {
    ($($t:ty => $d:ident),*) => {$(
        impl NativeType for $t {
            const DTYPE: DType = DType::$d;
            fn element(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        }
    )*};
}
native!(i8 => S8, i16 => S16, i32 => S32, i64 => S64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

impl NativeType for bool {
    const DTYPE: DType = DType::Pred;
    fn element(self) -> Vec<u8> {
        vec![u8::from(self)]
    }
}

impl XlaBuilder {
    pub fn constant_literal(&mut self, literal: Literal) -> XlaOp {
        XlaOp(self.body.constant(literal))
    }

    /// A scalar.
    pub fn constant_r0<T: NativeType>(&mut self, value: T) -> XlaOp {
        self.constant_literal(Literal::new(T::DTYPE, &[], value.element()))
    }

    /// An array of one dimension.
    pub fn constant_r1<T: NativeType>(&mut self, values: &[T]) -> XlaOp {
        let bytes = values.iter().flat_map(|v| v.element()).collect();
        self.constant_literal(Literal::new(T::DTYPE, &[values.len() as u64], bytes))
    }

    /// An array of two dimensions by its rows.
    ///
    /// # Errors
    /// If the rows differ in length.
    pub fn constant_r2<T: NativeType>(&mut self, rows: &[&[T]]) -> Built {
        let columns = rows.first().map_or(0, |r| r.len());
        if rows.iter().any(|r| r.len() != columns) {
            return refuse("constant_r2", "the rows differ in length");
        }
        let bytes = rows.iter().flat_map(|r| r.iter()).flat_map(|v| v.element()).collect();
        Ok(self.constant_literal(Literal::new(T::DTYPE, &[rows.len() as u64, columns as u64], bytes)))
    }

    /// A scalar of any element type from a number; complex ones get no imaginary part.
    pub(super) fn number(&mut self, dtype: DType, value: f64) -> XlaOp {
        let real = dtype.real();
        let mut bytes = if real.is_float() {
            systole_hlo::graph::number::encode_float(real, value).to_le_bytes()[..real.host_bytes()].to_vec()
        } else {
            (value as i64).to_le_bytes()[..real.host_bytes()].to_vec()
        };
        bytes.resize(dtype.host_bytes(), 0);
        self.constant_literal(Literal::new(dtype, &[], bytes))
    }

    /// Numbers from 0 along a dimension.
    ///
    /// # Errors
    /// If the shape has no such dimension.
    pub fn iota(&mut self, shape: &Shape, iota_dimension: i64) -> Built {
        let dim = super::dims("iota", "iota_dimension", &[iota_dimension])?[0];
        self.shaped("iota", Op::Iota { dim }, &[], shape.clone())
    }

    /// The older form of [`XlaBuilder::iota`]: `size` numbers of a type.
    ///
    /// # Errors
    /// If the type has no numbers.
    pub fn iota_1d(&mut self, element_type: DType, size: u64) -> Built {
        self.iota(&Shape::array(element_type, &[size]), 0)
    }

    /// Numbers drawn evenly from `a` up to, not including, `b`.
    ///
    /// # Errors
    /// If the bounds are not scalars of the shape's type.
    pub fn rng_uniform(&mut self, a: XlaOp, b: XlaOp, shape: &Shape) -> Built {
        self.shaped("rng_uniform", Op::Rng { distribution: RngDistribution::Uniform }, &[a, b], shape.clone())
    }

    /// Numbers drawn with the normal distribution of mean `mu` and deviation `sigma`.
    ///
    /// # Errors
    /// If the parameters are not scalars of the shape's type.
    pub fn rng_normal(&mut self, mu: XlaOp, sigma: XlaOp, shape: &Shape) -> Built {
        self.shaped("rng_normal", Op::Rng { distribution: RngDistribution::Normal }, &[mu, sigma], shape.clone())
    }

    /// Ones with probability `mean`, else zeros, of the shape's type.
    ///
    /// # Errors
    /// If the mean is no floating-point scalar.
    pub fn rng_bernoulli(&mut self, mean: XlaOp, shape: &Shape) -> Built {
        const NAME: &str = "rng_bernoulli";
        let m = self.array(NAME, mean)?;
        let Some(to) = shape.as_array() else { return refuse(NAME, format!("expected an array, not {shape}")) };
        if m.rank() != 0 || !m.dtype.is_float() {
            return refuse(NAME, format!("the mean must be a floating-point scalar, not {}", Shape::Array(m)));
        }
        let (low, high) = (self.number(m.dtype, 0.0), self.number(m.dtype, 1.0));
        let drawn = self.rng_uniform(low, high, &Shape::array(m.dtype, &to.dims))?;
        let (drawn, mean) = self.broadcast_pair(NAME, drawn, mean, &[])?;
        let less = Op::Compare { direction: Direction::Lt, order: Order::Partial };
        let p = self.op(NAME, less, &[drawn, mean])?;
        self.convert_element_type(p, to.dtype)
    }

    /// Random bits of an algorithm from its state: the new state and the bits, as a tuple.
    ///
    /// # Errors
    /// If the state is not one of the algorithm.
    pub fn rng_bit_generator(&mut self, algorithm: RngAlgorithm, initial_state: XlaOp, shape: &Shape) -> Built {
        let result = Shape::Tuple(vec![self.get_shape(initial_state).clone(), shape.clone()]);
        self.shaped("rng_bit_generator", Op::RngBitGenerator { algorithm }, &[initial_state], result)
    }
}
