//! Blocks of rows cut over matrix units.

use systole_codegen::emit::mxu::{Dim, slabs};

#[test]
fn slabs_take_the_dimension_that_divides_best() {
    let d = |count, lhs, out| Dim { count, lhs, rhs: 0, out };
    let (walk, lhs, out) = slabs(vec![d(3, 100, 50), d(8, 10, 5)], 4, false).expect("splits");
    assert_eq!((walk, lhs, out), (vec![d(2, 10, 5), d(3, 100, 50)], vec![0, 20, 40, 60], vec![0, 10, 20, 30]));
    let (walk, lhs, _) = slabs(vec![d(7, 10, 5)], 4, false).expect("splits");
    assert_eq!((walk, lhs), (vec![d(2, 10, 5)], vec![0, 20, 40, 50]));
    assert_eq!(slabs(vec![d(1, 0, 0)], 2, false), None);
}
