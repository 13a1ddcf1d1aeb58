//! Decisions by dice, for tests: whatever is legal has to be right.

use super::CostModel;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use systole_codegen::emit::blocks::{BlockCut, BlockSpec};
use systole_codegen::emit::mxu::{Contraction, Tile};

/// A cost model that knows nothing: every tile and every cut that the planner considers weighs what the dice say. The same seed
/// gives the same weights on every host.
#[derive(Clone, Copy, Debug)]
pub struct Dice(pub u64);

/// Weights are below this: of the size of real estimates.
const SIDES: u64 = 1 << 20;

impl Dice {
    fn throw(self, of: impl Hash) -> u64 {
        let mut h = FxHasher::default();
        (self.0, of).hash(&mut h);
        // The hash is weak in its low bits: as they are, neighbours would weigh alike.
        let x = h.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ (x >> 32)) % SIDES
    }
}

impl CostModel for Dice {
    fn product(&self, contraction: &Contraction, tile: &Tile, _: f64) -> f64 {
        self.throw((contraction, tile)) as f64
    }

    fn blocks(&self, spec: &BlockSpec, cut: &BlockCut, _: u64) -> u64 {
        self.throw((spec, cut))
    }
}
