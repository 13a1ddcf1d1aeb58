//! From a tiling to the [`Context`] of an emission: parameters, windows, streams and the first values of all registers.

use super::body::{Context, Current, Next, Operand, Pops, Pushes, Rings, StepChunk, Streams, Sums};
use super::ends::{Closing, open_streams};
use super::follow::{Follow, Following};
use super::levels::{Gain, Levels, gain};
use super::odometer::{Odometer, Walk};
use super::spec::{Array, Dim, Epilogue, MxuError};
use super::spread::Spread;
use super::start::Start;
use super::stream::{Chunk, Kind, OutStream, Piece, Pieces, Ring, Stream, desc};
use super::tile::{Problem, Tiling, Window};
use crate::emit::hbm::{Descs, HbmUnit};
use crate::emit::loops::spec::LoopSpec;
use crate::kernel::{KernelBuilder, S};
use std::cell::RefCell;
use systole_isa::DmaDesc;
use systole_isa::dma::MAX_DMA_DIMS;

/// Allocates what a kernel needs besides registers.
struct Resources {
    scratch: S,
    words: u32,
    descs: Descs,
    semaphores: u32,
}

impl Resources {
    /// The first word row of `words` new rows of scratch memory.
    fn scratch(&mut self, b: &mut KernelBuilder, words: u64) -> S {
        let at = b.s_addi(self.scratch, self.words as i32);
        self.words += words as u32;
        at
    }

    fn semaphores(&mut self, n: u32) -> u32 {
        self.semaphores += n;
        self.semaphores - n
    }
}

/// An operand's base: parameter, buffer of the array, and the window if it is in HBM.
struct Base {
    operand: Operand,
    /// Element row of the operand's (or its window's) begin.
    start: S,
    /// Word row of the window.
    window: S,
    hbm: Option<HbmUnit>,
}

fn base(
    b: &mut KernelBuilder,
    r: &mut Resources,
    chip: &systole_isa::ChipConfig,
    (array, param): (Array, S),
    (window, beside): (Option<&Window>, u32),
) -> Base {
    let array_buf = b.buffer();
    let packing = array.dtype.packing() as i32;
    let elements = |b: &mut KernelBuilder, s: S| if packing == 1 { b.s_copy(s) } else { b.s_muli(s, packing) };
    match window {
        None => {
            let operand = Operand { array, buf: array_buf, plane: array.plane_rows, beside };
            Base { operand, start: elements(b, param), window: S::ZERO, hbm: None }
        }
        Some(w) => {
            let at = r.scratch(b, w.total());
            let operand =
                Operand { array, buf: b.buffer(), plane: w.plane, beside: if beside == 0 { 0 } else { w.apart() } };
            let hbm = Some(HbmUnit::new(param, array_buf, array.dtype, chip));
            Base { operand, start: elements(b, at), window: at, hbm }
        }
    }
}

/// The first of the steps' odometer's variables that is of values of rows.
pub(super) const ROWS: usize = 4;

/// The steps' odometer: lhs, rhs, k left, n left, values of rows of lhs (whose bases are `rows`).
#[allow(clippy::wildcard_enum_match_arm, reason = "no other level moves it")]
fn step_odometer(b: &mut KernelBuilder, l: &Levels<'_>, (lhs, rhs): (&Base, &Base), rows: &[S]) -> Odometer<Kind> {
    let (g, t, spec) = (l.p.geometry, l.t, l.p.spec);
    let tile_k = (t.kch * g.lanes) as i64;
    let taps: Vec<i64> =
        dense(&g.taps.iter().map(|d| d.count).collect::<Vec<_>>(), t.windows.rhs.map_or(0, |w| w.copied));
    let n_padded = spec.n.next_multiple_of(g.sublanes) as i64;
    let levels = l.kinds().into_iter().map(|k| {
        let left = l.lhs(k.0, lhs.operand.plane);
        let left = if lhs.hbm.is_some() { Levels::inside(k.0, left) } else { left };
        let right = match (k.0, rhs.hbm.is_some()) {
            (Kind::Tap(i), true) => gain(taps[i], 0),
            // The last group's window holds the last rows that exist.
            (Kind::Group, true) if l.p.staging.transposed && t.ng > 1 => {
                gain(0, (g.planes_n * g.lanes) as i64 - n_padded)
            }
            (kind, true) => Levels::inside(kind, l.rhs(kind, rhs.operand.plane)),
            (kind, false) => l.rhs(kind, rhs.operand.plane),
        };
        let k_left = match k.0 {
            Kind::K => gain(-tile_k, 0),
            Kind::Split => gain(-tile_k * t.kt as i64, 0),
            _ => Gain::default(),
        };
        let n_left = match k.0 {
            Kind::Group => gain(-((t.group() * g.lanes) as i64), -l.group_last() * g.lanes as i64),
            Kind::Wide => gain(-l.wide().step as i64 * g.lanes as i64, -l.wide().last as i64 * g.lanes as i64),
            _ => Gain::default(),
        };
        // They have one plane.
        let of_row = l.lhs(k.0, 0);
        let gains: Vec<Gain> = [left, right, k_left, n_left].into_iter().chain(rows.iter().map(|_| of_row)).collect();
        l.level(k, &gains)
    });
    let levels = levels.collect();
    let mut vars = vec![b.s_copy(lhs.start), b.s_copy(rhs.start), b.s_var(g.k as i32), b.s_var(spec.n as i32)];
    vars.extend(rows.iter().map(|&base| b.s_copy(base)));
    Odometer::new(b, levels, vars)
}

/// Strides of dimensions that lie densely around an element of `size`.
fn dense(counts: &[u32], size: u32) -> Vec<i64> {
    let mut at = size as i64;
    let mut strides: Vec<i64> = counts
        .iter()
        .rev()
        .map(|&n| {
            at *= n as i64;
            at / n as i64
        })
        .collect();
    strides.reverse();
    strides
}

fn lhs_stream(b: &mut KernelBuilder, r: &mut Resources, l: &Levels<'_>, lhs: &Base) -> Option<Stream> {
    let (unit, w, t) = (lhs.hbm?, l.t.windows.lhs?, l.t);
    let a = lhs.operand.array;
    let beside: Vec<[u32; 3]> = l.beside(&w, |d| d.lhs).into_iter().collect();
    let chunk = |r: &mut Resources, (i, piece): (u32, Option<(u32, u32)>)| {
        let (first, planes) = t.lhs_planes(l.p.geometry, i);
        let (row, rows, dim) = piece.map_or((0, w.copied, None), |p| t.lhs_rows(l.p.geometry, &w, p));
        let dims: Vec<[u32; 3]> = beside.iter().copied().chain(dim).collect();
        let d = desc(&unit, false, rows, [planes, a.plane_rows, w.plane], &dims);
        let to = ((first * w.plane + row) / a.dtype.packing() as u32) as i32;
        let from = unit.units((first * a.plane_rows + row) as i32);
        Chunk { bytes: d.bytes() as u32, desc: r.descs.number(d), from, to }
    };
    let chunks: Vec<Chunk> = t.lhs_chunks().into_iter().map(|piece| chunk(r, piece)).collect();
    let sem = r.semaphores(Stream::semaphores(chunks.len() as u32, &w, false));
    let levels = l.stream(&unit, |k| l.lhs(k, a.plane_rows), &[Kind::Group]);
    let mut stream = Stream::new(b, (unit, lhs.operand.buf), (chunks, sem), levels, (lhs.window, &w, false));
    if t.open > 1 {
        let pieces = t.first_pieces();
        stream.first = (r.semaphores(pieces.len() as u32), pieces.iter().map(|&p| chunk(r, (0, Some(p)))).collect());
    }
    Some(stream)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all other levels move as the array does")]
fn rhs_stream(b: &mut KernelBuilder, r: &mut Resources, l: &Levels<'_>, rhs: &Base) -> Option<Stream> {
    let (unit, w, t, g) = (rhs.hbm?, l.t.windows.rhs?, l.t, l.p.geometry);
    let a = rhs.operand.array;
    let counts: Vec<u32> = g.taps.iter().map(|d| d.count).collect();
    let strides = dense(&counts, w.copied);
    let taps = g.taps.iter().zip(strides).map(|(d, s)| [d.count, d.rhs, s as u32]);
    let dims: Vec<[u32; 3]> = taps.chain(l.beside(&w, |d| d.rhs)).collect();
    let tile_k = t.kch * g.lanes;
    let transposed = l.p.staging.transposed;
    let chunk = |r: &mut Resources, i: u32| {
        let (d, from, to) = if transposed {
            let from = i * t.ktc * t.kch;
            let planes = ((i + 1) * t.ktc * t.kch).min(g.planes_k).min(t.kt * t.kch) - from;
            let d = desc(&unit, false, w.copied, [planes, a.plane_rows, w.plane], &dims);
            (d, from * a.plane_rows, from * w.plane)
        } else {
            let from = i * t.ktc * tile_k;
            let rows = ((i + 1) * t.ktc * tile_k).min(w.copied) - from;
            (desc(&unit, false, rows, [w.planes, a.plane_rows, w.plane], &dims), from, from)
        };
        let to = (to / a.dtype.packing() as u32) as i32;
        Chunk { bytes: d.bytes() as u32, desc: r.descs.number(d), from: unit.units(from as i32), to }
    };
    let chunks = (0..t.kc).map(|i| chunk(r, i)).collect();
    let sem = r.semaphores(Stream::semaphores(t.kc, &w, t.keeps_rhs()));
    let rows = |k: Kind| match k {
        Kind::Group if transposed && t.ng > 1 && t.wide == 1 => {
            let group = (t.group() * g.lanes) as i64;
            gain(group, l.p.spec.n.next_multiple_of(g.sublanes) as i64 - t.ng as i64 * group)
        }
        k => l.rhs(k, a.plane_rows),
    };
    let mut levels = l.stream(&unit, rows, &[]);
    if t.keeps_rhs() {
        levels.retain(|level| level.kind == Kind::Group);
    }
    Some(Stream::new(b, (unit, rhs.operand.buf), (chunks, sem), levels, (rhs.window, &w, t.keeps_rhs())))
}

/// The descriptor of a tile of results (or of an extra).
fn tile_desc(unit: &HbmUnit, l: &Levels<'_>, w: &Window, to_hbm: bool) -> DmaDesc {
    let beside: Vec<[u32; 3]> = l.beside(w, |d| d.out).into_iter().collect();
    desc(unit, to_hbm, w.copied, [w.planes, l.p.spec.out.plane_rows, w.plane], &beside)
}

/// How results of a window, or of its first planes, leave, and the bytes of all. `ends`: row blocks behind which some may leave.
fn out_pieces(r: &mut Resources, l: &Levels<'_>, unit: &HbmUnit, (w, ends): (&Window, &[u32])) -> (Pieces, u32) {
    let (t, g, a) = (l.t, l.p.geometry, &l.p.spec.out);
    let whole = tile_desc(unit, l, w, true);
    let bytes = whole.bytes() as u32;
    let Some(early) = t.early_rows(l.p.spec, g) else {
        let rest = Piece { desc: r.descs.number(whole), from: 0, to: 0 };
        return (Pieces { early: Vec::new(), rest, last: Vec::new() }, bytes);
    };
    let slab = t.blocks * g.sublanes;
    let mut piece = |first: u32, rows: u32| {
        let d = desc(unit, true, rows, [w.planes, a.plane_rows, w.plane], &[[t.ms, slab, slab]]);
        let to = (first / a.dtype.packing() as u32) as i32;
        Piece { desc: r.descs.number(d), from: unit.units(first as i32), to }
    };
    let mut from = 0;
    let whole_words = |blocks: &u32| (blocks * g.sublanes).is_multiple_of(a.dtype.packing() as u32);
    let ends = ends.iter().copied().filter(|&end| end * g.sublanes < early && whole_words(&end));
    let pieces = ends.chain([early / g.sublanes]).map(|end| {
        let begin = std::mem::replace(&mut from, end * g.sublanes);
        (end, piece(begin, from - begin))
    });
    let whole = (pieces.collect(), piece(early, slab - early));
    let mut at = early;
    let last = t.last_pieces(l.p.spec, g).into_iter().map(|blocks| {
        let from = at;
        at += blocks * g.sublanes;
        (blocks, piece(from, blocks * g.sublanes))
    });
    let last = last.collect();
    (Pieces { early: whole.0, rest: whole.1, last }, bytes)
}

/// Refuses arrays in HBM whose blocks are not whole words.
pub(super) fn check_placement(p: &Problem<'_>, t: &Tiling) -> Result<(), MxuError> {
    let spec = p.spec;
    let refuse = |what: &str, why: &str| Err(MxuError::Placement(format!("{what} {why}")));
    let l = Levels { p, t };
    let kinds: Vec<(Kind, u32)> = l.kinds().into_iter().filter(|k| k.1 > 1 && Levels::is_tile(k.0)).collect();
    let whole = |a: &Array, planes: u32, of: &dyn Fn(Kind) -> Gain| {
        let packing = a.dtype.packing() as i32;
        let steps = kinds.iter().map(|k| of(k.0)).all(|g| g.step % packing == 0 && g.last % packing == 0);
        steps && (planes == 1 || a.plane_rows as i32 % packing == 0)
    };
    let beside = |a: &Array, w: &Window, stride: fn(&Dim) -> u32| {
        l.beside(w, stride).is_none_or(|[_, apart, _]| (apart as usize).is_multiple_of(a.dtype.packing()))
    };
    let cut = |w: &Window| {
        whole(&spec.lhs, p.geometry.planes_k, &|k| l.lhs(k, spec.lhs.plane_rows)) && beside(&spec.lhs, w, |d| d.lhs)
    };
    if t.windows.lhs.is_some_and(|w| !cut(&w)) {
        return refuse("lhs", "is not cut at whole words");
    }
    if let Some(w) = &t.windows.rhs {
        let aligned = whole(&spec.rhs, 2, &|k| l.rhs(k, spec.rhs.plane_rows)) && beside(&spec.rhs, w, |d| d.rhs);
        let taps = p.geometry.taps.iter().all(|d| (d.rhs as usize).is_multiple_of(spec.rhs.dtype.packing()));
        if p.staging.stride != 1 || !aligned || !taps || spec.rhs.plane_rows < p.geometry.sublanes {
            return refuse("rhs", "is not cut at whole words");
        }
        if 1 + p.geometry.taps.len() + usize::from(w.beside > 1) > MAX_DMA_DIMS {
            return refuse("rhs", "has too many dimensions");
        }
    }
    for w in t.windows.out.iter().chain(t.windows.extras.iter().flatten()) {
        let rows = kinds.iter().filter(|k| !matches!(k.0, Kind::Group | Kind::Split | Kind::Wide));
        let outer = rows.clone().all(|k| l.out(k.0, 0).step as u32 >= w.copied);
        let apart = l.beside(w, |d| d.out).is_none_or(|[_, apart, _]| apart >= w.copied);
        if !outer
            || !apart
            || !beside(&spec.out, w, |d| d.out)
            || w.copied > spec.out.plane_rows
            || !whole(&spec.out, p.geometry.planes_n, &|k| l.out(k, spec.out.plane_rows))
        {
            return refuse("result", "shares words or rows between blocks");
        }
    }
    Ok(())
}

/// What a finished setup leaves besides the context.
pub(super) struct Prepared<'a> {
    pub context: Context<'a>,
    pub descs: Vec<DmaDesc>,
    pub semaphores: u32,
    pub words: u32,
}

/// Sets up the emission of a kernel with a tiling.
pub(super) fn prepare<'a>(
    b: &mut KernelBuilder,
    p: Problem<'a>,
    t: Tiling,
    epilogue: &'a mut dyn Epilogue,
    followed: Option<&'a LoopSpec>,
) -> Prepared<'a> {
    let (spec, chip, g) = (p.spec, p.chip, p.geometry);
    let (lhs_param, rhs_param, out_param) = (b.param(), b.param(), b.param());
    let extra_params: Vec<S> = spec.extras.iter().map(|_| b.param()).collect();
    let params: Vec<S> = (0..epilogue.params()).map(|_| b.param()).collect();
    let rows: Vec<S> = spec.start.iter().flat_map(Start::rows).map(|_| b.param()).collect();
    let following: Vec<S> = (0..spec.follow.as_ref().map_or(0, Follow::params)).map(|_| b.param()).collect();
    let mut r = Resources { scratch: b.param(), words: 0, descs: Descs::default(), semaphores: 0 };
    let beside = g.batch.beside.map_or(Dim { count: 1, lhs: 0, rhs: 0, out: 0 }, |beside| beside.whole);
    let lhs = base(b, &mut r, chip, (spec.lhs, lhs_param), (t.windows.lhs.as_ref(), beside.lhs));
    let rhs = base(b, &mut r, chip, (spec.rhs, rhs_param), (t.windows.rhs.as_ref(), beside.rhs));
    let out = base(b, &mut r, chip, (spec.out, out_param), (t.windows.out.as_ref(), beside.out));
    let mut extras = Vec::new();
    for ((&(place, dtype), &param), w) in spec.extras.iter().zip(&extra_params).zip(&t.windows.extras) {
        let array = Array { place, dtype, ..spec.out };
        extras.push(base(b, &mut r, chip, (array, param), (w.as_ref(), beside.out)));
    }
    let sums_base = r.scratch(b, t.sums as u64);
    let l = Levels { p: &p, t: &t };
    let steps = t.steps(g, p.formats);
    let parts = t.tiles(g) * t.ks;
    let seg = t.segments.clone();
    let mut lhs_stream = lhs_stream(b, &mut r, &l, &lhs);
    let mut rhs_stream = rhs_stream(b, &mut r, &l, &rhs);
    if t.open > 1 {
        open_streams(b, &t, &mut lhs_stream, &mut rhs_stream);
    }
    let next = step_odometer(b, &l, (&lhs, &rhs), &rows);
    let serial = t.overlaps(g);
    let out_stream = out.hbm.zip(t.windows.out).map(|(unit, w)| {
        let (pieces, bytes) = out_pieces(&mut r, &l, &unit, (&w, &[]));
        let columns = Window { planes: w.planes / t.close, ..w };
        let closing = (t.close > 1).then(|| out_pieces(&mut r, &l, &unit, (&columns, &seg.ends())).0);
        let sem = r.semaphores(w.count);
        OutStream::new(b, (unit, out.operand.buf), (pieces, closing), (bytes, sem), (w.count, serial))
    });
    let mut extra_streams = Vec::new();
    for (e, w) in extras.iter().zip(&t.windows.extras) {
        let stream = e.hbm.zip(w.as_ref()).map(|(unit, w)| {
            let d = tile_desc(&unit, &l, w, false);
            let chunks = vec![Chunk { bytes: d.bytes() as u32, desc: r.descs.number(d), from: 0, to: 0 }];
            let levels = l.stream(&unit, |k| l.out(k, spec.out.plane_rows), &[Kind::Split]);
            let sem = r.semaphores(1);
            Stream::new(b, (unit, e.operand.buf), (chunks, sem), levels, (e.window, w, false))
        });
        extra_streams.push(stream);
    }
    let at = tile_odometer(b, &l, &out, &extras);
    let walk: Vec<(u32, i32)> = t.slab.walk.iter().map(|d| (d.count, d.lhs as i32)).collect();
    let push_at = (0..1 + rows.len()).map(|_| b.s_var(0)).collect();
    let push = Walk::new(b, &walk, push_at, false);
    let walk: Vec<(u32, i32)> = t.slab.walk.iter().map(|d| (d.count, d.out as i32)).collect();
    let pop_at = (0..1 + extras.len()).map(|_| b.s_var(0)).collect();
    let pop = Walk::new(b, &walk, pop_at, g.masked && g.blocks.long_lines);
    let lag = if t.accumulators { steps - 1 + seg.lag } else { seg.lag + 1 };
    let ring = |b: &mut KernelBuilder, w: &Option<Window>, a: &Array| {
        let w = w.filter(|w| w.count > 1)?;
        Some(Ring::new(b, w.count, (w.words as usize * a.dtype.packing()) as i32))
    };
    let partial = t.k_tiles() > 1 && g.k % (t.kch * g.lanes) != 0;
    let zero = |b: &mut KernelBuilder| b.s_var(0);
    let current = Current {
        k_left: partial.then(|| b.s_var(0)),
        pass: (p.formats.passes.len() > 1).then(|| b.s_var(0)),
        chunk: StepChunk { number: zero(b), new: zero(b) },
        groups: zero(b),
        first: zero(b),
    };
    let follow = Following::new(b, (&p, &t), followed, (out.start, out.operand.buf), &following);
    let (params_buf, rows_buf, sums_buf) = (b.buffer(), b.buffer(), b.buffer());
    let next = Next {
        odometer: next,
        chunk: StepChunk { number: zero(b), new: b.s_var(1) },
        first: b.s_var(1),
        region: zero(b),
        chunk_left: b.s_var(t.ktc as i32),
    };
    let (lhs_ring, rhs_ring) = (ring(b, &t.windows.lhs, &spec.lhs), ring(b, &t.windows.rhs, &spec.rhs));
    let rhs_waits = b.s_var(if t.keeps_rhs() { t.ng as i32 } else { 1 });
    let (push_row, pop_row) = (zero(b), zero(b));
    let sums = Sums { buf: sums_buf, base: sums_base, at: b.s_copy(sums_base), row: b.s_copy(sums_base) };
    let pop = Pops {
        walk: pop,
        row: pop_row,
        group: b.s_var(t.ng as i32),
        split: b.s_var(t.ks as i32),
        plane: zero(b),
        left: b.s_var(steps as i32),
        wait: b.s_var(lag as i32),
        region: zero(b),
    };
    let rings = Rings {
        lhs: lhs_ring,
        rhs: rhs_ring,
        out: ring(b, &t.windows.out, &spec.out),
        extras: extras.iter().zip(&t.windows.extras).map(|(e, w)| ring(b, w, &e.operand.array)).collect(),
    };
    let context = Context {
        follow,
        params,
        params_buf,
        steps,
        parts,
        rows_buf,
        sums,
        next,
        rings,
        rhs_waits,
        current,
        push: Pushes { walk: push, row: push_row },
        pop,
        at,
        lhs: lhs.operand,
        rhs: rhs.operand,
        out: out.operand,
        extras: extras.iter().map(|e| e.operand).collect(),
        streams: Streams { lhs: lhs_stream, rhs: rhs_stream, out: out_stream, extras: extra_streams },
        closing: Closing::new(b, &p, &t, parts, rhs.operand.plane),
        spread: Spread::new(b, &t),
        epilogue: RefCell::new(epilogue),
        seg,
        p,
        t,
    };
    Prepared { context, descs: r.descs.0, semaphores: r.semaphores, words: r.words }
}

/// The tiles' odometer: places of results as the walk has them, plane, copy address of the result.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other level moves it")]
fn tile_odometer(b: &mut KernelBuilder, l: &Levels<'_>, out: &Base, extras: &[Base]) -> Odometer<Kind> {
    let array_plane = l.p.spec.out.plane_rows;
    let of = |e: &Base, k: Kind| match e.hbm {
        Some(_) => Gain::default(),
        None => l.out(k, array_plane),
    };
    let kinds = l.kinds().into_iter().filter(|k| Levels::is_tile(k.0) && k.0 != Kind::Split);
    let levels = kinds.map(|k| {
        let whole = l.out(k.0, array_plane);
        let mut gains = vec![of(out, k.0)];
        gains.extend(extras.iter().map(|e| of(e, k.0)));
        gains.push(match k.0 {
            Kind::Group => gain(l.t.group() as i64, l.group_last()),
            Kind::Wide => l.wide(),
            _ => Gain::default(),
        });
        gains.extend(out.hbm.map(|u| Gain { step: u.units(whole.step), last: u.units(whole.last) }));
        l.level(k, &gains)
    });
    let levels = levels.collect();
    let mut vars = vec![b.s_copy(out.start)];
    vars.extend(extras.iter().map(|e| b.s_copy(e.start)));
    vars.push(b.s_var(0));
    vars.extend(out.hbm.map(|_| b.s_var(0)));
    Odometer::new(b, levels, vars)
}
