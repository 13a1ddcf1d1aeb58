//! What formulas of energy and area compute with: a number, or those of several draws beside each other. Each of these goes the way that
//! it goes by itself, so that its result is the same to the last bit.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

/// Numbers beside each other: as many as hosts' vector units add in a few instructions.
pub const BESIDE: usize = 8;

/// One number, or several.
pub trait Number:
    Copy
    + Default
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Mul<f64, Output = Self>
    + Div<Output = Self>
{
    /// The same number everywhere.
    fn of(x: f64) -> Self;

    /// A function of each.
    fn map(self, f: impl Fn(f64) -> f64) -> Self;

    /// A function of each and another one.
    fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self;
}

impl Number for f64 {
    fn of(x: f64) -> f64 {
        x
    }

    fn map(self, f: impl Fn(f64) -> f64) -> f64 {
        f(self)
    }

    fn zip(self, other: f64, f: impl Fn(f64, f64) -> f64) -> f64 {
        f(self, other)
    }
}

/// Numbers of [`BESIDE`] draws.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Several(pub [f64; BESIDE]);

impl Number for Several {
    #[inline(always)]
    fn of(x: f64) -> Several {
        Several([x; BESIDE])
    }

    #[inline(always)]
    fn map(self, f: impl Fn(f64) -> f64) -> Several {
        Several(self.0.map(f))
    }

    #[inline(always)]
    fn zip(self, other: Several, f: impl Fn(f64, f64) -> f64) -> Several {
        Several(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Add for Several {
    type Output = Several;

    #[inline(always)]
    fn add(self, other: Several) -> Several {
        self.zip(other, |a, b| a + b)
    }
}

impl AddAssign for Several {
    #[inline(always)]
    fn add_assign(&mut self, other: Several) {
        *self = *self + other;
    }
}

impl Sub for Several {
    type Output = Several;

    #[inline(always)]
    fn sub(self, other: Several) -> Several {
        self.zip(other, |a, b| a - b)
    }
}

impl Mul for Several {
    type Output = Several;

    #[inline(always)]
    fn mul(self, other: Several) -> Several {
        self.zip(other, |a, b| a * b)
    }
}

impl Mul<f64> for Several {
    type Output = Several;

    #[inline(always)]
    fn mul(self, factor: f64) -> Several {
        self.map(|x| x * factor)
    }
}

impl Div for Several {
    type Output = Several;

    #[inline(always)]
    fn div(self, other: Several) -> Several {
        self.zip(other, |a, b| a / b)
    }
}
