//! Chip files, overrides, and what identifies a chip.

use systole_isa::ChipConfig;
use systole_isa::chip::{PRESETS, params};
use systole_isa::dtype::DType;
use systole_isa::table::Class;

fn preset(name: &str) -> ChipConfig {
    ChipConfig::from_preset(name).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn error(text: &str) -> String {
    ChipConfig::from_toml(text, "my.toml").expect_err("the file is wrong").to_string()
}

#[test]
fn presets_load_and_reach_published_peaks() {
    // Peak bf16 TFLOP/s of a device: published per chip, halved where a chip is two devices. v7 is published at
    // 2.2 GHz and described at the default 2.0.
    let published = [
        ("tpu-v2", 46.0 / 2.0),
        ("tpu-v3", 123.0 / 2.0),
        ("tpu-v4", 275.0),
        ("tpu-v5e", 197.0),
        ("tpu-v5p", 459.0),
        ("tpu-v6e", 918.0),
        ("tpu-v7", 2307.0 / 2.0 * 2.0 / 2.2),
        ("array128", 32.768),
    ];
    for (name, tera) in published {
        let peak = preset(name).peak_flops(DType::BF16) / 1e12;
        assert!((peak / tera - 1.0).abs() < 0.005, "{name}: {peak} against {tera}");
    }
    assert!((preset("tpu-v1-like").peak_flops(DType::S8) / 92e12 - 1.0).abs() < 0.005);
    for name in ChipConfig::preset_names() {
        assert_eq!(preset(name).name, name);
    }
}

#[test]
fn what_is_built_in_is_what_the_files_say() {
    for (name, text) in PRESETS {
        let read = ChipConfig::from_toml(text, name).unwrap_or_else(|e| panic!("{name}: {e}"));
        let built_in = preset(name);
        assert_eq!(ChipConfig { origin: built_in.origin.clone(), ..read }, built_in, "{name}");
    }
}

#[test]
fn every_number_of_a_preset_states_its_source() {
    for (name, text) in PRESETS {
        let number = |l: &str| l.contains(" = ") && !["#", "name", "base"].iter().any(|&no| l.starts_with(no));
        for line in text.lines().filter(|l| number(l)) {
            let states = line.contains("  # ") || line.contains("source = ");
            assert!(states, "{name}: {line}");
        }
    }
}

#[test]
fn shares_and_times() {
    let v7 = preset("tpu-v7");
    assert_eq!((v7.devices_per_chip(), v7.device_hbm_bytes()), (2, 96 << 30));
    assert_eq!(v7.device_hbm_bandwidth(), 3690e9);
    let a = preset("array128");
    assert_eq!((a.hbm_bytes_per_cycle(), a.hbm_latency_cycles()), (614.0, 100));
    assert_eq!(preset("tpu-v4").devices_per_chip(), 1);
}

#[test]
fn overrides_take_units_and_are_checked() {
    let mut c = preset("tpu-v5e");
    let sets = ["mxu.rows=256", "mxu.cols=256", "clock=2.2GHz", "hbm.bandwidth = 1.6TB/s", "vmem.bytes=32MiB"];
    c.apply_sets(&sets).expect("good overrides");
    c.apply_sets(&["hbm.latency=250ns", "timing.valu-f64.latency=9", "mxu.types.f8.rows_per_cycle=4"]).expect("good");
    assert_eq!((c.mxu.rows, c.clock_hz, c.hbm.bandwidth, c.vmem.bytes), (256, 2.2e9, 1.6e12, 32 << 20));
    assert_eq!((c.hbm.latency_s, c.timing.get(Class::ValuF64).latency), (250e-9, 9));
    assert!(c.mxu_type(systole_isa::table::MxuFormat::F8).is_some());
    let before = c.clone();
    for (set, part) in [
        ("mxu.rowz=2", "did you mean `mxu.rows`?"),
        ("bandwidth=2", "did you mean `hbm.bandwidth`"),
        ("mxu.rows=100", "multiple of `core.lanes`"),
        ("mxu.rows=many", "a whole number"),
        ("mxu.rows=1.5", "from 2 to 16384"),
        ("mxu.rows=2.5", "takes a whole number"),
        ("hbm.efficiency=2", "from 1% to 1"),
        ("ici.topology=tree", "one of none, ring"),
        ("clock", "KEY=VALUE"),
        ("clock=nan", "a frequency"),
        ("mxu.types.bf16.rows_per_cycle=0", "every matrix unit multiplies bf16"),
        ("cores_per_device=3", "must divide `cores`"),
    ] {
        let e = c.apply_set(set).expect_err(set).to_string();
        assert!(e.contains(part), "{set}: {e}");
    }
    assert_eq!(c, before);
}

#[test]
fn a_chip_file_may_start_from_a_preset() {
    let c = ChipConfig::from_toml("name = \"fast\"\nbase = \"tpu-v5e\"\nhbm.bandwidth = \"2 TB/s\"\n", "f.toml")
        .expect("good");
    assert_eq!((c.name.as_str(), c.hbm.bandwidth, c.mxu.count), ("fast", 2e12, 4));
}

#[test]
fn mistakes_in_files_are_shown_in_place() {
    assert_eq!(
        error("base = \"tiny\"\n[hbm]\nbandwith = \"1 TB/s\"\nlatency = \"1 lightyear\"\n"),
        "unknown parameter `hbm.bandwith`\n --> my.toml:3:1\n  |\n3 | bandwith = \"1 TB/s\"\n  | ^^^^^^^^\n  = did you mean \
         `hbm.bandwidth`?\nbad value of `hbm.latency`\n --> my.toml:4:11\n  |\n4 | latency = \"1 lightyear\"\n  |           \
         ^^^^^^^^^^^^^\n  = `hbm.latency` takes a time with its unit (`500 ns`, `1 us`)"
    );
    assert!(error("cores = 1\n").contains("does not state `name`, `mxu.dataflow`"));
    assert!(error("base = \"tpu-v9\"\n").contains("tpu-v7"));
    assert!(error("x = [\n").contains("my.toml:"));
    assert!(error("base = \"tiny\"\n[core]\nlanes = 7\n").contains("power of two"));
    let timing = PRESETS.iter().find(|p| p.0 == "tiny").expect("a preset").1.lines();
    let without: Vec<&str> = timing.filter(|l| !l.starts_with("valu-mul")).collect();
    assert!(error(&without.join("\n")).contains("`timing.valu-mul.latency`, `timing.valu-mul.interval`"));
}

#[test]
fn the_fingerprint_binds_shape_and_nothing_else() {
    let base = preset("tpu-v5e");
    for (set, same) in [
        ("hbm.bandwidth=1TB/s", true),
        ("clock=1GHz", true),
        ("core.launch_cycles=3", true),
        ("timing.valu.latency=9", true),
        ("mxu.types.bf16.rows_per_cycle=2", true),
        ("name=other", true),
        ("mxu.count=2", false),
        ("vmem.bytes=64MiB", false),
        ("core.vload_slots=1", false),
        ("mxu.types.f8.rows_per_cycle=2", false),
    ] {
        let mut c = base.clone();
        c.apply_set(set).expect(set);
        assert_eq!(c.fingerprint() == base.fingerprint(), same, "{set}");
    }
}

#[test]
fn a_changed_chip_says_what_it_is() {
    let mut c = preset("tpu-v5e");
    assert_eq!(c.label(), "tpu-v5e");
    let digest = c.identity().digest;
    c.apply_sets(&["hbm.bandwidth=1600GB/s", "timing.valu.latency=9"]).expect("good");
    assert_eq!(c.label(), "tpu-v5e with hbm.bandwidth=1.6 TB/s, timing.valu.latency=9 cycles");
    assert_eq!(c.origin.overrides[0].was, "819 GB/s");
    assert_ne!(c.identity().digest, digest);
    // Changed further, it still says what it was at first; set back, it is unchanged.
    c.apply_sets(&["hbm.bandwidth=2TB/s", "timing.valu.latency=2"]).expect("good");
    assert_eq!(c.label(), "tpu-v5e with hbm.bandwidth=2 TB/s");
    assert_eq!(c.origin.overrides[0].was, "819 GB/s");
    c.apply_set("hbm.bandwidth=819GB/s").expect("good");
    assert_eq!((c.label().as_str(), c.identity().digest), ("tpu-v5e", digest));
    // What it states can be given again.
    let sets = ["mxu.types.f8.rows_per_cycle=4", "ici.topology=ring", "core.launch_cycles=7", "hbm.efficiency=0.5"];
    c.apply_sets(&sets).expect("good");
    let mut again = preset("tpu-v5e");
    again.apply_sets(&c.identity().sets()).expect("its own sets");
    assert_eq!(again.identity(), c.identity());
}

#[test]
fn every_parameter_is_part_of_the_identity() {
    let c = preset("tiny");
    for p in params::NUMBERS {
        let mut other = c.clone();
        let params::Value::Number(n) = (p.get)(&c) else { continue };
        (p.set)(&mut other, params::Value::Number(if n == p.min { p.max } else { p.min }));
        let changed: Vec<String> = other.differences(&c).into_iter().map(|o| o.key).collect();
        let expected: &[&str] = if p.min == p.max { &[] } else { &[p.key] };
        assert_eq!(changed, expected, "{}", p.key);
        assert_eq!(other.identity().digest == c.identity().digest, p.min == p.max, "{}", p.key);
    }
}

#[test]
fn files_name_themselves_and_their_base() {
    let c = ChipConfig::from_toml("base = \"tiny\"\nname = \"mine\"\nclock = \"2 GHz\"\n", "my.toml").expect("good");
    assert_eq!(c.label(), "mine (my.toml: tiny with clock=2 GHz)");
    let whole = PRESETS.iter().find(|p| p.0 == "tiny").expect("a preset").1;
    let mut c = ChipConfig::from_toml(whole, "whole.toml").expect("good");
    assert_eq!(c.label(), "tiny (whole.toml)");
    c.apply_set("clock=3GHz").expect("good");
    assert_eq!(c.label(), "tiny (whole.toml) with clock=3 GHz");
}

#[test]
fn a_quantity_needs_its_unit() {
    let mut c = preset("tiny");
    for bad in ["hbm.bandwidth=1600", "clock=2", "hbm.latency=500", "hbm.bandwidth=800Gb/s", "hbm.bandwidth=800gb/s"] {
        let e = c.apply_set(bad).expect_err(bad).to_string();
        assert!(e.contains("with its unit"), "{bad}: {e}");
    }
    assert!(error("base = \"tiny\"\n[hbm]\nbandwidth = 819e9\n").contains("with its unit"));
    c.apply_sets(&["hbm.latency=0", "vmem.bytes=65536", "hbm.bandwidth=1GB/S"]).expect("zero, bytes, and case");
}

#[test]
fn chips_are_known_by_other_names() {
    for (name, chip) in [
        ("v6e", "tpu-v6e"),
        ("TPU-V5E", "tpu-v5e"),
        ("TPU v5 lite", "tpu-v5e"),
        ("tpuv4", "tpu-v4"),
        ("tpu_v5p", "tpu-v5p"),
        ("Ironwood", "tpu-v7"),
        ("TINY", "tiny"),
    ] {
        assert_eq!(preset(name).name, chip, "{name}");
    }
    for (name, part) in [("v5", "did you mean `tpu-v5"), ("tpu-v5x", "did you mean"), ("h100", "presets are")] {
        let e = ChipConfig::from_preset(name).expect_err(name).to_string();
        assert!(e.contains(part), "{name}: {e}");
    }
    assert!(ChipConfig::from_preset("").is_err());
}
