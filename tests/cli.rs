//! The built command: what it prints, what it writes, its exit codes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An example of the repository.
fn example(name: &str) -> String {
    format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A file for this test alone.
fn scratch(name: &str) -> String {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cli");
    std::fs::create_dir_all(&dir).expect("the target folder is writable");
    dir.join(name).to_string_lossy().into_owned()
}

fn systole(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_systole")).args(args).output().expect("the command starts")
}

fn stdout(o: &Output) -> String {
    String::from_utf8_lossy(&o.stdout).into_owned()
}

fn stderr(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}

/// Runs the command and expects success.
fn works(args: &[&str]) -> String {
    let o = systole(args);
    assert_eq!(o.status.code(), Some(0), "{args:?}: {}", stderr(&o));
    stdout(&o)
}

/// Runs the command and expects exit code 2; gives the message.
fn refused(args: &[&str]) -> String {
    let o = systole(args);
    let message = stderr(&o);
    assert_eq!(o.status.code(), Some(2), "{args:?}: {message}");
    assert!(!message.trim().is_empty() && !message.contains("internal error"), "{args:?}: {message}");
    message
}

#[test]
fn report_page_has_units_and_operations() {
    let page = works(&["run", &example("mlp.hlo"), "--chip", "tiny"]);
    for part in ["cycles", "bound by", "mxu0", "stalled by", "operation", "--seed 0"] {
        assert!(page.contains(part), "no `{part}` in\n{page}");
    }
}

#[test]
fn counters_of_every_unit_sum_to_the_cycles() {
    for mode in [&[][..], &["--timing-only"]] {
        let (module, mut args) = (example("mlp.hlo"), vec!["run"]);
        args.extend([module.as_str(), "--chip", "tiny", "--report", "json"]);
        args.extend(mode);
        let report: serde_json::Value = serde_json::from_str(&works(&args)).expect("only JSON");
        let cycles = report["cycles"].as_u64().expect("a number");
        assert!(cycles > 0);
        for u in report["units"].as_array().expect("units") {
            let stall: u64 = u["stall"].as_object().expect("causes").values().filter_map(|v| v.as_u64()).sum();
            let busy = u["busy"].as_u64().expect("a number");
            assert_eq!(busy + stall + u["idle"].as_u64().expect("a number"), cycles, "{u}");
            assert!(u["useful"].as_f64().expect("a number") <= busy as f64, "{u}");
        }
        let ops: u64 = report["ops"].as_array().expect("ops").iter().filter_map(|o| o["cycles"].as_u64()).sum();
        assert_eq!(ops, cycles);
        let share = report["peak_share"].as_f64().expect("a number");
        assert!(share > 0.0 && share <= 1.0, "{share}");
    }
}

#[test]
fn compiled_program_runs_alone_with_the_same_answers() {
    let (sys, a, b) = (scratch("mlp.sys"), scratch("a.npz"), scratch("b.npz"));
    works(&["compile", &example("mlp.hlo"), "-o", &sys, "--chip", "tiny"]);
    works(&["run", &example("mlp.hlo"), "--chip", "tiny", "--outputs", &a]);
    works(&["run", &sys, "--outputs", &b]);
    assert_eq!(std::fs::read(a).expect("written"), std::fs::read(b).expect("written"));
    // Times may change, shapes may not.
    works(&["run", &sys, "--set", "hbm.bandwidth=1GB/s"]);
    assert!(refused(&["run", &sys, "--chip", "tpu-v5e"]).contains("compile it again"));
}

#[test]
fn disassembly_assembles_to_the_same_file() {
    let (sys, text, again) = (scratch("round.sys"), scratch("round.s"), scratch("again.sys"));
    works(&["compile", &example("mlp.hlo"), "-o", &sys, "--chip", "tiny"]);
    works(&["disasm", &sys, "-o", &text]);
    works(&["asm", &text, "-o", &again]);
    assert_eq!(std::fs::read(sys).expect("written"), std::fs::read(again).expect("written"));
}

#[test]
fn hand_written_assembly_runs() {
    for name in ["vector_add.s", "matmul.s"] {
        assert!(works(&["run", &example(name)]).contains("cycles"), "{name}");
    }
}

#[test]
fn stages_are_written() {
    let (sys, dir) = (scratch("dump.sys"), scratch("dump"));
    works(&["compile", &example("mlp.hlo"), "-o", &sys, "--chip", "tiny", "--dump", &dir]);
    let stages = std::fs::read_dir(&dir).expect("the folder").count();
    assert!(stages > 3, "{stages} stages");
    assert!(Path::new(&dir).join("program.s").exists());
}

#[test]
fn a_full_disk_is_told_once() {
    // Files that are written as they are: a device that is always full.
    let full = "/dev/full";
    if !Path::new(full).exists() {
        return;
    }
    let module = scratch("full.hlo");
    let text = "HloModule m\nENTRY e { a = f32[128,128] parameter(0) ROOT r = f32[128,128] tanh(a) }";
    std::fs::write(&module, text).expect("the target folder is writable");
    for flags in [["--outputs", full], ["--profile", full]] {
        let o = systole(&[&["run", &module, "--chip", "tiny", "--report", "none"][..], &flags].concat());
        let said = String::from_utf8_lossy(&o.stderr).into_owned();
        assert_eq!((o.status.code(), said.lines().count()), (Some(2), 1), "{flags:?}: {said}");
        assert!(said.starts_with(full) && said.contains("No space left"), "{flags:?}: {said}");
    }
}

#[test]
fn a_refused_program_leaves_the_stages_that_it_came_through() {
    let (module, sys, dir) = (scratch("refused.hlo"), scratch("refused.sys"), scratch("refused"));
    // The parameter alone has room.
    let text = "HloModule m\nENTRY e { a = f32[60000000] parameter(0) b = f32[60000000] tanh(a) \
                ROOT r = f32[60000000] reverse(b), dimensions={0} }";
    std::fs::write(&module, text).expect("the target folder is writable");
    for chip in [&["--chip", "tiny"][..], &["--chip", "tpu-v4", "--set", "hbm.bytes=256MiB"]] {
        let _ = std::fs::remove_dir_all(&dir);
        let o = systole(&[&["compile", &module, "-o", &sys, "--dump", &dir], chip].concat());
        assert_eq!(o.status.code(), Some(2), "{chip:?}");
        assert!(String::from_utf8_lossy(&o.stderr).contains("HBM: needs"), "{chip:?}");
        let stages = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{chip:?}: {e}"));
        let passes = stages.filter(|e| e.as_ref().is_ok_and(|e| e.path().extension().is_some_and(|x| x == "hlo")));
        assert!(passes.count() > 0 && !Path::new(&sys).exists(), "{chip:?}");
    }
}

#[cfg(feature = "evaluator")]
#[test]
fn chip_agrees_with_the_evaluator() {
    let text = works(&["check", &example("mlp.hlo"), "--chip", "tiny"]);
    assert!(text.contains("out0 f32[32,16]: ok"), "{text}");
    let o = systole(&["check", &example("mlp.hlo"), "--chip", "tiny", "--precision", "highest", "--rtol", "0"]);
    assert_eq!(o.status.code(), Some(1), "{}", stdout(&o));
}

#[test]
fn chips_are_listed_shown_and_checked() {
    let list = works(&["chips", "list"]);
    assert!(list.contains("tpu-v5e") && list.contains("196.6") || list.contains("197"), "{list}");
    assert!(works(&["chips", "show", "tiny", "--set", "clock=2GHz"]).contains("2 GHz"));
    let file = scratch("bad.toml");
    std::fs::write(&file, "base = \"tiny\"\n[mxu]\nrowz = 8\n").expect("writable");
    let message = refused(&["chips", "validate", &file]);
    assert!(message.contains("bad.toml:3:1"), "{message}");
}

#[test]
fn wrong_requests_exit_2_and_say_what_is_wrong() {
    let bad = scratch("bad.hlo");
    std::fs::write(&bad, "HloModule m\nENTRY e {\n  ROOT a = f32[2] ad(b)\n}\n").expect("writable");
    let mlp = example("mlp.hlo");
    for (args, part) in [
        (vec!["run", &bad], "bad.hlo:3:"),
        (vec!["run", "/no/such/file.hlo"], "/no/such/file.hlo"),
        (vec!["run", &mlp, "--chip", "tpu-v5"], "did you mean"),
        (vec!["run", &mlp, "--set", "mxu.rowz=1"], "mxu.rowz"),
        (vec!["run", &mlp, "--precision", "low"], "highest"),
        (vec!["run", &mlp, "--no-such-flag"], "--no-such-flag"),
        (vec!["run", &mlp, "--inputs", &bad], "bad.hlo"),
        (vec!["run", &mlp, "--assume", "x"], "NAME=N"),
    ] {
        let message = refused(&args);
        assert!(message.contains(part), "{args:?}: {message}");
    }
}

#[test]
fn a_message_that_nobody_takes_changes_no_exit_code() {
    let mlp = example("mlp.hlo");
    // A refusal, a note beside a result, and a compile's words; the pipe's reader is gone before they begin.
    for (args, code) in [
        (vec!["run", "/no/such/file.hlo"], 2),
        (vec!["run", &mlp, "--partitions", "2", "--timing-only", "--report", "none"], 0),
        (vec!["run", &mlp, "--chip", "tiny", "--max-cycles", "10"], 1),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let status = Command::new(env!("CARGO_BIN_EXE_systole")).args(&args).stderr(writer).status();
        assert_eq!(status.expect("the command starts").code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_fault_of_the_program_exits_1() {
    let o = systole(&["run", &example("mlp.hlo"), "--chip", "tiny", "--max-cycles", "10"]);
    assert_eq!(o.status.code(), Some(1));
    assert!(stderr(&o).contains("10 cycles"), "{}", stderr(&o));
}

#[test]
fn faults_of_links_are_in_the_report() {
    let file = scratch("sum.hlo");
    let text = "HloModule m\nf { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n\
                ENTRY e { x = f32[64,128] parameter(0) ROOT z = f32[64,128] all-reduce(x), replica_groups={}, to_apply=f }\n";
    std::fs::write(&file, text).expect("the target folder is writable");
    let run = ["run", &file, "--chip", "tiny", "--replicas", "4", "--topology", "ring:4"];
    let page = works(&[&run[..], &["--fault", "link:0-1:down", "--fault", "link:2-3:x0.5@99999999"]].concat());
    assert!(page.contains("fault: link 2-3 at 0.5 of its rate from cycle 99999999, 0 messages slowed"), "{page}");
    let (_, after) = page.split_once("fault: link 0-1 down from cycle 0, ").expect(&page);
    let count = after.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    assert!(count.is_some_and(|n| n > 0), "nothing went another way: {page}");
    let json = works(&[&run[..], &["--fault", "link:3-0:x0.5@10", "--report", "json"]].concat());
    let report: serde_json::Value = serde_json::from_str(&json).expect("only JSON");
    let fault = &report["pod"]["faults"][0];
    assert_eq!(fault["chips"], serde_json::json!([3, 0]));
    assert!(fault["from"] == 10 && fault["factor"] == 0.5 && fault["messages"].as_u64() > Some(0), "{fault}");
    // One device has no links.
    assert!(refused(&["run", &file, "--chip", "tiny", "--fault", "link:0-1:down"]).contains("no link joins"));
}

#[test]
fn annotated_programs_run_on_as_many_partitions_as_they_are_for() {
    let stablehlo = |line: &str| {
        format!(
            "module @m {{\n  sdy.mesh @mesh = <[\"a\"=4]>\n  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {{\n    \
             {line}\n    return %y : tensor<8xf32>\n  }}\n}}\n"
        )
    };
    let hlo = |sharding: &str| {
        format!("HloModule m\nENTRY e {{ x = f32[8] parameter(0) ROOT y = f32[8] negate(x), sharding={sharding} }}\n")
    };
    let negate = "stablehlo.negate %x";
    let (parts, shardy) = ("{mhlo.sharding = \"{devices=[4]<=[4]}\"}", "<@mesh, [{\"a\"}]>");
    let texts = [
        hlo("{devices=[4]<=[4]}"),
        stablehlo(&format!("%y = {negate} {parts} : tensor<8xf32>")),
        stablehlo(&format!("%y = {negate} {{sdy.sharding = #sdy.sharding_per_value<[{shardy}]>}} : tensor<8xf32>")),
        stablehlo(&format!("%y = sdy.sharding_constraint %x {shardy} : tensor<8xf32>")),
        stablehlo(&format!("%y = stablehlo.custom_call @Sharding(%x) {parts} : (tensor<8xf32>) -> tensor<8xf32>")),
    ];
    for text in &texts {
        let file = scratch("shardings");
        std::fs::write(&file, text).expect("the target folder is writable");
        let message = refused(&["run", &file, "--chip", "tiny", "--partitions", "2"]);
        assert!(message.contains("for 4 partitions, not 2"), "{text}{message}");
        for flags in [&["--partitions", "4"][..], &[]] {
            let page = works(&[&["run", &file, "--chip", "tiny"], flags].concat());
            assert!(page.contains("4 devices"), "{text}{page}");
        }
    }
    let file = scratch("manual.hlo");
    for sharding in ["{manual}", "{replicated}", "{maximal device=0}"] {
        std::fs::write(&file, hlo(sharding)).expect("the target folder is writable");
        works(&["run", &file, "--chip", "tiny", "--partitions", "4", "--report", "none"]);
    }
}

#[test]
fn dashboard_prints_a_frame_without_a_terminal() {
    let text = works(&["top", &example("mlp.hlo"), "--chip", "tiny", "--once", "--width", "90", "--height", "30"]);
    assert_eq!(text.lines().count(), 30);
    for part in ["units", "mxu0", "operations", "bound by"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

/// Programs that must be refused, in the conformance suites beside the checkout (skipped where they are absent).
#[test]
fn invalid_programs_are_refused() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance/invalid");
    let Ok(files) = std::fs::read_dir(dir) else { return };
    for file in files.filter_map(Result::ok) {
        let path = file.path();
        if path.extension().is_some_and(|e| e == "hlo") {
            refused(&["run", &path.to_string_lossy()]);
        }
    }
}

/// Two modules in a file, the second of which fails its check.
const CHECKED: &str = r#"
func.func @first() {
  %x = stablehlo.constant dense<[-2, 0, 2]> : tensor<3xi64>
  %y = stablehlo.abs %x : tensor<3xi64>
  check.expect_eq_const %y, dense<[2, 0, 2]> : tensor<3xi64>
  func.return
}
// -----
func.func @second() {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = stablehlo.multiply %x, %x : tensor<2xf32>
  %z = stablehlo.constant dense<[1.0, VALUE]> : tensor<2xf32>
  stablehlo.custom_call @check.expect_close(%y, %z) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  func.return
}
"#;

#[cfg(target_os = "linux")]
#[test]
fn texts_that_never_end_are_refused() {
    let (mlp, endless) = (example("mlp.hlo"), "/dev/zero");
    for line in [
        &["run", &mlp, "--chip", endless][..],
        &["run", &mlp, "--schedule", endless],
        &["chips", "validate", endless],
        &["sweep", "plan", endless, "-o", "never-made"],
    ] {
        let said = refused(line);
        assert!(said.starts_with(endless) && said.contains("more than 256 MiB"), "{line:?}: {said}");
    }
}

#[test]
fn programs_check_themselves() {
    let path = scratch("checked.mlir");
    for (value, code) in [("4.0", 0), ("5.0", 1)] {
        std::fs::write(&path, CHECKED.replace("VALUE", value)).expect("writable");
        for extra in [&["--fold", "none"][..], &["--numeric-only"]] {
            let o = systole(&[&["run", &path, "--chip", "tiny"], extra].concat());
            assert_eq!(o.status.code(), Some(code), "{}", stderr(&o));
            let says = stderr(&o).contains("check.expect_close failed: 1 of 2")
                && stderr(&o).contains("at [1]: 4.0 where 5.0 is expected");
            assert_eq!(says, code == 1, "{}", stderr(&o));
        }
    }
    assert!(refused(&["compile", &path, "-o", &scratch("checked.sys")]).contains("2 modules"));
}

#[test]
fn host_queues_are_files() {
    let (path, feed, given) = (scratch("feed.hlo"), scratch("feed.npz"), scratch("given.npz"));
    let text = "HloModule m\nENTRY e {\n  t = token[] after-all()\n  i = (f32[2,3], token[]) infeed(t)\n  \
                x = f32[2,3] get-tuple-element(i), index=0\n  t1 = token[] get-tuple-element(i), index=1\n  \
                y = f32[2,3] add(x, x)\n  ROOT o = token[] outfeed(y, t1), outfeed_shape=f32[2,3]\n}";
    std::fs::write(&path, text).expect("writable");
    let source = "HloModule m\nENTRY e { ROOT x = f32[2,3] constant({{1,2,3},{4,5,6}}) }";
    let made = scratch("made.hlo");
    std::fs::write(&made, source).expect("writable");
    works(&["run", &made, "--chip", "tiny", "--outputs", &feed]);
    works(&["run", &path, "--chip", "tiny", "--infeed", &feed, "--outfeed", &given]);
    assert!(std::fs::metadata(&given).is_ok_and(|m| m.len() > 24));
    let o = systole(&["run", &path, "--chip", "tiny"]);
    assert_eq!(o.status.code(), Some(1), "{}", stderr(&o));
    refused(&["run", &path, "--chip", "tiny", "--infeed", &scratch("none.npz")]);
}

#[test]
fn damaged_protos_are_refused() {
    let path = scratch("damaged.pb");
    for bytes in [&b"\x0a\x05abc"[..], b"", b"\x0a\x01m\x1a\x02\x12\x09", &[0xff; 64]] {
        std::fs::write(&path, bytes).expect("writable");
        assert!(refused(&["run", &path]).contains("damaged.pb"));
    }
}

#[test]
fn every_view_has_data_behind_its_frame() {
    let profile = scratch("views.sysp");
    works(&["run", &example("mlp.hlo"), "--chip", "tiny", "--timing-only", "--profile", &profile]);
    let fields = [
        ("overview", "units"),
        ("timeline", "lanes"),
        ("operations", "operations"),
        ("roofline", "roofs"),
        ("memory", "arrays"),
        ("stalls", "causes"),
        ("interconnect", "topology"),
        ("program", "around"),
        ("chip", "parameters"),
    ];
    for (view, field) in fields {
        let text = works(&["top", &profile, "--once", "--json", "--view", view, "--keys", "n"]);
        let data: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(data["view"]["name"], view);
        let rows = data["view"][field].as_array().map_or(0, Vec::len);
        assert!(rows > 0, "{view} has no {field}");
        assert!(data["cycles"].as_u64().is_some_and(|c| c > 0) && data["devices"].is_array());
    }
    assert!(refused(&["top", &profile]).contains("needs a terminal"));
    assert!(refused(&["top", &profile, "--once", "--view", "nonsense"]).contains("is expected"));
}

#[test]
fn the_newest_run_of_a_folder_is_shown() {
    let folder = scratch("live");
    // What an earlier run of the test left there.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("writable");
    assert!(refused(&["top", "--attach", &folder, "--once"]).contains("no run has been written"));
    let profile = format!("{folder}/jit_f.sysp");
    works(&["run", &example("mlp.hlo"), "--chip", "tiny", "--timing-only", "--profile", &profile]);
    let text = works(&["top", "--attach", &folder, "--once", "--json"]);
    let data: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(data["cycles"].as_u64().is_some_and(|c| c > 0));
    assert!(refused(&["top", "--attach", &profile]).contains("SYSTOLE_LIVE"));
}

#[test]
fn a_pod_is_shown_with_all_its_devices() {
    let module = example("mlp.hlo");
    let flags = ["--replicas", "4", "--topology", "2x2", "--timing-only", "--all-devices"];
    let text = works(&[&["top", &module, "--once", "--width", "160", "--height", "50"], &flags[..]].concat());
    assert!(text.contains("device 0 of 4") && text.contains("4 devices"), "{text}");
}

/// What the command can do is in its page: `help` lists the subcommands, two columns behind the line `Commands:`.
#[test]
fn every_subcommand_is_in_the_readme() {
    let readme = include_str!("../README.md");
    let help = works(&["--help"]);
    let commands = help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| l.starts_with("  "));
    let names: Vec<&str> = commands.filter_map(|l| l.split_whitespace().next()).filter(|&n| n != "help").collect();
    assert!(names.contains(&"run"), "{help}");
    let missing: Vec<&&str> = names.iter().filter(|n| !readme.contains(&format!("`systole {n}"))).collect();
    assert!(missing.is_empty(), "README.md does not name {missing:?}");
}

#[test]
fn completions_and_manual_pages_come_from_the_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = works(&["completions", shell]);
        assert!(script.contains("timing-only"), "{shell}: {script:.300}");
    }
    let folder = std::env::temp_dir().join(format!("systole-man-{}", std::process::id()));
    works(&["man", folder.to_str().expect("a path")]);
    let page = std::fs::read_to_string(folder.join("systole-run.1")).expect("a page");
    assert!(page.contains("timing\\-only"), "{page:.300}");
    std::fs::remove_dir_all(&folder).expect("a folder");
}
