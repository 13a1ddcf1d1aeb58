//! Tests of scheduling by execution: random units as written against their bundles.

mod machine;
mod mutants;
mod mutate;
mod quality;
mod random;

use machine::{State, run_bundles, run_unit};
use systole_codegen::kernel::{KernelBuilder, M, MemFormat, S, StoreFormat, Unit, V};
use systole_codegen::schedule::{Done, ScheduleOptions, Scheduled, print, schedule, schedule_known};
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
    if let Err(e) = out.verify(unit, chip) {
        panic!("{what}: {e:?}\n{unit}\n{}", print::listing(&out, chip, true));
    }
    let (mut a, mut b) = (State::new(1), State::new(1));
    run_unit(unit, &mut a);
    run_bundles(&out.bundles, &mut b);
    let show = || format!("{what}\n{unit}\n{}", print::listing(&out, chip, true));
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
    // Loops of arithmetic alone, and of loads that nothing uses, before others; the rest are any.
    for seed in seeds(0..60).chain([696, 1246]) {
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

#[test]
fn arguments_without_registers_come_through_memory() {
    for (seed, registers) in seeds(3000..3030).map(|s| (s, [5, 6, 7, 8][s as usize % 4])) {
        let mut chip = chip();
        chip.core.scalar_registers = registers;
        chip.smem.bytes = 4 * 1024;
        let mut unit = random::unit(seed, &chip, 30);
        let (mut before, mut after) = (State::new(1), State::new(1));
        run_unit(&unit, &mut before);
        let words = unit.pass_in_memory(&chip);
        assert!(words >= 8 - registers && words <= 16, "{words} words with {registers} registers");
        run_unit(&unit, &mut after);
        assert_eq!(before.vmem, after.vmem, "seed {seed}");
        chip.core.scalar_registers = registers.max(8);
        compare(&unit, &chip, &options(), &format!("seed {seed}, {registers} registers"));
    }
}

/// Loops in loops.
fn nested(chip: &ChipConfig, depth: u32) -> Unit {
    fn within(b: &mut KernelBuilder, depth: u32, twice: S, f: &mut dyn FnMut(&mut KernelBuilder)) {
        match depth {
            0 => f(b),
            _ => b.loop_dynamic(twice, |b| within(b, depth - 1, twice, f)),
        }
    }
    let mut b = KernelBuilder::new("nested", chip);
    let (buffer, base, twice) = (b.buffer(), b.s_var(0), b.s_var(2));
    within(&mut b, depth, twice, &mut |b| {
        let [sum, more] = [0, 8].map(|row| b.load(MemFormat::W32, base, row, 1, buffer));
        let sum = b.v(Op::VAddI, &[sum, more]);
        b.store(StoreFormat::W32, sum, base, 0, 1, M::ALL, buffer);
    });
    Unit { kernels: vec![b.finish()] }
}

#[test]
fn counters_of_loops_in_loops_need_no_registers() {
    let mut chip = chip();
    for registers in [8, 10, 32] {
        chip.core.scalar_registers = registers;
        compare(&nested(&chip, 9), &chip, &options(), &format!("{registers} registers"));
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

/// Rounds that each hold rows over a call.
fn calling(chip: &ChipConfig) -> Unit {
    let mut b = KernelBuilder::new("calling", chip);
    b.save_around_calls();
    let (buffer, base) = (b.buffer(), b.s_var(0));
    let rows: Vec<i32> = (0..4).map(|i| i * chip.core.sublanes as i32).collect();
    for _ in 0..2 {
        let held: Vec<V> = rows.iter().map(|&row| b.load(MemFormat::W32, base, row, 1, buffer)).collect();
        b.call(1, &[]);
        for (&row, v) in rows.iter().zip(held) {
            let v = b.v(Op::VAddI, &[v, v]);
            b.store(StoreFormat::W32, v, base, row, 1, M::ALL, buffer);
        }
    }
    let mut c = KernelBuilder::new("called", chip);
    let (buffer, base) = (c.buffer(), c.s_var(0));
    let v = c.load(MemFormat::W32, base, 400, 1, buffer);
    c.store(StoreFormat::W32, v, base, 500, 1, M::ALL, buffer);
    Unit { kernels: vec![b.finish(), c.finish()] }
}

#[test]
fn registers_saved_around_a_call_share_no_places() {
    // At the first call those of the second are saved too, which nobody has written: this is not run.
    let (chip, options) = (chip(), ScheduleOptions { spill_rows: 0, ..options() });
    let unit = calling(&chip);
    let out = schedule(&unit, &chip, &options).expect("there are registers enough");
    out.verify(&unit, &chip).expect("every value comes back");
}

#[test]
fn spilled_registers_share_places_where_memory_is_short() {
    let few = chips().swap_remove(1);
    let unit = crowded(&few);
    let own = compare(&unit, &few, &options(), "places of their own").spilled.rows.len();
    let sparing = ScheduleOptions { spill_rows: 0, ..options() };
    let shared = compare(&unit, &few, &sparing, "shared places").spilled.rows.len();
    assert!(shared * 2 < own, "{shared} rows with shared places, {own} without");
    for seed in seeds(2000..2010) {
        let unit = random::unit(seed, &few, 60);
        compare(&unit, &few, &sparing, &format!("shared places, seed {seed}"));
    }
}

#[test]
fn threads_that_share_the_kernels_change_nothing() {
    let few = chips().swap_remove(1);
    // One that holds more than there are registers for among small ones.
    let mut unit = crowded(&few);
    unit.kernels.extend((0..40).flat_map(|seed| random::unit(3000 + seed, &few, 20).kernels.into_iter().skip(1)));
    let by = |threads| schedule(&unit, &few, &ScheduleOptions { threads, ..options() }).expect("it schedules");
    let alone = by(1);
    assert!([2, 3, 64].into_iter().all(|threads| by(threads) == alone), "other code by more threads");
}

#[test]
fn kernels_scheduled_before_keep_their_scalars_where_they_are_told() {
    let mut few = chip();
    few.core.scalar_registers = 8;
    let mut spilled = 0;
    for seed in seeds(4000..4020) {
        let unit = random::unit(seed, &few, 60);
        let (done, keys) = (Done::default(), Vec::from_iter(0..unit.kernels.len()));
        for word in [1010, 1003, 1020] {
            let options = ScheduleOptions { spill_base_word: word, ..options() };
            let known = schedule_known(&unit, &few, &options, &|i| Some((&keys[i], 0)), &done).expect("it schedules");
            assert!(known == schedule(&unit, &few, &options).expect("it schedules"), "seed {seed}, word {word}");
            known.verify(&unit, &few).unwrap_or_else(|e| panic!("seed {seed}, word {word}: {e:?}"));
            spilled += known.spilled.words.len();
        }
    }
    assert!(spilled > 0, "no scalar is kept in memory");
}
