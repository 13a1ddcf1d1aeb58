//! Copies of as many rows as are known at run time only: a copy for each bit of the number, the highest first.

use super::super::scalar::{add, mul, reg, two};
use super::super::value::{Num, Ref};
use super::super::{Lower, Refused};
use crate::kernel::KernelBuilder;
use systole_isa::Op;

impl Lower<'_> {
    /// Two arrays as so many indices of their open dimension, and the most that both have.
    fn opened(from: &Ref, to: &Ref, d: usize, count: u64) -> Result<(Ref, Ref), Refused> {
        if from.dims.len() != to.dims.len() {
            return Err(Refused::new(format!("between arrays of sizes {:?} and {:?}", from.dims, to.dims)));
        }
        let cut = |r: &Ref| {
            let mut r = r.clone();
            r.dims[d] = count;
            r.open = None;
            r
        };
        Ok((cut(from), cut(to)))
    }

    /// Indices of the open dimension that are copied together: rows that share words are not taken apart.
    fn open_unit(from: &Ref, to: &Ref, d: usize) -> u64 {
        let shares = |r: &Ref| r.strides.get(d).copied().flatten().is_some_and(|s| s % r.dtype.packing() as i64 != 0);
        if shares(from) || shares(to) { from.dtype.packing() as u64 } else { 1 }
    }

    /// Starts the copy of an array to another of which `size` indices of dimension `d` are copied.
    pub(super) fn start_open(
        &mut self,
        b: &mut KernelBuilder,
        from: &Ref,
        to: &Ref,
        (d, size): (usize, Num),
        sem: u32,
    ) -> Result<(), Refused> {
        if self.is_carried(sem) {
            return Err(Refused::new(
                "of a size known at run time only, with a semaphore that goes on behind the kernel",
            ));
        }
        let unit = Self::open_unit(from, to, d);
        let most = from.dims[d].min(to.dims[d]) / unit;
        let rest = two(b, Op::SAnd, size, Num::Const(unit as i32 - 1));
        if rest != Num::Const(0) {
            let rest = reg(b, rest);
            b.if_(rest, |b| {
                self.fails(b, "a copy ends within a word: its rows are no multiple of the rows that share one")
            });
        }
        let units = two(b, Op::SShr, size, Num::Const(unit.trailing_zeros() as i32));
        let beyond = super::super::scalar::less(b, Num::Const(most as i32), units);
        let beyond = reg(b, beyond);
        b.if_(beyond, |b| self.fails(b, "a copy of more rows than there are"));
        let done = b.s_var(0);
        let mut failed = Ok(());
        for bit in (0..64 - most.leading_zeros()).rev() {
            let here = two(b, Op::SAnd, units, Num::Const(1 << bit));
            let count = unit << bit;
            let here = reg(b, here);
            b.if_(here, |b| {
                failed = std::mem::replace(&mut failed, Ok(())).and_then(|()| {
                    let (from, to) = Self::opened(from, to, d, count)?;
                    let mut first = vec![Num::Const(0); d];
                    first.push(Num::Reg(done));
                    let (from, to) = (self.at(b, &from, &first), self.at(b, &to, &first));
                    self.start(b, &from, &to, sem)?;
                    b.s_inc(done, count as i32);
                    Ok(())
                });
            });
        }
        failed
    }

    /// The bytes of such a copy.
    pub(super) fn open_bytes(
        &mut self,
        b: &mut KernelBuilder,
        from: &Ref,
        to: &Ref,
        (d, size): (usize, Num),
    ) -> Result<Num, Refused> {
        let unit = Self::open_unit(from, to, d);
        let (one, other) = Self::opened(from, to, d, unit)?;
        let bytes = self.bytes(&one, &other)?;
        let units = two(b, Op::SShr, size, Num::Const(unit.trailing_zeros() as i32));
        let bytes = mul(b, units, Num::Const(bytes));
        Ok(add(b, bytes, Num::Const(0)))
    }
}
