//! Events: callbacks once each, whoever sets them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use systole_pjrt::error::Error;
use systole_pjrt::event::{Event, Outcome};

#[test]
fn callbacks_come_once_whenever_they_are_asked_for() {
    let (event, calls) = (Event::new(), Arc::new(AtomicU32::new(0)));
    let count = |n: u32| {
        let calls = Arc::clone(&calls);
        move |o: &Outcome| {
            assert!(o.is_err());
            calls.fetch_add(n, Ordering::SeqCst);
        }
    };
    event.on_ready(count(1));
    assert!(event.outcome().is_none());
    event.set(Err(Error::internal("first")));
    event.set(Ok(()));
    event.on_ready(count(10));
    assert_eq!(calls.load(Ordering::SeqCst), 11);
    assert_eq!(event.wait().as_ref().as_ref().map_err(|e| e.message.as_str()), Err("first"));
}

#[test]
fn waiting_ends_when_another_thread_sets_it() {
    let event = Event::new();
    let other = event.clone();
    let thread = std::thread::spawn(move || other.set(Ok(())));
    assert!(event.wait().is_ok());
    thread.join().expect("ends");
}
