//! Literals: constant arrays as host bytes.

use std::sync::Arc;
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// A constant array: elements in row-major logical order, little-endian, [`DType::host_bytes`] each.
///
/// A splat literal (`bytes` of one element for many) is kept compact: see [`Literal::splat`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Literal {
    pub dtype: DType,
    pub dims: Vec<u64>,
    /// All elements, or one element when every element is the same.
    bytes: Arc<[u8]>,
}

impl Literal {
    /// A literal of all its elements.
    ///
    /// # Panics
    /// If `bytes` is not one or all elements long.
    pub fn new(dtype: DType, dims: &[u64], bytes: Vec<u8>) -> Literal {
        let n = dims.iter().product::<u64>() as usize;
        let size = dtype.host_bytes();
        assert!(bytes.len() == n * size || bytes.len() == size, "literal size");
        Literal { dtype, dims: dims.to_vec(), bytes: bytes.into() }
    }

    /// A literal whose elements are all the one given.
    pub fn splat(dtype: DType, dims: &[u64], element: &[u8]) -> Literal {
        Literal::new(dtype, dims, element.to_vec())
    }

    /// The same elements under other sizes (as many elements).
    pub fn reshaped(&self, dims: &[u64]) -> Literal {
        Literal { dtype: self.dtype, dims: dims.to_vec(), bytes: self.bytes.clone() }
    }

    /// The one element that all are equal to, by their bytes.
    pub fn uniform(&self) -> Option<&[u8]> {
        let size = self.dtype.host_bytes();
        if self.elements() == 0 {
            return None;
        }
        let first = &self.bytes[..size];
        self.bytes.chunks_exact(size).all(|e| e == first).then_some(first)
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product::<u64>() as usize
    }

    /// The element's bytes if all elements are known to be the same.
    pub fn as_splat(&self) -> Option<&[u8]> {
        let size = self.dtype.host_bytes();
        (self.bytes.len() == size && self.elements() > 0).then_some(&self.bytes[..])
    }

    /// Bytes of element `i` (row-major).
    pub fn element(&self, i: usize) -> &[u8] {
        let size = self.dtype.host_bytes();
        if self.bytes.len() == size { &self.bytes } else { &self.bytes[i * size..(i + 1) * size] }
    }

    /// All elements' bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size = self.dtype.host_bytes();
        let n = self.elements();
        if self.bytes.len() == n * size { self.bytes.to_vec() } else { self.bytes.repeat(n) }
    }

    /// The integer value of element `i` for `pred` and integer types.
    pub fn integer(&self, i: usize) -> Option<i64> {
        let spare = 64 - self.dtype.bits().min(64);
        let word = || {
            let mut bytes = [0; 8];
            let b = self.element(i);
            bytes[..b.len()].copy_from_slice(b);
            u64::from_le_bytes(bytes) << spare
        };
        match self.dtype.class() {
            DTypeClass::Pred => Some(self.element(i)[0].into()),
            DTypeClass::Signed => Some(word() as i64 >> spare),
            DTypeClass::Unsigned => Some((word() >> spare) as i64),
            DTypeClass::Float | DTypeClass::Complex => None,
        }
    }
}
