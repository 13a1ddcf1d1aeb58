//! The hand-written kernels in `examples/` compute what their first lines say.

use std::sync::Arc;
use systole_isa::asm::assemble_with_chip;
use systole_isa::program::HostArray;
use systole_simulator::{Machine, Mode, NoObserver, RunOptions, load};

/// Assembles and runs a kernel on f32 arrays in row-major order, and gives its only result.
fn run(text: &str, inputs: &[Vec<f32>]) -> Vec<f32> {
    let (program, chip) = assemble_with_chip(text, "example.s", None).unwrap_or_else(|e| panic!("{e}"));
    let mut machine = Machine::new(Arc::new(load(program.clone(), &chip).expect("the program fits the chip")));
    for (HostArray { address, layout, .. }, input) in program.params.iter().zip(inputs) {
        let host: Vec<u8> = input.iter().flat_map(|x| x.to_le_bytes()).collect();
        machine.write_hbm(*address, &layout.to_device(&host)).expect("inside HBM");
    }
    let options = RunOptions { race_check: true, ..RunOptions::new(Mode::Full) };
    let result = machine.run(&options, &mut NoObserver).unwrap_or_else(|f| panic!("{f}"));
    assert!(result.cycles > 0 && result.cycles < 10_000, "{} cycles", result.cycles);
    let HostArray { address, layout, .. } = &program.results[0];
    let mut device = vec![0; layout.bytes() as usize];
    machine.read_hbm(*address, &mut device).expect("inside HBM");
    layout.to_host(&device).chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

#[test]
fn vector_add_adds() {
    let a: Vec<f32> = (0..512).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..512).map(|i| 0.25 - 3.0 * i as f32).collect();
    let sum = run(include_str!("../../examples/vector_add.s"), &[a.clone(), b.clone()]);
    let expected: Vec<f32> = a.iter().zip(&b).map(|(x, y)| x + y).collect();
    assert_eq!(sum, expected);
}

#[test]
fn matmul_multiplies() {
    // Small integers are exact in bf16, and so are their products' sums in f32.
    let a: Vec<f32> = (0..256).map(|i| (i * 7 % 23) as f32 - 11.0).collect();
    let b: Vec<f32> = (0..128).map(|i| (i * 5 % 19) as f32 - 9.0).collect();
    let c = run(include_str!("../../examples/matmul.s"), &[a.clone(), b.clone()]);
    for i in 0..16 {
        for j in 0..8 {
            let expected: f32 = (0..16).map(|k| a[i * 16 + k] * b[k * 8 + j]).sum();
            assert_eq!(c[i * 8 + j], expected, "c[{i},{j}]");
        }
    }
}
