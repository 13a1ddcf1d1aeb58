//! Arguments beyond those that registers have room for: callers leave them in the last words of scalar memory, and what is called
//! takes them from there before anything else.
//!
//! All calls share the words: between the stores and the loads there is nothing but the call.

use super::build_units::OFFSET_MAX;
use super::{Item, S, Unit, VInst};
use systole_isa::{ChipConfig, Inst, Op};

/// Scalar registers that instructions and loops need beside a kernel's arguments, `s0` included.
const OTHERS: u32 = 4;

/// Arguments of a call that registers have room for.
pub fn in_registers(chip: &ChipConfig) -> u32 {
    chip.core.scalar_registers.saturating_sub(OTHERS)
}

/// The word behind the one where the first argument in memory is; the others come before it.
pub fn end_of_words(chip: &ChipConfig) -> u64 {
    (chip.smem.bytes / 4).min(OFFSET_MAX as u64 + 1)
}

impl Unit {
    /// Passes arguments in memory where registers have no room; the number of words that this takes.
    pub fn pass_in_memory(&mut self, chip: &ChipConfig) -> u32 {
        let room = in_registers(chip) as usize;
        let most = self.kernels.iter().map(|k| k.params.len()).max().unwrap_or(0).saturating_sub(room) as u32;
        if most == 0 || u64::from(most) > end_of_words(chip) {
            return most;
        }
        let word = |i: usize| end_of_words(chip) as i32 - 1 - i as i32;
        for k in &mut self.kernels {
            stored(&mut k.body, room, &word);
            let rest = k.params.split_off(room.min(k.params.len()));
            k.body.splice(0..0, rest.iter().enumerate().map(|(i, p)| scalar(Op::SLd, *p, word(i))));
        }
        most
    }
}

fn stored(items: &mut Vec<Item>, room: usize, word: &dyn Fn(usize) -> i32) {
    let mut out = Vec::with_capacity(items.len());
    for mut item in items.drain(..) {
        item.regions_mut().for_each(|region| stored(region, room, word));
        if let Item::Call { args, .. } = &mut item {
            let rest = args.split_off(room.min(args.len()));
            out.extend(rest.iter().enumerate().map(|(i, a)| scalar(Op::SSt, *a, word(i))));
        }
        out.push(item);
    }
    *items = out;
}

/// A load or store of a register at a word of scalar memory.
fn scalar(op: Op, s: S, word: i32) -> Item {
    let inst = Inst::new(op, &[s.0 as i32, 0, word]);
    Item::Inst(VInst::from(inst))
}
