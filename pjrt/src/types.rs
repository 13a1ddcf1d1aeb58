//! Element types of the interface.

use systole_isa::DType;

/// Numbers of `PJRT_Buffer_Type` by element type.
#[rustfmt::skip]
const TYPES: [(u32, DType); 28] = [
    (1, DType::Pred), (2, DType::S8), (3, DType::S16), (4, DType::S32), (5, DType::S64),
    (6, DType::U8), (7, DType::U16), (8, DType::U32), (9, DType::U64),
    (10, DType::F16), (11, DType::F32), (12, DType::F64), (13, DType::BF16), (14, DType::C64), (15, DType::C128),
    (16, DType::F8E5M2), (17, DType::F8E4M3FN), (18, DType::F8E4M3B11FNUZ), (19, DType::F8E5M2FNUZ),
    (20, DType::F8E4M3FNUZ), (21, DType::S4), (22, DType::U4), (24, DType::S2), (25, DType::U2), (26, DType::F8E4M3), (27, DType::F8E3M4),
    (28, DType::F8E8M0FNU), (29, DType::F4E2M1FN),
];

pub fn from_number(n: u32) -> Option<DType> {
    TYPES.iter().find(|t| t.0 == n).map(|t| t.1)
}

pub fn to_number(dtype: DType) -> u32 {
    TYPES.iter().find(|t| t.1 == dtype).map_or(0, |t| t.0)
}
