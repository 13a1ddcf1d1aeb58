//! Calls of the host: what they do to HBM, and how long the core waits for them.
//!
//! The core stands still from the call until the host's answer is in place: two latencies of the host's link, and the
//! bytes of operands and results at its bandwidth. What the host itself spends is not modeled.

use super::run::Core;
use crate::fault::FaultKind;
use crate::machine::HostRangeError;
use crate::mem::Hbm;
use crate::options::{HostMemory, Mode};
use crate::stats::Cause;

struct Access<'a>(&'a mut Hbm);

impl HostMemory for Access<'_> {
    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), HostRangeError> {
        HostRangeError::check(self.0, address, out.len())?;
        self.0.read(address, out);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), HostRangeError> {
        HostRangeError::check(self.0, address, bytes.len())?;
        self.0.write(address, bytes);
        Ok(())
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
            let mut memory = Access(&mut *self.hbm);
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
