//! Where arrays are while the program runs, for profiles: written down as the main program is emitted, after every step.

use super::Memory;
use crate::plan::view::BufId;
use systole_codegen::emit::mosaic::Part;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::program::{DebugBuffer, DebugRange};
use systole_isa::{ChipConfig, Space};

/// A stay that has begun: address in units of the memory, and the op of the step in which it began.
type Begun = Option<(u64, u32)>;

/// Stays in memories so far.
#[derive(Default)]
pub struct Residences {
    /// By buffer: in vector memory, in HBM.
    vmem: Vec<Begun>,
    hbm: Vec<Begun>,
    /// The op of every step.
    ops: Vec<u32>,
    pub done: Vec<DebugBuffer>,
}

impl Residences {
    pub fn new(buffers: usize) -> Residences {
        Residences { vmem: vec![None; buffers], hbm: vec![None; buffers], ..Residences::default() }
    }

    /// Step `now`, which belongs to `op`, is emitted.
    pub fn step(&mut self, memory: &mut Memory<'_>, now: u32, op: u32) {
        self.ops.resize(now as usize + 1, op);
        for i in memory.places.take_touched().into_iter().map(BufId::index) {
            let place = &memory.places[i];
            let row = place.row.filter(|_| !place.borrowed);
            if self.vmem[i].map(|b| b.0) != row {
                self.close(memory, i, op);
                self.vmem[i] = row.map(|r| (r, op));
            }
            if self.hbm[i].is_none() {
                let first = if place.in_hbm && memory.life.writes[i].is_empty() { DebugRange::NONE } else { op };
                self.hbm[i] = place.granule.map(|g| (g, first));
            }
        }
    }

    /// A kernel's own rows of vector memory, from row `at`: the parts that have names, or all of it.
    pub fn scratch(&mut self, chip: &ChipConfig, (kernel, rows, parts): (&str, u64, &[Part]), at: u64, op: u32) {
        let mut stay = |name, from: u64, rows: u64| {
            self.done.push(DebugBuffer {
                name,
                space: Space::Vmem,
                address: from * chip.row_bytes(),
                bytes: rows * chip.row_bytes(),
                first: op,
                last: op,
            });
        };
        for p in parts {
            stay(format!("{kernel}: {}", p.name), at + u64::from(p.row), u64::from(p.rows));
        }
        if parts.is_empty() {
            stay(format!("scratch of {kernel}"), at, rows);
        }
    }

    fn close(&mut self, memory: &Memory<'_>, i: usize, last: u32) {
        let Some((row, first)) = self.vmem[i].take() else { return };
        let row_bytes = memory.chip.row_bytes();
        self.done.push(DebugBuffer {
            name: memory.name_of(BufId(i as u32)).to_string(),
            space: Space::Vmem,
            address: row * row_bytes,
            bytes: memory.rows_of(BufId(i as u32)) * row_bytes,
            first,
            last,
        });
    }

    /// The program is over.
    pub fn finish(&mut self, memory: &Memory<'_>) {
        for buf in memory.places.ids() {
            let i = buf.index();
            self.close(memory, i, DebugRange::NONE);
            let begun = self.hbm[i].or(memory.places[i].granule.map(|g| (g, DebugRange::NONE)));
            let Some((granule, first)) = begun else { continue };
            self.done.push(DebugBuffer {
                name: memory.name_of(buf).to_string(),
                space: Space::Hbm,
                address: granule * HBM_GRANULE,
                bytes: memory.bytes_of(buf).next_multiple_of(HBM_GRANULE),
                first,
                last: self.ops.get(memory.life.last[i] as usize).copied().unwrap_or(DebugRange::NONE),
            });
        }
        self.done.sort_by(|a, b| (a.space, a.address, &a.name).cmp(&(b.space, b.address, &b.name)));
    }
}
