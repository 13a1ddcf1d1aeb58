//! Builds and runs small programs.

use std::collections::BTreeMap;
use std::sync::Arc;
use systole_isa::program::{DebugOp, DebugRange};
use systole_isa::{Bundle, ChipConfig, DmaDesc, Inst, MxuFormat, Op, Program};
use systole_simulator::{
    Fault, Machine, Mode, NoObserver, Observer, RunOptions, RunResult, Sample, UnitSample, load_bundles,
};

/// Numbers drawn from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    pub fn of(&mut self, n: i32) -> i32 {
        self.below(n as u64) as i32
    }
}

/// Cycles and counters of samples so many cycles apart, some of them with details.
pub struct Samples {
    interval: u64,
    seen: BTreeMap<u64, Vec<UnitSample>>,
}

impl Observer for Samples {
    fn sample_interval(&self) -> Option<u64> {
        Some(self.interval)
    }

    fn wants_details(&self) -> bool {
        self.seen.len() % 3 == 1
    }

    fn sample(&mut self, s: &Sample<'_>) {
        for (of, u) in s.details.iter().flat_map(|d| d.units).zip(s.units) {
            assert_eq!(of.busy + of.stalled() + of.idle, s.cycle, "{of:?}");
            assert_eq!((of.busy, of.stalled(), of.useful.round() as u64), (u.busy, u.stalled, u.useful), "{of:?}");
        }
        self.seen.insert(s.cycle, s.units.to_vec());
    }
}

/// Whether timing that is replayed gives samples of the plain walk, which is asked at every branch, and as many as it should give
/// where they may be as late as sixteen times what is between them.
pub fn same_samples(interval: u64, max_cycles: u64, run: impl Fn(&RunOptions, &mut Samples)) -> bool {
    let [replayed, plain] = [(true, interval), (false, 1)].map(|(memo, interval)| {
        let mut seen = Samples { interval, seen: BTreeMap::new() };
        run(&RunOptions { memo, max_cycles, loop_skip: false, ..RunOptions::new(Mode::TimingOnly) }, &mut seen);
        seen.seen
    });
    let late = |&(a, b): &(&u64, &u64)| plain.range(a + 16 * interval..(*b).max(a + 16 * interval)).next().is_some();
    replayed.iter().all(|(cycle, units)| plain.get(cycle) == Some(units))
        && !replayed.keys().zip(replayed.keys().skip(1)).any(|pair| late(&pair))
}

/// A program in the making.
#[derive(Default)]
pub struct Build {
    pub bundles: Vec<Bundle>,
    pub program: Program,
}

pub fn i(op: Op, operands: &[i32]) -> Inst {
    Inst::new(op, operands)
}

/// Cycles of a program of these instructions, one a bundle, on the tiny chip.
pub fn cycles_of(insts: &[(Op, &[i32])]) -> u64 {
    let mut p = Build::default();
    for (op, operands) in insts {
        p.one(*op, operands);
    }
    p.halt();
    p.cycles(&tiny())
}

impl Build {
    /// Appends a bundle; returns its index.
    pub fn b(&mut self, insts: &[Inst]) -> i32 {
        self.bundles.push(Bundle { insts: insts.to_vec() });
        self.bundles.len() as i32 - 1
    }

    /// Appends one instruction as a bundle.
    pub fn one(&mut self, op: Op, operands: &[i32]) -> i32 {
        self.b(&[i(op, operands)])
    }

    /// Loads scalar registers with values.
    pub fn set(&mut self, values: &[(i32, i32)]) {
        for &(r, v) in values {
            self.one(Op::SLi, &[r, v]);
        }
    }

    pub fn desc(&mut self, d: DmaDesc) -> i32 {
        self.program.descs.push(d);
        self.program.descs.len() as i32 - 1
    }

    /// The code from here on belongs to an op of that name.
    pub fn op(&mut self, name: &str) {
        let debug = &mut self.program.debug;
        let op = match debug.ops.iter().position(|o| o.name == name) {
            Some(i) => i as u32,
            None if name == "(caller)" => DebugRange::CALLER,
            None if name == "(none)" => DebugRange::NONE,
            None => {
                debug.ops.push(DebugOp { name: name.to_string(), ..DebugOp::default() });
                debug.ops.len() as u32 - 1
            }
        };
        debug.ranges.push(DebugRange { start: self.bundles.len() as u32, op });
    }

    pub fn halt(&mut self) {
        self.one(Op::BHalt, &[]);
    }

    pub fn machine(&self, chip: &ChipConfig) -> Machine {
        let loaded = load_bundles(&self.bundles, &self.program, chip).expect("the program is well formed");
        Machine::new(Arc::new(loaded))
    }

    pub fn run(&self, chip: &ChipConfig, mode: Mode) -> Result<RunResult, Fault> {
        self.machine(chip).run(&RunOptions::new(mode), &mut NoObserver)
    }

    /// Cycles from the first issue on, the same in full and timing-only mode.
    pub fn cycles(&self, chip: &ChipConfig) -> u64 {
        let full = self.run(chip, Mode::Full).expect("no fault");
        let timing = self.run(chip, Mode::TimingOnly).expect("no fault");
        assert_eq!(full.units, timing.units);
        assert_eq!(full.ops, timing.ops);
        check_sums(&full);
        full.cycles - chip.core.launch_cycles as u64
    }
}

/// Every unit's counters and the profile sum to the total.
pub fn check_sums(r: &RunResult) {
    for u in &r.units {
        assert_eq!(u.busy + u.stalled() + u.idle, r.cycles, "{u:?}");
        assert!(u.useful <= u.busy as f64 + 1e-9, "{u:?}");
    }
    assert_eq!(r.ops.iter().map(|o| o.cycles).sum::<u64>(), r.cycles);
}

pub fn tiny() -> ChipConfig {
    let mut chip = ChipConfig::from_preset("tiny").expect("the preset exists");
    chip.apply_set("vmem.bytes=2MiB").expect("a size in range");
    chip
}

/// [`tiny`] with arrays that multiply integers too, as fast.
pub fn tiny_with_integers() -> ChipConfig {
    let mut chip = tiny();
    let rate = chip.mxu_rows_per_cycle(MxuFormat::Bf16);
    chip.apply_set(&format!("mxu.types.s8.rows_per_cycle={rate}")).expect("a rate in range");
    chip
}

/// Bytes of f32 values.
pub fn floats(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// f32 values in HBM.
pub fn read_floats(m: &Machine, address: u64, n: usize) -> Vec<f32> {
    let mut bytes = vec![0; n * 4];
    m.read_hbm(address, &mut bytes).expect("in range");
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}
