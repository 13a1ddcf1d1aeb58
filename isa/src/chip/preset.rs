//! The chips that come with the program, from `chips/*.toml`.

use super::tree::{Entry, Node};
use super::{ChipConfig, Origin, load::ChipError};
use crate::diagnostic::{Diagnostic, Diagnostics, closest};
use std::borrow::Cow;
use std::sync::OnceLock;

macro_rules! presets {
    ($($name:literal)+) => {
        /// Name and chip file of every preset.
        pub const PRESETS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../../chips/", $name, ".toml")))),+];
    };
}

presets! { "tpu-v1-like" "tpu-v2" "tpu-v3" "tpu-v4" "tpu-v5e" "tpu-v5p" "tpu-v6e" "tpu-v7" "array128" "tiny" }

// `CHIPS` and `NODES`: name and tree of every file of chips/ and chips/costs/.
include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

const _: () = assert!(CHIPS.len() == PRESETS.len(), "every file of chips/ is one of `presets!`, at its age");

impl ChipConfig {
    /// Names of the presets, oldest chip first.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|p| p.0)
    }

    /// The preset of that name, or of another name that people give the same chip (see [`preset_named`]).
    ///
    /// # Errors
    /// If there is none; the message names those there are.
    pub fn from_preset(name: &str) -> Result<ChipConfig, ChipError> {
        // Each is read once: programs in assembly, points of sweeps and plans name theirs again and again.
        static READ: [OnceLock<ChipConfig>; PRESETS.len()] = [const { OnceLock::new() }; PRESETS.len()];
        let known = preset_named(name).and_then(|name| PRESETS.iter().zip(&READ).find(|p| p.0.0 == name));
        let Some(((name, text), read)) = known else {
            let names: Vec<&str> = ChipConfig::preset_names().collect();
            let short = plain(name);
            let begins = |n: &&&str| !short.is_empty() && plain(n).starts_with(&short);
            let likely = (names.iter().find(begins).copied())
                .or_else(|| closest(name, names.iter().copied()))
                .or_else(|| closest(&format!("tpu-{short}"), names.iter().copied()));
            let help = match likely {
                Some(c) => format!("did you mean `{c}`? (presets: {})", names.join(", ")),
                None => format!("presets are {}", names.join(", ")),
            };
            return Err(Diagnostics(vec![Diagnostic::new(format!("no chip preset is called `{name}`")).help(help)]));
        };
        if let Some(chip) = read.get() {
            return Ok(chip.clone());
        }
        let file = format!("{name}.toml");
        let mut chip = match CHIPS.iter().find(|c| c.0 == *name) {
            Some((_, tree)) => ChipConfig::from_tree(tree, text, &file)?,
            None => ChipConfig::from_toml(text, &file)?,
        };
        chip.origin = Origin { base: Some((*name).to_string()), ..Origin::default() };
        Ok(read.get_or_init(|| chip).clone())
    }
}

/// Names of the same chips elsewhere: product names, and what JAX calls a device's kind. As [`plain`] makes them.
const ALIASES: &[(&str, &str)] = &[
    ("v5lite", "tpu-v5e"),
    ("v5litepod", "tpu-v5e"),
    ("v6lite", "tpu-v6e"),
    ("trillium", "tpu-v6e"),
    ("7x", "tpu-v7"),
    ("v7x", "tpu-v7"),
    ("ironwood", "tpu-v7"),
    ("v1", "tpu-v1-like"),
];

/// A name without case, separators, and the word TPU in front.
fn plain(name: &str) -> String {
    let kept = name.chars().filter(|c| c.is_ascii_alphanumeric()).map(|c| c.to_ascii_lowercase());
    let name: String = kept.collect();
    name.strip_prefix("tpu").map_or(name.clone(), str::to_string)
}

/// The preset that a name means: `v6e`, `TPU-V5E`, `tpu v5 lite`.
fn preset_named(name: &str) -> Option<&'static str> {
    let exact = ChipConfig::preset_names().find(|p| *p == name);
    let wanted = plain(name);
    let same = || ChipConfig::preset_names().find(|p| plain(p) == wanted);
    exact.or_else(same).or_else(|| ALIASES.iter().find(|a| a.0 == wanted).map(|a| a.1))
}
