//! A cost model of one's own: the planner asks it to weigh every tile that it considers for a product.
//!
//! This one likes small windows: it adds a cycle for every four rows of vector memory that a tile's row blocks keep busy, as
//! someone would who runs something else in the same memory. Run with `cargo run -p systole-compiler --example cost_model`.

use std::sync::Arc;
use systole_codegen::emit::mxu::{Contraction, Tile};
use systole_compiler::compile::{CompileOptions, plan_module};
use systole_compiler::front::parse_hlo;
use systole_compiler::plan::guide::CostModel;
use systole_isa::ChipConfig;

#[derive(Debug)]
struct SmallWindows;

impl CostModel for SmallWindows {
    fn product(&self, _: &Contraction, tile: &Tile, estimate: f64) -> f64 {
        estimate + 64.0 * f64::from(tile.rows) * f64::from(tile.windows.iter().sum::<u32>())
    }
}

fn main() {
    let text = "HloModule m\nENTRY e { a = bf16[2048,2048] parameter(0) b = bf16[2048,2048] parameter(1) \
                ROOT c = bf16[2048,2048] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    for own in [false, true] {
        let (module, _) = parse_hlo(text).expect("a module");
        let mut options = CompileOptions::for_chip(&chip);
        options.guide.cost = own.then(|| Arc::new(SmallWindows) as Arc<dyn CostModel>);
        let plan = plan_module(module, &chip, &options, text).expect("a plan");
        for k in &plan.kernels {
            let rows = k.needs.scratch_rows;
            println!("{}: {} rows of windows, {:.0} cycles by estimate", k.name, rows, k.cycles.unwrap_or(0.0));
        }
    }
}
