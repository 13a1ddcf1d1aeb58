//! The part of the HLO messages that XProf's pages need.

use std::collections::BTreeMap;

messages! {
    HloProto {
        message HloModule: hlo_module = 1;
        message BufferAssignment: buffer_assignment = 3;
    }
    HloModule {
        string: name = 1, entry_computation_name = 2;
        messages HloComputation: computations = 3;
        message ProgramShape: host_program_shape = 4;
        int64: id = 5, entry_computation_id = 6;
        message Schedule: schedule = 7;
        message OpSharding:
            /// Of the result; of several results a tuple.
            result_sharding = 12;
        messages OpSharding: parameter_shardings = 14;
    }
    /// A module with what belongs to its compilation.
    HloModuleWithConfig {
        message HloModule: hlo_module = 1;
        message HloModuleConfig: config = 2;
    }
    HloModuleConfig {
        message ProgramShape: entry_computation_layout = 1;
        int64: replica_count = 4, num_partitions = 5;
        bool: use_spmd_partitioning = 7;
    }
    /// How an array is divided. Kinds: 0 replicated, 2 a tuple, 3 tiles.
    OpSharding {
        int32: kind = 1;
        repeated int64:
            /// Tiles along each dimension; with `replicated_last` the copies of each behind them.
            tiles = 3,
            devices = 4;
        messages OpSharding: elements = 5;
        bool: replicated_last = 6;
        repeated int32:
            /// What the last of `tiles` are, where they are not dimensions: kinds of shardings.
            last_kinds = 8;
    }
    Schedule {
        [btree_map = "int64, message"] std::collections::BTreeMap<i64, Sequence>: sequences = 1;
    }
    Sequence {
        repeated int64: instruction_ids = 1;
    }
    ProgramShape {
        messages Shape: parameters = 1;
        message Shape: result = 2;
        repeated string: parameter_names = 3;
    }
    HloComputation {
        string: name = 1;
        messages HloInstruction: instructions = 2;
        message ProgramShape: program_shape = 4;
        int64: id = 5, root_id = 6;
    }
    /// What a program's author says to the compiler beside an operation.
    FrontendAttributes {
        [btree_map = "string, string"] BTreeMap<String, String>: map = 1;
    }
    HloInstruction {
        string: name = 1, opcode = 2, fusion_kind = 11, custom_call_target = 28, comparison_direction = 63;
        message Shape: shape = 3;
        message OpMetadata: metadata = 7;
        int64: parameter_number = 9, tuple_index = 13, channel_id = 26, id = 35, feature_group_count = 50,
            batch_group_count = 58;
        repeated int64: dimensions = 14, dynamic_slice_sizes = 20, gather_slice_sizes = 34, operand_ids = 36,
            called_computation_ids = 38;
        message Window: window = 15;
        message ConvolutionDimensions: convolution_dimension_numbers = 16;
        messages SliceDimension: slice_dimensions = 17;
        int32: exponent_bits = 18, mantissa_bits = 19;
        message PaddingConfig: padding_config = 21;
        message DotDimensions: dot_dimension_numbers = 30;
        message IndexDimensions: gather_dimension_numbers = 33, scatter_dimension_numbers = 48;
        messages ReplicaGroup: replica_groups = 49;
        messages SourceTarget: source_target_pairs = 52;
        bool: is_stable = 60, custom_call_has_side_effect = 65, indices_are_sorted = 67, unique_indices = 69,
            use_global_device_ids = 71;
        message FrontendAttributes: frontend_attributes = 68;
    }
    Window {
        messages WindowDimension: dimensions = 1;
    }
    WindowDimension {
        int64: size = 1, stride = 2, padding_low = 3, padding_high = 4, window_dilation = 5, base_dilation = 6;
        bool: window_reversal = 7;
    }
    ConvolutionDimensions {
        int64: kernel_input_feature = 3, kernel_output_feature = 4, input_batch = 7, input_feature = 8,
            output_batch = 9, output_feature = 10;
        repeated int64: kernel_spatial = 6, input_spatial = 11, output_spatial = 12;
    }
    SliceDimension {
        int64: start = 1, limit = 2, stride = 3;
    }
    PaddingConfig {
        messages PadDimension: dimensions = 1;
    }
    PadDimension {
        int64: low = 1, high = 2, interior = 3;
    }
    DotDimensions {
        repeated int64: lhs_contracting = 1, rhs_contracting = 2, lhs_batch = 3, rhs_batch = 4;
    }
    /// Of gathers and scatters alike: the names are a gather's.
    IndexDimensions {
        repeated int64: offset_dims = 1, collapsed_slice_dims = 2, start_index_map = 3, operand_batching_dims = 5,
            start_indices_batching_dims = 6;
        int64: index_vector_dim = 4;
    }
    ReplicaGroup {
        repeated int64: replica_ids = 1;
    }
    SourceTarget {
        int64: source = 1, target = 2;
    }
    OpMetadata {
        string: op_type = 1, op_name = 2, source_file = 3;
        int32: source_line = 4;
    }
    Shape {
        int32: element_type = 2;
        repeated int64: dimensions = 3;
        messages Shape: tuple_shapes = 4;
        message Layout: layout = 5;
        repeated bool: is_dynamic_dimension = 6;
    }
    Layout {
        repeated int64: minor_to_major = 1;
        int64: memory_space = 8;
    }
    BufferAssignment {
        messages LogicalBuffer: logical_buffers = 1;
        messages BufferAllocation: buffer_allocations = 3;
        messages HeapTrace: heap_simulator_traces = 4;
    }
    LogicalBuffer {
        int64: id = 1, size = 2, color = 4;
        message Location: defined_at = 3;
    }
    Location {
        string: instruction_name = 2;
        repeated int64: shape_index = 3;
        int64: instruction_id = 4;
    }
    BufferAllocation {
        int64: index = 1, size = 2, parameter_number = 6, color = 8;
        bool: is_thread_local = 3, is_entry_computation_parameter = 5, maybe_live_out = 7;
        messages Assigned: assigned = 9;
    }
    Assigned {
        int64: logical_buffer_id = 1, offset = 2, size = 3;
    }
    HeapTrace {
        messages HeapEvent: events = 1;
        bool: whole_module_simulation = 2;
        int64: buffer_allocation_index = 3;
    }
    HeapEvent {
        int32:
            /// 0 take, 1 give back.
            kind = 1;
        int64: buffer_id = 2;
        string: computation_name = 3, instruction_name = 4;
    }
}
