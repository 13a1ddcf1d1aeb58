//! Calls of the host: what they do to HBM, and how long the core waits for them.
//!
//! The core stands still from the call until the host's answer is in place: two latencies of the host's link, and the
//! bytes of operands and results at its bandwidth. What the host itself spends is not modeled.

use super::run::Core;
use crate::fault::FaultKind;
use crate::machine::HostRangeError;
use crate::mem::{Hbm, Smem};
use crate::options::{HostMemory, Mode, Moment};
use crate::stats::Cause;

struct Access<'a> {
    hbm: &'a mut Hbm,
    smem: &'a Smem,
    vmem: &'a [u32],
    lanes: usize,
    moment: Moment,
}

impl HostMemory for Access<'_> {
    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), HostRangeError> {
        HostRangeError::check(self.hbm, address, out.len())?;
        self.hbm.read(address, out);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), HostRangeError> {
        HostRangeError::check(self.hbm, address, bytes.len())?;
        self.hbm.write(address, bytes);
        Ok(())
    }

    fn scalar(&self, word: u32) -> Option<i32> {
        self.smem.load(i64::from(word)).map(|w| w.0)
    }

    fn vector(&self, row: u32, out: &mut [u8]) -> bool {
        let memory: &[u8] = bytemuck::cast_slice(self.vmem);
        let first = (row as usize).saturating_mul(4 * self.lanes);
        let bytes = first.checked_add(out.len()).and_then(|end| memory.get(first..end));
        bytes.is_some_and(|b| {
            out.copy_from_slice(b);
            true
        })
    }

    fn moment(&self) -> Moment {
        self.moment
    }
}

impl Core<'_> {
    /// Performs entry `call` of the program's host calls.
    pub(super) fn host_call(&mut self, call: u32) -> Result<(), FaultKind> {
        let program = &self.l.program;
        let Some(call) = program.host_calls.get(call as usize) else {
            return Err(FaultKind::Host { message: format!("host call {call} does not exist") });
        };
        if self.options.mode == Mode::TimingOnly {
            // What the host answers is not known.
            for r in &call.results {
                self.hbm.forget(r.address, r.address + r.layout.bytes());
            }
        } else {
            let cycle = if self.options.mode == Mode::NumericOnly { 0 } else { self.now };
            let seconds = cycle as f64 / self.l.chip.clock_hz;
            let mut memory = Access {
                hbm: &mut *self.hbm,
                smem: &*self.smem,
                vmem: self.values.as_ref().map_or(&[][..], |v| &v.vmem[..]),
                lanes: self.l.chip.core.lanes as usize,
                moment: Moment { device: self.options.device, cycle, seconds },
            };
            self.observer.host_call(call, &mut memory).map_err(|message| FaultKind::Host { message })?;
        }
        if self.options.mode != Mode::NumericOnly {
            let chip = &self.l.chip;
            let bytes: u64 = call.operands.iter().chain(&call.results).map(|a| a.layout.bytes()).sum();
            let time = 2.0 * chip.host.latency_s + bytes as f64 / chip.host.bandwidth;
            self.floor = self.floor.max((self.now + chip.cycles(time)) << 4 | Cause::Host as u64);
        }
        Ok(())
    }
}
