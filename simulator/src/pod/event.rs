//! What is to come in a pod, in the order in which it is taken.

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

#[cfg(test)]
mod tests {
    use super::*;

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
