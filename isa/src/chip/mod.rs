//! Chip descriptions: every number of the modeled machine.
//!
//! A chip is read from a TOML file ([`ChipConfig::from_toml`]) or taken from the presets ([`ChipConfig::from_preset`]),
//! then changed by overrides ([`ChipConfig::apply_sets`]). A `ChipConfig` made that way has every parameter in range and
//! passes the checks between parameters, so its users need not check again.

pub mod costs;
mod derived;
mod identity;
mod key;
mod listed;
mod load;
pub mod params;
mod part;
mod preset;
mod reference;
mod tree;
pub mod units;

pub use costs::{Cost, Costs, Quality, Sourced};
pub use identity::{ChipIdentity, Digest, Origin, Override};
pub use load::ChipError;
pub use part::Part;
pub use preset::PRESETS;
pub use reference::reference_page;
pub use units::Quantity;

use crate::table::{Class, Slot};
use serde::{Deserialize, Serialize};

/// A chip, as its TOML file describes it. Field docs give unit and meaning; the file gives each number's source. The default one
/// has nothing: what a loader begins with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChipConfig {
    /// Name of the chip.
    pub name: String,
    /// Core clock in Hz.
    pub clock_hz: f64,
    /// Cores of a chip, and cores that make one device (2 on megacore chips).
    pub cores: u32,
    /// Cores that make one device (2 on megacore chips).
    pub cores_per_device: u32,
    /// Issue width and registers.
    pub core: CoreConfig,
    /// Matrix units.
    pub mxu: MxuConfig,
    /// Vector memory.
    pub vmem: VmemConfig,
    /// Scalar memory.
    pub smem: SmemConfig,
    /// HBM.
    pub hbm: HbmConfig,
    /// Common memory between HBM and vector memory.
    #[serde(default)]
    pub cmem: CmemConfig,
    /// DMA engines.
    pub dma: DmaConfig,
    /// Instruction memory.
    pub imem: ImemConfig,
    /// The link to the host.
    pub host: HostConfig,
    /// The interconnect.
    pub ici: IciConfig,
    /// Latency and issue interval of every latency class, in cycles.
    pub timing: TimingTable,
    /// What work, area and time cost.
    pub costs: Costs,
    /// What it starts from and how it differs; changes nothing.
    pub origin: Origin,
}

/// Issue width and register files of a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreConfig {
    /// Instructions of each slot kind in a bundle.
    pub scalar_slots: u32,
    /// Vector ALU instructions in a bundle.
    pub valu_slots: u32,
    /// Vector loads in a bundle.
    pub vload_slots: u32,
    /// Vector stores in a bundle.
    pub vstore_slots: u32,
    /// Transcendental instructions in a bundle.
    pub eup_slots: u32,
    /// Cross-lane instructions in a bundle, and cross-lane units.
    pub xlu_slots: u32,
    /// Stages, latches and pushes in a bundle.
    pub mxu_push_slots: u32,
    /// Pops and drains in a bundle.
    pub mxu_pop_slots: u32,
    /// DMA starts and semaphore waits in a bundle.
    pub dma_slots: u32,
    /// Branches in a bundle.
    pub branch_slots: u32,
    /// Registers (`s0` and `m0` included).
    pub scalar_registers: u32,
    /// Vector registers.
    pub vector_registers: u32,
    /// Mask registers (`m0` included).
    pub mask_registers: u32,
    /// Shape of a vector register: `sublanes` x `lanes` 32-bit elements.
    pub sublanes: u32,
    /// Lanes of a vector register.
    pub lanes: u32,
    /// Depth of the call stack.
    pub call_depth: u32,
    /// DMA semaphores.
    pub semaphores: u32,
    /// Cycles from program start until the first bundle issues, and from the last until the host sees the end.
    pub launch_cycles: u32,
}

/// Matrix units of a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MxuConfig {
    /// Matrix units of a core.
    pub count: u32,
    /// Array shape: `rows` (k) x `cols` (n), each a multiple of the lanes.
    pub rows: u32,
    /// Columns of the array (n), a multiple of the lanes.
    pub cols: u32,
    /// Accumulator rows of `cols` 32-bit words; 0: results leave through the FIFO and the vector unit adds.
    pub accumulator_rows: u32,
    /// Rows of results that the output FIFO holds before pushes stall.
    pub fifo_rows: u32,
    /// Rows that the input queue holds before pushes stall at issue.
    pub queue_rows: u32,
    /// Cells that a value passes in a cycle on its way along rows and columns: 1 in the arrays of textbooks, which keep a
    /// value in each cell.
    pub hop_cells: u32,
    /// Cycles from a row's entry until its result can be popped, beyond `(rows + cols) / hop_cells`.
    pub extra_latency: u32,
    /// Weight rows shifted in per cycle.
    pub weight_rows_per_cycle: u32,
    /// `weight` or `output`: what stays in the array.
    pub dataflow: Dataflow,
    /// Operand types that the array multiplies itself.
    pub types: Vec<MxuType>,
}

impl MxuConfig {
    /// Cycles from a row's entry into an array whose weights stay until its result can be popped.
    #[must_use]
    pub fn fill_cycles(&self) -> u32 {
        (self.rows + self.cols).div_ceil(self.hop_cells.max(1)) + self.extra_latency
    }
}

/// Which operand stays in the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dataflow {
    /// The weights stay, rows stream through.
    #[default]
    Weight,
    /// The sums stay, both operands stream through.
    Output,
}

/// A native operand type: name (`bf16`, `s8`, `f8`), accumulator type, and operand rows taken per cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MxuType {
    /// Operand type: `bf16`, `s8`, `u8` or `f8`.
    pub operand: String,
    /// Type of the sums: `f32` or `s32`.
    pub accumulator: String,
    /// Operand rows taken per cycle.
    pub rows_per_cycle: f64,
}

/// Vector memory of a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VmemConfig {
    /// Bytes.
    pub bytes: u64,
    /// Register-sized reads and writes per cycle (the core's own; DMA has a port of its own).
    pub read_ports: u32,
    /// Register-sized writes per cycle.
    pub write_ports: u32,
    /// Whether loads and stores convert between bf16 and f32 (1), or instructions of the vector ALU (0).
    pub bf16_conversion: u32,
}

/// Scalar memory of a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SmemConfig {
    /// Bytes.
    pub bytes: u64,
}

/// HBM of a chip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HbmConfig {
    /// Bytes.
    pub bytes: u64,
    /// Channels.
    pub channels: u32,
    /// Peak bytes per second of the chip, and the share that transfers reach.
    pub bandwidth: f64,
    /// Share of the peak that transfers reach.
    pub efficiency: f64,
    /// Seconds from request to first data.
    pub latency_s: f64,
    /// Bytes of a burst: a smaller access costs a whole one.
    pub burst_bytes: u32,
}

/// Common memory of a chip: what copies reach beside HBM, nearer to the cores. A chip without has none of its bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CmemConfig {
    /// Bytes.
    pub bytes: u64,
    /// Bytes per second that a chip's copies read.
    pub read_bandwidth: f64,
    /// Bytes per second that they write, beside what they read.
    pub write_bandwidth: f64,
    /// Seconds from request to first data.
    pub latency_s: f64,
}

/// DMA engines of a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DmaConfig {
    /// Copies that issue requests at once; more queue.
    pub engines: u32,
    /// Copies that have begun and whose last byte has not arrived, over all engines; more queue.
    pub in_flight: u32,
    /// Cycles for which a copy occupies its engine at least.
    pub descriptor_cycles: u32,
    /// Cycles from `dma.start` until the first request leaves.
    pub issue_cycles: u32,
    /// Contiguous chunks begun per cycle and engine.
    pub chunks_per_cycle: f64,
    /// Bytes per cycle that one engine moves at most.
    pub bytes_per_cycle: f64,
}

/// Instruction memory of a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImemConfig {
    /// Bytes.
    pub bytes: u64,
}

/// The link to the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostConfig {
    /// Bytes per second.
    pub bandwidth: f64,
    /// Seconds.
    pub latency_s: f64,
}

/// The inter-chip interconnect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IciConfig {
    /// `none`, `ring`, `torus2d`, `torus3d`, `mesh2d`, `mesh3d` or `full`.
    pub topology: String,
    /// Links of a chip.
    pub links: u32,
    /// One-way bytes per second of a link, the share reached, and seconds per hop.
    pub link_bandwidth: f64,
    /// Share of the peak that transfers reach.
    pub efficiency: f64,
    /// Seconds per hop.
    pub hop_latency_s: f64,
    /// Link width in bytes.
    pub flit_bytes: u32,
    /// Axis length from which an axis wraps around (0: never).
    pub wrap_at: u32,
    /// Rate of the link between the devices of a chip, in links.
    pub inside_rate: f64,
}

/// Cycles of one latency class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// From issue until the result may be read.
    pub latency: u32,
    /// Cycles that the instruction keeps its slot's unit.
    pub interval: u32,
}

/// [`Timing`] of every [`Class`], indexed by it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(Class, Timing)>")]
pub struct TimingTable(pub Vec<(Class, Timing)>);

impl Default for TimingTable {
    fn default() -> TimingTable {
        TimingTable(Class::ALL.iter().map(|&c| (c, Timing::default())).collect())
    }
}

impl TryFrom<Vec<(Class, Timing)>> for TimingTable {
    type Error = String;

    /// A recorded table has every class of this program, in order; others are of another version.
    fn try_from(rows: Vec<(Class, Timing)>) -> Result<TimingTable, String> {
        match rows.iter().map(|r| r.0).eq(Class::ALL.iter().copied()) {
            true => Ok(TimingTable(rows)),
            false => {
                Err("its chip's table of latencies is of another version of this program: record the run again".into())
            }
        }
    }
}

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
