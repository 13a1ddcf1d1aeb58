//! Matrix units: products, queues, accumulators and their timing.

use crate::build::*;
use systole_isa::{ChipConfig, DmaDesc, MxuFormat, Op, Space};
use systole_simulator::{Mode, NoObserver, RunOptions};

/// Multiplies `a` (rows x k) by `w` (k x cols) of an array wider than the lanes or not, through VMEM.
fn product(chip: &ChipConfig, a: &[f32], w: &[f32], rows: usize, format: MxuFormat, transposed: bool) -> Vec<f32> {
    let (k, n) = (chip.mxu.rows as usize, chip.mxu.cols as usize);
    let (lanes, sub) = (chip.core.lanes as usize, chip.core.sublanes as usize);
    // In VMEM: planes of `lanes` columns, one after the other.
    let planes = |x: &[f32], rows: usize, cols: usize| -> Vec<f32> {
        let mut v = Vec::new();
        for c in 0..cols / lanes {
            for r in 0..rows {
                v.extend_from_slice(&x[r * cols + c * lanes..r * cols + (c + 1) * lanes]);
            }
        }
        v
    };
    let w_vmem = if transposed {
        let t: Vec<f32> = (0..n * k).map(|i| w[i % k * n + i / k]).collect();
        planes(&t, n, k)
    } else {
        planes(w, k, n)
    };
    let a_vmem = planes(a, rows, k);
    let mut data = w_vmem.clone();
    data.extend(&a_vmem);
    let mut p = Build::default();
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, data.len() as u32 * 4));
    let store = p.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, (rows * n * 4) as u32));
    p.set(&[(1, 1 << 10)]);
    p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, data.len() as i32 * 4]);
    let (stage, stage_rows, stage_chunks) =
        if transposed { (Op::MStageT, n, k / lanes) } else { (Op::MStage, k, n / lanes) };
    let f = format as i32;
    for c in 0..stage_chunks {
        for r in (0..stage_rows).step_by(sub) {
            p.one(Op::VLd, &[1, 0, (c * stage_rows + r) as i32, 1]);
            p.one(stage, &[0, 1, c as i32, f]);
        }
    }
    p.one(Op::MLatch, &[0]);
    let base = w.len() / lanes;
    for r in (0..rows).step_by(sub) {
        for c in 0..k / lanes {
            p.one(Op::VLd, &[1, 0, (base + c * rows + r) as i32, 1]);
            p.one(Op::MPush, &[0, 1, c as i32, f]);
        }
    }
    let out = 4096;
    for r in (0..rows).step_by(sub) {
        for c in 0..n / lanes {
            p.one(Op::MPop, &[1, 0, c as i32]);
            p.one(Op::VSt, &[1, 0, (out + r * n / lanes + c * sub) as i32, 1, 0]);
        }
    }
    p.set(&[(2, (out * lanes * 4) as i32)]);
    p.one(Op::DmaStart, &[store, 0, 2, 1, 0, 0]);
    p.one(Op::DmaWait, &[0, (rows * n * 4) as i32]);
    p.halt();
    let mut results = Vec::new();
    for (mode, threads) in [(Mode::Full, 1), (Mode::NumericOnly, 2)] {
        let mut m = p.machine(chip);
        m.write_hbm(0, &floats(&data)).expect("in range");
        let options = RunOptions { threads, ..RunOptions::new(mode) };
        m.run(&options, &mut NoObserver).expect("no fault");
        // Results come in blocks of `sub` rows, plane by plane.
        let raw = read_floats(&m, 1 << 19, rows * n);
        let mut v = vec![0.0; rows * n];
        for (i, x) in raw.iter().enumerate() {
            let (block, rest) = (i / (sub * n), i % (sub * n));
            let (c, rest) = (rest / (sub * lanes), rest % (sub * lanes));
            v[(block * sub + rest / lanes) * n + c * lanes + rest % lanes] = *x;
        }
        results.push(v);
    }
    let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    assert_eq!(bits(&results[0]), bits(&results[1]));
    results.remove(0)
}

/// Values that bf16 holds exactly, not symmetric.
fn sample(n: usize, salt: u32) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(salt) >> 24) as f32 / 16.0 - 7.0).collect()
}

fn wide() -> ChipConfig {
    let mut chip = tiny();
    (chip.mxu.rows, chip.mxu.cols) = (16, 24);
    chip
}

#[test]
fn products_sum_in_ascending_order() {
    for chip in [tiny(), wide()] {
        let (k, n, rows) = (chip.mxu.rows as usize, chip.mxu.cols as usize, 12);
        let (a, w) = (sample(rows * k, 1), sample(k * n, 99));
        let mut want = vec![0.0f32; rows * n];
        for (i, o) in want.iter_mut().enumerate() {
            for j in 0..k {
                *o += a[i / n * k + j] * w[j * n + i % n];
            }
        }
        for transposed in [false, true] {
            assert_eq!(product(&chip, &a, &w, rows, MxuFormat::Bf16, transposed), want, "{transposed}");
        }
    }
}

#[test]
fn big_arrays_sum_in_ascending_order_too() {
    let mut chip = ChipConfig::from_preset("tpu-v5e").expect("the preset exists");
    chip.vmem.bytes = 4 << 20;
    let (k, n, rows) = (128, 128, 32);
    let spread =
        |v: Vec<f32>| v.iter().enumerate().map(|(i, x)| x * 2f32.powi(i as i32 % 23 - 11)).collect::<Vec<f32>>();
    let (a, w) = (spread(sample(rows * k, 5)), spread(sample(k * n, 7)));
    let round = |x: f32| half::bf16::from_f32(x).to_f32();
    let mut want = vec![0.0f32; rows * n];
    for (i, o) in want.iter_mut().enumerate() {
        for j in 0..k {
            *o += round(a[i / n * k + j]) * round(w[j * n + i % n]);
        }
    }
    assert_eq!(product(&chip, &a, &w, rows, MxuFormat::Bf16, false), want);
}

#[test]
fn integer_formats_accumulate_in_s32() {
    let chip = tiny_with_integers();
    let ints = |v: Vec<f32>| v.iter().map(|x| f32::from_bits((x * 16.0) as i32 as u32)).collect::<Vec<f32>>();
    let (a, w) = (ints(sample(8 * 4, 3)), ints(sample(64, 4)));
    let got = product(&chip, &a, &w, 4, MxuFormat::S8, false);
    for (i, x) in got.iter().enumerate() {
        let sum: i32 =
            (0..8).map(|j| (a[i / 8 * 8 + j].to_bits() as i8 as i32) * (w[j * 8 + i % 8].to_bits() as i8 as i32)).sum();
        assert_eq!(x.to_bits() as i32, sum);
    }
}

#[test]
fn a_push_goes_through_queue_array_and_fifo() {
    // Push issues at 0 and enters at 1; four rows take four cycles, the last enters at 4; its result is there at
    // 4 + 8 + 8 + 4 = 24. The pop issues then, halt at 25.
    assert_eq!(cycles_of(&[(Op::MPush, &[0, 1, 0, 0]), (Op::MPop, &[2, 0, 0])]), 26);
}

#[test]
fn pushes_wait_for_room_in_the_queue() {
    // The queue holds 4 pushes. They enter at 1, 5, 9, ...; push n issues no earlier than push n - 4 enters:
    // 0 1 2 3 4(1) 5(5) 9 13 17 21; halt at 22.
    let push: (Op, &[i32]) = (Op::MPush, &[0, 1, 0, 0]);
    assert_eq!(cycles_of(&[push; 10]), 23);
}

#[test]
fn a_latch_waits_for_weights_and_rows() {
    // Stages issue at 0 and 1 (4 rows each at one row a cycle): complete at 1 + 8 = 9. The latch follows; the push
    // enters at 9, last row at 12, result at 32. Halt at 33.
    let stage: (Op, &[i32]) = (Op::MStage, &[0, 1, 0, 0]);
    let rest: [(Op, &[i32]); 3] = [(Op::MLatch, &[0]), (Op::MPush, &[0, 1, 0, 0]), (Op::MPop, &[2, 0, 0])];
    assert_eq!(cycles_of(&[&[stage; 2][..], &rest].concat()), 34);
}

#[test]
fn accumulators_add_and_drain() {
    let mut chip = tiny();
    chip.mxu.accumulator_rows = 16;
    let mut p = Build::default();
    // Weights: identity times 2, from lane and sublane numbers.
    p.one(Op::VLane, &[1]);
    p.one(Op::VSublane, &[2]);
    p.one(Op::VImm, &[3, 4]);
    p.one(Op::VAddI, &[4, 2, 3]);
    p.one(Op::VImm, &[5, 2f32.to_bits() as i32]);
    p.one(Op::VImm, &[6, 0]);
    p.one(Op::VEqI, &[1, 1, 2]);
    p.one(Op::VEqI, &[2, 1, 4]);
    p.one(Op::VSel, &[7, 1, 5, 6]);
    p.one(Op::VSel, &[8, 2, 5, 6]);
    p.one(Op::MStage, &[0, 7, 0, 0]);
    p.one(Op::MStage, &[0, 8, 0, 0]);
    p.one(Op::MLatch, &[0]);
    p.set(&[(1, 4)]);
    p.one(Op::VCvtS32F32, &[9, 1]);
    p.one(Op::MPushSet, &[0, 9, 0, 0, 1]);
    p.one(Op::MPushAdd, &[0, 9, 0, 0, 1]);
    p.one(Op::MPushAdd, &[0, 5, 0, 0, 1]);
    p.one(Op::MDrain, &[10, 0, 0, 1]);
    p.one(Op::VSt, &[10, 0, 0, 1, 0]);
    let store = p.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, 128));
    p.one(Op::DmaStart, &[store, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, 128]);
    p.halt();
    p.cycles(&chip);
    let mut m = p.machine(&chip);
    m.run(&RunOptions::new(Mode::Full), &mut NoObserver).expect("no fault");
    let want: Vec<f32> = (0..32).map(|i| (i % 8) as f32 * 4.0 + 4.0).collect();
    assert_eq!(read_floats(&m, 0, 32), want);
}
