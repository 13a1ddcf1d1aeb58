//! Events: instructions with an effect outside the registers, and which of them must keep their order.
//!
//! The rules are those of kernels ([`crate::kernel`]) and of the opcode table ([`systole_isa::effects`]), nothing of the
//! scheduler's.

use super::value::{Key, Registers, Results, Value, address_offset};
use crate::kernel::{BufferRef, Loop, VInst};
use smallvec::SmallVec;
use std::rc::Rc;
use systole_isa::effects::Accesses;
use systole_isa::{Access, Effect, Inst, Kind, Resource};

/// Memory that an instruction may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Buffer(BufferRef),
    /// An access that names no buffer.
    Anything,
    ScalarMemory,
    Accumulators(BufferRef),
    /// An access to a unit's accumulators that names no region.
    AllAccumulators,
}

/// How an instruction touches memory.
#[derive(Clone, Copy, Debug)]
struct Touch {
    space: Space,
    write: bool,
    /// Copies, and pushes to accumulators, need no order among themselves here: semaphores and queues order them.
    queued: bool,
}

/// What the order rules must know of an instruction, whatever its operands' values.
#[derive(Debug)]
pub(super) struct Facts {
    touches: SmallVec<[Touch; 3]>,
    queues: Accesses,
    /// The event must happen exactly once. A load need not if nothing uses it, and may more often.
    pub required: bool,
    /// Others may wait for it / it waits for others / it waits for all before it.
    outward: bool,
    waits: bool,
    barrier: bool,
    /// The matrix unit that it feeds / takes results from.
    pub push: Option<i32>,
    pub output: Option<i32>,
}

impl Facts {
    pub fn new(v: &VInst) -> Facts {
        let effect = v.inst.op.info().effect;
        let named = !v.memory.is_empty();
        let queued = matches!(effect, Effect::DmaStart | Effect::DmaWait | Effect::MxuAccumulate);
        let copies =
            matches!(effect, Effect::DmaStart | Effect::DmaWait | Effect::DmaRemote | Effect::Signal | Effect::Cores);
        let matrix = matches!(effect, Effect::MxuAccumulate | Effect::MxuDrain);
        let mut touches = SmallVec::new();
        let mut touch = |space, write| touches.push(Touch { space, write, queued });
        let space = |b: BufferRef| match b {
            BufferRef::SCALAR_MEMORY => Space::ScalarMemory,
            _ if matrix => Space::Accumulators(b),
            _ => Space::Buffer(b),
        };
        // A wait lets others write what was read before it.
        let waits = matches!(effect, Effect::DmaWait | Effect::Cores);
        v.memory.reads.iter().for_each(|&b| touch(space(b), waits));
        v.memory.writes.iter().for_each(|&b| touch(space(b), true));
        let vector = matches!(effect, Effect::VmemLoad | Effect::VmemStore);
        if !named && (vector || copies) {
            touch(Space::Anything, effect != Effect::VmemLoad);
        }
        if matches!(effect, Effect::SmemLoad | Effect::SmemStore) || effect == Effect::Cores || copies && !named {
            touch(Space::ScalarMemory, effect != Effect::SmemLoad);
        }
        if matrix && !named {
            touch(Space::AllAccumulators, effect == Effect::MxuAccumulate);
        }
        let mut queues = v.inst.accesses(&[]);
        // Memory is looked at by buffer, accumulators by region.
        queues
            .retain(|(r, _)| !matches!(r, Resource::Vmem | Resource::Smem | Resource::Hbm | Resource::Accumulators(_)));
        let unit = v.inst.operand(Kind::Mxu);
        Facts {
            touches,
            queues,
            required: !matches!(effect, Effect::VmemLoad | Effect::SmemLoad),
            outward: matches!(effect, Effect::DmaStart | Effect::DmaRemote | Effect::Signal),
            waits,
            barrier: effect == Effect::Cores,
            push: unit.filter(|_| matches!(effect, Effect::MxuPush | Effect::MxuAccumulate)),
            output: unit.filter(|_| matches!(effect, Effect::MxuPop | Effect::MxuDrain)),
        }
    }
}

/// Rows of memory from an address on.
#[derive(Clone, Copy, Debug)]
struct Place {
    address: Value,
    bits: u32,
    stride: i64,
    count: i64,
}

impl Place {
    fn new(inst: &Inst, sublanes: u32, registers: &impl Registers) -> Option<Place> {
        // Operand 1 of an instruction without an address is no register.
        let offset = address_offset(inst)?;
        let address = registers.read(Kind::Su, inst.operands[1])[0].plus(offset);
        Some(match inst.vmem_access() {
            Some(a) => Place { address, bits: a.element_bits, stride: a.stride as i64, count: sublanes as i64 },
            None => Place { address, bits: 32, stride: 0, count: 1 },
        })
    }

    /// Whether the two are known not to meet.
    fn apart(&self, o: &Place) -> bool {
        let Some(shift) = o.address.minus(self.address) else { return false };
        if self.bits != o.bits {
            return false;
        }
        let extent = |p: &Place| {
            let last = (p.count - 1) * p.stride;
            (last.min(0), last.max(0))
        };
        let ((a0, a1), (b0, b1)) = (extent(self), extent(o));
        let shift = shift as i64;
        if b0 + shift > a1 || b1 + shift < a0 {
            return true;
        }
        let row = |p: &Place, i: i64| p.stride * i;
        !(0..self.count).any(|i| (0..o.count).any(|j| row(self, i) == shift + row(o, j)))
    }
}

/// An iteration of a loop that the source has not left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn<'a> {
    pub counted: &'a Loop,
    /// Which run of the loop.
    pub run: u32,
    pub iteration: u32,
}

/// An instruction of the kernel with an effect, in one iteration.
#[derive(Clone, Debug)]
pub(super) struct Event<'a> {
    pub inst: &'a Inst,
    pub facts: Rc<Facts>,
    pub key: Key,
    pub results: Results,
    place: Option<Place>,
    pub turns: SmallVec<[Turn<'a>; 2]>,
    /// Its number among the events of an iteration of the outermost loop.
    pub position: u32,
    /// The bundle that has it, counted as executed; none yet if the bundles are behind.
    pub done: Option<u32>,
}

impl<'a> Event<'a> {
    pub fn new(v: &'a VInst, facts: Rc<Facts>, key: Key, sublanes: u32, registers: &impl Registers) -> Event<'a> {
        Event {
            inst: &v.inst,
            facts,
            key,
            results: Results::new(),
            place: Place::new(&v.inst, sublanes, registers),
            turns: SmallVec::new(),
            position: 0,
            done: None,
        }
    }

    /// The iteration of the outermost loop.
    pub fn iteration(&self) -> u32 {
        self.turns.first().map_or(0, |t| t.iteration)
    }

    /// Whether `later`, which follows in the kernel, must follow in the bundles too.
    pub fn before(&self, later: &Event<'_>) -> bool {
        let (a, b) = (&*self.facts, &*later.facts);
        b.barrier || a.outward && b.waits || self.queued_before(later) || self.touches_before(later)
    }

    fn queued_before(&self, later: &Event<'_>) -> bool {
        let same = |x: &(Resource, Access), y: &(Resource, Access)| x.0 == y.0 && x.1.ordered_before(y.1);
        self.facts.queues.iter().any(|x| later.facts.queues.iter().any(|y| same(x, y)))
    }

    fn touches_before(&self, later: &Event<'_>) -> bool {
        let pairs = self.facts.touches.iter().flat_map(|x| later.facts.touches.iter().map(move |y| (x, y)));
        for (x, y) in pairs {
            if !(x.write || y.write) || !meet(x, y) || self.inst_unit_differs(later, x.space, y.space) {
                continue;
            }
            if x.queued && y.queued && x.space == Space::AllAccumulators {
                continue;
            }
            if let (Space::Buffer(b) | Space::Accumulators(b), true) = (x.space, x.space == y.space)
                && self.independent(later, b)
            {
                continue;
            }
            match (&self.place, &later.place) {
                (Some(p), Some(q)) if p.apart(q) => {}
                (Some(_) | None, Some(_) | None) => return true,
            }
        }
        false
    }

    /// Accumulators of different units.
    fn inst_unit_differs(&self, later: &Event<'_>, x: Space, y: Space) -> bool {
        let whole = |s| s == Space::AllAccumulators;
        (whole(x) || whole(y)) && self.inst.operand(Kind::Mxu) != later.inst.operand(Kind::Mxu)
    }

    /// Whether the two are in iterations that do not share a buffer.
    fn independent(&self, later: &Event<'_>, buffer: BufferRef) -> bool {
        self.turns
            .iter()
            .zip(&later.turns)
            .any(|(x, y)| x.run == y.run && x.iteration != y.iteration && x.counted.hints.independent.contains(&buffer))
    }
}

fn meet(x: &Touch, y: &Touch) -> bool {
    match (x.space, y.space) {
        (Space::Anything, Space::Buffer(_)) | (Space::Buffer(_), Space::Anything) => true,
        (Space::AllAccumulators, Space::Accumulators(_)) | (Space::Accumulators(_), Space::AllAccumulators) => true,
        (
            Space::Buffer(_) | Space::Anything | Space::ScalarMemory | Space::Accumulators(_) | Space::AllAccumulators,
            _,
        ) => x.space == y.space,
    }
}
