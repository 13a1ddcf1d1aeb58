//! The part of the HLO messages that XProf's pages need.

use std::collections::BTreeMap;

messages! {
    HloProto {
        hlo_module: Option<HloModule> = [message, optional] 1,
        buffer_assignment: Option<BufferAssignment> = [message, optional] 3,
    }
    HloModule {
        name: String = [string] 1,
        entry_computation_name: String = [string] 2,
        computations: Vec<HloComputation> = [message, repeated] 3,
        host_program_shape: Option<ProgramShape> = [message, optional] 4,
        id: i64 = [int64] 5,
        entry_computation_id: i64 = [int64] 6,
        schedule: Option<Schedule> = [message, optional] 7,
        /// Of the result; of several results a tuple.
        result_sharding: Option<OpSharding> = [message, optional] 12,
        parameter_shardings: Vec<OpSharding> = [message, repeated] 14,
    }
    /// A module with what belongs to its compilation.
    HloModuleWithConfig {
        hlo_module: Option<HloModule> = [message, optional] 1,
        config: Option<HloModuleConfig> = [message, optional] 2,
    }
    HloModuleConfig {
        entry_computation_layout: Option<ProgramShape> = [message, optional] 1,
        replica_count: i64 = [int64] 4,
        num_partitions: i64 = [int64] 5,
        use_spmd_partitioning: bool = [bool] 7,
    }
    /// How an array is divided. Kinds: 0 replicated, 2 a tuple, 3 tiles.
    OpSharding {
        kind: i32 = [int32] 1,
        /// Tiles along each dimension; with `replicated_last` the copies of each behind them.
        tiles: Vec<i64> = [int64, repeated] 3,
        devices: Vec<i64> = [int64, repeated] 4,
        elements: Vec<OpSharding> = [message, repeated] 5,
        replicated_last: bool = [bool] 6,
        /// What the last of `tiles` are, where they are not dimensions: kinds of shardings.
        last_kinds: Vec<i32> = [int32, repeated] 8,
    }
    Schedule {
        sequences: std::collections::BTreeMap<i64, Sequence> = [btree_map = "int64, message"] 1,
    }
    Sequence {
        instruction_ids: Vec<i64> = [int64, repeated] 1,
    }
    ProgramShape {
        parameters: Vec<Shape> = [message, repeated] 1,
        result: Option<Shape> = [message, optional] 2,
        parameter_names: Vec<String> = [string, repeated] 3,
    }
    HloComputation {
        name: String = [string] 1,
        instructions: Vec<HloInstruction> = [message, repeated] 2,
        program_shape: Option<ProgramShape> = [message, optional] 4,
        id: i64 = [int64] 5,
        root_id: i64 = [int64] 6,
    }
    /// What a program's author says to the compiler beside an operation.
    FrontendAttributes {
        map: BTreeMap<String, String> = [btree_map = "string, string"] 1,
    }
    HloInstruction {
        name: String = [string] 1,
        opcode: String = [string] 2,
        shape: Option<Shape> = [message, optional] 3,
        metadata: Option<OpMetadata> = [message, optional] 7,
        parameter_number: i64 = [int64] 9,
        fusion_kind: String = [string] 11,
        tuple_index: i64 = [int64] 13,
        dimensions: Vec<i64> = [int64, repeated] 14,
        window: Option<Window> = [message, optional] 15,
        convolution_dimension_numbers: Option<ConvolutionDimensions> = [message, optional] 16,
        slice_dimensions: Vec<SliceDimension> = [message, repeated] 17,
        exponent_bits: i32 = [int32] 18,
        mantissa_bits: i32 = [int32] 19,
        dynamic_slice_sizes: Vec<i64> = [int64, repeated] 20,
        padding_config: Option<PaddingConfig> = [message, optional] 21,
        channel_id: i64 = [int64] 26,
        custom_call_target: String = [string] 28,
        dot_dimension_numbers: Option<DotDimensions> = [message, optional] 30,
        gather_dimension_numbers: Option<IndexDimensions> = [message, optional] 33,
        gather_slice_sizes: Vec<i64> = [int64, repeated] 34,
        id: i64 = [int64] 35,
        operand_ids: Vec<i64> = [int64, repeated] 36,
        called_computation_ids: Vec<i64> = [int64, repeated] 38,
        scatter_dimension_numbers: Option<IndexDimensions> = [message, optional] 48,
        replica_groups: Vec<ReplicaGroup> = [message, repeated] 49,
        feature_group_count: i64 = [int64] 50,
        source_target_pairs: Vec<SourceTarget> = [message, repeated] 52,
        batch_group_count: i64 = [int64] 58,
        is_stable: bool = [bool] 60,
        comparison_direction: String = [string] 63,
        custom_call_has_side_effect: bool = [bool] 65,
        frontend_attributes: Option<FrontendAttributes> = [message, optional] 68,
        indices_are_sorted: bool = [bool] 67,
        unique_indices: bool = [bool] 69,
        use_global_device_ids: bool = [bool] 71,
    }
    Window {
        dimensions: Vec<WindowDimension> = [message, repeated] 1,
    }
    WindowDimension {
        size: i64 = [int64] 1,
        stride: i64 = [int64] 2,
        padding_low: i64 = [int64] 3,
        padding_high: i64 = [int64] 4,
        window_dilation: i64 = [int64] 5,
        base_dilation: i64 = [int64] 6,
        window_reversal: bool = [bool] 7,
    }
    ConvolutionDimensions {
        kernel_input_feature: i64 = [int64] 3,
        kernel_output_feature: i64 = [int64] 4,
        kernel_spatial: Vec<i64> = [int64, repeated] 6,
        input_batch: i64 = [int64] 7,
        input_feature: i64 = [int64] 8,
        output_batch: i64 = [int64] 9,
        output_feature: i64 = [int64] 10,
        input_spatial: Vec<i64> = [int64, repeated] 11,
        output_spatial: Vec<i64> = [int64, repeated] 12,
    }
    SliceDimension {
        start: i64 = [int64] 1,
        limit: i64 = [int64] 2,
        stride: i64 = [int64] 3,
    }
    PaddingConfig {
        dimensions: Vec<PadDimension> = [message, repeated] 1,
    }
    PadDimension {
        low: i64 = [int64] 1,
        high: i64 = [int64] 2,
        interior: i64 = [int64] 3,
    }
    DotDimensions {
        lhs_contracting: Vec<i64> = [int64, repeated] 1,
        rhs_contracting: Vec<i64> = [int64, repeated] 2,
        lhs_batch: Vec<i64> = [int64, repeated] 3,
        rhs_batch: Vec<i64> = [int64, repeated] 4,
    }
    /// Of gathers and scatters alike: the names are a gather's.
    IndexDimensions {
        offset_dims: Vec<i64> = [int64, repeated] 1,
        collapsed_slice_dims: Vec<i64> = [int64, repeated] 2,
        start_index_map: Vec<i64> = [int64, repeated] 3,
        index_vector_dim: i64 = [int64] 4,
        operand_batching_dims: Vec<i64> = [int64, repeated] 5,
        start_indices_batching_dims: Vec<i64> = [int64, repeated] 6,
    }
    ReplicaGroup {
        replica_ids: Vec<i64> = [int64, repeated] 1,
    }
    SourceTarget {
        source: i64 = [int64] 1,
        target: i64 = [int64] 2,
    }
    OpMetadata {
        op_type: String = [string] 1,
        op_name: String = [string] 2,
        source_file: String = [string] 3,
        source_line: i32 = [int32] 4,
    }
    Shape {
        element_type: i32 = [int32] 2,
        dimensions: Vec<i64> = [int64, repeated] 3,
        tuple_shapes: Vec<Shape> = [message, repeated] 4,
        layout: Option<Layout> = [message, optional] 5,
        is_dynamic_dimension: Vec<bool> = [bool, repeated] 6,
    }
    Layout {
        minor_to_major: Vec<i64> = [int64, repeated] 1,
        memory_space: i64 = [int64] 8,
    }
    BufferAssignment {
        logical_buffers: Vec<LogicalBuffer> = [message, repeated] 1,
        buffer_allocations: Vec<BufferAllocation> = [message, repeated] 3,
        heap_simulator_traces: Vec<HeapTrace> = [message, repeated] 4,
    }
    LogicalBuffer {
        id: i64 = [int64] 1,
        size: i64 = [int64] 2,
        defined_at: Option<Location> = [message, optional] 3,
        color: i64 = [int64] 4,
    }
    Location {
        instruction_name: String = [string] 2,
        shape_index: Vec<i64> = [int64, repeated] 3,
        instruction_id: i64 = [int64] 4,
    }
    BufferAllocation {
        index: i64 = [int64] 1,
        size: i64 = [int64] 2,
        is_thread_local: bool = [bool] 3,
        is_entry_computation_parameter: bool = [bool] 5,
        parameter_number: i64 = [int64] 6,
        maybe_live_out: bool = [bool] 7,
        color: i64 = [int64] 8,
        assigned: Vec<Assigned> = [message, repeated] 9,
    }
    Assigned {
        logical_buffer_id: i64 = [int64] 1,
        offset: i64 = [int64] 2,
        size: i64 = [int64] 3,
    }
    HeapTrace {
        events: Vec<HeapEvent> = [message, repeated] 1,
        whole_module_simulation: bool = [bool] 2,
        buffer_allocation_index: i64 = [int64] 3,
    }
    HeapEvent {
        /// 0 take, 1 give back.
        kind: i32 = [int32] 1,
        buffer_id: i64 = [int64] 2,
        computation_name: String = [string] 3,
        instruction_name: String = [string] 4,
    }
}
