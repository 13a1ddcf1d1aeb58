//! Runs without the interface: what `systole.run` of the Python package does.

use crate::client::{self, Client, Key, Options};
use crate::collect;
use crate::error::Error;
use crate::executable::Facts;
use crate::proto::Override;
use crate::queue::on_large_stack;
use serde::Deserialize;
use std::collections::BTreeMap;
use systole_runtime::profile::{Profile, Run, bytes};
use systole_runtime::source::{self, Source};
use systole_runtime::{
    Array, Attached, CompileOptions, Mode, NoObserver, Observer, PodOptions, Queues, RunOptions, export, report,
};

/// What a run is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    chip: Option<String>,
    /// Changed parameters, `key=value`.
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    mode: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    profile: bool,
    /// As `compiler_options` of `jit`.
    #[serde(default)]
    options: BTreeMap<String, String>,
}

/// What a run gave.
pub struct Done {
    pub outputs: Vec<Array>,
    pub report: serde_json::Value,
    pub profile: Option<Vec<u8>>,
}

/// Compiles and runs a program of one device.
///
/// # Errors
/// What is wrong with the program, the inputs or the options; a fault of the program.
pub fn run(code: &[u8], options: &str, inputs: Vec<Array>) -> Result<Done, Error> {
    let asked: Asked = serde_json::from_str(options).map_err(|e| Error::invalid(e.to_string()))?;
    on_large_stack(|| run_here(code, &asked, &inputs))
}

fn run_here(code: &[u8], asked: &Asked, inputs: &[Array]) -> Result<Done, Error> {
    let mode = client::mode(&asked.mode)?;
    let chip = asked.chip.clone().map(|chip| (Key::Chip, chip));
    let options: Options = chip.into_iter().chain([(Key::Set, asked.set.join(";"))]).collect();
    let client = Client::new(&options)?;
    let name = if asked.name.is_empty() { "program" } else { &asked.name };
    let read = source::read_one(name, code, client.runtime.chip(), false, &mut Vec::new())?;
    let Source::Module { module, text } = read else { return Err(Error::invalid("a program of JAX is due")) };
    let source = Source::Module { module, text: text.clone() };
    let mut compile = CompileOptions { verify: false, ..CompileOptions::default() };
    let given = asked.options.iter().map(|(name, value)| (name.clone(), Override::of(value)));
    crate::options::apply(&mut compile, &given.collect(), client.runtime.chip())?;
    let program = client
        .runtime
        .compile_source(source, name, &compile, None)
        .map_err(|e| crate::compile::located(e.into(), &text, client.runtime.chip()))?;
    let facts = Facts::of_text(name, text);
    let exe = client.runtime.load(program)?;
    let level = asked.profile.then_some(collect::LEVEL).filter(|_| mode != Mode::NumericOnly);
    let lanes = if level.is_some() { exe.cores() as usize } else { 0 };
    let mut nobody: Vec<NoObserver> = (0..lanes).map(|_| NoObserver).collect();
    let mut recorders: Vec<_> = (nobody.iter_mut())
        .filter_map(|n| Some((n, level?)))
        .map(|(n, level)| collect::recorder(level, (&exe.program, client.runtime.chip()), n))
        .collect();
    let watchers: Vec<&mut dyn Observer> = recorders.iter_mut().map(|r| r as &mut dyn Observer).collect();
    let (options, pod) = (RunOptions::new(mode), PodOptions::default());
    let attached = Attached { queues: &mut [Queues::default()], watchers, ..Attached::default() };
    let done = client.runtime.run_pod(&exe, &[inputs.to_vec()], &options, &pod, attached)?;
    let recorded: Vec<_> = recorders.into_iter().map(|r| r.finish()).collect();
    let ran = collect::ran(client.runtime.chip(), &exe.program, &facts, mode);
    let profile =
        (!recorded.is_empty()).then(|| bytes(&Run { ran: &ran, run: &done.run, level: collect::LEVEL }, &recorded));
    let report = serde_json::to_value(report(&ran, &done.run)).map_err(|e| Error::internal(e.to_string()))?;
    let outputs = done.outputs.into_iter().next().unwrap_or_default();
    Ok(Done { outputs, report, profile })
}

/// Most events of a line in exports.
const MOST: usize = 1 << 18;

/// A profile in another form.
///
/// # Errors
/// An unknown form.
pub fn export(p: &Profile, form: &str) -> Result<Vec<u8>, Error> {
    let device = || p.meta.devices.first().ok_or_else(|| Error::invalid("a profile without devices"));
    Ok(match form {
        "html" => export::html::page(p).into_bytes(),
        "xplane" => export::xplane::write(p, MOST),
        "roofline" => export::plot::alone(&export::plot::roofline(p, device()?)).into_bytes(),
        "units" => export::plot::alone(&export::plot::units(device()?)).into_bytes(),
        other => return Err(Error::invalid(format!("form `{other}`: html, xplane, roofline or units is expected"))),
    })
}
