//! Host arrays.

use systole_isa::DType;

/// An array on the host: elements in row-major order, little-endian, [`DType::host_bytes`] each.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub dtype: DType,
    pub dims: Vec<u64>,
    pub bytes: Vec<u8>,
}

impl Array {
    /// An array of its bytes.
    ///
    /// # Panics
    /// If the number of bytes is not the shape's.
    pub fn new(dtype: DType, dims: &[u64], bytes: Vec<u8>) -> Array {
        let n = dims.iter().product::<u64>() as usize;
        assert_eq!(bytes.len(), n * dtype.host_bytes(), "array size");
        Array { dtype, dims: dims.to_vec(), bytes }
    }

    /// An f32 array.
    pub fn from_f32(dims: &[u64], values: &[f32]) -> Array {
        Array::new(DType::F32, dims, values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    /// An s32 array.
    pub fn from_s32(dims: &[u64], values: &[i32]) -> Array {
        Array::new(DType::S32, dims, values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    /// The elements of an f32 array (bf16 and f16 are widened).
    ///
    /// # Panics
    /// For other element types.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "the caller asks for floats; anything else is its bug, said in the panic"
    )]
    pub fn to_f32(&self) -> Vec<f32> {
        let pairs = || self.bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        match self.dtype {
            DType::F32 => self.bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
            DType::BF16 => pairs().map(|b| half::bf16::from_bits(b).to_f32()).collect(),
            DType::F16 => pairs().map(|b| half::f16::from_bits(b).to_f32()).collect(),
            t => panic!("a {t} array has no f32 elements"),
        }
    }

    /// Shape in HLO's notation.
    pub fn shape(&self) -> String {
        let dims: Vec<String> = self.dims.iter().map(u64::to_string).collect();
        format!("{}[{}]", self.dtype, dims.join(","))
    }
}
