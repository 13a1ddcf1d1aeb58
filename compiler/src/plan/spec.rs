//! What kernels compute and how: plain values from which emission makes their code without deciding anything.

use serde::{Deserialize, Serialize};
use std::fmt;
use systole_codegen::emit::blocks::{self, BlockCut, BlockSpec, Body, Share};
use systole_codegen::emit::factor::{FactorSpec, SolveSpec};
use systole_codegen::emit::fetch::FetchSpec;
use systole_codegen::emit::loops::{RecurrenceSpec, scratch_rows};
use systole_codegen::emit::mosaic::{MosaicSpec, mosaic_kernel};
use systole_codegen::emit::mxu::{Contraction, Tile};
use systole_codegen::emit::rows::{Far, RowsSpec, ScatterSpec, gather_needs, near_needs, singles_needs};
use systole_codegen::emit::sort::{Pass, SortSpec};
use systole_codegen::kernel::Needs;
use systole_isa::ChipConfig;

/// A kernel, one variant a family.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KernelSpec {
    /// A loop nest, reduction, move or pick on arrays in vector memory.
    Body(Body),
    /// A body over arrays in HBM, block by block; all blocks or a core's share. If it looks after an exchange, between blocks.
    Blocks {
        spec: BlockSpec,
        cut: BlockCut,
        share: Option<Share>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        looks: Option<Looks>,
    },
    /// A contraction on matrix units; if it looks after an exchange, now and then between its steps.
    Product {
        contraction: Contraction,
        tile: Tile,
        looks: Option<Looks>,
    },
    /// Rows of a table by index.
    Gather {
        rows: RowsSpec,
        far: Far,
    },
    /// Updates combined into rows (or single elements) of tables by index.
    Scatter(ScatterSpec),
    /// Parts of arrays in HBM, as they lie.
    Fetch(FetchSpec),
    /// A pass of a sorting network.
    Sort {
        sort: SortSpec,
        pass: Pass,
    },
    Cholesky(FactorSpec),
    Solve(SolveSpec),
    /// A loop whose turns are elementwise operations on what it carries, in registers.
    Recurrence(RecurrenceSpec),
    /// A kernel that Pallas wrote.
    Mosaic(MosaicSpec),
}

/// When a kernel looks after the exchange under way: if the semaphore holds as many bytes as the word `wanted` of scalar
/// memory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Looks {
    pub wanted: u32,
    pub semaphore: u32,
}

/// Matches the specs of kernels of which no tile, cut or table is chosen.
macro_rules! one_way {
    () => {
        KernelSpec::Gather { .. }
            | KernelSpec::Fetch(_)
            | KernelSpec::Sort { .. }
            | KernelSpec::Cholesky(_)
            | KernelSpec::Solve(_)
            | KernelSpec::Recurrence(_)
            | KernelSpec::Mosaic(_)
    };
}
pub(super) use one_way;

impl KernelSpec {
    /// The same made another way; `None` if that is a way of another family, or of all cores' parts together.
    pub fn made(&self, way: Way) -> Option<KernelSpec> {
        let mut spec = self.clone();
        match (&mut spec, way) {
            (KernelSpec::Product { tile, .. }, Way::Tile(other)) => *tile = other,
            (KernelSpec::Blocks { cut, share: None, .. }, Way::Cut(other)) => *cut = other,
            _ => return None,
        }
        Some(spec)
    }

    /// The family of the kernel, in a word.
    pub fn family(&self) -> &'static str {
        match self {
            KernelSpec::Body(_) => "body",
            KernelSpec::Blocks { .. } => "blocks",
            KernelSpec::Product { .. } => "product",
            KernelSpec::Gather { .. } => "gather",
            KernelSpec::Scatter(_) => "scatter",
            KernelSpec::Fetch(_) => "fetch",
            KernelSpec::Sort { .. } => "sort",
            KernelSpec::Cholesky(_) | KernelSpec::Solve(_) => "factor",
            KernelSpec::Recurrence(_) => "recurrence",
            KernelSpec::Mosaic(_) => "mosaic",
        }
    }

    /// Estimated cycles where they follow from the spec; others are noted when the kernel is chosen, or not known.
    pub fn estimate(&self, chip: &ChipConfig) -> Option<f64> {
        match self {
            KernelSpec::Body(body) => Some(blocks::whole_work(body, chip)),
            KernelSpec::Blocks { spec, cut, .. } => blocks::consider_cut(spec, *cut, chip).map(|c| c.cost as f64),
            KernelSpec::Fetch(s) => Some(s.cycles(chip)),
            KernelSpec::Recurrence(s) => Some(s.cycles(chip)),
            KernelSpec::Product { .. }
            | KernelSpec::Gather { .. }
            | KernelSpec::Scatter(_)
            | KernelSpec::Sort { .. }
            | KernelSpec::Cholesky(_)
            | KernelSpec::Solve(_)
            | KernelSpec::Mosaic(_) => None,
        }
    }

    /// The way in which it is made, of kernels whose way can be told, and how those look after the exchange under way.
    fn chosen(&self) -> Option<(Way, Option<Looks>)> {
        match self {
            KernelSpec::Product { tile, looks, .. } => Some((Way::Tile(*tile), *looks)),
            KernelSpec::Blocks { cut, looks, .. } => Some((Way::Cut(*cut), *looks)),
            KernelSpec::Scatter(s) if s.in_place() || s.block > 0 => Some((Way::Table { block: s.block }, None)),
            KernelSpec::Body(_) | KernelSpec::Scatter(_) | one_way!() => None,
        }
    }

    /// The way in which it is made, where there are others.
    pub fn way(&self) -> Option<Way> {
        Some(self.chosen()?.0)
    }

    /// How it looks after the exchange under way, if it does.
    pub fn looks(&self) -> Option<Looks> {
        self.chosen()?.1
    }

    /// The same without looks after exchanges.
    pub fn without_looks(&self) -> KernelSpec {
        let mut spec = self.clone();
        if let KernelSpec::Product { looks, .. } | KernelSpec::Blocks { looks, .. } = &mut spec {
            *looks = None;
        }
        spec
    }

    /// What the kernel's code will need; `None` if it cannot be made like that.
    pub fn needs(&self, chip: &ChipConfig) -> Option<Needs> {
        Some(match self {
            KernelSpec::Body(Body::Loop(s)) => {
                let scratch_rows = scratch_rows(s, chip);
                Needs { scratch_rows, ..Needs::default() }
            }
            KernelSpec::Body(_)
            | KernelSpec::Sort { .. }
            | KernelSpec::Cholesky(_)
            | KernelSpec::Solve(_)
            | KernelSpec::Recurrence(_) => Needs::default(),
            KernelSpec::Blocks { spec, cut, share, .. } => {
                let partial = share.is_some_and(|s| s.partial);
                let results = if partial { blocks::result_words(&spec.body, chip) } else { 0 };
                let needs = blocks::consider_cut(spec, *cut, chip)?.needs;
                Needs { scratch_rows: needs.scratch_rows + results, ..needs }
            }
            KernelSpec::Product { contraction, tile, looks } => {
                systole_codegen::emit::mxu::consider(contraction, tile, chip, looks.is_some()).ok()?.needs
            }
            KernelSpec::Gather { rows, far } => match (rows.single, rows.near) {
                (true, _) => singles_needs(rows, *far, chip),
                (false, true) => near_needs(rows, *far, chip),
                (false, false) => gather_needs(rows, *far, chip),
            },
            KernelSpec::Scatter(s) if s.in_place() && !s.can_be_in_place(chip) => return None,
            KernelSpec::Scatter(s) => s.needs(chip),
            KernelSpec::Fetch(s) => Needs { scratch_rows: 0, semaphores: s.semaphores(chip)? },
            KernelSpec::Mosaic(s) => mosaic_kernel(s, "kernel", chip).ok()?.code.needs,
        })
    }
}

/// Another way to make a kernel that was considered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Considered {
    pub way: Way,
    /// Estimated cycles.
    pub cycles: f64,
}

/// A way to make a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    Tile(Tile),
    Cut(BlockCut),
    /// Of a scatter: its table in blocks of so many rows (0: in place, in HBM).
    Table {
        block: u32,
    },
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Tile(t) => t.fmt(f),
            Way::Cut(c) => c.fmt(f),
            Way::Table { block: 0 } => f.write_str("tables in place"),
            Way::Table { block } => write!(f, "tables in blocks of {block} rows"),
        }
    }
}

/// What a kernel was asked for: equal ones share a kernel. Last comes the line of the pin that they obey, if any.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KernelKey {
    /// A body in blocks, or what core `.0` of `.1` does of it.
    Blocks(BlockSpec, Option<(u32, u32)>, Option<usize>),
    /// A contraction, or what core `.0` of `.1` does of it.
    Product(Contraction, Option<(u32, u32)>, Option<usize>),
    /// A kernel that there is one way to make.
    Exactly(KernelSpec),
}
