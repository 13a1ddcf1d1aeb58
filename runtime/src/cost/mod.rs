//! What a run costs in energy and a chip in area: counters times the coefficients of the chip's `[costs]`.
//!
//! A run leaves [`Work`]: counts, no prices. [`energy`] prices it, [`area`] a chip; both are plain sums over the
//! coefficients ([`Prices`]), so that other prices, other nodes and the uncertainty of the numbers ([`draws`]) need no new
//! simulation. Not here: the coefficients and their sources (`systole_isa::chip::costs`).

pub mod area;
pub mod draws;
pub mod energy;
mod number;
mod report;
mod work;

pub use area::{Area, Constraint};
pub use energy::{Energy, Purpose, Unit};
pub use number::{Number, Several};
pub use report::{AreaReport, EnergyReport, Spread, area_report, costs_page, energy_page, energy_report, joules};
pub use work::{Links, Work};

use number::BESIDE;
use systole_isa::ChipConfig;
use systole_isa::chip::Cost;

const COSTS: usize = Cost::ALL.len();

/// A value for every coefficient, or those of several draws.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices<N = f64>([N; COSTS]);

impl Prices {
    /// The chip file's values.
    pub fn of(chip: &ChipConfig) -> Prices {
        Prices(std::array::from_fn(|i| chip.costs.get(Cost::ALL[i])))
    }

    /// The same with another value of one coefficient.
    pub fn with(&self, cost: Cost, value: f64) -> Prices {
        let mut out = self.clone();
        out.0[cost as usize] = value;
        out
    }

    /// The same in several draws.
    fn several(&self) -> Prices<Several> {
        Prices(self.0.map(Several::of))
    }
}

impl Prices<Several> {
    /// Each draw's by itself.
    fn singly(&self) -> [Prices; BESIDE] {
        std::array::from_fn(|i| Prices(self.0.map(|c| c.0[i])))
    }
}

impl<N: Number> Prices<N> {
    /// A coefficient's value.
    pub fn get(&self, cost: Cost) -> N {
        self.0[cost as usize]
    }
}
