//! Shapes and literals.

use super::wire::{Damage, Message, Read};
use systole_hlo::graph::{ArrayShape, Literal, Shape};
use systole_isa::DType;

/// `PrimitiveType` numbers of arrays.
const TYPES: [(i64, DType); 28] = [
    (1, DType::Pred),
    (26, DType::S2),
    (27, DType::U2),
    (21, DType::S4),
    (2, DType::S8),
    (3, DType::S16),
    (4, DType::S32),
    (5, DType::S64),
    (22, DType::U4),
    (6, DType::U8),
    (7, DType::U16),
    (8, DType::U32),
    (9, DType::U64),
    (10, DType::F16),
    (11, DType::F32),
    (12, DType::F64),
    (16, DType::BF16),
    (19, DType::F8E5M2),
    (28, DType::F8E4M3),
    (20, DType::F8E4M3FN),
    (23, DType::F8E4M3B11FNUZ),
    (29, DType::F8E3M4),
    (32, DType::F4E2M1FN),
    (33, DType::F8E8M0FNU),
    (24, DType::F8E5M2FNUZ),
    (25, DType::F8E4M3FNUZ),
    (15, DType::C64),
    (18, DType::C128),
];
const TUPLE: i64 = 13;
const TOKEN: i64 = 17;

fn damage<T>(m: &Message<'_>, what: impl Into<String>) -> Read<T> {
    Err(Damage { at: m.at, what: what.into() })
}

/// A `ShapeProto`.
pub fn shape(m: &Message<'_>) -> Read<Shape> {
    match m.int(2)? {
        TUPLE => {
            let parts: Read<Vec<Shape>> = m.messages(4)?.iter().map(shape).collect();
            Ok(Shape::Tuple(parts?))
        }
        TOKEN => Ok(Shape::Token),
        number => {
            let Some(&(_, dtype)) = TYPES.iter().find(|t| t.0 == number) else {
                return damage(m, format!("element type number {number} is not supported"));
            };
            let dims: Option<Vec<u64>> = m.ints(3)?.into_iter().map(|d| u64::try_from(d).ok()).collect();
            let Some(dims) = dims else { return damage(m, "a dimension is negative") };
            let dynamic = m.ints(6)?.into_iter().map(|d| d != 0).collect::<Vec<bool>>();
            let Shape::Array(mut array) = Shape::array(dtype, &dims) else { return damage(m, "no array") };
            if dynamic.contains(&true) {
                array.dynamic = dynamic;
            }
            array.minor_to_major = layout(m, dims.len())?;
            Ok(Shape::Array(array))
        }
    }
}

/// The dimension order of a shape, most minor first, if one is given.
fn layout(m: &Message<'_>, rank: usize) -> Read<Option<Vec<u8>>> {
    let Some(layout) = m.message(5)? else { return Ok(None) };
    let order: Option<Vec<u8>> = layout.ints(1)?.into_iter().map(|d| u8::try_from(d).ok()).collect();
    let mut sorted = order.clone().unwrap_or_default();
    sorted.sort_unstable();
    match order {
        Some(o) if sorted.iter().map(|d| usize::from(*d)).eq(0..rank) => Ok(Some(o)),
        _ => damage(m, "a layout does not list every dimension once"),
    }
}

/// A `LiteralProto` of an array.
pub fn literal(m: &Message<'_>) -> Read<Literal> {
    let Some(Shape::Array(array)) = m.message(1)?.map(|s| shape(&s)).transpose()? else {
        return damage(m, "a literal that is no array");
    };
    let elements = array.dims.iter().try_fold(1u64, |n, d| n.checked_mul(*d));
    let size = array.dtype.host_bytes();
    let bytes = elements.and_then(|n| n.checked_mul(size as u64)).and_then(|n| usize::try_from(n).ok());
    let data = data(m, array.dtype, elements.unwrap_or(u64::MAX))?;
    if bytes != Some(data.len()) {
        let have = data.len() / size;
        return damage(m, format!("a literal of shape {} has {have} elements", Shape::Array(array)));
    }
    Ok(Literal::new(array.dtype, &array.dims, row_major(&array, data, size)))
}

/// Elements as host bytes, in the literal's own order.
fn data(m: &Message<'_>, dtype: DType, elements: u64) -> Read<Vec<u8>> {
    let narrow = |number: u32, width: usize| -> Read<Vec<u8>> {
        Ok(m.ints(number)?.iter().flat_map(|v| v.to_le_bytes()[..width].to_vec()).collect())
    };
    let plain = |number: u32| m.bytes(number).map(<[u8]>::to_vec);
    match dtype {
        DType::Pred => narrow(2, 1),
        DType::S32 => narrow(4, 4),
        DType::S64 => narrow(5, 8),
        DType::U32 => narrow(6, 4),
        DType::U64 => narrow(7, 8),
        DType::F32 => Ok(m.fixed(8)),
        DType::F64 => Ok(m.fixed(9)),
        DType::C64 => Ok(m.fixed(12)),
        DType::C128 => Ok(m.fixed(18)),
        DType::S4 => m.bytes(21).map(|b| small(b, elements, dtype)),
        DType::U4 => m.bytes(22).map(|b| small(b, elements, dtype)),
        DType::S2 => m.bytes(26).map(|b| small(b, elements, dtype)),
        DType::U2 => m.bytes(27).map(|b| small(b, elements, dtype)),
        DType::S8 => plain(15),
        DType::U8 => plain(3),
        DType::S16 => plain(17),
        DType::U16 => plain(16),
        DType::F16 => plain(11),
        DType::BF16 => plain(13),
        // Their fields have their types' numbers. Those of fewer bits than a byte have one each too.
        f8 @ (DType::F8E4M3FN
        | DType::F8E5M2
        | DType::F8E4M3
        | DType::F8E4M3B11FNUZ
        | DType::F8E4M3FNUZ
        | DType::F8E5M2FNUZ
        | DType::F8E3M4
        | DType::F8E8M0FNU
        | DType::F4E2M1FN) => plain(TYPES.iter().find(|t| t.1 == f8).map_or(0, |t| t.0 as u32)),
    }
}

/// Elements of fewer bits than a byte: a byte each, or as many in a byte as it holds with the first in the lowest bits.
fn small(bytes: &[u8], elements: u64, dtype: DType) -> Vec<u8> {
    let bits = dtype.bits() as usize;
    let mask = (1u8 << bits) - 1;
    if bytes.len() as u64 == elements {
        return bytes.iter().map(|b| b & mask).collect();
    }
    let mut out: Vec<u8> = bytes.iter().flat_map(|b| (0..8 / bits).map(move |i| b >> (i * bits) & mask)).collect();
    if elements < out.len() as u64 && elements.div_ceil(8 / bits as u64) == bytes.len() as u64 {
        out.truncate(elements as usize);
    }
    out
}

/// Elements in row-major order from the shape's own.
fn row_major(array: &ArrayShape, data: Vec<u8>, size: usize) -> Vec<u8> {
    let order = array.layout();
    let sorted = order.windows(2).all(|w| w[0] > w[1]);
    if sorted || data.is_empty() {
        return data;
    }
    let mut strides = vec![0usize; array.dims.len()];
    let mut step = 1;
    for &d in order.iter() {
        strides[usize::from(d)] = step;
        step *= array.dims[usize::from(d)] as usize;
    }
    let mut out = Vec::with_capacity(data.len());
    for i in 0..data.len() / size {
        let (mut rest, mut at) = (i, 0);
        for d in (0..array.dims.len()).rev() {
            let n = array.dims[d] as usize;
            at += rest % n * strides[d];
            rest /= n;
        }
        out.extend(&data[at * size..(at + 1) * size]);
    }
    out
}
