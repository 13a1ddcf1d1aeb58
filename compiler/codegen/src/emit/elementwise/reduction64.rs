//! The remainder of large f64 numbers by pi/2, after Payne and Hanek.
//!
//! x = m 2^e with a 53-bit integer m. Of x / (2 pi) only the fraction matters, and the bits of 1 / (2 pi) above 2^-e
//! add whole numbers to it. So m is multiplied by the 192 bits that follow, which a barrel shifter takes from a table.

use crate::kernel::{KernelBuilder, P, V};
use std::f64::consts::TAU;
use systole_isa::Op;

/// 1 / (2 pi) in words, after 32 bits of zeros.
const INVERSE: [u32; 38] = [
    0,
    0x28be_60db,
    0x9391_054a,
    0x7f09_d5f4,
    0x7d4d_3770,
    0x36d8_a566,
    0x4f10_e410,
    0x7f94_58ea,
    0xf7ae_f158,
    0x6dc9_1b8e,
    0x9093_74b8,
    0x0192_4bba,
    0x8274_6487,
    0x3f87_7ac7,
    0x2c4a_69cf,
    0xba20_8d7d,
    0x4bae_d121,
    0x3a67_1c09,
    0xad17_df90,
    0x4e64_758e,
    0x60d4_ce7d,
    0x2721_17e2,
    0xef7e_4a0e,
    0xc7fe_25ff,
    0xf781_6603,
    0xfbcb_c462,
    0xd682_9b47,
    0xdb4d_9fb3,
    0xc9f2_c26d,
    0xd3d1_8fd9,
    0xa797_fa8b,
    0x5d49_eeb1,
    0xfaf9_7c5e,
    0xcf41_ce7d,
    0xe294_a4ba,
    0x9afe_d7ec,
    0x47e3_5742,
    0x1580_cc11,
];

/// The high word of the least number that [`reduce`] takes, 2^40.
pub const LEAST: i32 = 0x4270_0000;

/// (r, q) with |x| = r + (4 n + q) pi/2, r in -pi/4..=pi/4, for finite |x| of at least 2^40; any numbers for others.
pub fn reduce(b: &mut KernelBuilder, x: P) -> (P, V) {
    let (m0, hi) = b.unpair(x);
    let exponent = b.shr(hi, 20);
    let exponent = b.and(exponent, 0x7ff);
    // The first bit that matters, counted from the start of the table.
    let skip = b.subi(exponent, 1075 - 32);
    let g = fraction_bits(b, skip);
    let m1 = b.and(hi, 0x000f_ffff);
    let m1 = b.or(m1, 0x0010_0000);
    let [p0, p1, p2, p3] = multiply(b, m0, m1, &g);
    // The nearest quarter turn, and what is left as a signed fraction of a turn.
    let q = b.addi(p0, 0x2000_0000);
    let q = b.shr(q, 30);
    let turned = b.shl(q, 30);
    let p0 = b.subi(p0, turned);
    let (head, tail) = (b.pair(p1, p0), b.pair(p3, p2));
    let (head, tail) = (b.p1(Op::PCvtS64, head), b.p1(Op::PCvtU64, tail));
    let scale = f64::from_bits((1023 - 64) << 52);
    let r = b.fmad(tail, scale, head);
    (b.muld(r, TAU * scale), q)
}

/// Six words of the table from bit `skip` (0..32 * 32), the most significant first.
fn fraction_bits(b: &mut KernelBuilder, skip: V) -> [V; 6] {
    let mut words: Vec<V> = INVERSE.iter().map(|&w| b.reg(w)).collect();
    for step in [16, 8, 4, 2, 1] {
        let bit = b.and(skip, 32 * step as i32);
        let m = b.test(Op::VNeI, bit, 0);
        words = (0..step + 6).map(|i| b.select(m, words[i + step], words[i])).collect();
    }
    let up = b.and(skip, 31);
    let down = b.subi(32, up);
    std::array::from_fn(|i| {
        let (h, l) = (b.shl(words[i], up), b.shr(words[i + 1], down));
        b.or(h, l)
    })
}

/// The first four words after the point of (m1 2^32 + m0) times a fraction g.
fn multiply(b: &mut KernelBuilder, m0: V, m1: V, g: &[V; 6]) -> [V; 4] {
    let mut columns: [Vec<V>; 4] = Default::default();
    for (j, &w) in g.iter().enumerate() {
        // m0 g[j] reaches words j and j - 1, m1 g[j] words j - 1 and j - 2.
        for (m, at) in [(m0, j as i32), (m1, j as i32 - 1)] {
            if (0..4).contains(&at) {
                columns[at as usize].push(b.muli(m, w));
            }
            if (1..=4).contains(&at) {
                columns[at as usize - 1].push(b.v2(Op::VMulHiU, m, w));
            }
        }
    }
    let mut carry = None;
    let mut out = [m0; 4];
    for at in (0..4).rev() {
        let mut sum = columns[at][0];
        let mut over: Option<V> = None;
        for &term in columns[at][1..].iter().chain(&carry) {
            let next = b.addi(sum, term);
            if at > 0 {
                let wrapped = b.test(Op::VLtU, next, term);
                let one = b.sel(wrapped, 1, 0);
                over = Some(over.map_or(one, |o| b.addi(o, one)));
            }
            sum = next;
        }
        (out[at], carry) = (sum, over);
    }
    out
}
