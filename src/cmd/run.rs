//! `systole run`: compile, give inputs, simulate, report.

use crate::args::{ModeArgs, ProfileArgs, RunArgs};
use crate::output;
use crate::progress::Progress;
use crate::session::{self, Opened};
use systole_runtime::profile::{self, Recorded, Recorder, Run};
use systole_runtime::report::{self, report};
use systole_runtime::{Array, Executable, Mode, NoObserver, Observer, Report, RuntimeError, files, npz};

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
    /// Says below the report what its words mean
    #[arg(long)]
    explain: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A page
    Text,
    /// The same as data
    Json,
    /// What the page says of kernels that bring lines of their own (Pallas): lines, regions, memory, what holds them back
    Kernels,
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
        // The process ends, and its memory goes at once.
        std::mem::forget(one(a, opened)?);
        return Ok(());
    }
    if a.outputs.is_some() || a.outfeed.is_some() || a.run.inputs.is_some() || a.run.infeed.is_some() {
        let message = format!("{}: several modules in a file share no array files", a.run.module);
        return Err(RuntimeError::Request(message));
    }
    opened.each().into_iter().try_for_each(|module| one(a, module).map(drop))
}

/// Compiles and runs one program. Gives what is large to whoever knows whether it is worth being taken apart.
fn one(a: &Args, opened: Opened) -> Result<(Executable, Option<Report>), RuntimeError> {
    let mode = a.mode.mode();
    let mut progress = Progress::start("compiling");
    let mut ready = session::compile(opened, &a.run, mode)?;
    let program = std::sync::Arc::clone(&ready.exe.program);
    let lanes = if a.record.profile.is_some() { ready.lanes() } else { 0 };
    let mut nobody: Vec<NoObserver> = (0..lanes).map(|_| NoObserver).collect();
    let subject = (&*program, ready.client.chip());
    let recorder = |n| Recorder::new(a.record.level(), a.record.limits(), subject, n);
    let mut recorders: Vec<Recorder<'_>> = nobody.iter_mut().map(|n| recorder(n)).collect();
    let watchers = recorders.iter_mut().map(|r| r as &mut dyn Observer).collect();
    let inputs = ready.inputs(&a.run, mode)?;
    progress.say("simulating".into());
    let done = ready.run(&a.run, &inputs, mode, &mut progress, watchers)?;
    drop(inputs);
    drop(progress);
    if let Some(path) = &a.outputs {
        let devices = ready.devices();
        let whole = ready.whole(&a.run)?;
        npz::write_each(path, |file| {
            if let Some(parts) = whole {
                return (0..done.count())
                    .try_for_each(|i| file.add(&format!("out{i}"), &parts.join(i, &|d| done.output(d, i))?));
            }
            for (d, i) in (0..devices).flat_map(|d| (0..done.count()).map(move |i| (d, i))) {
                let name = if devices > 1 { format!("dev{d}.out{i}") } else { format!("out{i}") };
                file.add(&name, &done.output(d, i)?)?;
            }
            Ok(())
        })?;
    }
    if let Some(path) = &a.outfeed {
        let given = ready.outfeed.iter().map(|(n, o)| (n.clone(), o));
        npz::write(path, &given.collect::<Vec<(String, &Array)>>())?;
    }
    let told = a.report != Form::None;
    let ran = if a.record.profile.is_some() || a.report == Form::Json {
        ready.measured(&a.run, mode)
    } else {
        ready.ran(&a.run, mode)
    };
    if let Some(path) = &a.record.profile {
        let recorded: Vec<Recorded> = recorders.into_iter().map(Recorder::finish).collect();
        let run = Run { ran: &ran, run: &done.run, level: a.record.level() };
        files::write_by(path, |out| profile::write(&run, &recorded, out))?;
    }
    let report = told.then(|| report(&ran, &done.run));
    if let Some(report) = &report {
        show(a, report)?;
    }
    Ok((ready.exe, report))
}

/// Prints a report in the form that was asked for.
fn show(a: &Args, report: &Report) -> Result<(), RuntimeError> {
    match a.report {
        Form::None => Ok(()),
        Form::Json => output::json(report),
        Form::Kernels => output::print(report::text::lines(report).trim_start()),
        Form::Text => {
            let mut page = report::text::page(report);
            if let Some(p) = &report.pod {
                page += &report::pod::page(p);
            }
            if a.explain {
                page += &format!("\n{}", report::glossary::page(report));
            }
            output::print(&page)
        }
    }
}
