//! What a matrix unit computes.
//!
//! Rows are kept as f32 values of their format and multiplied lazily, as many at once as share weights: when a result
//! is needed, the weights change, or there is enough for [another thread](Beside). Every result is the sum over ascending k in f32 (exact products); s8 and u8 sums
//! are s32. A weight that was not staged is zero, rows behind the last staged one take no part. Results that are subnormal
//! flush to zero.

use super::format::convert;
use super::kernel::{self, flushed, place};
use super::product::{Beside, Block, Destination, Product, Shape, Task, Weights};
use multiversion::multiversion;
use std::collections::VecDeque;
use std::sync::Arc;
use systole_isa::MxuFormat;

/// Most rows that wait for their product.
const MAX_ROWS: usize = 512;

/// Multiply-adds from which waiting products go to another thread, if there is one.
const HAND_OVER: usize = 1 << 20;

/// Products that another thread may be behind with.
const AHEAD: usize = 8;

/// State of one matrix unit.
#[derive(Debug)]
pub(crate) struct MxuFunction {
    shape: Shape,
    threads: usize,
    beside: Option<Arc<Beside>>,
    /// Columns of a panel of weights.
    width: usize,
    /// The active weights, and those that were before, which products may need still.
    weights: Arc<Weights>,
    before: Vec<Arc<Weights>>,
    /// Staged weights in panels ([`kernel`]), and how many rows of them were staged. What was not staged is left over from earlier
    /// weights until the latch.
    staged: Vec<f32>,
    staged_rows: usize,
    /// Both rows and columns were staged: what was not is zero already.
    mixed: bool,
    /// The row, and the column, that comes next in each chunk.
    staged_to: [Vec<usize>; 2],
    /// Rows of pending blocks and of the register row being pushed chunk by chunk.
    input: Vec<f32>,
    /// Words of `input` that pending blocks fill.
    filled: usize,
    current: Vec<f32>,
    pending: Vec<Block>,
    /// Products that are formed or being formed, in order.
    tasks: VecDeque<Arc<Task>>,
    fifo: VecDeque<Results>,
    accumulators: Vec<u32>,
    /// Products that were taken, whose memory serves for the next ones once nobody is at them.
    taken: Vec<Arc<Task>>,
    spare_outs: Vec<Vec<f32>>,
    scratch: Vec<f32>,
}

/// Ways to stage weights: which of [`MxuFunction::staged_to`] counts.
const ROWS: usize = 0;
const COLUMNS: usize = 1;

/// Products in FIFO order, `sublanes x cols` words each, of which those from `head` on are still to be read.
#[derive(Debug)]
struct Results {
    words: Vec<f32>,
    head: usize,
}

impl MxuFunction {
    /// A unit whose products are formed by up to `threads` threads at once, and by `beside` while the caller goes on.
    pub fn new(shape: Shape, threads: usize, beside: Option<Arc<Beside>>) -> MxuFunction {
        let n = shape.rows * shape.cols;
        MxuFunction {
            shape,
            threads,
            beside,
            width: kernel::panel(shape.cols, shape.lanes),
            weights: Arc::new(Weights { panels: vec![0.0; n], rows: 0 }),
            before: Vec::new(),
            staged: vec![0.0; n],
            staged_rows: 0,
            mixed: false,
            staged_to: [vec![0; shape.cols / shape.lanes], vec![0; shape.rows / shape.lanes]],
            input: Vec::new(),
            filled: 0,
            current: vec![0.0; shape.sublanes * shape.rows],
            pending: Vec::new(),
            tasks: VecDeque::new(),
            fifo: VecDeque::new(),
            accumulators: vec![0; shape.accumulator_rows * shape.cols],
            taken: Vec::new(),
            spare_outs: Vec::new(),
            scratch: vec![0.0; shape.sublanes * shape.lanes],
        }
    }

    /// Appends a register's sublanes as weight rows; `false` if the staging area is full.
    pub fn stage(&mut self, reg: &[u32], chunk: usize, format: MxuFormat) -> bool {
        let Some(at) = self.take(reg, format, (ROWS, chunk)) else { return false };
        let (s, width) = (self.shape, self.width);
        for (i, row) in self.scratch.chunks_exact(s.lanes).enumerate() {
            for (n, part) in row.chunks(width).enumerate() {
                let o = place(width, s.rows, at + i, chunk * s.lanes + n * width);
                self.staged[o..o + part.len()].copy_from_slice(part);
            }
        }
        self.staged_rows = self.staged_rows.max(at + s.sublanes);
        true
    }

    /// Appends a register's sublanes as weight columns; `false` if the staging area is full.
    pub fn stage_t(&mut self, reg: &[u32], chunk: usize, format: MxuFormat) -> bool {
        let Some(at) = self.take(reg, format, (COLUMNS, chunk)) else { return false };
        let s = self.shape;
        let mut col = at;
        while col < at + s.sublanes {
            // Columns of one panel.
            let next = ((col / self.width + 1) * self.width).min(at + s.sublanes);
            let o = place(self.width, s.rows, chunk * s.lanes, col);
            let columns = &self.scratch[(col - at) * s.lanes..(next - at) * s.lanes];
            kernel::transpose(columns, s.lanes, self.width, &mut self.staged[o..]);
            col = next;
        }
        self.staged_rows = self.staged_rows.max((chunk + 1) * s.lanes);
        true
    }

    /// Converts a register whose sublanes are the next rows, or columns, of a chunk; the first of them. `None` if the chunk has no room.
    /// Where both are staged for the same weights, what was not staged so far becomes zero before more comes.
    fn take(&mut self, reg: &[u32], format: MxuFormat, (way, chunk): (usize, usize)) -> Option<usize> {
        let s = self.shape;
        let at = self.staged_to[way][chunk];
        if at + s.sublanes > [s.rows, s.cols][way] {
            return None;
        }
        if !self.mixed && self.staged_to[1 - way].iter().any(|&at| at > 0) {
            self.clear_rest(s.rows);
            self.mixed = true;
        }
        convert(format, reg, &mut self.scratch);
        self.staged_to[way][chunk] = at + s.sublanes;
        Some(at)
    }

    /// Makes the staged weights zero that were not staged, in the first `rows` rows.
    fn clear_rest(&mut self, rows: usize) {
        let s = self.shape;
        let transposed = self.staged_to[COLUMNS].iter().any(|&at| at > 0);
        for row in 0..rows {
            for (chunk, &staged) in self.staged_to[ROWS].iter().enumerate() {
                let first = chunk * s.lanes;
                let from = match transposed {
                    true => self.staged_to[COLUMNS][row / s.lanes].max(first),
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
        self.close();
        if !self.mixed {
            self.clear_rest(self.staged_rows);
        }
        // What nobody multiplies with any more serves for the next ones.
        let unused = self.before.iter().position(|w| Arc::strong_count(w) == 1);
        let next = unused.and_then(|i| Arc::into_inner(self.before.swap_remove(i)));
        let next = next.map_or_else(|| vec![0.0; self.staged.len()], |w| w.panels);
        let panels = std::mem::replace(&mut self.staged, next);
        let weights = Arc::new(Weights { panels, rows: std::mem::take(&mut self.staged_rows) });
        self.before.push(std::mem::replace(&mut self.weights, weights));
        self.mixed = false;
        self.staged_to.iter_mut().for_each(|all| all.fill(0));
    }

    /// Pushes a chunk of rows; the last chunk fires.
    pub fn push(&mut self, reg: &[u32], chunk: usize, format: MxuFormat, to: Destination) {
        let s = self.shape;
        let row = s.sublanes * s.rows;
        if self.input.len() < self.filled + row {
            self.input.resize((self.filled + row).next_power_of_two(), 0.0);
        }
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
        self.filled += row;
        self.pending.push(Block { to, integer: format.is_integer() });
        let rows = self.pending.len() * s.sublanes;
        if rows >= MAX_ROWS || self.beside.is_some() && rows * self.weights.rows * s.cols >= HAND_OVER {
            self.close();
        }
    }

    /// Reads a chunk of the oldest result; the last chunk retires it. `false` if there is none.
    pub fn pop(&mut self, chunk: usize, out: &mut [u32]) -> bool {
        let s = self.shape;
        while self.fifo.is_empty() {
            match (self.tasks.is_empty(), self.pending.is_empty()) {
                (true, true) => return false,
                (true, false) => self.close(),
                (false, _) => self.collect(),
            }
        }
        let Some(results) = self.fifo.front_mut() else { return false };
        let block = s.sublanes * s.cols;
        copy_chunk(bytemuck::cast_slice(&results.words[results.head..results.head + block]), chunk, s, out);
        if (chunk + 1) * s.lanes >= s.cols {
            results.head += block;
            if results.head == results.words.len() {
                self.spare_outs.extend(self.fifo.pop_front().map(|r| r.words));
            }
        }
        true
    }

    /// Reads a chunk of accumulator rows. The caller has checked the range.
    pub fn drain(&mut self, chunk: usize, row: usize, out: &mut [u32]) {
        let s = self.shape;
        self.close();
        while !self.tasks.is_empty() {
            self.collect();
        }
        copy_chunk(&self.accumulators[row * s.cols..(row + s.sublanes) * s.cols], chunk, s, out);
    }

    /// Has the products of all pending blocks formed.
    fn close(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let free = self.taken.iter().position(|t| Arc::strong_count(t) == 1);
        let left = free.and_then(|i| self.taken.swap_remove(i).left());
        let (input, mut blocks, results) = left.unwrap_or_default();
        self.spare_outs.extend(results);
        blocks.clear();
        let product = Product {
            shape: self.shape,
            width: self.width,
            weights: Arc::clone(&self.weights),
            input: std::mem::replace(&mut self.input, input),
            blocks: std::mem::replace(&mut self.pending, blocks),
        };
        self.filled = 0;
        let mut out = self.spare_outs.pop().unwrap_or_default();
        let task = match &self.beside {
            Some(other) => other.form(product, out),
            None => {
                product.form(&mut out, self.threads);
                Task::formed(product, out)
            }
        };
        self.tasks.push_back(task);
        let most = if self.beside.is_some() { AHEAD } else { 0 };
        while self.tasks.len() > most {
            self.collect();
        }
    }

    /// Takes the oldest products, if there are some, to where they belong.
    fn collect(&mut self) {
        let Some(task) = self.tasks.pop_front() else { return };
        let out = task.take(&mut self.spare_outs);
        let product = &task.product;
        if product.blocks.iter().all(|b| b.to == Destination::Fifo && !b.integer) {
            // Results are what the FIFO holds.
            self.fifo.push_back(Results { words: out, head: 0 });
        } else {
            self.deliver(&product.blocks, &out, product.is_exact());
            self.spare_outs.push(out);
        }
        self.taken.push(task);
    }

    /// Takes blocks' products to where they belong.
    fn deliver(&mut self, blocks: &[Block], products: &[f32], exact: bool) {
        let s = self.shape;
        let block = s.sublanes * s.cols;
        let mut words = self.spare_outs.pop().unwrap_or_default();
        words.clear();
        for (b, product) in blocks.iter().zip(products.chunks_exact(block)) {
            let bits = Bits { integer: b.integer, exact };
            match b.to {
                Destination::Fifo => {
                    let at = words.len();
                    words.resize(at + block, 0.0);
                    bits.set(product, bytemuck::cast_slice_mut(&mut words[at..]));
                }
                Destination::Set(row) => bits.set(product, &mut self.accumulators[row * s.cols..][..block]),
                Destination::Add(row) => bits.add(product, &mut self.accumulators[row * s.cols..][..block]),
            }
        }
        match words.is_empty() {
            true => self.spare_outs.push(words),
            false => self.fifo.push_back(Results { words, head: 0 }),
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
