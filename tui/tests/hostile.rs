//! Files that nobody meant to write: sections with wrong numbers and right checksums. They are refused with a message, or
//! every view, table and export of them is drawn without a panic.

use std::sync::Arc;
use systole_runtime::export::{chrome, html, perfetto, xplane};
use systole_runtime::profile::{self, table};
use systole_tui::{App, Data, Event, Key, Phase, Theme, View, export, frame, json, update};

const PROFILE: &[u8] = include_bytes!("data/mlp.sysp");
/// Bytes before a section: kind, checksum, length unpacked, length stored.
const HEAD: usize = 24;

/// The sections of a profile file: kind and unpacked bytes.
fn sections() -> Vec<([u8; 4], Vec<u8>)> {
    let mut rest = &PROFILE[12..];
    let mut out = Vec::new();
    while rest.len() >= HEAD {
        let number = |at: usize| u64::from_le_bytes(rest[at..at + 8].try_into().expect("eight bytes")) as usize;
        let (unpacked, stored) = (number(8), number(16));
        let bytes = &rest[HEAD..HEAD + stored];
        let raw = match stored < unpacked {
            true => lz4_flex::block::decompress(bytes, unpacked).expect("the recorded profile"),
            false => bytes.to_vec(),
        };
        out.push((rest[..4].try_into().expect("four bytes"), raw));
        rest = &rest[HEAD + stored..];
    }
    out
}

fn file(sections: &[([u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut out = PROFILE[..12].to_vec();
    for (kind, raw) in sections {
        profile::section(kind, raw, &mut out).expect("memory takes all");
    }
    out
}

/// Uses everything of a profile.
fn look(p: profile::Profile) {
    table::page(&p, 5);
    html::page(&p);
    xplane::write(&p, 100);
    perfetto::write(&p, 100);
    chrome::write(&p, 100, &mut std::io::sink()).expect("a sink takes all");
    let mut app = App::new("x.sysp", Theme::full(), Phase::Replay);
    update(&mut app, Event::Resize { width: 90, height: 30 });
    update(&mut app, Event::Data(Arc::new(Data::new(p))));
    for view in View::ALL {
        app.view = view;
        for key in Key::script("nn++jj<enter>a") {
            update(&mut app, Event::Key(key));
            frame(&app, 90, 30);
        }
        update(&mut app, Event::Key(Key::script("<esc>")[0]));
        update(&mut app, Event::Key(Key::script("<esc>")[0]));
        json::data(&app);
        assert!(export::for_file(&app, "x.svg").is_ok());
    }
}

#[test]
fn a_whole_file_comes_back_from_its_sections() {
    look(profile::read(&file(&sections())).expect("a profile"));
}

#[test]
fn wrong_numbers_are_refused_or_drawn() {
    let whole = sections();
    let mut state = 99u64;
    let mut random = move |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n.max(1)
    };
    let (mut drawn, mut refused) = (0, 0);
    for round in 0..120 {
        let mut sections = whole.clone();
        let k = random(sections.len() - 1);
        let raw = &mut sections[k].1;
        if raw.is_empty() {
            continue;
        }
        match round % 4 {
            // Digits of a text stay digits, so that it is still read.
            0 => {
                let digits: Vec<usize> = (0..raw.len()).filter(|i| raw[*i].is_ascii_digit()).collect();
                for _ in 0..4 {
                    if let Some(at) = digits.get(random(digits.len())) {
                        raw[*at] = b'0' + random(10) as u8;
                    }
                }
            }
            1 => {
                let at = random(raw.len());
                raw[at] = random(256) as u8;
            }
            2 => {
                let keep = random(raw.len());
                raw.truncate(keep);
            }
            _ => {
                let at = random(raw.len());
                raw.insert(at, random(128) as u8);
            }
        }
        match profile::read(&file(&sections)) {
            Ok(p) => {
                drawn += 1;
                look(p);
            }
            Err(e) => {
                refused += 1;
                assert!(e.to_string().len() > 10, "a message: {e}");
            }
        }
    }
    assert!(drawn > 10 && refused > 10, "{drawn} drawn, {refused} refused");
}

#[test]
fn cuts_at_sections_are_told() {
    let whole = sections();
    for n in 0..whole.len() {
        let error = profile::read(&file(&whole[..n])).expect_err("cut").to_string();
        assert!(error.contains("cut short"), "{n} sections: {error}");
    }
}
