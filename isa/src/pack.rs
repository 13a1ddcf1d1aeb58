//! Host arrays to and from the chip's layout, a row of words at a time: no copy of a whole array is made on the way.

use crate::layout::Layout;
use std::ops::Range;

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

/// The element rows of an array, in the order in which they lie in a component.
struct Rows<'l> {
    layout: &'l Layout,
    order: Vec<usize>,
    /// Elements between neighbours of each dimension, row-major.
    host: Vec<u64>,
    /// Rows between neighbours of each dimension.
    strides: Vec<u64>,
    count: u64,
}

impl<'l> Rows<'l> {
    fn new(layout: &'l Layout) -> Rows<'l> {
        let dims = &layout.dims;
        let n = dims.len();
        let mut host = vec![1u64; n];
        for d in (0..n.saturating_sub(1)).rev() {
            host[d] = host[d + 1] * dims[d + 1];
        }
        let order: Vec<usize> = layout.minor_to_major.iter().map(|&d| d as usize).collect();
        let count = match dims.contains(&0) {
            true => 0,
            false => layout.planes() * order.iter().skip(1).map(|&d| dims[d]).product::<u64>(),
        };
        Rows { layout, order, host, strides: layout.row_strides(), count }
    }

    /// The plane of a row, and its index in every dimension but the minor-most.
    fn place(&self, mut number: u64) -> (u64, Vec<u64>) {
        let mut index = vec![0u64; self.host.len()];
        for &d in self.order.iter().skip(1) {
            index[d] = number % self.layout.dims[d];
            number /= self.layout.dims[d];
        }
        (number, index)
    }

    fn row(&self, plane: u64, index: &[u64]) -> Row {
        let l = self.layout;
        let (lanes, packing) = (l.lanes as u64, l.dtype.packing() as u64);
        let first = plane * lanes;
        let step = self.order.first().map_or(1, |&d| self.host[d]);
        let sum = |of: &[u64]| of.iter().zip(index).map(|(a, i)| a * i).sum::<u64>();
        let row = plane * l.plane_rows() + sum(&self.strides);
        Row {
            element: first * step + sum(&self.host),
            step,
            count: (l.columns() - first).min(lanes) as usize,
            at: row / packing * lanes * 4,
            part: (row % packing) as usize,
        }
    }

    /// Rows with words in bytes `begin..end` of a component.
    fn within(&self, begin: u64, end: u64) -> Range<u64> {
        let word_row = self.layout.lanes as u64 * 4;
        let first = |reaches: &dyn Fn(u64) -> bool| {
            let (mut low, mut high) = (0, self.count);
            while low < high {
                let middle = (low + high) / 2;
                let (plane, index) = self.place(middle);
                match reaches(self.row(plane, &index).at) {
                    true => high = middle,
                    false => low = middle + 1,
                }
            }
            low
        };
        first(&|at| at + word_row > begin)..first(&|at| at >= end)
    }

    /// Calls `f` for rows by their numbers; the rows of a word row follow one another.
    fn for_each(&self, range: Range<u64>, mut f: impl FnMut(Row)) {
        if range.is_empty() {
            return;
        }
        let (mut plane, mut index) = self.place(range.start);
        for _ in range {
            f(self.row(plane, &index));
            // The next index of all dimensions but the minor-most, minor ones first.
            let carried = self.order.iter().skip(1).all(|&d| {
                index[d] = (index[d] + 1) % self.layout.dims[d];
                index[d] == 0
            });
            plane += u64::from(carried);
        }
    }
}

impl Form {
    /// Whether an element is a word, as on the host.
    fn is_plain(self) -> bool {
        (self.width, self.size) == (4, 4)
    }

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

    /// Writes that part of the array as it lies in chip memory which is `out`, from byte `from` on: `fetch` gives elements. Words
    /// between the elements of a row are zero; rows of padding alone are left as they are.
    pub fn pack_into(&self, fetch: Fetch<'_>, from: u64, out: &mut [u8]) {
        let form = self.form();
        let rows = Rows::new(self);
        let word_row = self.lanes as usize * 4;
        let mut host = vec![0; self.lanes as usize * form.size];
        let mut edge = vec![0u8; word_row];
        let end = from + out.len() as u64;
        for c in 0..form.components {
            let base = c as u64 * self.component_bytes();
            let (begin, stop) = (from.saturating_sub(base), end.saturating_sub(base).min(self.component_bytes()));
            let Some(range) = (begin < stop).then(|| rows.within(begin, stop)) else { continue };
            let mut current = None;
            rows.for_each(range, |row| {
                let whole = row.at >= begin && row.at + word_row as u64 <= stop;
                let words = match whole {
                    true => &mut out[(base + row.at - from) as usize..][..word_row],
                    false => &mut edge[..],
                };
                let new = current.replace(row.at) != Some(row.at);
                if form.is_plain() {
                    let (elements, rest) = words.split_at_mut(row.count * 4);
                    fetch(row.element, row.step, elements);
                    rest.fill(0);
                } else {
                    if new {
                        words.fill(0);
                    }
                    let host = &mut host[..row.count * form.size];
                    fetch(row.element, row.step, host);
                    form.pack(host, c, row.part, words);
                }
                if !whole {
                    // Some of its bytes are another part's.
                    let (first, last) = (row.at.max(begin), (row.at + word_row as u64).min(stop));
                    let part = &edge[(first - row.at) as usize..(last - row.at) as usize];
                    out[(base + first - from) as usize..][..part.len()].copy_from_slice(part);
                }
            });
        }
    }

    /// Reads the array as it lies in chip memory: `get` gives words by their byte in the array, `give` takes elements.
    pub fn unpack(&self, get: &mut dyn FnMut(u64, &mut [u8]), give: Give<'_>) {
        let form = self.form();
        let word_row = self.lanes as usize * 4;
        let mut host = vec![0; self.lanes as usize * form.size];
        let mut words = vec![0u8; word_row * form.components];
        let mut current = None;
        let rows = Rows::new(self);
        rows.for_each(0..rows.count, |row| {
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

    /// [`Layout::pack_into`] from a host array in row-major logical order.
    ///
    /// # Panics
    /// If `host` does not have the array's size.
    pub fn pack_host(&self, host: &[u8], from: u64, out: &mut [u8]) {
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
        self.pack_into(&mut fetch, from, out);
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
        self.pack_host(host, 0, &mut out);
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
