//! Several devices: each runs the program in a thread of its own and meets the others in collectives.
//!
//! A collective is a meeting: everyone of a group brings its operands, and when all are there each computes its own
//! result from all of them, in the order of the group. So answers do not depend on the threads' timing. When nobody
//! can go on, the devices fail with a report of who waits for what.

use super::dispatch::Place;
use super::error::EvalError;
use super::run::Machine;
use super::value::Value;
use super::{EvalOptions, Host};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use systole_hlo::analysis::devices::{Mode, mode};
use systole_hlo::graph::{Collective, CollectiveKind, Module};

/// Stack of a device's thread; computations nest.
const STACK: usize = 64 << 20;

/// The operands of everyone in a group, in the group's order.
pub(super) type Brought = Arc<Vec<Vec<Value>>>;

/// What identifies a meeting: the instruction, the group, and how often it has met before.
type MeetingKey = (Place, Vec<usize>, u64);
/// What identifies a message: channel, sender, receiver.
type MailKey = (u64, usize, usize);

#[derive(Default)]
struct Shared {
    meetings: BTreeMap<MeetingKey, BTreeMap<usize, Vec<Value>>>,
    /// Results of meetings that are complete, with how many have yet to take them.
    complete: BTreeMap<MeetingKey, (Brought, usize)>,
    counts: BTreeMap<(usize, Place), u64>,
    mail: BTreeMap<MailKey, VecDeque<Value>>,
    /// Who waits: in words, and for which message if for one.
    waiting: BTreeMap<usize, (String, Option<MailKey>)>,
    finished: usize,
    failure: Option<EvalError>,
}

/// The devices of a run and what passes between them.
pub(super) struct Network {
    replicas: usize,
    partitions: usize,
    shared: Mutex<Shared>,
    changed: Condvar,
}

impl Network {
    /// One device alone.
    pub(super) fn single() -> Network {
        Network::new(1, 1)
    }

    fn new(replicas: usize, partitions: usize) -> Network {
        Network { replicas, partitions, shared: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn devices(&self) -> usize {
        self.replicas * self.partitions
    }

    pub(super) fn replica(&self, device: usize) -> usize {
        device / self.partitions
    }

    pub(super) fn partition(&self, device: usize) -> usize {
        device % self.partitions
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails everyone if nobody is left who could go on.
    fn check_deadlock(&self, s: &mut Shared) {
        if s.failure.is_none() && !s.waiting.is_empty() && s.waiting.len() + s.finished == self.devices() {
            let who: Vec<String> = s.waiting.iter().map(|(d, (why, _))| format!("device {d} waits {why}")).collect();
            s.failure = Some(EvalError::Deadlock(who.join("; ")));
            self.changed.notify_all();
        }
    }

    /// Brings operands to a meeting of the group and waits for everybody else's.
    pub(super) fn meet(
        &self,
        device: usize,
        place: Place,
        name: &str,
        group: &[usize],
        operands: Vec<Value>,
    ) -> Result<Brought, EvalError> {
        let mut s = self.lock();
        let count = s.counts.entry((device, place)).or_default();
        *count += 1;
        let key = (place, group.to_vec(), *count);
        let arrived = s.meetings.entry(key.clone()).or_default();
        arrived.insert(device, operands);
        if arrived.len() == group.len() {
            let mut arrived = s.meetings.remove(&key).unwrap_or_default();
            let all = group.iter().map(|d| arrived.remove(d).unwrap_or_default()).collect();
            s.complete.insert(key.clone(), (Arc::new(all), group.len()));
            group.iter().for_each(|d| drop(s.waiting.remove(d)));
            self.changed.notify_all();
        }
        loop {
            if let Some((all, left)) = s.complete.get_mut(&key) {
                let all = Arc::clone(all);
                *left -= 1;
                if *left == 0 {
                    s.complete.remove(&key);
                }
                return Ok(all);
            }
            if let Some(e) = &s.failure {
                return Err(e.clone());
            }
            let there: Vec<usize> = s.meetings.get(&key).map(|a| a.keys().copied().collect()).unwrap_or_default();
            let missing: Vec<usize> = group.iter().copied().filter(|d| !there.contains(d)).collect();
            s.waiting.insert(device, (format!("in {name} for devices {missing:?}"), None));
            self.check_deadlock(&mut s);
            if s.failure.is_none() {
                s = self.changed.wait(s).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Leaves a message for another device.
    pub(super) fn post(&self, key: MailKey, value: Value) {
        let mut s = self.lock();
        s.mail.entry(key).or_default().push_back(value);
        if s.waiting.get(&key.2).is_some_and(|(_, k)| *k == Some(key)) {
            s.waiting.remove(&key.2);
        }
        self.changed.notify_all();
    }

    /// Waits for a message.
    pub(super) fn take(&self, key: MailKey, name: &str) -> Result<Value, EvalError> {
        let mut s = self.lock();
        loop {
            if let Some(v) = s.mail.get_mut(&key).and_then(VecDeque::pop_front) {
                return Ok(v);
            }
            if let Some(e) = &s.failure {
                return Err(e.clone());
            }
            s.waiting.insert(key.2, (format!("in {name} for a message of device {}", key.1), Some(key)));
            self.check_deadlock(&mut s);
            if s.failure.is_none() {
                s = self.changed.wait(s).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Notes that a device has ended; an error ends the others too.
    fn finish(&self, result: &Result<Value, EvalError>) {
        let mut s = self.lock();
        s.finished += 1;
        if let (Err(e), None) = (result, &s.failure) {
            s.failure = Some(e.clone());
        }
        self.check_deadlock(&mut s);
        self.changed.notify_all();
    }

    /// The devices that meet with `device` in a collective, in the order of its group.
    pub(super) fn group(&self, device: usize, kind: &CollectiveKind, c: &Collective) -> Result<Vec<usize>, String> {
        let (r, p) = (self.replica(device), self.partition(device));
        let mode = mode(kind, c);
        let ids = self.ids(mode);
        let my_id = match mode {
            Mode::Replica | Mode::ReplicaAndPartition => r,
            Mode::Partition => p,
            Mode::Flattened => device,
        };
        let all: Vec<u64> = (0..ids as u64).collect();
        let group = match c.groups.iter().find(|g| g.contains(&(my_id as u64))) {
            Some(g) => g,
            None if c.groups.is_empty() => &all,
            None => return Err(format!("device {device} is in no group")),
        };
        if group.iter().any(|&g| g >= ids as u64) {
            return Err(format!("a group names an id that is not below {ids}"));
        }
        let group = group.iter().map(|&g| g as usize);
        Ok(match mode {
            Mode::Replica => group.map(|r| r * self.partitions + p).collect(),
            Mode::Partition => group.map(|p| r * self.partitions + p).collect(),
            Mode::Flattened => group.collect(),
            Mode::ReplicaAndPartition => group
                .flat_map(|r| (0..self.partitions).map(move |p| (r, p)))
                .map(|(r, p)| r * self.partitions + p)
                .collect(),
        })
    }

    /// How many ids there are in a mode.
    fn ids(&self, mode: Mode) -> usize {
        match mode {
            Mode::Replica | Mode::ReplicaAndPartition => self.replicas,
            Mode::Partition => self.partitions,
            Mode::Flattened => self.devices(),
        }
    }

    /// The sources and targets of a permutation as devices, for the row of devices that `device` is in.
    pub(super) fn pairs(
        &self,
        device: usize,
        kind: &CollectiveKind,
        c: &Collective,
        pairs: &[(u64, u64)],
    ) -> Vec<(usize, usize)> {
        let (r, p) = (self.replica(device), self.partition(device));
        let place = |id: u64| match mode(kind, c) {
            Mode::Replica | Mode::ReplicaAndPartition => id as usize * self.partitions + p,
            Mode::Partition => r * self.partitions + id as usize,
            Mode::Flattened => id as usize,
        };
        pairs.iter().map(|&(s, t)| (place(s), place(t))).collect()
    }
}

/// Runs a module on `replicas x partitions` devices, device `replica * partitions + partition`.
///
/// `inputs` and `hosts` have an entry for each device, and so has the result.
///
/// # Errors
/// As [`super::evaluate`], for the first device that fails; a deadlock names who waits for whom.
pub fn evaluate_devices(
    module: &Module,
    (replicas, partitions): (usize, usize),
    inputs: &[Vec<Value>],
    opts: &EvalOptions,
    hosts: &mut [Box<dyn Host + Send>],
) -> Result<Vec<Value>, EvalError> {
    let network = Network::new(replicas.max(1), partitions.max(1));
    let n = network.devices();
    if inputs.len() != n || hosts.len() != n {
        return Err(EvalError::Inputs(format!("{} devices' given, the program runs on {n}", inputs.len())));
    }
    let run = |device: usize, host: &mut Box<dyn Host + Send>| {
        let result = Machine::new(module, opts, host.as_mut(), &network, device).entry(&inputs[device]);
        network.finish(&result);
        result
    };
    let run = &run;
    let results: Vec<Result<Value, EvalError>> = std::thread::scope(|scope| {
        let start = |(device, host): (usize, _)| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            thread.spawn_scoped(scope, move || run(device, host))
        };
        let threads: Vec<_> = hosts.iter_mut().enumerate().map(start).collect();
        let join = |t: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match t.map(|t| t.join()) {
            Ok(Ok(r)) => r,
            Ok(Err(_)) => Err(EvalError::Inputs("a device's thread ended unexpectedly".to_string())),
            Err(e) => Err(EvalError::Inputs(format!("no thread for a device: {e}"))),
        };
        threads.into_iter().map(join).collect()
    });
    if let Some(e) = network.lock().failure.take() {
        return Err(e);
    }
    results.into_iter().collect()
}
