//! Options of compilation by name, with values as text: what sweeps and the plugin are given. The command's flags of the same
//! names mean the same.

use crate::client::CompileOptions;
use systole_compiler::graph::Precision;
use systole_compiler::passes::transfers::EntryLayouts;
use systole_compiler::plan::collective::Algorithm;
use systole_isa::ChipConfig;
use systole_isa::chip::Quantity;

/// An option's value goes into the options, or what is accepted comes back.
type Set = fn(&mut CompileOptions, &str, &ChipConfig) -> Result<(), String>;

/// An option.
pub struct Named {
    pub name: &'static str,
    /// What it is about, with the values that it takes.
    pub doc: &'static str,
    set: Set,
}

/// All options that have a name.
pub const NAMED: &[Named] = &[
    Named { name: "precision", doc: "least precision of f32 products: default, high, highest", set: precision },
    Named { name: "cores", doc: "cores of a device that share the work: a number", set: cores },
    Named { name: "collective", doc: "algorithm of collectives: ring, direct", set: collective },
    Named { name: "scoped_vmem", doc: "most vector memory of a kernel's windows: bytes, `16MiB`", set: scoped_vmem },
    Named {
        name: "max_resident",
        doc: "arrays of more bytes than this are streamed: bytes, `1MiB`",
        set: max_resident,
    },
    Named { name: "fold", doc: "which constants are evaluated at compile time: none, small", set: fold },
    Named { name: "entry_layout", doc: "who decides how entry arrays lie: default, auto", set: entry_layout },
    Named { name: "verify", doc: "proves that the code does what its kernels say: true, false", set: verify },
];

/// Sets the option of that name.
///
/// # Errors
/// What would be accepted, where there is no such option or it does not take the value.
pub fn set(o: &mut CompileOptions, name: &str, value: &str, chip: &ChipConfig) -> Result<(), String> {
    match NAMED.iter().find(|n| n.name == name) {
        Some(named) => (named.set)(o, value, chip),
        None => Err(one_of(NAMED.iter().map(|n| n.name))),
    }
}

fn one_of<'a>(known: impl Iterator<Item = &'a str>) -> String {
    format!("one of {} is expected", known.collect::<Vec<_>>().join(", "))
}

/// What a name stands for.
fn named<T: Copy>(known: &[(&str, T)], value: &str) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == value);
    Ok(found.ok_or_else(|| one_of(known.iter().map(|(name, _)| *name)))?.1)
}

fn precision(o: &mut CompileOptions, value: &str, _: &ChipConfig) -> Result<(), String> {
    let known = [("default", Precision::Default), ("high", Precision::High), ("highest", Precision::Highest)];
    o.asked.precision = named(&known, value)?;
    Ok(())
}

fn collective(o: &mut CompileOptions, value: &str, _: &ChipConfig) -> Result<(), String> {
    let found = Algorithm::from_name(value);
    o.guide.collective = Some(found.ok_or_else(|| one_of(["ring", "direct"].into_iter()))?);
    Ok(())
}

fn cores(o: &mut CompileOptions, value: &str, chip: &ChipConfig) -> Result<(), String> {
    let has = chip.cores_per_device;
    let n = value.parse().ok().filter(|n| (1..=has).contains(n));
    let cores = if has == 1 { "1 core".to_string() } else { format!("{has} cores") };
    o.ways.cores = Some(n.ok_or_else(|| format!("a device of {} has {cores}", chip.name))?);
    Ok(())
}

fn bytes(value: &str) -> Result<f64, String> {
    let what = Quantity::Bytes;
    let read = what.parse(value).filter(|b| *b >= 0.0);
    read.ok_or_else(|| format!("{} is expected", what.describe()))
}

fn scoped_vmem(o: &mut CompileOptions, value: &str, chip: &ChipConfig) -> Result<(), String> {
    let (read, least, most) = (bytes(value)?, chip.row_bytes(), chip.vmem.bytes);
    if !(least as f64..=most as f64).contains(&read) {
        return Err(format!("{least} to {most} bytes, the vector memory of {}", chip.name));
    }
    o.guide.scoped_vmem = Some(read as u64);
    Ok(())
}

fn max_resident(o: &mut CompileOptions, value: &str, _: &ChipConfig) -> Result<(), String> {
    o.guide.max_resident = Some(bytes(value)? as u64);
    Ok(())
}

fn fold(o: &mut CompileOptions, value: &str, _: &ChipConfig) -> Result<(), String> {
    o.asked.fold = named(&[("none", false), ("small", true)], value)?;
    Ok(())
}

fn entry_layout(o: &mut CompileOptions, value: &str, _: &ChipConfig) -> Result<(), String> {
    o.asked.entry_layouts = named(&[("default", EntryLayouts::Default), ("auto", EntryLayouts::Auto)], value)?;
    Ok(())
}

fn verify(o: &mut CompileOptions, value: &str, _: &ChipConfig) -> Result<(), String> {
    o.verify = named(&[("true", true), ("false", false)], value)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_or_the_right_ones_said() {
        let chip = ChipConfig::from_preset("tpu-v4").expect("a preset");
        let good = [
            ("precision", "highest"),
            ("cores", "2"),
            ("collective", "direct"),
            ("scoped_vmem", "4MiB"),
            ("max_resident", "65536"),
            ("fold", "none"),
            ("entry_layout", "auto"),
            ("verify", "true"),
        ];
        assert_eq!(good.len(), NAMED.len(), "each option is tried");
        let mut o = CompileOptions { verify: false, ..CompileOptions::default() };
        for (name, value) in good {
            assert_eq!(set(&mut o, name, value, &chip), Ok(()), "{name}");
        }
        assert_eq!((o.ways.cores, o.asked.fold, o.verify, o.guide.max_resident), (Some(2), false, true, Some(65536)));
        assert_eq!(o.guide.scoped_vmem, Some(4 << 20));
        let bad = [
            ("precision", "best", "one of default, high, highest is"),
            ("cores", "3", "has 2 cores"),
            ("collective", "tree", "one of ring, direct is"),
            ("scoped_vmem", "1TiB", "the vector memory of tpu-v4"),
            ("max_resident", "much", "bytes"),
            ("fold", "all", "one of none, small"),
            ("entry_layout", "own", "one of default, auto"),
            ("verify", "1", "one of true, false"),
        ];
        for (name, value, message) in bad {
            let e = set(&mut o, name, value, &chip).expect_err(name);
            assert!(e.contains(message), "{name}: {e}");
        }
        let e = set(&mut o, "speed", "1", &chip).expect_err("no option");
        assert!(e.contains("precision, cores"), "{e}");
    }
}
