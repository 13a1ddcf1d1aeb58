//! Complex arithmetic, in pairs of `f64`; the caller flushes operands and rounds results.

use systole_hlo::graph::elementwise::{Arithmetic, Signs};

/// A complex number: real and imaginary part.
pub type Complex = (f64, f64);
/// A complex operation of one operand.
pub type ComplexUnary = fn(Complex) -> Complex;
/// A complex operation of two operands.
pub type ComplexBinary = fn(Complex, Complex) -> Complex;

/// What touches the sign only, with a complex result.
pub(super) fn signs(op: Signs) -> Option<ComplexUnary> {
    match op {
        Signs::Abs => None,
        Signs::Neg => Some(|(a, b)| (-a, -b)),
        Signs::Sign => Some(sign),
    }
}

/// Arithmetic of two numbers, if it is defined.
pub(super) fn arithmetic(op: Arithmetic) -> Option<ComplexBinary> {
    Some(match op {
        Arithmetic::Add => |a, b| (a.0 + b.0, a.1 + b.1),
        Arithmetic::Sub => |a, b| (a.0 - b.0, a.1 - b.1),
        Arithmetic::Mul => mul,
        Arithmetic::Div => div,
        Arithmetic::Max => |a, b| if a.0 > b.0 || a.0 == b.0 && a.1 > b.1 { a } else { b },
        Arithmetic::Min => |a, b| if a.0 < b.0 || a.0 == b.0 && a.1 < b.1 { a } else { b },
        Arithmetic::Rem => return None,
    })
}

/// The absolute value; NaN if either part is, even beside an infinity.
pub fn abs(z: Complex) -> f64 {
    if z.0.is_nan() || z.1.is_nan() { f64::NAN } else { libm::hypot(z.0, z.1) }
}

/// Multiplication by i.
pub(super) fn rotate((a, b): Complex) -> Complex {
    (-b, a)
}

/// Multiplication by −i.
pub(super) fn rotate_back((a, b): Complex) -> Complex {
    (b, -a)
}

/// The product, by the school formula.
pub fn mul(a: Complex, b: Complex) -> Complex {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// The quotient, scaled so that the divisor's square neither overflows nor vanishes.
pub fn div(a: Complex, b: Complex) -> Complex {
    let size = b.0.abs().max(b.1.abs());
    if size == 0.0 || !size.is_finite() {
        return div_special(a, b);
    }
    let scale = libm::scalbn(1.0, -libm::ilogb(size));
    let (c, d) = (b.0 * scale, b.1 * scale);
    let n = c * c + d * d;
    let q = ((a.0 * c + a.1 * d) / n * scale, (a.1 * c - a.0 * d) / n * scale);
    if q.0.is_nan() && q.1.is_nan() && (a.0.is_infinite() || a.1.is_infinite()) {
        let (x, y) = (unit(a.0), unit(a.1));
        return (f64::INFINITY * (x * b.0 + y * b.1), f64::INFINITY * (y * b.0 - x * b.1));
    }
    q
}

/// An infinity as ±1, anything else as a zero of its sign: the direction of an infinite number.
fn unit(x: f64) -> f64 {
    if x.is_infinite() { 1f64.copysign(x) } else { 0f64.copysign(x) }
}

/// Division by zero and by infinities.
fn div_special(a: Complex, b: Complex) -> Complex {
    if b.0 == 0.0 && b.1 == 0.0 {
        let inf = f64::INFINITY.copysign(b.0);
        return (inf * a.0, inf * a.1);
    }
    if (b.0.is_infinite() || b.1.is_infinite()) && a.0.is_finite() && a.1.is_finite() {
        let (c, d) = (unit(b.0), unit(b.1));
        return (0.0 * (a.0 * c + a.1 * d), 0.0 * (a.1 * c - a.0 * d));
    }
    (f64::NAN, f64::NAN)
}

pub(super) fn exp((a, b): Complex) -> Complex {
    let e = libm::exp(a);
    if b == 0.0 {
        return (e, b);
    }
    (e * libm::cos(b), e * libm::sin(b))
}

pub(super) fn expm1((a, b): Complex) -> Complex {
    // e^a cos b - 1 = expm1(a) cos b - 2 sin²(b/2), exact near zero.
    let half = libm::sin(b / 2.0);
    let im = if b == 0.0 { b } else { libm::exp(a) * libm::sin(b) };
    (libm::expm1(a) * libm::cos(b) - 2.0 * half * half, im)
}

pub(super) fn log((a, b): Complex) -> Complex {
    (libm::log(abs((a, b))), libm::atan2(b, a))
}

pub(super) fn log1p((a, b): Complex) -> Complex {
    // |1 + z|² - 1 = a (2 + a) + b², exact near zero.
    let re = if a.abs() < 0.5 && b.abs() < 0.5 {
        libm::log1p(a * (2.0 + a) + b * b) / 2.0
    } else {
        libm::log(abs((1.0 + a, b)))
    };
    (re, libm::atan2(b, 1.0 + a))
}

pub(super) fn tanh((a, b): Complex) -> Complex {
    if b == 0.0 || a.is_infinite() {
        return (libm::tanh(a), 0f64.copysign(b));
    }
    if !b.is_finite() {
        return (f64::NAN, f64::NAN);
    }
    if a.abs() > 20.0 {
        // 4 e^{-2|a|} sin b cos b decides only the imaginary part.
        return (1f64.copysign(a), 4.0 * libm::sin(b) * libm::cos(b) * libm::exp(-2.0 * a.abs()));
    }
    let (t, s) = (libm::tan(b), libm::sinh(a));
    let beta = 1.0 + t * t;
    let rho = (1.0 + s * s).sqrt();
    if t.is_infinite() {
        return (rho / s, 1.0 / t);
    }
    let d = 1.0 + beta * s * s;
    (beta * rho * s / d, t / d)
}

/// The root in the right half plane; on the cut the upper one, whatever the sign of the zero.
pub fn sqrt((a, b): Complex) -> Complex {
    root((a, if b == 0.0 && a < 0.0 { 0.0 } else { b }))
}

/// The root in the right half plane; on the cut the sign of the zero decides.
fn root((a, b): Complex) -> Complex {
    if a == 0.0 && b == 0.0 {
        return (0.0, b);
    }
    if b.is_infinite() && !a.is_nan() {
        return (f64::INFINITY, b);
    }
    let m = abs((a, b));
    if a >= 0.0 {
        let re = ((m + a) / 2.0).sqrt();
        (re, if re.is_infinite() { 0f64.copysign(b) } else { b / (2.0 * re) })
    } else {
        let im = ((m - a) / 2.0).sqrt();
        (if im.is_infinite() { 0.0 } else { b.abs() / (2.0 * im) }, im.copysign(b))
    }
}

pub(super) fn rsqrt(z: Complex) -> Complex {
    if z == (0.0, 0.0) {
        return (f64::INFINITY, f64::NAN);
    }
    let m = libm::hypot(z.0, z.1);
    if m.is_infinite() {
        return (0.0, 0.0);
    }
    div((1.0, 0.0), root(z))
}

fn sign(z: Complex) -> Complex {
    if z.0.is_nan() || z.1.is_nan() {
        return (f64::NAN, f64::NAN);
    }
    let m = abs(z);
    if m == 0.0 { (0.0, 0.0) } else { (z.0 / m, z.1 / m) }
}

/// The principal power; zero to zero is one, zero to a positive real is zero.
pub(super) fn pow(z: Complex, (c, d): Complex) -> Complex {
    if (c, d) == (0.0, 0.0) || z == (1.0, 0.0) {
        return (1.0, 0.0);
    }
    if z.1 == 0.0 && d == 0.0 && ((z.0 == 0.0 && c > 0.0) || z.0 == f64::INFINITY) {
        return (libm::pow(z.0.abs(), c), 0.0);
    }
    let (size, angle) = (abs(z), libm::atan2(z.1, z.0));
    let scale = libm::pow(size, c) * libm::exp(-d * angle);
    let turn = c * angle + d * libm::log(size);
    (scale * libm::cos(turn), scale * libm::sin(turn))
}

/// −i log((x + i y) / sqrt(x² + y²)).
pub(super) fn atan2(y: Complex, x: Complex) -> Complex {
    let (xx, yy) = (mul(x, x), mul(y, y));
    let norm = root((xx.0 + yy.0, xx.1 + yy.1));
    rotate_back(log(div((x.0 - y.1, x.1 + y.0), norm)))
}

/// The inverse hyperbolic sine, from the stable form of W. Kahan.
pub(super) fn asinh(z: Complex) -> Complex {
    // asinh z = i asin(-i z); asin w = (atan(re / Re(s1 s2)), asinh(Im(conj(s1) s2))), s1 = sqrt(1-w), s2 = sqrt(1+w).
    let w = rotate_back(z);
    let (s1, s2) = (root((1.0 - w.0, -w.1)), root((1.0 + w.0, w.1)));
    let re = libm::atan2(w.0, mul(s1, s2).0);
    let im = libm::asinh(mul((s1.0, -s1.1), s2).1);
    rotate((re, im))
}

pub(super) fn acosh(z: Complex) -> Complex {
    let (s1, s2) = (root((z.0 - 1.0, z.1)), root((z.0 + 1.0, z.1)));
    (libm::asinh(mul((s1.0, -s1.1), s2).0), 2.0 * libm::atan2(s1.1, s2.0))
}

pub(super) fn atanh(z: Complex) -> Complex {
    // Parts of ½ (log1p(z) - log1p(-z)).
    let (p, m) = (log1p(z), log1p((-z.0, -z.1)));
    ((p.0 - m.0) / 2.0, (p.1 - m.1) / 2.0)
}
