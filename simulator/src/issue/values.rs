//! The value walk: what a bundle's vector, matrix and memory instructions compute.
//!
//! Results are formed in spare registers and swapped in at the end of the bundle, so that every instruction reads what
//! was there before it.

use crate::fault::FaultKind;
use crate::load::Loaded;
use crate::mem::Block;
use crate::unit::dma::{Access, RaceChecker};
use crate::unit::mxu::{Beside, Destination, MxuFunction, Shape};
use crate::unit::vmem::{self, Rows};
use crate::unit::xlu::{self, Transpose};
use crate::unit::{eup, vector};
use std::sync::Arc;
use systole_isa::opcodes::{CrossLaneFn, FillFn, LaneFn, LoadFn, MatrixFn, PairConvertFn, PairFn, PairMoveFn, StoreFn};
use systole_isa::{Function, Inst, MxuFormat, Space};

type Reg = Box<[u32]>;

/// Transfers in progress, against which accesses are checked, and the program that they are of.
type Transfers<'a> = Option<(&'a RaceChecker, &'a Loaded)>;

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
    pub vmem: Block,
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
    /// Before the first bundle. The arithmetic of matrix units may use so many threads; `alone`: nobody else does.
    pub fn new(l: &Loaded, threads: usize, alone: bool) -> Values {
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
        let beside = (alone && threads > 1).then(|| Arc::new(Beside::default()));
        Values {
            lanes,
            sublanes,
            regs: vec![reg(0); c.vector_registers as usize],
            masks,
            spare: Vec::new(),
            writes: Vec::new(),
            vmem: Block::new(l.chip.vmem.bytes as usize & !3),
            mxus: (0..last).map(|_| MxuFunction::new(shape, threads, beside.clone())).collect(),
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

    /// Executes one instruction on the scalar registers `s`. Scalar instructions, DMA and branches are not this walk's.
    pub fn execute(&mut self, i: &Inst, s: &[i32; 64], race: Transfers<'_>) -> Result<(), FaultKind> {
        match i.op.function() {
            Function::Fill(f) => self.fill(f, i, s),
            Function::Lanes(f) => self.lanes(f, i),
            Function::Convert(f) => {
                let (d, a) = self.unary(i);
                vector::convert(f, d, a, i.operands[2]);
            }
            Function::Transcendental(f) => {
                let (d, a) = self.unary(i);
                eup::execute(f, d, a);
            }
            Function::Reduce(f) => {
                let lanes = self.lanes;
                let (d, a) = self.unary(i);
                xlu::reduce_lanes(f, d, a, lanes);
            }
            Function::Compare(f) => {
                let [d, a, b] = registers(i);
                let t = self.result(Target::Mask(d));
                vector::compare(f, &mut self.spare[t], &self.regs[a], &self.regs[b]);
            }
            Function::Mask(f) => {
                let [d, a, b] = registers(i);
                let t = self.result(Target::Mask(d));
                vector::masks(f, &mut self.spare[t], &self.masks[a], &self.masks[b]);
            }
            Function::Select(f) => {
                let [d, m, a, b] = registers(i);
                let t = self.result(Target::Vector(d));
                vector::select(f, &mut self.spare[t], &self.masks[m], &self.regs[a], &self.regs[b]);
            }
            Function::PairMove(f) => self.move_pair(f, i),
            Function::Pair(f) => self.pairs(f, i),
            Function::PairCompare(f) => {
                let [d, a, b] = registers(i);
                let t = self.result(Target::Mask(d));
                vector::compare_pairs(f, &mut self.spare[t], pair(&self.regs, a), pair(&self.regs, b));
            }
            Function::PairConvert(f) => self.convert_pair(f, i),
            Function::CrossLane(f) => return self.cross_lane(f, i, s),
            Function::Matrix(f) => return self.mxu(f, i, s),
            Function::Load(f) => return self.load(f, i, s, race),
            Function::Store(f) => return self.store(f, i, s, race),
            Function::Scalar(_) | Function::State(_) | Function::Dma(_) | Function::Branch(_) => {}
        }
        Ok(())
    }

    /// The result and the source of an instruction with one vector source.
    #[inline(always)]
    fn unary(&mut self, i: &Inst) -> (&mut [u32], &[u32]) {
        let [d, a] = registers(i);
        let t = self.result(Target::Vector(d));
        (&mut self.spare[t], &self.regs[a])
    }

    fn fill(&mut self, function: FillFn, i: &Inst, s: &[i32; 64]) {
        let t = self.result(Target::Vector(i.operands[0] as usize));
        let (d, lanes) = (&mut self.spare[t], self.lanes);
        match function {
            FillFn::VImm => d.fill(i.operands[1] as u32),
            FillFn::VSplat => d.fill(s[i.operands[1] as usize] as u32),
            FillFn::VLane => d.iter_mut().enumerate().for_each(|(n, d)| *d = (n % lanes) as u32),
            FillFn::VSublane => d.iter_mut().enumerate().for_each(|(n, d)| *d = (n / lanes) as u32),
        }
    }

    fn lanes(&mut self, function: LaneFn, i: &Inst) {
        let [d, sources @ ..] = registers::<4>(i);
        let t = self.result(Target::Vector(d));
        // Operands that the opcode does not have are zero and name a register that exists.
        let [a, b, c] = sources.map(|r| &*self.regs[r]);
        vector::execute(function, &mut self.spare[t], a, b, c);
    }

    fn move_pair(&mut self, function: PairMoveFn, i: &Inst) {
        let [d, a, b] = registers(i);
        let mut copy = |to: usize, from: usize| {
            let t = self.result(Target::Vector(to));
            self.spare[t].copy_from_slice(&self.regs[from]);
        };
        match function {
            PairMoveFn::PMake => {
                copy(d, a);
                copy(d + 1, b);
            }
            PairMoveFn::PLo => copy(d, a),
            PairMoveFn::PHi => copy(d, a + 1),
        }
    }

    /// Spare registers for a pair.
    fn pair_result(&mut self, d: usize) -> usize {
        let lo = self.result(Target::Vector(d));
        self.result(Target::Vector(d + 1));
        lo
    }

    fn pairs(&mut self, function: PairFn, i: &Inst) {
        let [d, a, b, c] = registers(i);
        let lo = self.pair_result(d);
        let [lo, hi] = self.spare[lo..].first_chunk_mut().expect("the results were just made");
        let [a, b, c] = [a, b, c].map(|r| pair(&self.regs, r));
        vector::pairs(function, (lo, hi), a, b, c);
    }

    fn convert_pair(&mut self, function: PairConvertFn, i: &Inst) {
        let [d, a] = registers(i);
        match function {
            PairConvertFn::PCvtToF32 => {
                let t = self.result(Target::Vector(d));
                vector::to_lanes(&mut self.spare[t], pair(&self.regs, a));
            }
            PairConvertFn::PCvtF32 => {
                let lo = self.pair_result(d);
                let [lo, hi] = self.spare[lo..].first_chunk_mut().expect("the results were just made");
                vector::from_lanes((lo, hi), &self.regs[a]);
            }
        }
    }

    fn cross_lane(&mut self, function: CrossLaneFn, i: &Inst, s: &[i32; 64]) -> Result<(), FaultKind> {
        let o = i.operands.map(|x| x as usize);
        if function == CrossLaneFn::XTpush {
            let protocol = |m: &str| FaultKind::Protocol { unit: format!("xlu{}", o[0]), message: m.to_string() };
            return self.transposes[o[0]].push(&self.regs[o[1]]).map_err(protocol);
        }
        let t = self.result(Target::Vector(o[0]));
        let (d, lanes) = (&mut self.spare[t], self.lanes);
        match function {
            CrossLaneFn::XRotLane => xlu::rotate_lanes(d, &self.regs[o[1]], lanes, i.operands[2] as i64),
            CrossLaneFn::XRotLaneS => xlu::rotate_lanes(d, &self.regs[o[1]], lanes, s[o[2]] as i64),
            CrossLaneFn::XRotSub => xlu::rotate_sublanes(d, &self.regs[o[1]], lanes, i.operands[2] as i64),
            CrossLaneFn::XPermLane => xlu::permute_lanes(d, &self.regs[o[1]], &self.regs[o[2]], lanes),
            CrossLaneFn::XPermSub => xlu::permute_sublanes(d, &self.regs[o[1]], &self.regs[o[2]], lanes),
            CrossLaneFn::XTpush => {}
            CrossLaneFn::XTpop => {
                if !self.transposes[o[1]].pop(d) {
                    return Err(FaultKind::EmptyFifo { unit: format!("transpose buffer of xlu{}", o[1]) });
                }
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

    fn mxu(&mut self, function: MatrixFn, i: &Inst, s: &[i32; 64]) -> Result<(), FaultKind> {
        let o = i.operands.map(|x| x as usize);
        let format = || MxuFormat::ALL[o[3]];
        let full = |staged: bool| {
            let message = "more weights staged than the array holds".to_string();
            if staged { Ok(()) } else { Err(FaultKind::Protocol { unit: format!("mxu{}", o[0]), message }) }
        };
        match function {
            MatrixFn::MStage => full(self.mxus[o[0]].stage(&self.regs[o[1]], o[2], format())),
            MatrixFn::MStageT => full(self.mxus[o[0]].stage_t(&self.regs[o[1]], o[2], format())),
            MatrixFn::MLatch => {
                self.mxus[o[0]].latch();
                Ok(())
            }
            MatrixFn::MPush => {
                self.mxus[o[0]].push(&self.regs[o[1]], o[2], format(), Destination::Fifo);
                Ok(())
            }
            MatrixFn::MPushSet => {
                let to = Destination::Set(self.row(s[o[4]])?);
                self.mxus[o[0]].push(&self.regs[o[1]], o[2], format(), to);
                Ok(())
            }
            MatrixFn::MPushAdd => {
                let to = Destination::Add(self.row(s[o[4]])?);
                self.mxus[o[0]].push(&self.regs[o[1]], o[2], format(), to);
                Ok(())
            }
            MatrixFn::MPop => {
                let t = self.result(Target::Vector(o[0]));
                let took = self.mxus[o[1]].pop(o[2], &mut self.spare[t]);
                if took { Ok(()) } else { Err(FaultKind::EmptyFifo { unit: format!("mxu{}", o[1]) }) }
            }
            MatrixFn::MDrain => {
                let row = self.row(s[o[3]])?;
                let t = self.result(Target::Vector(o[0]));
                self.mxus[o[1]].drain(o[2], row, &mut self.spare[t]);
                Ok(())
            }
        }
    }

    fn load(&mut self, function: LoadFn, i: &Inst, s: &[i32; 64], race: Transfers<'_>) -> Result<(), FaultKind> {
        let rows = self.rows(i, s);
        self.check_access(rows, function.element_bits(), None, race)?;
        let t = self.result(Target::Vector(i.operands[0] as usize));
        vmem::load(function, &mut self.spare[t], &self.vmem, rows);
        Ok(())
    }

    fn store(&mut self, function: StoreFn, i: &Inst, s: &[i32; 64], race: Transfers<'_>) -> Result<(), FaultKind> {
        let rows = self.rows(i, s);
        let m = i.operands[4] as usize;
        // Only what the mask selects is touched.
        let mask = if m == 0 { &[][..] } else { &self.masks[m] };
        self.check_access(rows, function.element_bits(), Some(mask), race)?;
        vmem::store(function, &self.regs[i.operands[0] as usize], &mut self.vmem, rows, mask);
        Ok(())
    }

    fn rows(&self, i: &Inst, s: &[i32; 64]) -> Rows {
        let o = i.operands;
        Rows {
            first: s[o[1] as usize] as i64 + o[2] as i64,
            stride: o[3] as i64,
            sublanes: self.sublanes,
            lanes: self.lanes,
        }
    }

    /// Checks range and races of a load, or of a store with a mask.
    #[inline]
    fn check_access(
        &self,
        rows: Rows,
        element_bits: u32,
        store: Option<&[u32]>,
        race: Transfers<'_>,
    ) -> Result<(), FaultKind> {
        let packing = 32 / element_bits as i64;
        let mask = store.unwrap_or_default();
        let (lo, hi) = rows.extent();
        let size = (self.vmem.len() / self.lanes) as i64 * packing;
        if (lo < 0 || hi >= size) && !touched(rows, mask).all(|(row, _, _)| (0..size).contains(&row)) {
            return Err(FaultKind::OutOfRange { memory: "VMEM", unit: "row", first: lo, last: hi, size: size as u64 });
        }
        match race {
            Some((checker, loaded)) => check_race(checker, loaded, rows, packing, store.is_some(), mask),
            None => Ok(()),
        }
    }
}

/// The first operands, which are numbers of registers.
#[inline(always)]
fn registers<const N: usize>(i: &Inst) -> [usize; N] {
    std::array::from_fn(|n| i.operands[n] as usize)
}

/// A pair of registers. An operand that the opcode does not have names one that exists.
#[inline(always)]
fn pair(regs: &[Reg], r: usize) -> vector::Pair<'_> {
    (&regs[r], &regs[(r + 1).min(regs.len() - 1)])
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
