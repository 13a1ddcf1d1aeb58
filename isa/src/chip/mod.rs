//! Chip descriptions: every number of the modeled machine.
//!
//! A chip is read from a TOML file ([`ChipConfig::from_toml`]) or taken from the presets ([`ChipConfig::from_preset`]),
//! then changed by overrides ([`ChipConfig::apply_sets`]). A `ChipConfig` made that way has every parameter in range and
//! passes the checks between parameters, so its users need not check again.

mod derived;
mod key;
mod load;
pub mod params;
mod preset;
mod reference;
#[cfg(test)]
mod tests;
pub mod units;

pub use load::ChipError;
pub use preset::PRESETS;
pub use reference::reference_page;
pub use units::Quantity;

use crate::table::{Class, Slot};
use serde::{Deserialize, Serialize};

/// A chip, as its TOML file describes it. Field docs give unit and meaning; the file gives each number's source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChipConfig {
    pub name: String,
    /// Core clock in Hz.
    pub clock_hz: f64,
    /// Cores of a chip, and cores that make one device (2 on megacore chips).
    pub cores: u32,
    pub cores_per_device: u32,
    pub core: CoreConfig,
    pub mxu: MxuConfig,
    pub vmem: VmemConfig,
    pub smem: SmemConfig,
    pub hbm: HbmConfig,
    pub dma: DmaConfig,
    pub imem: ImemConfig,
    pub host: HostConfig,
    pub ici: IciConfig,
    /// Latency and issue interval of every latency class, in cycles.
    pub timing: TimingTable,
}

/// Issue width and register files of a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreConfig {
    /// Instructions of each slot kind in a bundle.
    pub scalar_slots: u32,
    pub valu_slots: u32,
    pub vload_slots: u32,
    pub vstore_slots: u32,
    pub eup_slots: u32,
    pub xlu_slots: u32,
    pub mxu_push_slots: u32,
    pub mxu_pop_slots: u32,
    pub dma_slots: u32,
    pub branch_slots: u32,
    /// Registers (`s0` and `m0` included).
    pub scalar_registers: u32,
    pub vector_registers: u32,
    pub mask_registers: u32,
    /// Shape of a vector register: `sublanes` x `lanes` 32-bit elements.
    pub sublanes: u32,
    pub lanes: u32,
    /// Depth of the call stack.
    pub call_depth: u32,
    /// DMA semaphores.
    pub semaphores: u32,
    /// Cycles from program start until the first bundle issues, and from the last until the host sees the end.
    pub launch_cycles: u32,
}

/// Matrix units of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MxuConfig {
    pub count: u32,
    /// Array shape: `rows` (k) x `cols` (n), each a multiple of the lanes.
    pub rows: u32,
    pub cols: u32,
    /// Accumulator rows of `cols` 32-bit words; 0: results leave through the FIFO and the vector unit adds.
    pub accumulator_rows: u32,
    /// Rows of results that the output FIFO holds before pushes stall.
    pub fifo_rows: u32,
    /// Rows that the input queue holds before pushes stall at issue.
    pub queue_rows: u32,
    /// Cycles from a row's entry until its result can be popped, beyond `rows + cols`.
    pub extra_latency: u32,
    /// Weight rows shifted in per cycle.
    pub weight_rows_per_cycle: u32,
    /// `weight`, `output` or `input`: which operand stays.
    pub dataflow: Dataflow,
    /// Operand types that the array multiplies itself.
    pub types: Vec<MxuType>,
}

/// Which operand stays in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dataflow {
    Weight,
    Output,
    Input,
}

/// A native operand type: name (`bf16`, `s8`, `f8`), accumulator type, and operand rows taken per cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MxuType {
    pub operand: String,
    pub accumulator: String,
    pub rows_per_cycle: f64,
}

/// Vector memory of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VmemConfig {
    pub bytes: u64,
    /// Register-sized reads and writes per cycle (the core's own; DMA has a port of its own).
    pub read_ports: u32,
    pub write_ports: u32,
}

/// Scalar memory of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SmemConfig {
    pub bytes: u64,
}

/// HBM of a chip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HbmConfig {
    pub bytes: u64,
    pub channels: u32,
    /// Peak bytes per second of the chip, and the share that transfers reach.
    pub bandwidth: f64,
    pub efficiency: f64,
    /// Seconds from request to first data.
    pub latency_s: f64,
    /// Bytes of a burst: a smaller access costs a whole one.
    pub burst_bytes: u32,
}

/// DMA engines of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DmaConfig {
    /// Copies in progress at once; more queue.
    pub engines: u32,
    /// Cycles from `dma.start` until the first request leaves.
    pub issue_cycles: u32,
    /// Contiguous chunks begun per cycle and engine.
    pub chunks_per_cycle: f64,
    /// Bytes per cycle that one engine moves at most.
    pub bytes_per_cycle: f64,
}

/// Instruction memory of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImemConfig {
    pub bytes: u64,
}

/// The link to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostConfig {
    pub bandwidth: f64,
    pub latency_s: f64,
}

/// The inter-chip interconnect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IciConfig {
    /// `none`, `ring`, `torus2d`, `torus3d`, `mesh2d`, `mesh3d` or `full`.
    pub topology: String,
    pub links: u32,
    /// One-way bytes per second of a link, the share reached, and seconds per hop.
    pub link_bandwidth: f64,
    pub efficiency: f64,
    pub hop_latency_s: f64,
    pub flit_bytes: u32,
    /// Axis length from which an axis wraps around (0: never).
    pub wrap_at: u32,
}

/// Cycles of one latency class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// From issue until the result may be read.
    pub latency: u32,
    /// Cycles that the instruction keeps its slot's unit.
    pub interval: u32,
}

/// [`Timing`] of every [`Class`], indexed by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimingTable(pub Vec<(Class, Timing)>);

impl TimingTable {
    /// The class's timing.
    pub fn get(&self, class: Class) -> Timing {
        self.0[class as usize].1
    }
}

impl ChipConfig {
    /// Instructions of that slot in a bundle.
    pub fn slots(&self, slot: Slot) -> u32 {
        let c = &self.core;
        match slot {
            Slot::Scalar => c.scalar_slots,
            Slot::Valu => c.valu_slots,
            Slot::Vload => c.vload_slots,
            Slot::Vstore => c.vstore_slots,
            Slot::Eup => c.eup_slots,
            Slot::Xlu => c.xlu_slots,
            Slot::MxuPush => c.mxu_push_slots,
            Slot::MxuPop => c.mxu_pop_slots,
            Slot::Dma => c.dma_slots,
            Slot::Branch => c.branch_slots,
        }
    }
}
