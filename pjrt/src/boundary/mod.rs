//! The calls of the C interface.
//!
//! This folder has the only `unsafe` code of the plugin. What callers promise, by the interface's documentation, and what
//! every proof here rests on:
//! - a call gets a pointer to its structure of arguments, which is its own for the time of the call and large enough for
//!   the fields of the interface's version 0.112 that the call has had since the least version that is accepted;
//! - pointers of objects are those that this library gave out, and are not used after their `Destroy`;
//! - pointers of arrays are valid for the length that stands beside them, and for the time of the call.
//!
//! Every call goes through [`guard`]: a panic becomes an error. Calls that are missing answer UNIMPLEMENTED.
#![allow(unsafe_code, reason = "the C interface; each use has its proof")]

mod buffers;
mod clients;
mod devices;
mod errors;
mod events;
mod executables;
mod plugin;
mod profiler;
pub mod python;
mod table;

pub use table::GetPjrtApi;

use crate::error::{Code, Error};
use crate::ffi::handle::Failure;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call of the interface, whatever its arguments.
pub(crate) type Call = unsafe extern "C" fn(*mut c_void) -> *mut Failure;

/// Runs the body of a call: no panic leaves it, and its error becomes one of the interface.
pub(crate) fn guard(name: &str, body: impl FnOnce() -> Result<(), Error>) -> *mut Failure {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => std::ptr::null_mut(),
        Ok(Err(e)) => errors::failure(e),
        Err(_) => errors::failure(Error::internal(format!("{name} panicked, which is a bug of systole"))),
    }
}

/// Calls of the interface: `name(arguments: Structure) { .. }` with `?` on errors.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($args:ident: $type:ty) $body:block)*) => {$(
        $(#[$doc])*
        pub(crate) unsafe extern "C" fn $name(args: *mut std::ffi::c_void) -> *mut crate::ffi::handle::Failure {
            crate::boundary::guard(stringify!($name), || {
                // SAFETY: the caller hands over the call's own structure for the time of the call (see the module).
                let $args: &mut $type = unsafe { crate::boundary::object_mut(args.cast())? };
                $body
                #[allow(unreachable_code, reason = "a body may end with an error")]
                Ok(())
            })
        }
    )*};
}
pub(crate) use calls;

/// The error of an object that is not where it should be.
pub(crate) fn missing_object() -> Error {
    Error::internal("an object of the interface lacks what it belongs to")
}

/// What a pointer of the interface points to.
///
/// # Safety
/// Null, or a pointer that is valid for reading during `'a`.
pub(crate) unsafe fn object<'a, T>(p: *const T) -> Result<&'a T, Error> {
    // SAFETY: as the caller of this promises; null is refused.
    unsafe { p.as_ref() }.ok_or_else(|| Error::invalid("a null pointer"))
}

/// As [`object`], to change it.
///
/// # Safety
/// Null, or a pointer that is valid during `'a` and used by nobody else.
pub(crate) unsafe fn object_mut<'a, T>(p: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: as the caller of this promises; null is refused.
    unsafe { p.as_mut() }.ok_or_else(|| Error::invalid("a null pointer"))
}

/// The elements of an array of the interface.
///
/// # Safety
/// Null (then it is empty), or valid for `n` elements during `'a`.
pub(crate) unsafe fn array<'a, T>(p: *const T, n: usize) -> &'a [T] {
    if p.is_null() || n == 0 {
        return &[];
    }
    // SAFETY: as the caller of this promises.
    unsafe { std::slice::from_raw_parts(p, n) }
}

/// Text of the interface; what is no UTF-8 is replaced.
///
/// # Safety
/// As [`array`].
pub(crate) unsafe fn text(p: *const c_char, n: usize) -> String {
    // SAFETY: as the caller of this promises.
    String::from_utf8_lossy(unsafe { array(p.cast::<u8>(), n) }).into_owned()
}

/// A text of an object, which the caller may read as long as the object lives: its bytes and how many.
pub(crate) fn shown(text: &str) -> (*const c_char, usize) {
    (text.as_ptr().cast(), text.len())
}

/// Gives an object to the caller, who gives it back to [`taken`].
pub(crate) fn given<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes back what [`given`] gave. Null is nothing.
///
/// # Safety
/// Null, or a pointer from [`given`] that is not used any more.
pub(crate) unsafe fn taken<T>(p: *mut T) {
    if !p.is_null() {
        // SAFETY: the pointer comes from a box and is given back once.
        drop(unsafe { Box::from_raw(p) });
    }
}

/// The answer of calls that this plugin does not have.
pub(crate) unsafe extern "C" fn missing<const N: usize>(_: *mut c_void) -> *mut Failure {
    guard("missing", || {
        let name = table::NAMES.get(N).copied().unwrap_or("this call");
        Err(Error::new(Code::Unimplemented, format!("{name} is not implemented by systole")))
    })
}

/// A pointer that another thread may use.
pub(crate) struct Foreign<T>(pub *mut T);

// SAFETY: the interface lets callbacks run on any thread, with the argument that the caller gave for them.
unsafe impl<T> Send for Foreign<T> {}
