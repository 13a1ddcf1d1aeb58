//! All orders, sets, partitions and sums of a few things: what ways round a topology are chosen from.

/// All orders of `0..n`.
pub fn orders(n: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for i in 0..n {
        let grown = all.iter().flat_map(|o: &Vec<usize>| {
            (0..=o.len()).map(move |at| {
                let mut o = o.clone();
                o.insert(at, i);
                o
            })
        });
        all = grown.collect();
    }
    all
}

/// All sets of `size` of `0..n`.
pub fn sets(n: usize, size: usize) -> Vec<Vec<usize>> {
    let all = (0..1u32 << n.min(16)).filter(|m| m.count_ones() as usize == size);
    all.map(|m| (0..n).filter(|i| m >> i & 1 == 1).collect()).collect()
}

/// All ways to write a number as a sum of `n` others above 0, in order.
pub fn compositions(sum: u32, n: usize) -> Vec<Vec<u32>> {
    if n <= 1 {
        return vec![vec![sum; n]];
    }
    let rest = |first: u32| {
        compositions(sum - first, n - 1).into_iter().map(move |mut c| {
            c.insert(0, first);
            c
        })
    };
    (1..=sum.saturating_sub(n as u32 - 1)).flat_map(rest).collect()
}

/// All partitions of `0..n` into sets, the finest one first.
pub fn partitions(n: usize) -> Vec<Vec<Vec<usize>>> {
    let mut all: Vec<Vec<Vec<usize>>> = vec![Vec::new()];
    for i in 0..n {
        let grown = all.iter().flat_map(|p| {
            let alone = p.iter().cloned().chain([vec![i]]).collect();
            let with = (0..p.len()).map(|s| {
                let mut p = p.clone();
                p[s].push(i);
                p
            });
            std::iter::once(alone).chain(with).collect::<Vec<_>>()
        });
        all = grown.collect();
    }
    all
}
