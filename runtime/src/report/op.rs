//! Operations and units of a run as profiles and reports keep them: what they are, and what they did.

use crate::origin::Origin;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use systole_simulator::CAUSES;

/// An HLO operation of the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpInfo {
    pub name: String,
    pub opcode: String,
    /// Line in the source, from 1 (0 if unknown), and where that comes from in the user's program, if the source says.
    pub line: u32,
    pub origin: Option<Origin>,
    /// Useful flops of one execution, and the element type whose peak they are compared with (empty without flops).
    pub flops: f64,
    pub operand: String,
    /// Operations that the same code computes, in the program's order.
    pub members: Vec<Member>,
}

/// An operation that another one's code computes too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its opcode.
    pub opcode: String,
    /// Line in the source, from 1; 0 if unknown.
    pub line: u32,
    /// Where it comes from in the user's program, if the source says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// What one device spent on an operation. Cycles exclude those of others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpRow {
    /// Its place among the program's operations; `None`: code of none of them (launch included).
    pub op: Option<u32>,
    pub start: u64,
    pub cycles: u64,
    /// How often control entered its code.
    pub entries: u64,
    /// How often it was executed: at most `entries`, which count every return to code that was left.
    pub times: u64,
    /// Useful flops of all executions.
    pub flops: f64,
    pub hbm_read: u64,
    pub hbm_write: u64,
    /// CMEM bytes read and written.
    pub cmem: u64,
    /// Rows streamed by matrix units.
    pub mxu_rows: u64,
    /// Stalled cycles, indexed by cause.
    pub stall: [u64; CAUSES],
    /// What bounds it.
    pub bound: String,
    /// Energy of the device, idle power apart.
    pub joules: f64,
}

impl OpRow {
    /// HBM bytes moved.
    pub fn bytes(&self) -> u64 {
        self.hbm_read + self.hbm_write
    }

    pub fn stalled(&self) -> u64 {
        self.stall.iter().sum()
    }
}

/// A unit's cycles: `busy + sum(stall) + idle` are the device's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitRow {
    pub unit: String,
    pub useful: f64,
    pub busy: u64,
    pub stall: [u64; CAUSES],
    pub idle: u64,
}

impl UnitRow {
    pub fn stalled(&self) -> u64 {
        self.stall.iter().sum()
    }
}
