//! Tiles of vectors between registers and memory, and vectors that come to be in memory.

use super::block::needs_columns;
use super::nest::{At, Body, Coord, Nest, SMALL, Walk, tiles};
use super::value::{Expr, Form, Lane, Num, Region, Temp, Tensor, phys};
use super::{Lower, Refused};
use crate::emit::Value;
use crate::emit::elementwise::convert;
use crate::emit::memory::{Place, load_value, store_value};
use crate::kernel::{KernelBuilder, M, S, V};
use std::rc::Rc;
use systole_isa::{DType, Layout, Op};

/// How many rows or columns of a vector a tile has yet: known, or by a scalar register.
enum Left {
    Known(u32),
    At(S),
}

/// Of so many `all`, what is left from the tile at a coordinate on, which [`Nest::count`] gave; tiles have `each`.
fn left(b: &mut KernelBuilder, (tile, fixed): (S, u32), all: u64, each: u32) -> Left {
    let left = all as i32 - (fixed * each) as i32;
    if tile == S::ZERO {
        return Left::Known(left.clamp(0, each as i32) as u32);
    }
    let used = b.s_muli(tile, -(each as i32));
    Left::At(b.s_addi(used, left))
}

/// Computes a vector into a region.
struct Store<'a> {
    of: &'a Rc<Tensor>,
    to: &'a Region,
    map: &'a dyn Fn(&At) -> At,
    phys: Vec<u64>,
}

impl Body for Store<'_> {
    fn tile(&mut self, l: &mut Lower<'_>, b: &mut KernelBuilder, n: &mut Nest, at: &At) -> Result<(), Refused> {
        let v = l.tile(b, n, self.of, at)?;
        l.store_tile(b, n, self.to, &self.phys, &v, &(self.map)(at));
        Ok(())
    }
}

/// Computes a vector into registers.
struct Keep<'a> {
    of: &'a Rc<Tensor>,
    values: Vec<Value>,
}

impl Body for Keep<'_> {
    fn tile(&mut self, l: &mut Lower<'_>, b: &mut KernelBuilder, n: &mut Nest, at: &At) -> Result<(), Refused> {
        self.values.push(l.tile(b, n, self.of, at)?);
        Ok(())
    }
}

impl Lower<'_> {
    /// Sublanes and lanes.
    pub(super) fn shape(&self) -> (u32, u32) {
        (self.chip.core.sublanes, self.chip.core.lanes)
    }

    pub(super) fn sub(&self) -> u32 {
        self.chip.core.sublanes
    }

    /// Memory for a vector of these sizes, as registers see them.
    pub(super) fn temp(&mut self, _: &mut KernelBuilder, dims: &[u64], form: Form, dtype: DType) -> Region {
        let phys = phys(dims, form);
        let layout = Layout::row_major(dtype, &phys, self.sub(), self.shape().1);
        let rows = layout.component_word_rows().next_multiple_of(32) as u32;
        let free = self.free.borrow_mut().iter().position(|f| f.0 == rows);
        let (at, buf) = match free {
            Some(i) => {
                let (_, at, buf) = self.free.borrow_mut().swap_remove(i);
                (at, buf)
            }
            None => (self.room(rows), self.buffer()),
        };
        let temp = Rc::new(Temp { rows, at, buf, free: Rc::clone(&self.free) });
        let mut r = self.region(&layout, at, buf);
        r.spread = phys[phys.len() - 1] == 1;
        r.own = true;
        r.temp = Some(temp);
        r
    }

    /// The region of an array in the layout, at a word row of the scratch area.
    pub(super) fn region(&self, layout: &Layout, at: u32, buf: crate::kernel::BufferRef) -> Region {
        let packing = layout.dtype.packing();
        let mut strides: Vec<i64> = layout.row_strides().into_iter().map(|s| s as i64).collect();
        strides.pop();
        Region {
            dtype: layout.dtype,
            base: self.scratch[packing.trailing_zeros() as usize],
            offset: (at * packing as u32) as i32,
            steps: strides,
            plane: layout.plane_rows() as i64,
            lane: Lane::known(0),
            guarded: false,
            spread: false,
            own: false,
            buf,
            temp: None,
        }
    }

    /// Computes a vector now: into registers if it is small, else into memory.
    pub(super) fn force(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Result<(), Refused> {
        if matches!(&*t.expr.borrow(), Expr::Memory(_) | Expr::Regs(_) | Expr::Splat(_)) {
            return Ok(());
        }
        t.shared.set(false);
        if matches!(&*t.expr.borrow(), Expr::Product(_)) {
            return self.force_memory(b, t).map(|_| ());
        }
        if tiles(&t.phys(), self.shape()) <= SMALL {
            let mut body = Keep { of: t, values: Vec::new() };
            let walk = Walk::new(&t.phys(), self.shape(), &[], true);
            self.making.push(Rc::clone(t));
            let done = self.nest(b, walk, std::slice::from_ref(t), &[], &mut body);
            self.making.pop();
            done?;
            let values = body.values;
            *t.expr.borrow_mut() = Expr::Regs(Rc::new(values));
            return Ok(());
        }
        self.force_memory(b, t).map(|_| ())
    }

    /// The register of a vector of one element.
    pub(super) fn single(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Result<Value, Refused> {
        let mut body = Keep { of: t, values: Vec::new() };
        let walk = Walk::new(&t.phys(), self.shape(), &[], true);
        self.nest(b, walk, std::slice::from_ref(t), &[], &mut body)?;
        body.values.first().copied().ok_or_else(|| Refused::new("a vector without elements".to_string()))
    }

    /// Computes a vector into memory; where it is.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for products alone")]
    pub(super) fn force_memory(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Result<Region, Refused> {
        if let Expr::Memory(r) = &*t.expr.borrow() {
            return Ok(r.clone());
        }
        t.shared.set(false);
        let product = match &*t.expr.borrow() {
            Expr::Product(p) => Some(Rc::clone(p)),
            _ => None,
        };
        if let Some(p) = product {
            self.land(b)?;
            if let Expr::Memory(r) = &*t.expr.borrow() {
                return Ok(r.clone());
            }
            let region = self.multiplied(b, t, &p)?;
            *t.expr.borrow_mut() = Expr::Memory(region.clone());
            return Ok(region);
        }
        let region = self.temp(b, &t.dims, t.form, t.dtype);
        self.making.push(Rc::clone(t));
        let done = self.store_all(b, t, &region);
        self.making.pop();
        done?;
        *t.expr.borrow_mut() = Expr::Memory(region.clone());
        Ok(region)
    }

    /// A vector in registers also goes to memory.
    pub(super) fn spill(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>) -> Result<(), Refused> {
        self.force_memory(b, t).map(|_| ())
    }

    /// Computes all of a vector into a region of its sizes.
    pub(super) fn store_all(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, to: &Region) -> Result<(), Refused> {
        self.store_mapped(b, t, to, &t.phys(), &Clone::clone)
    }

    /// Computes all of a vector into a region of sizes `phys`, whose tiles `map` finds.
    pub(super) fn store_mapped(
        &mut self,
        b: &mut KernelBuilder,
        t: &Rc<Tensor>,
        to: &Region,
        phys: &[u64],
        map: &dyn Fn(&At) -> At,
    ) -> Result<(), Refused> {
        let mut body = Store { of: t, to, map, phys: phys.to_vec() };
        let walk = Walk::new(&t.phys(), self.shape(), &[], needs_columns(t));
        self.nest(b, walk, std::slice::from_ref(t), &[(to, map)], &mut body)
    }

    pub(super) fn load_tile(&mut self, b: &mut KernelBuilder, n: &Nest, r: &Region, phys: &[u64], at: &At) -> Value {
        let d = phys.len();
        let (base, offset) = n.address(r, at);
        let stride = if phys[d - 2] == 1 { 0 } else { r.row() as i32 };
        let mut place = Place { base, offset, stride, buf: r.buf, component_rows: 0 };
        let rows = (phys[d - 2], at.row);
        let v = self.load_rows(b, n, r, rows, place);
        if phys[d - 1] == 1 && !r.spread {
            let idx = self.splat_num(b, r.lane.first);
            return lanes_of(b, &v, |b, v| b.v(Op::XPermLane, &[v, idx]));
        }
        if r.lane.first == Num::Const(0) {
            return v;
        }
        let lanes = self.shape().1;
        let low = self.rotate(b, &v, r.lane.first, true);
        let left = phys[d - 1] - u64::from(if Nest::is_fixed(at.col) { at.col.fixed * lanes } else { 0 });
        if matches!(r.lane.first, Num::Const(l) if left <= u64::from(lanes) - l as u64) {
            return low;
        }
        match r.lane.beyond {
            Some(rows) => place.base = b.s(Op::SAdd, &[base, rows]),
            None => place.offset += r.plane as i32,
        }
        let next = self.load_rows(b, n, r, rows, place);
        let high = self.rotate(b, &next, r.lane.first, true);
        let edge = self.lanes_until(b, r.lane.first);
        crate::emit::elementwise::select(b, &Value::mask(edge), &low, &high)
    }

    /// A register's rows of a tile that is at `at` among `rows`. Of a guarded region only the vector's own are read.
    fn load_rows(
        &mut self,
        b: &mut KernelBuilder,
        n: &Nest,
        r: &Region,
        (rows, at): (u64, Coord),
        place: Place,
    ) -> Value {
        let sub = self.sub();
        let count = rows.div_ceil(u64::from(sub)) as u32;
        let full = rows == 1 || rows.is_multiple_of(u64::from(sub));
        if !r.guarded || full || !n.may_be_last(at, count) {
            return load_value(b, r.dtype, place);
        }
        let step = place.stride;
        if count == 1 {
            let one = |b: &mut KernelBuilder, i: i32| {
                load_value(b, r.dtype, Place { offset: place.offset + i * step, stride: 0, ..place })
            };
            let mut all = one(b, 0);
            for i in 1..rows as i32 {
                let (row, above) = (one(b, i), b.sublanes_below(i as u32));
                all = crate::emit::elementwise::select(b, &Value::mask(above), &all, &row);
            }
            return all;
        }
        // The last rows are read behind those before them, and moved to the first sublanes.
        let (s, fixed) = n.count(at);
        let beyond = ((fixed + 1) * sub) as i32 - rows as i32;
        if s == S::ZERO {
            let v = load_value(b, r.dtype, Place { offset: place.offset - beyond * step, ..place });
            return lanes_of(b, &v, |b, v| b.rot_sublane(v, -beyond));
        }
        let turns = b.s_muli(s, sub as i32);
        let end = b.s_addi(turns, beyond);
        let back = b.s(Op::SMax, &[end, S::ZERO]);
        let before = b.s_muli(back, step);
        let base = b.s(Op::SSub, &[place.base, before]);
        let v = load_value(b, r.dtype, Place { base, ..place });
        let (sublane, back) = (b.sublane(), b.splat(back));
        let from = b.v(Op::VAddI, &[sublane, back]);
        lanes_of(b, &v, |b, v| b.v(Op::XPermSub, &[v, from]))
    }

    /// Lanes below `lanes - n`.
    fn lanes_until(&mut self, b: &mut KernelBuilder, n: Num) -> M {
        let lanes = self.shape().1 as i32;
        match n {
            Num::Const(n) => b.lanes_below((lanes - n) as u32),
            Num::Reg(s) => {
                let (lane, n) = (b.lane(), b.splat(s));
                let sum = b.v(Op::VAddI, &[lane, n]);
                b.test(Op::VLtS, sum, lanes)
            }
        }
    }

    /// Lanes moved up by a number (down where `back`).
    pub(super) fn rotate(&mut self, b: &mut KernelBuilder, v: &Value, by: Num, back: bool) -> Value {
        let by = match by {
            Num::Const(n) => Num::Const(if back { -n } else { n }),
            Num::Reg(s) if back => Num::Reg(b.s(Op::SSub, &[S::ZERO, s])),
            n => n,
        };
        lanes_of(b, v, |b, v| match by {
            Num::Const(0) => v,
            Num::Const(n) => b.rot_lane(v, n),
            Num::Reg(s) => b.rot_lane_s(v, s),
        })
    }

    /// A tile of columns that are moved up by fewer lanes than a register has.
    pub(super) fn turn(&mut self, b: &mut KernelBuilder, this: &Value, before: &Value, by: Num) -> Value {
        let (this, before) = (self.rotate(b, this, by, false), self.rotate(b, before, by, false));
        let (lane, by) = (b.lane(), self.splat_num(b, by));
        let first = b.cmp(Op::VLtS, lane, by);
        crate::emit::elementwise::select(b, &Value::mask(first), &before, &this)
    }

    pub(super) fn splat_num(&mut self, b: &mut KernelBuilder, n: Num) -> V {
        match n {
            Num::Const(c) => b.v_imm(c),
            Num::Reg(s) => b.splat(s),
        }
    }

    pub(super) fn store_tile(&mut self, b: &mut KernelBuilder, n: &Nest, r: &Region, phys: &[u64], v: &Value, at: &At) {
        let d = phys.len();
        let (sub, lanes) = self.shape();
        let (base, offset) = n.address(r, at);
        let rows = self.row_mask(b, n, r, phys[d - 2], at.row);
        let stride = if phys[d - 2] == 1 { 0 } else { r.row() as i32 };
        let _ = sub;
        let mut place = Place { base, offset, stride, buf: r.buf, component_rows: 0 };
        let and = |b: &mut KernelBuilder, a: M, c: M| {
            if a == M::ALL {
                c
            } else if c == M::ALL {
                a
            } else {
                b.m_and(a, c)
            }
        };
        if r.lane.first == Num::Const(0) {
            let last = phys[d - 1] % u64::from(lanes);
            let count = phys[d - 1].div_ceil(u64::from(lanes)) as u32;
            let cols = match last {
                0 => M::ALL,
                _ if r.own || r.spread || !n.may_be_last(at.col, count) => M::ALL,
                _ if Nest::is_fixed(at.col) => b.lanes_below(last as u32),
                // Columns by a loop: as many lanes as are left.
                _ => {
                    let (s, fixed) = n.count(at.col);
                    let left = b.s_muli(s, -(lanes as i32));
                    let left = b.s_addi(left, phys[d - 1] as i32 - (fixed * lanes) as i32);
                    let (lane, left) = (b.lane(), b.splat(left));
                    b.cmp(Op::VLtS, lane, left)
                }
            };
            let mask = and(b, rows, cols);
            return store_value(b, v, place, mask);
        }
        // Lanes that begin within a register: the end lies in the next plane.
        let (s, fixed) = n.count(at.col);
        let width = (phys[d - 1] as i32 - (fixed * lanes) as i32).min(lanes as i32);
        let width = match s {
            S::ZERO => Num::Const(width),
            s => {
                let left = b.s_muli(s, -(lanes as i32));
                let left = b.s_addi(left, phys[d - 1] as i32 - (fixed * lanes) as i32);
                let all = b.s_imm(lanes as i32);
                Num::Reg(b.s(Op::SMin, &[left, all]))
            }
        };
        let moved = self.rotate(b, v, r.lane.first, false);
        let (lane, first) = (b.lane(), self.splat_num(b, r.lane.first));
        let end = self.splat_num(b, width);
        let end = b.v(Op::VAddI, &[first, end]);
        let from = b.cmp(Op::VLeS, first, lane);
        let to = b.cmp(Op::VLtS, lane, end);
        let mask = b.m_and(from, to);
        let mask = and(b, rows, mask);
        store_value(b, &moved, place, mask);
        if let (Num::Const(l), Num::Const(w)) = (r.lane.first, width)
            && l + w <= lanes as i32
        {
            return;
        }
        place.offset += r.plane as i32;
        let beyond = b.v2(Op::VSubI, end, lanes as i32);
        let mask = b.cmp(Op::VLtS, lane, beyond);
        let mask = and(b, rows, mask);
        store_value(b, &moved, place, mask);
    }

    /// Sublanes of a tile that are rows of the vector, where others must stay as they are.
    fn row_mask(&mut self, b: &mut KernelBuilder, n: &Nest, r: &Region, rows: u64, at: Coord) -> M {
        let sub = self.sub();
        let last = (rows % u64::from(sub)) as u32;
        if last == 0 || r.own && rows > 1 && r.row() == 1 || !n.may_be_last(at, rows.div_ceil(u64::from(sub)) as u32) {
            return M::ALL;
        }
        self.rows_left(b, n, rows, at)
    }

    /// Sublanes of a tile that are among so many rows.
    pub(super) fn rows_left(&mut self, b: &mut KernelBuilder, n: &Nest, rows: u64, at: Coord) -> M {
        match left(b, n.count(at), rows, self.sub()) {
            Left::Known(n) => b.sublanes_below(n),
            Left::At(n) => {
                let (sublane, n) = (b.sublane(), b.splat(n));
                b.cmp(Op::VLtS, sublane, n)
            }
        }
    }

    /// Lanes of a tile that are among so many columns.
    pub(super) fn cols_left(&mut self, b: &mut KernelBuilder, n: &Nest, cols: u64, at: Coord) -> M {
        match left(b, n.count(at), cols, self.shape().1) {
            Left::Known(n) => b.lanes_below(n),
            Left::At(n) => {
                let (lane, n) = (b.lane(), b.splat(n));
                b.cmp(Op::VLtS, lane, n)
            }
        }
    }

    /// The numbers of a tile's elements along a dimension.
    pub(super) fn iota(&mut self, b: &mut KernelBuilder, n: &Nest, t: &Tensor, dim: usize, at: &At) -> Value {
        let phys = t.phys();
        let rank = t.dims.len() + usize::from(t.form == Form::Rows);
        let d = dim + phys.len() - rank;
        let (coord, scale, own) = match phys.len() - d {
            1 => (at.col, self.shape().1, Some(b.lane())),
            2 => (at.row, self.sub(), Some(b.sublane())),
            _ => (at.outer[d], 1, None),
        };
        let (s, fixed) = n.count(coord);
        let fixed = (fixed * scale) as i32;
        let first = match s {
            S::ZERO => b.v_imm(fixed),
            s => {
                let s = if scale == 1 { s } else { b.s_muli(s, scale as i32) };
                let s = if fixed == 0 { s } else { b.s_addi(s, fixed) };
                b.splat(s)
            }
        };
        // Of one row, or of one column: all the same.
        let own = own.filter(|_| phys[d] > 1);
        let v = match own {
            Some(own) if s == S::ZERO && fixed == 0 => own,
            Some(own) => b.v(Op::VAddI, &[own, first]),
            None => first,
        };
        convert(b, &Value::word(DType::S32, v), t.dtype)
    }
}

/// Moves the lanes of a value of any type.
pub(super) fn lanes_of(b: &mut KernelBuilder, v: &Value, f: impl Fn(&mut KernelBuilder, V) -> V) -> Value {
    if v.dtype == DType::Pred {
        let bits = b.sel(v.m(), 1, 0);
        let bits = f(b, bits);
        return Value::mask(b.test(Op::VNeI, bits, 0));
    }
    let moved: Vec<V> = v.all().iter().map(|v| f(b, *v)).collect();
    Value::words(v.dtype, &moved)
}
