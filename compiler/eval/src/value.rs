//! Values: arrays as host bytes, tuples, tokens.

use super::scalar::{self, Scalar};
use std::sync::Arc;
use systole_hlo::graph::{Literal, Shape};
use systole_isa::DType;

/// What an instruction gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Array(Tensor),
    Tuple(Vec<Value>),
    Token,
}

impl Value {
    /// The array, if it is one.
    pub fn as_array(&self) -> Option<&Tensor> {
        match self {
            Value::Array(t) => Some(t),
            Value::Tuple(_) | Value::Token => None,
        }
    }

    /// The arrays of a nested tuple in order (tokens left out).
    pub fn into_leaves(self) -> Vec<Tensor> {
        match self {
            Value::Array(t) => vec![t],
            Value::Tuple(v) => v.into_iter().flat_map(Value::into_leaves).collect(),
            Value::Token => Vec::new(),
        }
    }

    /// Zeros of a shape.
    pub fn zeros(shape: &Shape) -> Value {
        match shape {
            Shape::Array(a) => Value::Array(Tensor::zeros(a.dtype, &sizes(&a.dims))),
            Shape::Tuple(t) => Value::Tuple(t.iter().map(Value::zeros).collect()),
            Shape::Token => Value::Token,
        }
    }
}

impl From<Tensor> for Value {
    fn from(t: Tensor) -> Value {
        Value::Array(t)
    }
}

/// An array: row-major, little-endian, [`DType::host_bytes`] an element, as in [`Literal`].
///
/// An array with dynamic dimensions has its current sizes here; the bounds are in the instruction's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub dtype: DType,
    pub dims: Vec<usize>,
    data: Arc<Vec<u8>>,
}

/// Dimensions as indices of host memory.
pub(super) fn sizes(dims: &[u64]) -> Vec<usize> {
    dims.iter().map(|&d| d as usize).collect()
}

impl Tensor {
    /// An array of these bytes.
    ///
    /// # Panics
    /// If `data` is not the array's size.
    pub fn new(dtype: DType, dims: &[usize], data: Vec<u8>) -> Tensor {
        assert_eq!(dims.iter().product::<usize>() * dtype.host_bytes(), data.len(), "bytes of {dtype}{dims:?}");
        Tensor { dtype, dims: dims.to_vec(), data: Arc::new(data) }
    }

    pub fn zeros(dtype: DType, dims: &[usize]) -> Tensor {
        Tensor::new(dtype, dims, vec![0; dims.iter().product::<usize>() * dtype.host_bytes()])
    }

    /// An array of one element.
    pub fn scalar(dtype: DType, value: Scalar) -> Tensor {
        let mut data = vec![0; dtype.host_bytes()];
        scalar::encode(dtype, value, &mut data);
        Tensor::new(dtype, &[], data)
    }

    pub fn from_literal(l: &Literal) -> Tensor {
        Tensor::new(l.dtype, &sizes(&l.dims), l.to_bytes())
    }

    pub fn to_literal(&self) -> Literal {
        let dims: Vec<u64> = self.dims.iter().map(|&d| d as u64).collect();
        let size = self.dtype.host_bytes();
        let splat = self.elements() > 1 && self.data.chunks_exact(size).all(|e| e == &self.data[..size]);
        let bytes = if splat { self.data[..size].to_vec() } else { self.data.to_vec() };
        Literal::new(self.dtype, &dims, bytes)
    }

    /// The elements' bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.data
    }

    /// The elements' bytes for writing; copies them if they are shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let data: &mut Vec<u8> = Arc::make_mut(&mut self.data);
        data
    }

    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Element `i` (row-major).
    pub fn get(&self, i: usize) -> Scalar {
        let size = self.dtype.host_bytes();
        scalar::decode(self.dtype, &self.data[i * size..(i + 1) * size])
    }

    /// The same bytes under other dimensions of the same number of elements.
    pub fn reshaped(mut self, dims: &[usize]) -> Tensor {
        assert_eq!(self.elements(), dims.iter().product::<usize>(), "reshape of {:?}", self.dims);
        self.dims = dims.to_vec();
        self
    }

    /// The value of an integer or pred element, saturated to `i64`.
    pub(super) fn index(&self, i: usize) -> i64 {
        match self.get(i) {
            Scalar::I(v) if self.dtype == DType::U64 && v < 0 => i64::MAX,
            Scalar::I(v) => v,
            Scalar::F(v) => v as i64,
            Scalar::C(v, _) => v as i64,
        }
    }
}
