//! Totals are the same true numbers everywhere, and everything that is done costs its time.

use super::{dot, example, json, looped, number, report, scratch, systole, works, written};
use serde_json::Value;

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
    let same = ["f32", "f16", "s32", "f64", "c64"].map(|t| (t, t));
    for (dtype, out) in [("bf16", "f32"), ("s8", "s32"), ("s16", "s32")].into_iter().chain(same) {
        let times = if dtype == "c64" { 4.0 } else { 1.0 };
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
