//! Scatters into tables that stay in HBM: every update is visited once, however large its table is.
//!
//! Updates come a register of indices at a time. The register is sorted, each index with its update's number behind it, so that
//! updates of one row follow each other. The rows that they name are brought, combined in that order, and those that are complete
//! are taken back; the others go to rows behind the table that nobody reads, so that time does not depend on the indices. The next
//! register's rows are asked for when all of these are back.
//!
//! What is made is a part of the result that begins with what changes nothing: each core makes one of its share of the updates, and
//! all are combined with the operand afterwards.

use super::ScatterSpec;
use super::copies::neutral;
use crate::emit::hbm::HbmUnit;
use crate::emit::loops::eval::{emit_body, simple_body};
use crate::emit::rows::RowsSpec;
use crate::emit::value::Value;
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, KernelCode, LoopHints, M, MemFormat, S, StoreFormat, Trips, V};
use systole_isa::{ChipConfig, DmaDesc, DmaDim, Op, Space};

/// What semaphores are for.
#[derive(Clone, Copy)]
enum Semaphore {
    Indices,
    /// Sorted indices on their way to scalar memory.
    Keys,
    Updates,
    /// Rows that come, and rows that go.
    Rows,
    Out,
}
pub(super) const SEMAPHORES: u32 = Semaphore::Out as u32 + 1;

/// Words of scalar memory behind a chunk's keys, for the one that ends them.
const END: u32 = 8;
/// Updates that are combined together, where their rows take a register each.
const TOGETHER: u32 = 4;
/// Vector operations of an update in a block: those of its place, and those of a register of its row.
const COMPARED: f64 = 2.5;
const COMBINED: f64 = 3.25;
/// The part of vector memory that windows take at most.
const SHARE: (u64, u64) = (11, 16);

/// Indices of a chunk: a register.
#[must_use]
pub fn chunk(chip: &ChipConfig) -> u32 {
    chip.core.sublanes * chip.core.lanes
}

/// Words of scalar memory for the keys of two chunks.
#[must_use]
pub fn key_words(chip: &ChipConfig) -> u32 {
    2 * (chunk(chip) + END)
}

/// Element rows of a plane of a part of the result: the table's, and one for each update of a chunk that is not the last of its row.
#[must_use]
pub fn part_plane(rows: u32, chip: &ChipConfig) -> u32 {
    (rows + chunk(chip)).next_multiple_of(chip.core.sublanes)
}

impl ScatterSpec {
    /// Whether updates may be combined in place in HBM: one table of rows of words, an order that does not matter, keys of 31 bits, and
    /// room for a chunk's rows.
    #[must_use]
    pub fn can_be_in_place(&self, chip: &ChipConfig) -> bool {
        let [r] = &self.specs[..] else { return false };
        let words = r.packing() == 1 && r.dtype.components() == 1 && self.order_free().is_some();
        let keys = (u64::from(self.rows) + 1) * u64::from(chunk(chip)) <= 1 << 31;
        let room = u64::from(self.in_place_rows(chip)) * chip.row_bytes();
        let whole = !self.elements && !r.joined(r.table_plane) && !r.joined(r.rows_plane);
        words && keys && whole && room <= chip.vmem.bytes / SHARE.1 * SHARE.0
    }

    /// Word rows of scratch memory.
    pub(super) fn in_place_rows(&self, chip: &ChipConfig) -> u32 {
        let sublanes = chip.core.sublanes;
        let slabs = chunk(chip) * self.specs[0].planes + sublanes;
        // Two chunks of indices, keys, two chunks of updates, rows.
        3 * sublanes + 3 * slabs
    }

    /// Estimated cycles of so many cores that visit their shares of the updates in place, and combine their parts.
    #[must_use]
    pub fn in_place_cycles(&self, cores: u32, chip: &ChipConfig) -> f64 {
        let interval = |op: Op| f64::from(chip.timing.get(op.info().class).interval.max(1));
        // A word of scalar memory, and one of the copies that may be under way, for a row that comes and for one that goes.
        let latency = chip.hbm_latency_cycles() as f64;
        let copy = (latency + f64::from(chip.dma.descriptor_cycles)) / f64::from(chip.dma.in_flight.max(1));
        let visit = copy.max(interval(Op::SLd)) + 1.0;
        // A chunk is sorted, its keys go to scalar memory, and its rows are waited for there and back.
        let bits = f64::from(chunk(chip).ilog2());
        let turn = f64::from(chip.timing.get(Op::XPermLane.info().class).latency) + 4.0;
        let apart = bits * (bits + 1.0) / 2.0 * turn + 2.0 * latency;
        let row = self.row_bytes(chip) / chip.hbm_bytes_per_cycle();
        let chunks = f64::from(self.specs[0].count.div_ceil(cores).div_ceil(chunk(chip)));
        let visited = chunks * (f64::from(chunk(chip)) * (2.0 * visit).max(3.0 * f64::from(cores) * row) + apart);
        // Every part is written, and read with the operand for the result.
        visited + f64::from(part_plane(self.rows, chip)) * row * f64::from(2 * cores + 2)
    }

    /// Rows of a block of a table that is made in blocks, shared out among so many cores, and estimated cycles.
    #[must_use]
    pub fn blocks_cycles(&self, cores: u32, chip: &ChipConfig) -> (u32, f64) {
        let (r, slots) = (&self.specs[0], &chip.core);
        let visits = f64::from(self.rows.div_ceil(self.block).div_ceil(cores)) * f64::from(r.count);
        // Every update is asked for its place, and compared with others of its group; its parts are read with the table's and written.
        let parts = f64::from(r.planes / slots.sublanes + r.planes % slots.sublanes);
        let word = f64::from(chip.timing.get(Op::SLd.info().class).interval.max(1));
        let computed = (COMPARED + COMBINED * parts) / f64::from(slots.valu_slots.max(1));
        let moved =
            (2.0 * parts / f64::from(slots.vload_slots.max(1))).max(parts / f64::from(slots.vstore_slots.max(1)));
        let fetched = f64::from(cores) * self.row_bytes(chip) / chip.hbm_bytes_per_cycle();
        let tables = 2.0 * f64::from(self.rows) * self.row_bytes(chip) / chip.hbm_bytes_per_cycle();
        (self.block, visits * word.max(computed).max(moved).max(fetched) + tables)
    }

    fn row_bytes(&self, chip: &ChipConfig) -> f64 {
        f64::from(self.specs[0].planes) * chip.row_bytes() as f64
    }
}

/// A window of vector memory: its first word row, a variable where it changes from chunk to chunk.
#[derive(Clone, Copy)]
struct Window {
    at: S,
    buf: BufferRef,
}

/// An update: its key, its row, and whether it is the first of its row.
type Keyed = (S, S, S);

struct InPlace<'a> {
    s: &'a ScatterSpec,
    r: &'a RowsSpec,
    chunk: u32,
    shape: (u32, u32),
    row_bytes: u32,
    indices: (S, BufferRef),
    part: HbmUnit,
    updates: HbmUnit,
    /// Where indices and updates of this chunk are; the next one's are in the other half.
    index: Window,
    update: Window,
    keys: Window,
    rows: Window,
    /// First word of scalar memory of this chunk's keys.
    words: S,
    /// The sums of both halves' places, of indices, updates and keys.
    halves: [S; 3],
    /// Descriptors of a row that comes, of one that goes, and of a chunk's keys.
    row: (u32, u32),
    sent: u32,
    descs: Vec<DmaDesc>,
}

/// The kernel. Parameters: indices, the part of the result, updates (granules); scratch.
pub(super) fn in_place_kernel(s: &ScatterSpec, chip: &ChipConfig) -> KernelCode {
    let mut b = KernelBuilder::new("scatter", chip);
    let r = &s.specs[0];
    let (indices, part, updates, scratch) = (b.param(), b.param(), b.param(), b.param());
    let mut buffers = (0..7).map(|_| b.buffer()).collect::<Vec<_>>().into_iter();
    let mut buffer = || buffers.next().expect("as many as are asked for");
    let (indices, part, updates) = (
        (indices, buffer()),
        HbmUnit::new(part, buffer(), r.dtype, chip),
        HbmUnit::new(updates, buffer(), r.dtype, chip),
    );
    let (sublanes, lanes) = (chip.core.sublanes, chip.core.lanes);
    let slabs = (chunk(chip) * r.planes + sublanes) as i32;
    let sub = sublanes as i32;
    let keys = b.s_addi(scratch, 2 * sub);
    let update = b.s_addi(scratch, 3 * sub);
    let rows = b.s_addi(scratch, 3 * sub + 2 * slabs);
    let twice = |b: &mut KernelBuilder, at: S, step: i32| {
        let sum = b.s(Op::SAdd, &[at, at]);
        b.s_addi(sum, step)
    };
    let words = b.s_imm(r.smem as i32);
    let step = (chunk(chip) + END) as i32;
    let halves = [twice(&mut b, scratch, sub), twice(&mut b, update, slabs), twice(&mut b, words, step)];
    let mut k = InPlace {
        s,
        r,
        chunk: chunk(chip),
        shape: (sublanes, lanes),
        row_bytes: lanes * 4,
        indices,
        part,
        updates,
        index: Window { at: b.s_copy(scratch), buf: buffer() },
        update: Window { at: b.s_copy(update), buf: buffer() },
        keys: Window { at: keys, buf: buffer() },
        rows: Window { at: rows, buf: buffer() },
        words: b.s_var(r.smem as i32),
        halves,
        row: (0, 0),
        sent: 0,
        descs: Vec::new(),
    };
    k.row = (k.row_desc(false), k.row_desc(true));
    k.sent = k.desc(DmaDesc::contiguous(Space::Vmem, Space::Smem, k.chunk * 4));
    k.emit(&mut b);
    KernelCode::copying(b.finish(), k.descs, s.needs(chip))
}

impl InPlace<'_> {
    fn desc(&mut self, d: DmaDesc) -> u32 {
        self.descs.push(d);
        self.descs.len() as u32 - 1
    }

    /// The copy of a row between the part (planes apart) and a window (planes behind each other).
    fn row_desc(&mut self, out: bool) -> u32 {
        let bytes = i64::from(self.row_bytes);
        let (far, near) = (i64::from(self.r.table_plane) * bytes, bytes);
        let (src, dst, src_stride, dst_stride) = match out {
            true => (Space::Vmem, Space::Hbm, near, far),
            false => (Space::Hbm, Space::Vmem, far, near),
        };
        let plane = DmaDim { count: self.r.planes, src_stride, dst_stride };
        self.desc(DmaDesc { src, dst, chunk: self.row_bytes, dims: vec![plane] })
    }

    /// The copies of `count` indices and of their updates.
    fn chunk_descs(&mut self, count: u32) -> (u32, u32) {
        let bytes = i64::from(self.row_bytes);
        let words = count.next_multiple_of(self.shape.1);
        let indices = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Vmem, words * 4));
        let (planes, far) = (self.r.planes, i64::from(self.r.rows_plane) * bytes);
        let plane = DmaDim { count: planes, src_stride: far, dst_stride: bytes };
        let row = DmaDim { count, src_stride: bytes, dst_stride: i64::from(planes) * bytes };
        let updates = DmaDesc { src: Space::Hbm, dst: Space::Vmem, chunk: self.row_bytes, dims: vec![plane, row] };
        (indices, self.desc(updates))
    }

    fn emit(&mut self, b: &mut KernelBuilder) {
        self.clear(b);
        let (full, rest) = (self.r.count / self.chunk, self.r.count % self.chunk);
        let end = b.s_imm((self.s.rows << self.chunk.ilog2()) as i32);
        for half in 0..2 {
            b.smem_store(end, self.words, (half * (self.chunk + END) + self.chunk) as i32);
        }
        let first = b.s_var(self.r.first as i32);
        if full > 0 {
            let descs = self.chunk_descs(self.chunk);
            let (left, done) = (b.s_var(full as i32), b.s_var(0));
            self.bring(b, descs, first, (self.index.at, self.update.at));
            self.sort(b, self.chunk, (self.index.at, self.words));
            b.loop_static(full, |b| {
                b.s_inc(left, -1);
                self.arrived(b, self.chunk);
                b.if_(done, |b| self.settled(b));
                let next = [(self.index.at, 0), (self.update.at, 1), (self.words, 2)]
                    .map(|(at, i)| b.s(Op::SSub, &[self.halves[i], at]));
                b.if_(left, |b| {
                    let first = b.s_addi(first, self.chunk as i32);
                    self.bring(b, descs, first, (next[0], next[1]));
                });
                self.ask(b);
                b.if_(left, |b| self.sort(b, self.chunk, (next[0], next[2])));
                self.combine(b);
                for (at, next) in [self.index.at, self.update.at, self.words].into_iter().zip(next) {
                    b.copy_s(at, next);
                }
                b.s_inc(first, self.chunk as i32);
                b.set_s(done, Op::SLi, &[1.into()]);
            });
            self.settled(b);
        }
        if rest > 0 {
            let descs = self.chunk_descs(rest);
            self.bring(b, descs, first, (self.index.at, self.update.at));
            self.sort(b, rest, (self.index.at, self.words));
            self.arrived(b, rest);
            self.ask(b);
            self.combine(b);
            self.settled(b);
        }
    }

    /// Fills the part with what changes nothing.
    fn clear(&mut self, b: &mut KernelBuilder) {
        let word = simple_body(&self.s.body).and_then(|op| neutral(op, self.r.dtype));
        let none = b.v_imm(word.expect("an order that does not matter has something neutral"));
        let window = self.chunk * self.r.planes;
        let row = b.s_copy(self.rows.at);
        b.loop_static(window / self.shape.0, |b| {
            b.store(StoreFormat::W32, none, row, 0, 1, M::ALL, self.rows.buf);
            b.s_inc(row, self.shape.0 as i32);
        });
        let all = self.r.table_plane * self.r.planes;
        let first = b.s_var(0);
        for (trips, rows) in [(all / window, window), (1, all % window)] {
            if trips * rows == 0 {
                continue;
            }
            let bytes = rows * self.row_bytes;
            let desc = self.desc(DmaDesc::contiguous(Space::Vmem, Space::Hbm, bytes));
            b.loop_static(trips, |b| {
                let at = self.part.units_of(b, first);
                let (dst, dst_offset) = self.part.place(b, at, 0);
                let args = DmaArgs {
                    desc,
                    src: self.rows.at,
                    src_offset: S::ZERO,
                    dst,
                    dst_offset,
                    sem: Semaphore::Out as u32,
                };
                b.dma_start(args, &[self.rows.buf], &[self.part.buf]);
                b.s_inc(first, rows as i32);
            });
            b.loop_static(trips, |b| {
                b.dma_wait(Semaphore::Out as u32, bytes as i32, &[self.rows.buf], &[self.part.buf])
            });
        }
    }

    /// Starts the copies of `count` indices from number `first` on, and of their updates.
    fn bring(&self, b: &mut KernelBuilder, descs: (u32, u32), first: S, (index, update): (S, S)) {
        let src_offset = b.def_s(Op::SShlI, &[first.into(), 2.into()]);
        let (src, buf) = self.indices;
        let args =
            DmaArgs { desc: descs.0, src, src_offset, dst: index, dst_offset: S::ZERO, sem: Semaphore::Indices as u32 };
        b.dma_start(args, &[buf], &[self.index.buf]);
        let at = self.updates.units_of(b, first);
        let (src, src_offset) = self.updates.place(b, at, 0);
        let args = DmaArgs {
            desc: descs.1,
            src,
            src_offset,
            dst: update,
            dst_offset: S::ZERO,
            sem: Semaphore::Updates as u32,
        };
        b.dma_start(args, &[self.updates.buf], &[self.update.buf]);
    }

    /// Waits for a chunk's updates and for its keys.
    fn arrived(&self, b: &mut KernelBuilder, count: u32) {
        let bytes = count * self.r.planes * self.row_bytes;
        b.dma_wait(Semaphore::Updates as u32, bytes as i32, &[self.updates.buf], &[self.update.buf]);
        let touched = [self.keys.buf, BufferRef::SCALAR_MEMORY];
        b.dma_wait(Semaphore::Keys as u32, (self.chunk * 4) as i32, &touched, &touched);
    }

    /// Waits until a chunk's rows are back.
    fn settled(&self, b: &mut KernelBuilder) {
        let bytes = self.chunk * self.r.planes * self.row_bytes;
        b.dma_wait(Semaphore::Out as u32, bytes as i32, &[self.rows.buf], &[self.part.buf, self.rows.buf]);
    }

    /// Waits for indices, of which there are `count`, sorts them with their numbers, and sends them to scalar memory.
    fn sort(&self, b: &mut KernelBuilder, count: u32, (index, words): (S, S)) {
        let all = count.next_multiple_of(self.shape.1) * 4;
        b.dma_wait(Semaphore::Indices as u32, all as i32, &[self.indices.1], &[self.index.buf]);
        let x = b.load(MemFormat::W32, index, 0, 1, self.index.buf);
        let (sublane, lane) = (b.sublane(), b.lane());
        let number = b.muli(sublane, self.shape.1 as i32);
        let number = b.v(Op::VAddI, &[number, lane]);
        // What is skipped goes behind the table.
        let behind = self.s.rows as i32;
        let skipped = b.test(Op::VLtS, x, 0);
        let mut row = b.sel(skipped, behind, x);
        if count < self.chunk {
            let there = b.test(Op::VLtS, number, count as i32);
            row = b.sel(there, row, behind);
        }
        let key = b.shl(row, self.chunk.ilog2() as i32);
        let key = b.v(Op::VOr, &[key, number]);
        let key = sorted(b, key, self.shape);
        b.store(StoreFormat::W32, key, self.keys.at, 0, 1, M::ALL, self.keys.buf);
        let desc = self.sent;
        let args = DmaArgs {
            desc,
            src: self.keys.at,
            src_offset: S::ZERO,
            dst: words,
            dst_offset: S::ZERO,
            sem: Semaphore::Keys as u32,
        };
        let touched = [self.keys.buf, BufferRef::SCALAR_MEMORY];
        b.dma_start(args, &touched, &touched);
    }

    /// Asks for the rows that a chunk's keys name.
    fn ask(&self, b: &mut KernelBuilder) {
        let (word, dst) = (b.s_copy(self.words), b.s_copy(self.rows.at));
        b.loop_static(self.chunk, |b| {
            let key = b.smem_load(word, 0);
            let row = b.def_s(Op::SShrI, &[key.into(), (self.chunk.ilog2() as i32).into()]);
            let at = self.part.units_of(b, row);
            let (src, src_offset) = self.part.place(b, at, 0);
            let args =
                DmaArgs { desc: self.row.0, src, src_offset, dst, dst_offset: S::ZERO, sem: Semaphore::Rows as u32 };
            b.dma_start(args, &[], &[self.rows.buf]);
            b.s_inc(word, 1);
            b.s_inc(dst, self.r.planes as i32);
        });
    }

    /// Combines a chunk's updates in the order of their keys with the rows that have come, and takes each row back, or what is not
    /// complete of it to the row behind the table that is for its update.
    fn combine(&self, b: &mut KernelBuilder) {
        let bytes = self.chunk * self.r.planes * self.row_bytes;
        b.dma_wait(Semaphore::Rows as u32, bytes as i32, &[self.part.buf], &[self.rows.buf]);
        let (dtype, planes, sublanes) = (self.r.dtype, self.r.planes, self.shape.0);
        let bits = self.chunk.ilog2() as i32;
        let (word, at) = (b.s_copy(self.words), b.s_copy(self.rows.at));
        let key = b.smem_load(word, 0);
        let key = b.s_copy(key);
        let row = b.def_s(Op::SShrI, &[key.into(), bits.into()]);
        let row = b.s_copy(row);
        let (spare, ended) = (b.s_var(self.s.rows as i32), b.s_var(1));
        let parts: Vec<(u32, u32)> =
            (0..planes.div_ceil(sublanes)).map(|i| (i * sublanes, (planes - i * sublanes).min(sublanes))).collect();
        let sums: Vec<V> = parts.iter().map(|_| b.v_var(0)).collect();
        let together = if parts.len() == 1 { TOGETHER } else { 1 };
        b.loop_with(Trips::Static(self.chunk / together), LoopHints::independent(&[self.rows.buf]), |b| {
            // Those that are combined together, and the next one.
            let mut all: Vec<Keyed> = vec![(key, row, ended)];
            for u in 1..=together {
                let key = b.smem_load(word, u as i32);
                let row = b.def_s(Op::SShrI, &[key.into(), bits.into()]);
                // Rows that are skipped are the last ones, and as large as what ends the keys.
                let ended = b.s(Op::SLt, &[all[u as usize - 1].1, row]);
                all.push((key, row, ended));
            }
            let read = self.read(b, &all[..together as usize], at, &parts);
            let mut last = sums.clone();
            let mut made = Vec::new();
            for (read, &(.., first)) in read.chunks(parts.len()).zip(&all) {
                let first = b.splat(first);
                let first = b.test(Op::VNeI, first, 0);
                for (&(old, new), last) in read.iter().zip(&mut last) {
                    let old = Value::word(dtype, b.select(first, old, *last));
                    *last = emit_body(b, &self.s.body, &[old], &[Value::word(dtype, new)])[0].v();
                }
                made.push(last.clone());
            }
            for (u, made) in made.iter().enumerate() {
                for (&(plane, n), &made) in parts.iter().zip(made) {
                    let (offset, mask) = ((u as u32 * planes + plane) as i32, b.sublanes_below(n));
                    b.store(StoreFormat::W32, made, at, offset, i32::from(n > 1), mask, self.rows.buf);
                }
            }
            self.take_back(b, &all, (at, spare));
            let (next_key, next_row, next_first) = all[together as usize];
            b.copy_s(key, next_key);
            b.copy_s(row, next_row);
            b.copy_s(ended, next_first);
            for (&sum, &last) in sums.iter().zip(&last) {
                b.copy_v(sum, last);
            }
            b.s_inc(word, together as i32);
            b.s_inc(at, (together * planes) as i32);
            b.s_inc(spare, together as i32);
        });
    }

    /// What updates find and bring, by part of their rows; the first one's row is at `at`.
    fn read(&self, b: &mut KernelBuilder, all: &[Keyed], at: S, parts: &[(u32, u32)]) -> Vec<(V, V)> {
        let planes = self.r.planes as i32;
        let mut read = Vec::new();
        for (u, &(key, ..)) in all.iter().enumerate() {
            let number = b.def_s(Op::SAndI, &[key.into(), (self.chunk as i32 - 1).into()]);
            let from = if planes == 1 { number } else { b.s_muli(number, planes) };
            let from = b.s(Op::SAdd, &[self.update.at, from]);
            for &(plane, n) in parts {
                let (plane, stride) = (plane as i32, i32::from(n > 1));
                let old = b.load(MemFormat::W32, at, u as i32 * planes + plane, stride, self.rows.buf);
                read.push((old, b.load(MemFormat::W32, from, plane, stride, self.update.buf)));
            }
        }
        read
    }

    /// Takes the rows of all updates but the last one given back, the first of which is at `at`: complete ones to the table, others to the
    /// rows from `spare` on.
    fn take_back(&self, b: &mut KernelBuilder, all: &[Keyed], (at, spare): (S, S)) {
        for (u, pair) in all.windows(2).enumerate() {
            let spare = if u == 0 { spare } else { b.s_addi(spare, u as i32) };
            let to = b.def_s(Op::SSel, &[pair[1].2.into(), pair[0].1.into(), spare.into()]);
            let to = self.part.units_of(b, to);
            let (dst, dst_offset) = self.part.place(b, to, 0);
            let src_offset = b.s_imm((u as u32 * self.r.planes * self.row_bytes) as i32);
            let args = DmaArgs { desc: self.row.1, src: at, src_offset, dst, dst_offset, sem: Semaphore::Out as u32 };
            b.dma_start(args, &[self.rows.buf], &[]);
        }
    }
}

/// A register's numbers in ascending order, row after row of lanes: a bitonic network.
fn sorted(b: &mut KernelBuilder, mut x: V, (sublanes, lanes): (u32, u32)) -> V {
    let lane_bits = lanes.ilog2();
    let set = |b: &mut KernelBuilder, bit: u32| {
        let (number, bit) = match bit.checked_sub(lane_bits) {
            Some(bit) => (b.sublane(), bit),
            None => (b.lane(), bit),
        };
        let one = b.and(number, 1 << bit);
        b.test(Op::VNeI, one, 0)
    };
    let bits = lane_bits + sublanes.ilog2();
    for level in 1..=bits {
        let down = (level < bits).then(|| set(b, level));
        for bit in (0..level).rev() {
            let other = match bit.checked_sub(lane_bits) {
                Some(bit) => {
                    let number = b.sublane();
                    let order = b.xor(number, 1 << bit);
                    b.v(Op::XPermSub, &[x, order])
                }
                None => {
                    let number = b.lane();
                    let order = b.xor(number, 1 << bit);
                    b.v(Op::XPermLane, &[x, order])
                }
            };
            let upper = set(b, bit);
            let larger = down.map_or(upper, |down| b.m_xor(upper, down));
            let (low, high) = (b.v(Op::VMinS, &[x, other]), b.v(Op::VMaxS, &[x, other]));
            x = b.select(larger, high, low);
        }
    }
    x
}
