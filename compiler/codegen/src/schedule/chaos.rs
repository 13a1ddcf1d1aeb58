//! Random legal choices, to show that no result depends on the scheduler's taste.

/// A seeded source of choices; without a seed every choice is the scheduler's own.
#[derive(Clone, Debug)]
pub struct Chaos(Option<u64>);

impl Chaos {
    pub fn new(seed: Option<u64>) -> Chaos {
        Chaos(seed.map(|s| s.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A number below `n`; 0 without a seed.
    pub fn below(&mut self, n: usize) -> usize {
        let Some(s) = &mut self.0 else { return 0 };
        *s ^= *s << 13;
        *s ^= *s >> 7;
        *s ^= *s << 17;
        (*s >> 11) as usize % n.max(1)
    }

    /// Replaces priorities by random ones.
    pub fn perturb(&mut self, priority: &mut [(i32, usize)]) {
        if self.is_on() {
            for p in priority {
                p.0 = self.below(1 << 20) as i32;
            }
        }
    }
}
