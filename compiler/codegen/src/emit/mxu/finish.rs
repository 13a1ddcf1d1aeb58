//! What a product's kernel does to its results before it stores them, as data: an expression of the sums, of arrays of the
//! result's shape, of rows that lie along the result's columns, and of scalars.

use super::spec::{Epilogue, TileAt};
use crate::emit::elementwise;
use crate::emit::loops::eval::emit_nodes;
use crate::emit::loops::spec::{ExprId, ExprNode, ExprOp};
use crate::emit::loops::{Units, operations};
use crate::emit::memory::{Place, from_memory, load_value};
use crate::emit::value::Value;
use crate::kernel::{KernelBuilder, S};
use serde::{Deserialize, Serialize};
use systole_isa::{ChipConfig, Class, DType, Op};

/// An expression of every element of the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Finish {
    /// [`ExprOp::Input`] numbers `inputs`; there are no indices, parameters or reductions.
    pub nodes: Vec<ExprNode>,
    pub inputs: Vec<FinishInput>,
    /// The node that is stored.
    pub root: ExprId,
}

/// What an expression reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FinishInput {
    /// The sums, converted to this type.
    Sums(DType),
    /// The contraction's extra of that number, at the element's place.
    Extra(u32),
    /// The element of a row in vector memory that is in the same column: a parameter of the kernel is its element row, planes
    /// of columns are `step` element rows apart.
    Columns { dtype: DType, offset: i32, step: u32 },
    /// A parameter of the kernel.
    Scalar(DType),
}

/// Operations of the vector unit from which a node is more than one instruction and its rounding.
const SEVERAL: u32 = 3;

impl Finish {
    /// Cycles of so many registers of results by the number of operations alone, by which tiles are chosen.
    pub(super) fn simple_cycles(&self, registers: f64, chip: &ChipConfig) -> f64 {
        let loads = self.inputs.iter().filter(|i| !matches!(i, FinishInput::Sums(_))).count();
        let operations = self.nodes.len().saturating_sub(loads);
        let per = |n: usize, slots: u32| n as f64 / f64::from(slots.max(1));
        registers * per(operations, chip.core.valu_slots).max(per(loads + 1, chip.core.vload_slots))
    }

    /// Cycles of so many registers of results with what rounds them, as the units take it.
    pub(super) fn cycles(&self, registers: f64, chip: &ChipConfig) -> f64 {
        let loads = self.inputs.iter().filter(|i| !matches!(i, FinishInput::Sums(_))).count() as u32 + 1;
        registers * Units { loads, ..Units::of(&self.nodes) }.cycles(chip)
    }

    /// Cycles from a register of sums to its result.
    pub(super) fn latency(&self, chip: &ChipConfig) -> f64 {
        let of = |class| chip.timing.get(class).latency;
        let rounded = of(Class::Valu);
        let mut there: Vec<u32> = Vec::with_capacity(self.nodes.len());
        for n in &self.nodes {
            let own = match operations(n) {
                (0, 0) => 0,
                (0..SEVERAL, 0) => of(Class::ValuMul) + rounded,
                _ => of(Class::Eup).max(of(Class::ValuDiv)) + rounded,
            };
            let before = n.args.iter().map(|&a| there[a as usize]).max().unwrap_or(0);
            there.push(before + own);
        }
        f64::from(of(Class::Vload) + there[self.root as usize])
    }

    fn has_param(input: &FinishInput) -> bool {
        matches!(input, FinishInput::Columns { .. } | FinishInput::Scalar(_))
    }

    fn input(&self, b: &mut KernelBuilder, i: usize, sums: &Value, at: &TileAt<'_>) -> Value {
        let param = || at.params[self.inputs[..i].iter().filter(|i| Finish::has_param(i)).count()];
        match &self.inputs[i] {
            FinishInput::Sums(dtype) => elementwise::convert(b, sums, *dtype),
            FinishInput::Extra(n) => at.extras[*n as usize],
            FinishInput::Columns { dtype, offset, step } => {
                let plane: S = if *step == 1 { at.plane } else { b.s_muli(at.plane, *step as i32) };
                let base = b.s(Op::SAdd, &[param(), plane]);
                let offset = offset + (at.plane_offset * step) as i32;
                load_value(b, *dtype, Place { base, offset, stride: 0, buf: at.buffer, component_rows: 0 })
            }
            FinishInput::Scalar(dtype) => {
                let v = b.splat(param());
                from_memory(b, *dtype, &[v])
            }
        }
    }
}

/// The epilogue of a [`Finish`].
pub struct Finishing<'a>(pub &'a Finish);

impl Epilogue for Finishing<'_> {
    fn params(&self) -> usize {
        self.0.inputs.iter().filter(|i| Finish::has_param(i)).count()
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "inputs are known, everything else is computed")]
    fn apply(&mut self, b: &mut KernelBuilder, sums: Value, at: &TileAt<'_>) -> Value {
        let values = emit_nodes(b, &self.0.nodes, |b, op| match op {
            ExprOp::Input(i) => Some(self.0.input(b, *i as usize, &sums, at)),
            _ => None,
        });
        values[self.0.root as usize]
    }
}
