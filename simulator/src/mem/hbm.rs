//! HBM: byte-addressed, in pages that exist once written. Unwritten bytes read as zero. Pages lie in larger extents of host memory.
//!
//! Timing-only runs move no data to HBM. Pages then hold what the host wrote and the program's constants, and
//! `unknown` lists the byte ranges that the program has overwritten since.

use super::Block;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;

const PAGE_BITS: u32 = 20;
const PAGE: usize = 1 << PAGE_BITS;
/// Pages of an extent, and how many of them may be written in part: what comes behind is taken to be written whole.
const EXTENT_PAGES: usize = 32;
const FEW_PAGES: u32 = 4;

/// How much of a range is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Everything,
    Parts,
    Nothing,
}

/// The memory of one device's program. Callers check ranges against the size first.
#[derive(Debug)]
pub(crate) struct Hbm {
    size: u64,
    /// Whether each page was written.
    pages: Vec<bool>,
    extents: Vec<Option<Extent>>,
    /// Disjoint ranges, start to end.
    unknown: BTreeMap<u64, u64>,
}

/// Memory of some pages, and how many of them were written.
#[derive(Debug)]
struct Extent {
    memory: Block,
    written: u32,
}

impl Extent {
    fn new() -> Extent {
        Extent { memory: Block::new(EXTENT_PAGES * PAGE), written: 0 }
    }

    /// One of its pages to write to, and whether it was written.
    fn page(&mut self, page: usize, written: &mut bool) -> &mut [u8] {
        let at = page * PAGE;
        if !std::mem::replace(written, true) {
            self.written += 1;
            if self.written > FEW_PAGES {
                self.memory.expect_use(at, PAGE);
            }
        }
        &mut self.memory.bytes_mut()[at..at + PAGE]
    }
}

/// The extent of a page, and where the page begins in it.
fn place(page: usize) -> (usize, usize) {
    (page / EXTENT_PAGES, page % EXTENT_PAGES * PAGE)
}

impl Hbm {
    /// A memory of `size` bytes; takes host memory only for pages that are written.
    pub fn new(size: u64) -> Hbm {
        let pages = size.div_ceil(PAGE as u64) as usize;
        let extents = (0..pages.div_ceil(EXTENT_PAGES)).map(|_| None).collect();
        Hbm { size, pages: vec![false; pages], extents, unknown: BTreeMap::new() }
    }

    /// A page to write to.
    fn page(&mut self, page: usize) -> &mut [u8] {
        let extent = self.extents[page / EXTENT_PAGES].get_or_insert_with(Extent::new);
        extent.page(page % EXTENT_PAGES, &mut self.pages[page])
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Writes bytes.
    pub fn write(&mut self, mut address: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (piece, at) = self.piece(address, bytes.len());
            self.page((address >> PAGE_BITS) as usize)[at..at + piece].copy_from_slice(&bytes[..piece]);
            bytes = &bytes[piece..];
            address += piece as u64;
        }
    }

    /// Writes ranges of bytes, in order where they overlap: `fill` gets the number of a range, a byte in it, and the memory of
    /// what comes from there on. Up to `threads` threads share the work, if there is enough of it.
    pub fn fill(&mut self, ranges: &[Range<u64>], threads: usize, fill: &(dyn Fn(usize, u64, &mut [u8]) + Sync)) {
        const EXTENT: u64 = (EXTENT_PAGES * PAGE) as u64;
        let mut parts: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (i, r) in ranges.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
            (r.start / EXTENT..r.end.div_ceil(EXTENT)).for_each(|e| parts.entry(e).or_default().push(i));
        }
        let extents = self.extents.iter_mut().zip(self.pages.chunks_mut(EXTENT_PAGES)).zip(0u64..);
        let work =
            extents.filter_map(|((extent, pages), number)| Some((extent, pages, number, parts.remove(&number)?)));
        let one = |(extent, pages, number, parts): (&mut Option<Extent>, &mut [bool], u64, Vec<usize>)| {
            let extent = extent.get_or_insert_with(Extent::new);
            for (p, written) in pages.iter_mut().enumerate() {
                let start = number * EXTENT + (p * PAGE) as u64;
                for &i in &parts {
                    let (from, to) = (ranges[i].start.max(start), ranges[i].end.min(start + PAGE as u64));
                    if from < to {
                        let memory = &mut extent.page(p, written)[(from - start) as usize..(to - start) as usize];
                        fill(i, from - ranges[i].start, memory);
                    }
                }
            }
        };
        let bytes = ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        match threads > 1 && bytes > EXTENT / 8 {
            true => work.collect::<Vec<_>>().into_par_iter().for_each(one),
            false => work.for_each(one),
        }
    }

    /// Reads bytes.
    pub fn read(&self, mut address: u64, mut out: &mut [u8]) {
        while !out.is_empty() {
            let (piece, at) = self.piece(address, out.len());
            let (now, rest) = out.split_at_mut(piece);
            let page = (address >> PAGE_BITS) as usize;
            let (extent, begin) = place(page);
            match &self.extents[extent] {
                Some(e) if self.pages[page] => now.copy_from_slice(&e.memory.bytes()[begin + at..][..piece]),
                Some(_) | None => now.fill(0),
            }
            out = rest;
            address += piece as u64;
        }
    }

    fn piece(&self, address: u64, len: usize) -> (usize, usize) {
        let at = address as usize & (PAGE - 1);
        (len.min(PAGE - at), at)
    }

    /// Whether the host or a known transfer wrote into a page of the range.
    pub fn touches_pages(&self, start: u64, end: u64) -> bool {
        if start >= end {
            return false;
        }
        let pages = (start >> PAGE_BITS) as usize..=((end - 1) >> PAGE_BITS) as usize;
        self.pages.get(pages).is_some_and(|p| p.contains(&true))
    }

    /// What a timing-only run knows of the bytes of a range. `Parts` may also be all or none.
    pub fn knows(&self, start: u64, end: u64) -> Known {
        if start >= end {
            return Known::Everything;
        }
        let pages = (start >> PAGE_BITS) as usize..=((end - 1) >> PAGE_BITS) as usize;
        let pages = self.pages.get(pages).unwrap_or(&[]);
        if !pages.contains(&true) {
            return Known::Nothing;
        }
        let (s, e) = self.unknown.range(..end).next_back().map_or((end, end), |(s, e)| (*s, *e));
        if s <= start && e >= end {
            Known::Nothing
        } else if !pages.contains(&false) && (s >= end || e <= start) {
            Known::Everything
        } else {
            Known::Parts
        }
    }

    /// Marks a range unknown.
    pub fn forget(&mut self, mut start: u64, mut end: u64) {
        while let Some((&s, &e)) = self.unknown.range(..=end).next_back() {
            if e < start {
                break;
            }
            if s <= start && e >= end {
                return;
            }
            start = start.min(s);
            end = end.max(e);
            self.unknown.remove(&s);
        }
        self.unknown.insert(start, end);
    }

    /// Marks a range known again.
    pub fn learn(&mut self, start: u64, end: u64) {
        while let Some((&s, &e)) = self.unknown.range(..end).next_back() {
            if e <= start {
                return;
            }
            self.unknown.remove(&s);
            if s < start {
                self.unknown.insert(s, start);
            }
            if e > end {
                self.unknown.insert(end, e);
            }
        }
    }

    /// Writes bytes that a timing-only run knows. The rest of a page that this creates stays unknown.
    pub fn write_known(&mut self, address: u64, bytes: &[u8]) {
        let end = address + bytes.len() as u64;
        for page in address >> PAGE_BITS..end.div_ceil(PAGE as u64) {
            if !self.pages[page as usize] {
                self.forget(page << PAGE_BITS, (page + 1) << PAGE_BITS);
            }
        }
        self.write(address, bytes);
        self.learn(address, end);
    }

    /// Forgets all of the above: what pages hold is known.
    pub fn know_all(&mut self) {
        self.unknown.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_what_was_written() {
        let mut h = Hbm::new(3 << 20);
        let at = (1 << 20) - 3;
        h.write(at, &[1, 2, 3, 4, 5]);
        let mut out = [9; 7];
        h.read(at - 1, &mut out);
        assert_eq!(out, [0, 1, 2, 3, 4, 5, 0]);
        assert!(!h.touches_pages(2 << 20, 3 << 20));
    }

    #[test]
    fn ranges_are_filled_in_order_by_any_number_of_threads() {
        let ranges = [5..9 << 20, 0..0, 7..10, 31 << 20..70 << 20];
        let fill = |i: usize, from: u64, out: &mut [u8]| {
            out.iter_mut().zip(from..).for_each(|(o, n)| *o = (n % 251) as u8 ^ i as u8);
        };
        for threads in [1, 2] {
            let mut h = Hbm::new(80 << 20);
            h.write(0, &[9; 16]);
            h.fill(&ranges, threads, &fill);
            let byte = |at: u64| {
                let mut out = [0];
                h.read(at, &mut out);
                out[0]
            };
            assert_eq!((byte(4), byte(5), byte(6)), (9, 0, 1));
            assert_eq!((byte(7), byte(9), byte(10)), (2, 2 ^ 2, 5));
            let last = (39u64 << 20) - 1;
            assert_eq!((byte(70 << 20), byte((70 << 20) - 1)), (0, (last % 251) as u8 ^ 3));
        }
    }

    #[test]
    fn unknown_ranges_merge_and_split() {
        let mut h = Hbm::new(1 << 20);
        h.write(0, &[0; 1000]);
        h.forget(100, 200);
        h.forget(150, 300);
        h.forget(400, 500);
        let known = |h: &Hbm, s, e| h.knows(s, e) == Known::Everything;
        assert!(known(&h, 0, 100) && !known(&h, 0, 101) && known(&h, 300, 400) && !known(&h, 0, 1000));
        assert_eq!(h.knows(250, 260), Known::Nothing);
        h.learn(120, 450);
        assert!(!known(&h, 100, 121) && known(&h, 120, 450) && !known(&h, 449, 451) && known(&h, 500, 600));
    }

    #[test]
    fn only_pages_that_a_known_write_creates_are_unknown_beside_it() {
        let page = 1u64 << PAGE_BITS;
        let mut h = Hbm::new(4 * page);
        h.write(0, &[1; 8]);
        // From the last bytes of page 1 into page 2; pages 0 and 3 are as they were.
        let at = 2 * page - 3;
        h.write_known(at, &[1, 2, 3, 4, 5]);
        assert_eq!(h.knows(0, page), Known::Everything, "the page before");
        assert_eq!(h.knows(page, at), Known::Nothing);
        assert_eq!(h.knows(at, at + 5), Known::Everything);
        assert_eq!(h.knows(at + 5, 3 * page), Known::Nothing);
        assert!(!h.touches_pages(3 * page, 4 * page));
        // What is known of a page stays known where another part of it is written.
        h.write_known(at + 100, &[7]);
        assert_eq!(h.knows(at, at + 5), Known::Everything);
        assert_eq!(h.knows(at + 5, at + 100), Known::Nothing);
        // A write that ends with its page creates no page behind it.
        h.write_known(3 * page - 4, &[1; 4]);
        assert!(!h.touches_pages(3 * page, 4 * page));
    }
}
