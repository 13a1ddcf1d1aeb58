//! Parts of a chip that code may be made for.

use systole_isa::ChipConfig;
use systole_isa::chip::{PRESETS, Part};

fn parts(preset: &str, sets: &[&str]) -> Vec<Vec<Part>> {
    let mut chip = ChipConfig::from_preset(preset).expect("a preset");
    chip.apply_sets(&sets.iter().map(|s| (*s).to_string()).collect::<Vec<_>>()).expect("in range");
    // It goes by values, not by where they come from.
    chip.name = "mine".into();
    chip.origin = Default::default();
    chip.parts()
}

#[test]
fn sizes_are_halved_down_to_what_is_known() {
    // The preset has 4 matrix units.
    for (count, halves) in [(16, &[8, 4][..]), (14, &[7, 4]), (4, &[]), (2, &[1]), (1, &[])] {
        let found: Vec<Option<u32>> =
            parts("tpu-v5e", &[&format!("mxu.count={count}")]).concat().iter().map(|p| p.matrix_units).collect();
        assert_eq!(found, halves.iter().map(|&n| Some(n)).collect::<Vec<_>>(), "{count} units");
    }
    // It has 32 registers; there are at least 8, in pairs.
    for (count, halves) in [(100, &[50, 32][..]), (20, &[10]), (12, &[8]), (8, &[])] {
        let found: Vec<Option<u32>> = parts("tiny", &[&format!("core.vector_registers={count}")])
            .concat()
            .iter()
            .map(|p| p.vector_registers)
            .collect();
        assert_eq!(found, halves.iter().map(|&n| Some(n)).collect::<Vec<_>>(), "{count} registers");
    }
}

#[test]
fn parts_are_known_designs_and_what_lies_between() {
    for (name, _) in PRESETS {
        assert!(parts(name, &[]).is_empty(), "{name}");
        assert!(parts(name, &["clock=3 GHz", "hbm.bandwidth=5 TB/s"]).is_empty(), "{name}");
    }
    let vmem = |mib: u64| Part { vmem_bytes: Some(mib << 20), ..Part::default() };
    let units = |n| Part { matrix_units: Some(n), ..Part::default() };
    assert_eq!(parts("tpu-v5e", &["vmem.bytes=512 MiB"]), [[vmem(256), vmem(128)]]);
    assert_eq!(parts("tpu-v4", &["vmem.bytes=64 MiB", "clock=2 GHz"]), [[vmem(32), vmem(16)]]);
    assert_eq!(parts("tpu-v5e", &["mxu.count=16", "vmem.bytes=64 MiB"]), [vec![vmem(32)], vec![units(8), units(4)]]);
    assert!(parts("tpu-v5e", &["mxu.rows=256"]).is_empty());
    assert_eq!(parts("tpu-v5e", &["core.valu_slots=8"]), [[Part { vector_slots: Some(4), ..Part::default() }]]);
}

#[test]
fn a_part_has_no_more_than_the_whole() {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let part = |p: Part| chip.part(&p);
    assert_eq!(part(Part::default()), chip);
    assert_eq!(part(Part { matrix_units: Some(0), ..Part::default() }).mxu.count, 1);
    assert_eq!(part(Part { matrix_units: Some(99), vmem_bytes: Some(u64::MAX), ..Part::default() }), chip);
    let half = part(Part { vmem_bytes: Some(64 << 20), vector_registers: Some(32), ..Part::default() });
    assert_eq!((half.vmem.bytes, half.core.vector_registers, half.mxu.count), (64 << 20, 32, 4));
}
