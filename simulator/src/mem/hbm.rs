//! HBM: byte-addressed, in pages that exist once written. Unwritten bytes read as zero. Pages lie in larger extents of host memory.
//!
//! Timing-only runs move no data to HBM. Pages then hold what the host wrote and the program's constants, and
//! `unknown` lists the byte ranges that the program has overwritten since.

use super::extent::{EXTENT, EXTENT_PAGES, Extent, PAGE, PAGE_BITS};
use super::later::{Fill, Later};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Bytes from which threads share the work of writing them.
const SHARED: u64 = 4 << 20;

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
    /// Whether each page was written, up to the last one that was; in whole extents.
    pages: Vec<bool>,
    /// As many as there are pages for. One of which a page was written is here or [to come](Later).
    extents: Vec<OnceLock<Extent>>,
    later: Option<Arc<Later>>,
    /// Disjoint ranges, start to end.
    unknown: BTreeMap<u64, u64>,
}

/// The extent of a page, and where the page begins in it.
fn place(page: usize) -> (usize, usize) {
    (page / EXTENT_PAGES, page % EXTENT_PAGES * PAGE)
}

impl Hbm {
    /// A memory of `size` bytes; takes host memory only for pages that are written.
    pub fn new(size: u64) -> Hbm {
        Hbm { size, pages: Vec::new(), extents: Vec::new(), later: None, unknown: BTreeMap::new() }
    }

    /// Makes places for the extents up to `number`.
    fn reach(&mut self, number: usize) {
        if number >= self.extents.len() {
            self.extents.resize_with(number + 1, OnceLock::new);
            self.pages.resize((number + 1) * EXTENT_PAGES, false);
        }
    }

    /// An extent, if one of its pages was written.
    #[inline]
    fn extent(&self, number: usize) -> Option<&Extent> {
        let place = self.extents.get(number)?;
        match (place.get(), &self.later) {
            (None, Some(later)) if later.has(number) => {
                Some(place.get_or_init(|| later.take(number).expect("it is taken here alone, and once")))
            }
            (found, _) => found,
        }
    }

    /// An extent to write to.
    fn extent_mut(&mut self, number: usize) -> &mut Extent {
        self.reach(number);
        let place = &mut self.extents[number];
        if place.get().is_none() {
            let coming = self.later.as_ref().and_then(|l| l.take(number));
            *place = OnceLock::from(coming.unwrap_or_else(Extent::new));
        }
        place.get_mut().expect("it was just made")
    }

    /// A page to write to.
    fn page(&mut self, page: usize) -> &mut [u8] {
        let number = page / EXTENT_PAGES;
        self.extent_mut(number);
        let extent = self.extents[number].get_mut().expect("it was just made");
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

    /// Extents that ranges reach into, with their contents of now, which are taken out, and the ranges. Their pages count as written.
    fn take_parts(&mut self, ranges: &[Range<u64>]) -> Vec<(usize, Extent, Vec<usize>)> {
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (i, r) in ranges.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
            let numbers = (r.start / EXTENT) as usize..r.end.div_ceil(EXTENT) as usize;
            self.reach(numbers.end - 1);
            self.pages[(r.start >> PAGE_BITS) as usize..r.end.div_ceil(PAGE as u64) as usize].fill(true);
            numbers.for_each(|e| parts.entry(e).or_default().push(i));
        }
        let mut taken = |number: usize| {
            let coming = || self.later.as_ref().and_then(|l| l.take(number));
            self.extents[number].take().or_else(coming).unwrap_or_else(Extent::new)
        };
        parts.into_iter().map(|(number, ranges)| (number, taken(number), ranges)).collect()
    }

    /// Writes ranges of bytes, in order where they overlap: `fill` gets the number of a range, a byte in it, and the memory of
    /// what comes from there on. Up to `threads` threads share the work, if there is enough of it.
    pub fn fill(&mut self, ranges: &[Range<u64>], threads: usize, fill: &(dyn Fn(usize, u64, &mut [u8]) + Sync)) {
        let parts = self.take_parts(ranges);
        let one = |(number, mut extent, among): (usize, Extent, Vec<usize>)| {
            extent.fill(number, ranges, &among, fill);
            (number, extent)
        };
        let done: Vec<(usize, Extent)> = match threads > 1 && length(ranges) > SHARED {
            true => parts.into_par_iter().map(one).collect(),
            false => parts.into_iter().map(one).collect(),
        };
        for (number, extent) in done {
            self.extents[number] = OnceLock::from(extent);
        }
    }

    /// [`Hbm::fill`], by other threads while this one goes on.
    pub fn fill_later(&mut self, ranges: Vec<Range<u64>>, threads: usize, fill: Box<Fill>) {
        if threads < 2 || length(&ranges) <= SHARED {
            return self.fill(&ranges, 1, &*fill);
        }
        // What is still to come of another call comes now.
        if let Some(before) = self.later.take() {
            for number in before.numbers() {
                if let Some(extent) = before.take(number) {
                    self.extents[number] = OnceLock::from(extent);
                }
            }
        }
        let parts = self.take_parts(&ranges);
        self.later = Some(Later::begin(ranges, parts.into_iter(), fill, threads - 1));
    }

    /// Reads bytes.
    pub fn read(&self, mut address: u64, mut out: &mut [u8]) {
        while !out.is_empty() {
            let (piece, at) = self.piece(address, out.len());
            let (now, rest) = out.split_at_mut(piece);
            let page = (address >> PAGE_BITS) as usize;
            let (extent, begin) = place(page);
            match self.extent(extent) {
                Some(e) => now.copy_from_slice(&e.bytes()[begin + at..][..piece]),
                None => now.fill(0),
            }
            out = rest;
            address += piece as u64;
        }
    }

    fn piece(&self, address: u64, len: usize) -> (usize, usize) {
        let at = address as usize & (PAGE - 1);
        (len.min(PAGE - at), at)
    }

    /// What is known of the pages of a range that is not empty: those behind the last one of an extent were not written.
    fn pages_of(&self, start: u64, end: u64) -> &[bool] {
        let (first, last) = ((start >> PAGE_BITS) as usize, ((end - 1) >> PAGE_BITS) as usize);
        self.pages.get(first..self.pages.len().min(last + 1)).unwrap_or(&[])
    }

    /// Whether the host or a known transfer wrote into a page of the range.
    pub fn touches_pages(&self, start: u64, end: u64) -> bool {
        if start >= end {
            return false;
        }
        self.pages_of(start, end).contains(&true)
    }

    /// What a timing-only run knows of the bytes of a range. `Parts` may also be all or none.
    pub fn knows(&self, start: u64, end: u64) -> Known {
        if start >= end {
            return Known::Everything;
        }
        let pages = self.pages_of(start, end);
        if !pages.contains(&true) {
            return Known::Nothing;
        }
        let all = pages.len() as u64 > ((end - 1) >> PAGE_BITS) - (start >> PAGE_BITS) && !pages.contains(&false);
        let (s, e) = self.unknown.range(..end).next_back().map_or((end, end), |(s, e)| (*s, *e));
        if s <= start && e >= end {
            Known::Nothing
        } else if all && (s >= end || e <= start) {
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
            if !self.pages.get(page as usize).is_some_and(|p| *p) {
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

/// Bytes of ranges.
fn length(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|r| r.end.saturating_sub(r.start)).sum()
}

/// Extents from which threads give memory back together, which takes a tenth of what it takes to get it.
const MANY: usize = 4;

impl Drop for Hbm {
    fn drop(&mut self) {
        if let Some(later) = &self.later {
            later.stop();
        }
        if self.extents.iter().filter(|e| e.get().is_some()).count() >= MANY {
            std::mem::take(&mut self.extents).into_par_iter().for_each(drop);
        }
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
        for (threads, later) in [(1, false), (2, false), (1, true), (2, true), (5, true)] {
            let mut h = Hbm::new(80 << 20);
            h.write(0, &[9; 16]);
            match later {
                true => h.fill_later(ranges.to_vec(), threads, Box::new(fill)),
                false => h.fill(&ranges, threads, &fill),
            }
            let byte = |at: u64| {
                let mut out = [0];
                h.read(at, &mut out);
                out[0]
            };
            let last = (39u64 << 20) - 1;
            assert_eq!((byte(70 << 20), byte((70 << 20) - 1)), (0, (last % 251) as u8 ^ 3));
            assert_eq!((byte(4), byte(5), byte(6)), (9, 0, 1));
            assert_eq!((byte(7), byte(9), byte(10)), (2, 2 ^ 2, 5));
        }
    }

    #[test]
    fn what_is_still_to_come_is_there_for_whoever_asks() {
        let fill = |i: usize, from: u64, out: &mut [u8]| {
            out.iter_mut().zip(from..).for_each(|(o, n)| *o = (n % 249) as u8 ^ i as u8);
        };
        let mut h = Hbm::new(100 << 20);
        h.fill_later(std::iter::once(3..90 << 20).collect(), 4, Box::new(fill));
        // From behind, and over what has not been written yet.
        for mib in (1..90u64).rev().step_by(3) {
            let at = (mib << 20) + 5;
            h.write(at, &[77; 2]);
            let mut out = [0; 4];
            h.read(at - 1, &mut out);
            let byte = |at: u64| ((at - 3) % 249) as u8;
            assert_eq!(out, [byte(at - 1), 77, 77, byte(at + 2)], "{mib}");
        }
        // Others come over it, and nobody waits for the rest.
        h.fill_later(vec![20 << 20..21 << 20, 30 << 20..60 << 20], 3, Box::new(fill));
        let mut out = [0; 2];
        h.read((50 << 20) - 1, &mut out);
        assert_eq!(out, [(((20 << 20) - 1) % 249) as u8 ^ 1, ((20 << 20) % 249) as u8 ^ 1]);
        h.read((25 << 20) - 1, &mut out);
        assert_eq!(out[0], (((25 << 20) - 4) % 249) as u8);
        assert!(h.touches_pages(0, 1) && h.touches_pages(89 << 20, 100 << 20) && !h.touches_pages(96 << 20, 100 << 20));
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
