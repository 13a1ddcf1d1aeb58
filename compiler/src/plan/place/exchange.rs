//! Memory of collectives and transfers, and products that look after one that is under way.

use super::Placer;
use crate::plan::action::{Action, Flight};
use crate::plan::collective::{
    Direct, DirectKind, Exchange, How, Phase, Ring, Stage, State, Transfer, Work, message_cycles,
};
use crate::plan::memory::guard_rows;
use crate::plan::overlap::exchange_cycles;
use crate::plan::spec::{KernelSpec, Looks, one_way};
use crate::plan::step::{Arg, KernelEntry, SplitPart, Use};
use systole_codegen::emit::blocks::{consider_cut, divided};
use systole_codegen::emit::mxu::{Chosen, choose, consider};
use systole_hlo::error::CompileError;
use systole_isa::ChipConfig;

/// An exchange that is under way.
pub(super) struct Hidden {
    flight: Flight,
    /// The semaphore of what comes last in a move.
    recv: u32,
    /// Cycles that HBM is busy with what it reads at once: others wait so much longer. A power of two.
    burst: u32,
    /// Share of the bandwidth of HBM that it takes at most.
    share: f64,
    /// Its estimated cycles.
    cycles: f64,
}

/// Times that products are prepared for half as long a wait before they are for none, and what a preparation may cost as
/// a share of the exchange.
const LESS: u32 = 4;
const SLOWER: f64 = 0.06;
/// Cycles between two looks of a loop in vector memory, as a multiple of a message's.
const BETWEEN: f64 = 2.0;
/// Longest time that products are prepared for, in cycles.
const LONGEST: f64 = 8192.0;
/// Most of the bandwidth of HBM that products leave to an exchange.
const MOST_SHARE: f64 = 0.6;

/// Cycles that HBM is busy with what an exchange reads at once.
fn burst(x: &Exchange, chip: &ChipConfig) -> u32 {
    let one = |r: &Ring| {
        let piece = |p: &Phase| r.streams.iter().map(|s| r.piece_rows(p, s)).sum::<u64>();
        r.phases.iter().filter(|p| p.work == Work::Reduce).map(piece).max().unwrap_or(0)
    };
    let rows: u64 = x.all_rings().map(one).sum();
    let cycles = rows as f64 * chip.row_bytes() as f64 / chip.hbm_bytes_per_cycle().max(1.0);
    (cycles.min(LONGEST) as u32).next_power_of_two()
}

/// Share of HBM's bandwidth that an exchange takes at most: what all its links bring is stored, and read to be sent on.
fn share(x: &Exchange, chip: &ChipConfig) -> f64 {
    let streams = x.all_rings().map(|r| r.streams.len()).sum::<usize>().max(1) as f64;
    (2.0 * streams * chip.link_bytes_per_cycle() / chip.hbm_bytes_per_cycle().max(1.0)).min(MOST_SHARE)
}

impl Placer<'_> {
    /// A collective from beginning to end, or a stage of a transfer.
    pub(super) fn exchange(&mut self, x: &Exchange) -> Result<(), CompileError> {
        let flight = match &x.how {
            How::Transfer(t) => self.transfer(x, t)?,
            How::Rings(_) | How::Direct(_) => self.begin_exchange(x)?,
        };
        self.end_exchange(&flight);
        self.actions.push(Action::Exchange(Box::new(x.clone()), flight));
        Ok(())
    }

    fn transfer(&mut self, x: &Exchange, t: &Transfer) -> Result<Flight, CompileError> {
        let mut out = Vec::new();
        match t.stage {
            Stage::Recv => {
                self.memory.granule(x.dst)?;
            }
            Stage::Send => {
                self.in_hbm(x.src, Use::Read, &mut out)?;
                self.in_hbm(x.dst, Use::Write, &mut out)?;
            }
            Stage::SendDone => {}
            Stage::RecvDone => {
                self.in_hbm(x.src, Use::Write, &mut out)?;
                self.in_hbm(x.dst, Use::Write, &mut out)?;
            }
        }
        self.copies(out);
        let (src, dst) = (self.memory.granule(x.src)?, self.memory.granule(x.dst)?);
        Ok(Flight { src, dst, ..Flight::default() })
    }

    /// Prepares a collective and those beside it: their arrays are in HBM, and slots in vector memory are taken.
    fn begin_exchange(&mut self, x: &Exchange) -> Result<Flight, CompileError> {
        let mut flight = self.begin_one(x)?;
        flight.beside = x.beside.iter().map(|x| self.begin_one(x)).collect::<Result<_, _>>()?;
        Ok(flight)
    }

    fn begin_one(&mut self, x: &Exchange) -> Result<Flight, CompileError> {
        let mut out = Vec::new();
        self.in_hbm(x.src, Use::Read, &mut out)?;
        self.in_hbm(x.dst, Use::Write, &mut out)?;
        let (src, dst) = (self.memory.granule(x.src)?, self.memory.granule(x.dst)?);
        let mut temps = Vec::new();
        for &t in &x.temps {
            self.in_hbm(t, Use::Write, &mut out)?;
            temps.push(self.memory.granule(t)?);
        }
        let sublanes = self.memory.chip.core.sublanes;
        let contributions = |d: &Direct| {
            let component = d.parts.slot_component(d.parts.run, sublanes);
            let reduces = d.kind == DirectKind::Reduce;
            if reduces { d.parts.components * component * u64::from(d.devices) } else { 0 }
        };
        let rows = match &x.how {
            How::Rings(all) => all.iter().map(|r| r.slots(sublanes)).sum(),
            How::Direct(all) => all.iter().map(contributions).max().unwrap_or(0),
            How::Transfer(_) => 0,
        };
        let rows = if rows > 0 { rows + guard_rows(self.memory.chip) } else { 0 };
        let name = self.memory.name_of(x.dst).to_string();
        let slots = match rows {
            0 => 0,
            n => self.memory.room(n, self.now, &[], &format!("slots of `{name}`"), &mut out)?,
        };
        self.copies(out);
        Ok(Flight { src, dst, temps, slots, slot_rows: rows, beside: Vec::new() })
    }

    /// Gives back what an exchange took.
    fn end_exchange(&mut self, f: &Flight) {
        for f in f.all().filter(|f| f.slot_rows > 0) {
            self.memory.vmem.give(f.slots, f.slot_rows);
        }
    }

    /// Begins an exchange that other steps follow.
    pub(super) fn begin_hidden(&mut self, x: &Exchange) -> Result<(), CompileError> {
        let (flight, chip) = (self.begin_exchange(x)?, self.memory.chip);
        self.actions.push(Action::Begin(Box::new(x.clone()), flight.clone()));
        self.hidden = Some(Hidden {
            flight,
            recv: x.how.recv(),
            burst: burst(x, chip),
            share: share(x, chip),
            cycles: exchange_cycles(x, chip),
        });
        self.look();
        Ok(())
    }

    pub(super) fn end_hidden(&mut self, x: &Exchange) {
        if let Some(h) = self.hidden.take() {
            self.actions.push(Action::End(Box::new(x.clone())));
            self.end_exchange(&h.flight);
        }
    }

    /// Takes the exchange under way as far as it goes without waiting.
    pub(super) fn look(&mut self) {
        if self.hidden.is_some() {
            self.actions.push(Action::Look(self.op));
        }
    }

    /// The kernel that looks after the exchange under way, of one that can.
    pub(super) fn hooked(&mut self, kernel: usize) -> Option<usize> {
        let entry = &self.plan.kernels[kernel];
        let h = self.hidden.as_ref()?;
        let wanted = self.plan.pod.state + State::Wanted as u32;
        let looks = Some(Looks { wanted, semaphore: h.recv });
        let chip = self.memory.chip;
        let long = |cycles: f64| cycles >= message_cycles(chip);
        let (spec, needs, cycles) = match &entry.spec {
            KernelSpec::Product { contraction, .. } => {
                entry.cycles.filter(|c| long(*c))?;
                let tile = prepared(h, |chip| choose(contraction, chip, true), chip)?.tile;
                // It was chosen for less than the chip has; what it takes is what it takes there.
                let Chosen { needs, cycles, .. } = consider(contraction, &tile, chip, true).ok()?;
                let spec = KernelSpec::Product { contraction: contraction.clone(), tile, looks };
                (spec, needs, Some(cycles))
            }
            KernelSpec::Blocks { spec, cut, share, looks: None } => {
                consider_cut(spec, *cut, chip).filter(|c| long(c.cost as f64))?;
                (KernelSpec::Blocks { spec: spec.clone(), cut: *cut, share: *share, looks }, entry.needs, entry.cycles)
            }
            KernelSpec::Body(body) => {
                let (spec, chosen) = divided(body, BETWEEN * message_cycles(chip), chip)?;
                let spec = KernelSpec::Blocks { spec, cut: chosen.cut, share: None, looks };
                (spec, chosen.needs, Some(chosen.cost as f64))
            }
            KernelSpec::Blocks { looks: Some(_), .. } | KernelSpec::Scatter(_) | one_way!() => return None,
        };
        let parts = self.plan.splits.get(&kernel);
        let key = (spec, parts.map(|_| kernel));
        if let Some(&k) = self.made.get(&key) {
            return Some(k);
        }
        let (spec, number) = (key.0.clone(), self.plan.kernels.len() + self.kernels.len());
        self.made.insert(key, number);
        if let Some(parts) = parts {
            // The first core is the one that looks: kernels of the others stay as they are.
            let first = |p: &SplitPart| p.kernel == kernel;
            let part = |p: &SplitPart| SplitPart { kernel: if first(p) { number } else { p.kernel }, ..p.clone() };
            self.splits.insert(number, parts.iter().map(part).collect());
        }
        self.kernels.push(KernelEntry {
            name: entry.name.clone(),
            spec,
            needs,
            parts: Vec::new(),
            cycles,
            considered: Vec::new(),
        });
        Some(number)
    }

    /// Arguments that a kernel takes besides those of the one that it stands for: bodies in vector memory have no scratch,
    /// in blocks they have.
    pub(super) fn hook_args(&self, kernel: usize, number: usize) -> Option<&'static Arg> {
        let (of, to) = (&self.kernel(kernel).spec, &self.kernel(number).spec);
        let more = matches!((of, to), (KernelSpec::Body(_), KernelSpec::Blocks { .. }));
        more.then_some(&Arg::Scratch)
    }
}

/// A product as well prepared for an exchange as costs little: for the bandwidth that the exchange leaves, half of it, or
/// only for waits.
fn prepared<E>(h: &Hidden, choose: impl Fn(&ChipConfig) -> Result<Chosen, E>, chip: &ChipConfig) -> Option<Chosen> {
    let mut chip = chip.clone();
    let (latency, bandwidth) = (chip.hbm.latency_s, chip.hbm.bandwidth);
    let unprepared = choose(&chip).ok()?.cycles;
    let bursts = (0..LESS).map(|shift| h.burst >> shift);
    let ways = [h.share, h.share / 2.0, 0.0].into_iter().flat_map(|s| bursts.clone().map(move |b| (b, s)));
    let mut chosen = None;
    for (wait, taken) in ways.chain([(0, 0.0)]) {
        chip.hbm.latency_s = latency + f64::from(wait) / chip.clock_hz;
        chip.hbm.bandwidth = bandwidth * (1.0 - taken);
        let prepared = choose(&chip).ok()?;
        chosen = Some(prepared);
        if prepared.cycles - unprepared <= SLOWER * h.cycles.min(unprepared) {
            break;
        }
    }
    chosen
}
