//! Memory dependences: which accesses of a block may touch the same place.
//!
//! Two accesses conflict if they share a buffer and one writes, unless both addresses are a common base plus constants
//! and the rows cannot meet. Accesses that name no buffer are taken to touch every one. Scalar memory is one more
//! buffer that every scalar access touches; copies that move its contents name it ([`BufferRef::SCALAR_MEMORY`]).
//! The accumulators of a matrix unit are a buffer for the pushes and drains that name none.

use super::body::Node;
use super::deps::{Builder, Cyclic};
use crate::kernel::BufferRef;
use crate::kernel::regs::{Reg, base_and_offset, operand_of, row_bits};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use systole_isa::{Effect, Kind};

const EVERYTHING: BufferRef = BufferRef(u32::MAX);
/// The accumulators of matrix unit 0; those of unit `u` are `u` below.
const ACCUMULATORS: u32 = u32::MAX - 2;
/// Buffer numbers from here on are this module's own.
pub(super) const FIRST_RESERVED: u32 = ACCUMULATORS - 15;
/// Iteration distances looked at before giving up on an exact one.
const MAX_DISTANCE: i64 = 64;

/// What an address is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// A register's value after so many definitions in the block.
    Register(Reg, u32),
    Induction(u32),
}

/// Rows `offset + i * stride` above a base, in rows of `bits`.
#[derive(Clone, Copy, Debug)]
struct Place {
    base: Base,
    bits: u32,
    offset: i64,
    stride: i64,
    count: i64,
}

impl Place {
    fn range(&self) -> (i64, i64) {
        let last = self.offset + (self.count - 1) * self.stride;
        (self.offset.min(last), self.offset.max(last))
    }

    fn comparable(&self, o: &Place) -> bool {
        self.base == o.base && self.bits == o.bits
    }

    /// Whether this place and the other moved by `shift` rows meet.
    fn meets(&self, o: &Place, shift: i64) -> bool {
        let ((a0, a1), (b0, b1)) = (self.range(), o.range());
        if b0 + shift > a1 || b1 + shift < a0 {
            return false;
        }
        (0..self.count).any(|i| (0..o.count).any(|j| self.offset + i * self.stride == o.offset + shift + j * o.stride))
    }
}

struct Access {
    node: usize,
    write: bool,
    /// Accesses of this kind to the module's own buffers are ordered elsewhere or need no order among themselves.
    serial: bool,
    copy: u32,
    place: Option<Place>,
}

impl Access {
    fn conflicts_by_kind(&self, o: &Access, buffer: BufferRef) -> bool {
        let accumulators = (FIRST_RESERVED..=ACCUMULATORS).contains(&buffer.0);
        (self.write || o.write) && !(self.serial && o.serial && accumulators)
    }
}

/// Adds the block's memory edges.
pub(super) fn edges(b: &mut Builder<'_>, nodes: &[Node], cyclic: Option<&Cyclic<'_>>) {
    let accesses = collect(nodes, b.chip.core.sublanes, cyclic);
    for (buffer, list) in &accesses {
        let independent = cyclic.is_some_and(|c| c.independent.contains(buffer));
        within(b, list, *buffer, independent);
        if let (Some(c), false) = (cyclic, independent) {
            across(b, list, *buffer, c);
        }
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "no other effect touches accumulators")]
fn collect(nodes: &[Node], sublanes: u32, cyclic: Option<&Cyclic<'_>>) -> BTreeMap<BufferRef, Vec<Access>> {
    let dma = |e| matches!(e, Effect::DmaStart | Effect::DmaWait | Effect::DmaRemote | Effect::Signal | Effect::Cores);
    let vector = |e| matches!(e, Effect::VmemLoad | Effect::VmemStore) || dma(e);
    let blanket = nodes.iter().any(|n| vector(n.inst.op.info().effect) && n.reads.is_empty() && n.writes.is_empty());
    let mut versions: FxHashMap<Reg, u32> = FxHashMap::default();
    let mut out: BTreeMap<BufferRef, Vec<Access>> = BTreeMap::new();
    // Bases redefined in a loop body have no fixed relation between iterations.
    let mut redefined: FxHashMap<Reg, ()> = FxHashMap::default();
    if cyclic.is_some() {
        for n in nodes {
            redefined.extend(n.registers().filter(|r| r.is_def).map(|r| (r.reg, ())));
        }
    }
    for (node, n) in nodes.iter().enumerate() {
        let effect = n.inst.op.info().effect;
        let serial = matches!(effect, Effect::DmaStart | Effect::DmaWait | Effect::MxuAccumulate);
        let place = place(n, sublanes, &versions, &redefined);
        let mut add = |buffer, write| {
            out.entry(buffer).or_default().push(Access { node, write, serial, copy: n.copy, place });
        };
        let wait = matches!(effect, Effect::DmaWait | Effect::Cores);
        if vector(effect) && blanket {
            add(EVERYTHING, effect != Effect::VmemLoad);
        } else {
            n.reads.iter().for_each(|&r| add(r, wait));
            n.writes.iter().for_each(|&w| add(w, true));
        }
        match effect {
            Effect::SmemLoad => add(BufferRef::SCALAR_MEMORY, false),
            Effect::SmemStore | Effect::Cores => add(BufferRef::SCALAR_MEMORY, true),
            _ if dma(effect) && n.reads.is_empty() && n.writes.is_empty() => add(BufferRef::SCALAR_MEMORY, true),
            Effect::MxuAccumulate | Effect::MxuDrain if n.reads.is_empty() && n.writes.is_empty() => {
                let unit = operand_of(&n.inst, Kind::Mxu).unwrap_or(0) as u32 & 15;
                add(BufferRef(ACCUMULATORS - unit), effect == Effect::MxuAccumulate);
            }
            _ => {}
        }
        for r in n.registers().filter(|r| r.is_def) {
            *versions.entry(r.reg).or_default() += 1;
        }
    }
    out
}

#[allow(clippy::wildcard_enum_match_arm, reason = "no other effect has a place in memory")]
fn place(n: &Node, sublanes: u32, versions: &FxHashMap<Reg, u32>, redefined: &FxHashMap<Reg, ()>) -> Option<Place> {
    let effect = n.inst.op.info().effect;
    let (base_at, offset_at) = base_and_offset(n.inst.op)?;
    let (bits, stride, count) = match effect {
        Effect::VmemLoad | Effect::VmemStore => {
            (row_bits(n.inst.op)?, n.inst.operands[offset_at + 1] as i64, sublanes as i64)
        }
        Effect::SmemLoad | Effect::SmemStore => (32, 0, 1),
        _ => return None,
    };
    debug_assert_eq!(n.inst.op.info().operands[base_at].kind, Kind::Su);
    let base = match n.fold {
        Some(f) => Base::Induction(f.iv),
        None => {
            let reg = Reg::new(crate::kernel::regs::File::Scalar, n.inst.operands[base_at] as u32);
            if redefined.contains_key(&reg) {
                return None;
            }
            Base::Register(reg, versions.get(&reg).copied().unwrap_or(0))
        }
    };
    Some(Place { base, bits, offset: n.inst.operands[offset_at] as i64, stride, count })
}

/// Conflicts within an iteration, in program order.
fn within(b: &mut Builder<'_>, list: &[Access], buffer: BufferRef, independent: bool) {
    for (y, after) in list.iter().enumerate() {
        for before in &list[..y] {
            if before.node == after.node
                || !before.conflicts_by_kind(after, buffer)
                || (independent && before.copy != after.copy)
            {
                continue;
            }
            if let (Some(p), Some(q)) = (&before.place, &after.place)
                && p.comparable(q)
                && !p.meets(q, 0)
            {
                continue;
            }
            b.edge(before.node, after.node, 1, 0);
        }
    }
}

/// Conflicts from one iteration to later ones.
fn across(b: &mut Builder<'_>, list: &[Access], buffer: BufferRef, c: &Cyclic<'_>) {
    for first in list {
        for second in list {
            if !first.conflicts_by_kind(second, buffer) {
                continue;
            }
            if let Some(d) = distance(first.place.as_ref(), second.place.as_ref(), c) {
                b.edge(first.node, second.node, 1, d);
            }
        }
    }
}

/// The least number of iterations after which `second` may meet `first`.
fn distance(first: Option<&Place>, second: Option<&Place>, c: &Cyclic<'_>) -> Option<u32> {
    let (Some(p), Some(q)) = (first, second) else { return Some(1) };
    if !p.comparable(q) {
        return Some(1);
    }
    let step = match p.base {
        Base::Register(..) => 0,
        Base::Induction(iv) => c.steps[iv as usize] as i64,
    };
    if step == 0 {
        return p.meets(q, 0).then_some(1);
    }
    let ((a0, a1), (b0, b1)) = (p.range(), q.range());
    // The ranges overlap after so many iterations at least, and at most.
    let (low, high) = if step > 0 { (a0 - b1, a1 - b0) } else { (b0 - a1, b1 - a0) };
    let (low, high) = ((low / step.abs()).max(1), high.div_euclid(step.abs()));
    if high - low > MAX_DISTANCE {
        return u32::try_from(low).ok();
    }
    (low..=high).find(|d| p.meets(q, step * d)).and_then(|d| u32::try_from(d).ok())
}
