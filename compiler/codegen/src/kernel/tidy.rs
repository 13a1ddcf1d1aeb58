//! Cleans a kernel before it is scheduled: what is computed twice in a row, undone at once, or for nobody.
//!
//! Emitters compose operations that each stand alone: a pair is split into words and made again, a sine is computed for
//! a tangent and again for a cosine. Three rewrites of pure vector, pair and mask instructions:
//!
//! - identities (`p.lo` of a `p.make`, a mask negated twice, rounding what is rounded) become their operand;
//! - an instruction equal to one shortly before it in the same run of straight-line code becomes that one's result (not
//!   across loops and branches, nor from far away, where it would hold a register for long);
//! - instructions whose results nobody reads go away.
//!
//! Only registers with a single definition are renamed; a variable keeps all its definitions. Scalar code stays as it is.

use super::{Item, Kernel, Loop, Trips, VInst, is_pure};
use crate::kernel::regs::{File, Reg, defs, registers, uses};
use rustc_hash::FxHashMap;
use systole_isa::{Inst, Op};

/// How many instructions after its last use a result is still found again. Between uses it holds a register, so what is
/// wanted less often had better be computed anew.
pub const REACH: usize = 512;

/// Pure instructions of a run of straight-line code, by what they compute: the result, and where it was last wanted.
type Seen = FxHashMap<Inst, (Reg, usize)>;

/// The kernel, cleaned.
pub fn tidy(mut kernel: Kernel) -> Kernel {
    let mut renamer =
        Renamer { definitions: FxHashMap::default(), inst: FxHashMap::default(), to: FxHashMap::default() };
    for p in &kernel.params {
        *renamer.definitions.entry(Reg::new(File::Scalar, p.0)).or_default() += 1;
    }
    kernel.each_instruction(&mut |v| defs(&v.inst).for_each(|r| *renamer.definitions.entry(r).or_default() += 1));
    renamer.items(&mut kernel.body);
    let mut read = FxHashMap::default();
    count_reads(&kernel.body, &mut read);
    while sweep(&mut kernel.body, &mut read) {}
    kernel
}

fn scalar(s: super::S) -> Reg {
    Reg::new(File::Scalar, s.0)
}

/// Replaces registers by equal ones.
struct Renamer {
    /// How often each register is defined.
    definitions: FxHashMap<Reg, u32>,
    /// The defining instruction (after renaming) of registers defined once.
    inst: FxHashMap<Reg, Inst>,
    to: FxHashMap<Reg, Reg>,
}

impl Renamer {
    fn once(&self, r: Reg) -> bool {
        r.is_constant() || self.definitions.get(&r) == Some(&1)
    }

    fn items(&mut self, items: &mut Vec<Item>) {
        let mut seen = Seen::default();
        let mut position = 0;
        items.retain_mut(|item| match item {
            Item::Inst(i) => {
                position += 1;
                self.keep(i, position, &mut seen)
            }
            Item::Loop(_) | Item::If { .. } | Item::While { .. } | Item::Call { .. } | Item::Mark { .. } => {
                seen.clear();
                item.regions_mut().for_each(|region| self.items(region));
                true
            }
        });
    }

    /// Renames an instruction's operands; false if its result has become another register.
    #[allow(clippy::wildcard_enum_match_arm, reason = "few opcodes round by themselves; a new one loses only speed")]
    fn keep(&mut self, i: &mut VInst, position: usize, seen: &mut Seen) -> bool {
        for o in registers(&i.inst).filter(|o| o.is_use && !o.is_def) {
            if let Some(r) = self.to.get(&o.reg) {
                i.inst.operands[o.at] = r.number() as i32;
            }
        }
        match i.inst.op {
            Op::VStBf16 => self.rounds(&mut i.inst, 0),
            Op::VPackBf16 => self.rounds(&mut i.inst, 1),
            _ => {}
        }
        let Some(result) = renamable(&i.inst).filter(|&r| self.once(r)) else { return true };
        let same = self.identity(&i.inst).filter(|&r| self.once(r)).or_else(|| {
            if !uses(&i.inst).all(|r| self.once(r)) {
                return None;
            }
            let mut key = i.inst;
            key.operands[0] = 0;
            let (first, wanted) = seen.entry(key).or_insert((result, position));
            if position - *wanted > REACH {
                *first = result;
            }
            *wanted = position;
            (*first != result).then_some(*first)
        });
        match same {
            Some(r) => self.to.insert(result, r).is_some(),
            None => {
                self.inst.insert(result, i.inst);
                true
            }
        }
    }

    fn defining(&self, file: File, number: i32) -> Option<&Inst> {
        self.inst.get(&Reg::new(file, number as u32))
    }

    fn vector(&self, number: i32, op: Op) -> Option<&Inst> {
        self.defining(File::Vector, number).filter(|i| i.op == op)
    }

    /// The register that an instruction's result always equals.
    #[allow(clippy::wildcard_enum_match_arm, reason = "few opcodes give an operand back; a new one loses only speed")]
    fn identity(&self, i: &Inst) -> Option<Reg> {
        let o = i.operands;
        let vector = |n: i32| Some(Reg::new(File::Vector, n as u32));
        let mask = |n: i32| Some(Reg::new(File::Mask, n as u32));
        match i.op {
            Op::PLo | Op::PHi => {
                let made = self.defining(File::Pair, o[1]).filter(|d| d.op == Op::PMake)?;
                vector(made.operands[if i.op == Op::PLo { 1 } else { 2 }])
            }
            Op::PMake => {
                let (lo, hi) = (self.vector(o[1], Op::PLo)?, self.vector(o[2], Op::PHi)?);
                (lo.operands[1] == hi.operands[1]).then(|| Reg::new(File::Pair, lo.operands[1] as u32))
            }
            Op::MXor if o[2] == 0 => {
                let inner = self.defining(File::Mask, o[1]).filter(|d| d.op == Op::MXor && d.operands[2] == 0)?;
                mask(inner.operands[1])
            }
            Op::MAnd if o[1] == 0 || o[1] == o[2] => mask(o[2]),
            Op::MAnd if o[2] == 0 => mask(o[1]),
            Op::MOr if o[1] == o[2] => mask(o[1]),
            Op::VSel if o[1] == 0 || o[2] == o[3] => vector(o[2]),
            Op::VRndBf16 => self.vector(o[1], Op::VRndBf16).and_then(|_| vector(o[1])),
            Op::VRndF16 => self.vector(o[1], Op::VRndF16).and_then(|_| vector(o[1])),
            // A mask that was words 0 and 1 for a while.
            Op::VNeI => {
                let select = self.vector(o[1], Op::VSel)?;
                let value = |n: i32| self.vector(n, Op::VImm).map(|d| d.operands[1]);
                let is_flag = value(o[2]) == Some(0) && value(select.operands[3]) == Some(0);
                (is_flag && value(select.operands[2]) == Some(1)).then(|| mask(select.operands[1])).flatten()
            }
            _ => None,
        }
    }

    /// A bf16 store or packing rounds its operand `at` by itself. It keeps subnormals, so only the results of arithmetic,
    /// which has none, may go without the rounding before it.
    fn rounds(&self, inst: &mut Inst, at: usize) {
        let Some(round) = self.vector(inst.operands[at], Op::VRndBf16) else { return };
        let source = round.operands[1];
        let arithmetic = self.defining(File::Vector, source).is_some_and(|d| {
            matches!(d.op, Op::VAddF | Op::VSubF | Op::VMulF | Op::VFmaF | Op::VDivF | Op::EExp | Op::ETanh)
                || matches!(d.op, Op::ERcp | Op::ERsqrt | Op::ESqrt | Op::ELog | Op::ESin | Op::ECos)
        });
        if arithmetic {
            inst.operands[at] = source;
        }
    }
}

/// The vector, pair or mask register that a pure instruction defines.
fn renamable(i: &Inst) -> Option<Reg> {
    let r = defs(i).next().filter(|_| is_pure(i.op))?;
    (r.file() != File::Scalar).then_some(r)
}

fn read(r: Reg, n: &mut FxHashMap<Reg, u32>) {
    *n.entry(r).or_default() += 1;
}

fn count_reads(items: &[Item], n: &mut FxHashMap<Reg, u32>) {
    Item::each(items, &mut |item| match item {
        Item::Inst(i) => uses(&i.inst).for_each(|r| read(r, n)),
        Item::Loop(Loop { trips: Trips::Dynamic(s), .. }) => read(scalar(*s), n),
        Item::If { cond, .. } | Item::While { cond, .. } => read(scalar(*cond), n),
        Item::Call { args, .. } => args.iter().for_each(|&s| read(scalar(s), n)),
        Item::Loop(Loop { trips: Trips::Static(_), .. }) | Item::Mark { .. } => {}
    });
}

/// Removes instructions without readers, last ones first; whether there were any.
fn sweep(items: &mut Vec<Item>, n: &mut FxHashMap<Reg, u32>) -> bool {
    let mut any = false;
    for item in items.iter_mut().rev() {
        match item {
            Item::Inst(i) => {
                if renamable(&i.inst).is_some_and(|r| n.get(&r).copied().unwrap_or(0) == 0) {
                    for r in uses(&i.inst) {
                        if let Some(k) = n.get_mut(&r) {
                            *k -= 1;
                        }
                    }
                    // Marked by an impossible item, removed below.
                    *item = Item::Call { kernel: u32::MAX, args: Vec::new() };
                    any = true;
                }
            }
            Item::Loop(_) | Item::If { .. } | Item::While { .. } | Item::Call { .. } | Item::Mark { .. } => {
                item.regions_mut().rev().for_each(|region| any |= sweep(region, n));
            }
        }
    }
    if any {
        items.retain(|i| !matches!(i, Item::Call { kernel: u32::MAX, .. }));
    }
    any
}
