//! Arrays of any order in memory, to and from rows one after the other.

/// Byte strides of a row-major array.
pub fn row_major(dims: &[u64], size: usize) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut step = size as i64;
    for (stride, dim) in strides.iter_mut().zip(dims).rev() {
        *stride = step;
        step = step.saturating_mul(*dim as i64);
    }
    strides
}

/// Byte strides of an array whose dimensions are ordered from the fastest.
pub fn of_layout(dims: &[u64], minor_to_major: &[i64], size: usize) -> Option<Vec<i64>> {
    let mut strides = vec![0; dims.len()];
    let mut step = size as i64;
    let mut seen = vec![false; dims.len()];
    for d in minor_to_major {
        let d = usize::try_from(*d).ok().filter(|d| *d < dims.len())?;
        if std::mem::replace(&mut seen[d], true) {
            return None;
        }
        strides[d] = step;
        step = step.checked_mul(dims[d] as i64)?;
    }
    seen.iter().all(|s| *s).then_some(strides)
}

/// The offset of every element in row-major order; `f` gets the element's number and its offset in bytes.
pub fn each(dims: &[u64], strides: &[i64], mut f: impl FnMut(usize, i64)) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0u64; dims.len()];
    let (mut offset, mut n) = (0i64, 0);
    loop {
        f(n, offset);
        n += 1;
        // The last dimension that is not at its end goes on; those behind it begin again.
        let goes_on = (0..dims.len()).rev().any(|d| {
            index[d] += 1;
            offset += strides[d];
            if index[d] == dims[d] {
                offset -= strides[d] * dims[d] as i64;
                index[d] = 0;
            }
            index[d] > 0
        });
        if !goes_on {
            return;
        }
    }
}

/// The first and one past the last byte, counted from the first element, that the elements take.
pub fn extent(dims: &[u64], strides: &[i64], size: usize) -> Option<(i64, i64)> {
    if dims.contains(&0) {
        return Some((0, 0));
    }
    let (mut low, mut high) = (0i64, size as i64);
    for (d, s) in dims.iter().zip(strides) {
        let reach = i64::try_from(d - 1).ok()?.checked_mul(*s)?;
        if reach < 0 {
            low = low.checked_add(reach)?;
        } else {
            high = high.checked_add(reach)?;
        }
    }
    Some((low, high))
}
