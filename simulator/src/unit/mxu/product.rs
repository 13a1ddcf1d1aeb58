//! Rows that share weights, and their products: formed by whoever comes first, the thread that walks bundles or one beside it.

use super::kernel::{self, Operands};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

/// A pushed register whose product is due: destination and whether sums are s32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub to: Destination,
    pub integer: bool,
}

/// Weights in panels ([`kernel`]), of which the first `rows` rows count.
#[derive(Debug)]
pub(super) struct Weights {
    pub panels: Vec<f32>,
    pub rows: usize,
}

/// The rows of some blocks, one block behind the other in `input`, and the weights that they meet.
#[derive(Debug)]
pub(super) struct Product {
    pub shape: Shape,
    /// Columns of a panel.
    pub width: usize,
    pub weights: Arc<Weights>,
    pub input: Vec<f32>,
    pub blocks: Vec<Block>,
}

/// Largest k for which f32 sums of u8 products are exact.
const EXACT_K: usize = 258;

impl Product {
    fn rows(&self) -> usize {
        self.blocks.len() * self.shape.sublanes
    }

    /// Multiply-adds.
    pub fn work(&self) -> usize {
        self.rows() * self.weights.rows * self.shape.cols
    }

    /// Whether the results of blocks whose sums are s32 are f32 values, not bits of s32.
    pub fn is_exact(&self) -> bool {
        self.weights.rows <= EXACT_K || !self.blocks.iter().any(|b| b.integer)
    }

    /// Forms the results, on up to so many threads.
    pub fn form(&self, out: &mut Vec<f32>, threads: usize) {
        let (s, m, exact) = (self.shape, self.rows(), self.is_exact());
        let w = &*self.weights;
        let p = Operands { a: &self.input[..m * s.rows], w: &w.panels, stride: s.rows, k: w.rows, width: self.width };
        out.resize(m * s.cols, 0.0);
        match exact {
            true => multiply(p, out, m, s.cols, threads),
            false => multiply_integer(p, out, s.cols),
        }
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

/// A product that somebody forms.
#[derive(Debug)]
pub(super) struct Task {
    pub product: Product,
    state: Mutex<State>,
    /// The other thread has done with it.
    done: AtomicBool,
}

/// Results, or memory for them.
#[derive(Debug)]
enum State {
    Waiting(Vec<f32>),
    /// Somebody is at it, or has taken it.
    Begun,
    Formed(Vec<f32>),
}

/// Multiply-adds that one thread does in a nanosecond, at most.
const RATE: usize = 24;

impl Task {
    fn new(product: Product, state: State) -> Arc<Task> {
        Arc::new(Task { product, state: Mutex::new(state), done: AtomicBool::new(false) })
    }

    /// What is formed already.
    pub fn formed(product: Product, out: Vec<f32>) -> Arc<Task> {
        Task::new(product, State::Formed(out))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The results; to be asked for once. What nobody has begun is formed by the caller, and so is what another thread does not come to
    /// the end of in about the time that forming it takes: the host has given its core to somebody else, perhaps for long. Then
    /// `spare` gives memory.
    pub fn take(&self, spare: &mut Vec<Vec<f32>>) -> Vec<f32> {
        let found = || std::mem::replace(&mut *self.state(), State::Begun);
        let mut out = match found() {
            State::Formed(out) => return out,
            State::Waiting(out) => out,
            State::Begun => {
                let (asked, patience) = (Instant::now(), Duration::from_nanos((self.product.work() / RATE) as u64));
                while !self.done.load(Ordering::Acquire) && asked.elapsed() < patience {
                    std::hint::spin_loop();
                }
                match found() {
                    State::Formed(out) => return out,
                    State::Waiting(_) | State::Begun => spare.pop().unwrap_or_default(),
                }
            }
        };
        self.product.form(&mut out, 1);
        out
    }

    /// What a task that was taken leaves, if nobody is at it any more: memory of rows, of blocks, of results.
    pub fn left(self: Arc<Task>) -> Option<(Vec<f32>, Vec<Block>, Option<Vec<f32>>)> {
        let Task { product, state, .. } = Arc::into_inner(self)?;
        let out = match state.into_inner().unwrap_or_else(PoisonError::into_inner) {
            State::Waiting(out) | State::Formed(out) => Some(out),
            State::Begun => None,
        };
        Some((product.input, product.blocks, out))
    }

    /// Forms it, if nobody has begun.
    fn form(&self) {
        struct Done<'t>(&'t AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Begun) {
            State::Waiting(mut out) => {
                drop(state);
                // However this ends: whoever waits for it looks then.
                let _done = Done(&self.done);
                self.product.form(&mut out, 1);
                *self.state() = State::Formed(out);
            }
            other @ (State::Formed(_) | State::Begun) => *state = other,
        }
    }
}

/// Multiply-adds from which a product is worth a hand-over, which takes about as long as a tenth of so many.
const WORTH: usize = 1 << 18;
/// Most products that wait for the other thread.
const WAITING: usize = 32;
/// How often the other thread looks for work, giving way to others each time, before it sleeps. Waking it takes as long as forming a
/// small product, and the next one is often there a tenth of a millisecond later.
const LOOKS: u32 = 400;

/// A thread that forms products beside the one that walks bundles, whose matrix units share it. It is made when there is something to form.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    shared: Arc<Shared>,
    /// None where the host gives no thread.
    thread: OnceLock<Option<JoinHandle<()>>>,
}

/// What the two threads share.
#[derive(Debug, Default)]
struct Shared {
    tasks: Mutex<VecDeque<Arc<Task>>>,
    /// How many these are.
    waiting: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
}

impl Beside {
    /// Has a product formed, in the memory that is given.
    pub(super) fn form(&self, product: Product, mut out: Vec<f32>) -> Arc<Task> {
        let few = self.shared.waiting.load(Ordering::Relaxed) < WAITING;
        let thread =
            (few && product.work() >= WORTH).then(|| self.thread.get_or_init(|| self.begin()).as_ref()).flatten();
        let Some(thread) = thread else {
            product.form(&mut out, 1);
            return Task::formed(product, out);
        };
        let task = Task::new(product, State::Waiting(out));
        let mut tasks = self.shared.tasks();
        tasks.push_back(Arc::clone(&task));
        self.shared.waiting.store(tasks.len(), Ordering::SeqCst);
        drop(tasks);
        if self.shared.asleep.load(Ordering::SeqCst) {
            thread.thread().unpark();
        }
        task
    }

    fn begin(&self) -> Option<JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        std::thread::Builder::new().name("products".into()).spawn(move || shared.work()).ok()
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(Some(thread)) = self.thread.take() {
            thread.thread().unpark();
            // What it panicked with, if so, was told where its result was missing.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn tasks(&self) -> MutexGuard<'_, VecDeque<Arc<Task>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Arc<Task>> {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut tasks = self.tasks();
        let task = tasks.pop_front();
        self.waiting.store(tasks.len(), Ordering::SeqCst);
        task
    }

    /// What the thread does: tasks, until it is told to stop.
    fn work(&self) {
        let mut looks = 0;
        while !self.stop.load(Ordering::SeqCst) {
            if let Some(task) = self.next() {
                task.form();
                looks = 0;
            } else if looks < LOOKS {
                looks += 1;
                std::thread::yield_now();
            } else {
                self.asleep.store(true, Ordering::SeqCst);
                if self.waiting.load(Ordering::SeqCst) == 0 && !self.stop.load(Ordering::SeqCst) {
                    std::thread::park();
                }
                self.asleep.store(false, Ordering::SeqCst);
                looks = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MxuFunction;
    use super::*;
    use systole_isa::MxuFormat;

    const SHAPE: Shape = Shape { rows: 128, cols: 128, accumulator_rows: 64, sublanes: 8, lanes: 128 };

    /// Numbers that a seed gives.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }

        fn register(&mut self) -> Vec<u32> {
            (0..SHAPE.sublanes * SHAPE.lanes).map(|_| (self.below(4096) as f32 / 64.0 - 31.0).to_bits()).collect()
        }
    }

    /// What units read while commands that dice choose come in.
    fn read(seed: u64, beside: Option<&Arc<Beside>>) -> Vec<u32> {
        let mut dice = Dice(seed);
        let mut units: Vec<MxuFunction> = (0..3).map(|_| MxuFunction::new(SHAPE, 1, beside.cloned())).collect();
        let mut waiting = [0; 3];
        let (mut all, mut out) = (Vec::new(), vec![0; SHAPE.sublanes * SHAPE.lanes]);
        for _ in 0..400 {
            let u = dice.below(3) as usize;
            let format = [MxuFormat::Bf16, MxuFormat::S8, MxuFormat::High][dice.below(12).saturating_sub(9) as usize];
            match dice.below(8) {
                0 => {
                    let rows = dice.below(17);
                    (0..rows).for_each(|_| {
                        units[u].stage(&dice.register(), 0, MxuFormat::Bf16);
                    });
                    units[u].latch();
                }
                1 => {
                    let row = dice.below(56) as usize;
                    units[u].drain(0, row, &mut out);
                    all.extend_from_slice(&out);
                }
                2 | 3 => {
                    for _ in 0..dice.below(waiting[u] + 2) {
                        let took = units[u].pop(0, &mut out);
                        assert_eq!(took, waiting[u] > 0);
                        waiting[u] -= u64::from(took);
                        all.extend_from_slice(&out);
                    }
                }
                4..=6 => {
                    for _ in 0..dice.below(40) {
                        units[u].push(&dice.register(), 0, format, Destination::Fifo);
                        waiting[u] += 1;
                    }
                }
                _ => {
                    let row = dice.below(56) as usize;
                    for _ in 0..dice.below(20) {
                        let to = [Destination::Set(row), Destination::Add(row)][dice.below(2) as usize];
                        units[u].push(&dice.register(), 0, format, to);
                    }
                }
            }
        }
        all
    }

    #[test]
    fn products_are_the_same_whoever_forms_them() {
        let beside = Arc::new(Beside::default());
        for seed in 0..4 {
            assert!(read(seed, None) == read(seed, Some(&beside)), "seed {seed}");
        }
    }

    #[test]
    fn a_task_is_formed_once_by_whoever_comes_first() {
        let weights = Arc::new(Weights { panels: vec![1.0; 128 * 128], rows: 2 });
        let product = || Product {
            shape: SHAPE,
            width: 32,
            weights: Arc::clone(&weights),
            input: vec![3.0; 8 * 128],
            blocks: vec![Block { to: Destination::Fifo, integer: false }],
        };
        let task = || Task::new(product(), State::Waiting(Vec::new()));
        let alone = task();
        assert_eq!(alone.take(&mut Vec::new()), [6.0; 8 * 128]);
        // Another thread comes too late.
        alone.form();
        assert!(matches!(*alone.state(), State::Begun));
        let other = task();
        other.form();
        other.form();
        assert_eq!(other.take(&mut Vec::new()), [6.0; 8 * 128]);
        // One that another thread has begun, and does not come back to.
        let (stuck, mut spare) = (task(), vec![Vec::new()]);
        *stuck.state() = State::Begun;
        assert_eq!(stuck.take(&mut spare), [6.0; 8 * 128]);
        assert!(spare.is_empty() && stuck.left().is_some());
        // Some of these are asked for just as they are done, or while they are not.
        let both: Vec<Arc<Task>> = (0..3000).map(|_| task()).collect();
        std::thread::scope(|s| {
            s.spawn(|| both.iter().for_each(|t| t.form()));
            both.iter().for_each(|t| assert_eq!(t.take(&mut Vec::new()), [6.0; 8 * 128]));
        });
    }
}
