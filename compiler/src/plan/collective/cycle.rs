//! Round trips through the places of a group, by steps between neighbours where there are such.

/// Longest round trip that is improved by trying all pairs of its edges.
const MOST_TRIED: usize = 64;

/// Coordinates along one axis in ring order: the axis itself where it wraps, else out on the even ones and back on the odd ones.
pub fn round(n: u32, wraps: bool) -> Vec<u32> {
    if wraps || n <= 2 {
        return (0..n).collect();
    }
    (0..n).filter(|c| c % 2 == 0).chain((0..n).rev().filter(|c| c % 2 == 1)).collect()
}

/// A Hamiltonian cycle through a box of these sizes (two or more, each above 1) that needs no link that wraps around:
/// none if the number of places is odd.
pub fn through_box(sizes: &[u32]) -> Option<Vec<Vec<u32>>> {
    // One size is the rows of a grid; the columns are a path through all others.
    let rows = sizes.iter().position(|n| n % 2 == 0)?;
    let others: Vec<u32> = (0..sizes.len()).filter(|&a| a != rows).map(|a| sizes[a]).collect();
    let columns = path(&others);
    if columns.len() < 2 {
        return None;
    }
    let place = |r: u32, c: &[u32]| -> Vec<u32> {
        let mut at = c.to_vec();
        at.insert(rows, r);
        at
    };
    let mut cycle = vec![place(0, &columns[0])];
    for r in 0..sizes[rows] {
        let row = columns[1..].iter().map(|c| place(r, c));
        if r % 2 == 0 { cycle.extend(row) } else { cycle.extend(row.rev()) }
    }
    // Back along the first column.
    cycle.extend((1..sizes[rows]).rev().map(|r| place(r, &columns[0])));
    Some(cycle)
}

/// A path through a box in which one step follows the other, there and back.
fn path(sizes: &[u32]) -> Vec<Vec<u32>> {
    let Some((&first, rest)) = sizes.split_first() else { return vec![Vec::new()] };
    let inner = path(rest);
    let row = |r: u32| -> Vec<Vec<u32>> {
        let mut all: Vec<Vec<u32>> = inner.iter().map(|c| [&[r], c.as_slice()].concat()).collect();
        if r % 2 == 1 {
            all.reverse();
        }
        all
    };
    (0..first).flat_map(row).collect()
}

/// An order of `n` places whose round trip is short: the given one, with stretches turned round while that helps.
pub fn short(n: usize, distance: impl Fn(usize, usize) -> u32) -> Vec<usize> {
    let mut tour: Vec<usize> = (0..n).collect();
    if !(4..=MOST_TRIED).contains(&n) {
        return tour;
    }
    let mut better = true;
    while better {
        better = false;
        for i in 0..n - 2 {
            for j in i + 2..n - usize::from(i == 0) {
                let (a, b, c, d) = (tour[i], tour[i + 1], tour[j], tour[(j + 1) % n]);
                if distance(a, c) + distance(b, d) < distance(a, b) + distance(c, d) {
                    tour[i + 1..=j].reverse();
                    better = true;
                }
            }
        }
    }
    tour
}
