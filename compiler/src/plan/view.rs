//! Arrays in chip memory: buffers, and views of them under other shapes.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use systole_codegen::emit::loops::spec::{Access, Index, LaneMap};
use systole_isa::{ChipConfig, DType, Layout};

/// A buffer of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BufId(pub u32);

impl BufId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How an array's elements use lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The chip's layout: the last dimension along lanes.
    Lanes,
    /// Every element fills an element row, the same in every lane: the layout of the dimensions followed by one of size 1.
    Rows,
}

/// An array under a shape: a buffer, logical sizes, and the layout of its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub buf: BufId,
    pub dims: Vec<u64>,
    pub form: Form,
    pub layout: Layout,
}

/// The layout of an array of `dims` in a form; dimensions row-major.
pub fn layout_of(dtype: DType, dims: &[u64], form: Form, chip: &ChipConfig) -> Layout {
    let (s, l) = (chip.core.sublanes, chip.core.lanes);
    match form {
        Form::Lanes => Layout::row_major(dtype, dims, s, l),
        Form::Rows => {
            let mut d = dims.to_vec();
            d.push(1);
            Layout::row_major(dtype, &d, s, l)
        }
    }
}

impl View {
    pub fn dtype(&self) -> DType {
        self.layout.dtype
    }

    /// The same memory under another shape, if the elements lie where that shape's layout would put them.
    pub fn reshaped(&self, dims: &[u64], chip: &ChipConfig) -> Option<View> {
        let layout = layout_of(self.dtype(), dims, self.form, chip);
        same_places(&self.layout, &layout).then(|| View { buf: self.buf, dims: dims.to_vec(), form: self.form, layout })
    }

    /// The access of a loop kernel whose iteration has `outer` outer dimensions, rows and columns: `map[d]` is the iteration
    /// dimension (outer dimensions, then the rows as number `outer`, then the columns as `outer + 1`) that dimension `d`
    /// follows, or `None` for dimensions of size 1.
    pub fn access(&self, map: &[Option<usize>], outer: usize) -> Access {
        let strides = self.layout.row_strides();
        let mut a = Access {
            dtype: self.dtype(),
            component_rows: self.layout.total_rows() as i64,
            outer: smallvec::smallvec![0; outer],
            row: 0,
            offset: 0,
            lane: LaneMap::Replicated,
        };
        let minor = (self.form == Form::Lanes && !self.dims.is_empty()).then(|| self.dims.len() - 1);
        for (d, &m) in map.iter().enumerate() {
            let Some(m) = m else { continue };
            if Some(d) == minor {
                continue;
            }
            if m == outer {
                a.row += strides[d] as i64;
            } else {
                a.outer[m] += strides[d] as i64;
            }
        }
        if self.form == Form::Rows {
            return a;
        }
        let plane_rows = self.layout.plane_rows() as i64;
        a.lane = match minor.and_then(|d| map[d]) {
            Some(m) if m == outer + 1 => LaneMap::Tile { tile_rows: plane_rows },
            Some(m) => {
                let mut index = Index { outer: smallvec::smallvec![0; outer], ..Index::default() };
                if m == outer {
                    index.row = 1;
                } else {
                    index.outer[m] = 1;
                }
                LaneMap::Indexed { index, plane_rows }
            }
            None => LaneMap::Indexed {
                index: Index { outer: SmallVec::from_elem(0, outer), ..Index::default() },
                plane_rows,
            },
        };
        a
    }
}

impl View {
    /// As [`View::access`] for a slice: first index and step along each dimension (none: all of the array). Where the columns
    /// follow a slice along lanes that begins within a tile, its lanes are shifted.
    pub fn cut_access(&self, map: &[Option<usize>], cut: &[(u64, u64)], outer: usize) -> Access {
        let mut a = self.access(map, outer);
        let strides = self.layout.row_strides();
        let minor = (self.form == Form::Lanes && !self.dims.is_empty()).then(|| self.dims.len() - 1);
        for (d, (&(start, step), m)) in cut.iter().zip(map).enumerate() {
            let (start, more) = (start as i64, step as i64 - 1);
            if Some(d) != minor {
                let rows = strides[d] as i64;
                a.offset += start * rows;
                match m {
                    Some(m) if *m == outer => a.row += more * rows,
                    Some(m) => a.outer[*m] += more * rows,
                    None => {}
                }
                continue;
            }
            match &mut a.lane {
                LaneMap::Tile { tile_rows } | LaneMap::Shifted { tile_rows, .. } => {
                    let (tile_rows, lanes) = (*tile_rows, i64::from(self.layout.lanes));
                    a.offset += start / lanes * tile_rows;
                    if start % lanes != 0 {
                        a.lane = LaneMap::Shifted { tile_rows, lanes: (start % lanes) as u32 };
                    }
                }
                LaneMap::Replicated => {}
                LaneMap::Indexed { index, .. } => {
                    index.outer.iter_mut().chain([&mut index.row]).for_each(|c| *c *= more + 1);
                    index.offset += start;
                }
            }
        }
        a
    }
}

/// Sizes and element-row strides of the dimensions above the lanes, without those of size 1, merged where contiguous.
fn row_runs(l: &Layout) -> Vec<(u64, u64)> {
    let strides = l.row_strides();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &d in l.minor_to_major.iter().skip(1).rev() {
        let (size, stride) = (l.dims[d as usize], strides[d as usize]);
        if size == 1 {
            continue;
        }
        match runs.last_mut() {
            Some((s, t)) if *t == size * stride => {
                *s *= size;
                *t = stride;
            }
            _ => runs.push((size, stride)),
        }
    }
    runs
}

/// Whether two layouts of the same elements (in row-major order) put each at the same place.
pub fn same_places(a: &Layout, b: &Layout) -> bool {
    let elements = |l: &Layout| l.dims.iter().product::<u64>();
    // One row over many planes is many rows of one plane, where it fills them.
    let line = |l: &Layout| l.planes() > 1 && l.plane_rows() == 1 && l.columns().is_multiple_of(l.lanes as u64);
    let stack = |l: &Layout| {
        l.columns() == l.lanes as u64
            && matches!(row_runs(l)[..], [(_, 1)])
            && l.total_rows() >= l.dims.iter().product::<u64>() / l.columns()
    };
    if elements(a) == elements(b) && (line(a) && stack(b) || stack(a) && line(b)) {
        return a.total_rows() == b.total_rows();
    }
    elements(a) == elements(b)
        && a.columns() == b.columns()
        && row_runs(a) == row_runs(b)
        && (a.planes() <= 1 || a.plane_rows() == b.plane_rows())
}
