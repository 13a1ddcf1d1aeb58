//! Matrix products over the number types in which products and sums are computed.

use super::super::scalar::{self, integer};
use super::super::value::Tensor;
use ndarray::{ArrayView2, ArrayViewMut2, linalg::general_mat_mul};
use systole_isa::{DType, dtype::DTypeClass};

/// A number type that matrices are multiplied in.
pub(in super::super) trait Number: Copy {
    const ZERO: Self;
    /// All elements of an array, converted.
    fn from_tensor(t: &Tensor) -> Vec<Self>;
    /// An array of a type; `dims` are its sizes.
    fn into_tensor(values: Vec<Self>, dtype: DType, dims: &[usize]) -> Tensor;
    /// `c = a b` for row-major `a` of `m x k`, `b` of `k x n`.
    fn multiply(_m: usize, k: usize, n: usize, a: &[Self], b: &[Self], c: &mut [Self]) {
        plain(k, n, a, b, c);
    }
    /// `a b`
    fn product(a: Self, b: Self) -> Self;
    /// `a + b`
    fn sum(a: Self, b: Self) -> Self;
}

/// Which [`Number`] computes contractions with operands and results of these types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Arithmetic {
    F32,
    F64,
    Integer,
    Complex64,
    Complex128,
}

impl Arithmetic {
    pub(in super::super) fn of(types: [DType; 3]) -> Arithmetic {
        let any = |f: fn(DType) -> bool| types.into_iter().any(f);
        if types.contains(&DType::C128) || (any(DType::is_complex) && types.contains(&DType::F64)) {
            Arithmetic::Complex128
        } else if any(DType::is_complex) {
            Arithmetic::Complex64
        } else if types.contains(&DType::F64) || (any(DType::is_float) && !types.into_iter().all(DType::is_float)) {
            Arithmetic::F64
        } else if any(DType::is_float) {
            Arithmetic::F32
        } else {
            Arithmetic::Integer
        }
    }
}

fn dense<T: ndarray::LinalgScalar>(m: usize, k: usize, n: usize, a: &[T], b: &[T], c: &mut [T]) {
    let a = ArrayView2::from_shape((m, k), a).expect("the slice holds m x k");
    let b = ArrayView2::from_shape((k, n), b).expect("the slice holds k x n");
    let mut c = ArrayViewMut2::from_shape((m, n), c).expect("the slice holds m x n");
    general_mat_mul(T::one(), &a, &b, T::zero(), &mut c);
}

/// The product by the definition, rows of `b` innermost.
fn plain<T: Number>(k: usize, n: usize, a: &[T], b: &[T], c: &mut [T]) {
    if n == 0 {
        return;
    }
    for (i, row) in c.chunks_exact_mut(n).enumerate() {
        row.fill(T::ZERO);
        for l in 0..k {
            let x = a[i * k + l];
            row.iter_mut().zip(&b[l * n..]).for_each(|(c, &y)| *c = T::sum(*c, T::product(x, y)));
        }
    }
}

/// All elements in wide form as floats, whatever their type.
#[allow(clippy::wildcard_enum_match_arm, reason = "every other number is exact in this form")]
fn as_floats(t: &Tensor) -> Vec<f64> {
    if t.dtype.is_float() {
        return scalar::floats(t.dtype, t.bytes()).into_iter().map(|x| scalar::flush(t.dtype, x)).collect();
    }
    let wide = |i| match t.dtype {
        DType::U64 => t.get(i).int() as u64 as f64,
        _ => t.get(i).float(),
    };
    (0..t.elements()).map(wide).collect()
}

/// Products and sums as the host has them, matrices by its library.
macro_rules! machine_arithmetic {
    () => {
        fn multiply(m: usize, k: usize, n: usize, a: &[Self], b: &[Self], c: &mut [Self]) {
            dense(m, k, n, a, b, c);
        }

        fn product(a: Self, b: Self) -> Self {
            a * b
        }

        fn sum(a: Self, b: Self) -> Self {
            a + b
        }
    };
}

impl Number for f32 {
    const ZERO: f32 = 0.0;

    fn from_tensor(t: &Tensor) -> Vec<f32> {
        as_floats(t).into_iter().map(|x| x as f32).collect()
    }

    fn into_tensor(values: Vec<f32>, dtype: DType, dims: &[usize]) -> Tensor {
        let rounded = values.into_iter().map(|x| scalar::finish(dtype, x as f64));
        Tensor::new(dtype, dims, scalar::float_bytes(dtype, rounded))
    }

    machine_arithmetic!();
}

impl Number for f64 {
    const ZERO: f64 = 0.0;

    fn from_tensor(t: &Tensor) -> Vec<f64> {
        as_floats(t)
    }

    fn into_tensor(values: Vec<f64>, dtype: DType, dims: &[usize]) -> Tensor {
        let bytes = if dtype.is_float() {
            scalar::float_bytes(dtype, values.into_iter().map(|x| scalar::finish(dtype, x)))
        } else {
            let convert = |x| scalar::convert::convert(DType::F64, dtype, scalar::Scalar::F(x));
            scalar::scalar_bytes(dtype, values.into_iter().map(convert))
        };
        Tensor::new(dtype, dims, bytes)
    }

    machine_arithmetic!();
}

/// Integers wrap at 64 bits, which keeps the low bits of every narrower result right. A `pred` is any nonzero sum.
impl Number for i64 {
    const ZERO: i64 = 0;

    fn from_tensor(t: &Tensor) -> Vec<i64> {
        scalar::integers(t.dtype, t.bytes())
    }

    fn into_tensor(values: Vec<i64>, dtype: DType, dims: &[usize]) -> Tensor {
        let wrapped = values.into_iter().map(|x| integer::wrap(dtype, x));
        Tensor::new(dtype, dims, scalar::integer_bytes(dtype, wrapped))
    }

    fn product(a: i64, b: i64) -> i64 {
        a.wrapping_mul(b)
    }

    fn sum(a: i64, b: i64) -> i64 {
        a.wrapping_add(b)
    }
}

impl Number for scalar::complex::Complex {
    const ZERO: Self = (0.0, 0.0);

    fn from_tensor(t: &Tensor) -> Vec<Self> {
        let all = scalar::scalars(t.dtype, t.bytes()).into_iter();
        all.map(|s| scalar::flush_scalar(t.dtype, s).complex()).collect()
    }

    fn into_tensor(values: Vec<Self>, dtype: DType, dims: &[usize]) -> Tensor {
        let finish = |(re, im)| scalar::finish_scalar(dtype, scalar::Scalar::C(re, im));
        let narrow = if dtype.class() == DTypeClass::Complex { dtype } else { DType::C128 };
        let convert = |v| scalar::convert::convert(narrow, dtype, finish(v));
        Tensor::new(dtype, dims, scalar::scalar_bytes(dtype, values.into_iter().map(convert)))
    }

    fn product(a: Self, b: Self) -> Self {
        scalar::complex::mul(a, b)
    }

    fn sum(a: Self, b: Self) -> Self {
        (a.0 + b.0, a.1 + b.1)
    }
}

/// Single precision: every product and sum is rounded.
impl Number for (f32, f32) {
    const ZERO: Self = (0.0, 0.0);

    fn from_tensor(t: &Tensor) -> Vec<Self> {
        scalar::complex::Complex::from_tensor(t).into_iter().map(|(re, im)| (re as f32, im as f32)).collect()
    }

    fn into_tensor(values: Vec<Self>, dtype: DType, dims: &[usize]) -> Tensor {
        let wide = values.into_iter().map(|(re, im)| (re as f64, im as f64)).collect();
        scalar::complex::Complex::into_tensor(wide, dtype, dims)
    }

    fn product(a: Self, b: Self) -> Self {
        (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
    }

    fn sum(a: Self, b: Self) -> Self {
        (a.0 + b.0, a.1 + b.1)
    }
}
