//! What a matrix unit computes.
//!
//! Rows are kept as f32 values of their format and multiplied lazily, as many at once as share weights: when a result
//! is needed or the weights change. Every result is the sum over ascending k in f32 (exact products); s8 and u8 sums
//! are s32. A weight that was not staged is zero, rows behind the last staged one take no part. Results that are subnormal
//! flush to zero.

use super::format::convert;
use super::kernel::{self, Operands, flushed, place};
use multiversion::multiversion;
use systole_isa::MxuFormat;

/// Sizes of a unit and of registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub rows: usize,
    pub cols: usize,
    pub accumulator_rows: usize,
    pub sublanes: usize,
    pub lanes: usize,
}

/// Where the results of a push go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Fifo,
    Set(usize),
    Add(usize),
}

/// A pushed register whose product has not been formed: destination and whether sums are s32.
#[derive(Clone, Copy, Debug)]
struct Block {
    to: Destination,
    integer: bool,
}

/// Most rows that wait for their product.
const MAX_ROWS: usize = 512;

/// Largest k for which f32 sums of u8 products are exact.
const EXACT_K: usize = 258;

/// State of one matrix unit.
#[derive(Debug)]
pub(crate) struct MxuFunction {
    shape: Shape,
    threads: usize,
    /// Columns of a panel of weights.
    width: usize,
    /// Active and staged weights in panels ([`kernel`]), and how many rows of each were staged. What was not staged of the
    /// latter is left over from earlier weights until the latch.
    weights: Vec<f32>,
    weight_rows: usize,
    staged: Vec<f32>,
    staged_rows: usize,
    /// Both rows and columns were staged: what was not is zero already.
    mixed: bool,
    /// Next row or column of each staging chunk.
    stage_at: Vec<usize>,
    stage_t_at: Vec<usize>,
    /// Rows of pending blocks and of the register row being pushed chunk by chunk.
    input: Vec<f32>,
    /// Words of `input` that pending blocks fill.
    filled: usize,
    current: Vec<f32>,
    pending: Vec<Block>,
    /// Products in FIFO order, `sublanes x cols` words each, in `fifo_head..fifo_end`.
    fifo: Vec<u32>,
    fifo_head: usize,
    fifo_end: usize,
    fifo_pending: usize,
    accumulators: Vec<u32>,
    product: Vec<f32>,
    scratch: Vec<f32>,
}

impl MxuFunction {
    pub fn new(shape: Shape, threads: usize) -> MxuFunction {
        let n = shape.rows * shape.cols;
        MxuFunction {
            shape,
            threads,
            width: kernel::panel(shape.cols, shape.lanes),
            weights: vec![0.0; n],
            weight_rows: 0,
            staged: vec![0.0; n],
            staged_rows: 0,
            mixed: false,
            stage_at: vec![0; shape.cols / shape.lanes],
            stage_t_at: vec![0; shape.rows / shape.lanes],
            input: vec![0.0; (MAX_ROWS + shape.sublanes) * shape.rows],
            filled: 0,
            current: vec![0.0; shape.sublanes * shape.rows],
            pending: Vec::new(),
            fifo: Vec::new(),
            fifo_head: 0,
            fifo_end: 0,
            fifo_pending: 0,
            accumulators: vec![0; shape.accumulator_rows * shape.cols],
            product: vec![0.0; (MAX_ROWS + shape.sublanes) * shape.cols],
            scratch: vec![0.0; shape.sublanes * shape.lanes],
        }
    }

    /// Appends a register's sublanes as weight rows; `false` if the staging area is full.
    pub fn stage(&mut self, reg: &[u32], chunk: usize, format: MxuFormat) -> bool {
        let s = self.shape;
        let at = self.stage_at[chunk];
        if at + s.sublanes > s.rows {
            return false;
        }
        self.mix(self.stage_t_at.iter().any(|&at| at > 0));
        convert(format, reg, &mut self.scratch);
        let width = self.width;
        for (i, row) in self.scratch.chunks_exact(s.lanes).enumerate() {
            for (n, part) in row.chunks(width).enumerate() {
                let o = place(width, s.rows, at + i, chunk * s.lanes + n * width);
                self.staged[o..o + part.len()].copy_from_slice(part);
            }
        }
        self.stage_at[chunk] = at + s.sublanes;
        self.staged_rows = self.staged_rows.max(at + s.sublanes);
        true
    }

    /// Appends a register's sublanes as weight columns; `false` if the staging area is full.
    pub fn stage_t(&mut self, reg: &[u32], chunk: usize, format: MxuFormat) -> bool {
        let s = self.shape;
        let at = self.stage_t_at[chunk];
        if at + s.sublanes > s.cols {
            return false;
        }
        self.mix(self.stage_at.iter().any(|&at| at > 0));
        convert(format, reg, &mut self.scratch);
        let mut col = at;
        while col < at + s.sublanes {
            // Columns of one panel.
            let next = ((col / self.width + 1) * self.width).min(at + s.sublanes);
            let o = place(self.width, s.rows, chunk * s.lanes, col);
            let columns = &self.scratch[(col - at) * s.lanes..(next - at) * s.lanes];
            kernel::transpose(columns, s.lanes, self.width, &mut self.staged[o..]);
            col = next;
        }
        self.stage_t_at[chunk] = at + s.sublanes;
        self.staged_rows = self.staged_rows.max((chunk + 1) * s.lanes);
        true
    }

    /// Rows and columns are staged for the same weights: what was not staged so far becomes zero before more comes.
    fn mix(&mut self, other: bool) {
        if other && !self.mixed {
            self.clear_rest(self.shape.rows);
            self.mixed = true;
        }
    }

    /// Makes the staged weights zero that were not staged, in the first `rows` rows.
    fn clear_rest(&mut self, rows: usize) {
        let s = self.shape;
        let transposed = self.stage_t_at.iter().any(|&at| at > 0);
        for row in 0..rows {
            for (chunk, &staged) in self.stage_at.iter().enumerate() {
                let first = chunk * s.lanes;
                let from = match transposed {
                    true => self.stage_t_at[row / s.lanes].max(first),
                    false if row < staged => first + s.lanes,
                    false => first,
                };
                let end = first + s.lanes;
                let mut col = from;
                while col < end {
                    let next = ((col / self.width + 1) * self.width).min(end);
                    let o = place(self.width, s.rows, row, col);
                    self.staged[o..o + next - col].fill(0.0);
                    col = next;
                }
            }
        }
    }

    /// Makes the staged weights active.
    pub fn latch(&mut self) {
        self.flush();
        if !self.mixed {
            self.clear_rest(self.staged_rows);
        }
        std::mem::swap(&mut self.weights, &mut self.staged);
        self.weight_rows = std::mem::take(&mut self.staged_rows);
        self.mixed = false;
        self.stage_at.fill(0);
        self.stage_t_at.fill(0);
    }

    /// Pushes a chunk of rows; the last chunk fires.
    pub fn push(&mut self, reg: &[u32], chunk: usize, format: MxuFormat, to: Destination) {
        let s = self.shape;
        if s.rows == s.lanes {
            convert(format, reg, &mut self.input[self.filled..][..reg.len()]);
        } else {
            convert(format, reg, &mut self.scratch);
            for (i, row) in self.scratch.chunks_exact(s.lanes).enumerate() {
                let o = i * s.rows + chunk * s.lanes;
                self.current[o..o + s.lanes].copy_from_slice(row);
            }
            if (chunk + 1) * s.lanes < s.rows {
                return;
            }
            self.input[self.filled..][..self.current.len()].copy_from_slice(&self.current);
            self.current.fill(0.0);
        }
        self.filled += s.sublanes * s.rows;
        self.pending.push(Block { to, integer: format.is_integer() });
        self.fifo_pending += (to == Destination::Fifo) as usize;
        if self.pending.len() * s.sublanes >= MAX_ROWS {
            self.flush();
        }
    }

    /// Reads a chunk of the oldest result; the last chunk retires it. `false` if there is none.
    pub fn pop(&mut self, chunk: usize, out: &mut [u32]) -> bool {
        let s = self.shape;
        let block = s.sublanes * s.cols;
        if self.fifo_head == self.fifo_end {
            if self.fifo_pending == 0 {
                return false;
            }
            self.flush();
        }
        let result = &self.fifo[self.fifo_head..self.fifo_head + block];
        copy_chunk(result, chunk, s, out);
        if (chunk + 1) * s.lanes >= s.cols {
            self.fifo_head += block;
        }
        true
    }

    /// Reads a chunk of accumulator rows. The caller has checked the range.
    pub fn drain(&mut self, chunk: usize, row: usize, out: &mut [u32]) {
        let s = self.shape;
        if !self.pending.is_empty() {
            self.flush();
        }
        copy_chunk(&self.accumulators[row * s.cols..(row + s.sublanes) * s.cols], chunk, s, out);
    }

    /// Forms the products of all pending blocks.
    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let s = self.shape;
        let m = self.pending.len() * s.sublanes;
        let k = self.weight_rows;
        let exact = k <= EXACT_K || !self.pending.iter().any(|b| b.integer);
        if self.fifo_head * 2 >= self.fifo_end {
            self.fifo.copy_within(self.fifo_head..self.fifo_end, 0);
            self.fifo_end -= self.fifo_head;
            self.fifo_head = 0;
        }
        let block = s.sublanes * s.cols;
        let end = self.fifo_end + self.fifo_pending * block;
        if self.fifo.len() < end {
            self.fifo.resize(end.next_power_of_two(), 0);
        }
        let operands =
            Operands { a: &self.input[..self.filled], w: &self.weights, stride: s.rows, k, width: self.width };
        if self.pending.iter().all(|b| b.to == Destination::Fifo && !b.integer) {
            // Results are what the FIFO holds.
            let fifo = bytemuck::cast_slice_mut(&mut self.fifo[self.fifo_end..end]);
            multiply(operands, fifo, m, s.cols, self.threads);
            self.fifo_end = end;
        } else {
            let product = &mut self.product[..m * s.cols];
            match exact {
                true => multiply(operands, product, m, s.cols, self.threads),
                false => multiply_integer(operands, product, s.cols),
            }
            self.deliver(m, exact);
        }
        self.pending.clear();
        self.filled = 0;
        self.fifo_pending = 0;
    }

    /// Takes the pending blocks' products to where they belong.
    fn deliver(&mut self, m: usize, exact: bool) {
        let s = self.shape;
        let block = s.sublanes * s.cols;
        for (b, product) in self.pending.iter().zip(self.product[..m * s.cols].chunks_exact(block)) {
            let bits = Bits { integer: b.integer, exact };
            match b.to {
                Destination::Fifo => {
                    let at = self.fifo_end;
                    self.fifo_end += block;
                    bits.set(product, &mut self.fifo[at..at + block]);
                }
                Destination::Set(row) => bits.set(product, &mut self.accumulators[row * s.cols..][..block]),
                Destination::Add(row) => bits.add(product, &mut self.accumulators[row * s.cols..][..block]),
            }
        }
    }
}

/// How products become result words.
struct Bits {
    integer: bool,
    /// Integer sums are held as f32 values, not as s32 bits.
    exact: bool,
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
fn add_floats(product: &[f32], out: &mut [u32]) {
    out.iter_mut().zip(product).for_each(|(o, &p)| *o = flushed(f32::from_bits(*o) + p).to_bits());
}

impl Bits {
    fn set(&self, product: &[f32], out: &mut [u32]) {
        let pairs = out.iter_mut().zip(product);
        match (self.integer, self.exact) {
            (false, _) => out.copy_from_slice(bytemuck::cast_slice(product)),
            (true, true) => pairs.for_each(|(o, &p)| *o = p as i32 as u32),
            (true, false) => pairs.for_each(|(o, &p)| *o = p.to_bits()),
        }
    }

    fn add(&self, product: &[f32], out: &mut [u32]) {
        let pairs = out.iter_mut().zip(product);
        match (self.integer, self.exact) {
            (false, _) => add_floats(product, out),
            (true, true) => pairs.for_each(|(o, &p)| *o = o.wrapping_add(p as i32 as u32)),
            (true, false) => pairs.for_each(|(o, &p)| *o = o.wrapping_add(p.to_bits())),
        }
    }
}

fn copy_chunk(block: &[u32], chunk: usize, s: Shape, out: &mut [u32]) {
    if s.cols == s.lanes {
        out.copy_from_slice(block);
        return;
    }
    for (row, o) in block.chunks_exact(s.cols).zip(out.chunks_exact_mut(s.lanes)) {
        o.copy_from_slice(&row[chunk * s.lanes..(chunk + 1) * s.lanes]);
    }
}

/// Rows from which a product is worth splitting over threads.
const SPLIT_ROWS: usize = 256;

/// `out[m x cols] = a * w`. Rows are independent, so any split gives the same bits.
fn multiply(p: Operands<'_>, out: &mut [f32], m: usize, cols: usize, threads: usize) {
    if threads > 1 && m >= SPLIT_ROWS {
        let half = m / 2;
        let (a0, a1) = p.a.split_at(half * p.stride);
        let (o0, o1) = out.split_at_mut(half * cols);
        rayon::join(
            || multiply(Operands { a: a0, ..p }, o0, half, cols, threads / 2),
            || multiply(Operands { a: a1, ..p }, o1, m - half, cols, threads / 2),
        );
        return;
    }
    kernel::multiply(p, out, cols);
}

/// As [`multiply`] for s8 and u8 values whose sums f32 cannot hold; results are s32 bits.
fn multiply_integer(p: Operands<'_>, out: &mut [f32], cols: usize) {
    for (panel, w) in p.w.chunks_exact(p.stride * p.width).take(cols / p.width).enumerate() {
        let w: Vec<i32> = w[..p.k * p.width].iter().map(|&x| x as i32).collect();
        let mut sums = vec![0i32; p.width];
        for (row, o) in p.a.chunks_exact(p.stride).zip(out.chunks_exact_mut(cols)) {
            sums.fill(0);
            for (&x, w) in row.iter().zip(w.chunks_exact(p.width)) {
                sums.iter_mut().zip(w).for_each(|(s, &w)| *s = s.wrapping_add((x as i32).wrapping_mul(w)));
            }
            let o = &mut o[panel * p.width..][..p.width];
            o.iter_mut().zip(&sums).for_each(|(o, &s)| *o = f32::from_bits(s as u32));
        }
    }
}
