//! Loops over blocks of rows while weights are staged.

use systole_codegen::emit::mxu::segment::*;
use systole_isa::ChipConfig;

#[test]
fn loops_cover_all_blocks_and_groups() {
    for preset in ["tiny", "tpu-v3", "tpu-v5e", "tpu-v6e"] {
        let chip = ChipConfig::from_preset(preset).expect("a preset");
        for blocks in (1..40).chain([64, 100, 1000]) {
            for (groups, steps, parts) in [(1, 1, 1), (16, 8, 2), (32, 1, 100), (2, 3, 1)] {
                let (block_issue, group_issue, tile_load) = (4.0, 2.0, 64.0);
                let accumulators = chip.mxu.accumulator_rows >= blocks * chip.core.sublanes;
                let s = StepShape {
                    blocks,
                    groups,
                    results: 4,
                    steps,
                    parts,
                    accumulators,
                    rate: 1.0,
                    block_issue,
                    group_issue,
                    tile_load,
                    together: 1,
                };
                let candidates = Segments::candidates(&s, &chip);
                let late = candidates.iter().cloned().map(|c| c.staged_late(groups)).filter(|c| c.late);
                for c in candidates.iter().cloned().chain(late) {
                    let what = format!("{preset} {blocks} {groups} {c:?}");
                    let sum = |f: &dyn Fn(&Segment) -> u32| c.loops.iter().map(f).sum::<u32>();
                    assert_eq!(sum(&|l| l.iterations * l.blocks), blocks, "{what}");
                    assert_eq!(sum(&|l| l.iterations * l.stage) + c.staged_after, groups, "{what}");
                    let earlier = |l: &Segment| (l.source == Source::Earlier) as u32;
                    assert_eq!(sum(&|l| earlier(l) * l.iterations * l.blocks), c.tail, "{what}");
                    assert!(!c.late || sum(&|l| earlier(l) * l.stage) == 0, "{what}");
                    assert!(accumulators || c.lag * blocks + c.tail > 0, "{what}");
                    let most = most_in_flight(&chip, wanted_lag(&chip, s.rate));
                    assert!(accumulators || c.lag * blocks + c.tail <= most, "{what}");
                }
            }
        }
    }
}

#[test]
fn loops_in_turns_have_whole_turns() {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    for (blocks, together) in [(128, 4), (64, 2), (96, 8), (40, 4), (128, 1)] {
        let s = StepShape {
            blocks,
            groups: 16,
            results: 4,
            steps: 6,
            parts: 6,
            accumulators: false,
            rate: 1.0,
            block_issue: 4.0,
            group_issue: 2.0,
            tile_load: 64.0,
            together,
        };
        let (c, _) = Segments::choose(&s, &chip).expect("even numbers come out even");
        assert!(c.loops.iter().all(|l| l.blocks.is_multiple_of(together)), "{blocks} {together} {c:?}");
        assert_eq!(c.loops.iter().map(|l| l.iterations * l.blocks).sum::<u32>(), blocks);
        assert_eq!(c.loops.iter().map(|l| l.iterations * l.stage).sum::<u32>() + c.staged_after, 16);
    }
}

#[test]
fn stages_cover_all_groups() {
    assert_eq!(stages(128, 16), (1, 16));
    assert_eq!(stages(9, 16), (2, 8));
    assert_eq!(stages(10, 15), (2, 7));
    assert_eq!(stages(1, 16), (0, 0));
    assert_eq!(stages(5, 16), (0, 0));
}
