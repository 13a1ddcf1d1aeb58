//! Loops whose turns are elementwise, as one kernel: what they carry stays in registers, what they take a place of each turn and
//! what they put there is read and written where it lies.
//!
//! A turn of any other loop calls a kernel for each part it takes or puts down and copies what it carries: that is many times what the
//! arithmetic takes where arrays are small.

use super::super::multiply_add::multiply_adds;
use super::super::{Lower, Region, Val};
use super::flat;
use crate::plan::fuse::{DimMap, MOST_OPERANDS, elementwise};
use crate::plan::group::is_degenerate_reshape;
use crate::plan::spec::KernelSpec;
use crate::plan::step::{Arg, ScalarOp, Step, Use};
use crate::plan::view::{BufId, Form, View};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeSet;
use systole_codegen::emit::loops::RecurrenceSpec;
use systole_codegen::emit::loops::spec::{
    Access, Expr, ExprId, ExprNode, ExprOp, Index, Input, LaneMap, LoopSpec, Output,
};
use systole_codegen::kernel::Needs;
use systole_hlo::analysis::counted::counted_loop;
use systole_hlo::analysis::uses::uses;
use systole_hlo::graph::{ArrayShape, Binary, CompId, Computation, Direction, Family, Node, NodeId, Op, Shape};
use systole_isa::{ChipConfig, DType, dtype::DTypeClass};

/// Operations of a turn at most, and how often a scalar is followed to the counter.
const OPERATIONS: usize = 256;
const DEPTH: u32 = 8;
/// The part of vector memory that the arrays of such a loop may take together.
const SHARE: (u64, u64) = (1, 2);

/// First index and step of the turns along each dimension of a part of an array; empty: it is all of the array.
type Cut = SmallVec<[(u64, u64); 6]>;

/// What an element of the state is to the turns.
#[derive(Clone, Debug, PartialEq)]
enum State {
    /// An integer that begins with `.0` and has `.1` added each turn.
    Counter(i64, i64),
    /// Handed on as it is.
    Fixed,
    /// Made anew by each turn.
    Carried,
    /// An array that each turn writes a part of, by that node.
    Stacked(NodeId),
}

/// An operand: an element of the state and how its dimensions follow the iteration.
#[derive(Clone, Debug, PartialEq)]
struct Operand {
    state: usize,
    map: DimMap,
    cut: Cut,
}

/// A turn as it is read from a loop's body. Of the iteration dimensions the last are rows and columns; before these comes the one that
/// counts turns.
struct Turn<'a> {
    comp: &'a Computation,
    states: Vec<State>,
    trips: i64,
    /// Rows of a register.
    sublanes: u64,
    /// Sizes of the points, at least two.
    dims: Vec<u64>,
    operands: Vec<Operand>,
    expr: Expr,
    memo: FxHashMap<(NodeId, DimMap), ExprId>,
}

/// What a turn makes: parts of arrays that it writes, then what it carries on; and the node of each.
struct Made {
    written: Vec<Operand>,
    carried: Vec<Operand>,
    nodes: Vec<ExprId>,
}

impl<'a> Lower<'a> {
    /// The loop as one kernel, if its turns are elementwise and its arrays fit in vector memory.
    pub(super) fn recurrence(&mut self, r: &mut Region<'a>, id: NodeId, body: CompId) -> Option<Val> {
        let module: &'a systole_hlo::graph::Module = self.module;
        let trips = counted_loop(module, r.comp, id)?.trips.filter(|t| (2..=i32::MAX as u64).contains(t))?;
        let mut turn =
            Turn::of(r.comp, r.comp.node(id).operands[0], module.computation(body), (trips as i64, self.chip))?;
        let mut made = turn.read()?;
        let all = turn.operands.len() + made.nodes.len();
        if all > MOST_OPERANDS || turn.expr.nodes.len() > OPERATIONS || !self.are_near(&turn, r, id) {
            return None;
        }
        let expr = multiply_adds(std::mem::take(&mut turn.expr), &mut made.nodes);
        let vals = self.loop_init(r, id);
        let (op, name) = (self.debug_op(r, id, 0.0), r.comp.node(id).name.clone());
        let (inputs, mut args) = self.taken(&turn, &vals, &name);
        let (outputs, results) = self.given(&turn, &made, &vals, (op, &name), &mut args)?;
        let n = turn.dims.len();
        let mut outer: Vec<u32> = turn.dims[..n - 2].iter().map(|&d| d as u32).collect();
        outer.push(trips as u32);
        let (rows, columns) = (turn.dims[n - 2] as u32, turn.dims[n - 1] as u32);
        let next = &made.nodes[made.written.len()..];
        let spec = RecurrenceSpec {
            turn: LoopSpec { outer, rows, columns, inputs, expr, outputs },
            carried: next.iter().enumerate().map(|(i, &node)| (i as u32, node)).collect(),
            last: next.len() as u32,
        };
        let cycles = spec.cycles(self.chip);
        let kernel = self.plan.simple_kernel(KernelSpec::Recurrence(spec), "recurrence", Needs::default());
        self.plan.kernels[kernel].cycles = Some(cycles);
        self.steps.push(Step::Call { kernel, args, op });
        let mut all = Vec::new();
        for (i, ((state, val), result)) in turn.states.iter().zip(vals).zip(results).enumerate() {
            all.push(match (state, result) {
                (_, Some(v)) => Val::Array(v),
                (State::Counter(first, step), None) => {
                    let last = (first + step * trips as i64) as i32;
                    let dtype = turn.last(i)?.dtype;
                    Val::Word(self.scalar(ScalarOp::Const(last), dtype), dtype)
                }
                (State::Fixed | State::Carried | State::Stacked(_), None) => val,
            });
        }
        Some(Val::Tuple(all))
    }

    /// The operands of a turn, and the arguments that they are.
    fn taken(&mut self, turn: &Turn, vals: &[Val], name: &str) -> (Vec<Input>, Vec<Arg>) {
        let (mut inputs, mut args) = (Vec::new(), Vec::new());
        for o in &turn.operands {
            match vals[o.state] {
                Val::Word(w, t) if turn.states[o.state] == State::Fixed => {
                    inputs.push(Input::Scalar(t));
                    args.push(Arg::Scalar(w));
                }
                Val::Word(..) | Val::Array(_) | Val::Tuple(_) | Val::Token => {
                    let v = self.to_lanes(&vals[o.state], name);
                    inputs.push(Input::Array(v.cut_access(&o.map, &o.cut, turn.dims.len() - 1)));
                    args.push(Arg::rows(v.buf, Use::Read));
                }
            }
        }
        (inputs, args)
    }

    /// The outputs of a turn, whose arguments are added, and the arrays of the state that they are.
    fn given(
        &mut self,
        turn: &Turn,
        made: &Made,
        vals: &[Val],
        (op, name): (u32, &str),
        args: &mut Vec<Arg>,
    ) -> Option<(Vec<Output>, Vec<Option<View>>)> {
        let mut results: Vec<Option<View>> = vec![None; vals.len()];
        let mut outputs = Vec::new();
        for (o, &node) in made.written.iter().chain(&made.carried).zip(&made.nodes) {
            let shape = turn.last(o.state)?;
            let v = self.array(&format!("{name}.{}", o.state), shape.dtype, &shape.dims, Form::Lanes);
            let mut usage = Use::Write;
            if matches!(turn.states[o.state], State::Stacked(u) if !turn.covers(u, &o.map)) {
                let before = self.to_lanes(&vals[o.state], name);
                self.steps.push(Step::Copy { src: before.buf, dst: v.buf, op });
                usage = Use::Update;
            }
            let access = stored(v.cut_access(&o.map, &o.cut, turn.dims.len() - 1), &shape.dims);
            outputs.push(Output { node, access });
            args.push(Arg::rows(v.buf, usage));
            results[o.state] = Some(v);
        }
        Some((outputs, results))
    }

    /// Whether the arrays of a loop fit in vector memory side by side, and nothing says that one of them does not belong there.
    fn are_near(&self, turn: &Turn, r: &Region<'a>, id: NodeId) -> bool {
        let root = turn.comp.node(turn.comp.root);
        let bytes = |i: &usize| {
            let a = turn.array(root.operands[*i])?;
            Some(crate::plan::view::layout_of(a.dtype, &a.dims, Form::Lanes, self.chip).bytes())
        };
        let read: BTreeSet<usize> = turn.operands.iter().map(|o| o.state).collect();
        let made = turn.states.iter().enumerate().filter(|(_, s)| !matches!(s, State::Counter(..) | State::Fixed));
        let sizes: Vec<u64> = read.into_iter().chain(made.map(|(i, _)| i)).filter_map(|i| bytes(&i)).collect();
        let name = &r.comp.node(id).name;
        let init = match &r.values[r.comp.node(id).operands[0].index()] {
            Some(val) => flat(val),
            None => Vec::new(),
        };
        let of_guide = |b: BufId| {
            self.pinned_place(b).is_some() || self.plan.residency.streamed.contains(&self.plan.buffers[b.index()].name)
        };
        let free = init.iter().all(|v| !matches!(v, Val::Array(v) if of_guide(v.buf)));
        let made = (0..root.operands.len()).all(|i| !self.plan.residency.streamed.contains(&format!("{name}.{i}")));
        let most = self.plan.residency.largest;
        let room = self.chip.vmem.bytes / SHARE.1 * SHARE.0;
        free && made
            && sizes.iter().all(|b| *b <= most)
            && sizes.iter().sum::<u64>() <= room.min(most.saturating_mul(2))
    }
}

/// An output's access: one whose last dimension has size 1 is written in every lane.
fn stored(mut a: Access, dims: &[u64]) -> Access {
    if let (LaneMap::Indexed { .. }, None | Some(1)) = (&a.lane, dims.last()) {
        a.lane = LaneMap::Replicated;
    }
    a
}

impl<'a> Turn<'a> {
    /// What the elements of a loop's state are; `None`: not what a recurrence has.
    fn of(
        outside: &Computation,
        init: NodeId,
        comp: &'a Computation,
        (trips, chip): (i64, &ChipConfig),
    ) -> Option<Turn<'a>> {
        let root = comp.node(comp.root);
        let first = outside.node(init);
        // What the root does not lead to is there for its effect: the host's calls, and loops and branches around such.
        let acts = |n: &Node| n.op.has_effect() || n.op.family() == Family::Control;
        if root.op != Op::Tuple || first.op != Op::Tuple || comp.nodes.iter().any(acts) {
            return None;
        }
        let users = uses(comp);
        let mut states = Vec::new();
        let mut dims: Vec<u64> = Vec::new();
        for (i, &last) in root.operands.iter().enumerate() {
            let Shape::Array(a) = &comp.node(last).shape else { return None };
            let state = state(comp, (i, last), (outside, first.operands[i]), &users);
            let points = match &state {
                State::Counter(..) | State::Fixed => &[][..],
                State::Carried => &a.dims,
                State::Stacked(u) => comp.node(comp.node(*u).operands[1]).shape.as_array().map_or(&[][..], |a| &a.dims),
            };
            let most = |d: &[u64]| d.iter().product::<u64>();
            if most(points) > most(&dims) || dims.is_empty() {
                dims = points.to_vec();
            }
            states.push(state);
        }
        // Parts have dimensions of size 1 in front that what is carried has not.
        while dims.len() > 2 && dims[0] == 1 {
            dims.remove(0);
        }
        while dims.len() < 2 {
            dims.insert(0, 1);
        }
        let made = states.iter().any(|s| matches!(s, State::Carried | State::Stacked(_)));
        (made && !dims.contains(&0)).then(|| Turn {
            comp,
            states,
            trips,
            sublanes: u64::from(chip.core.sublanes),
            dims,
            operands: Vec::new(),
            expr: Expr::default(),
            memo: FxHashMap::default(),
        })
    }

    /// Reads the body: its operands, what is carried first, and what it makes of them.
    fn read(&mut self) -> Option<Made> {
        let root = &self.comp.node(self.comp.root).operands;
        let mut made = Made { written: Vec::new(), carried: Vec::new(), nodes: Vec::new() };
        for state in (0..root.len()).filter(|&i| self.states[i] == State::Carried) {
            let map = self.map(self.last(state)?)?;
            made.carried.push(Operand { state, map, cut: Cut::new() });
        }
        self.operands.clone_from(&made.carried);
        for (state, what) in self.states.clone().into_iter().enumerate() {
            let State::Stacked(update) = what else { continue };
            let operands = &self.comp.node(update).operands;
            let part = self.array(operands[1])?;
            let map = self.map(part)?;
            made.nodes.push(self.value(operands[1], &map)?);
            let (map, cut) = self.part(self.array(update)?, (&part.dims, &map), &operands[2..])?;
            made.written.push(Operand { state, map, cut });
        }
        for o in &made.carried {
            made.nodes.push(self.value(root[o.state], &o.map)?);
        }
        // Results are stored with columns along lanes, or in one lane each turn.
        let rows = Some(self.dims.len() - 1);
        let straight = |o: &Operand| self.is_along(&o.map) && o.map.last().is_none_or(|m| *m != rows);
        let all = made.carried.iter().chain(&made.written).all(straight);
        all.then_some(made)
    }

    /// The shape of an element of the state.
    fn last(&self, state: usize) -> Option<&'a ArrayShape> {
        self.array(self.comp.node(self.comp.root).operands[state])
    }

    fn array(&self, id: NodeId) -> Option<&'a ArrayShape> {
        self.comp.node(id).shape.as_array()
    }

    /// The number of the dimension that counts turns.
    fn time(&self) -> usize {
        self.dims.len() - 2
    }

    /// How the dimensions of an array with one element for each point, or with one alone, follow the iteration.
    fn map(&self, a: &ArrayShape) -> Option<DimMap> {
        if a.elements() == 1 {
            return Some(smallvec![None; a.rank()]);
        }
        let mut points = self.dims.iter().enumerate().filter(|(_, s)| **s != 1);
        let mut map = DimMap::new();
        for &size in &a.dims {
            map.push(match size {
                1 => None,
                _ => {
                    let (d, _) = points.next().filter(|(_, s)| **s == size)?;
                    // Rows and columns stand behind the turns.
                    Some(if d < self.time() { d } else { d + 1 })
                }
            });
        }
        points.next().is_none().then_some(map)
    }

    fn push(&mut self, op: ExprOp, args: &[ExprId], dtype: DType) -> ExprId {
        self.expr.nodes.push(ExprNode { op, args: args.into(), dtype });
        self.expr.nodes.len() as ExprId - 1
    }

    fn index(&self) -> Index {
        Index { outer: smallvec![0; self.dims.len() - 1], ..Index::default() }
    }

    /// The expression of a node at the points under `map`.
    fn value(&mut self, id: NodeId, map: &DimMap) -> Option<ExprId> {
        if let Some(&e) = self.memo.get(&(id, map.clone())) {
            return Some(e);
        }
        if self.expr.nodes.len() > OPERATIONS {
            return None;
        }
        let e = self.inside(id, map)?;
        self.memo.insert((id, map.clone()), e);
        Some(e)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "anything else is no part of a recurrence")]
    fn inside(&mut self, id: NodeId, map: &DimMap) -> Option<ExprId> {
        let node = self.comp.node(id);
        // Operations on arrays of different ranks are no part of a recurrence but for those below.
        let a = self.array(id).filter(|a| a.rank() == map.len())?;
        if a.dims.is_empty()
            && a.dtype.is_integer()
            && let Some((first, step)) = self.affine(id, DEPTH)
        {
            let mut index = Index { offset: first, ..self.index() };
            let time = self.time();
            index.outer[time] = step;
            return Some(self.push(ExprOp::Index(index), &[], a.dtype));
        }
        match &node.op {
            Op::Constant(l) if l.as_splat().is_some() || l.elements() == 1 => {
                Some(self.push(ExprOp::Const(l.element(0).into()), &[], a.dtype))
            }
            Op::Iota { dim } => {
                let mut index = self.index();
                let rows = self.dims.len() - 1;
                match map[*dim] {
                    Some(d) if d == rows => index.row = 1,
                    Some(d) if d > rows => index.column = 1,
                    Some(d) => index.outer[d] = 1,
                    None => {}
                }
                Some(self.push(ExprOp::Index(index), &[], a.dtype))
            }
            Op::Broadcast { dims } => {
                let from = &self.array(node.operands[0])?.dims;
                let m: DimMap = dims.iter().zip(from).map(|(&d, &s)| if s == 1 { None } else { map[d] }).collect();
                self.value(node.operands[0], &m)
            }
            Op::Reshape if is_degenerate_reshape(self.comp, id) => {
                let from = &self.array(node.operands[0])?.dims;
                let mut kept = map.iter().zip(&a.dims).filter(|(_, s)| **s != 1).map(|(m, _)| *m);
                let m: DimMap = from.iter().map(|&s| if s == 1 { None } else { kept.next().flatten() }).collect();
                self.value(node.operands[0], &m)
            }
            Op::GetTupleElement { .. } => {
                let state = element(self.comp, id)?;
                match self.states.get(state)? {
                    State::Carried if self.map(a).as_ref() == Some(map) => {
                        let input = self.operands.iter().position(|o| o.state == state)?;
                        Some(self.push(ExprOp::Input(input as u32), &[], a.dtype))
                    }
                    State::Fixed => self.operand(state, map.clone(), Cut::new(), a.dtype),
                    State::Carried | State::Counter(..) | State::Stacked(_) => None,
                }
            }
            Op::DynamicSlice { .. } => {
                let index = element(self.comp, node.operands[0])?;
                if self.states.get(index) != Some(&State::Fixed) {
                    return None;
                }
                let whole = self.array(node.operands[0])?;
                let (map, cut) = self.part(whole, (&a.dims, map), &node.operands[1..])?;
                self.operand(index, map, cut, a.dtype)
            }
            op => {
                let op = elementwise(op)?;
                let mut args: SmallVec<[ExprId; 3]> = SmallVec::new();
                for &o in &node.operands {
                    // Scalars combine with arrays in select and clamp.
                    let scalar = self.array(o)?.dims.is_empty();
                    let m = if scalar { DimMap::new() } else { map.clone() };
                    args.push(self.value(o, &m)?);
                }
                Some(self.push(op, &args, a.dtype))
            }
        }
    }

    /// Whether no dimension but the last follows the columns, so that these lie along lanes.
    fn is_along(&self, map: &DimMap) -> bool {
        map.iter().rev().skip(1).all(|m| *m != Some(self.dims.len()))
    }

    /// An element of the state that turns leave alone, or a part of it.
    fn operand(&mut self, state: usize, map: DimMap, cut: Cut, dtype: DType) -> Option<ExprId> {
        if !self.is_along(&map) {
            return None;
        }
        let o = Operand { state, map, cut };
        let carried = self.states.iter().filter(|s| **s == State::Carried).count();
        let known = self.operands.iter().skip(carried).position(|x| *x == o).map(|i| i + carried);
        let i = known.unwrap_or_else(|| {
            self.operands.push(o);
            self.operands.len() - 1
        });
        Some(self.push(ExprOp::Input(i as u32), &[], dtype))
    }

    /// How the dimensions of an array follow the iteration where a turn takes, or puts down, the part of sizes and map `part` that begins
    /// at `starts`: of each dimension all, or one place, which moves on with the turns.
    fn part(&self, whole: &ArrayShape, part: (&[u64], &DimMap), starts: &[NodeId]) -> Option<(DimMap, Cut)> {
        let (mut map, mut cut) = (DimMap::new(), Cut::new());
        for ((&size, (&own, &m)), &start) in whole.dims.iter().zip(part.0.iter().zip(part.1)).zip(starts) {
            let (m, c) = if own == size {
                (m, (0, 1))
            } else if own == 1 {
                let (first, step) = self.affine(start, DEPTH)?;
                let last = first + step * (self.trips - 1);
                let inside = |at: i64| (0..size as i64).contains(&at);
                if !inside(first) || !inside(last) {
                    return None;
                }
                match step {
                    0 => (None, (first as u64, 1)),
                    // A step back is one of two's complement.
                    _ => (Some(self.time()), (first as u64, step as u64)),
                }
            } else {
                return None;
            };
            // Rows that are apart are read a register at a time: none of these reaches beyond them.
            map.push(m);
            cut.push(c);
        }
        let rows = self.dims.len() - 1;
        let apart = map.iter().rev().skip(1).position(|&m| m == Some(rows)).is_some_and(|d| d > 0);
        (!apart || self.dims[rows - 1].is_multiple_of(self.sublanes)).then_some((map, cut))
    }

    /// Whether the parts that an update writes, each at a place of its own, are all of its array.
    fn covers(&self, update: NodeId, map: &DimMap) -> bool {
        let elements = |id: NodeId| self.array(id).map_or(0, ArrayShape::elements);
        let part = elements(self.comp.node(update).operands[1]);
        map.contains(&Some(self.time())) && part.checked_mul(self.trips as u64) == Some(elements(update))
    }

    /// The value of an integer scalar in the first turn, and what each adds to it.
    #[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed is not followed")]
    fn affine(&self, id: NodeId, depth: u32) -> Option<(i64, i64)> {
        let depth = depth.checked_sub(1)?;
        let node = self.comp.node(id);
        let a = self.array(id)?;
        let of = |i: usize| self.affine(node.operands[i], depth);
        let found = match &node.op {
            Op::Constant(l) if l.elements() == 1 && a.dtype.is_integer() => (l.integer(0)?, 0),
            Op::GetTupleElement { .. } => match self.states.get(element(self.comp, id)?)? {
                State::Counter(first, step) => (*first, *step),
                State::Fixed | State::Carried | State::Stacked(_) => return None,
            },
            Op::Reshape | Op::Copy | Op::Convert if a.elements() == 1 => of(0)?,
            Op::Binary(Binary::Add) => {
                let (x, y) = (of(0)?, of(1)?);
                (x.0.checked_add(y.0)?, x.1.checked_add(y.1)?)
            }
            Op::Binary(Binary::Sub) => {
                let (x, y) = (of(0)?, of(1)?);
                (x.0.checked_sub(y.0)?, x.1.checked_sub(y.1)?)
            }
            Op::Binary(Binary::Mul) => match (of(0)?, of(1)?) {
                ((x, 0), (first, step)) | ((first, step), (x, 0)) => (first.checked_mul(x)?, step.checked_mul(x)?),
                _ => return None,
            },
            Op::Select => of(if self.holds(node.operands[0], depth)? { 1 } else { 2 })?,
            _ => return None,
        };
        // No turn leaves the type, nor what an index of a kernel holds.
        let (low, high) = systole_hlo::graph::number::integer_range(a.dtype)?;
        let (low, high) = (low.max(i128::from(i32::MIN)), high.min(i128::from(i32::MAX)));
        let fits = |t: i64| {
            let v = i128::from(found.0) + i128::from(found.1) * i128::from(t);
            low <= v && v <= high
        };
        (fits(0) && fits(self.trips)).then_some(found)
    }

    /// What a comparison of integer scalars gives, if it gives the same in every turn.
    fn holds(&self, id: NodeId, depth: u32) -> Option<bool> {
        let node = self.comp.node(id);
        let Op::Compare { direction, .. } = node.op else { return None };
        let (x, y) = (self.affine(node.operands[0], depth)?, self.affine(node.operands[1], depth)?);
        let at = |t: i64| x.0 - y.0 + (x.1 - y.1) * t;
        let (first, last) = (at(0), at(self.trips - 1));
        let of = |d: i64| match direction {
            Direction::Lt => d < 0,
            Direction::Le => d <= 0,
            Direction::Gt => d > 0,
            Direction::Ge => d >= 0,
            Direction::Eq | Direction::Ne => (d == 0) == (direction == Direction::Eq),
        };
        // What is between two differences on one side of zero is on it too; zero itself is between two sides.
        let passed = matches!(direction, Direction::Eq | Direction::Ne) && first.signum() != last.signum();
        (!passed && of(first) == of(last)).then(|| of(first))
    }
}

/// Which element of the loop's state a node is.
fn element(comp: &Computation, id: NodeId) -> Option<usize> {
    let node = comp.node(id);
    let Op::GetTupleElement { index } = node.op else { return None };
    matches!(comp.node(node.operands[0]).op, Op::Parameter { .. }).then_some(index)
}

/// What element `i` of a state is, whose next value is `last` and whose first one is `first` of `outside`.
fn state(
    comp: &Computation,
    (i, last): (usize, NodeId),
    (outside, first): (&Computation, NodeId),
    users: &[Vec<NodeId>],
) -> State {
    let node = comp.node(last);
    let own = |id: NodeId| element(comp, id) == Some(i);
    if own(last) {
        return State::Fixed;
    }
    if let Some(counter) = counter(comp, last, (outside, first), &own) {
        return counter;
    }
    if node.op == Op::DynamicUpdateSlice && own(node.operands[0]) && users[last.index()] == [comp.root] {
        // Nothing else sees the array.
        let takes = comp.ids().filter(|&id| own(id));
        let alone = takes.flat_map(|id| &users[id.index()]).all(|&u| u == last);
        if alone && !own(node.operands[1]) {
            return State::Stacked(last);
        }
    }
    State::Carried
}

/// A counter: an integer to which a constant is added, or from which one is taken.
#[allow(clippy::wildcard_enum_match_arm, reason = "nothing else is a number or counts")]
fn counter(
    comp: &Computation,
    last: NodeId,
    (outside, first): (&Computation, NodeId),
    own: &dyn Fn(NodeId) -> bool,
) -> Option<State> {
    let number = |c: &Computation, id: NodeId| match &c.node(id).op {
        Op::Constant(l) if l.elements() == 1 && l.dtype.is_integer() => l.integer(0),
        _ => None,
    };
    let node = comp.node(last);
    let a = node.shape.as_array().filter(|a| a.dims.is_empty() && a.dtype.class() != DTypeClass::Pred)?;
    if !a.dtype.is_integer() {
        return None;
    }
    let step = match node.op {
        Op::Binary(Binary::Add) if own(node.operands[0]) => number(comp, node.operands[1])?,
        Op::Binary(Binary::Add) if own(node.operands[1]) => number(comp, node.operands[0])?,
        Op::Binary(Binary::Sub) if own(node.operands[0]) => number(comp, node.operands[1])?.checked_neg()?,
        _ => return None,
    };
    Some(State::Counter(number(outside, first)?, step))
}
