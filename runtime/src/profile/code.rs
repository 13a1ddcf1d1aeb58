//! The program of a profile, bundle by bundle.

use super::{Kernel, NO_OP, Profile};
use systole_isa::program::{DebugInfo, DebugPlace, DebugRange};
use systole_isa::{Bundles, ChipConfig, Kind, Program, Slot, read_program};

/// Decoded bundles with what belongs to them.
#[derive(Clone, Debug, Default)]
pub struct Code {
    bundles: Bundles,
    ranges: Vec<DebugRange>,
    /// What of the program's debug data lines and kernels are found by.
    lines: DebugInfo,
    /// Loops by their first and last bundle, inner ones after those around them.
    pub loops: Vec<(u32, u32)>,
}

impl Code {
    /// The program of a profile; empty where it has none that can be read.
    pub fn new(p: &Profile) -> Code {
        read_program(&p.code).map_or_else(|_| Code::default(), |program| Code::of(&program, &p.meta.chip))
    }

    /// A program's code; empty where it cannot be decoded.
    pub fn of(program: &Program, chip: &ChipConfig) -> Code {
        let Ok(bundles) = program.decode(chip) else { return Code::default() };
        let mut loops = Vec::new();
        for (i, b) in bundles.iter().enumerate() {
            let targets = b.iter().filter(|x| x.op != systole_isa::Op::BCall).flat_map(|x| x.iter());
            for (_, to) in targets.filter(|(k, to)| *k == Kind::Target && *to >= 0 && *to as usize <= i) {
                loops.push((to as u32, i as u32));
            }
        }
        loops.sort_by_key(|l| (l.0, std::cmp::Reverse(l.1)));
        let debug = &program.debug;
        let lines = DebugInfo {
            places: debug.places.clone(),
            lines: debug.lines.clone(),
            kernels: debug.kernels.clone(),
            ..DebugInfo::default()
        };
        Code { bundles, ranges: debug.ranges.clone(), lines, loops }
    }

    pub fn len(&self) -> usize {
        self.bundles.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bundles.is_empty()
    }

    /// The bundle's instructions as text.
    pub fn text(&self, bundle: usize) -> String {
        self.texts(bundle).join(" | ")
    }

    /// The text of each of the bundle's instructions.
    pub fn texts(&self, bundle: usize) -> Vec<String> {
        let insts = self.bundles.get(bundle).unwrap_or_default();
        insts.iter().map(systole_simulator::inst_text).collect()
    }

    /// Instructions of the bundle by slot.
    pub fn slots(&self, bundle: usize) -> [u32; Slot::ALL.len()] {
        let mut out = [0; Slot::ALL.len()];
        for i in self.bundles.get(bundle).unwrap_or_default() {
            out[i.op.info().slot as usize] += 1;
        }
        out
    }

    /// The op that a bundle belongs to; none for shared subroutines.
    pub fn op(&self, bundle: u32) -> u32 {
        let i = self.ranges.partition_point(|r| r.start <= bundle);
        match i.checked_sub(1).map(|i| self.ranges[i].op) {
            Some(DebugRange::CALLER) | None => NO_OP,
            Some(op) => op,
        }
    }

    /// The line that a bundle comes from, where its kernel brings one.
    pub fn place(&self, bundle: u32) -> Option<&DebugPlace> {
        self.lines.place(bundle)
    }

    /// Lines, their places and the kernels.
    pub fn debug(&self) -> &DebugInfo {
        &self.lines
    }

    /// First bundle of an op's code.
    pub fn first(&self, op: u32) -> Option<u32> {
        self.ranges.iter().find(|r| r.op == op).map(|r| r.start)
    }

    /// Loops inside a kernel.
    pub fn loops_of(&self, k: &Kernel) -> impl Iterator<Item = (u32, u32)> + '_ {
        let range = k.start..k.start.saturating_add(k.bundles);
        self.loops.iter().copied().filter(move |l| range.contains(&l.0) && range.contains(&l.1))
    }
}
