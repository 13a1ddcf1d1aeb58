//! Rotations of vectors along rows and columns.

use super::scalar::{add, two};
use super::value::{Expr, Form, Fun, Num, Region, Tensor, Val};
use super::{Lower, Made, Refused};
use crate::emit::Value;
use crate::kernel::KernelBuilder;
use std::rc::Rc;
use systole_hlo::graph::Binary;
use systole_isa::{DType, Op};
use systole_mosaic::Operation;

impl Lower<'_> {
    pub(super) fn rotated(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let t = self.vector(o, 0)?;
        let t = self.in_form(b, &t, Form::Lanes)?;
        let dim = o.int("dimension").and_then(|d| usize::try_from(d).ok()).filter(|d| *d < t.dims.len());
        let dim = dim.ok_or_else(|| Refused::at(o, "of no dimension"))?;
        let by = match o.operands.len() {
            1 => Num::Const(o.int("amount").unwrap_or(0) as i32),
            _ => self.int(o, 1)?,
        };
        let size = t.dims[dim] as i32;
        // The amount within 0..size; as unsigned numbers, as the machine has it.
        let by = two(b, Op::SRem, by, Num::Const(size));
        let by = match by {
            Num::Const(c) => Num::Const(c.rem_euclid(size)),
            Num::Reg(_) => {
                let up = add(b, by, Num::Const(size));
                two(b, Op::SRem, up, Num::Const(size))
            }
        };
        if let Some(stride) = o.int("stride").filter(|s| *s != 0) {
            let along = o.int("stride_dimension").and_then(|d| usize::try_from(d).ok()).filter(|d| *d < t.dims.len());
            let along = along.ok_or_else(|| Refused::at(o, "by amounts that differ along no dimension"))?;
            return self.rolled_more(b, o, &t, (dim, by), (along, stride as i32)).map(Val::Vector);
        }
        if by == Num::Const(0) {
            return Ok(Val::Vector(t));
        }
        if dim + 1 < t.dims.len() {
            return self.rolled_rows(b, &t, dim, by).map(Val::Vector);
        }
        self.rolled_columns(b, &t, by).map(Val::Vector)
    }

    /// Rolled along one of the last two dimensions, by so much more with every index of another one: elements are chosen by
    /// their numbers.
    fn rolled_more(
        &mut self,
        b: &mut KernelBuilder,
        o: &Operation,
        t: &Rc<Tensor>,
        (dim, by): (usize, Num),
        (along, stride): (usize, i32),
    ) -> Made {
        let n = t.dims.len();
        if dim + 2 < n || along == dim {
            return Err(Refused::at(o, "by amounts that differ, along other dimensions than one of the last two"));
        }
        let dims = t.dims.clone();
        let numbers = |d| Tensor::new(&dims, Form::Lanes, DType::S32, Expr::Iota(d));
        let splat = |l: &mut Self, b: &mut KernelBuilder, n: Num| {
            let v = l.splat_num(b, n);
            Tensor::new(&dims, Form::Lanes, DType::S32, Expr::Splat(Value::word(DType::S32, v)))
        };
        let apply = |l: &mut Self, b: &mut KernelBuilder, f: Binary, x: Rc<Tensor>, y: Num| {
            let y = splat(l, b, y);
            l.combined(b, Fun::Binary(f), vec![x, y], &dims, DType::S32)
        };
        let size = Num::Const(t.dims[dim] as i32);
        let more = apply(self, b, Binary::Mul, numbers(along), Num::Const(stride))?;
        let more = apply(self, b, Binary::Add, more, by)?;
        let from = self.combined(b, Fun::Binary(Binary::Sub), vec![numbers(dim), more], &dims, DType::S32)?;
        let from = apply(self, b, Binary::Rem, from, size)?;
        let from = apply(self, b, Binary::Add, from, size)?;
        let from = apply(self, b, Binary::Rem, from, size)?;
        self.picked(b, o, t, &from, dim + 1 == n)
    }

    /// Rolled along a dimension of rows: it is in memory twice, one after the other, and read from the middle.
    fn rolled_rows(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, dim: usize, by: Num) -> Made {
        let mut twice = t.dims.clone();
        let size = twice[dim];
        twice[dim] *= 2;
        let region = self.temp(b, &twice, Form::Lanes, t.dtype);
        let step = region.steps[dim];
        for half in 0..2 {
            let mut to = region.clone();
            to.offset += (half * size as i64 * step) as i32;
            to.own = false;
            self.store_all(b, t, &to)?;
        }
        let back = two(b, Op::SSub, Num::Const(size as i32), by);
        let rows = super::scalar::mul(b, back, Num::Const(step as i32));
        let mut r = region;
        self.advance(b, &mut r, rows);
        Ok(Tensor::new(&t.dims, Form::Lanes, t.dtype, Expr::Memory(r)))
    }

    /// Moves a region on by element rows.
    pub(super) fn advance(&mut self, b: &mut KernelBuilder, r: &mut Region, rows: Num) {
        match rows {
            Num::Const(c) => r.offset += c,
            Num::Reg(s) => r.base = b.s(Op::SAdd, &[r.base, s]),
        }
    }

    fn rolled_columns(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, by: Num) -> Made {
        let lanes = u64::from(self.shape().1);
        let n = t.dims.len();
        let cols = t.dims[n - 1];
        let whole = cols.is_multiple_of(lanes);
        if !whole {
            // Twice side by side, read from the middle; a register more where a read goes on.
            let mut twice = t.dims.clone();
            twice[n - 1] = 2 * cols + if cols > lanes { lanes } else { 0 };
            let region = self.temp(b, &twice, Form::Lanes, t.dtype);
            for half in 0..2 {
                let mut to = self.columns(&region, half * cols);
                to.own = false;
                self.store_all(b, t, &to)?;
            }
            let back = two(b, Op::SSub, Num::Const(cols as i32), by);
            let mut r = region;
            r.own = true;
            self.skip_columns(b, &mut r, back, cols);
            return Ok(Tensor::new(&t.dims, Form::Lanes, t.dtype, Expr::Memory(r)));
        }
        // The last register stands before the first too, and all of that twice.
        let planes = cols / lanes;
        let mut more = t.dims.clone();
        more[n - 1] = (2 * planes + 1) * lanes;
        let region = self.temp(b, &more, Form::Lanes, t.dtype);
        for p in 0..2 {
            let mut to = self.columns(&region, (1 + p * planes) * lanes);
            to.own = false;
            self.store_all(b, t, &to)?;
        }
        // Behind the first pair: column tiles `1 + planes - q + j` and the one before.
        let bits = lanes.trailing_zeros() as i32;
        let q = two(b, Op::SShr, by, Num::Const(bits));
        let within = two(b, Op::SAnd, by, Num::Const(lanes as i32 - 1));
        let first = two(b, Op::SSub, Num::Const(planes as i32), q);
        let rows = super::scalar::mul(b, first, Num::Const(region.plane as i32));
        let mut r = region;
        self.advance(b, &mut r, rows);
        let mut sizes = t.dims.clone();
        sizes[n - 1] = (planes + 1) * lanes;
        let twice = Tensor::new(&sizes, Form::Lanes, t.dtype, Expr::Memory(r));
        Ok(Tensor::new(&t.dims, Form::Lanes, t.dtype, Expr::Turned(twice, within)))
    }

    /// Moves a region on by columns; of so many columns it is.
    pub(super) fn skip_columns(&mut self, b: &mut KernelBuilder, r: &mut Region, by: Num, columns: u64) {
        let lanes = self.shape().1 as i32;
        let lane = add(b, r.lane.first, by);
        match lane {
            Num::Const(c) => {
                r.offset += c / lanes * r.plane as i32;
                r.lane.first = Num::Const(c % lanes);
            }
            Num::Reg(_) => {
                let q = two(b, Op::SShr, lane, Num::Const(lanes.trailing_zeros() as i32));
                let rows = super::scalar::mul(b, q, Num::Const(r.plane as i32));
                self.advance(b, r, rows);
                r.lane.first = two(b, Op::SAnd, lane, Num::Const(lanes - 1));
                // Columns that end in their register are not looked for in the next one, which may belong to others.
                let width = columns.clamp(1, lanes as u64) as i32;
                let ends = super::scalar::less(b, r.lane.first, Num::Const(lanes - width + 1));
                let (ends, plane) = (super::scalar::reg(b, ends), b.s_imm(r.plane as i32));
                r.lane.beyond = Some(b.s(Op::SSel, &[ends, crate::kernel::S::ZERO, plane]));
            }
        }
        r.spread = false;
    }
}
