//! Random numbers: the counter-based bit generators, and seeded draws.

use super::super::dispatch::Place;
use super::super::error::{Fault, malformed};
use super::super::run::Machine;
use super::super::scalar::{self, Scalar, special};
use super::super::value::{Tensor, Value, sizes};
use super::movement;
use systole_hlo::graph::{ArrayShape, PadDim, RngAlgorithm, RngDistribution, Shape};
use systole_isa::DType;

fn low(x: u64) -> u32 {
    x as u32
}

fn high(x: u64) -> u32 {
    (x >> 32) as u32
}

/// The ThreeFry 2x32 block function with 20 rounds.
pub fn threefry(key: u64, counter: u64) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let k = [low(key), high(key), low(key) ^ high(key) ^ 0x1BD1_1BDA];
    let mut x = [low(counter).wrapping_add(k[0]), high(counter).wrapping_add(k[1])];
    for group in 0..5usize {
        for r in ROTATIONS[group % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(r) ^ x[0];
        }
        x[0] = x[0].wrapping_add(k[(group + 1) % 3]);
        x[1] = x[1].wrapping_add(k[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    x
}

/// The Philox 4x32 block function with 10 rounds.
pub fn philox(key: u64, counter: u128) -> [u32; 4] {
    let mut k = [low(key), high(key)];
    let mut x = [0, 32, 64, 96].map(|s| (counter >> s) as u32);
    for _ in 0..10 {
        let a = 0xD251_1F53u64 * x[0] as u64;
        let b = 0xCD9E_8D57u64 * x[2] as u64;
        x = [high(b) ^ x[1] ^ k[0], low(b), high(a) ^ x[3] ^ k[1], low(a)];
        k = [k[0].wrapping_add(0x9E37_79B9), k[1].wrapping_add(0xBB67_AE85)];
    }
    x
}

/// `rng-bit-generator`: the new state and the bits. The state's first word is the key, the rest is the counter.
pub(in super::super) fn bit_generator(state: &Tensor, algorithm: RngAlgorithm, shape: &Shape) -> Result<Value, Fault> {
    let Shape::Tuple(parts) = shape else { return Err(malformed("the result is not a pair")) };
    let result = parts.get(1).and_then(Shape::as_array).ok_or_else(|| malformed("the result is not a pair"))?;
    let dims = sizes(&result.dims);
    // The state may be given as words of 32 bits.
    let words: Vec<u64> =
        state.bytes().chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap_or([0; 8]))).collect();
    let (key, counter) = match words[..] {
        // The key stands in for an upper half of the counter.
        [key, counter] => (key, counter as u128 | (key as u128) << 64),
        [key, lo, hi] => (key, lo as u128 | (hi as u128) << 64),
        _ => return Err(malformed(format!("a state of {} bytes", state.bytes().len()))),
    };
    let (bits, used) = match algorithm {
        RngAlgorithm::ThreeFry => threefry_bits(key, counter as u64, result.dtype, &dims),
        RngAlgorithm::Philox | RngAlgorithm::Default => philox_bits(key, counter, result.dtype, &dims),
    };
    let next = match words.len() {
        2 => ((counter as u64).wrapping_add(used)) as u128,
        _ => counter.wrapping_add(used as u128),
    };
    let mut bytes = key.to_le_bytes().to_vec();
    bytes.extend_from_slice(&next.to_le_bytes()[..state.bytes().len() - 8]);
    let state = Tensor::new(state.dtype, &state.dims, bytes);
    Ok(Value::Tuple(vec![state.into(), bits.into()]))
}

/// ThreeFry bits and the number of counters used.
///
/// 64-bit elements take a block each. Narrower ones share a block by two, which lie apart by half of one dimension:
/// the first even one, else the largest.
fn threefry_bits(key: u64, counter: u64, dtype: DType, dims: &[usize]) -> (Tensor, u64) {
    let n: usize = dims.iter().product();
    let block = |i: usize| threefry(key, counter.wrapping_add(i as u64));
    if dtype.bits() == 64 {
        let join = |[a, b]: [u32; 2]| (a as u64 | (b as u64) << 32) as i64;
        let bytes = scalar::integer_bytes(dtype, (0..n).map(|i| join(block(i))));
        return (Tensor::new(dtype, dims, bytes), n as u64);
    }
    let largest = |best: usize, d: usize| if dims[d] > dims[best] { d } else { best };
    let split = dims.iter().position(|d| d % 2 == 0).unwrap_or_else(|| (1..dims.len()).fold(0, largest));
    let mut half_dims = if dims.is_empty() { vec![1] } else { dims.to_vec() };
    half_dims[split] = half_dims[split].div_ceil(2);
    let half: usize = half_dims.iter().product();
    // Elements before and after the split dimension: blocks [outer, half, inner] become [outer, half, 2, inner].
    let inner: usize = half_dims[split + 1..].iter().product();
    let blocks: Vec<[u32; 2]> = (0..half).map(block).collect();
    let mut out = Vec::with_capacity(2 * half);
    for row in blocks.chunks_exact(inner.max(1)) {
        out.extend(row.iter().map(|b| b[0] as i64));
        out.extend(row.iter().map(|b| b[1] as i64));
    }
    half_dims[split] *= 2;
    let all = Tensor::new(dtype, &half_dims, scalar::integer_bytes(dtype, out.into_iter()));
    let mut pads = vec![PadDim::NONE; half_dims.len()];
    pads[split].high = dims.get(split).map_or(-1, |&d| d as i64 - half_dims[split] as i64);
    let cut = movement::pad(&all, &Tensor::zeros(dtype, &[]), &pads);
    (cut.reshaped(dims), half as u64)
}

/// Philox bits and the number of counters used: four 32-bit words (or two 64-bit ones) a block, in order.
fn philox_bits(key: u64, counter: u128, dtype: DType, dims: &[usize]) -> (Tensor, u64) {
    let n: usize = dims.iter().product();
    let each = if dtype.bits() == 64 { 2 } else { 4 };
    let blocks = n.div_ceil(each);
    let mut out = Vec::with_capacity(blocks * each);
    for i in 0..blocks {
        let b = philox(key, counter.wrapping_add(i as u128));
        match each {
            2 => out.extend([b[0] as u64 | (b[1] as u64) << 32, b[2] as u64 | (b[3] as u64) << 32].map(|x| x as i64)),
            _ => out.extend(b.map(|x| x as i64)),
        }
    }
    out.truncate(n);
    (Tensor::new(dtype, dims, scalar::integer_bytes(dtype, out.into_iter())), blocks as u64)
}

/// `rng`: draws that depend on the seed, the device, the instruction and how many draws went before.
///
/// Uniform draws are from `[a, b)`; normal ones have mean `a` and deviation `b`.
pub(in super::super) fn rng(
    m: &mut Machine,
    (comp, index): Place,
    args: &[&Tensor],
    distribution: RngDistribution,
    result: &ArrayShape,
) -> Result<Tensor, Fault> {
    m.rng_state = m.rng_state.wrapping_add(1 << 32);
    let key = (comp.0 as u64) << 32 | index as u64;
    let (a, b) = (args[0].get(0), args[1].get(0));
    let dtype = result.dtype;
    let draw = |i: usize| {
        let x = philox(key, m.rng_state.wrapping_add((i as u128) << 96));
        let word = x[0] as u64 | (x[1] as u64) << 32;
        let unit = (word >> 11) as f64 / (1u64 << 53) as f64;
        match (a, b, distribution) {
            (Scalar::I(_), Scalar::I(_), _) if dtype == DType::Pred => Scalar::I((word & 1) as i64),
            (Scalar::I(a), Scalar::I(b), _) => {
                let span = (b as i128 - a as i128).max(1) as u128;
                Scalar::I((a as i128 + ((word as u128 * span) >> 64) as i128) as i64)
            }
            (_, _, RngDistribution::Uniform) => {
                // Rounding to a narrow type must not reach the upper bound.
                let (a, b) = (a.float(), b.float());
                let v = scalar::finish(dtype, a + (b - a) * unit);
                Scalar::F(if v < b { v } else { a })
            }
            (_, _, RngDistribution::Normal) => {
                let open = unit + 0.5 / (1u64 << 53) as f64;
                let z = std::f64::consts::SQRT_2 * special::erf_inv(2.0 * open - 1.0);
                Scalar::F(scalar::finish(dtype, a.float() + b.float() * z))
            }
        }
    };
    let dims = sizes(&result.dims);
    let n: usize = dims.iter().product();
    Ok(Tensor::new(dtype, &dims, scalar::scalar_bytes(dtype, (0..n).map(draw))))
}

/// `rng-get-and-update-state`: the state (low word first) before `delta` is added.
pub(in super::super) fn state(m: &mut Machine, delta: i64, result: &ArrayShape) -> Tensor {
    let old = m.rng_state;
    m.rng_state = old.wrapping_add(delta as i128 as u128);
    let mut bytes = old.to_le_bytes().to_vec();
    bytes.resize(sizes(&result.dims).iter().product::<usize>() * result.dtype.host_bytes(), 0);
    Tensor::new(result.dtype, &sizes(&result.dims), bytes)
}
