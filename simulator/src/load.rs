//! Loading: a program becomes predecoded code that is proven well formed for a chip.

use crate::issue::{code::Code, predecode};
use crate::unit::dma::Geometry;
use std::sync::{Arc, OnceLock};
use systole_isa::chip::ChipConfig;
use systole_isa::dma::HBM_GRANULE;
use systole_isa::encoding::{CodeError, Problem};
use systole_isa::validate::Reader;
use systole_isa::{Bundle, Bundles, Class, Inst, Program, ProgramError, Slot, Space, encode_bundles};

/// Why a program cannot run on a chip.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadError {
    #[error("chip parameter {what} is {value}, the simulator takes 1..={max}")]
    Chip { what: &'static str, value: u64, max: u64 },
    #[error("chip parameter {0}")]
    Shape(String),
    #[error("timing of class {class:?} is out of range")]
    Timing { class: Class },
    #[error("the program has no bundles")]
    Empty,
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("bundle {bundle}: operand {operand} of `{inst}` is out of range")]
    Operand { bundle: u32, inst: String, operand: u32 },
    #[error("bundle {bundle}: {need} instructions of slot {slot:?}, the chip has {have}")]
    Slots { bundle: u32, slot: Slot, need: u32, have: u32 },
    #[error("bundle {bundle} defines a register twice")]
    DefinedTwice { bundle: u32 },
    #[error("bundle {bundle} is too large")]
    BundleTooLarge { bundle: u32 },
    #[error("DMA descriptor {index} has more than {max} dimensions or moves too many bytes")]
    Descriptor { index: u32, max: usize },
    #[error("constant at {address} with {bytes} bytes is outside the chip's HBM of {size} bytes")]
    Constant { address: u64, bytes: u64, size: u64 },
}

/// A program ready to run on a chip. Shared by any number of machines.
#[derive(Debug)]
pub struct Loaded {
    pub(crate) program: Arc<Program>,
    pub(crate) chip: ChipConfig,
    pub(crate) code: Code,
    /// The bundles, once somebody asks for instructions.
    bundles: OnceLock<Bundles>,
    /// What the value walk executes, once a run asks for numbers.
    values: OnceLock<Vec<Inst>>,
    /// Cores of a device that run the program: all, if its code knows of others.
    pub(crate) cores: u32,
    /// The program's descriptors; with transfers to other devices also their sources alone, then their destinations alone.
    pub(crate) geometry: Vec<Geometry>,
    /// Where arrays of the host and constants begin and end in HBM, ascending.
    boundaries: Vec<u64>,
}

impl Loaded {
    /// The instructions of the value walk, in its order.
    pub(crate) fn values(&self) -> &[Inst] {
        self.values.get_or_init(|| predecode::values(self.bundles()))
    }

    /// The bundles.
    pub(crate) fn bundles(&self) -> &Bundles {
        let decode = || self.program.decode(&self.chip).expect("the code was decoded when it was loaded");
        self.bundles.get_or_init(decode)
    }

    /// The program that was loaded.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Cores of a device that run it.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// The chip that it was loaded for.
    pub fn chip(&self) -> &ChipConfig {
        &self.chip
    }

    /// The host array, the constant, or the stretch of temporaries between such that holds an HBM address.
    pub(crate) fn region(&self, address: u64) -> (u64, u64) {
        let next = self.boundaries.partition_point(|b| *b <= address);
        let start = next.checked_sub(1).map_or(0, |i| self.boundaries[i]);
        (start, self.boundaries.get(next).copied().unwrap_or(self.chip.device_memory_bytes()))
    }
}

/// Loads a program for a chip.
///
/// # Errors
/// If the program does not fit the chip, or its code is damaged.
pub fn load(program: impl Into<Arc<Program>>, chip: &ChipConfig) -> Result<Loaded, LoadError> {
    let program = program.into();
    let read = Arc::clone(&program);
    load_code(read.reader(chip)?, &read.code, OnceLock::new(), program, chip)
}

/// Loads already decoded bundles; `program` gives descriptors, constants and debug data.
///
/// # Errors
/// If the bundles are not well formed for the chip.
pub fn load_bundles(bundles: &[Bundle], program: &Program, chip: &ChipConfig) -> Result<Loaded, LoadError> {
    check_shape(chip)?;
    let decoded: Bundles = bundles.iter().collect();
    predecode::check(&decoded, program, chip)?;
    let code = encode_bundles(bundles, chip).map_err(|e| match e.problem {
        Problem::TooMany { slot, have: need, max: have } => {
            LoadError::Slots { bundle: e.bundle as u32, slot, need, have }
        }
        Problem::Operand { .. } | Problem::Format { .. } | Problem::Opcode { .. } | Problem::Slot { .. } => refused(e),
        Problem::Unused { .. } | Problem::Header | Problem::Alike { .. } | Problem::Truncated => refused(e),
    })?;
    let read = Program { bundles: decoded.len() as u32, code, ..program.clone() };
    load_code(read.unchecked(chip), &read.code, decoded.into(), Arc::new(program.clone()), chip)
}

fn refused(e: CodeError) -> LoadError {
    LoadError::Program(ProgramError::Code(e))
}

/// Loads the bundles of a code, as a reader gives them; `bundles`: they, if they are at hand.
fn load_code(
    reader: Reader<'_>,
    code: &[u8],
    bundles: OnceLock<Bundles>,
    program: Arc<Program>,
    chip: &ChipConfig,
) -> Result<Loaded, LoadError> {
    check_shape(chip)?;
    let (code, shared) = predecode::predecode(code, &program, chip, reader)?;
    if code.heads.is_empty() {
        return Err(LoadError::Empty);
    }
    let cores = if shared { chip.cores_per_device.max(1) } else { 1 };
    let burst = chip.hbm.burst_bytes.max(1) as u64;
    let geometry = program.descs.iter().enumerate().map(|(i, d)| {
        Geometry::new(d, burst).ok_or(LoadError::Descriptor { index: i as u32, max: systole_isa::dma::MAX_DMA_DIMS })
    });
    let mut geometry = geometry.collect::<Result<Vec<_>, _>>()?;
    let (channels, interleave) = (u64::from(chip.hbm.channels), HBM_GRANULE);
    for g in &mut geometry {
        if g.src == Space::Hbm {
            g.from.meet_channels(channels, interleave);
        }
        if g.dst == Space::Hbm {
            g.to.meet_channels(channels, interleave);
        }
    }
    if !code.remotes.is_empty() {
        let one_sided: Vec<Geometry> =
            [true, false].iter().flat_map(|&s| geometry.iter().map(move |g| g.one_sided(s))).collect();
        geometry.extend(one_sided);
    }
    for c in &program.constants {
        let bytes = c.bytes.len() as u64;
        if c.address.checked_add(bytes).is_none_or(|end| end > chip.device_hbm_bytes()) {
            return Err(LoadError::Constant { address: c.address, bytes, size: chip.device_hbm_bytes() });
        }
    }
    let arrays = program.params.iter().chain(&program.results).map(|a| (a.address, a.layout.bytes()));
    let ranges = arrays.chain(program.constants.iter().map(|c| (c.address, c.bytes.len() as u64)));
    let mut boundaries: Vec<u64> = ranges.flat_map(|(at, n)| [at, at.saturating_add(n)]).collect();
    boundaries.sort_unstable();
    boundaries.dedup();
    Ok(Loaded { program, chip: chip.clone(), code, bundles, values: OnceLock::new(), cores, geometry, boundaries })
}

fn check_shape(chip: &ChipConfig) -> Result<(), LoadError> {
    let (c, m) = (&chip.core, &chip.mxu);
    let bad = |text: &str| Err(LoadError::Shape(text.to_string()));
    if !c.lanes.is_power_of_two() || !c.sublanes.is_power_of_two() {
        return bad("core.lanes and core.sublanes must be powers of two");
    }
    if c.sublanes > c.lanes {
        return bad("core.sublanes must be at most core.lanes");
    }
    if m.count > 0 && (m.rows == 0 || m.cols == 0 || m.rows % c.lanes != 0 || m.cols % c.lanes != 0) {
        return bad("mxu.rows and mxu.cols must be multiples of core.lanes");
    }
    if m.rows > 1 << 14 || m.cols > 1 << 14 || m.accumulator_rows > 1 << 24 {
        return bad("mxu.rows, mxu.cols or mxu.accumulator_rows is too large");
    }
    if chip.timing.0.len() <= Class::Branch as usize {
        return bad("timing must list every latency class");
    }
    let rates = [chip.clock_hz, chip.hbm.bandwidth, chip.hbm.efficiency, chip.dma.bytes_per_cycle];
    if !rates.iter().all(|r| *r > 0.0) {
        return bad("clock_hz, hbm.bandwidth, hbm.efficiency and dma.bytes_per_cycle must be positive");
    }
    let positive = |x: f64| x > 0.0;
    if !positive(chip.dma.chunks_per_cycle) || chip.dma.engines == 0 || chip.dma.engines > 4096 {
        return bad("dma.chunks_per_cycle must be positive and dma.engines in 1..=4096");
    }
    if chip.dma.in_flight == 0 || chip.dma.in_flight > 1 << 16 {
        return bad("dma.in_flight must be in 1..=65536");
    }
    if chip.vmem.bytes > 1 << 34 || chip.smem.bytes > 1 << 30 || chip.hbm.bytes > 1 << 46 {
        return bad("vmem.bytes, smem.bytes or hbm.bytes is too large");
    }
    Ok(())
}
