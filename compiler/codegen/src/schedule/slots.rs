//! Places in vector memory that spilled registers take one after another, for kernels that spill more than memory holds.
//!
//! A register that lives within one list of items, from its definition to its last use, may take the place of others that
//! live there before or after it. They share the place's buffer too, so that the scheduler keeps their order.

use super::memory::FIRST_RESERVED;
use crate::kernel::regs::{Reg, registers};
use crate::kernel::{BufferRef, Item, Kernel, VInst};
use rustc_hash::FxHashMap;
use std::ops::RangeInclusive;

/// A list of items of a kernel, in the order of a walk.
type List = u32;

/// Where a register or a place holds a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// In one list only, at positions from a definition to the last use of each value.
    In(List, Vec<RangeInclusive<u32>>),
    /// In several lists, or from before the list's start.
    Widely,
}

impl Held {
    /// Notes a mention of what holds the value at a position.
    fn note(held: &mut Option<Held>, list: List, position: u32, defines: bool) {
        *held = Some(match held.take() {
            None if defines => Held::In(list, vec![position..=position]),
            Some(Held::In(l, mut spans)) if l == list => {
                if defines {
                    spans.push(position..=position);
                } else if let Some(last) = spans.last_mut() {
                    *last = *last.start()..=position;
                }
                Held::In(l, spans)
            }
            _ => Held::Widely,
        });
    }
}

/// A place that spilled registers have taken.
#[derive(Clone, Debug)]
struct Slot {
    place: u32,
    rows: u32,
    buffer: BufferRef,
    held: Option<Held>,
}

/// The places of a kernel, and where registers that are to be spilled live.
#[derive(Default)]
pub struct Slots {
    slots: Vec<Slot>,
    registers: FxHashMap<Reg, Option<Held>>,
}

impl Slots {
    /// A new place, which `r` takes.
    pub fn add(&mut self, r: Reg, (place, rows): (u32, u32), buffer: BufferRef) {
        let held = self.registers.get(&r).cloned().flatten();
        self.slots.push(Slot { place, rows, buffer, held: Some(held.unwrap_or(Held::Widely)) });
    }

    /// Looks where the places of a kernel hold values, and where `regs` do.
    pub fn look(&mut self, kernel: &Kernel, regs: &[Reg]) {
        self.registers = regs.iter().map(|&r| (r, None)).collect();
        self.slots.iter_mut().for_each(|s| s.held = None);
        let places = self.slots.iter().enumerate().map(|(i, s)| (s.buffer, i)).collect();
        let mut walk = Walk { slots: self, places, lists: 0 };
        walk.list(&kernel.body);
    }

    /// A place of `rows` rows that is free while `r` lives: the one whose other values are farthest away.
    pub fn share(&mut self, r: Reg, rows: u32) -> Option<(u32, BufferRef)> {
        let Some(Some(Held::In(list, spans))) = self.registers.get(&r) else { return None };
        let (first, last) = (*spans.first()?.start(), *spans.last()?.end());
        let distance = |s: &Slot| match &s.held {
            Some(Held::In(l, held)) if l == list => held
                .iter()
                .map(|h| if *h.end() <= first { Some(first - h.end()) } else { h.start().checked_sub(last) })
                .try_fold(u32::MAX, |least, d| d.map(|d| least.min(d))),
            _ => None,
        };
        let fitting = self.slots.iter().enumerate().filter(|(_, s)| s.rows == rows);
        let (_, at) = fitting.filter_map(|(i, s)| Some((distance(s)?, i))).max_by_key(|&(d, i)| (d, usize::MAX - i))?;
        let slot = &mut self.slots[at];
        if let Some(Held::In(_, held)) = &mut slot.held {
            held.push(first..=last);
        }
        Some((slot.place, slot.buffer))
    }
}

struct Walk<'a> {
    slots: &'a mut Slots,
    places: FxHashMap<BufferRef, usize>,
    lists: List,
}

impl Walk<'_> {
    fn list(&mut self, items: &[Item]) {
        let list = self.lists;
        self.lists += 1;
        for (position, item) in items.iter().enumerate() {
            if let Item::Inst(v) = item {
                self.instruction(v, list, position as u32);
            }
            item.regions().for_each(|region| self.list(region));
        }
    }

    fn instruction(&mut self, v: &VInst, list: List, position: u32) {
        for r in registers(&v.inst).filter(|r| r.is_use) {
            self.register(r.reg, list, position, false);
        }
        for r in registers(&v.inst).filter(|r| r.is_def && !r.is_use) {
            self.register(r.reg, list, position, true);
        }
        for (buffers, defines) in [(&v.memory.reads, false), (&v.memory.writes, true)] {
            for b in buffers.iter().filter(|b| b.0 < FIRST_RESERVED) {
                if let Some(&slot) = self.places.get(b) {
                    Held::note(&mut self.slots.slots[slot].held, list, position, defines);
                }
            }
        }
    }

    fn register(&mut self, r: Reg, list: List, position: u32, defines: bool) {
        if let Some(held) = self.slots.registers.get_mut(&r) {
            Held::note(held, list, position, defines);
        }
    }
}
