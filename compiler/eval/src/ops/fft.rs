//! Fourier transforms, in `f64`.

use super::super::error::{Fault, malformed};
use super::super::scalar::complex::Complex;
use super::super::tensor::strides;
use super::super::value::Tensor;
use super::matrix::Number;
use rustfft::algorithm::{BluesteinsAlgorithm, Dft, MixedRadix, Radix4};
use rustfft::{Fft, FftDirection};
use std::sync::Arc;
use systole_hlo::graph::FftKind;
use systole_isa::DType;

/// Transforms the last `lengths.len()` dimensions.
///
/// `Rfft` keeps the first half (and one) of the last dimension, `Irfft` completes it by symmetry and gives reals;
/// inverse transforms are divided by the number of elements.
pub(in super::super) fn fft(t: &Tensor, kind: FftKind, lengths: &[u64]) -> Result<Tensor, Fault> {
    let n = lengths.len();
    let lengths = super::super::value::sizes(lengths);
    let first = t.rank().checked_sub(n).ok_or_else(|| malformed("more lengths than dimensions"))?;
    let Some(&last) = lengths.last() else { return Ok(t.clone()) };
    let half = last / 2 + 1;
    let expected: Vec<usize> = match kind {
        FftKind::Irfft => lengths[..n - 1].iter().copied().chain([if last == 0 { 0 } else { half }]).collect(),
        FftKind::Fft | FftKind::Ifft | FftKind::Rfft => lengths.clone(),
    };
    if t.dims[first..] != expected[..] {
        return Err(malformed(format!("fft of lengths {lengths:?} over {:?}", t.dims)));
    }
    let mut dims = t.dims.clone();
    let mut x = Complex::from_tensor(t);
    let inverse = matches!(kind, FftKind::Ifft | FftKind::Irfft);
    let direction = if inverse { FftDirection::Inverse } else { FftDirection::Forward };
    let whole = if kind == FftKind::Irfft { n - 1 } else { n };
    for d in first..first + whole {
        transform(&mut x, &dims, d, direction);
    }
    if kind == FftKind::Irfft {
        x = resize_lines(&x, half, last, |line, i| {
            let z = if i < half { line[i] } else { line[last - i] };
            // What symmetry says is real counts as real.
            let real = i == 0 || 2 * i == last;
            (
                z.0,
                if real {
                    0.0
                } else if i < half {
                    z.1
                } else {
                    -z.1
                },
            )
        });
        dims[t.rank() - 1] = last;
        transform(&mut x, &dims, t.rank() - 1, direction);
    }
    if kind == FftKind::Rfft {
        x = resize_lines(&x, last, half, |line, i| line[i]);
        dims[t.rank() - 1] = half;
    }
    if inverse {
        let scale = 1.0 / lengths.iter().product::<usize>() as f64;
        x.iter_mut().for_each(|z| *z = (z.0 * scale, z.1 * scale));
    }
    let result = match (kind, t.dtype) {
        (FftKind::Irfft, t) => t.real(),
        (FftKind::Rfft, DType::F64) => DType::C128,
        (FftKind::Rfft, _) => DType::C64,
        (FftKind::Fft | FftKind::Ifft, t) => t,
    };
    Ok(match kind {
        FftKind::Irfft => f64::into_tensor(x.into_iter().map(|z| z.0).collect(), result, &dims),
        FftKind::Fft | FftKind::Ifft | FftKind::Rfft => Complex::into_tensor(x, result, &dims),
    })
}

/// Lines of another length, element by element from the old line.
fn resize_lines(x: &[Complex], from: usize, to: usize, f: impl Fn(&[Complex], usize) -> Complex) -> Vec<Complex> {
    x.chunks_exact(from.max(1)).flat_map(|line| (0..to).map(|i| f(line, i)).collect::<Vec<_>>()).collect()
}

/// One dimension, without scaling.
fn transform(x: &mut [Complex], dims: &[usize], d: usize, direction: FftDirection) {
    let (n, stride) = (dims[d], strides(dims)[d]);
    if n == 0 || x.is_empty() {
        return;
    }
    let plan = plan(n, direction);
    let mut line = vec![rustfft::num_complex::Complex::new(0.0, 0.0); n];
    for base in (0..x.len()).filter(|i| i / stride % n == 0) {
        for (i, z) in line.iter_mut().enumerate() {
            let (re, im) = x[base + i * stride];
            *z = rustfft::num_complex::Complex::new(re, im);
        }
        plan.process(&mut line);
        line.iter().enumerate().for_each(|(i, z)| x[base + i * stride] = (z.re, z.im));
    }
}

/// How lines of `n` elements are transformed, from few of the library's algorithms: a planner asks for all that it has, which take
/// longer to build than the rest of the evaluator.
fn plan(n: usize, direction: FftDirection) -> Arc<dyn Fft<f64>> {
    /// Primes below this are summed as the definition says.
    const DIRECT: usize = 64;
    let fours = n.trailing_zeros() / 2;
    if fours > 0 {
        return Arc::new(Radix4::new_with_base(fours, plan(n >> (2 * fours), direction)));
    }
    let prime = (2..).take_while(|p| p * p <= n).find(|p| n.is_multiple_of(*p));
    match prime {
        Some(p) => Arc::new(MixedRadix::new(plan(p, direction), plan(n / p, direction))),
        None if n < DIRECT => Arc::new(Dft::new(n, direction)),
        None => Arc::new(BluesteinsAlgorithm::new(n, plan((2 * n - 1).next_power_of_two(), direction))),
    }
}
