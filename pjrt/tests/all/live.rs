//! What `systole top --attach` is shown, and how often.

use std::time::{Duration, Instant};
use systole_pjrt::live::*;

#[test]
fn every_program_is_shown_once_and_none_too_often() {
    let mut state = State::default();
    assert!(state.due("a"));
    state.last = Some((Instant::now(), Duration::from_secs(1000)));
    state.shown.insert("a".to_string());
    assert!(!state.due("a") && state.due("b"));
    state.last = None;
    assert!(state.due("a"));
}

#[test]
fn files_have_plain_names() {
    assert_eq!(file_name("jit_f/<lambda>", "0123456789abcdef"), "jit_f__lambda_-01234567.sysp");
}
