//! The chips that come with the program, from `chips/*.toml`.

use super::{ChipConfig, load::ChipError};
use crate::diagnostic::{Diagnostic, Diagnostics, closest};

macro_rules! presets {
    ($($name:literal)+) => {
        /// Name and chip file of every preset.
        pub const PRESETS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../chips/", $name, ".toml")))),+];
    };
}

presets! { "tpu-v1-like" "tpu-v2" "tpu-v3" "tpu-v4" "tpu-v5e" "tpu-v5p" "tpu-v6e" "tpu-v7" "array128" "tiny" }

impl ChipConfig {
    /// Names of the presets, oldest chip first.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|p| p.0)
    }

    /// The preset of that name.
    ///
    /// # Errors
    /// If there is none; the message names those there are.
    pub fn from_preset(name: &str) -> Result<ChipConfig, ChipError> {
        match PRESETS.iter().find(|p| p.0 == name) {
            Some((name, text)) => ChipConfig::from_toml(text, &format!("{name}.toml")),
            None => {
                let names: Vec<&str> = ChipConfig::preset_names().collect();
                let help = match closest(name, names.iter().copied()) {
                    Some(c) => format!("did you mean `{c}`? (presets: {})", names.join(", ")),
                    None => format!("presets are {}", names.join(", ")),
                };
                Err(Diagnostics(vec![Diagnostic::new(format!("no chip preset is called `{name}`")).help(help)]))
            }
        }
    }
}
