//! Fronts of points, and the volume behind them.

use systole_sweep::front::{front, hypervolume};

#[test]
fn fronts_and_volumes() {
    let points: Vec<Vec<f64>> =
        [[1.0, 5.0], [2.0, 3.0], [3.0, 3.0], [4.0, 1.0], [5.0, 5.0], [2.0, 3.0]].map(|p| p.to_vec()).to_vec();
    // Equal points are both on the front.
    assert_eq!(front(&points), [0, 1, 3, 5]);
    // 1 wide by 1 high, 2 by 3, 2 by 5 in a corner at 6, 6.
    assert_eq!(hypervolume(&points, &[6.0, 6.0]), 1.0 + 6.0 + 10.0);
    assert_eq!(hypervolume(&[vec![1.0, 1.0, 1.0]], &[2.0, 3.0, 4.0]), 6.0);
    assert!(front(&[]).is_empty());
}
