//! Energy and area as data and as text.

use super::area::Area;
use super::draws::{self, Drawn};
use super::energy::{self, Counted, Energy, Flops, Purpose, Unit};
use super::{Prices, Work};
use crate::percent::push_shares;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use systole_isa::ChipConfig;
use systole_isa::chip::Cost;

/// 5, 50 and 95 % of the draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Spread {
    /// The percentiles of values.
    pub fn of(values: Vec<f64>) -> Spread {
        let [low, median, high] = draws::percentiles(values);
        Spread { low, median, high }
    }
}

/// Energy of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyReport {
    /// Joules of all devices, their part of idle power included.
    pub joules: f64,
    /// The same over draws of uncertain coefficients.
    pub joules_spread: Spread,
    /// Joules but those of idle power.
    pub dynamic_joules: f64,
    /// Average watts of a chip.
    pub power_w: f64,
    /// Watts of a chip in the operation that takes most.
    pub peak_power_w: f64,
    /// Watts of a chip that does nothing.
    pub idle_power_w: f64,
    /// Average watts of a chip at the system's plug: regulators, NIC, fans, the host's share.
    pub system_power_w: f64,
    #[serde(flatten)]
    pub flop: FlopReport,
    /// Joules by unit; they sum to `joules`.
    pub units: BTreeMap<Cow<'static, str>, f64>,
    /// Joules by what they are spent for; they sum to `joules`.
    pub purposes: BTreeMap<Cow<'static, str>, f64>,
}

/// Energy of a useful flop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlopReport {
    /// Energy over useful flops; none without flops.
    pub pj_per_flop: Option<f64>,
    /// The least pJ per flop at the program's intensity.
    pub floor_pj_per_flop: Option<f64>,
    /// Useful flops per HBM byte.
    pub intensity: Option<f64>,
}

/// Area of a chip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AreaReport {
    pub mm2: f64,
    pub mm2_spread: Spread,
    pub blocks: BTreeMap<Cow<'static, str>, f64>,
    pub stacks: f64,
    /// Constraints that the design breaks, in words.
    pub broken: Vec<String>,
}

/// The energy of a run. `operations`: energy and cycles of each, of one device; `flops`: of one device.
pub fn energy_report(
    (chip, drawn): (&ChipConfig, &Drawn),
    work: &Work,
    cycles: u64,
    devices: u32,
    flops: &[Flops],
    operations: impl Iterator<Item = (Energy, u64)>,
) -> EnergyReport {
    let seconds = chip.seconds(cycles);
    let prices = Prices::of(chip);
    let counted = Counted::of(chip, work);
    let e = counted.energy(seconds, devices, &prices);
    let chips = f64::from(devices) / f64::from(chip.devices_per_chip().max(1));
    let idle = energy::idle_power(chip, &prices);
    let power = if seconds > 0.0 { e.total() / seconds / chips } else { 0.0 };
    // Operations of a few cycles say nothing of power.
    let long = operations.filter(|o| o.1 * 1000 > cycles && o.1 > 0);
    let per_chip = f64::from(chip.devices_per_chip());
    let peaks = long.map(|o| idle + per_chip * o.0.total() / chip.seconds(o.1));
    let total_flops = flops.iter().map(|f| f.1).sum::<f64>() * f64::from(devices);
    let bytes = work.traffic.hbm() as f64;
    let intensity = (total_flops > 0.0 && bytes > 0.0).then(|| total_flops / bytes);
    EnergyReport {
        joules: e.total(),
        joules_spread: Spread::of(drawn.each(|p, mm2| counted.total((seconds, devices), p, mm2))),
        dynamic_joules: e.dynamic(),
        power_w: power,
        peak_power_w: peaks.fold(power, f64::max),
        idle_power_w: idle,
        system_power_w: power / prices.get(Cost::Supply).max(0.01) + prices.get(Cost::Board),
        flop: FlopReport {
            pj_per_flop: (total_flops > 0.0).then(|| e.total() * 1e12 / total_flops),
            floor_pj_per_flop: intensity.map(|i| energy::floor(chip, i, flops, &prices)),
            intensity,
        },
        units: Unit::ALL.iter().map(|&u| (u.name().into(), e.unit(u))).collect(),
        purposes: Purpose::ALL.iter().map(|&p| (p.name().into(), e.purpose(p))).collect(),
    }
}

/// The area of a chip that takes so many watts at most.
pub fn area_report(chip: &ChipConfig, drawn: &Drawn, peak_w: f64) -> AreaReport {
    let prices = Prices::of(chip);
    let area = Area::of(chip, &prices);
    let broken = area.constraints(&prices, peak_w).into_iter().filter(|c| !c.holds());
    AreaReport {
        mm2: area.total(),
        mm2_spread: Spread::of(drawn.each(|_, mm2| mm2)),
        stacks: area.stacks,
        broken: broken.map(|c| format!("{}: {:.2} of {:.2} {}", c.name, c.have, c.limit, c.unit)).collect(),
        blocks: area.blocks.into_iter().map(|(n, v)| (n.into(), v)).collect(),
    }
}

/// Shares of a total, largest first: `mxu 62 %, hbm 20 %`.
fn shares(parts: &BTreeMap<Cow<'static, str>, f64>) -> String {
    let total: f64 = parts.values().sum();
    let mut all: Vec<(&str, f64)> = parts.iter().map(|(n, v)| (&**n, 100.0 * v / total.max(1e-300))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let mut text = String::new();
    push_shares(&mut text, all.into_iter().filter(|s| s.1 >= 0.05));
    text
}

/// Joules with a unit: `1.50 mJ`.
pub fn joules(j: f64) -> String {
    let steps = [(1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ"), (1e-9, "nJ")];
    match steps.iter().find(|s| j >= s.0) {
        Some((scale, unit)) => format!("{:.2} {unit}", j / scale),
        None => format!("{:.2} pJ", j * 1e12),
    }
}

/// Energy of so many devices and area of a chip as lines for people.
pub fn energy_page(e: &EnergyReport, a: &AreaReport, devices: u32) -> String {
    let s = &e.joules_spread;
    let all = if devices > 1 { format!(" of {devices} devices") } else { String::new() };
    let mut text = format!(
        "\nenergy {}{all} (5 to 95 %: {} to {}), {:.0} W a chip ({:.0} W idle, {:.0} W in its hottest operation)",
        joules(e.joules),
        joules(s.low),
        joules(s.high),
        e.power_w,
        e.idle_power_w,
        e.peak_power_w
    );
    if let Some(pj) = e.flop.pj_per_flop {
        text += &format!(", {pj:.2} pJ/flop");
    }
    text += &format!("\n  by unit: {}\n  by cause: {}\n", shares(&e.units), shares(&e.purposes));
    if let (Some(f), Some(i)) = (e.flop.floor_pj_per_flop, e.flop.intensity) {
        text += &format!("  at {i:.1} flop/byte the least is {f:.2} pJ/flop\n");
    }
    text += &format!(
        "area {:.0} mm2 ({:.0} to {:.0}): {}\n",
        a.mm2,
        a.mm2_spread.low,
        a.mm2_spread.high,
        shares(&a.blocks)
    );
    for b in &a.broken {
        text += &format!("  cannot be built: {b}\n");
    }
    text
}

/// Every coefficient of a chip with its source, then the area and idle power that follow.
pub fn costs_page(chip: &ChipConfig) -> String {
    let mut text = format!("{}: node {} ({})\n\n", chip.name, chip.costs.node, chip.costs.node_source);
    for &c in Cost::ALL {
        let (key, unit, _) = c.info();
        let row = chip.costs.row(c);
        let range = format!("{} to {}", number(row.low), number(row.high));
        text +=
            &format!("{key:<15} {:>9} {unit:<8} {range:>16}  {:?}  {}\n", number(row.value), row.quality, row.source);
    }
    let prices = Prices::of(chip);
    let drawn = Drawn::of(chip);
    let area = area_report(chip, &drawn, 0.0);
    let idle = Spread::of(drawn.each(|p, mm2| energy::idle_power_of(mm2, chip, p)));
    text += &format!(
        "\narea {:.0} mm2 (5 to 95 %: {:.0} to {:.0}), idle {:.0} W ({:.0} to {:.0})\n",
        area.mm2,
        area.mm2_spread.low,
        area.mm2_spread.high,
        energy::idle_power(chip, &prices),
        idle.low,
        idle.high
    );
    let mut blocks: Vec<(&str, f64)> = area.blocks.iter().map(|b| (&**b.0, *b.1)).filter(|b| b.1 > 0.0).collect();
    blocks.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    for (name, mm2) in blocks {
        text += &format!("  {name:<14} {mm2:>7.1} mm2 {:>5.1} %\n", 100.0 * mm2 / area.mm2);
    }
    for b in &area.broken {
        text += &format!("  cannot be built: {b}\n");
    }
    text + "\nH read in a primary source, M derived or secondary, L weak or assumed. Random operands are assumed; clocks are\n\
            fixed (no DVFS or throttling); nodes that are not published say so.\n"
}

/// A number without trailing zeros.
fn number(x: f64) -> String {
    let text = format!("{x:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
