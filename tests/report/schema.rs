//! What is printed as JSON is of one schema, and a recording says what its run said.

use super::{example, json, report, scratch, works, written};
use serde_json::Value;

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
