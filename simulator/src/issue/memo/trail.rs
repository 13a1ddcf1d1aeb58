//! Composed rounds that follow each other in the same order again: a ring of three buffers and one of two, for example, are back where
//! they were after six rounds. Those are composed as one round of them all: what one of them leaves and the next one asks for is then
//! known, and asked for no more.

use super::super::run::SCALARS;

/// Fewest and most rounds of an order.
const SHORTEST: usize = 4;
const LONGEST: usize = 12;
/// Times that an order is seen before it is composed, and most orders that are remembered before.
const SEEN: u32 = 8;
const REMEMBERED: usize = 16;

/// Composed rounds that followed each other.
#[derive(Debug, Default)]
pub(super) struct Trail {
    pub laps: Vec<u32>,
    /// What registers held when the first of them began.
    begun: Option<Box<[i32; SCALARS]>>,
    /// Orders that were seen, and how often.
    orders: Vec<(Vec<u32>, u32)>,
}

impl Trail {
    /// What follows does not follow what is written down.
    pub fn leave(&mut self) {
        self.laps.clear();
    }

    pub fn begun(&self) -> Option<&[i32; SCALARS]> {
        self.begun.as_deref()
    }

    /// What follows is written down from a round on that begins with these registers.
    pub fn begin(&mut self, lap: u32, registers: &[i32; SCALARS]) {
        self.laps.clear();
        self.laps.push(lap);
        **self.begun.get_or_insert_with(|| Box::new([0; SCALARS])) = *registers;
    }

    /// A round follows: whether those back to the last one like it are to be composed as one. If not, it is written down.
    pub fn comes_again(&mut self, lap: u32, registers: &[i32; SCALARS]) -> bool {
        let again = self.laps.len() >= SHORTEST && self.laps[0] == lap;
        if !again && !self.laps.is_empty() && self.laps.len() < LONGEST {
            self.laps.push(lap);
            return false;
        }
        if again && self.is_due() {
            return true;
        }
        self.begin(lap, registers);
        false
    }

    /// Counts the order that was written down.
    fn is_due(&mut self) -> bool {
        match self.orders.iter_mut().find(|o| o.0 == self.laps) {
            Some((_, times)) => {
                *times += 1;
                *times == SEEN
            }
            None => {
                if self.orders.len() == REMEMBERED {
                    self.orders.remove(0);
                }
                self.orders.push((self.laps.clone(), 1));
                false
            }
        }
    }
}
