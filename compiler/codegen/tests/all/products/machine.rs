//! A functional machine for kernels as written, for the operations that contraction kernels use.
//!
//! Copies happen at their wait, as late as they may; memory that nobody wrote holds NaN. Pops of results that are not
//! there, stores beyond memory and leftovers of semaphores and queues fail.

use std::collections::VecDeque;
use systole_codegen::kernel::regs::File;
use systole_codegen::kernel::{Item, Kernel, Trips};
use systole_isa::{ChipConfig, DmaDesc, Inst, MxuFormat, Op, Space};

struct Unit {
    staged: Vec<f32>,
    at: Vec<usize>,
    at_t: Vec<usize>,
    weights: Vec<f32>,
    row: Vec<f32>,
    fifo: VecDeque<Vec<f32>>,
    accumulators: Vec<f32>,
}

pub struct Machine<'a> {
    pub chip: &'a ChipConfig,
    /// Bytes.
    pub hbm: Vec<u8>,
    pub vmem: Vec<u8>,
    /// Bytes of vector memory that belong to nobody: loads of them fail.
    pub walls: Vec<std::ops::Range<usize>>,
    descs: &'a [DmaDesc],
    s: Vec<i32>,
    v: Vec<Vec<u32>>,
    m: Vec<Vec<bool>>,
    units: Vec<Unit>,
    /// Copies under way: semaphore, descriptor, source and destination byte addresses.
    copies: VecDeque<(i32, usize, i64, i64)>,
    pub most_in_flight: usize,
    pub pushes: u64,
}

const NAN: [u8; 4] = [0xff, 0xff, 0xff, 0x7f];

impl<'a> Machine<'a> {
    pub fn new(chip: &'a ChipConfig, descs: &'a [DmaDesc], hbm_bytes: usize, vmem_rows: usize) -> Machine<'a> {
        let (rows, cols) = (chip.mxu.rows as usize, chip.mxu.cols as usize);
        let unit = || Unit {
            staged: vec![0.0; rows * cols],
            at: vec![0; cols],
            at_t: vec![0; rows],
            weights: vec![0.0; rows * cols],
            row: vec![0.0; chip.core.sublanes as usize * rows],
            fifo: VecDeque::new(),
            accumulators: vec![f32::NAN; chip.mxu.accumulator_rows as usize * cols],
        };
        let nan = |bytes: usize| NAN.iter().copied().cycle().take(bytes).collect();
        Machine {
            chip,
            hbm: nan(hbm_bytes),
            vmem: nan(vmem_rows * chip.row_bytes() as usize),
            walls: Vec::new(),
            descs,
            s: Vec::new(),
            v: Vec::new(),
            m: Vec::new(),
            units: (0..chip.mxu.count).map(|_| unit()).collect(),
            copies: VecDeque::new(),
            most_in_flight: 0,
            pushes: 0,
        }
    }

    pub fn run(&mut self, k: &Kernel, args: &[i32]) {
        self.s = vec![i32::MIN; k.free.of(File::Scalar) as usize];
        self.s[0] = 0;
        self.v = vec![Vec::new(); k.free.of(File::Vector) as usize];
        let n = self.chip.vreg_elements();
        self.m = vec![Vec::new(); k.free.of(File::Mask) as usize];
        self.m[0] = vec![true; n];
        assert_eq!(k.params.len(), args.len());
        k.params.iter().zip(args).for_each(|(p, a)| self.s[p.0 as usize] = *a);
        self.items(&k.body);
        assert!(self.copies.is_empty(), "copies without a wait: {:?}", self.copies);
        for u in &self.units {
            assert!(u.fifo.is_empty() && u.at.iter().chain(&u.at_t).all(|&a| a == 0), "leftovers in a matrix unit");
        }
    }

    fn items(&mut self, items: &[Item]) {
        for i in items {
            match i {
                Item::Inst(i) => self.inst(&i.inst),
                Item::Loop(l) => {
                    let n = match l.trips {
                        Trips::Static(n) => n as i32,
                        Trips::Dynamic(s) => self.s[s.0 as usize],
                    };
                    (0..n).for_each(|_| self.items(&l.body));
                }
                Item::If { cond, then, otherwise } => {
                    self.items(if self.s[cond.0 as usize] != 0 { then } else { otherwise });
                }
                Item::While { .. } | Item::Call { .. } | Item::Mark { .. } => panic!("not used"),
            }
        }
    }

    fn inst(&mut self, i: &Inst) {
        let o = i.operands;
        let name = i.op.info().mnemonic;
        match name.split('.').next() {
            Some("s") => self.scalar(i.op, o),
            Some("mxu") => self.mxu(i.op, o),
            Some("dma") => self.dma(i.op, o),
            _ if name.starts_with("v.ld") || name.starts_with("v.st") => self.memory(i.op, o),
            _ => self.vector(i.op, o),
        }
    }

    fn scalar(&mut self, op: Op, o: [i32; 6]) {
        let s = |n: i32| {
            let v = self.s[n as usize];
            assert!(v != i32::MIN, "s{n} is read before it is written");
            v
        };
        let v = match op {
            Op::SLi => o[1],
            Op::SAdd => s(o[1]).wrapping_add(s(o[2])),
            Op::SSub => s(o[1]).wrapping_sub(s(o[2])),
            Op::SMin => s(o[1]).min(s(o[2])),
            Op::SMax => s(o[1]).max(s(o[2])),
            Op::SXor => s(o[1]) ^ s(o[2]),
            Op::SAnd => s(o[1]) & s(o[2]),
            Op::SLt => (s(o[1]) < s(o[2])) as i32,
            Op::SAddI => s(o[1]).wrapping_add(o[2]),
            Op::SMulI => s(o[1]).wrapping_mul(o[2]),
            Op::SAndI => s(o[1]) & o[2],
            Op::SShrI => (s(o[1]) as u32 >> o[2]) as i32,
            Op::SEqI => (s(o[1]) == o[2]) as i32,
            Op::SLtI => (s(o[1]) < o[2]) as i32,
            Op::SSel => {
                if s(o[1]) != 0 {
                    s(o[2])
                } else {
                    s(o[3])
                }
            }
            _ => panic!("{op:?}"),
        };
        self.s[o[0] as usize] = v;
    }

    fn vector(&mut self, op: Op, o: [i32; 6]) {
        let (n, lanes) = (self.chip.vreg_elements(), self.chip.core.lanes as usize);
        let v = |k: usize| &self.v[o[k] as usize];
        let f = |x: u32| f32::from_bits(x);
        let each = |g: &dyn Fn(usize) -> u32| (0..n).map(g).collect::<Vec<u32>>();
        let mask = |g: &dyn Fn(usize) -> bool| (0..n).map(g).collect::<Vec<bool>>();
        let value = match op {
            Op::VLtS => {
                let r = mask(&|i| (v(1)[i] as i32) < v(2)[i] as i32);
                return self.m[o[0] as usize] = r;
            }
            Op::VNeI => {
                let r = mask(&|i| v(1)[i] != v(2)[i]);
                return self.m[o[0] as usize] = r;
            }
            Op::VImm => each(&|_| o[1] as u32),
            Op::VSplat => each(&|_| self.s[o[1] as usize] as u32),
            Op::VLane => each(&|i| (i % lanes) as u32),
            Op::VSublane => each(&|i| (i / lanes) as u32),
            Op::VSel => each(&|i| if self.m[o[1] as usize][i] { v(2)[i] } else { v(3)[i] }),
            Op::VAddF => each(&|i| (f(v(1)[i]) + f(v(2)[i])).to_bits()),
            Op::VAddI => each(&|i| v(1)[i].wrapping_add(v(2)[i])),
            Op::VCvtS32F32 => each(&|i| (v(1)[i] as i32 as f32).to_bits()),
            Op::VCvtU32F32 => each(&|i| (v(1)[i] as f32).to_bits()),
            Op::VCvtF32S32 => each(&|i| f(v(1)[i]) as i32 as u32),
            Op::VRndBf16 => each(&|i| half::bf16::from_f32(f(v(1)[i])).to_f32().to_bits()),
            Op::VRndF16 => each(&|i| half::f16::from_f32(f(v(1)[i])).to_f32().to_bits()),
            Op::VUnpackF16 => each(&|i| half::f16::from_bits(v(1)[i] as u16).to_f32().to_bits()),
            Op::VPackF16 => each(&|i| half::f16::from_f32(f(v(1)[i])).to_bits() as u32),
            _ => panic!("{op:?}"),
        };
        self.v[o[0] as usize] = value;
    }

    fn memory(&mut self, op: Op, o: [i32; 6]) {
        let (lanes, n) = (self.chip.core.lanes as usize, self.chip.vreg_elements());
        let width = match op {
            Op::VLd | Op::VSt => 4,
            Op::VLdBf16 | Op::VLdS16 | Op::VLdU16 | Op::VStBf16 | Op::VSt16 => 2,
            _ => 1,
        };
        let at = |i: usize| {
            let row = self.s[o[1] as usize] as i64 + o[2] as i64 + (i / lanes) as i64 * o[3] as i64;
            assert!(row >= 0, "{op:?} below memory");
            let p = 4 / width as i64;
            ((row / p * lanes as i64 + (i % lanes) as i64) * 4 + row % p * width as i64) as usize
        };
        if matches!(op, Op::VSt | Op::VStBf16 | Op::VSt16 | Op::VSt8) {
            for i in 0..n {
                if self.m[o[4] as usize][i] {
                    let x = self.v[o[0] as usize][i];
                    let x =
                        if op == Op::VStBf16 { half::bf16::from_f32(f32::from_bits(x)).to_bits() as u32 } else { x };
                    self.vmem[at(i)..at(i) + width].copy_from_slice(&x.to_le_bytes()[..width]);
                }
            }
            return;
        }
        let load = |i: usize| {
            let wall = self.walls.iter().find(|w| w.contains(&at(i)));
            assert!(wall.is_none(), "{op:?} of byte {} in {wall:?}", at(i));
            let mut x = [0; 4];
            x[..width].copy_from_slice(&self.vmem[at(i)..at(i) + width]);
            let x = u32::from_le_bytes(x);
            match op {
                Op::VLdBf16 => x << 16,
                Op::VLdS16 => x as u16 as i16 as i32 as u32,
                Op::VLdS8 => x as u8 as i8 as i32 as u32,
                _ => x,
            }
        };
        self.v[o[0] as usize] = (0..n).map(load).collect();
    }

    fn dma(&mut self, op: Op, o: [i32; 6]) {
        if op == Op::DmaStart {
            let d = &self.descs[o[0] as usize];
            let address = |space: Space, base: i32, offset: i32| {
                let unit = if space == Space::Hbm { 512 } else { self.chip.row_bytes() as i64 };
                self.s[base as usize] as i64 * unit + self.s[offset as usize] as i64
            };
            let copy = (o[5], o[0] as usize, address(d.src, o[1], o[2]), address(d.dst, o[3], o[4]));
            return self.copies.push_back(copy);
        }
        // Nothing but what is waited for is under way on a semaphore.
        let (ended, others): (VecDeque<_>, VecDeque<_>) = self.copies.drain(..).partition(|c| c.0 == o[0]);
        self.copies = others;
        let bytes: u64 = ended.iter().map(|c| self.descs[c.1].bytes()).sum();
        assert_eq!((ended.is_empty(), bytes as i32), (false, o[1]), "bytes waited for on semaphore {}", o[0]);
        for (_, desc, src, dst) in ended {
            self.copy(desc, src, dst);
        }
    }

    fn copy(&mut self, desc: usize, src: i64, dst: i64) {
        let d = &self.descs[desc];
        assert!(d.dims.len() <= 4);
        let mut places = vec![(src, dst)];
        for dim in &d.dims {
            let steps = |p: &(i64, i64)| {
                let p = *p;
                (0..dim.count as i64).map(move |i| (p.0 + i * dim.src_stride, p.1 + i * dim.dst_stride))
            };
            places = places.iter().flat_map(steps).collect();
        }
        let n = d.chunk as usize;
        for (s, t) in places {
            let (s, t) = (s as usize, t as usize);
            match d.src {
                Space::Hbm => self.vmem[t..t + n].copy_from_slice(&self.hbm[s..s + n]),
                _ => self.hbm[t..t + n].copy_from_slice(&self.vmem[s..s + n]),
            }
        }
    }

    fn mxu(&mut self, op: Op, o: [i32; 6]) {
        let (rows, cols) = (self.chip.mxu.rows as usize, self.chip.mxu.cols as usize);
        let (sub, lanes) = (self.chip.core.sublanes as usize, self.chip.core.lanes as usize);
        let pop = matches!(op, Op::MPop | Op::MDrain);
        let u = &mut self.units[if pop { o[1] } else { o[0] } as usize];
        let input = |v: &[u32]| v.iter().map(|&x| convert(o[3], x)).collect::<Vec<f32>>();
        match op {
            Op::MLatch => {
                u.weights = std::mem::replace(&mut u.staged, vec![0.0; rows * cols]);
                u.at.fill(0);
                u.at_t.fill(0);
            }
            Op::MStage | Op::MStageT => {
                let chunk = o[2] as usize;
                let at = if op == Op::MStage { &mut u.at[chunk] } else { &mut u.at_t[chunk] };
                for (i, x) in input(&self.v[o[1] as usize]).into_iter().enumerate() {
                    let (across, along) = (*at + i / lanes, chunk * lanes + i % lanes);
                    let place = if op == Op::MStage { across * cols + along } else { along * cols + across };
                    u.staged[place] = x;
                }
                *at += sub;
                assert!(*at <= if op == Op::MStage { rows } else { cols }, "staged too much");
            }
            Op::MPush | Op::MPushSet | Op::MPushAdd => {
                self.pushes += 1;
                let chunk = o[2] as usize;
                for (i, x) in input(&self.v[o[1] as usize]).into_iter().enumerate() {
                    u.row[i / lanes * rows + chunk * lanes + i % lanes] = x;
                }
                if (chunk + 1) * lanes < rows {
                    return;
                }
                let mut result = vec![0f32; sub * cols];
                for r in 0..sub {
                    for k in 0..rows {
                        let x = u.row[r * rows + k];
                        for c in 0..cols {
                            result[r * cols + c] += x * u.weights[k * cols + c];
                        }
                    }
                }
                if op == Op::MPush {
                    u.fifo.push_back(result);
                    self.most_in_flight = self.most_in_flight.max(u.fifo.len());
                    return;
                }
                let at = self.s[o[4] as usize] as usize * cols;
                for (a, x) in u.accumulators[at..].iter_mut().zip(result) {
                    *a = if op == Op::MPushSet { x } else { *a + x };
                }
            }
            Op::MPop | Op::MDrain => {
                let chunk = o[2] as usize;
                let rows: Vec<f32> = if op == Op::MPop {
                    u.fifo.front().expect("a pop of nothing").clone()
                } else {
                    let at = self.s[o[3] as usize] as usize * cols;
                    u.accumulators[at..at + sub * cols].to_vec()
                };
                let last = (chunk + 1) * lanes == cols;
                if op == Op::MPop && last {
                    u.fifo.pop_front();
                }
                let integer = self.integer();
                let word = |x: f32| if integer { x as i32 as u32 } else { x.to_bits() };
                let lane = |i: usize| word(rows[i / lanes * cols + chunk * lanes + i % lanes]);
                self.v[o[0] as usize] = (0..sub * lanes).map(lane).collect();
            }
            _ => panic!("{op:?}"),
        }
    }

    /// Whether products are integers: tests with integers use small ones, exact in f32.
    fn integer(&self) -> bool {
        self.chip.name == "integers"
    }
}

fn convert(format: i32, x: u32) -> f32 {
    let v = f32::from_bits(x);
    let high = f32::from_bits(x & 0xffff_0000);
    let mid = f32::from_bits((v - high).to_bits() & 0xffff_0000);
    match MxuFormat::ALL[format as usize] {
        MxuFormat::Bf16 | MxuFormat::F8 => half::bf16::from_f32(v).to_f32(),
        MxuFormat::High => high,
        MxuFormat::HighFinite if !v.is_finite() => 0.0,
        MxuFormat::HighFinite => high,
        MxuFormat::Mid | MxuFormat::Low if !v.is_finite() => 0.0,
        MxuFormat::Mid => mid,
        MxuFormat::Low => v - high - mid,
        MxuFormat::S8 => x as u8 as i8 as f32,
        MxuFormat::U8 => x as u8 as f32,
    }
}
