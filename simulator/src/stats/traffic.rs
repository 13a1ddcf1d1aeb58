//! Bytes that copies move.

use std::ops::{AddAssign, Mul, Sub};

/// Bytes that copies read and write by memory, whole bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Traffic {
    pub hbm_read: u64,
    pub hbm_write: u64,
    #[serde(default)]
    pub cmem_read: u64,
    #[serde(default)]
    pub cmem_write: u64,
}

impl Traffic {
    /// Bytes of HBM, both ways.
    pub fn hbm(&self) -> u64 {
        self.hbm_read + self.hbm_write
    }

    /// Bytes of CMEM, both ways.
    pub fn cmem(&self) -> u64 {
        self.cmem_read + self.cmem_write
    }

    fn with(self, o: Traffic, f: impl Fn(u64, u64) -> u64) -> Traffic {
        Traffic {
            hbm_read: f(self.hbm_read, o.hbm_read),
            hbm_write: f(self.hbm_write, o.hbm_write),
            cmem_read: f(self.cmem_read, o.cmem_read),
            cmem_write: f(self.cmem_write, o.cmem_write),
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, o: Traffic) {
        *self = self.with(o, |a, b| a + b);
    }
}

impl Sub for Traffic {
    type Output = Traffic;

    fn sub(self, o: Traffic) -> Traffic {
        self.with(o, |a, b| a - b)
    }
}

impl Mul<u64> for Traffic {
    type Output = Traffic;

    fn mul(self, times: u64) -> Traffic {
        self.with(self, |a, _| a * times)
    }
}
