//! How fast the simulator runs two hand-written kernels: a matrix multiply that keeps four arrays busy, and a GELU.
//!
//! Prints simulated cycles per second of timing-only runs, and seconds of full and numeric-only runs.

use std::sync::Arc;
use std::time::Instant;
use systole_isa::{Bundle, ChipConfig, Inst, Op, Program};
use systole_simulator::{Machine, Mode, NoObserver, RunOptions, RunResult, load_bundles};

#[derive(Default)]
struct Code(Vec<Bundle>);

impl Code {
    fn b(&mut self, insts: Vec<Inst>) -> i32 {
        self.0.push(Bundle { insts });
        self.0.len() as i32 - 1
    }
    fn li(&mut self, r: i32, v: i32) {
        self.b(vec![i(Op::SLi, &[r, v])]);
    }
}

fn i(op: Op, o: &[i32]) -> Inst {
    Inst::new(op, o)
}

/// Rows of a matrix product's left side, in blocks of 8.
const BLOCKS: i32 = 128;
/// Blocks pushed before the first is popped.
const AHEAD: i32 = 48;
/// Steps of the inner loop that are unrolled.
const UNROLL: i32 = 8;

/// 1024 x 1024 x 1024 on four 128 x 128 arrays, operands and sums in vector memory; `repeats` times.
fn matmul(repeats: i32) -> Code {
    let mut c = Code::default();
    let (a_base, w_base, o_base) = (0, 8 * 1024, 16 * 1024);
    c.li(20, repeats);
    let again = c.b(vec![]);
    // s1: output row, s2: weight row, s3: left row; s10: groups of four column tiles, s11: k tiles.
    c.li(10, 2);
    c.li(1, o_base);
    c.li(2, w_base);
    let group = c.b(vec![]);
    c.b(vec![i(Op::SLi, &[11, 8]), i(Op::SLi, &[3, a_base])]);
    let tile = c.b(vec![]);
    for r in 0..16 {
        for pair in 0..2 {
            let m = 2 * pair;
            let ld = |m: i32| i(Op::VLd, &[m + 1, 2, m * 128 + r * 8, 1]);
            c.b(vec![ld(m), ld(m + 1)]);
            c.b(vec![i(Op::MStage, &[m, m + 1, 0, 0]), i(Op::MStage, &[m + 1, m + 2, 0, 0])]);
        }
    }
    c.b(vec![i(Op::MLatch, &[0]), i(Op::MLatch, &[1]), i(Op::SAddI, &[2, 2, 512])]);
    c.b(vec![i(Op::MLatch, &[2]), i(Op::MLatch, &[3])]);
    c.b(vec![i(Op::SLi, &[12, AHEAD]), i(Op::SAddI, &[4, 1, 0])]);
    let push = |m: i32, v: i32| i(Op::MPush, &[m, v, 0, 0]);
    let fill = c.b(vec![i(Op::VLd, &[1, 3, 0, 1]), i(Op::SAddI, &[3, 3, 8])]);
    c.b(vec![push(0, 1), push(1, 1)]);
    c.b(vec![push(2, 1), push(3, 1), i(Op::BLoop, &[12, fill])]);
    c.li(12, (BLOCKS - AHEAD) / UNROLL);
    // Eight bundles for a push and a pop of each array.
    let body = |c: &mut Code, pushes: bool| {
        let start = c.0.len() as i32;
        for j in 0..8 * UNROLL {
            let (step, j) = (j / 8, j % 8);
            let mut b = Vec::new();
            let m = j / 2;
            if j % 2 == 0 {
                b.push(i(Op::MPop, &[10 + m, m, 0]));
                b.push(i(Op::VLd, &[20 + m, 4, m * 1024 + step * 8, 1]));
                // The sum of the iteration before: three registers behind.
                b.push(i(Op::VAddF, &[30 + (m + 2) % 4, 10 + (m + 2) % 4, 20 + (m + 2) % 4]));
            } else {
                b.push(i(
                    Op::VSt,
                    &[30 + (m + 2) % 4, 4, (m + 2) % 4 * 1024 + step * 8 - if m < 2 { 8 } else { 0 }, 1, 0],
                ));
            }
            if pushes && j % 2 == 1 {
                b.push(push(m, 1));
            }
            if pushes && j == 0 {
                b.push(i(Op::VLd, &[1, 3, step * 8, 1]));
            }
            if pushes && j == 0 && step == UNROLL - 1 {
                b.push(i(Op::SAddI, &[3, 3, 8 * UNROLL]));
            }
            if j == 7 && step == UNROLL - 1 {
                b.push(i(Op::SAddI, &[4, 4, 8 * UNROLL]));
                b.push(i(Op::BLoop, &[12, start]));
            }
            c.b(b);
        }
    };
    body(&mut c, true);
    c.li(12, AHEAD / UNROLL);
    body(&mut c, false);
    c.b(vec![i(Op::BLoop, &[11, tile])]);
    c.b(vec![i(Op::SAddI, &[1, 1, 4096]), i(Op::BLoop, &[10, group])]);
    c.b(vec![i(Op::BLoop, &[20, again])]);
    c.b(vec![i(Op::BHalt, &[])]);
    c
}

/// x * (0.5 + 0.5 tanh(x (c0 + c1 x^2))) over registers in vector memory: one every two cycles, 16 in flight.
fn gelu(registers: i32, repeats: i32) -> Code {
    let mut c = Code::default();
    let unroll = 16;
    c.b(vec![i(Op::VImm, &[60, 0.044_715f32.to_bits() as i32])]);
    c.b(vec![i(Op::VImm, &[61, 0.797_884_6f32.to_bits() as i32])]);
    c.b(vec![i(Op::VImm, &[62, 0.5f32.to_bits() as i32])]);
    c.li(20, repeats);
    let again = c.b(vec![i(Op::SLi, &[2, 4096])]);
    c.b(vec![i(Op::SLi, &[1, registers / unroll]), i(Op::SLi, &[3, 4096])]);
    let period = 2 * unroll;
    let mut body: Vec<Vec<Inst>> = vec![Vec::new(); period as usize];
    for n in 0..unroll {
        let (x, t, y) = (n, 16 + n, 32 + n);
        let mut at = |cycle: i32, inst: Inst| body[((cycle + 2 * n) % period) as usize].push(inst);
        at(0, i(Op::VLd, &[x, 2, n * 8, 1]));
        at(5, i(Op::VMulF, &[t, x, x]));
        at(8, i(Op::VFmaF, &[t, t, 60, 61]));
        at(11, i(Op::VMulF, &[t, x, t]));
        at(14, i(Op::ETanh, &[t, t]));
        at(26, i(Op::VFmaF, &[t, t, 62, 62]));
        at(29, i(Op::VMulF, &[y, x, t]));
        // The store may fall into the next round, whose base is further on.
        let late = if 2 * n + 33 >= period { 8 * unroll } else { 0 };
        at(33, i(Op::VSt, &[y, 3, n * 8 - late, 1, 0]));
    }
    body[period as usize - 2].push(i(Op::SAddI, &[2, 2, 8 * unroll]));
    body[period as usize - 1].extend([i(Op::SAddI, &[3, 3, 8 * unroll]), i(Op::BLoop, &[1, 0])]);
    let start = c.0.len() as i32;
    body[period as usize - 1].last_mut().expect("just added").operands[1] = start;
    for b in body {
        c.b(b);
    }
    c.b(vec![i(Op::BLoop, &[20, again])]);
    c.b(vec![i(Op::BHalt, &[])]);
    c
}

/// CPU time of this thread where the system tells, else the clock.
fn cpu_seconds() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = stat.and_then(|s| s.split_whitespace().next()?.parse::<f64>().ok());
    ns.map_or_else(|| START.get_or_init(Instant::now).elapsed().as_secs_f64(), |ns| ns / 1e9)
}

fn run(code: Code, mode: Mode, loop_skip: bool) -> (RunResult, f64) {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("the preset exists");
    let loaded = load_bundles(&code.0, &Program::default(), &chip).expect("the kernel is well formed");
    let mut m = Machine::new(Arc::new(loaded));
    let options = RunOptions { loop_skip, ..RunOptions::new(mode) };
    let start = cpu_seconds();
    let r = m.run(&options, &mut NoObserver).expect("no fault");
    (r, cpu_seconds() - start)
}

fn main() {
    let timing: [(&str, Code, Code); 2] =
        [("matmul 1024^3", matmul(400), matmul(400)), ("gelu 4M", gelu(4096, 400), gelu(4096, 400))];
    for (name, plain, skipping) in timing {
        for (code, skip) in [(plain, false), (skipping, true)] {
            let (r, s) = run(code, Mode::TimingOnly, skip);
            let mxu: f64 =
                r.units.iter().filter(|u| u.unit.starts_with("mxu")).map(|u| u.busy as f64).sum::<f64>() / 4.0;
            println!(
                "{name:15} timing-only skip={skip:5}: {:8.1} Mcycles/s {:8.1} Mbundles/s, {} cycles, array busy {:.3}",
                r.cycles as f64 / s / 1e6,
                r.bundles as f64 / s / 1e6,
                r.cycles,
                mxu / r.cycles as f64,
            );
        }
    }
    for (name, make) in [("matmul 1024^3", matmul as fn(i32) -> Code), ("gelu 4M", |n| gelu(4096, n))] {
        for mode in [Mode::Full, Mode::NumericOnly] {
            let few = run(make(1), mode, false).1.min(run(make(1), mode, false).1);
            let many = run(make(6), mode, false).1;
            println!("{name:15} {mode:?}: {:.4} s", (many - few) / 5.0);
        }
    }
}
