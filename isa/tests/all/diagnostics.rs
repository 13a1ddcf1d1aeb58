//! Messages with their place in a text.

use systole_isa::diagnostic::{Diagnostic, Place};

#[test]
fn a_caret_stands_under_the_word() {
    let source = "one\n\ttwo three\nfour";
    let start = source.find("three").expect("in the source");
    let d = Diagnostic::new("no").at(Place::new("f.s", source, start, start + 5)).help("four?");
    assert_eq!(d.to_string(), "no\n --> f.s:2:6\n  |\n2 | \ttwo three\n  | \t    ^^^^^\n  = four?");
}

#[test]
fn a_place_survives_any_range() {
    for (start, end) in [(0, 0), (1, 99), (99, 3), (2, 1)] {
        let p = Place::new("f", "ä\nb", start, end);
        assert!(p.width >= 1 && p.line >= 1);
    }
}
