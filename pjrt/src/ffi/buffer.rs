//! Structures of buffers.
//!
//! Fields stand in the order of the C interface, version 0.112; sizes and last offsets are proved below.

use super::common::BufferMemoryLayout;
use crate::ffi::handle::{Buffer, Device, Event, Memory};
use std::ffi::c_void;

#[repr(C)]
pub struct BufferDestroyArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
}

#[repr(C)]
pub struct BufferElementTypeArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub kind: u32,
}

#[repr(C)]
pub struct BufferDimensionsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub dims: *const i64,
    pub num_dims: usize,
}

#[repr(C)]
pub struct BufferUnpaddedDimensionsArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub unpadded_dims: *const i64,
    pub num_dims: usize,
}

#[repr(C)]
pub struct BufferDynamicDimensionIndicesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub dynamic_dim_indices: *const usize,
    pub num_dynamic_dims: usize,
}

#[repr(C)]
pub struct BufferGetMemoryLayoutArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub layout: BufferMemoryLayout,
}

#[repr(C)]
pub struct BufferOnDeviceSizeInBytesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub on_device_size_in_bytes: usize,
}

#[repr(C)]
pub struct BufferDeviceArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub device: *mut Device,
}

#[repr(C)]
pub struct BufferMemoryArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub memory: *mut Memory,
}

#[repr(C)]
pub struct BufferDeleteArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
}

#[repr(C)]
pub struct BufferIsDeletedArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub is_deleted: bool,
}

#[repr(C)]
pub struct BufferCopyToDeviceArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub dst_device: *mut Device,
    pub dst_buffer: *mut Buffer,
}

#[repr(C)]
pub struct BufferCopyToMemoryArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub dst_memory: *mut Memory,
    pub dst_buffer: *mut Buffer,
}

#[repr(C)]
pub struct BufferToHostBufferArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub src: *mut Buffer,
    pub host_layout: *mut BufferMemoryLayout,
    pub dst: *mut c_void,
    pub dst_size: usize,
    pub event: *mut Event,
}

#[repr(C)]
pub struct BufferCopyRawToHostArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub dst: *mut c_void,
    pub offset: i64,
    pub transfer_size: i64,
    pub event: *mut Event,
}

#[repr(C)]
pub struct BufferIsOnCpuArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub is_on_cpu: bool,
}

#[repr(C)]
pub struct BufferReadyEventArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub event: *mut Event,
}

#[repr(C)]
pub struct BufferUnsafePointerArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub buffer_pointer: usize,
}

#[repr(C)]
pub struct BufferIncreaseExternalReferenceCountArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
}

#[repr(C)]
pub struct BufferDecreaseExternalReferenceCountArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
}

#[repr(C)]
pub struct BufferOpaqueDeviceMemoryDataPointerArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub device_memory_ptr: *mut c_void,
}

#[repr(C)]
pub struct BufferBitcastArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub buffer: *mut Buffer,
    pub element_type: u32,
    pub dims: *const i64,
    pub num_dims: usize,
    pub device_layout: *mut BufferMemoryLayout,
    pub out_buffer: *mut Buffer,
}
