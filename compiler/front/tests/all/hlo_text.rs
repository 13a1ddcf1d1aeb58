//! HLO text: what is read, and what is refused with its place.

use super::conformance;
use systole_front::parse_hlo;
use systole_hlo::graph::Span;
use systole_hlo::graph::print::to_text;
use systole_hlo::graph::verify::verify;

/// Parses and verifies; the rendered diagnostics if it is refused.
fn load(text: &str) -> Result<systole_hlo::graph::Module, String> {
    let show = |d: &[systole_hlo::diag::Diagnostic]| systole_hlo::diag::render(d, "m.hlo", text, false);
    let (module, warnings) = parse_hlo(text).map_err(|d| show(&d))?;
    assert!(warnings.iter().all(|w| w.severity == systole_hlo::diag::Severity::Warning));
    let errors = verify(&module).map_err(|e| e.into_iter().map(Into::into).collect::<Vec<_>>());
    errors.map_err(|e| show(&e)).map(|()| module)
}

#[test]
fn conformance_programs_are_accepted() {
    for f in ["ops", "models", "dist", "large"].into_iter().flat_map(|s| conformance(s, "hlo")) {
        let text = std::fs::read_to_string(&f).expect("text");
        if let Err(e) = load(&text) {
            panic!("{}: {e}", f.display());
        }
        let (_, warnings) = parse_hlo(&text).expect("read before");
        assert!(warnings.is_empty(), "{}: {warnings:?}", f.display());
    }
}

#[test]
fn invalid_programs_are_refused_with_a_place() {
    for f in conformance("invalid", "hlo") {
        let bytes = std::fs::read(&f).expect("bytes");
        let text = String::from_utf8_lossy(&bytes);
        match load(&text) {
            Ok(_) => panic!("{} is accepted", f.display()),
            Err(e) => {
                println!("{}: {e}", f.display());
                assert!(e.contains("m.hlo:") && e.contains("error: "), "{}: {e}", f.display());
            }
        }
    }
}

/// Printing and reading give the same module; only spans differ.
fn round_trip(text: &str) -> systole_hlo::graph::Module {
    let mut module = load(text).unwrap_or_else(|e| panic!("{e}"));
    let printed = to_text(&module);
    let mut again = load(&printed).unwrap_or_else(|e| panic!("{e}\n{printed}"));
    for m in [&mut module, &mut again] {
        m.computations.iter_mut().flat_map(|c| &mut c.nodes).for_each(|n| n.span = Span::default());
    }
    assert_eq!(to_text(&again), printed);
    assert!(module == again, "{printed}");
    module
}

#[test]
fn printing_reads_back() {
    for f in ["ops", "models", "dist", "large"].into_iter().flat_map(|s| conformance(s, "hlo")) {
        round_trip(&std::fs::read_to_string(&f).expect("text"));
    }
}

/// A text with every spelling that is not in the conformance suites.
const FORMS: &str = r#"HloModule forms, is_scheduled=true, replica_count=2, input_output_alias={ {0}: (0, {}, may-alias) }, entry_computation_layout={(f32[4]{0}, f32[2,2]{1,0:T(8,128)})->(f32[4]{0}, f32[])}

FileNames
1 "/tmp/a.py"
FunctionNames
1 "f"
FileLocations
1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=3 end_column=9}
StackFrames
1 {file_location_id=1 parent_frame_id=1}

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %c = f32[] add(f32[] %a, f32[] %b), metadata={op_name="x" stack_frame_id=1}
}
later_callee_user { p = f32[4] parameter(0) ROOT r = call(p), to_apply=later }
later { p = f32[4]{0} parameter(0)  ROOT c = f32[4]{0} cosine(p) }, execution_thread="host"
ENTRY %main (x: f32[4], y: f32[2,2]) -> (f32[4], f32[]) {
  %y = f32[2,2]{1,0:T(8,128)(2,1)S(1)} parameter(1), sharding={devices=[2,1]<=[2]}
  ROOT t = tuple(cd, z), backend_config={uplo = 76 : ui8}
  %x = f32[4]{0:T(128)} parameter(0)
  /* a comment */ k = f32[]{:T(128)} constant(1e-3) // another
  i = maximum(abs(x), f32[4] constant({1,2,3,4}))
  as = ((f32[4]), f32[4], u32[]) async-start(i), calls=later, async_execution_thread="host"
  au = ((f32[4]), f32[4], u32[]) async-update(as)
  ad = f32[4] async-done(au)
  ar = f32[4] all-reduce-start(ad), replica_groups={{0,1}}, to_apply=add
  ard = f32[4] all-reduce-done(ar)
  ag = (f32[4], f32[8]) all-gather-start(ard), dimensions={0}, replica_groups=[1,2]<=[2]
  agd = f32[8] all-gather-done(ag)
  sl = ((f32[8]), f32[4], u32[]) slice-start(agd), slice={[0:8:2]}
  sld = f32[4] slice-done(sl)
  cs = (f32[4], f32[4], u32[]) copy-start(sld), cross_program_prefetch_index=0
  cd = f32[4] copy-done(cs)
  z = reduce(cd, k), dimensions={0}, to_apply=add, backend_config={"a":["}",{"b":1}]}
}
"#;

#[test]
fn every_spelling_is_read() {
    let m = round_trip(FORMS);
    let printed = to_text(&m);
    for part in
        ["source_file=\"/tmp/a.py\" source_line=7", "calls=%ar.wrapped", "replica_count=2", "may-alias", "uplo = 76"]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert_eq!(m.entry().name, "main");
    assert_eq!(m.entry().result().to_string(), "(f32[4]{0}, f32[])".replace("{0}", ""));
}

#[test]
fn literals_keep_their_bits() {
    let bytes = |text: &str| {
        let m = round_trip(&format!("HloModule m ENTRY e {{ ROOT r = {text} }}"));
        match &m.entry().node(m.entry().root).op {
            systole_hlo::graph::Op::Constant(l) => l.to_bytes(),
            other => panic!("{other:?}"),
        }
    };
    let table: &[(&str, &[u8])] = &[
        ("f32[] constant(-nan(0x1))", &[1, 0, 0x80, 0xff]),
        ("f32[] constant(nan)", &[0, 0, 0xc0, 0x7f]),
        ("f32[2] constant({-inf, -0})", &[0, 0, 0x80, 0xff, 0, 0, 0, 0x80]),
        ("bf16[2,1] constant({{1.5},{-2}})", &[0xc0, 0x3f, 0, 0xc0]),
        ("f8e4m3fn[3] constant({448, -nan, 0.001953125})", &[0x7e, 0xff, 1]),
        ("f4e2m1fn[6] constant({0.5, -6, -0, 5, 100, -inf})", &[1, 15, 8, 6, 7, 15]),
        ("s4[2] constant({-8, 7})", &[8, 7]),
        ("u64[] constant(18446744073709551615)", &[255; 8]),
        ("c64[] constant((1, inf))", &[0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x7f]),
        ("pred[3] constant({true, 0, 1})", &[1, 0, 1]),
        ("f32[2,0] constant({{},{}})", &[]),
        ("u8[2048] constant({...7})", &[7; 2048]),
        ("f16[] constant(65519)", &[0xff, 0x7b]),
    ];
    for (text, expected) in table {
        assert_eq!(bytes(text), *expected, "{text}");
    }
}

/// One-line bodies of an entry computation that must be refused, with a part of the message.
const REFUSED: &[(&str, &str)] = &[
    ("ROOT r = f32[] constant(1e400)", "out of range"),
    ("ROOT r = f16[] constant(65520)", "out of range"),
    ("ROOT r = s4[] constant(8)", "out of range"),
    ("ROOT r = f32[2] constant({1})", "needs 2 elements"),
    ("ROOT r = f32[2] constant({1,2,3})", "only 2"),
    ("ROOT r = f32[99999999999999] parameter(0)", "too large"),
    ("ROOT r = f32[9999999,9999999,9999999,0] parameter(0)", "too large"),
    ("ROOT r = f33[2] parameter(0)", "did you mean `f32`"),
    ("ROOT r = f32[?] parameter(0)", "bound"),
    ("ROOT r = f32[2]{0,1} parameter(0)", "layout"),
    ("ROOT r = f32[] parameter(1)", "parameter 1"),
    ("x = f32[] parameter(0) ROOT r = f32[] negate(r)", "depends on itself"),
    ("x = f32[] parameter(0) ROOT r = f32[] negate(x), metadata={op_name=\"a}", "not closed"),
    ("x = f32[] parameter(0) ROOT r = f32[] negate(x), sharding={}, sharding={}", "twice"),
    ("x = f32[] parameter(0) ROOT r = f32[] fusion(x), kind=kFoo, calls=f", "kLoop"),
    ("x = f32[] parameter(0) ROOT r = f32[] negte(x)", "did you mean `negate`"),
    ("x = f32[] parameter(0) ROOT r = f32[] negate(y)", "did you mean"),
    ("x = f32[4] parameter(0) ROOT r = f32[] negate(f32[] x)", "is f32[4], not f32[]"),
    ("x = f32[4] parameter(0) ROOT r = f32[4] all-reduce(x), replica_groups=[2,3]<=[4], to_apply=f", "does not hold"),
    ("x = f32[4] parameter(0) ROOT r = f32[4] all-reduce(x), replica_groups=mesh['a'=2] {'b'}, to_apply=f", "no axis"),
    ("x = f32[4] parameter(0) ROOT r = f32[4] broadcast(x), dimensions={18446744073709551615}", "too large"),
    ("x = f32[4] parameter(0) ROOT r = f32[4] iota(), iota_dimension=1", "iota"),
    ("x = f32[4] parameter(0) ROOT r = convert(x)", "must be written"),
    (
        "x = f32[4] parameter(0) s = (f32[4], f32[4]) collective-permute-start(x), source_target_pairs={{0,1}} \
         ROOT r = f32[4] all-gather-done(s)",
        "`s` began a collective-permute",
    ),
    ("ROOT r = f32[] constant", "`(`"),
    ("ROOT r = (f32[]) tuple(f32[] constant(1)", "operand list"),
];

#[test]
fn mistakes_are_explained() {
    for (body, part) in REFUSED {
        let text = format!("HloModule m\nf {{ ROOT p = f32[] parameter(0) }}\nENTRY e {{ {body} }}\n");
        match load(&text) {
            Ok(_) => panic!("accepted: {body}"),
            Err(e) => assert!(e.contains(part) && e.contains("m.hlo:"), "{body}: {e}"),
        }
    }
}

/// What is kept as text has no space behind it, though a transposition might have followed.
#[test]
fn lists_that_are_kept_end_where_they_end() {
    for value in ["[0,0]<=[]", "[2,2]", "[2,2]<=[2,2]T(1,0)"] {
        let text = format!(
            "HloModule m\nENTRY e {{ x = f32[] parameter(0)\n r = f32[4] broadcast(x), dimensions={{}}, replica_groups={value}\n\n \
             ROOT s = f32[4] negate(r) }}"
        );
        let m = round_trip(&text);
        let kept = m.entry().nodes.iter().find_map(|n| n.attributes.iter().find(|a| a.0 == "replica_groups"));
        assert_eq!(kept.map(|a| a.1.as_str()), Some(value));
    }
}

#[test]
fn device_lists_in_all_forms() {
    let groups = |list: &str| {
        let text = format!(
            "HloModule m\nf {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\nENTRY e {{ \
             x = f32[4] parameter(0) ROOT r = f32[4] all-reduce(x), replica_groups={list}, to_apply=f }}"
        );
        let m = round_trip(&text);
        match &m.entry().node(m.entry().root).op {
            systole_hlo::graph::Op::Collective { devices, .. } => devices.groups.clone(),
            other => panic!("{other:?}"),
        }
    };
    let table: &[(&str, &[&[u64]])] = &[
        ("{}", &[]),
        ("{{0,2},{1,3}}", &[&[0, 2], &[1, 3]]),
        ("[2,2]<=[4]", &[&[0, 1], &[2, 3]]),
        ("[4,2]<=[2,4]T(1,0)", &[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]),
        ("mesh['a'=2,'b'=2] {'b'}", &[&[0, 1], &[2, 3]]),
        ("mesh['a'=2,'b'=2] {'a'}", &[&[0, 2], &[1, 3]]),
        ("mesh['a'=2,'b'=2] {'b','a'}", &[&[0, 2, 1, 3]]),
        ("mesh['a'=4] {'a':(1)2}", &[&[0, 2], &[1, 3]]),
        ("mesh['a'=4] {'a':(2)2}", &[&[0, 1], &[2, 3]]),
        ("mesh['a'=2,'b'=2], device_ids=(0,2,1,3) {'b'}", &[&[0, 2], &[1, 3]]),
        ("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'b'}", &[&[0, 2], &[1, 3]]),
    ];
    for (text, expected) in table {
        assert_eq!(groups(text), expected.iter().map(|g| g.to_vec()).collect::<Vec<_>>(), "{text}");
    }
}

/// Cuts, doubles and garbles programs: whatever comes out is refused or read, never a panic.
#[test]
fn damaged_texts_do_not_panic() {
    let bytes = FORMS.as_bytes();
    for i in (0..bytes.len()).step_by(3) {
        let mut texts = vec![bytes[..i].to_vec(), bytes[i..].to_vec()];
        for b in [b'{', b'"', b'(', b'9', 0xff] {
            let mut t = bytes.to_vec();
            t[i] = b;
            texts.push(t);
        }
        for t in texts {
            let text = String::from_utf8_lossy(&t);
            match parse_hlo(&text) {
                Ok((m, _)) => drop(verify(&m)),
                Err(e) => assert!(!systole_hlo::diag::render(&e, "m.hlo", &text, false).is_empty()),
            }
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    let deep =
        |open: &str, n: usize| format!("HloModule m\nENTRY e {{ x = f32[] parameter(0) ROOT r = {}", open.repeat(n));
    for open in ["(", "f32[] negate(", "f32[1] constant({", "negate("] {
        assert!(load(&deep(open, 100_000)).is_err());
    }
    let chain: String = (1..50_000)
        .map(|i| format!("c{i} {{ p = f32[] parameter(0) ROOT r = f32[] call(p), to_apply=c{} }}\n", i - 1))
        .collect();
    let text = format!(
        "HloModule m\n{chain} c0 {{ ROOT p = f32[] parameter(0) }}\nENTRY e {{ p = f32[] parameter(0) ROOT r = f32[] call(p), to_apply=c49999 }}"
    );
    load(&text).expect("a long chain of calls");
}

#[test]
fn large_constants_are_read_fast() {
    let list = (0..1_000_000).map(|i| format!("{}.{:03}", i % 90, i % 1000)).collect::<Vec<_>>().join(", ");
    let text = format!("HloModule m\nENTRY e {{ ROOT r = f32[1000000] constant({{{list}}}) }}");
    let start = std::time::Instant::now();
    load(&text).expect("a constant");
    assert!(start.elapsed().as_secs_f64() < 5.0, "{:?}", start.elapsed());
}
