//! What guides the planner from outside: a schedule (decisions pinned by operation, as a text), a cost model, tuned kernels, limits.
//!
//! Invariant: a pin holds or the plan fails with the pin's line (`held.rs` looks at what was planned); what no pin names is decided
//! as usual.

mod dice;
mod held;
mod order;
mod schedule;

pub use dice::Dice;
pub use held::check;
pub use order::pinned;
pub use schedule::{CutPin, Schedule, TablePin, TilePin, impossible, is_named, listed, words};

use super::collective::Algorithm;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use systole_codegen::emit::blocks::{BlockCut, BlockSpec};
use systole_codegen::emit::mxu::{Contraction, Tile};
use systole_hlo::error::CompileError;
use systole_isa::ChipConfig;

/// Weighs what the planner chooses among. The planner's own estimates are given; what is returned counts instead.
pub trait CostModel: fmt::Debug + Send + Sync {
    /// Cycles of a contraction with a tile.
    fn product(&self, contraction: &Contraction, tile: &Tile, estimate: f64) -> f64 {
        let _ = (contraction, tile);
        estimate
    }

    /// The cost of a body in blocks, in cycles.
    fn blocks(&self, spec: &BlockSpec, cut: &BlockCut, estimate: u64) -> u64 {
        let _ = (spec, cut);
        estimate
    }
}

/// Tiles and cuts that were found to be good, by what they are of.
#[derive(Clone, Debug, Default)]
pub struct Tuned {
    pub tiles: rustc_hash::FxHashMap<Contraction, Tile>,
    pub cuts: rustc_hash::FxHashMap<BlockSpec, BlockCut>,
}

/// An entry of a database of tuned kernels: for the chips of a fingerprint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TunedKernel {
    Tile(u64, Contraction, Tile),
    Cut(u64, BlockSpec, BlockCut),
}

impl Tuned {
    /// The entries of a text for a chip: one a line. Those of other chips are left out; of two alike the last counts.
    ///
    /// # Errors
    /// [`CompileError::Schedule`] with the line.
    pub fn parse(text: &str, chip: &ChipConfig) -> Result<Tuned, CompileError> {
        let mut tuned = Tuned::default();
        for (i, l) in text.lines().enumerate().filter(|l| !l.1.trim().is_empty() && !l.1.starts_with("//")) {
            match ron::from_str(l).map_err(|e| impossible(i + 1, e.code))? {
                TunedKernel::Tile(f, c, t) if f == chip.fingerprint() => {
                    tuned.tiles.insert(c, t);
                }
                TunedKernel::Cut(f, s, c) if f == chip.fingerprint() => {
                    tuned.cuts.insert(s, c);
                }
                TunedKernel::Tile(..) | TunedKernel::Cut(..) => {}
            }
        }
        Ok(tuned)
    }
}

impl TunedKernel {
    /// The entry as a line.
    pub fn to_line(&self) -> String {
        ron::to_string(self).unwrap_or_default() + "\n"
    }
}

/// Everything that guides the planner from outside.
#[derive(Clone, Debug, Default)]
pub struct Guide {
    pub schedule: Schedule,
    pub cost: Option<Arc<dyn CostModel>>,
    pub tuned: Option<Arc<Tuned>>,
    /// Bytes of vector memory that a kernel may use for its windows; without, a third of it.
    pub scoped_vmem: Option<u64>,
    /// Arrays of more bytes than this are streamed through vector memory; without, those that do not fit.
    pub max_resident: Option<u64>,
    /// Of the arrays that are in vector memory for what loops read of them, only as many are streamed as make room enough for what
    /// does not fit beside them; without, all.
    pub few_aside: bool,
    /// The algorithm of collectives, where there is a choice.
    pub collective: Option<Algorithm>,
}

impl Guide {
    /// What a tile of an operation counts as; `None`: a pin does not allow it.
    pub fn weigh_tile(&self, pin: Option<TilePin>, c: &Contraction, t: &Tile, estimate: f64) -> Option<f64> {
        let best = self.tuned.as_ref().and_then(|x| x.tiles.get(c)) == Some(t);
        weighed(pin.map(|p| p.allows(t)), best, || self.cost.as_ref().map_or(estimate, |m| m.product(c, t, estimate)))
    }

    /// What a cut of an operation's kernel counts as; `None`: a pin does not allow it.
    pub fn weigh_cut(&self, pin: Option<CutPin>, s: &BlockSpec, c: &BlockCut, estimate: u64) -> Option<u64> {
        let best = self.tuned.as_ref().and_then(|x| x.cuts.get(s)) == Some(c);
        weighed(pin.map(|p| p.allows(c)), best, || self.cost.as_ref().map_or(estimate, |m| m.blocks(s, c, estimate)))
    }
}

/// What a way counts as: nothing if tuning found it best and no pin asks for another, `None` if a pin does not allow it.
fn weighed<N: Default>(allowed: Option<bool>, best: bool, estimate: impl FnOnce() -> N) -> Option<N> {
    match allowed {
        Some(false) => None,
        None if best => Some(N::default()),
        Some(true) | None => Some(estimate()),
    }
}
