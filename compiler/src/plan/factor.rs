//! Diagonal blocks of factorisations: kernels on whole matrices in vector memory.

use super::lower::{Lower, Region, Val};
use super::step::{Arg, KernelEntry, KernelKey, Step, Use};
use super::view::{Form, View};
use systole_codegen::emit::factor::{FactorSpec, SolveSpec, cholesky_kernel, solve_kernel};
use systole_codegen::kernel::Kernel;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{NodeId, Op};
use systole_isa::DType;

impl<'a> Lower<'a> {
    /// `cholesky` and `triangular-solve` of f32 blocks: of whole registers' rows, as wide as the lanes at most.
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
        let chip = self.chip;
        let kernel = match node.op {
            Op::Cholesky { .. } => {
                self.factor_kernel(format!("cholesky {matrices:?}"), || cholesky_kernel(&matrices, chip))
            }
            Op::TriangularSolve { lower, .. } => {
                let spec = SolveSpec { matrices, lower };
                self.factor_kernel(format!("{spec:?}"), || solve_kernel(&spec, chip))
            }
            _ => return Err(self.no_lowering(r.comp, id)),
        };
        let op = self.debug_op(r.comp, id, 0.0);
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

    fn factor_kernel(&mut self, key: String, make: impl FnOnce() -> Kernel) -> usize {
        let made: Result<usize, std::convert::Infallible> = self.plan.kernel(KernelKey::Other(key), |_| {
            let kernel = make();
            let name = kernel.name.clone();
            Ok(KernelEntry { kernel, scratch_rows: 0, descs: Vec::new(), semaphores: 0, name })
        });
        let Ok(kernel) = made;
        kernel
    }
}
