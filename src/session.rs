//! The way of one program through the command line: read, find its chip, compile, load, give inputs, run.

use crate::args::{ChipArgs, chip_named};
use crate::args::{CompileArgs, DEFAULT_CHIP, RunArgs};
use crate::output;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Instant;
use systole_compiler::plan;
use systole_isa::{ChipConfig, Program, asm, container};
use systole_runtime::profile;
use systole_runtime::report::HostReport;
use systole_runtime::source::{self, Source};
use systole_runtime::spmd::{self, Parts, Unsaid};
use systole_runtime::{
    Array, Attached, Client, CompileOptions, Executable, Inputs, InputsFrom, Mode, Observer, PodFinished, Queues, Ran,
    RuntimeError, Setup, generate, memory, npz,
};

fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
}

/// Stack in bytes for what reads and compiles programs, which nest deeply.
pub const STACK: usize = 512 << 20;

/// Does `work` where the stack is large.
///
/// # Errors
/// Those of the work; if no thread can be had.
pub fn deep<T: Send>(work: impl FnOnce() -> Result<T, RuntimeError> + Send) -> Result<T, RuntimeError> {
    std::thread::scope(|scope| {
        let work = || {
            crate::memory::expect_use();
            work()
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|e| bad(format!("cannot start: {e}")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A program that was read, with the chip it is for.
pub struct Opened {
    pub client: Client,
    pub source: Source,
    /// Further modules of the file.
    pub rest: Vec<Source>,
    /// What reading took, in seconds.
    pub parse_s: f64,
}

/// Reads a program of any kind. The chip is the user's, else the one that a compiled program or assembly names.
///
/// # Errors
/// Anything wrong with file, program or chip.
pub fn open(path: &str, chip: &ChipArgs) -> Result<Opened, RuntimeError> {
    let start = Instant::now();
    let bytes = output::read(path)?;
    if profile::is_profile(&bytes) {
        return Err(bad(format!(
            "{path}: a recorded run, where a program is due: `systole top`, `systole profile` and `systole report` show it"
        )));
    }
    let (chip, program) = match chip.chip {
        Some(_) => (chip.chip_or(DEFAULT_CHIP)?, None),
        None => named_chip(path, &bytes, chip)?,
    };
    let client = Client::with_chip(chip);
    let mut warnings = Vec::new();
    let sources = match program {
        Some(p) => vec![Source::Program(Box::new(p))],
        None => deep(|| source::read(path, &bytes, client.chip(), false, &mut warnings))?,
    };
    let mut sources = sources.into_iter();
    let source = sources.next().ok_or_else(|| bad(format!("{path}: no program")))?;
    let rest = sources.collect();
    for w in &warnings {
        output::say(w.trim_end());
    }
    if let Source::Program(p) = &source {
        p.check_tables(client.chip()).map_err(|e| bad(format!("{path}: {e}")))?;
    }
    Ok(Opened { client, source, rest, parse_s: start.elapsed().as_secs_f64() })
}

/// The chip that a file names, with the user's overrides; and the program, if the file is a compiled one.
fn named_chip(path: &str, bytes: &[u8], chip: &ChipArgs) -> Result<(ChipConfig, Option<Program>), RuntimeError> {
    if container::is_program(bytes) {
        let program = container::read_program(bytes).map_err(|e| RuntimeError::Source(format!("{path}: {e}")))?;
        let found = chip_named(&program.chip).map_err(|_| {
            bad(format!("{path}: compiled for `{}`, which is no preset: name its file with --chip", program.chip))
        })?;
        return Ok((chip.with_sets(found)?, Some(program)));
    }
    let named = match std::str::from_utf8(bytes) {
        Ok(text) if asm::is_assembly(text) => {
            let (_, found) =
                asm::assemble_with_chip(text, path, None).map_err(|e| RuntimeError::Source(e.to_string()))?;
            chip.with_sets(found)
        }
        Ok(text) if plan::text::is_plan(text) => {
            let read = plan::text::parse(text);
            let read = read.map_err(|e| RuntimeError::Source(format!("{path}:{}: {}", e.line, e.message)))?;
            let found = chip_named(&read.head.chip).map_err(|_| {
                bad(format!("{path}: planned for `{}`, which is no preset: name its file with --chip", read.head.chip))
            })?;
            chip.with_sets(found)
        }
        _ => chip.chip_or(DEFAULT_CHIP),
    };
    Ok((named?, None))
}

impl Opened {
    /// Every module by itself.
    pub fn each(self) -> Vec<Opened> {
        let Opened { client, source, rest, parse_s } = self;
        let all = std::iter::once(source).chain(rest);
        all.map(|source| Opened { client: client.clone(), source, rest: Vec::new(), parse_s }).collect()
    }

    /// The plan, made if there is none yet.
    ///
    /// # Errors
    /// If there is none for the chip.
    pub fn plan(self, path: &str, options: &CompileArgs) -> Result<(Client, plan::Plan), RuntimeError> {
        let (client, source, options) = self.module(path, options)?;
        let plan = client.plan_source(source, path, &options)?;
        Ok((client, plan))
    }

    /// The one program of the file, and how it is to be compiled.
    ///
    /// # Errors
    /// Several programs; options that do not go together.
    pub fn module(self, path: &str, options: &CompileArgs) -> Result<(Client, Source, CompileOptions), RuntimeError> {
        if !self.rest.is_empty() {
            return Err(bad(format!("{path}: {} modules where one program is due", self.rest.len() + 1)));
        }
        let options = options.options_for(self.client.chip(), self.source.devices())?;
        Ok((self.client, self.source, options))
    }

    /// The program, compiled for runs in `mode` if it is not yet.
    ///
    /// # Errors
    /// If it cannot be compiled for the chip.
    pub fn program(
        self,
        path: &str,
        options: &CompileArgs,
        mode: Mode,
        dump: Option<&mut dyn FnMut(&str, &str)>,
    ) -> Result<(Client, Program), RuntimeError> {
        if !self.rest.is_empty() {
            let modules = self.rest.len() + 1;
            return Err(bad(format!("{path}: {modules} modules; only `systole run` takes several in a file")));
        }
        for note in self.notes(path, options) {
            output::say(format_args!("note: {note}"));
        }
        let mut options = options.options_for(self.client.chip(), self.source.devices())?;
        options.timing_only = mode == Mode::TimingOnly;
        let program = self.client.compile_source(self.source, path, &options, dump)?;
        Ok((self.client, program))
    }
}

impl Opened {
    /// Flags that the program makes nothing of.
    fn notes(&self, path: &str, options: &CompileArgs) -> Vec<String> {
        let mut out = Vec::new();
        match &self.source {
            Source::Program(_) => {
                // Latencies of a run are shuffled too.
                let unused = CompileArgs { chaos: None, ..options.clone() }.flags();
                if !unused.is_empty() {
                    out.push(format!("{path} is compiled: {} change nothing", unused.join(" ")));
                }
            }
            Source::Plan(_) => {}
            Source::Module { .. } => {
                if let Some(n) = options.partitions.filter(|n| *n > 1 && !self.source.is_shared()) {
                    out.push(format!(
                        "--partitions {n}: nothing in {path} divides its work (no collective, no partition-id): every device \
                         computes all of it"
                    ));
                }
                let (replicas, partitions) = match (options.replicas, options.partitions) {
                    (None, None) => self.source.devices(),
                    (replicas, partitions) => (replicas.unwrap_or(1), partitions.unwrap_or(1)),
                };
                let given = [("topology", &options.topology), ("collective", &options.collective)];
                for (flag, value) in given.into_iter().filter(|_| (replicas, partitions) == (1, 1)) {
                    out.extend(value.as_ref().map(|v| {
                        format!("--{flag} {v}: {path} runs on one device; --replicas or --partitions say on how many")
                    }));
                }
            }
        }
        out
    }
}

/// A program ready to run.
pub struct Ready {
    pub client: Client,
    pub exe: Executable,
    pub host: HostReport,
    /// What the last run gave the host, by name.
    pub outfeed: Vec<(String, Array)>,
    /// The text that was compiled; empty for compiled programs.
    pub source: String,
    /// How its arrays are divided among partitions, where that is known.
    pub parts: Option<Parts>,
}

/// Reads, compiles and loads what `args` name, for runs in `mode`.
///
/// # Errors
/// Anything wrong with the request or the program.
pub fn prepare(args: &RunArgs, mode: Mode) -> Result<Ready, RuntimeError> {
    let opened = open(&args.module, &args.chip)?;
    compile(opened, args, mode)
}

/// Adds a library of host functions. A statically linked command cannot load it, so that a program beside the command does.
fn load_library(client: &mut Client, path: &str) -> Result<(), RuntimeError> {
    if option_env!("LINKED_STATICALLY").is_none() {
        return client.load_library(path);
    }
    let own = std::env::current_exe().map_err(|e| bad(format!("{path}: where this program lies is not known: {e}")))?;
    let server = own.with_file_name(format!("systole-host-functions{}", std::env::consts::EXE_SUFFIX));
    if !server.exists() {
        let missing = server.display();
        return Err(bad(format!(
            "{path}: {missing} is not there, which loads libraries for this program; `cargo build` and `cargo install` make both"
        )));
    }
    client.load_library_apart(path, &server)
}

/// Compiles and loads a program that was read, for runs in `mode`.
///
/// # Errors
/// Anything wrong with the request or the program.
pub fn compile(opened: Opened, args: &RunArgs, mode: Mode) -> Result<Ready, RuntimeError> {
    let mut opened = opened;
    for path in &args.custom_call_library {
        load_library(&mut opened.client, path)?;
    }
    let mut host = HostReport { parse_s: opened.parse_s, ..HostReport::default() };
    let source = match &opened.source {
        Source::Module { text, .. } => text.clone(),
        Source::Program(_) | Source::Plan(_) => String::new(),
    };
    let start = Instant::now();
    let options = args.compile.options_for(opened.client.chip(), opened.source.devices())?;
    let is_compiled = matches!(opened.source, Source::Program(_));
    let work = || {
        let partitions = options.asked.pod.partitions;
        let (source, parts) = spmd::partitioned(opened.source, &args.module, partitions, Unsaid::Free)?;
        let (client, program) = Opened { source, ..opened }.program(&args.module, &args.compile, mode, None)?;
        Ok((client, program, parts))
    };
    let (client, program, parts) = if is_compiled { work() } else { deep(work) }?;
    for assume in args.world.assumed()? {
        if !program.debug.ops.iter().any(|o| assume.is_about(&o.name)) {
            let (name, trips) = (assume.name, assume.trips);
            let module = &args.module;
            output::say(format_args!("note: --assume {name}={trips}: no operation of {module} is called {name}"));
        }
    }
    let exe = client.load(program).map_err(|e| bad(format!("{}: {e}", args.module)))?;
    host.compile_s = start.elapsed().as_secs_f64();
    Ok(Ready { client, exe, host, source, outfeed: Vec::new(), parts })
}

/// Arrays of one queue with their names and places in it.
type Numbered = Vec<(u64, String, Array)>;

/// The queues of every device from a file: names end with the place in the queue. `devD.` before a name means one device
/// (without, a queue is every device's that has none of its own), `channelC.` the channel of a transfer from the host.
fn queued(path: Option<&str>, devices: usize) -> Result<Vec<Queues>, RuntimeError> {
    let mut by: BTreeMap<(Option<usize>, Option<u64>), Numbered> = BTreeMap::new();
    let arrays = path.map(npz::read).transpose()?.unwrap_or_default();
    let path = path.unwrap_or_default();
    for (name, array) in arrays {
        let (device, rest) = prefixed(&name, "dev");
        let (channel, rest) = prefixed(rest, "channel");
        let digits = rest.len() - rest.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[rest.len() - digits..]
            .parse()
            .map_err(|_| bad(format!("{path}: the name of array `{name}` does not end with its place in the queue")))?;
        if device.is_some_and(|d| d >= devices as u64) {
            return Err(bad(format!(
                "{path}: array `{name}` is for a device that does not exist (there are {devices})"
            )));
        }
        by.entry((device.map(|d| d as usize), channel)).or_default().push((number, name, array));
    }
    for queue in by.values_mut() {
        queue.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        if let Some(w) = queue.windows(2).find(|w| w[0].0 == w[1].0) {
            return Err(bad(format!("{path}: arrays `{}` and `{}` have the same place in the queue", w[0].1, w[1].1)));
        }
    }
    let queues = |d: usize| {
        let mut q = Queues::default();
        for ((device, channel), arrays) in &by {
            let other = device.is_none() && by.contains_key(&(Some(d), *channel));
            if device.is_some_and(|x| x != d) || other {
                continue;
            }
            let arrays = arrays.iter().map(|n| n.2.clone());
            match channel {
                Some(c) => q.to_device.entry(*c).or_default().extend(arrays),
                None => q.infeed.extend(arrays),
            }
        }
        q
    };
    Ok((0..devices).map(queues).collect())
}

/// The number of a prefix such as `dev3.`, and what follows.
fn prefixed<'a>(name: &'a str, word: &str) -> (Option<u64>, &'a str) {
    let found = name.strip_prefix(word).and_then(|rest| rest.split_once('.'));
    match found.and_then(|(number, rest)| Some((number.parse().ok()?, rest))) {
        Some((number, rest)) => (Some(number), rest),
        None => (None, name),
    }
}

/// What devices gave the host, by names as [`queued`] takes them.
fn given(queues: Vec<Queues>) -> Vec<(String, Array)> {
    let several = queues.len() > 1;
    let mut out = Vec::new();
    for (d, q) in queues.into_iter().enumerate() {
        let device = if several { format!("dev{d}.") } else { String::new() };
        out.extend(q.outfeed.into_iter().enumerate().map(|(i, a)| (format!("{device}out{i}"), a)));
        for (c, arrays) in q.to_host {
            out.extend(arrays.into_iter().enumerate().map(|(i, a)| (format!("{device}channel{c}.out{i}"), a)));
        }
    }
    out
}

/// What a run computes on.
pub enum Given {
    /// By device, or the same for all, and then by parameter.
    Arrays(Vec<Vec<Array>>),
    /// By device, or the same for all.
    Drawn(Vec<u64>),
}

impl Given {
    /// A device's.
    pub fn of(&self, device: usize) -> Inputs<'_> {
        match self {
            Given::Arrays(all) => Inputs::of(&all[device.min(all.len() - 1)]),
            Given::Drawn(seeds) => Inputs::Drawn(seeds[device.min(seeds.len() - 1)]),
        }
    }
}

/// Inputs by number from a file's arrays: a device's own, else those for all.
fn from_file(path: &str, count: usize, devices: usize) -> Result<Vec<Vec<Array>>, RuntimeError> {
    let wanted = |name: &str| {
        let (device, rest) = prefixed(name, "dev");
        let number = rest.strip_prefix("arg").and_then(|n| n.parse::<usize>().ok());
        device.is_none_or(|d| d < devices as u64) && number.is_some_and(|n| n < count)
    };
    let mut all: BTreeMap<String, Array> = npz::read_some(path, &wanted)?;
    let missing = |name: String| bad(format!("{path}: no array `{name}` (the program takes {count})"));
    let shared = |i: usize| format!("arg{i}");
    if !all.keys().any(|n| n.starts_with("dev")) && (devices == 1 || (0..count).all(|i| all.contains_key(&shared(i)))) {
        let one = |i: usize| all.remove(&shared(i)).ok_or_else(|| missing(shared(i)));
        return Ok(vec![(0..count).map(one).collect::<Result<_, _>>()?]);
    }
    let one = |d: usize, i: usize| {
        let own = format!("dev{d}.arg{i}");
        all.get(&own).or_else(|| all.get(&shared(i))).cloned().ok_or_else(|| missing(own))
    };
    (0..devices).map(|d| (0..count).map(|i| one(d, i)).collect()).collect()
}

/// Whether a file of arrays has some for single devices.
fn names_devices(path: &str) -> Result<bool, RuntimeError> {
    let found = Cell::new(false);
    let look = |name: &str| {
        found.set(found.get() || prefixed(name, "dev").0.is_some());
        false
    };
    npz::read_some(path, &look)?;
    Ok(found.get())
}

/// A file's whole arrays, cut: by device, and then by parameter. `None` if the file has arrays of devices, or such as every
/// device of a program takes that was partitioned before.
fn cut(path: &str, ready: &Ready, devices: usize) -> Result<Option<Vec<Vec<Array>>>, RuntimeError> {
    let (Some(parts), false) = (&ready.parts, names_devices(path)?) else { return Ok(None) };
    let params = &ready.exe.program.params;
    let number = |name: &str| name.strip_prefix("arg").and_then(|n| n.parse::<usize>().ok());
    let all = npz::read_some(path, &|name: &str| number(name).is_some_and(|n| n < params.len()))?;
    let array = |i: usize| all.get(&format!("arg{i}"));
    if !parts.joins && params.iter().enumerate().all(|(i, p)| array(i).is_none_or(|a| a.dims == p.dims())) {
        return Ok(None);
    }
    let mut out: Vec<Vec<Array>> = vec![Vec::new(); devices];
    for i in 0..params.len() {
        let missing = || bad(format!("{path}: no array `arg{i}` (the program takes {})", params.len()));
        share(&parts.cut(i, array(i).ok_or_else(missing)?)?, &mut out);
    }
    Ok(Some(out))
}

/// Gives every device its partition's part.
fn share(parts: &[Array], devices: &mut [Vec<Array>]) {
    for (d, own) in devices.iter_mut().enumerate() {
        own.push(parts[d % parts.len()].clone());
    }
}

impl Ready {
    /// How results go together, where people get whole ones: the program was partitioned here, has no replicas, and inputs
    /// did not come by device.
    ///
    /// # Errors
    /// If the file of inputs cannot be read.
    pub fn whole(&self, args: &RunArgs) -> Result<Option<&Parts>, RuntimeError> {
        let by_device = args.inputs.as_deref().map_or(Ok(false), names_devices)?;
        let alone = self.exe.program.pod.replicas == 1;
        Ok(self.parts.as_ref().filter(|p| p.joins && alone && !by_device))
    }

    /// Inputs drawn whole, and cut.
    fn drawn_whole(&self, parts: &Parts, args: &RunArgs, devices: usize) -> Result<Given, RuntimeError> {
        let mut out: Vec<Vec<Array>> = vec![Vec::new(); devices];
        for (i, (p, edge)) in self.exe.program.params.iter().zip(&parts.boundary.params).enumerate() {
            share(&parts.cut(i, &generate::input(args.seed, i as u64, p.layout.dtype, &edge.dims))?, &mut out);
        }
        Ok(Given::Arrays(out))
    }

    /// The inputs of every device that `args` name, else of the seed: drawn ones differ from device to device.
    ///
    /// # Errors
    /// If the file does not have them.
    pub fn inputs(&self, args: &RunArgs, mode: Mode) -> Result<Given, RuntimeError> {
        let devices = self.devices();
        match &args.inputs {
            Some(path) => Ok(Given::Arrays(match cut(path, self, devices)? {
                Some(parts) => parts,
                None => from_file(path, self.exe.program.params.len(), devices)?,
            })),
            // Timing depends on integers alone, which are the same everywhere.
            None if mode == Mode::TimingOnly => Ok(Given::Drawn(vec![args.seed])),
            None => {
                if let Some(parts) = self.parts.as_ref().filter(|p| p.joins) {
                    return self.drawn_whole(parts, args, devices);
                }
                let seed = |d: u64| args.seed.wrapping_add(d.wrapping_mul(0x9E37_79B9));
                Ok(Given::Drawn((0..devices as u64).map(seed).collect()))
            }
        }
    }

    /// The inputs of one device as arrays.
    ///
    /// # Errors
    /// As for [`Ready::inputs`].
    pub fn arrays(&self, args: &RunArgs) -> Result<Vec<Array>, RuntimeError> {
        let params = self.exe.program.params.iter().enumerate();
        let bytes = params.clone().map(|(_, p)| p.host_bytes()).fold(0, u64::saturating_add);
        memory::require(bytes, "holding the program's inputs")?;
        match &args.inputs {
            Some(path) => Ok(from_file(path, params.len(), 1)?.swap_remove(0)),
            None => Ok(params.map(|(i, p)| generate::input(args.seed, i as u64, p.layout.dtype, p.dims())).collect()),
        }
    }

    /// Number of devices that the program runs on.
    pub fn devices(&self) -> usize {
        self.exe.program.pod.devices() as usize
    }

    /// Recordings of a run: one of every core of every device.
    pub fn lanes(&self) -> usize {
        self.devices() * self.exe.cores() as usize
    }

    /// Runs the program on all its devices and notes what the host spent. `observer` is asked for progress, `watchers` see
    /// what each lane does.
    ///
    /// # Errors
    /// Inputs that do not fit, or a fault of the program.
    pub fn run(
        &mut self,
        args: &RunArgs,
        inputs: &Given,
        mode: Mode,
        observer: &mut dyn Observer,
        watchers: Vec<&mut dyn Observer>,
    ) -> Result<PodFinished, RuntimeError> {
        // A device by itself is timed by one thread.
        let alone = mode == Mode::TimingOnly && self.devices() == 1;
        let options = args.options(mode, if alone { 1 } else { threads() })?;
        let start = Instant::now();
        let mut queues = queued(args.infeed.as_deref(), self.devices())?;
        let (of, pod) = (|d| inputs.of(d), args.world.pod_options()?);
        let attached = Attached { observer: Some(observer), queues: &mut queues, watchers };
        let done = self.client.finish_pod(&self.exe, &of, &options, &pod, attached)?;
        self.outfeed = given(queues);
        self.host.simulate_s = start.elapsed().as_secs_f64();
        self.host.cycles_per_s = done.run.cycles() as f64 / self.host.simulate_s.max(1e-9);
        Ok(done)
    }

    /// What ran, for pages.
    pub fn ran(&self, args: &RunArgs, mode: Mode) -> Ran<'_> {
        let (chip, program) = (self.client.chip(), &*self.exe.program);
        let drawn = args.inputs.is_none() && !program.params.is_empty();
        let setup = Setup {
            given: InputsFrom { seed: drawn.then_some(args.seed), inputs: args.inputs.clone() },
            flags: args.flags(),
            ..Setup::new(&args.module, chip, program, mode)
        };
        let whole = self.parts.as_ref().map_or(Vec::new(), Parts::kept_whole);
        Ran { setup, chip, program, source: &self.source, host: self.host.clone(), whole }
    }

    /// The same for data, which say how much memory the process took.
    pub fn measured(&self, args: &RunArgs, mode: Mode) -> Ran<'_> {
        let ran = self.ran(args, mode);
        Ran { host: HostReport { peak_rss_bytes: peak_rss(), ..ran.host }, ..ran }
    }
}

/// Threads of the host that may work at once.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Peak resident memory of this process in bytes, where the system tells.
fn peak_rss() -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).map_or(0, |k| k * 1024)
}
