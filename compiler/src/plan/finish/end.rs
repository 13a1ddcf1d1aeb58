//! A loop's expression as the end of a product.

use super::{Finisher, LoopCall};
use crate::plan::spec::KernelSpec;
use crate::plan::step::{Arg, BufferKind, Step, Unit, Use};
use crate::plan::view::{BufId, Form, layout_of};
use smallvec::{SmallVec, smallvec};
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::loops::spec::{Access, Expr, ExprId, ExprNode, ExprOp, Input, LaneMap, LoopSpec, Output};
use systole_codegen::emit::mxu::{Finish, FinishInput, Place};
use systole_codegen::kernel::Needs;
use systole_isa::DType;

/// Operands of an expression at most.
const MOST_INPUTS: usize = 8;

/// A loop's expression as the end of a product.
pub(super) struct End {
    pub finish: Finish,
    /// Arguments of arrays of the result's shape, where they are, their types.
    pub extras: Vec<(Arg, Place, DType)>,
    /// Arguments of rows and scalars.
    pub params: Vec<Arg>,
    /// Loops that make rows.
    pub before: Vec<Step>,
}

impl End {
    pub(super) fn new(f: &Finisher<'_>, made: BufId, result: BufId, call: &LoopCall) -> Option<End> {
        let spec = &call.spec;
        let out = &spec.outputs[0];
        let LaneMap::Tile { .. } = out.access.lane else { return None };
        let same = |a: &Access| {
            (&a.outer, a.row, a.offset, &a.lane) == (&out.access.outer, out.access.row, 0, &out.access.lane)
        };
        let mut end = End {
            finish: Finish { nodes: spec.expr.nodes.clone(), inputs: Vec::new(), root: out.node },
            extras: Vec::new(),
            params: Vec::new(),
            before: Vec::new(),
        };
        let plain = |n: &ExprNode| !matches!(n.op, ExprOp::Index(_) | ExprOp::Param(_) | ExprOp::LaneReduce(..));
        if out.access.offset != 0 || spec.inputs.len() > MOST_INPUTS || !spec.expr.nodes.iter().all(plain) {
            return None;
        }
        for (input, arg) in spec.inputs.iter().zip(&call.args) {
            end.finish.inputs.push(match (input, arg) {
                (Input::Scalar(t), Arg::Scalar(_)) => {
                    end.params.push(arg.clone());
                    FinishInput::Scalar(*t)
                }
                (Input::Array(a), Arg::Array { buf, unit, offset: 0, dynamic, .. }) if dynamic.is_empty() => {
                    if *buf == made {
                        if !same(a) {
                            return None;
                        }
                        FinishInput::Sums(a.dtype)
                    } else if same(a) && f.same_places(*buf, result) {
                        let place = if *unit == Unit::Granules { Place::Hbm } else { Place::Vmem };
                        end.extras.push((arg.clone(), place, a.dtype));
                        FinishInput::Extra(end.extras.len() as u32 - 1)
                    } else {
                        let row = End::row(a).filter(|_| *unit == Unit::ElementRows)?;
                        end.params.push(arg.clone());
                        row
                    }
                }
                _ => return None,
            });
        }
        Some(end)
    }

    /// An array that has one row along the columns.
    fn row(a: &Access) -> Option<FinishInput> {
        let LaneMap::Tile { tile_rows } = a.lane else { return None };
        let one = a.row == 0 && a.outer.iter().all(|&s| s == 0) && a.dtype.components() == 1;
        let (offset, step) = (i32::try_from(a.offset).ok()?, u32::try_from(tile_rows).ok()?);
        (one && a.dtype != DType::Pred).then_some(FinishInput::Columns { dtype: a.dtype, offset, step })
    }

    /// Computes what depends on columns alone in a loop before the product, where that is work.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for inputs alone")]
    pub(super) fn prepare(&mut self, f: &mut Finisher<'_>, call: &LoopCall) -> Option<()> {
        let nodes = &self.finish.nodes;
        let input = |n: &ExprNode| match n.op {
            ExprOp::Input(i) => Some(&self.finish.inputs[i as usize]),
            _ => None,
        };
        // Of the columns alone; of nothing but constants.
        let (mut columns, mut constant): (Vec<bool>, Vec<bool>) = Default::default();
        for n in nodes {
            let all = |v: &[bool]| !n.args.is_empty() && n.args.iter().all(|&a| v[a as usize]);
            let given = matches!(n.op, ExprOp::Const(_));
            constant.push(given || matches!(input(n), Some(FinishInput::Scalar(_))) || all(&constant));
            let read = matches!(input(n), Some(FinishInput::Columns { .. }));
            let of = n.args.iter().all(|&a| columns[a as usize] || constant[a as usize]) && !n.args.is_empty();
            columns.push(read || of && !constant[constant.len() - 1]);
        }
        let simple = |id: usize| {
            let n = &nodes[id];
            n.args.is_empty() || n.op == ExprOp::Convert && nodes[n.args[0] as usize].args.is_empty()
        };
        let mut wanted: Vec<ExprId> = Vec::new();
        for (id, n) in nodes.iter().enumerate() {
            let other = !columns[id] && !constant[id];
            wanted.extend(n.args.iter().filter(|&&a| other && columns[a as usize] && !simple(a as usize)));
            if columns[id] && id as ExprId == self.finish.root {
                return None;
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Some(());
        }
        let n = call.spec.columns;
        let mut inputs = Vec::new();
        let mut args = Vec::new();
        for (input, arg) in call.spec.inputs.iter().zip(&call.args) {
            // Inputs keep their numbers; what is not of the columns stands for nothing here.
            let row = matches!(input, Input::Array(a) if End::row(a).is_some());
            let kept = row || matches!(input, Input::Scalar(_));
            inputs.push(if kept { flat(input) } else { Input::Scalar(DType::S32) });
            args.push(if kept { arg.clone() } else { Arg::Const(0) });
        }
        let dtype = |id: ExprId| nodes[id as usize].dtype;
        if wanted.iter().any(|&id| dtype(id).components() != 1 || dtype(id) == DType::Pred) {
            return None;
        }
        let name = f.draft.ops[call.op as usize].name.clone();
        let mut outputs = Vec::new();
        let mut rows = Vec::new();
        for &id in &wanted {
            let layout = layout_of(dtype(id), &[u64::from(n)], Form::Lanes, f.chip);
            let step = layout.plane_rows() as i64;
            let access = Access {
                dtype: dtype(id),
                component_rows: layout.total_rows() as i64,
                outer: smallvec![],
                row: 0,
                offset: 0,
                lane: LaneMap::Tile { tile_rows: step },
            };
            outputs.push(Output { node: id, access });
            let buf = f.draft.buffer(name.clone(), layout, BufferKind::Temp);
            f.mentions.push(2);
            rows.push((id, buf, step as u32));
            args.push(Arg::rows(buf, Use::Write));
        }
        let expr = Expr { nodes: prefix(nodes, &wanted), reductions: Vec::new() };
        let spec = LoopSpec { outer: Vec::new(), rows: 1, columns: n, inputs, expr, outputs };
        let kernel = f.draft.simple_kernel(KernelSpec::Body(Body::Loop(spec)), "rows of columns", Needs::default());
        self.before.push(Step::Call { kernel, args, op: call.op });
        for (id, buf, step) in rows {
            let number = self.finish.inputs.len() as u32;
            self.finish.inputs.push(FinishInput::Columns { dtype: dtype_of(&self.finish, id), offset: 0, step });
            self.params.push(Arg::rows(buf, Use::Read));
            let node = &mut self.finish.nodes[id as usize];
            (node.op, node.args) = (ExprOp::Input(number), SmallVec::new());
        }
        Some(())
    }

    /// Without the nodes and inputs that nothing needs.
    pub(super) fn renumbered(mut self) -> End {
        let nodes = &self.finish.nodes;
        let mut needed = vec![false; nodes.len()];
        needed[self.finish.root as usize] = true;
        for id in (0..nodes.len()).rev().filter(|&id| id <= self.finish.root as usize) {
            if needed[id] {
                nodes[id].args.iter().for_each(|&a| needed[a as usize] = true);
            }
        }
        let mut read = vec![false; self.finish.inputs.len()];
        for (n, _) in nodes.iter().zip(&needed).filter(|(_, needed)| **needed) {
            if let ExprOp::Input(i) = n.op {
                read[i as usize] = true;
            }
        }
        let mut to = vec![0; nodes.len()];
        let mut kept: Vec<ExprNode> = Vec::new();
        let number = |i: u32| read[..i as usize].iter().filter(|r| **r).count() as u32;
        for (id, n) in nodes.iter().enumerate().filter(|(id, _)| needed[*id]) {
            to[id] = kept.len() as ExprId;
            let op = if let ExprOp::Input(i) = n.op { ExprOp::Input(number(i)) } else { n.op.clone() };
            let args = n.args.iter().map(|&a| to[a as usize]).collect();
            kept.push(ExprNode { op, args, dtype: n.dtype });
        }
        let (mut params, mut extras) = (Vec::new(), Vec::new());
        let mut inputs = Vec::new();
        let mut given = std::mem::take(&mut self.params).into_iter();
        for (input, read) in self.finish.inputs.iter().zip(&read) {
            let param = match input {
                FinishInput::Columns { .. } | FinishInput::Scalar(_) => given.next(),
                FinishInput::Sums(_) | FinishInput::Extra(_) => None,
            };
            if !read {
                continue;
            }
            params.extend(param);
            inputs.push(match input {
                FinishInput::Extra(n) => {
                    extras.push(self.extras[*n as usize].clone());
                    FinishInput::Extra(extras.len() as u32 - 1)
                }
                FinishInput::Sums(_) | FinishInput::Columns { .. } | FinishInput::Scalar(_) => input.clone(),
            });
        }
        let finish = Finish { nodes: kept, inputs, root: to[self.finish.root as usize] };
        End { finish, extras, params, before: self.before }
    }
}

fn dtype_of(f: &Finish, id: ExprId) -> DType {
    f.nodes[id as usize].dtype
}

/// An input of a loop over one row.
fn flat(input: &Input) -> Input {
    match input {
        Input::Array(a) => Input::Array(Access { outer: smallvec![], ..a.clone() }),
        Input::Scalar(t) => Input::Scalar(*t),
    }
}

/// The nodes with nothing in the place of those that these do not need.
fn prefix(nodes: &[ExprNode], wanted: &[ExprId]) -> Vec<ExprNode> {
    let mut needed = vec![false; nodes.len()];
    wanted.iter().for_each(|&id| needed[id as usize] = true);
    for id in (0..nodes.len()).rev() {
        if needed[id] {
            nodes[id].args.iter().for_each(|&a| needed[a as usize] = true);
        }
    }
    let end = wanted.iter().max().map_or(0, |&id| id as usize + 1);
    let nothing = |n: &ExprNode| ExprNode {
        op: ExprOp::Const(smallvec![0; n.dtype.host_bytes()]),
        args: smallvec![],
        dtype: n.dtype,
    };
    nodes[..end].iter().zip(&needed).map(|(n, &needed)| if needed { n.clone() } else { nothing(n) }).collect()
}
