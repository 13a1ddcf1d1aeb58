//! Windows: their places in vector memory, and the copies between these and HBM.

use super::scalar::{compare, mul};
use super::value::{Num, Ref};
use super::{Lower, Refused};
use crate::kernel::{BufferRef, KernelBuilder, S};
use systole_isa::program::DebugPlace;
use systole_isa::{Layout, Op};
use systole_mosaic::{MemRef, Value, Walk, Window};

/// A window while the grid runs.
pub(super) struct Pane {
    pub argument: Value,
    pub memref: MemRef,
    pub window: Window,
    pub array: Ref,
    pub layout: Layout,
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
    /// The next step's block, and whether it is another one.
    pub next: Vec<Num>,
    pub changes: Num,
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
        if window.padding.iter().any(|p| *p != (0, 0)) {
            return Err(Refused::new("windows that begin before the array"));
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
        let layout = Layout::row_major(array.dtype, &window.bounds, self.sub(), self.shape().1);
        let rows =
            u32::try_from(layout.component_word_rows()).map_err(|_| Refused::new("a window of too many rows"))?;
        let input = i < self.spec.operands as usize;
        let steps: u64 = self.kernel.steps();
        let double = !window.synchronous && steps > 1;
        let packing = layout.dtype.packing();
        let scratch = self.scratch[packing.trailing_zeros() as usize];
        let first = self.room(rows);
        let second = if double { self.room(rows) } else { first };
        let row = b.s_addi(scratch, (first * packing as u32) as i32);
        let other = b.s_addi(scratch, (second * packing as u32) as i32);
        let both = b.s(Op::SAdd, &[row, other]);
        let semaphores = [self.semaphore(), if double { self.semaphore() } else { self.semaphores - 1 }];
        self.whole.push(row);
        Ok(Pane {
            argument,
            memref: m.clone(),
            window: window.clone(),
            array,
            layout,
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
            line: self.window_line(b, i, window, walk.as_ref()),
            leaving: b.s_var(0),
            left: if input { 0 } else { self.words(window.bounds.len()) },
            next: Vec::new(),
            changes: Num::Const(0),
        })
    }

    fn window_name(&self, i: usize) -> String {
        match i.checked_sub(self.spec.operands as usize) {
            None => format!("window of operand {i}"),
            Some(result) => format!("window of result {result}"),
        }
    }

    /// Copies of a window belong to the kernel's function, under a name of their own.
    fn window_line(&self, b: &mut KernelBuilder, i: usize, w: &Window, walk: Option<&Walk>) -> u16 {
        // Functions say nothing of their place; their first operation does.
        let f = self.kernel.function;
        let first = || f.body.operations.iter().find_map(|o| o.place.as_ref());
        let Some(p) = f.place.as_ref().or_else(first) else { return 0 };
        let mut name = format!("{}: block {:?}", self.window_name(i), w.bounds);
        if let Some(n) = walk.map(Walk::times).filter(|n| *n > 1) {
            name += &format!(", each copied {n} times");
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
        let row = if other { b.s(Op::SSub, &[p.both, p.row]) } else { p.row };
        let (mut x, mut y) = (Ok(()), Ok(()));
        {
            let cell = std::cell::RefCell::new(&mut *self);
            b.if_else(
                p.place,
                |b| x = cell.borrow_mut().window_copy(b, p, block, row, p.semaphore(1, other)),
                |b| y = cell.borrow_mut().window_copy(b, p, block, row, p.semaphore(0, other)),
            );
        }
        x?;
        y
    }

    /// A window's copy: as much of it as the array has.
    pub(super) fn window_copy(
        &mut self,
        b: &mut KernelBuilder,
        p: &Pane,
        block: &[Num],
        row: S,
        sem: u32,
    ) -> Result<(), Refused> {
        let sizes = p.window.bounds.clone();
        self.window_part(b, p, block, row, sem, 0, sizes)
    }

    #[allow(clippy::too_many_arguments, reason = "a recursion over dimensions")]
    fn window_part(
        &mut self,
        b: &mut KernelBuilder,
        p: &Pane,
        block: &[Num],
        row: S,
        sem: u32,
        d: usize,
        sizes: Vec<u64>,
    ) -> Result<(), Refused> {
        if d == sizes.len() {
            return self.window_act(b, p, block, row, sem, &sizes);
        }
        let (bound, size) = (p.window.bounds[d], p.array.dims[d]);
        let rest = size % bound;
        if rest == 0 || p.window.elements {
            return self.window_part(b, p, block, row, sem, d + 1, sizes);
        }
        let mut short = sizes.clone();
        short[d] = rest;
        let last = compare(b, 0, block[d], Num::Const((size / bound) as i32)).unwrap_or(Num::Const(0));
        match last {
            Num::Const(0) => self.window_part(b, p, block, row, sem, d + 1, sizes),
            Num::Const(_) => self.window_part(b, p, block, row, sem, d + 1, short),
            Num::Reg(s) => {
                let (mut x, mut y) = (Ok(()), Ok(()));
                {
                    let cell = std::cell::RefCell::new(&mut *self);
                    b.if_else(
                        s,
                        |b| x = cell.borrow_mut().window_part(b, p, block, row, sem, d + 1, short),
                        |b| y = cell.borrow_mut().window_part(b, p, block, row, sem, d + 1, sizes),
                    );
                }
                x?;
                y
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "what a copy is of")]
    fn window_act(
        &mut self,
        b: &mut KernelBuilder,
        p: &Pane,
        block: &[Num],
        row: S,
        sem: u32,
        sizes: &[u64],
    ) -> Result<(), Refused> {
        let n = sizes.len();
        // Rows are copied with the padding that they have in both places.
        let mut dims = sizes.to_vec();
        if n >= 2 && dims[n - 2] < p.window.bounds[n - 2] {
            dims[n - 2] = dims[n - 2].next_multiple_of(u64::from(self.sub())).min(p.window.bounds[n - 2]);
        }
        let near = self.vmem_array(&p.layout, row, 0);
        let near = Ref { buf: p.buf, dims: dims.clone(), ..near };
        let mut first = Vec::new();
        for (d, i) in block.iter().enumerate() {
            let by = if p.window.elements { 1 } else { p.window.bounds[d] as i32 };
            first.push(mul(b, *i, Num::Const(by)));
        }
        let far = self.at(b, &p.array, &first);
        let far = Ref { dims, ..far };
        let (from, to) = if p.input { (far, near) } else { (near, far) };
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
