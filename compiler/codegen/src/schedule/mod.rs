//! Scheduling: from kernels over virtual registers ([`crate::kernel::Unit`]) to bundles of the chip.
//!
//! Per kernel: what lives across calls goes to memory ([`calls`], [`spill`]); the tree becomes linear code, blocks by list
//! scheduling ([`list`]) and innermost counted loops by software pipelining ([`pipeline`], [`modulo`]), both on the
//! dependence graph of [`deps`]; registers are allocated ([`regalloc`]). When registers run out, the kernel is lowered
//! again with less overlap where they ran out, and last with more registers in memory. [`emit`] links the kernels;
//! [`crate::check`] proves the result ([`Scheduled::verify`]).
//!
//! Results depend on nothing but the arguments. No pass looks at what a kernel computes.

mod body;
pub mod calls;
mod chaos;
mod code;
mod crowded;
pub mod deps;
pub mod emit;
mod induction;
pub(crate) mod list;
mod liveness;
mod lower;
mod memory;
mod modulo;
mod pipeline;
pub mod print;
mod regalloc;
mod slots;
mod spill;
mod threads;

pub use code::{Least, PipelineReport, RegionKind};
pub use emit::{KernelReport, RegionReport};

use crate::check::{CheckError, Claims, SpillArea};
use crate::kernel::regs::File;
use crate::kernel::{Kernel, Unit};
use chaos::Chaos;
use code::Code;
use lower::{LAST_LEVEL, Levels};
use rustc_hash::{FxHashMap, FxHashSet};
use spill::{Area, Spiller};
use std::cell::RefCell;
use std::hash::Hash;
use std::rc::Rc;
use systole_isa::program::{DebugLine, DebugPlace, DebugRange};
use systole_isa::{Bundle, ChipConfig, Inst, Op, Slot};

/// How to schedule.
#[derive(Clone, Debug)]
pub struct ScheduleOptions {
    /// A seed: random legal choices instead of the scheduler's own. Results must not change.
    pub chaos: Option<u64>,
    /// First word row of vector memory, and first word of scalar memory, free for spilled registers.
    pub spill_base_row: u32,
    pub spill_base_word: u32,
    /// Rows of vector memory for spilled registers: a kernel that needs more lets them share places.
    pub spill_rows: u32,
    /// Whether innermost counted loops are software-pipelined.
    pub pipeline: bool,
    /// Threads of the host that share the kernels; changes no result.
    pub threads: usize,
}

impl ScheduleOptions {
    /// All optimisations, with spills from the given row and word on, by as many threads as the host has.
    pub fn new(spill_base_row: u32, spill_base_word: u32) -> ScheduleOptions {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        ScheduleOptions { chaos: None, spill_base_row, spill_base_word, spill_rows: u32::MAX, pipeline: true, threads }
    }
}

/// A scheduled program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scheduled {
    pub bundles: Vec<Bundle>,
    /// The debug op of each run of bundles.
    pub ranges: Vec<DebugRange>,
    /// Taken for spilled registers.
    pub spilled: SpillArea,
    pub kernels: Vec<KernelReport>,
    /// Lines that kernels bring, and the runs of bundles that come from each.
    pub places: Vec<DebugPlace>,
    pub lines: Vec<DebugLine>,
}

impl Scheduled {
    /// Proves that the bundles do what the kernels that they were made of say.
    ///
    /// # Errors
    /// What is not proved, by bundle.
    pub fn verify(&self, unit: &Unit, chip: &ChipConfig) -> Result<(), Vec<CheckError>> {
        let starts: Vec<usize> = self.kernels.iter().map(|k| k.start as usize).collect();
        crate::check::verify(unit, &self.bundles, &Claims { starts: &starts, spill: &self.spilled }, chip)
    }
}

/// Registers that are wanted at once (scalar, vector or mask), and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    pub file: File,
    pub need: u32,
    pub have: u32,
}

/// Why a program cannot be scheduled for a chip.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    #[error("kernel `{kernel}` needs {} {} registers at once, the chip has {}", .short.need, .short.file.name(), .short.have)]
    Registers { kernel: String, short: Shortage },
    #[error("kernel `{kernel}` uses {mnemonic}, but the chip has no {slot:?} slot")]
    NoSlot { kernel: String, mnemonic: &'static str, slot: Slot },
    #[error("kernel `{kernel}` takes {} arguments, registers are left for {}", .short.need, .short.have)]
    Arguments { kernel: String, short: Shortage },
    #[error("kernel `{kernel}` calls kernel {callee}, which does not exist")]
    NoKernel { kernel: String, callee: u32 },
}

/// Lowerings of a kernel with more and more care before giving up.
const ATTEMPTS: u32 = 200;
/// Rounds after which twice as many registers are spilled in each.
const MORE_AFTER: u32 = 24;

/// Kernels that were scheduled before, for one chip and the same options but for the spills' first word, by what they are made
/// from.
pub struct Done<K>(RefCell<FxHashMap<K, Rc<DoneKernel>>>);

impl<K> Default for Done<K> {
    fn default() -> Done<K> {
        Done(RefCell::default())
    }
}

/// A kernel that was scheduled.
struct DoneKernel {
    code: Code,
    /// The number of its first DMA descriptor.
    descs: u32,
    /// Where its spilled registers begin and end.
    from: Area,
    to: Area,
}

impl DoneKernel {
    /// The end of its spills if they begin at `start`; `None` if they cannot: how many rows share places depends on the first.
    fn end(&self, start: Area) -> Option<Area> {
        let rows = self.from.row == start.row;
        rows.then(|| Area { word: start.word + self.to.word - self.from.word, ..self.to })
    }

    /// The code for a first descriptor and a first spilled word of its own.
    fn linked(self: Rc<DoneKernel>, descs: u32, start: Area) -> Linked {
        Linked { descs: descs as i32 - self.descs as i32, words: start.word as i32 - self.from.word as i32, done: self }
    }
}

/// Schedules all kernels of a unit and links them, the main program first.
pub fn schedule(unit: &Unit, chip: &ChipConfig, options: &ScheduleOptions) -> Result<Scheduled, ScheduleError> {
    schedule_known::<()>(unit, chip, options, &|_| None, &Done::default())
}

/// [`schedule`], but for kernels that were scheduled before. `key` says of a kernel that calls nothing what it is made from, but for
/// the number of its first descriptor, which comes with it.
pub fn schedule_known<'k, K: Hash + Eq + Clone>(
    unit: &Unit,
    chip: &ChipConfig,
    options: &ScheduleOptions,
    key: &dyn Fn(usize) -> Option<(&'k K, u32)>,
    done: &Done<K>,
) -> Result<Scheduled, ScheduleError> {
    let base = Area { row: options.spill_base_row, word: options.spill_base_word, sublanes: chip.core.sublanes };
    check_calls(unit, chip)?;
    // Kernels that call nothing are never active together and share an area; each of the others has its own after it.
    let mut codes: Vec<Option<Linked>> = vec![None; unit.kernels.len()];
    let mut end = base;
    let new = new_leaves(unit, key, done, base);
    let ahead = threads::schedule_apart(unit, &new, (chip, options), base);
    let mut ahead: FxHashMap<usize, _> = new.into_iter().zip(ahead).collect();
    for leaf in [true, false] {
        let shared = end;
        for (i, kernel) in unit.kernels.iter().enumerate() {
            if calls::has_call(&kernel.body) == leaf {
                continue;
            }
            let start = if leaf { shared } else { end };
            let key = key(i).filter(|_| leaf && i > 0);
            let found = key.and_then(|(k, descs)| {
                let done = Rc::clone(done.0.borrow().get(k)?);
                Some((done.end(start)?, done.linked(descs, start)))
            });
            let (used, linked) = match found {
                Some(found) => found,
                None => {
                    let ahead = ahead.remove(&i).filter(|_| leaf);
                    let (code, to) = ahead.unwrap_or_else(|| schedule_kernel(kernel, i == 0, chip, options, start))?;
                    let descs = key.map_or(0, |k| k.1);
                    let made = Rc::new(DoneKernel { code, descs, from: start, to });
                    if let Some((k, _)) = key {
                        done.0.borrow_mut().insert(k.clone(), Rc::clone(&made));
                    }
                    (to, made.linked(descs, start))
                }
            };
            end.row = end.row.max(used.row);
            end.word = end.word.max(used.word);
            codes[i] = Some(linked);
        }
    }
    let codes: Vec<Linked> = codes.into_iter().flatten().collect();
    let mut out = emit::link(unit, &codes);
    for (report, code) in out.kernels.iter_mut().zip(&codes) {
        let (from, to) = (code.done.from.row, code.done.to.row);
        report.spilled = (from, to - from);
    }
    out.spilled = SpillArea { rows: base.row..end.row, words: base.word..end.word };
    Ok(out)
}

/// The kernels that call nothing and that nothing is known of, one of each key.
fn new_leaves<'k, K: Hash + Eq>(
    unit: &Unit,
    key: &dyn Fn(usize) -> Option<(&'k K, u32)>,
    done: &Done<K>,
    start: Area,
) -> Vec<usize> {
    let (known, mut seen) = (done.0.borrow(), FxHashSet::default());
    let leaves = (0..unit.kernels.len()).filter(|&i| !calls::has_call(&unit.kernels[i].body));
    let new = leaves.filter(|&i| {
        let key = key(i).filter(|_| i > 0);
        key.is_none_or(|(k, _)| known.get(k).is_none_or(|d| d.end(start).is_none()) && seen.insert(k))
    });
    new.collect()
}

/// A kernel's code, and what is added to the numbers of its descriptors and of the words of its spilled scalars.
#[derive(Clone)]
struct Linked {
    done: Rc<DoneKernel>,
    descs: i32,
    words: i32,
}

impl Linked {
    /// An instruction of the code, with its descriptor or spilled word moved.
    fn moved(&self, mut i: Inst) -> Inst {
        // Spilled scalars lie at constant addresses, behind every word that the program knows.
        let spilled = self.done.from.word as i32..self.done.to.word as i32;
        if matches!(i.op, Op::DmaStart | Op::DmaRemote) {
            i.operands[0] += self.descs;
        } else if matches!(i.op, Op::SLd | Op::SSt) && i.operands[1] == 0 && spilled.contains(&i.operands[2]) {
            i.operands[2] += self.words;
        }
        i
    }
}

fn check_calls(unit: &Unit, chip: &ChipConfig) -> Result<(), ScheduleError> {
    let have = crate::kernel::arguments::in_registers(chip);
    for k in &unit.kernels {
        let room = |need: u32| {
            let (kernel, short) = (k.name.clone(), Shortage { file: File::Scalar, need, have });
            if need > have { Err(ScheduleError::Arguments { kernel, short }) } else { Ok(()) }
        };
        room(k.params.len() as u32)?;
        calls::each_call(&k.body, &mut |callee, args| {
            if callee as usize >= unit.kernels.len() {
                return Err(ScheduleError::NoKernel { kernel: k.name.clone(), callee });
            }
            room(args)
        })?;
    }
    Ok(())
}

fn schedule_kernel(
    kernel: &Kernel,
    is_main: bool,
    chip: &ChipConfig,
    options: &ScheduleOptions,
    area: Area,
) -> Result<(Code, Area), ScheduleError> {
    let mut kernel = kernel.clone();
    lower::inline_small_loops(&mut kernel.body);
    let mut spiller = Spiller::new(area, options.spill_base_row.saturating_add(options.spill_rows));
    if calls::has_call(&kernel.body) {
        calls::expose_counters(&mut kernel);
        let crossing = calls::across_calls(&kernel);
        if kernel.saves {
            spiller.save(&mut kernel, &crossing);
        } else {
            spiller.spill(&mut kernel, &crossing);
        }
    }
    if options.pipeline {
        let crowding = crowded::crowding(&kernel, chip);
        spiller.keep(&mut kernel, &crowding);
    }
    let mut levels = Levels::default();
    let mut exposed = false;
    let mut chaos = Chaos::new(options.chaos);
    let mut last = Shortage { file: File::Scalar, need: 0, have: 0 };
    for attempt in 0..ATTEMPTS {
        let mut code = lower::lower(&kernel, is_main, chip, options, &levels)?;
        let overflow = match regalloc::allocate(&mut code, chip, &mut chaos, &|r| spiller.pinned.contains(&r)) {
            Ok(()) => return Ok((code, spiller.area)),
            Err(o) => o,
        };
        last = overflow.short;
        // What needs many rounds is short of registers in many places: more go at once.
        let excess =
            (overflow.short.need.saturating_sub(overflow.short.have).max(1) as usize) << (attempt / MORE_AFTER).min(8);
        let region = &code.regions[overflow.region as usize];
        let level = levels.entry(region.id).or_insert(0);
        if overflow.candidates.iter().any(|c| c.through) {
            spiller.spill(&mut kernel, &overflow.cheapest(excess, true));
        } else if *level < LAST_LEVEL && attempt < MORE_AFTER {
            *level += 1;
        } else if *level < LAST_LEVEL {
            // Short of registers in many places: all that run as seldom become careful.
            let seldom = code.regions.iter().filter(|r| r.depth <= region.depth);
            seldom.for_each(|r| {
                levels.insert(r.id, LAST_LEVEL);
            });
        } else if !overflow.candidates.is_empty() {
            spiller.spill(&mut kernel, &overflow.cheapest(excess, false));
        } else if overflow.short.file == File::Scalar && !exposed && calls::expose_outer_counters(&mut kernel) {
            // What is left are the counters of loops in loops. Pieces get other numbers.
            exposed = true;
            levels = Levels::default();
        } else {
            break;
        }
    }
    Err(ScheduleError::Registers { kernel: kernel.name, short: last })
}
