//! Induction variables of loop bodies, and unrolling.
//!
//! A scalar register that a body changes once, by `s.addi r, r, step`, is an induction variable. Its uses as a base
//! (address, or operand of `s.addi`) become *folds*: `r at the start of iteration 0` plus an offset known for each
//! instance. The update itself leaves the body; the emitter adds it back once per round of the final loop. Other uses
//! go through a temporary `s.addi t, r, offset`.

use super::body::{Fold, Names, Node, remove_unused_sums};
use crate::kernel::regs::{File, Reg, base_and_offset, fits};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use systole_isa::{Inst, Op};

/// An induction variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Induction {
    pub reg: Reg,
    /// Advance per iteration of the body that it was found in.
    pub step: i32,
}

/// A loop body without its induction steps.
#[derive(Clone, Debug)]
pub struct LoopBody {
    pub nodes: Vec<Node>,
    pub inductions: Vec<Induction>,
}

struct Analysis<'a> {
    names: &'a mut Names,
    inductions: Vec<Induction>,
    /// Registers whose value is an induction variable plus a constant: variable, offset from its iteration start.
    known: FxHashMap<Reg, (u32, i32)>,
    temporaries: FxHashMap<(u32, i32), Reg>,
    nodes: Vec<Node>,
}

/// Finds the induction variables of a body. `is_local` says whether a register is used by no other code. Variables in
/// `unfolded` get temporaries for addresses too (their offsets would not fit).
///
/// Expects inner definitions to be renamed and sums folded, so that a variable advanced in several steps has become one
/// that is advanced once.
pub fn analyse(
    nodes: Vec<Node>,
    names: &mut Names,
    is_local: &dyn Fn(Reg) -> bool,
    unfolded: &FxHashSet<Reg>,
) -> LoopBody {
    let mut defs: FxHashMap<Reg, u32> = FxHashMap::default();
    for n in &nodes {
        for r in n.registers().filter(|r| r.is_def) {
            *defs.entry(r.reg).or_default() += 1;
        }
    }
    let mut inductions = Vec::new();
    let mut known = FxHashMap::default();
    for n in &nodes {
        if let Some(iv) = induction(&n.inst)
            && defs[&iv.reg] == 1
        {
            known.insert(iv.reg, (inductions.len() as u32, 0));
            inductions.push(iv);
        }
    }
    let mut a = Analysis { names, inductions, known, temporaries: FxHashMap::default(), nodes: Vec::new() };
    for n in nodes {
        if let Some(iv) = induction(&n.inst)
            && let Some(at) = a.inductions.iter().position(|i| i.reg == iv.reg)
        {
            a.known.insert(iv.reg, (at as u32, iv.step));
            continue;
        }
        let single = n.registers().any(|r| r.is_def && defs[&r.reg] == 1 && is_local(r.reg));
        a.node(n, single, unfolded);
    }
    let (mut nodes, inductions) = (a.nodes, a.inductions);
    remove_unused_sums(&mut nodes, &|r| names.is_new(r) || is_local(r));
    LoopBody { nodes, inductions }
}

fn induction(inst: &Inst) -> Option<Induction> {
    let same = inst.op == Op::SAddI && inst.operands[0] == inst.operands[1] && inst.operands[0] != 0;
    same.then(|| Induction { reg: Reg::new(File::Scalar, inst.operands[0] as u32), step: inst.operands[2] })
}

impl Analysis<'_> {
    fn node(&mut self, mut n: Node, defines_single_local: bool, unfolded: &FxHashSet<Reg>) {
        let base = base_and_offset(n.inst.op);
        let uses: SmallVec<[_; 6]> = n.registers().filter(|r| r.is_use).collect();
        for r in uses {
            let Some(&(iv, extra)) = self.known.get(&r.reg) else { continue };
            let kinds = n.inst.op.info().operands;
            let folded = base.filter(|b| b.0 == r.at).and_then(|(_, offset_at)| {
                let offset = n.inst.operands[offset_at].wrapping_add(extra);
                let free = n.inst.op == Op::SAddI || !unfolded.contains(&self.inductions[iv as usize].reg);
                (free && fits(kinds[offset_at].kind, offset as i64)).then_some((offset_at, offset))
            });
            match folded {
                Some((offset_at, offset)) => {
                    n.inst.operands[offset_at] = offset;
                    n.inst.operands[r.at] = self.inductions[iv as usize].reg.number() as i32;
                    n.fold = Some(Fold { iv, offset_at });
                }
                None if self.inductions[iv as usize].reg == r.reg => {
                    n.inst.operands[r.at] = self.temporary(iv, extra).number() as i32;
                }
                None => {}
            }
        }
        if let (Op::SAddI, Some(f)) = (n.inst.op, n.fold)
            && defines_single_local
        {
            self.known.insert(Reg::new(File::Scalar, n.inst.operands[0] as u32), (f.iv, n.inst.operands[2]));
        }
        self.nodes.push(n);
    }

    /// A register with the variable's iteration-start value plus `extra`.
    fn temporary(&mut self, iv: u32, extra: i32) -> Reg {
        if let Some(&t) = self.temporaries.get(&(iv, extra)) {
            return t;
        }
        let reg = self.inductions[iv as usize].reg;
        let t = self.names.fresh(File::Scalar);
        let inst = Inst::new(Op::SAddI, &[t.number() as i32, reg.number() as i32, extra]);
        self.nodes.push(Node {
            inst,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            fold: Some(Fold { iv, offset_at: 2 }),
            copy: 0,
            place: 0,
        });
        self.temporaries.insert((iv, extra), t);
        t
    }
}

/// `factor` copies of a body, one after the other; `None` if a folded offset leaves its field.
pub fn unroll(body: &LoopBody, factor: u32) -> Option<LoopBody> {
    let mut nodes = Vec::with_capacity(body.nodes.len() * factor as usize);
    for copy in 0..factor {
        for n in &body.nodes {
            let mut n = n.clone();
            n.copy = copy;
            if let Some(f) = n.fold {
                let step = body.inductions[f.iv as usize].step;
                n.inst.operands[f.offset_at] = shifted(&n.inst, f, step as i64 * copy as i64)?;
            }
            nodes.push(n);
        }
    }
    let inductions =
        body.inductions.iter().map(|i| Induction { reg: i.reg, step: i.step.wrapping_mul(factor as i32) }).collect();
    Some(LoopBody { nodes, inductions })
}

/// A folded offset moved by `by`, if it still fits its field (sums wrap).
pub fn shifted(inst: &Inst, f: Fold, by: i64) -> Option<i32> {
    let v = inst.operands[f.offset_at] as i64 + by;
    if inst.op == Op::SAddI {
        return Some(v as i32);
    }
    fits(inst.op.info().operands[f.offset_at].kind, v).then_some(v as i32)
}
