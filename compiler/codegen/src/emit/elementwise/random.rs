//! The block functions of the counter-based random bit generators.

use crate::kernel::{KernelBuilder, V};
use systole_isa::Op;

/// Philox 4x32 with 10 rounds: four words of random bits from a key and a 128-bit counter, low words first.
pub fn philox(b: &mut KernelBuilder, key: [V; 2], counter: [V; 4]) -> [V; 4] {
    let (mut k, mut x) = (key, counter);
    for round in 0..10 {
        if round > 0 {
            k = [b.addi(k[0], 0x9e37_79b9u32), b.addi(k[1], 0xbb67_ae85u32)];
        }
        let (high0, low0) = (b.v2(Op::VMulHiU, x[0], 0xd251_1f53u32), b.muli(x[0], 0xd251_1f53u32));
        let (high1, low1) = (b.v2(Op::VMulHiU, x[2], 0xcd9e_8d57u32), b.muli(x[2], 0xcd9e_8d57u32));
        let (first, second) = (b.xor(high1, x[1]), b.xor(high0, x[3]));
        x = [b.xor(first, k[0]), low1, b.xor(second, k[1]), low0];
    }
    x
}

/// ThreeFry 2x32 with 20 rounds: two words of random bits from a key and a 64-bit counter, low words first.
pub fn threefry(b: &mut KernelBuilder, key: [V; 2], counter: [V; 2]) -> [V; 2] {
    const ROTATIONS: [[i32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let both = b.xor(key[0], key[1]);
    let k = [key[0], key[1], b.xor(both, 0x1bd1_1bda)];
    let mut x = [b.addi(counter[0], k[0]), b.addi(counter[1], k[1])];
    for group in 0..5 {
        for amount in ROTATIONS[group % 2] {
            let sum = b.addi(x[0], x[1]);
            let (up, down) = (b.shl(x[1], amount), b.shr(x[1], 32 - amount));
            let turned = b.or(up, down);
            x = [sum, b.xor(turned, sum)];
        }
        let second = b.addi(x[1], k[(group + 2) % 3]);
        x = [b.addi(x[0], k[(group + 1) % 3]), b.addi(second, group as i32 + 1)];
    }
    x
}

/// Random bits as f32 in 0..1: 23 of them as a significand of 1..2, less 1.
pub fn unit_f32(b: &mut KernelBuilder, bits: V) -> V {
    let m = b.shr(bits, 9);
    let f = b.or(m, 1.0f32.to_bits());
    b.sub(f, 1.0)
}
