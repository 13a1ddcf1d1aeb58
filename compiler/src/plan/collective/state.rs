//! Where an exchange that is made in moves is, in words of scalar memory.

/// Words of scalar memory that say where an exchange is.
#[derive(Clone, Copy, Debug)]
pub enum State {
    Phase,
    /// Moves of the phase that were made.
    Moves,
    /// Step round a ring, batch, piece of the batch, and how many batches and steps there were.
    Step,
    Batch,
    Piece,
    Turn,
    Src,
    Dst,
    Temp,
    /// First row of the slots.
    Slots,
    /// Not zero: moves are made even if they have to wait.
    Blocking,
    /// Number of the exchange under way among those that are hidden, from 1; 0 without one.
    Current,
    /// Estimated cycles of the moves that were made (of one ring among several): the same at the same move on all devices.
    Made,
    /// Bytes on the semaphore of what comes last (of the collective) without which the next move would wait; 0 if
    /// others decide, very many if there are no more moves.
    Wanted,
}

/// How many words an exchange takes; one of several rings takes as many for each.
pub const STATE_WORDS: u32 = State::Wanted as u32 + 1;
/// Most rings that run side by side in one exchange.
pub const MOST_RINGS: u32 = 3;
