//! Several cores of one device: what they share, where they wait for each other.

use crate::build::*;
use systole_isa::{ChipConfig, DmaDesc, Op, Space};
use systole_simulator::{FaultKind, Mode, NoObserver, RunOptions};

fn twins() -> ChipConfig {
    let mut chip = tiny();
    chip.apply_set("cores=2").expect("in range");
    chip.apply_set("cores_per_device=2").expect("in range");
    chip
}

/// Core 0 copies granules 0.. to 100.., core 1 copies those to 200..; with or without a barrier in between.
fn handed_over(barrier: bool) -> Build {
    let mut p = Build::default();
    let d = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Hbm, 2048));
    p.set(&[(1, 100), (2, 200)]);
    p.one(Op::SCore, &[3]);
    let at = p.bundles.len() as i32;
    p.one(Op::BNz, &[3, at + 3]);
    p.one(Op::DmaStart, &[d, 0, 0, 1, 0, 0]);
    p.one(Op::DmaWait, &[0, 2048]);
    if barrier {
        p.one(Op::SyncCores, &[2]);
    }
    let at = p.bundles.len() as i32;
    p.one(Op::BZ, &[3, at + 3]);
    p.one(Op::DmaStart, &[d, 1, 0, 2, 0, 0]);
    p.one(Op::DmaWait, &[0, 2048]);
    p.halt();
    p
}

#[test]
fn a_barrier_hands_hbm_over() {
    let p = handed_over(true);
    let values: Vec<f32> = (0..512).map(|i| i as f32).collect();
    for mode in [Mode::Full, Mode::NumericOnly] {
        let mut m = p.machine(&twins());
        m.write_hbm(0, &floats(&values)).expect("in range");
        let r = m.run(&RunOptions::new(mode), &mut NoObserver).expect("no fault");
        assert_eq!(read_floats(&m, 200 * 512, 512), values, "{mode:?}");
        if mode == Mode::Full {
            check_sums(&r);
            assert!(r.units.iter().filter(|u| u.core == 1 && u.unit == "dma").all(|u| u.busy > 0));
            assert_eq!(r.dma_transfers, 2);
            // Each core reads and writes as much.
            assert_eq!((r.traffic.hbm_read, r.traffic.hbm_write), (2 * 2048, 2 * 2048));
        }
    }
    p.cycles(&twins());
    // On a chip of one core a device there is nobody to wait for, and core 0's copy is all.
    assert_eq!(p.run(&tiny(), Mode::Full).expect("no fault").dma_transfers, 1);
}

#[test]
fn cores_must_not_touch_what_another_writes() {
    let fault = handed_over(false).run(&twins(), Mode::Full).expect_err("a race");
    assert!(matches!(fault.kind, FaultKind::CoreRace { core: 1, .. }), "{fault}");
    assert!(fault.to_string().contains("no barrier in between"), "{fault}");
}

#[test]
fn waiting_for_a_core_that_has_ended_is_a_deadlock() {
    let mut p = Build::default();
    p.one(Op::SCore, &[1]);
    p.one(Op::BNz, &[1, 3]);
    p.one(Op::SyncCores, &[1]);
    p.halt();
    let fault = p.run(&twins(), Mode::Full).expect_err("a deadlock");
    assert_eq!(fault.on.core, 0);
    assert!(matches!(&fault.kind, FaultKind::Deadlock { waits_for } if waits_for.contains("core 1 has ended")));
    assert!(fault.at.inst.contains("sync.cores"), "{fault}");
}

/// Both cores stream through HBM in a loop, each with one part in `share` of it.
fn streams(share: i32) -> Build {
    let mut p = Build::default();
    let d = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 64 << 10));
    p.one(Op::SyncCores, &[share]);
    p.set(&[(1, 5000)]);
    let head = p.one(Op::DmaStart, &[d, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, 64 << 10]);
    p.one(Op::BLoop, &[1, head]);
    p.one(Op::SyncCores, &[1]);
    p.halt();
    p
}

#[test]
fn bandwidth_is_divided_and_loops_are_skipped_exactly() {
    let chip = twins();
    let run = |p: &Build, loop_skip: bool| {
        let options = RunOptions { loop_skip, ..RunOptions::new(Mode::TimingOnly) };
        p.machine(&chip).run(&options, &mut NoObserver).expect("no fault")
    };
    let (one, half) = (run(&streams(1), true), run(&streams(2), true));
    assert!(half.skipped_cycles > 0);
    let bytes = 5000.0 * 65536.0 / chip.hbm_bytes_per_cycle();
    let more = half.cycles as f64 - one.cycles as f64;
    assert!((more / bytes - 1.0).abs() < 0.1, "{} {} {bytes}", one.cycles, half.cycles);
    let walked = run(&streams(2), false);
    assert_eq!((walked.cycles, walked.units, walked.ops), (half.cycles, half.units, half.ops));
}
