//! What all targets share: a limit of memory, of time for each input, and how inputs are made.

use std::time::Duration;
use systole_fuzz::{Choices, Watch, executions, mutate, on_choices};

/// Memory of all targets together: an input that makes a reader take more ends the process.
#[global_allocator]
static MEMORY: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, 2 << 30);

/// Longest time of one input.
const MOST: Duration = Duration::from_secs(20);

/// Runs a target on its corpus, then on changes of it: `tested` that are always the same, or as many as were asked for that
/// the engine chooses.
pub fn target(
    name: &'static str,
    words: &[&str],
    corpus: Vec<Vec<u8>>,
    tested: usize,
    f: impl Fn(&[u8]) + std::panic::RefUnwindSafe,
) {
    assert!(!corpus.is_empty(), "{name} has no corpus");
    let watch = std::panic::AssertUnwindSafe(Watch::new(name, MOST));
    corpus.iter().for_each(|input| watch.run(input, &f));
    let changed = |bytes: &[u8]| watch.run(&mutate(&mut Choices::new(bytes), &corpus, words), &f);
    match executions() {
        None => on_choices(name, tested, changed),
        Some(asked) => bolero::check!().with_iterations(asked).with_max_len(64).for_each(changed),
    }
}
