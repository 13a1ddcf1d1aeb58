//! Chains over large arrays are done strip by strip where that is faster, with the same answers.

use systole_runtime::{Client, CompileOptions, Mode, NoObserver, RunOptions};

/// A chain of moves over 50 MB, three times vector memory, that ends in little.
const CHAIN: &str = "HloModule chain
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[4096,16,48] parameter(0)
  zero = f32[] constant(0)
  p = f32[4096,64,48] pad(x, zero), padding=0_0x0_48x0_0
  t = f32[4096,48,64] transpose(p), dimensions={0,2,1}
  r = f32[4096,48,64] reverse(t), dimensions={2}
  s = f32[4096,48,64] add(t, r)
  ROOT sum = f32[4096,48] reduce(s, zero), dimensions={2}, to_apply=add
}";
/// One elementwise kernel, which needs no strips.
const KERNEL: &str = "HloModule kernel
ENTRY e {
  x = f32[4096,512] parameter(0)
  a = f32[4096,512] negate(x)
  ROOT r = f32[4096,512] add(a, x)
}";

fn cycles(text: &str, strips: Option<u32>) -> u64 {
    let client = Client::new("tiny").expect("the preset exists");
    let options = CompileOptions { strips, ..CompileOptions::default() };
    let exe = client.compile_text(text, &options).expect("it compiles");
    let loaded = systole_simulator::load(exe.program.clone(), client.chip()).expect("it loads");
    let mut machine = systole_simulator::Machine::new(std::sync::Arc::new(loaded));
    machine.run(&RunOptions::new(Mode::TimingOnly), &mut NoObserver).expect("no fault").cycles
}

#[test]
fn strips_are_made_where_they_are_faster() {
    for text in [CHAIN, KERNEL] {
        let (without, with, chosen) = (cycles(text, Some(0)), cycles(text, Some(75)), cycles(text, None));
        assert!(chosen <= without.min(with), "{chosen} cycles, {without} without strips, {with} with them");
    }
    let (without, chosen) = (cycles(CHAIN, Some(0)), cycles(CHAIN, None));
    assert!(2 * chosen < without, "{chosen} cycles, {without} without strips");
}
