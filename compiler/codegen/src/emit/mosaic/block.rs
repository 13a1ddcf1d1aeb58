//! Operations in order, and which vectors are computed when.

use super::value::{Expr, Num, Ref, Region, Tensor, Val};
use super::{Lower, Made, Refused};
use crate::emit::Value as Elements;
use crate::kernel::{BufferRef, KernelBuilder};
use rustc_hash::FxHashSet;
use std::rc::Rc;
use systole_isa::program::DebugPlace;
use systole_mosaic::{Block, Operation, Place, Type, Value};

/// Operations of a tile above which a vector that several need is computed once.
const SHARED: u32 = 3;

/// Every value that an operation uses, its regions' too.
fn used(o: &Operation, f: &mut impl FnMut(Value)) {
    o.operands.iter().for_each(|v| f(*v));
    for b in &o.regions {
        b.operations.iter().for_each(|o| used(o, f));
    }
}

impl<'a> Lower<'a> {
    /// Notes the last uses of the values that a block (or a block in it) defines.
    pub(super) fn scan(&mut self, block: &Block) {
        let mut own: FxHashSet<Value> = block.arguments.iter().copied().collect();
        for (i, o) in block.operations.iter().enumerate() {
            let mut here: FxHashSet<Value> = FxHashSet::default();
            used(o, &mut |v| {
                here.insert(v);
            });
            for v in here.into_iter().filter(|v| own.contains(v)) {
                self.last.insert(v, i);
                *self.uses.entry(v).or_default() += 1;
            }
            own.extend(&o.results);
            o.regions.iter().for_each(|b| self.scan(b));
        }
    }

    /// The operations of a block; the operands of its last one.
    pub(super) fn block(&mut self, b: &mut KernelBuilder, block: &'a Block) -> Result<Vec<Val>, Refused> {
        self.defined.push(block.arguments.clone());
        let mut out = Vec::new();
        for (i, o) in block.operations.iter().enumerate() {
            if matches!(&*o.name, "scf.yield" | "func.return" | "tpu.yield" | "scf.condition" | "tpu.region_yield") {
                out = o.operands.iter().map(|v| self.get(o, *v)).collect::<Result<_, Refused>>()?;
                break;
            }
            let line = self.line_of(b, o.place.as_ref()).map(|line| b.set_place(line));
            self.step = i;
            self.operation(b, o, i).map_err(|e| if e.place.is_none() { Refused::at(o, e.what) } else { e })?;
            if let Some(line) = line {
                b.set_place(line);
            }
            // What nobody needs any more gives its memory back.
            let mut here = FxHashSet::default();
            used(o, &mut |v| {
                here.insert(v);
            });
            for v in here {
                let own = self.defined.last().is_some_and(|d| d.contains(&v));
                if own && self.last.get(&v) == Some(&i) && matches!(self.env.get(&v), Some(Val::Vector(_))) {
                    self.env.remove(&v);
                }
            }
        }
        self.land(b)?;
        self.defined.pop();
        Ok(out)
    }

    /// The number of an operation's line; `None`: none is known, it is part of what is around it.
    fn line_of(&self, b: &mut KernelBuilder, place: Option<&Place>) -> Option<u16> {
        let p = place?;
        let name = self.regions.join("/");
        Some(b.place(DebugPlace { file: p.file.to_string(), line: p.line, function: p.function.to_string(), name }))
    }

    pub(super) fn get(&self, o: &Operation, v: Value) -> Result<Val, Refused> {
        self.env.get(&v).cloned().ok_or_else(|| Refused::at(o, "an operand is not defined"))
    }

    pub(super) fn vector(&self, o: &Operation, i: usize) -> Made {
        match o.operands.get(i).map(|v| self.get(o, *v)).transpose()? {
            Some(Val::Vector(t)) => Ok(t),
            _ => Err(Refused::at(o, format!("operand {i} is no vector"))),
        }
    }

    pub(super) fn int(&self, o: &Operation, i: usize) -> Result<Num, Refused> {
        match o.operands.get(i) {
            Some(v) => self.int_of(o, *v),
            None => Err(Refused::at(o, format!("operand {i} is missing"))),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "anything else is refused")]
    pub(super) fn int_of(&self, o: &Operation, v: Value) -> Result<Num, Refused> {
        match self.get(o, v)? {
            Val::Int(n) => Ok(n),
            _ => Err(Refused::at(o, "an operand is no integer")),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "anything else is refused")]
    pub(super) fn array(&self, o: &Operation, v: Value) -> Result<Ref, Refused> {
        match self.get(o, v)? {
            Val::Ref(r) => Ok(r),
            Val::View(_) => Err(Refused::at(
                o,
                "an array seen with elements of other bits that do not lie there (narrower than a byte)",
            )),
            _ => Err(Refused::at(o, "an operand is no array")),
        }
    }

    /// Gives a value its meaning; small vectors are computed at once.
    pub(super) fn define(&mut self, b: &mut KernelBuilder, v: Value, val: Val) -> Result<(), Refused> {
        if let Val::Vector(t) = &val {
            if t.place.get() == 0 {
                t.place.set(b.current_place().0);
            }
            let mask = t.dtype == systole_isa::DType::Pred;
            if !mask && super::nest::tiles(&t.phys(), self.shape()) <= super::nest::SMALL {
                self.force(b, t)?;
            } else if self.uses.get(&v).copied().unwrap_or(0) > 1 && t.cost >= SHARED {
                t.shared.set(true);
            }
        }
        self.env.insert(v, val);
        if let Some(d) = self.defined.last_mut() {
            d.push(v);
        }
        Ok(())
    }

    /// Before memory is written (all of it if `buf` is `None`) by operation `i`: vectors that are still to be read from it
    /// are computed. Those that the write keeps on its way are in `kept`.
    pub(super) fn settle(
        &mut self,
        b: &mut KernelBuilder,
        buf: Option<BufferRef>,
        i: usize,
        kept: &[Rc<Tensor>],
    ) -> Result<(), Refused> {
        let Some(defined) = self.defined.last().cloned() else { return Ok(()) };
        for v in defined {
            let needed = self.last.get(&v).is_some_and(|l| *l > i || buf.is_none() && *l == i);
            let Some(Val::Vector(t)) = self.env.get(&v).filter(|_| needed).cloned() else { continue };
            let reads = reads(&t, buf, kept);
            if reads {
                self.detach(b, &t)?;
            }
        }
        Ok(())
    }

    /// Makes a vector independent of what is written later.
    fn detach(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Result<(), Refused> {
        let own = |r: &super::value::Region| r.temp.is_some();
        let outside = matches!(&*t.expr.borrow(), Expr::Memory(r) if !own(r));
        if !outside {
            return self.force(b, t);
        }
        let expr = t.expr.borrow().clone();
        let copy = Tensor::new(&t.dims, t.form, t.dtype, expr);
        let region = self.temp(b, &t.dims, t.form, t.dtype);
        self.store_all(b, &copy, &region)?;
        *t.expr.borrow_mut() = Expr::Memory(region);
        Ok(())
    }

    /// Before a region of code that may run often, or not at all: what it may need is computed.
    pub(super) fn settle_all(&mut self, b: &mut KernelBuilder, i: usize) -> Result<(), Refused> {
        self.land(b)?;
        self.settle(b, None, i, &[])
    }

    pub(super) fn type_of(&self, v: Value) -> &'a Type {
        &self.module.types[v.0 as usize]
    }

    /// The vector of one number.
    #[allow(clippy::wildcard_enum_match_arm, reason = "anything else is refused")]
    pub(super) fn splat(
        &mut self,
        b: &mut KernelBuilder,
        o: &Operation,
        v: &Val,
        t: &Type,
    ) -> Result<Elements, Refused> {
        let dtype = t.element().map(systole_mosaic::Element::dtype).ok_or_else(|| Refused::at(o, "of no numbers"))?;
        match v {
            Val::Float(e) => Ok(*e),
            Val::Int(n) => {
                let v = self.splat_num(b, *n);
                Ok(if dtype == systole_isa::DType::Pred {
                    let zero = b.v_imm(0);
                    Elements::mask(b.cmp(systole_isa::Op::VNeI, v, zero))
                } else {
                    Elements::word(dtype, v)
                })
            }
            _ => Err(Refused::at(o, "an operand is no number")),
        }
    }
}

impl Lower<'_> {
    /// Whether a product is needed again behind the operation, where the vectors `made` are in memory by then.
    pub(super) fn needed_later(&self, product: &Rc<Tensor>, made: &[Rc<Tensor>]) -> bool {
        let Some(defined) = self.defined.last() else { return true };
        defined.iter().any(|v| match self.env.get(v) {
            Some(Val::Vector(t)) if self.last.get(v).is_some_and(|l| *l > self.step) => reaches(t, product, made),
            _ => false,
        })
    }
}

/// Vectors that a walk over what a vector is computed from has met: vectors share operands, so that there are many ways to each.
#[derive(Default)]
struct Met(FxHashSet<(*const Tensor, bool)>);

impl Met {
    /// Whether a vector is met for the first time; `how`: walks that ask two questions meet it once with each.
    fn first(&mut self, t: &Tensor, how: bool) -> bool {
        self.0.insert((std::ptr::from_ref(t), how))
    }
}

/// Whether a vector is still to be read from a buffer (`None`: from any that others write, or is more than its operands).
fn reads(t: &Rc<Tensor>, buf: Option<BufferRef>, kept: &[Rc<Tensor>]) -> bool {
    still_reads(t, buf, kept, &mut Met::default())
}

fn still_reads(t: &Rc<Tensor>, buf: Option<BufferRef>, kept: &[Rc<Tensor>], met: &mut Met) -> bool {
    if kept.iter().any(|k| Rc::ptr_eq(k, t)) || !met.first(t, false) {
        return false;
    }
    let mut from = |k: &Rc<Tensor>| still_reads(k, buf, kept, met);
    match &*t.expr.borrow() {
        Expr::Memory(r) => match buf {
            Some(buf) => r.buf == buf,
            None => r.temp.is_none(),
        },
        Expr::Splat(_) | Expr::Regs(_) | Expr::Iota(_) => false,
        Expr::Element(_, kids) => (buf.is_none() && t.cost >= SHARED) || kids.iter().any(from),
        Expr::Across(k, _) => buf.is_none() || from(k),
        Expr::Beside(kids) => kids.iter().any(from),
        Expr::Gather(of, by, _) => from(of) || from(by),
        // Code that runs often, or not at all, does not make it.
        Expr::Product(p) => buf.is_none() || from(&p.x) || from(&p.y),
        Expr::Expand(k) | Expr::Recast(k) | Expr::Turned(k, _) => from(k),
    }
}

/// The vectors that a loop over a vector's tiles keeps in memory on the way.
pub(super) fn kept(t: &Rc<Tensor>, out: &mut Vec<Rc<Tensor>>) {
    find_kept(t, out, &mut Met::default());
}

fn find_kept(t: &Rc<Tensor>, out: &mut Vec<Rc<Tensor>>, met: &mut Met) {
    if !met.first(t, false) {
        return;
    }
    if t.shared.get() {
        out.push(Rc::clone(t));
    }
    let expr = t.expr.borrow();
    if expr.by_tiles() {
        expr.parts().iter().for_each(|k| find_kept(k, out, met));
    }
}

/// Whether computing a vector needs another one.
fn reaches(t: &Rc<Tensor>, other: &Rc<Tensor>, made: &[Rc<Tensor>]) -> bool {
    may_reach(t, other, made, &mut Met::default())
}

fn may_reach(t: &Rc<Tensor>, other: &Rc<Tensor>, made: &[Rc<Tensor>], met: &mut Met) -> bool {
    if made.iter().any(|k| Rc::ptr_eq(k, t)) || !met.first(t, false) {
        return false;
    }
    Rc::ptr_eq(t, other) || t.expr.borrow().parts().iter().any(|k| may_reach(k, other, made, met))
}

/// Whether a vector reads, elsewhere than where it goes, the buffer that it goes to.
pub(super) fn crosses(t: &Rc<Tensor>, to: &Region, same: bool) -> bool {
    may_cross(t, to, same, &mut Met::default())
}

fn may_cross(t: &Rc<Tensor>, to: &Region, same: bool, met: &mut Met) -> bool {
    if !met.first(t, same) {
        return false;
    }
    let mut from = |k: &Rc<Tensor>, same: bool| may_cross(k, to, same, met);
    match &*t.expr.borrow() {
        Expr::Memory(r) if r.buf == to.buf => {
            let alike =
                (r.base, r.offset, r.plane, &r.steps, r.lane) == (to.base, to.offset, to.plane, &to.steps, to.lane);
            // Lanes within registers are written in two steps.
            !(same && alike && to.lane.first == Num::Const(0))
        }
        Expr::Memory(_) | Expr::Splat(_) | Expr::Regs(_) | Expr::Iota(_) => false,
        Expr::Element(_, kids) => kids.iter().any(|k| from(k, same)),
        Expr::Beside(kids) => kids.iter().any(|k| from(k, false)),
        Expr::Product(p) => from(&p.x, false) || from(&p.y, false),
        Expr::Recast(k) => from(k, same),
        Expr::Expand(k) | Expr::Turned(k, _) | Expr::Across(k, _) => from(k, false),
        Expr::Gather(of, by, _) => from(of, false) || from(by, same),
    }
}

/// Whether columns of a vector are chosen by their number when code is made.
pub(super) fn needs_columns(t: &Tensor) -> bool {
    has_columns(t, &mut Met::default())
}

fn has_columns(t: &Tensor, met: &mut Met) -> bool {
    met.first(t, false)
        && match &*t.expr.borrow() {
            Expr::Beside(_) => true,
            Expr::Element(_, kids) => kids.iter().any(|k| has_columns(k, met)),
            Expr::Expand(k) | Expr::Recast(k) | Expr::Turned(k, _) | Expr::Gather(_, k, _) => has_columns(k, met),
            Expr::Splat(_) | Expr::Memory(_) | Expr::Regs(_) | Expr::Iota(_) | Expr::Product(_) | Expr::Across(..) => {
                false
            }
        }
}
