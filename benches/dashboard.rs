//! A profile of ten million spans: how long it takes to open, how many frames a second its timeline reaches, how much
//! memory it needs. `cargo bench --bench dashboard`.

use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use systole_runtime::profile::{self, Level, Limits, Recorder, Run};
use systole_runtime::{Client, CompileOptions, Mode, NoObserver, PodRun, Ran, RunOptions, generate};
use systole_tui::{App, Data, Event, Key, Phase, Theme, frame, update};

const MLP: &str = include_str!("../examples/mlp.hlo");
const SPANS: u64 = 10_000_000;
const FRAMES: u32 = 300;
/// What must be reached: seconds to open, frames a second, bytes.
const OPEN: f64 = 1.0;
const RATE: f64 = 30.0;
const MEMORY: u64 = 500 << 20;

/// Writes the profile of a run with other spans and as many cycles as they take.
fn large(path: &str) {
    let client = Client::new("tpu-v5e").expect("a preset");
    let exe = client.compile_hlo(MLP, &CompileOptions::default()).expect("it compiles");
    let mut nobody = NoObserver;
    let mut recorder =
        Recorder::new(Level::Bundles, Limits::of(Level::Bundles), (&exe.program, client.chip()), &mut nobody);
    let (inputs, options) = (generate::placeholders(&exe.program, 0), RunOptions::new(Mode::TimingOnly));
    let done = client.device(0).run_with(&exe, &inputs, &options, &mut recorder).expect("no fault");
    let (mut recorded, mut run) = (recorder.finish(), PodRun::alone(done.result));
    let ops = exe.program.debug.ops.len() as u64;
    let mut spans = profile::Spans::default();
    let (mut at, mut state) = (0, 1u64);
    for _ in 0..SPANS {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let len = 3 + (state >> 33) % 900;
        spans.push(((state >> 45) % ops) as u32, at, at + len);
        at += len;
    }
    run.devices[0].cycles = at;
    recorded.trace.ops = spans;
    let ran = Ran { source: MLP, ..Ran::new("mlp.hlo", client.chip(), &exe.program, Mode::TimingOnly) };
    let file = profile::bytes(&Run { ran: &ran, run: &run, level: Level::Bundles }, &[recorded]);
    std::fs::write(path, file).expect("writable");
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).map_or(0, |k| k << 10)
}

fn look(path: &str) {
    let start = Instant::now();
    let bytes = std::fs::read(path).expect("the large profile");
    let size = bytes.len();
    let p = profile::read(&bytes).expect("a profile");
    drop(bytes);
    let data = Arc::new(Data::new(p));
    let mut app = App::new(path, Theme::full(), Phase::Replay);
    update(&mut app, Event::Resize { width: 200, height: 60 });
    update(&mut app, Event::Data(data));
    frame(&app, 200, 60);
    let open = start.elapsed().as_secs_f64();
    let keys = Key::script("2++++n]]]--0n+++[[--");
    let start = Instant::now();
    for i in 0..FRAMES {
        update(&mut app, Event::Key(keys[i as usize % keys.len()]));
        frame(&app, 200, 60);
    }
    let rate = FRAMES as f64 / start.elapsed().as_secs_f64();
    let memory = peak_memory();
    println!("{SPANS} spans, {} MiB: opens in {open:.2} s, {rate:.0} frames/s, {} MiB", size >> 20, memory >> 20);
    assert!(open <= OPEN && rate >= RATE && memory <= MEMORY, "too slow or too large");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|a| a == "--look") {
        Some(i) => look(&arguments[i + 1]),
        None => {
            let path = std::env::temp_dir().join(format!("systole-{}.sysp", std::process::id()));
            let path = path.to_string_lossy().into_owned();
            large(&path);
            // A process of its own, so that making the profile does not count.
            let itself = std::env::current_exe().expect("this program");
            let done = Command::new(itself).args(["--look", &path]).status().expect("it starts");
            std::fs::remove_file(&path).expect("it was written");
            assert!(done.success());
        }
    }
}
