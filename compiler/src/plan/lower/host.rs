//! What the host does for the program: custom calls, infeed, outfeed.
//!
//! Operands reach the host, and results come from it, as arrays in HBM with their last dimension along lanes. Calls
//! happen in the order of the program's text (tokens are gone by now).

use super::{Lower, Region, Val};
use crate::plan::step::{HostStep, Step};
use crate::plan::view::{Form, View};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{NodeId, Op, Shape};
use systole_isa::program::HostCallKind;

impl<'a> Lower<'a> {
    /// A step that calls the host.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the operations of one family; no other comes here")]
    pub fn host_call(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        if super::mosaic::is_kernel(&node.op) {
            return self.kernel_call(r, id);
        }
        let (kind, target, config) = match &node.op {
            Op::CustomCall { target, config, .. } => (HostCallKind::Custom, target.clone(), config.clone()),
            Op::Infeed { config } => (HostCallKind::Infeed, String::new(), config.clone()),
            Op::Outfeed { config, .. } => (HostCallKind::Outfeed, String::new(), config.clone()),
            _ => return Err(self.no_lowering(r.comp, id)),
        };
        let mut operands = Vec::new();
        for &o in &node.operands {
            let v = self.lanes(r, o);
            let given = r.comp.node(o);
            let dims = given.shape.as_array().map_or_else(|| v.dims.clone(), |a| a.dims.clone());
            let v = self.relaid_any(&v, &dims, &given.name);
            operands.push((v.buf, v.layout));
        }
        let mut views: Vec<View> = Vec::new();
        for a in node.shape.leaves() {
            views.push(self.array(&node.name, a.dtype, &a.dims, Form::Lanes));
        }
        let op = self.debug_op(r, id, 0.0);
        let results = views.iter().map(|v| (v.buf, v.layout.clone())).collect();
        let call = HostStep { kind, target, config };
        self.steps.push(Step::Host { call, operands, results, op });
        let mut values = views.into_iter().map(Val::Array);
        Ok(match (&node.shape, values.len()) {
            (Shape::Array(_), 1) => values.next().unwrap_or(Val::Token),
            (Shape::Tuple(_), _) => Val::Tuple(values.collect()),
            (Shape::Array(_) | Shape::Token, _) => Val::Token,
        })
    }
}
