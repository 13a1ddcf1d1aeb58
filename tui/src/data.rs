//! A profile made ready to be looked at: lanes, occupancies, decoded code.

use std::sync::Arc;
use systole_runtime::profile::code::Code;
use systole_runtime::profile::memory::{Level, occupancy};
use systole_runtime::profile::{DeviceMeta, Lane, Memory, OpRow, Profile, Trace};

/// What views are drawn from.
#[derive(Clone, Debug)]
pub struct Data {
    pub profile: Profile,
    pub lanes: Vec<Lane>,
    pub vmem: Vec<Level>,
    pub hbm: Vec<Level>,
    pub code: Arc<Code>,
}

impl Data {
    pub fn new(profile: Profile) -> Data {
        let code = Arc::new(Code::new(&profile));
        Data::sharing(profile, code)
    }

    /// As [`Data::new`], with code that was decoded before.
    pub fn sharing(profile: Profile, code: Arc<Code>) -> Data {
        Data {
            lanes: Lane::all(&profile),
            vmem: occupancy(&profile, Memory::Vmem),
            hbm: occupancy(&profile, Memory::Hbm),
            code,
            profile,
        }
    }

    /// Cycles of the run.
    pub fn cycles(&self) -> u64 {
        self.profile.meta.cycles.max(1)
    }

    /// A device's counters; the first where there is no such device.
    pub fn device(&self, device: usize) -> Option<&DeviceMeta> {
        let all = &self.profile.meta.devices;
        all.get(device).or_else(|| all.first())
    }

    pub fn trace(&self, device: usize) -> Option<&Trace> {
        let all = &self.profile.traces;
        all.get(device).or_else(|| all.first())
    }

    pub fn occupancy(&self, m: Memory) -> &[Level] {
        match m {
            Memory::Vmem | Memory::Smem => &self.vmem,
            Memory::Hbm => &self.hbm,
        }
    }

    /// Whether an operation's row has the text in its name, opcode or category.
    pub fn matches(&self, o: &OpRow, filter: &str) -> bool {
        let p = &self.profile;
        let opcode = p.row_op(o).map_or("", |i| i.opcode.as_str());
        filter.is_empty()
            || [p.row_name(o), opcode, p.row_category(o).name(), &o.bound]
                .iter()
                .any(|t| t.to_lowercase().contains(&filter.to_lowercase()))
    }
}
