//! Element formats of floats, against what ml_dtypes gives.

use systole_isa::DType;
use systole_isa::float::*;

/// f32 inputs around every tie that a format of at most 10 fraction bits has.
fn inputs() -> impl Iterator<Item = f32> {
    [0u32, 1, u32::MAX]
        .into_iter()
        .flat_map(|d| (0..1u32 << 20).map(move |i| f32::from_bits((i << 12).wrapping_add(d))))
}

/// CRC-32 of what ml_dtypes 0.6.0 makes of [`inputs`] (as XLA, any NaN is the negative zero where there are numbers alone), and of the f32 bits of all codes (NaN as 0x7fc00000).
const ML_DTYPES: [(F8, u32, u32); 8] = [
    (F8::E4M3FN, 0xb3bfe3da, 0x2fdee9ac),
    (F8::E5M2, 0x0f1a1b56, 0x3d83fd11),
    (F8::E4M3, 0x44d3c719, 0x9f892b8b),
    (F8::E4M3B11FNUZ, 0x49a8586e, 0xb58a74fe),
    (F8::E4M3FNUZ, 0x0860c20a, 0xf2dfa052),
    (F8::E5M2FNUZ, 0x2fbe6b7f, 0x09c70b84),
    (F8::E3M4, 0xba0c2e1b, 0x6bff5c51),
    (F8::E2M1FN, 0x833ecb48, 0x4e9f1886),
];

#[test]
fn f8_agrees_with_ml_dtypes() {
    for (format, codes, values) in ML_DTYPES {
        let got: Vec<u8> = inputs().map(|x| format.from_f32(x)).collect();
        assert_eq!(crc32fast::hash(&got), codes, "{format:?} from f32");
        let bits = |x: f32| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() };
        let got: Vec<u8> = (0..=255).flat_map(|c| bits(format.to_f32(c)).to_le_bytes()).collect();
        assert_eq!(crc32fast::hash(&got), values, "{format:?} to f32");
    }
}

#[test]
fn wider_formats_agree_with_ml_dtypes() {
    let got: Vec<u8> =
        inputs().flat_map(|x| if x.is_nan() { 0x7fc0 } else { bf16_from_f32(x) }.to_le_bytes()).collect();
    assert_eq!(crc32fast::hash(&got), 0x7a954236, "bf16");
    let got: Vec<u8> = inputs().flat_map(|x| if x.is_nan() { 0x7e00 } else { f16_from_f32(x) }.to_le_bytes()).collect();
    assert_eq!(crc32fast::hash(&got), 0x9909a873, "f16");
}

/// The nearest code by search over all of them; `None` beyond the range where rounding goes to a special.
fn nearest(format: F8, x: f64) -> Option<u8> {
    let finite: Vec<(f64, u8)> = (0..128).map(|c| (format.to_f32(c) as f64, c)).filter(|v| v.0.is_finite()).collect();
    let (max, before) = (finite[finite.len() - 1], finite[finite.len() - 2]);
    let half = (max.0 - before.0) / 2.0;
    if x > max.0 + half || (x == max.0 + half && max.1 % 2 == 1) {
        return None;
    }
    finite
        .iter()
        .min_by(|a, b| {
            let order = (a.0 - x).abs().total_cmp(&(b.0 - x).abs());
            order.then((a.1 % 2).cmp(&(b.1 % 2)))
        })
        .map(|v| v.1)
}

#[test]
fn f8_is_the_nearest_code() {
    for format in F8::ALL.into_iter().filter(|f| f.dtype().bits() == 8 && *f != F8::E8M0FNU) {
        for code in 0..127u8 {
            let (a, b) = (format.to_f32(code) as f64, format.to_f32(code + 1) as f64);
            if !b.is_finite() {
                continue;
            }
            let middle = (a + b) / 2.0;
            for x in [a, middle, middle * (1.0 + 1e-12), middle * (1.0 - 1e-12), b, b * 1.25, b * 1e-9] {
                match nearest(format, x) {
                    Some(c) => {
                        assert_eq!(format.from_f64(x), c, "{format:?} {x}");
                        assert_eq!(format.to_f32(format.from_f64(-x)), -format.to_f32(c), "{format:?} -{x}");
                    }
                    None => assert!(!format.to_f32(format.from_f64(x)).is_finite(), "{format:?} {x}"),
                }
            }
        }
        for code in 0..=255 {
            let x = format.to_f32(code);
            assert!(x.is_nan() || format.from_f32(x) == code, "{format:?} {code:#x}");
        }
        assert!(format.to_f32(format.from_f32(f32::NAN)).is_nan());
        assert_eq!(F8::from_dtype(format.dtype()), Some(format));
        assert_eq!(F8::from_number(format as i32), Some(format));
    }
    assert_eq!(F8::from_number(F8::ALL.len() as i32), None);
    assert_eq!(F8::from_number(-1), None);
}

#[test]
fn scales_are_powers_of_two() {
    let f = F8::E8M0FNU;
    for code in 0..255u8 {
        let x = 2f64.powi(i32::from(code) - 127);
        assert_eq!(f.to_f32(code) as f64, x);
        assert_eq!(f.from_f64(x), code);
        assert_eq!(f.from_f64(x * 1.499), code);
        assert_eq!(f.from_f64(x * 1.5), code + 1);
        assert_eq!(f.from_f64(-x), 255);
    }
    assert_eq!(
        [1e-45, 1e-300, 0.0, -0.0, f64::INFINITY, f64::NAN, 1e300].map(|x| f.from_f64(x)),
        [0, 0, 255, 255, 255, 255, 255]
    );
    assert!(f.to_f32(255).is_nan());
    assert_eq!(F8::from_dtype(DType::F8E8M0FNU), Some(f));
}

#[test]
fn four_bits_are_numbers_alone() {
    let f = F8::E2M1FN;
    let values = [0.0f32, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    for (code, x) in values.into_iter().enumerate() {
        for (code, x) in [(code, x), (code + 8, -x)] {
            assert_eq!(f.to_f32(code as u8).to_bits(), x.to_bits());
            // Bits beyond the code mean nothing.
            assert_eq!(f.to_f32(code as u8 | 0xa0).to_bits(), x.to_bits());
            assert_eq!(f.from_f32(x), code as u8);
        }
    }
    let above = f64::from_bits(0.25f64.to_bits() + 1);
    let ties = [0.25, above, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, f64::INFINITY, -1e300];
    assert_eq!(ties.map(|x| f.from_f64(x)), [0, 1, 2, 2, 4, 4, 6, 6, 7, 7, 15]);
    assert_eq!([f64::NAN, -f64::NAN, -0.0, -1e-300].map(|x| f.from_f64(x)), [8; 4]);
    assert_eq!(F8::from_dtype(DType::F4E2M1FN), Some(f));
    assert_eq!(f.name(), "e2m1fn");
}

#[test]
fn bf16_rounds_ties_to_even_and_keeps_subnormals() {
    for (x, bits) in
        [(1.0, 0x3f80), (1.0 + 1.0 / 256.0, 0x3f80), (1.0 + 3.0 / 256.0, 0x3f82), (f32::MAX, 0x7f80), (1e-40, 0x0001)]
    {
        assert_eq!(bf16_from_f32(x), bits, "{x}");
        assert_eq!(bf16_from_f64(x as f64), bits, "{x}");
    }
    assert!(round_to_bf16(f32::from_bits(0x7f80_0001)).is_nan());
}
