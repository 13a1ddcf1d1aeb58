//! From bundles to [`Code`], proving what the walks rely on.

use super::code::*;
use super::fetch::Blocks;
use super::timed;
use super::uses::{Access, Turn, Units, Use, uses, value_walk};
use crate::load::LoadError;
use crate::stats::Cause;
use smallvec::SmallVec;
use systole_isa::chip::ChipConfig;
use systole_isa::opcodes::{BranchFn, CrossLaneFn, DmaFn, MatrixFn, StateFn, TABLE};
use systole_isa::program::DebugRange;
use systole_isa::{Bundles, Function, Inst, Kind, MxuFormat, Program, Slot};

/// The instructions that the value walk executes: each bundle's that read before its stores. A head's `values` and `nvalues` are
/// its range of them.
pub(crate) fn values(bundles: &Bundles) -> Vec<Inst> {
    let mut out = Vec::with_capacity(bundles.insts().len());
    for b in bundles.iter() {
        for turn in [Turn::Reads, Turn::Stores] {
            out.extend(b.iter().filter(|i| value_walk(i.op) == Some(turn)));
        }
    }
    out
}

/// Checks that the operands of bundles are in the chip's range: what [`Program::decode`] gives is.
pub(crate) fn check(bundles: &Bundles, program: &Program, chip: &ChipConfig) -> Result<(), LoadError> {
    let ranges = ranges(bundles.len(), program, chip);
    for (at, b) in bundles.iter().enumerate() {
        b.iter().try_for_each(|i| check_operands(i, &ranges, chip, at))?;
    }
    Ok(())
}

/// Decodes `bundles`, whose operands are in range, for `chip`.
pub(crate) fn predecode(bundles: &Bundles, program: &Program, chip: &ChipConfig) -> Result<Code, LoadError> {
    let resources = resources(chip)?;
    let uses = uses(&resources, chip);
    let long = long_groups(bundles, &uses);
    let any_long = long.contains(&true);
    let mut shared = long;
    Slot::ALL.iter().for_each(|s| shared[*s as usize] &= chip.slots(*s) > 1);
    let mut p = Predecoder {
        code: Code { resources, long, any_long, shared, ..Code::default() },
        chip,
        at: 0,
        need: [0; GROUPS],
        have: Slot::ALL.map(|s| chip.slots(s)),
        intervals: Default::default(),
        timed_groups: 0,
        uses,
        push_d16: MxuFormat::ALL.map(|f| d16(chip.mxu_push_cycles(f))),
        stage_d16: d16(chip.mxu_stage_cycles()),
        values: 0,
        read_at: vec![usize::MAX; RESOURCES],
        written_at: vec![usize::MAX; RESOURCES],
    };
    p.code.heads.reserve_exact(bundles.len());
    p.code.branches.reserve_exact(bundles.len());
    // What is not touched costs nothing.
    p.code.reads.reserve(2 * bundles.insts().len());
    p.code.writes.reserve(bundles.insts().len());
    for (at, b) in bundles.iter().enumerate() {
        p.at = at;
        p.bundle(b)?;
    }
    let mut code = p.code;
    timed::mark(&mut code);
    code.blocks = Blocks::new(bundles, &mut code, chip);
    code.ops = vec![DebugRange::NONE; bundles.len()];
    let ranges = &program.debug.ranges;
    for (i, r) in ranges.iter().enumerate() {
        let end = ranges.get(i + 1).map_or(bundles.len(), |n| n.start as usize).min(bundles.len());
        let op = if (r.op as usize) < program.debug.ops.len() || r.op == DebugRange::CALLER {
            r.op
        } else {
            DebugRange::NONE
        };
        if (r.start as usize) < end {
            code.ops[r.start as usize..end].fill(op);
            code.heads[r.start as usize].flags |= FLAG_OP;
        }
    }
    Ok(code)
}

fn resources(chip: &ChipConfig) -> Result<Resources, LoadError> {
    let c = &chip.core;
    let limit = |name: &'static str, value: u32, max: u32| {
        if value == 0 || value > max {
            Err(LoadError::Chip { what: name, value: value as u64, max: max as u64 })
        } else {
            Ok(())
        }
    };
    limit("core.scalar_registers", c.scalar_registers, 64)?;
    limit("core.vector_registers", c.vector_registers, 512)?;
    limit("core.mask_registers", c.mask_registers, 128)?;
    limit("core.semaphores", c.semaphores, 256)?;
    limit("core.sublanes", c.sublanes, 256)?;
    limit("core.lanes", c.lanes, 1024)?;
    for slot in Slot::ALL {
        limit("slots of a kind", chip.slots(slot).max(1), MAX_UNITS as u32)?;
    }
    limit("mxu.count", chip.mxu.count.max(1), 16)?;
    for (class, t) in &chip.timing.0 {
        if t.latency > 1 << 20 || t.interval > 1 << 20 {
            return Err(LoadError::Timing { class: *class });
        }
    }
    let r = Resources::new(
        c.scalar_registers as usize,
        c.vector_registers as usize,
        c.mask_registers as usize,
        chip.mxu.count as usize,
        c.xlu_slots as usize,
    );
    debug_assert!(r.end <= RESOURCES);
    Ok(r)
}

/// The slot groups in which an instruction keeps its unit longer than a cycle.
fn long_groups(bundles: &Bundles, uses: &[Use]) -> [bool; GROUPS] {
    let mut occurs = vec![false; uses.len()];
    bundles.insts().iter().for_each(|i| occurs[i.op as usize] = true);
    let mut long = [false; GROUPS];
    for of in uses.iter().zip(occurs).filter(|u| u.1).map(|u| u.0) {
        long[of.slot as usize] |= of.interval > 1;
    }
    long
}

/// Kinds of operands.
const KINDS: usize = Kind::F8 as usize + 1;

/// Least and greatest operand by kind.
fn ranges(bundles: usize, program: &Program, chip: &ChipConfig) -> [(i32, i32); KINDS] {
    let mut out = [(0, -1); KINDS];
    for kind in TABLE.iter().flat_map(|i| i.operands).map(|o| o.kind) {
        out[kind as usize] = kind.range(chip);
    }
    let below = |n: usize| (0, i32::try_from(n).unwrap_or(i32::MAX) - 1);
    out[Kind::Target as usize] = below(bundles);
    out[Kind::Desc as usize] = below(program.descs.len());
    out
}

/// Cycles in sixteenths, one of them at least.
fn d16(cycles: f64) -> u32 {
    (cycles * 16.0).round().max(1.0) as u32
}

struct Predecoder<'a> {
    code: Code,
    chip: &'a ChipConfig,
    at: usize,
    /// Instructions of the bundle by slot, what the chip has, and how long those of long groups keep their units.
    need: [u32; GROUPS],
    have: [u32; GROUPS],
    intervals: [SmallVec<[u32; MAX_UNITS]>; GROUPS],
    /// The groups that have any, as a bit set.
    timed_groups: u32,
    uses: Vec<Use>,
    /// Sixteenths of a cycle that a register's rows of each format take to enter a matrix unit, and a register of weights.
    push_d16: [u32; MxuFormat::ALL.len()],
    stage_d16: u32,
    /// Instructions of the value walk so far.
    values: u32,
    /// The last bundle that reads, and that writes, each resource.
    read_at: Vec<usize>,
    written_at: Vec<usize>,
}

impl Predecoder<'_> {
    fn bundle(&mut self, b: &[Inst]) -> Result<(), LoadError> {
        let c = &self.code;
        let mut head = Head {
            reads: c.reads.len() as u32,
            writes: c.writes.len() as u32,
            scalars: c.scalars.len() as u32,
            specials: c.specials.len() as u32,
            values: self.values,
            ..Head::default()
        };
        self.need = [0; GROUPS];
        let mut branch = Branch::Halt;
        let mut nvalues = 0;
        let uses = std::mem::take(&mut self.uses);
        for inst in b {
            let of = &uses[inst.op as usize];
            self.need[of.slot as usize] += 1;
            if self.code.any_long && self.code.long[of.slot as usize] {
                self.intervals[of.slot as usize].push(of.interval.max(1));
                self.timed_groups |= 1 << of.slot as u32;
            }
            self.hazards(inst, of)?;
            head.units |= match of.units {
                Units::These(bits) => bits,
                Units::Mxu { operand } => 1 << (MXU_BIT + inst.operands[operand as usize] as u32),
            };
            nvalues += u32::from(of.value);
            if of.slot == Slot::Branch
                && let Function::Branch(function) = inst.op.function()
            {
                branch = to_branch(function, inst);
                head.flags |= FLAG_BRANCH;
            }
        }
        self.code.mxus_used |= head.units >> MXU_BIT;
        self.check_slots()?;
        head.nvalues = u8::try_from(nvalues).map_err(|_| LoadError::BundleTooLarge { bundle: self.at as u32 })?;
        self.values += nvalues;
        self.group_hazards(&mut head)?;
        for inst in b {
            let of = &uses[inst.op as usize];
            if of.scalar {
                self.scalar(inst);
            }
            if of.special {
                self.special(inst);
            }
        }
        self.uses = uses;
        // Loads of scalar memory come before its stores: all results are computed before any is written.
        let scalars = &mut self.code.scalars[head.scalars as usize..];
        if scalars.len() > 1 {
            scalars.sort_by_key(|s| s.kind == ScalarKind::State(StateFn::SSt));
        }
        self.finish(&mut head)?;
        self.code.heads.push(head);
        self.code.branches.push(branch);
        Ok(())
    }

    fn finish(&mut self, head: &mut Head) -> Result<(), LoadError> {
        let len = |n: usize, start: u32| {
            u8::try_from(n - start as usize).map_err(|_| LoadError::BundleTooLarge { bundle: self.at as u32 })
        };
        head.nreads = len(self.code.reads.len(), head.reads)?;
        head.nwrites = len(self.code.writes.len(), head.writes)?;
        head.nscalars = len(self.code.scalars.len(), head.scalars)?;
        head.nspecials = len(self.code.specials.len(), head.specials)?;
        for s in &self.code.specials[head.specials as usize..] {
            head.flags |= if s.gates() { FLAG_GATE } else { 0 } | if s.waits() { FLAG_WAIT } else { 0 };
        }
        let count = |slot: Slot| self.need[slot as usize];
        let v = &self.chip.vmem;
        let cycles = |n: u32, ports: u32| n.div_ceil(ports.max(1)).max(1);
        let busy = cycles(count(Slot::Vload), v.read_ports).max(cycles(count(Slot::Vstore), v.write_ports));
        head.extra = u8::try_from(busy - 1).map_err(|_| LoadError::BundleTooLarge { bundle: self.at as u32 })?;
        Ok(())
    }

    /// Whether the chip has a slot for each instruction of the bundle.
    fn check_slots(&self) -> Result<(), LoadError> {
        if self.need.iter().zip(&self.have).all(|(need, have)| *need <= (*have).min(200)) {
            return Ok(());
        }
        for slot in Slot::ALL {
            let (have, need) = (self.have[slot as usize], self.need[slot as usize]);
            if need > have.min(200) {
                return Err(LoadError::Slots { bundle: self.at as u32, slot, need, have });
            }
        }
        Ok(())
    }

    /// Adds the registers and queues that `inst` waits for and defines.
    #[inline]
    fn hazards(&mut self, inst: &Inst, of: &Use) -> Result<(), LoadError> {
        for h in &of.hazards {
            let v = inst.operands[h.operand as usize] as usize;
            if h.skips_zero && v == 0 {
                continue;
            }
            let resource = h.first as usize + h.step as usize * v;
            match h.what {
                Access::Read => self.read(resource),
                Access::ReadPair => {
                    self.read(resource);
                    self.read(resource + 1);
                }
                Access::Define => self.define(resource, h.delta)?,
                Access::DefinePair => {
                    self.define(resource, h.delta)?;
                    self.define(resource + 1, h.delta)?;
                }
            }
        }
        Ok(())
    }

    /// The bundle waits for a resource.
    #[inline]
    fn read(&mut self, resource: usize) {
        if std::mem::replace(&mut self.read_at[resource], self.at) != self.at {
            self.code.reads.push(resource as u16);
        }
    }

    /// The bundle waits for a resource and says when it is ready again.
    #[inline]
    fn define(&mut self, resource: usize, delta: u32) -> Result<(), LoadError> {
        self.read(resource);
        if std::mem::replace(&mut self.written_at[resource], self.at) == self.at {
            return Err(LoadError::DefinedTwice { bundle: self.at as u32 });
        }
        self.code.writes.push(Write { resource: resource as u16, delta });
        Ok(())
    }

    fn scalar(&mut self, inst: &Inst) {
        let function = inst.op.function();
        let kind = if let Function::Scalar(f) = function {
            ScalarKind::Pure(f)
        } else if let Function::State(f) = function {
            ScalarKind::State(f)
        } else {
            return;
        };
        let mut s = ScalarOp { kind, d: 0, a: 0, b: 0, c: 0, imm: 0, sources: 0 };
        let mut used = [0u8; 3];
        let mut n = 0;
        for (kind, v) in inst.iter() {
            match kind {
                Kind::Sd => s.d = v as u8,
                Kind::Su => {
                    used[n] = v as u8;
                    n += 1;
                    s.sources |= 1 << v;
                }
                Kind::Vu | Kind::I32 | Kind::I20 | Kind::U8 | Kind::Sem => s.imm = v,
                Kind::Sm | Kind::Vd | Kind::Pd | Kind::Pu | Kind::Md | Kind::Mu | Kind::I16 | Kind::U4 => {}
                Kind::Target | Kind::Desc | Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => {}
            }
        }
        [s.a, s.b, s.c] = used;
        self.code.scalars.push(s);
    }

    fn special(&mut self, inst: &Inst) {
        let o = &inst.operands;
        let m = &self.chip.mxu;
        let lanes = self.chip.core.lanes;
        let unit = o[0] as u8;
        let latency = self.chip.timing.get(inst.op.info().class).latency;
        let is_last = |chunk: i32, size: u32| chunk as i64 + 1 == (size / lanes) as i64;
        let fires = is_last(o[2], m.rows);
        let s = match inst.op.function() {
            Function::Matrix(function) => match function {
                MatrixFn::MStage | MatrixFn::MStageT => Special::Stage { unit, d16: self.stage_d16 },
                MatrixFn::MLatch => Special::Latch { unit },
                // Only the last chunk moves the array.
                MatrixFn::MPush | MatrixFn::MPushSet | MatrixFn::MPushAdd if !fires => return,
                MatrixFn::MPush => Special::Push { unit, d16: self.push_d16[o[3] as usize] },
                MatrixFn::MPushSet | MatrixFn::MPushAdd => {
                    Special::PushAcc { unit, d16: self.push_d16[o[3] as usize], row: o[4] as u8 }
                }
                MatrixFn::MPop => Special::Pop { unit: o[1] as u8, retires: is_last(o[2], m.cols) },
                MatrixFn::MDrain => Special::Drain { unit: o[1] as u8, row: o[3] as u8 },
            },
            Function::Dma(function) => self.transfer(function, inst, latency),
            Function::CrossLane(CrossLaneFn::XTpush) => Special::TransposePush { unit, latency },
            Function::State(StateFn::SyncTest) => Special::Test,
            Function::Scalar(_) | Function::State(_) | Function::Fill(_) | Function::Lanes(_) => return,
            Function::Convert(_) | Function::Compare(_) | Function::Mask(_) | Function::Select(_) => return,
            Function::PairMove(_) | Function::Pair(_) | Function::PairCompare(_) | Function::PairConvert(_) => return,
            Function::Transcendental(_) | Function::CrossLane(_) | Function::Reduce(_) => return,
            Function::Load(_) | Function::Store(_) | Function::Branch(_) => return,
        };
        self.code.specials.push(s);
    }

    fn transfer(&mut self, function: DmaFn, inst: &Inst, latency: u32) -> Special {
        let o = &inst.operands;
        let first = o[0] as u8;
        match function {
            DmaFn::DmaWait => Special::Wait { sem: first, bytes: o[1] as u32, latency },
            DmaFn::DmaWaitS => Special::WaitS { sem: first, reg: o[1] as u8, latency },
            DmaFn::DmaStart => {
                let [desc, src, src_offset, dst, dst_offset, sem] = *o;
                self.code.starts.push(Start {
                    desc: desc as u32,
                    src: src as u8,
                    src_offset: src_offset as u8,
                    dst: dst as u8,
                    dst_offset: dst_offset as u8,
                    sem: sem as u8,
                });
                Special::DmaStart { start: self.code.starts.len() as u32 - 1 }
            }
            DmaFn::DmaRemote => {
                let [desc, src, dst, device, send, recv] = *o;
                let r = [src, dst, device, send, recv].map(|v| v as u8);
                let remote =
                    RemoteStart { desc: desc as u32, src: r[0], dst: r[1], device: r[2], send: r[3], recv: r[4] };
                self.code.remotes.push(remote);
                Special::DmaRemote { start: self.code.remotes.len() as u32 - 1 }
            }
            DmaFn::SyncCores => Special::Cores { share: o[0] as u32, latency },
            DmaFn::SyncSignal => Special::Signal { device: first, sem: o[1] as u8, count: o[2] as u32 },
        }
    }

    /// Occupancy of slot groups whose units may be kept for more than a cycle: the times at which one, two, ... units are
    /// free are resources like registers. A group of one unit is even written like a register.
    fn group_hazards(&mut self, head: &mut Head) -> Result<(), LoadError> {
        if !self.code.any_long {
            return Ok(());
        }
        let mut left = std::mem::take(&mut self.timed_groups);
        while left != 0 {
            let group = left.trailing_zeros() as usize;
            left &= left - 1;
            let mut intervals = std::mem::take(&mut self.intervals[group]);
            let free = self.code.resources.group(group, intervals.len());
            if self.code.shared[group] {
                self.read(free);
                head.flags |= FLAG_SHARED;
                intervals.sort_unstable();
                for same in intervals.chunk_by(|a, b| a == b).filter(|s| s[0] > 1) {
                    let special = Special::Group { group: group as u8, count: same.len() as u8, interval: same[0] };
                    self.code.specials.push(special);
                }
            } else {
                self.define(free, delta(intervals[0], Cause::Slot))?;
                self.code.kept.push((self.at as u32, group as u8, intervals[0]));
            }
        }
        Ok(())
    }
}

/// Whether the operands of an instruction of bundle `at` are in the chip's range.
fn check_operands(inst: &Inst, ranges: &[(i32, i32); KINDS], chip: &ChipConfig, at: usize) -> Result<(), LoadError> {
    let wrong = |i: usize| LoadError::Operand { bundle: at as u32, inst: crate::text::inst(inst), operand: i as u32 };
    for (i, (kind, v)) in inst.iter().enumerate() {
        let (least, greatest) = ranges[kind as usize];
        if v < least || v > greatest || matches!(kind, Kind::Pd | Kind::Pu) && v % 2 != 0 {
            return Err(wrong(i));
        }
    }
    let (m, lanes) = (&chip.mxu, chip.core.lanes);
    let Function::Matrix(function) = inst.op.function() else { return Ok(()) };
    let chunks = match function {
        MatrixFn::MStage | MatrixFn::MPop | MatrixFn::MDrain => m.cols / lanes,
        MatrixFn::MStageT | MatrixFn::MPush | MatrixFn::MPushSet | MatrixFn::MPushAdd => m.rows / lanes,
        MatrixFn::MLatch => return Ok(()),
    };
    if inst.operands[2] as u32 >= chunks { Err(wrong(2)) } else { Ok(()) }
}

fn to_branch(function: BranchFn, inst: &Inst) -> Branch {
    let o = &inst.operands;
    match function {
        BranchFn::BJmp => Branch::Jump { target: o[0] as u32 },
        BranchFn::BNz => Branch::NotZero { reg: o[0] as u8, target: o[1] as u32 },
        BranchFn::BZ => Branch::Zero { reg: o[0] as u8, target: o[1] as u32 },
        BranchFn::BLoop => Branch::Loop { reg: o[0] as u8, target: o[1] as u32 },
        BranchFn::BCall => Branch::Call { target: o[0] as u32 },
        BranchFn::BRet => Branch::Return,
        BranchFn::BHalt => Branch::Halt,
        BranchFn::BTrap => Branch::Trap { code: o[0] },
        BranchFn::BHost => Branch::Host { call: o[0] as u32 },
    }
}
