//! Transfers, semaphores and races.

use crate::build::*;
use systole_isa::{DmaDesc, DmaDim, Op, Space};
use systole_simulator::{Cause, DmaSide, FaultKind, Mode, NoObserver, RunOptions};

/// Loads 512 bytes from HBM 0, adds it to itself, stores to HBM 512.
fn double() -> Build {
    let mut p = Build::default();
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 512));
    let store = p.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, 512));
    p.set(&[(1, 1)]);
    p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, 512]);
    for r in 0..4 {
        p.one(Op::VLd, &[1, 0, r * 4, 1]);
        p.one(Op::VAddF, &[2, 1, 1]);
        p.one(Op::VSt, &[2, 0, r * 4, 1, 0]);
    }
    p.one(Op::DmaStart, &[store, 0, 0, 1, 0, 1]);
    p.one(Op::DmaWait, &[1, 512]);
    p.halt();
    p
}

#[test]
fn data_goes_through() {
    for mode in [Mode::Full, Mode::NumericOnly] {
        for chaos in [None, Some(1), Some(2)] {
            let mut m = double().machine(&tiny());
            let x: Vec<f32> = (0..128).map(|i| i as f32).collect();
            m.write_hbm(0, &floats(&x)).expect("in range");
            let options = RunOptions { chaos, ..RunOptions::new(mode) };
            m.run(&options, &mut NoObserver).expect("no fault");
            let want: Vec<f32> = x.iter().map(|v| v * 2.0).collect();
            assert_eq!(read_floats(&m, 512, 128), want);
        }
    }
}

#[test]
fn a_transfer_takes_issue_bandwidth_and_latency() {
    // li at 0; start at 1; first request at 1 + 4; 512 bytes at 16 bytes per cycle; 50 cycles of latency: 87. The wait
    // issues then, and what follows two cycles (sync) later.
    let mut p = Build::default();
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 512));
    p.set(&[(1, 1)]);
    p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, 512]);
    p.halt();
    assert_eq!(p.cycles(&tiny()), 5 + 32 + 50 + 2 + 1);
    let r = p.run(&tiny(), Mode::TimingOnly).expect("no fault");
    assert_eq!((r.traffic.hbm_read, r.traffic.hbm_write), (512, 0));
    let issue = r.units.iter().find(|u| u.unit == "issue").expect("there is one");
    // The way has 4 + 50 cycles of latency and 32 of bandwidth.
    assert_eq!(issue.stall[Cause::Latency as usize], 85);
    assert_eq!((r.path.latency, r.path.bandwidth, r.path.engine), (54.0, 32.0, 0.0));
}

#[test]
fn stores_and_copies_within_hbm_cost_what_they_move() {
    // As the load above; a copy within HBM moves twice the bytes and has two latencies.
    for (from, to, moved, latency) in
        [(Space::Vmem, Space::Hbm, (0, 512), 50), (Space::Hbm, Space::Hbm, (512, 512), 100)]
    {
        let mut p = Build::default();
        let copy = p.desc(DmaDesc::contiguous(from, to, 512));
        p.set(&[(1, 1)]);
        p.one(Op::DmaStart, &[copy, 0, 0, 1, 0, 0]);
        p.one(Op::DmaWait, &[0, 512]);
        p.halt();
        let bandwidth = (moved.0 + moved.1) / 16;
        assert_eq!(p.cycles(&tiny()), 5 + bandwidth + latency + 2 + 1, "{from:?} to {to:?}");
        let r = p.run(&tiny(), Mode::TimingOnly).expect("no fault");
        assert_eq!((r.traffic.hbm_read, r.traffic.hbm_write), moved, "{from:?} to {to:?}");
        assert_eq!(r.hbm_cycles, bandwidth as f64);
    }
}

#[test]
fn common_memory_has_bandwidths_and_a_latency_of_its_own() {
    // Behind HBM's addresses: 512 bytes at 64 read and 32 written in a cycle, 10 cycles of latency for each side there.
    let mut chip = tiny();
    (chip.cmem.bytes, chip.cmem.latency_s) = (1 << 20, 10.0 / chip.clock_hz);
    (chip.cmem.read_bandwidth, chip.cmem.write_bandwidth) = (64.0 * chip.clock_hz, 32.0 * chip.clock_hz);
    chip.dma.bytes_per_cycle = 1024.0;
    let first = (chip.device_hbm_bytes() / 512) as i32;
    let time = |from: (Space, i32), to: (Space, i32), chip: &systole_isa::ChipConfig| {
        let mut p = Build::default();
        let copy = p.desc(DmaDesc::contiguous(from.0, to.0, 512));
        p.set(&[(1, from.1), (2, to.1)]);
        p.one(Op::DmaStart, &[copy, 1, 0, 2, 0, 0]);
        p.one(Op::DmaWait, &[0, 512]);
        p.halt();
        let r = p.run(chip, Mode::TimingOnly).expect("no fault");
        (p.cycles(chip), r)
    };
    let (vmem, near, far) = ((Space::Vmem, 0), (Space::Hbm, first), (Space::Hbm, 0));
    let (cycles, r) = time(near, vmem, &chip);
    assert_eq!(cycles, 6 + 8 + 10 + 2 + 1);
    assert_eq!(
        (r.traffic.hbm_read, r.traffic.cmem_read, r.traffic.cmem_write, r.path.cmem, r.path.latency),
        (0, 512, 0, 8.0, 14.0)
    );
    let (cycles, r) = time(vmem, near, &chip);
    assert_eq!(cycles, 6 + 16 + 10 + 2 + 1);
    assert_eq!((r.traffic.hbm_write, r.traffic.cmem_read, r.traffic.cmem_write, r.path.cmem), (0, 0, 512, 16.0));
    // Both memories at once: the slower one, and the latency of each.
    let (cycles, r) = time(far, near, &chip);
    assert_eq!(cycles, 6 + 32 + 50 + 10 + 2 + 1);
    assert_eq!((r.traffic.hbm_read, r.traffic.cmem_write, r.path.bandwidth, r.path.cmem), (512, 512, 32.0, 0.0));
    // The chip's memory ends behind it; without it, behind HBM.
    let end = (Space::Hbm, first + (1 << 20) / 512);
    for (at, chip) in [(end, &chip), (near, &tiny())] {
        let mut p = Build::default();
        let copy = p.desc(DmaDesc::contiguous(at.0, Space::Vmem, 512));
        p.set(&[(1, at.1)]);
        p.one(Op::DmaStart, &[copy, 1, 0, 0, 0, 0]);
        p.halt();
        let fault = p.run(chip, Mode::TimingOnly).expect_err("out of range");
        assert!(matches!(fault.kind, FaultKind::OutOfRange { .. }), "{fault:?}");
    }
}

/// Copies of `bytes`, two under way at a time: each waits for the one before the last.
fn double_buffered(bytes: i32, count: i32) -> Build {
    let mut p = Build::default();
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, bytes as u32));
    p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
    p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 1]);
    for k in 0..count {
        p.one(Op::DmaWait, &[k & 1, bytes]);
        if k + 2 < count {
            p.one(Op::DmaStart, &[load, 0, 0, 0, 0, k & 1]);
        }
    }
    p.halt();
    p
}

#[test]
fn steady_copies_wait_for_what_limits_them() {
    let named = |bytes: i32, latency: f64| {
        let mut chip = tiny();
        chip.hbm.latency_s = latency * 1e-9;
        let r = double_buffered(bytes, 64).run(&chip, Mode::TimingOnly).expect("no fault");
        let issue = r.units.iter().find(|u| u.unit == "issue").expect("there is one").stall;
        (issue[Cause::Hbm as usize], issue[Cause::Latency as usize], r)
    };
    // 8192 bytes are 512 cycles of HBM: while one copy waits out its latency, the other one keeps the memory busy.
    let (hbm, latency, r) = named(8192, 100.0);
    assert!(hbm > 8 * latency, "{hbm} cycles of bandwidth, {latency} of latency");
    assert!(r.path.bandwidth > 0.9 * r.cycles as f64, "{:?} of {}", r.path, r.cycles);
    // With a latency that two copies do not hide, it is what they wait for.
    let (hbm, latency, r) = named(1024, 1000.0);
    assert!(latency > 8 * hbm, "{hbm} cycles of bandwidth, {latency} of latency");
    assert!(r.path.latency > 0.9 * r.cycles as f64, "{:?} of {}", r.path, r.cycles);
    // The parts are those of one way: they never exceed the run.
    for bytes in [64, 512, 4096] {
        for latency in [1.0, 50.0, 300.0] {
            let r = named(bytes, latency).2;
            assert!(
                r.path.bandwidth + r.path.latency + r.path.engine <= r.cycles as f64,
                "{bytes} {latency}: {:?}",
                r.path
            );
        }
    }
}

#[test]
fn writes_take_bandwidth_as_reads_do() {
    let time = |src, dst, bytes: u32| {
        let mut p = Build::default();
        let copy = p.desc(DmaDesc::contiguous(src, dst, bytes));
        p.one(Op::DmaStart, &[copy, 0, 0, 0, 0, 0]);
        p.one(Op::DmaWait, &[0, bytes as i32]);
        p.halt();
        p.cycles(&tiny())
    };
    for (src, dst) in [(Space::Hbm, Space::Vmem), (Space::Vmem, Space::Hbm)] {
        // 16 bytes a cycle.
        assert_eq!(time(src, dst, 32768) - time(src, dst, 16384), 16384 / 16, "{src:?} to {dst:?}");
    }
}

#[test]
fn transfers_share_bandwidth() {
    // Two of 4096 bytes, started at 0 and 1: together 8192 / 16 = 512 cycles from cycle 4 on, then 50.
    let mut p = Build::default();
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 4096));
    p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
    p.b(&[i(Op::DmaStart, &[load, 0, 0, 0, 1, 1]), i(Op::SLi, &[1, 4096])]);
    p.one(Op::DmaWait, &[0, 4096]);
    p.one(Op::DmaWait, &[1, 4096]);
    p.halt();
    // The second destination begins at 4096, from s1 set the cycle before.
    p.bundles[0].insts.push(i(Op::SLi, &[1, 4096]));
    p.bundles[1].insts.pop();
    assert_eq!(p.cycles(&tiny()), 4 + 512 + 50 + 2 + 1);
    let r = p.run(&tiny(), Mode::TimingOnly).expect("no fault");
    let issue = r.units.iter().find(|u| u.unit == "issue").expect("there is one");
    assert!(issue.stall[Cause::Hbm as usize] > 500);
}

#[test]
fn small_pieces_cost_whole_bursts() {
    // 64 pieces of 8 bytes 100 bytes apart: some straddle a burst of 32.
    let mut p = Build::default();
    let dims = vec![DmaDim { count: 64, src_stride: 100, dst_stride: 8 }];
    let load = p.desc(DmaDesc { src: Space::Hbm, dst: Space::Vmem, chunk: 8, dims });
    p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, 512]);
    p.halt();
    let r = p.run(&tiny(), Mode::TimingOnly).expect("no fault");
    let bursts: u64 = (0..64).map(|i| (i * 100 + 7) / 32 - i * 100 / 32 + 1).sum();
    assert_eq!(r.traffic.hbm_read, bursts * 32);
}

#[test]
fn strided_copies_move_the_right_bytes() {
    // Transpose a 4 x 8 array of words by strides.
    let mut p = Build::default();
    let dims =
        vec![DmaDim { count: 4, src_stride: 32, dst_stride: 4 }, DmaDim { count: 8, src_stride: 4, dst_stride: 16 }];
    let d = p.desc(DmaDesc { src: Space::Hbm, dst: Space::Hbm, chunk: 4, dims });
    p.set(&[(1, 1)]);
    p.one(Op::DmaStart, &[d, 0, 0, 1, 0, 0]);
    p.one(Op::DmaWait, &[0, 128]);
    p.halt();
    let mut m = p.machine(&tiny());
    let x: Vec<f32> = (0..32).map(|i| i as f32).collect();
    m.write_hbm(0, &floats(&x)).expect("in range");
    m.run(&RunOptions::new(Mode::Full), &mut NoObserver).expect("no fault");
    let want: Vec<f32> = (0..32).map(|i| ((i % 4) * 8 + i / 4) as f32).collect();
    assert_eq!(read_floats(&m, 512, 32), want);
}

/// The fault of a program that starts two transfers and then does `then`.
fn race(then: &[systole_isa::Inst]) -> Option<FaultKind> {
    let mut p = Build::default();
    p.op("mul.7");
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 512));
    let store = p.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, 512));
    p.set(&[(1, 1), (2, 1024)]);
    p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
    p.one(Op::DmaStart, &[store, 0, 2, 1, 0, 1]);
    // Long enough for both to be over.
    p.set(&[(3, 1000)]);
    let at = p.bundles.len() as i32;
    p.one(Op::BLoop, &[3, at]);
    p.b(then);
    p.one(Op::DmaWait, &[0, 512]);
    p.one(Op::DmaWait, &[1, 512]);
    p.halt();
    let mut kinds = Vec::new();
    for mode in [Mode::Full, Mode::NumericOnly] {
        let fault = p.run(&tiny(), mode).err();
        if let Some(f) = &fault {
            assert_eq!((f.at.bundle, &*f.origin.op), (6, "mul.7"));
        }
        kinds.push(fault.map(|f| f.kind));
    }
    assert_eq!(kinds[0], kinds[1]);
    kinds.remove(0)
}

#[test]
fn touching_a_transfer_before_its_wait_is_a_race() {
    let is_race = |k: Option<FaultKind>, side: DmaSide| match k {
        Some(FaultKind::Race { dma_side, .. }) => assert_eq!(dma_side, side),
        other => panic!("{other:?}"),
    };
    // VMEM rows of 32 bytes: destination is rows 0..16, source rows 32..48.
    is_race(race(&[i(Op::VLd, &[1, 0, 12, 1])]), DmaSide::Destination);
    is_race(race(&[i(Op::VSt, &[1, 0, 15, 1, 0])]), DmaSide::Destination);
    is_race(race(&[i(Op::VSt, &[1, 0, 47, 1, 0])]), DmaSide::Source);
    is_race(race(&[i(Op::DmaStart, &[0, 0, 0, 0, 0, 5])]), DmaSide::Destination);
    assert_eq!(race(&[i(Op::VLd, &[1, 0, 32, 1])]), None);
    assert_eq!(race(&[i(Op::VLd, &[1, 0, 16, 1])]), None);
    assert_eq!(race(&[i(Op::VLd, &[1, 0, -4 + 20, 4])]), None);
}

#[test]
fn rows_that_a_mask_leaves_out_are_not_touched() {
    // Only sublane 1 is stored: row `first + 1`. The transfer fills rows 16..32.
    let store = |first: i32| {
        let mut p = Build::default();
        let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 512));
        p.one(Op::VSublane, &[1]);
        p.one(Op::VImm, &[2, 1]);
        p.one(Op::VEqI, &[1, 1, 2]);
        p.set(&[(1, 512)]);
        p.one(Op::DmaStart, &[load, 0, 0, 0, 1, 0]);
        p.one(Op::VSt, &[2, 0, first, 1, 1]);
        p.one(Op::DmaWait, &[0, 512]);
        p.halt();
        p.run(&tiny(), Mode::Full).err().map(|f| f.kind)
    };
    assert_eq!(store(-1), None);
    assert_eq!(store(14), None);
    assert_eq!(store(31), None);
    assert!(matches!(store(15), Some(FaultKind::Race { .. })));
    assert!(matches!(store(-2), Some(FaultKind::OutOfRange { .. })));
}

#[test]
fn one_semaphore_orders_two_transfers_only_together() {
    let program = |first_wait: i32| {
        let mut p = Build::default();
        let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 512));
        p.set(&[(1, 512)]);
        p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
        p.one(Op::DmaStart, &[load, 0, 0, 0, 1, 0]);
        p.one(Op::DmaWait, &[0, first_wait]);
        p.one(Op::VLd, &[1, 0, 0, 1]);
        if first_wait < 1024 {
            p.one(Op::DmaWait, &[0, 1024 - first_wait]);
        }
        p.halt();
        p.run(&tiny(), Mode::Full).err().map(|f| f.kind)
    };
    assert!(matches!(program(512), Some(FaultKind::Race { .. })));
    // More than the other could have delivered.
    assert_eq!(program(513), None);
    assert_eq!(program(1024), None);
}
