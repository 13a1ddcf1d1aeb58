//! Conversions, bitcasts, reduce-precision, constants and iota.

use super::integers::{TYPES as INTEGERS, arguments, elements, numbers, wrap};
use super::{Elements, as_f64, eval, floats};
use systole_codegen::emit::elementwise::{bitcast_same_width, constant, convert, iota_value, reduce_precision};
use systole_isa::{DType, dtype::DTypeClass};

const FLOATS: [DType; 4] = [DType::BF16, DType::F16, DType::F32, DType::F64];

#[test]
fn integers_wrap() {
    for from in INTEGERS {
        let x = arguments(from, 40);
        for to in INTEGERS {
            let r = eval(&[elements(from, &x)], |b, v| convert(b, &v[0], to));
            for (x, got) in x.iter().zip(numbers(&r)) {
                assert_eq!(got, wrap(to, *x), "{x} from {from} to {to}");
            }
        }
    }
}

#[test]
fn integers_to_floats_round_once() {
    for from in INTEGERS {
        let mut x = arguments(from, 60);
        // Halfway cases of f32 that f64 cannot hold.
        x.extend([0x4000_0080_0000_0001, 0x4000_0080_0000_0000, 0x4000_0180_0000_0000, -0x4000_0080_0000_0001]);
        let x: Vec<i128> = x.into_iter().map(|x| wrap(from, x)).collect();
        for to in FLOATS {
            let r = eval(&[elements(from, &x)], |b, v| convert(b, &v[0], to));
            for (x, got) in x.iter().zip(as_f64(&r)) {
                let want = match to {
                    DType::F64 => *x as f64,
                    DType::F32 => *x as f32 as f64,
                    to => as_f64(&floats(to, &[*x as f32 as f64]))[0],
                };
                assert_eq!(got, want, "{x} from {from} to {to}");
            }
        }
    }
}

#[test]
fn floats_truncate_and_saturate() {
    let x = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        -1.5,
        7.9,
        -8.9,
        127.5,
        128.0,
        -128.5,
        255.7,
        300.0,
        -3.0,
        32768.0,
        65535.0,
        1e6,
        -1e6,
        3e9,
        -3e9,
        1e15,
        -1e15,
        1e19,
        -1e19,
        2e19,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for from in FLOATS {
        let x = as_f64(&floats(from, &x));
        for to in INTEGERS {
            let r = eval(&[floats(from, &x)], |b, v| convert(b, &v[0], to));
            let (low, high) = if to.class() == DTypeClass::Signed {
                (-1i128 << (to.bits() - 1), (1i128 << (to.bits() - 1)) - 1)
            } else {
                (0, (1i128 << to.bits()) - 1)
            };
            for (x, got) in x.iter().zip(numbers(&r)) {
                assert_eq!(got, (*x as i128).clamp(low, high), "{x} from {from} to {to}");
            }
        }
        let r = eval(&[floats(from, &x)], |b, v| convert(b, &v[0], DType::Pred));
        for (x, got) in x.iter().zip(&r.bits) {
            assert_eq!(*got == 1, *x != 0.0, "{x} from {from} to pred");
        }
    }
}

#[test]
fn floats_round_to_narrower_ones() {
    let x = [
        0.0,
        -0.0,
        1.0,
        1.0 / 3.0,
        -1e-3,
        65504.0,
        65519.0,
        65520.0,
        1e30,
        1e300,
        6e-8,
        1.001,
        1.0039,
        1.00391,
        f64::INFINITY,
    ];
    for from in FLOATS {
        let x = as_f64(&floats(from, &x));
        for to in FLOATS {
            let r = eval(&[floats(from, &x)], |b, v| convert(b, &v[0], to));
            for (x, got) in x.iter().zip(as_f64(&r)) {
                let narrow = if from == DType::F64 && to != DType::F64 { *x as f32 as f64 } else { *x };
                assert_eq!(got, as_f64(&floats(to, &[narrow]))[0], "{x} from {from} to {to}");
            }
        }
    }
}

#[test]
fn pred_and_complex() {
    let p = || Elements { dtype: DType::Pred, bits: vec![0, 1] };
    for to in INTEGERS {
        assert_eq!(eval(&[p()], |b, v| convert(b, &v[0], to)).bits, [0, 1], "{to}");
    }
    for to in FLOATS {
        assert_eq!(as_f64(&eval(&[p()], |b, v| convert(b, &v[0], to))), [0.0, 1.0], "{to}");
    }
    let x = floats(DType::F32, &[1.5, -2.0]);
    let c = eval(&[x], |b, v| convert(b, &v[0], DType::C128));
    assert_eq!(c.bits, [1.5f64.to_bits() as u128, (-2f64).to_bits() as u128]);
    let r = eval(&[c], |b, v| convert(b, &v[0], DType::S32));
    assert_eq!(numbers(&r), [1, -2]);
}

#[test]
fn bitcasts_keep_bits() {
    let groups: [&[DType]; 5] = [
        &[DType::S8, DType::U8],
        &[DType::S16, DType::U16, DType::BF16, DType::F16],
        &[DType::S32, DType::U32, DType::F32],
        &[DType::S64, DType::U64, DType::F64, DType::C64],
        &[DType::S4, DType::U4, DType::F4E2M1FN],
    ];
    for group in groups {
        let mask = u128::MAX >> (128 - group[0].bits());
        let bits: Vec<u128> =
            [0u128, 1, 0x8001_8001, 0x1234_5678_9abc_def0, 0x3c00_3c00_3c00].map(|x| x & mask).to_vec();
        for from in group {
            for to in group {
                let x = Elements { dtype: *from, bits: bits.clone() };
                let r = eval(&[x], |b, v| bitcast_same_width(b, &v[0], *to));
                assert_eq!((r.dtype, r.bits), (*to, bits.clone()), "{from} to {to}");
            }
        }
    }
}

/// Rounds by f64 arithmetic: `exponent` and `mantissa` bits.
fn reduced(x: f64, exponent: u32, mantissa: u32) -> f64 {
    if x.is_nan() || x.is_infinite() || x == 0.0 {
        return x;
    }
    let range = 2f64.powi((1 << (exponent - 1)) - 1);
    let step = 2f64.powi(x.abs().log2().floor() as i32 - mantissa as i32);
    let r = (x / step).round_ties_even() * step;
    if r.abs() >= 2.0 * range {
        f64::INFINITY.copysign(x)
    } else if r.abs() < 2.0 / range {
        0f64.copysign(x)
    } else {
        r
    }
}

#[test]
fn reduced_precision() {
    let x = [
        1.0,
        65504.0,
        65520.0,
        1e-5,
        -1e-8,
        3e38,
        f64::NAN,
        f64::NEG_INFINITY,
        1.1,
        -0.3,
        6.1035156e-05,
        3.05e-05,
        1.25,
        1.75,
        0.0,
    ];
    for t in [DType::F32, DType::F64, DType::BF16] {
        let x = as_f64(&floats(t, &x));
        for (e, m) in [(5, 10), (4, 3), (1, 2), (5, 0), (8, 7), (3, 20)] {
            let r = eval(&[floats(t, &x)], |b, v| reduce_precision(b, &v[0], e, m));
            for (x, got) in x.iter().zip(as_f64(&r)) {
                // A type's own range is not cut.
                let want = if t == DType::BF16 { reduced(*x, e, m.min(7)) } else { reduced(*x, e, m) };
                assert!(
                    got == want || got.is_nan() && want.is_nan(),
                    "{x:e} of {t} to e{e}m{m}: {got:e}, not {want:e}"
                );
            }
        }
    }
}

#[test]
fn constants_have_their_bits() {
    for t in INTEGERS.into_iter().chain(FLOATS).chain([DType::Pred, DType::C64, DType::C128]) {
        let bits: u128 = match t {
            DType::Pred => 1,
            DType::F16 => 0xbc01,
            DType::BF16 => 0xbf81,
            t => 0x8123_4567_89ab_cdef_8765_4321_0fed_cb9a & (u128::MAX >> (128 - t.bits())),
        };
        let bytes = bits.to_le_bytes();
        let unused = Elements { dtype: DType::S32, bits: vec![0] };
        let r = eval(&[unused], |b, _| constant(b, &bytes[..t.host_bytes()], t));
        assert_eq!((r.dtype, r.bits), (t, vec![bits]), "{t}");
    }
}

#[test]
fn iota_counts() {
    for t in INTEGERS {
        let index = elements(DType::S32, &[0, 1, 5, 7]);
        assert_eq!(numbers(&eval(&[index], |b, v| iota_value(b, v[0].v(), t))), [0, 1, 5, 7], "{t}");
    }
    for t in FLOATS {
        let index = elements(DType::S32, &[0, 1, 5, 200]);
        assert_eq!(as_f64(&eval(&[index], |b, v| iota_value(b, v[0].v(), t))), [0.0, 1.0, 5.0, 200.0], "{t}");
    }
}
