//! Counters with what they mean: useful work of operations and units, and shares of peaks.
//!
//! The flops of an operation are those of one execution times its executions. An execution is counted where the operation's
//! code begins: loops count every round, and a product that is left and resumed beside an exchange counts once. Everything
//! else (totals, shares of peaks, useful cycles, tables, exports) is summed from these rows, so that all say the same.

use super::bound;
use super::category::Category;
use super::op::{Member, OpInfo, OpRow, UnitRow};
use super::{OpReport, PeakReport, UnitReport, stalls};
use crate::cost::{Energy, Links, Prices, Work, energy};
use crate::executions::Executions;
use crate::origin::{Origin, Origins};
use std::collections::BTreeMap;
use systole_isa::program::{DebugMember, DebugOp};
use systole_isa::{ChipConfig, Class, DType, Program};
use systole_simulator::stats::Activity;
use systole_simulator::{OpProfile, RunResult};

/// A program on a chip, as counters are compared with it.
pub struct Scale<'a> {
    pub chip: &'a ChipConfig,
    pub program: &'a Program,
    executions: Executions,
    prices: Prices,
    links: Links,
}

/// What an operation did, how often it was executed for that, and what energy that takes beside links.
pub struct Done {
    pub times: u64,
    pub work: Work,
    pub energy: Energy,
}

impl<'a> Scale<'a> {
    pub fn new(chip: &'a ChipConfig, program: &'a Program, links: Links) -> Scale<'a> {
        Scale { chip, program, executions: Executions::new(program), prices: Prices::of(chip), links }
    }

    fn debug(&self, op: Option<u32>) -> Option<&'a DebugOp> {
        op.and_then(|i| self.program.debug.ops.get(i as usize))
    }

    /// Flops per cycle of one matrix unit in one pass of an operand type.
    fn unit_flops(&self, operand: DType) -> f64 {
        let units = self.chip.cores_per_device.max(1) * self.chip.mxu.count.max(1);
        (peak_flops_per_cycle(self.chip, operand) / f64::from(units)).max(1e-9)
    }

    /// What every operation of a device did.
    pub fn done(&self, r: &RunResult) -> Vec<Done> {
        r.ops.iter().map(|o| self.done_by(o, self.executions.of(r, o))).collect()
    }

    fn done_by(&self, o: &OpProfile, times: u64) -> Done {
        let work = Work::of_op(self.chip, self.program, o, times);
        let energy = energy::dynamic(self.chip, &work, &self.prices);
        Done { times, work, energy }
    }

    /// The energy of an operation with what went over links, in whole bytes.
    pub fn with_links(&self, done: &Done, op: Option<u32>) -> Energy {
        done.energy.with_links(self.links.bytes(op).round(), &self.prices)
    }

    /// The operations of a device, by first start.
    pub fn ops(&self, r: &RunResult, done: &[Done]) -> Vec<OpRow> {
        let cores = r.units.iter().map(|u| u.core + 1).max().unwrap_or(1);
        let mut rows: Vec<OpRow> = r.ops.iter().zip(done).map(|(o, d)| self.op(o, d, cores)).collect();
        if r.executions.is_empty() && r.cores.is_empty() {
            // What was entered may not have ended: no more can have been done than the units were busy for.
            let busy: u64 = r.units.iter().filter(|u| u.unit.starts_with("mxu")).map(|u| u.busy).sum();
            let needed = self.mxu_useful(&rows);
            let part = if needed > busy as f64 { busy as f64 / needed } else { 1.0 };
            rows.iter_mut().for_each(|o| o.flops *= part);
        }
        rows
    }

    /// The operations of one core of a device: each has the part of the flops that its matrix units' rows are.
    pub fn core_ops(&self, device: &RunResult, core: &RunResult) -> Vec<OpRow> {
        let one = |o: &OpProfile| {
            let times = self.executions.of(device, o);
            let mut row = self.op(o, &self.done_by(o, times), 1);
            // Exchanges are the first core's.
            if !device.cores.first().is_some_and(|first| std::ptr::eq(first, core)) {
                row.joules -= energy::over_links(self.links.bytes(o.op), &self.prices);
            }
            let rows: Vec<u64> =
                device.cores.iter().map(|c| c.ops.iter().find(|x| x.op == o.op).map_or(0, |x| x.mxu_rows)).collect();
            row.flops *= match rows.iter().sum::<u64>() {
                0 => 1.0 / device.cores.len().max(1) as f64,
                all => o.mxu_rows as f64 / all as f64,
            };
            row
        };
        core.ops.iter().map(one).collect()
    }

    fn op(&self, o: &OpProfile, done: &Done, cores: u32) -> OpRow {
        let d = self.debug(o.op);
        let operand = d.and_then(|d| d.peak).unwrap_or(DType::BF16);
        let cells = f64::from(self.chip.mxu.rows) * f64::from(self.chip.mxu.cols) * 2.0;
        let rows = self.unit_flops(operand) * f64::from(self.chip.mxu.count) * f64::from(cores) / cells.max(1.0);
        let mxu = o.mxu_rows as f64 / rows.max(1e-9);
        let hbm = o.traffic.hbm() as f64 / self.chip.hbm_bytes_per_cycle();
        OpRow {
            op: o.op,
            start: o.start,
            cycles: o.cycles,
            entries: o.entries,
            times: done.times,
            flops: d.map_or(0.0, |d| d.flops * done.times as f64),
            hbm_read: o.traffic.hbm_read,
            hbm_write: o.traffic.hbm_write,
            cmem: o.traffic.cmem(),
            mxu_rows: o.mxu_rows,
            stall: o.stall,
            bound: bound::of_op(mxu, hbm, o.cycles, &bound::Waits { stall: o.stall, peers: o.peers }).to_string(),
            joules: done.energy.total() + energy::over_links(self.links.bytes(o.op), &self.prices),
        }
    }

    /// Cycles of all matrix units that the program needs: their operations' flops at their peaks.
    fn mxu_useful(&self, ops: &[OpRow]) -> f64 {
        // Rows are counted when a run is over.
        let counted = ops.iter().any(|o| o.mxu_rows > 0);
        let on_units = ops.iter().filter(|o| o.mxu_rows > 0 || !counted);
        on_units.map(|o| o.flops / self.unit_flops(self.operand(o))).sum()
    }

    fn operand(&self, o: &OpRow) -> DType {
        self.debug(o.op).and_then(|d| d.peak).unwrap_or(DType::BF16)
    }

    /// The part of a unit's work that is for elements of the program, not for the padding of arrays: by how much of it each
    /// operation asked.
    fn filled(&self, r: &RunResult, unit: &str) -> f64 {
        use Activity::*;
        let kinds: &[Activity] = match unit {
            "valu" => &[Valu, ValuMul, ValuDiv, ValuConvert, ValuIntDiv, ValuF64, ValuF64Div],
            "vload" => &[VmemRead],
            "vstore" => &[VmemWrite],
            "eup" => &[Eup],
            "xlu" => &[Xlu, XluReduce],
            "dma" => &[],
            _ => return 1.0,
        };
        let asked = |o: &OpProfile| match kinds {
            [] => o.traffic.hbm() as f64,
            _ => kinds.iter().map(|&k| o.activity[k] as f64).sum(),
        };
        let used = |o: &OpProfile| asked(o) * (1.0 - self.debug(o.op).map_or(0.0, |d| d.padding));
        let all: f64 = r.ops.iter().map(asked).sum();
        if all > 0.0 { r.ops.iter().map(used).sum::<f64>() / all } else { 1.0 }
    }

    /// The units of a device (or of a core of one) that executed `ops`.
    pub fn units(&self, r: &RunResult, ops: &[OpRow]) -> Vec<(u32, UnitRow)> {
        let is_mxu = |unit: &str| unit.starts_with("mxu");
        let busy: u64 = r.units.iter().filter(|u| is_mxu(&u.unit)).map(|u| u.busy).sum();
        let needed = self.mxu_useful(ops);
        let one = |u: &systole_simulator::UnitCounters| {
            // Matrix units share the program's work by the rows that each streamed.
            let useful = match is_mxu(&u.unit) {
                true => needed * u.busy as f64 / busy.max(1) as f64,
                false => u.useful * self.filled(r, &u.unit),
            };
            let stalled: u64 = u.stall.iter().sum();
            let idle = r.cycles.saturating_sub(u.busy + stalled);
            let unit = u.unit.clone();
            (u.core, UnitRow { unit, useful: useful.min(u.busy as f64), busy: u.busy, stall: u.stall, idle })
        };
        r.units.iter().map(one).collect()
    }

    /// The flops of operations by operand type, each with the peak that it is compared with.
    pub fn peaks(&self, ops: &[OpRow], cycles: u64) -> Vec<PeakReport> {
        let mut sums: BTreeMap<DType, f64> = BTreeMap::new();
        for o in ops.iter().filter(|o| o.flops > 0.0) {
            *sums.entry(self.operand(o)).or_insert(0.0) += o.flops;
        }
        let one = |(operand, flops): (DType, f64)| {
            let peak = peak_flops_per_cycle(self.chip, operand);
            PeakReport {
                operand: operand.to_string(),
                flops,
                peak_flops_per_s: peak * self.chip.clock_hz,
                share: if cycles == 0 { 0.0 } else { flops / (peak.max(1e-9) * cycles as f64) },
            }
        };
        let mut all: Vec<PeakReport> = sums.into_iter().map(one).collect();
        all.sort_by(|a, b| b.share.total_cmp(&a.share));
        all
    }
}

/// Flops per cycle of a device that products of an operand type are compared with: one pass on all matrix units, narrow types
/// that they lack at the bf16 rate; f64 and wide integers, which no matrix unit multiplies, on all vector ALUs (an f64 multiply-add
/// is one instruction, one of integers two).
pub fn peak_flops_per_cycle(chip: &ChipConfig, operand: DType) -> f64 {
    let interval = |c: Class| f64::from(chip.timing.get(c).interval);
    let wide = operand.is_integer() && operand.bits() > 8;
    let cycles = match operand.real() == DType::F64 {
        true => interval(Class::ValuF64),
        false if wide => interval(Class::ValuMul) + interval(Class::Valu),
        false => return chip.peak_flops_per_cycle(operand),
    };
    let c = &chip.core;
    let lanes = f64::from(c.lanes) * f64::from(c.sublanes) * f64::from(c.valu_slots);
    2.0 * lanes / cycles.max(1.0) * f64::from(chip.cores_per_device)
}

/// What is known of a program's operations besides counters.
pub fn infos(program: &Program, source: &str) -> Vec<OpInfo> {
    let origins = Origins::new(source);
    let mut known: BTreeMap<u32, Option<Origin>> = BTreeMap::new();
    let mut origin = |line: u32| match source.is_empty() {
        true => None,
        false => known.entry(line).or_insert_with(|| origins.of(line)).clone(),
    };
    let one = |o: &DebugOp| OpInfo {
        name: o.name.clone(),
        opcode: o.opcode.clone(),
        line: o.line,
        flops: o.flops,
        operand: o.peak.map_or(String::new(), |t| t.to_string()),
        origin: origin(o.line),
        members: o
            .members
            .iter()
            .map(|m: &DebugMember| Member {
                name: m.name.clone(),
                opcode: m.opcode.clone(),
                line: m.line,
                origin: origin(m.line),
            })
            .collect(),
    };
    program.debug.ops.iter().map(one).collect()
}

/// A row as outputs state it.
pub fn op_report(row: &OpRow, info: Option<OpInfo>) -> OpReport {
    let category = info.as_ref().map_or(Category::None, |i| Category::of(&i.opcode));
    let nothing = || OpInfo { name: "(none)".into(), ..OpInfo::default() };
    let OpInfo { name, opcode, line, flops: _, operand, origin, members } = info.unwrap_or_else(nothing);
    OpReport {
        name,
        opcode,
        category: category.name().to_string(),
        line,
        origin,
        members,
        start: row.start,
        cycles: row.cycles,
        times: row.times,
        entries: row.entries,
        flops: row.flops,
        operand,
        bytes: row.bytes(),
        hbm_read: row.hbm_read,
        hbm_write: row.hbm_write,
        cmem: row.cmem,
        mxu_rows: row.mxu_rows,
        stall: stalls(&row.stall, false),
        bound: row.bound.clone(),
        joules: row.joules,
    }
}

/// A row as outputs state it.
pub fn unit_report(chip: u32, core: u32, u: &UnitRow) -> UnitReport {
    UnitReport {
        chip,
        core,
        unit: u.unit.clone(),
        useful: u.useful,
        busy: u.busy,
        stall: stalls(&u.stall, true),
        idle: u.idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_matrix_unit_multiplies_has_the_peak_of_the_vector_alus() {
        let preset = |name| ChipConfig::from_preset(name).expect("a preset");
        let v5e = preset("tpu-v5e");
        // 1,024 lanes of four ALUs: f64 keeps one for eight cycles a multiply-add, integers for two.
        assert_eq!(peak_flops_per_cycle(&v5e, DType::F64), 2.0 * 1024.0 * 4.0 / 8.0);
        for wide in [DType::S16, DType::S32, DType::U32, DType::S64] {
            assert_eq!(peak_flops_per_cycle(&v5e, wide), 2.0 * 1024.0 * 4.0 / 2.0, "{wide}");
        }
        for narrow in [DType::BF16, DType::F32, DType::F16, DType::C64, DType::S8] {
            assert_eq!(peak_flops_per_cycle(&v5e, narrow), v5e.peak_flops_per_cycle(narrow), "{narrow}");
        }
        assert_eq!(peak_flops_per_cycle(&preset("tpu-v4"), DType::F64), 2.0 * 2.0 * 1024.0 * 2.0 / 8.0);
    }
}
