//! The passes of matrix units that a product takes.

use MxuFormat::*;
use systole_codegen::emit::mxu::float_passes;
use systole_hlo::graph::op::Precision;
use systole_isa::{DType, MxuFormat};

#[test]
fn passes_follow_precision_and_type() {
    let check = |l, r, p, want: &[(MxuFormat, MxuFormat)]| assert_eq!(float_passes(l, r, p), want, "{l} {r} {p:?}");
    let (d, h, hh) = (Precision::Default, Precision::High, Precision::Highest);
    check(DType::F32, DType::F32, d, &[(Bf16, Bf16)]);
    check(DType::BF16, DType::BF16, hh, &[(Bf16, Bf16)]);
    check(DType::F32, DType::F32, h, &[(High, High), (HighFinite, Mid), (Mid, HighFinite)]);
    let six = [(High, High), (HighFinite, Mid), (Mid, HighFinite), (Mid, Mid), (HighFinite, Low), (Low, HighFinite)];
    check(DType::F32, DType::F32, hh, &six);
    check(DType::F16, DType::F16, d, &six[..4]);
    check(DType::F32, DType::BF16, hh, &[(High, High), (Mid, HighFinite), (Low, HighFinite)]);
    check(DType::F16, DType::BF16, d, &[(High, High), (Mid, HighFinite)]);
}
