//! What a time depends on: how many cycles of bandwidth, latency and engines are on the way that leads to it.
//!
//! A copy's end follows from the times before it by additions (its service, its latency) and by the later of two times (the
//! engine's and its own start). So it can be followed back through the queues, and through the copies that the core waited
//! for before it started this one: of two times the way leads through the later. The sums along the way are how much the
//! time changes with each parameter. What a wait is called by is the largest part of its own stretch of the way: if that
//! parameter were better, the wait would be shorter.

use crate::stats::Cause;

/// Sums along the way to a time, since the program's start. Only differences mean something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blame {
    /// HBM at its bandwidth, in 1/256 cycles.
    pub bandwidth: u64,
    /// Cycles of HBM's latency and of the way from a start to its first request.
    pub latency: u64,
    /// Cycles in which an engine moved data or began chunks.
    pub engine: u64,
    /// CMEM at its bandwidth, in 1/256 cycles.
    pub cmem: u64,
}

/// The parts of a way: HBM's bandwidth, latency, engines, CMEM's bandwidth.
pub(crate) type Parts = [u64; 4];

impl Blame {
    pub fn bandwidth(self, ticks: u64) -> Blame {
        Blame { bandwidth: self.bandwidth.wrapping_add(ticks), ..self }
    }

    pub fn latency(self, cycles: u64) -> Blame {
        Blame { latency: self.latency.wrapping_add(cycles), ..self }
    }

    pub fn engine(self, cycles: u64) -> Blame {
        Blame { engine: self.engine.wrapping_add(cycles), ..self }
    }

    pub fn cmem(self, ticks: u64) -> Blame {
        Blame { cmem: self.cmem.wrapping_add(ticks), ..self }
    }

    /// What is on the way from another time, in 1/256 cycles. The way to a later time need not lead through an
    /// earlier one; what is on the other's alone counts nothing.
    pub fn since(self, from: Blame) -> Parts {
        let part = |a: u64, b: u64| (a.wrapping_sub(b) as i64).max(0) as u64;
        [
            part(self.bandwidth, from.bandwidth),
            part(self.latency, from.latency) << 8,
            part(self.engine, from.engine) << 8,
            part(self.cmem, from.cmem),
        ]
    }

    /// What a wait from one time to this is called by.
    pub fn cause(self, from: Blame) -> Cause {
        let [bandwidth, latency, engine, cmem] = self.since(from);
        // Of equal parts the last.
        let parts = [(cmem, Cause::Cmem), (engine, Cause::Dma), (latency, Cause::Latency), (bandwidth, Cause::Hbm)];
        parts.into_iter().max_by_key(|p| p.0).map_or(Cause::Hbm, |p| p.1)
    }

    /// The differences from another time as they are compared between rounds of a loop.
    pub fn relative(self, from: Blame) -> Parts {
        [
            self.bandwidth.wrapping_sub(from.bandwidth),
            self.latency.wrapping_sub(from.latency),
            self.engine.wrapping_sub(from.engine),
            self.cmem.wrapping_sub(from.cmem),
        ]
    }
}

/// A time in cycles (or 1/256 of them) and what it depends on.
pub(crate) type Dated = (u64, Blame);

/// When what a bundle waits for is there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// Copies of this core.
    pub copy: Dated,
    /// Messages, and the cycle from which they were on their way.
    pub message: (u64, u64),
}

/// The later of two times.
pub(crate) fn later(a: Dated, b: Dated) -> Dated {
    if b.0 > a.0 { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_called_by_the_largest_part_of_its_way() {
        let start = Blame::default().bandwidth(500).latency(40);
        assert_eq!(start.bandwidth(300 << 8).latency(299).cause(start), Cause::Hbm);
        assert_eq!(start.bandwidth(300 << 8).latency(301).cause(start), Cause::Latency);
        assert_eq!(start.engine(302).bandwidth(300 << 8).latency(301).cause(start), Cause::Dma);
        assert_eq!(start.cmem(303 << 8).engine(302).latency(301).cause(start), Cause::Cmem);
        // A way that does not lead through the other time: less of one part is none of it.
        assert_eq!(Blame::default().bandwidth(600).cause(start), Cause::Hbm);
    }
}
