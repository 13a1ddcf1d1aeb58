//! What a program makes the machine do, counted: the basis of energy.
//!
//! Nearly all of it follows from the instructions of a bundle and how often the bundle issued for an operation, so nothing
//! is counted while a program runs but that ([`Runs`]); the counts are exact and by operation. What depends on addresses (whole
//! bursts of HBM) and on routes (bytes over links) is counted where it happens, in [`super::OpProfile`] and in the pod.

use super::collect::{SLOT_KINDS, SLOTS};
use crate::issue::code::Code;
use rustc_hash::FxHashMap;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, SerializeMap, Serializer};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::{AddAssign, Index, IndexMut};
use std::sync::Arc;
use systole_isa::decode::Words;
use systole_isa::encoding::{OPCODE_BITS, layout, opcode};
use systole_isa::inst::MAX_OPERANDS;
use systole_isa::opcodes::TABLE;
use systole_isa::table::OpInfo;
use systole_isa::validate::Reader;
use systole_isa::{ChipConfig, Class, Effect, Inst, MxuFormat, Op, Program, Slot, Space};

macro_rules! activities {
    ($($kind:ident $name:literal $unit:literal $doc:literal;)+) => {
        /// A kind of activity.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Activity { $(#[doc = $doc] $kind),+ }

        impl Activity {
            /// All kinds in order of their numbers.
            pub const ALL: &[Activity] = &[$(Activity::$kind),+];

            /// The kind's name in reports, its unit, and what it counts.
            pub fn info(self) -> (&'static str, &'static str, &'static str) {
                match self { $(Activity::$kind => ($name, $unit, $doc)),+ }
            }
        }

        /// Number of kinds.
        pub const ACTIVITIES: usize = [$($name),+].len();
    };
}

activities! {
    Bundles "bundles" "bundles" "Bundles issued.";
    Scalar "scalar" "instructions" "Scalar instructions, branches included.";
    SmemRead "smem_read" "bytes" "Read from scalar memory by the core.";
    SmemWrite "smem_write" "bytes" "Written to scalar memory by the core.";
    Valu "valu" "lane operations" "Simple vector operations: additions, comparisons, logic.";
    ValuMul "valu_mul" "lane operations" "Vector multiplications and multiply-adds.";
    ValuDiv "valu_div" "lane operations" "Vector f32 divisions.";
    ValuConvert "valu_convert" "lane operations" "Packing and unpacking of 16-bit floats.";
    ValuIntDiv "valu_int_div" "lane operations" "Vector integer divisions.";
    ValuF64 "valu_f64" "lane operations" "f64 operations on register pairs.";
    ValuF64Div "valu_f64_div" "lane operations" "f64 divisions and square roots.";
    Eup "eup" "lane operations" "Transcendental functions.";
    Xlu "xlu" "lane steps" "Rotations, permutations and transposes of the cross-lane unit.";
    XluReduce "xlu_reduce" "lane steps" "Reductions over lanes: one step for each halving.";
    VmemRead "vmem_read" "bytes" "Read from vector memory by the core's loads.";
    VmemWrite "vmem_write" "bytes" "Written to vector memory by the core's stores.";
    RowsBf16 "rows_bf16" "rows" "Rows streamed into matrix units in one pass of bf16.";
    RowsHigh "rows_high" "rows" "Rows of the high pieces of f32 values.";
    RowsMid "rows_mid" "rows" "Rows of the middle pieces of f32 values.";
    RowsLow "rows_low" "rows" "Rows of the low pieces of f32 values.";
    RowsHighFinite "rows_high_finite" "rows" "Rows of the high pieces of f32 values, non-finite ones as zero.";
    RowsS8 "rows_s8" "rows" "Rows of s8.";
    RowsU8 "rows_u8" "rows" "Rows of u8.";
    RowsF8 "rows_f8" "rows" "Rows of 8-bit floats.";
    WeightsBf16 "weights_bf16" "elements" "Weights shifted into matrix units as bf16 (pieces of f32 included).";
    WeightsInt "weights_int" "elements" "Weights shifted into matrix units as 8-bit integers.";
    WeightsF8 "weights_f8" "elements" "Weights shifted into matrix units as 8-bit floats.";
    MxuResults "mxu_results" "elements" "32-bit results taken from matrix units.";
    Descriptors "descriptors" "copies" "DMA descriptors started, and signals to other devices.";
    HbmToVmem "hbm_to_vmem" "bytes" "Copied from HBM to vector memory.";
    VmemToHbm "vmem_to_hbm" "bytes" "Copied from vector memory to HBM.";
    HbmToHbm "hbm_to_hbm" "bytes" "Copied within HBM.";
    VmemToVmem "vmem_to_vmem" "bytes" "Copied within vector memory.";
    HbmToSmem "hbm_to_smem" "bytes" "Copied from HBM to scalar memory.";
    SmemToHbm "smem_to_hbm" "bytes" "Copied from scalar memory to HBM.";
    VmemToSmem "vmem_to_smem" "bytes" "Copied from vector memory to scalar memory.";
    SmemToVmem "smem_to_vmem" "bytes" "Copied from scalar memory to vector memory.";
    SmemToSmem "smem_to_smem" "bytes" "Copied within scalar memory.";
    SentHbm "sent_hbm" "bytes" "Sent to other devices out of HBM.";
    SentVmem "sent_vmem" "bytes" "Sent to other devices out of vector memory.";
    SentSmem "sent_smem" "bytes" "Sent to other devices out of scalar memory.";
    ArrivedVmem "arrived_vmem" "bytes" "Sent to other devices' vector memory.";
    Host "host" "bytes" "Exchanged with the host while the program runs.";
}

impl Activity {
    /// Rows in a format.
    pub fn rows(f: MxuFormat) -> Activity {
        match f {
            MxuFormat::Bf16 => Activity::RowsBf16,
            MxuFormat::High => Activity::RowsHigh,
            MxuFormat::Mid => Activity::RowsMid,
            MxuFormat::Low => Activity::RowsLow,
            MxuFormat::HighFinite => Activity::RowsHighFinite,
            MxuFormat::S8 => Activity::RowsS8,
            MxuFormat::U8 => Activity::RowsU8,
            MxuFormat::F8 => Activity::RowsF8,
        }
    }

    fn weights(f: MxuFormat) -> Activity {
        match f {
            MxuFormat::S8 | MxuFormat::U8 => Activity::WeightsInt,
            MxuFormat::F8 => Activity::WeightsF8,
            MxuFormat::Bf16 | MxuFormat::High | MxuFormat::Mid | MxuFormat::Low | MxuFormat::HighFinite => {
                Activity::WeightsBf16
            }
        }
    }

    fn copy(from: Space, to: Space) -> Activity {
        match (from, to) {
            (Space::Hbm, Space::Hbm) => Activity::HbmToHbm,
            (Space::Hbm, Space::Vmem) => Activity::HbmToVmem,
            (Space::Hbm, Space::Smem) => Activity::HbmToSmem,
            (Space::Vmem, Space::Hbm) => Activity::VmemToHbm,
            (Space::Vmem, Space::Vmem) => Activity::VmemToVmem,
            (Space::Vmem, Space::Smem) => Activity::VmemToSmem,
            (Space::Smem, Space::Hbm) => Activity::SmemToHbm,
            (Space::Smem, Space::Vmem) => Activity::SmemToVmem,
            (Space::Smem, Space::Smem) => Activity::SmemToSmem,
        }
    }
}

/// How much of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activities([u64; ACTIVITIES]);

impl Default for Activities {
    fn default() -> Activities {
        Activities([0; ACTIVITIES])
    }
}

impl Index<Activity> for Activities {
    type Output = u64;
    fn index(&self, a: Activity) -> &u64 {
        &self.0[a as usize]
    }
}

impl IndexMut<Activity> for Activities {
    fn index_mut(&mut self, a: Activity) -> &mut u64 {
        &mut self.0[a as usize]
    }
}

impl AddAssign<&Activities> for Activities {
    fn add_assign(&mut self, other: &Activities) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a += b);
    }
}

impl Activities {
    /// Rows streamed in any format.
    pub fn rows(&self) -> u64 {
        MxuFormat::ALL.iter().map(|&f| self[Activity::rows(f)]).sum()
    }
}

/// A map from names to what is not zero.
impl Serialize for Activities {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        for &a in Activity::ALL.iter().filter(|&&a| self[a] != 0) {
            map.serialize_entry(a.info().0, &self[a])?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Activities {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Activities, D::Error> {
        let mut out = Activities::default();
        for (name, n) in BTreeMap::<String, u64>::deserialize(d)? {
            let found = Activity::ALL.iter().find(|a| a.info().0 == name);
            let &kind = found.ok_or_else(|| D::Error::custom(format!("unknown activity `{name}`")))?;
            out[kind] = n;
        }
        Ok(out)
    }
}

/// What one issue of each bundle does. Many bundles do the same.
#[derive(Debug, Default)]
pub(crate) struct Static {
    /// Number of what each bundle does.
    of: Vec<u32>,
    /// Where each number's entries begin, and the end.
    starts: Vec<u32>,
    entries: Vec<(Activity, u64)>,
    /// By number: the instructions of each kind of slot.
    instructions: Vec<Instructions>,
}

/// A bundle's instructions by kind of slot, and the cycles beyond their first that they keep what they run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Instructions {
    pub count: [u8; SLOT_KINDS],
    pub kept: [u16; SLOT_KINDS],
    /// Whether one is a branch, which counts as no kind.
    pub branch: bool,
}

/// What a bundle does, as it is gathered.
type Doing = SmallVec<[(Activity, u64); 8]>;

fn note(doing: &mut Doing, kind: Activity, n: u64) {
    match doing.iter_mut().find(|e| e.0 == kind) {
        Some(e) => e.1 += n,
        None => doing.push((kind, n)),
    }
}

/// What instructions of an opcode have in common: what they do, if that depends on no operand, their kind of slot, and how long
/// they keep it.
#[derive(Clone, Default)]
struct Common {
    does: Option<SmallVec<[(Activity, u64); 2]>>,
    slot: Option<usize>,
    kept: u16,
    branch: bool,
}

impl Common {
    fn of(info: &OpInfo, program: &Program, chip: &ChipConfig) -> Common {
        let same = match info.effect {
            Effect::MxuStage | Effect::MxuPush | Effect::MxuAccumulate | Effect::DmaStart | Effect::DmaRemote => false,
            Effect::Control => info.op != Op::BHost,
            Effect::None | Effect::VmemLoad | Effect::VmemStore | Effect::SmemLoad | Effect::SmemStore => true,
            Effect::MxuLatch | Effect::MxuPop | Effect::MxuDrain | Effect::XluPush | Effect::XluPop => true,
            Effect::DmaWait | Effect::Signal | Effect::Cores | Effect::SyncTest | Effect::Trap => true,
        };
        let does = same.then(|| {
            let mut does = SmallVec::new();
            let any = Inst { op: info.op, operands: [0; MAX_OPERANDS] };
            of_inst(&any, program, chip, &mut |kind, n| does.push((kind, n)));
            does
        });
        let interval = chip.timing.get(info.class).interval;
        let kept = interval.saturating_sub(1).min(u32::from(u16::MAX)) as u16;
        let slot = SLOTS.iter().position(|s| *s == info.slot);
        Common { does, slot, kept, branch: info.slot == Slot::Branch }
    }
}

/// What decides what a bundle does (of its words the opcodes, and the operands that [`of_inst`] looks at), with its number: one behind
/// the other, found by their hash.
#[derive(Default)]
struct Same {
    words: Vec<u64>,
    /// Where the words of each begin and end, its number, and one more than the place of the one before with the same hash.
    known: Vec<(u32, u32, u32, u32)>,
    by_hash: FxHashMap<u64, u32>,
}

impl Same {
    /// The number of the words from `begin` on, which have this hash and are dropped.
    fn find(&mut self, hash: u64, begin: usize) -> Option<u32> {
        let mut at = self.by_hash.get(&hash).copied().unwrap_or(0);
        while let Some(&(first, end, number, before)) = self.known.get((at as usize).wrapping_sub(1)) {
            if self.words[first as usize..end as usize] == self.words[begin..] {
                self.words.truncate(begin);
                return Some(number);
            }
            at = before;
        }
        None
    }

    /// Keeps the words from `begin` on.
    fn insert(&mut self, hash: u64, begin: usize, number: u32) {
        let before = self.by_hash.insert(hash, self.known.len() as u32 + 1).unwrap_or(0);
        self.known.push((begin as u32, self.words.len() as u32, number, before));
    }
}

/// Finds what bundles do, one after the other.
pub(crate) struct Gather<'a> {
    program: &'a Program,
    chip: &'a ChipConfig,
    common: Vec<Common>,
    /// By number of the opcode: the bits of an instruction's word that what it does depends on.
    bits: [u64; Op::NUMBERS],
    known: FxHashMap<(Doing, Instructions), u32>,
    same: Same,
    out: Static,
}

impl<'a> Gather<'a> {
    pub fn new(program: &'a Program, chip: &'a ChipConfig) -> Gather<'a> {
        let mut common = vec![Common::default(); Op::NUMBERS];
        TABLE.iter().for_each(|info| common[info.op as usize] = Common::of(info, program, chip));
        let mut bits = [0; Op::NUMBERS];
        TABLE.iter().for_each(|info| bits[info.op as usize] = deciding(info, common[info.op as usize].does.is_none()));
        let out = Static { starts: vec![0], ..Static::default() };
        Gather { program, chip, common, bits, known: FxHashMap::default(), same: Same::default(), out }
    }

    /// The next bundle, in the order of the program.
    pub fn bundle(&mut self, b: Words<'_>, reader: &Reader<'_>) {
        const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
        let words = &mut self.same.words;
        let begin = words.len();
        let all = b.iter().map(|w| u64::from_le_bytes(*w));
        words.extend(all.clone().map(|w| w & self.bits[opcode(w)]));
        let hash = words[begin..].iter().fold(0u64, |h, &w| (h.rotate_left(5) ^ w).wrapping_mul(MIX));
        let number = match self.same.find(hash, begin) {
            Some(number) => number,
            None => {
                let number = self.number(all, reader);
                self.same.insert(hash, begin, number);
                number
            }
        };
        self.out.of.push(number);
    }

    /// The number of what a bundle does.
    fn number(&mut self, words: impl Iterator<Item = u64>, reader: &Reader<'_>) -> u32 {
        let mut does: Doing = SmallVec::from_slice(&[(Activity::Bundles, 1)]);
        let mut instructions = Instructions::default();
        for word in words {
            let of = &self.common[opcode(word)];
            instructions.branch |= of.branch;
            if let Some(slot) = of.slot {
                instructions.count[slot] += 1;
                instructions.kept[slot] = instructions.kept[slot].saturating_add(of.kept);
            }
            match &of.does {
                Some(same) => same.iter().for_each(|&(kind, n)| note(&mut does, kind, n)),
                None => {
                    let inst = reader.inst(word);
                    of_inst(&inst, self.program, self.chip, &mut |kind, n| note(&mut does, kind, n));
                }
            }
        }
        let doing = (does, instructions);
        if let Some(&n) = self.known.get(&doing) {
            return n;
        }
        let (n, out) = (self.out.instructions.len() as u32, &mut self.out);
        out.entries.extend_from_slice(&doing.0);
        out.starts.push(out.entries.len() as u32);
        out.instructions.push(instructions);
        self.known.insert(doing, n);
        n
    }

    /// What all bundles do.
    pub fn finish(self) -> Static {
        self.out
    }
}

impl Static {
    fn does(&self, number: u32) -> &[(Activity, u64)] {
        let n = number as usize;
        &self.entries[self.starts[n] as usize..self.starts[n + 1] as usize]
    }

    /// The instructions by kind of slot of bundles that do the same, and how often any of these issued, if each bundle did so often.
    pub fn issued<'a>(&'a self, executions: &[u64]) -> impl Iterator<Item = (&'a Instructions, u64)> {
        let mut sums = vec![0; self.instructions.len()];
        self.of.iter().zip(executions).for_each(|(&number, n)| sums[number as usize] += n);
        self.instructions.iter().zip(sums).filter(|s| s.1 > 0)
    }

    /// A bundle's instructions by kind of slot.
    pub fn instructions(&self, bundle: usize) -> &Instructions {
        &self.instructions[self.of[bundle] as usize]
    }
}

/// The bits of an instruction's word that what it does depends on; `looks`: on operands too.
fn deciding(info: &OpInfo, looks: bool) -> u64 {
    let shifts = layout(info).0;
    let field = |i: usize| info.operands.get(i).map_or(0, |o| u64::MAX >> (64 - o.kind.bits()) << shifts[i]);
    let operands = if looks { [0, 2, 3].map(field) } else { [0; 3] };
    operands.into_iter().fold((1 << OPCODE_BITS) - 1, |bits, field| bits | field)
}

/// What one instruction does.
fn of_inst(inst: &Inst, program: &Program, chip: &ChipConfig, add: &mut dyn FnMut(Activity, u64)) {
    let info = inst.op.info();
    let o = &inst.operands;
    let lanes = u64::from(chip.core.sublanes) * u64::from(chip.core.lanes);
    match info.slot {
        Slot::Scalar | Slot::Branch => add(Activity::Scalar, 1),
        Slot::Valu => add(vector_class(info.class), lanes),
        Slot::Eup => add(Activity::Eup, lanes),
        Slot::Xlu if info.class == Class::XluReduce => {
            add(Activity::XluReduce, lanes * u64::from(chip.core.lanes.max(2).ilog2()));
        }
        Slot::Xlu if info.class == Class::XluExtract => add(Activity::Xlu, 1),
        Slot::Xlu => add(Activity::Xlu, lanes),
        Slot::Vload | Slot::Vstore | Slot::MxuPush | Slot::MxuPop | Slot::Dma => {}
    }
    match info.effect {
        Effect::SmemLoad => add(Activity::SmemRead, 4),
        Effect::SmemStore => add(Activity::SmemWrite, 4),
        Effect::VmemLoad => add(Activity::VmemRead, lanes * width(inst.op)),
        Effect::VmemStore => add(Activity::VmemWrite, lanes * width(inst.op)),
        Effect::MxuStage => add(Activity::weights(MxuFormat::ALL[o[3] as usize]), lanes),
        Effect::MxuPush | Effect::MxuAccumulate => {
            // The last lane chunk fires the rows.
            if o[2] as u32 + 1 == chip.mxu.rows / chip.core.lanes.max(1) {
                add(Activity::rows(MxuFormat::ALL[o[3] as usize]), u64::from(chip.core.sublanes));
            }
        }
        Effect::MxuPop | Effect::MxuDrain => add(Activity::MxuResults, lanes),
        Effect::DmaStart => {
            let d = &program.descs[o[0] as usize];
            add(Activity::Descriptors, 1);
            add(Activity::copy(d.src, d.dst), d.bytes());
        }
        Effect::DmaRemote => {
            let d = &program.descs[o[0] as usize];
            add(Activity::Descriptors, 1);
            let from = match d.src {
                Space::Hbm => Activity::SentHbm,
                Space::Vmem => Activity::SentVmem,
                Space::Smem => Activity::SentSmem,
            };
            add(from, d.bytes());
            if d.dst == Space::Vmem {
                add(Activity::ArrivedVmem, d.bytes());
            }
        }
        Effect::Signal => add(Activity::Descriptors, 1),
        Effect::Control if inst.op == Op::BHost => {
            let call = program.host_calls.get(o[0] as usize);
            let arrays = call.into_iter().flat_map(|c| c.operands.iter().chain(&c.results));
            add(Activity::Host, arrays.map(|a| a.layout.bytes()).sum());
        }
        Effect::None | Effect::MxuLatch | Effect::XluPush | Effect::XluPop | Effect::DmaWait => {}
        Effect::Cores | Effect::SyncTest | Effect::Control | Effect::Trap => {}
    }
}

/// Bytes of an element in memory of a load or store.
#[expect(clippy::wildcard_enum_match_arm, reason = "all but the narrow ones move words")]
fn width(op: Op) -> u64 {
    match op {
        Op::VLdBf16 | Op::VLdS16 | Op::VLdU16 | Op::VStBf16 | Op::VSt16 => 2,
        Op::VLdS8 | Op::VLdU8 | Op::VSt8 => 1,
        _ => 4,
    }
}

fn vector_class(class: Class) -> Activity {
    match class {
        Class::ValuMul => Activity::ValuMul,
        Class::ValuDiv => Activity::ValuDiv,
        Class::ValuWiden | Class::ValuNarrow => Activity::ValuConvert,
        Class::ValuIntDiv => Activity::ValuIntDiv,
        Class::ValuF64 => Activity::ValuF64,
        Class::ValuF64Div => Activity::ValuF64Div,
        Class::Valu | Class::Scalar | Class::ScalarMul | Class::ScalarDiv | Class::SmemLoad | Class::SmemStore => {
            Activity::Valu
        }
        Class::Vload | Class::Vstore | Class::Eup | Class::EupTrig => Activity::Valu,
        Class::XluRotate | Class::XluPermute | Class::XluSublane => Activity::Valu,
        Class::XluReduce | Class::XluTransposePush | Class::XluTransposePop | Class::XluExtract => Activity::Valu,
        Class::MxuStage | Class::MxuLatch | Class::MxuPush | Class::MxuPop => Activity::Valu,
        Class::Dma | Class::Sync | Class::Branch => Activity::Valu,
    }
}

/// How often runs of bundles issued, and for which operation. Adding a run again that ended at the same bundle costs one
/// look; everything is additive.
#[derive(Debug)]
pub(crate) struct Runs {
    /// Two runs by the low bits of their last bundles, those that were added last: operation (its place in the profile), first and
    /// last bundle, and how often. Few bundles end runs; those that end loops end one that enters and one that goes round.
    recent: Vec<[Run; 2]>,
    rest: FxHashMap<(u32, u32, u32), u64>,
}

impl Runs {
    pub fn new(bundles: usize) -> Runs {
        let places = (bundles / 8).next_power_of_two().max(64);
        Runs { recent: vec![[(0, 0, 0, 0); 2]; places], rest: FxHashMap::default() }
    }

    /// Bundles `first..=last` issued in a row `times` times for an operation.
    #[inline(always)]
    pub fn add(&mut self, op: u32, first: u32, last: u32, times: u64) {
        let place = last as usize & (self.recent.len() - 1);
        let is = |r: &Run| (r.0, r.1, r.2) == (op, first, last);
        match &mut self.recent[place] {
            [r, _] | [_, r] if is(r) => r.3 += times,
            [_, _] => self.replace(place, (op, first, last, times)),
        }
    }

    fn replace(&mut self, place: usize, run: Run) {
        let [newer, older] = &mut self.recent[place];
        let (op, first, last, count) = std::mem::replace(older, std::mem::replace(newer, run));
        if count > 0 {
            *self.rest.entry((op, first, last)).or_default() += count;
        }
    }

    /// All runs, in order.
    pub fn all(&self) -> Vec<Run> {
        let recent = self.recent.iter().flatten().copied().filter(|r| r.3 > 0);
        let mut all: Vec<Run> =
            recent.chain(self.rest.iter().map(|(&(op, first, last), &n)| (op, first, last, n))).collect();
        all.sort_unstable();
        all
    }
}

/// A run: operation, first and last bundle, and how often.
pub(crate) type Run = (u32, u32, u32, u64);

/// What follows from runs alone: devices of a pod mostly ran the same code equally often.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    runs: Vec<Run>,
    /// Times that each bundle issued.
    pub executions: Arc<Vec<u64>>,
    /// What each operation did.
    pub activities: Vec<Activities>,
}

impl Issued {
    /// Whether it follows from these runs.
    pub fn is_of(&self, runs: &[Run], ops: usize, bundles: usize) -> bool {
        self.runs == runs && self.activities.len() == ops && self.executions.len() == bundles
    }

    /// What follows from runs of a code of so many operations.
    pub fn new(runs: Vec<Run>, ops: usize, code: &Code) -> Issued {
        let executions = Arc::new(Issued::executions(&runs, code.heads.len()));
        let activities = Issued::activities(&runs, ops, code);
        Issued { runs, executions, activities }
    }

    fn executions(runs: &[Run], bundles: usize) -> Vec<u64> {
        let mut change = vec![0i64; bundles + 1];
        for &(_, first, last, n) in runs {
            change[first as usize] += n as i64;
            change[last as usize + 1] -= n as i64;
        }
        let mut n = 0;
        let sums = change[..bundles].iter().map(|d| {
            n += d;
            n as u64
        });
        sums.collect()
    }

    fn activities(runs: &[Run], ops: usize, code: &Code) -> Vec<Activities> {
        let of = &code.activity;
        // How often each kind of bundle issued, and the kinds that did.
        let mut counts = vec![0i64; of.instructions.len()];
        let mut kinds: Vec<u32> = Vec::new();
        let mut of_op = |runs: &[Run]| {
            let mut changes: Vec<(u32, i64)> =
                runs.iter().flat_map(|r| [(r.1, r.3 as i64), (r.2 + 1, -(r.3 as i64))]).collect();
            changes.sort_unstable();
            let mut sum = Activities::default();
            let mut times = 0i64;
            for pair in changes.windows(2) {
                times += pair[0].1;
                if times == 0 {
                    continue;
                }
                for &kind in &of.of[pair[0].0 as usize..pair[1].0 as usize] {
                    let count = &mut counts[kind as usize];
                    if *count == 0 {
                        kinds.push(kind);
                    }
                    *count += times;
                }
            }
            for kind in kinds.drain(..) {
                let times = std::mem::take(&mut counts[kind as usize]);
                of.does(kind).iter().for_each(|&(activity, n)| sum[activity] += n * times as u64);
            }
            sum
        };
        let mut out = vec![Activities::default(); ops];
        for own in runs.chunk_by(|a, b| a.0 == b.0) {
            out[own[0].0 as usize] = of_op(own);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_however_they_follow() {
        let mut runs = Runs::new(100);
        let mut expected: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
        for i in 0..10_000u32 {
            // Some that end alike, in turn, and some whose ends fall into one place.
            let (op, first, last) = (i / 900 % 3, i * i % 5, [7, 71, 135, 20][(i / 3 * i) as usize % 4]);
            runs.add(op, first, last, u64::from(i % 4 + 1));
            *expected.entry((op, first, last)).or_default() += u64::from(i % 4 + 1);
        }
        let mut sums: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
        for (op, first, last, n) in runs.all() {
            *sums.entry((op, first, last)).or_default() += n;
        }
        assert_eq!(sums, expected);
    }
}
