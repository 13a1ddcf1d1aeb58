//! Which algorithm a collective gets, and why.

use super::lines::{Line, Way};
use super::shares::Split;
use super::{Request, RingKind};
use crate::plan::guide::impossible;
use crate::plan::lower::Lower;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use systole_hlo::error::CompileError;
use systole_isa::ChipConfig;

/// Ways to do a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// Rings along the axes of the topology, both ways at once: little traffic, many steps.
    Ring,
    /// Everybody sends to everybody: one step.
    Direct,
    /// Everybody sends to everybody along one axis after the other.
    Axes,
}

impl Algorithm {
    /// The algorithm of that name.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        match name {
            "ring" => Some(Algorithm::Ring),
            "direct" => Some(Algorithm::Direct),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Ring => "ring",
            Algorithm::Direct => "direct",
            Algorithm::Axes => "direct by axis",
        }
    }
}

/// What was chosen for a collective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The HLO instruction.
    pub name: String,
    pub algorithm: Algorithm,
    /// The reason, in words.
    pub reason: String,
    /// Who exchanges with whom.
    pub partners: Vec<Vec<u32>>,
}

/// Estimated cycles of a reduction in which everybody along an axis sends to everybody, axis by axis.
fn by_axis(q: &Request<'_>, lines: &[Line], chip: &ChipConfig) -> f64 {
    let hop = chip.cycles(chip.ici.hop_latency_s) as f64;
    let hbm = chip.hbm_latency_cycles() as f64;
    let axis = |l: &Line| {
        let n = f64::from(l.n);
        let far = n / 4.0 * f64::from(l.shared);
        let sent = q.bytes as f64 * (n - 1.0) * far.max(1.0) / (2.0 * chip.link_bytes_per_cycle());
        (far.max(0.5) * 2.0 + 2.0) * hop + sent + 4.0 * hbm
    };
    lines.iter().map(axis).sum()
}

/// Most devices that send to each other directly if there is a choice.
const MOST_DIRECT: u64 = 64;

impl Lower<'_> {
    /// The way that rings take, the fastest by estimate of those for which there are semaphores.
    pub(super) fn ring_way(&mut self, q: &Request<'_>) -> (Rc<Way>, Split) {
        let ways = self.ways(q);
        let one = ways.iter().flat_map(|w| w.splits(self.chip).iter().map(move |s| (w, s)));
        let fits = |(w, s): &(&Rc<Way>, &Split)| self.plan.pod.has_semaphores(&w.semaphores(q, s));
        let best = one.filter(fits).min_by(|a, b| a.1.estimate(q, self.chip).total_cmp(&b.1.estimate(q, self.chip)));
        if let Some((way, split)) = best {
            return (Rc::clone(way), split.clone());
        }
        // One ring through all takes the least.
        let way = Rc::new(Way::new(vec![self.one_ring(&q.groups)]));
        let split = way.splits(self.chip)[0].clone();
        (way, split)
    }

    /// Chooses by estimated time; `fits`: the direct way has the memory that it needs.
    pub(super) fn choose(&mut self, q: &Request<'_>, fits: bool) -> Result<Algorithm, CompileError> {
        let n = q.groups.first().map_or(1, Vec::len) as u64;
        let chip = self.chip;
        let ways = self.ways(q);
        let lines = &ways[0].lines;
        let ring = self.ring_way(q).1.estimate(q, chip);
        let rate: f64 = lines.iter().map(|l| l.bytes_per_cycle(chip)).sum();
        let hop = chip.cycles(chip.ici.hop_latency_s) as f64;
        let hbm = chip.hbm_latency_cycles() as f64;
        let bytes = q.bytes as f64;
        let steps: f64 = lines.iter().map(|a| f64::from(a.n) - 1.0).sum();
        let sent = match q.kind {
            RingKind::AllReduce => bytes * (n as f64 - 1.0),
            RingKind::ReduceScatter | RingKind::AllGather => bytes * (n as f64 - 1.0) / n as f64,
        };
        // Messages go several hops and share links.
        let far = steps / 4.0 + 1.0;
        let direct = far * (hop + sent / rate) + 2.0 * hbm;
        let longest = lines.iter().map(|l| u64::from(l.n)).max().unwrap_or(1);
        let (pinned, line) = match self.guide.schedule.exchange(q.name) {
            Some((a, line)) => (Some(a), Some(line)),
            None => (self.plan.pod.pinned, None),
        };
        let axes_fit = self.may_go_by_axis(q, lines) && longest <= MOST_DIRECT;
        if let Some(line) = line
            && (pinned == Some(Algorithm::Direct) && !fits || pinned == Some(Algorithm::Axes) && !axes_fit)
        {
            return Err(impossible(line, format!("`{}` cannot be done so: contributions at once do not fit", q.name)));
        }
        if pinned == Some(Algorithm::Axes) && axes_fit {
            self.note(q, Algorithm::Axes, "asked for".to_string());
            return Ok(Algorithm::Axes);
        }
        if axes_fit && pinned.is_none() {
            let axes = by_axis(q, lines, chip);
            if axes < ring && (axes < direct || !fits || n > MOST_DIRECT) {
                let reason =
                    format!("axis by axis; estimated cycles: ring {ring:.0}, direct {direct:.0}, by axis {axes:.0}");
                self.note(q, Algorithm::Axes, reason);
                return Ok(Algorithm::Axes);
            }
        }
        let (algorithm, reason) = match (pinned, fits && n <= MOST_DIRECT) {
            (Some(Algorithm::Direct), _) if fits => (Algorithm::Direct, "asked for".to_string()),
            (Some(Algorithm::Ring), _) => (Algorithm::Ring, "asked for".to_string()),
            (_, false) => (Algorithm::Ring, format!("{n} contributions at once do not fit")),
            (_, true) => {
                let best = if direct < ring { Algorithm::Direct } else { Algorithm::Ring };
                (best, format!("estimated cycles: ring {ring:.0}, direct {direct:.0}"))
            }
        };
        self.note(q, algorithm, reason);
        Ok(algorithm)
    }

    /// Notes a choice for the dump.
    pub(super) fn note(&mut self, q: &Request<'_>, algorithm: Algorithm, reason: String) {
        let n = q.groups.first().map_or(1, Vec::len);
        let reason = format!("{} bytes, {} groups of {n}; {reason}", q.bytes, q.groups.len());
        let partners = q.groups.clone();
        self.plan.pod.choices.push(Choice { name: q.name.to_string(), algorithm, reason, partners });
    }

    /// Whether an all-reduce can go axis by axis: there are several, and contributions along each fit at once.
    pub(super) fn may_go_by_axis(&self, q: &Request<'_>, lines: &[Line]) -> bool {
        let longest = lines.iter().map(|l| l.n as usize).max().unwrap_or(1);
        let along = Request { groups: vec![(0..longest as u32).collect()], ..q.clone() };
        q.kind == RingKind::AllReduce && lines.len() > 1 && self.slots_fit(&along)
    }

    /// Whether everybody's contribution to a part fits in vector memory at once.
    pub(super) fn slots_fit(&self, q: &Request<'_>) -> bool {
        let n = q.groups.first().map_or(1, Vec::len) as u64;
        let slot = q.parts.components * q.parts.slot_component(q.parts.run, self.chip.core.sublanes);
        slot.saturating_mul(n + 1) <= self.chip.vmem_rows() / 8
    }
}
