//! Knees of curves.

use systole_sweep::sensitivity::knee;

#[test]
fn knees() {
    // Falls fast, then hardly.
    assert_eq!(knee(&[(1.0, 10.0), (2.0, 5.0), (3.0, 2.0), (4.0, 1.5), (5.0, 1.2), (6.0, 1.0)]), Some(2));
    assert_eq!(knee(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), None);
    assert_eq!(knee(&[(1.0, 3.0)]), None);
}
