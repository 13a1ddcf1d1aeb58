//! Elements that are chosen by number along rows or columns, and rows that are cut anew.

use super::nest::{At, Coord};
use super::tiles::lanes_of;
use super::value::{Expr, Form, Num, Region, Tensor, Val, phys};
use super::{Lower, Made, Refused};
use crate::emit::Value;
use crate::emit::elementwise::select;
use crate::emit::memory::{Place, load_value, store_value};
use crate::kernel::KernelBuilder;
use std::rc::Rc;
use systole_isa::{DType, Op};
use systole_mosaic::Operation;

/// Registers that one element may come from at most.
const SOURCES: u64 = 64;

/// Parts of rows that a reshape moves at most: each is code of its own.
const MOVED: usize = 4096;

/// Elements that lie together before and after a reshape: rows and first columns there and here, and how many.
struct Run {
    from: (u64, u64),
    to: (u64, u64),
    len: u64,
}

/// The runs of a reshape of rows of `c` elements to rows of `d`; `None` if they are too many.
fn runs(total: u64, (c, d): (u64, u64), lanes: u64) -> Option<Vec<Run>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < total {
        let (from, to) = ((at / c, at % c), (at / d, at % d));
        let len = (c - from.1).min(d - to.1).min(lanes - from.1 % lanes).min(lanes - to.1 % lanes);
        out.push(Run { from, to, len });
        at += len;
        if out.len() > MOVED {
            return None;
        }
    }
    Some(out)
}

/// The element row of a vector's row, by number over all outer dimensions, and of the register that a column is in.
fn row_of(r: &Region, phys: &[u64], (row, column): (u64, u64), lanes: u64) -> i32 {
    let mut rest = row;
    let mut at = i64::from(r.offset) + (column / lanes) as i64 * r.plane;
    for (size, step) in phys[..phys.len() - 1].iter().zip(&r.steps).rev() {
        at += (rest % size) as i64 * step;
        rest /= size;
    }
    at as i32
}

impl Lower<'_> {
    /// A reshape by way of rows that lie together: what is padded between them keeps others from being moved at once.
    pub(super) fn by_rows(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, from: &Region, dims: &[u64]) -> Made {
        let (have, want) = (t.phys(), phys(dims, Form::Lanes));
        let (c, d) = (have[have.len() - 1], want[want.len() - 1]);
        let total: u64 = have.iter().product();
        if c % d == 0 && want.len() > 2 {
            let rows = self.moved(b, t, from, &[total / d, d])?;
            return self.reshaped(b, &rows, dims);
        }
        let (n, wrong) = (have.len() - 1, || Refused::new(format!("a reshape of {have:?} to {want:?}")));
        if d % c != 0 || n < 2 {
            return Err(wrong());
        }
        let together = self.temp(b, &[total / c, c], Form::Lanes, t.dtype);
        let mut to = together.clone();
        to.steps = super::shapes::restrided(&[total / c], &together.steps, &have[..n]).ok_or_else(wrong)?;
        to.own = false;
        self.store_all(b, t, &to)?;
        let rows = Tensor::new(&[total / c, c], Form::Lanes, t.dtype, Expr::Memory(together.clone()));
        self.moved(b, &rows, &together, dims)
    }

    /// Elements in row-major order under other sizes, where neither rows nor registers stay what they are: run by run.
    pub(super) fn cut_anew(&mut self, b: &mut KernelBuilder, t: &Rc<Tensor>, from: &Region, dims: &[u64]) -> Made {
        let (have, want) = (t.phys(), phys(dims, Form::Lanes));
        let lanes = u64::from(self.shape().1);
        let columns = (have[have.len() - 1], want[want.len() - 1]);
        let all = runs(have.iter().product(), columns, lanes).filter(|_| from.lane.first == Num::Const(0));
        let all = all.ok_or_else(|| Refused::new(format!("a reshape of {have:?} to {want:?}")))?;
        let region = self.temp(b, dims, Form::Lanes, t.dtype);
        for run in all {
            let place = |r: &Region, offset| Place { base: r.base, offset, stride: 0, buf: r.buf, component_rows: 0 };
            // The row is in every sublane.
            let v = load_value(b, from.dtype, place(from, row_of(from, &have, run.from, lanes)));
            let (first, there) = ((run.to.1 % lanes) as i32, (run.from.1 % lanes) as i32);
            let v = if first == there { v } else { lanes_of(b, &v, |b, v| b.rot_lane(v, first - there)) };
            let (end, begin) = (b.lanes_below(first as u32 + run.len as u32), b.lanes_below(first as u32));
            let (one, begun) = (b.sublane_is(0), b.m_not(begin));
            let inside = b.m_and(end, begun);
            let mask = b.m_and(inside, one);
            store_value(b, &v, place(&region, row_of(&region, &want, run.to, lanes)), mask);
        }
        Ok(Tensor::new(dims, Form::Lanes, t.dtype, Expr::Memory(region)))
    }

    pub(super) fn gathered(&mut self, b: &mut KernelBuilder, o: &Operation) -> Result<Val, Refused> {
        let (of, by) = (self.vector(o, 0)?, self.vector(o, 1)?);
        let (of, by) = (self.in_form(b, &of, Form::Lanes)?, self.in_form(b, &by, Form::Lanes)?);
        let dims = self.dims(o)?;
        let n = dims.len();
        let along = o.ints("dimensions").or_else(|| o.int("dimension").map(|d| vec![d])).unwrap_or_default();
        let axis = match along[..] {
            [d] if n >= 2 && d == n as i64 - 1 => 1,
            [d] if n >= 2 && d == n as i64 - 2 => 0,
            _ => return Err(Refused::at(o, "along other dimensions than one of the last two")),
        };
        let others = |a: &[u64]| a.iter().enumerate().all(|(i, d)| i == n - 2 + axis || *d == dims[i]);
        if by.dims != dims || of.dims.len() != n || !others(&of.dims) {
            return Err(Refused::at(o, format!("of sizes {:?} by numbers of sizes {:?}", of.dims, by.dims)));
        }
        self.picked(b, o, &of, &by, axis == 1).map(Val::Vector)
    }

    /// Elements of a vector along its columns or rows, by numbers in a vector of the result's sizes.
    pub(super) fn picked(
        &mut self,
        b: &mut KernelBuilder,
        o: &Operation,
        of: &Rc<Tensor>,
        by: &Rc<Tensor>,
        columns: bool,
    ) -> Made {
        if by.dtype.bits() != 32 || self.count(of, columns) > SOURCES {
            return Err(Refused::at(o, format!("of {:?} elements by {} numbers", of.dims, by.dtype)));
        }
        let (by, dims) = (self.in_form(b, by, Form::Lanes)?, by.dims.clone());
        Ok(Tensor::new(&dims, Form::Lanes, of.dtype, Expr::Gather(Rc::clone(of), by, columns)))
    }

    /// Registers along columns (`columns`) or rows.
    fn count(&self, of: &Tensor, columns: bool) -> u64 {
        let (phys, (sub, lanes)) = (of.phys(), self.shape());
        let n = phys.len();
        if columns { phys[n - 1].div_ceil(u64::from(lanes)) } else { phys[n - 2].div_ceil(u64::from(sub)) }
    }

    /// The tiles that a tile's elements come from.
    pub(super) fn sources(&self, of: &Tensor, at: &At, columns: bool) -> Vec<At> {
        let tile = |i: u32| match columns {
            true => At { col: Coord::at(i), ..at.clone() },
            false => At { row: Coord::at(i), ..at.clone() },
        };
        (0..self.count(of, columns) as u32).map(tile).collect()
    }

    /// Of tiles side by side (or one below the other) the elements that the numbers say.
    pub(super) fn chosen(&self, b: &mut KernelBuilder, tiles: &[Value], by: &Value, columns: bool) -> Value {
        let (sub, lanes) = self.shape();
        let (size, op) = if columns { (lanes, Op::XPermLane) } else { (sub, Op::XPermSub) };
        let within = b.and(by.v(), size as i32 - 1);
        let moved = |b: &mut KernelBuilder, v: &Value| super::tiles::lanes_of(b, v, |b, v| b.v(op, &[v, within]));
        let mut out = moved(b, &tiles[0]);
        let bits = b.v_imm(size.trailing_zeros() as i32);
        let tile = b.v(Op::VShr, &[by.v(), bits]);
        for (i, t) in tiles.iter().enumerate().skip(1) {
            let here = b.test(Op::VEqI, tile, i as i32);
            let v = moved(b, t);
            out = select(b, &Value::mask(here), &v, &out);
        }
        debug_assert!(by.dtype == DType::S32 || by.dtype == DType::U32, "numbers have 32 bits");
        out
    }
}
