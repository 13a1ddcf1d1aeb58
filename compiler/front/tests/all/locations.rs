//! Where operations of StableHLO come from, as `metadata` has it.

use systole_front::parse_stablehlo;

/// The metadata of an operation at a location, in a module with these definitions.
fn metadata(definitions: &str, form: &str) -> Option<String> {
    let text = format!(
        "{definitions}\nmodule {{\n  func.func public @main(%x: tensor<f32>) -> tensor<f32> {{\n    \
         %y = stablehlo.negate %x : tensor<f32> loc({form})\n    return %y : tensor<f32>\n  }}\n}}\n"
    );
    let (modules, _) = parse_stablehlo(&text).unwrap_or_else(|e| panic!("{form}: {}", e[0].message));
    let entry = modules[0].entry();
    let found = entry.node(entry.root).attributes.iter().find(|a| a.0 == "metadata");
    found.map(|a| a.1.clone())
}

#[test]
fn names_and_the_innermost_line_are_kept() {
    let definitions = "#loc1 = loc(\"f\"(\"a.py\":1:2 to :9))\n#loc2 = loc(\"a.py\":7:0)";
    for (form, expected) in [
        ("\"jit(f)/add\"(#loc1)", Some(r#"{op_name="jit(f)/add" source_file="a.py" source_line=1}"#)),
        ("callsite(#loc1 at #loc2)", Some(r#"{source_file="a.py" source_line=1}"#)),
        ("#loc2", Some(r#"{source_file="a.py" source_line=7}"#)),
        ("\"only a name\"", Some(r#"{op_name="only a name"}"#)),
        ("unknown", None),
        ("#loc9", None),
    ] {
        assert_eq!(metadata(definitions, form).as_deref(), expected, "{form}");
    }
}

#[test]
fn definitions_that_name_themselves_end() {
    assert_eq!(metadata("#loc1 = loc(callsite(#loc1 at #loc1))", "#loc1"), None);
}
