//! What a product's kernel does to rows of lhs on their way into the matrix units, as data: an expression of the elements in memory
//! and of values that belong to their rows.
//!
//! The vector unit has little to do while rows stream: what ends the loop that makes an operand, such as the division of a softmax,
//! costs nothing there. It is done again for every group of columns that the rows go through.

use super::body::Context;
use super::spec::Contraction;
use crate::emit::loops::Units;
use crate::emit::loops::eval::emit_nodes;
use crate::emit::loops::spec::{ExprId, ExprNode, ExprOp};
use crate::emit::memory::{Place, load_value};
use crate::emit::value::Value;
use crate::kernel::{KernelBuilder, S, V};
use serde::{Deserialize, Serialize};
use systole_isa::{ChipConfig, DType};

/// An expression of every element of lhs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Start {
    /// [`ExprOp::Input`] numbers `inputs`; there are no indices, parameters or reductions.
    pub nodes: Vec<ExprNode>,
    pub inputs: Vec<StartInput>,
    /// The node that is multiplied, rounded to `dtype` as the units take it.
    pub root: ExprId,
    pub dtype: DType,
}

/// What an expression reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StartInput {
    /// The element of lhs.
    Element,
    /// The value of the element's row, in vector memory: a parameter of the kernel is the element row of the first one, the others are
    /// where the rows of the first plane of lhs are, each in every lane.
    Row(DType),
}

impl Start {
    /// Types of the values of rows, in the order of their parameters.
    pub fn rows(&self) -> impl Iterator<Item = DType> + '_ {
        self.inputs.iter().filter_map(|i| match i {
            StartInput::Row(t) => Some(*t),
            StartInput::Element => None,
        })
    }

    /// Cycles of a register of lhs in the vector unit and the unit of functions.
    pub(super) fn cycles(&self, chip: &ChipConfig) -> f64 {
        Units::of(&self.nodes).cycles(chip)
    }

    /// The register that is pushed, of one of lhs in memory.
    #[allow(clippy::wildcard_enum_match_arm, reason = "inputs are known, everything else is computed")]
    fn apply(&self, b: &mut KernelBuilder, element: Value, rows: &[Value]) -> V {
        let input = |i: usize| match self.inputs[i] {
            StartInput::Element => element,
            StartInput::Row(_) => rows[self.inputs[..i].iter().filter(|i| matches!(i, StartInput::Row(_))).count()],
        };
        let values = emit_nodes(b, &self.nodes, |_, op| match op {
            ExprOp::Input(i) => Some(input(*i as usize)),
            _ => None,
        });
        values[self.root as usize].v()
    }
}

impl Contraction {
    /// The type of lhs as it is multiplied.
    pub fn lhs_type(&self) -> DType {
        self.start.as_ref().map_or(self.lhs.dtype, |s| s.dtype)
    }
}

impl Context<'_> {
    /// The values of the rows of a block, `offset` element rows behind the walk.
    pub(super) fn row_values(&self, b: &mut KernelBuilder, offset: i32) -> Vec<Value> {
        let Some(start) = &self.p.spec.start else { return Vec::new() };
        let stride = self.p.geometry.inner.lhs as i32;
        let place = |base: S| Place { base, offset, stride, buf: self.rows_buf, component_rows: 0 };
        start.rows().zip(&self.push.walk.vars[1..]).map(|(dtype, &base)| load_value(b, dtype, place(base))).collect()
    }

    /// What is pushed of a register of lhs.
    pub(super) fn started(&self, b: &mut KernelBuilder, v: V, rows: &[Value]) -> V {
        match &self.p.spec.start {
            None => v,
            Some(start) => start.apply(b, Value::word(self.p.spec.lhs.dtype, v), rows),
        }
    }
}
