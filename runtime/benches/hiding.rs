//! Collectives behind matrix products: how much of a collective a product of its own hides that takes longer.
//!
//! `cargo bench -p systole-runtime --bench hiding [-- WORD...]` simulates three programs for each case, timing-only: a
//! product, a collective, and both without a dependence. The hidden share is `1 - (both - product) / collective`. Words
//! choose topologies, collectives, element types and sizes (`4x4x4 all-reduce f32 16`); with none of a sort, all of it.
//! `x2.5`: products that take 2.5 times as long as the collective.

use systole_isa::program::PodShape;
use systole_runtime::pod::{self, Attached, PodOptions};
use systole_runtime::{Client, CompileOptions, Mode, RunOptions, generate};

const PODS: [(&str, &str, u32); 9] = [
    ("tpu-v4", "2x2x2", 8),
    ("tpu-v4", "4x4x4", 64),
    ("tpu-v4", "4x4", 16),
    ("tpu-v5e", "2x4", 8),
    ("tpu-v5e", "ring:4", 4),
    ("tpu-v5e", "ring:8", 8),
    ("tpu-v5e", "ring:16", 16),
    ("tpu-v5e", "4x4:torus", 16),
    ("tpu-v5e", "8x8:torus", 64),
];
const KINDS: [&str; 4] = ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"];
const TYPES: [(&str, u64); 2] = [("f32", 4), ("bf16", 2)];
const SIZES: [u64; 4] = [1, 4, 16, 64];
const COLUMNS: u64 = 1024;

struct Case {
    chip: &'static str,
    topology: &'static str,
    devices: u32,
    kind: &'static str,
    dtype: &'static str,
    /// Rows of the whole array.
    rows: u64,
    /// How many times as long as the collective the product takes, at least.
    times: f64,
}

/// Sizes of a product: result, depth.
type Sizes = (u64, u64);

impl Case {
    fn text(&self, product: Option<Sizes>, collective: bool) -> String {
        let (t, kind, rows, n) = (self.dtype, self.kind, self.rows, u64::from(self.devices));
        let (from, to, more) = match kind {
            "all-reduce" => (rows, rows, ", to_apply=add"),
            "reduce-scatter" => (rows, rows / n, ", dimensions={0}, to_apply=add"),
            "all-gather" => (rows / n, rows, ", dimensions={0}"),
            _ => (rows, rows, ", dimensions={0}"),
        };
        let (d, k) = product.unwrap_or((256, 256));
        let mut lines = Vec::new();
        let mut results = Vec::new();
        if product.is_some() {
            lines.push(format!("d = bf16[{d},{d}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"));
            results.push(("d", format!("bf16[{d},{d}]")));
        }
        if collective {
            lines.push(format!("r = {t}[{to},{COLUMNS}] {kind}(x), replica_groups={{}}{more}"));
            results.push(("r", format!("{t}[{to},{COLUMNS}]")));
        }
        let names: Vec<&str> = results.iter().map(|r| r.0).collect();
        let shapes: Vec<&str> = results.iter().map(|r| r.1.as_str()).collect();
        format!(
            "HloModule m\nadd {{ p = {t}[] parameter(0) q = {t}[] parameter(1) ROOT s = {t}[] add(p, q) }}\n\
             ENTRY e {{ a = bf16[{d},{k}] parameter(0) b = bf16[{k},{d}] parameter(1) \
             x = {t}[{from},{COLUMNS}] parameter(2) {} ROOT t = ({}) tuple({}) }}",
            lines.join(" "),
            shapes.join(", "),
            names.join(", ")
        )
    }

    fn cycles(&self, product: Option<Sizes>, collective: bool) -> Result<u64, String> {
        let c = Client::new(self.chip).map_err(|e| e.to_string())?;
        let topology = pod::topology(Some(self.topology), c.chip(), self.devices).map_err(|e| e.to_string())?;
        let shape = PodShape { replicas: self.devices, topology: Some(topology), ..PodShape::default() };
        let options = CompileOptions::default().on(shape);
        let exe = c.compile_text(&self.text(product, collective), &options).map_err(|e| e.to_string())?;
        let inputs = vec![generate::placeholders(&exe.program, 0)];
        let (options, pods) = (RunOptions::new(Mode::TimingOnly), PodOptions::default());
        let done = c.run_pod(&exe, &inputs, &options, &pods, Attached::default());
        let done = done.map_err(|e| e.to_string())?;
        Ok(done.run.devices.iter().map(|d| d.cycles).max().unwrap_or(0))
    }

    /// A product that takes a fifth longer than the collective, and its cycles.
    fn product(&self, collective: u64) -> Result<(Sizes, u64), String> {
        let wanted = collective as f64 * self.times;
        let chip = Client::new(self.chip).map_err(|e| e.to_string())?.chip().clone();
        let rate = f64::from(chip.mxu.count * chip.mxu.rows * chip.mxu.cols);
        let mut d = 4096;
        while d > 1024 && wanted * rate < (d * d * d) as f64 {
            d /= 2;
        }
        let mut k = ((wanted * rate / (d * d) as f64 / 256.0).ceil() as u64).max(2) * 256;
        loop {
            let cycles = self.cycles(Some((d, k)), false)?;
            if cycles as f64 >= wanted {
                return Ok(((d, k), cycles));
            }
            k = (k as f64 * wanted / cycles as f64 / 256.0).ceil() as u64 * 256 + 256;
        }
    }

    fn report(&self, megabytes: u64) -> Result<(), String> {
        let collective = self.cycles(None, true)?;
        let (sizes, product) = self.product(collective)?;
        let both = self.cycles(Some(sizes), true)?;
        let hidden = 1.0 - (both as f64 - product as f64) / collective as f64;
        println!(
            "{:<8} {:<10} {:<15} {:<5} {megabytes:>4} {collective:>9} {product:>9} {both:>9} {:>6.1} %",
            self.chip,
            self.topology,
            self.kind,
            self.dtype,
            hidden * 100.0
        );
        Ok(())
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let times: f64 = words.iter().find_map(|w| w.strip_prefix('x')?.parse().ok()).unwrap_or(1.2);
    let chosen =
        |all: &[&str], one: &str| !words.iter().any(|w| all.contains(&w.as_str())) || words.iter().any(|w| w == one);
    let pods = PODS.map(|p| p.1);
    let types = TYPES.map(|t| t.0);
    let sizes: Vec<String> = SIZES.iter().map(u64::to_string).collect();
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    println!("chip     topology   collective      type   MiB  alone     product   both      hidden");
    for (chip, topology, devices) in PODS.into_iter().filter(|p| chosen(&pods, p.1)) {
        for kind in KINDS.into_iter().filter(|k| chosen(&KINDS, k)) {
            for (dtype, bytes) in TYPES.into_iter().filter(|t| chosen(&types, t.0)) {
                for megabytes in SIZES.into_iter().filter(|s| chosen(&sizes, &s.to_string())) {
                    let rows = (megabytes << 20) / bytes / COLUMNS;
                    let case = Case { chip, topology, devices, kind, dtype, rows, times };
                    if let Err(e) = case.report(megabytes) {
                        println!("{chip:<8} {topology:<10} {kind:<15} {dtype:<5} {megabytes:>4} {e}");
                    }
                }
            }
        }
    }
}
