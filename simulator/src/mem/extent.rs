//! A stretch of HBM in the memory of the host.

use super::Block;
use std::ops::Range;

pub(super) const PAGE_BITS: u32 = 20;
pub(super) const PAGE: usize = 1 << PAGE_BITS;
/// Pages of an extent, and how many of them may be written in part: what comes behind is taken to be written whole.
pub(super) const EXTENT_PAGES: usize = 8;
pub(super) const EXTENT: u64 = (EXTENT_PAGES * PAGE) as u64;
const FEW_PAGES: u32 = 4;
/// Bytes whose memory is worth asking for at once.
const WORTH: usize = 1 << 16;

/// Memory of some pages, and how many of them were written.
#[derive(Debug)]
pub(super) struct Extent {
    memory: Block,
    written: u32,
}

impl Extent {
    pub fn new() -> Extent {
        Extent { memory: Block::new(EXTENT_PAGES * PAGE), written: 0 }
    }

    /// One of its pages to write to, and whether it was written.
    pub fn page(&mut self, page: usize, written: &mut bool) -> &mut [u8] {
        let at = page * PAGE;
        if !std::mem::replace(written, true) {
            self.written += 1;
            if self.written > FEW_PAGES {
                self.memory.expect_use(at, PAGE);
            }
        }
        &mut self.memory.bytes_mut()[at..at + PAGE]
    }

    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// Writes what `ranges` of HBM, those that are `among` them, have in extent `number`.
    pub fn fill(
        &mut self,
        number: usize,
        ranges: &[Range<u64>],
        among: &[usize],
        fill: &(dyn Fn(usize, u64, &mut [u8]) + Sync),
    ) {
        for page in 0..EXTENT_PAGES {
            let start = number as u64 * EXTENT + (page * PAGE) as u64;
            for &i in among {
                let (from, to) = (ranges[i].start.max(start), ranges[i].end.min(start + PAGE as u64));
                if from < to {
                    let (first, end) = ((from - start) as usize + page * PAGE, (to - start) as usize + page * PAGE);
                    if end - first >= WORTH {
                        self.memory.expect_use(first, end - first);
                    }
                    fill(i, from - ranges[i].start, &mut self.memory.bytes_mut()[first..end]);
                }
            }
        }
    }
}
