//! What all targets share: a limit of memory, of time for each input, and how inputs are made.

use std::time::Duration;
use systole_fuzz::{Choices, Watch, executions, mutate};

/// Memory of all targets together: an input that makes a reader take more ends the process.
#[global_allocator]
static MEMORY: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, 2 << 30);

/// Longest time of one input.
const MOST: Duration = Duration::from_secs(20);

/// Runs a target on its corpus, then on changes of it.
pub fn target(
    name: &'static str,
    words: &[&str],
    corpus: Vec<Vec<u8>>,
    default: usize,
    f: impl Fn(&[u8]) + std::panic::RefUnwindSafe,
) {
    assert!(!corpus.is_empty(), "{name} has no corpus");
    let watch = std::panic::AssertUnwindSafe(Watch::new(name, MOST));
    corpus.iter().for_each(|input| watch.run(input, &f));
    bolero::check!().with_iterations(executions(default)).with_max_len(64).for_each(move |bytes: &[u8]| {
        let input = mutate(&mut Choices::new(bytes), &corpus, words);
        watch.run(&input, &f);
    });
}
