//! The plan of a program for a chip: every decision, and nothing else that its code depends on.

use super::action::Action;
use super::collective::Choice;
use super::step::{BufferKind, KernelEntry, SplitPart};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use systole_isa::Layout;
use systole_isa::chip::Part;
use systole_isa::program::{DebugBuffer, DebugOp, HostArray, PodShape};

/// An array of the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedArray {
    pub name: String,
    pub layout: Layout,
    pub kind: BufferKind,
    /// Its first granule in HBM, if it ever is there.
    pub granule: Option<u64>,
}

/// What the code of collectives depends on besides each of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodCode {
    pub shape: PodShape,
    /// First granule of the tables in HBM, if there are any: a row for each device.
    pub tables: Option<u64>,
    /// Words of a row, and the first word of scalar memory that holds the device's own.
    pub words: u32,
    pub base: u32,
    /// First of the words that say where the exchange under way is.
    pub state: u32,
}

/// What a plan says of the program as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanHead {
    pub name: String,
    /// Name and fingerprint of the chip.
    pub chip: String,
    pub fingerprint: u64,
    /// What the program uses of the chip.
    #[serde(default, skip_serializing_if = "Part::is_all")]
    pub part: Part,
    /// Cores of a device that run the program; below two, only the first does.
    pub cores: u32,
    /// Words of scalar memory.
    pub words: u32,
    pub hbm_bytes: u64,
    /// First granule of common memory, on chips that have one: behind those of HBM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmem_from: Option<u64>,
    /// Highest word row of vector memory in use.
    pub vmem_rows: u64,
    /// Messages of traps.
    pub traps: Vec<String>,
}

impl PlanHead {
    /// Name of the memory that a granule is in.
    pub fn memory(&self, granule: u64) -> &'static str {
        if self.cmem_from.is_some_and(|first| granule >= first) { "CMEM" } else { "HBM" }
    }
}

/// See the module docs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub head: PlanHead,
    pub arrays: Vec<PlannedArray>,
    pub kernels: Vec<KernelEntry>,
    /// Kernels that are parts of a larger one, by the first part: each core's. Calls name the first part.
    pub splits: BTreeMap<usize, Vec<SplitPart>>,
    /// What the main program does.
    pub actions: Vec<Action>,
    /// Operations that actions belong to, by number.
    pub ops: Vec<DebugOp>,
    /// Operations that are computed in the kernel of another one, by that one's number: names.
    pub members: BTreeMap<u32, Vec<String>>,
    pub params: Vec<HostArray>,
    pub results: Vec<HostArray>,
    pub pod: PodCode,
    /// What was chosen for each collective, and why.
    pub choices: Vec<Choice>,
    /// Where arrays are, and when.
    pub residences: Vec<DebugBuffer>,
}
