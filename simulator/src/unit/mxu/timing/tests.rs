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

#[test]
fn a_unit_takes_over_what_the_unit_before_did() {
    let mut below = crate::draws::draws(5);
    let mut chip = ChipConfig::from_preset("array128").expect("a preset");
    chip.apply_sets(&["mxu.fifo_rows=64", "mxu.queue_rows=24"]).expect("in range");
    let mut units: [MxuTiming; 3] = std::array::from_fn(|_| MxuTiming::new(&chip, 1, 128));
    let (mut now, mut under_way) = (0, 0);
    for _ in 0..20_000 {
        // What the others did before is not the same.
        for unit in &mut units {
            now += below(12);
            match below(4) {
                0 if unit.stages.ready() >> 4 <= now => _ = unit.stage(now, 128),
                1 => unit.latch(now),
                2 if unit.pushes.ready() >> 4 <= now => _ = unit.push(now, 128),
                _ if unit.pop_ready() >> 4 <= now => _ = unit.pop(now),
                _ => {}
            }
        }
        let [unit, first, second] = &mut units;
        let mut words = vec![];
        if !unit.pending.is_empty() || unit.capture(now, &mut words).is_none() || below(3) > 0 {
            continue;
        }
        let later = now + below(50);
        first.restore(later, &words);
        second.restore_same(first);
        let mut again = vec![];
        assert!(second.capture(later, &mut again).is_some());
        assert_eq!(again, words);
        if words != [AT_REST] {
            under_way += 1;
            assert!(second.capture_same(first, later, &mut again));
        }
        let ready = |unit: &MxuTiming| [unit.pushes.ready(), unit.stages.ready(), unit.pop_ready()];
        assert_eq!(ready(second), ready(first));
    }
    assert!(under_way > 500, "{under_way}");
}
