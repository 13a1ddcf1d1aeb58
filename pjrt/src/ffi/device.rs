//! Structures of clients, devices, memories and topologies.
//!
//! Fields stand in the order of the C interface, version 0.112; sizes and last offsets are proved below.

use super::common::{BufferMemoryLayout, NamedValue, Program};
use crate::ffi::handle::{Buffer, Client, Device, Event, Executable, LoadedExecutable, Memory};
use std::ffi::{c_char, c_void};

#[repr(C)]
pub struct ClientCreateArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub create_options: *const NamedValue,
    pub num_options: usize,
    pub kv_get_callback: *const c_void,
    pub kv_get_user_arg: *mut c_void,
    pub kv_put_callback: *const c_void,
    pub kv_put_user_arg: *mut c_void,
    pub client: *mut Client,
    pub kv_try_get_callback: *const c_void,
    pub kv_try_get_user_arg: *mut c_void,
}

#[repr(C)]
pub struct ClientDestroyArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
}

#[repr(C)]
pub struct ClientPlatformNameArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub platform_name: *const c_char,
    pub platform_name_size: usize,
}

#[repr(C)]
pub struct ClientProcessIndexArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub process_index: i32,
}

#[repr(C)]
pub struct ClientPlatformVersionArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub platform_version: *const c_char,
    pub platform_version_size: usize,
}

#[repr(C)]
pub struct ClientTopologyDescriptionArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub topology: *mut Client,
}

#[repr(C)]
pub struct ClientDevicesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub devices: *const *mut Device,
    pub num_devices: usize,
}

#[repr(C)]
pub struct ClientAddressableDevicesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub addressable_devices: *const *mut Device,
    pub num_addressable_devices: usize,
}

#[repr(C)]
pub struct ClientLookupDeviceArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub id: i32,
    pub device: *mut Device,
}

#[repr(C)]
pub struct ClientLookupAddressableDeviceArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub local_hardware_id: i32,
    pub addressable_device: *mut Device,
}

#[repr(C)]
pub struct ClientAddressableMemoriesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub addressable_memories: *const *mut Memory,
    pub num_addressable_memories: usize,
}

#[repr(C)]
pub struct ClientCompileArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub program: *const Program,
    pub compile_options: *const c_char,
    pub compile_options_size: usize,
    pub executable: *mut LoadedExecutable,
}

#[repr(C)]
pub struct ClientLoadArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub executable: *mut Executable,
    pub compile_options: *const c_char,
    pub compile_options_size: usize,
    pub loaded_executable: *mut LoadedExecutable,
}

#[repr(C)]
pub struct ClientDefaultDeviceAssignmentArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub num_replicas: i32,
    pub num_partitions: i32,
    pub default_assignment_size: usize,
    pub default_assignment: *mut i32,
}

#[repr(C)]
pub struct ClientBufferFromHostBufferArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub client: *mut Client,
    pub data: *const c_void,
    pub kind: u32,
    pub dims: *const i64,
    pub num_dims: usize,
    pub byte_strides: *const i64,
    pub num_byte_strides: usize,
    pub host_buffer_semantics: u32,
    pub device: *mut Device,
    pub memory: *mut Memory,
    pub device_layout: *mut BufferMemoryLayout,
    pub done_with_host_buffer: *mut Event,
    pub buffer: *mut Buffer,
}

#[repr(C)]
pub struct DeviceDescriptionIdArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device_description: *mut Device,
    pub id: i32,
}

#[repr(C)]
pub struct DeviceDescriptionProcessIndexArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device_description: *mut Device,
    pub process_index: i32,
}

#[repr(C)]
pub struct DeviceDescriptionAttributesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device_description: *mut Device,
    pub num_attributes: usize,
    pub attributes: *const NamedValue,
}

#[repr(C)]
pub struct DeviceDescriptionKindArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device_description: *mut Device,
    pub device_kind: *const c_char,
    pub device_kind_size: usize,
}

#[repr(C)]
pub struct DeviceDescriptionDebugStringArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device_description: *mut Device,
    pub debug_string: *const c_char,
    pub debug_string_size: usize,
}

#[repr(C)]
pub struct DeviceDescriptionToStringArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device_description: *mut Device,
    pub to_string: *const c_char,
    pub to_string_size: usize,
}

#[repr(C)]
pub struct DeviceGetDescriptionArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device: *mut Device,
    pub device_description: *mut Device,
}

#[repr(C)]
pub struct DeviceIsAddressableArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device: *mut Device,
    pub is_addressable: bool,
}

#[repr(C)]
pub struct DeviceLocalHardwareIdArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device: *mut Device,
    pub local_hardware_id: i32,
}

#[repr(C)]
pub struct DeviceAddressableMemoriesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device: *mut Device,
    pub memories: *const *mut Memory,
    pub num_memories: usize,
}

#[repr(C)]
pub struct DeviceDefaultMemoryArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device: *mut Device,
    pub memory: *mut Memory,
}

#[repr(C)]
pub struct DeviceMemoryStatsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device: *mut Device,
    pub bytes_in_use: i64,
    pub peak_bytes_in_use: i64,
    pub peak_bytes_in_use_is_set: bool,
    pub num_allocs: i64,
    pub num_allocs_is_set: bool,
    pub largest_alloc_size: i64,
    pub largest_alloc_size_is_set: bool,
    pub bytes_limit: i64,
    pub bytes_limit_is_set: bool,
    pub bytes_reserved: i64,
    pub bytes_reserved_is_set: bool,
    pub peak_bytes_reserved: i64,
    pub peak_bytes_reserved_is_set: bool,
    pub bytes_reservable_limit: i64,
    pub bytes_reservable_limit_is_set: bool,
    pub largest_free_block_bytes: i64,
    pub largest_free_block_bytes_is_set: bool,
    pub pool_bytes: i64,
    pub pool_bytes_is_set: bool,
    pub peak_pool_bytes: i64,
    pub peak_pool_bytes_is_set: bool,
}

#[repr(C)]
pub struct DeviceClearMemoryStatsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device: *mut Device,
}

#[repr(C)]
pub struct DeviceGetAttributesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub device: *mut Device,
    pub attributes: *const NamedValue,
    pub num_attributes: usize,
    pub device_attributes: *mut c_void,
    pub attributes_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
}

#[repr(C)]
pub struct MemoryIdArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub memory: *mut Memory,
    pub id: i32,
}

#[repr(C)]
pub struct MemoryKindArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub memory: *mut Memory,
    pub kind: *const c_char,
    pub kind_size: usize,
}

#[repr(C)]
pub struct MemoryKindIdArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub memory: *mut Memory,
    pub kind_id: i32,
}

#[repr(C)]
pub struct MemoryDebugStringArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub memory: *mut Memory,
    pub debug_string: *const c_char,
    pub debug_string_size: usize,
}

#[repr(C)]
pub struct MemoryToStringArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub memory: *mut Memory,
    pub to_string: *const c_char,
    pub to_string_size: usize,
}

#[repr(C)]
pub struct MemoryAddressableByDevicesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub memory: *mut Memory,
    pub devices: *const *mut Device,
    pub num_devices: usize,
}

#[repr(C)]
pub struct TopologyDescriptionDestroyArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub topology: *mut Client,
}

#[repr(C)]
pub struct TopologyDescriptionPlatformNameArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub topology: *const Client,
    pub platform_name: *const c_char,
    pub platform_name_size: usize,
}

#[repr(C)]
pub struct TopologyDescriptionPlatformVersionArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub topology: *mut Client,
    pub platform_version: *const c_char,
    pub platform_version_size: usize,
}

#[repr(C)]
pub struct TopologyDescriptionGetDeviceDescriptionsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub topology: *const Client,
    pub descriptions: *const *mut Device,
    pub num_descriptions: usize,
}

#[repr(C)]
pub struct TopologyDescriptionAttributesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub topology: *mut Client,
    pub attributes: *const NamedValue,
    pub num_attributes: usize,
}

#[repr(C)]
pub struct TopologyDescriptionFingerprintArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub topology: *const Client,
    pub fingerprint: u64,
}
