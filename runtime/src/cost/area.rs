//! Area of a chip by block, and what limits a die.

use super::Prices;
use systole_isa::ChipConfig;
use systole_isa::chip::Cost;

/// Area of a chip by block, in mm².
#[derive(Clone, Debug, PartialEq)]
pub struct Area {
    /// Name and area of every block, interconnect and unfilled area included.
    pub blocks: [(&'static str, f64); 13],
    /// HBM stacks beside it.
    pub stacks: f64,
}

/// What a die must keep: its name, what the design has, what is allowed, unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    pub name: &'static str,
    pub have: f64,
    pub limit: f64,
    pub unit: &'static str,
}

impl Constraint {
    /// Whether the design keeps it.
    pub fn holds(&self) -> bool {
        self.have <= self.limit
    }
}

/// HBM stacks that make the chip's bandwidth.
pub fn stacks(chip: &ChipConfig, prices: &Prices) -> f64 {
    (chip.hbm.bandwidth / 1e9 / prices.get(Cost::HbmStack).max(1e-9) - 1e-6).ceil().max(1.0)
}

impl Area {
    /// The area of a chip.
    pub fn of(chip: &ChipConfig, prices: &Prices) -> Area {
        let p = |c| prices.get(c);
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        let cores = f64::from(chip.cores);
        let (m, c) = (&chip.mxu, &chip.core);
        let rate = m.types.iter().find(|t| t.operand == "bf16").map_or(1.0, |t| t.rows_per_cycle.max(1.0));
        let arrays = cores * f64::from(m.count);
        let cells = arrays * f64::from(m.rows) * f64::from(m.cols) * rate;
        let alus = cores * f64::from(c.sublanes) * f64::from(c.lanes) * f64::from(c.valu_slots);
        let sums = arrays * f64::from(m.accumulator_rows) * f64::from(m.cols) * 4.0;
        let stacks = stacks(chip, prices);
        let links = if chip.ici.topology == "none" { 0.0 } else { f64::from(chip.ici.links) };
        let rate = chip.ici.link_bandwidth / 1e9 / p(Cost::IciLink).max(1e-9);
        let blocks = [
            ("mxu", cells * p(Cost::MacArea) * 1e-6 + mib(sums) * p(Cost::SramArea)),
            ("vpu", alus * p(Cost::AluArea) * 1e-6),
            ("xlu", cores * f64::from(c.xlu_slots) * p(Cost::XluArea)),
            ("vmem", cores * mib(chip.vmem.bytes as f64) * p(Cost::SramArea)),
            ("sequencer", cores * p(Cost::SequencerArea)),
            ("cmem", mib(chip.cmem.bytes as f64) * p(Cost::CmemArea)),
            ("hbm", stacks * p(Cost::HbmArea)),
            ("ici", links * p(Cost::IciArea) * rate),
            ("host", p(Cost::HostArea)),
            ("misc", p(Cost::MiscArea)),
        ];
        let sum: f64 = blocks.iter().map(|b| b.1).sum();
        let wires = sum * p(Cost::Interconnect);
        let unfilled = (sum + wires) * (1.0 / p(Cost::Fill).clamp(0.1, 1.0) - 1.0);
        let [mxu, vpu, xlu, vmem, sequencer, cmem, hbm, ici, host, misc] = blocks;
        let (wires, other, unfilled) = (("interconnect", wires), ("other", p(Cost::OtherArea)), ("unfilled", unfilled));
        let blocks = [mxu, vpu, xlu, vmem, sequencer, cmem, hbm, ici, host, misc, wires, other, unfilled];
        Area { blocks, stacks }
    }

    /// The chip's area.
    pub fn total(&self) -> f64 {
        self.blocks.iter().map(|b| b.1).sum()
    }

    /// What limits the die, for a chip that takes so many watts at most.
    pub fn constraints(&self, prices: &Prices, peak_w: f64) -> Vec<Constraint> {
        let total = self.total();
        let dies = prices.get(Cost::Dies).max(1.0);
        let die = total / dies;
        // Stacks stand along two sides of every die.
        let edge = 2.0 * dies * die.sqrt();
        vec![
            Constraint { name: "reticle", have: die, limit: prices.get(Cost::Reticle), unit: "mm2" },
            Constraint { name: "hbm edge", have: self.stacks * prices.get(Cost::HbmEdge), limit: edge, unit: "mm" },
            Constraint {
                name: "power density",
                have: peak_w / total.max(1e-9),
                limit: prices.get(Cost::DensityLimit),
                unit: "W/mm2",
            },
        ]
    }
}
