//! `systole top`: the terminal dashboard, of a run in progress or of a profile.

mod attach;
mod sweep;

use crate::args::{ModeArgs, ProfileArgs, RunArgs};
use crate::live::{Control, Live, Stop, Subject};
use crate::{output, record, session};
use attach::Folder;
use std::any::Any;
use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use systole_isa::write_code;
use systole_runtime::profile::code::Code;
use systole_runtime::profile::{self, Level, Limits, Profile, Recorder, Run};
use systole_runtime::report::HostReport;
use systole_runtime::{Mode, NoObserver, Observer, Ran, RuntimeError, files};
use systole_tui::{App, Data, Effect, Event, Key, Phase, View, export, json, update};

/// Flags of `systole top`. MODULE may be a profile: then the recorded run is shown.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// After the word `sweep` in MODULE's place: the folder of a sweep, which is shown instead
    #[arg(value_name = "DIR")]
    folder: Option<String>,
    #[command(flatten)]
    mode: ModeArgs,
    #[command(flatten)]
    record: ProfileArgs,
    /// Prints one frame when the run is over, and needs no terminal
    #[arg(long)]
    once: bool,
    /// Prints the data behind that frame instead: the run's totals, and under `view` what the view shows
    #[arg(long)]
    json: bool,
    /// View at the start: overview, timeline, operations, roofline, memory, stalls, interconnect, program or chip
    #[arg(long, default_value = "overview", value_name = "NAME")]
    view: String,
    /// Keys pressed before the frame is printed: characters, and names as in `<enter>`
    #[arg(long, value_name = "KEYS")]
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
    /// MODULE is the folder that SYSTOLE_LIVE names in a running Python program: its newest run is shown
    #[arg(long)]
    attach: bool,
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
    let mut ready = session::prepare(&a.run, mode)?;
    let program = Arc::clone(&ready.exe.program);
    let (chip, source) = (ready.client.chip().clone(), ready.source.clone());
    let setup = ready.ran(&a.run, mode).setup;
    let subject = Subject {
        ran: Ran {
            setup,
            chip: &chip,
            program: &program,
            source: &source,
            host: HostReport::default(),
            whole: Vec::new(),
        },
        cores: ready.exe.cores() as usize,
        code: Arc::new(Code::of(&program, &chip)),
    };
    // The dashboard may be gone: then the run ends at its next look.
    let _ = news.send(Event::Phase(Phase::Running));
    let mut nobody: Vec<NoObserver> = (0..ready.lanes()).map(|_| NoObserver).collect();
    // Who looks at a run while it goes on, slowly perhaps, sees more of it.
    let limits =
        Limits { samples: a.record.limits().samples.max(Limits::of(Level::Bundles).samples), ..a.record.limits() };
    let recorders = nobody.iter_mut().map(|n| Recorder::new(a.record.level(), limits, (&program, &chip), n));
    let live = Live::new(recorders.collect(), subject, control, news.clone());
    let mut watches = live.watches();
    let watchers = watches.iter_mut().map(|w| w as &mut dyn Observer).collect();
    let inputs = ready.inputs(&a.run, mode)?;
    let done = ready.run(&a.run, &inputs, mode, &mut Stop(control), watchers)?;
    drop(watches);
    let ran = ready.measured(&a.run, mode);
    let (run, recorded) = (Run { ran: &ran, run: &done.run, level: a.record.level() }, live.finish());
    if let Some(path) = &a.record.profile {
        files::write_by(path, |out| profile::write(&run, &recorded, out))?;
    }
    Ok(Profile::new(&run, recorded, write_code(&program)))
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request, or a fault of the program.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    if let Some(dir) = &a.folder {
        if a.run.module != "sweep" {
            return Err(bad(format!("{dir}: one MODULE is expected, or `sweep` and its folder")));
        }
        let keys = a.keys.as_deref().unwrap_or_default();
        let size = (a.width, a.height);
        return sweep::run(&sweep::Show { dir, once: a.once, keys, size, ascii: a.ascii });
    }
    let view = View::named(&a.view).ok_or_else(|| {
        bad(format!("--view {}: one of {} is expected", a.view, View::ALL.map(View::name).join(", ")))
    })?;
    let mut folder = a.attach.then(|| Folder::open(&a.run.module)).transpose()?;
    let recorded = match &mut folder {
        None => recorded(&a.run.module)?,
        Some(f) if a.once || a.json => {
            let none = || bad(format!("{}: no run has been written there yet", a.run.module));
            Some(f.newest()?.ok_or_else(none)?)
        }
        Some(_) => None,
    };
    let mut theme = systole_tui::detect(&|name| std::env::var(name).ok());
    theme.ascii |= a.ascii;
    let phase = if recorded.is_some() { Phase::Replay } else { Phase::Compiling };
    let mut app = App::new(&a.run.module, theme, phase);
    app.view = view;
    if a.keys.is_some() && !(a.once || a.json) {
        return Err(bad("--keys: only with --once or --json"));
    }
    if a.once || a.json {
        app.theme.ascii = a.ascii;
        return once(a, app, recorded);
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(bad("the dashboard needs a terminal; --once prints a frame, --json the data behind it"));
    }
    interactive(a, app, recorded, folder)
}

/// One frame, or the data behind it.
fn once(a: &Args, mut app: App, recorded: Option<Profile>) -> Result<(), RuntimeError> {
    let profile = match recorded {
        Some(p) => p,
        None => simulate(a, &Control::default(), &channel().0)?,
    };
    app.size = (a.width, a.height);
    if app.phase == Phase::Compiling {
        app.phase = Phase::Done;
    }
    update(&mut app, Event::Data(Arc::new(Data::new(profile))));
    for key in Key::script(a.keys.as_deref().unwrap_or("")) {
        update(&mut app, Event::Key(key));
    }
    if a.json {
        return output::json(&json::data(&app));
    }
    match &a.output {
        Some(path) => output::write(path, export::for_file(&app, path).map_err(bad)?.as_bytes()),
        None => output::print(&export::text(&systole_tui::frame(&app, a.width, a.height))),
    }
}

/// A panic as the message of a run that failed.
fn panicked(panic: &(dyn Any + Send)) -> RuntimeError {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    RuntimeError::Check(format!("the run panicked, which is a bug: {}", text.unwrap_or("no message")))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a foreign type: all others are told alike")]
fn interactive(a: &Args, app: App, recorded: Option<Profile>, folder: Option<Folder>) -> Result<(), RuntimeError> {
    let control = Control::default();
    control.pause(a.paused);
    let (news, received) = channel();
    let replay = recorded.is_some();
    std::thread::scope(|scope| {
        let sender = news.clone();
        let control = &control;
        let work = move || {
            let result = match (recorded, folder) {
                (Some(p), _) => Ok(p),
                (None, Some(f)) => {
                    let end = f.follow(control, &sender);
                    if let Err(e) = &end {
                        let _ = sender.send(Event::Phase(Phase::Failed(e.to_string())));
                    }
                    return end;
                }
                // A panic is a bug, which must not leave the user before a frame that no longer changes.
                (None, None) => catch_unwind(AssertUnwindSafe(|| simulate(a, control, &sender)))
                    .unwrap_or_else(|panic| Err(panicked(panic.as_ref()))),
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
        let builder = std::thread::Builder::new().stack_size(crate::session::STACK);
        let worker = builder.spawn_scoped(scope, work).map_err(|e| bad(format!("cannot start: {e}")))?;
        let mut effects = |app: &App, effect: Effect| match effect {
            Effect::Pause(p) => control.pause(p),
            Effect::Step(s) => control.step(s),
            Effect::Speed(s) => control.speed(s),
            Effect::Device(d) => control.focus(d),
            Effect::Rerun(sets) => {
                let base = app.before.as_ref().or(app.data.as_ref()).cloned();
                let sender = news.clone();
                let work = move || {
                    let Some(base) = base else { return };
                    let done = catch_unwind(AssertUnwindSafe(|| record::again(&base.profile, &sets)))
                        .unwrap_or_else(|panic| Err(panicked(panic.as_ref())));
                    let event = match done {
                        Ok(p) => Event::Rerun(Arc::new(Data::new(p))),
                        Err(e) => Event::Message(e.to_string().lines().next().unwrap_or("failed").to_string()),
                    };
                    let _ = sender.send(event);
                };
                // Without a thread there is no run; the message line stays as it is.
                let _ = std::thread::Builder::new().stack_size(crate::session::STACK).spawn(work);
            }
            Effect::Quit | Effect::Write(_) => {}
        };
        let shown = systole_tui::run(app, &received, &mut effects);
        control.stop();
        drop(received);
        let result = worker.join().unwrap_or_else(|_| Err(RuntimeError::Check("the run panicked".into())));
        let app = shown.map_err(|e| match e.kind() {
            std::io::ErrorKind::Interrupted => RuntimeError::Check(e.to_string()),
            _ => bad(format!("terminal: {e}")),
        })?;
        // Who leaves a run before its end wants no message about it.
        if matches!(app.phase, Phase::Failed(_)) { result } else { Ok(()) }
    })
}
