//! A graph as an HLO message that XLA's own reader takes: XProf reads the program from it for its graph and memory pages.
//!
//! Operations keep their names, opcodes, operands and the attributes that the message must have. What has no form here (and
//! operations that passes made, which the source does not have) stands as a custom call of its opcode's name. Constants
//! are without their values.

use super::proto::hlo::*;
use prost::Message;
use std::collections::{BTreeMap, HashSet};
use systole_compiler::graph::names::{DIRECTIONS, name_in};
use systole_compiler::graph::{self, CollectiveKind, CompId, Module, Op, dictionary};
use systole_compiler::spmd::{Boundary, Edge};

/// Numbers of element types in HLO messages.
#[rustfmt::skip]
pub const TYPES: &[(&str, i32)] = &[
    ("pred", 1), ("s8", 2), ("s16", 3), ("s32", 4), ("s64", 5), ("u8", 6), ("u16", 7), ("u32", 8), ("u64", 9),
    ("f16", 10), ("f32", 11), ("f64", 12), ("c64", 15), ("bf16", 16), ("c128", 18), ("f8e5m2", 19), ("f8e4m3fn", 20),
    ("s4", 21), ("u4", 22), ("f8e4m3b11fnuz", 23), ("f8e5m2fnuz", 24), ("f8e4m3fnuz", 25), ("s2", 26), ("u2", 27),
    ("f8e4m3", 28), ("f8e3m4", 29), ("f4e2m1fn", 32), ("f8e8m0fnu", 33),
];
pub const TUPLE: i32 = 13;
const TOKEN: i32 = 17;
const UNKNOWN: i32 = 11;

/// A shape as a message.
pub fn shape(s: &graph::Shape) -> Shape {
    match s {
        graph::Shape::Array(a) => Shape {
            element_type: TYPES.iter().find(|t| t.0 == a.dtype.name()).map_or(UNKNOWN, |t| t.1),
            dimensions: a.dims.iter().map(|d| *d as i64).collect(),
            is_dynamic_dimension: (0..a.rank()).map(|i| a.is_dynamic(i)).collect(),
            layout: Some(Layout { minor_to_major: a.layout().into_iter().map(i64::from).collect(), memory_space: 0 }),
            ..Shape::default()
        },
        graph::Shape::Tuple(all) => {
            Shape { element_type: TUPLE, tuple_shapes: all.iter().map(shape).collect(), ..Shape::default() }
        }
        graph::Shape::Token => Shape { element_type: TOKEN, ..Shape::default() },
    }
}

fn numbers<T: Copy + TryInto<i64>>(all: &[T]) -> Vec<i64> {
    all.iter().map(|n| (*n).try_into().unwrap_or(0)).collect()
}

/// Ids of the messages: computations from 1, instructions from 1 in order of the module.
struct Ids {
    /// Instructions before those of each computation.
    before: Vec<i64>,
}

impl Ids {
    fn computation(&self, c: CompId) -> i64 {
        c.0 as i64 + 1
    }

    fn instruction(&self, computation: usize, node: usize) -> i64 {
        self.before[computation] + node as i64 + 1
    }
}

/// The computations of a module, each with its instructions, and the order in which they run.
pub struct Computations {
    pub all: Vec<HloComputation>,
    pub entry: i64,
    pub schedule: Schedule,
    /// The first id that no instruction has.
    pub free: i64,
}

/// A module's computations as messages.
pub fn computations(m: &Module) -> Computations {
    let mut before = Vec::new();
    let mut free = 1;
    for c in &m.computations {
        before.push(free - 1);
        free += c.nodes.len() as i64;
    }
    let ids = Ids { before };
    let (mut names, mut taken) = (HashSet::new(), HashSet::new());
    let mut all = Vec::new();
    let mut sequences = BTreeMap::new();
    let fused = |op: &Op| matches!(op, Op::Fusion { .. });
    let nodes = m.computations.iter().flat_map(|c| &c.nodes);
    let inside: HashSet<CompId> = nodes.filter(|n| fused(&n.op)).flat_map(|n| n.op.called()).collect();
    for (k, c) in m.computations.iter().enumerate() {
        let mut instructions: Vec<HloInstruction> = (0..c.nodes.len()).map(|n| instruction(m, &ids, k, n)).collect();
        // A reader of the message takes no name twice in a module, after it has put `_` for what it does not like in names;
        // here computations may share names, and those may be any text.
        for i in &mut instructions {
            let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
            i.name = i.name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
            if !i.name.starts_with(begins) {
                i.name.insert(0, '_');
            }
            while !taken.insert(i.name.clone()) {
                i.name = format!("{}.{}", i.name, i.id);
            }
        }
        let id = ids.computation(CompId(k as u32));
        if !inside.contains(&CompId(k as u32)) {
            sequences.insert(id, Sequence { instruction_ids: instructions.iter().map(|i| i.id).collect() });
        }
        let params = c.params.iter().map(|p| c.node(*p));
        let program_shape = Some(ProgramShape {
            parameters: params.clone().map(|p| shape(&p.shape)).collect(),
            result: Some(shape(c.result())),
            parameter_names: params.map(|p| p.name.clone()).collect(),
        });
        let mut name = c.name.clone();
        while !names.insert(name.clone()) {
            name.push('_');
        }
        let root_id = ids.instruction(k, c.root.index());
        all.push(HloComputation { name, instructions, program_shape, id, root_id });
    }
    Computations { all, entry: ids.computation(m.entry), schedule: Schedule { sequences }, free }
}

/// A device's program as the bytes of a message (with its configuration) that says how the entry's arrays are divided;
/// without a boundary every device has all of them.
pub fn sharded_message(m: &Module, boundary: Option<&Boundary>, (replicas, partitions): (u32, u32)) -> Vec<u8> {
    let c = computations(m);
    let entry = c.all.iter().find(|x| x.id == c.entry);
    let sharding = |b: Option<&Boundary>, e: Option<&Edge>| match (b, e) {
        (Some(b), Some(e)) => tiles(b, e),
        _ => OpSharding::default(),
    };
    let leaves = |s: &graph::Shape| s.leaves().len();
    let inputs: usize = m.entry().params.iter().map(|p| leaves(&m.entry().node(*p).shape)).sum();
    let parameter_shardings = (0..inputs).map(|i| sharding(boundary, boundary.and_then(|b| b.params.get(i)))).collect();
    let result = |i| sharding(boundary, boundary.and_then(|b| b.results.get(i)));
    let results = m.entry().result();
    let result_sharding = match results {
        graph::Shape::Tuple(_) => {
            // A tuple of nothing has one element all the same.
            OpSharding { kind: 2, elements: (0..leaves(results).max(1)).map(result).collect(), ..OpSharding::default() }
        }
        graph::Shape::Array(_) | graph::Shape::Token => result(0),
    };
    let host_program_shape = entry.and_then(|e| e.program_shape.clone());
    let config = HloModuleConfig {
        entry_computation_layout: host_program_shape.clone(),
        replica_count: i64::from(replicas),
        num_partitions: i64::from(partitions),
        use_spmd_partitioning: true,
    };
    let module = HloModule {
        name: m.name.clone(),
        entry_computation_name: entry.map_or_else(String::new, |e| e.name.clone()),
        host_program_shape,
        entry_computation_id: c.entry,
        computations: c.all,
        result_sharding: Some(result_sharding),
        parameter_shardings,
        ..HloModule::default()
    };
    HloModuleWithConfig { hlo_module: Some(module), config: Some(config) }.encode_to_vec()
}

/// An array's sharding: tiles in row-major order, each with the partitions that have it.
fn tiles(b: &Boundary, e: &Edge) -> OpSharding {
    let mesh = &b.mesh;
    let (divided, used, terms) = (e.sharding.dims.concat(), e.sharding.used(), e.unreduced.list());
    let sums = mesh.size(&terms);
    if e.sharding.is_replicated() && sums == 1 {
        return OpSharding::default();
    }
    let copied: Vec<_> = mesh.all().into_iter().filter(|a| !used.has(*a) && !e.unreduced.has(*a)).collect();
    let copies = mesh.size(&copied);
    let mut tiles: Vec<i64> = e.sharding.dims.iter().map(|d| mesh.size(d) as i64).collect();
    if sums == mesh.devices() {
        return OpSharding { kind: UNREDUCED, ..OpSharding::default() };
    }
    let last: Vec<(u64, i32)> = [(sums, UNREDUCED), (copies, REPLICATED)].into_iter().filter(|l| l.0 > 1).collect();
    tiles.extend(last.iter().map(|l| l.0 as i64));
    let all = (0..mesh.size(&divided)).flat_map(|t| (0..sums).flat_map(move |k| (0..copies).map(move |c| [t, c, k])));
    let place = |at: [u64; 3]| mesh.place(&divided, at[0]) + mesh.place(&copied, at[1]) + mesh.place(&terms, at[2]);
    let devices = all.map(|at| mesh.partition(place(at)) as i64).collect();
    let (replicated_last, last_kinds) = match sums {
        1 => (copies > 1, Vec::new()),
        _ => (false, last.iter().map(|l| l.1).collect()),
    };
    OpSharding { kind: 3, tiles, devices, replicated_last, last_kinds, ..OpSharding::default() }
}

/// Kinds of shardings that the last tiles may be.
const REPLICATED: i32 = 0;
const UNREDUCED: i32 = 6;

fn instruction(m: &Module, ids: &Ids, computation: usize, node: usize) -> HloInstruction {
    let n = &m.computations[computation].nodes[node];
    let said = n.attribute("frontend_attributes").map(dictionary::entries);
    let said = said.map(|all| FrontendAttributes { map: all.into_iter().collect() });
    let base = HloInstruction {
        frontend_attributes: said,
        name: n.name.clone(),
        opcode: n.op.name().to_string(),
        shape: Some(shape(&n.shape)),
        id: ids.instruction(computation, node),
        operand_ids: n.operands.iter().map(|o| ids.instruction(computation, o.index())).collect(),
        called_computation_ids: n.op.called().into_iter().map(|c| ids.computation(c)).collect(),
        ..HloInstruction::default()
    };
    attributes(&n.op, ids, base)
}

/// What an instruction of an operation has besides; a custom call where that is not known.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "messages of HLO have no others: they are written as custom calls that say what they are"
)]
fn attributes(op: &Op, ids: &Ids, base: HloInstruction) -> HloInstruction {
    let by = |dimensions: Vec<i64>| HloInstruction { dimensions, ..base.clone() };
    match op {
        Op::Parameter { index } => HloInstruction { parameter_number: *index as i64, ..base },
        Op::Iota { dim } | Op::Concatenate { dim } => by(vec![*dim as i64]),
        Op::Sort { dim, stable, .. } => HloInstruction { dimensions: vec![*dim as i64], is_stable: *stable, ..base },
        Op::Compare { direction, .. } => {
            HloInstruction { comparison_direction: name_in(&DIRECTIONS, direction).into(), ..base }
        }
        Op::ReducePrecision { exponent, mantissa } => {
            HloInstruction { exponent_bits: *exponent as i32, mantissa_bits: *mantissa as i32, ..base }
        }
        Op::Broadcast { dims } | Op::Reverse { dims } | Op::Reduce { dims, .. } | Op::Map { dims, .. } => {
            by(numbers(dims))
        }
        Op::Transpose { permutation } => by(numbers(permutation)),
        Op::Slice { dims } => {
            let one = |d: &graph::SliceDim| SliceDimension {
                start: d.start as i64,
                limit: d.limit as i64,
                stride: d.stride as i64,
            };
            HloInstruction { slice_dimensions: dims.iter().map(one).collect(), ..base }
        }
        Op::Pad { dims } => {
            let one = |d: &graph::PadDim| PadDimension { low: d.low, high: d.high, interior: d.interior as i64 };
            let padding_config = Some(PaddingConfig { dimensions: dims.iter().map(one).collect() });
            HloInstruction { padding_config, ..base }
        }
        Op::DynamicSlice { sizes } => HloInstruction { dynamic_slice_sizes: numbers(sizes), ..base },
        Op::Gather(g) => gather(g, base),
        Op::Scatter(s) => scatter(s, base),
        Op::Dot { dims, .. } => {
            let dot_dimension_numbers = Some(DotDimensions {
                lhs_contracting: numbers(&dims.lhs_contracting),
                rhs_contracting: numbers(&dims.rhs_contracting),
                lhs_batch: numbers(&dims.lhs_batch),
                rhs_batch: numbers(&dims.rhs_batch),
            });
            HloInstruction { dot_dimension_numbers, ..base }
        }
        Op::Convolution(c) => convolution(c, base),
        Op::ReduceWindow { window: w, .. } | Op::SelectAndScatter { window: w, .. } => {
            HloInstruction { window: Some(window(w)), ..base }
        }
        Op::GetTupleElement { index } => HloInstruction { tuple_index: *index as i64, ..base },
        Op::Fusion { kind, .. } => HloInstruction { fusion_kind: kind.clone(), ..base },
        Op::While { condition, body } => {
            let called_computation_ids = vec![ids.computation(*body), ids.computation(*condition)];
            HloInstruction { called_computation_ids, ..base }
        }
        Op::CustomCall { target, has_side_effect, .. } => {
            HloInstruction { custom_call_target: target.clone(), custom_call_has_side_effect: *has_side_effect, ..base }
        }
        Op::Collective { kind, devices } => collective(kind, devices, base),
        Op::Constant(_)
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Select
        | Op::Clamp
        | Op::Convert
        | Op::BitcastConvert
        | Op::Reshape
        | Op::Copy
        | Op::Bitcast
        | Op::DynamicUpdateSlice
        | Op::Tuple
        | Op::OptBarrier
        | Op::AfterAll
        | Op::AddDependency
        | Op::Call { .. }
        | Op::Conditional { .. }
        | Op::ReplicaId
        | Op::PartitionId => base,
        _ => stand_in(base),
    }
}

/// A custom call in the place of an instruction.
pub fn stand_in(i: HloInstruction) -> HloInstruction {
    HloInstruction { custom_call_target: i.opcode, opcode: "custom-call".into(), ..i }
}

fn window(dims: &[graph::WindowDim]) -> Window {
    let one = |d: &graph::WindowDim| WindowDimension {
        size: d.size as i64,
        stride: d.stride as i64,
        padding_low: d.pad_low,
        padding_high: d.pad_high,
        window_dilation: d.window_dilation as i64,
        base_dilation: d.base_dilation as i64,
        window_reversal: d.reversal,
    };
    Window { dimensions: dims.iter().map(one).collect() }
}

fn convolution(c: &graph::Conv, base: HloInstruction) -> HloInstruction {
    let d = &c.dims;
    HloInstruction {
        window: Some(window(&c.window)),
        convolution_dimension_numbers: Some(ConvolutionDimensions {
            kernel_input_feature: d.kernel.input as i64,
            kernel_output_feature: d.kernel.output as i64,
            kernel_spatial: numbers(&d.kernel.spatial),
            input_batch: d.input.batch as i64,
            input_feature: d.input.feature as i64,
            output_batch: d.output.batch as i64,
            output_feature: d.output.feature as i64,
            input_spatial: numbers(&d.input.spatial),
            output_spatial: numbers(&d.output.spatial),
        }),
        feature_group_count: c.feature_groups as i64,
        batch_group_count: c.batch_groups as i64,
        ..base
    }
}

fn index_map(map: &graph::IndexMap) -> IndexDimensions {
    let [offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims, start_indices_batching_dims] =
        map.lists().map(numbers);
    IndexDimensions {
        offset_dims,
        collapsed_slice_dims,
        start_index_map,
        index_vector_dim: map.vector as i64,
        operand_batching_dims,
        start_indices_batching_dims,
    }
}

fn gather(g: &graph::Gather, base: HloInstruction) -> HloInstruction {
    HloInstruction {
        gather_dimension_numbers: Some(index_map(&g.map)),
        gather_slice_sizes: numbers(&g.slice_sizes),
        indices_are_sorted: g.indices_are_sorted,
        ..base
    }
}

fn scatter(s: &graph::Scatter, base: HloInstruction) -> HloInstruction {
    HloInstruction {
        scatter_dimension_numbers: Some(index_map(&s.map)),
        indices_are_sorted: s.indices_are_sorted,
        unique_indices: s.unique_indices,
        ..base
    }
}

fn collective(kind: &CollectiveKind, devices: &graph::Collective, base: HloInstruction) -> HloInstruction {
    let group = |g: &Vec<u64>| ReplicaGroup { replica_ids: numbers(g) };
    let base = HloInstruction {
        replica_groups: devices.groups.iter().map(group).collect(),
        channel_id: devices.channel.unwrap_or(0) as i64,
        use_global_device_ids: devices.use_global_ids,
        ..base
    };
    match kind {
        CollectiveKind::AllReduce { .. } => base,
        CollectiveKind::AllGather { dim } | CollectiveKind::ReduceScatter { dim, .. } => {
            HloInstruction { dimensions: vec![*dim as i64], ..base }
        }
        CollectiveKind::AllToAll { dim } => {
            HloInstruction { dimensions: dim.iter().map(|d| *d as i64).collect(), ..base }
        }
        CollectiveKind::Permute { pairs } => {
            let pair = |p: &(u64, u64)| SourceTarget { source: p.0 as i64, target: p.1 as i64 };
            HloInstruction { source_target_pairs: pairs.iter().map(pair).collect(), ..base }
        }
        CollectiveKind::Broadcast | CollectiveKind::RaggedAllToAll | CollectiveKind::Reduce { .. } => stand_in(base),
    }
}
