//! The race checker: which transfers no wait has ordered yet, and what conflicts with them.
//!
//! Whether a wait orders a transfer does not depend on timing: a transfer of `b` bytes on a semaphore is known to be
//! complete once the bytes waited for exceed what all the other unordered transfers of that semaphore could have
//! delivered. Until then, touching its destination or writing its source is a race.

use super::geometry::{Geometry, Side};
use crate::fault::{DmaSide, FaultKind, Issued};
use crate::issue::cores::Touch;
use crate::load::Loaded;
use systole_isa::{Inst, Op, Space};

/// A transfer that no wait has ordered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub desc: u32,
    pub sem: u32,
    pub bundle: u32,
    pub bytes: u64,
    pub src: i64,
    pub dst: i64,
    /// The other device of a transfer between devices: those with one device on one semaphore end in order.
    pub peer: Option<u32>,
}

/// An access to check: bytes `start..end` of a memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub space: Space,
    pub start: i64,
    pub end: i64,
    pub write: bool,
}

/// The transfer that an access conflicts with, and the side of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conflict {
    pub transfer: Transfer,
    pub side: DmaSide,
}

/// Transfers in progress as far as waits tell.
#[derive(Debug, Default)]
pub(crate) struct RaceChecker {
    open: Vec<Transfer>,
    /// Bytes waited for, by semaphore, that no ordered transfer accounts for.
    waited: Vec<u64>,
}

impl RaceChecker {
    pub fn new(semaphores: usize) -> RaceChecker {
        RaceChecker { open: Vec::new(), waited: vec![0; semaphores] }
    }

    /// Whether a vector or scalar access conflicts.
    pub fn check(&self, geometry: &[Geometry], a: Access) -> Option<Conflict> {
        for t in &self.open {
            let g = &geometry[t.desc as usize];
            if g.dst == a.space && g.to.touches(t.dst, a.start, a.end) {
                return Some(Conflict { transfer: *t, side: DmaSide::Destination });
            }
            if a.write && g.src == a.space && g.from.touches(t.src, a.start, a.end) {
                return Some(Conflict { transfer: *t, side: DmaSide::Source });
            }
        }
        None
    }

    /// Adds a transfer, or says what it conflicts with.
    pub fn start(&mut self, geometry: &[Geometry], new: Transfer) -> Option<Conflict> {
        let n = &geometry[new.desc as usize];
        for t in &self.open {
            let g = &geometry[t.desc as usize];
            let hit = |s1: Space, a: &Side, at: i64, s2: Space, b: &Side, bt: i64| s1 == s2 && a.overlaps(at, b, bt);
            if hit(g.dst, &g.to, t.dst, n.src, &n.from, new.src) || hit(g.dst, &g.to, t.dst, n.dst, &n.to, new.dst) {
                return Some(Conflict { transfer: *t, side: DmaSide::Destination });
            }
            if hit(g.src, &g.from, t.src, n.dst, &n.to, new.dst) {
                return Some(Conflict { transfer: *t, side: DmaSide::Source });
            }
        }
        self.open.push(new);
        None
    }

    /// A wait took `bytes` from a semaphore.
    pub fn wait(&mut self, sem: u32, bytes: u64) {
        let waited = &mut self.waited[sem as usize];
        *waited += bytes;
        let mut total: u64 = self.open.iter().filter(|t| t.sem == sem).map(|t| t.bytes).sum();
        loop {
            let done = self.open.iter().position(|t| t.sem == sem && total - t.bytes < *waited || t.bytes == 0);
            let Some(i) = done else { break };
            let t = self.open.remove(i);
            if t.sem == sem {
                total -= t.bytes;
                *waited = waited.saturating_sub(t.bytes);
            }
        }
        self.in_order(sem);
    }

    /// Transfers with one other device pass one link after the other: the first that began ends first.
    fn in_order(&mut self, sem: u32) {
        let peer = self.open.iter().find(|t| t.sem == sem).and_then(|t| t.peer);
        if peer.is_none() || self.open.iter().any(|t| t.sem == sem && t.peer != peer) {
            return;
        }
        let waited = &mut self.waited[sem as usize];
        let mut blocked = false;
        self.open.retain(|t| {
            blocked |= t.sem == sem && t.bytes > *waited;
            let done = t.sem == sem && !blocked;
            if done {
                *waited -= t.bytes;
            }
            !done
        });
    }
}

impl RaceChecker {
    /// The transfers that no wait has ordered.
    pub fn open_touches(&self) -> Vec<Touch> {
        let touch = |t: &Transfer| Touch { desc: t.desc, src: t.src, dst: t.dst, bundle: t.bundle };
        self.open.iter().map(touch).collect()
    }

    /// Whether every transfer has been ordered by a wait.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl Conflict {
    /// The memory in which the transfer's side lies.
    pub fn memory(&self, geometry: &[Geometry]) -> Space {
        let g = &geometry[self.transfer.desc as usize];
        if self.side == DmaSide::Source { g.src } else { g.dst }
    }

    /// The fault of an access (`store to`, ..) of a memory.
    pub fn fault(&self, l: &Loaded, access: &'static str, space: Space) -> FaultKind {
        let bundle = &l.bundles()[self.transfer.bundle as usize];
        let desc = self.transfer.desc as usize % l.program.descs.len().max(1);
        let start = |i: &&Inst| matches!(i.op, Op::DmaStart | Op::DmaRemote) && i.operands[0] as usize == desc;
        FaultKind::Race {
            access,
            memory: memory_name(space),
            dma: Issued {
                bundle: self.transfer.bundle,
                inst: bundle.iter().find(start).map(crate::text::inst).unwrap_or_default().into(),
            },
            dma_side: self.side,
        }
    }
}

/// A memory's name in messages.
pub(crate) fn memory_name(space: Space) -> &'static str {
    match space {
        Space::Hbm => "HBM",
        Space::Vmem => "VMEM",
        Space::Smem => "SMEM",
    }
}
