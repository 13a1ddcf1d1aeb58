//! What signatures say of arguments, and errors with their line of Python.

use systole_isa::ChipConfig;
use systole_pjrt::client::MemoryKind;
use systole_pjrt::compile::*;
use systole_pjrt::error::Error;
use systole_pjrt::executable::Memories;
use systole_runtime::source::{self, Source};

const TEXT: &str = r#"module @jit_f {
  func.func public @main(%0: tensor<2x3xf32> {jax.buffer_donor = true}, %1: tensor<f32>, %2: tensor<?xf32, #stablehlo.bounds<4>> {mhlo.sharding = "{a, b}", tf.aliasing_output = 0 : i32}) -> (tensor<f32>) {
%3 = "stablehlo.add"(%1, %1) : (tensor<f32>, tensor<f32>) -> (tensor<f32>) loc(#loc7)
  }
}
#loc7 = loc("jit(f)/add"(callsite("f"("a.py":3:4) at "g"("b.py":5:6))))
"#;

#[test]
fn parameters_given_away_are_found() {
    assert_eq!(donated(&signature(TEXT).0), [0, 2]);
    assert_eq!(signature("HloModule m"), (Vec::new(), Vec::new()));
}

#[test]
fn memories_are_those_that_the_signature_says() {
    let text = r#"func.func public @main(%0: tensor<4xf32> {a = "x) -> (", mhlo.memory_kind = "pinned_host"}, %1: tensor<i32>)
        -> (tensor<4xf32>, tensor<4xf32> {jax.result_info = "result[1]", mhlo.memory_kind = "unpinned_host"}) {"#;
    let text = text.replace(")\n        ->", ") ->");
    let (parameters, results) = signature(&text);
    let found = memories(&parameters, &results).map_err(|e| e.message);
    let (host, device) = (MemoryKind::PinnedHost, MemoryKind::Device);
    let due = Memories { parameters: vec![host, device], results: vec![device, MemoryKind::UnpinnedHost] };
    assert_eq!(found, Ok(due));
    let e = memories(&[r#"%0: tensor<f32> {mhlo.memory_kind = "tape"}"#], &[]).expect_err("an error");
    assert!(e.message.contains("tape"), "{}", e.message);
}

#[test]
fn errors_name_the_line_of_python() {
    let chip = ChipConfig::from_preset("tiny").expect("a preset");
    let e = located(Error::invalid("error: no\n  --> jax.mlir:3:5"), TEXT, &chip);
    assert!(e.message.ends_with("in jit(f)/add at a.py:3"), "{}", e.message);
    let e = located(Error::invalid("error: no\n  --> jax.mlir:99:5"), TEXT, &chip);
    assert!(e.message.ends_with(":5"), "{}", e.message);
    let region = TEXT.replace(" loc(#loc7)", " ({\n    ^bb0:\n      x loc(#loc8)\n    }, {\n    }) loc(#loc7)");
    assert_eq!(python(&region, 3).as_deref(), Some("jit(f)/add at a.py:3"));
    let source = "module @m {\n  func.func public @main(%0: tensor<4xf32>) -> tensor<4xf32> {\n    \
                  %1 = stablehlo.sine %0 : tensor<4xf32> loc(#loc7)\n    return %1 : tensor<4xf32>\n  }\n}\n\
                  #loc7 = loc(\"jit(f)/sin\"(callsite(\"f\"(\"a.py\":3:4) at \"g\"(\"b.py\":5:6))))\n";
    let read = source::read_one("m", source.as_bytes(), &chip, false, &mut Vec::new()).map_err(|e| e.to_string());
    let Ok(Source::Module { module, .. }) = read else { panic!("a module") };
    let name = &module.entry().node(module.entry().root).name;
    let e = located(Error::invalid(format!("HBM: too small (placing `{name}-37`)")), source, &chip);
    assert!(e.message.ends_with("in jit(f)/sin at a.py:3"), "{}", e.message);
}
