//! Several attempts at one program: what they share changes nothing, and what does not fit finds another way.

use systole_compiler::compile::{CompileOptions, compile, compile_sharing};
use systole_compiler::front::parse_hlo;
use systole_compiler::shared::Shared;
use systole_hlo::graph::Module;
use systole_isa::ChipConfig;

/// Its scores do not stay in the vector memory of small chips.
const ATTENTION: &str = "HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  q = f32[16,1024,64] parameter(0)
  k = f32[16,1024,64] parameter(1)
  v = f32[16,1024,64] parameter(2)
  s = f32[16,1024,1024] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  i = f32[] constant(-inf)
  m = f32[16,1024] reduce(s, i), dimensions={2}, to_apply=max
  mb = f32[16,1024,1024] broadcast(m), dimensions={0,1}
  d = f32[16,1024,1024] subtract(s, mb)
  e = f32[16,1024,1024] exponential(d)
  z = f32[] constant(0)
  t = f32[16,1024] reduce(e, z), dimensions={2}, to_apply=add
  tb = f32[16,1024,1024] broadcast(t), dimensions={0,1}
  p = f32[16,1024,1024] divide(e, tb)
  ROOT o = f32[16,1024,64] dot(p, v), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
}
";

const TOP: &str = "HloModule m
ENTRY e {
  x = f32[32,128256] parameter(0)
  ROOT t = (f32[32,50], s32[32,50]) topk(x), k=50, largest=true
}
";

/// Slices of 588 KiB, whose rows are no multiple of lanes.
const SLICES: &str = "HloModule m
ENTRY e {
  t = f32[128,3,224,224] parameter(0)
  i = s32[128,1] parameter(1)
  m = f32[128,3,224,224] parameter(2)
  g = f32[128,3,224,224] gather(t, i), offset_dims={1,2,3}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3,224,224}
  ROOT r = f32[128,3,224,224] multiply(g, m)
}
";

/// Rows of half a megabyte.
const SOFTMAX: &str = "HloModule m
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT m = f32[] maximum(a, b) }
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[32,128256] parameter(0)
  r = f32[32,128256] reverse(x), dimensions={1}
  i = f32[] constant(-inf)
  m = f32[32] reduce(r, i), dimensions={1}, to_apply=max
  mb = f32[32,128256] broadcast(m), dimensions={0}
  d = f32[32,128256] subtract(r, mb)
  e = f32[32,128256] exponential(d)
  z = f32[] constant(0)
  t = f32[32] reduce(e, z), dimensions={1}, to_apply=add
  tb = f32[32,128256] broadcast(t), dimensions={0}
  ROOT p = f32[32,128256] divide(e, tb)
}
";

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
        assert!(together.strips == 0 || strips > 0, "{case:?}");
        assert_eq!(together.strips, alone.strips, "{case:?}");
        assert!(together.program == alone.program, "{case:?} is another program when attempts share");
        with_strips += u32::from(together.strips > 0);
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
