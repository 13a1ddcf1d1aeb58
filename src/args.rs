//! Flags that several subcommands share.

use clap::ValueEnum;
use std::sync::Arc;
use systole_compiler::graph::Precision;
use systole_compiler::plan::guide::{CostModel, Dice, Guide, Schedule, Tuned};
use systole_isa::ChipConfig;
use systole_isa::program::PodShape;
use systole_runtime::profile::{Level, Limits};
use systole_runtime::{Asked, Assume, CompileOptions, EntryLayouts, Mode, PodOptions, RunOptions, RuntimeError, Ways};
use systole_runtime::{options, pod};

fn bad(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Request(message.into())
}

/// The chip used when nothing names one.
pub const DEFAULT_CHIP: &str = "tpu-v5e";

/// Which chip.
#[derive(clap::Args, Clone, Debug)]
pub struct ChipArgs {
    /// Chip preset or chip file; default: the chip that the program names, else tpu-v5e
    #[arg(long, value_name = "NAME|FILE")]
    pub chip: Option<String>,
    /// Overrides a chip parameter, e.g. `mxu.rows=256`; may be given many times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// A chip by name of a preset or path of a file.
///
/// # Errors
/// If there is none, or its file is wrong.
pub fn chip_named(name: &str) -> Result<ChipConfig, RuntimeError> {
    let path = std::path::Path::new(name);
    if path.extension().is_none_or(|e| e != "toml") && !name.contains('/') {
        return ChipConfig::from_preset(name).map_err(|e| bad(e.to_string()));
    }
    let text = systole_runtime::files::read_text(path).map_err(|e| bad(format!("{name}: {e}")))?;
    ChipConfig::from_toml(&text, name).map_err(|e| bad(e.to_string()))
}

impl ChipArgs {
    /// The chip, with overrides; `default` where the user names none.
    ///
    /// # Errors
    /// If there is no such chip, or an override does not fit.
    pub fn chip_or(&self, default: &str) -> Result<ChipConfig, RuntimeError> {
        self.with_sets(chip_named(self.chip.as_deref().unwrap_or(default))?)
    }

    /// A chip with the overrides.
    ///
    /// # Errors
    /// If an override does not fit.
    pub fn with_sets(&self, mut chip: ChipConfig) -> Result<ChipConfig, RuntimeError> {
        chip.apply_sets(&self.set).map_err(|e| bad(e.to_string()))?;
        Ok(chip)
    }
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrecisionArg {
    Default,
    High,
    Highest,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldArg {
    /// No constant is evaluated at compile time
    None,
    /// Small ones are
    Small,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryLayoutArg {
    /// Their shapes: row-major, narrow last dimensions joined with those before them
    Default,
    /// The program, where it reads or writes them in forms that take less memory
    Auto,
}

/// How to compile.
#[derive(clap::Args, Clone, Debug)]
pub struct CompileArgs {
    /// Least precision of f32 products: one, three or six passes
    #[arg(long, value_enum, default_value = "default")]
    pub precision: PrecisionArg,
    /// Which constants are evaluated at compile time
    #[arg(long, value_enum, default_value = "small")]
    pub fold: FoldArg,
    /// Who decides how entry arrays lie in HBM
    #[arg(long, value_enum, default_value = "default")]
    pub entry_layout: EntryLayoutArg,
    /// Random legal schedules and latencies from this seed
    #[arg(long, value_name = "SEED")]
    pub chaos: Option<u64>,
    /// Proves that the code does what the kernels say (docs/checker.md)
    #[arg(long)]
    pub verify: bool,
    /// Streams arrays of more bytes than this through VMEM instead of keeping them there (default: keeps what fits)
    #[arg(long, value_name = "BYTES")]
    pub max_resident: Option<u64>,
    /// Cores of a device that share the work, where a device has several (default: as many as make the program fastest)
    #[arg(long, value_name = "N")]
    pub cores: Option<u32>,
    /// Devices that run the program on data of their own (default: 1, or as the module says if its operations need them)
    #[arg(long)]
    pub replicas: Option<u32>,
    /// Devices that share the program (default: as for --replicas)
    #[arg(long)]
    pub partitions: Option<u32>,
    /// How the chips are joined: `4x4`, `4x4:torus`, `2x2x2:mesh`, `4x2:torus,mesh`, `ring:8`, `full:4`; default: the
    /// chip's, as square as the devices allow
    #[arg(long, value_name = "SHAPE")]
    pub topology: Option<String>,
    /// Where devices are: the place of device 0, 1, .. (chips in row-major order, the devices of a chip one after the
    /// other), or `auto`: tries orders that fit the program's groups to the mesh, and keeps the fastest
    #[arg(long, value_name = "PLACE,PLACE,..|auto")]
    pub device_order: Option<DeviceOrder>,
    /// Algorithm of collectives where there is a choice
    #[arg(long, value_name = "ring|direct")]
    pub collective: Option<String>,
    /// Decisions of the planner, pinned by operation (docs/plan.md); what is not named is decided as usual
    #[arg(long, value_name = "FILE")]
    pub schedule: Option<String>,
    /// Tiles and cuts that `systole tune` found, used for equal kernels
    #[arg(long, value_name = "FILE")]
    pub schedule_db: Option<String>,
    /// Most vector memory that one kernel may use for its windows, e.g. `16MiB`
    #[arg(long, value_name = "SIZE")]
    pub scoped_vmem: Option<String>,
    /// Throws dice for tiles and cuts, from this seed, instead of estimating them: for tests, as anything legal must be right
    #[arg(long, value_name = "SEED", conflicts_with = "schedule_db")]
    pub dice: Option<u64>,
}

impl CompileArgs {
    /// Options for a chip and a module that has operations for `module`: replicas and partitions.
    ///
    /// # Errors
    /// If the devices do not fit the topology.
    pub fn options_for(&self, chip: &ChipConfig, module: (u32, u32)) -> Result<CompileOptions, RuntimeError> {
        let given = self.replicas.is_some() || self.partitions.is_some();
        let (replicas, partitions) = match given {
            true => (self.replicas.unwrap_or(1), self.partitions.unwrap_or(1)),
            false => module,
        };
        let mut o = self.options();
        o.guide = self.guide(chip)?;
        let cores = self.cores.map(|n| n.to_string());
        for (flag, value) in [
            ("collective", self.collective.as_ref()),
            ("cores", cores.as_ref()),
            ("scoped-vmem", self.scoped_vmem.as_ref()),
        ] {
            let Some(value) = value else { continue };
            let set = options::set(&mut o, &flag.replace('-', "_"), value, chip);
            set.map_err(|e| bad(format!("--{flag} {value}: {e}")))?;
        }
        if replicas == 0 || partitions == 0 {
            return Err(bad("--replicas and --partitions are at least 1"));
        }
        if (replicas, partitions) != (1, 1) || self.topology.is_some() || self.device_order.is_some() {
            let devices = replicas.saturating_mul(partitions);
            let mut topology = pod::topology(self.topology.as_deref(), chip, devices)?;
            match &self.device_order {
                Some(DeviceOrder::Places(order)) => {
                    topology = topology.ordered(order.clone()).map_err(|e| bad(format!("--device-order: {e}")))?;
                }
                Some(DeviceOrder::Auto) => o.any_order = true,
                None => {}
            }
            let topology = Some(topology);
            o.asked.pod = PodShape { replicas, partitions, topology, ..PodShape::default() };
        }
        Ok(o)
    }

    /// What guides the planner.
    fn guide(&self, chip: &ChipConfig) -> Result<Guide, RuntimeError> {
        let read = |path: &String| systole_runtime::files::read_text(path).map_err(|e| bad(format!("{path}: {e}")));
        let mut guide = Guide { max_resident: self.max_resident, ..Guide::default() };
        if let Some(path) = &self.schedule {
            guide.schedule = Schedule::of_file(path, &read(path)?).map_err(|e| bad(e.to_string()))?;
        }
        if let Some(path) = &self.schedule_db {
            let known = Tuned::parse(&read(path)?, chip).map_err(|e| bad(format!("{path}: {e}")))?;
            guide.tuned = Some(Arc::new(known));
        }
        guide.cost = self.dice.map(|seed| Arc::new(Dice(seed)) as Arc<dyn CostModel>);
        Ok(guide)
    }

    /// The same as flags, without those that say what is the case anyway.
    pub fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        let mut put = |name: &str, value: Option<String>| flags.extend(value.map(|v| format!("--{name}={v}")));
        let named = |v: &dyn Fn() -> Option<clap::builder::PossibleValue>| v().map(|v| v.get_name().to_string());
        put(
            "precision",
            named(&|| self.precision.to_possible_value()).filter(|_| self.precision != PrecisionArg::Default),
        );
        let layout = self.entry_layout;
        put("entry-layout", named(&|| layout.to_possible_value()).filter(|_| layout != EntryLayoutArg::Default));
        put("fold", named(&|| self.fold.to_possible_value()).filter(|_| self.fold != FoldArg::Small));
        put("chaos", self.chaos.map(|v| v.to_string()));
        put("max-resident", self.max_resident.map(|v| v.to_string()));
        put("cores", self.cores.map(|n| n.to_string()));
        put("replicas", self.replicas.map(|n| n.to_string()));
        put("partitions", self.partitions.map(|n| n.to_string()));
        put("topology", self.topology.clone());
        put("device-order", self.device_order.as_ref().map(DeviceOrder::to_string));
        put("collective", self.collective.clone());
        put("schedule", self.schedule.clone());
        put("schedule-db", self.schedule_db.clone());
        put("scoped-vmem", self.scoped_vmem.clone());
        put("dice", self.dice.map(|v| v.to_string()));
        flags
    }

    pub fn options(&self) -> CompileOptions {
        let precision = match self.precision {
            PrecisionArg::Default => Precision::Default,
            PrecisionArg::High => Precision::High,
            PrecisionArg::Highest => Precision::Highest,
        };
        let asked = Asked {
            precision,
            fold: self.fold == FoldArg::Small,
            entry_layouts: match self.entry_layout {
                EntryLayoutArg::Default => EntryLayouts::Default,
                EntryLayoutArg::Auto => EntryLayouts::Auto,
            },
            ..Asked::default()
        };
        CompileOptions {
            asked,
            chaos: self.chaos,
            ways: Ways { cores: self.cores, ..Ways::default() },
            verify: self.verify || cfg!(debug_assertions),
            ..CompileOptions::default()
        }
    }
}

/// Where the devices of a pod are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceOrder {
    /// Where the program is fastest.
    Auto,
    /// The place of each device.
    Places(Vec<u32>),
}

impl std::str::FromStr for DeviceOrder {
    type Err = String;

    fn from_str(text: &str) -> Result<DeviceOrder, String> {
        if text == "auto" {
            return Ok(DeviceOrder::Auto);
        }
        let place =
            |t: &str| t.trim().parse().map_err(|_| format!("`{t}` is no place; numbers or `auto` are expected"));
        Ok(DeviceOrder::Places(text.split(',').map(place).collect::<Result<_, _>>()?))
    }
}

impl std::fmt::Display for DeviceOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DeviceOrder::Auto => f.write_str("auto"),
            DeviceOrder::Places(all) => f.write_str(&all.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
        }
    }
}

/// What a run is told of the world around the program: a profile keeps it, and runs again with it.
#[derive(clap::Args, Clone, Debug)]
pub struct WorldArgs {
    /// A link that breaks or slows down, e.g. `link:3-4:down@1000` or `link:0-1:x0.1`; may be given many times
    #[arg(long, value_name = "LINK")]
    pub fault: Vec<String>,
    /// Simulates every device in timing-only runs even where one could stand for all
    #[arg(long)]
    pub all_devices: bool,
    /// Trip count of a loop whose condition depends on data (timing-only), by HLO name
    #[arg(long, value_name = "NAME=N")]
    pub assume: Vec<String>,
}

impl WorldArgs {
    /// Options of a run on several devices.
    ///
    /// # Errors
    /// If a fault is not well formed.
    pub fn pod_options(&self) -> Result<PodOptions, RuntimeError> {
        let faults = self.fault.iter().map(|f| pod::link_fault(f)).collect::<Result<_, _>>()?;
        Ok(PodOptions { faults, all_devices: self.all_devices })
    }

    /// The trip counts.
    ///
    /// # Errors
    /// If one is not `NAME=N`.
    pub fn assumed(&self) -> Result<Vec<Assume>, RuntimeError> {
        let one = |s: &String| {
            let (name, n) = s.split_once('=').ok_or_else(|| bad(format!("--assume {s}: NAME=N is expected")))?;
            let trips = n.parse().map_err(|_| bad(format!("--assume {s}: `{n}` is no number")))?;
            Ok(Assume { name: name.to_string(), trips })
        };
        self.assume.iter().map(one).collect()
    }

    /// The flags that say so.
    fn flags(&self) -> impl Iterator<Item = String> {
        let assumed = self.assume.iter().map(|a| format!("--assume={a}"));
        let faults = self.fault.iter().map(|f| format!("--fault={f}"));
        assumed.chain(faults).chain(self.all_devices.then(|| "--all-devices".to_string()))
    }
}

/// What to run, on what.
#[derive(clap::Args, Clone, Debug)]
pub struct RunArgs {
    /// HLO text, StableHLO text, assembly, or a compiled program
    pub module: String,
    #[command(flatten)]
    pub chip: ChipArgs,
    #[command(flatten)]
    pub compile: CompileArgs,
    /// Inputs: arrays arg0, arg1, .. of an .npz file (else drawn from the seed)
    #[arg(long, value_name = "FILE.npz")]
    pub inputs: Option<String>,
    /// Queues to infeeds and to transfers from the host (channelC.NAME): arrays of an .npz file in the order of the numbers at
    /// the end of their names; devD.NAME is for one device
    #[arg(long, value_name = "FILE.npz")]
    pub infeed: Option<String>,
    /// Shared library of host functions `void f(void* out, void** in)` for custom calls; may be given many times
    #[arg(long, value_name = "LIB.so")]
    pub custom_call_library: Vec<String>,
    /// Seed of inputs that no file gives
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub world: WorldArgs,
    /// Simulates every iteration of loops in timing-only runs; changes no count
    #[arg(long)]
    pub no_loop_skip: bool,
    /// Times every bundle anew in timing-only runs where code could be replayed; changes no count
    #[arg(long)]
    pub no_memo: bool,
    /// Fails after this many cycles
    #[arg(long, value_name = "N")]
    pub max_cycles: Option<u64>,
}

impl RunArgs {
    /// Options of a run in a mode on so many threads of the host.
    ///
    /// # Errors
    /// If an assumption is not `NAME=N`.
    pub fn options(&self, mode: Mode, threads: usize) -> Result<RunOptions, RuntimeError> {
        let mut run = RunOptions::new(mode);
        run.loop_skip = !self.no_loop_skip;
        run.memo = !self.no_memo;
        run.chaos = self.compile.chaos;
        run.threads = threads;
        run.max_cycles = self.max_cycles.unwrap_or(u64::MAX);
        run.assume = self.world.assumed()?;
        Ok(run)
    }

    /// The flags that decide what code there is and how it runs, as a profile keeps them.
    pub fn flags(&self) -> Vec<String> {
        self.compile.flags().into_iter().chain(self.world.flags()).collect()
    }
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelArg {
    /// Operations, counters over time
    Ops,
    /// Also kernels and copies
    Kernels,
    /// Also bundles and waits
    Bundles,
}

/// What to record.
#[derive(clap::Args, Clone, Debug)]
pub struct ProfileArgs {
    /// Records the run into a profile, for `systole profile`, `trace`, `report` and `top`
    #[arg(long, value_name = "FILE.sysp")]
    pub profile: Option<String>,
    /// How much is recorded
    #[arg(long, value_enum, default_value = "kernels")]
    pub profile_level: LevelArg,
    /// Most spans of a lane: beyond, operations are joined and copies sampled; sums stay exact
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1024..=(1 << 26)))]
    pub profile_events: u32,
    /// Most counters over time, at equal distances: 512, and 4096 where bundles are recorded
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=(1 << 20)))]
    pub profile_samples: Option<u32>,
}

impl ProfileArgs {
    pub fn level(&self) -> Level {
        match self.profile_level {
            LevelArg::Ops => Level::Ops,
            LevelArg::Kernels => Level::Kernels,
            LevelArg::Bundles => Level::Bundles,
        }
    }

    pub fn limits(&self) -> Limits {
        let samples = self.profile_samples.map_or(Limits::of(self.level()).samples, |n| n as usize);
        Limits { spans: self.profile_events as usize, samples }
    }
}

/// Which half of the simulation.
#[derive(clap::Args, Clone, Debug)]
pub struct ModeArgs {
    /// Cycles only, no tensor data
    #[arg(long, conflicts_with = "numeric_only")]
    pub timing_only: bool,
    /// Numbers only, no cycles
    #[arg(long)]
    pub numeric_only: bool,
}

impl ModeArgs {
    pub fn mode(&self) -> Mode {
        match (self.timing_only, self.numeric_only) {
            (true, _) => Mode::TimingOnly,
            (_, true) => Mode::NumericOnly,
            _ => Mode::Full,
        }
    }
}
