//! Linking: kernels one after the other, branch and call targets as bundle indices.

use super::code::{Code, RegionKind, target_at};
use super::{Linked, Scheduled};
use crate::kernel::Unit;
use rustc_hash::FxHashMap;
use systole_isa::program::{DebugLine, DebugRange};
use systole_isa::{Bundle, Op};

/// Where a kernel went and how its regions were scheduled.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelReport {
    pub name: String,
    /// First bundle, and bundles.
    pub start: u32,
    pub bundles: u32,
    /// First row of vector memory with spilled registers, and rows of them.
    pub spilled: (u32, u32),
    pub regions: Vec<RegionReport>,
}

/// A region of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionReport {
    pub kind: RegionKind,
    /// Loops around it.
    pub depth: u32,
    pub start: u32,
    pub bundles: u32,
}

/// Joins allocated code of all kernels, in order.
pub(super) fn link(unit: &Unit, codes: &[Linked]) -> Scheduled {
    let (linked, codes): (_, Vec<&Code>) = (codes, codes.iter().map(|c| &c.done.code).collect());
    let mut out = Scheduled::default();
    // Where each bundle of each kernel went; a bundle without instructions is where the next one is.
    let mut places: Vec<Vec<u32>> = Vec::with_capacity(codes.len());
    let mut at = 0;
    for c in &codes {
        let mut place = Vec::with_capacity(c.bundles.len() + 1);
        for b in &c.bundles {
            place.push(at);
            at += !b.insts.is_empty() as u32;
        }
        place.push(at);
        places.push(place);
    }
    let mut numbers = FxHashMap::default();
    for (k, c) in codes.iter().enumerate() {
        // What kernels bring no line for does not belong to the one before.
        let mut place = DebugRange::NONE;
        out.kernels.push(report(&unit.kernels[k].name, c, &places[k]));
        for b in c.bundles.iter().filter(|b| !b.insts.is_empty()) {
            let op = b.debug.unwrap_or(unit.kernels[k].debug_op);
            if out.ranges.last().is_none_or(|r| r.op != op) {
                out.ranges.push(DebugRange { start: out.bundles.len() as u32, op });
            }
            if let Some(p) = usize::from(b.place).checked_sub(1).and_then(|i| unit.kernels[k].places.get(i)) {
                place = *numbers.entry(p).or_insert_with(|| {
                    out.places.push(p.clone());
                    out.places.len() as u32 - 1
                });
            }
            if out.lines.last().map_or(DebugRange::NONE, |l| l.place) != place {
                out.lines.push(DebugLine { start: out.bundles.len() as u32, place });
            }
            let mut bundle = Bundle { insts: b.insts.iter().map(|&i| linked[k].moved(i)).collect() };
            for i in &mut bundle.insts {
                let Some(t) = target_at(i.op) else { continue };
                let to = i.operands[t];
                let begins = if i.op == Op::BCall { places[to as usize][0] } else { places[k][c.labels.target(to)] };
                i.operands[t] = begins as i32;
            }
            bundle.insts.sort_by_key(|i| i.op.info().slot);
            out.bundles.push(bundle);
        }
    }
    out
}

fn report(name: &str, c: &Code, places: &[u32]) -> KernelReport {
    let mut regions: Vec<RegionReport> = Vec::new();
    let mut last = u32::MAX;
    for (i, b) in c.bundles.iter().enumerate() {
        if b.insts.is_empty() {
            continue;
        }
        if b.region != last {
            let r = &c.regions[b.region as usize];
            regions.push(RegionReport { kind: r.kind.clone(), depth: r.depth, start: places[i], bundles: 0 });
            last = b.region;
        }
        if let Some(r) = regions.last_mut() {
            r.bundles += 1;
        }
    }
    let start = places[0];
    KernelReport { name: name.into(), start, bundles: places[c.bundles.len()] - start, spilled: (0, 0), regions }
}
