//! Uncertainty: draws of every coefficient from a log-normal distribution about its value, within its range.
//!
//! Draw `i` of a coefficient depends on its name and `i` alone: the same draw is shared by all designs, so that what is
//! uncertain for all of them cancels where they are compared.

use super::Prices;
use systole_isa::ChipConfig;
use systole_isa::chip::{Cost, Sourced};

/// Draws that percentiles are taken of.
pub const DRAWS: u64 = 400;

/// What a name's numbers begin with.
fn key(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A number from 0 to 1 that follows from a key and a number.
fn uniform(key: u64, index: u64) -> f64 {
    let mut h = key.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    h = (h ^ (h >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((h ^ (h >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// The standard normal numbers of draws `2 * pair` and `2 * pair + 1`, by the method of Box and Muller.
fn normals(key: u64, pair: u64) -> [f64; 2] {
    let (u, v) = (uniform(key, 2 * pair).max(1e-300), uniform(key, 2 * pair + 1));
    let (sin, cos) = (std::f64::consts::TAU * v).sin_cos();
    let r = (-2.0 * u.ln()).sqrt();
    [r * cos, r * sin]
}

/// A coefficient where its normal number is `normal`.
fn drawn(row: &Sourced, normal: f64) -> f64 {
    (row.value * (row.quality.sigma() * normal).exp()).clamp(row.low, row.high)
}

/// A coefficient's row of the chip file, and the key of its name if it is not certain.
fn uncertain(chip: &ChipConfig, c: Cost) -> (&Sourced, Option<u64>) {
    let row = chip.costs.row(c);
    (row, (row.low < row.high).then(|| key(c.info().0)))
}

/// The prices of a draw.
pub fn draw(chip: &ChipConfig, draw: u64) -> Prices {
    let price = |&c: &Cost| {
        let (row, key) = uncertain(chip, c);
        key.map_or(row.value, |k| drawn(row, normals(k, draw / 2)[(draw % 2) as usize]))
    };
    Prices(Cost::ALL.iter().map(price).collect())
}

/// The prices of the first [`DRAWS`] draws: percentiles of several quantities are taken of the same ones.
pub fn all(chip: &ChipConfig) -> Vec<Prices> {
    let mut out: Vec<Prices> = (0..DRAWS).map(|_| Prices(Vec::with_capacity(Cost::ALL.len()))).collect();
    for &c in Cost::ALL {
        let (row, key) = uncertain(chip, c);
        for (pair, of) in (0..).zip(out.chunks_mut(2)) {
            let both = key.map(|k| normals(k, pair));
            for (i, prices) in of.iter_mut().enumerate() {
                prices.0.push(both.map_or(row.value, |n| drawn(row, n[i])));
            }
        }
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
