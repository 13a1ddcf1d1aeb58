//! The columns of a sweep's table that are numbers.

use serde::Serialize;

macro_rules! columns {
    ($($field:ident $doc:literal;)+) => {
        /// The numbers of a row.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct Numbers { $(#[doc = $doc] pub $field: f64),+ }

        /// Names of the columns that are numbers, with their meaning.
        pub const NUMBERS: &[(&str, &str)] = &[$((stringify!($field), $doc)),+];

        impl Numbers {
            /// A column by its name.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name { $(stringify!($field) => Some(self.$field),)+ _ => None }
            }
        }
    };
}

columns! {
    cycles "Cycles of the slowest device.";
    time_s "Seconds.";
    flops "Useful flops of one device.";
    peak_share "Flops over the peak.";
    hbm_share "HBM bandwidth used.";
    mxu_busy "Busy share of the busiest matrix unit.";
    vpu_busy "Busy share of the vector ALUs.";
    energy_j "Joules of all devices.";
    energy_low_j "The same in 5 % of the draws.";
    energy_high_j "The same in 95 % of the draws.";
    power_w "Average watts of a chip.";
    peak_power_w "Watts of a chip in its hottest operation.";
    idle_w "Watts of a chip that does nothing.";
    pj_per_flop "Picojoules per useful flop.";
    edp_js "Energy times time.";
    gflops_per_w "Useful Gflop/s per watt.";
    gflops_per_mm2 "Useful Gflop/s per mm2.";
    area_mm2 "Area of a chip.";
    area_low_mm2 "The same in 5 % of the draws.";
    area_high_mm2 "The same in 95 % of the draws.";
    hbm_bytes "HBM bytes of all devices.";
    link_bytes "Bytes times links crossed.";
}

/// Names of the columns that are numbers.
pub fn numbers() -> Vec<&'static str> {
    NUMBERS.iter().map(|n| n.0).collect()
}

/// Whether a column is one of numbers.
pub fn is_number(name: &str) -> bool {
    NUMBERS.iter().any(|n| n.0 == name)
}
