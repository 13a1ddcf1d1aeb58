//! A recorded snapshot gives the recorded frame, at any size. `BLESS=1` writes the frame again.

use systole_runtime::snapshot::{Phase, Snapshot};

const SNAPSHOT: &str = include_str!("data/mlp.json");

#[test]
fn recorded_frame() {
    let snapshot: Snapshot = serde_json::from_str(SNAPSHOT).expect("the recorded snapshot");
    let text = systole_tui::frame(&snapshot, 100, 26);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mlp.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &text).expect("writable");
    }
    assert_eq!(text, std::fs::read_to_string(path).expect("the recorded frame"));
}

#[test]
fn any_size_and_phase_draws() {
    let mut snapshot: Snapshot = serde_json::from_str(SNAPSHOT).expect("the recorded snapshot");
    for phase in [Phase::Compiling, Phase::Running { cycle: 7, bundles: 3 }, Phase::Failed("a\nb".into()), Phase::Done]
    {
        snapshot.phase = phase;
        for (width, height) in [(1, 1), (20, 5), (40, 12), (300, 100)] {
            let text = systole_tui::frame(&snapshot, width, height);
            assert_eq!(text.lines().count(), height as usize);
        }
    }
}
