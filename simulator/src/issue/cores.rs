//! What a core knows of the other cores of its device: where it waits for them, and what it has done to the HBM that they
//! have in common.
//!
//! A core runs alone up to a `sync.cores` and stops there. Once all cores are at one, they go on together; see
//! [`crate::team`].

use super::code::Packed;
use super::run::Core;
use crate::fault::FaultKind;
use crate::stats::Cause;
use rustc_hash::FxHashSet;
use systole_isa::Space;

/// A core among those of its device.
#[derive(Debug, Default)]
pub(crate) struct Mates {
    /// Its number.
    pub core: u32,
    /// Cycle from which it waits for the others.
    arrived: Option<u64>,
    /// Cycle in which all may go on.
    release: Option<u64>,
    /// Transfers to and from HBM since all were together, where races are looked for.
    pub touched: FxHashSet<Touch>,
}

/// A transfer that reaches HBM: descriptor, bases, bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Touch {
    pub desc: u32,
    pub src: i64,
    pub dst: i64,
    pub bundle: u32,
}

impl Core<'_> {
    /// Transfers to and from HBM since all cores were together, in order.
    pub fn touches(&self) -> Vec<Touch> {
        let mut all: Vec<Touch> = self.mates.iter().flat_map(|m| m.touched.iter().copied()).collect();
        all.sort_unstable();
        all
    }

    /// Exchanges memories with another core.
    pub fn swap_hbm(&mut self, other: &mut Core<'_>) {
        std::mem::swap(self.hbm, other.hbm);
    }

    /// Makes the core one of several of a device.
    pub fn join_cores(&mut self, core: u32) {
        self.mates = Some(Box::new(Mates { core, ..Mates::default() }));
    }

    /// The cycle from which the core waits for the others of its device, if it does.
    pub fn at_barrier(&self) -> Option<u64> {
        self.mates.as_ref().and_then(|m| m.arrived)
    }

    /// All cores are there: this one goes on at cycle `at`. Transfers that no wait has ordered may still touch HBM.
    pub fn release(&mut self, at: u64) {
        let open: Vec<Touch> = self.race.as_ref().map_or_else(Vec::new, |r| r.open_touches());
        if let Some(m) = &mut self.mates {
            m.arrived = None;
            m.release = Some(at);
            m.touched.clear();
            m.touched.extend(open);
        }
    }

    /// When the core may pass a wait for the others, which it reaches at `t`.
    pub(super) fn cores_ready(&mut self, t: Packed) -> Result<Packed, FaultKind> {
        let Some(m) = &mut self.mates else { return Ok(0) };
        match m.release {
            Some(at) => Ok(at << 4 | Cause::Sync as u64),
            None => {
                m.arrived = Some(t >> 4);
                Err(FaultKind::Deadlock { waits_for: "the other cores of the device".into() })
            }
        }
    }

    /// The core passes a wait for the others.
    pub(super) fn pass_cores(&mut self, share: u32, latency: u32) {
        if let Some(m) = &mut self.mates {
            m.release = None;
        }
        self.dma.divide(share);
        self.floor = self.floor.max((self.now + latency.max(1) as u64) << 4 | Cause::Sync as u64);
    }

    /// Writes down a transfer, if races between cores are looked for.
    pub(super) fn note_hbm(&mut self, desc: u32, src: i64, dst: i64) {
        if self.race.is_none() {
            return;
        }
        let g = &self.l.geometry[desc as usize];
        if let Some(m) = &mut self.mates
            && (g.src == Space::Hbm || g.dst == Space::Hbm)
        {
            m.touched.insert(Touch { desc, src, dst, bundle: self.pc });
        }
    }
}
