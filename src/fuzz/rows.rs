//! The table of operations: a row for each opcode, with the function that makes one.

use super::program::{ELEMENTS, Facts, Gen, Instr, Source};
use super::{calls, elementwise, movement, numeric};
use systole_compiler::eval::Tensor;
use systole_compiler::eval::scalar::Scalar;
use systole_compiler::graph::{Binary, Unary};
use systole_isa::DType;
use systole_runtime::Array;

/// Makes an instruction of the opcode on values that there are (or new parameters); `None` where none fits.
pub type Make = fn(&mut Gen, &str) -> Option<usize>;

/// One opcode.
#[derive(Clone, Copy)]
pub struct Row {
    pub opcode: &'static str,
    pub make: Make,
    /// Whether it is control flow or a reduction.
    pub structured: bool,
}

const fn row(opcode: &'static str, make: Make) -> Row {
    Row { opcode, make, structured: false }
}

const fn structured(opcode: &'static str, make: Make) -> Row {
    Row { opcode, make, structured: true }
}

/// All opcodes of programs for one device without host queues: the tables of elementwise operations, and [`OTHERS`].
pub fn rows() -> Vec<Row> {
    let unary = Unary::ALL.iter().map(|u| row(u.name(), elementwise::unary));
    let binary = Binary::ALL.iter().map(|b| row(b.name(), elementwise::binary));
    unary.chain(binary).chain(OTHERS.iter().copied()).collect()
}

#[rustfmt::skip]
const OTHERS: &[Row] = &[
    row("compare", elementwise::compare), row("select", elementwise::select), row("clamp", elementwise::clamp),
    row("convert", elementwise::convert), row("bitcast-convert", elementwise::bitcast),
    row("reduce-precision", elementwise::reduce_precision), row("map", calls::map), row("iota", movement::iota),
    row("constant", movement::constant), row("parameter", |g, _| Some(any_parameter(g))),
    row("broadcast", movement::broadcast), row("reshape", movement::reshape), row("transpose", movement::transpose),
    row("reverse", movement::reverse), row("slice", movement::slice), row("concatenate", movement::concatenate),
    row("pad", movement::pad), row("dynamic-slice", movement::dynamic_slice),
    row("dynamic-update-slice", movement::dynamic_update_slice), row("gather", movement::gather),
    row("scatter", movement::scatter), row("copy", movement::copy), row("opt-barrier", movement::copy),
    row("get-dimension-size", movement::dimension_size),
    row("dot", numeric::dot), row("convolution", numeric::convolution), row("sort", numeric::sort),
    row("topk", numeric::topk), row("fft", numeric::fft), row("cholesky", numeric::cholesky),
    row("triangular-solve", numeric::triangular_solve), row("rng-bit-generator", numeric::random_bits),
    row("batch-norm-inference", numeric::batch_norm), row("batch-norm-training", numeric::batch_norm),
    row("batch-norm-grad", numeric::batch_norm),
    structured("reduce", numeric::reduce), structured("reduce-window", numeric::reduce_window),
    structured("select-and-scatter", numeric::select_and_scatter),
    structured("while", calls::while_loop), structured("conditional", calls::conditional), row("call", calls::call),
    row("tuple", calls::call), row("get-tuple-element", calls::call),
];

/// Element types of new parameters, the common ones more often.
const TYPES: &[DType] = &[
    DType::F32,
    DType::F32,
    DType::F32,
    DType::S32,
    DType::S32,
    DType::BF16,
    DType::BF16,
    DType::F16,
    DType::F64,
    DType::S64,
    DType::U64,
    DType::U32,
    DType::S8,
    DType::U8,
    DType::S16,
    DType::U16,
    DType::Pred,
    DType::C64,
    DType::C128,
    DType::S4,
    DType::U4,
    DType::F8E5M2,
    DType::F8E4M3FN,
    DType::F4E2M1FN,
];

const SIZES: &[u64] = &[1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 24, 32, 33];

/// Sizes of a new array, not too many elements.
pub fn any_dims(g: &mut Gen) -> Vec<u64> {
    if g.random.once_in(12) {
        return vec![g.random.pick(&[100u64, 127, 128, 129, 200, 257, 300])];
    }
    if g.random.once_in(14) {
        // Few elements along lanes and many beside them.
        let narrow = g.random.pick(&[1u64, 1, 2, 3, 4, 6]);
        let mut dims = vec![g.random.pick(&[64u64, 300, 1000, 1024]), narrow];
        if g.random.once_in(2) {
            dims.insert(0, g.random.pick(&[1u64, 2, 3, 5]));
        }
        if dims.iter().product::<u64>() <= ELEMENTS {
            return dims;
        }
    }
    if g.random.once_in(8) {
        // Several registers and parts of them either way.
        let mut dims =
            vec![g.random.pick(&[5u64, 8, 13, 16, 31, 40]), g.random.pick(&[64u64, 100, 128, 130, 200, 256, 300])];
        if g.random.once_in(2) {
            dims.insert(0, g.random.pick(&[2u64, 3, 5]));
        }
        if dims.iter().product::<u64>() <= ELEMENTS {
            return dims;
        }
    }
    if g.random.once_in(60) {
        // So many rows of one element that they lie joined.
        return vec![g.random.pick(&[2176u64, 2304, 3000, 4096]), 1];
    }
    loop {
        let rank = g.random.below(5);
        let dims: Vec<u64> = (0..rank).map(|_| g.random.pick(SIZES)).collect();
        if dims.iter().product::<u64>() <= 1200 {
            return dims;
        }
    }
}

/// A new parameter of any type and sizes.
pub fn any_parameter(g: &mut Gen) -> usize {
    let t = g.random.pick(TYPES);
    let dims = any_dims(g);
    g.parameter(t, &dims)
}

/// Bytes of an element.
pub fn encoded(t: DType, s: Scalar) -> Vec<u8> {
    Tensor::scalar(t, s).bytes().to_vec()
}

impl Gen {
    /// A new parameter with random elements.
    pub fn parameter(&mut self, t: DType, dims: &[u64]) -> usize {
        let exact = !self.random.once_in(3);
        let whole = t.is_byte_float();
        let elements: u64 = dims.iter().product();
        let number = |g: &mut Gen| match (exact, whole) {
            (true, true) => g.random.range(-4, 4) as f64,
            (true, false) => g.random.range(-16, 16) as f64 / 4.0,
            (false, _) => (g.random.range(-2000, 2000) as f64 / 1000.0) * 1.00013,
        };
        let small = self.random.once_in(2);
        let mut bytes = Vec::new();
        for _ in 0..elements {
            let s = if t.is_complex() {
                Scalar::C(number(self), number(self))
            } else if t.is_float() {
                Scalar::F(number(self))
            } else if t == DType::Pred {
                Scalar::I(self.random.below(2) as i64)
            } else {
                let bits = t.bits();
                let v = if small { self.random.range(-20, 20) } else { self.random.next() as i64 };
                let v = if bits < 64 { v << (64 - bits) } else { v };
                let signed = t.class() == systole_isa::dtype::DTypeClass::Signed;
                let shift = 64 - bits.min(64);
                Scalar::I(if signed { v >> shift } else { ((v as u64) >> shift) as i64 })
            };
            bytes.extend(encoded(t, s));
        }
        let step = match (exact, whole) {
            (false, _) => 0.0,
            (true, true) => 1.0,
            (true, false) => 0.25,
        };
        let facts = Facts { bound: if t.is_complex() { 5.7 } else { 4.0 }, step, error: 0.0 };
        let layout: Option<Vec<usize>> =
            (dims.len() >= 2 && self.random.once_in(4)).then(|| self.permutation(dims.len()));
        self.program.instrs.push(Instr {
            shapes: vec![(t, dims.to_vec())],
            tuple: false,
            opcode: "parameter".into(),
            attributes: String::new(),
            source: Source::Input(Array::new(t, dims, bytes), layout),
            facts,
        });
        self.program.instrs.len() - 1
    }

    /// A random order of `n` dimensions.
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            let j = self.random.below(i as u64 + 1) as usize;
            all.swap(i, j);
        }
        all
    }
}
