//! Coefficients of energy and area: complete, with sources, and apart from what code depends on.

use systole_isa::chip::ChipConfig;
use systole_isa::chip::costs::{Cost, Costs, NODE_NAMES};

#[test]
fn every_node_has_every_cost_and_no_other() {
    for name in NODE_NAMES {
        let costs = Costs::of_node(name, "a test").unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(costs.rows.len(), Cost::ALL.len());
        let file = format!("{}/../chips/costs/{}.toml", env!("CARGO_MANIFEST_DIR"), name.to_lowercase());
        let table: toml::Table = std::fs::read_to_string(&file).expect(&file).parse().expect(&file);
        for key in table.keys() {
            assert!(Cost::ALL.iter().any(|c| c.info().0 == key), "{name}: {key}");
        }
    }
}

#[test]
fn bare_numbers_and_numbers_without_source_are_refused() {
    let file = |row: &str| ChipConfig::from_toml(&format!("base = \"tiny\"\n[costs]\n{row}\n"), "c.toml");
    for (row, part) in [
        ("mac_bf16 = 0.7", "a number without its source is refused"),
        ("mac_bf16 = { value = 0.7, low = 0.5, high = 0.9, quality = \"M\" }", "a number without its source"),
        ("mac_bf16 = { value = 0.7, low = 0.8, high = 0.9, quality = \"M\", source = \"x\" }", "outside its range"),
        ("mac_bf16 = { value = -1, low = -2, high = 0.9, quality = \"M\", source = \"x\" }", "no number from 0 on"),
        ("mac_bf61 = { value = 1, low = 1, high = 1, quality = \"M\", source = \"x\" }", "did you mean `mac_bf16`?"),
        ("node = \"N7\"", "a node without its source is refused"),
        ("node = { value = \"N6\", source = \"x\" }", "one of N28, N16, N7"),
    ] {
        let e = file(row).expect_err(row).to_string();
        assert!(e.contains(part) && e.contains("c.toml:3"), "{row}: {e}");
    }
    let row = "node = { value = \"N5\", source = \"x\" }\nidle = { value = 0.1, low = 0.05, high = 0.2, quality = \"L\", source = \"x\" }";
    let chip = file(row).expect("good");
    assert_eq!((chip.costs.node.as_str(), chip.costs.get(Cost::Idle)), ("N5", 0.1));
    assert_eq!(chip.costs.get(Cost::MacBf16), 0.70);
}

#[test]
fn overrides_change_prices_and_not_the_fingerprint() {
    let base = ChipConfig::from_preset("tpu-v4").expect("a preset");
    let mut c = base.clone();
    c.apply_sets(&["costs.mac_bf16=0.7", "costs.idle=0.2"]).expect("in range");
    assert_eq!((c.costs.get(Cost::MacBf16), c.costs.get(Cost::Idle)), (0.7, 0.2));
    assert_eq!(c.fingerprint(), base.fingerprint());
    c.apply_set("costs.node=N3").expect("a node");
    assert_eq!(c.costs.get(Cost::MacBf16), 0.48);
    assert!(c.apply_set("costs.node=N1").is_err() && c.apply_set("costs.mac_bf16=-1").is_err());
}
