//! Inputs into a device's HBM and results out of it, a row at a time: besides HBM itself nothing holds a whole array.

use crate::{Array, RuntimeError, generate, memory};
use std::borrow::Borrow;
use std::sync::Arc;
use systole_isa::Program;
use systole_isa::program::HostArray;
use systole_simulator::{HostRangeError, Machine, Mode, Pod, PodRun, RunOptions, RunResult};

/// What a run computes on.
#[derive(Clone, Debug)]
pub enum Inputs<'a> {
    /// One array for each parameter. In timing-only runs only those matter that [steer](generate::steers).
    Arrays(Vec<&'a Array>),
    /// Drawn from a seed, as [`generate::input`] does.
    Drawn(u64),
}

impl<'a> Inputs<'a> {
    /// Arrays in order of the parameters.
    pub fn of<A: Borrow<Array>>(arrays: &'a [A]) -> Inputs<'a> {
        Inputs::Arrays(arrays.iter().map(Borrow::borrow).collect())
    }
}

fn request(e: impl ToString) -> RuntimeError {
    RuntimeError::Request(e.to_string())
}

/// Puts inputs where a program takes them from: all of them, or for timing-only runs small integers.
///
/// # Errors
/// Inputs that do not fit the program.
pub(crate) fn place(
    program: &Arc<Program>,
    inputs: &Inputs<'_>,
    options: &RunOptions,
    machine: &mut Machine,
) -> Result<(), RuntimeError> {
    let params = &program.params;
    if let Inputs::Arrays(arrays) = inputs {
        check(params, arrays)?;
    }
    if options.mode == Mode::TimingOnly {
        for (i, p) in params.iter().enumerate() {
            let (dtype, dims) = (p.layout.dtype, p.dims());
            // What is known of a small array is known of its padding too.
            if generate::steers(dtype, dims) {
                let device = match inputs {
                    Inputs::Arrays(arrays) => p.layout.to_device(&arrays[i].bytes),
                    Inputs::Drawn(seed) => p.layout.to_device(&generate::input(*seed, i as u64, dtype, dims).bytes),
                };
                machine.write_hbm(p.address, &device).map_err(request)?;
            }
        }
        return Ok(());
    }
    let ranges: Vec<_> = params.iter().map(|p| p.address..p.address.saturating_add(p.layout.bytes())).collect();
    let placed = match inputs {
        Inputs::Arrays(arrays) => machine.fill_hbm(&ranges, options.threads, &|i, from, out| {
            params[i].layout.pack_host(&arrays[i].bytes, from, out);
        }),
        // What is drawn depends on nothing, so the run need not wait for it.
        Inputs::Drawn(seed) => {
            let (program, seed) = (Arc::clone(program), *seed);
            machine.fill_hbm_later(ranges, options.threads, move |i, from, out| {
                let layout = &program.params[i].layout;
                let mut fetch = |first: u64, step: u64, elements: &mut [u8]| {
                    generate::fill(seed, i as u64, layout.dtype, first, step, elements);
                };
                layout.pack_into(&mut fetch, from, out);
            })
        }
    };
    placed.map_err(request)
}

fn check(params: &[HostArray], arrays: &[&Array]) -> Result<(), RuntimeError> {
    if arrays.len() != params.len() {
        return Err(request(format!("the program takes {} inputs, {} are given", params.len(), arrays.len())));
    }
    for (i, (a, p)) in arrays.iter().zip(params).enumerate() {
        if a.dtype != p.layout.dtype || a.dims != p.dims() {
            let want = Array { dtype: p.layout.dtype, dims: p.dims().to_vec(), bytes: Vec::new() }.shape();
            return Err(request(format!("arg{i} (`{}`) must be {want}, {} is given", p.name, a.shape())));
        }
    }
    Ok(())
}

/// That the host has memory for the contents of a program's devices, where the run has contents.
///
/// # Errors
/// If it has less.
pub(crate) fn fits(program: &Program, devices: usize, mode: Mode) -> Result<(), RuntimeError> {
    if mode == Mode::TimingOnly {
        return Ok(());
    }
    let each = program.memory.hbm_bytes.saturating_add(program.memory.vmem_bytes);
    let many = if devices == 1 { "a device".to_string() } else { format!("{devices} devices") };
    let what = format!("running the program with its numbers (not for timing only) on {many}");
    memory::require(each.saturating_mul(devices as u64), &what)
}

/// A result from words of HBM.
fn result(r: &HostArray, read: &dyn Fn(u64, &mut [u8]) -> Result<(), HostRangeError>) -> Result<Array, RuntimeError> {
    let mut failed = None;
    let bytes = r.layout.unpack_host(&mut |at, words| {
        if let Err(e) = read(r.address + at, words) {
            failed.get_or_insert(e);
        }
    });
    match failed {
        Some(e) => Err(request(e)),
        None => Ok(Array::new(r.layout.dtype, r.dims(), bytes)),
    }
}

/// What holds the results of a run.
pub(crate) enum Held {
    One(Box<Machine>),
    Pod(Box<Pod>),
}

/// The results of a run, which stay in HBM until somebody asks for them.
pub(crate) struct Results {
    program: Arc<Program>,
    held: Held,
    mode: Mode,
}

impl Results {
    pub fn new(program: &Arc<Program>, mode: Mode, held: Held) -> Results {
        Results { program: Arc::clone(program), held, mode }
    }

    /// Number of results of a device: none if the run asked for the time only.
    fn count(&self) -> usize {
        if self.mode == Mode::TimingOnly { 0 } else { self.program.results.len() }
    }

    fn output(&self, device: usize, number: usize) -> Result<Array, RuntimeError> {
        result(&self.program.results[number], &|at, out| match &self.held {
            Held::One(machine) => machine.read_hbm(at, out),
            Held::Pod(pod) => pod.read_hbm(device, at, out),
        })
    }
}

/// A device after a run: its counters, and its results, which stay in HBM until somebody asks for them.
pub struct Finished {
    pub(crate) results: Results,
    pub result: RunResult,
}

impl Finished {
    /// Number of results; none after timing-only runs.
    pub fn count(&self) -> usize {
        self.results.count()
    }

    /// A result.
    ///
    /// # Errors
    /// If its place is outside HBM.
    pub fn output(&self, number: usize) -> Result<Array, RuntimeError> {
        self.results.output(0, number)
    }

    /// All results.
    ///
    /// # Errors
    /// As [`Finished::output`].
    pub fn outputs(&self) -> Result<Vec<Array>, RuntimeError> {
        (0..self.count()).map(|i| self.output(i)).collect()
    }
}

/// All devices after a run, as [`Finished`].
pub struct PodFinished {
    pub(crate) results: Results,
    pub run: PodRun,
}

impl PodFinished {
    /// Number of results of each device; none after timing-only runs.
    pub fn count(&self) -> usize {
        self.results.count()
    }

    /// A device's result.
    ///
    /// # Errors
    /// If its place is outside HBM.
    pub fn output(&self, device: usize, number: usize) -> Result<Array, RuntimeError> {
        self.results.output(device, number)
    }
}
