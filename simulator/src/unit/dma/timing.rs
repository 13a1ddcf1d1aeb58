//! When transfers complete.
//!
//! A transfer waits `dma.issue_cycles` after its start, then for a free engine and for one of the `dma.in_flight` places
//! of transfers that are under way. An engine begins `chunks_per_cycle` chunks and moves `bytes_per_cycle` bytes per
//! cycle, and takes `descriptor_cycles` at least; then it is free for the next transfer, while its data is still
//! on the way. HBM is a server of its bandwidth times efficiency that serves
//! transfers in the order in which they were issued; whole bursts count, and strides that meet few channels take longer. The last byte arrives one HBM latency later
//! for each side that is in HBM. Common memory (CMEM), whose addresses lie behind HBM's, is two servers more, one of reads and one of
//! writes, with a latency of its own. Everything is known when the transfer starts: nothing is ever ticked.
//!
//! What other devices write comes in at times that the core may be ahead of: it takes bandwidth that was idle at its time
//! ([`Idle`]), and only what is left over queues behind the transfers that are known.

use super::blame::{Blame, Dated, Parts, later};
use super::geometry::{Geometry, Side};
use crate::stats::{Cause, Traffic};
use std::collections::VecDeque;
use systole_isa::Space;
use systole_isa::chip::ChipConfig;

/// Times of one transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub begin: u64,
    pub end: u64,
    /// What the end depends on.
    pub blame: Blame,
    pub moved: Traffic,
}

/// [`f64::round`] of what is not negative: that is a call where processors cannot be relied on to have an instruction for it.
#[inline]
fn nearest(x: f64) -> u64 {
    let whole = x as u64;
    // What is left of a number is exact.
    whole.saturating_add(u64::from(x - whole as f64 >= 0.5))
}

/// [`f64::ceil`] of what is not negative, as [`nearest`].
#[inline]
fn above(x: f64) -> u64 {
    let whole = x as u64;
    whole.saturating_add(u64::from(x > whole as f64))
}

/// One way of CMEM: when it is free and what that depends on, in 1/256 cycles, and how long it was busy.
#[derive(Clone, Debug, Default)]
struct Way {
    per_byte: f64,
    free: Dated,
    busy: u64,
}

impl Way {
    fn new(bytes_per_cycle: f64) -> Way {
        Way { per_byte: if bytes_per_cycle > 0.0 { 256.0 / bytes_per_cycle } else { 0.0 }, ..Way::default() }
    }

    /// Serves bytes from a time on, behind what it does already, with one part in `parts` of the bandwidth; when they are
    /// through.
    fn serve(&mut self, bytes: u64, from: Dated, parts: u64) -> Dated {
        let service = nearest(bytes as f64 * self.per_byte);
        let (at, blame) = later(self.free, from);
        self.free = (at + service * parts, blame.cmem(service * parts));
        self.busy += service;
        self.free
    }
}

/// The cycle from which an engine is free, and behind that its number: the less of two is the one that is taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Engine(u64);

impl Engine {
    /// Bits of a number.
    const NUMBER: u32 = 12;

    fn new(number: usize, free: u64) -> Engine {
        Engine(free << Engine::NUMBER | number as u64)
    }

    fn number(self) -> usize {
        (self.0 & ((1 << Engine::NUMBER) - 1)) as usize
    }

    fn free(self) -> u64 {
        self.0 >> Engine::NUMBER
    }
}

/// Engines and HBM bandwidth. HBM times are in 1/256 cycles.
#[derive(Clone, Debug)]
pub(crate) struct DmaTiming {
    issue: u64,
    latency: u64,
    /// 1/256 cycles per HBM byte, cycles per chunk, cycles per byte.
    per_hbm_byte: f64,
    /// The core has one part in so many of HBM's bandwidth.
    parts: u64,
    per_chunk: f64,
    per_byte: f64,
    /// When the engines are free, in the order in which they are taken; and by their numbers what that depends on.
    engines: Vec<Engine>,
    blames: Vec<Blame>,
    /// When the last transfers under way end, ascending; never more than `places`.
    under_way: VecDeque<Dated>,
    places: usize,
    descriptor: u64,
    hbm_free: u64,
    hbm_blame: Blame,
    pub hbm_busy: u64,
    /// Address behind HBM's: CMEM's first.
    cmem_at: i64,
    cmem_latency: u64,
    cmem_read: Way,
    cmem_write: Way,
    /// End of the last transfer, for the cycles in which any is in progress.
    busy_until: u64,
    pub busy: u64,
    rng: Option<u64>,
    /// Of devices of a pod.
    idle: Option<Idle>,
}

/// HBM bandwidth that was idle, in 1/256 cycles: stretches of time, oldest first, and where the next one begins (time, and
/// what the server's busy time was then).
#[derive(Clone, Debug, Default)]
struct Idle {
    stretches: VecDeque<Stretch>,
    from: u64,
    busy: u64,
}

/// A stretch of time and how much of it is idle.
#[derive(Clone, Debug)]
struct Stretch {
    start: u64,
    end: u64,
    idle: u64,
}

impl Idle {
    /// Shortest stretch, and most that are kept.
    const SHORT: u64 = (1 << 12) << 8;
    const MOST: usize = 1 << 12;

    /// Ends the present stretch at a time, with the server's busy time until then.
    fn until(&mut self, end: u64, busy: u64) {
        if end > self.from {
            let idle = (end - self.from).saturating_sub(busy.saturating_sub(self.busy));
            self.stretches.push_back(Stretch { start: self.from, end, idle });
            if self.stretches.len() > Self::MOST {
                self.stretches.pop_front();
            }
        }
        (self.from, self.busy) = (end.max(self.from), busy);
    }

    /// Takes idle time from `from` on: what is still needed, and when the rest was there.
    fn take(&mut self, from: u64, mut need: u64) -> (u64, u64) {
        let first = self.stretches.partition_point(|s| s.end <= from);
        let mut at = from;
        for s in self.stretches.range_mut(first..).filter(|s| s.idle > 0) {
            let start = s.start.max(from);
            let (length, behind) = (s.end - s.start, s.end - start);
            let usable = (u128::from(s.idle) * u128::from(behind) / u128::from(length.max(1))) as u64;
            let taken = need.min(usable);
            if taken == 0 {
                continue;
            }
            s.idle -= taken;
            need -= taken;
            at = start + (u128::from(behind) * u128::from(taken) / u128::from(usable)) as u64;
            if need == 0 {
                break;
            }
        }
        (need, at)
    }
}

impl DmaTiming {
    pub fn new(chip: &ChipConfig, chaos: Option<u64>) -> DmaTiming {
        DmaTiming {
            issue: chip.dma.issue_cycles as u64,
            latency: chip.hbm_latency_cycles(),
            per_hbm_byte: 256.0 / chip.hbm_bytes_per_cycle(),
            parts: 1,
            per_chunk: 1.0 / chip.dma.chunks_per_cycle,
            per_byte: 1.0 / chip.dma.bytes_per_cycle,
            engines: (0..chip.dma.engines as usize).map(|n| Engine::new(n, 0)).collect(),
            blames: vec![Blame::default(); chip.dma.engines as usize],
            under_way: VecDeque::new(),
            places: chip.dma.in_flight as usize,
            descriptor: chip.dma.descriptor_cycles as u64,
            hbm_free: 0,
            hbm_blame: Blame::default(),
            hbm_busy: 0,
            cmem_at: chip.device_hbm_bytes() as i64,
            cmem_latency: chip.cmem_latency_cycles(),
            cmem_read: Way::new(chip.cmem_bytes_per_cycle().0),
            cmem_write: Way::new(chip.cmem_bytes_per_cycle().1),
            busy_until: 0,
            busy: 0,
            rng: chaos.map(|s| s ^ 0x9E37_79B9_7F4A_7C15),
            idle: None,
        }
    }

    /// From now on the core has one part in `parts` of HBM's bandwidth.
    pub fn divide(&mut self, parts: u32) {
        self.parts = u64::from(parts.max(1));
    }

    /// Other devices use this one's HBM too.
    pub fn share(&mut self) {
        self.idle = Some(Idle::default());
    }

    /// Bytes of a transfer's sides by memory.
    fn moved(&self, source: Option<(&Side, i64)>, destination: Option<(&Side, i64)>) -> Traffic {
        let of = |side: Option<(&Side, i64)>| match side {
            Some((side, at)) if self.in_cmem(side, at) => (0, side.burst_bytes(at)),
            Some((side, at)) => (side.burst_bytes(at), 0),
            None => (0, 0),
        };
        let ((hbm_read, cmem_read), (hbm_write, cmem_write)) = (of(source), of(destination));
        Traffic { hbm_read, hbm_write, cmem_read, cmem_write }
    }

    /// Whether the bytes of a side begin in CMEM.
    fn in_cmem(&self, side: &Side, at: i64) -> bool {
        at + side.lo >= self.cmem_at
    }

    /// Takes an engine and bandwidth for a transfer that issued at cycle `now.0`.
    pub fn start(&mut self, g: &Geometry, src: i64, dst: i64, now: Dated) -> Slot {
        let source = (g.src == Space::Hbm).then_some((&g.from, src));
        let destination = (g.dst == Space::Hbm).then_some((&g.to, dst));
        let moved = self.moved(source, destination);
        let ((begin, blame), engine) = self.engine(g, now);
        let from = (begin << 8, blame);
        let mut latency = self.chaos(engine);
        let mut done = (begin + engine, blame.engine(engine));
        let near = [source, destination].map(|s| s.map(|(side, at)| self.in_cmem(side, at)));
        if near.contains(&Some(false)) {
            let bytes = moved.hbm_read as f64 * g.from.slow + moved.hbm_write as f64 * g.to.slow;
            let service = nearest(bytes * self.per_hbm_byte);
            self.queue(from, service * self.parts);
            self.hbm_busy += service;
            if let Some(idle) = self.idle.as_mut().filter(|i| self.hbm_free > i.from + Idle::SHORT) {
                idle.until(self.hbm_free, self.hbm_busy);
            }
            done = later(done, (self.hbm_free.div_ceil(256), self.hbm_blame));
        }
        let ways = [(&mut self.cmem_read, moved.cmem_read), (&mut self.cmem_write, moved.cmem_write)];
        for (near, (way, bytes)) in near.into_iter().zip(ways) {
            match near {
                Some(true) => {
                    let (end, blame) = way.serve(bytes, from, self.parts);
                    done = later(done, (end.div_ceil(256), blame));
                    latency += self.cmem_latency;
                }
                Some(false) => latency += self.latency,
                None => {}
            }
        }
        let (end, blame) = (done.0 + latency, done.1.latency(latency));
        self.hold((end, blame));
        self.busy += end.saturating_sub(begin.max(self.busy_until));
        self.busy_until = self.busy_until.max(end);
        Slot { begin, end, blame, moved }
    }

    /// Puts `service` 1/256 cycles of HBM behind what it does already, from a time in 1/256 cycles on.
    fn queue(&mut self, from: Dated, service: u64) {
        let (at, blame) = later((self.hbm_free, self.hbm_blame), from);
        (self.hbm_free, self.hbm_blame) = (at + service, blame.bandwidth(service));
    }

    /// Takes an engine and bandwidth for the source of a transfer to another device that issued at cycle `now`: when its
    /// head leaves for the interconnect, and the bytes read.
    pub fn send(&mut self, g: &Geometry, src: i64, now: Dated) -> (u64, Traffic) {
        let moved = self.moved((g.src == Space::Hbm).then_some((&g.from, src)), None);
        let ((begin, blame), engine) = self.engine(g, now);
        let head = match (moved.hbm_read, moved.cmem_read) {
            (0, 0) => begin,
            (0, _) => begin + self.cmem_latency,
            (_, _) => begin + self.latency,
        };
        self.hold((begin + engine, blame.engine(engine)));
        self.busy += (begin + engine).saturating_sub(begin.max(self.busy_until));
        self.busy_until = self.busy_until.max(begin + engine);
        (head, moved)
    }

    /// Takes the engine that is free first for a transfer that issued at cycle `now.0`: when it begins, and for how long.
    fn engine(&mut self, g: &Geometry, now: Dated) -> (Dated, u64) {
        let first = self.engines[0];
        let at = first.number();
        let free = (first.free(), self.blames[at]);
        let full = self.under_way.len() >= self.places;
        let place = if full { self.under_way.pop_front().unwrap_or_default() } else { Dated::default() };
        let own = (now.0 + self.issue, now.1.latency(self.issue));
        let (begin, blame) = later(later(own, free), place);
        let cycles = above((g.chunks as f64 * self.per_chunk).max(g.bytes as f64 * self.per_byte));
        let cycles = cycles.max(self.descriptor);
        self.blames[at] = blame.engine(cycles);
        // Mostly it is free behind all others.
        let again = Engine::new(at, begin + cycles);
        let mut place = 0;
        while let Some(&other) = self.engines.get(place + 1).filter(|e| **e < again) {
            self.engines[place] = other;
            place += 1;
        }
        self.engines[place] = again;
        ((begin, blame), cycles)
    }

    /// Takes a place among the transfers under way until a cycle.
    fn hold(&mut self, end: Dated) {
        // Mostly it is the last to end.
        if self.under_way.back().is_none_or(|last| last.0 <= end.0) {
            return self.under_way.push_back(end);
        }
        let at = self.under_way.partition_point(|e| e.0 <= end.0);
        self.under_way.insert(at, end);
    }

    /// Takes bandwidth for the source of a transfer to another device that the first link has taken by cycle `at`.
    pub fn left(&mut self, g: &Geometry, src: i64, at: u64) {
        if g.src == Space::Hbm && self.in_cmem(&g.from, src) {
            self.cmem_read.serve(g.bytes, (at << 8, Blame::default()), self.parts);
        } else if g.src == Space::Hbm {
            let service = nearest(g.bytes as f64 * self.per_hbm_byte) / 256;
            self.serve(g.bytes, at.saturating_sub(service));
        }
    }

    /// Takes bandwidth for the destination of a transfer whose last byte arrives at cycle `at`: when it is in place, and
    /// the bytes written.
    pub fn receive(&mut self, g: &Geometry, dst: i64, at: u64) -> (u64, Traffic) {
        if g.dst != Space::Hbm {
            return (at, Traffic::default());
        }
        let moved = self.moved(None, Some((&g.to, dst)));
        if self.in_cmem(&g.to, dst) {
            let (done, _) = self.cmem_write.serve(moved.cmem_write, (at << 8, Blame::default()), self.parts);
            return (done.div_ceil(256) + self.cmem_latency, moved);
        }
        let bytes = moved.hbm_write;
        let service = nearest(bytes as f64 * self.per_hbm_byte) / 256;
        // The bytes went in while they arrived.
        let done = self.serve(bytes, at.saturating_sub(service));
        (at.max(done.div_ceil(256)) + self.latency, moved)
    }

    /// Takes bandwidth from a cycle on, which may be behind what is known; when it is served, in 1/256 cycles.
    fn serve(&mut self, bytes: u64, from: u64) -> u64 {
        let service = nearest(bytes as f64 * self.per_hbm_byte);
        let from = from << 8;
        let (mut need, mut done) = (service, from);
        if let Some(idle) = &mut self.idle {
            idle.until(self.hbm_free, self.hbm_busy);
            (need, done) = idle.take(from, service);
            idle.busy += service - need;
        }
        self.hbm_busy += service;
        if need > 0 {
            // What leads to the arrival of another device's message is not followed.
            self.queue((from, self.hbm_blame), need);
            done = self.hbm_free;
        }
        done
    }

    /// Counters: cycles in which transfers are in progress; 1/256 cycles of HBM and of both ways of CMEM.
    pub fn counters(&mut self) -> [&mut u64; 4] {
        [&mut self.busy, &mut self.hbm_busy, &mut self.cmem_read.busy, &mut self.cmem_write.busy]
    }

    /// Cycles of the busiest memory at its bandwidth.
    pub fn served(&self) -> f64 {
        self.hbm_busy.max(self.cmem_read.busy).max(self.cmem_write.busy) as f64 / 256.0
    }

    /// Whether addresses stay in HBM or in CMEM when a side moves from one place to another.
    pub fn same_memory(&self, from: i64, to: i64) -> bool {
        (from >= self.cmem_at) == (to >= self.cmem_at)
    }

    /// Cycles from a start to its first request.
    pub fn issue(&self) -> u64 {
        self.issue
    }

    /// Appends the state that decides later times, relative to cycle `now.0`, the last issue.
    pub fn relative(&self, now: Dated, out: &mut Vec<u64>) {
        let (cycle, from) = now;
        let dated = |e: Dated, at: u64| match e.0 > at {
            true => (e.0 - at, e.1.relative(from)),
            // What it depended on is over.
            false => (0, Parts::default()),
        };
        let flat = |(time, blame): (u64, Parts)| std::iter::once(time).chain(blame);
        // Which engine is free does not matter.
        let mut engines: Vec<_> =
            self.engines.iter().map(|e| dated((e.free(), self.blames[e.number()]), cycle)).collect();
        engines.sort_unstable();
        out.extend(engines.into_iter().flat_map(flat));
        // Transfers that have ended take no place.
        let ended = self.under_way.partition_point(|e| e.0 <= cycle);
        out.extend(self.under_way.iter().skip(ended).flat_map(|e| flat(dated(*e, cycle))));
        out.push(u64::MAX);
        let servers = [(self.hbm_free, self.hbm_blame), self.cmem_read.free, self.cmem_write.free];
        out.extend(servers.into_iter().flat_map(|s| flat(dated(s, cycle << 8))));
        out.extend([self.busy_until.saturating_sub(cycle), self.parts]);
    }

    /// Moves all times by `cycles`.
    pub fn shift(&mut self, cycles: u64) {
        self.engines.iter_mut().for_each(|e| *e = Engine::new(e.number(), e.free() + cycles));
        self.under_way.iter_mut().for_each(|e| e.0 += cycles);
        self.hbm_free += cycles << 8;
        self.cmem_read.free.0 += cycles << 8;
        self.cmem_write.free.0 += cycles << 8;
        self.busy_until += cycles;
    }

    fn chaos(&mut self, engine: u64) -> u64 {
        let Some(s) = &mut self.rng else { return 0 };
        *s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*s >> 33) % (4 * engine + 2000)
    }
}

/// Bytes that semaphores hold and will receive.
#[derive(Clone, Debug)]
pub(crate) struct Semaphores(Vec<Semaphore>);

/// What makes a semaphore grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A copy of this core: what its end depends on.
    Copy(Blame),
    /// A message, or one that was sent: the cycle from which it was on its way.
    Link(u64),
}

impl By {
    /// What a wait for it is called by, from the time of the last bundle on.
    pub fn cause(self, from: Blame) -> Cause {
        match self {
            By::Copy(blame) => blame.cause(from),
            By::Link(_) => Cause::Link,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Semaphore {
    count: u64,
    /// Transfers to complete, by time: (end, bytes, what for).
    arrivals: Vec<(u64, u64, By)>,
}

impl Semaphores {
    pub fn new(n: usize) -> Semaphores {
        Semaphores(vec![Semaphore::default(); n])
    }

    /// A transfer will add `bytes` at cycle `end`.
    pub fn add(&mut self, sem: usize, end: u64, bytes: u64, by: By) {
        let a = &mut self.0[sem].arrivals;
        if a.last().is_none_or(|last| last.0 <= end) {
            return a.push((end, bytes, by));
        }
        let at = a.partition_point(|x| x.0 <= end);
        a.insert(at, (end, bytes, by));
    }

    /// When the semaphore holds `bytes`, and by what (none if it does already); `Err` with what it will ever hold if that
    /// is less.
    pub fn ready(&self, sem: usize, bytes: u64) -> Result<(u64, Option<By>), u64> {
        let s = &self.0[sem];
        let mut have = s.count;
        let mut at = (0, None);
        for &(end, n, by) in &s.arrivals {
            if have >= bytes {
                break;
            }
            have += n;
            at = (end, Some(by));
        }
        if have >= bytes { Ok(at) } else { Err(have) }
    }

    /// Subtracts `bytes` at cycle `now`.
    pub fn take(&mut self, sem: usize, bytes: u64, now: u64) {
        let s = &mut self.0[sem];
        let n = s.arrivals.partition_point(|x| x.0 <= now);
        s.count += s.arrivals.drain(..n).map(|x| x.1).sum::<u64>();
        s.count = s.count.saturating_sub(bytes);
    }

    /// Appends what semaphores hold and will receive, relative to cycle `now.0`.
    pub fn relative(&self, (now, from): Dated, out: &mut Vec<u64>) {
        for (i, s) in self.0.iter().enumerate().filter(|s| s.1.count > 0 || !s.1.arrivals.is_empty()) {
            out.extend([i as u64, s.count]);
            for &(end, bytes, by) in &s.arrivals {
                out.extend([end.saturating_sub(now), bytes]);
                match by {
                    By::Copy(blame) if end > now => out.extend(blame.relative(from)),
                    By::Copy(_) => out.push(0),
                    By::Link(sent) => out.extend([1, sent.saturating_sub(now)]),
                }
            }
        }
        out.push(u64::MAX - 1);
    }

    /// Moves all times by `cycles`.
    pub fn shift(&mut self, cycles: u64) {
        for (end, _, by) in self.0.iter_mut().flat_map(|s| &mut s.arrivals) {
            *end += cycles;
            if let By::Link(sent) = by {
                *sent += cycles;
            }
        }
    }

    /// All that the semaphore holds or will receive.
    pub fn total(&self, sem: usize) -> u64 {
        let s = &self.0[sem];
        s.count + s.arrivals.iter().map(|a| a.1).sum::<u64>()
    }

    /// Semaphores that are not at zero with nothing to come.
    pub fn unbalanced(&self) -> Vec<(u32, u64)> {
        (0..self.0.len()).map(|i| (i as u32, self.total(i))).filter(|s| s.1 > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_those_of_the_library() {
        let mut seed = 5u64;
        let mut some = vec![0.0, 0.5, 0.499_999_999_999_999_94, 1.5, 2.5, 4.5e15, 1e16, 1.5e19, 1e300, f64::INFINITY];
        for _ in 0..100_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            some.push((seed >> 11) as f64 / (1u64 << (seed % 53)) as f64);
            some.push((seed >> 40) as f64 / 2.0);
        }
        for x in some.into_iter().flat_map(|x: f64| [x, x.next_up(), x.next_down().max(0.0)]) {
            assert_eq!((nearest(x), above(x)), (x.round() as u64, x.ceil() as u64), "{x}");
        }
    }
}
