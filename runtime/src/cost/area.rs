//! Area of a chip by block, and what limits a die.

use super::{Number, Prices};
use systole_isa::ChipConfig;
use systole_isa::chip::Cost;

/// Area of a chip by block, in mm²; of one list of prices or of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Area<N = f64> {
    /// Name and area of every block, interconnect and unfilled area included.
    pub blocks: [(&'static str, N); 13],
    /// HBM stacks beside it.
    pub stacks: N,
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
pub fn stacks<N: Number>(chip: &ChipConfig, prices: &Prices<N>) -> N {
    prices.get(Cost::HbmStack).map(|stack| (chip.hbm.bandwidth / 1e9 / stack.max(1e-9) - 1e-6).ceil().max(1.0))
}

impl<N: Number> Area<N> {
    /// The area of a chip.
    pub fn of(chip: &ChipConfig, prices: &Prices<N>) -> Area<N> {
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
        let rate = p(Cost::IciLink).map(|link| chip.ici.link_bandwidth / 1e9 / link.max(1e-9));
        let blocks = [
            ("mxu", p(Cost::MacArea) * cells * 1e-6 + p(Cost::SramArea) * mib(sums)),
            ("vpu", p(Cost::AluArea) * alus * 1e-6),
            ("xlu", p(Cost::XluArea) * (cores * f64::from(c.xlu_slots))),
            ("vmem", p(Cost::SramArea) * (cores * mib(chip.vmem.bytes as f64))),
            ("sequencer", p(Cost::SequencerArea) * cores),
            ("cmem", p(Cost::CmemArea) * mib(chip.cmem.bytes as f64)),
            ("hbm", stacks * p(Cost::HbmArea)),
            ("ici", p(Cost::IciArea) * links * rate),
            ("host", p(Cost::HostArea)),
            ("misc", p(Cost::MiscArea)),
        ];
        let sum = sum(&blocks);
        let wires = sum * p(Cost::Interconnect);
        let unfilled = (sum + wires) * p(Cost::Fill).map(|fill| 1.0 / fill.clamp(0.1, 1.0) - 1.0);
        let [mxu, vpu, xlu, vmem, sequencer, cmem, hbm, ici, host, misc] = blocks;
        let (wires, other, unfilled) = (("interconnect", wires), ("other", p(Cost::OtherArea)), ("unfilled", unfilled));
        let blocks = [mxu, vpu, xlu, vmem, sequencer, cmem, hbm, ici, host, misc, wires, other, unfilled];
        Area { blocks, stacks }
    }

    /// The chip's area.
    pub fn total(&self) -> N {
        sum(&self.blocks)
    }
}

/// The area of blocks together.
fn sum<N: Number>(blocks: &[(&'static str, N)]) -> N {
    blocks.iter().fold(N::default(), |sum, b| sum + b.1)
}

impl Area {
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
