//! Vector loads and stores: element rows of 32, 16 or 8 bits between vector memory and registers.
//!
//! Element row `g` of a narrow type is part `g mod packing` of word row `g / packing`, lowest bits first.

use crate::unit::vector::round_bf16;
use multiversion::multiversion;
use systole_isa::opcodes::{LoadFn, StoreFn};

/// Where an access goes: element row of sublane 0, and rows from one sublane to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub first: i64,
    pub stride: i64,
    pub sublanes: usize,
    pub lanes: usize,
}

impl Rows {
    /// Lowest and highest element row.
    pub fn extent(&self) -> (i64, i64) {
        let last = self.first + self.stride * (self.sublanes as i64 - 1);
        (self.first.min(last), self.first.max(last))
    }
}

#[inline(always)]
fn widen(d: &mut [u32], words: &[u32], shift: u32, g: impl Fn(u32) -> u32) {
    d.iter_mut().zip(words).for_each(|(d, &w)| *d = g(w >> shift));
}

/// Loads a register. The caller has checked the rows.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn load(function: LoadFn, d: &mut [u32], memory: &[u32], at: Rows) {
    let n = at.lanes;
    if function == LoadFn::VLd && at.stride == 1 {
        let start = at.first as usize * n;
        let len = d.len();
        d.copy_from_slice(&memory[start..start + len]);
        return;
    }
    let width = function.element_bits();
    let packing = (32 / width) as usize;
    for (s, d) in d.chunks_exact_mut(n).enumerate() {
        let row = (at.first + at.stride * s as i64) as usize;
        let words = &memory[row / packing * n..][..n];
        let shift = (row % packing) as u32 * width;
        match function {
            LoadFn::VLdBf16 => widen(d, words, shift, |w| w << 16),
            LoadFn::VLdS16 => widen(d, words, shift, |w| w as i16 as u32),
            LoadFn::VLdU16 => widen(d, words, shift, |w| w & 0xffff),
            LoadFn::VLdS8 => widen(d, words, shift, |w| w as i8 as u32),
            LoadFn::VLdU8 => widen(d, words, shift, |w| w & 0xff),
            LoadFn::VLd => d.copy_from_slice(words),
        }
    }
}

/// Stores a register where the mask is set; an empty mask is all ones. The caller has checked the rows.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn store(function: StoreFn, v: &[u32], memory: &mut [u32], at: Rows, mask: &[u32]) {
    let n = at.lanes;
    if function == StoreFn::VSt && at.stride == 1 && mask.is_empty() {
        let start = at.first as usize * n;
        memory[start..start + v.len()].copy_from_slice(v);
        return;
    }
    let width = function.element_bits();
    let packing = (32 / width) as usize;
    let ones = u32::MAX >> (32 - width);
    for (s, v) in v.chunks_exact(n).enumerate() {
        // A row that the mask leaves out may lie anywhere.
        if !mask.is_empty() && mask[s * n..(s + 1) * n].iter().all(|m| *m == 0) {
            continue;
        }
        let row = (at.first + at.stride * s as i64) as usize;
        let words = &mut memory[row / packing * n..][..n];
        let shift = (row % packing) as u32 * width;
        let field = ones << shift;
        let narrow = |v: u32| match function {
            StoreFn::VStBf16 => round_bf16(v) >> 16,
            StoreFn::VSt | StoreFn::VSt16 | StoreFn::VSt8 => v & ones,
        };
        if mask.is_empty() {
            words.iter_mut().zip(v).for_each(|(w, &v)| *w = *w & !field | narrow(v) << shift);
        } else {
            let mask = &mask[s * n..(s + 1) * n];
            for ((w, &v), &m) in words.iter_mut().zip(v).zip(mask) {
                *w = *w & !(field & m) | narrow(v) << shift & m;
            }
        }
    }
}
