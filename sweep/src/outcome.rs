//! What running a point gave: counters, no prices.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use systole_runtime::cost::Work;

/// What became of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub id: String,
    /// Why there are no counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Counters>,
}

/// An operation's part of a run, of one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpCounters {
    pub name: String,
    pub opcode: String,
    pub cycles: u64,
    pub work: Work,
}

/// What a run counted: no prices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    pub cycles: u64,
    pub devices: u32,
    /// Useful flops of one device, and its peak in flops per cycle.
    pub flops: f64,
    pub peak_per_cycle: f64,
    pub bound: String,
    /// Busy share by kind of unit: the most of any.
    pub busy: BTreeMap<String, f64>,
    /// Of all devices.
    pub work: Work,
    /// The longest operations.
    pub ops: Vec<OpCounters>,
}
