//! Mutants: bundles with one thing wrong, which the checker must find.

use super::machine::{State, run_bundles};
use super::{chips, options, random, seeds};
use crate::check::{Claims, SpillArea, verify};
use crate::schedule::schedule;
use std::collections::BTreeMap;
use systole_isa::{Bundle, Effect, Kind, Slot};

fn random_number(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// The kinds of mutants, and one of each kind where the bundles allow it.
const DROPPED: &[(&str, Effect)] = &[
    ("a wait dropped", Effect::DmaWait),
    ("a copy dropped", Effect::DmaStart),
    ("a store dropped", Effect::VmemStore),
    ("a load dropped", Effect::VmemLoad),
    ("a scalar store dropped", Effect::SmemStore),
    ("a stage dropped", Effect::MxuStage),
    ("a latch dropped", Effect::MxuLatch),
    ("a push dropped", Effect::MxuPush),
    ("a pop dropped", Effect::MxuPop),
    ("a transpose push dropped", Effect::XluPush),
    ("a transpose pop dropped", Effect::XluPop),
    ("arithmetic dropped", Effect::None),
];

fn dropped(bundles: &[Bundle], effect: Effect, seed: &mut u64) -> Option<Vec<Bundle>> {
    let of = |i: &systole_isa::Inst| i.op.info().effect == effect;
    let all: Vec<(usize, usize)> = (bundles.iter().enumerate())
        .flat_map(|(at, b)| b.insts.iter().enumerate().filter(|(_, i)| of(i)).map(move |(n, _)| (at, n)))
        .collect();
    let &(at, n) = all.get(random_number(seed) % all.len().max(1))?;
    let mut m = bundles.to_vec();
    m[at].insts.remove(n);
    Some(m)
}

/// Two neighbours swapped, the second of which reads a register that the first writes, or loads after its store.
fn swapped(bundles: &[Bundle], stores: bool, seed: &mut u64) -> Option<Vec<Bundle>> {
    let branch = |b: &Bundle| b.insts.iter().any(|i| i.op.info().slot == Slot::Branch);
    let fits = |at: &usize| {
        let (a, b) = (&bundles[*at], &bundles[*at + 1]);
        let has = |b: &Bundle, e| b.insts.iter().any(|i| i.op.info().effect == e);
        let dependent = a.insts.iter().flat_map(|i| i.defs()).any(|r| b.insts.iter().any(|j| j.uses().contains(&r)));
        let memory = has(a, Effect::VmemStore) && has(b, Effect::VmemLoad);
        !branch(a) && !branch(b) && if stores { memory } else { dependent }
    };
    let all: Vec<usize> = (0..bundles.len() - 1).filter(fits).collect();
    let &at = all.get(random_number(seed) % all.len().max(1))?;
    let mut m = bundles.to_vec();
    m.swap(at, at + 1);
    Some(m)
}

/// A source register replaced by another one of the instruction.
fn replaced(bundles: &[Bundle], seed: &mut u64) -> Option<Vec<Bundle>> {
    let two = |i: &systole_isa::Inst| {
        let kinds = i.op.info().operands;
        kinds.len() == 3
            && kinds[1].kind == kinds[2].kind
            && kinds[2].kind == Kind::Vu
            && i.operands[1] != i.operands[2]
    };
    let all: Vec<(usize, usize)> = (bundles.iter().enumerate())
        .flat_map(|(at, b)| b.insts.iter().enumerate().filter(|(_, i)| two(i)).map(move |(n, _)| (at, n)))
        .collect();
    let &(at, n) = all.get(random_number(seed) % all.len().max(1))?;
    let mut m = bundles.to_vec();
    m[at].insts[n].operands[2] = m[at].insts[n].operands[1];
    Some(m)
}

/// What the bundles leave in memory; nothing where they cannot run, which is so when what is never used reads a register
/// that is never written.
fn memory(bundles: &[Bundle]) -> Option<State> {
    std::panic::catch_unwind(|| {
        let mut s = State::new(1);
        run_bundles(bundles, &mut s);
        s
    })
    .ok()
}

#[test]
fn mutants_are_caught() {
    let chips = chips();
    let mut table: BTreeMap<&str, [u32; 3]> = BTreeMap::new();
    let mut state = 7;
    for seed in seeds(0..40) {
        let chip = &chips[seed as usize % chips.len()];
        let unit = random::unit(seed, chip, 40);
        let out = schedule(&unit, chip, &options()).expect("schedules");
        let starts: Vec<usize> = out.kernels.iter().map(|k| k.start as usize).collect();
        let spill = SpillArea {
            rows: options().spill_base_row..options().spill_base_row + out.spill_rows,
            words: options().spill_base_word..options().spill_base_word + out.spill_words,
        };
        let claims = Claims { starts: &starts, spill };
        let right = memory(&out.bundles).expect("the bundles run");
        let mut note = |what, mutant: Option<Vec<Bundle>>| {
            let Some(m) = mutant else { return };
            let row = table.entry(what).or_default();
            row[0] += 1;
            if verify(&unit, &m, &claims, chip).is_err() {
                row[1] += 1;
            } else if memory(&m)
                .is_some_and(|s| s.vmem != right.vmem || s.smem != right.smem || s.narrow != right.narrow)
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
    // Arithmetic may be dropped where nothing uses it, and bundles swapped that touch different places.
    let effects = table.iter().filter(|t| DROPPED.iter().any(|d| d.0 == *t.0 && d.1 != Effect::None));
    for (what, [all, caught, _]) in effects {
        assert!(caught * 100 >= all * 99, "{what}: {caught} of {all} caught");
    }
}
