//! Types and attributes that bytecode holds as text: `memref<8x128xf32, #tpu.memory_space<vmem>>`.

use crate::{Attr, Element, Error, MemRef, Space, Type};
use systole_isa::DType;

/// The element type of that name.
pub fn element(name: &str) -> Option<Element> {
    Some(Element::Number(match name {
        "index" => return Some(Element::Index),
        "!tpu.dma_semaphore" | "!tpu.dma_sem" => return Some(Element::DmaSemaphore),
        "!tpu.semaphore" | "!tpu.sem" => return Some(Element::Semaphore),
        "i1" => DType::Pred,
        "i2" => DType::S2,
        "i4" => DType::S4,
        "i8" => DType::S8,
        "i16" => DType::S16,
        "i32" => DType::S32,
        "i64" => DType::S64,
        "f8E4M3FN" => DType::F8E4M3FN,
        "f8E5M2" => DType::F8E5M2,
        "f8E4M3" => DType::F8E4M3,
        "f8E4M3B11FNUZ" => DType::F8E4M3B11FNUZ,
        "f8E4M3FNUZ" => DType::F8E4M3FNUZ,
        "f8E5M2FNUZ" => DType::F8E5M2FNUZ,
        "f8E3M4" => DType::F8E3M4,
        "f8E8M0FNU" => DType::F8E8M0FNU,
        "f4E2M1FN" => DType::F4E2M1FN,
        _ => return DType::from_name(name).filter(|t| t.is_float()).map(Element::Number),
    }))
}

/// How an element type is written.
pub fn element_name(e: Element) -> String {
    match e {
        Element::Index => "index".into(),
        Element::DmaSemaphore => "!tpu.dma_semaphore".into(),
        Element::Semaphore => "!tpu.semaphore".into(),
        Element::Number(DType::Pred) => "i1".into(),
        Element::Number(t) if t.is_integer() => format!("i{}", t.bits()),
        Element::Number(t) if t.is_byte_float() => format!("f{}{}", t.bits(), t.name()[2..].to_uppercase()),
        Element::Number(t) => t.name().into(),
    }
}

/// The memory that an attribute names.
pub fn space(text: &str) -> Option<Space> {
    let name = text.split_once('<').map_or(text, |(_, rest)| rest.trim_end_matches('>'));
    Some(match name.trim() {
        "vmem" => Space::Vmem,
        "smem" => Space::Smem,
        "any" | "hbm" => Space::Hbm,
        "semaphore_mem" => Space::Semaphore,
        _ => return None,
    })
}

/// A type.
///
/// # Errors
/// A memory or an element type that is not known.
pub fn parse_type(text: &str) -> Result<Type, Error> {
    let text = text.trim();
    let unknown = || Error::new(format!("type `{text}` is not supported"));
    if let Some(inside) = inside(text, "memref<") {
        let mut parts = split_top(inside).into_iter();
        let (dims, element) = shaped(parts.next().unwrap_or_default()).ok_or_else(unknown)?;
        let mut at = None;
        for p in parts {
            at = space(p.trim()).or(at);
        }
        let Some(space) = at else { return Err(unknown()) };
        return Ok(Type::MemRef(MemRef { dims, element, space }));
    }
    if let Some(inside) = inside(text, "vector<") {
        let (dims, element) = shaped(inside).ok_or_else(unknown)?;
        let dims = dims.into_iter().collect::<Option<Vec<u64>>>().ok_or_else(unknown)?;
        return Ok(Type::Vector(dims, element));
    }
    Ok(element(text).map_or_else(|| Type::Other(text.to_string()), Type::Scalar))
}

/// An attribute of a dialect, or one that is plain text.
pub fn parse_attribute(text: &str) -> Attr {
    Attr::Text(text.trim().to_string())
}

/// Lists of numbers inside of an attribute: `[1], [0]` gives `[[1], [0]]`.
pub fn lists(text: &str) -> Vec<Vec<i64>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('[') {
        let (inside, after) = after.split_once(']').unwrap_or((after, ""));
        out.push(inside.split(',').filter_map(|n| n.trim().parse().ok()).collect());
        rest = after;
    }
    out
}

fn inside<'a>(text: &'a str, open: &str) -> Option<&'a str> {
    text.strip_prefix(open)?.strip_suffix('>')
}

/// The parts between commas that stand in no brackets.
fn split_top(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut out) = (0usize, 0, Vec::new());
    let mut last = ' ';
    for (i, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if last == '-' => {}
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                out.push(&text[from..i]);
                from = i + 1;
            }
            _ => {}
        }
        last = c;
    }
    out.push(&text[from..]);
    out
}

/// `8x128xf32`.
fn shaped(text: &str) -> Option<(Vec<Option<u64>>, Element)> {
    let mut dims = Vec::new();
    let mut rest = text.trim();
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '?').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let Some(after) = after.strip_prefix('x').filter(|_| !number.is_empty()) else { break };
        dims.push(if number == "?" { None } else { Some(number.parse().ok()?) });
        rest = after;
    }
    Some((dims, element(rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_every_kind() {
        let t = parse_type("memref<2x128x?xbf16, affine_map<(d0, d1, d2) -> (d0, d1, d2)>, #tpu.memory_space<vmem>>");
        let Ok(Type::MemRef(m)) = t else { panic!("{t:?}") };
        assert_eq!((m.dims, m.space), (vec![Some(2), Some(128), None], Space::Vmem));
        assert_eq!(m.element, Element::Number(DType::BF16));
        let t = parse_type("memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>");
        assert!(matches!(t, Ok(Type::MemRef(m)) if m.element == Element::DmaSemaphore && m.dims.is_empty()));
        assert_eq!(parse_type("vector<8x1xi1>"), Ok(Type::Vector(vec![8, 1], Element::Number(DType::Pred))));
        assert_eq!(parse_type("!tpu.float_abc"), Ok(Type::Other("!tpu.float_abc".into())));
        assert!(parse_type("memref<8xf32, #tpu.memory_space<moon>>").is_err());
        assert!(parse_type("vector<8x?xf32>").is_err());
        assert!(parse_type("vector<99999999999999999999xf32>").is_err());
    }

    #[test]
    fn numbers_in_lists() {
        assert_eq!(lists("[1], [0], [], [0, -1]"), [vec![1], vec![0], vec![], vec![0, -1]]);
        assert_eq!(lists("[1"), [vec![1]]);
    }
}
