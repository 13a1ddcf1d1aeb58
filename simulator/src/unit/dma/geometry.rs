//! The static shape of a transfer: contiguous runs on each side, extents, bursts, and overlap of two shapes.

use smallvec::SmallVec;
use systole_isa::dma::MAX_DMA_DIMS;
use systole_isa::{DmaDesc, Space};

/// A descriptor prepared for execution.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub src: Space,
    pub dst: Space,
    pub bytes: u64,
    /// Bytes contiguous on both sides, and steps: (count, source stride, destination stride), outermost first.
    pub chunk: u64,
    /// Contiguous chunks that the engine begins.
    pub chunks: u64,
    pub dims: SmallVec<[(u64, i64, i64); MAX_DMA_DIMS]>,
    pub from: Side,
    pub to: Side,
}

/// Runs that are looked at for channels.
const MOST_RUNS: u32 = 512;

/// One side of a transfer: runs of `run` contiguous bytes, stepped by `dims` (count, stride), outermost (largest
/// stride) first. `lo..hi` is the byte extent relative to the base.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub run: u64,
    pub dims: SmallVec<[(u64, i64); MAX_DMA_DIMS]>,
    /// How many runs there are, if there is anything in them.
    runs: u64,
    pub lo: i64,
    pub hi: i64,
    /// Whether all strides are multiples of a burst.
    burst: u64,
    aligned: bool,
    /// Time over that of a transfer whose runs meet all channels of HBM evenly.
    pub slow: f64,
}

impl Geometry {
    /// The descriptor's geometry; `None` if it is not a legal descriptor.
    pub fn new(d: &DmaDesc, burst: u64) -> Option<Geometry> {
        if d.dims.len() > MAX_DMA_DIMS {
            return None;
        }
        let count = d.dims.iter().try_fold(1u64, |n, x| n.checked_mul(x.count as u64))?;
        let bytes = count.checked_mul(d.chunk as u64).filter(|b| *b < 1 << 44)?;
        let reach = d.dims.iter().try_fold(0i64, |n, x| {
            let far = x.src_stride.checked_abs()?.max(x.dst_stride.checked_abs()?);
            n.checked_add(far.checked_mul(x.count as i64)?)
        })?;
        if reach > 1 << 48 {
            return None;
        }
        let mut chunk = d.chunk as u64;
        let mut dims: SmallVec<[(u64, i64, i64); MAX_DMA_DIMS]> =
            d.dims.iter().filter(|x| x.count != 1).map(|x| (x.count as u64, x.src_stride, x.dst_stride)).collect();
        while let Some(&(n, s, t)) = dims.last()
            && s == chunk as i64
            && t == chunk as i64
        {
            chunk *= n;
            dims.pop();
        }
        let from = Side::new(chunk, dims.iter().map(|d| (d.0, d.1)), burst);
        let to = Side::new(chunk, dims.iter().map(|d| (d.0, d.2)), burst);
        let chunks = bytes.checked_div(chunk).unwrap_or(0);
        Some(Geometry { src: d.src, dst: d.dst, bytes, chunk, chunks, dims, from, to })
    }

    /// The same transfer without its destination / without its source: what a device sees of a transfer to / from another.
    pub fn one_sided(&self, source: bool) -> Geometry {
        let nothing = Side {
            run: 0,
            dims: SmallVec::from_slice(&[(0, 0)]),
            runs: 0,
            lo: 0,
            hi: 0,
            burst: self.from.burst,
            aligned: true,
            slow: 1.0,
        };
        let mut g = self.clone();
        if source {
            g.to = nothing;
        } else {
            g.from = nothing;
        }
        g
    }

    /// Calls `f` with the (source, destination) offset of every chunk.
    pub fn for_each_chunk(&self, mut f: impl FnMut(i64, i64)) {
        if self.bytes == 0 {
            return;
        }
        let mut index = [0u64; MAX_DMA_DIMS];
        let (mut s, mut t) = (0i64, 0i64);
        loop {
            f(s, t);
            let mut d = self.dims.len();
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                let (n, ss, ts) = self.dims[d];
                index[d] += 1;
                s += ss;
                t += ts;
                if index[d] < n {
                    break;
                }
                index[d] = 0;
                s -= ss * n as i64;
                t -= ts * n as i64;
            }
        }
    }
}

impl Side {
    fn new(chunk: u64, dims: impl Iterator<Item = (u64, i64)>, burst: u64) -> Side {
        let mut run = chunk;
        let mut dims: SmallVec<[(u64, i64); MAX_DMA_DIMS]> = dims.collect();
        while let Some(i) = dims.iter().position(|&(_, s)| s == run as i64) {
            run *= dims.remove(i).0;
        }
        dims.sort_by_key(|&(n, s)| std::cmp::Reverse((s.unsigned_abs(), n)));
        let (mut lo, mut hi) = (0, run as i64);
        for &(n, s) in &dims {
            let far = s * (n as i64 - 1).max(0);
            lo += far.min(0);
            hi += far.max(0);
        }
        if dims.iter().any(|d| d.0 == 0) || run == 0 {
            (lo, hi) = (0, 0);
        }
        let aligned = dims.iter().all(|d| d.1 % burst as i64 == 0);
        let runs = dims.iter().fold(1u64, |n, d| n.saturating_mul(d.0));
        Side { run, dims, runs, lo, hi, burst, aligned, slow: 1.0 }
    }

    /// Finds how evenly the runs meet HBM's channels. A channel holds `interleave` bytes of neighbouring addresses (a granule, assumed); which one is
    /// the sum of the place's digits to the base of their number, so that common strides go round all of them. Queues before the
    /// channels even out a load of twice the mean (assumed); what is beyond takes longer. The base moves all runs alike and is
    /// left out.
    pub fn meet_channels(&mut self, channels: u64, interleave: u64) {
        let stripe = channels * interleave;
        if channels < 2 || self.run == 0 || self.run >= stripe || self.runs < 2 {
            return;
        }
        let channel = |at: i64| {
            let mut place = at.unsigned_abs() / interleave;
            let mut sum = 0;
            while place > 0 {
                sum += place % channels;
                place /= channels;
            }
            (sum % channels) as usize
        };
        let mut load = vec![0u64; channels as usize];
        let mut left = MOST_RUNS;
        self.any_run(0, 0, &mut |at| {
            let mut from = at;
            while from < at + self.run as i64 {
                let to = ((from.div_euclid(interleave as i64) + 1) * interleave as i64).min(at + self.run as i64);
                load[channel(from)] += (to - from) as u64;
                from = to;
            }
            left -= 1;
            left == 0
        });
        let total: u64 = load.iter().sum();
        let most = load.iter().copied().max().unwrap_or(0);
        let used = total.div_ceil(interleave).min(channels);
        let even = total as f64 / used.max(1) as f64;
        self.slow = (most as f64 / even / 2.0).max(1.0);
    }

    /// Bytes of the bursts that the runs touch, each run for itself.
    pub fn burst_bytes(&self, base: i64) -> u64 {
        if self.run == 0 {
            return 0;
        }
        let b = self.burst;
        if self.aligned && b.is_power_of_two() {
            // What most are, without a division.
            let residue = base as u64 & (b - 1);
            return self.runs * (((residue + self.run - 1) & !(b - 1)) + b);
        }
        let bursts = |residue: u64| (residue + self.run - 1) / b + 1;
        let residue = base.rem_euclid(b as i64) as u64;
        if self.aligned {
            return self.runs * bursts(residue) * b;
        }
        // Count runs by where they begin within a burst.
        let mut hist = vec![0u64; b as usize];
        hist[residue as usize] = 1;
        for &(n, s) in &self.dims {
            let step = s.rem_euclid(b as i64) as u64;
            let mut next = vec![0u64; b as usize];
            let period = b / gcd(step, b);
            for (r, &c) in hist.iter().enumerate().filter(|h| *h.1 > 0) {
                for i in 0..period.min(n) {
                    let times = (n - i).div_ceil(period);
                    next[((r as u64 + i * step) % b) as usize] += c * times;
                }
            }
            hist = next;
        }
        hist.iter().enumerate().map(|(r, &c)| c * bursts(r as u64) * b).sum()
    }

    /// Whether a run touches bytes `start..end` when the side lies at `base`.
    pub fn touches(&self, base: i64, start: i64, end: i64) -> bool {
        if start >= end || base + self.hi <= start || base + self.lo >= end {
            return false;
        }
        self.touches_from(0, base, start, end)
    }

    fn touches_from(&self, dim: usize, base: i64, start: i64, end: i64) -> bool {
        let Some(&(n, stride)) = self.dims.get(dim) else {
            return base < end && base + self.run as i64 > start;
        };
        if n == 0 {
            return false;
        }
        // Extent of what is inside one step.
        let (mut lo, mut hi) = (0, self.run as i64);
        for &(n, s) in &self.dims[dim + 1..] {
            let far = s * (n as i64 - 1);
            lo += far.min(0);
            hi += far.max(0);
        }
        if stride == 0 {
            return self.touches_from(dim + 1, base, start, end);
        }
        // Steps i with base + i*stride + lo < end and base + i*stride + hi > start.
        let (step, first) = if stride > 0 { (stride, base) } else { (-stride, base + stride * (n as i64 - 1)) };
        let from = (start - hi - first).div_euclid(step) + 1;
        let to = -(-(end - lo - first)).div_euclid(step) - 1;
        (from.max(0)..=to.min(n as i64 - 1)).any(|i| self.touches_from(dim + 1, first + i * step, start, end))
    }

    /// Whether two sides, at their bases, have a byte in common.
    pub fn overlaps(&self, base: i64, other: &Side, other_base: i64) -> bool {
        if base + self.hi <= other_base + other.lo || other_base + other.hi <= base + self.lo {
            return false;
        }
        let (few, few_base, many, many_base) =
            if self.runs <= other.runs { (self, base, other, other_base) } else { (other, other_base, self, base) };
        few.any_run(0, few_base, &mut |at| many.touches(many_base, at, at + few.run as i64))
    }

    fn any_run(&self, dim: usize, base: i64, f: &mut impl FnMut(i64) -> bool) -> bool {
        match self.dims.get(dim) {
            None => f(base),
            Some(&(_, 0)) => self.any_run(dim + 1, base, f),
            Some(&(n, s)) => (0..n as i64).any(|i| self.any_run(dim + 1, base + i * s, f)),
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if a == 0 { b } else { gcd(b % a, a) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use systole_isa::DmaDim;

    fn desc(chunk: u32, dims: &[(u32, i64, i64)]) -> DmaDesc {
        let dims =
            dims.iter().map(|&(count, src_stride, dst_stride)| DmaDim { count, src_stride, dst_stride }).collect();
        DmaDesc { src: Space::Hbm, dst: Space::Vmem, chunk, dims }
    }

    /// Every byte of a side, by brute force.
    fn bytes(g: &Geometry, base: i64) -> Vec<i64> {
        let mut v = Vec::new();
        g.for_each_chunk(|s, _| v.extend((0..g.chunk as i64).map(|i| base + s + i)));
        v
    }

    #[test]
    fn strides_that_meet_few_channels_are_slower() {
        // 32 channels of 512 bytes; 64 runs of 512 bytes.
        let slow = |stride: i64| {
            let mut g = Geometry::new(&desc(512, &[(64, stride, 512)]), 32).expect("legal");
            g.from.meet_channels(32, 512);
            g.from.slow
        };
        for friendly in [512, 1024, 4096, 16384, 32 * 16384, 33 * 512] {
            assert_eq!(slow(friendly), 1.0, "{friendly}");
        }
        // The digits' sum stays the same for 32 runs: one channel has half of the load, sixteen times the mean.
        assert!(slow(31 * 512) >= 4.0, "{}", slow(31 * 512));
        let mut long = Geometry::new(&desc(1 << 20, &[]), 32).expect("legal");
        long.from.meet_channels(32, 512);
        assert_eq!(long.from.slow, 1.0);
    }

    #[test]
    fn contiguous_dimensions_merge() {
        let g = Geometry::new(&desc(64, &[(3, 1000, 256), (4, 64, 64)]), 64).expect("legal");
        assert_eq!((g.chunk, g.dims.as_slice()), (256, &[(3, 1000, 256)][..]));
        assert_eq!((g.to.run, g.to.dims.len()), (768, 0));
        assert_eq!((g.from.lo, g.from.hi), (0, 2256));
    }

    #[test]
    fn bursts_and_overlaps_agree_with_brute_force() {
        let shapes = [
            desc(12, &[(5, 40, 12), (3, 100, 60)]),
            desc(64, &[(4, 128, 64)]),
            desc(30, &[(7, -45, 30)]),
            desc(8, &[(3, 0, 8), (6, 24, 24)]),
        ];
        for d in &shapes {
            let g = Geometry::new(d, 32).expect("legal");
            for base in [0i64, 5, 31, 64] {
                let base = base + 1000;
                let mut runs = 0;
                g.from.any_run(0, base, &mut |_| {
                    runs += 1;
                    false
                });
                let mut expect = 0;
                let mut count = |at: i64| {
                    expect += ((at + g.from.run as i64 - 1) / 32 - at / 32 + 1) as u64 * 32;
                };
                // Runs with repeats, as burst_bytes counts them.
                let mut all = vec![base];
                for &(n, s) in &g.from.dims {
                    all = all.iter().flat_map(|b| (0..n as i64).map(move |i| b + i * s)).collect();
                }
                all.iter().for_each(|a| count(*a));
                assert_eq!(g.from.burst_bytes(base), expect, "{d:?} at {base}");
                let set = bytes(&g, base);
                for start in 850..1400 {
                    let hit = set.iter().any(|b| (start..start + 7).contains(b));
                    assert_eq!(g.from.touches(base, start, start + 7), hit, "{d:?} {base} {start}");
                }
                for other in &shapes {
                    let o = Geometry::new(other, 32).expect("legal");
                    for at in (900..1300).step_by(7) {
                        let b = bytes(&o, at);
                        let hit = set.iter().any(|x| b.contains(x));
                        assert_eq!(g.from.overlaps(base, &o.from, at), hit, "{d:?} {other:?} {base} {at}");
                    }
                }
            }
        }
    }
}
