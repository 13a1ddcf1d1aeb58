//! Code of collectives in the main program.
//!
//! All copies of the main program keep their order, so that the code below says what waits for what. Addresses of blocks
//! are computed at run time from the device's table; everything else is the same on all devices, the places of slots
//! and buffers among it: a device knows where its peer's are because its own are there.
//!
//! An exchange is begun, moved and ended ([`Flight`]); what the main program does in between runs while it is under way.

mod direct;
mod hide;
mod progress;
mod ring;
mod transfer;

use super::direct::{Direct, DirectKind};
use super::{Exchange, How, Table};
use crate::plan::main_program::Emitter;
use crate::plan::memory::guard_rows;
use crate::plan::step::Use;
pub(in crate::plan) use hide::Hidden;
pub(in crate::plan) use progress::STATE_WORDS;
use progress::{Moves, State, store};
use systole_codegen::kernel::build_units::{DmaArgs, RemoteArgs};
use systole_codegen::kernel::{BufferRef, KernelBuilder, S};
use systole_hlo::analysis::parts::Parts;
use systole_hlo::error::CompileError;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{DmaDesc, DmaDim, Op, Space};

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

impl<'a> Emitter<'a> {
    /// Copies the device's row of the tables to scalar memory.
    pub(in crate::plan) fn load_tables(&mut self) -> Result<(), CompileError> {
        let Some(constant) = self.plan.pod.constant else { return Ok(()) };
        let words = self.plan.pod.words();
        let first = self.memory.granule(constant)?;
        let desc = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Smem, words * 4));
        let device = self.b.def_s(Op::SDev, &[]);
        let row = self.b.s_muli(device, (u64::from(words) * 4 / HBM_GRANULE) as i32);
        let src = self.b.s_addi(row, first as i32);
        let dst = self.b.s_imm(self.plan.pod.base as i32);
        let sem = crate::plan::memory::KERNEL_SEMAPHORES - 1;
        let all = [self.all, BufferRef::SCALAR_MEMORY];
        let args = DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem };
        self.b.dma_start(args, &all, &all);
        self.b.dma_wait(sem, words as i32 * 4, &all, &all);
        Ok(())
    }

    /// Emits a collective from beginning to end.
    pub(in crate::plan) fn exchange(&mut self, x: &Exchange) -> Result<(), CompileError> {
        if let How::Transfer(t) = &x.how {
            return self.transfer(x, t);
        }
        let f = self.begin_exchange(x)?;
        match &x.how {
            How::Direct(all) if x.temps.is_empty() => {
                let codes: Vec<direct::Code<'_>> =
                    all.iter().map(|d| direct::Code::new(self, f.cx, d, (0, 0))).collect();
                for c in &codes {
                    c.announce(&mut self.b);
                    c.post(&mut self.b);
                    c.finish(&mut self.b);
                    c.settle(&mut self.b);
                }
            }
            How::Direct(_) | How::Ring(_) | How::Transfer(_) => {
                let number = self.progress(x, &f, false);
                self.set_state(x, &f);
                self.run_to_the_end(number);
            }
        }
        self.end_exchange(&f);
        Ok(())
    }

    /// Prepares a collective: its arrays are in HBM, and slots in vector memory are taken.
    pub(in crate::plan) fn begin_exchange(&mut self, x: &Exchange) -> Result<Flight, CompileError> {
        let mut out = Vec::new();
        self.in_hbm(x.src, Use::Read, &mut out)?;
        self.in_hbm(x.dst, Use::Write, &mut out)?;
        let (src, dst) = (self.memory.granule(x.src)?, self.memory.granule(x.dst)?);
        let mut temps = Vec::new();
        for &t in &x.temps {
            self.in_hbm(t, Use::Write, &mut out)?;
            temps.push(self.memory.granule(t)?);
        }
        let sublanes = self.memory.chip.core.sublanes;
        let contributions = |d: &Direct| {
            let component = d.parts.slot_component(d.parts.run, sublanes);
            let reduces = d.kind == DirectKind::Reduce;
            if reduces { d.parts.components * component * u64::from(d.devices) } else { 0 }
        };
        let rows = match &x.how {
            How::Ring(r) => r.slots(sublanes),
            How::Direct(all) => all.iter().map(contributions).max().unwrap_or(0),
            How::Transfer(_) => 0,
        };
        let rows = if rows > 0 { rows + guard_rows(self.memory.chip) } else { 0 };
        let name = self.memory.name_of(x.dst).to_string();
        let slots = match rows {
            0 => 0,
            n => self.memory.room(n, self.now, &[], &format!("slots of `{name}`"), &mut out)?,
        };
        self.copies(out);
        let row_bytes = self.memory.chip.row_bytes();
        let cx = Cx { all: self.all, base: self.plan.pod.base, row_bytes, sublanes, src, dst, slots };
        Ok(Flight { cx, temps, slots: (slots, rows) })
    }

    /// The subroutine that takes an exchange further. `own`: its code counts as the exchange's wherever it is called.
    fn progress(&mut self, x: &Exchange, f: &Flight, own: bool) -> usize {
        let op = own.then_some(x.op);
        // Rings take their addresses from scalar memory, so equal ones share their code.
        let key = match &x.how {
            How::Ring(r) => format!("{op:?} {r:?}"),
            How::Direct(_) | How::Transfer(_) => {
                format!("{op:?} {:?} {} {} {:?} {}", x.how, f.cx.src, f.cx.dst, f.temps, f.cx.slots)
            }
        };
        let state = self.plan.pod.state;
        self.subroutine(key, |e| {
            let mut b = KernelBuilder::new("exchange", e.memory.chip);
            let cx = Cx { all: b.buffer(), ..f.cx };
            let mut phases: Vec<Box<dyn Moves + '_>> = Vec::new();
            match &x.how {
                How::Ring(r) => phases = ring::phases(e, &cx, r, state),
                How::Direct(all) => {
                    for (i, d) in all.iter().enumerate() {
                        let cx = f.stage(&cx, i);
                        phases.push(Box::new(direct::Code::new(e, cx, d, (i, state))));
                    }
                }
                How::Transfer(_) => {}
            }
            progress::run(&mut b, &phases, state, x.how.recv());
            op.into_iter().for_each(|op| b.set_debug_op(op));
            b.finish()
        })
    }

    /// Sets the words that say where an exchange is.
    fn set_state(&mut self, x: &Exchange, f: &Flight) {
        let state = self.plan.pod.state;
        for w in [
            State::Phase,
            State::Moves,
            State::Step,
            State::Batch,
            State::Piece,
            State::Turn,
            State::Blocking,
            State::Wanted,
        ] {
            store(&mut self.b, state, w, S::ZERO);
        }
        if let How::Ring(_) = x.how {
            let temp = f.temps.first().copied().unwrap_or(f.cx.dst);
            let all = [(State::Src, f.cx.src), (State::Dst, f.cx.dst), (State::Temp, temp), (State::Slots, f.cx.slots)];
            for (w, v) in all {
                let v = self.b.s_imm(v as i32);
                store(&mut self.b, state, w, v);
            }
        }
    }

    /// Takes the exchange under way to its end.
    fn run_to_the_end(&mut self, subroutine: usize) {
        let one = self.b.s_imm(1);
        store(&mut self.b, self.plan.pod.state, State::Blocking, one);
        self.b.call(subroutine as u32, &[]);
    }

    /// Gives back what an exchange took.
    pub(in crate::plan) fn end_exchange(&mut self, f: &Flight) {
        if f.slots.1 > 0 {
            self.memory.vmem.give(f.slots.0, f.slots.1);
        }
    }
}

/// An exchange that is under way.
pub(in crate::plan) struct Flight {
    cx: Cx,
    /// First granules of partial results.
    temps: Vec<u64>,
    /// First row and rows of its slots.
    slots: (u64, u64),
}

impl Flight {
    /// What code of one of several exchanges in a row sees.
    fn stage(&self, cx: &Cx, number: usize) -> Cx {
        let src = number.checked_sub(1).map_or(cx.src, |i| self.temps[i]);
        Cx { src, dst: self.temps.get(number).copied().unwrap_or(cx.dst), ..*cx }
    }
}
