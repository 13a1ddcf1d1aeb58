//! What the command says about a run is true, and the same everywhere: totals, identities, forms of data.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A file for this test alone.
fn scratch(name: &str) -> String {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&dir).expect("the target folder is writable");
    dir.join(name).to_string_lossy().into_owned()
}

fn written(name: &str, text: &str) -> String {
    let path = scratch(name);
    std::fs::write(&path, text).expect("the target folder is writable");
    path
}

fn example(name: &str) -> String {
    format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn systole(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_systole")).args(args).output().expect("the command starts")
}

fn works(args: &[&str]) -> String {
    let o = systole(args);
    assert_eq!(o.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8_lossy(&o.stdout).into_owned()
}

fn refused(args: &[&str]) -> String {
    let o = systole(args);
    let message = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(2), "{args:?}: {message}");
    message
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&works(args)).unwrap_or_else(|e| panic!("{args:?}: {e}"))
}

fn report(module: &str, more: &[&str]) -> Value {
    json(&[&["run", module, "--timing-only", "--report", "json"], more].concat())
}

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("{v} is no number"))
}

/// A product of `[m, k]` and `[k, n]`.
fn dot(dtype: &str, out: &str, (m, k, n): (u64, u64, u64)) -> String {
    format!(
        "HloModule d\nENTRY e {{ a = {dtype}[{m},{k}] parameter(0) b = {dtype}[{k},{n}] parameter(1) \
         ROOT c = {out}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
    )
}

/// A loop that multiplies a state by a matrix, `trips` times.
fn looped(trips: u64) -> String {
    format!(
        "HloModule l\nbody {{ s = (s32[], bf16[64,64], bf16[64,64]) parameter(0)\n\
         i = s32[] get-tuple-element(s), index=0 x = bf16[64,64] get-tuple-element(s), index=1\n\
         w = bf16[64,64] get-tuple-element(s), index=2 one = s32[] constant(1) j = s32[] add(i, one)\n\
         y = bf16[64,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n\
         ROOT t = (s32[], bf16[64,64], bf16[64,64]) tuple(j, y, w) }}\n\
         cond {{ s = (s32[], bf16[64,64], bf16[64,64]) parameter(0) i = s32[] get-tuple-element(s), index=0\n\
         n = s32[] constant({trips}) ROOT r = pred[] compare(i, n), direction=LT }}\n\
         ENTRY e {{ x = bf16[64,64] parameter(0) w = bf16[64,64] parameter(1) z = s32[] constant(0)\n\
         i = (s32[], bf16[64,64], bf16[64,64]) tuple(z, x, w)\n\
         l = (s32[], bf16[64,64], bf16[64,64]) while(i), condition=cond, body=body\n\
         ROOT o = bf16[64,64] get-tuple-element(l), index=1 }}"
    )
}

#[test]
fn flops_of_loops_are_the_same_true_number_everywhere() {
    let (module, profile, trace) = (written("loop.hlo", &looped(20)), scratch("loop.sysp"), scratch("loop.json"));
    let expected = 20.0 * 2.0 * 64.0 * 64.0 * 64.0;
    let ops = |r: &Value| -> f64 { r["ops"].as_array().expect("ops").iter().map(|o| number(&o["flops"])).sum() };
    for more in [&[][..], &["--no-loop-skip"], &["--chip", "tpu-v4", "--cores", "2"], &["--chip", "tiny"]] {
        let r = report(&module, more);
        assert_eq!((number(&r["flops"]), ops(&r)), (expected, expected), "{more:?}");
        let peak = number(&r["peaks"][0]["peak_flops_per_s"]);
        let share = expected / peak / number(&r["time_s"]);
        assert!((number(&r["peak_share"]) / share - 1.0).abs() < 1e-9, "{more:?}: {} for {share}", r["peak_share"]);
    }
    works(&["run", &module, "--timing-only", "--profile", &profile]);
    let p = json(&["profile", &profile, "--json"]);
    assert_eq!((number(&p["flops"]), ops(&p), ops(&p["devices"][0])), (expected, expected, expected));
    works(&["trace", &profile, "--format", "chrome", "-o", &trace]);
    let t: Value = serde_json::from_str(&std::fs::read_to_string(&trace).expect("written")).expect("JSON");
    assert_eq!(number(&t["otherData"]["flops"]), expected);
    let op = p["ops"].as_array().expect("ops").iter().find(|o| o["opcode"] == "dot").expect("the product");
    assert_eq!(op["times"], 20);
    // Matrix units need exactly the cycles that the flops take at their peak.
    let useful: f64 = p["units"]
        .as_array()
        .expect("units")
        .iter()
        .filter(|u| u["unit"].as_str().is_some_and(|n| n.starts_with("mxu")))
        .map(|u| number(&u["useful"]))
        .sum();
    let units = p["units"]
        .as_array()
        .expect("units")
        .iter()
        .filter(|u| u["unit"].as_str().is_some_and(|n| n.starts_with("mxu")))
        .count();
    let per_cycle = number(&p["peaks"][0]["peak_flops_per_s"]) / number(&p["clock_hz"]) / units as f64;
    assert!((useful / (expected / per_cycle) - 1.0).abs() < 1e-9, "{useful} useful cycles");
}

#[test]
fn a_product_beside_an_exchange_counts_once() {
    let text = "HloModule p, num_partitions=4\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n\
                ENTRY e { x = bf16[512,512] parameter(0) w = bf16[512,512] parameter(1) y = f32[1024,1024] parameter(2)\n\
                d = bf16[512,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n\
                r = f32[1024,1024] all-reduce(y), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add\n\
                ROOT t = (bf16[512,512], f32[1024,1024]) tuple(d, r) }";
    let r = report(&written("beside.hlo", text), &["--partitions", "4", "--topology", "ring:4"]);
    assert_eq!(number(&r["flops"]), 2.0 * 512.0 * 512.0 * 512.0);
    let op = r["ops"].as_array().expect("ops").iter().find(|o| o["opcode"] == "dot").expect("the product");
    assert_eq!(op["times"], 1, "{op}");
}

#[test]
fn totals_of_several_devices_say_whose_they_are() {
    let text = "HloModule p, num_partitions=4\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n\
                ENTRY e { x = f32[256,256] parameter(0) d = f32[256,256] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n\
                ROOT r = f32[256,256] all-reduce(d), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add }";
    let (file, profile, html) = (written("whose.hlo", text), scratch("whose.sysp"), scratch("whose.html"));
    let flags = ["--partitions", "4", "--topology", "ring:4", "--chip", "tiny"];
    let page = works(&[&["run", &file, "--profile", &profile][..], &flags].concat());
    let r = report(&file, &flags);
    let read = number(&r["hbm"]["read_bytes"]);
    assert!(page.contains("33.55 Mflop a device, ") && page.contains(" written a device, "), "{page}");
    assert!(page.contains(" of 4 devices (5 to 95 %"), "{page}");
    assert!(works(&["profile", &profile]).contains("33.55 Mflop a device, "));
    works(&["report", &profile, "-o", &html]);
    let html = std::fs::read_to_string(html).expect("it was written");
    let said = |what: &str| {
        let (_, rest) = html.split_once(&format!("<dt>{what}</dt><dd>")).unwrap_or_else(|| panic!("no `{what}`"));
        rest.split_once('<').expect("an end").0.to_string()
    };
    assert_eq!(said("HBM read"), format!("{:.2} kB a device", read / 1e3));
    assert_eq!(said("useful work"), "33.55 Mflop a device");
    assert!(html.contains("<dt>energy of all devices</dt>"));
}

#[test]
fn products_of_every_type_count() {
    let flops = 2.0 * 64.0 * 128.0 * 32.0;
    for (dtype, out, times) in [
        ("bf16", "f32", 1.0),
        ("f32", "f32", 1.0),
        ("f16", "f16", 1.0),
        ("s8", "s32", 1.0),
        ("s16", "s32", 1.0),
        ("s32", "s32", 1.0),
        ("f64", "f64", 1.0),
        ("c64", "c64", 4.0),
    ] {
        let r = report(&written(&format!("dot_{dtype}.hlo"), &dot(dtype, out, (64, 128, 32))), &[]);
        assert_eq!(number(&r["flops"]), times * flops, "{dtype}");
        let peaks = r["peaks"].as_array().expect("peaks");
        assert_eq!(peaks.iter().map(|p| number(&p["flops"])).sum::<f64>(), times * flops, "{dtype}");
    }
}

#[test]
fn mixed_types_are_compared_each_with_its_peak() {
    let text = "HloModule m\nENTRY e { a = s8[256,512] parameter(0) b = s8[512,256] parameter(1)\n\
                c = bf16[256,512] parameter(2) d = bf16[512,256] parameter(3)\n\
                x = s32[256,256] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n\
                y = f32[256,256] dot(c, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n\
                ROOT t = (s32[256,256], f32[256,256]) tuple(x, y) }";
    let module = written("mixed.hlo", text);
    let r = report(&module, &[]);
    let peaks = r["peaks"].as_array().expect("peaks");
    assert_eq!(peaks.len(), 2, "{peaks:?}");
    let by = |t: &str| peaks.iter().find(|p| p["operand"] == t).unwrap_or_else(|| panic!("no {t}"));
    assert_eq!(number(&by("s8")["flops"]), number(&by("bf16")["flops"]));
    assert_eq!(
        number(&by("s8")["peak_flops_per_s"]),
        2.0 * number(&by("bf16")["peak_flops_per_s"]),
        "s8 is twice as fast"
    );
    let sum: f64 = peaks.iter().map(|p| number(&p["share"])).sum();
    assert!((sum - number(&r["peak_share"])).abs() < 1e-12 && sum < 1.0);
    let page = works(&["run", &module, "--timing-only"]);
    assert!(page.contains("% of peak (") && page.contains("s8 ") && page.contains("bf16 "), "{page}");
    let page = works(&["run", &written("one.hlo", &dot("bf16", "f32", (64, 128, 32))), "--timing-only"]);
    assert!(page.contains("% of peak (bf16: 196.6"), "{page}");
}

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

/// The schema of everything that is printed.
fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/generated/report.schema.json");
    let text = std::fs::read_to_string(path).expect("tests/generated.rs writes it");
    serde_json::from_str(&text).expect("JSON")
}

/// What of a value is not as a schema says; a field that it does not name is wrong too. Only the words are known that the
/// schema uses, and an unknown one is an error.
fn mismatch(root: &Value, schema: &Value, v: &Value) -> Option<String> {
    let s = match schema {
        Value::Object(s) => s,
        Value::Bool(true) => return None,
        other => return Some(format!("the schema has {other}")),
    };
    for (word, said) in s {
        let wrong = match word.as_str() {
            "$schema" | "$defs" | "title" | "description" | "format" | "default" | "minimum" | "maximum" => None,
            "$ref" => {
                let name = said.as_str().and_then(|r| r.strip_prefix("#/$defs/")).expect("a definition");
                mismatch(root, &root["$defs"][name], v)
            }
            "anyOf" => {
                let all: Vec<Option<String>> =
                    said.as_array().expect("forms").iter().map(|f| mismatch(root, f, v)).collect();
                all.iter().all(Option::is_some).then(|| format!("none of the forms: {all:?}"))
            }
            "const" => (said != v).then(|| format!("{v} is not {said}")),
            "type" => {
                let is = |t: &Value| match t.as_str() {
                    Some("object") => v.is_object(),
                    Some("array") => v.is_array(),
                    Some("string") => v.is_string(),
                    Some("integer") => v.is_u64() || v.is_i64(),
                    Some("number") => v.is_number(),
                    Some("null") => v.is_null(),
                    Some("boolean") => v.is_boolean(),
                    _ => false,
                };
                let fits = said.as_array().map_or_else(|| is(said), |all| all.iter().any(is));
                (!fits).then(|| format!("{v} is no {said}"))
            }
            "required" => {
                let names = said.as_array().expect("names").iter().filter_map(Value::as_str);
                names.filter(|n| v.is_object() && v.get(n).is_none()).map(|n| format!("no `{n}`")).next()
            }
            "items" => {
                let items = v.as_array().into_iter().flatten();
                items.filter_map(|i| mismatch(root, said, i)).next()
            }
            "prefixItems" | "minItems" | "maxItems" => None,
            "properties" => {
                let fields = v.as_object().into_iter().flatten();
                let one = |(name, value): (&String, &Value)| match said.get(name) {
                    Some(of) => mismatch(root, of, value).map(|e| format!("{name}: {e}")),
                    None => Some(format!("`{name}` is not in the schema")),
                };
                fields.filter_map(one).next()
            }
            "additionalProperties" => {
                let named = |n: &String| s.get("properties").is_some_and(|p| p.get(n).is_some());
                let fields = v.as_object().into_iter().flatten().filter(|f| !named(f.0));
                fields.filter_map(|(n, value)| mismatch(root, said, value).map(|e| format!("{n}: {e}"))).next()
            }
            other => Some(format!("the schema says `{other}`")),
        };
        if wrong.is_some() {
            return wrong;
        }
    }
    None
}

#[test]
fn everything_printed_as_json_is_of_the_one_schema() {
    let schema = schema();
    let wrong = |d: &Value| mismatch(&schema, &schema, d);
    let (module, profile, other) = (example("mlp.hlo"), scratch("schema.sysp"), scratch("schema2.sysp"));
    works(&["run", &module, "--chip", "tiny", "--profile", &profile, "--profile-level", "bundles"]);
    works(&["run", &module, "--chip", "tiny", "--set", "clock=2GHz", "--profile", &other]);
    let mut documents = vec![
        ("run", report(&module, &["--chip", "tiny"])),
        ("numbers", json(&["run", &module, "--chip", "tiny", "--numeric-only", "--report", "json"])),
        ("pod", report(&module, &["--chip", "tpu-v5e", "--replicas", "4"])),
        ("cores", report(&module, &["--chip", "tpu-v4", "--cores", "2"])),
        ("profile", json(&["profile", &profile, "--json"])),
        ("difference", json(&["profile", &profile, "--diff", &other, "--json"])),
    ];
    for view in
        ["overview", "timeline", "operations", "roofline", "memory", "stalls", "interconnect", "program", "chip"]
    {
        documents.push((view, json(&["top", &profile, "--json", "--view", view])));
    }
    for (what, d) in &documents {
        assert_eq!(wrong(d), None, "{what}");
    }
    // The schema says something: a number as a text is none of it.
    for (field, value) in [("cycles", Value::from("many")), ("schema", 99.into()), ("more", 1.into())] {
        let mut other = documents[0].1.clone();
        other[field] = value;
        assert!(wrong(&other).is_some(), "{field}");
    }
}

#[test]
fn a_recording_says_what_its_run_said() {
    let (pod, profile) = (example("gpt_adam_pod.hlo"), scratch("again.sysp"));
    // Devices that do different work: the last one of a chain waits for the others.
    let chain = "HloModule m\nENTRY e { x = f32[256,256] parameter(0)\n\
                 r = f32[256,256] collective-permute(x), source_target_pairs={{0,1},{1,2},{2,3}}\n\
                 s = f32[256,256] collective-permute(r), source_target_pairs={{1,2},{2,3}}\n\
                 ROOT t = f32[256,256] tanh(s) }";
    let (mlp, chain) = (example("mlp.hlo"), written("chain.hlo", chain));
    let cases: [(&str, &[&str]); 6] = [
        (&mlp, &["--chip", "tpu-v5e"]),
        (&mlp, &["--chip", "tiny"]),
        (&example("transformer_block.hlo"), &["--chip", "tpu-v4", "--cores", "2"]),
        (&pod, &["--chip", "tpu-v5e"]),
        (&chain, &["--chip", "tpu-v5e", "--replicas", "4", "--topology", "2x2", "--all-devices"]),
        (&chain, &["--chip", "tpu-v3", "--replicas", "4", "--topology", "2x1", "--all-devices"]),
    ];
    for (module, flags) in cases {
        let run = report(module, &[flags, &["--profile", &profile]].concat());
        let read = json(&["profile", &profile, "--json"]);
        for (field, said) in run.as_object().expect("a report") {
            assert!(field == "host" || read[field] == *said, "{module} {flags:?}: {field}: {said}\n{}", read[field]);
        }
        // Units belong to the device whose cycles these are.
        let of = |d: &Value| (d["chip"].clone(), d["core"].clone());
        let slowest = read["devices"].as_array().expect("devices").iter().find(|d| d["cycles"] == run["cycles"]);
        assert_eq!(of(&run["units"][0]), of(slowest.expect("the slowest")), "{module} {flags:?}");
    }
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
fn memories_are_never_more_than_full() {
    let (module, profile) = (written("peak.hlo", &looped(50)), scratch("peak.sysp"));
    for chip in ["tiny", "tpu-v5e"] {
        works(&["run", &module, "--timing-only", "--chip", chip, "--profile", &profile]);
        for m in json(&["profile", &profile, "--json"])["memories"].as_array().expect("memories") {
            assert!(number(&m["peak_bytes"]) <= number(&m["bytes"]), "{chip}: {m}");
        }
    }
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
fn trips_are_assumed_by_the_names_of_loops() {
    // Conditions that the chip computes as arrays.
    let part = |n: &str, op: &str| {
        format!(
            "body{n} {{ s = (f32[], f32[8]) parameter(0) i = f32[] get-tuple-element(s), index=0\n\
             x = f32[8] get-tuple-element(s), index=1 o = f32[] constant(1) j = f32[] add(i, o) y = f32[8] {op}(x)\n\
             ROOT t = (f32[], f32[8]) tuple(j, y) }}\n\
             cond{n} {{ s = (f32[], f32[8]) parameter(0) i = f32[] get-tuple-element(s), index=0\n\
             n = f32[] constant(5) ROOT c = pred[] compare(i, n), direction=LT }}\n"
        )
    };
    let text = format!(
        "HloModule m\n{}{}ENTRY e {{ k = f32[] parameter(0) x = f32[8] parameter(1)\n\
         s = (f32[], f32[8]) tuple(k, x) first = (f32[], f32[8]) while(s), condition=cond1, body=body1\n\
         y = f32[8] get-tuple-element(first), index=1 u = (f32[], f32[8]) tuple(k, y)\n\
         second = (f32[], f32[8]) while(u), condition=cond2, body=body2\n\
         ROOT r = f32[8] get-tuple-element(second), index=1 }}\n",
        part("1", "tanh"),
        part("2", "cosine")
    );
    let module = written("assumed.hlo", &text);
    let o = systole(&["run", &module, "--timing-only"]);
    let said = String::from_utf8_lossy(&o.stderr).into_owned();
    assert!(o.status.code() == Some(1) && said.contains("--assume first"), "{said}");
    let r = report(&module, &["--assume", "first=7", "--assume", "%second=9"]);
    let times = |op: &str| {
        let row = r["ops"].as_array().expect("ops").iter().find(|o| o["opcode"] == op);
        row.unwrap_or_else(|| panic!("no {op}"))["times"].clone()
    };
    assert_eq!([times("tanh"), times("cosine")], [7, 9].map(Value::from));
}

#[test]
fn every_byte_of_hbm_and_every_hop_costs_its_time() {
    // 64 MiB in, 64 MiB out: nothing else takes as long, so the time is that of all bytes.
    let copy = "HloModule c\nENTRY e { a = f32[4096,4096] parameter(0) ROOT b = f32[4096,4096] negate(a) }";
    let module = written("bytes.hlo", copy);
    let r = report(&module, &[]);
    let bytes = 2.0 * 4096.0 * 4096.0 * 4.0;
    assert!(number(&r["hbm"]["read_bytes"]) + number(&r["hbm"]["write_bytes"]) >= bytes);
    let least = bytes / 819e9;
    assert!(number(&r["time_s"]) > least, "{} s for {bytes} bytes", r["time_s"]);
    assert!(number(&r["path"]["hbm"]) / number(&r["cycles"]) > 0.8, "{}", r["path"]);
    assert_eq!(r["bound"], "hbm");
    let hop = |latency: &str, to: u64| {
        let text = format!(
            "HloModule h, num_partitions=8\nENTRY e {{ a = f32[8,128] parameter(0) \
             ROOT p = f32[8,128] collective-permute(a), channel_id=1, source_target_pairs={{{{0,{to}}}}} }}"
        );
        let set = format!("ici.hop_latency={latency}");
        let more = ["--topology", "ring:8", "--partitions", "8", "--set", &set];
        number(&report(&written(&format!("hop{to}.hlo"), &text), &more)["time_s"])
    };
    // The way is gone twice: the receiver says that it is ready, then the data come.
    for hops in [1u64, 3] {
        let longer = hop("5us", hops) - hop("1us", hops);
        assert!((longer / (2.0 * hops as f64 * 4e-6) - 1.0).abs() < 0.02, "{hops} hops: {longer} s more");
    }
}

#[test]
fn energy_is_told_by_unit_operation_and_cause_everywhere() {
    let (module, profile, html) = (example("mlp.hlo"), scratch("joules.sysp"), scratch("joules.html"));
    works(&["run", &module, "--timing-only", "--profile", &profile]);
    let r = report(&module, &[]);
    let e = &r["energy"];
    let sum = |v: &Value| v.as_object().expect("parts").values().map(number).sum::<f64>();
    let total = number(&e["joules"]);
    assert!((sum(&e["units"]) / total - 1.0).abs() < 1e-9 && (sum(&e["purposes"]) / total - 1.0).abs() < 1e-9);
    let ops = |r: &Value| r["ops"].as_array().expect("ops").iter().map(|o| number(&o["joules"])).sum::<f64>();
    assert!((ops(&r) / number(&e["dynamic_joules"]) - 1.0).abs() < 1e-9, "the operations' are all but the idle ones");
    let recorded = json(&["profile", &profile, "--json"]);
    assert_eq!(ops(&recorded), ops(&r));
    assert_eq!(recorded["devices"][0]["ops"].as_array().map(Vec::len), r["ops"].as_array().map(Vec::len));
    works(&["report", &profile, "-o", &html]);
    let html = std::fs::read_to_string(&html).expect("written");
    let chip = works(&["top", &profile, "--once", "--view", "chip", "--width", "140", "--height", "50"]);
    let narrow = works(&["top", &profile, "--once", "--view", "chip", "--width", "80", "--height", "24"]);
    for (what, text) in [
        ("run", works(&["run", &module, "--timing-only"])),
        ("profile", works(&["profile", &profile])),
        ("html", html),
        ("dashboard", chip),
        ("narrow dashboard", narrow),
    ] {
        for part in ["by unit", "by cause", " W", "pJ", "hbm", "movement"] {
            assert!(text.contains(part), "{what} does not say `{part}`: {}", &text[..text.len().min(4000)]);
        }
    }
}

#[test]
fn padding_is_busy_and_not_useful() {
    let tanh = |shape: &str| {
        let text = format!(
            "HloModule t\nENTRY e {{ a = f32[{shape}] parameter(0) b = f32[{shape}] tanh(a) \
             ROOT c = f32[{shape}] multiply(b, a) }}"
        );
        report(&written(&format!("pad_{}.hlo", shape.replace(',', "_")), &text), &[])
    };
    let of = |r: &Value, unit: &str, field: &str| {
        let all = r["units"].as_array().expect("units").iter().find(|u| u["unit"] == unit);
        number(&all.unwrap_or_else(|| panic!("no {unit}"))[field])
    };
    let whole = tanh("4096,128");
    // Useful is what the elements need, however arrays lie in memory.
    for (shape, elements) in [("4096,32", 4096 * 32), ("1000,100", 1000 * 100), ("4096,200", 4096 * 200)] {
        let part = tanh(shape);
        for unit in ["valu", "eup", "vload", "vstore", "dma"] {
            let share = of(&part, unit, "useful") / of(&whole, unit, "useful");
            let expected = elements as f64 / (4096.0 * 128.0);
            assert!((share / expected - 1.0).abs() < 0.2, "{unit} of {shape}: {share} of the whole, not {expected}");
            assert!(of(&part, unit, "useful") <= of(&part, unit, "busy"), "{unit} of {shape}");
        }
    }
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
