use super::*;

/// Cycles of an `m` by `k` by `n` product on an array of the dataflow, one fold after the other: weights in, rows through,
/// results out, nothing of two folds at once.
fn serial(dataflow: &str, size: u32, m: u64, k: u64, n: u64) -> u64 {
    let mut chip = ChipConfig::from_preset("array128").expect("a preset");
    let sets = [
        format!("mxu.dataflow={dataflow}"),
        format!("mxu.rows={size}"),
        format!("mxu.cols={size}"),
        format!("core.lanes={}", size.min(128)),
        "mxu.extra_latency=0".into(),
        "mxu.weight_rows_per_cycle=1".into(),
        "mxu.fifo_rows=65536".into(),
        "mxu.queue_rows=65536".into(),
    ];
    chip.apply_sets(&sets).expect("in range");
    let rows = u64::from(chip.core.sublanes);
    let mut unit = MxuTiming::new(&chip, 1, chip.core.sublanes * 16);
    let (mut now, size) = (0, u64::from(size));
    // Rows of results that stay in the array at once, where they stay.
    let group = if dataflow == "output" { size } else { m };
    for _ in 0..k.div_ceil(size) * n.div_ceil(size) * m.div_ceil(group) {
        for _ in 0..size / rows {
            unit.stage(now, (rows * 16) as u32);
        }
        unit.latch(now);
        let mut last = NEVER;
        for i in 0..group / rows {
            unit.push(now, (rows * 16) as u32);
            last = unit.results.get(i + unit.popped);
        }
        for _ in 0..group / rows {
            unit.pop(last);
        }
        now = last;
    }
    now
}

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

#[test]
fn folds_take_what_the_literature_says() {
    // SCALE-Sim: weight-stationary folds over K and N take 2 R + C + M - 2, output-stationary ones over M and N 2 R + C + K - 2.
    for size in [8, 16, 128] {
        let s = u64::from(size);
        for (m, k, n) in [(s, s, s), (4 * s, s, s), (8 * s, 2 * s, 3 * s)] {
            let folds = (k / s) * (n / s);
            let form = folds * (3 * s + m - 2) - 1;
            let ours = serial("weight", size, m, k, n);
            assert!(ours.abs_diff(form) <= 3 * folds, "weight {size} {m} {k} {n}: {ours} against {form}");
            // A tile's contracted dimension is the array's.
            let folds = folds * (m / s);
            let form = folds * (4 * s - 2) - 1;
            let ours = serial("output", size, m, k, n);
            assert!(ours.abs_diff(form) <= 3 * folds, "output {size} {m} {k} {n}: {ours} against {form}");
        }
    }
}

#[test]
fn few_rows_cost_a_whole_tile_where_sums_stay() {
    let of = |dataflow, m| serial(dataflow, 128, m, 128, 128);
    assert_eq!(of("weight", 128) - of("weight", 8), 120);
    let mut chip = ChipConfig::from_preset("array128").expect("a preset");
    chip.apply_sets(&["mxu.dataflow=output"]).expect("in range");
    let mut unit = MxuTiming::new(&chip, 1, 128);
    // Two tiles of eight rows: the second waits until the first one's 128 steps are through.
    unit.latch(0);
    unit.push(0, 128);
    let first = unit.weights;
    unit.latch(1);
    assert_eq!(unit.weights - first, 128);
}

#[test]
fn rows_that_wait_for_room_stream_when_a_result_is_taken() {
    let mut chip = ChipConfig::from_preset("array128").expect("a preset");
    chip.apply_sets(&["mxu.fifo_rows=16"]).expect("in range");
    let mut unit = MxuTiming::new(&chip, 1, 128);
    let (rows, places) = (u64::from(chip.core.sublanes), unit.places);
    assert!(places >= 2, "room for {places} results");
    for _ in 0..places + 2 {
        unit.push(0, (rows * 16) as u32);
    }
    assert_eq!(unit.busy(), places * rows, "those that find room");
    let late = 10_000;
    assert!(unit.pop(late), "a push waited for this");
    assert_eq!(unit.busy(), (places + 1) * rows, "one result, one push");
    let start = late + 1;
    assert_eq!(unit.overlap(start, start + 100), rows, "its rows stream behind the pop");
    assert!(unit.pop(late + 1));
    assert_eq!(unit.busy(), (places + 2) * rows);
    assert!(!unit.pop(late + 2), "nothing waits any more");
}
