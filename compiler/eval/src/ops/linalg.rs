//! Cholesky factors and triangular systems, computed in complex `f64` whatever the type.

use super::super::error::{Fault, malformed};
use super::super::scalar::complex::{self, Complex};
use super::super::value::Tensor;
use super::matrix::Number;
use systole_hlo::graph::TriangularTranspose;

fn conj(z: Complex) -> Complex {
    (z.0, -z.1)
}

fn sub(a: Complex, b: Complex) -> Complex {
    (a.0 - b.0, a.1 - b.1)
}

/// Rows and columns of the matrices of a batch.
fn matrix_dims(t: &Tensor) -> Result<(usize, usize), Fault> {
    match t.dims[..] {
        [.., r, c] => Ok((r, c)),
        _ => Err(malformed(format!("no matrix: {:?}", t.dims))),
    }
}

/// The triangular factor of Hermitian matrices of which one triangle is read; the other triangle of the result is
/// zero. A matrix that is not positive definite gives NaN.
pub(in super::super) fn cholesky(t: &Tensor, lower: bool) -> Result<Tensor, Fault> {
    let (n, columns) = matrix_dims(t)?;
    if n != columns {
        return Err(malformed(format!("no square matrix: {:?}", t.dims)));
    }
    let mut all = Complex::from_tensor(t);
    for a in all.chunks_exact_mut((n * n).max(1)) {
        // The lower triangle is worked on: an upper one is its adjoint.
        let read = |a: &[Complex], i: usize, j: usize| if lower { a[i * n + j] } else { conj(a[j * n + i]) };
        let mut l = vec![(0.0, 0.0); n * n];
        for j in 0..n {
            let known: f64 = (0..j).map(|k| complex::mul(l[j * n + k], conj(l[j * n + k])).0).sum();
            let d = (read(a, j, j).0 - known).sqrt();
            let d = if d == 0.0 { f64::NAN } else { d };
            l[j * n + j] = (d, 0.0);
            for i in j + 1..n {
                let s = (0..j).fold(read(a, i, j), |s, k| sub(s, complex::mul(l[i * n + k], conj(l[j * n + k]))));
                l[i * n + j] = (s.0 / d, s.1 / d);
            }
        }
        for i in 0..n {
            for j in 0..n {
                a[i * n + j] = if lower { l[i * n + j] } else { conj(l[j * n + i]) };
            }
        }
    }
    Ok(real_or_complex(all, t))
}

/// Values as an array like `t`.
fn real_or_complex(values: Vec<Complex>, t: &Tensor) -> Tensor {
    if t.dtype.is_complex() {
        return Complex::into_tensor(values, t.dtype, &t.dims);
    }
    f64::into_tensor(values.into_iter().map(|z| z.0).collect(), t.dtype, &t.dims)
}

/// Solves `op(a) x = b` or `x op(a) = b` for triangular `a`, of which one triangle is read.
pub(in super::super) fn triangular_solve(
    a: &Tensor,
    b: &Tensor,
    (left, lower, unit): (bool, bool, bool),
    transpose: TriangularTranspose,
) -> Result<Tensor, Fault> {
    let (n, columns) = matrix_dims(a)?;
    let (rows, cols) = matrix_dims(b)?;
    if n != columns || n != if left { rows } else { cols } {
        return Err(malformed(format!("triangular-solve of {:?} and {:?}", a.dims, b.dims)));
    }
    let real = !a.dtype.is_complex();
    let matrices = Complex::from_tensor(a);
    let mut all = Complex::from_tensor(b);
    let flip = transpose != TriangularTranspose::No;
    // x op(a) = b is op(a)ᵀ xᵀ = bᵀ: the matrix is read the other way round.
    let swapped = flip == left;
    let read = |a: &[Complex], i: usize, j: usize| {
        let z = if swapped { a[j * n + i] } else { a[i * n + j] };
        if transpose == TriangularTranspose::Adjoint { conj(z) } else { z }
    };
    let forward = lower != swapped;
    for (a, x) in matrices.chunks_exact((n * n).max(1)).zip(all.chunks_exact_mut((rows * cols).max(1))) {
        for v in 0..if left { cols } else { rows } {
            let at = |i: usize| if left { i * cols + v } else { v * cols + i };
            for step in 0..n {
                let i = if forward { step } else { n - 1 - step };
                let known = if forward { 0..i } else { i + 1..n };
                let s = known.fold(x[at(i)], |s, k| sub(s, complex::mul(read(a, i, k), x[at(k)])));
                let d = read(a, i, i);
                x[at(i)] = match (unit, real) {
                    (true, _) => s,
                    (false, true) => (s.0 / d.0, 0.0),
                    (false, false) => complex::div(s, d),
                };
            }
        }
    }
    Ok(real_or_complex(all, b))
}
