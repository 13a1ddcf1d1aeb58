//! The reference page of chip parameters and presets (`docs/generated/chips.md`).

use super::key::Key;
use super::params::{self, Value};
use super::{ChipConfig, Cost, PRESETS, Quantity};
use crate::dtype::DType;
use crate::table::{Class, MxuFormat};
use std::fmt::Write;

/// A parameter's value with its unit.
fn show(quantity: Quantity, value: Value) -> String {
    match value {
        Value::Number(n) => quantity.print(n),
        Value::Text(t) => t,
    }
}

/// The page in Markdown.
///
/// # Panics
/// If a preset does not load, which a test excludes.
pub fn reference_page() -> String {
    let chips: Vec<ChipConfig> =
        (PRESETS.iter()).map(|(name, _)| ChipConfig::from_preset(name).expect("a test loads every preset")).collect();
    let mut page = String::from(
        "# Chip parameters and presets\n\nGenerated from the parameter table and `chips/*.toml`; do not edit. A chip file \
         is TOML with these keys (the part before the dot is the table); `--set KEY=VALUE` overrides one. `base = \
         \"PRESET\"` takes what the file leaves out from a preset. Parameters marked *code* are part of the fingerprint: \
         changing one asks for a new compile.\n\n| key | takes | range | | meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    let mut row = |key: &str, quantity: Quantity, (min, max): (f64, f64), code: bool, doc: &str| {
        let range = if quantity.is_text() {
            String::new()
        } else {
            format!("{} – {}", quantity.print(min), quantity.print(max))
        };
        let code = if code { "code" } else { "" };
        let _ = writeln!(page, "| `{key}` | {} | {range} | {code} | {doc} |", quantity.describe());
    };
    for p in params::all() {
        row(p.key, p.quantity, (p.min, p.max), p.binds_code, p.doc);
    }
    let latency = Key::Latency(Class::Valu);
    row("timing.CLASS.latency", latency.quantity(), latency.range(), false, "From issue until the result may be read.");
    row(
        "timing.CLASS.interval",
        latency.quantity(),
        latency.range(),
        false,
        "Cycles that the instruction keeps its unit.",
    );
    let rate = Key::RowsPerCycle(0);
    row(
        "mxu.types.TYPE.rows_per_cycle",
        rate.quantity(),
        rate.range(),
        true,
        "Operand rows of a native type that the array takes per cycle; 0 removes the type.",
    );
    let accumulator = Key::Accumulator(0);
    row(
        "mxu.types.TYPE.accumulator",
        accumulator.quantity(),
        accumulator.range(),
        true,
        "Type that products are summed in.",
    );
    let types: Vec<String> = params::OPERAND_TYPES.iter().map(|t| format!("`{}`", t.0)).collect();
    let _ = writeln!(
        page,
        "\nTYPE is one of {}.\n\n## Latency classes\n\n| CLASS | holds |\n| --- | --- |",
        types.join(", ")
    );
    for c in Class::ALL {
        let _ = writeln!(page, "| `{}` | {} |", c.name(), c.doc());
    }
    page += "\n## Costs\n\nRows of `[costs]`, each with value, range, quality and source; `costs.node` takes the defaults of a technology \
             node (`systole chips costs NAME` prints a chip's).\n\n| key | unit | meaning |\n| --- | --- | --- |\n";
    for c in Cost::ALL {
        let (key, unit, doc) = c.info();
        let _ = writeln!(page, "| `costs.{key}` | {unit} | {doc} |");
    }
    presets(&mut page, &chips);
    page
}

/// The presets side by side.
fn presets(page: &mut String, chips: &[ChipConfig]) {
    let _ = write!(page, "\n## Presets\n\nEach number's source is in the preset's file.\n\n|  |");
    for c in chips {
        let _ = write!(page, " {} |", c.name);
    }
    let _ = write!(page, "\n| --- |{}\n", " --- |".repeat(chips.len()));
    let mut line = |name: &str, cell: &dyn Fn(&ChipConfig) -> String| {
        let _ = write!(page, "| {name} |");
        for c in chips {
            let _ = write!(page, " {} |", cell(c));
        }
        page.push('\n');
    };
    let tera = |flops: f64| format!("{:.4}", flops / 1e12).trim_end_matches('0').trim_end_matches('.').to_string();
    line("devices of a chip", &|c| c.devices_per_chip().to_string());
    line("peak bf16 TFLOP/s of a device", &|c| tera(c.peak_flops(DType::BF16)));
    line("peak s8 TOP/s of a device", &|c| match c.mxu_type(MxuFormat::S8) {
        Some(_) => tera(c.peak_flops(DType::S8)),
        None => "as bf16".into(),
    });
    line("HBM bytes per cycle of a device", &|c| format!("{:.1}", c.hbm_bytes_per_cycle()));
    line("fingerprint", &|c| format!("`{:016x}`", c.fingerprint()));
    for p in params::all().filter(|p| p.key != "name") {
        line(&format!("`{}`", p.key), &|c| show(p.quantity, (p.get)(c)));
    }
    for &class in Class::ALL {
        line(&format!("`timing.{}`", class.name()), &|c| {
            let t = c.timing.get(class);
            format!("{} / {}", t.latency, t.interval)
        });
    }
}
