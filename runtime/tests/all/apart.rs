//! Collectives where devices do not go the same way: in branches that they choose apart and in loops that they leave at
//! different times. Devices of a group that are at different places wait for each other for ever, which is told; none ever
//! takes what was sent from another place.

use systole_compiler::plan::collective::Algorithm;
use systole_compiler::plan::guide::Guide;
use systole_isa::DType;
use systole_isa::program::PodShape;
use systole_runtime::pod::{self, Attached, PodExecution, PodOptions};
use systole_runtime::{Array, Client, CompileOptions, Mode, RunOptions, RuntimeError};

const SUM: &str = "add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }\n";
const DEVICES: u32 = 4;

/// Runs a program on a ring of devices, each with `s32[8,8]` full of its number + 1.
fn run(text: &str, algorithm: Option<Algorithm>) -> Result<PodExecution, RuntimeError> {
    let c = Client::new("tiny").expect("a preset");
    let topology = pod::topology(Some(&format!("ring:{DEVICES}")), c.chip(), DEVICES).expect("it fits");
    let shape = PodShape { replicas: DEVICES, topology: Some(topology), ..PodShape::default() };
    let guide = Guide { collective: algorithm, ..Guide::default() };
    let options = CompileOptions { guide, ..CompileOptions::default().on(shape) };
    let exe = c.compile_text(text, &options).unwrap_or_else(|e| panic!("{text}: {e}"));
    let of = |d: i32| vec![Array::new(DType::S32, &[8, 8], (0..64).flat_map(|_| (d + 1).to_le_bytes()).collect())];
    let inputs: Vec<Vec<Array>> = (0..DEVICES as i32).map(of).collect();
    let pod = PodOptions::default();
    c.run_pod(&exe, &inputs, &RunOptions::new(Mode::Full), &pod, Attached::default())
}

/// The first number of every device's result.
fn first(done: &PodExecution) -> Vec<i32> {
    let number = |a: &Array| i32::from_le_bytes([a.bytes[0], a.bytes[1], a.bytes[2], a.bytes[3]]);
    done.outputs.iter().map(|o| number(&o[0])).collect()
}

fn is_deadlock(text: &str) {
    for algorithm in [None, Some(Algorithm::Ring), Some(Algorithm::Direct)] {
        let error = match run(text, algorithm) {
            Ok(done) => panic!("{algorithm:?}: devices met at different places: {:?}", first(&done)),
            Err(e) => e,
        };
        let message = error.to_string();
        assert!(!error.is_request() && message.contains("deadlock") && message.contains("waits in %"), "{message}");
    }
}

/// `arms` computations of an array, each with an all-reduce among `groups`.
fn arms(arms: usize, groups: &str) -> String {
    let one = |i: usize| {
        format!(
            "arm{i} {{ x = s32[8,8] parameter(0) s = s32[8,8] all-reduce(x), replica_groups={groups}, to_apply=add \
             c = s32[] constant({i}) b = s32[8,8] broadcast(c), dimensions={{}} ROOT r = s32[8,8] add(s, b) }}\n"
        )
    };
    (0..arms).map(one).collect()
}

/// A program that chooses one of `count` arms by `id`, computed from the device's number `d`.
fn choice(count: usize, groups: &str, id: &str) -> String {
    let xs = vec!["x"; count].join(", ");
    let names = (0..count).map(|i| format!("arm{i}")).collect::<Vec<_>>().join(", ");
    format!(
        "HloModule m\n{SUM}{}ENTRY e {{ x = s32[8,8] parameter(0) u = u32[] replica-id() d = s32[] convert(u) \
         two = s32[] constant(2) id = s32[] {id} \
         ROOT r = s32[8,8] conditional(id, {xs}), branch_computations={{{names}}} }}",
        arms(count, groups)
    )
}

#[test]
fn branches_that_devices_choose_apart_do_not_meet() {
    is_deadlock(&choice(2, "{{0,1,2,3}}", "remainder(d, two)"));
    is_deadlock(&choice(4, "{{0,1,2,3}}", "copy(d)"));
    is_deadlock(&choice(2, "{{0,2},{1,3}}", "divide(d, two)"));
}

#[test]
fn branches_that_a_group_chooses_together_do() {
    for algorithm in [None, Some(Algorithm::Ring), Some(Algorithm::Direct)] {
        let done = run(&choice(2, "{{0,1},{2,3}}", "divide(d, two)"), algorithm).expect("groups choose together");
        assert_eq!(first(&done), [3, 3, 8, 8], "{algorithm:?}");
        let done = run(&choice(2, "{{0,2},{1,3}}", "remainder(d, two)"), algorithm).expect("groups choose together");
        assert_eq!(first(&done), [4, 7, 4, 7], "{algorithm:?}");
    }
}

#[test]
fn one_condition_after_another_does_not_meet() {
    is_deadlock(&format!(
        "HloModule m\n{SUM}{}alone {{ ROOT x = s32[8,8] parameter(0) }}\n\
         ENTRY e {{ x = s32[8,8] parameter(0) u = u32[] replica-id() two = u32[] constant(2) odd = u32[] remainder(u, two) \
         zero = u32[] constant(0) is = pred[] compare(odd, zero), direction=EQ not = pred[] not(is) \
         y = s32[8,8] conditional(is, x, x), true_computation=arm0, false_computation=alone \
         ROOT r = s32[8,8] conditional(not, y, y), true_computation=arm1, false_computation=alone }}",
        arms(2, "{}")
    ));
}

/// A loop that runs `trips` times (by the first number of the device's array), and an all-reduce after it.
fn rounds(trips: &str) -> String {
    format!(
        "HloModule m\n{SUM}{}go {{ s = (s32[], s32[], s32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 \
         n = s32[] get-tuple-element(s), index=1 ROOT c = pred[] compare(i, n), direction=LT }}\n\
         round {{ s = (s32[], s32[], s32[8,8]) parameter(0) i = s32[] get-tuple-element(s), index=0 \
         n = s32[] get-tuple-element(s), index=1 x = s32[8,8] get-tuple-element(s), index=2 \
         y = s32[8,8] all-reduce(x), replica_groups={{}}, to_apply=add \
         one = s32[] constant(1) j = s32[] add(i, one) ROOT t = (s32[], s32[], s32[8,8]) tuple(j, n, y) }}\n\
         ENTRY e {{ x = s32[8,8] parameter(0) f = s32[1,1] slice(x), slice={{[0:1],[0:1]}} v = s32[] reshape(f) \
         two = s32[] constant(2) three = s32[] constant(3) n = s32[] {trips} zero = s32[] constant(0) \
         s = (s32[], s32[], s32[8,8]) tuple(zero, n, x) w = (s32[], s32[], s32[8,8]) while(s), condition=go, body=round \
         y = s32[8,8] get-tuple-element(w), index=2 ROOT r = s32[8,8] call(y), to_apply=arm0 }}",
        arms(1, "{}")
    )
}

#[test]
fn loops_that_devices_leave_apart_do_not_meet_what_follows() {
    is_deadlock(&rounds("minimum(v, three)"));
    is_deadlock(&rounds("copy(v)"));
    let done = run(&rounds("clamp(two, v, two)"), None);
    assert_eq!(first(&done.expect("all do two rounds")), [160; 4]);
}
