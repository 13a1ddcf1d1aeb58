//! Issue, latencies, branches, slots and attribution.

use crate::build::*;
use systole_isa::Op;
use systole_simulator::{Cause, Mode};

#[test]
fn independent_bundles_issue_every_cycle() {
    let mut p = Build::default();
    p.set(&[(1, 1), (2, 2), (3, 3)]);
    p.halt();
    assert_eq!(p.cycles(&tiny()), 4);
}

#[test]
fn a_source_waits_for_its_latency() {
    // valu latency 2: the second add issues at 2, the third at 4, halt at 5.
    let mut p = Build::default();
    p.one(Op::VAddF, &[1, 0, 0]);
    p.one(Op::VAddF, &[2, 1, 1]);
    p.one(Op::VAddF, &[3, 2, 2]);
    p.halt();
    assert_eq!(p.cycles(&tiny()), 6);
    let r = p.run(&tiny(), Mode::TimingOnly).expect("no fault");
    let valu = r.units.iter().find(|u| u.unit == "valu").expect("there is one");
    assert_eq!((valu.busy, valu.stall[Cause::Register as usize]), (3, 2));
    assert_eq!(r.waits[1], 1);
}

#[test]
fn a_register_is_not_redefined_before_it_is_written() {
    // A load (5) into v1, then a move (2) into v1: the move waits until cycle 5, halt at 6.
    let mut p = Build::default();
    p.one(Op::VLd, &[1, 0, 0, 1]);
    p.one(Op::VMov, &[1, 0]);
    p.halt();
    assert_eq!(p.cycles(&tiny()), 7);
}

#[test]
fn a_loop_costs_its_bundles_and_the_branch() {
    // li; then 10 times (add, loop): taken 9 times with the target one cycle later than otherwise; halt.
    let mut p = Build::default();
    p.set(&[(1, 10)]);
    let top = p.one(Op::SAddI, &[2, 2, 1]);
    p.one(Op::BLoop, &[1, top]);
    p.halt();
    assert_eq!(p.cycles(&tiny()), 1 + 20 + 9 + 1);
}

#[test]
fn a_long_operation_keeps_its_only_unit() {
    // eup interval 2: 0, 2, 4, halt at 5.
    let mut p = Build::default();
    for r in 1..4 {
        p.one(Op::EExp, &[r, 0]);
    }
    p.halt();
    assert_eq!(p.cycles(&tiny()), 6);
    let r = p.run(&tiny(), Mode::TimingOnly).expect("no fault");
    let eup = r.units.iter().find(|u| u.unit == "eup").expect("there is one");
    // The cycles between are busy, not stalled.
    assert_eq!((eup.busy, eup.stall[Cause::Slot as usize]), (6, 0));
}

#[test]
fn sines_cost_their_range_reduction() {
    // Two of one kind, then their result is read: an interval and a latency.
    let time = |op| cycles_of(&[(op, &[1, 0]), (op, &[2, 0]), (Op::VMov, &[3, 2])]);
    // Exp: 0, 2, read at 14, halt at 15. Sin: 0, 12, read at 62, halt at 63.
    assert_eq!(time(Op::EExp), 16);
    for op in [Op::ESin, Op::ECos] {
        assert_eq!(time(op), 64);
    }
}

#[test]
fn of_several_units_the_free_ones_take_work() {
    // Two cross-lane units, interval 2: cycles 0, 1, 2, 3, halt at 4.
    let mut p = Build::default();
    for r in 1..5 {
        p.one(Op::XRotLane, &[r, 0, 1]);
    }
    p.halt();
    assert_eq!(p.cycles(&tiny()), 5);
    // Two at once: 0, 2, halt at 3.
    let mut p = Build::default();
    p.b(&[i(Op::XRotLane, &[1, 0, 1]), i(Op::XRotLane, &[2, 0, 1])]);
    p.b(&[i(Op::XRotLane, &[3, 0, 1]), i(Op::XRotLane, &[4, 0, 1])]);
    p.halt();
    assert_eq!(p.cycles(&tiny()), 4);
}

#[test]
fn memory_ports_limit_loads() {
    let mut chip = tiny();
    chip.vmem.read_ports = 1;
    let mut p = Build::default();
    p.b(&[i(Op::VLd, &[1, 0, 0, 1]), i(Op::VLd, &[2, 0, 4, 1])]);
    p.halt();
    assert_eq!(p.cycles(&tiny()), 2);
    assert_eq!(p.cycles(&chip), 3);
}

#[test]
fn time_belongs_to_ops_and_shared_code_to_its_caller() {
    let mut p = Build::default();
    p.op("a");
    p.one(Op::BCall, &[6]);
    p.op("b");
    p.one(Op::SLi, &[1, 1]);
    p.one(Op::BCall, &[6]);
    p.one(Op::SLi, &[1, 1]);
    p.op("(none)");
    p.one(Op::SLi, &[1, 1]);
    p.halt();
    p.op("(caller)");
    p.one(Op::SLi, &[2, 1]);
    p.one(Op::BRet, &[]);
    // A taken branch costs two cycles: a: 0 call, 2, 3 ret; b: 5, 6 call, 8, 9 ret, 11; none: 12, 13. What an op waits
    // for before its first bundle is the op's.
    assert_eq!(p.cycles(&tiny()), 14);
    let r = p.run(&tiny(), Mode::Full).expect("no fault");
    let cycles = |op| r.ops.iter().find(|o| o.op == op).expect("ran").cycles;
    assert_eq!((cycles(Some(0)), cycles(Some(1)), cycles(None)), (4, 8, 10 + 2));
}

#[test]
fn code_beyond_instruction_memory_waits_for_hbm() {
    // A straight line of bundles of one instruction, twice as long as instruction memory.
    let mut chip = tiny();
    chip.imem.bytes = 64 << 10;
    let bytes = systole_isa::encode::bundle_bytes(1) as u64;
    let mut p = Build::default();
    let n = 2 * chip.imem.bytes / bytes;
    for _ in 1..n {
        p.one(Op::SAddI, &[1, 1, 1]);
    }
    p.halt();
    // The second half arrives at 16 bytes per cycle, first asked for two blocks (of 1 KiB) ahead, 50 cycles late: the
    // bundles are `bytes` each, so issue is slower than fetch where a bundle takes less than 16 bytes.
    let cycles = p.cycles(&chip);
    let fetch = (bytes * n / 2).div_ceil(16);
    let waits = fetch.saturating_sub(n / 2) + 50;
    assert!(cycles >= n && cycles <= n + waits + 64, "{cycles} {n} {waits}");
    assert_eq!(p.cycles(&tiny()), n);
    let mut loops = Build::default();
    loops.bundles.clone_from(&p.bundles);
    loops.bundles.pop();
    loops.one(Op::SLtI, &[2, 1, 10_000]);
    loops.one(Op::BNz, &[2, 0]);
    loops.halt();
    // Every round fetches again what the other half displaced.
    assert!(loops.cycles(&chip) > loops.cycles(&tiny()));
}

#[test]
fn what_is_called_later_does_not_displace_a_loop() {
    // 64 blocks of 1 KiB. A loop calls one subroutine; the code after it, in the same blocks, calls twice as many others as
    // instruction memory has blocks.
    let mut chip = tiny();
    chip.imem.bytes = 64 << 10;
    let block = (1024 / systole_isa::encode::bundle_bytes(1)) as i32;
    let (others, first) = (128, 8 * block);
    let waits = |rounds: i32| {
        let mut p = Build::default();
        p.one(Op::SLi, &[30, rounds]);
        p.one(Op::BCall, &[first]);
        p.one(Op::BLoop, &[30, 1]);
        for n in 1..=others {
            p.one(Op::BCall, &[first + n * block]);
        }
        p.halt();
        assert!(p.bundles.len() as i32 <= first);
        while (p.bundles.len() as i32) < first + (others + 1) * block {
            let last = p.bundles.len() as i32 % block == block - 1;
            let (op, operands): (_, &[i32]) = if last { (Op::BRet, &[]) } else { (Op::SAddI, &[1, 1, 1]) };
            p.one(op, operands);
        }
        p.cycles(&chip) - p.cycles(&tiny())
    };
    assert!(waits(10) > 0);
    assert_eq!(waits(10), waits(1000));
}

#[test]
fn a_bundle_needs_a_unit_for_each_instruction() {
    // Four vector ALUs, division keeps one for 6 cycles: a bundle of four waits until cycle 6, one of three does not.
    for (adds, halt) in [(3, 7), (2, 2)] {
        let mut p = Build::default();
        p.one(Op::VDivF, &[1, 0, 0]);
        let mut b = vec![i(Op::VDivF, &[2, 0, 0])];
        b.extend((0..adds).map(|n| i(Op::VAddF, &[3 + n, 0, 0])));
        p.b(&b);
        p.halt();
        assert_eq!(p.cycles(&tiny()), halt + 1, "{adds}");
    }
}
