//! What the passes are asked for.

use crate::transfers::EntryLayouts;
use systole_hlo::graph::Precision;
use systole_isa::program::PodShape;
use systole_isa::{ChipConfig, DType};

/// What is asked of a program, whatever the chip.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Whether operations on small constants are evaluated at compile time.
    pub fold: bool,
    /// Who decides how the entry's arrays lie in HBM.
    pub entry_layouts: EntryLayouts,
    /// Raises the precision of f32 dots and convolutions to at least this.
    pub precision: Precision,
    /// The devices that run the program.
    pub pod: PodShape,
}

impl Default for Asked {
    /// Folding on, the precision that the program asks for, one device.
    fn default() -> Asked {
        Asked {
            fold: true,
            entry_layouts: EntryLayouts::Default,
            precision: Precision::Default,
            pod: PodShape::default(),
        }
    }
}

/// What the passes are asked for.
#[derive(Clone, Debug)]
pub struct PassOptions {
    pub asked: Asked,
    /// How many labelled rewrites may be made in all; `None`: any number. Lowerings that are needed are always made.
    pub fuel: Option<u64>,
    /// Seed of the program's own random numbers (`rng`).
    pub seed: u64,
    /// Per cent of vector memory that the arrays of a strip may take together, where chains over large arrays are done strip by
    /// strip; 0: they are not.
    pub strips: u32,
    /// Whether loops begin collectives of the next iteration, and end those of the last one, beside an iteration's work.
    pub ahead: bool,
    /// Whether the module is proved after every pass.
    pub verify: bool,
    pub chip: Facts,
}

/// What passes know of the chip.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Operand types that the matrix unit takes, as the chip lists them.
    pub mxu_types: Vec<DType>,
    /// Columns of the matrix unit: grouped convolutions of this many channels are worth a convolution each.
    pub mxu_cols: u64,
    /// Sublanes and lanes of the chip's vectors.
    pub tile: (u32, u32),
    /// How fast the chip is.
    pub rates: Rates,
    /// Bytes of the chip's vector memory.
    pub vmem_bytes: u64,
}

/// How fast a chip is, per second: for passes that trade one resource for another.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Multiply-adds times two of bf16.
    pub flops: f64,
    /// Bytes of HBM.
    pub memory: f64,
    /// Bytes of one link in one direction.
    pub link: f64,
    /// Seconds of a small message to a neighbour.
    pub message: f64,
}

impl Rates {
    fn of(chip: &ChipConfig) -> Rates {
        Rates {
            flops: chip.peak_flops(DType::BF16).max(1.0),
            memory: (chip.hbm_bytes_per_cycle() * chip.clock_hz).max(1.0),
            link: chip.link_bytes_per_cycle() * chip.clock_hz,
            message: chip.ici.hop_latency_s + 2.0 * chip.hbm.latency_s,
        }
    }
}

impl Facts {
    fn of(chip: &ChipConfig) -> Facts {
        Facts {
            mxu_types: chip.mxu.types.iter().filter_map(|t| DType::from_name(&t.operand)).collect(),
            mxu_cols: u64::from(chip.mxu.cols),
            tile: (chip.core.sublanes, chip.core.lanes),
            rates: Rates::of(chip),
            vmem_bytes: chip.vmem.bytes,
        }
    }
}

impl PassOptions {
    /// Options for a chip, without a limit of rewrites.
    pub fn for_chip(chip: &ChipConfig) -> PassOptions {
        PassOptions {
            asked: Asked::default(),
            fuel: None,
            seed: 0,
            strips: 75,
            ahead: true,
            verify: cfg!(debug_assertions),
            chip: Facts::of(chip),
        }
    }
}
