//! Estimates of kernels by themselves: what copies and work take, one beside the other.

use systole_codegen::estimate::cycles;
use systole_codegen::kernel::build_units::{DmaArgs, MemFormat, StoreFormat};
use systole_codegen::kernel::{KernelBuilder, M, S};
use systole_isa::{ChipConfig, DmaDesc};
use systole_isa::{Op, Space};

fn chip() -> ChipConfig {
    ChipConfig::from_preset("tpu-v5e").expect("a preset")
}

#[test]
fn copies_go_on_while_others_work() {
    let bytes = 4 << 20;
    let of = |rounds: u32| {
        let chip = chip();
        let mut b = KernelBuilder::new("both", &chip);
        let (hbm, vmem, sums) = (b.buffer(), b.buffer(), b.buffer());
        let (src, dst, at) = (b.param(), b.param(), b.param());
        let args = DmaArgs { desc: 0, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem: 0 };
        b.dma_start(args, &[hbm], &[vmem]);
        b.loop_static(rounds, |b| {
            let x = b.load(MemFormat::W32, at, 0, 1, sums);
            let y = b.v(Op::VAddF, &[x, x]);
            b.store(StoreFormat::W32, y, at, 0, 1, M::ALL, sums);
        });
        b.dma_wait(0, bytes, &[hbm], &[vmem]);
        let desc = DmaDesc::contiguous(Space::Hbm, Space::Vmem, bytes as u32);
        cycles(&b.finish(), &[desc], (0, 0), &chip).expect("schedules")
    };
    // The copy takes longer than a few hundred rounds.
    let (few, many) = (of(8), of(300));
    assert!((few - many).abs() < 0.01 * few, "{few} and {many}");
}

#[test]
fn copies_of_every_few_rounds_count() {
    let (rounds, bytes) = (512u32, 1u32 << 20);
    let of = |every: i32| {
        let chip = chip();
        let mut b = KernelBuilder::new("windows", &chip);
        let (hbm, vmem) = (b.buffer(), b.buffer());
        let (src, dst) = (b.param(), b.param());
        let left = b.s_var(0);
        b.loop_static(rounds, |b| {
            b.if_else(
                left,
                |b| b.s_inc(left, -1),
                |b| {
                    let args = DmaArgs { desc: 0, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem: 0 };
                    b.dma_start(args, &[hbm], &[vmem]);
                    b.dma_wait(0, bytes as i32, &[hbm], &[vmem]);
                    b.set_s(left, Op::SLi, &[(every - 1).into()]);
                },
            );
        });
        let desc = DmaDesc::contiguous(Space::Hbm, Space::Vmem, bytes);
        cycles(&b.finish(), &[desc], (0, 0), &chip).expect("schedules")
    };
    let one = f64::from(bytes) / chip().hbm_bytes_per_cycle();
    for every in [2, 3, 4, 7, 100] {
        let (ours, all) = (of(every), f64::from(rounds.div_ceil(every as u32)) * one);
        assert!(ours > all && ours < 1.5 * all, "{every}: {ours} for {all}");
    }
}

#[test]
fn copies_take_bandwidth_and_latency() {
    let of = |(outer, copies): (u32, u32), bytes: u32| {
        let chip = chip();
        let mut b = KernelBuilder::new("copies", &chip);
        let (hbm, vmem) = (b.buffer(), b.buffer());
        let (src, dst) = (b.param(), b.param());
        b.loop_static(outer, |b| {
            b.loop_static(copies, |b| {
                let args = DmaArgs { desc: 0, src, src_offset: S::ZERO, dst, dst_offset: S::ZERO, sem: 0 };
                b.dma_start(args, &[hbm], &[vmem]);
                b.dma_wait(0, bytes as i32, &[hbm], &[vmem]);
            });
        });
        let desc = DmaDesc::contiguous(Space::Hbm, Space::Vmem, bytes);
        cycles(&b.finish(), &[desc], (0, 0), &chip).expect("schedules")
    };
    let chip = chip();
    let lat = chip.hbm_latency_cycles() as f64 + f64::from(chip.dma.issue_cycles);
    for bytes in [4096u32, 1 << 20] {
        let one = lat + f64::from(bytes) / chip.hbm_bytes_per_cycle();
        for (more, less, copies) in [((1, 1000), (1, 500), 500.0), ((300, 20), (100, 20), 4000.0)] {
            let ours = (of(more, bytes) - of(less, bytes)) / copies;
            assert!((ours / one - 1.0).abs() < 0.05, "{bytes} bytes: {ours} for {one}");
        }
    }
}
