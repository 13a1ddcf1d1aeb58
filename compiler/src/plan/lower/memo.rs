//! What is found out once for all attempts at a plan: a program that does not fit is lowered again and again with less in vector
//! memory, for other numbers of cores, with chains done strip by strip and without; most of its operations and products are the
//! same each time.
//!
//! Everything here follows from its key, the chip and what decides from outside, which stay the same.

use crate::plan::group::Groups;
use crate::plan::step::KernelEntry;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::hash::Hash;
use std::ops::Deref;
use std::rc::Rc;
use systole_codegen::emit::blocks::{BlockCut, BlockSpec, ChosenCut};
use systole_codegen::emit::mxu::{self, Contraction, MxuError, Part};
use systole_hlo::error::CompileError;
use systole_hlo::graph::CompId;
use systole_isa::ChipConfig;

/// Answers by question.
pub struct Known<K, V>(RefCell<FxHashMap<K, V>>);

impl<K, V> Default for Known<K, V> {
    fn default() -> Known<K, V> {
        Known(RefCell::default())
    }
}

impl<K: Eq + Hash, V: Clone> Known<K, V> {
    /// The answer, found out if nobody has asked before.
    pub fn get(&self, key: K, find: impl FnOnce(&K) -> V) -> V {
        if let Some(v) = self.0.borrow().get(&key) {
            return v.clone();
        }
        let v = find(&key);
        self.0.borrow_mut().insert(key, v.clone());
        v
    }
}

/// A contraction, and the bandwidth of HBM that it has (in bits: cores share it).
type Product = (Contraction, u64);

/// The parts of a product for several cores, and the cycles of the longest.
type Parts = Option<(Vec<Part>, f64)>;

/// A cut of a body, and the others that were considered.
type Cut = Option<(ChosenCut, Vec<(BlockCut, u64)>)>;

/// Owners of a computation's nodes, by which of them are scalars.
type Owners = Known<(CompId, Vec<bool>), Result<Groups, CompileError>>;

/// All that is known of one core module's plans.
#[derive(Default)]
pub struct Memo {
    pub groups: Owners,
    pub kernels: Rc<KernelMemo>,
}

impl Memo {
    /// Nothing is known of the module; of kernels, what others found out.
    pub fn new(kernels: &Rc<KernelMemo>) -> Memo {
        Memo { groups: Known::default(), kernels: Rc::clone(kernels) }
    }
}

impl Deref for Memo {
    type Target = KernelMemo;

    fn deref(&self) -> &KernelMemo {
        &self.kernels
    }
}

/// What is known of kernels, of any module.
#[derive(Default)]
pub struct KernelMemo {
    /// Kernels of products, by the line of the pin that they obey.
    pub products: Known<(Product, Option<usize>), Result<KernelEntry, MxuError>>,
    cycles: Known<Product, Result<f64, MxuError>>,
    parts: Known<(Contraction, u32), Parts>,
    /// Cuts of bodies into blocks, by budget and the line of the pin.
    pub cuts: Known<(BlockSpec, u64, Option<usize>), Cut>,
}

impl KernelMemo {
    /// A contraction on a chip, as a key.
    pub fn product(c: &Contraction, chip: &ChipConfig) -> Product {
        (c.clone(), chip.hbm.bandwidth.to_bits())
    }

    /// Cycles of a product by estimate.
    pub fn cycles(&self, c: &Contraction, chip: &ChipConfig) -> Result<f64, MxuError> {
        self.cycles.get(KernelMemo::product(c, chip), |(c, _)| mxu::choose(c, chip, false).map(|found| found.cycles))
    }

    /// A product's parts for several cores.
    pub fn parts(&self, c: &Contraction, cores: u32, chip: &ChipConfig) -> Parts {
        self.parts.get((c.clone(), cores), |(c, cores)| mxu::split(c, *cores, chip))
    }
}
