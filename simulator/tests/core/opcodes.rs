//! Every vector and scalar opcode against a scalar model.

use crate::build::*;
use systole_isa::float::{self, F8};
use systole_isa::opcodes::{CompareFn, ConvertFn, LaneFn, MaskFn, PairCompareFn, PairFn, ReduceFn, ScalarFn};
use systole_isa::table::Kind;
use systole_isa::{DmaDesc, Op, Space};
use systole_simulator::{Mode, NoObserver, RunOptions};

/// Runs `op` on registers v2, v4, v6 (pairs v2/v3, v4/v5, v6/v7) with the given lanes; the words of v8 and v9.
fn run(insts: &[systole_isa::Inst], inputs: &[Vec<u32>; 3]) -> (Vec<u32>, Vec<u32>) {
    let mut p = Build::default();
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 6 * 128));
    let store = p.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, 256));
    p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, 6 * 128]);
    for r in 0..6 {
        p.one(Op::VLd, &[2 + r, 0, r * 4, 1]);
    }
    for x in insts {
        p.bundles.push(systole_isa::Bundle { insts: vec![*x] });
    }
    p.one(Op::VSt, &[8, 0, 0, 1, 0]);
    p.one(Op::VSt, &[9, 0, 4, 1, 0]);
    p.set(&[(1, 100)]);
    p.one(Op::DmaStart, &[store, 0, 0, 1, 0, 0]);
    p.one(Op::DmaWait, &[0, 256]);
    p.halt();
    let mut m = p.machine(&tiny());
    for (i, v) in inputs.iter().enumerate() {
        let bytes: Vec<u8> = v.iter().flat_map(|x| x.to_le_bytes()).collect();
        m.write_hbm(i as u64 * 256, &bytes).expect("in range");
    }
    m.run(&RunOptions::new(Mode::Full), &mut NoObserver).expect("no fault");
    let mut out = vec![0; 256];
    m.read_hbm(100 * 512, &mut out).expect("in range");
    let words: Vec<u32> = out.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("four"))).collect();
    (words[..32].to_vec(), words[32..].to_vec())
}

/// Lanes that cover special values; the second register of each pair follows the first.
fn inputs() -> [Vec<u32>; 3] {
    let special = [
        0,
        0x8000_0000,
        1,
        0x8000_0001,
        0x3f80_0000,
        0xbf80_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x4f00_0000,
        0xcf00_0001,
        0x3fc0_0000,
        0x4020_0000,
        31,
        32,
        33,
        u32::MAX,
        0x7fff_ffff,
        0x0080_0000,
        0x4b00_0001,
        5,
        0x7f,
    ];
    let mut seed = 12345u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed
    };
    std::array::from_fn(|k| {
        (0..64)
            .map(|i| if i % 3 == 2 { random() } else { special[(i * (2 * k + 1) + 7 * k) % special.len()] })
            .collect()
    })
}

fn flush(x: u32) -> u32 {
    if f32::from_bits(x).is_subnormal() { x & 0x8000_0000 } else { x }
}

fn f(x: u32) -> f32 {
    f32::from_bits(flush(x))
}

fn r(x: f32) -> u32 {
    flush(x.to_bits())
}

/// The order of f32 values with -0 below +0; NaN first of all.
fn extremum(a: u32, b: u32, max: bool) -> u32 {
    let (x, y) = (f(a), f(b));
    if x.is_nan() || y.is_nan() {
        return 0x7fc0_0000;
    }
    let less = x < y || x == y && x.is_sign_negative() && !y.is_sign_negative();
    r(if less != max { x } else { y })
}

fn same(a: u32, b: u32, float: bool) -> bool {
    a == b || float && f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan()
}

type Model = fn(u32, u32, u32) -> u32;

/// Whether the result is an f32, and what it is: an opcode without a model does not compile.
fn lane_model(function: LaneFn) -> (bool, Model) {
    match function {
        LaneFn::VMov => (false, |a, _, _| a),
        LaneFn::VAddF => (true, |a, b, _| r(f(a) + f(b))),
        LaneFn::VSubF => (true, |a, b, _| r(f(a) - f(b))),
        LaneFn::VMulF => (true, |a, b, _| r(f(a) * f(b))),
        LaneFn::VFmaF => (true, |a, b, c| r((f(a) as f64).mul_add(f(b) as f64, f(c) as f64) as f32)),
        LaneFn::VDivF => (true, |a, b, _| r(f(a) / f(b))),
        LaneFn::VMinF => (true, |a, b, _| extremum(a, b, false)),
        LaneFn::VMaxF => (true, |a, b, _| extremum(a, b, true)),
        LaneFn::VFloorF => (true, |a, _, _| f(a).floor().to_bits()),
        LaneFn::VCeilF => (true, |a, _, _| f(a).ceil().to_bits()),
        LaneFn::VRneF => (true, |a, _, _| f(a).round_ties_even().to_bits()),
        LaneFn::VTruncF => (true, |a, _, _| f(a).trunc().to_bits()),
        LaneFn::VAddI => (false, |a, b, _| a.wrapping_add(b)),
        LaneFn::VSubI => (false, |a, b, _| a.wrapping_sub(b)),
        LaneFn::VMulI => (false, |a, b, _| a.wrapping_mul(b)),
        LaneFn::VMulHiS => (false, |a, b, _| ((a as i32 as i64 * b as i32 as i64) >> 32) as u32),
        LaneFn::VMulHiU => (false, |a, b, _| ((a as u64 * b as u64) >> 32) as u32),
        LaneFn::VDivS => (false, |a, b, _| if b == 0 { !0 } else { (a as i32).wrapping_div(b as i32) as u32 }),
        LaneFn::VDivU => (false, |a, b, _| a.checked_div(b).unwrap_or(!0)),
        LaneFn::VRemS => (false, |a, b, _| if b == 0 { a } else { (a as i32).wrapping_rem(b as i32) as u32 }),
        LaneFn::VRemU => (false, |a, b, _| if b == 0 { a } else { a % b }),
        LaneFn::VMinS => (false, |a, b, _| (a as i32).min(b as i32) as u32),
        LaneFn::VMaxS => (false, |a, b, _| (a as i32).max(b as i32) as u32),
        LaneFn::VMinU => (false, |a, b, _| a.min(b)),
        LaneFn::VMaxU => (false, |a, b, _| a.max(b)),
        LaneFn::VAnd => (false, |a, b, _| a & b),
        LaneFn::VOr => (false, |a, b, _| a | b),
        LaneFn::VXor => (false, |a, b, _| a ^ b),
        LaneFn::VShl => (false, |a, b, _| if b < 32 { a << b } else { 0 }),
        LaneFn::VShr => (false, |a, b, _| if b < 32 { a >> b } else { 0 }),
        LaneFn::VSar => (false, |a, b, _| ((a as i32) >> b.min(31)) as u32),
        LaneFn::VClz => (false, |a, _, _| a.leading_zeros()),
        LaneFn::VPopcnt => (false, |a, _, _| a.count_ones()),
    }
}

/// As [`lane_model`]; the second word is the number of the 8-bit float format.
fn convert_model(function: ConvertFn) -> (bool, Model) {
    match function {
        ConvertFn::VCvtF32S32 => (false, |a, _, _| f(a) as i32 as u32),
        ConvertFn::VCvtF32U32 => (false, |a, _, _| f(a) as u32),
        ConvertFn::VCvtS32F32 => (true, |a, _, _| (a as i32 as f32).to_bits()),
        ConvertFn::VCvtU32F32 => (true, |a, _, _| (a as f32).to_bits()),
        ConvertFn::VRndBf16 => (true, |a, _, _| half::bf16::from_f32(f(a)).to_f32().to_bits()),
        ConvertFn::VRndF16 => (true, |a, _, _| half::f16::from_f32(f32::from_bits(a)).to_f32().to_bits()),
        ConvertFn::VPackBf16 => (false, |a, _, _| u32::from(float::bf16_from_f32(f32::from_bits(a)))),
        ConvertFn::VPackF16 => (false, |a, _, _| u32::from(float::f16_from_f32(f32::from_bits(a)))),
        ConvertFn::VUnpackBf16 => (false, |a, _, _| a << 16),
        ConvertFn::VUnpackF16 => (true, |a, _, _| float::f16_to_f32(a as u16).to_bits()),
        ConvertFn::VPackF8 => (false, |a, n, _| u32::from(F8::ALL[n as usize].from_f32(f32::from_bits(a)))),
        ConvertFn::VUnpackF8 => (true, |a, n, _| F8::ALL[n as usize].to_f32(a as u8).to_bits()),
    }
}

#[test]
fn vector_arithmetic_follows_the_model() {
    let x = inputs();
    for &function in LaneFn::ALL {
        let (op, (float, model)) = (function.op(), lane_model(function));
        let (got, _) = run(&[i(op, &[8, 2, 4, 6][..op.info().operands.len()])], &x);
        for l in 0..32 {
            let (got, want) = (got[l], model(x[0][l], x[1][l], x[2][l]));
            // The f64 model of fma rounds twice: allow the last bit.
            let close = op == Op::VFmaF && got.abs_diff(want) <= 1;
            let operands = (x[0][l], x[1][l]);
            assert!(same(got, want, float) || close, "{op:?} lane {l}: {operands:x?} -> {got:#x}, want {want:#x}");
        }
    }
}

#[test]
fn conversions_follow_the_model() {
    let x = inputs();
    for &function in ConvertFn::ALL {
        let (op, (float, model)) = (function.op(), convert_model(function));
        let n = op.info().operands.len();
        let formats = if n == 3 { F8::ALL.len() } else { 1 };
        for format in 0..formats as u32 {
            let (got, _) = run(&[i(op, &[8, 2, format as i32][..n])], &x);
            for (&a, got) in x[0].iter().zip(got) {
                let want = model(a, format, 0);
                assert!(same(got, want, float), "{op:?} of {a:#x} in format {format}: {got:#x}, want {want:#x}");
            }
        }
    }
}

/// The mask of two lanes: an opcode without a model does not compile.
fn compare_model(function: CompareFn) -> fn(u32, u32) -> bool {
    match function {
        CompareFn::VEqF => |a, b| f(a) == f(b),
        CompareFn::VNeF => |a, b| f(a) != f(b),
        CompareFn::VLtF => |a, b| f(a) < f(b),
        CompareFn::VLeF => |a, b| f(a) <= f(b),
        CompareFn::VEqI => |a, b| a == b,
        CompareFn::VNeI => |a, b| a != b,
        CompareFn::VLtS => |a, b| (a as i32) < b as i32,
        CompareFn::VLeS => |a, b| a as i32 <= b as i32,
        CompareFn::VLtU => |a, b| a < b,
        CompareFn::VLeU => |a, b| a <= b,
    }
}

#[test]
fn comparisons_and_selection_follow_the_model() {
    let x = inputs();
    for &function in CompareFn::ALL {
        let (op, model) = (function.op(), compare_model(function));
        // m2 = not m1; v9 selects by m2.
        let insts =
            [i(op, &[1, 2, 4]), i(Op::MXor, &[2, 1, 0]), i(Op::VSel, &[8, 1, 2, 4]), i(Op::VSel, &[9, 2, 2, 4])];
        let (yes, no) = run(&insts, &x);
        for l in 0..32 {
            let (a, b) = (x[0][l], x[1][l]);
            assert_eq!((yes[l], no[l]), if model(a, b) { (a, b) } else { (b, a) }, "{op:?} {a:#x} {b:#x}");
        }
    }
}

/// What two masks make: an opcode without a model does not compile.
fn mask_model(function: MaskFn) -> fn(bool, bool) -> bool {
    match function {
        MaskFn::MAnd => |a, b| a && b,
        MaskFn::MOr => |a, b| a || b,
        MaskFn::MXor => |a, b| a != b,
    }
}

#[test]
fn masks_follow_the_model() {
    let x = inputs();
    for &function in MaskFn::ALL {
        let insts = [
            i(Op::VLtS, &[1, 2, 4]),
            i(Op::VLtU, &[2, 4, 6]),
            i(function.op(), &[3, 1, 2]),
            i(Op::VSel, &[8, 3, 2, 4]),
        ];
        let (got, _) = run(&insts, &x);
        for l in 0..32 {
            let (a, b, c) = (x[0][l], x[1][l], x[2][l]);
            let yes = mask_model(function)((a as i32) < b as i32, b < c);
            assert_eq!(got[l], if yes { a } else { b }, "{function:?} {a:#x} {b:#x} {c:#x}");
        }
    }
}

fn d(x: u64) -> f64 {
    let v = f64::from_bits(x);
    if v.is_subnormal() { 0f64.copysign(v) } else { v }
}

fn r64(v: f64) -> u64 {
    if v.is_subnormal() { 0f64.copysign(v).to_bits() } else { v.to_bits() }
}

type PairModel = fn(u64, u64, u64) -> u64;

/// Whether the result is an f64, and what it is: an opcode without a model does not compile.
fn pair_model(function: PairFn) -> (bool, PairModel) {
    match function {
        PairFn::PAddD => (true, |a, b, _| r64(d(a) + d(b))),
        PairFn::PSubD => (true, |a, b, _| r64(d(a) - d(b))),
        PairFn::PMulD => (true, |a, b, _| r64(d(a) * d(b))),
        PairFn::PFmaD => (true, |a, b, c| r64(d(a).mul_add(d(b), d(c)))),
        PairFn::PDivD => (true, |a, b, _| r64(d(a) / d(b))),
        PairFn::PSqrtD => (true, |a, _, _| r64(d(a).sqrt())),
        PairFn::PRneD => (true, |a, _, _| r64(d(a).round_ties_even())),
        PairFn::PCvtS64 => (true, |a, _, _| (a as i64 as f64).to_bits()),
        PairFn::PCvtU64 => (true, |a, _, _| (a as f64).to_bits()),
        PairFn::PCvtToS64 => (false, |a, _, _| d(a) as i64 as u64),
        PairFn::PCvtToU64 => (false, |a, _, _| d(a) as u64),
    }
}

/// The mask of two pairs: an opcode without a model does not compile.
fn pair_compare_model(function: PairCompareFn) -> fn(f64, f64) -> bool {
    match function {
        PairCompareFn::PEqD => |a, b| a == b,
        PairCompareFn::PLtD => |a, b| a < b,
        PairCompareFn::PLeD => |a, b| a <= b,
    }
}

#[test]
fn pairs_follow_the_model() {
    let mut x = inputs();
    for v in &mut x {
        // High words that make numbers of ordinary size in places.
        for l in (0..32).step_by(4) {
            v[32 + l] = 0x4040_0000 + l as u32 * 0x1234;
        }
    }
    let word = |v: &[u32], l: usize| (v[32 + l] as u64) << 32 | v[l] as u64;
    for &function in PairFn::ALL {
        let (op, (float, model)) = (function.op(), pair_model(function));
        let n = op.info().operands.len();
        let (lo, hi) = run(&[i(op, &[8, 2, 4, 6][..n])], &x);
        for l in 0..32 {
            let (got, want) =
                ((hi[l] as u64) << 32 | lo[l] as u64, model(word(&x[0], l), word(&x[1], l), word(&x[2], l)));
            let nan = float && f64::from_bits(got).is_nan() && f64::from_bits(want).is_nan();
            assert!(got == want || nan, "{op:?} lane {l}: {got:#x} {want:#x}");
        }
    }
    let (lo, hi) = run(&[i(Op::PMake, &[8, 2, 4])], &x);
    assert_eq!((&lo[..], &hi[..]), (&x[0][..32], &x[1][..32]));
    let (lo, hi) = run(&[i(Op::PLo, &[9, 4]), i(Op::PHi, &[8, 4])], &x);
    assert_eq!((&hi[..], &lo[..]), (&x[1][..32], &x[1][32..]));
    let (wide, _) = run(&[i(Op::PCvtF32, &[10, 2]), i(Op::PCvtToF32, &[8, 10])], &x);
    for l in 0..32 {
        assert!(same(wide[l], flush(x[0][l]), true));
    }
    for &function in PairCompareFn::ALL {
        let (op, test) = (function.op(), pair_compare_model(function));
        let (got, _) = run(&[i(op, &[1, 2, 4]), i(Op::VSel, &[8, 1, 2, 4])], &x);
        for l in 0..32 {
            let yes = test(d(word(&x[0], l)), d(word(&x[1], l)));
            assert_eq!(got[l], if yes { x[0][l] } else { x[1][l] }, "{op:?}");
        }
    }
}

/// What the eight lanes of a sublane make: an opcode without a model does not compile.
fn reduce_model(function: ReduceFn) -> fn(&[f32]) -> f32 {
    match function {
        ReduceFn::XSumLane => |row| {
            let pairs: Vec<f32> = (0..4).map(|l| row[l] + row[l + 4]).collect();
            (pairs[0] + pairs[2]) + (pairs[1] + pairs[3])
        },
        ReduceFn::XMaxLane => |row| row.iter().copied().fold(f32::MIN, f32::max),
        ReduceFn::XMinLane => |row| row.iter().copied().fold(f32::MAX, f32::min),
    }
}

#[test]
fn cross_lane_operations_follow_the_model() {
    let x = inputs();
    let (a, idx) = (&x[0], &x[1]);
    type Model<'a> = Box<dyn Fn(usize, usize) -> u32 + 'a>;
    let cases: Vec<(systole_isa::Inst, Model)> = vec![
        (i(Op::XRotLane, &[8, 2, 3]), Box::new(|s, l| a[s * 8 + (l + 5) % 8])),
        (i(Op::XRotLane, &[8, 2, -1]), Box::new(|s, l| a[s * 8 + (l + 1) % 8])),
        (i(Op::XRotSub, &[8, 2, 1]), Box::new(|s, l| a[(s + 3) % 4 * 8 + l])),
        (i(Op::XPermLane, &[8, 2, 4]), Box::new(|s, l| a[s * 8 + idx[s * 8 + l] as usize % 8])),
        (i(Op::XPermSub, &[8, 2, 4]), Box::new(|s, l| a[idx[s * 8 + l] as usize % 4 * 8 + l])),
    ];
    for (inst, model) in cases {
        let (got, _) = run(&[inst], &x);
        for (n, g) in got.iter().enumerate() {
            assert_eq!(*g, model(n / 8, n % 8), "{inst:?} {n}");
        }
    }
    let finite: [Vec<u32>; 3] =
        std::array::from_fn(|_| (0..64).map(|i| ((i * i) as f32 * 0.37 - 5.0).to_bits()).collect());
    for &function in ReduceFn::ALL {
        let (got, _) = run(&[i(function.op(), &[8, 2])], &finite);
        for (n, g) in got.iter().enumerate() {
            let row: Vec<f32> = finite[0][n / 8 * 8..][..8].iter().map(|&x| f(x)).collect();
            assert_eq!(f(*g), reduce_model(function)(&row), "{function:?} {n}");
        }
    }
    // Two registers in, the first and second register of the transpose out.
    let t = [i(Op::XTpush, &[0, 2]), i(Op::XTpush, &[0, 4]), i(Op::XTpop, &[8, 0]), i(Op::XTpop, &[9, 0])];
    let (first, second) = run(&t, &x);
    for n in 0..32 {
        let (column, row) = (n / 8, n % 8);
        let at = |c: usize| if row < 4 { x[0][row * 8 + c] } else { x[1][(row - 4) * 8 + c] };
        assert_eq!((first[n], second[n]), (at(column), at(column + 4)));
    }
}

#[test]
fn narrow_rows_load_and_store() {
    let x = inputs();
    let word = |row: usize, lane: usize| {
        let w = row * 8 + lane;
        x[w / 64][w % 64]
    };
    // Element rows 1, 4, 7, 10 of the three inputs in VMEM.
    let cases: &[(Op, usize, fn(u32) -> u32)] = &[
        (Op::VLdBf16, 2, |h| h << 16),
        (Op::VLdS16, 2, |h| h as i16 as u32),
        (Op::VLdU16, 2, |h| h & 0xffff),
        (Op::VLdS8, 4, |h| h as i8 as u32),
        (Op::VLdU8, 4, |h| h & 0xff),
        (Op::VLd, 1, |h| h),
    ];
    for &(op, packing, model) in cases {
        let (got, _) = run(&[i(op, &[8, 0, 1, 3])], &x);
        for (n, g) in got.iter().enumerate() {
            let row = 1 + 3 * (n / 8);
            assert_eq!(*g, model(word(row / packing, n % 8) >> (row % packing * (32 / packing))), "{op:?} {n}");
        }
    }
    // Store v2 as narrow rows from row 1 of a zeroed place where lane < sublane, load the words back.
    for (op, packing, narrow) in [
        (Op::VStBf16, 2usize, (|v| half::bf16::from_f32(f32::from_bits(v)).to_bits() as u32) as fn(u32) -> u32),
        (Op::VSt16, 2, |v| v & 0xffff),
        (Op::VSt8, 4, |v| v & 0xff),
        (Op::VSt, 1, |v| v),
    ] {
        let insts = [
            i(Op::VLane, &[10]),
            i(Op::VSublane, &[11]),
            i(Op::VLeS, &[3, 10, 11]),
            i(op, &[2, 0, (100 * packing) as i32 + 1, 1, 3]),
            i(Op::VLd, &[8, 0, 100, 1]),
            i(Op::VLd, &[9, 0, 104, 1]),
        ];
        let (low, high) = run(&insts, &x);
        let mut want = vec![0u32; 64];
        for s in 0..4 {
            for l in 0..=s {
                let row = 1 + s;
                want[row / packing * 8 + l] |= narrow(x[0][s * 8 + l]) << (row % packing * (32 / packing));
            }
        }
        assert_eq!([low, high].concat(), want, "{op:?}");
    }
}

/// What an opcode makes of up to three registers, or of registers and an immediate behind them: an opcode without a
/// model does not compile.
fn scalar_model(function: ScalarFn) -> fn(i32, i32, i32) -> i32 {
    match function {
        ScalarFn::SLi => |a, _, _| a,
        ScalarFn::SAdd | ScalarFn::SAddI => |a, b, _| a.wrapping_add(b),
        ScalarFn::SSub => |a, b, _| a.wrapping_sub(b),
        ScalarFn::SMul | ScalarFn::SMulI => |a, b, _| a.wrapping_mul(b),
        ScalarFn::SDiv => |a, b, _| if b == 0 { -1 } else { a.wrapping_div(b) },
        ScalarFn::SRem => |a, b, _| if b == 0 { a } else { a.wrapping_rem(b) },
        ScalarFn::SDivU => |a, b, _| if b == 0 { -1 } else { (a as u32 / b as u32) as i32 },
        ScalarFn::SRemU => |a, b, _| if b == 0 { a } else { (a as u32 % b as u32) as i32 },
        ScalarFn::SAnd | ScalarFn::SAndI => |a, b, _| a & b,
        ScalarFn::SOr => |a, b, _| a | b,
        ScalarFn::SXor => |a, b, _| a ^ b,
        ScalarFn::SShl | ScalarFn::SShlI => |a, b, _| if (0..32).contains(&b) { a << b } else { 0 },
        ScalarFn::SShr | ScalarFn::SShrI => |a, b, _| if (0..32).contains(&b) { (a as u32 >> b) as i32 } else { 0 },
        ScalarFn::SSar | ScalarFn::SSarI => |a, b, _| a >> if (0..32).contains(&b) { b } else { 31 },
        ScalarFn::SMin => |a, b, _| a.min(b),
        ScalarFn::SMax => |a, b, _| a.max(b),
        ScalarFn::SEq | ScalarFn::SEqI => |a, b, _| (a == b) as i32,
        ScalarFn::SLt | ScalarFn::SLtI => |a, b, _| (a < b) as i32,
        ScalarFn::SLtU => |a, b, _| ((a as u32) < b as u32) as i32,
        ScalarFn::SSel => |a, b, c| if a != 0 { b } else { c },
    }
}

#[test]
fn scalars_follow_the_model() {
    let values =
        [(0, 0, 1), (7, -3, 2), (-7, 3, 9), (i32::MIN, -1, 4), (1, 31, 5), (-1, 32, 6), (5, 5, 7), (3, -40, 8)];
    for &function in ScalarFn::ALL {
        let (op, model) = (function.op(), scalar_model(function));
        let sources = &op.info().operands[1..];
        for (a, b, c) in values {
            let mut values = [a, b, c];
            let mut operands = vec![4];
            for ((register, value), source) in (1..).zip(&mut values).zip(sources) {
                if source.kind == Kind::U8 {
                    // How far a shift goes.
                    *value &= 31;
                }
                operands.push(if source.kind == Kind::Su { register } else { *value });
            }
            let mut p = Build::default();
            p.set(&[(1, a), (2, b), (3, c)]);
            p.one(op, &operands);
            p.one(Op::SEqI, &[5, 4, model(values[0], values[1], values[2])]);
            let at = p.bundles.len() as i32;
            p.one(Op::BNz, &[5, at + 2]);
            p.one(Op::BTrap, &[0]);
            p.halt();
            assert!(p.run(&tiny(), Mode::TimingOnly).is_ok(), "{op:?} {values:?}");
        }
    }
}

#[test]
fn a_bundle_reads_before_it_writes() {
    // Swap scalars and vectors, and take a loop's count from before.
    let mut p = Build::default();
    p.set(&[(1, 3), (2, 9)]);
    p.b(&[i(Op::SAddI, &[1, 2, 0]), i(Op::SAddI, &[2, 1, 0])]);
    p.b(&[i(Op::SEqI, &[3, 1, 9]), i(Op::SEqI, &[4, 2, 3])]);
    p.one(Op::SAnd, &[5, 3, 4]);
    p.one(Op::BNz, &[5, 7]);
    p.one(Op::BTrap, &[0]);
    p.halt();
    assert!(p.run(&tiny(), Mode::Full).is_ok());
    let x = inputs();
    let mut program = Build::default();
    let _ = &mut program;
    let (low, high) = run(&[i(Op::VMov, &[8, 2]), i(Op::VMov, &[9, 4])], &x);
    assert_eq!((&low[..], &high[..]), (&x[0][..32], &x[1][..32]));
}
