//! Collectives in pieces against the reference evaluator on the program as it was written: products whose operands are
//! gathered along every dimension, sums of products that are scattered or not, chains of both.
//!
//! Links are made so slow that everything is worth cutting that can be cut.

use super::reference::evaluated;
use systole_isa::DType;
use systole_isa::program::PodShape;
use systole_runtime::pod::{self, Attached, PodOptions};
use systole_runtime::{Array, Client, CompileOptions, Mode, RunOptions};

/// Entry parameters of f32 (dimensions), then the lines of the entry; programs run on four devices.
const PROGRAMS: [(&str, &[&[u64]], &str); 9] = [
    (
        "rows gathered",
        &[&[16, 24], &[24, 40]],
        "g = f32[64,24] all-gather(x0), replica_groups={}, dimensions={0} \
         ROOT r = f32[64,40] dot(g, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (
        "depth gathered",
        &[&[64, 32], &[8, 40]],
        "g = f32[32,40] all-gather(x1), replica_groups={}, dimensions={0} \
         d = f32[64,40] dot(x0, g), lhs_contracting_dims={1}, rhs_contracting_dims={0} \
         ROOT r = f32[64,40] negate(d)",
    ),
    (
        "gathered through a transpose and a reshape",
        &[&[8, 2, 24], &[40, 24]],
        "g = f32[32,2,24] all-gather(x0), replica_groups={}, dimensions={0} f = f32[64,24] reshape(g) \
         t = f32[24,64] transpose(f), dimensions={1,0} \
         ROOT r = f32[40,64] dot(x1, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (
        "scattered sum",
        &[&[64, 24], &[24, 40]],
        "d = f32[64,40] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0} \
         ROOT r = f32[16,40] reduce-scatter(d), replica_groups={}, dimensions={0}, to_apply=add",
    ),
    (
        "sum, norm, product, sum",
        &[&[64, 24], &[24, 40], &[40, 24]],
        "d = f32[64,40] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0} \
         s = f32[64,40] all-reduce(d), replica_groups={}, to_apply=add zero = f32[] constant(0) \
         m = f32[64] reduce(s, zero), dimensions={1}, to_apply=max b = f32[64,40] broadcast(m), dimensions={0} \
         n = f32[64,40] subtract(b, s) \
         e = f32[64,24] dot(n, x2), lhs_contracting_dims={1}, rhs_contracting_dims={0} \
         ROOT r = f32[64,24] all-reduce(e), replica_groups={{0,1},{2,3}}, to_apply=add",
    ),
    (
        "used outside too",
        &[&[64, 24], &[24, 40]],
        "d = f32[64,40] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0} \
         s = f32[64,40] all-reduce(d), replica_groups={}, to_apply=add \
         q = f32[64,64] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={1} \
         ROOT r = (f32[64,64], f32[64,40]) tuple(q, s)",
    ),
    (
        "batches",
        &[&[8, 16, 24], &[8, 24, 40]],
        "d = f32[8,16,40] dot(x0, x1), lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_batch_dims={0}, \
         rhs_batch_dims={0} ROOT s = f32[8,4,40] reduce-scatter(d), replica_groups={}, dimensions={1}, to_apply=add",
    ),
    (
        "gathered, multiplied, scattered",
        &[&[16, 24], &[24, 24], &[64, 24]],
        "g = f32[64,24] all-gather(x0), replica_groups={}, dimensions={0} \
         d = f32[64,24] dot(g, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0} a = f32[64,24] add(d, x2) \
         ROOT r = f32[16,24] reduce-scatter(a), replica_groups={}, dimensions={0}, to_apply=add",
    ),
    (
        "in a loop",
        &[&[64, 24], &[6, 24]],
        "zero = s32[] constant(0) t = (s32[], f32[64,24], f32[6,24]) tuple(zero, x0, x1) \
         l = (s32[], f32[64,24], f32[6,24]) while(t), condition=cond, body=body \
         ROOT r = f32[64,24] get-tuple-element(l), index=1",
    ),
];

const HEAD: &str = "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n\
    max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }\n\
    cond { t = (s32[], f32[64,24], f32[6,24]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] constant(3) \
    ROOT c = pred[] compare(i, n), direction=LT }\n\
    body { t = (s32[], f32[64,24], f32[6,24]) parameter(0) i = s32[] get-tuple-element(t), index=0 \
    x = f32[64,24] get-tuple-element(t), index=1 w = f32[6,24] get-tuple-element(t), index=2 \
    g = f32[24,24] all-gather(w), replica_groups={}, dimensions={0} \
    d = f32[64,24] dot(x, g), lhs_contracting_dims={1}, rhs_contracting_dims={0} one = s32[] constant(1) \
    j = s32[] add(i, one) ROOT u = (s32[], f32[64,24], f32[6,24]) tuple(j, d, w) }\n";

const DEVICES: usize = 4;

/// Small whole numbers, whose products' sums are exact.
fn input(device: usize, number: usize, dims: &[u64]) -> Array {
    let count: u64 = dims.iter().product();
    let value = |i: u64| ((i * 7 + device as u64 * 3 + number as u64) % 3) as f32 - 1.0;
    Array::new(DType::F32, dims, (0..count).flat_map(|i| value(i).to_le_bytes()).collect())
}

#[test]
fn programs_in_pieces_answer_as_they_are_written() {
    let client = Client::new("tiny").expect("a preset");
    for (name, parameters, lines) in PROGRAMS {
        let shape = |d: &[u64]| format!("f32[{}]", d.iter().map(u64::to_string).collect::<Vec<_>>().join(","));
        let each = parameters.iter().enumerate().map(|(i, d)| format!("x{i} = {} parameter({i})", shape(d)));
        let text = format!("{HEAD}ENTRY e {{ {} {lines} }}\n", each.collect::<Vec<_>>().join(" "));
        let inputs: Vec<Vec<Array>> = (0..DEVICES)
            .map(|device| parameters.iter().enumerate().map(|(i, d)| input(device, i, d)).collect())
            .collect();
        let want = evaluated(&client, name, &text, &inputs);
        let topology = pod::topology(Some("2x2"), client.chip(), DEVICES as u32).expect("it fits");
        let pod = PodShape { replicas: DEVICES as u32, topology: Some(topology), ..PodShape::default() };
        let mut exchanges = Vec::new();
        for slow in [false, true] {
            let mut chip = client.chip().clone();
            if slow {
                // Endless memory, and links and units so slow that both are worth sharing.
                (chip.hbm.bandwidth, chip.ici.link_bandwidth, chip.clock_hz) = (1e15, 1e7, 1e6);
            }
            let client = Client::with_chip(chip);
            let options = CompileOptions::default().on(pod.clone());
            let exe = client.compile_text(&text, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
            exchanges.push(exe.program.pod.algorithms.len());
            let done = client
                .run_pod(&exe, &inputs, &RunOptions::new(Mode::Full), &PodOptions::default(), Attached::default())
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            for (device, (got, want)) in done.outputs.iter().zip(&want).enumerate() {
                for (i, (got, want)) in got.iter().zip(want).enumerate() {
                    assert_eq!(got.bytes, want.bytes(), "{name}, slow links {slow}: device {device}, result {i}");
                }
            }
        }
        assert!(exchanges[1] > exchanges[0], "{name}: nothing was cut");
    }
}
