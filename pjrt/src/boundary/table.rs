//! The table of calls.

use super::{Call, buffers, clients, devices, errors, events, executables, missing, plugin};
use std::ffi::c_void;
use std::mem::offset_of;

/// The version of the interface that is spoken.
const MAJOR: i32 = 0;
const MINOR: i32 = 112;

#[repr(C)]
struct Version {
    struct_size: usize,
    extension_start: *mut c_void,
    major: i32,
    minor: i32,
}

/// The interface: what `GetPjrtApi` gives.
#[repr(C)]
pub struct Api {
    struct_size: usize,
    extension_start: *const c_void,
    version: Version,
    calls: [Call; CALLS],
}

/// Calls of version 0.112.
const CALLS: usize = 138;

// The layout of C's `PJRT_Api`: its size, and where its first and one of its last calls stand.
const _: () = {
    assert!(size_of::<Api>() == 1144);
    assert!(offset_of!(Api, calls) == 40);
    assert!(size_of::<Call>() == size_of::<usize>());
};

// SAFETY: the table holds functions and pointers to constants, and nothing changes it.
unsafe impl Sync for Api {}

/// The calls in the order of the interface, with their names.
#[rustfmt::skip]
const TABLE: [(&str, Call); CALLS] = [
    ("PJRT_Error_Destroy", errors::error_destroy),
    ("PJRT_Error_Message", errors::error_message),
    ("PJRT_Error_GetCode", errors::error_get_code),
    ("PJRT_Plugin_Initialize", plugin::plugin_initialize),
    ("PJRT_Plugin_Attributes", plugin::plugin_attributes),
    ("PJRT_Event_Destroy", events::event_destroy),
    ("PJRT_Event_IsReady", events::event_is_ready),
    ("PJRT_Event_Error", events::event_error),
    ("PJRT_Event_Await", events::event_await),
    ("PJRT_Event_OnReady", events::event_on_ready),
    ("PJRT_Client_Create", clients::client_create),
    ("PJRT_Client_Destroy", clients::client_destroy),
    ("PJRT_Client_PlatformName", clients::client_platform_name),
    ("PJRT_Client_ProcessIndex", clients::client_process_index),
    ("PJRT_Client_PlatformVersion", clients::client_platform_version),
    ("PJRT_Client_Devices", clients::client_devices),
    ("PJRT_Client_AddressableDevices", clients::client_addressable_devices),
    ("PJRT_Client_LookupDevice", clients::client_lookup_device),
    ("PJRT_Client_LookupAddressableDevice", clients::client_lookup_addressable_device),
    ("PJRT_Client_AddressableMemories", clients::client_addressable_memories),
    ("PJRT_Client_Compile", clients::client_compile),
    ("PJRT_Client_DefaultDeviceAssignment", clients::client_default_device_assignment),
    ("PJRT_Client_BufferFromHostBuffer", clients::client_buffer_from_host_buffer),
    ("PJRT_DeviceDescription_Id", devices::device_description_id),
    ("PJRT_DeviceDescription_ProcessIndex", devices::device_description_process_index),
    ("PJRT_DeviceDescription_Attributes", devices::device_description_attributes),
    ("PJRT_DeviceDescription_Kind", devices::device_description_kind),
    ("PJRT_DeviceDescription_DebugString", devices::device_description_debug_string),
    ("PJRT_DeviceDescription_ToString", devices::device_description_to_string),
    ("PJRT_Device_GetDescription", devices::device_get_description),
    ("PJRT_Device_IsAddressable", devices::device_is_addressable),
    ("PJRT_Device_LocalHardwareId", devices::device_local_hardware_id),
    ("PJRT_Device_AddressableMemories", devices::device_addressable_memories),
    ("PJRT_Device_DefaultMemory", devices::device_default_memory),
    ("PJRT_Device_MemoryStats", devices::device_memory_stats),
    ("PJRT_Memory_Id", devices::memory_id),
    ("PJRT_Memory_Kind", devices::memory_kind),
    ("PJRT_Memory_DebugString", devices::memory_debug_string),
    ("PJRT_Memory_ToString", devices::memory_to_string),
    ("PJRT_Memory_AddressableByDevices", devices::memory_addressable_by_devices),
    ("PJRT_Executable_Destroy", executables::executable_destroy),
    ("PJRT_Executable_Name", executables::executable_name),
    ("PJRT_Executable_NumReplicas", executables::executable_num_replicas),
    ("PJRT_Executable_NumPartitions", executables::executable_num_partitions),
    ("PJRT_Executable_NumOutputs", executables::executable_num_outputs),
    ("PJRT_Executable_SizeOfGeneratedCodeInBytes", executables::executable_size_of_generated_code_in_bytes),
    ("PJRT_Executable_GetCostAnalysis", executables::executable_get_cost_analysis),
    ("PJRT_Executable_OutputMemoryKinds", executables::executable_output_memory_kinds),
    ("PJRT_Executable_OptimizedProgram", executables::executable_optimized_program),
    ("PJRT_Executable_Serialize", executables::executable_serialize),
    ("PJRT_LoadedExecutable_Destroy", executables::loaded_executable_destroy),
    ("PJRT_LoadedExecutable_GetExecutable", executables::loaded_executable_get_executable),
    ("PJRT_LoadedExecutable_AddressableDevices", executables::loaded_executable_addressable_devices),
    ("PJRT_LoadedExecutable_Delete", executables::loaded_executable_delete),
    ("PJRT_LoadedExecutable_IsDeleted", executables::loaded_executable_is_deleted),
    ("PJRT_LoadedExecutable_Execute", executables::loaded_executable_execute),
    ("PJRT_Executable_DeserializeAndLoad", executables::executable_deserialize_and_load),
    ("PJRT_LoadedExecutable_Fingerprint", executables::loaded_executable_fingerprint),
    ("PJRT_Buffer_Destroy", buffers::buffer_destroy),
    ("PJRT_Buffer_ElementType", buffers::buffer_element_type),
    ("PJRT_Buffer_Dimensions", buffers::buffer_dimensions),
    ("PJRT_Buffer_UnpaddedDimensions", buffers::buffer_unpadded_dimensions),
    ("PJRT_Buffer_DynamicDimensionIndices", buffers::buffer_dynamic_dimension_indices),
    ("PJRT_Buffer_GetMemoryLayout", buffers::buffer_get_memory_layout),
    ("PJRT_Buffer_OnDeviceSizeInBytes", buffers::buffer_on_device_size_in_bytes),
    ("PJRT_Buffer_Device", buffers::buffer_device),
    ("PJRT_Buffer_Memory", buffers::buffer_memory),
    ("PJRT_Buffer_Delete", buffers::buffer_delete),
    ("PJRT_Buffer_IsDeleted", buffers::buffer_is_deleted),
    ("PJRT_Buffer_CopyToDevice", buffers::buffer_copy_to_device),
    ("PJRT_Buffer_ToHostBuffer", buffers::buffer_to_host_buffer),
    ("PJRT_Buffer_IsOnCpu", buffers::buffer_is_on_cpu),
    ("PJRT_Buffer_ReadyEvent", buffers::buffer_ready_event),
    ("PJRT_Buffer_UnsafePointer", buffers::buffer_unsafe_pointer),
    ("PJRT_Buffer_IncreaseExternalReferenceCount", buffers::buffer_increase_external_reference_count),
    ("PJRT_Buffer_DecreaseExternalReferenceCount", buffers::buffer_decrease_external_reference_count),
    ("PJRT_Buffer_OpaqueDeviceMemoryDataPointer", buffers::buffer_opaque_device_memory_data_pointer),
    ("PJRT_CopyToDeviceStream_Destroy", missing::<77>),
    ("PJRT_CopyToDeviceStream_AddChunk", missing::<78>),
    ("PJRT_CopyToDeviceStream_TotalBytes", missing::<79>),
    ("PJRT_CopyToDeviceStream_GranuleSize", missing::<80>),
    ("PJRT_CopyToDeviceStream_CurrentBytes", missing::<81>),
    ("PJRT_TopologyDescription_Create", missing::<82>),
    ("PJRT_TopologyDescription_Destroy", devices::topology_description_destroy),
    ("PJRT_TopologyDescription_PlatformName", devices::topology_description_platform_name),
    ("PJRT_TopologyDescription_PlatformVersion", devices::topology_description_platform_version),
    ("PJRT_TopologyDescription_GetDeviceDescriptions", devices::topology_description_get_device_descriptions),
    ("PJRT_TopologyDescription_Serialize", missing::<87>),
    ("PJRT_TopologyDescription_Attributes", devices::topology_description_attributes),
    ("PJRT_Compile", missing::<89>),
    ("PJRT_Executable_OutputElementTypes", executables::executable_output_element_types),
    ("PJRT_Executable_OutputDimensions", executables::executable_output_dimensions),
    ("PJRT_Buffer_CopyToMemory", buffers::buffer_copy_to_memory),
    ("PJRT_Client_CreateViewOfDeviceBuffer", missing::<93>),
    ("PJRT_Executable_Fingerprint", executables::executable_fingerprint),
    ("PJRT_Client_TopologyDescription", clients::client_topology_description),
    ("PJRT_Executable_GetCompiledMemoryStats", executables::executable_get_compiled_memory_stats),
    ("PJRT_Memory_Kind_Id", devices::memory_kind_id),
    ("PJRT_ExecuteContext_Create", executables::execute_context_create),
    ("PJRT_ExecuteContext_Destroy", executables::execute_context_destroy),
    ("PJRT_Buffer_CopyRawToHost", buffers::buffer_copy_raw_to_host),
    ("PJRT_AsyncHostToDeviceTransferManager_Destroy", missing::<101>),
    ("PJRT_AsyncHostToDeviceTransferManager_TransferData", missing::<102>),
    ("PJRT_Client_CreateBuffersForAsyncHostToDevice", missing::<103>),
    ("PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer", missing::<104>),
    ("PJRT_AsyncHostToDeviceTransferManager_Device", missing::<105>),
    ("PJRT_AsyncHostToDeviceTransferManager_BufferCount", missing::<106>),
    ("PJRT_AsyncHostToDeviceTransferManager_BufferSize", missing::<107>),
    ("PJRT_AsyncHostToDeviceTransferManager_SetBufferError", missing::<108>),
    ("PJRT_AsyncHostToDeviceTransferManager_AddMetadata", missing::<109>),
    ("PJRT_Client_DmaMap", missing::<110>),
    ("PJRT_Client_DmaUnmap", missing::<111>),
    ("PJRT_Client_CreateUninitializedBuffer", missing::<112>),
    ("PJRT_Client_UpdateGlobalProcessInfo", missing::<113>),
    ("PJRT_TopologyDescription_Deserialize", missing::<114>),
    ("PJRT_Client_CreateAliasBuffer", missing::<115>),
    ("PJRT_Client_FulfillAliasBuffer", missing::<116>),
    ("PJRT_LoadedExecutable_GetDeviceAssignment", executables::loaded_executable_get_device_assignment),
    ("PJRT_Client_CreateErrorBuffer", missing::<118>),
    ("PJRT_AsyncHostToDeviceTransferManager_TransferLiteral", missing::<119>),
    ("PJRT_Buffer_CopyRawToHostFuture", missing::<120>),
    ("PJRT_Device_PoisonExecution", missing::<121>),
    ("PJRT_Device_CreateAsyncTrackingEvent", missing::<122>),
    ("PJRT_AsyncTrackingEvent_Destroy", missing::<123>),
    ("PJRT_Executable_GetCompileOptions", executables::executable_get_compile_options),
    ("PJRT_Buffer_DonateWithControlDependency", missing::<125>),
    ("PJRT_Event_Create", events::event_create),
    ("PJRT_Event_Set", events::event_set),
    ("PJRT_Device_GetAttributes", devices::device_get_attributes),
    ("PJRT_Client_Load", clients::client_load),
    ("PJRT_LoadedExecutable_AddressableDeviceLogicalIds", executables::loaded_executable_addressable_device_logical_ids),
    ("PJRT_Buffer_Bitcast", buffers::buffer_bitcast),
    ("PJRT_Error_ForEachPayload", errors::error_for_each_payload),
    ("PJRT_TopologyDescription_Fingerprint", devices::topology_description_fingerprint),
    ("PJRT_Executable_ParameterMemoryKinds", executables::executable_parameter_memory_kinds),
    ("PJRT_Device_ClearMemoryStats", devices::device_clear_memory_stats),
    ("PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace", missing::<136>),
    ("PJRT_TopologyDescription_GetMemorySpaceKindIds", missing::<137>),
];

/// The names of the calls, for messages.
pub(crate) static NAMES: [&str; CALLS] = {
    let mut names = [""; CALLS];
    let mut i = 0;
    while i < CALLS {
        names[i] = TABLE[i].0;
        i += 1;
    }
    names
};

static API: Api = Api {
    struct_size: size_of::<Api>(),
    extension_start: std::ptr::from_ref(&super::profiler::EXTENSION).cast(),
    version: Version {
        struct_size: size_of::<Version>(),
        extension_start: std::ptr::null_mut(),
        major: MAJOR,
        minor: MINOR,
    },
    calls: {
        let mut calls = [TABLE[0].1; CALLS];
        let mut i = 0;
        while i < CALLS {
            calls[i] = TABLE[i].1;
            i += 1;
        }
        calls
    },
};

/// The entry of the plugin: the table of its calls.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the interface's name")]
pub extern "C" fn GetPjrtApi() -> *const Api {
    &API
}
