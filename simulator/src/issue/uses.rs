//! What the walks make of an opcode's instructions, by opcode: what loading asks of every instruction is looked up.

use super::code::*;
use crate::stats::Cause;
use smallvec::SmallVec;
use systole_isa::chip::ChipConfig;
use systole_isa::opcodes::{StateFn, TABLE};
use systole_isa::table::OpInfo;
use systole_isa::{Effect, Function, Kind, Op, Slot};

/// What the walks make of an opcode's instructions.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub slot: Slot,
    /// Cycles that it keeps its unit.
    pub interval: u32,
    pub scalar: bool,
    pub special: bool,
    pub value: bool,
    pub units: Units,
    /// What it waits for and defines.
    pub hazards: SmallVec<[Hazard; 4]>,
}

/// Bits of [`Head::units`] that instructions of an opcode set.
#[derive(Clone, Copy, Debug)]
pub(super) enum Units {
    These(u32),
    /// That of the matrix unit which an operand names.
    Mxu {
        operand: u8,
    },
}

/// What an instruction does to the resource `first + step * operand`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hazard {
    pub operand: u8,
    pub what: Access,
    /// Register zero is always ready, and defined by nothing.
    pub skips_zero: bool,
    pub first: u16,
    pub step: u16,
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
        let (first, step) = (first as u16, step as u16);
        Some(Hazard { operand, what: Access::Read, skips_zero: false, first, step, delta: 0 })
    }
}

impl Use {
    fn of(info: &'static OpInfo, r: &Resources, chip: &ChipConfig) -> Use {
        let latency = chip.timing.get(info.class).latency.max(1);
        let operands = info.operands.iter().enumerate();
        let registers = operands.filter_map(|(i, o)| Hazard::of(i, o.kind, r, latency));
        Use {
            slot: info.slot,
            interval: interval(info.op, chip),
            scalar: matches!(info.op.function(), Function::Scalar(_) | Function::State(_)),
            special: is_special(info.op),
            value: value_walk(info.op).is_some(),
            units: units(info.slot),
            hazards: registers.chain(Hazard::queue(info.effect, r)).collect(),
        }
    }
}

fn units(slot: Slot) -> Units {
    match slot {
        Slot::Scalar | Slot::Branch => Units::These(1 << UNIT_SCALAR),
        Slot::Valu => Units::These(1 << UNIT_VALU),
        Slot::Vload => Units::These(1 << UNIT_VLOAD),
        Slot::Vstore => Units::These(1 << UNIT_VSTORE),
        Slot::Eup => Units::These(1 << UNIT_EUP),
        Slot::Xlu => Units::These(1 << UNIT_XLU),
        Slot::MxuPush => Units::Mxu { operand: 0 },
        Slot::MxuPop => Units::Mxu { operand: 1 },
        Slot::Dma => Units::These(0),
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
