//! Where buffers are read and written: positions of steps, and how long contents must be kept.

use crate::plan::step::{Arg, Step, Use};
use crate::plan::view::BufId;

/// Reads and writes of every buffer, by step number (steps are numbered depth first; a loop's number is that of its
/// end, and its start is its first inner step).
#[derive(Clone, Debug, Default)]
pub struct Lifetimes {
    /// Numbers of the steps that read the buffer, ascending.
    pub reads: Vec<Vec<u32>>,
    pub writes: Vec<Vec<u32>>,
    /// After this step the contents are not needed any more.
    pub last: Vec<u32>,
}

struct Walk {
    out: Lifetimes,
    next: u32,
    /// Start of every loop around the current step.
    loops: Vec<u32>,
    first: Vec<Option<u32>>,
    /// Reads, with the starts of the loops around them: resolved at the loop's end.
    pending: Vec<Vec<(u32, u32)>>,
}

impl Lifetimes {
    /// Lifetimes over a program of `buffers` buffers. `keep` are needed to the end; those defined before the program
    /// (parameters, constants) are `given`.
    pub fn new(steps: &[Step], buffers: usize, given: &dyn Fn(BufId) -> bool, keep: &[BufId]) -> Lifetimes {
        let mut w = Walk {
            out: Lifetimes {
                reads: vec![Vec::new(); buffers],
                writes: vec![Vec::new(); buffers],
                last: vec![0; buffers],
            },
            next: 0,
            loops: Vec::new(),
            first: (0..buffers as u32).map(|i| given(BufId(i)).then_some(0)).collect(),
            pending: vec![Vec::new(); buffers],
        };
        w.steps(steps);
        for &k in keep {
            w.out.last[k.index()] = u32::MAX;
        }
        w.out
    }

    /// The next read of a buffer after a step.
    pub fn next_read(&self, buf: BufId, after: u32) -> Option<u32> {
        let r = &self.reads[buf.index()];
        r.get(r.partition_point(|&p| p <= after)).copied()
    }
}

impl Walk {
    fn steps(&mut self, steps: &[Step]) {
        for s in steps {
            self.step(s);
        }
    }

    fn read(&mut self, buf: BufId) {
        let at = self.next;
        self.out.reads[buf.index()].push(at);
        let last = &mut self.out.last[buf.index()];
        *last = (*last).max(at);
        // A read in a loop of something made before the loop keeps it to the loop's end.
        if let Some(&start) = self.loops.iter().find(|&&start| self.first[buf.index()].is_some_and(|f| f < start)) {
            self.pending[buf.index()].push((start, at));
        }
    }

    fn write(&mut self, buf: BufId) {
        let at = self.next;
        self.out.writes[buf.index()].push(at);
        self.first[buf.index()].get_or_insert(at);
        let last = &mut self.out.last[buf.index()];
        *last = (*last).max(at);
    }

    fn step(&mut self, s: &Step) {
        match s {
            Step::Call { args, .. } => {
                for a in args {
                    if let Arg::Array { buf, usage, .. } = a {
                        if *usage != Use::Write {
                            self.read(*buf);
                        }
                        if *usage != Use::Read {
                            self.write(*buf);
                        }
                    }
                }
            }
            Step::Copy { src, dst, .. } => {
                self.read(*src);
                self.write(*dst);
            }
            Step::ReadScalar { buf, .. } => self.read(*buf),
            Step::Host { operands, results, .. } => {
                operands.iter().for_each(|b| self.read(b.0));
                results.iter().for_each(|b| self.write(b.0));
            }
            // Arrays of an exchange that is under way stay to its end.
            Step::Exchange(x) | Step::Begin(x) | Step::End(x) => {
                x.arrays(&mut |b, writes| if writes { self.write(b) } else { self.read(b) });
            }
            Step::Scalar { .. } => {}
            Step::While { head, body, .. } => {
                self.next += 1;
                let start = self.next;
                self.loops.push(start);
                self.steps(head);
                self.steps(body);
                self.loops.pop();
                let end = self.next;
                for (b, p) in self.pending.iter_mut().enumerate() {
                    p.retain(|&(loop_start, _)| {
                        if loop_start == start {
                            self.out.last[b] = self.out.last[b].max(end);
                        }
                        loop_start != start
                    });
                }
            }
            Step::Switch { branches, .. } => {
                for b in branches {
                    self.next += 1;
                    self.steps(b);
                }
            }
        }
        self.next += 1;
    }
}
