//! Random collectives on random pods against the reference evaluator: every kind, element types of every width, groups of
//! every form, arrays that fit no tile, reductions of all sorts, hidden or not.

use super::reference::evaluated;
use systole_isa::program::PodShape;
use systole_isa::{ChipConfig, DType};
use systole_runtime::pod::{self, Attached, PodOptions};
use systole_runtime::{Array, Client, CompileOptions, Mode, RunOptions, Ways};

/// Numbers that follow from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n as u64) as usize
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    fn shuffled(&mut self, n: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|i| all.swap(i, self.below(i + 1)));
        all
    }
}

/// A program of one collective, and what its parameter is.
struct Case {
    text: String,
    devices: usize,
    topology: &'static str,
    dtype: DType,
    dims: Vec<u64>,
}

fn braced(groups: &[Vec<usize>]) -> String {
    let one = |g: &Vec<usize>| format!("{{{}}}", g.iter().map(usize::to_string).collect::<Vec<_>>().join(","));
    format!("{{{}}}", groups.iter().map(one).collect::<Vec<_>>().join(","))
}

/// Groups as text, and the devices of the first.
fn groups(d: &mut Draw, n: usize, uneven: bool) -> (String, usize) {
    let sizes: Vec<usize> = (1..=n).filter(|g| n.is_multiple_of(*g)).collect();
    let size = *d.of(&sizes);
    match d.below(4) {
        0 => ("{}".into(), n),
        1 => (format!("[{},{size}]<=[{n}]", n / size), size),
        2 if n == 8 => (format!("[{},{size}]<=[2,4]T(1,0)", n / size), size),
        _ if uneven && d.below(2) == 0 => {
            let all = d.shuffled(n);
            let cut = 1 + d.below(n - 1);
            (braced(&[all[..cut].to_vec(), all[cut..].to_vec()]), cut)
        }
        _ => (braced(&d.shuffled(n).chunks(size).map(<[usize]>::to_vec).collect::<Vec<_>>()), size),
    }
}

fn case(seed: u64) -> Case {
    let mut d = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    d.below(2);
    let types = [("f32", DType::F32), ("s32", DType::S32), ("bf16", DType::BF16), ("s8", DType::S8)];
    let wide = [("u16", DType::U16), ("f64", DType::F64), ("s64", DType::S64), ("u32", DType::U32)];
    let &(t, dtype) = if d.below(2) == 0 { d.of(&types) } else { d.of(&wide) };
    let rank = d.below(4);
    let mut dims: Vec<u64> = (0..rank).map(|_| *d.of(&[1, 2, 3, 5, 8, 17, 40, 130])).collect();
    let (devices, topology) =
        *d.of(&[(8, "2x4"), (8, "ring:8"), (8, "4x4"), (4, "2x2"), (4, "ring:4"), (6, "2x3:torus"), (6, "3x3:mesh")]);
    let shape = |dims: &[u64]| format!("{t}[{}]", dims.iter().map(u64::to_string).collect::<Vec<_>>().join(","));
    let op = *d.of(&["add", "maximum", "minimum", "add"]);
    let kind =
        *d.of(&["all-reduce", "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "permute"]);
    if rank == 0 && !matches!(kind, "all-reduce" | "broadcast" | "permute") {
        dims.push(4);
    }
    let axis = d.below(dims.len().max(1));
    let (g, size) = groups(&mut d, devices, matches!(kind, "all-reduce" | "broadcast"));
    let mut to = dims.clone();
    let line = match kind {
        "all-reduce" if d.below(2) == 0 => format!(
            "s = {0} all-reduce-start(x), replica_groups={g}, to_apply=f y = {0} add(x, x) \
             e = {0} all-reduce-done(s) ROOT z = ({0}, {0}) tuple(e, y)",
            shape(&to)
        ),
        "all-reduce" => format!("ROOT z = {} all-reduce(x), replica_groups={g}, to_apply=f", shape(&to)),
        "broadcast" => {
            let g = if g == "{}" { braced(&[(0..devices).collect()]) } else { g };
            format!("ROOT z = {} collective-broadcast(x), replica_groups={g}", shape(&to))
        }
        "permute" => {
            let (from, into) = (d.shuffled(devices), d.shuffled(devices));
            let count = 1 + d.below(devices);
            let pairs: Vec<Vec<usize>> = from.into_iter().zip(into).take(count).map(|(s, t)| vec![s, t]).collect();
            format!("ROOT z = {} collective-permute(x), source_target_pairs={}", shape(&to), braced(&pairs))
        }
        "all-gather" => {
            to[axis] *= size as u64;
            format!("ROOT z = {} all-gather(x), replica_groups={g}, dimensions={{{axis}}}", shape(&to))
        }
        _ => {
            dims[axis] = dims[axis].min(17) * size as u64;
            to[axis] = if kind == "all-to-all" { dims[axis] } else { dims[axis] / size as u64 };
            let more = if kind == "all-to-all" { "" } else { ", to_apply=f" };
            format!("ROOT z = {} {kind}(x), replica_groups={g}, dimensions={{{axis}}}{more}", shape(&to))
        }
    };
    let text = format!(
        "HloModule m\nf {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT c = {t}[] {op}(a, b) }}\n\
         ENTRY e {{ x = {} parameter(0) {line} }}\n",
        shape(&dims)
    );
    Case { text, devices, topology, dtype, dims }
}

/// Small whole numbers, whose sums are exact in every type.
fn input(c: &Case, device: usize) -> Array {
    let elements: u64 = c.dims.iter().product();
    let bytes = (0..elements as usize)
        .flat_map(|i| {
            let n = ((i * 7 + device * 5) % 9) as u8;
            match c.dtype {
                DType::F32 => f32::from(n).to_le_bytes().to_vec(),
                DType::BF16 => f32::from(n).to_le_bytes()[2..].to_vec(),
                DType::F64 => f64::from(n).to_le_bytes().to_vec(),
                t => u64::from(n).to_le_bytes()[..t.bits() as usize / 8].to_vec(),
            }
        })
        .collect();
    Array::new(c.dtype, &c.dims, bytes)
}

#[test]
fn random_collectives_agree_with_the_evaluator() {
    random_collectives(&Client::new("tiny").expect("a preset"), 0..40);
}

/// The first core exchanges for all of its device.
#[test]
fn random_collectives_of_devices_with_two_cores_agree_with_the_evaluator() {
    let mut chip = ChipConfig::from_preset("tiny").expect("the preset exists");
    chip.apply_sets(&["cores=2".to_string(), "cores_per_device=2".to_string()]).expect("in range");
    random_collectives(&Client::with_chip(chip), 0..40);
}

fn random_collectives(client: &Client, seeds: std::ops::Range<u64>) {
    let cores = Some(client.chip().cores_per_device);
    for seed in seeds {
        let c = case(seed);
        let inputs: Vec<Vec<Array>> = (0..c.devices).map(|d| vec![input(&c, d)]).collect();
        let want = evaluated(client, &format!("{seed}: {}", c.text), &c.text, &inputs);
        let topology = pod::topology(Some(c.topology), client.chip(), c.devices as u32).expect("it fits");
        let shape = PodShape { replicas: c.devices as u32, topology: Some(topology), ..PodShape::default() };
        let options = CompileOptions::default().on(shape).by(Ways { cores, ..Ways::default() });
        let exe = client.compile_text(&c.text, &options).unwrap_or_else(|e| panic!("{seed}: {}: {e}", c.text));
        let run = RunOptions::new(Mode::Full);
        let done = client
            .run_pod(&exe, &inputs, &run, &PodOptions::default(), Attached::default())
            .unwrap_or_else(|e| panic!("{seed}: {} on {}: {e}", c.text, c.topology));
        for (device, (got, want)) in done.outputs.iter().zip(want).enumerate() {
            for (i, (got, want)) in got.iter().zip(want).enumerate() {
                assert_eq!(
                    got.bytes,
                    want.bytes(),
                    "{seed}: {} on {}: device {device}, result {i}",
                    c.text,
                    c.topology
                );
            }
        }
    }
}

/// Every turn of a ring of two stores a result: the slots of one are loaded again only when it has left.
#[test]
fn two_devices_reduce_in_several_turns() {
    let client = Client::new("tpu-v4").expect("a preset");
    let text = "HloModule m\nf { a = u8[] parameter(0) b = u8[] parameter(1) ROOT c = u8[] or(a, b) }\n\
                ENTRY e { x = u8[130,2,5,3] parameter(0) \
                ROOT z = u8[130,1,5,3] reduce-scatter(x), replica_groups={}, dimensions={1}, to_apply=f }\n";
    let shape = PodShape { replicas: 2, ..PodShape::default() };
    let topology = pod::topology(Some("ring:2"), client.chip(), 2).expect("it fits");
    let pod = PodShape { topology: Some(topology), ..shape };
    let exe = client.compile_text(text, &CompileOptions::default().on(pod)).expect("it compiles");
    let part = |device: u8| vec![Array::new(DType::U8, &[130, 2, 5, 3], vec![1 << device; 130 * 30])];
    let (inputs, run) = ([part(0), part(1)], RunOptions::new(Mode::NumericOnly));
    let done = client
        .run_pod(&exe, &inputs, &run, &PodOptions::default(), Attached::default())
        .unwrap_or_else(|e| panic!("{e}"));
    for (device, out) in done.outputs.iter().enumerate() {
        assert!(out[0].bytes.iter().all(|&b| b == 3), "device {device}: {:?}", out[0].bytes);
    }
}
