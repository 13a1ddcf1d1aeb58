//! Values while a kernel is lowered: numbers, arrays in memory, vectors.

use super::reduce::Combine;
use crate::emit::Value as Elements;
use crate::kernel::{BufferRef, S};
use smallvec::{SmallVec, smallvec};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use systole_hlo::graph::elementwise::{Arithmetic, BinaryKind};
use systole_hlo::graph::op::Precision;
use systole_hlo::graph::{Binary, Direction, Unary};
use systole_isa::DType;
use systole_mosaic::Space;

/// An integer of the scalar unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Num {
    Const(i32),
    Reg(S),
}

/// What a value of the program is.
#[derive(Clone, Debug)]
pub(super) enum Val {
    Int(Num),
    /// A float: the same in every lane.
    Float(Elements),
    Vector(Rc<Tensor>),
    Ref(Ref),
    View(Rc<View>),
    /// Of no use: what only says something to other compilers.
    Nothing,
}

/// An array in memory, or a part of one.
#[derive(Clone, Debug)]
pub(super) struct Ref {
    pub space: Space,
    pub dtype: DType,
    pub dims: Vec<u64>,
    /// Of each dimension the element rows from one index to the next; `None` for the one along lanes.
    pub strides: Vec<Option<i64>>,
    /// Element rows from one plane of lanes to the next.
    pub plane: i64,
    /// Vector memory: an element row. HBM: a granule. Scalar memory: a word. Semaphores: none.
    pub base: S,
    /// Element rows behind the base; of semaphores the number.
    pub offset: Num,
    /// Lanes before the first element, and how many low bits of that are zero for certain.
    pub lane: Num,
    pub lane_zeros: u32,
    /// Whether an index that is known at run time only may have moved it to within a word of packed rows.
    pub uneven: bool,
    /// Whether all of its columns are seen.
    pub whole: bool,
    /// Whether what lies beside a part of it may be on its way: see [`Region::guarded`].
    pub guarded: bool,
    /// A dimension whose size is known at run time only, and that size; `dims` has the most that it can be.
    pub open: Option<(usize, Num)>,
    /// Of semaphores the first one's number, and how many there are.
    pub semaphores: (u32, u32),
    pub buf: BufferRef,
}

/// An array, or a part of one, seen with other elements. Sizes and indices count these.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub of: Ref,
    pub dtype: DType,
    /// Of the array's dimensions: 1 where one was dropped.
    pub sizes: Vec<u64>,
    /// The first index of each, and how many of its low bits are zero.
    pub first: Vec<(Num, u32)>,
    /// The dimensions that are left.
    pub left: Vec<usize>,
}

/// Memory that vectors live in between their making and their uses; given back with the last of them.
#[derive(Debug)]
pub(super) struct Temp {
    pub rows: u32,
    pub at: u32,
    pub buf: BufferRef,
    pub free: Rc<RefCell<Vec<(u32, u32, BufferRef)>>>,
}

impl Drop for Temp {
    fn drop(&mut self) {
        self.free.borrow_mut().push((self.rows, self.at, self.buf));
    }
}

/// Where a vector's columns begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lane {
    /// Lanes before the first column, fewer than a register has.
    pub first: Num,
    /// Of lanes known at run time only: element rows to where a register's columns go on; 0 where they end in it.
    pub beyond: Option<S>,
}

impl Lane {
    /// So many known lanes before the first column.
    pub fn known(first: i32) -> Lane {
        Lane { first: Num::Const(first), beyond: None }
    }
}

/// Where a vector lies in vector memory. Steps count element rows.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub dtype: DType,
    pub base: S,
    pub offset: i32,
    /// Of each dimension but the last, outermost first: that of rows comes last.
    pub steps: Vec<i64>,
    pub plane: i64,
    pub lane: Lane,
    /// Rows behind the vector's own are not read: a copy may be on its way into them.
    pub guarded: bool,
    /// Of one column: every lane has it.
    pub spread: bool,
    /// What lies beside the vector belongs to nobody.
    pub own: bool,
    pub buf: BufferRef,
    pub temp: Option<Rc<Temp>>,
}

impl Region {
    /// The step from row to row.
    pub fn row(&self) -> i64 {
        self.steps.last().copied().unwrap_or(0)
    }

    /// The steps of the dimensions around rows.
    pub fn outer(&self) -> &[i64] {
        self.steps.split_last().map_or(&[], |s| s.1)
    }
}

/// How a vector's elements use registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The last dimension along lanes, the one before along sublanes.
    Lanes,
    /// The last dimension along sublanes, the same in every lane.
    Rows,
}

/// An operation on elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fun {
    Unary(Unary),
    Binary(Binary),
    /// On the bits as an unsigned type.
    Unsigned(Binary),
    Compare(Direction),
    CompareUnsigned(Direction),
    /// A comparison that also holds where an operand is no number.
    CompareOrNan(Direction),
    Ordered,
    Unordered,
    /// Whether it is infinite or no number.
    NotFinite,
    Select,
    Convert,
    /// From an unsigned type of the operand's width.
    FromUnsigned,
    /// To an unsigned type of the result's width.
    ToUnsigned,
    Bitcast,
    /// `a * b + c`.
    Fma,
    /// Two to the power of the operand.
    Exp2,
    /// The other operand where one is no number.
    Number(Binary),
}

impl Fun {
    /// Whether it is one of operands of these types.
    pub(super) fn takes(self, types: &[DType], to: DType) -> bool {
        match (self, types) {
            (Fun::Unary(_) | Fun::Exp2 | Fun::NotFinite, [_]) => true,
            (Fun::Convert | Fun::FromUnsigned | Fun::ToUnsigned, [_]) => true,
            (Fun::Bitcast, [x]) => x.bits() == to.bits(),
            (Fun::Binary(_) | Fun::Unsigned(_) | Fun::Number(_), [x, y]) => x == y && *x == to,
            (Fun::Compare(_) | Fun::CompareUnsigned(_) | Fun::CompareOrNan(_), [x, y]) => x == y,
            (Fun::Ordered | Fun::Unordered, [x, y]) => x == y,
            (Fun::Select, [c, x, y]) => *c == DType::Pred && x == y && *x == to,
            (Fun::Fma, [x, y, z]) => x == y && y == z,
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Expr {
    Splat(Elements),
    Memory(Region),
    /// By row tile, then column tile; outer dimensions first.
    Regs(Rc<Vec<Elements>>),
    Element(Fun, Vec<Rc<Tensor>>),
    /// Along a dimension of the vector.
    Iota(usize),
    /// Dimensions of size 1, and missing leading ones, repeated.
    Expand(Rc<Tensor>),
    /// Another shape with the same rows and columns: dimensions of size 1 come and go.
    Recast(Rc<Tensor>),
    /// Whole tiles of columns side by side.
    Beside(Vec<Rc<Tensor>>),
    /// Lanes moved up, around all columns: the amount is below a register's lanes. The child is in memory twice, side by
    /// side.
    Turned(Rc<Tensor>, Num),
    /// Elements of the first vector along its columns (`true`) or rows, whose numbers the second one has.
    Gather(Rc<Tensor>, Rc<Tensor>, bool),
    /// The vector's rows reduced along lanes.
    Across(Rc<Tensor>, Combine),
    /// A matrix product, not yet made.
    Product(Rc<Product>),
}

impl Expr {
    /// The vectors that this one is made of.
    pub fn parts(&self) -> SmallVec<[&Rc<Tensor>; 4]> {
        match self {
            Expr::Element(_, kids) | Expr::Beside(kids) => kids.iter().collect(),
            Expr::Expand(k) | Expr::Recast(k) | Expr::Across(k, _) | Expr::Turned(k, _) => smallvec![k],
            Expr::Gather(of, by, _) => smallvec![of, by],
            Expr::Product(p) => smallvec![&p.x, &p.y],
            Expr::Splat(_) | Expr::Memory(_) | Expr::Regs(_) | Expr::Iota(_) => SmallVec::new(),
        }
    }

    /// Whether a tile is made of some tiles of those, each of which is computed for it; else they are in memory as a whole.
    pub fn by_tiles(&self) -> bool {
        match self {
            Expr::Element(..) | Expr::Beside(_) | Expr::Expand(_) | Expr::Recast(_) | Expr::Across(..) => true,
            Expr::Splat(_) | Expr::Memory(_) | Expr::Regs(_) | Expr::Iota(_) => true,
            Expr::Turned(..) | Expr::Gather(..) | Expr::Product(_) => false,
        }
    }
}

/// A matrix product: rows by what is summed, and what is summed by columns (`turned`: columns by it).
#[derive(Debug)]
pub(super) struct Product {
    pub x: Rc<Tensor>,
    pub y: Rc<Tensor>,
    pub turned: bool,
    /// Matrices, rows, what is summed, columns.
    pub sizes: [u64; 4],
    pub precision: Precision,
}

/// A vector: what it is, not yet where.
#[derive(Debug)]
pub(super) struct Tensor {
    pub dims: Vec<u64>,
    pub form: Form,
    pub dtype: DType,
    pub expr: RefCell<Expr>,
    /// It is kept in memory when it has been computed once: others need it.
    pub shared: Cell<bool>,
    /// Operations to compute a tile of it again.
    pub cost: u32,
    /// The line that it comes from, as instructions have it; 0: that of whoever computes it.
    pub place: Cell<u16>,
}

impl Tensor {
    pub fn new(dims: &[u64], form: Form, dtype: DType, expr: Expr) -> Rc<Tensor> {
        let cost = match &expr {
            Expr::Element(f, kids) => kids.iter().map(|k| k.price()).sum::<u32>() + f.price(),
            Expr::Expand(k) | Expr::Recast(k) => k.price(),
            Expr::Beside(kids) => kids.iter().map(|k| k.price()).max().unwrap_or(0),
            Expr::Across(k, _) => k.price() + 8,
            Expr::Turned(..) => 3,
            Expr::Gather(..) => 8,
            Expr::Iota(_) => 1,
            Expr::Splat(_) | Expr::Memory(_) | Expr::Regs(_) | Expr::Product(_) => 0,
        };
        let (expr, shared) = (RefCell::new(expr), Cell::new(false));
        Rc::new(Tensor { dims: dims.to_vec(), form, dtype, expr, shared, cost, place: Cell::new(0) })
    }

    /// The elements in these sizes where any sizes do: it has them, or one number everywhere.
    pub fn in_any_shape(self: &Rc<Tensor>, dims: &[u64]) -> Option<Rc<Tensor>> {
        if self.dims == dims {
            return Some(Rc::clone(self));
        }
        let Expr::Splat(v) = *self.expr.borrow() else { return None };
        Some(Tensor::new(dims, Form::Lanes, self.dtype, Expr::Splat(v)))
    }

    /// What computing it costs those who use it.
    #[allow(clippy::wildcard_enum_match_arm, reason = "an estimate")]
    fn price(&self) -> u32 {
        match &*self.expr.borrow() {
            Expr::Memory(_) | Expr::Regs(_) | Expr::Splat(_) => 0,
            _ if self.shared.get() => 0,
            _ => self.cost,
        }
    }

    /// Sizes as registers see them: outer dimensions, rows, columns.
    pub fn phys(&self) -> Vec<u64> {
        phys(&self.dims, self.form)
    }
}

/// Sizes as registers see them: outer dimensions, rows, columns.
pub(super) fn phys(dims: &[u64], form: Form) -> Vec<u64> {
    let mut p = dims.to_vec();
    if form == Form::Rows {
        p.push(1);
    }
    while p.len() < 2 {
        p.insert(0, 1);
    }
    p
}

impl Fun {
    #[allow(clippy::wildcard_enum_match_arm, reason = "an estimate: what is not listed is a sequence; an estimate")]
    fn price(self) -> u32 {
        match self {
            Fun::Unary(u) => match u {
                Unary::Abs | Unary::Neg | Unary::Not | Unary::Sign => 1,
                _ => 8,
            },
            Fun::Binary(b) | Fun::Unsigned(b) => match b.kind() {
                BinaryKind::Arithmetic(Arithmetic::Div | Arithmetic::Rem) | BinaryKind::BinaryFunction(_) => 8,
                _ => 1,
            },
            _ => 1,
        }
    }
}
