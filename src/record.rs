//! Runs into profiles: what `systole run --profile` and the dashboard write down, and running a profile's program again.

use crate::args::{CompileArgs, RunArgs, assumed};
use crate::session::Ready;
use clap::Parser;
use systole_isa::Program;
use systole_runtime::profile::{self, Level, Limits, Profile, Recorded, Recorder, Run};
use systole_runtime::report::{self, HostReport, Report};
use systole_runtime::source::{self, Source};
use systole_runtime::{
    Client, Mode, NoObserver, Observer, PodOptions, Queues, RunOptions, RunResult, RuntimeError, generate,
};
use systole_simulator::PodRun;

fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
}

/// What a run gave, on one device or several.
pub enum Done {
    One(RunResult),
    Several(PodRun),
}

impl Done {
    /// The report of the run.
    pub fn report(&self, client: &Client, program: &Program, host: HostReport) -> Report {
        match self {
            Done::One(r) => report::report(client.chip(), program, r, host),
            Done::Several(r) => report::pod::report(client.chip(), program, r, host),
        }
    }

    /// The profile of the run. `run`: what ran; its topology and links are filled in here.
    fn profile(&self, run: Run<'_>, recorded: Vec<Recorded>) -> Profile {
        let program = run.program;
        match self {
            Done::One(result) if !result.cores.is_empty() => {
                let cores = recorded.into_iter().zip(&result.cores).enumerate();
                let devices = cores.map(|(i, (r, core))| profile::Device::new(0, i as u32, r, core));
                Profile::new(run, devices.collect())
            }
            Done::One(result) => {
                let devices = recorded.into_iter().map(|r| profile::Device::new(0, 0, r, result));
                Profile::new(run, devices.collect())
            }
            Done::Several(done) => {
                let run = Run {
                    topology: program.pod.topology.as_ref().map_or(vec![1], |t| t.dims.clone()),
                    links: profile::pod_links(program, done),
                    ..run
                };
                Profile::new(run, profile::pod_devices(program, recorded.into_iter(), done))
            }
        }
    }
}

/// The profile of a program's run. `recorded`: of each simulated device.
pub fn profile(
    ready: &Ready,
    args: &RunArgs,
    mode: Mode,
    level: Level,
    recorded: Vec<Recorded>,
    done: &Done,
) -> Profile {
    let report = done.report(&ready.client, &ready.exe.program, ready.host.clone());
    let run = Run {
        name: &args.module,
        chip: ready.client.chip(),
        program: &ready.exe.program,
        source: &ready.source,
        mode,
        level,
        report: &report,
        flags: args.flags(),
        topology: vec![1],
        links: Vec::new(),
        partial: false,
    };
    done.profile(run, recorded)
}

/// The flags that a profile keeps, read again.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Flags {
    #[command(flatten)]
    compile: CompileArgs,
    #[arg(long)]
    assume: Vec<String>,
}

/// Runs a profile's program again, cycles only, on its chip with parameters changed. Where code depends on a changed
/// parameter, the source is compiled again with the flags of the first time. Inputs are drawn, not those of the first run.
///
/// # Errors
/// Parameters that do not fit, a program that cannot be compiled again, or a fault of the program.
pub fn again(p: &Profile, sets: &[String]) -> Result<Profile, RuntimeError> {
    let mut chip = p.meta.chip.clone();
    chip.apply_sets(sets).map_err(|e| bad(e.to_string()))?;
    let flags = Flags::try_parse_from(&p.meta.flags).map_err(|e| bad(format!("flags of the profile: {e}")))?;
    let same = chip.fingerprint() == p.meta.chip.fingerprint();
    let client = Client::with_chip(chip);
    let stored = systole_isa::read_program(&p.code).ok().filter(|_| same);
    let program = match stored {
        Some(program) => program,
        None if p.source.is_empty() => return Err(bad("code depends on this parameter, and the source is not known")),
        None => {
            let name = &p.meta.program;
            let mut warnings = Vec::new();
            let all = source::read(name, p.source.as_bytes(), client.chip(), false, &mut warnings)?;
            let named = |s: &Source| matches!(s, Source::Module { module, .. } if module.name == p.meta.module);
            let source = all.into_iter().find(named).ok_or_else(|| bad("the source has no such module"))?;
            let mut options = flags.compile.options_for(client.chip(), source.devices())?;
            options.timing_only = true;
            client.compile_source(source, name, &options, None)?
        }
    };
    let exe = client.load(program)?;
    let program = std::sync::Arc::clone(&exe.program);
    let inputs = generate::placeholders(&program, 0);
    let level = p.meta.level.min(Level::Kernels);
    let devices = program.pod.devices() as usize;
    let lanes = devices.max(exe.cores() as usize);
    let mut nobody: Vec<NoObserver> = (0..lanes).map(|_| NoObserver).collect();
    let mut recorders: Vec<Recorder<'_>> =
        nobody.iter_mut().map(|n| Recorder::new(level, Limits::default(), &program, n)).collect();
    let mut options = RunOptions::new(Mode::TimingOnly);
    options.assume = assumed(&flags.assume)?;
    let done = if devices == 1 {
        let mut watchers = recorders.iter_mut().map(|r| r as &mut dyn Observer);
        let first = watchers.next().ok_or_else(|| bad("a program has a core"))?;
        let (device, queues) = (client.device(0), &mut Queues::default());
        Done::One(device.run_cores(&exe, &inputs, &options, first, queues, watchers.collect())?.result)
    } else {
        let mut queues: Vec<Queues> = (0..devices).map(|_| Queues::default()).collect();
        let watchers = recorders.iter_mut().map(|r| r as &mut dyn Observer).collect();
        // One device may stand for all only where it did so before.
        let pod = PodOptions { all_devices: p.meta.devices.len() > 1, ..PodOptions::default() };
        let all = client.run_pod(&exe, &[inputs], &options, &pod, &mut NoObserver, &mut queues, watchers)?;
        Done::Several(all.run)
    };
    let report = done.report(&client, &program, HostReport::default());
    let run = Run {
        name: &p.meta.program,
        chip: client.chip(),
        program: &program,
        source: &p.source,
        mode: Mode::TimingOnly,
        level,
        report: &report,
        flags: p.meta.flags.clone(),
        topology: vec![1],
        links: Vec::new(),
        partial: false,
    };
    Ok(done.profile(run, recorders.into_iter().map(Recorder::finish).collect()))
}
