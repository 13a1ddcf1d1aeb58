//! The parameter table: the single declaration of what a chip file may say.
//!
//! Loading, range checks, overrides (`--set`), suggestions, the fingerprint and the reference page derive from it.
//! Two families of keys are declared by pattern: `timing.CLASS.latency|interval` for every latency class, and
//! `mxu.types.OPERAND.accumulator|rows_per_cycle` for every operand type of the matrix unit.

use super::{ChipConfig, Dataflow, Quantity};

/// A parameter's value in its base unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number in the quantity's base unit.
    Number(f64),
    /// A word.
    Text(String),
}

/// One row of the table.
pub struct Param {
    /// Dotted key, as in `--set KEY=VALUE`; in the file, the part before the dot is the table.
    pub key: &'static str,
    /// What it measures.
    pub quantity: Quantity,
    /// Least and greatest value, for numbers.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Whether compiled code depends on it (such parameters make the fingerprint).
    pub binds_code: bool,
    /// Its meaning, for the reference page.
    pub doc: &'static str,
    /// Reads it.
    pub get: fn(&ChipConfig) -> Value,
    /// Stores a value that was checked against the row.
    pub set: fn(&mut ChipConfig, Value),
}

macro_rules! params {
    ($($key:literal $($field:ident).+ as $ty:ident, $quantity:ident $min:literal ..= $max:literal, $binds:ident, $doc:literal;)+) => {
        &[$(Param {
            key: $key, quantity: Quantity::$quantity, min: $min as f64, max: $max as f64,
            binds_code: params!(@$binds), doc: $doc,
            get: |c| Value::Number(c.$($field).+ as f64),
            set: |c, v| if let Value::Number(n) = v { c.$($field).+ = n as $ty },
        }),+]
    };
    (@code) => { true };
    (@time) => { false };
}

/// Numeric parameters in file order. `code`: compiled code depends on it; `time`: only cycle counts do. Upper limits
/// of register counts, semaphores and arrays are what the instruction encoding can name.
#[rustfmt::skip]
pub const NUMBERS: &[Param] = params! {
    "clock" clock_hz as f64, Hertz 1e3 ..= 1e12, time, "Core clock.";
    "cores" cores as u32, Count 1 ..= 16, time, "Cores of a chip.";
    "cores_per_device" cores_per_device as u32, Count 1 ..= 16, time, "Cores that make one device; divides `cores`.";
    "core.scalar_slots" core.scalar_slots as u32, Count 1 ..= 15, code, "Scalar instructions in a bundle.";
    "core.valu_slots" core.valu_slots as u32, Count 1 ..= 15, code, "Vector ALU instructions in a bundle.";
    "core.vload_slots" core.vload_slots as u32, Count 1 ..= 15, code, "Vector loads in a bundle.";
    "core.vstore_slots" core.vstore_slots as u32, Count 1 ..= 15, code, "Vector stores in a bundle.";
    "core.eup_slots" core.eup_slots as u32, Count 1 ..= 15, code, "Transcendental instructions in a bundle.";
    "core.xlu_slots" core.xlu_slots as u32, Count 1 ..= 15, code, "Cross-lane instructions in a bundle, and cross-lane units.";
    "core.mxu_push_slots" core.mxu_push_slots as u32, Count 1 ..= 15, code, "Matrix-unit stages, latches and pushes in a bundle.";
    "core.mxu_pop_slots" core.mxu_pop_slots as u32, Count 1 ..= 15, code, "Matrix-unit pops and drains in a bundle.";
    "core.dma_slots" core.dma_slots as u32, Count 1 ..= 15, code, "DMA starts and semaphore waits in a bundle.";
    "core.branch_slots" core.branch_slots as u32, Count 1 ..= 1, code, "Branches in a bundle.";
    "core.scalar_registers" core.scalar_registers as u32, Count 8 ..= 64, code, "Scalar registers, `s0` (always zero) included.";
    "core.vector_registers" core.vector_registers as u32, Count 8 ..= 128, code, "Vector registers.";
    "core.mask_registers" core.mask_registers as u32, Count 4 ..= 32, code, "Vector mask registers, `m0` (always all ones) included.";
    "core.sublanes" core.sublanes as u32, Count 1 ..= 64, code, "Sublanes (rows) of a vector register; a power of two.";
    "core.lanes" core.lanes as u32, Count 2 ..= 1024, code, "Lanes (columns of 32 bits) of a vector register; a power of two.";
    "core.call_depth" core.call_depth as u32, Count 2 ..= 1024, code, "Return addresses that the call stack holds.";
    "core.semaphores" core.semaphores as u32, Count 7 ..= 256, code, "DMA semaphores: five for a kernel that double-buffers, one for a copy of an array, more for exchanges.";
    "core.launch_cycles" core.launch_cycles as u32, Cycles 0 ..= 1e9, time, "Fixed cost of a program: until the first bundle issues, and from the last until the host sees the end.";
    "mxu.count" mxu.count as u32, Count 1 ..= 16, code, "Matrix units of a core.";
    "mxu.rows" mxu.rows as u32, Count 2 ..= 16384, code, "Rows of the array (the contracted dimension); a multiple of `core.lanes`, at most 16 of them.";
    "mxu.cols" mxu.cols as u32, Count 2 ..= 16384, code, "Columns of the array (the output dimension); a multiple of `core.lanes`, at most 16 of them.";
    "mxu.accumulator_rows" mxu.accumulator_rows as u32, Count 0 ..= 1048576, code, "Rows of `mxu.cols` 32-bit words that an array accumulates itself; 0: the vector unit adds.";
    "mxu.fifo_rows" mxu.fifo_rows as u32, Count 1 ..= 1048576, code, "Rows of results that the output FIFO holds before pushes stall.";
    "mxu.queue_rows" mxu.queue_rows as u32, Count 1 ..= 1048576, time, "Rows that the input queue holds before pushes stall at issue.";
    "mxu.hop_cells" mxu.hop_cells as u32, Count 1 ..= 1024, time, "Cells that a value passes in a cycle on its way along rows and columns.";
    "mxu.extra_latency" mxu.extra_latency as u32, Cycles 0 ..= 1e6, time, "Cycles from a row's entry until its result may be popped, beyond `(rows + cols) / hop_cells`.";
    "mxu.weight_rows_per_cycle" mxu.weight_rows_per_cycle as u32, Count 1 ..= 16384, time, "Weight rows shifted in per cycle.";
    "vmem.bytes" vmem.bytes as u64, Bytes 1024 ..= 1073741824, code, "Vector memory of a core.";
    "vmem.read_ports" vmem.read_ports as u32, Count 1 ..= 16, time, "Register-sized reads per cycle.";
    "vmem.write_ports" vmem.write_ports as u32, Count 1 ..= 16, time, "Register-sized writes per cycle.";
    "vmem.bf16_conversion" vmem.bf16_conversion as u32, Count 0 ..= 1, code, "Whether loads and stores convert between bf16 and f32 (1), or instructions of the vector ALU (0).";
    "smem.bytes" smem.bytes as u64, Bytes 1024 ..= 16777216, code, "Scalar memory of a core.";
    "hbm.bytes" hbm.bytes as u64, Bytes 65536 ..= 2199023255552.0, code, "HBM of a chip; its devices have equal parts.";
    "hbm.channels" hbm.channels as u32, Count 1 ..= 1024, time, "HBM channels.";
    "hbm.bandwidth" hbm.bandwidth as f64, Bandwidth 1e3 ..= 1e15, time, "Peak HBM bandwidth of a chip; its devices share it.";
    "hbm.efficiency" hbm.efficiency as f64, Share 0.01 ..= 1.0, time, "Share of the peak that transfers reach.";
    "hbm.latency" hbm.latency_s as f64, Seconds 0 ..= 1e-3, time, "From a request until its first data.";
    "hbm.burst_bytes" hbm.burst_bytes as u32, Bytes 1 ..= 65536, time, "A smaller access costs a whole burst.";
    "cmem.bytes" cmem.bytes as u64, Bytes 0 ..= 1099511627776.0, code, "Common memory (CMEM) of a chip, between HBM and vector memory; its devices have equal parts. 0, or no table `[cmem]`: none.";
    "cmem.read_bandwidth" cmem.read_bandwidth as f64, Bandwidth 0 ..= 1e15, time, "Bandwidth at which a chip's copies read CMEM; its devices share it.";
    "cmem.write_bandwidth" cmem.write_bandwidth as f64, Bandwidth 0 ..= 1e15, time, "Bandwidth at which a chip's copies write CMEM, beside what reads take; its devices share it.";
    "cmem.latency" cmem.latency_s as f64, Seconds 0 ..= 1e-3, time, "From a request to CMEM until its first data.";
    "dma.engines" dma.engines as u32, Count 1 ..= 256, time, "Copies that issue requests at once; more queue.";
    "dma.in_flight" dma.in_flight as u32, Count 1 ..= 4096, time, "Copies that have begun and whose last byte has not arrived, over all engines; more queue.";
    "dma.descriptor_cycles" dma.descriptor_cycles as u32, Cycles 1 ..= 1e6, time, "Cycles for which a copy occupies its engine at least.";
    "dma.issue_cycles" dma.issue_cycles as u32, Cycles 0 ..= 1e6, time, "From `dma.start` until the first request leaves.";
    "dma.chunks_per_cycle" dma.chunks_per_cycle as f64, Rate 1e-3 ..= 1e6, time, "Contiguous chunks begun per cycle and engine.";
    "dma.bytes_per_cycle" dma.bytes_per_cycle as f64, Rate 1e-3 ..= 1e9, time, "Bytes per cycle that one engine moves at most.";
    "imem.bytes" imem.bytes as u64, Bytes 1024 ..= 1073741824, code, "Instruction memory of a core.";
    "host.bandwidth" host.bandwidth as f64, Bandwidth 1 ..= 1e15, time, "Bandwidth of the link to the host.";
    "host.latency" host.latency_s as f64, Seconds 0 ..= 1, time, "Latency of the link to the host.";
    "ici.links" ici.links as u32, Count 0 ..= 64, time, "Interconnect links of a chip.";
    "ici.link_bandwidth" ici.link_bandwidth as f64, Bandwidth 1 ..= 1e15, time, "One-way bandwidth of a link.";
    "ici.efficiency" ici.efficiency as f64, Share 0.01 ..= 1.0, time, "Share of the link bandwidth that transfers reach.";
    "ici.hop_latency" ici.hop_latency_s as f64, Seconds 0 ..= 1, time, "Latency of a hop.";
    "ici.flit_bytes" ici.flit_bytes as u32, Bytes 1 ..= 65536, time, "Link width: transfers are rounded up to it.";
    "ici.wrap_at" ici.wrap_at as u32, Count 0 ..= 1048576, time, "Axis length from which an axis wraps around; 0: never.";
    "ici.inside_rate" ici.inside_rate as f64, Rate 1e-3 ..= 1e6, time, "Rate of the link between the devices of a chip, in links.";
};

/// Dataflow names in the order of [`Dataflow`].
const DATAFLOWS: &[&str] = &["weight", "output"];

/// Names of interconnect topologies.
pub const TOPOLOGIES: &[&str] = &["none", "ring", "torus2d", "torus3d", "mesh2d", "mesh3d", "full"];

/// Parameters that are words.
pub const WORDS: &[Param] = &[
    Param {
        key: "name",
        quantity: Quantity::Text,
        min: 0.0,
        max: 0.0,
        binds_code: false,
        doc: "Name of the chip.",
        get: |c| Value::Text(c.name.clone()),
        set: |c, v| {
            if let Value::Text(t) = v {
                c.name = t;
            }
        },
    },
    Param {
        key: "mxu.dataflow",
        quantity: Quantity::Choice(DATAFLOWS),
        min: 0.0,
        max: 0.0,
        binds_code: false,
        doc: "Which operand stays in the array.",
        get: |c| Value::Text(DATAFLOWS[c.mxu.dataflow as usize].to_string()),
        set: |c, v| {
            c.mxu.dataflow = match v {
                Value::Text(t) if t == "output" => Dataflow::Output,
                Value::Text(_) | Value::Number(_) => Dataflow::Weight,
            }
        },
    },
    Param {
        key: "ici.topology",
        quantity: Quantity::Choice(TOPOLOGIES),
        min: 0.0,
        max: 0.0,
        binds_code: false,
        doc: "How chips are joined.",
        get: |c| Value::Text(c.ici.topology.clone()),
        set: |c, v| {
            if let Value::Text(t) = v {
                c.ici.topology = t;
            }
        },
    },
];

/// Every parameter of the table.
pub fn all() -> impl Iterator<Item = &'static Param> {
    WORDS.iter().chain(NUMBERS)
}

/// Operand types that a matrix unit may take, each with its accumulator type.
pub const OPERAND_TYPES: &[(&str, &str)] = &[("bf16", "f32"), ("s8", "s32"), ("u8", "s32"), ("f8", "f32")];
