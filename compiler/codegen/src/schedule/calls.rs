//! Calls clobber every register: finding what lives across them, and loops around them.

use crate::kernel::regs::{File, Reg, registers};
use crate::kernel::{Free, Item, Kernel, Loop, S, Trips, VInst};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use systole_isa::{Inst, Op};

/// Whether a body calls another kernel, directly.
pub fn has_call(items: &[Item]) -> bool {
    items.iter().any(Item::calls)
}

/// Visits calls with callee and number of arguments until one fails.
pub fn each_call<E>(items: &[Item], f: &mut dyn FnMut(u32, u32) -> Result<(), E>) -> Result<(), E> {
    for item in items {
        if let Item::Call { kernel, args } = item {
            f(*kernel, args.len() as u32)?;
        }
        item.regions().try_for_each(|region| each_call(region, f))?;
    }
    Ok(())
}

/// Whether a loop's counter is to be a variable.
type Which<'a> = &'a dyn Fn(&Loop) -> bool;

/// Turns counted loops around calls into loops over a scalar variable, which can be kept in memory.
pub fn expose_counters(kernel: &mut Kernel) {
    expose(kernel, &|l| has_call(&l.body));
}

/// The same of all counted loops that have loops in them, those of one round aside, which have no counter; whether there are any.
pub fn expose_outer_counters(kernel: &mut Kernel) -> bool {
    let before = kernel.free;
    let inner = |i: &Item| matches!(i, Item::Loop(_) | Item::While { .. });
    expose(kernel, &|l| !matches!(l.trips, Trips::Static(0 | 1)) && l.body.iter().any(inner));
    kernel.free != before
}

fn expose(kernel: &mut Kernel, which: Which<'_>) {
    let body = std::mem::take(&mut kernel.body);
    kernel.body = rewrite(body, &mut kernel.free, which);
}

fn rewrite(items: Vec<Item>, free: &mut Free, which: Which<'_>) -> Vec<Item> {
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Inst(_) | Item::Call { .. } | Item::Mark { .. } => out.push(item),
            Item::Loop(l) if which(&l) => counted(l, free, which, &mut out),
            Item::Loop(mut l) => {
                l.body = rewrite(l.body, free, which);
                out.push(Item::Loop(l));
            }
            Item::If { cond, then, otherwise } => {
                let (then, otherwise) = (rewrite(then, free, which), rewrite(otherwise, free, which));
                out.push(Item::If { cond, then, otherwise });
            }
            Item::While { head, cond, body } => {
                let (head, body) = (rewrite(head, free, which), rewrite(body, free, which));
                out.push(Item::While { head, cond, body });
            }
        }
    }
    out
}

fn counted(l: Loop, free: &mut Free, which: Which<'_>, out: &mut Vec<Item>) {
    let counter = S(free.take(File::Scalar));
    let inst = |op, operands: &[i32]| Item::Inst(VInst::from(Inst::new(op, operands)));
    let c = counter.0 as i32;
    out.push(match l.trips {
        Trips::Static(n) => inst(Op::SLi, &[c, n as i32]),
        Trips::Dynamic(s) => inst(Op::SAddI, &[c, s.0 as i32, 0]),
    });
    let mut body = rewrite(l.body, free, which);
    body.push(inst(Op::SAddI, &[c, c, -1]));
    out.push(Item::While { head: Vec::new(), cond: counter, body });
}

/// Registers that live across a call.
pub fn across_calls(kernel: &Kernel) -> Vec<Reg> {
    let mut walk = Liveness::default();
    let mut live = Live::default();
    walk.backward(&kernel.body, &mut live, true);
    let mut out: Vec<Reg> = walk.crossing.into_iter().collect();
    out.sort();
    out
}

type Live = FxHashSet<Reg>;

fn scalar(s: S) -> Option<Reg> {
    let r = Reg::new(File::Scalar, s.0);
    (!r.is_constant()).then_some(r)
}

/// What is live, from a kernel's end to its start. Every loop is walked twice however deep it is: once for what it reads before
/// it writes, and once with that, and what is live after the loop, live at its end.
#[derive(Default)]
struct Liveness {
    crossing: Live,
    /// What a loop reads before it writes, by its item.
    exposed: FxHashMap<*const Item, Rc<Live>>,
}

impl Liveness {
    /// Takes `live` from after the items to before them. `calls`: looks at calls, and so into every loop; else into none that was
    /// looked into before.
    fn backward(&mut self, items: &[Item], live: &mut Live, calls: bool) {
        for item in items.iter().rev() {
            match item {
                Item::Inst(v) => before(v, live),
                Item::Loop(l) => {
                    live.extend(self.exposed(item).iter().copied());
                    if calls {
                        self.backward(&l.body, &mut live.clone(), calls);
                    }
                    live.extend(counter(l));
                }
                Item::If { cond, then, otherwise } => {
                    let mut other = live.clone();
                    self.backward(then, live, calls);
                    self.backward(otherwise, &mut other, calls);
                    live.extend(other);
                    live.extend(scalar(*cond));
                }
                Item::While { head, cond, body } => {
                    let after = calls.then(|| live.clone());
                    live.extend(self.exposed(item).iter().copied());
                    if let Some(after) = after {
                        let mut inside = live.clone();
                        self.backward(body, &mut inside, calls);
                        inside.extend(after);
                        inside.extend(scalar(*cond));
                        self.backward(head, &mut inside, calls);
                    }
                }
                Item::Call { args, .. } => {
                    if calls {
                        self.crossing.extend(live.iter().copied());
                    }
                    live.extend(args.iter().filter_map(|&a| scalar(a)));
                }
                Item::Mark { .. } => {}
            }
        }
    }

    /// What an item that is a loop reads before it writes.
    fn exposed(&mut self, item: &Item) -> Rc<Live> {
        if let Some(known) = self.exposed.get(&std::ptr::from_ref(item)) {
            return known.clone();
        }
        let mut live = Live::default();
        match item {
            Item::Loop(l) => self.backward(&l.body, &mut live, false),
            Item::While { head, cond, body } => {
                self.backward(body, &mut live, false);
                live.extend(scalar(*cond));
                self.backward(head, &mut live, false);
            }
            Item::Inst(_) | Item::If { .. } | Item::Call { .. } | Item::Mark { .. } => {}
        }
        let live = Rc::new(live);
        self.exposed.insert(std::ptr::from_ref(item), live.clone());
        live
    }
}

/// Takes `live` from after an instruction to before it.
fn before(v: &VInst, live: &mut Live) {
    for r in registers(&v.inst).filter(|r| r.is_def) {
        live.remove(&r.reg);
    }
    live.extend(registers(&v.inst).filter(|r| r.is_use).map(|r| r.reg));
}

/// The register that holds a loop's trips.
fn counter(l: &Loop) -> Option<Reg> {
    match l.trips {
        Trips::Dynamic(s) => scalar(s),
        Trips::Static(_) => None,
    }
}
