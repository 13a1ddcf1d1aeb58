//! What the passes are asked for.

use systole_hlo::graph::Precision;
use systole_isa::program::PodShape;
use systole_isa::{ChipConfig, DType};

/// What the passes are asked for.
#[derive(Clone, Debug)]
pub struct PassOptions {
    /// Whether operations on small constants are evaluated at compile time.
    pub fold: bool,
    /// How many labelled rewrites may be made in all; `None`: any number. Lowerings that are needed are always made.
    pub fuel: Option<u64>,
    /// Raises the precision of f32 dots and convolutions to at least this.
    pub precision: Precision,
    /// Operand types that the matrix unit takes, as the chip lists them.
    pub mxu_types: Vec<DType>,
    /// Columns of the matrix unit: grouped convolutions of this many channels are worth a convolution each.
    pub mxu_cols: u64,
    /// Seed of the program's own random numbers (`rng`).
    pub seed: u64,
    /// The devices that run the program.
    pub pod: PodShape,
    /// Sublanes and lanes of the chip's vectors.
    pub tile: (u32, u32),
    /// Bytes of the chip's vector memory.
    pub vmem_bytes: u64,
    /// Per cent of vector memory that the arrays of a strip may take together, where chains over large arrays are done strip by
    /// strip; 0: they are not.
    pub strips: u32,
    /// Whether the module is proved after every pass.
    pub verify: bool,
}

impl PassOptions {
    /// Options for a chip: folding on, no limit of rewrites, the precision that the program asks for.
    pub fn for_chip(chip: &ChipConfig) -> PassOptions {
        PassOptions {
            fold: true,
            fuel: None,
            precision: Precision::Default,
            mxu_types: chip.mxu.types.iter().filter_map(|t| DType::from_name(&t.operand)).collect(),
            mxu_cols: u64::from(chip.mxu.cols),
            seed: 0,
            pod: PodShape::default(),
            tile: (chip.core.sublanes, chip.core.lanes),
            vmem_bytes: chip.vmem.bytes,
            strips: 75,
            verify: cfg!(debug_assertions),
        }
    }
}
