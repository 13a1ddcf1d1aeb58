//! Kernels that JAX wrote, read and printed, and what damage makes of them. `data/README.md` of `mlir-bytecode` says how
//! they were made.

#![allow(clippy::unwrap_used, reason = "tests fail where they should not")]

use systole_mosaic::{Call, Kernel, Module, Role, print};

const MATMUL: &[u8] = include_bytes!("../../mlir-bytecode/tests/data/pallas_matmul.mlirbc");

#[test]
fn a_product_is_typed_and_printed() {
    let module = Module::decode(MATMUL).unwrap();
    let kernel = Kernel::of(&module).unwrap();
    assert!(kernel.steps() > Some(1), "a grid");
    let windows = kernel.arguments.iter().filter(|a| matches!(a.2, Role::Window(_))).count();
    assert!(windows >= 3, "two operands and a result");
    let text = print(&module, true);
    for part in ["tpu.matmul", "vector.load", "func @transform_0", "memref<", ", vmem>", ".py:"] {
        assert!(text.contains(part), "`{part}` is missing:\n{text}");
    }
    assert!(!print(&module, false).contains(".py:"));
}

#[test]
fn damage_is_an_error() {
    for n in 0..MATMUL.len() {
        let _ = Module::decode(&MATMUL[..n]).map(|m| print(&m, true));
        let mut bytes = MATMUL.to_vec();
        bytes[n] ^= 0x55;
        if let Ok(m) = Module::decode(&bytes) {
            let _ = Kernel::of(&m).map(|k| k.arguments.len());
        }
    }
}

#[test]
fn a_type_that_is_a_part_of_itself_is_an_error() {
    // Among the types of the section: the elements of a vector are vectors of that type.
    for (at, element) in [(1079, 5), (1087, 7)] {
        let mut bytes = MATMUL.to_vec();
        bytes[at] = element;
        let e = Module::decode(&bytes).unwrap_err().to_string();
        assert!(e.contains("types are nested more than 8 deep"), "{e}");
    }
}

#[test]
fn calls_say_what_is_wrong_with_them() {
    let of = |text: &str| Call::parse(text).unwrap_err().to_string();
    assert!(of("{").contains("configuration"));
    assert!(of("{\"custom_call_config\": {}}").contains("`body`"));
    assert!(of("{\"custom_call_config\": {\"body\": \"@@\"}}").contains("base64"));
    assert!(of("{\"custom_call_config\": {\"body\": \"\", \"serialization_format\": 3}}").contains("format 3"));
    let empty = Call::parse("{\"custom_call_config\": {\"body\": \"\"}}").unwrap();
    assert!(empty.module().unwrap_err().to_string().contains("no MLIR bytecode"));
}
