//! `send` and `recv`: between devices, and with the host.
//!
//! A channel has a buffer at one place in the HBM of every device. `recv` tells the sender that the buffer is free, `send`
//! waits for that and copies to it, `send-done` waits until the data has left, `recv-done` until it has come, and takes it out
//! of the buffer. A `send` begins at the first operation after it that may wait, so that a `recv` in between is seen by the
//! other side first. Without pairs of devices, every device sends to itself.

use super::{Lower, Region, Val};
use crate::plan::collective::{Exchange, How, Stage};
use crate::plan::step::{HostStep, Step};
use crate::plan::view::{Form, View};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{ArrayShape, NodeId, Op, Shape};
use systole_isa::program::HostCallKind;

impl<'a> Lower<'a> {
    /// Begins the sends that have not begun.
    pub fn begin_sends(&mut self) {
        self.steps.append(&mut self.pending);
    }

    /// A transfer or its end.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the operations of one family; no other comes here")]
    pub fn transfer(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let comp = r.comp;
        let node = comp.node(id);
        match &node.op {
            Op::Send { host: true, .. } => {
                self.host_transfer(r, id, HostCallKind::Send)?;
                Ok(Val::Token)
            }
            Op::Send { .. } => {
                for (leaf, &o) in node.operands.iter().enumerate() {
                    let v = self.lanes(r, o);
                    let shape = comp.node(o).shape.as_array().cloned();
                    let shape = shape.ok_or_else(|| self.no_lowering(comp, id))?;
                    let v = self.relaid_any(&v, &shape.dims, &node.name);
                    let begin = self.stage(r, (id, id), (leaf, &shape), Stage::Send, Some(&v))?;
                    self.pending.push(begin);
                }
                Ok(Val::Token)
            }
            Op::Recv { host: true, .. } => Ok(Val::Token),
            // What comes is known where the transfer ends.
            Op::Recv { .. } => {
                let ends = comp.ids().filter(|&e| comp.node(e).operands.first() == Some(&id));
                for e in ends.collect::<Vec<_>>() {
                    for (leaf, a) in comp.node(e).shape.leaves().into_iter().enumerate() {
                        let free = self.stage(r, (id, id), (leaf, a), Stage::Recv, None)?;
                        self.steps.push(free);
                    }
                }
                Ok(Val::Token)
            }
            Op::SendDone { host: true, .. } => Ok(Val::Token),
            Op::SendDone { .. } => {
                self.begin_sends();
                let start = node.operands[0];
                for (leaf, &o) in comp.node(start).operands.iter().enumerate() {
                    let Some(shape) = comp.node(o).shape.as_array().cloned() else { continue };
                    let done = self.stage(r, (start, id), (leaf, &shape), Stage::SendDone, None)?;
                    self.steps.push(done);
                }
                Ok(Val::Token)
            }
            Op::RecvDone { host: true, .. } => {
                self.begin_sends();
                self.host_transfer(r, id, HostCallKind::Recv)
            }
            Op::RecvDone { .. } => {
                self.begin_sends();
                let mut values = Vec::new();
                for (leaf, a) in node.shape.leaves().into_iter().enumerate() {
                    let out = self.array(&node.name, a.dtype, &a.dims, Form::Lanes);
                    let done = self.stage(r, (node.operands[0], id), (leaf, a), Stage::RecvDone, Some(&out))?;
                    self.steps.push(done);
                    values.push(Val::Array(out));
                }
                Ok(Val::Tuple(values))
            }
            _ => Err(self.no_lowering(comp, id)),
        }
    }

    /// A stage of the transfer that `start` begins, at node `at`.
    fn stage(
        &mut self,
        r: &Region<'a>,
        (start, at): (NodeId, NodeId),
        (leaf, shape): (usize, &ArrayShape),
        stage: Stage,
        data: Option<&View>,
    ) -> Result<Step, CompileError> {
        let node = r.comp.node(start);
        let (Op::Send { channel, pairs, .. } | Op::Recv { channel, pairs, .. }) = &node.op else {
            return Err(self.no_lowering(r.comp, at));
        };
        let key = (channel.unwrap_or(0), leaf);
        let buffer = match self.plan.channels.get(&key) {
            Some(v) => v.clone(),
            None => {
                let name = format!("channel {}", key.0);
                let v = self.array(&name, shape.dtype, &shape.dims, Form::Lanes);
                self.plan.channels.insert(key, v.clone());
                v
            }
        };
        if buffer.dims != shape.dims || buffer.dtype() != shape.dtype {
            let message = format!("channel {} carries arrays of two shapes: {shape} at `{}`", key.0, node.name);
            return Err(CompileError::unsupported(node.span, message));
        }
        let how = self
            .transfer_plan((&r.comp.node(at).name, key.0, key.1), pairs.as_deref(), stage, buffer.layout.bytes())
            .map_err(|why| CompileError::unsupported(node.span, format!("{}: {why}", node.name)))??;
        let op = self.debug_op(r, at, 0.0);
        let other = data.map_or(buffer.buf, |v| v.buf);
        let (src, dst) = if stage == Stage::RecvDone { (buffer.buf, other) } else { (other, buffer.buf) };
        Ok(Step::Exchange(Box::new(Exchange::alone(src, dst, Vec::new(), How::Transfer(how), op))))
    }

    fn host_transfer(&mut self, r: &mut Region<'a>, id: NodeId, kind: HostCallKind) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let (Op::Send { channel, .. } | Op::RecvDone { channel, .. }) = &node.op else {
            return Err(self.no_lowering(r.comp, id));
        };
        let mut operands = Vec::new();
        let given = if kind == HostCallKind::Send { &node.operands[..] } else { &[] };
        for &o in given {
            let v = self.lanes(r, o);
            let dims = r.comp.node(o).shape.as_array().map_or_else(|| v.dims.clone(), |a| a.dims.clone());
            let v = self.relaid_any(&v, &dims, &node.name);
            operands.push((v.buf, v.layout));
        }
        let leaves = match &node.shape {
            Shape::Token => Vec::new(),
            s @ (Shape::Array(_) | Shape::Tuple(_)) => s.leaves(),
        };
        let views: Vec<View> =
            leaves.into_iter().map(|a| self.array(&node.name, a.dtype, &a.dims, Form::Lanes)).collect();
        let op = self.debug_op(r, id, 0.0);
        let results = views.iter().map(|v| (v.buf, v.layout.clone())).collect();
        let call = HostStep { kind, target: channel.unwrap_or(0).to_string(), config: String::new() };
        self.steps.push(Step::Host { call, operands, results, op });
        Ok(Val::Tuple(views.into_iter().map(Val::Array).collect()))
    }
}
