//! The schedule checker: proves that bundles do what the kernels say, from the two alone.
//!
//! It is translation validation. Both sides of every kernel are executed on symbolic values ([`value`]), the tree of
//! instructions over virtual registers in program order ([`source`]), the bundles in theirs ([`machine`]), side by side
//! ([`walk`]); loops are proved by induction ([`cycle`], [`overlap`]). Proved is:
//! - every instruction with an effect is in the bundles once for each time that the kernel has it, through unrolling,
//!   software pipelining, prologues and epilogues, and nothing else is;
//! - every operand holds the value that its definition gives: registers, spilled ones, constants made anew;
//! - memory, matrix units, transpose buffers, semaphores and copies see their instructions in an order that gives what
//!   program order does ([`event`]: by buffers, places and the opcode table's effects);
//! - branches decide by the same values, calls go where they should with their arguments in place;
//! - bundles have the chip's form ([`form`]).
//!
//! It shares nothing with the scheduler but the kernels and the opcode table. `docs/checker.md` says more, the weak points
//! first.

mod cycle;
mod event;
mod form;
mod machine;
mod overlap;
mod source;
mod value;
mod walk;

pub use machine::SpillArea;

use crate::kernel::{Item, Kernel, Loop, Trips, Unit};
use machine::{Cell, Layout};
use std::borrow::Cow;
use std::collections::BTreeMap;
use systole_isa::{Bundle, ChipConfig, Kind, Op};
use walk::{Code, Walk};

/// What is wrong, and the bundle where it shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bundle {bundle}: {message}")]
pub struct CheckError {
    /// Index of the bundle.
    pub bundle: usize,
    /// What is wrong with it.
    pub message: String,
}

/// What the scheduler says of its bundles. None of it is believed: it is where the proof begins.
#[derive(Clone, Debug)]
pub struct Claims<'a> {
    /// First bundle of each kernel.
    pub starts: &'a [usize],
    /// Memory that no kernel's buffers overlap, for spilled registers.
    pub spill: &'a SpillArea,
}

/// Stack of the proof (only what is touched takes memory): loops in loops are proved one inside the other.
const STACK: usize = 512 << 20;

/// Proves that bundles do what the kernels of a unit say.
///
/// # Errors
/// Breaches of the form, or the first thing in each kernel that is not proved.
pub fn verify(unit: &Unit, bundles: &[Bundle], claims: &Claims<'_>, chip: &ChipConfig) -> Result<(), Vec<CheckError>> {
    std::thread::scope(|scope| {
        let proof = || prove(unit, bundles, claims, chip);
        match std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, proof) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => prove(unit, bundles, claims, chip),
        }
    })
}

fn prove(unit: &Unit, bundles: &[Bundle], claims: &Claims<'_>, chip: &ChipConfig) -> Result<(), Vec<CheckError>> {
    let mut errors = Vec::new();
    form::check(bundles, chip, &mut errors);
    if claims.starts.len() != unit.kernels.len() || claims.starts.first() != Some(&0) {
        errors.push(CheckError { bundle: 0, message: "the kernels are not where they should be".into() });
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let layout = Layout::new(claims.spill.clone(), chip.core.sublanes);
    let code = Code {
        bundles,
        starts: claims.starts,
        loops: loops(bundles),
        overwritten: overwritten(bundles, claims.starts, &layout),
        layout,
        sublanes: chip.core.sublanes,
        window: crate::kernel::pop_delay_window(chip) as usize,
    };
    for (i, kernel) in unit.kernels.iter().enumerate() {
        let kernel = written_out(kernel);
        if let Err(f) = Walk::kernel(&code, &kernel, i) {
            let message = format!("kernel {i} `{}`: {}", kernel.name, f.message);
            errors.push(CheckError { bundle: f.bundle, message });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Ends of the loops that begin at a bundle.
fn loops(bundles: &[Bundle]) -> BTreeMap<usize, Vec<usize>> {
    let mut out: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, b) in bundles.iter().enumerate() {
        for i in b.insts.iter().filter(|i| matches!(i.op, Op::BLoop | Op::BJmp)) {
            let target = i.operand(Kind::Target).unwrap_or(0) as usize;
            if target <= at {
                out.entry(target).or_default().push(at);
            }
        }
    }
    out
}

/// Cells of the spill area that each kernel may overwrite, with what it calls.
fn overwritten(bundles: &[Bundle], starts: &[usize], layout: &Layout) -> Vec<Vec<Cell>> {
    let end = |start: usize| starts.iter().copied().filter(|&s| s > start).min().unwrap_or(bundles.len());
    let codes: Vec<&[Bundle]> = starts.iter().map(|&s| bundles.get(s..end(s)).unwrap_or_default()).collect();
    let spills = |c: &&[Bundle]| {
        let mut cells = layout.changed(c);
        cells.retain(|&c| c >= systole_isa::Reg::COUNT);
        cells
    };
    let mut out: Vec<Vec<Cell>> = codes.iter().map(spills).collect();
    let calls: Vec<Vec<usize>> = (codes.iter())
        .map(|c| {
            let targets =
                c.iter().flat_map(|b| &b.insts).filter(|i| i.op == Op::BCall).filter_map(|i| i.operand(Kind::Target));
            targets.filter_map(|t| starts.iter().position(|&s| s == t as usize)).collect()
        })
        .collect();
    loop {
        let mut grown = false;
        for k in 0..out.len() {
            let mut all = out[k].clone();
            calls[k].iter().for_each(|&callee| all.extend(&out[callee]));
            all.sort_unstable();
            all.dedup();
            grown |= all.len() != out[k].len();
            out[k] = all;
        }
        if !grown {
            return out;
        }
    }
}

/// The kernel without loops of one trip, but for those around calls, and of none.
fn written_out(kernel: &Kernel) -> Cow<'_, Kernel> {
    if !kernel.body.iter().any(is_trivial) {
        return Cow::Borrowed(kernel);
    }
    let mut kernel = kernel.clone();
    kernel.body = without_trivial(std::mem::take(&mut kernel.body));
    Cow::Owned(kernel)
}

fn is_trivial(item: &Item) -> bool {
    matches!(item, Item::Loop(l) if goes(l)) || item.regions().flatten().any(is_trivial)
}

fn goes(l: &Loop) -> bool {
    match l.trips {
        Trips::Static(0) => true,
        Trips::Static(1) => !l.body.iter().any(Item::calls),
        Trips::Static(_) | Trips::Dynamic(_) => false,
    }
}

fn without_trivial(items: Vec<Item>) -> Vec<Item> {
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Loop(l) if goes(&l) => {
                if l.trips == Trips::Static(1) {
                    out.extend(without_trivial(l.body));
                }
            }
            Item::Loop(mut l) => {
                l.body = without_trivial(l.body);
                out.push(Item::Loop(l));
            }
            Item::If { cond, then, otherwise } => {
                let (then, otherwise) = (without_trivial(then), without_trivial(otherwise));
                out.push(Item::If { cond, then, otherwise });
            }
            Item::While { head, cond, body } => {
                let (head, body) = (without_trivial(head), without_trivial(body));
                out.push(Item::While { head, cond, body });
            }
            Item::Inst(_) | Item::Call { .. } | Item::Mark { .. } => out.push(item),
        }
    }
    out
}
