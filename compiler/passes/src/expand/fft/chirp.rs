//! Transforms of any length as convolutions (Bluestein).

use super::table::{Pair, Wanted, each, table, times};
use crate::edit::Emit;
use std::f64::consts::TAU;
use systole_hlo::graph::number::element_bytes;
use systole_hlo::graph::{Binary, Literal};
use systole_isa::DType;

/// A transform of any length as a convolution with a chirp, by transforms of a power-of-two length.
pub fn transform(b: &mut Emit, p: Pair, n: u64, sign: f64) -> Pair {
    let long = (2 * n - 1).next_power_of_two();
    let part = b.dtype(p.re);
    let rows = b.dims(p.re)[0];
    let square = |i: u64| {
        let k = (u128::from(i) * u128::from(i) % u128::from(2 * n)) as f64;
        std::f64::consts::PI * k / n as f64
    };
    let flat = |b: &mut Emit, t: Pair| {
        each(b, t, &mut |b, x| {
            let len = b.dims(x)[1];
            b.reshape(x, &[len])
        })
    };
    let chirp = table(b, part, [1, n], |_, i| sign * square(i));
    let chirp = flat(b, chirp);
    let x = times(b, p, chirp, &[1]);
    let grown = each(b, x, &mut |b, x| {
        let zero = b.scalar(part, 0.0);
        b.pad_dim(x, zero, 1, (0, (long - n) as i64))
    });
    // The conjugate chirp at 0 .. n and, wrapped, at the end; its spectrum is a constant.
    let spectrum = chirp_spectrum(n, long, -sign);
    let filter = table_of(b, part, &spectrum);
    let x = super::transform(b, grown, -1.0, Wanted::All);
    let x = times(b, x, filter, &[1]);
    let x = super::transform(b, x, 1.0, Wanted::All);
    let x = each(b, x, &mut |b, x| {
        let x = b.slice_dim(x, 1, 0, n, 1);
        let x = b.with(Binary::Mul, x, 1.0 / long as f64);
        b.reshape(x, &[rows, n])
    });
    times(b, x, chirp, &[1])
}

fn table_of(b: &mut Emit, part: DType, values: &[(f64, f64)]) -> Pair {
    let bytes = |pick: &dyn Fn(&(f64, f64)) -> f64| values.iter().flat_map(|v| element_bytes(part, pick(v))).collect();
    let dims = [values.len() as u64];
    let re = b.constant(Literal::new(part, &dims, bytes(&|v| v.0)));
    let im = b.constant(Literal::new(part, &dims, bytes(&|v| v.1)));
    Pair { re, im: Some(im) }
}

/// The spectrum of the wrapped chirp `exp(sign * i * pi * k^2 / n)`, by a plain radix-2 transform.
fn chirp_spectrum(n: u64, long: u64, sign: f64) -> Vec<(f64, f64)> {
    let mut signal = vec![(0.0, 0.0); long as usize];
    for i in 0..n {
        let k = (u128::from(i) * u128::from(i) % u128::from(2 * n)) as f64;
        let a = sign * std::f64::consts::PI * k / n as f64;
        signal[i as usize] = (a.cos(), a.sin());
        if i > 0 {
            signal[(long - i) as usize] = (a.cos(), a.sin());
        }
    }
    let bits = long.trailing_zeros();
    let mut x: Vec<(f64, f64)> = (0..long).map(|i| signal[(i.reverse_bits() >> (64 - bits)) as usize]).collect();
    let mut half = 1usize;
    while half < long as usize {
        for start in (0..long as usize).step_by(half * 2) {
            for k in 0..half {
                let a = -TAU * k as f64 / (half * 2) as f64;
                let (c, s) = (a.cos(), a.sin());
                let (u, v) = (x[start + k], x[start + k + half]);
                let t = (v.0 * c - v.1 * s, v.0 * s + v.1 * c);
                x[start + k] = (u.0 + t.0, u.1 + t.1);
                x[start + k + half] = (u.0 - t.0, u.1 - t.1);
            }
        }
        half *= 2;
    }
    x
}
