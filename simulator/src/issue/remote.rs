//! What a core sends to other devices and gets from them.
//!
//! A core never waits for the interconnect by itself: it puts messages into its outbox and stops at a wait that nothing
//! under way can satisfy. The pod carries messages and lets the core go on.

use super::code::RemoteStart;
use super::run::Core;
use crate::fault::{Fault, FaultKind, Issued};
use crate::options::Mode;
use crate::unit::dma::{self, By, Memories, Transfer};
use systole_isa::Space;

/// A wait for other devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    Semaphore {
        semaphore: u32,
        need: u64,
        have: u64,
    },
    /// A look at a semaphore at a cycle: what was sent to it until then must be there first.
    Look {
        cycle: u64,
    },
}

/// What a message does at its end.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// A transfer: descriptor, byte addresses of both sides, the semaphore that counts the source's bytes, and the bytes
    /// themselves (none in timing-only runs).
    Data {
        desc: u32,
        src: i64,
        dst: i64,
        send: u32,
        payload: Option<Vec<u8>>,
    },
    Signal,
}

/// A message to another device.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub from: u32,
    pub to: u32,
    /// Cycle at which its head reaches the first link.
    pub at: u64,
    /// Semaphore there, and what it gets.
    pub recv: u32,
    pub bytes: u64,
    /// Bundle that sent it, and the debug op.
    pub bundle: u32,
    pub op: u32,
    pub content: Content,
}

/// A core's side of the interconnect.
#[derive(Debug, Default)]
pub(crate) struct Remote {
    /// Devices that run the program.
    pub devices: u32,
    pub outbox: Vec<Message>,
    pub blocked: Option<Blocked>,
    /// What arrives up to this cycle is there.
    pub known: u64,
}

type Step<T> = Result<T, FaultKind>;

impl Core<'_> {
    /// Joins the core to a pod.
    pub fn join(&mut self, devices: u32) {
        self.remote = Some(Box::new(Remote { devices, ..Remote::default() }));
        self.dma.share();
        self.stats.defer();
    }

    /// What the core waits for.
    pub fn blocked_on(&self) -> Option<Blocked> {
        self.remote.as_ref().and_then(|r| r.blocked)
    }

    /// Whether what the core waits for has come.
    pub fn may_go_on(&self) -> bool {
        match self.blocked_on() {
            Some(Blocked::Semaphore { semaphore, need, .. }) => self.semaphores.ready(semaphore as usize, need).is_ok(),
            Some(Blocked::Look { cycle }) => self.remote.as_ref().is_some_and(|r| r.known >= cycle),
            None => false,
        }
    }

    /// Whatever arrives up to `cycle` has arrived.
    pub fn knows_until(&mut self, cycle: u64) {
        if let Some(r) = &mut self.remote {
            r.known = r.known.max(cycle);
        }
    }

    /// Stops before a look at a semaphore at `cycle` while other devices may still send something until then.
    pub(super) fn look(&mut self, cycle: u64) -> Step<()> {
        match &mut self.remote {
            Some(r) if r.known < cycle => {
                r.blocked = Some(Blocked::Look { cycle });
                Err(FaultKind::Deadlock { waits_for: String::new() })
            }
            _ => Ok(()),
        }
    }

    /// Whether a semaphore holds so much now. Runs without times never say so.
    pub(super) fn holds(&self, semaphore: u8, bytes: u32) -> bool {
        let ready = self.semaphores.ready(semaphore as usize, u64::from(bytes));
        self.timed() && ready.is_ok_and(|r| r.0 <= self.now)
    }

    /// Goes on after a wait.
    pub fn resume(&mut self) -> Result<bool, Fault> {
        if let Some(r) = &mut self.remote {
            r.blocked = None;
        }
        self.advance()
    }

    /// Messages since the last call, in exchange for an empty list.
    pub fn swap_outbox(&mut self, empty: Vec<Message>) -> Vec<Message> {
        self.remote.as_mut().map_or_else(Vec::new, |r| std::mem::replace(&mut r.outbox, empty))
    }

    /// The core's clock and the bundles it has issued.
    pub fn progress(&self) -> (u64, u64) {
        (self.now, self.stats.bundles)
    }

    /// The core's clock, and the HLO operation that it is in.
    pub fn place(&self) -> (u64, &str) {
        let op = self.l.program.debug.ops.get(self.stats.op() as usize);
        (self.now, op.map_or("(none)", |o| o.name.as_str()))
    }

    /// A fault at the core's present place.
    pub fn fault_here(&self, kind: FaultKind) -> Fault {
        self.fault(kind)
    }

    /// Semaphores that hold bytes that no wait took.
    pub fn left_over(&self) -> Vec<(u32, u64)> {
        self.semaphores.unbalanced()
    }

    /// The device that a register names.
    fn target(&self, register: u8) -> Step<u32> {
        let unit = || "interconnect".to_string();
        let Some(remote) = &self.remote else {
            return Err(FaultKind::Protocol { unit: unit(), message: "the program runs on one device".into() });
        };
        match self.scalar_value(register) {
            (d, true) if (0..remote.devices as i32).contains(&d) => Ok(d as u32),
            (d, true) => Err(FaultKind::Protocol {
                unit: unit(),
                message: format!("device {d} does not exist (there are {})", remote.devices),
            }),
            (_, false) => Err(FaultKind::Protocol {
                unit: unit(),
                message: "the device depends on data that timing-only runs do not have".into(),
            }),
        }
    }

    pub(super) fn timed(&self) -> bool {
        self.options.mode != Mode::NumericOnly
    }

    pub(super) fn start_remote(&mut self, start: u32) -> Step<()> {
        let s: RemoteStart = self.l.code.remotes[start as usize];
        let n = self.l.program.descs.len() as u32;
        let to = self.target(s.device)?;
        let g = &self.l.geometry[s.desc as usize];
        let from = self.address(g.src, s.src, 0);
        let src = self.range(g.src, &g.from, from)?;
        let dst = self.address(g.dst, s.dst, 0).0;
        self.note_hbm(s.desc + n, src, 0);
        if let Some(race) = &mut self.race {
            let t = Transfer {
                desc: s.desc + n,
                sem: s.send as u32,
                bundle: self.pc,
                bytes: g.bytes,
                src,
                dst: 0,
                peer: Some(to),
            };
            if let Some(c) = race.start(&self.l.geometry, t) {
                return Err(c.fault(self.l, "DMA over", c.memory(&self.l.geometry)));
            }
        }
        let mut at = 0;
        if self.timed() {
            let (head, moved) = self.dma.send(g, src, (self.now, self.blame));
            at = head;
            self.stats.transfer(moved);
        }
        let payload = self.values.as_deref_mut().map(|v| {
            let mut m = Memories { hbm: self.hbm, vmem: &mut v.vmem, smem: self.smem };
            dma::gather(g, src, &mut m)
        });
        let content = Content::Data { desc: s.desc, src, dst, send: s.send as u32, payload };
        self.post(Message {
            from: self.options.device,
            to,
            at,
            recv: s.recv as u32,
            bytes: g.bytes,
            bundle: self.pc,
            op: self.stats.op(),
            content,
        });
        Ok(())
    }

    pub(super) fn signal(&mut self, device: u8, sem: u8, count: u32) -> Step<()> {
        let at = if self.timed() { self.now + self.dma.issue() } else { 0 };
        // A program of one device has no links, and its own semaphores.
        if self.remote.is_none() && self.scalar_value(device) == (0, true) {
            self.semaphores.add(sem as usize, at, u64::from(count), By::Link(self.now));
            return Ok(());
        }
        let to = self.target(device)?;
        self.post(Message {
            from: self.options.device,
            to,
            at,
            recv: sem as u32,
            bytes: count as u64,
            bundle: self.pc,
            op: self.stats.op(),
            content: Content::Signal,
        });
        Ok(())
    }

    fn post(&mut self, m: Message) {
        if let Some(r) = &mut self.remote {
            r.outbox.push(m);
        }
    }

    /// The source of a message that this core sent has been read, by cycle `at`.
    pub fn sent(&mut self, m: &Message, at: u64) {
        if let Content::Data { desc, src, send, .. } = &m.content {
            if self.timed() {
                self.dma.left(&self.l.geometry[*desc as usize], *src, at);
            }
            self.semaphores.add(*send as usize, at, m.bytes, By::Link(m.at));
        }
    }

    /// A message arrives at cycle `at`.
    pub fn receive(&mut self, m: &Message, at: u64) -> Result<(), Fault> {
        self.place_message(m, at).map_err(|kind| {
            let f = self.fault(kind);
            Fault { at: Issued { bundle: m.bundle, ..f.at }, ..f }
        })
    }

    fn place_message(&mut self, m: &Message, at: u64) -> Step<()> {
        let Content::Data { desc, dst, payload, .. } = &m.content else {
            self.semaphores.add(m.recv as usize, at, m.bytes, By::Link(m.at));
            return Ok(());
        };
        let n = self.l.program.descs.len() as u32;
        let g = &self.l.geometry[*desc as usize];
        let dst = self.range(g.dst, &g.to, (*dst, true))?;
        self.note_hbm(desc + 2 * n, 0, dst);
        if let Some(race) = &mut self.race {
            let t = Transfer {
                desc: desc + 2 * n,
                sem: m.recv,
                bundle: m.bundle,
                bytes: g.bytes,
                src: 0,
                dst,
                peer: Some(m.from),
            };
            if let Some(c) = race.start(&self.l.geometry, t) {
                return Err(c.fault(self.l, "DMA over", c.memory(&self.l.geometry)));
            }
        }
        let mut end = 0;
        if self.timed() {
            let (done, moved) = self.dma.receive(g, dst, at);
            end = done;
            self.stats.transfer(moved);
        }
        match (self.values.as_deref_mut(), payload) {
            (Some(v), Some(bytes)) => {
                let mut memories = Memories { hbm: self.hbm, vmem: &mut v.vmem, smem: self.smem };
                dma::scatter(g, dst, bytes, &mut memories);
            }
            _ => match g.dst {
                Space::Hbm => {
                    let (start, end) = ((dst + g.to.lo) as u64, (dst + g.to.hi) as u64);
                    if self.hbm.touches_pages(start, end) {
                        self.hbm.forget(start, end);
                    }
                }
                Space::Smem => self.smem.forget_all(),
                Space::Vmem => {}
            },
        }
        self.semaphores.add(m.recv as usize, end, m.bytes, By::Link(m.at));
        Ok(())
    }
}
