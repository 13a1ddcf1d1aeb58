//! The operations of a graph node, with their attributes.

use super::{Binary, CompId, Unary, literal::Literal};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Direction of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[rustfmt::skip]
pub enum Direction { Eq, Ne, Ge, Gt, Le, Lt }

impl Direction {
    /// The answer for two values that are in this order; `None`: in none, as NaNs are.
    pub fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Direction::Eq => order.is_some_and(|o| o.is_eq()),
            Direction::Ne => order.is_none_or(|o| o.is_ne()),
            Direction::Lt => order.is_some_and(|o| o.is_lt()),
            Direction::Le => order.is_some_and(|o| o.is_le()),
            Direction::Gt => order.is_some_and(|o| o.is_gt()),
            Direction::Ge => order.is_some_and(|o| o.is_ge()),
        }
    }
}

/// Whether floats compare by IEEE rules or by their total order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[rustfmt::skip]
pub enum Order { Partial, Total }

/// One dimension of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowDim {
    pub size: u64,
    pub stride: u64,
    pub pad_low: i64,
    pub pad_high: i64,
    /// Dilation of the operand (`lhs_dilate`) and of the window (`rhs_dilate`).
    pub base_dilation: u64,
    pub window_dilation: u64,
    pub reversal: bool,
}

impl WindowDim {
    /// A window dimension of size 1 that does nothing.
    pub const TRIVIAL: WindowDim = WindowDim {
        size: 1,
        stride: 1,
        pad_low: 0,
        pad_high: 0,
        base_dilation: 1,
        window_dilation: 1,
        reversal: false,
    };

    /// How its operand is padded.
    pub fn padding(&self) -> PadDim {
        PadDim { low: self.pad_low, high: self.pad_high, interior: self.base_dilation - 1 }
    }

    /// The dimensions of a window as lists of one length: sizes, strides, (low, high) padding, dilations of the operand and of the
    /// window.
    pub fn of_lists(
        sizes: &[u64],
        strides: &[u64],
        padding: &[(i64, i64)],
        base: &[u64],
        wide: &[u64],
    ) -> Vec<WindowDim> {
        let one = |i: usize| {
            let (pad_low, pad_high) = padding[i];
            let (base_dilation, window_dilation) = (base[i], wide[i]);
            WindowDim {
                size: sizes[i],
                stride: strides[i],
                pad_low,
                pad_high,
                base_dilation,
                window_dilation,
                reversal: false,
            }
        };
        (0..sizes.len()).map(one).collect()
    }
}

/// Dimension numbers of a dot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DotDims {
    pub lhs_contracting: Vec<usize>,
    pub rhs_contracting: Vec<usize>,
    pub lhs_batch: Vec<usize>,
    pub rhs_batch: Vec<usize>,
}

/// Where the input or the result of a convolution has its dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvData {
    pub batch: usize,
    pub feature: usize,
    pub spatial: Vec<usize>,
}

/// Where the kernel of a convolution has its dimensions: input and output features, and the window's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvKernel {
    pub input: usize,
    pub output: usize,
    pub spatial: Vec<usize>,
}

/// Dimension numbers of a convolution; spatial lists are parallel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvDims {
    pub input: ConvData,
    pub kernel: ConvKernel,
    pub output: ConvData,
}

/// The places in [`ConvData`] or [`ConvKernel`], in the order of their fields: texts have all in one form.
pub type ConvPlaces = (usize, usize, Vec<usize>);

impl From<ConvPlaces> for ConvData {
    fn from((batch, feature, spatial): ConvPlaces) -> ConvData {
        ConvData { batch, feature, spatial }
    }
}

impl From<ConvPlaces> for ConvKernel {
    fn from((input, output, spatial): ConvPlaces) -> ConvKernel {
        ConvKernel { input, output, spatial }
    }
}

impl ConvData {
    /// The dimensions as batch, spatial ones, features.
    pub fn channels_last(&self) -> Vec<usize> {
        [&[self.batch][..], &self.spatial, &[self.feature]].concat()
    }
}

impl ConvKernel {
    /// The dimensions as spatial ones, input features, output features.
    pub fn channels_last(&self) -> Vec<usize> {
        [&self.spatial[..], &[self.input, self.output]].concat()
    }
}

impl ConvDims {
    /// `[N, spatial.., C] x [spatial.., C, Cout] -> [N, spatial.., Cout]`.
    pub fn channels_last(spatial: usize) -> ConvDims {
        let data = ConvData { batch: 0, feature: spatial + 1, spatial: (1..=spatial).collect() };
        let kernel = ConvKernel { input: spatial, output: spatial + 1, spatial: (0..spatial).collect() };
        ConvDims { input: data.clone(), kernel, output: data }
    }
}

/// A convolution's attributes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    pub window: Vec<WindowDim>,
    pub dims: ConvDims,
    pub feature_groups: u64,
    pub batch_groups: u64,
    pub precision: Precision,
}

/// Operand precision of a dot or convolution (the higher of the two operands').
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Precision {
    #[default]
    Default,
    High,
    Highest,
}

/// Padding of one dimension: negative edges cut; `interior` elements between neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PadDim {
    pub low: i64,
    pub high: i64,
    pub interior: u64,
}

impl PadDim {
    pub const NONE: PadDim = PadDim { low: 0, high: 0, interior: 0 };

    /// At the edges alone.
    pub fn edges(low: i64, high: i64) -> PadDim {
        PadDim { low, high, ..PadDim::NONE }
    }
}

/// One dimension of a slice, `limit` exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceDim {
    pub start: u64,
    pub limit: u64,
    pub stride: u64,
}

/// The dimension numbers of gathers and scatters: how index vectors choose windows of an operand, which lie in another array (a gather's
/// result, a scatter's updates).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IndexMap {
    /// Dimensions of that other array that are windows'; its others are the indices', but for index vectors.
    pub window: Vec<usize>,
    /// Dimensions of the operand that windows do not have.
    pub collapsed: Vec<usize>,
    /// The operand's dimension that each element of an index vector is a place along.
    pub start: Vec<usize>,
    /// Dimensions of the operand that windows do not have either: the place along them is that along dimensions of the indices.
    pub batching: Batching,
    /// The dimension of the indices that index vectors lie along; their rank if each element is one.
    pub vector: usize,
}

/// Dimensions that an operand and indices have in common, in the same order of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Batching {
    pub operand: Vec<usize>,
    pub indices: Vec<usize>,
}

impl Batching {
    /// Each dimension of the operand with that of the indices.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.operand.iter().copied().zip(self.indices.iter().copied())
    }

    /// The operand's dimension that goes with a dimension of the indices.
    pub fn along(&self, indices: usize) -> Option<usize> {
        self.pairs().find(|p| p.1 == indices).map(|p| p.0)
    }

    /// Whether all windows are chosen in the whole operand.
    pub fn is_empty(&self) -> bool {
        self.operand.is_empty()
    }
}

impl IndexMap {
    /// HLO's names of the lists, in their order here.
    pub const GATHER: [&'static str; 5] = [
        "offset_dims",
        "collapsed_slice_dims",
        "start_index_map",
        "operand_batching_dims",
        "start_indices_batching_dims",
    ];
    pub const SCATTER: [&'static str; 5] = [
        "update_window_dims",
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
    ];
    /// The name of [`IndexMap::vector`].
    pub const VECTOR: &'static str = "index_vector_dim";

    /// From the lists by their names, and [`IndexMap::vector`].
    ///
    /// # Errors
    /// The first list that cannot be read.
    pub fn read<E>(
        names: [&str; 5],
        vector: usize,
        mut list: impl FnMut(&str) -> Result<Vec<usize>, E>,
    ) -> Result<IndexMap, E> {
        let [window, collapsed, start, operand, indices] = names;
        Ok(IndexMap {
            window: list(window)?,
            collapsed: list(collapsed)?,
            start: list(start)?,
            batching: Batching { operand: list(operand)?, indices: list(indices)? },
            vector,
        })
    }

    /// The lists in order.
    pub fn lists(&self) -> [&[usize]; 5] {
        [&self.window, &self.collapsed, &self.start, &self.batching.operand, &self.batching.indices]
    }

    /// Whole rows of an operand `[R, W..]`, with so many dimensions, by indices `[n]`.
    pub fn rows(width: usize) -> IndexMap {
        IndexMap { window: (1..=width).collect(), collapsed: vec![0], start: vec![0], vector: 1, ..IndexMap::default() }
    }

    /// Whether windows lack a dimension of the operand.
    pub fn lacks(&self, d: usize) -> bool {
        self.collapsed.contains(&d) || self.batching.operand.contains(&d)
    }
}

/// A gather's attributes. Operands: operand, start indices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    pub map: IndexMap,
    pub slice_sizes: Vec<u64>,
    pub indices_are_sorted: bool,
}

/// A scatter's attributes. Operands: n operands, indices, n updates; `body` takes 2n scalars.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    pub map: IndexMap,
    pub indices_are_sorted: bool,
    pub unique_indices: bool,
    pub body: CompId,
}

/// FFT kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[rustfmt::skip]
pub enum FftKind { Fft, Ifft, Rfft, Irfft }

/// How triangular-solve reads its matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[rustfmt::skip]
pub enum TriangularTranspose { No, Transpose, Adjoint }

/// Distribution of `rng`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[rustfmt::skip]
pub enum RngDistribution { Uniform, Normal }

/// Algorithm of `rng-bit-generator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[rustfmt::skip]
pub enum RngAlgorithm { Default, ThreeFry, Philox }

/// Which devices take part in a collective together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Collective {
    /// Groups of ids; empty: all devices in one group.
    pub groups: Vec<Vec<u64>>,
    pub channel: Option<u64>,
    pub use_global_ids: bool,
}

/// Kinds of collective operations, with what only they have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CollectiveKind {
    AllReduce {
        body: CompId,
    },
    AllGather {
        dim: usize,
    },
    ReduceScatter {
        dim: usize,
        body: CompId,
    },
    /// `dim`: split and concatenated dimension; `None`: the tuple form.
    AllToAll {
        dim: Option<usize>,
    },
    Permute {
        pairs: Vec<(u64, u64)>,
    },
    Broadcast,
    /// operand, output, input offsets, send sizes, output offsets, receive sizes.
    RaggedAllToAll,
    /// The sum (or what `body` says) reaches only the first device of each group; others get their operand back.
    Reduce {
        body: CompId,
    },
}

/// An operation with its attributes. Operand order is HLO's.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Parameter {
        index: usize,
    },
    Constant(Literal),
    Iota {
        dim: usize,
    },
    Unary(Unary),
    Binary(Binary),
    Compare {
        direction: Direction,
        order: Order,
    },
    /// pred, on-true, on-false; a scalar pred selects whole arrays.
    Select,
    /// min, operand, max; min and max may be scalars.
    Clamp,
    Convert,
    BitcastConvert,
    ReducePrecision {
        exponent: u32,
        mantissa: u32,
    },
    StochasticConvert,
    Map {
        body: CompId,
        dims: Vec<usize>,
    },
    /// `dims[i]`: the result dimension that operand dimension `i` becomes.
    Broadcast {
        dims: Vec<usize>,
    },
    Reshape,
    /// operand, then the size of each result dimension (scalars); the result shape bounds them.
    DynamicReshape,
    /// A copy (layouts may differ) / a reinterpretation of the same bytes by layout (from optimised dumps).
    Copy,
    Bitcast,
    /// `permutation[i]`: the operand dimension that result dimension `i` comes from.
    Transpose {
        permutation: Vec<usize>,
    },
    Reverse {
        dims: Vec<usize>,
    },
    Slice {
        dims: Vec<SliceDim>,
    },
    Concatenate {
        dim: usize,
    },
    /// operand, padding value.
    Pad {
        dims: Vec<PadDim>,
    },
    /// operand, start indices (one scalar each, or one rank-1 array).
    DynamicSlice {
        sizes: Vec<u64>,
    },
    /// operand, update, start indices.
    DynamicUpdateSlice,
    Gather(Gather),
    Scatter(Scatter),
    Dot {
        dims: DotDims,
        precision: Precision,
    },
    RaggedDot {
        dims: DotDims,
        lhs_ragged: usize,
        rhs_group: Vec<usize>,
        precision: Precision,
    },
    /// lhs, rhs, lhs scales, rhs scales: a dot of operands multiplied by their (block-wise repeated) scales.
    ScaledDot {
        dims: DotDims,
        precision: Precision,
    },
    Convolution(Box<Conv>),
    /// n operands, n initial values.
    Reduce {
        dims: Vec<usize>,
        body: CompId,
    },
    /// n inputs, then `carries` initial carries. `body` takes one slice of each input (without `dim`) and the carries,
    /// and gives a tuple of output slices and new carries; the result is the stacked outputs and the last carries.
    Scan {
        dim: usize,
        carries: usize,
        reverse: bool,
        body: CompId,
    },
    /// n operands, n initial values.
    ReduceWindow {
        window: Vec<WindowDim>,
        body: CompId,
    },
    /// operand, source, initial value.
    SelectAndScatter {
        window: Vec<WindowDim>,
        select: CompId,
        scatter: CompId,
    },
    /// operand, scale, offset / operand, scale, offset, mean, variance / operand, scale, mean, variance, grad.
    BatchNormTraining {
        epsilon: f32,
        feature: usize,
    },
    BatchNormInference {
        epsilon: f32,
        feature: usize,
    },
    BatchNormGrad {
        epsilon: f32,
        feature: usize,
    },
    /// n operands; `body` takes 2n scalars: lhs0, rhs0, lhs1, ..
    Sort {
        dim: usize,
        stable: bool,
        body: CompId,
    },
    TopK {
        k: u64,
        largest: bool,
    },
    Cholesky {
        lower: bool,
    },
    TriangularSolve {
        left: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose: TriangularTranspose,
    },
    Fft {
        kind: FftKind,
        lengths: Vec<u64>,
    },
    Rng {
        distribution: RngDistribution,
    },
    RngBitGenerator {
        algorithm: RngAlgorithm,
    },
    RngGetAndUpdateState {
        delta: i64,
    },
    GetDimensionSize {
        dim: usize,
    },
    SetDimensionSize {
        dim: usize,
    },
    Tuple,
    GetTupleElement {
        index: usize,
    },
    OptBarrier,
    AfterAll,
    AddDependency,
    Domain,
    Call {
        body: CompId,
    },
    Fusion {
        body: CompId,
        kind: String,
    },
    While {
        condition: CompId,
        body: CompId,
    },
    /// pred or s32 index, then one operand for each branch.
    /// With a pred, `branches[0]` is taken when it is true.
    Conditional {
        branches: Vec<CompId>,
    },
    CustomCall {
        target: String,
        config: String,
        has_side_effect: bool,
        calls: Vec<CompId>,
    },
    Collective {
        kind: CollectiveKind,
        devices: Collective,
    },
    ReplicaId,
    PartitionId,
    /// `pairs`: which device sends to which, once the instruction's attributes are read; `None`: each to itself.
    Send {
        channel: Option<u64>,
        host: bool,
        pairs: Option<Vec<(u64, u64)>>,
    },
    SendDone {
        channel: Option<u64>,
        host: bool,
    },
    Recv {
        channel: Option<u64>,
        host: bool,
        pairs: Option<Vec<(u64, u64)>>,
    },
    RecvDone {
        channel: Option<u64>,
        host: bool,
    },
    Infeed {
        config: String,
    },
    Outfeed {
        shape: super::Shape,
        config: String,
    },
    /// An asynchronous pair of any operation: `start` computes it, `update` and `done` pass it on.
    AsyncStart {
        body: CompId,
    },
    AsyncUpdate,
    AsyncDone,
    /// `copy-start` / `copy-done`: result (dest, source, context) / dest.
    CopyStart,
    CopyDone,
}
