//! Loops whose rounds are several pieces of code and take turns: buffers by index, counters in scalar memory that wrap, inner loops, waits
//! that begin to bind late, addresses that leave memory. Rounds that are replayed as one count what the plain walk counts.

use crate::build::*;
use systole_isa::{ChipConfig, DmaDesc, Inst, Op, Space};
use systole_simulator::{Mode, NoObserver, Observer, RunOptions, RunResult};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> i32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n) as i32
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A stream through buffers in turn.
#[derive(Clone, Copy)]
struct Stream {
    buffers: i32,
    /// Its semaphore of the first buffer, and registers: buffer that is filled next, that is waited for next, and the source.
    sem: i32,
    fill: i32,
    wait: i32,
    from: i32,
    desc: i32,
    bytes: i32,
    /// What the source moves by, and whether the bytes waited for are in a register.
    step: i32,
    by_register: bool,
}

struct Writer {
    p: Build,
    r: Random,
}

impl Writer {
    fn at(&self) -> i32 {
        self.p.bundles.len() as i32
    }

    /// What is done is chosen by a register that holds a number below `n`.
    fn choose(&mut self, register: i32, n: i32, what: impl Fn(i32) -> Inst) {
        let (mut jumps, below) = (Vec::new(), self.r.one_in(2));
        for k in 0..n - 1 {
            match below {
                true => self.p.one(Op::SLtI, &[27, register, k + 1]),
                false => self.p.one(Op::SEqI, &[27, register, k]),
            };
            let branch = self.p.one(Op::BZ, &[27, 0]);
            jumps.push(self.p.b(&[what(k), i(Op::BJmp, &[0])]));
            self.p.bundles[branch as usize].insts[0].operands[1] = self.at();
        }
        self.p.b(&[what(n - 1)]);
        for jump in jumps {
            self.p.bundles[jump as usize].insts[1].operands[0] = self.at();
        }
    }

    /// A register goes on to the next number below `n`.
    fn turn(&mut self, register: i32, n: i32) {
        self.p.one(Op::SAddI, &[28, register, 1]);
        self.p.one(Op::SLtI, &[29, 28, n]);
        self.p.one(Op::SSel, &[register, 29, 28, 0]);
    }

    fn fill(&mut self, s: Stream) {
        self.choose(s.fill, s.buffers, |k| i(Op::DmaStart, &[s.desc, s.from, 0, 0, 0, s.sem + k]));
        self.p.one(Op::SAddI, &[s.from, s.from, s.step]);
        self.turn(s.fill, s.buffers);
    }

    fn wait(&mut self, s: Stream) {
        if s.by_register {
            self.p.set(&[(26, s.bytes)]);
            self.choose(s.wait, s.buffers, |k| i(Op::DmaWaitS, &[s.sem + k, 26]));
        } else {
            self.choose(s.wait, s.buffers, |k| i(Op::DmaWait, &[s.sem + k, s.bytes]));
        }
        self.turn(s.wait, s.buffers);
    }

    /// A counter in scalar memory that goes down to zero and begins anew, and moves a register by one amount or another.
    fn counter(&mut self, word: i32, wraps: i32, moves: i32) {
        self.p.one(Op::SLd, &[25, 0, word]);
        self.p.one(Op::SAddI, &[25, 25, -1]);
        self.p.one(Op::SSt, &[25, 0, word]);
        self.p.one(Op::SLd, &[24, 0, word]);
        let branch = self.p.one(Op::BZ, &[24, 0]);
        let jump = self.p.b(&[i(Op::SAddI, &[moves, moves, 3]), i(Op::BJmp, &[0])]);
        self.p.bundles[branch as usize].insts[0].operands[1] = self.at();
        self.p.b(&[i(Op::SLi, &[25, wraps]), i(Op::SAddI, &[moves, moves, -3 * (wraps - 1)])]);
        self.p.one(Op::SSt, &[25, 0, word]);
        self.p.bundles[jump as usize].insts[1].operands[0] = self.at();
    }

    fn compute(&mut self) {
        let (v, w) = (1 + self.r.below(12), 1 + self.r.below(12));
        let b = match self.r.below(8) {
            0 => vec![i(Op::VMulF, &[v, w, w]), i(Op::VAddF, &[v + 12, w, v])],
            1 => vec![i(Op::EExp, &[v, w])],
            2 => vec![i(Op::VDivF, &[v + 12, w, w])],
            3 => vec![i(Op::XSumLane, &[v, w]), i(Op::SMulI, &[20, 18, 5])],
            4 => vec![i(Op::MStage, &[0, v, 0, 0]), i(Op::SXor, &[19, 19, 18])],
            5 => vec![i(Op::MLatch, &[0]), i(Op::SMin, &[21, 18, 19])],
            // Both read what was there before.
            6 => vec![i(Op::SAddI, &[20, 21, 3]), i(Op::SAddI, &[21, 20, 1])],
            _ => vec![i(Op::VLd, &[v, 0, 0, 1]), i(Op::SAddI, &[18, 18, 1])],
        };
        self.p.b(&b);
    }

    /// A loop of one piece of code, by a count that is a constant or moves.
    fn inner(&mut self) {
        match self.r.below(3) {
            0 => self.p.one(Op::SAndI, &[22, 18, 7]),
            1 => self.p.one(Op::SRemU, &[22, 18, 17]),
            _ => self.p.one(Op::SLi, &[22, 4]),
        };
        self.p.one(Op::SAddI, &[22, 22, 2]);
        let top = self.at();
        for _ in 0..self.r.below(4) {
            self.compute();
        }
        self.p.b(&[i(Op::VAddF, &[1, 1, 2]), i(Op::SAddI, &[16, 16, 2]), i(Op::BLoop, &[22, top])]);
    }

    /// A part of a round: `word` is its own word of scalar memory.
    fn part(&mut self, word: i32) {
        match self.r.below(6) {
            0 => {
                let (wraps, moves) = (2 + self.r.below(9), [18, 16][self.r.below(2) as usize]);
                self.counter(word, wraps, moves);
            }
            1 => self.inner(),
            2 => {
                // A branch on what moves, or on what turns.
                let of = [16, 18, 19, 20, 21][self.r.below(5) as usize];
                self.p.one(Op::SAndI, &[23, of, [1, 3, 12][self.r.below(3) as usize]]);
                let branch = self.p.one(Op::BNz, &[23, 0]);
                self.compute();
                self.p.bundles[branch as usize].insts[0].operands[1] = self.at();
            }
            _ => (0..2 + self.r.below(8)).for_each(|_| self.compute()),
        }
    }
}

/// A random loop of such rounds.
fn random_loop(seed: u64) -> (Build, ChipConfig) {
    let r = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut w = Writer { p: Build::default(), r };
    // Room for the words of counters, which begin with one.
    w.p.op("main");
    w.p.one(Op::SLi, &[25, 1]);
    for word in 0..8 {
        w.p.one(Op::SSt, &[25, 0, word]);
    }
    let modulus = 3 + w.r.below(4);
    w.p.set(&[(17, modulus), (18, 1)]);
    let mut streams = Vec::new();
    for n in 0..1 + w.r.below(2) {
        let bytes = 32 * (1 + w.r.below(48));
        let desc = w.p.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, bytes as u32));
        let (buffers, step) = (2 + w.r.below(4), w.r.below(4));
        let [fill, wait, from] = [0, 1, 2].map(|k| 4 + 3 * n + k);
        let by_register = w.r.one_in(3);
        streams.push(Stream { buffers, sem: 5 * n, fill, wait, from, desc, bytes, step, by_register });
    }
    if w.r.one_in(8) {
        // It leaves memory some time.
        streams[0].step = 1 << (12 + w.r.below(8));
    }
    for &s in &streams {
        (1..s.buffers).for_each(|_| w.fill(s));
    }
    let scalars = w.p.desc(DmaDesc::contiguous(Space::Hbm, Space::Smem, 64));
    let bytes = 32 * (1 + w.r.below(8)) as u32;
    let store = w.p.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, bytes));
    let (loads_scalars, stores) = (w.r.one_in(6), w.r.one_in(3));
    let (inner, outer) = (60 + w.r.below(900), 1 + w.r.below(3));
    w.p.set(&[(12, 1 << 14), (31, inner), (30, outer)]);
    let outer = w.at();
    if w.r.one_in(3) {
        let trips = 30 + w.r.below(300);
        w.p.set(&[(31, trips)]);
    }
    let top = w.at();
    let order = w.r.below(2);
    for (n, &s) in streams.iter().enumerate() {
        if order == 0 {
            w.fill(s);
        }
        (0..1 + w.r.below(3)).for_each(|k| w.part(4 * n as i32 + k));
        w.wait(s);
        if order == 1 {
            w.fill(s);
        }
    }
    if loads_scalars {
        w.p.b(&[i(Op::DmaStart, &[scalars, 12, 0, 0, 0, 12]), i(Op::SAddI, &[12, 12, 2])]);
        w.compute();
        w.p.one(Op::DmaWait, &[12, 64]);
    }
    if stores {
        let bytes = w.p.program.descs[store as usize].chunk as i32;
        w.p.b(&[i(Op::DmaStart, &[store, 0, 0, 12, 0, 13]), i(Op::SAddI, &[12, 12, 1])]);
        w.compute();
        w.p.one(Op::DmaWait, &[13, bytes]);
    }
    w.p.b(&[i(Op::VAddF, &[1, 1, 2]), i(Op::BLoop, &[31, top])]);
    w.p.set(&[(31, 50)]);
    w.p.one(Op::BLoop, &[30, outer]);
    for &s in &streams {
        (1..s.buffers).for_each(|_| w.wait(s));
    }
    w.p.halt();
    (w.p, tiny())
}

/// Counters of a run, or its fault; what differs between ways to come to it is taken out.
fn run(p: &Build, chip: &ChipConfig, options: &RunOptions, observer: &mut dyn Observer) -> String {
    let mut m = p.machine(chip);
    m.write_hbm(1 << 19, &[1; 1 << 14]).expect("in range");
    format!("{:?}", m.run(options, observer).map(|r| RunResult { skipped_cycles: 0, ..r }))
}

fn check(seed: u64) {
    let (p, chip) = random_loop(seed);
    let max_cycles = if seed.is_multiple_of(4) { 20_000 + 13 * seed } else { 3_000_000 };
    let way = |memo, loop_skip| {
        let options = RunOptions { memo, loop_skip, max_cycles, ..RunOptions::new(Mode::TimingOnly) };
        run(&p, &chip, &options, &mut NoObserver)
    };
    let plain = way(false, false);
    for (memo, skip) in [(true, false), (true, true), (false, true)] {
        assert_eq!(way(memo, skip), plain, "seed {seed}, memo {memo}, skip {skip}");
    }
}

#[test]
fn random_rounds_agree() {
    (0..400).chain([3_728]).for_each(check);
}

/// The same for many more loops: minutes of work.
#[test]
#[ignore = "long"]
fn ten_thousand_random_rounds_agree() {
    (1_000..11_000).for_each(check);
}

#[test]
fn samples_within_rounds_agree() {
    for seed in 0..30 {
        let (p, chip) = random_loop(seed);
        let same = same_samples(1_013, 200_000, |options, seen| drop(run(&p, &chip, options, seen)));
        assert!(same, "seed {seed}");
    }
}
