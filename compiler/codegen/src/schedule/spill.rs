//! Keeping registers of a kernel in memory, as a change of its tree before scheduling.
//!
//! A spilled register is stored after each definition and loaded into a new register before each use. Vectors go to
//! vector memory, scalars to scalar memory, masks as vectors of zeros and ones, pairs as two vectors. A register that few
//! instructions make from nothing is made anew instead.
//!
//! Calls clobber every register, so what lives across one is spilled ([`across_calls`]); counted loops around calls
//! first become loops over a scalar variable ([`expose_counters`]). Kernels that call rarely save registers around their calls
//! instead.

use super::memory::FIRST_RESERVED;
use super::slots::Slots;
use crate::kernel::regs::{File, Reg, defs, registers, uses};
use crate::kernel::{BufferRef, Item, Kernel, S, Touched, Trips, VInst};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_isa::{Effect, Inst, Op, Slot};

/// Where spilled registers go, and how much of it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Next free word row of vector memory, and word of scalar memory.
    pub row: u32,
    pub word: u32,
    /// Rows of a register.
    pub sublanes: u32,
}

#[derive(Clone, Debug)]
enum Home {
    Memory {
        place: u32,
        buffer: BufferRef,
    },
    /// Instructions that make the value, the last defining it.
    Constant(Vec<Inst>),
}

/// Spills registers of one kernel, possibly in several rounds.
pub struct Spiller {
    pub area: Area,
    /// The row from which on registers share places where they can.
    share_from: u32,
    slots: Slots,
    /// Registers that stand for spilled ones for an instant; spilling them again gains nothing.
    pub pinned: FxHashSet<Reg>,
    buffers: u32,
}

impl Spiller {
    /// `limit`: the row before which spilled vectors should end.
    pub fn new(area: Area, limit: u32) -> Spiller {
        Spiller { area, share_from: limit, slots: Slots::default(), pinned: FxHashSet::default(), buffers: 0 }
    }

    /// Moves registers to memory; what is made from nothing is made anew instead.
    pub fn spill(&mut self, kernel: &mut Kernel, regs: &[Reg]) {
        let homes = self.homes(kernel, regs, (true, true));
        self.moved(kernel, regs, homes);
    }

    /// Moves registers to memory, whatever they are made from.
    pub fn keep(&mut self, kernel: &mut Kernel, regs: &[Reg]) {
        let homes = self.homes(kernel, regs, (false, true));
        self.moved(kernel, regs, homes);
    }

    fn moved(&mut self, kernel: &mut Kernel, regs: &[Reg], homes: FxHashMap<Reg, Home>) {
        self.pinned.extend(regs.iter().copied());
        let body = std::mem::take(&mut kernel.body);
        let params = kernel.params.clone();
        let mut w = Rewriter { homes, kernel: &mut *kernel, sublanes: self.area.sublanes, pinned: &mut self.pinned };
        let mut out = Vec::with_capacity(body.len() * 2);
        for p in params {
            let r = Reg::new(File::Scalar, p.0);
            if w.homes.contains_key(&r) {
                w.store(r, r, &mut out);
            }
        }
        w.items(body, &mut out);
        kernel.body = out;
    }

    /// Saves registers before every call and restores them after it. All of them are saved at once: none shares its place,
    /// wherever it lives.
    pub fn save(&mut self, kernel: &mut Kernel, regs: &[Reg]) {
        let homes = self.homes(kernel, regs, (true, false));
        let body = std::mem::take(&mut kernel.body);
        let mut w = Rewriter { homes, kernel: &mut *kernel, sublanes: self.area.sublanes, pinned: &mut self.pinned };
        kernel.body = w.saved(body, regs);
    }

    /// Where registers of a kernel are kept; `anew`: constants may be made again; `shared`: places may be others' too.
    fn homes(&mut self, kernel: &Kernel, regs: &[Reg], (anew, shared): (bool, bool)) -> FxHashMap<Reg, Home> {
        let mut definitions: FxHashMap<Reg, Option<Inst>> = FxHashMap::default();
        kernel.each_instruction(&mut |v| {
            for r in registers(&v.inst).filter(|r| r.is_def) {
                // Constants are made again behind calls, by the same instruction.
                let again = |d: &mut Option<Inst>| *d = d.filter(|d| *d == v.inst);
                definitions.entry(r.reg).and_modify(again).or_insert(Some(v.inst));
            }
        });
        for p in &kernel.params {
            definitions.insert(Reg::new(File::Scalar, p.0), None);
        }
        // At most two registers' rows each.
        let short = shared && self.area.row + regs.len() as u32 * 2 * self.area.sublanes > self.share_from;
        if short {
            self.slots.look(kernel, regs);
        }
        let mut homes = FxHashMap::default();
        for &r in regs {
            let mut recipe = Vec::new();
            let home = match anew && constant(r, &definitions, &mut recipe) {
                true => Home::Constant(recipe),
                false => self.place(r, short),
            };
            homes.insert(r, home);
        }
        homes
    }

    /// Memory for a register; `short`: of a kernel that has none to spare.
    fn place(&mut self, r: Reg, short: bool) -> Home {
        if r.file() == File::Scalar {
            self.area.word += 1;
            return Home::Memory { place: self.area.word - 1, buffer: self.buffer() };
        }
        let rows = self.area.sublanes * if r.file() == File::Pair { 2 } else { 1 };
        if short && let Some((place, buffer)) = self.slots.share(r, rows) {
            return Home::Memory { place, buffer };
        }
        let (place, buffer) = (self.area.row, self.buffer());
        self.area.row += rows;
        self.slots.add(r, (place, rows), buffer);
        Home::Memory { place, buffer }
    }

    fn buffer(&mut self) -> BufferRef {
        self.buffers += 1;
        BufferRef(FIRST_RESERVED - self.buffers)
    }
}

/// Instructions of a recipe at most.
const RECIPE: usize = 4;

/// Whether a register is a constant that few instructions make from nothing, and which.
fn constant(r: Reg, definitions: &FxHashMap<Reg, Option<Inst>>, recipe: &mut Vec<Inst>) -> bool {
    let Some(Some(inst)) = definitions.get(&r) else { return false };
    let info = inst.op.info();
    if info.effect != Effect::None || info.slot == Slot::Xlu || recipe.len() >= RECIPE {
        return false;
    }
    let made = uses(inst).all(|u| recipe.iter().any(|i| defs(i).any(|d| d == u)) || constant(u, definitions, recipe));
    recipe.push(*inst);
    made && recipe.len() <= RECIPE
}

struct Rewriter<'a> {
    homes: FxHashMap<Reg, Home>,
    kernel: &'a mut Kernel,
    sublanes: u32,
    pinned: &'a mut FxHashSet<Reg>,
}

fn plain(op: Op, operands: &[i32]) -> Item {
    Item::Inst(VInst::from(Inst::new(op, operands)))
}

impl Rewriter<'_> {
    fn temporary(&mut self, file: File) -> Reg {
        let r = Reg::new(file, self.kernel.free.take(file));
        self.pinned.insert(r);
        r
    }

    fn items(&mut self, items: Vec<Item>, out: &mut Vec<Item>) {
        for item in items {
            match item {
                Item::Inst(v) => self.instruction(v, out),
                Item::Loop(mut l) => {
                    if let Trips::Dynamic(s) = l.trips {
                        l.trips = Trips::Dynamic(self.scalar_use(s, out));
                    }
                    l.body = self.body(l.body);
                    out.push(Item::Loop(l));
                }
                Item::If { cond, then, otherwise } => {
                    let cond = self.scalar_use(cond, out);
                    let (then, otherwise) = (self.body(then), self.body(otherwise));
                    out.push(Item::If { cond, then, otherwise });
                }
                Item::While { head, cond, body } => {
                    let mut head = self.body(head);
                    let cond = self.scalar_use(cond, &mut head);
                    let body = self.body(body);
                    out.push(Item::While { head, cond, body });
                }
                Item::Call { kernel, args } => {
                    let args = args.into_iter().map(|a| self.scalar_use(a, out)).collect();
                    out.push(Item::Call { kernel, args });
                }
                Item::Mark { .. } => out.push(item),
            }
        }
    }

    fn body(&mut self, items: Vec<Item>) -> Vec<Item> {
        let mut out = Vec::with_capacity(items.len());
        self.items(items, &mut out);
        out
    }

    fn scalar_use(&mut self, s: S, out: &mut Vec<Item>) -> S {
        let r = Reg::new(File::Scalar, s.0);
        if self.homes.contains_key(&r) { S(self.load(r, out).number()) } else { s }
    }

    fn instruction(&mut self, mut v: VInst, out: &mut Vec<Item>) {
        let touched: smallvec::SmallVec<[_; 6]> =
            registers(&v.inst).filter(|r| self.homes.contains_key(&r.reg)).collect();
        if touched.iter().any(|r| r.is_def && matches!(self.homes[&r.reg], Home::Constant(_))) {
            return;
        }
        let mut loaded: FxHashMap<Reg, Reg> = FxHashMap::default();
        for r in touched.iter().filter(|r| r.is_use) {
            loaded.entry(r.reg).or_insert_with(|| self.load(r.reg, out));
            v.inst.operands[r.at] = loaded[&r.reg].number() as i32;
        }
        let mut stores = Vec::new();
        for r in touched.iter().filter(|r| r.is_def) {
            let t = self.temporary(r.reg.file());
            v.inst.operands[r.at] = t.number() as i32;
            stores.push((r.reg, t));
        }
        out.push(Item::Inst(v));
        for (r, t) in stores {
            self.store(r, t, out);
        }
    }

    /// The items with registers saved around calls.
    fn saved(&mut self, items: Vec<Item>, regs: &[Reg]) -> Vec<Item> {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Item::Inst(_) | Item::Mark { .. } => out.push(item),
                Item::Loop(mut l) => {
                    l.body = self.saved(l.body, regs);
                    out.push(Item::Loop(l));
                }
                Item::If { cond, then, otherwise } => {
                    let (then, otherwise) = (self.saved(then, regs), self.saved(otherwise, regs));
                    out.push(Item::If { cond, then, otherwise });
                }
                Item::While { head, cond, body } => {
                    let (head, body) = (self.saved(head, regs), self.saved(body, regs));
                    out.push(Item::While { head, cond, body });
                }
                Item::Call { .. } => {
                    regs.iter().for_each(|&r| self.store(r, r, &mut out));
                    out.push(item);
                    regs.iter().for_each(|&r| self.load_to(r, r, &mut out));
                }
            }
        }
        out
    }

    /// A new register with the value of spilled `r`.
    fn load(&mut self, r: Reg, out: &mut Vec<Item>) -> Reg {
        let t = self.temporary(r.file());
        self.load_to(r, t, out);
        t
    }

    /// Puts the value of spilled `r` into `t`.
    fn load_to(&mut self, r: Reg, t: Reg, out: &mut Vec<Item>) {
        let (place, buffer) = match &self.homes[&r] {
            Home::Constant(recipe) => {
                let recipe = recipe.clone();
                self.make(&recipe, t, out);
                return;
            }
            Home::Memory { place, buffer } => (*place, *buffer),
        };
        let n = t.number() as i32;
        match r.file() {
            File::Scalar => out.push(plain(Op::SLd, &[n, 0, place as i32])),
            File::Vector => out.push(load_row(t, place, buffer)),
            File::Pair => {
                let (lo, hi) = (self.temporary(File::Vector), self.temporary(File::Vector));
                out.push(load_row(lo, place, buffer));
                out.push(load_row(hi, place + self.sublanes, buffer));
                out.push(plain(Op::PMake, &[n, lo.number() as i32, hi.number() as i32]));
            }
            File::Mask => {
                let (v, zero) = (self.temporary(File::Vector), self.temporary(File::Vector));
                out.push(load_row(v, place, buffer));
                out.push(plain(Op::VImm, &[zero.number() as i32, 0]));
                out.push(plain(Op::VNeI, &[n, v.number() as i32, zero.number() as i32]));
            }
        }
    }

    /// Makes a constant anew in `t`.
    fn make(&mut self, recipe: &[Inst], t: Reg, out: &mut Vec<Item>) {
        let mut renamed: FxHashMap<Reg, Reg> = FxHashMap::default();
        for (at, inst) in recipe.iter().enumerate() {
            let mut inst = *inst;
            for r in registers(&inst) {
                let new = match renamed.get(&r.reg) {
                    Some(&n) if r.is_use => n,
                    _ if at + 1 == recipe.len() => t,
                    _ => self.temporary(r.reg.file()),
                };
                if r.is_def {
                    renamed.insert(r.reg, new);
                }
                inst.operands[r.at] = new.number() as i32;
            }
            out.push(Item::Inst(VInst::from(inst)));
        }
    }

    /// Stores `t` as the new value of spilled `r`.
    fn store(&mut self, r: Reg, t: Reg, out: &mut Vec<Item>) {
        let Home::Memory { place, buffer } = self.homes[&r].clone() else { return };
        let n = t.number() as i32;
        match r.file() {
            File::Scalar => out.push(plain(Op::SSt, &[n, 0, place as i32])),
            File::Vector => out.push(store_row(t, place, buffer)),
            File::Pair => {
                let (lo, hi) = (self.temporary(File::Vector), self.temporary(File::Vector));
                out.push(plain(Op::PLo, &[lo.number() as i32, n]));
                out.push(plain(Op::PHi, &[hi.number() as i32, n]));
                out.push(store_row(lo, place, buffer));
                out.push(store_row(hi, place + self.sublanes, buffer));
            }
            File::Mask => {
                let [zero, one, v] = [0; 3].map(|_| self.temporary(File::Vector));
                out.push(plain(Op::VImm, &[zero.number() as i32, 0]));
                out.push(plain(Op::VImm, &[one.number() as i32, 1]));
                out.push(plain(Op::VSel, &[v.number() as i32, n, one.number() as i32, zero.number() as i32]));
                out.push(store_row(v, place, buffer));
            }
        }
    }
}

fn load_row(t: Reg, row: u32, buffer: BufferRef) -> Item {
    let inst = Inst::new(Op::VLd, &[t.number() as i32, 0, row as i32, 1]);
    Item::Inst(VInst { memory: Touched { reads: vec![buffer], writes: Vec::new() }, ..VInst::from(inst) })
}

fn store_row(t: Reg, row: u32, buffer: BufferRef) -> Item {
    let inst = Inst::new(Op::VSt, &[t.number() as i32, 0, row as i32, 1, 0]);
    Item::Inst(VInst { memory: Touched { reads: Vec::new(), writes: vec![buffer] }, ..VInst::from(inst) })
}
