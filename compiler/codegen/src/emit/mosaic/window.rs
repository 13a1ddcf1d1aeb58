//! Windows: their places in vector memory, and the copies between these and HBM.

use super::facts::{ALL_ZERO, zeros_of};
use super::scalar::{add, compare, mul, two};
use super::value::{Num, Ref};
use super::{Lower, MosaicArray, Part as Held, Refused};
use crate::kernel::{BufferRef, KernelBuilder, S};
use std::collections::BTreeSet;
use systole_isa::program::{DebugPlace, PADDING, WINDOW};
use systole_isa::{Layout, Op};
use systole_mosaic::{MemRef, Value, Walk, Window};

/// Padding of a window, in percent, that its name tells.
const MUCH: u64 = 10;
/// Blocks of a window that reach into padding, in a dimension: each is a copy of another size.
const MOST_EDGES: usize = 8;

/// A window while the grid runs.
pub(super) struct Pane {
    pub argument: Value,
    pub memref: MemRef,
    pub window: Window,
    pub array: Ref,
    pub layout: Layout,
    /// A block as an array.
    pub stored: MosaicArray,
    pub input: bool,
    /// Whether the array is both an operand and a result.
    pub shared: bool,
    pub double: bool,
    /// Element row of the place in use, and the sum of both places'.
    pub row: S,
    pub both: S,
    /// Which place is in use: 0 or 1.
    pub place: S,
    /// The block in use.
    pub block: Vec<Num>,
    /// Bytes that are on their way into the place in use (of results: out of it), and of the other place.
    pub busy: S,
    pub busy_other: S,
    /// Bytes of the copy that began last.
    pub begun: S,
    pub semaphores: [u32; 2],
    pub buf: BufferRef,
    /// The line of its copies, as instructions have it.
    pub line: u16,
    /// Of results: whether the block in the other place is still to be copied out, and the words of scalar memory that
    /// say which one it is.
    pub leaving: S,
    pub left: u32,
    /// Of each dimension where blocks begin that reach into the array's padding.
    pub edges: Vec<BTreeSet<i64>>,
    /// Where blocks depend on data: what a run says whose block begins outside of the array.
    pub outside: Option<String>,
    /// The next step's block, and whether it is another one.
    pub next: Vec<Num>,
    pub changes: Num,
}

/// What of a block a copy moves.
#[derive(Clone)]
struct Part {
    /// Its sizes, and what of the block lies before it.
    sizes: Vec<u64>,
    skipped: Vec<u64>,
    /// Where the array's padding begins, in elements of the array.
    first: Vec<i32>,
    /// From the array to the window.
    inward: bool,
}

/// A copy of a window: of which block, the row of vector memory where the window is, the semaphore.
struct Target<'p> {
    p: &'p Pane,
    block: &'p [Num],
    row: S,
    sem: u32,
}

impl Lower<'_> {
    pub(super) fn pane(
        &mut self,
        b: &mut KernelBuilder,
        (argument, m, window): (Value, &MemRef, &Window),
        array: Ref,
        i: usize,
    ) -> Result<Pane, Refused> {
        if window.bounds.len() != array.dims.len() {
            return Err(Refused::new(format!("a window of {:?} of an array of {:?}", window.bounds, array.dims)));
        }
        let walk = systole_mosaic::walk(&self.kernel, window, &array.dims);
        if let Some((step, block)) = walk.as_ref().and_then(|w| w.outside.as_ref()) {
            let sizes = &array.dims;
            let function = self.module.function(&window.transform);
            let place = function.and_then(|f| f.body.operations.iter().find_map(|o| o.place.as_ref()));
            let what = format!(
                "the {} shows block {block:?} of sizes {:?} at step {step:?} of the grid, beyond the array of sizes {sizes:?}",
                self.window_name(i),
                window.bounds
            );
            return Err(Refused { what, place: place.map(ToString::to_string) });
        }
        let outside = walk.is_none().then(|| {
            let (name, sizes) = (self.window_name(i), &array.dims);
            format!("the {name} shows a block of sizes {:?} beyond the array of sizes {sizes:?}", window.bounds)
        });
        let padded = window.padding.iter().any(|p| *p != (0, 0));
        let edges = walk.as_ref().map_or_else(Vec::new, |w| w.edges.clone());
        if padded && (edges.is_empty() || edges.iter().any(|e| e.len() > MOST_EDGES)) {
            return Err(Refused::new("windows in padding whose blocks depend on data, or of many kinds"));
        }
        let stored = MosaicArray { dtype: array.dtype, dims: window.bounds.clone(), apart: self.spec.arrays[i].apart };
        let layout = Layout::row_major(array.dtype, &stored.stored(), self.sub(), self.shape().1);
        let rows =
            u32::try_from(layout.component_word_rows()).map_err(|_| Refused::new("a window of too many rows"))?;
        let input = i < self.spec.operands as usize;
        // A block that is read again must have been written by then.
        let double = !window.synchronous && !window.revisited && self.kernel.steps() != Some(1);
        let packing = layout.dtype.packing();
        let scratch = self.scratch[packing.trailing_zeros() as usize];
        let first = self.room(rows);
        let second = if double { self.room(rows) } else { first };
        for (place, row) in [first, second].into_iter().enumerate().take(1 + usize::from(double)) {
            let which = if double { format!(", place {} of 2", place + 1) } else { String::new() };
            let name = format!("{}: block {:?}{which}", self.window_name(i), window.bounds);
            self.parts.push(Held { name, row, rows: rows.next_multiple_of(32) });
        }
        let row = b.s_addi(scratch, (first * packing as u32) as i32);
        let other = b.s_addi(scratch, (second * packing as u32) as i32);
        let both = b.s(Op::SAdd, &[row, other]);
        let semaphores = [self.semaphore(), if double { self.semaphore() } else { self.semaphores - 1 }];
        self.whole.push(row);
        let line = self.window_line(b, i, (window, &layout, &array.dims), walk.as_ref());
        Ok(Pane {
            argument,
            memref: m.clone(),
            window: window.clone(),
            array,
            layout,
            stored,
            input,
            shared: self.spec.aliases.iter().any(|a| a.0 as usize == i || a.1 as usize == i),
            double,
            row,
            both,
            place: b.s_var(0),
            block: Vec::new(),
            busy: b.s_var(0),
            busy_other: b.s_var(0),
            begun: b.s_var(0),
            semaphores,
            buf: self.buffer(),
            line,
            leaving: b.s_var(0),
            left: if input { 0 } else { self.words(window.bounds.len()) },
            edges,
            outside,
            next: Vec::new(),
            changes: Num::Const(0),
        })
    }

    /// The block in the place in use.
    pub(super) fn near(&mut self, p: &Pane) -> Ref {
        let r = self.vmem_array(&p.layout, p.row, 0);
        Ref { buf: p.buf, ..self.as_stored(r, &p.stored) }
    }

    fn window_name(&self, i: usize) -> String {
        format!("{WINDOW}{}", self.argument_name(i))
    }

    /// An array of the call: `operand 1`, `result 0`.
    pub(super) fn argument_name(&self, i: usize) -> String {
        match i.checked_sub(self.spec.operands as usize) {
            None => format!("operand {}", i - self.kernel.open_sizes().min(i)),
            Some(result) => format!("result {result}"),
        }
    }

    /// Copies of a window belong to the kernel's function, under a name of their own.
    fn window_line(
        &self,
        b: &mut KernelBuilder,
        i: usize,
        (w, layout, array): (&Window, &Layout, &[u64]),
        walk: Option<&Walk>,
    ) -> u16 {
        // Functions say nothing of their place; their first operation does.
        let f = self.kernel.function;
        let first = || f.body.operations.iter().find_map(|o| o.place.as_ref());
        let Some(p) = f.place.as_ref().or_else(first) else { return 0 };
        let mut name = format!("{WINDOW}{}: block {:?}", self.argument_name(i), w.bounds);
        if let Some(n) = walk.map(Walk::times).filter(|n| *n > 1) {
            name += &format!(", each copied {n} times");
        }
        let percent = |part: u64, all: u64| 100 * (all - part.min(all)) / all.max(1);
        let own: u64 = w.bounds.iter().product();
        let row = u64::from(self.shape().1) * layout.dtype.packing() as u64;
        let registers = percent(own, layout.component_word_rows().saturating_mul(row));
        let dims = || array.iter().zip(&w.bounds);
        let covered = dims().map(|(d, b)| if w.elements { *d } else { d.next_multiple_of(*b) });
        let beyond = percent(array.iter().product(), covered.fold(1, u64::saturating_mul));
        let shares = [(registers, "of its registers"), (beyond, "beyond the array")];
        let much = shares.iter().filter(|s| s.0 >= MUCH).map(|(n, what)| format!("{n} % {what}"));
        let much: Vec<String> = much.collect();
        if !much.is_empty() {
            name += &format!(", {PADDING}{}", much.join(", "));
        }
        b.place(DebugPlace { file: p.file.to_string(), line: p.line, function: p.function.to_string(), name })
    }

    /// Starts the copy between HBM and the place in use, or the other one.
    pub(super) fn by_place(
        &mut self,
        b: &mut KernelBuilder,
        p: &Pane,
        other: bool,
        block: &[Num],
    ) -> Result<(), Refused> {
        if !p.double {
            return self.window_copy(b, p, block, p.row, p.semaphores[0]);
        }
        self.is_inside(b, p, block);
        let row = if other { b.s(Op::SSub, &[p.both, p.row]) } else { p.row };
        let (mut x, mut y) = (Ok(()), Ok(()));
        {
            let cell = std::cell::RefCell::new(&mut *self);
            b.if_else(
                p.place,
                |b| x = cell.borrow_mut().block_copy(b, p, block, row, p.semaphore(1, other)),
                |b| y = cell.borrow_mut().block_copy(b, p, block, row, p.semaphore(0, other)),
            );
        }
        x?;
        y
    }

    /// A window's copy, of a block that must be one of the array's.
    pub(super) fn window_copy(
        &mut self,
        b: &mut KernelBuilder,
        p: &Pane,
        block: &[Num],
        row: S,
        sem: u32,
    ) -> Result<(), Refused> {
        self.is_inside(b, p, block);
        self.block_copy(b, p, block, row, sem)
    }

    /// The run ends where a block that depends on data begins outside of the array.
    fn is_inside(&mut self, b: &mut KernelBuilder, p: &Pane, block: &[Num]) {
        let Some(message) = &p.outside else { return };
        let mut inside = Num::Const(1);
        for ((begin, size), bound) in block.iter().zip(&p.array.dims).zip(&p.window.bounds) {
            // Blocks that are placed by elements reach no padding here.
            let places = if p.window.elements { size.saturating_sub(*bound) + 1 } else { size.div_ceil(*bound) };
            let here = two(b, Op::SLtU, *begin, Num::Const(places as i32));
            inside = if inside == Num::Const(1) { here } else { two(b, Op::SAnd, inside, here) };
        }
        match inside {
            Num::Const(0) => self.fails(b, message),
            Num::Const(_) => {}
            Num::Reg(s) => b.unless(s, |b| self.fails(b, message)),
        }
    }

    /// A window's copy: as much of it as the array has.
    fn block_copy(&mut self, b: &mut KernelBuilder, p: &Pane, block: &[Num], row: S, sem: u32) -> Result<(), Refused> {
        let part = self.all_of(p, p.input);
        self.window_part(b, &Target { p, block, row, sem }, 0, part)
    }

    /// The copy of what a result's next block has been so far.
    pub(super) fn fetch_again(&mut self, b: &mut KernelBuilder, p: &Pane) -> Result<(), Refused> {
        self.is_inside(b, p, &p.next);
        let part = self.all_of(p, true);
        self.window_part(b, &Target { p, block: &p.next, row: p.row, sem: p.semaphores[0] }, 0, part)
    }

    /// A whole block.
    fn all_of(&self, p: &Pane, inward: bool) -> Part {
        Part {
            sizes: p.window.bounds.clone(),
            skipped: vec![0; p.window.bounds.len()],
            first: p.window.padding.iter().map(|q| -(q.0 as i32)).collect(),
            inward,
        }
    }

    /// The copy of what of a block is in the array, dimension by dimension from `d` on.
    fn window_part(&mut self, b: &mut KernelBuilder, to: &Target<'_>, d: usize, part: Part) -> Result<(), Refused> {
        let p = to.p;
        let Some(&bound) = p.window.bounds.get(d) else {
            return self.window_act(b, to, &part);
        };
        let size = p.array.dims[d];
        let mut cases: Vec<(i64, Part)> = Vec::new();
        if p.window.elements {
            for &begin in p.edges.get(d).into_iter().flatten() {
                // Elements of the array, from `from` until before `until`.
                let from = begin + i64::from(part.first[d]);
                let until = (from + bound as i64).min(size as i64);
                let mut short = part.clone();
                short.skipped[d] = (-from).max(0) as u64;
                short.sizes[d] = (until - from.max(0)).max(0) as u64;
                cases.push((begin, short));
            }
        } else if !size.is_multiple_of(bound) {
            let mut short = part.clone();
            short.sizes[d] = size % bound;
            cases.push(((size / bound) as i64, short));
        }
        self.one_part(b, to, d, (&cases, part))
    }

    /// The copy of the case that a dimension's block is, or of a whole block.
    fn one_part(
        &mut self,
        b: &mut KernelBuilder,
        to: &Target<'_>,
        d: usize,
        (cases, whole): (&[(i64, Part)], Part),
    ) -> Result<(), Refused> {
        let Some(((begin, short), rest)) = cases.split_first() else {
            return self.window_part(b, to, d + 1, whole);
        };
        match compare(b, 0, to.block[d], Num::Const(*begin as i32)).unwrap_or(Num::Const(0)) {
            Num::Const(0) => self.one_part(b, to, d, (rest, whole)),
            Num::Const(_) => self.window_part(b, to, d + 1, short.clone()),
            Num::Reg(s) => {
                let (mut x, mut y) = (Ok(()), Ok(()));
                {
                    let cell = std::cell::RefCell::new(&mut *self);
                    b.if_else(
                        s,
                        |b| x = cell.borrow_mut().window_part(b, to, d + 1, short.clone()),
                        |b| y = cell.borrow_mut().one_part(b, to, d, (rest, whole)),
                    );
                }
                x?;
                y
            }
        }
    }

    fn window_act(&mut self, b: &mut KernelBuilder, to: &Target<'_>, part: &Part) -> Result<(), Refused> {
        let &Target { p, block, row, sem } = to;
        let n = part.sizes.len();
        if part.sizes.contains(&0) {
            b.set_s(p.begun, Op::SLi, &[0.into()]);
            return Ok(());
        }
        // Rows are copied with the padding that they have in both places.
        let mut dims = part.sizes.clone();
        if n >= 2 && !p.window.elements && dims[n - 2] < p.window.bounds[n - 2] {
            dims[n - 2] = dims[n - 2].next_multiple_of(u64::from(self.sub())).min(p.window.bounds[n - 2]);
        }
        let near = self.vmem_array(&p.layout, row, 0);
        let near = self.as_stored(near, &p.stored);
        let skipped: Vec<Num> = part.skipped.iter().map(|s| Num::Const(*s as i32)).collect();
        let near = self.at(b, &near, &skipped);
        let near =
            Ref { buf: p.buf, dims: dims.clone(), whole: near.whole && part.skipped.iter().all(|s| *s == 0), ..near };
        let mut first = Vec::new();
        for (d, i) in block.iter().enumerate() {
            let by = if p.window.elements { 1 } else { p.window.bounds[d] as i32 };
            let begin = mul(b, *i, Num::Const(by));
            let begin = add(b, begin, Num::Const(part.first[d] + part.skipped[d] as i32));
            // The one block of a dimension is its first.
            let one = !p.window.elements && p.window.bounds[d] >= p.array.dims[d];
            let zeros = match begin {
                Num::Const(c) => zeros_of(i64::from(c)),
                Num::Reg(_) if one => ALL_ZERO,
                Num::Reg(_) => zeros_of(i64::from(by)).min(zeros_of(i64::from(part.first[d]))),
            };
            first.push((begin, zeros));
        }
        let far = self.moved_by(b, &p.array, &first);
        let far = Ref { dims, ..far };
        self.begins_evenly(b, &far)?;
        if p.window.elements {
            self.begins_evenly(b, &near)?;
        }
        let (from, to) = if part.inward { (far, near) } else { (near, far) };
        self.start(b, &from, &to, sem)?;
        let bytes = self.bytes(&from, &to)?;
        b.set_s(p.begun, Op::SLi, &[bytes.into()]);
        Ok(())
    }
}

impl Pane {
    /// The semaphore of a place, where place `place` is in use.
    fn semaphore(&self, place: usize, other: bool) -> u32 {
        self.semaphores[if other { 1 - place } else { place }]
    }

    /// Waits for the copy of the place in use, or the other one.
    pub(super) fn finish(&self, b: &mut KernelBuilder, other: bool) {
        let busy = if other { self.busy_other } else { self.busy };
        let buffers = [self.buf, self.array.buf];
        if !self.double {
            return b.dma_wait_s(self.semaphores[0], busy, &buffers, &buffers);
        }
        b.if_else(
            self.place,
            |b| b.dma_wait_s(self.semaphore(1, other), busy, &buffers, &buffers),
            |b| b.dma_wait_s(self.semaphore(0, other), busy, &buffers, &buffers),
        );
    }
}
