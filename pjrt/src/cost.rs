//! What a program costs, by counting its cycles once without its data.

use crate::collect;
use crate::executable::Executable;
use systole_runtime::{Attached, Mode, PodOptions, PodRun, Queues, RunOptions, generate, report};

/// Named costs: XLA's names where there are some. Cycles are left out where they depend on the data.
pub(crate) fn analysis(e: &Executable) -> &[(String, f32)] {
    e.costs.get_or_init(|| {
        let ran = collect::ran(e.client.runtime.chip(), &e.exe.program, &e.facts, Mode::TimingOnly);
        let report = timed(e).map(|run| report(&ran, &run));
        let mut out = Vec::new();
        let mut put = |name: &str, value: f64| out.push((name.to_string(), value as f32));
        if let Some(r) = report {
            put("flops", r.flops);
            put("bytes accessed", (r.hbm.read_bytes + r.hbm.write_bytes) as f64);
            put("optimal_seconds", r.time_s);
            put("cycles", r.cycles as f64);
            put("seconds", r.time_s);
            put("peak_share", r.peak_share);
            put("joules", r.energy.joules);
        }
        put("code bytes", e.exe.program.code.len() as f64);
        out
    })
}

fn timed(e: &Executable) -> Option<PodRun> {
    let inputs = generate::placeholders(&e.exe.program, 0);
    let options = RunOptions::new(Mode::TimingOnly);
    let mut queues = vec![Queues::default(); e.facts.replicas * e.facts.partitions];
    let pod = PodOptions::default();
    let run = e.client.runtime.run_pod(
        &e.exe,
        &[inputs],
        &options,
        &pod,
        Attached { queues: &mut queues, ..Attached::default() },
    );
    run.ok().map(|r| r.run)
}
