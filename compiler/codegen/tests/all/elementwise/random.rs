//! Random bits, and floats of a byte.

use super::{Elements, as_f64, eval};
use systole_codegen::emit::Value;
use systole_codegen::emit::elementwise::{binary, convert, random};
use systole_hlo::graph::Binary;
use systole_isa::{DType, float::F8};

#[test]
fn random_blocks_are_the_published_ones() {
    let word = |x: u32| Elements { dtype: DType::U32, bits: vec![x as u128] };
    let philox = |k: [u32; 2], c: [u32; 4]| -> Vec<u128> {
        let inputs = [k[0], k[1], c[0], c[1], c[2], c[3]].map(word);
        (0..4)
            .map(|i| {
                eval(&inputs, |b, v| {
                    let v: Vec<_> = v.iter().map(Value::v).collect();
                    Value::word(DType::U32, random::philox(b, [v[0], v[1]], [v[2], v[3], v[4], v[5]])[i])
                })
                .bits[0]
            })
            .collect()
    };
    // Known answers of the Random123 suite.
    assert_eq!(philox([0; 2], [0; 4]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    assert_eq!(philox([u32::MAX; 2], [u32::MAX; 4]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
    let threefry = |k: [u32; 2], c: [u32; 2]| -> Vec<u128> {
        let inputs = [k[0], k[1], c[0], c[1]].map(word);
        (0..2)
            .map(|i| {
                eval(&inputs, |b, v| {
                    let v: Vec<_> = v.iter().map(Value::v).collect();
                    Value::word(DType::U32, random::threefry(b, [v[0], v[1]], [v[2], v[3]])[i])
                })
                .bits[0]
            })
            .collect()
    };
    assert_eq!(threefry([0; 2], [0; 2]), [0x6b200159, 0x99ba4efe]);
    assert_eq!(threefry([u32::MAX; 2], [u32::MAX; 2]), [0x1cb996fc, 0xbb002be7]);
}

#[test]
fn floats_of_a_byte() {
    let formats = [
        DType::F8E4M3FN,
        DType::F8E5M2,
        DType::F8E4M3,
        DType::F8E4M3B11FNUZ,
        DType::F8E4M3FNUZ,
        DType::F8E5M2FNUZ,
        DType::F8E3M4,
        DType::F4E2M1FN,
    ];
    for t in formats {
        let f = F8::from_dtype(t).unwrap();
        let codes = || Elements { dtype: t, bits: (0..1 << t.bits()).collect() };
        let wide = eval(&[codes()], |b, v| convert(b, &v[0], DType::F32));
        for (code, x) in as_f64(&wide).into_iter().enumerate() {
            let want = f.to_f32(code as u8) as f64;
            assert!(x == want || x.is_nan() && want.is_nan(), "{t} {code}: {x}");
        }
        let back = eval(&[wide], |b, v| convert(b, &v[0], t));
        let sum = eval(&[codes(), codes()], |b, v| binary(b, Binary::Add, &v[0], &v[1]));
        for code in 0..=u8::MAX >> (8 - t.bits()) {
            let x = f.to_f32(code);
            if !x.is_nan() {
                assert_eq!(back.bits[code as usize], code as u128, "{t} {code}");
                assert_eq!(sum.bits[code as usize], f.from_f32(x + x) as u128, "{t} {code} twice");
            }
        }
    }
}
