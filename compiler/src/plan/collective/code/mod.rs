//! Code of collectives in the main program.
//!
//! All copies of the main program keep their order, so that the code below says what waits for what. Addresses of blocks
//! are computed at run time from the device's table; everything else is the same on all devices, the places of slots
//! and buffers among it: a device knows where its peer's are because its own are there.
//!
//! An exchange is begun, moved and ended ([`Flight`]); what the main program does in between runs while it is under way.

mod direct;
mod hide;
pub(in crate::plan) mod ring;
mod transfer;

use super::direct::DirectKind;
use super::{Exchange, How, Table};
use crate::analysis::parts::Parts;
use crate::error::CompileError;
use crate::kernel::build_units::{DmaArgs, RemoteArgs};
use crate::kernel::{BufferRef, KernelBuilder, S};
use crate::plan::main_program::Emitter;
use crate::plan::memory::guard_rows;
use crate::plan::step::Use;
pub(in crate::plan) use hide::Hidden;
use ring::State;
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
        let all = [self.all];
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
        let mut f = self.begin_exchange(x, false)?;
        self.end_exchange(x, &mut f);
        Ok(())
    }

    /// Begins a collective: the arrays are in HBM, and what this device begins with is sent.
    /// `hidden`: other operations make its moves.
    pub(in crate::plan) fn begin_exchange(&mut self, x: &Exchange, hidden: bool) -> Result<Flight, CompileError> {
        let mut out = Vec::new();
        self.in_hbm(x.src, Use::Read, &mut out)?;
        self.in_hbm(x.dst, Use::Write, &mut out)?;
        let (src, dst) = (self.memory.granule(x.src)?, self.memory.granule(x.dst)?);
        let mut temp = dst;
        if let Some(t) = x.temp {
            self.in_hbm(t, Use::Write, &mut out)?;
            temp = self.memory.granule(t)?;
        }
        let sublanes = self.memory.chip.core.sublanes;
        let rows = match &x.how {
            How::Ring(r) => r.phases.first().map_or(0, |p| r.slots(p, sublanes).0) * r.streams.len() as u64,
            How::Direct(d) if d.kind == DirectKind::Reduce => {
                let component = d.parts.slot_component(d.parts.run, sublanes);
                d.parts.components * component * u64::from(d.devices)
            }
            How::Direct(_) | How::Transfer(_) => 0,
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
        let mut f = Flight { cx, slots: (slots, rows), op: x.op, subroutine: 0, moves: 0, made: 0, shared: hidden };
        match &x.how {
            How::Direct(d) => self.begin_direct(&cx, d),
            How::Transfer(_) => {}
            How::Ring(r) => {
                let state = self.plan.pod.state;
                f.moves = r.phases.iter().map(|p| r.moves(p) as usize).sum();
                // Code that other operations call counts as this one's.
                let op = hidden.then_some(x.op);
                f.subroutine = self.subroutine(format!("{op:?} {r:?}"), |e| {
                    let mut b = ring::subroutine(e, &cx, r, state);
                    op.into_iter().for_each(|op| b.set_debug_op(op));
                    b.finish()
                });
                let start = [
                    (State::Phase, 0),
                    (State::Moves, 0),
                    (State::Step, 0),
                    (State::Batch, 0),
                    (State::Src, src),
                    (State::Dst, dst),
                    (State::Temp, temp),
                    (State::Slots, slots),
                    (State::Stage, 0),
                ];
                for (w, v) in start {
                    let v = self.b.s_imm(v as i32);
                    self.b.smem_store(v, S::ZERO, (state + w as u32) as i32);
                }
                self.make_moves(&mut f, 1);
            }
        }
        Ok(f)
    }

    /// Takes an exchange further until so many of its moves are made.
    pub(in crate::plan) fn make_moves(&mut self, f: &mut Flight, until: usize) {
        let count = until.min(f.moves).saturating_sub(f.made);
        if count == 0 {
            return;
        }
        f.made += count;
        self.b.mark(f.op);
        let kernel = f.subroutine as u32;
        self.b.loop_static(count as u32, |b| b.call(kernel, &[]));
    }

    /// Waits for an exchange to end.
    pub(in crate::plan) fn end_exchange(&mut self, x: &Exchange, f: &mut Flight) {
        self.b.mark(x.op);
        match &x.how {
            // Products make moves of their own, as many as they come to.
            How::Ring(r) if f.shared => {
                let (phase, end) = ((self.plan.pod.state + State::Phase as u32) as i32, r.phases.len() as i32);
                let kernel = f.subroutine as u32;
                self.b.while_(
                    |b| {
                        let number = b.smem_load(S::ZERO, phase);
                        b.def_s(Op::SLtI, &[number.into(), end.into()])
                    },
                    |b| b.call(kernel, &[]),
                );
            }
            How::Ring(_) => self.make_moves(f, usize::MAX),
            How::Direct(d) => self.end_direct(&f.cx, d),
            How::Transfer(_) => {}
        }
        if f.slots.1 > 0 {
            self.memory.vmem.give(f.slots.0, f.slots.1);
        }
    }
}

/// An exchange that is under way.
pub(in crate::plan) struct Flight {
    cx: Cx,
    /// First row and rows of its slots.
    slots: (u64, u64),
    op: u32,
    /// Rings: the kernel that makes a move, moves in all, and how many are made.
    subroutine: usize,
    moves: usize,
    made: usize,
    /// Somebody else may have made more.
    shared: bool,
}
