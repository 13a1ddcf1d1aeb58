//! Known and unknown scalars, assumptions, determinism.

use crate::build::*;
use systole_isa::{DmaDesc, Op, Space};
use systole_simulator::{Assume, Cause, DmaEvent, FaultKind, Mode, NoObserver, Observer, RunOptions, Sample};

/// A loop whose trip count comes from HBM through SMEM; `vector` sends it through vector memory first.
fn counted_from_memory(vector: bool) -> Build {
    let mut p = Build::default();
    p.op("while.3");
    let direct = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Smem, 64));
    let to_vmem = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, 64));
    let to_smem = p.desc(DmaDesc::contiguous(Space::Vmem, Space::Smem, 64));
    if vector {
        p.one(Op::DmaStart, &[to_vmem, 0, 0, 0, 0, 0]);
        p.one(Op::DmaWait, &[0, 64]);
        p.one(Op::DmaStart, &[to_smem, 0, 0, 0, 0, 0]);
    } else {
        p.one(Op::DmaStart, &[direct, 0, 0, 0, 0, 0]);
    }
    p.one(Op::DmaWait, &[0, 64]);
    p.one(Op::SLd, &[1, 0, 3]);
    // while (s1 != 0) { s1 -= 1; s2 += 1 }
    let head = p.bundles.len() as i32;
    p.one(Op::BZ, &[1, head + 4]);
    p.one(Op::SAddI, &[1, 1, -1]);
    p.one(Op::SAddI, &[2, 2, 1]);
    p.one(Op::BJmp, &[head]);
    p.halt();
    p
}

#[test]
fn host_integers_are_known_to_timing() {
    let run = |p: &Build, options: &RunOptions| {
        let mut m = p.machine(&tiny());
        m.write_hbm(12, &7i32.to_le_bytes()).expect("in range");
        m.run(options, &mut NoObserver)
    };
    for vector in [false, true] {
        let p = counted_from_memory(vector);
        let full = run(&p, &RunOptions::new(Mode::Full)).expect("no fault");
        let timing = run(&p, &RunOptions::new(Mode::TimingOnly));
        if !vector {
            assert_eq!(timing.expect("known").cycles, full.cycles);
            continue;
        }
        let fault = timing.expect_err("vector memory holds no data");
        assert_eq!(fault.kind, FaultKind::UnknownBranch { loop_name: "while.3".to_string() });
        for trips in [0, 1, 7] {
            let assume = vec![Assume { name: "%while.3".to_string(), trips }];
            let assumed = run(&p, &RunOptions { assume, ..RunOptions::new(Mode::TimingOnly) }).expect("no fault");
            assert_eq!(assumed.executions[*p.bundles.len().checked_sub(3).as_ref().expect("long")], trips);
            assert!(trips != 7 || assumed.cycles == full.cycles);
        }
    }
}

/// A branch on register `reg` is known without numbers, and no more once operand `operand` of bundle `at` is `value`.
fn branches_on_unknown(mut p: Build, reg: i32, (at, operand, value): (i32, usize, i32)) {
    let end = p.bundles.len() as i32;
    p.one(Op::BNz, &[reg, end + 2]);
    p.halt();
    p.halt();
    let run = |p: &Build| {
        let mut m = p.machine(&tiny());
        m.write_hbm(0, &[1; 8192]).expect("in range");
        m.run(&RunOptions::new(Mode::TimingOnly), &mut NoObserver)
    };
    assert!(run(&p).is_ok());
    p.bundles[at as usize].insts[0].operands[operand] = value;
    assert!(matches!(run(&p).expect_err("unknown").kind, FaultKind::UnknownBranch { .. }));
}

#[test]
fn what_the_program_overwrites_with_vectors_is_unknown() {
    let mut p = Build::default();
    let store = p.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, 64));
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Smem, 512));
    p.one(Op::DmaStart, &[store, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, 64]);
    p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, 512]);
    let word = p.one(Op::SLd, &[1, 0, 16]);
    branches_on_unknown(p, 1, (word, 2, 15));
}

#[test]
fn scalars_go_out_and_come_back() {
    let mut p = Build::default();
    let out = p.desc(DmaDesc::contiguous(Space::Smem, Space::Hbm, 64));
    let copy = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Hbm, 64));
    let back = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Smem, 64));
    p.set(&[(1, 5), (2, 1), (3, 64)]);
    p.one(Op::SSt, &[1, 0, 2]);
    p.one(Op::DmaStart, &[out, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, 64]);
    p.one(Op::DmaStart, &[copy, 0, 0, 2, 0, 0]);
    p.one(Op::DmaWait, &[0, 64]);
    p.one(Op::DmaStart, &[back, 2, 0, 0, 3, 0]);
    p.one(Op::DmaWait, &[0, 64]);
    p.one(Op::SLd, &[4, 0, 18]);
    let at = p.bundles.len() as i32;
    p.one(Op::BLoop, &[4, at]);
    p.halt();
    let full = p.run(&tiny(), Mode::Full).expect("no fault");
    let timing = p.run(&tiny(), Mode::TimingOnly).expect("all known");
    assert_eq!(full.executions, timing.executions);
    assert_eq!(full.executions[at as usize], 5);
}

#[test]
fn runs_repeat_exactly() {
    let p = counted_from_memory(false);
    let mut m = p.machine(&tiny());
    m.write_hbm(12, &7i32.to_le_bytes()).expect("in range");
    let options = RunOptions { chaos: Some(42), ..RunOptions::new(Mode::Full) };
    let first = m.run(&options, &mut NoObserver).expect("no fault");
    let second = m.run(&options, &mut NoObserver).expect("no fault");
    assert_eq!(first, second);
    let other = m.run(&RunOptions { chaos: Some(43), ..options }, &mut NoObserver).expect("no fault");
    assert_ne!(first.cycles, other.cycles);
}

/// Remembers what it was told.
#[derive(Default)]
struct Recorder {
    samples: Vec<(u64, Vec<u64>)>,
    ops: Vec<(u32, u64, u64)>,
    transfers: Vec<DmaEvent>,
}

impl Observer for Recorder {
    fn wants_events(&self) -> bool {
        true
    }
    fn sample_interval(&self) -> Option<u64> {
        Some(20)
    }
    fn sample(&mut self, s: &Sample<'_>) {
        self.samples.push((s.cycle, s.units.iter().map(|u| u.busy).collect()));
    }
    fn op(&mut self, op: u32, start: u64, end: u64) {
        self.ops.push((op, start, end));
    }
    fn dma(&mut self, event: &DmaEvent) {
        self.transfers.push(*event);
    }
}

#[test]
fn observers_see_ops_transfers_and_samples() {
    let p = counted_from_memory(false);
    let mut m = p.machine(&tiny());
    m.write_hbm(12, &70i32.to_le_bytes()).expect("in range");
    let mut seen = Recorder::default();
    let r = m.run(&RunOptions::new(Mode::TimingOnly), &mut seen).expect("no fault");
    assert_eq!(seen.transfers.len(), 1);
    assert_eq!((seen.transfers[0].issued, seen.transfers[0].bytes), (10, 64));
    // The spans of ops are the whole run, one after the other.
    assert_eq!(seen.ops.first().map(|o| o.1), Some(0));
    assert_eq!(seen.ops.last().map(|o| o.2), Some(r.cycles));
    assert!(seen.ops.windows(2).all(|w| w[0].2 == w[1].1));
    // One after every 20 cycles or more of a loop whose branches are 4 cycles apart.
    assert!(seen.samples.len() > 8 && seen.samples.windows(2).all(|w| (20..25).contains(&(w[1].0 - w[0].0))));
}

/// Remembers spans, with those that were skipped.
#[derive(Default)]
struct Spans {
    ops: Vec<(u32, u64, u64)>,
    bundles: Vec<(u32, u64)>,
    waited: u64,
    last: Vec<(u64, u64)>,
    skips: u64,
    detailed: bool,
}

impl Observer for Spans {
    fn wants_events(&self) -> bool {
        true
    }
    fn wants_bundles(&self) -> bool {
        self.detailed
    }
    fn sample_interval(&self) -> Option<u64> {
        Some(50)
    }
    fn sample(&mut self, s: &Sample<'_>) {
        self.last = s.units.iter().map(|u| (u.busy, u.stalled)).collect();
    }
    fn op(&mut self, op: u32, start: u64, end: u64) {
        self.ops.push((op, start, end));
    }
    fn bundle(&mut self, bundle: u32, cycle: u64) {
        self.bundles.push((bundle, cycle));
    }
    fn wait(&mut self, _bundle: u32, _cause: Cause, start: u64, end: u64) {
        self.waited += end - start;
    }
    fn repeated(&mut self, from: u64, period: u64, times: u64) {
        self.skips += 1;
        let again: Vec<_> = self.ops.iter().copied().filter(|o| o.2 - 1 > from && o.2 - 1 <= from + period).collect();
        for k in 1..=times {
            self.ops.extend(again.iter().map(|o| (o.0, o.1 + k * period, o.2 + k * period)));
        }
    }
}

/// A loop of `n` iterations of two operations.
fn two_ops_in_a_loop(n: i32) -> Build {
    let mut p = Build::default();
    p.set(&[(4, n)]);
    let start = p.bundles.len() as i32;
    p.op("a");
    for i in 0..6 {
        p.one(Op::SAddI, &[5, 5, i]);
        if i == 3 {
            p.op("b");
        }
    }
    p.one(Op::BLoop, &[4, start]);
    p.halt();
    p
}

#[test]
fn observers_see_skipped_iterations_too() {
    let p = two_ops_in_a_loop(4000);
    let run = |skip: bool, detailed: bool| {
        let mut seen = Spans { detailed, ..Spans::default() };
        let options = RunOptions { loop_skip: skip, ..RunOptions::new(Mode::TimingOnly) };
        let r = p.machine(&tiny()).run(&options, &mut seen).expect("no fault");
        assert!(seen.ops.windows(2).all(|w| w[0].2 == w[1].1), "spans follow one another");
        (r, seen)
    };
    let (long, every) = run(false, true);
    let (short, skipped) = run(true, false);
    assert_eq!(every.skips, 0);
    assert!(skipped.skips > 0 && short.skipped_cycles > long.cycles / 2);
    assert_eq!(every.ops, skipped.ops);
    assert_eq!((long.cycles, &long.units, &long.ops), (short.cycles, &short.units, &short.ops));
    // Bundles and waits are all cycles but the launch and the last one's.
    assert_eq!(every.bundles.len() as u64, long.bundles);
    assert_eq!(every.bundles.len() as u64 + every.waited, long.cycles - tiny().core.launch_cycles as u64);
    // The last sample came at the last branch but one: it is close to the end, and below it.
    for ((busy, stall), u) in skipped.last.iter().zip(&short.units) {
        assert!(*busy <= u.busy && u.busy - busy < 80 && *stall <= u.stalled(), "{u:?} {busy} {stall}");
    }
}

#[test]
fn an_unknown_offset_forgets_one_array() {
    // A store at an unknown offset into the result; the parameter beside it stays known.
    let mut p = Build::default();
    let layout = systole_isa::Layout::row_major(systole_isa::DType::S32, &[64], 4, 8);
    let array = |address| systole_isa::program::HostArray {
        address,
        layout: layout.clone(),
        host_dims: None,
        name: String::new(),
    };
    p.program.params.push(array(0));
    p.program.results.push(array(4096));
    let store = p.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, 64));
    let load = p.desc(DmaDesc::contiguous(Space::Hbm, Space::Smem, 64));
    p.set(&[(1, 8)]);
    p.one(Op::XExtract, &[2, 0]);
    p.one(Op::DmaStart, &[store, 0, 0, 1, 2, 0]);
    p.one(Op::DmaWait, &[0, 64]);
    let from = p.one(Op::DmaStart, &[load, 0, 0, 0, 0, 0]);
    p.one(Op::DmaWait, &[0, 64]);
    p.one(Op::SLd, &[3, 0, 9]);
    branches_on_unknown(p, 3, (from, 1, 1));
}
