//! A pod: machines joined by links, run together.
//!
//! Every device runs alone until it waits for others; its messages carry the times at which they reach the interconnect.
//! When no device can go on, the messages' events are taken in order of time, in stretches shorter than the time from an
//! instruction's issue to its message's first link: nothing that a device does in answer to an event of a stretch can fall
//! into the same stretch. So devices that were woken in a stretch run side by side, on any number of host threads, and the
//! outcome is always the same. Where no device can go on and no message is under way, the pod is in a deadlock.
//!
//! In timing-only runs of programs whose devices behave alike every so many chips along axes that wrap around, one device
//! stands for all that are alike ([`fold`]): what it sends to another it gets from the opposite one at the same time.

mod event;
mod fold;
mod network;

use event::{Event, Kind, Queue};
use fold::Fold;
pub use network::LinkFault;
use network::{Flight, Moved, Network, Route, TICKS};

use crate::fault::{CoreId, Fault, FaultKind};
use crate::issue::memo::Pool;
use crate::issue::remote::{Blocked, Message};
use crate::load::Loaded;
use crate::machine::{HostRangeError, Machine};
use crate::options::{Mode, NoObserver, Observer, RunOptions};
use crate::stats::{RunResult, Totals};
use crate::team::{Seats, Team};
use rayon::prelude::*;
use std::sync::Arc;
use systole_isa::topology::{Hop, Topology};

/// Machines of one program on a topology.
pub struct Pod {
    loaded: Arc<Loaded>,
    topology: Topology,
    machines: Vec<Machine>,
    fold: Fold,
    faults: Vec<LinkFault>,
}

/// What one direction of a link did.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkReport {
    /// The chips at its ends; equal for the link between the devices of a chip.
    pub from: u32,
    pub to: u32,
    /// Axis of the topology; none inside a chip and in fully connected pods.
    pub axis: Option<u32>,
    pub bytes: u64,
    pub messages: u64,
    /// Cycles in which it carried something, and in which heads of messages waited for it, summed over messages.
    pub busy: f64,
    pub waiting: f64,
    /// When it carried what: first cycle, cycle after the last, debug op of the sender. In order; where they were many,
    /// neighbours are joined (the sum of their lengths stays).
    pub spans: Vec<(u64, u64, u32)>,
}

/// What the messages of one operation did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpTraffic {
    /// Debug op.
    pub op: u32,
    pub bytes: u64,
    /// Bytes times the links that they crossed.
    pub link_bytes: u64,
    pub messages: u64,
    /// First head at a link, last byte in place.
    pub start: u64,
    pub end: u64,
}

/// What a pod's run gave.
#[derive(Clone, Debug)]
pub struct PodRun {
    /// One result for each simulated device.
    pub devices: Vec<RunResult>,
    pub links: Vec<LinkReport>,
    pub traffic: Vec<OpTraffic>,
    /// The faults of links, each with the messages that it slowed or sent another way.
    pub faults: Vec<(LinkFault, u64)>,
    /// Devices that each simulated one stood for, itself among them.
    pub stands_for: u32,
}

impl PodRun {
    /// The run of one device by itself.
    pub fn alone(result: RunResult) -> PodRun {
        PodRun { devices: vec![result], links: Vec::new(), traffic: Vec::new(), faults: Vec::new(), stands_for: 1 }
    }

    /// Cycles of the slowest device.
    pub fn cycles(&self) -> u64 {
        self.devices.iter().map(|d| d.cycles).max().unwrap_or(0)
    }
}

/// Bundles of a round after which it goes on with several threads: what waking them costs is more than fewer take.
const ALONE: u64 = 1 << 13;
/// The same where numbers are computed.
const ALONE_WITH_NUMBERS: u64 = 1 << 8;

/// A device in a run.
struct Slot<'a> {
    team: Team<'a>,
    done: bool,
    runnable: bool,
    error: Option<Fault>,
    sent: u64,
}

impl Pod {
    /// Machines for the program's devices.
    ///
    /// # Errors
    /// If the topology has fewer devices than the program.
    pub fn new(loaded: Arc<Loaded>, options: &RunOptions, faults: Vec<LinkFault>, fold: bool) -> Result<Pod, String> {
        let shape = loaded.program.pod.clone();
        let topology = shape.topology.clone().unwrap_or_else(|| Topology::single(&loaded.chip));
        let devices = shape.devices();
        if devices > topology.devices() {
            return Err(format!(
                "{devices} devices do not fit on topology {topology} of {} devices",
                topology.devices()
            ));
        }
        for f in &faults {
            let joined = |a: u32, b: u32| {
                a < topology.chips()
                    && (0..topology.ports()).any(|port| topology.neighbour(Hop { chip: a, port }) == Some(b))
            };
            if !joined(f.chips.0, f.chips.1) {
                return Err(format!("no link joins chips {} and {} of topology {topology}", f.chips.0, f.chips.1));
            }
        }
        let may = fold && faults.is_empty() && options.mode == Mode::TimingOnly && options.chaos.is_none();
        let fold = Fold::new(&topology, devices, shape.distances().filter(|_| may));
        let count = fold.simulated().len();
        let machines = (0..count).map(|_| Machine::new(Arc::clone(&loaded))).collect();
        Ok(Pod { loaded, topology, machines, fold, faults })
    }

    /// Devices that are simulated.
    pub fn simulated(&self) -> usize {
        self.machines.len()
    }

    /// A simulated device, to write to its HBM.
    pub fn machine(&mut self, device: usize) -> &mut Machine {
        &mut self.machines[device]
    }

    /// As [`Machine::read_hbm`], for a device.
    ///
    /// # Errors
    /// If the range is outside HBM.
    pub fn read_hbm(&self, device: usize, address: u64, out: &mut [u8]) -> Result<(), HostRangeError> {
        self.machines[device].read_hbm(address, out)
    }

    /// Runs the program on all devices. `observer` is asked for progress; `hosts` has an observer for each core
    /// of each simulated device, device after device (missing ones watch nothing).
    ///
    /// # Errors
    /// The first fault, or a deadlock with who waits for what.
    pub fn run(
        &mut self,
        options: &RunOptions,
        observer: &mut dyn Observer,
        hosts: &mut [Box<dyn Observer + '_>],
    ) -> Result<PodRun, Fault> {
        let loaded = Arc::clone(&self.loaded);
        let n = self.machines.len();
        let each: Vec<RunOptions> = (self.fold.simulated().iter())
            .map(|&device| RunOptions {
                device,
                on: CoreId { chip: self.topology.chip_of(device), core: self.topology.core_of(device) },
                ..options.clone()
            })
            .collect();
        let cores = loaded.cores as usize;
        let mut nobody: Vec<NoObserver> = (0..n * cores).map(|_| NoObserver).collect();
        let mut hosts = hosts.iter_mut();
        let mut watchers: Vec<&mut dyn Observer> = Vec::with_capacity(n * cores);
        for none in &mut nobody {
            watchers.push(match hosts.next() {
                Some(h) => h.as_mut(),
                None => none,
            });
        }
        watchers.iter_mut().for_each(|w| w.begin());
        let mut seats: Vec<Seats> = each.iter().map(|options| Seats::new(&loaded, options)).collect();
        let pool = Pool::default();
        let devices = Some(loaded.program.pod.devices());
        let mut watchers = watchers.into_iter();
        let mut slots: Vec<Slot<'_>> = Vec::with_capacity(n);
        let remembers = options.memo && options.mode == Mode::TimingOnly;
        let lanes = if remembers { options.threads.max(1) } else { 1 };
        for (i, (machine, seats)) in self.machines.iter_mut().zip(&mut seats).enumerate() {
            let own = watchers.by_ref().take(cores).collect();
            let team = seats.team(&loaded, machine.memory(), own, (&pool, devices, i % lanes));
            slots.push(Slot { team, done: false, runnable: true, error: None, sent: 0 });
        }
        let network = Network::new(&loaded.chip, self.topology.clone(), self.faults.clone());
        let issue = u64::from(loaded.chip.dma.issue_cycles).max(1) * TICKS;
        let run = Run {
            loaded: &loaded,
            slots,
            network,
            events: Queue::default(),
            woken: (0..n).collect(),
            flights: Vec::new(),
            free: Vec::new(),
            traffic: Vec::new(),
            stretch: issue,
            timed: options.mode != Mode::NumericOnly,
            fold: &self.fold,
            pool: &pool,
            parallel: options.threads > 1,
            lanes,
            alone: if options.mode == Mode::TimingOnly { ALONE } else { ALONE_WITH_NUMBERS },
        };
        run.all(observer)
    }
}

struct Run<'a> {
    loaded: &'a Loaded,
    slots: Vec<Slot<'a>>,
    network: Network,
    events: Queue,
    /// Places of the devices that can go on; some are there twice, or have ended.
    woken: Vec<usize>,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// What messages of each operation did, by its place in the profile; `(none)` is last, and those behind that sent anything are not there.
    traffic: Vec<OpTraffic>,
    stretch: u64,
    timed: bool,
    fold: &'a Fold,
    pool: &'a Pool,
    parallel: bool,
    /// Devices of as many lanes as there are threads go on side by side, those of one lane one behind the other: each finds what the others
    /// of it know. One where nothing is remembered; then any devices go on side by side.
    lanes: usize,
    /// Bundles of a round that one thread takes.
    alone: u64,
}

impl Run<'_> {
    fn all(mut self, observer: &mut dyn Observer) -> Result<PodRun, Fault> {
        loop {
            self.go_on()?;
            let (clock, bundles) = self.slots[0].team.first().progress();
            if !observer.progress(clock, bundles) {
                return Err(self.slots[0].team.first().fault_here(FaultKind::Interrupted));
            }
            if self.events.is_empty() {
                break;
            }
            self.deliver()?;
        }
        if self.slots.iter().any(|s| !s.done) {
            return Err(self.deadlock());
        }
        for s in &mut self.slots {
            let semaphores = s.team.left_over();
            if !semaphores.is_empty() {
                return Err(s.team.first().fault_here(FaultKind::Unbalanced { semaphores }));
            }
        }
        let links = self.links();
        let faults = self.network.faults();
        let traffic = self.traffic.into_iter().filter(|t| t.messages > 0).collect();
        let mut totals = Totals::default();
        let devices = self.slots.into_iter().map(|s| s.team.finish(&mut totals)).collect();
        Ok(PodRun { devices, links, traffic, faults, stands_for: self.fold.stands_for() })
    }

    /// Runs every device that can go on until it waits, and takes their messages.
    fn go_on(&mut self) -> Result<(), Fault> {
        let step = |s: &mut Slot<'_>| {
            if s.runnable {
                match s.team.resume() {
                    Ok(done) => s.done = done,
                    Err(e) => s.error = Some(e),
                }
            }
        };
        let mut woken = std::mem::take(&mut self.woken);
        woken.sort_unstable();
        woken.dedup();
        woken.retain(|&i| self.slots[i].runnable);
        let (mut one, mut ran) = (0, 0);
        while one < woken.len() && (ran < self.alone || !self.parallel) {
            let slot = &mut self.slots[woken[one]];
            let before = slot.team.first().progress().1;
            step(slot);
            ran += slot.team.first().progress().1 - before;
            one += 1;
        }
        if let Some(&first) = woken.get(one) {
            if self.lanes == 1 {
                self.slots[first..].par_iter_mut().for_each(step);
            } else {
                let mut lanes: Vec<Vec<&mut Slot<'_>>> = (0..self.lanes).map(|_| Vec::new()).collect();
                let slots = self.slots.iter_mut().enumerate().skip(first);
                slots.filter(|s| s.1.runnable).for_each(|(i, s)| lanes[i % self.lanes].push(s));
                lanes.into_par_iter().for_each(|lane| lane.into_iter().for_each(step));
            }
        }
        for i in woken {
            self.slots[i].runnable = false;
            if let Some(e) = self.slots[i].error.take() {
                return Err(e);
            }
            let mut outbox = self.slots[i].team.first_mut().swap_outbox(Vec::new());
            for m in outbox.drain(..) {
                self.slots[i].sent += 1;
                let order = self.slots[i].sent;
                self.launch(m, order);
            }
            // Its memory is for the next ones.
            self.slots[i].team.first_mut().swap_outbox(outbox);
            if let Some(Blocked::Look { cycle }) = self.slots[i].team.first().blocked_on() {
                let event = Event::new(cycle * TICKS, (event::LAST, 0, 0), Kind::Look, i);
                self.events.push(event);
            }
        }
        if self.pool.is_crowded() {
            self.slots.iter_mut().for_each(|s| s.team.add_up());
        }
        Ok(())
    }

    /// What an operation's messages did.
    fn traffic_of(&mut self, op: u32) -> &mut OpTraffic {
        let place = (op as usize).min(self.loaded.program.debug.ops.len());
        while self.traffic.len() <= place {
            self.traffic.push(OpTraffic { op, start: u64::MAX, ..OpTraffic::default() });
        }
        let t = &mut self.traffic[place];
        t.op = op;
        t
    }

    fn launch(&mut self, m: Message, order: u64) {
        let route = if self.timed { self.network.route(&m, self.fold) } else { Route::default() };
        let t = self.traffic_of(m.op);
        t.bytes += m.bytes;
        t.messages += 1;
        t.start = t.start.min(m.at);
        let at = m.at * TICKS;
        let flight = Flight { message: m, route, tail: 0 };
        let id = self.free.pop().unwrap_or(self.flights.len());
        let direct = flight.route.is_empty();
        let key = |kind| Event::new(at, (0, order, 0), kind, id);
        if direct {
            self.events.push(key(Kind::Sent));
            self.events.push(key(Kind::Arrive));
        } else {
            self.events.push(key(Kind::Hop));
        }
        if id == self.flights.len() {
            self.flights.push(Some(flight));
        } else {
            self.flights[id] = Some(flight);
        }
    }

    /// Takes the events of one stretch of time.
    fn deliver(&mut self) -> Result<(), Fault> {
        let Some(first) = self.events.next() else { return Ok(()) };
        let until = first.saturating_add(self.stretch);
        while let Some(event) = self.events.pop_before(until) {
            let (at, id) = (event.at(), event.place());
            match event.kind() {
                Kind::Hop => self.hop(at, event.hops(), event.order(), id)?,
                Kind::Sent => {
                    if let Some(f) = &self.flights[id] {
                        let place = self.fold.place(f.message.from);
                        let slot = &mut self.slots[place];
                        slot.team.first_mut().sent(&f.message, at.div_ceil(TICKS));
                        slot.runnable = !slot.done && slot.team.first().may_go_on();
                        self.woken.extend(slot.runnable.then_some(place));
                    }
                }
                Kind::Look => {
                    // Everything of the stretch is delivered before the device goes on.
                    let slot = &mut self.slots[id];
                    slot.team.first_mut().knows_until((until - 1) / TICKS);
                    slot.runnable = true;
                    self.woken.push(id);
                }
                Kind::Arrive => {
                    let Some(f) = self.flights[id].take() else { continue };
                    self.free.push(id);
                    self.arrive(&f.message, at)?;
                }
            }
        }
        Ok(())
    }

    fn hop(&mut self, at: u64, hops: u32, order: u64, id: usize) -> Result<(), Fault> {
        let Some(f) = &mut self.flights[id] else { return Ok(()) };
        let moved = self.network.advance(f, hops as usize, at, self.fold);
        let (op, bytes, from, device) = (f.message.op, f.message.bytes, f.message.from, f.message.to);
        if hops == 0 {
            let left = self.network.left(f);
            if !matches!(moved, Moved::Cut(_)) {
                self.events.push(Event::new(left, (0, order, 0), Kind::Sent, id));
            }
        }
        if !matches!(moved, Moved::Cut(_)) {
            self.traffic_of(op).link_bytes += bytes;
        }
        match moved {
            Moved::Next(time, way) => {
                self.events.push(Event::new(time, (hops + 1, order, way), Kind::Hop, id));
            }
            Moved::Arrives(time) => {
                self.events.push(Event::new(time, (hops + 1, order, 0), Kind::Arrive, id));
            }
            Moved::Cut(hop) => {
                let to = self.network.topology().neighbour(hop).unwrap_or(hop.chip);
                let fault = FaultKind::LinkDown { from: hop.chip, to, device };
                return Err(self.slots[self.fold.place(from)].team.first().fault_here(fault));
            }
        }
        Ok(())
    }

    fn arrive(&mut self, m: &Message, at: u64) -> Result<(), Fault> {
        let at = at.div_ceil(TICKS);
        let t = self.traffic_of(m.op);
        t.end = t.end.max(at);
        let place = self.fold.place(m.to);
        let slot = &mut self.slots[place];
        slot.team.first_mut().receive(m, at)?;
        slot.runnable = !slot.done && slot.team.first().may_go_on();
        self.woken.extend(slot.runnable.then_some(place));
        Ok(())
    }

    /// Nobody can go on: who waits where, for whom, and what those do.
    fn deadlock(&mut self) -> Fault {
        const MOST: usize = 16;
        let pod = &self.loaded.program.pod;
        let place = |d: usize| self.slots[d].team.first().place().1.trim_start_matches('%').to_string();
        let mut waits: Vec<String> = Vec::new();
        let mut ended: Vec<u32> = Vec::new();
        let mut first = None;
        for (i, s) in self.slots.iter().enumerate() {
            let d = self.fold.simulated()[i];
            let Some(Blocked::Semaphore { semaphore, need, have }) = s.team.first().blocked_on().filter(|_| !s.done)
            else {
                ended.push(d);
                continue;
            };
            first.get_or_insert(i);
            let op = place(i);
            // Partners that are not in the same operation are whom it waits for; the others wait too.
            let elsewhere = |p: &u32| {
                let at = self.fold.place(*p);
                self.slots.get(at).is_some_and(|o| o.done || place(at) != op)
            };
            let all = pod.partners(&op, d);
            let mut partners: Vec<u32> = all.iter().copied().filter(elsewhere).take(MOST).collect();
            if partners.is_empty() {
                partners = all.into_iter().take(MOST).collect();
            }
            let whom = |&p: &u32| match self.slots[self.fold.place(p)].done {
                true => format!("{p} (ended)"),
                false => format!("{p} (in %{})", place(self.fold.place(p))),
            };
            let mut line = format!("device {d} (chip {}) waits in %{op}", self.network.topology().chip_of(d));
            if !partners.is_empty() {
                line += &format!(" for device {}", partners.iter().map(whom).collect::<Vec<_>>().join(", "));
            }
            let more = need - have.min(need);
            waits.push(line + &format!(": {more} more on semaphore {semaphore} (it holds {have})"));
        }
        let more = waits.len().saturating_sub(MOST);
        waits.truncate(MOST);
        if more > 0 {
            waits.push(format!("and {more} more devices"));
        }
        if !ended.is_empty() {
            let list: Vec<String> = ended.iter().take(MOST).map(u32::to_string).collect();
            waits.push(format!("devices that have ended and send nothing more: {}", list.join(", ")));
        }
        let waits_for = format!("other devices, which wait themselves: {}", waits.join("; "));
        self.slots[first.unwrap_or(0)].team.first().fault_here(FaultKind::Deadlock { waits_for })
    }

    fn links(&mut self) -> Vec<LinkReport> {
        let carried = self.network.carried();
        let t = self.network.topology();
        let cycle = |ticks: u64| (ticks + TICKS / 2) / TICKS;
        let report = |(hop, link): (Hop, network::Link)| LinkReport {
            from: hop.chip,
            to: t.neighbour(hop).unwrap_or(hop.chip),
            axis: (hop.port != Hop::INSIDE && !t.full).then_some(hop.port / 2),
            bytes: link.bytes,
            messages: link.messages,
            busy: link.busy as f64 / TICKS as f64,
            waiting: link.waiting as f64 / TICKS as f64,
            spans: link.spans().into_iter().map(|s| (cycle(s.0), cycle(s.1), s.2)).collect(),
        };
        carried.into_iter().map(report).collect()
    }
}
