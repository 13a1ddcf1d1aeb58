//! What kernels say to the host: prints and checks are calls of host functions, whose text says what is printed and where
//! its numbers lie in the chip's memories while the call lasts.
//!
//! The text is `at|types|place|placed|message`: the first word of scalar memory, the elements' types, the line of Python,
//! `1` if the numbers go to the places `$0`, `$1`, .. of the message, the message.

use crate::Place;
use systole_isa::{DType, Layout};

/// Prints numbers, which are words of scalar memory.
pub const NUMBERS: &str = "tpu.log";
/// Prints an array in vector memory; the word of scalar memory is its first row of words.
pub const ARRAY: &str = "tpu.log_buffer";
/// Ends the run with the text as the reason.
pub const CHECK: &str = "cf.assert";

/// All names.
pub const TARGETS: [&str; 3] = [NUMBERS, ARRAY, CHECK];

/// What is printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Print {
    /// The first word of scalar memory.
    pub at: u32,
    pub what: What,
    /// The line of Python; may be empty.
    pub place: String,
    /// Whether the message has places for the numbers.
    pub placed: bool,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Words of these types, one after the other.
    Numbers(Vec<DType>),
    Array(Layout),
}

fn line(place: Option<&Place>) -> String {
    place.map_or(String::new(), |p| format!("{}:{}", p.file.rsplit('/').next().unwrap_or_default(), p.line))
}

/// The text of a print of numbers.
pub fn numbers(at: u32, types: &[DType], placed: bool, place: Option<&Place>, message: &str) -> String {
    let types: Vec<&str> = types.iter().map(|t| t.name()).collect();
    format!("{at}|{}|{}|{}|{message}", types.join(","), line(place), u8::from(placed))
}

/// The text of a print of an array, on a chip with so many sublanes and lanes.
pub fn array(
    at: u32,
    (dtype, dims): (DType, &[u64]),
    (sublanes, lanes): (u32, u32),
    place: Option<&Place>,
    message: &str,
) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("{at}|{}[{}]@{sublanes}x{lanes}|{}|0|{message}", dtype.name(), dims.join(","), line(place))
}

impl Print {
    /// Reads the text of a call.
    pub fn parse(text: &str) -> Option<Print> {
        let mut parts = text.splitn(5, '|');
        let at = parts.next()?.parse().ok()?;
        let types = parts.next()?;
        let place = parts.next()?.to_string();
        let placed = parts.next()? == "1";
        let message = parts.next()?.to_string();
        let what = match types.split_once('@') {
            Some((array, chip)) => What::Array(layout(array, chip)?),
            None => {
                let names = types.split(',').filter(|t| !t.is_empty());
                What::Numbers(names.map(DType::from_name).collect::<Option<Vec<DType>>>()?)
            }
        };
        Some(Print { at, what, place, placed, message })
    }

    /// The message with its numbers.
    pub fn with(&self, numbers: &[String]) -> String {
        if !self.placed {
            let all = numbers.join(" ");
            return [self.message.trim_end(), &all]
                .iter()
                .filter(|t| !t.is_empty())
                .copied()
                .collect::<Vec<_>>()
                .join(" ");
        }
        // From the last on, so that `$1` is not taken for the start of `$10`.
        let places = numbers.iter().enumerate().rev();
        places.fold(self.message.clone(), |m, (i, n)| m.replace(&format!("${i}"), n))
    }
}

fn layout(array: &str, chip: &str) -> Option<Layout> {
    let (dtype, dims) = array.strip_suffix(']')?.split_once('[')?;
    let dims = dims.split(',').map(|d| d.parse().ok()).collect::<Option<Vec<u64>>>()?;
    let (sublanes, lanes) = chip.split_once('x')?;
    let (sublanes, lanes) = (sublanes.parse().ok()?, lanes.parse().ok()?);
    let whole = dims.iter().try_fold(1u64, |n, d| n.checked_mul(*d)).is_some_and(|n| n < 1 << 32);
    let dtype = DType::from_name(dtype).filter(|_| whole && sublanes > 0 && lanes > 0)?;
    Some(Layout::row_major(dtype, &dims, sublanes, lanes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        let text = numbers(7, &[DType::S32, DType::F32], true, None, "step $0 | of $1");
        let p = Print::parse(&text).expect("a text");
        assert_eq!((p.at, p.placed, &p.what), (7, true, &What::Numbers(vec![DType::S32, DType::F32])));
        assert_eq!(p.with(&["3".into(), "0.5".into()]), "step 3 | of 0.5");
        let p = Print::parse(&array(1, (DType::BF16, &[16, 200]), (8, 128), None, "x ")).expect("a text");
        assert_eq!(p.what, What::Array(Layout::row_major(DType::BF16, &[16, 200], 8, 128)));
        assert_eq!(p.with(&["[1]".into()]), "x [1]");
        for wrong in ["", "x", "1|f99|||", "1|f32[4@8x128||0|", "1|f32[4]@0x128||0|"] {
            assert_eq!(Print::parse(wrong), None, "{wrong}");
        }
    }
}
