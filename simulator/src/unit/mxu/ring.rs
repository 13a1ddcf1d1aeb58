//! Times of a queue's entries, by number: mostly equally far apart, and captured as runs of such.

/// Times by number, for as many of the last numbers as were asked for.
#[derive(Debug)]
pub(super) struct Ring {
    /// Each with how many times up to it are equally far apart: two at least, counting what was there before the first.
    times: Vec<(u64, u32)>,
    mask: u64,
    /// The time that was set last, how far it is behind the one before, and how many are as far apart.
    last: u64,
    step: u64,
    run: u32,
}

impl Ring {
    pub fn new(places: usize) -> Ring {
        let n = places.max(1).next_power_of_two();
        Ring { times: vec![(0, 2); n], mask: n as u64 - 1, last: 0, step: 0, run: 2 }
    }

    #[inline(always)]
    pub fn get(&self, number: u64) -> u64 {
        self.times[(number & self.mask) as usize].0
    }

    /// Sets the time behind the one that was set last.
    #[inline(always)]
    pub fn set(&mut self, number: u64, time: u64) {
        let step = time.wrapping_sub(self.last);
        self.run = if step == self.step { self.run.saturating_add(1) } else { 2 };
        (self.last, self.step) = (time, step);
        self.times[(number & self.mask) as usize] = (time, self.run);
    }

    /// Makes the times of these numbers past ones; others are set behind them.
    pub fn pass(&mut self, first: u64, end: u64) {
        for number in first..end {
            self.times[(number & self.mask) as usize] = (0, 2);
        }
        (self.last, self.step, self.run) = (0, 0, 2);
    }

    /// Appends the times of these numbers behind a cycle, as runs of times that are equally far apart, the last run first: how many
    /// runs, and of each the last time, the distance and the length. Times ascend. Returns how far the last one is behind the cycle.
    pub fn capture(&self, (first, end): (u64, u64), cycle: u64, out: &mut Vec<u32>) -> u64 {
        debug_assert!((first..end).is_sorted_by_key(|n| self.get(n)), "times of a queue ascend");
        let place = out.len();
        out.push(0);
        let mut left = end;
        while left > first {
            let (last, run) = self.times[((left - 1) & self.mask) as usize];
            if last <= cycle {
                break;
            }
            let mut count = u64::from(run).min(left - first);
            let mut step = last - self.get((left - 1).saturating_sub(u64::from(count > 1)));
            if last - step * (count - 1) <= cycle {
                // Those that are past end the run and the list.
                count = (last - cycle - 1) / step + 1;
                step = if count > 1 { step } else { 0 };
            }
            out.extend([(last - cycle) as u32, step as u32, count as u32]);
            out[place] += 1;
            left -= count;
        }
        if left == end { 0 } else { u64::from(out[place + 1]) }
    }

    /// Whether as many times up to `end` are those of another ring, but for those that are past at a cycle.
    #[inline(always)]
    pub fn same(&self, end: u64, (other, other_end): (&Ring, u64), count: u64, cycle: u64) -> bool {
        let (mut end, mut other_end, mut left) = (end, other_end, count);
        while left > 0 {
            let (a, own_run) = self.times[((end - 1) & self.mask) as usize];
            let (b, other_run) = other.times[((other_end - 1) & other.mask) as usize];
            if a != b || a <= cycle {
                return a.max(b) <= cycle;
            }
            // Both are equally far apart for as long as the shorter run is, if the two behind each other are the same.
            let run = u64::from(own_run.min(other_run)).min(left);
            if run > 1 {
                let (a, b) = (self.get(end - 2), other.get(other_end - 2));
                if a != b {
                    return a.max(b) <= cycle;
                }
            }
            (end, other_end, left) = (end - run, other_end - run, left - run);
        }
        true
    }

    /// Takes over what [`Ring::capture`] wrote, as the times of the numbers before `end`, those from `first` on that were past being
    /// past; the words behind it.
    pub fn restore<'w>(&mut self, (first, end): (u64, u64), cycle: u64, words: &'w [u32]) -> &'w [u32] {
        let (runs, rest) = words[1..].split_at(3 * words[0] as usize);
        let mut n = end - runs.chunks_exact(3).map(|run| u64::from(run[2])).sum::<u64>();
        self.pass(first, n);
        for run in runs.chunks_exact(3).rev() {
            let (step, count) = (u64::from(run[1]), u64::from(run[2]));
            let mut time = cycle + u64::from(run[0]) - step * (count - 1);
            for _ in 0..count.min(2) {
                self.set(n, time);
                (n, time) = (n + 1, time + step);
            }
            // These are as far behind the one before them as the second is.
            for _ in 2..count {
                self.run = self.run.saturating_add(1);
                self.times[(n & self.mask) as usize] = (time, self.run);
                self.last = time;
                (n, time) = (n + 1, time + step);
            }
        }
        rest
    }

    /// Takes over the times of these numbers from a ring of as many.
    pub fn copy(&mut self, other: &Ring, (first, end): (u64, u64)) {
        (self.last, self.step, self.run) = (other.last, other.step, other.run);
        let places = self.times.len();
        let begin = (first & self.mask) as usize;
        let count = (end - first) as usize;
        let head = count.min(places - begin);
        self.times[begin..begin + head].copy_from_slice(&other.times[begin..begin + head]);
        self.times[..count - head].copy_from_slice(&other.times[..count - head]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_times_are_the_same_when_they_are_restored() {
        let mut below = crate::draws::draws(7);
        for places in [1, 2, 3, 16, 97] {
            let (mut ring, mut other, mut time) = (Ring::new(places), Ring::new(places), 0);
            for end in 1..600u64 {
                // Mostly the same distance again, of few.
                time += [8, 8, 8, 16, 0, 1, 40][below(7) as usize];
                ring.set(end - 1, time);
                let first = end.saturating_sub(below(places as u64 + 1));
                let cycle = time.saturating_sub(below(300));
                let mut words = vec![];
                let last = ring.capture((first, end), cycle, &mut words);
                let expected: Vec<u64> = (first..end).map(|n| ring.get(n)).filter(|t| *t > cycle).collect();
                assert_eq!(last, expected.last().map_or(0, |t| t - cycle));
                // In a ring with other times, of other numbers, at another cycle.
                let (end, later) = (places as u64 + below(50), below(1000));
                words.push(77);
                let n = expected.len() as u64;
                let begin = end - n - below(places as u64 + 1 - n);
                assert_eq!(other.restore((begin, end), cycle + later, &words), [77]);
                assert!((begin..end - n).all(|n| other.get(n) == 0), "what was past is past");
                let restored: Vec<u64> = (end - n..end).map(|n| other.get(n) - later).collect();
                assert_eq!(restored, expected, "{places} places, {words:?}");
                words.pop();
                let mut again = vec![];
                other.capture((end - n, end), cycle + later, &mut again);
                assert_eq!(again, words, "the same times have the same words");
            }
        }
    }

    #[test]
    fn units_are_the_same_if_what_is_captured_of_them_is() {
        let mut below = crate::draws::draws(3);
        let mut found = [0; 2];
        for places in [1, 2, 3, 16, 97] {
            // The same times under other numbers, but for some.
            let (mut ring, mut other, mut times) = (Ring::new(places), Ring::new(places), [0, 0]);
            for end in 1..2000u64 {
                let step = [8, 8, 8, 16, 0, 1, 40][below(7) as usize];
                times = times.map(|t| t + step);
                if below(9) == 0 {
                    times[below(2) as usize] += [1, 8][below(2) as usize];
                } else if below(3) == 0 {
                    times = [times[0].max(times[1]); 2];
                }
                ring.set(end - 1, times[0]);
                other.set(end + 4, times[1]);
                let (count, cycle) = (below(end.min(places as u64) + 1), times[0].saturating_sub(below(300)));
                let mut words = [vec![], vec![]];
                ring.capture((end - count, end), cycle, &mut words[0]);
                other.capture((end + 5 - count, end + 5), cycle, &mut words[1]);
                let same = ring.same(end, (&other, end + 5), count, cycle);
                assert_eq!(same, words[0] == words[1], "{places} places, {count} times behind {cycle}: {words:?}");
                found[usize::from(same && words[0].len() > 1)] += 1;
            }
        }
        assert!(found.iter().all(|n| *n > 500), "{found:?}");
    }
}
