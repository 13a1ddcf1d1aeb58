//! The code of transfers between devices.

use super::super::main_program::Emitter;
use super::Cx;
use crate::plan::action::Flight;
use crate::plan::collective::{Stage, Table, Transfer};
use systole_codegen::kernel::build_units::RemoteArgs;
use systole_codegen::kernel::{KernelBuilder, S};
use systole_isa::{DmaDesc, Op, Space};

impl Emitter<'_> {
    pub(super) fn transfer(&mut self, t: &Transfer, f: &Flight) {
        let (src, dst) = (f.src, f.dst);
        let cx = self.cx(self.all, f);
        let desc = self.desc(DmaDesc::contiguous(Space::Hbm, Space::Hbm, t.bytes as u32));
        let b = &mut self.b;
        let (from, to) = (b.s_imm(src as i32), b.s_imm(dst as i32));
        match (t.stage, t.table) {
            (Stage::Recv, Some(table)) => with_peer(b, &cx, table, 1, |b, source| cx.signal(b, source, t.ready, 1)),
            (Stage::Send, Some(table)) => with_peer(b, &cx, table, 0, |b, device| {
                cx.wait(b, t.ready, 1);
                cx.send(b, RemoteArgs { desc, src: from, dst: to, device, send: t.send, recv: t.recv });
            }),
            (Stage::SendDone, Some(table)) => with_peer(b, &cx, table, 0, |b, _| cx.wait(b, t.send, t.bytes)),
            (Stage::Send, None) => cx.copy(b, desc, from, to, t.recv),
            (Stage::Recv | Stage::SendDone, None) => {}
            (Stage::RecvDone, _) => {
                match t.table {
                    Some(table) => with_peer(b, &cx, table, 1, |b, _| cx.wait(b, t.recv, t.bytes)),
                    None => cx.wait(b, t.recv, t.bytes),
                }
                cx.copy(b, desc, from, to, t.local);
                cx.wait(b, t.local, t.bytes);
            }
        }
    }
}

/// Runs code with the device in a word of the table, if there is one.
fn with_peer(b: &mut KernelBuilder, cx: &Cx, table: Table, word: u32, f: impl FnOnce(&mut KernelBuilder, S)) {
    let device = cx.word(b, table, word);
    let none = b.s_imm(-1);
    let is = b.s(Op::SLt, &[none, device]);
    b.if_(is, |b| f(b, device));
}
