//! Sensible physics over designs: more of anything never makes a program slower by more than two in a hundred.
//!
//! Of wide arrays, products use the part that they fill, or a smaller one whose tiles fit vector memory better; what stays is the way
//! of results through the whole array.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Slower by more than this is wrong.
const SLOWER: f64 = 1.02;

/// A design, and one that has more of one thing.
type More = (&'static [&'static str], &'static [&'static str]);

/// More of one thing. Of wider arrays cells pass values on as fast as the way through them is longer: what a result's way takes stays the
/// same.
const MORE: [More; 16] = [
    (&[], &["hbm.bandwidth=1638 GB/s"]),
    (&[], &["hbm.latency=250 ns"]),
    (&[], &["hbm.channels=64"]),
    (&[], &["clock=3 GHz"]),
    (&[], &["vmem.bytes=256 MiB"]),
    (&["vmem.bytes=32 MiB"], &["vmem.bytes=64 MiB"]),
    (&[], &["dma.engines=16"]),
    (&["dma.engines=2"], &["dma.engines=4"]),
    (&[], &["dma.in_flight=512"]),
    (&[], &["core.valu_slots=8"]),
    (&[], &["core.vector_registers=128"]),
    (&["core.vector_registers=8"], &["core.vector_registers=12"]),
    (&[], &["core.mxu_push_slots=4"]),
    (&["mxu.count=8"], &["mxu.count=16"]),
    (&[], &["mxu.rows=256", "mxu.cols=256", "mxu.hop_cells=2"]),
    (&[], &["mxu.rows=1024", "mxu.cols=1024", "mxu.hop_cells=8"]),
];

/// More of what only programs of large arrays are better for: every unit has to be given its weights, and a result's way through a
/// wide array is longer, which is all that small products wait for.
const MORE_FOR_LARGE: [More; 3] =
    [(&[], &["mxu.count=16"]), (&[], &["mxu.rows=256", "mxu.cols=256"]), (&[], &["mxu.rows=1024", "mxu.cols=1024"])];

/// What many programs were slower on.
const MORE_MEMORY: [More; 2] = [(&[], &["vmem.bytes=256 MiB"]), (&[], &["core.valu_slots=8"])];

/// Programs of the suite of quality.
const QUALITY: [&str; 4] = ["mamba_2layers", "mixtral_moe_ragged", "hyena_fftconv", "augment_b128"];

/// Arrays of the design, 128 wide, and wider ones.
const WIDER: [&[&str]; 4] =
    [&[], &["mxu.rows=256", "mxu.cols=256"], &["mxu.rows=512", "mxu.cols=512"], &["mxu.rows=1024", "mxu.cols=1024"]];

/// Wider arrays may be slower than narrower ones by so much: by the way of results through them.
const THROUGH: f64 = 1.13;

fn seconds(file: &Path, sets: &[&str]) -> f64 {
    report(file, sets)["time_s"].as_f64().expect("a time")
}

fn report(file: &Path, sets: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_systole"));
    command.arg("run").arg(file).args(["--chip", "tpu-v5e", "--timing-only", "--report", "json"]);
    sets.iter().for_each(|s| {
        command.args(["--set", s]);
    });
    let out = command.output().expect("systole runs");
    assert!(out.status.success(), "{} with {sets:?}: {}", file.display(), String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("a report")
}

/// Programs of a suite that lies beside the checkout.
fn suite(suite: &str, names: &[&str]) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance").join(suite);
    if !folder.is_dir() {
        eprintln!("{} is not there: its programs are skipped", folder.display());
        return Vec::new();
    }
    names.iter().map(|n| folder.join(format!("{n}.hlo"))).collect()
}

/// Seconds of a program on designs, each measured once.
struct Times<'a> {
    file: &'a Path,
    known: BTreeMap<&'static [&'static str], f64>,
}

impl Times<'_> {
    fn of(file: &Path) -> Times<'_> {
        Times { file, known: BTreeMap::new() }
    }

    fn on(&mut self, sets: &'static [&'static str]) -> f64 {
        *self.known.entry(sets).or_insert_with(|| seconds(self.file, sets))
    }

    /// The pairs of designs of which the program takes longer on the one that has more.
    fn slower(&mut self, pairs: &[More]) -> String {
        let mut wrong = String::new();
        for &(less, more) in pairs {
            let ratio = self.on(more) / self.on(less);
            if ratio > SLOWER {
                wrong += &format!("{}: {more:?} takes {ratio:.3} times as long as {less:?}\n", self.file.display());
            }
        }
        wrong
    }

    /// The wider arrays on which the program takes longer than on narrower ones, by more than the way through them: of wide arrays
    /// parts are used where that is faster.
    fn slower_on_wide(&mut self) -> String {
        let (mut wrong, mut least) = (String::new(), f64::INFINITY);
        for sets in WIDER {
            let time = self.on(sets);
            if time > THROUGH * least {
                wrong += &format!("{} on {sets:?}: {:.3} times as long\n", self.file.display(), time / least);
            }
            least = least.min(time);
        }
        wrong
    }
}

fn slower(file: &Path, pairs: &[More]) -> String {
    Times::of(file).slower(pairs)
}

#[test]
fn more_is_not_slower_for_small_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let examples = ["mlp", "resnet", "transformer_block"].map(|n| root.join(format!("examples/{n}.hlo")));
    let models = suite("models", &["lstm_scan", "flash_attention_like", "gpt_decode_step"]);
    let wrong: String = examples.iter().chain(&models).map(|f| slower(f, &MORE)).collect();
    assert!(wrong.is_empty(), "{wrong}");
}

/// Programs of the suite of large ones, with a test for each: they run beside each other.
macro_rules! large {
    ($($test:ident: $program:literal,)*) => {
        mod more_is_not_slower_for {
            $(
                #[test]
                fn $test() {
                    let all = [&super::MORE[..], &super::MORE_FOR_LARGE].concat();
                    for file in super::suite("large", &[$program]) {
                        let mut times = super::Times::of(&file);
                        let wrong = times.slower(&all) + &times.slower_on_wide();
                        assert!(wrong.is_empty(), "{wrong}");
                    }
                }
            )*
        }
    };
}

large! {
    convolutions: "resnet50_b8_bf16",
    a_prefill: "gpt2_small_prefill1024_bf16",
    a_decode: "llama7b_decode4_b8_kv2048_bf16",
    a_layer: "llama7b_layer_s2048_bf16",
}

#[test]
fn more_memory_and_slots_are_not_slower() {
    let wrong: String = suite("quality", &QUALITY).iter().map(|f| slower(f, &MORE_MEMORY)).collect();
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn strides_over_channels_of_hbm_matter() {
    // A row of a table lies in sixteen places of 512 bytes, a table's height apart. A channel has every sixteenth such place by the sum of
    // its number's digits: to the base of sixteen, multiples of fifteen have few sums.
    let time = |rows: u32, channels: u32| {
        let program = format!(
            "HloModule lookup\nENTRY main {{\n  table = f32[{rows},2048]{{1,0}} parameter(0)\n  at = s32[512]{{0}} parameter(1)\n  \
             ROOT rows = f32[512,2048]{{1,0}} gather(table, at), offset_dims={{1}}, collapsed_slice_dims={{0}}, \
             start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,2048}}\n}}\n"
        );
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lookup-{rows}-{channels}.hlo"));
        std::fs::write(&file, program).expect("it can be written");
        seconds(&file, &[&format!("hbm.channels={channels}")])
    };
    let (friendly, unfriendly) = (15 * 3360 + 32, 15 * 3360);
    assert_eq!(time(friendly, 1), time(friendly, 16));
    assert!(time(unfriendly, 1) <= time(friendly, 1));
    let slower = time(unfriendly, 16) / time(friendly, 16);
    assert!((2.0..4.0).contains(&slower), "{slower} times as long");
}

#[test]
fn values_at_the_ends_of_their_ranges_compile() {
    let sets = ["core.scalar_registers=8", "core.semaphores=7", "vmem.bytes=1 MiB"];
    let models = suite("models", &["lenet_train_step", "gpt_adam_step", "resnet_cifar", "moe_top2"]);
    for (file, set) in models.iter().flat_map(|f| sets.map(|s| (f, s))) {
        assert!(seconds(file, &[set]) > 0.0);
    }
}

#[test]
fn what_loops_read_comes_once() {
    // 64 KiB of weights, twenty rounds. Behind the program is what the file's own test expects.
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/plan/arrays-before-loops.hlo");
    let text = std::fs::read_to_string(known).expect("a program");
    let program = text.split("// ====").next().expect("there is always a first part");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("arrays-before-loops.hlo");
    std::fs::write(&file, program).expect("it can be written");
    let read = report(&file, &[])["hbm"]["read_bytes"].as_u64().expect("bytes");
    assert!(read < 2 * (64 << 10), "{read} bytes");
}
