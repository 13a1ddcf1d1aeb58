// sum = a + b, elementwise: copy both in, add a register at a time, copy the sum out.

.program vector_add
.chip tiny                      // registers of 4 sublanes x 8 lanes: a row is 32 bytes
.param a f32[64,8]
.param b f32[64,8]
.result sum f32[64,8]

.desc load  = hbm -> vmem chunk 2048
.desc store = vmem -> hbm chunk 2048

    // Bases count 512-byte granules in HBM and rows in VMEM, where a is at row 0, b at 64, the sum at 128.
    s.li s1, @a | s.li s2, @b
    s.li s3, @sum | s.li s4, 64
    s.li s5, 128 | dma.start load, s1, s0, s0, s0, sem0
    s.li s6, 16 | s.li s7, 0 | dma.start load, s2, s0, s4, s0, sem1
    dma.wait sem0, @a.bytes
    dma.wait sem1, @b.bytes
loop:
    v.ld v0, s7, 0, 1 | v.ld v1, s7, 64, 1
    v.add.f32 v2, v0, v1
    v.st v2, s7, 128, 1, m0 | s.addi s7, s7, 4 | b.loop s6, loop
    dma.start store, s5, s0, s3, s0, sem0
    dma.wait sem0, @sum.bytes
    b.halt
