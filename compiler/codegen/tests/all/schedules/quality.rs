//! What schedules reach on loops whose bounds a person can count.

use systole_codegen::kernel::build_units::DmaArgs;
use systole_codegen::kernel::{BufferRef, KernelBuilder, LoopHints, M, MemFormat, S, StoreFormat, Trips, Unit};
use systole_codegen::schedule::{PipelineReport, RegionKind, ScheduleOptions, Scheduled, print, schedule};
use systole_isa::{ChipConfig, MxuFormat, Op};

fn chip() -> ChipConfig {
    ChipConfig::from_preset("tpu-v5e").expect("a preset")
}

/// A main program that is one pipelined loop.
fn single(
    chip: &ChipConfig,
    f: impl FnOnce(&mut KernelBuilder, [S; 3], [BufferRef; 3]),
) -> (Scheduled, PipelineReport) {
    let mut b = KernelBuilder::new("loop", chip);
    let buffers = [0; 3].map(|_| b.buffer());
    let bases = [1000, 50_000, 100_000].map(|x| b.s_var(x));
    f(&mut b, bases, buffers);
    let unit = Unit { kernels: vec![b.finish()] };
    let options = ScheduleOptions::new(200_000, 0);
    let out = schedule(&unit, chip, &options).expect("schedules");
    out.verify(&unit, chip).expect("is proved");
    let listing = print::listing(&out, chip, true);
    if std::env::var("SHOW").is_ok() {
        println!("{unit}\n{listing}");
    }
    let report = out.kernels[0].regions.iter().find_map(|r| match r.kind {
        RegionKind::Pipelined(p) => Some(p),
        RegionKind::Block => None,
    });
    (out, report.unwrap_or_else(|| panic!("no pipelined loop:\n{unit}\n{listing}")))
}

/// c = a + b: two loads (of two slots), one store (of one) a register: a register a cycle.
#[test]
fn adding_two_arrays_takes_a_cycle_a_register() {
    let (_, p) = single(&chip(), |b, [x, y, z], bufs| {
        b.loop_with(Trips::Static(1000), LoopHints::independent(&bufs), |b| {
            let u = b.load(MemFormat::W32, x, 0, 1, bufs[0]);
            let v = b.load(MemFormat::W32, y, 0, 1, bufs[1]);
            let w = b.v(Op::VAddF, &[u, v]);
            b.store(StoreFormat::W32, w, z, 0, 1, M::ALL, bufs[2]);
            for r in [x, y, z] {
                b.s_inc(r, 8);
            }
        });
    });
    assert_eq!((p.ii, p.unroll), (1, 1));
    assert!(p.rounds > 10, "{p:?}");
}

/// Updating in place without a hint: addresses show that iterations are apart.
#[test]
fn an_update_in_place_pipelines_without_hints() {
    let (_, p) = single(&chip(), |b, [x, ..], bufs| {
        b.loop_static(100, |b| {
            let u = b.load(MemFormat::W32, x, 0, 1, bufs[0]);
            let u = b.v(Op::VMulF, &[u, u]);
            let u = b.v(Op::VRndBf16, &[u]);
            b.store(StoreFormat::W32, u, x, 0, 1, M::ALL, bufs[0]);
            b.s_inc(x, 8);
        });
    });
    assert_eq!(p.ii, 1);
}

/// A sum: each addition waits for the one before (valu latency 2).
#[test]
fn a_sum_is_bound_by_its_recurrence() {
    let chip = chip();
    let (_, p) = single(&chip, |b, [x, y, _], bufs| {
        let sum = b.v_var(0);
        b.loop_static(200, |b| {
            let u = b.load(MemFormat::W32, x, 0, 1, bufs[0]);
            b.set_v(sum, Op::VAddF, &[sum.into(), u.into()]);
            b.s_inc(x, 8);
        });
        b.store(StoreFormat::W32, sum, y, 0, 1, M::ALL, bufs[1]);
    });
    let latency = chip.timing.get(Op::VAddF.info().class).latency;
    assert_eq!((p.ii, p.least.recurrence), (latency, latency));
}

/// Rows through a matrix unit with late pops: loads and pushes limit, not the array's latency.
#[test]
fn pushes_and_pops_overlap() {
    let (_, p) = single(&chip(), |b, [x, y, _], bufs| {
        for _ in 0..8 {
            let v = b.load(MemFormat::Bf16, x, 0, 1, bufs[0]);
            b.mxu_push(0, v, 0, MxuFormat::Bf16);
            b.s_inc(x, 8);
        }
        b.loop_static(64, |b| {
            let v = b.load(MemFormat::Bf16, x, 0, 1, bufs[0]);
            b.mxu_push(0, v, 0, MxuFormat::Bf16);
            b.s_inc(x, 8);
            let r = b.mxu_pop(0, 0);
            let old = b.load(MemFormat::W32, y, 0, 1, bufs[1]);
            let r = b.v(Op::VAddF, &[r, old]);
            b.store(StoreFormat::W32, r, y, 0, 1, M::ALL, bufs[1]);
            b.s_inc(y, 8);
        });
        for _ in 0..8 {
            let r = b.mxu_pop(0, 0);
            b.store(StoreFormat::W32, r, y, 0, 1, M::ALL, bufs[1]);
            b.s_inc(y, 8);
        }
    });
    assert_eq!(p.ii, 1);
}

/// A long body (32 transcendental operations of interval 2 on one slot) is bound by that slot.
#[test]
fn a_long_body_is_bound_by_its_slot() {
    let chip = chip();
    let (_, p) = single(&chip, |b, [x, y, _], bufs| {
        b.loop_static(50, |b| {
            for k in 0..16 {
                let u = b.load(MemFormat::W32, x, 8 * k, 1, bufs[0]);
                let u = b.v(Op::EExp, &[u]);
                let u = b.v(Op::VAddF, &[u, u]);
                let u = b.v(Op::ERcp, &[u]);
                b.store(StoreFormat::W32, u, y, 8 * k, 1, M::ALL, bufs[1]);
            }
            b.s_inc(x, 128);
            b.s_inc(y, 128);
        });
    });
    let interval = chip.timing.get(Op::EExp.info().class).interval;
    assert_eq!(p.ii, 32 * interval);
}

/// Masks that are needed long after what they compare (the cases of a function, say) are made when they are needed: there are
/// few registers for them.
#[test]
fn masks_are_made_late() {
    let chip = chip();
    let (_, p) = single(&chip, |b, [x, y, _], bufs| {
        let limits = [1.0, 2.0, 3.0, 4.0].map(|v: f32| b.v_imm(v.to_bits() as i32));
        b.loop_static(200, |b| {
            let u = b.load(MemFormat::W32, x, 0, 1, bufs[0]);
            let cases = limits.map(|l| b.cmp(Op::VLtF, u, l));
            let mut r = u;
            for _ in 0..20 {
                r = b.v(Op::VMulF, &[r, u]);
            }
            for (m, l) in cases.into_iter().zip(limits) {
                r = b.select(m, l, r);
            }
            b.store(StoreFormat::W32, r, y, 0, 1, M::ALL, bufs[1]);
            b.s_inc(x, 8);
            b.s_inc(y, 8);
        });
    });
    assert_eq!(p.ii, p.least.slots, "{p:?}");
}

/// Compile time: many kernels of a usual size.
#[test]
fn hundreds_of_kernels_take_little_time() {
    let chip = chip();
    let mut unit = Unit::default();
    for k in 0..100 {
        let mut b = KernelBuilder::new("k", &chip);
        let bufs = [0; 2].map(|_| b.buffer());
        let [x, y] = [0; 2].map(|_| b.param());
        b.loop_static(8, |b| {
            b.loop_static(64 + k, |b| {
                for j in 0..8 {
                    let mut u = b.load(MemFormat::W32, x, 8 * j, 1, bufs[0]);
                    for _ in 0..1 + k % 8 {
                        u = b.v(Op::VMulF, &[u, u]);
                    }
                    b.store(StoreFormat::W32, u, y, 8 * j, 1, M::ALL, bufs[1]);
                }
                b.s_inc(x, 64);
                b.s_inc(y, 64);
            });
        });
        unit.kernels.push(b.finish());
    }
    let start = std::time::Instant::now();
    let out = schedule(&unit, &chip, &ScheduleOptions::new(200_000, 0)).expect("schedules");
    let spent = start.elapsed();
    if std::env::var("SHOW").is_ok() {
        println!("{spent:?} for {} bundles", out.bundles.len());
    }
    let all = out.kernels.iter().all(|k| k.regions.iter().any(|r| r.kind != RegionKind::Block));
    assert!(all && spent.as_secs() < 20);
}

/// An address advanced several times in a body is one induction variable.
#[test]
fn steps_within_a_body_add_up() {
    let (_, p) = single(&chip(), |b, [x, y, _], bufs| {
        b.loop_static(40, |b| {
            for _ in 0..4 {
                let u = b.load(MemFormat::W32, x, 0, 1, bufs[0]);
                let old = b.load(MemFormat::W32, y, 0, 1, bufs[1]);
                let u = b.v(Op::VAddF, &[u, old]);
                b.store(StoreFormat::W32, u, y, 0, 1, M::ALL, bufs[1]);
                b.s_inc(x, 8);
                b.s_inc(y, 8);
            }
        });
    });
    assert_eq!((p.ii, p.least.recurrence), (4, 4));
}

/// Loads of scalar memory do not wait for copies of other memories, and stay behind those that write scalar memory.
#[test]
fn only_copies_of_scalar_memory_order_its_loads() {
    let chip = chip();
    let bundles = |named: bool| {
        let mut b = KernelBuilder::new("copies", &chip);
        let all = b.buffer();
        let mut touched = vec![all];
        touched.extend(named.then_some(BufferRef::SCALAR_MEMORY));
        for sem in 0..6 {
            let src = b.smem_load(S::ZERO, 10 + sem as i32);
            let (src_offset, dst, dst_offset) = (S::ZERO, S::ZERO, S::ZERO);
            b.dma_start(DmaArgs { desc: 0, src, src_offset, dst, dst_offset, sem }, &touched, &touched);
            b.dma_wait(sem, 4096, &touched, &touched);
        }
        let out = schedule(&Unit { kernels: vec![b.finish()] }, &chip, &ScheduleOptions::new(200_000, 0));
        out.expect("schedules").bundles
    };
    let last_load = |named: bool| {
        let all = bundles(named);
        let last = all.iter().rposition(|b| b.insts.iter().any(|i| i.op == Op::SLd)).expect("there are loads");
        all[..last].iter().flat_map(|b| &b.insts).filter(|i| i.op == Op::DmaWait).count()
    };
    assert_eq!(last_load(true), 5, "a load behind every wait");
    assert!(last_load(false) < 2, "loads run ahead of waits");
}

/// An iteration that comes early does not wait before what the one in front of it starts: others may wait for that.
#[test]
fn copies_are_started_before_later_iterations_wait() {
    let chip = chip();
    let mut b = KernelBuilder::new("copies", &chip);
    let (from, to, near, out) = (b.buffer(), b.buffer(), b.buffer(), b.buffer());
    let copy = |b: &mut KernelBuilder, sem: u32, (reads, writes): (BufferRef, BufferRef)| {
        let zero = S::ZERO;
        let args = DmaArgs { desc: 0, src: zero, src_offset: zero, dst: zero, dst_offset: zero, sem };
        b.dma_start(args, &[reads], &[writes]);
        b.dma_wait(sem, 4096, &[reads], &[writes]);
    };
    b.loop_with(Trips::Static(2), LoopHints::default(), |b| {
        copy(b, 0, (from, near));
        for i in 0..20 {
            let v = b.load(MemFormat::W32, S::ZERO, 8 * i, 1, near);
            b.store(StoreFormat::W32, v, S::ZERO, 1000 + 8 * i, 1, M::ALL, out);
        }
        copy(b, 1, (out, to));
    });
    let done = schedule(&Unit { kernels: vec![b.finish()] }, &chip, &ScheduleOptions::new(200_000, 0));
    let done = done.expect("schedules");
    let all: Vec<&systole_isa::Inst> = done.bundles.iter().flat_map(|b| &b.insts).collect();
    let at = |op: Op, sem: i32| {
        let is = move |i: &&systole_isa::Inst| i.op == op && i.operand(systole_isa::Kind::Sem) == Some(sem);
        all.iter().enumerate().filter(move |(_, i)| is(i)).map(|(at, _)| at)
    };
    let waits: Vec<usize> = at(Op::DmaWait, 0).collect();
    assert_eq!(waits.len(), 2, "the iterations are written out");
    assert!(at(Op::DmaStart, 1).next().is_some_and(|start| start < waits[1]), "the second wait comes first");
}
