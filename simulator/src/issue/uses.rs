//! What the walks make of an opcode's instructions, by opcode: what loading asks of every instruction is looked up.

use super::code::*;
use crate::stats::Cause;
use systole_isa::chip::ChipConfig;
use systole_isa::encoding::layout;
use systole_isa::inst::MAX_OPERANDS;
use systole_isa::opcodes::{StateFn, TABLE};
use systole_isa::table::OpInfo;
use systole_isa::{Effect, Function, Kind, Op, Slot};

/// Most resources that an instruction waits for or defines: two an operand (a pair) and a queue.
const MOST_HAZARDS: usize = 2 * MAX_OPERANDS + 1;

/// What the walks make of an opcode's instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub slot: Slot,
    /// Cycles that it keeps its unit: one at least.
    pub interval: u32,
    pub scalar: Option<ScalarForm>,
    pub special: bool,
    pub value: bool,
    /// Bits of [`Head::units`] that its instructions set, and such a bit that is moved up by the matrix unit which an operand
    /// names.
    pub units: u32,
    pub mxu: u32,
    /// Where the word of an instruction has that operand.
    pub mxu_shift: u8,
    hazards: [Hazard; MOST_HAZARDS],
    /// The first so many are waits, the ones behind them up to the second are definitions.
    nwaits: u8,
    nhazards: u8,
}

/// Where the word of a scalar instruction has what [`ScalarOp`] holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalarForm {
    kind: ScalarKind,
    /// Where registers' bits begin.
    d: u8,
    sources: [u8; 3],
    imm: Bits,
}

/// Bits of a word: how many are behind them and before them; and whether they have a sign.
#[derive(Clone, Copy, Debug)]
struct Bits {
    behind: u8,
    before: u8,
    signed: bool,
}

/// Where bits begin of what an instruction lacks: the highest one, which no scalar instruction uses.
const LACKS: u8 = 63;

impl Bits {
    const LACKS: Bits = Bits { behind: 0, before: LACKS, signed: false };

    fn of(info: &OpInfo, operand: usize) -> Bits {
        let (kind, shift) = (info.operands[operand].kind, layout(info).0[operand]);
        let behind = u64::BITS - kind.bits() - shift;
        Bits { behind: behind as u8, before: (behind + shift) as u8, signed: kind.is_signed() }
    }

    #[inline(always)]
    fn get(self, word: u64) -> i32 {
        let top = word << (self.behind & 63);
        (if self.signed { (top as i64 >> (self.before & 63)) as u64 } else { top >> (self.before & 63) }) as i32
    }
}

impl ScalarForm {
    fn of(info: &OpInfo) -> Option<ScalarForm> {
        let function = info.op.function();
        let kind = if let Function::Scalar(f) = function {
            ScalarKind::Pure(f)
        } else if let Function::State(f) = function {
            ScalarKind::State(f)
        } else {
            return None;
        };
        debug_assert!(layout(info).1 < u64::BITS, "the highest bit is not used");
        let mut form = ScalarForm { kind, d: LACKS, sources: [LACKS; 3], imm: Bits::LACKS };
        let mut free = form.sources.iter_mut();
        for (i, operand) in info.operands.iter().enumerate() {
            let begin = layout(info).0[i] as u8;
            match operand.kind {
                Kind::Sd => form.d = begin,
                Kind::Su => *free.next().expect("a scalar instruction has three sources at most") = begin,
                Kind::Vu | Kind::I32 | Kind::I20 | Kind::U8 | Kind::Sem => form.imm = Bits::of(info, i),
                Kind::Sm | Kind::Vd | Kind::Pd | Kind::Pu | Kind::Md | Kind::Mu | Kind::I16 | Kind::U4 => {}
                Kind::Target | Kind::Desc | Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => {}
            }
        }
        Some(form)
    }

    /// Whether the instruction stores to scalar memory.
    pub fn stores(&self) -> bool {
        self.kind == ScalarKind::State(StateFn::SSt)
    }

    /// An instruction in compact form.
    #[inline(always)]
    pub fn read(&self, word: u64) -> ScalarOp {
        const REGISTER: u8 = (1 << Kind::Sd.bits()) - 1;
        let register = |begin: u8| (word >> (begin & 63)) as u8 & REGISTER;
        let [a, b, c] = self.sources.map(register);
        ScalarOp { kind: self.kind, d: register(self.d), a, b, c, imm: self.imm.get(word) }
    }
}

/// An instruction waits for the resource `first + step * operand`, or defines it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hazard {
    /// The operand's bits in the instruction's word: where they begin, and a mask.
    pub shift: u8,
    pub mask: u8,
    pub step: u8,
    pub first: u16,
    /// Of what is defined, from the issue on.
    pub delta: u32,
}

/// What an instruction does with the register that an operand names.
struct Named {
    defines: bool,
    /// How many registers from that one on.
    registers: u16,
    first: usize,
}

impl Named {
    fn of(kind: Kind, r: &Resources) -> Option<Named> {
        let (defines, registers, first) = match kind {
            Kind::Su => (false, 1, 0),
            Kind::Sd | Kind::Sm => (true, 1, 0),
            Kind::Vu => (false, 1, r.vectors),
            Kind::Vd => (true, 1, r.vectors),
            Kind::Pu => (false, 2, r.vectors),
            Kind::Pd => (true, 2, r.vectors),
            Kind::Mu => (false, 1, r.masks),
            Kind::Md => (true, 1, r.masks),
            Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Target | Kind::Desc => return None,
            Kind::Sem | Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => return None,
        };
        Some(Named { defines, registers, first })
    }
}

impl Hazard {
    /// That of a resource which no operand names.
    pub fn fixed(resource: usize, delta: u32) -> Hazard {
        Hazard { first: resource as u16, delta, ..Hazard::default() }
    }

    /// That of an operand.
    fn new(info: &OpInfo, operand: usize, (first, step): (usize, usize), delta: u32) -> Hazard {
        let (shift, mask) = (layout(info).0[operand] as u8, ((1u16 << info.operands[operand].kind.bits()) - 1) as u8);
        Hazard { shift, mask, step: step as u8, first: first as u16, delta }
    }

    /// The resource that an instruction waits for or defines.
    pub fn resource(&self, word: u64) -> usize {
        usize::from(self.first) + usize::from(self.step) * usize::from((word >> (self.shift & 63)) as u8 & self.mask)
    }

    /// Those of an opcode's operands that it waits for only, or those that it defines; `latency`: of its results.
    fn of(info: &OpInfo, defined: bool, r: &Resources, latency: u32) -> impl Iterator<Item = Hazard> {
        let named = info.operands.iter().enumerate().filter_map(|(i, o)| Some((i, o.kind, Named::of(o.kind, r)?)));
        named.filter(move |n| n.2.defines == defined).flat_map(move |(operand, kind, n)| {
            // A register that is changed on the way is there in the next cycle.
            let delta = delta(if kind == Kind::Sm { 1 } else { latency }, Cause::Register);
            (0..n.registers).map(move |i| Hazard::new(info, operand, (n.first + i as usize, 1), delta))
        })
    }

    /// The wait for a queue, if instructions of an opcode have one.
    fn queue(info: &OpInfo, r: &Resources) -> Option<Hazard> {
        let (operand, first, step) = match info.effect {
            Effect::MxuStage => (0, r.mxu(0, MXU_STAGE), PER_MXU),
            Effect::MxuPush | Effect::MxuAccumulate => (0, r.mxu(0, MXU_PUSH), PER_MXU),
            Effect::MxuPop => (1, r.mxu(0, MXU_POP), PER_MXU),
            Effect::XluPop => (1, r.xlu(0), 1),
            Effect::None | Effect::VmemLoad | Effect::VmemStore | Effect::SmemLoad | Effect::SmemStore => return None,
            Effect::MxuLatch | Effect::MxuDrain | Effect::XluPush => return None,
            Effect::DmaStart | Effect::DmaWait | Effect::DmaRemote | Effect::Signal => return None,
            Effect::Cores | Effect::SyncTest | Effect::Control | Effect::Trap => return None,
        };
        Some(Hazard::new(info, operand, (first, step), 0))
    }
}

impl Use {
    fn of(info: &'static OpInfo, r: &Resources, chip: &ChipConfig) -> Use {
        let latency = chip.timing.get(info.class).latency.max(1);
        let (mut hazards, mut nhazards) = ([Hazard::default(); MOST_HAZARDS], 0);
        let mut put = |hazard| {
            hazards[nhazards] = hazard;
            nhazards += 1;
            nhazards as u8
        };
        let waits = Hazard::of(info, false, r, latency).chain(Hazard::queue(info, r));
        let nwaits = waits.fold(0, |_, h| put(h));
        Hazard::of(info, true, r, latency).for_each(|h| _ = put(h));
        let (units, mxu, mxu_operand) = match info.slot {
            Slot::Scalar | Slot::Branch => (1 << UNIT_SCALAR, 0, 0),
            Slot::Valu => (1 << UNIT_VALU, 0, 0),
            Slot::Vload => (1 << UNIT_VLOAD, 0, 0),
            Slot::Vstore => (1 << UNIT_VSTORE, 0, 0),
            Slot::Eup => (1 << UNIT_EUP, 0, 0),
            Slot::Xlu => (1 << UNIT_XLU, 0, 0),
            Slot::MxuPush => (0, 1 << MXU_BIT, 0),
            Slot::MxuPop => (0, 1 << MXU_BIT, 1),
            Slot::Dma => (0, 0, 0),
        };
        Use {
            slot: info.slot,
            interval: interval(info.op, chip).max(1),
            scalar: ScalarForm::of(info),
            special: is_special(info.op),
            value: value_walk(info.op).is_some(),
            units,
            mxu,
            mxu_shift: layout(info).0[mxu_operand] as u8,
            hazards,
            nwaits,
            nhazards: nhazards as u8,
        }
    }

    /// What it only waits for.
    #[inline]
    pub fn waits(&self) -> &[Hazard] {
        &self.hazards[..self.nwaits as usize]
    }

    /// What it waits for and defines.
    #[inline]
    pub fn definitions(&self) -> &[Hazard] {
        &self.hazards[self.nwaits as usize..self.nhazards as usize]
    }
}

/// By number of the opcode, of those that occur.
pub(super) fn uses(occurs: &[bool; Op::NUMBERS], r: &Resources, chip: &ChipConfig) -> Vec<Use> {
    let mut out = vec![Use::of(&TABLE[0], r, chip); Op::NUMBERS];
    let occurring = TABLE.iter().filter(|info| occurs[info.op as usize]);
    occurring.for_each(|info| out[info.op as usize] = Use::of(info, r, chip));
    out
}

/// Issue interval of an opcode as its slot group sees it; matrix units and DMA engines model their own.
pub(super) fn interval(op: Op, chip: &ChipConfig) -> u32 {
    let info = op.info();
    match info.slot {
        Slot::Branch => 1,
        Slot::Valu | Slot::Eup | Slot::Xlu | Slot::Scalar | Slot::Vload | Slot::Vstore => {
            chip.timing.get(info.class).interval
        }
        Slot::MxuPush | Slot::MxuPop | Slot::Dma => chip.timing.get(info.class).interval,
    }
}

/// When the value walk executes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// First: it reads registers and memory.
    Reads,
    /// Behind all that read.
    Stores,
}

/// When the value walk executes instructions of an opcode; scalar instructions, DMA and branches are other walks'.
pub(super) fn value_walk(op: Op) -> Option<Turn> {
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
