//! Listings of schedules: per kernel its regions with slot use and an estimate of stalls, then the bundles.

use super::code::RegionKind;
use super::emit::RegionReport;
use super::{Scheduled, list};
use crate::kernel::print::instruction;
use std::fmt::Write;
use systole_isa::{Bundle, ChipConfig, Slot};

/// Cycles that bundles take when every source is as late as the chip's latencies make it (memory, queues and branches
/// apart): the issue cycles and the stalls between.
pub fn stalls(bundles: &[Bundle], chip: &ChipConfig) -> u32 {
    let mut ready = vec![0u32; systole_isa::effects::Reg::COUNT];
    let (mut cycle, mut stalled) = (0, 0);
    for b in bundles {
        let need = b.insts.iter().flat_map(|i| i.uses()).map(|r| ready[r.index()]).max().unwrap_or(0);
        let issue = need.max(cycle);
        stalled += issue - cycle;
        for i in &b.insts {
            let latency = chip.timing.get(i.op.info().class).latency;
            for r in i.defs() {
                ready[r.index()] = issue + latency;
            }
        }
        cycle = issue + 1;
    }
    stalled
}

fn region(out: &mut String, r: &RegionReport, s: &Scheduled, chip: &ChipConfig) -> std::fmt::Result {
    let range = r.start as usize..(r.start + r.bundles) as usize;
    let bundles = &s.bundles[range];
    match &r.kind {
        RegionKind::Block => write!(out, "  block     depth {}", r.depth)?,
        RegionKind::Pipelined(p) => write!(
            out,
            "  pipelined depth {}  trips {} unroll {} ii {} (slots {}, recurrence {}) stages {} copies {} rounds {}",
            r.depth, p.trips, p.unroll, p.ii, p.least.slots, p.least.recurrence, p.stages, p.copies, p.rounds
        )?,
    }
    write!(out, "  bundles {}..{}  stalls {} ", r.start, r.start + r.bundles, stalls(bundles, chip))?;
    for slot in Slot::ALL {
        let used = bundles.iter().flat_map(|b| &b.insts).filter(|i| i.op.info().slot == slot).count();
        let have = bundles.len() * list::width(chip, slot) as usize;
        if used > 0 && have > 0 {
            write!(out, " {slot:?} {}%", used * 100 / have)?;
        }
    }
    writeln!(out)
}

/// A listing of a schedule; with `bundles`, of every bundle too.
pub fn listing(s: &Scheduled, chip: &ChipConfig, bundles: bool) -> String {
    let mut out = String::new();
    for k in &s.kernels {
        let _ = writeln!(out, "kernel `{}` bundles {}..{}", k.name, k.start, k.start + k.bundles);
        for r in &k.regions {
            let _ = region(&mut out, r, s, chip);
        }
        if bundles {
            for at in k.start..k.start + k.bundles {
                let text: Vec<String> = s.bundles[at as usize].insts.iter().map(instruction).collect();
                let _ = writeln!(out, "  {at:5}  {}", text.join(" | "));
            }
        }
    }
    let _ = writeln!(
        out,
        "spilled: {} vector memory rows, {} scalar memory words",
        s.spilled.rows.len(),
        s.spilled.words.len()
    );
    out
}
