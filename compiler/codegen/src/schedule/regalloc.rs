//! Register allocation over linear code: every virtual register gets a physical one that no overlapping live range has.
//!
//! Ranges have holes (see [`super::liveness`]), so registers that take turns share. s0 and m0 are the hardware
//! constants; pairs are even-aligned and share the vector file. Parameters and call arguments have given numbers.
//! When a file runs out, [`Overflow`] says where and which registers live there.

use super::Shortage;
use super::chaos::Chaos;
use super::code::Code;
use super::liveness::{self, Numbering, Ranges};
use crate::kernel::regs::{File, Reg, registers};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use systole_isa::{ChipConfig, Op};

/// A register file that is too small.
#[derive(Clone, Debug)]
pub struct Overflow {
    pub short: Shortage,
    /// Index into the code's regions.
    pub region: u32,
    /// Registers of the kernel that live there, the cheapest to keep in memory first.
    pub candidates: Vec<Candidate>,
}

/// A register of the kernel that may be kept in memory.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub reg: Reg,
    /// The region does not touch it, and it is used in shallower loops only.
    pub through: bool,
}

impl Overflow {
    /// So many of the candidates at most; `through`: of those that only live through the region.
    pub fn cheapest(&self, most: usize, through: bool) -> Vec<Reg> {
        self.candidates.iter().filter(|c| c.through || !through).map(|c| c.reg).take(most).collect()
    }
}

/// Parts of an instruction's latency for which results that nothing reads keep their registers, where the whole is too much.
const PARTS: [u32; 3] = [2, 4, 8];

/// A register file: by position the registers that are occupied there, a bit each, and how many there are.
struct Occupied {
    at: Vec<u128>,
    registers: u32,
}

impl Occupied {
    /// `taken`: registers that are occupied everywhere.
    fn new(registers: u32, positions: usize, taken: u128) -> Occupied {
        debug_assert!(registers <= u128::BITS, "numbers of registers have seven bits");
        Occupied { at: vec![taken; positions], registers }
    }

    /// The registers that are free in ranges.
    fn free(&self, ranges: &Ranges) -> u128 {
        let of = |&(from, to): &(u32, u32)| self.at[from as usize..to as usize].iter().fold(0, |all, at| all | at);
        let taken = ranges.iter().fold(0, |all, r| all | of(r));
        !taken & u128::MAX.checked_shr(u128::BITS - self.registers).unwrap_or(0)
    }

    fn occupy(&mut self, ranges: &Ranges, registers: u128) {
        for &(from, to) in ranges {
            self.at[from as usize..to as usize].iter_mut().for_each(|at| *at |= registers);
        }
    }
}

struct Files {
    scalar: Occupied,
    vector: Occupied,
    mask: Occupied,
}

/// Registers of a physical file that there are: zero of scalars and of masks is a constant.
fn have(chip: &ChipConfig, file: File) -> u32 {
    let c = &chip.core;
    match file {
        File::Scalar => c.scalar_registers - 1,
        File::Vector | File::Pair => c.vector_registers,
        File::Mask => c.mask_registers - 1,
    }
}

/// One more than the last position.
fn positions(code: &Code) -> usize {
    2 * code.bundles.len() + 2
}

/// Allocates and rewrites the code to physical numbers. Dead pure instructions go away. `pinned` registers of the
/// kernel are never candidates.
pub fn allocate(
    code: &mut Code,
    chip: &ChipConfig,
    chaos: &mut Chaos,
    pinned: &dyn Fn(Reg) -> bool,
) -> Result<(), Overflow> {
    let numbering = Numbering::new(code.names.counts());
    // A second write of a register waits for the first, so results that nothing reads are kept apart as far as there is room.
    let flight = |part: u32| move |op: Op| (chip.timing.get(op.info().class).latency / part).max(1);
    let whole = liveness::analyse(code, &numbering).apart(&flight(1));
    let assigned = match fitting(code, chip, &numbering, &whole, chaos) {
        Some(whole) => whole,
        None => {
            // Without what is gone, others have no reader.
            let lives = liveness::analyse(code, &numbering);
            let pressure = pressure(code, &numbering, &lives.ranges);
            let crowded = crowded(&pressure, chip);
            let least = in_order(code, chip, &numbering, (&lives.ranges, crowded), chaos)
                .map_err(|v| overflow(code, chip, &numbering, (&lives.ranges, &pressure), v, pinned))?;
            let mut apart = |n: u32| fitting(code, chip, &numbering, &lives.clone().apart(&flight(n)), chaos);
            PARTS.into_iter().find_map(&mut apart).unwrap_or(least)
        }
    };
    for b in &mut code.bundles {
        for i in &mut b.insts {
            if i.op == Op::BCall {
                continue;
            }
            for r in registers(i) {
                i.operands[r.at] = assigned[numbering.of(r.reg)] as i32;
            }
        }
    }
    Ok(())
}

/// How many registers of each physical file, by [`File`], live at each position.
fn pressure(code: &Code, numbering: &Numbering, ranges: &[Ranges]) -> Vec<[u32; 4]> {
    let mut change = vec![[0i32; 4]; positions(code) + 1];
    for (v, ranges) in ranges.iter().enumerate() {
        let (file, registers) = numbering.reg(v).file().physical();
        for &(from, to) in ranges {
            change[from as usize][file as usize] += registers as i32;
            change[to as usize][file as usize] -= registers as i32;
        }
    }
    let mut live = [0; 4];
    let at = change.into_iter().map(|c| {
        live = std::array::from_fn(|f| live[f] + c[f]);
        live.map(|n| n as u32)
    });
    at.collect()
}

/// Whether more registers live at once than there are: no order finds numbers for all.
fn crowded(pressure: &[[u32; 4]], chip: &ChipConfig) -> bool {
    let have = File::ALL.map(|f| have(chip, f));
    pressure.iter().any(|at| at.iter().zip(&have).any(|(live, have)| live > have))
}

/// Physical numbers by dense number, where there are enough.
fn fitting(
    code: &Code,
    chip: &ChipConfig,
    numbering: &Numbering,
    ranges: &[Ranges],
    chaos: &mut Chaos,
) -> Option<Vec<u32>> {
    let crowded = crowded(&pressure(code, numbering, ranges), chip);
    (!crowded).then(|| in_order(code, chip, numbering, (ranges, false), chaos).ok()).flatten()
}

/// Physical numbers by dense number: in the order of the ranges' starts, or of their lengths if that finds none; or the register that
/// found none. Of what is [`crowded`] that register is all that there is to find.
fn in_order(
    code: &Code,
    chip: &ChipConfig,
    numbering: &Numbering,
    (ranges, crowded): (&[Ranges], bool),
    chaos: &mut Chaos,
) -> Result<Vec<u32>, usize> {
    let mut by = |order: Vec<usize>| assign(code, chip, numbering, ranges, &order, chaos);
    if !crowded && let Ok(found) = by(by_start(ranges)) {
        return Ok(found);
    }
    by(by_length(ranges))
}

/// Registers that live, the first to start first.
fn by_start(ranges: &[Ranges]) -> Vec<usize> {
    let mut order: Vec<(u32, usize)> = (0..ranges.len()).filter_map(|v| Some((ranges[v].last()?.0, v))).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, v)| v).collect()
}

/// Registers that live, the longest first.
fn by_length(ranges: &[Ranges]) -> Vec<usize> {
    let length = |v: usize| ranges[v].iter().map(|r| r.1 - r.0).sum::<u32>();
    let live = (0..ranges.len()).filter(|&v| !ranges[v].is_empty());
    let mut order: Vec<(Reverse<u32>, usize)> = live.map(|v| (Reverse(length(v)), v)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, v)| v).collect()
}

/// Physical numbers by dense number, or the register that found none.
fn assign(
    code: &Code,
    chip: &ChipConfig,
    numbering: &Numbering,
    ranges: &[Ranges],
    order: &[usize],
    chaos: &mut Chaos,
) -> Result<Vec<u32>, usize> {
    let positions = positions(code);
    let c = &chip.core;
    // Scalar and mask zero are constants.
    let mut f = Files {
        scalar: Occupied::new(c.scalar_registers, positions, 1),
        vector: Occupied::new(c.vector_registers, positions, 0),
        mask: Occupied::new(c.mask_registers, positions, 1),
    };
    let mut assigned = vec![u32::MAX; numbering.count];
    for &(r, n) in &code.fixed {
        let v = numbering.of(r);
        let bit = 1u128.checked_shl(n).unwrap_or(0);
        if f.scalar.free(&ranges[v]) & bit != 0 {
            f.scalar.occupy(&ranges[v], bit);
        } else if !ranges[v].is_empty() {
            return Err(v);
        }
        assigned[v] = n;
    }
    let pairs = order.iter().any(|&v| numbering.reg(v).file() == File::Pair);
    for &v in order {
        if assigned[v] != u32::MAX {
            continue;
        }
        let r = &ranges[v];
        assigned[v] = match numbering.reg(v).file() {
            File::Scalar => first_free(&mut f.scalar, r, false, chaos),
            File::Vector => first_free(&mut f.vector, r, pairs, chaos),
            File::Mask => first_free(&mut f.mask, r, false, chaos),
            File::Pair => first_free_pair(&mut f.vector, r),
        }
        .ok_or(v)?;
    }
    Ok(assigned)
}

fn first_free(file: &mut Occupied, ranges: &Ranges, from_top: bool, chaos: &mut Chaos) -> Option<u32> {
    let shift = chaos.below(file.registers as usize) as u32;
    let free = file.free(ranges);
    let behind = free >> shift << shift;
    let at = match (from_top, behind) {
        _ if free == 0 => return None,
        (true, _) => u128::BITS - 1 - free.leading_zeros(),
        (false, 0) => free.trailing_zeros(),
        (false, behind) => behind.trailing_zeros(),
    };
    file.occupy(ranges, 1 << at);
    Some(at)
}

fn first_free_pair(file: &mut Occupied, ranges: &Ranges) -> Option<u32> {
    const EVEN: u128 = u128::MAX / 3;
    let free = file.free(ranges);
    let pairs = free & free >> 1 & EVEN;
    if pairs == 0 {
        return None;
    }
    let at = pairs.trailing_zeros();
    file.occupy(ranges, 3 << at);
    Some(at)
}

fn overflow(
    code: &Code,
    chip: &ChipConfig,
    numbering: &Numbering,
    (ranges, pressure): (&[Ranges], &[[u32; 4]]),
    failed: usize,
    pinned: &dyn Fn(Reg) -> bool,
) -> Overflow {
    let file_of = |v: usize| numbering.reg(v).file().physical().0;
    let file = file_of(failed);
    let members: Vec<usize> = (0..numbering.count).filter(|&v| !ranges[v].is_empty() && file_of(v) == file).collect();
    let at = ranges[failed]
        .iter()
        .flat_map(|&(from, to)| from..to)
        .max_by_key(|&p| (pressure[p as usize][file as usize], Reverse(p)))
        .unwrap_or(0);
    let bundle = (at as usize / 2).min(code.bundles.len() - 1);
    let here: Vec<usize> =
        members.into_iter().filter(|&v| ranges[v].iter().any(|&(from, to)| (from..to).contains(&at))).collect();
    let candidates = candidates(code, numbering, ranges, &here, pinned);
    let region = code.bundles[bundle].region;
    let depth = code.regions[region as usize].depth;
    let within = code.bundles.iter().filter(|b| code.regions[b.region as usize].depth >= depth);
    let registers = within.flat_map(|b| b.insts.iter().flat_map(registers));
    let touched: FxHashSet<Reg> = registers.filter_map(|r| code.names.origin(r.reg)).collect();
    let candidates = candidates.into_iter().map(|reg| Candidate { reg, through: !touched.contains(&reg) }).collect();
    let short = Shortage { file, need: pressure[at as usize][file as usize], have: have(chip, file) };
    Overflow { short, region, candidates }
}

/// Registers of the kernel behind the given ones, the cheapest to keep in memory first.
fn candidates(
    code: &Code,
    numbering: &Numbering,
    ranges: &[Ranges],
    here: &[usize],
    pinned: &dyn Fn(Reg) -> bool,
) -> Vec<Reg> {
    let mut cost: FxHashMap<Reg, (f64, f64)> = FxHashMap::default();
    for &v in here {
        if let Some(o) = code.names.origin(numbering.reg(v)).filter(|&o| !pinned(o)) {
            let length: u32 = ranges[v].iter().map(|r| r.1 - r.0).sum();
            cost.entry(o).or_default().1 += length as f64;
        }
    }
    for b in &code.bundles {
        let weight = code.regions[b.region as usize].times();
        for r in b.insts.iter().filter(|i| i.op != Op::BCall).flat_map(registers) {
            if let Some(c) = code.names.origin(r.reg).and_then(|o| cost.get_mut(&o)) {
                c.0 += weight;
            }
        }
    }
    // A register that lives for a bundle or two gains nothing in memory.
    let mut out: Vec<(Reg, f64)> = cost
        .into_iter()
        .filter(|(_, (_, length))| *length > 4.0)
        .map(|(r, (uses, length))| (r, uses / length))
        .collect();
    out.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    out.into_iter().map(|(r, _)| r).collect()
}
