//! Devices, their descriptions (the same objects), memories, topologies (a client stands for its own).

use super::{calls, missing_object, object, shown};
use crate::client::MemoryKind;
use crate::error::Error;
use crate::ffi::common::{MemoryFunctionTable, NamedValue, NamedValueUnion};
use crate::ffi::device::*;
use crate::ffi::handle::{Client, Device, Memory};
use std::collections::HashMap;
use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// The interface's pointers to what a client has.
pub(crate) struct Pointers {
    pub devices: Vec<*mut Device>,
    /// Device after device, each with all kinds.
    pub memories: Vec<*mut Memory>,
    /// By device.
    attributes: Vec<Vec<NamedValue>>,
}

// SAFETY: all pointers are to what lives as long as the process and is changed by nobody.
unsafe impl Send for Pointers {}
// SAFETY: as above.
unsafe impl Sync for Pointers {}

/// `PJRT_NamedValue_kInt64`, `PJRT_NamedValue_kInt64List`.
const INT64: u32 = 1;
const INT64_LIST: u32 = 2;

impl Pointers {
    /// The memory of a device and a kind.
    pub fn memory(&self, device: usize, kind: MemoryKind) -> *mut Memory {
        self.memories[device * MemoryKind::ALL.len() + kind as usize]
    }
}

pub(crate) fn pointers(client: &'static Client) -> Result<&'static Pointers, Error> {
    let made = client.pointers.get_or_init(|| {
        let memory = |memory| -> *mut Memory {
            std::ptr::from_ref::<Memory>(Box::leak(Box::new(Memory { table: &MEMORY_TABLE.0, memory, client })))
                .cast_mut()
        };
        let attribute = |name: &'static str, kind, value, value_size| NamedValue {
            struct_size: size_of::<NamedValue>(),
            extension_start: std::ptr::null_mut(),
            name: name.as_ptr().cast::<c_char>(),
            name_size: name.len(),
            kind,
            value,
            value_size,
        };
        let attributes = |d: &'static Device| {
            let coordinates = NamedValueUnion { int64_list: d.coordinates.as_ptr() };
            vec![
                attribute("coords", INT64_LIST, coordinates, d.coordinates.len()),
                attribute("core_on_chip", INT64, NamedValueUnion { int64: 0 }, 1),
                // Cores that the code of one kernel may tell apart.
                attribute("num_cores", INT64, NamedValueUnion { int64: 1 }, 1),
            ]
        };
        Box::new(Pointers {
            devices: client.devices().iter().map(|d| std::ptr::from_ref(d).cast_mut()).collect(),
            memories: client.memories().iter().map(memory).collect(),
            attributes: client.devices().iter().map(attributes).collect(),
        })
    });
    made.downcast_ref().ok_or_else(|| Error::internal("a client without pointers"))
}

/// The client of a device.
pub(crate) fn client_of(d: &Device) -> Result<&'static Client, Error> {
    d.client.get().copied().ok_or_else(missing_object)
}

/// The functions of every memory, at its beginning.
struct MemoryTable(MemoryFunctionTable);

// SAFETY: the table holds functions and a null pointer, and nothing changes it.
unsafe impl Sync for MemoryTable {}

static MEMORY_TABLE: MemoryTable = MemoryTable(MemoryFunctionTable {
    struct_size: size_of::<MemoryFunctionTable>(),
    extension_start: std::ptr::null_mut(),
    instance_struct_size: size_of::<*const c_void>(),
    get_user_data: Some(get_user_data),
    set_user_data: Some(set_user_data),
});

/// What the caller keeps with a memory, by the memory's and the caller's key.
static USER_DATA: Mutex<Option<HashMap<(usize, usize), usize>>> = Mutex::new(None);

unsafe extern "C" fn get_user_data(memory: *mut Memory, key: *const c_void) -> *mut c_void {
    let data = USER_DATA.lock().unwrap_or_else(PoisonError::into_inner);
    let found = data.as_ref().and_then(|d| d.get(&(memory as usize, key as usize)).copied());
    found.map_or(std::ptr::null_mut(), |p| p as *mut c_void)
}

/// Memories live for good, so data is never destroyed.
unsafe extern "C" fn set_user_data(memory: *mut Memory, key: *const c_void, data: *mut c_void, _: *const c_void) {
    let mut all = USER_DATA.lock().unwrap_or_else(PoisonError::into_inner);
    all.get_or_insert_default().insert((memory as usize, key as usize), data as usize);
}

calls! {
    device_description_id(args: DeviceDescriptionIdArgs) {
        // SAFETY: a live device.
        args.id = unsafe { object(args.device_description) }?.id as i32;
    }

    device_description_process_index(args: DeviceDescriptionProcessIndexArgs) {
        args.process_index = 0;
    }

    device_description_attributes(args: DeviceDescriptionAttributesArgs) {
        // SAFETY: a live device.
        let d = unsafe { object(args.device_description) }?;
        let list = &pointers(client_of(d)?)?.attributes[d.id];
        (args.attributes, args.num_attributes) = (list.as_ptr(), list.len());
    }

    device_description_kind(args: DeviceDescriptionKindArgs) {
        // SAFETY: a live device.
        (args.device_kind, args.device_kind_size) = shown(&unsafe { object(args.device_description) }?.kind);
    }

    device_description_debug_string(args: DeviceDescriptionDebugStringArgs) {
        // SAFETY: a live device.
        (args.debug_string, args.debug_string_size) = shown(&unsafe { object(args.device_description) }?.debug);
    }

    device_description_to_string(args: DeviceDescriptionToStringArgs) {
        // SAFETY: a live device.
        (args.to_string, args.to_string_size) = shown(&unsafe { object(args.device_description) }?.text);
    }

    device_get_description(args: DeviceGetDescriptionArgs) {
        args.device_description = args.device;
    }

    device_is_addressable(args: DeviceIsAddressableArgs) {
        args.is_addressable = true;
    }

    device_local_hardware_id(args: DeviceLocalHardwareIdArgs) {
        // SAFETY: a live device.
        args.local_hardware_id = unsafe { object(args.device) }?.id as i32;
    }

    device_addressable_memories(args: DeviceAddressableMemoriesArgs) {
        // SAFETY: a live device.
        let d = unsafe { object(args.device) }?;
        let kinds = MemoryKind::ALL.len();
        args.memories = pointers(client_of(d)?)?.memories[d.id * kinds..].as_ptr();
        args.num_memories = kinds;
    }

    device_default_memory(args: DeviceDefaultMemoryArgs) {
        // SAFETY: a live device.
        let d = unsafe { object(args.device) }?;
        args.memory = pointers(client_of(d)?)?.memory(d.id, MemoryKind::Device);
    }

    device_memory_stats(args: DeviceMemoryStatsArgs) {
        // SAFETY: a live device.
        let d = unsafe { object(args.device) }?;
        args.bytes_in_use = d.bytes.now.load(Ordering::Relaxed);
        args.peak_bytes_in_use = d.bytes.peak.load(Ordering::Relaxed);
        args.peak_bytes_in_use_is_set = true;
        args.num_allocs = d.bytes.count.load(Ordering::Relaxed) as i64;
        args.num_allocs_is_set = true;
        args.largest_alloc_size = d.bytes.largest.load(Ordering::Relaxed);
        args.largest_alloc_size_is_set = true;
        args.bytes_limit = d.bytes.limit;
        args.bytes_limit_is_set = true;
        args.bytes_reserved_is_set = false;
        args.peak_bytes_reserved_is_set = false;
        args.bytes_reservable_limit_is_set = false;
        args.largest_free_block_bytes_is_set = false;
        args.pool_bytes_is_set = false;
        args.peak_pool_bytes_is_set = false;
    }

    device_clear_memory_stats(args: DeviceClearMemoryStatsArgs) {
        // SAFETY: a live device.
        unsafe { object(args.device) }?.bytes.clear();
    }

    device_get_attributes(args: DeviceGetAttributesArgs) {
        // SAFETY: a live device.
        let d = unsafe { object(args.device) }?;
        let list = &pointers(client_of(d)?)?.attributes[d.id];
        (args.attributes, args.num_attributes) = (list.as_ptr(), list.len());
        args.device_attributes = std::ptr::null_mut();
        args.attributes_deleter = Some(nothing);
    }

    memory_id(args: MemoryIdArgs) {
        // SAFETY: a live memory.
        args.id = unsafe { object(args.memory) }?.memory.id as i32;
    }

    memory_kind(args: MemoryKindArgs) {
        // SAFETY: a live memory.
        (args.kind, args.kind_size) = shown(unsafe { object(args.memory) }?.memory.kind.name());
    }

    memory_kind_id(args: MemoryKindIdArgs) {
        // SAFETY: a live memory.
        args.kind_id = unsafe { object(args.memory) }?.memory.kind as i32;
    }

    memory_debug_string(args: MemoryDebugStringArgs) {
        // SAFETY: a live memory.
        (args.debug_string, args.debug_string_size) = shown(&unsafe { object(args.memory) }?.memory.text);
    }

    memory_to_string(args: MemoryToStringArgs) {
        // SAFETY: a live memory.
        (args.to_string, args.to_string_size) = shown(&unsafe { object(args.memory) }?.memory.text);
    }

    memory_addressable_by_devices(args: MemoryAddressableByDevicesArgs) {
        // SAFETY: a live memory.
        let m = unsafe { object(args.memory) }?;
        args.devices = &pointers(m.client)?.devices[m.memory.device];
        args.num_devices = 1;
    }

    topology_description_destroy(_args: TopologyDescriptionDestroyArgs) {}

    topology_description_platform_name(args: TopologyDescriptionPlatformNameArgs) {
        (args.platform_name, args.platform_name_size) = shown(super::clients::PLATFORM);
    }

    topology_description_platform_version(args: TopologyDescriptionPlatformVersionArgs) {
        // SAFETY: a live client, which stands for its topology.
        (args.platform_version, args.platform_version_size) = shown(&unsafe { object(args.topology) }?.version);
    }

    topology_description_get_device_descriptions(args: TopologyDescriptionGetDeviceDescriptionsArgs) {
        // SAFETY: a live client; clients live as long as the process.
        let list = &pointers(unsafe { object(args.topology) }?)?.devices;
        (args.descriptions, args.num_descriptions) = (list.as_ptr(), list.len());
    }

    topology_description_attributes(args: TopologyDescriptionAttributesArgs) {
        (args.attributes, args.num_attributes) = (std::ptr::null(), 0);
    }

    topology_description_fingerprint(args: TopologyDescriptionFingerprintArgs) {
        // SAFETY: a live client.
        let client = unsafe { object(args.topology) }?;
        args.fingerprint = client.runtime.chip().fingerprint() ^ client.devices().len() as u64;
    }
}

/// Frees what was never made.
unsafe extern "C" fn nothing(_: *mut c_void) {}
