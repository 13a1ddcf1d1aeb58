//! The profiler: what `jax.profiler.trace` collects from the device.
//!
//! A session collects the runs between its start and its stop; what it hands over is an `XSpace` of the program that took
//! most cycles, in its last run.

use super::errors::failure;
use super::{given, guard, object, object_mut, taken};
use crate::error::Error;
use crate::ffi::handle::Failure;
use crate::{client, collect, direct};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::{Mutex, PoisonError};
use systole_runtime::profile;

/// A session.
#[derive(Default)]
pub struct Session {
    state: Mutex<(bool, Vec<u8>)>,
}

type Call = unsafe extern "C" fn(*mut c_void) -> *mut Failure;

#[repr(C)]
struct ProfilerApi {
    struct_size: usize,
    private: *mut c_void,
    error_destroy: Call,
    error_message: Call,
    error_get_code: Call,
    create: Call,
    destroy: Call,
    start: Call,
    stop: Call,
    collect_data: Call,
}

/// An entry of the interface's list of extensions.
#[repr(C)]
pub(crate) struct Extension {
    struct_size: usize,
    kind: u32,
    next: *mut c_void,
    api: *const ProfilerApi,
    traceme_context: i64,
}

// SAFETY: functions and pointers to constants, which nothing changes.
unsafe impl Sync for ProfilerApi {}
// SAFETY: as above.
unsafe impl Sync for Extension {}

/// `PJRT_Extension_Type_Profiler`.
const PROFILER: u32 = 1;

static API: ProfilerApi = ProfilerApi {
    struct_size: size_of::<ProfilerApi>(),
    private: std::ptr::null_mut(),
    error_destroy: super::errors::error_destroy,
    error_message: super::errors::error_message,
    error_get_code: super::errors::error_get_code,
    create,
    destroy,
    start,
    stop,
    collect_data,
};

pub(crate) static EXTENSION: Extension = Extension {
    struct_size: size_of::<Extension>(),
    kind: PROFILER,
    next: std::ptr::null_mut(),
    api: &API,
    traceme_context: 0,
};

#[repr(C)]
struct CreateArgs {
    struct_size: usize,
    options: *const c_char,
    options_size: usize,
    profiler: *mut Session,
}

#[repr(C)]
struct SessionArgs {
    struct_size: usize,
    profiler: *mut Session,
}

#[repr(C)]
struct CollectArgs {
    struct_size: usize,
    profiler: *mut Session,
    buffer: *mut u8,
    size: usize,
}

unsafe extern "C" fn create(args: *mut c_void) -> *mut Failure {
    guard("profiler create", || {
        // SAFETY: the caller's structure for the time of the call.
        unsafe { object_mut(args.cast::<CreateArgs>()) }?.profiler = given(Session::default());
        Ok(())
    })
}

unsafe extern "C" fn destroy(args: *mut c_void) -> *mut Failure {
    guard("profiler destroy", || {
        // SAFETY: the caller's structure, and a session that it gives back.
        unsafe { taken(object_mut(args.cast::<SessionArgs>())?.profiler) };
        Ok(())
    })
}

/// The session that a call names.
///
/// # Safety
/// The caller's structure for the time of the call, with a live session.
unsafe fn session<'a>(args: *mut c_void) -> Result<&'a Session, Error> {
    // SAFETY: as the caller of this promises.
    unsafe { object(object(args.cast::<SessionArgs>())?.profiler) }
}

unsafe extern "C" fn start(args: *mut c_void) -> *mut Failure {
    guard("profiler start", || {
        // SAFETY: the caller's structure with a live session.
        let s = unsafe { session(args) }?;
        s.state.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
        collect::begin(true);
        Ok(())
    })
}

unsafe extern "C" fn stop(args: *mut c_void) -> *mut Failure {
    guard("profiler stop", || {
        // SAFETY: the caller's structure with a live session.
        let s = unsafe { session(args) }?;
        let mut state = s.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.0) {
            client::each(|c| c.queue.drain());
            collect::end(true);
            state.1 = busiest()?;
        }
        Ok(())
    })
}

/// The trace of the program that took most cycles, in its last run; nothing if nothing ran.
fn busiest() -> Result<Vec<u8>, Error> {
    let mut all: BTreeMap<String, (f64, Vec<u8>)> = BTreeMap::new();
    for r in collect::take() {
        let report: serde_json::Value = serde_json::from_str(&r.report).map_err(|e| Error::internal(e.to_string()))?;
        let entry = all.entry(r.name).or_default();
        entry.0 += report["cycles"].as_f64().unwrap_or(0.0);
        entry.1 = r.profile.unwrap_or_default();
    }
    let most = all.into_values().filter(|e| !e.1.is_empty()).max_by(|a, b| a.0.total_cmp(&b.0));
    match most {
        Some((_, bytes)) => {
            let p = profile::read(&bytes).map_err(|e| Error::internal(e.to_string()))?;
            direct::export(&p, "xplane")
        }
        None => Ok(Vec::new()),
    }
}

unsafe extern "C" fn collect_data(args: *mut c_void) -> *mut Failure {
    // SAFETY: the caller's structure for the time of the call, with a live session.
    let (args, session) = match unsafe { (object_mut(args.cast::<CollectArgs>()), session(args)) } {
        (Ok(a), Ok(s)) => (a, s),
        (Err(e), _) | (_, Err(e)) => return failure(e),
    };
    guard("profiler collect", || {
        let state = session.state.lock().unwrap_or_else(PoisonError::into_inner);
        if args.buffer.is_null() {
            // Callers either read from here, as long as the session lives, or bring a place of their own next time.
            args.buffer = state.1.as_ptr().cast_mut();
        } else {
            // SAFETY: a place of the size that the first call told, or the one that it gave.
            unsafe { args.buffer.copy_from(state.1.as_ptr(), state.1.len()) }
        }
        args.size = state.1.len();
        Ok(())
    })
}
