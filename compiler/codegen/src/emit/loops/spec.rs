//! What a loop kernel computes: iteration space, operand accesses, an expression per point, and a reduction.
//!
//! A spec is plain data (it is the key under which equal kernels share one subroutine). The iteration space is a list of
//! outer dimensions, a row dimension that lies along sublanes, and a column dimension that lies along lanes and is cut
//! into tiles. An operand's element row is affine in the outer and row indices and the tile number.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use systole_hlo::graph::{Binary, Direction, Order, Unary};
use systole_isa::DType;

/// Index of an [`ExprNode`] in its [`Expr`].
pub type ExprId = u32;

/// One operation of an expression on values at a point of the iteration space.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExprOp {
    /// The operand of that number at this point.
    Input(u32),
    /// A reduction body's parameter.
    Param(u32),
    /// A value of the element's bytes.
    Const(SmallVec<[u8; 16]>),
    /// An affine function of the iteration indices, as s32 then converted to the node's type.
    Index(Index),
    Unary(Unary),
    Binary(Binary),
    /// `.0 * .1 + .2`, rounded once.
    MultiplyAdd,
    Compare(Direction, Order),
    Select,
    Clamp,
    Convert,
    BitcastConvert,
    ReducePrecision(u32, u32),
    /// Reduction `.0` of [`Expr::reductions`] over the whole column dimension; result number `.1`.
    LaneReduce(u32, u32),
}

/// What a node's operation takes its value from.
#[derive(Clone, Copy, Debug)]
pub enum ExprKind<'a> {
    /// An operand.
    Input(u32),
    /// The iteration indices.
    Index(&'a Index),
    /// A parameter of the body that it is in, or the operation itself.
    Given,
    /// Its arguments: by a function of its own cost, or by what is about one instruction.
    Unary(Unary),
    Binary(Binary),
    Plain,
    /// All columns.
    Across,
}

impl ExprOp {
    pub fn kind(&self) -> ExprKind<'_> {
        match self {
            ExprOp::Input(i) => ExprKind::Input(*i),
            ExprOp::Index(i) => ExprKind::Index(i),
            ExprOp::Param(_) | ExprOp::Const(_) => ExprKind::Given,
            ExprOp::Unary(op) => ExprKind::Unary(*op),
            ExprOp::Binary(op) => ExprKind::Binary(*op),
            ExprOp::MultiplyAdd | ExprOp::Compare(..) | ExprOp::Select | ExprOp::Clamp => ExprKind::Plain,
            ExprOp::Convert | ExprOp::BitcastConvert | ExprOp::ReducePrecision(..) => ExprKind::Plain,
            ExprOp::LaneReduce(..) => ExprKind::Across,
        }
    }
}

/// A node: operation, arguments (earlier nodes) and element type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExprNode {
    pub op: ExprOp,
    pub args: SmallVec<[ExprId; 3]>,
    pub dtype: DType,
}

/// An affine function of the iteration indices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Index {
    /// Coefficient of each outer dimension.
    pub outer: SmallVec<[i64; 4]>,
    pub row: i64,
    /// Coefficient of the column (0 or 1).
    pub column: i64,
    pub offset: i64,
}

/// A reduction: arguments and initial values (expression nodes), and the scalar body with `2n` parameters (n
/// accumulators, then n values).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reduction {
    pub args: Vec<ExprId>,
    pub inits: Vec<ExprId>,
    pub body: Body,
}

/// A scalar computation as an expression of its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Body {
    pub nodes: Vec<ExprNode>,
    pub roots: Vec<ExprId>,
}

/// Nodes in topological order, with the lane reductions among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Expr {
    pub nodes: Vec<ExprNode>,
    pub reductions: Vec<Reduction>,
}

/// How an operand's lane follows the iteration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LaneMap {
    /// Lane = lane; tile `j` is `tile_rows` element rows further.
    Tile { tile_rows: i64 },
    /// As `Tile`, `lanes` further along: lane `l` of tile `j` is lane `(l + lanes) mod L` of tile `j` or of the one behind it, `L` being
    /// the chip's lanes. Of inputs alone.
    Shifted { tile_rows: i64, lanes: u32 },
    /// The element's row holds it in every lane.
    Replicated,
    /// Lane and plane come from an index function that does not depend on the column: lane = index mod lanes,
    /// plane = index / lanes (`plane_rows` element rows apart).
    Indexed { index: Index, plane_rows: i64 },
}

/// Where an operand's element lies for a point of the iteration space (in element rows from the operand's base).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Access {
    pub dtype: DType,
    /// Element rows of one component.
    pub component_rows: i64,
    pub outer: SmallVec<[i64; 4]>,
    pub row: i64,
    pub offset: i64,
    pub lane: LaneMap,
}

impl Access {
    /// Tiles of so many lanes that `columns` columns are read from.
    pub fn tiles(&self, columns: u32, lanes: u32) -> u32 {
        match self.lane {
            LaneMap::Tile { .. } => columns.div_ceil(lanes),
            LaneMap::Shifted { lanes: by, .. } => columns.saturating_add(by).div_ceil(lanes),
            LaneMap::Replicated | LaneMap::Indexed { .. } => 1,
        }
    }
}

/// An operand: an array in memory, or a scalar passed in a register.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Input {
    Array(Access),
    /// A 32-bit (or narrower) scalar passed by value.
    Scalar(DType),
}

/// A result: which node, and where it goes. `Replicated` results are stored in every lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Output {
    pub node: ExprId,
    pub access: Access,
}

/// A kernel without reductions but along lanes: every output at every point (or row, if it does not depend on the column).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LoopSpec {
    /// Sizes of the outer dimensions.
    pub outer: Vec<u32>,
    /// Rows; padded where all arrays are padded alike.
    pub rows: u32,
    pub columns: u32,
    pub inputs: Vec<Input>,
    pub expr: Expr,
    pub outputs: Vec<Output>,
}

impl LoopSpec {
    /// Whether an input is read with its lanes shifted.
    pub fn is_shifted(&self) -> bool {
        let shifted = |i: &Input| matches!(i, Input::Array(Access { lane: LaneMap::Shifted { .. }, .. }));
        self.inputs.iter().any(shifted)
    }
}

/// A kernel that reduces over outer dimensions, rows or columns. `reduced_*` say which; outputs are the reduction's
/// results, whose accesses use the kept indices only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ReduceSpec {
    /// Kept outer dimensions come first, then reduced ones.
    pub outer: Vec<u32>,
    pub kept_outer: u32,
    /// Rows that exist (not padded).
    pub rows: u32,
    pub reduce_rows: bool,
    pub columns: u32,
    pub reduce_columns: bool,
    pub inputs: Vec<Input>,
    pub expr: Expr,
    /// The reduction over the dimensions above (its arguments and initial values are nodes of `expr`).
    pub reduction: Reduction,
    pub outputs: Vec<Access>,
    /// The outputs hold what has been reduced before, and are combined with this part.
    pub resumed: bool,
    /// The first outer dimension counts groups of rows that are done one after the other: it does not become rows again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub apart: bool,
}
