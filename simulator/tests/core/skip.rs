//! Loop skipping against the plain run: every count is the same.

use crate::build::*;
use systole_isa::{ChipConfig, DmaDesc, DmaDim, Inst, Op, Space};
use systole_simulator::{Mode, NoObserver, RunOptions, RunResult};

/// Runs both ways; the cycles that were skipped.
fn check(p: &Build, chip: &ChipConfig, what: &str) -> u64 {
    let run = |loop_skip, memo| {
        let options = RunOptions { loop_skip, memo, ..RunOptions::new(Mode::TimingOnly) };
        p.machine(chip).run(&options, &mut NoObserver).unwrap_or_else(|f| panic!("{what}: {f}"))
    };
    let (plain, skipping) = (run(false, false), run(true, true));
    check_sums(&skipping);
    assert_eq!(plain.skipped_cycles, 0);
    assert_eq!(plain, run(false, true), "{what}");
    for skipped in [&skipping, &run(true, false)] {
        assert_eq!(plain, RunResult { skipped_cycles: 0, ..skipped.clone() }, "{what}");
    }
    skipping.skipped_cycles
}

/// `body` in a loop of `trips`, counted in s31.
fn looped(p: &mut Build, trips: i32, body: &[Vec<Inst>]) {
    p.set(&[(31, trips)]);
    let top = p.bundles.len() as i32;
    for (n, b) in body.iter().enumerate() {
        let mut b = b.clone();
        if n + 1 == body.len() {
            b.push(i(Op::BLoop, &[31, top]));
        }
        p.b(&b);
    }
}

#[test]
fn a_plain_loop_is_skipped() {
    let mut p = Build::default();
    p.op("a");
    looped(
        &mut p,
        100_000,
        &[vec![i(Op::VAddF, &[1, 1, 2])], vec![i(Op::SAddI, &[1, 1, 4])], vec![i(Op::EExp, &[3, 1])]],
    );
    // The address register is right afterwards.
    p.one(Op::SEqI, &[2, 1, 400_000]);
    let at = p.bundles.len() as i32;
    p.one(Op::BNz, &[2, at + 2]);
    p.one(Op::BTrap, &[0]);
    p.halt();
    check(&p, &tiny(), "plain");
    // The walk by pieces does its rounds at once.
    let options = RunOptions { memo: false, ..RunOptions::new(Mode::TimingOnly) };
    let skipping = p.machine(&tiny()).run(&options, &mut NoObserver).expect("it has no fault");
    assert!(skipping.skipped_cycles > 300_000);
}

/// A double-buffered stream: the buffer toggles by exclusive or.
fn stream(trips: i32, toggle: Inst) -> Build {
    let mut p = Build::default();
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 1024));
    let dims = vec![DmaDim { count: 4, src_stride: 64, dst_stride: 256 }];
    let store = p.desc(DmaDesc { src: Space::Vmem, dst: Space::Hbm, chunk: 64, dims });
    // s1: source granule, s2: buffer row, s3: destination.
    p.set(&[(1, 0), (2, 0), (3, 1 << 16), (9, 1)]);
    p.op("stream");
    let compute = |r: i32| vec![i(Op::VLd, &[4, 0, 2048 + r * 4, 1]), i(Op::VMulF, &[5, 4, 4]), i(Op::ETanh, &[6, 5])];
    let mut body = vec![
        vec![i(Op::DmaStart, &[load, 1, 0, 2, 0, 0]), i(Op::SAddI, &[1, 1, 2])],
        vec![i(Op::DmaStart, &[store, 2, 0, 3, 0, 1]), i(Op::SAddI, &[3, 3, 2])],
    ];
    body.extend((0..6).map(compute));
    body.extend([
        vec![i(Op::DmaWait, &[0, 1024])],
        vec![i(Op::DmaWait, &[1, 256]), toggle],
        vec![i(Op::SAddI, &[4, 4, 1])],
    ]);
    looped(&mut p, trips, &body);
    p.halt();
    p
}

#[test]
fn streams_with_toggles_are_skipped() {
    for toggle in [i(Op::SXor, &[2, 2, 9]), i(Op::SAndI, &[2, 4, 1]), i(Op::SAddI, &[2, 2, 0])] {
        // Over two iterations neither the buffer nor the mask of the count moves.
        let skipped = check(&stream(5000, toggle), &tiny(), "stream");
        assert!(skipped > 100_000, "{toggle:?}: {skipped}");
    }
}

#[test]
fn transfers_under_way_go_on_behind_a_skipped_loop() {
    // One load is always ahead, so the loop is bound by HBM and leaves it busy: what follows waits for what the loop began.
    for bytes in [512, 1024] {
        let mut p = Build::default();
        let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 1024));
        let store = p.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, bytes));
        p.set(&[(1, 0), (2, 0), (9, 64), (3, 1 << 16)]);
        p.op("stream");
        let start = vec![i(Op::DmaStart, &[load, 1, 0, 2, 0, 0]), i(Op::SAddI, &[1, 1, 2])];
        p.b(&start);
        let toggle = vec![i(Op::DmaWait, &[0, 1024]), i(Op::SXor, &[2, 2, 9])];
        looped(&mut p, 5000, &[start, toggle, vec![i(Op::SAddI, &[4, 4, 1])]]);
        p.op("behind");
        p.one(Op::DmaStart, &[store, 2, 0, 3, 0, 1]);
        p.one(Op::DmaWait, &[1, bytes as i32]);
        p.one(Op::DmaWait, &[0, 1024]);
        p.halt();
        let skipped = check(&p, &tiny(), "under way");
        assert!(skipped > 100_000, "{bytes}: {skipped}");
    }
}

/// A matrix unit fed and drained, nested in an outer loop with a transfer.
fn nested(outer: i32, inner: i32, ahead: i32) -> Build {
    let mut p = Build::default();
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 512));
    p.set(&[(10, outer), (1, 0)]);
    let top = p.bundles.len() as i32;
    p.op("fill");
    p.b(&[i(Op::DmaStart, &[load, 1, 0, 0, 0, 0]), i(Op::SAddI, &[1, 1, 1])]);
    for _ in 0..2 {
        p.one(Op::MStage, &[0, 1, 0, 0]);
    }
    p.one(Op::MLatch, &[0]);
    for _ in 0..ahead {
        p.one(Op::MPush, &[0, 2, 0, 0]);
    }
    p.op("steady");
    p.set(&[(3, 0)]);
    let step = vec![i(Op::MPop, &[4, 0, 0]), i(Op::VSt, &[5, 3, 0, 1, 0])];
    let body = [step, vec![i(Op::MPush, &[0, 2, 0, 0]), i(Op::SAddI, &[3, 3, 4])], vec![i(Op::VAddF, &[5, 4, 4])]];
    looped(&mut p, inner, &body);
    p.op("(none)");
    for _ in 0..ahead {
        p.one(Op::MPop, &[4, 0, 0]);
    }
    p.b(&[i(Op::DmaWait, &[0, 512]), i(Op::BLoop, &[10, top])]);
    p.halt();
    p
}

#[test]
fn nested_loops_are_skipped() {
    for (outer, inner, ahead) in [(300, 40, 6), (40, 3000, 2), (2000, 5, 8), (50, 5000, 20)] {
        let skipped = check(&nested(outer, inner, ahead), &tiny(), "nested");
        assert!(skipped > 10_000, "{outer} {inner} {ahead}: {skipped}");
    }
}

#[test]
fn control_that_depends_on_the_iteration_is_not_skipped() {
    // A slow path once in 1000 iterations.
    let mut p = Build::default();
    p.set(&[(31, 20_000)]);
    let top = p.bundles.len() as i32;
    p.one(Op::SAddI, &[1, 1, 1]);
    p.one(Op::SEqI, &[2, 1, 1000]);
    p.one(Op::BZ, &[2, top + 5]);
    p.one(Op::SLi, &[1, 0]);
    p.one(Op::EExp, &[1, 1]);
    p.one(Op::BLoop, &[31, top]);
    p.halt();
    assert_eq!(check(&p, &tiny(), "slow path"), 0);
}

/// Random loops: whatever they do, both ways agree.
#[test]
fn random_loops_agree() {
    let mut drawn = Random(7);
    let mut random = |n| drawn.below(n);
    let mut skipped = 0;
    for case in 0..120 {
        let mut p = Build::default();
        let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 256 << random(4)));
        let bytes = p.program.descs[0].chunk as i32;
        let dma = random(2) == 0;
        p.op("x");
        let (outer, inner) = (20 + random(60) as i32, 30 + random(400) as i32);
        p.set(&[(10, outer)]);
        let top = p.bundles.len() as i32;
        if random(3) == 0 {
            p.one(Op::SAddI, &[9, 9, 3]);
            p.one(Op::SAndI, &[8, 9, 7]);
        }
        let mut body: Vec<Vec<Inst>> = Vec::new();
        for n in 0..1 + random(8) {
            let (v, w) = (1 + random(12) as i32, 1 + random(12) as i32);
            body.push(match random(10) {
                0 => vec![i(Op::VLd, &[v, 2, 0, 1]), i(Op::SAddI, &[2, 2, 4])],
                1 => vec![i(Op::VMulF, &[v, w, w]), i(Op::VAddF, &[v + 12, w, v])],
                2 => vec![i(Op::EExp, &[v, w])],
                3 => vec![i(Op::XRotLane, &[v, w, 1]), i(Op::VDivF, &[v + 12, w, w])],
                4 => vec![i(Op::XSumLane, &[v, w])],
                5 => vec![i(Op::MPush, &[0, v, 0, 0]), i(Op::SAddI, &[3, 3, 1])],
                6 => vec![i(Op::MStage, &[1, v, 0, 0]), i(Op::SXor, &[4, 4, 3])],
                7 => vec![i(Op::SAndI, &[5, 3, 3]), i(Op::VSt, &[v, 5, 100, 1, 0])],
                8 => vec![i(Op::VDivS, &[v, w, v + 12])],
                _ => vec![i(Op::SMul, &[6, 3, 2]), i(Op::MLatch, &[1])],
            });
            if body[n as usize][0].op == Op::MPush {
                body.push(vec![i(Op::MPop, &[w, 0, 0])]);
                break;
            }
        }
        if dma {
            body.insert(0, vec![i(Op::DmaStart, &[load, 7, 0, 0, 0, 0]), i(Op::SAddI, &[7, 7, 1])]);
            body.push(vec![i(Op::DmaWait, &[0, bytes])]);
        }
        looped(&mut p, inner, &body);
        p.op("y");
        p.b(&[i(Op::BLoop, &[10, top])]);
        p.halt();
        skipped += (check(&p, &tiny(), &format!("case {case}")) > 0) as u32;
    }
    assert!(skipped > 60, "{skipped}");
}

/// Streams that run ahead of their waits, behind other transfers, in rounds whose length is no multiple of a transfer's: what
/// transfers leave on engines and HBM hardly ever repeats.
#[test]
fn rounds_of_drifting_transfers_are_skipped() {
    let mut drawn = Random(11);
    let mut random = |n| drawn.below(n);
    let (mut skipped, cases) = (0, 150);
    for case in 0..cases {
        let mut p = Build::default();
        let bytes = 32 * (1 + random(40)) as u32;
        let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, bytes));
        let store = p.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, bytes / 2));
        let before = 1024 * (1 + random(64)) as u32;
        let backlog = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, before));
        let (ahead, stores) = (1 + random(4) as i32, random(3) == 0);
        p.set(&[(7, 64), (8, 1 << 14), (9, 2)]);
        p.op("x");
        p.one(Op::DmaStart, &[backlog, 0, 0, 0, 0, 2]);
        for _ in 0..ahead {
            p.one(Op::DmaStart, &[load, 7, 0, 0, 0, 0]);
            if stores {
                p.one(Op::DmaStart, &[store, 0, 0, 8, 0, 1]);
            }
        }
        let mut body: Vec<Vec<Inst>> = Vec::new();
        for _ in 0..8 + random(60) {
            let (v, w) = (1 + random(12) as i32, 1 + random(12) as i32);
            body.push(match random(4) {
                0 => vec![i(Op::VMulF, &[v, w, w]), i(Op::VAddF, &[v + 12, w, v])],
                1 => vec![i(Op::EExp, &[v, w])],
                2 => vec![i(Op::VDivF, &[v + 12, w, w])],
                _ => vec![i(Op::VLd, &[v, 2, 0, 1]), i(Op::SAddI, &[2, 2, 4])],
            });
        }
        let at = random(body.len() as u64) as usize;
        body.insert(at, vec![i(Op::DmaStart, &[load, 7, 0, 0, 0, 0]), i(Op::SAddI, &[7, 7, 3])]);
        let at = random(body.len() as u64) as usize;
        body.insert(at, vec![i(Op::DmaWait, &[0, bytes as i32])]);
        if stores {
            body.push(vec![i(Op::DmaStart, &[store, 0, 0, 8, 0, 1]), i(Op::SAddI, &[8, 8, 1])]);
            body.push(vec![i(Op::DmaWait, &[1, bytes as i32 / 2])]);
        }
        looped(&mut p, 150 + random(400) as i32, &body);
        p.op("y");
        for _ in 0..ahead {
            p.one(Op::DmaWait, &[0, bytes as i32]);
            if stores {
                p.one(Op::DmaWait, &[1, bytes as i32 / 2]);
            }
        }
        p.one(Op::DmaWait, &[2, before as i32]);
        p.halt();
        skipped += (check(&p, &tiny(), &format!("case {case}")) > 0) as u32;
    }
    assert!(skipped > 100, "{skipped} of {cases}");
}
