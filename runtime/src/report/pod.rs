//! The report of a run on several devices: that of the slowest device, with the interconnect's links and collectives.

use super::{IciReport, Ran, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use systole_isa::topology::Topology;
use systole_isa::{ChipConfig, Program};
use systole_simulator::{LinkFault, PodRun};

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkReport {
    /// Chips at its ends.
    pub from: u32,
    /// See `from`.
    pub to: u32,
    /// Axis of the topology; -1 inside a chip and in fully connected pods.
    pub axis: i32,
    pub bytes: u64,
    /// Of what it could have carried in the run's time.
    pub share: f64,
    /// Cycles that messages waited for it, summed.
    pub waiting: f64,
}

/// All links along an axis, those that carried nothing too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AxisReport {
    pub axis: i32,
    pub links: u32,
    pub bytes: u64,
    pub share: f64,
    pub waiting: f64,
}

/// The messages of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CollectiveReport {
    pub name: String,
    pub opcode: String,
    pub algorithm: String,
    /// Bytes sent by all devices, and messages.
    pub bytes: u64,
    pub messages: u64,
    /// From the first message's head at a link to the last byte in place.
    pub start: u64,
    pub cycles: u64,
    /// Bytes times the links that they crossed, over what all links of the pod could have carried meanwhile.
    pub share: f64,
    /// Cycles of the slowest device that the operation took for itself, waiting and doing its part: what was not hidden.
    #[serde(default)]
    pub exposed: u64,
    /// The operations that worked while it was under way.
    #[serde(default)]
    pub behind: Vec<String>,
}

/// A value that could not be divided among partitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WholeReport {
    /// The operation that makes it.
    pub name: String,
    /// What is kept whole, and why.
    pub why: String,
    /// Bytes that every device holds of it beyond its part.
    pub bytes: u64,
}

/// A link that broke or slowed down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultReport {
    /// The chips at its ends.
    pub chips: (u32, u32),
    /// Share of its rate that was left; 0 for a link that was down.
    pub factor: f64,
    /// From this cycle on.
    pub from: u64,
    /// Messages that it slowed or sent another way.
    pub messages: u64,
}

/// The interconnect in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodReport {
    pub topology: String,
    /// The place of each device, where that is not its number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<u32>,
    pub replicas: u32,
    pub partitions: u32,
    /// Devices that were simulated: one where it stood for all.
    pub simulated: u32,
    pub axes: Vec<AxisReport>,
    pub links: Vec<LinkReport>,
    pub collectives: Vec<CollectiveReport>,
    /// What could not be divided, the largest first.
    #[serde(default)]
    pub whole: Vec<WholeReport>,
    pub faults: Vec<FaultReport>,
}

/// Directed links between chips along an axis (of a fully connected pod: all).
fn along(t: &Topology, axis: usize) -> u32 {
    let chips = t.chips();
    if t.full {
        return chips * chips.saturating_sub(1);
    }
    let Some(&n) = t.dims.get(axis).filter(|&&n| n > 1) else { return 0 };
    chips / n * 2 * if t.wrap[axis] { n } else { n - 1 }
}

/// The axes of a program's pod with all of their links, none of which has carried anything.
fn every_axis(chip: &ChipConfig, program: &Program) -> BTreeMap<i32, AxisReport> {
    let Some(t) = &program.pod.topology else { return BTreeMap::new() };
    let inside = if chip.devices_per_chip() > 1 { t.chips() } else { 0 };
    let first = if t.full { (-1, along(t, 0)) } else { (-1, inside) };
    let axes = if t.full { 0 } else { t.dims.len() };
    let all = std::iter::once(first).chain((0..axes).map(|a| (a as i32, along(t, a))));
    let one = |(axis, links)| (axis, AxisReport { axis, links, ..AxisReport::default() });
    all.filter(|a| a.1 > 0).map(one).collect()
}

/// Adds the interconnect to the report of the slowest device.
pub(super) fn add(out: &mut Report, ran: &Ran<'_>, run: &PodRun) {
    let (chip, program) = (ran.chip, ran.program);
    let devices = program.pod.devices();
    let cycles = out.cycles.max(1) as f64;
    let rate = chip.link_bytes_per_cycle();
    // Simulated devices stand for others with their links.
    let times = u64::from(run.stands_for);
    let (mut axes, mut links) = (every_axis(chip, program), Vec::new());
    for l in &run.links {
        let axis = l.axis.map_or(-1, |a| a as i32);
        let share = l.busy / cycles;
        if let Some(a) = axes.get_mut(&axis) {
            a.bytes += l.bytes * times;
            a.share += share * times as f64 / f64::from(a.links.max(1));
            a.waiting += l.waiting * times as f64;
        }
        links.push(LinkReport { from: l.from, to: l.to, axis, bytes: l.bytes, share, waiting: l.waiting });
    }
    // The link inside a chip is another one than those between chips.
    let full = program.pod.topology.as_ref().is_some_and(|t| t.full);
    let (between, inside): (Vec<&AxisReport>, Vec<&AxisReport>) = axes.values().partition(|a| full || a.axis >= 0);
    let count = |all: &[&AxisReport]| all.iter().map(|a| f64::from(a.links)).sum::<f64>();
    let told = if count(&between) > 0.0 { &between } else { &inside };
    let share = told.iter().map(|a| a.share * f64::from(a.links)).sum::<f64>() / count(told).max(1.0);
    let used: Vec<&AxisReport> = inside.iter().copied().filter(|a| a.bytes > 0).collect();
    let capacity = rate * (count(&between) + count(&used) * chip.ici.inside_rate);
    let total: u64 = axes.values().map(|a| a.bytes).sum();
    let own: BTreeMap<&str, u64> = out.ops.iter().rev().map(|o| (o.name.as_str(), o.cycles)).collect();
    let collectives = run.traffic.iter().map(|t| {
        let op = program.debug.ops.get(t.op as usize);
        let time = t.end.saturating_sub(t.start).max(1);
        let name = op.map_or("(none)".to_string(), |o| o.name.clone());
        let exposed = own.get(name.as_str()).copied().unwrap_or(0);
        CollectiveReport {
            algorithm: program.pod.algorithm(&name).to_string(),
            behind: program.pod.behind(&name).to_vec(),
            opcode: op.map_or(String::new(), |o| o.opcode.clone()),
            name,
            bytes: t.bytes * times,
            messages: t.messages * times,
            start: t.start,
            cycles: time,
            share: t.link_bytes as f64 * times as f64 / (capacity * time as f64).max(1.0),
            exposed,
        }
    });
    let collectives: Vec<CollectiveReport> = collectives.collect();
    let topology = program.pod.topology.as_ref();
    out.chips = devices.div_ceil(chip.devices_per_chip().max(1));
    out.ici = IciReport { bytes: total, share };
    out.pod = Some(PodReport {
        topology: topology.map(|t| t.to_string()).unwrap_or_default(),
        order: topology.map(|t| t.order.clone()).unwrap_or_default(),
        replicas: program.pod.replicas,
        partitions: program.pod.partitions,
        simulated: run.devices.len() as u32,
        collectives,
        whole: ran.whole.clone(),
        axes: axes.into_values().collect(),
        links,
        faults: run.faults.iter().map(fault).collect(),
    });
}

fn fault(&(f, messages): &(LinkFault, u64)) -> FaultReport {
    FaultReport { chips: f.chips, factor: f.factor, from: f.from, messages }
}

/// Places of devices that are listed.
const MOST_PLACES: usize = 32;

/// The lines about the interconnect for people.
pub fn page(p: &PodReport) -> String {
    let mut out = format!(
        "\n{} devices ({} replicas x {} partitions) on {}, {} simulated\n",
        p.replicas * p.partitions,
        p.replicas,
        p.partitions,
        p.topology,
        p.simulated
    );
    if !p.order.is_empty() {
        let shown: Vec<String> = p.order.iter().take(MOST_PLACES).map(u32::to_string).collect();
        let more = if p.order.len() > MOST_PLACES { ",.." } else { "" };
        out += &format!("  devices 0, 1, .. are at places {}{more}\n", shown.join(","));
    }
    for a in &p.axes {
        let name = if a.axis < 0 { "inside".to_string() } else { format!("axis {}", a.axis) };
        out += &format!(
            "  {name:8} {:>4} links {:>14} bytes  busy {:5.1} %  waiting {:.0} cycles\n",
            a.links,
            a.bytes,
            100.0 * a.share,
            a.waiting
        );
    }
    let mut busiest: Vec<&LinkReport> = p.links.iter().collect();
    busiest
        .sort_by(|a, b| (b.share, b.waiting).partial_cmp(&(a.share, a.waiting)).unwrap_or(std::cmp::Ordering::Equal));
    for l in busiest.iter().take(4) {
        out += &format!(
            "  link {}-{}: {} bytes, busy {:.1} %, waiting {:.0} cycles\n",
            l.from,
            l.to,
            l.bytes,
            100.0 * l.share,
            l.waiting
        );
    }
    for f in &p.faults {
        let (a, b) = f.chips;
        let (what, then) = match f.factor > 0.0 {
            true => (format!("at {} of its rate", f.factor), "slowed"),
            false => ("down".to_string(), "sent another way"),
        };
        out += &format!("  fault: link {a}-{b} {what} from cycle {}, {} messages {then}\n", f.from, f.messages);
    }
    for c in &p.collectives {
        out += &format!(
            "  {} ({}, {}): {} bytes in {} messages, {} cycles, {:.1} % of the links, {} cycles exposed{}\n",
            c.name,
            c.opcode,
            c.algorithm,
            c.bytes,
            c.messages,
            c.cycles,
            100.0 * c.share,
            c.exposed,
            beside(&c.behind)
        );
    }
    const MOST: usize = 8;
    for n in p.whole.iter().take(MOST) {
        out += &format!("  whole on every device: {}; {} bytes more\n", n.why, n.bytes);
    }
    if p.whole.len() > MOST {
        out += &format!("  and {} more (systole partition lists them)\n", p.whole.len() - MOST);
    }
    out
}

/// Behind what a collective was hidden: the first of it, and how much more.
fn beside(ops: &[String]) -> String {
    match ops {
        [] => String::new(),
        [one] => format!(", behind {one}"),
        [first, second] => format!(", behind {first} and {second}"),
        [first, second, more @ ..] => format!(", behind {first}, {second} and {} more", more.len()),
    }
}
