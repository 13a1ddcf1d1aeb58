// c = a x b with a 16 x 16 and b 16 x 8, in one pass of bf16: each of the two 8 x 8 arrays holds half of b, and the
// vector unit adds their results.

.program matmul
.chip tiny
.param a f32[16,16]             // two planes of 8 columns: rows 0 .. 15 and 16 .. 31 in memory
.param b f32[16,8]
.result c f32[16,8]
.op matmul dot flops 4096 peak f32

.desc load_a  = hbm -> vmem chunk 1024
.desc load_b  = hbm -> vmem chunk 512
.desc store_c = vmem -> hbm chunk 512

.loc 0
    // VMEM rows: a at 0, b at 32, c at 48.
    s.li s1, @a | s.li s2, @b
    s.li s3, @c | s.li s4, 32
    s.li s5, 48 | dma.start load_b, s2, s0, s4, s0, sem1
    s.li s6, 4 | s.li s7, 0 | dma.start load_a, s1, s0, s0, s0, sem0

    // Weights: rows 0 .. 7 of b to the first array, 8 .. 15 to the second.
    dma.wait sem1, @b.bytes
    v.ld v0, s4, 0, 1 | v.ld v1, s4, 4, 1
    v.ld v2, s4, 8, 1 | v.ld v3, s4, 12, 1
    mxu.stage mxu0, v0, 0, bf16 | mxu.stage mxu1, v2, 0, bf16
    mxu.stage mxu0, v1, 0, bf16 | mxu.stage mxu1, v3, 0, bf16
    mxu.latch mxu0 | mxu.latch mxu1

    dma.wait sem0, @a.bytes
rows:
    v.ld v4, s7, 0, 1 | v.ld v5, s7, 16, 1
    mxu.push mxu0, v4, 0, bf16 | mxu.push mxu1, v5, 0, bf16
    mxu.pop v6, mxu0, 0 | mxu.pop v7, mxu1, 0
    v.add.f32 v8, v6, v7
    v.st v8, s7, 48, 1, m0 | s.addi s7, s7, 4 | b.loop s6, rows

    dma.start store_c, s5, s0, s3, s0, sem0
    dma.wait sem0, @c.bytes
    b.halt
