//! Elements that are chosen by number along rows or columns.

use super::nest::{At, Coord};
use super::value::{Expr, Form, Tensor, Val};
use super::{Lower, Refused};
use crate::emit::elementwise::select;
use crate::emit::{Value, operand::Ops};
use crate::kernel::KernelBuilder;
use std::rc::Rc;
use systole_isa::{DType, Op};
use systole_mosaic::Operation;

/// Registers that one element may come from at most.
const SOURCES: u64 = 64;

impl Lower<'_> {
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
    ) -> Result<Rc<Tensor>, Refused> {
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
