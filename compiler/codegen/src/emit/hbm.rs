//! Addresses of arrays in HBM, and the descriptors of a kernel's copies.

use crate::kernel::{BufferRef, KernelBuilder, S};
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{ChipConfig, DType, DmaDesc, Op};

/// How element rows of an array in HBM become copy addresses: granules where rows of words are whole granules, else
/// byte offsets.
#[derive(Clone, Copy, Debug)]
pub struct HbmUnit {
    pub base: S,
    pub buf: BufferRef,
    row_bytes: u64,
    packing: u64,
    granules: bool,
}

impl HbmUnit {
    pub fn new(base: S, buf: BufferRef, dtype: DType, chip: &ChipConfig) -> HbmUnit {
        let row_bytes = chip.row_bytes();
        let granules = row_bytes.is_multiple_of(HBM_GRANULE);
        HbmUnit { base, buf, row_bytes, packing: dtype.packing() as u64, granules }
    }

    /// Address units of element rows that a register counts (a whole number of word rows).
    pub fn units_of(&self, b: &mut KernelBuilder, rows: S) -> S {
        let words = match self.packing {
            1 => rows,
            p => b.def_s(Op::SSarI, &[rows.into(), (p.trailing_zeros() as i32).into()]),
        };
        let scale = self.units(self.packing as i32);
        if scale == 1 { words } else { b.s_muli(words, scale) }
    }

    /// Bytes of element rows (a whole number of word rows).
    pub fn bytes(&self, rows: u32) -> u64 {
        rows as u64 / self.packing * self.row_bytes
    }

    /// Address units of element rows.
    pub fn units(&self, rows: i32) -> i32 {
        let words = rows as i64 / self.packing as i64;
        let scale = if self.granules { self.row_bytes / HBM_GRANULE } else { self.row_bytes };
        (words * scale as i64) as i32
    }

    /// Base and byte offset registers of the place `at + units` behind the base.
    pub fn place(&self, b: &mut KernelBuilder, at: S, units: i32) -> (S, S) {
        let at = if units == 0 { at } else { b.s_addi(at, units) };
        if self.granules { (b.s(Op::SAdd, &[self.base, at]), S::ZERO) } else { (self.base, at) }
    }
}

/// The descriptors of a kernel, each once.
#[derive(Clone, Debug, Default)]
pub struct Descs(pub Vec<DmaDesc>);

impl Descs {
    /// The number of a descriptor, which is added if it is new.
    pub fn number(&mut self, desc: DmaDesc) -> u32 {
        let known = self.0.iter().position(|d| *d == desc);
        known.unwrap_or_else(|| {
            self.0.push(desc);
            self.0.len() - 1
        }) as u32
    }
}
