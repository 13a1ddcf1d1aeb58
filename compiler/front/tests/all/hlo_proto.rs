//! Modules written by hand, field by field.

use systole_front::hlo_proto::{is_proto, to_text};
use systole_front::parse_hlo;
use systole_hlo::graph::verify::verify;

/// A field of bytes.
fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(u64::from(number) << 3 | 2, &mut out);
    varint(bytes.len() as u64, &mut out);
    out.extend(bytes);
    out
}

fn int(number: u8, value: i64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(u64::from(number) << 3, &mut out);
    varint(value as u64, &mut out);
    out
}

fn varint(mut v: u64, out: &mut Vec<u8>) {
    while v >= 128 {
        out.push(v as u8 | 128);
        v >>= 7;
    }
    out.push(v as u8);
}

/// `f32` of two dimensions, column-major where `turned`.
fn shape(dims: [u8; 2], turned: bool) -> Vec<u8> {
    let layout = part(1, if turned { &[0, 1] } else { &[1, 0] });
    [int(2, 11), part(3, &dims), part(5, &layout)].concat()
}

fn instruction(id: i64, name: &str, opcode: &str, shape: &[u8], more: &[u8]) -> Vec<u8> {
    let head = [part(1, name.as_bytes()), part(2, opcode.as_bytes()), part(3, shape), int(35, id)].concat();
    part(2, &[&head[..], more].concat())
}

/// `x * constant`, transposed; the constant's elements are in column-major order.
fn module() -> Vec<u8> {
    let floats: Vec<u8> = [1f32, 3.0, 5.0, 2.0, 4.0, f32::NAN].iter().flat_map(|v| v.to_le_bytes()).collect();
    let literal = [part(1, &shape([3, 2], true)), part(8, &floats)].concat();
    let body = [
        part(1, b"main"),
        instruction(1, "x", "parameter", &shape([3, 2], false), &int(9, 0)),
        instruction(2, "a constant", "constant", &shape([3, 2], false), &part(8, &literal)),
        instruction(3, "product", "multiply", &shape([3, 2], false), &part(36, &[1, 2])),
        instruction(4, "product", "transpose", &shape([2, 3], false), &[part(36, &[3]), part(14, &[1, 0])].concat()),
        int(5, 7),
        int(6, 4),
    ];
    [part(1, b"m"), part(3, &body.concat()), int(6, 7)].concat()
}

#[test]
fn a_module_reads_as_text() {
    let text = to_text(&module()).expect("it is well formed");
    for line in [
        "ENTRY %main {",
        "%a_constant = f32[3,2]{1,0} constant({{1,2}, {3,4}, {5,nan}})",
        "%product = f32[3,2]{1,0} multiply(%x, %a_constant)",
        "ROOT %product.4 = f32[2,3]{1,0} transpose(%product), dimensions={1,0}",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let (parsed, _) = parse_hlo(&text).expect("the text is read");
    verify(&parsed).expect("the module is right");
    assert_eq!(to_text(&part(1, &module())), Ok(text), "the same inside an HloProto");
}

#[test]
fn elements_of_few_bits_are_read_from_the_fields_of_their_types() {
    let text = |number: i64, field: u8, bytes: &[u8]| {
        let shape = [int(2, number), part(3, &[3]), part(5, &part(1, &[0]))].concat();
        let literal = [part(1, &shape), part(field, bytes)].concat();
        let body =
            [part(1, b"main"), instruction(1, "c", "constant", &shape, &part(8, &literal)), int(5, 7), int(6, 1)];
        to_text(&[part(1, b"m"), part(3, &body.concat()), int(6, 7)].concat()).expect("it is well formed")
    };
    // Floats have a byte each, integers share bytes.
    for (number, field, bytes, words) in [
        (32, 32, &[1, 15, 6][..], "f4e2m1fn[3]{0} constant({0.5,-6,4})"),
        (21, 21, &[0xf8, 0x07], "s4[3]{0} constant({-8,-1,7})"),
        (22, 22, &[0xf8, 0x07], "u4[3]{0} constant({8,15,7})"),
    ] {
        let text = text(number, field, bytes);
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn protos_are_told_from_text() {
    assert!(is_proto(&module()) && is_proto(&part(1, &module())));
    for text in ["\nHloModule m\n", "\n\n// comment\nmodule {}", "", "ENTRY e {"] {
        assert!(!is_proto(text.as_bytes()), "{text}");
    }
}

#[test]
fn damaged_modules_are_refused_or_read() {
    let whole = module();
    for i in 0..whole.len() {
        assert!(to_text(&whole[..i]).is_err() || i == whole.len(), "cut at {i}");
        for b in [0, 1, 0x7f, 0xff] {
            let mut bytes = whole.clone();
            bytes[i] = b;
            if let Ok(text) = to_text(&bytes) {
                let _ = parse_hlo(&text);
            }
        }
    }
    let deep = (0..100_000).fold(Vec::new(), |inner, _| if inner.len() < 1 << 16 { part(4, &inner) } else { inner });
    assert!(to_text(&[part(1, b"m"), part(3, &part(2, &part(3, &deep)))].concat()).is_err());
}

/// An all-reduce of `x` with further fields.
fn all_reduce(more: &[u8]) -> Vec<u8> {
    let body = [
        part(1, b"main"),
        instruction(1, "x", "parameter", &shape([3, 2], false), &int(9, 0)),
        instruction(2, "r", "all-reduce", &shape([3, 2], false), &[&part(36, &[1])[..], more].concat()),
        int(5, 7),
        int(6, 2),
    ];
    [part(1, b"m"), part(3, &body.concat()), int(6, 7)].concat()
}

#[test]
fn device_groups_are_read_in_every_form() {
    let list = |ids: &[u8]| part(1, &part(1, ids));
    let plain = [list(&[0, 2]), list(&[1, 3])].concat();
    let iota = [int(1, 2), int(2, 4), part(3, &[4, 2]), part(4, &[1, 0])].concat();
    let axis = |name: &str, size: i64| part(1, &[part(1, name.as_bytes()), int(2, size)].concat());
    let mesh = part(1, &[axis("a", 2), axis("b", 4)].concat());
    let iota_mesh =
        part(1, &[axis("a", 2), axis("b", 4), part(3, &[part(1, &[4, 2]), part(2, &[1, 0])].concat())].concat());
    let listed = part(1, &[axis("a", 2), axis("b", 2), part(2, &[0, 2, 1, 3])].concat());
    let used = |index: i64| part(2, &int(1, index));
    let half = part(2, &[int(1, 1), part(2, &[int(1, 1), int(2, 2)].concat())].concat());
    for (fields, text) in [
        (part(49, &part(1, &[0, 2])), "replica_groups={{0,2}}"),
        (part(87, &plain), "replica_groups={{0,2},{1,3}}"),
        (part(87, &part(2, &iota)), "replica_groups=[2,4]<=[4,2]T(1,0)"),
        (part(92, &iota), "replica_groups=[2,4]<=[4,2]T(1,0)"),
        (part(93, &[mesh.clone(), used(1)].concat()), "replica_groups=mesh['a'=2,'b'=4] {'b'}"),
        (part(93, &[mesh, half].concat()), "replica_groups=mesh['a'=2,'b'=4] {'b':(1)2}"),
        (part(93, &[iota_mesh, used(0)].concat()), "replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a'}"),
        (part(93, &[listed, used(0)].concat()), "replica_groups=mesh['a'=2,'b'=2], device_ids=(0,2,1,3) {'a'}"),
    ] {
        let got = to_text(&all_reduce(&fields)).expect("it is well formed");
        assert!(got.contains(text), "{text}: {got}");
        let parsed = parse_hlo(&got).map(|_| ());
        let missing = "to_apply";
        assert!(parsed.is_err_and(|e| e[0].message.contains(missing)), "the groups are read: {got}");
    }
}

#[test]
fn fields_that_may_mean_something_are_refused() {
    for (fields, message) in [
        (int(120, 3), "an instruction has field 120"),
        (part(98, &[8, 1]), "an instruction has field 98"),
        (part(92, &int(7, 1)), "a list of device groups has field 7"),
        (part(51, &int(9, 1)), "a precision has field 9"),
        (part(51, &int(2, 99)), "algorithm is not supported"),
    ] {
        let e = to_text(&all_reduce(&fields)).map(|_| ()).expect_err(message);
        assert!(e.what.contains(message), "{message}: {}", e.what);
    }
    // What is not set, or says nothing about results.
    for fields in [int(120, 0), int(37, 5), part(88, b"x"), part(91, &[8, 1])] {
        assert!(to_text(&all_reduce(&fields)).is_ok());
    }
}
