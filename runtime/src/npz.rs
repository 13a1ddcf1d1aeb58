//! Array files: `.npz` with `NAME` or, for types that NumPy lacks, `NAME:TYPE` with same-width unsigned integers.

use crate::{Array, RuntimeError};
use npyz::DType as NpyType;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use systole_isa::DType;

fn request(path: &str, what: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::Request(format!("{path}: {what}"))
}

/// Reads all arrays of a file.
///
/// # Errors
/// A file that cannot be read, or types that no HLO type matches.
pub fn read(path: &str) -> Result<BTreeMap<String, Array>, RuntimeError> {
    read_some(path, &|_| true)
}

/// Reads the arrays whose names `wanted` takes (without the element type); nothing is unpacked of others.
///
/// # Errors
/// As [`read`].
pub fn read_some(path: &str, wanted: &dyn Fn(&str) -> bool) -> Result<BTreeMap<String, Array>, RuntimeError> {
    let file = std::fs::File::open(path).map_err(|e| request(path, e))?;
    read_from(std::io::BufReader::new(file), path, wanted)
}

/// [`read_some`] of anything; `path` is what messages call it.
///
/// # Errors
/// As [`read`].
pub fn read_from(
    file: impl Read + std::io::Seek,
    path: &str,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<BTreeMap<String, Array>, RuntimeError> {
    let no_archive = |e| request(path, format!("no archive of arrays, as `numpy.savez` writes one (.npz): {e}"));
    let mut zip = zip::ZipArchive::new(file).map_err(no_archive)?;
    let mut out = BTreeMap::new();
    for i in 0..zip.len() {
        let mut file = zip.by_index(i).map_err(|e| request(path, e))?;
        let name = file.name().trim_end_matches(".npy").to_string();
        if !wanted(name.split_once(':').map_or(&name[..], |n| n.0)) {
            continue;
        }
        let (base, array) = array(&name, &mut file).map_err(|e| request(path, format!("array `{name}`: {e}")))?;
        out.insert(base, array);
    }
    Ok(out)
}

/// Bytes of the longest header that is read.
const HEADER: u64 = 1 << 16;

/// The header in front of an array's elements. Its text is a Python dictionary of a type's name, an order and a shape; one that nests
/// deeper is refused before it is parsed, since the parser's time grows exponentially with the depth.
fn header(reader: &mut impl Read) -> Result<npyz::NpyHeader, String> {
    let mut bytes = Vec::new();
    let mut more = |bytes: &mut Vec<u8>, n: u64| {
        let had = bytes.len() as u64;
        Read::take(&mut *reader, n).read_to_end(bytes).map_err(|e| e.to_string())?;
        if bytes.len() as u64 == had + n { Ok(()) } else { Err("it ends within its header".to_string()) }
    };
    more(&mut bytes, 10)?;
    if !bytes.starts_with(b"\x93NUMPY") {
        return Err("it is no .npy file".into());
    }
    let mut length = u64::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    if bytes[6] > 1 {
        more(&mut bytes, 2)?;
        length |= u64::from(u16::from_le_bytes([bytes[10], bytes[11]])) << 16;
    }
    if length > HEADER {
        return Err(format!("a header of {length} bytes: at most {HEADER} are read"));
    }
    let start = bytes.len();
    more(&mut bytes, length)?;
    let count = |c: u8| bytes[start..].iter().filter(|b| **b == c).count();
    if count(b'[') > 0 {
        return Err("structured types are not arrays of HLO".into());
    }
    if count(b'{') > 1 || count(b'(') > 1 {
        return Err("its header is no dictionary of a type, an order and a shape".into());
    }
    npyz::NpyHeader::from_reader(&mut &bytes[..]).map_err(|e| e.to_string())
}

fn array(name: &str, mut reader: impl Read) -> Result<(String, Array), String> {
    let header = header(&mut reader)?;
    let dims = header.shape().to_vec();
    let fortran = header.order() == npyz::Order::Fortran && dims.len() > 1;
    let NpyType::Plain(t) = header.dtype() else { return Err("structured types are not arrays of HLO".into()) };
    let text = t.to_string();
    let (base, dtype) = match name.split_once(':') {
        Some((base, t)) => (base, DType::from_name(t).ok_or_else(|| format!("unknown element type `{t}`"))?),
        None => (name, numpy_type(&text).ok_or_else(|| format!("element type {text} has no HLO type"))?),
    };
    let big = text.starts_with('>');
    let size = dtype.host_bytes();
    let n = dims.iter().try_fold(1u64, |a, &d| a.checked_mul(d)).ok_or("too many elements")?;
    let bytes = n.checked_mul(size as u64).filter(|&b| b < 1 << 40).ok_or("too many elements")?;
    crate::memory::require(bytes, "it").map_err(|e| e.to_string())?;
    let mut data = Vec::new();
    reader.take(bytes).read_to_end(&mut data).map_err(|e| e.to_string())?;
    if data.len() as u64 != bytes {
        return Err(format!("{} bytes of data where {bytes} are due", data.len()));
    }
    if big {
        data.chunks_exact_mut(if dtype.is_complex() { size / 2 } else { size }).for_each(<[u8]>::reverse);
    }
    if fortran {
        data = from_fortran(&data, &dims, size);
    }
    Ok((base.to_string(), Array { dtype, dims, bytes: data }))
}

/// Column-major to row-major.
fn from_fortran(data: &[u8], dims: &[u64], size: usize) -> Vec<u8> {
    let n = dims.iter().product::<u64>() as usize;
    let mut out = vec![0; n * size];
    for i in 0..n {
        let (mut rest, mut at, mut stride) = (i as u64, 0, 1);
        let mut index = vec![0; dims.len()];
        for d in (0..dims.len()).rev() {
            index[d] = rest % dims[d];
            rest /= dims[d];
        }
        for d in 0..dims.len() {
            at += index[d] * stride;
            stride *= dims[d];
        }
        out[i * size..(i + 1) * size].copy_from_slice(&data[at as usize * size..(at as usize + 1) * size]);
    }
    out
}

/// NumPy's type strings, and the element types that they are.
const TYPES: [(&str, DType); 14] = [
    ("|b1", DType::Pred),
    ("|i1", DType::S8),
    ("<i2", DType::S16),
    ("<i4", DType::S32),
    ("<i8", DType::S64),
    ("|u1", DType::U8),
    ("<u2", DType::U16),
    ("<u4", DType::U32),
    ("<u8", DType::U64),
    ("<f2", DType::F16),
    ("<f4", DType::F32),
    ("<f8", DType::F64),
    ("<c8", DType::C64),
    ("<c16", DType::C128),
];

/// The element type of a type string in any order of bytes.
fn numpy_type(text: &str) -> Option<DType> {
    let text = text.trim_start_matches(['<', '>', '|', '=']);
    TYPES.iter().find(|t| t.0[1..] == *text).map(|t| t.1)
}

/// The NumPy type string of an element type, and whether the array's name must carry the HLO type: of those that NumPy lacks,
/// which are numbers of as many bytes.
fn type_string(dtype: DType) -> (&'static str, bool) {
    match TYPES.iter().find(|t| t.1 == dtype) {
        Some(t) => (t.0, false),
        None if dtype.host_bytes() == 1 => ("|u1", true),
        None => ("<u2", true),
    }
}

/// Writes arrays to a file. Its bytes depend on the arrays alone.
///
/// # Errors
/// A file that cannot be written.
pub fn write(path: &str, arrays: &[(String, &Array)]) -> Result<(), RuntimeError> {
    write_each(path, |file| arrays.iter().try_for_each(|(name, a)| file.add(name, a)))
}

/// Writes a file array by array, so that not all of them need be there at once. Its bytes depend on the arrays alone.
///
/// # Errors
/// A file that cannot be written, and what `fill` fails with.
pub fn write_each(
    path: &str,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    crate::files::write_by(path, |out| {
        let mut file = Writer { zip: zip::ZipWriter::new(Once { out, failed: false }) };
        fill(&mut file).map_err(std::io::Error::other)?;
        file.zip.finish().map(drop).map_err(std::io::Error::other)
    })
}

/// A file that arrays are written to one after the other.
pub struct Writer<'f> {
    zip: zip::ZipWriter<Once<'f>>,
}

/// A file that fails once: an archive that is given up is closed all the same, and would say so on the error stream.
struct Once<'f> {
    out: &'f mut std::io::BufWriter<std::fs::File>,
    failed: bool,
}

impl Once<'_> {
    fn attempt<T>(
        &mut self,
        otherwise: T,
        f: impl FnOnce(&mut std::io::BufWriter<std::fs::File>) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        if self.failed {
            return Ok(otherwise);
        }
        let done = f(self.out);
        self.failed = done.is_err();
        done
    }
}

impl std::io::Write for Once<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.attempt(bytes.len(), |out| out.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.attempt((), std::io::Write::flush)
    }
}

impl std::io::Seek for Once<'_> {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.attempt(0, |out| out.seek(to))
    }
}

impl Writer<'_> {
    /// Appends an array.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, name: &str, a: &Array) -> Result<(), RuntimeError> {
        let options = zip::write::FileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            .last_modified_time(zip::DateTime::default())
            .large_file(a.bytes.len() > 1 << 31);
        let (t, named) = type_string(a.dtype);
        let file = if named { format!("{name}:{}.npy", a.dtype) } else { format!("{name}.npy") };
        self.zip.start_file(file, options).map_err(|e| request(name, e))?;
        self.zip.write_all(&npy_header(t, &a.dims)).map_err(|e| request(name, e))?;
        self.zip.write_all(&a.bytes).map_err(|e| request(name, e))
    }
}

/// The header of format version 1.0: magic, version, length, a Python dictionary padded to 64 bytes.
fn npy_header(t: &str, dims: &[u64]) -> Vec<u8> {
    let mut shape: String = dims.iter().map(|d| format!("{d}, ")).collect();
    if dims.len() > 1 {
        shape.truncate(shape.len() - 2);
    } else {
        shape = shape.trim_end().to_string();
    }
    let mut dict = format!("{{'descr': '{t}', 'fortran_order': False, 'shape': ({shape}), }}");
    while (10 + dict.len() + 1) % 64 != 0 {
        dict.push(' ');
    }
    dict.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend_from_slice(&(dict.len() as u16).to_le_bytes());
    out.extend_from_slice(dict.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use crate::{Array, generate};
    use systole_isa::DType;

    #[test]
    fn arrays_come_back() {
        let path = std::env::temp_dir().join(format!("systole-npz-{}.npz", std::process::id()));
        let path = path.to_str().expect("temporary paths are text");
        let types = [DType::Pred, DType::S8, DType::U64, DType::BF16, DType::F32, DType::C64, DType::F8E5M2];
        let arrays: Vec<(String, Array)> = types
            .iter()
            .enumerate()
            .map(|(i, &t)| (format!("arg{i}"), generate::input(7, i as u64, t, [[].as_slice(), &[5], &[2, 3]][i % 3])))
            .collect();
        let refs: Vec<(String, &Array)> = arrays.iter().map(|(n, a)| (n.clone(), a)).collect();
        super::write(path, &refs).unwrap();
        // No clock: the date of members is the first that the format can say.
        let mut zip = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
        assert_eq!(zip.by_index(0).unwrap().last_modified().year(), 1980);
        let back = super::read(path).unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(back.into_iter().collect::<Vec<_>>(), arrays);
    }

    /// The message for a file with one array whose header has that text.
    fn refused(text: &str) -> String {
        let mut npy = b"\x93NUMPY\x01\x00".to_vec();
        npy.extend((text.len() as u16).to_le_bytes());
        npy.extend(text.as_bytes());
        super::array("x", &npy[..]).map(|_| ()).unwrap_err()
    }

    #[test]
    fn headers_that_nest_are_refused_before_they_are_parsed() {
        let open = "{".repeat(200);
        assert!(refused(&open).contains("no dictionary"), "{}", refused(&open));
        assert!(refused(&"(".repeat(200)).contains("no dictionary"));
        assert!(refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }").contains("structured"));
        assert!(
            refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }").contains("0 bytes of data where 8")
        );
    }

    #[test]
    fn headers_that_end_early_say_so() {
        let check = |bytes: &[u8], want: &str| {
            let message = super::array("x", bytes).map(|_| ()).unwrap_err();
            assert!(message.contains(want), "{message}");
        };
        check(b"\x93NUMPY\x01\x00\xff\x00{", "ends within");
        check(b"PK", "ends within");
        check(b"0123456789", "no .npy file");
        check(b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "at most");
    }
}
