//! Names of operations in HLO text.

use super::{CollectiveKind, Direction, FftKind, Op, Precision, RngAlgorithm, RngDistribution, TriangularTranspose};

/// Comparison directions by name.
pub const DIRECTIONS: [(&str, Direction); 6] = [
    ("EQ", Direction::Eq),
    ("NE", Direction::Ne),
    ("GE", Direction::Ge),
    ("GT", Direction::Gt),
    ("LE", Direction::Le),
    ("LT", Direction::Lt),
];

pub const PRECISIONS: [(&str, Precision); 3] =
    [("default", Precision::Default), ("high", Precision::High), ("highest", Precision::Highest)];

pub const FFT_KINDS: [(&str, FftKind); 4] =
    [("FFT", FftKind::Fft), ("IFFT", FftKind::Ifft), ("RFFT", FftKind::Rfft), ("IRFFT", FftKind::Irfft)];

pub const TRANSPOSES: [(&str, TriangularTranspose); 3] = [
    ("NO_TRANSPOSE", TriangularTranspose::No),
    ("TRANSPOSE", TriangularTranspose::Transpose),
    ("ADJOINT", TriangularTranspose::Adjoint),
];

pub const DISTRIBUTIONS: [(&str, RngDistribution); 2] =
    [("rng_uniform", RngDistribution::Uniform), ("rng_normal", RngDistribution::Normal)];

pub const ALGORITHMS: [(&str, RngAlgorithm); 3] = [
    ("rng_default", RngAlgorithm::Default),
    ("rng_three_fry", RngAlgorithm::ThreeFry),
    ("rng_philox", RngAlgorithm::Philox),
];

/// The name of a value in one of the tables above.
pub fn name_in<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, v)| v == value).map_or("?", |(n, _)| n)
}

impl Op {
    /// The opcode in HLO text.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Parameter { .. } => "parameter",
            Op::Constant(_) => "constant",
            Op::Iota { .. } => "iota",
            Op::Unary(u) => u.name(),
            Op::Binary(b) => b.name(),
            Op::Compare { .. } => "compare",
            Op::Select => "select",
            Op::Clamp => "clamp",
            Op::Convert => "convert",
            Op::BitcastConvert => "bitcast-convert",
            Op::ReducePrecision { .. } => "reduce-precision",
            Op::StochasticConvert => "stochastic-convert",
            Op::Map { .. } => "map",
            Op::Broadcast { .. } => "broadcast",
            Op::Reshape => "reshape",
            Op::DynamicReshape => "dynamic-reshape",
            Op::Copy => "copy",
            Op::Bitcast => "bitcast",
            Op::Transpose { .. } => "transpose",
            Op::Reverse { .. } => "reverse",
            Op::Slice { .. } => "slice",
            Op::Concatenate { .. } => "concatenate",
            Op::Pad { .. } => "pad",
            Op::DynamicSlice { .. } => "dynamic-slice",
            Op::DynamicUpdateSlice => "dynamic-update-slice",
            Op::Gather(_) => "gather",
            Op::Scatter(_) => "scatter",
            Op::Dot { .. } => "dot",
            Op::RaggedDot { .. } => "ragged-dot",
            Op::ScaledDot { .. } => "scaled-dot",
            Op::Convolution(_) => "convolution",
            Op::Reduce { .. } => "reduce",
            Op::Scan { .. } => "scan",
            Op::ReduceWindow { .. } => "reduce-window",
            Op::SelectAndScatter { .. } => "select-and-scatter",
            Op::BatchNormTraining { .. } => "batch-norm-training",
            Op::BatchNormInference { .. } => "batch-norm-inference",
            Op::BatchNormGrad { .. } => "batch-norm-grad",
            Op::Sort { .. } => "sort",
            Op::TopK { .. } => "topk",
            Op::Cholesky { .. } => "cholesky",
            Op::TriangularSolve { .. } => "triangular-solve",
            Op::Fft { .. } => "fft",
            Op::Rng { .. } => "rng",
            Op::RngBitGenerator { .. } => "rng-bit-generator",
            Op::RngGetAndUpdateState { .. } => "rng-get-and-update-state",
            Op::GetDimensionSize { .. } => "get-dimension-size",
            Op::SetDimensionSize { .. } => "set-dimension-size",
            Op::Tuple => "tuple",
            Op::GetTupleElement { .. } => "get-tuple-element",
            Op::OptBarrier => "opt-barrier",
            Op::AfterAll => "after-all",
            Op::AddDependency => "add-dependency",
            Op::Domain => "domain",
            Op::Call { .. } => "call",
            Op::Fusion { .. } => "fusion",
            Op::While { .. } => "while",
            Op::Conditional { .. } => "conditional",
            Op::CustomCall { .. } => "custom-call",
            Op::Collective { kind, .. } => kind.name(),
            Op::ReplicaId => "replica-id",
            Op::PartitionId => "partition-id",
            Op::Send { .. } => "send",
            Op::SendDone { .. } => "send-done",
            Op::Recv { .. } => "recv",
            Op::RecvDone { .. } => "recv-done",
            Op::Infeed { .. } => "infeed",
            Op::Outfeed { .. } => "outfeed",
            Op::AsyncStart { .. } => "async-start",
            Op::AsyncUpdate => "async-update",
            Op::AsyncDone => "async-done",
            Op::CopyStart => "copy-start",
            Op::CopyDone => "copy-done",
        }
    }

    /// The computations that the operation calls.
    pub fn called(&self) -> Vec<super::CompId> {
        let mut op = self.clone();
        let mut out = Vec::new();
        op.for_each_called(|c| out.push(*c));
        out
    }

    /// Gives each called computation to `f`, which may change it.
    pub fn for_each_called(&mut self, mut f: impl FnMut(&mut super::CompId)) {
        match self {
            Op::Map { body, .. }
            | Op::Reduce { body, .. }
            | Op::Scan { body, .. }
            | Op::ReduceWindow { body, .. }
            | Op::Sort { body, .. }
            | Op::Call { body }
            | Op::Fusion { body, .. }
            | Op::AsyncStart { body }
            | Op::Collective {
                kind:
                    CollectiveKind::AllReduce { body }
                    | CollectiveKind::ReduceScatter { body, .. }
                    | CollectiveKind::Reduce { body },
                ..
            } => f(body),
            Op::Scatter(s) => f(&mut s.body),
            Op::SelectAndScatter { select, scatter, .. } => {
                f(select);
                f(scatter);
            }
            Op::While { condition, body } => {
                f(condition);
                f(body);
            }
            Op::Conditional { branches: list } | Op::CustomCall { calls: list, .. } => list.iter_mut().for_each(f),
            Op::Parameter { .. }
            | Op::Constant(_)
            | Op::Iota { .. }
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare { .. }
            | Op::Select
            | Op::Clamp
            | Op::Convert
            | Op::BitcastConvert
            | Op::ReducePrecision { .. }
            | Op::StochasticConvert
            | Op::Broadcast { .. }
            | Op::Reshape
            | Op::DynamicReshape
            | Op::Copy
            | Op::Bitcast
            | Op::Transpose { .. }
            | Op::Reverse { .. }
            | Op::Slice { .. }
            | Op::Concatenate { .. }
            | Op::Pad { .. }
            | Op::DynamicSlice { .. }
            | Op::DynamicUpdateSlice
            | Op::Gather(_)
            | Op::Dot { .. }
            | Op::RaggedDot { .. }
            | Op::ScaledDot { .. }
            | Op::Convolution(_)
            | Op::BatchNormTraining { .. }
            | Op::BatchNormInference { .. }
            | Op::BatchNormGrad { .. }
            | Op::TopK { .. }
            | Op::Cholesky { .. }
            | Op::TriangularSolve { .. }
            | Op::Fft { .. }
            | Op::Rng { .. }
            | Op::RngBitGenerator { .. }
            | Op::RngGetAndUpdateState { .. }
            | Op::GetDimensionSize { .. }
            | Op::SetDimensionSize { .. }
            | Op::Tuple
            | Op::GetTupleElement { .. }
            | Op::OptBarrier
            | Op::AfterAll
            | Op::AddDependency
            | Op::Domain
            | Op::Collective {
                kind:
                    CollectiveKind::AllGather { .. }
                    | CollectiveKind::AllToAll { .. }
                    | CollectiveKind::Permute { .. }
                    | CollectiveKind::Broadcast
                    | CollectiveKind::RaggedAllToAll,
                ..
            }
            | Op::ReplicaId
            | Op::PartitionId
            | Op::Send { .. }
            | Op::SendDone { .. }
            | Op::Recv { .. }
            | Op::RecvDone { .. }
            | Op::Infeed { .. }
            | Op::Outfeed { .. }
            | Op::AsyncUpdate
            | Op::AsyncDone
            | Op::CopyStart
            | Op::CopyDone => {}
        }
    }
}

impl CollectiveKind {
    /// The opcode in HLO text.
    pub fn name(&self) -> &'static str {
        match self {
            CollectiveKind::AllReduce { .. } => "all-reduce",
            CollectiveKind::AllGather { .. } => "all-gather",
            CollectiveKind::ReduceScatter { .. } => "reduce-scatter",
            CollectiveKind::AllToAll { .. } => "all-to-all",
            CollectiveKind::Permute { .. } => "collective-permute",
            CollectiveKind::Broadcast => "collective-broadcast",
            CollectiveKind::RaggedAllToAll => "ragged-all-to-all",
            CollectiveKind::Reduce { .. } => "collective-reduce",
        }
    }
}
