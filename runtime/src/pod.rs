//! Running a program on all its devices.

use crate::client::{Client, Executable};
use crate::host::common::Common;
use crate::host::{Answering, Queues};
use crate::transfer::{self, Held, Inputs, PodFinished, Results};
use crate::{Array, RuntimeError};
use std::borrow::Borrow;
use systole_isa::{ChipConfig, Topology};
use systole_simulator::{LinkFault, Machine, Mode, NoObserver, Observer, Pod, PodRun, RunOptions};

/// What a run on several devices is asked for, besides the options of each device.
#[derive(Clone, Debug, Default)]
pub struct PodOptions {
    /// Links that break or slow down.
    pub faults: Vec<LinkFault>,
    /// Simulates every device even where one could stand for all.
    pub all_devices: bool,
}

/// What a run on several devices gave.
#[derive(Clone, Debug)]
pub struct PodExecution {
    /// Results by device; none in timing-only mode.
    pub outputs: Vec<Vec<Array>>,
    pub run: PodRun,
}

/// The topology of a text, or the chip's for so many devices.
///
/// # Errors
/// If it does not fit the chip, or has too few devices.
pub fn topology(text: Option<&str>, chip: &ChipConfig, devices: u32) -> Result<Topology, RuntimeError> {
    let found = match text {
        Some(t) => Topology::parse(t, chip),
        None => Topology::default_for(chip, devices),
    };
    let t = found.map_err(RuntimeError::Request)?;
    if devices > t.devices() {
        return Err(RuntimeError::Request(format!(
            "{devices} devices (replicas x partitions) do not fit on topology {t}, which has {}",
            t.devices()
        )));
    }
    Ok(t)
}

/// A fault of a link from its text: `link:3-4:down@1000` or `link:3-4:x0.1@500` (from cycle 0 without `@`).
///
/// # Errors
/// What is wrong with the text.
pub fn link_fault(text: &str) -> Result<LinkFault, RuntimeError> {
    let wrong = || {
        let form = "link:CHIP-CHIP:down or link:CHIP-CHIP:xFACTOR, each with an optional @CYCLE";
        RuntimeError::Request(format!("fault `{text}`: {form} is expected"))
    };
    let mut parts = text.split(':');
    let (Some("link"), Some(ends), Some(what), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(wrong());
    };
    let (a, b) = ends.split_once('-').ok_or_else(wrong)?;
    let chip = |s: &str| s.parse::<u32>().map_err(|_| wrong());
    let (what, from) = match what.split_once('@') {
        Some((w, c)) => (w, c.parse().map_err(|_| wrong())?),
        None => (what, 0),
    };
    let factor = match what.strip_prefix('x') {
        Some(f) => f.parse::<f64>().ok().filter(|f| (0.0..=1.0).contains(f)).ok_or_else(wrong)?,
        None if what == "down" => 0.0,
        None => return Err(wrong()),
    };
    Ok(LinkFault { chips: (chip(a)?, chip(b)?), factor, from })
}

/// What the host has beside a run.
#[derive(Default)]
pub struct Attached<'h, 'w> {
    /// Who is asked for progress.
    pub observer: Option<&'h mut dyn Observer>,
    /// Queues of each device.
    pub queues: &'h mut [Queues],
    /// Who sees what each core of each simulated device does, device after device; missing ones see nothing.
    pub watchers: Vec<&'w mut dyn Observer>,
}

impl Client {
    /// Runs a program on its devices, one or several, with `inputs` for each (or for one: all get the same). `attached` is
    /// what the host has beside it.
    ///
    /// # Errors
    /// Inputs that do not fit, or a fault of the program.
    pub fn run_pod<A: Borrow<Array>>(
        &self,
        exe: &Executable,
        inputs: &[Vec<A>],
        options: &RunOptions,
        pod_options: &PodOptions,
        attached: Attached<'_, '_>,
    ) -> Result<PodExecution, RuntimeError> {
        let devices = exe.program.pod.devices() as usize;
        if inputs.len() != devices && inputs.len() != 1 {
            let message = format!("inputs for {} devices are given, the program runs on {devices}", inputs.len());
            return Err(RuntimeError::Request(message));
        }
        let given = |device: usize| Inputs::of(&inputs[device.min(inputs.len() - 1)]);
        let done = self.finish_pod(exe, &given, options, pod_options, attached)?;
        let own = |device| (0..done.count()).map(|i| done.output(device, i)).collect::<Result<Vec<Array>, _>>();
        let outputs = match options.mode {
            Mode::TimingOnly => Vec::new(),
            Mode::Full | Mode::NumericOnly => (0..devices).map(own).collect::<Result<_, _>>()?,
        };
        Ok(PodExecution { outputs, run: done.run })
    }

    /// [`Client::run_pod`] on given or drawn inputs of each device, with results that stay on the devices until they are
    /// asked for.
    ///
    /// # Errors
    /// As there; and if the host has not enough memory.
    pub fn finish_pod<'i>(
        &self,
        exe: &Executable,
        inputs: &dyn Fn(usize) -> Inputs<'i>,
        options: &RunOptions,
        pod_options: &PodOptions,
        attached: Attached<'_, '_>,
    ) -> Result<PodFinished, RuntimeError> {
        self.registry().check(&exe.program)?;
        let devices = exe.program.pod.devices() as usize;
        transfer::fits(&exe.program, devices, options.mode)?;
        if devices == 1 {
            return self.finish_alone(exe, &inputs(0), options, pod_options, attached);
        }
        let Attached { observer, queues, watchers } = attached;
        let mut silent = NoObserver;
        let request = RuntimeError::Request;
        let mut pod =
            Pod::new(exe.loaded(), options, pod_options.faults.clone(), !pod_options.all_devices).map_err(request)?;
        for device in 0..pod.simulated() {
            transfer::place(&exe.program, &inputs(device), options, pod.machine(device))?;
        }
        let cores = exe.cores() as usize;
        let lanes = pod.simulated() * cores;
        let common = Common::new(pod.simulated());
        let mut nobody: Vec<NoObserver> = (0..lanes).map(|_| NoObserver).collect();
        let mut unused: Vec<Queues> = (0..lanes).map(|_| Queues::default()).collect();
        let mut hosts: Vec<Box<dyn Observer + '_>> = Vec::new();
        let (mut watchers, mut queues) = (watchers.into_iter(), queues.iter_mut());
        for (i, (none, unused)) in nobody.iter_mut().zip(&mut unused).enumerate() {
            let inner: &mut dyn Observer = match watchers.next() {
                Some(w) => w,
                None => none,
            };
            // Only the first core of a device calls the host.
            let queues = (i % cores == 0).then(|| queues.next()).flatten().unwrap_or(unused);
            hosts.push(Box::new(Answering {
                inner,
                registry: self.registry(),
                queues,
                device: i / cores,
                common: &common,
                asked: None,
            }));
        }
        let run = pod
            .run(options, observer.unwrap_or(&mut silent), &mut hosts)
            .map_err(|f| RuntimeError::Fault(Box::new(f)))?;
        let results = Results::new(&exe.program, options.mode, Held::Pod(Box::new(pod)));
        Ok(PodFinished { results, run })
    }

    /// The run of a program of one device.
    fn finish_alone(
        &self,
        exe: &Executable,
        inputs: &Inputs<'_>,
        options: &RunOptions,
        pod_options: &PodOptions,
        attached: Attached<'_, '_>,
    ) -> Result<PodFinished, RuntimeError> {
        if let Some(f) = pod_options.faults.first() {
            let (a, b) = f.chips;
            let message = format!("no link joins chips {a} and {b}: the program runs on one device");
            return Err(RuntimeError::Request(message));
        }
        let mut machine = Machine::new(exe.loaded());
        transfer::place(&exe.program, inputs, options, &mut machine)?;
        let Attached { observer, queues, watchers } = attached;
        let (mut silent, mut nobody, mut unused) = (NoObserver, NoObserver, Queues::default());
        let common = Common::new(1);
        let mut watchers = watchers.into_iter().map(|o| o as &mut dyn Observer);
        let inner: &mut dyn Observer = match watchers.next() {
            Some(w) => w,
            None => &mut nobody,
        };
        let queues = queues.first_mut().unwrap_or(&mut unused);
        let mut first = Answering {
            inner,
            registry: self.registry(),
            queues,
            device: 0,
            common: &common,
            asked: Some(observer.unwrap_or(&mut silent)),
        };
        let result =
            machine.run_cores(options, &mut first, watchers.collect()).map_err(|f| RuntimeError::Fault(Box::new(f)))?;
        let results = Results::new(&exe.program, options.mode, Held::One(Box::new(machine)));
        Ok(PodFinished { results, run: PodRun::alone(result) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_or_refused() {
        let f = |t: &str| link_fault(t).ok().map(|f| (f.chips, f.factor, f.from));
        assert_eq!(f("link:3-4:down@1000"), Some(((3, 4), 0.0, 1000)));
        assert_eq!(f("link:0-1:x0.1"), Some(((0, 1), 0.1, 0)));
        for bad in ["link:3:down", "chip:3-4:down", "link:3-4:up", "link:3-4:x2", "link:3-4:down@soon", "link:a-4:down"]
        {
            assert_eq!(f(bad), None, "{bad}");
        }
    }
}
