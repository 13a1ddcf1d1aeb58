//! What runs together in a plan and what by itself: a kernel's call when nothing else runs, and what is beside exchanges.

use super::action::{Action, Operand};
use super::memory::vmem_map;
use super::planned::{Plan, PlanHead};
use super::step::{KernelEntry, Unit};
use std::collections::BTreeMap;
use systole_isa::ChipConfig;
use systole_isa::program::DebugOp;

/// A kernel, the operations that call it, and the arguments of its first call.
#[derive(Clone, Debug, PartialEq)]
pub struct Called<'a> {
    pub kernel: usize,
    /// Numbers of operations.
    pub ops: Vec<u32>,
    /// Calls in the main program's text.
    pub calls: u32,
    pub args: &'a [Operand],
}

/// The kernels that the main program calls, by number.
pub fn called(plan: &Plan) -> Vec<Called<'_>> {
    let mut all: Vec<Option<Called<'_>>> = vec![None; plan.kernels.len()];
    let mut op = u32::MAX;
    walk(&plan.actions, &mut op, &mut all);
    all.into_iter().flatten().collect()
}

fn walk<'a>(actions: &'a [Action], op: &mut u32, all: &mut [Option<Called<'a>>]) {
    for a in actions {
        match a {
            Action::Mark(o) | Action::Look(o) => *op = *o,
            Action::Call { kernel, args } => {
                let Some(entry) = all.get_mut(*kernel) else { continue };
                let c = entry.get_or_insert_with(|| Called { kernel: *kernel, ops: Vec::new(), calls: 0, args });
                c.calls += 1;
                if !c.ops.contains(op) {
                    c.ops.push(*op);
                }
            }
            Action::While { head, body, .. } => {
                walk(head, op, all);
                walk(body, op, all);
            }
            Action::Switch { branches, .. } => branches.iter().for_each(|b| walk(b, op, all)),
            Action::Copy(_)
            | Action::Move { .. }
            | Action::Scalar { .. }
            | Action::ReadScalar { .. }
            | Action::Host(_)
            | Action::Exchange(..)
            | Action::Begin(..)
            | Action::End(_) => {}
        }
    }
}

/// The operations that call kernels between an exchange's begin and end, by its operation's name.
pub fn behind(actions: &[Action], ops: &[DebugOp]) -> Vec<(String, Vec<String>)> {
    let (mut all, mut op) = (BTreeMap::new(), u32::MAX);
    under_way(actions, &mut Vec::new(), &mut op, &mut all);
    let name = |op: &u32| ops.get(*op as usize).map(|o| o.name.clone());
    let one = |(x, by): (&u32, &Vec<u32>)| Some((name(x)?, by.iter().filter_map(name).collect()));
    all.iter().filter_map(one).collect()
}

fn under_way(actions: &[Action], now: &mut Vec<u32>, op: &mut u32, all: &mut BTreeMap<u32, Vec<u32>>) {
    for a in actions {
        match a {
            Action::Mark(o) | Action::Look(o) => *op = *o,
            Action::Begin(x, _) => *now = x.all().map(|x| x.op).collect(),
            Action::End(_) => now.clear(),
            Action::Call { .. } => {
                for x in now.iter() {
                    let by = all.entry(*x).or_default();
                    if !by.contains(op) {
                        by.push(*op);
                    }
                }
            }
            Action::While { head, body, .. } => {
                under_way(head, now, op, all);
                under_way(body, now, op, all);
            }
            Action::Switch { branches, .. } => branches.iter().for_each(|b| under_way(b, now, op, all)),
            Action::Copy(_)
            | Action::Move { .. }
            | Action::Scalar { .. }
            | Action::ReadScalar { .. }
            | Action::Host(_)
            | Action::Exchange(..) => {}
        }
    }
}

/// A plan that calls a kernel so many times and does nothing else: for its time, not for its answer (arrays hold nothing).
/// The scratch area lies behind the arrays if it fits there.
pub fn alone(plan: &Plan, kernel: KernelEntry, args: &[Operand], times: usize, chip: &ChipConfig) -> Plan {
    let scratch_rows = u64::from(kernel.needs.scratch_rows);
    let rows = vmem_map(chip).arrays;
    let end = |a: &Operand| match a {
        Operand::Array { array, unit, at, .. } if *unit != Unit::Granules => {
            let layout = &plan.arrays[array.index()].layout;
            let packing = if *unit == Unit::ElementRows { layout.dtype.packing() as u64 } else { 1 };
            u64::try_from(*at).unwrap_or(0) / packing + layout.bytes().div_ceil(chip.row_bytes())
        }
        Operand::Array { .. }
        | Operand::Scalar(_)
        | Operand::Sum(_)
        | Operand::Linear { .. }
        | Operand::Const(_)
        | Operand::Scratch(_) => 0,
    };
    let behind = args.iter().map(end).max().unwrap_or(0).next_multiple_of(32);
    let at = if behind + scratch_rows <= rows { behind } else { 0 };
    let place = |a: &Operand| if let Operand::Scratch(_) = a { Operand::Scratch(at) } else { a.clone() };
    let args: Vec<Operand> = args.iter().map(place).collect();
    Plan {
        head: PlanHead { name: kernel.name.clone(), cores: 1, vmem_rows: rows, traps: Vec::new(), ..plan.head.clone() },
        arrays: plan.arrays.clone(),
        kernels: vec![kernel],
        actions: vec![Action::Call { kernel: 0, args }; times],
        ..Plan::default()
    }
}
