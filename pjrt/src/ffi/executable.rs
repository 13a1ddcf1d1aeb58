//! Structures of programs.
//!
//! Fields stand in the order of the C interface, version 0.112; sizes and last offsets are proved below.

use super::common::{ExecuteOptions, LogicalDeviceIds, NamedValue, Program};
use crate::ffi::handle::{Buffer, Client, Device, Event, Executable, LoadedExecutable};
use std::ffi::{c_char, c_void};

#[repr(C)]
pub struct ExecuteContextCreateArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub context: *mut c_void,
}

#[repr(C)]
pub struct ExecuteContextDestroyArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub context: *mut c_void,
}

#[repr(C)]
pub struct ExecutableDestroyArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
}

#[repr(C)]
pub struct ExecutableNameArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub executable_name: *const c_char,
    pub executable_name_size: usize,
}

#[repr(C)]
pub struct ExecutableNumReplicasArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub num_replicas: usize,
}

#[repr(C)]
pub struct ExecutableNumPartitionsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub num_partitions: usize,
}

#[repr(C)]
pub struct ExecutableNumOutputsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub num_outputs: usize,
}

#[repr(C)]
pub struct ExecutableSizeOfGeneratedCodeInBytesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub size_in_bytes: i64,
}

#[repr(C)]
pub struct ExecutableGetCostAnalysisArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub num_properties: usize,
    pub properties: *const NamedValue,
}

#[repr(C)]
pub struct ExecutableOutputMemoryKindsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub num_outputs: usize,
    pub memory_kinds: *const *const c_char,
    pub memory_kind_sizes: *const usize,
}

#[repr(C)]
pub struct ExecutableParameterMemoryKindsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub num_parameters: usize,
    pub memory_kinds: *const *const c_char,
    pub memory_kind_sizes: *const usize,
}

#[repr(C)]
pub struct ExecutableOptimizedProgramArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub program: *mut Program,
}

#[repr(C)]
pub struct ExecutableSerializeArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *const Executable,
    pub serialized_bytes: *const c_char,
    pub serialized_bytes_size: usize,
    pub serialized_executable: *mut c_void,
    pub serialized_executable_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
pub struct ExecutableOutputElementTypesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub output_types: *mut u32,
    pub num_output_types: usize,
}

#[repr(C)]
pub struct ExecutableOutputDimensionsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub num_outputs: usize,
    pub dims: *const i64,
    pub dim_sizes: *const usize,
}

#[repr(C)]
pub struct ExecutableFingerprintArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub executable_fingerprint: *const c_char,
    pub executable_fingerprint_size: usize,
}

#[repr(C)]
pub struct ExecutableGetCompiledMemoryStatsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub generated_code_size_in_bytes: i64,
    pub argument_size_in_bytes: i64,
    pub output_size_in_bytes: i64,
    pub alias_size_in_bytes: i64,
    pub temp_size_in_bytes: i64,
    pub host_generated_code_size_in_bytes: i64,
    pub host_argument_size_in_bytes: i64,
    pub host_output_size_in_bytes: i64,
    pub host_alias_size_in_bytes: i64,
    pub host_temp_size_in_bytes: i64,
    pub peak_memory_in_bytes: i64,
    pub total_size_in_bytes: i64,
    pub total_allocation_bytes: i64,
    pub indefinite_allocations: i64,
    pub peak_unpadded_heap_bytes: i64,
}

#[repr(C)]
pub struct ExecutableGetCompileOptionsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut Executable,
    pub serialized_bytes: *const c_char,
    pub serialized_bytes_size: usize,
    pub serialized_compile_options: *mut c_void,
    pub serialized_compile_options_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
pub struct ExecutableDeserializeAndLoadArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub serialized_executable: *const c_char,
    pub serialized_executable_size: usize,
    pub loaded_executable: *mut LoadedExecutable,
    pub overridden_serialized_compile_options: *const c_char,
    pub overridden_serialized_compile_options_size: usize,
    pub load_options: *mut c_void,
}

#[repr(C)]
pub struct LoadedExecutableDestroyArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut LoadedExecutable,
}

#[repr(C)]
pub struct LoadedExecutableGetExecutableArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub loaded_executable: *mut LoadedExecutable,
    pub executable: *mut Executable,
}

#[repr(C)]
pub struct LoadedExecutableAddressableDevicesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut LoadedExecutable,
    pub addressable_devices: *const *mut Device,
    pub num_addressable_devices: usize,
}

#[repr(C)]
pub struct LoadedExecutableAddressableDeviceLogicalIdsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut LoadedExecutable,
    pub addressable_device_logical_ids: *mut LogicalDeviceIds,
    pub num_addressable_device_logical_ids: usize,
}

#[repr(C)]
pub struct LoadedExecutableGetDeviceAssignmentArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut LoadedExecutable,
    pub serialized_bytes: *const c_char,
    pub serialized_bytes_size: usize,
    pub serialized_device_assignment: *mut c_void,
    pub serialized_device_assignment_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
pub struct LoadedExecutableDeleteArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut LoadedExecutable,
}

#[repr(C)]
pub struct LoadedExecutableIsDeletedArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut LoadedExecutable,
    pub is_deleted: bool,
}

#[repr(C)]
pub struct LoadedExecutableExecuteArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut LoadedExecutable,
    pub options: *mut ExecuteOptions,
    pub argument_lists: *const *const *mut Buffer,
    pub num_devices: usize,
    pub num_args: usize,
    pub output_lists: *const *mut *mut Buffer,
    pub device_complete_events: *mut *mut Event,
    pub execute_device: *mut Device,
}

#[repr(C)]
pub struct LoadedExecutableFingerprintArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub executable: *mut LoadedExecutable,
    pub executable_fingerprint: *const c_char,
    pub executable_fingerprint_size: usize,
}
