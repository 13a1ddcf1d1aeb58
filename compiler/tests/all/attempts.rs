//! Several attempts at one program: what they share changes nothing, and what does not fit finds another way.

use systole_compiler::compile::{CompileOptions, compile, compile_sharing};
use systole_compiler::front::parse_hlo;
use systole_compiler::shared::Shared;
use systole_hlo::graph::Module;
use systole_isa::ChipConfig;

/// Its scores do not stay in the vector memory of small chips.
const ATTENTION: &str = include_str!("../programs/attention.hlo");

const TOP: &str = include_str!("../programs/largest_of_rows.hlo");

/// Slices of 588 KiB, whose rows are no multiple of lanes.
const SLICES: &str = include_str!("../programs/gathered_slices.hlo");

/// Rows of half a megabyte.
const SOFTMAX: &str = include_str!("../programs/softmax_of_long_rows.hlo");

fn chip() -> ChipConfig {
    ChipConfig::from_preset("tpu-v4").expect("a preset")
}

fn module(text: &str) -> Module {
    parse_hlo(text).expect("a module").0
}

#[test]
fn attempts_that_share_make_the_programs_that_each_makes_alone() {
    let (chip, module, shared) = (chip(), module(ATTENTION), Shared::default());
    let (mut lengths, mut with_strips) = (Vec::new(), 0);
    for (strips, cores, max_resident) in
        [(75, 1, None), (50, 1, None), (0, 1, None), (75, 2, None), (75, 2, Some(1 << 18))]
    {
        let mut o = CompileOptions { cores, verify: false, ..CompileOptions::for_chip(&chip) };
        o.passes.strips = strips;
        o.guide.max_resident = max_resident;
        let together = compile_sharing(&module, (&chip, &o), ATTENTION, None, &shared).expect("compiles");
        let alone = compile(module.clone(), &chip, &o, ATTENTION, None).expect("compiles");
        let case = (strips, cores, max_resident);
        assert!(together.found.strips == 0 || strips > 0, "{case:?}");
        assert_eq!(together.found, alone.found, "{case:?}");
        assert!(together.program == alone.program, "{case:?} is another program when attempts share");
        with_strips += u32::from(together.found.strips > 0);
        lengths.push(together.program.bundles);
    }
    assert!(with_strips > 0, "none of the attempts works strip by strip");
    lengths.sort_unstable();
    lengths.dedup();
    assert!(lengths.len() > 2, "the attempts are alike: {lengths:?}");
}

#[test]
fn long_rows_and_large_slices_stream_through_small_vector_memories() {
    for name in ["tpu-v4", "tpu-v3"] {
        let chip = ChipConfig::from_preset(name).expect("a preset");
        for text in [TOP, SLICES, SOFTMAX] {
            let o = CompileOptions { verify: false, ..CompileOptions::for_chip(&chip) };
            let done = compile(module(text), &chip, &o, text, None);
            assert!(done.is_ok(), "{name}: {}\n{text}", done.err().map(|e| e.to_string()).unwrap_or_default());
        }
    }
}
