//! Loads and stores of packed elements, by what chips have for them.

use systole_codegen::emit::Value;
use systole_codegen::emit::memory::*;
use systole_codegen::kernel::Item;
use systole_codegen::kernel::{KernelBuilder, M};
use systole_isa::ChipConfig;
use systole_isa::{DType, Op};

/// Mnemonics of a kernel that loads a bf16 register, doubles it and stores it.
fn code(chip: &str, load: fn(&mut KernelBuilder, DType, Place) -> Value) -> Vec<&'static str> {
    let mut b = KernelBuilder::new("double", &ChipConfig::from_preset(chip).expect("a preset"));
    let (base, buf) = (b.param(), b.buffer());
    let at = Place { base, offset: 0, stride: 1, buf, component_rows: 0 };
    let x = load(&mut b, DType::BF16, at);
    let sum = b.v(Op::VAddF, &[x.v(), x.v()]);
    store_value(&mut b, &Value::word(DType::BF16, sum), at, M::ALL);
    let insts = b.finish().body.into_iter().filter_map(|i| match i {
        Item::Inst(i) => Some(i.inst.op.info().mnemonic),
        _ => None,
    });
    insts.collect()
}

#[test]
fn chips_without_conversion_unpack_and_pack_what_is_not_for_a_matrix_unit() {
    assert_eq!(code("tpu-v5e", load_value), ["v.ld.bf16", "v.add.f32", "v.st.bf16"]);
    assert_eq!(code("tpu-v3", load_value), ["v.ld.u16", "v.unpack.bf16", "v.add.f32", "v.pack.bf16", "v.st.16"]);
    assert_eq!(code("tpu-v3", load_operand)[0], "v.ld.bf16");
}
