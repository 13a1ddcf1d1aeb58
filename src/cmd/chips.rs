//! `systole chips`: the presets, and chip files.

use crate::args::chip_named;
use crate::output;
use systole_isa::chip::params::{self, Value};
use systole_isa::{ChipConfig, DType};
use systole_runtime::RuntimeError;

/// Flags of `systole chips`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// The presets, a line each
    List,
    /// Every parameter of a chip
    Show {
        /// Preset or file
        name: String,
        /// Overrides a parameter
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// What a chip's work, area and time cost: every number with its range, quality and source
    Costs {
        /// Preset or file
        name: String,
        /// Overrides a parameter
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Checks a chip file
    Validate {
        /// The file
        file: String,
    },
}

/// Runs the subcommand.
///
/// # Errors
/// If there is no such chip, or it is wrong.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let wrong = |e: systole_isa::ChipError| RuntimeError::Request(e.to_string());
    match &a.what {
        What::List => {
            let mut text = line(["chip", "clock", "cores", "matrix units", "bf16 TFLOP/s", "VMEM", "HBM", "GB/s"]);
            for name in ChipConfig::preset_names() {
                text += &summary(&ChipConfig::from_preset(name).map_err(wrong)?);
            }
            output::print(&text)
        }
        What::Show { name, set } => {
            let mut chip = chip_named(name)?;
            chip.apply_sets(set).map_err(wrong)?;
            output::print(&show(&chip))
        }
        What::Costs { name, set } => {
            let mut chip = chip_named(name)?;
            chip.apply_sets(set).map_err(wrong)?;
            output::print(&systole_runtime::cost::costs_page(&chip))
        }
        What::Validate { file } => {
            let text =
                systole_runtime::files::read_text(file).map_err(|e| RuntimeError::Request(format!("{file}: {e}")))?;
            let chip = ChipConfig::from_toml(&text, file).map_err(wrong)?;
            output::print(&format!("{file}: `{}` is a valid chip\n", chip.name))
        }
    }
}

fn line(cells: [&str; 8]) -> String {
    let [name, clock, cores, mxu, peak, vmem, hbm, bandwidth] = cells;
    format!("{name:<12} {clock:>9} {cores:>5} {mxu:>14} {peak:>12} {vmem:>8} {hbm:>7} {bandwidth:>6}\n")
}

/// A chip in a line; rates are those of the whole chip.
fn summary(c: &ChipConfig) -> String {
    line([
        &c.name,
        &format!("{} MHz", (c.clock_hz / 1e6).round()),
        &c.cores.to_string(),
        &format!("{} x {}x{}", c.mxu.count * c.cores, c.mxu.rows, c.mxu.cols),
        &format!("{:.1}", c.peak_flops(DType::BF16) * c.devices_per_chip() as f64 / 1e12),
        &format!("{} MiB", (c.vmem.bytes * c.cores as u64) >> 20),
        &format!("{} GiB", c.hbm.bytes >> 30),
        &format!("{:.0}", c.hbm.bandwidth / 1e9),
    ])
}

/// Every parameter with its value and meaning.
fn show(c: &ChipConfig) -> String {
    let mut text = format!("{}\n", c.name);
    for p in params::all() {
        let value = match (p.get)(c) {
            Value::Number(n) => p.quantity.print(n),
            Value::Text(t) => t,
        };
        text += &format!("  {:<28} {:>14}  {}\n", p.key, value, p.doc);
    }
    for t in &c.mxu.types {
        text += &format!(
            "  {:<28} {:>14}  rows per cycle of {} operands, sums in {}\n",
            format!("mxu.types.{}", t.operand),
            t.rows_per_cycle,
            t.operand,
            t.accumulator
        );
    }
    for (class, t) in &c.timing.0 {
        text +=
            &format!("  {:<28} latency {}, one every {} cycles\n", format!("timing.{class:?}"), t.latency, t.interval);
    }
    text
}
