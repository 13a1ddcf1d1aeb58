//! Chains over large arrays are done strip by strip where that is faster, with the same answers.

use systole_runtime::{Array, Client, CompileOptions, Mode, NoObserver, RunOptions, Ways};

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
    let options = CompileOptions::default().by(Ways { strips, ..Ways::default() });
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

/// Running sums down columns of so many rows, of which one row takes a large part of vector memory and ends within a register.
#[test]
fn running_sums_of_long_rows_are_taken_in_parts() {
    let client = Client::new("tiny").expect("the preset exists");
    let n = client.chip().vmem.bytes / 64 + 1;
    for (rows, low) in [(5u64, 4), (40, 39)] {
        let text = format!(
            "HloModule sums
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{
  x = f32[{rows},{n}] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[{rows},{n}] reduce-window(x, zero), window={{size={rows}x1 pad={low}_0x0_0}}, to_apply=add
}}"
        );
        let exe = client.compile_text(&text, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let given: Vec<f32> = (0..rows * n).map(|i| (i % 251) as f32 - 125.0).collect();
        let x = Array::from_f32(&[rows, n], &given);
        let got = client.device(0).run(&exe, std::slice::from_ref(&x)).expect("it runs").outputs[0].to_f32();
        let mut sums = vec![0f32; n as usize];
        for (row, got) in given.chunks(n as usize).zip(got.chunks(n as usize)) {
            sums.iter_mut().zip(row).for_each(|(s, x)| *s += x);
            assert!(sums == got, "rows of {n}");
        }
    }
}
