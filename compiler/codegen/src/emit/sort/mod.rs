//! Sort kernels: passes of a bitonic network over columns of registers.
//!
//! Arrays are `[2^row_bits, columns]`, every column (or group of `2^group_bits` neighbouring columns) a sequence of its own:
//! element `i` of a sequence is at row `i mod 2^row_bits`, in lane `i / 2^row_bits` of its group. Exchanges at small
//! distances, which a network makes most often, are then between registers; lanes are crossed only in the last levels.
//!
//! All exchanges put the smaller element at the smaller place: the first step of every level compares an element with its
//! mirror image in the block. So the elements from `count` on, which belong to no sequence, never move, and exchanges with
//! them are masked away.
//!
//! A pass loads `2^bits` registers whose rows differ in `bits` neighbouring bits, makes all steps at those distances,
//! and stores them; the sublanes of a register lie along other bits.

mod exchange;
mod lanes;
mod rows;

use crate::emit::loops::spec::Body;
use crate::kernel::{BufferRef, Kernel, KernelBuilder, S};
use exchange::Word;
use serde::{Deserialize, Serialize};
use systole_isa::{ChipConfig, DType};

/// What is sorted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SortSpec {
    /// Element types of the operands that are sorted together.
    pub dtypes: Vec<DType>,
    /// The comparator, over `2n` scalars.
    pub body: Body,
    /// The elements' first places go along as a last operand, and order what the comparator does not.
    pub places: Option<Places>,
    /// Elements of a sequence.
    pub count: u32,
    pub row_bits: u32,
    pub group_bits: u32,
    /// Sets of `lanes` columns, and the element rows from one to the next.
    pub planes: u32,
    pub plane_rows: u32,
    /// Element rows of a component of an array.
    pub component_rows: u32,
    /// Which operands' results are wanted, the places last.
    pub results: Vec<bool>,
}

/// First place of the element at a row and a lane of its group: a linear function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Places {
    pub row: u32,
    pub lane: u32,
}

/// Steps at `bits` distances down to `2^lo` rows, the first with the mirror image if `mirror`: of groups of `2^bits`
/// registers, `2^together` groups an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    pub mirror: bool,
    pub bits: u32,
    pub lo: u32,
    pub together: u32,
}

/// A part of the network: a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pass {
    /// Sorts blocks of `2^bits` rows. Parameters: operands to read, the network's array to write.
    First { bits: u32 },
    /// The steps of a level between far rows. Parameters: the network's array.
    Rows(Span),
    /// The steps at the last `bits` distances. Parameters: the network's array.
    Last { bits: u32 },
    /// The steps of level `row_bits + level` that cross lanes. Parameters: the network's array.
    Lanes { level: u32 },
    /// Takes the elements apart. Parameters: the network's array to read, the wanted results to write.
    Out,
}

impl SortSpec {
    /// Words of an element in registers.
    pub fn words(&self) -> u32 {
        self.dtypes.iter().map(|t| t.components() as u32).sum::<u32>() + self.places.is_some() as u32
    }

    /// Whether the network's array is the operand's own: one word an element. Else it holds 32-bit words `[words, 2^row_bits,
    /// columns]`, so that one address serves all words of an element.
    pub fn is_direct(&self) -> bool {
        self.words() == 1
    }

    /// Element rows from one set of columns to the next, and from one word to the next, in the network's array.
    fn inner(&self) -> (u32, u32) {
        if self.is_direct() { (self.plane_rows, 0) } else { (self.words() << self.row_bits, 1 << self.row_bits) }
    }

    /// Whether every place of the network holds an element.
    fn full(&self) -> bool {
        self.count as u64 == 1u64 << (self.row_bits + self.group_bits)
    }
}

/// The largest number of bits of a pass: what the registers of a chip hold of two iterations, with room for exchanges.
pub fn pass_bits(words: u32, chip: &ChipConfig) -> u32 {
    let room = chip.core.vector_registers * 3 / 10 / words.max(1);
    room.max(1).ilog2().clamp(chip.core.sublanes.ilog2().max(1), 4)
}

/// The passes of a whole sort, in order.
pub fn passes(spec: &SortSpec, chip: &ChipConfig) -> Vec<Pass> {
    let most = pass_bits(spec.words(), chip);
    let first = most.min(spec.row_bits - chip.core.sublanes.ilog2());
    let mut out = vec![Pass::First { bits: first }];
    // Steps at distances of `hi - 1` to `first` bits: what full passes leave comes first.
    let rows = |out: &mut Vec<Pass>, hi: u32, mirror: bool| {
        let mut hi = hi;
        let mut mirror = mirror;
        while hi > first {
            let rest = (hi - first) % most;
            let bits = if rest > 0 { rest } else { most };
            let groups = spec.row_bits - chip.core.sublanes.ilog2() - bits;
            let together = (most - bits).min(groups);
            out.push(Pass::Rows(Span { mirror, bits, lo: hi - bits, together }));
            hi -= bits;
            mirror = false;
        }
        out.push(Pass::Last { bits: first });
    };
    for level in first + 1..=spec.row_bits {
        rows(&mut out, level, true);
    }
    for level in 1..=spec.group_bits {
        out.push(Pass::Lanes { level });
        rows(&mut out, spec.row_bits, false);
    }
    if !spec.is_direct() {
        out.push(Pass::Out);
    }
    out
}

/// The kernel of a pass.
pub fn sort_kernel(spec: &SortSpec, pass: Pass, chip: &ChipConfig) -> Kernel {
    let mut b = KernelBuilder::new("sort", chip);
    match pass {
        Pass::First { bits } => rows::first(&mut b, spec, bits),
        Pass::Rows(span) => rows::middle(&mut b, spec, span),
        Pass::Last { bits } => rows::last(&mut b, spec, bits),
        Pass::Lanes { level } => lanes::level(&mut b, spec, level),
        Pass::Out => rows::out(&mut b, spec),
    }
    b.finish()
}

/// The arrays of a kernel: base of each operand, and how its words are loaded and stored.
struct Arrays {
    bases: Vec<(S, BufferRef)>,
    words: Vec<Word>,
}

impl Arrays {
    /// Arrays of their own for the operands that `wanted` names, as the next parameters; words of others are missing.
    fn outside(b: &mut KernelBuilder, spec: &SortSpec, wanted: &[bool]) -> Arrays {
        let mut words = exchange::words(spec);
        words.retain(|w| wanted[w.operand]);
        let mut number = 0;
        let numbers: Vec<usize> = wanted.iter().map(|&w| (number, number += w as usize).0).collect();
        words.iter_mut().for_each(|w| w.operand = numbers[w.operand]);
        let bases = (0..number).map(|_| (b.param(), b.buffer())).collect();
        Arrays { bases, words }
    }

    /// The network's array as the next parameter.
    fn new(b: &mut KernelBuilder, spec: &SortSpec) -> Arrays {
        let bases = vec![(b.param(), b.buffer())];
        let words = match spec.is_direct() {
            true => exchange::words(spec),
            false => (0..spec.words()).map(|w| Word::inner((w * spec.inner().1) as i32)).collect(),
        };
        Arrays { bases, words }
    }

    fn buffers(&self) -> Vec<BufferRef> {
        self.bases.iter().map(|b| b.1).collect()
    }
}
