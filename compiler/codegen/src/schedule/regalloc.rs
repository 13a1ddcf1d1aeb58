//! Register allocation over linear code: every virtual register gets a physical one that no overlapping live range has.
//!
//! Ranges have holes (see [`super::liveness`]), so registers that take turns share. s0 and m0 are the hardware
//! constants; pairs are even-aligned and share the vector file. Parameters and call arguments have given numbers.
//! When a file runs out, [`Overflow`] says where and which registers live there.

use super::chaos::Chaos;
use super::code::Code;
use super::liveness::{self, Numbering, Ranges};
use crate::kernel::regs::{File, Reg, registers};
use rustc_hash::FxHashMap;
use systole_isa::{ChipConfig, Op};

/// A register file that is too small.
#[derive(Clone, Debug)]
pub struct Overflow {
    /// Scalar, vector or mask.
    pub file: File,
    pub need: u32,
    pub have: u32,
    /// Index into the code's regions.
    pub region: u32,
    /// Registers of the kernel that live there, the cheapest to keep in memory first.
    pub candidates: Vec<Reg>,
    /// Those of them that the region does not touch and that are used in shallower loops only.
    pub through: Vec<Reg>,
}

/// Parts of an instruction's latency for which results that nothing reads keep their registers, where the whole is too much.
const PARTS: [u32; 3] = [2, 4, 8];

/// Occupied positions of a physical register.
type Occupied = Vec<u64>;

struct Files {
    scalar: Vec<Occupied>,
    vector: Vec<Occupied>,
    mask: Vec<Occupied>,
}

fn physical(file: File) -> File {
    match file {
        File::Scalar => File::Scalar,
        File::Vector | File::Pair => File::Vector,
        File::Mask => File::Mask,
    }
}

fn overlaps(o: &Occupied, ranges: &Ranges) -> bool {
    ranges.iter().any(|&(from, to)| words(from, to).any(|(w, bits)| o[w] & bits != 0))
}

fn occupy(o: &mut Occupied, ranges: &Ranges) {
    for &(from, to) in ranges {
        for (w, bits) in words(from, to) {
            o[w] |= bits;
        }
    }
}

/// Words and bits of the positions in `from..to`.
fn words(from: u32, to: u32) -> impl Iterator<Item = (usize, u64)> {
    (from / 64..to.div_ceil(64)).map(move |w| {
        let low = from.saturating_sub(w * 64).min(63);
        let high = (to - w * 64).min(64);
        (w as usize, (u64::MAX << low) & (u64::MAX >> (64 - high)))
    })
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
    let mut apart = |code: &mut Code, part: u32| {
        let flight = |op: Op| (chip.timing.get(op.info().class).latency / part).max(1);
        let ranges = liveness::analyse(code, &numbering, &flight);
        in_order(code, chip, &numbering, &ranges, chaos).map_err(|v| (v, ranges))
    };
    let assigned = match apart(code, 1) {
        Ok(a) => a,
        Err(_) => match apart(code, u32::MAX) {
            Ok(least) => PARTS.into_iter().find_map(|n| apart(code, n).ok()).unwrap_or(least),
            Err((v, ranges)) => return Err(overflow(code, chip, &numbering, &ranges, v, pinned)),
        },
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

/// Physical numbers by dense number: in the order of the ranges' starts, or of their lengths if that finds none.
fn in_order(
    code: &Code,
    chip: &ChipConfig,
    numbering: &Numbering,
    ranges: &[Ranges],
    chaos: &mut Chaos,
) -> Result<Vec<u32>, usize> {
    let mut order: Vec<usize> = (0..numbering.count).filter(|&v| !ranges[v].is_empty()).collect();
    let start = |v: usize| ranges[v].last().map_or(0, |r| r.0);
    order.sort_by_key(|&v| (start(v), v));
    assign(code, chip, numbering, ranges, &order, chaos).or_else(|_| {
        let length = |v: usize| ranges[v].iter().map(|r| r.1 - r.0).sum::<u32>();
        order.sort_by_key(|&v| (std::cmp::Reverse(length(v)), v));
        assign(code, chip, numbering, ranges, &order, chaos)
    })
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
    let positions = (2 * code.bundles.len() + 2).div_ceil(64);
    let file = |n: u32| vec![vec![0u64; positions]; n as usize];
    let c = &chip.core;
    let mut f =
        Files { scalar: file(c.scalar_registers), vector: file(c.vector_registers), mask: file(c.mask_registers) };
    for constant in [f.scalar.first_mut(), f.mask.first_mut()].into_iter().flatten() {
        constant.fill(u64::MAX);
    }
    let mut assigned = vec![u32::MAX; numbering.count];
    for &(r, n) in &code.fixed {
        let v = numbering.of(r);
        match f.scalar.get_mut(n as usize) {
            Some(o) if !overlaps(o, &ranges[v]) => occupy(o, &ranges[v]),
            _ if ranges[v].is_empty() => {}
            _ => return Err(v),
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

fn first_free(file: &mut [Occupied], ranges: &Ranges, from_top: bool, chaos: &mut Chaos) -> Option<u32> {
    let n = file.len();
    let shift = chaos.below(n);
    let at =
        (0..n).map(|i| if from_top { n - 1 - i } else { (i + shift) % n }).find(|&i| !overlaps(&file[i], ranges))?;
    occupy(&mut file[at], ranges);
    Some(at as u32)
}

fn first_free_pair(file: &mut [Occupied], ranges: &Ranges) -> Option<u32> {
    let at =
        (0..file.len() / 2 * 2).step_by(2).find(|&i| !overlaps(&file[i], ranges) && !overlaps(&file[i + 1], ranges))?;
    occupy(&mut file[at], ranges);
    occupy(&mut file[at + 1], ranges);
    Some(at as u32)
}

fn overflow(
    code: &Code,
    chip: &ChipConfig,
    numbering: &Numbering,
    ranges: &[Ranges],
    failed: usize,
    pinned: &dyn Fn(Reg) -> bool,
) -> Overflow {
    let file = physical(numbering.reg(failed).file());
    let weight = |v: usize| if numbering.reg(v).file() == File::Pair { 2u32 } else { 1 };
    let members: Vec<usize> =
        (0..numbering.count).filter(|&v| !ranges[v].is_empty() && physical(numbering.reg(v).file()) == file).collect();
    let mut change = vec![0i64; 2 * code.bundles.len() + 3];
    for &v in &members {
        for &(from, to) in &ranges[v] {
            change[from as usize] += weight(v) as i64;
            change[to as usize] -= weight(v) as i64;
        }
    }
    let mut live = 0;
    let pressure: Vec<u32> = change
        .iter()
        .map(|c| {
            live += c;
            live as u32
        })
        .collect();
    let at = ranges[failed]
        .iter()
        .flat_map(|&(from, to)| from..to)
        .max_by_key(|&p| (pressure[p as usize], std::cmp::Reverse(p)))
        .unwrap_or(0);
    let c = &chip.core;
    let have = match file {
        File::Scalar => c.scalar_registers - 1,
        File::Vector | File::Pair => c.vector_registers,
        File::Mask => c.mask_registers - 1,
    };
    let bundle = (at as usize / 2).min(code.bundles.len() - 1);
    let here: Vec<usize> =
        members.into_iter().filter(|&v| ranges[v].iter().any(|&(from, to)| (from..to).contains(&at))).collect();
    let candidates = candidates(code, numbering, ranges, &here, pinned);
    let region = code.bundles[bundle].region;
    let depth = code.regions[region as usize].depth;
    let mut through = candidates.clone();
    for b in code.bundles.iter().filter(|b| code.regions[b.region as usize].depth >= depth) {
        for o in b.insts.iter().flat_map(registers).filter_map(|r| code.names.origin(r.reg)) {
            through.retain(|&t| t != o);
        }
    }
    Overflow { file, need: pressure[at as usize], have, region, candidates, through }
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
