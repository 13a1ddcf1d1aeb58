//! [`KernelBuilder`] methods for memory, matrix units, cross-lane units and DMA.

use super::build::{Arg, KernelBuilder};
use super::{BufferRef, M, S, V};
use systole_isa::{MxuFormat, Op};

/// How a vector load widens rows; addresses count rows of this width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemFormat {
    W32,
    Bf16,
    S16,
    U16,
    S8,
    U8,
}

/// How a vector store narrows rows; addresses count rows of this width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreFormat {
    W32,
    /// f32 lanes rounded to bf16.
    Bf16,
    /// Low 16 bits.
    B16,
    /// Low 8 bits.
    B8,
}

impl MemFormat {
    /// The load's opcode.
    pub fn op(self) -> Op {
        match self {
            MemFormat::W32 => Op::VLd,
            MemFormat::Bf16 => Op::VLdBf16,
            MemFormat::S16 => Op::VLdS16,
            MemFormat::U16 => Op::VLdU16,
            MemFormat::S8 => Op::VLdS8,
            MemFormat::U8 => Op::VLdU8,
        }
    }
}

impl StoreFormat {
    /// The store's opcode.
    pub fn op(self) -> Op {
        match self {
            StoreFormat::W32 => Op::VSt,
            StoreFormat::Bf16 => Op::VStBf16,
            StoreFormat::B16 => Op::VSt16,
            StoreFormat::B8 => Op::VSt8,
        }
    }
}

/// Offsets that the builder leaves in the instruction: 20-bit signed, less some room for the scheduler, which folds
/// unrolled address steps into them.
pub(super) const OFFSET_MAX: i32 = (1 << 19) - (1 << 16);
/// 16-bit signed strides.
const STRIDE_MAX: i32 = (1 << 15) - 1;

/// The operands of a `dma.start`: descriptor index, bases and byte offsets, semaphore.
#[derive(Clone, Copy, Debug)]
pub struct DmaArgs {
    pub desc: u32,
    pub src: S,
    pub src_offset: S,
    pub dst: S,
    pub dst_offset: S,
    pub sem: u32,
}

/// Operands of a copy to another device.
#[derive(Clone, Copy, Debug)]
pub struct RemoteArgs {
    pub desc: u32,
    pub src: S,
    pub dst: S,
    pub device: S,
    /// Semaphore here, and there.
    pub send: u32,
    pub recv: u32,
}

impl KernelBuilder {
    // ---- vector memory ----

    /// Base and offset such that the offset fits its field.
    fn reach(&mut self, base: S, offset: i32) -> (S, i32) {
        if (-OFFSET_MAX..=OFFSET_MAX).contains(&offset) { (base, offset) } else { (self.s_addi(base, offset), 0) }
    }

    /// Loads element rows `base + offset + i * stride` (i: sublane) of the format's width from `buf`. Offset and stride
    /// may be any 32-bit numbers; those beyond the instruction's fields cost further instructions.
    pub fn load(&mut self, format: MemFormat, base: S, offset: i32, stride: i32, buf: BufferRef) -> V {
        let d = self.new_v();
        self.load_to(d, format, base, offset, stride, buf);
        d
    }

    /// As [`KernelBuilder::load`], into an existing register.
    pub fn load_to(&mut self, dst: V, format: MemFormat, base: S, offset: i32, stride: i32, buf: BufferRef) {
        if stride.unsigned_abs() <= STRIDE_MAX as u32 {
            let (base, offset) = self.reach(base, offset);
            return self.load_raw(dst, format, base, offset, stride, buf);
        }
        let mut whole = None;
        for i in 0..self.sublanes {
            let (base, offset) = self.reach(base, offset.wrapping_add(stride.wrapping_mul(i as i32)));
            let part = self.new_v();
            self.load_raw(part, format, base, offset, 0, buf);
            let m = self.sublane_is(i);
            whole = Some(whole.map_or(part, |w| self.select(m, part, w)));
        }
        self.copy_v(dst, whole.expect("a register has sublanes"));
    }

    fn load_raw(&mut self, dst: V, format: MemFormat, base: S, offset: i32, stride: i32, buf: BufferRef) {
        self.emit_mem(format.op(), &[dst.0 as i32, base.0 as i32, offset, stride], &[buf], &[]);
    }

    /// Stores `v` to element rows `base + offset + i * stride` of the format's width in `buf`, where the mask is set.
    #[allow(clippy::too_many_arguments, reason = "the operands of one machine instruction")]
    pub fn store(&mut self, format: StoreFormat, v: V, base: S, offset: i32, stride: i32, mask: M, buf: BufferRef) {
        if stride.unsigned_abs() <= STRIDE_MAX as u32 {
            let (base, offset) = self.reach(base, offset);
            return self.store_raw(format, v, base, offset, stride, mask, buf);
        }
        for i in 0..self.sublanes {
            let (base, offset) = self.reach(base, offset.wrapping_add(stride.wrapping_mul(i as i32)));
            let mut m = self.sublane_is(i);
            if mask != M::ALL {
                m = self.m_and(m, mask);
            }
            self.store_raw(format, v, base, offset, 0, m, buf);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the operands of one machine instruction")]
    fn store_raw(&mut self, format: StoreFormat, v: V, base: S, offset: i32, stride: i32, mask: M, buf: BufferRef) {
        let o = [v.0 as i32, base.0 as i32, offset, stride, mask.0 as i32];
        self.emit_mem(format.op(), &o, &[], &[buf]);
    }

    // ---- scalar memory ----

    /// The SMEM word at `base + offset`.
    pub fn smem_load(&mut self, base: S, offset: i32) -> S {
        let (base, offset) = self.reach(base, offset);
        self.def_s(Op::SLd, &[base.into(), Arg(offset)])
    }

    /// Stores to the SMEM word at `base + offset`.
    pub fn smem_store(&mut self, v: S, base: S, offset: i32) {
        let (base, offset) = self.reach(base, offset);
        self.emit(Op::SSt, &[v.0 as i32, base.0 as i32, offset]);
    }

    // ---- cross-lane ----

    /// Rotates lanes up by a constant.
    pub fn rot_lane(&mut self, a: V, amount: i32) -> V {
        self.def_v(Op::XRotLane, &[a.into(), Arg(amount)])
    }

    /// Rotates lanes up by a scalar.
    pub fn rot_lane_s(&mut self, a: V, amount: S) -> V {
        self.def_v(Op::XRotLaneS, &[a.into(), amount.into()])
    }

    /// Rotates sublanes up by a constant.
    pub fn rot_sublane(&mut self, a: V, amount: i32) -> V {
        self.def_v(Op::XRotSub, &[a.into(), Arg(amount)])
    }

    /// Appends rows to the transpose buffer of unit `u`.
    pub fn xlu_tpush(&mut self, u: u32, a: V) {
        self.emit(Op::XTpush, &[u as i32, a.0 as i32]);
    }

    /// The next register of the transposed buffer of unit `u`.
    pub fn xlu_tpop(&mut self, u: u32) -> V {
        self.def_v(Op::XTpop, &[Arg(u as i32)])
    }

    /// Lane 0 of sublane 0.
    pub fn extract(&mut self, a: V) -> S {
        self.def_s(Op::XExtract, &[a.into()])
    }

    // ---- matrix units ----

    /// Appends weight rows to unit `u`, lane chunk `chunk`.
    pub fn mxu_stage(&mut self, u: u32, a: V, chunk: u32, f: MxuFormat) {
        self.emit(Op::MStage, &[u as i32, a.0 as i32, chunk as i32, f as i32]);
    }

    /// Appends weight columns to unit `u`, lane chunk `chunk`.
    pub fn mxu_stage_t(&mut self, u: u32, a: V, chunk: u32, f: MxuFormat) {
        self.emit(Op::MStageT, &[u as i32, a.0 as i32, chunk as i32, f as i32]);
    }

    /// Makes the staged weights of unit `u` active.
    pub fn mxu_latch(&mut self, u: u32) {
        self.emit(Op::MLatch, &[u as i32]);
    }

    /// Streams rows; results join the FIFO.
    pub fn mxu_push(&mut self, u: u32, a: V, chunk: u32, f: MxuFormat) {
        self.emit(Op::MPush, &[u as i32, a.0 as i32, chunk as i32, f as i32]);
    }

    /// Takes a lane chunk of the oldest result in the FIFO.
    pub fn mxu_pop(&mut self, u: u32, chunk: u32) -> V {
        self.def_v(Op::MPop, &[Arg(u as i32), Arg(chunk as i32)])
    }

    /// Streams rows; results overwrite accumulator rows from `row` on.
    pub fn mxu_push_set(&mut self, u: u32, a: V, chunk: u32, f: MxuFormat, row: S) {
        self.emit(Op::MPushSet, &[u as i32, a.0 as i32, chunk as i32, f as i32, row.0 as i32]);
    }

    /// Streams rows; results add to accumulator rows from `row` on.
    pub fn mxu_push_add(&mut self, u: u32, a: V, chunk: u32, f: MxuFormat, row: S) {
        self.emit(Op::MPushAdd, &[u as i32, a.0 as i32, chunk as i32, f as i32, row.0 as i32]);
    }

    /// A lane chunk of accumulator rows from `row` on.
    pub fn mxu_drain(&mut self, u: u32, chunk: u32, row: S) -> V {
        self.def_v(Op::MDrain, &[Arg(u as i32), Arg(chunk as i32), row.into()])
    }

    // ---- DMA ----

    /// Starts a copy that reads and writes the given buffers.
    pub fn dma_start(&mut self, a: DmaArgs, reads: &[BufferRef], writes: &[BufferRef]) {
        let regs = [a.src, a.src_offset, a.dst, a.dst_offset].map(|r| r.0 as i32);
        self.emit_mem(Op::DmaStart, &[a.desc as i32, regs[0], regs[1], regs[2], regs[3], a.sem as i32], reads, writes);
    }

    /// Waits for `bytes` on a semaphore; `reads` / `writes` are what the copy read / wrote.
    pub fn dma_wait(&mut self, sem: u32, bytes: i32, reads: &[BufferRef], writes: &[BufferRef]) {
        self.emit_mem(Op::DmaWait, &[sem as i32, bytes], reads, writes);
    }

    /// As [`KernelBuilder::dma_wait`], bytes from a register.
    pub fn dma_wait_s(&mut self, sem: u32, bytes: S, reads: &[BufferRef], writes: &[BufferRef]) {
        self.emit_mem(Op::DmaWaitS, &[sem as i32, bytes.0 as i32], reads, writes);
    }

    // ---- other cores and devices ----

    /// Waits for the device's other cores; from there on the core has one part in `share` of HBM.
    pub fn sync_cores(&mut self, share: u32, order: &[BufferRef]) {
        self.emit_mem(Op::SyncCores, &[share as i32], order, order);
    }

    /// Starts a copy to another device: what it reads and writes stands for all that it is ordered with.
    pub fn dma_remote(&mut self, a: RemoteArgs, reads: &[BufferRef], writes: &[BufferRef]) {
        let regs = [a.src, a.dst, a.device].map(|r| r.0 as i32);
        let operands = [a.desc as i32, regs[0], regs[1], regs[2], a.send as i32, a.recv as i32];
        self.emit_mem(Op::DmaRemote, &operands, reads, writes);
    }

    /// Whether a semaphore holds so many bytes.
    pub fn sync_test(&mut self, sem: u32, bytes: S) -> S {
        self.def_s(Op::SyncTest, &[(sem as i32).into(), bytes.into()])
    }

    /// Adds to a semaphore of another device.
    pub fn signal(&mut self, device: S, sem: u32, count: i32, order: &[BufferRef]) {
        self.emit_mem(Op::SyncSignal, &[device.0 as i32, sem as i32, count], order, order);
    }
}
