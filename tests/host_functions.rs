//! Functions of shared libraries, called by the built command: what they give, print and break.

use std::path::PathBuf;
use std::process::{Command, Output};

const PROGRAM: &str = r#"HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  c = (f32[3], s32[]) custom-call(x), custom_call_target="sums"
  ROOT d = (f32[3], s32[]) custom-call(c), custom_call_target="NAME"
}"#;

const LIBRARY: &str = r#"
use std::io::Read;

/// What a library may do: threads, the environment, printing, and reading an empty standard input.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sums(out: *const *mut f32, input: *const *const f32) {
    let read = std::io::stdin().read(&mut [0; 8]).expect("it is open");
    let sum: u64 = std::thread::spawn(|| (0..1000u64).sum()).join().expect("a thread");
    println!("called with {read} bytes to read, {sum}, {}", std::env::var("SYSTOLE_TEST").is_ok());
    unsafe {
        for i in 0..3 { *(*out).add(i) = *(*input).add(i) + *(*input).add(3 + i); }
        *(*out.add(1)).cast::<i32>() = 7;
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn same(out: *const *mut f32, input: *const *const f32) {
    unsafe {
        for i in 0..3 { *(*out).add(i) = *(*input).add(i); }
        *(*out.add(1)) = *(*input.add(1));
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn crashes() { std::process::abort() }
"#;

/// A folder with the library, the program that calls `name` behind `sums`, and its input; nothing where no library can be made.
fn made(name: &str) -> Option<PathBuf> {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("host_functions").join(name);
    std::fs::create_dir_all(&dir).expect("the target folder is writable");
    std::fs::write(dir.join("library.rs"), LIBRARY).expect("written");
    std::fs::write(dir.join("m.hlo"), PROGRAM.replace("NAME", name)).expect("written");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let args = ["--edition", "2024", "--crate-type", "cdylib", "library.rs", "-o", "library.so"];
    let built = Command::new(rustc).args(args).current_dir(&dir).output();
    if !built.is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: this machine builds no shared library");
        return None;
    }
    Some(dir)
}

fn run(dir: &std::path::Path, library: &str) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_systole"));
    command.args([
        "run",
        "m.hlo",
        "--chip",
        "tiny",
        "--report",
        "none",
        "--outputs",
        "out.npz",
        "--custom-call-library",
        library,
    ]);
    let o = command.current_dir(dir).env("SYSTOLE_TEST", "1").output().expect("the command starts");
    let message = String::from_utf8_lossy(&o.stderr).into_owned();
    (o, message)
}

#[test]
fn functions_are_called_and_print() {
    let Some(dir) = made("same") else { return };
    let (o, message) = run(&dir, "library.so");
    assert_eq!(o.status.code(), Some(0), "{message}");
    assert_eq!(String::from_utf8_lossy(&o.stdout), "called with 0 bytes to read, 499500, true\n");
    let results = systole_runtime::npz::read(&dir.join("out.npz").to_string_lossy()).expect("arrays");
    assert_eq!(results["out1"].bytes, [7, 0, 0, 0]);
}

#[test]
fn a_function_that_crashes_is_named() {
    if option_env!("LINKED_STATICALLY").is_none() {
        eprintln!("skipped: this command loads libraries itself, and ends with them");
        return;
    }
    let Some(dir) = made("crashes") else { return };
    let (o, message) = run(&dir, "library.so");
    assert_eq!(o.status.code(), Some(1), "{message}");
    assert!(message.contains("custom call `crashes`: library.so: its process has ended (signal: 6"), "{message}");
}

#[test]
fn what_is_missing_is_a_wrong_request() {
    let Some(dir) = made("nowhere") else { return };
    std::fs::write(dir.join("text.so"), "no library").expect("written");
    for (library, part) in [
        ("library.so", "no host function `nowhere`"),
        ("absent.so", "absent.so: No such file"),
        ("text.so", "text.so: "),
    ] {
        let (o, message) = run(&dir, library);
        assert_eq!(o.status.code(), Some(2), "{library}: {message}");
        assert!(message.contains(part), "{library}: {message}");
    }
}

/// A command that was built or moved by itself.
#[test]
fn a_server_that_is_not_there_is_asked_for() {
    if option_env!("LINKED_STATICALLY").is_none() {
        return;
    }
    let Some(dir) = made("alone") else { return };
    let alone = dir.join("systole");
    let _ = std::fs::remove_file(&alone);
    std::fs::copy(env!("CARGO_BIN_EXE_systole"), &alone).expect("written");
    let o =
        Command::new(&alone).args(["run", "m.hlo", "--custom-call-library", "library.so"]).current_dir(&dir).output();
    let o = o.expect("the command starts");
    let message = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(2), "{message}");
    assert!(message.contains("systole-host-functions is not there"), "{message}");
}

#[test]
fn the_server_started_by_hand_says_what_it_is_for() {
    for arguments in [&[][..], &["library.so"]] {
        let server =
            Command::new(env!("CARGO_BIN_EXE_systole-host-functions")).args(arguments).output().expect("it starts");
        assert_eq!(server.status.code(), Some(2), "{arguments:?}");
        assert!(!server.stderr.is_empty(), "{arguments:?}");
    }
}
