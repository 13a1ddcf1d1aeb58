//! Programs that run at once, without a client.

use systole_pjrt::direct::{export, run};
use systole_runtime::Array;

#[test]
fn programs_run_and_say_what_it_cost() {
    let code = b"HloModule add\nENTRY e { a = f32[3] parameter(0) b = f32[3] parameter(1) ROOT c = f32[3] add(a, b) }";
    let a = Array::from_f32(&[3], &[1.0, 2.0, 3.0]);
    let done = run(code, r#"{"chip": "tiny", "profile": true}"#, vec![a.clone(), a]).map_err(|e| e.message);
    let done = done.expect("runs");
    assert_eq!(done.outputs[0].to_f32(), [2.0, 4.0, 6.0]);
    assert!(done.report["cycles"].as_u64() > Some(0));
    let profile = systole_runtime::profile::read(&done.profile.expect("a profile")).expect("readable");
    for form in ["html", "xplane", "roofline", "units"] {
        assert!(!export(&profile, form).map_err(|e| e.message).expect(form).is_empty());
    }
    let e = run(code, r#"{"chip": "tiny", "speed": 1}"#, Vec::new()).err().expect("an error");
    assert!(e.message.contains("speed"), "{}", e.message);
}
