//! Random numbers as integer arithmetic: ThreeFry 2x32 and Philox 4x32, bit for bit XLA's generators.

use crate::edit::{Emit, base_name};
use crate::make::{array, unsigned, whole};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, Node, NodeId, RngAlgorithm, RngDistribution, Shape, Unary};
use systole_isa::DType;

const U32: DType = DType::U32;
const U64: DType = DType::U64;

/// `rng-bit-generator`: (new state, bits).
pub fn bit_generator(b: &mut Emit, n: &Node, algorithm: RngAlgorithm, state: NodeId) -> Result<NodeId, CompileError> {
    let Shape::Tuple(parts) = &n.shape else {
        return Err(CompileError::unsupported(n.span, "rng-bit-generator gives a state and bits"));
    };
    let to = array(&parts[1]);
    let given = b.dtype(state);
    let words = if given == U64 { state } else { as_u64(b, state) };
    let count = b.dims(words)[0];
    let needed = if algorithm == RngAlgorithm::ThreeFry { 2 } else { 3 };
    let (new, bits) = match (algorithm, count) {
        (RngAlgorithm::ThreeFry, 2) => threefry(b, words, to.dtype, &to.dims),
        (RngAlgorithm::Philox | RngAlgorithm::Default, 2 | 3) => philox(b, words, to.dtype, &to.dims),
        _ => {
            let message = format!("a generator state of {count} 64-bit words; {needed} are accepted");
            return Err(CompileError::unsupported(n.span, message));
        }
    };
    let new = if given == U64 { new } else { from_u64(b, new, given) };
    Ok(b.tuple(&[new, bits]))
}

fn as_u64(b: &mut Emit, state: NodeId) -> NodeId {
    let n = b.elements(state) / 2;
    let pairs = b.reshape(state, &[n, 2]);
    let wide = b.convert(pairs, U64);
    let part = b.iota(U64, &[n, 2], 1);
    let shift = b.with(Binary::Mul, part, 32.0);
    let moved = b.binary(Binary::Shl, wide, shift);
    b.reduce(moved, Binary::Or, 0.0, &[1])
}

fn from_u64(b: &mut Emit, words: NodeId, to: DType) -> NodeId {
    let n = b.elements(words);
    let wide = b.broadcast(words, &[0], &[n, 2]);
    let part = b.iota(U64, &[n, 2], 1);
    let shift = b.with(Binary::Mul, part, 32.0);
    let moved = b.binary(Binary::Shr, wide, shift);
    let low = b.convert(moved, U32);
    let low = b.reshape(low, &[n * 2]);
    b.bitcast(low, to)
}

/// Word `i` of a state, as a scalar.
fn word(b: &mut Emit, state: NodeId, i: u64) -> NodeId {
    let one = b.slice_dim(state, 0, i, i + 1, 1);
    b.reshape(one, &[])
}

/// Low and high halves of 64-bit words.
fn halves(b: &mut Emit, x: NodeId) -> [NodeId; 2] {
    let low = b.convert(x, U32);
    let high = b.with(Binary::Shr, x, 32.0);
    [low, b.convert(high, U32)]
}

/// A 64-bit word from halves.
fn joined(b: &mut Emit, low: NodeId, high: NodeId) -> NodeId {
    let (low, high) = (b.convert(low, U64), b.convert(high, U64));
    let high = b.with(Binary::Shl, high, 32.0);
    b.or(low, high)
}

fn rotated(b: &mut Emit, x: NodeId, by: u32) -> NodeId {
    let left = b.with(Binary::Shl, x, f64::from(by));
    let right = b.with(Binary::Shr, x, f64::from(32 - by));
    b.or(left, right)
}

fn threefry2x32(b: &mut Emit, mut x: [NodeId; 2], key: [NodeId; 2]) -> [NodeId; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let parity = b.binary(Binary::Xor, key[0], key[1]);
    let parity = b.with(Binary::Xor, parity, f64::from(0x1BD1_1BDA_u32));
    let keys = [key[0], key[1], parity];
    x = [b.add(x[0], keys[0]), b.add(x[1], keys[1])];
    for group in 0..5 {
        for r in ROTATIONS[group % 2] {
            let sum = b.add(x[0], x[1]);
            let turned = rotated(b, x[1], r);
            x = [sum, b.binary(Binary::Xor, turned, sum)];
        }
        let second = b.with(Binary::Add, keys[(group + 2) % 3], group as f64 + 1.0);
        x = [b.add(x[0], keys[(group + 1) % 3]), b.add(x[1], second)];
    }
    x
}

/// The number of each element of an array of sizes `dims` among those of an array of sizes `among`: along dimension
/// `paired`, two neighbours have the same number.
fn numbers(b: &mut Emit, dims: &[u64], among: &[u64], paired: Option<usize>) -> NodeId {
    // Places of 32 bits wherever they suffice.
    let total: u64 = among.iter().product();
    let kind = if total.max(dims.iter().product()) <= u64::from(u32::MAX) { U32 } else { U64 };
    let mut sum = b.splat(kind, dims, 0.0);
    let mut stride = 1;
    for d in (0..dims.len()).rev() {
        let mut place = b.iota(kind, dims, d);
        if paired == Some(d) {
            place = b.with(Binary::Shr, place, 1.0);
        }
        if stride > 1 {
            place = b.with(Binary::Mul, place, stride as f64);
        }
        sum = b.add(sum, place);
        stride *= among[d];
    }
    b.convert(sum, U64)
}

/// Whether each element's place along a dimension is odd.
fn odd(b: &mut Emit, dims: &[u64], d: usize) -> NodeId {
    let place = b.iota(U32, dims, d);
    let low = b.with(Binary::And, place, 1.0);
    let one = b.splat(U32, dims, 1.0);
    b.compare(Direction::Eq, low, one)
}

/// Counters of an array of sizes `dims` from a scalar start, numbered as in [`numbers`], and the start after them.
fn counters(b: &mut Emit, start: NodeId, dims: &[u64], among: &[u64], paired: Option<usize>) -> ([NodeId; 2], NodeId) {
    let own = numbers(b, dims, among, paired);
    let start_all = b.broadcast(start, &[], dims);
    let own = b.add(own, start_all);
    let next = b.with(Binary::Add, start, among.iter().product::<u64>() as f64);
    (halves(b, own), next)
}

fn threefry(b: &mut Emit, state: NodeId, to: DType, dims: &[u64]) -> (NodeId, NodeId) {
    let (key, start) = (word(b, state, 0), word(b, state, 1));
    let keys = halves(b, key);
    let (bits, next) = if to.bits() == 64 {
        let (x, next) = counters(b, start, dims, dims, None);
        let [low, high] = threefry2x32(b, x, keys);
        (joined(b, low, high), next)
    } else {
        // Neighbours along an even dimension (else the longest) come from the two words of a block: every element makes
        // its block and takes its word, so that nothing moves.
        let even = dims.iter().position(|d| d % 2 == 0);
        let longest = (0..dims.len()).rev().max_by_key(|&d| dims[d]);
        match even.or(longest) {
            None => {
                let (x, next) = counters(b, start, &[1], &[1], None);
                let [first, _] = threefry2x32(b, x, keys);
                (b.reshape(first, &[]), next)
            }
            Some(d) => {
                let mut half = dims.to_vec();
                half[d] = half[d].div_ceil(2);
                let (x, next) = counters(b, start, dims, &half, Some(d));
                let [first, second] = threefry2x32(b, x, keys);
                let second_word = odd(b, dims, d);
                (b.select(second_word, second, first), next)
            }
        }
    };
    let new = {
        let (key, next) = (b.reshape(key, &[1]), b.reshape(next, &[1]));
        b.concatenate(&[key, next], 0)
    };
    (new, typed(b, bits, to))
}

/// Bits as the element type asked for: cut to its width, then reinterpreted.
fn typed(b: &mut Emit, bits: NodeId, to: DType) -> NodeId {
    let same = unsigned(to.bits());
    let cut = b.convert(bits, same);
    b.bitcast(cut, to)
}

fn high_low(b: &mut Emit, x: NodeId, factor: u32) -> [NodeId; 2] {
    let wide = b.convert(x, U64);
    let product = b.with(Binary::Mul, wide, f64::from(factor));
    let [low, high] = halves(b, product);
    [high, low]
}

fn philox4x32(b: &mut Emit, mut x: [NodeId; 4], mut key: [NodeId; 2]) -> [NodeId; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [
                b.with(Binary::Add, key[0], f64::from(0x9E37_79B9_u32)),
                b.with(Binary::Add, key[1], f64::from(0xBB67_AE85_u32)),
            ];
        }
        let [high0, low0] = high_low(b, x[0], 0xD251_1F53);
        let [high1, low1] = high_low(b, x[2], 0xCD9E_8D57);
        let first = b.binary(Binary::Xor, high1, x[1]);
        let third = b.binary(Binary::Xor, high0, x[3]);
        x = [b.binary(Binary::Xor, first, key[0]), low1, b.binary(Binary::Xor, third, key[1]), low0];
    }
    x
}

/// A 128-bit number plus a 64-bit one.
fn add128(b: &mut Emit, low: NodeId, high: NodeId, plus: NodeId) -> [NodeId; 2] {
    let sum = b.add(low, plus);
    let carry = b.compare(Direction::Lt, sum, low);
    let carry = b.convert(carry, U64);
    [sum, b.add(high, carry)]
}

fn philox(b: &mut Emit, state: NodeId, to: DType, dims: &[u64]) -> (NodeId, NodeId) {
    let count = b.dims(state)[0];
    let key = word(b, state, 0);
    let keys = halves(b, key);
    let low = word(b, state, 1);
    // Where the state has no upper half of the counter, the key stands in, as in XLA.
    let high = if count == 3 { word(b, state, 2) } else { key };
    let total: u64 = dims.iter().product();
    let double = to.bits() == 64;
    let blocks = if double { (total * 2).div_ceil(4) } else { total.div_ceil(4) };
    // Every element makes its block and takes its word, so that nothing moves.
    let own = numbers(b, dims, dims, None);
    let steps = b.with(Binary::Shr, own, if double { 1.0 } else { 2.0 });
    let (wide_low, wide_high) = (b.broadcast(low, &[], dims), b.broadcast(high, &[], dims));
    let [at_low, at_high] = add128(b, wide_low, wide_high, steps);
    let ([x0, x1], [x2, x3]) = (halves(b, at_low), halves(b, at_high));
    let out = philox4x32(b, [x0, x1, x2, x3], keys);
    let place = b.convert(own, U32);
    let bit = |b: &mut Emit, mask: f64| {
        let low = b.with(Binary::And, place, mask);
        let none = b.splat(U32, dims, 0.0);
        b.compare(Direction::Ne, low, none)
    };
    let second = bit(b, 1.0);
    let bits = if double {
        let (first, last) = (joined(b, out[0], out[1]), joined(b, out[2], out[3]));
        b.select(second, last, first)
    } else {
        let upper = bit(b, 2.0);
        let (low, high) = (b.select(second, out[1], out[0]), b.select(second, out[3], out[2]));
        b.select(upper, high, low)
    };
    let step = b.scalar(U64, blocks as f64);
    let [next_low, next_high] = add128(b, low, high, step);
    let mut parts = vec![key, next_low];
    if count == 3 {
        parts.push(next_high);
    }
    let parts: Vec<NodeId> = parts.into_iter().map(|p| b.reshape(p, &[1])).collect();
    let new = b.concatenate(&parts, 0);
    (new, typed(b, bits, to))
}

/// A number for each instruction, from its name: the same program draws the same numbers.
fn instruction_seed(n: &Node, seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    base_name(&n.name).bytes().fold(start, |h, c| (h ^ u64::from(c)).wrapping_mul(0x0100_0000_01b3))
}

/// `rng-get-and-update-state`: the program's seed and the instruction's own number.
pub fn state(b: &mut Emit, n: &Node, seed: u64) -> NodeId {
    let own = instruction_seed(n, seed);
    let to = array(&n.shape);
    let (low, high) = (b.bits(U64, own), b.bits(U64, seed));
    let parts: Vec<NodeId> = [low, high].into_iter().map(|w| b.reshape(w, &[1])).collect();
    let both = b.concatenate(&parts, 0);
    let both = b.slice(both, &whole(&[to.elements().min(2)]));
    b.reshape(both, &to.dims)
}

/// `rng`: uniform over `[a, b)` or normal of mean `a` and deviation `b`, by Philox from the program's seed.
pub fn rng(
    b: &mut Emit,
    n: &Node,
    distribution: RngDistribution,
    operands: &[NodeId],
    seed: u64,
) -> Result<NodeId, CompileError> {
    let to = array(&n.shape);
    let own = instruction_seed(n, seed);
    let words = [own, seed, 0].map(|w| {
        let w = b.bits(U64, w);
        b.reshape(w, &[1])
    });
    let state = b.concatenate(&words, 0);
    let dims = &to.dims;
    if distribution == RngDistribution::Uniform && !to.dtype.is_float() {
        return Ok(uniform_integer(b, state, operands, to.dtype, dims));
    }
    let wide = if to.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let (first, second) = (b.convert(operands[0], wide), b.convert(operands[1], wide));
    let (state, u) = unit(b, state, wide, dims);
    let out = match distribution {
        RngDistribution::Uniform => {
            let range = b.sub(second, first);
            let x = b.mul(u, range);
            let x = b.add(x, first);
            let inside = b.compare(Direction::Lt, x, second);
            b.select(inside, x, first)
        }
        RngDistribution::Normal => {
            let (_, v) = unit(b, state, wide, dims);
            let one = b.splat(wide, dims, 1.0);
            let open = b.sub(one, u);
            let log = b.unary(Unary::Log, open);
            let square = b.with(Binary::Mul, log, -2.0);
            let radius = b.unary(Unary::Sqrt, square);
            let angle = b.with(Binary::Mul, v, std::f64::consts::TAU);
            let cos = b.unary(Unary::Cos, angle);
            let x = b.mul(radius, cos);
            let x = b.mul(x, second);
            b.add(x, first)
        }
    };
    Ok(b.convert(out, to.dtype))
}

/// Numbers in `[0, 1)` with as many random bits as the mantissa holds.
fn unit(b: &mut Emit, state: NodeId, wide: DType, dims: &[u64]) -> (NodeId, NodeId) {
    let (source, cut, scale) = if wide == DType::F64 { (U64, 11.0, -53) } else { (U32, 8.0, -24) };
    let (state, bits) = philox(b, state, source, dims);
    let top = b.with(Binary::Shr, bits, cut);
    let x = b.convert(top, wide);
    (state, b.with(Binary::Mul, x, 2f64.powi(scale)))
}

/// Integers in `[a, b)`: the remainder of 64 random bits.
fn uniform_integer(b: &mut Emit, state: NodeId, operands: &[NodeId], to: DType, dims: &[u64]) -> NodeId {
    let (_, bits) = philox(b, state, U64, dims);
    if to == DType::Pred {
        let one = b.with(Binary::And, bits, 1.0);
        let zero = b.scalar(U64, 0.0);
        let any = b.compare(Direction::Ne, one, zero);
        let (low, high) = (operands[0], operands[1]);
        let spread = b.binary(Binary::Xor, low, high);
        let flip = b.and(any, spread);
        return b.binary(Binary::Xor, flip, low);
    }
    let low = b.convert(operands[0], DType::S64);
    let high = b.convert(operands[1], DType::S64);
    let range = b.sub(high, low);
    let range = b.bitcast(range, U64);
    let rest = b.binary(Binary::Rem, bits, range);
    let rest = b.bitcast(rest, DType::S64);
    let x = b.add(rest, low);
    b.convert(x, to)
}
