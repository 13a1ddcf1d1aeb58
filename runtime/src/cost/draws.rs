//! Uncertainty: draws of every coefficient from a log-normal distribution about its value, within its range.
//!
//! The draws are a Latin hypercube: every coefficient takes the middle of each of as many equally likely parts of its distribution as there
//! are draws once, in an order of its own. So percentiles of few draws are close, and a draw costs little more than a product.
//!
//! The order depends on the coefficient's name alone: the same draw is shared by all designs, so that what is uncertain for all of
//! them cancels where they are compared.

use super::Prices;
use systole_isa::ChipConfig;
use systole_isa::chip::{Cost, Quality};

/// Draws that percentiles are taken of.
pub const DRAWS: usize = 400;

/// Draws where many designs are compared with each other.
pub const FEW: usize = 64;

/// For every coefficient the parts of the distribution, in its order.
type Orders<const N: usize> = [[u16; N]; Cost::ALL.len()];

static ORDERS: Orders<DRAWS> = orders();
static ORDERS_OF_FEW: Orders<FEW> = orders();

const fn orders<const N: usize>() -> Orders<N> {
    let mut all = [[0; N]; Cost::ALL.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = order(key(Cost::ALL[i].info().0));
        i += 1;
    }
    all
}

/// What a name's numbers begin with.
const fn key(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let (mut hash, mut i) = (0xcbf2_9ce4_8422_2325u64, 0);
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// A number below `n` that follows from a key and a number.
const fn below(n: usize, key: u64, index: u64) -> usize {
    let mut h = key.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    h = (h ^ (h >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((((h ^ (h >> 31)) >> 32) * n as u64) >> 32) as usize
}

/// The parts of the distribution in a key's order (Fisher and Yates).
const fn order<const N: usize>(key: u64) -> [u16; N] {
    let mut parts = [0; N];
    let mut i = 0;
    while i < N {
        parts[i] = i as u16;
        i += 1;
    }
    let mut left = N;
    while left >= 2 {
        let other = below(left, key, left as u64);
        (parts[left - 1], parts[other]) = (parts[other], parts[left - 1]);
        left -= 1;
    }
    parts
}

/// The standard normal number below which a share of all lies, by Acklam's approximation (relative error below 1.2e-9).
fn quantile(share: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e+01,
        2.209460984245205e+02,
        -2.759285104469687e+02,
        1.383577518672690e+02,
        -3.066479806614716e+01,
        2.506628277459239e+00,
    ];
    const B: [f64; 6] = [
        -5.447609879822406e+01,
        1.615858368580409e+02,
        -1.556989798598866e+02,
        6.680131188771972e+01,
        -1.328068155288572e+01,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-03,
        -3.223964580411365e-01,
        -2.400758277161838e+00,
        -2.549732539343734e+00,
        4.374664141464968e+00,
        2.938163982698783e+00,
    ];
    const D: [f64; 5] =
        [7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00, 1.0];
    let poly = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = share.min(1.0 - share);
    if tail < 0.02425 {
        let q = (-2.0 * tail.ln()).sqrt();
        return (poly(&C, q) / poly(&D, q)).copysign(share - 0.5);
    }
    let q = share - 0.5;
    q * poly(&A, q * q) / poly(&B, q * q)
}

/// What a coefficient of a quality is of its value in each part of the distribution.
fn factors<const N: usize>(quality: Quality) -> [f64; N] {
    std::array::from_fn(|i| (quality.sigma() * quantile((i as f64 + 0.5) / N as f64)).exp())
}

/// The prices of [`DRAWS`] draws: percentiles of several quantities are taken of the same ones.
pub fn all(chip: &ChipConfig) -> Vec<Prices> {
    draw(chip, &ORDERS)
}

/// The prices of [`FEW`] draws.
pub fn few(chip: &ChipConfig) -> Vec<Prices> {
    draw(chip, &ORDERS_OF_FEW)
}

fn draw<const N: usize>(chip: &ChipConfig, orders: &Orders<N>) -> Vec<Prices> {
    let certain = Prices::of(chip);
    let mut out = vec![certain; N];
    for quality in [Quality::H, Quality::M, Quality::L] {
        let factors = factors::<N>(quality);
        for (&c, order) in Cost::ALL.iter().zip(orders) {
            let row = chip.costs.row(c);
            if row.quality == quality && row.low < row.high {
                for (prices, &part) in out.iter_mut().zip(order) {
                    prices.0[c as usize] = (row.value * factors[usize::from(part)]).clamp(row.low, row.high);
                }
            }
        }
    }
    out
}

/// 5, 50 and 95 % of values.
pub fn percentiles(mut values: Vec<f64>) -> [f64; 3] {
    let Some(last) = values.len().checked_sub(1) else { return [0.0; 3] };
    // Each is looked for among all, of which little is sorted.
    [0.05, 0.5, 0.95].map(|share| {
        let at = (last as f64 * share).round() as usize;
        *values.select_nth_unstable_by(at, f64::total_cmp).1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_centred_shared_and_within_range() {
        let (v4, v3) = (ChipConfig::from_preset("tpu-v4"), ChipConfig::from_preset("tpu-v3"));
        let (v4, v3) = (v4.expect("a preset"), v3.expect("a preset"));
        let of = |chip: &ChipConfig, c| all(chip).iter().map(|p| p.get(c)).collect::<Vec<f64>>();
        let macs = of(&v4, Cost::MacBf16);
        let [low, middle, high] = percentiles(macs.clone());
        assert!((middle / 0.98 - 1.0).abs() < 0.05, "{middle}");
        assert!(low >= 0.6 && high <= 1.4 && low < 0.7 && high > 1.35, "{low} {high}");
        // The same draw errs to the same side on another node.
        let others = of(&v3, Cost::MacBf16);
        let same = macs.iter().zip(&others).filter(|(a, b)| (**a > 0.98) == (**b > 2.2)).count();
        assert_eq!(same, DRAWS);
        assert!(of(&v4, Cost::Reticle).iter().all(|&x| x == 858.0));
    }

    #[test]
    fn normal_numbers_are_those_of_tables() {
        for (share, normal) in
            [(0.5, 0.0), (0.841344746, 1.0), (0.158655254, -1.0), (0.975, 1.959963985), (0.001, -3.090232306)]
        {
            assert!((quantile(share) - normal).abs() < 1e-7, "{share}: {}", quantile(share));
        }
    }

    #[test]
    fn coefficients_take_every_part_once_and_independently() {
        for (i, a) in ORDERS.iter().enumerate() {
            let mut sorted = *a;
            sorted.sort_unstable();
            assert!(sorted.iter().enumerate().all(|(i, p)| i == usize::from(*p)));
            for b in &ORDERS[..i] {
                let middle = (DRAWS - 1) as f64 / 2.0;
                let products = a.iter().zip(b).map(|(a, b)| (f64::from(*a) - middle) * (f64::from(*b) - middle));
                let correlation = products.sum::<f64>() * 12.0 / (DRAWS as f64).powi(3);
                assert!(correlation.abs() < 0.2, "{correlation}");
            }
        }
    }
}
