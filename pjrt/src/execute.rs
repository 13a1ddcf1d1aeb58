//! Running programs: inputs that may still be on their way, outputs that are promised at once.

use crate::buffer::{Buffer, Slot};
use crate::client::Device;
use crate::collect;
use crate::compile::python;
use crate::error::{Code, Error};
use crate::event::Event;
use crate::executable::{Executable, LoadedExecutable};
use crate::live;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use systole_runtime::{Array, Attached, Mode, NoObserver, Observer, PodOptions, Queues, RunOptions, RuntimeError};

/// What a run gives back at once: buffers by device and result, and an event for each device.
pub(crate) struct Started {
    pub outputs: Vec<Vec<Buffer>>,
    pub done: Vec<Event>,
}

/// A run with all that it needs.
struct Run {
    program: Arc<Executable>,
    mode: Mode,
    /// By device.
    inputs: Vec<Vec<Arc<Slot>>>,
    outputs: Vec<Vec<Arc<Slot>>>,
    done: Vec<Event>,
    /// Bytes of the inputs that results may take, by device.
    given: Vec<i64>,
}

/// Puts a run into the client's queue. `arguments`: by device; `kept`: parameters that are not given away although the
/// program would take them; `device`: where a program for any device runs.
///
/// # Errors
/// Arguments that are deleted, or do not fit in number.
pub(crate) fn execute(
    loaded: &LoadedExecutable,
    arguments: &[Vec<&Buffer>],
    kept: &[usize],
    device: Option<&'static Device>,
) -> Result<Started, Error> {
    if loaded.is_deleted() {
        return Err(Error::new(Code::FailedPrecondition, "the executable has been deleted"));
    }
    let program = &loaded.program;
    let client = program.client;
    let devices: Vec<&'static Device> = match (device, &program.facts.devices) {
        (Some(d), None) if loaded.devices.len() == 1 => vec![d],
        _ => loaded.devices.iter().map(|id| &client.devices()[*id]).collect(),
    };
    if arguments.len() != devices.len() {
        let message = format!("arguments for {} devices, the program runs on {}", arguments.len(), devices.len());
        return Err(Error::invalid(message));
    }
    let mut inputs = Vec::with_capacity(arguments.len());
    for list in arguments {
        let arrays = list.iter().enumerate().filter(|(i, _)| !program.facts.tokens.params.contains(i));
        inputs.push(arrays.map(|(_, b)| b.slot()).collect::<Result<Vec<_>, _>>()?);
    }
    let mut given_bytes = Vec::with_capacity(arguments.len());
    for list in arguments {
        let given = program.facts.donated.iter().filter(|i| !kept.contains(i));
        let given: Vec<&&Buffer> = given.filter_map(|i| list.get(*i)).collect();
        given_bytes.push(given.iter().map(|b| b.bytes() as i64).sum());
        given.iter().for_each(|b| b.delete());
    }
    let make = |d: &&'static Device| -> Vec<Buffer> {
        let kind = |i: usize| program.facts.memories.results.get(i).copied().unwrap_or_default();
        let outputs = program.outputs.iter().enumerate();
        outputs.map(|(i, (dtype, dims))| Buffer::pending(client, (*d, kind(i)), *dtype, dims)).collect()
    };
    let outputs: Vec<Vec<Buffer>> = devices.iter().map(make).collect();
    let slots = outputs.iter().map(|l| l.iter().map(Buffer::slot).collect()).collect::<Result<Vec<Vec<_>>, _>>()?;
    let done: Vec<Event> = devices.iter().map(|_| Event::new()).collect();
    let mode = client.mode();
    let run =
        Run { program: Arc::clone(program), mode, inputs, outputs: slots, done: done.clone(), given: given_bytes };
    client.queue.push(move || run.work());
    Ok(Started { outputs, done })
}

impl Run {
    fn work(self) {
        let outcome = self.results();
        let failed = outcome.as_ref().err().cloned();
        let made_up = self.mode == Mode::TimingOnly;
        let mut all = outcome.unwrap_or_default().into_iter();
        for (slots, done) in self.outputs.iter().zip(&self.done) {
            let mut arrays = all.next().unwrap_or_default().into_iter();
            for slot in slots {
                slot.made_up.store(made_up, Ordering::Relaxed);
                let array = arrays.next().map(Arc::new);
                let missing = || failed.clone().unwrap_or_else(|| Error::internal("a result is missing"));
                slot.fill(array.ok_or_else(missing));
            }
            done.set(failed.clone().map_or(Ok(()), Err));
        }
    }

    /// Results by device.
    fn results(&self) -> Result<Vec<Vec<Array>>, Error> {
        let get = |list: &Vec<Arc<Slot>>| list.iter().map(|s| s.get()).collect::<Result<Vec<_>, _>>();
        let inputs: Vec<Vec<Arc<Array>>> = self.inputs.iter().map(get).collect::<Result<_, _>>()?;
        for (outputs, given) in self.outputs.iter().zip(&self.given) {
            let taken: Vec<_> = outputs.iter().filter_map(|s| s.takes()).collect();
            if let Some((usage, _)) = taken.first() {
                usage.room((taken.iter().map(|t| t.1).sum::<i64>() - given).max(0))?;
            }
        }
        let client = &self.program.client.runtime;
        let exe = &self.program.exe;
        let options = RunOptions::new(self.mode);
        let shown = live::wanted(&self.program, self.mode);
        let level = collect::level(self.mode, shown);
        let lanes = if level.is_some() { inputs.len() * exe.cores() as usize } else { 0 };
        let mut nobody: Vec<NoObserver> = (0..lanes).map(|_| NoObserver).collect();
        let mut recorders: Vec<_> = nobody
            .iter_mut()
            .filter_map(|n| Some((n, level?)))
            .map(|(n, level)| collect::recorder(level, (&exe.program, client.chip()), n))
            .collect();
        let watchers: Vec<&mut dyn Observer> = recorders.iter_mut().map(|r| r as &mut dyn Observer).collect();
        let mut queues = vec![Queues::default(); inputs.len()];
        let pod = PodOptions { all_devices: true, ..PodOptions::default() };
        let mut done = client
            .run_pod(exe, &inputs, &options, &pod, Attached { queues: &mut queues, watchers, ..Attached::default() })
            .map_err(|e| self.explained(e))?;
        let recorded = recorders.into_iter().map(|r| r.finish()).collect();
        collect::keep(&self.program, self.mode, recorded, &done.run, shown);
        Ok(match self.mode {
            Mode::TimingOnly => inputs.iter().map(|_| self.zeros()).collect(),
            Mode::Full | Mode::NumericOnly => {
                let token = || Array::new(systole_isa::DType::Pred, &[0], Vec::new());
                let whole = |own: &mut Vec<Array>| self.program.facts.tokens.filled(std::mem::take(own), token);
                done.outputs.iter_mut().map(whole).collect()
            }
        })
    }

    fn zeros(&self) -> Vec<Array> {
        let zero = |(dtype, dims): &(systole_isa::DType, Vec<u64>)| {
            let n = dims.iter().product::<u64>() as usize * dtype.host_bytes();
            Array::new(*dtype, dims, vec![0; n])
        };
        self.program.outputs.iter().map(zero).collect()
    }

    /// The error with the operation's place in Python.
    fn explained(&self, e: RuntimeError) -> Error {
        let op = match &e {
            RuntimeError::Fault(f) => f.origin.op.trim_start_matches('%').to_string(),
            RuntimeError::Source(_)
            | RuntimeError::Compile(_)
            | RuntimeError::Schedule(..)
            | RuntimeError::Request(_)
            | RuntimeError::Check(_)
            | RuntimeError::Failed(_) => String::new(),
        };
        let mut e = Error::from(e);
        let debug = &self.program.exe.program.debug;
        let line = debug.ops.iter().find(|o| o.name.trim_start_matches('%') == op).map(|o| o.line as usize);
        if let Some(place) = line.and_then(|n| python(&self.program.facts.text, n)) {
            e.message = format!("{}\nin {place}", e.message);
        }
        e
    }
}
