//! One operation of a plan, for people: what was chosen over what.

use super::action::{Action, Copy, CopyKind, Operand, unsaid};
use super::guide::is_named;
use super::planned::Plan;
use super::spec::KernelSpec;
use super::step::{Unit, Use};
use super::text::{bytes, describe};
use std::fmt::Write;
use systole_codegen::emit::mxu::{Contraction, Tile, filled};
use systole_isa::chip::{MxuConfig, Part};
use systole_isa::program::DebugRange;
use systole_isa::{ChipConfig, Space};

/// What the plan says of the operations whose names match a pattern (`*` stands for any text).
pub fn explain(plan: &Plan, chip: &ChipConfig, pattern: &str) -> String {
    let mut out = String::new();
    for (i, o) in plan.ops.iter().enumerate().filter(|(_, o)| is_named(pattern, &o.name)) {
        let flops = if o.flops > 0.0 { format!(", {:.3e} flops", o.flops) } else { String::new() };
        let _ = writeln!(
            out,
            "{} ({}, line {}): {} read and written{flops}",
            o.name,
            o.opcode,
            o.line,
            bytes(o.bytes as u64)
        );
        if let Some(members) = plan.members.get(&(i as u32)) {
            let _ = writeln!(out, "  its kernel computes too: {}", members.join(", "));
        }
        let mut calls = Calls { plan, chip, op: i as u32, now: DebugRange::NONE, behind: Vec::new(), out: &mut out };
        calls.actions(&plan.actions);
        if let Some(c) = plan.choices.iter().find(|c| c.name == o.name) {
            let _ = writeln!(out, "  exchanged by: {}; {}", c.algorithm.name(), c.reason);
        }
    }
    for (op, members) in &plan.members {
        for m in members.iter().filter(|m| is_named(pattern, m)) {
            let root = plan.ops.get(*op as usize).map_or("?", |o| o.name.as_str());
            let _ = writeln!(out, "{m}: has no array; computed in the kernel of {root}");
        }
    }
    if !out.is_empty() && !plan.head.part.is_all() {
        let _ = writeln!(out, "{}", used(&plan.head.part, chip));
    }
    out
}

/// What the program leaves of a chip.
fn used(part: &Part, chip: &ChipConfig) -> String {
    let vmem = part.vmem_bytes.map(|n| format!("{} of {} of vector memory", bytes(n), bytes(chip.vmem.bytes)));
    let registers = part.vector_registers.map(|n| format!("{n} of {} vector registers", chip.core.vector_registers));
    let units = part.matrix_units.map(|n| format!("{n} of {} matrix units", chip.mxu.count));
    let slots = part.vector_slots.map(|n| format!("{n} of {} slots of vector operations", chip.core.valu_slots));
    let all: Vec<String> = [vmem, registers, units, slots].into_iter().flatten().collect();
    format!("the program uses {}: with more it takes longer or does not fit", all.join(", "))
}

/// The calls of one operation.
struct Calls<'a> {
    plan: &'a Plan,
    chip: &'a ChipConfig,
    op: u32,
    /// Operation of the action at hand.
    now: u32,
    /// Copies that are under way.
    behind: Vec<&'a Copy>,
    out: &'a mut String,
}

impl<'a> Calls<'a> {
    fn actions(&mut self, actions: &'a [Action]) {
        for a in actions {
            match a {
                Action::Mark(op) | Action::Look(op) => self.now = *op,
                Action::Copy(c) => match c.kind {
                    CopyKind::Load { .. } | CopyKind::Store { .. } => self.behind.push(c),
                    CopyKind::WaitIn | CopyKind::WaitOut => self.behind.retain(|b| b.pending != c.pending),
                },
                Action::Call { kernel, args } if self.now == self.op => self.call(*kernel, args),
                Action::While { .. } | Action::Switch { .. } => a.regions().for_each(|region| self.actions(region)),
                Action::Call { .. } | Action::Move { .. } | unsaid!() => {}
            }
        }
    }

    fn call(&mut self, kernel: usize, args: &[Operand]) {
        let Some(k) = self.plan.kernels.get(kernel) else { return };
        let cycles = k.cycles.map_or_else(String::new, |c| format!(", {c:.0} cycles by estimate"));
        let _ = writeln!(self.out, "  kernel {kernel}: {}{cycles}", describe(&k.spec));
        if k.needs.scratch_rows > 0 {
            let scratch = u64::from(k.needs.scratch_rows) * self.chip.row_bytes();
            let _ = writeln!(self.out, "    windows: {} of vector memory", bytes(scratch));
        }
        if let KernelSpec::Product { contraction, tile, .. } = &k.spec {
            self.through(contraction, tile);
        }
        for c in &k.considered {
            let more =
                k.cycles.map_or_else(String::new, |best| format!(" ({:+.1} %)", 100.0 * (c.cycles / best - 1.0)));
            let _ = writeln!(self.out, "    rather than {}: {:.0} cycles{more}", c.way, c.cycles);
        }
        for a in args {
            self.array(a);
        }
        for c in &self.behind {
            let name = self.plan.arrays.get(c.array.index()).map_or("?", |a| a.name.as_str());
            let way = match c.kind {
                CopyKind::Load { granule, .. } => format!("from {}", self.plan.head.memory(granule)),
                CopyKind::Store { granule, .. } => format!("to {}", self.plan.head.memory(granule)),
                CopyKind::WaitIn | CopyKind::WaitOut => continue,
            };
            let _ = writeln!(self.out, "    behind it: {name} {way}, {}", bytes(c.pending.bytes.into()));
        }
    }

    /// Why arrays that are wider than a product does not make it faster: results pass all of their cells.
    fn through(&mut self, contraction: &Contraction, tile: &Tile) {
        let mxu = &self.chip.mxu;
        let Some((rows, cols)) = filled(contraction, tile, self.chip) else { return };
        if (rows, cols) == (mxu.rows, mxu.cols) {
            return;
        }
        let narrow = MxuConfig { rows, cols, ..mxu.clone() }.fill_cycles();
        let _ = writeln!(
            self.out,
            "    uses {rows} x {cols} of an array's {} x {} cells; a result passes all of them in {} cycles (of an array of \
             the part's size: {narrow}), which what follows waits for",
            mxu.rows,
            mxu.cols,
            mxu.fill_cycles()
        );
    }

    fn array(&mut self, a: &Operand) {
        let Operand::Array { array, usage, unit, at, .. } = a else { return };
        let Some(array) = self.plan.arrays.get(array.index()) else { return };
        let how = match usage {
            Use::Read => "reads",
            Use::Write => "writes",
            Use::Update | Use::Tiles | Use::First => "updates",
        };
        let size = bytes(array.layout.bytes());
        if *unit == Unit::Granules {
            let memory = self.plan.head.memory(u64::try_from(*at).unwrap_or(0));
            let _ = writeln!(self.out, "    {how} {} in {memory}, block by block ({size})", array.name);
            return;
        }
        let op = |n: u32| self.plan.ops.get(n as usize).map_or("the end", |o| o.name.as_str());
        let here = |s: &&systole_isa::program::DebugBuffer| {
            let begun = s.first == DebugRange::NONE || s.first <= self.op;
            s.space == Space::Vmem && s.name == array.name && begun && self.op <= s.last
        };
        let stay = self
            .plan
            .residences
            .iter()
            .find(here)
            .map_or_else(String::new, |s| format!(", there until {}", op(s.last)));
        let _ = writeln!(self.out, "    {how} {} in vector memory ({size}{stay})", array.name);
    }
}
