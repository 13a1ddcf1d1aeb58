//! Points of sweeps: grids, samples, what needs no run, and mistakes with their place.

use std::collections::BTreeSet;
use systole_sweep::plan::{Plan, hash};
use systole_sweep::spec::Spec;

/// A plan of a program that need not be one.
fn plan(body: &str) -> Result<Plan, String> {
    let dir = std::env::temp_dir().join(format!("systole-plan-{}-{}", std::process::id(), hash(&[body])));
    std::fs::create_dir_all(&dir).expect("a folder");
    std::fs::write(dir.join("p.hlo"), "HloModule p").expect("a file");
    let text = format!("programs = [\"p.hlo\"]\n{body}");
    let made = Spec::parse(&text, "s.toml", &dir).and_then(|s| Plan::new(&s));
    std::fs::remove_dir_all(&dir).expect("it was made");
    made.map(|p| p.0).map_err(|e| e.to_string())
}

fn column(p: &Plan, key: &str) -> Vec<String> {
    let mut all: Vec<String> = p.points.iter().map(|p| p.case.sets[key].clone()).collect();
    all.dedup();
    all
}

#[test]
fn grids_ranges_links_and_conditions() {
    let p = plan(
        "conditions = [\"mxu.count * mxu.rows <= 512\"]\nlinked = { \"mxu.cols\" = \"mxu.rows\" }\n[parameters]\n\
         \"mxu.count\" = [1, 2, 4]\n\"mxu.rows\" = [128, 256]\n\"hbm.bandwidth\" = { from = \"400 GB/s\", to = \"1.6 TB/s\", \
         steps = 3, scale = \"log\" }",
    )
    .expect("good");
    assert_eq!((p.points.len(), p.removed), (15, 3));
    assert!(p.points.iter().all(|p| p.case.sets["mxu.cols"] == p.case.sets["mxu.rows"] && p.refused.is_none()));
    let mut rates = column(&p, "hbm.bandwidth");
    rates.sort();
    rates.dedup();
    assert_eq!(rates, ["1.6 TB/s", "400 GB/s", "800 GB/s"]);
    // Bandwidth needs no other code.
    assert_eq!(p.counts(), (5, 15));
    let ids: BTreeSet<&String> = p.points.iter().map(|p| &p.case.id).collect();
    assert_eq!(ids.len(), 15);
}

#[test]
fn samples_cover_evenly_and_follow_from_the_seed() {
    let body = |seed: u32| {
        format!(
            "sample = {{ method = \"lhs\", points = 40, seed = {seed} }}\n[parameters]\n\"hbm.latency\" = {{ from = \"100 ns\", to = \
             \"500 ns\" }}\n\"dma.engines\" = [1, 2, 4, 8]"
        )
    };
    let p = plan(&body(1)).expect("good");
    for engines in ["1", "2", "4", "8"] {
        assert_eq!(p.points.iter().filter(|p| p.case.sets["dma.engines"] == engines).count(), 10);
    }
    let mut tenths = [0; 10];
    for p in &p.points {
        let at = systole_sweep::spec::number("hbm.latency", &p.case.sets["hbm.latency"]).expect("a time");
        tenths[((at - 1e-7) / 4e-8) as usize] += 1;
    }
    assert_eq!(tenths, [4; 10]);
    assert_eq!(plan(&body(1)).expect("good").points, p.points);
    assert_ne!(plan(&body(2)).expect("good").points, p.points);
}

#[test]
fn prices_need_no_run_and_designs_that_do_not_fit_are_points() {
    let p = plan("[parameters]\n\"costs.mac_bf16\" = [0.6, 0.9, 1.2]\n\"core.lanes\" = [128, 100]").expect("good");
    assert_eq!((p.points.len(), p.counts()), (6, (1, 1)));
    let refused = p.points.iter().filter_map(|p| p.refused.as_ref());
    assert_eq!(refused.filter(|r| r.contains("power of two")).count(), 3);
}

#[test]
fn mistakes_name_their_place() {
    for (body, part) in [
        ("[parameters]\n\"mxu.rowz\" = [1]", "did you mean `mxu.rows`?"),
        ("[parameters]\n\"hbm.bandwidth\" = [1600]", "`1600`: it takes a bandwidth with its unit"),
        (
            "linked = { \"hbm.bandwidth\" = \"clock\" }\n[parameters]\nclock = { from = 1, to = 2 }",
            "`1`: it takes a frequency",
        ),
        ("[parameters]\n\"hbm.latency\" = { from = 0, to = \"1 us\", scale = \"log\" }", "positive ends"),
        ("[parameters]\n\"mxu.rows\" = []", "no values"),
        ("[parameters]\n\"program.speed\" = [1]", "is none of program.precision"),
        ("conditions = [\"mxu.count <\"]", "column 12"),
        ("objectives = [\"speed\"]", "none of the columns"),
        ("colour = 1", "unknown field `colour`"),
        ("chips = [\"tpu-v9\"]", "no chip preset"),
        ("linked = { \"mxu.rows\" = \"nothing.at.all\" }", "has no value"),
    ] {
        let e = plan(body).expect_err(body);
        assert!(e.contains(part), "{body}: {e}");
    }
}
