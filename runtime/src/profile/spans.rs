//! Spans of cycles on a lane: what ran from when to when. Columns, sorted by start, so that ten million fit.

use std::collections::HashMap;

/// Spans by column. Starts ascend; a lane whose spans do not overlap has ascending ends too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    pub start: Vec<u64>,
    /// Cycles.
    pub len: Vec<u32>,
    /// What it is: an op, a kernel, … as the lane says.
    pub id: Vec<u32>,
}

/// One span: `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub end: u64,
    pub id: u32,
}

/// A column of a picture: what covers most of some cycles, and how many of them are covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    pub id: u32,
    pub busy: u64,
}

impl Spans {
    /// Number of spans.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Span `i`.
    pub fn get(&self, i: usize) -> Option<Span> {
        let start = *self.start.get(i)?;
        Some(Span { start, end: start + self.len[i] as u64, id: self.id[i] })
    }

    pub fn iter(&self) -> impl Iterator<Item = Span> + '_ {
        let columns = self.start.iter().zip(&self.len).zip(&self.id);
        columns.map(|((&start, &len), &id)| Span { start, end: start + len as u64, id })
    }

    /// Appends a span; empty ones are left out, and those too long for the column become several.
    pub fn push(&mut self, id: u32, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let len = (end - at).min(u32::MAX as u64);
            self.start.push(at);
            self.len.push(len as u32);
            self.id.push(id);
            at += len;
        }
    }

    /// First span that ends after `cycle` (in a lane without overlaps).
    pub fn first_after(&self, cycle: u64) -> usize {
        let i = self.start.partition_point(|s| *s <= cycle);
        match i.checked_sub(1).and_then(|j| self.get(j)) {
            Some(s) if s.end > cycle => i - 1,
            _ => i,
        }
    }

    /// The span at a cycle (in a lane without overlaps).
    pub fn at(&self, cycle: u64) -> Option<(usize, Span)> {
        let i = self.first_after(cycle);
        self.get(i).filter(|s| s.start <= cycle).map(|s| (i, s))
    }

    /// Where the last span ends.
    pub fn end(&self) -> u64 {
        self.len().checked_sub(1).and_then(|i| self.get(i)).map_or(0, |s| s.end)
    }

    /// Total cycles of every id, in order of first appearance.
    pub fn totals(&self) -> Vec<(u32, u64)> {
        totals(self.iter())
    }

    /// Joins the spans that start in the same `window` cycles: one span for each id in it, one after the other. Totals
    /// stay the same.
    pub fn fold(&mut self, window: u64) {
        let mut out = Spans::default();
        let mut i = 0;
        while i < self.len() {
            let slot = self.start[i] / window.max(1);
            let mut to = i;
            while to < self.len() && self.start[to] / window.max(1) == slot {
                to += 1;
            }
            let mut at = self.start[i];
            for (id, cycles) in totals((i..to).filter_map(|k| self.get(k))) {
                out.push(id, at, at + cycles);
                at += cycles;
            }
            i = to;
        }
        *self = out;
    }
}

fn totals(spans: impl Iterator<Item = Span>) -> Vec<(u32, u64)> {
    let mut place: HashMap<u32, usize> = HashMap::new();
    let mut sums: Vec<(u32, u64)> = Vec::new();
    for s in spans {
        let at = *place.entry(s.id).or_insert_with(|| {
            sums.push((s.id, 0));
            sums.len() - 1
        });
        sums[at].1 += s.end - s.start;
    }
    sums
}

/// Spans of a block of the index.
const BLOCK: usize = 256;

/// Sums over blocks of spans, so that a picture of millions of spans touches few of them.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Covered cycles of every block, and its longest span's id and length.
    blocks: Vec<(u64, u32, u32)>,
}

impl Index {
    pub fn new(spans: &Spans) -> Index {
        let block = |k: usize| {
            let range = k * BLOCK..((k + 1) * BLOCK).min(spans.len());
            let longest = range.clone().max_by_key(|i| spans.len[*i]).unwrap_or(k * BLOCK);
            let busy = spans.len[range].iter().map(|l| *l as u64).sum();
            (busy, spans.id[longest], spans.len[longest])
        };
        Index { blocks: (0..spans.len().div_ceil(BLOCK)).map(block).collect() }
    }

    /// What covers cycles `from..to` of a lane without overlaps: the id of its longest span there.
    pub fn cover(&self, spans: &Spans, from: u64, to: u64) -> Option<Cover> {
        let (first, last) = (spans.first_after(from), spans.start.partition_point(|s| *s < to));
        if first >= last {
            return None;
        }
        let (mut busy, mut best) = (0, (0u64, 0u32));
        let mut one = |i: usize| {
            if let Some(s) = spans.get(i) {
                let here = s.end.min(to).saturating_sub(s.start.max(from));
                busy += here;
                if here > best.0 {
                    best = (here, s.id);
                }
            }
        };
        let (low, high) = ((first + 1).div_ceil(BLOCK), last.saturating_sub(1) / BLOCK);
        if low >= high {
            (first..last).for_each(one);
        } else {
            (first..low * BLOCK).chain(high * BLOCK..last).for_each(&mut one);
            for b in &self.blocks[low..high] {
                busy += b.0;
                if b.2 as u64 > best.0 {
                    best = (b.2 as u64, b.1);
                }
            }
        }
        Some(Cover { id: best.1, busy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(n: u64) -> Spans {
        let mut s = Spans::default();
        let mut at = 0;
        for i in 0..n {
            let len = 1 + (i * 7919) % 13;
            s.push((i % 5) as u32, at, at + len);
            at += len + i % 2;
        }
        s
    }

    #[test]
    fn covers_agree_with_counting() {
        let s = lane(5000);
        let index = Index::new(&s);
        for (from, to) in [(0, 40_000), (17, 18), (100, 5000), (3000, 3001), (39_000, 90_000), (50_000, 60_000)] {
            let busy: u64 = s.iter().map(|x| x.end.min(to).saturating_sub(x.start.max(from))).sum();
            assert_eq!(index.cover(&s, from, to).map_or(0, |c| c.busy), busy, "{from}..{to}");
        }
    }

    #[test]
    fn folding_keeps_totals_and_order() {
        let mut s = lane(1000);
        let (mut before, end) = (s.totals(), s.end());
        s.fold(500);
        let mut after = s.totals();
        before.sort_unstable();
        after.sort_unstable();
        assert_eq!(before, after);
        assert!(s.len() < 200 && s.end() <= end);
        assert!(s.start.windows(2).all(|w| w[0] <= w[1]));
    }

    #[test]
    fn finds_by_cycle() {
        let mut s = Spans::default();
        s.push(1, 10, 20);
        s.push(2, 20, 20);
        s.push(3, 25, 25 + (1 << 33));
        assert_eq!(s.len(), 4);
        assert_eq!(s.at(9), None);
        assert_eq!(s.at(19).map(|x| x.1.id), Some(1));
        assert_eq!(s.at(22), None);
        assert_eq!(s.at(1 << 33).map(|x| x.1.id), Some(3));
        assert_eq!(s.totals(), vec![(1, 10), (3, 1 << 33)]);
    }
}
