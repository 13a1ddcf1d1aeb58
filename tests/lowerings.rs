//! Lowerings of large operations give the reference evaluator's answers, bit for bit: exact programs without inputs.

use rayon::prelude::*;
use systole_compiler::eval::{EvalOptions, evaluate};
use systole_compiler::front::parse_hlo;
use systole_isa::ChipConfig;
use systole_runtime::{Client, CompileOptions, Mode, NoObserver, RunOptions};

const BODIES: &str = "
add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }
ge { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
jax_less {
  a = f32[] parameter(0) b = f32[] parameter(1)
  c = s32[] parameter(2) d = s32[] parameter(3)
  nan = f32[] constant(nan) zero = f32[] constant(0)
  an = pred[] compare(a, a), direction=NE  az = pred[] compare(a, zero), direction=EQ
  a0 = f32[] select(az, zero, a)  ak = f32[] select(an, nan, a0)
  bn = pred[] compare(b, b), direction=NE  bz = pred[] compare(b, zero), direction=EQ
  b0 = f32[] select(bz, zero, b)  bk = f32[] select(bn, nan, b0)
  ROOT r = pred[] compare(ak, bk), direction=LT, type=TOTALORDER
}
total { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GT, type=TOTALORDER }
two_keys {
  a = s8[] parameter(0) b = s8[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  less = pred[] compare(a, b), direction=LT  same = pred[] compare(a, b), direction=EQ
  more = pred[] compare(c, d), direction=GT, type=TOTALORDER
  both = pred[] and(same, more) ROOT r = pred[] or(less, both)
}
test { s = (s32[], s32[256,1024]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3) ROOT r = pred[] compare(i, n), direction=LT }
step {
  s = (s32[], s32[256,1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0  x = s32[256,1024] get-tuple-element(s), index=1
  one = s32[] constant(1)  j = s32[] add(i, one)  y = s32[256,1024] add(x, x)
  row = s32[1,1024] slice(y), slice={[5:6], [0:1024]}  zero = s32[] constant(0)
  z = s32[256,1024] dynamic-update-slice(y, row, j, zero)
  ROOT r = (s32[], s32[256,1024]) tuple(j, z)
}
";

/// Numbers `[n]` that jump about: `(iota * a + b) mod m`.
fn jumps(name: &str, dtype: &str, n: u64, (a, b, m): (u64, u64, u64)) -> String {
    format!(
        "{name}i = s32[{n}] iota(), iota_dimension=0\n {name}a = s32[] constant({a})\n {name}b = s32[] constant({b})\n \
         {name}m = s32[] constant({m})\n {name}as = s32[{n}] broadcast({name}a), dimensions={{}}\n \
         {name}bs = s32[{n}] broadcast({name}b), dimensions={{}}\n {name}ms = s32[{n}] broadcast({name}m), dimensions={{}}\n \
         {name}p = s32[{n}] multiply({name}i, {name}as)\n {name}q = s32[{n}] add({name}p, {name}bs)\n \
         {name}r = s32[{n}] remainder({name}q, {name}ms)\n {name} = {dtype}[{n}] convert({name}r)\n "
    )
}

#[rustfmt::skip]
fn programs() -> Vec<(&'static str, String)> {
    // Zeros of both signs, NaNs of both signs, infinities and numbers, as bits.
    let bits = "b = s32[12] constant({0, 1065353216, -2147483648, 2143289344, -4194304, 2139095040, -8388608, -1082130432, 0, -2147483648, 2143289344, 5})\n \
                x = f32[12] bitcast-convert(b)\n i = s32[12] iota(), iota_dimension=0\n ";
    // A key that takes all NaNs for one may bring back any of them.
    let one_nan = "n = pred[12] compare(v, v), direction=NE\n o = f32[] constant(nan)\n os = f32[12] broadcast(o), dimensions={}\n q = f32[12] select(n, os, v)\n ";
    let corner = "i = s32[20,20] iota(), iota_dimension=0\n j = s32[20,20] iota(), iota_dimension=1\n ";
    vec![
        ("transpose and reshape that no blocks do", format!("{}x = s32[5,7,601,2] reshape(a)\n n = s32[5,7,601,2] negate(x)\n \
            t = s32[2,7,601,5] transpose(n), dimensions={{3,1,2,0}}\n r = s32[2,21035] reshape(t)\n ROOT o = s32[2,21035] negate(r)",
            jumps("a", "s32", 42_070, (7919, 13, 100_003)))),
        ("long narrow rows that begin anywhere", format!("{}n = s8[2000003] negate(a)\n x = s8[1999996] slice(n), slice={{[5:2000001]}}\n y = s8[7] slice(n), slice={{[9:16]}}\n \
            c = s8[2000003] concatenate(y, x), dimensions={{0}}\n ROOT r = s8[2000003] negate(c)", jumps("a", "s8", 2_000_003, (7919, 13, 101)))),
        ("rows too long for vector memory, reduced and put one behind the other", format!("{}z = s32[] constant(0)\n x = s32[9,60001] reshape(a)\n n = s32[9,60001] negate(x)\n \
            s = s32[60001] reduce(n, z), dimensions={{0}}, to_apply=add\n f = s32[540009] reshape(n)\n ROOT r = (s32[60001], s32[540009]) tuple(s, f)", jumps("a", "s32", 540_009, (7919, 13, 100_003)))),
        ("stable sort by a key", format!("{bits}s = (f32[12], s32[12]) sort(x, i), dimensions={{0}}, is_stable=true, to_apply=jax_less\n \
            v = f32[12] get-tuple-element(s), index=0\n {one_nan}w = s32[12] bitcast-convert(q)\n j = s32[12] get-tuple-element(s), index=1\n ROOT r = (s32[12], s32[12]) tuple(w, j)")),
        ("sort in total order", format!("{bits}s = f32[12] sort(x), dimensions={{0}}, to_apply=total\n ROOT r = s32[12] bitcast-convert(s)")),
        ("two keys", jumps("k", "s8", 300, (7, 3, 5)) + &jumps("f", "f32", 300, (37, 11, 101)) +
            "ROOT r = (s8[300], f32[300]) sort(k, f), dimensions={0}, is_stable=true, to_apply=two_keys"),
        ("elements of a table", jumps("t", "s32", 300, (7, 1, 1000)) + &jumps("i", "s32", 500, (37, 5, 300)) +
            "ROOT r = s32[500] gather(t, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"),
        ("elements of rows", jumps("t", "s32", 3000, (7, 1, 1000)) + &jumps("i", "s32", 500, (37, 5, 300)) +
            "tab = s32[10,300] reshape(t)\n ind = s32[10,50,1] reshape(i)\n ROOT r = s32[10,50] gather(tab, ind), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}"),
        ("scattered elements", jumps("t", "s32", 300, (7, 1, 1000)) + &jumps("i", "s32", 500, (37, 5, 310)) + &jumps("u", "s32", 500, (3, 1, 50)) +
            "ROOT r = s32[300] scatter(t, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"),
        ("scan along lanes", jumps("t", "s32", 4480, (7, 1, 1000)) +
            "x = s32[64,70] reshape(t)\n z = s32[] constant(0)\n ROOT r = s32[64,70] reduce-window(x, z), window={size=1x70 pad=0_0x0_69}, to_apply=add"),
        ("windows along all dimensions", jumps("t", "s32", 20480, (7, 1, 1000)) +
            "x = s32[128,160] reshape(t)\n z = s32[] constant(4)\n ROOT r = s32[126,77] reduce-window(x, z), window={size=3x9 stride=1x2 pad=0_0x1_0 rhs_dilate=1x1}, to_apply=add"),
        ("windows along lanes", jumps("t", "s32", 20480, (7, 1, 1000)) +
            "x = s32[2,64,160] reshape(t)\n z = s32[] constant(0)\n ROOT r = s32[2,64,158] reduce-window(x, z), window={size=1x1x3}, to_apply=add"),
        ("a state larger than vector memory", "x = s32[256,1024] iota(), iota_dimension=1\n i = s32[] constant(0)\n t = (s32[], s32[256,1024]) tuple(i, x)\n \
            w = (s32[], s32[256,1024]) while(t), condition=test, body=step\n ROOT r = s32[256,1024] get-tuple-element(w), index=1".to_string()),
        ("more than vector memory sorts", jumps("k", "s8", 20000, (7, 3, 5)) + &jumps("f", "f32", 20000, (37, 11, 101)) +
            "ROOT r = (s8[20000], f32[20000]) sort(k, f), dimensions={0}, is_stable=true, to_apply=two_keys"),
        ("overlapping windows that select", jumps("t", "s32", 1320, (7, 1, 100)) + &jumps("u", "s32", 360, (3, 1, 50)) +
            "x = s32[1,12,11,10] reshape(t)\n s = s32[1,6,6,10] reshape(u)\n z = s32[] constant(3)\n \
             ROOT r = s32[1,12,11,10] select-and-scatter(x, s, z), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x1_1x0_0}, select=ge, scatter=add"),
        ("a factor by blocks", format!("{corner}n = s32[20,20] minimum(i, j)\n o = s32[] constant(1)\n os = s32[20,20] broadcast(o), dimensions={{}}\n m = s32[20,20] add(n, os)\n \
            x = f32[20,20] convert(m)\n l = f32[20,20] cholesky(x), lower=true\n u = f32[20,20] cholesky(x), lower=false\n ROOT r = (f32[20,20], f32[20,20]) tuple(l, u)")),
        ("triangular systems by blocks", format!("{corner}d = s32[20,20] subtract(i, j)\n a = s32[20,20] abs(d)\n o = s32[] constant(1)\n os = s32[20,20] broadcast(o), dimensions={{}}\n \
            near = pred[20,20] compare(a, os), direction=LE\n e = s32[20,20] subtract(os, a)\n e2 = s32[20,20] add(e, e)\n e3 = s32[20,20] subtract(e2, os)\n z = s32[] constant(0)\n \
            zs = s32[20,20] broadcast(z), dimensions={{}}\n m = s32[20,20] select(near, e3, zs)\n x = f32[20,20] convert(m)\n y = f32[20,20] convert(i)\n w = f32[20,5] slice(y), slice={{[0:20], [0:5]}}\n \
            p = f32[20,20] triangular-solve(x, y), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE\n \
            q = f32[20,5] triangular-solve(x, w), left_side=true, lower=false, unit_diagonal=true, transpose_a=NO_TRANSPOSE\n \
            s = f32[20,20] triangular-solve(x, y), left_side=false, lower=true, unit_diagonal=false, transpose_a=TRANSPOSE\n \
            ps = s32[20,20] convert(p)\n qs = s32[20,5] convert(q)\n ss = s32[20,20] convert(s)\n ROOT r = (s32[20,20], s32[20,5], s32[20,20]) tuple(ps, qs, ss)")),
        ("dynamic sizes", jumps("t", "s32", 60, (7, 1, 1000)) +
            "x = s32[6,10] reshape(t)\n n = s32[] constant(4)\n z = s32[] constant(0)\n nine = s32[] constant(9)\n d = s32[6,<=10] set-dimension-size(x, n), dimensions={1}\n \
             c = s32[6,<=20] concatenate(d, d), dimensions={1}\n p = s32[6,<=23] pad(c, nine), padding=0_0x1_2\n s = s32[] get-dimension-size(p), dimensions={1}\n \
             q = s32[6] reduce(p, z), dimensions={1}, to_apply=add\n f = s32[<=60] reshape(d)\n h = s32[20] slice(f), slice={[0:20]}\n ROOT r = (s32[], s32[6], s32[20]) tuple(s, q, h)"),
    ]
}

#[test]
fn lowerings_give_the_evaluators_answers() {
    let mut chip = ChipConfig::from_preset("tiny").expect("a preset");
    chip.apply_sets(&["vmem.bytes=1MiB".to_string()]).expect("a legal size");
    programs().par_iter().for_each(|(name, body)| check(name, body, &chip));
}

fn check(name: &str, body: &str, chip: &ChipConfig) {
    let client = Client::with_chip(chip.clone());
    let text = format!("HloModule m\n{BODIES}\nENTRY e {{\n {body}\n}}\n");
    let module = parse_hlo(&text).unwrap_or_else(|d| panic!("{name}: {}", d[0].message)).0;
    let exe = client.compile_hlo(&text, &CompileOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let run = RunOptions::new(Mode::Full);
    let done = client.device(0).run_with(&exe, &[], &run, &mut NoObserver);
    let got = done.unwrap_or_else(|e| panic!("{name}: {e}")).outputs;
    // The evaluator knows no dynamic sizes: those answers stand here.
    if name == "dynamic sizes" {
        let values = |i: usize| -> Vec<i32> {
            got[i].bytes.chunks_exact(4).map(|c| i32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
        };
        let row = |r: i32| (0..4).map(|c| (7 * (10 * r + c) + 1) % 1000).collect::<Vec<_>>();
        assert_eq!(values(0), [11], "{name}");
        assert_eq!(values(1), (0..6).map(|r| 2 * row(r).iter().sum::<i32>() + 27).collect::<Vec<_>>(), "{name}");
        assert_eq!(values(2), (0..5).flat_map(row).collect::<Vec<_>>(), "{name}");
        return;
    }
    let want = evaluate(&module, &[], &EvalOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    for (w, g) in want.into_leaves().iter().zip(&got) {
        assert!(w.bytes() == &g.bytes[..], "{name}");
    }
}
