//! The process's begin, in place of the standard library's. That one has the system list all that the process has mapped, to find out
//! where the stack ends, and sets up a second stack, so that it can say so when a stack overflows: a tenth of the time that
//! `systole --help` takes. Here such an overflow ends the process without a word. All else is as there.

#![allow(unsafe_code, reason = "the system's calls, which the standard library makes otherwise")]

use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
extern "C" fn main(_: c_int, _: *const *const c_char) -> c_int {
    keep_streams();
    // SAFETY: no handler is called, who writes to a closed pipe is told by the write.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // What is left in buffers is written then.
    std::process::exit(std::panic::catch_unwind(crate::command).map_or(101, c_int::from))
}

/// Of the standard streams those that are closed lead nowhere from now on: else the next file that is opened would take one's place.
fn keep_streams() {
    let mut streams = [0, 1, 2].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
    // SAFETY: so many of them are there.
    let told = unsafe { libc::poll(streams.as_mut_ptr(), streams.len() as libc::nfds_t, 0) };
    if told > 0 {
        for _ in streams.iter().filter(|s| s.revents & libc::POLLNVAL != 0) {
            // SAFETY: a text with its end. It takes the least number that is free.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
    }
}
