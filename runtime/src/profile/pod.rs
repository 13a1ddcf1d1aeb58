//! Runs on several devices: what their links carried.

use super::{LinkInfo, Spans};
use systole_isa::topology::Hop;
use systole_isa::{Program, Topology};
use systole_simulator::PodRun;

/// The links of a run with what they carried: spans with the op that sent. A folded run has one chip's links: all others
/// carry the same.
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
        Some(t) if run.folded => everywhere(t, &counted),
        _ => counted,
    }
}

/// One chip's links at every chip.
fn everywhere(t: &Topology, of_first: &[(LinkInfo, Spans)]) -> Vec<(LinkInfo, Spans)> {
    let mut out: Vec<(LinkInfo, Spans)> = Vec::new();
    for chip in 0..t.chips() {
        for port in 0..t.ports() {
            let Some(first) = t.neighbour(Hop { chip: 0, port }) else { continue };
            let Some(to) = t.neighbour(Hop { chip, port }) else { continue };
            if let Some((l, spans)) = of_first.iter().find(|l| l.0.from_chip == 0 && l.0.to_chip == first) {
                let known = |o: &(LinkInfo, Spans)| (o.0.from_chip, o.0.to_chip) == (chip, to);
                if !out.iter().any(known) {
                    out.push((LinkInfo { from_chip: chip, to_chip: to, ..l.clone() }, spans.clone()));
                }
            }
        }
    }
    out
}
