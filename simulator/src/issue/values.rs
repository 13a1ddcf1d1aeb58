//! The value walk: what a bundle's vector, matrix and memory instructions compute.
//!
//! Results are formed in spare registers and swapped in at the end of the bundle, so that every instruction reads what
//! was there before it.

use crate::fault::FaultKind;
use crate::load::Loaded;
use crate::unit::dma::{Access, RaceChecker};
use crate::unit::mxu::{Destination, MxuFunction, Shape};
use crate::unit::vmem::{self, Rows};
use crate::unit::xlu::{self, Transpose};
use crate::unit::{eup, vector};
use systole_isa::{Class, Effect, Inst, MxuFormat, Op, Slot, Space};

type Reg = Box<[u32]>;

/// Registers, vector memory and unit contents of a core.
#[derive(Debug)]
pub(crate) struct Values {
    lanes: usize,
    sublanes: usize,
    regs: Vec<Reg>,
    masks: Vec<Reg>,
    /// Results of the bundle in progress, and where they go.
    spare: Vec<Reg>,
    writes: Vec<Target>,
    pub vmem: Vec<u32>,
    mxus: Vec<MxuFunction>,
    accumulator_rows: i64,
    transposes: Vec<Transpose>,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    Vector(usize),
    Mask(usize),
}

impl Values {
    pub fn new(l: &Loaded, threads: usize) -> Values {
        let c = &l.chip.core;
        let (lanes, sublanes) = (c.lanes as usize, c.sublanes as usize);
        let reg = |fill: u32| vec![fill; lanes * sublanes].into_boxed_slice();
        let m = &l.chip.mxu;
        let shape = Shape {
            rows: m.rows as usize,
            cols: m.cols as usize,
            accumulator_rows: m.accumulator_rows as usize,
            sublanes,
            lanes,
        };
        let mut masks = vec![reg(0); c.mask_registers as usize];
        masks[0] = reg(!0);
        let used = |u: &u32| l.code.mxus_used >> u & 1 == 1;
        let last = (0..m.count).filter(used).max().map_or(0, |u| u + 1);
        Values {
            lanes,
            sublanes,
            regs: vec![reg(0); c.vector_registers as usize],
            masks,
            spare: Vec::new(),
            writes: Vec::new(),
            vmem: vec![0; (l.chip.vmem.bytes / 4) as usize],
            mxus: (0..last).map(|_| MxuFunction::new(shape, threads)).collect(),
            accumulator_rows: m.accumulator_rows as i64,
            transposes: (0..c.xlu_slots).map(|_| Transpose::new(lanes)).collect(),
        }
    }

    /// Lane 0 of sublane 0 of a register.
    pub fn first_lane(&self, reg: usize) -> i32 {
        self.regs[reg][0] as i32
    }

    /// Makes the bundle's results visible.
    #[inline(always)]
    pub fn commit(&mut self) {
        for (i, target) in self.writes.iter().enumerate() {
            match *target {
                Target::Vector(r) => std::mem::swap(&mut self.regs[r], &mut self.spare[i]),
                Target::Mask(0) => {}
                Target::Mask(m) => std::mem::swap(&mut self.masks[m], &mut self.spare[i]),
            }
        }
        self.writes.clear();
    }

    /// A spare register for a result.
    fn result(&mut self, target: Target) -> usize {
        let i = self.writes.len();
        if i == self.spare.len() {
            self.spare.push(vec![0; self.lanes * self.sublanes].into());
        }
        self.writes.push(target);
        i
    }

    /// Executes one instruction on the scalar registers `s`.
    pub fn execute(&mut self, i: &Inst, s: &[i32; 64], race: Option<(&RaceChecker, &Loaded)>) -> Result<(), FaultKind> {
        match i.op.info().slot {
            Slot::Valu => {
                self.valu(i, s);
                Ok(())
            }
            Slot::Eup => {
                let t = self.result(Target::Vector(i.operands[0] as usize));
                eup::execute(i.op, &mut self.spare[t], &self.regs[i.operands[1] as usize]);
                Ok(())
            }
            Slot::Xlu => self.xlu(i, s),
            Slot::MxuPush | Slot::MxuPop => self.mxu(i, s),
            Slot::Vload | Slot::Vstore => self.memory(i, s, race),
            Slot::Scalar | Slot::Dma | Slot::Branch => Ok(()),
        }
    }

    fn valu(&mut self, i: &Inst, s: &[i32; 64]) {
        let o = i.operands.map(|x| x as usize);
        match i.op {
            Op::VImm | Op::VSplat => {
                let v = if i.op == Op::VImm { i.operands[1] } else { s[o[1]] };
                let t = self.result(Target::Vector(o[0]));
                self.spare[t].fill(v as u32);
            }
            Op::VLane | Op::VSub => {
                let t = self.result(Target::Vector(o[0]));
                let lanes = self.lanes;
                for (n, row) in self.spare[t].chunks_exact_mut(lanes).enumerate() {
                    row.iter_mut().enumerate().for_each(|(l, d)| *d = if i.op == Op::VLane { l } else { n } as u32);
                }
            }
            Op::VSel => {
                let t = self.result(Target::Vector(o[0]));
                vector::execute(i.op, &mut self.spare[t], &self.regs[o[2]], &self.regs[o[3]], &self.masks[o[1]]);
            }
            Op::MAnd | Op::MOr | Op::MXor => {
                let t = self.result(Target::Mask(o[0]));
                vector::masks(i.op, &mut self.spare[t], &self.masks[o[1]], &self.masks[o[2]]);
            }
            _ if matches!(i.op.info().class, Class::ValuF64 | Class::ValuF64Div) => self.pairs(i),
            Op::PMake => {
                let (lo, hi) = (self.result(Target::Vector(o[0])), self.result(Target::Vector(o[0] + 1)));
                self.spare[lo].copy_from_slice(&self.regs[o[1]]);
                self.spare[hi].copy_from_slice(&self.regs[o[2]]);
            }
            Op::PLo | Op::PHi => {
                let t = self.result(Target::Vector(o[0]));
                self.spare[t].copy_from_slice(&self.regs[o[1] + (i.op == Op::PHi) as usize]);
            }
            Op::VEqF
            | Op::VNeF
            | Op::VLtF
            | Op::VLeF
            | Op::VEqI
            | Op::VNeI
            | Op::VLtS
            | Op::VLeS
            | Op::VLtU
            | Op::VLeU => {
                let t = self.result(Target::Mask(o[0]));
                vector::masks(i.op, &mut self.spare[t], &self.regs[o[1]], &self.regs[o[2]]);
            }
            _ => {
                let t = self.result(Target::Vector(o[0]));
                // Operands that the opcode does not have are zero and name a register that exists.
                let [a, b, c] = [o[1], o[2], o[3]].map(|r| self.regs.get(r).map_or(&[][..], |r| r));
                let d = &mut self.spare[t];
                if !vector::execute(i.op, d, a, b, c) {
                    vector::convert(i.op, d, a, i.operands[2]);
                }
            }
        }
    }

    fn pairs(&mut self, i: &Inst) {
        let o = i.operands.map(|x| x as usize);
        let pair_result = !matches!(i.op, Op::PEqD | Op::PLtD | Op::PLeD | Op::PCvtToF32);
        let first = match i.op {
            Op::PEqD | Op::PLtD | Op::PLeD => Target::Mask(o[0]),
            _ => Target::Vector(o[0]),
        };
        let lo = self.result(first);
        if pair_result {
            self.result(Target::Vector(o[0] + 1));
        }
        let pair = |r: usize| (&*self.regs[r], &*self.regs[(r + 1).min(self.regs.len() - 1)]);
        let (d, rest) = self.spare[lo..].split_first_mut().expect("the result was just made");
        match i.op {
            Op::PEqD | Op::PLtD | Op::PLeD => {
                vector::compare_pairs(i.op, d, pair(o[1]), pair(o[2]));
            }
            Op::PCvtToF32 => vector::to_lanes(d, pair(o[1])),
            Op::PCvtF32 => vector::from_lanes((d, &mut rest[0]), &self.regs[o[1]]),
            _ => {
                vector::pairs(i.op, (d, &mut rest[0]), pair(o[1]), pair(o[2]), pair(o[3]));
            }
        }
    }

    fn xlu(&mut self, i: &Inst, s: &[i32; 64]) -> Result<(), FaultKind> {
        let o = i.operands.map(|x| x as usize);
        let protocol =
            |u: usize, message: &str| FaultKind::Protocol { unit: format!("xlu{u}"), message: message.to_string() };
        if i.op == Op::XTpush {
            return self.transposes[o[0]].push(&self.regs[o[1]]).map_err(|m| protocol(o[0], m));
        }
        let t = self.result(Target::Vector(o[0]));
        let (d, lanes) = (&mut self.spare[t], self.lanes);
        if i.op == Op::XTpop {
            let took = self.transposes[o[1]].pop(d);
            return if took {
                Ok(())
            } else {
                Err(FaultKind::EmptyFifo { unit: format!("transpose buffer of xlu{}", o[1]) })
            };
        }
        let a = &self.regs[o[1]];
        match i.op {
            Op::XRotLane => xlu::rotate_lanes(d, a, lanes, i.operands[2] as i64),
            Op::XRotLaneS => xlu::rotate_lanes(d, a, lanes, s[o[2]] as i64),
            Op::XRotSub => xlu::rotate_sublanes(d, a, lanes, i.operands[2] as i64),
            Op::XPermLane => xlu::permute_lanes(d, a, &self.regs[o[2]], lanes),
            Op::XPermSub => xlu::permute_sublanes(d, a, &self.regs[o[2]], lanes),
            _ => {
                xlu::reduce_lanes(i.op, d, a, lanes);
            }
        }
        Ok(())
    }

    /// Accumulator row from a scalar, checked.
    fn row(&self, row: i32) -> Result<usize, FaultKind> {
        let last = row as i64 + self.sublanes as i64 - 1;
        if row < 0 || last >= self.accumulator_rows {
            let size = self.accumulator_rows as u64;
            return Err(FaultKind::OutOfRange { memory: "accumulators", unit: "row", first: row as i64, last, size });
        }
        Ok(row as usize)
    }

    fn mxu(&mut self, i: &Inst, s: &[i32; 64]) -> Result<(), FaultKind> {
        let o = i.operands.map(|x| x as usize);
        let format = || MxuFormat::ALL[o[3]];
        let full = |staged: bool| {
            let message = "more weights staged than the array holds".to_string();
            if staged { Ok(()) } else { Err(FaultKind::Protocol { unit: format!("mxu{}", o[0]), message }) }
        };
        match i.op {
            Op::MStage => full(self.mxus[o[0]].stage(&self.regs[o[1]], o[2], format())),
            Op::MStageT => full(self.mxus[o[0]].stage_t(&self.regs[o[1]], o[2], format())),
            Op::MLatch => {
                self.mxus[o[0]].latch();
                Ok(())
            }
            Op::MPush => {
                self.mxus[o[0]].push(&self.regs[o[1]], o[2], format(), Destination::Fifo);
                Ok(())
            }
            Op::MPushSet | Op::MPushAdd => {
                let row = self.row(s[o[4]])?;
                let to = if i.op == Op::MPushSet { Destination::Set(row) } else { Destination::Add(row) };
                self.mxus[o[0]].push(&self.regs[o[1]], o[2], format(), to);
                Ok(())
            }
            Op::MPop => {
                let t = self.result(Target::Vector(o[0]));
                let took = self.mxus[o[1]].pop(o[2], &mut self.spare[t]);
                if took { Ok(()) } else { Err(FaultKind::EmptyFifo { unit: format!("mxu{}", o[1]) }) }
            }
            _ => {
                let row = self.row(s[o[3]])?;
                let t = self.result(Target::Vector(o[0]));
                self.mxus[o[1]].drain(o[2], row, &mut self.spare[t]);
                Ok(())
            }
        }
    }

    fn memory(&mut self, i: &Inst, s: &[i32; 64], race: Option<(&RaceChecker, &Loaded)>) -> Result<(), FaultKind> {
        let o = i.operands;
        let write = i.op.info().effect == Effect::VmemStore;
        let rows = Rows {
            first: s[o[1] as usize] as i64 + o[2] as i64,
            stride: o[3] as i64,
            sublanes: self.sublanes,
            lanes: self.lanes,
        };
        let packing = vmem::packing(i.op);
        // Only what the mask selects is touched.
        let mask = if !write || o[4] == 0 { &[][..] } else { &self.masks[o[4] as usize] };
        let (lo, hi) = rows.extent();
        let size = (self.vmem.len() / self.lanes) as i64 * packing;
        if (lo < 0 || hi >= size) && !touched(rows, mask).all(|(row, _, _)| (0..size).contains(&row)) {
            return Err(FaultKind::OutOfRange { memory: "VMEM", unit: "row", first: lo, last: hi, size: size as u64 });
        }
        if let Some((checker, loaded)) = race {
            check_race(checker, loaded, rows, packing, write, mask)?;
        }
        if write {
            vmem::store(i.op, &self.regs[o[0] as usize], &mut self.vmem, rows, mask);
        } else {
            let t = self.result(Target::Vector(o[0] as usize));
            vmem::load(i.op, &mut self.spare[t], &self.vmem, rows);
        }
        Ok(())
    }
}

/// Rows that an access touches, with the first and last lane in each; an empty mask is all ones.
fn touched(rows: Rows, mask: &[u32]) -> impl Iterator<Item = (i64, usize, usize)> + '_ {
    (0..rows.sublanes).filter_map(move |s| {
        let row = rows.first + s as i64 * rows.stride;
        if mask.is_empty() {
            return Some((row, 0, rows.lanes - 1));
        }
        let lanes = &mask[s * rows.lanes..(s + 1) * rows.lanes];
        Some((row, lanes.iter().position(|m| *m != 0)?, lanes.iter().rposition(|m| *m != 0)?))
    })
}

/// Checks a vector access against transfers that no wait has ordered.
fn check_race(
    c: &RaceChecker,
    l: &Loaded,
    rows: Rows,
    packing: i64,
    write: bool,
    mask: &[u32],
) -> Result<(), FaultKind> {
    if c.is_empty() {
        return Ok(());
    }
    let row_bytes = rows.lanes as i64 * 4;
    let check = |start: i64, end: i64| c.check(&l.geometry, Access { space: Space::Vmem, start, end, write });
    let (lo, hi) = rows.extent();
    if check(lo.div_euclid(packing) * row_bytes, (hi.div_euclid(packing) + 1) * row_bytes).is_none() {
        return Ok(());
    }
    // Somewhere between the first and the last row: look at the rows themselves.
    let conflict = touched(rows, mask).find_map(|(row, first, last)| {
        let base = row.div_euclid(packing) * row_bytes;
        check(base + first as i64 * 4, base + last as i64 * 4 + 4)
    });
    match conflict {
        None => Ok(()),
        Some(found) => Err(found.fault(l, if write { "store to" } else { "load from" }, Space::Vmem)),
    }
}
