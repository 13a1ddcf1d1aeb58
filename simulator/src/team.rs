//! The cores of one device: they run the same code, each with registers, vector memory, scalar memory and units of its own,
//! and have the device's HBM in common.
//!
//! A core runs up to a `sync.cores`, then the next one does; when all are at one, they go on from the cycle in which the
//! last of them came (and a signal reached the others). HBM bandwidth is divided by the program: every `sync.cores` says
//! how many parts there are, so that a core's time depends on nothing that others do in between, and its loops may be
//! skipped as if it were alone. What a core does to HBM between two barriers must not touch what another one writes
//! there; the race checker holds that, whatever the order in which the cores are simulated.
//!
//! In a pod, other devices hear of the first core only: it sends, and what is sent to the device comes to its memories and
//! semaphores. While it waits for others, the rest of the team waits at the next `sync.cores`.

use crate::fault::{Fault, FaultKind, Issued};
use crate::issue::cores::Touch;
use crate::issue::memo::Pool;
use crate::issue::run::{Core, State};
use crate::issue::values::Values;
use crate::load::Loaded;
use crate::mem::{Hbm, Smem};
use crate::options::{Mode, NoObserver, Observer, RunOptions};
use crate::stats::{RunResult, Totals};
use crate::unit::dma::Geometry;
use systole_isa::{Inst, Op, Space};

/// What the cores of a device have for themselves in a run.
pub(crate) struct Seats {
    options: Vec<RunOptions>,
    smems: Vec<Smem>,
    values: Vec<Option<Values>>,
    /// What cores that do not run hold in HBM's place.
    empty: Vec<Hbm>,
    nobody: Vec<NoObserver>,
}

impl Seats {
    pub fn new(loaded: &Loaded, options: &RunOptions) -> Seats {
        let n = loaded.cores;
        let values = || (options.mode != Mode::TimingOnly).then(|| Values::new(loaded, options.threads.max(1), false));
        Seats {
            options: (0..n).map(|i| RunOptions { on: options.on.next(i), ..options.clone() }).collect(),
            smems: (0..n).map(|_| Smem::new(loaded.chip.smem.bytes)).collect(),
            values: (0..n).map(|_| values()).collect(),
            empty: (1..n).map(|_| Hbm::new(0)).collect(),
            nobody: (0..n).map(|_| NoObserver).collect(),
        }
    }

    /// The cores, before their first bundle. `observers` watch one core each, from the first on. `devices`: how many the program
    /// runs on, where the device is one of a pod's; the first core is the one that others hear of. `lane`: teams of one go on one behind
    /// the other.
    pub fn team<'a>(
        &'a mut self,
        loaded: &'a Loaded,
        hbm: &'a mut Hbm,
        observers: Vec<&'a mut dyn Observer>,
        (pool, devices, lane): (&'a Pool, Option<u32>, usize),
    ) -> Team<'a> {
        let n = self.options.len();
        let mut watchers: Vec<&mut dyn Observer> = Vec::with_capacity(n);
        for o in observers.into_iter().take(n) {
            watchers.push(o);
        }
        let missing = self.nobody.iter_mut().skip(watchers.len());
        watchers.extend(missing.map(|o| o as &mut dyn Observer));
        let memories = std::iter::once(hbm).chain(&mut self.empty);
        let parts = memories.zip(&mut self.smems).zip(&mut self.values).zip(watchers).zip(&self.options);
        let mut cores = Vec::with_capacity(n);
        for (i, ((((hbm, smem), values), watcher), options)) in parts.enumerate() {
            let mut core = Core::new(loaded, options, watcher, State { hbm, values: values.as_mut(), smem, pool });
            core.lane = lane;
            if n > 1 {
                core.join_cores(i as u32);
            }
            if let Some(devices) = devices.filter(|_| i == 0) {
                core.join(devices);
            }
            cores.push(core);
        }
        Team { loaded, done: vec![false; n], cores, holder: 0 }
    }
}

/// The cores of a device in a run.
pub(crate) struct Team<'a> {
    loaded: &'a Loaded,
    cores: Vec<Core<'a>>,
    done: Vec<bool>,
    /// The core that has HBM.
    holder: usize,
}

impl<'a> Team<'a> {
    /// Runs to the end of all cores (`true`), or until the first core waits for other devices.
    ///
    /// # Errors
    /// The fault that stopped a core.
    pub fn resume(&mut self) -> Result<bool, Fault> {
        let end = self.go_on();
        self.hand(0);
        end
    }

    /// The core that other devices hear of; between runs it has the device's HBM.
    pub fn first(&self) -> &Core<'a> {
        &self.cores[0]
    }

    /// As [`Team::first`].
    pub fn first_mut(&mut self) -> &mut Core<'a> {
        &mut self.cores[0]
    }

    /// Counters of the cores know all that was replayed. No team of the run may be going on.
    pub fn add_up(&mut self) {
        self.cores.iter_mut().for_each(Core::add_up);
    }

    /// Semaphores of any core that hold bytes that no wait took.
    pub fn left_over(&self) -> Vec<(u32, u64)> {
        self.cores.iter().flat_map(Core::left_over).collect()
    }

    /// The counters after the end. `totals`: those of another device of the pod, or nothing.
    pub fn finish(self, totals: &mut Totals) -> RunResult {
        let cycles = self.cores.iter().map(|c| c.progress().0 + 1).max().unwrap_or(0);
        let mut results: Vec<RunResult> = self.cores.into_iter().map(|c| c.finish_at(cycles, totals)).collect();
        match results.pop() {
            Some(alone) if results.is_empty() => alone,
            last => RunResult::joined(results.into_iter().chain(last).collect()),
        }
    }

    fn go_on(&mut self) -> Result<bool, Fault> {
        let signal = u64::from(self.loaded.chip.dma.issue_cycles);
        loop {
            for i in 0..self.cores.len() {
                if !self.done[i] && self.cores[i].at_barrier().is_none() {
                    self.hand(i);
                    self.done[i] = self.cores[i].resume()?;
                }
            }
            if self.first().blocked_on().is_some() {
                return Ok(false);
            }
            self.races()?;
            if self.done.iter().all(|d| *d) {
                return Ok(true);
            }
            if self.done.contains(&true) {
                return Err(self.deadlock());
            }
            let last = self.cores.iter().filter_map(Core::at_barrier).max().unwrap_or(0);
            self.cores.iter_mut().for_each(|c| c.release(last + signal));
        }
    }

    /// Gives HBM to a core.
    fn hand(&mut self, to: usize) {
        if to == self.holder {
            return;
        }
        let (low, high) = (to.min(self.holder), to.max(self.holder));
        let (before, behind) = self.cores.split_at_mut(high);
        before[low].swap_hbm(&mut behind[0]);
        self.holder = to;
    }

    /// Some cores wait for others that have ended.
    fn deadlock(&self) -> Fault {
        let of = |ended: bool| -> Vec<String> {
            let chosen = self.done.iter().enumerate().filter(|d| *d.1 == ended);
            chosen.map(|d| d.0.to_string()).collect()
        };
        let first = self.done.iter().position(|d| !d).unwrap_or(0);
        let waits_for = format!(
            "the other cores of the device: core {} waits, core {} has ended",
            of(false).join(", "),
            of(true).join(", ")
        );
        self.cores[first].fault_here(FaultKind::Deadlock { waits_for })
    }

    /// Looks for transfers of two cores that reach common bytes of HBM, one of them writing.
    fn races(&self) -> Result<(), Fault> {
        let lists: Vec<(Vec<Side<'_>>, Vec<Side<'_>>)> =
            self.cores.iter().map(|c| sides(&self.loaded.geometry, c.touches())).collect();
        for (i, (_, writes)) in lists.iter().enumerate() {
            for (j, (reads, others)) in lists.iter().enumerate().filter(|l| l.0 != i) {
                let Some((own, other)) = common(writes, reads).or_else(|| common(writes, others)) else { continue };
                let kind = FaultKind::CoreRace { core: j as u32, dma: self.issued(&other) };
                return Err(Fault { at: self.issued(&own), ..self.cores[i].fault_here(kind) });
            }
        }
        Ok(())
    }

    /// The instruction that started a transfer.
    fn issued(&self, t: &Touch) -> Issued {
        let bundle = &self.loaded.bundles()[t.bundle as usize];
        // Sides of transfers between devices have numbers of their own behind all descriptors.
        let desc = t.desc % (self.loaded.program.descs.len() as u32).max(1);
        let is = |i: &&Inst| matches!(i.op, Op::DmaStart | Op::DmaRemote) && i.operands[0] as u32 == desc;
        let start = bundle.iter().find(is);
        Issued { bundle: t.bundle, inst: start.map(crate::text::inst).unwrap_or_default().into() }
    }
}

/// One side of a transfer.
struct Side<'a> {
    touch: Touch,
    side: &'a crate::unit::dma::Side,
    base: i64,
}

impl Side<'_> {
    fn range(&self) -> (i64, i64) {
        (self.base + self.side.lo, self.base + self.side.hi)
    }
}

/// What transfers read and what they write in HBM, by first byte.
fn sides<'a>(geometry: &'a [Geometry], touches: Vec<Touch>) -> (Vec<Side<'a>>, Vec<Side<'a>>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for touch in touches {
        let g = &geometry[touch.desc as usize];
        if g.src == Space::Hbm && g.from.run > 0 {
            reads.push(Side { touch, side: &g.from, base: touch.src });
        }
        if g.dst == Space::Hbm && g.to.run > 0 {
            writes.push(Side { touch, side: &g.to, base: touch.dst });
        }
    }
    for list in [&mut reads, &mut writes] {
        list.sort_by_key(|s| (s.range(), s.touch));
    }
    (reads, writes)
}

/// The first two sides of sorted lists with a byte in common.
fn common(a: &[Side<'_>], b: &[Side<'_>]) -> Option<(Touch, Touch)> {
    let longest = b.iter().map(|s| s.side.hi - s.side.lo).max()?;
    for x in a {
        let (lo, hi) = x.range();
        let first = b.partition_point(|y| y.range().0 <= lo - longest);
        let hit = b[first..].iter().take_while(|y| y.range().0 < hi).find(|y| x.side.overlaps(x.base, y.side, y.base));
        if let Some(y) = hit {
            return Some((x.touch, y.touch));
        }
    }
    None
}
