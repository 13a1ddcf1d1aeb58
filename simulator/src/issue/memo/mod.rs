//! Timing by memory of what happened before, as FastSim did for an out-of-order core.
//!
//! How a straight piece of code goes depends on little: what of registers, queues and units is not ready at its begin, and
//! the first cycle in which it may issue. Both relative to the last issue repeat over and over. So states are interned
//! ([`table`]), and what a piece does from a state (its length, stalls by cause, what units were busy, the state behind it) is
//! found once by the plain walk, kept as a transition, and replayed when the piece begins in that state again. A replay
//! chooses nothing: what is not in the state (scalars, branches, transfers, waits, messages) is computed each time, at the
//! cycles that the transition names ([`pieces`]). A wait that holds its bundle up longer than anything in the state only makes
//! the same transition later.
//!
//! Where a piece is the whole body of a counted loop, leads from a state to the same one, and computes scalars that move by the same
//! amount in every round, all rounds but the last are one replay.
//!
//! Transitions that followed each other are linked ([`links`]): between them a replay asks only where branches go. Rounds of a loop that
//! several links make are composed ([`lap`]), and replayed as one if all branches in them will go where they went ([`laps`]); so are
//! several rounds that come in the same order again ([`trail`]).
//!
//! Counters that need no order are counted by transition, and added up where somebody asks for them; samples ask for few of them, which
//! links and rounds have as rows of numbers ([`rows`]). Cores of pods, which take turns, write down what they replayed until then
//! ([`log`]).
//!
//! The plain walk ([`super::run`]) remains: it runs what is watched bundle by bundle, what is seen for the first times, and
//! pieces whose states hardly repeat or that are too short to gain; and it is what replays are tested against.

mod find;
mod lap;
mod laps;
mod links;
mod log;
mod number;
mod pieces;
mod rows;
mod state;
mod table;
mod trail;
mod walk;

pub(crate) use log::{Counts, Log};
pub(super) use state::{Used, used};
pub(super) use table::Recorder;
pub(crate) use table::{ALL, NONE, Numbers, Pool, Table};
