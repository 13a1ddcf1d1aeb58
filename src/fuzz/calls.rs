//! Operations that call computations: control flow, calls, maps.

use super::program::{Facts, Gen, Instr, epsilon, shape};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// Instructions `%NAMEi` from `x` and `y` of one shape to a last one, with their text: steps that never make a value larger
/// than the larger of the two. Those of arrays (`dims`; none in scalar computations) move elements too.
fn steps(g: &mut Gen, (t, dims): (DType, &[u64]), (x, y): (&str, &str), n: u64) -> (String, String) {
    let of = shape(t, dims);
    let mut text = String::new();
    let mut last = x.to_string();
    for i in 0..n {
        if let Some(moved) = moved(g, (t, dims), &last, i).filter(|_| g.random.once_in(3)) {
            text += &moved;
            last = format!("s{i}");
            continue;
        }
        let ops: &[&str] = match t.class() {
            DTypeClass::Pred => &["and({l}, {y})", "xor({l}, {y})", "not({l})"],
            DTypeClass::Signed | DTypeClass::Unsigned => {
                &["add({l}, {y})", "multiply({l}, {y})", "subtract({y}, {l})", "xor({l}, {y})", "maximum({l}, {y})"]
            }
            DTypeClass::Float => &["maximum({l}, {y})", "minimum({l}, {y})", "negate({l})", "copy({l})"],
            DTypeClass::Complex => &["negate({l})", "copy({l})"],
        };
        let op = g.random.pick(ops).replace("{l}", &last).replace("{y}", y);
        text += &format!("  s{i} = {of} {op}\n");
        last = format!("s{i}");
    }
    (text, last)
}

/// `si`: the elements of `last` in another order along a dimension.
fn moved(g: &mut Gen, (t, dims): (DType, &[u64]), last: &str, i: u64) -> Option<String> {
    let d = g.random.below(dims.len().max(1) as u64) as usize;
    let n = *dims.get(d)?;
    let of = shape(t, dims);
    if n < 2 || g.random.once_in(2) {
        return Some(format!("  s{i} = {of} reverse({last}), dimensions={{{d}}}\n"));
    }
    // A roll.
    let by = 1 + g.random.below(n - 1);
    let part = |name: &str, from: u64, to: u64| {
        let cut = |k: usize| if k == d { format!("[{from}:{to}]") } else { format!("[0:{}]", dims[k]) };
        let all: Vec<String> = (0..dims.len()).map(cut).collect();
        let sizes: Vec<u64> = (0..dims.len()).map(|k| if k == d { to - from } else { dims[k] }).collect();
        format!("  {name}{i} = {} slice({last}), slice={{{}}}\n", shape(t, &sizes), all.join(", "))
    };
    let (behind, front) = (part("t", by, n), part("u", 0, by));
    Some(format!("{behind}{front}  s{i} = {of} concatenate(t{i}, u{i}), dimensions={{{d}}}\n"))
}

fn widest(a: &Facts, b: &Facts) -> Facts {
    Facts { bound: a.bound.max(b.bound), step: a.step.min(b.step), error: a.error.max(b.error) }
}

fn pair(g: &mut Gen) -> Option<(usize, usize)> {
    let x = g.find(|i: &Instr| !i.dtype().is_byte_float())?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    Some((x, g.like(t, &dims)))
}

/// A scalar computation over arrays.
pub fn map(g: &mut Gen, op: &str) -> Option<usize> {
    let (x, y) = pair(g)?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    let of = shape(t, &[]);
    let n = 1 + g.random.below(3);
    let (text, last) = steps(g, (t, &[]), ("a", "b"), n);
    let name = g.computation(|name| {
        format!("{name} {{\n  a = {of} parameter(0)\n  b = {of} parameter(1)\n{text}  ROOT r = {of} copy({last})\n}}\n")
    });
    let f = widest(&g.facts(x), &g.facts(y));
    let all: Vec<String> = (0..dims.len()).map(|d| d.to_string()).collect();
    g.push((t, &dims), op, &[x, y], &format!(", dimensions={{{}}}, to_apply={name}", all.join(",")), f)
}

/// A call, or a call with several results.
pub fn call(g: &mut Gen, op: &str) -> Option<usize> {
    let (x, y) = pair(g)?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    let of = shape(t, &dims);
    let n = 1 + g.random.below(3);
    let (text, last) = steps(g, (t, &dims), ("a", "b"), n);
    let several = op != "call";
    let (result, root) = match several {
        true => (format!("({of}, {of})"), format!("tuple({last}, b)")),
        false => (of.clone(), format!("copy({last})")),
    };
    let name = g.computation(|name| {
        format!("{name} {{\n  a = {of} parameter(0)\n  b = {of} parameter(1)\n{text}  ROOT r = {result} {root}\n}}\n")
    });
    let f = widest(&g.facts(x), &g.facts(y));
    let attributes = format!(", to_apply={name}");
    if several {
        let facts = [f, g.facts(y)];
        return g.push_tuple(&[(t, dims.clone()), (t, dims)], "call", &[x, y], &attributes, &facts)?.first().copied();
    }
    g.push((t, &dims), op, &[x, y], &attributes, f)
}

/// The condition and the body of a loop over a counter and two arrays, `trips` of which are left from 0 on. The turns of an outer loop
/// go through another one.
fn turns(g: &mut Gen, (t, dims): (DType, &[u64]), trips: u64, outer: bool) -> (String, String) {
    let of = shape(t, dims);
    let n = 1 + g.random.below(3);
    let (mut text, mut last) = steps(g, (t, dims), ("a", "b"), n);
    let state = format!("(s32[], {of}, {of})");
    if outer {
        let trips = g.random.below(4);
        let (condition, body) = turns(g, (t, dims), trips, false);
        // The same place of the inner state, or the other one.
        let (first, second, taken) =
            g.random.pick(&[("{l}", "b", 1), ("b", "{l}", 2), ("{l}", "b", 2), ("a", "{l}", 1)]);
        let (first, second) = (first.replace("{l}", &last), second.replace("{l}", &last));
        text += &format!(
            "  zero = s32[] constant(0)\n  into = {state} tuple(zero, {first}, {second})\n  inner = {state} while(into), \
             condition={condition}, body={body}\n  out = {of} get-tuple-element(inner), index={taken}\n"
        );
        last = "out".into();
    }
    let body = g.computation(|name| {
        format!(
            "{name} {{\n  p = {state} parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  a = {of} get-tuple-element(p), \
             index=1\n  b = {of} get-tuple-element(p), index=2\n  one = s32[] constant(1)\n  next = s32[] add(i, one)\n{text}  \
             ROOT r = {state} tuple(next, {last}, b)\n}}\n"
        )
    });
    let condition = g.computation(|name| {
        format!(
            "{name} {{\n  p = {state} parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  n = s32[] constant({trips})\n  \
             ROOT r = pred[] compare(i, n), direction=LT\n}}\n"
        )
    });
    (condition, body)
}

/// A loop over a state of a counter and two arrays: a known number of trips, or one that data decides; now and then with a loop in it.
pub fn while_loop(g: &mut Gen, op: &str) -> Option<usize> {
    let (x, y) = pair(g)?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    let (trips, outer) = (g.random.below(5), g.random.once_in(3));
    let (condition, body) = turns(g, (t, &dims), trips, outer);
    let start = if g.random.once_in(2) {
        g.constant(DType::S32, "0", 0.0)
    } else {
        // From data: at most a few trips below the limit.
        let s = g.like(DType::S32, &[]);
        let (low, high) = (g.constant(DType::S32, "-2", 2.0), g.constant(DType::S32, "6", 6.0));
        let f = g.facts(s);
        g.push((DType::S32, &[]), "clamp", &[low, s, high], "", f)?
    };
    let counter = Facts { bound: 8.0, step: 1.0, error: 0.0 };
    let f = widest(&g.facts(x), &g.facts(y));
    let init = g.push((DType::S32, &[]), "tuple", &[start, x, y], "", counter.clone())?;
    let shapes = [(DType::S32, Vec::new()), (t, dims.clone()), (t, dims)];
    g.program.instrs[init].shapes = shapes.to_vec();
    g.program.instrs[init].tuple = true;
    let error = f.error + 80.0 * epsilon(t) * f.bound * f64::from(u8::from(f.step == 0.0));
    let facts = [counter, Facts { error, ..f.clone() }, f];
    let attributes = format!(", condition={condition}, body={body}");
    let all = g.push_tuple(&shapes, op, &[init], &attributes, &facts)?;
    all.get(1).copied()
}

/// A branch by a truth or by a number (numbers outside take the last).
pub fn conditional(g: &mut Gen, op: &str) -> Option<usize> {
    let (x, y) = pair(g)?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    let of = shape(t, &dims);
    let state = format!("({of}, {of})");
    let by_number = g.random.once_in(2);
    let count = if by_number { 1 + g.random.below(4) } else { 2 };
    let mut names = Vec::new();
    for _ in 0..count {
        let n = g.random.below(3);
        let (text, last) = steps(g, (t, &dims), ("a", "b"), n);
        names.push(g.computation(|name| {
            format!(
                "{name} {{\n  p = {state} parameter(0)\n  a = {of} get-tuple-element(p), index=0\n  b = {of} \
                 get-tuple-element(p), index=1\n{text}  ROOT r = {of} copy({last})\n}}\n"
            )
        }));
    }
    let f = widest(&g.facts(x), &g.facts(y));
    let both = g.push((t, &dims), "tuple", &[x, y], "", f.clone())?;
    g.program.instrs[both].shapes = vec![(t, dims.clone()), (t, dims.clone())];
    g.program.instrs[both].tuple = true;
    let (index, attributes) = match by_number {
        true => (g.like(DType::S32, &[]), format!(", branch_computations={{{}}}", names.join(", "))),
        false => (g.like(DType::Pred, &[]), format!(", true_computation={}, false_computation={}", names[0], names[1])),
    };
    let operands: Vec<usize> = std::iter::once(index).chain(names.iter().map(|_| both)).collect();
    g.push((t, &dims), op, &operands, &attributes, f)
}
