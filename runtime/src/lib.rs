//! The host side: clients, devices, buffers and executables over the compiler and the simulator, and array files.
//!
//! ```
//! use systole_runtime::{Array, Client, CompileOptions};
//!
//! let client = Client::new("tiny").unwrap();
//! let text = "HloModule add\nENTRY e { a = f32[3] parameter(0) b = f32[3] parameter(1) ROOT c = f32[3] add(a, b) }";
//! let exe = client.compile_hlo(text, &CompileOptions::default()).unwrap();
//! let a = Array::from_f32(&[3], &[1.0, 2.0, 3.0]);
//! let b = Array::from_f32(&[3], &[10.0, 20.0, 30.0]);
//! let out = client.device(0).run(&exe, &[a, b]).unwrap();
//! assert_eq!(out.outputs[0].to_f32(), vec![11.0, 22.0, 33.0]);
//! assert!(out.result.cycles > 0);
//! ```

#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod array;
mod choose;
pub mod client;
pub mod cost;
pub mod error;
pub mod executions;
pub mod export;
pub mod files;
pub mod generate;
pub mod host;
pub mod memory;
pub mod npz;
pub mod options;
mod order;
pub mod origin;
mod percent;
pub mod pod;
pub mod profile;
pub mod report;
pub mod source;
pub mod spmd;
pub mod transfer;
pub mod tune;

pub use array::Array;
pub use client::{Client, CompileOptions, Device, Executable, Execution, RunOptions, Ways};
pub use error::RuntimeError;
pub use host::{CustomCall, Queues, Registry};
pub use pod::{Attached, PodExecution, PodOptions};
pub use report::{InputsFrom, Ran, Report, Setup, report};
pub use systole_compiler::passes::options::Asked;
pub use systole_compiler::passes::transfers::EntryLayouts;
pub use systole_simulator::{Assume, Fault, Mode, NoObserver, Observer, PodRun, RunResult};
pub use transfer::{Finished, Inputs, PodFinished};
