//! Branches and loops, and what loops carry.

use super::scalar::{add, reg, two};
use super::value::{Expr, Form, Num, Region, Tensor, Val};
use super::{Lower, Refused};
use crate::emit::Value as Elements;
use crate::kernel::{KernelBuilder, LoopHints, S, Trips};
use std::rc::Rc;
use systole_isa::program::{HostCall, HostCallKind};
use systole_isa::{DType, Op};
use systole_mosaic::{Attr, Block, Operation, Type, Value, console};

/// A variable: what a value of the program is that changes from turn to turn.
enum Variable {
    Int(S),
    /// One register, or the tiles of a small vector; truth values are words.
    Tiles {
        dims: Option<Vec<u64>>,
        dtype: DType,
        tiles: Vec<Elements>,
    },
    Large {
        dims: Vec<u64>,
        region: Region,
        dtype: DType,
    },
    /// References do not change.
    Fixed(Val),
}

/// A text that an operation has.
fn text_of(o: &Operation, name: &str) -> String {
    match o.attributes.get(name) {
        Some(Attr::Str(s)) => s.clone(),
        _ => String::new(),
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all other types are words")]
fn words(b: &mut KernelBuilder, v: &Elements) -> Elements {
    match v.dtype {
        DType::Pred => Elements::word(DType::S32, b.sel(v.m(), 1, 0)),
        _ => *v,
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all other types are words")]
fn from_words(b: &mut KernelBuilder, v: &Elements, dtype: DType) -> Elements {
    match dtype {
        DType::Pred => Elements::mask(b.test(Op::VNeI, v.v(), 0)),
        _ => *v,
    }
}

impl<'a> Lower<'a> {
    /// A variable of a type, without a value yet.
    fn variable(&mut self, b: &mut KernelBuilder, v: Value, like: Option<&Val>) -> Result<Variable, Refused> {
        Ok(match self.type_of(v).clone() {
            Type::Scalar(e) if !e.dtype().is_float() => Variable::Int(b.new_s()),
            Type::Scalar(e) => {
                let tiles = vec![Elements::word(e.dtype(), b.new_v())];
                Variable::Tiles { dims: None, dtype: e.dtype(), tiles }
            }
            Type::Vector(dims, e) => {
                let phys = super::value::phys(&dims, Form::Lanes);
                let n = super::nest::tiles(&phys, self.shape());
                if n > super::nest::SMALL {
                    let region = self.temp(b, &dims, Form::Lanes, e.dtype());
                    return Ok(Variable::Large { dims, region, dtype: e.dtype() });
                }
                let held = if e.dtype() == DType::Pred { DType::S32 } else { e.dtype() };
                let tiles = (0..n).map(|_| Elements::word(held, b.new_v())).collect();
                Variable::Tiles { dims: Some(dims), dtype: e.dtype(), tiles }
            }
            Type::MemRef(_) | Type::Other(_) => match like {
                Some(v) => Variable::Fixed(v.clone()),
                None => return Err(Refused::new("a branch that makes an array")),
            },
        })
    }

    fn variables(&mut self, b: &mut KernelBuilder, values: &[Value], like: &[Val]) -> Result<Vec<Variable>, Refused> {
        values.iter().enumerate().map(|(i, v)| self.variable(b, *v, like.get(i))).collect()
    }

    /// Gives variables values, all at once.
    #[allow(clippy::wildcard_enum_match_arm, reason = "anything else is refused")]
    fn assign(&mut self, b: &mut KernelBuilder, to: &[Variable], values: &[Val]) -> Result<(), Refused> {
        if to.len() != values.len() {
            return Err(Refused::new("other values than the loop carries"));
        }
        // First everything is computed that may need a variable's old value.
        let large = to.iter().filter(|v| matches!(v, Variable::Large { .. })).count();
        let mut ready = Vec::new();
        for (v, val) in to.iter().zip(values) {
            ready.push(match (v, val) {
                (Variable::Large { region, .. }, Val::Vector(t)) => {
                    let t = self.in_form(b, t, Form::Lanes)?;
                    let own = matches!(&*t.expr.borrow(), Expr::Memory(r) if r.buf == region.buf);
                    if !own && (large > 1 || super::block::crosses(&t, region, true)) {
                        self.force_memory_apart(b, &t)?;
                    }
                    Val::Vector(t)
                }
                (Variable::Tiles { dims: Some(_), .. }, Val::Vector(t)) => {
                    let t = self.in_form(b, t, Form::Lanes)?;
                    if !matches!(&*t.expr.borrow(), Expr::Splat(_)) {
                        let copy = Tensor::new(&t.dims, t.form, t.dtype, t.expr.borrow().clone());
                        if matches!(&*copy.expr.borrow(), Expr::Memory(_)) {
                            let loaded = self.in_registers(b, &copy)?;
                            *copy.expr.borrow_mut() = Expr::Regs(Rc::new(loaded));
                        }
                        self.force(b, &copy)?;
                        Val::Vector(copy)
                    } else {
                        Val::Vector(t)
                    }
                }
                (_, v) => v.clone(),
            });
        }
        // Registers are read before any of them is written.
        let mut moves = Vec::new();
        let mut scalars = Vec::new();
        for (v, val) in to.iter().zip(&ready) {
            match (v, val) {
                (Variable::Int(s), Val::Int(n)) => {
                    let from = reg(b, *n);
                    scalars.push((*s, from));
                }
                (Variable::Tiles { tiles, .. }, Val::Float(e)) => moves.push((tiles[0], *e)),
                (Variable::Tiles { tiles, .. }, Val::Vector(t)) => {
                    let from: Vec<Elements> = match &*t.expr.borrow() {
                        Expr::Splat(e) => vec![*e; tiles.len()],
                        Expr::Regs(all) => all.to_vec(),
                        _ => return Err(Refused::new("a vector that is in no register")),
                    };
                    for (to, from) in tiles.iter().zip(from) {
                        let from = words(b, &from);
                        moves.push((*to, from));
                    }
                }
                (Variable::Large { region, .. }, Val::Vector(t)) => {
                    let own = matches!(&*t.expr.borrow(), Expr::Memory(r) if r.buf == region.buf);
                    if !own {
                        self.store_all(b, t, region)?;
                    }
                }
                (Variable::Fixed(_), _) => {}
                _ => return Err(Refused::new("a value of another kind than the loop carries")),
            }
        }
        if scalars.len() > 1 {
            scalars.iter_mut().for_each(|(_, from)| *from = b.s_copy(*from));
        }
        scalars.into_iter().for_each(|(to, from)| b.copy_s(to, from));
        let several = moves.len() > 1;
        for (_, from) in moves.iter_mut().filter(|_| several) {
            let all: Vec<_> = from.all().iter().map(|v| b.v_copy(*v)).collect();
            *from = Elements::words(from.dtype, &all);
        }
        for (to, from) in moves {
            to.all().iter().zip(from.all()).for_each(|(t, f)| b.copy_v(*t, *f));
        }
        Ok(())
    }

    /// The tiles of a small vector in memory.
    #[allow(clippy::wildcard_enum_match_arm, reason = "anything else is refused")]
    fn in_registers(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Result<Vec<Elements>, Refused> {
        let fresh = Tensor::new(&t.dims, t.form, t.dtype, Expr::Recast(Rc::clone(t)));
        self.force(b, &fresh)?;
        match &*fresh.expr.borrow() {
            Expr::Regs(all) => Ok(all.to_vec()),
            _ => Err(Refused::new("a vector of too many tiles")),
        }
    }

    /// What the variables are now.
    fn read(&mut self, b: &mut KernelBuilder, from: &[Variable]) -> Vec<Val> {
        from.iter()
            .map(|v| match v {
                Variable::Int(s) => Val::Int(Num::Reg(*s)),
                Variable::Tiles { dims: None, tiles, .. } => Val::Float(tiles[0]),
                Variable::Tiles { dims: Some(dims), dtype, tiles } => {
                    let tiles = tiles.iter().map(|t| from_words(b, t, *dtype)).collect();
                    Val::Vector(Tensor::new(dims, Form::Lanes, *dtype, Expr::Regs(Rc::new(tiles))))
                }
                Variable::Large { dims, region, dtype } => {
                    Val::Vector(Tensor::new(dims, Form::Lanes, *dtype, Expr::Memory(region.clone())))
                }
                Variable::Fixed(v) => v.clone(),
            })
            .collect()
    }

    /// The results of an operation: copies of variables.
    fn results(&mut self, b: &mut KernelBuilder, o: &Operation, from: &[Variable]) -> Result<(), Refused> {
        let values = self.read(b, from);
        o.results.iter().zip(values).try_for_each(|(r, v)| self.define(b, *r, v))
    }

    fn bind(&mut self, arguments: &[Value], values: Vec<Val>) {
        arguments.iter().zip(values).for_each(|(a, v)| {
            self.env.insert(*a, v);
        });
    }

    pub(super) fn branch(&mut self, b: &mut KernelBuilder, o: &'a Operation, i: usize) -> Result<(), Refused> {
        let cond = self.int(o, 0)?;
        let (then, otherwise) = (o.regions.first(), o.regions.get(1));
        if let Num::Const(c) = cond {
            let taken = if c != 0 { then } else { otherwise };
            let Some(taken) = taken else { return Ok(()) };
            let values = self.block(b, taken)?;
            return o.results.iter().zip(values).try_for_each(|(r, v)| self.define(b, *r, v));
        }
        self.settle_all(b, i)?;
        let to = self.variables(b, &o.results, &[])?;
        let cond = reg(b, cond);
        let (mut first, mut second) = (Ok(()), Ok(()));
        let run = |l: &mut Lower<'a>, b: &mut KernelBuilder, block: Option<&'a Block>| -> Result<(), Refused> {
            let Some(block) = block else { return Ok(()) };
            let values = l.block(b, block)?;
            if to.is_empty() { Ok(()) } else { l.assign(b, &to, &values) }
        };
        {
            let cell = std::cell::RefCell::new(&mut *self);
            b.if_else(
                cond,
                |b| first = run(*cell.borrow_mut(), b, then),
                |b| second = run(*cell.borrow_mut(), b, otherwise),
            );
        }
        first?;
        second?;
        self.results(b, o, &to)
    }

    pub(super) fn counted(&mut self, b: &mut KernelBuilder, o: &'a Operation, i: usize) -> Result<(), Refused> {
        let (from, to, step) = (self.int(o, 0)?, self.int(o, 1)?, self.int(o, 2)?);
        self.settle_all(b, i)?;
        let init = o.operands[3..].iter().map(|v| self.get(o, *v)).collect::<Result<Vec<Val>, Refused>>()?;
        let Some(body) = o.regions.first() else { return Err(Refused::at(o, "has no body")) };
        let index = b.new_s();
        let first = reg(b, from);
        b.copy_s(index, first);
        let vars = self.variables(b, &o.results, &init)?;
        self.assign(b, &vars, &init)?;
        let length = match (from, to) {
            (Num::Const(f), Num::Const(t)) => Num::Const(t.saturating_sub(f)),
            _ => two(b, Op::SSub, to, from),
        };
        let trips = match (length, step) {
            (Num::Const(n), Num::Const(s)) if s > 0 => Num::Const((n.max(0) as u32).div_ceil(s as u32) as i32),
            (n, Num::Const(1)) => two(b, Op::SMax, n, Num::Const(0)),
            (n, s) => {
                let less = add(b, s, Num::Const(-1));
                let sum = add(b, n, less);
                let trips = two(b, Op::SDiv, sum, s);
                two(b, Op::SMax, trips, Num::Const(0))
            }
        };
        let trips = match trips {
            Num::Const(0) => return self.results(b, o, &vars),
            Num::Const(n) => Trips::Static(n as u32),
            Num::Reg(s) => Trips::Dynamic(s),
        };
        let mut done: Result<(), Refused> = Ok(());
        b.loop_with(trips, LoopHints::default(), |b| {
            done = (|| {
                let mut values = vec![Val::Int(Num::Reg(index))];
                values.extend(self.read(b, &vars));
                self.bind(&body.arguments, values);
                let next = self.block(b, body)?;
                self.assign(b, &vars, &next)?;
                let s = reg(b, step);
                b.set_s(index, Op::SAdd, &[index.into(), s.into()]);
                Ok(())
            })();
        });
        done?;
        self.results(b, o, &vars)
    }

    pub(super) fn repeated(&mut self, b: &mut KernelBuilder, o: &'a Operation, i: usize) -> Result<(), Refused> {
        self.settle_all(b, i)?;
        let init = o.operands.iter().map(|v| self.get(o, *v)).collect::<Result<Vec<Val>, Refused>>()?;
        let [before, after] = &o.regions[..] else { return Err(Refused::at(o, "has no body")) };
        let vars = self.variables(b, &before.arguments, &init)?;
        self.assign(b, &vars, &init)?;
        let passed = self.variables(b, &after.arguments, &init)?;
        let (mut head, mut body) = (Ok(()), Ok(()));
        {
            let cell = std::cell::RefCell::new(&mut *self);
            b.while_(
                |b| {
                    let l = &mut **cell.borrow_mut();
                    let mut run = || -> Result<S, Refused> {
                        let values = l.read(b, &vars);
                        l.bind(&before.arguments, values);
                        let all = l.block(b, before)?;
                        let (Some(Val::Int(go)), rest) = (all.first(), &all[1.min(all.len())..]) else {
                            return Err(Refused::at(o, "has no condition"));
                        };
                        let go = reg(b, *go);
                        let go = b.s_copy(go);
                        l.assign(b, &passed, rest)?;
                        Ok(go)
                    };
                    match run() {
                        Ok(s) => s,
                        Err(e) => {
                            head = Err(e);
                            S::ZERO
                        }
                    }
                },
                |b| {
                    let l = &mut **cell.borrow_mut();
                    body = (|| {
                        let values = l.read(b, &passed);
                        l.bind(&after.arguments, values);
                        let next = l.block(b, after)?;
                        l.assign(b, &vars, &next)
                    })();
                },
            );
        }
        head?;
        body?;
        self.results(b, o, &passed)
    }

    /// Calls the host: a function by name, with text.
    fn host(&mut self, b: &mut KernelBuilder, target: &str, config: String) {
        let (target, operands, results) = (target.to_string(), Vec::new(), Vec::new());
        let call = HostCall { kind: HostCallKind::Custom, target, config, operands, results };
        let known = self.host_calls.iter().position(|c| *c == call);
        let number = known.unwrap_or_else(|| {
            self.host_calls.push(call);
            self.host_calls.len() - 1
        });
        b.host(number as i32);
    }

    /// `pl.debug_print`: numbers go through scalar memory.
    pub(super) fn printed(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<(), Refused> {
        let at = self.words(o.operands.len());
        let mut types = Vec::new();
        for (i, v) in o.operands.iter().enumerate() {
            let (s, dtype) = match self.get(o, *v)? {
                Val::Int(n) => (reg(b, n), DType::S32),
                Val::Float(e) => (b.extract(e.v()), DType::F32),
                Val::Vector(_) | Val::Ref(_) | Val::View(_) | Val::Nothing => {
                    return Err(Refused::at(o, "prints what is no number"));
                }
            };
            b.smem_store(s, S::ZERO, (at + i as u32) as i32);
            types.push(dtype);
        }
        let (text, placed) = (text_of(o, "tag"), o.flag("formatted"));
        self.host(b, console::NUMBERS, console::numbers(at, &types, placed, o.place.as_ref(), &text));
        Ok(())
    }

    /// `pl.debug_print` of a vector, which is an array by now.
    pub(super) fn printed_array(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<(), Refused> {
        let v = *o.operands.first().ok_or_else(|| Refused::at(o, "prints nothing"))?;
        let r = self.array(o, v)?;
        let packing = r.dtype.packing() as i32;
        let (space, Num::Const(offset)) = (r.space, r.offset) else {
            return Err(Refused::at(o, "of an array at a place that is known at run time only"));
        };
        let layout = systole_isa::Layout::row_major(r.dtype, &r.dims, self.shape().0, self.shape().1);
        let mut steps = layout.row_strides().into_iter().zip(&r.strides);
        let padded = steps.all(|(s, t)| t.is_none_or(|t| t == s as i64));
        if space != systole_mosaic::Space::Vmem
            || r.lane != Num::Const(0)
            || !padded
            || !r.whole
            || offset % packing != 0
        {
            return Err(Refused::at(o, "of a part of an array"));
        }
        let at = self.words(1);
        let shift = packing.trailing_zeros() as i32;
        let base = if shift == 0 { r.base } else { b.def_s(Op::SShrI, &[r.base.into(), shift.into()]) };
        let row = b.s_addi(base, offset / packing);
        b.smem_store(row, S::ZERO, at as i32);
        let (sub, lanes) = self.shape();
        let config = console::array(at, (r.dtype, &r.dims), (sub, lanes), o.place.as_ref(), &text_of(o, "tag"));
        self.host(b, console::ARRAY, config);
        Ok(())
    }

    /// Ends the run with a message.
    pub(super) fn fails(&mut self, b: &mut KernelBuilder, message: &str) {
        self.host(b, console::CHECK, message.to_string());
    }

    /// `pl.debug_check`: the host ends the run where it does not hold.
    pub(super) fn checked(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<(), Refused> {
        let holds = self.int(o, 0)?;
        if let Num::Const(1 | -1) = holds {
            return Ok(());
        }
        let holds = reg(b, holds);
        let message = text_of(o, "msg");
        b.unless(holds, |b| self.fails(b, &message));
        Ok(())
    }

    /// A part of the body with names of its own.
    pub(super) fn inner(&mut self, b: &mut KernelBuilder, o: &'a Operation, i: usize) -> Result<(), Refused> {
        self.settle_all(b, i)?;
        let Some(body) = o.regions.first() else { return Ok(()) };
        let values = self.block(b, body)?;
        o.results.iter().zip(values).try_for_each(|(r, v)| self.define(b, *r, v))
    }
}
