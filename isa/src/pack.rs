//! Host arrays to and from the chip's layout.

use crate::layout::Layout;

impl Layout {
    /// Calls `f(host element, component, device byte)` with the first host element index, device byte offset and length of
    /// every run of elements along the minor-most dimension that lies in one element row.
    fn for_each_run(&self, mut f: impl FnMut(u64, u64, u64, u64)) {
        let n = self.dims.len();
        if self.dims.contains(&0) {
            return;
        }
        // Host strides (elements, row-major logical order).
        let mut host = vec![1u64; n];
        for d in (0..n.saturating_sub(1)).rev() {
            host[d] = host[d + 1] * self.dims[d + 1];
        }
        let minor = self.minor_to_major.first().map(|&d| d as usize);
        let rows = self.row_strides();
        let columns = self.columns();
        let step = minor.map_or(1, |d| host[d]);
        let lanes = self.lanes as u64;
        let mut index = vec![0u64; n];
        loop {
            let mut row = 0;
            let mut element = 0;
            for d in 0..n {
                row += rows[d] * index[d];
                element += host[d] * index[d];
            }
            let mut c = 0;
            while c < columns {
                let run = (columns - c).min(lanes);
                f(element + c * step, self.byte_offset(row + c / lanes * self.plane_rows(), 0), run, step);
                c += run;
            }
            let mut d = n;
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                if Some(d) == minor {
                    continue;
                }
                index[d] += 1;
                if index[d] < self.dims[d] {
                    break;
                }
                index[d] = 0;
            }
        }
    }

    /// The array in chip memory, from a host array in row-major logical order ([`DType::host_bytes`] each). Padding is
    /// zero.
    ///
    /// # Panics
    /// If `host` does not have the array's size.
    ///
    /// [`DType::host_bytes`]: crate::DType::host_bytes
    pub fn to_device(&self, host: &[u8]) -> Vec<u8> {
        let size = self.dtype.host_bytes();
        assert_eq!(host.len() as u64, self.dims.iter().product::<u64>() * size as u64, "host array size");
        let mut out = vec![0u8; self.bytes() as usize];
        let width = (self.dtype.storage_bits() / 8) as usize;
        let component = self.component_bytes() as usize;
        self.for_each_run(|element, at, run, step| {
            let (element, at) = (element as usize, at as usize);
            if width == 4 && size == 4 && step == 1 {
                out[at..at + run as usize * 4].copy_from_slice(&host[element * 4..(element + run as usize) * 4]);
                return;
            }
            for i in 0..run as usize {
                let from = (element + i * step as usize) * size;
                for c in 0..self.dtype.components() {
                    let to = at + i * 4 + c * component;
                    out[to..to + width].copy_from_slice(&host[from + c * 4..from + c * 4 + width]);
                }
            }
        });
        out
    }

    /// The host array (row-major logical order) from the array in chip memory.
    ///
    /// # Panics
    /// If `device` is shorter than [`Layout::bytes`].
    pub fn to_host(&self, device: &[u8]) -> Vec<u8> {
        let size = self.dtype.host_bytes();
        let mut out = vec![0u8; self.dims.iter().product::<u64>() as usize * size];
        let width = (self.dtype.storage_bits() / 8) as usize;
        let component = self.component_bytes() as usize;
        self.for_each_run(|element, at, run, step| {
            let (element, at) = (element as usize, at as usize);
            if width == 4 && size == 4 && step == 1 {
                out[element * 4..(element + run as usize) * 4].copy_from_slice(&device[at..at + run as usize * 4]);
                return;
            }
            for i in 0..run as usize {
                let to = (element + i * step as usize) * size;
                for c in 0..self.dtype.components() {
                    let from = at + i * 4 + c * component;
                    out[to + c * 4..to + c * 4 + width].copy_from_slice(&device[from..from + width]);
                }
            }
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use crate::{DType, Layout};

    #[test]
    fn host_to_device_and_back() {
        let all = [DType::Pred, DType::S8, DType::BF16, DType::F32, DType::S64, DType::C64, DType::C128];
        for dtype in all {
            for dims in [&[][..], &[5], &[300], &[3, 5], &[1, 7], &[2, 9, 20], &[2, 3, 5, 17], &[4, 0, 3], &[3, 1, 5]] {
                for reverse in [false, true] {
                    let m2m: Vec<u8> =
                        if reverse { (0..dims.len() as u8).collect() } else { (0..dims.len() as u8).rev().collect() };
                    let l = Layout::new(dtype, dims, &m2m, 4, 8);
                    let n = dims.iter().product::<u64>() as usize * dtype.host_bytes();
                    let host: Vec<u8> = (0..n).map(|i| (i * 7 + i / 251) as u8).collect();
                    let device = l.to_device(&host);
                    assert_eq!(l.to_host(&device), host, "{dtype} {dims:?} {m2m:?}");
                    if !dims.is_empty() && n > 0 {
                        let index: Vec<u64> = dims.iter().map(|d| d - 1).collect();
                        let (row, lane) = l.locate(&index);
                        let at = l.byte_offset(row, lane) as usize;
                        assert_eq!(device[at], host[n - dtype.host_bytes()], "last element of {dtype} {dims:?}");
                    }
                }
            }
        }
    }
}
