//! Arrays of any order in memory.

use systole_pjrt::strides::*;

fn offsets(dims: &[u64], strides: &[i64]) -> Vec<i64> {
    let mut out = Vec::new();
    each(dims, strides, |n, o| {
        assert_eq!(n, out.len());
        out.push(o);
    });
    out
}

#[test]
fn orders_and_directions() {
    assert_eq!(offsets(&[2, 3], &row_major(&[2, 3], 4)), [0, 4, 8, 12, 16, 20]);
    assert_eq!(offsets(&[2, 3], &[4, 8]), [0, 8, 16, 4, 12, 20]);
    assert_eq!(offsets(&[3], &[-4]), [0, -4, -8]);
    assert_eq!(offsets(&[2, 2], &[0, 4]), [0, 4, 0, 4]);
    assert_eq!(offsets(&[], &[]), [0]);
    assert!(offsets(&[2, 0], &[4, 4]).is_empty());
}

#[test]
fn layouts_name_every_dimension_once() {
    assert_eq!(of_layout(&[2, 3], &[1, 0], 4), Some(vec![12, 4]));
    assert_eq!(of_layout(&[2, 3], &[0, 1], 4), Some(vec![4, 8]));
    assert_eq!(of_layout(&[2, 3], &[0, 0], 4), None);
    assert_eq!(of_layout(&[2, 3], &[0], 4), None);
}

#[test]
fn extents_reach_backwards_too() {
    assert_eq!(extent(&[3], &[-4], 4), Some((-8, 4)));
    assert_eq!(extent(&[2, 3], &[12, 4], 4), Some((0, 24)));
    assert_eq!(extent(&[0, 3], &[12, 4], 4), Some((0, 0)));
}
