//! Compile options by name.

use std::collections::BTreeMap;
use systole_isa::ChipConfig;
use systole_pjrt::options::*;
use systole_pjrt::proto::Override;
use systole_pjrt::proto::Value;
use systole_runtime::CompileOptions;

fn applied(name: &str, value: Value) -> Result<CompileOptions, String> {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let mut o = CompileOptions { verify: false, ..CompileOptions::default() };
    let given = BTreeMap::from([(name.to_string(), Override { value: Some(value) })]);
    apply(&mut o, &given, &chip).map(|()| o).map_err(|e| e.message)
}

#[test]
fn options_are_taken_by_name() {
    let vmem = |name, value| applied(name, value).map(|o| o.guide.scoped_vmem);
    assert_eq!(vmem("systole_scoped_vmem", Value::Text("2MiB".into())), Ok(Some(2 << 20)));
    assert_eq!(vmem(SCOPED_VMEM, Value::Int(4096)), Ok(Some(4 << 20)));
    assert_eq!(applied("systole_verify", Value::Bool(true)).map(|o| o.verify), Ok(true));
    assert_eq!(vmem("xla_dump_max_hlo_modules", Value::Int(200)), Ok(None));
    assert_eq!(vmem("xla_embed_ir_in_executable", Value::Bool(false)), Ok(None));
}

#[test]
fn what_is_wrong_says_what_is_right() {
    let refused = |name: &str, value| applied(name, value).map(|_| ()).expect_err("refused");
    for name in ["invalid_key", "systole_speed", "precision"] {
        let e = refused(name, Value::Text("x".into()));
        assert!(e.contains(&format!("No such compile option: '{name}'")) && e.contains("systole_precision"), "{e}");
    }
    let e = refused("systole_precision", Value::Float(0.5));
    assert!(e.contains("systole_precision=0.5: one of default, high, highest"), "{e}");
    let e = refused("xla_embed_ir_in_executable", Value::Text("invalid_value".into()));
    assert!(e.contains("is not a valid bool value."), "{e}");
}
