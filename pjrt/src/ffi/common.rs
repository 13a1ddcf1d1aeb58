//! Structures of errors, events, options, programs and layouts.
//!
//! Fields stand in the order of the C interface, version 0.112; sizes and last offsets are proved below.

use crate::ffi::handle::{Event, Failure, Memory};
use std::ffi::{c_char, c_void};

#[repr(C)]
pub struct NamedValue {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub name: *const c_char,
    pub name_size: usize,
    pub kind: u32,
    pub value: NamedValueUnion,
    pub value_size: usize,
}

#[repr(C)]
pub struct Program {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub code: *mut c_char,
    pub code_size: usize,
    pub format: *const c_char,
    pub format_size: usize,
}

#[repr(C)]
pub struct BufferMemoryLayoutTiled {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub minor_to_major: *const i64,
    pub minor_to_major_size: usize,
    pub tile_dims: *const i64,
    pub tile_dim_sizes: *const usize,
    pub num_tiles: usize,
}

#[repr(C)]
pub struct BufferMemoryLayoutStrides {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub byte_strides: *const i64,
    pub num_byte_strides: usize,
}

#[repr(C)]
pub struct BufferMemoryLayout {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub layout: MemoryLayoutUnion,
    pub kind: u32,
}

#[repr(C)]
pub struct ExecuteOptions {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub send_callbacks: *mut *mut c_void,
    pub recv_callbacks: *mut *mut c_void,
    pub num_send_ops: usize,
    pub num_recv_ops: usize,
    pub launch_id: i32,
    pub non_donatable_input_indices: *const i64,
    pub num_non_donatable_input_indices: usize,
    pub context: *mut c_void,
    pub call_location: *const c_char,
    pub num_tasks: usize,
    pub task_ids: *mut i32,
    pub incarnation_ids: *mut i64,
    pub multi_slice_config: *mut c_void,
    pub use_major_to_minor_data_layout_for_callbacks: bool,
    pub hlo_output_callbacks: *mut c_void,
    pub num_hlo_output_callbacks: usize,
}

#[repr(C)]
pub struct LogicalDeviceIds {
    pub replica: i32,
    pub partition: i32,
}

#[repr(C)]
pub struct ErrorFunctionTable {
    pub struct_size: usize,
    pub instance_size: usize,
    pub extension_start: *mut c_void,
    pub destroy: Option<unsafe extern "C" fn(*mut Failure)>,
    pub message: Option<unsafe extern "C" fn(*const Failure, *mut *const c_char, *mut usize)>,
    pub get_code: Option<unsafe extern "C" fn(*const Failure) -> u32>,
    pub for_each_payload: Option<unsafe extern "C" fn(*const Failure, *const c_void, *mut c_void)>,
}

#[repr(C)]
pub struct MemoryFunctionTable {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub instance_struct_size: usize,
    pub get_user_data: Option<unsafe extern "C" fn(*mut Memory, *const c_void) -> *mut c_void>,
    pub set_user_data: Option<unsafe extern "C" fn(*mut Memory, *const c_void, *mut c_void, *const c_void)>,
}

#[repr(C)]
pub struct ApiVersion {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub major_version: i32,
    pub minor_version: i32,
}

#[repr(C)]
pub struct ErrorDestroyArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub error: *mut Failure,
}

#[repr(C)]
pub struct ErrorMessageArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub error: *const Failure,
    pub message: *const c_char,
    pub message_size: usize,
}

#[repr(C)]
pub struct ErrorGetCodeArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub error: *const Failure,
    pub code: u32,
}

#[repr(C)]
pub struct ErrorForEachPayloadArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub error: *const Failure,
    pub visitor: *const c_void,
    pub user_arg: *mut c_void,
}

#[repr(C)]
pub struct PluginInitializeArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
}

#[repr(C)]
pub struct PluginAttributesArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub attributes: *const NamedValue,
    pub num_attributes: usize,
}

#[repr(C)]
pub struct EventDestroyArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub event: *mut Event,
}

#[repr(C)]
pub struct EventIsReadyArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub event: *mut Event,
    pub is_ready: bool,
}

#[repr(C)]
pub struct EventErrorArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub event: *mut Event,
}

#[repr(C)]
pub struct EventAwaitArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub event: *mut Event,
}

#[repr(C)]
pub struct EventOnReadyArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub event: *mut Event,
    pub callback: Option<unsafe extern "C" fn(*mut Failure, *mut c_void)>,
    pub user_arg: *mut c_void,
}

#[repr(C)]
pub struct EventCreateArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub event: *mut Event,
}

#[repr(C)]
pub struct EventSetArgs {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
    pub event: *mut Event,
    pub error_code: u32,
    pub error_message: *const c_char,
    pub error_message_size: usize,
}

#[repr(C)]
pub union NamedValueUnion {
    pub string: *const c_char,
    pub int64: i64,
    pub int64_list: *const i64,
    pub float: f32,
    pub bool: bool,
}

#[repr(C)]
pub union MemoryLayoutUnion {
    pub tiled: std::mem::ManuallyDrop<BufferMemoryLayoutTiled>,
    pub strides: std::mem::ManuallyDrop<BufferMemoryLayoutStrides>,
}
