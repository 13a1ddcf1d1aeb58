//! What a chip is: its name, what it starts from, and every parameter that differs from that. A chip that was changed can
//! be told from the one it started as wherever its identity is stated.
//!
//! Changes are found by comparing values, not by remembering requests: a parameter that is set back is no change.

use super::ChipConfig;
use super::key::Key;
use super::params;
use super::params::Value;
use super::units::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a chip comes from, and how it differs from there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    /// The preset that it starts from, if any.
    pub base: Option<String>,
    /// The chip file that describes it, if any.
    pub file: Option<String>,
    /// Parameters that differ from the base; without a base, from the file.
    pub overrides: Vec<Override>,
}

/// A parameter with another value than the chip started with. Values as `--set` takes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Override {
    /// The parameter's key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The value that it had; empty where it had none.
    pub was: String,
}

/// A chip as every output states it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChipIdentity {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// A hash of the values of all parameters, in hexadecimal: chips of one digest take the same time for everything, and cost
    /// the same.
    #[schemars(with = "String")]
    pub digest: Digest,
}

/// A chip's digest. It takes as long as a small run's timing, and pages do not print it: so it is worked out where it is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Digest(Known);

#[derive(Clone, Debug)]
enum Known {
    Text(String),
    By(Arc<ChipConfig>),
}

impl From<String> for Digest {
    fn from(text: String) -> Digest {
        Digest(Known::Text(text))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        match digest.0 {
            Known::Text(text) => text,
            Known::By(chip) => chip.digest(),
        }
    }
}

impl Default for Digest {
    fn default() -> Digest {
        Digest::from(String::new())
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Digest) -> bool {
        String::from(self.clone()) == String::from(other.clone())
    }
}

impl Eq for Digest {}

impl ChipIdentity {
    /// In a line: `tpu-v5e`, `tpu-v5e with hbm.bandwidth=1.6 TB/s`, `mine (mine.toml: tpu-v5e with mxu.count=8)`.
    pub fn label(&self) -> String {
        self.origin.label(&self.name)
    }

    /// The overrides as arguments `--set` takes.
    pub fn sets(&self) -> Vec<String> {
        self.origin.overrides.iter().map(|o| format!("{}={}", o.key, o.value)).collect()
    }
}

impl Origin {
    /// A chip of that name in a line.
    fn label(&self, name: &str) -> String {
        let sets: Vec<String> = self.overrides.iter().map(|o| format!("{}={}", o.key, o.value)).collect();
        let with = if sets.is_empty() { String::new() } else { format!(" with {}", sets.join(", ")) };
        let from = match (&self.file, &self.base) {
            (Some(file), Some(base)) => format!(" ({file}: {base}{with})"),
            (Some(file), None) => format!(" ({file}){with}"),
            (None, Some(base)) if *base != name => format!(" ({base}{with})"),
            (None, Some(_) | None) => with,
        };
        format!("{name}{from}")
    }
}

/// Every parameter but the name, with its value as `--set` takes it.
fn values(chip: &ChipConfig) -> impl Iterator<Item = (String, String)> + '_ {
    let one = |p: &params::Param| match (p.get)(chip) {
        Value::Number(n) => p.quantity.print(n),
        Value::Text(t) => t,
    };
    let table = params::all().filter(|p| p.key != "name").map(move |p| (p.key.to_string(), one(p)));
    // The node first: it sets the costs that others then replace.
    let (node, others): (Vec<_>, Vec<_>) = Key::families().partition(|(_, key)| matches!(key, Key::Node));
    table.chain(node.into_iter().chain(others).map(move |(name, key)| (name, family(chip, key))))
}

/// The value of a parameter that is declared by pattern.
fn family(chip: &ChipConfig, key: Key) -> String {
    let operand = |i: usize| chip.mxu.types.iter().find(|t| t.operand == params::OPERAND_TYPES[i].0);
    match key {
        Key::Latency(c) => Quantity::Cycles.print(f64::from(chip.timing.get(c).latency)),
        Key::Interval(c) => Quantity::Cycles.print(f64::from(chip.timing.get(c).interval)),
        // A rate of zero takes the type away, and its sums with it.
        Key::RowsPerCycle(i) => Quantity::Rate.print(operand(i).map_or(0.0, |t| t.rows_per_cycle)),
        Key::Accumulator(i) => operand(i).map_or(params::OPERAND_TYPES[i].1, |t| &t.accumulator).to_string(),
        Key::Cost(c) => Quantity::Rate.print(chip.costs.get(c)),
        Key::Node => chip.costs.node.clone(),
        Key::Param(_) => String::new(),
    }
}

impl ChipConfig {
    /// The parameters in which this chip differs from another, in the order of the table; `was` is the other's.
    pub fn differences(&self, other: &ChipConfig) -> Vec<Override> {
        let both = values(self).zip(values(other));
        let changed = both.filter(|((_, new), (_, old))| new != old);
        changed.map(|((key, value), (_, was))| Override { key, value, was }).collect()
    }

    /// The chip's identity.
    pub fn identity(&self) -> ChipIdentity {
        let digest = Digest(Known::By(Arc::new(self.clone())));
        ChipIdentity { name: self.name.clone(), origin: self.origin.clone(), digest }
    }

    /// The text of its [`Digest`].
    fn digest(&self) -> String {
        let mut hash = super::derived::Fnv::new();
        for (key, value) in values(self) {
            hash.text(&key);
            hash.text(&value);
        }
        format!("{:016x}", hash.value())
    }

    /// The chip's name with everything in which it differs from what it starts from, in a line.
    pub fn label(&self) -> String {
        self.origin.label(&self.name)
    }

    /// Notes what changed since `before`, which had changes of its own.
    pub(super) fn note_changes(&mut self, before: &ChipConfig) {
        if self == before {
            return;
        }
        let known = &before.origin.overrides;
        let original = |o: &Override| known.iter().find(|k| k.key == o.key).map_or(&o.was, |k| &k.was).clone();
        let fresh = self.differences(before);
        let kept = known.iter().filter(|k| fresh.iter().all(|f| f.key != k.key)).cloned();
        let mut all: Vec<Override> =
            fresh.iter().map(|o| Override { was: original(o), ..o.clone() }).filter(|o| o.value != o.was).collect();
        all.extend(kept);
        let order: Vec<String> = values(self).map(|v| v.0).collect();
        all.sort_by_key(|o| order.iter().position(|k| *k == o.key));
        self.origin.overrides = all;
    }
}
