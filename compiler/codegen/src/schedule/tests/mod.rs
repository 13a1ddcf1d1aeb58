//! Tests of scheduling by execution: random units as written against their bundles.

mod machine;
mod quality;
mod random;

use super::{ScheduleOptions, Scheduled, check, schedule};
use crate::kernel::{KernelBuilder, M, MemFormat, StoreFormat, Unit, V};
use machine::{State, run_bundles, run_unit};
use systole_isa::{ChipConfig, Op};

fn chip() -> ChipConfig {
    ChipConfig::from_preset("tiny").expect("a preset")
}

/// Spills of tests go above everything that random units touch.
fn options() -> ScheduleOptions {
    ScheduleOptions::new(2600, 1010)
}

/// Schedules, checks, and compares the memory that both forms leave.
fn compare(unit: &Unit, chip: &ChipConfig, options: &ScheduleOptions, what: &str) -> Scheduled {
    let out = schedule(unit, chip, options).unwrap_or_else(|e| panic!("{what}: {e}"));
    if let Err(e) = check::check(&out.bundles, chip) {
        panic!("{what}: {e:?}");
    }
    let (mut a, mut b) = (State::new(1), State::new(1));
    run_unit(unit, &mut a);
    run_bundles(&out.bundles, &mut b);
    let show = || format!("{what}\n{unit}\n{}", super::print::listing(&out, chip, true));
    for row in 0..2600 {
        assert_eq!(a.vmem[row], b.vmem[row], "row {row} {}", show());
        assert_eq!(a.narrow[row], b.narrow[row], "narrow row {row} {}", show());
    }
    for word in 0..1010 {
        assert_eq!(a.smem[word], b.smem[word], "scalar word {word} {}", show());
    }
    out
}

/// Chips with other widths and register counts than the preset's.
fn chips() -> Vec<ChipConfig> {
    let mut few = chip();
    few.core.vector_registers = 14;
    few.core.scalar_registers = 14;
    few.core.mask_registers = 5;
    let mut narrow = chip();
    for slots in [
        &mut narrow.core.scalar_slots,
        &mut narrow.core.valu_slots,
        &mut narrow.core.vload_slots,
        &mut narrow.core.mxu_push_slots,
    ] {
        *slots = 1;
    }
    let mut slow = chip();
    for t in &mut slow.timing.0 {
        t.1.latency *= 3;
    }
    vec![chip(), few, narrow, slow]
}

/// `SEEDS=from..to` in the environment tests others than the few of a normal run.
fn seeds(few: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("SEEDS") else { return few };
    let (from, to) = text.split_once("..").expect("SEEDS is from..to");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn random_units_do_the_same_after_scheduling() {
    let chips = chips();
    for seed in seeds(0..60) {
        let chip = &chips[seed as usize % chips.len()];
        let unit = random::unit(seed, chip, 20 + seed as usize % 60);
        compare(&unit, chip, &options(), &format!("seed {seed}"));
    }
}

#[test]
fn chaos_and_plain_loops_change_nothing() {
    let chips = chips();
    for seed in seeds(1000..1040) {
        let chip = &chips[seed as usize % chips.len()];
        let unit = random::unit(seed, chip, 40);
        compare(&unit, chip, &ScheduleOptions { chaos: Some(seed), ..options() }, &format!("chaos, seed {seed}"));
        compare(&unit, chip, &ScheduleOptions { pipeline: false, ..options() }, &format!("plain, seed {seed}"));
    }
}

/// Rounds that each hold many rows at once and change them in place: what one round spills is dead in the next.
fn crowded(chip: &ChipConfig) -> Unit {
    let mut b = KernelBuilder::new("crowded", chip);
    let buffer = b.buffer();
    let base = b.s_var(0);
    let rows: Vec<i32> = (0..40).map(|i| i * chip.core.sublanes as i32).collect();
    for _ in 0..3 {
        let held: Vec<V> = rows.iter().map(|&row| b.load(MemFormat::W32, base, row, 1, buffer)).collect();
        let sum = held.iter().rev().copied().reduce(|sum, v| b.v(Op::VAddI, &[sum, v])).expect("there are rows");
        for (&row, &v) in rows.iter().zip(&held) {
            let v = b.v(Op::VXor, &[v, sum]);
            b.store(StoreFormat::W32, v, base, row, 1, M::ALL, buffer);
        }
    }
    Unit { kernels: vec![b.finish()] }
}

#[test]
fn spilled_registers_share_places_where_memory_is_short() {
    let few = chips().swap_remove(1);
    let unit = crowded(&few);
    let own = compare(&unit, &few, &options(), "places of their own").spill_rows;
    let sparing = ScheduleOptions { spill_rows: 0, ..options() };
    let shared = compare(&unit, &few, &sparing, "shared places").spill_rows;
    assert!(shared * 2 < own, "{shared} rows with shared places, {own} without");
    for seed in seeds(2000..2010) {
        let unit = random::unit(seed, &few, 60);
        compare(&unit, &few, &sparing, &format!("shared places, seed {seed}"));
    }
}

#[test]
fn the_checker_finds_what_is_wrong() {
    use systole_isa::{Bundle, Inst};
    let chip = chip();
    let i = Inst::new;
    let halt = || Bundle { insts: vec![i(Op::BHalt, &[])] };
    let b = |insts: &[Inst]| Bundle { insts: insts.to_vec() };
    let li = i(Op::SLi, &[1, 5]);
    for (bundles, expected) in [
        (vec![b(&[i(Op::SAddI, &[1, 2, 0])]), halt()], "s.addi reads s2, which may never have been written"),
        (vec![b(&[li, i(Op::SLi, &[1, 6])]), halt()], "s1 is written twice"),
        (vec![b(&[li, i(Op::SLi, &[2, 6]), i(Op::SLi, &[3, 6])]), halt()], "3 instructions in the Scalar slot"),
        (vec![b(&[i(Op::SLi, &[40, 5])]), halt()], "scalar register 40"),
        (vec![b(&[i(Op::PMake, &[1, 0, 0])]), halt()], "pair 1 is not even-aligned"),
        (vec![b(&[i(Op::BJmp, &[7])]), halt()], "bundle 7 does not exist"),
        (vec![b(&[li])], "control runs off the end"),
        (vec![b(&[i(Op::DmaWait, &[3, 8])]), halt()], "no DMA adds to semaphore 3"),
        (vec![b(&[i(Op::DmaStart, &[0, 0, 0, 0, 0, 3])]), halt()], "semaphore 3 is never waited for"),
        (vec![b(&[i(Op::MPop, &[0, 1, 0])]), halt()], "matrix unit 1: a result is popped before it is pushed"),
        (vec![b(&[i(Op::VImm, &[0, 1])]), b(&[i(Op::MPush, &[0, 0, 0, 0])]), halt()], "1 results are left"),
        // One path writes s1, the other does not.
        (
            vec![b(&[i(Op::BZ, &[0, 2])]), b(&[li]), b(&[i(Op::SAddI, &[2, 1, 0])]), halt()],
            "s.addi reads s1, which may never have been written",
        ),
        // A call leaves nothing in registers.
        (
            vec![b(&[li, i(Op::BCall, &[3])]), b(&[i(Op::SAddI, &[2, 1, 0])]), halt(), b(&[i(Op::BRet, &[])])],
            "s.addi reads s1, which may never have been written",
        ),
    ] {
        let errors = check::check(&bundles, &chip).expect_err(expected);
        assert!(errors.iter().any(|e| e.message.contains(expected)), "{expected}: {errors:?}");
    }
    let push = [i(Op::SLi, &[1, 3]), i(Op::VImm, &[0, 1])];
    let round = [i(Op::MPush, &[0, 0, 0, 0]), i(Op::BLoop, &[1, 1])];
    let pop = [i(Op::MPop, &[0, 0, 0]), i(Op::BLoop, &[1, 3])];
    let counted = vec![b(&push), b(&round), b(&[i(Op::SLi, &[1, 3])]), b(&pop), halt()];
    assert_eq!(check::check(&counted, &chip), Ok(()));
}
