//! The core operations: what code generation knows, and the proof that a module has no others.

use systole_hlo::error::CompileError;
use systole_hlo::graph::{Module, Op};

/// Proves that a module consists of core operations in canonical form.
pub fn check(module: &Module) -> Result<(), CompileError> {
    for c in &module.computations {
        for n in &c.nodes {
            if !is_core(&n.op) {
                return Err(CompileError::unsupported(
                    n.span,
                    format!("{} of {} has no lowering for the chip yet", n.op.name(), n.name),
                ));
            }
        }
    }
    Ok(())
}

/// Whether code generation knows an operation.
pub fn is_core(op: &Op) -> bool {
    match op {
        Op::Parameter { .. }
        | Op::Constant(_)
        | Op::Iota { .. }
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare { .. }
        | Op::Select
        | Op::Convert
        | Op::BitcastConvert
        | Op::ReducePrecision { .. }
        | Op::Broadcast { .. }
        | Op::Reshape
        | Op::Copy
        | Op::Transpose { .. }
        | Op::Reverse { .. }
        | Op::Slice { .. }
        | Op::Concatenate { .. }
        | Op::Pad { .. }
        | Op::DynamicSlice { .. }
        | Op::DynamicUpdateSlice
        | Op::Gather(_)
        | Op::Scatter(_)
        | Op::Dot { .. }
        | Op::Convolution(_)
        | Op::Reduce { .. }
        | Op::ReduceWindow { .. }
        | Op::Sort { .. }
        // Of diagonal blocks.
        | Op::Cholesky { .. }
        | Op::TriangularSolve { .. }
        | Op::Tuple
        | Op::GetTupleElement { .. }
        | Op::While { .. }
        | Op::Conditional { .. }
        | Op::CustomCall { .. }
        | Op::Collective { .. }
        | Op::ReplicaId
        | Op::PartitionId
        | Op::Send { .. }
        | Op::SendDone { .. }
        | Op::Recv { .. }
        | Op::RecvDone { .. }
        | Op::Infeed { .. }
        | Op::Outfeed { .. } => true,
        Op::Clamp
        | Op::StochasticConvert
        | Op::Map { .. }
        | Op::DynamicReshape
        | Op::Bitcast
        | Op::RaggedDot { .. }
        | Op::ScaledDot { .. }
        | Op::Scan { .. }
        | Op::SelectAndScatter { .. }
        | Op::BatchNormTraining { .. }
        | Op::BatchNormInference { .. }
        | Op::BatchNormGrad { .. }
        | Op::TopK { .. }
        | Op::Fft { .. }
        | Op::Rng { .. }
        | Op::RngBitGenerator { .. }
        | Op::RngGetAndUpdateState { .. }
        | Op::GetDimensionSize { .. }
        | Op::SetDimensionSize { .. }
        | Op::OptBarrier
        | Op::AfterAll
        | Op::AddDependency
        | Op::Domain
        | Op::Call { .. }
        | Op::Fusion { .. }
        | Op::AsyncStart { .. }
        | Op::AsyncUpdate
        | Op::AsyncDone
        | Op::CopyStart
        | Op::CopyDone => false,
    }
}
