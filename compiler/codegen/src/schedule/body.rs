//! Straight-line code as the schedulers see it: [`Node`]s, and the renaming that removes false dependences.

use crate::kernel::regs::{File, Reg, base_and_offset, registers};
use crate::kernel::{BufferRef, Kernel, VInst};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use systole_isa::{Inst, Op};

/// An address (or sum) `iv + offset` whose register is a loop's induction variable: the emitted offset is corrected by
/// how far the register has advanced when the instruction executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// Index into the loop's induction variables.
    pub iv: u32,
    /// Which operand is the immediate.
    pub offset_at: usize,
}

/// An instruction of a straight-line block.
#[derive(Clone, Debug)]
pub struct Node {
    pub inst: Inst,
    pub reads: SmallVec<[BufferRef; 2]>,
    pub writes: SmallVec<[BufferRef; 2]>,
    /// Set for uses of induction variables; that operand is then no register dependence.
    pub fold: Option<Fold>,
    /// Which copy of an unrolled loop body the instruction is from.
    pub copy: u32,
    /// As [`VInst::place`].
    pub place: u16,
}

impl Node {
    pub fn new(v: &VInst) -> Node {
        Node {
            inst: v.inst,
            reads: SmallVec::from_slice(&v.memory.reads),
            writes: SmallVec::from_slice(&v.memory.writes),
            fold: None,
            copy: 0,
            place: v.place,
        }
    }

    /// Register operands that carry dependences.
    pub fn registers(&self) -> impl Iterator<Item = crate::kernel::regs::RegOperand> + use<> {
        let base = self.fold.and_then(|_| base_and_offset(self.inst.op)).map(|(b, _)| b);
        registers(&self.inst).filter(move |r| Some(r.at) != base)
    }
}

/// Hands out virtual registers beyond a kernel's own and remembers which register of the kernel each stands for.
#[derive(Clone, Debug)]
pub struct Names {
    /// Next free number of each file.
    next: [u32; 4],
    /// Numbers from which a register is a new name, and what each new name stands for (itself if it has no origin).
    first: [u32; 4],
    origin: [Vec<u32>; 4],
    /// New names that several blocks share.
    global: FxHashSet<Reg>,
}

impl Names {
    pub fn new(k: &Kernel) -> Names {
        let next = k.free.0;
        Names { next, first: next, origin: Default::default(), global: FxHashSet::default() }
    }

    /// A new register that stands for `of`.
    pub fn alias(&mut self, of: Reg) -> Reg {
        let f = of.file() as usize;
        let origin = self.origin(of).map_or(u32::MAX, Reg::number);
        self.origin[f].push(origin);
        self.next[f] += 1;
        Reg::new(of.file(), self.next[f] - 1)
    }

    /// A new register without an origin: it cannot be spilled.
    pub fn fresh(&mut self, file: File) -> Reg {
        let f = file as usize;
        self.origin[f].push(u32::MAX);
        self.next[f] += 1;
        Reg::new(file, self.next[f] - 1)
    }

    /// A new register without an origin that several blocks may use.
    pub fn global(&mut self, file: File) -> Reg {
        let r = self.fresh(file);
        self.global.insert(r);
        r
    }

    /// The kernel's register that a name stands for.
    pub fn origin(&self, r: Reg) -> Option<Reg> {
        let f = r.file() as usize;
        if r.number() < self.first[f] {
            return Some(r);
        }
        let o = self.origin[f][(r.number() - self.first[f]) as usize];
        (o != u32::MAX).then(|| Reg::new(r.file(), o))
    }

    /// Whether a register is a new name, used by nothing but the block that it was made for.
    pub fn is_new(&self, r: Reg) -> bool {
        r.number() >= self.first[r.file() as usize] && !self.global.contains(&r)
    }

    /// Number of registers of each file.
    pub fn counts(&self) -> [u32; 4] {
        self.next
    }
}

/// Gives every definition but the last of each register in the block a name of its own, so that only true dependences
/// within the block remain. The last definition keeps the name, because code after the block may read it.
pub fn rename_inner(nodes: &mut [Node], names: &mut Names) {
    let mut defs: FxHashMap<Reg, u32> = FxHashMap::default();
    for n in nodes.iter() {
        for r in n.registers().filter(|r| r.is_def) {
            *defs.entry(r.reg).or_default() += 1;
        }
    }
    if defs.values().all(|&n| n == 1) {
        return;
    }
    let mut current: FxHashMap<Reg, Reg> = FxHashMap::default();
    for n in nodes.iter_mut() {
        let regs: SmallVec<[_; 6]> = n.registers().collect();
        for r in regs.iter().filter(|r| r.is_use) {
            if let Some(c) = current.get(&r.reg) {
                n.inst.operands[r.at] = c.number() as i32;
            }
        }
        for r in regs.iter().filter(|r| r.is_def) {
            let left = defs.get_mut(&r.reg).expect("counted above");
            *left -= 1;
            if *left == 0 {
                current.remove(&r.reg);
            } else if !r.is_use {
                let c = names.alias(r.reg);
                n.inst.operands[r.at] = c.number() as i32;
                current.insert(r.reg, c);
            }
        }
    }
}

/// Replaces bases that are sums `base + constant` made in the block by the base itself, and drops sums that nothing uses
/// any more. Expects inner definitions to be renamed.
pub fn fold_sums(nodes: &mut Vec<Node>, names: &Names, is_local: &dyn Fn(Reg) -> bool) {
    let mut known: FxHashMap<Reg, (Reg, i32)> = FxHashMap::default();
    let mut folded = false;
    for n in nodes.iter_mut() {
        if let (None, Some((base_at, offset_at))) = (n.fold, base_and_offset(n.inst.op)) {
            let base = Reg::new(File::Scalar, n.inst.operands[base_at] as u32);
            if let Some(&(real, more)) = known.get(&base) {
                let offset = n.inst.operands[offset_at].wrapping_add(more);
                let kind = n.inst.op.info().operands[offset_at].kind;
                if crate::kernel::regs::fits(kind, offset as i64) {
                    n.inst.operands[offset_at] = offset;
                    n.inst.operands[base_at] = real.number() as i32;
                    folded = true;
                }
            }
        }
        for r in n.registers().filter(|r| r.is_def && r.reg.file() == File::Scalar) {
            known.remove(&r.reg);
            known.retain(|_, v| v.0 != r.reg);
        }
        if n.inst.op == Op::SAddI && n.fold.is_none() && n.inst.operands[0] != n.inst.operands[1] {
            let [d, base] = [0, 1].map(|i| Reg::new(File::Scalar, n.inst.operands[i] as u32));
            known.insert(d, (base, n.inst.operands[2]));
        }
    }
    if folded {
        remove_unused_sums(nodes, &|r| names.is_new(r) || is_local(r));
    }
}

/// Drops sums into registers of the block's own that nothing in the block reads.
pub fn remove_unused_sums(nodes: &mut Vec<Node>, is_own: &dyn Fn(Reg) -> bool) {
    let mut used: FxHashMap<Reg, u32> = FxHashMap::default();
    for n in nodes.iter() {
        for r in n.registers().filter(|r| r.is_use) {
            *used.entry(r.reg).or_default() += 1;
        }
    }
    let mut keep = vec![true; nodes.len()];
    for (n, keep) in nodes.iter().zip(&mut keep).rev() {
        if n.inst.op != Op::SAddI {
            continue;
        }
        let d = Reg::new(File::Scalar, n.inst.operands[0] as u32);
        if !is_own(d) || used.get(&d).is_some_and(|&u| u > 0) {
            continue;
        }
        *keep = false;
        for r in n.registers().filter(|r| r.is_use) {
            if let Some(u) = used.get_mut(&r.reg) {
                *u -= 1;
            }
        }
    }
    let mut kept = keep.iter();
    nodes.retain(|_| kept.next().copied().unwrap_or(true));
}
