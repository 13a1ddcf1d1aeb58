//! The report's totals against numbers that follow from the program and the data sheet alone.

use systole_isa::DType;
use systole_runtime::report::{Report, report};
use systole_runtime::{Client, CompileOptions, Mode, NoObserver, PodRun, Ran, RunOptions, generate};

fn reported(chip: &str, text: &str) -> Report {
    let client = Client::new(chip).expect("a preset");
    let exe = client.compile_text(text, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let inputs = generate::placeholders(&exe.program, 0);
    let options = RunOptions::new(Mode::TimingOnly);
    let done = client.device(0).run_with(&exe, &inputs, &options, &mut NoObserver).expect("it runs");
    report(&Ran::new("product", client.chip(), &exe.program, Mode::TimingOnly), &PodRun::alone(done.result))
}

/// Whether two numbers are within a share of each other.
fn near(got: f64, want: f64, share: f64) -> bool {
    (got / want - 1.0).abs() <= share
}

#[test]
fn shares_of_the_peaks_are_those_of_the_data_sheets() {
    // Peak flops (bf16; s8) and bytes a second as published.
    for (chip, dtype, peak, bandwidth) in [
        ("tpu-v5e", DType::BF16, 197e12, 819e9),
        ("tpu-v5e", DType::S8, 394e12, 819e9),
        ("tpu-v6e", DType::BF16, 918e12, 1638e9),
    ] {
        let (a, out) = match dtype {
            DType::S8 => ("s8", "s32"),
            _ => ("bf16", "f32"),
        };
        let text = format!(
            "HloModule m\nENTRY e {{ a = {a}[1024,1024] parameter(0)\n b = {a}[1024,1024] parameter(1)\n \
             ROOT r = {out}[1024,1024] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
        );
        let r = reported(chip, &text);
        let flops = 2.0 * 1024f64.powi(3);
        assert_eq!(r.flops, flops, "{chip} {a}");
        assert!(near(r.time_s, r.cycles as f64 / r.clock_hz, 1e-9), "{chip} {a}: {} s", r.time_s);
        let share = flops / r.time_s / peak;
        assert!(near(r.peak_share, share, 0.01), "{chip} {a}: {} of peak, {share} by the data sheet", r.peak_share);
        let moved = (r.hbm.read_bytes + r.hbm.write_bytes) as f64;
        let least = 1024.0 * 1024.0 * if dtype == DType::S8 { 6.0 } else { 8.0 };
        assert!(moved >= least, "{chip} {a}: {moved} bytes of at least {least}");
        let share = moved / r.time_s / bandwidth;
        assert!(near(r.hbm.share, share, 0.01), "{chip} {a}: {} of HBM, {share} by the data sheet", r.hbm.share);
        for u in &r.units {
            let stalls: u64 = u.stall.values().sum();
            assert_eq!(u.busy + stalls + u.idle, r.cycles, "{chip} {a}: {}", u.unit);
            assert!(u.useful <= u.busy as f64, "{chip} {a}: {}", u.unit);
        }
    }
}

#[test]
fn without_work_every_share_is_zero() {
    for text in ["ENTRY e { ROOT a = s32[0] parameter(0) }", "ENTRY e { ROOT t = () tuple() }"] {
        let r = reported("tpu-v5e", &format!("HloModule m\n{text}"));
        for number in [r.flops, r.peak_share, r.hbm.share] {
            assert_eq!(number.to_bits(), 0f64.to_bits(), "{number} in {text}");
        }
    }
}
