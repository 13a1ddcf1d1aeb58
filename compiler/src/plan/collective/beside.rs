//! Exchanges that run at the same time: by rings, on links, semaphores, words of state and vector memory of their own.
//!
//! Rings of one array keep to the same phase, since they share links. Exchanges beside each other share none: each goes on
//! when what it waits for is there. Where the core has to wait, it waits for the one that is least far by estimate, so that
//! all devices wait in one order.

use super::ring::{MOST_SPAN, SHARE};
use super::{Exchange, MOST_RINGS, PodPlan, Ring, STREAMS, phase_cycles};
use systole_isa::ChipConfig;

/// Where the numbers of an exchange's rings and streams begin that runs beside others.
struct Numbers {
    rings: usize,
    streams: usize,
}

impl PodPlan {
    /// Puts an exchange beside another if both can run at the same time; gives it back if not.
    pub fn put_beside(&mut self, x: &mut Exchange, mut y: Exchange, chip: &ChipConfig) -> Option<Exchange> {
        if !self.go_together(x, &y, chip) {
            return Some(y);
        }
        let at = numbers(x);
        if !self.renumber(&mut y, &at) {
            return Some(y);
        }
        x.beside.push(y);
        for r in x.all_rings_mut() {
            set_spans(r, chip);
        }
        None
    }

    fn go_together(&self, x: &Exchange, y: &Exchange, chip: &ChipConfig) -> bool {
        let by_rings = x.all().chain(y.all()).all(|x| !x.how.rings().is_empty());
        let links = |x: &Exchange| x.all_rings().fold(0, |all, r| all | r.links);
        let slots = |x: &Exchange| x.all_rings().map(|r| r.slots(chip.core.sublanes)).sum::<u64>();
        let at = numbers(x);
        by_rings
            && y.beside.is_empty()
            && links(x) & links(y) == 0
            && at.rings + y.how.rings().len() <= MOST_RINGS as usize
            && at.streams + streams(y) <= STREAMS as usize
            && slots(x) + slots(y) <= chip.vmem_rows() * SHARE.0 / SHARE.1
    }

    /// Gives rings and streams semaphores by other numbers, if there are so many.
    fn renumber(&mut self, y: &mut Exchange, at: &Numbers) -> bool {
        let (rings, streams) = (y.how.rings().len(), streams(y));
        let of_rings = (at.rings..at.rings + rings).map(|m| [format!("local {m}"), format!("stored {m}")]);
        let of_streams = (at.streams..at.streams + streams).map(|s| [format!("send {s}"), format!("recv {s}")]);
        let (of_rings, of_streams): (Vec<_>, Vec<_>) = (of_rings.collect(), of_streams.collect());
        let names: Vec<String> = of_rings.iter().chain(&of_streams).flatten().cloned().collect();
        if !self.has_semaphores(&names) {
            return false;
        }
        let mut of = |name: &String, old: u32| self.semaphore(name).unwrap_or(old);
        let mut streams = of_streams.iter();
        for (r, [local, stored]) in y.how.rings_mut().iter_mut().zip(&of_rings) {
            (r.local, r.stored) = (of(local, r.local), of(stored, r.stored));
            for (s, [send, recv]) in r.streams.iter_mut().zip(&mut streams) {
                (s.send, s.recv) = (of(send, s.send), of(recv, s.recv));
            }
        }
        true
    }
}

/// The numbers that follow those of an exchange: of streams an even one, since the parity of receiving semaphores decides
/// between ways of equal length.
fn numbers(x: &Exchange) -> Numbers {
    let mut at = Numbers { rings: 0, streams: 0 };
    for x in x.all() {
        at.rings += x.how.rings().len();
        at.streams = (at.streams + streams(x)).next_multiple_of(2);
    }
    at
}

/// Streams of an exchange, without those beside it.
fn streams(x: &Exchange) -> usize {
    x.how.rings().iter().map(|r| r.streams.len()).sum()
}

/// Phases count as their estimated cycles, so that those of different exchanges compare.
fn set_spans(r: &mut Ring, chip: &ChipConfig) {
    let shape = r.clone();
    for p in r.all_phases_mut().filter(|p| p.span == 0) {
        p.span = phase_cycles(&shape, p, chip).min(f64::from(MOST_SPAN)) as u32;
    }
}
