//! The table of operations: of each variant of [`Op`] its name in HLO text, who lowers it, what it does besides its result,
//! and the computations that it calls. A variant without a row does not compile.
//!
//! Names of elementwise operations are in tables of their own (`elementwise.rs`), those of collectives below.

use super::{CollectiveKind, CompId, Op};

/// Who makes code of an operation: of core operations planning, by rules for each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Names a value, puts values together or takes one apart; no code.
    Value,
    /// Each element of the result follows from the operands' elements at its place, or from the place alone.
    Pointwise,
    /// Elements at other places, none computed.
    Move,
    /// Reductions over dimensions and windows.
    Reduce,
    /// Products and convolutions.
    Contraction,
    /// Rows or elements at places that data says.
    Indexed,
    Sort,
    /// Diagonal blocks of factorisations and of triangular systems.
    Factor,
    /// Loops and branches.
    Control,
    /// What the host does.
    Host,
    /// Exchanges of groups of devices.
    Exchange,
    /// From one device to another.
    Transfer,
    /// The device's own number.
    Device,
    /// No core operation: a pass puts others in its place.
    Expanded,
}

/// What an operation does besides its result, the computations that it calls aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The result follows from the operands and nothing else happens.
    Pure,
    /// The result depends on more than the operands, or the operation keeps others in order; nothing outside changes.
    Bound,
    /// Something outside changes: a node stays even if nothing uses it, and stands for itself alone.
    Outside,
}

/// Makes [`Op`]'s table. `plain` operations have no attributes. The columns: name in HLO text, family, effect, and an
/// iterator over the `&mut CompId` that the attributes hold. Rows in `derived` say name and effect by expressions over them.
macro_rules! operations {
    (
        plain { $($plain:ident => $plain_name:literal, $plain_family:ident, $plain_effect:ident;)* }
        attributed { $($p:pat => $name:literal, $family:ident, $effect:ident, $calls:expr;)* }
        derived { $($d:pat => $d_name:expr, $d_family:ident, $d_effect:expr, $d_calls:expr;)* }
    ) => {
        /// Matches the operations without attributes.
        macro_rules! plain {
            () => { $(Op::$plain)|* };
        }
        pub(crate) use plain;

        #[allow(unused_variables, reason = "each column uses the attributes it needs")]
        impl Op {
            /// The operations without attributes.
            pub const PLAIN: &[Op] = &[$(Op::$plain),*];

            /// The names of all operations in HLO text but custom calls, elementwise operations of one and two operands, and
            /// collectives.
            pub const NAMES: &[&str] = &[$($plain_name,)* $($name),*];

            /// The opcode in HLO text.
            pub fn name(&self) -> &'static str {
                use Op::*;
                match self {
                    $(Op::$plain => $plain_name,)*
                    $($p => $name,)*
                    $($d => $d_name,)*
                }
            }

            /// Who makes code of it.
            pub fn family(&self) -> Family {
                use Op::*;
                match self {
                    $(Op::$plain => Family::$plain_family,)*
                    $($p => Family::$family,)*
                    $($d => Family::$d_family,)*
                }
            }

            /// What it does besides its result, the computations that it calls aside.
            pub fn effect(&self) -> Effect {
                use Op::*;
                match self {
                    $(Op::$plain => Effect::$plain_effect,)*
                    $($p => Effect::$effect,)*
                    $($d => $d_effect,)*
                }
            }

            /// Gives each called computation to `f`, which may change it.
            pub fn for_each_called(&mut self, f: impl FnMut(&mut CompId)) {
                use Op::*;
                match self {
                    $(Op::$plain => {})*
                    $($p => IntoIterator::into_iter($calls).for_each(f),)*
                    $($d => IntoIterator::into_iter($d_calls).for_each(f),)*
                }
            }
        }
    };
}

operations! {
    plain {
        Select => "select", Pointwise, Pure;
        Clamp => "clamp", Expanded, Pure;
        Convert => "convert", Pointwise, Pure;
        BitcastConvert => "bitcast-convert", Pointwise, Pure;
        StochasticConvert => "stochastic-convert", Expanded, Pure;
        Reshape => "reshape", Move, Pure;
        DynamicReshape => "dynamic-reshape", Expanded, Pure;
        Copy => "copy", Move, Pure;
        Bitcast => "bitcast", Expanded, Pure;
        DynamicUpdateSlice => "dynamic-update-slice", Move, Pure;
        Tuple => "tuple", Value, Pure;
        OptBarrier => "opt-barrier", Expanded, Bound;
        AfterAll => "after-all", Expanded, Bound;
        AddDependency => "add-dependency", Expanded, Bound;
        Domain => "domain", Expanded, Bound;
        ReplicaId => "replica-id", Device, Bound;
        PartitionId => "partition-id", Device, Bound;
        AsyncUpdate => "async-update", Expanded, Bound;
        AsyncDone => "async-done", Expanded, Bound;
        CopyStart => "copy-start", Expanded, Bound;
        CopyDone => "copy-done", Expanded, Bound;
    }
    attributed {
        Parameter { .. } => "parameter", Value, Pure, [];
        Constant(_) => "constant", Value, Pure, [];
        Iota { .. } => "iota", Pointwise, Pure, [];
        Compare { .. } => "compare", Pointwise, Pure, [];
        ReducePrecision { .. } => "reduce-precision", Pointwise, Pure, [];
        Map { body, .. } => "map", Expanded, Pure, [body];
        Broadcast { .. } => "broadcast", Move, Pure, [];
        Transpose { .. } => "transpose", Move, Pure, [];
        Reverse { .. } => "reverse", Move, Pure, [];
        Slice { .. } => "slice", Move, Pure, [];
        Concatenate { .. } => "concatenate", Move, Pure, [];
        Pad { .. } => "pad", Move, Pure, [];
        DynamicSlice { .. } => "dynamic-slice", Move, Pure, [];
        Gather(_) => "gather", Indexed, Pure, [];
        Scatter(s) => "scatter", Indexed, Pure, [&mut s.body];
        Dot { .. } => "dot", Contraction, Pure, [];
        RaggedDot { .. } => "ragged-dot", Expanded, Pure, [];
        ScaledDot { .. } => "scaled-dot", Expanded, Pure, [];
        Convolution(_) => "convolution", Contraction, Pure, [];
        Reduce { body, .. } => "reduce", Reduce, Pure, [body];
        Scan { body, .. } => "scan", Expanded, Pure, [body];
        ReduceWindow { body, .. } => "reduce-window", Reduce, Pure, [body];
        SelectAndScatter { select, scatter, .. } => "select-and-scatter", Expanded, Pure, [select, scatter];
        BatchNormTraining { .. } => "batch-norm-training", Expanded, Pure, [];
        BatchNormInference { .. } => "batch-norm-inference", Expanded, Pure, [];
        BatchNormGrad { .. } => "batch-norm-grad", Expanded, Pure, [];
        Sort { body, .. } => "sort", Sort, Pure, [body];
        TopK { .. } => "topk", Expanded, Pure, [];
        Cholesky { .. } => "cholesky", Factor, Pure, [];
        TriangularSolve { .. } => "triangular-solve", Factor, Pure, [];
        Fft { .. } => "fft", Expanded, Pure, [];
        Rng { .. } => "rng", Expanded, Bound, [];
        RngBitGenerator { .. } => "rng-bit-generator", Expanded, Pure, [];
        RngGetAndUpdateState { .. } => "rng-get-and-update-state", Expanded, Outside, [];
        GetDimensionSize { .. } => "get-dimension-size", Expanded, Pure, [];
        SetDimensionSize { .. } => "set-dimension-size", Expanded, Pure, [];
        GetTupleElement { .. } => "get-tuple-element", Value, Pure, [];
        Call { body } => "call", Expanded, Pure, [body];
        Fusion { body, .. } => "fusion", Expanded, Pure, [body];
        While { condition, body } => "while", Control, Pure, [condition, body];
        Conditional { branches } => "conditional", Control, Pure, branches;
        Send { .. } => "send", Transfer, Outside, [];
        SendDone { .. } => "send-done", Transfer, Outside, [];
        Recv { .. } => "recv", Transfer, Outside, [];
        RecvDone { .. } => "recv-done", Transfer, Outside, [];
        Infeed { .. } => "infeed", Host, Outside, [];
        Outfeed { .. } => "outfeed", Host, Outside, [];
        // An asynchronous pair of any operation.
        AsyncStart { body } => "async-start", Expanded, Bound, [body];
    }
    derived {
        Unary(u) => u.name(), Pointwise, Effect::Pure, [];
        Binary(b) => b.name(), Pointwise, Effect::Pure, [];
        CustomCall { has_side_effect, calls, .. } => "custom-call", Host,
            if *has_side_effect { Effect::Outside } else { Effect::Bound }, calls;
        Collective { kind, .. } => kind.name(), Exchange, Effect::Outside, kind.body_mut();
    }
}

impl Op {
    /// The operation without attributes of that name in HLO text.
    pub fn plain(name: &str) -> Option<Op> {
        Op::PLAIN.iter().find(|op| op.name() == name).cloned()
    }

    /// Whether each element of the result depends on the operands' elements at its place only.
    pub fn is_elementwise(&self) -> bool {
        // Passes make others of the family of these two.
        let becomes = matches!(self, Op::Clamp | Op::StochasticConvert);
        becomes || self.family() == Family::Pointwise && !matches!(self, Op::Iota { .. })
    }

    /// The computations that the operation calls.
    pub fn called(&self) -> Vec<CompId> {
        let mut op = self.clone();
        let mut out = Vec::new();
        op.for_each_called(|c| out.push(*c));
        out
    }

    /// Whether nodes of an operation must stay even if nothing uses them, and may not be shared.
    pub fn has_effect(&self) -> bool {
        self.effect() == Effect::Outside
    }
}

/// Makes the table of collectives: name in HLO text, the computation that they call.
macro_rules! collectives {
    ($($p:pat => $name:literal, $body:expr;)*) => {
        #[allow(unused_variables, reason = "each column uses the attributes it needs")]
        impl CollectiveKind {
            /// The names of collectives in HLO text.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The opcode in HLO text.
            pub fn name(&self) -> &'static str {
                use CollectiveKind::*;
                match self {
                    $($p => $name,)*
                }
            }

            /// The computation that it calls.
            pub fn body_mut(&mut self) -> Option<&mut CompId> {
                use CollectiveKind::*;
                match self {
                    $($p => $body,)*
                }
            }
        }
    };
}

collectives! {
    AllReduce { body } => "all-reduce", Some(body);
    AllGather { .. } => "all-gather", None;
    ReduceScatter { body, .. } => "reduce-scatter", Some(body);
    AllToAll { .. } => "all-to-all", None;
    Permute { .. } => "collective-permute", None;
    Broadcast => "collective-broadcast", None;
    RaggedAllToAll => "ragged-all-to-all", None;
    Reduce { body } => "collective-reduce", Some(body);
}
