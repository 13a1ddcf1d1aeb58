//! What the host does while a program runs: functions by name, queues, and the program's own checks.
//!
//! Compiled code stops at a call of the host with its arrays in HBM; this module reads them, does what is asked, and
//! writes the answer. Arrays are row-major host arrays on this side. The functions `check.expect_*` of self-checking
//! programs are built in ([`check`]): the chip computes what they compare.

pub mod check;
pub mod common;
pub mod console;
pub mod library;

use crate::{Array, RuntimeError};
use common::Common;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::sync::Arc;
use systole_compiler::mosaic::console::TARGETS;
use systole_isa::program::{HostArray, HostCall, HostCallKind};
use systole_isa::{DType, Program};
use systole_simulator::{Cause, DmaEvent, HostMemory, Observer, Sample};

/// A custom call as a host function sees it.
#[derive(Clone, Copy, Debug)]
pub struct CustomCall<'a> {
    /// The name that the program calls.
    pub target: &'a str,
    /// The call's `backend_config`.
    pub config: &'a str,
    /// Element type and sizes of each result (a tuple's arrays in order).
    pub results: &'a [(DType, Vec<u64>)],
    /// Which of the run's devices calls, and what it has in common with the others.
    pub device: usize,
    pub common: &'a Common,
}

/// A host function: operands in order to results in order, or why it cannot.
pub type HostFunction = Arc<dyn Fn(&CustomCall<'_>, &[Array]) -> Result<Vec<Array>, String> + Send + Sync>;

/// What is done with a line that a kernel prints.
pub type Console = Arc<dyn Fn(&str) + Send + Sync>;

/// The functions that programs may call, by name.
#[derive(Clone, Default)]
pub struct Registry {
    functions: BTreeMap<String, HostFunction>,
    /// Where kernels print; standard error if nothing is said.
    console: Option<Console>,
    libraries: Vec<Arc<library::Library>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.functions.keys()).finish()
    }
}

impl Registry {
    /// Gives a function a name. An earlier one of that name is replaced.
    pub fn register(
        &mut self,
        target: &str,
        function: impl Fn(&CustomCall<'_>, &[Array]) -> Result<Vec<Array>, String> + Send + Sync + 'static,
    ) {
        self.functions.insert(target.to_string(), Arc::new(function));
    }

    /// Says where the lines go that kernels print.
    pub fn print_to(&mut self, console: impl Fn(&str) + Send + Sync + 'static) {
        self.console = Some(Arc::new(console));
    }

    /// Adds a library: its functions answer to their names, after those registered here.
    pub fn add_library(&mut self, library: library::Library) {
        self.libraries.push(Arc::new(library));
    }

    /// Whether a program may call this name.
    pub fn knows(&self, target: &str) -> bool {
        let own = check::TARGETS.contains(&target) || TARGETS.contains(&target);
        let registered = own || self.functions.contains_key(target);
        registered || self.libraries.iter().any(|l| l.has(target))
    }

    /// Why a call of an unknown name is refused.
    pub fn unknown(&self, target: &str) -> String {
        let known: Vec<&str> = check::TARGETS.into_iter().chain(self.functions.keys().map(String::as_str)).collect();
        format!("no host function `{target}` for a custom call; known are {}", known.join(", "))
    }

    /// Checks that every function that a program calls is there.
    ///
    /// # Errors
    /// The first name that is not, with all that are.
    pub fn check(&self, program: &Program) -> Result<(), RuntimeError> {
        let custom = program.host_calls.iter().filter(|c| c.kind == HostCallKind::Custom);
        match custom.map(|c| &c.target).find(|t| !self.knows(t)) {
            Some(t) => Err(RuntimeError::Request(self.unknown(t))),
            None => Ok(()),
        }
    }

    fn call(
        &self,
        call: &HostCall,
        operands: &[Array],
        (device, common): (usize, &Common),
    ) -> Result<Vec<Array>, String> {
        if check::TARGETS.contains(&call.target.as_str()) {
            check::run(&call.target, &call.config, operands)?;
            return call.results.iter().map(|r| truth(&call.target, r.layout.dtype, r.dims())).collect();
        }
        let results: Vec<(DType, Vec<u64>)> =
            call.results.iter().map(|r| (r.layout.dtype, r.dims().to_vec())).collect();
        let request = CustomCall { target: &call.target, config: &call.config, results: &results, device, common };
        let answer = match self.functions.get(&call.target) {
            Some(function) => function(&request, operands),
            None => match self.libraries.iter().find(|l| l.has(&call.target)) {
                Some(library) => library.call(&request, operands),
                None => return Err(self.unknown(&call.target)),
            },
        };
        answer.map_err(|e| format!("custom call `{}`: {e}", call.target))
    }
}

/// What a check that holds gives, where its program wants an answer.
fn truth(target: &str, dtype: DType, dims: &[u64]) -> Result<Array, String> {
    if dtype != DType::Pred || !dims.is_empty() {
        return Err(format!("{target} gives a pred[], not {}{dims:?}", dtype.name()));
    }
    Ok(Array { dtype, dims: Vec::new(), bytes: vec![1] })
}

/// The queues between host and device.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    /// Arrays that infeeds take, in order; one infeed takes as many as its shape has.
    pub infeed: VecDeque<Array>,
    /// Arrays that outfeeds gave, in order.
    pub outfeed: Vec<Array>,
    /// By channel: arrays for `recv` of the host's data, and those that `send` gave to the host.
    pub to_device: BTreeMap<u64, VecDeque<Array>>,
    pub to_host: BTreeMap<u64, Vec<Array>>,
}

/// An observer that answers the program's calls and passes everything else on.
pub(crate) struct Answering<'a> {
    pub inner: &'a mut dyn Observer,
    pub registry: &'a Registry,
    pub queues: &'a mut Queues,
    /// Which of the run's devices this is for, and what it has in common with the others.
    pub device: usize,
    pub common: &'a Common,
    /// Asked too whether the run goes on.
    pub asked: Option<&'a mut dyn Observer>,
}

impl Answering<'_> {
    fn answer(&mut self, call: &HostCall, operands: Vec<Array>) -> Result<Vec<Array>, String> {
        match call.kind {
            HostCallKind::Custom => self.registry.call(call, &operands, (self.device, self.common)),
            HostCallKind::Infeed => {
                let have = self.queues.infeed.len();
                if have < call.results.len() {
                    let need = call.results.len();
                    return Err(format!("an infeed takes {need} arrays, the queue from the host has {have}"));
                }
                Ok(self.queues.infeed.drain(..call.results.len()).collect())
            }
            HostCallKind::Outfeed => {
                self.queues.outfeed.extend(operands);
                Ok(Vec::new())
            }
            HostCallKind::Send => {
                self.queues.to_host.entry(channel(call)?).or_default().extend(operands);
                Ok(Vec::new())
            }
            HostCallKind::Recv => {
                let number = channel(call)?;
                let queue = self.queues.to_device.entry(number).or_default();
                let (have, need) = (queue.len(), call.results.len());
                if have < need {
                    return Err(format!("a recv takes {need} arrays, channel {number} from the host has {have}"));
                }
                Ok(queue.drain(..need).collect())
            }
        }
    }
}

/// The channel of a transfer.
fn channel(call: &HostCall) -> Result<u64, String> {
    call.target.parse().map_err(|_| format!("`{}` is no channel's number", call.target))
}

fn shape(dtype: DType, dims: &[u64]) -> String {
    Array { dtype, dims: dims.to_vec(), bytes: Vec::new() }.shape()
}

/// What the answer is called in messages.
fn giver(call: &HostCall) -> String {
    match call.kind {
        HostCallKind::Custom => format!("custom call `{}`", call.target),
        HostCallKind::Infeed => "the queue from the host".to_string(),
        HostCallKind::Outfeed => "the queue to the host".to_string(),
        HostCallKind::Send | HostCallKind::Recv => format!("channel {} of the host", call.target),
    }
}

impl Observer for Answering<'_> {
    fn progress(&mut self, cycle: u64, bundles: u64) -> bool {
        let asked = self.asked.as_mut().is_none_or(|a| a.progress(cycle, bundles));
        self.inner.progress(cycle, bundles) && asked
    }

    fn wants_events(&self) -> bool {
        self.inner.wants_events()
    }

    fn wants_details(&self) -> bool {
        self.inner.wants_details()
    }

    fn sample_interval(&self) -> Option<u64> {
        self.inner.sample_interval()
    }

    fn begin(&mut self) {
        self.inner.begin();
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        self.inner.sample(sample);
    }

    fn dma(&mut self, event: &DmaEvent) {
        self.inner.dma(event);
    }

    fn op(&mut self, op: u32, start: u64, end: u64) {
        self.inner.op(op, start, end);
    }

    fn wants_bundles(&self) -> bool {
        self.inner.wants_bundles()
    }

    fn kernel(&mut self, entry: u32, start: u64, end: u64) {
        self.inner.kernel(entry, start, end);
    }

    fn bundle(&mut self, bundle: u32, cycle: u64) {
        self.inner.bundle(bundle, cycle);
    }

    fn wait(&mut self, bundle: u32, cause: Cause, start: u64, end: u64) {
        self.inner.wait(bundle, cause, start, end);
    }

    fn repeated(&mut self, from: u64, period: u64, times: u64) {
        self.inner.repeated(from, period, times);
    }

    fn host_call(&mut self, call: &HostCall, memory: &mut dyn HostMemory) -> Result<(), String> {
        if call.kind == HostCallKind::Custom && TARGETS.contains(&call.target.as_str()) {
            let line = console::said(call, memory)?;
            match &self.registry.console {
                Some(console) => console(&line),
                // Whether somebody takes it is no matter of the program's.
                None => drop(writeln!(std::io::stderr().lock(), "{line}")),
            }
            return Ok(());
        }
        let read = |a: &HostArray| {
            let mut bytes = vec![0; a.layout.bytes() as usize];
            memory.read(a.address, &mut bytes).map_err(|e| e.to_string())?;
            Ok(Array::new(a.layout.dtype, a.dims(), a.layout.to_host(&bytes)))
        };
        let operands = call.operands.iter().map(read).collect::<Result<Vec<Array>, String>>()?;
        let results = self.answer(call, operands)?;
        if results.len() != call.results.len() {
            let (gave, due) = (results.len(), call.results.len());
            return Err(format!("{} gave {gave} arrays where {due} are due", giver(call)));
        }
        for (i, (a, place)) in results.iter().zip(&call.results).enumerate() {
            let l = &place.layout;
            let fits = a.dtype == l.dtype
                && a.dims == place.dims()
                && a.bytes.len() as u64 == a.dims.iter().product::<u64>() * l.dtype.host_bytes() as u64;
            if !fits {
                let due = shape(l.dtype, place.dims());
                return Err(format!("{} gave {} as array {i} where {due} is due", giver(call), a.shape()));
            }
            memory.write(place.address, &l.to_device(&a.bytes)).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}
