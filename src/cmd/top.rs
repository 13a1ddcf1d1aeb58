//! `systole top`: the terminal dashboard, of a run in progress or of a profile.

use crate::args::{ModeArgs, ProfileArgs, RunArgs};
use crate::live::{Control, Live, Subject};
use crate::{output, session};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use systole_runtime::profile::code::Code;
use systole_runtime::profile::{self, Device, Level, Limits, Profile, Recorder, table};
use systole_runtime::report::HostReport;
use systole_runtime::source::{self, Source};
use systole_runtime::{Client, CompileOptions, Mode, NoObserver, RunOptions, RuntimeError, report};
use systole_tui::{App, Data, Effect, Event, Key, Phase, View, export, update};

/// Flags of `systole top`. MODULE may be a profile: then the recorded run is shown.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    mode: ModeArgs,
    #[command(flatten)]
    record: ProfileArgs,
    /// Prints one frame when the run is over, and needs no terminal
    #[arg(long)]
    once: bool,
    /// Prints the data behind the views instead
    #[arg(long)]
    json: bool,
    /// View at the start
    #[arg(long, default_value = "overview")]
    view: String,
    /// Keys pressed before the frame is printed: characters, and names as in `<enter>`
    #[arg(long, value_name = "KEYS", requires = "once")]
    keys: Option<String>,
    /// Writes the frame to a file, by its ending as text, SVG or data
    #[arg(long, value_name = "FILE", requires = "once")]
    output: Option<String>,
    /// Columns of that frame
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(20..=500))]
    width: u16,
    /// Lines of that frame
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(5..=500))]
    height: u16,
    /// Begins paused
    #[arg(long)]
    paused: bool,
    /// Symbols of ASCII alone
    #[arg(long)]
    ascii: bool,
}

fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
}

/// The recorded run, if that is what MODULE is.
fn recorded(path: &str) -> Result<Option<Profile>, RuntimeError> {
    let bytes = output::read(path)?;
    if !profile::is_profile(&bytes) && !path.ends_with(".sysp") {
        return Ok(None);
    }
    profile::read(&bytes).map(Some).map_err(|e| bad(format!("{path}: {e}")))
}

/// Compiles and runs; the run can be watched.
fn simulate(a: &Args, control: &Control, news: &Sender<Event>) -> Result<Profile, RuntimeError> {
    let mode = a.mode.mode();
    if mode == Mode::NumericOnly {
        return Err(bad("--numeric-only: there are no cycles to show"));
    }
    let mut ready = session::prepare(&a.run)?;
    let inputs = ready.inputs(&a.run, mode)?;
    let program = Arc::clone(&ready.exe.program);
    let (chip, source) = (ready.client.chip().clone(), ready.source.clone());
    let subject = Subject {
        name: &a.run.module,
        chip: &chip,
        program: &program,
        source: &source,
        mode,
        code: Arc::new(Code::of(&program, &chip)),
    };
    // The dashboard may be gone: then the run ends at its next look.
    let _ = news.send(Event::Phase(Phase::Running));
    let mut nobody = NoObserver;
    let recorder = Recorder::new(a.record.level(), a.record.limits(), &program, &mut nobody);
    let mut live = Live::new(recorder, subject, control, news.clone());
    let done = ready.run(&a.run, &inputs, mode, &mut live)?;
    let recorded = live.recorder.finish();
    let report = report(&chip, &program, &done.result, ready.host.clone());
    let run = session::described(&ready, &a.run, mode, a.record.level(), &report);
    let profile = Profile::new(run, vec![Device::new(0, 0, recorded, &done.result)]);
    if let Some(path) = &a.record.profile {
        output::write(path, &profile::write(&profile))?;
    }
    Ok(profile)
}

/// Runs a profile's program again, cycles only, on its chip with parameters changed.
fn again(p: &Profile, sets: &[String]) -> Result<Profile, RuntimeError> {
    let mut chip = p.meta.chip.clone();
    chip.apply_sets(sets).map_err(|e| bad(e.to_string()))?;
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
            client.compile_source(source, name, &CompileOptions::default(), None)?
        }
    };
    let exe = client.load(program)?;
    let inputs = session::placeholders(&exe.program);
    let mut nobody = NoObserver;
    let program = Arc::clone(&exe.program);
    let mut recorder = Recorder::new(p.meta.level.min(Level::Kernels), Limits::default(), &program, &mut nobody);
    let options = RunOptions::new(Mode::TimingOnly);
    let done = client.device(0).run_with(&exe, &inputs, &options, &mut recorder)?;
    let recorded = recorder.finish();
    let report = report(client.chip(), &program, &done.result, HostReport::default());
    let run = profile::Run {
        name: &p.meta.program,
        chip: client.chip(),
        program: &program,
        source: &p.source,
        mode: Mode::TimingOnly,
        level: p.meta.level.min(Level::Kernels),
        report: &report,
        topology: vec![1],
        links: Vec::new(),
        partial: false,
    };
    Ok(Profile::new(run, vec![Device::new(0, 0, recorded, &done.result)]))
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request, or a fault of the program.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let view = View::named(&a.view).ok_or_else(|| {
        bad(format!("--view {}: one of {} is expected", a.view, View::ALL.map(View::name).join(", ")))
    })?;
    let recorded = recorded(&a.run.module)?;
    let mut theme = systole_tui::detect(&|name| std::env::var(name).ok());
    theme.ascii |= a.ascii;
    let phase = if recorded.is_some() { Phase::Replay } else { Phase::Compiling };
    let mut app = App::new(&a.run.module, theme, phase);
    app.view = view;
    if a.once || a.json {
        app.theme.ascii = a.ascii;
        return once(a, app, recorded);
    }
    interactive(a, app, recorded)
}

/// One frame, or the data behind it.
fn once(a: &Args, mut app: App, recorded: Option<Profile>) -> Result<(), RuntimeError> {
    let profile = match recorded {
        Some(p) => p,
        None => simulate(a, &Control::default(), &channel().0)?,
    };
    if a.json {
        let text = serde_json::to_string_pretty(&table::data(&profile)).map_err(|e| bad(e.to_string()))?;
        return output::print(&(text + "\n"));
    }
    app.size = (a.width, a.height);
    if app.phase == Phase::Compiling {
        app.phase = Phase::Done;
    }
    update(&mut app, Event::Data(Arc::new(Data::new(profile))));
    for key in Key::script(a.keys.as_deref().unwrap_or("")) {
        update(&mut app, Event::Key(key));
    }
    match &a.output {
        Some(path) => output::write(path, export::for_file(&app, path).map_err(bad)?.as_bytes()),
        None => output::print(&export::text(&systole_tui::frame(&app, a.width, a.height))),
    }
}

fn interactive(a: &Args, app: App, recorded: Option<Profile>) -> Result<(), RuntimeError> {
    let control = Control::default();
    control.pause(a.paused);
    let (news, received) = channel();
    let replay = recorded.is_some();
    std::thread::scope(|scope| {
        let sender = news.clone();
        let control = &control;
        let work = move || {
            let result = match recorded {
                Some(p) => Ok(p),
                None => simulate(a, control, &sender),
            };
            // Nobody may be left to hear it.
            match result {
                Ok(p) => {
                    let _ = sender.send(Event::Data(Arc::new(Data::new(p))));
                    if !replay {
                        let _ = sender.send(Event::Phase(Phase::Done));
                    }
                    Ok(())
                }
                Err(e) => {
                    let _ = sender.send(Event::Phase(Phase::Failed(e.to_string())));
                    Err(e)
                }
            }
        };
        let builder = std::thread::Builder::new().stack_size(crate::STACK);
        let worker = builder.spawn_scoped(scope, work).map_err(|e| bad(format!("cannot start: {e}")))?;
        let mut effects = |app: &App, effect: Effect| match effect {
            Effect::Pause(p) => control.pause(p),
            Effect::Step(s) => control.step(s),
            Effect::Speed(s) => control.speed(s),
            Effect::Rerun(sets) => {
                let base = app.before.as_ref().or(app.data.as_ref()).cloned();
                let sender = news.clone();
                let work = move || {
                    let Some(base) = base else { return };
                    let event = match again(&base.profile, &sets) {
                        Ok(p) => Event::Rerun(Arc::new(Data::new(p))),
                        Err(e) => Event::Message(e.to_string().lines().next().unwrap_or("failed").to_string()),
                    };
                    let _ = sender.send(event);
                };
                // Without a thread there is no run; the message line stays as it is.
                let _ = std::thread::Builder::new().stack_size(crate::STACK).spawn(work);
            }
            Effect::Quit | Effect::Write(_) => {}
        };
        let shown = systole_tui::run(app, &received, &mut effects);
        control.stop();
        drop(received);
        let result = worker.join().unwrap_or_else(|_| Err(RuntimeError::Check("the run panicked".into())));
        let app = shown.map_err(|e| bad(format!("terminal: {e}")))?;
        // Who leaves a run before its end wants no message about it.
        if matches!(app.phase, Phase::Failed(_)) { result } else { Ok(()) }
    })
}
