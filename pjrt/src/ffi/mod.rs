//! The structures of the PJRT C interface (version 0.112), by hand.

/// Proves at compile time that structures are laid out as in C, a row each: its size, a field (most often the last), and where
/// that stands.
macro_rules! layouts {
    ($($of:ident: $size:literal, $field:ident at $offset:literal;)+) => {
        const _: () = {$(
            assert!(size_of::<$of>() == $size, "a structure's size differs from C's");
            assert!(std::mem::offset_of!($of, $field) == $offset, "a structure's field stands elsewhere in C");
        )+};
    };
}

pub mod buffer;
pub mod common;
pub mod device;
pub mod executable;
pub mod handle;
