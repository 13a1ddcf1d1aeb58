//! Energy of work: every count times its coefficient, by unit and by purpose.
//!
//! Energies of the chip go with the square of the voltage, which goes with the clock (`voltage_slope`); those of HBM, of links
//! and of the host do not.

use super::area::Area;
use super::work::{Price, price};
use super::{Number, Prices, Work};
use smallvec::SmallVec;
use systole_isa::chip::Cost;
use systole_isa::{ChipConfig, DType};
use systole_simulator::stats::Activity;

macro_rules! names {
    ($(#[$doc:meta])+ $name:ident { $($variant:ident $text:literal),+ }) => {
        $(#[$doc])+
        #[allow(missing_docs, reason = "the names are the documentation")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($variant),+ }

        impl $name {
            /// All of them, in order.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// Its name in reports.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }
    };
}

names! {
    /// Where energy goes.
    Unit { Mxu "mxu", Vpu "vpu", Xlu "xlu", Vmem "vmem", Smem "smem", Issue "issue", Hbm "hbm", Cmem "cmem", Ici "ici", Host "host", Idle "idle" }
}

names! {
    /// What energy is spent for.
    Purpose { Useful "useful", Padding "padding", Weights "weight load", Movement "movement", Control "control", Idle "idle" }
}

const UNITS: usize = Unit::ALL.len();
const PURPOSES: usize = Purpose::ALL.len();

/// Joules by unit and by purpose: both sum to the total.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    units: [f64; UNITS],
    purposes: [f64; PURPOSES],
}

impl Energy {
    fn add(&mut self, unit: Unit, purpose: Purpose, joules: f64) {
        self.units[unit as usize] += joules;
        self.purposes[purpose as usize] += joules;
    }

    /// Joules of a unit.
    pub fn unit(&self, u: Unit) -> f64 {
        self.units[u as usize]
    }

    /// Joules of a purpose.
    pub fn purpose(&self, p: Purpose) -> f64 {
        self.purposes[p as usize]
    }

    /// All joules.
    pub fn total(&self) -> f64 {
        sum(&self.units)
    }

    /// All but what a chip takes that does nothing.
    pub fn dynamic(&self) -> f64 {
        self.total() - self.unit(Unit::Idle)
    }

    /// The same with the bytes times links that it moved between chips, which it has not so far.
    pub fn with_links(mut self, bytes: f64, prices: &Prices) -> Energy {
        self.add(Unit::Ici, Purpose::Movement, over_links(bytes, prices));
        self
    }
}

/// What units take together.
fn sum<N: Number>(units: &[N; UNITS]) -> N {
    units.iter().fold(N::default(), |sum, unit| sum + *unit)
}

/// The square of the voltage over that at the nominal clock.
pub fn voltage_squared<N: Number>(chip: &ChipConfig, prices: &Prices<N>) -> N {
    prices.get(Cost::NominalClock).zip(prices.get(Cost::VoltageSlope), |clock, slope| {
        let nominal = clock * 1e9;
        if nominal <= 0.0 {
            return 1.0;
        }
        let v = 1.0 + slope * (chip.clock_hz / nominal - 1.0);
        v.max(0.5).powi(2)
    })
}

/// Watts of a chip that does nothing.
pub fn idle_power<N: Number>(chip: &ChipConfig, prices: &Prices<N>) -> N {
    idle_power_of(Area::of(chip, prices).total(), chip, prices)
}

/// [`idle_power`] of a chip of so many mm².
pub fn idle_power_of<N: Number>(mm2: N, chip: &ChipConfig, prices: &Prices<N>) -> N {
    prices.get(Cost::Idle) * mm2 * voltage_squared(chip, prices)
}

/// Joules of bytes times the links that they cross.
pub fn over_links<N: Number>(bytes: f64, prices: &Prices<N>) -> N {
    prices.get(Cost::Ici) * (8.0 * bytes) * 1e-12
}

/// What some work comes to before prices, by how it is priced: the same for all draws of them.
pub struct Counted<'a> {
    chip: &'a ChipConfig,
    work: &'a Work,
    /// Bits read from and written to vector memory, and both of scalar memory.
    read: u64,
    written: u64,
    smem: u64,
    /// Bits of weights.
    weights: f64,
    /// Fetch and issue: how often.
    issue: SmallVec<[(Cost, f64); 4]>,
    /// Operations of lanes, and of these what is not padding.
    lanes: SmallVec<[(Cost, f64, f64); 8]>,
    /// Bits over the link to the host.
    host: u64,
    /// What bits of vector memory cost of those of one of 128 KiB a lane.
    vmem_size: f64,
}

impl<'a> Counted<'a> {
    pub fn of(chip: &'a ChipConfig, work: &'a Work) -> Counted<'a> {
        let lane = chip.vmem.bytes as f64 / f64::from(chip.core.lanes.max(1));
        let vmem_size = (lane / f64::from(128 << 10)).sqrt();
        let (issue, lanes) = (SmallVec::new(), SmallVec::new());
        let mut c =
            Counted { chip, work, read: 0, written: 0, smem: 0, weights: 0.0, issue, lanes, host: 0, vmem_size };
        let a = &work.activity;
        for &kind in Activity::ALL.iter().filter(|&&kind| a[kind] > 0) {
            let n = a[kind];
            match price(kind) {
                Price::Bytes { read, written, smem } => {
                    c.read += 8 * n * read;
                    c.written += 8 * n * written;
                    c.smem += 8 * n * smem;
                }
                Price::Weights(bits) => c.weights += bits * n as f64,
                Price::Issue(cost) => c.issue.push((cost, n as f64)),
                Price::Host => c.host += 8 * n,
                Price::Lane(cost) => {
                    let empty = work.empty[kind].min(n) as f64;
                    c.lanes.push((cost, n as f64 - empty, empty));
                }
                // By cell, with the share that is useful; or not by itself.
                Price::Rows | Price::Within(_) => {}
            }
        }
        c
    }

    /// Tells `add` what the work takes where and what for, without what chips take that do nothing.
    #[inline(always)]
    fn each<N: Number>(&self, prices: &Prices<N>, mut add: impl FnMut(Unit, Purpose, N)) {
        let (chip, work) = (self.chip, self.work);
        let p = |c: Cost| prices.get(c) * 1e-12;
        let v2 = voltage_squared(chip, prices);
        for (i, cost) in [Cost::MacBf16, Cost::MacInt8, Cost::MacF8].into_iter().enumerate() {
            add(Unit::Mxu, Purpose::Useful, v2 * work.useful[i] * p(cost));
            add(Unit::Mxu, Purpose::Padding, v2 * work.padding[i] * p(cost) * prices.get(Cost::MacPadding));
        }
        // A weight passes half of the rows on its way to its cell.
        add(Unit::Mxu, Purpose::Weights, v2 * self.weights * f64::from(chip.mxu.rows) * 0.5 * p(Cost::WeightBit));
        for &(cost, useful, empty) in &self.lanes {
            let unit = if cost == Cost::Xlu { Unit::Xlu } else { Unit::Vpu };
            add(unit, Purpose::Useful, v2 * useful * p(cost));
            add(unit, Purpose::Padding, v2 * empty * p(cost));
        }
        let vmem = p(Cost::VmemRead) * self.read as f64 + p(Cost::VmemWrite) * self.written as f64;
        add(Unit::Vmem, Purpose::Movement, v2 * (vmem * self.vmem_size));
        add(Unit::Smem, Purpose::Control, v2 * self.smem as f64 * p(Cost::Smem));
        let issue = self.issue.iter().fold(N::default(), |sum, &(cost, n)| sum + p(cost) * n);
        add(Unit::Issue, Purpose::Control, v2 * issue);
        let hbm = 8.0 * work.traffic.hbm() as f64;
        add(Unit::Hbm, Purpose::Movement, (p(Cost::HbmDevice) + p(Cost::HbmInterface)) * hbm);
        let (read, write) = (8.0 * work.traffic.cmem_read as f64, 8.0 * work.traffic.cmem_write as f64);
        add(Unit::Cmem, Purpose::Movement, v2 * (p(Cost::CmemRead) * read + p(Cost::CmemWrite) * write));
        add(Unit::Ici, Purpose::Movement, over_links(work.link_bytes as f64, prices));
        add(Unit::Host, Purpose::Movement, p(Cost::Host) * self.host as f64);
    }

    /// Energy of the work, without what chips take that do nothing.
    pub fn dynamic(&self, prices: &Prices) -> Energy {
        let mut e = Energy::default();
        self.each(prices, |unit, purpose, joules| e.add(unit, purpose, joules));
        e
    }

    /// What so many devices are of a chip, and of its idle power.
    fn chips(&self, devices: u32) -> f64 {
        f64::from(devices) / f64::from(self.chip.devices_per_chip().max(1))
    }

    /// Energy of the work, which took `seconds` on `devices`, idle power included.
    pub fn energy(&self, seconds: f64, devices: u32, prices: &Prices) -> Energy {
        let mut e = self.dynamic(prices);
        e.add(Unit::Idle, Purpose::Idle, idle_power(self.chip, prices) * self.chips(devices) * seconds);
        e
    }

    /// The total of [`Counted::energy`]; `mm2`: the area that the prices make of the chip.
    pub fn total<N: Number>(&self, (seconds, devices): (f64, u32), prices: &Prices<N>, mm2: N) -> N {
        let mut units = [N::default(); UNITS];
        self.each(prices, |unit, _, joules| units[unit as usize] += joules);
        units[Unit::Idle as usize] += idle_power_of(mm2, self.chip, prices) * self.chips(devices) * seconds;
        sum(&units)
    }
}

/// [`Counted::dynamic`] of one list of prices.
pub fn dynamic(chip: &ChipConfig, work: &Work, prices: &Prices) -> Energy {
    Counted::of(chip, work).dynamic(prices)
}

/// [`Counted::energy`] of one list of prices.
pub fn energy(chip: &ChipConfig, work: &Work, seconds: f64, devices: u32, prices: &Prices) -> Energy {
    Counted::of(chip, work).energy(seconds, devices, prices)
}

/// Flops of one operand type: the type, how many, and the peak that they are compared with in flops per second.
pub type Flops = (DType, f64, f64);

/// What a multiply-add of an operand type costs at the least; types that the matrix units lack are computed as bf16.
fn mac(chip: &ChipConfig, operand: DType) -> Cost {
    let has = |prefix: &str| chip.mxu.types.iter().any(|t| t.operand.starts_with(prefix));
    match (operand.bits() <= 8, operand.is_float()) {
        (true, true) if has("f8") => Cost::MacF8,
        (true, false) if has("s8") => Cost::MacInt8,
        (true | false, _) => Cost::MacBf16,
    }
}

/// The least pJ per flop at an intensity (flops per HBM byte) of a mix of operand types: multiply-adds, their share of HBM,
/// and idle power for the time that the roofline allows. Without flops it is that of bf16.
pub fn floor(chip: &ChipConfig, intensity: f64, mix: &[Flops], prices: &Prices) -> f64 {
    let bf16 = [(DType::BF16, 1.0, chip.peak_flops(DType::BF16))];
    let mix = if mix.iter().any(|m| m.1 > 0.0) { mix } else { &bf16 };
    let all: f64 = mix.iter().map(|m| m.1).sum();
    let compute: f64 = mix.iter().map(|m| m.1 / all * prices.get(mac(chip, m.0)) / 2.0).sum();
    let at_peak: f64 = mix.iter().map(|m| m.1 / all / m.2.max(1.0)).sum();
    let bytes = 1.0 / intensity.max(1e-12);
    let seconds = at_peak.max(bytes / (chip.device_hbm_bandwidth() * chip.hbm.efficiency).max(1.0));
    let move_pj = 8.0 * bytes * (prices.get(Cost::HbmDevice) + prices.get(Cost::HbmInterface));
    let idle = idle_power(chip, prices) / f64::from(chip.devices_per_chip().max(1)) * seconds * 1e12;
    voltage_squared(chip, prices) * compute + move_pj + idle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_that_of_the_types_that_are_computed() {
        let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
        let prices = Prices::of(&chip);
        let of = |mix: &[Flops]| floor(&chip, 1e4, mix, &prices);
        let one = |t: DType| (t, 1.0, chip.peak_flops(t));
        let (bf16, s8) = (of(&[one(DType::BF16)]), of(&[one(DType::S8)]));
        assert!(s8 < bf16, "{s8} {bf16}");
        assert_eq!(of(&[]), bf16);
        let both = of(&[one(DType::BF16), one(DType::S8)]);
        assert!((both - (bf16 + s8) / 2.0).abs() < 1e-9 * both, "{both}");
        // Less intensity costs more.
        assert!(floor(&chip, 1.0, &[one(DType::S8)], &prices) > s8);
    }

    #[test]
    fn a_faster_clock_asks_for_more_voltage_of_an_idle_chip_too() {
        let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
        let mut fast = chip.clone();
        fast.apply_sets(&["clock=3 GHz"]).expect("in range");
        let prices = Prices::of(&chip);
        let (slope, nominal) = (prices.get(Cost::VoltageSlope), prices.get(Cost::NominalClock) * 1e9);
        let volts = |c: &ChipConfig| 1.0 + slope * (c.clock_hz / nominal - 1.0);
        let expected = (volts(&fast) / volts(&chip)).powi(2);
        assert!(expected > 1.05, "{expected}");
        let ratio = idle_power(&fast, &prices) / idle_power(&chip, &prices);
        assert!((ratio - expected).abs() < 1e-9, "{ratio} against {expected}");
    }
}
