//! Structures of clients, devices, memories and topologies.
//!
//! Fields stand in the order of the C interface, version 0.112; sizes and last offsets are proved below.

use super::common::{BufferMemoryLayout, NamedValue, Program};
use super::same;
use crate::ffi::handle::{Buffer, Client, Device, Event, Executable, LoadedExecutable, Memory};
use std::ffi::{c_char, c_void};
use std::mem::offset_of;

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

const _: () = {
    same::<ClientCreateArgs>(88, offset_of!(ClientCreateArgs, kv_try_get_user_arg), 80);
    same::<ClientDestroyArgs>(24, offset_of!(ClientDestroyArgs, client), 16);
    same::<ClientPlatformNameArgs>(40, offset_of!(ClientPlatformNameArgs, platform_name_size), 32);
    same::<ClientProcessIndexArgs>(32, offset_of!(ClientProcessIndexArgs, process_index), 24);
    same::<ClientPlatformVersionArgs>(40, offset_of!(ClientPlatformVersionArgs, platform_version_size), 32);
    same::<ClientTopologyDescriptionArgs>(32, offset_of!(ClientTopologyDescriptionArgs, topology), 24);
    same::<ClientDevicesArgs>(40, offset_of!(ClientDevicesArgs, num_devices), 32);
    same::<ClientAddressableDevicesArgs>(40, offset_of!(ClientAddressableDevicesArgs, num_addressable_devices), 32);
    same::<ClientLookupDeviceArgs>(40, offset_of!(ClientLookupDeviceArgs, device), 32);
    same::<ClientLookupAddressableDeviceArgs>(
        40,
        offset_of!(ClientLookupAddressableDeviceArgs, addressable_device),
        32,
    );
    same::<ClientAddressableMemoriesArgs>(40, offset_of!(ClientAddressableMemoriesArgs, num_addressable_memories), 32);
    same::<ClientCompileArgs>(56, offset_of!(ClientCompileArgs, executable), 48);
    same::<ClientLoadArgs>(56, offset_of!(ClientLoadArgs, loaded_executable), 48);
    same::<ClientDefaultDeviceAssignmentArgs>(
        48,
        offset_of!(ClientDefaultDeviceAssignmentArgs, default_assignment),
        40,
    );
    same::<ClientBufferFromHostBufferArgs>(120, offset_of!(ClientBufferFromHostBufferArgs, buffer), 112);
    same::<DeviceDescriptionIdArgs>(32, offset_of!(DeviceDescriptionIdArgs, id), 24);
    same::<DeviceDescriptionProcessIndexArgs>(32, offset_of!(DeviceDescriptionProcessIndexArgs, process_index), 24);
    same::<DeviceDescriptionAttributesArgs>(40, offset_of!(DeviceDescriptionAttributesArgs, attributes), 32);
    same::<DeviceDescriptionKindArgs>(40, offset_of!(DeviceDescriptionKindArgs, device_kind_size), 32);
    same::<DeviceDescriptionDebugStringArgs>(40, offset_of!(DeviceDescriptionDebugStringArgs, debug_string_size), 32);
    same::<DeviceDescriptionToStringArgs>(40, offset_of!(DeviceDescriptionToStringArgs, to_string_size), 32);
    same::<DeviceGetDescriptionArgs>(32, offset_of!(DeviceGetDescriptionArgs, device_description), 24);
    same::<DeviceIsAddressableArgs>(32, offset_of!(DeviceIsAddressableArgs, is_addressable), 24);
    same::<DeviceLocalHardwareIdArgs>(32, offset_of!(DeviceLocalHardwareIdArgs, local_hardware_id), 24);
    same::<DeviceAddressableMemoriesArgs>(40, offset_of!(DeviceAddressableMemoriesArgs, num_memories), 32);
    same::<DeviceDefaultMemoryArgs>(32, offset_of!(DeviceDefaultMemoryArgs, memory), 24);
    same::<DeviceMemoryStatsArgs>(192, offset_of!(DeviceMemoryStatsArgs, peak_pool_bytes_is_set), 184);
    same::<DeviceClearMemoryStatsArgs>(24, offset_of!(DeviceClearMemoryStatsArgs, device), 16);
    same::<DeviceGetAttributesArgs>(56, offset_of!(DeviceGetAttributesArgs, attributes_deleter), 48);
    same::<MemoryIdArgs>(32, offset_of!(MemoryIdArgs, id), 24);
    same::<MemoryKindArgs>(40, offset_of!(MemoryKindArgs, kind_size), 32);
    same::<MemoryKindIdArgs>(32, offset_of!(MemoryKindIdArgs, kind_id), 24);
    same::<MemoryDebugStringArgs>(40, offset_of!(MemoryDebugStringArgs, debug_string_size), 32);
    same::<MemoryToStringArgs>(40, offset_of!(MemoryToStringArgs, to_string_size), 32);
    same::<MemoryAddressableByDevicesArgs>(40, offset_of!(MemoryAddressableByDevicesArgs, num_devices), 32);
    same::<TopologyDescriptionDestroyArgs>(24, offset_of!(TopologyDescriptionDestroyArgs, topology), 16);
    same::<TopologyDescriptionPlatformNameArgs>(
        40,
        offset_of!(TopologyDescriptionPlatformNameArgs, platform_name_size),
        32,
    );
    same::<TopologyDescriptionPlatformVersionArgs>(
        40,
        offset_of!(TopologyDescriptionPlatformVersionArgs, platform_version_size),
        32,
    );
    same::<TopologyDescriptionGetDeviceDescriptionsArgs>(
        40,
        offset_of!(TopologyDescriptionGetDeviceDescriptionsArgs, num_descriptions),
        32,
    );
    same::<TopologyDescriptionAttributesArgs>(40, offset_of!(TopologyDescriptionAttributesArgs, num_attributes), 32);
    same::<TopologyDescriptionFingerprintArgs>(32, offset_of!(TopologyDescriptionFingerprintArgs, fingerprint), 24);
};
