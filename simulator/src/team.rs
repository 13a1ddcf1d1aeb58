//! The cores of one device: they run the same code, each with registers, vector memory, scalar memory and units of its own,
//! and have the device's HBM in common.
//!
//! A core runs up to a `sync.cores`, then the next one does; when all are at one, they go on from the cycle in which the
//! last of them came (and a signal reached the others). HBM bandwidth is divided by the program: every `sync.cores` says
//! how many parts there are, so that a core's time depends on nothing that others do in between, and its loops may be
//! skipped as if it were alone. What a core does to HBM between two barriers must not touch what another one writes
//! there; the race checker holds that, whatever the order in which the cores are simulated.

use crate::fault::{Fault, FaultKind};
use crate::issue::cores::Touch;
use crate::issue::memo::Pool;
use crate::issue::run::{Core, State};
use crate::issue::values::Values;
use crate::load::Loaded;
use crate::mem::{Hbm, Smem};
use crate::options::{Mode, NoObserver, Observer, RunOptions};
use crate::stats::RunResult;
use crate::unit::dma::Geometry;
use systole_isa::{Op, Space};

/// Runs a program on all cores of a device. `observers` watch one core each, from the first on.
pub(crate) fn run(
    loaded: &Loaded,
    hbm: &mut Hbm,
    options: &RunOptions,
    observers: Vec<&mut dyn Observer>,
) -> Result<RunResult, Fault> {
    let n = loaded.cores as usize;
    let each: Vec<RunOptions> =
        (0..n as u32).map(|i| RunOptions { core: options.core + i, ..options.clone() }).collect();
    let mut nobody: Vec<NoObserver> = (observers.len()..n).map(|_| NoObserver).collect();
    let mut watchers: Vec<&mut dyn Observer> = Vec::with_capacity(n);
    for o in observers.into_iter().take(n) {
        watchers.push(o);
    }
    watchers.extend(nobody.iter_mut().map(|o| o as &mut dyn Observer));
    let mut smems: Vec<Smem> = (0..n).map(|_| Smem::new(loaded.chip.smem.bytes)).collect();
    let mut values: Vec<Option<Values>> = (0..n)
        .map(|_| (options.mode != Mode::TimingOnly).then(|| Values::new(loaded, options.threads.max(1))))
        .collect();
    // Cores that do not run hold an empty memory in HBM's place.
    let mut empty: Vec<Hbm> = (1..n).map(|_| Hbm::new(0)).collect();
    let mut memories: Vec<&mut Hbm> = vec![hbm];
    memories.extend(empty.iter_mut());
    let parts = memories.into_iter().zip(&mut smems).zip(&mut values).zip(watchers).zip(&each);
    let pool = Pool::default();
    let make = |(i, ((((hbm, smem), values), watcher), options)): (usize, ((((_, _), _), _), _))| {
        let values: &mut Option<Values> = values;
        let mut core = Core::new(loaded, options, watcher, State { hbm, values: values.as_mut(), smem, pool: &pool });
        core.join_cores(i as u32);
        core
    };
    let cores: Vec<Core<'_>> = parts.enumerate().map(make).collect();
    let mut team = Team { loaded, done: vec![false; n], cores, holder: 0 };
    let end = team.all();
    team.hand(0);
    end?;
    let cycles = team.cores.iter().map(|c| c.progress().0 + 1).max().unwrap_or(0);
    Ok(RunResult::joined(team.cores.into_iter().map(|c| c.finish_at(cycles)).collect()))
}

struct Team<'a> {
    loaded: &'a Loaded,
    cores: Vec<Core<'a>>,
    done: Vec<bool>,
    /// The core that has HBM.
    holder: usize,
}

impl Team<'_> {
    fn all(&mut self) -> Result<(), Fault> {
        let signal = u64::from(self.loaded.chip.dma.issue_cycles);
        loop {
            for i in 0..self.cores.len() {
                if !self.done[i] {
                    self.hand(i);
                    self.done[i] = self.cores[i].advance()?;
                }
            }
            self.races()?;
            if self.done.iter().all(|d| *d) {
                return Ok(());
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
                let kind = FaultKind::CoreRace {
                    core: j as u32,
                    dma_bundle: other.bundle,
                    dma_inst: self.instruction(&other).into(),
                };
                let inst = self.instruction(&own).into();
                return Err(Fault { bundle: own.bundle, inst, ..self.cores[i].fault_here(kind) });
            }
        }
        Ok(())
    }

    fn instruction(&self, t: &Touch) -> String {
        let bundle = &self.loaded.bundles[t.bundle as usize];
        let start = bundle.iter().find(|i| i.op == Op::DmaStart && i.operands[0] as u32 == t.desc);
        start.map(crate::text::inst).unwrap_or_default()
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
        if g.src == Space::Hbm {
            reads.push(Side { touch, side: &g.from, base: touch.src });
        }
        if g.dst == Space::Hbm {
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
