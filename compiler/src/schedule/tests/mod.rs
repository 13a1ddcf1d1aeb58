//! Tests of scheduling by execution: random units as written against their bundles.

mod machine;
mod random;

use super::{ScheduleOptions, Scheduled, check, schedule};
use crate::kernel::Unit;
use machine::{State, run_bundles, run_unit};
use systole_isa::ChipConfig;

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
