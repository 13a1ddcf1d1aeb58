//! Clients, devices, executables: compile a program, give it inputs, run it.

use crate::host::common::Common;
use crate::host::{Answering, CustomCall, Queues, Registry};
use crate::source::{self, Source};
use crate::transfer::{self, Finished, Held, Inputs, Results};
use crate::{Array, RuntimeError};
use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use systole_compiler::builder::XlaComputation;
use systole_compiler::compile::{self, Compiled, compile_sharing};
use systole_compiler::diag::Diagnostic;
use systole_compiler::error::CompileError;
use systole_compiler::graph::{Module, Op};
use systole_compiler::passes::custom;
use systole_compiler::passes::options::Asked;
use systole_compiler::plan::Plan;
use systole_compiler::plan::guide::Guide;
use systole_compiler::shared::Shared;
use systole_isa::chip::Part;
use systole_isa::program::PodShape;
use systole_isa::{ChipConfig, Program};
use systole_simulator::{Machine, Mode, NoObserver, Observer, RunResult, load};

/// Ways to compile a program. What is left open is chosen: the runtime takes the one that makes the program fastest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// Per cent of vector memory for the arrays of a strip, where chains over large arrays are done strip by strip (0: nowhere).
    pub strips: Option<u32>,
    /// Whether loops begin collectives of the next iteration, and end those of the last one, beside an iteration's work.
    pub ahead: Option<bool>,
    /// Cores of a device that share the work.
    pub cores: Option<u32>,
    /// What the program may use of the chip.
    pub part: Option<Part>,
}

/// What the compiler is asked for.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    pub asked: Asked,
    /// Random legal scheduling choices from this seed.
    pub chaos: Option<u64>,
    pub ways: Ways,
    /// Proves that the emitted bundles do what the kernels say. Builds with debug assertions do so by default.
    pub verify: bool,
    /// Devices are put where the program is fastest, wherever the topology of [`Asked::pod`] says that they are.
    pub any_order: bool,
    /// Decisions of the planner from outside: a schedule, a cost model, limits.
    pub guide: Guide,
    /// Only the program's time will be asked for: constants may be without their elements.
    pub timing_only: bool,
}

#[allow(clippy::derivable_impls, reason = "it is none of builds with debug assertions")]
impl Default for CompileOptions {
    fn default() -> CompileOptions {
        CompileOptions {
            asked: Asked::default(),
            chaos: None,
            ways: Ways::default(),
            verify: cfg!(debug_assertions),
            any_order: false,
            guide: Guide::default(),
            timing_only: false,
        }
    }
}

impl CompileOptions {
    /// The same for these devices.
    #[must_use]
    pub fn on(mut self, pod: PodShape) -> CompileOptions {
        self.asked.pod = pod;
        self
    }

    /// The same, compiled in these ways.
    #[must_use]
    pub fn by(mut self, ways: Ways) -> CompileOptions {
        self.ways = ways;
        self
    }

    /// The same as the compiler takes them, for a chip.
    pub fn for_chip(&self, chip: &ChipConfig) -> compile::CompileOptions {
        let Ways { strips, ahead, cores, part } = self.ways;
        let part = part.unwrap_or_default();
        let mut o = compile::CompileOptions::for_chip(&chip.part(&part));
        o.part = part;
        o.passes.asked = self.asked.clone();
        o.chaos = self.chaos;
        o.passes.strips = strips.unwrap_or(o.passes.strips);
        o.passes.ahead = ahead.unwrap_or(o.passes.ahead);
        o.cores = cores.unwrap_or(1);
        o.verify = self.verify;
        o.guide = self.guide.clone();
        o
    }
}

/// What a run is asked for.
pub type RunOptions = systole_simulator::RunOptions;

/// A chip with the compiler for it.
#[derive(Clone, Debug)]
pub struct Client {
    chip: Arc<ChipConfig>,
    /// Found when something is first compiled: every preset is looked at.
    parts: Arc<OnceLock<Vec<Vec<Part>>>>,
    registry: Arc<Registry>,
}

/// A compiled program, decoded and ready to run.
#[derive(Clone)]
pub struct Executable {
    pub program: Arc<Program>,
    loaded: Arc<systole_simulator::Loaded>,
}

/// What attempts with the same part of the chip have in common.
#[derive(Default)]
struct ByPart(RefCell<BTreeMap<Part, Rc<Shared>>>);

impl ByPart {
    fn of(&self, options: &CompileOptions) -> Rc<Shared> {
        Rc::clone(self.0.borrow_mut().entry(options.ways.part.unwrap_or_default()).or_default())
    }
}

/// A device of a client.
#[derive(Clone, Debug)]
pub struct Device {
    registry: Arc<Registry>,
    /// Its number.
    pub id: u32,
}

/// What a run gave: results (none in timing-only mode) and counters.
#[derive(Clone, Debug)]
pub struct Execution {
    pub outputs: Vec<Array>,
    pub result: RunResult,
}

impl Client {
    /// A client for a chip preset.
    ///
    /// # Errors
    /// If there is no preset of that name.
    pub fn new(preset: &str) -> Result<Client, RuntimeError> {
        ChipConfig::from_preset(preset).map(Client::with_chip).map_err(|e| RuntimeError::Request(e.to_string()))
    }

    /// A client for any chip.
    pub fn with_chip(chip: ChipConfig) -> Client {
        Client { chip: Arc::new(chip), parts: Arc::default(), registry: Arc::default() }
    }

    pub fn chip(&self) -> &ChipConfig {
        &self.chip
    }

    /// Parts of the chip ([`ChipConfig::parts`]).
    pub(crate) fn parts(&self) -> &[Vec<Part>] {
        self.parts.get_or_init(|| self.chip.parts())
    }

    /// Device `id`. All devices of a client are alike.
    pub fn device(&self, id: u32) -> Device {
        Device { registry: Arc::clone(&self.registry), id }
    }

    /// Gives a host function the name by which custom calls reach it, on devices made from now on.
    pub fn register(
        &mut self,
        target: &str,
        function: impl Fn(&CustomCall<'_>, &[Array]) -> Result<Vec<Array>, String> + Send + Sync + 'static,
    ) {
        Arc::make_mut(&mut self.registry).register(target, function);
    }

    /// Adds a shared library of host functions `void f(void* out, void** in)`.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub fn load_library(&mut self, path: &str) -> Result<(), RuntimeError> {
        let library = crate::host::library::Library::load(path)?;
        Arc::make_mut(&mut self.registry).add_library(library);
        Ok(())
    }

    /// Adds a shared library of such functions, loaded by a process of its own, of the program `server` ([`systole_foreign::serve`]).
    ///
    /// # Errors
    /// If it cannot be loaded, or there is no such program.
    pub fn load_library_apart(&mut self, path: &str, server: &std::path::Path) -> Result<(), RuntimeError> {
        let library = crate::host::library::Library::load_apart(path, server)?;
        Arc::make_mut(&mut self.registry).add_library(library);
        Ok(())
    }

    /// The host functions that programs may call.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Compiles a program of one module: HLO or StableHLO text.
    ///
    /// # Errors
    /// Wrong text, or a program that cannot be compiled for the chip.
    pub fn compile_text(&self, text: &str, options: &CompileOptions) -> Result<Executable, RuntimeError> {
        let source = source::read_one("<text>", text.as_bytes(), &self.chip, false, &mut Vec::new())?;
        let program = self.compile_source(source, "<text>", options, None)?;
        self.load(program)
    }

    /// [`Client::compile_text`].
    ///
    /// # Errors
    /// As there.
    pub fn compile_hlo(&self, text: &str, options: &CompileOptions) -> Result<Executable, RuntimeError> {
        self.compile_text(text, options)
    }

    /// Compiles a computation of the builder.
    ///
    /// ```
    /// use systole_compiler::builder::XlaBuilder;
    /// use systole_runtime::{Client, CompileOptions};
    ///
    /// let mut b = XlaBuilder::new("double");
    /// let x = b.constant_r1(&[1.0f32, 2.5]);
    /// let y = b.add(x, x, &[]).unwrap();
    /// let client = Client::new("tiny").unwrap();
    /// let exe = client.compile_builder(b.build(y).unwrap(), &CompileOptions::default()).unwrap();
    /// let out = client.device(0).run(&exe, &[]).unwrap();
    /// assert_eq!(out.outputs[0].to_f32(), [2.0, 5.0]);
    /// ```
    ///
    /// # Errors
    /// A program that cannot be compiled for the chip.
    pub fn compile_builder(
        &self,
        computation: XlaComputation,
        options: &CompileOptions,
    ) -> Result<Executable, RuntimeError> {
        let source = Source::Module { module: Box::new(computation.into_module()), text: String::new() };
        let program = self.compile_source(source, "<builder>", options, None)?;
        self.load(program)
    }

    /// The program of any source: compiled, or as it is. `dump` gets every stage's name and text.
    ///
    /// # Errors
    /// A program that cannot be compiled for the chip.
    pub fn compile_source(
        &self,
        source: Source,
        name: &str,
        options: &CompileOptions,
        dump: Option<&mut dyn FnMut(&str, &str)>,
    ) -> Result<Program, RuntimeError> {
        let (module, text) = match source {
            Source::Program(p) => return Ok(*p),
            Source::Plan(plan) => {
                let mut program = self.compile_plan(&plan, options)?;
                program.debug.source = name.to_string();
                return Ok(program);
            }
            Source::Module { module, text } => (*module, text),
        };
        if !options.timing_only {
            check_elided(&module, name, &text)?;
        }
        self.check_targets(&module, name, &text)?;
        let module = whole_or_part(module, name, &text, options)?;
        let shared = ByPart::default();
        let quiet = |m: &Module, o: &CompileOptions| self.compile_module(m, (name, &text), o, (None, &shared.of(o)));
        let chosen = self.choose(&module, options, &quiet);
        if dump.is_none() {
            return match chosen? {
                (_, Some(program)) => Ok(program),
                (chosen, None) => Ok(quiet(&module, &chosen)?.program),
            };
        }
        // What is refused shows the stages that it came through.
        let (first, refused) = match chosen {
            Ok((chosen, _)) => (chosen, None),
            Err(e) => (options.clone(), Some(e)),
        };
        let done = self.compile_module(&module, (name, &text), &first, (dump, &Shared::default()));
        refused.map_or(Ok(()), Err)?;
        Ok(done?.program)
    }

    /// The program of a module for the cores and strips of `options`.
    fn compile_module(
        &self,
        module: &Module,
        (name, text): (&str, &str),
        options: &CompileOptions,
        (dump, shared): (Option<&mut dyn FnMut(&str, &str)>, &Shared),
    ) -> Result<Compiled, RuntimeError> {
        let o = options.for_chip(&self.chip);
        let done = compile_sharing(module, (&self.chip, &o), text, dump, shared);
        let mut done = done.map_err(|e| compile_error(&e, (name, text)))?;
        done.program.debug.source = name.to_string();
        Ok(done)
    }

    /// The plan of a module, on one core or as many as `options` say.
    ///
    /// # Errors
    /// A program that is compiled already, or that has no plan for the chip.
    pub fn plan_source(&self, source: Source, name: &str, options: &CompileOptions) -> Result<Plan, RuntimeError> {
        let (module, text) = match source {
            Source::Program(_) => return Err(RuntimeError::Request(format!("{name}: a compiled program has no plan"))),
            Source::Plan(plan) => return Ok(*plan),
            Source::Module { module, text } => (*module, text),
        };
        self.check_targets(&module, name, &text)?;
        let module = whole_or_part(module, name, &text, options)?;
        let shared = ByPart::default();
        let quiet = |m: &Module, o: &CompileOptions| self.compile_module(m, (name, &text), o, (None, &shared.of(o)));
        let (chosen, _) = self.choose(&module, options, &quiet)?;
        let o = chosen.for_chip(&self.chip);
        compile::plan_module(module, &self.chip, &o, &text).map_err(|e| compile_error(&e, (name, &text)))
    }

    /// The program of a plan that goes together.
    ///
    /// # Errors
    /// More spilled registers or scalars than there is memory for.
    pub fn compile_plan(&self, plan: &Plan, options: &CompileOptions) -> Result<Program, RuntimeError> {
        let program = compile::generate(plan, &self.chip, &options.for_chip(&self.chip), None);
        program.map_err(|e| RuntimeError::Compile(format!("{}: {e}", plan.head.name)))
    }

    /// Refuses custom calls that nothing would answer.
    #[allow(clippy::wildcard_enum_match_arm, reason = "only custom calls name targets")]
    fn check_targets(&self, module: &Module, name: &str, text: &str) -> Result<(), RuntimeError> {
        let nodes = module.computations.iter().flat_map(|c| &c.nodes);
        let unknown = nodes.filter_map(|n| match &n.op {
            Op::CustomCall { target, .. } if !custom::is_known(target) && !self.registry.knows(target) => {
                Some(Diagnostic::error(n.span, self.registry.unknown(target)))
            }
            _ => None,
        });
        match unknown.collect::<Vec<_>>() {
            d if d.is_empty() => Ok(()),
            d => Err(RuntimeError::Compile(systole_compiler::diag::render(&d, name, text, false))),
        }
    }

    /// Prepares a program for running.
    ///
    /// # Errors
    /// A program for another kind of chip, or one that is damaged.
    pub fn load(&self, program: Program) -> Result<Executable, RuntimeError> {
        let program = Arc::new(program);
        let loaded = load(Arc::clone(&program), &self.chip).map_err(|e| RuntimeError::Request(e.to_string()))?;
        Ok(Executable { program, loaded: Arc::new(loaded) })
    }
}

impl Executable {
    /// Cores of a device that run it.
    pub fn cores(&self) -> u32 {
        self.loaded.cores()
    }

    pub(crate) fn loaded(&self) -> Arc<systole_simulator::Loaded> {
        Arc::clone(&self.loaded)
    }
}

/// A compiler's error with the place in the text.
fn compile_error(e: &CompileError, (name, text): (&str, &str)) -> RuntimeError {
    let message = match e.span() {
        Some(s) => systole_compiler::diag::render(&[Diagnostic::error(s, e.to_string())], name, text, false),
        None => format!("{name}: {e}"),
    };
    match e.pins() {
        Some(lines) => RuntimeError::Schedule(message, lines),
        None => RuntimeError::Compile(message),
    }
}

/// Refuses programs whose text leaves out elements of constants: numbers would be wrong.
fn check_elided(module: &Module, name: &str, text: &str) -> Result<(), RuntimeError> {
    let Some((&first, others)) = module.elided.split_first() else { return Ok(()) };
    let message = "the text leaves out the elements of this constant, so its numbers cannot be computed";
    let more = if others.is_empty() { String::new() } else { format!(" (and of {} more)", others.len()) };
    let message = format!("{message}{more}");
    let d = Diagnostic::error(first, message).note(
        "dump the program with XLA_FLAGS=--xla_dump_large_constants=true; without the elements only time can be asked for \
         (--timing-only)",
    );
    Err(RuntimeError::Compile(systole_compiler::diag::render(&[d], name, text, false)))
}

/// The program of a partition, if shardings annotate the module.
fn whole_or_part(module: Module, name: &str, text: &str, options: &CompileOptions) -> Result<Module, RuntimeError> {
    if !crate::spmd::is_to_be_partitioned(&module) {
        return Ok(module);
    }
    let how = (options.asked.pod.partitions, crate::spmd::Unsaid::Free);
    crate::spmd::partition(&module, name, text, how).map(|p| p.module)
}

impl Device {
    /// Runs a program in full mode.
    ///
    /// # Errors
    /// Inputs that do not fit, or a fault of the program.
    pub fn run(&self, exe: &Executable, inputs: &[Array]) -> Result<Execution, RuntimeError> {
        self.run_with(exe, inputs, &RunOptions::new(Mode::Full), &mut NoObserver)
    }

    /// Runs a program. In timing-only mode only integer scalars of the inputs matter.
    ///
    /// # Errors
    /// Inputs that do not fit, or a fault of the program.
    pub fn run_with(
        &self,
        exe: &Executable,
        inputs: &[Array],
        options: &RunOptions,
        observer: &mut dyn Observer,
    ) -> Result<Execution, RuntimeError> {
        self.run_queued(exe, inputs, options, observer, &mut Queues::default())
    }

    /// [`Device::run_with`] with queues between host and device: infeeds take from one, outfeeds add to the other.
    ///
    /// # Errors
    /// Inputs that do not fit, calls of unknown host functions, or a fault of the program.
    pub fn run_queued(
        &self,
        exe: &Executable,
        inputs: &[Array],
        options: &RunOptions,
        observer: &mut dyn Observer,
        queues: &mut Queues,
    ) -> Result<Execution, RuntimeError> {
        self.run_cores(exe, inputs, options, observer, queues, Vec::new())
    }

    /// [`Device::run_queued`], with observers for the device's other cores ([`Executable::cores`]).
    ///
    /// # Errors
    /// As there.
    pub fn run_cores<A: Borrow<Array>>(
        &self,
        exe: &Executable,
        inputs: &[A],
        options: &RunOptions,
        observer: &mut dyn Observer,
        queues: &mut Queues,
        others: Vec<&mut dyn Observer>,
    ) -> Result<Execution, RuntimeError> {
        let done = self.finish(exe, Inputs::of(inputs), options, observer, queues, others)?;
        Ok(Execution { outputs: done.outputs()?, result: done.result })
    }

    /// [`Device::run_cores`] on given or drawn inputs, with results that stay on the device until they are asked for.
    ///
    /// # Errors
    /// As there; and if the host has not enough memory.
    pub fn finish(
        &self,
        exe: &Executable,
        inputs: Inputs<'_>,
        options: &RunOptions,
        observer: &mut dyn Observer,
        queues: &mut Queues,
        others: Vec<&mut dyn Observer>,
    ) -> Result<Finished, RuntimeError> {
        self.registry.check(&exe.program)?;
        transfer::fits(&exe.program, 1, options.mode)?;
        let mut machine = Machine::new(Arc::clone(&exe.loaded));
        transfer::place(&exe.program, &inputs, options, &mut machine)?;
        let mut observer = Answering {
            inner: observer,
            registry: &self.registry,
            queues,
            device: 0,
            common: &Common::new(1),
            asked: None,
        };
        let others = others.into_iter().map(|o| o as &mut dyn Observer).collect();
        let result = machine.run_cores(options, &mut observer, others).map_err(|f| RuntimeError::Fault(Box::new(f)))?;
        let results = Results::new(&exe.program, options.mode, Held::One(Box::new(machine)));
        Ok(Finished { results, result })
    }
}
