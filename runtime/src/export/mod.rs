//! Profiles in the formats of other viewers: Chrome's trace JSON, Perfetto's protocol buffers, XProf's XPlane; and as a page
//! of HTML.
//!
//! Spans of operations are written as they were recorded; where there are more than the viewer should get, they are joined
//! over windows of time, which keeps every operation's total. Times are from the start of the run.

pub mod chrome;
mod energy;
mod events;
mod hlo;
pub mod html;
pub mod module;
pub mod perfetto;
pub mod plot;
mod proto;
pub mod xplane;
