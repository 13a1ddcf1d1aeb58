//! Bodies in blocks that several cores work on: each has a run of the blocks.
//!
//! Either the blocks' results are rows of their own in HBM, or what is cut is reduced: then each core's results are those of its
//! blocks alone. These it makes in vector memory and copies to HBM when it has done its last block; somebody combines them.

use super::body::Walk;
use super::{BlockSpec, Body, Choice, ChosenCut, WeighCut, choose, grid};
use serde::{Deserialize, Serialize};
use systole_isa::ChipConfig;
use systole_isa::dma::HBM_GRANULE;

/// A core's share: blocks, or where blocks lie inside of loops indices of the outermost one. The last core's has the rest
/// behind the whole blocks too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Share {
    pub first: u32,
    pub end: u32,
    pub last: bool,
    /// What is shared out is reduced: results are of these blocks alone, made in scratch memory and copied to HBM at the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// As [`super::choose_cut`], with the shares of `cores` cores, of which the largest counts; `None` if blocks are not independent of each other or too few.
/// `partial`: of a reduction whose results lie in vector memory, with a part of what is reduced for each core; `None` if no reduced
/// dimension can be shared out.
pub fn choose_shares(
    spec: &BlockSpec,
    (chip, budget): (&ChipConfig, u64),
    (cores, partial): (u32, bool),
    weigh: &WeighCut<'_>,
) -> Option<(ChosenCut, Vec<Share>)> {
    let body = spec.body.normal((chip.core.sublanes, chip.core.lanes));
    let may = |c: &Choice| {
        c.shared(&body) >= cores
            && if partial { body.resumes(c.shared_dimension()) } else { c.independent(&body, spec, chip) }
    };
    let mut choice = choose(&body, spec, (chip, budget), (weigh, cores, &may))?.0;
    let shares = shares(choice.shared(&body), cores, partial);
    if partial {
        choice.kept += result_words(&body, chip);
    }
    Some((choice.chosen(), shares))
}

pub(super) fn shares(count: u32, cores: u32, partial: bool) -> Vec<Share> {
    let bound = |i: u32| (u64::from(count) * u64::from(i)).div_ceil(u64::from(cores)) as u32;
    let part = |i: u32| Share { first: bound(i), end: bound(i + 1), last: i + 1 == cores, partial };
    (0..cores).map(part).collect()
}

/// Element rows that a core's partial result takes in HBM: whole registers and granules.
pub fn slot_rows(walk: &Walk, chip: &ChipConfig) -> u64 {
    let packing = walk.dtype.packing() as u64;
    let words = u64::from(chip.core.sublanes).max(HBM_GRANULE / chip.row_bytes().min(HBM_GRANULE));
    (walk.component_rows.max(1) as u64).next_multiple_of(packing * words)
}

/// Word rows that a partial result takes in scratch memory: registers may reach behind it.
pub(super) fn words_of_result(walk: &Walk, chip: &ChipConfig) -> u32 {
    (slot_rows(walk, chip) as u32 + grid(chip).spacing as u32) / walk.dtype.packing() as u32
}

/// Word rows of scratch memory for the results of a share whose results are partial.
pub fn result_words(body: &Body, chip: &ChipConfig) -> u32 {
    let walks = body.walks(chip.core.lanes);
    walks.iter().flatten().filter(|w| w.is_output).map(|w| words_of_result(w, chip)).sum()
}

impl Choice {
    /// The dimension that is shared out among cores.
    fn shared_dimension(&self) -> usize {
        if self.outer > 0 { 0 } else { self.dimension }
    }

    /// What is shared out among cores: blocks, or indices of the outermost dimension.
    fn shared(&self, body: &Body) -> u32 {
        if self.outer > 0 { body.sizes()[0] } else { self.blocks }
    }

    /// Whether no block touches what another one writes: all results lie in HBM, and each block writes rows of its own.
    fn independent(&self, body: &Body, spec: &BlockSpec, chip: &ChipConfig) -> bool {
        let walks = body.walks(chip.core.lanes);
        let alone = |(i, w): (usize, &Option<Walk>)| {
            if w.as_ref().is_none_or(|w| !w.is_output) {
                return true;
            }
            let moves = self.windows[i].as_ref().is_some_and(|w| match self.outer {
                0 => w.step != 0,
                _ => w.outer_steps[0] != 0,
            });
            // Of what is kept, a block brings and takes whole rows.
            let o = &spec.operands[i];
            let both = std::iter::once(&self.windows[i]).chain(self.rest_windows.get(i));
            let own = !o.floating && both.flatten().all(|w| w.apart);
            moves && (!o.kept || own)
        };
        walks.iter().enumerate().all(alone)
    }
}
