//! What the devices of a run have in common on the host: answers that are made once for all of them.

use crate::Array;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

type Answer = Result<Vec<Array>, String>;

/// Answers that are made once for all devices of a run.
#[derive(Debug)]
pub struct Common {
    devices: usize,
    calls: Mutex<BTreeMap<u64, Calls>>,
}

/// The answers to one call that not all devices have taken.
#[derive(Debug)]
struct Calls {
    /// How many each device has taken.
    taken: Vec<usize>,
    /// The number of the first one below.
    first: usize,
    /// Each with how many devices have yet to take it.
    answers: VecDeque<(usize, Answer)>,
}

impl Common {
    /// For a run on so many devices.
    pub fn new(devices: usize) -> Common {
        Common { devices, calls: Mutex::default() }
    }

    /// What `make` gives to the device that is the first to ask for a `call` for the nth time, for all that ask for the nth time. Every device
    /// is to make the same calls.
    ///
    /// # Errors
    /// What `make` says, to all of them.
    pub fn once(&self, call: u64, device: usize, make: impl FnOnce() -> Answer) -> Answer {
        if self.devices <= 1 {
            return make();
        }
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = calls.entry(call).or_insert_with(|| Calls {
            taken: vec![0; self.devices],
            first: 0,
            answers: VecDeque::new(),
        });
        let at = calls.taken[device] - calls.first;
        calls.taken[device] += 1;
        if at == calls.answers.len() {
            calls.answers.push_back((self.devices, make()));
        }
        let (left, answer) = &mut calls.answers[at];
        *left -= 1;
        let answer = answer.clone();
        while calls.answers.front().is_some_and(|a| a.0 == 0) {
            calls.answers.pop_front();
            calls.first += 1;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nth_answer_is_the_same_for_all_and_made_once() {
        let common = Common::new(3);
        let mut made = 0;
        let mut ask = |call: u64, device: usize| {
            let answer = common.once(call, device, || {
                made += 1;
                Err(made.to_string())
            });
            answer.expect_err("it is one")
        };
        // Devices are at different places, and so are calls.
        let asked = [(7, 0), (7, 0), (7, 1), (9, 2), (7, 2), (7, 2), (9, 0), (7, 1), (7, 2), (7, 0), (7, 1), (9, 1)];
        let got: Vec<String> = asked.into_iter().map(|(call, device)| ask(call, device)).collect();
        assert_eq!(got, ["1", "2", "1", "3", "1", "2", "3", "2", "4", "4", "4", "3"]);
        let calls = common.calls.lock().expect("nobody holds it");
        assert!(calls.values().all(|c| c.answers.is_empty()), "{calls:?}");
    }
}
