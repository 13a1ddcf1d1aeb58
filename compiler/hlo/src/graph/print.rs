//! Modules as HLO text that reads back as the same module.
//!
//! What XLA's own text cannot say compactly is written in a form that only this compiler's reader knows: a large
//! constant of equal elements is `constant({...1.5})` (see [`print_literal::SPLAT_FROM`]).

use super::names::{ALGORITHMS, DIRECTIONS, DISTRIBUTIONS, FFT_KINDS, PRECISIONS, TRANSPOSES, name_in};
use super::print_literal::literal;
use super::table::plain;
use super::{
    Collective, CollectiveKind, CompId, Computation, Conv, DotDims, Gather, IndexMap, Module, Node, NodeId, Op, Order,
    Precision, Scatter, Shape, TriangularTranspose, WindowDim,
};
use std::fmt::Write;
use systole_isa::DType;

/// The module as HLO text.
pub fn to_text(module: &Module) -> String {
    let mut out = String::new();
    header(module, &mut out);
    for (i, c) in module.computations.iter().enumerate() {
        out.push('\n');
        if module.entry == CompId(i as u32) {
            out.push_str("ENTRY ");
        }
        computation(module, c, &mut out);
    }
    out
}

/// One instruction as HLO text, without a line end.
pub fn node_text(module: &Module, c: &Computation, id: NodeId) -> String {
    let mut out = String::new();
    node(module, c, c.node(id), &mut out);
    out
}

/// A name with characters that HLO text does not allow replaced.
fn ident(name: &str) -> String {
    let clean: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' }).collect();
    if clean.is_empty() { "_".to_string() } else { clean }
}

fn header(m: &Module, out: &mut String) {
    let name = ident(&m.name);
    let bare = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    put(out, format_args!("HloModule {}{name}", if bare { "" } else { "%" }));
    if m.replicas != 1 {
        put(out, format_args!(", replica_count={}", m.replicas));
    }
    if m.partitions != 1 {
        put(out, format_args!(", num_partitions={}", m.partitions));
    }
    if !m.aliases.is_empty() {
        let aliases = m.aliases.iter().map(|a| {
            let path = |p: &[usize]| p.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            format!("{{{}}}: ({}, {{{}}}, may-alias)", path(&a.output), a.parameter, path(&a.parameter_index))
        });
        put(out, format_args!(", input_output_alias={{ {} }}", aliases.collect::<Vec<_>>().join(", ")));
    }
    if let Some((parameters, result)) = &m.entry_layout {
        let parameters = Shape::Tuple(parameters.clone());
        put(out, format_args!(", entry_computation_layout={{{parameters}->{result}}}"));
    }
    for (key, value) in &m.attributes {
        put(out, format_args!(", {key}={value}"));
    }
    out.push('\n');
}

fn computation(m: &Module, c: &Computation, out: &mut String) {
    put(out, format_args!("%{} {{\n", ident(&c.name)));
    for (i, n) in c.nodes.iter().enumerate() {
        out.push_str(if c.root.index() == i { "  ROOT " } else { "  " });
        node(m, c, n, out);
        out.push('\n');
    }
    out.push_str("}\n");
}

#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "all others print their operands; attributes of all others are printed by a match without a wildcard"
)]
fn node(m: &Module, c: &Computation, n: &Node, out: &mut String) {
    put(out, format_args!("%{} = {} {}(", ident(&n.name), n.shape, n.op.name()));
    match &n.op {
        Op::Parameter { index } => put(out, format_args!("{index}")),
        Op::Constant(l) => literal(l, out),
        _ => {
            for (i, o) in n.operands.iter().enumerate() {
                let comma = if i > 0 { ", " } else { "" };
                put(
                    out,
                    format_args!("{comma}%{}", c.nodes.get(o.index()).map_or("?".to_string(), |n| ident(&n.name))),
                );
            }
        }
    }
    out.push(')');
    let by_pred = n
        .operands
        .first()
        .and_then(|o| c.nodes.get(o.index())?.shape.as_array())
        .is_some_and(|a| a.dtype == DType::Pred);
    match &n.op {
        Op::Conditional { branches } if by_pred && branches.len() == 2 => {
            let mut a = Attributes { m, out };
            a.call("true_computation", branches[0]);
            a.call("false_computation", branches[1]);
        }
        op => Attributes { m, out }.op(op),
    }
    for (key, value) in &n.attributes {
        put(out, format_args!(", {key}={value}"));
    }
}

fn put(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a String takes any text");
}

/// Writes attributes after an operand list.
struct Attributes<'m, 'o> {
    m: &'m Module,
    out: &'o mut String,
}

impl Attributes<'_, '_> {
    fn put(&mut self, key: &str, value: impl std::fmt::Display) {
        put(self.out, format_args!(", {key}={value}"));
    }

    fn list<T: std::fmt::Display>(&mut self, key: &str, items: &[T]) {
        self.put(key, braces(items));
    }

    /// A list that is left out when empty.
    fn some<T: std::fmt::Display>(&mut self, key: &str, items: &[T]) {
        if !items.is_empty() {
            self.list(key, items);
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.put(key, true);
        }
    }

    fn string(&mut self, key: &str, value: &str) {
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r");
        self.put(key, format_args!("\"{escaped}\""));
    }

    fn call(&mut self, key: &str, id: CompId) {
        let name = self.name(id);
        self.put(key, name);
    }

    fn name(&self, id: CompId) -> String {
        self.m.computations.get(id.index()).map_or("%?".to_string(), |c| format!("%{}", ident(&c.name)))
    }

    fn calls(&mut self, key: &str, ids: &[CompId]) {
        let names: Vec<String> = ids.iter().map(|id| self.name(*id)).collect();
        self.some(key, &names);
    }

    fn precision(&mut self, p: Precision, operands: usize) {
        if p != Precision::Default {
            let name = name_in(&PRECISIONS, &p);
            self.list("operand_precision", &vec![name; operands]);
        }
    }

    fn dot(&mut self, d: &DotDims) {
        self.some("lhs_batch_dims", &d.lhs_batch);
        self.list("lhs_contracting_dims", &d.lhs_contracting);
        self.some("rhs_batch_dims", &d.rhs_batch);
        self.list("rhs_contracting_dims", &d.rhs_contracting);
    }

    fn window(&mut self, w: &[WindowDim]) {
        if w.is_empty() {
            return;
        }
        let field = |name: &str, f: &dyn Fn(&WindowDim) -> String, default: &str| {
            let values: Vec<String> = w.iter().map(f).collect();
            if values.iter().all(|v| v == default) { String::new() } else { format!(" {name}={}", values.join("x")) }
        };
        let text = [
            field("size", &|d| d.size.to_string(), ""),
            field("stride", &|d| d.stride.to_string(), "1"),
            field("pad", &|d| format!("{}_{}", d.pad_low, d.pad_high), "0_0"),
            field("lhs_dilate", &|d| d.base_dilation.to_string(), "1"),
            field("rhs_dilate", &|d| d.window_dilation.to_string(), "1"),
            field("rhs_reversal", &|d| u8::from(d.reversal).to_string(), "0"),
        ]
        .concat();
        self.put("window", format_args!("{{{}}}", text.trim_start()));
    }

    fn op(&mut self, op: &Op) {
        match op {
            plain!() | Op::Parameter { .. } | Op::Constant(_) | Op::Unary(_) | Op::Binary(_) => {}
            Op::Iota { dim } => self.put("iota_dimension", dim),
            Op::Compare { direction, order } => {
                self.put("direction", name_in(&DIRECTIONS, direction));
                if *order == Order::Total {
                    self.put("type", "TOTALORDER");
                }
            }
            Op::ReducePrecision { exponent, mantissa } => {
                self.put("exponent_bits", exponent);
                self.put("mantissa_bits", mantissa);
            }
            Op::Broadcast { dims } | Op::Transpose { permutation: dims } | Op::Reverse { dims } => {
                self.list("dimensions", dims);
            }
            Op::Concatenate { dim } | Op::GetDimensionSize { dim } | Op::SetDimensionSize { dim } => {
                self.list("dimensions", &[dim]);
            }
            Op::Slice { dims } => {
                let ranges: Vec<String> =
                    dims.iter().map(|d| format!("[{}:{}:{}]", d.start, d.limit, d.stride)).collect();
                self.list("slice", &ranges);
            }
            Op::Pad { dims } => {
                let all: Vec<String> = dims.iter().map(|d| format!("{}_{}_{}", d.low, d.high, d.interior)).collect();
                if !all.is_empty() {
                    self.put("padding", all.join("x"));
                }
            }
            Op::DynamicSlice { sizes } => self.list("dynamic_slice_sizes", sizes),
            Op::GetTupleElement { index } => self.put("index", index),
            Op::Rng { distribution } => self.put("distribution", name_in(&DISTRIBUTIONS, distribution)),
            Op::RngBitGenerator { algorithm } => self.put("algorithm", name_in(&ALGORITHMS, algorithm)),
            Op::RngGetAndUpdateState { delta } => self.put("delta", delta),
            Op::Gather(g) => self.gather(g),
            Op::Scatter(s) => self.scatter(s),
            Op::Dot { dims, precision } => {
                self.dot(dims);
                self.precision(*precision, 2);
            }
            Op::ScaledDot { dims, precision } => {
                self.dot(dims);
                self.precision(*precision, 2);
            }
            Op::RaggedDot { dims, lhs_ragged, rhs_group, precision } => {
                self.dot(dims);
                self.list("lhs_ragged_dims", &[lhs_ragged]);
                self.some("rhs_group_dims", rhs_group);
                self.precision(*precision, 2);
            }
            Op::Convolution(c) => self.convolution(c),
            Op::Map { body, dims } | Op::Reduce { dims, body } => {
                self.list("dimensions", dims);
                self.call("to_apply", *body);
            }
            Op::Scan { dim, carries, reverse, body } => {
                self.list("dimensions", &[dim]);
                self.put("num_carries", carries);
                self.flag("is_reverse", *reverse);
                self.call("to_apply", *body);
            }
            Op::ReduceWindow { window, body } => {
                self.window(window);
                self.call("to_apply", *body);
            }
            Op::SelectAndScatter { window, select, scatter } => {
                self.window(window);
                self.call("select", *select);
                self.call("scatter", *scatter);
            }
            Op::BatchNormTraining { epsilon, feature }
            | Op::BatchNormInference { epsilon, feature }
            | Op::BatchNormGrad { epsilon, feature } => {
                self.put("epsilon", format_args!("{epsilon:?}"));
                self.put("feature_index", feature);
            }
            Op::Sort { dim, stable, body } => {
                self.list("dimensions", &[dim]);
                self.flag("is_stable", *stable);
                self.call("to_apply", *body);
            }
            Op::TopK { k, largest } => {
                self.put("k", k);
                self.put("largest", largest);
            }
            Op::Cholesky { lower } => self.flag("lower", *lower),
            Op::TriangularSolve { left, lower, unit_diagonal, transpose } => {
                self.flag("left_side", *left);
                self.flag("lower", *lower);
                self.flag("unit_diagonal", *unit_diagonal);
                if *transpose != TriangularTranspose::No {
                    self.put("transpose_a", name_in(&TRANSPOSES, transpose));
                }
            }
            Op::Fft { kind, lengths } => {
                self.put("fft_type", name_in(&FFT_KINDS, kind));
                self.list("fft_length", lengths);
            }
            Op::Call { .. }
            | Op::Fusion { .. }
            | Op::While { .. }
            | Op::Conditional { .. }
            | Op::CustomCall { .. }
            | Op::AsyncStart { .. }
            | Op::Infeed { .. }
            | Op::Outfeed { .. }
            | Op::Collective { .. }
            | Op::Send { .. }
            | Op::SendDone { .. }
            | Op::Recv { .. }
            | Op::RecvDone { .. } => self.control(op),
        }
    }

    /// Calls, host queues and what goes between devices.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "the last of a chain of printers by family: debug builds say what none takes"
    )]
    fn control(&mut self, op: &Op) {
        match op {
            Op::Call { body } => self.call("to_apply", *body),
            Op::Fusion { body, kind } => {
                self.put("kind", kind);
                self.call("calls", *body);
            }
            Op::While { condition, body } => {
                self.call("condition", *condition);
                self.call("body", *body);
            }
            Op::Conditional { branches } => self.calls("branch_computations", branches),
            Op::CustomCall { target, config, has_side_effect, calls } => {
                self.string("custom_call_target", target);
                self.flag("custom_call_has_side_effect", *has_side_effect);
                self.calls("called_computations", calls);
                if !config.is_empty() {
                    self.string("backend_config", config);
                }
            }
            Op::AsyncStart { body } => self.call("calls", *body),
            Op::Infeed { config } => {
                if !config.is_empty() {
                    self.string("infeed_config", config);
                }
            }
            Op::Outfeed { shape, config } => {
                self.put("outfeed_shape", shape);
                if !config.is_empty() {
                    self.string("outfeed_config", config);
                }
            }
            Op::Collective { kind, devices } => self.collective(kind, devices),
            Op::Send { channel, host, .. }
            | Op::SendDone { channel, host }
            | Op::Recv { channel, host, .. }
            | Op::RecvDone { channel, host } => {
                if let Some(c) = channel {
                    self.put("channel_id", c);
                }
                self.flag("is_host_transfer", *host);
            }
            other => debug_assert!(false, "{} has its attributes written elsewhere", other.name()),
        }
    }

    fn index_map(&mut self, map: &IndexMap, names: [&str; 5]) {
        for (i, (name, list)) in names.into_iter().zip(map.lists()).enumerate() {
            // Batching dimensions only where there are some.
            if i < 3 { self.list(name, list) } else { self.some(name, list) }
        }
        self.put(IndexMap::VECTOR, map.vector);
    }

    fn gather(&mut self, g: &Gather) {
        self.index_map(&g.map, IndexMap::GATHER);
        self.list("slice_sizes", &g.slice_sizes);
        self.flag("indices_are_sorted", g.indices_are_sorted);
    }

    fn scatter(&mut self, s: &Scatter) {
        self.index_map(&s.map, IndexMap::SCATTER);
        self.flag("indices_are_sorted", s.indices_are_sorted);
        self.flag("unique_indices", s.unique_indices);
        self.call("to_apply", s.body);
    }

    fn convolution(&mut self, c: &Conv) {
        self.window(&c.window);
        let d = &c.dims;
        let labels = |a: (usize, char), b: (usize, char), spatial: &[usize]| {
            let mut out = vec!['?'; spatial.len() + 2];
            let all = [a, b].into_iter().chain(spatial.iter().enumerate().map(|(i, &p)| (p, (b'0' + i as u8) as char)));
            for (place, label) in all {
                if let Some(slot) = out.get_mut(place) {
                    *slot = label;
                }
            }
            out.into_iter().collect::<String>()
        };
        let input = labels((d.input.batch, 'b'), (d.input.feature, 'f'), &d.input.spatial);
        let kernel = labels((d.kernel.input, 'i'), (d.kernel.output, 'o'), &d.kernel.spatial);
        let output = labels((d.output.batch, 'b'), (d.output.feature, 'f'), &d.output.spatial);
        self.put("dim_labels", format_args!("{input}_{kernel}->{output}"));
        if c.feature_groups != 1 {
            self.put("feature_group_count", c.feature_groups);
        }
        if c.batch_groups != 1 {
            self.put("batch_group_count", c.batch_groups);
        }
        self.precision(c.precision, 2);
    }

    fn collective(&mut self, kind: &CollectiveKind, devices: &Collective) {
        if let Some(c) = devices.channel {
            self.put("channel_id", c);
        }
        if let CollectiveKind::Permute { pairs } = kind {
            let pairs: Vec<String> = pairs.iter().map(|(a, b)| format!("{{{a},{b}}}")).collect();
            self.list("source_target_pairs", &pairs);
        }
        if !matches!(kind, CollectiveKind::Permute { .. }) || !devices.groups.is_empty() {
            let groups: Vec<String> = devices.groups.iter().map(|g| braces(g)).collect();
            self.list("replica_groups", &groups);
        }
        self.flag("use_global_device_ids", devices.use_global_ids);
        match kind {
            CollectiveKind::AllReduce { body } | CollectiveKind::Reduce { body } => self.call("to_apply", *body),
            CollectiveKind::AllGather { dim } | CollectiveKind::AllToAll { dim: Some(dim) } => {
                self.list("dimensions", &[dim]);
            }
            CollectiveKind::ReduceScatter { dim, body } => {
                self.list("dimensions", &[dim]);
                self.call("to_apply", *body);
            }
            CollectiveKind::AllToAll { dim: None }
            | CollectiveKind::Permute { .. }
            | CollectiveKind::Broadcast
            | CollectiveKind::RaggedAllToAll => {}
        }
    }
}

fn braces<T: std::fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    format!("{{{}}}", items.join(","))
}
