//! Copies that the kernel asks for itself, and semaphores; [`carried`]: those that other kernels go on with; [`open`]: of
//! sizes that are known at run time only.

pub(super) mod carried;
mod open;

use super::scalar::{add, mul, reg, two};
use super::value::{Num, Ref, Val};
use super::{Lower, Refused};
use crate::kernel::{BufferRef, DmaArgs, KernelBuilder, RemoteArgs, S};
use systole_isa::dma::{HBM_GRANULE, MAX_DMA_DIMS};
use systole_isa::{DmaDesc, DmaDim, Op, Space as Memory};
use systole_mosaic::{Operation, Space};

/// A copy's geometry: descriptors with what the two bases are moved on by for each, in bytes.
struct Geometry {
    parts: Vec<(DmaDesc, i64, i64)>,
}

fn memory(s: Space) -> Option<Memory> {
    Some(match s {
        Space::Hbm => Memory::Hbm,
        Space::Vmem => Memory::Vmem,
        Space::Smem => Memory::Smem,
        Space::Semaphore => return None,
    })
}

impl<'a> Lower<'a> {
    /// How an array is copied to another one of the same sizes.
    fn geometry(&self, from: &Ref, to: &Ref) -> Result<Geometry, Refused> {
        let lanes = self.shape().1;
        let packing = from.dtype.packing() as i64;
        let row_bytes = i64::from(lanes) * 4;
        let (Some(src), Some(dst)) = (memory(from.space), memory(to.space)) else {
            return Err(Refused::new("semaphores are not copied"));
        };
        if from.dims != to.dims || from.dtype.bits() != to.dtype.bits() {
            return Err(Refused::new(format!("between arrays of sizes {:?} and {:?}", from.dims, to.dims)));
        }
        let n = from.dims.len();
        let along = |r: &Ref| r.strides.last().is_none_or(Option::is_none);
        if !along(from) || !along(to) {
            return Err(Refused::new("a copy of columns of one lane"));
        }
        let cols = from.dims.last().copied().unwrap_or(1);
        // Rows of elements, as steps in both arrays.
        let mut dims: Vec<(u64, i64, i64)> = (0..n.saturating_sub(1))
            .map(|d| (from.dims[d], from.strides[d].unwrap_or(0), to.strides[d].unwrap_or(0)))
            .collect();
        let planes = cols.div_ceil(u64::from(lanes));
        let last = cols % u64::from(lanes);
        let partial = last != 0 && !(from.whole && to.whole);
        dims.retain(|d| d.0 != 1);
        // Rows without gaps are one run of rows.
        while let [.., (n, s, t), (count, 1, 1)] = dims[..]
            && (s, t) == (count as i64, count as i64)
        {
            dims.truncate(dims.len() - 2);
            dims.push((n * count, 1, 1));
        }
        // Rows that share words go together.
        let rows = match dims.last().copied() {
            Some((count, 1, 1)) => {
                dims.pop();
                count as i64
            }
            _ => 1,
        };
        let single = rows == 1 && packing > 1;
        let planes_together = single && from.plane == 1 && to.plane == 1 && !partial;
        let rows = if planes_together { planes as i64 } else { rows };
        let words = (rows + packing - 1) / packing;
        let bytes = |s: i64| -> Result<i64, Refused> {
            match s % packing {
                0 => Ok(s / packing * row_bytes),
                _ => {
                    [from, to].iter().for_each(|r| self.is_within(r));
                    Err(Refused::new("rows that begin within a word are not copied"))
                }
            }
        };
        let mut strided = Vec::new();
        for (count, a, c) in &dims {
            strided.push((*count, bytes(*a)?, bytes(*c)?));
        }
        let mut parts = Vec::new();
        let whole = if planes_together {
            1
        } else if partial {
            planes - 1
        } else {
            planes
        };
        if whole > 0 {
            let mut all = strided.clone();
            if whole > 1 {
                all.push((whole, bytes(from.plane)?, bytes(to.plane)?));
            }
            self.cut(src, dst, &all, words * row_bytes, (0, 0), &mut parts)?;
        }
        if partial {
            let mut all = strided;
            if words > 1 {
                all.push((words as u64, row_bytes, row_bytes));
            }
            let skip = (planes - 1) as i64;
            let start = if skip == 0 { (0, 0) } else { (skip * bytes(from.plane)?, skip * bytes(to.plane)?) };
            self.cut(src, dst, &all, last as i64 * 4, start, &mut parts)?;
        }
        Ok(Geometry { parts })
    }

    /// Descriptors of a copy of any number of dimensions.
    fn cut(
        &self,
        src: Memory,
        dst: Memory,
        dims: &[(u64, i64, i64)],
        chunk: i64,
        start: (i64, i64),
        out: &mut Vec<(DmaDesc, i64, i64)>,
    ) -> Result<(), Refused> {
        let mut chunk = chunk;
        let mut merged: Vec<(u64, i64, i64)> = Vec::new();
        for &(count, a, c) in dims.iter().rev() {
            if count == 1 {
                continue;
            }
            match merged.last_mut() {
                None if a == chunk && c == chunk => chunk *= count as i64,
                Some(m) if a == m.1 * m.0 as i64 && c == m.2 * m.0 as i64 => m.0 *= count,
                _ => merged.push((count, a, c)),
            }
        }
        merged.reverse();
        let extra = merged.len().saturating_sub(MAX_DMA_DIMS);
        let (around, inside) = merged.split_at(extra);
        let times: u64 = around.iter().map(|d| d.0).product();
        if times > 1024 {
            return Err(Refused::new("a copy of too many pieces"));
        }
        for i in 0..times {
            let (mut rest, mut at) = (i, start);
            for d in around.iter().rev() {
                let k = (rest % d.0) as i64;
                rest /= d.0;
                at = (at.0 + k * d.1, at.1 + k * d.2);
            }
            let number = |n: i64| u32::try_from(n).map_err(|_| Refused::new("a copy of too many bytes"));
            let dims =
                inside.iter().map(|d| Ok(DmaDim { count: number(d.0 as i64)?, src_stride: d.1, dst_stride: d.2 }));
            let dims = dims.collect::<Result<Vec<DmaDim>, Refused>>()?;
            out.push((DmaDesc { src, dst, chunk: number(chunk)?, dims }, at.0, at.1));
        }
        Ok(())
    }

    /// The base of an array, and bytes behind it.
    fn address(&mut self, b: &mut KernelBuilder, r: &Ref) -> Result<(S, Num), Refused> {
        let lanes = self.shape().1 as i32;
        let packing = r.dtype.packing() as i32;
        let shift = packing.trailing_zeros() as i32;
        let row_bytes = lanes * 4;
        // Whole planes of lanes, then lanes.
        let q = two(b, Op::SShr, r.lane, Num::Const(lanes.trailing_zeros() as i32));
        let q = mul(b, q, Num::Const(r.plane as i32));
        let rows = add(b, r.offset, q);
        let lane = two(b, Op::SAnd, r.lane, Num::Const(lanes - 1));
        let lane_bytes = mul(b, lane, Num::Const(4));
        match r.space {
            Space::Vmem => {
                let base = match r.base {
                    s if shift == 0 => s,
                    s if s == self.scratch[shift as usize] => self.word_row,
                    s => b.def_s(Op::SShrI, &[s.into(), shift.into()]),
                };
                let words = two(b, Op::SSar, rows, Num::Const(shift));
                Ok((self.moved_on(b, base, words), lane_bytes))
            }
            Space::Smem => {
                let words = mul(b, rows, Num::Const(lanes));
                let words = add(b, words, lane);
                Ok((self.moved_on(b, r.base, words), Num::Const(0)))
            }
            Space::Hbm => {
                let words = two(b, Op::SSar, rows, Num::Const(shift));
                if row_bytes as u64 == HBM_GRANULE {
                    return Ok((self.moved_on(b, r.base, words), lane_bytes));
                }
                let bytes = mul(b, words, Num::Const(row_bytes));
                Ok((r.base, add(b, bytes, lane_bytes)))
            }
            Space::Semaphore => Err(Refused::new("semaphores are not copied")),
        }
    }

    fn moved_on(&mut self, b: &mut KernelBuilder, base: S, by: Num) -> S {
        match by {
            Num::Const(0) => base,
            Num::Const(c) => b.s_addi(base, c),
            Num::Reg(s) => b.s(Op::SAdd, &[base, s]),
        }
    }

    /// Starts the copy of an array to another.
    pub(super) fn start(&mut self, b: &mut KernelBuilder, from: &Ref, to: &Ref, sem: u32) -> Result<(), Refused> {
        let g = self.geometry(from, to)?;
        let (src, src_offset) = self.address(b, from)?;
        let (dst, dst_offset) = self.address(b, to)?;
        for (desc, p, q) in g.parts {
            let desc = self.desc(desc);
            let p = add(b, src_offset, Num::Const(p as i32));
            let q = add(b, dst_offset, Num::Const(q as i32));
            let (p, q) = (reg(b, p), reg(b, q));
            let args = DmaArgs { desc, src, src_offset: p, dst, dst_offset: q, sem };
            b.dma_start(args, &[from.buf], &[to.buf]);
        }
        Ok(())
    }

    /// Waits for the copy of an array to another.
    pub(super) fn finish(&mut self, b: &mut KernelBuilder, from: &Ref, to: &Ref, sem: u32) -> Result<(), Refused> {
        let bytes = self.bytes(from, to)?;
        b.dma_wait(sem, bytes, &[from.buf], &[to.buf]);
        Ok(())
    }

    pub(super) fn bytes(&self, from: &Ref, to: &Ref) -> Result<i32, Refused> {
        let total: u64 = self.geometry(from, to)?.parts.iter().map(|p| p.0.bytes()).sum();
        i32::try_from(total).map_err(|_| Refused::new("a copy of too many bytes"))
    }

    /// Runs code for the semaphore that a reference names.
    pub(super) fn with_semaphore(
        &mut self,
        b: &mut KernelBuilder,
        r: &Ref,
        f: &mut dyn FnMut(&mut Lower<'a>, &mut KernelBuilder, u32) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        if r.space != Space::Semaphore {
            return Err(Refused::new("an operand is no semaphore"));
        }
        match r.offset {
            Num::Const(c) => f(self, b, c as u32),
            Num::Reg(s) => self.one_of(b, s, r.semaphores, f),
        }
    }

    fn one_of(
        &mut self,
        b: &mut KernelBuilder,
        s: S,
        (first, n): (u32, u32),
        f: &mut dyn FnMut(&mut Lower<'a>, &mut KernelBuilder, u32) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        if n <= 1 {
            return f(self, b, first);
        }
        let mid = n / 2;
        let low = b.def_s(Op::SLtI, &[s.into(), ((first + mid) as i32).into()]);
        let (mut p, mut q) = (Ok(()), Ok(()));
        {
            let cell = std::cell::RefCell::new((&mut *self, f));
            b.if_else(
                low,
                |b| {
                    let (l, f) = &mut *cell.borrow_mut();
                    p = l.one_of(b, s, (first, mid), *f);
                },
                |b| {
                    let (l, f) = &mut *cell.borrow_mut();
                    q = l.one_of(b, s, (first + mid, n - mid), *f);
                },
            );
        }
        p?;
        q
    }

    /// Copies begin with a register's first lane, or end within the register, and with whole words: refused where that is
    /// known not to be so, checked while the kernel runs where it is not known.
    pub(super) fn begins_evenly(&mut self, b: &mut KernelBuilder, r: &Ref) -> Result<(), Refused> {
        if !matches!(r.space, Space::Vmem | Space::Hbm) {
            return Ok(());
        }
        let lanes = self.shape().1 as i32;
        let packing = r.dtype.packing() as i32;
        let along = r.strides.last() == Some(&None);
        let width = r.dims.last().map_or(1, |n| i32::try_from(*n).unwrap_or(i32::MAX));
        let lane = two(b, Op::SAnd, r.lane, Num::Const(lanes - 1));
        let row = if packing == 1 { Num::Const(0) } else { two(b, Op::SAnd, r.offset, Num::Const(packing - 1)) };
        let what = |n: i32, of: &str| format!("a copy begins {n} {of}");
        match lane {
            Num::Const(n) if along && n.saturating_add(width) > lanes && n != 0 => {
                return Err(Refused::new(what(n, "lanes behind a register's first and goes on in the next one")));
            }
            Num::Reg(s) if along && r.lane_zeros < self.shape().1.trailing_zeros() => {
                b.if_(s, |b| {
                    self.fails(b, "a copy begins within a register: its first column is no multiple of the lanes")
                });
            }
            Num::Const(_) | Num::Reg(_) => {}
        }
        match row {
            Num::Const(n) if n != 0 => {
                self.is_within(r);
                Err(Refused::new(what(n, "rows behind the first of a word")))
            }
            Num::Reg(s) if r.uneven => {
                self.is_within(r);
                b.if_(s, |b| {
                    self.fails(
                        b,
                        "a copy begins within a word: its first row is no multiple of the rows that share one",
                    )
                });
                Ok(())
            }
            Num::Const(_) | Num::Reg(_) => Ok(()),
        }
    }

    /// Notes that a copy begins in an array within a word.
    fn is_within(&self, r: &Ref) {
        let (all, before) = match r.space {
            Space::Hbm => (&self.far_buffers, 0),
            Space::Vmem | Space::Smem | Space::Semaphore => (&self.own_buffers, self.spec.arrays.len()),
        };
        let found = all.iter().position(|f| *f == r.buf).map(|i| (before + i) as u32);
        self.within.borrow_mut().extend(found);
    }

    pub(super) fn enqueue(&mut self, b: &mut KernelBuilder, o: &'a Operation, i: usize) -> Result<(), Refused> {
        // source, source semaphore, target, target semaphore, device, core.
        let g = o.groups().ok_or_else(|| Refused::at(o, "with operands that are not told apart"))?;
        let [source, source_sem, target, target_sem, device, ..] = &g[..] else {
            return Err(Refused::at(o, "with too few operands"));
        };
        let (from, to) = (self.array(o, source[0])?, self.array(o, target[0])?);
        let sem = self.array(o, target_sem[0])?;
        self.settle(b, Some(to.buf), i, &[])?;
        self.begins_evenly(b, &from)?;
        self.begins_evenly(b, &to)?;
        if let Some(size) = from.open.or(to.open) {
            if !device.is_empty() {
                return Err(Refused::at(o, "to another device, of a size that is known at run time only"));
            }
            return self.with_semaphore(b, &sem, &mut |l, b, sem| l.start_open(b, &from, &to, size, sem));
        }
        let Some(device) = device.first() else {
            let bytes = self.bytes(&from, &to)?;
            return self.with_semaphore(b, &sem, &mut |l, b, sem| {
                l.begins(b, sem, bytes);
                l.start(b, &from, &to, sem)
            });
        };
        let device = self.int_of(o, *device)?;
        let device = reg(b, device);
        let send = match source_sem.first() {
            Some(s) => self.array(o, *s)?,
            None => return Err(Refused::at(o, "to another device without a semaphore here")),
        };
        let g = self.geometry(&from, &to)?;
        let (src, p) = self.address(b, &from)?;
        let (dst, q) = self.address(b, &to)?;
        let [(desc, 0, 0)] = &g.parts[..] else { return Err(Refused::at(o, "to another device in several pieces")) };
        if p != Num::Const(0) || q != Num::Const(0) {
            return Err(Refused::at(o, "to another device from within a row"));
        }
        let desc = self.desc(desc.clone());
        self.with_semaphore(b, &send.clone(), &mut |l, b, send| {
            l.with_semaphore(b, &sem, &mut |l, b, recv| {
                if l.is_carried(send) || l.is_carried(recv) {
                    return Err(Refused::new("to another device with a semaphore that goes on behind the kernel"));
                }
                b.dma_remote(
                    RemoteArgs { desc, src, dst, device, send, recv },
                    &[from.buf, to.buf],
                    &[from.buf, to.buf],
                );
                Ok(())
            })
        })
    }

    pub(super) fn wait(&mut self, b: &mut KernelBuilder, o: &'a Operation, _: usize) -> Result<(), Refused> {
        let g = o.groups();
        let (sem, from, to) = match &g {
            Some(g) if g.len() >= 3 => (g[0][0], g[1].first().copied(), g[2].first().copied()),
            _ => (o.operands[0], o.operands.get(1).copied(), o.operands.get(2).copied()),
        };
        let sem = self.array(o, sem)?;
        let to = to.or(from).ok_or_else(|| Refused::at(o, "of no copy"))?;
        let to = self.array(o, to)?;
        let from = match from {
            Some(v) => self.array(o, v)?,
            None => to.clone(),
        };
        let buffers = [from.buf, to.buf];
        if let Some(size) = from.open.or(to.open) {
            let bytes = self.open_bytes(b, &from, &to, size)?;
            return self.with_semaphore(b, &sem, &mut |l, b, sem| {
                l.takes(b, sem, bytes, &buffers);
                Ok(())
            });
        }
        let bytes = self.bytes(&from, &to)?;
        self.with_semaphore(b, &sem, &mut |l, b, sem| {
            l.takes(b, sem, Num::Const(bytes), &buffers);
            Ok(())
        })
    }

    pub(super) fn signal(&mut self, b: &mut KernelBuilder, o: &'a Operation, _: usize) -> Result<(), Refused> {
        let g = o.groups();
        let (sem, amount, device) = match &g {
            Some(g) if g.len() >= 3 => (g[0][0], g[1][0], g[2].first().copied()),
            _ => (o.operands[0], o.operands[1], None),
        };
        let sem = self.array(o, sem)?;
        let Num::Const(count) = self.int_of(o, amount)? else {
            return Err(Refused::at(o, "by an amount that is not known"));
        };
        let (device, far) = match device {
            Some(d) => {
                let d = self.int_of(o, d)?;
                (reg(b, d), true)
            }
            None => (b.def_s(Op::SDev, &[]), false),
        };
        let order: Vec<BufferRef> = (0..self.buffers).map(BufferRef).collect();
        self.with_semaphore(b, &sem, &mut |l, b, sem| {
            if far && l.is_carried(sem) {
                return Err(Refused::new("of another device's semaphore that goes on behind the kernel"));
            }
            l.begins(b, sem, count);
            b.signal(device, sem, count, &order);
            Ok(())
        })
    }

    /// What a semaphore holds: found bit by bit, from the highest on, since the machine only tells whether it is enough.
    pub(super) fn read_semaphore(&mut self, b: &mut KernelBuilder, o: &'a Operation) -> Result<Val, Refused> {
        let sem = self.array(o, o.operands[0])?;
        let held = b.s_var(0);
        self.with_semaphore(b, &sem, &mut |l, b, sem| {
            let bit = b.s_var(1 << 30);
            b.loop_static(31, |b| {
                let more = b.s(Op::SOr, &[held, bit]);
                let there = b.sync_test(sem, more);
                b.set_s(held, Op::SSel, &[there.into(), more.into(), held.into()]);
                b.set_s(bit, Op::SShrI, &[bit.into(), 1.into()]);
            });
            if let Num::Reg(before) = l.still_held(b, sem) {
                b.set_s(held, Op::SAdd, &[held.into(), before.into()]);
            }
            Ok(())
        })?;
        Ok(Val::Int(Num::Reg(held)))
    }

    pub(super) fn wait_semaphore(&mut self, b: &mut KernelBuilder, o: &'a Operation, _: usize) -> Result<(), Refused> {
        let sem = self.array(o, o.operands[0])?;
        let amount = self.int(o, 1)?;
        let order: Vec<BufferRef> = (0..self.buffers).map(BufferRef).collect();
        self.with_semaphore(b, &sem, &mut |l, b, sem| {
            l.takes(b, sem, amount, &order);
            Ok(())
        })
    }
}
