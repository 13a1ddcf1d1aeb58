//! Loops that need so many registers for what stays the same through them (factors of polynomials, rows of weights) that too few are
//! left to have several iterations under way: some of what stays is kept in memory instead, as far as loads are free.

use super::body::Node;
use super::list::width;
use super::lower::straight_line;
use super::modulo::resource_bound;
use crate::kernel::regs::{File, Reg};
use crate::kernel::{Item, Kernel, Loop};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_isa::{ChipConfig, Slot};

/// Vector registers that are left to what loops compute.
const LEFT: u32 = 20;

/// Vector registers to be kept in memory, in order.
pub fn crowding(kernel: &Kernel, chip: &ChipConfig) -> Vec<Reg> {
    let mut found = FxHashSet::default();
    each_loop(&kernel.body, &mut |l| of_loop(l, chip, &mut found));
    let mut all: Vec<Reg> = found.into_iter().collect();
    all.sort();
    all
}

fn each_loop(items: &[Item], f: &mut dyn FnMut(&Loop)) {
    for item in items {
        match item {
            Item::Loop(l) => {
                f(l);
                each_loop(&l.body, f);
            }
            Item::If { then, otherwise, .. } => {
                each_loop(then, f);
                each_loop(otherwise, f);
            }
            Item::While { head, body, .. } => {
                each_loop(head, f);
                each_loop(body, f);
            }
            Item::Inst(_) | Item::Call { .. } | Item::Mark { .. } => {}
        }
    }
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
    let most = chip.core.vector_registers.saturating_sub(LEFT) as usize;
    let Some(over) = stay.len().checked_sub(most).filter(|&over| over > 0) else { return };
    stay.sort_unstable();
    let (cycles, per) = resource_bound(&nodes, chip);
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
