//! Code of collectives in the main program.
//!
//! All copies of the main program keep their order, so that the code below says what waits for what. Addresses of blocks
//! are computed at run time from the device's table; everything else is the same on all devices, the places of slots
//! and buffers among it: a device knows where its peer's are because its own are there.
//!
//! An exchange is begun, moved and ended; what the main program does in between runs while it is under way.

mod direct;
mod hide;
mod progress;
mod ring;
mod transfer;

use super::main_program::Emitter;
use crate::plan::action::Flight;
use crate::plan::collective::{Exchange, How, MOST_RINGS, Phase, Ring, STATE_WORDS, State, Table};
use crate::plan::kernel_semaphores;
use progress::{Moves, Pace, Run, store};
use systole_codegen::kernel::build_units::{DmaArgs, RemoteArgs};
use systole_codegen::kernel::{BufferRef, KernelBuilder, S};
use systole_hlo::analysis::parts::Parts;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{DmaDesc, DmaDim, Op, Space};

/// A kernel of the main program itself: equal ones are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::emit) enum Subroutine {
    /// Takes the exchange further that is under way.
    Looks,
    /// Takes an exchange further, and those beside it: their operations if the code counts as those wherever it is called,
    /// and where its arrays are if the code depends on it.
    Progress(Vec<u32>, Vec<How>, Option<Flight>),
}

/// How rows of pieces lie: in vector memory (one after the other), in the whole array, or in a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Slot,
    Whole,
    Part,
}

/// What code of one exchange shares.
#[derive(Clone, Copy)]
struct Cx {
    all: BufferRef,
    /// First word of the device's table.
    base: u32,
    row_bytes: u64,
    sublanes: u32,
    /// First granules of the arrays, and first row of the slots.
    src: u64,
    dst: u64,
    slots: u64,
}

impl Cx {
    fn granules(&self, rows: u64) -> i32 {
        (rows * self.row_bytes / HBM_GRANULE) as i32
    }

    fn word(&self, b: &mut KernelBuilder, t: Table, offset: u32) -> S {
        b.smem_load(S::ZERO, (self.base + t.0 + offset) as i32)
    }

    fn copy(&self, b: &mut KernelBuilder, desc: u32, src: S, dst: S, sem: u32) {
        let args = DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem };
        b.dma_start(args, &[self.all], &[self.all]);
    }

    fn wait(&self, b: &mut KernelBuilder, sem: u32, bytes: u64) {
        b.dma_wait(sem, bytes as i32, &[self.all], &[self.all]);
    }

    fn send(&self, b: &mut KernelBuilder, a: RemoteArgs) {
        b.dma_remote(a, &[self.all], &[self.all]);
    }

    fn signal(&self, b: &mut KernelBuilder, device: S, sem: u32, count: u64) {
        b.signal(device, sem, count as i32, &[self.all]);
    }
}

/// The copy of `rows` rows of every run of a part between two places. `folds` are more runs: how many, and the rows
/// between them in the whole array; `slot` is a component's rows in vector memory.
fn desc(
    p: &Parts,
    rows: u64,
    folds: &[(u64, u64)],
    slot: u64,
    (from, to): (Place, Place),
    (src, dst): (Space, Space),
    cx: &Cx,
) -> DmaDesc {
    let row_bytes = cx.row_bytes;
    let counts: Vec<u64> =
        [p.components].into_iter().chain(folds.iter().map(|f| f.0)).chain([p.planes, p.before]).collect();
    let strides = |place: Place| -> Vec<u64> {
        let [component, plane, before] = match place {
            Place::Slot => {
                // One after the other.
                let mut all = vec![rows; counts.len()];
                for i in (0..counts.len() - 1).rev() {
                    all[i] = all[i + 1] * counts[i + 1];
                }
                all[0] = slot;
                return all;
            }
            Place::Whole => p.whole,
            Place::Part => p.part,
        };
        [component].into_iter().chain(folds.iter().map(|f| f.1)).chain([plane, before]).collect()
    };
    let (a, b) = (strides(from), strides(to));
    let dim = |i: usize| DmaDim {
        count: counts[i] as u32,
        src_stride: (a[i] * row_bytes) as i64,
        dst_stride: (b[i] * row_bytes) as i64,
    };
    let dims = (0..counts.len()).filter(|&i| counts[i] > 1).map(dim).collect();
    DmaDesc { src, dst, chunk: (rows * row_bytes) as u32, dims }
}

/// Adds a constant, if it is one.
fn plus(b: &mut KernelBuilder, a: S, imm: i32) -> S {
    if imm == 0 { a } else { b.s_addi(a, imm) }
}

impl Emitter<'_> {
    /// Copies the device's row of the tables to scalar memory.
    pub(in crate::emit) fn load_tables(&mut self) {
        let Some(first) = self.plan.pod.tables else { return };
        let words = self.plan.pod.words;
        let desc = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Smem, words * 4));
        let device = self.b.def_s(Op::SDev, &[]);
        let row = self.b.s_muli(device, (u64::from(words) * 4 / HBM_GRANULE) as i32);
        let src = self.b.s_addi(row, first as i32);
        let dst = self.b.s_imm(self.plan.pod.base as i32);
        let sem = kernel_semaphores(self.chip) - 1;
        let all = [self.all, BufferRef::SCALAR_MEMORY];
        let args = DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem };
        self.b.dma_start(args, &all, &all);
        self.b.dma_wait(sem, words as i32 * 4, &all, &all);
    }

    /// What the code of an exchange shares; its copies are ordered by `all`.
    fn cx(&self, all: BufferRef, f: &Flight) -> Cx {
        let (row_bytes, sublanes) = (self.chip.row_bytes(), self.chip.core.sublanes);
        Cx { all, base: self.plan.pod.base, row_bytes, sublanes, src: f.src, dst: f.dst, slots: f.slots }
    }

    /// Emits a collective from beginning to end, or a stage of a transfer.
    pub(in crate::emit) fn exchange(&mut self, x: &Exchange, f: &Flight) {
        match &x.how {
            How::Transfer(t) => self.transfer(t, f),
            How::Direct(all) if x.temps.is_empty() => {
                let cx = self.cx(self.all, f);
                let codes: Vec<direct::Code<'_>> = all.iter().map(|d| direct::Code::new(self, cx, d, (0, 0))).collect();
                for c in &codes {
                    c.announce(&mut self.b);
                    c.post(&mut self.b);
                    c.finish(&mut self.b);
                    c.settle(&mut self.b);
                }
            }
            How::Direct(_) | How::Rings(_) => {
                let number = self.progress(x, f, false);
                self.set_state(x, f);
                self.run_to_the_end(number);
            }
        }
    }

    /// The subroutine that takes an exchange further. `own`: its code counts as the exchange's wherever it is called (that
    /// of several always does).
    fn progress(&mut self, x: &Exchange, f: &Flight, own: bool) -> usize {
        let several = !x.beside.is_empty();
        let ops: Vec<u32> = x.all().filter(|_| own || several).map(|x| x.op).collect();
        // Rings take their addresses from scalar memory, so equal ones share their code.
        let addresses = match &x.how {
            How::Rings(_) => None,
            How::Direct(_) | How::Transfer(_) => Some(f.clone()),
        };
        let state = self.plan.pod.state;
        let hows = x.all().map(|x| x.how.clone()).collect();
        self.subroutine(Subroutine::Progress(ops.clone(), hows, addresses), |e| {
            let mut b = KernelBuilder::new("exchange", e.chip);
            let cx = e.cx(b.buffer(), f);
            let mut runs: Vec<Run<'_>> = Vec::new();
            let mut states = states(state);
            for (exchange, x) in x.all().enumerate() {
                let all = x.how.rings();
                for (r, state) in all.iter().zip(&mut states) {
                    let recv = r.streams.last().map_or(0, |s| s.recv);
                    let paces = if all.len() > 1 || several { paces(r, all) } else { Vec::new() };
                    let op = several.then_some(x.op);
                    runs.push(Run { phases: ring::phases(e, &cx, r, state), state, recv, paces, exchange, op });
                }
            }
            match &x.how {
                How::Direct(all) => {
                    let mut phases: Vec<Box<dyn Moves + '_>> = Vec::new();
                    for (i, d) in all.iter().enumerate() {
                        let cx = stage(f, &cx, i);
                        phases.push(Box::new(direct::Code::new(e, cx, d, (i, state))));
                    }
                    runs.push(Run { phases, state, recv: x.how.recv(), paces: Vec::new(), exchange: 0, op: None });
                }
                How::Rings(_) | How::Transfer(_) => {}
            }
            progress::run(&mut b, &runs, state);
            ops.first().into_iter().for_each(|&op| b.set_debug_op(op));
            b.finish()
        })
    }

    /// Sets the words that say where an exchange is, and those beside it.
    fn set_state(&mut self, x: &Exchange, f: &Flight) {
        let mut rings = Vec::new();
        for (x, f) in x.all().zip(f.all()) {
            let mut slots = f.slots;
            for r in x.how.rings() {
                rings.push((f, slots));
                slots += r.slots(self.chip.core.sublanes);
            }
        }
        for (i, state) in states(self.plan.pod.state).enumerate().take(rings.len().max(1)) {
            for w in [
                State::Phase,
                State::Moves,
                State::Step,
                State::Batch,
                State::Piece,
                State::Turn,
                State::Blocking,
                State::Made,
                State::Wanted,
            ] {
                store(&mut self.b, state, w, S::ZERO);
            }
            if let Some(&(f, slots)) = rings.get(i) {
                let temp = f.temps.first().copied().unwrap_or(f.dst);
                let all = [(State::Src, f.src), (State::Dst, f.dst), (State::Temp, temp), (State::Slots, slots)];
                for (w, v) in all {
                    let v = self.b.s_imm(v as i32);
                    store(&mut self.b, state, w, v);
                }
            }
        }
    }

    /// Takes the exchange under way to its end.
    fn run_to_the_end(&mut self, subroutine: usize) {
        let one = self.b.s_imm(1);
        store(&mut self.b, self.plan.pod.state, State::Blocking, one);
        self.b.call(subroutine as u32, &[]);
    }
}

/// How far a ring is among several after moves of its phases.
fn paces(r: &Ring, all: &[Ring]) -> Vec<Pace> {
    let mut end = 0;
    let pace = |(i, p): (usize, &Phase)| {
        // A cycle for every move at least, so that each counts; phases end alike for all.
        let span = all.iter().map(|r| r.moves(&r.phases[i])).chain([u64::from(p.span)]).max().unwrap_or(1);
        end += span as i32;
        Pace { cycles: (span / r.moves(p)) as i32, end }
    };
    r.phases.iter().enumerate().map(pace).collect()
}

/// The first words of state of the rings of an exchange.
fn states(first: u32) -> impl Iterator<Item = u32> {
    (0..MOST_RINGS).map(move |i| first + i * STATE_WORDS)
}

/// What code of one of several exchanges in a row sees.
fn stage(f: &Flight, cx: &Cx, number: usize) -> Cx {
    let src = number.checked_sub(1).map_or(cx.src, |i| f.temps[i]);
    Cx { src, dst: f.temps.get(number).copied().unwrap_or(cx.dst), ..*cx }
}
