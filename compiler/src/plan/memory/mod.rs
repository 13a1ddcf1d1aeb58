//! Residency: which buffers are in vector memory while the program runs, and the copies that bring them there.
//!
//! Decisions are made in program order while the main program is emitted ([`super::main_program`]). A buffer has at most
//! one place in vector memory and one in HBM; at least one of them is valid once it is written. Where room is short, the
//! resident buffer whose next read is furthest is put out (written to HBM first if it is nowhere else). Inside a
//! loop everything that was resident at its start stays, so that every iteration finds what the first one found; large
//! arrays that it takes parts of and that found no room at its start are left in HBM by the next plan (`super::entry`), not
//! brought in every time round.

pub mod beyond;
pub mod common;
pub mod lifetime;
pub mod places;
pub mod residence;
pub mod vmem;

use super::action::{Copy, CopyKind, Pending};
use super::collective::Exchange;
use super::step::{Buffer, BufferKind, Draft, Step};
use super::view::BufId;
use beyond::Beyond;
use lifetime::Lifetimes;
pub use places::{Place, Places};
use systole_hlo::error::{CompileError, Resource};
use systole_isa::ChipConfig;
use systole_isa::dma::HBM_GRANULE;
use vmem::Rows;

/// Memory of one program.
pub struct Memory<'a> {
    pub chip: &'a ChipConfig,
    pub places: Places,
    pub vmem: Rows,
    pub hbm: Rows,
    /// Granules of common memory: behind those of HBM.
    common: Rows,
    common_from: u64,
    /// Buffers that may lie there, those that do where there is room, and those that took a place in either.
    eligible: Vec<bool>,
    near: Vec<bool>,
    pub placed: Vec<bool>,
    pub life: Lifetimes,
    /// Word rows of every buffer.
    rows: Vec<u64>,
    bytes: Vec<u64>,
    /// Bytes behind a buffer in HBM that belong to it.
    slack: Vec<u64>,
    names: Vec<String>,
    /// Semaphores free for whole-buffer copies.
    semaphores: Vec<u32>,
    /// What stood in the way of the step for which there was no room: large arrays that stay for a loop, of which that reads
    /// slices; without, the largest array of the step.
    pub crowding: Vec<BufId>,
    /// [`Guide::few_aside`](crate::plan::guide::Guide::few_aside), and whether that made a difference or would have.
    pub few: bool,
    pub choice: bool,
    /// Arrays of which loops read nothing but slices.
    pub sliced: Vec<BufId>,
    /// How often the step runs, as far as loops around it say, and bytes of whole arrays that have been copied by then.
    pub rounds: u64,
    pub copied: u64,
}

/// Arrays of more than one part in so many of vector memory make room when they leave it, and take time to come back.
const LARGE: u64 = 64;

/// How vector memory is divided, in word rows: arrays and scratch areas, guard rows that partial blocks may read (never
/// write), and spilled registers at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmemMap {
    pub arrays: u64,
    pub spill: u64,
    /// First row of the spilled registers.
    pub spill_base: u64,
}

/// Rows of vector memory kept for spilled registers.
const SPILL_ROWS: u64 = 2048;
/// Rows behind the last buffer that partial blocks may read (never write).
const GUARD_ROWS: u64 = 64;

/// Rows of vector memory that the offsets of loads and stores name: what is beyond stays unused.
const MOST_ROWS: u64 = 1 << 19;

/// The division of a chip's vector memory.
pub fn vmem_map(chip: &ChipConfig) -> VmemMap {
    let total = chip.vmem_rows().min(MOST_ROWS);
    let spill = (total / 8).min(SPILL_ROWS);
    let guard = (total / 16).min(GUARD_ROWS);
    VmemMap { arrays: total - spill - guard, spill, spill_base: total - spill }
}

/// Most semaphores that kernels number from 0.
const KERNEL_SEMAPHORES: u32 = 40;

/// Semaphores that every kind of kernel finds enough, and the main program's own.
const LEAST_SEMAPHORES: u32 = 6;

/// Semaphores that kernels number from 0; the others are for copies of whole arrays.
pub fn kernel_semaphores(chip: &ChipConfig) -> u32 {
    KERNEL_SEMAPHORES
        .min((chip.core.semaphores / 4 * 3).max(LEAST_SEMAPHORES).min(chip.core.semaphores.saturating_sub(1)))
}

/// Rows behind every buffer that belong to nobody: partial blocks read (never write) so far beyond their rows.
pub fn guard_rows(chip: &ChipConfig) -> u64 {
    4 * chip.core.sublanes as u64
}

impl<'a> Memory<'a> {
    /// Vector memory is `rows` word rows; HBM starts behind `code_bytes`.
    /// `beyond`: word rows that kernels read behind each buffer, more than all may.
    pub fn new(chip: &'a ChipConfig, buffers: &[Buffer], beyond: &Beyond, life: Lifetimes, rows: u64) -> Memory<'a> {
        let granules = chip.device_hbm_bytes() / HBM_GRANULE;
        let row_bytes = chip.core.lanes as u64 * 4;
        let mut m = Memory {
            chip,
            places: Places::new(buffers.len()),
            vmem: Rows::new(0, rows, 8),
            hbm: Rows::new(0, granules, 8),
            common: Rows::new(granules, chip.device_memory_bytes() / HBM_GRANULE, 8),
            common_from: granules,
            eligible: vec![false; buffers.len()],
            near: vec![false; buffers.len()],
            placed: vec![false; buffers.len()],
            life,
            rows: (buffers.iter().zip(&beyond.vmem))
                .map(|(b, far)| b.layout.bytes().div_ceil(row_bytes) + guard_rows(chip).max(*far))
                .collect(),
            bytes: buffers.iter().map(|b| b.layout.bytes()).collect(),
            slack: (buffers.iter().zip(&beyond.hbm))
                .map(|(b, far)| (b.slack_rows + guard_rows(chip).max(*far)) * row_bytes)
                .collect(),
            names: buffers.iter().map(|b| b.name.clone()).collect(),
            crowding: Vec::new(),
            few: false,
            choice: false,
            sliced: Vec::new(),
            rounds: 1,
            copied: 0,
            semaphores: (kernel_semaphores(chip)..chip.core.semaphores).rev().collect(),
        };
        for (i, b) in buffers.iter().enumerate() {
            m.places[i].in_hbm = matches!(b.kind, BufferKind::Param(_) | BufferKind::Constant(_));
        }
        m
    }

    /// Leaves the last semaphores of the chip to others.
    pub fn reserve_semaphores(&mut self, count: u32) {
        let end = self.chip.core.semaphores.saturating_sub(count);
        self.semaphores.retain(|s| *s < end);
    }

    pub fn rows_of(&self, buf: BufId) -> u64 {
        self.rows[buf.index()]
    }

    pub fn bytes_of(&self, buf: BufId) -> u64 {
        self.bytes[buf.index()]
    }

    pub fn name_of(&self, buf: BufId) -> &str {
        &self.names[buf.index()]
    }

    /// Lets buffers lie in common memory, and says which do where there is room.
    pub fn near(&mut self, eligible: Vec<bool>, near: &[BufId]) {
        self.eligible = eligible;
        near.iter().for_each(|b| self.near[b.index()] = true);
    }

    /// Whether a buffer may take over another's place, as far as the kind of memory goes.
    pub fn may_lie(&self, buf: BufId, at: &Place) -> bool {
        self.eligible[buf.index()] || at.granule.is_none_or(|g| g < self.common_from)
    }

    /// The buffer's place in HBM or common memory, taken on first use.
    pub fn granule(&mut self, buf: BufId) -> Result<u64, CompileError> {
        if let Some(g) = self.places[buf.index()].granule {
            return Ok(g);
        }
        let granules = self.granules_of(buf);
        self.placed[buf.index()] = true;
        // Others may write what stays a buffer's before this device gets there: no other array is there before it.
        let kept = self.places[buf.index()].granule_kept;
        if self.near[buf.index()]
            && !kept
            && let Some(g) = self.common.take(granules)
        {
            self.places[buf.index()].granule = Some(g);
            return Ok(g);
        }
        let taken = if kept { self.hbm.take_new(granules) } else { self.hbm.take(granules) };
        let g = taken.ok_or_else(|| CompileError::Limit {
            resource: Resource::Hbm,
            need: self.hbm.peak * HBM_GRANULE + granules * HBM_GRANULE,
            have: self.chip.device_hbm_bytes(),
            detail: format!(" (placing `{}`, {} bytes)", self.names[buf.index()], granules * HBM_GRANULE),
        })?;
        self.places[buf.index()].granule = Some(g);
        Ok(g)
    }

    /// Buffers that keep their place in HBM to the end: those that the host fills, and those that other devices reach, whose
    /// time this device does not know.
    pub fn keep(&mut self, plan: &Draft) {
        for (i, b) in plan.buffers.iter().enumerate() {
            self.places[i].granule_kept = matches!(b.kind, BufferKind::Param(_) | BufferKind::Constant(_));
        }
        let mut exchanged: Vec<BufId> = plan.channels.values().map(|v| v.buf).collect();
        exchanges(&plan.steps, &mut |x| x.arrays(&mut |b, _| exchanged.push(b)));
        for b in exchanged {
            self.places[b.index()].granule_kept = true;
        }
    }

    /// Granules of a buffer's place in HBM: blocks read a little beyond the last rows, as registers do in vector memory.
    pub fn granules_of(&self, buf: BufId) -> u64 {
        (self.bytes[buf.index()] + self.slack[buf.index()]).div_ceil(HBM_GRANULE)
    }

    /// Gives the buffer's place in HBM to others; its contents are not needed any more, there or in vector memory.
    pub fn give_granules(&mut self, buf: BufId, out: &mut Vec<Copy>) {
        if self.places[buf.index()].granule_kept {
            return;
        }
        self.settle(buf, out);
        let granules = self.granules_of(buf);
        let p = &mut self.places[buf.index()];
        p.in_hbm = false;
        if let Some(g) = p.granule.take() {
            if g < self.common_from { &mut self.hbm } else { &mut self.common }.give(g, granules);
        }
    }

    pub fn semaphores_free(&self) -> usize {
        self.semaphores.len()
    }

    /// Waits for what is under way to or from a buffer.
    pub fn settle(&mut self, buf: BufId, out: &mut Vec<Copy>) {
        self.settle_in(buf, out);
        self.settle_out(buf, out);
    }

    /// Waits for the copy to vector memory, if one is under way.
    pub fn settle_in(&mut self, buf: BufId, out: &mut Vec<Copy>) {
        if let Some(p) = self.places[buf.index()].incoming.take() {
            out.push(Copy { kind: CopyKind::WaitIn, array: buf, pending: p });
            self.semaphores.push(p.semaphore);
        }
    }

    /// Waits for the copy to HBM, if one is under way.
    pub fn settle_out(&mut self, buf: BufId, out: &mut Vec<Copy>) {
        if let Some(p) = self.places[buf.index()].outgoing.take() {
            out.push(Copy { kind: CopyKind::WaitOut, array: buf, pending: p });
            self.semaphores.push(p.semaphore);
        }
    }

    /// Frees the buffer's place in vector memory (contents are not kept).
    pub fn release(&mut self, buf: BufId, out: &mut Vec<Copy>) {
        self.settle(buf, out);
        let p = &mut self.places[buf.index()];
        if let Some(row) = p.row.take()
            && !std::mem::take(&mut p.borrowed)
        {
            self.vmem.give(row, self.rows[buf.index()]);
        }
    }

    /// Room for `rows` word rows, putting others out as needed. `locked` must stay.
    pub fn room(
        &mut self,
        rows: u64,
        now: u32,
        locked: &[BufId],
        what: &str,
        out: &mut Vec<Copy>,
    ) -> Result<u64, CompileError> {
        loop {
            if let Some(at) = self.vmem.take(rows) {
                return Ok(at);
            }
            let victim = self
                .places
                .ids()
                .filter(|b| {
                    let p = &self.places[b.index()];
                    p.row.is_some() && p.pinned == 0 && !p.borrowed && !locked.contains(b)
                })
                .max_by_key(|b| {
                    let next = self.life.next_read(*b, now).unwrap_or(u32::MAX);
                    (next, self.rows[b.index()], std::cmp::Reverse(*b))
                });
            let Some(victim) = victim else {
                let row_bytes = self.chip.core.lanes as u64 * 4;
                let largest = locked.iter().copied().max_by_key(|b| self.rows[b.index()]);
                self.crowding = self.aside(rows, locked);
                if self.crowding.is_empty() {
                    self.crowding.extend(largest);
                }
                let largest = largest.map(|b| self.name_of(b).to_string());
                return Err(CompileError::Limit {
                    resource: Resource::Vmem,
                    need: rows * row_bytes,
                    have: self.vmem.room().0 * row_bytes,
                    detail: format!(" (for {what}; largest in use: `{}`)", largest.unwrap_or_default()),
                });
            };
            self.put_out(victim, now, out)?;
        }
    }

    /// Whether an array takes a part of vector memory that is worth having.
    pub fn is_large(&self, buf: BufId) -> bool {
        self.bytes[buf.index()] > self.chip.vmem.bytes / LARGE
    }

    /// Large arrays that are there for the slices that a loop reads of them: those are as well read from HBM, once each. All of them,
    /// or as many as give `rows` word rows: the smallest that is enough, or the largest ones.
    fn aside(&mut self, rows: u64, locked: &[BufId]) -> Vec<BufId> {
        let stays = |b: &BufId| {
            let p = &self.places[b.index()];
            self.is_large(*b) && p.row.is_some() && p.pinned > 0 && !locked.contains(b)
        };
        let all: Vec<BufId> = self.sliced.iter().copied().filter(stays).collect();
        let mut by_size = all.clone();
        by_size.sort_by_key(|b| (self.rows[b.index()], *b));
        by_size.dedup();
        let few = match by_size.iter().find(|b| self.rows[b.index()] >= rows) {
            Some(&enough) => vec![enough],
            None => {
                let mut left = rows;
                let wanted = by_size.iter().rev().take_while(|b| {
                    let wanted = left > 0;
                    left = left.saturating_sub(self.rows[b.index()]);
                    wanted
                });
                wanted.copied().collect()
            }
        };
        self.choice |= few.len() < by_size.len();
        if self.few { few } else { all }
    }

    /// Moves a buffer out of vector memory, to HBM if it is needed and not there.
    pub fn put_out(&mut self, buf: BufId, now: u32, out: &mut Vec<Copy>) -> Result<(), CompileError> {
        let needed = self.life.last[buf.index()] > now;
        if needed && !self.places[buf.index()].in_hbm {
            self.store(buf, out)?;
        }
        self.release(buf, out);
        Ok(())
    }

    /// Starts the copy of a buffer to HBM.
    pub fn store(&mut self, buf: BufId, out: &mut Vec<Copy>) -> Result<(), CompileError> {
        if self.places[buf.index()].in_hbm {
            return Ok(());
        }
        self.settle(buf, out);
        let granule = self.granule(buf)?;
        let pending = self.pending(buf, out)?;
        let p = &mut self.places[buf.index()];
        let row = p.row.ok_or_else(|| CompileError::internal("memory", "a stored buffer is resident"))?;
        out.push(Copy { kind: CopyKind::Store { row, granule }, array: buf, pending });
        p.outgoing = Some(pending);
        p.in_hbm = true;
        Ok(())
    }

    /// A semaphore for a copy of the whole buffer.
    fn pending(&mut self, buf: BufId, out: &mut Vec<Copy>) -> Result<Pending, CompileError> {
        if self.semaphores.is_empty() {
            // Everything under way is waited for.
            for b in self.places.ids() {
                self.settle(b, out);
            }
        }
        let semaphore =
            self.semaphores.pop().ok_or_else(|| CompileError::internal("memory", "no semaphore is free"))?;
        let bytes = self.bytes[buf.index()];
        self.copied = self.copied.saturating_add(bytes.saturating_mul(self.rounds));
        match i32::try_from(bytes) {
            Ok(bytes) => Ok(Pending { semaphore, bytes: bytes as u32 }),
            Err(_) => Err(CompileError::Limit {
                resource: Resource::CopyBytes { array: self.names[buf.index()].clone() },
                need: bytes,
                have: i32::MAX as u64,
                detail: String::new(),
            }),
        }
    }

    /// Starts the copy of a buffer from HBM into rows taken for it.
    pub fn load(&mut self, buf: BufId, row: u64, out: &mut Vec<Copy>) -> Result<(), CompileError> {
        self.settle_out(buf, out);
        let granule = self.granule(buf)?;
        let pending = self.pending(buf, out)?;
        let p = &mut self.places[buf.index()];
        p.row = Some(row);
        p.incoming = Some(pending);
        out.push(Copy { kind: CopyKind::Load { granule, row }, array: buf, pending });
        Ok(())
    }
}

/// Every exchange of steps and the steps inside of them.
fn exchanges(steps: &[Step], f: &mut dyn FnMut(&Exchange)) {
    Step::each(steps, &mut |s| {
        if let Step::Exchange(x) | Step::Begin(x) | Step::End(x) = s {
            f(x);
        }
    });
}
