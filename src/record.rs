//! Runs into profiles: what `systole run --profile` and the dashboard write down, and running a profile's program again.

use crate::args::{CompileArgs, WorldArgs};
use clap::Parser;
use std::sync::Arc;
use systole_isa::{Program, write_code};
use systole_runtime::profile::{Level, Limits, Profile, Recorder, Run};
use systole_runtime::report::HostReport;
use systole_runtime::source::{self, Source};
use systole_runtime::{
    Attached, Client, InputsFrom, Mode, NoObserver, Observer, Queues, Ran, RunOptions, RuntimeError, Setup, generate,
};

fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
}

/// The flags that a profile keeps, read again.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Flags {
    #[command(flatten)]
    compile: CompileArgs,
    #[command(flatten)]
    world: WorldArgs,
}

/// The profile's program for a chip: as it is where its code fits, else its source compiled again.
fn program_for(p: &Profile, client: &Client, flags: &Flags) -> Result<Program, RuntimeError> {
    let same = client.chip().fingerprint() == p.meta.chip.fingerprint();
    if let Some(program) = systole_isa::read_program(&p.code).ok().filter(|_| same) {
        return Ok(program);
    }
    if p.source.is_empty() {
        return Err(bad("code depends on this parameter, and the source is not known"));
    }
    let (name, module) = (&p.setup().program, &p.setup().module);
    let all = source::read(name, p.source.as_bytes(), client.chip(), false, &mut Vec::new())?;
    let named = |s: &Source| matches!(s, Source::Module { module: m, .. } if m.name == *module);
    let source = all.into_iter().find(named).ok_or_else(|| bad("the source has no such module"))?;
    let mut options = flags.compile.options_for(client.chip(), source.devices())?;
    options.timing_only = true;
    client.compile_source(source, name, &options, None)
}

/// Runs a profile's program again, cycles only, on its chip with parameters changed. Where code depends on a changed
/// parameter, the source is compiled again with the flags of the first time. Inputs are drawn, not those of the first run.
///
/// # Errors
/// Parameters that do not fit, a program that cannot be compiled again, or a fault of the program.
pub fn again(p: &Profile, sets: &[String]) -> Result<Profile, RuntimeError> {
    let mut chip = p.meta.chip.clone();
    chip.apply_sets(sets).map_err(|e| bad(e.to_string()))?;
    let flags = Flags::try_parse_from(&p.setup().flags).map_err(|e| bad(format!("flags of the profile: {e}")))?;
    let client = Client::with_chip(chip);
    let exe = client.load(program_for(p, &client, &flags)?)?;
    let program = Arc::clone(&exe.program);
    let seed = p.setup().given.seed.unwrap_or(0);
    let inputs = generate::placeholders(&program, seed);
    let level = p.meta.level.min(Level::Kernels);
    let devices = program.pod.devices() as usize;
    let lanes = devices * exe.cores() as usize;
    let mut nobody: Vec<NoObserver> = (0..lanes).map(|_| NoObserver).collect();
    let mut recorders: Vec<Recorder<'_>> =
        nobody.iter_mut().map(|n| Recorder::new(level, Limits::of(level), (&program, client.chip()), n)).collect();
    let mut options = RunOptions::new(Mode::TimingOnly);
    options.assume = flags.world.assumed()?;
    options.chaos = flags.compile.chaos;
    let mut queues: Vec<Queues> = (0..devices).map(|_| Queues::default()).collect();
    let watchers = recorders.iter_mut().map(|r| r as &mut dyn Observer).collect();
    let mut pod = flags.world.pod_options()?;
    // One device may stand for all only where it did so before.
    pod.all_devices |= devices > 1 && p.meta.devices.len() > 1;
    let done = client.run_pod(
        &exe,
        &[inputs],
        &options,
        &pod,
        Attached { queues: &mut queues, watchers, ..Attached::default() },
    )?;
    let given = &p.setup().given;
    let setup = Setup {
        given: InputsFrom { seed: given.seed.or(given.inputs.as_ref().map(|_| 0)), inputs: None },
        flags: p.setup().flags.clone(),
        ..Setup::new(&p.setup().program, client.chip(), &program, Mode::TimingOnly)
    };
    let ran = Ran {
        setup,
        chip: client.chip(),
        program: &program,
        source: &p.source,
        host: HostReport::default(),
        whole: Vec::new(),
    };
    let recorded = recorders.into_iter().map(Recorder::finish).collect();
    Ok(Profile::new(&Run { ran: &ran, run: &done.run, level }, recorded, write_code(&program)))
}
