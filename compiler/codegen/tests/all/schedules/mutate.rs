//! Bundles with one thing wrong: what the checker must find. Shared by the tests of random units and of whole programs.

use systole_isa::{Bundle, Effect, Inst, Kind, Slot};

/// Numbers drawn one after another.
pub struct Numbers(pub u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

/// Effects of which an instruction is dropped, with what that is called.
pub const DROPPED: &[(&str, Effect)] = &[
    ("a wait dropped", Effect::DmaWait),
    ("a copy dropped", Effect::DmaStart),
    ("a store dropped", Effect::VmemStore),
    ("a load dropped", Effect::VmemLoad),
    ("a scalar store dropped", Effect::SmemStore),
    ("a stage dropped", Effect::MxuStage),
    ("a latch dropped", Effect::MxuLatch),
    ("a push dropped", Effect::MxuPush),
    ("a pop dropped", Effect::MxuPop),
    ("a transpose push dropped", Effect::XluPush),
    ("a transpose pop dropped", Effect::XluPop),
    ("arithmetic dropped", Effect::None),
];

/// The bundles without one of the instructions with an effect.
pub fn dropped(bundles: &[Bundle], effect: Effect, seed: &mut Numbers) -> Option<Vec<Bundle>> {
    let of = |i: &Inst| i.op.info().effect == effect;
    let all: Vec<(usize, usize)> = (bundles.iter().enumerate())
        .flat_map(|(at, b)| b.insts.iter().enumerate().filter(|(_, i)| of(i)).map(move |(n, _)| (at, n)))
        .collect();
    let &(at, n) = all.get(seed.below(all.len()))?;
    let mut m = bundles.to_vec();
    m[at].insts.remove(n);
    Some(m)
}

/// Two neighbours swapped, the second of which reads a register that the first writes, or loads after its store.
pub fn swapped(bundles: &[Bundle], stores: bool, seed: &mut Numbers) -> Option<Vec<Bundle>> {
    let branch = |b: &Bundle| b.insts.iter().any(|i| i.op.info().slot == Slot::Branch);
    let fits = |at: &usize| {
        let (a, b) = (&bundles[*at], &bundles[*at + 1]);
        let has = |b: &Bundle, e| b.insts.iter().any(|i| i.op.info().effect == e);
        let dependent = a.insts.iter().flat_map(|i| i.defs()).any(|r| b.insts.iter().any(|j| j.uses().contains(&r)));
        let memory = has(a, Effect::VmemStore) && has(b, Effect::VmemLoad);
        !branch(a) && !branch(b) && if stores { memory } else { dependent }
    };
    let all: Vec<usize> = (0..bundles.len() - 1).filter(fits).collect();
    let &at = all.get(seed.below(all.len()))?;
    let mut m = bundles.to_vec();
    m.swap(at, at + 1);
    Some(m)
}

/// A source register replaced by another one of the instruction.
pub fn replaced(bundles: &[Bundle], seed: &mut Numbers) -> Option<Vec<Bundle>> {
    let two = |i: &Inst| {
        let kinds = i.op.info().operands;
        kinds.len() == 3
            && kinds[1].kind == kinds[2].kind
            && kinds[2].kind == Kind::Vu
            && i.operands[1] != i.operands[2]
    };
    let all: Vec<(usize, usize)> = (bundles.iter().enumerate())
        .flat_map(|(at, b)| b.insts.iter().enumerate().filter(|(_, i)| two(i)).map(move |(n, _)| (at, n)))
        .collect();
    let &(at, n) = all.get(seed.below(all.len()))?;
    let mut m = bundles.to_vec();
    m[at].insts[n].operands[2] = m[at].insts[n].operands[1];
    Some(m)
}
