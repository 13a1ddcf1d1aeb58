//! `systole run`: compile, give inputs, simulate, report.

use crate::args::{ModeArgs, ProfileArgs, RunArgs};
use crate::output;
use crate::progress::Progress;
use crate::record::{self, Done};
use crate::session::{self, Opened, Ready};
use systole_compiler::spmd::Note;
use systole_runtime::profile::{self, Recorder};
use systole_runtime::spmd::Parts;
use systole_runtime::{Array, Mode, NoObserver, Observer, Report, RuntimeError, npz, report};

/// Flags of `systole run`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    mode: ModeArgs,
    /// Writes the results out0, out1, .. to an .npz file
    #[arg(long, value_name = "FILE.npz")]
    outputs: Option<String>,
    /// Writes what outfeeds gave as arrays out0, out1, .. to an .npz file, what transfers to the host gave as channelC.out0, ..
    /// (with several devices, devD. before the names)
    #[arg(long, value_name = "FILE.npz")]
    outfeed: Option<String>,
    #[command(flatten)]
    record: ProfileArgs,
    /// Form of the report on standard output
    #[arg(long, value_enum, default_value = "text")]
    report: Form,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A page
    Text,
    /// The same as data
    Json,
    /// Nothing
    None,
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request, or a fault of the program.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let mode = a.mode.mode();
    if mode == Mode::NumericOnly && a.record.profile.is_some() {
        return Err(RuntimeError::Request("--profile: a numeric-only run has no cycles to record".into()));
    }
    if mode == Mode::TimingOnly && (a.outputs.is_some() || a.outfeed.is_some()) {
        return Err(RuntimeError::Request("--outputs, --outfeed: a timing-only run has no results".into()));
    }
    let opened = session::open(&a.run.module, &a.run.chip)?;
    if opened.rest.is_empty() {
        return one(a, opened);
    }
    if a.outputs.is_some() || a.outfeed.is_some() || a.run.inputs.is_some() || a.run.infeed.is_some() {
        let message = format!("{}: several modules in a file share no array files", a.run.module);
        return Err(RuntimeError::Request(message));
    }
    opened.each().into_iter().try_for_each(|module| one(a, module))
}

/// Compiles and runs one program.
fn one(a: &Args, opened: Opened) -> Result<(), RuntimeError> {
    let mode = a.mode.mode();
    let mut progress = Progress::start("compiling");
    let mut ready = session::compile(opened, &a.run, mode)?;
    if ready.devices() > 1 {
        return several(a, ready, mode, progress);
    }
    let inputs = ready.inputs(&a.run, mode, 1)?;
    let (done, recorded) = match &a.record.profile {
        None => (ready.run(&a.run, inputs.of(0), mode, &mut progress, Vec::new())?, Vec::new()),
        Some(_) => {
            let program = std::sync::Arc::clone(&ready.exe.program);
            let mut recorder = Recorder::new(a.record.level(), a.record.limits(), &program, &mut progress);
            let mut nobody: Vec<NoObserver> = (1..ready.exe.cores()).map(|_| NoObserver).collect();
            let others = nobody.iter_mut().map(|n| Recorder::new(a.record.level(), a.record.limits(), &program, n));
            let mut others: Vec<Recorder<'_>> = others.collect();
            let watchers = others.iter_mut().map(|r| r as &mut dyn Observer).collect();
            let done = ready.run(&a.run, inputs.of(0), mode, &mut recorder, watchers)?;
            let recorded = std::iter::once(recorder).chain(others).map(Recorder::finish);
            (done, recorded.collect())
        }
    };
    drop(progress);
    if let Some(path) = &a.outputs {
        let mut file = npz::Writer::create(path)?;
        (0..done.count()).try_for_each(|i| file.add(&format!("out{i}"), &done.output(i)?))?;
        file.finish()?;
    }
    write_given(a, &ready)?;
    let drawn = draws(a, &ready, mode);
    let done = Done::One(done.result);
    let report = done.report(&ready.client, &ready.exe.program, ready.host.clone());
    if let Some(path) = &a.record.profile {
        let profile = record::profile(&ready, &a.run, mode, a.record.level(), recorded, &done);
        output::write(path, &profile::write(&profile))?;
    }
    show(a, &report, drawn)
}

/// Writes what the program gave the host.
fn write_given(a: &Args, ready: &Ready) -> Result<(), RuntimeError> {
    let Some(path) = &a.outfeed else { return Ok(()) };
    npz::write(path, &ready.outfeed.iter().map(|(n, o)| (n.clone(), o)).collect::<Vec<(String, &Array)>>())
}

/// Runs a compiled program on several devices.
fn several(a: &Args, mut ready: Ready, mode: Mode, mut progress: Progress) -> Result<(), RuntimeError> {
    let devices = ready.devices();
    let inputs = ready.inputs(&a.run, mode, devices)?;
    let program = std::sync::Arc::clone(&ready.exe.program);
    let mut nobody: Vec<NoObserver> = (0..devices).map(|_| NoObserver).collect();
    let mut recorders: Vec<Recorder<'_>> = match a.record.profile {
        Some(_) => nobody.iter_mut().map(|n| Recorder::new(a.record.level(), a.record.limits(), &program, n)).collect(),
        None => Vec::new(),
    };
    let watchers = recorders.iter_mut().map(|r| r as &mut dyn Observer).collect();
    let done = ready.run_pod(&a.run, &inputs, mode, &mut progress, watchers)?;
    drop(progress);
    if let Some(path) = &a.outputs {
        let mut file = npz::Writer::create(path)?;
        match ready.whole(&a.run)? {
            Some(parts) => (0..done.count())
                .try_for_each(|i| file.add(&format!("out{i}"), &parts.join(i, &|d| done.output(d, i))?))?,
            None => {
                for (d, i) in (0..devices).flat_map(|d| (0..done.count()).map(move |i| (d, i))) {
                    file.add(&format!("dev{d}.out{i}"), &done.output(d, i)?)?;
                }
            }
        }
        file.finish()?;
    }
    write_given(a, &ready)?;
    let drawn = draws(a, &ready, mode);
    let recorded = recorders.into_iter().map(Recorder::finish).collect();
    let done = Done::Several(done.run);
    let report = done.report(&ready.client, &ready.exe.program, ready.host.clone());
    if let Some(path) = &a.record.profile {
        let profile = record::profile(&ready, &a.run, mode, a.record.level(), recorded, &done);
        output::write(path, &profile::write(&profile))?;
    }
    if let Some(parts) = &ready.parts {
        say_notes(parts);
    }
    show(a, &report, drawn)
}

/// Says what could not be divided, the largest first.
fn say_notes(parts: &Parts) {
    const MOST: usize = 8;
    let mut notes: Vec<&Note> = parts.notes.iter().collect();
    notes.sort_by_key(|n| std::cmp::Reverse(n.bytes));
    for n in notes.iter().take(MOST) {
        eprintln!("partitioned: {}; {} bytes more on every device", n.message, n.bytes);
    }
    if notes.len() > MOST {
        eprintln!("partitioned: and {} more (systole partition lists them)", notes.len() - MOST);
    }
}

/// Whether a run computes on drawn inputs.
fn draws(a: &Args, ready: &Ready, mode: Mode) -> bool {
    a.run.inputs.is_none() && mode != Mode::TimingOnly && !ready.exe.program.params.is_empty()
}

/// Prints a report in the form that was asked for.
fn show(a: &Args, report: &Report, drawn: bool) -> Result<(), RuntimeError> {
    match a.report {
        Form::None => Ok(()),
        Form::Json => {
            let text = serde_json::to_string_pretty(report).map_err(|e| RuntimeError::Request(e.to_string()))?;
            output::print(&(text + "\n"))
        }
        Form::Text => {
            let mut page = report::text::page(report);
            if let Some(p) = &report.pod {
                page += &report::pod::page(p);
            }
            if drawn {
                page += &format!("\ninputs drawn with --seed {}\n", a.run.seed);
            }
            output::print(&page)
        }
    }
}
