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
    calls(&plan.actions, &mut Now::default(), &mut |now, kernel, args| {
        let Some(entry) = all.get_mut(kernel) else { return };
        let c = entry.get_or_insert_with(|| Called { kernel, ops: Vec::new(), calls: 0, args });
        c.calls += 1;
        if !c.ops.contains(&now.op) {
            c.ops.push(now.op);
        }
    });
    all.into_iter().flatten().collect()
}

/// The operations that call kernels between an exchange's begin and end, by its operation's name.
pub fn behind(actions: &[Action], ops: &[DebugOp]) -> Vec<(String, Vec<String>)> {
    let mut all: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    calls(actions, &mut Now::default(), &mut |now, _, _| {
        for x in &now.under_way {
            let by = all.entry(*x).or_default();
            if !by.contains(&now.op) {
                by.push(now.op);
            }
        }
    });
    let name = |op: &u32| ops.get(*op as usize).map(|o| o.name.clone());
    let one = |(x, by): (&u32, &Vec<u32>)| Some((name(x)?, by.iter().filter_map(name).collect()));
    all.iter().filter_map(one).collect()
}

/// Where a walk over actions is: the operation that they belong to, and those of the exchanges under way.
struct Now {
    op: u32,
    under_way: Vec<u32>,
}

impl Default for Now {
    fn default() -> Now {
        Now { op: u32::MAX, under_way: Vec::new() }
    }
}

/// Every call in the main program's text, with its kernel and arguments.
fn calls<'a>(actions: &'a [Action], now: &mut Now, f: &mut dyn FnMut(&Now, usize, &'a [Operand])) {
    for a in actions {
        match a {
            Action::Mark(o) | Action::Look(o) => now.op = *o,
            Action::Begin(x, _) => now.under_way = x.all().map(|x| x.op).collect(),
            Action::End(_) => now.under_way.clear(),
            Action::Call { kernel, args } => f(now, *kernel, args),
            Action::While { .. } | Action::Switch { .. } => a.regions().for_each(|region| calls(region, now, f)),
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
