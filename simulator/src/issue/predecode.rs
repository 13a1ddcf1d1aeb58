//! From bundles to [`Code`], proving what the walks rely on.

use super::code::*;
use super::fetch::Blocks;
use super::repeats::Repeats;
use super::timed;
use super::uses::{Turn, Use, uses, value_walk};
use crate::load::LoadError;
use crate::stats::{Cause, Gather};
use smallvec::SmallVec;
use systole_isa::chip::ChipConfig;
use systole_isa::decode::Words;
use systole_isa::encoding::opcode;
use systole_isa::opcodes::{BranchFn, CrossLaneFn, DmaFn, MatrixFn, StateFn, TABLE};
use systole_isa::program::DebugRange;
use systole_isa::validate::Reader;
use systole_isa::{Bundles, Function, Inst, Kind, MxuFormat, Program, Slot, Survey};

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

/// Makes code for `chip` of bundles, whose operands are in range: `reader` gives them, a survey tells what is among them.
pub(crate) fn predecode(
    (words, survey): (&[u8], &Survey),
    program: &Program,
    chip: &ChipConfig,
    mut reader: Reader<'_>,
) -> Result<Code, LoadError> {
    let resources = resources(chip)?;
    let mut uses = uses(&resources, chip);
    let long = long_groups(survey, &uses);
    uses.iter_mut().for_each(|u| u.more |= long[u.slot as usize]);
    let mut shared = long;
    Slot::ALL.iter().for_each(|s| shared[*s as usize] &= chip.slots(*s) > 1);
    let ports = [(Slot::Vload, chip.vmem.read_ports), (Slot::Vstore, chip.vmem.write_ports)];
    let mut p = Predecoder {
        code: Code { resources, long, any_long: long.contains(&true), shared, ..Code::default() },
        chip,
        at: 0,
        need: [0; SLOTS],
        long: (0..GROUPS).map(|g| u32::from(long[g]) << g).sum(),
        occupied: SmallVec::new(),
        uses: &uses,
        push_d16: MxuFormat::ALL.map(|f| d16(chip.mxu_push_cycles(f))),
        stage_d16: d16(chip.mxu_stage_cycles()),
        port_cycles: ports.map(|(slot, n)| (slot, std::array::from_fn(|i| (i as u32).div_ceil(n.max(1)).max(1) as u8))),
        values: 0,
        hazards: Box::new(Hazards {
            at: 0,
            zeros: [0, resources.masks],
            reads: [0; MOST],
            nreads: 0,
            writes: [Write { resource: 0, delta: 0 }; MOST],
            nwrites: 0,
            twice: false,
            read_at: [u32::MAX; RESOURCES],
            written_at: [u32::MAX; RESOURCES],
        }),
    };
    p.code.heads.reserve_exact(survey.bundles);
    p.code.branches.reserve_exact(survey.bundles);
    // What is not touched costs nothing.
    p.code.reads.reserve(2 * survey.insts);
    p.code.writes.reserve(survey.insts);
    let of = |slots: &[Slot]| slots.iter().map(|s| survey.slots[*s as usize]).sum();
    p.code.scalars.reserve(of(&[Slot::Scalar]));
    p.code.specials.reserve(of(&[Slot::MxuPush, Slot::MxuPop, Slot::Dma]));
    let mut activity = Gather::new(program, chip);
    let mut sizes = Vec::with_capacity(survey.bundles);
    let mut repeats = Repeats::new(words, survey.bundles);
    loop {
        if let Some((size, Some(before))) = repeats.go_on() {
            reader.pass(size);
            p.repeat(before);
            activity.repeat(before);
            sizes.push(size as u8 - 1);
            continue;
        }
        let Some(words) = reader.words()? else { break };
        p.bundle(words, &reader)?;
        activity.bundle(words, &reader);
        // No chip has slots for more.
        sizes.push(words.len() as u8);
    }
    let mut code = p.code;
    let h = &p.hazards;
    for r in (0..RESOURCES).filter(|r| h.read_at[*r] != u32::MAX && !h.zeros.contains(r)) {
        code.waited[r / 32] |= 1 << (r % 32);
    }
    code.activity = activity.finish();
    timed::mark(&mut code);
    code.blocks = Blocks::new(&sizes, &mut code, chip);
    let bundles = code.heads.len();
    code.ops = vec![DebugRange::NONE; bundles];
    let ranges = &program.debug.ranges;
    for (i, r) in ranges.iter().enumerate() {
        let end = ranges.get(i + 1).map_or(bundles, |n| n.start as usize).min(bundles);
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
fn long_groups(survey: &Survey, uses: &[Use]) -> [bool; GROUPS] {
    let mut long = [false; GROUPS];
    for of in uses.iter().zip(survey.occurs).filter(|u| u.1).map(|u| u.0) {
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

/// Room for what a bundle waits for and defines: each resource once.
const MOST: usize = RESOURCES;

/// What a bundle waits for and defines.
struct Hazards {
    /// The bundle's number.
    at: u32,
    /// The registers zero, which nothing waits for or defines.
    zeros: [usize; 2],
    /// What there is so far.
    reads: [u16; MOST],
    nreads: usize,
    writes: [Write; MOST],
    nwrites: usize,
    /// Something is defined twice.
    twice: bool,
    /// The last bundle that reads, and that writes, each resource.
    read_at: [u32; RESOURCES],
    written_at: [u32; RESOURCES],
}

impl Hazards {
    /// Begins a bundle.
    fn begin(&mut self, at: u32) {
        (self.at, self.nreads, self.nwrites, self.twice) = (at, 0, 0, false);
        // They are always ready.
        self.zeros.iter().for_each(|&zero| self.read_at[zero & (RESOURCES - 1)] = at);
    }

    /// Adds the registers and queues that an instruction waits for and defines.
    #[inline(always)]
    fn add(&mut self, word: u64, of: &Use) {
        let (at, mut nreads) = (self.at, self.nreads);
        for h in of.waits() {
            let resource = h.resource(word) & (RESOURCES - 1);
            let fresh = std::mem::replace(&mut self.read_at[resource], at) != at;
            self.reads[nreads & (MOST - 1)] = resource as u16;
            nreads += usize::from(fresh);
        }
        self.nreads = nreads;
        for h in of.definitions() {
            let resource = h.resource(word);
            if !self.zeros.contains(&resource) {
                self.define(resource, h.delta);
            }
        }
    }

    /// The bundle waits for a resource.
    #[inline(always)]
    fn read(&mut self, resource: usize) {
        let resource = resource & (RESOURCES - 1);
        let fresh = std::mem::replace(&mut self.read_at[resource], self.at) != self.at;
        self.reads[self.nreads & (MOST - 1)] = resource as u16;
        self.nreads += usize::from(fresh);
    }

    /// The bundle waits for a resource and says when it is ready again.
    #[inline(always)]
    fn define(&mut self, resource: usize, delta: u32) {
        self.read(resource);
        self.twice |= std::mem::replace(&mut self.written_at[resource & (RESOURCES - 1)], self.at) == self.at;
        self.writes[self.nwrites & (MOST - 1)] = Write { resource: resource as u16, delta };
        self.nwrites += 1;
    }
}

/// Room for slot groups.
const SLOTS: usize = GROUPS.next_power_of_two();

struct Predecoder<'a> {
    code: Code,
    chip: &'a ChipConfig,
    /// The bundle's number.
    at: u32,
    /// Instructions of the bundle by slot.
    need: [u8; SLOTS],
    /// [`Code::long`] as a bit set.
    long: u32,
    /// How long instructions of long groups keep their units: those of groups of several units where it is more than a cycle.
    occupied: SmallVec<[(u8, u32); MAX_UNITS]>,
    uses: &'a [Use],
    /// Sixteenths of a cycle that a register's rows of each format take to enter a matrix unit, and a register of weights.
    push_d16: [u32; MxuFormat::ALL.len()],
    stage_d16: u32,
    /// Cycles in which memory's ports take so many instructions of a slot.
    port_cycles: [(Slot, [u8; MAX_UNITS + 1]); 2],
    /// Instructions of the value walk so far.
    values: u32,
    hazards: Box<Hazards>,
}

impl Predecoder<'_> {
    #[inline(never)]
    fn bundle(&mut self, words: Words<'_>, reader: &Reader<'_>) -> Result<(), LoadError> {
        let c = &self.code;
        let mut head = Head {
            reads: c.reads.len() as u32,
            writes: c.writes.len() as u32,
            scalars: c.scalars.len() as u32,
            specials: c.specials.len() as u32,
            values: self.values,
            ..Head::default()
        };
        self.need = [0; SLOTS];
        self.hazards.begin(self.at);
        let mut branch = Branch::Halt;
        let (mut nvalues, mut groups, mut specials, mut stores) = (0, 0, false, false);
        let (uses, hazards) = (self.uses, &mut *self.hazards);
        for word in words.iter().map(|w| u64::from_le_bytes(*w)) {
            let of = &uses[opcode(word)];
            let slot = of.slot as usize;
            self.need[slot] += 1;
            groups |= 1 << slot;
            hazards.add(word, of);
            head.units |= of.units | of.mxu << (word >> of.mxu_shift & 15);
            nvalues += u32::from(of.value);
            specials |= of.special;
            if !of.more {
                continue;
            }
            if self.long >> slot & 1 == 1 && (of.interval > 1 || !self.code.shared[slot]) {
                self.occupied.push((slot as u8, of.interval));
            }
            if let Some(form) = &of.scalar {
                let s = form.read(&reader.inst(word));
                stores |= s.kind == ScalarKind::State(StateFn::SSt);
                self.code.scalars.push(s);
            }
            if of.slot == Slot::Branch {
                let inst = reader.inst(word);
                if let Function::Branch(function) = inst.op.function() {
                    branch = to_branch(function, &inst);
                    head.flags |= FLAG_BRANCH;
                }
            }
        }
        self.code.mxus_used |= head.units >> MXU_BIT;
        head.nvalues = u8::try_from(nvalues).map_err(|_| LoadError::BundleTooLarge { bundle: self.at })?;
        self.values += nvalues;
        if groups & self.long != 0 {
            self.group_hazards(&mut head, groups & self.long);
        }
        if specials {
            for word in words.iter().map(|w| u64::from_le_bytes(*w)) {
                if uses[opcode(word)].special {
                    self.special(&reader.inst(word));
                }
            }
        }
        if stores {
            // Loads of scalar memory come before its stores: all results are computed before any is written.
            let scalars = &mut self.code.scalars[head.scalars as usize..];
            scalars.sort_by_key(|s| s.kind == ScalarKind::State(StateFn::SSt));
        }
        self.finish(&mut head)?;
        self.code.heads.push(head);
        self.code.branches.push(branch);
        self.at += 1;
        Ok(())
    }

    /// A bundle that is the same as one before it.
    fn repeat(&mut self, before: usize) {
        let c = &mut self.code;
        let mut head = c.heads[before];
        let scalars = head.scalars as usize..head.scalars as usize + usize::from(head.nscalars);
        // Which of them time depends on is another thing in each place.
        (head.scalars, head.values) = (c.scalars.len() as u32, self.values);
        c.scalars.extend_from_within(scalars);
        c.heads.push(head);
        c.branches.push(c.branches[before]);
        let first = c.kept.partition_point(|k| (k.0 as usize) < before);
        let own = c.kept[first..].iter().take_while(|k| k.0 as usize == before).count();
        for i in first..first + own {
            let (_, group, interval) = c.kept[i];
            c.kept.push((self.at, group, interval));
        }
        self.values += u32::from(head.nvalues);
        self.at += 1;
    }

    fn finish(&mut self, head: &mut Head) -> Result<(), LoadError> {
        let len = |n: usize, start: u32| {
            u8::try_from(n - start as usize).map_err(|_| LoadError::BundleTooLarge { bundle: self.at })
        };
        let h = &*self.hazards;
        (head.nreads, head.nwrites) = (len(h.nreads, 0)?, len(h.nwrites, 0)?);
        if h.twice {
            return Err(LoadError::DefinedTwice { bundle: self.at });
        }
        self.code.reads.extend_from_slice(&h.reads[..h.nreads]);
        self.code.writes.extend_from_slice(&h.writes[..h.nwrites]);
        head.nscalars = len(self.code.scalars.len(), head.scalars)?;
        head.nspecials = len(self.code.specials.len(), head.specials)?;
        for s in &self.code.specials[head.specials as usize..] {
            head.flags |= if s.gates() { FLAG_GATE } else { 0 } | if s.waits() { FLAG_WAIT } else { 0 };
            head.flags |= if s.row().is_some() { FLAG_ROWS } else { 0 };
        }
        let cycles = self.port_cycles.iter().map(|(slot, cycles)| cycles[self.need[*slot as usize] as usize]);
        head.extra = cycles.max().unwrap_or(1) - 1;
        Ok(())
    }

    fn special(&mut self, inst: &Inst) {
        let o = &inst.operands;
        let m = &self.chip.mxu;
        let lanes = self.chip.core.lanes;
        let unit = o[0] as u8;
        let latency = || self.chip.timing.get(inst.op.info().class).latency;
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
            Function::Dma(function) => {
                let latency = latency();
                self.transfer(function, inst, latency)
            }
            Function::CrossLane(CrossLaneFn::XTpush) => Special::TransposePush { unit, latency: latency() },
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
    fn group_hazards(&mut self, head: &mut Head, mut groups: u32) {
        self.occupied.sort_unstable();
        let occupied = std::mem::take(&mut self.occupied);
        while groups != 0 {
            let group = groups.trailing_zeros() as usize;
            groups &= groups - 1;
            let free = self.code.resources.group(group, self.need[group] as usize);
            let mut own = occupied.iter().filter(|o| o.0 as usize == group).map(|o| o.1).peekable();
            if !self.code.shared[group] {
                let interval = own.next().unwrap_or(1);
                self.hazards.define(free, delta(interval, Cause::Slot));
                self.code.kept.push((self.at, group as u8, interval));
                continue;
            }
            self.hazards.read(free);
            head.flags |= FLAG_SHARED;
            while let Some(interval) = own.next() {
                let mut count = 1;
                while own.next_if_eq(&interval).is_some() {
                    count += 1;
                }
                self.code.specials.push(Special::Group { group: group as u8, count, interval });
            }
        }
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
