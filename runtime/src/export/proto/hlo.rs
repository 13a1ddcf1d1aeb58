//! The part of the HLO messages that XProf's pages need.

use prost::Message;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Message)]
pub struct HloProto {
    #[prost(message, optional, tag = "1")]
    pub hlo_module: Option<HloModule>,
    #[prost(message, optional, tag = "3")]
    pub buffer_assignment: Option<BufferAssignment>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HloModule {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub entry_computation_name: String,
    #[prost(message, repeated, tag = "3")]
    pub computations: Vec<HloComputation>,
    #[prost(message, optional, tag = "4")]
    pub host_program_shape: Option<ProgramShape>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(int64, tag = "6")]
    pub entry_computation_id: i64,
    #[prost(message, optional, tag = "7")]
    pub schedule: Option<Schedule>,
    /// Of the result; of several results a tuple.
    #[prost(message, optional, tag = "12")]
    pub result_sharding: Option<OpSharding>,
    #[prost(message, repeated, tag = "14")]
    pub parameter_shardings: Vec<OpSharding>,
}

/// A module with what belongs to its compilation.
#[derive(Clone, PartialEq, Message)]
pub struct HloModuleWithConfig {
    #[prost(message, optional, tag = "1")]
    pub hlo_module: Option<HloModule>,
    #[prost(message, optional, tag = "2")]
    pub config: Option<HloModuleConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HloModuleConfig {
    #[prost(message, optional, tag = "1")]
    pub entry_computation_layout: Option<ProgramShape>,
    #[prost(int64, tag = "4")]
    pub replica_count: i64,
    #[prost(int64, tag = "5")]
    pub num_partitions: i64,
    #[prost(bool, tag = "7")]
    pub use_spmd_partitioning: bool,
}

/// How an array is divided. Kinds: 0 replicated, 2 a tuple, 3 tiles.
#[derive(Clone, PartialEq, Message)]
pub struct OpSharding {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// Tiles along each dimension; with `replicated_last` the copies of each behind them.
    #[prost(int64, repeated, tag = "3")]
    pub tiles: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub devices: Vec<i64>,
    #[prost(message, repeated, tag = "5")]
    pub elements: Vec<OpSharding>,
    #[prost(bool, tag = "6")]
    pub replicated_last: bool,
    /// What the last of `tiles` are, where they are not dimensions: kinds of shardings.
    #[prost(int32, repeated, tag = "8")]
    pub last_kinds: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Schedule {
    #[prost(btree_map = "int64, message", tag = "1")]
    pub sequences: std::collections::BTreeMap<i64, Sequence>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sequence {
    #[prost(int64, repeated, tag = "1")]
    pub instruction_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProgramShape {
    #[prost(message, repeated, tag = "1")]
    pub parameters: Vec<Shape>,
    #[prost(message, optional, tag = "2")]
    pub result: Option<Shape>,
    #[prost(string, repeated, tag = "3")]
    pub parameter_names: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HloComputation {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, repeated, tag = "2")]
    pub instructions: Vec<HloInstruction>,
    #[prost(message, optional, tag = "4")]
    pub program_shape: Option<ProgramShape>,
    #[prost(int64, tag = "5")]
    pub id: i64,
    #[prost(int64, tag = "6")]
    pub root_id: i64,
}

/// What a program's author says to the compiler beside an operation.
#[derive(Clone, PartialEq, Message)]
pub struct FrontendAttributes {
    #[prost(btree_map = "string, string", tag = "1")]
    pub map: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HloInstruction {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub opcode: String,
    #[prost(message, optional, tag = "3")]
    pub shape: Option<Shape>,
    #[prost(message, optional, tag = "7")]
    pub metadata: Option<OpMetadata>,
    #[prost(int64, tag = "9")]
    pub parameter_number: i64,
    #[prost(string, tag = "11")]
    pub fusion_kind: String,
    #[prost(int64, tag = "13")]
    pub tuple_index: i64,
    #[prost(int64, repeated, tag = "14")]
    pub dimensions: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub window: Option<Window>,
    #[prost(message, optional, tag = "16")]
    pub convolution_dimension_numbers: Option<ConvolutionDimensions>,
    #[prost(message, repeated, tag = "17")]
    pub slice_dimensions: Vec<SliceDimension>,
    #[prost(int32, tag = "18")]
    pub exponent_bits: i32,
    #[prost(int32, tag = "19")]
    pub mantissa_bits: i32,
    #[prost(int64, repeated, tag = "20")]
    pub dynamic_slice_sizes: Vec<i64>,
    #[prost(message, optional, tag = "21")]
    pub padding_config: Option<PaddingConfig>,
    #[prost(int64, tag = "26")]
    pub channel_id: i64,
    #[prost(string, tag = "28")]
    pub custom_call_target: String,
    #[prost(message, optional, tag = "30")]
    pub dot_dimension_numbers: Option<DotDimensions>,
    #[prost(message, optional, tag = "33")]
    pub gather_dimension_numbers: Option<IndexDimensions>,
    #[prost(int64, repeated, tag = "34")]
    pub gather_slice_sizes: Vec<i64>,
    #[prost(int64, tag = "35")]
    pub id: i64,
    #[prost(int64, repeated, tag = "36")]
    pub operand_ids: Vec<i64>,
    #[prost(int64, repeated, tag = "38")]
    pub called_computation_ids: Vec<i64>,
    #[prost(message, optional, tag = "48")]
    pub scatter_dimension_numbers: Option<IndexDimensions>,
    #[prost(message, repeated, tag = "49")]
    pub replica_groups: Vec<ReplicaGroup>,
    #[prost(int64, tag = "50")]
    pub feature_group_count: i64,
    #[prost(message, repeated, tag = "52")]
    pub source_target_pairs: Vec<SourceTarget>,
    #[prost(int64, tag = "58")]
    pub batch_group_count: i64,
    #[prost(bool, tag = "60")]
    pub is_stable: bool,
    #[prost(string, tag = "63")]
    pub comparison_direction: String,
    #[prost(bool, tag = "65")]
    pub custom_call_has_side_effect: bool,
    #[prost(message, optional, tag = "68")]
    pub frontend_attributes: Option<FrontendAttributes>,
    #[prost(bool, tag = "67")]
    pub indices_are_sorted: bool,
    #[prost(bool, tag = "69")]
    pub unique_indices: bool,
    #[prost(bool, tag = "71")]
    pub use_global_device_ids: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Window {
    #[prost(message, repeated, tag = "1")]
    pub dimensions: Vec<WindowDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub struct WindowDimension {
    #[prost(int64, tag = "1")]
    pub size: i64,
    #[prost(int64, tag = "2")]
    pub stride: i64,
    #[prost(int64, tag = "3")]
    pub padding_low: i64,
    #[prost(int64, tag = "4")]
    pub padding_high: i64,
    #[prost(int64, tag = "5")]
    pub window_dilation: i64,
    #[prost(int64, tag = "6")]
    pub base_dilation: i64,
    #[prost(bool, tag = "7")]
    pub window_reversal: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConvolutionDimensions {
    #[prost(int64, tag = "3")]
    pub kernel_input_feature: i64,
    #[prost(int64, tag = "4")]
    pub kernel_output_feature: i64,
    #[prost(int64, repeated, tag = "6")]
    pub kernel_spatial: Vec<i64>,
    #[prost(int64, tag = "7")]
    pub input_batch: i64,
    #[prost(int64, tag = "8")]
    pub input_feature: i64,
    #[prost(int64, tag = "9")]
    pub output_batch: i64,
    #[prost(int64, tag = "10")]
    pub output_feature: i64,
    #[prost(int64, repeated, tag = "11")]
    pub input_spatial: Vec<i64>,
    #[prost(int64, repeated, tag = "12")]
    pub output_spatial: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SliceDimension {
    #[prost(int64, tag = "1")]
    pub start: i64,
    #[prost(int64, tag = "2")]
    pub limit: i64,
    #[prost(int64, tag = "3")]
    pub stride: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PaddingConfig {
    #[prost(message, repeated, tag = "1")]
    pub dimensions: Vec<PadDimension>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PadDimension {
    #[prost(int64, tag = "1")]
    pub low: i64,
    #[prost(int64, tag = "2")]
    pub high: i64,
    #[prost(int64, tag = "3")]
    pub interior: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct DotDimensions {
    #[prost(int64, repeated, tag = "1")]
    pub lhs_contracting: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub rhs_contracting: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub lhs_batch: Vec<i64>,
    #[prost(int64, repeated, tag = "4")]
    pub rhs_batch: Vec<i64>,
}

/// Of gathers and scatters alike: the names are a gather's.
#[derive(Clone, PartialEq, Message)]
pub struct IndexDimensions {
    #[prost(int64, repeated, tag = "1")]
    pub offset_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "2")]
    pub collapsed_slice_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "3")]
    pub start_index_map: Vec<i64>,
    #[prost(int64, tag = "4")]
    pub index_vector_dim: i64,
    #[prost(int64, repeated, tag = "5")]
    pub operand_batching_dims: Vec<i64>,
    #[prost(int64, repeated, tag = "6")]
    pub start_indices_batching_dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ReplicaGroup {
    #[prost(int64, repeated, tag = "1")]
    pub replica_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SourceTarget {
    #[prost(int64, tag = "1")]
    pub source: i64,
    #[prost(int64, tag = "2")]
    pub target: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct OpMetadata {
    #[prost(string, tag = "1")]
    pub op_type: String,
    #[prost(string, tag = "2")]
    pub op_name: String,
    #[prost(string, tag = "3")]
    pub source_file: String,
    #[prost(int32, tag = "4")]
    pub source_line: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Shape {
    #[prost(int32, tag = "2")]
    pub element_type: i32,
    #[prost(int64, repeated, tag = "3")]
    pub dimensions: Vec<i64>,
    #[prost(message, repeated, tag = "4")]
    pub tuple_shapes: Vec<Shape>,
    #[prost(message, optional, tag = "5")]
    pub layout: Option<Layout>,
    #[prost(bool, repeated, tag = "6")]
    pub is_dynamic_dimension: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Layout {
    #[prost(int64, repeated, tag = "1")]
    pub minor_to_major: Vec<i64>,
    #[prost(int64, tag = "8")]
    pub memory_space: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct BufferAssignment {
    #[prost(message, repeated, tag = "1")]
    pub logical_buffers: Vec<LogicalBuffer>,
    #[prost(message, repeated, tag = "3")]
    pub buffer_allocations: Vec<BufferAllocation>,
    #[prost(message, repeated, tag = "4")]
    pub heap_simulator_traces: Vec<HeapTrace>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LogicalBuffer {
    #[prost(int64, tag = "1")]
    pub id: i64,
    #[prost(int64, tag = "2")]
    pub size: i64,
    #[prost(message, optional, tag = "3")]
    pub defined_at: Option<Location>,
    #[prost(int64, tag = "4")]
    pub color: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Location {
    #[prost(string, tag = "2")]
    pub instruction_name: String,
    #[prost(int64, repeated, tag = "3")]
    pub shape_index: Vec<i64>,
    #[prost(int64, tag = "4")]
    pub instruction_id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct BufferAllocation {
    #[prost(int64, tag = "1")]
    pub index: i64,
    #[prost(int64, tag = "2")]
    pub size: i64,
    #[prost(bool, tag = "3")]
    pub is_thread_local: bool,
    #[prost(bool, tag = "5")]
    pub is_entry_computation_parameter: bool,
    #[prost(int64, tag = "6")]
    pub parameter_number: i64,
    #[prost(bool, tag = "7")]
    pub maybe_live_out: bool,
    #[prost(int64, tag = "8")]
    pub color: i64,
    #[prost(message, repeated, tag = "9")]
    pub assigned: Vec<Assigned>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Assigned {
    #[prost(int64, tag = "1")]
    pub logical_buffer_id: i64,
    #[prost(int64, tag = "2")]
    pub offset: i64,
    #[prost(int64, tag = "3")]
    pub size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct HeapTrace {
    #[prost(message, repeated, tag = "1")]
    pub events: Vec<HeapEvent>,
    #[prost(bool, tag = "2")]
    pub whole_module_simulation: bool,
    #[prost(int64, tag = "3")]
    pub buffer_allocation_index: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct HeapEvent {
    /// 0 take, 1 give back.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(int64, tag = "2")]
    pub buffer_id: i64,
    #[prost(string, tag = "3")]
    pub computation_name: String,
    #[prost(string, tag = "4")]
    pub instruction_name: String,
}
