//! The fields of messages that the reader knows: those that it reads, and those that change no result.
//!
//! A field of neither kind may change what a program means, so a message that has one is refused. Numbers are those of
//! XLA's `hlo.proto` and `xla_data.proto`.

use super::wire::{Damage, Message, Read};

/// A message's fields.
pub(super) struct Fields {
    /// What the message is called in messages.
    what: &'static str,
    read: &'static [u32],
    /// Layout, scheduling, profiling and backends' hints: no result depends on them.
    silent: &'static [u32],
}

pub(super) const MODULE: Fields = Fields {
    what: "a module",
    read: &[1, 3, 4, 6, 8, 15],
    // Name and ids, schedule, shardings of the boundary, prefetches, profiles, stack frames, donors, attributes, payloads.
    silent: &[2, 5, 7, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23],
};

pub(super) const COMPUTATION: Fields = Fields { what: "a computation", read: &[1, 2, 5, 6], silent: &[4, 7, 8] };

pub(super) const INSTRUCTION: Fields = Fields {
    what: "an instruction",
    read: &[
        1, 2, 3, 7, 8, 9, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34,
        35, 36, 38, 40, 43, 47, 48, 49, 50, 51, 52, 58, 59, 60, 62, 63, 65, 66, 67, 69, 70, 71, 72, 81, 85, 87, 90, 92,
        93, 94, 95, 99,
    ],
    // Control predecessors, the older channel, domains, layouts, replication, frontend attributes, prefetches, aliases,
    // schedule, calling convention, thread, statistics, origins, composites, accuracy asked for, whether a scan's body is
    // associative, the kind of a convolution (its numbers say the same).
    silent: &[37, 45, 54, 55, 56, 57, 61, 68, 73, 74, 76, 77, 79, 80, 82, 88, 89, 91, 96, 97],
};

pub(super) const GROUPS: Fields = Fields { what: "a list of device groups", read: &[1], silent: &[] };
pub(super) const IOTA_GROUPS: Fields = Fields { what: "a list of device groups", read: &[1, 2, 3, 4], silent: &[] };
pub(super) const MESH_GROUPS: Fields = Fields { what: "a list of mesh axes", read: &[1, 2], silent: &[] };
pub(super) const MESH: Fields = Fields { what: "a mesh", read: &[1, 2, 3], silent: &[] };
pub(super) const SHARDING: Fields =
    Fields { what: "a sharding", read: &[1, 3, 4, 5, 6, 9, 10], silent: &[2, 7, 11, 12, 13] };
pub(super) const PRECISION: Fields = Fields { what: "a precision", read: &[1, 2], silent: &[] };

impl Fields {
    /// Refuses a message with a field that may mean something and is not read.
    pub fn check(&self, m: &Message<'_>) -> Read<()> {
        let known = |n: u32| self.read.contains(&n) || self.silent.contains(&n);
        match m.set_fields().find(|&(n, _)| !known(n)) {
            None => Ok(()),
            Some((number, at)) => {
                let what = format!("{} has field {number}, which is not known and may change what it means", self.what);
                Err(Damage { at, what })
            }
        }
    }
}
