//! Uncertainty: draws of every coefficient from a log-normal distribution about its value, within its range.
//!
//! Draw `i` of a coefficient depends on its name and `i` alone: the same draw is shared by all designs, so that what is
//! uncertain for all of them cancels where they are compared.

use super::Prices;
use systole_isa::ChipConfig;
use systole_isa::chip::{Cost, Sourced};

/// Draws that percentiles are taken of.
pub const DRAWS: u64 = 400;

/// A number from 0 to 1 that follows from a text and a number.
fn uniform(name: &str, index: u64) -> f64 {
    let mut h = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D;
    for b in name.bytes() {
        h = (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h = (h ^ (h >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((h ^ (h >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// A standard normal number of a draw.
fn normal(name: &str, draw: u64) -> f64 {
    let (u, v) = (uniform(name, 2 * draw).max(1e-300), uniform(name, 2 * draw + 1));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// A coefficient in a draw.
fn drawn(row: &Sourced, name: &str, draw: u64) -> f64 {
    if row.low >= row.high {
        return row.value;
    }
    (row.value * (row.quality.sigma() * normal(name, draw)).exp()).clamp(row.low, row.high)
}

/// The prices of a draw.
pub fn draw(chip: &ChipConfig, draw: u64) -> Prices {
    Prices(Cost::ALL.iter().map(|&c| drawn(chip.costs.row(c), c.info().0, draw)).collect())
}

/// The prices of the first [`DRAWS`] draws: percentiles of several quantities are taken of the same ones.
pub fn all(chip: &ChipConfig) -> Vec<Prices> {
    let mut out: Vec<Prices> = (0..DRAWS).map(|_| Prices(Vec::with_capacity(Cost::ALL.len()))).collect();
    for &c in Cost::ALL {
        let (row, name) = (chip.costs.row(c), c.info().0);
        (0..).zip(&mut out).for_each(|(i, p)| p.0.push(drawn(row, name, i)));
    }
    out
}

/// 5, 50 and 95 % of values.
pub fn percentiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len() as f64 - 1.0) * share).round() as usize).copied().unwrap_or(0.0);
    [at(0.05), at(0.5), at(0.95)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_centred_shared_and_within_range() {
        let (v4, v3) = (ChipConfig::from_preset("tpu-v4"), ChipConfig::from_preset("tpu-v3"));
        let (v4, v3) = (v4.expect("a preset"), v3.expect("a preset"));
        let of = |chip: &ChipConfig, c| (0..DRAWS).map(|i| draw(chip, i).get(c)).collect::<Vec<f64>>();
        let macs = of(&v4, Cost::MacBf16);
        let [low, middle, high] = percentiles(macs.clone());
        assert!((middle / 0.98 - 1.0).abs() < 0.05, "{middle}");
        assert!(low >= 0.6 && high <= 1.4 && low < 0.7 && high > 1.35, "{low} {high}");
        // The same draw errs to the same side on another node.
        let others = of(&v3, Cost::MacBf16);
        let same = macs.iter().zip(&others).filter(|(a, b)| (**a > 0.98) == (**b > 2.2)).count();
        assert_eq!(same as u64, DRAWS);
        assert!(of(&v4, Cost::Reticle).iter().all(|&x| x == 858.0));
        assert_eq!(all(&v4), (0..DRAWS).map(|i| draw(&v4, i)).collect::<Vec<_>>());
    }
}
