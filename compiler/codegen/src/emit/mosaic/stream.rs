//! Products whose rows run through the matrix units while the loop that needs them works on what comes out.
//!
//! Every unit holds one tile of the right operand. A row of tiles of the left operand goes into all of them; what comes
//! out, added up along what is summed, is a row of tiles of the result, in registers, for whatever the body does with it.
//! Rows go in [`Stream::lag`] turns before their results are taken, so that the arrays never run empty:
//!
//! ```text
//! lag times:          push
//! rows - lag times:   pop, body, push
//! lag times:          pop, body
//! ```
//!
//! Where the next product's left operand is what the body computes, its first rows go in as soon as the last rows of the one
//! before have: they are pushed in the last loop, its weights wait in the units since the first one. It is in flight then
//! ([`Lower::land`]) until a loop takes its results.
//!
//! Invariants: rows in flight never exceed what the scheduler may let the result FIFO hold; what is pushed is read from
//! memory that the body does not write; sums are in ascending order of what is summed.

use super::nest::{At, Body, Coord, Fit, Level, Nest, SMALL, Walk, tiles};
use super::value::{Expr, Fun, Product, Region, Tensor, Val};
use super::{Lower, Refused};
use crate::emit::Value;
use crate::emit::elementwise::convert;
use crate::emit::memory::{Place, load_operand};
use crate::emit::mxu::one_pass;
use crate::kernel::{BufferRef, KernelBuilder, LoopHints, S, Trips, V, pop_delay_window};
use std::rc::Rc;
use systole_isa::{DType, MxuFormat, Op};

/// How a product's right operand is divided among the matrix units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    /// Tiles along what is summed, and along columns; of each the registers of lanes.
    sums: u32,
    columns: u32,
    sum_chunks: u32,
    column_chunks: u32,
    /// Registers of lanes along what is summed, and along columns.
    planes: (u32, u32),
}

/// A product while its rows stream by.
pub(super) struct Stream {
    product: Rc<Tensor>,
    of: Rc<Product>,
    /// The left operand as it is pushed, and the walk of its rows.
    rows: Rc<Tensor>,
    feed: Nest,
    weights: Region,
    units: Units,
    /// Turns from a row's push to its pop.
    lag: u32,
    /// So many rows have been pushed by the loop before.
    flown: bool,
}

/// What goes into the units after a row of results.
enum Push<'a> {
    Nothing,
    /// The next row of the same product.
    Own(&'a mut Stream),
    /// A row of the next product, where the walk's cursors and these tiles say.
    Next(&'a Stream, &'a Rc<Tensor>),
}

/// A unit's part of the right operand: where its next registers lie, how many groups of them there are, the first plane.
struct Part {
    unit: u32,
    at: S,
    groups: u32,
    plane: u32,
}

/// The left operand as the units take it: they round to bf16 by themselves.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for conversions alone")]
fn pushed(x: &Rc<Tensor>) -> Rc<Tensor> {
    match &*x.expr.borrow() {
        Expr::Element(Fun::Convert, kids) if x.dtype == DType::BF16 && kids[0].dtype == DType::F32 => {
            Rc::clone(&kids[0])
        }
        _ => Rc::clone(x),
    }
}

/// Whether a vector's tiles are read from memory and little else.
fn is_light(t: &Tensor) -> bool {
    match &*t.expr.borrow() {
        Expr::Memory(_) | Expr::Splat(_) => true,
        Expr::Element(_, kids) => !t.shared.get() && kids.iter().all(|k| is_light(k)),
        Expr::Expand(k) | Expr::Recast(k) => !t.shared.get() && is_light(k),
        Expr::Regs(_)
        | Expr::Iota(_)
        | Expr::Beside(_)
        | Expr::Turned(..)
        | Expr::Gather(..)
        | Expr::Across(..)
        | Expr::Product(_) => false,
    }
}

impl Lower<'_> {
    /// How the units share a product, if one tile of its right operand for each is all of it.
    pub(super) fn units(&self, p: &Product) -> Option<Units> {
        let (mxu, (sub, lanes)) = (&self.chip.mxu, self.shape());
        let [batch, m, k, n] = p.sizes;
        let whole = |size: u64, by: u32| size.is_multiple_of(u64::from(by));
        if batch != 1 || !whole(m, sub) || !whole(k, lanes) || !whole(n, lanes) {
            return None;
        }
        if !one_pass(p.x.dtype, p.y.dtype, p.precision) {
            return None;
        }
        let (sum_chunks, column_chunks) = self.chip.mxu_chunks();
        let planes = (u32::try_from(k).ok()? / lanes, u32::try_from(n).ok()? / lanes);
        let (sums, columns) = (planes.0.div_ceil(sum_chunks), planes.1.div_ceil(column_chunks));
        // Units that would have nothing to do are better used by cutting the rows.
        let all = sums.checked_mul(columns)?;
        (all <= mxu.count && 2 * all > mxu.count).then_some(Units { sums, columns, sum_chunks, column_chunks, planes })
    }

    /// Turns that results lag behind: the way through an array, and as much again as its queue may hold back.
    fn stream_lag(&self) -> u32 {
        let (mxu, sub) = (&self.chip.mxu, self.sub());
        let rate = self.chip.mxu_type(MxuFormat::Bf16).map_or(1.0, |t| t.rows_per_cycle);
        let way = f64::from(mxu.fill_cycles()) * rate / f64::from(sub);
        let most = (mxu.fifo_rows / sub).saturating_sub(pop_delay_window(self.chip)).max(1);
        (way.ceil() as u32 + mxu.queue_rows / sub / 2).min(most)
    }

    /// A product among what a nest computes: it streams by if it can, else it is made before.
    pub(super) fn streams(
        &mut self,
        b: &mut KernelBuilder,
        n: &mut Nest,
        t: &Rc<Tensor>,
        (p, roots): (&Rc<Product>, &[Rc<Tensor>]),
    ) -> Result<(), Refused> {
        if n.stream.as_ref().is_some_and(|s| Rc::ptr_eq(&s.product, t)) {
            return Ok(());
        }
        let flying = self.flying.as_ref().is_some_and(|f| Rc::ptr_eq(&f.product, t));
        let free = n.stream.is_none() && n.walks_rows();
        if !(flying && free) {
            self.land(b)?;
        }
        let units = self.units(p).filter(|_| free);
        let Some(units) = units else { return self.force_memory(b, t).map(|_| ()) };
        let mut made = self.making.clone();
        roots.iter().for_each(|r| super::block::kept(r, &mut made));
        if !t.shared.get() && self.needed_later(t, &made) {
            let region = self.temp(b, &t.dims, t.form, t.dtype);
            let fit = if t.phys() == n.walk.phys { Fit::Same } else { Fit::Rows };
            n.keep.push((Rc::clone(t), region, fit));
        }
        if flying {
            n.stream = self.flying.take();
            return Ok(());
        }
        let weights = self.aligned(b, &p.y)?;
        let mut rows = pushed(&p.x);
        if !is_light(&rows) {
            rows = Rc::clone(&p.x);
            self.force_memory(b, &rows)?;
        }
        n.stream = Some(Box::new(self.stream(n, (t, p), units, (rows, weights))));
        Ok(())
    }

    fn stream(
        &self,
        n: &Nest,
        (product, of): (&Rc<Tensor>, &Rc<Product>),
        units: Units,
        (rows, weights): (Rc<Tensor>, Region),
    ) -> Stream {
        let phys = rows.phys();
        let outer = vec![Coord::default(); phys.len() - 2];
        let row = Coord { level: Some(0), fixed: 0 };
        let points = (0..units.planes.0).map(|c| At { outer: outer.clone(), row, col: Coord::at(c) }).collect();
        let level = Level { dim: phys.len() - 2, ..n.walk.levels[0] };
        let feed = Nest::fixed(Walk { phys, levels: vec![level], points }, self.sub());
        let (product, of, lag) = (Rc::clone(product), Rc::clone(of), self.stream_lag().min(level.count));
        Stream { product, of, rows, feed, weights, units, lag, flown: false }
    }

    /// The product that takes rows of what a nest keeps, and whose weights lie where the nest does not write.
    fn follower(&self, n: &Nest, s: &Stream, buffers: &[BufferRef]) -> Option<(Stream, Region)> {
        let turns = n.walk.levels.first().map_or(0, |l| l.count);
        let values = self.defined.last().filter(|_| s.lag < turns)?;
        values.iter().find_map(|v| {
            let Some(Val::Vector(t)) = self.env.get(v) else { return None };
            let expr = t.expr.borrow();
            let Expr::Product(p) = &*expr else { return None };
            let later = self.last.get(v).is_some_and(|l| *l > self.step) && tiles(&t.phys(), self.shape()) > SMALL;
            let units = self.units(p).filter(|_| later && !Rc::ptr_eq(t, &s.product) && p.sizes[1] == s.of.sizes[1])?;
            let x = pushed(&p.x);
            let (_, region, _) = n.keep.iter().find(|k| Rc::ptr_eq(&k.0, &x))?;
            let weights = self.as_read(&p.y).filter(|w| !buffers.contains(&w.buf))?;
            let rows = Tensor::new(&x.dims, x.form, x.dtype, Expr::Memory(region.clone()));
            Some((self.stream(n, (t, p), units, (rows, weights)), region.clone()))
        })
    }

    /// Takes the results of a product in flight into memory: the units are needed, or the code ends.
    pub(super) fn land(&mut self, b: &mut KernelBuilder) -> Result<(), Refused> {
        let Some(t) = self.flying.as_ref().map(|f| Rc::clone(&f.product)) else { return Ok(()) };
        let region = self.temp(b, &t.dims, t.form, t.dtype);
        self.making.push(Rc::clone(&t));
        let done = self.store_all(b, &t, &region);
        self.making.pop();
        done?;
        *t.expr.borrow_mut() = Expr::Memory(region);
        Ok(())
    }

    /// The loops of a nest with a product that streams by.
    pub(super) fn streamed(
        &mut self,
        b: &mut KernelBuilder,
        n: &mut Nest,
        mut s: Stream,
        buffers: &[BufferRef],
        body: &mut dyn Body,
    ) -> Result<(), Refused> {
        body.enter(self, b, n, 0)?;
        let (all, lag, popped) = (n.walk.levels[0].count, s.lag, (Rc::clone(&s.product), s.units));
        let next = self.follower(n, &s, buffers);
        let line = b.set_place(s.line(b));
        if s.flown {
            next.iter().for_each(|next| self.stage(b, &next.0));
        } else {
            self.place_cursors(b, &mut s.feed, &[Rc::clone(&s.rows)])?;
            self.stage(b, &s);
            latch(b, &s);
            self.first_rows(b, &mut s, next.as_ref().map(|n| &n.0))?;
        }
        b.set_place(line);
        self.turns(b, n, (all - lag, &popped, Push::Own(&mut s)), buffers, body)?;
        let mut apart = buffers.to_vec();
        let mut flying = None;
        if let Some((mut next, kept)) = next {
            let line = b.set_place(next.line(b));
            latch(b, &next);
            b.set_place(line);
            let step = kept.row() * i64::from(self.sub());
            // What is pushed was stored by this loop or the one before, so many turns ago, and is told apart by its rows.
            apart.retain(|b| *b != kept.buf);
            let moved = |turns: i64| {
                let region = Region { offset: kept.offset + (turns * step) as i32, ..kept.clone() };
                Tensor::new(&next.rows.dims, next.rows.form, next.rows.dtype, Expr::Memory(region))
            };
            let (behind, after) = (moved(i64::from(lag) - i64::from(all)), moved(i64::from(lag)));
            self.turns(b, n, (lag, &popped, Push::Next(&next, &behind)), &apart, body)?;
            next.rows = after;
            let line = b.set_place(next.line(b));
            self.place_cursors(b, &mut next.feed, &[Rc::clone(&next.rows)])?;
            b.set_place(line);
            flying = Some(Box::new(Stream { flown: true, ..next }));
        } else {
            self.turns(b, n, (lag, &popped, Push::Nothing), &apart, body)?;
        }
        self.flying = flying;
        body.exit(self, b, n, 0)
    }

    /// The rows that go in before any results are taken; the next product's weights come along.
    fn first_rows(&mut self, b: &mut KernelBuilder, s: &mut Stream, next: Option<&Stream>) -> Result<(), Refused> {
        let parts = next.map_or(Vec::new(), |next| self.parts(b, next));
        let groups = parts.first().map_or(0, |p| p.groups);
        let beside = groups <= s.lag && parts.iter().all(|p| p.groups == groups);
        if let Some(next) = next.filter(|_| !beside) {
            self.stage(b, next);
        }
        let with = if beside { groups } else { 0 };
        for (count, staged) in [(with, true), (s.lag - with, false)] {
            let mut done = Ok(());
            b.loop_with(Trips::Static(count), LoopHints::default(), |b| {
                done = self.push_row(b, s);
                if let Some(next) = next.filter(|_| staged) {
                    parts.iter().for_each(|p| self.stage_group(b, next, p));
                }
            });
            done?;
        }
        Ok(())
    }

    /// A loop that takes so many rows of results, and puts rows in if it is given a product.
    fn turns(
        &mut self,
        b: &mut KernelBuilder,
        n: &mut Nest,
        (count, popped, mut push): (u32, &(Rc<Tensor>, Units), Push<'_>),
        buffers: &[BufferRef],
        body: &mut dyn Body,
    ) -> Result<(), Refused> {
        let mut done = Ok(());
        b.loop_with(Trips::Static(count), LoopHints::independent(buffers), |b| {
            done = (|| {
                n.known.clear();
                self.pop_row(b, n, popped);
                body.enter(self, b, n, 1)?;
                self.points(b, n, body)?;
                body.exit(self, b, n, 1)?;
                match &mut push {
                    Push::Nothing => {}
                    Push::Own(s) => self.push_row(b, s)?,
                    Push::Next(s, rows) => {
                        let line = b.set_place(s.line(b));
                        let mut tiles = Vec::new();
                        for at in &s.feed.walk.points {
                            tiles.push(self.tile(b, n, rows, at)?);
                        }
                        self.push_tiles(b, s.units, &tiles);
                        b.set_place(line);
                    }
                }
                n.advanced(0).into_iter().for_each(|(c, by)| b.s_inc(c, by));
                Ok(())
            })();
        });
        done
    }

    /// Takes the results of a row out of the units.
    fn pop_row(&self, b: &mut KernelBuilder, n: &mut Nest, (product, u): &(Rc<Tensor>, Units)) {
        let outer = vec![Coord::default(); product.phys().len() - 2];
        let row = Coord { level: Some(0), fixed: 0 };
        let line = (product.place.get() != 0).then(|| b.set_place(product.place.get()));
        for plane in 0..u.columns * u.column_chunks {
            let (column, chunk) = (plane / u.column_chunks, plane % u.column_chunks);
            let parts: Vec<V> = (0..u.sums).map(|k| b.mxu_pop(k * u.columns + column, chunk)).collect();
            if plane < u.planes.1 {
                let sum = parts[1..].iter().fold(parts[0], |x, y| b.v(Op::VAddF, &[x, *y]));
                let v = convert(b, &Value::word(DType::F32, sum), product.dtype);
                let at = At { outer: outer.clone(), row, col: Coord::at(plane) };
                n.known.insert((Rc::as_ptr(product), at), v);
            }
        }
        line.map(|line| b.set_place(line));
    }

    /// Puts a row into the units.
    fn push_row(&mut self, b: &mut KernelBuilder, s: &mut Stream) -> Result<(), Refused> {
        let (u, line) = (s.units, s.line(b));
        let line = b.set_place(line);
        s.feed.known.clear();
        let mut tiles = Vec::new();
        for at in s.feed.walk.points.clone() {
            tiles.push(self.tile(b, &mut s.feed, &s.rows, &at)?);
        }
        self.push_tiles(b, u, &tiles);
        s.feed.advanced(0).into_iter().for_each(|(c, by)| b.s_inc(c, by));
        b.set_place(line);
        Ok(())
    }

    /// Puts the tiles of a row into the units.
    fn push_tiles(&self, b: &mut KernelBuilder, u: Units, tiles: &[Value]) {
        for unit in 0..u.sums * u.columns {
            for chunk in 0..u.sum_chunks {
                let plane = unit / u.columns * u.sum_chunks + chunk;
                let v = match tiles.get(plane as usize) {
                    Some(v) => v.v(),
                    None => b.v_imm(0),
                };
                b.mxu_push(unit, v, chunk, MxuFormat::Bf16);
            }
        }
    }

    /// Brings the right operand into the units.
    fn stage(&self, b: &mut KernelBuilder, s: &Stream) {
        let parts = self.parts(b, s);
        let most = parts.iter().map(|p| p.groups).max().unwrap_or(0);
        // Units whose part ends earlier are done by then.
        let mut done = 0;
        while done < most {
            let left = parts.iter().map(|p| p.groups).filter(|g| *g > done).min().unwrap_or(most);
            b.loop_with(Trips::Static(left - done), LoopHints::default(), |b| {
                parts.iter().filter(|p| p.groups > done).for_each(|p| self.stage_group(b, s, p));
            });
            done = left;
        }
    }

    /// Of each unit its part of the right operand.
    fn parts(&self, b: &mut KernelBuilder, s: &Stream) -> Vec<Part> {
        let (u, mxu, (sub, lanes)) = (s.units, &self.chip.mxu, self.shape());
        // Registers of a tile: rows of what is summed, or (turned) of columns.
        let (tile, size) = if s.of.turned { (mxu.cols, u.planes.1 * lanes) } else { (mxu.rows, u.planes.0 * lanes) };
        let part = |unit: u32| {
            let (k, n) = (unit / u.columns, unit % u.columns);
            let first = tile * if s.of.turned { n } else { k };
            let plane = if s.of.turned { k * u.sum_chunks } else { n * u.column_chunks };
            let at = b.s_addi(s.weights.base, first as i32 * s.weights.row() as i32);
            Part { unit, at, groups: tile.min(size - first) / sub, plane }
        };
        (0..u.sums * u.columns).map(part).collect()
    }

    /// The next registers of a unit's part.
    fn stage_group(&self, b: &mut KernelBuilder, s: &Stream, p: &Part) {
        let u = s.units;
        let (chunks, planes) = if s.of.turned { (u.sum_chunks, u.planes.0) } else { (u.column_chunks, u.planes.1) };
        for chunk in 0..chunks {
            let plane = p.plane + chunk;
            let v = if plane < planes { self.weight(b, s, p.at, plane) } else { b.v_imm(0) };
            match s.of.turned {
                true => b.mxu_stage_t(p.unit, v, chunk, MxuFormat::Bf16),
                false => b.mxu_stage(p.unit, v, chunk, MxuFormat::Bf16),
            }
        }
        b.s_inc(p.at, (self.sub() * s.weights.row() as u32) as i32);
    }

    fn weight(&self, b: &mut KernelBuilder, s: &Stream, base: S, plane: u32) -> V {
        let w = &s.weights;
        let offset = w.offset + plane as i32 * w.plane as i32;
        let place = Place { base, offset, stride: w.row() as i32, buf: w.buf, component_rows: 0 };
        load_operand(b, w.dtype, place).v()
    }
}

/// Makes what was brought into the units what rows meet.
fn latch(b: &mut KernelBuilder, s: &Stream) {
    (0..s.units.sums * s.units.columns).for_each(|unit| b.mxu_latch(unit));
}

impl Stream {
    /// The line of what is done for the product.
    fn line(&self, b: &KernelBuilder) -> u16 {
        if self.product.place.get() == 0 { b.current_place().0 } else { self.product.place.get() }
    }
}

impl Nest {
    /// Whether all that the nest does is walk rows of tiles.
    fn walks_rows(&self) -> bool {
        let row = Coord { level: Some(0), fixed: 0 };
        let rows = self.walk.phys.len() - 2;
        matches!(&self.walk.levels[..], [l] if l.dim == rows && l.step == 1)
            && self.walk.points.iter().all(|p| p.row == row && p.outer.iter().all(|c| *c == Coord::default()))
    }
}
