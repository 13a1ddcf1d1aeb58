//! Sweeps by the built command: the same table however it was run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use systole_sweep::engine::{Request, local};
use systole_sweep::{Store, execute};

const EXE: &str = env!("CARGO_BIN_EXE_systole");

/// A folder for one test, empty.
fn scratch(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sweep").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the target folder is writable");
    dir
}

/// 41 points of a small program, one of which does not fit its chip.
fn spec(dir: &Path) -> String {
    let program = format!("{}/examples/mlp.hlo", env!("CARGO_MANIFEST_DIR"));
    let text = format!(
        "name = \"small\"\nprograms = [\"{program}\"]\nchips = [\"tiny\"]\n\
         conditions = [\"core.lanes == 8 || (mxu.count == 1 && dma.engines == 1 && hbm.bandwidth < 9e9)\"]\n\
         [parameters]\n\"mxu.count\" = [1, 2]\n\"dma.engines\" = [1, 2, 4, 8]\n\
         \"hbm.bandwidth\" = {{ from = \"8 GB/s\", to = \"128 GB/s\", steps = 5, scale = \"log\" }}\n\
         \"core.lanes\" = [8, 12]\n"
    );
    let path = dir.join("small.toml");
    std::fs::write(&path, text).expect("the folder is writable");
    path.to_string_lossy().into_owned()
}

fn systole(args: &[&str]) -> Output {
    Command::new(EXE).args(args).output().expect("the command starts")
}

/// Runs the command; the failing point makes the exit code 1.
fn works(args: &[&str]) -> String {
    let o = systole(args);
    assert_eq!(o.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8_lossy(&o.stdout).into_owned()
}

fn table(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("table.csv")).expect("it was collected")
}

/// The table of an undisturbed run with one worker.
fn undisturbed(dir: &Path) -> String {
    let spec = spec(dir);
    let out = dir.join("plain");
    let said = works(&["sweep", &spec, "-o", &out.to_string_lossy(), "--workers", "1"]);
    assert!(said.contains("40 points done, 1 failed, 0 missing"), "{said}");
    table(&out)
}

#[test]
fn one_table_for_any_number_of_workers_and_chunks_and_after_a_kill() {
    let dir = scratch("same");
    let expected = undisturbed(&dir);
    assert_eq!(expected.lines().count(), 42);
    let spec = spec(&dir);
    let many = dir.join("many");
    works(&["sweep", &spec, "-o", &many.to_string_lossy(), "--workers", "3", "--chunk", "2"]);
    assert_eq!(table(&many), expected);
    // Killed as soon as there are results, and again, then resumed.
    let killed = dir.join("killed");
    let at = killed.to_string_lossy().into_owned();
    assert_eq!(systole(&["sweep", "plan", &spec, "-o", &at, "--no-estimate"]).status.code(), Some(0));
    for least in [1, 2] {
        let mut child = Command::new(EXE)
            .args(["sweep", "run", &at, "--workers", "1", "--chunk", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        let begin = Instant::now();
        let results = || std::fs::read_dir(killed.join("results")).map_or(0, Iterator::count);
        while results() < least && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().expect("it runs or has ended");
        child.wait().expect("it was started");
    }
    let status = String::from_utf8_lossy(&systole(&["sweep", "status", &at]).stdout).into_owned();
    assert!(status.starts_with("41 points: "), "{status}");
    works(&["sweep", "resume", &at, "--workers", "2"]);
    assert_eq!(table(&killed), expected);
    // What was compiled is there for other tasks; what is damaged is compiled again.
    let codes = || std::fs::read_dir(killed.join("codes")).expect("it was made").map(|f| f.expect("a file").path());
    let plan = Store::open(&killed).and_then(|s| s.plan()).expect("it was planned");
    assert_eq!(codes().count(), plan.counts().0);
    let whole: Vec<u8> = codes().flat_map(|f| std::fs::read(f).expect("a file")).collect();
    codes().for_each(|f| std::fs::write(f, "not a program").expect("it can be written"));
    std::fs::remove_dir_all(killed.join("results")).expect("they are there");
    std::fs::create_dir(killed.join("results")).expect("it can be made");
    works(&["sweep", "resume", &at, "--workers", "1"]);
    assert_eq!(table(&killed), expected);
    assert!(codes().flat_map(|f| std::fs::read(f).expect("a file")).eq(whole), "other code");
}

#[test]
fn a_worker_that_dies_is_made_good_and_one_that_always_dies_is_a_row() {
    let dir = scratch("dies");
    let spec = spec(&dir);
    let folder = dir.join("s");
    let planned = systole(&["sweep", "plan", &spec, "-o", &folder.to_string_lossy(), "--no-estimate"]);
    assert_eq!(planned.status.code(), Some(0));
    let store = Store::open(&folder).expect("it was planned");
    let plan = store.plan().expect("it was planned");
    // A worker that kills itself in its first task, and whenever it runs one certain point alone.
    let victim = &plan.points[7].case.id;
    let wrapper = dir.join("worker.sh");
    let script = format!(
        "#!/bin/sh\nif mkdir '{0}/first' 2>/dev/null; then kill -9 $$; fi\n\
         line=$(sed -n \"$(($7 + 1))p\" \"$5\")\ncase $line in *{victim}*) kill -9 $$;; esac\nexec '{EXE}' \"$@\"\n",
        dir.display()
    );
    std::fs::write(&wrapper, script).expect("the folder is writable");
    assert!(Command::new("chmod").arg("+x").arg(&wrapper).status().expect("chmod runs").success());
    let request = Request {
        exe: wrapper,
        workers: Some(2),
        chunk: Some(4),
        time_limit: None,
        wait: false,
        failures: false,
        extra: Vec::new(),
        hosts: None,
    };
    local::run(&store, &plan, &request, &mut |_| true).expect("workers start");
    let results = store.results().expect("whole files");
    assert_eq!(results.len(), 41);
    let failed: Vec<_> = results.values().filter(|o| o.run.is_none()).collect();
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().any(|o| o.id == *victim && o.reason.as_deref().unwrap_or("").contains("ended twice")));
}

#[test]
fn stored_counters_are_priced_again_without_a_run() {
    let dir = scratch("price");
    undisturbed(&dir);
    let at = dir.join("plain").to_string_lossy().into_owned();
    let price = |set: &str| {
        let o = systole(&["sweep", "price", &at, "--set", set]);
        assert_eq!(o.status.code(), Some(0), "{}", String::from_utf8_lossy(&o.stderr));
        let text = String::from_utf8_lossy(&o.stdout).into_owned();
        let head: Vec<String> = text.lines().next().expect("a head").split(',').map(str::to_string).collect();
        let column = head.iter().position(|h| h == "energy_j").expect("a column");
        let cells = text.lines().skip(1).filter_map(|l| l.split(',').nth(column)?.parse::<f64>().ok());
        cells.sum::<f64>()
    };
    let (half, one, two) = (price("costs.idle=0.05"), price("costs.idle=0.1"), price("costs.idle=0.2"));
    // Energy is linear in a coefficient.
    assert!(((two - one) / (one - half) / 2.0 - 1.0).abs() < 1e-9, "{half} {one} {two}");
    assert!(price("costs.node=N16") > 1.5 * price("costs.node=N3"));
    assert_eq!(systole(&["sweep", "price", &at, "--set", "mxu.count=4"]).status.code(), Some(2));
    let page = std::fs::read_to_string(dir.join("plain").join("report.html")).expect("it was written");
    for part in ["<svg", "All parameters", "along one parameter", "Rooflines", "energy_j"] {
        assert!(page.contains(part), "no `{part}`");
    }
    assert!(!page.contains("http"), "the page needs nothing else");
}

#[test]
fn a_search_finds_the_front_of_the_grid_with_fewer_points() {
    let dir = scratch("search");
    undisturbed(&dir);
    let (spec, out) = (spec(&dir), dir.join("search"));
    let args = ["sweep", "search", &spec, "-o", &out.to_string_lossy(), "--population", "8", "--generations", "3"];
    let o = systole(&args);
    let said = String::from_utf8_lossy(&o.stdout).into_owned();
    assert!(matches!(o.status.code(), Some(0 | 1)), "{said} {}", String::from_utf8_lossy(&o.stderr));
    assert!(said.contains("the grid has 80"), "{said}");
    // The same again costs no run and finds the same.
    let again = systole(&args);
    assert_eq!(String::from_utf8_lossy(&again.stdout).lines().next(), said.lines().next());
}

#[test]
fn a_row_has_the_numbers_of_its_run() {
    let dir = scratch("row");
    let program = "HloModule m\nENTRY e {\n a = bf16[64,256] parameter(0)\n b = bf16[256,64] parameter(1)\n c = s8[64,128] parameter(2)\n \
                   d = s8[128,64] parameter(3)\n p = f32[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n \
                   q = s32[64,64] dot(c, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT t = (f32[64,64], s32[64,64]) tuple(p, q)\n}\n";
    std::fs::write(dir.join("mixed.hlo"), program).expect("the folder is writable");
    let spec = "programs = [\"mixed.hlo\"]\nchips = [\"tpu-v5e\"]\n";
    std::fs::write(dir.join("row.toml"), spec).expect("the folder is writable");
    let (spec, out, file) = (dir.join("row.toml"), dir.join("out"), dir.join("mixed.hlo"));
    let said = systole(&["sweep", &spec.to_string_lossy(), "-o", &out.to_string_lossy(), "--workers", "1"]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let text = table(&out);
    let mut lines = text.lines().map(|l| l.split(',').collect::<Vec<_>>());
    let (names, row) = (lines.next().expect("names"), lines.next().expect("a row"));
    let cell = |name: &str| -> f64 {
        let at = names.iter().position(|n| *n == name).unwrap_or_else(|| panic!("no column `{name}`"));
        row[at].parse().unwrap_or_else(|_| panic!("`{}` of {name}", row[at]))
    };
    let run = systole(&["run", &file.to_string_lossy(), "--chip", "tpu-v5e", "--timing-only", "--report", "json"]);
    let run: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let close = |name: &str, want: &serde_json::Value| {
        let want = want.as_f64().unwrap_or_else(|| panic!("{name}: {want}"));
        assert!((cell(name) - want).abs() <= 1e-9 * want, "{name}: {} in the row, {want} of the run", cell(name));
    };
    close("cycles", &run["cycles"]);
    close("time_s", &run["time_s"]);
    close("flops", &run["flops"]);
    // Each type against its own peak.
    close("peak_share", &run["peak_share"]);
    close("hbm_share", &run["hbm"]["share"]);
    close("energy_j", &run["energy"]["joules"]);
    close("power_w", &run["energy"]["power_w"]);
    close("peak_power_w", &run["energy"]["peak_power_w"]);
    close("idle_w", &run["energy"]["idle_power_w"]);
    close("pj_per_flop", &run["energy"]["pj_per_flop"]);
}

#[test]
fn a_point_can_be_looked_at_alone() {
    let dir = scratch("one");
    let (spec, folder) = (spec(&dir), dir.join("s"));
    let planned = systole(&["sweep", "plan", &spec, "-o", &folder.to_string_lossy(), "--no-estimate"]);
    assert_eq!(planned.status.code(), Some(0));
    let store = Store::open(&folder).expect("it was planned");
    let (plan, spec) = (store.plan().expect("a plan"), store.spec().expect("a specification"));
    let ran = execute::one(&store, &plan, &spec, &plan.points[0]).expect("it runs");
    assert!(ran.report.cycles > 0 && !ran.ops.is_empty());
}

#[test]
fn designs_are_whole_as_they_come() {
    let dir = scratch("order");
    let program = |name| format!("\"{}/examples/{name}.hlo\"", env!("CARGO_MANIFEST_DIR"));
    let programs = ["mlp", "transformer_block"].map(program).join(", ");
    let text = format!(
        "name = \"order\"\nprograms = [{programs}]\nchips = [\"tpu-v5e\"]\n[parameters]\n\
         \"mxu.count\" = [1, 2, 4]\n\"hbm.bandwidth\" = [\"400 GB/s\", \"800 GB/s\"]\n"
    );
    let spec = dir.join("order.toml");
    std::fs::write(&spec, text).expect("the folder is writable");
    let folder = dir.join("s");
    let (spec, out) = (spec.to_string_lossy(), folder.to_string_lossy());
    assert_eq!(systole(&["sweep", "plan", &spec, "-o", &out, "--no-estimate"]).status.code(), Some(0));
    let store = Store::open(&folder).expect("it was planned");
    let plan = store.plan().expect("a plan");
    let order = store.missing(&plan, false).expect("a whole folder");
    let of = |id: &String| plan.points.iter().find(|p| p.case.id == *id).expect("a point of the plan");
    // Two points share a code; both programs' codes of a chip come before the next chip's.
    let groups: Vec<(String, String)> =
        order.iter().map(|id| (of(id).case.sets["mxu.count"].clone(), of(id).case.program.clone())).collect();
    assert_eq!(groups.len(), 12);
    for chip in groups.chunks(4) {
        assert!(chip.iter().all(|g| g.0 == chip[0].0), "{groups:?}");
        assert!(chip[0].1 == chip[1].1 && chip[2].1 == chip[3].1 && chip[1].1 != chip[2].1, "{groups:?}");
    }
}
