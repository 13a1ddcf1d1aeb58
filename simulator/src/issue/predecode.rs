//! From bundles to [`Code`], proving what the walks rely on.

use super::code::*;
use super::fetch::Blocks;
use super::form::{Form, Forms, Place};
use super::scan::Scan;
use super::timed;
use super::uses::{Hazard, Turn, Use, uses, value_walk};
use crate::load::LoadError;
use crate::stats::{Cause, Gather, SLOTS as STAT_SLOTS};
use smallvec::SmallVec;
use systole_isa::chip::ChipConfig;
use systole_isa::decode::Words;
use systole_isa::encoding::opcode;
use systole_isa::opcodes::{BranchFn, CrossLaneFn, DmaFn, MatrixFn, StateFn, TABLE};
use systole_isa::program::DebugRange;
use systole_isa::validate::Reader;
use systole_isa::{Bundles, Function, Inst, Kind, MxuFormat, Op, Program, Slot};

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

/// Makes code for `chip` of bundles, whose operands are in range: `reader` gives them. Whether it knows of other cores of its device.
pub(crate) fn predecode(
    words: &[u8],
    program: &Program,
    chip: &ChipConfig,
    mut reader: Reader<'_>,
) -> Result<(Code, bool), LoadError> {
    let resources = resources(chip)?;
    let scan = Scan::new(words, program.bundles as usize, &mut reader)?;
    if scan.bundles.is_empty() {
        return Err(LoadError::Empty);
    }
    let occurs = std::array::from_fn(|opcode| scan.occurs(opcode));
    let uses = uses(&occurs, &resources, chip);
    let long = long_groups(&occurs, &uses);
    let unit_is_long = |unit: &usize| long[STAT_SLOTS[*unit] as usize];
    let long_units = (0..SLOT_UNITS).filter(unit_is_long).map(|unit| 1 << unit).sum();
    let mut shared = long;
    Slot::ALL.iter().for_each(|s| shared[*s as usize] &= chip.slots(*s) > 1);
    let ports = [(Slot::Vload, chip.vmem.read_ports), (Slot::Vstore, chip.vmem.write_ports)];
    let mut p = Predecoder {
        code: Code { resources, long, long_units, shared, ..Code::default() },
        chip,
        at: 0,
        need: [0; SLOTS],
        long: (0..GROUPS).map(|g| u32::from(long[g]) << g).sum(),
        occupied: SmallVec::new(),
        uses: &uses,
        own: (0..Op::NUMBERS).map(|opcode| scan.own(opcode)).collect(),
        forms: Forms::default(),
        push_d16: MxuFormat::ALL.map(|f| d16(chip.mxu_push_cycles(f))),
        stage_d16: d16(chip.mxu_stage_cycles()),
        port_cycles: ports.map(|(slot, n)| (slot, std::array::from_fn(|i| (i as u32).div_ceil(n.max(1)).max(1) as u8))),
        hazards: Box::new(Hazards {
            at: 0,
            zeros: [0, resources.masks],
            reads: [0; MOST],
            nreads: 0,
            writes: [Write { resource: 0, delta: 0 }; MOST],
            nwrites: 0,
            counts: std::array::from_fn(|r| u8::from(r != 0 && r != resources.masks)),
            twice: false,
            last: [u32::MAX; RESOURCES],
        }),
    };
    let bundles = scan.bundles.len();
    p.code.heads.reserve_exact(bundles);
    p.code.branches = vec![Branch::Halt; bundles];
    p.code.scalars.reserve(bundles);
    let mut activity = Gather::new(scan.forms.len(), &occurs, program, chip);
    p.forms.reserve(scan.forms.len());
    for &first in &scan.forms {
        let words = scan.words(&scan.bundles[first as usize]);
        activity.bundle(words, &reader);
        p.form(first, words, &reader)?;
    }
    p.bundles(&scan, &reader)?;
    let mut code = p.code;
    let h = &p.hazards;
    for r in (0..RESOURCES).filter(|r| h.last[*r] != u32::MAX && !h.zeros.contains(r)) {
        code.waited[r / 32] |= 1 << (r % 32);
    }
    code.activity = activity.finish(scan.bundles.iter().map(|b| b.form).collect());
    timed::mark(&mut code);
    code.blocks = Blocks::new(words.len() as u64, scan.begins(), &mut code, chip);
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
    Ok((code, [Op::SCore, Op::SyncCores].iter().any(|&op| occurs[op as usize])))
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
fn long_groups(occurs: &[bool; Op::NUMBERS], uses: &[Use]) -> [bool; GROUPS] {
    let mut long = [false; GROUPS];
    for of in uses.iter().zip(*occurs).filter(|u| u.1).map(|u| u.0) {
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
    /// Twice the bundle's number.
    at: u32,
    /// The registers zero, which nothing waits for or defines.
    zeros: [usize; 2],
    /// What there is so far.
    reads: [u16; MOST],
    nreads: usize,
    writes: [Write; MOST],
    nwrites: usize,
    /// By resource: one, but for registers zero.
    counts: [u8; RESOURCES],
    /// Something is defined twice.
    twice: bool,
    /// The last bundle that waits for each resource, twice its number, and one more if it defines it.
    last: [u32; RESOURCES],
}

impl Hazards {
    /// Begins a bundle.
    #[inline(always)]
    fn begin(&mut self, at: u32) {
        (self.at, self.nreads, self.nwrites, self.twice) = (2 * at, 0, 0, false);
        // They are always ready.
        self.zeros.iter().for_each(|&zero| self.last[zero & (RESOURCES - 1)] = 2 * at);
    }

    /// What the bundle waits for and defines, with the scalar register zero where it is less than fits.
    #[inline(always)]
    fn end(&mut self) -> (&[[u16; READS]], &[[Write; WRITES]]) {
        let zero = self.zeros[0] as u16;
        (0..READS - 1).for_each(|i| self.reads[(self.nreads + i) & (MOST - 1)] = zero);
        (0..WRITES - 1).for_each(|i| self.writes[(self.nwrites + i) & (MOST - 1)] = Write { resource: zero, delta: 0 });
        let (reads, writes) = (self.nreads.div_ceil(READS), self.nwrites.div_ceil(WRITES));
        (&self.reads.as_chunks().0[..reads], &self.writes.as_chunks().0[..writes])
    }

    /// Adds what a bundle of these words waits for.
    #[inline(always)]
    fn wait(&mut self, places: &[Place], words: Words<'_>) {
        let (at, mut n) = (self.at, self.nreads);
        for p in places {
            let resource = p.resource(words) & (RESOURCES - 1);
            let last = std::mem::replace(&mut self.last[resource], at);
            self.reads[n & (MOST - 1)] = resource as u16;
            n += usize::from(last != at);
        }
        self.nreads = n;
    }

    /// Adds what a bundle of these words defines: it waits for that, and says when it is ready again where the next bundle may not find it.
    #[inline(always)]
    fn define(&mut self, places: &[Place], words: Words<'_>) {
        let (at, mut n, mut writes, mut twice) = (self.at, self.nreads, self.nwrites, 0);
        for p in places {
            let resource = p.resource(words) & (RESOURCES - 1);
            let last = std::mem::replace(&mut self.last[resource], at | 1);
            self.reads[n & (MOST - 1)] = resource as u16;
            n += usize::from(last | 1 != at | 1);
            self.writes[writes & (MOST - 1)] = Write { resource: resource as u16, delta: p.delta };
            let counts = self.counts[resource];
            twice |= u8::from(last == at | 1) & counts;
            writes += usize::from(counts & u8::from(p.delta >> 4 > 1));
        }
        (self.nreads, self.nwrites, self.twice) = (n, writes, self.twice | (twice > 0));
    }
}

/// Room for slot groups.
const SLOTS: usize = GROUPS.next_power_of_two();

struct Predecoder<'a> {
    code: Code,
    chip: &'a ChipConfig,
    /// The first bundle of the form.
    at: u32,
    /// Its instructions by slot.
    need: [u8; SLOTS],
    /// [`Code::long`] as a bit set.
    long: u32,
    /// How long instructions of long groups keep their units: those of groups of several units where it is more than a cycle.
    occupied: SmallVec<[(u8, u32); MAX_UNITS]>,
    uses: &'a [Use],
    /// By number of the opcode: the bits of an instruction's word that are its form's.
    own: Vec<u64>,
    forms: Forms,
    /// Sixteenths of a cycle that a register's rows of each format take to enter a matrix unit, and a register of weights.
    push_d16: [u32; MxuFormat::ALL.len()],
    stage_d16: u32,
    /// Cycles in which memory's ports take so many instructions of a slot.
    port_cycles: [(Slot, [u8; MAX_UNITS + 1]); 2],
    hazards: Box<Hazards>,
}

impl Predecoder<'_> {
    /// Finds out what bundles of the next form have in common, of the first of them: its words.
    #[inline(never)]
    fn form(&mut self, first: u32, words: Words<'_>, reader: &Reader<'_>) -> Result<(), LoadError> {
        self.at = first;
        let insts = words.iter().map(|w| u64::from_le_bytes(*w));
        let (places, scalars, kept) = (self.forms.places.len(), self.forms.scalars.len(), self.forms.kept.len());
        let mut head = Head { specials: self.code.specials.len() as u32, ..Head::default() };
        self.need = [0; SLOTS];
        let mut branch = None;
        let (mut nvalues, mut groups, mut stores) = (0, 0, false);
        for (at, word) in insts.clone().enumerate() {
            let (of, own, at) = (&self.uses[opcode(word)], self.own[opcode(word)], at as u8);
            let slot = of.slot as usize;
            self.need[slot] += 1;
            groups |= 1 << slot;
            self.forms.places.extend(of.waits().iter().map(|&hazard| Place::new(hazard, at, word, own)));
            head.units |= of.units | of.mxu << (word >> of.mxu_shift & 15);
            nvalues += u32::from(of.value);
            if self.long >> slot & 1 == 1 && (of.interval > 1 || !self.code.shared[slot]) {
                self.occupied.push((slot as u8, of.interval));
            }
            if let Some(form) = of.scalar {
                stores |= form.stores();
                self.forms.scalars.push((at, form));
            }
            if of.slot == Slot::Branch {
                branch = Some(at);
                head.flags |= FLAG_BRANCH;
            }
        }
        self.code.mxus_used |= head.units >> MXU_BIT;
        head.nvalues = u8::try_from(nvalues).map_err(|_| LoadError::BundleTooLarge { bundle: self.at })?;
        let mut keeps = SmallVec::new();
        if groups & self.long != 0 {
            self.group_hazards(&mut head, groups & self.long, &mut keeps);
        }
        let definitions = self.forms.places.len();
        self.forms.places.extend(keeps);
        for (at, word) in insts.clone().enumerate() {
            let (of, own, at) = (&self.uses[opcode(word)], self.own[opcode(word)], at as u8);
            self.forms.places.extend(of.definitions().iter().map(|&hazard| Place::new(hazard, at, word, own)));
            if of.special {
                self.special(&reader.inst(word));
            }
        }
        self.finish(&mut head)?;
        let (waits, defines) = (definitions - places, self.forms.places.len() - definitions);
        // So much room, until it is known where.
        (head.reads, head.writes) = ((waits + defines).div_ceil(READS) as u32, defines.div_ceil(WRITES) as u32);
        head.nscalars = (self.forms.scalars.len() - scalars) as u8;
        head.find_plain();
        let range = |from: usize, to: usize| from as u32..to as u32;
        self.forms.all.push(Form {
            head,
            waits: range(places, definitions),
            definitions: range(definitions, self.forms.places.len()),
            scalars: range(scalars, self.forms.scalars.len()),
            stores,
            branch,
            plain: branch.is_none() && self.forms.scalars.len() == scalars && self.forms.kept.len() == kept,
            kept: range(kept, self.forms.kept.len()),
        });
        Ok(())
    }

    /// Makes all bundles, whose forms are known.
    #[inline(never)]
    fn bundles(&mut self, scan: &Scan<'_>, reader: &Reader<'_>) -> Result<(), LoadError> {
        let Predecoder { code, forms, hazards, .. } = self;
        // Hardly more than there will be: large pages are touched whole.
        let own = scan.bundles.iter().enumerate().filter(|(at, seen)| seen.like as usize == *at);
        let (reads, writes) = own.fold((0, 0), |(reads, writes), (_, seen)| {
            let of = &forms.all[seen.form as usize].head;
            (reads + of.reads, writes + of.writes)
        });
        code.reads.reserve_exact(reads as usize);
        code.writes.reserve_exact(writes as usize);
        let mut values = 0;
        let mut scalars = 0;
        for (at, seen) in scan.bundles.iter().enumerate() {
            let of = &forms.all[seen.form as usize];
            code.heads.push(of.head);
            let (before, own) = code.heads.split_at_mut(at);
            (own[0].scalars, own[0].values) = (scalars, values);
            scalars += u32::from(of.head.nscalars);
            values += u32::from(of.head.nvalues);
            if let Some(like) = before.get(seen.like as usize) {
                (own[0].reads, own[0].nreads) = (like.reads, like.nreads);
                (own[0].writes, own[0].nwrites) = (like.writes, like.nwrites);
            } else {
                let words = scan.words(seen);
                hazards.begin(at as u32);
                hazards.wait(&forms.places[of.waits.start as usize..of.waits.end as usize], words);
                hazards.define(&forms.places[of.definitions.start as usize..of.definitions.end as usize], words);
                if hazards.twice {
                    return Err(LoadError::DefinedTwice { bundle: at as u32 });
                }
                (own[0].reads, own[0].writes) = (code.reads.len() as u32, code.writes.len() as u32);
                let (reads, writes) = hazards.end();
                let (Ok(nreads), Ok(nwrites)) = (u8::try_from(reads.len()), u8::try_from(writes.len())) else {
                    return Err(LoadError::BundleTooLarge { bundle: at as u32 });
                };
                (own[0].nreads, own[0].nwrites) = (nreads, nwrites);
                reads.iter().for_each(|r| code.reads.push(*r));
                writes.iter().for_each(|w| code.writes.push(*w));
            }
            if !of.plain {
                put(code, forms, (at, scan.words(seen), of), reader);
            }
        }
        Ok(())
    }

    /// What of a form's head follows from its instructions' slots and special operations.
    fn finish(&mut self, head: &mut Head) -> Result<(), LoadError> {
        let specials = &self.code.specials[head.specials as usize..];
        head.nspecials = u8::try_from(specials.len()).map_err(|_| LoadError::BundleTooLarge { bundle: self.at })?;
        for s in specials {
            head.flags |= if s.gates() { FLAG_GATE } else { 0 } | if s.waits() { FLAG_WAIT } else { 0 };
            head.flags |= if s.row().is_some() { FLAG_ROWS } else { 0 };
            head.units |= u32::from(s.starts()) << STARTS_BIT;
        }
        let cycles = self.port_cycles.iter().map(|(slot, cycles)| cycles[self.need[*slot as usize] as usize]);
        let extra = u32::from(cycles.max().unwrap_or(1) - 1);
        head.extra = if extra == 0 { 0 } else { delta(extra, Cause::Slot) as u8 };
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
    /// free are resources like registers. A group of one unit is even written like a register: `keeps` gets that.
    fn group_hazards(&mut self, head: &mut Head, mut groups: u32, keeps: &mut SmallVec<[Place; 4]>) {
        self.occupied.sort_unstable();
        let occupied = std::mem::take(&mut self.occupied);
        while groups != 0 {
            let group = groups.trailing_zeros() as usize;
            groups &= groups - 1;
            let free = self.code.resources.group(group, self.need[group] as usize);
            let place = |delta| Place::new(Hazard::fixed(free, delta), 0, 0, !0);
            let mut own = occupied.iter().filter(|o| o.0 as usize == group).map(|o| o.1).peekable();
            if !self.code.shared[group] {
                let interval = own.next().unwrap_or(1);
                keeps.push(place(delta(interval, Cause::Slot)));
                self.forms.kept.push((group as u8, interval));
                continue;
            }
            self.forms.places.push(place(0));
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

/// Puts down what a bundle of a form has besides its head.
#[inline(never)]
fn put(code: &mut Code, forms: &Forms, (bundle, words, of): (usize, Words<'_>, &Form), reader: &Reader<'_>) {
    let first = code.scalars.len();
    let word = |at: u8| u64::from_le_bytes(words[usize::from(at)]);
    for (at, scalar) in &forms.scalars[of.scalars.start as usize..of.scalars.end as usize] {
        code.scalars.push(scalar.read(word(*at)));
    }
    if of.stores {
        // Loads of scalar memory come before its stores: all results are computed before any is written.
        code.scalars[first..].sort_by_key(|s| s.kind == ScalarKind::State(StateFn::SSt));
    }
    if let Some(inst) = of.branch.map(|at| reader.inst(word(at)))
        && let Function::Branch(function) = inst.op.function()
    {
        code.branches[bundle] = to_branch(function, &inst);
    }
    for &(group, interval) in &forms.kept[of.kept.start as usize..of.kept.end as usize] {
        code.kept.push((bundle as u32, group, interval));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load_bundles;
    use systole_isa::{Bundle, DmaDesc, Op, Space};

    /// All that loading found of a bundle, but for what follows from other bundles, in words.
    fn found(code: &Code, bundle: usize) -> String {
        let head = code.heads[bundle];
        let mut reads = code.reads[head.reads as usize..][..head.nreads as usize].as_flattened().to_vec();
        let writes = &code.writes[head.writes as usize..][..head.nwrites as usize];
        let mut writes: Vec<_> = writes.as_flattened().iter().map(|w| (w.resource, w.delta)).collect();
        let scalars = &code.scalars[head.scalars as usize..][..head.nscalars as usize];
        let mut scalars: Vec<_> = scalars.iter().map(|s| format!("{s:?}")).collect();
        let special = |s: &Special| match *s {
            Special::DmaStart { start } => format!("{:?}", code.starts[start as usize]),
            Special::DmaRemote { start } => format!("{:?}", code.remotes[start as usize]),
            other => format!("{other:?}"),
        };
        let specials: Vec<_> = code.specials(&head).iter().map(special).collect();
        let kept = code.kept.iter().filter(|k| k.0 as usize == bundle).map(|k| (k.1, k.2)).collect::<Vec<_>>();
        reads.sort_unstable();
        writes.sort_unstable();
        scalars.sort_unstable();
        let (values, flags) = (head.nvalues, head.flags & !FLAG_ORDERED);
        let activity = (code.activity.of_bundle(bundle), code.activity.instructions(bundle));
        let branch = code.branches[bundle];
        format!("{reads:?} {writes:?} {scalars:?} {specials:?} {kept:?} {values} {flags} {branch:?} {activity:?}")
            + &format!(" {} {}", head.units & !(1 << PLAIN_BIT), head.extra)
    }

    #[test]
    fn what_is_found_of_a_bundle_depends_on_no_other_bundle() {
        let mut below = crate::draws::draws(11);
        for (chip, sets) in [("tiny", [].as_slice()), ("tpu-v5e", &["timing.xlu_reduce.interval=4"]), ("tpu-v6e", &[])]
        {
            let mut chip = ChipConfig::from_preset(chip).expect("a preset");
            chip.apply_sets(sets).expect("in range");
            let desc = DmaDesc::contiguous(Space::Hbm, Space::Vmem, 64);
            let program = Program { descs: vec![desc; 3], ..Program::default() };
            let ranges = ranges(1, &program, &chip);
            // Few numbers of each kind, so that bundles are alike in all that matters, or in nearly all.
            let inst = |below: &mut dyn FnMut(u64) -> u64| {
                let info = &TABLE[below(TABLE.len() as u64) as usize];
                let number = |(least, greatest): (i32, i32), n: u64| (least.max(0) + n as i32).min(greatest);
                let operands: Vec<i32> =
                    info.operands.iter().map(|o| number(ranges[o.kind as usize], 2 * below(3))).collect();
                Inst::new(info.op, &operands)
            };
            let mut known: Vec<Inst> = (0..400).map(|_| inst(&mut below)).collect();
            known.retain(|i| !matches!(i.op, Op::BHost | Op::BTrap));
            let load = |bundles: &[Bundle]| load_bundles(bundles, &program, &chip);
            let single = known.iter().map(|i| Bundle { insts: vec![*i] });
            let single: Vec<Bundle> = single.filter(|b| load(std::slice::from_ref(b)).is_ok()).collect();
            let mut bundles = vec![];
            while bundles.len() < 1500 {
                let n = 1 + below(4);
                let insts = (0..n).map(|_| single[below(single.len() as u64) as usize].insts[0]).collect();
                let bundle = Bundle { insts };
                if load(std::slice::from_ref(&bundle)).is_ok() {
                    bundles.push(bundle);
                }
            }
            // What instructions the program has is known of all bundles.
            let with_all = |bundles: &[Bundle]| [bundles, &single].concat();
            let all = load(&with_all(&bundles)).expect("each of them is well formed");
            for (i, bundle) in bundles.iter().enumerate() {
                let alone = load(&with_all(std::slice::from_ref(bundle))).expect("it was before");
                assert_eq!(found(&all.code, i), found(&alone.code, 0), "bundle {i}: {bundle:?}");
            }
        }
    }
}
