//! What a run costs in energy and a chip in area: counters times the coefficients of the chip's `[costs]`.
//!
//! A run leaves [`Work`]: counts, no prices. [`energy`] prices it, [`area`] a chip; both are plain sums over the
//! coefficients ([`Prices`]), so that other prices, other nodes and the uncertainty of the numbers ([`draws`]) need no new
//! simulation. Not here: the coefficients and their sources (`systole_isa::chip::costs`).

pub mod area;
pub mod draws;
pub mod energy;
mod report;
mod work;

pub use area::{Area, Constraint};
pub use energy::{Energy, Purpose, Unit};
pub use report::{AreaReport, EnergyReport, Spread, area_report, costs_page, energy_page, energy_report, joules};
pub use work::{Links, Work};

use systole_isa::ChipConfig;
use systole_isa::chip::Cost;

/// A value for every coefficient.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices(Vec<f64>);

impl Prices {
    /// The chip file's values.
    pub fn of(chip: &ChipConfig) -> Prices {
        Prices(Cost::ALL.iter().map(|&c| chip.costs.get(c)).collect())
    }

    /// A coefficient's value.
    pub fn get(&self, cost: Cost) -> f64 {
        self.0[cost as usize]
    }

    /// The same with another value of one coefficient.
    pub fn with(&self, cost: Cost, value: f64) -> Prices {
        let mut out = self.clone();
        out.0[cost as usize] = value;
        out
    }
}
