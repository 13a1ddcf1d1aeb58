//! Vectors under other shapes: what moves, and what is only named differently.

use super::nest::{At, Body, Coord, Nest, SMALL, Walk};
use super::tiles::lanes_of;
use super::value::{Expr, Form, Num, Region, Tensor, Val, phys};
use super::{Lower, Made, Refused};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, M, S};
use std::rc::Rc;
use systole_isa::Op;
use systole_isa::program::RELAYOUT;
use systole_mosaic::Operation;

/// Code from here on moves elements to other lanes or sublanes: it belongs to a part of the line of its own. The line before.
fn mark(b: &mut KernelBuilder, what: impl FnOnce() -> String) -> u16 {
    let (line, place) = b.current_place();
    let Some(mut place) = place.cloned() else { return line };
    place.name += if place.name.is_empty() { "" } else { "/" };
    place.name += &what();
    let marked = b.place(place);
    b.set_place(marked)
}

fn ones_dropped(d: &[u64]) -> Vec<u64> {
    d.iter().copied().filter(|d| *d != 1).collect()
}

/// Whether a vector of sizes `from` has its rows and columns where one of sizes `to` has them.
fn same_tiles(from: &[u64], to: &[u64]) -> bool {
    let (m, n) = (from.len(), to.len());
    from[m - 2..] == to[n - 2..] && ones_dropped(&from[..m - 2]) == ones_dropped(&to[..n - 2])
}

/// The regions of the rows that are number 0, 1, .. of `parts` which follow each other, each as rows of sizes `to`; the region has rows
/// of sizes `from`. `None` if they do not lie like that.
fn parted(region: &Region, from: &[u64], to: &[u64], parts: u64) -> Option<Vec<Region>> {
    let steps = restrided(from, &region.steps, &[to, &[parts]].concat())?;
    let (step, own) = steps.split_last()?;
    let part =
        |p: u64| Region { offset: region.offset + (p as i64 * step) as i32, steps: own.to_vec(), ..region.clone() };
    Some((0..parts).map(part).collect())
}

/// Steps of dimensions `to` in memory where dimensions `from` have the steps `strides`, if the same elements lie there.
pub(super) fn restrided(from: &[u64], strides: &[i64], to: &[u64]) -> Option<Vec<i64>> {
    let mut have: Vec<(u64, i64)> = from.iter().copied().zip(strides.iter().copied()).filter(|d| d.0 != 1).collect();
    let mut out = vec![0; to.len()];
    for (step, &size) in out.iter_mut().zip(to).rev().filter(|d| *d.1 != 1) {
        let (mut n, s) = have.pop()?;
        // Several dimensions without gaps are one.
        while n < size {
            let (m, t) = have.pop()?;
            if t != s * n as i64 {
                return None;
            }
            n *= m;
        }
        if n % size != 0 {
            return None;
        }
        *step = s;
        if n > size {
            have.push((n / size, s * size as i64));
        }
    }
    have.is_empty().then_some(out)
}

/// Columns to rows or back, of vectors of one dimension that matters: see [`Lower::in_form`].
struct Stand<'a> {
    of: &'a Rc<Tensor>,
    to: &'a Region,
    /// The tile that gathers lanes.
    sum: Option<Value>,
    phys: Vec<u64>,
}

impl Body for Stand<'_> {
    fn tile(&mut self, l: &mut Lower<'_>, b: &mut KernelBuilder, n: &mut Nest, at: &At) -> Result<(), Refused> {
        let (sub, lanes) = l.shape();
        // Rows of one column: 8 of them become lanes of one row.
        let v = l.tile(b, n, self.of, at)?;
        let (sublane, lane) = (b.sublane(), b.lane());
        let first = (at.row.fixed * sub % lanes) as i32;
        let place = b.v2(Op::VAddI, sublane, first);
        let here = b.cmp(Op::VEqI, lane, place);
        let moved = |l: &mut Lower<'_>, b: &mut KernelBuilder, v: &Value, n: i32| {
            let _ = l;
            lanes_of(b, v, |b, v| b.rot_sublane(v, n))
        };
        // All sublanes get what any of them has for its lane.
        let mut all = v;
        let mut mask = here;
        let mut k = 1;
        while k < sub as i32 {
            let other = moved(l, b, &all, k);
            let bits = b.sel(mask, 1, 0);
            let turned = b.rot_sublane(bits, k);
            let theirs = b.test(Op::VNeI, turned, 0);
            all = crate::emit::elementwise::select(b, &Value::mask(mask), &all, &other);
            mask = b.m_or(mask, theirs);
            k *= 2;
        }
        let sum = match self.sum.take() {
            None => all,
            Some(sum) => crate::emit::elementwise::select(b, &Value::mask(mask), &all, &sum),
        };
        let rows = self.phys[self.phys.len() - 2] as u32;
        let last = at.row.fixed + 1 == rows.div_ceil(sub) || ((at.row.fixed + 1) * sub).is_multiple_of(lanes);
        if !last {
            self.sum = Some(sum);
            return Ok(());
        }
        let to = l.standing(at, at.row.fixed * sub / lanes);
        let (base, offset) = n.address(self.to, &to);
        let place = crate::emit::memory::Place { base, offset, stride: 0, buf: self.to.buf, component_rows: 0 };
        let one = b.sublane_is(0);
        crate::emit::memory::store_value(b, &sum, place, one);
        Ok(())
    }
}

impl Lower<'_> {
    /// The tile of the row form's outer dimension `col`.
    fn standing(&self, at: &At, col: u32) -> At {
        At { outer: at.outer.clone(), row: Coord::default(), col: Coord::at(col) }
    }

    /// The vector in a form.
    pub(super) fn in_form(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, form: Form) -> Made {
        if t.form == form {
            return Ok(Rc::clone(t));
        }
        if let Expr::Splat(v) = &*t.expr.borrow() {
            return Ok(Tensor::new(&t.dims, form, t.dtype, Expr::Splat(*v)));
        }
        let n = t.dims.len();
        if form == Form::Rows {
            return Err(Refused::new("columns that become rows"));
        }
        // `[.., rows, n]` of `[.., rows, n, 1]`: one row at a time.
        let from = t.phys();
        let region = self.temp(b, &t.dims, Form::Lanes, t.dtype);
        let mut to = region.clone();
        // The rows of the result are outer dimensions of what it is made of.
        if n < 2 {
            to.steps.pop();
        }
        while to.steps.len() < from.len() - 2 {
            to.steps.insert(0, 0);
        }
        to.steps.push(0);
        let sub = u64::from(self.sub());
        let mut walk = Walk::new(&from, self.shape(), &[], true);
        // All rows in one body: their number decides which lanes they become.
        let rows = from[from.len() - 2].div_ceil(sub) as u32;
        let level = walk.levels.iter().position(|l| l.dim == from.len() - 2);
        if let Some(at) = level {
            walk.levels.remove(at);
            let shift = |c: &mut Coord| {
                if let Some(l) = &mut c.level
                    && *l > at
                {
                    *l -= 1;
                }
            };
            let base = walk.points[0].clone();
            walk.points = (0..rows)
                .map(|r| {
                    let mut p = base.clone();
                    p.row = Coord::at(r);
                    p.outer.iter_mut().for_each(shift);
                    p
                })
                .collect();
        }
        let mut body = Stand { of: t, to: &to, sum: None, phys: from };
        let map = |at: &At| At { outer: at.outer.clone(), row: Coord::default(), col: Coord::default() };
        let line = mark(b, || format!("{RELAYOUT}a column of {:?} to a row", t.dims));
        self.nest(b, walk, std::slice::from_ref(t), &[(&to, &map)], &mut body)?;
        b.set_place(line);
        Ok(Tensor::new(&t.dims, Form::Lanes, t.dtype, Expr::Memory(region)))
    }

    /// The same elements, in row-major order, under another shape.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for arrays in memory alone")]
    pub(super) fn reshaped(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, dims: &[u64]) -> Made {
        if let Some(same) = t.in_any_shape(dims) {
            return Ok(same);
        }
        let from = t.phys();
        let known = match &*t.expr.borrow() {
            Expr::Memory(r) if t.form == Form::Lanes => Some(r.clone()),
            _ => None,
        };
        if let Some(r) = known.and_then(|r| self.seen_as(&r, &from, &phys(dims, Form::Lanes))) {
            return Ok(Tensor::new(dims, Form::Lanes, t.dtype, Expr::Memory(r)));
        }
        // Which form keeps the places.
        for form in [Form::Lanes, Form::Rows] {
            if form == Form::Rows && (dims.is_empty() || t.form == Form::Lanes && from[from.len() - 1] != 1) {
                continue;
            }
            let to = phys(dims, form);
            if same_tiles(&from, &to) {
                return Ok(Tensor::new(dims, form, t.dtype, Expr::Recast(Rc::clone(t))));
            }
        }
        let t = self.in_form(b, t, Form::Lanes)?;
        let (from, to) = (t.phys(), phys(dims, Form::Lanes));
        let region = self.force_memory(b, &t)?;
        if let Some(r) = self.seen_as(&region, &from, &to) {
            return Ok(Tensor::new(dims, Form::Lanes, t.dtype, Expr::Memory(r)));
        }
        let line = mark(b, || format!("{RELAYOUT}{:?} to {dims:?}", t.dims));
        let moved = self.moved(b, &t, &region, dims).or_else(|_| self.by_rows(b, &t, &region, dims));
        let moved = moved.or_else(|_| self.cut_anew(b, &t, &region, dims));
        b.set_place(line);
        moved
    }

    /// A region under other sizes, if they lie alike.
    fn seen_as(&self, r: &Region, from: &[u64], to: &[u64]) -> Option<Region> {
        let (m, n) = (from.len(), to.len());
        let lanes = u64::from(self.shape().1);
        let mut out = r.clone();
        if from[m - 1] == to[n - 1] {
            // Rows are one more dimension: each row has a step of its own.
            out.steps = restrided(&from[..m - 1], &r.steps, &to[..n - 1])?;
            return Some(out);
        }
        // One row of whole registers: each of them may be a row.
        let one_row = from[..m - 1].iter().product::<u64>() == 1;
        if one_row && to[n - 1] == lanes && from[m - 1].is_multiple_of(lanes) && r.lane.first == Num::Const(0) {
            out.steps = restrided(&[from[m - 1] / lanes], &[r.plane], &to[..n - 1])?;
            return Some(out);
        }
        let to_one = to[..n - 1].iter().product::<u64>() == 1;
        if to_one && from[m - 1] == lanes && r.lane.first == Num::Const(0) {
            out.plane = restrided(&from[..m - 1], &r.steps, &[to[n - 1] / lanes])?[0];
            out.steps = vec![0; n - 1];
            return Some(out);
        }
        None
    }

    /// Moves elements where columns are cut, or joined.
    pub(super) fn moved(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, from: &Region, dims: &[u64]) -> Made {
        let (have, want) = (t.phys(), phys(dims, Form::Lanes));
        let (c, d) = (have[have.len() - 1], want[want.len() - 1]);
        let wrong = || Refused::new(format!("a reshape of {have:?} to {want:?}"));
        let region = self.temp(b, dims, Form::Lanes, t.dtype);
        let (have, want) = (&have[..have.len() - 1], &want[..want.len() - 1]);
        // The parts of columns, and where each goes: rows of one array are parts of the rows of the other.
        let (rows, n, parts) = if c % d == 0 {
            let to = parted(&region, want, have, c / d).ok_or_else(wrong)?;
            (have, d, (0..).zip(to).map(|(p, to)| (self.columns(from, p * d), to)).collect::<Vec<_>>())
        } else if d % c == 0 {
            let of = parted(from, have, want, d / c).ok_or_else(wrong)?;
            (want, c, (0..).zip(of).map(|(p, part)| (part, self.columns(&region, p * c))).collect())
        } else {
            return Err(wrong());
        };
        for (part, to) in parts {
            let part = Tensor::new(&[rows, &[n]].concat(), Form::Lanes, t.dtype, Expr::Memory(part));
            self.store_mapped(b, &part, &Region { own: false, ..to }, &part.phys(), &Clone::clone)?;
        }
        Ok(Tensor::new(dims, Form::Lanes, t.dtype, Expr::Memory(region)))
    }

    /// A region from a column on.
    pub(super) fn columns(&self, r: &Region, first: u64) -> Region {
        let lanes = u64::from(self.shape().1);
        let before = match r.lane.first {
            Num::Const(l) => l as u64,
            Num::Reg(_) => 0,
        };
        let lane = before + first;
        let mut out = r.clone();
        out.offset += (lane / lanes) as i32 * r.plane as i32;
        if matches!(r.lane.first, Num::Const(_)) {
            out.lane.first = Num::Const((lane % lanes) as i32);
        }
        out.spread = false;
        out
    }

    pub(super) fn transposed(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let t = self.vector(o, 0)?;
        let perm = o.ints("permutation").ok_or_else(|| Refused::at(o, "no permutation"))?;
        let perm: Vec<usize> = perm.iter().map(|p| *p as usize).collect();
        let dims: Vec<u64> = perm.iter().map(|p| t.dims.get(*p).copied().unwrap_or(1)).collect();
        let t = self.in_form(b, &t, Form::Lanes)?;
        self.permuted(b, &t, &perm, &dims).map(Val::Vector)
    }

    /// A vector whose dimension `i` is dimension `perm[i]` of `t`.
    pub(super) fn permuted(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, perm: &[usize], dims: &[u64]) -> Made {
        let n = perm.len();
        if let Expr::Splat(v) = &*t.expr.borrow() {
            return Ok(Tensor::new(dims, Form::Lanes, t.dtype, Expr::Splat(*v)));
        }
        if n < 2 || perm.iter().enumerate().all(|(i, p)| i == *p) {
            return Ok(Rc::clone(t));
        }
        if perm[n - 1] == n - 1 {
            let mut r = self.force_memory(b, t)?;
            r.steps = perm[..n - 1].iter().map(|p| r.steps[*p]).collect();
            return Ok(Tensor::new(dims, Form::Lanes, t.dtype, Expr::Memory(r)));
        }
        // The dimension that becomes the last one is first made the one before it, then both change places.
        let last = perm[n - 1];
        let mut first: Vec<usize> = (0..n).filter(|d| *d != last && *d != n - 1).collect();
        first.extend([last, n - 1]);
        let sizes: Vec<u64> = first.iter().map(|d| t.dims[*d]).collect();
        let t = self.permuted(b, t, &first, &sizes)?;
        let line = mark(b, || format!("{RELAYOUT}{:?} with rows and columns exchanged", t.dims));
        let t = self.swapped(b, &t)?;
        b.set_place(line);
        // Where each dimension is now.
        let mut now = first;
        now.swap(n - 2, n - 1);
        let rest: Vec<usize> = perm.iter().map(|p| now.iter().position(|d| d == p).unwrap_or(0)).collect();
        self.permuted(b, &t, &rest, dims)
    }

    /// A vector with its last two dimensions exchanged, by the transpose buffers of the cross-lane units.
    fn swapped(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Made {
        let (sub, lanes) = self.shape();
        let n = t.dims.len();
        let mut dims = t.dims.clone();
        dims.swap(n - 2, n - 1);
        let from = self.force_memory(b, t)?;
        let to = self.temp(b, &dims, Form::Lanes, t.dtype);
        let (rows, cols) = (t.dims[n - 2] as u32, t.dims[n - 1] as u32);
        let outer = &t.dims[..n - 2];
        let count: u64 = outer.iter().product();
        if count > 64 {
            return Err(Refused::new(format!("a transpose of {count} matrices")));
        }
        let wide = lanes / sub;
        for o in 0..count {
            let mut rest = o;
            let (mut src, mut dst) = (from.offset, to.offset);
            for d in (0..outer.len()).rev() {
                let i = (rest % outer[d]) as i64;
                rest /= outer[d];
                src += (i * from.steps[d]) as i32;
                dst += (i * to.steps[d]) as i32;
            }
            let units = self.chip.core.xlu_slots.max(1);
            let mut unit = 0;
            for c in 0..cols.div_ceil(lanes) {
                let src = src + (i64::from(c) * from.plane) as i32;
                for r in 0..rows.div_ceil(lanes) {
                    let tiles = (rows - r * lanes).min(lanes).div_ceil(sub);
                    for i in 0..tiles {
                        let region = Region { offset: src, ..from.clone() };
                        let at = At {
                            outer: vec![Coord::default(); from.outer().len()],
                            row: Coord::at(r * wide + i),
                            col: Coord::default(),
                        };
                        let v = self.bare_tile(b, &region, &[u64::from(rows), u64::from(cols)], &at);
                        b.xlu_tpush(unit, v);
                    }
                    for i in 0..wide {
                        let v = b.xlu_tpop(unit);
                        let row = c * lanes + i * sub;
                        if row >= cols {
                            continue;
                        }
                        let place = crate::emit::memory::Place {
                            base: to.base,
                            offset: dst + (i64::from(row) * to.row()) as i32 + (i64::from(r) * to.plane) as i32,
                            stride: to.row() as i32,
                            buf: to.buf,
                            component_rows: 0,
                        };
                        let mask = if cols == 1 { b.sublane_is(0) } else { M::ALL };
                        let v = if t.dtype == systole_isa::DType::Pred {
                            Value::mask(b.test(Op::VNeI, v, 0))
                        } else {
                            Value::word(t.dtype, v)
                        };
                        crate::emit::memory::store_value(b, &v, place, mask);
                    }
                    unit = (unit + 1) % units;
                }
            }
        }
        let mut to = to;
        to.spread = false;
        Ok(Tensor::new(&dims, Form::Lanes, t.dtype, Expr::Memory(to)))
    }

    /// A tile at a fixed place, as 32-bit words.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all other types are words")]
    fn bare_tile(&mut self, b: &mut KernelBuilder, r: &Region, phys: &[u64], at: &At) -> crate::kernel::V {
        let walk = Walk { phys: phys.to_vec(), levels: Vec::new(), points: Vec::new() };
        let n = Nest::fixed(walk, self.sub());
        let v = self.load_tile(b, &n, r, phys, at);
        match v.dtype {
            systole_isa::DType::Pred => b.sel(v.m(), 1, 0),
            _ => v.v(),
        }
    }

    pub(super) fn concatenated(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let dims = self.dims(o)?;
        let dim = o.int("dimension").and_then(|d| usize::try_from(d).ok()).filter(|d| *d < dims.len());
        let dim = dim.ok_or_else(|| Refused::at(o, "along no dimension"))?;
        let mut kids = Vec::new();
        for i in 0..o.operands.len() {
            let t = self.vector(o, i)?;
            kids.push(self.in_form(b, &t, Form::Lanes)?);
        }
        let lanes = u64::from(self.shape().1);
        let dtype = kids[0].dtype;
        let last = dim + 1 == dims.len();
        if last && dims[dim] / lanes <= SMALL && kids.iter().all(|k| k.dims[dim] % lanes == 0) {
            return Ok(Val::Vector(Tensor::new(&dims, Form::Lanes, dtype, Expr::Beside(kids))));
        }
        let region = self.temp(b, &dims, Form::Lanes, dtype);
        let mut at = 0;
        for k in kids {
            let size = k.dims[dim];
            let mut to = if last { self.columns(&region, at) } else { region.clone() };
            if !last {
                to.offset += (at as i64 * region.steps[region.steps.len() + dim + 1 - dims.len()]) as i32;
            }
            to.own = false;
            self.store_all(b, &k, &to)?;
            at += size;
        }
        let mut region = region;
        region.spread = false;
        Ok(Val::Vector(Tensor::new(&dims, Form::Lanes, dtype, Expr::Memory(region))))
    }

    /// A part of a vector.
    pub(super) fn sliced(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let t = self.vector(o, 0)?;
        let t = self.in_form(b, &t, Form::Lanes)?;
        let dims = self.dims(o)?;
        let offsets = o.ints("offsets").unwrap_or_default();
        if o.ints("strides").is_some_and(|s| s.iter().any(|s| *s != 1)) {
            return Err(Refused::at(o, "with steps"));
        }
        if let Expr::Splat(v) = &*t.expr.borrow() {
            return Ok(Val::Vector(Tensor::new(&dims, Form::Lanes, t.dtype, Expr::Splat(*v))));
        }
        let mut r = self.force_memory(b, &t)?;
        let n = t.dims.len();
        let steps = r.steps.clone();
        let skip = steps.len() + 1 - n;
        for (d, first) in offsets.iter().enumerate() {
            if d + 1 < n {
                r.offset += (first * steps[skip + d]) as i32;
            } else {
                r = self.columns(&r, *first as u64);
            }
        }
        Ok(Val::Vector(Tensor::new(&dims, Form::Lanes, t.dtype, Expr::Memory(r))))
    }

    /// One element.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for what is in registers")]
    pub(super) fn extracted(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let t = self.vector(o, 0)?;
        let at = o.ints("static_position").unwrap_or_else(|| vec![0; t.dims.len()]);
        if at.iter().any(|i| *i < 0) {
            return Err(Refused::at(o, "at a place that is not known"));
        }
        if at.len() < t.dims.len() {
            return Err(Refused::at(o, "of a part of a vector"));
        }
        let one = vec![1; t.dims.len()];
        let t = self.in_form(b, &t, Form::Lanes)?;
        let known = match &*t.expr.borrow() {
            Expr::Splat(v) => Some(*v),
            Expr::Regs(all) if t.dims.iter().all(|d| *d == 1) => Some(all[0]),
            _ => None,
        };
        let v = match known {
            Some(v) => v,
            None => {
                let mut r = self.force_memory(b, &t)?;
                let steps = r.steps.clone();
                let n = t.dims.len();
                for (d, i) in at.iter().enumerate() {
                    if d + 1 < n {
                        r.offset += (i * steps[steps.len() + 1 + d - n]) as i32;
                    } else if t.dims[d] > 1 {
                        r = self.columns(&r, *i as u64);
                    }
                }
                let part = Tensor::new(&one, Form::Lanes, t.dtype, Expr::Memory(r));
                self.single(b, &part)?
            }
        };
        Ok(match t.dtype {
            d if d.is_float() => Val::Float(v),
            d => Val::Int(Num::Reg(super::scalar::extract(b, d, &v))),
        })
    }

    /// A base that counts element rows of another width.
    pub(super) fn rescaled(&mut self, b: &mut KernelBuilder, base: S, from: i64, to: i64) -> S {
        let (p, q) = (from.trailing_zeros() as usize, to.trailing_zeros() as usize);
        if base == self.scratch[p] {
            return self.scratch[q];
        }
        match q.cmp(&p) {
            std::cmp::Ordering::Equal => base,
            std::cmp::Ordering::Greater => b.def_s(Op::SShlI, &[base.into(), ((q - p) as i32).into()]),
            std::cmp::Ordering::Less => b.def_s(Op::SShrI, &[base.into(), ((p - q) as i32).into()]),
        }
    }
}
