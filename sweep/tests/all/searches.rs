//! Members of a population: ranks, and how lonely they are.

use systole_sweep::search::{Member, better, rank};

#[test]
fn ranks_and_crowding() {
    let member = |v: [f64; 2]| Member { genes: vec![0.5], values: v.to_vec(), rank: 9, crowd: 0.0 };
    let mut all: Vec<Member> =
        [[1.0, 4.0], [2.0, 2.0], [4.0, 1.0], [3.0, 3.0], [f64::INFINITY, f64::INFINITY]].map(member).to_vec();
    rank(&mut all);
    assert_eq!(all.iter().map(|m| m.rank).collect::<Vec<_>>(), [0, 0, 0, 1, 2]);
    assert!(all[0].crowd.is_infinite() && all[2].crowd.is_infinite() && all[1].crowd.is_finite());
    assert!(better(&all[0], &all[1]) && better(&all[1], &all[3]));
}
