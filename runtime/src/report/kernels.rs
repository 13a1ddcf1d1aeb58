//! What a report says of kernels that bring lines of their own (Pallas): their lines and traced regions, what their memory
//! holds, and what is wrong with them, in words.
//!
//! Everything follows from the program with its debug data and how often each bundle issued and waited.

use super::{LineReport, LintReport, RegionReport, RoomReport, UnitReport};
use std::collections::BTreeMap;
use systole_isa::program::{DebugBuffer, DebugPlace, PADDING, RELAYOUT, SPILLED, WINDOW};
use systole_isa::{ChipConfig, Op, Program, Slot, Space};
use systole_simulator::RunResult;

/// Shares of a run's cycles from which on something is worth a word.
const EXPOSED: f64 = 0.05;
const MOVED: f64 = 0.02;
/// Spilled registers that are loaded or stored, over the run's cycles.
const SPILLS: f64 = 0.02;
/// Share of the time that matrix units work, below which it is said what else takes it.
const WORKING: f64 = 0.8;

/// What the bundles of a line did.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    issued: u64,
    waited: u64,
    /// Instructions of matrix units, loads and stores of spilled registers.
    products: u64,
    loads: u64,
    stores: u64,
}

/// The counts of a program's lines, by number of the place.
pub struct Lines<'a> {
    places: &'a [DebugPlace],
    counts: BTreeMap<u32, Counts>,
    cycles: u64,
    /// Bytes of vector memory with spilled registers.
    spilled: u64,
}

/// The scopes of a place, outermost first: regions that the program named.
pub fn scopes(name: &str) -> Vec<&str> {
    let own = |part: &&str| !part.is_empty() && !part.starts_with(RELAYOUT);
    if name.starts_with(WINDOW) { Vec::new() } else { name.split('/').filter(own).collect() }
}

impl<'a> Lines<'a> {
    /// Sums up the bundles of a run: where several cores ran, of the first, whose times operations have too. What instructions
    /// are is looked up where there are lines at all.
    pub fn new(program: &'a Program, chip: &ChipConfig, r: &RunResult) -> Lines<'a> {
        let d = &program.debug;
        let mut out = Lines { places: &d.places, counts: BTreeMap::new(), cycles: r.cycles, spilled: 0 };
        if d.places.is_empty() {
            return out;
        }
        let code = program.decode(chip).unwrap_or_default();
        let spills = spills(program, chip);
        let first = r.cores.first().unwrap_or(r);
        out.spilled = spills.iter().map(|s| s.1.1 - s.1.0).sum::<u64>() * chip.row_bytes();
        for (i, l) in d.lines.iter().enumerate() {
            let end = d.lines.get(i + 1).map_or(program.bundles, |n| n.start);
            let spilled = spills.iter().find(|s| s.0.contains(&l.start)).map(|s| s.1);
            let line = out.counts.entry(l.place).or_default();
            for bundle in l.start as usize..end as usize {
                let count = |v: &[u64]| v.get(bundle).copied().unwrap_or(0);
                let issued = count(&first.executions);
                line.issued += issued;
                line.waited += count(&first.waits);
                for inst in code.get(bundle).unwrap_or_default() {
                    let product = matches!(inst.op.info().slot, Slot::MxuPush | Slot::MxuPop);
                    line.products += if product { issued } else { 0 };
                    let kept = spilled.is_some_and(|(from, to)| {
                        inst.operands[1] == 0 && (from..to).contains(&(inst.operands[2].max(0) as u64))
                    });
                    line.loads += if kept && inst.op == Op::VLd { issued } else { 0 };
                    line.stores += if kept && inst.op == Op::VSt { issued } else { 0 };
                }
            }
        }
        out
    }

    fn all(&self) -> impl Iterator<Item = (&'a DebugPlace, Counts)> {
        self.counts.iter().filter_map(|(p, c)| Some((self.places.get(*p as usize)?, *c)))
    }

    /// The lines, longest first.
    pub fn rows(&self) -> Vec<LineReport> {
        let one = |(p, c): (&DebugPlace, Counts)| LineReport {
            file: p.file.clone(),
            line: p.line,
            function: p.function.clone(),
            part: p.name.clone(),
            cycles: c.issued + c.waited,
            waited: c.waited,
        };
        let mut out: Vec<LineReport> = self.all().map(one).filter(|l| l.cycles > 0).collect();
        out.sort_by(|a, b| (b.cycles, &a.file, a.line, &a.part).cmp(&(a.cycles, &b.file, b.line, &b.part)));
        out
    }

    /// The regions that kernels name, those around others first.
    pub fn regions(&self) -> Vec<RegionReport> {
        let mut all: BTreeMap<Vec<&str>, (u64, u64)> = BTreeMap::new();
        for (p, c) in self.all() {
            let path = scopes(&p.name);
            for depth in 1..=path.len() {
                let sum = all.entry(path[..depth].to_vec()).or_default();
                *sum = (sum.0 + c.issued + c.waited, sum.1 + c.waited);
            }
        }
        let one = |(path, (cycles, waited)): (Vec<&str>, (u64, u64))| RegionReport {
            path: path.into_iter().map(str::to_string).collect(),
            cycles,
            waited,
        };
        all.into_iter().map(one).filter(|r| r.cycles > 0).collect()
    }

    fn share(&self, cycles: u64) -> f64 {
        cycles as f64 / self.cycles.max(1) as f64
    }

    /// What is wrong, in words, what takes most first.
    pub fn lint(&self, units: &[UnitReport]) -> Vec<LintReport> {
        let mut out = self.copies();
        out.extend(self.relayouts());
        out.extend(self.spills());
        out.extend(self.padding());
        out.extend(self.matrix_units(units));
        out.sort_by(|a, b| (b.cycles, &a.text).cmp(&(a.cycles, &b.text)));
        out
    }

    fn said(&self, kind: &str, p: &DebugPlace, cycles: u64, text: String) -> LintReport {
        let (file, function) = (p.file.clone(), p.function.clone());
        LintReport { kind: kind.into(), file, line: p.line, function, cycles, text }
    }

    /// Copies of windows that nothing hides.
    fn copies(&self) -> Vec<LintReport> {
        let windows = || self.all().filter(|(p, _)| p.name.starts_with(WINDOW));
        let exposed: u64 = windows().map(|w| w.1.waited).sum();
        if self.share(exposed) < EXPOSED {
            return Vec::new();
        }
        let worth = windows().filter(|w| self.share(w.1.waited) >= MOVED);
        worth
            .map(|(p, c)| {
                let share = 100.0 * self.share(c.waited);
                let text = format!("copies of a window are exposed for {share:.1} % of the time: {}", p.name);
                self.said("exposed copies", p, c.waited, text)
            })
            .collect()
    }

    /// Elements that change lanes or sublanes, by line.
    fn relayouts(&self) -> Vec<LintReport> {
        type Found<'p> = (&'p DebugPlace, u64, Vec<&'p str>);
        let mut lines: BTreeMap<(&str, u32), Found<'_>> = BTreeMap::new();
        for (p, c) in self.all() {
            let Some(what) = p.name.rsplit('/').next().and_then(|n| n.strip_prefix(RELAYOUT)) else { continue };
            let line = lines.entry((&p.file, p.line)).or_insert((p, 0, Vec::new()));
            line.1 += c.issued + c.waited;
            line.2.push(what);
        }
        let worth = lines.into_values().filter(|l| self.share(l.1) >= MOVED);
        worth
            .map(|(p, cycles, what)| {
                let share = 100.0 * self.share(cycles);
                let count = match what.len() {
                    1 => "a relayout a step takes".to_string(),
                    n => format!("{n} relayouts a step take"),
                };
                let text = format!("{count} {share:.1} % of the time: {}", what.join("; "));
                self.said("relayouts", p, cycles, text)
            })
            .collect()
    }

    /// Registers that are kept in vector memory. Bundles of spills alone have no line: they belong to the one before.
    fn spills(&self) -> Vec<LintReport> {
        let sums = self.counts.values().fold((0, 0), |n, c| (n.0 + c.loads, n.1 + c.stores));
        let most = self.all().max_by_key(|(_, c)| c.loads + c.stores);
        let Some((p, _)) = most.filter(|_| self.share(sums.0 + sums.1) >= SPILLS) else { return Vec::new() };
        let text = format!(
            "registers spill: {} loads and {} stores of them, {} bytes of vector memory, most of them here",
            sums.0, sums.1, self.spilled
        );
        vec![self.said("spills", p, sums.0 + sums.1, text)]
    }

    /// Windows that hold much besides elements of their arrays.
    fn padding(&self) -> Vec<LintReport> {
        let padded = self.all().filter(|(p, _)| p.name.starts_with(WINDOW) && p.name.contains(PADDING));
        padded.map(|(p, c)| self.said("padding", p, c.issued + c.waited, p.name.clone())).collect()
    }

    /// What takes the time in which matrix units do not work, of kernels with products.
    fn matrix_units(&self, units: &[UnitReport]) -> Option<LintReport> {
        let useful = units.iter().filter(|u| u.unit.starts_with("mxu")).map(|u| u.useful).fold(0.0, f64::max);
        let working = useful / self.cycles.max(1) as f64;
        let (place, _) = self.all().max_by_key(|l| l.1.products).filter(|l| l.1.products > 0)?;
        if working >= WORKING {
            return None;
        }
        let (mut copies, mut relayouts, mut waits, mut other) = (0, 0, 0, Vec::new());
        for (p, c) in self.all() {
            let relayout = p.name.rsplit('/').next().is_some_and(|n| n.starts_with(RELAYOUT));
            if p.name.starts_with(WINDOW) {
                copies += c.issued + c.waited;
            } else if relayout {
                relayouts += c.issued + c.waited;
            } else if c.products > 0 {
                waits += c.waited;
            } else {
                other.push((c.issued + c.waited, p));
            }
        }
        other.sort_by_key(|o| (std::cmp::Reverse(o.0), o.1.line));
        let lines: u64 = other.iter().map(|o| o.0).sum();
        let longest = other.first().map_or(String::new(), |o| format!(", most of all line {}", o.1.line));
        let mut why = [
            (copies, "copies of windows".to_string()),
            (relayouts, "relayouts".to_string()),
            (waits, "waits in lines with products".to_string()),
            (lines, format!("lines without products{longest}")),
        ];
        why.sort_by_key(|w| std::cmp::Reverse(w.0));
        let shown = why.iter().filter(|w| self.share(w.0) >= 0.01);
        let shown: Vec<String> = shown.map(|w| format!("{} ({:.1} %)", w.1, 100.0 * self.share(w.0))).collect();
        let because = if shown.is_empty() { "code outside of the kernel's lines".into() } else { shown.join(", ") };
        let idle = self.cycles.saturating_sub(useful.round() as u64);
        let text = format!("matrix units work for {:.1} % of the time because of {because}", 100.0 * working);
        Some(self.said("matrix units", place, idle, text))
    }
}

/// Of each kernel that spills: its bundles, and the rows of vector memory for its registers.
fn spills(program: &Program, chip: &ChipConfig) -> Vec<(std::ops::Range<u32>, (u64, u64))> {
    let d = &program.debug;
    let of = |b: &DebugBuffer| {
        let kernel = b.name.strip_prefix(SPILLED)?;
        let row = b.address / chip.row_bytes();
        let rows = (row, row + b.bytes / chip.row_bytes());
        let found = d.kernels.iter().filter(|k| k.name == kernel);
        Some(found.map(|k| (k.start..k.start + k.bundles, rows)).collect::<Vec<_>>())
    };
    d.buffers.iter().filter_map(of).flatten().collect()
}

/// What kernels keep in vector memory for themselves: windows, scratch, vectors on their way, spilled registers.
pub fn rooms(program: &Program) -> Vec<RoomReport> {
    if program.debug.places.is_empty() {
        return Vec::new();
    }
    let d = &program.debug;
    let with_lines = |kernel: &str| {
        d.kernels.iter().filter(|k| k.name == kernel).any(|k| {
            let lines = d.lines.iter().filter(|l| d.places.get(l.place as usize).is_some());
            lines.map(|l| l.start).any(|l| l >= k.start && l < k.start + k.bundles)
        })
    };
    let one = |b: &DebugBuffer| {
        let (kernel, what) = match b.name.strip_prefix(SPILLED) {
            Some(kernel) => (kernel, "spilled registers"),
            None => b.name.split_once(": ")?,
        };
        let of_kernel = b.space == Space::Vmem && with_lines(kernel);
        of_kernel.then(|| RoomReport { kernel: kernel.into(), what: what.into(), bytes: b.bytes })
    };
    let mut out: Vec<RoomReport> = d.buffers.iter().filter_map(one).collect();
    out.sort_by(|a, b| (&a.kernel, b.bytes, &a.what).cmp(&(&b.kernel, a.bytes, &b.what)));
    out.dedup();
    out
}
