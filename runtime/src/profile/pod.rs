//! Runs on several devices: what their links carried.

use super::{LinkInfo, Spans};
use std::collections::{BTreeMap, BTreeSet};
use systole_isa::topology::Hop;
use systole_isa::{Program, Topology};
use systole_simulator::PodRun;

/// The links of a run with what they carried: spans with the op that sent. Where devices stand for others, the
/// others' links carry the same.
pub(super) fn links(program: &Program, run: &PodRun) -> Vec<(LinkInfo, Spans)> {
    let cycles = run.devices.iter().map(|d| d.cycles).max().unwrap_or(0);
    let counted = run.links.iter().map(|l| {
        let mut spans = Spans::default();
        for &(start, end, op) in &l.spans {
            spans.push(op, start, end);
        }
        let info = LinkInfo {
            from_chip: l.from,
            to_chip: l.to,
            axis: l.axis.unwrap_or(0),
            bytes: l.bytes,
            busy: (l.busy.round() as u64).min(cycles),
        };
        (info, spans)
    });
    let counted: Vec<(LinkInfo, Spans)> = counted.collect();
    match &program.pod.topology {
        Some(t) if run.stands_for > 1 => everywhere(t, program.pod.distances().unwrap_or(&t.dims), &counted),
        _ => counted,
    }
}

/// The links of chips that stand for others, at every chip.
fn everywhere(t: &Topology, distances: &[u32], known: &[(LinkInfo, Spans)]) -> Vec<(LinkInfo, Spans)> {
    let by_ends: BTreeMap<(u32, u32), &(LinkInfo, Spans)> =
        known.iter().map(|l| ((l.0.from_chip, l.0.to_chip), l)).collect();
    let mut out: Vec<(LinkInfo, Spans)> = Vec::new();
    let mut seen: BTreeSet<(u32, u32)> = BTreeSet::default();
    for chip in 0..t.chips() {
        let at: Vec<u32> = t.coordinates(chip).iter().zip(distances).map(|(c, by)| c % by).collect();
        let first = if t.full { 0 } else { t.chip_at(&at) };
        for port in 0..t.ports() {
            let Some(own) = t.neighbour(Hop { chip: first, port }) else { continue };
            let Some(to) = t.neighbour(Hop { chip, port }) else { continue };
            if let Some((l, spans)) = by_ends.get(&(first, own))
                && seen.insert((chip, to))
            {
                out.push((LinkInfo { from_chip: chip, to_chip: to, ..l.clone() }, spans.clone()));
            }
        }
    }
    out
}
