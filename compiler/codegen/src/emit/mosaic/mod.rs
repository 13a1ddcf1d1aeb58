//! Kernels that Pallas wrote: from their Mosaic modules to instructions.
//!
//! - [`value`]: what values are while a kernel is lowered; [`facts`]: what is known of them before;
//! - [`nest`]: loops over tiles of vectors; [`tiles`]: tiles in registers and in memory; [`element`]: operations on elements;
//! - [`block`]: operations in order, and which vectors are computed when;
//! - [`scalar`], [`vector`], [`reduce`], [`shapes`], [`rotate`], [`gather`], [`random`], [`product`], [`control`], [`array`], [`copy`]: operations by family;
//! - [`stream`]: products whose rows run through the matrix units while a loop works on what comes out;
//! - [`grid`]: the loop over the grid, with the copies of its [`window`]s running ahead.
//!
//! A vector of more than a few registers is an expression until something needs it in memory; then a loop over its tiles
//! computes all of the expression at once, tile by tile. What several others need is stored by the first loop that
//! computes it. Small vectors are computed at once and stay in registers.
//!
//! Invariants: a register of a vector of one row has that row in every sublane, and of one column that column in every
//! lane. Before memory is written, every vector that still has to be read from it has been. Different buffers never
//! overlap; memory of temporary vectors keeps its buffer when it is used again.

mod array;
mod block;
mod control;
mod copy;
mod element;
mod facts;
mod gather;
mod grid;
mod nest;
mod product;
mod random;
mod reduce;
mod rotate;
mod scalar;
mod shapes;
mod stream;
mod tiles;
mod value;
mod vector;
mod window;

use crate::kernel::{BufferRef, Kernel, KernelBuilder, KernelCode, Needs, S};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use systole_hlo::graph::op::Precision;
use systole_isa::program::HostCall;
use systole_isa::{ChipConfig, DType, DmaDesc};
use systole_mosaic as mosaic;
use value::Val;

pub(super) type Refused = mosaic::Error;

/// An array of values that was made, or why it cannot be.
type Made = Result<std::rc::Rc<value::Tensor>, Refused>;

/// A kernel of Pallas: with the chip it says all that the kernel's code depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MosaicSpec {
    /// The module in MLIR bytecode, in hexadecimal digits.
    pub body: String,
    /// The arrays in HBM: operands, then results. All lie with their last dimension along lanes.
    pub arrays: Vec<MosaicArray>,
    /// How many of them are operands.
    pub operands: u32,
    /// Arrays that are one: an operand and a result, by number.
    pub aliases: Vec<(u32, u32)>,
    /// The first word of scalar memory that the kernel may use.
    pub smem: u32,
    /// What one of several cores does of it; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// Arrays of the kernel's own, in the order in which it makes them, whose rows are apart as [`MosaicArray::apart`] says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<u32>,
    /// The least precision of products of f32.
    #[serde(default, skip_serializing_if = "is_default")]
    pub precision: Precision,
}

fn is_default(p: &Precision) -> bool {
    *p == Precision::Default
}

/// One core's part of a grid: of a dimension, whose steps may run in any order, a run of the indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Share {
    pub dimension: u32,
    pub core: u32,
    pub cores: u32,
}

impl Share {
    /// The first index of `size`, and how many, that are the core's.
    fn of(self, size: u64) -> (u64, u64) {
        let first = |core: u32| size * u64::from(core) / u64::from(self.cores.max(1));
        (first(self.core), first(self.core + 1) - first(self.core))
    }
}

/// An array of a kernel in HBM.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MosaicArray {
    pub dtype: DType,
    pub dims: Vec<u64>,
    /// Of narrow elements whose rows share words: every row begins a word of its own, what is behind it there is padding.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
}

impl MosaicArray {
    /// The sizes that it lies in memory with.
    pub fn stored(&self) -> Vec<u64> {
        match self.dims.split_last() {
            Some((columns, rows)) if self.apart => {
                vec![rows.iter().product::<u64>() * self.dtype.packing() as u64, *columns]
            }
            _ => self.dims.clone(),
        }
    }

    /// Whether its rows can be kept apart: none of them are one behind the other in a register.
    pub fn can_be_apart(&self) -> bool {
        let n = self.dims.len();
        !self.apart && self.dtype.packing() > 1 && self.dtype.components() == 1 && n > 2 && self.dims[n - 2] == 1
    }
}

/// A part of a kernel's scratch area.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What it is for.
    pub name: String,
    /// Its first word row, and how many it has.
    pub row: u32,
    pub rows: u32,
}

/// The kernel of a [`MosaicSpec`]. Parameters: the first granule of each array, then the scratch area (word rows).
#[derive(Clone, Debug)]
pub struct MosaicKernel {
    /// Calls of the host are what it prints and checks.
    pub code: KernelCode,
    /// What the scratch area holds, by first row.
    pub parts: Vec<Part>,
    /// Words of scalar memory from [`MosaicSpec::smem`] on.
    pub smem_words: u32,
}

/// The code of a kernel.
///
/// # Errors
/// What has no lowering, with its line of Python.
pub fn mosaic_kernel(spec: &MosaicSpec, name: &str, chip: &ChipConfig) -> Result<MosaicKernel, Refused> {
    lowered(spec, name, chip, &mut Vec::new())
}

/// A kernel's code, and the kernel with rows apart in the arrays where copies begin within a word otherwise.
///
/// # Errors
/// As [`mosaic_kernel`].
pub fn even_kernel(mut spec: MosaicSpec, name: &str, chip: &ChipConfig) -> Result<(MosaicSpec, MosaicKernel), Refused> {
    // What cannot be mended checks itself while it runs, or is refused in its own words.
    let mut best: Option<(MosaicSpec, Result<MosaicKernel, Refused>)> = None;
    loop {
        let mut within = Vec::new();
        let code = lowered(&spec, name, chip, &mut within);
        let mut next = spec.clone();
        within.into_iter().for_each(|i| next.keep_apart(i));
        let done = next == spec;
        let (kept, result) = match best.take() {
            Some(earlier) if code.is_err() => earlier,
            _ => (spec, code),
        };
        if done {
            return result.map(|code| (kept, code));
        }
        best = Some((kept, result));
        spec = next;
    }
}

impl MosaicSpec {
    /// Keeps the rows of an array apart where that can be: those of the call are numbered first, then the kernel's own.
    fn keep_apart(&mut self, i: u32) {
        match i.checked_sub(self.arrays.len() as u32) {
            Some(own) if self.apart.contains(&own) => {}
            Some(own) => self.apart.push(own),
            None => {
                let twins = self.aliases.iter().filter(|a| a.0 == i || a.1 == i).flat_map(|a| [a.0, a.1]);
                for i in twins.chain([i]).collect::<Vec<u32>>() {
                    let a = &mut self.arrays[i as usize];
                    a.apart |= a.can_be_apart();
                }
            }
        }
    }
}

/// The code of a kernel. `within`: arrays that a copy begins in, or may begin in, within a word, as [`MosaicSpec::keep_apart`]
/// numbers them; the kernel checks what is not known before.
fn lowered(spec: &MosaicSpec, name: &str, chip: &ChipConfig, within: &mut Vec<u32>) -> Result<MosaicKernel, Refused> {
    let bytes: Option<Vec<u8>> = (0..spec.body.len() / 2)
        .map(|i| spec.body.get(2 * i..2 * i + 2).and_then(|d| u8::from_str_radix(d, 16).ok()))
        .collect();
    let bytes = bytes.ok_or_else(|| Refused::new("the kernel is no hexadecimal number"))?;
    let mut module = mosaic::Module::decode(&bytes)?;
    module.hoist_products();
    let kernel = mosaic::Kernel::of(&module)?;
    let mut b = KernelBuilder::new(name, chip);
    b.save_around_calls();
    let params: Vec<S> = spec.arrays.iter().map(|_| b.param()).collect();
    let scratch = b.param();
    let shifted = [0, 1, 2].map(|i| if i == 0 { scratch } else { b.s_muli(scratch, 1 << i) });
    let mut l = Lower {
        chip,
        module: &module,
        kernel,
        grid: Vec::new(),
        turns: Vec::new(),
        spec,
        params,
        word_row: scratch,
        scratch: shifted,
        buffers: 0,
        rows: 0,
        filled: 0,
        parts: Vec::new(),
        semaphores: 0,
        words: 0,
        free: Rc::default(),
        env: FxHashMap::default(),
        last: FxHashMap::default(),
        uses: FxHashMap::default(),
        step: 0,
        making: Vec::new(),
        flying: None,
        facts: facts::Facts::default(),
        defined: Vec::new(),
        descs: Vec::new(),
        host_calls: Vec::new(),
        callees: Vec::new(),
        products: FxHashMap::default(),
        whole: Vec::new(),
        far_buffers: Vec::new(),
        carried: Vec::new(),
        regions: Vec::new(),
        random: None,
        own_buffers: Vec::new(),
        within: RefCell::default(),
    };
    let first = l.kernel.function.body.operations.iter().find_map(|o| o.place.as_ref()).map(ToString::to_string);
    let done = l.run(&mut b).map_err(|e| Refused { place: e.place.or(first), what: e.what });
    *within = l.within.take();
    done?;
    let parts = l.all_parts();
    let needs = Needs { scratch_rows: l.rows.next_multiple_of(32), semaphores: l.semaphores };
    let code = KernelCode { kernel: b.finish(), callees: l.callees, descs: l.descs, host_calls: l.host_calls, needs };
    Ok(MosaicKernel { code, parts, smem_words: l.words })
}

/// A kernel being lowered.
pub(super) struct Lower<'a> {
    chip: &'a ChipConfig,
    module: &'a mosaic::Module,
    kernel: mosaic::Kernel<'a>,
    /// Sizes of the grid.
    grid: Vec<value::Num>,
    /// Of each of its dimensions the first index that runs here, and how many do.
    turns: Vec<(i32, value::Num)>,
    spec: &'a MosaicSpec,
    /// The first granule of each array.
    params: Vec<S>,
    /// The scratch area, in word rows, and in element rows by log2 of their packing.
    word_row: S,
    scratch: [S; 3],
    buffers: u32,
    /// The word row of the scratch area where its last array ends.
    filled: u32,
    /// Word rows of the scratch area, semaphores, words of scalar memory in use.
    rows: u32,
    semaphores: u32,
    words: u32,
    /// Windows, arrays and scratch in the scratch area.
    parts: Vec<Part>,
    /// Memory of temporary vectors that nobody needs any more: rows, first row, buffer.
    free: Rc<RefCell<Vec<(u32, u32, BufferRef)>>>,
    env: FxHashMap<mosaic::Value, Val>,
    /// Of each value the number of the last operation of its block that uses it, and how many operations do.
    last: FxHashMap<mosaic::Value, usize>,
    uses: FxHashMap<mosaic::Value, u32>,
    /// What operations show of values.
    facts: facts::Facts<'a>,
    /// The product whose first rows the units have.
    flying: Option<Box<stream::Stream>>,
    /// Vectors that are being computed into memory or registers.
    making: Vec<std::rc::Rc<value::Tensor>>,
    /// The number of the operation in its block.
    step: usize,
    /// Of the open blocks the values defined so far.
    defined: Vec<Vec<mosaic::Value>>,
    descs: Vec<DmaDesc>,
    host_calls: Vec<HostCall>,
    callees: Vec<Kernel>,
    /// Products that there is a kernel for.
    products: FxHashMap<String, (u32, u32)>,
    /// Bases of element rows that begin word rows.
    whole: Vec<S>,
    /// Of each array in HBM its buffer.
    far_buffers: Vec<BufferRef>,
    /// Semaphores that are operands or results.
    carried: Vec<copy::carried::Carried>,
    /// Names of the traced regions around the operation, outermost first.
    regions: Vec<String>,
    /// The seed of random bits, and how often some were drawn since.
    random: Option<(S, S)>,
    /// Of each array of the kernel's own its buffer.
    own_buffers: Vec<BufferRef>,
    /// Arrays with copies that begin within a word.
    within: RefCell<Vec<u32>>,
}

impl Lower<'_> {
    /// Word rows of the scratch area. A load of few rows reads others behind them, which must not be a copy's by then: so
    /// many as a register has belong to nobody.
    fn room(&mut self, rows: u32) -> u32 {
        let at = self.rows;
        self.filled = at + rows.next_multiple_of(32);
        self.rows += (rows + self.chip.core.sublanes).next_multiple_of(32);
        if self.rows > self.filled {
            self.parts.push(Part {
                name: "rows behind arrays".into(),
                row: self.filled,
                rows: self.rows - self.filled,
            });
        }
        at
    }

    /// Everything that the kernel's memory of its own holds; what has no name are vectors on their way.
    fn all_parts(&self) -> Vec<Part> {
        let mut all = self.parts.clone();
        all.sort_by_key(|p| p.row);
        let (mut free, mut at) = (Vec::new(), 0);
        let end = Part { name: String::new(), row: self.rows.next_multiple_of(32), rows: 0 };
        for p in all.iter().chain([&end]) {
            if p.row > at {
                free.push(Part { name: "vectors on their way".into(), row: at, rows: p.row - at });
            }
            at = at.max(p.row + p.rows);
        }
        all.extend(free);
        all.sort_by_key(|p| p.row);
        all
    }

    /// Words of scalar memory of the kernel's own; the first one's number.
    fn words(&mut self, n: usize) -> u32 {
        let at = self.spec.smem + self.words;
        self.words += n as u32;
        at
    }

    fn buffer(&mut self) -> BufferRef {
        self.buffers += 1;
        BufferRef(self.buffers - 1)
    }

    /// Adds a descriptor, or finds it.
    fn desc(&mut self, d: DmaDesc) -> u32 {
        if let Some(i) = self.descs.iter().position(|k| *k == d) {
            return i as u32;
        }
        self.descs.push(d);
        self.descs.len() as u32 - 1
    }
}
