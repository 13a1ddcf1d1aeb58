//! Runs on several devices: their recordings and their links.

use super::{Device, LinkInfo, Recorded, Spans};
use systole_isa::topology::Hop;
use systole_isa::{Program, Topology};
use systole_simulator::PodRun;

/// The simulated devices of a run with what was recorded of each.
pub fn pod_devices<'a>(
    program: &Program,
    recorded: impl Iterator<Item = Recorded>,
    run: &'a PodRun,
) -> Vec<Device<'a>> {
    let topology = program.pod.topology.as_ref();
    let place = |d: u32| topology.map_or((d, 0), |t| (t.chip_of(d), t.core_of(d)));
    let devices = recorded.zip(&run.devices).enumerate().map(|(d, (recorded, result))| {
        let (chip, core) = place(d as u32);
        Device::new(chip, core, recorded, result)
    });
    devices.collect()
}

/// The links of a run with what they carried: spans with the op that sent. A folded run has one chip's links: all others
/// carry the same.
pub fn pod_links(program: &Program, run: &PodRun) -> Vec<(LinkInfo, Spans)> {
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
