//! Hand-built bundle programs against cycle counts that can be derived on paper and results that can be computed by
//! hand.

mod activity;
mod build;
mod cores;
mod dma;
mod faults;
mod laps;
mod matrix;
mod memo;
mod modes;
mod opcodes;
mod skip;
mod timing;
