//! A profile made ready to be looked at: lanes, occupancies, decoded code.

use std::collections::BTreeMap;
use std::sync::Arc;
use systole_runtime::origin::Origin;
use systole_runtime::profile::code::Code;
use systole_runtime::profile::memory::{Level, occupancy};
use systole_runtime::profile::{DeviceMeta, Lane, Memory, OpRow, Profile, Trace};

/// What views are drawn from.
#[derive(Clone, Debug)]
pub struct Data {
    pub profile: Profile,
    pub lanes: Vec<Lane>,
    /// Of every memory that arrays are shown in.
    pub levels: BTreeMap<Memory, Vec<Level>>,
    pub code: Arc<Code>,
    /// Of a run that goes on: where every device is, as cycle and bundle.
    pub places: Vec<(u64, Option<u32>)>,
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
            levels: [Memory::Vmem, Memory::Hbm, Memory::Cmem].map(|m| (m, occupancy(&profile, m))).into(),
            code,
            places: Vec::new(),
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
        self.levels.get(&m).map_or(&[], Vec::as_slice)
    }

    /// Whether an operation's row has the text in its name, opcode or category, in where it comes from, or in a member of its
    /// kernel.
    pub fn matches(&self, o: &OpRow, filter: &str) -> bool {
        if filter.is_empty() {
            return true;
        }
        let (p, filter) = (&self.profile, filter.to_lowercase());
        let has = |t: &str| t.to_lowercase().contains(&filter);
        let from = |origin: &Option<Origin>| origin.as_ref().is_some_and(|o| has(&o.name) || has(&o.place()));
        let info = p.row_op(o);
        [p.row_name(o), p.row_category(o).name(), &o.bound].into_iter().any(has)
            || info.is_some_and(|i| has(&i.opcode) || from(&i.origin))
            || info.is_some_and(|i| i.members.iter().any(|m| has(&m.name) || has(&m.opcode) || from(&m.origin)))
    }
}
