//! Host arrays to and from the chip's layout, a row of words at a time: no copy of a whole array is made on the way.

use crate::layout::Layout;

/// Where elements of the host come from: the first element's row-major index, the distance between neighbours,
/// and their bytes ([`DType::host_bytes`] each).
///
/// [`DType::host_bytes`]: crate::DType::host_bytes
type Fetch<'f> = &'f mut dyn FnMut(u64, u64, &mut [u8]);
/// As [`Fetch`], the other way.
type Give<'f> = &'f mut dyn FnMut(u64, u64, &[u8]);

/// One element row of an array: elements from `element` on, `step` apart.
struct Row {
    element: u64,
    step: u64,
    count: usize,
    /// Its word row's byte in its component, and which part of the words it is.
    at: u64,
    part: usize,
}

/// How elements lie in words.
#[derive(Clone, Copy)]
struct Form {
    /// Host bytes of an element, stored bytes of a component of it.
    size: usize,
    width: usize,
    components: usize,
}

impl Form {
    /// Puts a row's elements into its words, one component of them.
    fn pack(self, host: &[u8], component: usize, part: usize, words: &mut [u8]) {
        let from = component * 4;
        match (self.width, self.size) {
            (4, 4) => words[..host.len()].copy_from_slice(host),
            (2, 2) if part == 0 => {
                let pairs = words.as_chunks_mut::<4>().0.iter_mut().zip(host.as_chunks::<2>().0);
                pairs.for_each(|(w, h)| (w[0], w[1]) = (h[0], h[1]));
            }
            (2, 2) => {
                let pairs = words.as_chunks_mut::<4>().0.iter_mut().zip(host.as_chunks::<2>().0);
                pairs.for_each(|(w, h)| (w[2], w[3]) = (h[0], h[1]));
            }
            (width, size) => {
                let at = part * width;
                for (w, h) in words.as_chunks_mut::<4>().0.iter_mut().zip(host.chunks_exact(size)) {
                    w[at..at + width].copy_from_slice(&h[from..from + width]);
                }
            }
        }
    }

    /// Takes a row's elements out of its words, one component of them.
    fn unpack(self, words: &[u8], component: usize, part: usize, host: &mut [u8]) {
        let to = component * 4;
        match (self.width, self.size) {
            (4, 4) => host.copy_from_slice(&words[..host.len()]),
            (width, size) => {
                let at = part * width;
                for (w, h) in words.as_chunks::<4>().0.iter().zip(host.chunks_exact_mut(size)) {
                    h[to..to + width].copy_from_slice(&w[at..at + width]);
                }
            }
        }
    }
}

impl Layout {
    fn form(&self) -> Form {
        Form {
            size: self.dtype.host_bytes(),
            width: (self.dtype.storage_bits() / 8) as usize,
            components: self.dtype.components(),
        }
    }

    /// Calls `f` for every element row that has elements, in the order in which they lie in a component; the rows of a
    /// word row follow one another.
    fn for_each_row(&self, mut f: impl FnMut(Row)) {
        let n = self.dims.len();
        if self.dims.contains(&0) {
            return;
        }
        // Host strides (elements, row-major logical order).
        let mut host = vec![1u64; n];
        for d in (0..n.saturating_sub(1)).rev() {
            host[d] = host[d + 1] * self.dims[d + 1];
        }
        let order: Vec<usize> = self.minor_to_major.iter().map(|&d| d as usize).collect();
        let (columns, lanes) = (self.columns(), self.lanes as u64);
        let step = order.first().map_or(1, |&d| host[d]);
        let strides = self.row_strides();
        let packing = self.dtype.packing() as u64;
        for plane in 0..self.planes() {
            let first = plane * lanes;
            let count = (columns - first).min(lanes) as usize;
            let mut index = vec![0u64; n];
            loop {
                let row: u64 = plane * self.plane_rows() + (0..n).map(|d| strides[d] * index[d]).sum::<u64>();
                let element = first * step + (0..n).map(|d| host[d] * index[d]).sum::<u64>();
                let part = (row % packing) as usize;
                f(Row { element, step, count, at: row / packing * lanes * 4, part });
                // The next index of all dimensions but the minor-most, minor ones first.
                let Some(&d) = order.iter().skip(1).find(|&&d| {
                    index[d] = (index[d] + 1) % self.dims[d];
                    index[d] != 0
                }) else {
                    break;
                };
                debug_assert!(index[d] > 0);
            }
        }
    }

    /// Writes the array as it lies in chip memory: `fetch` gives elements, `put` takes rows of words with their byte in the
    /// array. Words between the elements of a row are zero; rows of padding alone are not written.
    pub fn pack(&self, fetch: Fetch<'_>, put: &mut dyn FnMut(u64, &[u8])) {
        let form = self.form();
        let word_row = self.lanes as usize * 4;
        let mut host = vec![0; self.lanes as usize * form.size];
        let mut words = vec![0u8; word_row * form.components];
        let mut current = None;
        let mut flush = |at: u64, words: &[u8]| {
            for (c, words) in words.chunks_exact(word_row).enumerate() {
                put(c as u64 * self.component_bytes() + at, words);
            }
        };
        self.for_each_row(|row| {
            if current != Some(row.at) {
                if let Some(at) = current {
                    flush(at, &words);
                }
                words.fill(0);
                current = Some(row.at);
            }
            let host = &mut host[..row.count * form.size];
            fetch(row.element, row.step, host);
            for (c, words) in words.chunks_exact_mut(word_row).enumerate() {
                form.pack(host, c, row.part, words);
            }
        });
        if let Some(at) = current {
            flush(at, &words);
        }
    }

    /// Reads the array as it lies in chip memory: `get` gives words by their byte in the array, `give` takes elements.
    pub fn unpack(&self, get: &mut dyn FnMut(u64, &mut [u8]), give: Give<'_>) {
        let form = self.form();
        let word_row = self.lanes as usize * 4;
        let mut host = vec![0; self.lanes as usize * form.size];
        let mut words = vec![0u8; word_row * form.components];
        let mut current = None;
        self.for_each_row(|row| {
            if current != Some(row.at) {
                for (c, words) in words.chunks_exact_mut(word_row).enumerate() {
                    get(c as u64 * self.component_bytes() + row.at, words);
                }
                current = Some(row.at);
            }
            let host = &mut host[..row.count * form.size];
            for (c, words) in words.chunks_exact(word_row).enumerate() {
                form.unpack(words, c, row.part, host);
            }
            give(row.element, row.step, host);
        });
    }

    /// [`Layout::pack`] from a host array in row-major logical order.
    ///
    /// # Panics
    /// If `host` does not have the array's size.
    pub fn pack_host(&self, host: &[u8], put: &mut dyn FnMut(u64, &[u8])) {
        let size = self.dtype.host_bytes();
        assert_eq!(host.len() as u64, self.dims.iter().product::<u64>() * size as u64, "host array size");
        let mut fetch = |element: u64, step: u64, out: &mut [u8]| {
            let from = &host[element as usize * size..];
            match step {
                1 => out.copy_from_slice(&from[..out.len()]),
                _ => out
                    .chunks_exact_mut(size)
                    .zip(from.chunks(size * step as usize))
                    .for_each(|(o, f)| o.copy_from_slice(&f[..size])),
            }
        };
        self.pack(&mut fetch, put);
    }

    /// [`Layout::unpack`] to a host array in row-major logical order.
    pub fn unpack_host(&self, get: &mut dyn FnMut(u64, &mut [u8])) -> Vec<u8> {
        let size = self.dtype.host_bytes();
        let mut out = vec![0u8; self.dims.iter().product::<u64>() as usize * size];
        let mut give = |element: u64, step: u64, elements: &[u8]| {
            let to = &mut out[element as usize * size..];
            match step {
                1 => to[..elements.len()].copy_from_slice(elements),
                _ => to
                    .chunks_mut(size * step as usize)
                    .zip(elements.chunks_exact(size))
                    .for_each(|(t, e)| t[..size].copy_from_slice(e)),
            }
        };
        self.unpack(get, &mut give);
        out
    }

    /// The array in chip memory, from a host array in row-major logical order ([`DType::host_bytes`] each). Padding is
    /// zero.
    ///
    /// # Panics
    /// If `host` does not have the array's size.
    ///
    /// [`DType::host_bytes`]: crate::DType::host_bytes
    pub fn to_device(&self, host: &[u8]) -> Vec<u8> {
        let mut out = vec![0u8; self.bytes() as usize];
        self.pack_host(host, &mut |at, words| out[at as usize..at as usize + words.len()].copy_from_slice(words));
        out
    }

    /// The host array (row-major logical order) from the array in chip memory.
    ///
    /// # Panics
    /// If `device` is shorter than [`Layout::bytes`].
    pub fn to_host(&self, device: &[u8]) -> Vec<u8> {
        self.unpack_host(&mut |at, words| words.copy_from_slice(&device[at as usize..at as usize + words.len()]))
    }
}
