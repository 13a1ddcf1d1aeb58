//! How an array is shared out among orders of lines, so that all links work all the time.
//!
//! A reduction that goes round line after line moves all of its share along the first one, and what is left along the
//! others. So shares begin with different lines. With lines alike they are equal and go on in step, as streams of one ring;
//! else each is a ring of its own, and shares are such that every line has as much to do in every phase as can be.

use super::combinations::{compositions, orders, sets};
use super::lines::{Line, Way};
use super::state::MOST_RINGS;
use super::{Request, RingKind, message_cycles};
use systole_isa::ChipConfig;

/// Parts that shares are counted in while the best are looked for: first coarse, then fine.
const PARTS: (u32, u32) = (12, 960);

/// Orders of lines that run as one ring: one, or one beginning with each line.
#[derive(Clone, Debug)]
pub struct Together {
    pub orders: Vec<Vec<usize>>,
    /// Of the array.
    pub share: f64,
}

/// A way with its shares.
#[derive(Clone, Debug)]
pub struct Split {
    pub rings: Vec<Together>,
    /// Cycles of a reduction or gathering: for each byte, and for messages of every phase.
    phases: Vec<(f64, f64)>,
}

impl Split {
    /// Estimated cycles of a collective that is split so.
    pub(super) fn estimate(&self, q: &Request<'_>, chip: &ChipConfig) -> f64 {
        let times = if q.kind == RingKind::AllReduce { 2.0 } else { 1.0 };
        (0..self.phases.len()).map(|position| times * self.span(position, q, chip)).sum()
    }

    /// Estimated cycles of the phases of a position that gather (or reduce), of all rings.
    pub(super) fn span(&self, position: usize, q: &Request<'_>, chip: &ChipConfig) -> f64 {
        let (of_byte, messages) = self.phases[position];
        let bytes = of_byte * q.bytes as f64;
        // Pieces of reductions are under way beside each other, and so are those of gatherings that go through slots.
        f64::max(bytes, messages) + message_cycles(chip)
    }
}

impl Way {
    /// Streams of an order.
    pub fn directions(&self) -> usize {
        if self.lines.iter().any(|l| l.both_ways) { 2 } else { 1 }
    }

    /// Phases of a collective.
    pub(super) fn phases(&self, kind: RingKind) -> usize {
        self.positions() * if kind == RingKind::AllReduce { 2 } else { 1 }
    }

    /// The ways to share an array out.
    pub fn splits(&self, chip: &ChipConfig) -> &[Split] {
        self.splits.get_or_init(|| self.all_splits(chip))
    }

    fn all_splits(&self, chip: &ChipConfig) -> Vec<Split> {
        let n = self.lines.len();
        if self.side_by_side {
            return vec![self.split(vec![Together { orders: (0..n).map(|l| vec![l]).collect(), share: 1.0 }], chip)];
        }
        let alike = |w: &[Line]| w[0].n == w[1].n && w[0].shared == w[1].shared && w[0].both_ways == w[1].both_ways;
        let turned = |first: usize| (0..n).map(|i| (first + i) % n).collect::<Vec<usize>>();
        if self.lines.windows(2).all(alike) {
            // The one with fewer shares takes fewer semaphores.
            let shares = if n > 1 { vec![n, 1] } else { vec![1] };
            let with = |shares: usize| Together { orders: (0..shares).map(turned).collect(), share: 1.0 };
            return shares.into_iter().map(|s| self.split(vec![with(s)], chip)).collect();
        }
        let orders = orders(n);
        let single = orders.iter().map(|o| vec![Together { orders: vec![o.clone()], share: 1.0 }]);
        let single = single.map(|r| self.split(r, chip));
        let fastest = single.min_by(|a, b| a.rate().total_cmp(&b.rate()));
        let sets = sets(orders.len(), (n as u32).min(MOST_RINGS) as usize);
        let several =
            sets.into_iter().map(|set| self.balanced(set.into_iter().map(|i| orders[i].clone()).collect(), chip));
        fastest.into_iter().chain(several.min_by(|a, b| a.rate().total_cmp(&b.rate()))).collect()
    }

    fn split(&self, rings: Vec<Together>, chip: &ChipConfig) -> Split {
        let mut phases = Vec::new();
        for p in 0..self.positions() {
            let mut busy = vec![0.0; self.lines.len()];
            let mut steps = 0.0;
            for r in &rings {
                for o in &r.orders {
                    let before: f64 = o[..p].iter().map(|&l| f64::from(self.lines[l].n)).product();
                    busy[o[p]] += r.share / r.orders.len() as f64 / before * self.lines[o[p]].cycles_per_byte(chip);
                    steps = f64::max(steps, f64::from(self.lines[o[p]].n) - 1.0);
                }
            }
            phases.push((busy.into_iter().fold(0.0, f64::max), steps * message_cycles(chip)));
        }
        Split { rings, phases }
    }

    /// Orders with the shares that take the least time: the best of coarse ones, moved by small parts while that helps.
    fn balanced(&self, orders: Vec<Vec<usize>>, chip: &ChipConfig) -> Split {
        let made = |parts: &[u32]| {
            let all: u32 = parts.iter().sum();
            let ring = |(o, &p): (&Vec<usize>, &u32)| Together {
                orders: vec![o.clone()],
                share: f64::from(p) / f64::from(all),
            };
            self.split(orders.iter().zip(parts).map(ring).collect(), chip)
        };
        let coarse = compositions(PARTS.0, orders.len());
        let best = coarse.into_iter().min_by(|a, b| made(a).rate().total_cmp(&made(b).rate())).unwrap_or_default();
        let mut parts: Vec<u32> = best.iter().map(|p| p * (PARTS.1 / PARTS.0)).collect();
        let mut step = PARTS.1 / PARTS.0;
        while step > 1 {
            step /= 2;
            let moved = |from: usize, to: usize| {
                let mut next = parts.clone();
                (next[from], next[to]) = (next[from].checked_sub(step).filter(|&p| p > 0)?, next[to] + step);
                Some(next)
            };
            let pairs = (0..parts.len()).flat_map(|a| (0..parts.len()).map(move |b| (a, b))).filter(|(a, b)| a != b);
            let next = pairs.filter_map(|(a, b)| moved(a, b));
            let best = next.min_by(|a, b| made(a).rate().total_cmp(&made(b).rate()));
            if let Some(best) = best.filter(|b| made(b).rate() < made(&parts).rate()) {
                parts = best;
                step *= 2;
            }
        }
        made(&parts)
    }

    /// The semaphores that rings take, by name.
    pub(super) fn semaphores(&self, q: &Request<'_>, split: &Split) -> Vec<String> {
        let mut all = Vec::new();
        for m in 0..split.rings.len() {
            all.extend([format!("local {m}"), format!("stored {m}")]);
        }
        let streams: usize = split.rings.iter().map(|r| r.orders.len() * self.directions()).sum();
        for s in 0..streams {
            all.extend([format!("send {s}"), format!("recv {s}")]);
            all.extend((0..self.phases(q.kind)).map(|p| format!("ready {:?} {s} {p}", q.groups)));
        }
        all
    }
}

impl Split {
    /// Cycles for each byte.
    pub fn rate(&self) -> f64 {
        self.phases.iter().map(|p| p.0).sum()
    }
}
