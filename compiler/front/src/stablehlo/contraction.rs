//! Dots, convolutions, reductions, windows, sorts, linear algebra, random numbers.

use super::ast::{Attr, Operation};
use super::attr::{integers, sizes};
use super::data::{Lowered, index_map, to_dims};
use super::lower::{Lower, Site};
use crate::hlo_text::PResult;
use crate::hlo_text::lex::Cursor;
use systole_hlo::graph::build::ComputationBuilder;
use systole_hlo::graph::names::{FFT_KINDS, TRANSPOSES};
use systole_hlo::graph::{
    Binary, CompId, Conv, ConvDims, ConvPlaces, DotDims, IndexMap, NodeId, Op, Precision, RngAlgorithm,
    RngDistribution, Scatter, Shape, TriangularTranspose, WindowDim,
};

pub(super) fn lower(s: &mut Site<'_, '_, '_>, name: &str) -> Lowered {
    let o = s.o;
    let args = s.body.operands(o)?;
    let op = match name {
        "dot" => {
            let rank = s.array(*args.first().ok_or_else(|| o.error("dot takes two operands"))?)?.rank();
            let dims = DotDims {
                lhs_contracting: vec![rank.saturating_sub(1)],
                rhs_contracting: vec![0],
                ..DotDims::default()
            };
            Op::Dot { dims, precision: precision(s.l, o) }
        }
        "dot_general" => Op::Dot { dims: dot_dims(s.l, o)?, precision: precision(s.l, o) },
        "convolution" => Op::Convolution(Box::new(convolution(s, &args, None)?)),
        "reduce" => {
            let body_id = match o.get(&["applies"]) {
                Some(Attr::Word(op)) => applied(s, op, &args)?,
                _ => s.combiner(0)?,
            };
            let dims = s.l.dims(o, &["dimensions"])?;
            return s.many(Op::Reduce { dims, body: body_id }, &args);
        }
        "map" => {
            let body_id = s.combiner(0)?;
            Op::Map { body: body_id, dims: s.l.dims(o, &["dimensions"])? }
        }
        "reduce_window" => {
            let rank = s.array(*args.first().ok_or_else(|| o.error("reduce_window takes operands"))?)?.rank();
            let window = window(s.l, o, rank)?;
            let body_id = s.combiner(0)?;
            return s.many(Op::ReduceWindow { window, body: body_id }, &args);
        }
        "select_and_scatter" => {
            let rank = s.array(*args.first().ok_or_else(|| o.error("select_and_scatter takes operands"))?)?.rank();
            let window = window(s.l, o, rank)?;
            let select = s.combiner(0)?;
            let scatter = s.combiner(1)?;
            Op::SelectAndScatter { window, select, scatter }
        }
        "scatter" => {
            let d = s.l.fields_of(o, &["scatter_dimension_numbers"])?;
            let scatter = Scatter {
                map: index_map(s.l, &d, IndexMap::SCATTER)?,
                indices_are_sorted: s.l.flag(o, &["indices_are_sorted"]),
                unique_indices: s.l.flag(o, &["unique_indices"]),
                body: s.combiner(0)?,
            };
            return s.many(Op::Scatter(scatter), &args);
        }
        "sort" => {
            let rank = s.array(*args.first().ok_or_else(|| o.error("sort takes operands"))?)?.rank() as i64;
            let dim = s.l.ints(o, &["dimension"])?.and_then(|v| v.first().copied()).unwrap_or(-1);
            let dim = to_dims(o, vec![if dim < 0 { dim + rank } else { dim }])?[0];
            let body_id = s.combiner(0)?;
            let stable = s.l.flag(o, &["is_stable"]);
            return s.many(Op::Sort { dim, stable, body: body_id }, &args);
        }
        "cholesky" => Op::Cholesky { lower: s.l.flag(o, &["lower"]) },
        "triangular_solve" => Op::TriangularSolve {
            left: s.l.flag(o, &["left_side"]),
            lower: s.l.flag(o, &["lower"]),
            unit_diagonal: s.l.flag(o, &["unit_diagonal"]),
            transpose: s.l.choice(o, &["transpose_a"], &TRANSPOSES)?.unwrap_or(TriangularTranspose::No),
        },
        "fft" => {
            let kind = s.l.choice(o, &["fft_type", "type"], &FFT_KINDS)?;
            let Some(kind) = kind else { return Err(o.error("fft needs its type")) };
            Op::Fft { kind, lengths: s.l.sizes(o, &["fft_length", "length"])? }
        }
        "batch_norm_training" | "batch_norm_inference" | "batch_norm_grad" => {
            let epsilon = match o.get(&["epsilon"]) {
                Some(Attr::Float(v)) => *v as f32,
                Some(Attr::Int(v)) => *v as f32,
                _ => return Err(o.error("batch norm needs `epsilon`")),
            };
            let feature = s.l.dim(o, &["feature_index"])?;
            let op = match name {
                "batch_norm_training" => Op::BatchNormTraining { epsilon, feature },
                "batch_norm_inference" => Op::BatchNormInference { epsilon, feature },
                _ => Op::BatchNormGrad { epsilon, feature },
            };
            return s.many(op, &args);
        }
        "rng" => {
            let table = [("UNIFORM", RngDistribution::Uniform), ("NORMAL", RngDistribution::Normal)];
            let distribution = s.l.choice(o, &["rng_distribution", "distribution"], &table)?;
            let Some(distribution) = distribution else { return Err(o.error("rng needs its distribution")) };
            // The third operand is the shape, which the result's type repeats.
            return s.one(Op::Rng { distribution }, &args[..args.len().min(2)]);
        }
        "rng_bit_generator" => {
            let table = [
                ("DEFAULT", RngAlgorithm::Default),
                ("THREE_FRY", RngAlgorithm::ThreeFry),
                ("PHILOX", RngAlgorithm::Philox),
            ];
            let algorithm = s.l.choice(o, &["rng_algorithm", "algorithm"], &table)?.unwrap_or(RngAlgorithm::Default);
            return s.many(Op::RngBitGenerator { algorithm }, &args);
        }
        _ => return Ok(None),
    };
    s.one(op, &args)
}

/// What the lists of a composite's `ragged_dot_dimension_numbers` are, in their order.
const RAGGED_DIMS: [&str; 6] = [
    "lhs_batching_dimensions",
    "rhs_batching_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
    "lhs_ragged_dimensions",
    "rhs_group_dimensions",
];

/// `chlo.ragged_dot`: a dot whose groups of rows each have a right operand of their own.
pub(super) fn ragged_dot(s: &mut Site<'_, '_, '_>, args: &[NodeId]) -> Lowered {
    let o = s.o;
    let d = match o.get(&["ragged_dot_dimension_numbers"]) {
        Some(Attr::List(lists)) if lists.len() == RAGGED_DIMS.len() => {
            let attributes = RAGGED_DIMS.iter().zip(lists).map(|(k, v)| (*k, v.clone(), o.span)).collect();
            Operation { attributes, ..Operation::named(o.name, o.span) }
        }
        _ => s.l.fields_of(o, &["ragged_dot_dimension_numbers"])?,
    };
    let op = Op::RaggedDot {
        dims: general_dims(s.l, &d)?,
        lhs_ragged: s.l.dim(&d, &["lhs_ragged_dimensions"])?,
        rhs_group: s.l.dims(&d, &["rhs_group_dimensions"])?,
        precision: precision(s.l, o),
    };
    s.one(op, args)
}

/// The dimensions that `#stablehlo.dot` and its kin name.
fn general_dims(l: &Lower<'_, '_>, d: &Operation<'_>) -> PResult<DotDims> {
    Ok(DotDims {
        lhs_contracting: l.dims(d, &["lhs_contracting_dimensions"])?,
        rhs_contracting: l.dims(d, &["rhs_contracting_dimensions"])?,
        lhs_batch: l.dims(d, &["lhs_batching_dimensions"])?,
        rhs_batch: l.dims(d, &["rhs_batching_dimensions"])?,
    })
}

fn dot_dims(l: &Lower<'_, '_>, o: &Operation<'_>) -> PResult<DotDims> {
    if o.get(&["dot_dimension_numbers"]).is_some() {
        return general_dims(l, &l.fields_of(o, &["dot_dimension_numbers"])?);
    }
    let pair = |name: &str| -> PResult<(Vec<usize>, Vec<usize>)> {
        match o.get(&[name]) {
            None => Ok((Vec::new(), Vec::new())),
            Some(Attr::List(l2)) if l2.len() == 2 => {
                Ok((to_dims(o, integers(l.text, &l2[0])?)?, to_dims(o, integers(l.text, &l2[1])?)?))
            }
            Some(_) => Err(o.error(format!("`{name}` is written like [0] x [1]"))),
        }
    };
    let (lhs_batch, rhs_batch) = pair("batching_dims")?;
    let (lhs_contracting, rhs_contracting) = pair("contracting_dims")?;
    Ok(DotDims { lhs_contracting, rhs_contracting, lhs_batch, rhs_batch })
}

/// The highest precision of the operands, or what a dot's algorithm asks for.
fn precision(l: &Lower<'_, '_>, o: &Operation<'_>) -> Precision {
    let mut out = Precision::Default;
    if let Some(Attr::List(list)) = o.get(&["precision_config", "precision"]) {
        for p in list.iter().filter_map(|p| l.keyword(p)) {
            out = out.max(match p {
                "HIGHEST" => Precision::Highest,
                "HIGH" => Precision::High,
                _ => Precision::Default,
            });
        }
    }
    if let Some(Attr::Dialect(_, inside)) = o.get(&["algorithm"]) {
        let text = Cursor::over(l.text, *inside).rest();
        let six = ["num_primitive_operations = 6", "num_primitive_operations = 9"].iter().any(|n| text.contains(n));
        out = out.max(match () {
            () if six || text.contains("lhs_precision_type = f32") || text.contains("lhs_precision_type = f64") => {
                Precision::Highest
            }
            () if text.contains("num_primitive_operations = 3") || text.contains("tf32") => Precision::High,
            () => Precision::Default,
        });
    }
    out
}

/// The computation of `applies op`.
fn applied(s: &mut Site<'_, '_, '_>, op: &str, args: &[NodeId]) -> PResult<CompId> {
    let o = s.o;
    let name = op.rsplit('.').next().unwrap_or(op).replace('_', "-");
    let Some(binary) = Binary::from_name(&name) else {
        return Err(o.error(format!("`{op}` combines no two values")));
    };
    let dtype = match args {
        [x, _] => s.array(*x)?.dtype,
        _ => return Err(o.error("`applies` takes one operand and one initial value")),
    };
    let mut b = ComputationBuilder::new(&format!("{name}.{dtype}.{}", s.l.module.computations.len()));
    let (x, y) = (b.parameter(Shape::array(dtype, &[])), b.parameter(Shape::array(dtype, &[])));
    let root = b.add(Op::Binary(binary), &[x, y], &s.l.module).map_err(|e| o.error(e.message))?;
    Ok(s.l.module.push(b.finish(root)))
}

/// Pairs of low and high padding.
fn paddings(l: &Lower<'_, '_>, o: &Operation<'_>, a: &Attr<'_>, rank: usize) -> PResult<Vec<(i64, i64)>> {
    let mut flat = integers(l.text, a)?;
    if matches!(a, Attr::Dense(..)) && flat.len() == 1 && sizes(a).iter().product::<u64>() == 2 * rank as u64 {
        flat = vec![flat[0]; 2 * rank];
    }
    pairs(o, flat, rank)
}

fn pairs(o: &Operation<'_>, flat: Vec<i64>, rank: usize) -> PResult<Vec<(i64, i64)>> {
    if flat.len() != 2 * rank || flat.iter().any(|v| v.unsigned_abs() > 1 << 46) {
        return Err(o.error(format!("padding needs {rank} pairs of numbers")));
    }
    Ok(flat.chunks(2).map(|p| (p[0], p[1])).collect())
}

/// The window of `reduce_window` and `select_and_scatter`.
fn window(l: &Lower<'_, '_>, o: &Operation<'_>, rank: usize) -> PResult<Vec<WindowDim>> {
    let list = |names: &[&str]| -> PResult<Vec<u64>> {
        let v = if o.get(names).is_some() { l.sizes(o, names)? } else { vec![1; rank] };
        if v.len() == rank { Ok(v) } else { Err(o.error(format!("`{}` needs {rank} numbers", names[0]))) }
    };
    let size = list(&["window_dimensions"])?;
    let stride = list(&["window_strides"])?;
    let base = list(&["base_dilations"])?;
    let dilation = list(&["window_dilations"])?;
    let pads = match o.get(&["padding"]) {
        Some(a) => paddings(l, o, a, rank)?,
        None => vec![(0, 0); rank],
    };
    Ok(WindowDim::of_lists(&size, &stride, &pads, &base, &dilation))
}

/// The attributes of `convolution`; `padding` in place of theirs.
pub(super) fn convolution(s: &mut Site<'_, '_, '_>, args: &[NodeId], padding: Option<Vec<i64>>) -> PResult<Conv> {
    let o = s.o;
    let [_, kernel] = args else { return Err(o.error("convolution takes two operands")) };
    let kernel = s.array(*kernel)?;
    let Some(Attr::Dialect(_, inside)) = o.get(&["dimension_numbers", "dim_numbers"]) else {
        return Err(o.error("convolution needs its dimension numbers"));
    };
    let dims = conv_dims(&mut Cursor::over(s.l.text, *inside))?;
    let n = dims.input.spatial.len();
    if dims.kernel.spatial.iter().any(|d| *d >= kernel.rank()) || dims.kernel.spatial.len() != n {
        return Err(o.error(format!("the dimension numbers do not fit the kernel {kernel}")));
    }
    let inner = match o.get(&["window"]) {
        Some(_) => s.l.fields_of(o, &["window"])?,
        None => o.clone(),
    };
    let list = |names: &[&str]| -> PResult<Vec<u64>> {
        let v = s.l.ints(&inner, names)?.unwrap_or_else(|| vec![1; n]);
        let v = if v.len() == 1 && n > 1 { vec![v[0]; n] } else { v };
        let sizes: Option<Vec<u64>> = v.into_iter().map(|v| u64::try_from(v).ok()).collect();
        sizes.filter(|v| v.len() == n).ok_or_else(|| o.error(format!("`{}` needs {n} numbers", names[0])))
    };
    let stride = list(&["window_strides", "stride"])?;
    let base = list(&["lhs_dilation", "lhs_dilate"])?;
    let dilation = list(&["rhs_dilation", "rhs_dilate"])?;
    let reverse = match inner.get(&["window_reversal", "reverse"]) {
        Some(_) => list(&["window_reversal", "reverse"])?,
        None => vec![0; n],
    };
    let pads = match (padding, inner.get(&["padding", "pad"])) {
        (Some(flat), _) => pairs(o, flat, n)?,
        (None, Some(a)) => paddings(s.l, o, a, n)?,
        (None, None) => vec![(0, 0); n],
    };
    let size: Vec<u64> = dims.kernel.spatial.iter().map(|&d| kernel.dims[d]).collect();
    let mut window = WindowDim::of_lists(&size, &stride, &pads, &base, &dilation);
    window.iter_mut().zip(reverse).for_each(|(w, reverse)| w.reversal = reverse != 0);
    let count = |names: &[&str]| -> PResult<u64> {
        let v = s.l.ints(o, names)?.and_then(|v| v.first().copied()).unwrap_or(1);
        u64::try_from(v).map_err(|_| o.error(format!("`{}` must not be negative", names[0])))
    };
    Ok(Conv {
        window,
        dims,
        feature_groups: count(&["feature_group_count"])?,
        batch_groups: count(&["batch_group_count"])?,
        precision: precision(s.l, o),
    })
}

/// `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`
fn conv_dims(c: &mut Cursor<'_>) -> PResult<ConvDims> {
    let input = labels(c, "b", "f")?.into();
    c.expect("x", "between the labels")?;
    let kernel = labels(c, "i", "o")?.into();
    c.expect("->", "before the result's labels")?;
    let output = labels(c, "b", "f")?.into();
    Ok(ConvDims { input, kernel, output })
}

fn labels(c: &mut Cursor<'_>, first: &str, second: &str) -> PResult<ConvPlaces> {
    let mut at = *c;
    c.expect("[", "to begin the labels")?;
    let names = c.separated("]", "or `]` in the labels", |c| {
        let w = c.peek_word();
        if w.is_empty() {
            return Err(c.unexpected("a label"));
        }
        c.advance(w.len());
        Ok(w)
    })?;
    let place = |label: &str| names.iter().position(|n| *n == label);
    let spatial: Option<Vec<usize>> = (0..names.len().saturating_sub(2)).map(|i| place(&i.to_string())).collect();
    match (place(first), place(second), spatial) {
        (Some(a), Some(b), Some(s)) => Ok((a, b, s)),
        _ => Err(at.error_here(format!("the labels must be {first}, {second} and 0, 1, .. once each"))),
    }
}
