//! Reductions along any dimensions.

use super::block::needs_columns;
use super::nest::{At, Body, Coord, Nest, WIDE, Walk};
use super::tiles::lanes_of;
use super::value::{Expr, Form, Fun, Num, Region, Tensor, Val};
use super::{Lower, Made, Refused};
use crate::emit::Value;
use crate::emit::elementwise::{constant_f64, convert, select};
use crate::kernel::{KernelBuilder, V};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use systole_hlo::graph::{Binary, Direction};
use systole_isa::{DType, Op};
use systole_mosaic::Operation;

/// Tiles of a row up to which a reduction along lanes is part of what needs it.
const ROW_TILES: u64 = 8;

/// What elements are combined with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combine {
    fun: Binary,
    unsigned: bool,
    /// What changes nothing; integers as their value.
    neutral: f64,
}

fn combine(kind: &str, t: DType) -> Option<Combine> {
    let (low, high) = match t {
        t if t.is_float() => (f64::NEG_INFINITY, f64::INFINITY),
        t => (-(2f64.powi(t.bits() as i32 - 1)), 2f64.powi(t.bits() as i32 - 1) - 1.0),
    };
    let plain = |fun, neutral| Some(Combine { fun, unsigned: false, neutral });
    match kind {
        "add" => plain(Binary::Add, 0.0),
        "mul" => plain(Binary::Mul, 1.0),
        "maximumf" | "maxnumf" | "maxsi" => plain(Binary::Max, low),
        "minimumf" | "minnumf" | "minsi" => plain(Binary::Min, high),
        "and" => plain(Binary::And, -1.0),
        "or" => plain(Binary::Or, 0.0),
        "xor" => plain(Binary::Xor, 0.0),
        "maxui" => Some(Combine { fun: Binary::Max, unsigned: true, neutral: 0.0 }),
        "minui" => Some(Combine { fun: Binary::Min, unsigned: true, neutral: -1.0 }),
        _ => None,
    }
}

/// A reduction while its loops are made.
struct Reduce<'a> {
    of: &'a Rc<Tensor>,
    how: Combine,
    dtype: DType,
    phys: Vec<u64>,
    /// The dimensions that go.
    gone: Vec<usize>,
    /// Level at which sums begin and end.
    depth: usize,
    /// Sums by the fixed part of the place of a result.
    sums: FxHashMap<At, (At, Value)>,
    /// What a turn of the innermost loop adds to each: combined among themselves first, two and two, so that a turn waits
    /// for the one before it once.
    turn: FxHashMap<At, Vec<Value>>,
    /// Where results go, and the tiles they are.
    to: Option<&'a Region>,
    map: &'a dyn Fn(&At) -> At,
    to_phys: Vec<u64>,
    results: Vec<Value>,
}

impl Combine {
    fn two(self, b: &mut KernelBuilder, dtype: DType, x: &Value, y: &Value) -> Value {
        let fun = if self.unsigned { Fun::Unsigned(self.fun) } else { Fun::Binary(self.fun) };
        super::element::apply(b, fun, &[*x, *y], dtype)
    }

    fn neutral(self, b: &mut KernelBuilder, dtype: DType) -> Value {
        match dtype {
            t if t.is_float() => constant_f64(b, self.neutral, t),
            t => Value::word(t, b.v_imm(self.neutral as i64 as i32)),
        }
    }

    /// All of several values, neighbours first.
    fn tree(self, b: &mut KernelBuilder, dtype: DType, mut all: Vec<Value>) -> Option<Value> {
        while all.len() > 1 {
            let pair = |p: &[Value]| if let [x, y] = p { self.two(b, dtype, x, y) } else { p[0] };
            all = all.chunks(2).map(pair).collect();
        }
        all.pop()
    }

    /// Along the sublanes of a register.
    fn sublanes(self, sub: u32, b: &mut KernelBuilder, mut v: Value) -> Value {
        let mut k = sub / 2;
        while k > 0 {
            let other = lanes_of(b, &v, |b, v| b.rot_sublane(v, k as i32));
            v = self.two(b, v.dtype, &v, &other);
            k /= 2;
        }
        v
    }

    /// Along the lanes of a register. `exact`: the elements are integers that f32 has.
    fn lanes(self, lanes: u32, b: &mut KernelBuilder, mut v: Value, exact: bool) -> Value {
        if let Some(op) = self.unit(v.dtype) {
            return Value::word(v.dtype, b.v(op, &[v.v()]));
        }
        if let Some(op) = self.unit(DType::F32).filter(|_| v.dtype.is_integer() && v.dtype.bits() <= 32) {
            return self.integers(op, b, v, exact);
        }
        let mut k = lanes / 2;
        while k > 0 {
            let other = lanes_of(b, &v, |b, v| b.rot_lane(v, k as i32));
            v = self.two(b, v.dtype, &v, &other);
            k /= 2;
        }
        v
    }

    /// The cross-lane unit's instruction, if it has one.
    fn unit(self, dtype: DType) -> Option<Op> {
        match (self.fun, dtype) {
            (Binary::Add, DType::F32) => Some(Op::XSumLane),
            (Binary::Max, DType::F32) => Some(Op::XMaxLane),
            (Binary::Min, DType::F32) => Some(Op::XMinLane),
            _ => None,
        }
    }

    /// Integers as floats, exactly: in one piece, or the upper and the lower half of their bits one after the other. Sums of
    /// halves stay below 2^24 for up to 256 lanes.
    fn integers(self, op: Op, b: &mut KernelBuilder, v: Value, exact: bool) -> Value {
        let to_float = |b: &mut KernelBuilder, v: V| convert(b, &Value::word(DType::S32, v), DType::F32).v();
        let to_int = |b: &mut KernelBuilder, v: V| convert(b, &Value::word(DType::F32, v), DType::S32).v();
        let adds = self.fun == Binary::Add;
        let whole = |b: &mut KernelBuilder, v: V| {
            let f = to_float(b, v);
            let r = b.v(op, &[f]);
            to_int(b, r)
        };
        if v.dtype.bits() <= 16 {
            // Words hold narrow elements with their sign; sums wrap.
            let word = if self.unsigned { b.and(v.v(), (1 << v.dtype.bits()) - 1) } else { v.v() };
            let r = whole(b, word);
            return convert(b, &Value::word(DType::S32, r), v.dtype);
        }
        if exact && !adds && !self.unsigned {
            let r = whole(b, v.v());
            return Value::word(v.dtype, r);
        }
        let unsigned = self.unsigned || super::element::unsigned(v.dtype) == v.dtype;
        let high = b.v2(if unsigned { Op::VShr } else { Op::VSar }, v.v(), 16);
        let low = b.and(v.v(), 0xffff);
        let (high, low) = (to_float(b, high), to_float(b, low));
        let most = b.v(op, &[high]);
        let low = match adds {
            true => low,
            // The lower halves of those whose upper half it is.
            false => {
                let here = b.cmp(Op::VEqF, high, most);
                let none = b.v_f32(self.neutral_half());
                b.sel(here, low, none)
            }
        };
        let low = b.v(op, &[low]);
        let (most, low) = (to_int(b, most), to_int(b, low));
        let most = b.v2(Op::VShl, most, 16);
        Value::word(v.dtype, b.v(Op::VAddI, &[most, low]))
    }

    /// A number beyond every half of a word.
    fn neutral_half(self) -> f32 {
        if self.fun == Binary::Max { f32::NEG_INFINITY } else { f32::INFINITY }
    }
}

/// Whether f32 has a vector's integers exactly: numbers of places, and what is chosen among them.
#[allow(clippy::wildcard_enum_match_arm, reason = "of what is not listed nothing is known")]
fn exact(b: &KernelBuilder, t: &Tensor) -> bool {
    match &*t.expr.borrow() {
        Expr::Iota(_) => true,
        Expr::Splat(v) => b.constant_of(v.v()).is_some_and(|c| (c as f32) as i32 == c),
        Expr::Element(Fun::Select, kids) => kids[1..].iter().all(|k| exact(b, k)),
        Expr::Element(Fun::Binary(Binary::Max | Binary::Min), kids) => kids.iter().all(|k| exact(b, k)),
        Expr::Element(Fun::Convert | Fun::FromUnsigned, kids) => {
            !kids[0].dtype.is_float() && kids[0].dtype.bits() <= 16
        }
        Expr::Expand(k) | Expr::Recast(k) => exact(b, k),
        _ => false,
    }
}

/// The type that elements are combined in.
fn sum_type(t: DType) -> DType {
    if t.is_float() { DType::F32 } else { t }
}

impl Reduce<'_> {
    /// Along the last two dimensions, if they go.
    fn across(&self, l: &Lower<'_>, b: &mut KernelBuilder, v: Value) -> Value {
        let (sub, lanes) = l.shape();
        let n = self.phys.len();
        let goes = |d: usize| self.gone.contains(&d) && self.phys[d] > 1;
        let v = if goes(n - 2) { self.how.sublanes(sub, b, v) } else { v };
        if goes(n - 1) { self.how.lanes(lanes, b, v, exact(b, self.of)) } else { v }
    }
}

impl Body for Reduce<'_> {
    fn enter(&mut self, _: &mut Lower<'_>, b: &mut KernelBuilder, n: &mut Nest, depth: usize) -> Result<(), Refused> {
        if depth != self.depth {
            return Ok(());
        }
        self.sums.clear();
        // Sums that loops carry are variables.
        if depth < n.walk.levels.len() {
            for at in n.walk.points.clone() {
                let place = result_place(&self.gone, &self.phys, &at);
                if !self.sums.contains_key(&place) {
                    let first = self.how.neutral(b, self.dtype);
                    let v = lanes_of(b, &first, |b, v| b.v_copy(v));
                    self.sums.insert(place.clone(), (place, v));
                }
            }
        }
        Ok(())
    }

    fn tile(&mut self, l: &mut Lower<'_>, b: &mut KernelBuilder, n: &mut Nest, at: &At) -> Result<(), Refused> {
        let v = l.tile(b, n, self.of, at)?;
        let mut v = if v.dtype == self.dtype { v } else { convert(b, &v, self.dtype) };
        let d = self.phys.len();
        let (sub, lanes) = l.shape();
        let neutral = self.how.neutral(b, self.dtype);
        let ragged = |size: u64, by: u32| size > 1 && !size.is_multiple_of(u64::from(by));
        if self.gone.contains(&(d - 2)) && ragged(self.phys[d - 2], sub) {
            let m = l.rows_left(b, n, self.phys[d - 2], at.row);
            v = select(b, &Value::mask(m), &v, &neutral);
        }
        if self.gone.contains(&(d - 1)) && ragged(self.phys[d - 1], lanes) {
            let m = l.cols_left(b, n, self.phys[d - 1], at.col);
            v = select(b, &Value::mask(m), &v, &neutral);
        }
        let place = result_place(&self.gone, &self.phys, at);
        let own = |p: &&At| result_place(&self.gone, &self.phys, p) == place;
        let expected = n.walk.points.iter().filter(own).count();
        let so_far = self.turn.entry(place.clone()).or_default();
        so_far.push(v);
        if so_far.len() < expected {
            return Ok(());
        }
        let v = self.how.tree(b, self.dtype, std::mem::take(so_far));
        let Some(v) = v else { return Ok(()) };
        match self.sums.get(&place).cloned() {
            Some((_, sum)) => {
                let new = self.how.two(b, self.dtype, &sum, &v);
                if self.depth < n.walk.levels.len() {
                    sum.all().iter().zip(new.all()).for_each(|(s, v)| b.copy_v(*s, *v));
                } else {
                    self.sums.insert(place.clone(), (place, new));
                }
            }
            None => {
                self.sums.insert(place.clone(), (place, v));
            }
        }
        Ok(())
    }

    fn exit(&mut self, l: &mut Lower<'_>, b: &mut KernelBuilder, n: &mut Nest, depth: usize) -> Result<(), Refused> {
        if depth != self.depth {
            return Ok(());
        }
        let mut done: Vec<At> = Vec::new();
        for at in n.walk.points.clone() {
            let place = result_place(&self.gone, &self.phys, &at);
            if done.contains(&place) {
                continue;
            }
            let Some((_, sum)) = self.sums.get(&place).cloned() else { continue };
            let v = self.across(l, b, sum);
            let v = if v.dtype == self.of.dtype { v } else { convert(b, &v, self.of.dtype) };
            match self.to {
                Some(to) => l.store_tile(b, n, to, &self.to_phys, &v, &(self.map)(&place)),
                None => self.results.push(v),
            }
            done.push(place);
        }
        Ok(())
    }
}

impl Lower<'_> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "anything else is refused")]
    pub(super) fn reduction(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let t = self.vector(o, 0)?;
        let dims = o.ints("reduction_dims").unwrap_or_default();
        let dims: Vec<usize> = dims.iter().map(|d| *d as usize).collect();
        let kind = o.word("kind").unwrap_or_default().to_string();
        let r = self.reduced(b, &t, &dims, &kind)?;
        let how = combine(&kind, t.dtype).ok_or_else(|| Refused::at(o, format!("by `{kind}`")))?;
        let fun = if how.unsigned { Fun::Unsigned(how.fun) } else { Fun::Binary(how.fun) };
        // What it begins with.
        let first = o.operands.get(1).map(|v| self.get(o, *v)).transpose()?;
        match first {
            Some(Val::Vector(init)) => {
                let dims = r.dims.clone();
                if let Expr::Splat(v) = &*init.expr.borrow()
                    && v.dtype.is_float()
                    && self.is_neutral(b, v, how.neutral)
                {
                    return Ok(Val::Vector(r));
                }
                let dtype = r.dtype;
                self.combined(b, fun, vec![r, init], &dims, dtype).map(Val::Vector)
            }
            Some(n @ (Val::Int(_) | Val::Float(_))) => {
                self.force(b, &r)?;
                let v = match &*r.expr.borrow() {
                    Expr::Regs(all) => all[0],
                    _ => return Err(Refused::at(o, "to a number that is in no register")),
                };
                let ty = self.type_of(o.results[0]).clone();
                let n = self.splat(b, o, &n, &ty)?;
                let v = super::element::apply(b, fun, &[v, n], r.dtype);
                Ok(match r.dtype {
                    d if d.is_float() => Val::Float(v),
                    d => Val::Int(Num::Reg(super::scalar::extract(b, d, &v))),
                })
            }
            _ => Err(Refused::at(o, "begins with nothing")),
        }
    }

    /// Whether a constant vector is the pooled constant of a number.
    fn is_neutral(&mut self, b: &mut KernelBuilder, v: &Value, neutral: f64) -> bool {
        let n = constant_f64(b, neutral, v.dtype);
        n.all() == v.all()
    }

    /// A vector without some of its dimensions.
    pub(super) fn reduced(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, dims: &[usize], kind: &str) -> Made {
        let how = combine(kind, t.dtype).ok_or_else(|| Refused::new(format!("by `{kind}`")))?;
        let left: Vec<u64> = (0..t.dims.len()).filter(|d| !dims.contains(d)).map(|d| t.dims[d]).collect();
        let given = t.phys();
        let skip = given.len() - t.dims.len() - usize::from(t.form == Form::Rows);
        let gone: Vec<usize> = dims.iter().map(|d| d + skip).collect();
        let n = given.len();
        let rows_stay = !gone.contains(&(n - 2)) && given[n - 2] > 1;
        // Along sublanes if only columns go; else the last that stays is along lanes.
        let columns_go = gone.contains(&(n - 1)) || t.form == Form::Rows;
        let form = if columns_go && !left.is_empty() { Form::Rows } else { Form::Lanes };
        let dtype = t.dtype;
        // Along lanes alone, of many rows: a part of whatever needs it, row by row.
        let lanes_only = t.form == Form::Lanes && gone == [n - 1] && form == Form::Rows;
        let tall = super::nest::tiles(&super::value::phys(&left, form), self.shape()) > super::nest::SMALL;
        if lanes_only && tall && given[n - 1].div_ceil(u64::from(self.shape().1)) <= ROW_TILES {
            return Ok(Tensor::new(&left, form, dtype, Expr::Across(Rc::clone(t), how)));
        }
        let mut walk = Walk::new(
            &given,
            self.shape(),
            &gone,
            needs_columns(t)
                || !gone.contains(&(n - 1)) && gone.contains(&(n - 2)) && given[n - 1] <= 8 * u64::from(self.shape().1),
        );
        walk.widen(&gone);
        let depth = walk.before(&gone);
        let small =
            walk.levels.iter().take(depth).next().is_none() && left_in_registers(&left, form, rows_stay, &given, &gone);
        let to_phys = super::value::phys(&left, form);
        let region = if small { None } else { Some(self.temp(b, &left, form, dtype)) };
        let d = to_phys.len();
        // The result's tiles: what stays, in order.
        let (gone2, form2, t_form) = (gone.clone(), form, t.form);
        let map = move |at: &At| -> At {
            let mut all: Vec<Coord> = at.outer.clone();
            all.extend([at.row, at.col]);
            let mut kept: Vec<Coord> = (0..all.len()).filter(|i| !gone2.contains(i)).map(|i| all[i]).collect();
            if t_form == Form::Rows {
                kept.pop();
            }
            if form2 == Form::Rows {
                kept.push(Coord::default());
            }
            while kept.len() < d {
                kept.insert(0, Coord::default());
            }
            let excess = kept.len() - d;
            let kept = &kept[excess..];
            At { outer: kept[..d - 2].to_vec(), row: kept[d - 2], col: kept[d - 1] }
        };
        // Where rows of the result were outer dimensions, each is stored alone.
        let rows_are_outer = !rows_stay && to_phys[d - 2] > 1;
        let single = region.clone().map(|mut r| {
            if rows_are_outer {
                // Coordinates count rows, not tiles of them.
                r.steps.push(0);
                r.own = false;
            }
            r
        });
        let single_phys = if rows_are_outer {
            [&to_phys[..d - 2], &[to_phys[d - 2], 1, to_phys[d - 1]]].concat()
        } else {
            to_phys.clone()
        };
        let map = move |at: &At| -> At {
            let m = map(at);
            if !rows_are_outer {
                return m;
            }
            let mut outer = m.outer;
            outer.push(m.row);
            At { outer, row: Coord::default(), col: m.col }
        };
        let claimed: Vec<(Region, Vec<At>)> = single
            .iter()
            .map(|r| (r.clone(), walk.points.iter().map(|p| map(&result_place(&gone, &given, p))).collect()))
            .collect();
        let mut body = Reduce {
            of: t,
            how,
            dtype: sum_type(dtype),
            phys: given,
            gone,
            depth,
            sums: FxHashMap::default(),
            turn: FxHashMap::default(),
            to: single.as_ref(),
            map: &map,
            to_phys: single_phys,
            results: Vec::new(),
        };
        self.nest_claiming(b, walk, std::slice::from_ref(t), &claimed, &mut body)?;
        let results = std::mem::take(&mut body.results);
        let expr = match region {
            Some(r) => Expr::Memory(r),
            None => Expr::Regs(Rc::new(results)),
        };
        Ok(Tensor::new(&left, form, dtype, expr))
    }

    /// The value of a tile of [`Expr::Across`]: of the row's tiles in order, then along lanes.
    pub(super) fn across_tile(
        &mut self,
        b: &mut KernelBuilder,
        n: &mut Nest,
        (of, how): (&Rc<Tensor>, Combine),
        at: &At,
    ) -> Result<Value, Refused> {
        let (lanes, cols) = (self.shape().1, of.phys()[of.phys().len() - 1]);
        let dtype = sum_type(of.dtype);
        let mut sum: Option<Value> = None;
        for at in row_tiles(of, at, lanes) {
            let v = self.tile(b, n, of, &at)?;
            let mut v = if v.dtype == dtype { v } else { convert(b, &v, dtype) };
            if cols > 1 && cols < u64::from((at.col.fixed + 1) * lanes) {
                let (m, neutral) = (self.cols_left(b, n, cols, at.col), how.neutral(b, dtype));
                v = select(b, &Value::mask(m), &v, &neutral);
            }
            sum = Some(match sum {
                None => v,
                Some(s) => how.two(b, dtype, &s, &v),
            });
        }
        let sum = sum.ok_or_else(|| Refused::new("a reduction of nothing"))?;
        let v = if cols > 1 { how.lanes(lanes, b, sum, exact(b, of)) } else { sum };
        Ok(if v.dtype == of.dtype { v } else { convert(b, &v, of.dtype) })
    }

    /// The number of the largest (or smallest) element along a dimension, the first of several.
    pub(super) fn reduced_index(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let t = self.vector(o, 0)?;
        let axis = o.int("axis").and_then(|a| usize::try_from(a).ok()).filter(|a| *a < t.dims.len());
        let axis = axis.ok_or_else(|| Refused::at(o, "along no dimension"))?;
        let kind = o.word("kind").unwrap_or_default();
        let (kind, or_nan) = match kind {
            "arg_max" => ("maximumf", true),
            "arg_min" => ("minimumf", true),
            k => return Err(Refused::at(o, format!("by `{k}`"))),
        };
        let kind = match (t.dtype.is_float(), kind) {
            (true, k) => k,
            (false, "maximumf") => "maxsi",
            (false, _) => "minsi",
        };
        let t = self.in_form(b, &t, Form::Lanes)?;
        t.shared.set(true);
        let best = self.reduced(b, &t, &[axis], kind)?;
        let mut with_one = t.dims.clone();
        with_one[axis] = 1;
        let best = self.reshaped(b, &best, &with_one)?;
        let best = self.expanded(b, &best, &t.dims)?;
        let dims = t.dims.clone();
        let same = self.combined(b, Fun::Compare(Direction::Eq), vec![Rc::clone(&t), best], &dims, DType::Pred)?;
        let same = if or_nan && t.dtype.is_float() {
            let nan = self.combined(b, Fun::Unordered, vec![Rc::clone(&t), Rc::clone(&t)], &dims, DType::Pred)?;
            self.combined(b, Fun::Binary(Binary::Or), vec![same, nan], &dims, DType::Pred)?
        } else {
            same
        };
        let index = Tensor::new(&dims, Form::Lanes, DType::S32, Expr::Iota(axis));
        let none = Value::word(DType::S32, b.v_imm(i32::MAX));
        let none = Tensor::new(&dims, Form::Lanes, DType::S32, Expr::Splat(none));
        let found = self.combined(b, Fun::Select, vec![same, index, none], &dims, DType::S32)?;
        let r = self.reduced(b, &found, &[axis], "minsi")?;
        let to = self.element(o, o.results[0])?;
        let rd = r.dims.clone();
        let r = if to == DType::S32 { r } else { self.combined(b, Fun::Convert, vec![r], &rd, to)? };
        Ok(Val::Vector(r))
    }
}

impl Walk {
    /// Several turns of the innermost loop in one body, if it walks one of these dimensions.
    fn widen(&mut self, dims: &[usize]) {
        let Some(l) = self.levels.last_mut().filter(|l| dims.contains(&l.dim)) else { return };
        let room = (WIDE as u32 / self.points.len().max(1) as u32).min(l.count);
        let Some(by) = (2..=room).rev().find(|k| l.count.is_multiple_of(*k)) else { return };
        let (step, dim, n) = (l.step, l.dim, self.phys.len());
        (l.count, l.step) = (l.count / by, l.step * by);
        let more = |p: &At, k: u32| {
            let mut p = p.clone();
            let coord = match n - dim {
                1 => &mut p.col,
                2 => &mut p.row,
                _ => &mut p.outer[dim],
            };
            coord.fixed += k * step;
            p
        };
        self.points = (0..by).flat_map(|k| self.points.iter().map(move |p| more(p, k))).collect();
    }
}

/// The place of a tile's result among the tiles of what is reduced.
fn result_place(gone: &[usize], phys: &[u64], at: &At) -> At {
    let n = phys.len();
    let coord = |d: usize, c: Coord| if gone.contains(&d) { Coord::default() } else { c };
    At {
        outer: at.outer.iter().enumerate().map(|(d, c)| coord(d, *c)).collect(),
        row: coord(n - 2, at.row),
        col: coord(n - 1, at.col),
    }
}

/// Whether the result is as it is computed: a register for each tile that stays, in order.
fn left_in_registers(left: &[u64], form: Form, rows_stay: bool, given: &[u64], gone: &[usize]) -> bool {
    let n = given.len();
    // Rows of the result that were outer dimensions must be put together.
    let d = left.len();
    match form {
        Form::Rows => {
            rows_stay && !gone.contains(&(n - 2)) && given[..n - 2].iter().all(|s| *s == 1)
                || left.iter().product::<u64>() == 1
        }
        Form::Lanes => {
            d < 2
                || left[..d - 1].iter().all(|s| *s == 1)
                || rows_stay && !gone.contains(&(n - 2)) && !gone.contains(&(n - 1))
        }
    }
}

/// All tiles of a vector in the row of tiles that `at` is in.
pub(super) fn row_tiles(of: &Tensor, at: &At, lanes: u32) -> Vec<At> {
    let phys = of.phys();
    let outer =
        if at.outer.len() == phys.len() - 2 { at.outer.clone() } else { vec![Coord::default(); phys.len() - 2] };
    let count = phys[phys.len() - 1].div_ceil(u64::from(lanes)) as u32;
    (0..count).map(|c| At { outer: outer.clone(), row: at.row, col: Coord::at(c) }).collect()
}
