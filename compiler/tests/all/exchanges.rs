//! Plans of programs with exchanges: what runs beside them, and what is estimated of it.

use systole_compiler::compile::{CompileOptions, plan_module};
use systole_compiler::front::parse_hlo;
use systole_compiler::plan::action::Action;
use systole_compiler::plan::collective::Work;
use systole_compiler::plan::{Plan, spec::KernelSpec};
use systole_isa::program::PodShape;
use systole_isa::topology::Topology;
use systole_isa::{ChipConfig, DType};

fn planned(text: &str, devices: u32, topology: &str) -> Plan {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let mut options = CompileOptions::for_chip(&chip);
    let topology = Some(Topology::parse(topology, &chip).expect("a topology"));
    options.passes.asked.pod = PodShape { replicas: devices, topology, ..PodShape::default() };
    let (module, _) = parse_hlo(text).expect("a module");
    plan_module(module, &chip, &options, text).expect("it fits")
}

/// A product, a loop in blocks and one in vector memory, none of which needs the reduction.
const PROGRAM: &str = include_str!("../programs/exchange_beside_kernels.hlo");

#[test]
fn long_kernels_look_after_exchanges_and_are_estimated_without() {
    let plan = planned(PROGRAM, 8, "2x4");
    let begins = plan.actions.iter().position(|a| matches!(a, Action::Begin(..))).expect("it is hidden");
    let called = |a: &Action| match a {
        Action::Call { kernel, .. } => Some(&plan.kernels[*kernel]),
        _ => None,
    };
    let beside: Vec<_> = plan.actions[begins..].iter().filter_map(called).collect();
    assert!(beside.iter().any(|k| matches!(k.spec, KernelSpec::Product { .. })), "the product is beside it");
    assert!(beside.iter().filter(|k| matches!(k.spec, KernelSpec::Blocks { .. })).count() >= 2, "and both loops");
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let product = 2.0 * 2048f64.powi(3) / chip.peak_flops_per_cycle(DType::BF16);
    let moved = 2.0 * 4.0 * 8192f64.powi(2) / chip.hbm_bytes_per_cycle();
    for k in beside {
        assert!(k.spec.looks().is_some(), "{} does not look", k.name);
        let cycles = k.cycles.expect("an estimate");
        // What a kernel by itself cannot be below: its operations, or its bytes.
        let floor = if matches!(k.spec, KernelSpec::Product { .. }) { product } else { moved };
        assert!(cycles < 1.5 * floor, "{}: {cycles} of {floor} cycles", k.name);
    }
}

/// A reduction with so much beside it that it goes in larger pieces, while kernels that no step needs any more are dropped.
#[test]
fn reductions_add_whatever_is_beside_them() {
    let mut text = "HloModule m
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
ENTRY e {
  x0 = f32[1024,1024] parameter(0)
  w = f32[1024,1024] parameter(1)
  g = s32[1024,1024] parameter(2)
  half = f32[] constant(0.5)
  bias = f32[1024,1024] broadcast(half), dimensions={}
  r = s32[1024,1024] all-reduce(g), replica_groups={}, to_apply=add
"
    .to_string();
    for i in 0..12 {
        text += &format!(
            "d{i} = f32[1024,1024] dot(x{i}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
             a{i} = f32[1024,1024] add(d{i}, bias) x{} = f32[1024,1024] tanh(a{i})\n",
            i + 1
        );
    }
    let plan = planned(&(text + "ROOT all = (s32[1024,1024], f32[1024,1024]) tuple(r, x12) }"), 4, "ring:4");
    let begun = |a: &Action| if let Action::Begin(x, _) = a { Some(x.clone()) } else { None };
    let exchange = plan.actions.iter().find_map(begun).expect("it is hidden");
    let phases: Vec<_> = exchange.all_rings().flat_map(|r| &r.phases).filter(|p| p.work == Work::Reduce).collect();
    assert!(!phases.is_empty());
    for p in phases {
        let kernel = &plan.kernels[p.kernel.expect("a reduction adds")];
        assert_eq!((kernel.name.as_str(), p.pieces.of_rows), ("combine", 1));
    }
}
