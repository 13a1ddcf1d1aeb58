//! Every operation and element type against plain Rust arithmetic on single elements; what has no arithmetic of its own here, against
//! the evaluator.

mod complexes;
mod conversions;
mod floats;
mod integers;
mod machine;
mod random;

use machine::Machine;
use systole_codegen::emit::{Value, memory};
use systole_codegen::kernel::{KernelBuilder, M, MemFormat, StoreFormat};
use systole_isa::{ChipConfig, DType};

/// Elements of one type as their host bits.
pub(crate) struct Elements {
    pub dtype: DType,
    pub bits: Vec<u128>,
}

/// Runs what `build` emits on one element in each lane; also gives the number of instructions besides constants.
pub(crate) fn eval_counted(
    noise: bool,
    inputs: &[Elements],
    build: impl Fn(&mut KernelBuilder, &[Value]) -> Value,
) -> (Elements, usize) {
    let mut chip = ChipConfig::from_preset("tiny").expect("a preset");
    chip.core.lanes = inputs[0].bits.len() as u32;
    let mut b = KernelBuilder::new("test", &chip);
    let mut machine = Machine::new(inputs[0].bits.len());
    machine.noise = noise;
    let (base, buf) = (b.param(), b.buffer());
    let (mut values, mut row) = (Vec::new(), 0);
    for x in inputs {
        let mut words = Vec::new();
        for c in 0..x.dtype.components() {
            machine.set_memory(row, x.bits.iter().map(|&e| loaded(x.dtype, (e >> (32 * c)) as u32)).collect());
            words.push(b.load(MemFormat::W32, base, row as i32, 1, buf));
            row += 1;
        }
        values.push(memory::from_memory(&mut b, x.dtype, &words));
    }
    let r = build(&mut b, &values);
    let words = memory::to_memory(&mut b, &r);
    for (c, w) in words.iter().enumerate() {
        b.store(StoreFormat::W32, *w, base, (row + c) as i32, 1, M::ALL, buf);
    }
    machine.run(&b.finish());
    let stored = |w: u32| match r.dtype {
        DType::BF16 => w as u128 >> 16,
        t => (w & (u32::MAX >> (32 - t.bits().min(32)))) as u128,
    };
    let lanes = 0..machine.lanes;
    let bits = lanes.map(|l| (0..words.len()).map(|c| stored(machine.memory(row + c)[l]) << (32 * c)).sum()).collect();
    (Elements { dtype: r.dtype, bits }, machine.count)
}

pub(crate) fn eval(inputs: &[Elements], build: impl Fn(&mut KernelBuilder, &[Value]) -> Value) -> Elements {
    eval_counted(false, inputs, build).0
}

/// What the load unit makes of an element's bits.
fn loaded(dtype: DType, w: u32) -> u32 {
    match dtype {
        DType::BF16 => w << 16,
        DType::S8 => w as u8 as i8 as i32 as u32,
        DType::S16 => w as u16 as i16 as i32 as u32,
        _ => w,
    }
}

/// A small generator of test numbers (xorshift).
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Between -1 and 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The elements of a real float type as f64.
pub(crate) fn as_f64(x: &Elements) -> Vec<f64> {
    x.bits
        .iter()
        .map(|&e| match x.dtype {
            DType::F32 => f32::from_bits(e as u32) as f64,
            DType::F64 => f64::from_bits(e as u64),
            DType::BF16 => half::bf16::from_bits(e as u16).to_f64(),
            DType::F16 => half::f16::from_bits(e as u16).to_f64(),
            t => panic!("{t} is not a plain float"),
        })
        .collect()
}

/// Numbers as a float type's elements, rounded to it.
pub(crate) fn floats(dtype: DType, x: &[f64]) -> Elements {
    let bits = x
        .iter()
        .map(|&x| match dtype {
            DType::F32 => (x as f32).to_bits() as u128,
            DType::F64 => x.to_bits() as u128,
            DType::BF16 => half::bf16::from_f64(x).to_bits() as u128,
            DType::F16 => half::f16::from_f64(x).to_bits() as u128,
            t => panic!("{t} is not a plain float"),
        })
        .collect();
    Elements { dtype, bits }
}

/// Collects what differs, and fails at the end with all of it.
#[derive(Default)]
pub(crate) struct Failures(Vec<String>);

impl Drop for Failures {
    fn drop(&mut self) {
        if !self.0.is_empty() && !std::thread::panicking() {
            panic!("{} differences:\n{}", self.0.len(), self.0[..self.0.len().min(60)].join("\n"));
        }
    }
}

/// Whether `got` is `want` within a relative error, or both are at most `tiny`; signs of zero count.
pub(crate) fn is_close(got: f64, want: f64, rel: f64, tiny: f64) -> bool {
    if want.is_nan() {
        got.is_nan()
    } else if want == 0.0 && got == 0.0 {
        got.is_sign_negative() == want.is_sign_negative()
    } else {
        got == want || (got - want).abs() <= rel * want.abs() || (got.abs() <= tiny && want.abs() <= tiny)
    }
}

impl Failures {
    /// Notes a difference unless `got` is close to `want`.
    pub fn check(&mut self, what: &str, args: &str, got: f64, want: f64, rel: f64, tiny: f64) {
        if !is_close(got, want, rel, tiny) && self.0.iter().filter(|f| f.starts_with(what)).count() < 3 {
            let error = ((got - want) / want).abs();
            self.0.push(format!("{what}({args}) = {got:e}, not {want:e}; error {error:e}"));
        }
    }
}
