//! Functions of the host that programs call: Python's callbacks.
//!
//! The Python package registers one handler; a program names a callback by its number in the call's configuration.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use systole_isa::DType;
use systole_runtime::{Array, Client};

/// The name of custom calls that go to Python.
pub const CALLBACK: &str = "systole_python_callback";

/// What follows the number of a callback that is called once for all devices of a run, which give it the same.
const ONCE: &str = "once";

/// Gets the callback's number, the operands, and element types and sizes of the results.
pub type Handler = Arc<dyn Fn(u64, &[Array], &[(DType, Vec<u64>)]) -> Result<Vec<Array>, String> + Send + Sync>;

static HANDLER: RwLock<Option<Handler>> = RwLock::new(None);

/// Sets what callbacks go to, from now on and for every client.
pub fn set_handler(handler: Handler) {
    *HANDLER.write().unwrap_or_else(PoisonError::into_inner) = Some(handler);
}

/// Makes the host's functions known to a client.
pub fn register(client: &mut Client) {
    client.register(CALLBACK, |call, operands| {
        let (number, once) = match call.config.trim().strip_suffix(ONCE) {
            Some(number) => (number, true),
            None => (call.config.trim(), false),
        };
        let number = number.trim().parse::<u64>();
        let number = number.map_err(|_| format!("`{}` is no callback's number", call.config))?;
        let handler = HANDLER.read().unwrap_or_else(PoisonError::into_inner).clone();
        let handler = handler.ok_or("callbacks need the Python package `systole`")?;
        let make = || handler(number, operands, call.results);
        if once { call.common.once(number, call.device, make) } else { make() }
    });
}

/// Whether made-up values of runs that only counted cycles may be read.
static MADE_UP_ALLOWED: AtomicBool = AtomicBool::new(false);

/// Lets made-up values be read, or not.
pub fn allow_made_up(allowed: bool) {
    MADE_UP_ALLOWED.store(allowed, Ordering::Relaxed);
}

pub(crate) fn made_up_allowed() -> bool {
    MADE_UP_ALLOWED.load(Ordering::Relaxed)
}
