//! The way of one program through the command line: read, find its chip, compile, load, give inputs, run.

use crate::args::{ChipArgs, chip_named};
use crate::args::{CompileArgs, DEFAULT_CHIP, RunArgs};
use crate::output;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;
use systole_isa::{ChipConfig, Program, asm, container};
use systole_runtime::report::HostReport;
use systole_runtime::source::{self, Source};
use systole_runtime::{
    Array, Client, Executable, Execution, Mode, Observer, PodExecution, Queues, RuntimeError, generate, npz,
};

fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
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
    let chip = match chip.chip {
        Some(_) => chip.chip_or(DEFAULT_CHIP)?,
        None => named_chip(path, &bytes, chip)?,
    };
    let client = Client::with_chip(chip);
    let mut warnings = Vec::new();
    let mut sources = source::read(path, &bytes, client.chip(), false, &mut warnings)?.into_iter();
    let source = sources.next().ok_or_else(|| bad(format!("{path}: no program")))?;
    let rest = sources.collect();
    for w in &warnings {
        eprintln!("{}", w.trim_end());
    }
    if let Source::Program(p) = &source {
        p.validate(client.chip()).map_err(|e| bad(format!("{path}: {e}")))?;
    }
    Ok(Opened { client, source, rest, parse_s: start.elapsed().as_secs_f64() })
}

/// The chip that a file names, with the user's overrides.
fn named_chip(path: &str, bytes: &[u8], chip: &ChipArgs) -> Result<ChipConfig, RuntimeError> {
    if container::is_program(bytes) {
        let program = container::read_program(bytes).map_err(|e| RuntimeError::Source(format!("{path}: {e}")))?;
        let found = chip_named(&program.chip).map_err(|_| {
            bad(format!("{path}: compiled for `{}`, which is no preset: name its file with --chip", program.chip))
        })?;
        return chip.with_sets(found);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if asm::is_assembly(text) => {
            let (_, found) =
                asm::assemble_with_chip(text, path, None).map_err(|e| RuntimeError::Source(e.to_string()))?;
            chip.with_sets(found)
        }
        _ => chip.chip_or(DEFAULT_CHIP),
    }
}

impl Opened {
    /// Every module by itself.
    pub fn each(self) -> Vec<Opened> {
        let Opened { client, source, rest, parse_s } = self;
        let all = std::iter::once(source).chain(rest);
        all.map(|source| Opened { client: client.clone(), source, rest: Vec::new(), parse_s }).collect()
    }

    /// The program, compiled if it is not yet.
    ///
    /// # Errors
    /// If it cannot be compiled for the chip.
    pub fn program(
        self,
        path: &str,
        options: &CompileArgs,
        dump: Option<&mut dyn FnMut(&str, &str)>,
    ) -> Result<(Client, Program), RuntimeError> {
        if !self.rest.is_empty() {
            let modules = self.rest.len() + 1;
            return Err(bad(format!("{path}: {modules} modules; only `systole run` takes several in a file")));
        }
        let options = options.options_for(self.client.chip(), self.source.devices())?;
        let program = self.client.compile_source(self.source, path, &options, dump)?;
        Ok((self.client, program))
    }
}

/// A program ready to run.
pub struct Ready {
    pub client: Client,
    pub exe: Executable,
    pub host: HostReport,
    /// What the last run gave the host, in order.
    pub outfeed: Vec<Array>,
    /// The text that was compiled; empty for compiled programs.
    pub source: String,
}

/// Reads, compiles and loads what `args` name.
///
/// # Errors
/// Anything wrong with the request or the program.
pub fn prepare(args: &RunArgs) -> Result<Ready, RuntimeError> {
    let opened = open(&args.module, &args.chip)?;
    compile(opened, args)
}

/// Compiles and loads a program that was read.
///
/// # Errors
/// Anything wrong with the request or the program.
pub fn compile(opened: Opened, args: &RunArgs) -> Result<Ready, RuntimeError> {
    let mut opened = opened;
    for path in &args.custom_call_library {
        opened.client.load_library(path)?;
    }
    let mut host = HostReport { parse_s: opened.parse_s, ..HostReport::default() };
    let source = match &opened.source {
        Source::Module { text, .. } => text.clone(),
        Source::Program(_) => String::new(),
    };
    let start = Instant::now();
    let (client, program) = opened.program(&args.module, &args.compile, None)?;
    let exe = client.load(program)?;
    host.compile_s = start.elapsed().as_secs_f64();
    Ok(Ready { client, exe, host, source, outfeed: Vec::new() })
}

/// The arrays of a file in the order of the numbers that their names end with.
fn queued(path: &str) -> Result<VecDeque<Array>, RuntimeError> {
    let mut numbered = Vec::new();
    for (name, array) in npz::read(path)? {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = name[name.len() - digits..]
            .parse()
            .map_err(|_| bad(format!("{path}: the name of array `{name}` does not end with its place in the queue")))?;
        numbered.push((number, name, array));
    }
    numbered.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    if let Some(w) = numbered.windows(2).find(|w| w[0].0 == w[1].0) {
        return Err(bad(format!("{path}: arrays `{}` and `{}` have the same place in the queue", w[0].1, w[1].1)));
    }
    Ok(numbered.into_iter().map(|n| n.2).collect())
}

/// Inputs by number from a file's arrays: a device's own, else those for all.
fn from_file(path: &str, count: usize, devices: usize) -> Result<Vec<Vec<Array>>, RuntimeError> {
    let all: BTreeMap<String, Array> = npz::read(path)?;
    let one = |d: usize, i: usize| {
        let (own, shared) = (format!("dev{d}.arg{i}"), format!("arg{i}"));
        let found = all.get(&own).or_else(|| all.get(&shared));
        let name = if devices > 1 { own } else { shared };
        found.cloned().ok_or_else(|| bad(format!("{path}: no array `{name}` (the program takes {count})")))
    };
    (0..devices).map(|d| (0..count).map(|i| one(d, i)).collect()).collect()
}

impl Ready {
    /// The inputs that `args` name, else of the seed. Timing-only runs get no large or floating-point data.
    ///
    /// # Errors
    /// If the file does not have them.
    pub fn inputs(&self, args: &RunArgs, mode: Mode) -> Result<Vec<Array>, RuntimeError> {
        Ok(self.all_inputs(args, mode, 1)?.swap_remove(0))
    }

    /// [`Ready::inputs`] for several devices. Drawn ones differ from device to device.
    ///
    /// # Errors
    /// As there.
    pub fn all_inputs(&self, args: &RunArgs, mode: Mode, devices: usize) -> Result<Vec<Vec<Array>>, RuntimeError> {
        match &args.inputs {
            Some(path) => from_file(path, self.exe.program.params.len(), devices),
            // Timing depends on integers alone, which are the same everywhere.
            None if mode == Mode::TimingOnly => Ok(vec![self.drawn(args, mode, 0)]),
            None => Ok((0..devices as u64).map(|d| self.drawn(args, mode, d)).collect()),
        }
    }

    fn drawn(&self, args: &RunArgs, mode: Mode, device: u64) -> Vec<Array> {
        let params = &self.exe.program.params;
        let seed = args.seed.wrapping_add(device.wrapping_mul(0x9E37_79B9));
        let drawn = params.iter().enumerate().map(|(i, p)| {
            let (dtype, dims) = (p.layout.dtype, p.dims());
            let elements = dims.iter().product::<u64>();
            if mode == Mode::TimingOnly && (dtype.is_float() || elements > 1024) {
                Array { dtype, dims: dims.to_vec(), bytes: Vec::new() }
            } else {
                generate::input(seed, i as u64, dtype, dims)
            }
        });
        drawn.collect()
    }

    /// Number of devices that the program runs on.
    pub fn devices(&self) -> usize {
        self.exe.program.pod.devices() as usize
    }

    /// Runs the program on all its devices.
    ///
    /// # Errors
    /// Inputs that do not fit, or a fault of the program.
    pub fn run_pod(
        &mut self,
        args: &RunArgs,
        inputs: &[Vec<Array>],
        mode: Mode,
        observer: &mut dyn Observer,
        watchers: Vec<&mut dyn Observer>,
    ) -> Result<PodExecution, RuntimeError> {
        let options = args.options(mode)?;
        let start = Instant::now();
        let first = match &args.infeed {
            Some(path) => Queues { infeed: queued(path)?, ..Queues::default() },
            None => Queues::default(),
        };
        // Every device has a queue of its own, with the same arrays.
        let mut queues: Vec<Queues> =
            (0..self.devices()).map(|_| Queues { infeed: first.infeed.clone(), ..Queues::default() }).collect();
        let done =
            self.client.run_pod(&self.exe, inputs, &options, &args.pod_options()?, observer, &mut queues, watchers)?;
        self.outfeed = queues.into_iter().flat_map(|q| q.outfeed).collect();
        self.host.simulate_s = start.elapsed().as_secs_f64();
        self.host.peak_rss_bytes = peak_rss();
        let cycles = done.run.devices.iter().map(|d| d.cycles).max().unwrap_or(0);
        self.host.cycles_per_s = cycles as f64 / self.host.simulate_s.max(1e-9);
        Ok(done)
    }

    /// Runs the program and notes what the host spent.
    ///
    /// # Errors
    /// Inputs that do not fit, or a fault of the program.
    pub fn run(
        &mut self,
        args: &RunArgs,
        inputs: &[Array],
        mode: Mode,
        observer: &mut dyn Observer,
    ) -> Result<Execution, RuntimeError> {
        let options = args.options(mode)?;
        let start = Instant::now();
        let mut queues = match &args.infeed {
            Some(path) => Queues { infeed: queued(path)?, ..Queues::default() },
            None => Queues::default(),
        };
        let done = self.client.device(0).run_queued(&self.exe, inputs, &options, observer, &mut queues)?;
        self.outfeed = queues.outfeed;
        self.host.simulate_s = start.elapsed().as_secs_f64();
        self.host.peak_rss_bytes = peak_rss();
        self.host.cycles_per_s = done.result.cycles as f64 / self.host.simulate_s.max(1e-9);
        Ok(done)
    }
}

/// Inputs without contents, for runs of cycles only.
pub fn placeholders(program: &Program) -> Vec<Array> {
    let empty = |p: &systole_isa::program::HostArray| Array {
        dtype: p.layout.dtype,
        dims: p.dims().to_vec(),
        bytes: Vec::new(),
    };
    let small = |a: &Array| !a.dtype.is_float() && a.dims.iter().product::<u64>() <= 1024;
    let arrays = program.params.iter().map(empty).enumerate();
    arrays.map(|(i, a)| if small(&a) { generate::input(0, i as u64, a.dtype, &a.dims) } else { a }).collect()
}

/// Peak resident memory of this process in bytes, where the system tells.
fn peak_rss() -> u64 {
    let Ok(text) = std::fs::read_to_string("/proc/self/status") else { return 0 };
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).map_or(0, |k| k * 1024)
}
