//! What the walks make of an opcode's instructions, by opcode: what loading asks of every instruction is looked up.

use super::code::*;
use crate::stats::Cause;
use systole_isa::chip::ChipConfig;
use systole_isa::inst::MAX_OPERANDS;
use systole_isa::opcodes::{StateFn, TABLE};
use systole_isa::table::OpInfo;
use systole_isa::{Effect, Function, Inst, Kind, Op, Slot};

/// Most hazards of an instruction: one an operand and that of a queue.
const MOST_HAZARDS: usize = MAX_OPERANDS + 1;

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
    pub mxu_operand: u8,
    hazards: [Hazard; MOST_HAZARDS],
    nhazards: u8,
}

/// Where a scalar instruction has what [`ScalarOp`] holds: operands by number.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalarForm {
    kind: ScalarKind,
    d: Option<u8>,
    sources: [Option<u8>; 3],
    imm: Option<u8>,
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
        let mut form = ScalarForm { kind, d: None, sources: [None; 3], imm: None };
        let mut free = form.sources.iter_mut();
        for (i, operand) in info.operands.iter().enumerate() {
            let i = Some(i as u8);
            match operand.kind {
                Kind::Sd => form.d = i,
                Kind::Su => *free.next().expect("a scalar instruction has three sources at most") = i,
                Kind::Vu | Kind::I32 | Kind::I20 | Kind::U8 | Kind::Sem => form.imm = i,
                Kind::Sm | Kind::Vd | Kind::Pd | Kind::Pu | Kind::Md | Kind::Mu | Kind::I16 | Kind::U4 => {}
                Kind::Target | Kind::Desc | Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => {}
            }
        }
        Some(form)
    }

    /// An instruction in compact form.
    #[inline]
    pub fn read(&self, inst: &Inst) -> ScalarOp {
        let get = |at: Option<u8>| at.map_or(0, |at| inst.operands[at as usize]);
        let [a, b, c] = self.sources.map(|s| get(s) as u8);
        ScalarOp { kind: self.kind, d: get(self.d) as u8, a, b, c, imm: get(self.imm) }
    }
}

/// What an instruction does to the resource `first + step * operand`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hazard {
    pub operand: u8,
    pub what: Access,
    /// Register zero is always ready, and defined by nothing.
    pub skips_zero: bool,
    pub step: u8,
    pub first: u16,
    /// Of what is defined, from the issue on.
    pub delta: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    ReadPair,
    Define,
    DefinePair,
}

impl Hazard {
    /// That of an operand of an instruction, if its kind has one; `latency`: of the instruction's results.
    fn of(operand: usize, kind: Kind, r: &Resources, latency: u32) -> Option<Hazard> {
        let (what, skips_zero, first) = match kind {
            Kind::Su => (Access::Read, true, 0),
            Kind::Sd | Kind::Sm => (Access::Define, true, 0),
            Kind::Vu => (Access::Read, false, r.vectors),
            Kind::Vd => (Access::Define, false, r.vectors),
            Kind::Pu => (Access::ReadPair, false, r.vectors),
            Kind::Pd => (Access::DefinePair, false, r.vectors),
            Kind::Mu => (Access::Read, true, r.masks),
            Kind::Md => (Access::Define, true, r.masks),
            Kind::I32 | Kind::I20 | Kind::I16 | Kind::U8 | Kind::U4 | Kind::Target | Kind::Desc => return None,
            Kind::Sem | Kind::Mxu | Kind::Xlu | Kind::Fmt | Kind::F8 => return None,
        };
        // A register that is changed on the way is there in the next cycle.
        let latency = if kind == Kind::Sm { 1 } else { latency };
        let delta = delta(latency, Cause::Register);
        Some(Hazard { operand: operand as u8, what, skips_zero, first: first as u16, step: 1, delta })
    }

    /// The wait for a queue, if instructions of an opcode have one.
    fn queue(effect: Effect, r: &Resources) -> Option<Hazard> {
        let (operand, first, step) = match effect {
            Effect::MxuStage => (0, r.mxu(0, MXU_STAGE), PER_MXU),
            Effect::MxuPush | Effect::MxuAccumulate => (0, r.mxu(0, MXU_PUSH), PER_MXU),
            Effect::MxuPop => (1, r.mxu(0, MXU_POP), PER_MXU),
            Effect::XluPop => (1, r.xlu(0), 1),
            Effect::None | Effect::VmemLoad | Effect::VmemStore | Effect::SmemLoad | Effect::SmemStore => return None,
            Effect::MxuLatch | Effect::MxuDrain | Effect::XluPush => return None,
            Effect::DmaStart | Effect::DmaWait | Effect::DmaRemote | Effect::Signal => return None,
            Effect::Cores | Effect::SyncTest | Effect::Control | Effect::Trap => return None,
        };
        let (first, step) = (first as u16, step as u8);
        Some(Hazard { operand, what: Access::Read, skips_zero: false, first, step, delta: 0 })
    }
}

impl Use {
    fn of(info: &'static OpInfo, r: &Resources, chip: &ChipConfig) -> Use {
        let latency = chip.timing.get(info.class).latency.max(1);
        let operands = info.operands.iter().enumerate();
        let registers = operands.filter_map(|(i, o)| Hazard::of(i, o.kind, r, latency));
        let none = Hazard { operand: 0, what: Access::Read, skips_zero: true, step: 0, first: 0, delta: 0 };
        let (mut hazards, mut nhazards) = ([none; MOST_HAZARDS], 0);
        for hazard in registers.chain(Hazard::queue(info.effect, r)) {
            hazards[nhazards] = hazard;
            nhazards += 1;
        }
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
            mxu_operand,
            hazards,
            nhazards: nhazards as u8,
        }
    }

    /// What it waits for and defines.
    #[inline]
    pub fn hazards(&self) -> &[Hazard] {
        &self.hazards[..self.nhazards as usize]
    }
}

/// By number of the opcode; numbers that no opcode has are in no bundle.
pub(super) fn uses(r: &Resources, chip: &ChipConfig) -> Vec<Use> {
    let mut out = vec![Use::of(&TABLE[0], r, chip); Op::NUMBERS];
    TABLE.iter().for_each(|info| out[info.op as usize] = Use::of(info, r, chip));
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
