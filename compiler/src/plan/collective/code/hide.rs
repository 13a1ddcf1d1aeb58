//! Exchanges under way while other steps run: what they can do without waiting is done between those steps, and inside
//! kernels that look for it every few steps of their own.
//!
//! Kernels call one subroutine, which takes the exchange further that is under way at the time (if there is one).

use super::Flight;
use super::progress::{State, load, select, store};
use crate::plan::collective::{Exchange, How, Phase, message_cycles};
use crate::plan::contraction::product_entry;
use crate::plan::main_program::Emitter;
use crate::plan::overlap::exchange_cycles;
use crate::plan::step::KernelEntry;
use systole_codegen::emit::mxu::{Hook, estimate};
use systole_codegen::kernel::{Kernel, KernelBuilder, S};
use systole_hlo::error::CompileError;
use systole_isa::ChipConfig;

/// An exchange that is under way.
pub(in crate::plan) struct Hidden {
    flight: Flight,
    subroutine: usize,
    /// The semaphore of what comes last in a move.
    recv: u32,
    /// Cycles that HBM is busy with what it reads at once: others wait so much longer. A power of two.
    burst: u32,
    /// Share of the bandwidth of HBM that it takes at most.
    share: f64,
    /// Its estimated cycles.
    cycles: f64,
}

/// A product that looks for what an exchange can do.
pub(in crate::plan) struct Hooked {
    pub entry: KernelEntry,
    /// The kernel's number for calls.
    pub number: u32,
}

/// Times that products are prepared for half as long a wait before they are for none, and what a preparation may cost as
/// a share of the exchange.
const LESS: u32 = 4;
const SLOWER: f64 = 0.06;
/// Longest time that products are prepared for, in cycles.
const LONGEST: f64 = 8192.0;

/// Cycles that HBM is busy with what an exchange reads at once.
fn burst(x: &Exchange, chip: &ChipConfig) -> u32 {
    let rows = match &x.how {
        How::Ring(r) => {
            let piece = |p: &Phase| r.streams.iter().map(|s| r.piece_rows(p, s)).sum::<u64>();
            r.phases.iter().filter(|p| p.reduce).map(piece).max().unwrap_or(0)
        }
        How::Direct(_) | How::Transfer(_) => 0,
    };
    let cycles = rows as f64 * chip.row_bytes() as f64 / chip.hbm_bytes_per_cycle().max(1.0);
    (cycles.min(LONGEST) as u32).next_power_of_two()
}

/// Most of the bandwidth of HBM that products leave to an exchange.
const MOST_SHARE: f64 = 0.6;

/// Share of HBM's bandwidth that an exchange takes at most: what all its links bring is stored, and read to be sent on.
fn share(x: &Exchange, chip: &ChipConfig) -> f64 {
    let streams = match &x.how {
        How::Ring(r) => r.streams.len() as f64,
        How::Direct(_) | How::Transfer(_) => 1.0,
    };
    (2.0 * streams * chip.link_bytes_per_cycle() / chip.hbm_bytes_per_cycle().max(1.0)).min(MOST_SHARE)
}

impl Emitter<'_> {
    /// Begins an exchange that other steps follow.
    pub(in crate::plan) fn begin_hidden(&mut self, x: &Exchange) -> Result<(), CompileError> {
        let (flight, chip) = (self.begin_exchange(x)?, self.memory.chip);
        let subroutine = self.progress(x, &flight, true);
        if !self.concealed.contains(&subroutine) {
            self.concealed.push(subroutine);
        }
        self.set_state(x, &flight);
        let number = self.concealed.iter().position(|&s| s == subroutine).unwrap_or(0) as i32 + 1;
        let number = self.b.s_imm(number);
        store(&mut self.b, self.plan.pod.state, State::Current, number);
        self.hidden = Some(Hidden {
            flight,
            subroutine,
            recv: x.how.recv(),
            burst: burst(x, chip),
            share: share(x, chip),
            cycles: exchange_cycles(x, chip),
        });
        self.look();
        Ok(())
    }

    pub(in crate::plan) fn end_hidden(&mut self, x: &Exchange) {
        if let Some(h) = self.hidden.take() {
            self.b.mark(x.op);
            self.run_to_the_end(h.subroutine);
            store(&mut self.b, self.plan.pod.state, State::Current, S::ZERO);
            self.end_exchange(&h.flight);
        }
    }

    /// Takes the exchange under way as far as it goes without waiting.
    pub(in crate::plan) fn look(&mut self) {
        if let Some(h) = &self.hidden {
            self.b.call(h.subroutine as u32, &[]);
            self.b.mark(self.op);
        }
    }

    /// The product's kernel that looks after the exchange under way.
    pub(in crate::plan) fn hooked(&mut self, kernel: usize) -> Option<Hooked> {
        let product = self.plan.products.get(&kernel)?;
        let h = self.hidden.as_ref()?;
        let (semaphore, burst, share, exchange) = (h.recv, h.burst, h.share, h.cycles);
        if product.cycles < message_cycles(self.memory.chip) {
            return None;
        }
        let state = self.plan.pod.state;
        let looks = self.dispatcher();
        let hook = Hook { kernel: looks as u32, wanted: state + State::Wanted as u32, semaphore };
        let mut chip = self.memory.chip.clone();
        let (latency, bandwidth) = (chip.hbm.latency_s, chip.hbm.bandwidth);
        let unprepared = estimate(&product.contraction, &chip, true).ok()?;
        // As well prepared as costs little: for the bandwidth that the exchange leaves, half of it, or only for waits.
        let bursts = (0..LESS).map(|shift| burst >> shift);
        let ways = [share, share / 2.0, 0.0].into_iter().flat_map(|s| bursts.clone().map(move |b| (b, s)));
        let mut way = (0, 0.0);
        for (wait, taken) in ways.chain([way]) {
            way = (wait, taken);
            chip.hbm.latency_s = latency + f64::from(wait) / chip.clock_hz;
            chip.hbm.bandwidth = bandwidth * (1.0 - taken);
            if estimate(&product.contraction, &chip, true).ok()? - unprepared <= SLOWER * exchange.min(unprepared) {
                break;
            }
        }
        let (entry, _) = product_entry(&product.contraction, &chip, Some(hook)).ok()?;
        let number = self.subroutine(format!("{:?} {hook:?} {way:?}", product.contraction), |e| {
            let base = e.descs.len() as u32;
            e.descs.extend(entry.descs.iter().cloned());
            let mut kernel = entry.kernel.clone();
            kernel.renumber(base);
            kernel
        });
        Some(Hooked { entry, number: number as u32 })
    }

    /// The subroutine that kernels call; its code is made when all exchanges are known.
    fn dispatcher(&mut self) -> usize {
        let chip = self.memory.chip;
        self.subroutine("looks".into(), |_| KernelBuilder::new("looks", chip).finish())
    }

    /// Makes the code of [`Emitter::dispatcher`].
    pub(in crate::plan) fn finish_looks(&mut self) {
        let concealed = std::mem::take(&mut self.concealed);
        if concealed.is_empty() {
            return;
        }
        let number = self.dispatcher();
        let mut b = KernelBuilder::new("looks", self.memory.chip);
        let current = load(&mut b, self.plan.pod.state, State::Current);
        let which = b.s_addi(current, -1);
        b.if_(current, |b| select(b, which, concealed.len(), &mut |b, i| b.call(concealed[i] as u32, &[])));
        let kernel: Kernel = b.finish();
        self.replace(number, kernel);
    }
}
