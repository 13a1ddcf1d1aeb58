//! Mutants: bundles with one thing wrong, which the checker must find.

use super::machine::{State, run_bundles};
use super::mutate::{DROPPED, Numbers, dropped, replaced, swapped};
use super::{chips, options, random, seeds};
use std::collections::BTreeMap;
use systole_codegen::check::{Claims, verify};
use systole_codegen::schedule::schedule;
use systole_isa::{Bundle, Effect};

/// Contents of memory and registers that mutants begin with.
const STATES: [u64; 6] = [1, 3, 5, 7, 9, 11];

/// What the bundles leave in memory; nothing where they cannot run, which is so when what is never used reads a register
/// that is never written.
fn memory(bundles: &[Bundle], seed: u64) -> Option<State> {
    std::panic::catch_unwind(|| {
        let mut s = State::new(seed);
        run_bundles(bundles, &mut s);
        s
    })
    .ok()
}

#[test]
fn mutants_are_caught() {
    let chips = chips();
    let mut table: BTreeMap<&str, [u32; 3]> = BTreeMap::new();
    let mut state = Numbers(7);
    for seed in seeds(0..40) {
        let chip = &chips[seed as usize % chips.len()];
        let unit = random::unit(seed, chip, 40);
        let out = schedule(&unit, chip, &options()).expect("schedules");
        let starts: Vec<usize> = out.kernels.iter().map(|k| k.start as usize).collect();
        let claims = Claims { starts: &starts, spill: &out.spilled };
        let right: Vec<State> = STATES.iter().map(|s| memory(&out.bundles, *s).expect("the bundles run")).collect();
        // What is kept in the spill area and not used again is no harm.
        let (rows, words) = (options().spill_base_row as usize, options().spill_base_word as usize);
        let differs = |(s, right): (&State, &State)| {
            s.vmem[..rows] != right.vmem[..rows]
                || s.narrow[..rows] != right.narrow[..rows]
                || s.smem[..words] != right.smem[..words]
        };
        let mut note = |what, mutant: Option<Vec<Bundle>>| {
            let Some(m) = mutant else { return };
            let row = table.entry(what).or_default();
            row[0] += 1;
            if verify(&unit, &m, &claims, chip).is_err() {
                row[1] += 1;
            } else if STATES
                .iter()
                .zip(&right)
                .any(|(seed, right)| memory(&m, *seed).is_some_and(|s| differs((&s, right))))
            {
                row[2] += 1;
            }
        };
        for _ in 0..3 {
            for &(what, effect) in DROPPED {
                note(what, dropped(&out.bundles, effect, &mut state));
            }
            note("dependent bundles swapped", swapped(&out.bundles, false, &mut state));
            note("store and load swapped", swapped(&out.bundles, true, &mut state));
            note("an operand replaced", replaced(&out.bundles, &mut state));
        }
    }
    for (what, [all, caught, harmful]) in &table {
        println!("{caught:4} of {all:4} caught, {harmful} that change memory not: {what}");
    }
    for (what, [_, _, harmful]) in &table {
        assert_eq!(*harmful, 0, "{what}: mutants that change memory are proved");
    }
    // Arithmetic, loads and stores of spilled registers may be dropped where nothing uses them, and bundles swapped that touch
    // different places.
    let optional = |e| matches!(e, Effect::None | Effect::VmemLoad | Effect::VmemStore | Effect::SmemStore);
    let effects = table.iter().filter(|t| DROPPED.iter().any(|d| d.0 == *t.0 && !optional(d.1)));
    for (what, [all, caught, _]) in effects {
        assert!(caught * 100 >= all * 99, "{what}: {caught} of {all} caught");
    }
}
