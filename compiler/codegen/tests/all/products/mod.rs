//! Contraction kernels run on a functional machine and compared with plain products.

mod choices;
mod formats;
mod geometry;
mod machine;
mod segments;
mod slabs;

use machine::Machine;
use systole_codegen::emit::mxu::*;
use systole_hlo::graph::op::Precision;
use systole_isa::{ChipConfig, DType, Layout};

/// A dot of row-major arrays, or a convolution of `[n, spatial.., c]` by `[window.., c, o]`.
#[derive(Clone)]
struct Case {
    name: &'static str,
    chip: &'static str,
    sets: &'static [&'static str],
    /// [batch, m, k, n]; batch 0 is none. For convolutions: [images, 0, channels, features].
    sizes: [u32; 4],
    /// (input size, window size, stride, dilation) of each spatial dimension.
    spatial: &'static [[u32; 4]],
    transposed: bool,
    types: [DType; 3],
    precision: Precision,
    hbm: bool,
    vmem_rows: u32,
}

const CASE: Case = Case {
    name: "",
    chip: "tiny",
    sets: &[],
    sizes: [0, 8, 8, 8],
    spatial: &[],
    transposed: false,
    types: [DType::F32; 3],
    precision: Precision::Default,
    hbm: false,
    vmem_rows: 1 << 16,
};

struct Tensor {
    layout: Layout,
    values: Vec<f32>,
}

fn value(seed: u32, i: usize) -> f32 {
    let x = (i as u32).wrapping_mul(2654435761).wrapping_add(seed).wrapping_mul(2246822519) >> 13;
    (x % 13) as f32 - 6.0
}

impl Tensor {
    fn new(chip: &ChipConfig, dtype: DType, dims: &[u32], seed: u32) -> Tensor {
        let dims: Vec<u64> = dims.iter().map(|&d| d as u64).collect();
        let n = dims.iter().product::<u64>() as usize;
        let layout = Layout::row_major(dtype, &dims, chip.core.sublanes, chip.core.lanes);
        Tensor { layout, values: (0..n).map(|i| value(seed, i)).collect() }
    }

    fn array(&self, place: Place) -> Array {
        Array {
            place,
            dtype: self.layout.dtype,
            plane_rows: self.layout.plane_rows() as u32,
            total_rows: self.layout.total_rows() as u32,
        }
    }

    fn strides(&self) -> Vec<u32> {
        self.layout.row_strides().iter().map(|&s| s as u32).collect()
    }

    fn index(&self, mut i: usize) -> Vec<u64> {
        let mut index = vec![0; self.layout.dims.len()];
        for (x, &d) in index.iter_mut().zip(&self.layout.dims).rev() {
            *x = i as u64 % d;
            i /= d as usize;
        }
        index
    }

    fn offset(&self, i: usize) -> usize {
        let (row, lane) = self.layout.locate(&self.index(i));
        self.layout.byte_offset(row, lane) as usize
    }

    fn write(&self, memory: &mut [u8]) {
        for (i, &x) in self.values.iter().enumerate() {
            let at = self.offset(i);
            match self.layout.dtype {
                DType::F32 => memory[at..at + 4].copy_from_slice(&x.to_le_bytes()),
                DType::BF16 => memory[at..at + 2].copy_from_slice(&half::bf16::from_f32(x).to_le_bytes()),
                DType::F16 => memory[at..at + 2].copy_from_slice(&half::f16::from_f32(x).to_le_bytes()),
                _ => memory[at] = x as i8 as u8,
            }
        }
    }

    fn read(&self, memory: &[u8], i: usize) -> f32 {
        let at = self.offset(i);
        let word = || memory[at..at + 4].try_into().expect("four bytes");
        let half = || memory[at..at + 2].try_into().expect("two bytes");
        match self.layout.dtype {
            DType::F32 => f32::from_le_bytes(word()),
            DType::S32 => i32::from_le_bytes(word()) as f32,
            DType::BF16 => half::bf16::from_le_bytes(half()).to_f32(),
            DType::F16 => half::f16::from_le_bytes(half()).to_f32(),
            _ => memory[at] as i8 as f32,
        }
    }
}

impl Case {
    fn tensors(&self, chip: &ChipConfig) -> [Tensor; 3] {
        let [b, m, k, n] = self.sizes;
        let t = self.types;
        if self.spatial.is_empty() {
            let batch: &[u32] = if b > 0 { &[b] } else { &[] };
            let dims = |r: u32, c: u32| [batch, &[r, c]].concat();
            let rhs = if self.transposed { dims(n, k) } else { dims(k, n) };
            return [
                Tensor::new(chip, t[0], &dims(m, k), 1),
                Tensor::new(chip, t[1], &rhs, 2),
                Tensor::new(chip, t[2], &dims(m, n), 3),
            ];
        }
        let of = |f: &dyn Fn(&[u32; 4]) -> u32| self.spatial.iter().map(f).collect::<Vec<u32>>();
        let input = [vec![b], of(&|s| s[0]), vec![k]].concat();
        let window = [of(&|s| s[1]), vec![k, n]].concat();
        let out = [vec![b], of(&|s| (s[0] - (s[1] - 1) * s[3] - 1) / s[2] + 1), vec![n]].concat();
        [Tensor::new(chip, t[0], &input, 1), Tensor::new(chip, t[1], &window, 2), Tensor::new(chip, t[2], &out, 3)]
    }

    fn spec(&self, x: &[Tensor; 3]) -> Contraction {
        let place = if self.hbm { Place::Hbm } else { Place::Vmem };
        let [b, m, k, n] = self.sizes;
        let [ls, rs, os] = [0, 1, 2].map(|i| x[i].strides());
        let view = |t: &Tensor, s: &[u32]| MatView {
            array: t.array(place),
            row_stride: s[s.len() - 2],
            batch_stride: if s.len() > 2 { s[0] } else { 0 },
        };
        let mut c = if self.spatial.is_empty() {
            let rhs = (view(&x[1], &rs), self.transposed);
            Contraction::dot(b.max(1), [m, k, n], view(&x[0], &ls), rhs, view(&x[2], &os))
        } else {
            let out = &x[2].layout.dims;
            let mut rows = vec![Dim { count: b, lhs: ls[0], rhs: 0, out: os[0] }];
            let mut taps = Vec::new();
            for (i, s) in self.spatial.iter().enumerate() {
                rows.push(Dim { count: out[i + 1] as u32, lhs: s[2] * ls[i + 1], rhs: 0, out: os[i + 1] });
                taps.push(Dim { count: s[1], lhs: s[3] * ls[i + 1], rhs: rs[i], out: 0 });
            }
            let form = RhsForm::LanesN { k_stride: rs[self.spatial.len()] };
            let arrays = [0, 1, 2].map(|i| x[i].array(place));
            let [lhs, rhs, out] = arrays;
            let dot = Contraction::dot(1, [1, k, n], view(&x[0], &ls), (view(&x[1], &rs), false), view(&x[2], &os));
            Contraction { lhs, rhs, out, rows, taps, rhs_form: form, ..dot }
        };
        c.precision = self.precision;
        c.vmem_rows = self.vmem_rows;
        c
    }

    /// The plain product.
    fn expected(&self, x: &[Tensor; 3], i: usize) -> f32 {
        let at = x[2].index(i);
        let get = |t: &Tensor, index: &[u64]| {
            let i = t.layout.dims.iter().zip(index).fold(0, |a, (d, i)| a * d + i);
            t.values[i as usize] as f64
        };
        let [b, _, k, _] = self.sizes.map(u64::from);
        if self.spatial.is_empty() {
            let batch: &[u64] = if b > 0 { &at[..1] } else { &[] };
            let (m, n) = (at[at.len() - 2], at[at.len() - 1]);
            let dot = |k: u64| {
                let rhs = if self.transposed { [n, k] } else { [k, n] };
                get(&x[0], &[batch, &[m, k]].concat()) * get(&x[1], &[batch, &rhs].concat())
            };
            return (0..k).map(dot).sum::<f64>() as f32;
        }
        let windows: u64 = self.spatial.iter().map(|s| s[1] as u64).product();
        let mut sum = 0.0;
        for tap in 0..windows {
            let mut rest = tap;
            let mut offsets = vec![0; self.spatial.len()];
            for (o, s) in offsets.iter_mut().zip(self.spatial).rev() {
                *o = rest % s[1] as u64;
                rest /= s[1] as u64;
            }
            for c in 0..k {
                let mut from = vec![at[0]];
                for (i, s) in self.spatial.iter().enumerate() {
                    from.push(at[i + 1] * s[2] as u64 + offsets[i] * s[3] as u64);
                }
                from.push(c);
                let weight = [&offsets[..], &[c, at[at.len() - 1]]].concat();
                sum += get(&x[0], &from) * get(&x[1], &weight);
            }
        }
        sum as f32
    }

    /// The best tile, of those with batch indices beside each other, or in wide tiles, if the case's name says so.
    fn chosen(&self, spec: &Contraction, chip: &ChipConfig) -> Chosen {
        let beside = |tile: &Tile| walk(spec, tile, chip).is_ok_and(|w| w.beside);
        let said = |tile: &Tile| match self.name {
            name if name.starts_with("beside") => beside(tile),
            // Of all columns, several wide tiles.
            name if name.starts_with("wide") => tile.splits > 1 && tile.units * tile.groups * chip.core.lanes < spec.n,
            _ => true,
        };
        let found = search(spec, chip, false, &|tile, cycles| said(tile).then_some(cycles));
        found.unwrap_or_else(|e| panic!("{}: {e}", self.name)).0
    }

    /// Splits of k and row blocks of a tile.
    fn tiling(&self, spec: &Contraction, chosen: &Tile, chip: &ChipConfig) -> (u32, u32) {
        (chosen.splits, walk(spec, chosen, chip).expect("the tile's tiling").row_blocks)
    }

    fn chip(&self) -> ChipConfig {
        let mut chip = ChipConfig::from_preset(self.chip).expect("a preset");
        for s in self.sets {
            chip.apply_set(s).expect("a parameter");
        }
        chip
    }

    fn check(&self) {
        let chip = self.chip();
        let x = self.tensors(&chip);
        let spec = self.spec(&x);
        let chosen = self.chosen(&spec, &chip);
        let (splits, blocks) = self.tiling(&spec, &chosen.tile, &chip);
        assert!(splits > 1 || !self.name.starts_with("splits"), "{}: one split", self.name);
        assert!(blocks > 1 || !self.name.starts_with("small"), "{}: one block", self.name);
        self.run(chip, (&x, &spec), &chosen);
    }

    /// Compares the kernel of a tile with the plain product.
    fn run(&self, mut chip: ChipConfig, (x, spec): (&[Tensor; 3], &Contraction), chosen: &Chosen) {
        let out = contraction_kernel(spec, (&chosen.tile, None), "dot", &chip, &mut Convert(self.types[2]));
        let out = out.unwrap_or_else(|e| panic!("{}: {e}", self.name));
        assert!(out.needs.scratch_rows <= self.vmem_rows, "{}: beyond the budget", self.name);
        assert_eq!(chosen.needs, out.needs, "{}: what the choice says it needs", self.name);
        if self.types[0] == DType::S8 && chip.mxu_type(systole_isa::MxuFormat::S8).is_some() {
            chip.name = "integers".into();
        }
        let row = chip.row_bytes();
        let bytes = |t: &Tensor| t.layout.bytes().next_multiple_of(512);
        // Behind each array what the kernel says it reads there, then rows that nothing may read.
        let far = beyond(spec, &chosen.tile, &chip).expect("a tile that was chosen");
        let far = [far.lhs, far.rhs, 0].map(|rows| if self.hbm { 0 } else { rows * row });
        let wall = if self.hbm { 0 } else { 256 * row.max(512) };
        let total: u64 = x.iter().zip(far).map(|(t, far)| bytes(t) + (far + wall).next_multiple_of(512)).sum();
        let arrays = if self.hbm { 0 } else { total / row + 8 };
        let mut m =
            Machine::new(&chip, &out.descs, total as usize, (arrays + out.needs.scratch_rows as u64 + 64) as usize);
        let mut args = Vec::new();
        let mut at = 0;
        for (i, t) in x.iter().enumerate() {
            let memory = if self.hbm { &mut m.hbm } else { &mut m.vmem };
            if i < 2 {
                t.write(&mut memory[at as usize..]);
            } else {
                memory[at as usize..].fill(0xee);
            }
            args.push((at / if self.hbm { 512 } else { row }) as i32);
            let end = at + t.layout.bytes() + far[i];
            at += bytes(t) + (far[i] + wall).next_multiple_of(512);
            m.walls.push(end as usize..at as usize);
        }
        if self.hbm {
            m.walls.clear();
        }
        args.push(arrays as i32);
        m.run(&out.kernel, &args);
        let fifo = (chip.mxu.fifo_rows / chip.core.sublanes) as usize;
        assert!(m.most_in_flight <= fifo - fifo / 4, "{}: {} blocks in flight", self.name, m.most_in_flight);
        let memory = if self.hbm { &m.hbm } else { &m.vmem };
        let memory = &memory[(at - bytes(&x[2]) - wall) as usize..];
        for i in 0..x[2].values.len() {
            let (got, want) = (x[2].read(memory, i), self.expected(x, i));
            let want = match self.types[2] {
                DType::BF16 => half::bf16::from_f32(want).to_f32(),
                DType::F16 => half::f16::from_f32(want).to_f32(),
                _ => want,
            };
            assert!(got == want, "{}: {:?} is {got}, not {want}", self.name, x[2].index(i));
        }
    }
}

const ACCUMULATORS: &[&str] = &["mxu.accumulator_rows=64"];
const WIDE: &[&str] = &["mxu.accumulator_rows=64", "mxu.rows=16", "mxu.cols=16", "mxu.fifo_rows=128"];
const WIDE_FIFO: &[&str] = &["mxu.rows=16", "mxu.cols=16", "mxu.fifo_rows=128"];

/// Every case on a chip without accumulators, with them, and with arrays of two lane chunks either way.
fn check_all(cases: &[Case]) {
    for c in cases {
        for (sets, suffix) in
            [(c.sets, "fifo"), (ACCUMULATORS, "accumulators"), (WIDE, "wide"), (WIDE_FIFO, "wide fifo")]
        {
            let name: &'static str = Box::leak(format!("{} ({suffix})", c.name).into_boxed_str());
            Case { name, sets, ..c.clone() }.check();
        }
    }
}

const BF: [DType; 3] = [DType::BF16, DType::BF16, DType::F32];

#[test]
fn dots_in_vector_memory() {
    check_all(&[
        Case { name: "one tile", ..CASE },
        Case { name: "square", sizes: [0, 40, 32, 48], types: BF, ..CASE },
        Case { name: "partial", sizes: [0, 37, 29, 43], ..CASE },
        Case { name: "partial, transposed", sizes: [0, 37, 29, 43], transposed: true, types: BF, ..CASE },
        Case { name: "one row", sizes: [0, 1, 50, 21], types: [DType::BF16; 3], ..CASE },
        Case { name: "one column", sizes: [0, 50, 21, 1], types: [DType::BF16; 3], ..CASE },
        Case { name: "k of 1", sizes: [0, 50, 1, 20], ..CASE },
        Case { name: "batch", sizes: [3, 13, 11, 10], types: BF, ..CASE },
        Case { name: "batch of rows", sizes: [5, 1, 11, 10], ..CASE },
        Case { name: "long", sizes: [0, 300, 24, 9], ..CASE },
        Case { name: "f16", sizes: [0, 20, 20, 20], types: [DType::F16; 3], ..CASE },
        Case { name: "highest", sizes: [0, 20, 20, 20], precision: Precision::Highest, ..CASE },
        Case { name: "high, long", sizes: [0, 100, 20, 20], precision: Precision::High, ..CASE },
        Case { name: "s8", sizes: [0, 70, 20, 20], types: [DType::S8, DType::S8, DType::S32], ..CASE },
    ]);
}

#[test]
fn batches_beside_each_other() {
    check_all(&[
        Case { name: "beside", sizes: [6, 4, 16, 8], types: BF, ..CASE },
        Case { name: "beside, odd", sizes: [5, 7, 13, 5], types: BF, ..CASE },
        Case { name: "beside, transposed", sizes: [5, 7, 13, 5], transposed: true, types: BF, ..CASE },
        Case { name: "groups, or beside", sizes: [4, 4, 11, 30], types: [DType::BF16; 3], ..CASE },
        Case { name: "beside, highest", sizes: [3, 4, 8, 8], precision: Precision::Highest, ..CASE },
    ]);
    let c = Case { hbm: true, ..CASE };
    check_all(&[
        Case { name: "beside, in HBM", sizes: [8, 8, 16, 16], types: BF, ..c },
        Case { name: "beside, odd, in HBM", sizes: [21, 7, 13, 5], types: BF, ..c },
        Case { name: "beside, transposed, in HBM", sizes: [11, 7, 13, 5], transposed: true, types: BF, ..c },
        Case { name: "beside, several groups, in HBM", sizes: [9, 12, 40, 70], types: [DType::BF16; 3], ..c },
        Case { name: "beside, highest, in HBM", sizes: [7, 4, 8, 8], precision: Precision::Highest, ..c },
        Case { name: "beside, small memory, in HBM", sizes: [13, 70, 19, 20], types: BF, vmem_rows: 800, ..c },
    ]);
}

#[test]
fn wide_tiles_whose_sums_stay() {
    let c = Case { hbm: true, ..CASE };
    for case in [
        Case { name: "wide", sizes: [0, 64, 48, 64], types: BF, ..c },
        Case { name: "wide, transposed", sizes: [0, 64, 48, 64], transposed: true, types: BF, ..c },
        Case { name: "wide, transposed, batch", sizes: [3, 64, 48, 64], transposed: true, types: BF, ..c },
        Case { name: "wide, odd", sizes: [2, 30, 48, 72], types: BF, ..c },
    ] {
        case.check();
        Case { sets: ACCUMULATORS, ..case }.check();
    }
}

#[test]
fn dots_in_hbm() {
    let c = Case { hbm: true, ..CASE };
    check_all(&[
        Case { name: "one tile", ..c },
        Case { name: "square", sizes: [0, 40, 32, 48], types: BF, ..c },
        Case { name: "partial", sizes: [0, 37, 29, 43], ..c },
        Case { name: "partial, transposed", sizes: [0, 37, 29, 43], transposed: true, types: BF, ..c },
        Case { name: "small memory", sizes: [0, 150, 61, 75], vmem_rows: 1600, ..c },
        Case {
            name: "small memory, transposed",
            sizes: [0, 150, 61, 75],
            transposed: true,
            types: BF,
            vmem_rows: 800,
            ..c
        },
        Case { name: "batch", sizes: [3, 13, 11, 10], types: BF, ..c },
        Case { name: "batch, small memory", sizes: [3, 70, 19, 50], types: [DType::BF16; 3], vmem_rows: 500, ..c },
        Case { name: "highest", sizes: [0, 60, 30, 20], precision: Precision::Highest, ..c },
        Case { name: "s8", sizes: [0, 70, 20, 20], types: [DType::S8, DType::S8, DType::S32], ..c },
        Case { name: "splits of k", sizes: [0, 40, 320, 64], vmem_rows: 900, ..c },
        Case { name: "splits of k, long", sizes: [0, 120, 160, 90], types: BF, vmem_rows: 1500, ..c },
        Case { name: "splits of k, batch", sizes: [2, 20, 320, 64], vmem_rows: 700, ..c },
        Case { name: "splits of k, transposed", sizes: [0, 40, 320, 75], transposed: true, vmem_rows: 1100, ..c },
        Case {
            name: "splits of k, highest",
            sizes: [0, 24, 160, 40],
            precision: Precision::Highest,
            vmem_rows: 700,
            ..c
        },
    ]);
}

/// Every tile of a product of several row blocks in which groups of rhs stay, or results leave before all of a tile are there.
#[test]
fn rhs_stays_and_results_leave_early() {
    let types = [DType::BF16; 3];
    let c = Case { name: "several blocks", sizes: [0, 160, 61, 75], hbm: true, types, ..CASE };
    let (mut kept, mut early) = (0, 0);
    for (transposed, sets) in [(false, CASE.sets), (true, CASE.sets), (false, WIDE_FIFO)] {
        let c = Case { transposed, sets, ..c.clone() };
        let chip = c.chip();
        let x = c.tensors(&chip);
        let spec = c.spec(&x);
        let numbers = (1..=chip.mxu.count).flat_map(|units| (2..40).map(move |rows| (units, rows)));
        for ((units, rows), groups) in numbers.flat_map(|n| (2..=8).map(move |groups| (n, groups))) {
            let windows = [2, groups, 1 + groups % 2];
            let tile = Tile { variant: 0, units, outer: 0, rows, splits: 1, groups, windows, close: 1, open: 1 };
            let Ok(chosen) = consider(&spec, &tile, &chip, false) else { continue };
            let w = walk(&spec, &tile, &chip).expect("the tile's tiling");
            let (stays, leaves) = (w.row_blocks > 1 && w.keeps_rhs, w.leaves_early);
            if stays || leaves {
                c.run(chip.clone(), (&x, &spec), &chosen);
            }
            (kept, early) = (kept + u32::from(stays), early + u32::from(leaves));
        }
    }
    assert!(kept > 10 && early > 10, "{kept} of rhs that stays, {early} of results that leave early");
}

#[test]
fn convolutions() {
    let c = Case { types: BF, ..CASE };
    for hbm in [false, true] {
        let c = Case { hbm, ..c.clone() };
        check_all(&[
            Case { name: "3x3", sizes: [2, 0, 9, 11], spatial: &[[9, 3, 1, 1], [10, 3, 1, 1]], ..c },
            Case { name: "1x1", sizes: [2, 0, 9, 11], spatial: &[[7, 1, 1, 1], [7, 1, 1, 1]], ..c },
            Case { name: "images across", sizes: [8, 0, 9, 11], spatial: &[[5, 3, 1, 1], [5, 3, 1, 1]], ..c },
            Case { name: "rows across", sizes: [1, 0, 9, 11], spatial: &[[18, 3, 1, 1], [4, 2, 1, 1]], ..c },
            Case { name: "stride", sizes: [1, 0, 9, 11], spatial: &[[9, 2, 2, 1], [23, 3, 2, 1]], ..c },
            Case { name: "rows far apart", sizes: [3, 0, 9, 11], spatial: &[[9, 1, 2, 1], [17, 1, 17, 1]], ..c },
            Case { name: "dilation", sizes: [1, 0, 20, 5], spatial: &[[9, 2, 1, 3], [11, 3, 1, 2]], ..c },
            Case { name: "1d", sizes: [3, 0, 17, 24], spatial: &[[40, 5, 1, 1]], ..c },
            Case { name: "3d", sizes: [1, 0, 5, 9], spatial: &[[4, 2, 1, 1], [5, 2, 1, 1], [6, 2, 1, 1]], ..c },
            Case {
                name: "blocks",
                sizes: [3, 0, 9, 33],
                spatial: &[[12, 3, 1, 1], [12, 3, 1, 1]],
                vmem_rows: 900,
                ..c
            },
        ]);
    }
}
