//! How batches of matrices lie while they are factored.

use crate::edit::Emit;
use systole_hlo::graph::{Binary, NodeId};
use systole_isa::DType;

/// What a dimension of a batch of matrices is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Batch,
    Row,
    Column,
}

use Axis::{Batch, Column, Row};

/// The order of dimensions. Vectors (an element for each matrix and row, say) have theirs in the same order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `[B, m, n]`: columns along lanes.
    Apart,
    /// `[m, n, B]`: a matrix in each lane; nothing is moved across lanes then.
    Beside,
    /// `[B, n, m]`: rows along lanes; columns are taken without moving any.
    Turned,
}

/// Columns up to which many matrices lie beside each other: of wider ones products of a row and a column fill the lanes too.
const MOST_COLUMNS: u64 = 128;

impl Form {
    /// The form of `[B, m, n]`: beside each other if so many matrices fill at least half of the lanes, and more of them than columns do.
    pub fn of(b: &Emit, x: NodeId, lanes: u32) -> Form {
        let &[batch, _, n] = b.dims(x) else { return Form::Apart };
        let fills = batch * 2 >= u64::from(lanes) && batch >= n && n <= MOST_COLUMNS;
        if fills { Form::Beside } else { Form::Apart }
    }

    fn order(self) -> [Axis; 3] {
        match self {
            Form::Apart => [Batch, Row, Column],
            Form::Beside => [Row, Column, Batch],
            Form::Turned => [Batch, Column, Row],
        }
    }

    /// The place of an axis in arrays of some of them, which stand in any order here.
    pub fn place(self, axes: &[Axis], axis: Axis) -> usize {
        let before = self.order().into_iter().take_while(|&a| a != axis);
        before.filter(|a| axes.contains(a)).count()
    }

    /// The sizes of an array of some axes, of those of `[B, m, n]`.
    pub fn sizes(self, axes: &[Axis], [batch, m, n]: [u64; 3]) -> Vec<u64> {
        let own = self.order().into_iter().filter(|a| axes.contains(a));
        own.map(|a| match a {
            Batch => batch,
            Row => m,
            Column => n,
        })
        .collect()
    }

    /// `[B, m, n]` in this form.
    pub fn enter(self, b: &mut Emit, x: NodeId) -> NodeId {
        match self {
            Form::Apart => x,
            Form::Beside => b.transpose(x, &[1, 2, 0]),
            Form::Turned => b.transpose(x, &[0, 2, 1]),
        }
    }

    /// `[B, m, n]` of this form.
    pub fn leave(self, b: &mut Emit, x: NodeId) -> NodeId {
        match self {
            Form::Apart => x,
            Form::Beside => b.transpose(x, &[2, 0, 1]),
            Form::Turned => b.transpose(x, &[0, 2, 1]),
        }
    }

    /// `[B, m]` of a vector of this form, or the other way.
    pub fn turn_vector(self, b: &mut Emit, x: NodeId) -> NodeId {
        if self == Form::Beside { b.transpose(x, &[1, 0]) } else { x }
    }

    /// An array of some axes over all three.
    pub fn spread(self, b: &mut Emit, x: NodeId, axes: &[Axis], dims: [u64; 3]) -> NodeId {
        let all = [Batch, Row, Column];
        let map: Vec<usize> =
            self.order().into_iter().filter(|a| axes.contains(a)).map(|a| self.place(&all, a)).collect();
        b.broadcast(x, &map, &self.sizes(&all, dims))
    }

    /// A value for each matrix over a vector along rows.
    pub fn along(self, b: &mut Emit, x: NodeId, dims: [u64; 3]) -> NodeId {
        b.broadcast(x, &[self.place(&[Batch, Row], Batch)], &self.sizes(&[Batch, Row], dims))
    }

    /// The part of an array of some axes at index `j` of one, without that.
    pub fn take(self, b: &mut Emit, x: NodeId, axes: &[Axis], (axis, j): (Axis, NodeId)) -> NodeId {
        let (at, zero) = (self.place(axes, axis), b.index(0));
        let mut sizes = b.dims(x).to_vec();
        let mut starts = vec![zero; sizes.len()];
        (sizes[at], starts[at]) = (1, j);
        let part = b.dynamic_slice(x, &starts, &sizes);
        sizes.remove(at);
        b.reshape(part, &sizes)
    }

    /// The array with that part replaced.
    pub fn put(self, b: &mut Emit, x: NodeId, axes: &[Axis], (axis, j): (Axis, NodeId), part: NodeId) -> NodeId {
        let (at, zero) = (self.place(axes, axis), b.index(0));
        let mut sizes = b.dims(x).to_vec();
        let mut starts = vec![zero; sizes.len()];
        (sizes[at], starts[at]) = (1, j);
        let part = b.reshape(part, &sizes);
        b.dynamic_update_slice(x, part, &starts)
    }

    /// Numbers along an axis of an array of some.
    pub fn number(self, b: &mut Emit, axes: &[Axis], axis: Axis, dims: [u64; 3]) -> NodeId {
        b.iota(DType::S32, &self.sizes(axes, dims), self.place(axes, axis))
    }

    /// A reduction of one axis of an array of some.
    pub fn reduce(self, b: &mut Emit, x: NodeId, axes: &[Axis], axis: Axis, (op, init): (Binary, f64)) -> NodeId {
        b.reduce(x, op, init, &[self.place(axes, axis)])
    }

    /// The sum along one axis of an array of some.
    pub fn sum(self, b: &mut Emit, x: NodeId, axes: &[Axis], axis: Axis) -> NodeId {
        self.reduce(b, x, axes, axis, (Binary::Add, 0.0))
    }
}
