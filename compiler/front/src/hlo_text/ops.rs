//! Opcodes with their attributes to [`Op`].

use super::attrs::Site;
use super::lex::{Cursor, shorten};
use super::literal::LiteralTree;
use super::values::algorithm_precision;
use super::{MAX_DEVICES, PResult};
use systole_hlo::diag::did_you_mean;
use systole_hlo::graph::names::{ALGORITHMS, DIRECTIONS, DISTRIBUTIONS, FFT_KINDS, TRANSPOSES};
use systole_hlo::graph::{
    Binary, CollectiveKind, Conv, DotDims, Gather, IndexMap, Literal, Op, Order, Precision, Scatter, Shape,
    TriangularTranspose, Unary,
};

/// The names of all opcodes, without sugared asynchronous ones.
fn opcodes() -> impl Iterator<Item = &'static str> {
    let elementwise = Unary::ALL.iter().map(|u| u.name()).chain(Binary::ALL.iter().map(|b| b.name()));
    Op::NAMES.iter().chain(CollectiveKind::NAMES).copied().chain(["custom-call"]).chain(elementwise)
}

/// Whether an opcode (not a sugared asynchronous one) exists.
pub(crate) fn is_opcode(name: &str) -> bool {
    opcodes().any(|n| n == name)
}

/// Reads an opcode with its attributes. Asynchronous sugar (`X-start`) is resolved before.
pub(crate) fn op(opcode: &str, s: &mut Site<'_, '_>) -> PResult<Op> {
    if let Some(u) = Unary::from_name(opcode) {
        return Ok(Op::Unary(u));
    }
    if let Some(b) = Binary::from_name(opcode) {
        return Ok(Op::Binary(b));
    }
    if let Some(op) = Op::plain(opcode) {
        return Ok(op);
    }
    for family in [data, contraction, control, device] {
        if let Some(op) = family(opcode, s)? {
            return Ok(op);
        }
    }
    let d = s.error(format!("unknown opcode `{}`{}", shorten(opcode), did_you_mean(opcode, opcodes())));
    Err(Box::new(d.note("opcodes are those of XLA's HLO text")))
}

/// Elementwise operations with attributes, sources of data and data movement.
fn data(opcode: &str, s: &mut Site<'_, '_>) -> PResult<Option<Op>> {
    Ok(Some(match opcode {
        "parameter" => Op::Parameter { index: s.raw.number.unwrap_or(0) as usize },
        "constant" => match &s.raw.literal {
            Some(LiteralTree::Array(l)) => Op::Constant(l.clone()),
            Some(LiteralTree::Tuple(_)) | None => return Err(s.error("a constant needs a literal")),
        },
        "iota" => Op::Iota { dim: s.dim("iota_dimension")? },
        "compare" => {
            let direction = s.need_keyword("direction", &DIRECTIONS)?;
            let types = [
                ("FLOAT", Order::Partial),
                ("SIGNED", Order::Partial),
                ("UNSIGNED", Order::Partial),
                ("TOTALORDER", Order::Total),
            ];
            Op::Compare { direction, order: s.keyword("type", &types)?.unwrap_or(Order::Partial) }
        }
        "reduce-precision" => Op::ReducePrecision {
            exponent: s.uint("exponent_bits")?.min(64) as u32,
            mantissa: s.uint("mantissa_bits")?.min(64) as u32,
        },
        "map" => Op::Map { dims: s.dims("dimensions")?, body: s.computation("to_apply")? },
        "broadcast" => Op::Broadcast { dims: s.dims("dimensions")? },
        "transpose" => Op::Transpose { permutation: s.need("dimensions", Cursor::dims)? },
        "reverse" => Op::Reverse { dims: s.dims("dimensions")? },
        "slice" => Op::Slice { dims: s.need("slice", Cursor::slice_dims)? },
        "concatenate" => Op::Concatenate { dim: s.dim("dimensions")? },
        "pad" => Op::Pad { dims: s.read("padding", Cursor::padding)?.unwrap_or_default() },
        "dynamic-slice" => Op::DynamicSlice { sizes: s.sizes("dynamic_slice_sizes")? },
        "gather" => Op::Gather(Gather {
            map: index_map(s, IndexMap::GATHER)?,
            slice_sizes: s.sizes("slice_sizes")?,
            indices_are_sorted: s.flag("indices_are_sorted")?,
        }),
        "scatter" => Op::Scatter(Scatter {
            map: index_map(s, IndexMap::SCATTER)?,
            indices_are_sorted: s.flag("indices_are_sorted")?,
            unique_indices: s.flag("unique_indices")?,
            body: s.computation("to_apply")?,
        }),
        "get-dimension-size" => Op::GetDimensionSize { dim: s.dim("dimensions")? },
        "set-dimension-size" => Op::SetDimensionSize { dim: s.dim("dimensions")? },
        "get-tuple-element" => Op::GetTupleElement { index: s.uint("index")? as usize },
        "rng" => Op::Rng { distribution: s.need_keyword("distribution", &DISTRIBUTIONS)? },
        "rng-bit-generator" => Op::RngBitGenerator { algorithm: s.need_keyword("algorithm", &ALGORITHMS)? },
        "rng-get-and-update-state" => Op::RngGetAndUpdateState { delta: s.need("delta", |c| c.int("a number"))? },
        _ => return Ok(None),
    }))
}

fn index_map(s: &mut Site<'_, '_>, names: [&str; 5]) -> PResult<IndexMap> {
    let vector = s.uint(IndexMap::VECTOR)? as usize;
    IndexMap::read(names, vector, |name| s.dims(name))
}

/// Contractions, windows, reductions, sorts and linear algebra.
fn contraction(opcode: &str, s: &mut Site<'_, '_>) -> PResult<Option<Op>> {
    Ok(Some(match opcode {
        "dot" => Op::Dot { dims: dot_dims(s)?, precision: precision(s)? },
        "scaled-dot" => Op::ScaledDot { dims: dot_dims(s)?, precision: precision(s)? },
        "ragged-dot" => Op::RaggedDot {
            dims: dot_dims(s)?,
            lhs_ragged: s.dim("lhs_ragged_dims")?,
            rhs_group: s.dims("rhs_group_dims")?,
            precision: precision(s)?,
        },
        "convolution" => Op::Convolution(Box::new(Conv {
            window: s.read("window", Cursor::window)?.unwrap_or_default(),
            dims: s.need("dim_labels", Cursor::conv_labels)?,
            feature_groups: s.uint_or("feature_group_count", 1)?,
            batch_groups: s.uint_or("batch_group_count", 1)?,
            precision: precision(s)?,
        })),
        "reduce" => Op::Reduce { dims: s.dims("dimensions")?, body: s.computation("to_apply")? },
        "scan" => Op::Scan {
            dim: s.dim(if s.peek("scan_dimension").is_some() { "scan_dimension" } else { "dimensions" })?,
            carries: s.uint_or("num_carries", 1)? as usize,
            reverse: s.flag("is_reverse")?,
            body: s.computation("to_apply")?,
        },
        "reduce-window" => Op::ReduceWindow {
            window: s.read("window", Cursor::window)?.unwrap_or_default(),
            body: s.computation("to_apply")?,
        },
        "select-and-scatter" => Op::SelectAndScatter {
            window: s.read("window", Cursor::window)?.unwrap_or_default(),
            select: s.computation("select")?,
            scatter: s.computation("scatter")?,
        },
        "batch-norm-training" | "batch-norm-inference" | "batch-norm-grad" => {
            let epsilon = s.need("epsilon", real)?;
            let feature = s.uint("feature_index")? as usize;
            match opcode {
                "batch-norm-training" => Op::BatchNormTraining { epsilon, feature },
                "batch-norm-inference" => Op::BatchNormInference { epsilon, feature },
                _ => Op::BatchNormGrad { epsilon, feature },
            }
        }
        "sort" => {
            Op::Sort { dim: s.dim("dimensions")?, stable: s.flag("is_stable")?, body: s.computation("to_apply")? }
        }
        "topk" => Op::TopK { k: s.uint("k")?, largest: s.read("largest", Cursor::boolean)?.unwrap_or(true) },
        "cholesky" => Op::Cholesky { lower: s.flag("lower")? },
        "triangular-solve" => Op::TriangularSolve {
            left: s.flag("left_side")?,
            lower: s.flag("lower")?,
            unit_diagonal: s.flag("unit_diagonal")?,
            transpose: s.keyword("transpose_a", &TRANSPOSES)?.unwrap_or(TriangularTranspose::No),
        },
        "fft" => Op::Fft { kind: s.need_keyword("fft_type", &FFT_KINDS)?, lengths: s.sizes("fft_length")? },
        _ => return Ok(None),
    }))
}

/// Calls and control flow.
fn control(opcode: &str, s: &mut Site<'_, '_>) -> PResult<Option<Op>> {
    Ok(Some(match opcode {
        "call" => Op::Call { body: s.computation("to_apply")? },
        "fusion" => {
            let kinds = ["kLoop", "kInput", "kOutput", "kCustom"].map(|k| (k, k));
            let kind = s.keyword("kind", &kinds)?.unwrap_or("kLoop").to_string();
            Op::Fusion { body: s.computation("calls")?, kind }
        }
        "while" => Op::While { condition: s.computation("condition")?, body: s.computation("body")? },
        "conditional" => match s.computations("branch_computations")? {
            Some(branches) if branches.is_empty() => return Err(s.error("a conditional needs a branch")),
            Some(branches) => Op::Conditional { branches },
            None => Op::Conditional {
                branches: vec![s.computation("true_computation")?, s.computation("false_computation")?],
            },
        },
        "custom-call" => {
            let target = s.string("custom_call_target")?;
            let Some(target) = target else { return Err(s.error("custom-call needs `custom_call_target=`")) };
            let config = match s.string("backend_config")? {
                Some(c) => Some(c),
                None => s.string("opaque")?,
            };
            let mut calls = s.computations("called_computations")?.unwrap_or_default();
            for key in ["to_apply", "calls"] {
                calls.extend(s.computations(key)?.unwrap_or_default());
            }
            let has_side_effect = s.flag("custom_call_has_side_effect")?;
            Op::CustomCall { target, config: config.unwrap_or_default(), has_side_effect, calls }
        }
        "infeed" => Op::Infeed { config: s.string("infeed_config")?.unwrap_or_default() },
        "outfeed" => {
            let shape = match (s.read("outfeed_shape", |c| c.shape())?, s.operands.first()) {
                (Some(shape), _) => shape,
                (None, Some(operand)) => (*operand).clone(),
                (None, None) => Shape::Tuple(Vec::new()),
            };
            Op::Outfeed { shape, config: s.string("outfeed_config")?.unwrap_or_default() }
        }
        "async-start" => Op::AsyncStart { body: s.computation("calls")? },
        _ => return Ok(None),
    }))
}

/// Operations between devices.
fn device(opcode: &str, s: &mut Site<'_, '_>) -> PResult<Option<Op>> {
    let kind = match opcode {
        "all-reduce" => CollectiveKind::AllReduce { body: s.computation("to_apply")? },
        "all-gather" => CollectiveKind::AllGather { dim: s.dim("dimensions")? },
        "reduce-scatter" => {
            CollectiveKind::ReduceScatter { dim: s.dim("dimensions")?, body: s.computation("to_apply")? }
        }
        "all-to-all" => CollectiveKind::AllToAll { dim: s.read("dimensions", Cursor::one_dim)? },
        "collective-permute" => CollectiveKind::Permute {
            pairs: s.need("source_target_pairs", |c| {
                c.list("pairs", |c| {
                    let mut at = *c;
                    match c.list("device ids", |c| c.uint("a device id"))?[..] {
                        [a, b] if a.max(b) < MAX_DEVICES => Ok((a, b)),
                        _ => Err(at.error_here("expected a pair {source,target}")),
                    }
                })
            })?,
        },
        "collective-broadcast" => CollectiveKind::Broadcast,
        "ragged-all-to-all" => CollectiveKind::RaggedAllToAll,
        "collective-reduce" => CollectiveKind::Reduce { body: s.computation("to_apply")? },
        "send" | "send-done" | "recv" | "recv-done" => {
            let channel = s.read("channel_id", |c| c.uint("a channel number"))?;
            let host = s.flag("is_host_transfer")?;
            return Ok(Some(match opcode {
                "send" => Op::Send { channel, host, pairs: None },
                "send-done" => Op::SendDone { channel, host },
                "recv" => Op::Recv { channel, host, pairs: None },
                _ => Op::RecvDone { channel, host },
            }));
        }
        _ => return Ok(None),
    };
    Ok(Some(Op::Collective { kind, devices: s.devices()? }))
}

fn dot_dims(s: &mut Site<'_, '_>) -> PResult<DotDims> {
    Ok(DotDims {
        lhs_contracting: s.dims("lhs_contracting_dims")?,
        rhs_contracting: s.dims("rhs_contracting_dims")?,
        lhs_batch: s.dims("lhs_batch_dims")?,
        rhs_batch: s.dims("rhs_batch_dims")?,
    })
}

/// The higher of `operand_precision` and what `algorithm` asks for.
fn precision(s: &mut Site<'_, '_>) -> PResult<Precision> {
    let stated = s.read("operand_precision", Cursor::precisions)?.unwrap_or_default();
    let algorithm = s.read("algorithm", |c| Ok(algorithm_precision(c.word("an algorithm")?)))?.unwrap_or_default();
    Ok(stated.max(algorithm))
}

fn real(c: &mut Cursor<'_>) -> PResult<f32> {
    let text = c.rest().trim();
    let number = text.starts_with(|x: char| x.is_ascii_digit() || matches!(x, '-' | '.' | '+'));
    match text.parse::<f32>() {
        Ok(v) if number => {
            c.advance(c.rest().len());
            Ok(v)
        }
        _ => Err(c.unexpected("a number")),
    }
}

/// The literal's leaves as separate constants, for tuple constants.
pub(crate) fn tuple_leaves(tree: &LiteralTree) -> Option<&[LiteralTree]> {
    match tree {
        LiteralTree::Array(_) => None,
        LiteralTree::Tuple(t) => Some(t),
    }
}

/// The shape of a literal.
pub(crate) fn literal_shape(l: &Literal) -> Shape {
    Shape::array(l.dtype, &l.dims)
}
