//! Names of attributes' values in HLO text.

use super::{Direction, FftKind, Precision, RngAlgorithm, RngDistribution, TriangularTranspose};

/// Comparison directions by name.
pub const DIRECTIONS: [(&str, Direction); 6] = [
    ("EQ", Direction::Eq),
    ("NE", Direction::Ne),
    ("GE", Direction::Ge),
    ("GT", Direction::Gt),
    ("LE", Direction::Le),
    ("LT", Direction::Lt),
];

pub const PRECISIONS: [(&str, Precision); 3] =
    [("default", Precision::Default), ("high", Precision::High), ("highest", Precision::Highest)];

pub const FFT_KINDS: [(&str, FftKind); 4] =
    [("FFT", FftKind::Fft), ("IFFT", FftKind::Ifft), ("RFFT", FftKind::Rfft), ("IRFFT", FftKind::Irfft)];

pub const TRANSPOSES: [(&str, TriangularTranspose); 3] = [
    ("NO_TRANSPOSE", TriangularTranspose::No),
    ("TRANSPOSE", TriangularTranspose::Transpose),
    ("ADJOINT", TriangularTranspose::Adjoint),
];

pub const DISTRIBUTIONS: [(&str, RngDistribution); 2] =
    [("rng_uniform", RngDistribution::Uniform), ("rng_normal", RngDistribution::Normal)];

pub const ALGORITHMS: [(&str, RngAlgorithm); 3] = [
    ("rng_default", RngAlgorithm::Default),
    ("rng_three_fry", RngAlgorithm::ThreeFry),
    ("rng_philox", RngAlgorithm::Philox),
];

/// The name of a value in one of the tables above.
pub fn name_in<T: PartialEq>(table: &[(&'static str, T)], value: &T) -> &'static str {
    table.iter().find(|(_, v)| v == value).map_or("?", |(n, _)| n)
}
