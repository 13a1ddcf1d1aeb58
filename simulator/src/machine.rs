//! A machine: a device with its HBM, ready to run a loaded program.

use crate::fault::Fault;
use crate::issue::memo::Pool;
use crate::issue::run::{Core, State};
use crate::issue::values::Values;
use crate::load::Loaded;
use crate::mem::{Hbm, Smem};
use crate::options::{Mode, Observer, RunOptions};
use crate::stats::{RunResult, Totals};
use crate::team::Seats;
use std::ops::Range;
use std::sync::Arc;

/// One device: its cores and its share of HBM, with the program's constants in place.
#[derive(Debug)]
pub struct Machine {
    loaded: Arc<Loaded>,
    hbm: Hbm,
}

/// An access by the host outside the device's HBM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("host access to HBM bytes {address}..{end}, but the device has {size}")]
pub struct HostRangeError {
    pub address: u64,
    pub end: u64,
    pub size: u64,
}

impl HostRangeError {
    /// Checks a range against a device's HBM.
    pub(crate) fn check(hbm: &Hbm, address: u64, len: usize) -> Result<(), HostRangeError> {
        let size = hbm.size();
        let end = address.saturating_add(len as u64);
        if end > size { Err(HostRangeError { address, end, size }) } else { Ok(()) }
    }
}

impl Machine {
    /// A machine with zeroed memories and the program's constants in HBM.
    pub fn new(loaded: Arc<Loaded>) -> Machine {
        let mut hbm = Hbm::new(loaded.chip.device_memory_bytes());
        for c in &loaded.program.constants {
            hbm.write(c.address, &c.bytes);
        }
        Machine { loaded, hbm }
    }

    /// The program that it runs.
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Writes host bytes to HBM. In timing-only runs, what the host wrote is known to scalar code.
    ///
    /// # Errors
    /// If the range is outside HBM.
    pub fn write_hbm(&mut self, address: u64, bytes: &[u8]) -> Result<(), HostRangeError> {
        self.check(address, bytes.len())?;
        self.hbm.write(address, bytes);
        Ok(())
    }

    /// Writes ranges of HBM, in order where they overlap: `fill` is called with the number of a range, a byte in it, and memory for
    /// what comes from there on, of which it may leave parts as they are. Up to `threads` threads of the host call it.
    ///
    /// # Errors
    /// If a range is outside HBM; then nothing is written.
    pub fn fill_hbm(
        &mut self,
        ranges: &[Range<u64>],
        threads: usize,
        fill: &(dyn Fn(usize, u64, &mut [u8]) + Sync),
    ) -> Result<(), HostRangeError> {
        ranges.iter().try_for_each(|r| self.check(r.start, r.end.saturating_sub(r.start) as usize))?;
        self.hbm.fill(ranges, threads, fill);
        Ok(())
    }

    /// [`Machine::fill_hbm`], by other threads while the machine runs, which waits for nothing but what it needs. With one thread it is
    /// done before this returns.
    ///
    /// # Errors
    /// If a range is outside HBM; then nothing is written.
    pub fn fill_hbm_later(
        &mut self,
        ranges: Vec<Range<u64>>,
        threads: usize,
        fill: impl Fn(usize, u64, &mut [u8]) + Send + Sync + 'static,
    ) -> Result<(), HostRangeError> {
        ranges.iter().try_for_each(|r| self.check(r.start, r.end.saturating_sub(r.start) as usize))?;
        self.hbm.fill_later(ranges, threads, Box::new(fill));
        Ok(())
    }

    /// Reads HBM bytes; what was never written is zero.
    ///
    /// # Errors
    /// If the range is outside HBM.
    pub fn read_hbm(&self, address: u64, out: &mut [u8]) -> Result<(), HostRangeError> {
        self.check(address, out.len())?;
        self.hbm.read(address, out);
        Ok(())
    }

    /// The device's HBM for a run: what the host wrote is known.
    pub(crate) fn memory(&mut self) -> &mut Hbm {
        self.hbm.know_all();
        &mut self.hbm
    }

    fn check(&self, address: u64, len: usize) -> Result<(), HostRangeError> {
        HostRangeError::check(&self.hbm, address, len)
    }

    /// Runs the program from its first bundle to `b.halt`, with fresh registers and on-chip memories.
    ///
    /// # Errors
    /// The fault that stopped the program.
    pub fn run(&mut self, options: &RunOptions, observer: &mut dyn Observer) -> Result<RunResult, Fault> {
        self.run_cores(options, observer, Vec::new())
    }

    /// [`Machine::run`], with observers for the device's other cores.
    ///
    /// # Errors
    /// As there.
    pub fn run_cores<'o>(
        &mut self,
        options: &RunOptions,
        observer: &'o mut dyn Observer,
        others: Vec<&'o mut dyn Observer>,
    ) -> Result<RunResult, Fault> {
        self.hbm.know_all();
        let loaded = Arc::clone(&self.loaded);
        if loaded.cores > 1 {
            let (mut seats, pool) = (Seats::new(&loaded, options), Pool::default());
            let mut observers: Vec<&mut dyn Observer> = vec![observer];
            for o in others {
                observers.push(o);
            }
            let mut team = seats.team(&loaded, &mut self.hbm, observers, (&pool, None, 0));
            team.resume()?;
            return Ok(team.finish(&mut Totals::default()));
        }
        let mut smem = Smem::new(loaded.chip.smem.bytes);
        let mut values = (options.mode != Mode::TimingOnly).then(|| Values::new(&loaded, options.threads.max(1), true));
        let pool = Pool::default();
        let state = State { hbm: &mut self.hbm, values: values.as_mut(), smem: &mut smem, pool: &pool };
        Core::new(&loaded, options, observer, state).run()
    }
}
