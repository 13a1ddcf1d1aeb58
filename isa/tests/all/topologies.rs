//! How the chips of a pod are joined, and the ways between them.

use systole_isa::ChipConfig;
use systole_isa::topology::{Hop, Topology};

fn chip(name: &str) -> ChipConfig {
    ChipConfig::from_preset(name).expect("a preset")
}

#[test]
fn texts_give_axes_and_wraps() {
    for (preset, text, want) in [
        ("tpu-v4", "ring:8", Ok("8:torus")),
        ("tpu-v4", "2x4", Ok("2x4:mesh,torus")),
        ("tpu-v4", "2x2x2", Ok("2x2x2:mesh,mesh,mesh")),
        ("tpu-v4", "4x4x4:mesh", Ok("4x4x4:mesh,mesh,mesh")),
        ("tpu-v5e", "2x4", Ok("2x4:mesh,mesh")),
        ("tpu-v5e", "16x16", Ok("16x16:torus,torus")),
        ("tpu-v5e", "4x4:torus", Ok("4x4:torus,torus")),
        ("tpu-v5e", "4x4:torus,mesh", Ok("4x4:torus,mesh")),
        ("tpu-v5e", "full:4", Ok("full:4")),
        ("tpu-v5e", "2x2x2", Err("needs 6 links")),
        ("tpu-v5e", "full:8", Err("needs 7 links")),
        ("tpu-v4", "2x2x2x2", Err("4 axes")),
        ("tpu-v4", "0x4", Err("no number")),
        ("tpu-v4", "ring", Err("size is missing")),
        ("tpu-v4", "4x4:tree", Err("neither")),
        ("tpu-v1-like", "ring:4", Err("has 0")),
    ] {
        let read = Topology::parse(text, &chip(preset)).map(|t| t.to_string());
        match (&read, want) {
            (Ok(read), Ok(want)) => assert_eq!(read, want, "{text}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("{text}: {read:?}, {want:?} expected"),
        }
    }
}

#[test]
fn chips_have_the_links_of_their_place() {
    for (text, links) in [
        ("2x4:mesh", &[2, 3, 3, 2, 2, 3, 3, 2][..]),
        ("2x4:mesh,torus", &[3; 8]),
        ("ring:4", &[2; 4]),
        ("full:5", &[4; 5]),
        ("1", &[0]),
    ] {
        let t = Topology::parse(text, &chip("tpu-v4")).expect(text);
        assert_eq!((0..t.chips()).map(|c| t.links(c)).collect::<Vec<_>>(), links, "{text}");
    }
}

#[test]
fn printed_topologies_are_read_again() {
    for text in ["ring:8", "2x4", "4x4:torus,mesh", "full:5"] {
        let t = Topology::parse(text, &chip("tpu-v4")).expect("legal");
        assert_eq!(Topology::printed(&t.to_string(), t.devices_per_chip), Some(t), "{text}");
    }
    for text in ["8", "2x4:torus", "2x:mesh,mesh", "full:many", "2x2:torus,tree"] {
        assert_eq!(Topology::printed(text, 1), None, "{text}");
    }
}

#[test]
fn devices_are_where_the_order_says() {
    let t = Topology::parse("2x2", &chip("tpu-v5e")).expect("legal");
    let moved = t.clone().ordered(vec![3, 1, 0, 2]).expect("every place once");
    assert_eq!((0..4).map(|d| moved.chip_of(d)).collect::<Vec<_>>(), [3, 1, 0, 2]);
    assert_eq!(moved.route(0, 1, true).len(), 1);
    assert_eq!(t.clone().ordered(vec![0, 1, 2, 3]), Ok(t.clone()));
    for (order, why) in [(vec![0, 1, 2], "has 3 places"), (vec![0, 1, 1, 2], "twice"), (vec![0, 1, 2, 4], "place 4")] {
        let error = t.clone().ordered(order).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn routes_arrive_by_the_shortest_way() {
    for (preset, text) in
        [("tpu-v4", "4x4x4"), ("tpu-v5e", "3x5"), ("tpu-v4", "ring:7"), ("tpu-v7", "2x4"), ("tpu-v5e", "full:5")]
    {
        let t = Topology::parse(text, &chip(preset)).expect("legal");
        for from in 0..t.devices() {
            for to in 0..t.devices() {
                let mut at = t.chip_of(from);
                for hop in t.route(from, to, true) {
                    assert_eq!(hop.chip, at);
                    if hop.port != Hop::INSIDE {
                        at = t.neighbour(hop).expect("a link");
                    }
                }
                assert_eq!(at, t.chip_of(to), "{text}: {from} to {to}");
            }
        }
    }
    let t = Topology::parse("4x4:torus", &chip("tpu-v5e")).expect("legal");
    assert_eq!((t.route(0, 2, true).len(), t.route(0, 15, true).len()), (2, 2));
    assert_eq!((t.route(0, 2, true)[0].port, t.route(0, 2, false)[0].port), (2, 3));
}

#[test]
fn defaults_are_as_square_as_they_can_be() {
    for (preset, devices, want) in
        [("tpu-v4", 64, "4x4x4"), ("tpu-v5e", 8, "2x4"), ("tpu-v5e", 7, "7"), ("tpu-v7", 8, "2x2"), ("tpu-v4", 2, "2")]
    {
        let t = Topology::default_for(&chip(preset), devices).expect("links");
        assert_eq!(t.to_string().split(':').next(), Some(want), "{preset} {devices}");
    }
    assert!(Topology::default_for(&chip("tpu-v1-like"), 2).is_err());
}
