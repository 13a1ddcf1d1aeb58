//! Loops over the tiles of a vector: which tiles a body names, which registers hold addresses, and the value of a tile.
//!
//! A tile is a register's worth of a vector's rows and columns. A nest has levels (counted loops, outermost first) and points
//! (tiles that the innermost body works on, at fixed distances). Every array that the body touches has a cursor: a scalar
//! register that holds its element row at the level's turn and moves on at the level's end.

use super::reduce::row_tiles;
use super::stream::Stream;
use super::value::{Expr, Region, Tensor};
use super::{Lower, Refused};
use crate::emit::Value;
use crate::kernel::{KernelBuilder, LoopHints, S, Trips};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// Where a tile is along a dimension: a level's turn, and so many tiles (or indices) further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Coord {
    pub level: Option<usize>,
    pub fixed: u32,
}

impl Coord {
    pub fn at(fixed: u32) -> Coord {
        Coord { level: None, fixed }
    }

    fn is_zero(self) -> bool {
        self == Coord::default()
    }
}

/// A tile of a vector: its outer indices, row tile and column tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct At {
    pub outer: Vec<Coord>,
    pub row: Coord,
    pub col: Coord,
}

impl At {
    fn levels(&self) -> impl Iterator<Item = Option<usize>> {
        self.outer.iter().chain([&self.row, &self.col]).map(|c| c.level)
    }
}

/// A loop of a nest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub count: u32,
    /// Tiles, or indices, from one turn to the next.
    pub step: u32,
    /// The dimension that it walks.
    pub dim: usize,
}

/// Tiles that are worked on without a loop at most.
pub(super) const SMALL: u64 = 8;
/// Columns of tiles that a body works on at most.
pub(super) const WIDE: u64 = 8;

/// What a nest walks, and in which order.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    pub phys: Vec<u64>,
    pub levels: Vec<Level>,
    pub points: Vec<At>,
}

/// Tiles of a vector of these sizes.
pub(super) fn tiles(phys: &[u64], (sub, lanes): (u32, u32)) -> u64 {
    let (outer, rc) = phys.split_at(phys.len() - 2);
    outer.iter().product::<u64>() * rc[0].div_ceil(u64::from(sub)) * rc[1].div_ceil(u64::from(lanes))
}

impl Walk {
    /// A walk of all tiles: `last` are the dimensions whose loops are innermost. `all_columns`: the body has all of them.
    pub fn new(phys: &[u64], shape: (u32, u32), last: &[usize], all_columns: bool) -> Walk {
        let n = phys.len();
        let mut counts = phys.to_vec();
        counts[n - 2] = counts[n - 2].div_ceil(u64::from(shape.0));
        counts[n - 1] = counts[n - 1].div_ceil(u64::from(shape.1));
        let small = counts.iter().product::<u64>() <= SMALL;
        // So many of each dimension's tiles stand in the body.
        let mut inside = vec![1u64; n];
        if small {
            inside.clone_from(&counts);
        } else {
            let wide = counts[n - 1];
            inside[n - 1] = if all_columns {
                wide
            } else {
                (1..=wide.min(WIDE)).rev().find(|u| wide.is_multiple_of(*u)).unwrap_or(1)
            };
        }
        let mut order: Vec<usize> = (0..n).filter(|d| !last.contains(d)).collect();
        // Rows inside of columns: neighbours in memory.
        if !last.contains(&(n - 1)) && !last.contains(&(n - 2)) {
            order = (0..n - 2).filter(|d| !last.contains(d)).chain([n - 1, n - 2]).collect();
        }
        order.extend(last);
        let mut levels = Vec::new();
        let mut at = vec![None; n];
        for d in order {
            let count = counts[d] / inside[d];
            if count > 1 {
                at[d] = Some(levels.len());
                levels.push(Level { count: count as u32, step: inside[d] as u32, dim: d });
            }
        }
        let mut points = vec![Vec::new()];
        for d in 0..n {
            let level = at[d];
            points = points
                .into_iter()
                .flat_map(|p: Vec<Coord>| {
                    (0..inside[d] as u32).map(move |fixed| {
                        let mut p = p.clone();
                        p.push(Coord { level, fixed });
                        p
                    })
                })
                .collect();
        }
        let point = |p: Vec<Coord>| At { outer: p[..n - 2].to_vec(), row: p[n - 2], col: p[n - 1] };
        Walk { phys: phys.to_vec(), levels, points: points.into_iter().map(point).collect() }
    }

    /// How many of the leading levels do not walk any of these dimensions.
    pub fn before(&self, dims: &[usize]) -> usize {
        self.levels.iter().take_while(|l| !dims.contains(&l.dim)).count()
    }
}

/// What names a cursor: a base, and its steps at each level.
type Key = (S, Vec<i64>);

/// A nest while its code is made.
pub(super) struct Nest {
    pub walk: Walk,
    sub: u32,
    cursors: Vec<(Key, S)>,
    /// Values of tiles that the body has computed.
    pub known: FxHashMap<(*const Tensor, At), Value>,
    /// Vectors that are kept in memory on the way: of the walk's tiles, or all tiles of its rows.
    pub keep: Vec<(Rc<Tensor>, Region, Fit)>,
    /// The product whose rows stream by.
    pub stream: Option<Box<Stream>>,
    /// Tiles whose cursors are known.
    touched: FxHashSet<(*const Tensor, At)>,
}

/// How the tiles of a vector go with those of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// They are the same.
    Same,
    /// The rows are the same; the body has all columns.
    Rows,
    /// In no simple way.
    Other,
}

/// What a nest does besides its loops.
pub(super) trait Body {
    /// Before the loop of level `depth`, or before the body where `depth` is the number of levels.
    fn enter(&mut self, _: &mut Lower<'_>, _: &mut KernelBuilder, _: &mut Nest, _: usize) -> Result<(), Refused> {
        Ok(())
    }
    /// One tile.
    fn tile(&mut self, l: &mut Lower<'_>, b: &mut KernelBuilder, n: &mut Nest, at: &At) -> Result<(), Refused>;
    /// After the loop of level `depth`.
    fn exit(&mut self, _: &mut Lower<'_>, _: &mut KernelBuilder, _: &mut Nest, _: usize) -> Result<(), Refused> {
        Ok(())
    }
}

impl Lower<'_> {
    /// Runs a nest that computes tiles of `roots` (vectors of the walk's sizes) and touches `regions` (of them too, or of
    /// the coordinates that `ats` gives).
    pub(super) fn nest(
        &mut self,
        b: &mut KernelBuilder,
        walk: Walk,
        roots: &[Rc<Tensor>],
        regions: &[(&Region, &dyn Fn(&At) -> At)],
        body: &mut dyn Body,
    ) -> Result<(), Refused> {
        let claimed: Vec<(Region, Vec<At>)> =
            regions.iter().map(|(r, map)| ((*r).clone(), walk.points.iter().map(map).collect())).collect();
        self.nest_claiming(b, walk, roots, &claimed, body)
    }

    /// As [`Lower::nest`], the tiles of regions that the body touches given.
    pub(super) fn nest_claiming(
        &mut self,
        b: &mut KernelBuilder,
        walk: Walk,
        roots: &[Rc<Tensor>],
        regions: &[(Region, Vec<At>)],
        body: &mut dyn Body,
    ) -> Result<(), Refused> {
        let mut n = Nest::fixed(walk, self.sub());
        self.prepare(b, &mut n, roots)?;
        for (region, ats) in regions {
            ats.iter().for_each(|at| n.claim(region, at));
        }
        let kept = n.keep.clone();
        for (t, r, fit) in &kept {
            for at in n.walk.points.clone() {
                fit.tiles(t, &at, self.chip.core.lanes).iter().for_each(|at| n.claim(r, at));
            }
        }
        self.place_cursors(b, &mut n, roots)?;
        let mut buffers: Vec<_> = kept.iter().map(|k| k.1.buf).collect();
        buffers.extend(regions.iter().map(|r| r.0.buf));
        match n.stream.take() {
            Some(s) => self.streamed(b, &mut n, *s, &buffers, body)?,
            None => self.level(b, &mut n, 0, &buffers, body)?,
        }
        for (t, region, _) in kept {
            *t.expr.borrow_mut() = Expr::Memory(region);
        }
        Ok(())
    }

    /// Finds what the roots' tiles touch, and sets all cursors to the first tile.
    pub(super) fn place_cursors(
        &mut self,
        b: &mut KernelBuilder,
        n: &mut Nest,
        roots: &[Rc<Tensor>],
    ) -> Result<(), Refused> {
        for at in n.walk.points.clone() {
            for r in roots {
                self.touch(b, n, r, &at)?;
            }
        }
        // Counters of rows, columns and indices, for masks and numbers.
        let levels = n.walk.levels.clone();
        for (i, l) in levels.iter().enumerate() {
            let mut steps = vec![0; levels.len()];
            steps[i] = i64::from(l.step);
            n.cursors.push(((S::ZERO, steps), S::ZERO));
        }
        for (key, s) in &mut n.cursors {
            if key.1.iter().any(|&k| k != 0) {
                *s = b.s_copy(key.0);
            }
        }
        Ok(())
    }

    fn level(
        &mut self,
        b: &mut KernelBuilder,
        n: &mut Nest,
        depth: usize,
        buffers: &[crate::kernel::BufferRef],
        body: &mut dyn Body,
    ) -> Result<(), Refused> {
        body.enter(self, b, n, depth)?;
        let Some(level) = n.walk.levels.get(depth).copied() else {
            n.known.clear();
            self.points(b, n, body)?;
            return body.exit(self, b, n, depth);
        };
        let innermost = depth + 1 == n.walk.levels.len();
        let hints = LoopHints::independent(buffers);
        let mut done = Ok(());
        b.loop_with(Trips::Static(level.count), hints, |b| {
            let outside: Vec<S> = n.cursors.iter().map(|c| c.1).collect();
            if !innermost {
                for (key, s) in &mut n.cursors {
                    if key.1[depth + 1..].iter().any(|&k| k != 0) {
                        *s = b.s_copy(*s);
                    }
                }
            }
            done = self.level(b, n, depth + 1, buffers, body);
            for ((key, s), was) in n.cursors.iter_mut().zip(outside) {
                *s = was;
                if key.1[depth] != 0 {
                    b.s_inc(was, key.1[depth] as i32);
                }
            }
        });
        done?;
        body.exit(self, b, n, depth)
    }

    /// The tiles of one turn of the innermost loop.
    pub(super) fn points(&mut self, b: &mut KernelBuilder, n: &mut Nest, body: &mut dyn Body) -> Result<(), Refused> {
        for at in n.walk.points.clone() {
            body.tile(self, b, n, &at)?;
            // What is kept is stored.
            for (t, region, fit) in n.keep.clone() {
                for at in fit.tiles(&t, &at, self.chip.core.lanes) {
                    let v = self.tile(b, n, &t, &at)?;
                    self.store_tile(b, n, &region, &t.phys(), &v, &at);
                }
            }
        }
        n.known.clear();
        Ok(())
    }

    /// Decides which shared vectors are kept on the way; the others are computed before.
    pub(super) fn prepare(&mut self, b: &mut KernelBuilder, n: &mut Nest, roots: &[Rc<Tensor>]) -> Result<(), Refused> {
        for r in roots {
            self.prepare_one(b, n, r, (Fit::Same, roots))?;
        }
        Ok(())
    }

    fn prepare_one(
        &mut self,
        b: &mut KernelBuilder,
        n: &mut Nest,
        t: &Rc<Tensor>,
        (fit, roots): (Fit, &[Rc<Tensor>]),
    ) -> Result<(), Refused> {
        let fit = n.fit(t, fit);
        let expr = t.expr.borrow().clone();
        if t.shared.get() && !matches!(expr, Expr::Memory(_) | Expr::Regs(_) | Expr::Splat(_)) {
            if n.keep.iter().any(|k| Rc::ptr_eq(&k.0, t)) {
                return Ok(());
            }
            if fit == Fit::Other {
                return self.force(b, t);
            }
            let region = self.temp(b, &t.dims, t.form, t.dtype);
            n.keep.push((Rc::clone(t), region, fit));
        }
        match expr {
            Expr::Element(_, kids) | Expr::Beside(kids) => {
                kids.iter().try_for_each(|k| self.prepare_one(b, n, k, (fit, roots)))
            }
            // Dimensions of size 1 at most come and go: rows stay where they are, or are nowhere.
            Expr::Expand(k) | Expr::Recast(k) => self.prepare_one(b, n, &k, (fit, roots)),
            Expr::Across(k, _) if fit != Fit::Other => self.prepare_one(b, n, &k, (fit, roots)),
            Expr::Across(..) => self.force(b, t),
            Expr::Turned(k, _) => self.prepare_one(b, n, &k, (Fit::Other, roots)),
            Expr::Gather(of, by, _) => {
                self.force(b, &of)?;
                self.prepare_one(b, n, &by, (fit, roots))
            }
            Expr::Product(p) if fit != Fit::Other => self.streams(b, n, t, (&p, roots)),
            Expr::Product(_) => self.force_memory(b, t).map(|_| ()),
            Expr::Splat(_) | Expr::Memory(_) | Expr::Regs(_) | Expr::Iota(_) => Ok(()),
        }
    }

    /// Finds the cursors that a tile needs.
    fn touch(&mut self, b: &mut KernelBuilder, n: &mut Nest, t: &Rc<Tensor>, at: &At) -> Result<(), Refused> {
        let key = (Rc::as_ptr(t), at.clone());
        if n.touched.contains(&key) {
            return Ok(());
        }
        if matches!(&*t.expr.borrow(), Expr::Regs(_)) && at.levels().any(|l| l.is_some()) {
            self.spill(b, t)?;
        }
        n.touched.insert(key);
        let expr = t.expr.borrow().clone();
        match &expr {
            Expr::Memory(r) => {
                n.claim(r, at);
                Ok(())
            }
            Expr::Regs(_) | Expr::Splat(_) | Expr::Iota(_) | Expr::Product(_) => Ok(()),
            Expr::Element(..) | Expr::Expand(_) | Expr::Recast(_) | Expr::Beside(_) | Expr::Across(..) => {
                children(t, &expr, at, self.chip.core.lanes)?
                    .into_iter()
                    .try_for_each(|(k, at)| self.touch(b, n, &k, &at))
            }
            Expr::Turned(k, _) => {
                for at in turned(at) {
                    self.touch(b, n, k, &at)?;
                }
                Ok(())
            }
            Expr::Gather(of, by, columns) => {
                for at in self.sources(of, at, *columns) {
                    self.touch(b, n, of, &at)?;
                }
                self.touch(b, n, by, at)
            }
        }
    }

    /// The value of a vector's tile.
    pub(super) fn tile(
        &mut self,
        b: &mut KernelBuilder,
        n: &mut Nest,
        t: &Rc<Tensor>,
        at: &At,
    ) -> Result<Value, Refused> {
        let key = (Rc::as_ptr(t), at.clone());
        if let Some(v) = n.known.get(&key) {
            return Ok(*v);
        }
        let expr = t.expr.borrow().clone();
        let line = (t.place.get() != 0).then(|| b.set_place(t.place.get()));
        let v = match &expr {
            Expr::Splat(v) => *v,
            Expr::Memory(r) => self.load_tile(b, n, r, &t.phys(), at),
            Expr::Regs(all) => all[position(&t.phys(), at, self.shape())],
            Expr::Iota(dim) => self.iota(b, n, t, *dim, at),
            Expr::Element(fun, kids) => {
                let args = kids.iter().map(|k| self.tile(b, n, k, at)).collect::<Result<Vec<Value>, Refused>>()?;
                super::element::apply(b, *fun, &args, t.dtype)
            }
            Expr::Expand(_) | Expr::Recast(_) | Expr::Beside(_) => {
                let (k, at) = children(t, &expr, at, self.chip.core.lanes)?.remove(0);
                self.tile(b, n, &k, &at)?
            }
            Expr::Across(of, how) => self.across_tile(b, n, (of, *how), at)?,
            Expr::Product(_) => return Err(Refused::new("a product that is not made")),
            Expr::Turned(k, amount) => {
                let [this, before] = turned(at);
                let (this, before) = (self.tile(b, n, k, &this)?, self.tile(b, n, k, &before)?);
                self.turn(b, &this, &before, *amount)
            }
            Expr::Gather(of, by, columns) => {
                let by = self.tile(b, n, by, at)?;
                let tiles = self.sources(of, at, *columns);
                let tiles = tiles.iter().map(|at| self.tile(b, n, of, at)).collect::<Result<Vec<Value>, Refused>>()?;
                self.chosen(b, &tiles, &by, *columns)
            }
        };
        if let Some(line) = line {
            b.set_place(line);
        }
        n.known.insert(key, v);
        Ok(v)
    }
}

/// Of a vector that is in memory twice, side by side: a tile and the one before it.
fn turned(at: &At) -> [At; 2] {
    let col = |more| Coord { fixed: at.col.fixed + more, ..at.col };
    [At { col: col(1), ..at.clone() }, At { col: col(0), ..at.clone() }]
}

/// The number of a tile among all.
fn position(phys: &[u64], at: &At, (sub, lanes): (u32, u32)) -> usize {
    let n = phys.len();
    let mut i = 0;
    for (c, size) in at.outer.iter().zip(phys) {
        i = i * *size as usize + c.fixed as usize;
    }
    i = i * phys[n - 2].div_ceil(u64::from(sub)) as usize + at.row.fixed as usize;
    i * phys[n - 1].div_ceil(u64::from(lanes)) as usize + at.col.fixed as usize
}

/// The tiles of other vectors that a tile is made of.
fn children(t: &Tensor, expr: &Expr, at: &At, lanes: u32) -> Result<Vec<(Rc<Tensor>, At)>, Refused> {
    let mine = t.phys();
    Ok(match expr {
        Expr::Element(_, kids) => kids.iter().map(|k| (Rc::clone(k), at.clone())).collect(),
        Expr::Expand(k) => {
            let theirs = k.phys();
            let n = theirs.len();
            let skip = mine.len() - n;
            let coord = |d: usize, c: Coord| if theirs[d] == 1 { Coord::default() } else { c };
            let outer = (0..n - 2).map(|d| coord(d, at.outer[skip + d])).collect();
            vec![(Rc::clone(k), At { outer, row: coord(n - 2, at.row), col: coord(n - 1, at.col) })]
        }
        Expr::Recast(k) => {
            let theirs = k.phys();
            let (m, n) = (mine.len(), theirs.len());
            // Outer dimensions that are not of size 1 follow each other.
            let mut rest = at.outer.iter().zip(&mine[..m - 2]).filter(|c| *c.1 != 1).map(|c| *c.0);
            let outer = theirs[..n - 2].iter().map(|d| if *d == 1 { Some(Coord::default()) } else { rest.next() });
            let outer =
                outer.collect::<Option<Vec<Coord>>>().ok_or_else(|| Refused::new("a reshape of outer dimensions"))?;
            vec![(Rc::clone(k), At { outer, ..at.clone() })]
        }
        Expr::Beside(kids) => {
            let mut col = at.col.fixed;
            for k in kids {
                let width = (k.phys()[k.phys().len() - 1] / u64::from(lanes)) as u32;
                if col < width {
                    return Ok(vec![(Rc::clone(k), At { col: Coord::at(col), ..at.clone() })]);
                }
                col -= width;
            }
            return Err(Refused::new("columns beyond a vector"));
        }
        Expr::Across(k, _) => row_tiles(k, at, lanes).into_iter().map(|at| (Rc::clone(k), at)).collect(),
        Expr::Splat(_) | Expr::Memory(_) | Expr::Regs(_) | Expr::Iota(_) => Vec::new(),
        // Of what is in memory.
        Expr::Turned(..) | Expr::Gather(..) | Expr::Product(_) => Vec::new(),
    })
}

impl Fit {
    /// The tiles of a kept vector that are stored with a tile of the walk.
    fn tiles(self, t: &Tensor, at: &At, lanes: u32) -> Vec<At> {
        match self {
            // With the first of a row come all.
            Fit::Rows if at.col == Coord::default() => row_tiles(t, at, lanes),
            Fit::Rows => Vec::new(),
            Fit::Same | Fit::Other => vec![at.clone()],
        }
    }
}

impl Nest {
    /// The steps of a region at each level, and the element rows behind its base.
    fn strides(&self, r: &Region, at: &At, sub: u32) -> (Vec<i64>, i64) {
        let mut steps = vec![0; self.walk.levels.len()];
        let mut fixed = i64::from(r.offset);
        let axes = at.outer.iter().zip(r.outer()).map(|(c, s)| (*c, *s));
        for (c, stride) in axes.chain([(at.row, r.row() * i64::from(sub)), (at.col, r.plane)]) {
            fixed += i64::from(c.fixed) * stride;
            if let Some(l) = c.level {
                steps[l] += stride * i64::from(self.walk.levels[l].step);
            }
        }
        (steps, fixed)
    }

    /// A nest without loops.
    pub fn fixed(walk: Walk, sub: u32) -> Nest {
        Nest {
            walk,
            sub,
            cursors: Vec::new(),
            known: FxHashMap::default(),
            keep: Vec::new(),
            stream: None,
            touched: FxHashSet::default(),
        }
    }

    /// How a vector's tiles go with the walk's, where those of what needs it go so.
    fn fit(&self, t: &Tensor, user: Fit) -> Fit {
        let (mine, walked) = (t.phys(), &self.walk.phys);
        let (m, n) = (mine.len(), walked.len());
        let last = walked.len() - 1;
        if user == Fit::Other || mine[m - 2] != walked[n - 2] {
            return Fit::Other;
        }
        if mine == *walked {
            return Fit::Same;
        }
        let outer = mine[..m - 2] == walked[..n - 2] || mine[..m - 2].iter().chain(&walked[..n - 2]).all(|d| *d == 1);
        let columns = self.walk.levels.iter().all(|l| l.dim != last);
        if outer && columns { Fit::Rows } else { Fit::Other }
    }

    /// The cursors' registers, with their steps at a level.
    pub fn advanced(&self, level: usize) -> Vec<(S, i32)> {
        self.cursors.iter().map(|(key, s)| (*s, key.1[level] as i32)).filter(|c| c.1 != 0).collect()
    }

    fn claim(&mut self, r: &Region, at: &At) {
        let (steps, _) = self.strides(r, at, self.sub);
        let key = (r.base, steps);
        if !self.cursors.iter().any(|c| c.0 == key) {
            self.cursors.push((key.clone(), key.0));
        }
    }

    /// Base register and offset of a region's tile, in element rows.
    pub fn address(&self, r: &Region, at: &At) -> (S, i32) {
        let (steps, fixed) = self.strides(r, at, self.sub);
        if steps.iter().all(|&s| s == 0) {
            return (r.base, fixed as i32);
        }
        let found = self.cursors.iter().find(|c| c.0.0 == r.base && c.0.1 == steps);
        (found.map_or(r.base, |c| c.1), fixed as i32)
    }

    /// How many tiles (or indices) a coordinate is from the first: a register (zero: none), and a number.
    pub fn count(&self, c: Coord) -> (S, u32) {
        let Some(l) = c.level else { return (S::ZERO, c.fixed) };
        let steps = (0..self.walk.levels.len()).map(|i| if i == l { i64::from(self.walk.levels[l].step) } else { 0 });
        let key = (S::ZERO, steps.collect::<Vec<i64>>());
        (self.cursors.iter().find(|k| k.0 == key).map_or(S::ZERO, |k| k.1), c.fixed)
    }

    /// Whether a coordinate can be the last of `count` tiles.
    pub fn may_be_last(&self, c: Coord, count: u32) -> bool {
        let reach = c.level.map_or(0, |l| (self.walk.levels[l].count - 1) * self.walk.levels[l].step);
        c.fixed + reach + 1 >= count
    }

    pub fn is_fixed(c: Coord) -> bool {
        c.level.is_none() || c.is_zero()
    }
}
