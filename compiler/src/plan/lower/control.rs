//! Loops and conditionals.

mod recurrence;

use super::scalar::is_scalar_type;
use super::{Lower, Region, Val, unseen};
use crate::plan::step::{BufferKind, ScalarOp, Step, Word};
use crate::plan::view::{Form, View, layout_of};
use systole_hlo::analysis::counted::counted_loop;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, CompId, NodeId, Op, Shape};
use systole_isa::DType;

/// A place that a loop or conditional keeps one value of its state in.
#[derive(Clone, Debug)]
enum Slot {
    Word(Word, DType),
    Array(View),
    /// What the loop leaves alone: the value itself.
    Fixed(Val),
    Token,
}

impl Slot {
    fn val(&self) -> Val {
        match self {
            Slot::Word(w, t) => Val::Word(*w, *t),
            Slot::Array(v) => Val::Array(v.clone()),
            Slot::Fixed(v) => v.clone(),
            Slot::Token => Val::Token,
        }
    }

    fn word(&self) -> Option<(Word, DType)> {
        match self {
            Slot::Word(w, t) => Some((*w, *t)),
            Slot::Array(_) | Slot::Fixed(_) | Slot::Token => None,
        }
    }
}

fn flat(val: &Val) -> Vec<Val> {
    match val {
        Val::Tuple(t) => t.clone(),
        Val::Array(_) | Val::Word(..) | Val::Token => vec![val.clone()],
    }
}

fn shapes(s: &Shape) -> Vec<&Shape> {
    match s {
        Shape::Tuple(t) => t.iter().collect(),
        Shape::Array(_) | Shape::Token => vec![s],
    }
}

impl<'a> Lower<'a> {
    /// Slots for a state: `fixed` values are their own, words where `words` allows it, arrays elsewhere; those numbered in `stay`
    /// stay in HBM.
    fn slots(
        &mut self,
        shape: &Shape,
        words: &[bool],
        fixed: &[Option<Val>],
        (stay, parts, name): (&[usize], &[usize], &str),
    ) -> Vec<Slot> {
        let shapes = shapes(shape);
        let array = |i: usize| match shapes[i] {
            Shape::Array(a) if !words[i] && fixed[i].is_none() => {
                Some(layout_of(a.dtype, &a.dims, Form::Lanes, self.chip))
            }
            Shape::Array(_) | Shape::Token | Shape::Tuple(_) => None,
        };
        let near = |i: &usize| !stay.contains(i);
        let bytes = |i: usize| Some(i).filter(near).and_then(array).map_or(0, |l| l.bytes());
        let mut far = self.far(&(0..shapes.len()).map(bytes).collect::<Vec<u64>>(), parts);
        stay.iter().for_each(|&i| far[i] = true);
        shapes
            .iter()
            .enumerate()
            .map(|(i, s)| match s {
                Shape::Array(_) if fixed[i].is_some() => fixed[i].clone().map_or(Slot::Token, Slot::Fixed),
                Shape::Array(a) if words[i] => Slot::Word(self.plan.word(), a.dtype),
                Shape::Array(a) => {
                    let layout = layout_of(a.dtype, &a.dims, Form::Lanes, self.chip);
                    let kind = if far[i] { BufferKind::FarState } else { BufferKind::State };
                    let buf = self.plan.buffer(format!("{name}.{i}"), layout.clone(), kind);
                    Slot::Array(View { buf, dims: a.dims.clone(), form: Form::Lanes, layout })
                }
                Shape::Token | Shape::Tuple(_) => Slot::Token,
            })
            .collect()
    }

    /// Which arrays of a state stay in HBM: the largest, until the others leave half of vector memory to what is done with
    /// them, or more where plans that keep much did not fit. Small ones never do. If any do, those do first, all of them, of which
    /// turns write parts that HBM takes as fast as vector memory does (`parts`): room is worth more to what is done in a turn.
    fn far(&mut self, bytes: &[u64], parts: &[usize]) -> Vec<bool> {
        const SMALL: u64 = 64 << 10;
        let mut far = vec![false; bytes.len()];
        let mut order: Vec<usize> = (0..bytes.len()).filter(|&i| bytes[i] > SMALL).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(bytes[i]), i));
        let mut near: u64 = bytes.iter().sum();
        let room = (self.chip.vmem.bytes / 2).min(self.plan.residency.largest.saturating_mul(2));
        if self.state_bytes + near > room {
            for &i in parts.iter().filter(|i| bytes[**i] > SMALL) {
                far[i] = true;
                near -= bytes[i];
            }
            order.retain(|i| !far[*i]);
        }
        for i in order {
            if self.state_bytes + near <= room {
                break;
            }
            far[i] = true;
            near -= bytes[i];
        }
        self.state_bytes += near;
        far
    }

    /// Appends the copies of values into slots. All values are read before any slot is written where they could be each
    /// other's slots.
    fn store_slots(&mut self, slots: &[Slot], vals: &[Val], op: u32) {
        let mut words = Vec::new();
        let mut arrays = Vec::new();
        for (slot, val) in slots.iter().zip(vals) {
            match slot {
                Slot::Word(w, t) => {
                    let (from, _) = self.to_word(val, "state");
                    if from != *w {
                        words.push((*w, from, *t));
                    }
                }
                Slot::Array(v) => {
                    let from = self.to_lanes(val, "state");
                    if from.buf != v.buf {
                        arrays.push((from.buf, v.buf));
                    }
                }
                Slot::Fixed(_) | Slot::Token => {}
            }
        }
        // A slot that is another value's source must be saved first.
        let saved: Vec<_> = words
            .iter()
            .map(|&(to, from, t)| {
                let clash = words.iter().any(|w| w.0 == from);
                (to, if clash { self.scalar(ScalarOp::Copy(from), t) } else { from }, t)
            })
            .collect();
        for (to, from, t) in saved {
            self.steps.push(Step::Scalar { dst: to, value: ScalarOp::Copy(from), dtype: t });
        }
        // First what goes to slots that no other one takes from; where they go round, one is saved.
        while !arrays.is_empty() {
            let free = arrays.iter().position(|&(_, to)| arrays.iter().all(|a| a.0 != to));
            if let Some(i) = free {
                let (src, dst) = arrays.remove(i);
                self.steps.push(Step::Copy { src, dst, op });
                continue;
            }
            let (_, slot) = arrays[0];
            let layout = self.plan.buffers[slot.index()].layout.clone();
            let temp = self.plan.buffer("state", layout, BufferKind::Temp);
            self.steps.push(Step::Copy { src: slot, dst: temp, op });
            arrays.iter_mut().filter(|a| a.0 == slot).for_each(|a| a.0 = temp);
        }
    }

    /// Lowers a computation into steps of its own.
    fn inner(&mut self, comp: CompId, params: &[Val]) -> Result<(Vec<Step>, Val), CompileError> {
        let outer = std::mem::take(&mut self.steps);
        let val = self.region(comp, params);
        let steps = std::mem::replace(&mut self.steps, outer);
        Ok((steps, val?))
    }

    /// A loop or a branch.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the operations of one family; no other comes here")]
    pub fn control(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        match &r.comp.node(id).op {
            Op::While { condition, body } => self.lower_while(r, id, *condition, *body),
            Op::Conditional { branches } => self.lower_conditional(r, id, branches),
            _ => Err(self.no_lowering(r.comp, id)),
        }
    }

    fn lower_while(
        &mut self,
        r: &mut Region<'a>,
        id: NodeId,
        condition: CompId,
        body: CompId,
    ) -> Result<Val, CompileError> {
        if let Some(done) = self.recurrence(r, id, body) {
            return Ok(done);
        }
        let node = r.comp.node(id);
        let op = self.debug_op(r, id, 0.0);
        let init = self.loop_init(r, id);
        let words = self.loop_words(body, &node.shape, &init);
        let outside = self.state_bytes;
        let fixed = self.fixed(body, &init);
        let shared = self.shared_loop(r, id, body).filter(|s| words[s.found.counter]);
        let mut far = shared.iter().flat_map(|s| s.made.iter().copied()).collect::<Vec<usize>>();
        far.extend(self.streamed_states(body));
        let parts = self.states_in_parts(body);
        let slots = self.slots(&node.shape, &words, &fixed, (&far, &parts, &node.name));
        self.store_slots(&slots, &init, op);
        let whole = matches!(node.shape, Shape::Tuple(_));
        let state: Vec<Val> = slots.iter().map(Slot::val).collect();
        let state = if whole { Val::Tuple(state) } else { state[0].clone() };
        // Devices leave a loop together whose number of rounds is a constant.
        let trips = counted_loop(self.module, r.comp, id).and_then(|l| l.trips);
        let before = trips.is_none().then(|| self.plan.pod.enter());
        let turns = self.turns;
        self.turns = turns.saturating_mul(trips.unwrap_or(1));
        let shared = shared.and_then(|s| Some(self.begin_shared(&s, slots[s.found.counter].word()?)));
        let (mut head, cond) = self.inner(condition, std::slice::from_ref(&state))?;
        let outer = std::mem::replace(&mut self.steps, head);
        let (mut cond, _) = self.to_word(&cond, "condition");
        head = std::mem::replace(&mut self.steps, outer);
        // Each core does its iterations as if it were alone.
        let cores = self.plan.cores;
        if let Some(s) = &shared {
            (head, cond) = (self.shared_head(s), s.condition());
            self.plan.cores = 1;
        }
        let (body, result) = self.inner(body, std::slice::from_ref(&state))?;
        if let Some(before) = before {
            self.plan.pod.leave(before);
        }
        let outer = std::mem::replace(&mut self.steps, body);
        self.store_slots(&slots, &flat(&result), op);
        if let Some(s) = &shared {
            self.shared_next(s);
        }
        self.plan.cores = cores;
        let body = std::mem::replace(&mut self.steps, outer);
        self.state_bytes = outside;
        self.turns = turns;
        let turns = shared.as_ref().map(|s| s.each()).or(trips);
        self.steps.push(Step::While { head, cond, body, turns, shared: shared.is_some(), op });
        if let Some(s) = &shared {
            self.end_shared(s);
        }
        Ok(state)
    }

    /// The arrays of a state whose next value is streamed: they would come in and go out again every time round.
    fn streamed_states(&self, body: CompId) -> Vec<usize> {
        let comp = self.module.computation(body);
        let root = comp.node(comp.root);
        let streamed = |id: &NodeId| {
            let node = comp.node(*id);
            let bytes = |a: &ArrayShape| layout_of(a.dtype, &a.dims, Form::Lanes, self.chip).bytes();
            let large = node.shape.as_array().is_some_and(|a| bytes(a) > self.plan.residency.largest);
            self.plan.residency.streamed.contains(&node.name) || large && node.op == Op::DynamicUpdateSlice
        };
        let numbered = root.operands.iter().enumerate().filter(|_| root.op == Op::Tuple);
        numbered.filter(|(_, o)| streamed(o)).map(|(i, _)| i).collect()
    }

    /// The arrays of a state of which each turn writes a part that a loop in it made, and so large that this takes its time and not
    /// only HBM's latency: the inner loop wants room for the parts.
    fn states_in_parts(&self, body: CompId) -> Vec<usize> {
        let comp = self.module.computation(body);
        let root = comp.node(comp.root);
        let least = self.chip.hbm_latency_cycles() as f64 * self.chip.hbm_bytes_per_cycle();
        let written = |id: &NodeId| {
            let node = comp.node(*id);
            let part = (node.op == Op::DynamicUpdateSlice).then(|| comp.node(node.operands[1]))?;
            let made = matches!(part.op, Op::GetTupleElement { .. })
                && matches!(comp.node(part.operands[0]).op, Op::While { .. });
            let a = part.shape.as_array().filter(|_| made)?;
            Some(layout_of(a.dtype, &a.dims, Form::Lanes, self.chip).bytes() as f64)
        };
        let numbered = root.operands.iter().enumerate().filter(|_| root.op == Op::Tuple);
        numbered.filter(|(_, o)| written(o).is_some_and(|b| b >= least)).map(|(i, _)| i).collect()
    }

    /// The state that a loop begins with; what it does not see of that is nothing.
    fn loop_init(&mut self, r: &mut Region<'a>, id: NodeId) -> Vec<Val> {
        let mut init = flat(&self.value(r, r.comp.node(id).operands[0]));
        for (val, unseen) in init.iter_mut().zip(unseen::elements(self.module, r.comp, id)) {
            if let (Val::Array(v), true) = (&*val, unseen) {
                let (name, dtype) = (self.plan.buffers[v.buf.index()].name.clone(), v.dtype());
                *val = Val::Array(self.array(&name, dtype, &v.dims.clone(), Form::Lanes));
            }
        }
        init
    }

    /// Which state elements of a loop are scalars from beginning to end.
    fn loop_words(&self, body: CompId, shape: &Shape, init: &[Val]) -> Vec<bool> {
        let leaves = shapes(shape);
        let mut words: Vec<bool> = leaves
            .iter()
            .zip(init)
            .map(|(s, v)| {
                matches!(s, Shape::Array(a) if a.dims.is_empty() && is_scalar_type(a.dtype))
                    && matches!(v, Val::Word(..))
            })
            .collect();
        // A state element stays scalar if the body makes it a scalar, given that the others do.
        while self.demote(body, shape, &mut words) {}
        words
    }

    /// The arrays of a state that the body hands on as they came.
    fn fixed(&self, body: CompId, init: &[Val]) -> Vec<Option<Val>> {
        let module: &'a systole_hlo::graph::Module = self.module;
        let comp = module.computation(body);
        let root = comp.node(comp.root);
        let kept = |i: usize| {
            let element = comp.node(*root.operands.get(i)?);
            let own = matches!(element.op, Op::GetTupleElement { index } if index == i)
                && matches!(comp.node(element.operands[0]).op, Op::Parameter { .. });
            (own && matches!(init[i], Val::Array(_))).then(|| init[i].clone())
        };
        let whole = matches!(root.op, Op::Tuple);
        (0..init.len()).map(|i| if whole { kept(i) } else { None }).collect()
    }

    /// Clears `words` for elements that the body does not make as scalars; whether any was cleared.
    fn demote(&self, body: CompId, shape: &Shape, words: &mut [bool]) -> bool {
        let module: &'a systole_hlo::graph::Module = self.module;
        let comp = module.computation(body);
        let leaves = shapes(shape);
        let params: Vec<Val> = leaves
            .iter()
            .zip(words.iter())
            .map(|(s, w)| match s {
                Shape::Array(a) if *w => Val::Word(Word(0), a.dtype),
                Shape::Array(_) | Shape::Tuple(_) | Shape::Token => Val::Token,
            })
            .collect();
        let param = if matches!(shape, Shape::Tuple(_)) { Val::Tuple(params) } else { params[0].clone() };
        let is_word = matches!(param, Val::Word(..));
        let scalars = super::scalar::scalar_nodes(comp, &|_| is_word, &[param]);
        let root = comp.node(comp.root);
        let results: Vec<NodeId> =
            if matches!(root.op, systole_hlo::graph::Op::Tuple) { root.operands.clone() } else { vec![comp.root] };
        let mut changed = false;
        for (w, r) in words.iter_mut().zip(results) {
            if *w && !scalars[r.index()] {
                *w = false;
                changed = true;
            }
        }
        changed
    }

    fn lower_conditional(&mut self, r: &mut Region<'a>, id: NodeId, branches: &[CompId]) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let op = self.debug_op(r, id, 0.0);
        let selector = self.value(r, node.operands[0]);
        let (mut index, t) = self.to_word(&selector, &node.name);
        if t == DType::Pred {
            // True takes the first branch.
            let one = self.scalar(ScalarOp::Const(1), DType::S32);
            index = self.scalar(ScalarOp::Binary(systole_hlo::graph::Binary::Sub, one, index), DType::S32);
        }
        let count = shapes(&node.shape).len();
        let outside = self.state_bytes;
        let slots = self.slots(&node.shape, &vec![false; count], &vec![None; count], (&[], &[], &node.name));
        let mut lowered = Vec::new();
        for (i, &b) in branches.iter().enumerate() {
            let arg = self.value(r, node.operands[i + 1]);
            let before = self.plan.pod.enter();
            let (steps, val) = self.inner(b, &[arg])?;
            self.plan.pod.leave(before);
            let outer = std::mem::replace(&mut self.steps, steps);
            self.store_slots(&slots, &flat(&val), op);
            lowered.push(std::mem::replace(&mut self.steps, outer));
        }
        self.state_bytes = outside;
        self.steps.push(Step::Switch { index, branches: lowered, op });
        let vals: Vec<Val> = slots.iter().map(Slot::val).collect();
        Ok(if matches!(node.shape, Shape::Tuple(_)) { Val::Tuple(vals) } else { vals[0].clone() })
    }
}
