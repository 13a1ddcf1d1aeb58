//! Uncertainty: draws of every coefficient from a log-normal distribution about its value, within its range.
//!
//! The draws are a Latin hypercube: every coefficient takes the middle of each of as many equally likely parts of its distribution as there
//! are draws once, in an order of its own. So percentiles of few draws are close, and a draw costs little more than a product.
//!
//! The order depends on the coefficient's name alone: the same draw is shared by all designs, so that what is uncertain for all of
//! them cancels where they are compared.

use super::number::BESIDE;
use super::{Area, Prices, Several};
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

/// Draws of all prices of a chip, [`BESIDE`] beside each other, and the area that they make of it.
pub struct Drawn {
    prices: Vec<Prices<Several>>,
    areas: Vec<Several>,
}

impl Drawn {
    /// [`DRAWS`] draws: percentiles of several quantities are taken of the same ones.
    pub fn of(chip: &ChipConfig) -> Drawn {
        let prices = draw(chip, &ORDERS);
        let areas = prices.iter().map(|p| Area::of(chip, p).total()).collect();
        Drawn { prices, areas }
    }

    /// What a quantity is in each draw; it is told prices, and the chip's mm².
    pub fn each(&self, quantity: impl Fn(&Prices<Several>, Several) -> Several) -> Vec<f64> {
        let mut all = Vec::with_capacity(DRAWS);
        for (prices, mm2) in self.prices.iter().zip(&self.areas) {
            all.extend_from_slice(&quantity(prices, *mm2).0);
        }
        all
    }
}

/// The prices of [`FEW`] draws.
pub fn few(chip: &ChipConfig) -> Vec<Prices> {
    draw(chip, &ORDERS_OF_FEW).iter().flat_map(Prices::singly).collect()
}

fn draw<const N: usize>(chip: &ChipConfig, orders: &Orders<N>) -> Vec<Prices<Several>> {
    const { assert!(N.is_multiple_of(BESIDE), "draws are computed beside each other") };
    let mut out = vec![Prices::of(chip).several(); N / BESIDE];
    let quantiles: [f64; N] = std::array::from_fn(|i| quantile((i as f64 + 0.5) / N as f64));
    for quality in [Quality::H, Quality::M, Quality::L] {
        let factors = quantiles.map(|q| (quality.sigma() * q).exp());
        for (&c, order) in Cost::ALL.iter().zip(orders) {
            let row = chip.costs.row(c);
            if row.quality == quality && row.low < row.high {
                // In each part of the distribution.
                let values = factors.map(|f| (row.value * f).clamp(row.low, row.high));
                for (prices, parts) in out.iter_mut().zip(order.as_chunks().0) {
                    prices.0[c as usize] = Several(parts.map(|part| values[usize::from(part)]));
                }
            }
        }
    }
    out
}

/// 5, 50 and 95 % of values.
pub fn percentiles(mut values: Vec<f64>) -> [f64; 3] {
    let Some(last) = values.len().checked_sub(1) else { return [0.0; 3] };
    let [low, middle, high] = [0.05, 0.5, 0.95].map(|share| (last as f64 * share).round() as usize);
    // Each is looked for among those that may be it, of which little is sorted.
    let (below, &mut median, above) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let of = |part: &mut [f64], at| *part.select_nth_unstable_by(at, f64::total_cmp).1;
    let low = if low < middle { of(below, low) } else { median };
    let high = if high > middle { of(above, high - middle - 1) } else { median };
    [low, median, high]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_centred_shared_and_within_range() {
        let (v4, v3) = (ChipConfig::from_preset("tpu-v4"), ChipConfig::from_preset("tpu-v3"));
        let (v4, v3) = (v4.expect("a preset"), v3.expect("a preset"));
        let of = |chip: &ChipConfig, c| Drawn::of(chip).each(|p, _| p.get(c));
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
    fn draws_beside_each_other_are_those_one_by_one() {
        use crate::cost::{Work, energy};
        use systole_simulator::stats::Activity;
        for name in ChipConfig::preset_names() {
            let chip = ChipConfig::from_preset(name).expect("a preset");
            let mut work = Work { useful: [1e9, 2e8, 3e7], padding: [4e6, 5e6, 6e6], ..Work::default() };
            (work.traffic.hbm_read, work.traffic.hbm_write) = (7, 6);
            (work.traffic.cmem_read, work.traffic.cmem_write, work.link_bytes) = (5, 4, 3);
            for (&kind, n) in Activity::ALL.iter().zip(1000..) {
                (work.activity[kind], work.empty[kind]) = (n, n / 3);
            }
            let drawn = Drawn::of(&chip);
            let singly: Vec<Prices> = drawn.prices.iter().flat_map(Prices::singly).collect();
            let counted = energy::Counted::of(&chip, &work);
            let bits = |all: Vec<f64>| all.into_iter().map(f64::to_bits).collect::<Vec<u64>>();
            let one = singly.iter().map(|p| counted.energy(1e-3, 2, p).total()).collect();
            assert_eq!(bits(drawn.each(|p, mm2| counted.total((1e-3, 2), p, mm2))), bits(one), "{name}");
            let one = singly.iter().map(|p| Area::of(&chip, p).total()).collect();
            assert_eq!(bits(drawn.each(|_, mm2| mm2)), bits(one), "{name}");
            let one = singly.iter().map(|p| energy::idle_power(&chip, p)).collect();
            assert_eq!(bits(drawn.each(|p, mm2| energy::idle_power_of(mm2, &chip, p))), bits(one), "{name}");
        }
    }

    #[test]
    fn percentiles_are_those_of_sorted_values() {
        for n in 0..50 {
            let values: Vec<f64> = (0..n).map(|i| f64::from(i * 7919 % 31)).collect();
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let at = |share: f64| sorted.get(((n - 1) as f64 * share).round() as usize).copied().unwrap_or_default();
            assert_eq!(percentiles(values), [at(0.05), at(0.5), at(0.95)], "{n}");
        }
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
