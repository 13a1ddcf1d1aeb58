//! What a large case of each family of operations costs on `tpu-v5e`: the cases of `operations.toml`.
//!
//! `cargo bench --bench operations [-- WORD...]` simulates the cases whose names contain one of the words (default: all),
//! timing-only. A line gives the cycles, cycles per element of the result (or what the case counts), multiples of the
//! time that moving the data that the operation needs through HBM once takes, the busiest unit, and what bounds it.

use serde::Deserialize;
use systole_isa::ChipConfig;
use systole_runtime::{Array, Client, CompileOptions, Mode, NoObserver, PodRun, Ran, RunOptions, report};

/// The file's contents, which it describes.
#[derive(Deserialize)]
struct Operations {
    bodies: String,
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    elements: u64,
    bytes: u64,
    text: String,
}

/// The module of a case.
fn program(bodies: &str, text: &str) -> String {
    format!("HloModule operation\n{bodies}\nENTRY e {{\n  {text}\n}}\n")
}

fn simulate(client: &Client, bodies: &str, c: &Case) -> Result<String, Box<dyn std::error::Error>> {
    let start = std::time::Instant::now();
    let exe = client.compile_hlo(&program(bodies, &c.text), &CompileOptions::default())?;
    let compiled = start.elapsed();
    let params = exe.program.params.iter();
    // Small arrays may steer the program: they are zeros. Others need no contents.
    let bytes = |n: u64, size: usize| if n <= 4096 { vec![0; n as usize * size] } else { Vec::new() };
    let inputs: Vec<Array> = params
        .map(|p| {
            let (dtype, dims) = (p.layout.dtype, p.layout.dims.clone());
            let bytes = bytes(dims.iter().product(), dtype.host_bytes());
            Array { dtype, dims, bytes }
        })
        .collect();
    let options = RunOptions::new(Mode::TimingOnly);
    let done = client.device(0).run_with(&exe, &inputs, &options, &mut NoObserver)?;
    let ran = Ran::new(&c.name, client.chip(), &exe.program, Mode::TimingOnly);
    let r = report(&ran, &PodRun::alone(done.result));
    let chip = client.chip();
    let once = c.bytes as f64 / (chip.hbm.bandwidth / chip.clock_hz);
    let busiest = r.units.iter().filter(|u| u.unit != "issue").max_by_key(|u| u.busy);
    let share = |busy: u64| 100.0 * busy as f64 / r.cycles.max(1) as f64;
    let busiest = busiest.map_or(String::new(), |u| format!("{} {:.0} %", u.unit, share(u.busy)));
    Ok(format!(
        "| {} | {} | {:.3} | {:.1} | {} | {busiest} | {:.2} s |",
        c.name,
        r.cycles,
        r.cycles as f64 / c.elements as f64,
        r.cycles as f64 / once,
        r.bound,
        compiled.as_secs_f64()
    ))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let client = Client::with_chip(ChipConfig::from_preset("tpu-v5e")?);
    let all: Operations = toml::from_str(include_str!("operations.toml"))?;
    println!(
        "| case | cycles | cycles per element | times its data through HBM | bound | busiest unit | compiled in |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for c in all.case.iter().filter(|c| words.is_empty() || words.iter().any(|w| c.name.contains(w.as_str()))) {
        match simulate(&client, &all.bodies, c) {
            Ok(line) => println!("{line}"),
            Err(e) => println!("| {} | failed: {} |", c.name, e.to_string().lines().next().unwrap_or_default()),
        }
    }
    Ok(())
}
