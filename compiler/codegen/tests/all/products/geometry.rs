//! Contractions as rows, columns and parts of arrays.

use systole_codegen::emit::mxu::geometry::*;
use systole_codegen::emit::mxu::{Array, MatView, Place};
use systole_codegen::emit::mxu::{Contraction, Dim};
use systole_isa::ChipConfig;
use systole_isa::DType;

fn view(plane_rows: u32, row_stride: u32, batch_stride: u32) -> MatView {
    let array = Array { place: Place::Vmem, dtype: DType::BF16, plane_rows, total_rows: 8 * plane_rows };
    MatView { array, row_stride, batch_stride }
}

#[test]
fn parts_of_wide_arrays_are_what_a_contraction_fills() {
    let mut chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let part = |chip: &ChipConfig, k, n, transposed| {
        let spec = Contraction::dot(1, [64, k, n], view(64, 1, 0), (view(2048, 1, 0), transposed), view(64, 1, 0));
        Staging::variants(&spec, chip).remove(0)
    };
    assert_eq!(part(&chip, 300, 300, false).part.k.beyond, None);
    chip.apply_sets(&["mxu.rows=1024", "mxu.cols=1024"].map(String::from)).expect("in range");
    let small = part(&chip, 64, 200, false);
    assert_eq!((small.groups, small.chunks), (8, 2));
    let chunks = |first, count, beyond| Chunks { first, count, beyond };
    let due = Part { k: chunks(0, 1, Some(7)), n: chunks(6, 2, None) };
    assert_eq!(small.part, due);
    let due = Part { k: chunks(7, 1, None), n: chunks(0, 2, Some(7)) };
    assert_eq!(part(&chip, 64, 200, true).part, due);
    // Two arrays deep and one wide: both are filled alike.
    let large = part(&chip, 1152, 1024, false).part;
    assert_eq!((large.k, large.n), (chunks(0, 5, Some(7)), chunks(0, 8, None)));
    // Smaller parts: half the columns, half the rows, and so on to a single chunk; of small ones there are few.
    let parts = |k, n| {
        let spec = Contraction::dot(1, [64, k, n], view(64, 1, 0), (view(2048, 1, 0), false), view(64, 1, 0));
        let all = Staging::variants(&spec, &chip).into_iter().map(|s| (s.part.k.count, s.part.n.count));
        all.collect::<Vec<_>>()
    };
    assert_eq!(parts(1024, 1024), [(8, 8), (8, 4), (4, 4), (4, 2), (2, 2), (2, 1), (1, 1)]);
    assert_eq!(parts(64, 200), [(1, 2), (1, 1)]);
}

#[test]
fn lines_merge_through_padding() {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    // A 1x1 convolution over 7 x 7 positions, lines padded to 8, four images.
    let mut spec = Contraction::dot(1, [7, 256, 256], view(224, 1, 0), (view(256, 1, 0), false), view(224, 1, 0));
    spec.rows = vec![
        Dim { count: 4, lhs: 56, rhs: 0, out: 56 },
        Dim { count: 7, lhs: 8, rhs: 0, out: 8 },
        Dim { count: 7, lhs: 1, rhs: 0, out: 1 },
    ];
    let g = Geometry::new(&spec, &chip);
    assert_eq!(g.inner.count, 3 * 56 + 6 * 8 + 7);
    assert_eq!(g.blocks.dims, [Dim { count: 28, lhs: 8, rhs: 0, out: 8 }]);
    assert!(!g.masked);
}

#[test]
fn shared_rhs_makes_batches_rows() {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let spec = Contraction::dot(3, [20, 64, 64], view(96, 1, 24), (view(64, 1, 0), false), view(96, 1, 24));
    let g = Geometry::new(&spec, &chip);
    assert_eq!((g.batch.dims.len(), g.inner.count, g.masked), (0, 68, false));
    let spec = Contraction::dot(3, [1, 64, 64], view(32, 1, 1), (view(96, 1, 64), false), view(32, 1, 1));
    let g = Geometry::new(&spec, &chip);
    assert_eq!((g.batch.dims.len(), g.inner.count, g.masked), (1, 1, true));
}
