//! A first-fit allocator of rows with coalescing: vector memory, and HBM in granules.

use std::collections::BTreeMap;

/// Free ranges by first row.
#[derive(Clone, Debug)]
pub struct Rows {
    free: BTreeMap<u64, u64>,
    align: u64,
    /// One past the highest row ever used.
    pub peak: u64,
}

impl Rows {
    /// Rows `start..end`, handed out in multiples of `align`.
    pub fn new(start: u64, end: u64, align: u64) -> Rows {
        let first = start.div_ceil(align) * align;
        let mut free = BTreeMap::new();
        if end > first {
            free.insert(first, end - first);
        }
        Rows { free, align, peak: first }
    }

    fn size(&self, rows: u64) -> u64 {
        rows.max(1).div_ceil(self.align) * self.align
    }

    /// A range of at least `rows` rows: the smallest that fits, its first rows.
    pub fn take(&mut self, rows: u64) -> Option<u64> {
        let need = self.size(rows);
        let (&at, &len) = self.free.iter().filter(|(_, l)| **l >= need).min_by_key(|(a, l)| (**l, **a))?;
        self.free.remove(&at);
        if len > need {
            self.free.insert(at + need, len - need);
        }
        self.peak = self.peak.max(at + need);
        Some(at)
    }

    /// A range where nothing was before.
    pub fn take_new(&mut self, rows: u64) -> Option<u64> {
        let need = self.size(rows);
        let (&at, &len) = self.free.iter().next_back()?;
        let first = at.max(self.peak);
        if at + len < first + need {
            return None;
        }
        self.free.remove(&at);
        if first > at {
            self.free.insert(at, first - at);
        }
        if at + len > first + need {
            self.free.insert(first + need, at + len - first - need);
        }
        self.peak = first + need;
        Some(first)
    }

    /// Gives a range back.
    pub fn give(&mut self, at: u64, rows: u64) {
        let mut at = at;
        let mut len = self.size(rows);
        if let Some((&before, &l)) = self.free.range(..at).next_back()
            && before + l == at
        {
            self.free.remove(&before);
            at = before;
            len += l;
        }
        if let Some(&l) = self.free.get(&(at + len)) {
            self.free.remove(&(at + len));
            len += l;
        }
        self.free.insert(at, len);
    }

    /// Rows of the largest free range, and of all.
    pub fn room(&self) -> (u64, u64) {
        (self.free.values().copied().max().unwrap_or(0), self.free.values().sum())
    }
}
