//! What running programs ask of the host: functions, libraries, queues, checks.

use std::process::Command;
use systole_runtime::{Array, Asked, Client, CompileOptions, Mode, NoObserver, Queues, RunOptions, RuntimeError};

fn client() -> Client {
    Client::new("tiny").expect("a preset")
}

fn run(client: &Client, text: &str, inputs: &[Array], queues: &mut Queues) -> Result<Vec<Array>, RuntimeError> {
    let exe = client.compile_text(
        text,
        &CompileOptions { asked: Asked { fold: false, ..Asked::default() }, ..CompileOptions::default() },
    )?;
    let options = RunOptions::new(Mode::Full);
    let done = client.device(0).run_queued(&exe, inputs, &options, &mut NoObserver, queues)?;
    Ok(done.outputs)
}

const CALL: &str = r#"HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  y = f32[2,3] add(x, x)
  c = (f32[3], s32[]) custom-call(y, x), custom_call_target="sums", backend_config="by column"
  s = f32[3] get-tuple-element(c), index=0
  n = s32[] get-tuple-element(c), index=1
  m = f32[3] negate(s)
  ROOT r = (f32[3], s32[]) tuple(m, n)
}"#;

#[test]
fn functions_of_the_host_are_called_by_name() {
    let mut c = client();
    c.register("sums", |call, operands| {
        assert_eq!((call.config, call.results.len()), ("by column", 2));
        let v = operands[0].to_f32();
        let sums: Vec<f32> = (0..3).map(|i| v[i] + v[3 + i]).collect();
        Ok(vec![Array::from_f32(&[3], &sums), Array::from_s32(&[], &[operands.len() as i32])])
    });
    let x = Array::from_f32(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let out = run(&c, CALL, std::slice::from_ref(&x), &mut Queues::default()).expect("it runs");
    assert_eq!(out[0].to_f32(), [-10.0, -14.0, -18.0]);
    assert_eq!(out[1].bytes, [2, 0, 0, 0]);
    // Wrong answers are faults of the run.
    c.register("sums", |_, _| Ok(vec![Array::from_s32(&[3], &[1, 2, 3]), Array::from_s32(&[], &[0])]));
    let wrong = run(&c, CALL, std::slice::from_ref(&x), &mut Queues::default()).expect_err("another type");
    assert!(!wrong.is_request() && wrong.to_string().contains("s32[3] as array 0 where f32[3]"), "{wrong}");
    c.register("sums", |_, _| Err("out of luck".into()));
    let wrong = run(&c, CALL, &[x], &mut Queues::default()).expect_err("refused");
    assert!(wrong.to_string().contains("custom call `sums`: out of luck"), "{wrong}");
}

#[test]
fn unknown_functions_are_refused_with_a_place() {
    let mut c = client();
    c.register("other", |_, _| Ok(Vec::new()));
    let Err(e) = c.compile_text(CALL, &CompileOptions::default()) else { panic!("it is unknown") };
    assert!(e.is_request());
    for part in ["<text>:5", "`sums`", "check.expect_eq", "other"] {
        assert!(e.to_string().contains(part), "{part}: {e}");
    }
}

/// Takes pairs off the queue until the first is zero, gives back their products; each iteration in order.
const QUEUES: &str = r#"HloModule m
condition {
  s = (s32[], f32[2], token[]) parameter(0)
  go = s32[] get-tuple-element(s), index=0
  zero = s32[] constant(0)
  ROOT p = pred[] compare(go, zero), direction=NE
}
body {
  s = (s32[], f32[2], token[]) parameter(0)
  sum = f32[2] get-tuple-element(s), index=1
  t = token[] get-tuple-element(s), index=2
  in = ((s32[], f32[2]), token[]) infeed(t)
  data = (s32[], f32[2]) get-tuple-element(in), index=0
  t1 = token[] get-tuple-element(in), index=1
  go = s32[] get-tuple-element(data), index=0
  x = f32[2] get-tuple-element(data), index=1
  y = f32[2] multiply(x, x)
  t2 = token[] outfeed(y, t1), outfeed_shape=f32[2]
  total = f32[2] add(sum, y)
  ROOT r = (s32[], f32[2], token[]) tuple(go, total, t2)
}
ENTRY e {
  one = s32[] constant(1)
  zero = f32[] constant(0)
  zeros = f32[2] broadcast(zero), dimensions={}
  t = token[] after-all()
  init = (s32[], f32[2], token[]) tuple(one, zeros, t)
  w = (s32[], f32[2], token[]) while(init), condition=condition, body=body
  ROOT sum = f32[2] get-tuple-element(w), index=1
}"#;

#[test]
fn queues_keep_their_order() {
    let mut queues = Queues::default();
    for (go, x) in [(1, [1.0, 2.0]), (1, [3.0, 4.0]), (0, [5.0, 6.0]), (1, [7.0, 8.0])] {
        queues.infeed.extend([Array::from_s32(&[], &[go]), Array::from_f32(&[2], &x)]);
    }
    let out = run(&client(), QUEUES, &[], &mut queues).expect("it runs");
    assert_eq!(out[0].to_f32(), [35.0, 56.0]);
    let given: Vec<Vec<f32>> = queues.outfeed.iter().map(Array::to_f32).collect();
    assert_eq!(given, [[1.0, 4.0], [9.0, 16.0], [25.0, 36.0]]);
    assert_eq!(queues.infeed.len(), 2);
    // An empty queue is a fault.
    let e = run(&client(), QUEUES, &[], &mut Queues::default()).expect_err("nothing to take");
    assert!(!e.is_request() && e.to_string().contains("takes 2 arrays, the queue from the host has 0"), "{e}");
}

/// Only the branch that is taken has effects.
#[test]
fn branches_not_taken_check_nothing() {
    let program = |pred: &str| {
        format!(
            r#"
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %p = stablehlo.constant dense<{pred}> : tensor<i1>
  %y = stablehlo.sqrt %x : tensor<4xf32>
  %r = "stablehlo.if"(%p) ({{
    check.expect_almost_eq_const %y, dense<[1.0, 2.0, 3.0, 5.0]> : tensor<4xf32>
    %z = stablehlo.negate %y : tensor<4xf32>
    stablehlo.return %z : tensor<4xf32>
  }}, {{
    check.expect_almost_eq_const %y, dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    stablehlo.return %y : tensor<4xf32>
  }}) : (tensor<i1>) -> tensor<4xf32>
  %w = stablehlo.add %r, %y : tensor<4xf32>
  return %w : tensor<4xf32>
}}"#
        )
    };
    let x = [Array::from_f32(&[4], &[1.0, 4.0, 9.0, 16.0])];
    let out = run(&client(), &program("false"), &x, &mut Queues::default()).expect("the check holds");
    assert_eq!(out[0].to_f32(), [2.0, 4.0, 6.0, 8.0]);
    let e = run(&client(), &program("true"), &x, &mut Queues::default()).expect_err("the check fails");
    assert!(!e.is_request() && e.to_string().contains("first at [3]: 4.0 where 5.0 is expected"), "{e}");
}

/// A shared library made on the spot.
#[test]
fn libraries_answer_to_their_symbols() {
    let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("host");
    std::fs::create_dir_all(&dir).expect("the target folder is writable");
    let (source, library) = (dir.join("calls.rs"), dir.join("libcalls.so"));
    std::fs::write(
        &source,
        "#[unsafe(no_mangle)]
         pub unsafe extern \"C\" fn sums(out: *mut *mut f32, input: *const *const f32) { unsafe {
             for i in 0..3 { *(*out).add(i) = *(*input).add(i) + *(*input).add(3 + i); }
             *(*out.add(1)).cast::<i32>() = 7;
         } }",
    )
    .expect("written");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let args = ["--edition", "2024", "--crate-type", "cdylib", "-C", "panic=abort", "-o"];
    let built = Command::new(rustc).args(args).arg(&library).arg(&source).output();
    if !built.is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: this machine builds no shared library");
        return;
    }
    let mut c = client();
    c.load_library(&library.to_string_lossy()).expect("it loads");
    let x = Array::from_f32(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let out = run(&c, CALL, &[x], &mut Queues::default()).expect("it runs");
    assert_eq!(out[0].to_f32(), [-10.0, -14.0, -18.0]);
    assert_eq!(out[1].bytes, [7, 0, 0, 0]);
    assert!(client().load_library("no/such/lib.so").is_err_and(|e| e.is_request()));
}
