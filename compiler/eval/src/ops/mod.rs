//! The meaning of the operations on arrays, a file for each family.

pub(super) mod collective;
pub(super) mod contract;
pub(super) mod conv;
pub(super) mod custom;
pub(super) mod elementwise;
pub(super) mod fft;
pub(super) mod gather;
pub(super) mod initial;
pub(super) mod linalg;
pub(super) mod matrix;
pub(super) mod movement;
pub(super) mod norm;
pub(super) mod random;
pub(super) mod reduce;
pub(super) mod sort;
pub(super) mod window;
