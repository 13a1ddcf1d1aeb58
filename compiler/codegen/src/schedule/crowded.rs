//! Loops that need so many registers for what stays the same through them (factors of polynomials, rows of weights) that too few are
//! left to have several iterations under way: some of what stays is kept in memory instead, as far as loads are free.

use super::body::Node;
use super::list::width;
use super::lower::straight_line;
use super::modulo::resource_bound;
use crate::kernel::regs::{File, Reg};
use crate::kernel::{Item, Kernel, Loop};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_isa::{ChipConfig, Op, Slot};

/// Vector registers that are left to what loops compute, at least.
const LEFT: u32 = 20;
/// Registers that schedules need beyond what latencies alone ask for: in 1/8, and a few more.
const SLACK: u32 = 9;
const MORE: u32 = 6;
/// The part of all registers, in 1/8, beyond which leaving more of them does not make iterations overlap.
const MOST_LEFT: u32 = 5;

/// Vector registers to be kept in memory, in order.
pub fn crowding(kernel: &Kernel, chip: &ChipConfig) -> Vec<Reg> {
    let mut found = FxHashSet::default();
    Item::each(&kernel.body, &mut |item| {
        if let Item::Loop(l) = item {
            of_loop(l, chip, &mut found);
        }
    });
    let mut all: Vec<Reg> = found.into_iter().collect();
    all.sort();
    all
}

/// Adds those of a loop: the ones that are used least, until the others fit or loads would take longer than the rest of the loop.
fn of_loop(l: &Loop, chip: &ChipConfig, found: &mut FxHashSet<Reg>) {
    let Some(body) = straight_line(&l.body) else { return };
    let nodes: Vec<Node> = body.iter().map(|v| Node::new(v)).collect();
    let mut used: FxHashMap<Reg, u32> = FxHashMap::default();
    let mut made = FxHashSet::default();
    for r in nodes.iter().flat_map(Node::registers).filter(|r| r.reg.file() == File::Vector) {
        if r.is_def {
            made.insert(r.reg);
        } else {
            *used.entry(r.reg).or_default() += 1;
        }
    }
    let mut stay: Vec<(u32, Reg)> =
        used.into_iter().filter(|(r, _)| !made.contains(r) && !found.contains(r)).map(|(r, n)| (n, r)).collect();
    let registers = chip.core.vector_registers;
    let most_left = (registers * MOST_LEFT / 8).max(LEFT);
    if stay.len() <= registers.saturating_sub(most_left) as usize {
        return;
    }
    let (cycles, per) = resource_bound(&nodes, chip);
    let interval = cycles.div_ceil(per.max(1)).max(1);
    // With the matrix units in it, a loop's interval is theirs: what is under way is not told by latencies. Where most registers are
    // for that, its iterations overlap little whatever stays.
    let arrays = nodes.iter().any(|n| matches!(n.inst.op.info().slot, Slot::MxuPush | Slot::MxuPop));
    let needed = if arrays { LEFT } else { (under_way(&nodes, chip).div_ceil(interval) * SLACK).div_ceil(8) + MORE };
    let left = if needed <= most_left { needed.max(LEFT) } else { LEFT };
    let most = registers.saturating_sub(left) as usize;
    let Some(over) = stay.len().checked_sub(most).filter(|&over| over > 0) else { return };
    // What is loaded takes a register from then until its use.
    let loaded = (chip.timing.get(Op::VLd.info().class).latency + 1).min(interval - 1);
    let over = over * interval as usize / (interval - loaded) as usize;
    stay.sort_unstable();
    let loads = nodes.iter().filter(|n| n.inst.op.info().slot == Slot::Vload).count() as u32;
    let mut room = (cycles * width(chip, Slot::Vload) / per.max(1)).saturating_sub(loads);
    for (uses, reg) in stay.into_iter().take(over) {
        if uses > room {
            break;
        }
        room -= uses;
        found.insert(reg);
    }
}

/// Cycles that vector registers made in an iteration are needed for, added up, where all is made as late as what needs it allows.
fn under_way(nodes: &[Node], chip: &ChipConfig) -> u32 {
    let mut wanted: FxHashMap<Reg, (u32, u32)> = FxHashMap::default();
    let mut sum = 0;
    // Times count from the end of the iteration.
    for n in nodes.iter().rev() {
        let latency = chip.timing.get(n.inst.op.info().class).latency.max(1);
        let defs = n.registers().filter(|r| r.is_def).filter_map(|r| wanted.remove(&r.reg));
        let (first, at) =
            defs.fold((u32::MAX, 0), |(last, at), (late, early)| (last.min(late), at.max(early + latency)));
        if first != u32::MAX && n.registers().any(|r| r.is_def && r.reg.file() == File::Vector) {
            sum += at - first;
        }
        for r in n.registers().filter(|r| r.is_use) {
            let needed = wanted.entry(r.reg).or_insert((at, at));
            *needed = (needed.0.min(at), needed.1.max(at));
        }
    }
    sum
}
