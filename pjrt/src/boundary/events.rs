//! Events.

use super::errors::failure;
use super::{Foreign, calls, given, object, taken, text};
use crate::error::Error;
use crate::event::Event;
use crate::ffi::common::{
    EventAwaitArgs, EventCreateArgs, EventDestroyArgs, EventErrorArgs, EventIsReadyArgs, EventOnReadyArgs, EventSetArgs,
};

calls! {
    event_destroy(args: EventDestroyArgs) {
        // SAFETY: the caller gives back an event that it got.
        unsafe { taken(args.event) }
    }

    event_is_ready(args: EventIsReadyArgs) {
        // SAFETY: a live event.
        args.is_ready = unsafe { object(args.event) }?.outcome().is_some();
    }

    event_error(args: EventErrorArgs) {
        // SAFETY: a live event.
        if let Some(outcome) = unsafe { object(args.event) }?.outcome() {
            return outcome.as_ref().clone();
        }
    }

    event_await(args: EventAwaitArgs) {
        // SAFETY: a live event. A clone of it is waited for, so that it may be destroyed meanwhile.
        let event = unsafe { object(args.event) }?.clone();
        return event.wait().as_ref().clone();
    }

    event_on_ready(args: EventOnReadyArgs) {
        let callback = args.callback.ok_or_else(|| Error::invalid("a callback is missing"))?;
        let user = Foreign(args.user_arg);
        // SAFETY: a live event.
        unsafe { object(args.event) }?.on_ready(move |outcome| {
            let user = user;
            let error = outcome.as_ref().err().map_or(std::ptr::null_mut(), |e| failure(e.clone()));
            // SAFETY: the caller's function with the argument that it gave for it; the error becomes its own.
            unsafe { callback(error, user.0) }
        });
    }

    event_create(args: EventCreateArgs) {
        args.event = given(Event::new());
    }

    event_set(args: EventSetArgs) {
        let outcome = match args.error_code {
            0 => Ok(()),
            // SAFETY: text of the length that stands beside it.
            code => Err(Error { code, message: unsafe { text(args.error_message, args.error_message_size) } }),
        };
        // SAFETY: a live event.
        unsafe { object(args.event) }?.set(outcome);
    }
}
