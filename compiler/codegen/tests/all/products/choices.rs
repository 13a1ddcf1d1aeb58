//! Which units and cuts tiles are chosen of.

use systole_codegen::emit::mxu::{cuts, unit_counts};
use systole_isa::ChipConfig;

#[test]
fn many_units_may_rest() {
    let mut chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    assert_eq!(unit_counts(&chip), [4]);
    chip.apply_sets(&["mxu.count=14".to_string()]).expect("in range");
    assert_eq!(unit_counts(&chip), [14, 7, 4]);
}

#[test]
fn cuts_are_distinct_and_end_at_one() {
    assert_eq!(cuts(10).collect::<Vec<_>>(), [10, 5, 4, 3, 2, 1]);
    assert_eq!(cuts(1).collect::<Vec<_>>(), [1]);
}
