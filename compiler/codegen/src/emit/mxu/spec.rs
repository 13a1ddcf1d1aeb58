//! What a contraction kernel computes and where its arrays lie: [`Contraction`], which covers dots and convolutions.

use super::finish::Finish;
use super::follow::Follow;
use super::start::Start;
use crate::emit::Value;
use crate::kernel::{BufferRef, KernelBuilder, S};
use serde::{Deserialize, Serialize};
use systole_hlo::graph::op::Precision;
use systole_isa::DType;

/// Where an array lies while the kernel runs, and so what its base parameter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Place {
    /// Rows of 32-bit words in vector memory.
    Vmem,
    /// 512-byte granules in HBM; the kernel moves blocks through scratch windows.
    Hbm,
}

/// An array of one component in the layout of [`systole_isa::layout`]. Strides elsewhere count its element rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Array {
    pub place: Place,
    pub dtype: DType,
    /// Element rows of a plane of `lanes` columns.
    pub plane_rows: u32,
    /// Element rows from the first to behind the last that may be touched: the array's padded total.
    pub total_rows: u32,
}

/// A loop dimension: its size and the distance, in element rows, between neighbours in each array (0: not there).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dim {
    pub count: u32,
    pub lhs: u32,
    pub rhs: u32,
    pub out: u32,
}

/// How the right operand lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RhsForm {
    /// Result columns `n` along lanes; neighbours in `k` are `k_stride` element rows apart.
    LanesN { k_stride: u32 },
    /// Contracted `k` along lanes (transposed); neighbours in `n` are `n_stride` element rows apart.
    LanesK { n_stride: u32 },
}

/// `out[batch, rows, n] = sum over taps and k of lhs[batch, rows, taps, k] * rhs[batch, taps, k, n]`.
///
/// `k` lies along the lanes of `lhs`, `n` along the lanes of `out`. A dot has one dimension of `rows` and no `taps`. A
/// convolution (VALID, no dilation of its base) has its output's batch and spatial dimensions as `rows` (lhs strides
/// times the window stride) and the window's dimensions as `taps` (lhs strides times the window dilation).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Contraction {
    pub lhs: Array,
    pub rhs: Array,
    pub out: Array,
    /// Operands of the epilogue with the result's shape and geometry (`plane_rows`, strides); element types may differ.
    /// The kernel hands their tiles to [`Epilogue::apply`].
    pub extras: Vec<(Place, DType)>,
    /// What is done to results before they are stored; without, they are converted to the result's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
    /// What is done to elements of lhs before they are multiplied; lhs is in vector memory then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// The loop that goes through the results while others are computed; they are in vector memory then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow: Option<Follow>,
    /// Dimensions of all three arrays, outermost first.
    pub batch: Vec<Dim>,
    /// Dimensions of lhs and out, outermost first; the last one lies across sublanes. At least one.
    pub rows: Vec<Dim>,
    /// Contracted dimensions of lhs and rhs besides `k`, outermost first.
    pub taps: Vec<Dim>,
    pub k: u32,
    pub n: u32,
    pub rhs_form: RhsForm,
    pub precision: Precision,
    /// Rows of vector memory that the kernel may use for windows and sums.
    pub vmem_rows: u32,
}

/// Geometry of a stack of matrices `[batch, rows, cols]` in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatView {
    pub array: Array,
    /// Element rows between rows, and between matrices (0: shared by all).
    pub row_stride: u32,
    pub batch_stride: u32,
}

impl Contraction {
    /// A dot of stacks of matrices: lhs `[batch, m, k]`, rhs `[batch, k, n]` (`[batch, n, k]` if transposed), out
    /// `[batch, m, n]`. No extras; default precision; a budget of all of a small chip's memory is the caller's to set.
    pub fn dot(batch: u32, mkn: [u32; 3], lhs: MatView, rhs: (MatView, bool), out: MatView) -> Contraction {
        let [m, k, n] = mkn;
        let (rhs, transposed) = rhs;
        let form = |s| if transposed { RhsForm::LanesK { n_stride: s } } else { RhsForm::LanesN { k_stride: s } };
        Contraction {
            lhs: lhs.array,
            rhs: rhs.array,
            out: out.array,
            extras: Vec::new(),
            finish: None,
            start: None,
            follow: None,
            batch: vec![Dim { count: batch, lhs: lhs.batch_stride, rhs: rhs.batch_stride, out: out.batch_stride }],
            rows: vec![Dim { count: m, lhs: lhs.row_stride, rhs: 0, out: out.row_stride }],
            taps: Vec::new(),
            k,
            n,
            rhs_form: form(rhs.row_stride),
            precision: Precision::Default,
            vmem_rows: 0,
        }
    }

    /// Useful floating-point operations: two per real multiply-add, one pass.
    pub fn flops(&self) -> f64 {
        let count = |d: &[Dim]| d.iter().map(|d| d.count as f64).product::<f64>();
        2.0 * count(&self.batch) * count(&self.rows) * count(&self.taps) * self.k as f64 * self.n as f64
    }

    /// Element type of the sums: s32 for integers, else f32.
    pub fn accumulator(&self) -> DType {
        let whole = |t: DType| t.is_integer() || t == DType::Pred;
        if whole(self.lhs_type()) && whole(self.rhs.dtype) { DType::S32 } else { DType::F32 }
    }
}

/// Where a tile of results lies.
pub struct TileAt<'a> {
    /// Plane (column / lanes) of the tile: `plane + plane_offset`.
    pub plane: S,
    pub plane_offset: u32,
    /// The tile's values of [`Contraction::extras`].
    pub extras: &'a [Value],
    /// The epilogue's own parameters, in order.
    pub params: &'a [S],
    /// The buffer to name in loads from what the epilogue's parameters point at; only read by the kernel.
    pub buffer: BufferRef,
}

/// Elementwise work on every tile of results before it is stored.
pub trait Epilogue {
    /// Scalar parameters of the kernel that belong to the epilogue (bases of small operands in vector memory).
    fn params(&self) -> usize {
        0
    }

    /// The result tile in the result's element type, from the sums ([`Contraction::accumulator`]). Called once for each
    /// place in the code; appends instructions inside a loop.
    fn apply(&mut self, b: &mut KernelBuilder, sums: Value, at: &TileAt<'_>) -> Value;
}

/// The epilogue that only converts the sums to the result's type.
pub struct Convert(pub DType);

impl Epilogue for Convert {
    fn apply(&mut self, b: &mut KernelBuilder, sums: Value, _: &TileAt<'_>) -> Value {
        crate::emit::elementwise::convert(b, &sums, self.0)
    }
}

/// Why there is no kernel.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MxuError {
    /// Even the smallest blocks exceed the budget.
    #[error("needs {need} rows of vector memory, {have} are available")]
    Vmem { need: u64, have: u64 },
    /// An array's blocks cannot be copied between HBM and windows; place it in vector memory.
    #[error("cannot stay in HBM: {0}")]
    Placement(String),
    /// The contraction must be rewritten first.
    #[error("not a matrix-unit contraction: {0}")]
    Unsupported(String),
    /// The contraction cannot be cut like that.
    #[error("no such tile: {0}")]
    Tile(String),
}
