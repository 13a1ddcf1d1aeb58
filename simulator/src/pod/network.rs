//! Links between chips: routes, queues, contention, faults.
//!
//! A message moves head first (cut through): at each link it waits until the link is free, keeps it for its bytes at the
//! link's rate, and its head is one hop latency further then. Links serve in the order in which heads arrive; of heads that
//! arrive in the same instant, the one with fewer hops behind it first, then the older of its sender. So the outcome
//! depends on nothing but the messages. Times are in 1/256 cycles.

use super::fold::Fold;
use crate::issue::remote::Message;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use systole_isa::chip::ChipConfig;
use systole_isa::topology::{Hop, Topology};

/// Units of a cycle in which the network counts.
pub(super) const TICKS: u64 = 256;

/// A link that breaks or slows down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkFault {
    /// The chips at its ends; both directions are affected.
    pub chips: (u32, u32),
    /// Share of the rate that is left: 0 for a link that is down.
    pub factor: f64,
    /// From this cycle on.
    pub from: u64,
}

/// One direction of a link.
#[derive(Debug, Default)]
pub(super) struct Link {
    free: u64,
    pub busy: u64,
    pub waiting: u64,
    pub bytes: u64,
    pub messages: u64,
    spans: Occupied,
}

impl Link {
    /// When it carried what.
    pub fn spans(self) -> Vec<(u64, u64, u32)> {
        self.spans.all()
    }
}

/// Most spans that a link remembers.
const MAX_SPANS: usize = 1 << 14;

/// Most routes that are kept: pods send along the same ones over and over.
const MAX_ROUTES: usize = 1 << 16;

/// When a link carried what: spans in ticks with the op that sent, in order. Where they are many, spans that begin in the
/// same window of time are joined into one at its start; the sum of their lengths stays the same.
#[derive(Debug)]
struct Occupied {
    /// The last one, which is beside what else a message asks of its link; [`NEVER`] before the first.
    last: (u64, u64, u32),
    before: Vec<(u64, u64, u32)>,
    window: u64,
}

/// In place of a span: it ends before it begins.
const NEVER: (u64, u64, u32) = (1, 0, 0);

impl Default for Occupied {
    fn default() -> Occupied {
        Occupied { last: NEVER, before: Vec::new(), window: 0 }
    }
}

impl Occupied {
    fn push(&mut self, start: u64, taken: u64, op: u32) {
        let window = self.window;
        let near = |a: u64| window > 0 && a / window == start / window;
        let last = &mut self.last;
        if *last != NEVER && last.2 == op && (last.1 == start || near(last.0)) {
            last.1 += taken;
            return;
        }
        let start = start.max(last.1);
        let before = std::mem::replace(last, (start, start + taken, op));
        if before != NEVER {
            self.before.push(before);
        }
        while self.before.len() >= MAX_SPANS {
            self.window = (self.window * 2).max(TICKS * 64);
            self.join();
        }
    }

    /// All of them.
    fn all(mut self) -> Vec<(u64, u64, u32)> {
        self.before.extend((self.last != NEVER).then_some(self.last));
        self.before
    }

    /// Joins what begins in the same window, under the op that came first.
    fn join(&mut self) {
        let mut kept: Vec<(u64, u64, u32)> = Vec::with_capacity(self.before.len() / 2 + 1);
        for &(start, end, op) in self.before.iter().chain([&self.last]) {
            match kept.last_mut() {
                Some(last) if last.0 / self.window.max(1) == start / self.window.max(1) => last.1 += end - start,
                Some(last) => {
                    let start_at = start.max(last.1);
                    kept.push((start_at, start_at + (end - start), op));
                }
                None => kept.push((start, end, op)),
            }
        }
        self.last = kept.pop().unwrap_or(NEVER);
        self.before = kept;
    }
}

/// A hop of a route, with the place of the link that stands for its link, and how its chip lies to the sender ([`Fold::way`]).
#[derive(Clone, Copy, Debug)]
struct Passage {
    hop: Hop,
    link: u32,
    way: u32,
}

/// The links of a message, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Route {
    /// Where they are among those that are kept, unless it has its own.
    first: u32,
    len: u32,
    own: Option<Box<[Passage]>>,
}

impl Route {
    /// Whether the message crosses no link.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn own(passages: Vec<Passage>) -> Route {
        Route { first: 0, len: passages.len() as u32, own: Some(passages.into()) }
    }
}

/// A message under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub message: Message,
    pub route: Route,
    /// When its last byte is at the head's place.
    pub tail: u64,
}

/// Routes that messages took.
#[derive(Debug, Default)]
struct Routes {
    /// By sender: receiver, which of equal ways, and where its passages are, in the order in which they were first taken.
    from: Vec<Vec<(u32, bool, u32, u32)>>,
    /// By sender: the one behind that which was taken last. Programs send to others in the same order over and over.
    next: Vec<u32>,
    places: FxHashMap<(u32, u32, bool), u32>,
    passages: Vec<Passage>,
}

impl Routes {
    /// A route that is kept.
    fn known(&mut self, from: u32, to: u32, tie: bool) -> Option<Route> {
        let list = self.from.get(from as usize)?;
        let next = &mut self.next[from as usize];
        let hint = list.get(*next as usize).or(list.first()).filter(|r| (r.0, r.1) == (to, tie));
        let &(_, _, first, len) = match hint {
            Some(r) => {
                *next = if (*next as usize) < list.len() { *next + 1 } else { 1 };
                r
            }
            None => {
                let at = *self.places.get(&(from, to, tie))?;
                *next = at + 1;
                &list[at as usize]
            }
        };
        Some(Route { first, len, own: None })
    }

    /// Keeps a route, unless there are too many.
    fn keep(&mut self, (from, to, tie): (u32, u32, bool), passages: Vec<Passage>) -> Route {
        if self.places.len() >= MAX_ROUTES {
            return Route::own(passages);
        }
        let senders = self.from.len().max(from as usize + 1);
        self.from.resize_with(senders, Vec::new);
        self.next.resize(senders, 0);
        let list = &mut self.from[from as usize];
        let (first, len) = (self.passages.len() as u32, passages.len() as u32);
        self.places.insert((from, to, tie), list.len() as u32);
        list.push((to, tie, first, len));
        self.passages.extend(passages);
        Route { first, len, own: None }
    }

    /// A passage of a route.
    fn passage(&self, route: &Route, i: usize) -> Passage {
        match &route.own {
            Some(own) => own[i],
            None => self.passages[route.first as usize + i],
        }
    }

    fn all<'r>(&'r self, route: &'r Route) -> &'r [Passage] {
        match &route.own {
            Some(own) => own,
            None => &self.passages[route.first as usize..][..route.len as usize],
        }
    }
}

/// What a hop led to.
pub(super) enum Moved {
    /// The head reaches the next link at this time; how that link's chip lies to the sender.
    Next(u64, u32),
    /// The last byte reaches the device at this time.
    Arrives(u64),
    /// No way is left: the broken link.
    Cut(Hop),
}

/// All links of a pod.
pub(super) struct Network {
    topology: Topology,
    /// Links that stand for those on routes, and their places.
    links: Vec<(Hop, Link)>,
    places: FxHashMap<Hop, u32>,
    routes: Routes,
    /// Bytes, whether inside a chip, and the ticks that a whole link takes for them, of the last message.
    last: (u64, bool, u64),
    /// Ticks per byte.
    per_byte: f64,
    inside_per_byte: f64,
    hop: u64,
    flit: u64,
    faults: Vec<LinkFault>,
    /// Messages that each fault slowed or sent another way.
    met: Vec<u64>,
}

impl Network {
    pub fn new(chip: &ChipConfig, topology: Topology, faults: Vec<LinkFault>) -> Network {
        let per_byte = TICKS as f64 / chip.link_bytes_per_cycle().max(1e-9);
        Network {
            topology,
            links: Vec::new(),
            places: FxHashMap::default(),
            routes: Routes::default(),
            last: (u64::MAX, false, 0),
            per_byte,
            inside_per_byte: per_byte / chip.ici.inside_rate.max(1e-9),
            hop: chip.cycles(chip.ici.hop_latency_s) * TICKS,
            flit: u64::from(chip.ici.flit_bytes.max(1)),
            met: vec![0; faults.len()],
            faults,
        }
    }

    /// The faults, each with the messages that it slowed or sent another way.
    pub fn faults(&self) -> Vec<(LinkFault, u64)> {
        self.faults.iter().copied().zip(self.met.iter().copied()).collect()
    }

    /// The route of a message; of ways of equal length its semaphore decides, so that messages of one purpose stay in order.
    /// `fold`: which links stand for others.
    pub fn route(&mut self, m: &Message, fold: &Fold) -> Route {
        let key = (m.from, m.to, m.recv.is_multiple_of(2));
        if let Some(known) = self.routes.known(key.0, key.1, key.2) {
            return known;
        }
        let hops = self.topology.route(key.0, key.1, key.2);
        let passages = hops.into_iter().map(|hop| self.passage(hop, m.from, fold)).collect();
        self.routes.keep(key, passages)
    }

    fn passage(&mut self, hop: Hop, from: u32, fold: &Fold) -> Passage {
        let (links, stands) = (&mut self.links, fold.link(hop));
        let link = *self.places.entry(stands).or_insert_with(|| {
            links.push((stands, Link::default()));
            links.len() as u32 - 1
        });
        Passage { hop, link, way: fold.way(from, hop.chip) }
    }

    /// The fault that a link has at a time, the worst of several.
    fn fault(&self, hop: Hop, at: u64) -> Option<usize> {
        if self.faults.is_empty() || hop.port == Hop::INSIDE {
            return None;
        }
        let other = self.topology.neighbour(hop)?;
        let ends = |f: &LinkFault| f.chips == (hop.chip, other) || f.chips == (other, hop.chip);
        let active = |f: &LinkFault| ends(f) && at >= f.from.saturating_mul(TICKS);
        let all = self.faults.iter().enumerate().filter(|(_, f)| active(f));
        all.min_by(|a, b| a.1.factor.total_cmp(&b.1.factor)).map(|(i, _)| i)
    }

    /// The share of its rate that a link has at a time.
    fn factor(&self, hop: Hop, at: u64) -> f64 {
        self.fault(hop, at).map_or(1.0, |i| self.faults[i].factor)
    }

    /// Counts a message that meets a fault of a link; whether the link is down.
    fn meet(&mut self, hop: Hop, at: u64) -> bool {
        let Some(i) = self.fault(hop, at) else { return false };
        self.met[i] += 1;
        self.faults[i].factor <= 0.0
    }

    /// The shortest way between chips over links that work at a time.
    fn around(&self, from: u32, to: u32, at: u64) -> Option<Vec<Hop>> {
        let mut came: FxHashMap<u32, Hop> = FxHashMap::default();
        let mut queue = VecDeque::from([from]);
        while let Some(chip) = queue.pop_front() {
            if chip == to {
                let mut route = Vec::new();
                let mut back = to;
                while back != from {
                    let hop = *came.get(&back)?;
                    route.push(hop);
                    back = hop.chip;
                }
                route.reverse();
                return Some(route);
            }
            for port in 0..self.topology.ports() {
                let hop = Hop { chip, port };
                if let Some(next) = self.topology.neighbour(hop)
                    && next != from
                    && self.factor(hop, at) > 0.0
                    && !came.contains_key(&next)
                {
                    came.insert(next, hop);
                    queue.push_back(next);
                }
            }
        }
        None
    }

    /// Moves the head of a message over its hop number `i` from time `at` on; `fold`: which links stand for others.
    pub fn advance(&mut self, f: &mut Flight, i: usize, at: u64, fold: &Fold) -> Moved {
        let Passage { mut hop, mut link, .. } = self.routes.passage(&f.route, i);
        if !self.faults.is_empty() && self.meet(hop, at) {
            let before = self.routes.all(&f.route).to_vec();
            let inside = before.last().filter(|p| p.hop.port == Hop::INSIDE).copied();
            let target = self.topology.chip_of(f.message.to);
            let Some(way) = self.around(hop.chip, target, at) else { return Moved::Cut(hop) };
            let way: Vec<Passage> = way.into_iter().map(|hop| self.passage(hop, f.message.from, fold)).collect();
            f.route = Route::own(before[..i].iter().copied().chain(way).chain(inside).collect());
            Passage { hop, link, .. } = self.routes.passage(&f.route, i);
            self.meet(hop, at);
        }
        let taken = self.taken(f.message.bytes, hop, at);
        let link = &mut self.links[link as usize].1;
        let start = at.max(link.free);
        link.free = start + taken;
        link.busy += taken;
        link.waiting += start - at;
        link.bytes += f.message.bytes;
        link.messages += 1;
        link.spans.push(start, taken, f.message.op);
        f.tail = (f.tail + self.hop).max(start + taken + self.hop);
        match i + 1 < f.route.len as usize {
            true => Moved::Next(start + self.hop, self.routes.passage(&f.route, i + 1).way),
            false => Moved::Arrives(f.tail),
        }
    }

    /// How long a link is taken by a message's bytes.
    fn taken(&mut self, bytes: u64, hop: Hop, at: u64) -> u64 {
        let inside = hop.port == Hop::INSIDE;
        let sound = self.faults.is_empty();
        if sound && (self.last.0, self.last.1) == (bytes, inside) {
            return self.last.2;
        }
        let per_byte = if inside { self.inside_per_byte } else { self.per_byte };
        let flits = bytes.max(1).div_ceil(self.flit) * self.flit;
        let taken = (flits as f64 * per_byte / self.factor(hop, at).max(1e-9)).round() as u64;
        if sound {
            self.last = (bytes, inside, taken);
        }
        taken
    }

    /// When the first link of a message has taken its last byte, if it began at `start`.
    pub fn left(&self, f: &Flight) -> u64 {
        f.tail.saturating_sub(self.hop)
    }

    /// What links carried, by link.
    pub fn carried(&mut self) -> Vec<(Hop, Link)> {
        let mut all = std::mem::take(&mut self.links);
        all.retain(|l| l.1.messages > 0);
        all.sort_by_key(|l| l.0);
        all
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::remote::Content;

    #[test]
    fn spans_of_a_link_stay_few_and_keep_their_sum() {
        let mut link = Occupied::default();
        let (mut at, mut sum) = (0, 0);
        for i in 0..100_000u64 {
            let taken = 100 + i % 700;
            link.push(at, taken, (i / 50 % 3) as u32);
            at += taken + i % 5 * 300;
            sum += taken;
        }
        let spans = link.all();
        assert!(spans.len() <= MAX_SPANS);
        assert_eq!(spans.iter().map(|s| s.1 - s.0).sum::<u64>(), sum);
        assert!(spans.windows(2).all(|w| w[0].1 <= w[1].0), "in order, none over another");
    }

    #[test]
    fn a_message_has_left_when_its_first_link_has_its_last_byte() {
        let mut chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
        chip.apply_sets(&["ici.hop_latency=1 us"]).expect("in range");
        let topology = Topology::parse("1x4", &chip).expect("four in a row");
        let mut network = Network::new(&chip, topology, Vec::new());
        let bytes = network.flit * 1000;
        let content = Content::Signal;
        let message = Message { from: 0, to: 1, at: 0, recv: 0, bytes, bundle: 0, op: 0, content };
        let fold = Fold::new(network.topology(), 4, None);
        let route = network.route(&message, &fold);
        let mut f = Flight { message, route, tail: 0 };
        let at = 50 * TICKS;
        let Moved::Arrives(there) = network.advance(&mut f, 0, at, &fold) else { panic!("one link") };
        let taken = (bytes as f64 * TICKS as f64 / chip.link_bytes_per_cycle()).round() as u64;
        assert_eq!(network.left(&f), at + taken);
        assert_eq!(there, at + taken + chip.cycles(1e-6) * TICKS, "the last byte's way is a hop longer");
    }
}
