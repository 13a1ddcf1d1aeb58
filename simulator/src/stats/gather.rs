//! What bundles make the machine do, found from their instructions when a program is loaded: once for all of a form.

use super::activity::{Activity, Instructions, Static};
use super::collect::SLOTS;
use smallvec::SmallVec;
use systole_isa::decode::Words;
use systole_isa::encoding::opcode;
use systole_isa::inst::MAX_OPERANDS;
use systole_isa::opcodes::{Function, LoadFn, StoreFn, TABLE};
use systole_isa::table::OpInfo;
use systole_isa::validate::Reader;
use systole_isa::{ChipConfig, Class, Effect, Inst, MxuFormat, Op, Program, Slot, Space};

/// Adds to what a bundle does.
fn note(doing: &mut Vec<(Activity, u64)>, begin: usize, kind: Activity, n: u64) {
    match doing[begin..].iter_mut().find(|e| e.0 == kind) {
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

/// Finds what bundles do, one after the other.
pub(crate) struct Gather<'a> {
    program: &'a Program,
    chip: &'a ChipConfig,
    common: Vec<Common>,
    out: Static,
}

impl<'a> Gather<'a> {
    /// Of so many bundles in which these opcodes occur, by number.
    pub fn new(bundles: usize, occurs: &[bool; Op::NUMBERS], program: &'a Program, chip: &'a ChipConfig) -> Gather<'a> {
        let mut common = vec![Common::default(); Op::NUMBERS];
        let occurring = TABLE.iter().filter(|info| occurs[info.op as usize]);
        occurring.for_each(|info| common[info.op as usize] = Common::of(info, program, chip));
        let mut out = Static { starts: Vec::with_capacity(bundles + 1), ..Static::default() };
        out.starts.push(0);
        out.instructions.reserve(bundles);
        // About what they need.
        out.entries.reserve(4 * bundles);
        Gather { program, chip, common, out }
    }

    /// Puts down what the next bundle does, which has these instructions.
    pub fn bundle(&mut self, words: Words<'_>, reader: &Reader<'_>) {
        let entries = &mut self.out.entries;
        let begin = entries.len();
        entries.push((Activity::Bundles, 1));
        let mut instructions = Instructions::default();
        for word in words.iter().map(|w| u64::from_le_bytes(*w)) {
            let of = &self.common[opcode(word)];
            instructions.branch |= of.branch;
            if let Some(slot) = of.slot {
                instructions.count[slot] += 1;
                instructions.kept[slot] = instructions.kept[slot].saturating_add(of.kept);
            }
            match &of.does {
                Some(same) => same.iter().for_each(|&(kind, n)| note(entries, begin, kind, n)),
                None => {
                    let inst = reader.inst(word);
                    of_inst(&inst, self.program, self.chip, &mut |kind, n| note(entries, begin, kind, n));
                }
            }
        }
        self.out.starts.push(entries.len() as u32);
        self.out.instructions.push(instructions);
    }

    /// What all bundles do, each of which does what the one of those does that has this number.
    pub fn finish(self, of: Vec<u32>) -> Static {
        Static { of, ..self.out }
    }
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
#[expect(clippy::wildcard_enum_match_arm, reason = "no other family loads or stores")]
fn width(op: Op) -> u64 {
    match op.function() {
        Function::Load(load) => match load {
            LoadFn::VLd => 4,
            LoadFn::VLdBf16 | LoadFn::VLdS16 | LoadFn::VLdU16 => 2,
            LoadFn::VLdS8 | LoadFn::VLdU8 => 1,
        },
        Function::Store(store) => match store {
            StoreFn::VSt => 4,
            StoreFn::VStBf16 | StoreFn::VSt16 => 2,
            StoreFn::VSt8 => 1,
        },
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
