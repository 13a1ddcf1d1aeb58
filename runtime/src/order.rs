//! Places of devices that are worth a try: a program's groups are exchanged fastest where they fill a part of the mesh that is
//! well joined, and the numbers of a group's devices say nothing of that.

use std::collections::BTreeSet;
use systole_isa::Topology;

/// Orders of devices on a topology (device `i` at place `order[i]`), that of their numbers first: along the axes in other
/// sequences, to and fro so that neighbours by number are neighbours, and block by block, of blocks with as many devices as
/// the program's groups (or the steps between a group's devices) have.
pub fn orders(t: &Topology, groups: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let inside = t.devices_per_chip;
    let mut found: Vec<Vec<u32>> = vec![(0..t.devices()).collect()];
    if t.full {
        return found;
    }
    let mut add = |chips: Vec<u32>| {
        let order: Vec<u32> = chips.iter().flat_map(|c| (0..inside).map(move |i| c * inside + i)).collect();
        if !found.contains(&order) {
            found.push(order);
        }
    };
    let axes: Vec<usize> = (0..t.dims.len()).collect();
    let whole = vec![1; t.dims.len()];
    for sequence in sequences(&axes) {
        add(walk(t, &sequence, &whole, false));
        add(walk(t, &sequence, &whole, true));
    }
    for size in sizes(groups, inside) {
        for block in blocks(&t.dims, size) {
            for sequence in sequences(&axes) {
                add(walk(t, &sequence, &block, false));
            }
        }
    }
    for (step, members) in strides(groups, t) {
        let whole = sequences(&axes).into_iter().map(|s| walk(t, &s, &whole, false));
        let boxes = blocks(&t.dims, members).into_iter();
        let boxes = boxes.flat_map(|b| sequences(&axes).into_iter().map(move |s| walk(t, &s, &b, false)));
        for met in whole.chain(boxes) {
            add(gathered(&met, step as usize, members as usize));
        }
    }
    found
}

/// Chips so that groups of so many devices, each `step` after the one before, are next to each other among those that are met.
fn gathered(met: &[u32], step: usize, members: usize) -> Vec<u32> {
    let period = step * members;
    let at = |d: usize| (d / period * step + d % step) * members + d % period / step;
    (0..met.len()).map(|d| met[at(d)]).collect()
}

/// Steps between the chips of groups that are not neighbours by number, and chips of a group, where the mesh is made of such.
fn strides(groups: &[Vec<u32>], t: &Topology) -> BTreeSet<(u32, u32)> {
    let mut all = BTreeSet::new();
    for g in groups {
        let mut g = g.clone();
        g.sort_unstable();
        let steps: BTreeSet<u32> = g.windows(2).map(|w| w[1] - w[0]).collect();
        let (Some(&step), 1) = (steps.first(), steps.len()) else { continue };
        let (chips, members) = (step / t.devices_per_chip, g.len() as u32);
        let fits = chips.checked_mul(members).is_some_and(|n| n > 0 && t.chips().is_multiple_of(n));
        if chips > 1 && step.is_multiple_of(t.devices_per_chip) && fits {
            all.insert((chips, members));
        }
    }
    all
}

/// Chips in the order in which they are met: blocks along the axes of a sequence, the last of which is gone along first, and
/// within a block its chips alike. `turning`: every other row backwards.
fn walk(t: &Topology, sequence: &[usize], block: &[u32], turning: bool) -> Vec<u32> {
    let outer: Vec<u32> = sequence.iter().map(|&a| t.dims[a] / block[a]).collect();
    let inner: Vec<u32> = sequence.iter().map(|&a| block[a]).collect();
    let sizes = [outer, inner].concat();
    let n: u32 = sizes.iter().product();
    (0..n)
        .map(|i| {
            let (mut rest, mut digits) = (i, vec![0; sizes.len()]);
            for (d, &size) in digits.iter_mut().zip(&sizes).rev() {
                (*d, rest) = (rest % size, rest / size);
            }
            if turning {
                // A digit runs backwards where the number before it is odd.
                let mut before = 0;
                for (d, &size) in digits.iter_mut().zip(&sizes) {
                    let own = *d;
                    if before % 2 == 1 {
                        *d = size - 1 - own;
                    }
                    before = before * size + own;
                }
            }
            let mut at = vec![0; t.dims.len()];
            for (k, &a) in sequence.iter().enumerate() {
                at[a] = digits[k] * block[a] + digits[k + sequence.len()];
            }
            at.iter().zip(&t.dims).fold(0, |n, (c, dim)| n * dim + c)
        })
        .collect()
}

/// All sequences of some axes.
fn sequences(axes: &[usize]) -> Vec<Vec<usize>> {
    if axes.len() < 2 {
        return vec![axes.to_vec()];
    }
    let first = |i: usize| {
        let rest: Vec<usize> = axes.iter().copied().filter(|&a| a != axes[i]).collect();
        sequences(&rest).into_iter().map(move |s| [vec![axes[i]], s].concat()).collect::<Vec<_>>()
    };
    (0..axes.len()).flat_map(first).collect()
}

/// Chips of blocks whose devices belong together: those of a group with consecutive numbers, and those between two of a group.
fn sizes(groups: &[Vec<u32>], inside: u32) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    for g in groups {
        let mut g = g.clone();
        g.sort_unstable();
        let Some(step) = g.windows(2).map(|w| w[1] - w[0]).min() else { continue };
        let spans = [step, step.saturating_mul(g.len() as u32)];
        all.extend(spans.into_iter().filter(|s| s.is_multiple_of(inside)).map(|s| s / inside));
    }
    all
}

/// Boxes of so many chips that a mesh of these sizes is made of, but for those that are rows of it.
fn blocks(dims: &[u32], size: u32) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = vec![Vec::new()];
    for &n in dims {
        let longer = |b: &Vec<u32>| {
            let b = b.clone();
            (1..=n).filter(move |k| n.is_multiple_of(*k)).map(move |k| [b.clone(), vec![k]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.retain(|b| b.iter().product::<u32>() == size && b.iter().zip(dims).any(|(k, n)| *k > 1 && k < n));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use systole_isa::ChipConfig;

    fn topology(text: &str) -> Topology {
        let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
        Topology::parse(text, &chip).expect("a topology")
    }

    #[test]
    fn orders_name_every_place_once() {
        for text in ["2x4", "4x4", "2x3", "ring:5", "full:4", "4x8"] {
            let t = topology(text);
            let all = orders(&t, &[(0..4).collect(), vec![0, 2]]);
            assert_eq!(all[0], (0..t.devices()).collect::<Vec<u32>>(), "{text}");
            for o in all {
                assert!(t.clone().ordered(o.clone()).is_ok(), "{text}: {o:?}");
            }
        }
    }

    #[test]
    fn squares_and_snakes_are_among_them() {
        let t = topology("4x4");
        let all = orders(&t, &[(0..4).collect()]);
        assert!(all.contains(&vec![0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]), "{all:?}");
        assert!(all.contains(&vec![0, 1, 2, 3, 7, 6, 5, 4, 8, 9, 10, 11, 15, 14, 13, 12]), "{all:?}");
        assert!(all.contains(&vec![0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]), "{all:?}");
        // Devices 0, 4, 8 and 12 in a square.
        let all = orders(&t, &[vec![0, 4, 8, 12], vec![1, 5, 9, 13], vec![2, 6, 10, 14], vec![3, 7, 11, 15]]);
        assert!(all.contains(&vec![0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15]), "{all:?}");
    }
}
