//! Clients from options, their devices and memories.

use systole_pjrt::client::{Client, Key, MemoryKind};
use systole_simulator::Mode;

#[test]
fn options_make_clients_or_say_what_is_wrong() {
    let with = |chip: &str, topology: &str, mode: &str| {
        let asked = [(Key::Chip, chip), (Key::Topology, topology), (Key::Mode, mode)];
        Client::new(&asked.map(|(key, value)| (key, value.to_string())).into_iter().collect())
    };
    let four = with("tpu-v5e", "2x2", "timing").map_err(|e| e.message).expect("a client");
    assert_eq!(four.devices().len(), 4);
    assert_eq!(four.devices()[3].coordinates, [1, 1, 0]);
    let host: Vec<usize> =
        four.memories().iter().filter(|m| m.kind == MemoryKind::PinnedHost).map(|m| m.device).collect();
    assert_eq!(host, [0, 1, 2, 3]);
    assert_eq!(MemoryKind::named("pinned_host"), Some(MemoryKind::PinnedHost));
    assert_eq!(four.mode(), Mode::TimingOnly);
    assert_eq!(with("tiny", "", "").map_err(|e| e.message).expect("a client").devices().len(), 1);
    for (chip, topology, mode, part) in
        [("tpu-v99", "", "", "tpu-v99"), ("tiny", "2y2", "", "2y2"), ("tiny", "", "fast", "fast")]
    {
        let e = with(chip, topology, mode).err().expect("an error");
        assert!(e.message.contains(part), "{}", e.message);
    }
}
