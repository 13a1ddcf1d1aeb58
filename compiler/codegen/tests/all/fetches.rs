//! Moves that are copies of rows.

use systole_codegen::emit::fetch::*;
use systole_codegen::emit::moves::spec::MoveSpec;
use systole_codegen::emit::moves::spec::Side;
use systole_isa::ChipConfig;
use systole_isa::DType;

/// A move `[rows, columns]` along the dimensions of both sides.
fn rows_of(dtype: DType, sizes: [u32; 2], planes: [i64; 2]) -> MoveSpec {
    let side = |plane_rows| Side { rows: vec![1, 0], lanes: vec![0, 1], plane_rows, ..Side::default() };
    MoveSpec { dtype, sizes: sizes.to_vec(), src: side(planes[0]), dst: side(planes[1]) }
}

/// What a move is as a copy: rows of words of a chunk, and the steps around it; none at all if `chunk` is 0.
fn check(spec: &MoveSpec, chunk: u32, dims: &[(u32, u32, u32)]) {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let found = FetchPart::of(spec, &chip).map(|f| f.part);
    let dims = dims.iter().map(|&(count, from, to)| FetchDim { count, from, to }).collect();
    assert_eq!(found, (chunk > 0).then_some(FetchPart { chunk, dims }));
}

#[test]
fn moves_that_keep_lanes_are_copies_of_rows() {
    check(&rows_of(DType::F32, [32, 64], [512, 32]), 32, &[]);
    // Planes, apart or side by side.
    check(&rows_of(DType::F32, [32, 256], [512, 32]), 32, &[(2, 512, 32)]);
    check(&rows_of(DType::F32, [32, 256], [32, 32]), 64, &[]);
    // Rows that share words, the last with padding.
    check(&rows_of(DType::BF16, [31, 128], [512, 32]), 16, &[]);
}

#[test]
fn every_second_row_is_one_of_words() {
    for (dtype, chunk, dims) in [(DType::F32, 1, &[(16, 2, 1)][..]), (DType::BF16, 0, &[])] {
        let mut spec = rows_of(dtype, [16, 64], [512, 32]);
        spec.src.rows[0] = 2;
        check(&spec, chunk, dims);
    }
}

#[test]
fn moves_that_change_lanes_are_no_copies() {
    let mut across = rows_of(DType::F32, [32, 64], [512, 32]);
    across.src.lanes.swap(0, 1);
    across.src.rows.swap(0, 1);
    check(&across, 0, &[]);
    let mut begins = rows_of(DType::F32, [32, 64], [512, 32]);
    begins.src.dynamic_lane = true;
    check(&begins, 0, &[]);
}
