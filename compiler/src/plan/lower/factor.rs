//! Diagonal blocks of factorisations: kernels on whole matrices in vector memory.

use super::{Lower, Region, Val};
use crate::plan::spec::KernelSpec;
use crate::plan::step::{Arg, Step, Use};
use crate::plan::view::{Form, View};
use systole_codegen::emit::factor::{FactorSpec, SolveSpec};
use systole_codegen::kernel::Needs;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{NodeId, Op};
use systole_isa::DType;

impl<'a> Lower<'a> {
    /// `cholesky` and `triangular-solve` of f32 blocks: of whole registers' rows, as wide as the lanes at most.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the operations of one family; no other comes here")]
    pub fn factor(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let shape = node.shape.as_array().expect("factors are arrays").clone();
        let mut operands = Vec::new();
        for &o in &node.operands {
            let v = self.lanes(r, o);
            operands.push(self.stacked(&v, &node.name));
        }
        let [batch, rows, columns] = shape.dims[..] else { return Err(self.no_lowering(r.comp, id)) };
        let (sub, lanes) = (u64::from(self.chip.core.sublanes), u64::from(self.chip.core.lanes));
        if shape.dtype != DType::F32 || !rows.is_multiple_of(sub) || rows.max(columns) > lanes {
            return Err(self.no_lowering(r.comp, id));
        }
        let matrices = FactorSpec { batch: batch as u32, rows: rows as u32 };
        let out = self.array(&node.name, shape.dtype, &[batch * rows, columns], Form::Lanes);
        let (spec, name) = match node.op {
            Op::Cholesky { .. } => (KernelSpec::Cholesky(matrices), "cholesky"),
            Op::TriangularSolve { lower, .. } => (KernelSpec::Solve(SolveSpec { matrices, lower }), "triangular-solve"),
            _ => return Err(self.no_lowering(r.comp, id)),
        };
        let kernel = self.plan.simple_kernel(spec, name, Needs::default());
        let op = self.debug_op(r, id, 0.0);
        let mut args: Vec<Arg> = operands.iter().map(|v| Arg::rows(v.buf, Use::Read)).collect();
        args.push(Arg::rows(out.buf, Use::Write));
        self.steps.push(Step::Call { kernel, args, op });
        Ok(Val::Array(self.relaid(&out, &shape.dims, &node.name)))
    }

    /// A stack of matrices as one matrix of all their rows.
    fn stacked(&mut self, v: &View, name: &str) -> View {
        let [batch, rows, columns] = v.dims[..] else { return v.clone() };
        self.relaid(v, &[batch * rows, columns], name)
    }
}
