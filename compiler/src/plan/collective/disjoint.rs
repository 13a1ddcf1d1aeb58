//! Hamiltonian cycles of a torus that share no link: as many as it has axes, so that rings along them use all its links.

/// Most exchanges of links that are tried.
const MOST_TRIED: u32 = 200_000;

/// Links of a torus, each of one class; every place has two links of every class.
///
/// At first a class is all links along an axis: many cycles. Two links of a class on opposite sides of a square are exchanged for
/// the other two, if those are of one class: every place keeps two of each, and cycles join (or come apart).
struct Classes<'a> {
    sizes: &'a [u32],
    /// By place and axis: the class of the link to the next place along the axis.
    of: Vec<u8>,
}

impl Classes<'_> {
    fn axes(&self) -> usize {
        self.sizes.len()
    }

    fn places(&self) -> usize {
        self.sizes.iter().map(|&n| n as usize).product()
    }

    /// The place one step along an axis.
    fn step(&self, place: usize, axis: usize, back: bool) -> usize {
        let inner: usize = self.sizes[axis + 1..].iter().map(|&n| n as usize).product();
        let n = self.sizes[axis] as usize;
        let c = place / inner % n;
        let to = if back { (c + n - 1) % n } else { (c + 1) % n };
        place - c * inner + to * inner
    }

    /// The two places that links of a class lead to.
    fn beside(&self, place: usize, class: u8) -> [usize; 2] {
        let mut found = [place; 2];
        let mut count = 0;
        for axis in 0..self.axes() {
            for back in [false, true] {
                let to = self.step(place, axis, back);
                let link = if back { to } else { place } * self.axes() + axis;
                if self.of[link] == class {
                    found[count.min(1)] = to;
                    count += 1;
                }
            }
        }
        debug_assert_eq!(count, 2, "links of a class at a place");
        found
    }

    /// The cycle of a class that goes through a place.
    fn cycle(&self, from: usize, class: u8) -> Vec<usize> {
        let (mut before, mut at) = (from, self.beside(from, class)[0]);
        let mut cycle = vec![from];
        while at != from {
            cycle.push(at);
            let [a, b] = self.beside(at, class);
            (before, at) = (at, if a == before { b } else { a });
        }
        cycle
    }

    /// Cycles of a class.
    fn cycles(&self, class: u8) -> usize {
        let mut seen = vec![false; self.places()];
        let mut count = 0;
        for place in 0..seen.len() {
            if !seen[place] {
                self.cycle(place, class).into_iter().for_each(|p| seen[p] = true);
                count += 1;
            }
        }
        count
    }

    /// The links of a square: opposite ones beside each other.
    fn square(&self, place: usize, (a, b): (usize, usize)) -> [usize; 4] {
        let k = self.axes();
        [place * k + a, self.step(place, b, false) * k + a, place * k + b, self.step(place, a, false) * k + b]
    }

    /// Exchanges the classes of a square's links; none if it is none.
    fn exchange(&mut self, [a, c, b, d]: [usize; 4]) -> Option<(u8, u8)> {
        let (x, y) = (self.of[a], self.of[b]);
        if x != self.of[c] || y != self.of[d] || x == y {
            return None;
        }
        for (link, class) in [(a, y), (c, y), (b, x), (d, x)] {
            self.of[link] = class;
        }
        Some((x, y))
    }
}

/// Cycles through all places of a torus of these sizes (two or more, each above 2), one for each axis, that share no link: by
/// exchanging links of cycles at random, but always the same ones. None if none are found.
pub fn disjoint_cycles(sizes: &[u32]) -> Option<Vec<Vec<Vec<u32>>>> {
    let k = sizes.len();
    if k < 2 || sizes.iter().any(|&n| n < 3) {
        return None;
    }
    let places: usize = sizes.iter().map(|&n| n as usize).product();
    let of = (0..places).flat_map(|_| 0..k as u8).collect();
    let mut all = Classes { sizes, of };
    let mut counts: Vec<usize> = (0..k as u8).map(|class| all.cycles(class)).collect();
    let mut random = 1u64;
    let mut below = |n: usize| {
        // Knuth's constants for a linear congruential generator of 64 bits; its high bits are the better ones.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % n
    };
    for _ in 0..MOST_TRIED {
        if counts.iter().all(|&c| c == 1) {
            let coordinates = |place: usize| {
                let inner = |a: usize| sizes[a + 1..].iter().map(|&n| n as usize).product::<usize>();
                (0..k).map(|a| (place / inner(a) % sizes[a] as usize) as u32).collect()
            };
            let cycle = |class: u8| all.cycle(0, class).into_iter().map(coordinates).collect();
            return Some((0..k as u8).map(cycle).collect());
        }
        let (place, a) = (below(places), below(k));
        let b = (a + 1 + below(k - 1)) % k;
        let square = all.square(place, (a, b));
        let Some((x, y)) = all.exchange(square) else { continue };
        let (now_x, now_y) = (all.cycles(x), all.cycles(y));
        if now_x + now_y <= counts[x as usize] + counts[y as usize] {
            (counts[x as usize], counts[y as usize]) = (now_x, now_y);
        } else {
            all.exchange(square);
        }
    }
    None
}
