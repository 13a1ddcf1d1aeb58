//! From bundles to [`Code`], proving what the walks rely on.

use super::code::*;
use super::fetch::Blocks;
use super::timed;
use crate::load::LoadError;
use crate::stats::Cause;
use smallvec::SmallVec;
use systole_isa::chip::ChipConfig;
use systole_isa::opcodes::{BranchFn, CrossLaneFn, DmaFn, MatrixFn, StateFn, TABLE};
use systole_isa::program::DebugRange;
use systole_isa::table::OpInfo;
use systole_isa::{Bundles, Effect, Function, Inst, Kind, MxuFormat, Op, Program, Slot};

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
    let long = long_groups(bundles, chip);
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
        uses: uses(chip),
        values: 0,
        read_at: vec![usize::MAX; RESOURCES],
        written_at: vec![usize::MAX; RESOURCES],
    };
    p.code.heads.reserve_exact(bundles.len());
    p.code.branches.reserve_exact(bundles.len());
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
fn long_groups(bundles: &Bundles, chip: &ChipConfig) -> [bool; GROUPS] {
    let mut long = [false; GROUPS];
    for i in bundles.insts() {
        long[i.op.info().slot as usize] |= interval(i.op, chip) > 1;
    }
    long
}

/// Issue interval of an opcode as its slot group sees it; matrix units and DMA engines model their own.
fn interval(op: Op, chip: &ChipConfig) -> u32 {
    let info = op.info();
    match info.slot {
        Slot::Branch => 1,
        Slot::Valu | Slot::Eup | Slot::Xlu | Slot::Scalar | Slot::Vload | Slot::Vstore => {
            chip.timing.get(info.class).interval
        }
        Slot::MxuPush | Slot::MxuPop | Slot::Dma => chip.timing.get(info.class).interval,
    }
}

/// What the walks make of an opcode's instructions.
#[derive(Clone, Copy, Debug)]
struct Use {
    info: &'static OpInfo,
    /// Of a register that it defines.
    delta: u32,
    interval: u32,
    scalar: bool,
    special: bool,
    value: bool,
}

/// When the value walk executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// First: it reads registers and memory.
    Reads,
    /// Behind all that read.
    Stores,
}

/// When the value walk executes instructions of an opcode; scalar instructions, DMA and branches are other walks'.
fn value_walk(op: Op) -> Option<Turn> {
    match op.function() {
        Function::Scalar(_) | Function::State(_) | Function::Dma(_) | Function::Branch(_) => None,
        Function::Store(_) => Some(Turn::Stores),
        Function::Matrix(_) | Function::CrossLane(_) | Function::Fill(_) | Function::Lanes(_) => Some(Turn::Reads),
        Function::Convert(_) | Function::Compare(_) | Function::Mask(_) | Function::Select(_) => Some(Turn::Reads),
        Function::PairMove(_) | Function::Pair(_) | Function::PairCompare(_) => Some(Turn::Reads),
        Function::PairConvert(_) | Function::Transcendental(_) => Some(Turn::Reads),
        Function::Reduce(_) | Function::Load(_) => Some(Turn::Reads),
    }
}

/// Whether time depends on more of an opcode's instructions than registers and units.
fn is_special(op: Op) -> bool {
    match op.function() {
        Function::Dma(_) | Function::Matrix(_) | Function::CrossLane(_) => true,
        Function::State(f) => f == StateFn::SyncTest,
        Function::Scalar(_) | Function::Branch(_) | Function::Store(_) | Function::Load(_) => false,
        Function::Fill(_) | Function::Lanes(_) | Function::Convert(_) | Function::Compare(_) => false,
        Function::Mask(_) | Function::Select(_) | Function::PairMove(_) | Function::Pair(_) => false,
        Function::PairCompare(_) | Function::PairConvert(_) | Function::Transcendental(_) => false,
        Function::Reduce(_) => false,
    }
}

/// By number of the opcode.
fn uses(chip: &ChipConfig) -> Vec<Use> {
    let numbers = TABLE.iter().map(|i| i.op as usize + 1).max().unwrap_or(0);
    let of = |info: &'static OpInfo| Use {
        info,
        delta: delta(chip.timing.get(info.class).latency.max(1), Cause::Register),
        interval: interval(info.op, chip),
        scalar: matches!(info.op.function(), Function::Scalar(_) | Function::State(_)),
        special: is_special(info.op),
        value: value_walk(info.op).is_some(),
    };
    // Numbers that no opcode has are in no bundle.
    let mut out = vec![of(&TABLE[0]); numbers];
    TABLE.iter().for_each(|info| out[info.op as usize] = of(info));
    out
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

struct Predecoder<'a> {
    code: Code,
    chip: &'a ChipConfig,
    at: usize,
    /// Instructions of the bundle by slot, what the chip has, and how long those of long groups keep their units.
    need: [u32; GROUPS],
    have: [u32; GROUPS],
    intervals: [SmallVec<[u32; MAX_UNITS]>; GROUPS],
    uses: Vec<Use>,
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
        self.check_slots(b)?;
        let mut branch = Branch::Halt;
        let mut nvalues = 0;
        for inst in b {
            let of = self.uses[inst.op as usize];
            self.hazards(inst, of)?;
            head.units |= self.unit_bit(inst, of);
            nvalues += u32::from(of.value);
            if of.info.slot == Slot::Branch
                && let Function::Branch(function) = inst.op.function()
            {
                branch = to_branch(function, inst);
                head.flags |= FLAG_BRANCH;
            }
        }
        head.nvalues = u8::try_from(nvalues).map_err(|_| LoadError::BundleTooLarge { bundle: self.at as u32 })?;
        self.values += nvalues;
        self.group_hazards(&mut head)?;
        for inst in b {
            let of = self.uses[inst.op as usize];
            if of.scalar {
                self.scalar(inst);
            }
            if of.special {
                self.special(inst);
            }
        }
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

    /// Counts the bundle's instructions by slot.
    fn check_slots(&mut self, b: &[Inst]) -> Result<(), LoadError> {
        self.need = [0; GROUPS];
        for i in b {
            let of = self.uses[i.op as usize];
            let slot = of.info.slot as usize;
            self.need[slot] += 1;
            if self.code.long[slot] {
                self.intervals[slot].push(of.interval.max(1));
            }
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
    fn hazards(&mut self, inst: &Inst, of: Use) -> Result<(), LoadError> {
        let r = self.code.resources;
        let (info, write_delta) = (of.info, of.delta);
        for (operand, v) in info.operands.iter().zip(inst.operands) {
            let v = v as usize;
            match operand.kind {
                Kind::Su if v != 0 => self.read(v),
                Kind::Sd if v != 0 => self.define(v, write_delta)?,
                Kind::Sm if v != 0 => self.define(v, delta(1, Cause::Register))?,
                Kind::Vu => self.read(r.vectors + v),
                Kind::Vd => self.define(r.vectors + v, write_delta)?,
                Kind::Pu => {
                    self.read(r.vectors + v);
                    self.read(r.vectors + v + 1);
                }
                Kind::Pd => {
                    self.define(r.vectors + v, write_delta)?;
                    self.define(r.vectors + v + 1, write_delta)?;
                }
                Kind::Mu if v != 0 => self.read(r.masks + v),
                Kind::Md if v != 0 => self.define(r.masks + v, write_delta)?,
                Kind::Su | Kind::Sd | Kind::Sm | Kind::Mu | Kind::Md => {}
                Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Target | Kind::Desc | Kind::Sem => {}
                Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => {}
            }
        }
        let o = &inst.operands;
        match info.effect {
            Effect::MxuStage => self.read(r.mxu(o[0] as usize, MXU_STAGE)),
            Effect::MxuPush | Effect::MxuAccumulate => self.read(r.mxu(o[0] as usize, MXU_PUSH)),
            Effect::MxuPop => self.read(r.mxu(o[1] as usize, MXU_POP)),
            Effect::XluPop => self.read(r.xlu(o[1] as usize)),
            Effect::None | Effect::VmemLoad | Effect::VmemStore | Effect::SmemLoad | Effect::SmemStore => {}
            Effect::MxuLatch | Effect::MxuDrain | Effect::XluPush => {}
            Effect::DmaStart | Effect::DmaWait | Effect::DmaRemote | Effect::Signal => {}
            Effect::Cores | Effect::SyncTest => {}
            Effect::Control | Effect::Trap => {}
        }
        Ok(())
    }

    /// The bundle waits for a resource.
    fn read(&mut self, resource: usize) {
        if std::mem::replace(&mut self.read_at[resource], self.at) != self.at {
            self.code.reads.push(resource as u16);
        }
    }

    /// The bundle waits for a resource and says when it is ready again.
    fn define(&mut self, resource: usize, delta: u32) -> Result<(), LoadError> {
        self.read(resource);
        if std::mem::replace(&mut self.written_at[resource], self.at) == self.at {
            return Err(LoadError::DefinedTwice { bundle: self.at as u32 });
        }
        self.code.writes.push(Write { resource: resource as u16, delta });
        Ok(())
    }

    fn unit_bit(&mut self, inst: &Inst, of: Use) -> u32 {
        let unit = match of.info.slot {
            Slot::Scalar | Slot::Branch => UNIT_SCALAR,
            Slot::Valu => UNIT_VALU,
            Slot::Vload => UNIT_VLOAD,
            Slot::Vstore => UNIT_VSTORE,
            Slot::Eup => UNIT_EUP,
            Slot::Xlu => UNIT_XLU,
            Slot::MxuPush => MXU_BIT + inst.operands[0] as u32,
            Slot::MxuPop => MXU_BIT + inst.operands[1] as u32,
            Slot::Dma => return 0,
        };
        if unit >= MXU_BIT {
            self.code.mxus_used |= 1 << (unit - MXU_BIT);
        }
        1 << unit
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

    /// Sixteenths of a cycle that a register's rows take to enter a matrix unit.
    fn push_d16(&self, format: i32) -> u32 {
        let f = MxuFormat::ALL[format as usize];
        let names: &[&str] = match f {
            MxuFormat::S8 | MxuFormat::U8 => &["s8", "int8", "bf16"],
            MxuFormat::F8 => &["f8", "fp8", "bf16"],
            MxuFormat::Bf16 | MxuFormat::High | MxuFormat::Mid | MxuFormat::Low | MxuFormat::HighFinite => &["bf16"],
        };
        let types = &self.chip.mxu.types;
        let rate = names.iter().find_map(|n| types.iter().find(|t| t.operand == *n)).or(types.first());
        let rate = rate.map_or(1.0, |t| t.rows_per_cycle).max(1e-3);
        (self.chip.core.sublanes as f64 * 16.0 / rate).round().max(1.0) as u32
    }

    /// Sixteenths of a cycle that a register of weights takes to shift in.
    fn stage_d16(&self) -> u32 {
        let (c, m) = (&self.chip.core, &self.chip.mxu);
        let rows = (c.sublanes * c.lanes) as f64 / m.cols.max(1) as f64;
        (rows * 16.0 / m.weight_rows_per_cycle.max(1) as f64).round().max(1.0) as u32
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
                MatrixFn::MStage | MatrixFn::MStageT => Special::Stage { unit, d16: self.stage_d16() },
                MatrixFn::MLatch => Special::Latch { unit },
                // Only the last chunk moves the array.
                MatrixFn::MPush | MatrixFn::MPushSet | MatrixFn::MPushAdd if !fires => return,
                MatrixFn::MPush => Special::Push { unit, d16: self.push_d16(o[3]) },
                MatrixFn::MPushSet | MatrixFn::MPushAdd => {
                    Special::PushAcc { unit, d16: self.push_d16(o[3]), row: o[4] as u8 }
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
        for group in 0..GROUPS {
            if self.intervals[group].is_empty() {
                continue;
            }
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
