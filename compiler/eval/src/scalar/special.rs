//! Special functions that `libm` lacks.

/// The inverse error function: ±∞ at ±1, NaN beyond.
pub fn erf_inv(y: f64) -> f64 {
    if y.is_nan() || y.abs() > 1.0 {
        return f64::NAN;
    }
    if y.abs() == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if y == 0.0 {
        return y;
    }
    // A starting value good to about 2e-3 (S. Winitzki, 2008), then Halley steps on erf(x) - y. Beyond |y| = 1/2 the
    // difference is taken of the complements, which keep their digits near 1.
    let a = 0.147;
    let l = libm::log1p(-y * y);
    let t = 2.0 / (std::f64::consts::PI * a) + l / 2.0;
    let mut x = ((t * t - l / a).sqrt() - t).sqrt();
    let target = y.abs();
    for _ in 0..4 {
        let error = if target > 0.5 { (1.0 - target) - libm::erfc(x) } else { libm::erf(x) - target };
        let step = error * (std::f64::consts::PI.sqrt() / 2.0) * libm::exp(x * x);
        x -= step / (1.0 + x * step);
    }
    x.copysign(y)
}
