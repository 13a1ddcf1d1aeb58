//! What ran on what: the part of every output that says how its numbers came about.

use crate::Mode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use systole_isa::chip::ChipIdentity;
use systole_isa::{ChipConfig, Program};

/// Everything that decides a run's numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setup {
    /// Version of systole.
    pub systole: String,
    /// The path or name of the program as the user gave it.
    pub program: String,
    /// The module's name.
    pub module: String,
    /// The chip, with every parameter that was changed.
    pub chip: ChipIdentity,
    /// `full`, `timing-only` or `numeric-only`.
    pub mode: String,
    #[serde(flatten)]
    pub given: InputsFrom,
    /// Flags that compiled and ran the program, other than the chip's, files and the mode.
    pub flags: Vec<String>,
}

/// Where inputs came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputsFrom {
    /// Seed of inputs that were drawn; none where a file gave them.
    pub seed: Option<u64>,
    /// File that gave the inputs.
    pub inputs: Option<String>,
}

/// A mode's name in outputs.
pub fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Full => "full",
        Mode::TimingOnly => "timing-only",
        Mode::NumericOnly => "numeric-only",
    }
}

impl Setup {
    /// The setup of a run of a program on a chip, without inputs and flags.
    pub fn new(name: &str, chip: &ChipConfig, program: &Program, mode: Mode) -> Setup {
        Setup {
            systole: env!("CARGO_PKG_VERSION").to_string(),
            program: name.to_string(),
            module: program.name.clone(),
            chip: chip.identity(),
            mode: mode_name(mode).to_string(),
            ..Setup::default()
        }
    }

    /// The program and the chip in a line.
    pub fn title(&self) -> String {
        format!("{} on {}", self.program, self.chip.label())
    }

    /// Version, mode, inputs and flags in a line.
    pub fn line(&self) -> String {
        let mut text = format!("systole {}, {}", self.systole, self.mode);
        match (&self.given.inputs, self.given.seed) {
            (Some(file), _) => text += &format!(", inputs of {file}"),
            (None, Some(seed)) => text += &format!(", inputs drawn with --seed {seed}"),
            (None, None) => {}
        }
        if !self.flags.is_empty() {
            text += &format!(", {}", self.flags.join(" "));
        }
        text
    }
}
