//! What is to come in a pod, in the order in which it is taken.

use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What an event is, in the order in which events of one moment are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Hop,
    Sent,
    Arrive,
    /// A device looks at a semaphore.
    Look,
}

const KINDS: [Kind; 4] = [Kind::Hop, Kind::Sent, Kind::Arrive, Kind::Look];
/// Bits of a message's number at its sender, of a kind, and of a place.
const ORDER: u32 = 40;
const KIND: u32 = 2;
const PLACE: u32 = 30;
/// More hops than any way has.
pub(super) const LAST: u32 = (1 << (64 - ORDER)) - 1;

/// An event. Of one time, those with fewer hops behind their message come first, then messages that are older at their
/// senders, then those with a shorter way to their senders (the way, not the sender: what is decided among messages is then
/// decided alike at every chip). Packed, since most of what a large pod does is to keep these in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    at: u64,
    turn: u64,
    what: u64,
}

impl Event {
    /// `place`: of a look the device's among the simulated ones, else the message's.
    pub fn new(at: u64, (hops, order, way): (u32, u64, u32), kind: Kind, place: usize) -> Event {
        debug_assert!(hops <= LAST && order >> ORDER == 0 && place >> PLACE == 0);
        let turn = u64::from(hops) << ORDER | order;
        let what = u64::from(way) << (KIND + PLACE) | (kind as u64) << PLACE | place as u64;
        Event { at, turn, what }
    }

    /// When it happens, in ticks.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Hops behind its message.
    pub fn hops(&self) -> u32 {
        (self.turn >> ORDER) as u32
    }

    /// The message's number at its sender.
    pub fn order(&self) -> u64 {
        self.turn & ((1 << ORDER) - 1)
    }

    pub fn kind(&self) -> Kind {
        KINDS[(self.what >> PLACE) as usize & (KINDS.len() - 1)]
    }

    pub fn place(&self) -> usize {
        self.what as usize & ((1 << PLACE) - 1)
    }
}

/// Events in order. Devices that do the same have events at the same moments, so that there are far fewer moments than events: each
/// moment's are put in order when it comes.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The moments behind the present one.
    moments: BinaryHeap<Reverse<u64>>,
    behind: FxHashMap<u64, Vec<Event>>,
    /// The present moment, and what is left of the events until then, the next one last.
    now: u64,
    left: Vec<Event>,
    /// Memory for later moments.
    spare: Vec<Vec<Event>>,
}

impl Queue {
    /// Adds an event.
    pub fn push(&mut self, event: Event) {
        if event.at <= self.now && !self.left.is_empty() {
            let place = self.left.partition_point(|e| *e > event);
            self.left.insert(place, event);
            return;
        }
        let moment = self.behind.entry(event.at).or_insert_with(|| {
            self.moments.push(Reverse(event.at));
            self.spare.pop().unwrap_or_default()
        });
        moment.push(event);
    }

    /// When the next event happens.
    pub fn next(&self) -> Option<u64> {
        self.left.last().map(|e| e.at).or_else(|| self.moments.peek().map(|m| m.0))
    }

    /// Takes the next event if it happens before a moment.
    pub fn pop_before(&mut self, until: u64) -> Option<Event> {
        if self.next()? >= until {
            return None;
        }
        if self.left.is_empty() {
            let Reverse(now) = self.moments.pop()?;
            let mut events = self.behind.remove(&now)?;
            events.sort_unstable_by(|a, b| b.cmp(a));
            self.now = now;
            self.spare.push(std::mem::replace(&mut self.left, events));
        }
        self.left.pop()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty() && self.moments.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_gives_what_a_heap_gives() {
        let (mut queue, mut heap) = (Queue::default(), BinaryHeap::new());
        let mut below = crate::draws::draws(1);
        let mut clock = 0;
        for place in 0..20_000 {
            let kind = KINDS[below(4) as usize];
            let event = Event::new(clock + below(6), (below(3) as u32, below(9), below(3) as u32), kind, place);
            queue.push(event);
            heap.push(Reverse(event));
            while below(2) == 0 && !heap.is_empty() {
                assert_eq!(queue.next(), heap.peek().map(|e| e.0.at()));
                let until = clock + below(5);
                let expected = heap.peek().is_some_and(|e| e.0.at() < until).then(|| heap.pop().map(|e| e.0)).flatten();
                assert_eq!(queue.pop_before(until), expected);
                clock = expected.map_or(clock, |e| e.at());
            }
        }
        while let Some(Reverse(event)) = heap.pop() {
            assert_eq!(queue.pop_before(u64::MAX), Some(event));
        }
        assert!(queue.is_empty() && queue.next().is_none());
    }

    #[test]
    fn events_are_in_order_and_give_back_what_they_were_made_of() {
        let mut all = Vec::new();
        for at in [0, 7, u64::MAX] {
            for hops in [0, 1, LAST] {
                for order in [0, 1, (1 << ORDER) - 1] {
                    for way in [0, 1, u32::MAX] {
                        for kind in KINDS {
                            for place in [0, 1, (1 << PLACE) - 1] {
                                let e = Event::new(at, (hops, order, way), kind, place);
                                assert_eq!((e.at(), e.hops(), e.order()), (at, hops, order));
                                assert_eq!((e.kind(), e.place()), (kind, place));
                                all.push(e);
                            }
                        }
                    }
                }
            }
        }
        assert!(all.is_sorted() && all.windows(2).all(|w| w[0] != w[1]));
    }
}
