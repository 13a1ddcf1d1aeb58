//! Parts of a chip: code for a smaller chip of the same shape runs on a larger one as it does there, so a plan for a larger chip
//! may always be the plan for a part of it.

use super::ChipConfig;
use super::params;
use serde::{Deserialize, Serialize};

/// What code uses of a chip; without a number, all that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Part {
    /// Bytes of vector memory, from its first on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vmem_bytes: Option<u64>,
    /// Vector registers, from the first on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_registers: Option<u32>,
    /// Matrix units, from the first on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix_units: Option<u32>,
    /// Vector operations of a bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_slots: Option<u32>,
}

impl Part {
    /// Whether it is the whole chip.
    pub fn is_all(&self) -> bool {
        *self == Part::default()
    }

    /// This, and what another says of sizes that it leaves open.
    pub fn with(&self, other: &Part) -> Part {
        Part {
            vmem_bytes: self.vmem_bytes.or(other.vmem_bytes),
            vector_registers: self.vector_registers.or(other.vector_registers),
            matrix_units: self.matrix_units.or(other.matrix_units),
            vector_slots: self.vector_slots.or(other.vector_slots),
        }
    }
}

impl ChipConfig {
    /// The chip as code that uses a part of it sees it. It is as fast as the whole.
    pub fn part(&self, part: &Part) -> ChipConfig {
        let mut chip = self.clone();
        let most = |has: u32, used: Option<u32>| used.map_or(has, |n| n.clamp(1, has));
        chip.vmem.bytes = part.vmem_bytes.map_or(chip.vmem.bytes, |n| n.min(chip.vmem.bytes));
        chip.core.vector_registers = most(chip.core.vector_registers, part.vector_registers);
        chip.mxu.count = most(chip.mxu.count, part.matrix_units);
        chip.core.valu_slots = most(chip.core.valu_slots, part.vector_slots);
        chip
    }

    /// Parts of which code may be faster, for every size that a chip is varied in: halves of it, down to what the preset has that this
    /// chip is most like, or one half where that has more. None for chips with a preset's sizes, for which the planner's own
    /// choices are measured.
    pub fn parts(&self) -> Vec<Vec<Part>> {
        let Some(known) = self.nearest() else { return Vec::new() };
        let least = |key: &str| params::all().find(|p| p.key == key).map_or(1, |p| p.min as u64);
        let vmem = steps(self.vmem.bytes, known.vmem.bytes, (least("vmem.bytes"), 1));
        let registers = (self.core.vector_registers.into(), known.core.vector_registers.into());
        let registers = steps(registers.0, registers.1, (least("core.vector_registers"), 2));
        let units = steps(self.mxu.count.into(), known.mxu.count.into(), (least("mxu.count"), 1));
        let slots = (self.core.valu_slots.into(), known.core.valu_slots.into());
        let slots = steps(slots.0, slots.1, (least("core.valu_slots"), 1));
        let few = |n: u64| Some(n as u32);
        let all = [
            vmem.into_iter().map(|n| Part { vmem_bytes: Some(n), ..Part::default() }).collect::<Vec<_>>(),
            units.into_iter().map(|n| Part { matrix_units: few(n), ..Part::default() }).collect(),
            registers.into_iter().map(|n| Part { vector_registers: few(n), ..Part::default() }).collect(),
            slots.into_iter().map(|n| Part { vector_slots: few(n), ..Part::default() }).collect(),
        ];
        all.into_iter().filter(|p| !p.is_empty()).collect()
    }

    /// The preset with the fewest other values, of those with as few the first; none for chips whose code is a preset's.
    fn nearest(&self) -> Option<ChipConfig> {
        let code = self.fingerprint();
        let of = |name: &str| ChipConfig::from_preset(name).ok();
        if of(&self.name).is_some_and(|p| p.fingerprint() == code) {
            return None;
        }
        let all: Vec<ChipConfig> = ChipConfig::preset_names().filter_map(of).collect();
        if all.iter().any(|p| p.fingerprint() == code) {
            return None;
        }
        let unlike = |p: &ChipConfig| {
            let table = params::all().filter(|x| x.key != "name" && (x.get)(p) != (x.get)(self)).count();
            table + p.timing.0.iter().zip(&self.timing.0).filter(|(a, b)| a != b).count()
        };
        all.into_iter().min_by_key(unlike)
    }
}

/// Halves of a size down to another, and that one; of a smaller size one half. At least `least`, multiples of `unit`.
fn steps(size: u64, down_to: u64, (least, unit): (u64, u64)) -> Vec<u64> {
    let half = |n: u64| (n / 2).next_multiple_of(unit).max(least);
    if size <= down_to {
        return [half(size)].into_iter().filter(|&n| size < down_to && n < size).collect();
    }
    let halves = std::iter::successors(Some(half(size)), |&n| Some(half(n)));
    halves.take_while(|&n| n > down_to).chain([down_to]).collect()
}
