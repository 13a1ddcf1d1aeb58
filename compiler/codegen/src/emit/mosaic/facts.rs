//! What a kernel's operations show of its values before it is lowered: how many of a number's low bits are zero, and which
//! arrays copies fill part by part.
//!
//! Invariant: what is said of a number holds in every run, whatever the grid's indices and the operands are.

use rustc_hash::{FxHashMap, FxHashSet};
use systole_mosaic::{Attr, Block, Operation, Value};

/// Low bits of zero: all are.
pub(super) const ALL_ZERO: u32 = 32;
/// Operations that are looked through for one number.
const DEPTH: u32 = 12;

#[derive(Default)]
pub(super) struct Facts<'a> {
    /// The operation that makes a value.
    made: FxHashMap<Value, &'a Operation>,
    /// Arrays of which copies fill a part while others may be read.
    filled: FxHashSet<Value>,
}

impl<'a> Facts<'a> {
    pub fn note(&mut self, block: &'a Block) {
        for o in &block.operations {
            for r in &o.results {
                self.made.insert(*r, o);
            }
            if &*o.name == "tpu.enqueue_dma"
                && let Some(to) = o.groups().and_then(|g| g.get(2).and_then(|g| g.first().copied()))
            {
                self.fills(to);
            }
            o.regions.iter().for_each(|b| self.note(b));
        }
    }

    /// Notes the array whose part a copy goes to.
    fn fills(&mut self, to: Value) {
        let (mut v, mut part) = (to, false);
        while let Some(o) = self.made.get(&v) {
            match &*o.name {
                "tpu.memref_slice" => part = true,
                "tpu.memref_squeeze" | "tpu.memref_reshape" | "tpu.memref_bitcast" | "tpu.erase_memref_layout" => {}
                _ => break,
            }
            v = o.operands[0];
        }
        if part {
            self.filled.insert(v);
        }
    }

    /// Whether copies fill an array part by part: what lies beside a part may be on its way while the part is read.
    pub fn is_filled(&self, array: Value) -> bool {
        self.filled.contains(&array)
    }

    /// How many low bits of an integer are zero for certain.
    pub fn low_zeros(&self, v: Value) -> u32 {
        self.zeros(v, DEPTH)
    }

    fn zeros(&self, v: Value, depth: u32) -> u32 {
        let Some(o) = self.made.get(&v).filter(|_| depth > 0) else { return 0 };
        let of = |i: usize| o.operands.get(i).map_or(0, |v| self.zeros(*v, depth - 1));
        match &*o.name {
            "arith.constant" => match o.attributes.get("value") {
                Some(Attr::Int(n)) => zeros_of(*n),
                _ => 0,
            },
            "arith.muli" => (of(0) + of(1)).min(ALL_ZERO),
            "arith.addi" | "arith.subi" | "arith.remsi" | "arith.remui" | "arith.minsi" | "arith.maxsi"
            | "arith.minui" | "arith.maxui" | "arith.ori" => of(0).min(of(1)),
            "arith.andi" => of(0).max(of(1)),
            "arith.select" => of(1).min(of(2)),
            "arith.index_cast" | "arith.index_castui" | "arith.extsi" | "arith.extui" => of(0),
            "tpu.assume_multiple" => of(0).max(o.int("multiple").map_or(0, zeros_of)),
            _ => 0,
        }
    }
}

/// Low bits of a known number that are zero.
pub(super) fn zeros_of(n: i64) -> u32 {
    if n == 0 { ALL_ZERO } else { n.trailing_zeros().min(ALL_ZERO) }
}
