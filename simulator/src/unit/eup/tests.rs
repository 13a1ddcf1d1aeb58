use super::*;

/// Distance in units in the last place.
fn ulps(a: f32, b: f64) -> f64 {
    let b32 = b as f32;
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() && b.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if a == b32 || b32.is_subnormal() && a == 0.0 {
        return 0.0;
    }
    let unit = (f32::from_bits(b32.abs().to_bits() + 1) - b32.abs()) as f64;
    (a as f64 - b).abs() / unit
}

fn inputs() -> Vec<u32> {
    let mut v: Vec<u32> = (0..1u32 << 16).map(|i| i.wrapping_mul(0x9E37_79B1)).collect();
    for i in 0..1 << 13 {
        let x = (i as f32 / 500.0) - 8.0;
        v.extend([x, x * 11.0, x * 1e-3, x * 5e3].map(f32::to_bits));
    }
    let special =
        [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 88.7, 88.73];
    v.extend(special.map(f32::to_bits));
    v.extend([1, 0x8000_0001, 0x007f_ffff]);
    v
}

/// The exact function and the error allowed, in units in the last place: an opcode without them does not compile.
fn model(function: TranscendentalFn) -> (fn(f64) -> f64, f64) {
    match function {
        TranscendentalFn::EExp => (libm::exp, 1.0),
        TranscendentalFn::ELog => (libm::log, 1.0),
        TranscendentalFn::ETanh => (libm::tanh, 1.0),
        TranscendentalFn::ERcp => (|x| 1.0 / x, 0.5),
        TranscendentalFn::ERsqrt => (|x| 1.0 / libm::sqrt(x), 0.51),
        TranscendentalFn::ESqrt => (libm::sqrt, 0.5),
        TranscendentalFn::ESin => (libm::sin, 1.0),
        TranscendentalFn::ECos => (libm::cos, 1.0),
    }
}

#[test]
fn functions_are_within_two_ulps() {
    let a = inputs();
    for &op in TranscendentalFn::ALL {
        let (exact, bound) = model(op);
        let mut d = vec![0; a.len()];
        execute(op, &mut d, &a);
        for (&x, &y) in a.iter().zip(&d) {
            let (x, y) = (f(x), f32::from_bits(y));
            let error = ulps(y, exact(x as f64));
            assert!(error <= bound, "{op:?}({x:e}) = {y:e}, want {:e}, {error} ulp", exact(x as f64));
            assert!(!y.is_subnormal());
        }
    }
}

#[test]
fn special_cases_are_exact() {
    let cases = [
        (TranscendentalFn::EExp, f32::NEG_INFINITY, 0.0),
        (TranscendentalFn::EExp, f32::INFINITY, f32::INFINITY),
        (TranscendentalFn::ELog, 0.0, f32::NEG_INFINITY),
        (TranscendentalFn::ELog, f32::INFINITY, f32::INFINITY),
        (TranscendentalFn::ETanh, f32::NEG_INFINITY, -1.0),
        (TranscendentalFn::ETanh, -0.0, -0.0),
        (TranscendentalFn::ERcp, -0.0, f32::NEG_INFINITY),
        (TranscendentalFn::ERsqrt, f32::INFINITY, 0.0),
        (TranscendentalFn::ESqrt, -0.0, -0.0),
        (TranscendentalFn::ESin, -0.0, -0.0),
        (TranscendentalFn::ECos, 0.0, 1.0),
    ];
    for (op, x, want) in cases {
        let mut d = [0];
        execute(op, &mut d, &[x.to_bits()]);
        assert_eq!(d[0], want.to_bits(), "{op:?}({x})");
    }
    for (op, x) in [
        (TranscendentalFn::ELog, -1.0),
        (TranscendentalFn::ESqrt, -1.0),
        (TranscendentalFn::ERsqrt, -1.0),
        (TranscendentalFn::ESin, f32::INFINITY),
    ] {
        let mut d = [0];
        execute(op, &mut d, &[f32::to_bits(x)]);
        assert!(f32::from_bits(d[0]).is_nan(), "{op:?}({x})");
    }
}
