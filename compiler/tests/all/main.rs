//! Plans, and code of them, through the compiler's interface.
//!
//! One program: it is built and linked once, and its tests run beside each other.

mod attempts;
mod collectives;
mod exchanges;
mod planning;
mod schedules;
mod texts;
