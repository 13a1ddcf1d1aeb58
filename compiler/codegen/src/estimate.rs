//! Cycles of a kernel's code before it is scheduled: what its slots and its longest chains of dependences allow, and what its
//! copies take of HBM.
//!
//! A loop of instructions alone is taken as pipelined: after the first iteration, one begins whenever the fullest slot (or a
//! value that goes round) lets it. Other code takes its fullest slot or its longest chain, whichever is longer. Copies
//! run beside all of that, but for the first and the last. Not here: stalls at run time, traffic of others, branches not taken.

use crate::kernel::regs::{File, Reg, RegOperand, registers};
use crate::kernel::{Item, Kernel, Trips, VInst};
use crate::schedule::list::width;
use rustc_hash::FxHashMap;
use systole_isa::{ChipConfig, DmaDesc, Op, Slot, Space};

/// Cycles around a call and a return, and of a loop's entry and each of its rounds that are not pipelined.
const CALL: f64 = 12.0;
const ENTRY: f64 = 4.0;
const ROUND: f64 = 3.0;

/// The estimated cycles of a kernel with its descriptors.
pub fn cycles(kernel: &Kernel, descs: &[DmaDesc], chip: &ChipConfig) -> f64 {
    let mut e = Estimator { chip, descs, bytes: 0.0, engines: 0.0, largest: 0.0 };
    let compute = e.items(&kernel.body, 1.0);
    if e.engines == 0.0 {
        return CALL + compute;
    }
    let rate = chip.hbm_bytes_per_cycle().max(1e-9);
    let copies = (e.bytes / rate).max(e.engines / f64::from(chip.dma.engines.max(1)));
    let latency = (chip.hbm_latency_cycles() + u64::from(chip.dma.issue_cycles)) as f64;
    CALL + compute.max(copies) + 2.0 * latency + e.largest
}

struct Estimator<'a> {
    chip: &'a ChipConfig,
    descs: &'a [DmaDesc],
    /// Bytes to and from HBM, in whole bursts.
    bytes: f64,
    /// Cycles of copy engines, and of HBM for the largest copy.
    engines: f64,
    largest: f64,
}

/// What instructions need: cycles of their fullest slot, the longest chain, and the longest way round of a value.
struct Need {
    slots: f64,
    chain: f64,
    round: f64,
}

impl Estimator<'_> {
    /// Cycles of items that run `times` times.
    fn items(&mut self, items: &[Item], times: f64) -> f64 {
        let mut total = 0.0;
        let mut straight: Vec<&VInst> = Vec::new();
        for i in items {
            let other = match i {
                Item::Inst(v) => {
                    self.copy(v, times);
                    straight.push(v);
                    continue;
                }
                Item::Mark { .. } => continue,
                Item::Loop(l) => {
                    let trips = match l.trips {
                        Trips::Static(n) => f64::from(n),
                        Trips::Dynamic(_) => 1.0,
                    };
                    self.counted(&l.body, trips, times)
                }
                Item::If { then, otherwise, .. } => {
                    let (a, b) = (self.items(then, times), self.items(otherwise, times));
                    ENTRY + a.max(b)
                }
                Item::While { head, body, .. } => ENTRY + self.items(head, times) + self.items(body, times),
                Item::Call { .. } => CALL,
            };
            total += self.straight(&straight) + other;
            straight.clear();
        }
        total + self.straight(&straight)
    }

    fn straight(&self, insts: &[&VInst]) -> f64 {
        if insts.is_empty() {
            return 0.0;
        }
        let need = self.need(insts, false);
        need.slots.max(need.chain)
    }

    fn counted(&mut self, body: &[Item], trips: f64, times: f64) -> f64 {
        let insts: Vec<&VInst> =
            body.iter().filter_map(|i| if let Item::Inst(v) = i { Some(v) } else { None }).collect();
        let plain = body.iter().all(|i| matches!(i, Item::Inst(_) | Item::Mark { .. }));
        if !plain || insts.iter().any(|v| v.inst.op.info().slot == Slot::Dma) {
            return ENTRY + trips * (ROUND + self.items(body, times * trips));
        }
        let need = self.need(&insts, true);
        let interval = need.slots.max(need.round).max(1.0);
        ENTRY + need.chain.max(interval) + (trips - 1.0) * interval
    }

    fn copy(&mut self, v: &VInst, times: f64) {
        if v.inst.op != Op::DmaStart {
            return;
        }
        let Some(d) = usize::try_from(v.inst.operands[0]).ok().and_then(|i| self.descs.get(i)) else { return };
        // Chunks that follow each other on both sides are one.
        let (mut chunk, mut runs) = (i64::from(d.chunk), 1.0);
        for dim in d.dims.iter().rev() {
            if runs == 1.0 && dim.src_stride == chunk && dim.dst_stride == chunk {
                chunk *= i64::from(dim.count);
            } else {
                runs *= f64::from(dim.count);
            }
        }
        let dma = &self.chip.dma;
        let engine = (runs / dma.chunks_per_cycle).max(d.bytes() as f64 / dma.bytes_per_cycle);
        self.engines += times * engine.max(f64::from(dma.descriptor_cycles));
        if d.src == Space::Hbm || d.dst == Space::Hbm {
            let bursts = (chunk as u64).next_multiple_of(u64::from(self.chip.hbm.burst_bytes.max(1)));
            let bytes = runs * bursts as f64;
            self.bytes += bytes * times;
            self.largest = self.largest.max(bytes / self.chip.hbm_bytes_per_cycle().max(1e-9));
        }
    }

    /// What a block needs; `looped`: additions of constants to a counter cost nothing (addresses take them in).
    fn need(&self, insts: &[&VInst], looped: bool) -> Need {
        let mut slots = [0.0; Slot::ALL.len()];
        let mut ready: FxHashMap<Reg, f64> = FxHashMap::default();
        // By register that the block reads before it writes it: the longest way from there to each register.
        let mut from: FxHashMap<Reg, FxHashMap<Reg, f64>> = FxHashMap::default();
        let (mut chain, mut round) = (0.0f64, 0.0f64);
        for v in insts {
            let info = v.inst.op.info();
            let timing = self.chip.timing.get(info.class);
            let all: Vec<_> = registers(&v.inst).collect();
            let counter =
                info.slot == Slot::Scalar && all.iter().all(|r| r.reg.file() == File::Scalar) && v.inst.op == Op::SAddI;
            if !(looped && counter) {
                slots[info.slot as usize] += f64::from(timing.interval.max(1));
            }
            let latency = f64::from(timing.latency.max(1));
            let begin =
                all.iter().filter(|r| r.is_use).filter_map(|r| ready.get(&r.reg)).fold(0.0f64, |a, &b| a.max(b));
            chain = chain.max(begin + latency);
            if looped {
                self.rounds(&all_of(&all), latency, &ready, &mut from, &mut round);
            }
            for r in all.iter().filter(|r| r.is_def) {
                ready.insert(r.reg, begin + latency);
            }
        }
        let full = |s: Slot| slots[s as usize] / f64::from(width(self.chip, s).max(1));
        let full = Slot::ALL.into_iter().map(full).fold(0.0, f64::max);
        Need { slots: full, chain, round }
    }

    /// Follows values that go round: vector registers that are read before they are written.
    fn rounds(
        &self,
        (uses, defs): &(Vec<Reg>, Vec<Reg>),
        latency: f64,
        ready: &FxHashMap<Reg, f64>,
        from: &mut FxHashMap<Reg, FxHashMap<Reg, f64>>,
        round: &mut f64,
    ) {
        for u in uses {
            if u.file() != File::Scalar && !ready.contains_key(u) {
                from.entry(*u).or_default().entry(*u).or_insert(0.0);
            }
        }
        for (start, reached) in from.iter_mut() {
            let Some(at) = uses.iter().filter_map(|u| reached.get(u)).copied().reduce(f64::max) else { continue };
            for d in defs {
                if d == start {
                    *round = round.max(at + latency);
                } else {
                    reached.insert(*d, at + latency);
                }
            }
        }
    }
}

/// Registers that an instruction reads and writes.
fn all_of(all: &[RegOperand]) -> (Vec<Reg>, Vec<Reg>) {
    let uses = all.iter().filter(|r| r.is_use).map(|r| r.reg).collect();
    let defs = all.iter().filter(|r| r.is_def).map(|r| r.reg).collect();
    (uses, defs)
}
