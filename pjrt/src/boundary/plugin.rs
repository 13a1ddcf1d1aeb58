//! The plugin itself.

use super::calls;
use crate::ffi::common::{NamedValue, NamedValueUnion, PluginAttributesArgs, PluginInitializeArgs};
use std::ffi::c_char;

/// The version of StableHLO that programs are wanted in: the newest that the front end knows and JAX 0.10 writes.
const STABLEHLO: [i64; 3] = [1, 13, 0];

/// Named values that never change.
struct Attributes([NamedValue; 3]);

// SAFETY: the values point to constants, and nothing changes them.
unsafe impl Sync for Attributes {}

const fn version(name: &'static str, value: &'static [i64; 3]) -> NamedValue {
    NamedValue {
        struct_size: size_of::<NamedValue>(),
        extension_start: std::ptr::null_mut(),
        name: name.as_ptr().cast::<c_char>(),
        name_size: name.len(),
        kind: INT64_LIST,
        value: NamedValueUnion { int64_list: value.as_ptr() },
        value_size: value.len(),
    }
}

/// `PJRT_NamedValue_kInt64List`.
const INT64_LIST: u32 = 2;
/// `PJRT_NamedValue_kInt64`.
const INT64: u32 = 1;

static ATTRIBUTES: Attributes = Attributes([
    version("stablehlo_current_version", &STABLEHLO),
    version("stablehlo_minimum_version", &[0, 9, 0]),
    NamedValue {
        struct_size: size_of::<NamedValue>(),
        extension_start: std::ptr::null_mut(),
        name: c"xla_version".as_ptr(),
        name_size: "xla_version".len(),
        kind: INT64,
        value: NamedValueUnion { int64: 2 },
        value_size: 1,
    },
]);

calls! {
    plugin_initialize(_args: PluginInitializeArgs) {}

    plugin_attributes(args: PluginAttributesArgs) {
        args.attributes = ATTRIBUTES.0.as_ptr();
        args.num_attributes = ATTRIBUTES.0.len();
    }
}
