//! Single decisions of planning: what is padding, what is moved by words, what lies in common memory, what cores combine.

use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::loops::spec::ExprOp;
use systole_codegen::emit::moves::spec::{MoveSpec, Side};
use systole_compiler::compile::{CompileOptions, plan_module};
use systole_compiler::front::parse_hlo;
use systole_compiler::graph::Binary;
use systole_compiler::plan::Plan;
use systole_compiler::plan::lower::moving::in_words;
use systole_compiler::plan::memory::common::choose;
use systole_compiler::plan::memory::lifetime::Lifetimes;
use systole_compiler::plan::spec::KernelSpec;
use systole_compiler::plan::view::BufId;
use systole_isa::{ChipConfig, DType};

fn planned(text: &str, chip: &ChipConfig, cores: u32) -> Plan {
    let (module, _) = parse_hlo(text).expect("a module");
    let options = CompileOptions { cores, ..CompileOptions::for_chip(chip) };
    plan_module(module, chip, &options, text).expect("it fits")
}

/// A move of `[2, rows, 64]` along sublanes, heads side by side, whose destination begins `first` rows further.
fn heads(dtype: DType, rows: u32, first: i64) -> MoveSpec {
    let side = |head: i64, lanes: i64, row_offset: i64| Side {
        rows: vec![head, 1, 0],
        lanes: vec![lanes, 0, 1],
        row_offset,
        plane_rows: 64,
        component_rows: 64,
        ..Side::default()
    };
    MoveSpec { dtype, sizes: vec![2, rows, 64], src: side(32, 0, 0), dst: side(0, 64, first) }
}

#[test]
fn rows_that_share_words_move_together() {
    let words = in_words(&heads(DType::BF16, 20, 4), false).expect("ten words");
    assert_eq!((words.dtype, &words.sizes[..]), (DType::U32, &[2, 10, 64][..]));
    assert_eq!((&words.src.rows[..], &words.dst.rows[..]), (&[16, 1, 0][..], &[0, 1, 0][..]));
    assert_eq!((words.dst.row_offset, words.dst.plane_rows), (2, 32));
    assert_eq!(in_words(&heads(DType::S8, 20, 4), false).map(|s| s.sizes[1]), Some(5));
}

#[test]
fn parts_of_words_stay_elements() {
    assert_eq!(in_words(&heads(DType::F32, 20, 4), true), None, "a word each");
    assert_eq!(in_words(&heads(DType::BF16, 20, 3), true), None, "other places in words");
    assert_eq!(in_words(&heads(DType::BF16, 21, 4), false), None, "the rest of the last word is another's");
    assert_eq!(in_words(&heads(DType::BF16, 21, 4), true).map(|s| s.sizes[1]), Some(11));
}

#[test]
fn what_is_reached_often_for_its_time_goes_first() {
    // Of three arrays that are there at step 5, the long-lived one stays away.
    let life = Lifetimes {
        reads: vec![vec![90], vec![6], vec![5, 6]],
        writes: vec![vec![1], vec![5], vec![4]],
        last: vec![90, 6, 6],
    };
    let all = [(BufId(0), 50), (BufId(1), 60), (BufId(2), 40)];
    let mut chosen = choose(&life, &all, 100);
    chosen.sort();
    assert_eq!(chosen, [BufId(1), BufId(2)]);
    assert_eq!(choose(&life, &all, 150).len(), 3);
    assert!(choose(&life, &all, 30).is_empty());
}

#[test]
fn padding_is_what_memory_has_and_the_array_does_not() {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    for (dims, share) in [("1024,128", 1.0), ("1024,64", 0.5), ("5,3", 15.0 / 4096.0)] {
        let text = format!("HloModule m\nENTRY e {{ x = f32[{dims}] parameter(0) ROOT r = f32[{dims}] tanh(x) }}");
        let plan = planned(&text, &chip, 1);
        let op = plan.ops.iter().find(|o| o.name == "r").expect("an operation");
        assert_eq!(op.padding, 1.0 - share, "{dims}");
    }
}

#[test]
fn parts_of_cores_are_folded_in_their_order() {
    let text = "HloModule m
total { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
ENTRY e { x = s32[8192,32] parameter(0) zero = s32[] constant(0)
  ROOT r = s32[32] reduce(x, zero), dimensions={0}, to_apply=total }";
    let mut chip = ChipConfig::from_preset("tiny").expect("a preset");
    chip.apply_sets(&["cores=4", "cores_per_device=4"].map(String::from)).expect("in range");
    let plan = planned(text, &chip, 4);
    let combine = plan.kernels.iter().find_map(|k| match &k.spec {
        KernelSpec::Body(Body::Loop(s)) if s.inputs.len() == 4 => Some(&s.expr),
        _ => None,
    });
    let nodes = &combine.expect("a loop over the results of all cores").nodes;
    assert!(nodes[..4].iter().enumerate().all(|(i, n)| n.op == ExprOp::Input(i as u32)));
    let sums: Vec<&[u32]> = nodes[4..].iter().map(|n| &n.args[..]).collect();
    assert_eq!(sums, [[0, 1], [4, 2], [5, 3]]);
    assert!(nodes[4..].iter().all(|n| n.op == ExprOp::Binary(Binary::Add)));
}
