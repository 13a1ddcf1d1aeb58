//! How sequences lie that a sorting network sorts.

/// How `batch` sequences of `count` elements lie: `2^row_bits` rows, `2^group_bits` lanes each. Element `i` of a sequence is at row
/// `i mod 2^row_bits`, in lane `i / 2^row_bits` of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    pub batch: u64,
    pub count: u64,
    pub row_bits: u32,
    pub group_bits: u32,
}

fn log2_up(n: u64) -> u32 {
    n.max(1).next_power_of_two().ilog2()
}

impl Network {
    /// The cheapest on registers of so many rows and lanes: lanes in use against steps across lanes, which cost about three times
    /// those between rows.
    pub fn choose(batch: u64, count: u64, (sublanes, lanes): (u64, u64)) -> Network {
        let least = 2 * sublanes.max(1).ilog2();
        (0..=lanes.max(1).ilog2())
            .map(|group_bits| {
                let row_bits = log2_up(count.div_ceil(1 << group_bits)).max(least);
                Network { batch, count, row_bits, group_bits }
            })
            .min_by_key(|s| {
                let (all, across) = (s.row_bits + s.group_bits, s.group_bits);
                let steps = all * (all + 1) / 2 + across * (across + 1);
                ((s.batch << s.group_bits).div_ceil(lanes) << s.row_bits) * steps as u64
            })
            .expect("there is a choice without lanes")
    }

    pub fn rows(&self) -> u64 {
        1 << self.row_bits
    }

    /// Sizes of the network's array: rows, and lanes of all sequences.
    pub fn dims(&self) -> [u64; 2] {
        [self.rows(), self.batch << self.group_bits]
    }

    /// The network's array transposed: a lane's elements in a row.
    pub fn turned(&self) -> [u64; 2] {
        let [rows, lanes] = self.dims();
        [lanes, rows]
    }

    /// Whether sequences are best put together as rows first, and transposed then.
    pub fn turns(&self, (sublanes, lanes): (u64, u64)) -> bool {
        self.rows() >= lanes && (self.batch << self.group_bits) >= sublanes
    }

    /// Whether the transposed array has the sequences' elements in their order, each at a place of its own.
    pub fn is_full(&self) -> bool {
        self.count == 1 << (self.row_bits + self.group_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sequences_lie_over_as_many_lanes_as_there_are() {
        let n = Network::choose(8, 1 << 17, (8, 128));
        assert_eq!((n.dims(), n.turned()), ([8192, 128], [128, 8192]));
        assert!(n.turns((8, 128)) && n.is_full());
        assert!(!Network::choose(8, 1000, (8, 128)).is_full());
    }
}
