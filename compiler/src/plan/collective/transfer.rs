//! Transfers between devices: who sends to whom on a channel, and its semaphores.

use super::Table;
use crate::plan::lower::Lower;
use serde::{Deserialize, Serialize};
use systole_hlo::error::CompileError;

/// What a step of a transfer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// Says that the channel's buffer is free.
    Recv,
    Send,
    SendDone,
    RecvDone,
}

/// A step of a transfer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transfer {
    pub stage: Stage,
    /// Words: target and source, or -1; none if every device sends to itself.
    pub table: Option<Table>,
    pub bytes: u64,
    pub ready: u32,
    pub send: u32,
    pub recv: u32,
    pub local: u32,
}

impl Lower<'_> {
    /// A stage of the transfer on a channel (and which of its arrays); why there is none.
    #[allow(clippy::type_complexity, reason = "a wrong program, or no room for it")]
    pub(in crate::plan) fn transfer_plan(
        &mut self,
        (name, channel, leaf): (&str, u64, usize),
        pairs: Option<&[(u64, u64)]>,
        stage: Stage,
        bytes: u64,
    ) -> Result<Result<Transfer, CompileError>, String> {
        let devices = self.plan.pod.shape.devices().max(1) as usize;
        let mut rows = vec![vec![-1, -1]; devices];
        for &(s, t) in pairs.unwrap_or_default() {
            if s.max(t) >= devices as u64 {
                return Err(format!("{s} sends to {t}, but devices are numbered below {devices}"));
            }
            let (from, to) = (s as usize, t as usize);
            if rows[from][0] >= 0 || rows[to][1] >= 0 {
                return Err(format!("device {s} or {t} is twice a source or twice a target"));
            }
            (rows[from][0], rows[to][1]) = (t as i32, s as i32);
        }
        if bytes > i32::MAX as u64 {
            return Err(format!("{bytes} bytes are too many for one transfer"));
        }
        let own = pairs.is_none() || devices == 1;
        if own && devices == 1 && pairs.is_some_and(<[_]>::is_empty) {
            return Err("nobody sends on this channel".into());
        }
        if !own {
            let pairs = pairs.unwrap_or_default().iter().map(|p| vec![p.0 as u32, p.1 as u32]).collect();
            self.plan.pod.transfers.insert(name.to_string(), pairs);
        }
        if !own {
            self.distinguish_pairs(&rows);
        }
        let table = (!own).then(|| self.plan.pod.table(rows));
        let pod = &mut self.plan.pod;
        let mut semaphore = |what: &str| pod.semaphore(&format!("{what} channel {channel} {leaf}"));
        let semaphores = (|| Ok([semaphore("ready")?, semaphore("send")?, semaphore("recv")?]))();
        let local = pod.semaphore("local");
        Ok(semaphores
            .and_then(|[ready, send, recv]| Ok(Transfer { stage, table, bytes, ready, send, recv, local: local? })))
    }
}
