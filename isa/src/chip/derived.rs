//! Numbers that follow from a chip's parameters: peaks, shares of a device, cycles of a time, the fingerprint; and
//! the conditions between parameters.

use super::params::{self, Value};
use super::{ChipConfig, MxuType};
use crate::dtype::DType;
use crate::table::MxuFormat;

impl ChipConfig {
    /// Devices of a chip: 2 on v2, v3 and v7, else 1.
    pub fn devices_per_chip(&self) -> u32 {
        self.cores / self.cores_per_device
    }

    /// HBM bytes of one device: an equal part of the chip's.
    pub fn device_hbm_bytes(&self) -> u64 {
        self.hbm.bytes / self.devices_per_chip() as u64
    }

    /// Peak HBM bytes per second of one device: an equal part of the chip's.
    pub fn device_hbm_bandwidth(&self) -> f64 {
        self.hbm.bandwidth / self.devices_per_chip() as f64
    }

    /// HBM bytes per core cycle that one device reaches (its share of the peak, times the efficiency).
    pub fn hbm_bytes_per_cycle(&self) -> f64 {
        self.device_hbm_bandwidth() * self.hbm.efficiency / self.clock_hz
    }

    /// Cycles from an HBM request until its first data.
    pub fn hbm_latency_cycles(&self) -> u64 {
        self.cycles(self.hbm.latency_s)
    }

    /// CMEM bytes of one device: an equal part of the chip's.
    pub fn device_cmem_bytes(&self) -> u64 {
        self.cmem.bytes / self.devices_per_chip() as u64
    }

    /// Bytes that copies of one device address: those of HBM, behind them those of CMEM.
    pub fn device_memory_bytes(&self) -> u64 {
        self.device_hbm_bytes() + self.device_cmem_bytes()
    }

    /// CMEM bytes per core cycle that one device's copies read, and that they write.
    pub fn cmem_bytes_per_cycle(&self) -> (f64, f64) {
        let each = |bandwidth: f64| bandwidth / self.devices_per_chip() as f64 / self.clock_hz;
        (each(self.cmem.read_bandwidth), each(self.cmem.write_bandwidth))
    }

    /// Cycles from a request to CMEM until its first data.
    pub fn cmem_latency_cycles(&self) -> u64 {
        self.cycles(self.cmem.latency_s)
    }

    /// Bytes per core cycle of one interconnect link in one direction, efficiency included.
    pub fn link_bytes_per_cycle(&self) -> f64 {
        self.ici.link_bandwidth * self.ici.efficiency / self.clock_hz
    }

    /// Whole cycles that a time takes.
    pub fn cycles(&self, seconds: f64) -> u64 {
        // A hair less than the product, so that 500 ns at 1 GHz are 500 cycles and not 501.
        (seconds * self.clock_hz * (1.0 - 1e-12)).ceil() as u64
    }

    /// Seconds that a number of cycles takes.
    pub fn seconds(&self, cycles: u64) -> f64 {
        cycles as f64 / self.clock_hz
    }

    /// 32-bit elements of a vector register.
    pub fn vreg_elements(&self) -> usize {
        self.core.sublanes as usize * self.core.lanes as usize
    }

    /// Bytes of a row of 32-bit lanes.
    pub fn row_bytes(&self) -> u64 {
        self.core.lanes as u64 * 4
    }

    /// Rows of 32-bit lanes in vector memory.
    pub fn vmem_rows(&self) -> u64 {
        self.vmem.bytes / self.row_bytes()
    }

    /// Words of scalar memory.
    pub fn smem_words(&self) -> u64 {
        self.smem.bytes / 4
    }

    /// Lane chunks of an array's rows (the contracted dimension) and of its columns.
    pub fn mxu_chunks(&self) -> (u32, u32) {
        (self.mxu.rows / self.core.lanes, self.mxu.cols / self.core.lanes)
    }

    /// The matrix unit's entry for a format, if its arrays multiply it themselves.
    pub fn mxu_type(&self, format: MxuFormat) -> Option<&MxuType> {
        let operand = match format {
            MxuFormat::Bf16 | MxuFormat::High | MxuFormat::Mid | MxuFormat::Low | MxuFormat::HighFinite => "bf16",
            MxuFormat::S8 => "s8",
            MxuFormat::U8 => "u8",
            MxuFormat::F8 => "f8",
        };
        self.mxu.types.iter().find(|t| t.operand == operand)
    }

    /// Rows of a format that enter a matrix unit in a cycle: at the bf16 rate where its arrays do not multiply it themselves.
    pub fn mxu_rows_per_cycle(&self, format: MxuFormat) -> f64 {
        self.mxu_type(format).or_else(|| self.mxu_type(MxuFormat::Bf16)).map_or(0.0, |t| t.rows_per_cycle)
    }

    /// Cycles that a register's rows of a format take to enter a matrix unit.
    pub fn mxu_push_cycles(&self, format: MxuFormat) -> f64 {
        f64::from(self.core.sublanes) / self.mxu_rows_per_cycle(format).max(1e-3)
    }

    /// Cycles that a register of weights takes to shift into a matrix unit.
    pub fn mxu_stage_cycles(&self) -> f64 {
        let rows = f64::from(self.core.sublanes * self.core.lanes) / f64::from(self.mxu.cols.max(1));
        rows / f64::from(self.mxu.weight_rows_per_cycle.max(1))
    }

    /// Multiply-adds times two per second of one device (both cores of a megacore) in one pass of an operand type;
    /// types that the arrays lack count at the bf16 rate.
    pub fn peak_flops(&self, operand: DType) -> f64 {
        self.peak_flops_per_cycle(operand) * self.clock_hz
    }

    /// [`ChipConfig::peak_flops`] per cycle.
    pub fn peak_flops_per_cycle(&self, operand: DType) -> f64 {
        let formats = [(operand == DType::S8, MxuFormat::S8), (operand == DType::U8, MxuFormat::U8)];
        let format = formats.into_iter().chain([(operand.is_byte_float(), MxuFormat::F8)]).find(|f| f.0);
        let rate = self.mxu_rows_per_cycle(format.map_or(MxuFormat::Bf16, |f| f.1));
        let m = &self.mxu;
        2.0 * rate * m.rows as f64 * m.cols as f64 * m.count as f64 * self.cores_per_device as f64
    }

    /// A hash of everything that compiled code depends on: slots, registers, shapes, memory sizes, native types.
    /// A program runs on any chip of the same fingerprint, whatever its clock, bandwidths and latencies.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Fnv::new();
        // A memory that is not there binds nothing.
        let there = |p: &&params::Param| p.key != "cmem.bytes" || self.cmem.bytes > 0;
        for p in params::all().filter(|p| p.binds_code).filter(there) {
            hash.text(p.key);
            match (p.get)(self) {
                Value::Number(n) => hash.bytes(&n.to_bits().to_le_bytes()),
                Value::Text(t) => hash.text(&t),
            }
        }
        // Code for several cores shares its work out among exactly so many.
        if self.cores_per_device > 1 {
            hash.text("cores_per_device");
            hash.bytes(&self.cores_per_device.to_le_bytes());
        }
        for t in &self.mxu.types {
            hash.text(&t.operand);
            hash.text(&t.accumulator);
        }
        hash.0
    }

    /// What does not fit together, in words; empty for a sound chip.
    pub(super) fn conflicts(&self) -> Vec<String> {
        let (c, m) = (&self.core, &self.mxu);
        let register = c.sublanes as u64 * self.row_bytes();
        let mut wrong = Vec::new();
        let mut check = |ok: bool, message: String| {
            if !ok {
                wrong.push(message);
            }
        };
        check(
            self.cores.is_multiple_of(self.cores_per_device),
            format!("`cores_per_device` ({}) must divide `cores` ({})", self.cores_per_device, self.cores),
        );
        for (key, n) in [("core.lanes", c.lanes), ("core.sublanes", c.sublanes)] {
            check(n.is_power_of_two(), format!("`{key}` ({n}) must be a power of two"));
        }
        check(
            c.sublanes <= c.lanes,
            format!("`core.sublanes` ({}) must not exceed `core.lanes` ({})", c.sublanes, c.lanes),
        );
        check(
            c.vector_registers.is_multiple_of(2),
            format!("`core.vector_registers` ({}) must be even", c.vector_registers),
        );
        for (key, n) in [("mxu.rows", m.rows), ("mxu.cols", m.cols)] {
            check(
                n.is_multiple_of(c.lanes) && n / c.lanes <= 16,
                format!("`{key}` ({n}) must be a multiple of `core.lanes` ({}), at most 16 of them", c.lanes),
            );
        }
        for (key, n) in [
            ("mxu.accumulator_rows", m.accumulator_rows),
            ("mxu.fifo_rows", m.fifo_rows),
            ("mxu.queue_rows", m.queue_rows),
        ] {
            check(
                n.is_multiple_of(c.sublanes),
                format!("`{key}` ({n}) must be a multiple of `core.sublanes` ({})", c.sublanes),
            );
        }
        check(
            self.vmem.bytes.is_multiple_of(4 * register),
            format!("`vmem.bytes` ({}) must be a multiple of four registers ({})", self.vmem.bytes, 4 * register),
        );
        check(self.vmem_rows() <= 1 << 30, format!("`vmem.bytes` ({}) has more than 2^30 rows", self.vmem.bytes));
        check(self.smem.bytes.is_multiple_of(4), format!("`smem.bytes` ({}) must be whole words", self.smem.bytes));
        check(
            self.hbm.bytes.is_multiple_of(512 * self.cores.max(1) as u64),
            format!("`hbm.bytes` ({}) must be whole 512-byte granules for each core", self.hbm.bytes),
        );
        check(
            self.cmem.bytes.is_multiple_of(4096 * self.cores.max(1) as u64),
            format!("`cmem.bytes` ({}) must be whole 4096-byte blocks for each core", self.cmem.bytes),
        );
        let cmem = [("read", self.cmem.read_bandwidth), ("write", self.cmem.write_bandwidth)];
        for (way, _) in cmem.into_iter().filter(|(_, rate)| self.cmem.bytes > 0 && *rate < 1e3) {
            check(false, format!("`cmem.{way}_bandwidth` must be stated where `cmem.bytes` is not 0"));
        }
        check(
            m.types.iter().any(|t| t.operand == "bf16"),
            "`mxu.types.bf16` is missing: every matrix unit multiplies bf16".to_string(),
        );
        for t in &m.types {
            let want = params::OPERAND_TYPES.iter().find(|o| o.0 == t.operand).map_or("f32", |o| o.1);
            check(
                t.accumulator == want,
                format!("`mxu.types.{}.accumulator` must be `{want}`, not `{}`", t.operand, t.accumulator),
            );
        }
        wrong
    }
}

/// 64-bit FNV-1a: stable across versions of the compiler and hosts.
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ *b as u64).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Hashes a text and an end mark.
    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
        self.bytes(&[0xff]);
    }

    pub(super) fn value(&self) -> u64 {
        self.0
    }
}
