//! Direct exchange: every device sends to all others of its group at once.

use super::{Request, Table, alike};
use crate::plan::collective::How;
use crate::plan::collective::choose::Algorithm;
use crate::plan::lower::Lower;
use serde::{Deserialize, Serialize};
use systole_hlo::analysis::parts::Parts;
use systole_hlo::error::CompileError;

/// What is sent where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DirectKind {
    /// The own part to everybody's place for it.
    AllGather,
    /// Everybody's part of the own array to them.
    AllToAll,
    /// The first device's array to everybody.
    Broadcast,
    /// Everybody's part to their vector memory, where they combine what they got in the group's order.
    Reduce,
    /// To at most one device.
    Permute,
}

/// A direct exchange.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Direct {
    pub kind: DirectKind,
    pub parts: Parts,
    /// The result is a part (else as large as the whole array).
    pub devices: u32,
    /// Word 0: the own place in the group; then (device, place) of all others. Of a permutation: target and source, or -1.
    pub table: Table,
    pub send: u32,
    pub recv: u32,
    /// Receives the second half of what is sent in halves.
    pub recv2: u32,
    pub ready: u32,
    pub local: u32,
    pub packing: u64,
    /// The kernel that combines two contributions.
    pub kernel: Option<usize>,
}

impl Lower<'_> {
    pub(super) fn direct_plan(&mut self, q: &Request<'_>, kind: DirectKind) -> Result<Direct, CompileError> {
        if matches!(kind, DirectKind::AllToAll | DirectKind::Broadcast) {
            self.note(q, Algorithm::Direct, "the only way".into());
        }
        let devices = self.plan.pod.shape.devices() as usize;
        let mut rows = vec![Vec::new(); devices];
        for g in &q.groups {
            for (rank, &d) in g.iter().enumerate() {
                let row: &mut Vec<i32> = &mut rows[d as usize];
                row.push(rank as i32);
                for (other, place) in self.peers(g, rank) {
                    row.extend([other as i32, place as i32]);
                }
            }
        }
        // The first device of a broadcast does something else.
        let broadcast = kind == DirectKind::Broadcast;
        let what = if broadcast { "broadcast" } else { "direct" };
        if self.plan.pod.told_apart.insert((what, q.groups.clone())) {
            self.plan.pod.distinguish(|t, d| {
                let row = &rows[d as usize];
                let first = broadcast && row.first() == Some(&0);
                let to = row.get(1..).unwrap_or_default().chunks_exact(2).map(|p| alike::way(t, d, p[0] as u32));
                (first, to.collect::<Vec<u32>>())
            });
        }
        let table = self.plan.pod.table(rows);
        let ready = self.plan.pod.handshake(&format!("ready {:?}", q.groups))?;
        self.direct_with(q, kind, table, ready)
    }

    /// The other devices of a group and their places, in the order in which a device sends to them: every device takes the
    /// same ways in the same order, so that what all send at one time does not meet.
    fn peers(&self, group: &[u32], rank: usize) -> Vec<(u32, u32)> {
        let n = group.len();
        let topology = self.plan.pod.shape.topology.as_ref().filter(|t| !t.full);
        let way = |other: usize| -> Vec<u32> {
            let Some(t) = topology else { return Vec::new() };
            let place = |d: u32| (t.coordinates(t.chip_of(d)), t.core_of(d));
            let ((a, i), (b, j)) = (place(group[rank]), place(group[other]));
            // Near ones first, both ways in turn.
            let step = |((a, b), n): ((&u32, &u32), &u32)| {
                let up = (b + n - a) % n;
                if 2 * up <= *n { 2 * up } else { 2 * (n - up) + 1 }
            };
            let ways: Vec<u32> = a.iter().zip(&b).zip(&t.dims).map(step).collect();
            let inside = (j + t.devices_per_chip - i) % t.devices_per_chip;
            [ways.iter().sum::<u32>()].into_iter().chain(ways).chain([inside]).collect()
        };
        let mut others: Vec<usize> = (0..n).filter(|&o| o != rank).collect();
        others.sort_by_cached_key(|&o| (way(o), (o + n - rank) % n));
        others.into_iter().map(|o| (group[o], o as u32)).collect()
    }

    fn direct_with(
        &mut self,
        q: &Request<'_>,
        kind: DirectKind,
        table: Table,
        ready: u32,
    ) -> Result<Direct, CompileError> {
        Ok(Direct {
            kind,
            parts: q.parts.clone(),
            devices: q.groups.first().map_or(1, Vec::len) as u32,
            table,
            send: self.plan.pod.semaphore("send 0")?,
            recv: self.plan.pod.semaphore("recv 0")?,
            recv2: self.plan.pod.semaphore("recv 1")?,
            ready,
            local: self.plan.pod.semaphore("local")?,
            packing: q.dtype.packing() as u64,
            kernel: None,
        })
    }

    /// A permutation by pairs of (source, target).
    pub(super) fn permute(&mut self, q: &Request<'_>, pairs: &[(u32, u32)]) -> Result<How, CompileError> {
        let together = Request { groups: pairs.iter().map(|&(s, t)| vec![s, t]).collect(), ..q.clone() };
        self.note(&together, Algorithm::Direct, format!("{} pairs", pairs.len()));
        let devices = self.plan.pod.shape.devices() as usize;
        let mut rows = vec![vec![-1, -1]; devices];
        for &(s, t) in pairs {
            rows[s as usize][0] = t as i32;
            rows[t as usize][1] = s as i32;
        }
        self.distinguish_pairs(&rows);
        let table = self.plan.pod.table(rows);
        let ready = self.plan.pod.handshake(&format!("ready pairs {pairs:?}"))?;
        Ok(How::Direct(vec![self.direct_with(q, DirectKind::Permute, table, ready)?]))
    }

    /// Tells devices apart by rows of target and source, or -1.
    pub(super) fn distinguish_pairs(&mut self, rows: &[Vec<i32>]) {
        self.plan.pod.distinguish(|t, d| {
            let way = |&other: &i32| u32::try_from(other).ok().map(|other| alike::way(t, d, other));
            rows[d as usize].iter().map(way).collect::<Vec<_>>()
        });
    }
}
