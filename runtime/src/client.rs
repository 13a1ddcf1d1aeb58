//! Clients, devices, executables: compile a program, give it inputs, run it.

use crate::source::{self, Source};
use crate::{Array, RuntimeError};
use std::sync::Arc;
use systole_compiler::compile::{self, compile};
use systole_compiler::graph::Precision;
use systole_isa::{ChipConfig, Program};
use systole_simulator::{Machine, Mode, NoObserver, Observer, RunResult, load};

/// What the compiler is asked for.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Raises the precision of f32 products to at least this.
    pub precision: Precision,
    /// Whether small constants are evaluated at compile time.
    pub fold: bool,
    /// Random legal scheduling choices from this seed.
    pub chaos: Option<u64>,
    /// Proves the emitted bundles again.
    pub check: bool,
}

impl Default for CompileOptions {
    fn default() -> CompileOptions {
        CompileOptions { precision: Precision::Default, fold: true, chaos: None, check: cfg!(debug_assertions) }
    }
}

/// What a run is asked for.
pub type RunOptions = systole_simulator::RunOptions;

/// A chip with the compiler for it.
#[derive(Clone, Debug)]
pub struct Client {
    chip: Arc<ChipConfig>,
}

/// A compiled program, decoded and ready to run.
#[derive(Clone)]
pub struct Executable {
    pub program: Arc<Program>,
    loaded: Arc<systole_simulator::Loaded>,
}

/// A device of a client.
#[derive(Clone, Debug)]
pub struct Device {
    chip: Arc<ChipConfig>,
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
        Client { chip: Arc::new(chip) }
    }

    pub fn chip(&self) -> &ChipConfig {
        &self.chip
    }

    /// Device `id`. All devices of a client are alike.
    pub fn device(&self, id: u32) -> Device {
        Device { chip: Arc::clone(&self.chip), id }
    }

    /// Compiles HLO text.
    ///
    /// # Errors
    /// Wrong text, or a program that cannot be compiled for the chip.
    pub fn compile_hlo(&self, text: &str, options: &CompileOptions) -> Result<Executable, RuntimeError> {
        let source = source::read("<text>", text.as_bytes(), &self.chip, false, &mut Vec::new())?;
        let program = self.compile_source(source, "<text>", options, None)?;
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
            Source::Module { module, text } => (*module, text),
        };
        let mut o = compile::CompileOptions::for_chip(&self.chip);
        o.passes.precision = options.precision;
        o.passes.fold = options.fold;
        o.chaos = options.chaos;
        o.check = options.check;
        let mut program = compile(module, &self.chip, &o, &text, dump).map_err(|e| {
            let diagnostic = e.span().map(|s| systole_compiler::diag::Diagnostic::error(s, e.to_string()));
            match diagnostic {
                Some(d) => RuntimeError::Compile(systole_compiler::diag::render(&[d], name, &text, false)),
                None => RuntimeError::Compile(format!("{name}: {e}")),
            }
        })?;
        program.debug.source = name.to_string();
        Ok(program)
    }

    /// Prepares a program for running.
    ///
    /// # Errors
    /// A program for another kind of chip, or one that is damaged.
    pub fn load(&self, program: Program) -> Result<Executable, RuntimeError> {
        let loaded = load(&program, &self.chip).map_err(|e| RuntimeError::Request(e.to_string()))?;
        Ok(Executable { program: Arc::new(program), loaded: Arc::new(loaded) })
    }
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
        let params = &exe.program.params;
        if inputs.len() != params.len() {
            let message = format!("the program takes {} inputs, {} are given", params.len(), inputs.len());
            return Err(RuntimeError::Request(message));
        }
        let mut machine = Machine::new(Arc::clone(&exe.loaded));
        for (i, (a, p)) in inputs.iter().zip(params).enumerate() {
            if a.dtype != p.layout.dtype || a.dims != p.layout.dims {
                let want = Array { dtype: p.layout.dtype, dims: p.layout.dims.clone(), bytes: Vec::new() }.shape();
                let message = format!("arg{i} (`{}`) must be {want}, {} is given", p.name, a.shape());
                return Err(RuntimeError::Request(message));
            }
            let small = a.dims.iter().product::<u64>() <= 1024;
            if options.mode != Mode::TimingOnly || (small && !a.dtype.is_float()) {
                let bytes = p.layout.to_device(&a.bytes);
                machine.write_hbm(p.address, &bytes).map_err(|e| RuntimeError::Request(e.to_string()))?;
            }
        }
        let result = machine.run(options, observer).map_err(|f| RuntimeError::Fault(Box::new(f)))?;
        let mut outputs = Vec::new();
        if options.mode != Mode::TimingOnly {
            for r in &exe.program.results {
                let mut bytes = vec![0; r.layout.bytes() as usize];
                machine.read_hbm(r.address, &mut bytes).map_err(|e| RuntimeError::Request(e.to_string()))?;
                outputs.push(Array::new(r.layout.dtype, &r.layout.dims, r.layout.to_host(&bytes)));
            }
        }
        let _ = &self.chip;
        Ok(Execution { outputs, result })
    }
}
