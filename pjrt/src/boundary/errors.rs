//! Errors.

use super::{calls, given, object, shown, taken};
use crate::error::Error;
use crate::ffi::common::{
    ErrorDestroyArgs, ErrorForEachPayloadArgs, ErrorFunctionTable, ErrorGetCodeArgs, ErrorMessageArgs,
};
use crate::ffi::handle::Failure;
use std::ffi::{c_char, c_void};

/// The functions of every error, at its beginning.
struct Table(ErrorFunctionTable);

// SAFETY: the table holds functions and a null pointer, and nothing changes it.
unsafe impl Sync for Table {}

static TABLE: Table = Table(ErrorFunctionTable {
    struct_size: size_of::<ErrorFunctionTable>(),
    instance_size: size_of::<*const c_void>(),
    extension_start: std::ptr::null_mut(),
    destroy: Some(destroy),
    message: Some(message),
    get_code: Some(code),
    for_each_payload: Some(for_each_payload),
});

/// An error for the caller.
pub(crate) fn failure(error: Error) -> *mut Failure {
    given(Failure { table: &TABLE.0, error })
}

unsafe extern "C" fn destroy(e: *mut Failure) {
    // SAFETY: the caller gives back an error that it got from `failure`.
    unsafe { taken(e) }
}

unsafe extern "C" fn message(e: *const Failure, text: *mut *const c_char, size: *mut usize) {
    // SAFETY: a live error, and two places to write to.
    if let (Ok(e), Some(text), Some(size)) = unsafe { (object(e), text.as_mut(), size.as_mut()) } {
        (*text, *size) = shown(&e.error.message);
    }
}

unsafe extern "C" fn code(e: *const Failure) -> u32 {
    // SAFETY: a live error.
    unsafe { object(e) }.map_or(2, |e| e.error.code)
}

/// Errors have no payload.
unsafe extern "C" fn for_each_payload(_: *const Failure, _: *const c_void, _: *mut c_void) {}

calls! {
    error_destroy(args: ErrorDestroyArgs) {
        // SAFETY: the caller gives back an error that it got from `failure`.
        unsafe { taken(args.error) }
    }

    error_message(args: ErrorMessageArgs) {
        // SAFETY: a live error, and places of the structure.
        unsafe { message(args.error, &mut args.message, &mut args.message_size) }
    }

    error_get_code(args: ErrorGetCodeArgs) {
        // SAFETY: a live error.
        args.code = unsafe { code(args.error) };
    }

    error_for_each_payload(_args: ErrorForEachPayloadArgs) {}
}
