//! Replayed timing against the plain walk: every count is the same, in random programs of all that decides when bundles issue.

use crate::build::*;
use systole_isa::{ChipConfig, DmaDesc, Inst, Op, Space};
use systole_simulator::{Fault, Mode, NoObserver, RunOptions, RunResult};

/// Bytes of the transfers that programs make, by descriptor; the last two move scalars.
const BYTES: [u32; 5] = [256, 1024, 4096, 64, 64];

struct Writer {
    p: Build,
    r: Random,
    accumulators: bool,
    /// Bundles of calls, and which subroutine they call.
    calls: Vec<(i32, usize)>,
}

impl Writer {
    fn vector(&mut self) -> i32 {
        1 + self.r.of(12)
    }

    /// Instructions of one bundle that need no partner.
    fn bundle(&mut self) -> Vec<Inst> {
        let (v, w, x) = (self.vector(), self.vector(), self.vector() + 12);
        match self.r.below(20) {
            0 => vec![i(Op::VLd, &[v, 2, self.r.of(64), 1]), i(Op::SAndI, &[2, 6, 255])],
            1 => vec![i(Op::VMulF, &[v, w, w]), i(Op::VAddF, &[x, w, v])],
            2 => vec![i(Op::EExp, &[v, w])],
            3 => vec![i(Op::XRotLane, &[v, w, 1]), i(Op::VDivF, &[x, w, w])],
            4 => vec![i(Op::XSumLane, &[v, w])],
            5 => vec![i(Op::VDivS, &[v, w, x]), i(Op::SAddI, &[6, 6, 1])],
            6 => vec![i(Op::MStage, &[self.r.of(2), v, 0, 0])],
            7 => vec![i(Op::VSt, &[v, 2, 100, 1, 0])],
            8 => vec![i(Op::MLatch, &[self.r.of(2)]), i(Op::SMul, &[7, 6, 6])],
            // Both read what was there before.
            9 => vec![i(Op::SAddI, &[7, 6, 3]), i(Op::SAddI, &[6, 7, 1])],
            10 => vec![i(Op::SLd, &[6, 0, self.r.of(16)]), i(Op::VAddF, &[v, w, w])],
            11 => vec![i(Op::SSt, &[6, 0, self.r.of(16)])],
            12 => vec![i(Op::SDivU, &[7, 6, 6]), i(Op::VDivF, &[v, w, w]), i(Op::VAddF, &[x, w, w])],
            13 if self.accumulators => {
                vec![i(Op::MPushSet, &[self.r.of(2), v, 0, 0, 8]), i(Op::SAndI, &[6, 6, 63])]
            }
            13 => vec![i(Op::PAddD, &[2 * self.r.of(8), 2 * self.r.of(8), 2 * self.r.of(8)])],
            14 if self.accumulators => vec![i(Op::MDrain, &[v, self.r.of(2), 0, 8])],
            14 => vec![i(Op::XSumLane, &[v, w]), i(Op::VMaxF, &[x, w, v])],
            // What moves by the same amount in every round of a loop, what follows from that, and what does not.
            15 => vec![i(Op::SAddI, &[14, 14, 5]), i(Op::SSub, &[15, 15, 16])],
            16 => vec![i(Op::SAdd, &[19, 16, 19]), i(Op::SShrI, &[17, 15, 2])],
            17 => vec![i(Op::SAddI, &[18, 14, 1]), i(Op::SAdd, &[15, 18, 0])],
            18 => vec![i(Op::SXor, &[16, 16, 15])],
            _ => vec![],
        }
    }

    fn transfer(&mut self) -> (Inst, Inst) {
        let d = self.r.of(BYTES.len() as i32);
        let sem = self.r.of(4);
        let start = i(Op::DmaStart, &[d, 9, 0, 0, 0, sem]);
        if self.r.below(3) == 0 {
            self.p.set(&[(12, BYTES[d as usize] as i32)]);
            return (start, i(Op::DmaWaitS, &[sem, 12]));
        }
        (start, i(Op::DmaWait, &[sem, BYTES[d as usize] as i32]))
    }

    /// Some code; `depth` loops are around it.
    fn block(&mut self, depth: i32, calls: usize) {
        for _ in 0..1 + self.r.below(4) {
            match self.r.below(10) {
                0 => self.p.op(["a", "b", "c", "(caller)"][self.r.below(4) as usize]),
                1 | 2 if depth < 3 => {
                    let trips = 1 + self.r.of(if depth == 0 { 60 } else { 12 });
                    let counter = 20 + depth;
                    self.p.set(&[(counter, trips)]);
                    let top = self.p.bundles.len() as i32;
                    self.block(depth + 1, calls);
                    let mut last = self.bundle();
                    last.retain(|i| !matches!(i.op, Op::SLd | Op::SSt));
                    last.push(i(Op::BLoop, &[counter, top]));
                    self.p.b(&last);
                }
                3 => {
                    let (start, wait) = self.transfer();
                    self.p.b(&[start, i(Op::SAddI, &[9, 9, 1])]);
                    if self.r.below(2) == 0 {
                        self.block(depth.max(2), 0);
                    }
                    for _ in 0..self.r.below(6) {
                        let b = self.bundle();
                        self.p.b(&b);
                    }
                    self.p.b(&[wait]);
                }
                4 => {
                    // Results through the FIFO, sometimes with other work between.
                    let n = 1 + self.r.below(6);
                    let u = self.r.of(2);
                    for _ in 0..n {
                        let v = self.vector();
                        self.p.one(Op::MPush, &[u, v, 0, 0]);
                    }
                    let b = self.bundle();
                    self.p.b(&b);
                    for _ in 0..n {
                        let v = self.vector();
                        self.p.one(Op::MPop, &[v, u, 0]);
                    }
                }
                5 if calls > 0 => {
                    let to = self.r.below(calls as u64) as usize;
                    let at = self.p.one(Op::BCall, &[0]);
                    self.calls.push((at, to));
                }
                6 => {
                    // A branch that depends on the iteration.
                    let of = [9, 14, 15, 17, 18, 19][self.r.below(6) as usize];
                    self.p.one(Op::SAndI, &[13, of, 3]);
                    let at = self.p.bundles.len() as i32;
                    self.p.one(Op::BNz, &[13, at + 2]);
                    let b = self.bundle();
                    self.p.b(&b);
                }
                _ => {
                    for _ in 0..1 + self.r.below(5) {
                        let b = self.bundle();
                        self.p.b(&b);
                    }
                }
            }
        }
    }
}

fn random_program(seed: u64) -> (Build, ChipConfig) {
    let mut r = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut chip = tiny();
    let accumulators = r.below(3) == 0;
    if accumulators {
        chip.apply_set("mxu.accumulator_rows=64").expect("a size in range");
    }
    if r.below(3) == 0 {
        chip.apply_set("imem.bytes=2KiB").expect("a size in range");
    }
    let mut w = Writer { p: Build::default(), r, accumulators, calls: Vec::new() };
    for (n, bytes) in BYTES.into_iter().enumerate() {
        let to = if n < 3 { Space::Vmem } else { Space::Smem };
        w.p.desc(DmaDesc::contiguous(Space::Hbm, to, bytes));
    }
    w.p.op("main");
    w.p.set(&[(8, 8), (30, 3 + w.r.of(20))]);
    let subroutines = w.r.below(3) as usize;
    let top = w.p.bundles.len() as i32;
    w.block(0, subroutines);
    w.block(0, subroutines);
    w.p.one(Op::BLoop, &[30, top]);
    w.p.halt();
    let mut entries = Vec::new();
    for n in 0..subroutines {
        entries.push(w.p.bundles.len() as i32);
        if w.r.below(2) == 0 {
            w.p.op("(caller)");
        }
        // Loops of subroutines have counters of their own; they call those before them.
        w.block(2, n);
        w.p.one(Op::BRet, &[]);
    }
    for (at, to) in std::mem::take(&mut w.calls) {
        w.p.bundles[at as usize].insts[0].operands[0] = entries[to];
    }
    (w.p, chip)
}

/// A run of at most so many cycles; what differs between ways to come to it is taken out.
fn run(p: &Build, chip: &ChipConfig, options: RunOptions) -> Result<RunResult, Fault> {
    let options = RunOptions { max_cycles: 400_000, ..options };
    let mut m = p.machine(chip);
    m.write_hbm(0, &[3; 4096]).expect("in range");
    m.run(&options, &mut NoObserver).map(|r| RunResult { skipped_cycles: 0, ..r })
}

fn check(seed: u64) -> bool {
    let (p, chip) = random_program(seed);
    let chaos = seed.is_multiple_of(5).then_some(seed);
    let timing =
        |memo, loop_skip| run(&p, &chip, RunOptions { memo, loop_skip, chaos, ..RunOptions::new(Mode::TimingOnly) });
    let plain = timing(false, false);
    for (memo, skip) in [(true, false), (true, true), (false, true)] {
        assert_eq!(format!("{:?}", timing(memo, skip)), format!("{plain:?}"), "seed {seed}, memo {memo}, skip {skip}");
    }
    if seed.is_multiple_of(2)
        && let Ok(plain) = &plain
    {
        let full = run(&p, &chip, RunOptions { race_check: false, chaos, ..RunOptions::new(Mode::Full) });
        // Values have faults of their own.
        if let Ok(full) = full {
            assert_eq!((full.cycles, &full.units, &full.ops), (plain.cycles, &plain.units, &plain.ops), "seed {seed}");
        }
    }
    plain.is_ok()
}

#[test]
fn random_programs_agree() {
    let ran = (0..600).chain([9_593]).filter(|s| check(*s)).count();
    assert!(ran > 400, "{ran} programs without faults");
}

/// The same for many more programs: a minute of work.
#[test]
#[ignore = "long"]
fn twenty_thousand_random_programs_agree() {
    let ran = (1_000..21_000).filter(|s| check(*s)).count();
    assert!(ran > 13_000, "{ran} programs without faults");
}

#[test]
fn samples_are_those_of_the_plain_walk() {
    for seed in 0..40 {
        let (p, chip) = random_program(seed);
        let same = same_samples(97, 400_000, |options, seen| drop(p.machine(&chip).run(options, seen)));
        assert!(same, "seed {seed}");
    }
}

/// A loop of several pieces: an index that wraps decides a branch in it, and how far the next one is.
fn wrapping(trips: i32) -> Build {
    let mut p = Build::default();
    p.op("main");
    p.set(&[(20, trips), (8, 3), (14, 0), (15, 5), (16, 1)]);
    let top = p.bundles.len() as i32;
    p.b(&[i(Op::VAddF, &[1, 1, 2]), i(Op::SAddI, &[14, 14, 1])]);
    p.b(&[i(Op::VMulF, &[2, 1, 1]), i(Op::SSub, &[13, 14, 15])]);
    p.b(&[i(Op::BNz, &[13, top + 4])]);
    p.b(&[i(Op::SLi, &[14, 0]), i(Op::EExp, &[3, 2])]);
    p.b(&[i(Op::VAddF, &[4, 3, 2]), i(Op::SXor, &[16, 16, 14]), i(Op::BLoop, &[20, top])]);
    p.halt();
    p
}

#[test]
fn pieces_that_follow_each_other_agree() {
    let chip = tiny();
    for (trips, max_cycles) in [(3, 100_000), (40, 100_000), (4_000, 100_000), (4_000, 3_217)] {
        let p = wrapping(trips);
        let result = |memo, loop_skip| {
            let options = RunOptions { memo, loop_skip, max_cycles, ..RunOptions::new(Mode::TimingOnly) };
            let run = p.machine(&chip).run(&options, &mut NoObserver);
            format!("{:?}", run.map(|r| RunResult { skipped_cycles: 0, ..r }))
        };
        let plain = result(false, false);
        for (memo, skip) in [(true, false), (true, true), (false, true)] {
            assert_eq!(result(memo, skip), plain, "{trips} trips, memo {memo}, skip {skip}");
        }
    }
}
