//! Words: what ran on what, what is faster, what a flag did, how arrays lie.

use super::{example, json, number, refused, report, scratch, systole, works, written};
use serde_json::Value;

#[test]
fn every_output_says_what_ran_on_what() {
    let (module, profile, base) = (example("mlp.hlo"), scratch("id.sysp"), scratch("id_base.sysp"));
    let run = ["run", &module, "--chip", "tiny", "--set", "hbm.bandwidth=32GB/s", "--precision", "high", "--seed", "7"];
    let page = works(&[&run[..], &["--profile", &profile]].concat());
    works(&["run", &module, "--chip", "tiny", "--timing-only", "--profile", &base]);
    let chip = "tiny with hbm.bandwidth=32 GB/s";
    let version = format!("systole {}", env!("CARGO_PKG_VERSION"));
    let view = works(&["top", &profile, "--once", "--width", "160"]);
    let file = |format: &str| {
        let path = scratch(&format!("id.{format}"));
        match format {
            "html" => works(&["report", &profile, "-o", &path]),
            _ => works(&["trace", &profile, "--format", format, "-o", &path]),
        };
        String::from_utf8_lossy(&std::fs::read(&path).expect("written")).into_owned()
    };
    for (what, text) in [
        ("page", page.clone()),
        ("profile", works(&["profile", &profile])),
        ("scopes", works(&["profile", &profile, "--by", "scope"])),
        ("difference", works(&["profile", &base, "--diff", &profile])),
        ("html", file("html")),
        ("perfetto", file("perfetto")),
        ("chrome", file("chrome")),
        ("xplane", file("xplane")),
        ("dashboard", view),
    ] {
        assert!(text.contains(chip), "{what} does not say `{chip}`: {}", &text[..text.len().min(3000)]);
    }
    for (what, text) in [("page", page), ("profile", works(&["profile", &profile])), ("html", file("html"))] {
        for part in [version.as_str(), "--seed 7", "--precision=high"] {
            assert!(text.contains(part), "{what} does not say `{part}`");
        }
    }
    for (what, r) in [
        ("run", json(&[&run[..], &["--report", "json"]].concat())),
        ("profile", json(&["profile", &profile, "--json"])),
        ("dashboard", json(&["top", &profile, "--json"])),
        ("difference", json(&["profile", &base, "--diff", &profile, "--json"])["after"].clone()),
    ] {
        let s = &r["setup"];
        assert_eq!(s["chip"]["base"], "tiny", "{what}");
        assert_eq!(s["chip"]["overrides"][0]["key"], "hbm.bandwidth", "{what}");
        assert_eq!(s["chip"]["overrides"][0]["was"], "16 GB/s", "{what}");
        assert_eq!((&s["seed"], &s["flags"][0]), (&Value::from(7), &Value::from("--precision=high")), "{what}");
        assert_eq!(s["systole"], env!("CARGO_PKG_VERSION"), "{what}");
    }
    let changes = &json(&["profile", &base, "--diff", &profile, "--json"])["chip_changes"];
    assert_eq!(changes.as_array().map(Vec::len), Some(1), "{changes}");
}

#[test]
fn runs_are_compared_in_time() {
    let (module, slow, fast) = (example("mlp.hlo"), scratch("slow.sysp"), scratch("fast.sysp"));
    works(&["run", &module, "--chip", "tiny", "--timing-only", "--profile", &slow]);
    works(&["run", &module, "--chip", "tiny", "--timing-only", "--set", "clock=4GHz", "--profile", &fast]);
    let (a, b) = (json(&["profile", &slow, "--json"]), json(&["profile", &fast, "--json"]));
    // A faster clock waits more cycles for the same HBM.
    assert!(number(&a["cycles"]) < number(&b["cycles"]) && number(&a["time_s"]) > number(&b["time_s"]));
    let page = works(&["profile", &slow, "--diff", &fast]);
    assert!(page.contains("times faster") && !page.contains("slower"), "{page}");
    assert!(works(&["profile", &fast, "--diff", &slow]).contains("times slower"));
    let d = json(&["profile", &slow, "--diff", &fast, "--json"]);
    assert!(number(&d["speedup"]) > 1.0 && number(&d["before"]["time_s"]) == number(&a["time_s"]));
    let what_if = works(&["top", &slow, "--once", "--view", "chip", "--width", "140"]);
    assert!(what_if.contains("what if"), "{what_if}");
}

#[test]
fn words_are_explained_where_they_are_used() {
    let page = works(&["run", &example("mlp.hlo"), "--chip", "tiny", "--timing-only", "--explain"]);
    let r = report(&example("mlp.hlo"), &["--chip", "tiny"]);
    for u in r["units"].as_array().expect("units") {
        for (cause, n) in u["stall"].as_object().expect("causes") {
            let line = page.lines().find(|l| l.starts_with(&format!("stalled by {cause}  ")));
            assert!(n == 0 || line.is_some_and(|l| l.len() > 24), "{cause}: {page}");
        }
    }
    for word in ["useful ", "busy ", "idle ", "unit issue ", "unit mxu0 ", "bound "] {
        assert!(page.lines().any(|l| l.starts_with(word)), "{word}");
    }
}

#[test]
fn fusions_show_their_members_and_scopes_form_a_tree() {
    let text = "HloModule f\n\nFileNames\n1 \"/home/me/model.py\"\n\nFunctionNames\n1 \"layer\"\n\nFileLocations\n\
                1 {file_name_id=1 function_name_id=1 line=12 end_line=12 column=3 end_column=9}\n\nStackFrames\n\
                1 {file_location_id=1 parent_frame_id=1}\n\nENTRY e {\n\
                x = f32[256,256] parameter(0)\n\
                a = f32[256,256] tanh(x), metadata={op_name=\"jit(f)/block/act/tanh\" source_file=\"model.py\" source_line=10}\n\
                b = f32[256,256] multiply(a, x), metadata={op_name=\"jit(f)/block/mul\" stack_frame_id=1}\n\
                ROOT c = f32[256,256] dot(b, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name=\"jit(f)/head/dot\" stack_frame_id=1}\n}\n";
    let (module, profile) = (written("members.hlo", text), scratch("members.sysp"));
    works(&["run", &module, "--timing-only", "--profile", &profile]);
    let r = json(&["profile", &profile, "--json"]);
    let op = r["ops"].as_array().expect("ops").iter().find(|o| o["name"] == "b").expect("the fusion's root");
    let member = &op["members"][0];
    assert_eq!((&member["name"], &member["opcode"]), (&Value::from("a"), &Value::from("tanh")));
    assert_eq!((&member["origin"]["file"], &member["origin"]["line"]), (&Value::from("model.py"), &Value::from(10)));
    let frame = &op["origin"];
    assert_eq!((&frame["file"], &frame["line"]), (&Value::from("/home/me/model.py"), &Value::from(12)));
    assert_eq!(frame["function"], "layer");
    let tree = works(&["profile", &profile, "--by", "scope"]);
    let depth = |name: &str| tree.lines().find_map(|l| l.find(name)).unwrap_or_else(|| panic!("no {name}: {tree}"));
    assert!(depth("jit(f)") < depth("  block") + 2 && tree.contains("head"), "{tree}");
    let lines = works(&["profile", &profile, "--by", "line"]);
    assert!(lines.contains("/home/me/model.py:12"), "{lines}");
    // What the module names, what it does not, and code of no operation: all of the run.
    let table = lines.lines().skip_while(|l| !l.contains("cycles   share")).skip(1);
    let sum: u64 = table.filter_map(|l| l.split_whitespace().next()?.parse::<u64>().ok()).sum();
    assert_eq!(sum as f64, number(&r["cycles"]), "{lines}");
    let scopes = r["devices"][0]["scopes"].as_array().expect("scopes");
    let outermost = scopes.iter().filter(|s| s["path"].as_array().is_some_and(|p| p.len() == 1));
    assert_eq!(outermost.map(|s| number(&s["cycles"])).sum::<f64>(), number(&r["cycles"]), "{scopes:?}");
    // A filter finds a member.
    let found = json(&["top", &profile, "--json", "--view", "operations", "--keys", "/tanh<enter>"]);
    assert_eq!(found["view"]["operations"].as_array().map(Vec::len), Some(1), "{}", found["view"]);
    let page = works(&["run", &module, "--timing-only"]);
    assert!(page.contains("+ tanh") && page.contains("model.py:12"), "{page}");
}

#[test]
fn files_of_other_kinds_are_named() {
    for (name, bytes, part) in [
        ("a.npz", &b"PK\x03\x04abc"[..], "--inputs"),
        ("a.npy", b"\x93NUMPY\x01\x00", "--inputs"),
        ("a.hlo.gz", b"\x1f\x8b\x08", "gzip"),
        ("a.py", b"import jax\n\ndef f(x):\n    return x\n", "as_text"),
        ("a.toml", b"base = \"tiny\"\n", "--chip"),
        ("empty.hlo", b"", "empty"),
        ("noise.bin", b"\x00\x01\x02\xff\xfe\x00\x00\x80", "neither"),
    ] {
        let path = scratch(name);
        std::fs::write(&path, bytes).expect("writable");
        let message = refused(&["run", &path]);
        assert!(message.contains(name) && message.contains(part), "{name}: {message}");
    }
    let profile = scratch("kind.sysp");
    works(&["run", &example("mlp.hlo"), "--chip", "tiny", "--timing-only", "--profile", &profile]);
    let message = refused(&["run", &profile]);
    assert!(message.contains("systole profile"), "{message}");
    let message = refused(&["run", &std::env::temp_dir().to_string_lossy()]);
    assert!(message.contains("folder"), "{message}");
}

#[test]
fn flags_that_do_nothing_are_told() {
    let mlp = example("mlp.hlo");
    let message = refused(&["run", &mlp, "--cores", "4", "--timing-only"]);
    assert!(message.contains("--cores 4") && message.contains("1 core"), "{message}");
    let o = systole(&["run", &mlp, "--partitions", "4", "--timing-only"]);
    let said = String::from_utf8_lossy(&o.stderr);
    assert_eq!(o.status.code(), Some(0), "{said}");
    assert!(said.contains("--partitions 4") && said.contains("every device"), "{said}");
    for (flag, value, part) in [
        ("--topology", "2x4", "one device"),
        ("--collective", "ring", "one device"),
        ("--assume", "loop=3", "called loop"),
    ] {
        let o = systole(&["run", &mlp, flag, value, "--timing-only"]);
        let said = String::from_utf8_lossy(&o.stderr);
        let (one, fine) = (said.lines().count() == 1, o.status.code() == Some(0));
        assert!(fine && one && said.contains(&format!("{flag} {value}")) && said.contains(part), "{said}");
    }
    for (flags, part) in [
        (["--device-order", "1,1"], "place 1"),
        (["--device-order", "5"], "place 5"),
        (["--device-order", "0,0"], "place 0 twice"),
        (["--scoped-vmem", "0"], "bytes"),
        (["--scoped-vmem", "1TiB"], "vector memory of tpu-v5e"),
    ] {
        let message = refused(&["run", &mlp, flags[0], flags[1], "--timing-only"]);
        assert!(message.contains(flags[0]) && message.contains(part), "{message}");
    }
    works(&["run", &mlp, "--device-order", "0", "--timing-only"]);
    let sys = scratch("flags.sys");
    works(&["compile", &mlp, "-o", &sys, "--chip", "tiny"]);
    let o = systole(&["run", &sys, "--precision", "highest", "--timing-only"]);
    let said = String::from_utf8_lossy(&o.stderr);
    assert!(said.contains("--precision=highest") && said.contains("compiled"), "{said}");
}

#[test]
fn what_cannot_be_divided_is_in_the_report() {
    let text = r#"module attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func @main(%a: tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> (tensor<64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %1 = stablehlo.compare LT, %x, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }) : (tensor<64xf32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}
"#;
    let path = written("sorted.mlir", text);
    let flags = ["--partitions", "8"];
    let whole = &report(&path, &flags)["pod"]["whole"];
    assert!(whole[0]["why"].as_str().is_some_and(|w| w.contains("sort")), "{whole}");
    // The other seven parts of 8 floats.
    assert_eq!(whole[0]["bytes"], 7 * 8 * 4);
    let page = works(&[&["run", &path, "--timing-only"][..], &flags].concat());
    assert!(page.contains("whole on every device: "), "{page}");
}

#[test]
fn entry_arrays_lie_by_their_shapes_alone() {
    let module = |name: &str, (from, to): (&str, &str)| {
        let text = format!(
            "HloModule m\nENTRY e {{ a = f32[{from}] parameter(0) n = f32[{from}] negate(a) ROOT r = f32[{to}] reshape(n) }}"
        );
        written(name, &text)
    };
    let (narrow, wide) = ("262144,4", "8192,128");
    let parameter = module("narrow_parameter.hlo", (narrow, wide));
    let result = module("narrow_result.hlo", (wide, narrow));
    let most = 1.05 * 4.0 * 1_048_576.0;
    for (path, name) in [(&parameter, "a"), (&result, "result")] {
        let r = report(path, &[]);
        for moved in ["read_bytes", "write_bytes"] {
            assert!(number(&r["hbm"][moved]) < most, "{path}: {moved} {}", r["hbm"][moved]);
        }
        let entry = r["entry"].as_array().expect("a narrow array is compact");
        assert_eq!(entry.len(), 1, "{entry:?}");
        assert_eq!(entry[0]["name"], name);
        assert_eq!(entry[0]["shape"], format!("f32[{narrow}]"));
        assert_eq!(entry[0]["lies_as"], serde_json::json!([8192, 128]));
        assert!(works(&["run", path, "--timing-only"]).contains("by their shapes"));
        assert!(works(&["check", path]).contains(": ok"));
    }
    // What else the program does with it changes nothing; what was chosen is said.
    let text =
        "HloModule t\nENTRY e { a = f32[262144,4] parameter(0) ROOT t = f32[4,262144] transpose(a), dimensions={1,0} }";
    let turned = written("narrow_turned.hlo", text);
    assert_eq!(report(&turned, &[])["entry"][0]["lies_as"], serde_json::json!([8192, 128]));
    let auto = report(&turned, &["--entry-layout", "auto"]);
    assert_eq!(auto["entry"][0]["lies_as"], serde_json::json!([4, 262144]));
    assert!(works(&["run", &turned, "--timing-only", "--entry-layout", "auto"]).contains("chosen for the program"));
}
