//! What a transfer does to memory.

use super::geometry::Geometry;
use crate::mem::{Hbm, Known, Smem};
use systole_isa::Space;

/// The memories that DMA reaches; VMEM is absent in timing-only runs.
pub(crate) struct Memories<'a> {
    pub hbm: &'a mut Hbm,
    pub vmem: &'a mut [u32],
    pub smem: &'a mut Smem,
}

/// Performs a transfer. The caller has checked that both sides are in range.
pub(crate) fn perform(g: &Geometry, src: i64, dst: i64, m: &mut Memories<'_>) {
    let n = g.chunk as usize;
    let vmem: &mut [u8] = bytemuck::cast_slice_mut(m.vmem);
    let at = |base: i64, offset: i64| (base + offset) as usize;
    match (g.src, g.dst) {
        (Space::Hbm, Space::Vmem) => g.for_each_chunk(|s, t| {
            let d = at(dst, t);
            m.hbm.read((src + s) as u64, &mut vmem[d..d + n]);
        }),
        (Space::Vmem, Space::Hbm) => g.for_each_chunk(|s, t| {
            let s = at(src, s);
            m.hbm.write((dst + t) as u64, &vmem[s..s + n]);
        }),
        (Space::Vmem, Space::Vmem) => g.for_each_chunk(|s, t| {
            let s = at(src, s);
            vmem.copy_within(s..s + n, at(dst, t));
        }),
        (Space::Hbm, Space::Hbm) => {
            let mut chunk = vec![0; n];
            g.for_each_chunk(|s, t| {
                m.hbm.read((src + s) as u64, &mut chunk);
                m.hbm.write((dst + t) as u64, &chunk);
            });
        }
        (Space::Smem, _) | (_, Space::Smem) => {
            let mut chunk = vec![0; n];
            g.for_each_chunk(|s, t| {
                let (s, t) = (src + s, dst + t);
                match g.src {
                    Space::Hbm => m.hbm.read(s as u64, &mut chunk),
                    Space::Vmem => chunk.copy_from_slice(&vmem[s as usize..s as usize + n]),
                    Space::Smem => chunk.copy_from_slice(m.smem.bytes_mut(s as usize..s as usize + n)),
                }
                match g.dst {
                    Space::Hbm => m.hbm.write(t as u64, &chunk),
                    Space::Vmem => vmem[t as usize..t as usize + n].copy_from_slice(&chunk),
                    Space::Smem => m.smem.bytes_mut(t as usize..t as usize + n).copy_from_slice(&chunk),
                }
            });
        }
    }
}

/// The bytes that a transfer reads, chunk after chunk. The caller has checked the source's range.
pub(crate) fn gather(g: &Geometry, src: i64, m: &mut Memories<'_>) -> Vec<u8> {
    let n = g.chunk as usize;
    let vmem: &[u8] = bytemuck::cast_slice(m.vmem);
    let mut out = vec![0; g.bytes as usize];
    let mut at = 0;
    g.for_each_chunk(|s, _| {
        let (from, to) = ((src + s) as usize, &mut out[at..at + n]);
        match g.src {
            Space::Hbm => m.hbm.read(from as u64, to),
            Space::Vmem => to.copy_from_slice(&vmem[from..from + n]),
            Space::Smem => to.copy_from_slice(m.smem.bytes_mut(from..from + n)),
        }
        at += n;
    });
    out
}

/// Writes the bytes that [`gather`] read. The caller has checked the destination's range.
pub(crate) fn scatter(g: &Geometry, dst: i64, bytes: &[u8], m: &mut Memories<'_>) {
    let n = g.chunk as usize;
    let vmem: &mut [u8] = bytemuck::cast_slice_mut(m.vmem);
    let mut at = 0;
    g.for_each_chunk(|_, t| {
        let (to, from) = ((dst + t) as usize, &bytes[at..at + n]);
        match g.dst {
            Space::Hbm => m.hbm.write(to as u64, from),
            Space::Vmem => vmem[to..to + n].copy_from_slice(from),
            Space::Smem => m.smem.bytes_mut(to..to + n).copy_from_slice(from),
        }
        at += n;
    });
}

/// Largest HBM to HBM copy whose known contents a timing-only run carries over.
const SMALL: u64 = 1 << 16;

/// A transfer in a timing-only run: moves what is known, and marks as unknown what it overwrites with unknown bytes.
/// `source_known`: the source address is known.
pub(crate) fn perform_known(g: &Geometry, src: i64, dst: i64, source_known: bool, hbm: &mut Hbm, smem: &mut Smem) {
    let n = g.chunk as usize;
    if g.dst == Space::Vmem {
        return;
    }
    if g.dst == Space::Hbm && (g.src == Space::Vmem || g.bytes > SMALL || !source_known) {
        let (start, end) = ((dst + g.to.lo) as u64, (dst + g.to.hi) as u64);
        if hbm.touches_pages(start, end) {
            hbm.forget(start, end);
        }
        return;
    }
    g.for_each_chunk(|s, t| {
        let (s, t) = ((src + s) as usize, (dst + t) as usize);
        let known = |s: usize, n: usize| match g.src {
            _ if !source_known => Known::Nothing,
            Space::Hbm => hbm.knows(s as u64, (s + n) as u64),
            Space::Vmem => Known::Nothing,
            Space::Smem if smem.known(s, s + n) => Known::Everything,
            Space::Smem => Known::Parts,
        };
        match known(s, n) {
            Known::Everything => move_known(g, s, t, n, true, hbm, smem),
            Known::Nothing => move_known(g, s, t, n, false, hbm, smem),
            Known::Parts => {
                for at in (0..n).step_by(4) {
                    let len = (n - at).min(4);
                    let known = match g.src {
                        Space::Hbm => hbm.knows((s + at) as u64, (s + at + len) as u64) == Known::Everything,
                        Space::Smem => smem.known(s + at, s + at + len),
                        Space::Vmem => false,
                    };
                    move_known(g, s + at, t + at, len, known, hbm, smem);
                }
            }
        }
    });
}

/// Moves `n` bytes if they are known, else marks them unknown where they go.
fn move_known(g: &Geometry, s: usize, t: usize, n: usize, known: bool, hbm: &mut Hbm, smem: &mut Smem) {
    let mut bytes = vec![0; if known { n } else { 0 }];
    if known {
        match g.src {
            Space::Hbm => hbm.read(s as u64, &mut bytes),
            Space::Vmem => {}
            Space::Smem => bytes.copy_from_slice(smem.bytes_mut(s..s + n)),
        }
    }
    match g.dst {
        Space::Smem => {
            if known {
                smem.bytes_mut(t..t + n).copy_from_slice(&bytes);
            }
            smem.mark(t, t + n, known);
        }
        Space::Hbm if known => hbm.write_known(t as u64, &bytes),
        Space::Hbm => {
            if hbm.touches_pages(t as u64, (t + n) as u64) {
                hbm.forget(t as u64, (t + n) as u64);
            }
        }
        Space::Vmem => {}
    }
}
