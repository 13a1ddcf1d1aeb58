//! Parts of arrays in HBM brought into arrays in vector memory as they lie: copies alone, all under way at once.
//!
//! A move whose elements keep their lanes is a copy of whole rows; what is beside its elements in these rows is padding of the
//! destination. Copies that are begun ahead are under way when the kernel ends: a later call of it waits for them.

use super::hbm::Descs;
use super::moves::spec::MoveSpec;
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, KernelCode, Needs, S};
use serde::{Deserialize, Serialize};
use systole_isa::dma::MAX_DMA_DIMS;
use systole_isa::{ChipConfig, DmaDesc, DmaDim, Op, Space};

/// Copies that are made at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FetchSpec {
    pub parts: Vec<FetchPart>,
    /// How those of several calls are told apart, if a later call waits for a call's copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Ahead>,
}

/// Copies of so many calls may be under way: each call's are counted by a semaphore of its own, from the first one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ahead {
    pub semaphore: u32,
    pub slots: u32,
}

/// A copy of `chunk` rows of words, again and again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FetchPart {
    pub chunk: u32,
    /// Outermost first.
    pub dims: Vec<FetchDim>,
}

/// `count` steps, and the rows of words from one to the next on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FetchDim {
    pub count: u32,
    pub from: u32,
    pub to: u32,
}

/// A move as a copy: its part, and the element rows at which it begins on both sides.
pub struct Fetched {
    pub part: FetchPart,
    pub from: i64,
    pub to: i64,
}

impl FetchPart {
    /// The copy that a move is; `None` where elements change their lanes, or rows share words with others.
    #[must_use]
    pub fn of(spec: &MoveSpec, chip: &ChipConfig) -> Option<Fetched> {
        let (p, lanes) = (spec.dtype.packing() as i64, i64::from(chip.core.lanes));
        let sides = [&spec.src, &spec.dst];
        let whole = |n: i64| n > 0 && n % p == 0;
        if sides.iter().any(|s| s.replicated || s.dynamic_lane || s.lane_offset % lanes != 0)
            || spec.src.lanes != spec.dst.lanes
        {
            return None;
        }
        let mut steps: Vec<(u32, i64, i64)> = Vec::new();
        let mut along = 0;
        for (d, &size) in spec.sizes.iter().enumerate() {
            let rows = sides.map(|s| s.rows[d]);
            let (count, [from, to]) = match spec.src.lanes[d] {
                0 if rows == [1, 1] => (size.div_ceil(p as u32), [p, p]),
                0 => (size, rows),
                1 if rows == [0, 0] && along == 0 => {
                    along += 1;
                    (size.div_ceil(lanes as u32), sides.map(|s| s.plane_rows))
                }
                _ => return None,
            };
            steps.push((count, from, to));
        }
        steps.push((spec.dtype.components() as u32, spec.src.component_rows, spec.dst.component_rows));
        steps.retain(|s| s.0 != 1);
        steps.sort_by_key(|s| s.2);
        let mut chunk = 1;
        let mut dims: Vec<FetchDim> = Vec::new();
        for (count, from, to) in steps {
            if count == 0 || !whole(from) || !whole(to) {
                return None;
            }
            let (from, to) = (u32::try_from(from / p).ok()?, u32::try_from(to / p).ok()?);
            match dims.first_mut() {
                None if from == chunk && to == chunk => chunk *= count,
                Some(last) if from == last.from * last.count && to == last.to * last.count => last.count *= count,
                _ => dims.insert(0, FetchDim { count, from, to }),
            }
        }
        let [from, to] = sides.map(|s| s.row_offset + s.lane_offset / lanes * s.plane_rows);
        let part = FetchPart { chunk, dims };
        (part.dims.len() <= MAX_DMA_DIMS).then_some(Fetched { part, from, to })
    }

    /// Rows of words that it brings.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.dims.iter().fold(u64::from(self.chunk), |n, d| n.saturating_mul(u64::from(d.count)))
    }

    fn desc(&self, row_bytes: u32) -> DmaDesc {
        let bytes = |rows: u32| i64::from(rows) * i64::from(row_bytes);
        let dim = |d: &FetchDim| DmaDim { count: d.count, src_stride: bytes(d.from), dst_stride: bytes(d.to) };
        let dims = self.dims.iter().map(dim).collect();
        DmaDesc { src: Space::Hbm, dst: Space::Vmem, chunk: self.chunk * row_bytes, dims }
    }
}

impl FetchSpec {
    /// Bytes that all copies bring.
    #[must_use]
    pub fn bytes(&self, chip: &ChipConfig) -> u64 {
        let rows = self.parts.iter().fold(0u64, |n, p| n.saturating_add(p.rows()));
        rows.saturating_mul(chip.row_bytes())
    }

    /// Semaphores that the kernel numbers for itself; `None` if they cannot count its bytes.
    #[must_use]
    pub fn semaphores(&self, chip: &ChipConfig) -> Option<u32> {
        i32::try_from(self.bytes(chip)).ok().map(|_| u32::from(self.ahead.is_none()))
    }

    /// Cycles: the way through HBM, once for all.
    #[must_use]
    pub fn cycles(&self, chip: &ChipConfig) -> f64 {
        chip.hbm_latency_cycles() as f64 + self.bytes(chip) as f64 / chip.hbm_bytes_per_cycle()
    }
}

/// The kernel. Parameters: for each part where it comes from (granules) and where it goes (word rows). If copies are begun ahead, then
/// which slot's are begun, whether any are (0: none), which slot's are waited for, and their bytes (0: none).
pub fn fetch_kernel(s: &FetchSpec, chip: &ChipConfig) -> KernelCode {
    let mut b = KernelBuilder::new("fetch", chip);
    let row_bytes = chip.core.lanes * 4;
    let places: Vec<[S; 2]> = s.parts.iter().map(|_| [b.param(), b.param()]).collect();
    let arrays: Vec<[BufferRef; 2]> = s.parts.iter().map(|_| [b.buffer(), b.buffer()]).collect();
    let mut descs = Descs::default();
    let mut numbers: Vec<u32> = Vec::new();
    for part in &s.parts {
        numbers.push(descs.number(part.desc(row_bytes)));
    }
    let start = |b: &mut KernelBuilder, sem: u32| {
        for ((&desc, &[src, dst]), &[from, to]) in numbers.iter().zip(&places).zip(&arrays) {
            let args = DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem };
            b.dma_start(args, &[from], &[to]);
        }
    };
    let [from, to] = [0, 1].map(|side| arrays.iter().map(|a| a[side]).collect::<Vec<_>>());
    match s.ahead {
        None => {
            start(&mut b, 0);
            b.dma_wait(0, s.bytes(chip) as i32, &from, &to);
        }
        Some(Ahead { semaphore, slots }) => {
            let [begun, any, awaited, bytes] = std::array::from_fn(|_| b.param());
            b.if_(any, |b| {
                for slot in 0..slots {
                    let own = b.def_s(Op::SEqI, &[begun.into(), (slot as i32).into()]);
                    b.if_(own, |b| start(b, semaphore + slot));
                }
            });
            for slot in 0..slots {
                let own = b.def_s(Op::SEqI, &[awaited.into(), (slot as i32).into()]);
                let bytes = b.s(Op::SMul, &[own, bytes]);
                b.dma_wait_s(semaphore + slot, bytes, &from, &to);
            }
        }
    }
    let semaphores = u32::from(s.ahead.is_none());
    KernelCode::copying(b.finish(), descs.0, Needs { scratch_rows: 0, semaphores })
}
